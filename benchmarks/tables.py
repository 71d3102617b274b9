"""Writes the tables of README and docs, and plots, from the rows in benchmarks/results; that of the promised
bounds from smallmm/_bounds.py.

    python benchmarks/tables.py            rewrite PAGES and draw results/*.svg
    python benchmarks/tables.py --check    exit 1 if a page is not what the rows say

Text between `<!-- begin: NAME -->` and `<!-- end: NAME -->` is replaced by section NAME of SECTIONS.
(The figures of docs/cuda.md are those of tables_cuda.py.)
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import harness
import operations
import plots
import verdicts
import verdicts_linalg
from plots import Cases
from verdicts import NUMPY, OURS, Row, ns

from smallmm._bounds import BOUNDS

COLUMNS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
REGIMES = {"in-cache": "batch of about 1 MB, in cache", "out-of-cache": "batch of 1 GB, out of cache"}


class Machine:
    """One machine's rows of a suite by topic."""

    def __init__(self, about: dict[str, object]):
        self.about = about
        self.topics: dict[str, list[Row]] = defaultdict(list)

    @property
    def date(self) -> str:
        return max(r["date"] for rows in self.topics.values() for r in rows)

    def cases(self, topic: str, dtype: str, op: str = "matmul") -> dict[int, dict[str, Row]]:
        """The rows of one thread by order and contender; of a matrix times a vector n is 1."""
        found: dict[int, dict[str, Row]] = defaultdict(dict)
        for r in self.topics[topic]:
            if r["dtype"] == dtype and r["threads"] == 1 and r["op"] in (op, "2r1w-nt"):
                found[max(r["n"], r["k"])][r["op"] if r["contender"] == "roofline" else r["contender"]] = r
        return found


@dataclass(frozen=True)
class Results:
    """The rows of a folder."""

    folder: Path

    @cache  # noqa: B019, there is one
    def machines(self, suite: str) -> list[Machine]:
        """Every machine with rows of the suite: the one that most was measured on first, then the latest."""
        found: dict[str, Machine] = {}
        for path in sorted(self.folder.glob(f"{suite}-*.jsonl")):
            about, rows = harness.read_rows(path)
            machine = found.setdefault(about["slug"], Machine(about))
            machine.topics[path.stem.rpartition("-")[2]] += rows

        def rank(machine: Machine) -> tuple[int, str]:
            return len([*self.folder.glob(f"*-{machine.about['slug']}-*.jsonl")]), machine.date

        return sorted(found.values(), key=rank, reverse=True)

    @property
    def accuracy(self) -> tuple[Row, list[Row]]:
        """The latest machine and rows of bench_accuracy.py."""
        found = [harness.read_rows(path) for path in sorted(self.folder.glob("accuracy-*.jsonl"))]
        return max(found, key=lambda x: x[1][0]["date"])


def number(ns: float) -> str:
    return f"{ns:.2f}" if ns < 10 else f"{ns:.1f}" if ns < 100 else f"{ns:.0f}"


def markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def table(machine: Machine, topic: str, dtype: str) -> str:
    """ns per matrix by contender and n; the fastest of a column in bold; ratio to np.matmul below."""
    cases = machine.cases(topic, dtype)
    orders = [n for n in COLUMNS if n in cases]
    names = list(dict.fromkeys(name for n in orders for name in cases[n] if name != "2r1w-nt"))
    lines = []
    for name in sorted(names, key=lambda name: name == OURS):
        cells = []
        for n in orders:
            ns = {c: r["ns_per_matrix"] for c, r in cases[n].items() if r["op"] == "matmul"}
            text = number(ns[name]) if name in ns else ""
            cells.append(f"**{text}**" if text and ns[name] == min(ns.values()) else text)
        lines.append([f"`{name}`" if name != OURS else "**smallmm**", *cells])
    pairs = [(cases[n].get(NUMPY), cases[n].get(OURS)) for n in orders]
    ratios = [f"{a['ns_per_matrix'] / b['ns_per_matrix']:.2g}x" if a and b else "" for a, b in pairs]
    lines.append(["times faster than `np.matmul`", *ratios])
    bounds = [(cases[n].get("2r1w-nt"), cases[n].get(OURS)) for n in orders]
    if any(a and b for a, b in bounds):
        shares = [f"{b['gbytes'] / a['gbytes']:.0%}" if a and b else "" for a, b in bounds]
        lines.append(["share of memory bandwidth", *shares])
    return markdown([f"{dtype}, ns per matrix, n =", *map(str, orders)], lines)


def caption(machine: Machine, topic: str, what: str) -> str:
    rows = machine.topics[topic]
    numpy = next((r["version"] for r in rows if r["contender"] == NUMPY), "none")
    about = machine.about
    return (
        f"{about['cpu']}, one thread, {REGIMES[rows[0]['regime']]}, {what}, `out=` preallocated; "
        f"NumPy {numpy}; commit {rows[0]['commit']}, {rows[0]['date']}."
    )


def losses(machine: Machine) -> str:
    """Where a peer is faster, in words."""
    lost: dict[str, list[str]] = defaultdict(list)
    for topic, where in (("square", "in cache"), ("memory", "out of cache")):
        for dtype in harness.DTYPES:
            for n, case in sorted(machine.cases(topic, dtype).items()):
                for name, r in case.items():
                    if r["op"] == "matmul" and name != OURS and OURS in case:
                        ratio = r["ns_per_matrix"] / case[OURS]["ns_per_matrix"]
                        if ratio < 1:
                            lost[f"{name} {where} {dtype}"].append(f"{n} ({ratio:.2f})")
    lines = [f"{name}, n = {', '.join(at)}" for name, at in lost.items()]
    text = f"Where another is faster (its time / ours): {'; '.join(lines) or 'nowhere measured'}."
    rect = list(verdicts.rect(machine.topics["rect"]))
    if rect:
        text += f" Random rectangular shapes slower than `np.matmul`: {rect[0].figure}."
    return text


def layouts_table(machine: Machine) -> str:
    """How many times as long as contiguous operands ours takes for transposed and broadcast ones."""
    ours = [r for r in machine.topics["layout"] if r["contender"] == OURS]
    contiguous = {
        (r["regime"], r["dtype"], r["n"]): r["ns_per_matrix"] for r in ours if r["layout"] == "contiguous"
    }
    lines = []
    for kind in dict.fromkeys(r["layout"] for r in ours if r["layout"] != "contiguous"):
        line = [kind]
        for regime in REGIMES:
            ratios = [
                (r["ns_per_matrix"] / contiguous[regime, r["dtype"], r["n"]], r["dtype"], r["n"])
                for r in ours
                if (r["layout"], r["regime"]) == (kind, regime)
            ]
            if ratios:
                most, dtype, n = max(ratios)
                line += [f"{statistics.median(x for x, *_ in ratios):.2f}", f"{most:.2f} ({dtype} n = {n})"]
            else:
                line += ["", ""]
        lines.append(line)
    return markdown(["time / contiguous", "in cache: median", "most", "out of cache: median", "most"], lines)


def matmul_section(results: Results) -> str:
    machine = results.machines("matmul")[0]
    return "\n\n".join(
        [table(machine, "square", "f64"), caption(machine, "square", "square matrices"), losses(machine)]
    )


def matmul_details(results: Results) -> str:
    parts = []
    for machine in results.machines("matmul"):
        parts.append(f"### {machine.about['cpu']}")
        parts.append(picture("ns per matrix against n", plot_name(machine, "matmul")))
        for topic, what in (
            ("square", "square matrices"),
            ("vector", "a square matrix times a vector"),
            ("memory", "square matrices"),
        ):
            if machine.topics[topic]:
                tables = [table(machine, topic, d) for d in ("f64", "f32") if machine.cases(topic, d)]
                parts += [caption(machine, topic, what), *tables]
        parts.append(losses(machine))
        if machine.topics["layout"]:
            parts += [caption(machine, "layout", "operands in other layouts"), layouts_table(machine)]
        judged = list(verdicts.threads(machine.topics["threads"]))
        if judged:
            lines = [[v.text, v.figure] for v in judged]
            parts.append(markdown(["threads", "figure"], lines))
    return "\n\n".join(parts)


# --- the headline -----------------------------------------------------------------------------------

HEADLINE = {"matmul": "products", "solve": "systems"}  # op: what the README calls it


def device_cases(folder: Path, op: str, dtype: str) -> tuple[Row, Cases] | None:
    """The GPU that has rows of an operation, and its rows by n and contender."""
    suite = "matmul" if op == "matmul" else "linalg"
    for path in sorted((folder / "cuda").glob(f"{suite}-*-square.jsonl")):
        about, rows = harness.read_rows(path)
        cases: Cases = defaultdict(dict)
        for r in rows:
            if (r["op"], r["dtype"]) == (op, dtype):
                cases[r["n"]][r["contender"]] = r
        if cases:
            return about, cases
    return None


def headline_panels(results: Results) -> dict[str, dict[str, Cases]]:
    """f64: for each operation that both have rows of, its rows on the CPU and on the GPU, without those
    who do less than was asked."""
    panels = {}
    for op, words in HEADLINE.items():
        machine = results.machines("matmul" if op == "matmul" else "linalg")[0]
        device = device_cases(results.folder, op, "f64")
        if device:
            on_cpu = {
                n: {name: r for name, r in case.items() if not r.get("less")}
                for n, case in machine.cases("square", "f64", op).items()
            }
            panels[f"{words}, f64"] = {
                f"{machine.about['cpu']}, one core": on_cpu,
                device[0]["device"]: device[1],
            }
    return panels


def headline_section(results: Results) -> str:
    lines = []
    for title, by_machine in headline_panels(results).items():
        for machine, cases in by_machine.items():
            lost: dict[str, list[str]] = defaultdict(list)
            for n, case in sorted(cases.items()):
                for name, r in case.items():
                    if ns(r) < ns(case[OURS]):
                        lost[plots.library(name)].append(f"{n} ({ns(r) / ns(case[OURS]):.2f})")
            where = " and ".join(f"{name} at n = {', '.join(at)}" for name, at in lost.items())
            lines.append(f"{title}, {machine}: {where or 'nowhere'}")
    return (
        f"{picture('ns per matrix against n, CPU and GPU', 'headline.svg', docs=False)}\n\n"
        f"Where another is faster (its time / ours): {'; '.join(lines)}. In cache on the CPU; operands of "
        "1 GiB on the GPU, where PyTorch and CuPy call cuBLAS. Every size, precision and operation is in "
        "[Performance](docs/performance.md) and [Arrays on NVIDIA GPUs](docs/cuda.md)."
    )


def small_losses(folder: Path) -> str:
    """Where cuBLAS is faster on stacks of a few matrices, in words."""
    lost = []
    for path in sorted((folder / "cuda").glob("matmul-*-small.jsonl")):
        cases: dict[tuple, dict[str, float]] = defaultdict(dict)
        for r in harness.read_rows(path)[1]:
            cases[r["dtype"], r["n"], r["batch"]][r["contender"]] = ns(r)
        lost += [
            f"{dtype} n = {n}, batch {batch:,} ({case['cuBLAS'] / case[OURS]:.2f})"
            for (dtype, n, batch), case in cases.items()
            if case["cuBLAS"] < case[OURS]
        ]
    return f"Small stacks on which cuBLAS is faster (its time / ours): {'; '.join(lost) or 'none measured'}."


def device_table(op: str, cases: Cases) -> str:
    """ns per matrix by contender on a GPU, f64, and ours as a share of a copy's speed."""
    columns = [n for n in COLUMNS if n in cases]
    names = list(dict.fromkeys(name for case in cases.values() for name in case))
    lines = []
    for name in sorted(names, key=lambda name: name == OURS):
        cells = []
        for n in columns:
            case = {c: ns(r) for c, r in cases[n].items()}
            text = f"{case[name]:.3g}" if name in case else ""
            cells.append(f"**{text}**" if text and case[name] == min(case.values()) else text)
        lines.append([f"`{name}`" if name != OURS else "**smallmm**", *cells])
    lines.append(["share of a copy's speed", *(f"{cases[n][OURS]['percent']:.0f}%" for n in columns)])
    return markdown([f"{op} f64, ns per matrix, n =", *map(str, columns)], lines)


def device_section(results: Results) -> str:
    parts = []
    for op in HEADLINE:
        found = device_cases(results.folder, op, "f64")
        if found:
            about, cases = found
            parts.append(device_table(op, cases))
            parts.append(
                f"{about['device']}, operands of 1 GiB, `out=` preallocated (JAX allocates); "
                f"commit {about['commit']}, {about['date']}."
            )
    return "\n\n".join([*parts, small_losses(results.folder)])


# --- the roofline -----------------------------------------------------------------------------------


def roofline_panels(machine: Machine) -> dict[str, dict[str, Any]]:
    """f64 and f32: the limits of the machine as measured, and the rows that they limit."""
    panels = {}
    for dtype in ("f64", "f32"):
        kernels = [r for r in machine.topics["kernels"] if r["dtype"] == dtype]
        memory = [r for r in machine.topics["memory"] if r["dtype"] == dtype]

        def median(rows: list[Row], op: str, field: str) -> float:
            return statistics.median(r[field] for r in rows if r["op"] == op)

        def of(rows: list[Row], name: str) -> list[Row]:
            return [r for r in rows if r["contender"] == name]

        peak = median(kernels, "fma", "gflops")
        panels[dtype] = {
            "roofs": {
                "FMA peak and L2": (peak, median(kernels, "2r1w", "gbytes")),
                "FMA peak and memory": (peak, median(memory, "2r1w-nt", "gbytes")),
            },
            "points": {
                f"{OURS} in cache, from C": of(kernels, OURS),
                f"{OURS} out of cache": of(memory, OURS),
                f"{NUMPY} out of cache": of(memory, NUMPY),
            },
        }
    return panels


def roofline_section(results: Results) -> str:
    machine = results.machines("matmul")[0]
    panels = roofline_panels(machine)
    lines = []
    orders: list[int] = []
    for dtype, panel in panels.items():
        for topic, words, op in (
            ("kernels", "in cache, from C", "2r1w"),
            ("memory", "out of cache", "2r1w-nt"),
        ):
            rows = [r for r in machine.topics[topic] if r["dtype"] == dtype]
            gbytes = {r["n"]: r["gbytes"] for r in rows if r["op"] == op}  # over the same buffers
            gflops = panel["roofs"]["FMA peak and L2"][0]
            ours = [r for r in rows if r["contender"] == OURS]
            orders = [r["n"] for r in ours]
            shares = [max(r["gflops"] / gflops, r["gbytes"] / gbytes[r["n"]]) for r in ours]
            lines.append([f"{dtype}, {words}", *(f"{share:.0%}" for share in shares)])
    limits = "; ".join(
        f"{dtype}: {panel['roofs']['FMA peak and L2'][0]:.0f} GFLOP/s, L2 "
        f"{panel['roofs']['FMA peak and L2'][1]:.0f} GB/s, memory "
        f"{panel['roofs']['FMA peak and memory'][1]:.0f} GB/s"
        for dtype, panel in panels.items()
    )
    return "\n\n".join(
        [
            picture("GFLOP/s against flops per byte", roofline_name(machine)),
            markdown(["share of the roof, n =", *map(str, orders)], lines),
            f"{machine.about['cpu']}, one thread. Its limits, medians over n: {limits}.",
        ]
    )


# --- factorizations and solves ----------------------------------------------------------------------

# Contenders as letters in a cell.
LETTERS = {"NumPy": "N", "SciPy": "S", "PyTorch": "P", "LAPACKE loop (MKL)": "L", "MKL compact": "C"}


def factor(other: Row | None, ours: Row | None) -> str:
    """How many times faster than the other."""
    if not other or not ours:
        return ""
    ratio = ns(other) / ns(ours)
    return f"{ratio:.2f}x" if ratio < 1.1 else f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"


def linalg_table(machine: Machine, topic: str, dtype: str) -> str:
    """For each operation and n: ours, the best other that does the same job, the faster in bold; ratios."""
    rows = machine.topics[topic]
    columns = [n for n in verdicts_linalg.ORDERS if n in {r["n"] for r in rows}]
    lines = []
    for op in dict.fromkeys(r["op"] for r in rows):
        cases = [machine.cases(topic, dtype, op)[n] for n in columns]
        pairs = [(case.get(OURS), verdicts_linalg.best_other(case)) for case in cases]
        if not any(ours for ours, _ in pairs):
            continue
        times: tuple[list[str], list[str]] = [], []
        for ours, best in pairs:
            fastest = min((r for r in (ours, best) if r), key=ns, default=None)
            for cells, r in zip(times, (ours, best), strict=True):
                text = number(ns(r)) if r else ""
                text = f"**{text}**" if r and r is fastest else text
                cells.append(text if r is ours or not r else f"{text} {LETTERS[r['contender']]}")
        lines += [[f"**{op}**", *times[0]], ["best other", *times[1]]]
        lines.append(["times faster", *(factor(best, ours) for ours, best in pairs)])
        numpy = [case.get(verdicts_linalg.NUMPY) for case in cases]
        called = next((r["call"] for r in numpy if r), "")
        lines.append(
            [f"than `{called}`", *(factor(r, ours) for r, (ours, _) in zip(numpy, pairs, strict=True))]
        )
    return markdown([f"{dtype}, ns per matrix, n =", *map(str, columns)], lines)


def threads_table(machine: Machine) -> str:
    """How many times faster ours is on several threads, for each operation and n."""
    rows = {(r["op"], r["dtype"], r["n"], r["threads"]): r for r in machine.topics["threads"]}
    orders = sorted({n for _, _, n, _ in rows})
    lines = [
        [
            f"{op} {dtype}, {count} threads",
            *(factor(rows.get((op, dtype, n, 1)), rows.get((op, dtype, n, count))) for n in orders),
        ]
        for op, dtype, count in dict.fromkeys((op, dtype, count) for op, dtype, _, count in rows if count > 1)
    ]
    return markdown(["times one thread, n =", *map(str, orders)], lines)


def linalg_caption(machine: Machine, topic: str) -> str:
    rows = machine.topics[topic]
    versions = {r["contender"]: r["version"] for r in rows if r["contender"] != OURS}
    others = ", ".join(f"{LETTERS[name]}: {name} {version}" for name, version in versions.items())
    less = {(r["contender"], r["op"]): r["less"] for r in rows if r["less"]}
    but = "; ".join(f"not {who} for {op}, which {what}" for (who, op), what in less.items())
    return (
        f"{machine.about['cpu']}, one thread, {REGIMES[rows[0]['regime']]}, through Python. {others}. "
        f"Best other: of those that do the same job ({but}). Commit {rows[0]['commit']}, {rows[0]['date']}."
    )


def linalg_losses(machine: Machine) -> str:
    """Where another is faster, in words."""
    lost: dict[str, list[str]] = defaultdict(list)
    for ours, case in verdicts_linalg.cases(machine.topics["square"]):
        for name, r in case.items():
            if ns(r) < ns(ours):
                what = f" (which {r['less']})" if r["less"] else ""
                lost[f"{name}{what}, {ours['op']} {ours['dtype']}"].append(
                    f"{ours['n']} ({ns(r) / ns(ours):.2f})"
                )
    lines = [f"{name}, n = {', '.join(at)}" for name, at in lost.items()]
    return f"Where another is faster (its time / ours): {'; '.join(lines) or 'nowhere measured'}."


def linalg_section(results: Results) -> str:
    machine = results.machines("linalg")[0]
    parts = [
        linalg_table(machine, "square", "f64"),
        linalg_caption(machine, "square"),
        linalg_losses(machine),
    ]
    return "\n\n".join(parts)


def linalg_details(results: Results) -> str:
    parts = []
    for machine in results.machines("linalg"):
        parts.append(f"### {machine.about['cpu']}: factorizations and solves")
        if machine.topics["square"]:
            parts.append(picture("ns per matrix against n", plot_name(machine, "linalg")))
            parts += [linalg_caption(machine, "square"), linalg_table(machine, "square", "f32")]
        if machine.topics["memory"]:
            parts += [linalg_caption(machine, "memory")]
            parts += [linalg_table(machine, "memory", dtype) for dtype in ("f64", "f32")]
        if machine.topics["threads"]:
            parts.append("In cache, between one and two megabytes of operands for each thread:")
            parts.append(threads_table(machine))
    return "\n\n".join(parts)


# --- accuracy ---------------------------------------------------------------------------------------


def accuracy_section(results: Results) -> str:
    """The largest errors in units of u, ours and LAPACK's, by operation, dtype and order."""
    about, rows = results.accuracy
    kinds = list(dict.fromkeys(r["kind"] for r in rows))
    parts = [
        picture(f"largest errors, {dtype}", f"accuracy-{about['slug']}-{dtype}.svg")
        for dtype in harness.DTYPES
    ]
    found = {(r["op"], r["dtype"], r["n"], r["kind"]): r for r in rows}

    def cell(r: Row) -> str:
        return " / ".join("NaN" if r[field] is None else f"{r[field]:.2g}" for field in ("error", "lapack"))

    lines = [
        [
            f"{op} {dtype} n = {n}",
            *(cell(found[op, dtype, n, kind]) for kind in kinds),
            f"{found[op, dtype, n, kinds[0]]['bound']}",
        ]
        for op, dtype, n, _ in found
        if n in (4, 16, 32)
    ]
    lines = list(dict.fromkeys(map(tuple, lines)))
    parts.append(markdown(["largest error / u, ours / LAPACK's", *kinds, "promised"], map(list, lines)))
    parts.append(
        f"{about['cpu']}, {rows[0]['isa']}; {rows[0]['count']} matrices of each kind and order. LAPACK: "
        f"{rows[0]['version']}. Commit {rows[0]['commit']}, {rows[0]['date']}."
    )
    return "\n\n".join(parts)


def bounds_section(results: Results) -> str:
    """The promised bounds: of docs/promises.md."""
    lines = [(bound.functions, bound.words.replace("|", "\\|")) for bound in BOUNDS.values()]
    return "\n".join(f"| {of} | {words} |" for of, words in [("function", "promise"), ("---", "---"), *lines])


# --- pages and plots --------------------------------------------------------------------------------

PAGES = ("README.md", "docs/performance.md", "docs/accuracy.md", "docs/promises.md")
SECTIONS: dict[str, Callable[[Results], str]] = {
    "headline": headline_section,
    "matmul": matmul_section,
    "matmul-details": matmul_details,
    "device": device_section,
    "linalg": linalg_section,
    "linalg-details": linalg_details,
    "roofline": roofline_section,
    "accuracy": accuracy_section,
    "bounds": bounds_section,
}


def rendered(page: str, results: Results) -> str:
    """A page with every section it marks replaced."""
    for name in re.findall(r"<!-- begin: (\S+) -->", page):
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if name not in SECTIONS or page.count(begin) != 1 or page.count(end) != 1:
            raise SystemExit(f"section {name}: unknown (know {', '.join(SECTIONS)}), or not marked once")
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = f"{before}{begin}\n{SECTIONS[name](results)}\n{end}{after}"
    return page


def picture(words: str, name: str, *, docs: bool = True) -> str:
    return f"![{words}]({'../' if docs else ''}benchmarks/results/{name})"


def plot_name(machine: Machine, suite: str) -> str:
    return f"{suite}-{machine.about['slug']}.svg"


def roofline_name(machine: Machine) -> str:
    return f"roofline-{machine.about['slug']}.svg"


def draw(results: Results) -> None:
    plots.draw_headline(results.folder / "headline.svg", headline_panels(results))
    for suite in ("matmul", "linalg"):
        for machine in results.machines(suite):
            if not machine.topics["square"]:
                continue
            if suite == "matmul":
                panels = {dtype: machine.cases("square", dtype) for dtype in ("f64", "f32")}
            else:
                panels = {f"{op} f64": machine.cases("square", "f64", op) for op in operations.OPERATIONS}
            title = f"{suite}, one thread, in cache: {machine.about['cpu']}"
            plots.draw_suite(results.folder / plot_name(machine, suite), panels, title)
    machine = results.machines("matmul")[0]
    title = f"products on one thread: {machine.about['cpu']}"
    plots.draw_roofline(results.folder / roofline_name(machine), roofline_panels(machine), title)
    about, rows = results.accuracy
    for dtype in harness.DTYPES:
        title = f"{dtype}, {rows[0]['count']} matrices of each kind and order: {about['cpu']}"
        of_dtype = [r for r in rows if r["dtype"] == dtype]
        plots.draw_accuracy(results.folder / f"accuracy-{about['slug']}-{dtype}.svg", of_dtype, title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if a page is not up to date"
    )
    options = parser.parse_args()
    results = Results(harness.RESULTS)
    for name in PAGES:
        path = harness.ROOT / name
        old = path.read_text(encoding="utf-8")
        new = rendered(old, results)
        if options.check and new != old:
            sys.exit(f"{name} is not what the rows say: run benchmarks/tables.py")
        path.write_text(new, encoding="utf-8")
    if not options.check:
        draw(results)


if __name__ == "__main__":
    main()

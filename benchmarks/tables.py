"""Writes the tables of the README, and plots, from the rows in benchmarks/results.

    python benchmarks/tables.py            rewrite README.md and draw results/<suite>-<machine>.svg
    python benchmarks/tables.py --check    exit 1 if README.md is not what the rows say

Text between `<!-- begin: NAME -->` and `<!-- end: NAME -->` is replaced by section NAME of SECTIONS.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import harness
import operations
import verdicts
import verdicts_linalg
from verdicts import NUMPY, OURS, Row, ns

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
        """The rows of one thread by n and contender."""
        found: dict[int, dict[str, Row]] = defaultdict(dict)
        for r in self.topics[topic]:
            if r["dtype"] == dtype and r["threads"] == 1 and r["op"] in (op, "2r1w-nt"):
                found[r["n"]][r["op"] if r["contender"] == "roofline" else r["contender"]] = r
        return found


def machines(folder: Path, suite: str) -> list[Machine]:
    """Every machine with rows of the suite: those of topic square first, of these the latest."""
    found: dict[str, Machine] = {}
    for path in sorted(folder.glob(f"{suite}-*.jsonl")):
        about, rows = harness.read_rows(path)
        machine = found.setdefault(about["slug"], Machine(about))
        machine.topics[path.stem.rpartition("-")[2]] += rows
    return sorted(found.values(), key=lambda m: (bool(m.topics["square"]), m.date), reverse=True)


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


def caption(machine: Machine, topic: str) -> str:
    rows = machine.topics[topic]
    numpy = next((r["version"] for r in rows if r["contender"] == NUMPY), "none")
    about = machine.about
    return (
        f"{about['cpu']}, one thread, {REGIMES[rows[0]['regime']]}, square matrices, `out=` preallocated; "
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


def matmul_section(found: list[Machine]) -> str:
    machine = found[0]
    return "\n\n".join([table(machine, "square", "f64"), caption(machine, "square"), losses(machine)])


def matmul_details(found: list[Machine]) -> str:
    parts = []
    for machine in found:
        parts.append(f"![ns per matrix against n](benchmarks/results/{plot_name(machine, 'matmul')})")
        for topic in ("square", "memory"):
            if machine.topics[topic]:
                parts += [caption(machine, topic), *(table(machine, topic, d) for d in ("f64", "f32"))]
        judged = list(verdicts.threads(machine.topics["threads"]))
        if judged:
            lines = [[v.text, v.figure] for v in judged]
            parts.append(markdown(["threads", "figure"], lines))
    return "\n\n".join(parts)


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


def linalg_section(found: list[Machine]) -> str:
    machine = found[0]
    parts = [
        linalg_table(machine, "square", "f64"),
        linalg_caption(machine, "square"),
        linalg_losses(machine),
    ]
    return "\n\n".join(parts)


def linalg_details(found: list[Machine]) -> str:
    parts = []
    for machine in found:
        if machine.topics["square"]:
            parts.append(f"![ns per matrix against n](benchmarks/results/{plot_name(machine, 'linalg')})")
            parts += [linalg_caption(machine, "square"), linalg_table(machine, "square", "f32")]
        if machine.topics["memory"]:
            parts += [linalg_caption(machine, "memory")]
            parts += [linalg_table(machine, "memory", dtype) for dtype in ("f64", "f32")]
        if machine.topics["threads"]:
            parts.append(f"{machine.about['cpu']}, in cache, 1.75 MB of operands for each thread:")
            parts.append(threads_table(machine))
    return "\n\n".join(parts)


# --- README and plots -------------------------------------------------------------------------------

# section of the README -> the suite whose rows it is made from, what makes it
SECTIONS: dict[str, tuple[str, Callable[[list[Machine]], str]]] = {
    "matmul": ("matmul", matmul_section),
    "matmul-details": ("matmul", matmul_details),
    "linalg": ("linalg", linalg_section),
    "linalg-details": ("linalg", linalg_details),
}


def rendered(readme: str, found: dict[str, list[Machine]]) -> str:
    """The README with every section it marks replaced."""
    marked = set(re.findall(r"<!-- begin: (\S+) -->", readme))
    if "matmul" not in marked or not marked <= SECTIONS.keys():
        raise SystemExit(f"README sections: found {sorted(marked)}, know {sorted(SECTIONS)}, need matmul")
    for name in marked:
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if readme.count(end) != 1:
            raise SystemExit(f"README: {end} must occur once")
        suite, section = SECTIONS[name]
        if not found[suite] or not found[suite][0].topics["square"]:
            print(f"section {name} stays as it is: bench_{suite}.py has left no rows of topic square")
            continue
        before, _, rest = readme.partition(begin)
        after = rest.partition(end)[2]
        readme = f"{before}{begin}\n{section(found[suite])}\n{end}{after}"
    return readme


def plot_name(machine: Machine, suite: str) -> str:
    return f"{suite}-{machine.about['slug']}.svg"


def draw_cases(axis: object, cases: dict[int, dict[str, Row]]) -> None:
    """ns per matrix against n, a line for each contender, ours in black."""
    lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for n, case in sorted(cases.items()):
        for name, r in case.items():
            lines[name].append((n, ns(r)))
    for name in sorted(lines, key=lambda name: name == OURS):
        ours = {"color": "black", "linewidth": 2.2} if name == OURS else {"linewidth": 1.2}
        axis.plot(*zip(*lines[name], strict=True), marker=".", label=name, **ours)
    axis.set(xscale="log", yscale="log")
    axis.set_xticks([1, 2, 3, 4, 6, 8, 12, 16, 24, 32], minor=False)
    axis.set_xticks([], minor=True)
    axis.xaxis.set_major_formatter("{x:.0f}")
    axis.grid(alpha=0.3)


def plot(machine: Machine, suite: str, folder: Path) -> None:
    """In cache, ours beside the peers: f64 and f32 of matmul, each operation of linalg in f64."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "smallmm"}
    if suite == "matmul":
        panels = {dtype: machine.cases("square", dtype) for dtype in ("f64", "f32")}
    else:
        panels = {f"{op} f64": machine.cases("square", "f64", op) for op in operations.OPERATIONS}
    rows, columns = -(-len(panels) // 3), min(3, len(panels))
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, sharey=True, layout="constrained", figsize=(5.5 * columns, 4.5 * rows)
    )
    for axis, (title, cases) in zip(axes.flat, panels.items(), strict=True):
        draw_cases(axis, cases)
        axis.set_title(title)
    for axis in axes[-1]:
        axis.set_xlabel("n")
    for axis in axes[:, 0]:
        axis.set_ylabel("ns per matrix")
    axes[0, 0].legend()
    figure.suptitle(f"{suite}, one thread, in cache: {machine.about['cpu']}", fontsize=10)
    figure.savefig(folder / plot_name(machine, suite), metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if the README is not up to date"
    )
    parser.add_argument("--readme", type=Path, default=harness.ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=harness.RESULTS)
    options = parser.parse_args()
    found = {suite: machines(options.results, suite) for suite, _ in SECTIONS.values()}
    old = options.readme.read_text(encoding="utf-8")
    new = rendered(old, found)
    if options.check:
        if new != old:
            sys.exit(f"{options.readme.name} is not what the rows say: run benchmarks/tables.py")
        return
    options.readme.write_text(new, encoding="utf-8")
    try:
        for suite, on_machines in found.items():
            for machine in on_machines:
                if machine.topics["square"]:
                    plot(machine, suite, options.results)
    except ImportError:
        print("matplotlib is not installed: no plot drawn")


if __name__ == "__main__":
    main()

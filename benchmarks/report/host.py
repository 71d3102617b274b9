"""The sections of README and docs that show what was measured on CPUs."""

from __future__ import annotations

import statistics
from typing import Any

from smallmm._tools.bench import OURS
from smallmm._tools.bounds import BOUNDS
from smallmm._tools.operations import DTYPES

from . import verdicts_matmul
from .markdown import COLUMNS, factor, losses, number, picture, table, times_of_products
from .results import NUMPY, Machine, Results, Row, best_other, label, ns, with_ours

ORDERED = ("f64", "f32", "c128", "c64")
REGIMES = {"in-cache": "batch of about 1 MB, in cache", "out-of-cache": "batch of 1 GB, out of cache"}


def provenance(rows: list[Row]) -> str:
    """After a "C" or a "c"."""
    commits = dict.fromkeys(f"{row['commit']}, {row['date']}" for row in rows)
    return f"ommit {'; '.join(commits)}."


# --- products -------------------------------------------------------------------------------------


def products(machine: Machine, topic: str, dtype: str) -> str:
    """ns per matrix by contender and n; below, the ratio to np.matmul and the share of the bandwidth."""
    cases = machine.cases(topic, dtype)
    head, lines = times_of_products(f"{dtype}, ns per matrix, n =", cases)
    orders = [n for n in COLUMNS if n in cases]
    pairs = [(cases[n].get(NUMPY), cases[n].get(OURS)) for n in orders]
    ratios = [f"{ns(a) / ns(b):.2g}x" if a and b else "" for a, b in pairs]
    lines.append(["times faster than `np.matmul`", *ratios])
    bounds = [(cases[n].get("2r1w-nt"), cases[n].get(OURS)) for n in orders]
    if any(a and b for a, b in bounds):
        shares = [f"{b['gbytes'] / a['gbytes']:.0%}" if a and b else "" for a, b in bounds]
        lines.append(["share of memory bandwidth", *shares])
    return table(head, lines)


def caption(machine: Machine, topic: str, what: str) -> str:
    rows = machine.topics[topic]
    numpy = next((r["version"] for r in rows if r["contender"] == NUMPY), "none")
    return (
        f"{machine.name}, one thread, {REGIMES[rows[0]['regime']]}, {what}, `out=` preallocated; "
        f"NumPy {numpy}; c{provenance(rows)}"
    )


def lost_products(machine: Machine) -> str:
    """Where a peer is faster, in words."""
    lost = losses(
        (f"{label(r)} {where} {dtype}", n, r, case[OURS])
        for topic, where in (("square", "in cache"), ("memory", "out of cache"))
        for dtype in DTYPES
        for n, case in sorted(machine.cases(topic, dtype).items())
        for r in case.values()
        if r["op"] == "matmul" and r["contender"] != OURS and OURS in case
    )
    text = f"Where another is faster (its time / ours): {lost}."
    rect = list(verdicts_matmul.rect(machine.topics["rect"]))
    if rect:
        text += f" Random rectangular shapes slower than `np.matmul`: {rect[0].figure}."
    return text


def layouts(machine: Machine) -> str:
    """How many times as long as contiguous operands ours takes for transposed and broadcast ones."""
    ours = [r for r in machine.topics["layout"] if r["contender"] == OURS]
    contiguous = {(r["regime"], r["dtype"], r["n"]): ns(r) for r in ours if r["layout"] == "contiguous"}
    lines = []
    for kind in dict.fromkeys(r["layout"] for r in ours if r["layout"] != "contiguous"):
        line = [kind]
        for regime in REGIMES:
            ratios = [
                (ns(r) / contiguous[regime, r["dtype"], r["n"]], r["dtype"], r["n"])
                for r in ours
                if (r["layout"], r["regime"]) == (kind, regime)
            ]
            if ratios:
                most, dtype, n = max(ratios)
                line += [f"{statistics.median(x for x, *_ in ratios):.2f}", f"{most:.2f} ({dtype} n = {n})"]
            else:
                line += ["", ""]
        lines.append(line)
    return table(["time / contiguous", "in cache: median", "most", "out of cache: median", "most"], lines)


def matmul_details(results: Results) -> str:
    parts = []
    for slug, machine in results.machines("host", "matmul").items():
        parts.append(f"### {machine.name}")
        if machine.topics["square"]:
            parts.append(picture("ns per matrix against n", f"host/matmul-{slug}.svg"))
        for topic, what in (
            ("square", "square matrices"),
            ("larger", "square matrices"),
            ("vector", "a square matrix times a vector"),
            ("memory", "square matrices"),
            ("complex_numbers", "complex square matrices"),
        ):
            if machine.topics[topic]:
                tables = [products(machine, topic, d) for d in ORDERED if machine.cases(topic, d)]
                parts += [caption(machine, topic, what), *tables]
        if machine.topics["square"]:
            parts.append(lost_products(machine))
        if machine.topics["layout"]:
            parts += [caption(machine, "layout", "operands in other layouts"), layouts(machine)]
        judged = list(verdicts_matmul.threads(machine.topics["threads"]))
        if judged:
            parts.append(table(["threads", "figure"], [[v.text, v.figure] for v in judged]))
    return "\n\n".join(parts)


# --- the roofline ---------------------------------------------------------------------------------


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
                (OURS, "in cache, from C"): of(kernels, OURS),
                (OURS, "out of cache"): of(memory, OURS),
                (NUMPY, "out of cache"): of(memory, NUMPY),
            },
        }
    return panels


def roofline(results: Results) -> str:
    slug, machine = next(iter(results.machines("host", "matmul").items()))
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
            picture("GFLOP/s against flops per byte", f"host/roofline-{slug}.svg"),
            table(["share of the roof, n =", *map(str, orders)], lines),
            f"{machine.name}, one thread. Its limits, medians over n: {limits}.",
        ]
    )


# --- factorizations and solves --------------------------------------------------------------------

# Contenders as letters in a cell.
LETTERS = {NUMPY: "N", "SciPy": "S", "PyTorch": "P", "LAPACKE loop (MKL)": "L", "MKL compact": "C"}
LISTED = (2, 3, 4, 6, 8, 12, 16, 24, 32, 33, 40, 48, 64, 100, 128)


def factorizations(machine: Machine, topic: str, dtype: str) -> str:
    """For each operation and n: ours, the best other that does the same job, the faster in bold; ratios."""
    rows = machine.topics[topic]
    columns = [n for n in LISTED if n in {r["n"] for r in rows}]
    lines = []
    for op in dict.fromkeys(r["op"] for r in rows):
        cases = [machine.cases(topic, dtype, op)[n] for n in columns]
        pairs = [(case.get(OURS), best_other(case)) for case in cases]
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
        numpy = [case.get(NUMPY) for case in cases]
        called = next((r["call"] for r in numpy if r), "")
        lines.append(
            [f"than `{called}`", *(factor(r, ours) for r, (ours, _) in zip(numpy, pairs, strict=True))]
        )
    return table([f"{dtype}, ns per matrix, n =", *map(str, columns)], lines)


def threads(machine: Machine) -> str:
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
    return table(["times one thread, n =", *map(str, orders)], lines)


def many_threads(machine: Machine) -> str:
    """Orders above 32 on all threads, beside NumPy on as many."""
    rows = machine.topics["larger_threads"]
    one = {(r["op"], r["n"]): r for r in rows if r["threads"] == 1}
    lines: dict[str, list[str]] = {}
    for ours, case in with_ours([r for r in rows if r["threads"] > 1], "op", "n"):
        alone, numpy = factor(one[ours["op"], ours["n"]], ours), factor(case.get(NUMPY), ours)
        lines.setdefault(ours["op"], [ours["op"]]).append(f"{alone}, {numpy}" if numpy else alone)
    orders = sorted({r["n"] for r in rows})
    count = max(r["threads"] for r in rows)
    head = f"f64, {rows[0]['batch']} matrices, {count} threads: times faster than one thread, than NumPy, n ="
    return f"{table([head, *map(str, orders)], lines.values())}\n\nC{provenance(rows)}"


def linalg_caption(machine: Machine, topic: str) -> str:
    rows = machine.topics[topic]
    versions = {r["contender"]: r["version"] for r in rows if r["contender"] != OURS}
    others = ", ".join(f"{LETTERS[who]}: {who} {version}" for who, version in versions.items())
    less = {(r["contender"], r["op"]): r["less"] for r in rows if r["less"]}
    but = "; ".join(f"not {who} for {op}, which {what}" for (who, op), what in less.items())
    best = f"Best other: of those that do the same job ({but}). " if less else ""
    return (
        f"{machine.name}, one thread, {REGIMES[rows[0]['regime']]}, through Python. {others}. "
        f"{best}C{provenance(rows)}"
    )


def lost_factorizations(machine: Machine) -> str:
    """Where another is faster, in words."""

    def words(r: Row) -> str:
        less = f" (which {r['less']})" if r["less"] else ""
        return f"{r['contender']}{less}, {r['op']} {r['dtype']}"

    lost = losses(
        (words(r), ours["n"], r, ours)
        for ours, case in with_ours(machine.topics["square"], "op", "dtype", "n")
        for r in case.values()
    )
    return f"Where another is faster (its time / ours): {lost}."


def linalg_details(results: Results) -> str:
    parts = []
    for slug, machine in results.machines("host", "linalg").items():
        parts.append(f"### {machine.name}: factorizations and solves")
        if machine.topics["square"]:
            parts.append(picture("ns per matrix against n", f"host/linalg-{slug}.svg"))
            parts.append(linalg_caption(machine, "square"))
            parts += [factorizations(machine, "square", dtype) for dtype in ("f64", "f32")]
            parts.append(lost_factorizations(machine))
        if machine.topics["larger"]:
            parts += ["Orders above 32:", linalg_caption(machine, "larger")]
            parts += [factorizations(machine, "larger", dtype) for dtype in ("f64", "f32", "c128")]
        if machine.topics["larger_threads"]:
            parts += ["Orders above 32 on several threads:", many_threads(machine)]
        for topic, dtypes in (("complex_numbers", ("c128", "c64")), ("memory", ("f64", "f32"))):
            if machine.topics[topic]:
                parts += [linalg_caption(machine, topic)]
                parts += [factorizations(machine, topic, dtype) for dtype in dtypes]
        if machine.topics["threads"]:
            parts.append("In cache, between one and two megabytes of operands for each thread:")
            parts.append(threads(machine))
    return "\n\n".join(parts)


# --- accuracy -------------------------------------------------------------------------------------


def accuracy(results: Results) -> str:
    """The largest errors in units of u, ours and LAPACK's, by operation, dtype and order."""
    slug, machine = results.latest("host", "accuracy")
    rows = machine.topics["errors"]
    kinds = list(dict.fromkeys(r["kind"] for r in rows))
    parts = [picture(f"largest errors, {dtype}", f"host/accuracy-{slug}-{dtype}.svg") for dtype in DTYPES]
    found = {(r["op"], r["dtype"], r["n"], r["kind"]): r for r in rows}

    def cell(r: Row) -> str:
        return " / ".join("NaN" if r[field] is None else f"{r[field]:.2g}" for field in ("error", "lapack"))

    lines = [
        [
            f"{op} {dtype} n = {n}",
            *(cell(found[op, dtype, n, kind]) for kind in kinds),
            f"{found[op, dtype, n, kinds[0]]['bound']}",
        ]
        for op, dtype, n in dict.fromkeys((op, dtype, n) for op, dtype, n, _ in found)
        if n in (4, 16, 32)
    ]
    parts.append(table(["largest error / u, ours / LAPACK's", *kinds, "promised"], lines))
    parts.append(
        f"{machine.name}, {rows[0]['isa']}; {rows[0]['count']} matrices of each kind and order. LAPACK: "
        f"{rows[0]['version']}. C{provenance(rows)}"
    )
    return "\n\n".join(parts)


def bounds(results: Results) -> str:
    """The promised bounds: of docs/promises.md."""
    lines = [(bound.functions, bound.words.replace("|", "\\|")) for bound in BOUNDS.values()]
    return "\n".join(f"| {of} | {words} |" for of, words in [("function", "promise"), ("---", "---"), *lines])


# --- other libraries ------------------------------------------------------------------------------


def clients(results: Results) -> str:
    """Their programs without and with NumPy patched, the largest gain first."""
    machine = results.first("host", "clients")
    rows = sorted(machine.topics["patched"], key=lambda row: row["patched_ms"] / row["numpy_ms"])
    head = ["library, job", "share of the loops", "matrices served", "ms", "ms patched", "times faster"]
    lines = [
        [
            f"{row['library']} {row['version']}: {row['what']}",
            f"{row['share']:.0%}",
            f"{row['served'] / max(1, row['served'] + row['handed_on']):.0%}",
            f"{row['numpy_ms']:.3g}",
            f"{row['patched_ms']:.3g}",
            f"{row['numpy_ms'] / row['patched_ms']:.2f}",
        ]
        for row in rows
    ]
    about = (
        f"{machine.name}, one thread, not quiet, NumPy {rows[0]['numpy']}, {rows[0]['isa']}; the fastest of "
        f"up to 15 bursts of each, in turn; c{provenance(rows)}"
    )
    return f"{about}\n\n{table(head, lines)}"

"""The sections of README and docs that show what was measured on GPUs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from smallmm._tools.bench import OURS

from .markdown import picture, table, times_of_products
from .results import Machine, Results, Row, best_other, groups, label, ns, ratio, with_ours

PEERS = ("cuBLAS", "PyTorch", "CuPy", "JAX")
LISTED = (2, 3, 4, 6, 8, 12, 16, 24, 32)
NAMES = {  # of operations, where it is not the function's
    "lu_factor": "`lu_factor_ex`",
    "cholesky": "`cholesky_ex`",
    "inv": "`inv_ex`",
    "solve": "`solve_ex`, 1 right-hand side",
    "qr_raw": '`qr(mode="raw")`',
}
HEADLINE = ("matmul", "solve")  # the operations that README shows


def operation(op: str) -> str:
    return NAMES.get(op, f"`{op}`")


def suite_of(op: str) -> str:
    return "matmul" if op == "matmul" else "linalg"


def origin(rows: list[Row]) -> str:
    return f"commit {rows[0]['commit']}, {rows[0]['date']}"


# --- README ---------------------------------------------------------------------------------------


def times(machine: Machine, op: str) -> str:
    """ns per matrix by contender, f64, and ours as a share of a copy's speed."""
    cases = machine.cases("square", "f64", op)
    head, lines = times_of_products(f"{op} f64, ns per matrix, n =", cases, write=lambda x: f"{x:.3g}")
    shares = [f"{cases[int(n)][OURS]['percent']:.0f}%" for n in head[1:]]
    return table(head, [*lines, ["share of a copy's speed", *shares]])


def lost_small_stacks(machine: Machine) -> str:
    """Where cuBLAS is faster on stacks of a few matrices, in words."""
    lost = [
        f"{ours['dtype']} n = {ours['n']}, batch {ours['batch']:,} ({ratio(case['cuBLAS'], ours):.2f})"
        for ours, case in with_ours(machine.topics["small"], "dtype", "n", "batch")
        if ns(case["cuBLAS"]) < ns(ours)
    ]
    return f"Small stacks on which cuBLAS is faster (its time / ours): {'; '.join(lost) or 'none measured'}."


def section(results: Results) -> str:
    parts = []
    for op in HEADLINE:
        for machine in results.machines("device", suite_of(op)).values():
            parts.append(times(machine, op))
            parts.append(
                f"{machine.name}, operands of 1 GiB, `out=` preallocated (JAX allocates); "
                f"{origin(machine.topics['square'])}."
            )
    parts += map(lost_small_stacks, results.machines("device", "matmul").values())
    return "\n\n".join(parts)


# --- products -------------------------------------------------------------------------------------


def square(machine: Machine, slug: str) -> list[str]:
    about, rows = machine.heads["square"], machine.topics["square"]
    labels = {r["contender"]: label(r) for r in rows}
    parts = [
        picture("percent of the copy against n", f"device/matmul-{slug}.svg"),
        f"{machine.name}, driver {about['driver']}, operands of 1 GiB, square matrices, `out=` "
        f"preallocated; the copy moves {about['copy_bytes_per_s'] / 1e12:.2f} TB/s (read and write "
        f"counted); {origin(rows)}. Percent: compulsory traffic over "
        "time, as a share of the copy. JAX allocates its results.",
    ]
    for dtype in ("f64", "f32"):
        lines = []
        for n, case in sorted(machine.cases("square", dtype).items()):
            ours = case[OURS]
            ratios = [f"{ratio(case[who], ours):.3g}x" if who in case else "" for who in PEERS]
            lines.append([str(n), f"{ns(ours):.3g}", f"{ours['percent']:.0f}", *ratios])
        parts.append(
            table([f"{dtype}, n", "ns", "% of copy", *(f"faster than {labels[who]}" for who in PEERS)], lines)
        )
    return parts


def larger(rows: list[Row]) -> str:
    """Above the orders that the library is for."""
    lines: dict[str, list[str]] = {}
    for ours, case in with_ours(rows, "dtype", "n"):
        best = best_other(case)
        lines.setdefault(ours["dtype"], [ours["dtype"]]).append(
            f"{ours['percent']:.0f} %, {ratio(best, ours):.2f}x {label(best)}"
        )
    orders = sorted({r["n"] for r in rows})
    return table(["% of copy, times faster than the best other; n =", *map(str, orders)], lines.values())


def rect(rows: list[Row]) -> str:
    ours = [r for r in rows if r["contender"] == OURS]
    theirs = [r for r in rows if r["contender"] == "PyTorch"]
    percents = [r["percent"] for r in ours]
    ratios = [ratio(t, o) for o, t in zip(ours, theirs, strict=True)]
    return (
        f"{len(ours)} random (m, k, n) in 1..32: {statistics.median(percents):.0f} % of the copy on the "
        f"median, {min(percents):.0f} % at least; {statistics.median(ratios):.3g} times faster than "
        f"`torch.bmm` on the median, {min(ratios):.3g} at least."
    )


def layout(rows: list[Row]) -> str:
    base = {(r["dtype"], r["n"]): r["percent"] for r in rows if r["layout"] == "contiguous"}
    lines = []
    for kind in dict.fromkeys(r["layout"] for r in rows if r["layout"] != "contiguous"):
        shares = [(r["percent"] / base[r["dtype"], r["n"]], r) for r in rows if r["layout"] == kind]
        least, worst = min(shares, key=lambda x: x[0])
        median = statistics.median(share for share, _ in shares)
        lines.append([kind, f"{100 * median:.0f}", f"{100 * least:.0f} ({worst['dtype']} n = {worst['n']})"])
    return table(["share of the contiguous figure, %", "median", "least"], lines)


def us(row: Row) -> float:
    """Of the whole batch."""
    return ns(row) * row["batch"] / 1e3


def small(rows: list[Row]) -> str:
    """Every contender's time for a batch: of products."""
    labels = {r["contender"]: label(r) for r in rows}
    names = [who for who in (OURS, *PEERS) if who in labels]
    batches = sorted({r["batch"] for r in rows})
    found = groups(rows, "dtype", "n", "batch")
    lines = [
        [
            f"{dtype} n = {n}",
            *(" / ".join(f"{us(found[dtype, n, batch][who]):.3g}" for who in names) for batch in batches),
        ]
        for dtype, n in dict.fromkeys((r["dtype"], r["n"]) for r in rows)
    ]
    head = f"us, {' / '.join(labels[who] for who in names)}; batch ="
    return table([head, *(f"{batch:,}" for batch in batches)], lines)


def host_us(rows: list[Row], op: str, contender: str) -> float:
    """The host's part of a call, on the median over the cases."""
    return statistics.median(
        r["host_us"] for r in rows if "host_us" in r and (r["op"], r["contender"]) == (op, contender)
    )


def call(rows: list[Row]) -> str:
    def most(what: str) -> float:
        return max(r["ms"] for r in rows if r.get("what") == what)

    return (
        f"Host side of a call on tensors (1000, n, n): {host_us(rows, 'matmul', OURS):.1f} us, `torch.bmm` "
        f"{host_us(rows, 'matmul', 'PyTorch'):.1f}. First compile of a kernel at most "
        f"{most('first compile'):.0f} ms, from disk {most('from disk'):.2g} ms."
    )


# --- factorizations and solves --------------------------------------------------------------------


def factorizations(machine: Machine, slug: str) -> list[str]:
    """A table for each dtype: of each operation ns a matrix, percent of the copy, the best of the others."""
    about, rows = machine.heads["square"], machine.topics["square"]
    parts = [
        "### Factorizations and solves",
        picture("percent of the copy against n", f"device/linalg-{slug}.svg"),
        f"{machine.name}, driver {about['driver']}, operands of 1 GiB, one matrix in and one out "
        "(of solves, one right-hand side in and out), pivots, info and tau not counted; others timed on at "
        f"most 100,000 matrices; {origin(rows)}. ns a matrix; percent of the "
        "copy; times faster than the best other, which is named.",
    ]
    for dtype in ("f64", "f32"):
        lines = []
        for op in dict.fromkeys(r["op"] for r in rows):
            cases, line = machine.cases("square", dtype, op), [operation(op)]
            for n in LISTED:
                ours, best = cases[n].get(OURS), best_other(cases[n])
                cell = f"{ns(ours):.3g} ns, {ours['percent']:.0f} %" if ours else ""
                if ours and best:
                    cell += f", {ratio(best, ours):.3g}x {best['contender']}"
                line.append(cell)
            lines.append(line)
        parts.append(table([f"{dtype}, n =", *map(str, LISTED)], lines))
    return parts


def larger_linalg(rows: list[Row]) -> str:
    """Above order 32, beside the fastest other."""
    orders = sorted({r["n"] for r in rows})
    lines: dict[tuple[str, str], list[str]] = {}
    for ours, case in with_ours(rows, "op", "dtype", "n"):
        best = best_other(case)
        line = lines.setdefault((ours["op"], ours["dtype"]), [f"{operation(ours['op'])} {ours['dtype']}"])
        line.append(f"{ns(ours):.3g}" + (f", {ratio(best, ours):.3g}x {best['contender']}" if best else ""))
    head = f"ns a matrix of {rows[0]['batch']}, times faster than the best other; n ="
    return f"{table([head, *map(str, orders)], lines.values())}\n\n({origin(rows)})"


def small_linalg(rows: list[Row]) -> str:
    """Ours for batches of three sizes."""
    orders = sorted({r["n"] for r in rows})
    found = {(r["op"], r["dtype"], r["n"], r["batch"]): us(r) for r in rows}
    lines = [
        [
            f"{operation(op)} {dtype}",
            *(
                " / ".join(
                    f"{found[op, dtype, n, b]:.3g}" if (op, dtype, n, b) in found else ""
                    for b in (100, 1000, 10_000)
                )
                for n in orders
            ),
        ]
        for op, dtype in dict.fromkeys((r["op"], r["dtype"]) for r in rows)
    ]
    return table(["us for a batch of 100 / 1,000 / 10,000; n =", *map(str, orders)], lines)


def call_linalg(rows: list[Row]) -> str:
    return (
        f"Host side of `inv_ex` on tensors (1000, n, n): {host_us(rows, 'inv', OURS):.1f} us, PyTorch's "
        f"{host_us(rows, 'inv', 'PyTorch'):.1f}; of `solve_ex`: {host_us(rows, 'solve', OURS):.1f} and "
        f"{host_us(rows, 'solve', 'PyTorch'):.1f}."
    )


def few_orders(rows: list[Row]) -> str:
    """A line for each operation and dtype, beside PyTorch where it has the operation."""
    orders = sorted({r["n"] for r in rows})
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for (op, dtype, n), case in groups(rows, "op", "dtype", "n").items():
        ours, other = case[OURS], case.get("PyTorch")
        cell = f"{ns(ours):.3g} ns, {ours['percent']:.0f} %"
        if other:
            times = ratio(other, ours)
            cell += f", {times:.3g}x" if times < 1000 else f", {times:,.0f}x"
        lines.setdefault((op, dtype), {})[n] = cell
    head = ["n =", *map(str, orders)]
    cells = [[f"`{op}` {dtype}", *(x.get(n, "") for n in orders)] for (op, dtype), x in lines.items()]
    origins = dict.fromkeys(f"commit {r['commit']}, {r['date']}" for r in rows)
    return f"{table(head, cells)}\n\n({'; '.join(origins)})"


def rights(rows: list[Row]) -> str:
    words = "As many right-hand sides as rows; ns a matrix, percent of the copy, times faster than PyTorch."
    return f"{words}\n\n{few_orders(rows)}"


def systems(rows: list[Row]) -> str:
    words = "Systems with structure, refinement of a solution, and eigenvalues of general matrices, likewise."
    return f"{words}\n\n{few_orders(rows)}"


def derivatives(rows: list[Row]) -> str:
    words = "Forward and backward, the gradients of the sum of the results, of many matrices, likewise."
    return f"{words}\n\n{few_orders(rows)}"


def complex_numbers(rows: list[Row]) -> str:
    return f"Complex matrices, likewise.\n\n{few_orders(rows)}"


# --- docs/records/gpu.md --------------------------------------------------------------------------

# --- large products, convolutions, diagonals ------------------------------------------------------


def compared(case: dict[str, Row], other: str) -> str:
    """Our time, the share of the copy, and how many times longer another takes."""
    ours = case[OURS]
    time = f"{us(ours):.1f} us" if ns(ours) > 1000 else f"{ns(ours):.3g} ns"
    return f"{time}, {ours['percent']:.0f} %, {ratio(case[other], ours):.2f}x"


def geometric_mean(cases: Iterable[dict[str, Row]], other: str) -> float:
    return statistics.geometric_mean(ratio(case[other], case[OURS]) for case in cases)


def of_shapes(machine: Machine, slug: str) -> list[str]:
    return [
        f"{machine.name}: few large or deep products, and convolutions, by calls in a CUDA graph with "
        "operands that are not in L2; time, percent of the copy, times faster than PyTorch (cuBLAS, cuDNN)."
    ]


def deep(rows: list[Row]) -> str:
    return f"Products ({origin(rows)}):\n\n{products(rows)}"


def tensor(rows: list[Row]) -> str:
    return f'Products with `precision="tensor"` ({origin(rows)}):\n\n{products(rows)}'


def products(rows: list[Row]) -> str:
    cases = groups(rows, "which", "layout", "m", "n", "k", "dtype")
    lines: dict[tuple[object, ...], list[str]] = {}
    for (which, layout, m, n, k, _), case in cases.items():
        words = f"{which} ({layout}) {m} x {n} x {k}"
        lines.setdefault((which, layout, m, n, k), [words]).append(compared(case, "PyTorch"))
    dtypes = list(dict.fromkeys(r["dtype"] for r in rows))
    means = [
        f"{geometric_mean((case for key, case in cases.items() if key[-1] == dtype), 'PyTorch'):.2f}x"
        for dtype in dtypes
    ]
    head = ["product (layouts of A, B; T: by columns), m x n x k", *dtypes]
    return table(head, [*lines.values(), ["geometric mean", *means]])


def convolution(rows: list[Row]) -> str:
    cases = groups(rows, "which", "stride", "padding", "m", "n", "k")
    lines = [
        [f"{which}", f"{m} x {n} x {k}", f"{stride}, {padding}", compared(case, "PyTorch")]
        for (which, stride, padding, m, n, k), case in cases.items()
    ]
    mean = ["geometric mean", "", "", f"{geometric_mean(cases.values(), 'PyTorch'):.2f}x"]
    head = ["convolution", "filters x outputs x terms", "stride, padding", "f32"]
    return f"Convolutions ({origin(rows)}):\n\n{table(head, [*lines, mean])}"


def of_diagonals(machine: Machine, slug: str) -> list[str]:
    return [f"{machine.name}: tridiagonal systems; time, percent of the copy, times faster than cuSPARSE."]


def diagonals(rows: list[Row]) -> str:
    strided = [r for r in rows if "Interleaved" not in r["call"] and r["m"] == 3 and r["pivot"]]
    lines: dict[int, list[str]] = {}
    for (n, _), case in groups(strided, "n", "dtype").items():
        lines.setdefault(n, [str(n)]).append(compared(case, "cuSPARSE"))
    words = f"100,000 systems, the time of one, beside gtsv2StridedBatch ({origin(rows)}):"
    return f"{words}\n\n{table(['order', 'f32', 'f64'], lines.values())}"


def parts(rows: list[Row]) -> str:
    fastest = sorted(rows, key=ns, reverse=True)  # of the calls of a contender the last stays
    cases = groups(fastest, "n", "batch", "dtype")
    lines = []
    for n, batch in sorted({key[:2] for key in cases}):
        found = (cases.get((n, batch, dtype)) for dtype in ("f32", "f64"))
        lines.append([str(n), str(batch), *(compared(case, "cuSPARSE") if case else "" for case in found)])
    words = f"Long systems with `pivot=False`, the time of all, beside cuSPARSE's fastest ({origin(rows)}):"
    return f"{words}\n\n{table(['order', 'systems', 'f32', 'f64'], lines)}"


TOPICS: dict[str, dict[str, Callable[[list[Row]], str]]] = {
    "shapes": {"deep": deep, "tensor": tensor, "convolution": convolution},
    "banded": {"long": diagonals, "parts": parts},
    "matmul": {"larger": larger, "rect": rect, "layout": layout, "small": small, "call": call},
    "linalg": {
        "larger": larger_linalg,
        "small": small_linalg,
        "call": call_linalg,
        "rights": rights,
        "systems": systems,
        "complex": complex_numbers,
        "derivatives": derivatives,
    },
}


FIRST: dict[str, Callable[[Machine, str], list[str]]] = {
    "matmul": square,
    "linalg": factorizations,
    "shapes": of_shapes,
    "banded": of_diagonals,
}


def details(results: Results) -> str:
    parts = []
    for suite, first in FIRST.items():
        for slug, machine in results.machines("device", suite).items():
            parts += first(machine, slug)
            for topic, words in TOPICS[suite].items():
                if machine.topics[topic]:
                    rows = machine.topics[topic]
                    parts.append(words(rows))
                    if suite == "matmul" and origin(rows) != origin(machine.topics["square"]):
                        parts.append(f"({origin(rows)})")
    return "\n\n".join(parts)

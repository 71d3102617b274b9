"""What the project asks of its factorizations and solves, judged from rows alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .results import NUMPY, OURS, Row, best_other, groups, ns, with_ours
from .verdict import KERNEL_PEAK, Judge, Verdict, at_least, at_most, worst

RIVALS = (NUMPY, "PyTorch", "LAPACKE loop (MKL)")  # out of cache: the best of them

ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
# Least ratio to the NumPy call for the same job: f64, through Python, batch of about 1 MB, one thread.
IN_CACHE = {
    "solve": (40, 35, 30, 20, 17, 10, 6.5, 4.5, 4),
    "cholesky": (20, 28, 24, 14, 10, 9, 7, 5, 4.5),
    "inv": (45, 60, 30, 28, 18, 9.5, 9, 6, 5),
    "det": (40, 35, 20, 18, 15, 9, 6.5, 4.5, 4),
    "qr": (15, 15, 15, 12, 12, 8, 7, 5, 4),
}
LARGER_ORDERS = (33, 40, 48, 64, 100, 128)
# The same of larger orders.
LARGER = {
    **dict.fromkeys(("solve", "det"), (3, 3, 2.5, 2, 1.3, 1.2)),
    **dict.fromkeys(("inv", "cholesky", "svd"), (2.5, 2.2, 2, 1.7, 1.3, 1.2)),
    **dict.fromkeys(("eigh",), (2.5, 2.5, 2, 1.7, 1.3, 1.2)),
    **dict.fromkeys(("qr",), (2, 1.9, 1.7, 1.5, 1.3, 1.2)),
}
EFFICIENT = 0.8  # of all threads together, the share of the speed of one times their number
COMPLEX_ORDERS = (2, 3, 4, 8, 16, 32)
# The same of c128.
IN_CACHE_COMPLEX = {"solve": (25, 25, 20, 9, 4, 2.5), "cholesky": (8, 8, 8, 6, 4, 2.5)}
# f64 ns per matrix in C on a core of KERNEL_PEAK, batch of 512 KB; November 2026.
KERNEL_NS: dict[str, dict[int, float]] = {
    "lu_factor": dict(zip(ORDERS[1:], (3.2, 6.5, 15, 30, 100, 230, 580, 1150), strict=True)),
    "cholesky": dict(zip(ORDERS[1:], (2.4, 4, 11.5, 21, 50, 92, 260, 500), strict=True)),
    "solve": dict(zip(ORDERS[1:], (2.9, 5.5, 15, 28, 105, 250, 650, 1250), strict=True)),
    "inv": dict(zip(ORDERS[1:], (3.5, 9, 20, 47, 200, 480, 1500, 3000), strict=True)),
    "qr": {8: 80, 16: 400, 32: 2700},
}
CLIFF = 1.35  # an order's time may be at most so many times the next larger one's
F32_ORDERS = range(1, 13)


def cases(rows: list[Row]) -> Iterator[tuple[Row, dict[str, Row]]]:
    return with_ours(rows, "op", "regime", "dtype", "n", "threads")


def beside_numpy(
    rows: list[Row], dtype: str, orders: tuple[int, ...], least: dict[str, tuple[float, ...]]
) -> Iterator[Verdict]:
    """The ratio to NumPy's call by operation, beside the least that is asked for at these orders."""
    for ours, case in cases(rows):
        op, n = ours["op"], ours["n"]
        if ours["dtype"] == dtype and op in least and n in orders and NUMPY in case:
            note = f" ({ns(ours):.3g} ns, NumPy {ns(case[NUMPY]):.4g} ns)"
            ratio = ns(case[NUMPY]) / ns(ours)
            yield at_least(f"{op} {dtype} n={n}: NumPy / ours", ratio, least[op][orders.index(n)], note=note)


def beside_the_best(rows: list[Row]) -> Iterator[Verdict]:
    """For each operation and dtype the worst ratio to the best other that does the same job."""
    ratios: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for ours, case in cases(rows):
        if other := best_other(case):
            ratios[ours["op"], ours["dtype"]][ours["n"]] = ns(other) / ns(ours)
    for (op, dtype), by_n in ratios.items():
        yield worst(f"{op} {dtype}: best other contender / ours", by_n, 1)


def square(rows: list[Row]) -> Iterator[Verdict]:
    yield from beside_numpy(rows, "f64", ORDERS, IN_CACHE)
    yield from beside_the_best(rows)
    times: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    lesser: dict[str, dict[int, float]] = defaultdict(dict)
    for ours, case in cases(rows):
        op, dtype, n = ours["op"], ours["dtype"], ours["n"]
        times[op, dtype][n] = ns(ours)
        for name, r in case.items():
            if r.get("less"):
                lesser[f"{op} {dtype}: {name}, which {r['less']}"][n] = ns(r) / ns(ours)
    for name, ratios in lesser.items():
        n = min(ratios, key=ratios.__getitem__)
        yield Verdict(f"{name} / ours", f"at least {ratios[n]:.3g}x, at n={n}")
    for op in {op: None for op, _ in times}:
        f32, f64 = times[op, "f32"], times[op, "f64"]
        both = {n: f64[n] / f32[n] for n in F32_ORDERS if n in f32 and n in f64}
        if both:
            yield worst(f"{op} n <= {F32_ORDERS[-1]}: f64 / f32", both, 1.5)
    for (op, dtype), by_n in times.items():
        steps = {n: by_n[n] / by_n[n + 1] for n in by_n if n + 1 in by_n}
        if steps:
            yield worst(f"{op} {dtype}: time of n / time of n + 1", steps, CLIFF, most=True)


def complex_numbers(rows: list[Row]) -> Iterator[Verdict]:
    yield from beside_numpy(rows, "c128", COMPLEX_ORDERS, IN_CACHE_COMPLEX)
    yield from beside_the_best(rows)


def larger(rows: list[Row]) -> Iterator[Verdict]:
    yield from beside_numpy(rows, "f64", LARGER_ORDERS, LARGER)
    yield from beside_the_best(rows)


def larger_threads(rows: list[Row]) -> Iterator[Verdict]:
    """All CPUs beside one, and beside NumPy on all."""
    one = {(r["op"], r["n"]): r for r in rows if r["threads"] == 1}
    for ours, case in with_ours([r for r in rows if r["threads"] > 1], "op", "n"):
        op, n, count = ours["op"], ours["n"], ours["threads"]
        yield at_least(f"{op} n={n}: {count} threads / 1", ns(one[op, n]) / ns(ours), EFFICIENT * count)
        if NUMPY in case:
            yield at_least(f"{op} n={n}, {count} threads: NumPy / ours", ns(case[NUMPY]) / ns(ours), 1)


def kernels(rows: list[Row]) -> Iterator[Verdict]:
    for ours, _ in cases(rows):
        op, dtype, n = ours["op"], ours["dtype"], ours["n"]
        name = f"{op} in C {dtype} n={n}: ns on a {KERNEL_PEAK[dtype]} GFLOP/s core"
        note = f" (raw {ns(ours):.4g} ns, {ours['gflops']:.3g} GFLOP/s)"
        if dtype == "f64" and n in KERNEL_NS.get(op, {}):
            yield at_most(name, ours["ns_normalised"], round(1.1 * KERNEL_NS[op][n], 3), " ns", note)
        else:
            yield Verdict(name, f"{ours['ns_normalised']:.3g} ns{note}")


def memory(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in cases(rows):
        rivals = {name: ns(case[name]) for name in RIVALS if name in case}
        best = min(rivals, key=rivals.__getitem__)
        note = f" ({best} {rivals[best]:.4g} ns, ours {ns(ours):.4g} ns, {ours['gbytes']:.3g} GB/s)"
        name = f"{ours['op']} out of cache {ours['dtype']} n={ours['n']}: best other / ours"
        yield at_least(name, rivals[best] / ns(ours), 3, note=note)


def threads(rows: list[Row]) -> Iterator[Verdict]:
    ours = {(r["op"], r["dtype"], r["n"], r["threads"]): r for r, _ in cases(rows)}
    for (op, dtype, n, count), row in ours.items():
        if count == 1:
            continue
        speedup = ns(ours[op, dtype, n, 1]) / ns(row)
        name = f"{op} in cache {dtype} n={n}: {count} threads / 1"
        least = {2: 1.9, 16: 12}.get(count)
        if least:
            yield at_least(name, speedup, least, note=f" ({ns(row):.3g} ns)")
        else:
            yield Verdict(name, f"{speedup:.3g}x ({ns(row):.3g} ns)")


def diagonals(rows: list[Row]) -> Iterator[Verdict]:
    for case in groups([r for r in rows if r["contender"] != OURS or not r["pivot"]], "dtype", "n").values():
        ours, other = case[OURS], case["SciPy"]
        name = f"one tridiagonal system {ours['dtype']} n={ours['n']}: SciPy / ours in parts"
        yield at_least(name, ns(other) / ns(ours), 1)


JUDGES: dict[str, Judge] = {
    judge.__name__: judge
    for judge in (square, larger, larger_threads, complex_numbers, kernels, memory, threads, diagonals)
}

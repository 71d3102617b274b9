"""What the project asks of its matmul, judged from rows alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .results import LIMIT, NUMPY, OURS, Row, label, ns, with_ours
from .verdict import KERNEL_PEAK, Judge, Verdict, at_least, at_most

# Least ratio to np.matmul through the Python API, batch of about 1 MB, one thread.
IN_CACHE = {
    "f64": {2: 15, 3: 7.5, 4: 6, 5: 3.2, 6: 2.5, 8: 2.5, 12: 1.65, 16: 1.5, 24: 1.2, 32: 1.05},
    "f32": {2: 25, 3: 12, 4: 12, 5: 5.2, 6: 4, 8: 3.8, 12: 1.8, 16: 2.1, 24: 1.2, 32: 1.05},
}
IN_CACHE_COMPLEX = {2: 8, 3: 6, 4: 4, 8: 2.5, 16: 1.5, 32: 1.1}  # of c128
# ns per matrix in C on a core of KERNEL_PEAK, batch of 512 KB; November 2026.
KERNEL_NS: dict[str, dict[int, float]] = {
    "f64": {
        **dict(zip(range(2, 9), (0.86, 2.6, 3.6, 8.5, 10.5, 13.5, 15.5), strict=True)),
        10: 40,
        12: 50,
        16: 95,
        20: 220,
        24: 305,
        28: 580,
        32: 720,
    },
    "f32": {
        **dict(zip(range(2, 9), (0.43, 1.9, 2.0, 5.6, 7.1, 9.0, 10.2), strict=True)),
        12: 32,
        16: 52,
        24: 237,
        32: 379,
    },
}
OVERHEAD_NS = 1500
IMPORT_NS = 20e6


def _cases(rows: list[Row]) -> Iterator[tuple[Row, dict[str, Row]]]:
    return with_ours(rows, "regime", "dtype", "m", "k", "n", "layout", "threads")


def _bound_ns(ours: Row, gflops: float, gbytes: float) -> float:
    """The least time per matrix on one thread: its flops at the FMA peak, or its bytes at the bandwidth."""
    return max(2 * ours["m"] * ours["k"] * ours["n"] / gflops, ours["gbytes"] * ns(ours) / gbytes)


def square(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases(rows):
        dtype, n = ours["dtype"], ours["n"]
        if n in IN_CACHE[dtype] and NUMPY in case:
            note = f" ({ns(ours):.3g} ns, np.matmul {ns(case[NUMPY]):.3g} ns)"
            yield at_least(
                f"in cache {dtype} n={n}: np.matmul / ours",
                ns(case[NUMPY]) / ns(ours),
                IN_CACHE[dtype][n],
                note=note,
            )
    for peer in sorted({r["contender"] for r in rows} - {OURS, NUMPY, LIMIT}):
        for ours, case in _cases(rows):
            if peer in case:
                ratio = ns(case[peer]) / ns(ours)
                least = 1 if ours["n"] <= 12 else 1 / 1.05
                text = f"in cache {ours['dtype']} n={ours['n']}: {label(case[peer])} / ours"
                if peer == "PyTorch":
                    yield Verdict(text, f"{ratio:.3g}x")
                else:
                    yield at_least(text, ratio, round(least, 3))


def larger(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases(rows):
        text = f"{ours['dtype']} n={ours['n']}: np.matmul / ours"
        yield at_least(text, ns(case[NUMPY]) / ns(ours), 1, note=f" ({ns(ours):.3g} ns)")


def complex_numbers(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases(rows):
        dtype, n = ours["dtype"], ours["n"]
        for peer in sorted(case.keys() - {OURS}):
            text, ratio = f"{dtype} n={n}: {label(case[peer])} / ours", ns(case[peer]) / ns(ours)
            least = IN_CACHE_COMPLEX.get(n, 1) if (dtype, peer) == ("c128", NUMPY) else 1
            yield at_least(text, ratio, least, note=f" ({ns(ours):.3g} ns)")


def beside_real(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases(rows):
        text = f"{ours['layout']}, {ours['dtype']} n={ours['n']}: {label(case[NUMPY])} / ours"
        yield at_least(text, ns(case[NUMPY]) / ns(ours), 1, note=f" ({ns(ours):.3g} ns)")


def kernels(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases(rows):
        dtype, n = ours["dtype"], ours["n"]
        share = _bound_ns(ours, case["fma"]["gflops"], case["2r1w"]["gbytes"]) / ns(ours)
        note = f" (raw {ns(ours):.3g} ns, {share:.0%} of this core's bound)"
        name = f"in C {dtype} n={n}: ns on a {KERNEL_PEAK[dtype]} GFLOP/s core"
        if n in KERNEL_NS[dtype]:
            yield at_most(name, ours["ns_normalised"], round(1.1 * KERNEL_NS[dtype][n], 3), " ns", note)
        else:
            yield Verdict(name, f"{ours['ns_normalised']:.3g} ns{note}")


def memory(rows: list[Row]) -> Iterator[Verdict]:
    peak: dict[str, float] = defaultdict(float)
    for r in rows:
        if r["op"] == "fma":
            peak[r["dtype"]] = max(peak[r["dtype"]], r["gflops"])
    for ours, case in _cases(rows):
        n, name = ours["n"], f"out of cache {ours['dtype']} n={ours['n']}"
        share = 100 * _bound_ns(ours, peak[ours["dtype"]], case["2r1w-nt"]["gbytes"]) / ns(ours)
        note = f" ({ns(ours):.3g} ns, {ours['gbytes']:.3g} of {case['2r1w-nt']['gbytes']:.3g} GB/s)"
        yield at_least(f"{name}: share of bound", share, 85 if n <= 8 else 75 if n <= 24 else 70, " %", note)
        if NUMPY in case:
            yield at_least(f"{name}: np.matmul / ours", ns(case[NUMPY]) / ns(ours), 1.3)


def threads(rows: list[Row]) -> Iterator[Verdict]:
    ours = {(r["dtype"], r["n"], r["threads"]): (r, case) for r, case in _cases(rows)}
    for (dtype, n, count), (row, case) in ours.items():
        if count == 1:
            continue
        name = f"out of cache {dtype} n={n}, {count} threads"
        if count == 2:
            yield at_least(f"{name}: 1 thread / 2", ns(ours[dtype, n, 1][0]) / ns(row), 1.9)
        share = 100 * row["gbytes"] / case["2r1w-nt"]["gbytes"]
        note = f" ({row['gbytes']:.3g} of {case['2r1w-nt']['gbytes']:.3g} GB/s)"
        if count >= 16 and n in (3, 8, 16):
            yield at_least(f"{name}: share of 2R1W", share, 80, " %", note)
        else:
            yield Verdict(f"{name}: share of 2R1W", f"{share:.3g} %{note}")
        for peer in sorted(case.keys() - {OURS, "2r1w-nt"}):
            yield Verdict(f"{name}: {label(case[peer])} / ours", f"{ns(case[peer]) / ns(row):.3g}x")


def rect(rows: list[Row]) -> Iterator[Verdict]:
    ratios, clear = {}, set()
    for ours, case in _cases(rows):
        if NUMPY in case:
            name = ours["dtype"], ours["m"], ours["k"], ours["n"]
            ratios[name] = ns(case[NUMPY]) / ns(ours)
            if ours["quartiles"][0] > case[NUMPY]["quartiles"][1]:
                clear.add(name)
    slower = {case: ratio for case, ratio in ratios.items() if ratio < 1}
    if ratios:
        worst = min(ratios, key=ratios.__getitem__)
        note = f" of {len(ratios)}, {len(clear)} beyond the quartiles; least ratio {ratios[worst]:.3g}"
        yield at_most("rectangular: shapes slower than np.matmul", len(slower), 0, "", note)
    for (dtype, m, k, n), ratio in sorted(slower.items(), key=lambda item: item[1]):
        note = "" if (dtype, m, k, n) in clear else " (within the quartiles)"
        yield Verdict(f"  {dtype} ({m} x {k}) ({k} x {n}): np.matmul / ours", f"{ratio:.3g}x{note}")


def vector(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases(rows):
        for peer in sorted(case.keys() - {OURS}):
            name = f"matrix times vector {ours['dtype']} n={ours['k']}: {label(case[peer])} / ours"
            yield at_least(name, ns(case[peer]) / ns(ours), 1, note=f" ({ns(ours):.3g} ns)")


def layout(rows: list[Row]) -> Iterator[Verdict]:
    most = {"A.mT": 1.1, "B.mT": 1.4, "broadcast A": 1.02, "broadcast B": 1.02}  # 1, and 2 % for noise
    ours = {(r["regime"], r["dtype"], r["n"], r["layout"]): (r, case) for r, case in _cases(rows)}
    for (regime, dtype, n, kind), (row, case) in ours.items():
        plain = ours[regime, dtype, n, "contiguous"][0]
        if kind == "contiguous":
            continue
        note = f" ({ns(row):.3g} ns" + (f", np.matmul {ns(case[NUMPY]):.3g} ns)" if NUMPY in case else ")")
        where = "" if regime == "in-cache" else ", out of cache"
        name, ratio = f"{kind} {dtype} n={n}{where}: time / contiguous", ns(row) / ns(plain)
        if kind in most:
            yield at_most(name, ratio, most[kind], note=note)
        else:
            yield Verdict(name, f"{ratio:.3g}x{note}")


def overhead(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases([r for r in rows if r["op"] == "matmul"]):
        name = f"call (1, 4, 4) {ours['dtype']}, {ours['layout']}"
        yield at_most(f"{name}: ours", ns(ours), OVERHEAD_NS, " ns")
        if NUMPY in case:
            yield at_most(f"{name}: ours / np.matmul", ns(ours) / ns(case[NUMPY]), 2)
    for r in rows:
        if r["op"] == "import" and r["contender"] == OURS:
            yield at_most("import smallmm, after numpy", ns(r) / 1e6, IMPORT_NS / 1e6, " ms")


def avx2(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in _cases(rows):
        name, n = f"AVX2 {ours['dtype']} n={ours['n']}", ours["n"]
        if NUMPY in case and n <= 24:
            yield at_least(f"{name}: np.matmul / ours", ns(case[NUMPY]) / ns(ours), 1.2)
        if ours["regime"] == "kernel" and n in (16, 24, 32):
            share = 100 * ours["gflops"] / case["fma"]["gflops"]
            yield at_least(f"{name}: share of the AVX2 FMA peak, in C", share, 75, " %")


JUDGES: dict[str, Judge] = {
    judge.__name__: judge
    for judge in (
        *(square, larger, vector, complex_numbers, beside_real, memory, kernels, rect, layout, threads),
        *(overhead, avx2),
    )
}

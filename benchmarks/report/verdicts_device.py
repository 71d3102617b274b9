"""What the project asks of a GPU, judged from rows alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from .device import geometric_mean, host_us, us
from .results import OURS, Row, best_other, groups, label, ratio, with_ours
from .verdict import Judge, Verdict, at_least

# Percent of the copy that each must reach, f64 and f32, at these orders; elsewhere at most 8 points less than
# the smaller of the two neighbours.
AT = (2, 3, 4, 8, 12, 16, 24, 32)
MUST = {
    "lu_factor": ((79, 85, 85, 90, 86, 90, 77, 68), (68, 77, 80, 87, 92, 84, 68, 65)),
    "cholesky": ((89, 93, 92, 92, 88, 94, 92, 93), (85, 90, 93, 92, 95, 88, 87, 94)),
    "inv": ((88, 93, 90, 87, 82, 82, 60, 53), (79, 91, 89, 82, 76, 78, 53, 53)),
    "qr_raw": ((72, 78, 82, 93, 88, 88, 65, 49), (70, 75, 78, 80, 85, 90, 65, 57)),
    "solve": ((85, 85, 85, 85, 82, 82, 65, 58), (75, 80, 80, 80, 85, 78, 58, 55)),
}


def must(op: str, dtype: str, n: int) -> float:
    """The percentage asked; 0 where nothing is."""
    if op not in MUST or not AT[0] <= n <= AT[-1]:
        return 0
    line = MUST[op][dtype == "f32"]
    if n in AT:
        return line[AT.index(n)]
    below = max(i for i, x in enumerate(AT) if x < n)
    return min(line[below : below + 2]) - 8


def square(rows: list[Row]) -> Iterator[Verdict]:
    """Percent of the copy, and no other faster."""
    for ours, case in with_ours(rows, "op", "dtype", "n"):
        op, dtype, n = ours["op"], ours["dtype"], ours["n"]
        asked, best = must(op, dtype, n), best_other(case)
        note = f", {ratio(best, ours):.3g}x {label(best)}" if best else ""
        name = f"{op} {dtype} n={n}: of the copy"
        if asked:
            yield at_least(name, ours["percent"], asked, " %", note)
        else:
            yield Verdict(name, f"{ours['percent']:.3g} %{note}")
        if best:
            yield at_least(f"{op} {dtype} n={n}: best other / ours", ratio(best, ours), 1)


def beside_pytorch(rows: list[Row]) -> Iterator[Verdict]:
    """No operation slower, whatever the copy allows."""
    for ours, case in with_ours(rows, "op", "dtype", "n"):
        name = f"{ours['op']} {ours['dtype']} n={ours['n']}"
        yield Verdict(f"{name}: of the copy", f"{ours['percent']:.3g} %")
        if "PyTorch" in case:
            yield at_least(f"{name}: PyTorch / ours", ratio(case["PyTorch"], ours), 1)


def derivatives(rows: list[Row]) -> Iterator[Verdict]:
    for ours, case in with_ours(rows, "op", "dtype", "n"):
        name = f"forward and backward of {ours['op']} {ours['dtype']} n={ours['n']}"
        least = 10 if ours["dtype"] == "f32" and 3 <= ours["n"] <= 16 else 1
        yield at_least(f"{name}: PyTorch / ours", ratio(case["PyTorch"], ours), least)


def complex_numbers(rows: list[Row]) -> Iterator[Verdict]:
    """Products beside the copy, solves and inverses well beside PyTorch."""
    for ours, case in with_ours(rows, "op", "dtype", "n"):
        op, n = ours["op"], ours["n"]
        name = f"{op} {ours['dtype']} n={n}"
        if op == "matmul" and n <= 16:
            yield at_least(f"{name}: of the copy", ours["percent"], 90 if n <= 8 else 80, " %")
        if "PyTorch" in case:
            asked = {"solve": (10, 5), "inv": (10, 5)}.get(op, (1, 1))[n > 8]
            yield at_least(f"{name}: PyTorch / ours", ratio(case["PyTorch"], ours), asked)


def deep(rows: list[Row]) -> Iterator[Verdict]:
    """Few large or deep products beside cuBLAS by PyTorch."""
    asked = {"LINPACK": 0.8, "DeepBench F": 1.1, "DeepBench B": 1.1, "ICA": 2, "SVD": 1, "A^T A": 1}
    cases = groups(rows, "dtype", "which", "m", "n", "k", "layout")
    for which, least in asked.items():
        found = [x for key, x in cases.items() if key[:2] == ("f32", which)]
        yield at_least(f"{which} f32: cuBLAS / ours, mean", geometric_mean(found, "PyTorch"), least)
    doubles = [x for key, x in cases.items() if key[0] == "f64"]
    yield at_least("all f64: cuBLAS / ours, mean", geometric_mean(doubles, "PyTorch"), 0.95)
    (four,) = (x for key, x in cases.items() if key[:2] == ("f32", "A^T A") and key[3] == 4)
    yield at_least("A^T A f32 n=4: of the copy", four[OURS]["percent"], 50, " %")


def convolution(rows: list[Row]) -> Iterator[Verdict]:
    cases = groups(rows, "which", "stride", "padding")
    yield at_least("all f32: cuDNN / ours, mean", geometric_mean(cases.values(), "PyTorch"), 0.9)
    for number in (7, 8, 13):
        least = min(ratio(x["PyTorch"], x[OURS]) for key, x in cases.items() if key[0] == number)
        yield at_least(f"shape {number} f32: cuDNN / ours", least, 1.3)


def diagonals(rows: list[Row]) -> Iterator[Verdict]:
    for row in rows:
        if row["contender"] == OURS and row["n"] in (32, 1000) and row["pivot"]:
            yield at_least(f"tridiagonal {row['dtype']} n={row['n']}: of the copy", row["percent"], 60, " %")


def parts(rows: list[Row]) -> Iterator[Verdict]:
    strided = [r for r in rows if r["contender"] == OURS or "gtsv2StridedBatch" in r["call"]]
    for r, case in with_ours(strided, "dtype", "n", "batch"):
        name = f"{r['batch']} tridiagonal {r['dtype']} n={r['n']}: gtsv2StridedBatch / ours"
        yield at_least(name, ratio(case["cuSPARSE"], r), 1)


def rect(rows: list[Row]) -> Iterator[Verdict]:
    ours = [r for r in rows if r["contender"] == OURS]
    percents = sorted(r["percent"] for r in ours)
    yield Verdict(
        "rectangular: of the copy", f"{statistics.median(percents)} % on the median, least {percents[:5]}"
    )
    ratios = [ratio(case["PyTorch"], r) for r, case in with_ours(rows, "dtype", "m", "k", "n")]
    yield at_least("rectangular: torch.bmm / ours, least", min(ratios), 1)


def layout(rows: list[Row]) -> Iterator[Verdict]:
    base = {(r["dtype"], r["n"]): r["percent"] for r in rows if r["layout"] == "contiguous"}
    for r in rows:
        share = 100 * r["percent"] / base[r["dtype"], r["n"]]
        yield Verdict(f"{r['layout']} {r['dtype']} n={r['n']}: of the contiguous figure", f"{share:.1f} %")


def small(rows: list[Row]) -> Iterator[Verdict]:
    for (op, dtype, n, batch), case in groups(rows, "op", "dtype", "n", "batch").items():
        times = ", ".join(f"{who} {us(r):.2f}" for who, r in case.items())
        yield Verdict(f"{op} {dtype} n={n} batch={batch}: graph replay, us", times)


def call(rows: list[Row]) -> Iterator[Verdict]:
    for op, who in dict.fromkeys((r["op"], r["contender"]) for r in rows if "host_us" in r):
        yield Verdict(f"{op}: host side of {who}", f"{host_us(rows, op, who):.2f} us")
    for what in dict.fromkeys(r["what"] for r in rows if "what" in r):
        yield Verdict(what, f"at most {max(r['ms'] for r in rows if r.get('what') == what):.3g} ms")


JUDGES: dict[str, Judge] = {
    judge.__name__: judge for judge in (square, rect, layout, small, call, deep, convolution, derivatives)
}
JUDGES["larger"] = square
JUDGES["long"] = diagonals
JUDGES["parts"] = parts
JUDGES["rights"] = JUDGES["systems"] = beside_pytorch
JUDGES["complex"] = complex_numbers

"""Random calls beside NumPy's: functions, orders, types, layouts and counts of matrices, one at a time, plain
calls as users make them. Prints every call that takes longer than NumPy's, and a table of all.

    export SMALLMM_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    python -m benchmarks.host.beside_numpy --seconds 300 --seed 1

Both are timed in turn, and the fastest time of each counts, so that it may run beside other work.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import smallmm
from smallmm._tools.config import cpu
from smallmm._tools.timing import clock, seconds_left

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
OF_MATRICES = (
    "inv",
    "det",
    "slogdet",
    "cholesky",
    "qr",
    "eigh",
    "eigvalsh",
    "eig",
    "eigvals",
    "svd",
    "svdvals",
)
WITH_OTHERS = ("matmul", "matvec", "vecmat", "solve")
LAYOUTS = ("dense", "transposed", "every second", "strided rows", "matrices last")
MAX_BYTES = 1 << 26  # of a stack
ORDERS = ((8, "1-8"), (32, "9-32"), (64, "33-64"), (128, "65-128"))
COUNTS = ((7, "1-7"), (63, "8-63"), (math.inf, "64 and more"))


class Case(NamedTuple):
    function: str
    n: int
    count: int
    dtype: str
    layout: str


def drawn(rng: np.random.Generator) -> Case:
    function = str(rng.choice([*OF_MATRICES, *WITH_OTHERS]))
    n = int(2 ** rng.uniform(0, 7.01))
    dtype = str(rng.choice([*TYPES]))
    most = max(1, min(20_000, MAX_BYTES // (16 * n * n)))
    return Case(function, n, int(most ** rng.uniform(0, 1)), dtype, str(rng.choice(LAYOUTS)))


def stack(rng: np.random.Generator, shape: tuple[int, ...], case: Case) -> np.ndarray:
    count, *core = shape
    sizes = {"transposed": (count, *core[::-1]), "every second": (2 * count, *core)}
    sizes |= {"strided rows": (count, core[0], 2 * core[-1]), "matrices last": (*core, count)}
    given = sizes.get(case.layout, shape) if len(core) == 2 else shape
    x = rng.standard_normal(given)
    if case.dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(given)
    x = x.astype(TYPES[case.dtype])
    if len(core) == 1 or case.layout == "dense":
        return x
    if case.layout == "transposed":
        return x.mT
    if case.layout == "every second":
        return x[::2]
    return x[..., : core[-1]] if case.layout == "strided rows" else np.moveaxis(x, -1, 0)


def calls_of(rng: np.random.Generator, case: Case) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """That of smallmm and that of NumPy."""
    a = stack(rng, (case.count, case.n, case.n), case)
    if case.function == "cholesky":
        a[...] = a @ a.conj().mT + case.n * np.eye(case.n)
    vector = case.function in ("matvec", "vecmat")
    b = stack(rng, (case.count, case.n) if vector else (case.count, case.n, case.n), case)
    if case.function == "solve":
        b = b[..., :1]
    ours = getattr(smallmm, case.function)
    theirs = getattr(np.linalg, case.function, None) or getattr(np, case.function)
    operands = (a,) if case.function in OF_MATRICES else (b, a) if case.function == "vecmat" else (a, b)
    return lambda: ours(*operands), lambda: theirs(*operands)


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], seconds: float = 0.04) -> float:
    """NumPy's time by smallmm's."""
    sample, left = clock(), seconds_left(seconds)
    for call in (ours, theirs):
        call()
    times: list[tuple[float, float]] = []
    while len(times) < 3 or left():
        times.append((sample(ours, 1), sample(theirs, 1)))
    own, other = map(min, zip(*times, strict=True))
    return float(other / own)


def within(limits: tuple[tuple[float, str], ...], x: int) -> str:
    return next(name for limit, name in limits if x <= limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    found: dict[tuple[str, str], list[tuple[float, Case]]] = defaultdict(list)
    left = seconds_left(asked.seconds)
    while left():
        case = drawn(rng)
        times = ratio(*calls_of(rng, case))
        found[within(ORDERS, case.n), within(COUNTS, case.count)].append((times, case))
        if times < 1:
            what = f"{case.function:9s} n = {case.n:3d}, {case.count:5d} of {case.dtype}, {case.layout}"
            print(f"{times:5.2f}  {what}")
    print(f"\n{sum(map(len, found.values()))} calls, seed {asked.seed}, {cpu()}, NumPy {np.__version__}\n")
    print("| orders | matrices | calls | slower than NumPy | median | lowest |\n|---|---|---|---|---|---|")
    for _, order in ORDERS:
        for _, count in COUNTS:
            if rows := sorted(found[order, count]):
                times, case = rows[0]
                slower = sum(x < 1 for x, _ in rows)
                worst = f"{times:.2f}: `{case.function}` n = {case.n}, {case.count} of {case.dtype}"
                median = rows[len(rows) // 2][0]
                print(f"| {order} | {count} | {len(rows)} | {slower} | {median:.1f} | {worst} |")


if __name__ == "__main__":
    main()

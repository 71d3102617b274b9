"""How many times as fast as NumPy its functions are while NumPy is patched, and smallmm's own functions are:
the second table of docs/patch.md.

    SMALLMM_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.host.patched [float32|float64]

Operand and result of a call take 1 MB together. Prints a row for each function: for each order the factor of
the patched function, and of smallmm's. All three are timed in turn; of each the fastest time counts, so that
it may run beside other work.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import smallmm
from smallmm import _core
from smallmm._tools import bench

ORDERS = (3, 4, 8, 16, 32)
BYTES, TURNS = 1 << 20, 40
NEVER = 2**40

L = np.linalg
PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "matmul": (lambda a: a @ a, lambda a: smallmm.matmul(a, a)),
    "solve": (lambda a: L.solve(a, a), lambda a: smallmm.solve(a, a)),
    "inv": (L.inv, smallmm.inv),
    "det": (L.det, smallmm.det),
    "cholesky": (L.cholesky, smallmm.cholesky),
    "eigh": (L.eigh, smallmm.eigh),
    "svd": (L.svd, smallmm.svd),
}


def factors(name: str, n: int, dtype: np.dtype[Any]) -> tuple[float, float]:
    theirs, ours = PAIRS[name]
    rng, count = np.random.default_rng(n), BYTES // (2 * n * n * dtype.itemsize)
    a = rng.standard_normal((count, n, n)) + 2 * n**0.5 * np.eye(n)
    a = (a @ a.mT + np.eye(n) if name in ("cholesky", "eigh") else a).astype(dtype)
    sample, best = bench.clock(), [float("inf")] * 3
    for _ in range(TURNS):
        for which, (call, least) in enumerate(((theirs, NEVER), (theirs, 0), (ours, 0))):
            _core.set_fewest(least)
            call(a)  # the caches are another's
            best[which] = min(best[which], sample(partial(call, a), 2))
    return best[0] / best[1], best[0] / best[2]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dtype", nargs="?", default="float64", choices=["float32", "float64"])
    dtype = np.dtype(parser.parse_args().dtype)
    with smallmm.patched("numpy"):
        for name in PAIRS:
            found = [factors(name, n, dtype) for n in ORDERS]
            print(f"| `{name}` |", *(f"{x:.1f}, {y:.1f} |" for x, y in found), flush=True)


if __name__ == "__main__":
    main()

"""For how many matrices a loop of smallmm within NumPy's ufunc is faster than NumPy's own: material for the
rows SMM_MIN_BATCH of csrc/python/patched.def.

    SMALLMM_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.tune.patched [ufunc ...]

Both loops are timed in turn, in short bursts of which the fastest counts, so that it may run beside other
work. A count pays where smallmm's time is below GAIN of NumPy's, for it and all larger counts.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import smallmm
from smallmm import _core
from smallmm._patching import patch
from smallmm._tools import bench

ORDERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32)
COUNTS = (1, 2, 4, 8, 16, 64, 512)
TYPES = {"f": "F32", "d": "F64", "F": "C64", "D": "C128"}
GAIN = 0.95
NEVER = 2**40
BURST, TURNS, MAX = (
    50e-6,
    12,
    0.02,
)  # seconds of a burst; bursts of each; seconds of a call that is worth its time


def operands(name: str, order: int, count: int, dtype: str) -> list[np.ndarray]:
    """Well conditioned; positive definite where that is asked for."""
    rng = np.random.default_rng(order)
    ndims = [len(core.split(",")) for core in signature(name)]
    stacks = [rng.standard_normal((count, *(order,) * ndim)) for ndim in ndims]
    if dtype in "FD":
        stacks = [x + 1j * rng.standard_normal(x.shape) for x in stacks]
    if name.startswith(("cholesky", "eigh", "eigvalsh")):
        stacks = [x @ x.conj().mT + order * np.eye(order) for x in stacks]
    return [x.astype(dtype) for x in stacks]


def signature(name: str) -> list[str]:
    inputs = str(patch._ufuncs()[name].signature).partition("->")[0]
    return [core.strip("()") for core in inputs.replace("),(", ")|(").split("|")]


def times(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of a call of a patched function by smallmm, and without it."""
    best = [np.inf, np.inf]
    sample, repeats = bench.clock(), 1
    for turn in range(TURNS):
        for which, least in enumerate((1, NEVER)):
            _core.set_fewest(least)
            best[which] = min(best[which], sample(call, repeats) / 1e9)
        if not turn:
            repeats = max(1, int(BURST / max(best)))
        elif max(best) > MAX / 4 and turn > 2:
            break
    return best[0], best[1]


def call_of(name: str, order: int, count: int, dtype: str) -> Callable[[], Any]:
    ufunc, arrays = patch._ufuncs()[name], operands(name, order, count, dtype)
    out = ufunc(*arrays)
    out = out if isinstance(out, tuple) else (out,)
    given = {"out": tuple(out)} if all(isinstance(x, np.ndarray) for x in out) else {}
    return lambda: ufunc(*arrays, **given)


def least_of(call_for: Callable[[int], Callable[[], Any]]) -> tuple[int, dict[int, float]]:
    """The least count that pays, and the gain for each count."""
    ratios: dict[int, float] = {}
    for count in COUNTS:
        ours, theirs = times(call_for(count))
        ratios[count] = ours / theirs
        if theirs * 4 > MAX:
            break
    pays = NEVER
    for count in reversed(ratios):
        if ratios[count] > GAIN:
            break
        pays = count
    return pays, ratios


def print_rows(name: str, words: str, found: dict[int, tuple[int, dict[int, float]]]) -> None:
    """Of a function and a type, what was found for each order."""
    for order, (_, ratios) in found.items():
        print("#", name, words, order, *(f"{c}:{r:.2f}" for c, r in ratios.items()), flush=True)
    rows: list[tuple[int, int]] = []
    for order, (least, _) in found.items():
        if rows and rows[-1][1] == least:
            rows[-1] = (order, least)
        else:
            rows.append((order, least))
    for order, least in rows:
        if least < NEVER or order != rows[-1][0]:
            matrices = "NEVER" if least == NEVER else least
            print(f"SMM_MIN_BATCH({name}, {words}, {order}, {matrices})", flush=True)


def main(names: list[str]) -> None:
    smallmm.patch_numpy()
    for name in names or list(patch._ufuncs()):
        for dtype, words in TYPES.items():
            call = partial(call_of, name, dtype=dtype)
            found = {order: least_of(partial(call, order)) for order in ORDERS}
            print_rows(name, words, found)


if __name__ == "__main__":
    main(sys.argv[1:])

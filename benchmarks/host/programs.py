"""Fused functions beside their steps as separate calls, and NumPy: out of cache, all threads or one.

    python -m benchmarks.host.programs [--threads N] [--megabytes M]

Each result is compared with that of the separate calls, bit by bit, before it is timed. Rows are printed, not
kept: nanoseconds for each matrix, and how much faster the fused function is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import smallmm
from smallmm._functions.tensors import _sum_factorized
from smallmm._programs.fused import Fused
from smallmm._programs.interpreter import interpret
from smallmm._tools.timing import measure

RNG = np.random.default_rng(0)


def positive(n: int, batch: int) -> np.ndarray:
    a = RNG.standard_normal((batch, n, n))
    return a @ a.mT + n * np.eye(n)


def separate(function: Fused, arrays: tuple[np.ndarray, ...]) -> Any:
    """The steps of a fused function, one after the other on whole stacks."""
    operands = function._operands(arrays)
    plan = function._plan(operands, {})
    results, _ = interpret(plan.record, plan.results, operands, plan.steps, np)
    return results


def kalman(n: int, m: int, batch: int) -> tuple[np.ndarray, ...]:
    models = RNG.standard_normal((n, n)), RNG.standard_normal((m, n)), positive(n, 1)[0], positive(m, 1)[0]
    return RNG.standard_normal((batch, n)), positive(n, batch), RNG.standard_normal((batch, m)), *models


def black_scholes(s: Any, x: Any, t: Any, r: Any, v: Any) -> Any:
    xp = s.__array_namespace__()
    d = xp.sqrt(t)
    d1 = (xp.log(s / x) + (r + v * v / 2) * t) / (v * d)
    return s * xp.ndtr(d1) - x * xp.exp(-r * t) * xp.ndtr(d1 - v * d)


# name: (function, operands for so many matrices, bytes of a matrix)
CASES: dict[str, tuple[Any, Callable[[int], tuple[np.ndarray, ...]], int]] = {
    **{
        f"kalman_step {n}, {m}": (smallmm.kalman_step, partial(kalman, n, m), 8 * (2 * n * n + 2 * n + m))
        for n, m in ((4, 2), (6, 3), (9, 3), (16, 8))
    },
    "congruence 4": (smallmm.congruence, lambda b: (RNG.standard_normal((b, 4, 4)), positive(4, b)), 384),
    "gaussian_logpdf 4": (
        smallmm.gaussian_logpdf,
        lambda b: (RNG.standard_normal((b, 4)), np.zeros(4), positive(4, b)),
        168,
    ),
    "sum_factorized 4": (
        _sum_factorized,
        lambda b: (RNG.standard_normal((4, 4)), RNG.random((b, 4, 4, 4)), RNG.random((b, 4, 4, 4))),
        1536,
    ),
    "triad": (smallmm.fuse(lambda b, c, d: b + c * d), lambda b: tuple(RNG.random((3, b))), 32),
    "Black-Scholes": (
        smallmm.fuse(black_scholes),
        lambda b: (*(RNG.random((2, b)) + 1), *(RNG.random((3, b)) + 0.1)),
        48,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--megabytes", type=int, default=256, help="of the operands of each case")
    options = parser.parse_args()
    with smallmm.threads(options.threads or smallmm.get_num_threads()):
        for name, (function, operands, size) in CASES.items():
            batch = max(1, options.megabytes * 10**6 // size)
            arrays = operands(batch)
            fused = function(*arrays)
            results = fused if isinstance(fused, tuple) else (fused,)
            for x, y in zip(results, separate(function, arrays), strict=True):
                np.testing.assert_array_equal(x, y)
            calls = {"fused": lambda: function(*arrays), "separate": lambda: separate(function, arrays)}  # noqa: B023
            times = {who: x.median / batch for who, x in measure(calls, repetitions=1, least=5).items()}
            gain = times["separate"] / times["fused"]
            both = f"{times['fused']:9.2f} ns {times['separate']:9.2f} ns separate"
            print(f"{name:20} {both}, {gain:5.2f} times")


if __name__ == "__main__":
    main()

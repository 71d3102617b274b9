"""Factorizations, solves and spectra on a GPU beside the libraries a user has, and beside the copy.

    python -m benchmarks.device.linalg --topic square   # orders 1..32, operands of 1 GiB
    python -m benchmarks.device.linalg --topic small    # batches of 100 to 100,000, CUDA graph replayed
    python -m benchmarks.device.linalg --topic call     # host side of inv_ex and solve_ex

Everything as in matmul.py; results have the bits of the CPU's, which is checked before timing. Others are
timed on at most 100,000 matrices (some on 2,000), since some take a second for that. cuBLAS and cuSOLVER work
in place: their operand is restored before each call, and the time of restoring taken off. Rows go to
benchmarks/results/device/linalg-<device>-<topic>.json.
"""

from __future__ import annotations

import argparse
from functools import partial

import smallmm

from .contenders import ours
from .suite import Run, Stack, batch_of, bytes_of, main, precompile, problem_of, progress
from .timing import host_side, time_all, time_one

OPS = (
    *("LU", "CHOLESKY", "INV", "QR_RAW", "QR", "SOLVE", "DET", "LU_SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR"),
    *("LSTSQ", "EIGH", "EIGVALSH", "SVD", "SVDVALS"),
)


def square(run: Run, options: argparse.Namespace) -> None:
    ops = options.op or OPS
    problems = [problem_of(op, dtype, n) for op in ops for dtype in ("f32", "f64") for n in options.n]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        time_all(run, problem, Stack(problem))
        if not run.quick:
            run.write()


def small(run: Run, options: argparse.Namespace) -> None:
    problems = [
        problem_of(op, dtype, n, small=1)
        for op in options.op or OPS
        for dtype in ("f32", "f64")
        for n in (2, 3, 4, 8, 16, 32)[: 2 if run.quick else None]
    ]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        for batch in (100, 1000, 10_000, 100_000):
            if batch <= batch_of({**problem, "small": 0}):
                stack = Stack(problem, batch)
                moved = bytes_of(problem) * batch
                time_one(run, problem, ours(problem, stack), moved, stack.inputs, graph=True)


def call(run: Run, options: argparse.Namespace) -> None:
    torch = run.timer.torch
    for dtype, kind in {"f32": torch.float32, "f64": torch.float64}.items():
        for n in (2, 4, 8, 16, 32):
            x = torch.rand(1000, n, n, device="cuda", dtype=kind)
            for op, operands in (("inv", (x,)), ("solve", (x, x))):
                problem = problem_of(op.upper(), dtype, n)
                for who, module in (("smallmm", smallmm), ("PyTorch", torch.linalg)):
                    function = partial(getattr(module, f"{op}_ex"), *operands)
                    host_side(run, problem, who, f"{module.__name__}.{op}_ex", function)


TOPICS = {"square": square, "small": small, "call": call}

if __name__ == "__main__":
    main("linalg", __doc__.splitlines()[0], TOPICS)

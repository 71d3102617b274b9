"""Factorizations, solves and spectra on a GPU beside the libraries a user has, and beside the copy.

    python -m benchmarks.device.linalg --topic square   # orders 1..32, operands of 1 GiB
    python -m benchmarks.device.linalg --topic larger   # orders to 128, 1000 matrices
    python -m benchmarks.device.linalg --topic small    # batches of 100 to 100,000, CUDA graph replayed
    python -m benchmarks.device.linalg --topic call     # host side of inv_ex and solve_ex
    python -m benchmarks.device.linalg --topic rights   # solves with as many right-hand sides as rows
    python -m benchmarks.device.linalg --topic systems  # structures, refinement, eig
    python -m benchmarks.device.linalg --topic complex  # complex64 and complex128, products, too
    python -m benchmarks.device.linalg --topic derivatives  # forward and backward, as PyTorch's tensors

Everything as in matmul.py; results have the bits of the CPU's, which is checked before timing. Others are
timed on at most 100,000 matrices (some on 2,000), since some take a second for that. cuBLAS and cuSOLVER work
in place: their operand is restored before each call, and the time of restoring taken off. Rows go to
benchmarks/results/device/linalg-<device>-<topic>.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import smallmm
from smallmm import _core
from smallmm._tools.contenders import PEERS, in_a_tuple, our_own

from .contenders import Timed, ours
from .suite import FOOTPRINT, Problem, Run, Stack, batch_of, bytes_of, main, precompile, problem_of, progress
from .timing import host_side, time_all, time_one

OPS = (
    *("LU", "CHOLESKY", "INV", "QR_RAW", "QR", "SOLVE", "DET", "LU_SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR"),
    *("LSTSQ", "EIGH", "EIGVALSH", "SVD", "SVDVALS"),
)


SOLVERS = ("SOLVE", "SOLVE_POS", "LU_SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR")
SYSTEMS = (
    "SOLVE_POS",
    "SOLVE_SYM",
    "LDL",
    "LDL_SOLVE",
    "LU_RCOND",
    "BACKWARD_ERROR",
    "REFINE",
    "SOLVE_MIXED",
    "EIG",
    "EIGVALS",
)
COMPLEX = (
    *("MATMUL", "LU", "CHOLESKY", "INV", "QR", "DET", "LU_SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR", "LSTSQ"),
    *("SOLVE", "SOLVE_POS", "SOLVE_SYM", "LDL", "EIGH", "EIGVALSH", "SVD", "SVDVALS", "EIG", "EIGVALS"),
)
TAKEN = _core.cuda_catalog()["ops"]  # dtypes of each
FEW = (2, 3, 4, 8, 16, 32)
LARGER = (33, 64, 128)
LARGER_OPS = ("LU", "SOLVE", "INV", "CHOLESKY", "QR", "LSTSQ", "EIGH", "SVD")
MAX = 1 << 20  # matrices of derivatives, whose host side else takes the time
MAX_OF_EIGH = 10_000  # of PyTorch, whose library refuses many


def beside(run: Run, problems: list[Problem], only: tuple[str, ...] | None = None) -> None:
    """Ours and others, all or some."""
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        time_all(run, problem, Stack(problem), only)
        if not run.quick:
            run.write()


def square(run: Run, options: argparse.Namespace) -> None:
    dtypes = options.dtype or ("f32", "f64")
    beside(run, [problem_of(op, x, n) for op in options.op or OPS for x in dtypes for n in options.n])


def larger(run: Run, options: argparse.Namespace) -> None:
    """Above order 32, where a block of threads has one matrix."""
    orders = LARGER[: 1 if run.quick else None]
    wanted = product(options.op or LARGER_OPS, options.dtype or ("f32", "f64", "c128"), orders)
    beside(run, [problem_of(op, dtype, n, small=1) for op, dtype, n in wanted])


def few(
    run: Run, options: argparse.Namespace, ops: tuple[str, ...], dtypes: tuple[str, ...], several: bool
) -> None:
    """Of few orders, beside PyTorch alone."""
    orders = FEW[: 2 if run.quick else None]
    problems = [
        problem_of(op, dtype, n, n if several else 1)
        for op in options.op or ops
        for dtype in options.dtype or dtypes
        for n in orders
        if dtype in TAKEN[op]
    ]
    beside(run, problems, ("PyTorch",))


def small(run: Run, options: argparse.Namespace) -> None:
    problems = [
        problem_of(op, dtype, n, small=1)
        for op in options.op or OPS
        for dtype in ("f32", "f64")
        for n in FEW[: 2 if run.quick else None]
    ]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        for batch in (100, 1000, 10_000, 100_000):
            if batch <= batch_of({**problem, "small": 0}):
                stack = Stack(problem, batch)
                moved = bytes_of(problem) * batch
                time_one(run, problem, ours(problem, stack), moved, stack.inputs, graph=True)


def forward_and_backward(function: Callable[..., Any], operands: list[Any]) -> Callable[[], Any]:
    """The gradients of the sum of the results but info."""
    import torch

    def call() -> Any:
        results = [x for x in in_a_tuple(function(*operands)) if x.requires_grad]
        return torch.autograd.grad(results, operands, [torch.ones_like(x) for x in results])

    return call


def derivatives(run: Run, options: argparse.Namespace) -> None:
    torch = run.timer.torch
    theirs = {"SOLVE": "solve_ex", "INV": "inv_ex", "CHOLESKY": "cholesky_ex", "EIGH": "eigh"}
    for op, dtype, n in product(options.op or theirs, options.dtype or ("f32", "f64"), (3, 4, 8, 16, 32)):
        problem = problem_of(op, dtype, n)
        batch = min(MAX, FOOTPRINT // 4 // bytes_of(problem))
        stack = Stack(problem, batch)
        for who, module, name in ((our_own(), smallmm, f"{op.lower()}_ex"),
                                  (PEERS["PyTorch"](), torch.linalg, theirs[op])):  # fmt: skip
            count = min(batch, MAX_OF_EIGH if name == "eigh" else batch)
            operands = [x[:count].detach().requires_grad_() for x in stack.inputs]
            call = forward_and_backward(getattr(module, name), operands)
            timed = Timed(who, f"{module.__name__}.{name}, backward", call, count)
            time_one(run, problem, timed, 2 * count * bytes_of(problem), operands)
        if not run.quick:
            run.write()


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


TOPICS = {
    "square": square,
    "larger": larger,
    "small": small,
    "call": call,
    "derivatives": derivatives,
    "rights": partial(few, ops=SOLVERS, dtypes=("f32", "f64"), several=True),
    "systems": partial(few, ops=SYSTEMS, dtypes=("f32", "f64"), several=False),
    "complex": partial(few, ops=COMPLEX, dtypes=("c64", "c128"), several=False),
}

if __name__ == "__main__":
    main("linalg", __doc__.splitlines()[0], TOPICS)

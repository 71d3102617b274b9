"""Solves with matrices of few diagonals on a GPU beside cuSPARSE, and beside the copy.

    python -m benchmarks.device.banded --topic long     # 100,000 systems of orders 4 to 1000
    python -m benchmarks.device.banded --topic few      # 1 to 10,000 systems of order 1000
    python -m benchmarks.device.banded --topic parts    # 1 and 10 systems of orders 2^13 to 2^20, in parts

Results have the bits of the CPU's, which is checked before timing. cuSPARSE solves tridiagonal systems:
gtsv2StridedBatch by cyclic reduction without row exchanges, gtsvInterleavedBatch by LU with them, on systems
that lie side by side in memory, which those of a stack do not; of one system gtsv2_nopivot and gtsv2, without
and with exchanges. All overwrite: operands are restored before each call, and the time of restoring taken
off. Rows go to benchmarks/results/device/banded-<device>-<topic>.json.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from smallmm import _core

from .contenders import Timed, ours, vendor_library
from .suite import DTYPES, Problem, Run, Stack, bytes_of, gufunc_of, main, progress
from .timing import time_one

CASES: tuple[tuple[str, dict[str, int]], ...] = (
    ("SOLVE_TRIDIAGONAL", {"m": 3, "lower": 1, "pivot": 1}),
    ("SOLVE_TRIDIAGONAL", {"m": 3, "lower": 1, "pivot": 0}),
    ("SOLVE_BANDED", {"m": 5, "lower": 2}),
    ("SOLVE_BANDED", {"m": 9, "lower": 4}),
    ("SOLVEH_BANDED", {"m": 3, "lower": 0}),
)
ORDERS = (4, 8, 16, 32, 64, 100, 300, 1000)


class Systems(Stack):
    """Diagonally dominant ones, so that every method solves them."""

    def __init__(self, problem: Problem, batch: int):
        import torch

        self.batch = batch
        self.dtype = getattr(torch, DTYPES[problem["dtype"]])
        m, n, k, lower = (problem[x] for x in ("m", "n", "k", "lower"))
        self.gufunc = gufunc_of(problem["op"])
        if problem["op"] == "SOLVE_TRIDIAGONAL":
            self.gufunc += "" if problem["pivot"] else "_unpivoted"
            self.inputs = [self.random(size) for size in (n - 1, n, n - 1)]
            self.inputs[1] += 3
        else:
            ab = self.random(m, n)
            ab[:, 0 if problem["op"] == "SOLVEH_BANDED" else m - 1 - lower] += 2 * m
            self.inputs = [ab, *([np.array(lower, np.int32)] if problem["op"] == "SOLVE_BANDED" else [])]
        self.inputs.append(self.random(n, k))
        self.outputs = (None,) * getattr(_core, self.gufunc).nout
        self.outputs = self()

    def random(self, *shape: int) -> Any:
        import torch

        return torch.rand(self.batch, *shape, device="cuda", dtype=self.dtype)


def cusparse(stack: Systems) -> Iterator[Timed]:
    import torch

    library, who = ctypes.CDLL("libcusparse.so.12"), vendor_library("cuSPARSE")
    p = ctypes.c_void_p
    handle = p()
    assert library.cusparseCreate(ctypes.byref(handle)) == 0
    letter = "D" if stack.dtype == torch.float64 else "S"
    dl, d, du, b = stack.inputs
    n, batch = d.shape[1], len(d)
    zeros = torch.zeros(batch, 1, device="cuda", dtype=stack.dtype)
    whole = [torch.cat([zeros, dl], 1), d, torch.cat([du, zeros], 1), b[..., 0]]
    expected = stack.outputs[0][..., 0]

    def of(
        name: str, operands: list[Any], before: tuple[Any, ...], after: tuple[Any, ...], side: bool
    ) -> Timed:
        """`before` and `after` the operands are further arguments."""
        work = [x.clone() for x in operands]
        size = ctypes.c_size_t()
        addresses = [p(x.data_ptr()) for x in work]
        arguments = (handle, *before, *addresses, *after)
        query = getattr(library, f"cusparse{letter}{name}_bufferSizeExt")
        assert query(*arguments, ctypes.byref(size)) == 0
        buffer = torch.empty(size.value, dtype=torch.uint8, device="cuda")

        def restore() -> None:
            for x, y in zip(work, operands, strict=True):
                x.copy_(y)

        def call() -> None:
            library.cusparseSetStream(handle, p(torch.cuda.current_stream().cuda_stream))
            solve = getattr(library, f"cusparse{letter}{name}")
            assert solve(*arguments, p(buffer.data_ptr())) == 0

        restore()
        call()
        found = work[-1].mT if side else work[-1]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        return Timed(who, f"cusparse{letter}{name}", call, batch, before=restore)

    if batch == 1:
        yield of("gtsv2_nopivot", whole, (n, 1), (n,), side=False)
        yield of("gtsv2", whole, (n, 1), (n,), side=False)
    yield of("gtsv2StridedBatch", whole, (n,), (batch, n), side=False)
    if n < 1 << 16:  # above, 2 ms and more for each system
        side_by_side = [x.mT.contiguous() for x in whole]
        yield of("gtsvInterleavedBatch", side_by_side, (1, n), (batch,), side=True)


def measure(run: Run, cases: list[tuple[Problem, int]]) -> None:
    for problem, batch in progress(cases, len(cases), run.topic):
        stack = Systems(problem, batch)
        stack.assert_cpu_bits()
        moved = bytes_of(problem) * batch
        time_one(run, problem, ours(problem, stack), moved, stack.inputs)
        if problem.get("pivot") or run.topic == "parts":
            for timed in cusparse(stack):
                time_one(run, problem, timed, moved, stack.inputs)
        if not run.quick:
            run.write()


def problems(options: argparse.Namespace, orders: tuple[int, ...]) -> Iterator[Problem]:
    for op, sizes in CASES:
        for dtype in ("f32", "f64"):
            for n in orders:
                if not options.op or op in options.op:
                    yield {"op": op, "dtype": dtype, "n": n, "k": 1, **sizes}


def long(run: Run, options: argparse.Namespace) -> None:
    measure(run, [(x, 100_000) for x in problems(options, ORDERS[:2] if run.quick else ORDERS)])


def few(run: Run, options: argparse.Namespace) -> None:
    batches = (1, 1000) if run.quick else (1, 100, 1000, 10_000)
    measure(run, [(x, batch) for x in problems(options, (1000,)) for batch in batches])


def parts(run: Run, options: argparse.Namespace) -> None:
    unpivoted = [x for x in problems(options, (1 << 15, 1 << 17, 1 << 20)) if x.get("pivot") == 0]
    measure(run, [(x, batch) for x in unpivoted for batch in (1, 10)])


TOPICS = {"long": long, "few": few, "parts": parts}

if __name__ == "__main__":
    main("banded", __doc__.splitlines()[0], TOPICS)

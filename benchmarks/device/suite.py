"""What the scripts about GPUs share: operations on stacks on a device, event timing, the copy for comparison.

A problem is a dictionary: ``op`` as in csrc/ops.def, ``dtype`` (f32, f64), ``m``, ``k``, ``n``, and what
differs from contiguous operands (``order_a``, ``source_a`` and so on, ``small``).
"""

from __future__ import annotations

import itertools
import re
import statistics
import time
from typing import Any

from smallmm import _core

FOOTPRINT = 1 << 30  # bytes of the operands of a large batch
SIZES = {"f32": 4, "f64": 8}
Problem = dict[str, Any]

# The gufunc of each operation, and the compulsory elements of a matrix as they are counted: not pivots, info
# and tau.
GUFUNCS = {
    "MATMUL": ("batched_matmul", lambda m, k, n: m * k + k * n + m * n),
    "LU": ("lu_factor", lambda m, k, n: 2 * n * n),
    "LU_SOLVE": ("lu_solve", lambda m, k, n: n * n + 2 * n * k),
    "SOLVE": ("solve", lambda m, k, n: n * n + 2 * n * k),
    "INV": ("inv", lambda m, k, n: 2 * n * n),
    "DET": ("det", lambda m, k, n: n * n + 1),
    "SLOGDET": ("slogdet", lambda m, k, n: n * n + 2),
    "CHOLESKY": ("cholesky", lambda m, k, n: 2 * n * n),
    "CHO_SOLVE": ("cho_solve", lambda m, k, n: n * n + 2 * n * k),
    "SOLVE_TRIANGULAR": ("solve_lower", lambda m, k, n: n * n + 2 * n * k),
    "QR": ("qr_tall", lambda m, k, n: m * n + m * k + k * n),
    "QR_R": ("qr_r_tall", lambda m, k, n: m * n + k * n),
    "QR_RAW": ("qr_raw_tall", lambda m, k, n: 2 * m * n),
    "LSTSQ": ("lstsq", lambda m, k, n: m * n + m * k + n * k),
}
DEFINITE = ("CHOLESKY", "CHO_SOLVE", "SOLVE_TRIANGULAR")


def problem_of(op: str, dtype: str, n: int, **more: Any) -> Problem:
    """A square problem; solves have one right-hand side."""
    k = n if op in ("MATMUL", "QR", "QR_R", "QR_RAW") else 1
    return {"op": op, "dtype": dtype, "m": n, "k": k, "n": n, **more}


def bytes_of(problem: Problem) -> int:
    """Compulsory bytes of one matrix."""
    return GUFUNCS[problem["op"]][1](*(problem[x] for x in "mkn")) * SIZES[problem["dtype"]]


def traffic(problem: Problem, batch: int) -> int:
    """Compulsory bytes of a batch; one matrix for all counts once."""
    saved = 0
    for name, (rows, cols) in (("a", "mk" if problem["op"] == "MATMUL" else "mn"), ("b", "kn")):
        if problem.get(f"source_{name}"):
            saved += problem[rows] * problem[cols] * (batch - 1)
    return bytes_of(problem) * batch - saved * SIZES[problem["dtype"]]


def batch_of(problem: Problem) -> int:
    """An odd batch whose operands have about FOOTPRINT bytes; of small problems, 1000."""
    return 1000 if problem.get("small") else FOOTPRINT // bytes_of(problem) | 1


class Stack:
    """Operands of a problem on the device; calling it computes, into the same outputs each time."""

    def __init__(self, problem: Problem, batch: int | None = None):
        import torch

        self.batch = batch or batch_of(problem)
        self.dtype = {"f32": torch.float32, "f64": torch.float64}[problem["dtype"]]
        op, m, k, n = problem["op"], *(problem[x] for x in "mkn")
        a = self._random(problem, "a", m, k if op == "MATMUL" else n)
        if op in DEFINITE:
            a = a + a.mT
            a.diagonal(dim1=1, dim2=2).add_(2 * n)
        inputs = [a]
        if op == "LU_SOLVE":
            inputs = list(_core.direct["lu_factor"](a)[:2])
        if op in ("LU_SOLVE", "SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR", "LSTSQ"):
            inputs.append(self._random(problem, "b", m, k))
        if op == "MATMUL":
            inputs.append(self._random(problem, "b", k, n))
        if op == "LSTSQ":
            inputs.append(1e-6)
        self.inputs = inputs
        self.gufunc = GUFUNCS[op][0]
        self.outputs: tuple[Any, ...] = (None,) * getattr(_core, self.gufunc).nout
        outputs = self()
        self.outputs = outputs if isinstance(outputs, tuple) else (outputs,)

    def _random(self, problem: Problem, name: str, rows: int, cols: int) -> Any:
        import torch

        transposed, one = problem.get(f"order_{name}"), problem.get(f"source_{name}")
        shape = (cols, rows) if transposed else (rows, cols)
        x = torch.rand(1 if one else self.batch, *shape, device="cuda", dtype=self.dtype)
        return (x.mT if transposed else x).expand(self.batch, rows, cols)

    def __call__(self) -> Any:
        return _core.direct[self.gufunc](*self.inputs, *self.outputs)

    def assert_cpu_bits(self) -> None:
        """The last results of the first, the last and some other matrices are those of the CPU."""
        import numpy as np
        import torch

        few = (
            torch.cat([torch.arange(40), torch.randint(0, self.batch, (200,)), torch.arange(-40, 0)])
            % self.batch
        )
        inputs = [x[few.to(x.device)].cpu().numpy() if hasattr(x, "cpu") else x for x in self.inputs]
        expected = getattr(_core, self.gufunc)(*inputs)
        for x, y in zip(self.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
            if self.gufunc == "slogdet":
                np.testing.assert_allclose(x[few.to(x.device)].cpu().numpy(), y, rtol=1e-5)
            else:
                np.testing.assert_array_equal(x[few.to(x.device)].cpu().numpy(), y)


class Timer:
    """Event-timed medians on the current stream."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(32)]

    def __call__(
        self, call: Any, samples: int = 7, each: int = 3, warm: float = 0.03, rest: float = 0
    ) -> float:
        """Seconds of one call, after so many seconds of calls that bring the clocks up.

        A device that draws its full power lowers its clock: cases that are timed one right after the other
        need a rest before.
        """
        time.sleep(rest)
        start = time.perf_counter()
        while True:
            call()
            self.torch.cuda.synchronize()
            if time.perf_counter() - start > warm:
                break
        events = self.events[: samples + 1]
        events[0].record()
        for event in events[1:]:
            for _ in range(each):
                call()
            event.record()
        events[-1].synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(events)) / each / 1e3

    def replayed(self, call: Any, calls: int = 20) -> float:
        """Seconds of one call among several in a CUDA graph: without the host's part."""
        call()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        return self(graph.replay, samples=9, each=2, warm=0) / calls


def copy_speed(timer: Timer) -> float:
    """Bytes a second of the framework's copy, read and write counted."""
    torch = timer.torch
    x = torch.rand(FOOTPRINT // 8, device="cuda", dtype=torch.float32)
    y = torch.empty_like(x)
    return 2 * x.numel() * 4 / timer(lambda: y.copy_(x), samples=15)


def compile_one(job: tuple[Problem, Problem | None, int, int]) -> tuple[int, int]:
    """In a process of its own: fill the disk cache. Returns registers and bytes spilled."""
    problem, parameters, arch, shared = job
    _, log, *_ = _core.cuda_build(problem, parameters, arch, shared)
    registers = map(int, re.findall(r"Used (\d+) registers", log or ""))
    spills = map(int, re.findall(r"(\d+) bytes spill stores", log or ""))
    return max(registers, default=0), sum(spills)


def progress(items: Any, count: int, name: str) -> Any:
    """A progress bar, where tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    return tqdm(items, total=count, desc=name, mininterval=5)

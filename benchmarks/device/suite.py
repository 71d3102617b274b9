"""What the benchmarks on GPUs and the tuner share: operations on stacks, event timing, the copy, rows.

A problem is a dictionary: ``op`` as in csrc/defs/ops.def, ``dtype`` (a name of SIZES), ``m``, ``k``, ``n``,
and what differs from contiguous operands (``order_a``, ``source_a`` and so on, ``small``).
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from smallmm import _core
from smallmm._base.shapes import register_bfloat16
from smallmm._gpu.tuned import driver_version, slug_of
from smallmm._tools import bench
from smallmm._tools.contenders import Contender
from smallmm._tools.timing import repetitions_of

from .. import records
from ..records import Row

FOOTPRINT = 1 << 30  # bytes of the operands of a large batch
SIZES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "c64": 8, "c128": 16}  # bytes in memory
SOLVES = ("SOLVE", "SOLVE_POS", "SOLVE_SYM", "SOLVE_TRIANGULAR")  # how the names of solves end
DTYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
DTYPES |= {"c64": "complex64", "c128": "complex128"}  # as PyTorch calls them
Problem = dict[str, Any]

OPS = tuple(op for op in _core.operations if "BANDED" not in op and "DIAGONAL" not in op)  # of a `Stack`
GUFUNCS = {  # of operations, where it is not called as they are
    "MATMUL": "batched_matmul",
    "LU": "lu_factor",
    "LDL": "ldl_factor",
    "SOLVE_SYM": "solve_her",
    "SOLVE_TRIANGULAR": "solve_lower",
    "QR": "qr_tall",
    "QR_R": "qr_r_tall",
    "QR_RAW": "qr_raw_tall",
    "SVD": "svd_tall",
    "SVD_FULL": "svd_full_tall",
    "SVDVALS": "svdvals_tall",
}
SYMMETRIC = ("EIGH", "EIGVALSH", "LDL", "LDL_SOLVE", "SOLVE_SYM")
DEFINITE = ("CHOLESKY", "CHO_SOLVE", "SOLVE_POS", "SOLVE_TRIANGULAR")
FACTORED = ("LU_SOLVE", "LDL_SOLVE", "LU_RCOND")  # whose matrix is a factorization
NOT_COUNTED = ("pivots", "tau", "residuals", "rank", "iterations")  # among the bytes that must be moved


def gufunc_of(op: str) -> str:
    return GUFUNCS.get(op, op.lower())


def problem_of(op: str, dtype: str, n: int, nrhs: int = 1, **more: Any) -> Problem:
    """A square problem; solves have so many right-hand sides."""
    k = n if op.startswith(("MATMUL", "QR", "SVD")) else nrhs
    return {"op": op, "dtype": dtype, "m": n, "k": k, "n": n, **more}


def bytes_of(problem: Problem) -> int:
    """Compulsory bytes of one matrix."""
    sizes, number = {"1": 1, **problem}, SIZES[problem["dtype"]]
    real, pair = (number // 2, number) if problem["dtype"][0] == "c" else (number, 2 * number)
    of = {"number": number, "real": real, "complex": pair}
    return sum(
        of[element] * sizes[rows] * sizes[columns]
        for name, _, optional, element, rows, columns in _core.operations[problem["op"]]
        if not optional and name not in NOT_COUNTED
    )


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
        self.dtype = getattr(torch, DTYPES[problem["dtype"]])
        op, m, k, n = problem["op"], *(problem[x] for x in "mkn")
        a = self._random(problem, "a", m, k if op == "MATMUL" else n)
        if op in DEFINITE:
            a = a + a.mH
            a.diagonal(dim1=1, dim2=2).add_(2 * n)
        if op in SYMMETRIC:
            a = a + a.mH
        makers = {
            "a": lambda: self.factors(op, a)[0] if op in FACTORED else a,
            "lu": lambda: self.factors(op, a)[0],
            "pivots": lambda: self.factors(op, a)[1],
            "b": lambda: self._random(problem, "b", k if op == "MATMUL" else m, n if op == "MATMUL" else k),
            "x": lambda: self._random(problem, "b", m, k),
            "norm": lambda: a.abs().sum(-2).amax(-1),
        }
        self.inputs = [
            makers[name]()
            for name, direction, optional, *_ in _core.operations[op]
            if direction == "in" and not optional
        ]
        if op == "LSTSQ":
            self.inputs.append(1e-6)
        self.gufunc = gufunc_of(op)
        self.outputs: tuple[Any, ...] = (None,) * getattr(_core, self.gufunc).nout
        outputs = self()
        self.outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if problem.get("order_c"):
            self.outputs = tuple(x.mT.contiguous().mT if x.ndim == 3 else x for x in self.outputs)

    @staticmethod
    def factors(op: str, a: Any) -> Any:
        return _core.direct["ldl_factor" if op.startswith("LDL") else "lu_factor"](a)

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
        inputs = [on_host(x[few.to(x.device)]) if hasattr(x, "cpu") else x for x in self.inputs]
        expected = getattr(_core, self.gufunc)(*inputs)
        for x, y in zip(self.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
            found = on_host(x[few.to(x.device)])
            if self.gufunc == "slogdet":
                np.testing.assert_allclose(found, y, rtol=4 * float(torch.finfo(self.dtype).eps))
            else:
                np.testing.assert_array_equal(found, y)


def on_host(x: Any) -> Any:
    """A tensor as an array of NumPy, which has bfloat16 from ml_dtypes."""
    import torch

    if x.dtype != torch.bfloat16:
        return x.cpu().numpy()
    import ml_dtypes

    y = x.view(torch.int16).cpu().numpy().view(ml_dtypes.bfloat16)
    register_bfloat16(y.dtype)
    return y


class Timer:
    """`measure` of smallmm/_tools/bench.py by the events of the current stream, one call at a time: a device
    that draws its full power lowers its clock, so that cases need a rest before rather than turns."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def clock(self, call: Any, repetitions: int) -> float:
        """A `Clock`: nanoseconds between two events. What ran before keeps the stream busy while the calls
        are enqueued."""
        self.start.record()
        for _ in range(repetitions):
            call()
        self.stop.record()
        self.stop.synchronize()
        return self.start.elapsed_time(self.stop) * 1e6 / repetitions

    def timing(
        self, call: Any, samples: int = 7, each: int = 3, warm: float = 0.03, rest: float = 0
    ) -> bench.Timing:
        """Of one call, after so many seconds of rest and then of calls that bring the clocks up."""
        time.sleep(rest)
        if warm:
            repetitions_of(call, warm * 1e9, self.clock)
        how = {"budget_s": 0, "least": samples, "repetitions": each, "sample": self.clock}
        return bench.measure({"call": call}, **how)["call"]

    def __call__(self, call: Any, **how: Any) -> float:
        """Seconds of one call."""
        return self.timing(call, **how).median / 1e9

    def replay(self, call: Any, calls: int = 20) -> bench.Timing:
        """Of so many calls in a CUDA graph: without the host's part."""
        call()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        return self.timing(graph.replay, samples=9, each=2, warm=0)

    def replayed(self, call: Any, calls: int = 20) -> float:
        """Seconds of one call among several in a CUDA graph."""
        return self.replay(call, calls).median / calls / 1e9


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


def precompile(problems: list[Problem]) -> None:
    """Kernels of all problems, compiled side by side into the disk cache."""
    device, arch, shared = _core.cuda_device(0)
    here = {"device": device, "arch": arch}
    jobs = [(problem, _core.cuda_plan(problem | here, shared), arch, shared) for problem in problems]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(progress(pool.map(compile_one, jobs, chunksize=4), len(jobs), "compile"))


def op_of(problem: Problem) -> str:
    """What rows call the operation: as the package does."""
    return {"LU": "lu_factor"}.get(problem["op"], problem["op"].lower())


class Run(records.Run):
    """The rows of one topic, beside the speed of a copy."""

    def __init__(self, suite: str, topic: str, options: argparse.Namespace):
        import torch

        self.timer, self.topic, self.quick = Timer(), topic, options.quick
        self.copy = max(copy_speed(self.timer) for _ in range(3))
        about = {
            "device": torch.cuda.get_device_name(),
            "driver": driver_version() or "unknown",
            "cuda": torch.version.cuda,
            "copy_bytes_per_s": float(f"{self.copy:.5g}"),
        }
        slug = slug_of(about["device"])
        folder = options.out or records.RESULTS / "device"
        super().__init__(folder / f"{suite}-{slug}-{topic}.json", about, options.commit or records.commit())

    def time(self, who: Contender, problem: Problem, timing: bench.Timing, batch: int, moved: float,
             call: str = "", **more: Any) -> Row:  # fmt: skip
        """Add the row of one contender."""
        case = {**problem, "op": op_of(problem), "topic": self.topic}
        whose = {"contender": who.name, "version": who.version, "call": call}
        row = bench.row(timing, batch=batch, bytes=moved, flops=0, **case, **whose, **more)
        del row["gflops"]  # bytes are the limit
        return self.add(row | {"percent": round(100e9 * moved / timing.median / self.copy, 1)})


def main(suite: str, summary: str, topics: dict[str, Callable[[Run, argparse.Namespace], None]]) -> None:
    """The command line of a suite."""
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--topic", nargs="*", choices=[*topics, "all"], default="all")
    parser.add_argument("--n", type=int, nargs="*", default=[*range(1, 33)], help="orders")
    parser.add_argument("--op", nargs="*", choices=list(_core.operations), help="rows of csrc/defs/ops.def")
    parser.add_argument("--dtype", nargs="*", choices=list(SIZES), help="only these")
    parser.add_argument("--quick", action="store_true", help="two orders: does it work here?")
    parser.add_argument("--commit", help="where this is no clone")
    parser.add_argument(
        "--out", type=Path, help="folder of the rows (default: results/device; none if --quick)"
    )
    options = parser.parse_args()
    if options.quick:
        options.n = [3, 16]
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for topic in topics if "all" in options.topic else options.topic:
        run = Run(suite, topic, options)
        topics[topic](run, options)
        if options.out or not options.quick:
            run.write()

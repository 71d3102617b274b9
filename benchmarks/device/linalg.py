"""Factorizations and solves on a GPU beside the libraries a user has, and beside the copy.

    python benchmarks/bench_cuda_linalg.py --topic square   # orders 1..32, operands of 1 GiB
    python benchmarks/bench_cuda_linalg.py --topic small    # batches of 100 to 100,000, CUDA graph replayed
    python benchmarks/bench_cuda_linalg.py --topic call     # host side of inv_ex and solve_ex
    python benchmarks/bench_cuda_linalg.py --report         # judge the rows that are there, measure nothing

Everything as in bench_cuda.py; results have the bits of the CPU's, which is checked before timing. Peers are
timed on at most 100,000 matrices (some on 2,000), since some take a second for that. cuBLAS and cuSOLVER work
in place: their operand is restored before each call, and the time of restoring taken off. Rows go to
benchmarks/results/cuda/linalg-<device>-<topic>.jsonl.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench_cuda import RESULTS, Run, precompile
from device_suite import SIZES, Stack, batch_of, bytes_of, problem_of, progress

import smallmm

OPS = (
    "LU",
    "CHOLESKY",
    "INV",
    "QR_RAW",
    "QR",
    "SOLVE",
    "DET",
    "LU_SOLVE",
    "CHO_SOLVE",
    "SOLVE_TRIANGULAR",
    "LSTSQ",
)
MOST_OF_PEERS = 100_000
JAX_ORDERS = (2, 4, 8, 16, 32)  # it compiles each shape anew
Row = dict[str, Any]
Call = Callable[[], Any]


# --- peers ----------------------------------------------------------------------------------------


class Vendor:
    """cuBLAS and cuSOLVER called directly: arrays of pointers, matrices by columns, in place."""

    def __init__(self, a: Any):
        import torch

        self.torch = torch
        self.blas, self.solver = ctypes.CDLL("libcublas.so.13"), ctypes.CDLL("libcusolver.so.12")
        self.a, self.work = a, a.clone()
        self.batch, self.n, _ = a.shape
        self.letter = "D" if a.dtype == torch.float64 else "S"
        self.pointers = self.addresses(self.work)
        self.info = torch.zeros(self.batch, dtype=torch.int32, device="cuda")
        self.pivots = torch.zeros(self.batch, self.n, dtype=torch.int32, device="cuda")
        self.handle = ctypes.c_void_p()
        assert self.solver.cusolverDnCreate(ctypes.byref(self.handle)) == 0

    def addresses(self, x: Any) -> Any:
        step = x.stride(0) * x.element_size()
        return self.torch.arange(len(x), device="cuda", dtype=self.torch.int64) * step + x.data_ptr()

    def on_stream(self) -> None:
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        assert self.solver.cusolverDnSetStream(self.handle, stream) == 0

    def restore(self) -> None:
        self.work.copy_(self.a)

    def _blas(self, name: str, *args: Any) -> None:
        handle = ctypes.c_void_p(self.torch.cuda.current_blas_handle())
        status = getattr(self.blas, f"cublas{self.letter}{name}")(handle, *args)
        assert status == 0, (name, status)

    def getrf(self) -> None:
        p = ctypes.c_void_p
        self._blas("getrfBatched", self.n, p(self.pointers.data_ptr()), self.n, p(self.pivots.data_ptr()),
                   p(self.info.data_ptr()), self.batch)  # fmt: skip

    def matinv(self, to: Any) -> None:
        p = ctypes.c_void_p
        self._blas("matinvBatched", self.n, p(self.pointers.data_ptr()), self.n, p(to.data_ptr()), self.n,
                   p(self.info.data_ptr()), self.batch)  # fmt: skip

    def geqrf(self, tau: Any) -> None:
        p = ctypes.c_void_p
        self._blas("geqrfBatched", self.n, self.n, p(self.pointers.data_ptr()), self.n,
                   p(tau.data_ptr()), ctypes.byref(ctypes.c_int()), self.batch)  # fmt: skip

    def getrs(self, b: Any) -> None:
        p = ctypes.c_void_p
        self._blas("getrsBatched", 0, self.n, 1, p(self.pointers.data_ptr()), self.n,
                   p(self.pivots.data_ptr()), p(b.data_ptr()), self.n, ctypes.byref(ctypes.c_int()),
                   self.batch)  # fmt: skip

    def potrf(self) -> None:
        p = ctypes.c_void_p
        self.on_stream()
        status = getattr(self.solver, f"cusolverDn{self.letter}potrfBatched")(
            self.handle, 0, self.n, p(self.pointers.data_ptr()), self.n, p(self.info.data_ptr()), self.batch
        )
        assert status == 0, status


def peers(op: str, inputs: list[Any]) -> dict[str, tuple[Call, Call | None]]:
    """name: (call, what is called before it and not counted)."""
    import torch

    a, *rest = inputs
    b = rest[op == "LU_SOLVE"] if rest else None
    vendor = Vendor(a)
    la = torch.linalg
    found: dict[str, tuple[Call, Call | None]] = {}
    if op == "LU":
        found["cuBLAS"] = vendor.getrf, vendor.restore
        found["torch.linalg.lu_factor_ex"] = partial(la.lu_factor_ex, a), None
    elif op == "CHOLESKY":
        found["cuSOLVER"] = vendor.potrf, vendor.restore
        found["torch.linalg.cholesky_ex"] = partial(la.cholesky_ex, a), None
    elif op == "INV":
        inverse = torch.empty_like(a)
        found["cuBLAS"] = partial(vendor.matinv, vendor.addresses(inverse)), None
        found["torch.linalg.inv_ex"] = partial(la.inv_ex, a), None
    elif op == "QR_RAW":
        tau = torch.zeros(a.shape[:2], dtype=a.dtype, device="cuda")
        found["cuBLAS"] = partial(vendor.geqrf, vendor.addresses(tau)), vendor.restore
        found["torch.geqrf"] = partial(torch.geqrf, a[:2000]), None
    elif op == "QR":
        found["torch.linalg.qr"] = partial(la.qr, a[:2000]), None
    elif op == "SOLVE":
        x = b.clone()
        pointers = vendor.addresses(x)

        def factor_and_solve() -> None:
            vendor.getrf()
            vendor.getrs(pointers)

        def restore() -> None:
            vendor.restore()
            x.copy_(b)

        found["cuBLAS"] = factor_and_solve, restore
        found["torch.linalg.solve_ex"] = partial(la.solve_ex, a, b), None
    elif op == "DET":
        found["torch.linalg.det"] = partial(la.det, a), None
    elif op == "LU_SOLVE":
        found["torch.linalg.lu_solve"] = partial(la.lu_solve, a, rest[0] + 1, b), None
    elif op == "CHO_SOLVE":
        found["torch.cholesky_solve"] = partial(torch.cholesky_solve, b, a), None
    elif op == "SOLVE_TRIANGULAR":
        found["torch.linalg.solve_triangular"] = partial(la.solve_triangular, a, b, upper=False), None
    elif op == "LSTSQ":
        found["torch.linalg.lstsq"] = partial(la.lstsq, a[:2000], b[:2000]), None
    return found | framework_peers(op, a, b)


def framework_peers(op: str, a: Any, b: Any) -> dict[str, tuple[Call, Call | None]]:
    found: dict[str, tuple[Call, Call | None]] = {}
    names = {"CHOLESKY": "cholesky", "INV": "inv", "SOLVE": "solve", "DET": "det", "QR": "qr"}
    if op not in names:
        return found
    operands = (a, b) if op == "SOLVE" else (a,)
    try:
        import cupy
        import torch

        if op != "QR":  # a loop over the matrices
            arrays = [cupy.from_dlpack(x) for x in operands]
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

            def by_cupy() -> None:
                with stream:
                    getattr(cupy.linalg, names[op])(*arrays)

            found[f"cupy.linalg.{names[op]}"] = by_cupy, None
    except ImportError:
        pass
    if a.shape[-1] not in JAX_ORDERS:
        return found
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
        few = [x[:2000] for x in operands] if op == "QR" else operands
        of_jax = [jax.dlpack.from_dlpack(x) for x in few]
        jitted = jax.jit(getattr(jax.numpy.linalg, names[op]))
        found["jax.numpy.linalg." + names[op]] = (lambda: jax.block_until_ready(jitted(*of_jax))), None
    except ImportError:
        pass
    return found


# --- topics ---------------------------------------------------------------------------------------


def seconds_of(run: Run, name: str, call: Call, before: Call | None) -> float:
    """A peer's median. JAX has streams of its own: wall time of calls that wait."""
    torch = run.timer.torch
    if name.startswith("jax"):
        call()
        samples = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            samples.append(time.perf_counter() - start)
        return statistics.median(samples)

    def both() -> None:
        if before:
            before()
        call()

    both()
    torch.cuda.synchronize()
    once = run.timer(both, samples=1, each=1, warm=0)
    samples, each = (7, 3) if once < 2e-3 else (3, 1)
    return run.timer(both, samples=samples, each=each, warm=0) - (
        run.timer(before, samples=samples, each=each, warm=0) if before else 0
    )


def square(run: Run, orders: list[int], ops: list[str]) -> None:
    problems = [problem_of(op, dtype, n) for op in ops for dtype in ("f32", "f64") for n in orders]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        stack = Stack(problem)
        stack.assert_cpu_bits()
        moved = bytes_of(problem) * stack.batch
        run.add("smallmm", problem, run.timer(stack), stack.batch, moved)
        few = min(stack.batch, MOST_OF_PEERS)
        inputs = [x[:few].contiguous() if hasattr(x, "ndim") else x for x in stack.inputs]
        del stack
        for name, (call, before) in peers(problem["op"], inputs).items():
            try:
                seconds = seconds_of(run, name, call, before)
            except Exception as error:  # a peer that cannot do this here
                print(f"{name} {problem}: {type(error).__name__}: {str(error)[:100]}", flush=True)
                continue
            count = (
                2000
                if name in ("torch.geqrf", "torch.linalg.qr", "torch.linalg.lstsq", "jax.numpy.linalg.qr")
                else few
            )
            run.add(name, problem, seconds, count, bytes_of(problem) * count)
        run.write()


def small(run: Run, ops: list[str]) -> None:
    problems = [
        problem_of(op, dtype, n, small=1)
        for op in ops
        for dtype in ("f32", "f64")
        for n in (2, 3, 4, 8, 16, 32)
    ]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        for batch in (100, 1000, 10_000, 100_000):
            if batch <= batch_of({**problem, "small": 0}):
                seconds = run.timer.replayed(Stack(problem, batch))
                run.add("smallmm", problem, seconds, batch, bytes_of(problem) * batch)


def call(run: Run) -> None:
    torch = run.timer.torch
    for dtype in SIZES:
        for n in (2, 4, 8, 16, 32):
            x = torch.rand(
                1000, n, n, device="cuda", dtype={"f32": torch.float32, "f64": torch.float64}[dtype]
            )
            calls = {
                ("INV", "smallmm"): partial(smallmm.inv_ex, x),
                ("INV", "torch.linalg.inv_ex"): partial(torch.linalg.inv_ex, x),
                ("SOLVE", "smallmm"): partial(smallmm.solve_ex, x, x),
                ("SOLVE", "torch.linalg.solve_ex"): partial(torch.linalg.solve_ex, x, x),
            }
            for (op, name), function in calls.items():
                for _ in range(200):
                    function()
                samples = []
                for _ in range(20):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(50):
                        function()
                    samples.append((time.perf_counter() - start) / 50)
                    torch.cuda.synchronize()
                seconds = statistics.median(samples)
                run.add(name, problem_of(op, dtype, n), seconds, 1000, 0, host_us=round(seconds * 1e6, 3))


# --- verdicts -------------------------------------------------------------------------------------

# Percent of the copy that each must reach, f64 and f32, at these orders; elsewhere at most 8 points less than
# the smaller of the two neighbours.
AT = (2, 3, 4, 8, 12, 16, 24, 32)
MUST = {
    "lu": ((79, 85, 85, 90, 86, 90, 77, 68), (68, 77, 80, 87, 92, 84, 68, 65)),
    "cholesky": ((89, 93, 92, 92, 88, 94, 92, 93), (85, 90, 93, 92, 95, 88, 87, 94)),
    "inv": ((88, 93, 90, 87, 82, 82, 60, 53), (79, 91, 89, 82, 76, 78, 53, 53)),
    "qr_raw": ((72, 78, 82, 93, 88, 88, 65, 49), (70, 75, 78, 80, 85, 90, 65, 57)),
    "solve": ((85, 85, 85, 85, 82, 82, 65, 58), (75, 80, 80, 80, 85, 78, 58, 55)),
}


def must(op: str, dtype: str, n: int) -> float:
    """The percentage asked; 0 where nothing is."""
    if op not in MUST or n < AT[0]:
        return 0
    line = MUST[op][dtype == "f32"]
    if n in AT:
        return line[AT.index(n)]
    below = max(i for i, x in enumerate(AT) if x < n)
    return min(line[below : below + 2]) - 8


def report(folder: Path) -> None:
    """Every line the project promises of factorizations on a GPU, from the rows."""
    for path in sorted(folder.glob("linalg-*-square.jsonl")):
        head, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        about = head["machine"]
        print(
            f"{about['device']}, copy {about['copy_bytes_per_s'] / 1e12:.3f} TB/s, commit {about['commit']}"
        )
        met = missed = 0
        for op in dict.fromkeys(r["op"] for r in rows):
            for dtype in ("f64", "f32"):
                line = []
                for n in sorted({r["n"] for r in rows if r["op"] == op}):
                    found = {
                        r["contender"]: r for r in rows if (r["op"], r["dtype"], r["n"]) == (op, dtype, n)
                    }
                    ours, asked = found.pop("smallmm"), must(op, dtype, n)
                    least = min((r["ns_per_matrix"] for r in found.values()), default=float("inf"))
                    ratio = least / ours["ns_per_matrix"]
                    good = ours["percent"] >= asked and ratio >= 1
                    met, missed = met + good, missed + (not good)
                    line.append(
                        f"{n}: {ours['percent']:.0f}{'' if good else f' MISSED {asked}'} ({ratio:.3g}x)"
                    )
                print(f"{op} {dtype}  " + "  ".join(line))
        print(f"{met} met, {missed} missed")
    for path in sorted(folder.glob("linalg-*-call.jsonl")):
        _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for key in dict.fromkeys((r["op"], r["contender"]) for r in rows):
            print("host us", *key, [r["host_us"] for r in rows if (r["op"], r["contender"]) == key])
    for path in sorted(folder.glob("linalg-*-small.jsonl")):
        _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for key in dict.fromkeys((r["op"], r["dtype"], r["n"]) for r in rows):
            print(
                "graph replay, us", *key,
                {r["batch"]: round(r["ns_per_matrix"] * r["batch"] / 1e3, 2)
                 for r in rows if (r["op"], r["dtype"], r["n"]) == key},
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topic", nargs="*", choices=["square", "small", "call"], default=[])
    parser.add_argument("--orders", type=int, nargs="*", default=[*range(1, 33)])
    parser.add_argument("--ops", nargs="*", choices=OPS, default=list(OPS))
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for topic in arguments.topic:
        run = Run(topic, arguments.commit, arguments.out, "linalg")
        if topic == "square":
            square(run, arguments.orders, arguments.ops)
        elif topic == "small":
            small(run, arguments.ops)
        else:
            call(run)
        run.write()
    if arguments.report:
        report(arguments.out)


if __name__ == "__main__":
    main()

"""Products on a GPU beside the libraries a user has, and beside the copy: validate, time, write rows.

    python -m benchmarks.device.matmul --topic square     # orders 1..32, operands of 1 GiB, every contender
    python -m benchmarks.device.matmul --topic larger     # orders to 64, likewise
    python -m benchmarks.device.matmul --topic rect       # 500 random (m, k, n) beside torch.bmm
    python -m benchmarks.device.matmul --topic layout     # transposed, broadcast, contiguous operands
    python -m benchmarks.device.matmul --topic small      # 100 to 100,000 matrices, replayed in a CUDA graph
    python -m benchmarks.device.matmul --topic call       # host side of a call, first compile, load from disk

Device time is the median between events around several calls; operands far exceed L2. `percent` is the
compulsory traffic (each operand read once, the result written once; a broadcast operand counts once) over the
time, as a share of the framework's own device-to-device copy in the same run. Rows go to
benchmarks/results/device/matmul-<device>-<topic>.json.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from functools import partial
from tempfile import TemporaryDirectory

import smallmm
from smallmm._tools import timing
from smallmm._tools.contenders import our_own

from .contenders import contenders, ours
from .suite import Problem, Run, Stack, main, precompile, problem_of, progress, traffic
from .timing import host_side, time_all, time_one

SMALL_ORDERS, SMALL_BATCHES = (2, 3, 4, 8, 16, 32), (100, 1000, 10_000, 100_000)
LARGER = (36, 40, 44, 48, 52, 56, 60, 64, 96, 128)


def squares(run: Run, orders: list[int]) -> None:
    problems = [problem_of("MATMUL", dtype, n) for dtype in ("f32", "f64") for n in orders]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        time_all(run, problem, Stack(problem))


def square(run: Run, options: argparse.Namespace) -> None:
    squares(run, options.n)


def larger(run: Run, options: argparse.Namespace) -> None:
    squares(run, [40] if run.quick else [*LARGER])


def rect(run: Run, options: argparse.Namespace) -> None:
    chance = random.Random(2026)
    shapes = [tuple(chance.randint(1, 32) for _ in range(3)) for _ in range(10 if run.quick else 500)]
    problems = [
        {"op": "MATMUL", "dtype": ("f32", "f64")[i % 2], "m": m, "k": k, "n": n}
        for i, (m, k, n) in enumerate(shapes)
    ]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        time_all(run, problem, Stack(problem), only=("PyTorch",))


def layout(run: Run, options: argparse.Namespace) -> None:
    kinds = {
        "contiguous": {}, "a transposed": {"order_a": 1}, "b transposed": {"order_b": 1},
        "both transposed": {"order_a": 1, "order_b": 1}, "a broadcast": {"source_a": 1},
        "b broadcast": {"source_b": 1},
    }  # fmt: skip
    problems = [
        problem_of("MATMUL", dtype, n, layout=kind, **extra)
        for dtype in ("f32", "f64") for n in options.n if n > 1 for kind, extra in kinds.items()
    ]  # fmt: skip
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        time_all(run, problem, Stack(problem), only=())


def small(run: Run, options: argparse.Namespace) -> None:
    for dtype in ("f32", "f64"):
        for n in SMALL_ORDERS[: 2 if run.quick else None]:
            for batch in SMALL_BATCHES:
                problem = problem_of("MATMUL", dtype, n)
                stack = Stack(problem, batch)
                for timed in (ours(problem, stack), *contenders(problem, stack)):
                    # CuPy's is cuBLAS again, and neither it nor JAX is on the stream that is captured.
                    if timed.who.name not in ("CuPy", "JAX"):
                        time_one(run, problem, timed, traffic(problem, batch), stack.inputs, graph=True)


CALL = """
import torch, smallmm
from smallmm._tools.bench import clock
smallmm.cuda.warmup([1], dtypes=("f32",))
x = torch.rand({batch}, {n}, {n}, device="cuda", dtype=torch.{dtype})
torch.cuda.synchronize()
print(clock()(lambda: smallmm.batched_matmul({operands}), 1))
"""


def call(run: Run, options: argparse.Namespace) -> None:
    torch = run.timer.torch
    for dtype in (torch.float32, torch.float64):
        for n in SMALL_ORDERS:
            problem = problem_of("MATMUL", {torch.float32: "f32", torch.float64: "f64"}[dtype], n)
            x = torch.rand(1000, n, n, device="cuda", dtype=dtype)
            host_side(
                run, problem, "smallmm", "smallmm.batched_matmul", partial(smallmm.batched_matmul, x, x)
            )
            host_side(run, problem, "PyTorch", "torch.bmm", partial(torch.bmm, x, x))
    cases = [("float64", n, 1000, "x, x") for n in (3, 8, 16, 21, 32)]
    cases += [
        ("float32", 31, 10_000, "x, x"),
        ("float32", 29, 10_000, "x, x[0]"),
        ("float64", 64, 1000, "x, x.mT"),
    ]
    for dtype, n, batch, operands in cases[: 1 if run.quick else None]:
        code = CALL.format(dtype=dtype, n=n, batch=batch, operands=operands)
        problem: Problem = problem_of(
            "MATMUL", {"float32": "f32", "float64": "f64"}[dtype], n, operands=operands
        )
        with TemporaryDirectory() as folder:
            own = {"SMALLMM_CACHE_DIR": folder, "CUDA_CACHE_DISABLE": "1"}  # NVRTC has a cache, too
            for kind in ("first compile", "from disk"):
                done = subprocess.run(
                    [sys.executable, "-c", code],
                    env=os.environ | own,
                    capture_output=True,
                    text=True,
                    check=True,
                )
                once = timing.timing([float(done.stdout)] * 2)
                ms = round(once.median / 1e6, 2)
                run.time(our_own(), problem, once, batch, 0, "smallmm.batched_matmul", what=kind, ms=ms)


TOPICS = {"square": square, "larger": larger, "rect": rect, "layout": layout, "small": small, "call": call}

if __name__ == "__main__":
    main("matmul", __doc__.splitlines()[0], TOPICS)

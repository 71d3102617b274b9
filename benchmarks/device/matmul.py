"""Products on a GPU beside the libraries a user has, and beside the copy: validate, time, write rows.

    python benchmarks/bench_cuda.py --topic square     # orders 1..32, operands of 1 GiB, every peer
    python benchmarks/bench_cuda.py --topic larger     # orders to 64, likewise
    python benchmarks/bench_cuda.py --topic rect       # 500 random (m, k, n) beside torch.bmm
    python benchmarks/bench_cuda.py --topic layout     # transposed, broadcast, contiguous operands
    python benchmarks/bench_cuda.py --topic small      # batches of 100 to 100,000, replayed in a CUDA graph
    python benchmarks/bench_cuda.py --topic call       # host side of a call, first compile, load from disk
    python benchmarks/bench_cuda.py --report           # judge the rows that are there, measure nothing

Device time is the median between events around several calls; operands far exceed L2. `percent` is the
compulsory traffic (each operand read once, the result written once; a broadcast operand counts once) over the
time, as a share of the framework's own device-to-device copy in the same run. Peers: cuBLAS strided batched
(called directly), torch.bmm, cupy.matmul, jax.jit of jnp.matmul. Rows go to
benchmarks/results/cuda/matmul-<device>-<topic>.jsonl.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from device_suite import Stack, Timer, compile_one, copy_speed, problem_of, progress, traffic

import smallmm
from smallmm import _core

RESULTS = Path(__file__).parent / "results" / "cuda"
REST = 0.3  # s before each contender: a device that has just drawn its full power runs at a lower clock
Row = dict[str, Any]
Call = Callable[[], Any]


# --- peers ----------------------------------------------------------------------------------------


def cublas(a: Any, b: Any, c: Any) -> Call:
    """cublas?gemmStridedBatched on row-major operands: C^T = B^T A^T."""
    import torch

    library = ctypes.CDLL("libcublas.so.13")
    wide = c.dtype == torch.float64
    function = library.cublasDgemmStridedBatched if wide else library.cublasSgemmStridedBatched
    scalar = ctypes.c_double if wide else ctypes.c_float
    batch, m, n = c.shape
    k = a.shape[-1]
    one, zero = ctypes.byref(scalar(1)), ctypes.byref(scalar(0))
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (b, a, c)]

    def call() -> None:
        handle = ctypes.c_void_p(torch.cuda.current_blas_handle())  # set to the current stream
        status = function(
            handle, 0, 0, n, m, k, one,
            pointers[0], n, ctypes.c_longlong(k * n),
            pointers[1], k, ctypes.c_longlong(m * k), zero,
            pointers[2], n, ctypes.c_longlong(m * n), batch,
        )  # fmt: skip
        assert status == 0, status

    return call


def peers(a: Any, b: Any, c: Any) -> dict[str, Call]:
    import torch

    found: dict[str, Call] = {"cuBLAS": cublas(a, b, c), "torch.bmm": lambda: torch.bmm(a, b, out=c)}
    try:
        import cupy

        x, y, z = (cupy.from_dlpack(t) for t in (a, b, c))
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

        def cupy_matmul() -> None:
            with stream:
                cupy.matmul(x, y, out=z)

        found["cupy.matmul"] = cupy_matmul
    except ImportError:
        print("CuPy is not installed")
    return found


def jax_seconds(a: Any, b: Any, calls: int) -> float | None:
    """JAX keeps its own streams: wall time of several calls, waited for."""
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    x, y = jax.dlpack.from_dlpack(a), jax.dlpack.from_dlpack(b)
    product = jax.jit(lambda x, y: jax.numpy.matmul(x, y, precision="highest"))
    product(x, y).block_until_ready()
    samples = []
    time.sleep(REST)
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(calls):
            last = product(x, y)
        last.block_until_ready()
        samples.append((time.perf_counter() - start) / calls)
    return statistics.median(samples)


# --- rows -----------------------------------------------------------------------------------------


class Run:
    """Rows of one topic."""

    def __init__(self, topic: str, commit: str, folder: Path, suite: str = "matmul"):
        import torch

        self.timer = Timer()
        self.topic = topic
        self.rows: list[Row] = []
        driver = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, check=False,
        ).stdout.split()  # fmt: skip
        self.about = {
            "device": torch.cuda.get_device_name(),
            "driver": driver[0] if driver else "unknown",
            "cuda": torch.version.cuda,
            "commit": commit,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        }
        slug = re.sub(r"[^a-z0-9]+", "-", self.about["device"].lower()).strip("-")
        self.path = folder / f"{suite}-{slug}-{topic}.jsonl"
        self.copy = max(copy_speed(self.timer) for _ in range(3))

    def add(self, contender: str, problem: Row, seconds: float, batch: int, moved: float, **more: Any) -> Row:
        row = {
            **problem, "op": problem["op"].lower(), "topic": self.topic, "contender": contender,
            "version": version_of(contender), "batch": batch,
            "ns_per_matrix": float(f"{seconds / batch * 1e9:.5g}"),
            "gbytes": float(f"{moved / seconds / 1e9:.5g}"),
            "percent": round(100 * moved / seconds / self.copy, 1),
            **more, **self.about,
        }  # fmt: skip
        self.rows.append(row)
        return row

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = {"machine": {**self.about, "copy_bytes_per_s": float(f"{self.copy:.5g}")}}
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [head, *self.rows])
        self.path.write_text(text, encoding="utf-8")


def version_of(contender: str) -> str:
    name = contender.partition(".")[0] if contender in sys.modules or "." in contender else contender
    name = {"cuBLAS": "torch", "cuSOLVER": "torch"}.get(name, name)
    return getattr(sys.modules.get(name), "__version__", "unknown")


def validate(c: Any, a: Any, b: Any) -> None:
    """|C - AB| <= (k + 2) u |A||B| for the first, the last and some other matrices."""
    import torch

    chosen = torch.cat([torch.arange(64), torch.randint(0, len(c), (512,)), torch.arange(-64, 0)]).to(
        c.device
    ) % len(c)
    x, y, z = a[chosen].double(), b[chosen].double(), c[chosen].double()
    unit = torch.finfo(c.dtype).eps / 2
    bound = (a.shape[-1] + 2) * 1.01 * unit * torch.matmul(x.abs(), y.abs())
    assert bool(((z - torch.matmul(x, y)).abs() <= bound).all()), "wrong result"


def operands(problem: Row) -> tuple[Any, Any, Any]:
    stack = Stack(problem)
    return (*stack.inputs, *stack.outputs)


def precompile(problems: list[Row]) -> None:
    """Kernels of all problems, compiled side by side into the disk cache."""
    _, arch, shared = _core.cuda_device(0)
    jobs = []
    for problem in problems:
        plan = _core.cuda_plan(problem, shared)
        jobs.append((problem, plan, arch, shared))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(progress(pool.map(compile_one, jobs, chunksize=4), len(jobs), "compile"))


# --- topics ---------------------------------------------------------------------------------------


def square(run: Run, orders: list[int]) -> None:
    problems = [problem_of("MATMUL", dtype, n) for dtype in ("f32", "f64") for n in orders]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        a, b, c = operands(problem)
        moved = traffic(problem, len(c))
        c.fill_(float("nan"))
        smallmm.batched_matmul(a, b, out=c)
        validate(c, a, b)
        seconds = run.timer(partial(smallmm.batched_matmul, a, b, out=c), rest=REST)
        run.add("smallmm", problem, seconds, len(c), moved)
        for name, call in peers(a, b, c).items():
            c.fill_(float("nan"))
            slow = run.timer(call, samples=1, each=1, warm=0) > 3e-3
            validate(c, a, b)
            how = {"samples": 3, "each": 1, "warm": 0} if slow else {"rest": REST}
            run.add(name, problem, run.timer(call, **how), len(c), moved)
        seconds = jax_seconds(a, b, 2 if problem["n"] < 6 else 8)
        if seconds is not None:
            run.add("jax", problem, seconds, len(c), moved)


def rect(run: Run) -> None:
    chance = random.Random(2026)
    shapes = [tuple(chance.randint(1, 32) for _ in range(3)) for _ in range(500)]
    problems = [
        {"op": "MATMUL", "dtype": ("f32", "f64")[i % 2], "m": m, "k": k, "n": n}
        for i, (m, k, n) in enumerate(shapes)
    ]
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        a, b, c = operands(problem)
        moved = traffic(problem, len(c))
        c.fill_(float("nan"))
        smallmm.batched_matmul(a, b, out=c)
        validate(c, a, b)
        run.add("smallmm", problem, run.timer(partial(smallmm.batched_matmul, a, b, out=c)), len(c), moved)
        call = partial(run.timer.torch.bmm, a, b, out=c)
        slow = run.timer(call, samples=1, each=1, warm=0) > 1e-3
        run.add(
            "torch.bmm", problem, run.timer(call, samples=1 if slow else 7, each=1, warm=0), len(c), moved
        )


def layout(run: Run, orders: list[int]) -> None:
    kinds = {
        "contiguous": {}, "a transposed": {"order_a": 1}, "b transposed": {"order_b": 1},
        "both transposed": {"order_a": 1, "order_b": 1}, "a broadcast": {"source_a": 1},
        "b broadcast": {"source_b": 1},
    }  # fmt: skip
    problems = [
        problem_of("MATMUL", dtype, n, layout=kind, **extra)
        for dtype in ("f32", "f64") for n in orders for kind, extra in kinds.items()
    ]  # fmt: skip
    precompile(problems)
    for problem in progress(problems, len(problems), run.topic):
        a, b, c = operands(problem)
        c.fill_(float("nan"))
        smallmm.batched_matmul(a, b, out=c)
        validate(c, a, b)
        seconds = run.timer(partial(smallmm.batched_matmul, a, b, out=c), rest=REST)
        run.add("smallmm", problem, seconds, len(c), traffic(problem, len(c)))


def small(run: Run) -> None:
    torch = run.timer.torch
    for dtype in ("f32", "f64"):
        for n in (2, 3, 4, 8, 16, 32):
            for batch in (100, 1000, 10_000, 100_000):
                problem = problem_of("MATMUL", dtype, n)
                kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
                a, b = (torch.rand(batch, n, n, device="cuda", dtype=kind) for _ in range(2))
                c = torch.empty_like(a)
                calls = {"smallmm": partial(smallmm.batched_matmul, a, b, out=c), **peers(a, b, c)}
                calls.pop("cupy.matmul", None)  # cuBLAS again, on a stream that is not captured
                for name, call in calls.items():
                    run.add(name, problem, run.timer.replayed(call), batch, traffic(problem, batch))


CALL = """
import time, sys
import torch, smallmm
smallmm.cuda.warmup([1], dtypes=("f32",))
x = torch.rand({batch}, {n}, {n}, device="cuda", dtype=torch.{dtype})
torch.cuda.synchronize()
start = time.perf_counter()
smallmm.batched_matmul({operands})
print(time.perf_counter() - start)
"""


def call(run: Run, folder: Path) -> None:
    torch = run.timer.torch
    for dtype in (torch.float32, torch.float64):
        for n in (2, 3, 4, 8, 16, 32):
            problem = problem_of("MATMUL", {torch.float32: "f32", torch.float64: "f64"}[dtype], n)
            x = torch.rand(1000, n, n, device="cuda", dtype=dtype)
            calls = {"smallmm": partial(smallmm.batched_matmul, x, x), "torch.bmm": partial(torch.bmm, x, x)}
            for name, f in calls.items():
                for _ in range(200):
                    f()
                samples = []
                for _ in range(30):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(100):
                        f()
                    samples.append((time.perf_counter() - start) / 100)
                seconds = statistics.median(samples)
                run.add(name, problem, seconds, 1000, 0, host_us=round(seconds * 1e6, 3))
    cases = [("float64", n, 1000, "x, x") for n in (3, 8, 16, 21, 32)]
    cases += [
        ("float32", 31, 10_000, "x, x"),
        ("float32", 29, 10_000, "x, x[0]"),
        ("float64", 64, 1000, "x, x.mT"),
    ]
    for number, (dtype, n, batch, operands) in enumerate(cases):
        own = {
            "SMALLMM_CACHE_DIR": str(folder / f"{number}"),
            "CUDA_CACHE_DISABLE": "1",
        }  # NVRTC has a cache, too
        code = CALL.format(dtype=dtype, n=n, batch=batch, operands=operands)
        for kind in ("first compile", "from disk"):
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, **own},
                capture_output=True,
                text=True,
                check=True,
            )
            problem = problem_of("MATMUL", {"float32": "f32", "float64": "f64"}[dtype], n, operands=operands)
            seconds = float(done.stdout)
            run.add("smallmm", problem, seconds, batch, 0, what=kind, ms=round(seconds * 1e3, 2))


# --- verdicts -------------------------------------------------------------------------------------


def report(folder: Path) -> None:
    """Every line the project promises of the GPU, from the rows."""
    for path in sorted(folder.glob("matmul-*-square.jsonl")):
        head, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if "copy_bytes_per_s" not in head["machine"]:
            continue
        print(f"{head['machine']['device']}, copy {head['machine']['copy_bytes_per_s'] / 1e12:.3f} TB/s")
        for dtype in ("f32", "f64"):
            of = {(r["contender"], r["n"]): r for r in rows if r["dtype"] == dtype}
            orders = sorted({n for _, n in of})
            names = [name for name, n in of if n == orders[0]]
            print(f"{dtype}: n, percent of the copy, then times faster than {', '.join(names[1:])}")
            for n in orders:
                ours = of["smallmm", n]
                ratios = [of[x, n]["ns_per_matrix"] / ours["ns_per_matrix"] for x in names[1:]]
                print(f"  {n:2d} {ours['percent']:6.1f}  " + " ".join(f"{x:7.2f}" for x in ratios))
    for path in sorted(folder.glob("matmul-*-rect.jsonl")):
        _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if "percent" not in rows[0]:
            continue
        ours = [r for r in rows if r["contender"] == "smallmm"]
        theirs = [r for r in rows if r["contender"] == "torch.bmm"]
        percents = sorted(r["percent"] for r in ours)
        ratio = min(t["ns_per_matrix"] / o["ns_per_matrix"] for o, t in zip(ours, theirs, strict=True))
        print(
            f"rectangles: median {statistics.median(percents)} %, least {percents[:5]}, "
            f"least ratio to bmm {ratio:.2f}"
        )
        for o in sorted(ours, key=lambda r: r["percent"])[:12]:
            print("  ", o["dtype"], o["m"], o["k"], o["n"], o["percent"])
    for path in sorted(folder.glob("matmul-nvidia*-layout.jsonl")):
        _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        base = {(r["dtype"], r["n"]): r["percent"] for r in rows if r["layout"] == "contiguous"}
        shares = sorted(
            (100 * r["percent"] / base[r["dtype"], r["n"]], r["dtype"], r["n"], r["layout"]) for r in rows
        )
        print(
            "layouts, least shares of the contiguous figure:",
            [(round(x, 1), *rest) for x, *rest in shares[:14]],
        )
    for path in sorted(folder.glob("matmul-nvidia*-call.jsonl")):
        _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        for name in ("smallmm", "torch.bmm"):
            print(
                "host us of", name, [r["host_us"] for r in rows if "host_us" in r and r["contender"] == name]
            )
        for what in ("first compile", "from disk"):
            print(what, "ms", [r["ms"] for r in rows if r.get("what") == what])
    for path in sorted(folder.glob("matmul-nvidia*-small.jsonl")):
        _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        print("graph replay, us: dtype n batch, then each contender")
        for key in dict.fromkeys((r["dtype"], r["n"], r["batch"]) for r in rows):
            found = [r for r in rows if (r["dtype"], r["n"], r["batch"]) == key]
            print(
                "  ", *key, *(f"{r['contender']} {r['ns_per_matrix'] * r['batch'] / 1e3:.2f}" for r in found)
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--topic", nargs="*", choices=["square", "larger", "rect", "layout", "small", "call"], default=[]
    )
    parser.add_argument("--orders", type=int, nargs="*", default=[*range(1, 33)])
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for topic in arguments.topic:
        run = Run(topic, arguments.commit, arguments.out)
        if topic == "square":
            square(run, arguments.orders)
        elif topic == "larger":
            square(run, [36, 40, 44, 48, 52, 56, 60, 64])
        elif topic == "layout":
            layout(run, [n for n in arguments.orders if n > 1])
        elif topic == "call":
            call(run, Path("/tmp/smallmm-call") / str(os.getpid()))
        else:
            {"rect": rect, "small": small}[topic](run)
        run.write()
    if arguments.report:
        report(arguments.out)


if __name__ == "__main__":
    main()

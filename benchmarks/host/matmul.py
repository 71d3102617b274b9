"""Benchmark of matmul: ours beside NumPy, PyTorch, MKL, LIBXSMM, and the limits of the machine, by topic.

    python -m benchmarks.host.matmul --topic all
    python -m benchmarks.host.matmul --topic square --dtype f64 --n 2 3 4 --quick

How topics run, and what else the command line takes, is suite.py's; the verdicts are those of
report/verdicts_matmul.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from tempfile import TemporaryDirectory

import numpy as np

import smallmm
from smallmm._tools import bench as _bench
from smallmm._tools.bench import Entry
from smallmm._tools.contenders import Contender
from smallmm._tools.operations import Stack
from smallmm._tools.progress import tqdm
from smallmm._tools.timing import timing

from ..report import verdicts_matmul
from ..report.results import NUMPY, OURS
from . import roofline, suite
from .arena import MATMUL, OUT_OF_CACHE, Arena, arena_for, batch_for, stack_of
from .suite import KERNEL_CACHE, LARGER, LARGER_CACHE, TAKE_COMPLEX, Bench

Shape = tuple[int, int, int]  # m, k, n

AVX2 = {"OPENBLAS_CORETYPE": "Haswell", "SMALLMM_ISA": "avx2"}
PASSIVE = {"OMP_WAIT_POLICY": "passive"}  # PyTorch's OpenMP would spin on while the next one is timed


def squares(orders: Iterable[int]) -> list[Shape]:
    return [(n, n, n) for n in orders]


def in_cache(bench: Bench, topic: str, shapes: dict[int, Shape], among: list[Contender]) -> None:
    """Products whose operands stay in cache, one thread, through the Python API."""
    footprint = bench.options.footprint_kb << 10
    for dtype in bench.options.dtype:
        arena = arena_for(dtype, footprint, shapes.values())
        for n in tqdm(shapes, desc=f"{topic} {dtype}"):
            stack = arena.stack(batch_for(footprint, dtype, *shapes[n]), *shapes[n])
            bench.time(list(bench.entries(among, MATMUL, dtype, stack, regime="in-cache")))


# --- topics ---------------------------------------------------------------------------------------


def square(bench: Bench) -> None:
    """Square matrices in cache, one thread, through the Python API: every contender, every n."""
    orders = bench.orders(range(1, 33))
    in_cache(bench, "square", {n: (n, n, n) for n in orders}, bench.everybody)


def larger(bench: Bench) -> None:
    """Square matrices of orders above 32, real and complex, one thread, through the Python API."""
    among = bench.only(*TAKE_COMPLEX)
    orders = bench.options.n or LARGER[: 1 if bench.options.quick else None]
    for dtype in [*bench.options.dtype, *bench.complex_dtypes()[:1]]:
        for n in tqdm(orders, desc=f"larger {dtype}"):
            stack = stack_of(MATMUL, dtype, n, LARGER_CACHE)
            bench.time(list(bench.entries(among, MATMUL, dtype, stack, regime="in-cache")))


def vector(bench: Bench) -> None:
    """A square matrix times a vector in cache, one thread, through the Python API: every contender."""
    orders = bench.orders((2, 3, 4, 5, 6, 8, 12, 16, 24, 32))
    in_cache(bench, "vector", {n: (n, n, 1) for n in orders}, bench.everybody)


def complex_numbers(bench: Bench) -> None:
    """Square complex matrices in cache, one thread, through the Python API."""
    among = bench.only(*TAKE_COMPLEX)
    for dtype in bench.complex_dtypes():
        for n in tqdm(bench.orders((2, 3, 4, 8, 16, 32)), desc=f"complex {dtype}"):
            stack = stack_of(MATMUL, dtype, n, bench.options.footprint_kb << 10)
            bench.time(list(bench.entries(among, MATMUL, dtype, stack, regime="in-cache")))


def beside_real(bench: Bench) -> None:
    """A real and a complex square matrix in cache, one thread, through the Python API."""
    among = bench.only(OURS, NUMPY)
    for dtype in bench.complex_dtypes():
        for n in tqdm(bench.orders((2, 3, 4, 8, 16, 32)), desc=f"beside real {dtype}"):
            stack = stack_of(MATMUL, dtype, n, bench.options.footprint_kb << 10)
            a, b = stack.operands
            entries: list[Entry] = []
            for kind, operands in (("real A", (a.real.copy(), b)), ("real B", (a, b.real.copy()))):
                mixed = Stack(*operands, stack.outs)
                entries += bench.entries(among, MATMUL, dtype, mixed, regime="in-cache", layout=kind)
            bench.time(entries)


def kernels(bench: Bench) -> None:
    """Square matrices in L2, one thread, called from C, beside FMA peak and L2 bandwidth."""
    orders = bench.orders((*range(2, 9), 10, 12, 16, 20, 24, 28, 32))
    for dtype in bench.options.dtype:
        arena = arena_for(dtype, KERNEL_CACHE, squares(orders))
        fma, moved = roofline.fma(dtype, bench.isa), roofline.in_cache(dtype, bench.isa, KERNEL_CACHE)
        for n in tqdm(orders, desc=f"kernels {dtype}"):
            stack = arena.stack(batch_for(KERNEL_CACHE, dtype, n, n, n), n, n, n)
            bench.time_kernel(MATMUL, dtype, stack, ("fma", fma), ("2r1w", moved))


def memory(bench: Bench) -> None:
    """Square matrices out of cache, one thread: every contender, beside 2R1W on the same buffers."""
    footprint = OUT_OF_CACHE >> (2 if bench.options.quick else 0)
    orders = bench.orders((*range(2, 9), 10, 12, 16, 20, 24, 28, 32))
    for dtype in bench.options.dtype:
        arena = arena_for(dtype, footprint, squares(orders))
        fma = roofline.fma(dtype, bench.isa)
        moved = roofline.streamed(dtype, bench.isa, arena, footprint, 1)
        for n in tqdm(orders, desc=f"memory {dtype}"):
            stack = arena.stack(batch_for(footprint, dtype, n, n, n), n, n, n)
            entries = list(bench.entries(bench.everybody, MATMUL, dtype, stack, regime="out-of-cache"))
            entries += [bench.bound("fma", fma, entries[0]), bench.bound("2r1w-nt", moved, entries[0])]
            bench.time(entries, 0 if bench.options.quick else 4, least=3 if bench.options.quick else 7)
        del arena, moved, stack, entries


def threads(bench: Bench) -> None:
    """Out of cache on 1, 2 and all CPUs, interleaved, beside the bandwidth of as many threads."""
    footprint = OUT_OF_CACHE >> (2 if bench.options.quick else 0)
    counts = bench.thread_counts()
    orders = bench.orders((3, 4, 8, 16, 32))
    for dtype in bench.options.dtype:
        arena = arena_for(dtype, footprint, squares(orders))
        moved = {count: roofline.streamed(dtype, bench.isa, arena, footprint, count) for count in counts}
        for n in tqdm(orders, desc=f"threads {dtype}"):
            stack = arena.stack(batch_for(footprint, dtype, n, n, n), n, n, n)
            among, entries = bench.only(OURS, NUMPY, "PyTorch", "MKL batch_strided"), []
            for count in counts:
                same = {"regime": "out-of-cache", "threads": count, "switch_threads": True}
                entries += bench.entries(among, MATMUL, dtype, stack, **same)
                entries.append(bench.bound("2r1w-nt", moved[count], entries[-1], threads=count))
            bench.time(entries, 0 if bench.options.quick else 6, least=3 if bench.options.quick else 7)
        del arena, moved, stack, entries
    bench.set_threads(1)


def rect(bench: Bench) -> None:
    """1,000 random (m, k, n) in 1..32, batch 10,000, dtypes in turn; close to np.matmul: timed longer."""
    rng, batch, largest = np.random.default_rng(1), 10_000, 32
    shapes = rng.integers(1, largest + 1, (60 if bench.options.quick else 1000, 3)).tolist()
    among = bench.only(OURS, NUMPY)
    elements = (batch * largest * largest,) * 3
    arenas = {dtype: Arena(dtype, elements) for dtype in bench.options.dtype}
    for i, (m, k, n) in enumerate(tqdm(shapes, desc="rect")):
        dtype = bench.options.dtype[i % len(bench.options.dtype)]
        stack = arenas[dtype].stack(batch, m, k, n)
        entries = list(bench.entries(among, MATMUL, dtype, stack, regime="batch-10000"))
        rows = bench.time(entries, 0.1)
        if len(rows) == 2 and rows[1]["ns_per_matrix"] < 1.05 * rows[0]["ns_per_matrix"]:
            del bench.run.rows[-2:]
            bench.time(entries, 2, least=21)


def layout(bench: Bench) -> None:
    """Transposed and broadcast operands against contiguous ones in the same rounds, in and out of cache."""
    in_cache = bench.options.footprint_kb << 10
    out_of_cache = OUT_OF_CACHE >> (2 if bench.options.quick else 0)
    ours, both = bench.only(OURS), bench.only(OURS, NUMPY)
    some = bench.orders((4, 8, 12, 16, 20, 24, 28, 32))
    for dtype in bench.options.dtype:
        layouts(bench, "in-cache", dtype, in_cache, bench.orders(range(2, 33)), both)
        layouts(bench, "out-of-cache", dtype, out_of_cache, some, ours)


def layouts(
    bench: Bench, regime: str, dtype: str, footprint: int, orders: list[int], among: list[Contender]
) -> None:
    arena = arena_for(dtype, footprint, squares(orders))
    for n in tqdm(orders, desc=f"layout {dtype}, {regime}"):
        batch = batch_for(footprint, dtype, n, n, n)
        plain = arena.stack(batch, n, n, n)
        a, b, outs = plain.a, plain.b, plain.outs
        operands = {
            "contiguous": plain,
            "A.mT": Stack(a.mT, b, outs),
            "B.mT": Stack(a, b.mT, outs),
            "A.mT, B.mT": Stack(a.mT, b.mT, outs),
            "broadcast A": Stack(a[0], b, outs),
            "broadcast B": Stack(a, b[0], outs),
            "one element off a cache line": arena.stack(batch, n, n, n, offset=1),
        }
        entries: list[Entry] = []
        for kind, stack in operands.items():
            entries += bench.entries(among, MATMUL, dtype, stack, regime=regime, layout=kind)
        bench.time(entries, 2 * bench.budget_s)


IMPORT = """
import time
import numpy
start = time.perf_counter_ns()
import smallmm
print(time.perf_counter_ns() - start)
"""


def overhead(bench: Bench) -> None:
    """What a call of one 4 x 4 matrix costs, and what the import costs on top of NumPy's."""
    among = bench.only(OURS, NUMPY)
    for dtype in bench.options.dtype:
        stack = Arena(dtype, (16, 16, 16)).stack(1, 4, 4, 4)
        a, b = stack.operands
        plain = {NUMPY: lambda a=a, b=b: np.matmul(a, b), OURS: lambda a=a, b=b: smallmm.batched_matmul(a, b)}
        entries = list(bench.entries(among, MATMUL, dtype, stack, regime="call", layout="contiguous, out="))
        entries += [Entry(plain[e.fields["contender"]], e.fields | {"layout": "contiguous"}) for e in entries]
        bench.time(entries, least=31)
    ours = bench.only(OURS)
    if ours:
        samples = []
        with TemporaryDirectory() as folder:  # of bytecode, which an installation has, and a checkout may not
            environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
            command = [sys.executable, "-P", "-c", IMPORT]
            for _ in range(1 + (5 if bench.options.quick else 21)):
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                samples.append(float(done.stdout))
        del samples[0]  # which compiled
        case = {"op": "import", "dtype": "", "m": 0, "k": 0, "n": 0, "batch": 1, "threads": 1}
        who = {"contender": OURS, "version": ours[0].version, "layout": "contiguous", "regime": "import"}
        bench.run.add(_bench.row(timing(samples), flops=0, bytes=0, **case, **who))


def avx2(bench: Bench) -> None:
    """AVX2 forced on ours, OpenBLAS held to its AVX2 kernels: in cache through Python, then in C."""
    among = bench.only(OURS, NUMPY)
    in_cache(bench, "avx2", {n: (n, n, n) for n in bench.orders(range(1, 33))}, among)
    kernels(bench)


SUITE = suite.Suite(
    name="matmul",
    summary=__doc__.splitlines()[0],
    topics={
        "square": (square, {}),
        "larger": (larger, {}),
        "complex_numbers": (complex_numbers, {}),
        "beside_real": (beside_real, {}),
        "vector": (vector, {}),
        "kernels": (kernels, {}),
        "memory": (memory, {}),
        "threads": (threads, PASSIVE),
        "rect": (rect, {}),
        "layout": (layout, {}),
        "overhead": (overhead, {}),
        "avx2": (avx2, AVX2),
    },
    judges=verdicts_matmul.JUDGES,
)


if __name__ == "__main__":
    suite.main(SUITE)

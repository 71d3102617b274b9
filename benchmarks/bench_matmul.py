"""Benchmark of matmul: ours beside NumPy, PyTorch, MKL, LIBXSMM, and the limits of the machine, by topic.

    python benchmarks/bench_matmul.py --topic all
    python benchmarks/bench_matmul.py --topic square --dtype f64 --n 2 3 4 --quick

How topics run, and what else the command line takes, is suite.py's; the verdicts are verdicts.py's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from tempfile import TemporaryDirectory

import harness
import kernels as core_kernels
import numpy as np
import peers
import roofline
import suite
import verdicts
from suite import Entry

from smallmm._bench import timing, tqdm

Shape = tuple[int, int, int]  # m, k, n

KERNEL_CACHE = 1 << 19  # bytes of A, B and C for kernels in C: half an L2 of 1 MB
AVX2 = {"OPENBLAS_CORETYPE": "Haswell", "SMALLMM_ISA": "avx2"}
PASSIVE = {"OMP_WAIT_POLICY": "passive"}  # PyTorch's OpenMP would spin on while the next one is timed


class Bench(suite.Bench):
    """The contenders of a product."""

    def contenders(
        self,
        among: list[peers.Peer],
        arrays: tuple[np.ndarray, np.ndarray, np.ndarray],
        *,
        threads: int = 1,
        switch_threads: bool = False,
        **fields: object,
    ) -> Iterator[Entry]:
        """Bind and validate each peer on out = a @ b."""
        a, b, out = arrays
        (batch, m, n), k = out.shape, a.shape[-1]
        dtype = f"f{8 * out.itemsize}"
        for peer in among:
            if threads > 1 and peer.set_threads is None:
                continue
            try:
                multiply = peer.bind(a, b, out)
            except peers.Unsupported as reason:
                self.unsupported[peer.name] = str(reason)
                continue
            call = suite.with_threads(peer, multiply, threads) if switch_threads else multiply
            harness.validate_matmul(peer.name, call, a, b, out)
            work = {"flops": 2 * batch * m * k * n, "bytes": sum(x.nbytes for x in arrays)}
            case = {"op": "matmul", "dtype": dtype, "shape": (m, k, n), "batch": batch, "threads": threads}
            who = {"contender": peer.name, "version": peer.version, "isa": peer.isa()}
            yield Entry(call, case | who | work | fields)


def squares(orders: Iterable[int]) -> list[Shape]:
    return [(n, n, n) for n in orders]


# --- topics ---------------------------------------------------------------------------------------


def square(bench: Bench) -> None:
    """Square matrices in cache, one thread, through the Python API: every peer, every n."""
    footprint, orders = bench.options.footprint_kb << 10, bench.orders(range(1, 33))
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, footprint, squares(orders))
        for n in tqdm(orders, desc=f"square {dtype}"):
            arrays = arena.matrices(harness.batch_for(footprint, dtype, n, n, n), n, n, n)
            bench.time(list(bench.contenders(bench.peers, arrays, regime="in-cache")))


def vector(bench: Bench) -> None:
    """A square matrix times a vector in cache, one thread, through the Python API: every peer."""
    footprint, orders = bench.options.footprint_kb << 10, bench.orders((2, 3, 4, 5, 6, 8, 12, 16, 24, 32))
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, footprint, [(n, n, 1) for n in orders])
        for n in tqdm(orders, desc=f"vector {dtype}"):
            arrays = arena.matrices(harness.batch_for(footprint, dtype, n, n, 1), n, n, 1)
            bench.time(list(bench.contenders(bench.peers, arrays, regime="in-cache")))


def kernels(bench: Bench) -> None:
    """Square matrices in L2, one thread, called from C, beside FMA peak and L2 bandwidth."""
    orders = bench.orders((*range(2, 9), 10, 12, 16, 20, 24, 28, 32))
    isa = core_kernels.select_isa(bench.isa if bench.isa in roofline.FLAGS else "")
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, KERNEL_CACHE, squares(orders))
        fma, moved = roofline.fma(dtype, bench.isa), roofline.in_cache(dtype, bench.isa, KERNEL_CACHE)
        for n in tqdm(orders, desc=f"kernels {dtype}"):
            batch, times = harness.batch_for(KERNEL_CACHE, dtype, n, n, n), 16
            arrays = arena.matrices(batch, n, n, n)
            operands = dict(zip("abc", arrays, strict=True))

            bind = partial(core_kernels.bind, "MATMUL", dtype, (n, n, n), **operands)
            harness.validate_matmul("core", bind(times=1), *arrays)
            case = {"op": "matmul", "dtype": dtype, "shape": (n, n, n), "batch": batch, "threads": 1}
            who = {"contender": verdicts.OURS, "version": core_kernels.version(), "isa": isa}
            work = {"flops": 2 * batch * n**3 * times, "bytes": sum(x.nbytes for x in arrays) * times}
            fields = case | who | work | {"regime": "kernel", "repeats": times}
            ours = Entry(bind(times=times), fields)
            rows = bench.time([ours, bench.bound("fma", fma, ours), bench.bound("2r1w", moved, ours)])
            scale = rows[1]["gflops"] / verdicts.KERNEL_PEAK[dtype]
            rows[0]["ns_normalised"] = float(f"{rows[0]['ns_per_matrix'] * scale:.4g}")


def memory(bench: Bench) -> None:
    """Square matrices out of cache, one thread: every peer, beside 2R1W on the same buffers."""
    footprint = harness.OUT_OF_CACHE >> (2 if bench.options.quick else 0)
    orders = bench.orders((*range(2, 9), 10, 12, 16, 20, 24, 28, 32))
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, footprint, squares(orders))
        fma = roofline.fma(dtype, bench.isa)
        moved = roofline.streamed(dtype, bench.isa, arena, footprint, 1)
        for n in tqdm(orders, desc=f"memory {dtype}"):
            arrays = arena.matrices(harness.batch_for(footprint, dtype, n, n, n), n, n, n)
            entries = list(bench.contenders(bench.peers, arrays, regime="out-of-cache"))
            entries += [bench.bound("fma", fma, entries[0]), bench.bound("2r1w-nt", moved, entries[0])]
            bench.time(entries, 0 if bench.options.quick else 4, least=3 if bench.options.quick else 7)
        del arena, moved, arrays, entries


def threads(bench: Bench) -> None:
    """Out of cache on 1, 2 and all CPUs, interleaved, beside the bandwidth of as many threads."""
    footprint = harness.OUT_OF_CACHE >> (2 if bench.options.quick else 0)
    counts = bench.thread_counts()
    orders = bench.orders((3, 4, 8, 16, 32))
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, footprint, squares(orders))
        moved = {count: roofline.streamed(dtype, bench.isa, arena, footprint, count) for count in counts}
        for n in tqdm(orders, desc=f"threads {dtype}"):
            arrays = arena.matrices(harness.batch_for(footprint, dtype, n, n, n), n, n, n)
            among, entries = bench.only(verdicts.OURS, "np.matmul", "torch.bmm", "MKL batch_strided"), []
            for count in counts:
                same = {"regime": "out-of-cache", "threads": count, "switch_threads": True}
                entries += bench.contenders(among, arrays, **same)
                entries.append(bench.bound("2r1w-nt", moved[count], entries[-1], threads=count))
            bench.time(entries, 0 if bench.options.quick else 6, least=3 if bench.options.quick else 7)
        del arena, moved, arrays, entries
    bench.set_threads(1)


def rect(bench: Bench) -> None:
    """1,000 random (m, k, n) in 1..32, batch 10,000, dtypes in turn; close to np.matmul: timed longer."""
    rng, batch, largest = np.random.default_rng(1), 10_000, 32
    shapes = rng.integers(1, largest + 1, (60 if bench.options.quick else 1000, 3)).tolist()
    among = bench.only(verdicts.OURS, verdicts.NUMPY)
    elements = (batch * largest * largest,) * 3
    arenas = {dtype: harness.Arena(dtype, elements) for dtype in bench.options.dtype}
    for i, (m, k, n) in enumerate(tqdm(shapes, desc="rect")):
        arrays = arenas[bench.options.dtype[i % len(bench.options.dtype)]].matrices(batch, m, k, n)
        entries = list(bench.contenders(among, arrays, regime="batch-10000"))
        rows = bench.time(entries, 0.1)
        if len(rows) == 2 and rows[1]["ns_per_matrix"] < 1.05 * rows[0]["ns_per_matrix"]:
            del bench.run.rows[-2:]
            bench.time(entries, 2, least=21)


def layout(bench: Bench) -> None:
    """Transposed and broadcast operands against contiguous ones in the same rounds, in and out of cache."""
    in_cache = bench.options.footprint_kb << 10
    out_of_cache = harness.OUT_OF_CACHE >> (2 if bench.options.quick else 0)
    ours, both = bench.only(verdicts.OURS), bench.only(verdicts.OURS, verdicts.NUMPY)
    some = bench.orders((4, 8, 12, 16, 20, 24, 28, 32))
    for dtype in bench.options.dtype:
        layouts(bench, "in-cache", dtype, in_cache, bench.orders(range(2, 33)), both)
        layouts(bench, "out-of-cache", dtype, out_of_cache, some, ours)


def layouts(
    bench: Bench, regime: str, dtype: str, footprint: int, orders: list[int], among: list[peers.Peer]
) -> None:
    arena = harness.arena_for(dtype, footprint, squares(orders))
    for n in tqdm(orders, desc=f"layout {dtype}, {regime}"):
        batch = harness.batch_for(footprint, dtype, n, n, n)
        a, b, out = arena.matrices(batch, n, n, n)
        operands = {
            "contiguous": (a, b, out),
            "A.mT": (a.mT, b, out),
            "B.mT": (a, b.mT, out),
            "A.mT, B.mT": (a.mT, b.mT, out),
            "broadcast A": (a[0], b, out),
            "broadcast B": (a, b[0], out),
            "one element off a cache line": arena.matrices(batch, n, n, n, offset=1),
        }
        entries: list[Entry] = []
        for kind, arrays in operands.items():
            entries += bench.contenders(among, arrays, regime=regime, layout=kind)
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
    among = bench.only(verdicts.OURS, verdicts.NUMPY)
    for dtype in bench.options.dtype:
        a, b, out = harness.Arena(dtype, (16, 16, 16)).matrices(1, 4, 4, 4)
        entries = list(bench.contenders(among, (a, b, out), regime="call", layout="contiguous, out="))
        plain = {verdicts.NUMPY: lambda a=a, b=b: np.matmul(a, b)}
        if bench.only(verdicts.OURS):
            import smallmm

            plain[verdicts.OURS] = lambda a=a, b=b: smallmm.batched_matmul(a, b)
        entries += [Entry(plain[e.fields["contender"]], e.fields | {"layout": "contiguous"}) for e in entries]
        bench.time(entries, least=31)
    ours = bench.only(verdicts.OURS)
    if ours:
        samples = []
        with TemporaryDirectory() as folder:  # of bytecode, which an installation has, and a checkout may not
            environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
            command = [sys.executable, "-P", "-c", IMPORT]
            for _ in range(1 + (5 if bench.options.quick else 21)):
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                samples.append(float(done.stdout))
        del samples[0]  # which compiled
        case = {"op": "import", "dtype": "", "shape": (0, 0, 0), "batch": 1, "threads": 1, "regime": "import"}
        who = {"contender": verdicts.OURS, "version": ours[0].version}
        bench.run.add(harness.row(timing(samples), **case, **who, flops=0, bytes=0))


def avx2(bench: Bench) -> None:
    """AVX2 forced on ours, OpenBLAS held to its AVX2 kernels: in cache through Python, then in C."""
    footprint, orders = bench.options.footprint_kb << 10, bench.orders(range(1, 33))
    among = bench.only(verdicts.OURS, verdicts.NUMPY)
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, footprint, squares(orders))
        for n in tqdm(orders, desc=f"avx2 {dtype}"):
            arrays = arena.matrices(harness.batch_for(footprint, dtype, n, n, n), n, n, n)
            bench.time(list(bench.contenders(among, arrays, regime="in-cache")))
    kernels(bench)


MATMUL = suite.Suite(
    name="matmul",
    summary=__doc__.splitlines()[0],
    topics={
        "square": (square, {}),
        "vector": (vector, {}),
        "kernels": (kernels, {}),
        "memory": (memory, {}),
        "threads": (threads, PASSIVE),
        "rect": (rect, {}),
        "layout": (layout, {}),
        "overhead": (overhead, {}),
        "avx2": (avx2, AVX2),
    },
    judges=verdicts.JUDGES,
    peers=peers.PEERS,
    bench=Bench,
)


if __name__ == "__main__":
    suite.main(MATMUL)

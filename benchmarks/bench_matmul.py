"""Benchmark of matmul: ours beside NumPy, PyTorch, MKL, LIBXSMM, and the limits of the machine, by topic.

    python benchmarks/bench_matmul.py --topic all
    python benchmarks/bench_matmul.py --topic square --dtype f64 --n 2 3 4 --quick

Each topic runs in a process of its own, in an environment free of settings for BLAS and OpenMP, writes
benchmarks/results/matmul-<machine>-<topic>.jsonl and prints its verdicts (verdicts.py).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
import kernels as core_kernels
import numpy as np
import peers
import roofline
import verdicts

try:
    from tqdm import tqdm
except ImportError:

    def tqdm(items: Iterable, **_: object) -> Iterable:
        return items


Shape = tuple[int, int, int]  # m, k, n

KERNEL_CACHE = 1 << 19  # bytes of A, B and C for kernels in C: half an L2 of 1 MB
AVX2 = {"OPENBLAS_CORETYPE": "Haswell", "SMALLMM_ISA": "avx2"}
FOREIGN = re.compile(r"(OPENBLAS|GOTO|MKL|OMP|KMP|BLIS|VECLIB|SMALLMM)_")


@dataclass
class Entry:
    """A call of a case, and what its row says beside the time."""

    call: harness.Call
    fields: dict[str, object]


class Bench:
    """What the topics share: options, contenders, and the rows so far."""

    def __init__(self, options: argparse.Namespace, topic: str):
        self.options, self.run = options, harness.Run("matmul", topic, options.out or harness.RESULTS)
        self.peers, missing = peers.available()
        for line in missing:
            print(line)
        for peer in self.peers:
            print(f"{peer.name} {peer.version}" + (f", {peer.isa()}" if peer.isa() else ""))
        self.isa = os.environ.get("SMALLMM_ISA") or roofline.best_isa()
        self.unsupported: dict[str, str] = {}  # by peer, the last reason
        self.budget_s = 0.2 if options.quick else 1.5

    def orders(self, wanted: Iterable[int]) -> list[int]:
        if self.options.n:
            return self.options.n
        wanted = list(wanted)
        return [n for n in wanted if n in (2, 3, 4, 8, 16, 32)] if self.options.quick else wanted

    def only(self, *names: str) -> list[peers.Peer]:
        return [peer for peer in self.peers if peer.name in names]

    def set_threads(self, threads: int) -> None:
        for peer in self.peers:
            if peer.set_threads:
                peer.set_threads(threads)

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
            call = multiply
            if switch_threads:

                def call(peer: peers.Peer = peer, multiply: harness.Call = multiply) -> None:
                    if peer.set_threads:
                        peer.set_threads(threads)
                    multiply()

            harness.validate_matmul(peer.name, call, a, b, out)
            work = {"flops": 2 * batch * m * k * n, "bytes": sum(x.nbytes for x in arrays)}
            case = {"op": "matmul", "dtype": dtype, "shape": (m, k, n), "batch": batch, "threads": threads}
            who = {"contender": peer.name, "version": peer.version, "isa": peer.isa()}
            yield Entry(call, case | who | work | fields)

    def bound(self, op: str, bound: roofline.Bound, like: Entry, **fields: object) -> Entry:
        """A limit of the machine as an entry of the same case."""
        who = {"op": op, "contender": "roofline", "version": "", "isa": self.isa}
        return Entry(bound.call, like.fields | who | {"flops": bound.flops, "bytes": bound.bytes} | fields)

    def time(
        self, entries: list[Entry], budget_s: float | None = None, least: int = 7
    ) -> list[dict[str, object]]:
        """Time the entries together and add their rows."""
        calls = {str(i): entry.call for i, entry in enumerate(entries)}
        times = harness.measure(calls, budget_s=self.budget_s if budget_s is None else budget_s, least=least)
        return [self.run.add(harness.row(times[str(i)], **entry.fields)) for i, entry in enumerate(entries)]


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


def kernels(bench: Bench) -> None:
    """Square matrices in L2, one thread, called from C, beside FMA peak and L2 bandwidth."""
    library = core_kernels.core()
    orders = bench.orders((*range(2, 9), 10, 12, 16, 20, 24, 28, 32))
    isa = bench.isa if bench.isa in roofline.FLAGS else ""
    if library.smm_select_isa(isa.encode() or None):
        raise SystemExit(f"the core offers no {isa}")
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, KERNEL_CACHE, squares(orders))
        fma, moved = roofline.fma(dtype, bench.isa), roofline.in_cache(dtype, bench.isa, KERNEL_CACHE)
        for n in tqdm(orders, desc=f"kernels {dtype}"):
            batch, times = harness.batch_for(KERNEL_CACHE, dtype, n, n, n), 16
            arrays = arena.matrices(batch, n, n, n)
            harness.validate_matmul("core", core_kernels.bind(dtype, *arrays, 1), *arrays)
            case = {"op": "matmul", "dtype": dtype, "shape": (n, n, n), "batch": batch, "threads": 1}
            who = {
                "contender": verdicts.OURS,
                "version": core_kernels.version(),
                "isa": library.smm_isa().decode(),
            }
            work = {"flops": 2 * batch * n**3 * times, "bytes": sum(x.nbytes for x in arrays) * times}
            fields = case | who | work | {"regime": "kernel", "repeats": times}
            ours = Entry(core_kernels.bind(dtype, *arrays, times), fields)
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
    counts = sorted({1, 2, harness.cpus()} & set(range(1, harness.cpus() + 1)))
    counts = bench.options.threads or counts
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
    """Transposed and broadcast operands against contiguous ones, in cache, all in the same rounds."""
    footprint, orders = bench.options.footprint_kb << 10, bench.orders((2, 3, 4, 5, 6, 8, 12, 16, 24, 32))
    among = bench.only(verdicts.OURS, verdicts.NUMPY)
    for dtype in bench.options.dtype:
        arena = harness.arena_for(dtype, footprint, squares(orders))
        for n in tqdm(orders, desc=f"layout {dtype}"):
            batch = harness.batch_for(footprint, dtype, n, n, n)
            a, b, out = arena.matrices(batch, n, n, n)
            layouts = {
                "contiguous": (a, b),
                "A.mT": (a.mT, b),
                "B.mT": (a, b.mT),
                "A.mT, B.mT": (a.mT, b.mT),
                "broadcast A": (a[0], b),
                "broadcast B": (a, b[0]),
            }
            entries: list[Entry] = []
            for kind, operands in layouts.items():
                entries += bench.contenders(among, (*operands, out), regime="in-cache", layout=kind)
            misaligned = arena.matrices(batch, n, n, n, offset=1)
            entries += bench.contenders(
                among, misaligned, regime="in-cache", layout="one element off a cache line"
            )
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
        for _ in range(5 if bench.options.quick else 21):
            done = subprocess.run(
                [sys.executable, "-P", "-c", IMPORT], capture_output=True, text=True, check=True
            )
            samples.append(float(done.stdout))
        case = {"op": "import", "dtype": "", "shape": (0, 0, 0), "batch": 1, "threads": 1, "regime": "import"}
        who = {"contender": verdicts.OURS, "version": ours[0].version}
        bench.run.add(harness.row(harness.timing(samples), **case, **who, flops=0, bytes=0))


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


TOPICS: dict[str, tuple[Callable[[Bench], None], dict[str, str]]] = {
    "square": (square, {}),
    "kernels": (kernels, {}),
    "memory": (memory, {}),
    "threads": (threads, {}),
    "rect": (rect, {}),
    "layout": (layout, {}),
    "overhead": (overhead, {}),
    "avx2": (avx2, AVX2),
}


# --- command line ---------------------------------------------------------------------------------


def environment(topic: str) -> dict[str, str]:
    """The environment without settings for BLAS, OpenMP and smallmm, and with those of the topic.

    A forgotten OPENBLAS_CORETYPE, say, would flatter us.
    """
    return {name: v for name, v in os.environ.items() if not FOREIGN.match(name)} | TOPICS[topic][1]


def report(rows: list[dict[str, object]], topic: str) -> None:
    judged = list(verdicts.JUDGES[topic](rows))
    for verdict in judged:
        print(verdict)
    missed = sum(verdict.met is False for verdict in judged)
    print(f"{topic}: {sum(v.met is True for v in judged)} met, {missed} missed\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topic", choices=[*TOPICS, "all"], default="all", nargs="+")
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes, shorter: to see that it works, not for results"
    )
    parser.add_argument("--dtype", choices=list(harness.DTYPES), nargs="+", default=["f64", "f32"])
    parser.add_argument("--n", type=int, nargs="+", help="orders of square matrices (default: the topic's)")
    parser.add_argument(
        "--threads", type=int, nargs="+", help="thread counts of the topic threads; must contain 1"
    )
    parser.add_argument(
        "--footprint-kb", type=int, default=harness.IN_CACHE >> 10, help="bytes of A, B and C in cache, in KB"
    )
    parser.add_argument("--out", type=Path, help="folder of the rows (default: results; none if --quick)")
    parser.add_argument(
        "--report", action="store_true", help="judge the rows that are there, measure nothing"
    )
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    topics = [options.topic] if isinstance(options.topic, str) else options.topic
    topics = list(TOPICS) if "all" in topics else topics
    if options.threads and 1 not in options.threads:
        parser.error("--threads must contain 1")
    failed = False
    for topic in topics:
        if options.report:
            path = harness.Run("matmul", topic, options.out or harness.RESULTS).path
            if path.exists():
                report(harness.read_rows(path)[1], topic)
            else:
                print(f"{topic}: no {path.name}")
        elif options.in_process:
            print(f"== {topic}: {TOPICS[topic][0].__doc__}")
            bench = Bench(options, topic)
            bench.set_threads(1)
            try:
                TOPICS[topic][0](bench)
            except harness.NoCompiler as reason:
                sys.exit(f"{topic}: {reason}")
            if options.out or not options.quick:
                bench.run.write()
            for name, reason in bench.unsupported.items():
                print(f"{name}, left out where {reason}")
            report(bench.run.rows, topic)
        else:
            command = [sys.executable, *sys.argv, "--in-process", "--topic", topic]
            failed |= subprocess.run(command, env=environment(topic), check=False).returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()

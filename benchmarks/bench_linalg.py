"""Benchmark of factorizations and solves: ours beside NumPy, SciPy, PyTorch and MKL, by topic.

    python benchmarks/bench_linalg.py --topic all
    python benchmarks/bench_linalg.py --topic square --op solve inv --n 3 4 8 --quick

How topics run, and what else the command line takes, is suite.py's; the operations and their checks are
operations.py's, the verdicts verdicts_linalg.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import harness
import kernels as core_kernels
import numpy as np
import operations
import peers
import peers_linalg
import roofline
import suite
import verdicts_linalg
from operations import Operation, Stack
from suite import Entry
from verdicts import KERNEL_PEAK, OURS

from smallmm._bench import tqdm

KERNEL_CACHE = 1 << 19  # bytes of operands for kernels in C: half an L2 of 1 MB
THREAD_CACHE = 5 << 18  # bytes of operands per thread: 16 threads stay below the 24 MB from which we stream


def case_of(op: Operation, stack: Stack, **fields: object) -> dict[str, object]:
    """What a row says about the case."""
    batch, n, _ = stack.a.shape
    return {
        "op": op.name,
        "dtype": f"f{8 * stack.a.itemsize}",
        "shape": (n, 1 if op.has_rhs else n, n),
        "batch": batch,
        "flops": batch * op.flops(n),
        "bytes": stack.nbytes,
    } | fields


class Bench(suite.Bench):
    """The contenders of an operation."""

    def operations(self) -> list[Operation]:
        return [operations.OPERATIONS[name] for name in self.options.op]

    def contenders(
        self, among: list[peers.Peer], op: Operation, stack: Stack, **fields: object
    ) -> Iterator[Entry]:
        """Bind and validate each peer on the stack."""
        case = case_of(op, stack, **{"threads": 1} | fields)
        for peer in among:
            try:
                job = peer.bind(op, stack)
            except peers.Unsupported as reason:
                self.unsupported[f"{peer.name} {op.name}"] = str(reason)
                continue
            operations.validate(peer.name, job, stack)
            who = {"contender": peer.name, "version": peer.version, "isa": peer.isa()}
            yield Entry(job.call, case | who | {"call": job.words, "less": job.less})


# --- topics ---------------------------------------------------------------------------------------


def square(bench: Bench) -> None:
    """Every n in cache, one thread, through the Python API: every peer, every operation."""
    footprint, orders = bench.options.footprint_kb << 10, bench.orders(range(1, 33))
    for op in bench.operations():
        for dtype in bench.options.dtype:
            for n in tqdm(orders, desc=f"square {op.name} {dtype}"):
                stack = operations.stack(op, dtype, n, footprint)
                bench.time(list(bench.contenders(bench.peers, op, stack, regime="in-cache")))


def kernels(bench: Bench) -> None:
    """Ours in L2, one thread, called from C, beside the FMA peak."""
    orders = bench.orders((2, 3, 4, 6, 8, 12, 16, 24, 32))
    who = {"contender": OURS, "version": core_kernels.version()}
    who |= {"isa": core_kernels.select_isa(bench.isa if bench.isa in roofline.FLAGS else "")}
    for op in bench.operations():
        for dtype in bench.options.dtype:
            fma = roofline.fma(dtype, bench.isa)
            for n in tqdm(orders, desc=f"kernels {op.name} {dtype}"):
                stack, times = operations.stack(op, dtype, n, KERNEL_CACHE), 16
                operands = {"a": stack.a, **dict(zip(op.outputs, stack.outs, strict=True))}
                if op.has_rhs:
                    operands["b"] = stack.b
                if op.has_info:
                    operands["info"] = np.zeros(len(stack.a), np.int32)
                case = case_of(op, stack, threads=1, regime="kernel", repeats=times, **who)
                bind = partial(core_kernels.bind, op.core, dtype, case["shape"], **operands)
                job = operations.Job(bind(times=1), lambda _, s=stack: s.outs, op, stack.a, op.core)
                operations.validate("core", job, stack)
                case |= {"flops": times * case["flops"], "bytes": times * case["bytes"]}
                ours = Entry(bind(times=times), case)
                rows = bench.time([ours, bench.bound("fma", fma, ours)])
                scale = rows[1]["gflops"] / KERNEL_PEAK[dtype]
                rows[0]["ns_normalised"] = float(f"{rows[0]['ns_per_matrix'] * scale:.4g}")


def memory(bench: Bench) -> None:
    """LU and Cholesky out of cache, one thread."""
    footprint = harness.OUT_OF_CACHE >> (2 if bench.options.quick else 0)
    among = bench.only(OURS, *verdicts_linalg.RIVALS)
    for op in bench.operations():
        if op not in (operations.LU, operations.CHOLESKY):
            continue
        for dtype in bench.options.dtype:
            for n in tqdm(bench.orders((3, 8, 16)), desc=f"memory {op.name} {dtype}"):
                stack = operations.stack(op, dtype, n, footprint)
                entries = list(bench.contenders(among, op, stack, regime="out-of-cache"))
                bench.time(entries, 0 if bench.options.quick else 2, least=3 if bench.options.quick else 5)


def threads(bench: Bench) -> None:
    """Ours in cache on 1, 2 and all CPUs, interleaved, with 1.25 MB of operands for each thread."""
    sample_s = 1e-2  # as others sleep while one is timed, and wake within 0.05 to 0.15 ms of a sample
    among = bench.only(OURS)
    for op in bench.operations():
        for dtype in bench.options.dtype:
            for n in tqdm(bench.orders((4, 8, 16)), desc=f"threads {op.name} {dtype}"):
                entries: list[Entry] = []
                for count in bench.thread_counts():
                    stack = operations.stack(op, dtype, n, count * THREAD_CACHE)
                    for entry in bench.contenders(among, op, stack, regime="in-cache", threads=count):
                        entry.call = suite.with_threads(among[0], entry.call, count)
                        entries.append(entry)
                bench.time(entries, 2 * bench.budget_s, sample_s, least=21)
    bench.set_threads(1)


LINALG = suite.Suite(
    name="linalg",
    summary=__doc__.splitlines()[0],
    topics={
        "square": (square, {}),
        "kernels": (kernels, {}),
        "memory": (memory, {}),
        "threads": (threads, {}),
    },
    judges=verdicts_linalg.JUDGES,
    peers=peers_linalg.PEERS,
    bench=Bench,
    budget_s=0.35,
)


if __name__ == "__main__":
    suite.main(LINALG, ops=operations.OPERATIONS)

"""Benchmark of factorizations, solves and spectra: ours beside NumPy, SciPy, PyTorch and MKL, by topic.

    python -m benchmarks.host.linalg --topic all
    python -m benchmarks.host.linalg --topic square --op solve inv --n 3 4 8 --quick

How topics run, and what else the command line takes, is suite.py's. The operations and their checks are the
package's (smallmm/_tools/bench.py), the verdicts those of report/verdicts_linalg.py.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from functools import partial

import numpy as np

import smallmm
from smallmm import _core
from smallmm._tools.bench import Call, Entry
from smallmm._tools.operations import Operation, stack
from smallmm._tools.progress import tqdm

from ..report import verdicts_linalg
from ..report.results import NUMPY, OURS
from . import roofline, suite
from .arena import OUT_OF_CACHE, stack_of
from .operations import CORE, LINALG
from .suite import KERNEL_CACHE, LARGER, LARGER_CACHE, TAKE_COMPLEX, Bench

THREAD_CACHE = 5 << 18  # bytes of operands per thread: 16 threads stay below the 24 MB from which we stream
OUT_OF_CACHE_OPS = ("lu_factor", "cholesky")
MANY = 320  # matrices of larger orders for all threads


def cases(bench: Bench, topic: str, orders: list[int]) -> Iterator[tuple[Operation, str, int]]:
    """Every operation, dtype and order."""
    for name in bench.options.op:
        for dtype in bench.options.dtype:
            for n in tqdm(orders, desc=f"{topic} {name} {dtype}"):
                yield LINALG[name], dtype, n


# --- topics ---------------------------------------------------------------------------------------


def square(bench: Bench) -> None:
    """Every n in cache, one thread, through the Python API: every contender, every operation."""
    footprint = bench.options.footprint_kb << 10
    for op, dtype, n in cases(bench, "square", bench.orders(range(1, 33))):
        stack = stack_of(op, dtype, n, footprint)
        bench.time(list(bench.entries(bench.everybody, op, dtype, stack, regime="in-cache")))


def complex_numbers(bench: Bench) -> None:
    """Complex matrices in cache, one thread, through the Python API."""
    among = bench.only(*TAKE_COMPLEX)
    bench.options.op = [x for x in bench.options.op if CORE[x].name in _core.complex_operations]
    bench.options.dtype = bench.complex_dtypes()
    for op, dtype, n in cases(bench, "complex", bench.orders((2, 3, 4, 8, 16, 32))):
        stack = stack_of(op, dtype, n, bench.options.footprint_kb << 10)
        bench.time(list(bench.entries(among, op, dtype, stack, regime="in-cache")))


def larger(bench: Bench) -> None:
    """Orders above 32, real and complex, one thread, through the Python API."""
    among = bench.only(*TAKE_COMPLEX)
    bench.options.dtype += bench.complex_dtypes()[:1]
    for op, dtype, n in cases(
        bench, "larger", bench.options.n or [*LARGER[: 1 if bench.options.quick else None]]
    ):
        overflows = op.name == "det" and dtype == "f32" and n > 48
        if not overflows and (dtype[0] != "c" or CORE[op.name].name in _core.complex_operations):
            drawn = stack_of(op, dtype, n, LARGER_CACHE)
            bench.time(list(bench.entries(among, op, dtype, drawn, regime="in-cache")), least=3)


def kernels(bench: Bench) -> None:
    """Ours in L2, one thread, called from C, beside the FMA peak."""
    for op, dtype, n in cases(bench, "kernels", bench.orders((2, 3, 4, 6, 8, 12, 16, 24, 32))):
        fma = roofline.fma(dtype, bench.isa)
        bench.time_kernel(op, dtype, stack_of(op, dtype, n, KERNEL_CACHE), ("fma", fma))


def memory(bench: Bench) -> None:
    """LU and Cholesky out of cache, one thread."""
    quick = bench.options.quick
    among = bench.only(OURS, *verdicts_linalg.RIVALS)
    for op, dtype, n in cases(bench, "memory", bench.orders((3, 8, 16))):
        if op.name in OUT_OF_CACHE_OPS:
            stack = stack_of(op, dtype, n, OUT_OF_CACHE >> (2 if quick else 0))
            entries = list(bench.entries(among, op, dtype, stack, regime="out-of-cache"))
            bench.time(entries, 0 if quick else 2, least=3 if quick else 5)


def threads(bench: Bench) -> None:
    """Ours in cache on 1, 2 and all CPUs, interleaved, with 1.25 MB of operands for each thread."""
    sample_s = 1e-2  # as others sleep while one is timed, and wake within 0.05 to 0.15 ms of a sample
    among = bench.only(OURS)
    for op, dtype, n in cases(bench, "threads", bench.orders((4, 8, 16))):
        entries: list[Entry] = []
        for count in bench.thread_counts():
            stack = stack_of(op, dtype, n, count * THREAD_CACHE)
            same = {"regime": "in-cache", "threads": count, "switch_threads": True}
            entries += bench.entries(among, op, dtype, stack, **same)
        bench.time(entries, 2 * bench.budget_s, sample_s, least=21)
    bench.set_threads(1)


def larger_threads(bench: Bench) -> None:
    """320 matrices of orders above 32, f64: ours on one and on all CPUs, then NumPy on all, whose threads are
    busy for a while after a call."""
    bench.options.dtype = ["f64"]
    most = bench.thread_counts()[-1]
    for op, dtype, n in cases(
        bench, "threads", bench.options.n or [*LARGER[:: 5 if bench.options.quick else 1]]
    ):
        many = {"regime": f"batch-{MANY}", "switch_threads": True}
        drawn = stack(op, dtype, n, MANY)
        for who, counts in ((OURS, {1, most}), (NUMPY, {most})):
            entries: list[Entry] = []
            for count in sorted(counts):
                entries += bench.entries(bench.only(who), op, dtype, drawn, threads=count, **many)
            time.sleep(0.3)
            bench.time(entries, bench.budget_s, 1e-2, least=3)
    bench.set_threads(1)


def diagonals(bench: Bench) -> None:
    """One long tridiagonal system, on all CPUs: in parts without row exchanges, with them, and by SciPy."""
    import scipy.linalg

    threads = max(bench.thread_counts())
    bench.set_threads(threads)
    orders = bench.options.n or (1 << 15, 1 << 17, *(() if bench.options.quick else (1 << 20,)))
    for dtype, n in itertools.product(bench.options.dtype, tqdm(orders, desc="diagonals")):
        numbers = np.random.default_rng(n).random((4, n)).astype(dtype.replace("f", "float"))
        du, d, dl, b = numbers + np.array([[0], [3], [0], [0]], numbers.dtype)
        calls: dict[tuple[str, str, bool], Call] = {
            (OURS, "solve_tridiagonal", pivot): partial(
                smallmm.solve_tridiagonal, dl[:-1], d, du[1:], b, pivot=pivot
            )
            for pivot in (False, True)
        }
        calls["SciPy", "scipy.linalg.solve_banded", True] = partial(
            scipy.linalg.solve_banded, (1, 1), np.stack([du, d, dl]), b, check_finite=False
        )
        case = {
            "op": "solve_tridiagonal",
            "dtype": dtype,
            "m": 3,
            "k": 1,
            "n": n,
            "batch": 1,
            "threads": threads,
        }
        work = {"flops": 11.0 * n, "bytes": 5.0 * n * d.itemsize, "device": "cpu"}
        entries = []
        for (who, words, pivot), call in calls.items():
            np.testing.assert_allclose(call(), calls[OURS, "solve_tridiagonal", True](), rtol=1e-3, atol=1e-5)
            version = smallmm.__version__ if who == OURS else scipy.__version__
            fields = {
                "contender": who,
                "version": version,
                "isa": bench.isa,
                "call": words,
                "pivot": int(pivot),
            }
            entries.append(Entry(call, case | fields | work))
        bench.time(entries)
    bench.set_threads(1)


SUITE = suite.Suite(
    name="linalg",
    summary=__doc__.splitlines()[0],
    topics={
        "square": (square, {}),
        "complex_numbers": (complex_numbers, {}),
        "larger": (larger, {}),
        "larger_threads": (larger_threads, {}),
        "kernels": (kernels, {}),
        "memory": (memory, {}),
        "threads": (threads, {}),
        "diagonals": (diagonals, {}),
    },
    judges=verdicts_linalg.JUDGES,
    budget_s=0.35,
)


if __name__ == "__main__":
    suite.main(SUITE, ops=LINALG)

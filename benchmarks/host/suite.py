"""What the benchmarks on a CPU share: options, contenders, topics in processes of their own, verdicts.

Each topic runs in a process of its own, in an environment free of settings for BLAS and OpenMP, writes
benchmarks/results/host/<suite>-<machine>-<topic>.json and prints its verdicts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from smallmm._tools import bench as _bench
from smallmm._tools import operations
from smallmm._tools.bench import Call, Entry
from smallmm._tools.contenders import Contender, Job
from smallmm._tools.operations import DTYPES, Operation, Stack

from .. import records
from ..records import Row
from ..report.judge import report
from ..report.results import LIMIT, NUMPY, OURS
from ..report.verdict import KERNEL_PEAK, Judge
from . import contenders, kernels, roofline
from .arena import IN_CACHE
from .contenders import Unsupported
from .machine import NoCompiler, cpus, machine
from .operations import CORE

FOREIGN = re.compile(r"(OPENBLAS|GOTO|MKL|OMP|KMP|BLIS|VECLIB|SMALLMM)_")
QUICK = (2, 3, 4, 8, 16, 32)
TAKE_COMPLEX = (OURS, NUMPY, "SciPy", "PyTorch")  # among the contenders
LARGER = (33, 40, 48, 64, 100, 128)  # orders whose kernels hold one matrix at a time
LARGER_CACHE = 1 << 22  # bytes of operands of these orders: 16 matrices and more, in the last cache
KERNEL_CACHE = 1 << 19  # bytes of operands for kernels in C: half an L2 of 1 MB
KERNEL_TIMES = 16  # how often a call of a kernel works through them


class Bench:
    """What a topic works with: options, contenders, and the rows so far."""

    def __init__(self, options: argparse.Namespace, suite: Suite, topic: str):
        self.options = options
        about = machine()
        folder = options.out or records.RESULTS / "host"
        path = folder / f"{suite.name}-{about['slug']}-{topic}.json"
        self.run = records.Run(path, about, records.commit())
        self.everybody, missing = contenders.available()
        for line in missing:
            print(line)
        for who in self.everybody:
            print(f"{who.name} {who.version}" + (f", {who.isa()}" if who.isa() else ""))
        self.isa = os.environ.get("SMALLMM_ISA") or roofline.best_isa()
        self.unsupported: dict[str, str] = {}  # by contender and operation, the last reason
        self.budget_s = 0.2 if options.quick else suite.budget_s

    def orders(self, wanted: Iterable[int]) -> list[int]:
        if self.options.n:
            return self.options.n
        wanted = list(wanted)
        return [n for n in wanted if n in QUICK] if self.options.quick else wanted

    def complex_dtypes(self) -> list[str]:
        """Those whose parts have the dtypes asked for."""
        return ["c" + str(2 * int(dtype[1:])) for dtype in self.options.dtype]

    def thread_counts(self) -> list[int]:
        counts = sorted({1, 2, cpus()} & set(range(1, cpus() + 1)))
        return self.options.threads or counts

    def only(self, *names: str) -> list[Contender]:
        return [who for who in self.everybody if who.name in names]

    def set_threads(self, threads: int) -> None:
        for who in self.everybody:
            if who.set_threads:
                who.set_threads(threads)

    def entries(
        self,
        among: list[Contender],
        op: Operation,
        dtype: str,
        stack: Stack,
        *,
        threads: int = 1,
        switch_threads: bool = False,
        **fields: object,
    ) -> Iterator[Entry]:
        """Bind and validate each contender on the stack. Others whose results are wrong are left out."""
        for who in among:
            if threads > 1 and who.set_threads is None:
                continue
            more = {"isa": who.isa(), "threads": threads, "device": "cpu", "layout": "contiguous"} | fields
            if switch_threads:
                more["around"] = partial(with_threads, who, threads)
            try:
                entry = _bench.enter(who, op, dtype, stack, **more)
            except (Unsupported, AssertionError) as reason:
                if who.name == OURS:
                    raise
                self.unsupported[f"{who.name} {op.name}"] = str(reason)
                continue
            if entry:
                yield entry

    def bound(self, op: str, bound: roofline.Bound, like: Entry, **fields: object) -> Entry:
        """A limit of the machine as an entry of the same case."""
        who = {"op": op, "contender": LIMIT, "version": "", "isa": self.isa, "call": ""}
        return Entry(bound.call, like.fields | who | {"flops": bound.flops, "bytes": bound.bytes} | fields)

    def time(
        self, entries: list[Entry], budget_s: float | None = None, sample_s: float = 1e-3, least: int = 7
    ) -> list[Row]:
        """Time the entries together and add their rows."""
        budget_s = self.budget_s if budget_s is None else budget_s
        rows = _bench.timed(entries, budget_s=budget_s, sample_s=sample_s, least=least)
        return [self.run.add(row) for row in rows]

    def time_kernel(
        self, op: Operation, dtype: str, stack: Stack, *bounds: tuple[str, roofline.Bound]
    ) -> None:
        """The core from C on one thread, beside some limits of the machine, of which the first is the FMA
        peak."""
        isa = kernels.select_isa(self.isa if self.isa in roofline.FLAGS else "")
        (ours,) = self.entries([core(isa)], op, dtype, stack, regime="kernel", repeats=KERNEL_TIMES)
        for work in ("flops", "bytes"):
            ours.fields[work] *= KERNEL_TIMES
        rows = self.time([ours, *(self.bound(name, limit, ours) for name, limit in bounds)])
        scale = rows[1]["gflops"] / KERNEL_PEAK[dtype]
        rows[0]["ns_normalised"] = float(f"{rows[0]['ns_per_matrix'] * scale:.4g}")


def core(isa: str) -> Contender:
    """smallmm called from C, which works through a stack KERNEL_TIMES times."""

    def bind(op: Operation, stack: Stack) -> Job:
        row = CORE[op.name]
        operands = dict(zip("ab", stack.operands, strict=False)) | dict(
            zip(row.results, stack.outs, strict=True)
        )
        if row.has_info:
            operands["info"] = kernels.info_of(stack.batch)
        call = kernels.bind(
            row.name,
            f"f{8 * stack.a.itemsize}",
            operations.sizes_of(op, stack),
            times=KERNEL_TIMES,
            **operands,
        )
        return Job(call, row.name, lambda _: stack.outs)

    return Contender(OURS, kernels.version(), bind, isa=lambda: isa)


def with_threads(who: Contender, threads: int, call: Call) -> Call:
    """The call, on so many threads whatever ran before it."""

    def switched() -> object:
        if who.set_threads:
            who.set_threads(threads)
        return call()

    return switched


@dataclass(frozen=True)
class Suite:
    """One benchmark: its topics (what runs, settings of its environment), and judges by topic."""

    name: str
    summary: str
    topics: dict[str, tuple[Callable[[Bench], None], dict[str, str]]]
    judges: dict[str, Judge]
    budget_s: float = 1.5  # for the contenders of one case


def environment(settings: dict[str, str]) -> dict[str, str]:
    """The environment without settings for BLAS, OpenMP and smallmm, and with those of the topic.

    A forgotten OPENBLAS_CORETYPE, say, would flatter us.
    """
    return {name: v for name, v in os.environ.items() if not FOREIGN.match(name)} | settings


def measure(suite: Suite, topic: str, options: argparse.Namespace) -> None:
    """Run one topic in this process."""
    run = suite.topics[topic][0]
    print(f"== {topic}: {run.__doc__}")
    bench = Bench(options, suite, topic)
    bench.set_threads(1)
    try:
        run(bench)
    except NoCompiler as reason:
        sys.exit(f"{topic}: {reason}")
    if options.out or not options.quick:
        bench.run.write()
    for name, reason in bench.unsupported.items():
        print(f"{name}, left out where {reason}")
    report(topic, list(suite.judges[topic](bench.run.rows)))


def main(suite: Suite, *, ops: Iterable[str] = ()) -> None:
    """The command line of a suite; `ops` are the operations to choose from, if there are several."""
    parser = argparse.ArgumentParser(description=suite.summary)
    parser.add_argument("--topic", choices=[*suite.topics, "all"], default="all", nargs="+")
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes, shorter: to see that it works, not for results"
    )
    if ops:
        parser.add_argument("--op", choices=list(ops), default=list(ops), nargs="+")
    parser.add_argument("--dtype", choices=list(DTYPES), nargs="+", default=["f64", "f32"])
    parser.add_argument("--n", type=int, nargs="+", help="orders of square matrices (default: the topic's)")
    parser.add_argument(
        "--threads", type=int, nargs="+", help="thread counts of the topic threads; must contain 1"
    )
    parser.add_argument(
        "--footprint-kb", type=int, default=IN_CACHE >> 10, help="bytes of operands in cache, in KB"
    )
    parser.add_argument(
        "--out", type=Path, help="folder of the rows (default: results/host; none if --quick)"
    )
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    topics = [options.topic] if isinstance(options.topic, str) else options.topic
    topics = list(suite.topics) if "all" in topics else topics
    if options.threads and 1 not in options.threads:
        parser.error("--threads must contain 1")
    failed = False
    for topic in topics:
        if options.in_process:
            measure(suite, topic, options)
        else:
            module = sys.modules["__main__"].__spec__.name
            command = [sys.executable, "-m", module, *sys.argv[1:], "--in-process", "--topic", topic]
            settings = environment(suite.topics[topic][1])
            failed |= subprocess.run(command, env=settings, check=False).returncode != 0
    sys.exit(failed)

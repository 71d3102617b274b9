"""What the benchmarks share: options, contenders, topics in processes of their own, rows and verdicts.

Each topic runs in a process of its own, in an environment free of settings for BLAS and OpenMP, writes
benchmarks/results/<suite>-<machine>-<topic>.jsonl and prints its verdicts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import harness
import peers
import roofline
from verdicts import Judge, Row

from smallmm import _bench

FOREIGN = re.compile(r"(OPENBLAS|GOTO|MKL|OMP|KMP|BLIS|VECLIB|SMALLMM)_")
QUICK = (2, 3, 4, 8, 16, 32)


@dataclass
class Entry:
    """A call of a case, and what its row says beside the time."""

    call: harness.Call
    fields: dict[str, object]


class Bench:
    """What a topic works with: options, peers, and the rows so far."""

    def __init__(self, options: argparse.Namespace, suite: Suite, topic: str):
        self.options, self.run = options, harness.Run(suite.name, topic, options.out or harness.RESULTS)
        self.peers, missing = peers.available(suite.peers)
        for line in missing:
            print(line)
        for peer in self.peers:
            print(f"{peer.name} {peer.version}" + (f", {peer.isa()}" if peer.isa() else ""))
        self.isa = os.environ.get("SMALLMM_ISA") or roofline.best_isa()
        self.unsupported: dict[str, str] = {}  # by peer, the last reason
        self.budget_s = 0.2 if options.quick else suite.budget_s

    def orders(self, wanted: Iterable[int]) -> list[int]:
        if self.options.n:
            return self.options.n
        wanted = list(wanted)
        return [n for n in wanted if n in QUICK] if self.options.quick else wanted

    def thread_counts(self) -> list[int]:
        counts = sorted({1, 2, harness.cpus()} & set(range(1, harness.cpus() + 1)))
        return self.options.threads or counts

    def only(self, *names: str) -> list[peers.Peer]:
        return [peer for peer in self.peers if peer.name in names]

    def set_threads(self, threads: int) -> None:
        for peer in self.peers:
            if peer.set_threads:
                peer.set_threads(threads)

    def bound(self, op: str, bound: roofline.Bound, like: Entry, **fields: object) -> Entry:
        """A limit of the machine as an entry of the same case."""
        who = {"op": op, "contender": "roofline", "version": "", "isa": self.isa}
        return Entry(bound.call, like.fields | who | {"flops": bound.flops, "bytes": bound.bytes} | fields)

    def time(
        self, entries: list[Entry], budget_s: float | None = None, sample_s: float = 1e-3, least: int = 7
    ) -> list[Row]:
        """Time the entries together and add their rows."""
        if not entries:
            return []
        calls = {str(i): entry.call for i, entry in enumerate(entries)}
        budget_s = self.budget_s if budget_s is None else budget_s
        times = _bench.measure(calls, budget_s=budget_s, sample_s=sample_s, least=least)
        return [self.run.add(harness.row(times[str(i)], **entry.fields)) for i, entry in enumerate(entries)]


def with_threads(peer: peers.Peer, call: harness.Call, threads: int) -> harness.Call:
    """The call, on so many threads whatever ran before it."""

    def switched() -> object:
        if peer.set_threads:
            peer.set_threads(threads)
        return call()

    return switched


@dataclass(frozen=True)
class Suite:
    """One benchmark: its topics (what runs, settings of its environment), judges by topic, and peers."""

    name: str
    summary: str
    topics: dict[str, tuple[Callable[[Bench], None], dict[str, str]]]
    judges: dict[str, Judge]
    peers: tuple[Callable[[], peers.Peer], ...]
    bench: type[Bench] = Bench
    budget_s: float = 1.5  # for the contenders of one case


def environment(settings: dict[str, str]) -> dict[str, str]:
    """The environment without settings for BLAS, OpenMP and smallmm, and with those of the topic.

    A forgotten OPENBLAS_CORETYPE, say, would flatter us.
    """
    return {name: v for name, v in os.environ.items() if not FOREIGN.match(name)} | settings


def report(rows: list[Row], topic: str, judge: Judge) -> None:
    judged = list(judge(rows))
    for verdict in judged:
        print(verdict)
    missed = sum(verdict.met is False for verdict in judged)
    print(f"{topic}: {sum(v.met is True for v in judged)} met, {missed} missed\n")


def measure(suite: Suite, topic: str, options: argparse.Namespace) -> None:
    """Run one topic in this process."""
    run = suite.topics[topic][0]
    print(f"== {topic}: {run.__doc__}")
    bench = suite.bench(options, suite, topic)
    bench.set_threads(1)
    try:
        run(bench)
    except harness.NoCompiler as reason:
        sys.exit(f"{topic}: {reason}")
    if options.out or not options.quick:
        bench.run.write()
    for name, reason in bench.unsupported.items():
        print(f"{name}, left out where {reason}")
    report(bench.run.rows, topic, suite.judges[topic])


def main(suite: Suite, *, ops: Iterable[str] = ()) -> None:
    """The command line of a suite; `ops` are the operations to choose from, if there are several."""
    parser = argparse.ArgumentParser(description=suite.summary)
    parser.add_argument("--topic", choices=[*suite.topics, "all"], default="all", nargs="+")
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes, shorter: to see that it works, not for results"
    )
    if ops:
        parser.add_argument("--op", choices=list(ops), default=list(ops), nargs="+")
    parser.add_argument("--dtype", choices=list(harness.DTYPES), nargs="+", default=["f64", "f32"])
    parser.add_argument("--n", type=int, nargs="+", help="orders of square matrices (default: the topic's)")
    parser.add_argument(
        "--threads", type=int, nargs="+", help="thread counts of the topic threads; must contain 1"
    )
    parser.add_argument(
        "--footprint-kb", type=int, default=harness.IN_CACHE >> 10, help="bytes of operands in cache, in KB"
    )
    parser.add_argument("--out", type=Path, help="folder of the rows (default: results; none if --quick)")
    parser.add_argument(
        "--report", action="store_true", help="judge the rows that are there, measure nothing"
    )
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    topics = [options.topic] if isinstance(options.topic, str) else options.topic
    topics = list(suite.topics) if "all" in topics else topics
    if options.threads and 1 not in options.threads:
        parser.error("--threads must contain 1")
    failed = False
    for topic in topics:
        if options.report:
            path = harness.Run(suite.name, topic, options.out or harness.RESULTS).path
            if path.exists():
                report(harness.read_rows(path)[1], topic, suite.judges[topic])
            else:
                print(f"{topic}: no {path.name}")
        elif options.in_process:
            measure(suite, topic, options)
        else:
            command = [sys.executable, *sys.argv, "--in-process", "--topic", topic]
            settings = environment(suite.topics[topic][1])
            failed |= subprocess.run(command, env=settings, check=False).returncode != 0
    sys.exit(failed)

"""The rows of benchmarks/results/, by machine, topic and case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from smallmm._tools.bench import OURS

from .. import records
from ..records import Row

NUMPY = "NumPy"
EVERY_ORDER = ("square", "larger")  # the topics that have square matrices, to order 32 and above
LIMIT = "roofline"  # the contender of rows that say what the machine can do
# Contenders that are libraries: tables of products name the function that was called instead.
LIBRARIES = (NUMPY, "SciPy", "PyTorch", "CuPy", "JAX")
Cases = dict[int, dict[str, Row]]  # rows by n and contender


def ns(row: Row) -> float:
    return row["ns_per_matrix"]


def ratio(other: Row, ours: Row) -> float:
    """How many times faster ours is."""
    return ns(other) / ns(ours)


def label(row: Row) -> str:
    """The contender, by the function that was called if that is a library's."""
    return row["call"] if row["contender"] in LIBRARIES else row["contender"]


def case_of(row: Row, fields: Iterable[str]) -> tuple[object, ...]:
    return tuple(row.get(field) for field in fields)


def groups(rows: Iterable[Row], *fields: str) -> dict[tuple, dict[str, Row]]:
    """The rows that agree in some fields, by these, each by its contender; a limit by what it measures."""
    found: dict[tuple, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        who = row["op"] if row["contender"] == LIMIT else row["contender"]
        found[case_of(row, fields)][who] = row
    return found


def with_ours(rows: Iterable[Row], *fields: str) -> Iterator[tuple[Row, dict[str, Row]]]:
    """For each of our rows: it, and all rows of the same case by contender."""
    for case in groups(rows, *fields).values():
        if OURS in case:
            yield case[OURS], case


def best_other(case: dict[str, Row]) -> Row | None:
    """The fastest other contender that does the same job."""
    others = (r for r in case.values() if r["contender"] not in (OURS, LIMIT) and not r.get("less"))
    return min(others, key=ns, default=None)


class Machine:
    """One machine's rows of a suite, by topic: `about` is what the files say of it."""

    def __init__(self, about: Row):
        self.about = about
        self.topics: dict[str, list[Row]] = defaultdict(list)
        self.heads: dict[str, Row] = {}

    @property
    def name(self) -> str:
        return self.about.get("cpu") or self.about["device"]

    @property
    def date(self) -> str:
        return max(r["date"] for rows in self.topics.values() for r in rows)

    def cases(self, topic: str | tuple[str, ...], dtype: str, op: str = "matmul") -> Cases:
        """The rows of one thread, of one topic or several, by order and contender; of a matrix times a vector
        n is 1."""
        found: Cases = defaultdict(dict)
        topics = (topic,) if isinstance(topic, str) else topic
        for r in (row for name in topics for row in self.topics[name]):
            if r["dtype"] == dtype and r.get("threads", 1) == 1 and r["op"] in (op, "2r1w-nt"):
                found[max(r["n"], r["k"])][r["op"] if r["contender"] == LIMIT else r["contender"]] = r
        return found


@dataclass(frozen=True)
class Results:
    """The rows of a folder: files `<where>/<suite>-<machine>-<topic>.json`."""

    folder: Path = records.RESULTS

    @cache  # noqa: B019, there is one
    def machines(self, where: str, suite: str) -> dict[str, Machine]:
        """Every machine with rows of the suite by its name in the files' names: first the one that most was
        measured on, then the latest."""
        found: dict[str, Machine] = {}
        for path in sorted((self.folder / where).glob(f"{suite}-*.json")):
            slug, _, topic = path.stem.removeprefix(f"{suite}-").rpartition("-")
            about, rows = records.read(path)
            machine = found.setdefault(slug, Machine(about))
            machine.heads[topic] = about
            machine.topics[topic] += rows

        def rank(slug: str) -> tuple[int, str]:
            return len([*(self.folder / where).glob(f"*-{slug}-*.json")]), found[slug].date

        return {slug: found[slug] for slug in sorted(found, key=rank, reverse=True)}

    def first(self, where: str, suite: str) -> Machine:
        return next(iter(self.machines(where, suite).values()))

    def latest(self, where: str, suite: str) -> tuple[str, Machine]:
        """The machine with the latest rows, and its name in the files' names."""
        return max(self.machines(where, suite).items(), key=lambda item: item[1].date)

"""Timed kernels, and how well a model of their times chooses among them.

Of a problem's kernels, the regret at N is the time of the best of the N that a model ranks first, divided by
that of the fastest. Models are compared by problems that they were not fitted to: `held_out` leaves out a
fifth of the shapes at a time, in all element types and layouts.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .timings import read

Row = dict[str, Any]
TOPS = (1, 10, 100)
FOLDS = 5
LAUNCH = 1.2e-6  # seconds of an empty kernel


class Timed(NamedTuple):
    """A problem, and its kernels that were timed."""

    problem: Row
    batch: int
    shared: int  # bytes of shared memory of a block
    copy_ns: float  # that moving the operands once would take
    rows: list[Row]
    ns: np.ndarray
    chosen: np.ndarray  # those that a plan may choose: with no request of several blocks

    def __str__(self) -> str:
        p = self.problem
        layout = "".join("NT"[p.get(f"order_{x}", 0)] for x in "ab") if not p.get("source_b") else "of images"
        return f"{p['dtype']} {p['m']} x {p['k']} x {p['n']} {layout}"


Model = Callable[[Timed], np.ndarray]  # nanoseconds of each kernel


def timed(head: Row, line: Row, kernel: str | None = None) -> Timed:
    """Of a line of timings: its kernels of one name, or all."""
    rows = [row for row in line["times"] if kernel in (None, row["kernel"])]
    problem = {**line["problem"], "arch": head["arch"]}
    copy_ns = 1e9 * (line["bytes"] / head["copy_bytes_per_s"] + LAUNCH)
    ns = np.array([row["ns"] for row in rows])
    chosen = np.array([not row.get("blocks") for row in rows])
    return Timed(problem, line["batch"], head["shared"], copy_ns, rows, ns, chosen)


def load(paths: Iterable[Path], kernel: str | None = None) -> list[Timed]:
    """The problems with several kernels to choose from."""
    every = (timed(head, line, kernel) for head, line in read(paths))
    return [x for x in every if len(x.rows) > 1]


def regret(x: Timed, times: np.ndarray) -> list[float]:
    """At each of TOPS. Of kernels with equal times, those that a plan may choose come first."""
    order = np.lexsort((~x.chosen, times))
    return [x.ns[order[:top]].min() / x.ns.min() for top in TOPS]


def folds(data: Sequence[Timed]) -> list[int]:
    """Which of FOLDS each problem is left out with. Those of the same sizes are left out together."""
    shapes = [tuple(x.problem[name] for name in ("op", *"mkn")) for x in data]
    mixed = sorted(set(shapes))
    random.Random(0).shuffle(mixed)
    return [mixed.index(shape) % FOLDS for shape in shapes]


def held_out(data: Sequence[Timed], fit: Callable[[Sequence[Timed]], Model]) -> list[np.ndarray]:
    """Times of each problem's kernels, by the model that is fitted without its fold."""
    of = folds(data)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = [*pool.map(partial(_of_fold, data, of, fit), range(FOLDS))]
    return [found[fold][i] for i, fold in enumerate(of)]


def _of_fold(
    data: Sequence[Timed], of: list[int], fit: Callable[[Sequence[Timed]], Model], fold: int
) -> dict[int, np.ndarray]:
    out = [i for i, x in enumerate(of) if x == fold]
    model = fit([x for x, y in zip(data, of, strict=True) if y != fold]) if out else None
    return {i: model(data[i]) for i in out if model}


def error(data: Sequence[Timed], times: Sequence[np.ndarray]) -> float:
    """The mean square of log2(predicted / time)."""
    return float(np.mean(np.concatenate([np.log2(y / x.ns) for x, y in zip(data, times, strict=True)]) ** 2))


def regrets(data: Sequence[Timed], times: Sequence[np.ndarray]) -> np.ndarray:
    """A row for each problem."""
    return np.array([regret(x, y) for x, y in zip(data, times, strict=True)])

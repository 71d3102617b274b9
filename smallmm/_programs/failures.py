"""Which matrices of a fused function's call failed, in which step, and why, in the caller's words.

A program writes info with a column for each step that can fail. A caller sees one number for each matrix,
that of the first step that failed; it is made of the columns when it is asked for, or when something failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import (
    NOT_CONVERGED,
    NOT_ORTHOGONAL,
    NOT_POSITIVE_DEFINITE,
    SINGULAR,
    SINGULAR_TRIANGLE,
    WRONG_PIVOTS,
    LinAlgError,
    shown,
)
from .._base.hooks import current, offloaded
from .._base.later import later
from .arrays import any_failed, on_host
from .record import Step

# Why an operation fails that does not find a matrix singular
_REASONS = {
    "CHOLESKY": NOT_POSITIVE_DEFINITE,
    "EIG": NOT_CONVERGED,
    "EIGH": NOT_CONVERGED,
    "EIGVALS": NOT_CONVERGED,
    "EIGVALSH": NOT_CONVERGED,
    "LDL_SOLVE": WRONG_PIVOTS,
    "SCHUR": NOT_CONVERGED,
    "SQRTM": NOT_CONVERGED,
    "SOLVEH_BANDED": NOT_POSITIVE_DEFINITE,
    "SOLVE_POS": NOT_POSITIVE_DEFINITE,
    "SOLVE_TRIANGULAR": SINGULAR_TRIANGLE,
    "SVD": NOT_ORTHOGONAL,
    "SVDVALS": NOT_ORTHOGONAL,
    "SVD_FULL": NOT_ORTHOGONAL,
}


class FailedStep(NamedTuple):
    """The step of a fused function that failed."""

    name: str  # the function of smallmm
    place: int  # among the steps that `explain` lists, from 0

    def __str__(self) -> str:
        number = self.place + 1
        ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
        return f"{self.name}, the {number}{ending} step"


class _ResultAndInfo(NamedTuple):
    result: Any
    info: Any


class FusedExResult(_ResultAndInfo):
    """What a fused function returns, and info."""

    _failures: tuple[str, tuple[FailedStep, ...], Any] | None = None

    @property
    def step(self) -> FailedStep | None:
        """The step that failed, of the first matrix whose info is not 0, None if there is none. A device is
        waited for."""
        if self._failures is None:
            return None
        name, steps, columns = self._failures
        if columns is None or not any_failed(name, columns):
            return None
        _, column = _first(on_host(name, columns))
        return steps[column]


class Failures:
    """What the columns of info say, of a function with such steps."""

    def __init__(self, steps: Sequence[Step], fallible: Sequence[Step], columns: Sequence[int]) -> None:
        own = [step for step, n in zip(fallible, columns, strict=False) for _ in range(n)]
        self.steps = tuple(FailedStep(step.label, steps.index(step)) for step in own)
        self.reasons = [(step.reason, _REASONS.get(step.operation, SINGULAR)) for step in own]

    def result(
        self, name: str, answer: Any, results: Sequence[Any], core: int, columns: Any
    ) -> FusedExResult:
        """core: the dimensions of the first of the results, without those of the batch."""
        found = FusedExResult(answer, _codes(results[0], core, columns))
        found._failures = name, self.steps, columns
        return found

    def error(self, name: str, answer: Any, columns: Any) -> LinAlgError:
        """The exception for a call some of whose columns are not 0."""
        array = on_host(name, columns)
        first, column = _first(array)
        step, k = self.steps[column], int(array[(*first, column)])
        words, usual = self.reasons[column]
        if words is None:
            words = f"{step}, fails: {usual.why}"
        what, colon, why = words.format(k=k, i=abs(k) - 1, step=abs(k)).partition(": ")
        bad = array != 0
        own = bad.argmax(axis=-1)  # the column of the first step that fails
        if first:
            same = np.array([x == step for x in self.steps])[own] & bad.any(axis=-1)
            what += f" in {np.count_nonzero(same)} of {same.size} cases, the first at index {first}"
            why += "; see .info and .result of this exception for each"
        info = np.take_along_axis(array, own[..., None], axis=-1)[..., 0][()]
        return LinAlgError(f"{name}: {what}{colon}{why}", info, answer, step)


def refuse_reasons(reasons: Any) -> dict[str, str]:
    """As `fuse` is given them; TypeError or ValueError if they are none."""
    if reasons is None:
        return {}
    if not isinstance(reasons, dict) or not all(isinstance(x, str) for pair in reasons.items() for x in pair):
        raise TypeError(
            f"fuse: reasons is {shown(reasons)}; expected a dict from the names of functions to sentences"
        )
    for name, words in reasons.items():
        try:
            words.format(k=1, i=0)
        except (KeyError, IndexError, ValueError):
            raise ValueError(
                f"fuse: reasons[{name!r}] is {shown(words)}; expected a text with no other braces than "
                "{k}, what info is, and {i}, which is k - 1"
            ) from None
    return dict(reasons)


def _first(columns: np.ndarray) -> tuple[tuple[int, ...], int]:
    """The index of the first matrix that failed, and the first column that says so."""
    matrix = np.unravel_index(np.flatnonzero((columns != 0).any(axis=-1))[0], columns.shape[:-1])
    first = tuple(map(int, matrix))
    return first, int(np.flatnonzero(columns[first])[0])


def _codes(like: Any, core: int, columns: Any) -> Any:
    """A number for each matrix. like: an array with so many dimensions beside those of the batch."""
    if current() is not None:
        with offloaded(None):
            return _codes(like, core, columns)
    if columns is None:
        code = later("_programs.elements").no_code(core)(like)
    else:
        code = columns[..., 0] if columns.shape[-1] == 1 else later("_programs.elements").first_code(columns)
    return code[()] if isinstance(code, np.ndarray) else code


def note(info: np.ndarray, found: np.ndarray, done: int) -> None:
    """Enter failures of a scan that were found after so many times, of matrices that had none before."""
    new = (found[..., 1] != 0) & (info[..., 1] == 0)
    info[new] = found[new] + [0, done, 0]


def with_failures(xp: Any, info: Any, columns: Any, time: Any) -> Any:
    """Info of a scan, with what the step after so many times says of matrices that had none before."""
    first = xp.argmax(columns != 0, axis=-1).astype(xp.int32)
    code = xp.take_along_axis(columns, first[..., None], axis=-1)[..., 0]
    found = xp.stack([code, xp.full_like(code, time + 1), first], axis=-1)
    return xp.where(((code != 0) & (info[..., 1] == 0))[..., None], found, info)

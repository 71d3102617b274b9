"""`smallmm.tune`: the fastest kernel for a call on this GPU, found by timing the likeliest ones.

The kernels that can run the call (`candidates`) are ranked, compiled side by side, checked against the bits
of the present choice, and timed (csrc/cuda/timing.c). No other thread sees one before it has won.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _core
from .._base.catalog import FUNCTIONS, name_of
from .._base.errors import LinAlgError, shown
from .._base.options import flag, integer
from .._gpu import tuned
from .._libraries import library_of, on_device
from ..cuda import cache_directory
from .candidates import KERNELS, Row, candidates
from .progress import tqdm
from .timing import seconds_left

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = 3  # of each candidate
FINALISTS, ROUNDS, AGAIN = 4, 3, 5  # the best, which are timed so often again, in turn
FOR_FINALS = 0.2  # of the time
FASTER = 0.99  # than before; a smaller gain is noise


class TuneResult(NamedTuple):
    """What `tune` found. `str` gives it in words."""

    kernel: str
    parameters: dict[str, int]
    before_ns: float  # of the call, by what it ran before
    after_ns: float  # by what it runs now
    predicted_ns: float | None  # of what it runs now; None: no model predicts times of this kernel
    candidates: int  # that can run the call
    tried: int  # in the given time
    discarded: int  # of these, since they failed or had other bits
    saved: Path | None  # the file that later processes read

    def __str__(self) -> str:
        words = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        failed = f", {self.discarded} discarded" if self.discarded else ""
        kept = f"saved in {self.saved}" if self.saved else "not saved"
        if self.after_ns == self.before_ns:
            kept = "as before"
        return "\n".join(
            [
                f"{self.kernel} {words}",
                f"  {self.before_ns / 1e3:.4g} us before, {self.after_ns / 1e3:.4g} us now; {kept}",
                f"  {self.tried} of {self.candidates} candidates tried{failed}",
            ]
        )


def tune(
    function: str | Callable[..., Any],
    /,
    *arrays: Any,
    top: int = 100,
    seconds: float = 30,
    save: bool = True,
    **kwargs: Any,
) -> TuneResult:
    """Find the fastest kernel for a call on arrays of a CUDA device, and use it from now on.

    Parameters
    ----------
    function : str or function
        ``"solve"`` or ``smallmm.solve``, or another function that a kernel computes.
    *arrays : array_like
        The operands, on a CUDA device. The kernel is found for their sizes, dtype and layout, and for their
        number: up to 4096 matrices, or more.
    top : int
        How many candidates are timed, at most: those that are ranked first. A model of their times ranks
        products above order 64. Of others, those that differ least from the present choice come first.
    seconds : float
        How long it takes, about. What is not compiled and timed by then is left out.
    save : bool
        Whether later processes of this user have the result, too: in the folder ``tuned`` of
        `smallmm.cuda.cache_directory`, if there is one.
    **kwargs
        The function's own keywords, but ``out``.

    Returns
    -------
    TuneResult
        The kernel and its parameters, and the times of the call before and now. Print it for a summary.

    Raises
    ------
    ValueError
        There is no such function, or it makes several calls of kernels or none for such arrays; they are
        empty; ``top < 1``.
    TypeError
        No array is on a CUDA device, or ``out`` is given.
    CudaUnavailableError
        Without a driver, a device or NVRTC.
    OSError
        The result cannot be saved. This process has it.

    Notes
    -----
    Results do not change: every kernel gives the same bits, and one that does not is discarded. The function
    is called for each candidate, and its call is timed in a CUDA graph, on a stream of its own; so the
    device's caches are warm if the arrays fit. A candidate is chosen if it takes 1 % less time than the
    kernel of before. Saved results are for the device, its driver and the version of the kernels, and are
    ignored with others. Calls of other threads run as before in the meantime.

    Examples
    --------
    >>> smallmm.tune("inv", np.eye(3))
    Traceback (most recent call last):
    TypeError: tune: no array is on a CUDA device
    """
    name = name_of("tune", "function", function)
    top = integer("tune", "top", top, least=1)
    if not (isinstance(seconds, Real) and seconds >= 0):
        raise ValueError(f"tune: seconds is {shown(seconds)}; expected a number >= 0")
    save = flag("tune", "save", save)
    if kwargs.get("out") is not None:
        raise TypeError("tune: out is given, which candidates would overwrite")
    if not any(map(on_device, _flat(arrays))):
        raise TypeError("tune: no array is on a CUDA device")
    call = partial(_results, FUNCTIONS[name].function, *arrays, **kwargs)
    calls, problem, ordinal, matrices = _core.cuda_problem(call)
    if calls != 1:
        raise ValueError(f"tune: {name} makes {calls} calls of kernels for these arguments; expected one")
    if not matrices or not all(problem[x] for x in "mkn"):
        raise ValueError(f"tune: there is nothing to compute: {name} of empty arrays")
    return _Search(call, problem, ordinal, matrices).run(top, float(seconds), save)


def _flat(x: Any) -> Iterator[Any]:
    """The members of nested tuples."""
    for y in x:
        yield from _flat(y) if isinstance(y, tuple) else (y,)


def _results(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """All arrays that a function gives, of bad matrices, too."""
    try:
        result = function(*args, **kwargs)
    except LinAlgError as error:
        result = (error.result, error.info)
    return list(_flat(result if isinstance(result, tuple) else (result,)))


class _Search:
    def __init__(self, call: Callable[[], list[Any]], problem: Row, ordinal: int, matrices: int):
        self.call, self.problem, self.matrices = call, problem, matrices
        self.device, self.arch, self.shared = _core.cuda_device(ordinal)
        plan: Row = _core.cuda_plan({**problem, "device": self.device}, self.shared)  # type: ignore[assignment]
        self.present = {x: plan[x] for x in ("kernel", *KERNELS[plan["kernel"]])}
        self.expected, _ = _core.cuda_time(None, 1, call)
        self.discarded = 0

    def run(self, top: int, seconds: float, save: bool) -> TuneResult:
        left = seconds_left((1 - FOR_FINALS) * seconds)
        rows = [row for row in candidates(self.problem, self.shared) if row != self.present]
        predicted = _core.cuda_predict(self.problem, rows, self.shared)
        ranked = rank(rows, predicted, self.present)[:top]
        times = self.times(ranked, left)
        best = sorted(times, key=lambda x: x[0])[:FINALISTS]
        before, *after = self.again([None, *(row for _, row in best)])
        found = min(
            zip(after, (row for _, row in best), strict=True), default=(before, None), key=lambda x: x[0]
        )
        chosen, now = self.present, before
        saved: Path | None = None
        if found[1] is not None and found[0] < FASTER * before:
            now, chosen = found
            ns = [round(x / self.matrices, 5) for x in (now, before)]
            cache = cache_directory()
            runner_up = {**self.present, "ns": ns[1]}
            saved = tuned.keep(self.device, self.problem, chosen, ns[0], runner_up, cache, save)
        parameters = {x: y for x, y in chosen.items() if x != "kernel"}
        return TuneResult(
            chosen["kernel"],
            parameters,
            before,
            now,
            predicted_ns=_core.cuda_predict(self.problem, [chosen], self.shared)[0],
            candidates=len(rows) + 1,
            tried=len(times) + self.discarded,
            discarded=self.discarded,
            saved=saved,
        )

    def times(self, rows: list[Row], left: Callable[[], float]) -> list[tuple[float, Row]]:
        """Of the candidates that work, as far as there is time."""
        found = []
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            cubins = [pool.submit(self.compile, row) for row in rows]
            for row, cubin in zip(tqdm(rows, desc="tune", leave=False, disable=None), cubins, strict=True):
                if not _done(cubin, left):
                    break
                time = self.time(row, SAMPLES)
                if time is None:
                    self.discarded += 1
                else:
                    found.append((time, row))
            pool.shutdown(cancel_futures=True)
        return found

    def compile(self, row: Row) -> None:
        """Into the disk cache, from which `time` has it; if there is none, `time` compiles it."""
        if cache_directory() is not None:
            _core.cuda_build(self.problem, row, self.arch, self.shared)

    def time(self, row: Row | None, samples: int) -> float | None:
        """Nanoseconds of the call by a candidate, or what runs now; None: it fails or has other bits."""
        try:
            results, times = _core.cuda_time(row, samples, self.call)
        except RuntimeError:
            if row is None:
                raise
            return None
        if not all(map(same_bits, results, self.expected)):
            return None
        return statistics.median(times)

    def again(self, rows: list[Row | None]) -> list[float]:
        """The median times of several candidates, timed in turn, since the clock of a device changes."""
        times: list[list[float]] = [[] for _ in rows]
        for _ in range(ROUNDS):
            for row, its in zip(rows, times, strict=True):
                time = self.time(row, AGAIN)
                its.append(float("inf") if time is None else time)
        return [statistics.median(its) for its in times]


def _done(cubin: Future[None], left: Callable[[], float]) -> bool:
    """Whether a candidate is compiled in time. One that cannot be fails when it is timed, too."""
    try:
        cubin.exception(left())
    except TimeoutError:
        return False
    return left() > 0


def rank(rows: list[Row], predicted: list[float | None], present: Row) -> list[Row]:
    """The fastest first, if times of all are predicted; else those that differ least from the present choice.
    Among equal ones by chance, but always alike."""

    times = [0.0] * len(rows) if None in predicted else predicted

    def place(x: tuple[Row, float | None]) -> tuple[float | None, int]:
        row, ns = x
        return ns, sum(row.get(x) != y for x, y in present.items())

    mixed = random.Random(0).sample([*zip(rows, times, strict=True)], len(rows))
    return [row for row, _ in sorted(mixed, key=place)]


def same_bits(x: Any, y: Any) -> bool:
    """Of NaN, too, which comes of singular matrices. Compared on the device by libraries that can."""
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    size = getattr(x, "itemsize", 0)
    integer_of_size = getattr(library, f"int{8 * size}", None)
    if integer_of_size is not None and hasattr(x, "view") and hasattr(x, "all"):
        return bool((x.view(integer_of_size) == y.view(integer_of_size)).all())
    a, b = (np.ascontiguousarray(library_of(z).to_host(z)) for z in (x, y))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()

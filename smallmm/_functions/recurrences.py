"""Recurrences in time: what a step makes of a state and of a measurement, again and again."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from .._base.errors import shown
from .._programs.arrays import any_failed, on_host
from .._programs.scan import Outcome, Scan, Times


class ScanResult(NamedTuple):
    """The carry after the last time, and the other results of each time."""

    carry: Any
    ys: Any


class ScanExResult(NamedTuple):
    """The same, with what failed first in each series, and when."""

    carry: Any
    ys: Any
    info: Any
    time: Any


def scan(
    function: Callable[..., Any],
    carry: Any,
    xs: Any = None,
    *,
    consts: Any = (),
    length: int | None = None,
    reverse: bool = False,
    outputs: Literal["all", "last"] = "all",
    every: int = 1,
    out: Any = None,
    progress: bool | Callable[[int, int], Any] = False,
    **options: Any,
) -> ScanResult:
    """doc"""
    call, times = _call("scan", function, carry, xs, consts, length, reverse, outputs, every, options)
    outcome = call.run(times, out, progress)
    result = _result(call, outcome, outputs)
    if outcome.info is not None and any_failed("scan", outcome.info[..., 0]):
        raise call.error(outcome, result, _failures(call, outcome, times)[1])
    return result


def scan_ex(
    function: Callable[..., Any],
    carry: Any,
    xs: Any = None,
    *,
    consts: Any = (),
    length: int | None = None,
    reverse: bool = False,
    outputs: Literal["all", "last"] = "all",
    every: int = 1,
    out: Any = None,
    progress: bool | Callable[[int, int], Any] = False,
    **options: Any,
) -> ScanExResult:
    """doc"""
    call, times = _call("scan_ex", function, carry, xs, consts, length, reverse, outputs, every, options)
    outcome = call.run(times, out, progress)
    result = _result(call, outcome, outputs)
    info, time = _failures(call, outcome, times)
    return ScanExResult(*result, info, time)


def _call(
    name: str,
    function: Any,
    carry: Any,
    xs: Any,
    consts: Any,
    length: int | None,
    reverse: bool,
    outputs: str,
    every: int,
    options: dict[str, Any],
) -> tuple[Scan, Times]:
    if not callable(function):
        raise TypeError(f"{name}: function is {shown(function)}; expected a function")
    if outputs not in ("all", "last"):
        raise ValueError(f"{name}: outputs is {shown(outputs)}; expected 'all' or 'last'")
    if not isinstance(every, int | np.integer) or every < 1:
        raise ValueError(f"{name}: every is {shown(every)}; expected an integer of at least 1")
    call = Scan(name, function, carry, xs, consts, length, options)
    every = max(1, call.length) if outputs == "last" else int(every)
    return call, Times(call.length, every, bool(reverse))


def _result(call: Scan, outcome: Outcome, outputs: str) -> ScanResult:
    ys = [y[0] for y in outcome.ys] if outputs == "last" and call.length else outcome.ys
    return ScanResult(call.carry_of(outcome.carry), ys[0] if len(ys) == 1 else tuple(ys))


def _failures(call: Scan, outcome: Outcome, times: Times) -> tuple[np.ndarray, np.ndarray]:
    """Info, and the time of each first failure, -1 where nothing failed; on the host."""
    if outcome.info is None:
        return np.zeros(call.batch, np.int32), np.full(call.batch, -1)
    info = on_host(call.name, outcome.info)
    ran = info[..., 1].astype(np.int64) - 1
    return info[..., 0], np.where(ran < 0, -1, times.length - 1 - ran if times.reverse else ran)

"""How long a call takes: samples by turns, until their median is known."""

from __future__ import annotations

import gc
import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

Call = Callable[[], object]
Clock = Callable[[Call, int], float]  # nanoseconds of one of so many calls in a row


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of one call: the median and the quartiles of `samples` samples."""

    median: float
    low: float
    high: float
    samples: int


def timing(samples: list[float]) -> Timing:
    """Median and quartiles of samples in nanoseconds."""
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high, len(samples))


def clock(wait: Callable[[Any], object] = lambda last: None) -> Clock:
    """The host's clock. `wait` ends the calls: on a device, it waits for the last result."""

    def sample(call: Call, repetitions: int) -> float:
        start = perf_counter_ns()
        for _ in itertools.repeat(None, repetitions):
            last = call()
        wait(last)
        return (perf_counter_ns() - start) / repetitions

    return sample


def seconds_left(seconds: float) -> Callable[[], float]:
    """What says how many are left, from now on; 0 when they are over."""
    stop = perf_counter_ns() + seconds * 1e9
    return lambda: max(0.0, (stop - perf_counter_ns()) / 1e9)


def repetitions_of(call: Call, sample_ns: float, sample: Clock) -> int:
    """As many repetitions as make one sample last sample_ns."""
    repetitions = 1
    while True:
        took = sample(call, repetitions) * repetitions
        if took >= sample_ns / 2:
            return max(1, round(repetitions * sample_ns / took))
        repetitions *= 4


def _settled(samples: list[float]) -> bool:
    """The median is known to about half a percent."""
    t = timing(samples)
    return (t.high - t.low) / len(samples) ** 0.5 < 0.005 * t.median


def measure(
    calls: dict[str, Call],
    *,
    budget_s: float = 1.0,
    sample_s: float = 1e-3,
    least: int = 7,
    repetitions: int | None = None,
    sample: Clock = clock(),  # noqa: B008, it has no state
) -> dict[str, Timing]:
    """Time all calls round-robin, so that the drift of a noisy machine hits all alike: `least` rounds, then
    more until all medians settle or the budget is spent. A sample lasts sample_s, or is so many repetitions.

    Where one sample is several calls, an untimed call goes first and brings the data back into the cache.
    """
    often = {
        name: repetitions or repetitions_of(call, sample_s * 1e9, sample) for name, call in calls.items()
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    collecting = gc.isenabled()
    gc.disable()
    try:
        stop = perf_counter_ns() + budget_s * 1e9
        for done in itertools.count():
            if done >= least and (perf_counter_ns() > stop or all(map(_settled, samples.values()))):
                break
            for name in order[done % len(order) :] + order[: done % len(order)]:
                if often[name] > 1:
                    calls[name]()
                samples[name].append(sample(calls[name], often[name]))
    finally:
        if collecting:
            gc.enable()
    return {name: timing(s) for name, s in samples.items()}

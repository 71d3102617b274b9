"""The times of a scan: their order, which results are kept, and the parts that progress is shown of."""

import sys
from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any, NamedTuple

_PARTS = 50  # of a scan whose progress is shown


class Times(NamedTuple):
    """Which times run, and whose other results are kept: the last one and every so many before it."""

    length: int
    every: int
    reverse: bool

    def kept(self) -> int:
        return -(-self.length // self.every)

    def in_order(self) -> Iterator[tuple[int, int]]:
        """Each time as it runs, and where its results are kept, -1 if nowhere."""
        for i in range(self.length):
            behind = self.length - 1 - i
            place = self.kept() - 1 - behind // self.every
            if self.reverse:
                place = self.kept() - 1 - place
            yield behind if self.reverse else i, place if behind % self.every == 0 else -1

    def parts(self, count: int) -> Iterator["Part"]:
        """At most about twice so many parts. One that ends at a time whose results are not kept has no other
        that are: what it writes in their place, the part after it overwrites."""
        most = max(1, -(-self.kept() // count))
        longest = self.length if most > 1 else max(1, -(-self.length // count))
        done = kept = 0
        while done < self.length:
            keeps = min(most, self.kept() - kept)
            left = self.length - done - (self.kept() - kept - keeps) * self.every
            length = min(left, longest)
            yield Part(
                done, length, self.length - 1 - done if self.reverse else done,
                self.kept() - 1 - kept if self.reverse else kept,
            )  # fmt: skip
            done, kept = done + length, kept + keeps * (length == left)


class Part(NamedTuple):
    """Times that run together: how many ran before, their number, the first, and the place of the first that
    is kept."""

    done: int
    length: int
    first: int
    place: int


class Shown:
    """Progress that is shown: how many times have run. progress: True for a line of text, or a function of
    the times that have run, and of all. keep: a function of the times that have run, and of the carry."""

    def __init__(self, name: str, length: int, progress: bool | Callable[[int, int], Any], keep: Any) -> None:
        self.name, self.length = name, length
        self.progress, self.keep = progress, keep
        self.between = isqrt(length)  # times, at least, from one carry that is kept to the next
        self.last = 0
        self.parts = max(_PARTS if progress else 1, self.between if keep else 1)

    def __call__(self, done: int, carry: list[Any]) -> None:
        if self.keep and self.between <= done - self.last and done < self.length:
            self.keep(done, carry)
            self.last = done
        if self.progress is True:
            end = "\n" if done == self.length else ""
            print(f"\r{self.name}: {done} of {self.length} times", end=end, file=sys.stderr, flush=True)
        elif self.progress:
            self.progress(done, self.length)

"""Which members of groups lie in which stack."""

from typing import Any

import numpy as np


class OnHost:
    """Of NumPy what `Device` has of a library for stacks. The class serves, and is itself after pickling."""

    concat = staticmethod(np.concatenate)

    @staticmethod
    def layout(x: np.ndarray) -> None:
        return None

    @staticmethod
    def index(places: np.ndarray) -> np.ndarray:
        return places

    @staticmethod
    def take(x: np.ndarray, index: np.ndarray) -> np.ndarray:
        return x[index]


class Classes:
    """Which members lie in which stack: those of the first, in its order, then those of the next."""

    def __init__(self, members: np.ndarray, counts: np.ndarray, library: Any) -> None:
        self.members = members
        self.counts = counts  # of each stack
        self.firsts = np.cumsum(counts) - counts  # of each stack: the place of its first in `members`
        self.number, self.position = np.empty((2, len(members)), np.intp)  # of the stack of each member,
        self.number[members] = np.repeat(np.arange(len(counts)), counts)  # and of each member in its stack
        self.position[members] = np.arange(len(members)) - np.repeat(self.firsts, counts)
        # The place of each member in `members`; made now, for whoever waits for the stacks to find it, too
        self.index = library.index(self.firsts[self.number] + self.position)


def common(numbers: list[np.ndarray], library: Any) -> Classes:
    """The members for which all of these numbers are the same, for each combination that occurs."""
    combined = numbers[0]
    for x in numbers[1:]:
        combined = np.unique(combined * (x.max(initial=0) + 1) + x, return_inverse=True)[1]
    order = np.argsort(combined, kind="stable")
    return Classes(order, np.bincount(combined[order]), library)

"""smallmm's own kinds of arrays: symbols, with which `fuse` records a function, and groups of matrices of
different sizes. Each knows what becomes of a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Library, Named, places_of_windows


def is_group(x: Any) -> bool:
    """Whether it is a `Group`, without importing what defines it."""
    return hasattr(x, "take_call") and not x.is_traced


class Own(Library):
    rank = 100  # of mixtures with arrays of other libraries

    def is_traced(self, x: Any) -> bool:
        return x.is_traced

    def takes_device_arrays(self, operands: dict[str, Any]) -> bool:
        return any(map(is_group, operands.values()))

    def windows(self, x: Any, window: int, axis: int, step: int) -> Any:
        return x.take(places_of_windows(x.shape[axis], window, step), axis)

    def as_numpy(self, op: str, name: str, x: Any) -> np.ndarray:
        raise TypeError(f"{op}: {name} is a {type(x).__name__}, which is no array of NumPy")

    def call(self, op: str, gufunc: np.ufunc, operands: Named, outs: Named, kwargs: Named) -> Any:
        given = next((name for name, x in outs.items() if x is not None), next(iter(kwargs), None))
        taker = next(x for x in (*operands.values(), *outs.values()) if hasattr(x, "take_call"))
        if given is not None:
            raise TypeError(f"{op}: {given} is given for {taker!r}; use the result instead")
        return taker.take_call(op, gufunc, operands)

"""Symbols: arrays without elements, with which `fuse` records a function (`_symbols`). Calls on them become
steps of the record that they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Call, Library


class Symbols(Library):
    rank = 100  # of mixtures with arrays of other libraries, which become constants

    def is_traced(self, x: Any) -> bool:
        return True

    def as_numpy(self, op: str, name: str, x: Any) -> np.ndarray:
        raise TypeError(f"{op}: {name} stands for arrays while a function is recorded; it has no elements")

    def call(
        self,
        op: str,
        gufunc: np.ufunc,
        operands: dict[str, Any],
        outs: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> Any:
        given = next((name for name, x in outs.items() if x is not None), next(iter(kwargs), None))
        if given is not None:
            raise TypeError(f"{op}: {given} is given in a function that is fused; use the result instead")
        record = next(x.record for x in operands.values() if hasattr(x, "record"))
        return record.call(op, gufunc, operands)

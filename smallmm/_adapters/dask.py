"""Dask's arrays: results are Dask arrays, computed chunk by chunk when they are asked for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._errors import explain_failure
from .._shapes import NUMBERS, arithmetic, fixed_signature, operand_dtypes, output_dtypes
from .base import Library
from .numpy import NumPy

_DASKS_KEYWORDS = ("axes", "axis", "keepdims")  # of gufuncs, which Dask itself takes care of


class Dask(Library):
    rank = 2

    def call(
        self,
        op: str,
        gufunc: np.ufunc,
        operands: dict[str, Any],
        outs: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> Any:
        for name, x in outs.items():
            if x is not None:
                raise TypeError(f"{op}: {name} is given, but a call of Dask arrays writes to none")
        where = {name: x for name, x in kwargs.items() if name in _DASKS_KEYWORDS}
        others = {name: x for name, x in kwargs.items() if name not in _DASKS_KEYWORDS}
        try:
            dtypes = output_dtypes(gufunc, operands, kwargs)
            own = operand_dtypes(gufunc, operands)
            return lazily(
                partial(_call_chunks, op, gufunc, tuple(operands), others),
                fixed_signature(gufunc, operands),
                *(
                    np.asarray(x, arithmetic(own[name])) if type(x) in NUMBERS else x
                    for name, x in operands.items()
                ),
                output_dtypes=dtypes if gufunc.nout > 1 else dtypes[0],
                **where,
            )
        except (IndexError, OverflowError, TypeError, ValueError):
            if any(n != n for x in operands.values() if is_lazy(x) for n in x.shape):  # NaN: not known yet
                raise
            outlines = {name: _outline(x) for name, x in operands.items()}
            explanation = explain_failure(op, gufunc, outlines, {}, kwargs)
            if explanation is None:
                raise
            raise explanation from None  # Dask's messages know of no operands


def is_lazy(x: Any) -> bool:
    """Whether x is an array of Dask, which computes when asked to."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(x, dask.Array)


def lazily(function: Callable[..., Any], signature: str, *arrays: Any, **kwargs: Any) -> Any:
    """Dask arrays of what `function` will give chunk by chunk, the chunks of the batch being those of all."""
    from dask.array import apply_gufunc, asarray
    from dask.array.core import unify_chunks

    cores = [
        part.count(",") + (part != "") for part in re.findall(r"\((.*?)\)", signature.partition("->")[0])
    ]
    pairs = []
    for i, (x, core) in enumerate(zip(arrays, cores, strict=True)):
        x = asarray(x)
        batch = [("batch", d) for d in reversed(range(x.ndim - core))]
        pairs += [x, (*batch, *((i, d) for d in range(core)))]
    if "axes" not in kwargs:
        arrays = unify_chunks(*pairs)[1]
    return apply_gufunc(function, signature, *arrays, **kwargs)


def _outline(x: Any) -> Any:
    """x, or an array of the shape and dtype of a lazy one, all of it one element."""
    return np.broadcast_to(np.empty((), x.dtype), x.shape) if is_lazy(x) else x


def _call_chunks(
    op: str, gufunc: np.ufunc, names: tuple[str, ...], kwargs: dict[str, Any], *chunks: np.ndarray
) -> Any:
    return NumPy("numpy").call(op, gufunc, dict(zip(names, chunks, strict=True)), {}, kwargs)

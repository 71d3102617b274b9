"""Dask's arrays: results are Dask arrays, computed chunk by chunk when they are asked for."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._base.errors import explain_failure
from .._base.shapes import NUMBERS, arithmetic, fixed_signature, operand_dtypes, output_dtypes, stand_in
from .base import Library, Named
from .numpy import NumPy, every

_DASKS_KEYWORDS = ("axes", "axis", "keepdims")  # of gufuncs, which Dask itself takes care of


class Dask(Library):
    rank = 2

    def call(self, op: str, gufunc: np.ufunc, operands: Named, outs: Named, kwargs: Named) -> Any:
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
                dtypes=dtypes if gufunc.nout > 1 else dtypes[0],
                labels=[] if where else [f"{op}: {name}" for name in operands],
                **where,
            )
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            for name, x in operands.items():
                if is_lazy(x) and _is_unknown(x.shape):
                    raise type(error)(
                        f"{op}: {name} has shape {x.shape}, nan for lengths that are not computed yet, and "
                        f"not the chunks of the others: call its compute_chunk_sizes(); Dask says: {error}"
                    ) from error
            outlines = {name: stand_in(x.shape, x.dtype) if is_lazy(x) else x for name, x in operands.items()}
            explanation = explain_failure(op, gufunc, outlines, {}, kwargs)
            if explanation is None:
                raise
            raise explanation from None  # Dask's messages know of no operands

    def windows(self, x: Any, window: int, axis: int, step: int) -> Any:
        if _is_unknown(x.shape):
            raise ValueError(
                f"sliding: x has shape {x.shape}, nan for lengths that are not computed yet; call its "
                "compute_chunk_sizes()"
            )
        from dask.array import moveaxis
        from dask.array.lib.stride_tricks import sliding_window_view

        return every(sliding_window_view(x, window, axis), moveaxis, axis, step)


def is_lazy(x: Any) -> bool:
    """Whether x is an array of Dask, which computes when asked to."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(x, dask.Array)


def lazily(
    function: Callable[..., Any],
    signature: str,
    *arrays: Any,
    dtypes: np.dtype | list[np.dtype],
    labels: Sequence[str] = (),
    **kwargs: Any,
) -> Any:
    """Dask arrays of what `function` will give chunk by chunk, the chunks of the batch being those of all.
    dtypes: those of the outputs, a list if there are several. labels: of arrays that may have several chunks
    in a matrix, which is a ValueError."""
    from dask.array import apply_gufunc, asarray
    from dask.array.core import unify_chunks

    cores = [
        part.count(",") + (part != "") for part in re.findall(r"\((.*?)\)", signature.partition("->")[0])
    ]
    for label, x, core in zip(labels, arrays, cores, strict=False):
        _refuse_parts(label, x, core)
    pairs = []
    for i, (x, core) in enumerate(zip(arrays, cores, strict=True)):
        x = asarray(x)
        batch = [("batch", d) for d in reversed(range(x.ndim - core))]
        pairs += [x, (*batch, *((i, d) for d in range(core)))]
    unknown: set[int] = set()  # batch dimensions of unknown lengths, counted from the last
    if "axes" not in kwargs:
        chunks, arrays = unify_chunks(*pairs)
        unknown = {d for (kind, d), sizes in chunks.items() if kind == "batch" and _is_unknown(sizes)}
        if unknown:
            arrays = tuple(
                _with_lengths(x, {x.ndim - core - 1 - d for d in unknown}, 2)
                for x, core in zip(arrays, cores, strict=True)
            )
    meta = tuple(np.empty(0, x) for x in dtypes) if isinstance(dtypes, list) else np.empty(0, dtypes)
    results = apply_gufunc(function, signature, *arrays, meta=meta, **kwargs)
    if not unknown:
        return results
    most = max(x.ndim - core for x, core in zip(arrays, cores, strict=True))
    dims = {most - 1 - d for d in unknown}
    if isinstance(results, tuple):
        return tuple(_with_lengths(x, dims, math.nan) for x in results)
    return _with_lengths(results, dims, math.nan)


class SeveralChunks(ValueError):
    """Where a matrix, or what is summed over, is in one chunk or nothing is computed."""


def along_last(function: Callable[[Any], Any], x: Any) -> Any:
    """What a function of NumPy's arrays makes of a Dask array, of whose last dimension it leaves a number."""
    _refuse_parts("x", x, 1)
    meta = np.empty((0,) * (x.ndim - 1), x.dtype)
    return x.map_blocks(function, drop_axis=x.ndim - 1, dtype=x.dtype, meta=meta)


def _refuse_parts(label: str, x: Any, core: int) -> None:
    inner = range(max(x.ndim - core, 0), x.ndim) if is_lazy(x) else ()
    for d in inner:
        if len(x.chunks[d]) > 1:
            whole = ", ".join(f"{i - x.ndim}: -1" for i in inner)
            raise SeveralChunks(
                f"{label} has chunks {x.chunks[d]} along dimension {d}; expected one, of whole matrices: "
                f"call {label.rpartition(' ')[2]}.rechunk({{{whole}}})"
            )


def _is_unknown(sizes: tuple[float, ...]) -> bool:
    """Whether these lengths of chunks are not known before they are computed: Dask has NaN for them."""
    return any(n != n for n in sizes)


def _with_lengths(x: Any, dims: set[int], length: float) -> Any:
    """The array with this for the length of each chunk along these dimensions, but those of length 1.
    `apply_gufunc` finds no two unknown lengths equal, so that known ones stand in for them."""
    chunks = [
        (length,) * len(sizes) if d in dims and sizes != (1,) else sizes for d, sizes in enumerate(x.chunks)
    ]
    return type(x)(x.dask, x.name, chunks, meta=x._meta)


def _call_chunks(
    op: str, gufunc: np.ufunc, names: tuple[str, ...], kwargs: dict[str, Any], *chunks: np.ndarray
) -> Any:
    return NumPy("numpy").call(op, gufunc, dict(zip(names, chunks, strict=True)), {}, kwargs)

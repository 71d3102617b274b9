"""Functions of symbols that move, reduce and join: a view, or steps of the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from .compose import sums
from .dtypes import BOOL, FLOATS, INTEGERS, is_number
from .symbol_elementwise import is_symbol, record_among, truth_as_number, where

if TYPE_CHECKING:
    from .symbols import Symbol


def axes_of(x: Symbol, axis: Any) -> list[int]:
    """The axes of a reduction, in order: all, one or a tuple of them."""
    if axis is None:
        return list(range(x.ndim))
    axes = axis if isinstance(axis, tuple) else (index(axis),)
    return sorted(normalize_axis_tuple(axes, x.ndim, x.record.name))


def axis_of(x: Symbol, axis: Any) -> int:
    return normalize_axis_index(axis, x.ndim, x.record.name)


def along(x: Symbol, axis: int, what: Any) -> Symbol:
    """x with an index, slice or None for one of its axes."""
    return x[(*(slice(None),) * axis, what)]


def moved_to_end(x: Symbol, axes: Iterable[int]) -> Symbol:
    last = list(axes)
    return x.transpose([i for i in range(x.ndim) if i not in last] + last) if last else x


def _flattened(x: Symbol, axes: list[int]) -> Symbol:
    """x with those axes as its last one."""
    moved = moved_to_end(x, axes)
    kept = moved.shape[: x.ndim - len(axes)]
    return moved if len(axes) == 1 else moved.reshape((*kept, prod(x.shape[i] for i in axes)))


def _kept(x: Symbol, axes: list[int], keepdims: bool) -> Symbol:
    for i in axes if keepdims else ():
        x = along(x, i, None)
    return x


def _summable(x: Symbol, dtype: Any) -> Symbol:
    """x as it is added or multiplied: in that dtype; in float64 where NumPy would use integers."""
    if dtype is None:
        return x.record.as_number(truth_as_number(x), FLOATS[1]) if x.dtype in (*INTEGERS, BOOL) else x
    if not is_number(np.dtype(dtype)):
        raise TypeError(f"{x.record.name}: dtype={np.dtype(dtype)} of a reduction; expected floating-point")
    return x.astype(dtype)


def summed(x: Symbol, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Symbol:
    x, axes = _summable(x, dtype), axes_of(x, axis)
    return _kept(sums(x.__array_namespace__(), _flattened(x, axes)), axes, keepdims) if axes else x


def _mean(x: Symbol, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Symbol:
    count = prod(x.shape[i] for i in axes_of(x, axis))
    total: Any = summed(x, axis, dtype, keepdims=keepdims)
    return total / count


def _prod(x: Symbol, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Symbol:
    return _fold("multiply", _summable(x, dtype), axis, keepdims, 1.0)


def _extreme(name: str) -> Callable[..., Symbol]:
    return lambda x, axis=None, *, keepdims=False: _fold(name, x, axis, keepdims)


def _truths(name: str, of_none: bool) -> Callable[..., Symbol]:
    def function(x: Symbol, axis: Any = None, *, keepdims: bool = False) -> Symbol:
        truth = x if x.dtype == BOOL else x.record.map("not_equal", x, 0.0, truth=True)
        return _fold(name, truth, axis, keepdims, of_none)

    return function


def _fold(name: str, x: Symbol, axis: Any, keepdims: bool, of_none: Any = None) -> Symbol:
    """Halves, quarters, ... together, so that the order does not depend on what else there is."""
    axes = axes_of(x, axis)
    part = _flattened(x, axes) if axes else x[..., None]
    if not part.shape[-1]:
        if of_none is None:
            raise ValueError(f"{x.record.name}: {name} of no elements")
        part = _broadcast_to(x.record.constant(of_none, x.dtype), (*part.shape[:-1], 1))
    truth = x.dtype == BOOL
    while part.shape[-1] > 1:
        half = part.shape[-1] // 2
        both = x.record.map(name, part[..., :half], part[..., half : 2 * half], truth=truth)
        part = (
            both if part.shape[-1] % 2 == 0 else x.record.join([both, part[..., 2 * half :]], both.ndim - 1)
        )
    return _kept(part[..., 0], axes, keepdims)


def _cumsum(x: Symbol, axis: Any = None, dtype: Any = None) -> Symbol:
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis_of(x, axis)
    x = _summable(x, dtype)
    parts: list[Any] = [along(x, axis, i) for i in range(x.shape[axis])]
    for i in range(1, len(parts)):
        parts[i] = parts[i - 1] + parts[i]
    return _stack(parts, axis) if parts else x


def _cumulative_sum(x: Symbol, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Symbol:
    if axis is None and x.ndim > 1:
        raise ValueError(f"{x.record.name}: cumulative_sum of shape {x.shape}; expected an axis")
    x = x if x.ndim else x[None]
    axis = axis_of(x, -1 if axis is None else axis)
    total = _cumsum(x, axis, dtype)
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    zeros = x.record.constant(np.zeros(shape, total.dtype))
    return _concat([zeros, total], axis) if include_initial else total


def as_symbols(arrays: Any) -> list[Symbol]:
    """What is joined, as symbols."""
    record = record_among(*arrays)
    return [record.as_symbol(x) for x in arrays]


def _concat(arrays: Any, axis: Any = 0) -> Symbol:
    symbols = as_symbols(arrays)
    if axis is None:
        symbols, axis = [x.reshape(-1) for x in symbols], 0
    first = symbols[0]
    if not all(x.ndim for x in symbols):
        raise ValueError(f"{first.record.name}: numbers cannot be concatenated; use stack")
    return first.record.join(symbols, axis_of(first, axis))


def _stack(arrays: Any, axis: Any = 0) -> Symbol:
    symbols = as_symbols(arrays)
    record = symbols[0].record
    axis = normalize_axis_index(axis, symbols[0].ndim + 1, record.name)
    if len({x.shape for x in symbols}) > 1:
        raise ValueError(f"{record.name}: shapes {', '.join(str(x.shape) for x in symbols)} are stacked")
    return record.join([along(x, axis, None) for x in symbols], axis)


def _hstack(arrays: Any) -> Symbol:
    symbols = [x if x.ndim else x[None] for x in as_symbols(arrays)]
    return _concat(symbols, min(1, symbols[0].ndim - 1))


def _vstack(arrays: Any) -> Symbol:
    return _concat([x[(None,) * max(2 - x.ndim, 0)] for x in as_symbols(arrays)])


def _squeeze(x: Symbol, axis: Any = None) -> Symbol:
    axes = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else axes_of(x, axis)
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"{x.record.name}: squeeze of axis {axis} of shape {x.shape}; expected length 1")
    return x[tuple(0 if i in axes else slice(None) for i in range(x.ndim))]


def _expand_dims(x: Symbol, axis: Any) -> Symbol:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    for i in sorted(normalize_axis_tuple(axes, x.ndim + len(axes), x.record.name)):
        x = along(x, i, None)
    return x


def _broadcast_to(x: Symbol, shape: Any) -> Symbol:
    return x._seen("broadcast", tuple(map(index, shape)) if np.iterable(shape) else (index(shape),))


def _swapaxes(x: Symbol, axis1: Any, axis2: Any) -> Symbol:
    order = list(range(x.ndim))
    i, j = axis_of(x, axis1), axis_of(x, axis2)
    order[i], order[j] = j, i
    return x.transpose(order)


def moveaxis(x: Symbol, source: Any, destination: Any) -> Symbol:
    sources, targets = (normalize_axis_tuple(axes, x.ndim, x.record.name) for axes in (source, destination))
    if len(sources) != len(targets):
        raise ValueError(f"{x.record.name}: moveaxis from {source} to {destination}; expected as many axes")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, i in sorted(zip(targets, sources, strict=True)):
        order.insert(target, i)
    return x.transpose(order)


def _flip(x: Symbol, axis: Any = None) -> Symbol:
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim, x.record.name)
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


def diagonal(x: Symbol, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Symbol:
    if x.ndim < 2:
        raise ValueError(f"{x.record.name}: diagonal of shape {x.shape}; expected at least 2 dimensions")
    axes = axis_of(x, axis1), axis_of(x, axis2)
    if axes[0] == axes[1]:
        raise ValueError(f"{x.record.name}: axis1 and axis2 are {axis1} and {axis2}; expected two axes")
    return moved_to_end(x, axes)._seen("diagonal", index(offset))


def _trace(x: Symbol, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None) -> Symbol:
    return summed(diagonal(x, offset, axis1, axis2), -1, dtype)


def _zero(x: Symbol) -> Any:
    return False if x.dtype == BOOL else 0.0


def _triangle(x: Symbol, k: int, lower: bool) -> Symbol:
    if not x.ndim:
        raise TypeError(f"{x.record.name}: a triangle of a number; expected an array")
    rows, columns = (x.shape * 2)[-2:]  # of a vector as NumPy has it: a row for each element
    kept = np.tri(rows, columns, k if lower else k - 1, dtype=bool)
    return where(x.record.constant(kept if lower else ~kept), x, _zero(x))


def _diag(x: Symbol, k: int = 0) -> Symbol:
    if x.ndim not in (1, 2):
        raise ValueError(f"{x.record.name}: diag of shape {x.shape}; expected 1 or 2 dimensions")
    if x.ndim == 2:
        return diagonal(x, k)
    if k:
        raise TypeError(f"{x.record.name}: diag of a vector beside the diagonal")
    return where(x.record.constant(np.eye(len(x), dtype=bool)), x[None, :], _zero(x))


def _take(x: Symbol, indices: Any, axis: Any = None) -> Symbol:
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis_of(x, axis)
    chosen = np.asarray(indices)
    chosen = chosen if chosen.size else chosen.astype(int)
    if chosen.dtype.kind not in "biu":
        raise TypeError(f"{x.record.name}: indices of take have dtype {chosen.dtype}; expected integers")
    parts = [along(x, axis, slice(i, i + 1 or None)) for i in map(int, chosen.ravel())]
    outside = [i for i, part in zip(chosen.ravel(), parts, strict=True) if not part.shape[axis]]
    if outside:
        raise IndexError(f"{x.record.name}: indices {outside} of take are out of bounds for shape {x.shape}")
    taken = _concat(parts, axis) if parts else along(x, axis, slice(0))
    return taken.reshape((*x.shape[:axis], *chosen.shape, *x.shape[axis + 1 :]))


def _full_like(x: Symbol, fill_value: Any, dtype: Any = None) -> Symbol:
    dtype = np.dtype(dtype or x.dtype)
    symbol = fill_value.astype(dtype) if is_symbol(fill_value) else x.record.constant(fill_value, dtype)
    return _broadcast_to(symbol, x.shape)


def _like(value: float) -> Callable[..., Symbol]:
    return lambda x, dtype=None: _full_like(x, value, dtype)


SHAPES: dict[str, Callable[..., Any]] = {
    "sum": summed,
    "mean": _mean,
    "max": _extreme("maximum"),
    "min": _extreme("minimum"),
    "amax": _extreme("maximum"),
    "amin": _extreme("minimum"),
    "prod": _prod,
    "all": _truths("minimum", True),
    "any": _truths("maximum", False),
    "cumsum": _cumsum,
    "cumulative_sum": _cumulative_sum,
    "concat": _concat,
    "concatenate": _concat,
    "stack": _stack,
    "hstack": _hstack,
    "vstack": _vstack,
    "reshape": lambda x, shape: x.reshape(shape),
    "ravel": lambda x: x.reshape(-1),
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "broadcast_to": _broadcast_to,
    "permute_dims": lambda x, axes: x.transpose(axes),
    "transpose": lambda x, axes=None: x.transpose(axes),
    "swapaxes": _swapaxes,
    "moveaxis": moveaxis,
    "matrix_transpose": lambda x: x.mT,
    "flip": _flip,
    "diag": _diag,
    "diagonal": diagonal,
    "trace": _trace,
    "tril": lambda m, k=0: _triangle(m, k, True),
    "triu": lambda m, k=0: _triangle(m, k, False),
    "take": _take,
    "zeros_like": _like(0.0),
    "ones_like": _like(1.0),
    "empty_like": _like(0.0),
    "full_like": _full_like,
    "astype": lambda x, dtype, copy=True: x.astype(dtype),
    "copy": lambda x: x,
    "shape": lambda x: x.shape,
    "ndim": lambda x: x.ndim,
    "size": lambda x, axis=None: prod(x.shape[i] for i in axes_of(x, axis)),
}

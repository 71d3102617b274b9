"""The functions of arrays that a fused function may call, of its symbols (`_symbols`): element by element, of
shapes and of linear algebra. Each is a view, or steps of the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from . import (
    _cholesky,
    _contractions,
    _least_squares,
    _lu,
    _matrix_functions,
    _norms,
    _products,
    _spectra,
    _svd,
    _systems,
)
from ._calls import conjugated
from ._compose import sums
from ._record import BOOL, COMPLEX, FLOATS, INTEGERS, Record, real_of, with_python
from ._shapes import broadcast_shapes
from ._subscripts import contraction

if TYPE_CHECKING:
    from ._symbols import Symbol


def is_symbol(x: Any) -> bool:
    return getattr(x, "is_traced", False) is True


# --- element-wise functions --------------------------------------------------------------------------------


def _record(*operands: Any) -> Record:
    return next(x.record for x in operands if is_symbol(x))


def _is_truth(x: Any) -> bool:
    return getattr(x, "dtype", type(x)) in (BOOL, bool)


def _numbers(name: str, operands: tuple[Any, ...]) -> None:
    """NumPy has no arithmetic of two booleans, or another one."""
    if all(map(_is_truth, operands)):
        record = _record(*operands)
        raise TypeError(f"{record.name}: {name} of booleans; use where(condition, 1.0, 0.0), or & and |")


def _arithmetic(name: str, core: str | None = None) -> Callable[..., Symbol]:
    def function(*operands: Any) -> Symbol:
        _numbers(name, operands)
        return _record(*operands).map(core or name, *operands)

    return function


def _comparison(name: str, swapped: bool = False) -> Callable[..., Symbol]:
    def function(x: Any, y: Any) -> Symbol:
        return _record(x, y).map(name, *((y, x) if swapped else (x, y)), truth=True)

    return function


def _logical(name: str) -> Callable[..., Symbol]:
    def function(x: Any, y: Any) -> Symbol:
        record = _record(x, y)
        for z in (x, y):
            if not _is_truth(z):
                raise TypeError(f"{record.name}: & and | of numbers; expected comparisons")
        return record.map(name, x, y, truth=True)

    return function


def _not(x: Symbol) -> Symbol:
    if not _is_truth(x):
        raise TypeError(f"{x.record.name}: ~ of numbers; expected a comparison")
    return x.record.map("equal", x, 0.0, truth=True)


def _where(condition: Any, x: Any, y: Any) -> Symbol:
    record = _record(condition, x, y)
    if all(map(_is_truth, (x, y))):
        return record.map("where", condition, x, y, truth=True)
    like = [
        z for z in (x, y) if (is_symbol(z) or isinstance(z, np.ndarray | np.generic)) and not _is_truth(z)
    ]
    dtype = record.common(like) if like else FLOATS[1]
    for z in (x, y):
        dtype = with_python(dtype, type(z))
    x, y = (record.as_number(record.as_symbol(z, dtype), dtype) for z in (x, y))
    condition = record.as_symbol(condition)
    if not _is_truth(condition) and condition.dtype != dtype:  # which might round it to 0
        condition = record.map("not_equal", condition, 0, truth=True)
    if dtype in COMPLEX:
        return record.by_parts("where", truth_as_number(record.as_number(condition, real_of(dtype))), x, y)
    return record.map("where", record.as_number(condition, dtype), x, y)


def _power(x: Any, y: Any) -> Symbol:
    """Small whole powers are products, and halves are roots, as in NumPy; others by logarithms."""
    record = _record(x, y)
    if type(y) in (int, float):
        if y == 0.5:
            return record.map("sqrt", x)
        if y in (1, 2, -1):
            return x if y == 1 else record.map("multiply", x, x) if y == 2 else record.map("divide", 1.0, x)
    return record.map("power", x, y)


def _tan(x: Symbol) -> Symbol:
    record = x.record
    return record.map("tan", x) if x.dtype in COMPLEX else record.map("sin", x) / record.map("cos", x)


def _isfinite(x: Any) -> Symbol:
    return x.record.map("equal", x - x, 0.0, truth=True)


def _isinf(x: Symbol) -> Symbol:
    if x.dtype in COMPLEX:
        return x.record.map("maximum", _isinf(x.real), _isinf(x.imag), truth=True)
    return x.record.map("equal", x.record.map("absolute", x), float("inf"), truth=True)


def _clip(x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Symbol:
    low, high = min if low is None else low, max if high is None else high
    if low is not None:
        x = _record(x, low).map("maximum", x, low)
    return x if high is None else _record(x, high).map("minimum", x, high)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": _arithmetic("add"),
    "subtract": _arithmetic("subtract"),
    "multiply": _arithmetic("multiply"),
    "divide": _arithmetic("divide"),
    "true_divide": _arithmetic("divide"),
    "negative": _arithmetic("negative"),
    "positive": lambda x: x,
    "absolute": _arithmetic("absolute"),
    "abs": _arithmetic("absolute"),
    "fabs": _arithmetic("absolute"),
    "sqrt": _arithmetic("sqrt"),
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1.0 / x,
    "floor": _arithmetic("floor"),
    "ceil": _arithmetic("ceil"),
    "sign": _arithmetic("sign"),
    "copysign": _arithmetic("copysign"),
    "exp": _arithmetic("exp"),
    "expm1": _arithmetic("expm1"),
    "log": _arithmetic("log"),
    "log1p": _arithmetic("log1p"),
    "sin": _arithmetic("sin"),
    "cos": _arithmetic("cos"),
    "tan": _tan,
    "tanh": _arithmetic("tanh"),
    "arctan2": _arithmetic("arctan2"),
    "atan2": _arithmetic("arctan2"),
    "arctan": lambda x: _record(x).map("arctan2", x, 1.0),
    "atan": lambda x: _record(x).map("arctan2", x, 1.0),
    "angle": lambda x: _record(x).map("arctan2", x.imag, x.real),
    "erf": _arithmetic("erf"),
    "erfc": _arithmetic("erfc"),
    "ndtr": _arithmetic("ndtr"),
    "minimum": _arithmetic("minimum"),
    "maximum": _arithmetic("maximum"),
    "power": _power,
    "pow": _power,
    "clip": _clip,
    "less": _comparison("less"),
    "less_equal": _comparison("less_equal"),
    "greater": _comparison("less", swapped=True),
    "greater_equal": _comparison("less_equal", swapped=True),
    "equal": _comparison("equal"),
    "not_equal": _comparison("not_equal"),
    "logical_and": _logical("minimum"),
    "logical_or": _logical("maximum"),
    "logical_not": _not,
    "bitwise_and": _logical("minimum"),
    "bitwise_or": _logical("maximum"),
    "invert": _not,
    "isnan": lambda x: x.record.map("not_equal", x, x, truth=True),
    "isfinite": _isfinite,
    "isinf": _isinf,
    "where": _where,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conj(),
}


# --- shapes ------------------------------------------------------------------------------------------------


def axes_of(x: Symbol, axis: Any) -> list[int]:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    for i in axes:
        if not -x.ndim <= i < x.ndim:
            raise ValueError(f"{x.record.name}: axis {i} of shape {x.shape}")
    return sorted(i % x.ndim for i in axes)


def moved_to_end(x: Symbol, axes: Iterable[int]) -> Symbol:
    last = [i % x.ndim for i in axes]
    return x.transpose([i for i in range(x.ndim) if i not in last] + last) if last else x


def _flattened(x: Symbol, axis: Any) -> tuple[Symbol, list[int]]:
    """x with those axes as its last one."""
    axes = axes_of(x, axis)
    moved = moved_to_end(x, axes)
    kept = moved.shape[: x.ndim - len(axes)]
    return (moved if len(axes) == 1 else moved.reshape((*kept, prod(x.shape[i] for i in axes)))), axes


def _kept(x: Symbol, axes: list[int], keepdims: bool) -> Symbol:
    for i in axes if keepdims else ():
        x = x[(*(slice(None),) * i, None)]
    return x


def truth_as_number(x: Symbol) -> Symbol:
    """Truth as a number."""
    return x.record.symbol(x.view.value, None, x.view.operations) if x.dtype == BOOL else x


def _sum(x: Symbol, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Symbol:
    if not x.ndim:
        return x
    flat, axes = _flattened(truth_as_number(x), axis)
    return _kept(sums(x.__array_namespace__(), flat), axes, keepdims)


def _mean(x: Symbol, axis: Any = None, keepdims: bool = False) -> Symbol:
    count = prod(x.shape[i] for i in axes_of(x, axis))
    total: Any = _sum(x, axis, keepdims)
    return total / count


def _fold(name: str, x: Symbol, axis: Any = None, keepdims: bool = False) -> Symbol:
    """Halves, quarters, ... together, so that the order does not depend on what else there is."""
    if not x.ndim:
        return x
    part, axes = _flattened(x, axis)
    if not part.shape[-1]:
        raise ValueError(f"{x.record.name}: {name} of no elements")
    truth = x.dtype == BOOL
    while part.shape[-1] > 1:
        half = part.shape[-1] // 2
        both = x.record.map(name, part[..., :half], part[..., half : 2 * half], truth=truth)
        part = (
            both if part.shape[-1] % 2 == 0 else x.record.join([both, part[..., 2 * half :]], both.ndim - 1)
        )
    return _kept(part[..., 0], axes, keepdims)


def _cumulative_sum(x: Symbol, axis: int = -1, **kwargs: Any) -> Symbol:
    (axis,) = axes_of(x, axis)
    parts: list[Any] = [moved_to_end(x, (axis,))[..., i] for i in range(x.shape[axis])]
    for i in range(1, len(parts)):
        parts[i] = parts[i - 1] + parts[i]
    return _stack(parts, axis)


def _concat(arrays: Any, axis: int = 0) -> Symbol:
    record = _record(*arrays)
    symbols = [record.as_symbol(x) for x in arrays]
    return record.join(symbols, axis % symbols[0].ndim)


def _stack(arrays: Any, axis: int = 0) -> Symbol:
    record = _record(*arrays)
    symbols = [record.as_symbol(x) for x in arrays]
    axis %= symbols[0].ndim + 1
    return record.join([x[(*(slice(None),) * axis, None)] for x in symbols], axis)


def _broadcast_to(x: Symbol, shape: Any) -> Symbol:
    broadcast_shapes(x.shape, tuple(shape))
    return x._seen("broadcast", tuple(shape))


def _triangle(x: Symbol, k: int, lower: bool) -> Symbol:
    kept = np.tri(x.shape[-2], x.shape[-1], k if lower else k - 1, dtype=bool)
    return _where(x.record.constant(kept if lower else ~kept), x, 0.0)


def _diag(x: Symbol, k: int = 0) -> Symbol:
    if x.ndim != 1:
        return x.diagonal(k)
    if k:
        raise TypeError(f"{x.record.name}: diag of a vector beside the diagonal")
    return _where(x.record.constant(np.eye(len(x), dtype=bool)), x[None, :], 0.0)


def _take(x: Symbol, indices: Any, axis: int = 0) -> Symbol:
    (axis,) = axes_of(x, axis)
    parts = [x[(*(slice(None),) * axis, int(i))] for i in np.asarray(indices).ravel()]
    return _stack(parts, axis)


def _like(value: float) -> Callable[..., Symbol]:
    def function(x: Symbol, dtype: Any = None, **kwargs: Any) -> Symbol:
        if x.dtype in INTEGERS:
            return x.record.constant(np.full(x.shape, value, x.dtype))
        own = x.record.dtype if x.dtype == BOOL else x.dtype
        return _broadcast_to(x.record.constant(value, dtype or own), x.shape)

    return function


def _full_like(x: Symbol, value: Any, **kwargs: Any) -> Symbol:
    symbol = value if is_symbol(value) else x.record.constant(value, x.dtype)
    return _broadcast_to(symbol, x.shape)


SHAPES: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "mean": _mean,
    "max": lambda x, axis=None, keepdims=False: _fold("maximum", x, axis, keepdims),
    "min": lambda x, axis=None, keepdims=False: _fold("minimum", x, axis, keepdims),
    "amax": lambda x, axis=None, keepdims=False: _fold("maximum", x, axis, keepdims),
    "amin": lambda x, axis=None, keepdims=False: _fold("minimum", x, axis, keepdims),
    "prod": lambda x, axis=None, keepdims=False: _fold("multiply", x, axis, keepdims),
    "all": lambda x, axis=None, keepdims=False: _fold("minimum", x, axis, keepdims),
    "any": lambda x, axis=None, keepdims=False: _fold("maximum", x, axis, keepdims),
    "cumsum": _cumulative_sum,
    "cumulative_sum": _cumulative_sum,
    "concat": _concat,
    "concatenate": _concat,
    "stack": _stack,
    "hstack": lambda arrays: _concat(arrays, min(1, arrays[0].ndim - 1)),
    "vstack": lambda arrays: _concat([x[None, :] if x.ndim == 1 else x for x in arrays], 0),
    "reshape": lambda x, shape: x.reshape(shape),
    "ravel": lambda x: x.reshape(-1),
    "squeeze": lambda x, axis=None: x.squeeze(axis),
    "expand_dims": lambda x, axis=0: x[(*(slice(None),) * (axis % (x.ndim + 1)), None)],
    "broadcast_to": _broadcast_to,
    "permute_dims": lambda x, axes: x.transpose(axes),
    "transpose": lambda x, axes=None: x.transpose(*([axes] if axes is not None else [])),
    "swapaxes": lambda x, first, second: x.swapaxes(first, second),
    "moveaxis": lambda x, source, target: _contractions._moved(x, source, target),
    "matrix_transpose": lambda x: x.mT,
    "flip": lambda x, axis=None: x[
        tuple(slice(None, None, -1) if i in axes_of(x, axis) else slice(None) for i in range(x.ndim))
    ],
    "diag": _diag,
    "diagonal": lambda x, offset=0, axis1=0, axis2=1: x.diagonal(offset, axis1, axis2),
    "tril": lambda x, k=0: _triangle(x, k, True),
    "triu": lambda x, k=0: _triangle(x, k, False),
    "take": _take,
    "zeros_like": _like(0.0),
    "ones_like": _like(1.0),
    "empty_like": _like(0.0),
    "full_like": _full_like,
    "astype": lambda x, dtype, **kwargs: x.astype(dtype),
    "copy": lambda x: x,
    "shape": lambda x: x.shape,
    "ndim": lambda x: x.ndim,
    "size": lambda x: x.size,
}

LINALG: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(module, name)
        for module, names in (
            (_products, ("matmul", "matvec", "vecmat", "batched_matmul")),
            (_systems, ("solve", "inv", "det", "slogdet", "solve_triangular")),
            (_cholesky, ("cholesky", "cho_factor", "cho_solve")),
            (_lu, ("lu_factor", "lu_solve")),
            (_least_squares, ("qr", "lstsq")),
            (_spectra, ("eig", "eigh", "eigvals", "eigvalsh")),
            (_svd, ("svd", "svdvals")),
            (_norms, ("norm", "vector_norm", "matrix_norm", "cond", "matrix_rank")),
            (_matrix_functions, ("pinv", "matrix_power")),
            (_contractions, ("trace", "cross", "outer", "multi_dot", "vecdot")),
        )
        for name in names
    },
    "einsum": lambda subscripts, *operands, **kwargs: contraction("einsum", subscripts, operands),
    "contract": lambda subscripts, *operands, path=None: contraction("contract", subscripts, operands, path),
    "dot": lambda x, y: _products.matmul(x, y),
    "inner": lambda x, y: _products.matmul(x, y.T if y.ndim > 1 else y),
    "vdot": lambda x, y: _sum(conjugated(x) * y),
}


def function_named(record: Record, name: str, module: str = "") -> Callable[..., Any]:
    """The function of that name of NumPy, SciPy or the array API."""
    tables = (LINALG, ELEMENTWISE, SHAPES) if "linalg" in module else (ELEMENTWISE, SHAPES, LINALG)
    for table in tables:
        if name in table:
            return table[name]
    raise TypeError(f"{record.name}: {name} cannot be fused; docs/programs.md lists what can")

"""The functions of arrays that a fused function may call, of its symbols (`symbols`): element by element, of
shapes and of linear algebra. Each is a view, or steps of the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from inspect import signature
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from .._base.catalog import public
from .compose import sums
from .record import BOOL, COMPLEX, FLOATS, INTEGERS, Record, is_number, real_of, with_python

if TYPE_CHECKING:
    from .symbols import Symbol


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


def _positive(x: Symbol) -> Symbol:
    _numbers("positive", (x,))
    return x


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
    _numbers("power", (x, y))
    record = _record(x, y)
    if type(y) is int and y < 0 and x.dtype in (*INTEGERS, BOOL):
        raise ValueError(f"{record.name}: integers to negative integer powers; expected x ** {float(y)}")
    if type(y) in (int, float):
        x = record.as_number(truth_as_number(x), FLOATS[1]) if x.dtype == BOOL else x
        if y == 0.5:
            return record.map("sqrt", x)
        if y in (1, 2, -1):
            return x if y == 1 else record.map("multiply", x, x) if y == 2 else record.map("divide", 1.0, x)
    return record.map("power", x, y)


def _reciprocal(x: Any) -> Any:
    if x.dtype in (*INTEGERS, BOOL):
        raise TypeError(f"{x.record.name}: reciprocal of integers, which NumPy rounds; use 1 / x")
    return 1.0 / x


def _fabs(x: Symbol) -> Symbol:
    if x.dtype in COMPLEX:
        raise TypeError(f"{x.record.name}: fabs of complex numbers; use abs")
    return ELEMENTWISE["absolute"](x)


def _arctan(x: Symbol) -> Symbol:
    _numbers("arctan", (x,))
    return x.record.map("arctan2", x, 1.0)


def _angle(z: Symbol) -> Symbol:
    _numbers("angle", (z,))
    return z.record.map("arctan2", z.imag, z.real)


def _tan(x: Symbol) -> Symbol:
    _numbers("tan", (x,))
    record = x.record
    return record.map("tan", x) if x.dtype in COMPLEX else record.map("sin", x) / record.map("cos", x)


def _isfinite(x: Any) -> Symbol:
    return x.record.map("equal", x.record.map("subtract", x, x), 0.0, truth=True)


def _isinf(x: Symbol) -> Symbol:
    if x.dtype in COMPLEX:
        return x.record.map("maximum", _isinf(x.real), _isinf(x.imag), truth=True)
    return x.record.map("equal", x.record.map("absolute", x), float("inf"), truth=True)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Symbol:
    _numbers("clip", (x,))
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    record = _record(x, low, high)
    x = record.as_number(x, record.common([z for z in (x, low, high) if hasattr(z, "dtype")]))
    if low is not None:
        x = ELEMENTWISE["maximum"](x, low)
    return x if high is None else ELEMENTWISE["minimum"](x, high)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": _arithmetic("add"),
    "subtract": _arithmetic("subtract"),
    "multiply": _arithmetic("multiply"),
    "divide": _arithmetic("divide"),
    "true_divide": _arithmetic("divide"),
    "negative": _arithmetic("negative"),
    "positive": _positive,
    "absolute": _arithmetic("absolute"),
    "abs": _arithmetic("absolute"),
    "fabs": _fabs,
    "sqrt": _arithmetic("sqrt"),
    "square": lambda x: x * x,
    "reciprocal": _reciprocal,
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
    "arctan": _arctan,
    "atan": _arctan,
    "angle": _angle,
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


def truth_as_number(x: Symbol) -> Symbol:
    """Truth as a number."""
    return x.record.symbol(x.view.value, None, x.view.operations) if x.dtype == BOOL else x


def _summable(x: Symbol, dtype: Any) -> Symbol:
    """x as what is added or multiplied: in that dtype; what NumPy makes integers of, in float64."""
    if dtype is None:
        return x.record.as_number(truth_as_number(x), FLOATS[1]) if x.dtype in (*INTEGERS, BOOL) else x
    if not is_number(np.dtype(dtype)):
        raise TypeError(f"{x.record.name}: dtype={np.dtype(dtype)} of a reduction; expected floating-point")
    return x.astype(dtype)


def _sum(x: Symbol, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Symbol:
    x, axes = _summable(x, dtype), axes_of(x, axis)
    return _kept(sums(x.__array_namespace__(), _flattened(x, axes)), axes, keepdims) if axes else x


def _mean(x: Symbol, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Symbol:
    count = prod(x.shape[i] for i in axes_of(x, axis))
    total: Any = _sum(x, axis, dtype, keepdims=keepdims)
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


def _symbols(arrays: Any) -> list[Symbol]:
    """What is joined, as symbols."""
    record = _record(*arrays)
    return [record.as_symbol(x) for x in arrays]


def _concat(arrays: Any, axis: Any = 0) -> Symbol:
    symbols = _symbols(arrays)
    if axis is None:
        symbols, axis = [x.reshape(-1) for x in symbols], 0
    first = symbols[0]
    if not all(x.ndim for x in symbols):
        raise ValueError(f"{first.record.name}: numbers cannot be concatenated; use stack")
    return first.record.join(symbols, axis_of(first, axis))


def _stack(arrays: Any, axis: Any = 0) -> Symbol:
    symbols = _symbols(arrays)
    record = symbols[0].record
    axis = normalize_axis_index(axis, symbols[0].ndim + 1, record.name)
    if len({x.shape for x in symbols}) > 1:
        raise ValueError(f"{record.name}: shapes {', '.join(str(x.shape) for x in symbols)} are stacked")
    return record.join([along(x, axis, None) for x in symbols], axis)


def _hstack(arrays: Any) -> Symbol:
    symbols = [x if x.ndim else x[None] for x in _symbols(arrays)]
    return _concat(symbols, min(1, symbols[0].ndim - 1))


def _vstack(arrays: Any) -> Symbol:
    return _concat([x[(None,) * max(2 - x.ndim, 0)] for x in _symbols(arrays)])


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


def _moveaxis(x: Symbol, source: Any, destination: Any) -> Symbol:
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


def _diagonal(x: Symbol, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Symbol:
    if x.ndim < 2:
        raise ValueError(f"{x.record.name}: diagonal of shape {x.shape}; expected at least 2 dimensions")
    axes = axis_of(x, axis1), axis_of(x, axis2)
    if axes[0] == axes[1]:
        raise ValueError(f"{x.record.name}: axis1 and axis2 are {axis1} and {axis2}; expected two axes")
    return moved_to_end(x, axes)._seen("diagonal", index(offset))


def _trace(x: Symbol, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None) -> Symbol:
    return _sum(_diagonal(x, offset, axis1, axis2), -1, dtype)


def _zero(x: Symbol) -> Any:
    return False if x.dtype == BOOL else 0.0


def _triangle(x: Symbol, k: int, lower: bool) -> Symbol:
    if not x.ndim:
        raise TypeError(f"{x.record.name}: a triangle of a number; expected an array")
    rows, columns = (x.shape * 2)[-2:]  # of a vector as NumPy has it: a row for each element
    kept = np.tri(rows, columns, k if lower else k - 1, dtype=bool)
    return _where(x.record.constant(kept if lower else ~kept), x, _zero(x))


def _diag(x: Symbol, k: int = 0) -> Symbol:
    if x.ndim not in (1, 2):
        raise ValueError(f"{x.record.name}: diag of shape {x.shape}; expected 1 or 2 dimensions")
    if x.ndim == 2:
        return _diagonal(x, k)
    if k:
        raise TypeError(f"{x.record.name}: diag of a vector beside the diagonal")
    return _where(x.record.constant(np.eye(len(x), dtype=bool)), x[None, :], _zero(x))


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
    "sum": _sum,
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
    "moveaxis": _moveaxis,
    "matrix_transpose": lambda x: x.mT,
    "flip": _flip,
    "diag": _diag,
    "diagonal": _diagonal,
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


# --- linear algebra ----------------------------------------------------------------------------------------


def _dot(x: Any, y: Any) -> Symbol:
    """Over the last axis of x and the one before the last of y, whose other axes do not meet."""
    a, b = _symbols([x, y])
    if not a.ndim or not b.ndim:
        return ELEMENTWISE["multiply"](x, y)
    if b.ndim < 3:
        return public("matmul")(a, b)
    rows = a.reshape((prod(a.shape[:-1]), a.shape[-1]))
    both = _moveaxis(public("matmul")(rows, b), -2, 0)
    return both.reshape((*a.shape[:-1], *b.shape[:-2], b.shape[-1]))


def _inner(x: Any, y: Any) -> Symbol:
    a, b = _symbols([x, y])
    return _dot(x, b.mT if a.ndim and b.ndim > 1 else y)


def _vdot(x: Any, y: Any) -> Symbol:
    a, b = (z.reshape(-1) for z in _symbols([x, y]))
    if a.shape != b.shape:
        raise ValueError(f"{a.record.name}: vdot of {a.size} and {b.size} elements; expected as many")
    return _sum(ELEMENTWISE["multiply"](a.conj(), b))


def _outer(x: Any, y: Any) -> Symbol:
    column, row = (z.reshape(-1) for z in _symbols([x, y]))
    return ELEMENTWISE["multiply"](column[:, None], row)


def _outer_of_vectors(x: Any, y: Any) -> Any:
    a, b = _symbols([x, y])
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"{a.record.name}: outer of shapes {a.shape} and {b.shape}; expected two vectors")
    return public("outer")(a, b)


LINALG: dict[str, Callable[..., Any] | str] = {  # a name: smallmm's function of that name
    **{
        name: name
        for name in (
            *("matmul", "matvec", "vecmat", "batched_matmul", "trace", "cross", "multi_dot", "vecdot"),
            *("solve", "inv", "det", "slogdet", "solve_triangular", "cholesky", "cho_factor", "cho_solve"),
            *("lu_factor", "lu_solve", "qr", "eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals"),
            *("norm", "vector_norm", "matrix_norm", "cond", "matrix_rank", "pinv", "matrix_power"),
        )
    },
    "outer": _outer_of_vectors,
    "diagonal": lambda x, /, *, offset=0: _diagonal(x, offset, -2, -1),
}

PRODUCTS: dict[str, Callable[..., Any]] = {
    "einsum": lambda subscripts, *operands, optimize=False: public("einsum")(subscripts, *operands),
    "contract": lambda subscripts, *operands, path=None: public("contract")(subscripts, *operands, path=path),
    "dot": _dot,
    "inner": _inner,
    "vdot": _vdot,
    "outer": _outer,
}

METHODS = (
    *("sum", "mean", "max", "min", "prod", "any", "all", "cumsum", "trace", "diagonal"),
    *("squeeze", "swapaxes", "take", "clip", "dot"),
)


def function_named(record: Record, name: str, module: str = "numpy") -> Callable[..., Any]:
    """The function of that name of NumPy, of its `linalg`, of SciPy or the array API."""
    own = (PRODUCTS, ELEMENTWISE, SHAPES, LINALG)
    tables = (LINALG, *own) if module == "numpy.linalg" else own if module == "numpy" else ()
    found = next((table[name] for table in tables if name in table), None)
    if found is None:
        raise TypeError(f"{record.name}: {name} cannot be fused; docs/programs.md lists what can")
    if isinstance(found, str):
        found = public(found)
    return partial(_called, record, name, found)


_signature_of = cache(signature)


def _called(record: Record, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What NumPy's function has and this one does not is refused, but for what is None."""
    known = _signature_of(function)
    kwargs = {word: x for word, x in kwargs.items() if x is not None or word in known.parameters}
    try:
        known.bind(*args, **kwargs)
    except TypeError as why:
        raise TypeError(f"{record.name}: {name} of these arguments cannot be fused: {why}") from None
    return function(*args, **kwargs)

"""What a fused function is called with while it is recorded: symbols, which have shapes and dtypes and no
elements, and their namespace. A symbol has the operators, methods and functions of arrays; each is a view, or
a step of the record."""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

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
from ._record import (
    BOOL,
    COMPLEX,
    FLOATS,
    INT32,
    INTEGERS,
    NUMBERS,
    Record,
    View,
    is_half,
    real_of,
    with_python,
)
from ._shapes import broadcast_shapes
from ._subscripts import contraction


def record_of(name: str, dtype: np.dtype) -> Record:
    """An empty record."""
    return Record(name, dtype, Symbol, Namespace)


class Symbol:
    """An array of one matrix, vector or number of each stack, in a function that is recorded."""

    __array_priority__ = 1000
    device = "cpu"
    is_traced = True

    def __init__(self, record: Record, view: View, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.record = record
        self.view = view
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def T(self) -> "Symbol":
        return self.transpose()

    @property
    def mT(self) -> "Symbol":
        if self.ndim < 2:
            raise ValueError(f"{self.record.name}: .mT of shape {self.shape}; expected at least 2 dimensions")
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> "Symbol":
        return self.record.pairs(self)[..., 0] if self.dtype in COMPLEX else self

    @property
    def imag(self) -> "Symbol":
        return self.record.pairs(self)[..., 1] if self.dtype in COMPLEX else _like(0.0)(self)

    def conj(self) -> "Symbol":
        if self.dtype not in COMPLEX:
            return self
        joined: Symbol = self.record.joined(self.real, ELEMENTWISE["negative"](self.imag))
        return joined

    conjugate = conj

    def __repr__(self) -> str:
        return f"<array of {self.record.name}, shape {self.shape}, {self.dtype}, one for each matrix>"

    def take_call(self, op: str, gufunc: Any, operands: dict[str, Any]) -> Any:
        """A call of smallmm on this and others becomes steps of the record."""
        return self.record.call(op, gufunc, operands)

    # --- what has no value yet ---

    def _has_no_value(self, what: str) -> TypeError:
        return TypeError(
            f"{self.record.name}: {what} depends on the elements of an array, which are not known while the "
            "function is recorded. Use where(condition, x, y) in place of a branch"
        )

    def __bool__(self) -> bool:
        raise self._has_no_value("a branch (if, while, and, or, not)")

    def __float__(self) -> float:
        raise self._has_no_value("float()")

    def __int__(self) -> int:
        raise self._has_no_value("int()")

    __index__ = __int__

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._has_no_value("a NumPy array")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(f"{self.record.name}: an array cannot be assigned to; use where, concat or stack")

    def item(self) -> Any:
        raise self._has_no_value("item()")

    # --- views ---

    def _seen(self, word: str, argument: Any) -> "Symbol":
        return self.record.symbol(self.view.value, self.dtype, (*self.view.operations, (word, argument)))

    def __getitem__(self, key: Any) -> "Symbol":
        keys = key if isinstance(key, tuple) else (key,)
        for x in keys:
            if not (x is None or x is Ellipsis or isinstance(x, slice | int | np.integer)) or isinstance(
                x, bool
            ):
                raise TypeError(
                    f"{self.record.name}: an index is a {type(x).__name__}; expected integers, slices, "
                    "None or ..."
                )
        used = sum(x is not None and x is not Ellipsis for x in keys)
        if used > self.ndim or sum(x is Ellipsis for x in keys) > 1:
            raise IndexError(f"{self.record.name}: too many indices for shape {self.shape}")
        at = next((i for i, x in enumerate(keys) if x is Ellipsis), len(keys))
        rest = (slice(None),) * (self.ndim - used)
        keys = keys[:at] + rest + keys[at + 1 :]
        index = tuple((x.start, x.stop, x.step) if isinstance(x, slice) else x for x in keys)
        try:
            return self._seen("index", index)
        except IndexError as error:
            raise IndexError(f"{self.record.name}: {error}") from None

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError(f"{self.record.name}: len() of a number")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def transpose(self, *axes: Any) -> "Symbol":
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(order) if order else tuple(range(self.ndim))[::-1]
        return self._seen("permute", tuple(int(x) % max(self.ndim, 1) for x in order))

    def swapaxes(self, first: int, second: int) -> "Symbol":
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self._seen("permute", tuple(order))

    def reshape(self, *shape: Any) -> "Symbol":
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        if -1 in sizes:
            rest = -prod(sizes)
            sizes = tuple(self.size // max(rest, 1) if x == -1 else x for x in sizes)
        if prod(sizes) != self.size:
            raise ValueError(f"{self.record.name}: shape {self.shape} cannot become {sizes}")
        return self if sizes == self.shape else self.record.dense(self)._seen("reshape", sizes)

    def ravel(self) -> "Symbol":
        return self.reshape(-1)

    flatten = ravel

    def squeeze(self, axis: Any = None) -> "Symbol":
        axes = _axes(self, axis) if axis is not None else [i for i, n in enumerate(self.shape) if n == 1]
        return self[tuple(0 if i in axes else slice(None) for i in range(self.ndim))]

    def astype(self, dtype: Any, copy: bool = True) -> "Symbol":
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        if not (wanted in (*NUMBERS, INT32) or is_half(wanted)):
            raise TypeError(
                f"{self.record.name}: astype({wanted}); expected float16, bfloat16, float32, float64, "
                "complex64 or complex128"
            )
        if self.dtype in COMPLEX and wanted not in COMPLEX:
            raise TypeError(f"{self.record.name}: astype({wanted}) of complex numbers; use .real or .imag")
        convert = self.record.as_number if wanted in NUMBERS else self.record.converted
        return convert(_number(self), wanted)

    def copy(self) -> "Symbol":
        return self

    def diagonal(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> "Symbol":
        return _moved_to_end(self, (axis1, axis2))._seen("diagonal", offset)

    # --- reductions ---

    def sum(self, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> "Symbol":
        return _sum(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _mean(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _fold("maximum", self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _fold("minimum", self, axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _fold("multiply", self, axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _fold("minimum", self, axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> "Symbol":
        return _fold("maximum", self, axis, keepdims)

    def trace(self, offset: int = 0) -> "Symbol":
        return _contractions.trace(self, offset=offset)

    def dot(self, other: Any) -> "Symbol":
        return self @ other

    # --- operators ---

    def __matmul__(self, other: Any) -> Any:
        return _products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _products.matmul(other, self)

    def __pow__(self, other: Any) -> "Symbol":
        return _power(self, other)

    def __rpow__(self, other: Any) -> "Symbol":
        return _power(other, self)

    def __pos__(self) -> "Symbol":
        return self

    def __invert__(self) -> "Symbol":
        return _not(self)

    # --- protocols ---

    def __array_namespace__(self, api_version: str | None = None) -> "Namespace":
        return Namespace(self.record)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            raise TypeError(f"{self.record.name}: {ufunc.__name__}.{method} cannot be fused")
        given = next((name for name, x in kwargs.items() if x is not None), None)
        if given:
            raise TypeError(f"{self.record.name}: {given} of {ufunc.__name__} cannot be fused")
        return _function(self.record, ufunc.__name__)(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _function(self.record, function.__name__, function.__module__)(*args, **kwargs)


def _operator(name: str, reflected: bool = False) -> Callable[[Symbol, Any], Any]:
    def operator(self: Symbol, other: Any) -> Any:
        if not isinstance(other, Symbol | bool | int | float | complex | np.ndarray | np.generic):
            return NotImplemented
        return ELEMENTWISE[name](other, self) if reflected else ELEMENTWISE[name](self, other)

    return operator


# --- element-wise functions --------------------------------------------------------------------------------


def _record(*operands: Any) -> Record:
    return next(x.record for x in operands if isinstance(x, Symbol))


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
    like = [z for z in (x, y) if isinstance(z, Symbol | np.ndarray | np.generic) and not _is_truth(z)]
    dtype = record.common(like) if like else FLOATS[1]
    for z in (x, y):
        dtype = with_python(dtype, type(z))
    x, y = (record.as_number(record.as_symbol(z, dtype), dtype) for z in (x, y))
    condition = record.as_symbol(condition)
    if not _is_truth(condition) and condition.dtype != dtype:  # which might round it to 0
        condition = record.map("not_equal", condition, 0, truth=True)
    if dtype in COMPLEX:
        return record.by_parts("where", _number(record.as_number(condition, real_of(dtype))), x, y)
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

for _method, _name in (
    ("add", "add"),
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("truediv", "divide"),
    ("and", "bitwise_and"),
    ("or", "bitwise_or"),
):
    setattr(Symbol, f"__{_method}__", _operator(_name))
    setattr(Symbol, f"__r{_method}__", _operator(_name, reflected=True))
for _method, _name in (
    ("lt", "less"),
    ("le", "less_equal"),
    ("gt", "greater"),
    ("ge", "greater_equal"),
    ("eq", "equal"),
    ("ne", "not_equal"),
):
    setattr(Symbol, f"__{_method}__", _operator(_name))
for _method, _name in (("neg", "negative"), ("abs", "absolute")):
    setattr(Symbol, f"__{_method}__", ELEMENTWISE[_name])
Symbol.__hash__ = None  # type: ignore[assignment]


# --- shapes ------------------------------------------------------------------------------------------------


def _axes(x: Symbol, axis: Any) -> list[int]:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    for i in axes:
        if not -x.ndim <= i < x.ndim:
            raise ValueError(f"{x.record.name}: axis {i} of shape {x.shape}")
    return sorted(i % x.ndim for i in axes)


def _moved_to_end(x: Symbol, axes: Iterable[int]) -> Symbol:
    last = [i % x.ndim for i in axes]
    return x.transpose([i for i in range(x.ndim) if i not in last] + last) if last else x


def _flattened(x: Symbol, axis: Any) -> tuple[Symbol, list[int]]:
    """x with those axes as its last one."""
    axes = _axes(x, axis)
    moved = _moved_to_end(x, axes)
    kept = moved.shape[: x.ndim - len(axes)]
    return (moved if len(axes) == 1 else moved.reshape((*kept, prod(x.shape[i] for i in axes)))), axes


def _kept(x: Symbol, axes: list[int], keepdims: bool) -> Symbol:
    for i in axes if keepdims else ():
        x = x[(*(slice(None),) * i, None)]
    return x


def _number(x: Symbol) -> Symbol:
    """Truth as a number."""
    return x.record.symbol(x.view.value, None, x.view.operations) if x.dtype == BOOL else x


def _sum(x: Symbol, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Symbol:
    if not x.ndim:
        return x
    flat, axes = _flattened(_number(x), axis)
    return _kept(sums(Namespace(x.record), flat), axes, keepdims)


def _mean(x: Symbol, axis: Any = None, keepdims: bool = False) -> Symbol:
    count = prod(x.shape[i] for i in _axes(x, axis))
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
    (axis,) = _axes(x, axis)
    parts: list[Any] = [_moved_to_end(x, (axis,))[..., i] for i in range(x.shape[axis])]
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
    (axis,) = _axes(x, axis)
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
    symbol = value if isinstance(value, Symbol) else x.record.constant(value, x.dtype)
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
        tuple(slice(None, None, -1) if i in _axes(x, axis) else slice(None) for i in range(x.ndim))
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


def _function(record: Record, name: str, module: str = "") -> Callable[..., Any]:
    """The function of that name of NumPy, SciPy or the array API."""
    tables = (LINALG, ELEMENTWISE, SHAPES) if "linalg" in module else (ELEMENTWISE, SHAPES, LINALG)
    for table in tables:
        if name in table:
            return table[name]
    raise TypeError(f"{record.name}: {name} cannot be fused; docs/programs.md lists what can")


class Namespace:
    """The array API's functions for the symbols of a record, and NumPy's frexp."""

    float32, float64, int32 = *FLOATS, INT32
    complex64, complex128 = COMPLEX
    pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
    __name__ = "smallmm"

    def __init__(self, record: Record) -> None:
        self._its_record = record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and self._its_record is other._its_record

    def __hash__(self) -> int:
        return id(self._its_record)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "linalg":
            return self
        return _function(self._its_record, name)

    def frexp(self, x: Symbol) -> tuple[None, Symbol]:
        """No mantissa, and the exponent, as a number."""
        return None, x.record.map("exponent", x)

    def joined(self, re: Symbol, im: Symbol) -> Symbol:
        """Complex numbers of these parts."""
        return re.record.joined(re, im)

    def power_of_two(self, exponents: Symbol) -> Symbol:
        return exponents.record.map("scaled", 1.0, exponents)

    def asarray(self, x: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
        if isinstance(x, Symbol):
            return x if dtype is None else x.astype(dtype)
        if dtype is None and isinstance(x, float | complex):
            return self._its_record.as_symbol(x)
        return self._its_record.constant(np.asarray(x, dtype))

    def eye(self, n: int, m: int | None = None, /, *, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:
        return self._its_record.constant(np.eye(n, m, k, dtype or self._its_record.dtype))

    def zeros(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
        return self._its_record.constant(np.zeros(shape, dtype or self._its_record.dtype))

    def ones(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
        return self._its_record.constant(np.ones(shape, dtype or self._its_record.dtype))

    def full(self, shape: Any, value: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
        return self._its_record.constant(np.full(shape, value, dtype or self._its_record.dtype))

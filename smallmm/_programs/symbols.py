"""What a fused function is called with while it is recorded: symbols, which have shapes and dtypes and no
elements, and their namespace. A symbol has the operators, methods and functions (`symbol_functions`) of
arrays; each is a view, or a step of the record."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .._functions.products import matmul
from .dtypes import COMPLEX, FLOATS, INT32, NUMBERS, is_half
from .record import Record, View
from .symbol_elementwise import truth_as_number
from .symbol_functions import ELEMENTWISE, METHODS, SHAPES, function_named
from .symbol_shapes import axis_of


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
        return self.record.pairs(self)[..., 1] if self.dtype in COMPLEX else SHAPES["zeros_like"](self)

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
        try:
            return self.record.symbol(self.view.value, self.dtype, (*self.view.operations, (word, argument)))
        except (IndexError, ValueError) as error:  # NumPy's
            raise type(error)(f"{self.record.name}: {error}") from None

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
        return self._seen("index", index)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError(f"{self.record.name}: len() of a number")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def transpose(self, *axes: Any) -> "Symbol":
        order = axes[0] if len(axes) == 1 and (axes[0] is None or np.iterable(axes[0])) else axes
        if order is None or axes == ():
            return self._seen("permute", tuple(range(self.ndim))[::-1])
        return self._seen("permute", tuple(axis_of(self, i) for i in order))

    def reshape(self, *shape: Any) -> "Symbol":
        sizes = shape[0] if len(shape) == 1 else shape
        to = self._seen("reshape", sizes).shape
        return self if to == self.shape else self.record.dense(self)._seen("reshape", to)

    def ravel(self) -> "Symbol":
        return self.reshape(-1)

    flatten = ravel

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
        return convert(truth_as_number(self), wanted)

    def copy(self) -> "Symbol":
        return self

    def __getattr__(self, name: str) -> Any:
        """NumPy's methods that are functions, too."""
        if name not in METHODS:
            raise AttributeError(f"an array of a function that is fused has no {name}")
        return partial(function_named(self.record, name), self)

    # --- operators ---

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)

    def __pow__(self, other: Any) -> "Symbol":
        return ELEMENTWISE["power"](self, other)

    def __rpow__(self, other: Any) -> "Symbol":
        return ELEMENTWISE["power"](other, self)

    def __invert__(self) -> "Symbol":
        return ELEMENTWISE["invert"](self)

    # --- protocols ---

    def __array_namespace__(self, api_version: str | None = None) -> "Namespace":
        return Namespace(self.record)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            raise TypeError(f"{self.record.name}: {ufunc.__name__}.{method} cannot be fused")
        given = next((name for name, x in kwargs.items() if x is not None), None)
        if given:
            raise TypeError(f"{self.record.name}: {given} of {ufunc.__name__} cannot be fused")
        return function_named(self.record, ufunc.__name__)(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function_named(self.record, function.__name__, function.__module__)(*args, **kwargs)


def _operator(name: str, reflected: bool = False) -> Callable[[Symbol, Any], Any]:
    def operator(self: Symbol, other: Any) -> Any:
        if not isinstance(other, Symbol | bool | int | float | complex | np.ndarray | np.generic):
            return NotImplemented
        return ELEMENTWISE[name](other, self) if reflected else ELEMENTWISE[name](self, other)

    return operator


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
for _method, _name in (("neg", "negative"), ("pos", "positive"), ("abs", "absolute")):
    setattr(Symbol, f"__{_method}__", ELEMENTWISE[_name])
Symbol.__hash__ = None  # type: ignore[assignment]


class Namespace:
    """The array API's functions for the symbols of a record, and NumPy's frexp."""

    float32, float64, int32 = *FLOATS, INT32
    complex64, complex128 = COMPLEX
    pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
    __name__ = "smallmm"

    def __init__(self, record: Record, module: str = "numpy") -> None:
        self._its_record = record
        self._module = module

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and self._its_record is other._its_record

    def __hash__(self) -> int:
        return id(self._its_record)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "linalg":
            return Namespace(self._its_record, "numpy.linalg")
        return function_named(self._its_record, name, self._module)

    def frexp(self, x: Symbol) -> tuple[None, Symbol]:
        """No mantissa, and the exponent, as a number."""
        return None, x.record.map("exponent", x)

    def unless(self, truth: Symbol) -> Any:
        """A context whose results matter only where `truth` is false."""
        return truth.record.unless(truth)

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

"""Functions of symbols that compute each element by itself: steps of the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import BOOL, COMPLEX, FLOATS, INTEGERS, real_of, weak_promotion
from .record import Record

if TYPE_CHECKING:
    from .symbols import Symbol


def is_symbol(x: Any) -> bool:
    return getattr(x, "is_traced", False) is True


def record_among(*operands: Any) -> Record:
    return next(x.record for x in operands if is_symbol(x))


def _is_truth(x: Any) -> bool:
    return getattr(x, "dtype", type(x)) in (BOOL, bool)


def _numbers(name: str, operands: tuple[Any, ...]) -> None:
    """NumPy has no arithmetic of two booleans, or another one."""
    if all(map(_is_truth, operands)):
        record = record_among(*operands)
        raise TypeError(f"{record.name}: {name} of booleans; use where(condition, 1.0, 0.0), or & and |")


def _arithmetic(name: str, core: str | None = None) -> Callable[..., Symbol]:
    def function(*operands: Any) -> Symbol:
        _numbers(name, operands)
        return record_among(*operands).map(core or name, *operands)

    return function


def _comparison(name: str, swapped: bool = False) -> Callable[..., Symbol]:
    def function(x: Any, y: Any) -> Symbol:
        return record_among(x, y).map(name, *((y, x) if swapped else (x, y)), truth=True)

    return function


def _logical(name: str) -> Callable[..., Symbol]:
    def function(x: Any, y: Any) -> Symbol:
        record = record_among(x, y)
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


def where(condition: Any, x: Any, y: Any) -> Symbol:
    record = record_among(condition, x, y)
    if all(map(_is_truth, (x, y))):
        return record.map("where", condition, x, y, truth=True)
    like = [
        z for z in (x, y) if (is_symbol(z) or isinstance(z, np.ndarray | np.generic)) and not _is_truth(z)
    ]
    dtype = record.common(like) if like else FLOATS[1]
    for z in (x, y):
        dtype = weak_promotion(dtype, type(z))
    x, y = (record.as_number(record.as_symbol(z, dtype), dtype) for z in (x, y))
    condition = record.as_symbol(condition)
    if not _is_truth(condition) and (
        dtype in COMPLEX or condition.dtype != dtype
    ):  # which might make 0 of it
        condition = record.map("not_equal", condition, 0, truth=True)
    if dtype in COMPLEX:
        return record.by_parts("where", truth_as_number(record.as_number(condition, real_of(dtype))), x, y)
    return record.map("where", record.as_number(condition, dtype), x, y)


def _power(x: Any, y: Any) -> Symbol:
    """Small whole powers are products, and halves are roots, as in NumPy; others by logarithms."""
    _numbers("power", (x, y))
    record = record_among(x, y)
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
    record = record_among(x, low, high)
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
    "where": where,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conj(),
}


def truth_as_number(x: Symbol) -> Symbol:
    """Truth as a number."""
    return x.record.symbol(x.view.value, None, x.view.operations) if x.dtype == BOOL else x

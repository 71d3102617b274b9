"""Element-wise functions of complex numbers in a fused function. What works on real and imaginary parts
alone is a step of real numbers over pairs of them; products, quotients, exp, log, sqrt, sin and cos are the
core's."""

from collections.abc import Callable
from math import nan
from typing import Any

from .compose import magnitudes


def _by_parts(record: Any, name: str, *operands: Any) -> Any:
    return record.by_parts(name, *operands)


def _compared(both: str) -> Callable[..., Any]:
    def function(record: Any, name: str, x: Any, y: Any) -> Any:
        parts = record.map(name, record.pairs(x), record.pairs(y), truth=True)
        return record.map(both, parts[..., 0], parts[..., 1], truth=True)

    return function


def _absolute(record: Any, name: str, x: Any) -> Any:
    return magnitudes(record.namespace(record), x)


def _by_core(record: Any, name: str, *operands: Any) -> Any:
    return record.mapped(name, operands, operands[0].dtype, operands[0].dtype)


def _tan(record: Any, name: str, x: Any) -> Any:
    """sin x / cos x. Beyond an imaginary part of 40 it is i or -i to the last digit, and they overflow."""
    im = record.map("minimum", record.map("maximum", x.imag, -40.0), 40.0)
    x = record.joined(x.real, im)
    return record.map("divide", record.map("sin", x), record.map("cos", x))


def _tanh(record: Any, name: str, x: Any) -> Any:
    """-i tan(i x)"""
    tan = _tan(record, "tan", record.joined(record.map("negative", x.imag), x.real))
    return record.joined(tan.imag, record.map("negative", tan.real))


def _power(record: Any, name: str, x: Any, y: Any) -> Any:
    """Products where y is a small whole number that is known, else e^(y log x)."""
    if y.view.value.array is not None and y.size == 1:
        n = complex(y.view.of(y.view.value.array).item())
        if n.imag == 0 and abs(n.real) < 100 and n.real == int(n.real):
            return _whole_power(record, x, int(n.real))
    xp = record.namespace(record)
    power = record.map("exp", record.map("multiply", y, record.map("log", x)))
    re = y.real
    of_zero = xp.where(y == 0, xp.ones_like(re), xp.where(re > 0, xp.zeros_like(re), xp.full_like(re, nan)))
    return xp.where(x == 0, of_zero, power)


def _whole_power(record: Any, x: Any, n: int) -> Any:
    if n < 0:
        return record.map("divide", 1.0, _whole_power(record, x, -n))
    if n < 2:
        return x if n else record.namespace(record).ones_like(x)
    half = _whole_power(record, x, n // 2)
    square = record.map("multiply", half, half)
    return record.map("multiply", square, x) if n % 2 else square


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _by_parts,
    "subtract": _by_parts,
    "negative": _by_parts,
    "multiply": _by_core,
    "divide": _by_core,
    "absolute": _absolute,
    "exp": _by_core,
    "log": _by_core,
    "sqrt": _by_core,
    "sin": _by_core,
    "cos": _by_core,
    "tan": _tan,
    "tanh": _tanh,
    "power": _power,
    "equal": _compared("minimum"),
    "not_equal": _compared("maximum"),
}

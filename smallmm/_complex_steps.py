"""Element-wise functions of complex numbers in a fused function. What works on real and imaginary parts
alone is a step of real numbers over pairs of them; products and quotients are the core's."""

from collections.abc import Callable
from typing import Any

from ._compose import magnitudes


def _by_parts(record: Any, name: str, *operands: Any) -> Any:
    return record.by_parts(name, *operands)


def _equal(record: Any, name: str, x: Any, y: Any) -> Any:
    return _of_both(record, "minimum", record.map(name, record.pairs(x), record.pairs(y), truth=True))


def _not_equal(record: Any, name: str, x: Any, y: Any) -> Any:
    return _of_both(record, "maximum", record.map(name, record.pairs(x), record.pairs(y), truth=True))


def _of_both(record: Any, name: str, x: Any) -> Any:
    return record.map(name, x[..., 0], x[..., 1], truth=True)


def _absolute(record: Any, name: str, x: Any) -> Any:
    return magnitudes(record.namespace(record), x)


def _by_core(record: Any, name: str, *operands: Any) -> Any:
    return record.mapped(name, operands, operands[0].dtype, operands[0].dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _by_parts,
    "subtract": _by_parts,
    "negative": _by_parts,
    "multiply": _by_core,
    "divide": _by_core,
    "absolute": _absolute,
    "equal": _equal,
    "not_equal": _not_equal,
}

"""Options of the public functions: each is converted, or refused by name."""

import operator
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from .errors import is_supported, shown


def flag(op: str, name: str, x: Any) -> bool:
    """An option that is on or off. Other objects are refused: the truth of "no" or "upper" would be on."""
    if type(x) is bool:
        return x
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    if not isinstance(x, Integral | np.bool_):
        raise TypeError(f"{op}: {name} is {shown(x)}; expected True or False")
    return bool(x)


def integer(op: str, name: str, x: Any, bits: int | None = 31, least: int | None = None) -> int:
    """An option that is an integer of C, by default an int; bits=None: any integer, not below `least`."""
    try:
        number = operator.index(x)
    except TypeError:
        raise TypeError(f"{op}: {name} is {shown(x)}; expected an integer") from None
    if bits is not None and number.bit_length() > bits:
        raise ValueError(f"{op}: {name} is {shown(x)}; expected an integer of {bits + 1} bits")
    if least is not None and number < least:
        raise ValueError(f"{op}: {name} is {number}; expected at least {least}")
    return number


def finite(op: str, name: str, x: Any) -> float:
    """An option that is a finite real number."""
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    if not isinstance(x, Real) or isinstance(x, bool) or not isfinite(x):
        raise ValueError(f"{op}: {name} is {shown(x)}; expected a finite number")
    return float(x)


_TUPLE_OR_LIST = (tuple, list)  # kept: making a union takes longer than to look at an option


def pair(op: str, name: str, pair: Any, expected: str) -> tuple[Any, Any]:
    if not isinstance(pair, _TUPLE_OR_LIST) or len(pair) != 2:
        given = f"a {type(pair).__name__}" + (f" of {len(pair)}" if isinstance(pair, _TUPLE_OR_LIST) else "")
        raise TypeError(f"{op}: {name} is {given}; expected a tuple {expected}")
    first, second = pair
    return first, second


def sequence(op: str, name: str, x: Any) -> list[Any]:
    try:
        return list(x)
    except TypeError:
        raise TypeError(f"{op}: {name} is {shown(x)}; expected a sequence") from None


_INTEGER_OR_STR = (int, str, Integral)  # int first: an instance of Integral takes 0.3 us to recognise


def is_transposed(op: str, trans: Any) -> bool:
    for values, answer in (((0, "N"), False), ((1, 2, "T", "C"), True)):
        if isinstance(trans, _INTEGER_OR_STR) and trans in values:
            return answer
    raise ValueError(f"{op}: trans is {shown(trans)}; expected 0, 1, 2, 'N', 'T' or 'C'")


def is_conjugated(trans: Any) -> bool:
    """Of what `is_transposed` takes."""
    return trans in (2, "C")


def one_of(op: str, name: str, x: Any, words: tuple[Any, ...]) -> Any:
    """An option that is one of some words or numbers."""
    for word in words:
        if type(x) in (str, int, float) and x == word:
            return word
    raise ValueError(
        f"{op}: {name} is {shown(x)}; expected {', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
    )


def dtype_of_sums(op: str, dtype: Any) -> np.dtype:
    """The option `dtype` of functions that add, of NumPy or of the array's library."""
    try:
        target = np.dtype(dtype)
    except TypeError:  # PyTorch's, whose names are NumPy's
        target = np.dtype(str(dtype).rpartition(".")[2])
    if target.kind in "iu" or not is_supported(target, True):
        raise TypeError(
            f"{op}: dtype is {target}; expected one that sums have: integers are added in float64"
        )
    return target


def one_triangle(op: str, name: str, x: Any, other: bool) -> bool:
    """`lower` or `upper`, where the other name for the triangle has a default."""
    if flag(op, name, x) and other:
        raise ValueError(f"{op}: lower and upper are both True; expected one of them")
    return bool(x)


def is_hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True

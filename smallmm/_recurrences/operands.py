"""The arrays that a scan is given, and their stand-ins."""

from typing import Any

import numpy as np

from .._base.shapes import NUMBERS
from .._calls.arrays import as_numpy, without_labels
from .._programs.compose import namespace_of
from .._programs.plan import Plan


class Known:
    """What all calls of a function share whose arrays, which are NumPy's, lie so. program: of the core."""

    def __init__(self, plan: Plan, batch: tuple[int, ...], length: int) -> None:
        self.plan, self.batch, self.length = plan, batch, length
        self.program: Any = None


def layouts_of(carry: list[Any], xs: list[Any], consts: list[Any], length: int | None) -> Any:
    """How NumPy's arrays lie; None of others."""
    arrays = (*carry, *xs, *consts)
    if any(type(x) is not np.ndarray for x in arrays) or type(length) not in (int, type(None)):
        return None
    return tuple([(x.dtype, x.shape, x.strides) for x in arrays]), len(carry), len(xs), length


def listed(x: Any) -> list[Any]:
    """An argument that is one array or several, or None."""
    if x is None:
        return []
    return list(x) if isinstance(x, tuple | list) and not _is_nested_numbers(x) else [x]


def arrays_of(name: str, label: str, x: Any) -> list[Any]:
    given = listed(x)
    if all(type(y) is np.ndarray for y in given):
        return given
    arrays = [without_labels(y) for y in given]
    arrays = [as_numpy(name, label, y) if isinstance(y, np.ndarray) else y for y in arrays]
    return [y if _is_operand(y) else np.asarray(y) for y in arrays]


def _is_operand(x: Any) -> bool:
    """Whether a fused function has rules for it: Python's numbers follow the dtype of the arrays."""
    return type(x) in NUMBERS or (hasattr(x, "dtype") and hasattr(x, "ndim"))


def _is_nested_numbers(x: Any) -> bool:
    """Whether a list is an array of NumPy written out, not a list of arrays."""
    return isinstance(x, list) and bool(x) and not any(hasattr(y, "dtype") for y in x)


def first_of(x: Any) -> Any:
    """An array of the first time; of no times one that stands for it."""
    if x.shape[0]:
        return x[0, ...] if type(x) is np.ndarray else x[0]  # an array of numbers, too
    xp: Any = np if isinstance(x, np.ndarray) else namespace_of(x)
    return xp.zeros(tuple(x.shape)[1:], dtype=x.dtype)


def as_dtype(x: Any, dtype: np.dtype) -> Any:
    if isinstance(x, np.ndarray):
        return x.astype(dtype)
    return namespace_of(x).astype(x, getattr(namespace_of(x), dtype.name))


def full_on_device(like: Any, shape: tuple[int, ...], number: np.ndarray) -> Any:
    """An array all of whose elements are that number, on the device of another."""
    xp = namespace_of(like)
    return xp.full(shape, number.item(), dtype=getattr(xp, number.dtype.name), device=like.device)


def broadcast(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    whole = xp.broadcast_to(xp.asarray(x), shape)
    return whole.copy()[()] if xp is np else whole

"""The arrays that a scan is given, and those that stand for them."""

from typing import Any

import numpy as np

from .._base.later import later
from .._base.shapes import NUMBERS
from .._calls.arrays import as_numpy, without_labels
from .._programs.compose import has_namespace, namespace_of


def listed(x: Any) -> list[Any]:
    """An argument that is one array or several, or None."""
    if x is None:
        return []
    return list(x) if isinstance(x, tuple | list) and not _is_nested_numbers(x) else [x]


def arrays_of(name: str, label: str, x: Any) -> list[Any]:
    arrays = [without_labels(y) for y in listed(x)]
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
        return x[0]
    xp: Any = np if isinstance(x, np.ndarray) else namespace_of(x)
    return xp.zeros(tuple(x.shape)[1:], dtype=x.dtype)


def full_on_device(like: Any, shape: tuple[int, ...], number: np.ndarray) -> Any:
    """An array all of whose elements are that number, on the device of another."""
    if not has_namespace(like):
        return on_device_of(like, np.full(shape, number))
    xp = namespace_of(like)
    return xp.full(shape, number.item(), dtype=getattr(xp, number.dtype.name), device=like.device)


def on_device_of(like: Any, x: np.ndarray) -> Any:
    """An array of smallmm's own, where another one is."""
    return later("cuda").to_device(x, device=like.device)


def broadcast(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    whole = xp.broadcast_to(xp.asarray(x), shape)
    return whole.copy()[()] if xp is np else whole

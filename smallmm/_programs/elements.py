"""What is done with the elements of `DeviceArray`, which has no operations of its own, and with info of any
library: fused functions."""

from functools import cache
from typing import Any

import numpy as np

from .fuse import fuse


@fuse
def converted(x: Any, *, dtype: str) -> Any:
    return x.astype(dtype)


@fuse
def conjugated(x: Any) -> Any:
    return x.conj()


@fuse
def narrowed(pivots: Any) -> Any:
    """int32; what does not fit that becomes another number that is no row."""
    return np.clip(pivots, -(2**31), 2**31 - 1).astype(np.int32)


@fuse("(m)->()")
def norm(x: Any) -> Any:
    return np.sqrt((abs(x) * abs(x)).sum())


@fuse("(m,k)->(k)")
def norms_of_columns(x: Any) -> Any:
    return np.sqrt((abs(x) * abs(x)).sum(axis=0))


@fuse("(k)->()")
def first_code(info: Any) -> Any:
    """The first number that is not 0. Orders are exact in float32; JAX may have no float64."""
    numbers = info.astype(np.float32)
    code = numbers[-1]
    for i in reversed(range(numbers.shape[0] - 1)):
        code = np.where(numbers[i] != 0, numbers[i], code)
    return code.astype(np.int32)


@cache
def no_code(core: int) -> Any:
    """The function that gives 0 for each array with so many dimensions."""
    return fuse(f"({','.join(f'd{i}' for i in range(core))})->()")(lambda x: np.zeros((), np.int32))

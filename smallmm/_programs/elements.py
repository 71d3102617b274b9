"""What is done with the elements of `DeviceArray`, which has no operations of its own: fused functions."""

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

"""smallmm's own arrays on a device, which know how to make others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .base import BareDevice
from .numpy import NumPy


class DeviceArrays(NumPy):
    def to_host(self, x: Any) -> np.ndarray:
        return x.to_host()

    def on(self, x: Any, device: int) -> OwnDevice:
        return OwnDevice(self.name, x, device)


class OwnDevice(BareDevice):
    def __init__(self, name: str, x: Any, device: int):
        super().__init__(name, device)
        self._like = x

    def stream(self) -> int:
        return self._like.stream

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self._like.empty(shape, dtype)

    def asarray(self, x: np.ndarray) -> Any:
        result = self._like.empty(x.shape, x.dtype)
        result[...] = x
        return result

    def astype(self, x: Any, dtype: str) -> Any:
        return _elementwise("astype", dtype)(x)

    def narrowed(self, pivots: Any) -> Any:
        return _elementwise("narrowed")(pivots)

    def norms(self, b: Any) -> Any:
        return _norms(b.ndim)(b)

    def layout(self, x: Any) -> tuple[int, ...]:
        return x.strides

    def concat(self, stacks: list[Any]) -> Any:
        dtype = np.result_type(*(x.dtype for x in stacks))
        return self._like.joined([x if x.dtype == dtype else self.astype(x, dtype.name) for x in stacks])

    def index(self, places: np.ndarray) -> Any:
        return places

    def take(self, x: Any, index: Any) -> Any:
        return self.concat([x[i : i + 1] for i in index.tolist()])


@cache
def _elementwise(name: str, *arguments: Any) -> Any:
    """A function of each element, which a fused function computes."""
    from .._fuse import fuse  # which needs this module

    if name == "narrowed":
        return fuse(lambda x: np.clip(x, -(2**31), 2**31 - 1).astype(np.int32))
    return fuse(lambda x: getattr(x, name)(*arguments))


@cache
def _norms(dimensions: int) -> Any:
    """Of a vector, or of the columns of each matrix."""
    from .._fuse import fuse

    return fuse("(m)->()" if dimensions == 1 else "(m,k)->(k)")(
        lambda b: np.sqrt((abs(b) * abs(b)).sum(axis=0))
    )


def conjugated(x: Any) -> Any:
    return _elementwise("conj")(x) if x.dtype.kind == "c" else x

"""smallmm's own arrays on a device, which know how to make others."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import BareDevice
from .numpy import NumPy


class DeviceArrays(NumPy):
    def values(self, x: Any) -> Any:
        return x

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
        return x.astype(dtype)

    def narrowed(self, pivots: Any) -> Any:
        return pivots.narrowed()

    def norms(self, b: Any) -> Any:
        return b.norms()

    def layout(self, x: Any) -> tuple[int, ...]:
        return x.strides

    def concat(self, stacks: list[Any]) -> Any:
        dtype = np.result_type(*(x.dtype for x in stacks))
        return self._like.joined([x if x.dtype == dtype else self.astype(x, dtype.name) for x in stacks])

    def index(self, places: np.ndarray) -> Any:
        return places

    def take(self, x: Any, index: Any) -> Any:
        return self.concat([x[i : i + 1] for i in index.tolist()])

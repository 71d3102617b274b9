"""smallmm's own arrays on a device, which know how to make others and have a namespace of the array API."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.later import later
from .base import Device
from .numpy import NumPy, every


class DeviceArrays(NumPy):
    def values(self, x: Any) -> Any:
        return x

    def to_host(self, x: Any) -> np.ndarray:
        return x.to_host()

    def windows(self, x: Any, window: int, axis: int, step: int) -> Any:
        view = x.viewed(np.lib.stride_tricks.sliding_window_view, window, axis)
        return every(view, x.__array_namespace__().moveaxis, axis, step)

    def on(self, x: Any, device: int) -> OwnDevice:
        return OwnDevice(self.name, x, device)


class OwnDevice(Device):
    has_linear_algebra = False

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

    @property
    def namespace(self) -> Any:
        return self._like.__array_namespace__()

    def narrowed(self, pivots: Any) -> Any:
        return later("_programs.elements").narrowed(pivots)

    def layout(self, x: Any) -> tuple[int, ...]:
        return x.strides

    def concat(self, stacks: list[Any]) -> Any:
        dtype = np.result_type(*(x.dtype for x in stacks))
        return self._like.joined([x if x.dtype == dtype else self.astype(x, dtype.name) for x in stacks])

    def index(self, places: np.ndarray) -> Any:
        return places

"""Numba's arrays on a device. Numba has no current stream (the default one is taken), no products and no
conversions: where these are needed, smallmm's own arrays see the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.later import later
from .base import Device
from .numpy import NumPy


class Numba(NumPy):
    def values(self, x: Any) -> Any:
        return x

    def to_host(self, x: Any) -> np.ndarray:
        return x.copy_to_host()

    def on(self, x: Any, device: int) -> NumbaDevice:
        return NumbaDevice("Numba", device)


class NumbaDevice(Device):
    has_linear_algebra = False

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        from numba import cuda as numba_cuda

        with numba_cuda.gpus[self.device]:
            return numba_cuda.device_array(shape, dtype)

    def asarray(self, x: np.ndarray) -> Any:
        from numba import cuda as numba_cuda

        with numba_cuda.gpus[self.device]:
            return numba_cuda.to_device(x)

    @property
    def namespace(self) -> Any:
        return later("_programs.elements").namespace_on(self.device)

    def with_operations(self, x: Any) -> Any:
        return later("_gpu.device_array").seen_as_own(x) if hasattr(x, "__cuda_array_interface__") else x

    def returned(self, x: Any) -> Any:
        """A copy in memory of Numba's."""
        result, own = self.empty(x.shape, x.dtype), later("_gpu.device_array")
        if x.size:
            own.copy(self.namespace.reshape(x, x.shape), own.seen_as_own(result), own.DEFAULT_STREAM)
        return result

    def astype(self, x: Any, dtype: str) -> Any:
        return self.returned(self.with_operations(x).astype(dtype))

    def narrowed(self, pivots: Any) -> Any:
        return self.returned(later("_programs.elements").narrowed(self.with_operations(pivots)))

    def concat(self, stacks: list[Any]) -> Any:
        raise TypeError(f"{self.name} joins no arrays on a device, as those of a group are")

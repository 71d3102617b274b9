"""Numba's arrays on a device. Numba has no current stream (the default one is taken), no products and no
conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import BareDevice
from .numpy import NumPy


class Numba(NumPy):
    def values(self, x: Any) -> Any:
        return x

    def to_host(self, x: Any) -> np.ndarray:
        return x.copy_to_host()

    def on(self, x: Any, device: int) -> NumbaDevice:
        return NumbaDevice("Numba", device)


class NumbaDevice(BareDevice):
    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        from numba import cuda as numba_cuda

        with numba_cuda.gpus[self.device]:
            return numba_cuda.device_array(shape, dtype)

    def asarray(self, x: np.ndarray) -> Any:
        from numba import cuda as numba_cuda

        with numba_cuda.gpus[self.device]:
            return numba_cuda.to_device(x)

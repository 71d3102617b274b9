"""Numba's arrays on a device. Numba has no current stream (the default one is taken), no products and no
conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import cuda
from .base import Device
from .numpy import NumPy


class Numba(NumPy):
    def to_host(self, x: Any) -> np.ndarray:
        return x.copy_to_host()

    def on(self, x: Any, device: int) -> NumbaDevice:
        return NumbaDevice(self.name, device)


class NumbaDevice(Device):
    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        from numba import cuda as numba_cuda

        with numba_cuda.gpus[self.device]:
            return numba_cuda.device_array(shape, dtype)

    def asarray(self, x: np.ndarray) -> Any:
        from numba import cuda as numba_cuda

        with numba_cuda.gpus[self.device]:
            return numba_cuda.to_device(x)

    def astype(self, x: Any, dtype: str) -> Any:
        raise TypeError(
            f"Numba converts no arrays on a device: {x.dtype} to {dtype}; pass arrays of one dtype, "
            "float32 or float64"
        )

    def narrowed(self, pivots: Any) -> Any:
        return self.astype(pivots, "int32")

    def matmul(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(
            f"no kernel takes orders above {cuda.LARGEST}, and Numba has no product of its own"
        )

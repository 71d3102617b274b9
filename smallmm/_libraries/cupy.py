"""CuPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dlpack import DLPack, StandardDevice
from .numpy import every


class CuPy(DLPack):
    def to_host(self, x: Any) -> np.ndarray:
        return x.get()

    def windows(self, x: Any, window: int, axis: int, step: int) -> Any:
        import cupy

        return every(cupy.lib.stride_tricks.sliding_window_view(x, window, axis), cupy.moveaxis, axis, step)

    def on(self, x: Any, device: int) -> CuPyDevice:
        return CuPyDevice(self.name, x, device)


class CuPyDevice(StandardDevice):
    def stream(self) -> int:
        import cupy

        with cupy.cuda.Device(self.device):
            return cupy.cuda.get_current_stream().ptr

"""CuPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dlpack import DLPack, StandardDevice


class CuPy(DLPack):
    def to_host(self, x: Any) -> np.ndarray:
        return x.get()

    def on(self, x: Any, device: int) -> CuPyDevice:
        return CuPyDevice(self.name, x, device)


class CuPyDevice(StandardDevice):
    def stream(self) -> int:
        import cupy

        with cupy.cuda.Device(self.device):
            return cupy.cuda.get_current_stream().ptr

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
    def solve(self, a: Any, b: Any) -> Any:
        """NaN where A X is not B: of a singular matrix CuPy may give any X."""
        xp = self.namespace
        x = xp.linalg.solve(a, b)
        off, of_a, of_x, of_b = (
            xp.max(xp.abs(y), axis=(-2, -1), keepdims=True) for y in (a @ x - b, a, x, b)
        )
        solved = off <= xp.finfo(a.dtype).eps ** 0.5 * (of_a * of_x + of_b)
        return xp.where(solved, x, xp.asarray(float("nan"), dtype=x.dtype))

    def inv(self, a: Any) -> Any:
        xp = self.namespace
        return self.solve(a, xp.broadcast_to(xp.eye(a.shape[-1], dtype=a.dtype), a.shape))

    def cholesky(self, a: Any) -> tuple[Any, Any]:
        """CuPy leaves what it has of a factor that does not exist: L L^H is not A then."""
        xp = self.namespace
        lower = xp.linalg.cholesky(a)
        off, size = (xp.max(xp.abs(x), axis=(-2, -1)) for x in (lower @ lower.conj().mT - a, a))
        return lower, ~(off <= xp.finfo(a.dtype).eps ** 0.5 * size)

    def lu_factor(self, a: Any) -> tuple[Any, Any]:
        from cupyx.scipy.linalg import lu_factor

        lu, pivots = zip(*map(lu_factor, self._singly(a)), strict=True)
        return self._stacked(a, lu), self._stacked(a, pivots)

    def expm(self, a: Any) -> Any:
        from cupyx.scipy.linalg import expm

        return self._stacked(a, tuple(map(expm, self._singly(a))))

    def _singly(self, a: Any) -> list[Any]:
        """The matrices of a stack, for functions that take no stacks."""
        return list(self.namespace.reshape(a, (-1, *a.shape[-2:])))

    def _stacked(self, a: Any, results: tuple[Any, ...]) -> Any:
        xp = self.namespace
        return xp.reshape(xp.stack(results), (*a.shape[:-2], *results[0].shape))

    def stream(self) -> int:
        import cupy

        with cupy.cuda.Device(self.device):
            return cupy.cuda.get_current_stream().ptr

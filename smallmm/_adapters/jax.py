"""JAX's arrays, which are never written to."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import _core
from .base import CUDA, type_name
from .dlpack import DLPack, StandardDevice


class Jax(DLPack):
    def refuse_traced(self, op: str, name: str, x: Any) -> None:
        if isinstance(x, sys.modules["jax"].core.Tracer):
            raise TypeError(
                f"{op}: {name} is a {type_name(x)}, which has no elements yet: call smallmm outside jit, "
                "vmap and grad, or through jax.pure_callback, as docs/integrations.md shows"
            )

    def on(self, x: Any, device: int) -> JaxDevice:
        return JaxDevice(self.name, x, device)


class JaxDevice(StandardDevice):
    """New arrays are memory of ours, which JAX takes over when it is written. JAX's runtime waits for the
    stream that it names for external work, and the same stream is made to wait for its arrays."""

    writable = False

    def __init__(self, name: str, x: Any, device: int):
        super().__init__(name, x, device)
        (self._jax_device,) = x.devices()

    def stream(self) -> int:
        return self._jax_device.get_stream_for_external_ready_events()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> _Memory:
        return _Memory(shape, dtype, self.device, self.stream())

    def finished(self, out: _Memory) -> Any:
        import jax

        return jax.dlpack.from_dlpack(_Export(out))

    def nearest(self, dtype: np.dtype) -> np.dtype:
        import jax

        return np.dtype(jax.dtypes.canonicalize_dtype(dtype))  # float32 while jax_enable_x64 is off

    def astype(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    def matmul(self, x: Any, y: Any) -> Any:
        import jax

        return jax.numpy.matmul(x, y, precision="highest")  # by default float32 has the precision of TF32


class _Memory:
    """New memory of ours, to write to."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: int, stream: int):
        self.device = device
        self.capsule, address = _core.device_empty(shape, dtype.str[1:], device, stream)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


class _Export:
    """The same, for another library to take over by DLPack."""

    def __init__(self, memory: _Memory):
        self._memory = memory

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self._memory.device)

    def __dlpack__(self, **_: Any) -> Any:
        return self._memory.capsule

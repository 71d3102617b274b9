"""Products of arrays on CUDA devices, where `_core.device_product` declined: libraries without DLPack's C
exchange API, mixed dtypes, factors per matrix, outputs that overlap inputs, orders above 64, and errors. What
a library calls its current stream, and how it makes an array, is all that is known of each here."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from . import _core, cuda
from ._errors import explain_failure

FUNCTIONS = {"batched_matmul": 0, "matmul": 1, "matvec": 2, "vecmat": 3}
_CUDA = 2  # DLPack's number


class _Library:
    """A library's arrays on one device: its current stream, new arrays, conversions."""

    def __init__(self, x: Any, device: int):
        self.device = device
        self.name = type(x).__module__.partition(".")[0]

    def stream(self) -> int:
        return 0

    def empty(self, shape: tuple[int, ...], bits: int) -> Any:
        raise NotImplementedError

    def finished(self, out: Any) -> Any:
        """The result that the caller gets, from what `empty` made."""
        return out

    def astype(self, x: Any, dtype: str) -> Any:
        return self.namespace.astype(x, getattr(self.namespace, dtype))

    @property
    def namespace(self) -> ModuleType:
        raise TypeError(f"arrays of {self.name} have no array API namespace for this")


class _Standard(_Library):
    """A library with an array API namespace: PyTorch, CuPy."""

    def __init__(self, x: Any, device: int):
        super().__init__(x, device)
        from array_api_compat import array_namespace
        from array_api_compat import device as device_of

        self._namespace = array_namespace(x)
        self._place = device_of(x)

    @property
    def namespace(self) -> ModuleType:
        return self._namespace

    def stream(self) -> int:
        if self.name == "torch":
            import torch

            return torch.cuda.current_stream(self.device).cuda_stream
        if self.name == "cupy":
            import cupy

            with cupy.cuda.Device(self.device):
                return cupy.cuda.get_current_stream().ptr
        return 0

    def empty(self, shape: tuple[int, ...], bits: int) -> Any:
        dtype = getattr(self._namespace, f"float{bits}")
        return self._namespace.empty(shape, dtype=dtype, device=self._place)


class _Jax(_Standard):
    """JAX, whose arrays cannot be written to: it is given memory of ours. Its runtime waits for the stream
    that it names for external work, and the same stream is made to wait for its arrays."""

    def __init__(self, x: Any, device: int):
        super().__init__(x, device)
        (self._jax_device,) = x.devices()

    def stream(self) -> int:
        return self._jax_device.get_stream_for_external_ready_events()

    def empty(self, shape: tuple[int, ...], bits: int) -> Any:
        return _Memory(shape, bits, self.device, self.stream())

    def finished(self, out: Any) -> Any:
        import jax

        return jax.dlpack.from_dlpack(_Export(out))

    def astype(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)


class _Numba(_Library):
    """Numba, which has no current stream: the default one."""

    def empty(self, shape: tuple[int, ...], bits: int) -> Any:
        from numba import cuda as numba_cuda

        with numba_cuda.gpus[self.device]:
            return numba_cuda.device_array(shape, np.dtype(f"float{bits}"))


class _Memory:
    """New memory of ours, to write to."""

    def __init__(self, shape: tuple[int, ...], bits: int, device: int, stream: int):
        self.device = device
        self.capsule, address = _core.device_empty(shape, bits, device, stream)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": f"<f{bits // 8}",
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
        return (_CUDA, self._memory.device)

    def __dlpack__(self, **_: Any) -> Any:
        return self._memory.capsule


_LIBRARIES: dict[str, type[_Library]] = {"jax": _Jax, "jaxlib": _Jax, "numba": _Numba, "numba_cuda": _Numba}


def library_of(x: Any, device: int) -> _Library:
    return _LIBRARIES.get(type(x).__module__.partition(".")[0], _Standard)(x, device)


def call(
    op: str,
    gufunc: Any,
    operands: dict[str, Any],
    outs: dict[str, Any],
    kwargs: dict[str, Any],
    on_device: Callable[[Any], bool],
) -> Any:
    """``gufunc(*operands.values(), *outs.values())`` where at least one of them is on a device."""
    if op not in FUNCTIONS:
        name, x = next((name, x) for name, x in {**operands, **outs}.items() if on_device(x))
        raise TypeError(
            f"{op}: {name} is a {_type_name(x)} on a device; arrays on devices are not supported yet"
        )
    (out,) = outs.values()
    if kwargs:
        raise TypeError(f"{op}: {', '.join(kwargs)} is for NumPy arrays, not for arrays on a device")
    first_name, second_name, *factors = operands
    numbers = {name: factor for name, factor in operands.items() if isinstance(factor, Number)}
    arrays = {name: z for name, z in operands.items() if name not in numbers}
    if out is not None:
        arrays["out"] = out
    infos, library = _same_device(op, arrays, on_device)

    shapes = {name: _shaped(info) for name, info in infos.items()}
    out_shape = shapes.pop("out", None)
    for name, info in infos.items():
        if not _is_real(info.dtype):
            raise TypeError(
                f"{op}: {name} has dtype {info.dtype}; expected float16, float32, float64, an integer or bool"
            )
    factors_as_arrays = {name: np.zeros(()) if name in numbers else shapes[name] for name in factors}
    common = np.result_type(*(np.dtype(infos[name].dtype) for name in infos if name != "out"))
    bits = 32 if common.itemsize < 8 and common.kind == "f" else 64
    explanation = explain_failure(op, gufunc, {**shapes, **factors_as_arrays}, {"out": out_shape}, {})
    if explanation is not None:
        raise explanation
    if out is not None and isinstance(library, _Jax):
        raise TypeError(f"{op}: out is a {_type_name(out)}, which cannot be written to")

    converted = {
        name: z
        if name in numbers or infos[name].dtype == f"float{bits}"
        else library.astype(z, f"float{bits}")
        for name, z in operands.items()
    }
    sizes = _sizes(op, infos[first_name].shape, infos[second_name].shape)
    if max(sizes) > cuda.LARGEST:
        return _by_the_library(op, library, converted, out, numbers)

    shape = _result_shape(
        op,
        infos[first_name].shape,
        infos[second_name].shape,
        *(infos[name].shape for name in factors if name in infos),
    )
    alpha, beta = (converted.get(name, default) for name, default in (("alpha", 1), ("beta", 0)))
    stream = library.stream()
    same_dtype = out is not None and infos["out"].dtype == f"float{bits}"
    if same_dtype and _core.device_run(
        FUNCTIONS[op], stream, converted[first_name], converted[second_name], out, alpha, beta
    ):
        return out
    # A new array: the result if the caller gave none, else one to copy from, because the caller's overlaps an
    # input or is of another dtype.
    result = library.empty(shape, bits)
    if out is not None and not (isinstance(beta, Number) and beta == 0):
        result[...] = out
    _core.device_run(
        FUNCTIONS[op], stream, converted[first_name], converted[second_name], result, alpha, beta
    )
    if out is None:
        return library.finished(result)
    out[...] = result
    return out


class _Info(NamedTuple):
    device: int
    dtype: str
    shape: tuple[int, ...]


def _info(op: str, name: str, x: Any) -> _Info:
    kind, device = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (_CUDA, None)
    if kind != _CUDA:
        raise TypeError(f"{op}: {name} is a {_type_name(x)} on a device that is no CUDA GPU")
    return _Info(
        _core.device_of(x) if device is None else device, str(x.dtype).rpartition(".")[2], tuple(x.shape)
    )


def _same_device(
    op: str, arrays: dict[str, Any], on_device: Callable[[Any], bool]
) -> tuple[dict[str, Any], _Library]:
    """What each array is, and the library of all on their one device; TypeError if there are several."""
    first_name = next(name for name, x in arrays.items() if on_device(x))
    first = arrays[first_name]
    infos: dict[str, Any] = {}
    for name, x in arrays.items():
        if not on_device(x):
            raise TypeError(
                f"{op}: {name} is a {_type_name(x)} on the host but {first_name} is a {_type_name(first)} "
                "on a device; nothing moves between them by itself"
            )
        if type(x).__module__.partition(".")[0] != type(first).__module__.partition(".")[0]:
            raise TypeError(
                f"{op}: {name} is a {_type_name(x)} but {first_name} is a {_type_name(first)}; "
                "expected arrays of one library"
            )
        if getattr(x, "requires_grad", False):
            raise TypeError(
                f"{op}: {name} is a {_type_name(x)} that requires a gradient, which smallmm does not "
                "compute; use .detach()"
            )
        if getattr(x, "is_neg", bool)():
            x = arrays[name] = x.resolve_neg()
        infos[name] = _info(op, name, x)
        if infos[name].device != next(iter(infos.values())).device:
            raise TypeError(
                f"{op}: {name} is on CUDA device {infos[name].device} but {next(iter(infos))} on "
                f"{next(iter(infos.values())).device}; expected arrays of one device"
            )
    device = infos[first_name].device
    return infos, library_of(first, device)


def _is_real(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind in "biuf"
    except TypeError:
        return False


def _shaped(info: _Info) -> np.ndarray:
    """An array of that dtype and shape without memory of its own, for NumPy's rules and our messages."""
    dtype = np.dtype(info.dtype) if _is_real(info.dtype) else np.dtype("V1")
    return np.lib.stride_tricks.as_strided(np.zeros((), dtype), info.shape, (0,) * len(info.shape))


def _sizes(op: str, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, int, int]:
    m = 1 if op == "vecmat" or len(x) == 1 else x[-2]
    n = 1 if op == "matvec" or len(y) == 1 else y[-1]
    return m, x[-1], n


def _result_shape(
    op: str, x: tuple[int, ...], y: tuple[int, ...], *factors: tuple[int, ...]
) -> tuple[int, ...]:
    row, column = op == "vecmat" or len(x) == 1, op == "matvec" or len(y) == 1
    batch = np.broadcast_shapes(x[: -1 if row else -2], y[: -1 if column else -2], *factors)
    return batch + (() if row else x[-2:-1]) + (() if column else y[-1:])


def _by_the_library(
    op: str, library: _Library, operands: dict[str, Any], out: Any, numbers: dict[str, Any]
) -> Any:
    """Orders above the largest with a kernel: the library's own product."""
    xp = library.namespace
    x, y, *_ = operands.values()
    x = x[..., None, :] if op == "vecmat" else x
    y = y[..., :, None] if op == "matvec" else y
    result = xp.matmul(x, y)
    result = result[..., 0, :] if op == "vecmat" else result[..., 0] if op == "matvec" else result
    if "alpha" in operands:
        result = _per_matrix(operands["alpha"]) * result
    if "beta" in operands and not ("beta" in numbers and numbers["beta"] == 0):
        result = result + _per_matrix(operands["beta"]) * out
    if out is None:
        return result
    out[...] = result
    return out


def _per_matrix(factor: Any) -> Any:
    return factor if isinstance(factor, Number) else factor[..., None, None]


def _type_name(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")

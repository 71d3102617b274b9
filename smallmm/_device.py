"""Calls on arrays of CUDA devices that `_core.direct` declined: libraries without DLPack's C exchange API,
mixed dtypes, factors per matrix, outputs that overlap inputs, sizes without a kernel, and errors. What a
library calls its current stream, and how it makes an array, is all that is known of each here."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from . import _core, cuda
from ._arrays import without_negation
from ._errors import explain_failure
from ._signatures import core_dimensions, core_sizes, output_dtypes, output_shapes

_CUDA = 2  # DLPack's number
_PRODUCTS = ("batched_matmul", "gemm", "matmul", "matvec", "vecmat")


class _Library:
    """A library's arrays on one device: its current stream, new arrays, conversions."""

    def __init__(self, x: Any, device: int):
        self.device = device
        self.name = type(x).__module__.partition(".")[0]

    def stream(self) -> int:
        return 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        raise NotImplementedError

    def asarray(self, x: np.ndarray) -> Any:
        """A copy on the device."""
        raise NotImplementedError

    def finished(self, out: Any) -> Any:
        """The result that the caller gets, from what `empty` made."""
        return out

    def nearest(self, dtype: np.dtype) -> np.dtype:
        """Itself, or what the library has in its place."""
        return dtype

    def astype(self, x: Any, dtype: str) -> Any:
        return self.namespace.astype(x, getattr(self.namespace, dtype))

    def matmul(self, x: Any, y: Any) -> Any:
        return self.namespace.matmul(x, y)

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

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self._namespace.empty(shape, dtype=getattr(self._namespace, dtype.name), device=self._place)

    def asarray(self, x: np.ndarray) -> Any:
        return self._namespace.asarray(x, device=self._place)


class _Jax(_Standard):
    """JAX, whose arrays cannot be written to: it is given memory of ours. Its runtime waits for the stream
    that it names for external work, and the same stream is made to wait for its arrays."""

    def __init__(self, x: Any, device: int):
        super().__init__(x, device)
        (self._jax_device,) = x.devices()

    def stream(self) -> int:
        return self._jax_device.get_stream_for_external_ready_events()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return _Memory(shape, dtype, self.device, self.stream())

    def finished(self, out: Any) -> Any:
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


class _Numba(_Library):
    """Numba, which has no current stream (the default one is taken), no products and no conversions."""

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

    def matmul(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(
            f"no kernel takes orders above {cuda.LARGEST}, and Numba has no product of its own"
        )


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
        return (_CUDA, self._memory.device)

    def __dlpack__(self, **_: Any) -> Any:
        return self._memory.capsule


_LIBRARIES: dict[str, type[_Library]] = {"jax": _Jax, "jaxlib": _Jax, "numba": _Numba, "numba_cuda": _Numba}


def library_of(x: Any, device: int) -> _Library:
    return _LIBRARIES.get(type(x).__module__.partition(".")[0], _Standard)(x, device)


def any_nonzero(info: Any) -> bool:
    """Whether any info is not 0, for which the device is waited for."""
    return bool(info.any() if hasattr(info, "any") else info.copy_to_host().any())


def to_host(x: Any) -> np.ndarray:
    for name in ("cpu", "get", "copy_to_host"):  # PyTorch, CuPy, Numba
        if hasattr(x, name):
            return np.asarray(getattr(x, name)())
    return np.asarray(x)


def call(
    op: str,
    gufunc: np.ufunc,
    operands: dict[str, Any],
    outs: dict[str, Any],
    kwargs: dict[str, Any],
    on_device: Callable[[Any], bool],
) -> Any:
    """``gufunc(*operands.values(), *outs.values())`` where at least one of them is on a device."""
    if kwargs:
        raise TypeError(f"{op}: {', '.join(kwargs)} is for NumPy arrays, not for arrays on a device")
    operands = dict(operands)
    given = {name: x for name, x in outs.items() if x is not None}
    arrays = {**{name: x for name, x in operands.items() if not _is_number(x)}, **given}
    infos, library = _same_device(op, arrays, on_device)
    operands |= {name: x for name, x in arrays.items() if name in operands}
    for name, info in infos.items():
        if not _is_real(info.dtype):
            raise TypeError(
                f"{op}: {name} has dtype {info.dtype}; expected float16, float32, float64, an integer or bool"
            )

    shaped = {name: _shaped(infos[name]) if name in infos else np.asarray(x) for name, x in operands.items()}
    shaped_outs = {name: _shaped(infos[name]) if name in given else None for name in outs}
    explanation = explain_failure(op, gufunc, shaped, shaped_outs, {})
    if explanation is not None:
        raise explanation
    for name, x in given.items():
        if isinstance(library, _Jax):
            raise TypeError(f"{op}: {name} is a {_type_name(x)}, which cannot be written to")

    dtypes = output_dtypes(
        gufunc, {name: shaped[name] if name in infos else x for name, x in operands.items()}, {}
    )
    dtypes = [library.nearest(dtype) for dtype in dtypes]
    computed = next(dtype for dtype in dtypes if dtype.kind == "f")
    for name, info in infos.items():
        wanted = "int32" if name == "pivots" else computed.name
        if name in operands and info.dtype != wanted:
            operands[name] = library.astype(operands[name], wanted)
    outputs = [
        _Output(out, shape, dtype, out is not None and infos[name].dtype == dtype.name)
        for (name, out), shape, dtype in zip(
            [*outs.items(), *[("", None)] * gufunc.nout],
            output_shapes(gufunc, shaped),
            dtypes,
            strict=False,
        )
    ]
    sizes = core_sizes(gufunc, shaped)
    if gufunc.__name__ in _PRODUCTS:
        results = (_run if max(sizes.values()) <= cuda.LARGEST else _by_the_library)(
            library, gufunc, operands, outputs
        )
    elif 0 in (sizes.get("m"), sizes["n"]):
        results = _of_nothing(library, gufunc, operands, shaped)
    elif sizes.get("k") == 0:
        results = _without_columns(library, gufunc, operands, infos["b"].shape, outputs)
    elif _has_kernels(sizes.get("m", sizes["n"]), sizes["n"]):
        results = _run(library, gufunc, operands, outputs)
    else:
        raise NotImplementedError(
            f"{op}: no kernel takes {sizes.get('m', sizes['n'])} x {sizes['n']} matrices on a device (they "
            f"take min(m, n) <= {cuda.LARGEST_FACTORED} and m n <= "
            f"{cuda.LARGEST_FACTORED**2}); {library.name} may"
        )
    answers = []
    for output, result in zip(outputs, results, strict=True):
        if output.given is not None and result is not output.given:
            output.given[...] = result
        answers.append(result if output.given is None else output.given)
    return answers[0] if len(answers) == 1 else tuple(answers)


class _Output(NamedTuple):
    given: Any  # the caller's array, or None
    shape: tuple[int, ...]
    dtype: np.dtype
    usable: bool  # the caller's is of that dtype


def _run(library: _Library, gufunc: np.ufunc, operands: dict[str, Any], outputs: list[_Output]) -> list[Any]:
    """Launch. Results go to the caller's arrays, but to new ones where those overlap an operand."""
    stream = library.stream()
    for aside in (False, True):
        results = [x.given if x.usable and not aside else library.empty(x.shape, x.dtype) for x in outputs]
        if (
            gufunc.__name__ == "gemm"
            and results[0] is not outputs[0].given
            and not _is_zero(operands["beta"])
        ):
            results[0][...] = outputs[0].given
        if _core.device_run(gufunc, stream, *operands.values(), *results):
            break
    return [
        x if x is output.given else library.finished(x) for x, output in zip(results, outputs, strict=True)
    ]


def _by_the_library(
    library: _Library, gufunc: np.ufunc, operands: dict[str, Any], outputs: list[_Output]
) -> list[Any]:
    """Products of orders above the largest with a kernel: the library's own."""
    x, y, *_ = operands.values()
    name = gufunc.__name__
    x = x[..., None, :] if name == "vecmat" else x
    y = y[..., :, None] if name == "matvec" else y
    result = library.matmul(x, y)
    result = result[..., 0, :] if name == "vecmat" else result[..., 0] if name == "matvec" else result
    if name == "gemm":
        result = _per_matrix(operands["alpha"]) * result
        if not _is_zero(operands["beta"]):
            result = result + _per_matrix(operands["beta"]) * outputs[0].given
    return [result]


def _of_nothing(
    library: _Library, gufunc: np.ufunc, operands: dict[str, Any], shaped: dict[str, np.ndarray]
) -> list[Any]:
    """Matrices without an element: what the host says. No value matters but those of b, for its norm."""
    results = gufunc(*(np.zeros(x.shape, x.dtype) for x in shaped.values()))
    answers = [library.asarray(np.asarray(x)) for x in (results if gufunc.nout > 1 else (results,))]
    if gufunc.__name__ == "lstsq":
        b = operands["b"]
        rows = -1 if b.ndim == 1 else -2
        answers[1] = library.namespace.sqrt(library.namespace.sum(b * b, axis=rows))
    return answers


def _without_columns(
    library: _Library,
    gufunc: np.ufunc,
    operands: dict[str, Any],
    shape: tuple[int, ...],
    outputs: list[_Output],
) -> list[Any]:
    """No right-hand side, where info still counts: one, which is dropped."""
    has_columns = [dims[-1:] == ["k?"] for dims in core_dimensions(gufunc)[1]]
    computed = outputs[0].dtype
    widened = [
        _Output(None, (*x.shape[:-1], 1) if columns else x.shape, x.dtype, False)
        for x, columns in zip(outputs, has_columns, strict=True)
    ]
    b = library.asarray(np.zeros((*shape[:-1], 1), computed))
    results = _run(library, gufunc, {**operands, "b": b}, widened)
    return [x[..., :0] if columns else x for x, columns in zip(results, has_columns, strict=True)]


def _has_kernels(m: int, n: int) -> bool:
    return min(m, n) <= cuda.LARGEST_FACTORED and m * n <= cuda.LARGEST_FACTORED**2


def _is_number(x: Any) -> bool:
    return isinstance(x, Number) or (isinstance(x, np.ndarray) and x.ndim == 0)


def _is_zero(x: Any) -> bool:
    return _is_number(x) and x == 0


def _per_matrix(factor: Any) -> Any:
    return factor if _is_number(factor) else factor[..., None, None]


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
        x = arrays[name] = without_negation(op, name, x)
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


def _type_name(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")

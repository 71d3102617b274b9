"""The arrays that a fused function is given and returns: their layouts, and moves between libraries."""

from typing import Any

import numpy as np

from .. import _core
from .._base.errors import shown
from .._base.shapes import dtype_of
from .._calls.arrays import as_numpy
from .._libraries import library_of, on_device, type_name
from .._libraries.dlpack import is_foreign, refuse_without_ml_dtypes
from .compile import dense_strides
from .compose import namespace_of


def core_strides(x: Any, core: int) -> tuple[int, ...]:
    """Those of dimensions of length 1 do not matter."""
    if not isinstance(x, np.ndarray):
        return ()
    return tuple(
        step if size > 1 else 0
        for size, step in zip(x.shape[x.ndim - core :], x.strides[x.ndim - core :], strict=True)
    )


def is_dense(x: Any, core: int) -> bool:
    """Whether each matrix lies in row-major order; those of a device come so to their program."""
    if not isinstance(x, np.ndarray):
        return on_device(x)
    shape, strides = x.shape[x.ndim - core :], x.strides[x.ndim - core :]
    dense = dense_strides(shape, x.dtype)
    return all(n < 2 or step == own for n, step, own in zip(shape, strides, dense, strict=True))


def laid_out_like(x: np.ndarray, like: Any) -> np.ndarray:
    core = x.ndim
    if not isinstance(like, np.ndarray) or not core:
        return x
    strides = like.strides[like.ndim - core :]
    low = sum(min(0, (n - 1) * s) for n, s in zip(x.shape, strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(x.shape, strides, strict=True))
    memory = np.zeros(high - low + x.itemsize, np.uint8)
    return np.ndarray(x.shape, x.dtype, memory, -low, strides)


def wants_gradient(x: Any) -> bool:
    if not getattr(x, "requires_grad", False):
        return False
    import torch

    return torch.is_grad_enabled()


def any_failed(name: str, info: Any) -> bool:
    failed: bool | None = _core.any_failed(info)
    if failed is not None:
        return failed
    info = library_of(info).elements(info)
    if info is None:
        return False
    if not on_device(info):
        return bool(np.count_nonzero(as_numpy(name, "info", info)))
    from .._gpu.device import any_nonzero  # here: most processes need none of it

    return any_nonzero(name, info, f"{name}.ex")


def on_host(name: str, info: Any) -> np.ndarray:
    info = library_of(info).elements(info)
    if on_device(info):
        return library_of(info).to_host(info)
    return as_numpy(name, "info", info)


def as_library(x: Any, like: Any) -> Any:
    """NumPy's array or number in the library of another array."""
    library: Any = library_of(like)
    own = isinstance(x, np.ndarray | np.generic)
    return library.from_numpy(namespace_of(like), np.asarray(x)) if own else x


def refuse_out(
    name: str, label: str, target: Any, shape: tuple[int, ...], dtype: np.dtype, like: Any
) -> None:
    """ValueError or TypeError where an array cannot take a result of that shape and dtype. like: an array of
    the inputs' library, None if that is NumPy."""
    if not hasattr(target, "shape") or tuple(target.shape) != shape:
        raise ValueError(f"{name}: {label} is {shown(target)}; expected shape {shape}")
    if is_foreign(target) != (like is not None and is_foreign(like)) or on_device(target) != on_device(like):
        expected = "numpy.ndarray" if like is None else type_name(like)
        raise TypeError(f"{name}: {label} is a {type_name(target)}; expected a {expected}, as the inputs are")
    if str(target.dtype).endswith("bfloat16"):
        refuse_without_ml_dtypes(name, label)
    if not np.can_cast(dtype, dtype_of(target), "same_kind"):
        raise TypeError(f"{name}: {label} has dtype {target.dtype}; the result is {dtype}")
    writable = True
    if library_of(target).is_traced(target):
        pass
    elif on_device(target):
        from .._gpu.device import same_device  # here: most processes need none of it

        writable = same_device(name, {"an input": like, label: target})[1].writable
    elif isinstance(target, np.ndarray):
        writable = target.flags.writeable
    elif is_foreign(target):
        writable = as_numpy(name, label, target).flags.writeable
    if not writable:
        raise ValueError(f"{name}: {label} is read-only; expected an array that can be written to")

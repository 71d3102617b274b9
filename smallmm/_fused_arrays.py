"""The arrays that a fused function is given and returns: their layouts, and moves between libraries."""

from typing import Any

import numpy as np

from ._adapters import library_of, on_device
from ._arrays import as_numpy
from ._compose import namespace_of
from ._errors import shown


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
    step = x.itemsize
    for size, stride in zip(
        x.shape[: x.ndim - core - 1 : -1], x.strides[: x.ndim - core - 1 : -1], strict=True
    ):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


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


def any_failed(info: Any) -> bool:
    info = library_of(info).elements(info)
    if info is None:
        return False
    if isinstance(info, np.ndarray):
        return bool(np.count_nonzero(info))
    from ._device import any_nonzero  # here: most processes need none of it

    return any_nonzero(info)


def on_host(name: str, info: Any) -> np.ndarray:
    info = library_of(info).elements(info)
    if on_device(info):
        return library_of(info).to_host(info)
    return as_numpy(name, "info", info)


def as_library(x: np.ndarray, like: Any) -> Any:
    library: Any = library_of(like)
    return library.from_numpy(namespace_of(like), np.asarray(x)) if isinstance(x, np.ndarray) else x


def copy_to(name: str, i: int, target: Any, result: Any) -> None:
    shape = tuple(getattr(target, "shape", ()))
    if not hasattr(target, "shape") or shape != tuple(result.shape):
        raise ValueError(f"{name}: out[{i}] is {shown(target)}; expected shape {tuple(result.shape)}")
    if isinstance(target, np.ndarray):
        if not np.can_cast(result.dtype, target.dtype, "same_kind"):
            raise TypeError(f"{name}: out[{i}] has dtype {target.dtype}; the result is {result.dtype}")
        if not target.flags.writeable:
            raise ValueError(f"{name}: out[{i}] is read-only; expected an array that can be written to")
        np.copyto(target, result, casting="same_kind")
    else:
        target[...] = result

"""Moves of arrays between the host and devices, and page-locked memory of the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._base.errors import shown
from .._base.options import integer
from .._base.shapes import is_bfloat16
from .._libraries import library_of, on_device
from .device_array import (
    KINDS,
    DeviceArray,
    address_of,
    copy,
    empty_on,
    host_array,
    memory_order,
)


def empty_pinned(shape: int | tuple[int, ...], dtype: Any = np.float64, *, device: int = 0) -> np.ndarray:
    """An array of NumPy in page-locked memory, which devices read and write without the CPU's help.

    Parameters
    ----------
    shape : int or tuple of int
        Of the array. Its elements are not set.
    dtype : dtype
        A number type.
    device : int
        The device whose driver allocates it; all devices may use it.

    Raises
    ------
    CudaUnavailableError
        There is no driver or no such device.
    MemoryError
        There is no memory that can be page-locked.
    TypeError, ValueError
        The dtype is no number type, or a size is negative.

    Notes
    -----
    Page-locking takes about as long as writing the memory. It is released with the last view of the array.
    """
    device = integer("empty_pinned", "device", device)
    kind = _number_type("empty_pinned", dtype)
    try:
        sizes = tuple(int(n) for n in (shape if isinstance(shape, tuple | list) else (shape,)))
    except (TypeError, ValueError):
        raise TypeError(f"empty_pinned: shape is {shown(shape)}; expected integers") from None
    if any(n < 0 for n in sizes):
        raise ValueError(f"empty_pinned: shape is {shown(shape)}; expected no negative size")
    size = int(np.prod(sizes, dtype=object)) * kind.itemsize
    if size >= 1 << 62:
        raise MemoryError(f"empty_pinned: no memory for {size} bytes")
    memory: Any = _core.cuda_pinned(device, size)
    return np.ndarray(sizes, kind, memory)


def pin(a: Any, *, device: int = 0) -> np.ndarray:
    """Page-lock the memory of an array where it is.

    Parameters
    ----------
    a : array
        Of NumPy, or of another library on the host.
    device : int
        The device whose driver does it; all devices may use the memory.

    Returns
    -------
    numpy.ndarray
        A view of `a`. The memory is page-locked until the last view of this one is gone.

    Raises
    ------
    CudaUnavailableError
        There is no driver or no such device.
    TypeError
        This is no array on the host.
    RuntimeError
        The driver refuses, because a part of the memory is page-locked already, say.

    Notes
    -----
    All pages between the first and the last element are page-locked. It takes time in proportion, so it pays
    for arrays that are moved several times.
    """
    device = integer("pin", "device", device)
    x = host_array("pin", "a", a)
    low, high = np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
    if high == low:
        return x.view()
    memory: Any = _core.cuda_register(device, low, high - low, (a, x))
    pinned = np.ndarray(x.shape, x.dtype, memory, address_of(x) - low, x.strides)
    pinned.flags.writeable = x.flags.writeable
    return pinned


def to_device(a: Any, *, device: int = 0, mapped: bool | None = None) -> DeviceArray:
    """A copy of an array of the host on a device.

    Parameters
    ----------
    a : array_like
        Numbers.
    device : int
        The device.
    mapped : bool, optional
        True: no copy but a view, by which the device reads and writes `a` itself, which must be page-locked
        (`empty_pinned`, `pin`). None: so where the device has no memory of its own and `a` is page-locked.

    Returns
    -------
    DeviceArray

    Raises
    ------
    CudaUnavailableError
        There is no driver or no such device.
    MemoryError
        The device has not enough memory.
    TypeError, ValueError
        These are no numbers, or are on a device already; `mapped` is True and `a` is not page-locked.
    """
    device = integer("to_device", "device", device)
    x = host_array("to_device", "a", np.asarray(a) if isinstance(a, list | tuple | float | int) else a)
    _number_type("to_device", x.dtype)
    if mapped or (mapped is None and _core.cuda_integrated(device)):
        low, high = np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
        if _core.cuda_is_pinned(device, low, high - low):
            address = _core.cuda_mapped(device, low) + address_of(x) - low
            return DeviceArray(x, address, device, x.dtype, x.shape, x.strides)
        if mapped:
            raise ValueError("to_device: a is not page-locked; expected an array of empty_pinned or pin")
    order = memory_order(x)
    result = empty_on(device, x.shape, x.dtype, order)
    copy(x, result)
    return result


def to_host(x: Any) -> np.ndarray:
    """An array of NumPy with what an array on a device has, once work on it is done.

    Parameters
    ----------
    x : DeviceArray, or array of another library on a device

    Returns
    -------
    numpy.ndarray
        A copy; of what `to_device` mapped, that array itself.

    Raises
    ------
    TypeError
        This is no array on a device.
    """
    if not on_device(x):
        raise TypeError(f"to_host: x is {shown(x)}; expected an array on a device")
    return library_of(x).to_host(x)


def _number_type(op: str, dtype: Any) -> np.dtype:
    kind = np.dtype(dtype)
    if (kind.kind not in KINDS and not is_bfloat16(kind)) or not kind.isnative:
        raise TypeError(f"{op}: dtype is {kind}; expected a number type of this machine")
    return kind

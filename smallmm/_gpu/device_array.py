"""Arrays of smallmm's own on a device, page-locked memory of the host, and moves between the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._base.errors import shown
from .._base.later import later
from .._base.options import integer
from .._base.shapes import NUMBERS
from .._libraries import library_of, on_device, type_name
from .._libraries.base import CUDA

CPU = (1, 0)  # DLPack's numbers of the host
DEFAULT_STREAM = 1  # CU_STREAM_LEGACY, which waits for streams that others make
KINDS = "biufc"


def _operator(name: str, reflected: bool = False) -> Callable[..., Any]:
    def operator(self: DeviceArray, *others: Any) -> Any:
        if not all(type(x) in NUMBERS or hasattr(x, "dtype") for x in others):
            return NotImplemented
        operands = (*others, self) if reflected else (self, *others)
        return getattr(self.__array_namespace__(), name)(*operands)

    return operator


class DeviceArray:
    """An array on a CUDA device, of which `to_device` makes one and `to_host` an array of NumPy again.

    Functions of smallmm take it, and return others. It has operators, each of which is a kernel, and the
    functions of the array API (``x.__array_namespace__()``) but for those of linear algebra, which are
    smallmm's. Indices without lists of numbers, `swapaxes` and `mT` give views. Other libraries read it
    without a copy: by DLPack (``torch.from_dlpack(x)``), or by ``__cuda_array_interface__`` (Numba).
    ``x[...] = a`` copies an array of the host or a device of that shape and dtype, and waits until that is
    done. Work is ordered on the default stream.
    """

    __module__ = "smallmm.cuda"
    __array_priority__ = 1000  # so that NumPy leaves operators to this one
    _read_by_interface = True  # by smallmm, for which nothing has to be held until a launch is done
    __slots__ = ("_address", "_kept", "device", "dtype", "shape", "strides")

    def __init__(
        self,
        kept: Any,
        address: int,
        device: int,
        dtype: np.dtype,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> None:
        self._kept = kept  # what owns the memory
        self._address = address
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self.strides = strides  # bytes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, False),
            "strides": self.strides,
            "stream": DEFAULT_STREAM,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device, as DLPack numbers it."""
        return CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of DLPack, by which another library reads and writes the same memory.

        Parameters
        ----------
        stream : int, optional
            The consumer's stream, which waits for the work on this array: 1 or None the default one, 2 that
            of the thread, another one's handle. -1: nothing is waited for.
        max_version : tuple of int, optional
            The newest version that the consumer knows. Without one, or before 1.0, the capsule has none.
        dl_device : tuple of int, optional
            Where it wants the array: on this device, or ``(1, 0)`` on the host.
        copy : bool, optional
            True: of a copy. False: BufferError if there must be one. None: only if there must be one.

        Raises
        ------
        BufferError
            The array is to be on another device, or on the host without a copy; or DLPack has no such dtype.
        TypeError, ValueError
            `stream` is no integer, or 0, which could mean two streams.
        """
        place = self.__dlpack_device__() if dl_device is None else tuple(dl_device)
        if place == CPU:
            if copy is False:
                raise BufferError("__dlpack__: copy is False, but dl_device is the host")
            mapped = isinstance(self._kept, np.ndarray)
            return (np.array(self.to_host()) if copy and mapped else self.to_host()).__dlpack__()
        if place != self.__dlpack_device__():
            raise BufferError(f"__dlpack__: dl_device is {place}; expected {(CUDA, self.device)} or {CPU}")
        handle = DEFAULT_STREAM if stream is None else integer("__dlpack__", "stream", stream)
        if handle == 0 or handle < -1:
            raise ValueError(f"__dlpack__: stream is {handle}; expected -1, or a number above 0")
        x = _copied_on_device(self) if copy else self
        if handle != -1:
            _core.cuda_order(self.device, handle, DEFAULT_STREAM)
        return _core.device_capsule(
            x._kept,
            x.device,
            x._address if x.size else 0,
            x.dtype.str,
            x.shape,
            tuple(step // x.dtype.itemsize for step in x.strides),
            max_version is not None and tuple(max_version) >= (1, 0),
            bool(copy),
        )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def mT(self) -> DeviceArray:
        return self.swapaxes(-1, -2)

    def astype(self, dtype: Any) -> DeviceArray:
        """A new array of these elements in another dtype."""
        converted: DeviceArray = self.__array_namespace__().astype(self, dtype)
        return converted

    def conj(self) -> DeviceArray:
        """The complex conjugate: itself if it is real."""
        return self.__array_namespace__().conj(self) if self.dtype.kind == "c" else self

    def any(self) -> bool:
        """Whether some element is not 0. The device is waited for."""
        return bool(self.to_host().any())

    def all(self) -> bool:
        """Whether no element is 0. The device is waited for."""
        return bool(self.to_host().all())

    def __bool__(self) -> bool:
        return bool(self.to_host())  # NumPy refuses several elements

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API, but for those of linear algebra, which are smallmm's."""
        return later("_programs.elements").namespace_on(self.device)

    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", reflected=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", reflected=True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", reflected=True)
    __pow__ = _operator("pow")
    __and__, __or__, __invert__ = map(_operator, ("bitwise_and", "bitwise_or", "bitwise_invert"))
    __lt__, __le__, __gt__, __ge__ = map(_operator, ("less", "less_equal", "greater", "greater_equal"))
    __eq__, __ne__ = map(_operator, ("equal", "not_equal"))
    __neg__, __pos__, __abs__ = map(_operator, ("negative", "positive", "abs"))
    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Any:
        return later("_functions.products").matmul(self, other)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a DeviceArray without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray of {self.dtype} {self.shape} on CUDA device {self.device}>"

    @property
    def stream(self) -> int:
        """The handle of the stream on which work is ordered."""
        return DEFAULT_STREAM

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        """A new one on the same device, whose elements are not set."""
        return empty_on(self.device, shape, np.dtype(dtype))

    def joined(self, stacks: list[DeviceArray]) -> DeviceArray:
        """A new stack, of the matrices of stacks on the same device, which lie alike."""
        matrix = stacks[0][0]
        low, size = reach_of(matrix)
        count = sum(map(len, stacks))
        memory = _core.cuda_memory(self.device, count * size)
        place = memory.address
        for x in stacks:
            adjoin = len(x) == 1 or x.strides[0] == size
            for part in [x] if adjoin else [x[i : i + 1] for i in range(len(x))]:
                _core.cuda_copy(self.device, place, part._address + low, len(part) * size, DEFAULT_STREAM)
                place += len(part) * size
        shape, strides = (count, *matrix.shape), (size, *matrix.strides)
        return DeviceArray(memory, memory.address - low, self.device, matrix.dtype, shape, strides)

    def to_host(self) -> np.ndarray:
        """As the function `to_host`."""
        if isinstance(self._kept, np.ndarray):  # mapped
            _core.cuda_wait(self.device, DEFAULT_STREAM)
            ahead = self._address - (
                _core.cuda_mapped(self.device, address_of(self._kept)) if self.size else 0
            )
            if ahead == 0:
                return np.lib.stride_tricks.as_strided(self._kept, self.shape, self.strides)
        return read(self)

    def swapaxes(self, first: int, second: int) -> DeviceArray:
        return self.viewed(np.swapaxes, first, second)

    def __getitem__(self, index: Any) -> DeviceArray:
        for x in index if isinstance(index, tuple) else (index,):
            if not (x is None or x is Ellipsis or isinstance(x, slice | int | np.integer)):
                raise TypeError(f"an index is {shown(x)}; expected integers, slices, ... and None")
        index = index if isinstance(index, tuple) else (index,)
        return self.viewed(np.ndarray.__getitem__, (*index, ...) if Ellipsis not in index else index)

    def __setitem__(self, index: Any, value: Any) -> None:
        copy(value, self[index])

    def viewed(self, function: Callable[..., np.ndarray], *arguments: Any) -> DeviceArray:
        """The view that a function of NumPy gives."""
        outline = _outline(self)
        view = function(outline, *arguments)
        ahead = address_of(view) - address_of(outline)
        return DeviceArray(
            self._kept, self._address + ahead, self.device, view.dtype, view.shape, view.strides
        )


def _copied_on_device(x: DeviceArray) -> DeviceArray:
    """Another with all bytes between the first element and the last."""
    low, size = reach_of(x)
    memory = _core.cuda_memory(x.device, size)
    _core.cuda_copy(x.device, memory.address, x._address + low, size, DEFAULT_STREAM)
    return DeviceArray(memory, memory.address - low, x.device, x.dtype, x.shape, x.strides)


def reach_of(x: DeviceArray) -> tuple[int, int]:
    """The offset of the first byte from the first element, which may be negative, and the bytes to the
    last."""
    if not x.size:
        return 0, 0
    reach = [(n - 1) * step for n, step in zip(x.shape, x.strides, strict=True)]
    low = sum(min(0, r) for r in reach)
    return low, sum(max(0, r) for r in reach) + x.dtype.itemsize - low


def _outline(x: DeviceArray) -> np.ndarray:
    """Its shape and strides, for NumPy to index; nobody reads what it says is there."""
    return np.lib.stride_tricks.as_strided(np.empty(1, x.dtype), x.shape, x.strides, writeable=False)


def address_of(x: Any) -> int:
    """Of the first element."""
    if isinstance(x, DeviceArray):
        return x._address
    return int(x.__array_interface__["data"][0])


def memory_order(x: Any) -> tuple[int, ...]:
    """The axes by descending distance of their elements: the order in which a dense array lies in memory."""
    return tuple(sorted(range(len(x.shape)), key=lambda d: -abs(x.strides[d])))


def dense_strides(shape: tuple[int, ...], order: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Those of an array without gaps whose axes lie in that order."""
    strides = [0] * len(shape)
    for d in reversed(order):
        strides[d] = itemsize
        itemsize *= shape[d]
    return tuple(strides)


def is_dense(x: Any, order: tuple[int, ...]) -> bool:
    """Whether x has no gaps and lies in that order. Axes of one element lie anywhere."""
    wanted = dense_strides(x.shape, order, x.dtype.itemsize)
    return 0 in x.shape or all(n == 1 or a == b for n, a, b in zip(x.shape, x.strides, wanted, strict=True))


def empty_on(
    device: int, shape: tuple[int, ...], dtype: np.dtype, order: tuple[int, ...] | None = None
) -> DeviceArray:
    """New memory on a device."""
    strides = dense_strides(shape, order or tuple(range(len(shape))), dtype.itemsize)
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    memory = _core.cuda_memory(device, size)
    return DeviceArray(memory, memory.address, device, dtype, shape, strides)


def seen_as_own(x: Any) -> DeviceArray:
    """The memory of another library's array, after what that array's stream has to do."""
    if isinstance(x, DeviceArray):
        return x
    seen, (device, *_) = x.__cuda_array_interface__, _core.device_of(x, "an array")
    if (stream := seen.get("stream")) not in (None, DEFAULT_STREAM):
        _core.cuda_order(device, DEFAULT_STREAM, stream)
    shape, dtype = tuple(seen["shape"]), np.dtype(seen["typestr"])
    strides = seen.get("strides") or dense_strides(shape, tuple(range(len(shape))), dtype.itemsize)
    return DeviceArray(x, seen["data"][0], device, dtype, shape, tuple(strides))


def read(x: DeviceArray) -> np.ndarray:
    """All bytes between the first element and the last, seen with the array's strides."""
    if not x.size:
        return np.empty(x.shape, x.dtype)
    low, size = reach_of(x)
    whole = np.empty(size, np.uint8)
    _core.cuda_copy(x.device, address_of(whole), x._address + low, size, DEFAULT_STREAM)
    _core.cuda_wait(x.device, DEFAULT_STREAM)
    seen = np.ndarray(x.shape, x.dtype, whole, -low, x.strides)
    return seen if seen.nbytes == size else np.array(seen)


def copy(src: Any, dst: Any, stream: int | None = None) -> None:
    """Copy an array into another, one or both of them on a device.

    Parameters
    ----------
    src : array or DeviceArray
        What is copied.
    dst : array or DeviceArray
        Where to, of the same shape and dtype.
    stream : int, optional
        A stream's handle, which gets the copy: nothing is waited for, and both arrays must stay until the
        stream is done. By default the copy is done on return.

    Raises
    ------
    TypeError, ValueError
        They are no arrays, differ in shape or dtype, both are on the host, `dst` is read-only, or, with a
        device array's gaps, there is no one copy to do.
    """
    ours = [x for x in (src, dst) if isinstance(x, DeviceArray)]
    if not ours:
        raise TypeError(f"copy: src is {shown(src)} and dst {shown(dst)}; expected a DeviceArray")
    both = [
        x if isinstance(x, DeviceArray) else host_array("copy", name, x)
        for name, x in (("src", src), ("dst", dst))
    ]
    origin, target = both
    if origin.shape != target.shape or origin.dtype != target.dtype:
        raise ValueError(
            f"copy: dst is of {target.dtype} and shape {target.shape}; expected {origin.dtype} and "
            f"{origin.shape}, as src"
        )
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise ValueError("copy: dst is read-only; expected an array that can be written to")
    order = memory_order(target)
    if (
        stream is None
        and isinstance(target, np.ndarray)
        and not (is_dense(target, order) and is_dense(origin, order))
    ):
        target[...] = ours[0].to_host()
        return
    if stream is None and isinstance(origin, np.ndarray) and not is_dense(origin, order):
        origin = _in_order(origin, order)
    for name, x in (("src", origin), ("dst", target)):
        if not is_dense(x, order):
            raise ValueError(
                f"copy: {name} has strides {x.strides}; expected no gaps, and both arrays in the same order"
            )
    device = ours[0].device
    handle = DEFAULT_STREAM if stream is None else integer("copy", "stream", stream)
    _core.cuda_copy(device, address_of(target), address_of(origin), ours[0].nbytes, handle)
    if stream is None:
        _core.cuda_wait(device, handle)


def _in_order(x: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """A copy without gaps whose axes lie in that order."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def host_array(op: str, name: str, x: Any) -> np.ndarray:
    if on_device(x) or not (hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__")):
        raise TypeError(f"{op}: {name} is a {type_name(x)}; expected an array on the host")
    return library_of(x).as_numpy(op, name, x)

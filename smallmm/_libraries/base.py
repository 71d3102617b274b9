"""What calls ask of a library's arrays, on the host and on a device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from .. import _core

Call = Callable[..., Any]
Named = dict[str, Any]  # by the names of arguments

CUDA = 2  # DLPack's number

# Devices whose memory the CPU reads and writes: kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged of DLPack.
_HOST_DEVICES = (1, 3, 11, 13)


class Library:
    """The arrays of one library. On the host a call whose arrays are of several libraries is that of the
    highest `rank`."""

    rank = 0

    def __init__(self, name: str):
        self.name = name  # the top-level module of the arrays' type

    def values(self, x: Any) -> Any:
        """x, or the array of its values where x is more than an array and does not follow NumPy's rules."""
        return x

    def is_traced(self, x: Any) -> bool:
        """Whether x has no elements, and stands for others while a function is traced."""
        return False

    def is_divided(self, x: Any) -> bool:
        """Whether several devices have a part of x each."""
        return False

    def nearest(self, dtype: np.dtype) -> np.dtype:
        """Itself, or what the library has in its place."""
        return dtype

    def elements(self, x: Any) -> Any:
        """x, or the whole array of which a transformation of the library shows a function a part. None if it
        has no elements."""
        return None if self.is_traced(x) else x

    def if_any(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """then() if the condition holds anywhere, or nobody knows, else otherwise(), which is faster."""
        values = self.elements(condition)
        if values is None or self.is_capturing(values) or bool(values.any()):
            return then()
        return otherwise()

    def is_capturing(self, x: Any) -> bool:
        """Whether work on x, which may be on a device, becomes part of a CUDA graph and is not done yet."""
        if self.is_traced(x) or not on_device(x):
            return False
        has = hasattr(x, "__dlpack_device__")
        device = int(x.__dlpack_device__()[1] if has else _core.device_of(x, "an array")[0])
        return _core.cuda_is_capturing(device, self.on(x, device).stream())

    def takes_device_arrays(self, operands: dict[str, Any]) -> bool:
        """Whether `call` takes them, which otherwise `_gpu.device` does."""
        return False

    def records(self, gufunc: np.ufunc, operands: dict[str, Any]) -> bool:
        """Whether the library wants to know how the results depend on the operands, and can."""
        return False

    def recorded(self, op: str, gufunc: np.ufunc, operands: dict[str, Any], call: Call) -> Any:
        """`_calls.arrays.call`, which is given, without outputs, where the library records it."""
        raise NotImplementedError

    def recorded_program(self, computed: Call, arrays: tuple[Any, ...]) -> Any:
        """The results of a fused function, or a scan, whose derivatives the library wants and gets in one
        pass; None: it is to see each step. computed(*arrays): the backward pass and the results."""
        return None

    def looped(self, step: Call, carry: list[Any], xs: list[Any], length: int, every: int) -> Any:
        """The carry after so many times of ``step(carry, x) -> (carry, ys)``, and the ys of the last one and
        of every so many before it, by a loop that the library records; None if it has none."""
        return None

    def written(self, op: str, name: str, out: Any, result: Any) -> Any:
        """`out` with what a recorded call gave; TypeError if the library cannot record that."""
        raise TypeError(f"{op}: {name} is given, but {self.name} records the call: its result is a new array")

    def refuse_traced(self, op: str, name: str, x: Any) -> None:
        """TypeError for an array without elements, which stands for others while a function is traced."""

    def shareable(self, op: str, name: str, x: Any) -> Any:
        """x without what the library means and DLPack does not describe; TypeError if that matters."""
        return x

    def as_numpy(self, op: str, name: str, x: Any) -> np.ndarray:
        """A NumPy array of x, which is on the host, without a copy where x is an array."""
        return np.asarray(x)

    def to_host(self, x: Any) -> np.ndarray:
        """A copy of x, which is on a device."""
        return np.asarray(x)

    def grouped(self, frame: Any, by: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """The keys of a frame's groups, in order; its rows, those of one group after the other; and how many
        each group has."""
        raise TypeError(
            f"Group.from_frame: frame is a {type_name(frame)}; expected a DataFrame of pandas or polars, or "
            "a Table of pyarrow"
        )

    def columns(self, frame: Any, by: Any, columns: Any) -> np.ndarray:
        """The values of a column, or of a list of columns side by side; None: of all that are no keys."""
        raise NotImplementedError

    def framed(self, keys: Any, counts: np.ndarray, values: np.ndarray, columns: Any) -> Any:
        """A frame of these rows, each key being that of so many."""
        raise NotImplementedError

    def windows(self, x: Any, window: int, axis: int, step: int) -> Any:
        """x with windows and their elements as two axes in place of one, whose number is negative. A view if
        the library has any; NotImplemented: its namespace copies."""
        return NotImplemented

    def call(self, op: str, gufunc: np.ufunc, operands: Named, outs: Named, kwargs: Named) -> Any:
        """``gufunc(*operands.values(), *outs.values(), **kwargs)`` on the host."""
        raise NotImplementedError

    def on(self, x: Any, device: int) -> Device:
        """What x, which is on that device, needs there. TypeError if nothing is known of its library."""
        raise TypeError(f"arrays of {self.name} on a device are unknown")


class Device:
    """A library's arrays on one CUDA device: its current stream, new arrays, conversions."""

    writable = True
    has_linear_algebra = True  # of matrices that are too large for the kernels

    def __init__(self, name: str, device: int):
        self.name = name
        self.device = device

    def stream(self) -> int:
        """The current stream's handle; 0: the default one."""
        return 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        raise NotImplementedError

    def asarray(self, x: np.ndarray) -> Any:
        """A copy on the device."""
        raise NotImplementedError

    def with_operations(self, x: Any) -> Any:
        """x, or what sees its memory and has the operations of `namespace`."""
        return x

    def returned(self, x: Any) -> Any:
        """What the caller gets of such a result."""
        return x

    def finished(self, out: Any) -> Any:
        """The result that the caller gets, from what `empty` made."""
        return out

    def nearest(self, dtype: np.dtype) -> np.dtype:
        """Itself, or what the library has in its place."""
        return dtype

    def astype(self, x: Any, dtype: str) -> Any:
        return self.namespace.astype(x, self.dtype_named(dtype))

    def dtype_named(self, name: str) -> Any:
        """The library's; NumPy's if it has none of its own, as CuPy has no bfloat16."""
        return getattr(self.namespace, name, None) or np.dtype(name)

    def narrowed(self, pivots: Any) -> Any:
        """int32; what does not fit that becomes another number that is no row."""
        return self.astype(self.namespace.clip(self.astype(pivots, "int64"), -(2**31), 2**31 - 1), "int32")

    def norms(self, b: Any) -> Any:
        """Of a vector, or of the columns of each matrix."""
        size = self.namespace.abs(b)
        return self.namespace.sqrt(self.namespace.sum(size * size, axis=-1 if b.ndim == 1 else -2))

    def in_own_precision(self) -> AbstractContextManager[Any]:
        """Context in which the library rounds no operands of its products."""
        return nullcontext()

    def solve(self, a: Any, b: Any) -> Any:
        """X of A X = B; numbers that are not finite where A is singular."""
        return self.namespace.linalg.solve(a, b)

    def solve_triangular(self, a: Any, b: Any, upper: bool) -> Any:
        return self.solve(a, b)

    def inv(self, a: Any) -> Any:
        return self.namespace.linalg.inv(a)

    def cholesky(self, a: Any) -> tuple[Any, Any]:
        """L, and which matrices are not positive definite."""
        lower = self.namespace.linalg.cholesky(a)
        return lower, ~self.namespace.all(self.namespace.isfinite(lower), axis=(-2, -1))

    def lu_factor(self, a: Any) -> tuple[Any, Any]:
        """L and U, and the rows that steps exchange, counted from 0."""
        raise NotImplementedError(f"{self.name} factors no stacks by LU on a device")

    def eig(self, a: Any) -> tuple[Any, Any]:
        return self.namespace.linalg.eig(a)

    def expm(self, a: Any) -> Any:
        raise NotImplementedError(f"{self.name} has no exponential of stacks on a device")

    def layout(self, x: Any) -> Any:
        """What arrays of one shape and dtype must have in common for `concat`."""
        return None

    def concat(self, stacks: list[Any]) -> Any:
        """A new stack, of those one after the other."""
        return self.namespace.concat(stacks)

    def index(self, places: np.ndarray) -> Any:
        """Places in a stack, for `take`."""
        return self.asarray(places)

    def take(self, x: Any, index: Any) -> Any:
        """A new stack, of what a stack has at these places."""
        return self.namespace.take(x, index, axis=0)

    @property
    def namespace(self) -> ModuleType:
        raise TypeError(f"arrays of {self.name} have no array API namespace for this")


def places_of_windows(length: int, window: int, step: int) -> np.ndarray:
    """The places of the elements of each window, a row for each."""
    return np.arange(0, length - window + 1, step)[:, None] + np.arange(window)


def on_device(x: Any) -> bool:
    """Whether x is an array whose memory the CPU does not read."""
    if isinstance(x, np.ndarray):
        return False
    if type(is_cpu := getattr(x, "is_cpu", None)) is bool:  # PyTorch's, whose __dlpack_device__ takes 2 us
        return not is_cpu
    try:
        if not hasattr(x, "__dlpack_device__"):
            return hasattr(x, "__cuda_array_interface__")
        return x.__dlpack_device__()[0] not in _HOST_DEVICES
    except Exception:  # without a number in DLPack, or no answer: `_gpu.device` refuses it by name
        return True


def overrides_ufuncs(x: Any) -> bool:
    return hasattr(x, "__array_ufunc__") and not isinstance(x, np.ndarray | np.generic)


def type_name(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")

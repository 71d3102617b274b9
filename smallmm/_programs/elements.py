"""The functions of the array API for arrays of `smallmm.cuda`: fused functions of their elements or lines,
views, and copies from the host. Two functions of info serve every library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from operator import index
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from .._gpu.device_array import DeviceArray, empty_on, is_dense
from .dtypes import BOOL, COMPLEX, FLOATS, INT32
from .fuse import Fused, fuse
from .symbol_elementwise import ELEMENTWISE, truth_as_number
from .symbol_shapes import SHAPES

# --- element by element ---------------------------------------------------------------------------------


def _sinh(z: Any) -> Any:
    """(e^z - e^-z) / 2; of complex numbers -i sin(i z)."""
    if z.dtype not in COMPLEX:
        return (ELEMENTWISE["expm1"](z) - ELEMENTWISE["expm1"](-z)) / 2
    sine = ELEMENTWISE["sin"](z.record.joined(-z.imag, z.real))
    return z.record.joined(sine.imag, -sine.real)


def _atanh(z: Any) -> Any:
    """By logarithms of 1 and what is as small as z."""
    if z.dtype not in COMPLEX:
        return ELEMENTWISE["log1p"](2 * z / (1 - z)) / 2
    x, y = z.real, z.imag
    size = ELEMENTWISE["log1p"](4 * x / ((1 - x) * (1 - x) + y * y))
    angle = ELEMENTWISE["arctan2"](2 * y, (1 - x) * (1 + x) - y * y)
    return z.record.joined(size / 4, angle / 2)


_ELEMENTS: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    "copy": lambda x: x,
    "sinh": _sinh,
    "atanh": _atanh,
    "exponent": lambda x: x.record.map("exponent", x),
    "power_of_two": lambda x: x.record.map("scaled", 1.0, x),
    "bitwise_invert": ELEMENTWISE["invert"],
    "complex": lambda re, im: re.record.joined(re, im),
}
# Of integers they are integers, as NumPy has it; and these sums are of int64
_WHOLE = frozenset(
    [
        *("add", "subtract", "multiply", "negative", "absolute", "abs", "sign", "minimum", "maximum"),
        *("where", "clip", "copy", "max", "min"),
    ]
)
_SUMS = frozenset(["sum", "prod", "cumsum"])
_INT64 = np.dtype("i8")


def _integer(name: str, operands: Sequence[Any]) -> np.dtype | None:
    """The dtype of a function's results if they are integers, which are computed in float64; else None."""
    dtypes = {np.dtype(getattr(x, "dtype", type(x))) for x in operands}
    strong = {x.dtype for x in operands if isinstance(x, DeviceArray)}
    if name in _SUMS and all(x.kind in "biu" for x in dtypes):
        return _INT64
    if name in _WHOLE and all(x.kind in "biu" for x in dtypes) and strong != {BOOL}:
        return np.result_type(*strong)
    return None


def _fused(
    function: Callable[..., Any], name: str, signature: str, integer: np.dtype | None
) -> Fused[Any, Any]:
    def computed(*operands: Any) -> Any:
        result = function(*operands)
        return result if integer is None else result.record.converted(truth_as_number(result), integer)

    computed.__name__ = name
    return fuse(computed, signature)


@cache
def _of_elements(name: str, count: int, integer: np.dtype | None) -> Fused[Any, Any]:
    return _fused(_ELEMENTS[name], name, ",".join(["()"] * count), integer)


def elementwise(name: str, *operands: Any) -> Any:
    """A function of each element of arrays, and of numbers."""
    return _of_elements(name, len(operands), _integer(name, operands))(*operands)


@cache
def _power(y: float) -> Fused[Any, Any]:
    return _fused(lambda x: x**y, "pow", "()", None)


def power(x: Any, y: Any) -> Any:
    """Small whole powers are products, and halves are roots, as of NumPy."""
    return _power(y)(x) if type(y) in (int, float) else elementwise("pow", x, y)


@cache
def _conversion(dtype: np.dtype) -> Fused[Any, Any]:
    return _fused(
        lambda x: x if dtype.kind in "iu" else x.astype(dtype),
        "astype",
        "()",
        dtype if dtype.kind in "iu" else None,
    )


def astype(x: DeviceArray, dtype: Any, *, copy: bool = True) -> DeviceArray:
    """In another dtype. Truth is what is not 0."""
    wanted = np.dtype(dtype)
    if wanted == x.dtype:
        return elementwise("copy", x) if copy else x
    return elementwise("not_equal", x, 0) if wanted == BOOL else _conversion(wanted)(x)


@fuse
def narrowed(pivots: Any) -> Any:
    """int32; what does not fit that becomes another number that is no row."""
    return np.clip(pivots, -(2**31), 2**31 - 1).astype(np.int32)


def _frexp(x: DeviceArray) -> tuple[None, DeviceArray]:
    """No mantissa, and the exponent, as a number."""
    return None, elementwise("exponent", x)


def _full_like(x: DeviceArray, value: float, dtype: Any = None, **device: Any) -> DeviceArray:
    """One element, seen everywhere. A kernel writes it, so that a CUDA graph may."""
    if not x.size:
        return x.empty(x.shape, np.dtype(dtype or x.dtype))
    one = elementwise("where", True, value, x[(0,) * x.ndim])
    return _broadcast_to(astype(one, dtype or x.dtype, copy=False), x.shape)


# --- views ----------------------------------------------------------------------------------------------


def _view(function: Callable[..., Any]) -> Callable[..., DeviceArray]:
    def view(x: DeviceArray, *arguments: Any) -> DeviceArray:
        return x.viewed(function, *arguments)

    return view


def _dense(x: DeviceArray) -> DeviceArray:
    return x if is_dense(x, tuple(range(x.ndim))) else elementwise("copy", x)


def _reshape(x: DeviceArray, shape: Any, *, copy: bool | None = None) -> DeviceArray:
    return _dense(x).viewed(np.reshape, shape)


_broadcast_to = _view(np.broadcast_to)
_permute_dims = _view(np.transpose)
_moveaxis = _view(np.moveaxis)


def _diagonal(x: DeviceArray, *, offset: int = 0) -> DeviceArray:
    return x.viewed(np.diagonal, offset, -2, -1)


def _real(x: DeviceArray) -> DeviceArray:
    return x.viewed(np.real) if x.dtype in COMPLEX else x


def _imag(x: DeviceArray) -> DeviceArray:
    return x.viewed(np.imag) if x.dtype in COMPLEX else _full_like(x, 0)


# --- along axes -----------------------------------------------------------------------------------------


@cache
def _of_lines(name: str, integer: np.dtype | None) -> Fused[Any, Any]:
    result = "(n)" if name == "cumsum" else "()"
    return _fused(lambda x: SHAPES[name](x, -1), name, f"(n)->{result}", integer)


def _reduction(name: str) -> Callable[..., DeviceArray]:
    def reduced(x: DeviceArray, axis: Any = None, *, keepdims: bool = False) -> DeviceArray:
        given = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = sorted(normalize_axis_tuple(given, x.ndim))
        kept = [i for i in range(x.ndim) if i not in axes]
        lines = _permute_dims(x, (*kept, *axes))
        if len(axes) != 1:
            lines = _reshape(lines, (*(x.shape[i] for i in kept), prod(x.shape[i] for i in axes)))
        result = _of_lines(name, _integer(name, [x]))(lines)
        return result.viewed(np.expand_dims, tuple(axes)) if keepdims else result

    return reduced


def _cumsum(x: DeviceArray, axis: int = 0) -> DeviceArray:
    return _moveaxis(_of_lines("cumsum", _integer("cumsum", [x]))(_moveaxis(x, axis, -1)), -1, axis)


def _concat(arrays: Sequence[DeviceArray], axis: int | None = 0) -> DeviceArray:
    """Side by side: stacks are copied one after the other, of which that axis is the first one."""
    dtype = np.result_type(*(x.dtype for x in arrays))
    arrays = [astype(x, dtype, copy=False) for x in arrays]
    arrays = [_reshape(x, (-1,)) for x in arrays] if axis is None else arrays
    axis = normalize_axis_index(axis or 0, arrays[0].ndim)
    parts = [_dense(_moveaxis(x, axis, 0)) for x in arrays if x.shape[axis]]
    return _moveaxis(parts[0].joined(parts), 0, axis) if parts else arrays[0]


def _stack(arrays: Sequence[DeviceArray], axis: int = 0) -> DeviceArray:
    return _concat([x.viewed(np.expand_dims, axis) for x in arrays], axis)


def _take(x: DeviceArray, indices: Any, axis: int = 0) -> DeviceArray:
    """Of places that the host knows, or waits for: copies of neighbours together."""
    places = np.asarray(indices.to_host() if isinstance(indices, DeviceArray) else indices)
    moved = _dense(_moveaxis(x, axis, 0))
    runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    taken = [moved[int(run[0]) : int(run[0]) + len(run)] for run in runs if len(run)]
    return _moveaxis(_concat(taken) if taken else moved[:0], 0, axis)


# --- from the host --------------------------------------------------------------------------------------


def _on(device: int, x: np.ndarray) -> DeviceArray:
    result = empty_on(device, x.shape, x.dtype)
    result[...] = x
    return result


def _tril(x: DeviceArray, *, k: int = 0) -> DeviceArray:
    below = _on(x.device, np.tri(x.shape[-2], x.shape[-1], k, dtype=bool))
    return elementwise("where", below, x, False if x.dtype == BOOL else 0)


def _triu(x: DeviceArray, *, k: int = 0) -> DeviceArray:
    below = _on(x.device, np.tri(x.shape[-2], x.shape[-1], k - 1, dtype=bool))
    return elementwise("where", below, False if x.dtype == BOOL else 0, x)


class Namespace:
    """The functions, of which those that make arrays put them on one device."""

    __name__ = "smallmm.cuda"
    bool, int32, int64 = BOOL, INT32, _INT64
    float32, float64 = FLOATS
    complex64, complex128 = COMPLEX
    float16 = np.dtype("f2")
    pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
    finfo = staticmethod(np.finfo)
    isdtype = staticmethod(np.isdtype)
    result_type = staticmethod(np.result_type)

    def __init__(self, device: int) -> None:
        self._device = device

    def asarray(self, x: Any, *, dtype: Any = None, device: Any = None, copy: Any = None) -> DeviceArray:
        if isinstance(x, DeviceArray):
            return astype(x, dtype or x.dtype, copy=bool(copy))
        return _on(self._device if device is None else index(device), np.asarray(x, dtype))

    def empty(self, shape: Any, *, dtype: Any = np.float64, device: Any = None) -> DeviceArray:
        shape = shape if isinstance(shape, tuple) else (shape,)
        return empty_on(self._device if device is None else index(device), shape, np.dtype(dtype))

    def full(self, shape: Any, value: Any, *, dtype: Any = None, device: Any = None) -> DeviceArray:
        return _broadcast_to(self.asarray(value, dtype=dtype, device=device), shape)

    def zeros(self, shape: Any, *, dtype: Any = np.float64, device: Any = None) -> DeviceArray:
        return self.full(shape, 0, dtype=dtype, device=device)

    def ones(self, shape: Any, *, dtype: Any = np.float64, device: Any = None) -> DeviceArray:
        return self.full(shape, 1, dtype=dtype, device=device)

    def eye(self, n: int, m: int | None = None, /, *, k: int = 0, **options: Any) -> DeviceArray:
        return self.asarray(np.eye(n, m, k), **options)

    def arange(self, *limits: Any, dtype: Any = None, device: Any = None) -> DeviceArray:
        return self.asarray(np.arange(*limits), dtype=dtype, device=device)


def _function(name: str) -> Callable[..., Any]:
    return lambda *operands: elementwise(name, *operands)


FUNCTIONS: dict[str, Any] = {
    **{name: _function(name) for name in _ELEMENTS},
    "pow": power,
    "astype": astype,
    "frexp": _frexp,
    "full_like": _full_like,
    "zeros_like": lambda x, **options: _full_like(x, 0, **options),
    "ones_like": lambda x, **options: _full_like(x, 1, **options),
    "empty_like": lambda x, *, dtype=None: x.empty(x.shape, np.dtype(dtype or x.dtype)),
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "permute_dims": _permute_dims,
    "moveaxis": _moveaxis,
    "expand_dims": lambda x, *, axis=0: x.viewed(np.expand_dims, axis),
    "squeeze": lambda x, axis: x.viewed(np.squeeze, axis),
    "flip": lambda x, *, axis=None: x.viewed(np.flip, axis),
    "matrix_transpose": lambda x: x.mT,
    "real": _real,
    "imag": _imag,
    **{name: _reduction(name) for name in ("sum", "prod", "mean", "max", "min", "any", "all")},
    "cumsum": _cumsum,
    "concat": _concat,
    "stack": _stack,
    "take": _take,
    "tril": _tril,
    "triu": _triu,
}


class _Linalg:
    """The functions of matrices that are views; smallmm has the others."""

    diagonal = staticmethod(_diagonal)


Namespace.linalg = _Linalg  # type: ignore[attr-defined]
for _name, _its in FUNCTIONS.items():
    setattr(Namespace, _name, staticmethod(_its))
namespace_on = cache(Namespace)


# --- info -----------------------------------------------------------------------------------------------


@fuse("(k)->()")
def first_code(info: Any) -> Any:
    """The first number that is not 0. Orders are exact in float32; JAX may have no float64."""
    numbers = info.astype(np.float32)
    code = numbers[-1]
    for i in reversed(range(numbers.shape[0] - 1)):
        code = np.where(numbers[i] != 0, numbers[i], code)
    return code.astype(np.int32)


@cache
def no_code(core: int) -> Any:
    """The function that gives 0 for each array with so many dimensions."""
    return fuse(f"({','.join(f'd{i}' for i in range(core))})->()")(lambda x: np.zeros((), np.int32))

"""Dimensions and dtypes of a gufunc's operands and results."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import zip_longest
from numbers import Number
from threading import Lock
from typing import Any

import numpy as np

from .. import _core

NUMBERS = (int, float, complex)  # Python's, which have no dtype of their own and follow the arrays
NUMPYS = ("matmul", "matvec", "vecmat")  # gufuncs that NumPy has too
PRODUCTS = frozenset(name for name, (operation, _) in _core.gufunc_rows.items() if operation == "MATMUL")
SCALED = ("gemm", "gemm_tensor")  # products with alpha and beta
MAX_ORDER = _core.limits["order"]  # of the kernels of all but products
LONGEST = _core.limits["longest"]  # order of matrices of diagonals


def is_number(x: Any) -> bool:
    """Whether it is a number, or an array of one without dimensions."""
    return isinstance(x, Number) or (isinstance(x, np.ndarray) and x.ndim == 0)


def is_zero(x: Any) -> bool:
    return is_number(x) and bool(x == 0)


def has_kernel(m: int, n: int, most: int = MAX_ORDER) -> bool:
    """Whether kernels of all but products take m x n matrices."""
    return min(m, n) <= most and m * n <= most**2


def device_has_kernel(operation: str, dtype: np.dtype, m: int, k: int, n: int) -> bool:
    """Whether there is a CUDA kernel of an operation for such matrices."""
    if is_of_diagonals(operation):
        return min(k, n) >= 1 and n <= LONGEST and (m >= 1 or n == 1)
    if min(m, k, n) < 1:
        return False
    if operation == "MATMUL":
        return _core.cuda_takes(_core.batched_matmul, dtype, m, k, n)
    return has_kernel(m, n, _core.cuda_max_order(operation, dtype))


def is_of_diagonals(operation: str) -> bool:
    """Whether the first operand of an operation is diagonals of A, whose order may be large."""
    return _core.operations[operation][0][0] != "a"


Dimensions = tuple[tuple[str, ...], ...]


def core_dimensions(gufunc: np.ufunc) -> tuple[Dimensions, Dimensions]:
    """The core dimensions of each input and of each output, optional ones with their "?"."""
    return _dimensions_in(str(gufunc.signature))


@cache
def _dimensions_in(signature: str) -> tuple[Dimensions, Dimensions]:
    inputs, outputs = (
        tuple(tuple(dims.split(",")) if dims else () for dims in re.findall(r"\((.*?)\)", part))
        for part in signature.split("->")
    )
    return inputs, outputs


def absent_dimensions(operands: Iterable[Any], inputs: Dimensions) -> set[str]:
    """The optional core dimensions (?) that these operands lack."""
    return {
        dim
        for x, dims in zip(operands, inputs, strict=True)
        if np.ndim(x) < len(dims)
        for dim in dims
        if dim.endswith("?")
    }


def with_dimensions(x: Any, dims: tuple[str, ...], absent: set[str]) -> Any:
    """An array, or a number, with a length of 1 for each of its core dimensions that is absent."""
    if absent.isdisjoint(dims):
        return x
    batch = x.ndim - sum(dim not in absent for dim in dims)
    lengths = iter(x.shape[batch:])
    return x.reshape((*x.shape[:batch], *(1 if dim in absent else next(lengths) for dim in dims)))


def without_dimensions(x: Any, dims: tuple[str, ...], absent: set[str]) -> Any:
    """The array that `with_dimensions` was given."""
    if absent.isdisjoint(dims):
        return x
    batch = x.ndim - len(dims)
    lengths = [n for n, dim in zip(x.shape[batch:], dims, strict=True) if dim not in absent]
    return x.reshape((*x.shape[:batch], *lengths))


def _present_dimensions(gufunc: np.ufunc, operands: dict[str, Any]) -> tuple[Dimensions, Dimensions]:
    """The core dimensions that these operands and their results have: optional ones (?) if theirs suffice."""
    inputs, outputs = core_dimensions(gufunc)
    absent = absent_dimensions(operands.values(), inputs)
    inputs, outputs = (
        tuple(tuple(dim.rstrip("?") for dim in dims if dim not in absent) for dims in side)
        for side in (inputs, outputs)
    )
    return inputs, outputs


def fixed_signature(gufunc: np.ufunc, operands: dict[str, Any]) -> str:
    """The signature for these operands, without optional dimensions."""
    return "->".join(
        ",".join("(" + ",".join(dims) + ")" for dims in side)
        for side in _present_dimensions(gufunc, operands)
    )


def core_sizes(gufunc: np.ufunc, operands: dict[str, np.ndarray]) -> dict[str, int]:
    """The size of each core dimension of operands that fit."""
    inputs, _ = _present_dimensions(gufunc, operands)
    return {
        dim: size
        for x, dims in zip(operands.values(), inputs, strict=True)
        for dim, size in zip(dims, x.shape[x.ndim - len(dims) :], strict=True)
    }


def has_sizes(shape: Sequence[Any]) -> bool:
    """Whether it may be part of a key: no size is a symbol, for which PyTorch traces any."""
    return all(type(size) is int for size in shape)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """As NumPy's, which takes no more than 32 dimensions, and no sizes that are symbols of PyTorch's."""
    result = []
    for sizes in zip_longest(*map(reversed, shapes), fillvalue=1):
        others = [size for size in sizes if size != 1] or [1]
        if any(size != others[0] for size in others):
            raise ValueError(f"shapes {shapes} do not broadcast")
        result.append(others[0])
    return tuple(result[::-1])


def without_ones(gufunc: np.ufunc, operands: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Operands that fit, without the batch dimensions that have length 1 in all of them."""
    inputs, _ = _present_dimensions(gufunc, operands)
    most = max(x.ndim - len(dims) for x, dims in zip(operands.values(), inputs, strict=True))
    shapes = [
        (1,) * (most - x.ndim + len(dims)) + x.shape
        for x, dims in zip(operands.values(), inputs, strict=True)
    ]
    ones = {d for d in range(most) if all(shape[d] == 1 for shape in shapes)}
    return {
        name: x.reshape([size for d, size in enumerate(shape) if d not in ones])
        for (name, x), shape in zip(operands.items(), shapes, strict=True)
    }


def batch_shape(gufunc: np.ufunc, operands: dict[str, np.ndarray]) -> tuple[int, ...]:
    """Of operands that fit."""
    inputs, _ = _present_dimensions(gufunc, operands)
    return broadcast_shapes(
        *(x.shape[: x.ndim - len(dims)] for x, dims in zip(operands.values(), inputs, strict=True))
    )


def broadcast(gufunc: np.ufunc, operands: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Operands that fit, with all batch dimensions."""
    inputs, _ = _present_dimensions(gufunc, operands)
    batch = batch_shape(gufunc, operands)
    return [
        np.broadcast_to(x, batch + x.shape[x.ndim - len(dims) :])
        for x, dims in zip(operands.values(), inputs, strict=True)
    ]


def output_shapes(gufunc: np.ufunc, operands: dict[str, np.ndarray]) -> list[tuple[int, ...]]:
    """The shapes of the outputs for operands that fit."""
    _, outputs = _present_dimensions(gufunc, operands)
    sizes, batch = core_sizes(gufunc, operands), batch_shape(gufunc, operands)
    return [batch + tuple(sizes[dim] for dim in dims) for dims in outputs]


def output_dtypes(gufunc: np.ufunc, operands: dict[str, Any], kwargs: dict[str, Any]) -> list[np.dtype]:
    """The dtypes of the results: of the gufunc's outputs, or narrower ones."""
    narrow = None if "dtype" in kwargs else narrow_dtype(gufunc, operands)
    return [narrow] if narrow else computed_dtypes(gufunc, operands, kwargs)


def narrow_dtype(gufunc: np.ufunc, operands: dict[str, Any]) -> np.dtype | None:
    """bool where a product has that dtype, as NumPy's has, but is computed in a wider one."""
    if gufunc.__name__ not in PRODUCTS or gufunc.__name__ in SCALED:  # by numbers, which are no bools
        return None
    common = np.result_type(*(dtype_of(x) for x in operands.values() if type(x) not in (int, float)))
    return common if common == np.bool_ else None


def computed_dtypes(gufunc: np.ufunc, operands: dict[str, Any], kwargs: dict[str, Any]) -> list[np.dtype]:
    """The dtypes of a gufunc's outputs."""
    dtypes = resolved_dtypes(gufunc, operands)[gufunc.nin :]
    return [np.dtype(kwargs.get("dtype") or dtype) for dtype in dtypes]


def number_dtype(gufunc: np.ufunc, operands: dict[str, Any]) -> np.dtype:
    """The dtype of a gufunc's numbers in memory; of a real and a complex factor the real one."""
    dtypes = resolved_dtypes(gufunc, operands)
    if gufunc.__name__ in PRODUCTS:
        return min(dtypes[:2], key=lambda dtype: dtype.kind == "c")
    return next(dtype for dtype in dtypes if is_number_type(dtype))


def operand_dtypes(gufunc: np.ufunc, operands: dict[str, Any]) -> dict[str, np.dtype]:
    """The dtype that each operand is converted to."""
    return dict(zip(operands, resolved_dtypes(gufunc, operands), strict=False))


def working_dtype(gufunc: np.ufunc, operands: dict[str, Any]) -> np.dtype:
    """The dtype that a gufunc computes in."""
    return arithmetic(number_dtype(gufunc, operands))


def is_number_type(dtype: np.dtype) -> bool:
    """Whether it is one of the core's element types."""
    return dtype.kind in "fc" or is_bfloat16(dtype)


def is_bfloat16(dtype: np.dtype) -> bool:
    """Whether it is that of ml_dtypes, which other packages bring with them."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def arithmetic(dtype: np.dtype) -> np.dtype:
    """The dtype that numbers are computed in: float32 for float16 and bfloat16, which are only stored."""
    return np.dtype(np.float32) if dtype == np.float16 or is_bfloat16(dtype) else dtype


_registering = Lock()
_registered: list[np.dtype] = []


def register_bfloat16(dtype: np.dtype) -> None:
    """Register the gufuncs' loops for bfloat16 when an array of that dtype is first seen."""
    if is_bfloat16(dtype) and not _registered:
        with _registering:
            if not _registered:
                _core.add_bfloat16(dtype)
                _registered.append(dtype)


def takes_complex(gufunc: Any) -> bool:
    """Whether a gufunc, or a composition, takes complex numbers."""
    if isinstance(gufunc, np.ufunc):
        return _core.gufunc_rows[gufunc.__name__][0] in _core.complex_operations
    return bool(gufunc.takes_complex)


def takes_complex_on_device(gufunc: Any) -> bool:
    """Whether there are kernels of complex matrices for it, or for all that it is composed of."""
    if isinstance(gufunc, np.ufunc):
        return _core.gufunc_rows[gufunc.__name__][0] in _core.cuda_complex_operations
    return gufunc.takes_complex and not gufunc.launch


def resolved_dtypes(gufunc: np.ufunc, operands: dict[str, Any]) -> tuple[np.dtype, ...]:
    """Of inputs and outputs."""
    inputs = (type(x) if type(x) in NUMBERS else dtype_of(x) for x in operands.values())
    return gufunc.resolve_dtypes((*inputs, *(None,) * gufunc.nout))


def is_complex(x: Any) -> bool:
    """Whether an array of any library has complex elements."""
    dtype = getattr(x, "dtype", None)
    return dtype.kind == "c" if isinstance(dtype, np.dtype) else "complex" in str(dtype)


def dtype_of(x: Any) -> np.dtype:
    """The dtype that NumPy sees in an array of any library and device, or in what can become one."""
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        return np.asarray(x).dtype
    return dtype if isinstance(dtype, np.dtype) else np.dtype(str(dtype).rpartition(".")[2])


def stand_in(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of that shape without memory to speak of."""
    return np.broadcast_to(np.zeros((), dtype), shape)

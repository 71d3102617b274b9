"""What functions composed of others share: the call for arrays of any library, and sums and extremes in terms
of a library's namespace."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from .._base.composition import CHUNK, Composition, constant, ones
from .._base.errors import no_array, shown, unfit_out
from .._base.shapes import dtype_of, is_complex
from .._calls.arrays import call, copy_to, without_labels
from .._functions.products import matvec, vecmat
from .._libraries import library_of
from .._libraries.dask import along_last, is_lazy


def composed(composition: Composition, operands: dict[str, Any], out: Any = None) -> Any:
    """The composition of arrays of any library; `out` is an array, or a tuple with one for each output."""
    none = isinstance(out, tuple) and out and all(x is None for x in out)
    answer = composition.directly(tuple(operands.values()), None if none else out)
    if answer is not NotImplemented:
        return answer
    return call(composition.op, composition, operands, out, {})  # type: ignore[arg-type]


def array_of(op: str, name: str, x: Any) -> Any:
    """x, or the array that NumPy makes of it."""
    x = without_labels(x)
    if hasattr(x, "ndim") and hasattr(x, "dtype"):  # a memoryview has one of them
        return x
    try:
        return np.asarray(x)
    except Exception as error:
        raise no_array(op, name, x, error) from None


def in_one_dtype(op: str, arrays: Sequence[Any], dtype: Any = None) -> list[Any]:
    """Arrays of one dtype in the processor's order of bytes: the given one, or NumPy's for all of them. What
    is computed of some of them has the precision of the result then. Real ones stay real beside complex ones,
    if no dtype is given."""
    first = arrays[0].dtype
    if dtype is None and all(x.dtype == first for x in arrays) and getattr(first, "isnative", True):
        return list(arrays)
    try:
        common = np.result_type(*map(dtype_of, arrays)) if dtype is None else np.dtype(dtype)
    except TypeError:
        given = " and ".join(dict.fromkeys(full_dtype_name(x) for x in arrays))
        raise TypeError(f"{op}: dtypes {given} have none in common; convert one of them") from None
    common = np.dtype(np.float64) if common.kind in "iu" and dtype is None else common.newbyteorder("=")
    real = np.finfo(common).dtype if common.kind == "c" and dtype is None else common
    wanted = (common if dtype_of(x).kind == "c" else real for x in arrays)
    names = (library_of(x).nearest(kind).name for x, kind in zip(arrays, wanted, strict=True))
    return [
        x
        if full_dtype_name(x) == name and getattr(x.dtype, "isnative", True)
        else cast(namespace_of(x), x, name)
        for x, name in zip(arrays, names, strict=True)
    ]


def written(op: str, answer: Any, out: Any, casting: Any = "same_kind") -> Any:
    """The answer, or `out`, of the same shape, into which it is written."""
    if out is None:
        return answer
    if not hasattr(out, "shape"):
        raise TypeError(f"{op}: out is {shown(out)}; expected an array")
    if tuple(out.shape) != tuple(answer.shape):
        raise ValueError(f"{op}: out has shape {tuple(out.shape)}; expected {tuple(answer.shape)}")
    if isinstance(out, np.ndarray):
        unfit = unfit_out(op, "out", out, dtype_of(answer), casting)
        if unfit is not None:
            raise unfit
    copy_to(out, answer, casting)
    return out


def dimensions(x: Any) -> int:
    """How many dimensions x has, which may be what NumPy makes an array of."""
    ndim = getattr(x, "ndim", None)
    return np.ndim(x) if ndim is None else ndim


def permuted(x: Any, axes: tuple[int, ...]) -> Any:
    """x with its dimensions in this order, without a copy."""
    if axes == tuple(range(len(axes))):
        return x
    if isinstance(x, np.ndarray) or not hasattr(x, "ndim"):
        return np.transpose(x, axes)
    return namespace_of(x).permute_dims(x, axes)


def namespace_of(x: Any) -> Any:
    """The array API namespace of an array's library."""
    if isinstance(x, np.ndarray):
        return np
    from array_api_compat import array_namespace

    try:
        return array_namespace(x)
    except TypeError:
        raise TypeError(f"arrays of {library_of(x).name} have no array API namespace for this") from None


# --- in terms of a library's namespace -----------------------------------------------------------------


HALVES = ("float16", "bfloat16")  # dtypes of numbers that are computed in float32


def full_dtype_name(x: Any) -> str:
    """The name of its dtype, which all libraries share."""
    return x.dtype.name if isinstance(x.dtype, np.dtype) else str(x.dtype).rpartition(".")[2]


def dtype_name(x: Any) -> str:
    """Of the numbers that x consists of."""
    return _dtype_name(x.dtype)


@lru_cache(maxsize=64)
def _dtype_name(dtype: Any) -> str:
    return "float32" if str(dtype).endswith(("float32", "complex64")) else "float64"


def constant_of(xp: Any, values: Any, x: Any) -> Any:
    """Values that do not change with x, as a library has them that records them as results of x: with the
    derivative 0."""
    return values if xp is np else xp.where(xp.zeros_like(x) != 0, x, values)


def magnitudes(xp: Any, x: Any) -> Any:
    """Absolute values, in a fixed order: the bits of NumPy's of complex numbers depend on strides."""
    if not is_complex(x):
        return xp.abs(x)
    re, im = xp.abs(xp.real(x)), xp.abs(xp.imag(x))
    most = xp.maximum(re, im)
    usable = (most > 0) & xp.isfinite(most)
    _, exponents = xp.frexp(xp.where(usable, most, xp.ones_like(most)))
    scale = power_of_two(xp, -exponents, most)
    re, im = re * scale, im * scale
    squares = xp.where(usable, re * re + im * im, xp.ones_like(most))  # the root of 0 has no derivative
    others = xp.where(most == 0, xp.zeros_like(most), most)  # a minimum
    return xp.where(usable, xp.sqrt(squares) / scale, others)


def parts(xp: Any, x: Any) -> Any:
    """Complex numbers as pairs of real ones along the last axis; real ones are themselves."""
    if not is_complex(x):
        return x
    return xp.reshape(xp.stack([xp.real(x), xp.imag(x)], axis=-1), (*x.shape[:-1], 2 * x.shape[-1]))


def joined(xp: Any, re: Any, im: Any) -> Any:
    """Complex numbers of these parts. The sum re + 1j * im would make NaN of infinities."""
    if hasattr(xp, "joined"):  # a function that is recorded
        return xp.joined(re, im)
    if hasattr(xp, "complex"):  # PyTorch's function, which has a derivative: its views do not
        return xp.complex(re, im)
    if type(re).__module__.startswith("jax"):  # neither do those of JAX
        import jax

        return jax.lax.complex(re, im)
    return xp.stack([re, im], axis=-1).view(xp.result_type(re, xp.complex64))[..., 0]


def products(xp: Any, x: Any, y: Any) -> Any:
    """Element by element, every operation rounded: so are NumPy's of complex numbers or not, by strides."""
    if not is_complex(x):
        return x * y
    a, b, c, d = xp.real(x), xp.imag(x), xp.real(y), xp.imag(y)
    return joined(xp, a * c - b * d, a * d + b * c)


def differences(xp: Any, x: Any, y: Any) -> Any:
    """Element by element. PyTorch multiplies complex y by 1, which would make NaN of infinities."""
    if is_complex(x) and hasattr(xp, "complex"):
        return joined(xp, xp.real(x) - xp.real(y), xp.imag(x) - xp.imag(y))
    return x - y


def cast(xp: Any, x: Any, dtype: str | np.dtype) -> Any:
    """Elements of another dtype, which NumPy may have of ml_dtypes, without warnings of what is too large."""
    if xp is not np:
        return xp.astype(x, getattr(xp, str(dtype)))
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def sums(xp: Any, x: Any) -> Any:
    """Along the last axis. Each `CHUNK` elements in a row are added in order, and so are their sums."""
    if is_lazy(x):
        return along_last(partial(sums, np), x)
    if is_complex(x):
        return joined(xp, sums(xp, xp.real(x)), sums(xp, xp.imag(x)))
    k = x.shape[-1]
    if k > CHUNK:
        whole = k - k % CHUNK
        chunks = x[..., :whole] if whole < k else x  # a part of a symbol would be copied
        parts = sums(xp, xp.reshape(chunks, (*x.shape[:-1], whole // CHUNK, CHUNK)))
        return sums(xp, xp.concat([parts, sums(xp, x[..., whole:])[..., None]], axis=-1))
    if x.ndim > 1 and (xp is np or (k < CHUNK and hasattr(xp, "unless"))):  # `long_sums` finds whole chunks
        return matvec(x, ones(xp, k, x))  # a column of one large product: the same order, and faster
    return matvec(x[..., None, :], ones(xp, k, x))[..., 0]


def column_sums(xp: Any, x: Any) -> Any:
    """Of each real matrix, its rows added in order."""
    return vecmat(ones(xp, x.shape[-2], x), x)


def norm_1(xp: Any, x: Any) -> Any:
    """The largest column sum of magnitudes of each matrix, 0 without elements."""
    return extreme(xp, column_sums(xp, magnitudes(xp, x)))


def extreme(xp: Any, x: Any, sign: float = 1) -> Any:
    """The largest along the last axis, 0 of none, or with a negative sign the smallest. NaN propagates."""
    if not x.shape[-1]:
        return sums(xp, x)
    return _reduced(xp, xp.max if sign > 0 else xp.min, x)


def count(xp: Any, x: Any) -> Any:
    """How many along the last axis are true."""
    return _reduced(xp, xp.sum, x)


def _reduced(xp: Any, reduce: Callable[..., Any], x: Any) -> Any:
    """A reduction along the last axis whose order does not matter. NumPy is slow along short ones."""
    if xp is np and x.shape[-1] <= CHUNK:
        return reduce(np.ascontiguousarray(np.moveaxis(x, -1, 0)) if x.ndim > 1 else x, axis=0)
    return reduce(x, axis=-1)


def all_true(xp: Any, condition: Any, unknown: bool) -> bool:
    """Whether a condition is true of all elements, also of those that a transformation does not show.
    unknown: the answer for arrays that have shapes alone."""
    if xp is np:
        return bool(np.all(condition))
    values = library_of(condition).elements(condition)
    if values is None and getattr(condition, "is_meta", False):
        return unknown
    return bool((condition if values is None else values).all())  # the library refuses what it only traces


def power_of_two(xp: Any, exponents: Any, like: Any) -> Any:
    """2^exponents in the dtype of `like`, exactly. Exponents beyond the normal numbers become the nearest."""
    least, values = _powers_of_two(dtype_name(like))
    inside = xp.clip(exponents, least, least + len(values) - 1)
    if hasattr(xp, "power_of_two"):  # a function that is recorded
        return xp.power_of_two(inside)
    inside = inside - least
    return xp.reshape(xp.take(constant(xp, values, like), xp.reshape(inside, (-1,))), inside.shape)


@cache
def _powers_of_two(dtype: str) -> tuple[int, np.ndarray]:
    info = np.finfo(dtype)
    return int(info.minexp), np.ldexp(1.0, np.arange(info.minexp, info.maxexp))

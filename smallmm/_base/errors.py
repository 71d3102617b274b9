"""Why a call failed: the fault of arrays, once NumPy has refused them, and of matrices, by their info.
Messages name the argument, the value that was given, and the values that were expected."""

from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .shapes import (
    PRODUCTS,
    broadcast_shapes,
    core_dimensions,
    is_bfloat16,
    is_complex,
    output_dtypes,
    takes_complex,
)

_DTYPES = "float16, bfloat16, float32, float64, an integer type or bool"
_COMPLEX = _DTYPES.replace("float64", "float64, complex64, complex128")

# The first output of these is the transpose of what the caller gave.
_TRANSPOSING = [name for name, (operation, _) in _core.gufunc_rows.items() if operation == "QR_RAW"]


class LinAlgError(np.linalg.LinAlgError):
    """Some matrices of a stack have no result. The exception holds the results of the others.

    For arguments of a wrong shape functions raise a plain `numpy.linalg.LinAlgError`, which is a ValueError,
    where NumPy does, and a ValueError elsewhere.

    Attributes
    ----------
    info : array of int32, shape (...)
        For each matrix 0, or what is wrong with it in LAPACK's terms: the first pivot, counted from 1, that
        is zero; the order of the first leading minor that is not positive; or how many eigenvalues did not
        converge.
    result : array or named tuple
        What the function would have returned: NaN for the matrices whose `info` is not 0.
    step : named tuple or None
        Of a fused function: the step that failed, its ``name`` and its ``place`` among those that `explain`
        lists, of the first matrix whose `info` is not 0.
    time : array of int64, shape (...), or None
        Of `scan`: for each series the time of its first failure, -1 if there is none.
    """

    _failed: Any = None  # of a scan: `Failures`, and the columns of info that they say something of

    def __init__(
        self, message: str, info: Any = None, result: Any = None, step: Any = None, time: Any = None
    ) -> None:
        super().__init__(message)
        self.time = time
        self.info = info
        self.result = result
        self.step = step


class NotInGraph(RuntimeError):
    """What no CUDA graph can have. `Composition.run` adds the name of the function."""


class Reason(NamedTuple):
    """What is wrong with matrices whose info is not 0."""

    numpys: str  # NumPy's own text, which callers compare with that of a single matrix
    what: str
    why: str  # of the first, whose info is k, or -step


SINGULAR = Reason("Singular matrix", "singular", "pivot {k} is zero or overflows (counted from 1)")
SINGULAR_TRIANGLE = Reason(
    "Singular matrix", "singular", "element {k} of the diagonal is zero (counted from 1)"
)
NOT_POSITIVE_DEFINITE = Reason(
    "Matrix is not positive definite",
    "not positive definite",
    "the leading minor of order {k} is not positive (counted from 1)",
)
WRONG_PIVOTS = Reason(
    "Wrong pivots",
    "given with pivots that ldl_factor does not give",
    "pivot {step} is none of its (counted from 1)",
)
NOT_ORTHOGONAL = Reason(
    "Singular values did not converge",
    "not converged",
    "pairs of rows that are not orthogonal: {k}",
)
NOT_CONVERGED = Reason(
    "Eigenvalues did not converge",
    "not converged",
    "elements beside the diagonal that are not negligible: {k}",
)
NO_SINGULAR_VALUES = Reason(
    "Singular values did not converge",
    "without singular values",
    "its elements are not finite, or the iteration did not converge",
)


def numerical_failure(op: str, info: np.ndarray, own_info: Any, result: Any, reason: Reason) -> LinAlgError:
    """The exception for a call some of whose info is not 0. own_info: the same in the caller's library."""
    first = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(info)))[: info.ndim]
    why = reason.why.format(k=info[first], step=abs(int(info[first])))
    if info.ndim == 0:
        message = f"{reason.numpys} ({op}: {why})".replace(" (counted from 1))", ", counted from 1)")
    else:
        count = np.count_nonzero(info)
        message = (
            f"{op}: {count} of {info.size} matrices {'is' if count == 1 else 'are'} {reason.what}, the first "
            f"at index {first}: {why}; see .info and .result of this exception for every matrix"
        )
    return LinAlgError(message, own_info, result)


def shown(x: Any) -> str:
    """A wrong argument in a message: itself, or what it is where that would be long."""
    shape = getattr(x, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"a {type(x).__name__} of shape {shape}"
    text = repr(x)
    return text if len(text) <= 60 else f"a {type(x).__name__}"


def refuse_complex(op: str, name: str, x: Any) -> None:
    """For an argument that is real though others are complex."""
    array = x if hasattr(x, "dtype") else np.asarray(x)
    if is_complex(array):
        raise wrong_dtype(op, name, array.dtype)


def wrong_dtype(op: str, name: str, dtype: Any, takes_complex: bool = False, where: str = "") -> TypeError:
    expected = _COMPLEX if takes_complex else _DTYPES
    return TypeError(f"{op}: {name} has dtype {dtype}; expected {expected}{where}")


def wrong_dtype_on_device(op: str, name: str, dtype: Any) -> TypeError:
    return wrong_dtype(op, name, dtype, where=" on a device")


def no_array(op: str, name: str, x: Any, error: Exception) -> ValueError | TypeError:
    """The exception for what NumPy makes no array of."""
    has_arrays = isinstance(x, list | tuple) and any(hasattr(y, "shape") for y in x)
    advice = "; smallmm.Group takes arrays of different shapes" if has_arrays else ""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{op}: {name} is a {type(x).__name__} that NumPy cannot make an array of: {error}{advice}")


def explain_failure(
    op: str, gufunc: np.ufunc, operands: dict[str, Any], outs: dict[str, Any], kwargs: dict[str, Any]
) -> Exception | None:
    """The exception that names the argument at fault, what was given and what was expected. None if no
    argument is at fault, or one of NumPy's keywords is, which NumPy names itself."""
    arrays = {}
    for name, x in operands.items():
        try:
            arrays[name] = np.asanyarray(x)
        except Exception as error:
            return no_array(op, name, x, error)
    for name, array in arrays.items():
        if name == "pivots":
            if array.dtype.kind not in "iu":
                return TypeError(f"{op}: {name} has dtype {array.dtype}; expected an integer type")
        elif not is_supported(array.dtype, takes_complex(gufunc)):
            return wrong_dtype(op, name, array.dtype, takes_complex(gufunc))
    if (mixed := _without_common_dtype(op, arrays)) is not None:
        return mixed
    for (name, out), dtype in zip(outs.items(), output_dtypes(gufunc, operands, kwargs), strict=False):
        if out is None:
            continue
        if not isinstance(out, np.ndarray):
            return TypeError(f"{op}: {name} is a {type(out).__name__}; expected a numpy.ndarray")
        if (unfit := unfit_out(op, name, out, dtype, kwargs.get("casting", "same_kind"))) is not None:
            return unfit
    if "axes" in kwargs:
        return None
    return _explain_shapes(op, gufunc, arrays, outs)


def unfit_out(
    op: str, name: str, out: np.ndarray, dtype: Any, casting: Any = "same_kind"
) -> Exception | None:
    """The exception for an array to which a result of that dtype cannot be written, if it is one."""
    if not np.can_cast(dtype, out.dtype, casting):
        return TypeError(
            f"{op}: {name} has dtype {out.dtype}; the result is {dtype}, and casting is {casting!r}"
        )
    if not out.flags.writeable:
        return ValueError(f"{op}: {name} is read-only; expected an array that can be written to")
    return None


def refuse_misfits(op: str, gufunc: Any, operands: dict[str, Any]) -> None:
    """Raise the exception for operands that do not fit; arrays of their shapes and dtypes will do."""
    if (why := explain_failure(op, gufunc, operands, {}, {})) is not None:
        raise why


def is_supported(dtype: np.dtype, with_complex: bool) -> bool:
    """Whether it is a dtype that functions compute with, or convert."""
    if dtype.kind == "c":
        return with_complex and dtype.itemsize <= 16
    return (dtype.kind in "biuf" and dtype.itemsize <= 8) or is_bfloat16(dtype)


def _without_common_dtype(op: str, arrays: dict[str, np.ndarray]) -> TypeError | None:
    """NumPy has no dtype that holds float16 and bfloat16."""
    names = [name for name, x in arrays.items() if is_bfloat16(x.dtype)]
    halves = [name for name, x in arrays.items() if x.dtype == np.float16 and x.ndim]
    if not names or not halves:
        return None
    return TypeError(
        f"{op}: {halves[0]} has dtype float16 but {names[0]} has bfloat16; expected one of them, or float32, "
        "which holds both"
    )


def explain_pivots(op: str, gufunc: np.ufunc, pivots: Any) -> ValueError | None:
    """The exception for the first pivot of LU that is not a row which its step may exchange, if there is one.
    Of other factorizations, info says it."""
    if _core.gufunc_rows[gufunc.__name__][0] not in ("LU_SOLVE", "LU_RCOND", "REFINE"):
        return None
    array = np.asarray(pivots)
    n = array.shape[-1]
    wrong = np.argwhere((array < np.arange(n)) | (array >= n))
    if not len(wrong):
        return None
    *matrix, step = wrong[0].tolist()
    where = f" of the matrix at index {tuple(matrix)}" if matrix else ""
    return ValueError(
        f"{op}: pivots has {array[tuple(wrong[0])]} at step {step}{where}; expected one of the rows "
        f"{step} to {n - 1}: pivots count from 0, as SciPy's; PyTorch's count from 1: subtract 1"
    )


def _explain_shapes(
    op: str, gufunc: np.ufunc, arrays: dict[str, np.ndarray], outs: dict[str, Any]
) -> Exception | None:
    """LinAlgError, which is a ValueError, where numpy.linalg raises it."""
    inputs, outputs = core_dimensions(gufunc)
    solves = gufunc.__name__ not in PRODUCTS  # NumPy's products raise a plain ValueError
    sizes: dict[str, int] = {}
    owner: dict[str, str] = {}
    batch: tuple[int, ...] = ()
    batch_owner = ""
    absent: set[str] = set()

    for (name, array), dims in zip(arrays.items(), inputs, strict=True):
        if array.ndim < len(dims):  # optional dimensions (?) may be absent
            absent.update(dim for dim in dims if dim.endswith("?"))
            dims = tuple(dim for dim in dims if not dim.endswith("?"))
        if array.ndim < len(dims):
            return (np.linalg.LinAlgError if solves and len(dims) == 2 else ValueError)(
                f"{op}: {name} has shape {array.shape}; expected at least {len(dims)} "
                f"dimension{'s' if len(dims) > 1 else ''}, "
                f"{_shape_text(dims, {})}"
            )
        shape = array.shape[array.ndim - len(dims) :]
        if len(set(dims)) < len(dims) and len(set(shape)) > 1:
            return np.linalg.LinAlgError(
                f"{op}: {name} has shape {array.shape}; expected square matrices, {_shape_text(dims, sizes)}"
            )
        for dim, size in zip(dims, shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                other = owner[dim]
                return (np.linalg.LinAlgError if gufunc.__name__ == "lstsq" else ValueError)(
                    f"{op}: {name} has shape {array.shape}; expected {_shape_text(dims, sizes)} "
                    f"to match {other} of shape {arrays[other].shape}{_hint(dims, shape, sizes)}"
                )
            owner.setdefault(dim, name)
        stack = array.shape[: array.ndim - len(dims)]
        try:
            batch = broadcast_shapes(batch, stack)
        except ValueError:
            return ValueError(
                f"{op}: {name} has shape {array.shape}, whose batch dimensions {stack} do not broadcast "
                f"against {batch} of {batch_owner}"
            )
        batch_owner = f"{batch_owner} and {name}" if batch_owner else name

    whole = None  # the batch dimensions of the first of several outputs, which all have
    for (name, out), dims in zip(outs.items(), outputs, strict=False):
        if out is None or not sizes.keys() >= {dim for dim in dims if dim not in absent}:
            continue  # an output whose sizes the function itself has checked
        core = tuple(sizes[dim] for dim in dims if dim not in absent)
        stack = out.shape[: max(out.ndim - len(core), 0)]
        try:
            fits = out.shape[len(stack) :] == core and broadcast_shapes(batch, stack) == stack
        except ValueError:
            fits = False
        if not fits or (whole is not None and stack != whole):
            given, expected = out.shape, (batch if whole is None else whole) + core
            if gufunc.__name__ in _TRANSPOSING and name == "out[0]":
                given, expected = (shape[:-2] + shape[:-3:-1] for shape in (given, expected))
            return ValueError(f"{op}: {name} has shape {given}; expected {expected}")
        whole = stack
    return None


def _hint(dims: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> str:
    """For right-hand sides that look like a stack of vectors."""
    if dims[-1:] == ("k?",) and shape[-1] == sizes.get(dims[0]):
        return "; a stack of vectors is a stack of matrices of one column, b[..., None]"
    return ""


def _shape_text(dims: tuple[str, ...], sizes: dict[str, int]) -> str:
    return (
        "(..., " + ", ".join(str(sizes.get(dim, dim)).rstrip("?") for dim in dims) + ")" if dims else "(...)"
    )

"""Matrix products."""

from numbers import Number
from typing import Any, Literal, TypedDict, Unpack

from numpy.typing import ArrayLike, DTypeLike

from .. import _core
from .._base.catalog import computed_by
from .._base.errors import shown
from .._base.options import one_of
from .._base.shapes import dtype_of
from .._calls.arrays import call
from .._calls.calls import conjugated

_direct = _core.direct
_direct_batched_matmul = _direct["batched_matmul"]
_ONE, _ZERO = 1, 0  # small ints are one object each, which is recognised sooner than by type and value
Precision = Literal["fixed", "tensor"]


class UFuncKeywords(TypedDict, total=False):
    """The keywords of a NumPy generalised ufunc."""

    axes: list[tuple[int, ...]]
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"]
    dtype: DTypeLike
    order: Literal["K", "A", "C", "F"]
    subok: bool
    signature: Any


@computed_by("batched_matmul", "gemm", "batched_matmul_tensor", "gemm_tensor")
def batched_matmul(
    a: "ArrayLike",
    b: "ArrayLike",
    out: Any = None,
    *,
    alpha: "ArrayLike" = 1,
    beta: "ArrayLike" = 0,
    precision: "Precision" = "fixed",
) -> Any:
    """Products of two stacks of matrices: ``alpha * a @ b + beta * out``.

    Parameters
    ----------
    a : array_like, shape (..., m, k)
        A stack of matrices.
    b : array_like, shape (..., k, n)
        A stack of matrices. The batch dimensions of `a` and `b` broadcast; a broadcast matrix is not copied.
    out : array, shape (..., m, n), optional
        Where the result is written. It may be, or overlap, an input.
    alpha : array_like, shape (...), optional
        Factor of the product: one number, or one per matrix.
    beta : array_like, shape (...), optional
        Factor of the present contents of `out`, which must be given: one number, or one per matrix. Where it
        is zero, `out` is not read, so that NaN in it does not matter.
    precision : {"fixed", "tensor"}
        "tensor": of float16 and bfloat16 a CUDA device may use its tensor cores, where they are faster. They
        sum in float32, too, but round as the device does, so that bits depend on the device. On the CPU the
        result is that of "fixed".

    Returns
    -------
    array, shape (..., m, n)
        `out` if given. Otherwise a new array of the library of `a` and `b`.

    Raises
    ------
    ValueError
        Shapes do not match, `out` is read-only, or `beta` is given without `out`; `precision` is another
        word, or "tensor" with arrays that are not both of float16 or both of bfloat16.
    TypeError
        An argument is of extended precision or not numeric; arrays belong to different libraries or
        devices.

    See Also
    --------
    matmul : takes vectors, too, and NumPy's keywords.

    Notes
    -----
    float32, float64, complex64 and complex128 are computed in their own precision, integers and bools in
    float64; mixtures follow NumPy's rules. float16 and bfloat16 are computed in float32, and the result is
    rounded to them once; `alpha` and `beta` have their type, too. Products of bool, without `alpha` and
    `beta`, are bool: true where they are not zero.

    Each element is ``a[i, 0] * b[0, j]``, to which the products of k = 1, 2, ... are added in this order by
    fused multiply-add. A sum of more than 1024 products is made of such sums of 256 products each, which are
    added in a binary tree. The result is ``fma(alpha, sum, beta * out[i, j])``. Bits do not depend on the
    batch, strides, threads or the instruction set, except for the portable kernels on a CPU without FMA.
    ``|c - ab| <= (k + 2) u |a| |b|`` elementwise, where u is the unit roundoff; for k > 1024
    ``(258 + log2(k / 256)) u |a| |b|``, the logarithm rounded up. With precision "tensor" it is
    ``4 (min(k, 4096) + 32) u |a| |b|`` before the result is rounded, with the u of float32.

    2 m n k operations per matrix. Arbitrary strides are accepted: transposing with ``.mT`` copies nothing.
    A real matrix beside a complex one stays real: the parts of the result are those of two real products.
    Complex numbers: each part of a product adds the term of the first factor's real part, then that of its
    imaginary part, by fused multiply-add; infinities are not rescued. ``|x|`` is the modulus, and the bounds
    are three times as large.

    Unlike `numpy.matmul` it needs at least two dimensions, multiplies integers in float64, and gives no
    floating-point warnings.

    Examples
    --------
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> smallmm.batched_matmul(x.mT, x).shape
    (2, 4, 4)
    """
    plain = alpha is _ONE and beta is _ZERO
    gufunc = "batched_matmul" if plain else "gemm"
    if plain and precision == "fixed":
        result = _direct_batched_matmul(a, b, out)
    else:
        if precision != "fixed":
            gufunc += _form("batched_matmul", precision, {"a": a, "b": b})
        result = _direct[gufunc](a, b, out) if plain else _direct[gufunc](a, b, alpha, beta, out)
    if result is not NotImplemented:
        return result
    if plain:
        return call("batched_matmul", getattr(_core, gufunc), {"a": a, "b": b}, out, {})
    given = any(x is not None for x in (out if isinstance(out, tuple) else (out,)))
    if not given and not (isinstance(beta, Number) and beta == 0):
        raise ValueError(
            f"batched_matmul: out is None, but beta is {shown(beta)}; expected the array that beta multiplies"
        )
    operands = {"a": a, "b": b, "alpha": alpha, "beta": beta}
    return call("batched_matmul", getattr(_core, gufunc), operands, out, {})


@computed_by("matmul", "matmul_tensor")
def matmul(
    x1: "ArrayLike",
    x2: "ArrayLike",
    /,
    out: Any = None,
    *,
    precision: "Precision" = "fixed",
    **kwargs: "Unpack[UFuncKeywords]",
) -> Any:
    """Matrix product as in the Python array API standard and `numpy.matmul`.

    Parameters
    ----------
    x1 : array_like, shape (..., m, k) or (k,)
        A stack of matrices, or one vector, taken as a row.
    x2 : array_like, shape (..., k, n) or (k,)
        A stack of matrices, or one vector, taken as a column. Batch dimensions broadcast.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.
    precision : {"fixed", "tensor"}
        As in `batched_matmul`: "tensor" lets a CUDA device use its tensor cores.
    **kwargs
        ``axes``, ``casting``, ``dtype``, ``order``, ``subok`` and ``signature`` as in `numpy.matmul`, for
        NumPy arrays.

    Returns
    -------
    array, shape (..., m, n), without m or n where that argument is a vector
        `out` if given. A scalar when both are vectors.

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`.

    See Also
    --------
    batched_matmul : dtypes, accuracy, and how it differs from NumPy.

    Notes
    -----
    2 m n k operations per matrix.

    Examples
    --------
    >>> smallmm.matmul(np.ones((5, 2, 3)), np.ones(3)).shape
    (5, 2)
    """
    form = "" if precision == "fixed" else _form("matmul", precision, {"x1": x1, "x2": x2})
    return product_by("matmul", f"matmul{form}", x1, x2, out, kwargs)


@computed_by("matvec")
def matvec(x1: "ArrayLike", x2: "ArrayLike", /, out: Any = None, **kwargs: "Unpack[UFuncKeywords]") -> Any:
    """Products of a stack of matrices with a stack of column vectors, as `numpy.matvec`.

    Parameters
    ----------
    x1 : array_like, shape (..., m, k)
        A stack of matrices.
    x2 : array_like, shape (..., k)
        A stack of vectors. Batch dimensions broadcast.
    out : array, shape (..., m), optional
        Where the result is written. It may be, or overlap, an input.
    **kwargs
        As in `matmul`.

    Returns
    -------
    array, shape (..., m)
        `out` if given.

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`.

    See Also
    --------
    batched_matmul : dtypes, accuracy, and how it differs from NumPy.

    Notes
    -----
    2 m k operations per matrix.

    Examples
    --------
    >>> smallmm.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    array([3., 7.])
    """
    return product_by("matvec", "matvec", x1, x2, out, kwargs)


@computed_by("vecmat")
def vecmat(x1: "ArrayLike", x2: "ArrayLike", /, out: Any = None, **kwargs: "Unpack[UFuncKeywords]") -> Any:
    """Products of a stack of row vectors with a stack of matrices, as `numpy.vecmat`.

    Parameters
    ----------
    x1 : array_like, shape (..., k)
        A stack of vectors, of which the complex conjugate is taken.
    x2 : array_like, shape (..., k, n)
        A stack of matrices. Batch dimensions broadcast.
    out : array, shape (..., n), optional
        Where the result is written. It may be, or overlap, an input.
    **kwargs
        As in `matmul`.

    Returns
    -------
    array, shape (..., n)
        `out` if given.

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`.

    See Also
    --------
    batched_matmul : dtypes, accuracy, and how it differs from NumPy.

    Notes
    -----
    2 k n operations per matrix.

    Examples
    --------
    >>> smallmm.vecmat([1.0, 1.0], [[1.0, 2.0], [3.0, 4.0]])
    array([4., 6.])
    """
    return product_by("vecmat", "vecmat", conjugated(x1), x2, out, kwargs)


def product_by(
    op: str, gufunc: str, x1: Any, x2: Any, out: Any = None, kwargs: UFuncKeywords | None = None
) -> Any:
    """By that gufunc, for a function of that name."""
    if not kwargs:
        result = _direct[gufunc](x1, x2, out)
        if result is not NotImplemented:
            return result
    return call(op, getattr(_core, gufunc), {"x1": x1, "x2": x2}, out, {**(kwargs or {})})


def _form(op: str, precision: Any, operands: dict[str, Any]) -> str:
    """The end of the name of the gufunc that `precision` asks for."""
    if one_of(op, "precision", precision, ("fixed", "tensor")) == "fixed":
        return ""
    expected: tuple[str, ...] = ("float16", "bfloat16")
    for name, x in operands.items():
        dtype = str(getattr(x, "dtype", None) or dtype_of(x)).rpartition(".")[2]  # of PyTorch: torch.float16
        if dtype not in expected:
            words = " or ".join(expected)
            raise ValueError(f"{op}: {name} has dtype {dtype}; expected {words} with precision 'tensor'")
        expected = (dtype,)
    return "_tensor"

"""Cholesky factorization, and solves from its factor."""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .. import _core
from .._base.catalog import computed_by
from .._base.errors import NOT_POSITIVE_DEFINITE, LinAlgError
from .._base.options import flag, one_triangle, pair
from .._calls.calls import run, several

_direct_cholesky, _direct_cholesky_upper = _core.direct["cholesky"], _core.direct["cholesky_upper"]


class ChoFactorResult(NamedTuple):
    """The factor, and whether it is the lower one."""

    c: Any
    lower: bool


class CholeskyExResult(NamedTuple):
    """The factor, and info: 0, or the order of the first leading minor that is not positive."""

    L: Any
    info: Any


@computed_by("cholesky", "cholesky_upper")
def cholesky(
    a: "ArrayLike",
    /,
    *,
    upper: bool = False,
    lower: bool | None = None,
    out: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
) -> Any:
    """Factor each symmetric, or Hermitian, positive definite matrix as A = L L^H, or U^H U.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or Hermitian matrices, of which only the lower triangle is read, or the upper one
        if `upper`. Of the diagonal only the real part is read.
    upper : bool
        Whether to return U instead of L.
    lower : bool, optional
        SciPy's name for the opposite, whose default there is False. If it is None, `upper` decides.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.

    Returns
    -------
    array, shape (..., n, n)
        Triangular, zero in the other triangle.

    Raises
    ------
    LinAlgError
        Some matrices are not positive definite, or have NaN. The exception holds the other matrices' factors.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    cho_solve : solves with the factor.
    cholesky_ex : the same, with matrices that are not positive definite reported in an array.
    solve : dtypes, orders above 128.

    Notes
    -----
    ``|A - L L^H|_1 <= 10 n u |A|_1``. 1/3 n^3 operations per matrix. Right-looking, as in
    Golub and Van Loan, Matrix Computations, section 4.2.

    Examples
    --------
    >>> smallmm.cholesky([[4.0, 2.0], [2.0, 5.0]])
    array([[2., 0.],
           [1., 2.]])
    """
    upper = upper is not False and flag("cholesky", "upper", upper)
    if lower is not None:
        upper = not one_triangle("cholesky", "lower", lower, upper)
    results = _direct_cholesky_upper(a, out) if upper else _direct_cholesky(a, out)
    if results is not NotImplemented and results[1] is None:
        return results[0]
    gufunc = "cholesky_upper" if upper else "cholesky"
    return run("cholesky", gufunc, {"a": a}, (out,), None, NOT_POSITIVE_DEFINITE, results)


@computed_by("cholesky", "cholesky_upper")
def cholesky_ex(
    a: "ArrayLike", /, *, upper: bool = False, out: tuple[Any, Any] | None = None
) -> CholeskyExResult:
    """`cholesky` that never raises for matrices that are not positive definite: ``(L, info)``.

    ``info``, int32, shape (...), is 0, or k if the leading minor of order k is the first that is not
    positive; the factor of such a matrix is NaN.

    >>> smallmm.cholesky_ex([[[4.0]], [[-1.0]]]).info
    array([0, 1], dtype=int32)
    """
    outs = several("cholesky_ex", out, CholeskyExResult)
    gufunc = "cholesky_upper" if flag("cholesky_ex", "upper", upper) else "cholesky"
    return run("cholesky_ex", gufunc, {"a": a}, outs, CholeskyExResult)


@computed_by("cholesky", "cholesky_upper")
def cho_factor(
    a: "ArrayLike",
    lower: bool = False,
    *,
    out: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
) -> ChoFactorResult:
    """`cholesky` with the name, the default and the result of SciPy's function, which `cho_solve` takes.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric positive definite matrices, of which only the upper triangle is read, or the
        lower one if `lower`.
    lower : bool
        Whether to return L of A = L L^H instead of U of A = U^H U.
    out : array, shape (..., n, n), optional
        Where the factor goes. It may be, or overlap, the input.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.

    Returns
    -------
    ChoFactorResult
        ``c``, shape (..., n, n): the factor, zero in the other triangle (SciPy leaves that of `a` there).
        ``lower``: as given.

    Raises
    ------
    LinAlgError, ValueError, TypeError
        As `cholesky`.

    See Also
    --------
    cho_solve : solves with the factor.

    Notes
    -----
    Accuracy and operations are those of `cholesky`.

    Examples
    --------
    >>> smallmm.cho_solve(smallmm.cho_factor([[4.0, 2.0], [2.0, 5.0]]), [6.0, 7.0])
    array([1., 1.])
    """
    lower = flag("cho_factor", "lower", lower)
    gufunc = "cholesky" if lower else "cholesky_upper"
    try:
        c = run("cho_factor", gufunc, {"a": a}, (out,), None, NOT_POSITIVE_DEFINITE)
        return ChoFactorResult(c, lower)
    except LinAlgError as error:
        error.result = ChoFactorResult(error.result, lower)
        raise


@computed_by("cho_solve", "cho_solve_upper")
def cho_solve(
    c_and_lower: "tuple[ArrayLike, bool]",
    b: "ArrayLike",
    *,
    out: Any = None,
    overwrite_b: bool = False,
    check_finite: bool = False,
) -> Any:
    """Solve A X = B from the factor of `cholesky`.

    Parameters
    ----------
    c_and_lower : (c, lower)
        A factor, shape (..., n, n), and whether it is the lower one; only that triangle is read. That is
        ``(cholesky(a), True)``, ``(cholesky(a, upper=True), False)``, or the result of `cho_factor` here or
        in SciPy.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.
    overwrite_b, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    ValueError, TypeError
        As `solve`; `c_and_lower` is not a pair.

    See Also
    --------
    cholesky, cho_factor : the factor.
    solve : dtypes, orders above 128.

    Notes
    -----
    Two triangular solves. 2 n^2 k operations per matrix.

    Examples
    --------
    >>> smallmm.cho_solve((smallmm.cholesky([[4.0, 2.0], [2.0, 5.0]]), True), [6.0, 7.0])
    array([1., 1.])
    """
    c, lower = pair("cho_solve", "c_and_lower", c_and_lower, "(c, lower)")
    gufunc = "cho_solve" if flag("cho_solve", "lower", lower) else "cho_solve_upper"
    return run("cho_solve", gufunc, {"c": c, "b": b}, (out,))

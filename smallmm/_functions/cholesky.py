"""Cholesky factorization, and solves from its factor."""

from functools import partial
from typing import Any, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .. import _core
from .._base.catalog import computed_by
from .._base.errors import NOT_POSITIVE_DEFINITE
from .._base.options import flag, one_triangle, pair
from .._calls.calls import run
from .._calls.twins import twin_of

_direct_cholesky, _direct_cholesky_upper = _core.direct["cholesky"], _core.direct["cholesky_upper"]


class ChoFactorResult(NamedTuple):
    """The factor, and whether it is the lower one."""

    c: Any
    lower: bool


class ChoFactorExResult(NamedTuple):
    """`ChoFactorResult`, and info: 0, or the order of the first leading minor that is not positive."""

    c: Any
    lower: bool
    info: Any


class CholeskyExResult(NamedTuple):
    """The factor, and info: 0, or the order of the first leading minor that is not positive."""

    L: Any
    info: Any


@computed_by("cholesky", "cholesky_upper")
def cholesky(
    a: "ArrayLike",
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    out: Any = None,
) -> Any:
    """Factor each symmetric, or Hermitian, positive definite matrix as A = L L^H, or U^H U.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or Hermitian matrices, of which only the lower triangle is read, or the upper one
        if `upper`. Of the diagonal only the real part is read.
    lower : bool, optional
        SciPy's name for the opposite of `upper`, whose default there is False. None: `upper` decides.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    upper : bool
        Whether to return U instead of L.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

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


cholesky_ex = twin_of(
    cholesky,
    CholeskyExResult,
    "0, or the order k of the first leading minor that is not positive",
    {"[[[4.0]], [[-1.0]]]": "array([0, 1], dtype=int32)"},
)


@computed_by("cholesky", "cholesky_upper")
def cho_factor(
    a: "ArrayLike",
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: Any = None,
) -> ChoFactorResult:
    """`cholesky` with the name, the default and the result of SciPy's function, which `cho_solve` takes.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric positive definite matrices, of which only the upper triangle is read, or the
        lower one if `lower`.
    lower : bool
        Whether to return L of A = L L^H instead of U of A = U^H U.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, shape (..., n, n), optional
        Where the factor goes. It may be, or overlap, the input.

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
    cho_factor_ex : the same, with matrices that are not positive definite reported in an array.

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
    make = partial(ChoFactorResult, lower=lower)
    result: ChoFactorResult = run("cho_factor", gufunc, {"a": a}, (out,), make, NOT_POSITIVE_DEFINITE)
    return result


cho_factor_ex = twin_of(
    cho_factor,
    ChoFactorExResult,
    "that of `cholesky_ex`; `out` is a pair, for ``c`` and ``info``",
    {"[[[4.0]], [[-1.0]]]": "array([0, 1], dtype=int32)"},
)


@computed_by("cho_solve", "cho_solve_upper")
def cho_solve(
    c_and_lower: "tuple[ArrayLike, bool]",
    b: "ArrayLike",
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: Any = None,
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
    overwrite_b, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

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

"""How good a solution is, how well conditioned its matrix, and how a solution is made better."""

from math import inf
from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .._base.catalog import composed_of_others, computed_by
from .._base.composition import REAL, composition_of
from .._base.errors import refuse_complex
from .._base.options import one_of
from .._calls.arrays import without_labels
from .._calls.calls import factors_in_one, run, several
from .._programs.compose import column_sums, composed, extreme, magnitudes, sums
from .lu import lu_factor_ex

_ORDERS = (1, inf)


class RefineResult(NamedTuple):
    """The refined solution, a bound of its relative error, and its backward error, for each right-hand
    side."""

    x: Any
    ferr: Any
    berr: Any


@computed_by("lu_rcond", "lu_rcond_inf")
@factors_in_one(0)
def lu_rcond(
    lu: "ArrayLike",
    pivots: "ArrayLike",
    norm_a: "ArrayLike",
    ord: Literal[1] | float = 1,
    *,
    out: Any = None,
) -> Any:
    """Estimate the reciprocal condition number of each matrix from its LU factors, as LAPACK's gecon.

    Parameters
    ----------
    lu, pivots : array_like, shapes (..., n, n) and (..., n)
        What `lu_factor` returned: two arguments, or one, which is a tuple of both.
    norm_a : array_like, shape (...)
        The norm of each matrix before it was factored: ``matrix_norm(a, ord=1)``. One number, or one per
        matrix.
    ord : {1, inf}
        Which norm that is: the largest column sum of magnitudes, or the largest row sum.
    out : array, shape (...), optional
        Where the result is written.

    Returns
    -------
    array, shape (...)
        ``1 / (|A| |A^-1|)``: 1 for the best conditioned matrices. 0 where a pivot is zero or the inverse
        overflows; NaN where the factors, as of `lu_factor_ex` for singular matrices, or the norm have a NaN.

    Raises
    ------
    ValueError, TypeError
        As `lu_solve`; `ord` is another value.

    See Also
    --------
    rcond : the same, from the matrices themselves.
    cond : exactly, by singular values or an inverse.

    Notes
    -----
    ``|A^-1|`` is estimated by at most six solves with A and five with its transpose, in a fixed order:
    Hager's method in Higham's form, LAPACK's lacn2; of complex matrices zlacn2, with the conjugate transpose
    and moduli. The estimate is never above the true norm, but by
    rounding, and rarely below a third of it. About 20 n^2 operations per matrix. Orders above 128 go to
    LAPACK.

    Examples
    --------
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> round(float(smallmm.lu_rcond(smallmm.lu_factor(a), smallmm.matrix_norm(a, ord=1))), 12)
    0.047619047619
    """
    norm_a = without_labels(norm_a)
    refuse_complex("lu_rcond", "norm_a", norm_a)
    gufunc = "lu_rcond" if one_of("lu_rcond", "ord", ord, _ORDERS) == 1 else "lu_rcond_inf"
    return run("lu_rcond", gufunc, {"LU": lu, "pivots": pivots, "norm_a": norm_a}, (out,))


def rcond_in(order: float, xp: Any, a: Any) -> Any:
    """`rcond` in terms of a library's namespace."""
    sizes = magnitudes(xp, a)
    norm = extreme(xp, column_sums(xp, sizes) if order == 1 else sums(xp, sizes))
    lu, pivots, info = lu_factor_ex(a)
    found = lu_rcond(lu, pivots, norm, order)
    return xp.where((info != 0) & ~xp.isnan(norm), xp.zeros_like(found), found)


@composed_of_others
def rcond(a: "ArrayLike", ord: Literal[1] | float = 1, *, out: Any = None) -> Any:
    """Estimate the reciprocal condition number of each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    ord : {1, inf}
        The norm: the largest column sum of magnitudes, or the largest row sum.
    out : array, shape (...), optional
        Where the result is written.

    Returns
    -------
    array, shape (...)
        ``1 / (|A| |A^-1|)``: 1 for the best conditioned matrices, and if n = 0; 0 for singular ones, which
        are no error; NaN for those with a NaN. Solutions lose about ``-log10(rcond)`` digits.

    Raises
    ------
    ValueError, TypeError
        As `solve`; `ord` is another value.

    See Also
    --------
    lu_rcond : the same, from LU factors.
    cond : exactly, by singular values or an inverse.

    Notes
    -----
    The norm, `lu_factor_ex` and `lu_rcond`. 2/3 n^3 + 22 n^2 operations per matrix.

    Examples
    --------
    >>> smallmm.rcond([[[1.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]])
    array([0.25, 0.  ])
    """
    order = one_of("rcond", "ord", ord, _ORDERS)
    return composed(composition_of("rcond", "(n,n)->()", (REAL,), rcond_in, order), {"a": a}, (out,))


_PRECISIONS = ("fixed", "extra")


@computed_by("backward_error", "backward_error_extra", "backward_error_norm", "backward_error_norm_extra")
def backward_error(
    a: "ArrayLike",
    x: "ArrayLike",
    b: "ArrayLike",
    kind: Literal["componentwise", "normwise"] = "componentwise",
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: Any = None,
) -> Any:
    """By how much A and B must change, relatively, so that X solves A X = B exactly.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    x : array_like, shape (..., n, k) or (n,)
        Solutions; vectors only if `x` and `b` have one dimension.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides.
    kind : {"componentwise", "normwise"}
        Whether each element changes by a share of its own magnitude (Oettli and Prager), or A and B by a
        share of their infinity norms (Rigal and Gaches).
    precision : {"fixed", "extra"}
        "extra": the residual is computed in twice the precision of `a`, so that even errors far below the
        roundoff are seen.
    out : array, shape (..., k), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., k), or (...) for vectors
        For each right-hand side the largest ``|b - A x|_i / (|A| |x| + |b|)_i``, or
        ``|b - A x| / (|A| |x| + |b|)``. 0 / 0 counts as 0; NaN where something is not finite.

    Raises
    ------
    ValueError, TypeError
        As `solve`; a word is unknown.

    See Also
    --------
    refine : makes it small.
    smallmm.testing.assert_solves : a test of it.

    Notes
    -----
    A solution of `solve` has a normwise backward error of a few units of the roundoff; the componentwise one
    may be larger. 4 n^2 k operations per matrix; "extra" 19 n^2 k. Error-free transformations: products by
    FMA, sums by Knuth's, as Ogita, Rump and Oishi. Where a denominator may have underflowed, the smallest
    normal numbers are added, as in LAPACK's gerfs. Complex numbers: magnitudes are ``|re| + |im|`` in
    componentwise errors, as in zgerfs, and moduli in norms.

    Examples
    --------
    >>> a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    >>> x = np.array([-4.0, 4.5])
    >>> float(smallmm.backward_error(a, x, b)), float(smallmm.backward_error(a, x + [0, 0.14], b)) > 0.01
    (0.0, True)
    """
    gufunc = "backward_error"
    if one_of("backward_error", "kind", kind, ("componentwise", "normwise")) == "normwise":
        gufunc += "_norm"
    if one_of("backward_error", "precision", precision, _PRECISIONS) == "extra":
        gufunc += "_extra"
    return run("backward_error", gufunc, {"a": a, "x": x, "b": b}, (out,))


@computed_by("refine", "refine_extra")
@factors_in_one(1)
def refine(
    a: "ArrayLike",
    lu: "ArrayLike",
    pivots: "ArrayLike",
    b: "ArrayLike",
    x: "ArrayLike",
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: tuple[Any, Any, Any] | None = None,
) -> RefineResult:
    """Refine solutions of A X = B, with bounds of their errors, as LAPACK's gerfs.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    lu, pivots : array_like, shapes (..., n, n) and (..., n)
        Their factors, as `lu_factor` returned them: two arguments, or one, which is a tuple of both.
    b, x : array_like, shape (..., n, k) or (n,)
        Right-hand sides and solutions; vectors only if both have one dimension.
    precision : {"fixed", "extra"}
        "extra": residuals are computed in twice the precision of `a`. Then x becomes accurate to nearly all
        of its digits, unless A is singular to the precision.
    out : (array of the shape of x, array of shape (..., k), array of shape (..., k)), optional
        Where the results are written; each may be None.

    Returns
    -------
    RefineResult
        ``x``, shape (..., n, k).
        ``ferr``, shape (..., k): an estimated bound of the largest error of a component, divided by the
        largest component.
        ``berr``, shape (..., k): the componentwise backward error, as of `backward_error`.
        All are NaN where a pivot is zero.

    Raises
    ------
    ValueError, TypeError
        As `lu_solve`; `precision` is another word.

    See Also
    --------
    backward_error : of any solution.
    lu_rcond : the condition of the matrix.

    Notes
    -----
    "fixed": at most five steps, while berr is above the unit roundoff u and has halved. "extra": at most ten
    steps, while the correction is above u times x and has halved; gerfsx ends so. ferr bounds
    ``|A^-1| (|r| + c (|A| |x| + |b|))`` by the estimator of `lu_rcond`, where c is (n + 1) u, or its square
    if the residual r is "extra"; then u, for the rounding of x, is added; of complex matrices 2 (n + 1) u and
    2 u, magnitudes of r, A, x and b being ``|re| + |im|``. Every right-hand side stops by itself, in a fixed
    order of operations.

    Derivatives are those of A^-1 B, by the factors; ferr and berr count as constants.

    About 30 n^2 k operations per matrix with one step. Orders above 128 go to LAPACK's solves, and
    ferr to the inverse itself.

    Examples
    --------
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> x, ferr, berr = smallmm.refine(a, smallmm.lu_factor(a), [5.0, 6.0], [-4.1, 4.6])
    >>> x.round(12), bool(ferr < 1e-13), bool(berr < 1e-15)
    (array([-4. ,  4.5]), True, True)
    """
    gufunc = "refine" if one_of("refine", "precision", precision, _PRECISIONS) == "fixed" else "refine_extra"
    operands = {"a": a, "LU": lu, "pivots": pivots, "b": b, "x": x}
    return run("refine", gufunc, operands, several("refine", out, RefineResult), RefineResult)

"""Linear systems, inverses and determinants."""

from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .. import _core
from .._base.catalog import computed_by
from .._base.errors import SINGULAR, SINGULAR_TRIANGLE
from .._base.options import flag, is_conjugated, is_transposed, one_triangle
from .._calls.arrays import with_core_shape
from .._calls.calls import (
    conjugated,
    run,
    run_from_the_right,
    several,
    transposed,
)
from .._calls.twins import twin_of
from .structured import GUFUNCS, Structure, StructureWord, checked_word, inverse_as, solve_otherwise

_direct = _core.direct
_direct_solve, _direct_inv = _direct["solve"], _direct["inv"]
_direct_det, _direct_slogdet = _direct["det"], _direct["slogdet"]


class SolveExResult(NamedTuple):
    """The solution, and info: 0, or what is wrong with the matrix, in the words of the function."""

    x: Any
    info: Any

    @property
    def result(self) -> Any:
        """PyTorch's name of `x`."""
        return self.x


class InvExResult(NamedTuple):
    """The inverse, and info: 0, or what is wrong with the matrix, in the words of the function."""

    inverse: Any
    info: Any


class SlogdetResult(NamedTuple):
    """The determinant is sign * exp(logabsdet)."""

    sign: Any
    logabsdet: Any


@computed_by(*GUFUNCS)
def solve(
    a: "ArrayLike",
    b: "ArrayLike",
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: "StructureWord | None" = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    out: Any = None,
) -> Any:
    """Solve A X = B for each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension, so a stack of vectors is ``b[..., None]``.
        The batch dimensions of `a` and `b` broadcast; a broadcast matrix is not copied.
    lower : bool
        Whether to read the lower triangle of symmetric, Hermitian and positive definite matrices, not the
        upper one.
    overwrite_a, overwrite_b, check_finite : bool
        Accepted for compatibility with SciPy; without effect. Only `out` is written to, which may be `a` or
        `b`. NaN and infinities are not searched for; they propagate.
    assume_a : str or None
        What each matrix is, in SciPy's words: "general" ("gen"), "symmetric" ("sym"), "hermitian" ("her"),
        "positive definite" ("pos"), "upper triangular", "lower triangular", "tridiagonal", "banded" or
        "diagonal". None: each matrix is looked at, as by "auto" of `linsolve`. Only the part that is named is
        read. Of complex matrices "symmetric" ones equal their transposes; "hermitian" and "positive definite"
        ones equal their conjugate transposes, and of their diagonals only the real part is read.
    transposed : bool
        Whether to solve A^T X = B, without conjugation.
    left : bool
        False: solve X A = B, with `b` and the result of shape (..., k, n), or of shape (n,) for one row.
        Both are accessed by their strides, without a copy.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector
        `out` if given. Otherwise a new array of the library of `a` and `b`.

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero. The message says how many, and which is the
        first. The exception holds ``info`` and the other matrices' solutions.
    numpy.linalg.LinAlgError
        `a` has fewer than two dimensions or is not square. This is also a ValueError.
    ValueError
        Shapes do not match otherwise, or `out` is read-only.
    TypeError
        An argument is of extended precision or not numeric; arrays belong to different libraries or
        devices.
    ImportError
        n is above 128, `assume_a` is "sym" or "her" and SciPy is not installed.
    NotImplementedError
        n is above 128 and the arrays are Numba's or smallmm's own on a GPU. Those of other libraries go to
        the library's linear algebra.

    See Also
    --------
    solve_ex : the same, with singular matrices reported in an array.
    lu_factor, lu_solve : several systems with one matrix.
    linsolve : more structures, with a report for each matrix.
    solve_tridiagonal, solve_banded, solveh_banded : diagonals of any order.

    Notes
    -----
    float32, float64, complex64 and complex128 are computed in their own precision, integers and bools in
    float64; mixtures follow NumPy's rules. A real matrix with complex right-hand sides is solved as one with
    twice as many real ones. float16 and bfloat16 are computed in float32, and results are rounded to them
    once. NaN and infinities propagate, within their own matrix.

    LU with partial pivoting, ``l = a * (1 / pivot)`` and ``fma(-l, u, a)`` in a fixed order. Bits do not
    depend on the batch, the neighbours, strides, threads or the instruction set, except for the portable
    kernels on a CPU without FMA. Quotients of complex numbers are those of Smith. The normwise backward error
    is at most 20 n u g, where u is the unit roundoff and g the growth of elements, that of `lu_factor`.

    2/3 n^3 + 2 n^2 k operations per matrix. Arbitrary strides are accepted: transposing with ``.mT`` copies
    nothing. Orders above 128 go to LAPACK, one in each thread: correct, but slower, and with other bits.

    Examples
    --------
    >>> smallmm.solve([[2.0, 1.0], [1.0, 3.0]], [3.0, 4.0])
    array([1., 1.])
    """
    if assume_a != "general" or transposed is not False or left is not True:
        return solve_otherwise(a, b, lower, assume_a, transposed, left, out)
    results = _direct_solve(a, b, out)
    if results is not NotImplemented and results[1] is None:
        return results[0]
    return run("solve", "solve", {"a": a, "b": b}, (out,), None, SINGULAR, results)


solve_ex = twin_of(
    solve,
    SolveExResult,
    "0, or k if pivot k, counted from 1, is the first that is zero or overflows, or the "
    "leading minor of order k the first that is not positive",
    {"[np.eye(2), np.zeros((2, 2))], np.ones((2, 1))": "array([0, 1], dtype=int32)"},
)


@computed_by("solve_lower", "solve_upper", "solve_unit_lower", "solve_unit_upper")
def solve_triangular(
    a: "ArrayLike",
    b: "ArrayLike",
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    out: Any = None,
) -> Any:
    """Solve A X = B for triangular matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of matrices, of which only one triangle is read.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    trans : {0, 1, 2, "N", "T", "C"}
        0 or "N": A X = B; 1 or "T": A^T X = B; 2 or "C": A^H X = B.
    lower : bool
        Whether to read the lower triangle instead of the upper one.
    unit_diagonal : bool
        Whether to take the diagonal to be ones and not read it.
    overwrite_b, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    left : bool
        False: X A = B, X A^T = B or X A^H = B, as in `solve`.
    upper, unitriangular : bool, optional
        PyTorch's names for the opposite of `lower` and for `unit_diagonal`.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    LinAlgError
        Some matrices have a zero on the diagonal. The exception holds the other matrices' solutions.
    ValueError, TypeError
        As `solve`; `trans` is another value.

    See Also
    --------
    solve_triangular_ex : the same, with singular matrices reported in an array.
    solve : dtypes, orders above 128.
    lu_solve, cho_solve : solves with both factors.

    Notes
    -----
    Substitution. n^2 k operations per matrix.

    Examples
    --------
    >>> smallmm.solve_triangular([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0], lower=True)
    array([1., 2.])
    """
    lower = flag("solve_triangular", "lower", lower)
    if upper is not None:
        lower = not one_triangle("solve_triangular", "upper", upper, lower)
    unit = flag("solve_triangular", "unit_diagonal", unit_diagonal)
    unit = unit or (unitriangular is not False and flag("solve_triangular", "unitriangular", unitriangular))
    left = left is True or flag("solve_triangular", "left", left)
    transpose = is_transposed("solve_triangular", trans)
    if transpose and is_conjugated(trans):
        a = conjugated(a)
    if transpose == left:
        lower, flipped = not lower, transposed(a)
        flipped, rows, cols = with_core_shape(flipped)
        if not (rows < cols or rows > cols):  # others are refused as they were given; Dask's sizes may be NaN
            a = flipped
    gufunc = f"solve_{'unit_' if unit else ''}{'lower' if lower else 'upper'}"
    operands = {"a": a, "b": b}
    if left:
        return run("solve_triangular", gufunc, operands, (out,), None, SINGULAR_TRIANGLE)
    return run_from_the_right("solve_triangular", gufunc, operands, out, SINGULAR_TRIANGLE)


solve_triangular_ex = twin_of(
    solve_triangular,
    SolveExResult,
    "0, or k if element k of the diagonal, counted from 1, is the first that is zero",
    {"[[1.0, 0.0], [0.0, 0.0]], [2.0, 3.0]": "np.int32(2)"},
)


@computed_by("inv")
def inv(
    a: "ArrayLike",
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: "StructureWord | None" = "general",
    lower: bool = False,
    out: Any = None,
) -> Any:
    """Invert each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    assume_a, lower : str or None, bool
        As of `solve`: what each matrix is, and which triangle of it is read. Of other than general ones
        `solve` computes the inverse, with the identity for `b`.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero. The exception holds the other matrices' inverses.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    inv_ex : the same, with singular matrices reported in an array.
    solve : dtypes, orders above 128. It is more accurate than a product with the inverse.

    Notes
    -----
    Gauss-Jordan elimination with partial pivoting and the multipliers of LU, from order 4 on of the
    transpose. `info` is that of `lu_factor`; it is n where that is 0, A is finite, and its inverse overflows.
    Complex matrices: the solutions for the columns of the identity. ``|A X - I|_1 <= 50 n u g cond_1(A)``,
    wherever that is below 1; g is the larger of the growths of A and A^T, as of `lu_factor`. 2 n^3 operations
    per matrix.

    Examples
    --------
    >>> smallmm.inv([[1.0, 2.0], [3.0, 4.0]])
    array([[-2. ,  1. ],
           [ 1.5, -0.5]])
    """
    if assume_a != "general" and (word := checked_word("inv", assume_a)) != "general":
        return inverse_as("inv", a, Structure(word, flag("inv", "lower", lower)), out)
    results = _direct_inv(a, out)
    if results is not NotImplemented and results[1] is None:
        return results[0]
    return run("inv", "inv", {"a": a}, (out,), None, SINGULAR, results)


inv_ex = twin_of(
    inv,
    InvExResult,
    "0, or k if pivot k, counted from 1, is the first that is zero or overflows; n where the "
    "inverse overflows",
    {"np.zeros((2, 2))": "np.int32(1)"},
)


@computed_by("det")
def det(a: "ArrayLike", overwrite_a: bool = False, check_finite: bool = False, *, out: Any = None) -> Any:
    """Determinant of each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, shape (...), optional
        Where the result is written.

    Returns
    -------
    array, shape (...)
        0 for singular matrices, which are not an error, and 1 if n = 0. No partial product over- or
        underflows: infinite or zero only if the determinant exceeds the range of the dtype.

    Raises
    ------
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    slogdet : determinants of any magnitude.
    solve : dtypes, orders above 128.

    Notes
    -----
    The product of the pivots of LU. 2/3 n^3 operations per matrix.

    Examples
    --------
    >>> smallmm.det([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]])
    array([-2.,  0.])
    """
    result = _direct_det(a, out)
    return run("det", "det", {"a": a}, (out,), tried=result) if result is NotImplemented else result


@computed_by("slogdet")
def slogdet(a: "ArrayLike", *, out: tuple[Any, Any] | None = None) -> SlogdetResult:
    """Sign and logarithm of the magnitude of each determinant.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    out : (array of shape (...), array of shape (...)), optional
        Where the results are written; either may be None.

    Returns
    -------
    SlogdetResult
        ``sign``, shape (...): -1, 0 or 1; of complex matrices 0 or a number of magnitude 1.
        ``logabsdet``, shape (...): the natural logarithm of the magnitude, -inf where the sign is 0.

    Raises
    ------
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    det : the determinants themselves.
    solve : dtypes, orders above 128.

    Notes
    -----
    The logarithm of the product of the pivots of LU, computed in float64. 2/3 n^3 operations per matrix.

    Examples
    --------
    >>> sign, logabsdet = smallmm.slogdet(1e200 * np.eye(3))
    >>> float(sign), round(float(logabsdet / np.log(10)))
    (1.0, 600)
    """
    outs = several("slogdet", out, SlogdetResult)
    results = _direct_slogdet(a, *outs)
    if results is not NotImplemented:
        return SlogdetResult(*results)
    return run("slogdet", "slogdet", {"a": a}, outs, SlogdetResult, tried=results)

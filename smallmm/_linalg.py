"""Linear systems of stacked arrays: factorizations, solves, inverses and determinants. Each function tries
the direct way at once, which is all that NumPy arrays mostly need; `_arrays.call` takes what that refuses."""

from numbers import Integral
from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from . import _core
from ._arrays import call, core_shape, on_device
from ._calls import checked, run, run_from_the_right, several, transposed
from ._errors import NOT_POSITIVE_DEFINITE, SINGULAR, SINGULAR_TRIANGLE, LinAlgError, flag, shown

_direct = _core.direct
_direct_solve, _direct_inv, _direct_det = _direct["solve"], _direct["inv"], _direct["det"]
_direct_cholesky, _direct_lu_factor = _direct["cholesky"], _direct["lu_factor"]


class LUResult(NamedTuple):
    """P A = L U: L, below its diagonal of ones, and U in one array; row i exchanged with row pivots[i]."""

    LU: Any
    pivots: Any


class LUExResult(NamedTuple):
    """As `LUResult`, and 0 or the pivot, counted from 1, that is zero."""

    LU: Any
    pivots: Any
    info: Any


class ChoFactorResult(NamedTuple):
    """The factor, and whether it is the lower one."""

    c: Any
    lower: bool


class CholeskyExResult(NamedTuple):
    """The factor, and 0 or the order of the leading minor that is not positive."""

    L: Any
    info: Any


class SolveExResult(NamedTuple):
    """The solution, and 0 or the pivot, counted from 1, that is zero."""

    x: Any
    info: Any


class InvExResult(NamedTuple):
    """The inverse, and 0 or the pivot, counted from 1, that is zero."""

    inverse: Any
    info: Any


class SlogdetResult(NamedTuple):
    """The determinant is sign * exp(logabsdet)."""

    sign: Any
    logabsdet: Any


# --- LU ------------------------------------------------------------------------------------------------


def lu_factor(
    a: "ArrayLike",
    /,
    *,
    out: tuple[Any, Any] | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
) -> LUResult:
    """Factor each matrix as P A = L U, with partial pivoting.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices. Those that are not square go to LAPACK, as orders above 32 do.
    out : (array of shape (..., m, n), array of int32 of shape (..., k)), optional
        Where the results go. They may be, or overlap, the input; either may be None.
    overwrite_a, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    LUResult
        ``LU``, shape (..., m, n): U, and below its diagonal L, whose diagonal of ones is not stored.
        ``pivots``, int32, shape (..., k), k = min(m, n): for i = 0, 1, ... row i was exchanged with row
        ``pivots[i]``, counted from 0 as in `scipy.linalg.lu_factor` (LAPACK and PyTorch count from 1).

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero. The exception has the other matrices' factors.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    lu_solve : what the factors are for.
    lu_factor_ex : the same, with singular matrices reported in an array.
    solve : dtypes, accuracy, orders above 32.

    Notes
    -----
    The pivot is the element of largest magnitude, the topmost of equals. ``|P A - L U|_1 <= 10 n u |A|_1``.
    2/3 n^3 operations a matrix. Right-looking elimination, as LAPACK's getf2.

    Examples
    --------
    >>> smallmm.lu_factor([[1.0, 2.0], [4.0, 4.0]])
    LUResult(LU=array([[4.  , 4.  ],
           [0.25, 1.  ]]), pivots=array([1, 1], dtype=int32))
    """
    outs = several("lu_factor", out, LUResult)
    results = _direct_lu_factor(a, *outs)
    if results is NotImplemented:
        results = _lu_factor("lu_factor", a, outs)
    return checked("lu_factor", results, SINGULAR, LUResult)


def lu_factor_ex(a: "ArrayLike", /, *, out: tuple[Any, Any, Any] | None = None) -> LUExResult:
    """`lu_factor` that never raises for singular matrices: ``(LU, pivots, info)``.

    ``info``, int32, shape (...), is 0, or k if pivot k, counted from 1, is the first that is zero; LU of such
    a matrix is NaN, and its pivots from the k-th on exchange nothing.

    >>> smallmm.lu_factor_ex(np.ones((2, 2))).info
    np.int32(2)
    """
    return LUExResult(*_lu_factor("lu_factor_ex", a, several("lu_factor_ex", out, LUExResult)))


def _lu_factor(op: str, a: Any, outs: tuple[Any, ...]) -> Any:
    m, n = core_shape(a)
    if m < n or m > n:  # Dask's sizes may be NaN
        if on_device(a):
            raise NotImplementedError(
                f"{op}: a has shape {tuple(a.shape)}; expected square matrices, (..., n, n), on a device"
            )
        return call(op, _core.lu_factor_tall if m > n else _core.lu_factor_wide, {"a": a}, outs, {})
    return run(op, "lu_factor", {"a": a}, outs)


def lu_solve(
    lu_and_piv: "tuple[ArrayLike, ArrayLike]",
    b: "ArrayLike",
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Any = None,
    overwrite_b: bool = False,
    check_finite: bool = False,
) -> Any:
    """Solve A X = B from the factors of `lu_factor`.

    Parameters
    ----------
    lu_and_piv : (LU, pivots)
        What `lu_factor` returned: shapes (..., n, n) and (..., n). Pivots count from 0, as SciPy's; those of
        `torch.linalg.lu_factor` count from 1: subtract 1.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    trans : {0, 1, 2, "N", "T", "C"}
        0 or "N": A X = B; the others: A^T X = B.
    left : bool
        False: X A = B, or X A^T = B, as in `solve`.
    adjoint : bool
        PyTorch's word for A^T X = B.
    out : array, optional
        Where the result goes. It may be, or overlap, an input.
    overwrite_b, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    ValueError, TypeError
        As `solve`; `lu_and_piv` is not a pair; `trans` is something else; pivot i of some matrix is not one
        of the rows i to n - 1. On a GPU, which is not waited for, that gives NaN for the matrix instead.

    See Also
    --------
    scipy.linalg.lu_solve : takes the same arguments, whose factors work here too.

    Notes
    -----
    2 n^2 k operations a matrix. A zero on the diagonal of U gives NaN, above order 32 infinities.

    Examples
    --------
    >>> smallmm.lu_solve(smallmm.lu_factor([[2.0, 1.0], [1.0, 3.0]]), [3.0, 4.0])
    array([1., 1.])
    """
    lu, pivots = _pair("lu_solve", "lu_and_piv", lu_and_piv, "(LU, pivots)")
    transpose = _is_transposed("lu_solve", trans)
    transpose = transpose or (adjoint is not False and flag("lu_solve", "adjoint", adjoint))
    left = left is True or flag("lu_solve", "left", left)
    gufunc = "lu_solve_transposed" if transpose == left else "lu_solve"
    operands = {"LU": lu, "pivots": pivots, "b": b}
    if left:
        return run("lu_solve", gufunc, operands, (out,))
    return run_from_the_right("lu_solve", gufunc, operands, out)


def solve(
    a: "ArrayLike",
    b: "ArrayLike",
    /,
    *,
    left: bool = True,
    out: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
) -> Any:
    """Solve A X = B for each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension, so a stack of vectors is ``b[..., None]``.
        The batch dimensions of `a` and `b` broadcast; a broadcast matrix is not copied.
    left : bool
        False: solve X A = B, with `b` and the result of shape (..., k, n), or rows that are vectors. Both are
        taken by their strides, without a copy.
    out : array, optional
        Where the result goes. It may be, or overlap, an input.
    overwrite_a, overwrite_b, check_finite : bool
        Taken for SciPy's sake, without effect: only `out` is written to, which may be `a` or `b`, and NaN
        and infinities are not looked for but propagate.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector
        `out` if given. Otherwise a new array of the library of `a` and `b`.

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero. The exception names how many and the first, and
        has ``info`` and the others' solutions.
    numpy.linalg.LinAlgError
        `a` has fewer than two dimensions or is not square. It is a ValueError, too.
    ValueError
        Other shapes do not fit, or `out` is read-only.
    TypeError
        An argument is complex, of extended precision or not numeric; arrays belong to different libraries or
        devices.
    ImportError
        n is above 32 and SciPy is not installed.
    NotImplementedError
        n is above 32 and the arrays are on a GPU.

    See Also
    --------
    solve_ex : the same, with singular matrices reported in an array.
    lu_factor, lu_solve : one matrix, several times.
    cho_solve : positive definite matrices, in half the time.

    Notes
    -----
    float32 and float64 are computed in their own precision, float16 in float32, integers and bools in
    float64; mixtures follow NumPy's rules. NaN and infinities propagate, within their own matrix.

    LU with partial pivoting, ``l = a * (1 / pivot)`` and ``fma(-l, u, a)`` in a fixed order: the same bits
    whatever the batch, neighbours, strides, threads or instruction set (the portable kernels on a CPU without
    FMA excepted). The normwise backward error is at most 20 n u, where u is the unit roundoff.

    2/3 n^3 + 2 n^2 k operations a matrix. Any strides are taken as they are: transposing with ``.mT`` copies
    nothing. Orders above 32 go to LAPACK, one matrix at a time: right, but neither fast nor with those bits.

    Examples
    --------
    >>> smallmm.solve([[2.0, 1.0], [1.0, 3.0]], [3.0, 4.0])
    array([1., 1.])
    """
    if left is not True and not flag("solve", "left", left):
        results = run_from_the_right("solve", "solve", {"a": transposed(a), "b": b}, out)
        return checked("solve", results, SINGULAR)
    results = _direct_solve(a, b, out)
    if results is NotImplemented:
        results = call("solve", _core.solve, {"a": a, "b": b}, (out,), {})
    return results[0] if results[1] is None else checked("solve", results, SINGULAR)


def solve_ex(a: "ArrayLike", b: "ArrayLike", /, *, out: tuple[Any, Any] | None = None) -> SolveExResult:
    """`solve` that never raises for singular matrices: ``(x, info)``.

    ``info``, int32, shape (...), is 0, or k if pivot k, counted from 1, is the first that is zero; x of such
    a matrix is NaN.

    >>> x, info = smallmm.solve_ex([np.eye(2), np.zeros((2, 2))], np.ones((2, 1)))
    >>> info
    array([0, 1], dtype=int32)
    """
    return SolveExResult(*run("solve_ex", "solve", {"a": a, "b": b}, several("solve_ex", out, SolveExResult)))


def inv(a: "ArrayLike", /, *, out: Any = None, overwrite_a: bool = False, check_finite: bool = False) -> Any:
    """Invert each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    out : array, shape (..., n, n), optional
        Where the result goes. It may be, or overlap, the input.
    overwrite_a, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    array, shape (..., n, n)

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero. The exception has the other matrices' inverses.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    inv_ex : the same, with singular matrices reported in an array.
    solve : dtypes, orders above 32; and better than a product with an inverse.

    Notes
    -----
    Gauss-Jordan elimination with partial pivoting and the multipliers of LU, so that the pivots, and `info`,
    are those of `lu_factor`; 2 n^3 operations a matrix.
    ``|A X - I|_1 <= 50 n u cond_1(A)``.

    Examples
    --------
    >>> smallmm.inv([[1.0, 2.0], [3.0, 4.0]])
    array([[-2. ,  1. ],
           [ 1.5, -0.5]])
    """
    results = _direct_inv(a, out)
    if results is NotImplemented:
        results = call("inv", _core.inv, {"a": a}, (out,), {})
    return results[0] if results[1] is None else checked("inv", results, SINGULAR)


def inv_ex(a: "ArrayLike", /, *, out: tuple[Any, Any] | None = None) -> InvExResult:
    """`inv` that never raises for singular matrices: ``(inverse, info)``.

    ``info``, int32, shape (...), is 0, or k if pivot k, counted from 1, is the first that is zero; the
    inverse of such a matrix is NaN.

    >>> smallmm.inv_ex(np.zeros((2, 2))).info
    np.int32(1)
    """
    return InvExResult(*run("inv_ex", "inv", {"a": a}, several("inv_ex", out, InvExResult)))


def det(a: "ArrayLike", /, *, out: Any = None, overwrite_a: bool = False, check_finite: bool = False) -> Any:
    """Determinant of each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    out : array, shape (...), optional
        Where the result goes.
    overwrite_a, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    array, shape (...)
        0 for singular matrices, which are no error, and 1 where n = 0. No partial product over- or
        underflows: infinite or zero only if the determinant is beyond the dtype.

    Raises
    ------
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    slogdet : determinants of any magnitude.
    solve : dtypes, orders above 32.

    Notes
    -----
    The product of the pivots of LU, 2/3 n^3 operations a matrix.

    Examples
    --------
    >>> smallmm.det([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]])
    array([-2.,  0.])
    """
    result = _direct_det(a, out)
    return call("det", _core.det, {"a": a}, (out,), {}) if result is NotImplemented else result


def slogdet(a: "ArrayLike", /, *, out: tuple[Any, Any] | None = None) -> SlogdetResult:
    """Sign and logarithm of the magnitude of each determinant.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    out : (array of shape (...), array of shape (...)), optional
        Where the results go; either may be None.

    Returns
    -------
    SlogdetResult
        ``sign``: -1, 0 or 1; ``logabsdet``: the natural logarithm of the magnitude, -inf where the sign is 0.

    Raises
    ------
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    det, solve

    Examples
    --------
    >>> sign, logabsdet = smallmm.slogdet(1e200 * np.eye(3))
    >>> float(sign), round(float(logabsdet / np.log(10)))
    (1.0, 600)
    """
    return SlogdetResult(*run("slogdet", "slogdet", {"a": a}, several("slogdet", out, SlogdetResult)))


# --- Cholesky and triangles ----------------------------------------------------------------------------


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
    """Factor each symmetric positive definite matrix as A = L L^T, or U^T U.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric matrices, of which only the lower triangle is read, or the upper one if `upper`.
    upper : bool
        Whether to return U instead of L.
    lower : bool, optional
        SciPy's word for the opposite, where False is the default. Without it, `upper` counts.
    out : array, shape (..., n, n), optional
        Where the result goes. It may be, or overlap, the input.
    overwrite_a, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    array, shape (..., n, n)
        Triangular, zero in the other triangle.

    Raises
    ------
    LinAlgError
        Some matrices are not positive definite, or have NaN. The exception has the other matrices' factors.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    cho_solve : what the factor is for.
    cholesky_ex : the same, with bad matrices reported in an array.
    solve : dtypes, orders above 32.

    Notes
    -----
    ``|A - L L^T|_1 <= 10 n u |A|_1``. 1/3 n^3 operations a matrix.

    Examples
    --------
    >>> smallmm.cholesky([[4.0, 2.0], [2.0, 5.0]])
    array([[2., 0.],
           [1., 2.]])
    """
    upper = upper is not False and flag("cholesky", "upper", upper)
    if lower is not None:
        upper = not _one_triangle("cholesky", "lower", lower, upper)
    results = _direct["cholesky_upper"](a, out) if upper else _direct_cholesky(a, out)
    if results is NotImplemented:
        results = call("cholesky", _core.cholesky_upper if upper else _core.cholesky, {"a": a}, (out,), {})
    return results[0] if results[1] is None else checked("cholesky", results, NOT_POSITIVE_DEFINITE)


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
    return CholeskyExResult(*run("cholesky_ex", gufunc, {"a": a}, outs))


def cho_factor(
    a: "ArrayLike",
    lower: bool = False,
    *,
    out: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
) -> ChoFactorResult:
    """`cholesky` with SciPy's name, default and result, which `cho_solve` takes.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric positive definite matrices, of which only the upper triangle is read, or the
        lower one if `lower`.
    lower : bool
        Whether to return L of A = L L^T instead of U of A = U^T U.
    out : array, shape (..., n, n), optional
        Where the factor goes. It may be, or overlap, the input.
    overwrite_a, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    ChoFactorResult
        ``c``, shape (..., n, n): the factor, zero in the other triangle (SciPy leaves that of `a` there);
        ``lower``.

    Raises
    ------
    LinAlgError, ValueError, TypeError
        As `cholesky`.

    Examples
    --------
    >>> smallmm.cho_solve(smallmm.cho_factor([[4.0, 2.0], [2.0, 5.0]]), [6.0, 7.0])
    array([1., 1.])
    """
    lower = flag("cho_factor", "lower", lower)
    results = run("cho_factor", "cholesky" if lower else "cholesky_upper", {"a": a}, (out,))
    try:
        return ChoFactorResult(checked("cho_factor", results, NOT_POSITIVE_DEFINITE), lower)
    except LinAlgError as error:
        error.result = ChoFactorResult(error.result, lower)
        raise


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
        A factor, shape (..., n, n), and whether it is the lower one; only that triangle is read. So
        ``(cholesky(a), True)``, ``(cholesky(a, upper=True), False)`` or what `cho_factor`, or SciPy's,
        returned.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    out : array, optional
        Where the result goes. It may be, or overlap, an input.
    overwrite_b, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    ValueError, TypeError
        As `solve`; `c_and_lower` is not a pair.

    Notes
    -----
    2 n^2 k operations a matrix.

    Examples
    --------
    >>> smallmm.cho_solve((smallmm.cholesky([[4.0, 2.0], [2.0, 5.0]]), True), [6.0, 7.0])
    array([1., 1.])
    """
    c, lower = _pair("cho_solve", "c_and_lower", c_and_lower, "(c, lower)")
    gufunc = "cho_solve" if flag("cho_solve", "lower", lower) else "cho_solve_upper"
    return run("cho_solve", gufunc, {"c": c, "b": b}, (out,))


def solve_triangular(
    a: "ArrayLike",
    b: "ArrayLike",
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    out: Any = None,
    overwrite_b: bool = False,
    check_finite: bool = False,
) -> Any:
    """Solve A X = B for triangular matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of matrices, of which only one triangle is read.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    trans : {0, 1, 2, "N", "T", "C"}
        0 or "N": A X = B; the others: A^T X = B.
    lower : bool
        Whether to read the lower triangle instead of the upper one.
    unit_diagonal : bool
        Whether to take the diagonal to be ones and not read it.
    left : bool
        False: X A = B, or X A^T = B, as in `solve`.
    upper, unitriangular : bool, optional
        PyTorch's words for the opposite of `lower` and for `unit_diagonal`.
    out : array, optional
        Where the result goes. It may be, or overlap, an input.
    overwrite_b, check_finite : bool
        Taken for SciPy's sake, without effect, as in `solve`.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    LinAlgError
        Some matrices have a zero on the diagonal. The exception has the other matrices' solutions.
    ValueError, TypeError
        As `solve`; `trans` is something else.

    Notes
    -----
    n^2 k operations a matrix.

    Examples
    --------
    >>> smallmm.solve_triangular([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0], lower=True)
    array([1., 2.])
    """
    lower = flag("solve_triangular", "lower", lower)
    if upper is not None:
        lower = not _one_triangle("solve_triangular", "upper", upper, lower)
    unit = flag("solve_triangular", "unit_diagonal", unit_diagonal)
    unit = unit or (unitriangular is not False and flag("solve_triangular", "unitriangular", unitriangular))
    left = left is True or flag("solve_triangular", "left", left)
    if _is_transposed("solve_triangular", trans) == left:
        lower, flipped = not lower, transposed(a)
        rows, cols = core_shape(flipped)
        if not (rows < cols or rows > cols):  # others are refused as they were given; Dask's sizes may be NaN
            a = flipped
    gufunc = f"solve_{'unit_' if unit else ''}{'lower' if lower else 'upper'}"
    if left:
        results = run("solve_triangular", gufunc, {"a": a, "b": b}, (out,))
    else:
        results = run_from_the_right("solve_triangular", gufunc, {"a": a, "b": b}, out)
    return checked("solve_triangular", results, SINGULAR_TRIANGLE)


# --- The arguments of solves -----------------------------------------------------------------------------


def _pair(op: str, name: str, pair: Any, expected: str) -> tuple[Any, Any]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        given = f"a {type(pair).__name__}" + (f" of {len(pair)}" if isinstance(pair, tuple | list) else "")
        raise TypeError(f"{op}: {name} is {given}; expected a tuple {expected}")
    first, second = pair
    return first, second


_INTEGER_OR_STR = (int, str, Integral)  # int first: an instance of Integral takes 0.3 us to recognise


def _is_transposed(op: str, trans: Any) -> bool:
    for values, answer in (((0, "N"), False), ((1, 2, "T", "C"), True)):
        if isinstance(trans, _INTEGER_OR_STR) and trans in values:
            return answer
    raise ValueError(f"{op}: trans is {shown(trans)}; expected 0, 1, 2, 'N', 'T' or 'C'")


def _one_triangle(op: str, name: str, x: Any, other: bool) -> bool:
    """`lower` or `upper`, where the other word for the triangle has a default."""
    if flag(op, name, x) and other:
        raise ValueError(f"{op}: lower and upper are both True; expected one of them")
    return bool(x)

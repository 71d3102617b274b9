"""Powers, exponentials, roots and logarithms of stacked matrices, and pseudoinverses."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._base.catalog import composed_of_others, computed_by
from .._base.composition import (
    composition_of,
)
from .._base.errors import NOT_CONVERGED, NOT_ORTHOGONAL, SINGULAR, Reason, refuse_complex
from .._base.options import flag, integer
from .._calls.arrays import without_labels
from .._calls.calls import checked, run
from .._programs.compose import composed
from .matrix_function_steps import (
    MatrixFunctionExResult,
    exponent,
    exponentials,
    is_symmetric,
    logarithms,
    needs_symmetric,
    of_symmetric,
    of_symmetric_ex,
    pinv_of,
    pinv_of_symmetric,
    power_of,
    power_of_inverse,
    powers,
    roots_of,
)

_direct = _core.direct

Assumption = Literal["gen", "general", "sym", "symmetric", "her", "hermitian", "pos", "positive definite"]

_NOT_DEFINED = Reason(
    "Matrix has no real result",
    "without a real result",
    "eigenvalues without a real result, or that did not converge: {k}",
)


@composed_of_others
def matrix_power(a: "ArrayLike", n: int, /, *, out: Any = None) -> Any:
    """Each matrix of a stack to an integer power, as `numpy.linalg.matrix_power`.

    Parameters
    ----------
    a : array_like, shape (..., m, m)
        A stack of square matrices.
    n : int
        The exponent. 0 gives the identity; a negative number gives powers of the inverse.
    out : array, shape (..., m, m), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., m, m)

    Raises
    ------
    LinAlgError
        `n` is negative and some matrices are singular. The exception holds the other matrices' powers.
    ValueError, TypeError
        As `solve`; `n` is not an integer.

    See Also
    --------
    powm : fractional powers of symmetric matrices.
    solve : dtypes, orders above 128.

    Notes
    -----
    The squares A^2, A^4, A^8, ... are computed in turn. Those that correspond to binary digits 1 of `n` are
    multiplied, the lowest first, each from the right. n = 3 is (A A) A. At most 4 m^3 log2(n) operations per
    matrix, after those of `inv` if `n` is negative. Integers become float64, which holds them exactly up to
    2^53.

    Examples
    --------
    >>> smallmm.matrix_power([[1.0, 1.0], [1.0, 0.0]], 10)
    array([[89., 55.],
           [55., 34.]])
    """
    n = integer("matrix_power", "n", n, bits=None)
    if n >= 0:
        composition = composition_of("matrix_power", "(m,m)->(m,m)", (None,), power_of, n)
        return composed(composition, {"a": a}, out)
    composition = composition_of(
        "matrix_power", "(m,m)->(m,m),()", (None, np.int32), power_of_inverse, -n, is_checked=True
    )
    return checked("matrix_power", composed(composition, {"a": a}, (out,)), SINGULAR)


@composed_of_others
def pinv(
    a: "ArrayLike",
    rcond: "ArrayLike | None" = None,
    hermitian: bool = False,
    *,
    rtol: "ArrayLike | None" = None,
    out: Any = None,
) -> Any:
    """Moore-Penrose pseudoinverse of each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices, of any rank.
    rtol : array_like, shape (...), optional
        Singular values that do not exceed `rtol` times the largest count as zero. One number, or one per
        matrix. If None, max(m, n) times the machine epsilon.
    rcond : array_like, optional
        NumPy's older name for `rtol`.
    hermitian : bool
        Whether the matrices are symmetric or, if complex, Hermitian. Then only the lower triangle is read,
        and the result is symmetric, or Hermitian, to the bit.
    out : array, shape (..., n, m), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., n, m)

    Raises
    ------
    LinAlgError
        The singular values of some matrices did not converge. The exception holds the other results.
    ValueError, TypeError
        As `solve`; both `rtol` and `rcond` are given.

    See Also
    --------
    lstsq : least-squares solutions, in less time and with smaller errors.
    svd, eigh : what it is computed from.
    solve : dtypes.

    Notes
    -----
    ``V diag(1 / s) U^H``, of the singular values s that do not count as zero. The operations of `svd` or
    `eigh`, and 2 m n min(m, n) operations per matrix. NumPy's default tolerance is 1e-15.

    Examples
    --------
    >>> smallmm.pinv([[2.0, 0.0], [0.0, 0.0]], hermitian=True)
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv: rcond and rtol are both given; expected one of them")
    tolerance = without_labels(rcond if rtol is None else rtol)
    if tolerance is not None:
        refuse_complex("pinv", "rtol" if rcond is None else "rcond", tolerance)
    operands = {"a": a} if tolerance is None else {"a": a, "rtol": tolerance}
    hermitian = flag("pinv", "hermitian", hermitian)
    given, taken = ("(n,n)", "(n,n)") if hermitian else ("(m,n)", "(n,m)")
    signature = f"{given}{',()' * (len(operands) - 1)}->{taken},()"
    function = pinv_of_symmetric if hermitian else pinv_of
    composition = composition_of("pinv", signature, (None, np.int32), function, is_checked=True)
    reason = NOT_CONVERGED if hermitian else NOT_ORTHOGONAL
    return checked("pinv", composed(composition, operands, (out,)), reason)


@computed_by("expm")
def expm(a: "ArrayLike", /, *, assume_a: Assumption = "gen", out: Any = None) -> Any:
    """Exponential of each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    assume_a : {"gen", "sym"}
        "sym": the matrices are symmetric or, if complex, Hermitian. Then only the lower triangle is read,
        and so is the result, to the bit. SciPy's longer words are accepted too.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)

    Raises
    ------
    LinAlgError
        The eigenvalues of some symmetric matrices did not converge.
    ValueError, TypeError
        As `solve`; `assume_a` is another value.

    See Also
    --------
    logm : the inverse, of symmetric positive definite matrices.
    solve : dtypes, orders above 128.

    Notes
    -----
    General matrices: scaling and squaring with a Pade approximant of degree 13, or 7 for float32. The norms
    of its powers choose the scaling of each matrix, so that the backward error of the approximant is at most
    u (Al-Mohy and Higham, SIAM J. Matrix Anal. Appl. 31, 2009, algorithm 5.1, with norms instead of
    estimates). The order of operations is fixed. Of triangular matrices the diagonal and what is beside it
    are computed from those of A before the squarings and after each. About 20 n^3 operations per matrix, and
    2 n^3 for each squaring. Orders above 128 go to the products and solutions of NumPy, one matrix at a time:
    correct, but slower, and with other bits.

    Symmetric matrices: ``V diag(exp(w)) V^H``, with the w and V of `eigh`. The exponentials are NumPy's, or
    on a GPU those of the caller's library.

    Bits do not depend on the batch, the neighbours, strides or threads. A NaN or an infinity makes the result
    of its own matrix NaN. A result that overflows has infinities or NaN.

    Examples
    --------
    >>> smallmm.expm([[0.0, -np.pi / 2], [np.pi / 2, 0.0]]).round(12) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    if is_symmetric("expm", assume_a):
        return of_symmetric("expm", a, (exponentials,), (out,), NOT_CONVERGED)
    x = _direct["expm"](a, out)
    return run("expm", "expm", {"a": a}, (out,), tried=x) if x is NotImplemented else x


@composed_of_others
def sqrtm(a: "ArrayLike", /, *, assume_a: Assumption = "gen", out: Any = None) -> Any:
    """Square root of each symmetric positive semidefinite matrix of a stack: X X = A.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or, if complex, Hermitian matrices, of which the lower triangle is read.
    assume_a : {"sym"}
        Required: smallmm has no roots of general matrices. SciPy's longer words are accepted too.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)
        The root that is positive semidefinite, symmetric or Hermitian to the bit.

    Raises
    ------
    LinAlgError
        Some matrices have an eigenvalue below ``-10 n u`` times the largest magnitude of one, which is more
        than the error of `eigh`. The exception says how many and which is the first, and holds ``info`` and
        the other matrices' roots.
    NotImplementedError
        `assume_a` does not say that the matrices are symmetric.
    ValueError, TypeError
        As `solve`; `assume_a` is another value.

    See Also
    --------
    sqrtm_ex : the same, with matrices without a root reported in an array.
    powm : other powers, such as the inverse root.
    eigh : accuracy, NaN, orders above 128.

    Notes
    -----
    ``V diag(sqrt(w)) V^H``, with the w and V of `eigh`. Eigenvalues that are negative but within its error
    count as zero. About 11 n^3 operations per matrix, in a fixed order: bits do not depend on the batch, the
    neighbours, strides or threads.

    Examples
    --------
    >>> smallmm.sqrtm([[4.0, 0.0], [0.0, 9.0]], assume_a="sym")
    array([[2., 0.],
           [0., 3.]])
    """
    needs_symmetric("sqrtm", assume_a)
    return of_symmetric("sqrtm", a, (roots_of,), (out,), _NOT_DEFINED)


@composed_of_others
def sqrtm_ex(
    a: "ArrayLike", /, *, assume_a: Assumption = "gen", out: tuple[Any, Any] | None = None
) -> MatrixFunctionExResult:
    """`sqrtm` that never raises for matrices without a root: ``(x, info)``.

    ``info``, int32, shape (...), is 0, or how many eigenvalues are negative or did not converge; x of such a
    matrix is NaN.

    >>> smallmm.sqrtm_ex([[1.0, 0.0], [0.0, -4.0]], assume_a="sym").info
    np.int32(1)
    """
    needs_symmetric("sqrtm_ex", assume_a)
    return of_symmetric_ex("sqrtm_ex", a, (roots_of,), out)


@composed_of_others
def logm(a: "ArrayLike", /, *, assume_a: Assumption = "gen", out: Any = None) -> Any:
    """Logarithm of each symmetric positive definite matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or, if complex, Hermitian matrices, of which the lower triangle is read.
    assume_a : {"sym"}
        Required: smallmm has no logarithms of general matrices. SciPy's longer words are accepted too.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)
        Symmetric to the bit.

    Raises
    ------
    LinAlgError
        Some matrices have an eigenvalue that is not positive. The exception says how many and which is the
        first, and holds ``info`` and the other matrices' logarithms.
    NotImplementedError, ValueError, TypeError
        As `sqrtm`.

    See Also
    --------
    logm_ex : the same, with matrices without a logarithm reported in an array.
    expm : the inverse.

    Notes
    -----
    ``V diag(log(w)) V^H``, with the w and V of `eigh`. About 11 n^3 operations per matrix. Eigenvalues have
    errors of up to ``10 n u |A|``, so the logarithm of one that is c times smaller than the largest has an
    error of about ``10 n u c``. The logarithms of eigenvalues are NumPy's, or on a GPU those of the caller's
    library. Bits do not depend on the batch, the neighbours, strides or threads.

    Examples
    --------
    >>> smallmm.logm(np.diag([1.0, np.e]), assume_a="sym").round(12)
    array([[0., 0.],
           [0., 1.]])
    """
    needs_symmetric("logm", assume_a)
    return of_symmetric("logm", a, (logarithms,), (out,), _NOT_DEFINED)


@composed_of_others
def logm_ex(
    a: "ArrayLike", /, *, assume_a: Assumption = "gen", out: tuple[Any, Any] | None = None
) -> MatrixFunctionExResult:
    """`logm` that never raises for matrices without a logarithm: ``(x, info)``.

    ``info``, int32, shape (...), is 0, or how many eigenvalues are not positive or did not converge; x of
    such a matrix is NaN.

    >>> smallmm.logm_ex(np.zeros((2, 2)), assume_a="sym").info
    np.int32(2)
    """
    needs_symmetric("logm_ex", assume_a)
    return of_symmetric_ex("logm_ex", a, (logarithms,), out)


@composed_of_others
def powm(a: "ArrayLike", p: float, /, *, assume_a: Assumption = "gen", out: Any = None) -> Any:
    """Each symmetric matrix of a stack to a real power.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or, if complex, Hermitian matrices, of which the lower triangle is read.
    p : float
        The exponent.
    assume_a : {"sym"}
        Required, unless `p` is an integer: without it, `matrix_power` does the work.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)
        Symmetric to the bit.

    Raises
    ------
    LinAlgError
        Some matrices have an eigenvalue without a real power. If `p` is positive and not an integer, these
        are the negative ones, as in `sqrtm`. If `p` is negative, these are 0, and also negative ones if `p`
        is not an integer. The exception says how many matrices and which is the first, and holds ``info`` and
        the other matrices' powers.
    NotImplementedError, ValueError, TypeError
        As `sqrtm`; `p` is not finite.

    See Also
    --------
    powm_ex : the same, with matrices without a result reported in an array.
    scipy.linalg.fractional_matrix_power : general matrices, one at a time.

    Notes
    -----
    ``V diag(w**p) V^T``, with the w and V of `eigh`. About 11 n^3 operations per matrix. Bits do not depend
    on the batch, the neighbours, strides or threads.

    Examples
    --------
    >>> smallmm.powm([[4.0, 0.0], [0.0, 16.0]], -0.5, assume_a="sym")
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    p = exponent("powm", p)
    if not is_symmetric("powm", assume_a) and p.is_integer():
        return matrix_power(a, int(p), out=out)
    needs_symmetric("powm", assume_a)
    return of_symmetric("powm", a, (powers, p), (out,), _NOT_DEFINED)


@composed_of_others
def powm_ex(
    a: "ArrayLike", p: float, /, *, assume_a: Assumption = "gen", out: tuple[Any, Any] | None = None
) -> MatrixFunctionExResult:
    """`powm` of symmetric matrices that never raises for those without a power: ``(x, info)``.

    ``info``, int32, shape (...), is 0, or how many eigenvalues have no real power or did not converge; x of
    such a matrix is NaN.

    >>> smallmm.powm_ex(np.diag([1.0, -1.0]), 1 / 3, assume_a="sym").info
    np.int32(1)
    """
    needs_symmetric("powm_ex", assume_a)
    return of_symmetric_ex("powm_ex", a, (powers, exponent("powm_ex", p)), out)

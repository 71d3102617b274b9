"""Powers, exponentials, roots and logarithms of stacked matrices, and pseudoinverses."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._base.catalog import composed_of_others, computed_by
from .._base.composition import (
    composition_of,
)
from .._base.errors import NOT_CONVERGED, SINGULAR, Reason
from .._base.later import later
from .._base.options import finite, integer
from .._calls.calls import checked, outs_with_info, run
from .._calls.twins import WithInfo, twin_of
from .._programs.compose import composed
from .matrix_function_steps import (
    MatrixFunctionExResult,
    exponentials,
    is_symmetric,
    logarithms,
    of_symmetric,
    power_of,
    power_of_inverse,
    power_with_info,
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
def matrix_power(a: "ArrayLike", n: int, *, out: Any = None) -> Any:
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
    matrix_power_ex : the same, with singular matrices reported in an array.
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
    is_twin = type(out) is WithInfo
    if n >= 0 and not is_twin:
        composition = composition_of("matrix_power", "(m,m)->(m,m)", (None,), power_of, n)
        return composed(composition, {"a": a}, out)
    function = power_of_inverse if n < 0 else power_with_info
    composition = composition_of(
        "matrix_power", "(m,m)->(m,m),()", (None, np.int32), function, abs(n), is_checked=not is_twin
    )
    results = composed(composition, {"a": a}, outs_with_info("matrix_power", out))
    return checked("matrix_power", results, SINGULAR, wanted=out)


matrix_power_ex = twin_of(
    matrix_power,
    MatrixFunctionExResult,
    "that of `inv_ex` if `n` is negative, else 0",
    {"np.zeros((2, 2)), -2": "np.int32(1)"},
)


@computed_by("expm")
def expm(A: "ArrayLike", *, assume_a: "Assumption" = "gen", lower: bool = True, out: Any = None) -> Any:
    """Exponential of each matrix of a stack.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        A stack of square matrices.
    assume_a : {"gen", "sym"}
        "sym": the matrices are symmetric or, if complex, Hermitian. Then only one triangle is read, and so is
        the result, to the bit. SciPy's longer words are accepted too.
    lower : bool
        Whether that is the lower triangle.
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
    2 n^3 for each squaring. Orders above 128 go to the products and solutions of NumPy, one in each thread:
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
        return of_symmetric("expm", {"A": A}, (exponentials,), lower, out, NOT_CONVERGED)
    x = _direct["expm"](A, out)
    return run("expm", "expm", {"A": A}, (out,), tried=x) if x is NotImplemented else x


@computed_by("sqrtm")
def sqrtm(A: "ArrayLike", *, assume_a: "Assumption" = "gen", lower: bool = True, out: Any = None) -> Any:
    """Principal square root of each matrix of a stack: X X = A.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        A stack of square matrices.
    assume_a : {"gen", "sym"}
        "sym": the matrices are symmetric or, if complex, Hermitian, and positive semidefinite. Then only one
        triangle is read. SciPy's longer words are accepted too.
    lower : bool
        Whether that is the lower triangle.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)
        The root whose eigenvalues have real parts that are not negative. Of real matrices it is real if none
        of the stack has a negative eigenvalue, and complex otherwise, as SciPy's; in a fused function, while
        PyTorch or JAX traces, and of Dask's arrays it is complex. Of symmetric matrices it is symmetric or
        Hermitian to the bit, and of their type.

    Raises
    ------
    LinAlgError
        Some matrices are singular and have no such root, or their eigenvalues did not converge. With
        "sym": some have an eigenvalue below ``-10 n u`` times the largest magnitude of one, which is more
        than the error of `eigh`. The exception says how many and which is the first, and holds ``info`` and
        the other matrices' roots.
    ValueError, TypeError
        As `solve`; `assume_a` is another value; `out` is real and the result complex.
    NotImplementedError
        General matrices of order above 128 on a GPU; `logm` and `powm` of them in a fused function.

    See Also
    --------
    sqrtm_ex : the same, with matrices without a root reported in an array.
    powm : other powers, such as the inverse root.
    schur, eigh : accuracy, NaN, orders above 128.

    Notes
    -----
    General matrices: ``Z U Z^H``, where U is the root of the triangle of `schur`, column by column (Björck
    and Hammarling 1983); of real matrices the complex one, and ``|X X - A|_1 <= 20 max(n, 10) u |X|_1^2``, of
    complex matrices three times as much. A singular matrix has a root if its zero eigenvalues are not
    defective; rounding decides whether that is seen. About 35 n^3 operations per matrix.

    Symmetric matrices: ``V diag(sqrt(w)) V^H``, with the w and V of `eigh`. Eigenvalues that are negative but
    within its error count as zero. About 11 n^3 operations per matrix.

    The order of operations is fixed: bits do not depend on the batch, the neighbours, strides or threads.

    Examples
    --------
    >>> smallmm.sqrtm([[4.0, 5.0], [0.0, 9.0]])
    array([[2., 1.],
           [0., 3.]])
    >>> smallmm.sqrtm([[-4.0, 0.0], [0.0, 9.0]])
    array([[0.+2.j, 0.+0.j],
           [0.+0.j, 3.+0.j]])
    """
    if not is_symmetric("sqrtm", assume_a):
        return later("_schur.general").root(A, out)
    return of_symmetric("sqrtm", {"A": A}, (roots_of,), lower, out, _NOT_DEFINED)


sqrtm_ex = twin_of(
    sqrtm,
    MatrixFunctionExResult,
    "0, or how many elements the triangle's root does not have, or how many eigenvalues did not converge; "
    'with "sym", how many are negative or did not converge',
    {"[[1.0, 0.0], [0.0, -4.0]], assume_a='sym'": "np.int32(1)", "[[0.0, 1.0], [0.0, 0.0]]": "np.int32(1)"},
)


@composed_of_others
def logm(A: "ArrayLike", *, assume_a: "Assumption" = "gen", lower: bool = True, out: Any = None) -> Any:
    """Principal logarithm of each matrix of a stack.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        A stack of square matrices.
    assume_a : {"gen", "sym"}
        "sym": the matrices are symmetric or, if complex, Hermitian, and positive definite. Then only one
        triangle is read. SciPy's longer words are accepted too.
    lower : bool
        Whether that is the lower triangle.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)
        The logarithm whose eigenvalues have imaginary parts above -pi and up to pi: real or complex as the
        result of `sqrtm`.

    Raises
    ------
    LinAlgError
        Some matrices are singular, or their eigenvalues did not converge; with "sym": some have an eigenvalue
        that is not positive. The exception says how many and which is the first, and holds ``info`` and the
        other matrices' logarithms.
    NotImplementedError, ValueError, TypeError
        As `sqrtm`.

    See Also
    --------
    logm_ex : the same, with matrices without a logarithm reported in an array.
    expm : the inverse.

    Notes
    -----
    General matrices: by way of the complex triangle of `schur`, by inverse scaling and squaring with a Pade
    approximant of degree 7 (Al-Mohy and Higham, SIAM J. Sci. Comput. 34, 2012), in complex128. The norms of
    powers choose how many square roots of each triangle are taken, so that the backward error of the
    approximant is at most u. Its diagonal and what is beside it are computed from those of the triangle.
    These are steps of NumPy, or on a GPU of the caller's library, around smallmm's: 25 n^3 operations per
    matrix, and 35 n^3 for each of usually five roots.

    Symmetric matrices: ``V diag(log(w)) V^H``, with the w and V of `eigh`. About 11 n^3 operations per
    matrix. Eigenvalues have errors of up to ``10 n u |A|``, so the logarithm of one that is c times smaller
    than the largest has an error of about ``10 n u c``. The logarithms of eigenvalues are NumPy's, or on a
    GPU those of the caller's library.

    Bits do not depend on the batch, the neighbours, strides or threads.

    Examples
    --------
    >>> smallmm.logm([[1.0, 2.0], [0.0, 1.0]])
    array([[0., 2.],
           [0., 0.]])
    >>> smallmm.logm(np.diag([1.0, np.e]), assume_a="sym").round(12)
    array([[0., 0.],
           [0., 1.]])
    """
    if not is_symmetric("logm", assume_a):
        return later("_schur.general").function("logm", A, {"A": A}, out)
    return of_symmetric("logm", {"A": A}, (logarithms,), lower, out, _NOT_DEFINED)


logm_ex = twin_of(
    logm,
    MatrixFunctionExResult,
    '0, or how many eigenvalues are zero or did not converge; with "sym", how many are not positive or did '
    "not converge",
    {"np.zeros((2, 2))": "np.int32(2)"},
)


@composed_of_others
def powm(
    a: "ArrayLike", p: float, *, assume_a: "Assumption" = "gen", lower: bool = True, out: Any = None
) -> Any:
    """Each matrix of a stack to a real power, as `scipy.linalg.fractional_matrix_power`.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    p : float
        The exponent. Without "sym", `matrix_power` does the work if it is an integer.
    assume_a : {"gen", "sym"}
        "sym": the matrices are symmetric or, if complex, Hermitian. Then only one triangle is read.
    lower : bool
        Whether that is the lower triangle.
    out : array, shape (..., n, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n, n)
        The power whose eigenvalues are the principal ones: real or complex as the result of `sqrtm`.

    Raises
    ------
    LinAlgError
        Some matrices are singular, or their eigenvalues did not converge. With "sym": some have an eigenvalue
        without a real power. If `p` is positive and not an integer, these
        are the negative ones, as in `sqrtm`. If `p` is negative, these are 0, and also negative ones if `p`
        is not an integer. The exception says how many matrices and which is the first, and holds ``info`` and
        the other matrices' powers.
    NotImplementedError, ValueError, TypeError
        As `sqrtm`; `p` is not finite.

    See Also
    --------
    powm_ex : the same, with matrices without a result reported in an array.
    sqrtm : more accurate for p = 1/2, and of singular matrices.

    Notes
    -----
    General matrices: ``exp(p log(T))`` of the triangle T of `schur`, in complex128, by the methods of `logm`
    and `expm`. Of the result the diagonal and what is beside it are computed from those of the triangle.

    Symmetric matrices: ``V diag(w**p) V^T``, with the w and V of `eigh`. About 11 n^3 operations per matrix.

    Bits do not depend on the batch, the neighbours, strides or threads.

    Examples
    --------
    >>> third = smallmm.powm([[1.0, 2.0], [-3.0, 4.0]], 1 / 3)
    >>> np.allclose(third @ third @ third, [[1, 2], [-3, 4]])
    True
    >>> smallmm.powm([[4.0, 0.0], [0.0, 16.0]], -0.5, assume_a="sym")
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    p = finite("powm", "p", p)
    if not is_symmetric("powm", assume_a):
        if p.is_integer():
            return matrix_power(a, int(p), out=out)
        return later("_schur.general").function("powm", a, {"a": a, "p": p}, out)
    return of_symmetric("powm", {"a": a}, (powers, p), lower, out, _NOT_DEFINED)


powm_ex = twin_of(
    powm,
    MatrixFunctionExResult,
    "0, or how many eigenvalues are zero or did not converge; of negative integer powers, that of `inv_ex`; "
    'with "sym", how many have no real power or did not converge',
    {"np.diag([1.0, -1.0]), 1 / 3, assume_a='sym'": "np.int32(1)"},
)

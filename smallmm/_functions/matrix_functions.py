"""Powers, exponentials, roots and logarithms of stacked matrices, and pseudoinverses."""

from math import isfinite
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._base.catalog import composed_of_others, computed_by
from .._base.composition import (
    MANY_TEMPORARIES,
    Composition,
    adjoint,
    composition_of,
    constant,
    identity,
    real_part,
)
from .._base.errors import NOT_CONVERGED, NOT_ORTHOGONAL, SINGULAR, Reason, refuse_complex, shown
from .._base.options import flag, integer
from .._base.shapes import is_complex
from .._calls.arrays import without_labels
from .._calls.calls import checked, run, several
from .._programs.compose import composed, constant_of, count, dtype_name, extreme, joined
from .._programs.record import power
from .products import batched_matmul
from .spectra import eigh_ex
from .svd import svd_ex
from .systems import inv_ex

_direct = _core.direct

Assumption = Literal["gen", "general", "sym", "symmetric", "her", "hermitian", "pos", "positive definite"]

_SYMMETRIC = {
    **dict.fromkeys(("gen", "general"), False),
    **dict.fromkeys(("sym", "symmetric", "her", "hermitian", "pos", "positive definite"), True),
}

_NOT_DEFINED = Reason(
    "Matrix has no real result",
    "without a real result",
    "eigenvalues without a real result, or that did not converge: {k}",
)


class MatrixFunctionExResult(NamedTuple):
    """The function of each matrix, and info: 0, or how many eigenvalues have none or did not converge."""

    x: Any
    info: Any


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
    solve : dtypes, orders above 32.

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
        composition = composition_of("matrix_power", "(m,m)->(m,m)", (None,), _power, n)
        return composed(composition, {"a": a}, out)
    composition = composition_of(
        "matrix_power", "(m,m)->(m,m),()", (None, np.int32), _power_of_inverse, -n, is_checked=True
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
    function = _pinv_of_symmetric if hermitian else _pinv
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
    solve : dtypes, orders above 32.

    Notes
    -----
    General matrices: scaling and squaring with a Pade approximant of degree 13, or 7 for float32. The norms
    of its powers choose the scaling of each matrix, so that the backward error of the approximant is at most
    u (Al-Mohy and Higham, SIAM J. Matrix Anal. Appl. 31, 2009, algorithm 5.1, with norms instead of
    estimates). The order of operations is fixed. Of triangular matrices the diagonal and what is beside it
    are computed from those of A before the squarings and after each. About 20 n^3 operations per matrix, and
    2 n^3 for each squaring. Orders above 32 go to the products and solutions of NumPy, one matrix at a time:
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
    if _is_symmetric("expm", assume_a):
        return _of_symmetric("expm", a, (_exponentials,), (out,), NOT_CONVERGED)
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
    eigh : accuracy, NaN, orders above 32.

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
    _needs_symmetric("sqrtm", assume_a)
    return _of_symmetric("sqrtm", a, (_roots,), (out,), _NOT_DEFINED)


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
    _needs_symmetric("sqrtm_ex", assume_a)
    return _of_symmetric_ex("sqrtm_ex", a, (_roots,), out)


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
    _needs_symmetric("logm", assume_a)
    return _of_symmetric("logm", a, (_logarithms,), (out,), _NOT_DEFINED)


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
    _needs_symmetric("logm_ex", assume_a)
    return _of_symmetric_ex("logm_ex", a, (_logarithms,), out)


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
    p = _exponent("powm", p)
    if not _is_symmetric("powm", assume_a) and p.is_integer():
        return matrix_power(a, int(p), out=out)
    _needs_symmetric("powm", assume_a)
    return _of_symmetric("powm", a, (_powers, p), (out,), _NOT_DEFINED)


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
    _needs_symmetric("powm_ex", assume_a)
    return _of_symmetric_ex("powm_ex", a, (_powers, _exponent("powm_ex", p)), out)


# --- options -------------------------------------------------------------------------------------------


def _is_symmetric(op: str, assume_a: Any) -> bool:
    if not isinstance(assume_a, str) or assume_a not in _SYMMETRIC:
        raise ValueError(f"{op}: assume_a is {shown(assume_a)}; expected 'gen' or 'sym'")
    return _SYMMETRIC[assume_a]


def _needs_symmetric(op: str, assume_a: Any) -> None:
    if not _is_symmetric(op, assume_a):
        name = op.removesuffix("_ex").replace("powm", "fractional_matrix_power")
        raise NotImplementedError(
            f"{op}: assume_a is {assume_a!r}; expected 'sym', as only symmetric matrices are taken. Others "
            f"scipy.linalg.{name} takes, one at a time"
        )


def _exponent(op: str, p: Any) -> float:
    if not isinstance(p, Real) or isinstance(p, bool) or not isfinite(p):
        raise ValueError(f"{op}: p is {shown(p)}; expected a finite number")
    return float(p)


# --- symmetric matrices --------------------------------------------------------------------------------


def _of_symmetric(op: str, a: Any, function: tuple[Any, ...], outs: tuple[Any, ...], reason: Reason) -> Any:
    return checked(op, composed(_composition(op, function, True), {"a": a}, outs), reason)


def _of_symmetric_ex(op: str, a: Any, function: tuple[Any, ...], out: Any) -> MatrixFunctionExResult:
    outs = several(op, out, MatrixFunctionExResult)
    return MatrixFunctionExResult(*composed(_composition(op, function, False), {"a": a}, outs))


def _composition(op: str, function: tuple[Any, ...], is_checked: bool) -> Composition:
    """function: one of eigenvalues, and its options."""
    dtypes = (None, np.int32)
    return composition_of(
        op,
        "(n,n)->(n,n),()",
        dtypes,
        _by_eigenvalues,
        function,
        block=MANY_TEMPORARIES,
        is_checked=is_checked,
    )


def _by_eigenvalues(function: tuple[Any, ...], xp: Any, a: Any, *parameters: Any) -> tuple[Any, Any]:
    """V diag(f) V^H, symmetric or Hermitian to the bit, and info. The function of eigenvalues gives
    sqrt(abs(f)), the signs of f or None where all are positive, and where an eigenvalue has no f."""
    of_values, *options = function
    w, v, info = eigh_ex(a)
    roots, signs, undefined = of_values(*options, xp, w, *parameters)
    if undefined is not None:
        wrong = count(xp, undefined)
        info = info + xp.asarray(wrong, dtype=info.dtype)
        roots = xp.where(wrong[..., None] > 0, constant(xp, np.nan, roots), roots)
    left = v * roots[..., None, :]
    right = left if signs is None else left * signs[..., None, :]
    return _hermitian(xp, batched_matmul(left, adjoint(xp, right))), info


def _hermitian(xp: Any, x: Any) -> Any:
    """The lower triangle, and above it what belongs there: of complex products the terms of an element and
    of its mirror image are added in other orders. Those of real ones are equal."""
    if not is_complex(x):
        return x
    n = x.shape[-1]
    lower, diagonal = (constant(xp, places, xp.real(x)) > 0 for places in (np.tri(n), np.eye(n)))
    x = xp.where(lower, x, adjoint(xp, x))
    im = xp.imag(x)
    return joined(xp, xp.real(x), xp.where(diagonal, xp.zeros_like(im), im))


def _exponentials(xp: Any, w: Any) -> tuple[Any, Any, Any]:
    return xp.exp(w / 2), None, None


def _roots(xp: Any, w: Any) -> tuple[Any, Any, Any]:
    w, undefined = _nonnegative(xp, w)
    return xp.sqrt(xp.sqrt(w)), None, undefined


def _logarithms(xp: Any, w: Any) -> tuple[Any, Any, Any]:
    undefined = w <= 0
    logs = xp.log(xp.where(undefined, xp.ones_like(w), w))
    return xp.sqrt(xp.abs(logs)), xp.sign(logs), undefined


def _powers(p: float, xp: Any, w: Any) -> tuple[Any, Any, Any]:
    signs, undefined = None, None
    if p.is_integer():
        if p % 2:
            signs = xp.sign(w)
        if p < 0:
            undefined = w == 0
    elif p > 0:
        w, undefined = _nonnegative(xp, w)
    else:
        undefined = w <= 0
    return power(xp, xp.abs(w), p / 2), signs, undefined


def _nonnegative(xp: Any, w: Any) -> tuple[Any, Any]:
    """Eigenvalues, those that are negative by rounding as zeros, and where they are more negative."""
    limit = 10 * w.shape[-1] * float(np.finfo(dtype_name(w)).eps) / 2
    undefined = w < -limit * extreme(xp, xp.abs(w))[..., None]
    return xp.where(w < 0, xp.zeros_like(w), w), undefined


def _inverses(xp: Any, w: Any, *tolerance: Any) -> tuple[Any, Any, Any]:
    return (*_reciprocal_roots(xp, w, w.shape[-1], *tolerance), None)


def _reciprocal_roots(xp: Any, w: Any, most: int, *tolerance: Any) -> tuple[Any, Any]:
    """sqrt(abs(1 / w)) and signs, 0 where w counts as zero."""
    size = xp.abs(w)
    rtol = real_part(xp, *tolerance) if tolerance else constant(xp, most * np.finfo(dtype_name(w)).eps, w)
    zero = size <= (extreme(xp, size) * rtol)[..., None]
    roots = 1 / xp.sqrt(xp.where(zero, xp.ones_like(w), size))
    return xp.where(zero, xp.zeros_like(w), roots), xp.sign(w)


# --- pseudoinverses ------------------------------------------------------------------------------------


def _pinv_of_symmetric(xp: Any, a: Any, *tolerance: Any) -> tuple[Any, Any]:
    return _by_eigenvalues((_inverses,), xp, a, *tolerance)


def _pinv(xp: Any, a: Any, *tolerance: Any) -> tuple[Any, Any]:
    u, s, vh, info = svd_ex(a, full_matrices=False)
    roots, _ = _reciprocal_roots(xp, s, max(a.shape[-2:]), *tolerance)
    left = adjoint(xp, vh) * roots[..., None, :]
    return batched_matmul(left, adjoint(xp, u * roots[..., None, :])), info


# --- powers --------------------------------------------------------------------------------------------


def _power_of_inverse(n: int, xp: Any, a: Any) -> tuple[Any, Any]:
    """A^-n, and info."""
    inverse, info = inv_ex(a)
    return _power(n, xp, inverse), info


def _power(n: int, xp: Any, a: Any) -> Any:
    if n == 0:
        return constant_of(xp, xp.zeros_like(a) + identity(xp, a.shape[-1], a), a)
    if n == 3:
        return batched_matmul(batched_matmul(a, a), a)
    while not n & 1:
        a, n = batched_matmul(a, a), n >> 1
    x = xp.astype(a, a.dtype, copy=True)
    while n := n >> 1:
        a = batched_matmul(a, a)
        if n & 1:
            x = batched_matmul(x, a)
    return x

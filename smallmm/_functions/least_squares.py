"""QR factorization and least squares."""

from contextlib import suppress
from functools import cache
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._base.catalog import composed_of_others, computed_by
from .._base.composition import composition_of
from .._base.errors import NOT_CONVERGED, NOT_ORTHOGONAL, refuse_complex, shown
from .._base.options import flag, one_of
from .._base.shapes import arithmetic, dtype_of, register_bfloat16
from .._calls.arrays import as_numpy, with_core_shape, without_labels
from .._calls.calls import checked, run, several, transposed, transposed_out
from .._calls.twins import WithInfo, twin_of
from .._libraries import library_of, on_device
from .._libraries.dlpack import is_foreign
from .._programs.compose import composed
from .matrix_function_steps import pinv_of, pinv_of_symmetric
from .mixed_least_squares import LstsqMixedExResult, mixed_lstsq_ex


class QRResult(NamedTuple):
    """A = Q R."""

    Q: Any
    R: Any


class QRRawResult(NamedTuple):
    """Householder reflectors as LAPACK's geqrf returns them; `h` is the transpose of the factored matrix."""

    h: Any
    tau: Any


class LstsqResult(NamedTuple):
    """The solution, the 2-norm of each right-hand side's residual, and the rank."""

    x: Any
    residual_norms: Any
    rank: Any

    @property
    def solution(self) -> Any:
        """PyTorch's name of `x`."""
        return self.x


class LstsqExResult(NamedTuple):
    """`LstsqResult`, and info, which is 0."""

    x: Any
    residual_norms: Any
    rank: Any
    info: Any

    @property
    def solution(self) -> Any:
        """PyTorch's name of `x`."""
        return self.x


_TOLERANCES = "rcond", "rtol", "cond"

# mode: gufuncs for m >= n and for m < n
_QR_MODES = {
    "reduced": ("qr_tall", "qr_complete"),
    "economic": ("qr_tall", "qr_complete"),
    "complete": ("qr_complete", "qr_complete"),
    "r": ("qr_r_tall", "qr_r_wide"),
    "raw": ("qr_raw_tall", "qr_raw_wide"),
}


@computed_by(*dict.fromkeys(gufunc for pair in _QR_MODES.values() for gufunc in pair))
def qr(
    a: "ArrayLike",
    mode: Literal["reduced", "economic", "complete", "r", "raw"] = "reduced",
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: Any = None,
) -> Any:
    """Factor each matrix as A = Q R, Q with orthonormal columns and R upper triangular.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices.
    mode : {"reduced", "economic", "complete", "r", "raw"}
        As `numpy.linalg.qr`, with k = min(m, n):
        "reduced", or SciPy's "economic": Q (..., m, k) and R (..., k, n);
        "complete": Q (..., m, m) and R (..., m, n);
        "r": R (..., k, n) only; "raw": ``h`` (..., n, m), the transpose of what LAPACK's geqrf returns, and
        ``tau`` (..., k).
    overwrite_a, lwork, check_finite : bool, int, bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array or tuple of them, optional
        Where the results are written: a tuple of two, or one array for "r".

    Returns
    -------
    QRResult, QRRawResult, or array
        ``(Q, R)``, ``(h, tau)``, or R.

    Raises
    ------
    ValueError, TypeError
        As `solve`; `mode` is another value.

    See Also
    --------
    solve : dtypes. Matrices with min(m, n) > 128 or m n > 16384 go to LAPACK as there.

    Notes
    -----
    Householder reflections with LAPACK's signs (the diagonal of R may be negative) and norms that neither
    overflow nor underflow. ``|A - Q R|_1 <= 20 n u |A|_1`` and ``|Q^T Q - I|_1 <= 20 n u``. 4 m n k
    operations per matrix, 2 m n k without Q.

    Examples
    --------
    >>> q, r = smallmm.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> np.allclose(r, [[-5, -2.2], [0, 0.4]])
    True
    """
    if not isinstance(mode, str) or mode not in _QR_MODES:
        raise ValueError(
            f"qr: mode is {shown(mode)}; expected 'reduced', 'economic', 'complete', 'r' or 'raw' "
            "(SciPy's 'full' is 'complete')"
        )
    a, m, n = with_core_shape(a)
    gufunc = _QR_MODES[mode][bool(m < n)]
    if mode == "r":
        return run("qr", gufunc, {"a": a}, (out,))
    if mode == "raw":
        h, tau = several("qr", out, QRRawResult)
        h, tau = run("qr", gufunc, {"a": a}, (transposed_out(h), tau))
        return QRRawResult(transposed(h), tau)
    return run("qr", gufunc, {"a": a}, several("qr", out, QRResult), QRResult)


@computed_by("lstsq")
def lstsq(
    a: "ArrayLike",
    b: "ArrayLike",
    rcond: "ArrayLike | None" = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: "ArrayLike | None" = None,
    cond: "ArrayLike | None" = None,
    driver: str | None = None,
    precision: Literal["fixed", "mixed"] = "fixed",
    out: Any = None,
) -> LstsqResult:
    """Least-squares solution of A X = B, of minimum norm if it is not unique.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices, of any rank.
    b : array_like, shape (..., m, k) or (m,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    rcond, rtol, cond : array_like, shape (...), optional
        Three names, of which at most one is given, for the tolerance of the rank, as in LAPACK's gelsy: the
        rank is the number of leading columns of R, from QR with column pivoting, whose estimated condition
        number is at most 1 / `rtol`. One number, or one per matrix. None: max(m, n) times the machine
        epsilon.
    overwrite_a, overwrite_b, check_finite, lapack_driver, driver : bool, bool, bool, str, str
        Accepted for compatibility with SciPy and PyTorch; without effect, as in `solve`.
    precision : {"fixed", "mixed"}
        "mixed", of float64 and complex128: R of a QR factorization in float32 or complex64, without
        pivoting, and refinement with residuals in float64. Matrices whose R has a reciprocal condition below
        1e-5, and those with more columns than rows, are left to QR in float64. `rtol` has its default.
    out : (array, array, array), optional
        Where the results are written; each may be None.

    Returns
    -------
    LstsqResult
        ``x``, shape (..., n, k), or (..., n) for a vector.
        ``residual_norms``, shape (..., k), or (...): the 2-norm of each column of B - A X, for any rank.
        ``rank``, int32, shape (...).

    Raises
    ------
    ValueError, TypeError
        As `solve`; `a` and `b` have different numbers of rows, which is also a `numpy.linalg.LinAlgError`;
        more than one of the tolerances is given, or it is negative; with "mixed": `a` or `b` is of less
        precision, or `rtol` is given.

    See Also
    --------
    lstsq_ex : the same with ``info``, which is 0.
    solve : dtypes. Matrices with min(m, n) > 128 or m n > 16384 go to LAPACK's gelsy as there.

    Notes
    -----
    QR with column pivoting and a complete orthogonal factorization, as LAPACK's gelsy. Unlike
    `numpy.linalg.lstsq` it returns no singular values, and residual norms are always there and not squared.
    About 2 m n (min(m, n) + k) operations per matrix.

    "mixed" are corrected seminormal equations (Bjorck 1987): 2 m n^2 operations in float32, and 4 m n k in
    float64 for each step, of which five are usual. Its solutions are as accurate as those of QR.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 3.0])
    >>> line = smallmm.lstsq(np.stack([x, np.ones(4)], axis=-1), np.array([-1.0, 0.2, 0.9, 2.1]))
    >>> line.x.round(2), line.residual_norms.round(3), int(line.rank)
    (array([ 1.  , -0.95]), np.float64(0.224), 2)
    """
    if not rcond is rtol is cond is None:
        given = {name: x for name, x in zip(_TOLERANCES, (rcond, rtol, cond), strict=True) if x is not None}
        if len(given) > 1:
            raise ValueError(f"lstsq: {' and '.join(given)} are both given; expected one of them")
        ((name, tolerance),) = given.items()
        rtol = _checked_rtol("lstsq", name, tolerance)
    is_twin = type(out) is WithInfo
    if precision != "fixed" and one_of("lstsq", "precision", precision, ("fixed", "mixed")) == "mixed":
        if rtol is not None:
            raise ValueError(f"lstsq: {name} is {shown(tolerance)}; expected None with precision 'mixed'")
        outs = out.outs("lstsq", 5) if is_twin else (*several("lstsq", out, LstsqResult), None, None)
        found = mixed_lstsq_ex("lstsq", a, b, outs)
        return out.made(*found) if is_twin else LstsqResult(*found[:3])
    a, b = without_labels(a), without_labels(b)
    operands = {"a": a, "b": b, "rtol": _default_rtol(a, b) if rtol is None else rtol}
    if is_twin:
        return out.made(*run("lstsq", "lstsq", operands, out.outs("lstsq", 4)))
    return LstsqResult(*run("lstsq", "lstsq", operands, several("lstsq", out, LstsqResult))[:3])


lstsq_ex = twin_of(
    lstsq,
    LstsqExResult,
    '0: every matrix has a least-squares solution. ``iterations``, int32, shape (...), with "mixed": how '
    "many steps were taken, or -1 where QR in float64 took over",
    {"np.eye(2), np.ones(2)": "np.int32(0)"},
    {LstsqMixedExResult: 'with precision "mixed"'},
)


@composed_of_others
def pinv(
    a: "ArrayLike",
    rcond: "ArrayLike | None" = None,
    hermitian: bool = False,
    *,
    rtol: "ArrayLike | None" = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = False,
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
        Whether the matrices are symmetric or, if complex, Hermitian. Then only one triangle is read, and the
        result is symmetric, or Hermitian, to the bit.
    lower : bool
        Whether that is the lower triangle.
    return_rank : bool
        Whether to return the rank, too: how many singular values do not count as zero.
    check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, shape (..., n, m), optional
        Where the pseudoinverse is written.

    Returns
    -------
    array, shape (..., n, m)
        With `return_rank` a tuple of it and the ranks, int64, shape (...).

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
    with_rank = flag("pinv", "return_rank", return_rank)
    signature = f"{given}{',()' * (len(operands) - 1)}->{taken}{',()' * with_rank},()"
    dtypes = (None, *(np.int64,) * with_rank, np.int32)
    lower = flag("pinv", "lower", lower)
    function = (pinv_of_symmetric, lower) if hermitian else (pinv_of,)
    triangle = ("_lower" if lower else "_upper") if hermitian else ""
    name = f"pinv{triangle}{'_rtol' * (len(operands) - 1)}{'_rank' * with_rank}"
    composition = composition_of(name, signature, dtypes, *function, with_rank, op="pinv", is_checked=True)
    reason = NOT_CONVERGED if hermitian else NOT_ORTHOGONAL
    results = composed(composition, operands, (out, *(None,) * with_rank))
    return checked("pinv", results, reason, _with_rank if with_rank else None)


def _with_rank(x: Any, rank: Any) -> tuple[Any, Any]:
    return x, rank


def _checked_rtol(op: str, name: str, rtol: Any) -> Any:
    """rtol, which the caller gave by that name, as the call takes it."""
    rtol = without_labels(rtol)
    with suppress(ValueError):  # the call refuses it
        refuse_complex(op, name, rtol)
    if isinstance(rtol, Real) or (
        isinstance(rtol, np.ndarray) and rtol.ndim == 0 and rtol.dtype.kind in "biuf"
    ):
        if not rtol >= 0:  # type: ignore[operator]  # typeshed's Real compares with floats only
            raise ValueError(f"{op}: rtol is {rtol}; expected a number >= 0")
        try:
            return float(rtol)  # of no dtype: the matrices' counts
        except OverflowError:
            raise ValueError(f"{op}: rtol is above {np.finfo(float).max}; expected a number >= 0") from None
    if (values := _at_hand(op, rtol)) is not None and not (values >= 0).all():
        raise ValueError(f"{op}: rtol has {values.min()}; expected numbers >= 0")
    return rtol


def _at_hand(op: str, rtol: Any) -> np.ndarray | None:
    """The elements of an array of real numbers, if the host has them already."""
    values = rtol
    if is_foreign(rtol) and not on_device(rtol):
        values = library_of(rtol).elements(rtol)
        with suppress(TypeError):  # the call refuses it
            values = None if values is None else as_numpy(op, "rtol", values)
    return values if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" else None


def _default_rtol(a: Any, b: Any) -> np.ndarray:
    """max(m, n) times the machine epsilon of the dtype that the call computes in, in its real dtype."""
    try:
        most = max(with_core_shape(a)[1:])
        if _knows_no_bfloat16(a, b):
            return np.asarray(most * np.finfo(np.float32).eps)  # the kernel rounds it
        dtype, epsilon = _epsilon(dtype_of(a), dtype_of(b))
    except (TypeError, ValueError):  # the call says why
        return np.zeros(())
    return np.asarray(most * epsilon, dtype)


def _knows_no_bfloat16(*arrays: Any) -> bool:
    """Whether one of them is of bfloat16, and NumPy has no such dtype, which a GPU can do without."""
    dtypes = [getattr(x, "dtype", None) for x in arrays]
    if not any(str(x).endswith("bfloat16") for x in dtypes if not isinstance(x, np.dtype)):
        return False
    try:
        import ml_dtypes  # noqa: F401  # NumPy knows it then
    except ImportError:
        return True
    return False


@cache
def _epsilon(a: np.dtype, b: np.dtype) -> tuple[np.dtype, float]:
    register_bfloat16(a)
    dtype = _core.solve.resolve_dtypes((a, b, None, None))[2]
    limits = np.finfo(arithmetic(dtype))
    return limits.dtype if dtype.kind == "c" else dtype, float(limits.eps)

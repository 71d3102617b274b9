"""Singular values and singular vectors, and the polar decomposition that they give."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .._base.catalog import composed_of_others, computed_by
from .._base.composition import adjoint, composition_of
from .._base.errors import NOT_ORTHOGONAL
from .._base.options import flag, one_of
from .._calls.arrays import with_core_shape
from .._calls.calls import checked, run, several
from .._calls.twins import twin_of
from .._programs.compose import composed
from .products import batched_matmul
from .structured import whole_of_triangle


class SVDResult(NamedTuple):
    """A = U diag(S) Vh."""

    U: Any
    S: Any
    Vh: Any


class SVDExResult(NamedTuple):
    """`SVDResult`, and info: 0, or k > 0 where the matrix did not converge."""

    U: Any
    S: Any
    Vh: Any
    info: Any


class SVDvalsExResult(NamedTuple):
    """The singular values, and info: 0, or k > 0 where the matrix did not converge."""

    S: Any
    info: Any


class PolarResult(NamedTuple):
    """A = u p, or A = p u."""

    u: Any
    p: Any


_VECTORS = "svd_tall", "svd_wide", "svd_full_tall", "svd_full_wide"
_VALUES = "svdvals_tall", "svdvals_wide"


@computed_by(*_VECTORS, *_VALUES)
def svd(
    a: "ArrayLike",
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: Any = None,
) -> Any:
    """Singular value decomposition of each matrix of a stack: A = U diag(S) Vh.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices. k below is min(m, n).
    full_matrices : bool
        Whether U is m x m and Vh n x n. Otherwise they are m x k and k x n.
    compute_uv : bool
        False: return the singular values alone, as `svdvals` does.
    hermitian : bool
        Whether the matrices are symmetric or, if complex, Hermitian. Then only one triangle is read, and of
        the diagonal only the real part.
    lower : bool
        Whether that is the lower triangle.
    overwrite_a, check_finite, lapack_driver, driver : bool, bool, str, str
        Accepted for compatibility with SciPy and PyTorch; without effect, as in `solve`.
    out : (array, array, array), optional
        Where U, S and Vh are written; each may be None. They may be, or overlap, the input. One array if
        `compute_uv` is False.

    Returns
    -------
    SVDResult
        ``U``, shape (..., m, m) or (..., m, k): left singular vectors in its columns, which are orthonormal.
        ``S``, shape (..., k): singular values, descending.
        ``Vh``, shape (..., n, n) or (..., k, n): right singular vectors in its rows, which are orthonormal.

        Where m >= n the component of largest magnitude of each row of Vh is positive, where m < n that of
        each of the first k columns of U; of equals the first counts. The signs of the others follow. Of
        complex matrices that component is real and positive.

    Raises
    ------
    LinAlgError
        Some matrices did not converge in 30 sweeps (30 k with bidiagonalisation); no such matrix is known.
        The exception holds the other matrices' results.
    ValueError, TypeError
        As `solve`.
    NotImplementedError
        min(m, n) is above 128 or m n above 16384, and the arrays are Numba's or smallmm's own on a GPU. Those
        of other libraries go to the library's linear algebra.

    See Also
    --------
    svdvals : the singular values only, in a third to two thirds of the time.
    svd_ex : the same, with matrices that did not converge reported in an array.
    solve : dtypes.

    Notes
    -----
    A wide matrix is transposed. With k above 4: Householder bidiagonalisation A = Q B P^H, B real, and
    implicit QR sweeps on B, as LAPACK's gebrd and bdsqr (Golub and Kahan 1965; Demmel and Kahan 1990). The
    shift is the smaller singular value of the last two rows, or zero where an element of B's diagonal is
    negligible. Negligible is what is at most 2 u times the largest element of B. The rotations of columns
    make V of P, and QR of A V gives U, so both are orthonormal for any rank.

    With k up to 4: one-sided Jacobi (Hestenes 1958) with the preconditioning of Drmac and Veselic (2008).
    Columns are sorted by length, and rows, where m and n are up to 4, by their largest element (Cox and
    Higham 1998). QR gives R. Plane rotations make the rows of R orthogonal, in sweeps of which every round
    rotates disjoint pairs, until no pair's cosine is above max(k, 4) u, of complex matrices max(2 k, 4) u;
    there one row of a pair is first multiplied by the number of magnitude 1 that makes their product real.
    The lengths of the rows are the singular values, QR of the rows gives V, and QR of A V gives U.

    The order of operations is fixed. Bits do not depend on the batch, the neighbours, strides, threads or the
    instruction set, except for the portable kernels on a CPU without FMA.

    With n the larger of both sizes, ``|A - U diag(S) Vh|_1 <= 20 n u |A|_1``, ``|U^H U - I|_1 <= 20 n u``,
    ``|Vh Vh^H - I|_1 <= 20 n u``, and each singular value is within ``10 n u |A|_1``; of complex matrices
    three times as much. Small singular values may have no correct digit, as LAPACK's. Jacobi's method is
    better: if A = B E with E diagonal (E B with m < n), the relative error of each depends on B alone, down
    to 2^-400 of the largest (2^-40 in single precision); with m and n up to 4 so it does if A = D B E, D and
    E graded in any order. No intermediate result overflows.

    NaN and infinities give NaN within their own matrix and are not an error. For equal or nearly equal
    singular values any orthonormal basis may be returned. About 10 m n k + 6 k^3 operations per matrix, of
    complex ones four times as many. Larger matrices go to NumPy's LAPACK, one in each thread: correct, but
    slower, and with other bits.

    Examples
    --------
    >>> u, s, vh = smallmm.svd([[3.0, 0.0], [4.0, 5.0]])
    >>> s.round(3)
    array([6.708, 2.236])
    >>> np.allclose((u * s) @ vh, [[3, 0], [4, 5]])
    True
    """
    if hermitian is not False and flag("svd", "hermitian", hermitian):
        a = whole_of_triangle("svd", a, flag("svd", "lower", lower))
    if not (compute_uv is True or flag("svd", "compute_uv", compute_uv)):
        a, gufunc = _values(a)
        return run("svd", gufunc, {"a": a}, (out,), None, NOT_ORTHOGONAL)
    a, m, n = with_core_shape(a)
    is_full = (full_matrices is True or flag("svd", "full_matrices", full_matrices)) and m != n
    gufunc = f"svd{'_full' * is_full}{_side(m, n)}"
    return run("svd", gufunc, {"a": a}, several("svd", out, SVDResult), SVDResult, NOT_ORTHOGONAL)


svd_ex = twin_of(
    svd,
    SVDExResult,
    "0, or k > 0 where k elements beside the diagonal were not yet negligible (or k pairs of rows not "
    "orthogonal, where Jacobi's method is used)",
    {"np.eye(2)": "np.int32(0)"},
    {SVDvalsExResult: "if not `compute_uv`"},
)


@computed_by(*_VALUES)
def svdvals(
    a: "ArrayLike",
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    out: Any = None,
) -> Any:
    """Singular values of each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices.
    overwrite_a, check_finite, driver : bool, bool, str
        Accepted for compatibility with SciPy and PyTorch; without effect, as in `solve`.
    out : array, shape (..., min(m, n)), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., min(m, n))
        Descending. They are those of `svd`, bit for bit, as far as kernels of our own compute them.

    Raises
    ------
    LinAlgError, ValueError, TypeError, NotImplementedError
        As `svd`.

    See Also
    --------
    svd : the singular vectors too; accuracy, NaN, larger matrices.
    svdvals_ex : the same, with matrices that did not converge reported in an array.

    Notes
    -----
    The method of `svd`, without vectors. About 4 m n k + 20 k^2 operations per matrix, k = min(m, n).

    Examples
    --------
    >>> smallmm.svdvals([[0.0, 2.0], [-3.0, 0.0]])
    array([3., 2.])
    """
    a, gufunc = _values(a)
    return run("svdvals", gufunc, {"a": a}, (out,), None, NOT_ORTHOGONAL)


svdvals_ex = twin_of(svdvals, SVDvalsExResult, "that of `svd_ex`", {"np.diag([1.0, np.nan])": "np.int32(0)"})


def _values(a: Any) -> tuple[Any, str]:
    a, m, n = with_core_shape(a)
    return a, "svdvals" + _side(m, n)


def _side(m: int, n: int) -> str:
    """What the shape adds to the name of a gufunc."""
    return "_tall" if m >= n else "_wide"


@composed_of_others
def polar(a: "ArrayLike", side: Literal["right", "left"] = "right", *, out: Any = None) -> PolarResult:
    """Polar decomposition of each matrix of a stack, as `scipy.linalg.polar`: A = U P, or A = P U.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices.
    side : {"right", "left"}
        "right": A = U P, P of order n. "left": A = P U, P of order m.
    out : (array, array), optional
        Where the results are written; each may be None. They may be, or overlap, the input.

    Returns
    -------
    PolarResult
        ``u``, shape (..., m, n): with orthonormal columns, or rows where m < n. ``p``, shape (..., n, n) or
        (..., m, m): symmetric or, if complex, Hermitian to the bit, and positive semidefinite.

    Raises
    ------
    LinAlgError
        The singular values of some matrices did not converge; no such matrix is known.
    ValueError, TypeError
        As `solve`; `side` is another word.

    See Also
    --------
    orthogonalize : u alone.
    svd : what it is computed from.

    Notes
    -----
    With A = W diag(s) V^H, ``U = W V^H``, and P is ``V diag(s) V^H`` or ``W diag(s) W^H``. The operations of
    `svd`, and 4 m n min(m, n) operations per matrix. U is unique where no singular value is zero. There
    it has a derivative, also where singular values are equal, but no second one in that case; a fused
    function that is differentiated has that of `svd` instead.

    Examples
    --------
    >>> u, p = smallmm.polar(np.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> u.round(6) + 0.0, p.round(6) + 0.0
    (array([[ 0., -1.],
           [ 1.,  0.]]), array([[3., 0.],
           [0., 2.]]))
    """
    right = one_of("polar", "side", side, ("right", "left")) == "right"
    of_p = "(n,n)" if right else "(m,m)"
    composition = composition_of(
        "polar_right" if right else "polar_left",
        f"(m,n)->(m,n),{of_p},()",
        (None, None, np.int32),
        _polar_of,
        right,
        op="polar",
        is_checked=True,
    )
    outs = several("polar", out, PolarResult)
    return checked("polar", composed(composition, {"a": a}, outs), NOT_ORTHOGONAL, PolarResult)


@composed_of_others
def orthogonalize(a: "ArrayLike", *, out: Any = None) -> Any:
    """The matrix with orthonormal columns that is nearest to each matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices. Where m < n, rows are made orthonormal.
    out : array, shape (..., m, n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., m, n)

    Raises
    ------
    LinAlgError
        The singular values of some matrices did not converge; no such matrix is known.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    polar : with the other factor.
    qr : orthonormal columns of which the first k span what the first k of A do.

    Notes
    -----
    The u of `polar`. It is nearest in every norm that orthogonal factors do not change; of a square matrix
    its determinant may be -1. The operations of `svd`, and 2 m n min(m, n) operations per matrix.

    Examples
    --------
    >>> smallmm.orthogonalize(np.array([[2.0, 0.1], [-0.1, 1.0]])).round(3)
    array([[ 0.998,  0.067],
           [-0.067,  0.998]])
    """
    composition = composition_of(
        "orthogonalize", "(m,n)->(m,n),()", (None, np.int32), _nearest_of, is_checked=True
    )
    return checked("orthogonalize", composed(composition, {"a": a}, (out,)), NOT_ORTHOGONAL)


def _nearest_of(xp: Any, a: Any) -> tuple[Any, Any]:
    u, _, vh, info = svd_ex(a, full_matrices=False)
    return batched_matmul(u, vh), info


def _polar_of(right: bool, xp: Any, a: Any) -> tuple[Any, Any, Any]:
    u, s, vh, info = svd_ex(a, full_matrices=False)
    root = (adjoint(xp, vh) if right else u) * xp.sqrt(s)[..., None, :]
    p = batched_matmul(root, adjoint(xp, root))
    return batched_matmul(u, vh), (p + adjoint(xp, p)) / 2, info

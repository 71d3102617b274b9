"""LU factorization with partial pivoting, and solves from its factors."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .. import _core
from .._base.catalog import composed_of_others, computed_by
from .._base.composition import composition_of, constant, identity, real_part
from .._base.errors import SINGULAR
from .._base.options import flag, is_conjugated, is_transposed, pair
from .._calls.arrays import with_core_shape
from .._calls.calls import checked, conjugated, run, run_from_the_right, several
from .._calls.twins import twin_of
from .._programs.compose import composed, count
from .products import batched_matmul

_direct_lu_factor = _core.direct["lu_factor"]


class LUResult(NamedTuple):
    """P A = L U. L, without its unit diagonal, and U share an array; row i was swapped with row pivots[i]."""

    LU: Any
    pivots: Any


class LUExResult(NamedTuple):
    """`LUResult`, and info: 0, or the first pivot, counted from 1, that is zero or overflows."""

    LU: Any
    pivots: Any
    info: Any


class LUFactorsResult(NamedTuple):
    """A = P L U."""

    P: Any
    L: Any
    U: Any


class PermutedLUResult(NamedTuple):
    """A = (P L) U."""

    PL: Any
    U: Any


@computed_by("lu_factor", "lu_factor_tall", "lu_factor_wide")
def lu_factor(
    a: "ArrayLike",
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: tuple[Any, Any] | None = None,
) -> LUResult:
    """Factor each matrix as P A = L U, with partial pivoting.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : (array of shape (..., m, n), array of int32 of shape (..., k)), optional
        Where the results are written. They may be, or overlap, the input; either may be None.

    Returns
    -------
    LUResult
        ``LU``, shape (..., m, n): U, and below its diagonal L, whose unit diagonal is not stored.
        ``pivots``, int32, shape (..., k), k = min(m, n): for i = 0, 1, ... row i was exchanged with row
        ``pivots[i]``, counted from 0 as in `scipy.linalg.lu_factor` (LAPACK and PyTorch count from 1).

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero. The exception holds the other matrices' factors.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    lu_solve : solves with the factors.
    lu_factor_ex : the same, with singular matrices reported in an array.
    solve : dtypes, accuracy, orders above 128.

    Notes
    -----
    The pivot is the element of largest magnitude, the topmost of equals; of complex ones the magnitude is
    ``|re| + |im|``, as in LAPACK. ``|P A - L U|_1 <= 10 n u g |A|_1``, where g, the growth of elements, is
    ``|U|_1 / |A|_1``, or 1 if that is less. Right-looking elimination, as LAPACK's getf2:
    2/3 n^3 operations per matrix, or ``2 m n k - (m + n) k^2 + 2/3 k^3``.

    Examples
    --------
    >>> smallmm.lu_factor([[1.0, 2.0], [4.0, 4.0]])
    LUResult(LU=array([[4.  , 4.  ],
           [0.25, 1.  ]]), pivots=array([1, 1], dtype=int32))
    """
    outs = several("lu_factor", out, LUResult)
    gufunc, results = "lu_factor", _direct_lu_factor(a, *outs)
    if results is NotImplemented:
        a, m, n = with_core_shape(a)
        if m > n or m < n:  # Dask's sizes may be NaN
            gufunc = "lu_factor_tall" if m > n else "lu_factor_wide"
            results = _core.direct[gufunc](a, *outs)
    if results is not NotImplemented and results[2] is None:
        return LUResult(results[0], results[1])
    return run("lu_factor", gufunc, {"a": a}, outs, LUResult, SINGULAR, results)


lu_factor_ex = twin_of(
    lu_factor,
    LUExResult,
    "0, or k if pivot k, counted from 1, is the first that is zero or overflows; pivots from the "
    "k-th on exchange nothing",
    {"np.ones((2, 2))": "np.int32(2)"},
)


@composed_of_others
def lu(
    a: "ArrayLike",
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[Any, ...] | None = None,
) -> Any:
    """Factors A = P L U of each matrix, as `scipy.linalg.lu`.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices, as of `lu_factor`.
    permute_l : bool
        Whether to return P L and U.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    p_indices : bool
        Whether P is a vector of indices for each matrix: A = L[P] U. Without effect if `permute_l`.
    out : tuple of arrays, optional
        Where the results are written; each may be None. They may be, or overlap, the input.

    Returns
    -------
    LUFactorsResult or PermutedLUResult
        ``P``, shape (..., m, m): a permutation; of shape (..., m) and int32 if `p_indices`.
        ``L``, shape (..., m, k), k = min(m, n): lower triangular, with a unit diagonal; P L if `permute_l`.
        ``U``, shape (..., k, n): upper triangular.

    Raises
    ------
    LinAlgError
        Some matrices are singular, as in `lu_factor`. The exception holds the other matrices' factors.
    ValueError, TypeError, NotImplementedError
        As `lu_factor`; an option is not a bool.

    See Also
    --------
    lu_factor : the factors in one array and the row exchanges, as `lu_solve` takes them; accuracy.

    Notes
    -----
    The operations of `lu_factor`, and k m comparisons for P.

    Examples
    --------
    >>> p, l, u = smallmm.lu([[1.0, 2.0], [4.0, 4.0]])
    >>> p, l, u
    (array([[0., 1.],
           [1., 0.]]), array([[1.  , 0.  ],
           [0.25, 1.  ]]), array([[4., 4.],
           [0., 1.]]))
    >>> smallmm.lu([[1.0, 2.0], [4.0, 4.0]], p_indices=True).P
    array([1, 0], dtype=int32)
    """
    permute_l = flag("lu", "permute_l", permute_l)
    kind = "product" if permute_l else "indices" if flag("lu", "p_indices", p_indices) else "matrix"
    a, m, n = with_core_shape(a)
    k = "m" if m <= n else "n"
    of_p, dtype = {"product": ("", None), "indices": ("(m),", np.int32), "matrix": ("(m,m),", None)}[kind]
    composition = composition_of(
        "lu_" + kind,
        f"(m,n)->{of_p}(m,{k}),({k},n),()",
        (*((dtype,) if of_p else ()), None, None, np.int32),
        _factors,
        kind,
        op="lu",
        is_checked=True,
    )
    make = PermutedLUResult if permute_l else LUFactorsResult
    outs = several("lu", out, make)
    return checked("lu", composed(composition, {"a": a}, outs), SINGULAR, make)


def _factors(kind: str, xp: Any, a: Any) -> tuple[Any, ...]:
    lu, pivots, info = lu_factor_ex(a)
    (m, n), k = a.shape[-2:], min(a.shape[-2:])
    below, above = (constant(xp, x, real_part(xp, lu)) > 0 for x in (np.tri(m, k, -1), np.tri(k, n, -1)))
    zero, eye = xp.zeros_like(lu), constant(xp, np.eye(m, k), lu)
    lower = xp.where(below, lu[..., :k], eye)
    upper = xp.where(above, zero[..., :k, :], lu[..., :k, :])
    bad = (info > 0)[..., None, None]
    lower = xp.where(bad, constant(xp, np.nan, lower), lower)
    rows = constant(xp, np.arange(m), pivots)
    order = rows + xp.zeros_like(info)[..., None]  # row i of L U is row order_i of A
    for i in range(k):
        at = pivots[..., i : i + 1]
        there = count(xp, xp.where(rows == at, order, xp.zeros_like(order)))[..., None]
        order = xp.where(rows == at, order[..., i : i + 1], order)
        order = xp.where(rows == i, there, order)
    places = rows[..., :, None] == order[..., None, :]
    if kind == "indices":
        own = xp.where(places, rows, xp.zeros_like(rows))
        return xp.astype(xp.sum(own, axis=-1), xp.int32), lower, upper, info
    p = xp.where(places, constant(xp, 1, lu), constant(xp, 0, lu))
    return (batched_matmul(p, lower), upper, info) if kind == "product" else (p, lower, upper, info)


@computed_by("lu_solve", "lu_solve_transposed")
def lu_solve(
    lu_and_piv: "tuple[ArrayLike, ArrayLike]",
    b: "ArrayLike",
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Any = None,
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
        0 or "N": A X = B; 1 or "T": A^T X = B; 2 or "C": A^H X = B.
    overwrite_b, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    left : bool
        False: X A = B, X A^T = B or X A^H = B, as in `solve`.
    adjoint : bool
        PyTorch's name for A^H X = B.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    ValueError, TypeError
        As `solve`; `lu_and_piv` is not a pair; `trans` is another value; pivot i of some matrix is not one
        of the rows i to n - 1. On a GPU, which is not waited for, such a matrix gives NaN instead.

    See Also
    --------
    scipy.linalg.lu_solve : takes the same arguments; SciPy's factors work here, too.

    Notes
    -----
    2 n^2 k operations per matrix. A zero on the diagonal of U gives NaN; above order 128, infinities.

    Examples
    --------
    >>> smallmm.lu_solve(smallmm.lu_factor([[2.0, 1.0], [1.0, 3.0]]), [3.0, 4.0])
    array([1., 1.])
    """
    lu, pivots = pair("lu_solve", "lu_and_piv", lu_and_piv, "(LU, pivots)")
    adjoint = adjoint is not False and flag("lu_solve", "adjoint", adjoint)
    transpose = is_transposed("lu_solve", trans) or adjoint
    if transpose and (adjoint or is_conjugated(trans)):
        lu = conjugated(lu)
    left = left is True or flag("lu_solve", "left", left)
    gufunc = "lu_solve_transposed" if transpose == left else "lu_solve"
    operands = {"LU": lu, "pivots": pivots, "b": b}
    if left:
        return run("lu_solve", gufunc, operands, (out,))
    return run_from_the_right("lu_solve", gufunc, operands, out)


def permuted(xp: Any, pivots: Any, x: Any, back: bool = False) -> Any:
    """P x of P A = L U; or P^T x, by which rows come back to where they were."""
    k, m = pivots.shape[-1], x.shape[-2]
    if k < m:  # rows that no step exchanges with
        rest = constant(xp, np.arange(k, m), pivots)
        rest = xp.broadcast_to(rest, (*pivots.shape[:-1], m - k))
        pivots = xp.astype(xp.concat([pivots, rest], axis=-1), pivots.dtype)  # programs join numbers
    return lu_solve((identity(xp, m, x), pivots), x, trans=1 if back else 0)

"""Solves with stacks of matrices of few diagonals, of any order."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .. import _core
from .._base.catalog import computed_by
from .._base.errors import NOT_POSITIVE_DEFINITE, SINGULAR, shown
from .._base.options import flag, integer, pair
from .._calls.arrays import without_labels
from .._calls.calls import run
from .._calls.twins import twin_of
from .._libraries import is_group
from .._programs.compose import array_of
from .systems import SolveExResult

_direct_tridiagonal = _core.direct["solve_tridiagonal"]


def _shape(op: str, name: str, x: Any) -> tuple[int, ...]:
    """Of a group none: its members are looked at one by one."""
    return () if is_group(x) else tuple(array_of(op, name, x).shape)


@computed_by("solve_tridiagonal", "solve_tridiagonal_unpivoted")
def solve_tridiagonal(
    dl: "ArrayLike",
    d: "ArrayLike",
    du: "ArrayLike",
    b: "ArrayLike",
    *,
    pivot: bool = True,
    out: Any = None,
) -> Any:
    """Solve A X = B for each matrix of three diagonals, of any order.

    Parameters
    ----------
    dl, d, du : array_like, shapes (..., n - 1), (..., n) and (..., n - 1)
        The diagonals below, on and above the main one. Batch dimensions broadcast, with those of `b`, too.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension.
    pivot : bool
        False: rows are not exchanged. That is accurate for diagonally dominant matrices, and faster, and from
        order 8192 on lanes and threads share each system, which they do not with exchanges. The error for
        other matrices has no bound: it grows as pivots become small.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero, or overflows. The exception holds the other
        solutions.
    ValueError
        Shapes do not match; n is above 2^24.
    TypeError
        As `solve`.

    See Also
    --------
    solve_tridiagonal_ex : the same, with singular matrices reported in an array.
    solve_banded, solveh_banded : more diagonals.
    solve : dtypes.

    Notes
    -----
    Elimination with partial pivoting, as LAPACK's gtsv. n (6 + 5 k) operations per matrix, and it reads 4 n
    numbers of it for one right-hand side.

    Without exchanges it is Thomas' algorithm. From order 8192 on, but of float16 and bfloat16, the 15 rows
    between every two separators are eliminated first (H. H. Wang, "A parallel method for tridiagonal
    equations", ACM Trans. Math. Software 7, 1981), and so on with the separators. That takes about twice as
    many operations. `info` is the least row whose pivot is zero or overflows.

    Examples
    --------
    >>> smallmm.solve_tridiagonal([1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.0], [3.0, 4.0, 3.0])
    array([1., 1., 1.])
    """
    pivot = pivot is True or flag("solve_tridiagonal", "pivot", pivot)
    results = _direct_tridiagonal(dl, d, du, b, out) if pivot else NotImplemented
    if results is not NotImplemented and results[1] is None:
        return results[0]
    operands = {name: without_labels(x) for name, x in {"dl": dl, "d": d, "du": du, "b": b}.items()}
    length = _shape("solve_tridiagonal", "d", d)[-1:]
    for name in ("dl", "du"):
        shape = _shape("solve_tridiagonal", name, operands[name])
        if length and shape and shape[-1] != max(0, length[0] - 1):
            raise ValueError(
                f"solve_tridiagonal: {name} has shape {shape}; expected (..., {max(0, length[0] - 1)}) to "
                f"match d of shape {_shape('solve_tridiagonal', 'd', d)}"
            )
    gufunc = "solve_tridiagonal" if pivot else "solve_tridiagonal_unpivoted"
    tried = None if results is NotImplemented else results
    return run("solve_tridiagonal", gufunc, operands, (out,), None, SINGULAR, tried)


solve_tridiagonal_ex = twin_of(
    solve_tridiagonal,
    SolveExResult,
    "0, or k if pivot k, counted from 1, is the first that is zero or overflows",
    {"[0.0], [1.0, 0.0], [0.0], [1.0, 1.0]": "np.int32(2)"},
)


@computed_by("solve_banded")
def solve_banded(
    l_and_u: tuple[int, int],
    ab: "ArrayLike",
    b: "ArrayLike",
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Solve A X = B for each banded matrix, of any order.

    Parameters
    ----------
    l_and_u : (int, int)
        How many diagonals are below the main one, and how many above it.
    ab : array_like, shape (..., l + u + 1, n)
        The diagonals as SciPy stores them: ``ab[..., u + i - j, j]`` is a_ij. What is outside of the matrix
        is not read.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    overwrite_ab, overwrite_b, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    LinAlgError
        Some matrices are singular: a pivot is exactly zero. The exception holds the other solutions.
    ValueError
        Shapes do not match, also with `l_and_u`; n is above 2^24.
    TypeError
        As `solve`.

    See Also
    --------
    solve_banded_ex : the same, with singular matrices reported in an array.
    solve_tridiagonal : three diagonals, in less time.
    solveh_banded : positive definite matrices, in half the time.

    Notes
    -----
    LU with partial pivoting, as LAPACK's gbsv: the band of U grows to l + u. About 2 n (l + u) (l + k)
    operations per matrix.

    Examples
    --------
    >>> smallmm.solve_banded((1, 0), [[2.0, 2.0, 2.0], [1.0, 1.0, 0.0]], [2.0, 3.0, 3.0])
    array([1., 1., 1.])
    """
    lower, upper = pair("solve_banded", "l_and_u", l_and_u, "(l, u)")
    lower, upper = integer("solve_banded", "l", lower), integer("solve_banded", "u", upper)
    ab = without_labels(ab)
    shape = _shape("solve_banded", "ab", ab)
    if min(lower, upper) < 0 or (len(shape) > 1 and shape[-2] != lower + upper + 1):
        raise ValueError(
            f"solve_banded: l_and_u is {shown(l_and_u)}, and ab has shape {shape}; expected (..., l + u + 1, "
            "n)"
        )
    operands = {"ab": ab, "lower": np.array(lower, np.int32), "b": b}
    return run("solve_banded", "solve_banded", operands, (out,), None, SINGULAR)


solve_banded_ex = twin_of(
    solve_banded,
    SolveExResult,
    "0, or k if pivot k, counted from 1, is the first that is zero or overflows",
    {"(0, 0), [[1.0, 0.0]], [1.0, 1.0]": "np.int32(2)"},
)


@computed_by("solveh_banded", "solveh_banded_upper")
def solveh_banded(
    ab: "ArrayLike",
    b: "ArrayLike",
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Solve A X = B for each positive definite banded matrix, symmetric or Hermitian, of any order.

    Parameters
    ----------
    ab : array_like, shape (..., u + 1, n)
        Half of the diagonals as SciPy stores them: ``ab[..., u + i - j, j]`` is a_ij for i <= j, or if
        `lower`, ``ab[..., i - j, j]`` for i >= j. What is outside of the matrix is not read, nor imaginary
        parts of the main diagonal.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    overwrite_ab, overwrite_b, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    lower : bool
        Which half `ab` is.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    LinAlgError
        Some matrices are not positive definite. The exception holds the other matrices' solutions.
    ValueError
        Shapes do not match; n is above 2^24.
    TypeError
        As `solve`.

    See Also
    --------
    solveh_banded_ex : the same, with matrices that are not positive definite reported in an array.
    solve_banded : other matrices.

    Notes
    -----
    Cholesky, as LAPACK's pbsv. About n u (u + 4 k) operations per matrix.

    Examples
    --------
    >>> smallmm.solveh_banded([[4.0, 4.0, 4.0], [1.0, 1.0, 0.0]], [5.0, 6.0, 5.0], lower=True)
    array([1., 1., 1.])
    """
    gufunc = "solveh_banded" if flag("solveh_banded", "lower", lower) else "solveh_banded_upper"
    shape = _shape("solveh_banded", "ab", ab)
    if len(shape) > 1 and shape[-2] == 0 < shape[-1]:
        raise ValueError(f"solveh_banded: ab has shape {shape}; expected (..., u + 1, n)")
    return run("solveh_banded", gufunc, {"ab": ab, "b": b}, (out,), None, NOT_POSITIVE_DEFINITE)


solveh_banded_ex = twin_of(
    solveh_banded,
    SolveExResult,
    "0, or the order k of the first leading minor that is not positive",
    {"[[1.0, -1.0]], [1.0, 1.0]": "np.int32(2)"},
)

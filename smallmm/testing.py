"""Numerical checks for tests: LAPACK's test ratios of stacks of matrices, as functions and as assertions.

A ratio is an error in units of the roundoff u, divided by what grows with the order: around 1 for a good
algorithm. LAPACK's own tests accept ratios below 30. The functions return one ratio per matrix; the
assertions name the worst matrix of a stack.

Results may come from any library: smallmm, NumPy, SciPy, PyTorch. u is that of the results' precision, the
lowest of several. NumPy's arrays and other arrays on the host are judged in a precision beyond their own:
float64 for float32, extended precision (80 bits on x86-64) for float64. Arrays on a device are judged there,
in float64, which adds less than 2 to the ratio of float64.

>>> a = np.eye(3) + np.ones((1000, 3, 3))
>>> b = np.ones((1000, 3, 1))
>>> assert_solves(a, smallmm.solve(a, b), b)
>>> assert_factors(a, smallmm.cholesky(a))
>>> bool(factors_ratio(a, smallmm.lu_factor(a)).max() < 1)
True
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._libraries import library_of, on_device
from ._tools.ratios import factors_checked, inverse_checked, solution

__all__ = [
    "assert_factors",
    "assert_inverse",
    "assert_solves",
    "factors_ratio",
    "inverse_ratio",
    "solution_ratio",
]

THRESH = 30.0  # of LAPACK's own tests


def solution_ratio(a: ArrayLike, x: ArrayLike, b: ArrayLike) -> Any:
    """``|B - A X| / (|A| |X| u)`` of each matrix, the largest of its right-hand sides, as LAPACK's get02.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices.
    x : array_like, shape (..., n, k) or (n,)
        Solutions; a vector only if it has one dimension.
    b : array_like, shape (..., m, k) or (m,)
        Right-hand sides.

    Returns
    -------
    array of float64, shape (...)
        NaN where a matrix, a solution or a right-hand side has a NaN. In 1-norms.

    Raises
    ------
    ValueError, TypeError
        Shapes or dtypes do not fit; arrays are on several devices.

    Examples
    --------
    >>> float(solution_ratio([[1.0, 2.0], [3.0, 5.0]], [-4.0, 3.0], [2.0, 3.0]))
    0.0
    """
    return solution("solution_ratio", a, x, b)


def inverse_ratio(a: ArrayLike, inverse: ArrayLike) -> Any:
    """``|I - A X| / (n |A| |X| u)`` of each matrix A and its inverse X, as LAPACK's get03.

    Parameters
    ----------
    a, inverse : array_like, shape (..., n, n)
        Stacks of square matrices.

    Returns
    -------
    array of float64, shape (...)
        In 1-norms; NaN where a matrix has a NaN.

    Raises
    ------
    ValueError, TypeError
        As `solution_ratio`.

    Examples
    --------
    >>> float(inverse_ratio([[1.0, 2.0], [3.0, 4.0]], [[-2.0, 1.0], [1.5, -0.5]]))
    0.0
    """
    return inverse_checked("inverse_ratio", a, inverse)


def factors_ratio(a: ArrayLike, factors: Any, kind: str | None = None) -> Any:
    """How far the product of factors is from each matrix, and orthogonal factors from orthogonality.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices; of "cholesky" and "eigh" one triangle determines the other.
    factors : named tuple, tuple or array
        What the factorization returned; a result with `info` counts, too.
    kind : {"lu", "cholesky", "ldl", "qr", "eigh", "eig", "svd"}, optional
        What it is a factorization of. None: named tuples are known by their fields, as NumPy, PyTorch and
        smallmm name them, those of eigh by their name, too; a single array is a Cholesky factor.

        "lu": (LU, pivots), where pivots count from 0, those of PyTorch's named tuples from 1.
        ``|P A - L U| / (n |A| u)``, as get01. Or (P, L, U) of A = P L U, where P may be SciPy's indices.
        "cholesky": L, or (c, lower); an array whose lower triangle is zero is U.
        ``|A - L L^H| / (n |A| u)``, as pot01.
        "ldl": (LD, pivots), as of sytrf or hetrf; LD whose lower triangle is zero is of U D U^H.
        ``|A - L D L^H| / (n |A| u)``, or of L D L^T, as syt01. Judged on the host.
        "qr": (Q, R), or (h, tau) of NumPy's mode "raw". ``|A - Q R| / (m |A| u)`` and
        ``|I - Q^H Q| / (m u)``, as qrt01.
        "eigh": (w, V). ``|A - V diag(w) V^H| / (n |A| u)`` and ``|I - V^H V| / (n u)``, as syt21.
        "eig": (w, V). ``|A V - V diag(w)| / (n |A| |V| u)``, and how far from 1 the 2-norms of columns of V
        are, divided by n u, as get22.
        "svd": (U, s, Vh). ``|A - U diag(s) Vh| / (k |A| u)``, ``|I - U^H U| / (k u)`` and
        ``|I - Vh Vh^H| / (k u)``, k the larger of m and n, as bdt01.

    Returns
    -------
    array of float64, shape (...)
        The largest of these ratios, in 1-norms; NaN where a matrix or a factor has a NaN.

    Raises
    ------
    ValueError
        Shapes do not fit; `kind` is unknown, or is None and the factors do not tell; a pivot is no row.
    TypeError
        As `solution_ratio`.

    Examples
    --------
    >>> float(factors_ratio([[4.0, 2.0], [2.0, 5.0]], np.array([[2.0, 0.0], [1.0, 2.0]])))
    0.0
    """
    return factors_checked("factors_ratio", a, factors, kind)[0]


def assert_solves(a: ArrayLike, x: ArrayLike, b: ArrayLike, *, thresh: float = THRESH) -> None:
    """Raise AssertionError unless `solution_ratio` is at most `thresh` for every matrix.

    Parameters
    ----------
    a, x, b
        As of `solution_ratio`.
    thresh : float
        The largest ratio that is accepted.

    Raises
    ------
    AssertionError
        The message says how many matrices exceed the threshold, and which is the worst, with its ratio. A NaN
        is worse than any number.
    ValueError, TypeError
        As `solution_ratio`.

    Examples
    --------
    >>> assert_solves(np.eye(2), np.ones((3, 2, 1)), [[[1.0], [1.0]], [[1.0], [1.0]], [[1.0], [1.5]]])
    Traceback (most recent call last):
    AssertionError: assert_solves: 1 of 3 matrices exceeds the bound, the worst at index (2,): |B - A X| / \
(|A| |X| u) = 2.25e+15, bound 30
    """
    _check("assert_solves", solution("assert_solves", a, x, b), thresh, "|B - A X| / (|A| |X| u)")


def assert_inverse(a: ArrayLike, inverse: ArrayLike, *, thresh: float = THRESH) -> None:
    """Raise AssertionError unless `inverse_ratio` is at most `thresh` for every matrix.

    Parameters, and what is raised, are as of `assert_solves`.

    >>> assert_inverse([[1.0, 2.0], [3.0, 4.0]], smallmm.inv([[1.0, 2.0], [3.0, 4.0]]))
    """
    ratio = inverse_checked("assert_inverse", a, inverse)
    _check("assert_inverse", ratio, thresh, "|I - A X| / (n |A| |X| u)")


def assert_factors(a: ArrayLike, factors: Any, kind: str | None = None, *, thresh: float = THRESH) -> None:
    """Raise AssertionError unless `factors_ratio` is at most `thresh` for every matrix.

    Parameters are those of `factors_ratio` and `assert_solves`, and so is what is raised.

    >>> a = np.arange(12.0).reshape(2, 3, 2)
    >>> assert_factors(a, smallmm.qr(a))
    >>> assert_factors(a, np.linalg.svd(a))
    """
    ratio, what = factors_checked("assert_factors", a, factors, kind)
    _check("assert_factors", ratio, thresh, what)


# --- the assertion ---------------------------------------------------------------------------------------


def _check(op: str, ratio: Any, thresh: float, what: str) -> None:
    __tracebackhide__ = True  # pytest shows the caller's line
    ratio = library_of(ratio).to_host(ratio) if on_device(ratio) else np.asarray(ratio)
    bad = ~(ratio <= thresh)
    if not bad.any():
        return
    worst = np.unravel_index(np.argmax(np.where(np.isnan(ratio), np.inf, ratio)), ratio.shape)
    nans = np.argwhere(np.isnan(ratio))
    index = tuple(nans[0].tolist()) if len(nans) else tuple(map(int, worst))
    count = np.count_nonzero(bad)
    which = (
        f"{count} of {ratio.size} matrices {'exceeds' if count == 1 else 'exceed'} the bound, the worst at "
        f"index {index}: "
        if ratio.ndim
        else ""
    )
    raise AssertionError(f"{op}: {which}{what} = {ratio[index]:.3g}, bound {thresh:g}")

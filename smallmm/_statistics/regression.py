"""Regressions of stacks of systems."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._base.options import flag
from .._calls.arrays import core_dims
from .._functions.cholesky import cho_solve, cholesky
from .._programs.chosen import Choice, chosen_among
from .._programs.compose import in_one_dtype
from .._programs.fuse import fuse
from .moments import mean_of, weighted

# What it means that Cholesky's step {i}, from 0, finds nothing positive
_REASONS = {
    "cholesky": "A^T A + alpha I is not positive definite: column {i} of A is zero or depends on those "
    "before it, and alpha is too small"
}


class RidgeResult(NamedTuple):
    """The X and the c of ``B ~ A X + c``."""

    x: Any
    intercept: Any


def _solution(a: Any, b: Any, alpha: Any, *weights: Any, intercept: bool) -> Any:
    a, b, alpha, *w = in_one_dtype("ridge", (a, b, alpha, *weights))
    is_vector = b.ndim < 2
    b = b[:, None] if is_vector else b
    if intercept:
        means = mean_of("ridge", a, *w), mean_of("ridge", b, *w)
        a, b = a - means[0], b - means[1]
    a, b = weighted(a, *w), weighted(b, *w)
    adjoint = a.conj().mT
    normal = adjoint @ a + alpha * np.eye(a.shape[-1], dtype=a.dtype)
    x = cho_solve((cholesky(normal), True), adjoint @ b)
    if not intercept:
        return x[:, 0] if is_vector else x
    constant = means[1] - means[0] @ x
    return RidgeResult(x[:, 0], constant[0]) if is_vector else RidgeResult(x, constant)


@fuse("(m,n),(m,k),()", reasons=_REASONS)
def _of_matrix(a: Any, b: Any, alpha: Any, *, intercept: bool = False) -> Any:
    return _solution(a, b, alpha, intercept=intercept)


@fuse("(m,n),(m),()", reasons=_REASONS)
def _of_vector(a: Any, b: Any, alpha: Any, *, intercept: bool = False) -> Any:
    return _solution(a, b, alpha, intercept=intercept)


@fuse("(m,n),(m,k),(),(m)", reasons=_REASONS)
def _of_weighted_matrix(a: Any, b: Any, alpha: Any, weights: Any, *, intercept: bool = False) -> Any:
    return _solution(a, b, alpha, weights, intercept=intercept)


@fuse("(m,n),(m),(),(m)", reasons=_REASONS)
def _of_weighted_vector(a: Any, b: Any, alpha: Any, weights: Any, *, intercept: bool = False) -> Any:
    return _solution(a, b, alpha, weights, intercept=intercept)


@chosen_among(_of_matrix, _of_vector, _of_weighted_matrix, _of_weighted_vector)
def ridge(
    a: "ArrayLike",
    b: "ArrayLike",
    alpha: "ArrayLike",
    *,
    intercept: bool = False,
    weights: "ArrayLike | None" = None,
    out: Any = None,
) -> Choice:
    """The X of the least ``|A X - B|^2 + alpha |X|^2`` of each system of a stack.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        A stack of matrices: m samples of n features each.
    b : array_like, shape (..., m, k) or (m,)
        Right-hand sides; a vector only if it has one dimension, or if it is a member of a `Group`.
    alpha : array_like, shape (...)
        How much the size of X counts, at least 0: a number, or one for each system.
    intercept : bool
        Whether a constant c, which alpha does not count, is found, too: ``A X + c``.
    weights : array_like, shape (..., m), optional
        How much the square of each row of ``A X - B`` counts, at least 0.
    out : array, shape (..., n, k) or (n,), optional
        Where the result is written; with an intercept a tuple of two.

    Returns
    -------
    array, shape (..., n, k) or (..., n), or RidgeResult
        X. With an intercept, a named tuple of ``x`` and ``intercept``, shape (..., k) or (...).

    Raises
    ------
    LinAlgError
        ``A^T A + alpha I`` is not positive definite for some system.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    lstsq : without alpha, by QR, which is more accurate.

    Notes
    -----
    The normal equations ``(A^T A + alpha I) X = A^T B`` by Cholesky, which square the condition number of A.
    With weights, rows of A and B are times their roots; with an intercept, the means of the columns are
    subtracted first. 2 m n^2 + 2 m n k + n^3 / 3 + 2 n^2 k operations.

    Examples
    --------
    >>> a, b = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([2.0, 5.0, 1.0])
    >>> smallmm.ridge(a, b, 1.0)
    array([1., 2.])
    >>> smallmm.ridge(a, a @ [1.0, 1.0] + 3, 1e-9, intercept=True).intercept.round(6)
    np.float64(3.0)
    """
    options = {"intercept": flag("ridge", "intercept", intercept), "out": out}
    is_vector = core_dims(b) == 1
    if weights is None:
        return _of_vector if is_vector else _of_matrix, (a, b, alpha), options
    return _of_weighted_vector if is_vector else _of_weighted_matrix, (a, b, alpha, weights), options

"""The rules (`rules`) for P A = L U and for solves with such factors. Which rows were exchanged counts as
constant.

With S = L^-1 P dA U^-1 of the first k = min(m, n) rows and columns, dL = L tril(S, -1) and dU = triu(S) U
there; the rows of L below them, or the columns of U beside them, follow from A = L U."""

from typing import Any

from .._base.composition import adjoint, conjugate, identity
from .._functions.lu import lu_solve, permuted
from .._functions.products import matmul
from .._functions.systems import solve_triangular
from .._libraries.recording import Arrays


def factor(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    lu, pivots, *_ = results
    g, (m, n) = grads[0], lu.shape[-2:]
    k = min(m, n)
    lower, upper = xp.tril(lu[..., :k], k=-1) + identity(xp, m, lu)[:, :k], xp.triu(lu[..., :k, :])
    first, square = lower[..., :k, :], upper[..., :k]
    below = xp.tril(matmul(adjoint(xp, first), xp.tril(g[..., :k, :k], k=-1)), k=-1)
    above = xp.triu(matmul(xp.triu(g[..., :k, :k]), adjoint(xp, square)))
    if m > n:
        above = above - xp.triu(matmul(adjoint(xp, lower[..., k:, :]), g[..., k:, :]))
    if m < n:
        below = below - xp.tril(matmul(g[..., k:], adjoint(xp, upper[..., k:])), k=-1)
    left = solve_triangular(first, below + above, trans=2, lower=True, unit_diagonal=True)
    if m < n:
        beside = solve_triangular(first, g[..., k:], trans=2, lower=True, unit_diagonal=True)
    if m > n:
        left = xp.concat([left, g[..., k:, :]], axis=-2)
    right = adjoint(xp, solve_triangular(square, adjoint(xp, left), lower=False))
    if m < n:
        right = xp.concat([right, beside], axis=-1)
    return (permuted(xp, pivots, right, back=True),)


def solution(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, transposed: bool) -> Arrays:
    """By way of the gradient of A in P A = L U."""
    lu, pivots, _ = operands
    x, g = results[0], grads[0]
    if transposed:
        tb = conjugate(xp, lu_solve((lu, pivots), conjugate(xp, g), 0))
        ta = -matmul(conjugate(xp, x), tb.mT)
    else:
        tb = lu_solve((lu, pivots), g, 2)
        ta = -matmul(tb, adjoint(xp, x))
    ta = permuted(xp, pivots, ta)
    lower, upper = xp.tril(lu, k=-1) + identity(xp, lu.shape[-1], lu), xp.triu(lu)
    of_upper = xp.triu(matmul(adjoint(xp, lower), ta))
    return xp.tril(matmul(ta, adjoint(xp, upper)), k=-1) + of_upper, None, tb

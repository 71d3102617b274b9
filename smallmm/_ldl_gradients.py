"""The rules of `_gradients.py` for factors P A P^T = L D L^T and for solves with them. Which rows were
exchanged, and how large the blocks of D are, counts as constant.

With M = L^-1 P dA P^T L^-T, dD is M within the blocks, and L^-1 dL what is below them in M D^-1: as for
Cholesky in I. Murray, "Differentiation of the Cholesky decomposition" (2016)."""

from typing import Any, NamedTuple

import numpy as np

from ._adapters.recording import Arrays, Rule
from ._composition import constant, identity
from ._ldl import ldl_solve
from ._products import matmul
from ._systems import solve_ex, solve_triangular


class _Exchange(NamedTuple):
    """Of rows k and of those marked, in columns that are marked; nothing where no row is."""

    k: int
    rows: Any  # (..., n)
    columns: Any  # (..., n)

    def of(self, xp: Any, x: Any, everywhere: bool = False) -> Any:
        n = x.shape[-1]
        here = constant(xp, np.arange(n) == self.k, x) != 0
        rows = self.rows[..., :, None]
        own = xp.where(xp.any(self.rows, axis=-1)[..., None], x[..., self.k, :], xp.zeros_like(x[..., 0, :]))
        other = xp.sum(xp.where(rows, x, xp.zeros_like(x)), axis=-2)
        turned = xp.where(rows, own[..., None, :], x)
        is_own = here[:, None] & xp.any(self.rows, axis=-1)[..., None, None]
        turned = xp.where(is_own, other[..., None, :], turned)
        return turned if everywhere else xp.where(self.columns[..., None, :], turned, x)


class _Factors:
    """What ld and pivots of the form "lower" stand for."""

    def __init__(self, xp: Any, ld: Any, pivots: Any):
        n = ld.shape[-1]
        self.xp = xp
        self.one = identity(xp, n, ld)
        numbers = constant(xp, np.arange(n), ld)
        p = pivots.astype(ld.dtype) if xp is np else xp.astype(pivots, ld.dtype)
        self.exchanges: list[_Exchange] = []
        seconds = []
        second = p[..., 0] != p[..., 0]  # false everywhere
        for k in range(n):
            second = (p[..., k - 1] < 0) & ~second if k else second
            ends = second | (p[..., k] > 0)  # a block
            rows = (numbers == xp.abs(p[..., k, None]) - 1) & ends[..., None]
            columns = (numbers < k) & ~(second[..., None] & (numbers == k - 1))
            self.exchanges.append(_Exchange(k, rows, columns))
            seconds.append(second)
        beside = xp.stack(seconds, axis=-1)[..., :, None] & (numbers[:, None] - 1 == numbers)
        zero = xp.zeros_like(ld)
        self.in_blocks = beside | (self.one != 0)  # and in the lower triangle
        self.below = ~self.in_blocks & (numbers[:, None] > numbers)
        d = xp.where(self.in_blocks, ld, zero)
        self.d = d + xp.where(beside, ld, zero).mT
        self.l = self.in_order(xp.where(self.below, ld, zero)) + self.one
        self.p = self.one + zero
        for exchange in self.exchanges:
            self.p = exchange.of(xp, self.p, True)

    def in_order(self, stored: Any) -> Any:
        """Columns of L with all exchanges, of which those that came later are missing in ld."""
        for exchange in self.exchanges:
            stored = exchange.of(self.xp, stored)
        return stored

    def as_stored(self, x: Any) -> Any:
        for exchange in reversed(self.exchanges):
            x = exchange.of(self.xp, x)
        return x

    def part(self, where: Any, x: Any) -> Any:
        return self.xp.where(where, x, self.xp.zeros_like(x))


def _of_factor(xp: Any, ld: Any, pivots: Any, g: Any) -> Any:
    """The gradient of A, from that of ld."""
    f = _Factors(xp, ld, pivots)
    inner = f.part(f.below, matmul(f.l.mT, f.in_order(f.part(f.below, g))))
    inner = f.part(f.below, solve_ex(f.d, inner.mT).x.mT) + f.part(f.in_blocks, g)
    left = solve_triangular(f.l, inner, trans=1, lower=True, unit_diagonal=True)
    ta = solve_triangular(f.l, left.mT, trans=1, lower=True, unit_diagonal=True).mT
    ta = matmul(matmul(f.p.mT, ta), f.p)
    return (ta + ta.mT) / 2


def _of_solution(xp: Any, ld: Any, pivots: Any, ta: Any) -> Any:
    """The gradient of ld, from that of A."""
    f = _Factors(xp, ld, pivots)
    ta = matmul(matmul(f.p, ta), f.p.mT)
    ta = ta + ta.mT
    of_d = matmul(matmul(f.l.mT, ta), f.l)
    of_d = f.part(f.in_blocks, of_d - of_d * f.one / 2)
    return f.as_stored(f.part(f.below, matmul(ta, matmul(f.l, f.d)))) + of_d


def _turned(xp: Any, x: Any) -> Any:
    return xp.flip(x, axis=(-2, -1))


def _turned_pivots(xp: Any, pivots: Any, n: int) -> Any:
    """They count from the other end."""
    p = xp.flip(pivots, axis=-1)
    return xp.where(p > 0, n + 1 - p, -(n + 1) - p)


def factor(lower: bool) -> Rule:
    def rule(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
        ld, pivots, *_ = results
        if lower:
            return (_of_factor(xp, ld, pivots, grads[0]),)
        pivots = _turned_pivots(xp, pivots, ld.shape[-1])
        return (_turned(xp, _of_factor(xp, _turned(xp, ld), pivots, _turned(xp, grads[0]))),)

    return rule


def solution(lower: bool) -> Rule:
    def rule(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
        ld, pivots, _ = operands
        tb = ldl_solve(ld, pivots, grads[0], lower=lower)
        ta = -matmul(tb, results[0].mT)
        if lower:
            return _of_solution(xp, ld, pivots, ta), None, tb
        pivots = _turned_pivots(xp, pivots, ld.shape[-1])
        return _turned(xp, _of_solution(xp, _turned(xp, ld), pivots, _turned(xp, ta))), None, tb

    return rule

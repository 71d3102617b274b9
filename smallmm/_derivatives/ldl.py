"""The rules (`rules`) for factors P A P^T = L D L^H of Hermitian matrices and L D L^T of symmetric
ones, and for solves with them. Which rows were exchanged, and how large the blocks of D are, counts as
constant.

With M = L^-1 P dA P^T L^-H, dD is M within the blocks, and L^-1 dL what is below them in M D^-1: as for
Cholesky in I. Murray, "Differentiation of the Cholesky decomposition" (2016)."""

from typing import Any, NamedTuple

import numpy as np

from .._base.composition import adjoint, conjugate, constant, identity
from .._base.shapes import is_complex
from .._functions.ldl import ldl_solve
from .._functions.products import matmul
from .._functions.systems import solve_ex, solve_triangular
from .._libraries.recording import Arrays


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
        swapped = xp.where(rows, own[..., None, :], x)
        is_own = here[:, None] & xp.any(self.rows, axis=-1)[..., None, None]
        swapped = xp.where(is_own, other[..., None, :], swapped)
        return swapped if everywhere else xp.where(self.columns[..., None, :], swapped, x)


class _Factors:
    """What ld and pivots of the form "lower" stand for."""

    def __init__(self, xp: Any, ld: Any, pivots: Any, hermitian: bool):
        n = ld.shape[-1]
        self.xp = xp
        self.hermitian = hermitian
        self.one = identity(xp, n, ld)
        real = xp.real(ld) if is_complex(ld) else ld
        numbers = constant(xp, np.arange(n), real)
        p = pivots.astype(real.dtype) if xp is np else xp.astype(pivots, real.dtype)
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
        half = xp.where(self.in_blocks, ld - ld * self.one / 2, zero)
        self.d = half + self.transposed(half)
        self.l = self.in_order(xp.where(self.below, ld, zero)) + self.one
        self.p = self.one + zero
        for exchange in self.exchanges:
            self.p = exchange.of(xp, self.p, True)

    def transposed(self, x: Any) -> Any:
        """The transpose in which A is equal to itself."""
        return adjoint(self.xp, x) if self.hermitian else x.mT

    def right(self, x: Any) -> Any:
        """Of a factor, what gradients are multiplied by from the right: L is the conjugate of (L^H)^T."""
        return x if self.hermitian else conjugate(self.xp, x)

    def in_order(self, stored: Any) -> Any:
        """Columns of L with all exchanges: ld lacks the later ones."""
        for exchange in self.exchanges:
            stored = exchange.of(self.xp, stored)
        return stored

    def as_stored(self, x: Any) -> Any:
        for exchange in reversed(self.exchanges):
            x = exchange.of(self.xp, x)
        return x

    def part(self, where: Any, x: Any) -> Any:
        return self.xp.where(where, x, self.xp.zeros_like(x))


def _of_factor(f: _Factors, g: Any) -> Any:
    """The gradient of A, from that of ld."""
    h = adjoint(f.xp, f.l)
    inner = f.part(f.below, matmul(h, f.in_order(f.part(f.below, g))))
    right = adjoint(f.xp, solve_ex(f.d, adjoint(f.xp, inner)).x)
    inner = f.part(f.below, right) + f.part(f.in_blocks, g)
    left = solve_triangular(f.l, inner, trans=2, lower=True, unit_diagonal=True)
    ta = f.transposed(solve_triangular(f.l, f.transposed(left), trans=2, lower=True, unit_diagonal=True))
    ta = matmul(matmul(f.p.mT, ta), f.p)
    return (ta + f.transposed(ta)) / 2


def _of_solution(f: _Factors, ta: Any) -> Any:
    """The gradient of ld, from that of A."""
    ta = matmul(matmul(f.p, ta), f.p.mT)
    ta = ta + f.transposed(ta)
    of_d = matmul(matmul(adjoint(f.xp, f.l), ta), f.right(f.l))
    of_d = f.part(f.in_blocks, of_d - of_d * f.one / 2)
    return f.as_stored(f.part(f.below, matmul(ta, f.right(matmul(f.l, f.d))))) + of_d


def _reversed(xp: Any, x: Any) -> Any:
    return xp.flip(x, axis=(-2, -1))


def _reversed_pivots(xp: Any, pivots: Any, n: int) -> Any:
    """They count from the other end."""
    p = xp.flip(pivots, axis=-1)
    return xp.where(p > 0, n + 1 - p, -(n + 1) - p)


def factor(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, lower: bool, hermitian: bool) -> Arrays:
    ld, pivots, *_ = results
    if not ld.shape[-1]:
        return (ld,)
    if lower:
        return (_of_factor(_Factors(xp, ld, pivots, hermitian), grads[0]),)
    pivots = _reversed_pivots(xp, pivots, ld.shape[-1])
    f = _Factors(xp, _reversed(xp, ld), pivots, hermitian)
    return (_reversed(xp, _of_factor(f, _reversed(xp, grads[0]))),)


def solution(
    xp: Any, operands: Arrays, results: Arrays, grads: Arrays, lower: bool, hermitian: bool
) -> Arrays:
    ld, pivots, b = operands
    if not ld.shape[-1]:
        return ld, None, b
    g = grads[0] if hermitian else conjugate(xp, grads[0])
    tb = ldl_solve(ld, pivots, g, lower=lower, hermitian=hermitian)
    tb = tb if hermitian else conjugate(xp, tb)
    ta = -matmul(tb, adjoint(xp, results[0]))
    if lower:
        return _of_solution(_Factors(xp, ld, pivots, hermitian), ta), None, tb
    pivots = _reversed_pivots(xp, pivots, ld.shape[-1])
    f = _Factors(xp, _reversed(xp, ld), pivots, hermitian)
    return _reversed(xp, _of_solution(f, _reversed(xp, ta))), None, tb

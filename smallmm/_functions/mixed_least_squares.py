"""Least squares by the R of a QR factorization in float32, of complex128 in complex64: corrected seminormal
equations in mixed precision.

A. Bjorck, "Stability analysis of the method of seminormal equations for linear least squares problems",
Linear Algebra Appl. 88/89, 1987. What it cannot do is left to QR in float64: the gate is the condition of R.
"""

from functools import cache
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from .._base.composition import REAL, Composition, adjoint
from .._calls.arrays import without_labels
from .._calls.calls import delivered, run
from .._programs.compose import all_true, extreme, magnitudes, power_of_two, sums
from .mixed import UNIT, double, largest, placed_as, refuse_single, replaced, scale_of, scaled, single, solved
from .norms import vector_norm
from .products import batched_matmul
from .refinement import lu_rcond

STEPS = 15  # of refinement, at most
GATE = 1e-5  # the least rcond of R
STALLED = 2.0**-30  # the largest correction, beside x, that may end the refinement by not shrinking
REFUSED = -1  # in the place of the steps


class LstsqMixedExResult(NamedTuple):
    """`LstsqResult`, info, which is 0, and how many steps were taken, or -1 where QR in float64 was."""

    x: Any
    residual_norms: Any
    rank: Any
    info: Any
    iterations: Any

    @property
    def solution(self) -> Any:
        """PyTorch's name of `x`."""
        return self.x


def _by_qr(a: Any, b: Any) -> tuple[Any, ...]:
    rtol = np.asarray(max(a.shape[-2:]) * 2 * UNIT)
    x, norms, rank, _ = run("lstsq", "lstsq", {"a": a, "b": b, "rtol": rtol}, (None,) * 4)
    return x, norms, rank


def _mixed(xp: Any, a: Any, b: Any) -> tuple[Any, ...]:
    """Every column stops by itself: where a correction is small, or does not shrink and is left out."""
    m, n = a.shape[-2:]
    if m < n or not n or not b.shape[-1]:
        x, norms, rank = _by_qr(a, b)
        return x, norms, rank, xp.zeros_like(rank), xp.full_like(rank, REFUSED)
    # By a power of two: A of largest magnitude about 1, or x, A^T r and what R's solves give may underflow
    scale = power_of_two(xp, scale_of(xp, extreme(xp, largest(xp, a))), a)[..., None, None]
    given, a = a, a * scale
    narrow = single(xp, a)
    upper = run("lstsq", "qr_r_tall", {"a": narrow}, (None,))
    identity = xp.arange(n, dtype=xp.int32, **placed_as(xp, a))  # R is the U of a matrix whose L is I
    rcond = lu_rcond(upper, identity, extreme(xp, sums(xp, magnitudes(xp, upper))), inf)
    adjoint_a = adjoint(xp, a)

    def corrected(g: Any) -> Any:
        right, size = scaled(xp, g)
        y, _ = run("lstsq", "solve_lower", {"a": adjoint(xp, upper), "b": right}, (None, None))
        d, _ = run("lstsq", "solve_upper", {"a": upper, "b": y}, (None, None))
        return double(xp, d) * size

    x = corrected(batched_matmul(adjoint_a, b))
    whole = largest(xp, x)
    goes_on = xp.isfinite(whole)
    last = xp.full_like(whole, inf)
    refused = ~(rcond >= GATE) | xp.any(~goes_on, axis=-1)
    steps = xp.zeros_like(refused, dtype=xp.int32)
    r = b - batched_matmul(a, x)
    for step in range(1, STEPS + 1):
        goes_on = goes_on & ~refused[..., None]
        if all_true(xp, ~goes_on, True):
            break
        steps = xp.where(xp.any(goes_on, axis=-1), xp.full_like(steps, step), steps)
        d = corrected(batched_matmul(adjoint_a, r))
        size, whole = largest(xp, d), largest(xp, x)
        refused = refused | xp.any(goes_on & ~(size < last) & ~(size <= STALLED * whole), axis=-1)
        goes_on = goes_on & (size < last)
        x = xp.where(goes_on[..., None, :], x + d, x)
        last = size
        goes_on = goes_on & (size > 2 * sqrt(n) * UNIT * largest(xp, x))
        r = b - batched_matmul(a, x)
    codes = xp.where(refused, xp.full_like(steps, REFUSED), steps)
    rank = xp.full_like(codes, n)
    x, norms, rank = replaced(xp, refused, (x * scale, vector_norm(r, axis=-2), rank), _by_qr, given, b)
    return x, norms, rank, xp.zeros_like(codes), codes


@cache
def _composition(op: str) -> Composition:
    dtypes = (None, REAL, np.int32, np.int32, np.int32)
    signature = "(m,n),(m,k)->(n,k),(k),(),(),()"
    return Composition("lstsq_mixed", signature, _mixed, dtypes, takes_complex=True, op=op)


def mixed_lstsq_ex(op: str, a: Any, b: Any, outs: tuple[Any, ...] = (None,) * 5) -> LstsqMixedExResult:
    """X of least |A X - B| for matrices of full rank: R from QR in float32, residuals and A^T r in float64.

    QR in float64, whose bits x then has, solves a matrix with more columns than rows, or whose R has a
    reciprocal condition below 1e-5 in infinity norms: iterations = -1.
    """
    a, b = without_labels(a), without_labels(b)
    refuse_single(op, a=a, b=b)
    return LstsqMixedExResult(*delivered(op, outs, solved(op, _composition(op), a, b, None)))

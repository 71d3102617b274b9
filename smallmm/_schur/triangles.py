"""Logarithms and powers of stacks of upper triangular matrices of complex128, in terms of a library's
namespace."""

from functools import cache
from math import log, pi
from typing import Any

import numpy as np

from .._base.composition import constant, identity
from .._functions.matrix_functions import expm, sqrtm_ex
from .._functions.products import batched_matmul
from .._functions.systems import solve_triangular_ex
from .._programs.compose import count, joined, norm_1, products

# The Pade approximant of log(1 + x) of degree m has a backward error of at most u of float64 where the norms
# of powers of x are at most theta (Al-Mohy and Higham, SIAM J. Sci. Comput. 34, 2012, section 2)
DEGREE, THETA = 7, 0.2479
# Ten halve the exponent of the largest number of float64, 1024, to 1; nonnormal matrices take some more.
_MAX_ROOTS = 100
# Triangles with eigenvalues below TINY are multiplied by UP: else their reciprocals overflow.
TINY, UP = 2.0**-960, 2.0**64


def logarithms(xp: Any, t: Any) -> tuple[Any, Any]:
    """The principal logarithm, and how many elements of the diagonal are zero. Square roots bring T near to
    1, whose logarithm is a sum of fractions (Al-Mohy and Higham 2012, algorithm 4.1, with a fixed degree)."""
    n = t.shape[-1]
    zeros = count(xp, xp.linalg.diagonal(t) == 0)
    eye = identity(xp, n, t)
    t = xp.where((zeros > 0)[..., None, None], eye, t)
    is_tiny = xp.any(_sizes(xp, xp.linalg.diagonal(t)) < TINY, axis=-1)
    t = xp.where(is_tiny[..., None, None], t * UP, t)
    root, scale = t, xp.ones_like(norm_1(xp, xp.real(t)))
    for _ in range(_MAX_ROOTS):
        far = _are_far(xp, root - eye)
        if not bool(xp.any(far)):
            break
        root = xp.where(far[..., None, None], sqrtm_ex(root).x, root)
        scale = xp.where(far, scale / 2, scale)
    d = xp.linalg.diagonal(t)
    logs, slopes, apart = _divided(xp, d)
    x = with_diagonal(xp, root - eye, _expm1(xp, logs * scale[..., None]))
    if n > 1:
        above = xp.linalg.diagonal(t, offset=1)
        p = scale[..., None]
        between = products(
            xp, xp.exp((logs[..., 1:] + logs[..., :-1]) * (p / 2)), _sinhc(xp, apart * (p / 2))
        )
        x = with_diagonal(xp, x, products(xp, products(xp, above, slopes), between) * p, 1)
    total = xp.zeros_like(x)
    for node, weight in _nodes():
        total = total + weight * solve_triangular_ex(eye + node * x, x).x
    logs = xp.where(is_tiny[..., None], logs - log(UP), logs)
    total = with_diagonal(xp, total / scale[..., None, None], logs)
    if n > 1:
        total = with_diagonal(xp, total, products(xp, above, slopes), 1)
    return total, zeros


@cache
def _nodes() -> list[tuple[float, float]]:
    """Of the sum w x / (1 + y x), the approximant: those of the Gauss-Legendre rule from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(DEGREE)
    return list(zip(((1 + nodes) / 2).tolist(), (weights / 2).tolist(), strict=True))


def _are_far(xp: Any, x: Any) -> Any:
    """Where the approximant may be too inaccurate: by the norms of X^2 and X^3, whose roots are much less
    than the norm of X where that is far from normal."""
    square = batched_matmul(x, x)
    cube = batched_matmul(square, x)
    return (norm_1(xp, _sizes(xp, square)) > THETA**2) | (norm_1(xp, _sizes(xp, cube)) > THETA**3)


def _sizes(xp: Any, x: Any) -> Any:
    """|re| + |im|, at most 1.42 times the magnitudes, which take longer."""
    return xp.abs(xp.real(x)) + xp.abs(xp.imag(x))


def powers(xp: Any, t: Any, p: Any) -> tuple[Any, Any]:
    """exp(p log T), and how many elements of the diagonal are zero."""
    x, zeros = logarithms(xp, t)
    return expm(p[..., None, None] * x), zeros


def _divided(xp: Any, d: Any) -> tuple[Any, Any, Any]:
    """The logarithms of w_i, their divided differences for neighbours, and their differences, all accurate
    where neighbours are nearly equal: log w_2 - log w_1 is 2 artanh z, z = (w_2 - w_1) / (w_2 + w_1), and a
    multiple of 2 pi i (Higham, Functions of Matrices, 2008, section 11.6)."""
    logs = xp.log(d)
    first, second = d[..., :-1], d[..., 1:]
    apart, gap, sum_of = logs[..., 1:] - logs[..., :-1], second - first, first + second
    near = _sizes(xp, gap) * 2 < _sizes(xp, sum_of)
    z = gap / xp.where(near, sum_of, xp.ones_like(gap))
    turns = xp.ceil((xp.imag(apart) - pi) / (2 * pi)) * (2 * pi)
    angle = joined(xp, xp.zeros_like(turns), turns)
    apart = xp.where(near, 2 * xp.atanh(xp.where(near, z, xp.zeros_like(z))) + angle, apart)
    same = gap == 0
    slopes = xp.where(same, xp.ones_like(gap), apart) / xp.where(same, first, gap)
    return logs, slopes, apart


def _expm1(xp: Any, z: Any) -> Any:
    re, im = xp.real(z), xp.imag(z)
    half = xp.sin(im / 2)
    return joined(xp, xp.expm1(re) * xp.cos(im) - 2 * half * half, xp.exp(re) * xp.sin(im))


def _sinhc(xp: Any, z: Any) -> Any:
    """sinh(z) / z"""
    is_zero = z == 0
    z = xp.where(is_zero, xp.ones_like(z), z)
    return xp.where(is_zero, xp.ones_like(z), xp.sinh(z) / z)


def with_diagonal(xp: Any, x: Any, d: Any, k: int = 0) -> Any:
    """x with other elements (i, i + k)."""
    n = x.shape[-1]
    places = constant(xp, np.eye(n, k=k), xp.real(x)) > 0
    if k:
        d = xp.concat([xp.zeros_like(d[..., :1]), d], axis=-1)
    return xp.where(places, d[..., None, :], x)

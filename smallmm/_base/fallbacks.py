"""What LAPACK has no routine for, beyond the orders of kernels: refinement, L D L^H, exponentials."""

from collections.abc import Callable
from math import ceil, factorial, frexp, inf, isfinite, log2
from typing import Any

import numpy as np

from . import plain


def lu_rcond(lu: np.ndarray, pivots: np.ndarray, norm_a: np.ndarray, norm: str) -> Any:
    if np.isnan(norm_a) or np.isnan(lu).any():
        return np.nan
    return lapack("gecon", lu)(lu, norm_a.real, norm=norm)[0] if norm_a and lu.diagonal().all() else 0


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x as a sum of two numbers of half its digits (Veltkamp)."""
    far = x * (2 ** (np.finfo(x.dtype).nmant // 2 + 1) + 1)
    high = far - (far - x)
    return high, x - high


def _size(x: np.ndarray) -> np.ndarray:
    """Magnitudes, of complex numbers |re| + |im|, as LAPACK's cabs1."""
    return np.abs(x.real) + np.abs(x.imag)


def _residual(a: np.ndarray, x: np.ndarray, b: np.ndarray, extra: bool) -> np.ndarray:
    """b - A x of columns, or of one; `extra`: by error-free transformations, products by Dekker's."""
    if not extra:
        return b - a @ x
    if a.dtype.kind == "c":
        parts = np.concatenate([x.real, x.imag])
        re = _residual(np.concatenate([a.real, -a.imag], 1), parts, b.real, True)
        return re + 1j * _residual(np.concatenate([a.imag, a.real], 1), parts, b.imag, True)
    total, rest = b.copy(), np.zeros_like(b)
    for of_a, of_x in zip(a.T, x, strict=True):
        column = of_a.reshape(-1, *(1,) * (x.ndim - 1))
        (a1, a2), (x1, x2) = _halves(column), _halves(of_x)
        p = column * of_x
        of_product = ((p - a1 * x1) - a1 * x2 - a2 * x1) - a2 * x2
        following = total - p
        moved = following - total
        rest += (total - (following - moved)) - (p + moved) + of_product
        total = following
    return total + rest


def backward_error(a: np.ndarray, x: np.ndarray, b: np.ndarray, normwise: bool, extra: bool) -> Any:
    left = _residual(a, x, b, extra)
    if normwise:
        left = np.abs(left)
        size = np.abs(a).sum(-1).max() * np.abs(x).max(0) + np.abs(b).max(0)
        left = left.max(0)
        return np.where(left == 0, 0, left / size)
    left, size = _size(left), _size(a) @ _size(x) + _size(b)
    small = (len(a) + 1) * np.finfo(a.dtype).tiny
    add = np.where(size > small / (np.finfo(a.dtype).eps / 2), 0, small)
    return np.where(left == 0, 0, (left + add) / (size + add)).max(0)


def _refined_column(
    a: np.ndarray, lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, x: np.ndarray, extra: bool
) -> Any:
    u = np.finfo(a.dtype).eps / 2
    last = np.inf if extra else 3
    for step in range(11 if extra else 6):
        r, berr = _residual(a, x, b, extra), backward_error(a, x, b, False, extra)
        d = lu_solve(lu, pivots, r)
        size, least = (np.abs(d).max(), u * np.abs(x).max()) if extra else (berr, u)
        if not (size > least and 2 * size <= last) or step == (10 if extra else 5):
            break
        x, last = x + d, size
    terms = 2 if a.dtype.kind == "c" else 1
    c = (terms * (len(a) + 1) * u) ** (2 if extra else 1)
    bound = _size(r) + c * (_size(a) @ _size(x) + _size(b))
    inverse = lu_solve(lu, pivots, np.eye(len(a), dtype=a.dtype))
    ferr = (np.abs(inverse) @ bound).max() / (np.abs(x).max() or 1)
    return x, ferr + terms * u * extra, berr


def refined(
    a: np.ndarray, lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, x: np.ndarray, extra: bool
) -> Any:
    """gerfs, which SciPy does not have; the norm of its bound by the inverse itself."""
    if not lu.diagonal().all():
        return nan_like(x), nan_like(x[0].real), nan_like(x[0].real)
    if x.ndim == 1:
        return _refined_column(a, lu, pivots, b, x, extra)
    parts = [_refined_column(a, lu, pivots, *y, extra) for y in zip(b.T, x.T, strict=True)]
    if not parts:
        return x, x[0].real, x[0].real
    columns, ferr, berr = map(np.array, zip(*parts, strict=True))
    return columns.T, ferr, berr


def ldl_solve(
    ld: np.ndarray, pivots: np.ndarray, b: np.ndarray, lower: bool = True, hermitian: bool = True
) -> Any:
    """As sytrs and hetrs, which SciPy has from 1.17 on. An upper triangle is a lower one in reverse order."""
    n, pivots = len(ld), pivots.astype(np.int64)
    if not lower:
        reversed_pivots = np.where(pivots > 0, n + 1 - pivots, -(n + 1) - pivots)[::-1]
        given = np.where(abs(pivots[::-1]) <= n, reversed_pivots, 0)
        x, info = ldl_solve(ld[::-1, ::-1], given, b[::-1], hermitian=hermitian)
        return x[::-1], info and -(n + 1 + info)
    x = b.copy()
    d = ld.diagonal().real if hermitian else ld.diagonal()
    blocks: list[int] = []
    while sum(blocks) < n:
        k = sum(blocks)
        order, row = (1, pivots[k] - 1) if pivots[k] > 0 else (2, -pivots[k] - 1)
        last = k + order - 1
        if not last <= row < n or pivots[min(last, n - 1)] != pivots[k]:
            return nan_like(x), -(k + 1)
        x[[last, row]] = x[[row, last]]
        x[last + 1 :] -= ld[last + 1 :, k : last + 1] @ x[k : last + 1]
        if order == 1:
            x[k] /= d[k]
        else:
            e = ld[last, k]
            right = e.conj() if hermitian else e
            d0, d1, y0, y1 = d[k] / right, d[last] / e, x[k] / right, x[last] / e
            x[k], x[last] = (d1 * y0 - y1) / (d0 * d1 - 1), (d0 * y1 - y0) / (d0 * d1 - 1)
        blocks.append(order)
    for order in blocks[::-1]:
        k = sum(blocks) - order
        last = blocks.pop() + k - 1
        below = ld[last + 1 :, k : last + 1]
        x[k : last + 1] -= (below.conj() if hermitian else below).T @ x[last + 1 :]
        row = abs(pivots[k]) - 1
        x[[last, row]] = x[[row, last]]
    return x, 0


PADE = {"float32": (7, 3.925724783138660), "float64": (13, 4.25)}  # the degree m and the largest norm


def expm(a: np.ndarray) -> Any:
    """As csrc/exponential.h."""
    info = np.finfo(a.dtype)
    m, theta = PADE[info.dtype.name]
    size = float(np.abs(a).sum(0).max())
    if not isfinite(size):
        return nan_like(a)
    exponent = min(max(frexp(size)[1], 0), info.maxexp - 2)
    t = a * info.dtype.type(2.0**-exponent)
    t2 = t @ t
    t4 = t2 @ t2
    t6 = t4 @ t2
    s = 0 if size <= theta else _squarings(m, theta, size, exponent, t, t4, t6)
    growth = 2.0 ** (exponent - s)
    powers = [np.eye(len(a)), *(x * info.dtype.type(growth**k) for k, x in ((2, t2), (4, t4), (6, t6)))]
    b = [factorial(2 * m - k) // (factorial(m - k) * factorial(k)) for k in range(m + 1)]
    b = [info.dtype.type(x / b[0]) for x in b]  # no term is much larger than A
    even, odd = (sum(map(np.multiply, b[first:8:2], powers)) for first in (0, 1))
    if m > 7:
        even += powers[3] @ sum(map(np.multiply, b[8::2], powers[1:]))
        odd += powers[3] @ sum(map(np.multiply, b[9::2], powers[1:]))
    u = (t * info.dtype.type(growth)) @ odd
    x = np.linalg.solve(even - u, even + u)
    corrections = [way for way in (np.transpose, np.asarray) if not np.tril(way(a), -1).any()]
    for left in range(s, -1, -1):
        if left < s:
            x = x @ x
        for way in corrections:
            _correct(way(x), way(a), 2.0**-left)
    return x


def _squarings(
    m: int, theta: float, size: float, exponent: int, t: np.ndarray, t4: np.ndarray, t6: np.ndarray
) -> int:
    """How many there are: smm_squarings_of."""
    d6, d8, d10 = (
        log2(norm) / k if (norm := float(np.abs(x).sum(0).max())) else -inf
        for k, x in ((6, t6), (8, t4 @ t4), (10, t6 @ t4))
    )
    bounds = [max(d6, d8), *([max(d8, d10)] if m > 7 else [])]
    last = float(np.linalg.matrix_power(np.abs(t).astype(np.float64), 2 * m + 1).sum(0).max())
    c = factorial(m) ** 2 / (factorial(2 * m) * factorial(2 * m + 1))
    alpha = c * last / (size * 2.0**-exponent) / (np.finfo(t.dtype).eps / 2)
    needed = [min(bounds) - log2(theta), log2(alpha) / (2 * m) if alpha else -inf]
    most = ceil(log2(size / theta))
    return max(
        0, exponent - (160 if m > 7 else 20), *(min(most, ceil(x + exponent)) for x in needed if x > -inf)
    )


def _correct(x: np.ndarray, a: np.ndarray, factor: float) -> None:
    """The diagonal of the exponential of an upper triangle, and the diagonal above it."""
    w = a.diagonal() * a.dtype.type(factor)
    ascends = w[:-1].real < w[1:].real
    most, d = np.where(ascends, w[1:], w[:-1]), np.where(ascends, w[:-1] - w[1:], w[1:] - w[:-1])
    ratio = np.where(d == 0, 1, np.expm1(d) / np.where(d == 0, 1, d))
    above = a.diagonal(1)
    n = len(x)
    x[np.tril_indices(n, -1)] = 0
    x[np.arange(n), np.arange(n)] = np.exp(w)
    x[np.arange(n - 1), np.arange(1, n)] = np.where(
        above == 0, 0, above * a.dtype.type(factor) * np.exp(most) * ratio
    )


def lapack(name: str, *arrays: np.ndarray) -> Callable[..., Any]:
    try:
        from scipy.linalg.lapack import get_lapack_funcs
    except ImportError:
        if name not in plain.ROUTINES:
            raise
        return plain.ROUTINES[name]
    return get_lapack_funcs((name,), arrays)[0]


def nan_like(x: np.ndarray) -> np.ndarray:
    return np.full_like(x, complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan)


def lu_solve(lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, trans: int = 0) -> Any:
    if b.size == 0:
        return b
    return lapack("getrs", lu, b)(lu, pivots, b, trans=trans)[0]

"""The exponential of stacked matrices by scaling and squaring, as `expm` computes it in any array library."""

from math import factorial, floor, log2
from typing import Any

import numpy as np

from ._compose import column_sums, dtype_name, extreme, magnitudes, norm_1, power_of_two
from ._composition import constant, identity
from ._products import batched_matmul, vecmat
from ._systems import solve_ex


class _Pade:
    """What the [m/m] approximants of some degrees m need in a precision of roundoff u: the largest norms with
    a backward error of at most u, and their coefficients."""

    def __init__(self, log2_u: int, thetas: dict[int, float]) -> None:
        self.log2_u = log2_u
        self.degrees = tuple(thetas)
        self.log2_thetas = tuple(map(log2, thetas.values()))
        # For each degree those of I, A^2, A^4 and A^6 in the four sums of `exponential`, or the first two
        table = np.zeros((len(thetas), 4, 4))
        for row, m in zip(table, thetas, strict=True):
            b = np.zeros(14)
            b[: m + 1] = [factorial(2 * m - k) // (factorial(m - k) * factorial(k)) for k in range(m + 1)]
            b /= 2.0 ** floor(log2(b[0]))  # exactly, so that no term is much larger than A
            odd, even = b[1::2], b[0::2]
            row[0], row[1], row[2, 1:], row[3, 1:] = odd[:4], even[:4], odd[4:], even[4:]
        self.coefficients = table if self.degrees[-1] > 7 else table[:, :2]


# Higham, SIAM J. Matrix Anal. Appl. 26, 2005, for single precision; Al-Mohy and Higham 2009
PADE = {
    "float32": _Pade(-24, {3: 4.258730016922831e-1, 5: 1.880152677804762, 7: 3.925724783138660}),
    "float64": _Pade(
        -53,
        {
            3: 1.495585217958292e-2,
            5: 2.539398330063230e-1,
            7: 9.504178996162932e-1,
            9: 2.097847961257068,
            13: 4.25,
        },
    ),
}


def exponential(xp: Any, a: Any) -> Any:
    """r = (V - U)^-1 (V + U), 2^s times squared, of A / 2^s.

    U = A (odd + A^6 odd'), V = even + A^6 even', where the four sums are of I, A^2, A^4, A^6; even' has a
    term A^8 as A^6 A^2. So all degrees are one formula, with coefficients that are 0 beyond their own.
    Powers are those of T = A / 2^e, which do not overflow; what A / 2^s is multiplied by, f = 2^(e - s), goes
    into the coefficients.
    """
    n = a.shape[-1]
    if not n or 0 in a.shape[:-2]:
        return xp.zeros_like(a)
    pade = PADE[dtype_name(a)]
    size = norm_1(xp, a)
    finite = xp.isfinite(size)
    size = xp.where(finite, size, xp.ones_like(size))
    exponent = xp.clip(xp.frexp(size)[1], 0, int(np.finfo(dtype_name(a)).maxexp) - 2)
    t = a * power_of_two(xp, -exponent, a)[..., None, None]
    t2 = batched_matmul(t, t)
    t4 = batched_matmul(t2, t2)
    t6 = batched_matmul(t4, t2)
    degree, squarings = _degree_and_scaling(xp, pade, size, exponent, t, t4, t6)
    degree, squarings = (xp.where(finite, x, xp.zeros_like(x)) for x in (degree, squarings))

    factors = xp.stack(
        [power_of_two(xp, k * (exponent - squarings), a) for k in (0, 2, 4, 6)], axis=-1
    )  # of T^k
    f = power_of_two(xp, exponent - squarings, a)
    table = constant(xp, pade.coefficients, a)
    rows = table.shape[1]
    chosen = xp.take(table, xp.reshape(degree, (-1,)), axis=0)
    chosen = xp.reshape(chosen, (*degree.shape, rows, 4)) * factors[..., None, :]
    one = xp.zeros_like(t) + identity(xp, n, a)
    powers = xp.reshape(xp.stack([one, t2, t4, t6], axis=-3), (*a.shape[:-2], 4, n * n))
    parts = xp.reshape(batched_matmul(chosen, powers), (*a.shape[:-2], rows, n, n))
    odd, even = parts[..., 0, :, :], parts[..., 1, :, :]
    if rows > 2:
        both = batched_matmul(t6[..., None, :, :], parts[..., 2:, :, :]) * factors[..., 3, None, None, None]
        odd, even = odd + both[..., 0, :, :], even + both[..., 1, :, :]
    u = batched_matmul(t, odd) * f[..., None, None]
    x, _ = solve_ex(even - u, even + u)

    for step in range(int(xp.max(squarings))):
        todo = step < squarings
        squared = batched_matmul(x, x)
        x = squared if xp is np and todo.all() else xp.where(todo[..., None, None], squared, x)
    return x if xp is np and finite.all() else xp.where(finite[..., None, None], x, constant(xp, np.nan, a))


def _degree_and_scaling(
    xp: Any, pade: _Pade, size: Any, exponent: Any, t: Any, t4: Any, t6: Any
) -> tuple[Any, Any]:
    """The index of the degree for each matrix, and how often its exponential is squared.

    In logarithms to base 2, d_k = log2 |A^k| / k; the approximant of degree m has a backward error of at most
    u if max(d_k, d_(k + 2)) <= log2(theta) for some even k with k (k - 2) <= 4 m, and rounding does not
    spoil it, which `_more_scaling` says.
    """
    wide = xp.asarray(exponent, dtype=size.dtype)

    def root(x: Any, k: int) -> Any:
        return xp.log2(norm_1(xp, x)) / k + wide

    d4, d6, d8 = root(t4, 4), root(t6, 6), root(batched_matmul(t4, t4), 8)
    bounds = [xp.maximum(d4, d6)] * 2 + [xp.maximum(d6, d8)] * (len(pade.degrees) - 2)
    if pade.degrees[-1] == 13:
        d10 = root(batched_matmul(t6, t4), 10)
        bounds[-1] = xp.minimum(bounds[-1], xp.maximum(d8, d10))

    more = _more_scaling(xp, pade, size, wide, t)
    last = len(pade.degrees) - 1
    over = xp.maximum(xp.ceil(bounds[last] - pade.log2_thetas[last]), xp.zeros_like(size))
    # Of A / 2^over the error of rounding is 2^(-2 m over) times that of A
    needed = over + xp.maximum(xp.ceil(more[last] - over), xp.zeros_like(size))
    degree, squarings = xp.full_like(exponent, last), needed
    for index in reversed(range(last)):
        enough = (bounds[index] <= pade.log2_thetas[index]) & (more[index] <= 0)
        degree = xp.where(enough, xp.full_like(degree, index), degree)
        squarings = xp.where(enough, xp.zeros_like(size), squarings)
    return degree, xp.asarray(squarings, dtype=exponent.dtype)


def _more_scaling(xp: Any, pade: _Pade, size: Any, exponent: Any, t: Any) -> list[Any]:
    """log2(alpha / u) / (2 m) for each degree m, where alpha = c |abs(A)^(2 m + 1)| / |A|, and c is the first
    coefficient of the backward error's series, (m!)^2 / ((2 m)! (2 m + 1)!)."""
    t1 = magnitudes(xp, t)
    t2 = batched_matmul(t1, t1)
    t4 = batched_matmul(t2, t2)
    sums = vecmat(column_sums(xp, t1), t2)
    done, more = 3, []
    for m in pade.degrees:
        while done < 2 * m + 1:
            sums, done = vecmat(sums, t4), done + 4
        c = factorial(m) ** 2 / (factorial(2 * m) * factorial(2 * m + 1))
        alpha = log2(c) + xp.log2(extreme(xp, sums)) + (2 * m + 1) * exponent - xp.log2(size)
        more.append(xp.where(size > 0, (alpha - pade.log2_u) / (2 * m), xp.zeros_like(size)))
    return more

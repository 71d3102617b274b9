"""The bounds of smallmm/_tools/bounds.py, attacked: matrices that are graded, nearly singular or grow when
they are eliminated, and a search that changes matrices as long as errors grow."""

import re

import accuracy
import numpy as np
import pytest
from accuracy import BOUNDS, condition, growth, unit_roundoff
from matrices import orthonormal, symmetric

import smallmm

ORDERS = (2, 3, 4, 5, 8, 12, 16, 24, 32)

# --- matrices ------------------------------------------------------------------------------------------


def nearly_singular(rng, count, n, dtype):
    """Zeros and ones times a power of two, and what is small beside it."""
    ones = powers(rng, 4, dtype, (count, 1, 1)) * rng.integers(0, 2, (count, n, n))
    small = rng.integers(-2, 3, (count // 2, n, n)), rng.standard_normal((count - count // 2, n, n))
    return ones + np.concatenate(small)


def of_two_sizes(rng, count, n, dtype):
    large = powers(rng, 4, dtype, (count, 1, 1))
    return np.where(rng.random((count, n, n)) < 0.5, large, 1) * rng.standard_normal((count, n, n))


def graded(rng, count, n, dtype):
    """By rows, by columns, and by both."""
    rows, columns = (powers(rng, None, dtype, shape) for shape in ((count, n, 1), (count, 1, n)))
    rows[: count // 3] = columns[count // 3 : 2 * count // 3] = 1
    return rows * rng.standard_normal((count, n, n)) * columns


def smooth(rng, count, n, dtype):
    """Points of a line in a Gaussian, in powers, in 1 / (x + y): conditioned up to singular."""
    x = np.sort(rng.random((count // 3, n)), -1)[:, :, None]
    width = rng.uniform(1, 60, (count // 3, 1, 1))
    gaussian = np.exp(-width * (x - x.mT) ** 2) + 10.0 ** -rng.uniform(3, 14, (count // 3, 1, 1)) * np.eye(n)
    return np.concatenate([gaussian, x ** np.arange(n), 1 / (x + x.mT + 0.01)])


def skew(rng, count, n, dtype):
    """Orthogonal matrices with falling columns, and times triangles of condition 2^n."""
    q = orthonormal(rng, count, n, n)
    falling = np.geomspace(1, 10.0 ** -rng.uniform(2, 13, count), n, axis=-1)[:, None]
    triangle = np.triu(rng.standard_normal((count, n, n)) * 0.5, 1) + np.eye(n)
    which = rng.integers(0, 3, (count, 1, 1))
    return np.choose(which, [q * falling, (q * falling)[:, :, ::-1], q @ triangle])


def growing(rng, count, n, dtype):
    """Wilkinson's, whose last column partial pivoting doubles in each step, and such."""
    below = np.tril(rng.uniform(0.2, 1, (count, n, n)), -1)
    below[::2] = np.tril(np.ones((n, n)), -1)
    a = np.eye(n) - below
    a[:, :, -1] = 1 + 1e-3 * rng.standard_normal((count, n))
    return a


def powers(rng, least, dtype, shape):
    """Powers of two: to 2^40, of float32 to 2^18; from 2^least on, or as small as large."""
    most = 40 if dtype == np.float64 else 18
    exponents = (
        rng.integers(-most // 2, most // 2, shape) if least is None else rng.integers(least, most, shape)
    )
    return np.ldexp(1.0, exponents)


KINDS = (nearly_singular, of_two_sizes, graded, smooth, skew, growing)


# --- errors, in shares of what is promised ---------------------------------------------------------------


def right_sides(a):
    return np.random.default_rng(a.shape[-1]).standard_normal((*a.shape[:-1], 2)).astype(a.dtype)


def inv(a):
    x, info = smallmm.inv_ex(a)
    allowed = BOUNDS["inv"](a.shape[-1]) * np.maximum(growth(a), growth(a.mT))
    tells = (info == 0) & (allowed * condition(a) * unit_roundoff(a.dtype) < 1)
    return np.where(tells, accuracy.inverse_error(x, a) / allowed, 0)


def det(a):
    allowed = BOUNDS["det"](a.shape[-1]) * growth(a)
    tells = allowed * condition(a) * unit_roundoff(a.dtype) < 1
    d = smallmm.det(a)
    normal = (np.abs(d) > np.finfo(a.dtype).tiny) & (np.abs(d) < np.finfo(a.dtype).max)
    # That of the factors, whatever the condition.
    (diagonal,) = accuracy.exactly(np.diagonal(smallmm.lu_factor_ex(a).LU, axis1=-2, axis2=-1))
    product = np.abs(diagonal.prod(-1))
    beside = accuracy.in_u(np.abs(np.abs(d) - product), product, a.dtype) / a.shape[-1]
    return np.where(
        normal, np.where(tells, np.maximum(accuracy.determinant_error(d, a) / allowed, beside), beside), 0
    )


def lu(a):
    lu, pivots, info = smallmm.lu_factor_ex(a)
    assert np.all(np.abs(np.tril(lu, -1))[info == 0] <= 1)
    return np.where(info == 0, accuracy.lu_error(lu, pivots, a) / (BOUNDS["lu"](a.shape[-1]) * growth(a)), 0)


def solution(x, a, b, good, g=1):
    """The larger of the columns of a solution that does not overflow."""
    error = accuracy.solution_error(x, a, b).max(-1) / (BOUNDS["solve"](a.shape[-1]) * g)
    return np.where(good & np.isfinite(x).all((-2, -1)), error, 0)


def solve(a):
    b = right_sides(a)
    x, info = smallmm.solve_ex(a, b)
    return solution(x, a, b, info == 0, growth(a))


def lu_solve(a):
    b = right_sides(a)
    *factors, info = smallmm.lu_factor_ex(a)
    straight = solution(smallmm.lu_solve(factors, b), a, b, info == 0, growth(a))
    return np.maximum(straight, solution(smallmm.lu_solve(factors, b, 1), a.mT, b, info == 0, growth(a)))


def solve_triangular(a):
    a = np.where(np.eye(a.shape[-1], dtype=bool) & (a == 0), a.dtype.type(1), a)
    b = right_sides(a)
    return np.maximum(
        *(
            solution(smallmm.solve_triangular(a, b, lower=lower), side(a), b, True)
            for lower, side in ((True, np.tril), (False, np.triu))
        )
    )


def cholesky(a):
    definite = symmetric(a @ a.mT)
    factor, info = smallmm.cholesky_ex(definite)
    good = info == 0
    error = accuracy.cholesky_error(factor, definite) / BOUNDS["cholesky"](a.shape[-1])
    b = right_sides(a)
    solved = solution(smallmm.cho_solve((factor, True), b), definite, b, good)
    return np.maximum(np.where(good, error, 0), solved)


def qr(a):
    return np.maximum(*accuracy.qr_error(*smallmm.qr(a), a)) / BOUNDS["qr"](a.shape[-1])


def lstsq(a):
    """Square, tall and wide."""
    half, b = a.shape[-1] // 2, right_sides(a)
    parts = (a, b), (a[:, :, :half], b), (a[:, :half], b[:, :half])
    errors = [
        accuracy.least_squares_error(smallmm.lstsq(part, of_part).x, part, of_part).max(-1)
        for part, of_part in parts
    ]
    return np.max(errors, 0) / BOUNDS["lstsq"](a.shape[-1])


FUNCTIONS = (inv, det, lu, solve, lu_solve, solve_triangular, cholesky, qr, lstsq)

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # where NaN is right


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_bounds(function, dtype, rng):
    for n in ORDERS:
        for kind in KINDS:
            a = kind(rng, 400 // n, n, dtype).astype(dtype)
            ratio = function(a)
            assert ratio.max() <= 1, (n, kind.__name__, int(ratio.argmax()))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_search(function, dtype, rng, request):
    """Of many matrices the eight with the largest errors, and those changed by little and by much; again."""
    rounds, steps = (60, 25) if request.config.getoption("--slow") else (1, 8)
    for n in (4, 8, 16, 32) * rounds:
        a = np.concatenate([kind(rng, 12, n, dtype) for kind in KINDS]).astype(dtype)
        for _ in range(steps):
            ratio = function(a)
            assert ratio.max() <= 1, (n, a[ratio.argmax()])
            worst = a[np.argsort(-ratio)[:8]]
            changed = [
                worst * (1 + by * rng.standard_normal(worst.shape).astype(dtype))
                for by in (1e-3, 0.01, 0.1, 0.3)
            ]
            a = np.concatenate([worst, *changed]).astype(dtype)


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS.keys())
def test_words(bound):
    """What a bound says is what it is."""
    said = re.findall(r"<= (.*?) u\b", bound.words)
    assert said
    for units in said:
        formula = re.sub(r"(\d) (?=[\w(])", r"\1 * ", units).replace("^", "**")
        assert eval(formula, {"k": 7, "m": 7, "n": 7, "min": min, "max": max}) == bound(7)

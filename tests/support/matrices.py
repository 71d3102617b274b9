"""Stacks of matrices of every kind: easy ones, those that are hard to compute with, and bad ones."""

from functools import wraps

import numpy as np

from smallmm._base.shapes import is_bfloat16


def of_parts(re, im):
    """Complex numbers; re + 1j * im would make NaN of infinities."""
    x = np.empty(re.shape, np.result_type(re, np.complex64))
    x.real, x.imag = re, im
    return x


def of_any_dtype(kind):
    """A kind of real matrices for complex dtypes too: both parts are of that kind. NumPy does not know what
    bfloat16 holds: float32, rounded."""

    @wraps(kind)
    def drawn(rng, *sizes_and_dtype):
        *sizes, dtype = sizes_and_dtype
        if is_bfloat16(np.dtype(dtype)):
            return kind(rng, *sizes, np.float32).astype(dtype)
        if np.dtype(dtype).kind != "c":
            return kind(rng, *sizes, dtype)
        real = np.finfo(dtype).dtype
        return of_parts(kind(rng, *sizes, real), kind(rng, *sizes, real))

    return drawn


@of_any_dtype
def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def orthonormal(rng, count, m, n, dtype=np.float64):
    """n orthonormal columns of m elements."""
    return np.linalg.qr(normal(rng, (count, m, n), np.dtype(dtype)))[0]


def conditioned(rng, count, m, n, condition, dtype=np.float64):
    """Singular values from 1 down to 1 / condition, spread evenly in the logarithm, of 64-bit numbers."""
    k = min(m, n)
    values = np.geomspace(1, 1 / condition, k)
    return (orthonormal(rng, count, m, k, dtype) * values) @ orthonormal(rng, count, n, k, dtype).conj().mT


@of_any_dtype
def graded(rng, count, m, n, dtype):
    """Rows and columns whose magnitudes fall from 1 to 1e-6 and 1e-8."""
    rows, cols = np.geomspace(1, 1e-6, m), np.geomspace(1, 1e-8, n)
    return (rng.standard_normal((count, m, n)) * rows[:, None] * cols).astype(dtype)


@of_any_dtype
def good(rng, m, n, dtype):
    """A stack of matrices of full rank, conditioned from 1 to 1e14 (float32: 1e5)."""
    worst = 1e14 if dtype == np.float64 else 1e5
    stacks = [
        rng.standard_normal((6, m, n)),
        conditioned(rng, 3, m, n, 10),
        conditioned(rng, 3, m, n, worst),
        graded(rng, 3, m, n, np.float64),
        graded(rng, 3, m, n, np.float64)[:, ::-1, ::-1],
        rng.standard_normal((2, m, n)) + 100 * np.eye(m, n),
        np.triu(rng.standard_normal((1, m, n))) + np.eye(m, n),
    ]
    return np.concatenate(stacks).astype(dtype)


@of_any_dtype
def extreme(rng, m, n, dtype):
    """Elements near the largest and the smallest of the dtype, zeros of both signs, and ties of magnitude."""
    info = np.finfo(dtype)
    x = rng.standard_normal((3, m, n)).clip(-2, 2)
    stacks = [
        x * (info.max / 4),
        x * (info.max / (4 * max(m, n) ** 2)),
        x * info.tiny,
        np.round(x * 1e3) * info.smallest_subnormal,
        np.where(rng.random((3, m, n)) < 0.5, x, x * info.tiny),
        np.where(rng.random((3, m, n)) < 0.5, x, x * (info.max / 8)),
        rng.integers(-1, 2, (4, m, n)),
        rng.integers(-2, 3, (4, m, n)) * -0.0 + rng.integers(-2, 3, (4, m, n)),
    ]
    return np.concatenate(stacks).astype(dtype)


@of_any_dtype
def deficient(rng, m, n, dtype):
    """Exactly singular: a zero column, a zero row, all zero, equal rows and columns of powers of two."""
    x = rng.standard_normal((5, m, n))
    x[0, :, n // 2] = 0
    x[1, m // 2] = 0
    x[2] = 0
    x[3] = 2.0 if n > 1 else 0
    x[4, :, n - 1] = -0.0
    return x.astype(dtype)


@of_any_dtype
def nearly_deficient(rng, m, n, dtype):
    """Of a rank that is hard to tell: graded, with small singular values, columns that nearly depend."""
    eps, k = np.finfo(dtype).eps, min(m, n)
    smallest = eps ** rng.uniform(0.3, 2)
    rows, cols = np.geomspace(1, smallest, m)[:, None], np.geomspace(1, smallest, n)
    x = rng.standard_normal((12, m, n))
    x[:6] *= np.stack(
        np.broadcast_arrays(rows, rows[::-1], rng.permutation(rows), cols, rows * cols, rows * cols[::-1])
    )
    x[6, :, -1] = x[6, :, 0] + eps * 10 ** rng.uniform(-1, 3) * x[6, :, -1]
    x[7:9] = rng.standard_normal((2, m, (k + 1) // 2)) @ rng.standard_normal((2, (k + 1) // 2, n))
    x[8] *= rows
    x[9] = np.vander(np.sort(rng.uniform(size=m)), n, increasing=True)
    x[10] = 1 / (1 + np.arange(m)[:, None] + np.arange(n))
    x[11] = np.exp(-((rng.uniform(size=(m, 1)) - rng.uniform(size=n)) ** 2) * rng.uniform(1, 200))
    values = np.where(np.arange(k) < k // 2, 1, max(m, n) * eps * 10 ** rng.uniform(-1, 1, (4, k)))
    values[2:] = np.geomspace(1, max(m, n) * eps * 10 ** rng.uniform(-1, 2), k)
    clustered = (orthonormal(rng, 4, m, k) * values[:, None]) @ orthonormal(rng, 4, n, k).mT
    kahan = np.zeros((4, m, n))  # of which no diagonal element of R tells
    for q, angle in enumerate([1e-3, *rng.uniform(0.1, 1.5, 3)]):
        upper = np.eye(k) - np.cos(angle) * np.triu(np.ones((k, k)), 1)
        kahan[q, :k, :k] = np.sin(angle) ** np.arange(k)[:, None] * upper
    kahan *= 0.999 ** np.arange(n)  # one order of columns, whoever rounds
    x = np.concatenate([x, clustered, kahan])
    if np.dtype(dtype).kind == "c":
        x = np.exp(2j * np.pi * rng.uniform(size=(m, 1))) * x * np.exp(2j * np.pi * rng.uniform(size=n))
    return x.astype(dtype)


@of_any_dtype
def not_finite(rng, m, n, dtype):
    """A NaN or an infinity: at the start, at the end, in the middle, on the diagonal, and throughout."""
    x = rng.standard_normal((8, m, n))
    x[0, 0, 0] = x[1, m - 1, n - 1] = x[2, m // 2, n // 3] = np.nan
    x[3, 0, 0] = x[4, m - 1, 0] = x[5, 0, n - 1] = np.inf
    x[5, m - 1, n // 2] = -np.inf
    x[6] = np.nan
    x[7] = -np.inf
    return x.astype(dtype)


@of_any_dtype
def rotations(rng, n, dtype):
    """Skew-symmetric matrices, and equal rotations with tiny elements beside them. What is negligible is so
    beside the elements of a rotation, not beside the diagonal."""
    x = rng.standard_normal((6, n, n))
    least = np.log10(np.finfo(dtype).tiny)
    blocks = np.kron(np.eye((n + 1) // 2), [[0, 1], [-1, 0]])[:n, :n]
    return np.concatenate([x - x.mT, blocks + x * 10 ** rng.uniform(least, 0.1 * least, x.shape)]).astype(
        dtype
    )


def every_kind(rng, m, n, dtype):
    """All of the above in one stack, so that good ones have bad neighbours."""
    x = np.concatenate([kind(rng, m, n, dtype) for kind in (good, extreme, deficient, not_finite)])
    return np.ascontiguousarray(rng.permutation(x))


def kinds(rng, m, n, dtype):
    """Good, hard and bad matrices, next to each other; symmetric and skew-symmetric ones among the square."""
    stacks = [kind(rng, m, n, dtype) for kind in (good, extreme, deficient, not_finite) for _ in range(2)]
    if m == n:
        x = good(rng, n, n, dtype)
        stacks += [(x @ x.conj().mT + 0.01 * np.eye(n)).astype(dtype), rotations(rng, n, dtype)]
    a = np.concatenate(stacks)
    return a[rng.permutation(len(a))]


def symmetric(x):
    """Lower triangles of x made symmetric, or Hermitian."""
    lower = np.tril(x)
    return lower + np.tril(x, -1).conj().mT


def good_definite(rng, n, dtype):
    """Symmetric, or Hermitian, positive definite matrices, conditioned from 1 to 1e7 (float32: 1e3), and
    graded."""
    is_double = np.finfo(dtype).dtype == np.float64
    worst = 1e7 if is_double else 1e3

    def factors():
        return np.concatenate(
            [
                rng.standard_normal((6, n, 2 * n + 1)),
                conditioned(rng, 3, n, 2 * n + 1, 3),
                conditioned(rng, 3, n, 2 * n + 1, worst**0.5),
            ]
        )

    x = of_parts(factors(), factors()) if np.dtype(dtype).kind == "c" else factors()
    definite = x @ x.conj().mT
    scale = np.geomspace(1, 1e-8 if is_double else 1e-4, n)
    return symmetric(np.concatenate([definite, scale[:, None] * definite[:6] * scale]).astype(dtype))


def every_definite(rng, n, dtype):
    """Symmetric matrices of every kind, most of them positive definite."""
    fine = good_definite(rng, n, dtype)
    info = np.finfo(dtype)
    broken = fine[:6].copy()
    broken[np.arange(6), np.arange(6) % n, np.arange(6) % n] = [-1, 0, np.nan, np.inf, -np.inf, -0.0]
    off_diagonal = fine[:3].copy()
    off_diagonal[np.arange(3), n - 1, 0] = [np.nan, np.inf, 1e30]
    others = [
        fine[:3] * dtype.type(info.tiny),
        fine[:3] * dtype.type(info.max / (100 * n)),
        broken,
        symmetric(off_diagonal),
        symmetric(normal(rng, (3, n, n), dtype)),
        symmetric(extreme(rng, n, n, dtype)),
        np.ones((1, n, n), dtype),
        np.zeros((1, n, n), dtype),
        np.broadcast_to(np.eye(n, dtype=dtype), (1, n, n)),
    ]
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(rng.permutation(np.concatenate([fine, *others])))


def diagonals_of_every_kind(rng, name, m, n, k, count, dtype, lower=None):
    """The operands of a solve with m diagonals, `lower` below the main one (None: a number for each matrix):
    easy and hard matrices, singular ones, some that are not finite, next to each other."""
    tridiagonal = name.startswith("solve_tridiagonal")
    sizes = ((n - 1,), (n,), (n - 1,)) if tridiagonal else ((m, n),)
    dtype, wide = np.dtype(dtype), np.result_type(dtype, np.float64)
    scale = 10.0 ** rng.choice([0, 0, 0, -30, 30, *([-290, 290] if dtype == wide else [-37])], count)
    arrays = [normal(rng, (count, *size), wide) for size in sizes]
    if tridiagonal:
        main = arrays[1]
    elif name == "solve_banded":
        numbers = rng.integers(0, m, count) if lower is None else np.full(count, lower)
        main = arrays[0][np.arange(count), m - 1 - numbers]
    else:
        main = arrays[0][:, m - 1 if name.endswith("upper") else 0]
    main += np.where(np.arange(count) % 3 == 0, 0, 2 * m + 2)[:, None] * (
        1 if name.startswith("solveh") else rng.choice([-1, 1], main.shape)
    )
    kinds, place = np.arange(count) % 11, rng.integers(0, n, count)
    for value, kind in ((0, 4), (np.nan, 5), (np.inf, 6), (-1, 7)):
        these = np.flatnonzero(kinds == kind)
        main[these, place[these]] = value
        if kind == 4:  # a column of zeros
            for x in arrays if tridiagonal else ():
                x[these] = 0
    if name == "solve_banded":
        arrays[0][np.arange(count), m - 1 - numbers] = main
    with np.errstate(all="ignore"):
        arrays = [(x * scale.reshape(-1, *(1,) * (x.ndim - 1))).astype(dtype) for x in arrays]
    if name == "solve_banded":
        arrays += [numbers.astype(np.int32) if lower is None else np.array(lower, np.int32)]
    return [*arrays, normal(rng, (count, n, k), dtype)]

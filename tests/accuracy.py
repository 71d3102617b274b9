"""What results must satisfy: the one table of error bounds, and equality to the bit.

Errors are per matrix, in units of the roundoff u of the result's dtype, computed in extended precision.
"""

from math import ceil, log2

import numpy as np

import smallmm._core as core

# op: bound on the error of its result, in units of the roundoff u, from the inner dimension or the order n
BOUNDS = {
    "matmul": lambda k: k + 2 if k <= 1024 else 258 + ceil(log2(k / 256)),  # |C - A B| <= |A||B|, elementwise
    "lu": lambda n: 10 * n,  # |P A - L U|_1 <= |A|_1, and |L| <= 1
    "cholesky": lambda n: 10 * n,  # |A - L L^T|_1 <= |A|_1
    "qr": lambda n: 20 * n,  # |A - Q R|_1 <= |A|_1, and |Q^T Q - I|_1
    "solve": lambda n: 20 * n,  # |B - A X|_1 <= |A|_1 |X|_1 + |B|_1 of each column, however it is solved
    "inv": lambda n: 50 * n,  # |A X - I|_1 <= cond_1(A)
    "det": lambda n: 10 * n * n,  # |d - det A| <= cond_1(A) |det A|
    "lstsq": lambda n: 50 * n,  # |A^T (b - A x)|_2 <= |A|_F (|A|_F |x|_2 + |b|_2); n: the larger of m and n
}

DTYPES = (np.float32, np.float64)


def unit_roundoff(dtype):
    return np.finfo(dtype).eps / 2


def bound(op, dtype, n):
    return BOUNDS[op](n) * unit_roundoff(dtype)


def exactly(*arrays):
    """Arrays in extended precision, in which residuals lose nothing that counts."""
    return [np.asarray(x, np.longdouble) for x in arrays]


def norm1(x):
    """The largest column sum of each matrix."""
    return np.abs(x).sum(-2).max(-1, initial=0)


def condition(a):
    """cond_1 of each matrix, from the inverse in float64 of the matrix scaled to around 1."""
    a = a.astype(np.float64)
    a = np.ldexp(a, -np.frexp(np.abs(a).max((-2, -1), keepdims=True, initial=0))[1])
    return norm1(a) * norm1(np.linalg.inv(a))


def in_u(error, size, dtype):
    """error / size in units of u; no error is 0 whatever the size, and one beside a size of 0 is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0, error, error / (size * unit_roundoff(dtype)))


def matmul_error(c, a, b):
    dtype, k = c.dtype, a.shape[-1]
    c, a, b = exactly(c, a, b)
    parts = [slice(p, p + 4096) for p in range(0, max(k, 1), 4096)]  # of which sums lose little
    product = sum(a[..., p] @ b[..., p, :] for p in parts)
    size = sum(np.abs(a[..., p]) @ np.abs(b[..., p, :]) for p in parts)
    return in_u(np.abs(c - product), size, dtype)


def assert_accurate_matmul(c, a, b):
    assert np.all(matmul_error(c, a, b) <= BOUNDS["matmul"](a.shape[-1]))


def permuted(x, pivots):
    """P X: the rows of each matrix of x exchanged in turn."""
    x = x.copy()
    stack = np.arange(len(x))
    for i, p in enumerate(pivots.T):
        rows = x[stack, p].copy()
        x[stack, p] = x[:, i]
        x[:, i] = rows
    return x


def lu_error(lu, pivots, a):
    dtype, n = lu.dtype, a.shape[-1]
    a, lu = exactly(a, lu)
    lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
    return in_u(norm1(permuted(a, pivots) - lower @ upper), norm1(a), dtype)


def assert_accurate_lu(lu, pivots, a):
    n = a.shape[-1]
    assert np.all((pivots >= np.arange(n)) & (pivots < n))
    assert np.all(np.abs(np.tril(lu, -1)) <= 1)
    assert np.all(lu_error(lu, pivots, a) <= BOUNDS["lu"](n))


def cholesky_error(c, a, upper=False):
    dtype = c.dtype
    c, a = exactly(c, a)
    return in_u(norm1(a - (c.mT @ c if upper else c @ c.mT)), norm1(a), dtype)


def assert_accurate_cholesky(c, a, upper=False):
    assert np.all((np.tril(c, -1) if upper else np.triu(c, 1)) == 0)
    assert np.all(cholesky_error(c, a, upper) <= BOUNDS["cholesky"](a.shape[-1]))


def solution_error(x, a, b):
    """Of each column."""
    dtype = x.dtype
    x, a, b = exactly(x, a, b)
    size = norm1(a)[:, None] * np.abs(x).sum(-2) + np.abs(b).sum(-2)
    return in_u(np.abs(b - a @ x).sum(-2), size, dtype)


def assert_accurate_solution(x, a, b):
    assert np.all(solution_error(x, a, b) <= BOUNDS["solve"](a.shape[-1]))


def inverse_error(x, a):
    residual = norm1(np.matmul(*exactly(a, x)) - np.eye(a.shape[-1]))
    return in_u(residual, condition(a), x.dtype)


def assert_accurate_inverse(x, a):
    assert np.all(inverse_error(x, a) <= BOUNDS["inv"](a.shape[-1]))


def assert_accurate_determinant(sign, logabsdet, a, det=None):
    n, dtype = a.shape[-1], logabsdet.dtype
    expected_sign, expected = np.linalg.slogdet(a.astype(np.float64))
    allowed = 2 * bound("det", dtype, n) * condition(a)  # NumPy's are as far off
    tells = allowed < 0.1
    assert np.array_equal(sign[tells], expected_sign[tells])
    assert np.all(
        np.abs(logabsdet - expected)[tells] <= (allowed + 4 * unit_roundoff(dtype) * np.abs(expected))[tells]
    )
    if det is not None:
        expected = expected_sign * np.exp(expected)
        tells &= (np.abs(expected) < np.finfo(dtype).max) & (np.abs(expected) > np.finfo(dtype).tiny)
        assert np.all(np.abs(det - expected)[tells] <= (2 * allowed * np.abs(expected))[tells])


def qr_error(q, r, a):
    """Of the product, and of the orthogonality of Q."""
    dtype = q.dtype
    q, r, a = exactly(q, r, a)
    orthogonality = norm1(q.mT @ q - np.eye(q.shape[-1]))
    return in_u(norm1(a - q @ r), norm1(a), dtype), in_u(orthogonality, 1, dtype)


def assert_accurate_qr(q, r, a):
    assert np.all(np.tril(r, -1) == 0)
    product, orthogonality = qr_error(q, r, a)
    assert np.all(product <= BOUNDS["qr"](max(a.shape[-2:])))
    assert np.all(orthogonality <= BOUNDS["qr"](max(a.shape[-1], q.shape[-1])))


def least_squares_sizes(x, a, b):
    """In extended precision: A, what is left of each column of B, |A|, and |A| |x| + |b|, in 2-norms."""
    x, a, b = exactly(x, a, b)
    norm_a = np.sqrt((a**2).sum((-2, -1)))[:, None]
    return a, b - a @ x, norm_a, norm_a * np.sqrt((x**2).sum(-2)) + np.sqrt((b**2).sum(-2))


def least_squares_error(x, a, b):
    """Of each column: how far A^T times what is left is from 0."""
    wide, left, norm_a, size = least_squares_sizes(x, a, b)
    return in_u(np.sqrt(((wide.mT @ left) ** 2).sum(-2)), norm_a * size, x.dtype)


def assert_accurate_least_squares(x, residual_norms, a, b):
    larger = max(a.shape[-2:])
    assert np.all(least_squares_error(x, a, b) <= BOUNDS["lstsq"](larger))
    _, left, _, size = least_squares_sizes(x, a, b)
    off = np.abs(residual_norms - np.sqrt((left**2).sum(-2)))
    assert np.all(off <= bound("lstsq", x.dtype, larger) * size)


def assert_same_bits(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert x.tobytes() == y.tobytes()


def assert_same(results, expected):
    """Equal to the bit, except that one NaN is as good as another. Of arrays, or tuples of them."""
    if isinstance(expected, tuple):
        assert len(results) == len(expected)
        for x, y in zip(results, expected, strict=True):
            assert_same(x, y)
        return
    x, y = np.asarray(results), np.asarray(expected)
    if y.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        x, y = (np.where(np.isnan(z), z.dtype.type(0), z) for z in (x, y))
    assert_same_bits(x, y)


def has_fma(isa):
    return isa != "portable"


def assert_matches_reference(isa, gufunc, *operands):
    """The gufunc's result has the reference's bits, or, without FMA, its accuracy. Returns the result."""
    result = gufunc(*operands)
    expected = core.reference(gufunc, *operands)
    if has_fma(isa):
        assert_same_bits(result, expected)
    else:
        assert_accurate_matmul(result, *operands[:2])
    return result

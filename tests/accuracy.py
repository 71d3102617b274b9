"""What results must satisfy: the one table of error bounds, and equality to the bit."""

import numpy as np

import smallmm._core as core

# op: bound on the error of its result, in units of the roundoff u, from the inner dimension or the order n
BOUNDS = {
    "matmul": lambda k: k + 2,  # |C - A B| <= |A||B|, elementwise
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
    """cond_1 of each matrix, from the inverse in float64."""
    a = a.astype(np.float64)
    return norm1(a) * norm1(np.linalg.inv(a))


def assert_accurate_matmul(c, a, b):
    dtype = c.dtype
    c, a, b = exactly(c, a, b)
    assert np.all(np.abs(c - a @ b) <= bound("matmul", dtype, a.shape[-1]) * (np.abs(a) @ np.abs(b)))


def permuted(x, pivots):
    """P X: the rows of each matrix of x exchanged in turn."""
    x = x.copy()
    stack = np.arange(len(x))
    for i, p in enumerate(pivots.T):
        rows = x[stack, p].copy()
        x[stack, p] = x[:, i]
        x[:, i] = rows
    return x


def assert_accurate_lu(lu, pivots, a):
    n, dtype = a.shape[-1], lu.dtype
    assert np.all((pivots >= np.arange(n)) & (pivots < n))
    a, lu = exactly(a, lu)
    lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
    assert np.all(np.abs(lower) <= 1)
    assert np.all(norm1(permuted(a, pivots) - lower @ upper) <= bound("lu", dtype, n) * norm1(a))


def assert_accurate_cholesky(c, a, upper=False):
    n, dtype = a.shape[-1], c.dtype
    c, a = exactly(c, a)
    assert np.all((np.tril(c, -1) if upper else np.triu(c, 1)) == 0)
    product = c.mT @ c if upper else c @ c.mT
    assert np.all(norm1(a - product) <= bound("cholesky", dtype, n) * norm1(a))


def assert_accurate_solution(x, a, b):
    n, dtype = a.shape[-1], x.dtype
    x, a, b = exactly(x, a, b)
    size = norm1(a)[:, None] * np.abs(x).sum(-2) + np.abs(b).sum(-2)
    assert np.all(np.abs(b - a @ x).sum(-2) <= bound("solve", dtype, n) * size)


def assert_accurate_inverse(x, a):
    n, dtype = a.shape[-1], x.dtype
    residual = norm1(np.matmul(*exactly(a, x)) - np.eye(n))
    assert np.all(residual <= bound("inv", dtype, n) * condition(a))


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


def assert_accurate_qr(q, r, a):
    n, dtype = a.shape[-1], q.dtype
    q, r, a = exactly(q, r, a)
    assert np.all(np.tril(r, -1) == 0)
    assert np.all(norm1(a - q @ r) <= bound("qr", dtype, max(a.shape[-2:])) * norm1(a))
    assert np.all(norm1(q.mT @ q - np.eye(q.shape[-1])) <= bound("qr", dtype, max(n, q.shape[-1])))


def assert_accurate_least_squares(x, residual_norms, a, b):
    dtype = x.dtype
    x, a, b = exactly(x, a, b)
    residual = b - a @ x
    allowed = bound("lstsq", dtype, max(a.shape[-2:]))
    norm_a = np.sqrt((a**2).sum((-2, -1)))[:, None]
    size = norm_a * np.sqrt((x**2).sum(-2)) + np.sqrt((b**2).sum(-2))
    assert np.all(np.sqrt(((a.mT @ residual) ** 2).sum(-2)) <= allowed * norm_a * size)
    assert np.all(np.abs(residual_norms - np.sqrt((residual**2).sum(-2))) <= allowed * size)


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

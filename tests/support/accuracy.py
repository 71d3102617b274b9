"""What results must satisfy: the errors that smallmm/_tools/bounds.py bounds, and equality to the bit.

Errors are per matrix, in units of the roundoff u of the result's dtype, computed in extended precision.
"""

from fractions import Fraction

import numpy as np

import smallmm
import smallmm._core as core
from smallmm._base.shapes import MAX_ORDER
from smallmm._tools.bounds import BOUNDS, COMPLEX_FACTOR

DTYPES = (np.float32, np.float64)
COMPLEX = (np.complex64, np.complex128)


def unit_roundoff(dtype):
    return np.finfo(dtype).eps / 2


def bound(op, dtype, n):
    return units(op, dtype, n) * unit_roundoff(dtype)


def units(op, dtype, n):
    """The bound in units of the roundoff."""
    return BOUNDS[op](n) * (COMPLEX_FACTOR if is_complex(dtype) else 1)


def is_complex(dtype):
    return np.dtype(dtype).kind == "c"


def real(dtype):
    """The dtype of magnitudes."""
    return np.finfo(dtype).dtype


def adjoint(x):
    return x.conj().mT


def exactly(*arrays):
    """Arrays in extended precision, in which residuals lose nothing that counts."""
    return [np.asarray(x, np.clongdouble if np.iscomplexobj(x) else np.longdouble) for x in arrays]


def for_products(*arrays):
    """In a precision in which products lose nothing that counts: numbers of single precision in double."""
    if all(x.dtype in (np.float32, np.complex64) for x in arrays):
        return [x.astype(np.result_type(x, np.float64)) for x in arrays]
    return exactly(*arrays)


def wide_matmul(a, b):
    """A B. In extended precision NumPy's matmul takes 1.6 times as long to form the same sums."""
    if np.result_type(a, b).char not in "gG":
        return a @ b
    return np.vecdot(a.conj()[..., None, :], np.ascontiguousarray(b.mT)[..., None, :, :])


def norm1(x):
    """The largest column sum of each matrix."""
    return np.abs(x).sum(-2).max(-1, initial=0)


def condition(a):
    """cond_1 of each matrix, in float64 of the matrix scaled to around 1."""
    a = a.astype(np.result_type(a, np.float64))
    scale = np.ldexp(1.0, -np.frexp(np.abs(a).max((-2, -1), keepdims=True, initial=0))[1])
    return np.linalg.cond(a * scale, 1)


def growth(a):
    """g of docs/promises.md: |U| / |A| of each matrix, or 1 if that is less."""
    return np.maximum(1, np.nan_to_num(norm1(np.triu(smallmm.lu_factor_ex(a).LU)) / norm1(a)))


def determinant(a):
    """Of each matrix, in extended precision, by elimination."""
    (a,) = exactly(a)
    a, det = a.copy(), np.ones(len(a), a.dtype)
    stack = np.arange(len(a))
    for k in range(a.shape[-1]):
        p = k + np.abs(a[:, k:, k]).argmax(-1)
        a[stack, k], a[stack, p] = a[stack, p], a[stack, k]
        pivot = a[:, k, k]
        det *= np.where(p == k, pivot, -pivot)
        factors = np.divide(a[:, k + 1 :, k], pivot[:, None], where=pivot[:, None] != 0, out=a[:, k + 1 :, k])
        a[:, k + 1 :] -= factors[:, :, None] * a[:, k, None]
    return det


def in_u(error, size, dtype):
    """error / size in units of u; no error is 0 whatever the size, and one beside a size of 0 is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0, error, error / (size * unit_roundoff(dtype)))


def matmul_error(c, a, b):
    dtype, k = c.dtype, a.shape[-1]
    c, a, b = for_products(c, a, b)
    parts = [slice(p, p + 4096) for p in range(0, max(k, 1), 4096)]  # of which sums lose little
    exact = sum(wide_matmul(a[..., p], b[..., p, :]) for p in parts)
    size = sum(wide_matmul(np.abs(a[..., p]), np.abs(b[..., p, :])) for p in parts)
    return in_u(np.abs(c - exact), size, dtype)


def assert_accurate_matmul(c, a, b):
    assert np.all(matmul_error(c, a, b) <= units("matmul", c.dtype, a.shape[-1]))


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
    a, lu = for_products(a, lu)
    lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
    return in_u(norm1(permuted(a, pivots) - wide_matmul(lower, upper)), norm1(a), dtype)


def assert_accurate_lu(lu, pivots, a):
    n = a.shape[-1]
    assert np.all((pivots >= np.arange(n)) & (pivots < n))
    assert np.all(np.abs(np.tril(lu, -1)) <= (1.415 if is_complex(lu.dtype) else 1))
    assert np.all(lu_error(lu, pivots, a) <= units("lu", lu.dtype, n))


def cholesky_error(c, a, upper=False):
    dtype = c.dtype
    c, a = for_products(c, a)
    factors = (adjoint(c), c) if upper else (c, adjoint(c))
    return in_u(norm1(a - wide_matmul(*factors)), norm1(a), dtype)


def assert_accurate_cholesky(c, a, upper=False):
    assert np.all((np.tril(c, -1) if upper else np.triu(c, 1)) == 0)
    assert np.all(cholesky_error(c, a, upper) <= units("cholesky", c.dtype, a.shape[-1]))
    if is_complex(c.dtype):
        assert np.all(np.diagonal(c, axis1=-2, axis2=-1).imag == 0)


def solution_error(x, a, b):
    """Of each column."""
    dtype = x.dtype
    x, a, b = for_products(x, a, b)
    size = norm1(a)[:, None] * np.abs(x).sum(-2) + np.abs(b).sum(-2)
    return in_u(np.abs(b - wide_matmul(a, x)).sum(-2), size, dtype)


def assert_accurate_solution(x, a, b):
    assert np.all(solution_error(x, a, b) <= units("solve", x.dtype, a.shape[-1]))


def inverse_error(x, a):
    residual = norm1(wide_matmul(*for_products(a, x)) - np.eye(a.shape[-1]))
    return in_u(residual, condition(a), x.dtype)


def assert_accurate_inverse(x, a):
    assert np.all(inverse_error(x, a) <= units("inv", x.dtype, a.shape[-1]))


def determinant_error(det, a):
    exact = determinant(a)
    return in_u(np.abs(det - exact), condition(a) * np.abs(exact), det.dtype)


def assert_accurate_determinant(sign, logabsdet, a, det=None):
    dtype, exact = logabsdet.dtype, determinant(a)
    allowed = bound("det", sign.dtype, a.shape[-1]) * condition(a)
    tells = allowed < 0.5
    if is_complex(sign.dtype):
        off_circle = np.abs(np.abs(sign[tells]) - 1)
        off_sign = np.abs(sign[tells] - (exact / np.abs(exact))[tells])
        lapacks = a.shape[-1] if a.shape[-1] > 32 else 0
        assert np.all(off_circle <= (4 + lapacks) * unit_roundoff(dtype))
        assert np.all(off_sign <= 2 * allowed[tells] + 4 * unit_roundoff(dtype))
    else:
        assert np.array_equal(sign[tells], np.sign(exact)[tells])
    log = np.log(np.abs(exact[tells]))  # which an error of x changes by at most 2 x, if x is at most 1/2
    off = np.abs(logabsdet[tells] - log)
    assert np.all(off <= 2 * allowed[tells] + 4 * unit_roundoff(dtype) * np.abs(log))
    if det is not None:
        tells = (allowed < 1) & (np.abs(exact) < np.finfo(dtype).max) & (np.abs(exact) > np.finfo(dtype).tiny)
        assert np.all(determinant_error(det, a)[tells] <= units("det", det.dtype, a.shape[-1]))


def qr_error(q, r, a):
    """Of the product, and of the orthogonality of Q."""
    dtype = q.dtype
    q, r, a = for_products(q, r, a)
    orthogonality = norm1(wide_matmul(adjoint(q), q) - np.eye(q.shape[-1]))
    return in_u(norm1(a - wide_matmul(q, r)), norm1(a), dtype), in_u(orthogonality, 1, dtype)


def assert_accurate_qr(q, r, a):
    assert np.all(np.tril(r, -1) == 0)
    product, orthogonality = qr_error(q, r, a)
    assert np.all(product <= units("qr", q.dtype, max(a.shape[-2:])))
    assert np.all(orthogonality <= units("qr", q.dtype, max(a.shape[-1], q.shape[-1])))


def least_squares_sizes(x, a, b):
    """In extended precision: A, what is left of each column of B, |A|, and |A| |x| + |b|, in 2-norms."""
    x, a, b = exactly(x, a, b)
    norm_a = np.sqrt((a**2).sum((-2, -1)))[:, None]
    return a, b - wide_matmul(a, x), norm_a, norm_a * np.sqrt((x**2).sum(-2)) + np.sqrt((b**2).sum(-2))


def least_squares_error(x, a, b):
    """Of each column: how far A^T times what is left is from 0."""
    wide, left, norm_a, size = least_squares_sizes(x, a, b)
    return in_u(np.sqrt((wide_matmul(wide.mT, left) ** 2).sum(-2)), norm_a * size, x.dtype)


def assert_accurate_least_squares(x, residual_norms, a, b):
    larger = max(a.shape[-2:])
    assert np.all(least_squares_error(x, a, b) <= BOUNDS["lstsq"](larger))
    _, left, _, size = least_squares_sizes(x, a, b)
    off = np.abs(residual_norms - np.sqrt((left**2).sum(-2)))
    assert np.all(off <= bound("lstsq", x.dtype, larger) * size)


def as_tuple(results):
    return tuple(results) if isinstance(results, tuple) else (results,)


def assert_same_bits(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert has_bits(x, y)


def has_bits(x, y):
    return x.tobytes() == y.tobytes()


def assert_same(results, expected):
    """Equal to the bit, except that one NaN is as good as another. Of arrays, or tuples of them."""
    if isinstance(expected, tuple):
        assert len(results) == len(expected)
        for x, y in zip(results, expected, strict=True):
            assert_same(x, y)
        return
    x, y = np.asarray(results), np.asarray(expected)
    if (x.dtype, x.shape) == (y.dtype, y.shape) and has_bits(x, y):
        return  # NaN, too
    if y.dtype.kind == "c" and x.dtype == y.dtype:
        x, y = (np.ascontiguousarray(z[..., None]).view(real(z.dtype)) for z in (x, y))
    if y.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        x, y = (np.where(np.isnan(z), z.dtype.type(0), z) for z in (x, y))
    assert_same_bits(x, y)


def same_signs(x, y):
    """Of all parts that are numbers, zeros included."""
    parts = ((x.real, y.real), (x.imag, y.imag)) if x.dtype.kind == "c" else ((x, y),)
    return all((np.isnan(x) | (np.signbit(x) == np.signbit(y))).all() for x, y in parts)


def has_fma(isa):
    return isa != "portable"


def has_kernel_of_its_own(isa, m, n, shape):
    """The best instruction set alone is tried above the orders that have kernels: LAPACK computes those."""
    sizes = [x for x in (m, n, *(shape or ())) if x is not None]
    return isa in (None, core.isas_available()[-1]) or min(sizes, default=0) <= MAX_ORDER


def assert_matches_reference(isa, gufunc, *operands):
    """The gufunc's result has the reference's bits, or, without FMA, its accuracy. Returns the result."""
    result = gufunc(*operands)
    expected = core.reference(gufunc, *operands)
    if has_fma(isa):
        assert_same_bits(result, expected)
    else:
        assert_accurate_matmul(result, *operands[:2])
    return result


def realified(a):
    """A real matrix that has the eigenvalues of a Hermitian one, or the singular values of a complex one,
    each twice."""
    return np.block([[a.real, -a.imag], [a.imag, a.real]]) if np.iscomplexobj(a) else a


def eigenvalues_below(a, x):
    """How many eigenvalues of a symmetric matrix are less than x: the negative pivots of A - x I, in rational
    numbers."""
    n = len(a)
    rows = [[Fraction(a[i][j]) - (x if i == j else 0) for j in range(n)] for i in range(n)]
    count = 0
    for k in range(n):
        pivot = rows[k][k]
        count += pivot < 0
        for i in range(k + 1, n):
            factor = rows[i][k] / pivot
            for j in range(i, n):
                rows[j][i] = rows[i][j] = rows[i][j] - factor * rows[k][j]
    return count

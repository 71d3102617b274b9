"""Singular values and singular vectors: accuracy on matrices of every kind, order and signs, full and reduced
vectors, graded matrices, bad ones, by either method. Bits, layouts and batches are in test_linalg.py, calls
in test_linalg_calls.py."""

from fractions import Fraction

import numpy as np
import pytest
from accuracy import (
    assert_same,
    assert_same_bits,
    eigenvalues_below,
    for_products,
    has_fma,
    has_kernel_of_its_own,
    realified,
    wide_matmul,
)
from matrices import conditioned, deficient, extreme, normal, orthonormal

import smallmm
import smallmm._core as core

pytestmark = pytest.mark.where.with_args(has_kernel_of_its_own)

SQUARES = [(n, n) for n in (*range(1, 10), 12, 16, 17, 24, 31, 32, 33, 64, 129)]
JACOBI_MAX = 4  # larger orders are bidiagonalised
SHAPES = [
    *SQUARES,
    (2, 1),
    (1, 3),
    (5, 3),
    (3, 5),
    (9, 8),
    (33, 2),
    (2, 40),
    (33, 31),
    (128, 8),
    (8, 128),
    (40, 90),
    (140, 131),
]
FEW = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (13, 13), (32, 32), (33, 33), (7, 4), (4, 7)]


def with_values(rng, values, m, n):
    k = min(m, n)
    return (orthonormal(rng, 2, m, k) * values) @ orthonormal(rng, 2, n, k).mT


def kinds(rng, m, n, dtype):
    """Stacks of matrices by name; two of a kind where sums in extended precision take long."""
    info, k = np.finfo(dtype), min(m, n)
    x = rng.standard_normal((20, m, n))
    last = 1e-150 if dtype == np.float64 else 1e-15
    rows, cols = np.geomspace(1, last, m)[:, None], np.geomspace(1, last, n)
    stacks = {
        "normal": x,
        "zero": 0 * x[:1],
        "identity": np.eye(m, n)[None],
        "ones": np.ones((1, m, n)),
        "diagonal": x[:2] * np.eye(m, n),
        "exchanged": np.eye(m, n)[None, ::-1],
        "repeated": with_values(rng, np.where(np.arange(k) < k // 2, 2.0, 1.0), m, n),
        "clustered": with_values(rng, 1 + np.arange(k) * float(info.eps), m, n),
        "ill-conditioned": conditioned(rng, 3, m, n, 1e14 if dtype == np.float64 else 1e6),
        "rank one": x[:3, :, :1] * x[:3, :1],
        "half rank": x[:3, :, : (k + 1) // 2] @ rng.standard_normal((3, (k + 1) // 2, n)),
        "graded columns": x[:4] * cols,
        "graded columns upwards": x[:4] * cols[::-1],
        "graded rows": x[:4] * rows,
        "graded rows upwards": x[:4] * rows[::-1],
        "graded both": x[:4] * rows * cols,
        "nilpotent": np.eye(m, n, 1)[None],
        "nearly nilpotent": np.eye(m, n, 1) + float(info.eps) * rng.integers(-3, 4, (8, m, n)),
        "bidiagonal": x[:4] * (np.eye(m, n) + np.eye(m, n, 1)),
        "bidiagonal, of all sizes": x[:8]
        * (np.eye(m, n) + np.eye(m, n, 1))
        * 10.0 ** -rng.integers(0, 20, (8, m, n)),
        "bidiagonal with zeros": rng.integers(-1, 2, (20, m, n)) * (np.eye(m, n) + np.eye(m, n, 1)),
        "Kahan's": (np.eye(m, n) - 0.6 * np.triu(np.ones((m, n)), 1))[None] * 0.8 ** np.arange(m)[:, None],
        "one small": with_values(rng, np.where(np.arange(k) < k - 1, 1, float(info.eps)), m, n),
        "one large": with_values(rng, np.where(np.arange(k) < 1, 1, 2 * float(info.eps)), m, n),
        "small integers": rng.integers(-1, 2, (20, m, n)),
        "triangular": np.tril(x[:3]),
        "tiny": x[:4] * float(info.tiny),
        "subnormal": np.round(x[:4] * 1e3) * float(info.smallest_subnormal),
        "huge": x[:4].clip(-2, 2) * float(info.max / (4 * max(m, n))),
    }
    if dtype == np.float64:
        stacks["very graded"] = x[:4] * np.geomspace(1e150, 1e-150, n)
    most = None if max(m, n) <= 64 else 2
    stacks = {name: stack[:most].astype(dtype) for name, stack in stacks.items()}
    stacks["deficient"] = deficient(rng, m, n, dtype)
    return stacks


def norm(a):
    """The 1-norm of each matrix, in extended precision."""
    return np.abs(a.astype(np.longdouble)).sum(-2).max(-1)


def drift(q):
    """How far columns are from orthonormal."""
    (q,) = for_products(q)
    return norm(wide_matmul(q.mT, q) - np.eye(q.shape[-1])).max()


def assert_accurate(u, s, vh, a, name=""):
    """The bounds of docs/promises.md; a result may be rounded to a multiple of the smallest number."""
    n, k, info = max(a.shape[-2:]), s.shape[-1], np.finfo(a.dtype)
    unit, grain = info.eps / 2, n * np.longdouble(info.smallest_subnormal)
    size = norm(a)
    left, values, right = for_products(u[..., :k], s, vh[..., :k, :])
    residual = norm(a - wide_matmul(left * values[..., None, :], right))
    assert (residual <= 20 * n * unit * size + grain).all(), (
        name,
        np.max(residual / (n * unit * size + grain)),
    )
    assert drift(u) <= 20 * n * unit, (name, drift(u) / (n * unit))
    assert drift(vh.mT) <= 20 * n * unit, (name, drift(vh.mT) / (n * unit))
    assert (np.diff(s) <= 0).all(), name
    assert (s >= 0).all(), name


@pytest.mark.accuracy
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_accuracy(isa, dtype, shape, rng):
    n, k = max(shape), min(shape)
    for name, a in kinds(rng, *shape, dtype).items():
        u, s, vh, info = smallmm.svd_ex(a)
        assert not info.any(), name
        assert u.shape == (len(a), shape[0], shape[0]), name
        assert vh.shape == (len(a), shape[1], shape[1]), name
        assert_accurate(u, s, vh, a, name)
        reduced = smallmm.svd(a, full_matrices=False)
        if k <= 32:
            assert_same(tuple(reduced), (u[..., :k], s, vh[..., :k, :]))
            assert_same_bits(smallmm.svdvals(a), s)
            assert_same_bits(smallmm.svd(a, compute_uv=False), s)
        else:
            assert_accurate(*reduced, a, name)
            difference = np.abs(smallmm.svdvals(a) - s).max(-1)
            assert (difference <= n * np.finfo(dtype).eps * norm(a)).all()


@pytest.mark.accuracy
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_of_float32(isa, shape, rng):
    for name, a in kinds(rng, *shape, np.float32).items():
        error = np.abs(smallmm.svdvals(a) - np.linalg.svd(a.astype(float), compute_uv=False)).max(-1)
        assert (error <= 10 * max(shape) * 2.0**-24 * norm(a) + max(shape) * 2.0**-149).all(), name


def assert_values(s, a, limits):
    """Each singular value is within its limit of the exact one: of A^T A, in rational numbers. The limits are
    no round numbers, so that no pivot is zero."""
    rows = [[Fraction(x) for x in row] for row in (a if len(a) >= a.shape[1] else a.T).tolist()]
    n = len(rows[0])
    gram = [[sum(row[i] * row[j] for row in rows) for j in range(n)] for i in range(n)]
    for j, (x, limit) in enumerate(zip(s, limits, strict=True)):
        low, high = (Fraction(float(x)) + sign * limit * Fraction(999983, 1000003) for sign in (-1, 1))
        assert low <= 0 or eigenvalues_below(gram, low**2) <= n - 1 - j
        assert eigenvalues_below(gram, high**2) > n - 1 - j


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (4, 4), (6, 6), (7, 3), (3, 7)], ids=str)
def test_values(dtype, shape, rng):
    for a in kinds(rng, *shape, dtype).values():
        for x in a[: 3 if shape[0] < 5 else 1]:
            info, size = np.finfo(dtype), Fraction(*norm(x).as_integer_ratio())
            limit = (
                10
                * max(shape)
                * (Fraction(float(info.eps)) / 2 * size + Fraction(float(info.smallest_subnormal)))
            )
            assert_values(smallmm.svdvals(x), x, [limit] * min(shape))


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (4, 4), (9, 4), (4, 9)], ids=str)
@pytest.mark.parametrize("upwards", [False, True])
def test_graded_values_are_relatively_accurate(isa, dtype, shape, upwards, rng):
    """A = B D, or D B of the wide: each singular value is right to the condition of B, however small. Graded
    matrices of larger orders are among those of `test_accuracy` and `test_values`."""
    assert min(shape) <= JACOBI_MAX
    m, n = shape
    k = min(m, n)
    scales = np.geomspace(1, 1e-100 if dtype == np.float64 else 1e-10, k)[:: -1 if upwards else 1]
    b = conditioned(rng, 2, m, n, 10)
    a = (b * scales if m >= n else b * scales[:, None]).astype(dtype)
    for x in a:
        s = smallmm.svdvals(x)
        assert_values(s, x, [100 * k * Fraction(float(np.finfo(dtype).eps)) * Fraction(float(y)) for y in s])


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (4, 4), (4, 2), (3, 4)], ids=str)
def test_rows_and_columns_graded_in_any_order(isa, number, shape, rng):
    """D B E: the relative error of each singular value depends on B alone, as the eigenvalues of the exact
    Gram matrix say. Minors of B may be worse than its condition."""
    info = np.finfo(number)
    step = 1e-6 if info.bits == 64 else 1e-3
    for _ in range(20):
        b = normal(rng, shape, np.result_type(number, np.float64))
        rows, cols = (step ** rng.permutation(size) for size in shape)
        a = (b * rows[:, None] * cols).astype(number)
        small, times = a if shape[0] <= shape[1] else a.conj().mT, 2 if number.kind == "c" else 1
        wide = [[Fraction(x) for x in row] for row in realified(small).tolist()]
        gram = [[sum(x * y for x, y in zip(one, other, strict=True)) for other in wide] for one in wide]
        limit = Fraction(float(1000 * info.eps * np.linalg.cond(b))) * Fraction(999983, 1000003)
        for values in (smallmm.svdvals(a), smallmm.svd(a).S):
            for j, value in enumerate(values[::-1]):
                assert eigenvalues_below(gram, (Fraction(float(value)) * (1 - limit)) ** 2) <= times * j
                assert eigenvalues_below(gram, (Fraction(float(value)) * (1 + limit)) ** 2) >= times * (j + 1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_signs(isa, dtype, shape, rng):
    """The largest component, the first of equals, of each vector of the smaller side is positive."""
    for a in kinds(rng, *shape, dtype).values():
        u, _, vh = smallmm.svd(a, full_matrices=False)
        v = vh.mT if shape[0] >= shape[1] else u
        largest = np.take_along_axis(v, np.abs(v).argmax(-2, keepdims=True), -2)
        assert (largest > 0).all()
        for x in (u, vh):
            assert min(shape) > 32 or not np.signbit(x[x == 0]).any()


@pytest.mark.parametrize("order", [JACOBI_MAX, JACOBI_MAX + 1])
@pytest.mark.parametrize("function", ["svd", "svdvals"])
def test_methods(isa, dtype, function, order):
    """The order alone decides, be it of rows or of columns."""
    for shape in ((order, order), (20, order), (order, 20)):
        kernel = smallmm.explain(function, np.ones((9, *shape), dtype)).kernel
        assert ("_bidiagonal_" in kernel) == (order > JACOBI_MAX)


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (33, 31), (1, 5), (40, 8)], ids=str)
def test_transposes(isa, dtype, shape, rng):
    """A wide matrix is the transpose of a tall one, to the bit."""
    a = normal(rng, (19, *shape), dtype)
    for full in (False, True):
        u, s, vh = smallmm.svd(a, full_matrices=full)
        v, same, uh = smallmm.svd(a.mT, full_matrices=full)
        assert_same((v.mT, same, uh.mT), (vh, s, u))


@pytest.mark.parametrize("shape", FEW, ids=str)
def test_not_finite(isa, dtype, shape, rng):
    """NaN or an infinity makes that matrix NaN, is no error, and neighbours have the bits they had."""
    a = normal(rng, (40, *shape), dtype)
    good = smallmm.svd(a)
    for bad in (np.nan, np.inf, -np.inf):
        b, at = a.copy(), rng.permutation(40)[:9]
        b[at, shape[0] - 1, rng.integers(shape[1])] = bad
        *results, info = smallmm.svd_ex(b)
        assert not info.any()
        for x, y in zip(results, good, strict=True):
            assert np.isnan(x[at]).all()
            assert_same_bits(np.delete(x, at, 0), np.delete(y, at, 0))
        assert (np.isnan(smallmm.svdvals(b)) == np.isnan(results[1])).all()


@pytest.mark.parametrize("shape", [s for s in FEW if max(s) < 33], ids=str)
def test_slow_neighbours(isa, dtype, shape, rng):
    """Matrices that converge at once, beside those that take long, have the bits that they have alone."""
    a = rng.permutation(np.concatenate(list(kinds(rng, *shape, dtype).values())))
    results = tuple(smallmm.svd(a))
    for q in range(0, len(a), 7):
        assert_same(tuple(smallmm.svd(a[q])), tuple(x[q] for x in results))
    if has_fma(isa):
        gufunc = core.svd_full_tall if shape[0] >= shape[1] else core.svd_full_wide
        assert_same(tuple(core.reference(gufunc, a))[:3], results)


def test_near_the_ends_of_the_range(isa, dtype, rng):
    for m, n in ((2, 2), (3, 3), (7, 7), (32, 32), (9, 4), (4, 9)):
        a = extreme(rng, m, n, dtype)
        u, s, vh, info = smallmm.svd_ex(a)
        assert not info.any()
        fine = np.isfinite(s).all(-1)
        assert fine.sum() > len(a) // 2
        assert_accurate(u[fine], s[fine], vh[fine], a[fine])


def test_powers_of_two(isa, dtype, rng):
    """Times one, a matrix has the same singular vectors, to the bit."""
    for shape in ((9, 5, 5), (9, 3, 3), (9, 7, 3)):
        a = normal(rng, shape, dtype)
        u, s, vh = smallmm.svd(a)
        for power in (-15, 12) if dtype == np.float32 else (-150, 150):
            assert_same(tuple(smallmm.svd(np.ldexp(a, power))), (u, np.ldexp(s, power), vh))


def test_no_elements(dtype):
    for shape in ((0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)):
        a = np.zeros(shape, dtype)
        for full in (False, True):
            ours, theirs = smallmm.svd(a, full_matrices=full), np.linalg.svd(a, full_matrices=full)
            assert_same(tuple(ours), tuple(theirs))


def test_arguments(rng):
    a = rng.standard_normal((4, 5, 3))
    u, s, vh = smallmm.svd(a)
    out = np.empty((4, 5, 5)), np.empty((4, 3)), None
    results = smallmm.svd(a, out=out)
    assert results.U is out[0]
    assert results.S is out[1]
    assert_same(tuple(results), (u, s, vh))
    values = np.empty((4, 3))
    assert smallmm.svd(a, compute_uv=False, out=values) is values
    assert_same_bits(values, s)
    with pytest.raises(TypeError, match=r"svd: out is a ndarray; expected a tuple \(U, S, Vh\)"):
        smallmm.svd(a, out=np.empty((4, 5, 5)))
    with pytest.raises(ValueError, match="svd: "):
        smallmm.svd(np.zeros(3))


def test_failure_is_told(monkeypatch):
    """What a matrix that does not converge would raise."""
    info = np.array([0, 3, 0], np.int32)
    monkeypatch.setitem(core.direct, "svdvals_tall", lambda a, out: (np.zeros((3, 4)), info))
    with pytest.raises(smallmm.LinAlgError, match=r"svdvals: 1 of 3 matrices is not converged, the first at"):
        smallmm.svdvals(np.zeros((3, 4, 4)))

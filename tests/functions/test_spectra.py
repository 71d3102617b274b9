"""Eigenvalues and eigenvectors of symmetric matrices: accuracy on matrices of every kind, order and signs,
triangles, bad matrices. Bits, layouts and batches are in test_linalg.py, calls in test_linalg_calls.py."""

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
from matrices import extreme, normal, orthonormal, symmetric

import smallmm
import smallmm._core as core

pytestmark = pytest.mark.where.with_args(has_kernel_of_its_own)

ORDERS = [*range(1, 10), 12, 15, 16, 17, 24, 31, 32, 33, 64, 129]  # the last is beyond our kernels


def with_eigenvalues(rng, values):
    """Symmetric matrices in float64 that have these eigenvalues, about."""
    q = orthonormal(rng, 2, len(values), len(values))
    return symmetric((q * values) @ q.mT)


def kinds(rng, n, dtype):
    """Stacks of symmetric matrices by name; two of a kind where sums in extended precision take long."""
    info, eye, x = np.finfo(dtype), np.eye(n), symmetric(rng.standard_normal((20, n, n)))
    far = np.geomspace(1, 1e-150 if dtype == np.float64 else 1e-15, n)
    near = 1 + np.arange(n) * float(info.eps)
    shifted = np.where(np.eye(n, k=1) + np.eye(n, k=-1) > 0, 1.0, 0)
    stacks = {
        "normal": x,
        "zero": 0 * x[:1],
        "identity": eye[None],
        "diagonal": x[:2] * eye,
        "ones": np.ones((1, n, n)),
        "repeated": with_eigenvalues(rng, np.where(np.arange(n) < n // 2, 1.0, 2.0)),
        "opposite": with_eigenvalues(rng, np.where(np.arange(n) % 2, 1.0, -1.0)),
        "clustered": with_eigenvalues(rng, near),
        "one apart": with_eigenvalues(rng, np.where(np.arange(n) == 0, 1e-3, near)),
        "definite": with_eigenvalues(rng, np.geomspace(1, 1e-10, n)),
        "graded": x[:4] * far * far[:, None],
        "graded upwards": x[:4] * (1 / far[::-1]) * (1 / far[::-1, None]),
        "graded and turned": with_eigenvalues(rng, far),
        "path": shifted[None],
        "wilkinson": (shifted + np.diag(np.abs(np.arange(n) - (n - 1) / 2)))[None],
        "weakly coupled": (np.diag(np.arange(n) // 2.0) + shifted * np.sqrt(float(info.eps)))[None],
        "exchanges": np.where(np.add.outer(np.arange(n), np.arange(n)) == n - 1, 1.0, 0)[None],
        "small integers": symmetric(rng.integers(-1, 2, (20, n, n))),
        "tiny": x[:4] * float(info.tiny),
        "subnormal": symmetric(np.round(x[:4] * 1e3)) * float(info.smallest_subnormal),
        "huge": x[:4].clip(-2, 2) * float(info.max / (4 * n)),
    }
    if dtype == np.float64:
        stacks["very graded"] = np.diag(np.geomspace(1e150, 1e-150, n))[None] + 1e-160 * x[:2]
    most = None if n <= 64 else 2
    return {name: stack[:most].astype(dtype) for name, stack in stacks.items()}


def norm(a):
    """The 1-norm of each matrix, in extended precision."""
    return np.abs(a.astype(np.longdouble)).sum(-2).max(-1)


def assert_accurate(w, v, a):
    """The bounds of docs/promises.md; a result may be rounded to a multiple of the smallest number."""
    n, info = a.shape[-1], np.finfo(a.dtype)
    wide, w, v = for_products(a, w, v)
    size = norm(a)
    unit, grain = info.eps / 2, n * np.longdouble(info.smallest_subnormal)
    residual = norm(wide_matmul(wide, v) - v * w[..., None, :])
    assert (residual <= 20 * n * unit * size + grain).all(), np.max(residual / (n * unit * size + grain))
    drift = norm(wide_matmul(v.mT, v) - np.eye(n))
    assert (drift <= 20 * n * unit).all(), np.max(drift / (n * unit))


def assert_eigenvalues(w, a):
    """Each is within the bound of the exact one. The bound is no round number, so that no pivot is zero."""
    n, info = len(a), np.finfo(a.dtype)
    size = Fraction(*norm(a).as_integer_ratio())
    limit = 10 * n * Fraction(float(info.eps)) / 2 * size * Fraction(999983, 1000003)
    limit += n * Fraction(float(info.smallest_subnormal)) * Fraction(999979, 1000003)
    for j, x in enumerate(w):
        assert eigenvalues_below(a.tolist(), Fraction(float(x)) - limit) <= j
        assert eigenvalues_below(a.tolist(), Fraction(float(x)) + limit) > j


@pytest.mark.parametrize("n", ORDERS)
def test_accuracy(isa, dtype, n, rng):
    stacks = kinds(rng, n, dtype)
    for name, a in stacks.items():
        w, v, info = smallmm.eigh_ex(a)
        assert not info.any(), name
        assert_accurate(w, v, a)
        assert (np.diff(w) >= 0).all(), name
        values = smallmm.eigvalsh(a)
        if n <= 32:
            assert_same_bits(values, w)
        assert (np.abs(values.astype(np.longdouble) - w) <= n * np.finfo(dtype).eps * norm(a)[:, None]).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_eigenvalues(dtype, n, rng):
    for a in kinds(rng, n, dtype).values():
        for x in a[: 4 if n < 5 else 1]:
            assert_eigenvalues(smallmm.eigvalsh(x), x)


@pytest.mark.parametrize("n", ORDERS)
def test_eigenvalues_of_float32(isa, n, rng):
    for name, a in kinds(rng, n, np.float32).items():
        error = np.abs(smallmm.eigvalsh(a) - np.linalg.eigvalsh(a.astype(np.float64))).max(-1)
        assert (error <= 10 * n * 2.0**-24 * norm(a) + n * 2.0**-149).all(), name


@pytest.mark.parametrize("n", ORDERS)
def test_signs(isa, dtype, n, rng):
    """The largest component of each eigenvector, the first of equals, is positive; and so are all zeros."""
    for a in kinds(rng, n, dtype).values():
        v = smallmm.eigh(a).eigenvectors
        largest = np.take_along_axis(v, np.abs(v).argmax(-2, keepdims=True), -2)
        assert (largest > 0).all()
        assert n > 32 or not np.signbit(v[v == 0]).any()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 16, 32, 33, 129])
def test_triangles(isa, dtype, n, rng):
    """Only the one that UPLO names is read, whatever is in the other."""
    x = normal(rng, (21, n, n), dtype)
    lower = np.where(np.tri(n, dtype=bool), x, np.nan).astype(dtype)
    whole = symmetric(x)
    for function in (smallmm.eigh_ex, lambda *a, **k: (smallmm.eigvalsh(*a, **k),)):
        expected = tuple(function(whole))
        assert_same(tuple(function(lower)), expected)
        assert_same(tuple(function(lower, UPLO="L")), expected)
        assert_same(tuple(function(np.ascontiguousarray(lower.mT), UPLO="U")), expected)
        assert_same(tuple(function(lower.mT, UPLO="U")), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17, 32, 33, 129])
def test_not_finite(isa, dtype, n, rng):
    """NaN or an infinity makes that matrix NaN, is no error, and neighbours have the bits they had."""
    a = symmetric(normal(rng, (40, n, n), dtype))
    good = smallmm.eigh(a)
    for bad in (np.nan, np.inf, -np.inf):
        b, at = a.copy(), rng.permutation(40)[:9]
        b[at, n - 1, rng.integers(n)] = bad
        w, v, info = smallmm.eigh_ex(b)
        assert not info.any()
        assert np.isnan(w[at]).all()
        assert np.isnan(v[at]).all()
        assert_same_bits(np.delete(w, at, 0), np.delete(good.eigenvalues, at, 0))
        assert_same_bits(np.delete(v, at, 0), np.delete(good.eigenvectors, at, 0))
        assert (np.isnan(smallmm.eigvalsh(b)) == np.isnan(w)).all()


@pytest.mark.parametrize("n", [2, 3, 4, 8, 13, 32])
def test_slow_neighbours(isa, dtype, n, rng):
    """Matrices that converge at once, beside those that take long, have the bits that they have alone."""
    stacks = kinds(rng, n, dtype)
    a = rng.permutation(np.concatenate(list(stacks.values())))
    w, v = smallmm.eigh(a)
    for q in range(0, len(a), 7):
        assert_same(tuple(smallmm.eigh(a[q])), (w[q], v[q]))
    if has_fma(isa):
        assert_same(tuple(core.reference(core.eigh, a))[:2], (w, v))


def test_near_the_ends_of_the_range(isa, dtype, rng):
    for n in (2, 3, 7, 32):
        a = symmetric(extreme(rng, n, n, dtype))
        w, v, info = smallmm.eigh_ex(a)
        assert not info.any()
        fine = np.isfinite(w).all(-1) & np.isfinite(a).all((-1, -2))
        assert fine.sum() > len(a) // 2
        assert_accurate(w[fine], v[fine], a[fine])


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16])
def test_eigenvalues_that_underflow_are_positive_zeros(isa, dtype, n, rng):
    """As the reference has it; those of rank 1 are zero but for rounding, of either sign."""
    x = rng.integers(-3, 4, (500, n, 1)).astype(dtype)
    a = (x @ x.mT) * np.finfo(dtype).smallest_subnormal
    values = smallmm.eigvalsh(a)
    assert (values == 0).any()
    assert not np.signbit(values[values == 0]).any()
    if has_fma(isa):
        assert_same_bits(values, core.reference(core.eigvalsh, a)[0])


def test_rank_one_of_order_two(isa, dtype):
    """Of integers, whose eigenvalues are exact, no rounding makes the smaller one negative."""
    p, q = np.indices((41, 41)).reshape(2, -1) - 20
    x = np.stack([p, q], -1)[:, :, None].astype(dtype)
    for a in (x @ x.mT, (x @ x.mT).astype(np.result_type(dtype, np.complex64)), x @ -x.mT):
        expected = np.sort(np.stack([0 * p, a[:, 0, 0].real + a[:, 1, 1].real], -1), -1)
        for values in (smallmm.eigh(a).eigenvalues, smallmm.eigvalsh(a), smallmm.eigvalsh(a, UPLO="U")):
            np.testing.assert_array_equal(values, expected)


def test_smaller_eigenvalue_of_order_two(isa, dtype, rng):
    """Within a few u of the smaller element of the diagonal, as LAPACK's dlaev2; also in larger matrices."""
    small = 2.0 ** rng.integers(-20 if dtype == np.float32 else -60, 0, 500)
    ratio = rng.uniform(0, 1, 500)
    a = np.zeros((500, 2, 2), dtype)
    a[:, 0, 0], a[:, 1, 1] = 1, small
    a[:, 0, 1] = a[:, 1, 0] = np.sqrt(ratio * small)
    a[::2] = a[::2, ::-1, ::-1]
    d, e, f = (y.astype(np.longdouble) for y in (a[:, 0, 0], a[:, 0, 1], a[:, 1, 1]))
    exact = (d * f - e * e) / ((d + f) / 2 + np.sqrt(((d - f) / 2) ** 2 + e**2))
    error = abs(smallmm.eigvalsh(a)[:, 0] - exact)
    assert (error <= 4 * np.finfo(dtype).eps * np.minimum(d, f)).all()
    whole = np.zeros((500, 5, 5), dtype)
    whole[:, range(5), range(5)] = 7
    whole[:, 2:4, 2:4] = a
    error = abs(smallmm.eigvalsh(whole)[:, 0] - exact)
    assert (error <= 4 * np.finfo(dtype).eps * np.minimum(d, f)).all()


@pytest.mark.parametrize("n", [2, 3, 4])
def test_graded_definite_matrices(isa, number, n, rng):
    """D B D: the relative error of each eigenvalue depends on the condition of B alone, in whatever order D
    is graded."""
    info = np.finfo(number)
    step = 1e-6 if n < 4 or info.bits == 64 else 1e-5  # squares of the smallest are normal numbers
    for _ in range(60):
        x = normal(rng, (n, 2 * n), np.result_type(number, np.float64))
        b = symmetric(x @ x.conj().T) * (1 - np.eye(n)) + np.diag((abs(x) ** 2).sum(-1))
        d = step ** rng.permutation(n) / np.sqrt(b.diagonal().real)
        a = (b * d * d[:, None]).astype(number)
        exact, times = realified(symmetric(a)).tolist(), 2 if number.kind == "c" else 1
        w, v = smallmm.eigh(a)
        wide = for_products(v)[0]
        assert np.abs(wide.conj().T @ wide - np.eye(n)).max() <= 20 * n * info.eps, d
        scaled = b / np.sqrt(np.outer(b.diagonal(), b.diagonal()))
        limit = Fraction(float(10 * n * info.eps * np.linalg.cond(scaled))) * Fraction(999983, 1000003)
        for j, value in enumerate(w):
            assert eigenvalues_below(exact, Fraction(float(value)) * (1 - limit)) <= times * j, d
            assert eigenvalues_below(exact, Fraction(float(value)) * (1 + limit)) >= times * (j + 1), d


@pytest.mark.parametrize("n", [2, 3, 4])
def test_few_rows_converge(isa, number, n, rng):
    """Matrices of a few numbers of very different magnitudes, many of them singular."""
    powers = np.finfo(number).eps ** rng.integers(-1, 4, (4000, n, n)) * rng.integers(-2, 3, (4000, n, n))
    turned = powers * (1j ** rng.integers(0, 4, powers.shape) if number.kind == "c" else 1)
    a = (turned + turned.conj().mT).astype(number)
    w, v, info = smallmm.eigh_ex(a)
    assert not info.any()
    wide, vectors = for_products(a, v)
    size = np.abs(wide).sum(-2).max(-1)[:, None, None]
    unit = np.finfo(number).eps / 2
    assert (np.abs(wide @ vectors - vectors * w[:, None, :]) <= 40 * n * unit * size).all()
    assert (np.abs(vectors.conj().mT @ vectors - np.eye(n)) <= 40 * n * unit).all()
    if has_fma(isa):
        assert_same(tuple(core.reference(core.eigh, a))[:2], (w, v))


def test_powers_of_two(isa, dtype, rng):
    """Times one, a matrix has the same eigenvectors, to the bit."""
    a = symmetric(normal(rng, (9, 5, 5), dtype))
    w, v = smallmm.eigh(a)
    for power in (-15, 12) if dtype == np.float32 else (-150, 150):
        assert_same(tuple(smallmm.eigh(np.ldexp(a, power))), (np.ldexp(w, power), v))


def test_wrong_triangle():
    for function in (smallmm.eigh, smallmm.eigh_ex, smallmm.eigvalsh, smallmm.eigvalsh_ex):
        for uplo in ("lower", "", None, True, ["L"]):
            with pytest.raises(ValueError, match=rf"{function.__name__}: UPLO is .*; expected 'L' or 'U'"):
                function(np.eye(2), UPLO=uplo)
        assert_same(tuple(function(np.eye(2), UPLO="u")), tuple(function(np.eye(2), UPLO="U")))


def test_failure_is_told(monkeypatch):
    """What a matrix that does not converge would raise."""
    info = np.array([0, 3, 0], np.int32)
    monkeypatch.setitem(core.direct, "eigvalsh", lambda a, out: (np.zeros((3, 4)), info))
    with pytest.raises(
        smallmm.LinAlgError, match=r"eigvalsh: 1 of 3 matrices is not converged, the first at"
    ) as e:
        smallmm.eigvalsh(np.zeros((3, 4, 4)))
    assert e.value.info is info

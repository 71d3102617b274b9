"""Norms, condition numbers and ranks: their values, near the ends of the range too, and NumPy's examples.
Bits, layouts, dtypes, `out` and libraries are in test_compositions.py."""

import mpmath
import numpy as np
import pytest
from accuracy import assert_same_bits, exactly, unit_roundoff
from matrices import conditioned, deficient, every_kind, good, normal, orthonormal, symmetric

import smallmm

inf = np.inf
SHAPES = [
    (1, 1),
    (1, 5),
    (5, 1),
    (2, 2),
    (3, 3),
    (4, 7),
    (7, 4),
    (8, 8),
    (9, 9),
    (16, 5),
    (32, 32),
    (33, 40),
    (70, 3),
]
ORDERS = ["fro", 1, -1, inf, -inf]


def matrix_norm(a, order):
    """In extended precision."""
    (a,) = exactly(np.abs(a))
    if order == "fro":
        return np.sqrt((a * a).sum((-1, -2)))
    sums = a.sum(-2 if abs(order) == 1 else -1)
    return sums.max(-1) if order > 0 else sums.min(-1)


def vector_norm(x, order):
    (x,) = exactly(np.abs(x))
    if order in (inf, -inf):
        return x.max(-1) if order > 0 else x.min(-1)
    if order == 0:
        return (x != 0).sum(-1)
    return (x**order).sum(-1) ** (1 / np.longdouble(order))


def assert_close(x, expected, units):
    """Relative errors of at most so many u; a result may be rounded to a multiple of the smallest number."""
    info = np.finfo(x.dtype)
    assert not (np.isnan(x) ^ np.isnan(expected)).any()
    limit = units * unit_roundoff(x.dtype) * np.abs(expected) + float(info.smallest_subnormal)
    with np.errstate(invalid="ignore"):
        error = np.abs(x - expected)
        beyond = expected > float(info.max) * (1 - units * unit_roundoff(x.dtype))
        fine = np.isnan(expected) | (x == expected) | (error <= limit) | (beyond & np.isinf(x))
    assert fine.all(), (x[~fine], expected[~fine])


class TestMatrixNorm:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("shape", SHAPES)
    def test_values(self, isa, dtype, shape, order, rng):
        m, n = shape
        for a in (good(rng, m, n, dtype), every_kind(rng, m, n, dtype)):
            r = smallmm.matrix_norm(a, ord=order)
            assert r.dtype == dtype
            assert_close(r, matrix_norm(a, order).astype(np.longdouble), m + n + 4)

    @pytest.mark.parametrize("order", [*ORDERS, 2, -2, "nuc", None])
    def test_words_of_numpy(self, order, rng):
        a = rng.standard_normal((2, 3, 4, 5))
        for keepdims in (False, True):
            expected = np.linalg.matrix_norm(a, ord=order, keepdims=keepdims)
            np.testing.assert_allclose(smallmm.matrix_norm(a, ord=order, keepdims=keepdims), expected)
            for axis in [(0, 1), (1, 0), (-1, 0), (3, 1), [0, 2]]:
                np.testing.assert_allclose(
                    smallmm.norm(a, order, axis, keepdims),
                    np.linalg.norm(a, order, tuple(axis), keepdims),
                )
        out = np.empty((2, 3, 1, 1))
        assert smallmm.matrix_norm(a, ord=order, keepdims=True, out=out) is out
        assert_same_bits(out[..., 0, 0], smallmm.matrix_norm(a, ord=order))
        np.testing.assert_allclose(smallmm.norm(a[0, 0], order), np.linalg.norm(a[0, 0], order))
        with pytest.raises(ValueError, match=r"matrix_norm: out has shape \(2, 3\); expected \(2, 3, 1, 1\)"):
            smallmm.matrix_norm(a, ord=order, keepdims=True, out=np.empty((2, 3)))

    def test_near_the_ends_of_the_range(self, dtype):
        """No square over- or underflows on the way."""
        info = np.finfo(dtype)
        for size in (info.max / 4, info.tiny, info.smallest_subnormal * 8):
            a = np.array([[3, 0], [0, 4]], dtype) * dtype.type(size / 8)
            np.testing.assert_allclose(smallmm.matrix_norm(a), 5 * dtype.type(size / 8), rtol=4 * info.eps)
        mixed = np.array([[1e-30 if dtype == np.float32 else 1e-250, 0], [0, 2]], dtype)
        assert smallmm.matrix_norm(mixed) == 2
        assert smallmm.matrix_norm(np.full((2, 2), info.max)) == inf
        assert smallmm.matrix_norm(np.array([[inf, 0], [0, 1]], dtype)) == inf
        assert np.isnan(smallmm.matrix_norm(np.array([[inf, np.nan], [0, 1]], dtype)))

    def test_no_elements(self, dtype):
        for order in ("fro", 1, inf):
            for shape in [(3, 0, 4), (3, 4, 0), (0, 2, 2)]:
                r = smallmm.matrix_norm(np.ones(shape, dtype), ord=order)
                assert_same_bits(r, np.zeros(shape[0], dtype))


class TestVectorNorm:
    @pytest.mark.parametrize("order", [0, 0.5, 1, 1.5, 2, 3, 7, -1, -2.5, inf, -inf])
    @pytest.mark.parametrize("k", [1, 2, 3, 8, 31, 64, 65, 129, 5000])
    def test_values(self, dtype, k, order, rng):
        x = normal(rng, (20, k), dtype) + dtype.type(0.01)
        r = smallmm.vector_norm(x, axis=-1, ord=order)
        assert r.dtype == dtype
        assert_close(
            r, vector_norm(x, order).astype(np.longdouble), 100 + 40 * abs(order if abs(order) < inf else 0)
        )

    @pytest.mark.parametrize("order", [3, 4, 7, 8, -2, -3, 2.5])
    def test_few_units_of_error(self, dtype, order, rng):
        x = normal(rng, (200, 4), dtype)
        assert_close(smallmm.vector_norm(x, axis=-1, ord=order), vector_norm(x, order), 12)

    @pytest.mark.parametrize("order", [3, 8, 60, -3, 2.5, 0.3, -1.5])
    def test_one_power_for_all_calls(self, dtype, order, rng):
        """The first calls, of NumPy's operations; those of a program; single vectors; in a fused function."""
        x, info = normal(rng, (50, 11), dtype), np.finfo(dtype)
        x[1], x[2], x[3], x[4, 0] = 0, info.max / 8, x[3] * info.tiny, np.nan
        first = smallmm.vector_norm(x, axis=-1, ord=order)
        for _ in range(12):
            assert_same_bits(smallmm.vector_norm(x, axis=-1, ord=order), first)
        single = np.array([smallmm.vector_norm(row, ord=order) for row in x])
        assert_same_bits(single, first)
        fused = smallmm.fuse("(n)->()")(lambda x: smallmm.vector_norm(x, ord=order))
        assert_same_bits(fused(x), first)

    def test_of_large_and_small(self, dtype):
        info = np.finfo(dtype)
        for size in (info.max / 8, info.tiny):
            x = np.array([3, -4, 0], dtype) * dtype.type(size)
            for order in (2, 3, 60, -1, -2):
                expected = vector_norm(
                    np.array([3, 4, 0] if order > 0 else [3.0, 4.0]), order
                ) * np.longdouble(size)
                got = smallmm.vector_norm(x if order > 0 else x[:2], ord=order)
                assert abs(got - expected) <= 300 * info.eps * expected
        for order in (-1, -2):
            assert smallmm.vector_norm(np.array([0, 3], dtype), ord=order) == 0

    def test_special(self, dtype):
        for order in (0, 1, 2, 3, inf):
            assert smallmm.vector_norm(np.zeros(3, dtype), ord=order) == 0
            assert smallmm.vector_norm(np.zeros(0, dtype), ord=order) == 0
            if order:
                assert smallmm.vector_norm(np.array([1, -inf], dtype), ord=order) == inf
                assert np.isnan(smallmm.vector_norm(np.array([1, np.nan, inf], dtype), ord=order))

    @pytest.mark.parametrize("order", [0, 1, 2, 3, -1, inf, -inf, None])
    def test_words_of_numpy(self, order, rng):
        x = rng.standard_normal((2, 3, 4, 5))
        for axis in (None, 0, -1, (0, 2), (3, 1), (0, 1, 2, 3)):
            for keepdims in (False, True):
                expected = np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=order)
                r = smallmm.vector_norm(x, axis=axis, keepdims=keepdims, ord=order)
                assert np.shape(r) == np.shape(expected)
                np.testing.assert_allclose(r, expected, rtol=1e-13)
        np.testing.assert_allclose(smallmm.norm(x, order, 2), np.linalg.norm(x, order, 2))
        np.testing.assert_allclose(smallmm.norm(x[0, 0, 0], order), np.linalg.norm(x[0, 0, 0], order))

    def test_of_everything(self, rng):
        x = rng.standard_normal((2, 3, 400))
        np.testing.assert_allclose(smallmm.norm(x), np.linalg.norm(x))
        assert_same_bits(smallmm.norm(x), smallmm.norm(np.asfortranarray(x)))
        assert smallmm.norm(x, keepdims=True).shape == (1, 1, 1)


class TestCond:
    @pytest.mark.parametrize("p", [1, -1, inf, -inf, "fro"])
    @pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 17, 32])
    def test_values(self, n, p, rng):
        for condition in (10, 1e6):
            a = conditioned(rng, 10, n, n, condition)
            expected = np.linalg.cond(a, p)
            error = np.abs(smallmm.cond(a, p) - expected) / expected
            assert (error <= 1e-13 * n * condition).all()

    def test_exact(self):
        """The Hilbert matrix of order 6, against rational arithmetic."""
        with mpmath.workdps(40):
            h = mpmath.hilbert(6)
            expected = float(mpmath.mnorm(h, 1) * mpmath.mnorm(h**-1, 1))
        a = 1 / (1 + np.arange(6.0)[:, None] + np.arange(6))
        assert abs(smallmm.cond(a, 1) - expected) <= 1e-8 * expected

    @pytest.mark.parametrize("p", [1, inf, "fro", None, 2, "nuc"])
    def test_singular(self, dtype, p, rng):
        a = np.concatenate([deficient(rng, 3, 3, dtype)[:4], normal(rng, (1, 3, 3), dtype)])
        r = smallmm.cond(a, p)
        if p in (1, inf, "fro"):
            assert (r[:4] == inf).all()
        assert (r[:4] > 1e5).all()
        assert np.isfinite(r[4])
        a[1, 0, 0] = np.nan
        with np.errstate(all="raise"):
            r = smallmm.cond(a, p)
        assert np.isnan(r[1])
        assert not np.isnan(r[[0, 2, 3, 4]]).any()

    def test_of_singular_values(self, dtype, rng):
        a = rng.standard_normal((6, 5, 3)).astype(dtype)
        s = np.linalg.svd(a.astype(np.float64), compute_uv=False)
        rtol = 100 * np.finfo(dtype).eps
        np.testing.assert_allclose(smallmm.cond(a), s[:, 0] / s[:, -1], rtol=rtol)
        np.testing.assert_allclose(smallmm.cond(a, -2), s[:, -1] / s[:, 0], rtol=rtol)
        np.testing.assert_allclose(smallmm.matrix_norm(a, ord=2), s[:, 0], rtol=rtol)
        np.testing.assert_allclose(smallmm.matrix_norm(a, ord=-2), s[:, -1], rtol=rtol)
        np.testing.assert_allclose(smallmm.matrix_norm(a, ord="nuc"), s.sum(-1), rtol=rtol)

    def test_examples_of_numpy(self):
        a = np.array([[1, 0, -1], [0, 1, 0], [1, 0, 1]])
        expected = {"fro": 3.1622776601683795, inf: 2, -inf: 1, 1: 2, -1: 1}
        for p, r in expected.items():
            np.testing.assert_allclose(smallmm.cond(a, p), r)


class TestRank:
    @pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 32])
    def test_of_symmetric(self, dtype, n, rng):
        for rank in {0, 1, n // 2, n}:
            q = orthonormal(rng, 6, n, n)
            values = np.where(np.arange(n) < rank, (-1.0) ** np.arange(n), 0)
            a = symmetric((q * values) @ q.mT).astype(dtype)
            r = smallmm.matrix_rank(a, hermitian=True)
            assert r.dtype == np.int64
            assert (r == rank).all()
            upper = np.where(np.tri(n, dtype=bool), a, np.nan)
            assert_same_bits(smallmm.matrix_rank(upper, hermitian=True), r)

    def test_of_any(self, dtype, rng):
        for m, n, rank in [(5, 3, 2), (3, 5, 3), (4, 4, 1)]:
            a = (rng.standard_normal((7, m, rank)) @ rng.standard_normal((7, rank, n))).astype(dtype)
            assert (smallmm.matrix_rank(a) == rank).all()

    def test_tolerances(self):
        a = np.diag([1.0, 1e-3, 1e-6])[None] * np.array([1, 1e-3])[:, None, None]
        assert smallmm.matrix_rank(a, hermitian=True).tolist() == [3, 3]
        assert smallmm.matrix_rank(a, 1e-4, hermitian=True).tolist() == [2, 1]
        assert smallmm.matrix_rank(a, hermitian=True, rtol=1e-4).tolist() == [2, 2]
        assert smallmm.matrix_rank(a, [1e-4, 1e-7], hermitian=True).tolist() == [2, 2]

    @pytest.mark.parametrize(("m", "n"), [(3, 3), (4, 2), (5, 9), (9, 9), (40, 33)])
    def test_default_tolerance(self, dtype, m, n):
        """max(m, n) times the machine epsilon times the largest: what does not exceed it counts as zero."""
        limit = 8 * max(m, n) * np.finfo(dtype).eps
        for smallest, counts in ((limit * 0.75, False), (limit * 1.25, True)):
            a = 8 * np.eye(m, n, dtype=dtype)
            a[1, 1] = smallest
            assert smallmm.matrix_rank(a) == min(m, n) - 1 + counts
            if m == n:
                assert smallmm.matrix_rank(-a, hermitian=True) == n - 1 + counts

    def test_at_the_tolerance(self, dtype):
        a = np.diag([4, 1, 2.0**-5]).astype(dtype)
        for given, rank in (
            ({"rtol": 2.0**-7}, 2),
            ({"rtol": 2.0**-8}, 3),
            ({"tol": 1}, 1),
            ({"tol": 0.9}, 2),
        ):
            assert smallmm.matrix_rank(a, **given) == rank
            assert smallmm.matrix_rank(a, hermitian=True, **given) == rank

    def test_not_finite(self, dtype):
        for bad in (np.nan, np.inf):
            for n in (1, 2, 3, 8):
                a = np.stack([np.eye(n, dtype=dtype)] * 3)
                a[1, n - 1, 0] = bad
                for hermitian in (True, False):
                    with pytest.raises(
                        smallmm.LinAlgError, match="matrix_rank: 1 of 3 matrices is without singular values"
                    ) as error:
                        smallmm.matrix_rank(a, hermitian=hermitian)
                    assert np.delete(error.value.result, 1).tolist() == [n, n]
                    assert error.value.info.astype(bool).tolist() == [False, True, False]
                    with pytest.raises(np.linalg.LinAlgError, match="Singular values did not converge"):
                        smallmm.matrix_rank(a[1], 0.1, hermitian=hermitian)

    def test_vectors(self):
        """As NumPy's examples."""
        for x, rank in [(np.ones(4), 1), (np.zeros(4), 0), (3.0, 1), (0, 0), (np.zeros(0), 0), ([0, 2], 1)]:
            assert smallmm.matrix_rank(x) == rank == np.linalg.matrix_rank(x)

    def test_examples_of_numpy(self):
        eye = np.eye(4)
        assert smallmm.matrix_rank(eye) == 4
        eye[-1, -1] = 0
        assert smallmm.matrix_rank(eye) == 3


def test_examples_of_norm():
    a = np.arange(9) - 4
    b = a.reshape(3, 3)
    for args, expected in [
        ((a,), 7.745966692414834),
        ((b,), 7.745966692414834),
        ((b, "fro"), 7.745966692414834),
        ((a, inf), 4),
        ((b, inf), 9),
        ((a, -inf), 0),
        ((b, -inf), 2),
        ((a, 1), 20),
        ((b, 1), 7),
        ((a, -1), 0),
        ((b, -1), 6),
        ((a, 2), 7.745966692414834),
        ((a, -2), 0),
        ((a, 3), 5.8480354764257312),
        ((a, -3), 0),
    ]:
        np.testing.assert_allclose(smallmm.norm(*args), expected)
    c = np.array([[1, 2, 3], [-1, 1, 4]])
    np.testing.assert_allclose(smallmm.norm(c, axis=0), [1.41421356, 2.23606798, 5.0])
    np.testing.assert_allclose(smallmm.norm(c, ord=1, axis=1), [6, 6])
    m = np.arange(8).reshape(2, 2, 2)
    np.testing.assert_allclose(smallmm.norm(m, axis=(1, 2)), [3.74165739, 11.22497216])

"""Powers, exponentials, roots, logarithms and pseudoinverses: their accuracy beside mpmath and SciPy, what
is refused, NumPy's examples. Bits, layouts, dtypes, `out` and libraries are in test_compositions.py."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
from accuracy import assert_same, assert_same_bits, exactly, norm1, unit_roundoff
from matrices import conditioned, good, normal, orthonormal, symmetric

import smallmm
from smallmm._base.fallbacks import PADE

ORDERS = [1, 2, 3, 4, 5, 8, 13, 16, 32]


def exact(function, a):
    """A function of one matrix by mpmath, in extended precision."""
    with mpmath.workdps(60):
        result = function(mpmath.matrix(a.astype(np.float64).tolist()))
        return np.array([[np.longdouble(mpmath.nstr(x, 25)) for x in row] for row in result.tolist()])


def by_eigenvalues(function):
    """Of a symmetric matrix."""

    def of_matrix(a):
        w, v = mpmath.eigsy(a)
        return v * mpmath.diag([function(x) for x in w]) * v.T

    return of_matrix


def definite(rng, count, n, condition):
    q, values = orthonormal(rng, count, n, n), np.geomspace(1, 1 / condition, n)
    return symmetric((q * values) @ q.mT)


def relative(x, expected):
    return np.abs(x - expected).sum(-2).max(-1) / np.abs(expected).sum(-2).max(-1)


class TestExpm:
    @pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 11])
    @pytest.mark.parametrize("size", [1e-9, 1e-3, 0.1, 0.5, 1, 3, 10])
    def test_accuracy(self, dtype, n, size, rng):
        """Beside SciPy's, whose error is that of the problem's condition too."""
        a = (size * normal(rng, (4, n, n), np.float64) / max(1, n)).astype(dtype)
        x = smallmm.expm(a)
        u = unit_roundoff(dtype)
        for got, theirs, given in zip(x, scipy.linalg.expm(a.astype(np.float64)), a, strict=True):
            expected = exact(mpmath.expm, given)
            theirs = relative(theirs, expected) / unit_roundoff(np.float64)
            assert relative(got, expected) <= (20 * n + 2 * theirs) * u * max(1, norm1(given))

    @pytest.mark.parametrize("n", [8, 16, 32, 33, 129])  # of orders 2 and 3 SciPy loses thousands of u
    def test_beside_scipy(self, dtype, n, rng):
        for size in (1e-3, 0.3, 1, 4):
            a = (size * normal(rng, (20, n, n), np.float64) / np.sqrt(n)).astype(dtype)
            expected = scipy.linalg.expm(a.astype(np.float64))
            assert (relative(smallmm.expm(a), expected) <= 60 * n * unit_roundoff(dtype)).all()

    @pytest.mark.parametrize("n", [2, 5, 16])
    def test_identities(self, dtype, n, rng):
        """exp(0) = I, exp(A) exp(-A) = I, det exp(A) = exp(tr A), exp of a skew matrix is orthogonal."""
        eye = np.eye(n, dtype=dtype)
        assert_same_bits(smallmm.expm(0 * eye), eye)
        a = normal(rng, (30, n, n), dtype)
        skew = smallmm.expm(a - a.mT)
        assert (norm1(skew.mT @ skew - eye) <= 500 * n * unit_roundoff(dtype)).all()
        a /= dtype.type(n)
        both = smallmm.expm(a) @ smallmm.expm(-a)
        assert (norm1(both - eye) <= 500 * n * unit_roundoff(dtype)).all()
        np.testing.assert_allclose(
            smallmm.det(smallmm.expm(a)), np.exp(smallmm.trace(a)), rtol=500 * n * unit_roundoff(dtype)
        )

    def test_not_scaled_too_often(self, dtype):
        """Large elements off the diagonal do not make many squarings, which would lose digits."""
        large = 1e3 if dtype == np.float32 else 1e6
        for d in (0.0, 0.5, 1.0):
            a = np.array([[d, large], [0, -d]], dtype)
            expected = np.array(
                [[np.exp(d), large * (np.sinh(d) / d if d else 1)], [0, np.exp(-d)]], np.float64
            )
            np.testing.assert_allclose(smallmm.expm(a), expected, rtol=20 * np.finfo(dtype).eps)
        nilpotent = np.triu(np.full((4, 4), large, dtype), 1)
        expected = exact(mpmath.expm, nilpotent)
        np.testing.assert_allclose(smallmm.expm(nilpotent), expected, rtol=50 * np.finfo(dtype).eps)
        if dtype == np.float64:  # the eighth power is zero, the sixth is huge
            nilpotent = np.triu(np.random.default_rng(0).standard_normal((8, 8)), 1) * 1e6
            assert relative(smallmm.expm(nilpotent), exact(mpmath.expm, nilpotent)) < 1e3 * 2.0**-53
        huge = np.array([[0, np.finfo(dtype).max / 4], [0, 0]], dtype)
        np.testing.assert_allclose(smallmm.expm(huge), np.eye(2) + huge, rtol=4 * np.finfo(dtype).eps)

    def test_far_from_one(self, dtype):
        info = np.finfo(dtype)
        tiny = np.array([[0, info.tiny], [info.smallest_subnormal, 0]], dtype)
        np.testing.assert_allclose(smallmm.expm(tiny), np.eye(2) + tiny, atol=info.smallest_subnormal)
        most = np.log(float(info.max))
        for x in (-20.0, most * 0.99, -most * 0.99):
            a = np.diag([x, x / 2]).astype(dtype)
            got = smallmm.expm(a)
            expected = np.exp(a.diagonal().astype(np.float64))
            np.testing.assert_allclose(got.diagonal(), expected, rtol=1e3 * info.eps)
            assert got[0, 1] == got[1, 0] == 0
        assert (smallmm.expm(np.diag([-1e4, -1e7]).astype(dtype)) == 0).all()
        assert not np.isfinite(smallmm.expm(np.diag([1e4, 0]).astype(dtype))[0, 0])

    def test_each_by_itself(self, dtype, rng):
        """Degree and scaling are those of each matrix, in any company."""
        sizes = np.geomspace(1e-6, 100, 300)
        a = normal(rng, (300, 3, 3), np.float64) * sizes[:, None, None]
        a = rng.permutation(a).astype(dtype)
        whole = smallmm.expm(a)
        for i in range(0, 300, 7):
            assert_same_bits(smallmm.expm(a[i]), whole[i])

    def test_not_finite(self, dtype):
        a = np.zeros((4, 3, 3), dtype)
        a[1, 0, 2], a[2, 1, 1], a[3, 2, 0] = np.nan, np.inf, -np.inf
        x = smallmm.expm(a)
        assert_same_bits(x[0], np.eye(3, dtype=dtype))
        assert np.isnan(x[1:]).all()
        assert np.isnan(smallmm.expm(a, assume_a="sym")[2:]).all()  # a[1] has it in the other triangle

    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    def test_of_symmetric(self, dtype, n, rng):
        a = symmetric(normal(rng, (4, n, n), dtype))
        x = smallmm.expm(a, assume_a="sym")
        assert_same_bits(x, x.mT.copy())
        for got, given in zip(x, a, strict=True):
            expected = exact(by_eigenvalues(mpmath.exp), given)
            assert relative(got, expected) <= 20 * n * unit_roundoff(dtype) * (1 + norm1(given))
        lower = np.where(np.tri(n, dtype=bool), a, np.nan)
        assert_same_bits(smallmm.expm(lower, assume_a="sym"), x)
        assert_same_bits(smallmm.expm(lower, assume_a="positive definite"), x)

    @pytest.mark.parametrize("n", [2, 5, 16, 32, 33, 129])
    @pytest.mark.parametrize("way", [np.triu, np.tril])
    def test_stiff_triangular(self, dtype, n, way, rng):
        """The diagonal and what is beside it are exact, however different the elements of the diagonal are,
        and the other triangle is zero. Equal and nearly equal elements are among them."""
        for complex_too in (False, True):
            a = normal(rng, (4, n, n), np.complex128 if complex_too else np.float64)
            w = -np.geomspace(1e-3, 1e5, n) * np.exp(1j * complex_too * rng.uniform(-1, 1, n))
            a[:, np.arange(n), np.arange(n)] = w if complex_too else w.real
            a[1, 1, 1] = a[1, 0, 0]
            a[2, 1, 1] = a[2, 0, 0] * (1 + 1e-6)
            a = way(a).astype(np.result_type(dtype, 1j) if complex_too else dtype)
            x = smallmm.expm(a)
            assert_same_bits(x, way(x))
            u, least = unit_roundoff(dtype), np.finfo(dtype).smallest_subnormal
            for got, given in zip(x, a, strict=True):
                if way is np.tril:
                    got, given = got.T, given.T
                w, above = (given.diagonal(k).astype(np.clongdouble) for k in (0, 1))
                expected = np.exp(w)
                assert (np.abs(got.diagonal() - expected) <= 4 * u * np.abs(expected) + 2 * least).all()
                gap = w[:-1] - w[1:]
                apart = np.abs(gap) > 0.01 * np.abs(w[:-1])  # else the formula is not exact
                beside = above * (expected[:-1] - expected[1:]) / np.where(apart, gap, 1)
                off = np.abs(got.diagonal(1) - beside)
                assert (off <= 40 * u * np.abs(beside) + 4 * least)[apart].all()

    def test_triangles_beside_others(self, dtype, rng):
        """In the whole it is as accurate as others: SciPy's, of 16 rows, is."""
        for _ in range(3):
            a = np.triu(normal(rng, (16, 16), np.float64))
            a[np.arange(16), np.arange(16)] = -(10.0 ** rng.uniform(-3, 5, 16))
            a = a.astype(dtype)
            expected = scipy.linalg.expm(a.astype(np.float64))
            assert relative(smallmm.expm(a), expected) <= 60 * unit_roundoff(dtype)
            assert relative(smallmm.expm(a.T), expected.T) <= 60 * unit_roundoff(dtype)

    @pytest.mark.parametrize("name", PADE)
    def test_thetas(self, name):
        """The largest theta with a backward error of at most u: the series of log(exp(-x) r(x)) / x in
        magnitude. That of degree 13 is reduced to 4.25, as the paper has it."""
        m, theta = PADE[name]
        u = unit_roundoff(np.dtype(name))
        with mpmath.workdps(60):
            p = [
                mpmath.factorial(2 * m - k) / (mpmath.factorial(m - k) * mpmath.factorial(k))
                for k in range(m + 1)
            ]
            terms = list(enumerate(map(abs, _log_series(p, 2 * m + 40))))[2 * m + 1 :]

            def error(size):
                return sum(c * mpmath.mpf(size) ** (k - 1) for k, c in terms) / u

            assert error(theta) <= 1 + 1e-6
            assert m == 13 or error(theta * 1.001) > 1


def _log_series(p, order):
    """Coefficients of log(p(x) / p(-x)) - x, which is the integral of p'(x) / p(x) + p'(-x) / p(-x) - 1."""
    derivative = [k * c for k, c in enumerate(p)][1:]
    quotient = []
    for k in range(order):
        c = derivative[k] if k < len(derivative) else mpmath.mpf(0)
        quotient.append((c - sum(quotient[j] * p[k - j] for j in range(max(0, k - len(p) + 1), k))) / p[0])
    both = [c * (1 + (-1) ** k) for k, c in enumerate(quotient)]
    both[0] -= 1
    return [mpmath.mpf(0), *(c / (k + 1) for k, c in enumerate(both))]


class TestOfSymmetric:
    @pytest.mark.parametrize("n", ORDERS)
    def test_roots(self, dtype, n, rng):
        for condition in (1, 1e3, 1e6):
            a = definite(rng, 8, n, condition).astype(dtype)
            x = smallmm.sqrtm(a, assume_a="sym")
            assert x.dtype == dtype
            assert_same_bits(x, x.mT.copy())
            wide, given = exactly(x, a)
            assert (norm1(wide @ wide - given) <= 60 * n * unit_roundoff(dtype) * norm1(given)).all()

    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    def test_values(self, dtype, n, rng):
        u = unit_roundoff(dtype)
        for condition in (3, 1e2):
            a = definite(rng, 3, n, condition).astype(dtype)
            for function, exactly_so, units in [
                (smallmm.sqrtm, mpmath.sqrt, condition),
                (smallmm.logm, mpmath.log, condition),
                (lambda a, **k: smallmm.powm(a, 1 / 3, **k), lambda w: w ** (mpmath.mpf(1) / 3), condition),
                (lambda a, **k: smallmm.powm(a, -0.5, **k), lambda w: w**-0.5, condition),
                (lambda a, **k: smallmm.powm(a, -2, **k), lambda w: w**-2, condition),
                (lambda a, **k: smallmm.powm(a, 0, **k), lambda w: 1, 1),
            ]:
                for got, given in zip(function(a, assume_a="sym"), a, strict=True):
                    expected = exact(by_eigenvalues(exactly_so), given)
                    error = norm1(got - expected)
                    assert error <= 40 * n * u * units * max(1, norm1(expected))

    @pytest.mark.parametrize("n", [2, 4, 16])
    def test_beside_scipy(self, n, rng):
        a = definite(rng, 4, n, 100)
        for x, given in zip(smallmm.logm(a, assume_a="sym"), a, strict=True):
            np.testing.assert_allclose(x, scipy.linalg.logm(given), atol=1e-11)
        for x, given in zip(smallmm.powm(a, 0.7, assume_a="sym"), a, strict=True):
            np.testing.assert_allclose(x, scipy.linalg.fractional_matrix_power(given, 0.7), atol=1e-12)

    @pytest.mark.parametrize("n", [2, 5])
    def test_inverses_of_each_other(self, dtype, n, rng):
        a = definite(rng, 20, n, 10).astype(dtype)
        rtol = 500 * n * unit_roundoff(dtype)
        np.testing.assert_allclose(
            smallmm.expm(smallmm.logm(a, assume_a="sym"), assume_a="sym"), a, atol=rtol
        )
        half = smallmm.powm(a, -0.5, assume_a="sym")
        np.testing.assert_allclose(half @ a @ half, np.broadcast_to(np.eye(n), a.shape), atol=10 * rtol)

    def test_integer_powers_of_indefinite(self, rng):
        a = symmetric(rng.standard_normal((9, 4, 4)))
        np.testing.assert_allclose(smallmm.powm(a, 3, assume_a="sym"), a @ a @ a, atol=1e-12)
        np.testing.assert_allclose(
            smallmm.powm(a, -1, assume_a="sym") @ a, np.broadcast_to(np.eye(4), a.shape), atol=1e-10
        )
        assert_same_bits(smallmm.powm(a, 3.0), smallmm.matrix_power(a, 3))

    def test_semidefinite(self, dtype, rng):
        """Eigenvalues that are negative by rounding count as zero."""
        x = rng.standard_normal((200, 5, 2)).astype(dtype)
        a = x @ x.mT
        root, info = smallmm.sqrtm_ex(a, assume_a="sym")
        assert not info.any()
        assert (norm1(root @ root - a) <= 300 * unit_roundoff(dtype) * norm1(a)).all()
        assert not smallmm.sqrtm(np.zeros((3, 3), dtype), assume_a="sym").any()

    @pytest.mark.parametrize(
        ("function", "bad", "count"),
        [
            (smallmm.sqrtm_ex, [1, -1, 2], 1),
            (smallmm.logm_ex, [1, 0, -3], 2),
            (lambda a, **k: smallmm.powm_ex(a, 0.5, **k), [-1, -1, -1], 3),
            (lambda a, **k: smallmm.powm_ex(a, -0.5, **k), [0, 1, 1], 1),
            (lambda a, **k: smallmm.powm_ex(a, -1, **k), [0, 1, -1], 1),
        ],
    )
    def test_without_a_result(self, function, bad, count, dtype, rng):
        """One matrix is NaN, info says why, and the neighbours have the bits they had."""
        a = definite(rng, 11, 3, 10).astype(dtype)
        good = function(a, assume_a="sym")
        assert not good.info.any()
        assert good.info.dtype == np.int32
        a[6] = np.diag(bad)
        x, info = function(a, assume_a="sym")
        assert info.tolist() == [0] * 6 + [count] + [0] * 4
        assert np.isnan(x[6]).all()
        keep = np.arange(11) != 6
        assert_same_bits(x[keep], good.x[keep])

    def test_errors(self, rng):
        a = definite(rng, 5, 3, 10)
        a[2], a[4] = -a[2], np.nan
        with pytest.raises(
            smallmm.LinAlgError,
            match=r"^sqrtm: 1 of 5 matrices is without a real result, the first at index \(2,\): .*: 3;",
        ) as caught:
            smallmm.sqrtm(a, assume_a="sym")
        assert_same((caught.value.result, caught.value.info), tuple(smallmm.sqrtm_ex(a, assume_a="sym")))
        with pytest.raises(smallmm.LinAlgError, match=r"^Matrix has no real result \(logm: eigenvalues"):
            smallmm.logm(a[2], assume_a="sym")
        with pytest.raises(smallmm.LinAlgError, match=r"^powm: 1 of 5"):
            smallmm.powm(a, 0.5, assume_a="sym")

    def test_near_the_ends_of_the_range(self, dtype):
        info = np.finfo(dtype)
        for size in (info.max / 8, info.tiny * 8):
            a = np.array([[2, 1], [1, 2]], dtype) * dtype.type(size)
            x = smallmm.sqrtm(a, assume_a="sym")
            x /= dtype.type(np.sqrt(size))
            np.testing.assert_allclose(x @ x, [[2, 1], [1, 2]], rtol=50 * info.eps)
            got = smallmm.logm(a, assume_a="sym")
            expected = np.log(float(size)) * np.eye(2) + np.log(3) / 2
            np.testing.assert_allclose(got, expected, rtol=50 * info.eps, atol=200 * info.eps)


class TestMatrixPower:
    @pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 33, 129])
    def test_values(self, dtype, n, rng):
        a = (normal(rng, (6 if n <= 32 else 2, n, n), dtype) / np.sqrt(n)).astype(dtype)
        (wide,), u = exactly(a), unit_roundoff(dtype)
        expected = size = np.broadcast_to(np.eye(n, dtype=np.longdouble), a.shape)
        for power in range(33):
            if power < 8 or power in (13, 32):
                x = smallmm.matrix_power(a, power)
                assert (np.abs(x - expected) <= (power + 1) * (n + 2) * u * size).all()
            expected, size = expected @ wide, size @ np.abs(wide)

    def test_order_of_products(self, rng):
        a = rng.standard_normal((7, 4, 4))
        mul = smallmm.matmul
        square = mul(a, a)
        fourth = mul(square, square)
        for power, expected in [
            (1, a),
            (2, square),
            (3, mul(square, a)),
            (5, mul(a, fourth)),
            (7, mul(mul(a, square), fourth)),
            (12, mul(fourth, mul(fourth, fourth))),
        ]:
            x = smallmm.matrix_power(a, power)
            assert_same_bits(x, expected)
            assert not np.shares_memory(x, a)
            assert_same_bits(smallmm.matrix_power(a, -power), smallmm.matrix_power(smallmm.inv(a), power))

    def test_singular(self, dtype, rng):
        a = normal(rng, (4, 3, 3), dtype)
        a[1] = 0
        with pytest.raises(
            smallmm.LinAlgError, match=r"^matrix_power: 1 of 4 matrices is singular"
        ) as caught:
            smallmm.matrix_power(a, -2)
        assert np.isnan(caught.value.result[1]).all()
        assert_same_bits(caught.value.result[2:], smallmm.matrix_power(a[2:], -2))
        assert_same_bits(smallmm.matrix_power(a, 0)[1], np.eye(3, dtype=dtype))

    def test_examples_of_numpy(self):
        i = np.array([[0, 1], [-1, 0]])
        np.testing.assert_array_equal(smallmm.matrix_power(i, 3), [[0, -1], [1, 0]])
        np.testing.assert_array_equal(smallmm.matrix_power(i, 0), np.eye(2))
        np.testing.assert_array_equal(smallmm.matrix_power(i, -3), [[0, 1], [-1, 0]])


class TestPinv:
    @pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 32])
    def test_of_symmetric(self, dtype, n, rng):
        q = orthonormal(rng, 9, n, n)
        values = np.where(np.arange(n) < (n + 1) // 2, 1.0 + np.arange(n) / n, 0) * (-1.0) ** np.arange(n)
        a = symmetric((q * values) @ q.mT).astype(dtype)
        x = smallmm.pinv(a, hermitian=True)
        assert_same_bits(x, x.mT.copy())
        self.assert_penrose(x, a, 100 * n)
        inverses = np.where(values, 1 / np.where(values, values, 1), 0)
        np.testing.assert_allclose(x, (q * inverses) @ q.mT, atol=300 * n * unit_roundoff(dtype))

    @pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2), (2, 3), (4, 4), (7, 5), (5, 16), (32, 32)])
    def test_of_any(self, dtype, m, n, rng):
        a = np.concatenate([good(rng, m, n, dtype)[:6], conditioned(rng, 4, m, n, 10).astype(dtype)])
        full = smallmm.pinv(a)
        self.assert_penrose(full, a, 100 * max(m, n) * 10)
        rank = max(1, min(m, n) // 2)
        low = (rng.standard_normal((6, m, rank)) @ rng.standard_normal((6, rank, n))).astype(dtype)
        expected = np.linalg.pinv(low.astype(np.float64), rcond=1e-4)
        limit = 2e5 * unit_roundoff(dtype)
        np.testing.assert_allclose(smallmm.pinv(low, rtol=1e-4), expected, rtol=limit, atol=limit)

    def assert_penrose(self, x, a, units):
        u = unit_roundoff(x.dtype)
        x, a = exactly(x, a)
        size = norm1(a) * norm1(x)
        assert (norm1(a @ x @ a - a) <= units * u * size * norm1(a)).all()
        assert (norm1(x @ a @ x - x) <= units * u * size * norm1(x)).all()
        for product in (a @ x, x @ a):
            assert (norm1(product - product.mT) <= units * u * size).all()

    @pytest.mark.parametrize(("m", "n"), [(3, 3), (4, 2), (5, 9), (9, 9)])
    def test_default_tolerance(self, dtype, m, n):
        """max(m, n) times the machine epsilon times the largest: what does not exceed it counts as zero."""
        limit = 8 * max(m, n) * np.finfo(dtype).eps
        for smallest, counts in ((limit * 0.75, False), (limit * 1.25, True)):
            a = 8 * np.eye(m, n, dtype=dtype)
            a[1, 1] = smallest
            expected = np.eye(n, m) / 8
            expected[1, 1] = counts / a[1, 1]
            np.testing.assert_allclose(smallmm.pinv(a), expected, rtol=10 * np.finfo(dtype).eps)
            if m == n:
                np.testing.assert_allclose(smallmm.pinv(a, hermitian=True), expected, rtol=1e-5)

    def test_at_the_tolerance(self, dtype):
        a = np.diag([4, 1, 2.0**-5]).astype(dtype)
        for rtol, kept in ((2.0**-7, 0), (2.0**-8, 32)):
            for x in (smallmm.pinv(a, rtol=rtol), smallmm.pinv(a, rtol, hermitian=True)):
                assert abs(x[2, 2] - kept) < 1e-3

    def test_tolerances(self):
        a = np.diag([1.0, 1e-3, 0.0])
        np.testing.assert_allclose(smallmm.pinv(a, hermitian=True), np.diag([1, 1e3, 0]))
        np.testing.assert_allclose(smallmm.pinv(a, 1e-2, hermitian=True), np.diag([1, 0, 0]))
        np.testing.assert_allclose(smallmm.pinv(a, hermitian=True, rtol=[1e-4, 1e-2])[:, 1, 1], [1e3, 0])

    def test_not_finite(self):
        a = np.stack([np.eye(2), np.full((2, 2), np.nan)])
        x = smallmm.pinv(a, hermitian=True)
        assert_same_bits(x[0], np.eye(2))
        assert np.isnan(x[1]).all()

    def test_example_of_numpy(self, rng):
        a = rng.standard_normal((9, 6))
        b = smallmm.pinv(a)
        np.testing.assert_allclose(a @ (b @ a), a)
        np.testing.assert_allclose(b @ (a @ b), b)

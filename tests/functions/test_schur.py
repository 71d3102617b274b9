"""Schur forms, and roots, logarithms and powers of general matrices: accuracy beside mpmath and SciPy, real
and complex results, singular matrices. Bits, layouts, dtypes and libraries are in test_linalg.py and others
that draw from cases.py."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
from accuracy import assert_same_bits, exactly, norm1, unit_roundoff
from matrices import normal, rotations

import smallmm
from smallmm._schur import triangles
from smallmm._tools.bounds import BOUNDS

ORDERS = [1, 2, 3, 4, 5, 8, 13, 16, 32, 40]
NUMBERS = [np.float32, np.float64, np.complex64, np.complex128]
FUNCTIONS = {
    "sqrtm": (smallmm.sqrtm, mpmath.sqrtm, scipy.linalg.sqrtm),
    "logm": (smallmm.logm, mpmath.logm, scipy.linalg.logm),
    "powm": (
        lambda a: smallmm.powm(a, 0.375),
        lambda a: mpmath.expm(0.375 * mpmath.logm(a)),
        lambda a: scipy.linalg.fractional_matrix_power(a, 0.375),
    ),
}


def bound(name, n, dtype):
    """In units of roundoff, of complex numbers three times as much."""
    return BOUNDS[name](n) * unit_roundoff(np.dtype(dtype)) * (3 if np.dtype(dtype).kind == "c" else 1)


def every_kind(rng, n, dtype):
    """Normal, with large elements above the diagonal, with equal eigenvalues, triangular, orthogonal."""
    a = normal(rng, (12, n, n), dtype)
    a[3] = np.triu(a[3]) + 3 * n * np.eye(n) + 100 * np.triu(a[4], 1)
    a[4] = np.eye(n) + np.eye(n, k=1)
    a[5] = np.linalg.qr(a[5])[0]
    a[6] = a[6] @ a[6].conj().T
    a[7] = np.diag(np.arange(n) % 3 - 1)
    a[8] = np.tril(a[8])
    return a


def positive(rng, count, n, dtype=np.float64):
    """Nonsymmetric, with eigenvalues that have positive real parts."""
    v = np.eye(n) + 0.4 * normal(rng, (count, n, n), dtype) / np.sqrt(n)
    w = np.exp(rng.uniform(-2, 2, (count, n))) * np.exp(
        1j * (np.dtype(dtype).kind == "c") * rng.uniform(-1, 1, n)
    )
    w = w if np.dtype(dtype).kind == "c" else w.real
    return (v * w[:, None, :] @ np.linalg.inv(v)).astype(dtype)


class TestSchur:
    @pytest.mark.parametrize("n", ORDERS)
    @pytest.mark.parametrize("number", NUMBERS)
    @pytest.mark.parametrize("output", ["real", "complex"])
    def test_accuracy(self, number, n, output, rng):
        a = every_kind(rng, n, number)
        t, z = smallmm.schur(a, output)
        kind = np.result_type(number, np.complex64) if output == "complex" else np.dtype(number)
        assert t.dtype == z.dtype == kind
        assert not np.tril(t, -1 if kind.kind == "c" else -2).any()
        limit = bound("schur", n, kind)
        t, z, a = exactly(t, z, a)
        assert (norm1(z @ t @ z.conj().mT - a) <= limit * norm1(a)).all()
        assert (norm1(z.conj().mT @ z - np.eye(n)) <= limit).all()

    def test_nearly_skew_symmetric(self, dtype):
        """The rotation of a block, where squares of what is not skew-symmetric in it underflow."""
        a = np.zeros((50, 2, 2), dtype)
        a[:, 0, 1], a[:, 1, 0] = 1, -1
        a[:, 0, 0] = np.sqrt(np.finfo(dtype).smallest_subnormal) * np.linspace(0.1, 5, 50)
        _, z = smallmm.schur(a)
        z = exactly(z)[0]
        assert (norm1(z.mT @ z - np.eye(2)) <= bound("schur", 2, dtype)).all()

    @pytest.mark.parametrize("n", [4, 6])
    def test_rotations(self, dtype, n):
        """Some of which did not converge, and of some skew-symmetric ones Z was not orthogonal."""
        rng = np.random.default_rng(0)
        a = np.concatenate([rotations(rng, n, dtype) for _ in range(2000)])
        t, z = exactly(*smallmm.schur(a))
        limit = bound("schur", n, dtype)
        assert (norm1(z @ t @ z.mT - a) <= limit * norm1(a)).all()
        assert (norm1(z.mT @ z - np.eye(n)) <= limit).all()

    @pytest.mark.parametrize("n", [2, 3, 8, 17])
    def test_blocks(self, dtype, n, rng):
        """Equal on the diagonal and of opposite signs beside it, none next to another, as LAPACK's."""
        t, _ = smallmm.schur(every_kind(rng, n, dtype))
        below = t.diagonal(-1, -2, -1)
        is_block = below != 0
        assert not (is_block[:, 1:] & is_block[:, :-1]).any()
        d = t.diagonal(0, -2, -1)
        assert_same_bits(d[:, 1:][is_block], d[:, :-1][is_block])
        assert (below * t.diagonal(1, -2, -1) < 0)[is_block].all()

    @pytest.mark.parametrize("n", [1, 2, 5, 12])
    def test_eigenvalues(self, n, rng):
        a = positive(rng, 6, n, np.complex128)
        w = np.sort_complex(smallmm.schur(a).T.diagonal(0, -2, -1))
        np.testing.assert_allclose(w, np.sort_complex(np.linalg.eigvals(a)), rtol=1e-9)

    def test_far_from_one(self, dtype, rng):
        for scale in (np.finfo(dtype).tiny * 2**30, np.finfo(dtype).max / 2**10):
            a = normal(rng, (5, 6, 6), dtype)
            t, z = smallmm.schur(a)
            scaled = smallmm.schur(a * dtype.type(2.0 ** np.round(np.log2(float(scale)))))
            assert_same_bits(scaled.Z, z)
            np.testing.assert_allclose(scaled.T / scale, t, rtol=0.5)

    def test_not_finite(self, number, rng):
        a = normal(rng, (4, 3, 3), number)
        good = smallmm.schur(a)
        a[1, 2, 0], a[3, 0, 1] = np.nan, np.inf
        t, z, info = smallmm.schur_ex(a)
        assert not info.any()
        assert np.isnan(t[[1, 3]]).all()
        assert np.isnan(z[[1, 3]]).all()
        assert_same_bits(t[[0, 2]], good.T[[0, 2]])

    def test_large_orders(self, rng):
        a = rng.standard_normal((2, 130, 130))
        for output, below in (("real", -2), ("c", -1)):
            t, z = smallmm.schur(a, output)
            assert not np.tril(t, below).any()
            np.testing.assert_allclose(z @ t @ z.conj().mT, a, atol=1e-11)

    def test_words(self):
        a = np.array([[0.0, -1.0], [1.0, 0.0]])
        assert_same_bits(smallmm.schur(a, "r").T, smallmm.schur(a).T)
        assert_same_bits(smallmm.schur(a, "c").T, smallmm.schur(a, "complex").T)
        assert smallmm.schur(a.tolist(), "complex").T.dtype == np.complex128
        with pytest.raises(
            ValueError, match="schur: output is 'triangle'; expected 'real', 'complex', 'r' or 'c'"
        ):
            smallmm.schur(a, "triangle")
        with pytest.raises(TypeError, match="schur: out"):
            smallmm.schur(a, "complex", out=(np.empty((2, 2)), None))

    def test_not_converged(self, monkeypatch):
        """No such matrix is known."""
        from smallmm._schur import schur

        result = np.zeros((3, 4, 4)), np.zeros((3, 4, 4)), np.array([0, 2, 0], np.int32)
        monkeypatch.setattr(schur, "_direct", lambda a, *out: result)
        with pytest.raises(
            smallmm.LinAlgError, match=r"schur: 1 of 3 matrices is not converged, the first at"
        ):
            smallmm.schur(np.zeros((3, 4, 4)))


class TestRoots:
    @pytest.mark.parametrize("n", ORDERS)
    @pytest.mark.parametrize("number", NUMBERS)
    def test_residuals(self, number, n, rng):
        """Relative to the square of the root's norm (Higham, Functions of Matrices, section 6.2)."""
        a = every_kind(rng, n, number)
        x, info = smallmm.sqrtm_ex(a)
        good = info == 0
        assert good[[0, 1, 2, 3, 4, 5, 6, 8]].all()
        limit = bound("sqrtm", n, number)
        wide, given = exactly(x[good], a[good])
        assert (norm1(wide @ wide - given) <= limit * norm1(wide) ** 2).all()

    def test_exact(self, dtype):
        """Whatever power of two scales the matrix."""
        for power in range(-9, 10):
            scale = 4.0**power
            a = scale * np.array([[4, 5, 0], [0, 9, 0], [0, 0, 2.25]], dtype)
            expected = 2.0**power * np.array([[2, 1, 0], [0, 3, 0], [0, 0, 1.5]])
            np.testing.assert_array_equal(smallmm.sqrtm(a), expected)
        np.testing.assert_array_equal(smallmm.sqrtm([[-4.0]]), [[2j]])
        np.testing.assert_allclose(smallmm.sqrtm([[2j]]), [[1 + 1j]], rtol=1e-15)
        assert_same_bits(smallmm.sqrtm(np.eye(3, dtype=dtype)), np.eye(3, dtype=dtype))

    def test_graded(self, dtype):
        d = np.array([1.0, 1e-14, 1e16, 1e-8]).astype(dtype)
        x = smallmm.sqrtm(np.diag(d))
        np.testing.assert_allclose(x.diagonal(), np.sqrt(d.astype(float)), rtol=4 * np.finfo(dtype).eps)

    def test_singular(self, dtype):
        """Zeros on the diagonal have a root, if nothing above asks for more."""
        a = np.zeros((5, 3, 3), dtype)
        a[0] = np.diag([0, 4, 0])
        a[1] = [[0, 2, 6], [0, 4, 8], [0, 0, 1]]
        a[2, 0, 1] = 1
        a[3] = np.diag([1, 0, 0])
        x, info = smallmm.sqrtm_ex(a)
        assert info.tolist() == [0, 0, 1, 0, 0]
        np.testing.assert_allclose(x[[0, 1, 3, 4]] @ x[[0, 1, 3, 4]], a[[0, 1, 3, 4]], atol=1e-5)
        assert np.isnan(x[2]).all()
        with pytest.raises(
            smallmm.LinAlgError,
            match=r"sqrtm: 1 of 5 matrices is without a result, the first at index \(2,\)",
        ) as caught:
            smallmm.sqrtm(a)
        assert_same_bits(caught.value.result, x)

    def test_kind_of_result(self, dtype, rng):
        """Real if all roots are; a pair of conjugate eigenvalues has real roots, a negative one has not."""
        a = positive(rng, 4, 5).astype(dtype)
        turn = np.array([[np.cos(3), -np.sin(3)], [np.sin(3), np.cos(3)]], dtype)
        complex_too = np.result_type(dtype, np.complex64)
        for name, (function, _, _) in FUNCTIONS.items():
            real = function(a)
            assert real.dtype == dtype, name
            assert real.flags.c_contiguous, name
            assert function(turn).dtype == dtype, name
            whole = function(np.concatenate([a, [-np.eye(5)]]).astype(dtype))
            assert whole.dtype == complex_too, name
            assert_same_bits(np.ascontiguousarray(whole[:4].real), real)
            assert not whole[:4].imag.any()
        np.testing.assert_allclose(smallmm.sqrtm(turn) @ smallmm.sqrtm(turn), turn, atol=1e-6)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_within_jit(self, jax, name):
        function, a = FUNCTIONS[name][0], np.array([[2, 1], [0, 3]], np.float32)
        with pytest.raises(TypeError, match=rf"{name}: whether .* pass complex matrices, or symmetric ones"):
            jax.jit(function)(a)
        x = jax.jit(function)(a.astype(np.complex64))
        np.testing.assert_allclose(x, function(a), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("w", [1e-3, 1e-6, 1e-9, 1e-12])
    def test_near_the_negative_axis(self, dtype, w, rng):
        """Pairs of eigenvalues a + iw and a - iw: no error of the size of a is divided by w."""
        u = unit_roundoff(np.dtype(dtype))
        block = np.array([[-1, w], [-w, -1]], dtype)
        np.testing.assert_allclose(smallmm.sqrtm(block), [[w / 2, 1], [-1, w / 2]], rtol=max(8 * u, w))
        expected = [[w * w / 2, np.pi - w], [w - np.pi, w * w / 2]]
        np.testing.assert_allclose(smallmm.logm(block), expected, rtol=max(8 * u, w))
        a = np.zeros((20, 6, 6))
        for k, d in zip((0, 2, 4), (1, 2, 5), strict=True):
            a[:, k : k + 2, k : k + 2] = [[-d, 3 * w], [-w, -d]]
        q, _ = np.linalg.qr(rng.standard_normal((20, 6, 6)))
        a = np.concatenate([a, q @ a @ q.mT]).astype(dtype)
        x, given = exactly(smallmm.sqrtm(a), a)
        assert (norm1(x @ x - given) <= bound("sqrtm", 6, dtype) * norm1(x) ** 2).all()


class TestOfGeneral:
    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("number", NUMBERS)
    def test_beside_mpmath(self, number, name, n, rng):
        """As near as SciPy, whose error shows the condition of the problem."""
        ours, exact, theirs = FUNCTIONS[name]
        a = positive(rng, 4, n, number)
        a[3] = np.triu(a[3]) + 30 * np.triu(np.ones((n, n)), 1)
        wide = np.result_type(number, np.float64)
        for got, given in zip(ours(a), a, strict=True):
            with mpmath.workdps(50):
                x = exact(mpmath.matrix(given.astype(wide).tolist()))
                expected = np.array([[complex(y) for y in row] for row in x.tolist()])
            scale, u = max(norm1(expected), 1e-300), unit_roundoff(np.dtype(number))
            condition = norm1(theirs(given.astype(wide)) - expected) / scale / 2.0**-53
            assert norm1(got - expected) <= (40 * max(n, 10) + 20 * condition) * u * scale, (name, n)

    @pytest.mark.parametrize("n", [8, 16, 33, 40])
    @pytest.mark.parametrize("number", [np.float64, np.complex128])
    def test_beside_scipy(self, number, n, rng):
        a = positive(rng, 3, n, number)
        for function, _, theirs in FUNCTIONS.values():
            for x, given in zip(function(a), a, strict=True):
                np.testing.assert_allclose(x, theirs(given), atol=1e-10 * norm1(x))

    @pytest.mark.parametrize("n", [1, 2, 4, 9])
    def test_identities(self, number, n, rng):
        a = positive(rng, 20, n, number)
        rtol = 2e4 * unit_roundoff(np.dtype(number))
        assert (norm1(smallmm.expm(smallmm.logm(a)) - a) <= rtol * norm1(a)).all()
        third = smallmm.powm(a, 1 / 3)
        assert (norm1(third @ third @ third - a) <= rtol * norm1(a)).all()
        both = smallmm.powm(a, -0.7) @ smallmm.powm(a, 0.7)
        assert (norm1(both - np.eye(n)) <= 20 * rtol).all()
        assert_same_bits(smallmm.powm(a, 3.0), smallmm.matrix_power(a, 3))

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_each_by_itself(self, number, name, rng):
        function = FUNCTIONS[name][0]
        a = positive(rng, 5000, 3, number)
        a[::7] *= 1e3
        a[0] = np.diag([-1, 2, 3])  # so that results are complex
        whole = function(a)
        for i in (1, 6, 7, 2000, 4999):
            assert_same_bits(function(a[[0, i]])[1], whole[i])

    @pytest.mark.parametrize("exponent", [-1074, -1050, -1022, -970, -950, 900])
    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_at_the_ends_of_the_range(self, exponent, n):
        """Reciprocals of eigenvalues overflow though the logarithm does not."""
        a = np.triu(np.ones((n, n)))
        scaled = a * 2.0**exponent
        np.testing.assert_allclose(
            smallmm.logm(scaled), smallmm.logm(a) + exponent * np.log(2) * np.eye(n), rtol=1e-14
        )
        root = smallmm.powm(scaled, 0.5)
        np.testing.assert_allclose(root, smallmm.powm(a, 0.5) * 2.0 ** (exponent / 2), rtol=1e-11)

    @pytest.mark.parametrize("name", ["logm", "powm"])
    def test_singular(self, name, dtype, rng):
        a = positive(rng, 6, 3).astype(dtype)
        twin = smallmm.logm_ex if name == "logm" else lambda a: smallmm.powm_ex(a, 0.375)
        good = twin(a)
        a[2], a[4, 1, 1] = np.diag([0, 1, 0]), np.nan
        x, info = twin(a)
        assert info.tolist() == [0, 0, 2, 0, 0, 0]
        assert np.isnan(x[[2, 4]]).all()
        assert_same_bits(x[[0, 1, 3, 5]], good.x[[0, 1, 3, 5]])
        with pytest.raises(smallmm.LinAlgError, match=rf"{name}: 1 of 6 matrices is without a result"):
            FUNCTIONS[name][0](a)

    def test_out(self, rng):
        a = positive(rng, 4, 3)
        for name, (function, _, _) in FUNCTIONS.items():
            options = (0.375,) if name == "powm" else ()
            out, wide = np.empty_like(a), np.empty(a.shape, complex)
            assert getattr(smallmm, name)(a, *options, out=out) is out
            assert_same_bits(out, function(a))
            getattr(smallmm, name)(a, *options, out=wide)
            assert_same_bits(wide, function(a).astype(complex))
            with pytest.raises(TypeError, match=f"{name}: out.* has dtype float64; the result is complex128"):
                getattr(smallmm, name)(-a, *options, out=out)
            x = a.copy()
            assert_same_bits(getattr(smallmm, name)(x, *options, out=x), out)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_no_elements(self, name, dtype):
        x = FUNCTIONS[name][0](np.empty((3, 0, 0), dtype))
        assert (x.shape, x.dtype) == ((3, 0, 0), dtype)

    def test_not_fused(self):
        for function in (smallmm.logm, lambda a: smallmm.powm(a, 0.5)):
            with pytest.raises(NotImplementedError, match="general matrices cannot be fused, as"):
                smallmm.fuse("(n,n)->(n,n)")(function)(np.eye(3))

    def test_theta(self):
        """The largest theta with a backward error of at most u: the series of expm1(r(x)) / x - 1, where r is
        the approximant, in magnitude."""
        m = triangles.DEGREE
        with mpmath.workdps(60):
            order = 2 * m + 30
            moments = [
                sum(mpmath.mpf(w) * mpmath.mpf(y) ** k for y, w in _exact_nodes(m)) for k in range(order)
            ]
            series = [mpmath.mpf(0)] + [(-1) ** k * moments[k] for k in range(order)]
            error = _exp_series(series, order)
            error[0] -= 1
            error[1] -= 1

            def size(x):
                return (
                    sum(abs(c) * mpmath.mpf(x) ** (k - 1) for k, c in enumerate(error) if k)
                    / mpmath.mpf(2) ** -53
                )

            assert size(triangles.THETA) <= 1
            assert size(triangles.THETA * 1.01) > 1


def _exact_nodes(m):
    """Of the Gauss-Legendre rule from 0 to 1."""
    roots = mpmath.polyroots(
        mpmath.taylor(lambda x: mpmath.legendre(m, x), 0, m)[::-1], maxsteps=500, extraprec=200
    )
    for x in roots:
        slope = mpmath.diff(lambda y: mpmath.legendre(m, y), x)
        yield (1 + x) / 2, 1 / ((1 - x**2) * slope**2)


def _exp_series(c, order):
    """Coefficients of exp of a series without a constant: e' = c' e."""
    e = [mpmath.mpf(1)]
    for k in range(1, order):
        e.append(sum(j * c[j] * e[k - j] for j in range(1, k + 1)) / k)
    return e

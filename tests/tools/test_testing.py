"""smallmm.testing: its ratios are LAPACK's, and its assertions name the worst matrix."""

import doctest

import numpy as np
import pytest
import scipy.linalg
from matrices import conditioned, good, good_definite, normal

import smallmm
from smallmm import testing
from smallmm._tools import ratios

KINDS = ("lu", "cholesky", "qr", "eigh", "svd")


def u_of(dtype):
    return np.finfo(dtype).eps / 2


def case(kind, rng, m, n, dtype):
    """A stack, its factors, and the same as a plain tuple."""
    if kind in ("lu", "cholesky", "eigh"):
        m = n
    a = good_definite(rng, n, dtype) if kind in ("cholesky", "eigh") else good(rng, m, n, dtype)
    made = {
        "lu": smallmm.lu_factor,
        "cholesky": smallmm.cholesky,
        "qr": smallmm.qr,
        "eigh": smallmm.eigh,
        "svd": smallmm.svd,
    }[kind](a)
    return a, made


def off_by(factors, index, part, size):
    """Factors with one element of a matrix changed."""
    parts = [np.array(x) for x in (factors if isinstance(factors, tuple) else (factors,))]
    parts[part][index] += size * np.abs(parts[part][index]).max()
    return tuple(parts) if isinstance(factors, tuple) else parts[0]


@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 32, 33])
class TestRatios:
    def test_of_ours(self, dtype, n, rng):
        a, b = good(rng, n, n, dtype), normal(rng, (24, n, 3), dtype)[: len(good(rng, n, n, dtype))]
        testing.assert_solves(a, smallmm.solve(a, b), b, thresh=n + 10)
        easy = conditioned(rng, 9, n, n, 10).astype(dtype)
        testing.assert_inverse(easy, smallmm.inv(easy))
        for kind in KINDS:
            for m in {n, n + 5}:
                stack, factors = case(kind, rng, m, n, dtype)
                testing.assert_factors(stack, factors)
                testing.assert_factors(stack, factors, kind)
                testing.assert_factors(stack, tuple(factors) if isinstance(factors, tuple) else factors, kind)

    def test_are_lapacks(self, dtype, n, rng):
        """The formulas of get01, get02, get03, pot01, one matrix at a time."""
        a, u = rng.standard_normal((5, n, n)).astype(dtype), u_of(dtype)
        b = rng.standard_normal((5, n, 2)).astype(dtype)
        x, inverse, (lu, pivots) = smallmm.solve(a, b), smallmm.inv(a), smallmm.lu_factor(a)
        ratios = [testing.solution_ratio(a, x, b), testing.inverse_ratio(a, inverse)]
        ratios.append(testing.factors_ratio(a, (lu, pivots), "lu"))

        def norm(y):
            return np.abs(y).sum(-2).max()

        for q in range(5):
            wide, y, c, v, f = (z[q].astype(np.longdouble) for z in (a, x, b, inverse, lu))
            residual = np.abs(c - wide @ y).sum(0) / (norm(wide) * np.abs(y).sum(0) * u)
            moved = wide.copy()
            for i, p in enumerate(pivots[q]):
                moved[[i, p]] = moved[[p, i]]
            expected = [
                residual.max(),
                norm(wide @ v - np.eye(n)) / (n * norm(wide) * norm(v) * u),
                norm(moved - (np.tril(f, -1) + np.eye(n)) @ np.triu(f)) / (n * norm(wide) * u),
            ]
            np.testing.assert_allclose(
                [r[q] for r in ratios], np.array(expected, float), rtol=1e-2, atol=1e-6
            )


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 17, 33])
@pytest.mark.parametrize("kind", [*map(np.dtype, "fdFD")], ids=str)
class TestKinds:
    """Right factors pass, and those of another matrix do not."""

    def check(self, a, factors, kind=None):
        assert (testing.factors_ratio(a, factors, kind) <= 20).all()
        if a.shape[-1] > 1:
            other = a.copy()
            other[0, -1, 0] += 2 * np.abs(a[0]).max() + 1
            other[0, 0, -1] = other[0, -1, 0].conj()
            wrong = testing.factors_ratio(other, factors, kind) > 100
            assert np.flatnonzero(wrong).tolist() == [0]

    def test_eig(self, kind, n, rng):
        a = normal(rng, (5, n, n), kind)
        self.check(a, smallmm.eig(a))
        self.check(a, smallmm.eig_ex(a))
        self.check(a, tuple(np.linalg.eig(a)), "eig")
        self.check(a, np.linalg.eig(a))
        definite = a + a.conj().mT
        self.check(definite, smallmm.eigh(definite))
        self.check(definite, np.linalg.eigh(definite))
        self.check(definite, tuple(smallmm.eigh(definite)), "eig")

    def test_ldl(self, kind, n, rng):
        a = normal(rng, (9, n, n), kind)
        a[::2, range(n), range(n)] *= n == 1  # blocks of order 2
        for hermitian in (True, False):
            both = a + (a.conj() if hermitian else a).mT
            for lower in (True, False):
                factors = smallmm.ldl_factor(both, lower=lower, hermitian=hermitian)
                if hermitian:
                    self.check(both, factors)
                self.check(both[:1], tuple(x[:1] for x in factors), "ldl")
                assert (testing.factors_ratio(both, factors) <= 20).all()

    def test_raw_qr(self, kind, n, rng):
        for m in {n, n + 3, max(n - 2, 0)}:
            a = normal(rng, (4, m, n), kind)
            assert (testing.factors_ratio(a, smallmm.qr(a, mode="raw")) <= 20).all()
            assert (testing.factors_ratio(a, np.linalg.qr(a, mode="raw"), "qr") <= 20).all()
            if min(m, n):
                assert (testing.factors_ratio(2 * a, smallmm.qr(a, mode="raw")) > 100).all()

    def test_permuted_lu(self, kind, n, rng):
        for m in {n, n + 3} if n else ():
            a = normal(rng, (4, m, n), kind)
            for factors in (scipy.linalg.lu(a), scipy.linalg.lu(a, p_indices=True)):
                assert (testing.factors_ratio(a, factors, "lu") <= 10).all()
                assert (testing.factors_ratio(a[:, ::-1], factors, "lu") > 100).all() or m == 1
            assert (testing.factors_ratio(a[0], scipy.linalg.lu(a[0]), "lu") <= 10).all()


def test_wrong_pivots_of_ldl(rng):
    ld, pivots = smallmm.ldl_factor(np.eye(3))
    for wrong in ([1, 2, 4], [0, 2, 3], [1, -3, 3], [2, 1, 3]):
        with pytest.raises(ValueError, match="pivots are none that ldl_factor gives for matrices of order 3"):
            testing.factors_ratio(np.eye(3), (ld, np.array(wrong)), "ldl")
    assert pivots.tolist() == [1, 2, 3]


class TestOtherLibraries:
    def test_numpy(self, dtype, rng):
        a, definite = good(rng, 6, 4, dtype), good_definite(rng, 5, dtype)
        testing.assert_factors(a, np.linalg.qr(a))
        testing.assert_factors(a, np.linalg.svd(a))
        testing.assert_factors(definite, np.linalg.eigh(definite))
        testing.assert_factors(definite, np.linalg.cholesky(definite))

    def test_scipy(self, dtype, rng):
        a, definite = good(rng, 4, 4, dtype)[0], good_definite(rng, 5, dtype)[0]
        testing.assert_factors(a, scipy.linalg.lu_factor(a), "lu")
        testing.assert_factors(definite, scipy.linalg.cholesky(definite))
        testing.assert_factors(definite, scipy.linalg.cho_factor(definite), "cholesky")
        testing.assert_factors(a, scipy.linalg.svd(a), "svd")

    def test_complex(self, rng):
        a = rng.standard_normal((7, 4, 4)) + 1j * rng.standard_normal((7, 4, 4))
        b = rng.standard_normal((7, 4, 1))
        testing.assert_solves(a, np.linalg.solve(a, b), b)
        testing.assert_inverse(a, np.linalg.inv(a))
        testing.assert_factors(a, np.linalg.svd(a))
        testing.assert_factors(a, np.linalg.qr(a))
        definite = a @ np.conj(a.mT) + np.eye(4)
        testing.assert_factors(definite, np.linalg.cholesky(definite))
        testing.assert_factors(definite, np.linalg.eigh(definite))

    def test_torch(self, torch, rng):
        a = torch.asarray(rng.standard_normal((7, 4, 4)))
        testing.assert_factors(a, torch.linalg.qr(a))
        testing.assert_factors(a, torch.linalg.svd(a))
        testing.assert_inverse(a, torch.linalg.inv(a))
        lu, pivots = torch.linalg.lu_factor(a)
        testing.assert_factors(a, (lu, pivots - 1), "lu")
        with pytest.raises(ValueError, match="PyTorch's count from 1: subtract 1"):
            testing.assert_factors(a, (lu, pivots), "lu")
        for factors in (
            torch.linalg.lu_factor(a),
            torch.linalg.lu_factor_ex(a),
            torch.linalg.lu(a),
            torch.linalg.eig(a),
            smallmm.lu_factor(a),
        ):
            testing.assert_factors(a, factors)
        testing.assert_factors(a + a.mT, torch.linalg.eigh(a + a.mT))
        testing.assert_factors(a + a.mT, torch.linalg.ldl_factor(a + a.mT))

    def test_in_a_namespace(self, torch, dtype, rng, monkeypatch):
        """As arrays on a device are judged: in float64, by their own library."""
        for module in (testing, ratios):
            monkeypatch.setattr(module, "on_device", lambda x: isinstance(x, torch.Tensor))
        a, definite = good(rng, 6, 6, dtype), good_definite(rng, 6, dtype)
        b = rng.standard_normal((len(a), 6, 2)).astype(dtype)

        def put(x):
            return type(x)(*map(put, x)) if isinstance(x, tuple) else torch.asarray(x)

        for stack, factors in (
            (a, smallmm.lu_factor(a)),
            (a, smallmm.qr(a)),
            (a, smallmm.svd(a)),
            (definite, smallmm.eigh(definite)),
            (definite, smallmm.cholesky(definite)),
            (definite, smallmm.cholesky(definite, upper=True)),
        ):
            found = testing.factors_ratio(put(stack), put(factors))
            assert isinstance(found, torch.Tensor)
            exact = testing.factors_ratio(stack, factors)
            np.testing.assert_allclose(
                found.numpy(), exact, rtol=1e-5, atol=1e-5 if dtype == np.float32 else 2
            )
        x, inverse = smallmm.solve(a, b), smallmm.inv(a)
        testing.assert_solves(put(a), put(x), put(b))
        assert testing.inverse_ratio(put(a), put(inverse)).dtype == torch.float64
        x[2] = np.nan
        with pytest.raises(AssertionError, match=r"1 of \d+ matrices .* at index \(2,\): .* = nan"):
            testing.assert_solves(put(a), put(x), put(b))
        with pytest.raises(TypeError, match="a, x, b are partly on a device"):
            testing.assert_solves(put(a), x, b)

    @pytest.mark.parametrize("half", ["float16", "bfloat16"])
    def test_halves(self, half, rng):
        dtype = np.float16 if half == "float16" else pytest.importorskip("ml_dtypes").bfloat16
        a, b = (rng.standard_normal((9, 4, k)).astype(dtype) for k in (4, 2))
        x = smallmm.solve(a, b)
        assert x.dtype == dtype
        testing.assert_solves(a, x, b)
        assert testing.solution_ratio(a, x, b).max() > 0.01

    def test_integers_and_lists(self):
        testing.assert_solves([[2, 0], [0, 4]], [0.5, 0.5], [1, 2])


class TestFailures:
    @pytest.mark.parametrize("kind", KINDS)
    def test_worst_matrix_is_named(self, kind, dtype, rng):
        a, factors = case(kind, rng, 6, 4, dtype)
        part = 1 if kind == "eigh" else 0
        bad = off_by(factors, (3, 1, 0), part, 0.01)
        worse = off_by(bad, (5, 1, 0), part, 0.5)
        with pytest.raises(
            AssertionError, match=r"assert_factors: 1 of \d+ matrices exceeds .* at index \(3,\)"
        ):
            testing.assert_factors(a, bad, kind)
        with pytest.raises(
            AssertionError, match=r"2 of \d+ matrices exceed the bound, .* at index \(5,\): .* = \d"
        ):
            testing.assert_factors(a, worse, kind)

    @pytest.mark.parametrize(
        ("kind", "part"),
        [(kind, part) for kind, parts in zip(KINDS, (1, 1, 2, 2, 3), strict=True) for part in range(parts)],
    )
    def test_every_factor_counts(self, kind, part, dtype, rng):
        """Pivots have a test of their own."""
        a, factors = case(kind, rng, 5, 4, dtype)
        core = 1 if (kind, part) in (("eigh", 0), ("svd", 1)) else 2
        bad = off_by(factors, (2, *(0,) * core), part, 0.5)
        assert np.flatnonzero(testing.factors_ratio(a, bad, kind) > 30).tolist() == [2]

    def test_pivots_count(self, rng):
        a = rng.standard_normal((4, 5, 5))
        lu, pivots = smallmm.lu_factor(a)
        pivots[2, 0] = (pivots[2, 0] + 1) % 5
        assert np.flatnonzero(testing.factors_ratio(a, (lu, pivots), "lu") > 30).tolist() == [2]
        pivots[2, 4] = 1
        with pytest.raises(
            ValueError, match=r"factors_ratio: pivots has 1 at step 4 of the matrix at index \(2,\)"
        ):
            testing.factors_ratio(a, (lu, pivots), "lu")

    def test_nan_is_worst(self, rng):
        a, b = rng.standard_normal((2, 6, 4, 4)), rng.standard_normal((6, 4, 1))
        x = smallmm.solve(a, b)
        x[0, 1], x[1, 4, 2] = 1, np.nan
        with pytest.raises(AssertionError, match=r"2 of 12 .* at index \(1, 4\): .* = nan, bound 30"):
            testing.assert_solves(a, x, b)

    def test_a_single_matrix(self):
        with pytest.raises(
            AssertionError, match=r"assert_inverse: \|I - A X\| / \(n \|A\| \|X\| u\) = 4.*, bound 5"
        ):
            testing.assert_inverse(np.eye(2), np.eye(2) / 2, thresh=5)

    def test_worst_right_hand_side_counts(self, rng):
        a, b = np.eye(3), rng.standard_normal((5, 3, 4))
        x = b.copy()
        x[1, 0, 2] *= 1.5
        assert np.flatnonzero(testing.solution_ratio(a, x, b)).tolist() == [1]

    @pytest.mark.parametrize("size", [1e300, 1e-300])
    def test_far_from_one(self, size, rng):
        a, b = rng.standard_normal((5, 4, 4)) * size, rng.standard_normal((5, 4, 1))
        testing.assert_solves(a, smallmm.solve(a, b), b)
        testing.assert_factors(a, smallmm.lu_factor(a))


class TestArguments:
    def test_shapes(self, rng):
        a = rng.standard_normal((3, 4, 4))
        with pytest.raises(ValueError, match=r"solution_ratio: a has shape \(4,\); expected at least 2"):
            testing.solution_ratio(a[0, 0], a[0, 0], a[0, 0])
        with pytest.raises(
            ValueError, match=r"solution_ratio: shapes \(3, 4, 4\) and \(3, 3, 1\) do not fit"
        ):
            testing.solution_ratio(a, a[:, :3, :1], a[..., :1])
        with pytest.raises(ValueError, match="factors_ratio: a has shape"):
            testing.factors_ratio(a[..., :2], smallmm.qr(a))
        with pytest.raises(TypeError, match="solution_ratio: x has dtype object"):
            testing.solution_ratio(a, a.astype(object), a)

    def test_kinds(self, rng):
        a = rng.standard_normal((3, 4, 4))
        with pytest.raises(ValueError, match="kind is 'ql'; expected one of lu, cholesky"):
            testing.factors_ratio(a, smallmm.qr(a), "ql")
        with pytest.raises(ValueError, match="kind is None and factors is a plain tuple"):
            testing.factors_ratio(a, tuple(smallmm.qr(a)))
        with pytest.raises(ValueError, match=r"factors has 2 parts; expected \(U, S, Vh\)"):
            testing.factors_ratio(a, tuple(smallmm.qr(a)), "svd")

    @pytest.mark.parametrize("shape", [(0, 4, 4), (3, 0, 0), (2, 0, 3, 3)])
    def test_nothing(self, shape):
        a = np.ones(shape)
        assert testing.inverse_ratio(a, a).shape == shape[:-2]
        testing.assert_inverse(a, a)
        testing.assert_solves(a, a, a)
        testing.assert_factors(a, smallmm.qr(a))

    def test_broadcasting(self, rng):
        a, b = rng.standard_normal((4, 4)), rng.standard_normal((5, 1, 4, 2))
        assert testing.solution_ratio(a, smallmm.solve(a, b), b).shape == (5, 1)


def test_examples():
    assert smallmm.testing is testing
    failures, tests = doctest.testmod(testing, extraglobs={"np": np, "smallmm": smallmm})
    assert tests > 10
    assert failures == 0

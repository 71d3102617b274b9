"""Covariances, whitening and ridge regression of stacks: NumPy's and scikit-learn's results for each set."""

import inspect

import numpy as np
import pytest

import smallmm

M, N, SETS = 12, 3, 7


@pytest.fixture(params=["f4", "f8", "c8", "c16"])
def x(request, rng):
    return numbers(rng, (SETS, M, N), request.param)


@pytest.fixture
def weights(rng):
    return rng.random((SETS, M)) + 0.1


def numbers(rng, shape, dtype):
    dtype = np.dtype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def close(found, expected, dtype):
    tolerance = 2e-5 if np.finfo(dtype).bits == 32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


class TestCov:
    @pytest.mark.parametrize("ddof", [0, 1, 2.5])
    def test_is_numpys(self, x, weights, ddof):
        c, own = smallmm.cov(x, ddof=ddof), smallmm.cov(x, weights.astype(x.real.dtype), ddof=ddof)
        assert c.dtype == own.dtype == x.dtype
        np.testing.assert_array_equal(c, c.conj().mT)
        np.testing.assert_array_equal(own, own.conj().mT)
        for i in range(SETS):
            y = x[i].astype(complex) if x.dtype.kind == "c" else x[i].astype(float)
            centred = y - y.mean(0)  # NumPy takes no ddof that is a fraction
            close(c[i], centred.T @ centred.conj() / (M - ddof), x.dtype)
            if ddof != 2.5:
                close(own[i], np.cov(y.T, aweights=weights[i], ddof=ddof), x.dtype)

    def test_corr_is_numpys(self, x, weights):
        for r, own, y, w in zip(smallmm.corr(x), smallmm.corr(x, weights), x, weights, strict=True):
            close(r, np.corrcoef(y.T), x.dtype)
            c = np.cov(y.T, aweights=w)
            d = np.sqrt(np.diagonal(c).real)
            close(own, c / d / d[:, None], x.dtype)
            assert max(abs(r.real).max(), abs(r.imag).max()) <= 1

    def test_features_in_rows(self, x, weights):
        assert_same = np.testing.assert_array_equal
        assert_same(smallmm.cov(np.ascontiguousarray(x.mT), rowvar=True), smallmm.cov(x))
        assert_same(smallmm.corr(x.mT, weights, rowvar=True), smallmm.corr(x, weights))

    def test_batch_dimensions_broadcast(self, rng):
        x, w = rng.standard_normal((4, 1, M, N)), rng.random((5, M))
        c = smallmm.cov(x, w)
        assert c.shape == (4, 5, N, N)
        close(c[2, 3], np.cov(x[2, 0].T, aweights=w[3]), x.dtype)

    def test_integers_and_halves(self, rng):
        x = rng.integers(-9, 9, (SETS, M, N))
        np.testing.assert_array_equal(smallmm.cov(x), smallmm.cov(x.astype(float)))
        half = smallmm.cov(x.astype(np.float16))
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, smallmm.cov(x.astype(float)), rtol=1e-3, atol=1e-2)

    def test_many_samples(self, rng):
        x = rng.standard_normal((2, 5000, 40)) + 100
        for c, y in zip(smallmm.cov(x), x, strict=True):
            np.testing.assert_allclose(c, np.cov(y.T), atol=1e-12)

    def test_too_few_samples_and_constant_features(self, rng):
        assert np.isnan(smallmm.cov(np.ones((2, 1, N)))).all()
        assert np.isnan(smallmm.cov(np.ones((2, 3, N)), [1.0, 0, 0])).all()
        assert not smallmm.cov(np.ones((2, 1, N)), ddof=0).any()
        x = rng.standard_normal((M, N))
        x[:, 1] = 3
        r = smallmm.corr(x)
        assert np.isnan(r[1]).all()
        assert np.isnan(r[:, 1]).all()
        assert np.isfinite(np.delete(np.delete(r, 1, 0), 1, 1)).all()

    def test_one_pass_and_explained(self, rng):
        x = rng.standard_normal((1000, M, N))
        assert smallmm.explain(smallmm.cov, x).fused
        assert smallmm.explain(smallmm.corr, x, np.ones(M)).fused
        assert not smallmm.cov.ex(x).info.any()
        out = np.empty((1000, N, N))
        assert smallmm.cov(x, out=out) is out
        np.testing.assert_array_equal(out, smallmm.cov(x))

    def test_in_a_fused_function(self, x):
        @smallmm.fuse("(m,n)")
        def spectrum(x):
            return smallmm.eigvalsh(smallmm.cov(x, ddof=0))

        assert smallmm.explain(spectrum, x).fused
        close(spectrum(x), np.linalg.eigvalsh(smallmm.cov(x, ddof=0)), x.dtype)

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda x: smallmm.cov(x, np.ones(4)), ValueError, f"cov: weights has 4 elements; expected {M}"),
            (
                lambda x: smallmm.corr(x, np.ones(4)),
                ValueError,
                f"corr: weights has 4 elements; expected {M}",
            ),
            (lambda x: smallmm.cov(x[0, 0]), ValueError, r"cov: x has shape \(3,\); expected at least 2"),
            (lambda x: smallmm.cov(x, rowvar="no"), TypeError, "cov: rowvar is 'no'; expected True or False"),
            (lambda x: smallmm.cov(x, ddof="no"), ValueError, "cov: ddof is 'no'; expected a finite number"),
            (lambda x: smallmm.whiten(x, eps=1j), ValueError, "whiten: eps is 1j; expected a finite number"),
            (lambda x: smallmm.cov(x.astype("O")), TypeError, "cov: x has dtype object; expected"),
        ],
    )
    def test_what_is_refused(self, rng, call, error, message):
        with pytest.raises(error, match=message):
            call(rng.standard_normal((SETS, M, N)))


class TestWhiten:
    @pytest.mark.parametrize("method", ["cholesky", "pca", "zca"])
    def test_covariance_is_the_identity(self, x, method):
        y = smallmm.whiten(x, method=method)
        assert y.dtype == x.dtype
        close(smallmm.cov(y), np.broadcast_to(np.eye(N), (SETS, N, N)), x.dtype)
        mean, matrix = smallmm.whitening(x, method=method)
        close(mean, x.mean(-2), x.dtype)
        close((x - mean[:, None]) @ matrix.mT, y, x.dtype)
        if method == "cholesky":
            assert not np.triu(matrix, 1).any()
        if method == "zca":  # the one that is Hermitian
            close(matrix, matrix.conj().mT, x.dtype)
        if method == "pca":  # rows: eigenvectors, the largest eigenvalue first
            w = np.linalg.eigvalsh(smallmm.cov(x))[..., ::-1]
            close(1 / np.linalg.norm(matrix, axis=-1) ** 2, w, x.dtype)

    def test_the_default_is_the_triangular_solve(self, rng):
        x = rng.standard_normal((SETS, M, N))
        y = x - x.sum(-2, keepdims=True) / M
        lower = smallmm.cholesky(smallmm.matmul(y.mT, y) / (M - 1.0))
        np.testing.assert_allclose(
            smallmm.whiten(x), smallmm.solve_triangular(lower, y.mT, lower=True).mT, rtol=1e-12
        )

    @pytest.mark.parametrize("method", ["cholesky", "pca", "zca"])
    def test_dependent_features_need_eps(self, rng, method):
        x = rng.standard_normal((SETS, M, N))
        x[3, :, 2] = 0
        with pytest.raises(
            smallmm.LinAlgError,
            match=r"whiten: the covariance of x is not .* in 1 of 7 cases.*\(3,\): feature 2 is constant",
        ) as caught:
            smallmm.whiten(x, method=method)
        assert np.isfinite(np.delete(caught.value.result, 3, 0)).all()
        y = smallmm.whiten(x, eps=1e-3, method=method)
        c = smallmm.cov(y[3])
        assert np.isfinite(y).all()
        assert np.trace(c).round(1) == 2.0

    def test_what_is_refused(self):
        with pytest.raises(ValueError, match="whiten: method is 'svd'; expected 'cholesky', 'pca' or 'zca'"):
            smallmm.whiten(np.eye(3), method="svd")


def expected_ridge(a, b, alpha, weights, intercept):
    """For one system, by augmented least squares."""
    a, b = a.astype(np.promote_types(a.dtype, float)), b.astype(np.promote_types(b.dtype, float))
    b = b[:, None] if b.ndim == 1 else b
    w = np.ones(len(a)) if weights is None else weights
    means = (w @ a / w.sum(), w @ b / w.sum()) if intercept else (0, 0)
    root = np.sqrt(w)[:, None]
    rows = np.concatenate([root * (a - means[0]), np.sqrt(alpha) * np.eye(a.shape[1])])
    right = np.concatenate([root * (b - means[1]), np.zeros((a.shape[1], b.shape[1]))])
    x = np.linalg.lstsq(rows, right)[0]
    return x, means[1] - means[0] @ x if intercept else None


class TestRidge:
    @pytest.mark.parametrize("intercept", [False, True])
    @pytest.mark.parametrize("is_weighted", [False, True])
    @pytest.mark.parametrize("is_vector", [False, True])
    def test_is_the_least(self, x, rng, weights, intercept, is_weighted, is_vector):
        b = numbers(rng, (M,) if is_vector else (SETS, M, 2), x.dtype)
        alpha = rng.random(SETS).astype(x.real.dtype) + 0.1
        w = weights.astype(x.real.dtype) if is_weighted else None
        found = smallmm.ridge(x, b, alpha, weights=w, intercept=intercept)
        assert isinstance(found, tuple) == intercept
        for i in range(SETS):
            best, constant = expected_ridge(
                x[i], b if is_vector else b[i], alpha[i], w[i] if is_weighted else None, intercept
            )
            best, constant = (best[:, 0], constant and constant[0]) if is_vector else (best, constant)
            one = found.x[i] if intercept else found[i]
            np.testing.assert_allclose(
                one, best, rtol=0, atol=1e-4 if x.dtype.itemsize < 16 and x.real.dtype == "f4" else 1e-10
            )
            if intercept:
                np.testing.assert_allclose(
                    found.intercept[i], constant, rtol=0, atol=1e-4 if x.real.dtype == "f4" else 1e-10
                )

    def test_is_that_of_sklearn(self, rng, weights):
        linear_model = pytest.importorskip("sklearn.linear_model")
        a, b = rng.standard_normal((M, N)), rng.standard_normal((M, 2))
        model = linear_model.Ridge(alpha=0.7).fit(a, b, sample_weight=weights[0])
        found = smallmm.ridge(a, b, 0.7, intercept=True, weights=weights[0])
        np.testing.assert_allclose(found.x, model.coef_.T, atol=1e-12)
        np.testing.assert_allclose(found.intercept, model.intercept_, atol=1e-12)

    def test_is_shown_as_it_is_called(self):
        assert str(inspect.signature(smallmm.corr)).endswith("rowvar: bool = False, out: Any = None) -> Any")

    def test_names_and_out(self, rng):
        a, b = rng.standard_normal((SETS, M, N)), rng.standard_normal((SETS, M, 2))
        expected = smallmm.ridge(a, b, 0.5)
        np.testing.assert_array_equal(smallmm.ridge(a=a, b=b, alpha=0.5), expected)
        out = np.empty((SETS, N, 2)), np.empty((SETS, 2))
        assert smallmm.ridge(a, b, 0.5, intercept=True, out=out).x is out[0]
        assert smallmm.explain(smallmm.ridge, a, b, 0.5, weights=np.ones(M)).fused

    def test_systems_that_fail(self, rng):
        a = rng.standard_normal((SETS, M, N))
        a[2] = 0
        with pytest.raises(
            smallmm.LinAlgError, match=r"ridge: A\^T A \+ alpha I is not .* in 1 of 7 cases.*\(2,\)"
        ):
            smallmm.ridge(a, np.ones(M), 0)
        x, info = smallmm.ridge.ex(a, np.ones(M), 0)
        assert np.flatnonzero(info).tolist() == [2]
        assert np.isfinite(np.delete(x, 2, 0)).all()

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda a: smallmm.ridge(a, np.ones(4), 1), ValueError, r"ridge: b has shape \(4,\); expected"),
            (
                lambda a: smallmm.ridge(a, np.ones(M), 1, intercept="no"),
                TypeError,
                "ridge: intercept is 'no'",
            ),
            (
                lambda a: smallmm.ridge(a, np.ones(M), 1, weights=[1.0]),
                ValueError,
                "ridge: weights has shape",
            ),
            (lambda a: smallmm.ridge(a, np.ones(M)), TypeError, "alpha"),
        ],
    )
    def test_what_is_refused(self, rng, call, error, message):
        with pytest.raises(error, match=message):
            call(rng.standard_normal((SETS, M, N)))


class TestLibraries:
    def test_torch(self, torch, rng, weights):
        x = rng.standard_normal((SETS, M, N))
        t = torch.from_numpy(x)
        for name, *others in (("cov",), ("corr", weights), ("whiten",), ("whitening",), ("cov", weights)):
            function = getattr(smallmm, name)
            found, expected = function(t, *map(torch.from_numpy, others)), function(x, *others)
            for ours, theirs in zip(
                *(z if isinstance(z, tuple) else (z,) for z in (found, expected)), strict=True
            ):
                assert isinstance(ours, torch.Tensor)
                np.testing.assert_array_equal(ours, theirs)
        compiled = torch.compile(lambda x: smallmm.cov(x) + 1, backend="aot_eager", fullgraph=True)
        np.testing.assert_array_equal(compiled(t), smallmm.cov(x) + 1)

    def test_jax(self, jax, rng):
        x = rng.standard_normal((SETS, M, N)).astype(np.float32)
        found = jax.jit(lambda x: smallmm.ridge(x, x[..., :1], 0.5, intercept=True))(x)
        np.testing.assert_allclose(found.x, smallmm.ridge(x, x[..., :1], 0.5, intercept=True).x, atol=1e-4)
        np.testing.assert_allclose(jax.vmap(smallmm.cov)(x), smallmm.cov(x), atol=1e-5)

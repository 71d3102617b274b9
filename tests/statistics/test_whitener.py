"""`Whitener`, an estimator in scikit-learn's conventions."""

import pickle
import re

import numpy as np
import pytest

import smallmm

METHODS = ("cholesky", "pca", "zca")


@pytest.mark.needs_library
def test_passes_the_checks_of_estimators():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    for estimator in (smallmm.Whitener(), smallmm.Whitener(method="zca", eps=1e-6)):
        results = checks.check_estimator(estimator, on_fail=None, on_skip=None)
        failed = {x["check_name"]: x["exception"] for x in results if x["status"] == "failed"}
        assert not failed
        assert sum(x["status"] == "passed" for x in results) > 40


@pytest.mark.needs_library
def test_in_a_pipeline_and_a_search(rng):
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    x = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4))
    model = make_pipeline(smallmm.Whitener(), Ridge(alpha=1e-9))
    search = GridSearchCV(model, {"whitener__method": METHODS, "whitener__eps": [0.0, 0.1]}, cv=3)
    assert search.fit(x, x @ [1.0, 2, 3, 4]).best_score_ > 0.999
    assert repr(clone(smallmm.Whitener(method="pca"))) == "Whitener(method='pca', eps=0.0)"
    assert model.fit(x, x[:, 0])[:-1].get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3"]


def test_sklearn_is_not_imported_for_it(run_python):
    code = """
        import sys, numpy as np, smallmm
        x = np.array([[1.0, 0.0], [2.0, 5.0], [4.0, 1.0]])
        try:
            smallmm.Whitener().transform(x)
        except ValueError as error:
            print(error)
        smallmm.Whitener().fit_transform(x)
        print("sklearn" in sys.modules)
    """
    assert run_python(code).stdout.splitlines() == [
        "This Whitener instance is not fitted yet. Call 'fit' before 'transform'",
        "False",
    ]


@pytest.mark.parametrize("shape", [(30, 3), (5, 30, 3), (2, 5, 30, 3), (90, 40)])
@pytest.mark.parametrize("method", METHODS)
def test_samples_and_stacks_of_them(rng, method, shape):
    x = rng.standard_normal(shape) + 3
    whitener = smallmm.Whitener(method=method)
    white = whitener.fit_transform(x)
    n = shape[-1]
    assert whitener.n_features_in_ == n
    assert whitener.mean_.shape == (*shape[:-2], n)
    assert whitener.matrix_.shape == (*shape[:-2], n, n)
    np.testing.assert_allclose(smallmm.cov(white), np.broadcast_to(np.eye(n), (*shape[:-2], n, n)), atol=1e-9)
    np.testing.assert_allclose(white, smallmm.whiten(x, method=method), atol=1e-9)
    np.testing.assert_allclose(whitener.inverse_transform(white), x, atol=1e-9)
    again = pickle.loads(pickle.dumps(whitener))
    np.testing.assert_array_equal(again.transform(x), white)
    assert again.fit(x.astype(np.float32)).transform(x.astype(np.float32)).dtype == np.float32


def test_frames(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rng.standard_normal((9, 2)), columns=["p", "q"])
    frame["q"] = frame["q"].astype("Float64")
    whitener = smallmm.Whitener().fit(frame)
    np.testing.assert_array_equal(whitener.transform(frame), whitener.transform(frame.to_numpy(float)))
    assert whitener.get_feature_names_out().tolist() == ["p", "q"]
    with pytest.raises(ValueError, match="unseen at fit time:\n- r\nFeature names seen at fit time, yet now"):
        whitener.transform(frame.rename(columns={"p": "r"}))
    with pytest.raises(ValueError, match="must be in the same order"):
        whitener.transform(frame[["q", "p"]])


def test_tensors(torch, rng):
    x = rng.standard_normal((4, 30, 3))
    whitener = smallmm.Whitener(method="zca").fit(torch.from_numpy(x))
    assert isinstance(whitener.matrix_, torch.Tensor)
    white = whitener.transform(torch.from_numpy(x))
    np.testing.assert_array_equal(white, smallmm.Whitener(method="zca").fit_transform(x))
    np.testing.assert_allclose(whitener.inverse_transform(white), x, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, x: w.fit(x[0]), "Expected 2D array, got 1D array instead"),
        (lambda w, x: w.fit(x[:1]), "n_samples=1; a minimum of 2 samples is required"),
        (lambda w, x: w.fit(x[:, :0]), re.escape("0 feature(s) (shape=(20, 0)) while a minimum of 1")),
        (lambda w, x: w.fit(x * np.nan), "X contains NaN or infinity"),
        (lambda w, x: w.fit(x * 1j), "Complex data not supported"),
        (lambda w, x: w.fit(x[:3] * 0), "whitening: the covariance of x is not positive definite"),
        (lambda w, x: w.fit(x).transform(x[:, :2]), "X has 2 features, but Whitener is expecting 3"),
        (lambda w, x: w.fit(x).get_feature_names_out(["a"]), "length equal to number of features"),
        (lambda w, x: w.set_params(size=3), "Whitener has no parameter 'size'; expected 'method' or 'eps'"),
        (lambda w, x: w.set_params(method="svd").fit(x), "whitening: method is 'svd'; expected 'cholesky'"),
    ],
)
def test_what_is_refused(rng, call, message):
    with pytest.raises(ValueError, match=message):
        call(smallmm.Whitener(), rng.standard_normal((20, 3)))

"""With other packages, and across processes: what docs/integrations.md says. Arrays of Dask, PyTorch and
others are in test_arrays.py and test_linalg_calls.py, threads and fork in test_threads.py."""

import multiprocessing
import pickle

import numpy as np
import pytest
from accuracy import assert_same, assert_same_bits
from pages import ROOT, blocks

import smallmm


@pytest.fixture
def a(rng):
    x = rng.standard_normal((60, 4, 4))
    return x @ x.mT + np.eye(4)


class TestDask:
    @pytest.fixture
    def da(self):
        return pytest.importorskip("dask.array")

    def test_apply_gufunc(self, da, a):
        lazy = da.from_array(a, chunks=(25, 4, 4))
        result = da.apply_gufunc(smallmm.inv, "(i,j)->(i,j)", lazy, output_dtypes=a.dtype)
        assert_same_bits(result.compute(), smallmm.inv(a))
        q, r = da.apply_gufunc(smallmm.qr, "(i,j)->(i,j),(i,j)", lazy, output_dtypes=(a.dtype, a.dtype))
        assert_same((q.compute(), r.compute()), tuple(smallmm.qr(a)))

    @pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
    def test_schedulers(self, da, a, scheduler):
        lazy = smallmm.solve(da.from_array(a, chunks=(7, 4, 4)), a[0])
        assert_same_bits(lazy.compute(scheduler=scheduler), smallmm.solve(a, a[0]))


class TestXarray:
    @pytest.fixture
    def xr(self):
        return pytest.importorskip("xarray")

    def test_apply_ufunc(self, xr, a):
        x = xr.DataArray(a.reshape(3, 20, 4, 4), dims=["hour", "place", "row", "col"])
        b = xr.DataArray(a[:20, :, :1], dims=["place", "row", "k"])
        result = xr.apply_ufunc(
            smallmm.solve,
            x,
            b,
            input_core_dims=[["row", "col"], ["row", "k"]],
            output_core_dims=[["col", "k"]],
        )
        assert result.dims == ("hour", "place", "col", "k")
        assert_same_bits(result.values, smallmm.solve(x.values, b.values))

    def test_stays_lazy(self, xr, a):
        da = pytest.importorskip("dask.array")
        x = xr.DataArray(da.from_array(a, chunks=(7, 4, 4)), dims=["place", "row", "col"])
        result = xr.apply_ufunc(smallmm.det, x, input_core_dims=[["row", "col"]], dask="allowed")
        assert isinstance(result.data, da.Array)
        assert_same_bits(result.values, smallmm.det(a))

    def test_coordinates_are_kept(self, xr, a):
        x = xr.DataArray(
            a[:6].reshape(2, 3, 4, 4),
            dims=["hour", "place", "row", "col"],
            coords={"hour": [3, 6], "place": ["a", "b", "c"]},
        )
        b = xr.DataArray(a[:2, 0], dims=["hour", "row"], coords={"hour": [3, 6]})
        distances = xr.apply_ufunc(
            smallmm.mahalanobis, b, 0 * b, x, input_core_dims=[["row"], ["row"], ["row", "col"]]
        )
        assert distances.coords.equals(xr.Dataset(coords={"hour": x.hour, "place": x.place}).coords)
        assert_same_bits(
            distances.values, smallmm.mahalanobis(b.values[:, None], 0 * b.values[:, None], x.values)
        )
        factors = xr.apply_ufunc(
            smallmm.qr, x, input_core_dims=[["row", "col"]], output_core_dims=[["row", "k"], ["k", "col"]]
        )
        assert all(y.coords.equals(x.coords) for y in factors)
        assert_same([y.values for y in factors], list(smallmm.qr(x.values)))

    @pytest.mark.parametrize(
        "function", [smallmm.det, smallmm.cond, smallmm.fuse(lambda a: a[0, 0] + 1, "(n,n)")]
    )
    def test_chunks_by_xarray(self, xr, a, function):
        da = pytest.importorskip("dask.array")
        x = xr.DataArray(da.from_array(a, chunks=(7, 4, 4)), dims=["place", "row", "col"])
        for how in ("allowed", "parallelized"):
            found = xr.apply_ufunc(
                function, x, input_core_dims=[["row", "col"]], dask=how, output_dtypes=[a.dtype]
            )
            assert isinstance(found.data, da.Array)
            assert_same_bits(found.values, function(a))

    def test_direct_calls_are_refused(self, xr, a):
        with pytest.raises(NotImplementedError, match="apply_ufunc"):
            smallmm.inv(xr.DataArray(a))
        for x in (xr.DataArray(a), xr.DataArray(a).chunk(), xr.Dataset({"a": ("b", a[0, 0])})):
            with pytest.raises(TypeError, match=r"x is a xarray.*; pass its values, or call xarray.apply_uf"):
                smallmm.whiten(x)


class TestScikitLearn:
    @pytest.fixture
    def whitener(self):
        """GroupWhitener of the page."""
        pytest.importorskip("sklearn")
        (block,) = (b for b in blocks(ROOT / "docs" / "integrations.md") if "sklearn" in b.needs)
        namespace = {"__name__": "page"}
        exec(block.text, namespace)
        return namespace["GroupWhitener"]

    def test_whitens(self, whitener, rng):
        x = rng.standard_normal((500, 12)) @ rng.standard_normal((12, 12))
        white = whitener(size=4).fit_transform(x)
        for i in range(0, 12, 4):
            np.testing.assert_allclose(np.cov(white[:, i : i + 4].T), np.eye(4), atol=1e-10)

    def test_in_a_search(self, whitener, rng):
        from sklearn.linear_model import Ridge
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import make_pipeline

        x = rng.standard_normal((200, 12)) @ rng.standard_normal((12, 12))
        search = GridSearchCV(make_pipeline(whitener(), Ridge()), {"groupwhitener__size": [1, 3, 4]}, cv=3)
        assert search.fit(x, x @ rng.standard_normal(12)).best_score_ > 0.9

    def test_float32_stays(self, whitener, rng):
        x = rng.standard_normal((100, 6)).astype(np.float32)
        assert whitener().fit_transform(x).dtype == np.float32

    def test_constant_features(self, whitener, rng):
        x = rng.standard_normal((100, 6))
        x[:, 4] = 1
        fitted = whitener().fit(x)
        assert fitted.constant_.tolist() == [1]
        white = fitted.transform(x)
        assert np.isfinite(white[:, :3]).all()
        assert np.isnan(white[:, 3:]).all()


def test_threadpoolctl_leaves_ours(a):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with smallmm.threads(3):
        with threadpoolctl.threadpool_limits(1):
            assert smallmm.get_num_threads() == 3
        with smallmm.threads(1):
            assert smallmm.get_num_threads() == 1


RESULTS = {
    "lu_factor": smallmm.lu_factor,
    "lu_factor_ex": smallmm.lu_factor_ex,
    "solve_ex": lambda a: smallmm.solve_ex(a, a),
    "inv_ex": smallmm.inv_ex,
    "slogdet": smallmm.slogdet,
    "cho_factor": smallmm.cho_factor,
    "cholesky_ex": smallmm.cholesky_ex,
    "qr": smallmm.qr,
    "qr, raw": lambda a: smallmm.qr(a, mode="raw"),
    "lstsq": lambda a: smallmm.lstsq(a, a),
    "lstsq_ex": lambda a: smallmm.lstsq_ex(a, a),
    "eigh": smallmm.eigh,
    "eigh_ex": smallmm.eigh_ex,
    "eigvalsh_ex": smallmm.eigvalsh_ex,
    "svd": smallmm.svd,
    "svd_ex": smallmm.svd_ex,
}


class TestPickling:
    @pytest.mark.parametrize("name", RESULTS)
    def test_named_tuples(self, a, name):
        result = RESULTS[name](a)
        again = pickle.loads(pickle.dumps(result))
        assert type(again) is type(result)
        assert_same(tuple(again), tuple(result))

    def test_error(self, a):
        a[7] = 1
        with pytest.raises(smallmm.LinAlgError) as caught:
            smallmm.lu_factor(a)
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)
        assert_same_bits(again.info, caught.value.info)
        assert_same(tuple(again.result), tuple(caught.value.result))

    def test_functions(self):
        for name in smallmm.__all__:
            function = getattr(smallmm, name)
            if callable(function):
                assert pickle.loads(pickle.dumps(function)) is function


def factor(a):
    """In a process of its own."""
    return smallmm.lu_factor(a)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_processes(method, a):
    """Named tuples come back from all kinds of processes, and so does an error with all it carries."""
    many = np.concatenate([a] * 1000)
    expected = smallmm.lu_factor(many)  # the threads are there before the fork
    bad = many.copy()
    bad[7] = 1
    with multiprocessing.get_context(method).Pool(2) as pool:
        for result in pool.map(factor, [many, many]):
            assert_same(tuple(result), tuple(expected))
        with pytest.raises(smallmm.LinAlgError, match=r"1 of 60000 .* index \(7,\)") as caught:
            pool.apply(factor, (bad,))
    assert caught.value.info[7] == 2
    assert_same_bits(caught.value.result.pivots[8:], expected.pivots[8:])

"""How fused functions are called and fail: arrays by name, info of one shape, and reasons in words of the
function."""

import copy
import inspect
import pickle
import pydoc
import re

import numpy as np
import pytest

import smallmm
from smallmm import fuse
from smallmm._programs import fuse as fusing

F = np.diag([1.0, 2.0])


@fuse("(n,n),(n),()")
def scaled(a, x, t, *, add=0.0):
    return a @ x * t + add


@fuse("(n,n),(n)", reasons={"cholesky": "a is not positive: row {i}, or order {k}", "solve": "a is singular"})
def both(a, x):
    return smallmm.solve(a, x), smallmm.cholesky(a)


@pytest.fixture
def arrays(rng):
    a = rng.standard_normal((6, 3, 3))
    return a @ a.mT + np.eye(3), rng.standard_normal((6, 3)), 2.0


@pytest.fixture
def unprepared(monkeypatch):
    """Says of how many calls of `scaled` Python had to do."""
    seen = []
    run = fusing.Fused._run

    def counted(self, *arguments):
        seen.extend([arguments] * (self is scaled))
        return run(self, *arguments)

    monkeypatch.setattr(fusing.Fused, "_run", counted)
    return seen


def test_arrays_by_name(arrays, unprepared):
    a, x, t = arrays
    expected = scaled(a, x, t)
    calls = len(unprepared)
    for found in (
        scaled(a, x, t=t),
        scaled(a, t=t, x=x),
        scaled(t=t, x=x, a=a),
        scaled(a, t=t, x=x, out=np.empty((6, 3))),
        scaled.ex(a, t=t, x=x).result,
        scaled.parts(a, t=t, x=x)[1][0],
    ):
        np.testing.assert_array_equal(found, expected)
    assert len(unprepared) == calls  # all of them are met again, without Python
    np.testing.assert_array_equal(scaled(a, add=1.0, t=t, x=x), expected + 1)
    assert scaled.explain(x=x, a=a, t=t) == scaled.explain(a, x, t) == smallmm.explain(scaled, a, t=t, x=x)


def test_what_is_bound_wrongly(arrays):
    a, x, t = arrays
    for call, text in (
        (lambda: scaled(a, t=t), "scaled: x is missing; expected 3 arrays, a, x, t"),
        (lambda: scaled(x=x), "scaled: a is missing; expected 3 arrays, a, x, t"),
        (lambda: scaled.ex(a, x), "scaled: t is missing"),
        (lambda: scaled(a, x, t, a=a), "scaled: a is given twice, by place and by name"),
        (lambda: scaled(a, x, t, 1.0), "4 arrays are given by place; .* and options by name"),
        (lambda: scaled(a, x, t, y=x), r"y is a ndarray of shape \(6, 3\); expected 3 arrays, a, x, t, and"),
        (lambda: fuse(lambda a, /, x: a * x)(a=x, x=x), "<lambda>: a is missing"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(ValueError, match="an array of <lambda> is named out"):
        fuse(lambda x, out: x + out)


def test_signatures():
    assert str(inspect.signature(scaled)) == "(a, x, t, *, add=0.0, out=None)".replace("out=", "out: Any = ")
    assert list(inspect.signature(smallmm.mahalanobis).parameters) == ["x", "mean", "covariance", "out"]
    assert "out: Any = None" in pydoc.render_doc(smallmm.mahalanobis).splitlines()[2]
    options = inspect.signature(fuse(lambda x, k=2, *, flag, **others: x)).parameters
    assert [x.kind.name for x in options.values()] == [
        "POSITIONAL_OR_KEYWORD",
        *["KEYWORD_ONLY"] * 3,
        "VAR_KEYWORD",
    ]
    inspect.signature(scaled).bind(1, t=2, x=3, out=None)


def test_by_name_within_another(arrays):
    a, x, t = arrays
    outer = fuse("(n,n),(n)")(lambda a, x: scaled(x=x, t=2.0, a=a, add=1.0))
    np.testing.assert_array_equal(outer(x=x, a=a), scaled(a, x, t, add=1.0))


def test_by_name_of_other_libraries(torch, jax, arrays):
    a, x, t = arrays
    expected = scaled(a, x, t)
    tensors = {"a": torch.from_numpy(a), "x": torch.from_numpy(x)}
    np.testing.assert_array_equal(scaled(t=t, **tensors), expected)
    leaf = tensors["x"].clone().requires_grad_()
    scaled(tensors["a"], t=t, x=leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad, a.sum(axis=-2) * t, rtol=1e-12)
    scaled.ex(tensors["a"], t=t, x=leaf).result.sum().backward()
    step = jax.jit(lambda a, x: scaled(a, t=t, x=x))
    np.testing.assert_allclose(step(a.astype("f4"), x.astype("f4")), expected, atol=1e-4)
    given = jax.numpy.asarray(a, "f4"), jax.numpy.asarray(x, "f4")
    gradient = jax.grad(lambda x: scaled(given[0], t=t, x=x).sum())(given[1])
    np.testing.assert_allclose(gradient, a.sum(axis=-2) * t, atol=1e-4)


def test_by_name_of_dask(arrays):
    da = pytest.importorskip("dask.array")
    a, x, t = arrays
    found = scaled(x=da.from_array(x, chunks=(2, 3)), t=t, a=a)
    assert found.chunks[0] == (2, 2, 2)
    np.testing.assert_array_equal(found.compute(), scaled(a, x, t))


def test_info_has_a_number_for_each_matrix(arrays):
    a, x, _ = arrays
    a[1], a[4] = 0, -a[4]
    result, info = both.ex(a, x)
    assert info.tolist() == [0, 1, 0, 0, 1, 0]
    assert info.dtype == np.int32
    assert type(both.ex(a[1], x[1]).info) is np.int32
    assert both.ex(a[:0], x[:0]).info.shape == (0,)
    assert both.ex(a[:, None], x).info.shape == (6, 6)
    with pytest.raises(smallmm.LinAlgError) as caught:
        both(a, x)
    for part in (caught.value.result[0], result[1]):
        assert not np.isfinite(part[caught.value.info != 0]).all()
        assert np.isfinite(part[caught.value.info == 0]).all()
    state = fuse("(n,n)")(lambda a: smallmm.eigh(smallmm.inv(a)))
    with pytest.raises(smallmm.LinAlgError) as caught:
        state(a)
    bad = caught.value.info != 0
    assert np.flatnonzero(bad).tolist() == [1]
    assert np.isnan(caught.value.result.eigenvalues[bad]).all()
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert again.step == caught.value.step == ("inv", 0)


@pytest.mark.parametrize("shape", [(), (5,), (2, 0), (2, 3)])
def test_info_of_what_cannot_fail(shape):
    found = smallmm.congruence.ex(np.ones((*shape, 2, 3)), np.eye(3))
    assert np.shape(found.info) == shape
    assert found.info.dtype == np.int32
    assert not np.any(found.info)
    assert found.step is None
    assert fuse(lambda x: x > 0).ex(np.ones(shape)).info.shape == shape


def test_info_of_other_libraries(torch, jax, arrays):
    a, x, _ = arrays
    a[1], a[4] = 0, -a[4]
    expected = both.ex(a, x)
    found = both.ex(torch.from_numpy(a), torch.from_numpy(x))
    assert type(found.info) is torch.Tensor
    assert found.info.tolist() == expected.info.tolist()
    assert found.step == expected.step == ("solve", 0)
    assert torch.vmap(lambda a, x: both.ex(a, x).info)(*map(torch.from_numpy, (a, x))).tolist() == [
        0,
        1,
        0,
        0,
        1,
        0,
    ]
    with pytest.raises(smallmm.LinAlgError) as caught:
        both(torch.from_numpy(a), torch.from_numpy(x))
    assert caught.value.result[0][caught.value.info != 0].isnan().any()
    leaf = torch.ones(3, 2, 2, requires_grad=True)
    assert smallmm.congruence.ex(leaf, torch.eye(2)).info.tolist() == [0] * 3
    given = a.astype("f4"), x.astype("f4")
    for run in (both.ex, jax.jit(both.ex)):
        assert run(*map(jax.numpy.asarray, given)).info.tolist() == expected.info.tolist()
    assert jax.jit(smallmm.congruence.ex)(a, a).info.tolist() == [0] * 6


def test_info_of_dask(arrays):
    da = pytest.importorskip("dask.array")
    a, x, _ = arrays
    a[1], a[4] = 0, -a[4]
    lazy = da.from_array(a, chunks=(2, 3, 3))
    found = both.ex(lazy, x)
    assert found.info.compute().tolist() == [0, 1, 0, 0, 1, 0]
    assert found.step == ("solve", 0)
    some = smallmm.congruence.ex(lazy[lazy[:, 0, 0] > 0], np.eye(3)).info
    assert some.compute().shape == (np.count_nonzero(a[:, 0, 0] > 0),)


def test_places_of_steps():
    ends = [
        str(smallmm.FailedStep("inv", place)).split()[-2] for place in (0, 1, 2, 3, 10, 11, 12, 20, 101, 111)
    ]
    assert ends == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "112th"]


def test_reasons(arrays):
    a, x, _ = arrays
    a[4, 2] = a[4, :, 2] = 0
    a[5, 2, 2] = -1
    with pytest.raises(
        smallmm.LinAlgError,
        match=r"^both: a is singular in 1 of 6 cases, the first at index \(4,\); see .info and .result",
    ):
        both(a, x)
    with pytest.raises(smallmm.LinAlgError, match=r"^both: a is not positive: row 2, or order 3$") as caught:
        both(a[5], x[5])
    assert caught.value.step == ("cholesky", 1)
    outer = fuse("(n,n),(n)", reasons={"cholesky": "other words"})(lambda a, x: both(a, x)[1])
    with pytest.raises(smallmm.LinAlgError, match=r"^<lambda>: a is not positive: row 2, or order 3$"):
        outer(a[5], x[5])
    again = pickle.loads(pickle.dumps(fuse(np.linalg.cholesky, "(n,n)", reasons={"cholesky": "no"})))
    with pytest.raises(smallmm.LinAlgError, match=r"^cholesky: no$"):
        again(-np.eye(2))
    for wrong in ("text", {"cholesky": 3}, {3: "text"}):
        with pytest.raises(TypeError, match=r"fuse: reasons is .*; expected a dict"):
            fuse("(n,n)", reasons=wrong)(np.linalg.cholesky)
    with pytest.raises(ValueError, match=re.escape("fuse: reasons['inv'] is 'of {n}'; expected a text")):
        fuse("(n,n)", reasons={"inv": "of {n}"})(np.linalg.inv)


def test_chains_say_what_is_wrong(rng):
    c = np.stack([np.eye(3)] * 4)
    c[2, 1] = c[2, :, 1] = 0
    x = np.zeros((4, 3))
    for function in (smallmm.mahalanobis, smallmm.gaussian_logpdf):
        with pytest.raises(smallmm.LinAlgError) as caught:
            function(x, x, covariance=c)
        name, what, why = str(caught.value).split(": ")
        assert name == function.__name__
        assert what == "covariance is not positive definite in 1 of 4 cases, the first at index (2,)"
        assert why.startswith("feature 1 is constant or depends on those before it; see .info and .result of")
        with pytest.raises(smallmm.LinAlgError, match=r"covariance is not positive definite: feature 1 is"):
            function(x[2], x[2], covariance=c[2])
    with pytest.raises(
        smallmm.LinAlgError, match=r"h p h\^T \+ r is not positive definite: measurement 0 is"
    ):
        smallmm.kalman_step(x[0], c[0] * 0, x[0], c[0], c[0], q=c[0] * 0, r=c[0] * 0)
    samples = rng.standard_normal((4, 9, 3))
    samples[1, :, 2] = 7
    with pytest.raises(smallmm.LinAlgError, match=r"^whiten: .* in 1 of 4 cases, .*\(1,\): feature 2 is con"):
        smallmm.whiten(samples)
    samples[1, :, 2] = 0
    with pytest.raises(smallmm.LinAlgError, match=r"^ridge: .* in 1 of 4 cases, .*\(1,\): column 2 of A is "):
        smallmm.ridge(samples, samples, 0.0)


def test_a_missing_signature_is_written_out(rng):
    a, x = rng.random((1000, 3, 3)), rng.random((1000, 3))
    for function, given, signature in (
        (lambda a, x: smallmm.solve(a, x), (a, x), "(n,n),(n)->(n)"),
        (lambda a, x: a @ x, (a[0], x[0]), "(n,n),(n)->(n)"),
        (lambda a: a @ a.mT, (a[:, :2],), "(m,n)->(m,m)"),
        (lambda a, b: a.mT @ b, (a[:, :2], a[:, :2, :1]), "(m,n),(m,k)->(n,k)"),
        (lambda x: (x[0], x[1:]), (x,), "(m,n)->(n),(999,n)"),
    ):
        with pytest.raises((ValueError, IndexError)) as caught:
            fuse(function)(*given)
        said = "Without a signature <lambda> takes a number of each array; for matrices write"
        assert str(caught.value).endswith(f'. {said} fuse("{signature}")')
    with pytest.raises(ValueError, match=r"do not broadcast$"):
        fuse(lambda a, b: a + b)(np.ones(3), np.ones(4))

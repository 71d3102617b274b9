"""Dask: every function of lazy arrays gives lazy arrays with the bits of one process; worker processes;
stacks in files. Calls by way of Dask's own functions are in test_integrations.py."""

import numpy as np
import pytest
from accuracy import as_tuple, assert_same_bits

import smallmm
from smallmm import congruence
from smallmm._catalog import COMPOSITIONS, FUNCTIONS
from smallmm._fuse import Fused

da = pytest.importorskip("dask.array")

MATRICES, CHUNK = 30, 13


@smallmm.fuse("(n,n),(n),()->(n),()")
def own(a, x, t):
    y = smallmm.solve(a, x[:, None])[:, 0]
    return y * t, y.sum()


def stacks():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((MATRICES, 4, 4)), rng.standard_normal((MATRICES, 4, 2))
    return {
        "a": a,
        "s": a @ a.mT + 4 * np.eye(4),
        "b": b,
        "v": rng.standard_normal((MATRICES, 4)),
        "tall": rng.standard_normal((MATRICES, 7, 4)),
        "band": np.stack([np.full((MATRICES, 4), 1.0), np.full((MATRICES, 4), 9.0)], axis=-2),
        "cube": a[:, :2].reshape(MATRICES, 2, 2, 2),
        "alpha": rng.standard_normal(MATRICES),
        "count": rng.integers(1, 5, MATRICES),
    }


# Functions of more, or of other, arrays than one stack of symmetric positive definite matrices
CASES = {
    "backward_error": lambda f, x: f(x["a"], x["b"], x["b"]),
    "batched_matmul": lambda f, x: f(x["a"], x["b"], alpha=x["alpha"]),
    "cho_solve": lambda f, x: f(smallmm.cho_factor(x["s"]), x["b"]),
    "congruence": lambda f, x: f(x["a"], x["s"]),
    "contract": lambda f, x: f("bij,bjk,bk->bi", x["a"], x["b"], x["b"][:, 0]),
    "cross": lambda f, x: f(x["v"][:, :3], x["v"][:, 1:]),
    "gaussian_logpdf": lambda f, x: f(x["v"], 0 * x["v"], x["s"]),
    "einsum": lambda f, x: f("bij,bjk->bik", x["a"], x["b"]),
    "kalman_step": lambda f, x: f(
        x["v"], x["s"], x["b"][:, 0], x["a"][0], x["a"][0, :2], x["s"], x["s"][:, :2, :2]
    ),
    "kron_apply": lambda f, x: f([x["a"][0, :2, :2], x["a"][0, 2:, 2:]], x["v"]),
    "ldl_solve": lambda f, x: f(*smallmm.ldl_factor(x["s"])[:2], x["b"]),
    "linsolve": lambda f, x: f(x["a"], x["b"]),
    "linsolve_ex": lambda f, x: f(x["a"], x["b"]),
    "logm": lambda f, x: f(x["s"], assume_a="sym"),
    "logm_ex": lambda f, x: f(x["s"], assume_a="sym"),
    "lstsq": lambda f, x: f(x["tall"], x["tall"][..., :2]),
    "lstsq_ex": lambda f, x: f(x["tall"], x["tall"][..., :2]),
    "lu_rcond": lambda f, x: f(*smallmm.lu_factor(x["a"])[:2], smallmm.matrix_norm(x["a"], ord=1)),
    "lu_solve": lambda f, x: f(smallmm.lu_factor(x["a"])[:2], x["b"]),
    "mahalanobis": lambda f, x: f(x["v"], 0 * x["v"], x["s"]),
    "matmul": lambda f, x: f(x["a"], x["b"]),
    "matrix_power": lambda f, x: f(x["a"], -3),
    "matvec": lambda f, x: f(x["a"], x["v"]),
    "multi_dot": lambda f, x: f([x["a"], x["s"], x["b"]]),
    "norm": lambda f, x: f(x["a"], axis=(-2, -1)),
    "outer": lambda f, x: f(x["v"], x["b"][..., 0]),
    "own": lambda f, x: f(x["a"], x["v"], x["count"]),
    "powm": lambda f, x: f(x["s"], 0.3, assume_a="sym"),
    "powm_ex": lambda f, x: f(x["s"], 0.3, assume_a="sym"),
    "refine": lambda f, x: f(x["a"], *smallmm.lu_factor(x["a"])[:2], x["b"], smallmm.solve(x["a"], x["b"])),
    "ridge": lambda f, x: f(x["tall"], x["tall"][..., :2], 0.5),
    "solve": lambda f, x: f(x["a"], x["b"]),
    "solve_banded": lambda f, x: f((1, 1), x["a"][:, :3], x["b"]),
    "solve_ex": lambda f, x: f(x["a"], x["b"]),
    "solve_triangular": lambda f, x: f(x["s"], x["b"], lower=True),
    "solve_tridiagonal": lambda f, x: f(x["v"][:, 1:], x["v"], x["v"][:, :3], x["b"]),
    "solveh_banded": lambda f, x: f(x["band"], x["b"]),
    "sqrtm": lambda f, x: f(x["s"], assume_a="sym"),
    "sqrtm_ex": lambda f, x: f(x["s"], assume_a="sym"),
    "sum_factorized": lambda f, x: f(x["a"][0, :2, :2], x["cube"], x["cube"]),
    "svd": lambda f, x: f(x["tall"], full_matrices=False),
    "tensordot": lambda f, x: f(x["a"], x["b"][0], axes=1),
    "tensorinv": lambda f, x: f(x["a"][0].reshape(2, 2, 4)),
    "tensorsolve": lambda f, x: f(x["a"][0].reshape(2, 2, 4), x["b"][0, :2]),
    "vecdot": lambda f, x: f(x["v"], x["b"][..., 0]),
    "vecmat": lambda f, x: f(x["v"], x["a"]),
    "vector_norm": lambda f, x: f(x["v"], axis=-1),
    "whiten": lambda f, x: f(x["tall"]),
}  # fmt: skip
FUSED = {name: x for name in smallmm.__all__ if isinstance(x := getattr(smallmm, name), Fused)} | {"own": own}
ALL = {name: row.function for name, row in FUNCTIONS.items()} | COMPOSITIONS | FUSED
del ALL["conv2d"]  # refuses them


def lazy_stacks():
    return {name: da.from_array(x, chunks=(CHUNK, *x.shape[1:])) for name, x in stacks().items()}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_function(name):
    case = CASES.get(name, lambda f, x: f(x["s"]))
    expected, found = (case(ALL[name], x) for x in (stacks(), lazy_stacks()))
    assert type(expected) is type(found) or isinstance(found, da.Array)
    arrays = [(x, y) for x, y in zip(as_tuple(found), as_tuple(expected), strict=True) if hasattr(y, "dtype")]
    assert arrays
    for x, y in arrays:
        assert isinstance(x, da.Array)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert_same_bits(x.compute(scheduler="synchronous"), y)


class TestFused:
    def test_results_are_chunks_of_the_batch(self):
        x = lazy_stacks()
        first, second = own(x["a"], x["v"], 2.0)
        assert first.chunks == ((13, 13, 4), (4,))
        assert second.chunks == ((13, 13, 4),)

    def test_a_bad_matrix(self):
        a = stacks()["a"]
        a[CHUNK + 2] = 0
        lazy, v = da.from_array(a, chunks=(CHUNK, 4, 4)), stacks()["v"]
        with pytest.raises(smallmm.LinAlgError, match=r"own: .*solve, fails for 1 of 13 .* index \(2,\)"):
            own(lazy, v, 1.0)[0].compute(scheduler="synchronous")
        (found, _), info = own.ex(lazy, v, 1.0)
        (expected, _), exact = own.ex(a, v, 1.0)
        assert_same_bits(info.compute(), exact)
        assert_same_bits(found.compute(), expected)

    def test_unknown_chunks(self):
        x, y = lazy_stacks(), stacks()
        found = congruence(x["a"][x["alpha"] > 0], x["s"][0])
        assert_same_bits(found.compute(), congruence(y["a"], y["s"][0])[y["alpha"] > 0])

    def test_what_is_refused(self):
        x = lazy_stacks()
        with pytest.raises(TypeError, match="own: out is given, but a call of Dask arrays writes to none"):
            own(x["a"], x["v"], 1.0, out=(None, None))
        with pytest.raises(ValueError, match=r"own: x has shape \(30, 3\)"):
            own(x["a"], x["v"][:, 1:], 1.0)
        with pytest.raises(TypeError, match=r"own: t has dtype datetime64"):
            own(x["a"], x["v"], x["alpha"].astype("M8[s]"))

    def test_complex_numbers(self):
        x, y = lazy_stacks(), stacks()
        found = congruence(x["a"] * 1j, x["s"])
        assert found.dtype == np.complex128
        assert_same_bits(found.compute(), congruence(y["a"] * 1j, y["s"]))


def test_worker_processes(monkeypatch):
    """They have the limit of threads that Dask gives them, and the bits are those of one process."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.delenv("SMALLMM_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    x, lazy = stacks(), lazy_stacks()
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        assert set(client.run(smallmm.get_num_threads).values()) == {1}
        client.run(smallmm.set_num_threads, 2)
        assert set(client.run(smallmm.get_num_threads).values()) == {2}
        assert_same_bits(smallmm.inv(lazy["a"]).compute(), smallmm.inv(x["a"]))
        assert_same_bits(smallmm.expm(lazy["a"]).compute(), smallmm.expm(x["a"]))
        assert_same_bits(congruence(lazy["a"], lazy["s"]).compute(), congruence(x["a"], x["s"]))
        local = smallmm.fuse(lambda a: a @ a, "(n,n)->(n,n)")  # without a name to be found by
        assert_same_bits(local(lazy["a"]).compute(), local(x["a"]))


class TestFiles:
    @pytest.fixture
    def file(self, tmp_path):
        np.save(tmp_path / "a.npy", stacks()["a"])
        return np.load(tmp_path / "a.npy", mmap_mode="r")

    def test_memory_mapped(self, file, tmp_path):
        lazy = da.from_array(file, chunks=(CHUNK, 4, 4))
        expected = smallmm.qr(file)
        targets = [
            np.lib.format.open_memmap(tmp_path / f"{i}.npy", "w+", x.dtype, x.shape)
            for i, x in enumerate(expected)
        ]
        da.store(list(smallmm.qr(lazy)), targets)
        for i, x in enumerate(expected):
            assert_same_bits(np.load(tmp_path / f"{i}.npy"), x)

    def test_zarr(self, file, tmp_path):
        pytest.importorskip("zarr")
        da.from_array(file, chunks=(CHUNK, 4, 4)).to_zarr(tmp_path / "a.zarr")
        smallmm.inv(da.from_zarr(tmp_path / "a.zarr")).to_zarr(tmp_path / "inverse.zarr")
        assert_same_bits(da.from_zarr(tmp_path / "inverse.zarr").compute(), smallmm.inv(file))

"""Dask: every function of lazy arrays gives lazy arrays with the bits of one process; worker processes;
stacks in files. Calls by way of Dask's own functions are in test_integrations.py."""

import subprocess
import sys

import numpy as np
import pytest
from accuracy import as_tuple, assert_same_bits
from cases import Function, only_a, rows_of
from pages import ROOT

import smallmm
from smallmm import congruence
from smallmm._base.catalog import COMPOSITIONS, FUNCTIONS
from smallmm._programs.chosen import Chosen
from smallmm._programs.fused import Fused

dask = pytest.importorskip("dask")
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
        "a0": a[0],
        "b0": b[0],
        "s": a @ a.mT + 4 * np.eye(4),
        "b": b,
        "v": rng.standard_normal((MATRICES, 4)),
        "tall": rng.standard_normal((MATRICES, 7, 4)),
        "band": np.stack([np.full((MATRICES, 4), 1.0), np.full((MATRICES, 4), 9.0)], axis=-2),
        "cube": a[:, :2].reshape(MATRICES, 2, 2, 2),
        "alpha": rng.standard_normal(MATRICES),
        "count": rng.integers(1, 5, MATRICES),
    }


# Functions of other arrays, or of other shapes, than those of cases.py
CASES = {
    "batched_matmul": lambda f, x: f(x["a"], x["b"], alpha=x["alpha"]),
    "congruence": lambda f, x: f(x["a"], x["s"]),
    "corr": lambda f, x: f(x["tall"]),
    "cov": lambda f, x: f(x["tall"]),
    "contract": lambda f, x: f("bij,bjk,bk->bi", x["a"], x["b"], x["b"][:, 0]),
    "gaussian_logpdf": lambda f, x: f(x["v"], 0 * x["v"], x["s"]),
    "kalman_step": lambda f, x: f(
        x["v"], x["s"], x["b"][:, 0], x["a0"], x["a0"][:2], x["s"], x["s"][:, :2, :2]
    ),
    "kron_apply": lambda f, x: f([x["a0"][:2, :2], x["a0"][2:, 2:]], x["v"]),
    "lstsq": lambda f, x: f(x["tall"], x["tall"][..., :2]),
    "mahalanobis": lambda f, x: f(x["v"], 0 * x["v"], x["s"]),
    "matmul": lambda f, x: f(x["a"], x["b"]),
    "matvec": lambda f, x: f(x["a"], x["v"]),
    "own": lambda f, x: f(x["a"], x["v"], x["count"]),
    "ridge": lambda f, x: f(x["tall"], x["tall"][..., :2], 0.5),
    "sliding": lambda f, x: f(x["tall"], 3),
    "solve_banded": lambda f, x: f((1, 1), x["a"][:, :3], x["b"]),
    "solve_tridiagonal": lambda f, x: f(x["v"][:, 1:], x["v"], x["v"][:, :3], x["b"]),
    "solveh_banded": lambda f, x: f(x["band"], x["b"]),
    "sqrtm": lambda f, x: f(x["a"] * (1 + 0j)),  # of real ones eigenvalues decide about the type
    "sum_factorized": lambda f, x: f(x["a0"][:2, :2], x["cube"], x["cube"]),
    "svd": lambda f, x: f(x["tall"], full_matrices=False),
    "tensordot": lambda f, x: f(x["a"], x["b0"], axes=1),
    "tensorinv": lambda f, x: f(x["a0"].reshape(2, 2, 4)),
    "tensorsolve": lambda f, x: f(x["a0"].reshape(2, 2, 4), x["b0"][:2]),
    "vecdot": lambda f, x: f(x["v"], x["b"][..., 0]),
    "vecmat": lambda f, x: f(x["v"], x["a"]),
    "whiten": lambda f, x: f(x["tall"]),
    "whitening": lambda f, x: f(x["tall"]),
}  # fmt: skip
PUBLIC = {name: getattr(smallmm, name) for name in smallmm.__all__}
FUSED = {name: x for name, x in PUBLIC.items() if isinstance(x, Fused | Chosen)} | {"own": own}
ALL = {name: row.function for name, row in FUNCTIONS.items()} | COMPOSITIONS | FUSED
del ALL["conv2d"]  # refuses them


def case_of(name):
    """How a public function is called with stacks: as in CASES, or as in its first row of cases.py, or with
    one stack of definite matrices. A twin is called as its function."""
    rows = (*rows_of(name), *rows_of(name.removesuffix("_ex")), Function(name, only_a))
    return CASES.get(name.removesuffix("_ex"), lambda f, x: rows[0].by(f, x["s"], x["b"]))


def lazy_stacks(keep=None):
    """keep: which matrices there are; their number is known only when it is computed."""
    lazy = {
        name: da.from_array(x, chunks=(CHUNK, *x.shape[1:]) if len(x) == MATRICES else -1)
        for name, x in stacks().items()
    }
    keep = keep if keep is None else da.from_array(keep, chunks=CHUNK)
    return {name: x if keep is None or len(x) < MATRICES else x[keep] for name, x in lazy.items()}


def lazy_and_expected(name, keep=None):
    """The Dask arrays that a function gives, each with what it is to be."""
    case = case_of(name)
    kept = {key: x[keep] if keep is not None and len(x) == MATRICES else x for key, x in stacks().items()}
    expected, found = case(ALL[name], kept), case(ALL[name], lazy_stacks(keep))
    assert type(expected) is type(found) or isinstance(found, da.Array)
    pairs = [(x, y) for x, y in zip(as_tuple(found), as_tuple(expected), strict=True) if hasattr(y, "dtype")]
    assert pairs
    for x, y in pairs:
        assert isinstance(x, da.Array)
        assert x.dtype == y.dtype
    return pairs


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_function(name):
    for x, y in lazy_and_expected(name):
        assert x.shape == y.shape
        assert_same_bits(x.compute(scheduler="synchronous"), y)


CONTRACTIONS = {"contract", "einsum", "tensordot"}  # which need all lengths


@pytest.mark.parametrize("name", sorted(CONTRACTIONS))
def test_contractions_of_unknown_chunks(name):
    with pytest.raises(
        ValueError, match=rf"{name}: operand 0 has shape \(nan, 4, 4\), .*compute_chunk_sizes"
    ):
        lazy_and_expected(name, np.arange(MATRICES) % 3 > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize(("text", "count"), [("bij->i", 1), ("bij->", 1), ("bij,bjk->ik", 2)])
def test_contractions_of_many_terms(text, count, dtype):
    """Sums of more elements than are added in a row; several chunks along them are refused."""
    a, lazy = stacks()["a"].astype(dtype), lazy_stacks()["a"].astype(dtype)
    found = smallmm.einsum(text, *[lazy.rechunk({0: -1})] * count)
    assert_same_bits(found.compute(scheduler="synchronous"), np.asarray(smallmm.einsum(text, *[a] * count)))
    with pytest.raises(ValueError, match=r"einsum: an operand has several chunks along .*rechunk"):
        smallmm.einsum(text, *[lazy] * count)


@pytest.mark.parametrize("name", sorted(ALL.keys() - CONTRACTIONS - {"sliding"}))
def test_unknown_chunks(name):
    """Of stacks whose number of matrices is not known before they are computed."""
    for x, y in lazy_and_expected(name, np.arange(MATRICES) % 3 > 0):
        assert x.shape[x.ndim - y.ndim + 1 :] == y.shape[1:]
        assert_same_bits(x.compute(scheduler="synchronous"), y)


def test_unknown_chunks_that_differ():
    keep = np.arange(MATRICES) % 3 > 0
    message = r"solve: a has shape \(nan, 4, 4\), nan for lengths .* call its compute_chunk_sizes\(\)"
    for b in (stacks()["b"][keep], lazy_stacks()["b"], lazy_stacks()["b"].rechunk(-1)[keep]):
        with pytest.raises(ValueError, match=message):
            smallmm.solve(lazy_stacks(keep)["a"], b)
    with pytest.raises(ValueError, match=r"sliding: x has shape \(nan, .*nan for lengths"):
        smallmm.sliding(lazy_stacks(keep)["tall"], 3)
    b = stacks()["b"][:1]  # broadcast
    assert_same_bits(
        smallmm.solve(lazy_stacks(keep)["a"], b).compute(), smallmm.solve(stacks()["a"][keep], b)
    )


@pytest.mark.filterwarnings("error")
def test_complex_and_real_numbers():
    """Results that are real, of complex arrays."""
    for f in (
        smallmm.svd,
        smallmm.eigh,
        smallmm.matrix_norm,
        smallmm.slogdet,
        smallmm.fuse("(n,n)->()")(smallmm.det),
    ):
        found, expected = (as_tuple(f(x["s"] * (1 + 0j))) for x in (lazy_stacks(), stacks()))
        for x, y in zip(found, expected, strict=True):
            assert x.dtype == y.dtype
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
        with pytest.raises(
            smallmm.LinAlgError, match=r"own: .*solve, the 1st step, fails in 1 of 13 .* index \(2,\)"
        ):
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

    def test_parts_of_matrices(self):
        x = lazy_stacks()
        with pytest.raises(ValueError, match=r"own: a has chunks .* call a.rechunk\({-2: -1, -1: -1}\)"):
            own(x["a"].rechunk((CHUNK, 2, 4)), x["v"], 1.0)
        with pytest.raises(ValueError, match=r"own: x has chunks \(2, 2\) along .* x.rechunk\({-1: -1}\)"):
            own(x["a"], x["v"].rechunk((CHUNK, 2)), 1.0)

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
        pairs = [pair for name in ALL for pair in lazy_and_expected(name)]
        for found, (_, expected) in zip(dask.compute(*(x for x, _ in pairs)), pairs, strict=True):
            assert_same_bits(found, expected)
        group = smallmm.Group([x["a"][0], x["b"][0].T @ x["b"][0]])
        for found, expected in zip(
            client.submit(smallmm.inv, group).result(), smallmm.inv(group), strict=True
        ):
            assert_same_bits(found, expected)
        local = smallmm.fuse(lambda a: a @ a, "(n,n)->(n,n)")  # without a name to be found by
        assert_same_bits(local(lazy["a"]).compute(), local(x["a"]))


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="needs a clone")
def test_a_worker_is_killed():
    """The job ends all the same, and its results are NumPy's."""
    pytest.importorskip("distributed")
    sizes = ["--size", "64MB", "--chunk", "4MB", "--memory-limit", "600MB"]
    command = [sys.executable, "-m", "benchmarks.host.larger_than_memory", *sizes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "was killed" in done.stdout
    assert "3 chunks agree with NumPy" in done.stdout


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

"""`tune`: which candidates there are, what is saved for later processes, and a search on the emulated GPU."""

import itertools
import json
import os
import threading

import numpy as np
import pytest

import smallmm
from smallmm import _core
from smallmm._gpu import tuned
from smallmm._tools import tune
from smallmm._tools.candidates import KERNELS, MAX_THREADS, PRODUCTS, candidates

SHARED = 227 << 10
DEVICE = "NVIDIA H100"
PROBLEM = {"op": "INV", "dtype": "f64", "m": 2, "k": 1, "n": 2, "small": 0}
CHOSEN = {"kernel": "inv_lanes", "lanes": 1, "threads": 64, "blocks": 0, "async": 0}


def whole(problem=PROBLEM, **more):
    """With all numbers of a problem."""
    return {**_core.cuda_catalog()["problem"], **problem, **more}


def planned(device=DEVICE, **more):
    plan = _core.cuda_plan({**whole(**more), "device": device}, SHARED)
    return plan["tuned_on"], plan["threads"]


# --- candidates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        {**PROBLEM, "op": "LU", "n": 16, "m": 16},
        {**PROBLEM, "op": "SOLVE_TRIANGULAR", "dtype": "f32", "m": 7, "n": 7, "k": 3},
        {**PROBLEM, "op": "EIGH", "m": 5, "n": 5},
        {**PROBLEM, "dtype": "c128", "m": 9, "n": 9},
    ],
    ids=lambda problem: f"{problem['op']} {problem['dtype']}",
)
def test_candidates_are_all_that_fits(problem):
    """But those most of whose threads would idle, and those that ask for too many threads."""
    expected = []
    for kernel, values in KERNELS.items():
        for chosen in itertools.product(*values.values()):
            row = {"kernel": kernel, **dict(zip(values, chosen, strict=True))}
            idle = problem["op"] != "MATMUL" and row.get("lanes", 1) >= 2 * problem["n"]
            if idle or row.get("blocks", 0) * row["threads"] > MAX_THREADS or kernel in PRODUCTS:
                continue
            if _core.cuda_plan(problem, SHARED, row) is not None:
                expected.append(row)
    assert expected
    assert candidates(problem, SHARED) == expected


@pytest.mark.parametrize(("dtype", "last"), [("f64", 52), ("c128", 48), ("f32", 64)])
def test_candidates_of_large_products(dtype, last):
    for n, tiles in ((last, True), (last + 1, False)):
        found = candidates({**PROBLEM, "op": "MATMUL", "dtype": dtype, "m": n, "k": n, "n": n}, SHARED, 1)
        assert any(row["kernel"] in PRODUCTS for row in found) is tiles
        assert any(row["kernel"] == "matmul_tiled" for row in found) is not tiles


@pytest.mark.parametrize("dtype", ["f64", "c64", "c128"])
@pytest.mark.parametrize(("n", "source"), [(2, 0), (5, 1), (16, 0), (31, 0)])
def test_candidates_of_products_fit(n, source, dtype):
    problem = {"op": "MATMUL", "dtype": dtype, "m": n, "k": n, "n": n, "source_b": source}
    found = [candidates(problem, SHARED, effort) for effort in (1, 2, 3)]
    assert len(found[0]) <= len(found[1]) <= len(found[2])
    for row in found[2]:
        assert row.keys() == {"kernel", *KERNELS[row["kernel"]]}
        assert _core.cuda_plan(problem, SHARED, row) is not None
    effects = [tuple(row.items()) for row in found[2]]
    assert len(set(effects)) == len(effects)


def test_candidates_of_large_products_are_tiled():
    problem = {"op": "MATMUL", "dtype": "f32", "m": 65, "k": 100, "n": 300}
    rows = candidates(problem, SHARED)
    assert {row["kernel"] for row in rows} == {"matmul_tiled"}
    assert {row["levels"] for row in rows} == {0}
    assert len(rows) > 1000
    deep = candidates({**problem, "k": 2000, "n": 3}, SHARED)
    assert {row["levels"] for row in deep} == {*KERNELS["matmul_tiled"]["levels"]}


def test_candidates_of_tensor_cores():
    problem = {"op": "MATMUL", "dtype": "f16", "m": 65, "k": 100, "n": 300, "form": _core.forms["tensor"]}
    assert {row["kernel"] for row in candidates(problem, SHARED)} == {"matmul_tensor"}


def test_rank_by_a_model_of_all():
    problem = {"op": "MATMUL", "dtype": "f32", "m": 65, "k": 100, "n": 300, "arch": 90}
    rows = candidates(problem, SHARED)
    present = _core.cuda_plan(problem, SHARED)
    present = {x: present[x] for x in ("kernel", *KERNELS["matmul_tiled"])}
    predicted = _core.cuda_predict(problem, rows, SHARED)
    ranked = tune.rank(rows, predicted, present)
    times = _core.cuda_predict(problem, ranked, SHARED)
    assert times == sorted(predicted)
    assert times[ranked.index(present)] < 1.1 * times[0]  # some are no plans
    assert tune.rank(rows, [None, *predicted[1:]], rows[7])[0] == rows[7]


def test_rank_begins_with_the_present_choice_and_does_not_depend_on_chance():
    rows = candidates(PROBLEM, SHARED)
    present = rows[3]
    unknown = [None] * len(rows)
    assert _core.cuda_predict(PROBLEM, rows, SHARED) == unknown
    ranked = tune.rank(rows, unknown, present)
    assert ranked[0] == present
    assert ranked == tune.rank(rows, unknown, present)
    assert sorted(map(str, ranked)) == sorted(map(str, rows))
    assert {x["kernel"] for x in ranked[:8]} == {present["kernel"]}


# --- what is saved --------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder for saved rows, which are forgotten after a test."""
    planned()  # which loads the package's rows first
    monkeypatch.setattr(tuned, "_kept", {})
    folder = tmp_path / "cache"
    yield folder
    _core.cuda_tune(tuned.load().rows)


def keep(cache, device=DEVICE, save=True, **more):
    row = {**CHOSEN, **{x: y for x, y in more.items() if x in CHOSEN}}
    problem = whole(**{x: y for x, y in more.items() if x not in CHOSEN})
    return tuned.keep(device, problem, row, 0.5, {**CHOSEN, "ns": 0.6}, cache, save)


def in_a_new_process(cache):
    tuned._kept.clear()
    tuned.use(cache)


class TestSaved:
    def test_here_and_later(self, cache):
        path = keep(cache, threads=128)
        assert planned() == (DEVICE, 128)
        assert path.parent == cache / "tuned" / "nvidia-h100-sm90"
        for x in (cache, cache / "tuned", path.parent, path):
            assert x.stat().st_mode & 0o077 == 0, x
        in_a_new_process(cache)
        assert planned() == (DEVICE, 128)
        (row,) = tuned.load_own(cache).rows
        assert {*tuned.RUN, "version", "texts"} - {"commit"} <= row.keys()
        assert (row["ns"], row["runner_up"]["ns"]) == (0.5, 0.6)
        in_a_new_process(None)
        assert planned() != (DEVICE, 128)

    @pytest.mark.parametrize(
        "other",
        [
            {"device": "NVIDIA H200"},
            {"arch": 100},
            {"small": 1},
            {"order_a": 1},
            {"source_a": _core.source_strided},
            {"m": 3, "n": 3},
            {"dtype": "f32"},
            {"dtype": "f16"},
            {"op": "DET"},
        ],
        ids=str,
    )
    def test_for_that_problem_on_that_device_alone(self, cache, other):
        before = planned(**other)
        keep(cache, threads=256)
        assert planned(**other) == before
        assert planned() == (DEVICE, 256)

    def test_the_last_one_counts(self, cache):
        first, second = keep(cache, threads=128), keep(cache, threads=256)
        assert first == second
        assert planned() == (DEVICE, 256)
        in_a_new_process(cache)
        assert planned() == (DEVICE, 256)
        assert list(first.parent.iterdir()) == [first]

    @pytest.mark.parametrize("save", [False, True])
    def test_of_this_process_alone(self, cache, save):
        """Where nothing is to be saved, or nothing can be."""
        assert keep(None if save else cache, save=save, threads=128) is None
        assert planned() == (DEVICE, 128)
        assert not cache.exists()

    def test_other_shapes_do_not_meet(self, cache):
        paths = {keep(cache), keep(cache, m=3, n=3), keep(cache, small=1), keep(cache, order_a=1)}
        assert len(paths) == 4
        assert len(tuned.load_own(cache).rows) == 4

    @pytest.mark.parametrize(
        "change",
        [("driver", "1.0"), ("texts", "0123456789abcdef")],
        ids=["another driver", "other kernels"],
    )
    def test_what_is_old_is_ignored_and_counted(self, cache, change, recwarn):
        path = keep(cache, threads=128)
        table = json.loads(path.read_text())
        table["runs"][0][change[0]] = change[1]
        path.write_text(json.dumps(table))
        in_a_new_process(cache)
        assert planned() != (DEVICE, 128)
        assert tuned.load_own(cache).skipped == {f"{path.parent.name}/{path.name}": "1 of 1 rows"}
        assert not recwarn.list

    @pytest.mark.parametrize(
        ("damage", "why"),
        [
            (lambda path: path.write_text(path.read_text()[:-9]), "no table"),
            (lambda path: path.write_bytes(b"\xff" * 9), "no table"),
            (lambda path: path.write_text("[" * 60000), "no table"),
            (
                lambda path: path.write_text(path.read_text().replace(": 90,", ": 1e999,")),
                "1e999 is not finite",
            ),
            (lambda path: (path.unlink(), path.mkdir()), "no table"),
            (lambda path: path.write_text(path.read_text() + " " * 70000), "70"),
            (lambda path: path.write_text(path.read_text().replace('"texts"', '"words"')), "texts"),
            (lambda path: path.chmod(0o666), "others may write"),
            (lambda path: path.parent.chmod(0o777), "others may write"),
            (lambda path: path.parent.parent.chmod(0o777), "others may write"),
            (lambda path: path.symlink_to(path.rename(path.with_suffix(".txt"))), "symbolic link"),
            (lambda path: (path.unlink(), os.mkfifo(path, 0o600)), "no table"),
        ],
        ids=[
            "cut",
            "no UTF-8",
            "deep",
            "infinite",
            "directory",
            "long",
            "no texts",
            "file",
            "folder",
            "folders",
            "link",
            "pipe",
        ],
    )
    def test_damaged_and_foreign_files_are_ignored_with_a_warning(self, cache, damage, why):
        path, good = keep(cache, threads=128), keep(cache / "other", threads=128, small=1)
        damage(path)
        with pytest.warns(RuntimeWarning, match=r"ignores the tuned row .*inv-f64-2x1x2\.json.*tune again"):
            in_a_new_process(cache)
        assert planned() != (DEVICE, 128)
        assert why in str(tuned.load_own(cache).skipped)
        assert len(tuned.load_own(cache / "other").rows) == 1, good

    def test_a_folder_that_cannot_be_written(self, cache):
        cache.write_text("no folder")
        with pytest.raises(OSError, match="cache"):
            keep(cache, threads=128)
        assert planned() == (DEVICE, 128)  # this process has it

    def test_readers_and_writers_at_once(self, cache):
        """Some row is there at any time, and whole."""
        path = keep(cache)
        text = path.read_text()
        writers = [
            threading.Thread(target=lambda: [tuned._write(path, text) for _ in range(100)]) for _ in range(3)
        ]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            assert len(tuned.load_own(cache).rows) == 1
        assert list(path.parent.iterdir()) == [path]

    def test_show_config_counts_them(self, cache, monkeypatch):
        keep(cache)
        monkeypatch.setenv("SMALLMM_CACHE_DIR", str(cache))
        assert smallmm.show_config("dicts")["own tuned rows"] == ["1 of NVIDIA H100 (sm_90)"]


# --- the search -----------------------------------------------------------------------------------


def test_on_the_emulated_gpu(emulated, tmp_path):
    """Two processes: the second has what the first saved. No failure of the driver leaves anything behind."""
    for what in ("find", "use"):
        emulated("tune.py", what, tmp_path / "cache", EMULATED_BEST=32)


class Search(tune._Search):
    """Of a call whose kernels take as many nanoseconds as they have threads; some do not work."""

    def __init__(self, wrong=(), failing=()):
        self.problem, self.shared, self.matrices = whole(), SHARED, 10
        self.device, self.arch, self.discarded = DEVICE, 90, 0
        self.present = {**CHOSEN, "threads": 96}
        self.expected = [np.arange(3.0)]
        self.wrong, self.failing, self.tried = wrong, failing, []

    def compile(self, row):
        if row["threads"] in self.failing:
            raise RuntimeError("NVRTC")


@pytest.fixture
def search(cache, monkeypatch):
    def time(row, samples, call):
        """As _core.cuda_time."""
        row = row or made.present
        if row["threads"] in made.failing:
            raise RuntimeError("launch")
        made.tried.append(row)
        return [made.expected[0] + (row["threads"] in made.wrong)], [float(row["threads"])] * samples

    def make(**how):
        nonlocal made
        made = Search(**how)
        return made

    made = None
    monkeypatch.setattr(Search, "call", None, raising=False)
    monkeypatch.setattr(_core, "cuda_time", time)
    monkeypatch.setattr(tune, "cache_directory", lambda: cache)
    return make


class TestSearch:
    def test_the_fastest(self, search, cache):
        found = search().run(1000, 60, True)
        assert (found.kernel, found.parameters["threads"]) == ("inv_lanes", 32)
        assert (found.before_ns, found.after_ns, found.predicted_ns) == (96, 32, None)
        assert found.tried == found.candidates - 1  # the present choice is none of them
        assert found.saved.is_relative_to(cache)
        assert planned() == (DEVICE, 32)
        assert "0.096 us before, 0.032 us now; saved in" in str(found)

    def test_wrong_bits_and_failures_are_discarded(self, search):
        found = search(wrong=(32,), failing=(64,)).run(1000, 60, False)
        assert found.parameters["threads"] == 96
        assert (found.before_ns, found.after_ns, found.saved) == (96, 96, None)
        assert found.discarded > 0
        assert f"{found.discarded} discarded" in str(found)
        assert "as before" in str(found)

    def test_as_many_as_asked_for(self, search):
        assert search().run(1, 60, False).tried == 1
        assert search().run(1000, 0, False).tried == 0

    def test_failure_of_the_present_choice_is_raised(self, search):
        with pytest.raises(RuntimeError, match="launch"):
            search(failing=(96,)).run(3, 60, False)


def test_same_bits():
    x = np.array([np.nan, 0.0, 1.0])
    assert tune.same_bits(x, x.copy())
    assert not tune.same_bits(x, np.array([np.nan, -0.0, 1.0]))
    z = x.astype(np.complex128)
    assert tune.same_bits(z, z.copy())
    assert not tune.same_bits(z, -z)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("magic", 1), ValueError, "function is 'magic'; expected one of backward_error"),
        ((np.sort, 1), ValueError, r"expected one of"),
        (("inv",), TypeError, "no array is on a CUDA device"),
        (("inv", np.eye(3)), TypeError, "no array is on a CUDA device"),
        (("lu_solve", (np.eye(3), 1), 2), TypeError, "no array is on a CUDA device"),
    ],
)
def test_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        smallmm.tune(*arguments)


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ({"top": 0}, ValueError, "top is 0; expected at least 1"),
        ({"top": 2.5}, TypeError, "top is 2.5; expected an integer"),
        ({"seconds": -1}, ValueError, "seconds is -1; expected a number >= 0"),
        ({"seconds": float("nan")}, ValueError, "seconds is nan"),
        ({"seconds": "long"}, ValueError, "seconds is 'long'"),
        ({"save": "no"}, TypeError, "save is 'no'; expected True or False"),
        ({"out": np.eye(3)}, TypeError, "out is given"),
    ],
)
def test_refuses_options(option, error, message):
    with pytest.raises(error, match=message):
        smallmm.tune("inv", np.eye(3), **option)

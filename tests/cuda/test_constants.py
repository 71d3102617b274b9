"""The model of the time of products of any size: its constants, its predictions, and the plan by it."""

import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from smallmm import _core

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.tune import constants as model
from benchmarks.tune import model as commands
from benchmarks.tune import timed

SHARED = 227 << 10
KERNEL = "matmul_tiled"
PROBLEM = {"op": "MATMUL", "dtype": "f32", "m": 512, "k": 512, "n": 512, "arch": 90}
ROW = {"kernel": KERNEL, "rows": 4, "cols": 4, "lanes": 64, "across": 8, "threads": 64, "depth": 32}


@pytest.fixture(scope="module")
def data():
    return timed.load(sorted(Path(model.__file__).parent.glob("*.jsonl")), KERNEL)


def time_of(problem=PROBLEM, row=ROW, constants=None):
    return _core.cuda_predict({**PROBLEM, **problem}, [{**ROW, **row}], SHARED, constants)[0]


def test_choices_are_near_the_best(data):
    assert len(data) > 300
    regrets = timed.regrets(data, [*map(model.predicted, data)])
    assert regrets[:, 0].mean() < 1.11
    assert np.median(regrets[:, 0]) < 1.05
    assert regrets[:, 0].max() < 2.1
    assert regrets[:, 1].mean() < 1.02
    assert (regrets[:, 2] == 1).all()
    assert np.mean(regrets[:, 0] <= 1.15) > 0.74


def test_times_are_near_those_that_were_measured(data):
    ratios = []
    for x in data:
        best = x.ns.argmin()
        ratios.append(model.predicted(x)[best] / x.ns[best])
        assert 0.5 < ratios[-1] < 2.6, str(x)
    assert np.quantile(ratios, 0.02) > 0.6
    assert np.quantile(ratios, 0.97) < 2


def test_plan_is_the_fastest_by_the_model():
    plan = _core.cuda_plan(PROBLEM, SHARED)
    best = time_of({}, plan)
    assert plan["kernel"] == KERNEL
    for change in ({"rows": 8}, {"depth": 8}, {"lanes": 128}, {"across": 4}, {"cols": 8}):
        other = time_of({}, {**plan, **change})
        assert other is None or other >= best


@pytest.mark.parametrize("large", ["m", "k", "n", "mkn"])
@pytest.mark.parametrize("size", [1 << 16, 1 << 28, (1 << 31) - 1])
def test_plan_of_the_largest_sizes(large, size):
    """All above 2^28 count as such. The products of these sizes are beyond the range of an int."""
    assert _core.cuda_plan({**PROBLEM, **dict.fromkeys(large, size)}, SHARED)["kernel"] == KERNEL


def test_planning_takes_less_than_2_ms():
    problems = [{**PROBLEM, "m": 65 + 128 * i, "k": 100 * 3**i, "n": 7 * 2**i} for i in range(8)]
    _core.cuda_plan(PROBLEM, SHARED)
    times = []
    for problem in problems:
        begin = process_time()
        _core.cuda_plan(problem, SHARED)
        times.append(process_time() - begin)
    assert np.median(times) < 2e-3


def test_larger_problems_take_longer_up_to_the_largest():
    """Also beyond 32768, where sizes once ended."""
    for x in "mkn":
        times = [time_of({x: 2**i}) for i in range(9, 29, 2)]
        assert all(a < b for a, b in pairwise(times))
    assert time_of({"load": 6}) > 10 * time_of()
    assert time_of({"source_b": 3}) > time_of()


def test_constants_are_those_of_the_list():
    constants = model.MODELS[KERNEL]
    assert constants.keys() == model.START[KERNEL].keys()
    assert time_of(constants=tuple(constants.values())) == time_of()
    twice = {**constants, "cycle": 2 * constants["cycle"]}
    assert time_of(constants=list(twice.values())) == pytest.approx(2 * time_of())
    text = model.CONSTANTS[KERNEL].read_text()
    assert all(f"({name}, {value:g}, " in text for name, value in constants.items())


def test_unknown_and_bad():
    inverse = {"op": "INV", "dtype": "f64", "m": 2, "k": 1, "n": 2}
    row = {"kernel": "inv_lanes", "lanes": 1, "threads": 64}
    assert _core.cuda_predict(inverse, [row], SHARED) == [None]
    assert time_of({}, {"rows": 3, "lanes": 48}) is None
    assert _core.cuda_predict(PROBLEM, [], SHARED) == []
    with pytest.raises(ValueError, match=f"expected {len(model.MODELS[KERNEL])} constants"):
        time_of(constants=(1.0,))
    with pytest.raises(TypeError, match="not a sequence"):
        time_of(constants=3)
    with pytest.raises(TypeError, match="row 0 is a int"):
        _core.cuda_predict(PROBLEM, [1], SHARED)
    with pytest.raises(ValueError, match="no CUDA kernel 'x'"):
        time_of({}, {"kernel": "x"})


def test_a_fit_finds_the_constants_that_times_are_made_of(data):
    """Near the start, of the times that the model gives with other constants."""
    true = {**model.START[KERNEL], "of_panel": 400.0, "bytes_a_cycle": 2600.0}
    made = [x._replace(ns=model.predicted(x, true)) for x in data[:12:6]]
    found = model.fit(made, KERNEL)
    least, first = (model.loss(made, x) for x in (true, model.START[KERNEL]))
    assert model.loss(made, found) - least < 0.5 * (first - least)


def test_write(tmp_path):
    path = tmp_path / "tiled.def"
    path.write_text(model.CONSTANTS[KERNEL].read_text())
    before = path.read_text()
    model.write(path, model.MODELS[KERNEL])
    assert path.read_text() == before
    model.write(path, {**model.MODELS[KERNEL], "of_read": 0.125})
    assert '(of_read, 0.125, "a read of the shared memory")' in path.read_text()


def one_of(rows, ns, **problem):
    chosen = np.array([not row.get("blocks") for row in rows])
    return timed.Timed({**PROBLEM, **problem}, 1, SHARED, 1.0, rows, np.array(ns), chosen)


def test_regret():
    x = one_of([{"blocks": x} for x in (0, 2, 0)], [3.0, 1.0, 2.0])
    assert timed.regret(x, np.array([5.0, 5.0, 6.0])) == [3, 1, 1]  # one that a plan chooses comes first


def told_apart(seen, x):
    """A model that knows which shapes it was fitted to."""
    return np.array([2.0 if x.problem["m"] in seen else 1.0])


def fitted_to(data):
    return partial(told_apart, {x.problem["m"] for x in data})


def test_held_out_shapes_are_not_fitted_to():
    data = [one_of([ROW], [1.0], m=m, dtype=dtype) for m in range(7) for dtype in ("f32", "f64")]
    assert [*map(float, np.concatenate(timed.held_out(data, fitted_to)))] == [1.0] * len(data)
    assert {*timed.folds(data)} == {*range(timed.FOLDS)}
    assert timed.folds(data)[::2] == timed.folds(data)[1::2]


def test_commands(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["model", "show"])
    commands.main()
    head, *rows, _ = capsys.readouterr().out.splitlines()
    assert head.split() == ["regret", "at", *map(str, timed.TOPS)]
    assert [row.split()[0] for row in rows[-3:]] == ["mean", "median", "most"]
    monkeypatch.setattr(sys, "argv", ["model", "show", "--kernel", "none"])
    with pytest.raises(SystemExit, match="no timings of none"):
        commands.main()

"""What `python -m benchmarks.tune.model collect` draws, times and writes. The GPU is made up."""

import json
import random
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from smallmm import _core
from smallmm._tools.candidates import KERNELS

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.tune import timings

DEVICE = ("NVIDIA H100", 90, 227 << 10)


class Output(np.ndarray):
    def clone(self):
        return self.copy()


def output(values):
    return np.array(values, float).view(Output)


class Stack:
    def __init__(self, problem, batch):
        self.outputs = [output([1, 2])]

    def __call__(self):
        return self.outputs


def future(result=None, error=None):
    x = Future()
    x.set_exception(error) if error else x.set_result(result)
    return x


def test_problems_are_such_as_kernels_take():
    chance = random.Random(0)
    drawn = [timings.draw(chance) for _ in range(300)]
    assert {problem["op"] for problem, _ in drawn} == {*timings.OPS} - {"LARGE"}
    for problem, batch in drawn:
        m, k, n = (problem[x] for x in "mkn")
        assert min(m, k, n, batch) >= 1
        kernel = _core.cuda_plan({**problem, "arch": 90}, DEVICE[2])["kernel"]
        if kernel == "matmul_tiled":
            assert max(m, k, n) > 64
            assert (m * k + k * n + m * n) * batch <= timings.LARGE_ELEMENTS
            assert batch <= 1 << problem["load"] < 2 * batch
            continue
        assert m * n <= 1024
        assert (batch <= 4096) == bool(problem["small"])  # as describe.c counts
        assert timings.traffic(problem, batch) <= 1 << 28


def test_cases_begin_with_what_runs_now():
    cases = timings.cases(random.Random(1), *DEVICE, {"INV": 1, "CHOLESKY": 1})
    for case in (next(cases) for _ in range(5)):
        plan = _core.cuda_plan({**case.problem, "device": DEVICE[0], "arch": 90}, DEVICE[2])
        assert plan.items() >= case.rows[0].items()
        assert 2 <= len(case.rows) <= min(timings.EACH, case.candidates)
        assert len({str(row) for row in case.rows}) == len(case.rows)
        for row in case.rows:
            assert row.keys() == {"kernel", *KERNELS[row["kernel"]]}


def test_large_products_are_drawn_with_likely_kernels():
    case = next(timings.cases(random.Random(2), *DEVICE, {"LARGE": 1}))
    times = [*_core.cuda_predict({**case.problem, "arch": 90}, case.rows, DEVICE[2])]
    assert len(case.rows) == timings.EACH
    assert {row["kernel"] for row in case.rows} == {"matmul_tiled"}
    assert sorted(times)[len(times) // 3] < 2 * times[0]  # the first is the present choice
    assert len({str(row) for row in case.rows}) == len(case.rows)


CASE = timings.Case(
    {"op": "INV", "dtype": "f64", "m": 3, "k": 1, "n": 3, "small": 1},
    10,
    30,
    [{"kernel": "inv_lanes", "lanes": 1, "threads": x, "blocks": 0, "async": 0} for x in (32, 64, 128)],
)


def test_a_line(tmp_path):
    def time(row, samples, stack):
        if row["threads"] == 64:
            raise RuntimeError("launch")
        return stack(), [3.0 * row["threads"], row["threads"], 2.0 * row["threads"]]

    line = timings.time_case(CASE, [(40, 8), (40, 8), (0, 0)], Stack(None, None), time)
    assert (line["batch"], line["bytes"], line["candidates"], line["failed"]) == (10, 1440, 30, 1)
    assert line["times"] == [
        {**CASE.rows[0], "ns": 64.0, "registers": 40, "spills": 8},
        {**CASE.rows[2], "ns": 256.0},
    ]
    path = tmp_path / "timings.jsonl"
    path.write_text("\n".join(map(json.dumps, ({"device": "a"}, line, {"device": "b"}, line, line))))
    assert [(head["device"], x) for head, x in timings.read([path])] == [
        ("a", line),
        ("b", line),
        ("b", line),
    ]


def test_other_bits_and_calls_that_do_not_run_end_it():
    def time(row, samples, stack):
        stack.outputs[0][0] = row["threads"]
        return stack(), [1.0]

    usage = [(1, 0)] * 3
    with pytest.raises(AssertionError, match="other bits"):
        timings.time_case(CASE, usage, Stack(None, None), time)
    with pytest.raises(AssertionError, match="nothing ran"):
        timings.time_case(CASE, usage, Stack(None, None), lambda row, samples, stack: (stack(), [0.0]))


def test_as_long_as_there_is_time(monkeypatch):
    """Others are compiled while one is timed, and those that cannot be are left out."""
    clock, compiling = SimpleNamespace(now=0), []

    def compile_(case):
        compiling.append(case)
        return [future((1, 0)), future(error=RuntimeError("NVRTC")), future((1, 0))]

    def time(row, samples, stack):
        clock.now += 1
        return stack(), [1.0]

    monkeypatch.setattr(timings, "seconds_left", lambda seconds: lambda: seconds - clock.now)
    monkeypatch.setattr(timings.time_case, "__defaults__", (time,))
    drawn = iter([CASE] * 100)
    found = list(timings.lines(drawn, compile_, 10, Stack, 7))
    assert [len(line["times"]) for line in found] == [2] * 5
    assert len(compiling) == 5 + 2
    with pytest.raises(BrokenProcessPool):
        list(timings.lines(drawn, lambda case: [future(error=BrokenProcessPool())] * 3, 99, Stack, 1))

"""The network that predicts times: its gradients, and what it finds for a device that is made up."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from smallmm._tools.candidates import candidates

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.tune import model, network, timed, timings

HEAD = {"device": "made up", "arch": 90, "shared": 227 << 10, "commit": "none", "copy_bytes_per_s": 3e12}
OPS = {"INV": 1, "CHOLESKY": 2, "SOLVE_TRIANGULAR": 1}


def time_on_a_made_up_device(problem, batch, row):
    """The larger of arithmetic and memory, each the larger of latency and throughput."""
    n, threads = problem["n"], row["threads"]
    lanes = row["lanes"]
    steps = n * max(1, n / lanes) + 8 * np.log2(2 * lanes)
    arithmetic = batch * lanes * max(steps / 40, 25 / (threads / 32) ** 0.5) / 60
    memory = batch * n * n * 16 / 3000 * (1 + 0.3 * (row.get("async", 1) == 0))
    return 1200 + max(arithmetic, memory)


def lines(count, seed=0):
    chance = random.Random(seed)
    for _ in range(count):
        problem, batch = timings.draw(chance, OPS)
        problem = {**problem, "arch": 90}
        rows = candidates(problem, HEAD["shared"])
        some = chance.sample(rows, min(16, len(rows)))
        times = [{**row, "ns": time_on_a_made_up_device(problem, batch, row)} for row in some]
        moved = timings.traffic(problem, batch)
        yield HEAD, {"problem": problem, "batch": batch, "bytes": moved, "times": times}


def test_gradients_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((9, 5)), rng.standard_normal(9)
    fitted = network.fit(x, y, (4, 3), epochs=1)
    z = (x - fitted.mean) / fitted.scale

    def error():
        return np.mean((fitted(x) - y) ** 2) / 2

    parts = [part for layer in fitted.layers for part in layer]
    for part, gradient in zip(parts, fitted.gradients(z, y), strict=True):
        assert gradient.shape == part.shape
        at = tuple(size // 2 for size in part.shape)
        before, step = part[at], 1e-6
        part[at] = before + step
        up = error()
        part[at] = before - step
        slope = (up - error()) / (2 * step)
        part[at] = before
        assert gradient[at] == pytest.approx(slope, abs=1e-8)


def test_finds_fast_kernels_of_shapes_that_it_has_not_seen():
    every = [timed.timed(*x) for x in lines(150)]
    held = np.array(timed.folds(every)) == 0
    kept, data = ([x for x, y in zip(every, held, strict=True) if y == part] for part in (False, True))
    model_of = network.fitted(kept, (32, 16), logs=True, epochs=20)
    found = [*map(model_of, data)]
    logs = np.concatenate([np.log2(x.ns / x.copy_ns) for x in data])
    assert timed.error(data, found) < 0.15 * np.var(logs)
    at_1, at_10, _ = np.median(timed.regrets(data, found), axis=0)
    by_chance = np.median(timed.regrets(data, [np.arange(len(x.ns)) for x in data]), axis=0)
    assert 1 <= at_10 <= at_1 < 1.15 < by_chance[0]


def test_the_same_again():
    x, y = np.random.default_rng(1).standard_normal((2, 50, 3))
    first, second = (network.fit(x, y[:, 0], (8,), epochs=2) for _ in range(2))
    np.testing.assert_array_equal(first(x), second(x))


def test_table(monkeypatch):
    monkeypatch.setattr(network, "ISAAC", {(64,): 0.17, (8, 8): 0.1})
    data = [timed.timed(*x) for x in lines(25)]
    head, _, *rows = model.rows_of_table(data, "inv_lanes", epochs=2)
    assert [row.split(" | ")[0] for row in rows] == ["| 64", "| 8-8"]
    assert {row.count("|") for row in rows} == {head.count("|")}
    seen = network.features(data[0]).shape[1]
    fitted = network.fit(np.zeros((1, seen)), np.zeros(1), (8, 8), epochs=0)
    assert network.count_of(seen, (8, 8)) == sum(w.size + b.size for w, b in fitted.layers)


def test_a_kernel_that_does_not_fit():
    problem = {"op": "INV", "dtype": "f64", "m": 2, "k": 1, "n": 2}
    rows = [{"kernel": "inv_lanes", "lanes": 64, "threads": 3, "ns": 1.0}]
    line = {"problem": problem, "batch": 1, "bytes": 64, "times": rows}
    with pytest.raises(ValueError, match="does not fit"):
        network.features(timed.timed(HEAD, line))

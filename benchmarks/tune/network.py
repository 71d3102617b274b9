"""A network that predicts how long a kernel takes: layers of max(0, W x + b), the last one linear, fitted to
timings by Adam (Kingma and Ba 2015). What it sees are logarithms, as in ISAAC (Tillet and Cox, SC 2017).

It says log2 of the time over that of moving the operands once, so that problems of all sizes are alike. Only
the command `table` of model.py fits and asks it, to compare it with the models that the core evaluates. Its
weights are not kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from smallmm import _core

from .timed import Model, Row, Timed

CATALOG = _core.cuda_catalog()
SIZES = ("m", "k", "n")
FLAGS = ("small", "order_a", "order_b", "source_a", "source_b")
GRID = ("matrices", "block", "shared")  # of a block, as cuda_plan gives them
PARAMETERS = tuple(CATALOG["parameters"])
DTYPES = ("f32", "f64")

# Widths of hidden layers: those of ISAAC's Table 2, and its mean square errors with logarithms, in its units.
ISAAC = {
    (64,): 0.17,
    (512,): 0.13,
    (32, 64, 32): 0.088,
    (64, 128, 64): 0.08,
    (32, 64, 128, 64, 32): 0.073,
    (64, 128, 256, 128, 64): 0.067,
    (64, 128, 192, 256, 192, 128, 64): 0.062,
}


def features(x: Timed, logs: bool = True) -> np.ndarray:
    """What the network sees of each kernel."""
    return np.array([_features_of(x, row, logs) for row in x.rows])


def _features_of(x: Timed, row: Row, logs: bool) -> list[float]:
    grid = _core.cuda_plan(x.problem, x.shared, row)
    if grid is None:
        raise ValueError(f"the kernel does not fit: {x.problem} {row}")
    numbers = [x.problem[name] for name in SIZES] + [x.batch, *(row.get(name, 0) for name in PARAMETERS)]
    numbers += [grid[name] for name in GRID]
    seen = [math.log2(1 + number) if logs else float(number) for number in numbers]
    seen += [float(x.problem.get(name, 0)) for name in FLAGS]
    for found, names in (
        (x.problem["dtype"], DTYPES),
        (x.problem["op"], CATALOG["ops"]),
        (row["kernel"], CATALOG["kernels"]),
    ):
        seen += [float(name == found) for name in names]
    return seen


@dataclass
class Network:
    """`mean` and `scale` make what it sees alike in size; `layers` are pairs of W and b."""

    mean: np.ndarray
    scale: np.ndarray
    layers: list[tuple[np.ndarray, np.ndarray]]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self._values((x - self.mean) / self.scale)[-1][:, 0]

    def _values(self, x: np.ndarray) -> list[np.ndarray]:
        """Of each layer."""
        values = [x]
        for i, (w, b) in enumerate(self.layers):
            x = values[-1] @ w + b
            values.append(np.maximum(x, 0) if i < len(self.layers) - 1 else x)
        return values

    def gradients(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """Of half the mean square error, with respect to each W and b."""
        values = self._values(x)
        back = (values[-1] - y[:, None]) / len(x)
        found: list[np.ndarray] = []
        for i in range(len(self.layers) - 1, -1, -1):
            found[:0] = [values[i].T @ back, back.sum(0)]
            back = (back @ self.layers[i][0].T) * (values[i] > 0)
        return found


def fit(x: np.ndarray, y: np.ndarray, widths: Sequence[int], epochs: int = 150, seed: int = 0) -> Network:
    """Adam, 32 candidates at a time, as in ISAAC; its steps become smaller towards the end."""
    batch, rate, decay, square_decay, least = 32, 2e-3, 0.9, 0.999, 1e-8
    rng = np.random.default_rng(seed)
    mean, scale = x.mean(0), x.std(0)
    scale[scale == 0] = 1
    sizes = [x.shape[1], *widths, 1]
    layers = [
        (rng.standard_normal((a, b)) * math.sqrt(2 / a), np.zeros(b)) for a, b in itertools.pairwise(sizes)
    ]
    network = Network(mean, scale, layers)
    x = (x - mean) / scale
    all_of_it = [part for layer in layers for part in layer]
    first, second = ([np.zeros_like(part) for part in all_of_it] for _ in range(2))
    steps, total = 0, epochs * math.ceil(len(x) / batch)
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for begin in range(0, len(x), batch):
            some = order[begin : begin + batch]
            steps += 1
            step = rate * (1 - (steps - 1) / total)
            for part, m, v, g in zip(
                all_of_it, first, second, network.gradients(x[some], y[some]), strict=True
            ):
                m += (1 - decay) * (g - m)
                v += (1 - square_decay) * (g * g - v)
                part -= step * (m / (1 - decay**steps)) / (np.sqrt(v / (1 - square_decay**steps)) + least)
    return network


def count_of(seen: int, widths: Sequence[int]) -> int:
    """Weights of a network that sees so many numbers."""
    return sum((a + 1) * b for a, b in itertools.pairwise([seen, *widths, 1]))


def fitted(data: Sequence[Timed], widths: Sequence[int], logs: bool, epochs: int) -> Model:
    """The model by a network that is fitted to these problems."""
    x = np.concatenate([features(each, logs) for each in data])
    y = np.concatenate([np.log2(each.ns / each.copy_ns) for each in data])
    return partial(times, fit(x, y, widths, epochs), logs=logs)


def times(network: Network, x: Timed, logs: bool) -> np.ndarray:
    """Nanoseconds of each kernel."""
    return x.copy_ns * 2 ** network(features(x, logs))

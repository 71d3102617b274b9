"""A network that predicts how long a kernel takes: layers of max(0, W x + b), the last one linear, fitted to
timings by Adam (Kingma and Ba 2015). What it sees are logarithms, as in ISAAC (Tillet and Cox, SC 2017).

It says log2 of the time over that of moving the operands once, so that problems of all sizes are alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smallmm import _core

CATALOG = _core.cuda_catalog()
SIZES = ("m", "k", "n")
FLAGS = ("small", "order_a", "order_b", "source_a", "source_b")
GRID = ("matrices", "block", "shared")  # of a block, as cuda_plan gives them
PARAMETERS = tuple(CATALOG["parameters"])
DTYPES = ("f32", "f64")
LAUNCH = 1.2e-6  # seconds of an empty kernel
Row = dict[str, Any]

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


def features(problem: Row, batch: int, row: Row, shared: int, logs: bool = True) -> list[float]:
    """What the network sees of a candidate that fits the problem."""
    grid = _core.cuda_plan(problem, shared, row)
    if grid is None:
        raise ValueError(f"the candidate does not fit: {problem} {row}")
    numbers = [problem[x] for x in SIZES] + [batch, *(row.get(x, 0) for x in PARAMETERS)]
    numbers += [grid[x] for x in GRID]
    seen = [math.log2(1 + x) if logs else float(x) for x in numbers]
    seen += [float(problem.get(x, 0)) for x in FLAGS]
    for found, names in (
        (problem["dtype"], DTYPES),
        (problem["op"], CATALOG["ops"]),
        (row["kernel"], CATALOG["kernels"]),
    ):
        seen += [float(name == found) for name in names]
    return seen


def bound(line: Row, head: Row) -> float:
    """Nanoseconds that moving the operands of a line once would take."""
    return 1e9 * (line["bytes"] / head["copy_bytes_per_s"] + LAUNCH)


@dataclass
class Data:
    """Candidates: what the network sees, what it is to say, and of which problem they are."""

    x: np.ndarray
    y: np.ndarray
    problem: np.ndarray
    held_out: np.ndarray  # whether the problem's sizes are for testing


def data(lines: Iterable[tuple[Row, Row]], logs: bool = True) -> Data:
    """Of timings. A fifth of the shapes, the same ones always, are held out."""
    x, y, problem, held = [], [], [], []
    shapes: dict[tuple[Any, ...], bool] = {}
    for number, (head, line) in enumerate(lines):
        whole = {**line["problem"], "arch": head["arch"]}
        shape = tuple(whole[name] for name in ("op", "dtype", *SIZES))
        if shape not in shapes:
            shapes[shape] = _number_of(shape) % 5 == 0
        for row in line["times"]:
            x.append(features(whole, line["batch"], row, head["shared"], logs))
            y.append(math.log2(row["ns"] / bound(line, head)))
            problem.append(number)
            held.append(shapes[shape])
    return Data(np.array(x), np.array(y), np.array(problem), np.array(held))


def _number_of(shape: tuple[Any, ...]) -> int:
    """FNV-1a: unlike Python's hash it is the same in each process."""
    number = 0xCBF29CE484222325
    for byte in repr(shape).encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    return number >> 7


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

    @property
    def weights(self) -> int:
        return sum(w.size + b.size for w, b in self.layers)

    def save(self, path: Path, **about: str) -> None:
        layers = {
            f"{name}{i}": x for i, pair in enumerate(self.layers) for name, x in zip("wb", pair, strict=True)
        }
        single = {
            name: x.astype(np.float32)
            for name, x in {**layers, "mean": self.mean, "scale": self.scale}.items()
        }
        np.savez_compressed(path, **single, **{name: np.array(text) for name, text in about.items()})


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


def regret(
    predicted: np.ndarray, y: np.ndarray, problem: np.ndarray, tops: Sequence[int]
) -> dict[int, float]:
    """How many times as long as the best the best of the top k takes, on the median over problems."""
    found: dict[int, list[float]] = {top: [] for top in tops}
    for number in np.unique(problem):
        its = problem == number
        order = np.argsort(predicted[its], kind="stable")
        for top in tops:
            found[top].append(2 ** (y[its][order[:top]].min() - y[its].min()))
    return {top: float(np.median(values)) for top, values in found.items()}

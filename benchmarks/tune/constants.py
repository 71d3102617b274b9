"""The constants of models of kernels' times: how well they choose, and fitting them to timings.

A model is C (`SMM_CUDA_MODEL` of csrc/cuda/kernels.def), evaluated by `_core.cuda_predict`. Its constants
are in a file of their own, which `fit --write` changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from smallmm import _core

from ..records import ROOT
from .timed import Model, Timed

MODELS: dict[str, dict[str, float]] = _core.cuda_catalog()["models"]
CONSTANTS = {"matmul_tiled": ROOT / "csrc/cuda/matmul/tiled.def"}
# Where a fit begins: estimates from the instructions of the kernels, of before anything was timed.
START = {
    "matmul_tiled": {
        "cycle": 0.55, "of_read": 2, "of_fetch": 6, "of_gathering": 6, "of_tensor_cores": 1, "of_panel": 40,
        "of_block": 1500, "of_launch": 3000, "bytes_a_cycle": 1800, "latency": 2, "of_hiding": 16,
        "of_spill": 2,
    }
}  # fmt: skip
SHARPNESS = 0.05  # of the chance that a kernel is chosen, by the logarithms of predicted times
OF_TIMES = 0.3  # weight of errors of predicted times, beside what choices cost
OF_START = 0.002  # weight of squared distances from START


def predicted(x: Timed, constants: dict[str, float] | None = None) -> np.ndarray:
    """Nanoseconds of each kernel, by other constants than those in use."""
    values = None if constants is None else tuple(constants.values())
    return np.array(_core.cuda_predict(x.problem, x.rows, x.shared, values), float)


def loss(data: Sequence[Timed], constants: dict[str, float]) -> float:
    """What choices cost: the mean logarithm of time / best, by chances that fall with the predicted time.
    Besides, errors of the predicted times, of the faster kernels above all."""
    total = 0.0
    for x in data:
        few = x._replace(rows=[row for row, y in zip(x.rows, x.chosen, strict=True) if y], ns=x.ns[x.chosen])
        logs, slower = np.log(predicted(few, constants)), np.log(few.ns / x.ns.min())
        chance = np.exp((logs.min() - logs) / SHARPNESS)
        errors = np.clip(np.log(few.ns) - logs, -1.5, 1.5)
        weights = np.exp(-2 * slower)
        total += chance @ slower / chance.sum()
        total += OF_TIMES * (weights @ (np.sqrt(0.01 + errors**2) - 0.1)) / weights.sum()
    return total / len(data)


def fit(data: Sequence[Timed], kernel: str) -> dict[str, float]:
    """The constants of least loss, near START, to three digits."""
    from scipy.optimize import minimize

    start = np.log([*START[kernel].values()])

    def named(logs: np.ndarray) -> dict[str, float]:
        return dict(zip(MODELS[kernel], map(float, np.exp(logs)), strict=True))

    def of(logs: np.ndarray) -> float:
        return loss(data, named(logs)) + OF_START * float(((logs - start) ** 2).sum())

    found = minimize(of, start, method="Powell", options={"maxiter": 8, "xtol": 1e-2, "ftol": 1e-3})
    return {name: float(f"{x:.3g}") for name, x in named(found.x).items()}


def fitted(data: Sequence[Timed], kernel: str) -> Model:
    """The model with constants that are fitted to these problems."""
    return partial(predicted, constants=fit(data, kernel))


def write(path: Path, constants: dict[str, float]) -> None:
    """Into the list of constants, whose meanings stay."""
    text = path.read_text(encoding="utf-8")
    for name, value in constants.items():
        text, count = re.subn(rf"(\({name}, )[^,]+", rf"\g<1>{value:g}", text)
        assert count == 1, name
    path.write_text(text, encoding="utf-8")

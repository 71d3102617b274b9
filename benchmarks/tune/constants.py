"""The constants of models of kernels' times: how well they choose, and fitting them to timings.

A model is C (`SMM_CUDA_MODEL` of csrc/cuda/kernels.def), evaluated by `_core.cuda_predict`. Its constants
are in a file of their own, which `fit --write` changes.

Of a problem's timed kernels, the regret at N is the time of the best of the N that the model ranks first,
divided by that of the fastest. `hold-out` fits once for each problem, without it, and ranks that one.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smallmm import _core

from ..records import ROOT
from .timings import read

MODELS: dict[str, dict[str, float]] = _core.cuda_catalog()["models"]
CONSTANTS = {"matmul_tiled": ROOT / "csrc/cuda/matmul/tiled.def"}
# Where a fit begins: estimates from the instructions of the kernels, fitted to regrets by hand.
START = {
    "matmul_tiled": {
        "cycle": 0.8, "of_read": 0.6, "of_fetch": 6.3, "of_gathering": 9.9, "of_tensor_cores": 1.24,
        "of_panel": 213, "of_block": 1520, "of_launch": 10900, "bytes_a_cycle": 1900, "latency": 0.93,
        "of_dependence": 8.7,
    }
}  # fmt: skip
TOPS = (1, 10, 100)
SHARPNESS = 0.05  # of the chance that a kernel is chosen, by the logarithms of predicted times
OF_TIMES = 0.3  # weight of errors of predicted times, beside what choices cost
OF_START = 0.002  # weight of squared distances from START


class Timed(NamedTuple):
    """A problem, and its kernels that were timed."""

    problem: dict[str, Any]
    shared: int  # bytes of shared memory of a block
    rows: list[dict[str, Any]]
    ns: np.ndarray
    chosen: np.ndarray  # those that a plan may choose: with no request of several blocks

    def __str__(self) -> str:
        p = self.problem
        layout = "".join("NT"[p.get(f"order_{x}", 0)] for x in "ab") if not p.get("source_b") else "of images"
        return f"{p['dtype']} {p['m']} x {p['k']} x {p['n']} {layout}"


def load(paths: Iterable[Path], kernel: str) -> list[Timed]:
    """The problems with some kernels of this name. Rows keep the parameters alone."""
    found = []
    for head, line in read(paths):
        rows = [row for row in line["times"] if row["kernel"] == kernel]
        if len(rows) > 1:
            problem = {**line["problem"], "arch": head["arch"], "load": (line["batch"] - 1).bit_length()}
            ns = np.array([row["ns"] for row in rows])
            chosen = np.array([not row.get("blocks") for row in rows])
            found.append(Timed(problem, head["shared"], rows, ns, chosen))
    return found


def predicted(x: Timed, constants: dict[str, float] | None = None) -> np.ndarray:
    """Nanoseconds of each kernel, by other constants than those in use."""
    values = None if constants is None else tuple(constants.values())
    return np.array(_core.cuda_predict(x.problem, x.rows, x.shared, values), float)


def regret(x: Timed, times: np.ndarray) -> list[float]:
    """At each of TOPS."""
    order = np.lexsort((~x.chosen, times))
    return [x.ns[order[:top]].min() / x.ns.min() for top in TOPS]


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

    found = minimize(of, start, method="Powell", options={"maxiter": 3, "xtol": 1e-2, "ftol": 1e-3})
    return {name: float(f"{x:.3g}") for name, x in named(found.x).items()}


def held_out(data: Sequence[Timed], kernel: str, index: int) -> np.ndarray:
    """Times of one problem's kernels, by constants that are fitted to the others."""
    return predicted(data[index], fit([*data[:index], *data[index + 1 :]], kernel))


def table(data: Sequence[Timed], times: Sequence[np.ndarray]) -> str:
    """Regrets, and errors of the times of kernels that take less than twice the best's."""
    regrets = np.array([regret(x, y) for x, y in zip(data, times, strict=True)])
    lines = [f"{x!s:38}" + "".join(f"{y:8.2f}" for y in its) for x, its in zip(data, regrets, strict=True)]
    for name, of in (("mean", np.mean), ("median", np.median), ("most", np.max)):
        lines.append(f"{name:38}" + "".join(f"{y:8.3f}" for y in of(regrets, axis=0)))
    near = [x.chosen & (x.ns < 2 * x.ns.min()) for x in data]
    errors = [np.log2(x.ns[few] / y[few]) for x, y, few in zip(data, times, near, strict=True)]
    rms = np.sqrt(np.mean(np.concatenate(errors) ** 2))
    return "\n".join(
        [
            f"{'regret at':38}" + "".join(f"{x:8}" for x in TOPS),
            *lines,
            f"log2(time / predicted), rms: {rms:.2f}",
        ]
    )


def write(path: Path, constants: dict[str, float]) -> None:
    """Into the list of constants, whose meanings stay."""
    text = path.read_text(encoding="utf-8")
    for name, value in constants.items():
        text, count = re.subn(rf"(\({name}, )[^,]+", rf"\g<1>{value:g}", text)
        assert count == 1, name
    path.write_text(text, encoding="utf-8")


def add_commands(commands: Any) -> None:
    """To a parser's."""
    for name, run, about in (
        ("show", run_show, "how well the constants in use choose"),
        ("fit", run_fit, "find the constants"),
        ("hold-out", run_hold_out, "how well fitted constants choose for other problems"),
    ):
        one = commands.add_parser(name, help=about)
        one.add_argument("--kernel", default="matmul_tiled", choices=list(MODELS))
        one.add_argument(
            "files", type=Path, nargs="*", help="timings; those of this folder if none are given"
        )
        one.set_defaults(run=run)
        if name == "fit":
            one.add_argument("--write", action="store_true", help="put them into the core's list")


def data_of(options: argparse.Namespace) -> list[Timed]:
    return load(options.files or sorted(Path(__file__).parent.glob("*.jsonl")), options.kernel)


def run_show(options: argparse.Namespace) -> None:
    data = data_of(options)
    print(table(data, [*map(predicted, data)]))


def run_fit(options: argparse.Namespace) -> None:
    data = data_of(options)
    found = fit(data, options.kernel)
    print(table(data, [predicted(x, found) for x in data]), found, sep="\n")
    if options.write:
        write(CONSTANTS[options.kernel], found)


def run_hold_out(options: argparse.Namespace) -> None:
    data = data_of(options)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        times = [*pool.map(partial(held_out, data, options.kernel), range(len(data)))]
    print(table(data, times))

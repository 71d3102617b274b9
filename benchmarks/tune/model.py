"""Models of the times of kernels, by which a plan is made where no tuned row is, and `tune` ranks candidates.

    python -m benchmarks.tune.model collect --out timings.jsonl --seconds 300   # on a GPU; needs PyTorch
    python -m benchmarks.tune.model show [FILE ...]                # regrets by the constants in use
    python -m benchmarks.tune.model fit [--write] [FILE ...]       # constants; needs SciPy
    python -m benchmarks.tune.model hold-out [FILE ...]            # regrets for other shapes; needs SciPy
    python -m benchmarks.tune.model table [FILE ...]               # networks beside the model of the core

`timings.py` says what is collected, `timed.py` how models are judged, `constants.py` and `network.py` what is
fitted. Only the constants are in the package.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from smallmm._tools.progress import tqdm

from . import constants, network
from .timed import TOPS, Timed, error, held_out, load, regrets
from .timings import OPS, collect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("collect", help="time random candidates of random problems on this GPU")
    one.add_argument("--out", type=Path, required=True, help="a file that lines are added to")
    one.add_argument("--seconds", type=float, default=300)
    one.add_argument("--ops", nargs="*", default=list(OPS), choices=list(OPS))
    one.add_argument("--seed", type=int, default=0, help="another one draws other problems")
    one.set_defaults(run=run_collect)
    for name, run, about in (
        ("show", run_show, "how well the constants in use choose"),
        ("fit", run_fit, "find the constants"),
        ("hold-out", run_hold_out, "how well fitted constants choose for other shapes"),
        ("table", run_table, "networks of several sizes beside the model of the core, for other shapes"),
    ):
        one = commands.add_parser(name, help=about)
        one.add_argument(
            "files", type=Path, nargs="*", help="timings; those of this folder if none are given"
        )
        one.add_argument("--kernel", default="matmul_tiled", help="whose timings are taken")
        one.set_defaults(run=run)
        if name == "fit":
            one.add_argument("--write", action="store_true", help="put them into the core's list")
        if name == "table":
            one.add_argument("--epochs", type=int, default=50)
    options = parser.parse_args()
    options.run(options)


def run_collect(options: argparse.Namespace) -> None:
    ops = {op: OPS[op] for op in options.ops}
    problems, kernels = collect(options.out, options.seconds, ops, options.seed)
    print(f"{kernels} kernels of {problems} problems, added to {options.out}")


def data_of(options: argparse.Namespace) -> list[Timed]:
    data = load(options.files or sorted(Path(__file__).parent.glob("*.jsonl")), options.kernel)
    if not data:
        raise SystemExit(f"no timings of {options.kernel}")
    return data


def listing(data: Sequence[Timed], times: Sequence[np.ndarray]) -> str:
    """Regrets for each problem."""
    each = regrets(data, times)
    lines = [f"{'regret at':38}" + "".join(f"{x:8}" for x in TOPS)]
    lines += [f"{x!s:38}" + "".join(f"{y:8.2f}" for y in its) for x, its in zip(data, each, strict=True)]
    for name, of in (("mean", np.mean), ("median", np.median), ("most", np.max)):
        lines.append(f"{name:38}" + "".join(f"{y:8.3f}" for y in of(each, axis=0)))
    return "\n".join([*lines, f"mean square of log2(predicted / time): {error(data, times):.3f}"])


def run_show(options: argparse.Namespace) -> None:
    data = data_of(options)
    print(listing(data, [*map(constants.predicted, data)]))


def run_fit(options: argparse.Namespace) -> None:
    data = data_of(options)
    found = constants.fit(data, options.kernel)
    print(listing(data, [constants.predicted(x, found) for x in data]), found, sep="\n")
    if options.write:
        constants.write(constants.CONSTANTS[options.kernel], found)


def run_hold_out(options: argparse.Namespace) -> None:
    data = data_of(options)
    print(listing(data, held_out(data, partial(constants.fitted, kernel=options.kernel))))


def rows_of_table(data: Sequence[Timed], kernel: str, epochs: int) -> Iterator[str]:
    """A line for each model: errors and mean regrets for shapes that it was not fitted to."""
    heads = ["model", "weights", "error", "without logarithms", "ISAAC's", *(f"regret at {x}" for x in TOPS)]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"

    def line(name: str, weights: int, times: Sequence[np.ndarray], plain: str, theirs: str) -> str:
        means = regrets(data, times).mean(axis=0)
        cells = [name, str(weights), f"{error(data, times):.3f}", plain, theirs, *(f"{x:.3f}" for x in means)]
        return f"| {' | '.join(cells)} |"

    if kernel in constants.MODELS:
        times = held_out(data, partial(constants.fitted, kernel=kernel))
        yield line("formula", len(constants.MODELS[kernel]), times, "", "")
    for widths, theirs in tqdm(network.ISAAC.items(), desc="networks", leave=False, disable=None):
        plain, times = (
            held_out(data, partial(network.fitted, widths=widths, logs=logs, epochs=epochs))
            for logs in (False, True)
        )
        name = "-".join(map(str, widths))
        weights = network.count_of(network.features(data[0]).shape[1], widths)
        yield line(name, weights, times, f"{error(data, plain):.3f}", f"{theirs:g}")


def run_table(options: argparse.Namespace) -> None:
    for line in rows_of_table(data_of(options), options.kernel, options.epochs):
        print(line, flush=True)


if __name__ == "__main__":
    main()

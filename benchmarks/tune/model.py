"""A model of the times of kernels, by which a plan is made where no tuned row is.

    python -m benchmarks.tune.model collect --out timings.jsonl --seconds 300   # on a GPU; needs PyTorch
    python -m benchmarks.tune.model table timings.jsonl                         # anywhere: errors and regrets
    python -m benchmarks.tune.model train timings.jsonl --out weights.npz
    python -m benchmarks.tune.model show                                        # regrets at present
    python -m benchmarks.tune.model fit [--write] [FILE ...]                    # needs SciPy; 20 seconds
    python -m benchmarks.tune.model hold-out                                    # regrets for other problems

`timings.py` says what is collected, `constants.py` what is fitted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from smallmm._progress import tqdm

from . import constants, network
from .timings import OPS, collect, read

TOPS = (1, 10, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("collect", help="time random candidates of random problems on this GPU")
    one.add_argument("--out", type=Path, required=True, help="a file that lines are added to")
    one.add_argument("--seconds", type=float, default=300)
    one.add_argument("--ops", nargs="*", default=list(OPS), choices=list(OPS))
    one.add_argument("--seed", type=int, default=0, help="another one draws other problems")
    one.set_defaults(run=run_collect)
    table = commands.add_parser("table", help="networks beside each other, on shapes that they have not seen")
    train = commands.add_parser("train", help="fit a network to all timings, and write its weights")
    for each in (table, train):
        each.add_argument("timings", type=Path, nargs="+")
        each.add_argument("--epochs", type=int, default=150)
    table.set_defaults(run=run_table)
    train.add_argument("--widths", type=int, nargs="+", default=[32, 64, 32], help="of the hidden layers")
    train.add_argument("--out", type=Path, required=True, help="weights, as .npz")
    train.set_defaults(run=run_train)
    constants.add_commands(commands)
    options = parser.parse_args()
    options.run(options)


def run_collect(options: argparse.Namespace) -> None:
    ops = {op: OPS[op] for op in options.ops}
    problems, kernels = collect(options.out, options.seconds, ops, options.seed)
    print(f"{kernels} kernels of {problems} problems, added to {options.out}")


def rows_of_table(timings: list[Path], epochs: int) -> Iterator[str]:
    """A line for each network: errors on held-out shapes with and without logarithms, and regrets with."""
    lines = list(read(timings))
    seen, plain = network.data(lines), network.data(lines, logs=False)
    kept, held = ~seen.held_out, seen.held_out
    yield f"{kept.sum()} candidates to learn from, {held.sum()} of other shapes to test\n"
    heads = [
        "widths",
        "weights",
        "error",
        "without logarithms",
        "ISAAC's",
        *(f"regret at {top}" for top in TOPS),
    ]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for widths, theirs in tqdm(network.ISAAC.items(), desc="networks", leave=False, disable=None):
        errors = []
        for x in (plain.x, seen.x):
            fitted = network.fit(x[kept], seen.y[kept], widths, epochs)
            predicted = fitted(x[held])
            errors.append(float(np.mean((predicted - seen.y[held]) ** 2)))
        regrets = network.regret(predicted, seen.y[held], seen.problem[held], TOPS)
        name = "-".join(map(str, widths))
        cells = [name, fitted.weights, f"{errors[1]:.3f}", f"{errors[0]:.3f}", theirs]
        cells += [f"{regrets[top]:.3f}" for top in TOPS]
        yield f"| {' | '.join(map(str, cells))} |"


def run_table(options: argparse.Namespace) -> None:
    for line in rows_of_table(options.timings, options.epochs):
        print(line, flush=True)


def run_train(options: argparse.Namespace) -> None:
    lines = list(read(options.timings))
    seen = network.data(lines)
    fitted = network.fit(seen.x, seen.y, options.widths, options.epochs)
    devices = sorted({head["device"] for head, _ in lines})
    commits = sorted({head["commit"] for head, _ in lines})
    kernels = sorted({row["kernel"] for _, line in lines for row in line["times"]})
    about = {"devices": devices, "commits": commits, "kernels": kernels}
    fitted.save(options.out, **{name: " ".join(words) if name != "devices" else "; ".join(words)
                                for name, words in about.items()})  # fmt: skip
    error = float(np.mean((fitted(seen.x) - seen.y) ** 2))
    print(f"{len(seen.y)} candidates, error {error:.3f} on them; {fitted.weights} weights in {options.out}")


if __name__ == "__main__":
    main()

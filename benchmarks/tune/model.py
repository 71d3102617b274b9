"""A model of the times of kernels, by which a plan is made where no tuned row is.

    python -m benchmarks.tune.model collect --out timings.jsonl --seconds 300   # on a GPU; needs PyTorch

`timings.py` says what is collected.
"""

from __future__ import annotations

import argparse
from pathlib import Path

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
    options = parser.parse_args()
    options.run(options)


def run_collect(options: argparse.Namespace) -> None:
    ops = {op: OPS[op] for op in options.ops}
    problems, kernels = collect(options.out, options.seconds, ops, options.seed)
    print(f"{kernels} kernels of {problems} problems, added to {options.out}")


if __name__ == "__main__":
    main()

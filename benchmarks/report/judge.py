"""Judges the rows that are there, and measures nothing: every figure beside what is asked of it.

python -m benchmarks.report.judge
python -m benchmarks.report.judge --where host --suite linalg --topic square
"""

from __future__ import annotations

import argparse

from ..records import Row
from . import verdicts_device, verdicts_linalg, verdicts_matmul
from .results import Results
from .verdict import Judge

JUDGES: dict[tuple[str, str], dict[str, Judge]] = {
    ("host", "matmul"): verdicts_matmul.JUDGES,
    ("host", "linalg"): verdicts_linalg.JUDGES,
    ("device", "matmul"): verdicts_device.JUDGES,
    ("device", "linalg"): verdicts_device.JUDGES,
    ("device", "shapes"): verdicts_device.JUDGES,
    ("device", "banded"): verdicts_device.JUDGES,
}


def report(rows: list[Row], topic: str, judge: Judge) -> None:
    judged = list(judge(rows))
    for verdict in judged:
        print(verdict)
    missed = sum(verdict.met is False for verdict in judged)
    print(f"{topic}: {sum(v.met is True for v in judged)} met, {missed} missed\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--where", choices=("host", "device"))
    parser.add_argument("--suite", choices=("matmul", "linalg", "shapes", "banded"))
    parser.add_argument("--topic")
    options = parser.parse_args()
    results = Results()
    for (where, suite), judges in JUDGES.items():
        if options.where in (None, where) and options.suite in (None, suite):
            for machine in results.machines(where, suite).values():
                print(f"== {suite}, {machine.name}")
                for topic, judge in judges.items():
                    if options.topic in (None, topic) and machine.topics[topic]:
                        report(machine.topics[topic], topic, judge)


if __name__ == "__main__":
    main()

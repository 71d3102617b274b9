"""Judges the rows that are there, and measures nothing: every figure beside what is asked of it.

python -m benchmarks.report.judge
python -m benchmarks.report.judge --where host --suite linalg --topic square
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from . import verdicts_device, verdicts_linalg, verdicts_matmul
from .results import Results
from .verdict import Judge, Verdict

JUDGES: dict[tuple[str, str], dict[str, Judge]] = {
    ("host", "matmul"): verdicts_matmul.JUDGES,
    ("host", "linalg"): verdicts_linalg.JUDGES,
    ("device", "matmul"): verdicts_device.JUDGES,
    ("device", "linalg"): verdicts_device.JUDGES,
    ("device", "shapes"): verdicts_device.JUDGES,
    ("device", "banded"): verdicts_device.JUDGES,
}


def judged(results: Results, where: str, suite: str) -> Iterator[tuple[str, dict[str, list[Verdict]]]]:
    """The machines of a suite, and the verdicts on each topic that they have rows of."""
    for machine in results.machines(where, suite).values():
        topics = {topic: judge for topic, judge in JUDGES[where, suite].items() if machine.topics[topic]}
        yield machine.name, {topic: list(judge(machine.topics[topic])) for topic, judge in topics.items()}


def counts(verdicts: list[Verdict]) -> tuple[int, int]:
    """How many are met, and how many missed."""
    return sum(v.met is True for v in verdicts), sum(v.met is False for v in verdicts)


def report(topic: str, verdicts: list[Verdict]) -> None:
    print(*verdicts, "{}: {} met, {} missed\n".format(topic, *counts(verdicts)), sep="\n")


def totals(results: Results) -> str:
    """The section of a page: how many targets are met, by suite, machine and topic."""
    lines = [["suite and machine", "targets met, by topic"], ["---", "---"]]
    for where, suite in JUDGES:
        for machine, topics in judged(results, where, suite):
            found = {topic: counts(verdicts) for topic, verdicts in topics.items()}
            words = [
                f"{topic.replace('_', ' ')} {met} of {met + missed}"
                for topic, (met, missed) in found.items()
                if met + missed
            ]
            if words:
                lines.append([f"{suite}, {machine}", ", ".join(words)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--where", choices=("host", "device"))
    parser.add_argument("--suite", choices=("matmul", "linalg", "shapes", "banded"))
    parser.add_argument("--topic")
    options = parser.parse_args()
    results = Results()
    for where, suite in JUDGES:
        if options.where in (None, where) and options.suite in (None, suite):
            for machine, topics in judged(results, where, suite):
                print(f"== {suite}, {machine}")
                for topic, verdicts in topics.items():
                    if options.topic in (None, topic):
                        report(topic, verdicts)


if __name__ == "__main__":
    main()

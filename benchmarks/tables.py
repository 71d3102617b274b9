"""Writes the tables of the README, and a plot, from the rows in benchmarks/results.

    python benchmarks/tables.py            rewrite README.md and draw results/matmul-<machine>.svg
    python benchmarks/tables.py --check    exit 1 if README.md is not what the rows say

Text between `<!-- begin: NAME -->` and `<!-- end: NAME -->` is replaced by section NAME of SECTIONS.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import harness
import verdicts
from verdicts import NUMPY, OURS, Row

COLUMNS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
REGIMES = {"in-cache": "batch of about 1 MB, in cache", "out-of-cache": "batch of 1 GB, out of cache"}


class Machine:
    """One machine's rows by topic."""

    def __init__(self, about: dict[str, object]):
        self.about = about
        self.topics: dict[str, list[Row]] = defaultdict(list)

    @property
    def date(self) -> str:
        return max(r["date"] for rows in self.topics.values() for r in rows)

    def cases(self, topic: str, dtype: str) -> dict[int, dict[str, Row]]:
        """The rows of one thread by n and contender."""
        found: dict[int, dict[str, Row]] = defaultdict(dict)
        for r in self.topics[topic]:
            if r["dtype"] == dtype and r["threads"] == 1 and r["op"] in ("matmul", "2r1w-nt"):
                found[r["n"]][r["op"] if r["contender"] == "roofline" else r["contender"]] = r
        return found


def machines(folder: Path) -> list[Machine]:
    """Every machine with rows, the latest first."""
    found: dict[str, Machine] = {}
    for path in sorted(folder.glob("matmul-*.jsonl")):
        about, rows = harness.read_rows(path)
        machine = found.setdefault(about["slug"], Machine(about))
        machine.topics[path.stem.rpartition("-")[2]] += rows
    return sorted(found.values(), key=lambda m: m.date, reverse=True)


def number(ns: float) -> str:
    return f"{ns:.2f}" if ns < 10 else f"{ns:.1f}" if ns < 100 else f"{ns:.0f}"


def markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def table(machine: Machine, topic: str, dtype: str) -> str:
    """ns per matrix by contender and n; the fastest of a column in bold; ratio to np.matmul below."""
    cases = machine.cases(topic, dtype)
    orders = [n for n in COLUMNS if n in cases]
    names = list(dict.fromkeys(name for n in orders for name in cases[n] if name != "2r1w-nt"))
    lines = []
    for name in sorted(names, key=lambda name: name == OURS):
        cells = []
        for n in orders:
            ns = {c: r["ns_per_matrix"] for c, r in cases[n].items() if r["op"] == "matmul"}
            text = number(ns[name]) if name in ns else ""
            cells.append(f"**{text}**" if text and ns[name] == min(ns.values()) else text)
        lines.append([f"`{name}`" if name != OURS else "**smallmm**", *cells])
    pairs = [(cases[n].get(NUMPY), cases[n].get(OURS)) for n in orders]
    ratios = [f"{a['ns_per_matrix'] / b['ns_per_matrix']:.2g}x" if a and b else "" for a, b in pairs]
    lines.append(["times faster than `np.matmul`", *ratios])
    bounds = [(cases[n].get("2r1w-nt"), cases[n].get(OURS)) for n in orders]
    if any(a and b for a, b in bounds):
        shares = [f"{b['gbytes'] / a['gbytes']:.0%}" if a and b else "" for a, b in bounds]
        lines.append(["share of memory bandwidth", *shares])
    return markdown([f"{dtype}, ns per matrix, n =", *map(str, orders)], lines)


def caption(machine: Machine, topic: str) -> str:
    rows = machine.topics[topic]
    numpy = next((r["version"] for r in rows if r["contender"] == NUMPY), "none")
    about = machine.about
    return (
        f"{about['cpu']}, one thread, {REGIMES[rows[0]['regime']]}, square matrices, `out=` preallocated; "
        f"NumPy {numpy}; commit {rows[0]['commit']}, {rows[0]['date']}."
    )


def losses(machine: Machine) -> str:
    """Where a peer is faster, in words."""
    lost: dict[str, list[str]] = defaultdict(list)
    for topic, where in (("square", "in cache"), ("memory", "out of cache")):
        for dtype in harness.DTYPES:
            for n, case in sorted(machine.cases(topic, dtype).items()):
                for name, r in case.items():
                    if r["op"] == "matmul" and name != OURS and OURS in case:
                        ratio = r["ns_per_matrix"] / case[OURS]["ns_per_matrix"]
                        if ratio < 1:
                            lost[f"{name} {where} {dtype}"].append(f"{n} ({ratio:.2f})")
    lines = [f"{name}, n = {', '.join(at)}" for name, at in lost.items()]
    text = f"Where another is faster (its time / ours): {'; '.join(lines) or 'nowhere measured'}."
    rect = list(verdicts.rect(machine.topics["rect"]))
    if rect:
        text += f" Random rectangular shapes slower than `np.matmul`: {rect[0].figure}."
    return text


def main_section(found: list[Machine]) -> str:
    machine = found[0]
    return "\n\n".join([table(machine, "square", "f64"), caption(machine, "square"), losses(machine)])


def details_section(found: list[Machine]) -> str:
    parts = []
    for machine in found:
        parts.append(f"![ns per matrix against n](benchmarks/results/{plot_name(machine)})")
        for topic in ("square", "memory"):
            if machine.topics[topic]:
                parts += [caption(machine, topic), *(table(machine, topic, d) for d in ("f64", "f32"))]
        judged = list(verdicts.threads(machine.topics["threads"]))
        if judged:
            lines = [[v.text, v.figure] for v in judged]
            parts.append(markdown(["threads", "figure"], lines))
    return "\n\n".join(parts)


SECTIONS: dict[str, Callable[[list[Machine]], str]] = {
    "matmul": main_section,
    "matmul-details": details_section,
}


def rendered(readme: str, found: list[Machine]) -> str:
    """The README with every section it marks replaced."""
    marked = set(re.findall(r"<!-- begin: (\S+) -->", readme))
    if "matmul" not in marked or not marked <= SECTIONS.keys():
        raise SystemExit(f"README sections: found {sorted(marked)}, know {sorted(SECTIONS)}, need matmul")
    for name in marked:
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if readme.count(end) != 1:
            raise SystemExit(f"README: {end} must occur once")
        before, _, rest = readme.partition(begin)
        after = rest.partition(end)[2]
        readme = f"{before}{begin}\n{SECTIONS[name](found)}\n{end}{after}"
    return readme


def plot_name(machine: Machine) -> str:
    return f"matmul-{machine.about['slug']}.svg"


def plot(machine: Machine, folder: Path) -> None:
    """ns per matrix against n, in cache, ours beside the peers."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "smallmm"}
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    for axis, dtype in zip(axes, ("f64", "f32"), strict=True):
        lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for n, case in sorted(machine.cases("square", dtype).items()):
            for name, r in case.items():
                lines[name].append((n, r["ns_per_matrix"]))
        for name in sorted(lines, key=lambda name: name == OURS):
            ours = {"color": "black", "linewidth": 2.2} if name == OURS else {"linewidth": 1.2}
            axis.plot(*zip(*lines[name], strict=True), marker=".", label=name, **ours)
        axis.set(xscale="log", yscale="log", xlabel="n", title=dtype)
        axis.set_xticks([1, 2, 3, 4, 6, 8, 12, 16, 24, 32], minor=False)
        axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ns per matrix")
    axes[0].legend()
    figure.suptitle(f"matmul, one thread, in cache: {machine.about['cpu']}", fontsize=10)
    figure.savefig(folder / plot_name(machine), metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if the README is not up to date"
    )
    parser.add_argument("--readme", type=Path, default=harness.ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=harness.RESULTS)
    options = parser.parse_args()
    found = machines(options.results)
    if not found or not found[0].topics["square"]:
        raise SystemExit(
            "no rows of topic square for the latest machine: run benchmarks/bench_matmul.py first"
        )
    old = options.readme.read_text(encoding="utf-8")
    new = rendered(old, found)
    if options.check:
        if new != old:
            sys.exit(f"{options.readme.name} is not what the rows say: run benchmarks/tables.py")
        return
    options.readme.write_text(new, encoding="utf-8")
    try:
        for machine in found:
            plot(machine, options.results)
    except ImportError:
        print("matplotlib is not installed: no plot drawn")


if __name__ == "__main__":
    main()

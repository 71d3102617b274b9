"""The plots of README and docs, drawn by tables.py from the rows in benchmarks/results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from verdicts import OURS, Row, ns

mpl.use("svg")
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "smallmm"}

from matplotlib import pyplot as plt  # noqa: E402

Cases = dict[int, dict[str, Row]]  # rows by n and contender
ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

# The beginning of a contender's name -> its library; the libraries' colours, ours black
LIBRARIES = {
    OURS: "smallmm",
    "np": "NumPy",
    "NumPy": "NumPy",
    "SciPy": "SciPy",
    "torch": "PyTorch",
    "PyTorch": "PyTorch",
    "MKL compact": "MKL compact",
    "MKL": "MKL",
    "LAPACKE": "MKL",
    "LIBXSMM": "LIBXSMM",
    "cuBLAS": "cuBLAS",
    "cuSOLVER": "cuSOLVER",
    "cupy": "CuPy",
    "jax": "JAX",
}
COLOURS = {
    name: "black" if name == OURS else f"C{i - 1}" for i, name in enumerate(dict.fromkeys(LIBRARIES.values()))
}
# PyTorch and CuPy call cuBLAS for products: their lines should show through one another.
STYLES = {
    OURS: {"linewidth": 2.2, "zorder": 3},
    "cuBLAS": {"linewidth": 5, "alpha": 0.4},
    "CuPy": {"linestyle": ":", "zorder": 2.5},
}


def library(contender: str) -> str:
    return next(name for prefix, name in LIBRARIES.items() if contender.startswith(prefix))


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def over_orders(axis: Any) -> None:
    """Both axes logarithmic, orders along the first."""
    axis.set(xscale="log", yscale="log")
    axis.set_xticks(ORDERS, minor=False)
    axis.set_xticks([], minor=True)
    axis.xaxis.set_major_formatter("{x:.0f}")
    axis.grid(alpha=0.3)


def draw_cases(axis: Any, cases: Cases) -> None:
    """ns per matrix against n, a line for each contender, ours in black; red rings: another is faster."""
    lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
    lost = []
    for n, case in sorted(cases.items()):
        for name, r in case.items():
            lines[name].append((n, ns(r)))
        if OURS in case and any(ns(r) < ns(case[OURS]) and not r.get("less") for r in case.values()):
            lost.append((n, ns(case[OURS])))
    for name, line in lines.items():
        label = library(name)
        style = {"marker": ".", "linewidth": 1.2, "color": COLOURS[label], **STYLES.get(label, {})}
        axis.plot(*zip(*line, strict=True), label=label, **style)
    if lost:
        ring = {"facecolors": "none", "edgecolors": "red", "linewidths": 1.5, "zorder": 5}
        axis.scatter(*zip(*lost, strict=True), s=70, label="another is faster", **ring)
    over_orders(axis)


def legend(figure: Any, axes: Iterable[Any]) -> None:
    """One legend for all panels, ours first."""
    handles = {
        label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    names = sorted(handles, key=lambda name: (name != OURS, [*COLOURS, name].index(name)))
    figure.legend(
        [handles[name] for name in names], names, loc="outside lower center", ncols=min(9, len(names))
    )


def draw_headline(path: Path, panels: dict[str, dict[str, Cases]]) -> None:
    """ns per matrix against n: a row of panels for each operation, a column for each machine."""
    rows, columns = len(panels), len(next(iter(panels.values())))
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, layout="constrained", figsize=(5.5 * columns, 3.8 * rows + 0.6)
    )
    for line, (title, by_machine) in zip(axes, panels.items(), strict=True):
        for axis, (machine, cases) in zip(line, by_machine.items(), strict=True):
            draw_cases(axis, cases)
            axis.set_title(f"{title}: {machine}", fontsize=10)
            axis.set_ylabel("ns per matrix")
    for axis in axes[-1]:
        axis.set_xlabel("n")
    legend(figure, axes.flat)
    save(figure, path)


def draw_suite(path: Path, panels: dict[str, Cases], title: str) -> None:
    """ns per matrix against n, a panel for each operation or dtype."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, sharey=True, layout="constrained", figsize=(5.5 * columns, 4.5 * rows)
    )
    for axis, (name, cases) in zip(axes.flat, panels.items(), strict=True):
        draw_cases(axis, cases)
        axis.set_title(name)
    for axis in axes[-1]:
        axis.set_xlabel("n")
    for axis in axes[:, 0]:
        axis.set_ylabel("ns per matrix")
    legend(figure, axes.flat)
    figure.suptitle(title, fontsize=10)
    save(figure, path)


def draw_roofline(path: Path, panels: dict[str, dict[str, Any]], title: str) -> None:
    """GFLOP/s against flops per byte, a panel for each dtype: `roofs`, name -> (GFLOP/s, GB/s); `points`,
    name -> rows."""
    figure, axes = plt.subplots(1, len(panels), sharey=True, layout="constrained", figsize=(11, 4.6))
    for axis, (dtype, panel) in zip(axes, panels.items(), strict=True):
        rows = [r for points in panel["points"].values() for r in points]
        intensity = [r["gflops"] / r["gbytes"] for r in rows]
        xs = [min(intensity) / 1.3, max(intensity) * 1.3]
        for (name, (gflops, gbytes)), style in zip(panel["roofs"].items(), ("-", "--"), strict=True):
            corner = gflops / gbytes
            line = sorted({xs[0], min(max(corner, xs[0]), xs[1]), xs[1]})
            axis.plot(line, [min(gflops, gbytes * x) for x in line], style, color="grey", label=name)
        for name, points in panel["points"].items():
            xy = [(r["gflops"] / r["gbytes"], r["gflops"]) for r in points]
            colour = {"color": "black" if name.startswith(OURS) else COLOURS[library(name)]}
            marker = "o" if "out of cache" in name else "^"
            axis.plot(*zip(*xy, strict=True), marker, label=name, **colour)
        axis.set(xscale="log", yscale="log", title=dtype, xlabel="flops per byte")
        axis.set_xticks([x for x in (0.125, 0.25, 0.5, 1, 2, 4, 8) if xs[0] <= x <= xs[1]], minor=False)
        axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("GFLOP/s")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(title, fontsize=10)
    save(figure, path)


def draw_accuracy(path: Path, rows: list[Row], title: str) -> None:
    """The largest error in units of u against n, a panel for each operation: colours for kinds of matrices,
    ours solid, LAPACK's dotted, what is promised grey."""
    ops, kinds = (list(dict.fromkeys(r[field] for r in rows)) for field in ("op", "kind"))
    figure, axes = plt.subplots(
        2, -(-len(ops) // 2), sharex=True, sharey=True, layout="constrained", figsize=(13, 6.5)
    )
    for axis, op in zip(axes.flat, ops, strict=False):
        of_op = [r for r in rows if r["op"] == op]
        for i, kind in enumerate(kinds):
            of_kind = [r for r in of_op if r["kind"] == kind]
            for field, style, label in (("error", "-", kind), ("lapack", ":", None)):
                points = [(r["n"], r[field]) for r in of_kind if r[field]]
                if points:
                    axis.plot(*zip(*points, strict=True), style, color=f"C{i}", label=label, linewidth=1.5)
        axis.plot([], [], ":", color="black", label="LAPACK, BLAS")
        bounds = sorted({(r["n"], r["bound"]) for r in of_op})
        axis.plot(*zip(*bounds, strict=True), color="grey", linewidth=3, alpha=0.5, label="promised")
        over_orders(axis)
        axis.set_ylim(0.1, 3e3)
        axis.set_title(op, fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("n")
    for axis in axes[:, 0]:
        axis.set_ylabel("largest error, in units of u")
    for axis in axes.flat[len(ops) :]:
        axis.set_axis_off()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=8)
    figure.suptitle(title, fontsize=10)
    save(figure, path)

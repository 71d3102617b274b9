"""The figures of README and docs, drawn by tables.py from the rows in benchmarks/results."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl

from smallmm._tools.bench import OURS
from smallmm._tools.operations import DTYPES, OPERATIONS
from smallmm._tools.plots import colour, draw_times, legend, logarithmic, over_orders, ranked, style

from . import headline
from .host import roofline_panels
from .results import EVERY_ORDER, NUMPY, Cases, Results, Row, best_other, ns, ratio

mpl.use("svg")
# Text stays text. Sizes are those of a figure as wide as a page, or as a phone that lies on its side.
mpl.rcParams |= {
    **{"svg.fonttype": "none", "svg.hashsalt": "smallmm", "font.size": 11, "axes.titlesize": 11},
    **{"xtick.bottom": False, "ytick.left": False, "xtick.minor.bottom": False, "ytick.minor.left": False},
}

from matplotlib import pyplot as plt  # noqa: E402

WIDTH = 8.0  # inches
NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
BEST = "than the best other:"
COORDINATES = {"d", "x", "y", "width", "height", "transform"}
ON_DEVICE = ("lu_factor", "cholesky", "inv", "solve", "qr_raw", "lstsq")  # of which a figure shows shares


def shorter(svg: str) -> str:
    """The same picture in fewer bytes: coordinates to a tenth of a point, styles that recur as classes, no
    groups that group nothing."""
    for prefix, space in NAMESPACES.items():
        ElementTree.register_namespace(prefix, space)
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        simplify(parent)
    styles = Counter(element.get("style") for element in root.iter())
    classes = {style: f"s{i}" for i, (style, count) in enumerate(styles.items()) if style and count > 2}
    for element in root.iter():
        if element.get("style") in classes:
            element.set("class", classes[element.attrib.pop("style")])
    sheet = ElementTree.Element(f"{{{NAMESPACES['']}}}style")
    sheet.text = " ".join(f".{name} {{{style}}}" for style, name in classes.items())
    root.insert(0, sheet)
    return ElementTree.tostring(root, encoding="unicode").replace("><", ">\n<") + "\n"


def simplify(parent: ElementTree.Element) -> None:
    """One element of a picture, and what its children lose."""
    for name in COORDINATES & parent.attrib.keys():
        value = re.sub(r"-?\d+\.\d+", lambda x: f"{float(x[0]):.1f}".removesuffix(".0"), parent.attrib[name])
        parent.set(name, re.sub(r"\s+", " ", value.strip()))
    if not (parent.text or "").strip():
        parent.text = None
    parent.tail = None
    children = list(parent)
    while children:
        child = children.pop(0)
        kind = child.tag.rpartition("}")[2]
        if kind == "g":
            child.attrib.pop("id", None)
        if kind == "metadata" or (kind == "g" and not child.attrib):
            at = list(parent).index(child)
            parent.remove(child)
            inner = [] if kind == "metadata" else list(child)
            for i, element in enumerate(inner):
                parent.insert(at + i, element)
            children = inner + children


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    path.write_text(shorter(path.read_text(encoding="utf-8")), encoding="utf-8")
    plt.close(figure)


def panels(count: int, columns: int = 2, height: float = 3.0, **more: Any) -> tuple[Any, Any]:
    """A figure of so many panels, in rows."""
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, layout="constrained", figsize=(WIDTH, height * rows + 0.6), **more
    )
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, axes


def labelled(axes: Any, x: str, y: str) -> None:
    """What the axes say, at the left and at the foot of the figure."""
    for axis in axes[-1]:
        axis.set_xlabel(x)
    for axis in axes[:, 0]:
        axis.set_ylabel(y)


# --- the headline ---------------------------------------------------------------------------------


def draw_headline(path: Path, found: dict[str, dict[str, Cases]]) -> None:
    """How many times faster, against n: than NumPy, and than the best other, whose colour the dots have."""
    figure, axes = panels(sum(map(len, found.values())), sharex=True, sharey="row", height=2.9)
    for line, (words, by_machine) in zip(axes, found.items(), strict=True):
        for axis, (machine, cases) in zip(line, by_machine.items(), strict=True):
            numpy = [(n, ratio(case[NUMPY], case[OURS])) for n, case in cases.items() if NUMPY in case]
            if numpy:
                axis.plot(
                    *zip(*numpy, strict=True), label="than NumPy", **(style(NUMPY) | {"linewidth": 2.4})
                )
            best = {n: best_other(case) for n, case in cases.items()}
            points = [(n, ratio(best[n], cases[n][OURS])) for n in cases]
            axis.plot(*zip(*points, strict=True), color="grey", label=BEST)
            for who in ranked(r["contender"] for r in best.values()):
                own = [point for point in points if best[point[0]]["contender"] == who]
                axis.plot(*zip(*own, strict=True), "o", markersize=4, color=colour(who), label=who)
            axis.axhline(1, color="black", linewidth=0.8)
            over_orders(axis)
            logarithmic(axis)
            axis.set_yticks([1, 2, 5, 10, 20, 50, 100], minor=False)
            axis.set_ylim(0.8, None)
            axis.set_title(f"{words}\n{machine}")
    over_orders(max(axes.flat, key=lambda axis: axis.dataLim.x1))  # that all share
    labelled(axes, "n", "times faster")
    legend(figure, axes.flat, first=("than NumPy", BEST))
    save(figure, path)


# --- times ----------------------------------------------------------------------------------------


def draw_suite(path: Path, found: dict[str, Cases], title: str) -> None:
    """ns per matrix against n, a panel for each operation or dtype, of those who do the same job; rings:
    another is faster."""
    figure, axes = panels(len(found), height=3.2)
    for axis, (name, cases) in zip(axes.flat, found.items(), strict=False):
        rows = [r for case in cases.values() for r in case.values() if not r.get("less")]
        draw_times(axis, ({field: r[field] for field in ("contender", "n", "ns_per_matrix")} for r in rows))
        lost = [
            (n, ns(case[OURS]))
            for n, case in cases.items()
            if OURS in case and (best := best_other(case)) and ns(best) < ns(case[OURS])
        ]
        if lost:
            ring = {"markerfacecolor": "none", "markeredgecolor": "red", "markersize": 9}
            axis.plot(*zip(*lost, strict=True), "o", label="another is faster", **ring)
        over_orders(axis)
        axis.set_title(name)
    labelled(axes, "n", "ns per matrix")
    legend(figure, axes.flat)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def draw_shares(path: Path, found: dict[str, Cases], title: str) -> None:
    """Percent of the speed of a copy on a GPU against n, a panel for each operation or dtype."""
    figure, axes = panels(len(found), sharey=True)
    most = max(r["percent"] for cases in found.values() for case in cases.values() for r in case.values())
    for axis, (name, cases) in zip(axes.flat, found.items(), strict=False):
        for who in reversed(ranked(who for case in cases.values() for who in case)):
            points = [(n, case[who]["percent"]) for n, case in sorted(cases.items()) if who in case]
            axis.plot(*zip(*points, strict=True), label=who, **style(who))
        over_orders(axis)
        axis.set(title=name, ylim=(0, 1.05 * most))
    labelled(axes, "n", "percent of a copy")
    legend(figure, axes.flat)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


# --- limits and errors ----------------------------------------------------------------------------


def draw_roofline(path: Path, found: dict[str, dict[str, Any]], title: str) -> None:
    """GFLOP/s against flops per byte, a panel for each dtype: `roofs`, name -> (GFLOP/s, GB/s); `points`,
    (contender, where) -> rows."""
    figure, axes = panels(len(found), sharey=True, height=3.6)
    for axis, (dtype, panel) in zip(axes.flat, found.items(), strict=True):
        rows = [r for points in panel["points"].values() for r in points]
        intensity = [r["gflops"] / r["gbytes"] for r in rows]
        xs = [min(intensity) / 1.3, max(intensity) * 1.3]
        for (name, (gflops, gbytes)), dash in zip(panel["roofs"].items(), ("-", "--"), strict=True):
            corner = gflops / gbytes
            line = sorted({xs[0], min(max(corner, xs[0]), xs[1]), xs[1]})
            axis.plot(line, [min(gflops, gbytes * x) for x in line], dash, color="grey", label=name)
        for (who, where), points in panel["points"].items():
            xy = [(r["gflops"] / r["gbytes"], r["gflops"]) for r in points]
            marker = "o" if where == "out of cache" else "^"
            axis.plot(*zip(*xy, strict=True), marker, color=colour(who), label=f"{who} {where}")
        axis.set(xscale="log", title=dtype)
        logarithmic(axis)
        axis.set_xticks([x for x in (0.125, 0.25, 0.5, 1, 2, 4, 8) if xs[0] <= x <= xs[1]], minor=False)
        axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.grid(alpha=0.3)
    labelled(axes, "flops per byte", "GFLOP/s")
    legend(figure, axes.flat, columns=2)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def draw_accuracy(path: Path, rows: list[Row], title: str) -> None:
    """The largest error in units of u over all kinds of matrices against n, a panel for each operation."""
    ops = list(dict.fromkeys(r["op"] for r in rows))
    figure, axes = panels(len(ops), sharex=True, sharey=True, height=2.4)
    for axis, op in zip(axes.flat, ops, strict=False):
        of_op = [r for r in rows if r["op"] == op]
        orders = sorted({r["n"] for r in of_op})
        for field, who, label in (("lapack", "SciPy", "LAPACK, BLAS"), ("error", OURS, OURS)):
            found = [(n, max(r[field] or 0 for r in of_op if r["n"] == n)) for n in orders]
            axis.plot(
                *zip(*((n, error) for n, error in found if error), strict=True), label=label, **style(who)
            )
        bounds = sorted({(r["n"], r["bound"]) for r in of_op})
        axis.plot(*zip(*bounds, strict=True), color="grey", linewidth=3, alpha=0.5, label="promised")
        over_orders(axis)
        logarithmic(axis)
        axis.set(ylim=(0.1, 3e3), title=op)
    labelled(axes, "n", "error / u")
    legend(figure, axes.flat)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


# --- all of them ----------------------------------------------------------------------------------


def draw(results: Results) -> None:
    """Every figure that the pages show."""
    draw_headline(results.folder / "headline.svg", headline.panels(results))
    for suite in ("matmul", "linalg"):
        for slug, machine in results.machines("host", suite).items():
            if machine.topics["square"]:
                if suite == "matmul":
                    found = {dtype: machine.cases(EVERY_ORDER, dtype) for dtype in ("f64", "f32")}
                else:
                    ops = [op for op in OPERATIONS if op in {r["op"] for r in machine.topics["square"]}]
                    found = {f"{op} f64": machine.cases(EVERY_ORDER, "f64", op) for op in ops}
                title = f"one thread, in cache: {machine.name}"
                draw_suite(results.folder / "host" / f"{suite}-{slug}.svg", found, title)
        for slug, machine in results.machines("device", suite).items():
            if suite == "matmul":
                found = {dtype: machine.cases(EVERY_ORDER, dtype) for dtype in ("f64", "f32")}
            else:
                found = {f"{op} f64": machine.cases(EVERY_ORDER, "f64", op) for op in ON_DEVICE}
            draw_shares(results.folder / "device" / f"{suite}-{slug}.svg", found, machine.name)
    slug, machine = next(iter(results.machines("host", "matmul").items()))
    title = f"products on one thread: {machine.name}"
    draw_roofline(results.folder / "host" / f"roofline-{slug}.svg", roofline_panels(machine), title)
    slug, machine = results.latest("host", "accuracy")
    rows = machine.topics["errors"]
    for dtype in DTYPES:
        title = f"{dtype}, {rows[0]['count']} matrices of each kind and order: {machine.name}"
        of_dtype = [r for r in rows if r["dtype"] == dtype]
        draw_accuracy(results.folder / "host" / f"accuracy-{slug}-{dtype}.svg", of_dtype, title)

"""How figures of measurements look, here and in benchmarks/: ours is black, each library has a colour of its
own, orders lie on a logarithmic axis, and one legend serves all panels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

OURS = "smallmm"

# By the first words of a contender's name, the longer first; MKL's functions differ by their dashes.
COLOURS = {
    OURS: "black",
    "NumPy": "#1f77b4",
    "SciPy": "#ff7f0e",
    "PyTorch": "#d62728",
    "CuPy": "#2ca02c",
    "JAX": "#9467bd",
    "MKL compact": "#e377c2",
    "MKL": "#8c564b",
    "LAPACKE": "#8c564b",
    "LIBXSMM": "#17becf",
    "cuBLAS": "#bcbd22",
    "cuSOLVER": "#7f7f7f",
    "cuSPARSE": "#aec7e8",
}
DASHES = {"MKL JIT loop": "--"}
ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)


def colour(contender: str) -> str:
    return next(found for words, found in COLOURS.items() if contender.startswith(words))


def style(contender: str) -> dict[str, Any]:
    """Of a line."""
    ours = contender == OURS
    return {
        "color": colour(contender),
        "linestyle": DASHES.get(contender, "-"),
        "linewidth": 2.4 if ours else 1.4,
        "zorder": 3 if ours else 2,
    }


def ranked(contenders: Iterable[str]) -> list[str]:
    """Ours first, then by library."""
    return sorted(set(contenders), key=lambda name: ([*COLOURS].index(_library(name)), name))


def _library(contender: str) -> str:
    return next(words for words in COLOURS if contender.startswith(words))


def over_orders(axis: Any, orders: Iterable[int] = ORDERS) -> None:
    """Orders along a logarithmic axis, as far as the lines reach."""
    axis.set_xscale("log")
    axis.set_xticks([n for n in orders if n <= axis.dataLim.x1], minor=False)
    axis.set_xticks([], minor=True)
    axis.xaxis.set_major_formatter("{x:.0f}")
    axis.grid(alpha=0.3)


def draw_times(axis: Any, rows: Iterable[dict[str, Any]], **more: Any) -> None:
    """ns per matrix against n, a line for each contender; quartiles, where there are some, are shaded."""
    rows = list(rows)
    for name in reversed(ranked(row["contender"] for row in rows)):
        own = sorted((row for row in rows if row["contender"] == name), key=lambda row: row["n"])
        n = [row["n"] for row in own]
        axis.plot(n, [row["ns_per_matrix"] for row in own], label=name, **(style(name) | more))
        if all("quartiles" in row for row in own):
            low, high = zip(*(row["quartiles"] for row in own), strict=True)
            axis.fill_between(n, low, high, color=colour(name), alpha=0.2, linewidth=0)
    logarithmic(axis)


def logarithmic(axis: Any) -> None:
    """The other axis: 0.1, 1, 10 and so on."""
    axis.set_yscale("log")
    axis.minorticks_off()
    axis.yaxis.set_major_formatter("{x:g}")


def legend(figure: Any, axes: Iterable[Any], columns: int = 4, first: tuple[str, ...] = ()) -> None:
    """One legend for all panels, below them: `first`, ours, the libraries, the rest."""
    handles = {
        label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    known = ranked(name for name in handles if any(name.startswith(words) for words in COLOURS))
    names = list(dict.fromkeys([*first, *known, *handles]))
    figure.legend(
        [handles[name] for name in names], names, loc="outside lower center", ncols=min(columns, len(names))
    )

"""A figure beside what is asked of it: met, missed, or for information."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..records import Row

# GFLOP/s of the core that times in C are scaled to, so that machines compare.
KERNEL_PEAK = {"f64": 107, "f32": 214}


@dataclass(frozen=True)
class Verdict:
    text: str
    figure: str
    threshold: str = ""
    met: bool | None = None  # None: for information

    def __str__(self) -> str:
        mark = {True: "met", False: "MISSED", None: ""}[self.met]
        return f"{self.text:<50} {self.figure:<52} {self.threshold:<14} {mark}"


Judge = Callable[[list[Row]], Iterator[Verdict]]


def at_least(text: str, value: float, least: float, unit: str = "x", note: str = "") -> Verdict:
    return Verdict(text, f"{value:.3g}{unit}{note}", f">= {least:g}{unit}", value >= least)


def at_most(text: str, value: float, most: float, unit: str = "x", note: str = "") -> Verdict:
    return Verdict(text, f"{value:.3g}{unit}{note}", f"<= {most:g}{unit}", value <= most)


def worst(text: str, ratios: dict[int, float], limit: float, *, most: bool = False) -> Verdict:
    """One verdict on a ratio by order: the worst of them, and which others miss the limit."""
    n = (max if most else min)(ratios, key=ratios.__getitem__)
    missed = [f"{i} ({r:.2f})" for i, r in ratios.items() if (r > limit if most else r < limit)]
    note = f" at n={n}" + (f"; missed at n = {', '.join(missed)}" if missed else "")
    return (at_most if most else at_least)(text, ratios[n], limit, note=note)

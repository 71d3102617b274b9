"""How tables and captions are written: the one writer of Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from .results import OURS, Row, label, ns, ratio

COLUMNS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 33, 40, 48, 64, 100, 128)


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """The first column is words, the others are numbers."""
    head = list(head)
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def picture(words: str, path: str) -> str:
    """A figure of benchmarks/results/."""
    return f"![{words}](benchmarks/results/{path})"


def number(ns: float) -> str:
    return f"{ns:.2f}" if ns < 10 else f"{ns:.1f}" if ns < 100 else f"{ns:.0f}"


def factor(other: Row | None, ours: Row | None) -> str:
    """How many times faster than the other."""
    if not other or not ours:
        return ""
    times = ratio(other, ours)
    return f"{times:.2f}x" if times < 1.1 else f"{times:.1f}x" if times < 10 else f"{times:.0f}x"


def times_of_products(
    title: str, cases: dict[int, dict[str, Row]], write: Callable[[float], str] = number
) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table: ns per matrix by contender and n, ours last, the fastest in bold."""
    orders = [n for n in COLUMNS if n in cases]
    found = {n: {who: r for who, r in cases[n].items() if r["contender"] == who} for n in orders}
    names = list(dict.fromkeys(who for n in orders for who in found[n]))
    lines = []
    for who in sorted(names, key=lambda who: who == OURS):
        cells = []
        for n in orders:
            text = write(ns(found[n][who])) if who in found[n] else ""
            fastest = text and ns(found[n][who]) == min(map(ns, found[n].values()))
            cells.append(f"**{text}**" if fastest else text)
        called = next(label(found[n][who]) for n in orders if who in found[n])
        lines.append([f"`{called}`" if who != OURS else "**smallmm**", *cells])
    return [title, *map(str, orders)], lines


def losses(cases: Iterable[tuple[str, int, Row, Row]], where: str = "nowhere measured") -> str:
    """Where another is faster, in words: of cases (what, n, other, ours) those whose ratio is below 1."""
    lost: dict[str, list[str]] = defaultdict(list)
    for what, n, other, ours in cases:
        if ns(other) < ns(ours):
            lost[what].append(f"{n} ({ratio(other, ours):.2f})")
    return "; ".join(f"{what}, n = {', '.join(at)}" for what, at in lost.items()) or where

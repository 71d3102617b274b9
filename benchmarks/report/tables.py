"""Writes the tables of README and docs, and the figures, from the rows in benchmarks/results; that of the
promised bounds from smallmm/_tools/bounds.py.

    python -m benchmarks.report.tables            rewrite PAGES and draw results/**/*.svg
    python -m benchmarks.report.tables --check    exit 1 if a page is not what the rows say

Text between `<!-- begin: NAME -->` and `<!-- end: NAME -->` is replaced by section NAME of SECTIONS.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from .. import records
from . import device, figures, headline, host, judge
from .results import Results

PAGES = (
    "README.md",
    "docs/performance.md",
    "docs/records/products.md",
    "docs/records/factorizations.md",
    "docs/records/gpu.md",
    "docs/records/targets.md",
    "docs/accuracy.md",
    "docs/promises.md",
    "docs/patch.md",
)
SECTIONS: dict[str, Callable[[Results], str]] = {
    "six-lines": headline.six_lines,
    "headline": headline.section,
    "matmul-details": host.matmul_details,
    "device": device.section,
    "linalg-details": host.linalg_details,
    "roofline": host.roofline,
    "accuracy": host.accuracy,
    "bounds": host.bounds,
    "cuda": device.details,
    "clients": host.clients,
    "totals": judge.totals,
}


def rendered(page: str, results: Results, folder: str = "") -> str:
    """A page with every section it marks replaced. folder: that of the repository, as the page sees it."""
    for name in re.findall(r"<!-- begin: (\S+) -->", page):
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if name not in SECTIONS or page.count(begin) != 1 or page.count(end) != 1:
            raise SystemExit(f"section {name}: unknown (know {', '.join(SECTIONS)}), or not marked once")
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        section = SECTIONS[name](results).replace("](benchmarks/", f"]({folder}benchmarks/")
        page = f"{before}{begin}\n{section}\n{end}{after}"
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if a page is not up to date"
    )
    options = parser.parse_args()
    results = Results()
    for name in PAGES:
        path = records.ROOT / name
        old = path.read_text(encoding="utf-8")
        new = rendered(old, results, "../" * name.count("/"))
        if options.check and new != old:
            sys.exit(f"{name} is not what the rows say: run python -m benchmarks.report.tables")
        path.write_text(new, encoding="utf-8")
    if not options.check:
        figures.draw(results)


if __name__ == "__main__":
    main()

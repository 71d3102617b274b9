"""Progress bars, where tqdm is installed."""

from __future__ import annotations

from collections.abc import Iterable

try:
    from tqdm import tqdm
except ImportError:

    def tqdm(items: Iterable, **_: object) -> Iterable:
        return items


__all__ = ["tqdm"]

"""Whether this thread's calls on arrays of the host go through a device, and how: see `_offload.api`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING

from .. import _core

if TYPE_CHECKING:
    from .._offload.api import Settings


class _Own(local):
    settings: Settings | None = None


_own = _Own()


def current() -> Settings | None:
    return _own.settings


@contextmanager
def offloaded(settings: Settings | None) -> Iterator[None]:
    """Context in which they do; or, with None, do not."""
    before = _own.settings
    _own.settings = settings
    _core.set_offloading(settings is not None)
    try:
        yield
    finally:
        _own.settings = before
        _core.set_offloading(before is not None)

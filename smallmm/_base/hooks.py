"""Whether this thread's calls on arrays of the host go through a device, and how: see `_offload.api`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, Protocol

from .. import _core


class Settings(Protocol):
    """What has calls computed on a device: see `_offload.api`."""

    why: str  # a fused function did not run as one kernel

    def call(
        self, op: str, gufunc: Any, operands: dict[str, Any], targets: dict[str, Any], kwargs: dict[str, Any]
    ) -> Any: ...

    def program(
        self, program: Any, names: list[str], operands: list[Any], batch: tuple[int, ...], targets: Any
    ) -> Any: ...

    def meets(self, explain: Callable[[], Any]) -> None:
        """A call that consists of others is to be made. explain: what says how."""

    def explain(self, op: Any, arrays: tuple[Any, ...], out: Any, options: dict[str, Any]) -> Any: ...


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

"""Modules that a lower package needs of a higher one, imported when a call first wants them."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def later(module: str) -> Any:
    """The module of that name within smallmm."""
    return import_module(f"smallmm.{module}" if module else "smallmm")

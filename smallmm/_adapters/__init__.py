"""The array libraries that calls know. To add one, write a module with its `Library` and add its row here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .base import Library, on_device, type_name
from .cupy import CuPy
from .dask import Dask
from .dlpack import DLPack, is_foreign
from .jax import Jax
from .numba import Numba
from .numpy import NumPy
from .pandas import Pandas
from .torch import Torch, leave_to_python

__all__ = ["LIBRARIES", "Library", "leave_to_python", "library_of", "on_device", "type_name"]

# The top-level module of an array's type, or of a base of it: the library
LIBRARIES: dict[str, type[Library]] = {
    "cupy": CuPy,
    "dask": Dask,
    "jax": Jax,
    "jaxlib": Jax,
    "numba": Numba,
    "numba_cuda": Numba,
    "numpy": NumPy,
    "pandas": Pandas,
    "torch": Torch,
}
_NUMPY = NumPy("numpy")


def library_of(x: Any) -> Library:
    """The library of x, which may be anything: an array of an unknown library, a list, a number."""
    if isinstance(x, np.ndarray):
        return _NUMPY
    known = _known_library(type(x))  # type: ignore[arg-type]  # mypy: not Hashable
    if known is not None:
        return known
    return DLPack(_module(type(x))) if is_foreign(x) or on_device(x) else _NUMPY


@lru_cache(maxsize=256)  # the types of a process, which may make new ones for ever
def _known_library(kind: type) -> Library | None:
    modules = map(_module, kind.__mro__)
    return next((LIBRARIES[name](name) for name in modules if name in LIBRARIES), None)


def _module(kind: type) -> str:
    return kind.__module__.partition(".")[0]

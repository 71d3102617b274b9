"""The array libraries that calls know. To add one, write a module with its `Library` and add its row here."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from .._base.composition import CAPTURES
from .base import Library, on_device, type_name
from .cupy import CuPy
from .dask import Dask
from .device_array import DeviceArrays
from .dlpack import DLPack, is_foreign
from .frames import Pandas, Polars, PyArrow
from .jax import Jax
from .numba import Numba
from .numpy import NumPy
from .own import Own, is_group
from .torch import Torch

__all__ = ["LIBRARIES", "Library", "is_group", "library_of", "on_device", "type_name"]

# The module, or the package of it, that defines an array's type or a base of that: the library
LIBRARIES: dict[str, type[Library]] = {
    "cupy": CuPy,
    "dask.array": Dask,
    "jax": Jax,
    "jaxlib": Jax,
    "numba": Numba,
    "numba_cuda": Numba,
    "numpy": NumPy,
    "pandas": Pandas,
    "polars": Polars,
    "pyarrow": PyArrow,
    "smallmm": Own,
    "smallmm.cuda": DeviceArrays,
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
    return DLPack(_packages(type(x))[0]) if is_foreign(x) or on_device(x) else _NUMPY


CAPTURES.append(lambda x: library_of(x).is_capturing(x))


@lru_cache(maxsize=256)  # the types of a process, which may make new ones for ever
def _known_library(kind: type) -> Library | None:
    names = (name for base in kind.__mro__ for name in reversed(_packages(base)))
    return next((LIBRARIES[name](name) for name in names if name in LIBRARIES), None)


def _packages(kind: type) -> list[str]:
    """The packages that a type's module is in, the outermost first, and itself."""
    return list(accumulate(kind.__module__.split("."), "{}.{}".format))

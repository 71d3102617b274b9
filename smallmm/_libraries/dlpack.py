"""Libraries that share arrays by DLPack and do not follow NumPy's `__array_ufunc__` protocol. On the host
their arrays are seen as NumPy's, without a copy, and results become theirs. On a device a library with an
array API namespace needs nothing else, and runs on the default stream."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .._base.shapes import is_bfloat16
from .base import Device, Named, type_name
from .numpy import NumPy


class DLPack(NumPy):
    rank = 1

    def values(self, x: Any) -> Any:
        return x

    def as_numpy(self, op: str, name: str, x: Any) -> np.ndarray:
        if not is_foreign(x):
            return np.asarray(x)
        x = self.shareable(op, name, x)
        if str(getattr(x, "dtype", None)).endswith("bfloat16"):
            refuse_without_ml_dtypes(op, name)
            return self.bfloat16_as_numpy(x)
        try:
            view = np.from_dlpack(x)
            # as all of them before NumPy 2.1: try another way
            if name.startswith("out") and not view.flags.writeable:
                other = np.asarray(x)
                view = other if np.shares_memory(view, other) else view
            return view
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} that cannot be shared by DLPack: {error}"
            ) from error

    def call(self, op: str, gufunc: np.ufunc, operands: Named, outs: Named, kwargs: Named) -> Any:
        arrays = {**operands, **{name: x for name, x in outs.items() if x is not None}}
        namespace = namespace_of_all(op, arrays)
        views = {name: self.as_numpy(op, name, x) if is_foreign(x) else x for name, x in arrays.items()}
        out_views = {name: views.pop(name, None) for name in outs}
        results = super().call(op, gufunc, views, out_views, kwargs)
        given = (*outs.values(), *(None,) * gufunc.nout)
        answers = tuple(
            out if out is not None else self.from_numpy(namespace, np.asarray(result))
            for out, result in zip(given, results if gufunc.nout > 1 else (results,), strict=False)
        )
        return answers if gufunc.nout > 1 else answers[0]

    def bfloat16_as_numpy(self, x: Any) -> np.ndarray:
        """An array of ml_dtypes.bfloat16, without a copy: NumPy takes none by DLPack."""
        return np.asarray(x)

    def from_numpy(self, namespace: Any, x: np.ndarray) -> Any:
        """The same as an array of the library."""
        return namespace.asarray(x) if is_bfloat16(x.dtype) else namespace.from_dlpack(x)

    def on(self, x: Any, device: int) -> Device:
        return StandardDevice(self.name, x, device)


class StandardDevice(Device):
    """A library with an array API namespace."""

    def __init__(self, name: str, x: Any, device: int):
        super().__init__(name, device)
        from array_api_compat import array_namespace
        from array_api_compat import device as device_of

        self._namespace = array_namespace(x)
        self._place = device_of(x)

    @property
    def namespace(self) -> ModuleType:
        return self._namespace

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self._namespace.empty(shape, dtype=self.dtype_named(dtype.name), device=self._place)

    def asarray(self, x: np.ndarray) -> Any:
        return self._namespace.asarray(x, device=self._place)


def refuse_without_ml_dtypes(op: str, name: str) -> None:
    """TypeError for an argument of bfloat16 that NumPy would not know. Afterwards it does."""
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        raise TypeError(
            f"{op}: {name} has dtype bfloat16, which NumPy has with ml_dtypes alone: pip install "
            "ml_dtypes, or convert it to float32, which holds every bfloat16"
        ) from None


def is_foreign(x: Any) -> bool:
    """Whether x is shared by DLPack alone."""
    return hasattr(x, "__dlpack__") and not hasattr(x, "__array_ufunc__")


def namespace_of_all(op: str, arrays: dict[str, Any]) -> Any:
    """The array API namespace that all arrays share. Numbers belong to every library."""
    from array_api_compat import array_namespace

    first_name, first = next((name, x) for name, x in arrays.items() if is_foreign(x))
    try:
        namespace = array_namespace(first)
    except TypeError as error:
        raise TypeError(
            f"{op}: {first_name} is a {type_name(first)}; expected an array of NumPy or of another "
            "library of the array API standard"
        ) from error
    for name, x in arrays.items():
        foreign = is_foreign(x)
        if not foreign and not isinstance(x, list | tuple) and np.ndim(x) == 0:
            continue
        if not foreign or array_namespace(x) is not namespace:
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} but {first_name} is a {type_name(first)}; "
                "expected arrays of one library"
            )
    return namespace

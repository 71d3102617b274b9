"""Calls on arrays of any library. NumPy's and those that follow its `__array_ufunc__` protocol (subclasses,
Dask, xarray, pandas) go to the gufunc as they are; those that only speak DLPack (PyTorch, JAX) are seen as
NumPy arrays, without a copy, and get their results back in their own library."""

from typing import Any

import numpy as np

from . import _core
from ._errors import explain_failure

# Devices whose memory the CPU reads and writes: kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged of DLPack.
_HOST_DEVICES = (1, 3, 11, 13)


def call(op: str, gufunc: np.ufunc, operands: dict[str, Any], out: Any, kwargs: dict[str, Any]) -> Any:
    """``gufunc(*operands.values(), out, **kwargs)`` for arrays of any library."""
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    arrays = operands if out is None else {**operands, "out": out}
    for name, x in arrays.items():
        if _on_device(x):
            raise TypeError(
                f"{op}: {name} is a {_type_name(x)} on a device; arrays on devices are not supported yet"
            )
    foreign = {name: x for name, x in arrays.items() if _is_foreign(x)}
    if not foreign:
        return _call_numpy(op, gufunc, operands, out, kwargs)

    library = _library_of_all(op, arrays, foreign)
    views = {name: _as_numpy(op, name, x) if name in foreign else x for name, x in arrays.items()}
    view = views.pop("out", None)
    result = _call_numpy(op, gufunc, views, view, kwargs)
    return out if out is not None else library.from_dlpack(np.asarray(result))


def as_numpy(op: str, name: str, x: Any) -> np.ndarray:
    """A NumPy array of x, without a copy where x is an array."""
    return _as_numpy(op, name, x) if _is_foreign(x) else np.asarray(x)


def _call_numpy(op: str, gufunc: np.ufunc, operands: dict[str, Any], out: Any, kwargs: dict[str, Any]) -> Any:
    if gufunc is _core.matmul and any(_overrides_ufuncs(x) for x in operands.values()):
        gufunc = _fixed_dimensions(*operands.values())
    try:
        return gufunc(*operands.values(), out, **kwargs)
    except (TypeError, ValueError):
        explanation = explain_failure(op, gufunc, operands, out, kwargs)
        if explanation is None:
            raise
        raise explanation from None  # NumPy's message numbers the operands; ours says more, with their names


def _overrides_ufuncs(x: Any) -> bool:
    return hasattr(x, "__array_ufunc__") and not isinstance(x, np.ndarray)


def _fixed_dimensions(x1: Any, x2: Any) -> np.ufunc:
    """The gufunc for a matmul of these, without optional dimensions (?), which Dask does not know."""
    shape = tuple(min(getattr(x, "ndim", 0), 2) for x in (x1, x2))
    return {(2, 2): _core.batched_matmul, (2, 1): _core.matvec, (1, 2): _core.vecmat}.get(shape, _core.matmul)


def _type_name(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")


def _is_foreign(x: Any) -> bool:
    return hasattr(x, "__dlpack__") and not hasattr(x, "__array_ufunc__")


def _on_device(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return False
    if hasattr(x, "__cuda_array_interface__"):
        return True
    if not hasattr(x, "__dlpack_device__"):
        return False
    try:
        return x.__dlpack_device__()[0] not in _HOST_DEVICES
    except (BufferError, RuntimeError, ValueError):  # a device that DLPack has no number for
        return True


def _library_of_all(op: str, arrays: dict[str, Any], foreign: dict[str, Any]) -> Any:
    """The array API namespace that all arrays share. Numbers belong to every library."""
    from array_api_compat import array_namespace

    (first_name, first), *_ = foreign.items()
    library = array_namespace(first)
    for name, x in arrays.items():
        if np.isscalar(x):
            continue
        if name not in foreign or array_namespace(x) is not library:
            raise TypeError(
                f"{op}: {name} is a {_type_name(x)} but {first_name} is a {_type_name(first)}; "
                "expected arrays of one library"
            )
    return library


def _as_numpy(op: str, name: str, x: Any) -> np.ndarray:
    try:
        view = np.from_dlpack(x)
        if name == "out" and not view.flags.writeable:  # as all of them before NumPy 2.1: try another way
            other = np.asarray(x)
            view = other if np.shares_memory(view, other) else view
        return view
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{op}: {name} is a {_type_name(x)} that cannot be shared by DLPack: {error}"
        ) from error

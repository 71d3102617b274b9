"""NumPy's arrays, and whatever NumPy makes arrays of or follows its `__array_ufunc__` protocol: the gufunc
takes them as they are. Masked arrays are their values, and matrices stay matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._base import lapack
from .._base.errors import explain_failure, explain_pivots
from .._base.hooks import current, offloaded
from .._base.shapes import NUMBERS, NUMPYS, core_dimensions, narrow_dtype, register_bfloat16
from .base import Library, Named, overrides_ufuncs

_ARRAYS_AND_NUMBERS = (np.ndarray, np.generic, *NUMBERS)


class NumPy(Library):
    def values(self, x: Any) -> Any:
        """The array that NumPy makes of x, if x is none: one conversion gives shape and elements."""
        if x is None or isinstance(x, _ARRAYS_AND_NUMBERS) or overrides_ufuncs(x):
            return x
        try:
            return np.asarray(x)
        except Exception:  # the call says why
            return x

    def as_numpy(self, op: str, name: str, x: Any) -> np.ndarray:
        return np.asarray(_without_mask(op, name, x))

    def windows(self, x: Any, window: int, axis: int, step: int) -> Any:
        if not isinstance(x, np.ndarray):
            return NotImplemented
        return every(np.lib.stride_tricks.sliding_window_view(x, window, axis), np.moveaxis, axis, step)

    def call(self, op: str, gufunc: np.ufunc, operands: Named, outs: Named, kwargs: Named) -> Any:
        operands = {name: _without_mask(op, name, NumPy.values(self, x)) for name, x in operands.items()}
        # numpy.matrix has two dimensions, unlike stacks, infos and determinants: results become it at the end
        is_matrix = {name: isinstance(x, np.matrix) for name, x in operands.items()}
        operands = {name: np.asarray(x) if is_matrix[name] else x for name, x in operands.items()}
        matrices = any(is_matrix.values()) and kwargs.get("subok", True)
        subclasses = [x for x in operands.values() if type(x) is not np.ndarray and isinstance(x, np.ndarray)]
        targets = {name: x.data if isinstance(x, np.ma.MaskedArray) else x for name, x in outs.items()}
        pivots = operands.get("pivots")
        for x in operands.values():
            if isinstance(x, np.ndarray | np.generic):
                register_bfloat16(x.dtype)
        given = [x for x in targets.values() if x is not None]
        empty = all(isinstance(x, np.ndarray) and not x.size for x in given)
        nothing = empty and len(given) == gufunc.nout and not kwargs  # NumPy would go through all matrices
        fault = partial(_fault, op, gufunc, operands.copy(), targets, kwargs)
        if (nothing or (given and pivots is not None)) and (found := fault()) is not None:
            raise found  # before anything is written
        try:
            if pivots is not None:
                operands["pivots"] = _narrowed(pivots)
            results: Any = NotImplemented
            if nothing:
                results = given[0] if gufunc.nout == 1 else tuple(given)
            elif (settings := current()) is not None:
                results = settings.call(op, gufunc, operands, targets, kwargs)
                if results is NotImplemented:
                    with offloaded(None):
                        return self.call(op, gufunc, operands, outs, kwargs)
            if results is NotImplemented:
                results = _computed(gufunc, operands, targets, kwargs)
        except (OverflowError, TypeError, ValueError):
            if (found := fault()) is not None:
                raise found from None  # NumPy's message numbers the operands; ours names them
            if not lapack.takes(gufunc, operands):
                raise
            results = lapack.call(op, gufunc, operands, targets)
        if subclasses and kwargs.get("subok", True) and gufunc.__name__ not in NUMPYS:
            results = _as_numpys(gufunc, outs, results, subclasses[0])
        if matrices or any(targets[name] is not x for name, x in outs.items()):
            return _wrapped(gufunc, outs, results, matrices)
        return results


def every(windows: Any, moveaxis: Callable[..., Any], axis: int, step: int) -> Any:
    """Every step-th of NumPy's sliding windows, whose elements are the last axis, with that behind the axis
    along which they slide, the axis-th of a window's."""
    place = windows.ndim - 1 + axis
    return moveaxis(windows, -1, place + 1)[(*(slice(None),) * place, slice(None, None, step))]


def _fault(
    op: str, gufunc: np.ufunc, operands: dict[str, Any], outs: dict[str, Any], kwargs: dict[str, Any]
) -> Exception | None:
    """The exception for the argument at fault, if one is."""
    found = explain_failure(op, gufunc, operands, outs, kwargs)
    if found is None and "pivots" in operands:
        return explain_pivots(op, gufunc, operands["pivots"])
    return found


def _narrowed(pivots: Any) -> Any:
    """Pivots as int32, where NumPy would take them modulo 2^32: those beyond become others that are no rows.
    Without an element they may be floats, as the array of an empty list is."""
    if overrides_ufuncs(pivots):
        return pivots
    array = np.asarray(pivots)
    if not array.size:
        return array.astype(np.int32)
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or array.dtype == np.int32:
        return array
    return np.clip(array, max(np.iinfo(array.dtype).min, -(2**31)), 2**31 - 1).astype(np.int32)


def _computed(
    gufunc: np.ufunc, operands: dict[str, Any], targets: dict[str, Any], kwargs: dict[str, Any]
) -> Any:
    """The gufunc's results. Products of bool are computed in a wider dtype."""
    ours = not kwargs.keys() & {"dtype", "signature"} and not any(map(overrides_ufuncs, operands.values()))
    narrow = narrow_dtype(gufunc, operands) if ours else None
    target = next(iter(targets.values()), None)
    if narrow is None:
        return gufunc(*operands.values(), *targets.values(), **kwargs)
    if target is None:
        with np.errstate(all="ignore"):
            return gufunc(*operands.values(), **kwargs).astype(narrow)
    wide = np.empty(np.shape(target))  # NumPy casts no sums to bool
    gufunc(*operands.values(), wide, **kwargs)
    np.copyto(target, wide.astype(narrow), casting=kwargs.get("casting", "same_kind"))
    return target


def _without_mask(op: str, name: str, x: Any) -> Any:
    """The values of a masked array. No kernel heeds a mask, so nothing may be masked."""
    if not isinstance(x, np.ma.MaskedArray):
        return x
    if masked := np.count_nonzero(x.mask):
        raise TypeError(
            f"{op}: {name} is a masked array, {masked} of whose {x.size} elements are masked; expected none: "
            f"pass {name}.filled(0), or whatever stands for them"
        )
    return x.data


def _as_numpys(gufunc: np.ufunc, outs: dict[str, Any], results: Any, like: np.ndarray) -> Any:
    """Results as numpy.linalg has them for a subclass of arrays: matrices and solutions are of it, numbers,
    eigenvalues and singular values are not."""
    _, dims = core_dimensions(gufunc)
    given = (*outs.values(), *(None,) * gufunc.nout)
    answers = tuple(
        x
        if out is not None or isinstance(x, type(like)) == whole
        else like.__array_wrap__(x)
        if whole
        else np.asarray(x)[()]
        for x, out, whole in zip(
            results if gufunc.nout > 1 else (results,),
            given,
            (len(core) > 1 or any(dim.endswith("?") for dim in core) for core in dims),
            strict=False,
        )
    )
    return answers if gufunc.nout > 1 else answers[0]


def _wrapped(gufunc: np.ufunc, outs: dict[str, Any], results: Any, matrices: bool) -> Any:
    """The results, those written to a part of `out` as `out`; if `matrices`, single matrices as such."""
    _, dims = core_dimensions(gufunc)
    given = (*outs.values(), *(None,) * gufunc.nout)
    single = {1, 2} if gufunc.__name__ in NUMPYS else {2}  # NumPy makes a row of a vector
    dressed = tuple(
        out if out is not None else x.view(np.matrix) if matrices and {x.ndim, len(core)} <= single else x
        for out, x, core in zip(given, results if gufunc.nout > 1 else (results,), dims, strict=False)
    )
    return dressed if gufunc.nout > 1 else dressed[0]

"""How a public function calls a gufunc. It tries the direct path (`_core.direct`) first. `arrays.call` takes
what that declines: conversions, other libraries' arrays, errors. Then it checks info.

`run` does all of it. A function whose overhead matters tries the direct path itself, returns if nothing is
wrong, and otherwise passes `run` what it got."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
from numpy import count_nonzero

from .. import _core
from .._base.catalog import FUNCTIONS
from .._base.errors import Reason, numerical_failure, unfit_out
from .._base.shapes import is_complex
from .._libraries import library_of, on_device, type_name
from .._libraries.dask import is_lazy, lazily
from .arrays import as_numpy, call, copy_to, without_labels
from .twins import WithInfo, entries

_direct = _core.direct
Make = Callable[..., Any] | None
_R = TypeVar("_R")


def run(
    op: str,
    gufunc: str,
    operands: dict[str, Any],
    outs: tuple[Any, ...],
    make: Make = None,
    reason: Reason | None = None,
    tried: Any = None,
) -> Any:
    """The results, from which `make` makes a named tuple. With a reason they are without info, and an info
    that is not 0 raises LinAlgError. `tried` is the answer of the direct path, if the caller has tried it. A
    twin's `WithInfo` is the first of outs."""
    results = _direct[gufunc](*operands.values(), *outs) if tried is None else tried
    if results is NotImplemented:
        if type(wanted := outs[0]) is WithInfo:
            whole = wanted.outs(op, getattr(_core, gufunc).nout)
            results = _direct[gufunc](*operands.values(), *whole)
            if results is NotImplemented:
                results = call(op, getattr(_core, gufunc), operands, whole, {})
            return checked(op, results, reason, make, wanted)
        results = call(op, getattr(_core, gufunc), operands, outs, {})
    if reason is not None:
        return checked(op, results, reason, make)
    return make(*results) if make else results


def checked(
    op: str, results: tuple[Any, ...], reason: Reason | None, make: Make = None, wanted: Any = None
) -> Any:
    """The results without the last, info, if that is 0 everywhere: one alone, or several as a named tuple.
    With info for a twin, if `wanted` is `WithInfo`. Without a reason, no matrix fails.

    The direct path, unless asked for info, gives None for an info that is 0 everywhere.
    """
    info = results[-1]
    if type(wanted) is WithInfo:
        if not wanted.check_errors and (make is None or isinstance(make, type)):
            return wanted.made(*results)
        answer = checked(op, results, reason if wanted.check_errors else None, make)
        return wanted.made(*(answer if make else (answer,)), info)
    if reason is None:
        return make(*results[:-1]) if make else results[0]
    if info is None or _core.any_failed(info) is False:
        return make(*results[:-1]) if make else results[0]
    if type(info) is not np.ndarray:
        if is_lazy(info):
            return _checked_lazily(op, results, reason, make)
        info = _info_on_host(op, info)
    answer = make(*results[:-1]) if make else results[0]
    if count_nonzero(info):
        raise numerical_failure(op, info, results[-1], answer, reason)
    return answer


def _info_on_host(op: str, info: Any) -> np.ndarray:
    """info as a NumPy array. A device is waited for; info that is all 0 is not copied from it. While a
    function is traced nothing is known of it."""
    info = library_of(info).elements(info)
    if info is None:
        return np.zeros(0, np.int32)
    if not on_device(info):
        return as_numpy(op, "info", info)
    from .._gpu import device

    twin = f"{op}_ex" if f"{op}_ex" in FUNCTIONS else None
    return device.to_host(info) if device.any_nonzero(op, info, twin) else np.zeros(0, np.int32)


def _checked_lazily(op: str, results: tuple[Any, ...], reason: Reason, make: Make) -> Any:
    """Dask arrays that are checked when they are computed; the indices of an exception are a chunk's."""
    batch_dims = results[-1].ndim
    dims = [
        "(" + ",".join(f"d{i}{j}" for j in range(x.ndim - batch_dims)) + ")" for i, x in enumerate(results)
    ]
    dtypes = [x.dtype for x in results[:-1]]
    is_one = len(dtypes) == 1
    answer = lazily(
        partial(_checked_chunks, op, reason, make),
        f"{','.join(dims)}->{','.join(dims[:-1])}",
        *results,
        dtypes=dtypes[0] if is_one else dtypes,
    )
    return make(*((answer,) if is_one else answer)) if make else answer


def _checked_chunks(op: str, reason: Reason, make: Make, *results: np.ndarray) -> Any:
    checked(op, results, reason, make)
    return results[0] if len(results) == 2 else results[:-1]


def factors_in_one(place: int) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Let a function take two factors, the arguments at some place, as one tuple, too."""

    def having(function: Callable[..., _R]) -> Callable[..., _R]:
        @wraps(function)
        def taking(*args: Any, **options: Any) -> _R:
            if len(args) > place and isinstance(args[place], tuple) and len(args[place]) == 2:
                args = *args[:place], *args[place], *args[place + 1 :]
            return function(*args, **options)

        taking.place_of_factors = place  # type: ignore[attr-defined]  # for its types
        return taking

    return having


def several(op: str, out: Any, result: Any) -> tuple[Any, ...]:
    """out as a tuple with an entry for each field of a named tuple."""
    fields = result._fields
    if type(out) is WithInfo:
        return out, *(None,) * (len(fields) - 1)
    return entries(op, out, len(fields), fields)


def outs_with_info(op: str, out: Any, result: Any = None) -> tuple[Any, ...]:
    """Where one result, or the fields of a named tuple, and info go. What is made of them, `checked` says."""
    if type(out) is WithInfo:
        return out.outs(op, len(result._fields) + 1 if result else 2)
    return (*several(op, out, result), None) if result else (out, None)


def delivered(op: str, outs: tuple[Any, ...], results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results, in outs where those are given. If one is refused, none is written to."""
    given = [(i, out, x) for i, (out, x) in enumerate(zip(outs, results, strict=True)) if out is not None]
    for i, out, result in given:
        _refuse_unfit(op, f"out[{i}]", out, result)
    for _, out, result in given:
        copy_to(out, result)
    return tuple(result if out is None else out for out, result in zip(outs, results, strict=True))


def _refuse_unfit(op: str, name: str, out: Any, result: Any) -> None:
    if result is None:
        raise TypeError(f"{op}: {name} is given for a result that is not asked for")
    if getattr(result, "requires_grad", False):
        raise TypeError(
            f"{op}: {name} is given, but a derivative is wanted of the result, which is then a new array"
        )
    expected = np.ndarray if isinstance(result, np.ndarray | np.generic) else type(result)
    if not isinstance(out, expected):
        raise TypeError(
            f"{op}: {name} is a {type_name(out)}; expected a {expected.__module__}.{expected.__qualname__}"
        )
    if tuple(out.shape) != tuple(result.shape):
        raise ValueError(f"{op}: {name} has shape {tuple(out.shape)}; expected {tuple(result.shape)}")
    if isinstance(out, np.ndarray) and (unfit := unfit_out(op, name, out, result.dtype)) is not None:
        raise unfit


def run_from_the_right(
    op: str, gufunc: str, operands: dict[str, Any], out: Any, reason: Reason | None = None
) -> Any:
    """`run` for X of X A = B, which is the transpose of that of A^T X^T = B^T. The caller transposes A; a
    vector b is a row, as in a product."""
    operands = {**operands, "b": transposed(operands["b"])}
    is_vector = getattr(operands["b"], "ndim", 2) < 2
    given, *others = out.outs(op, 2) if type(out) is WithInfo else (out,)
    target = given if is_vector else transposed_out(given)
    results = run(f"{op} with left=False, of the transposes", gufunc, operands, (target, *others))
    x, *info = results if isinstance(results, tuple) else (results,)
    x = x if is_vector else transposed(x) if given is None else given
    return checked(op, (x, *info), reason, wanted=out) if reason else x


def transposed_out(out: Any) -> Any:
    """`out` transposed if it is an array; the call refuses anything else."""
    return transposed(out) if hasattr(out, "__dlpack__") or on_device(out) else out


def conjugated(x: Any) -> Any:
    """x, or its complex conjugate if it is complex."""
    if type(x) is np.ndarray:  # soon, for plain calls
        return x.conj() if x.dtype.kind == "c" else x
    values = without_labels(x)
    if not hasattr(values, "dtype"):
        try:
            values = np.asarray(values)
        except Exception:  # the call says why
            return x
    if not is_complex(values):
        return x
    if on_device(values) and not hasattr(values, "conj"):
        raise TypeError(f"a {type(x).__name__} on a device cannot be conjugated without a copy")
    return values.conj() if hasattr(values, "conj") else x


def transposed(x: Any) -> Any:
    x = without_labels(x)
    if not hasattr(x, "swapaxes"):
        if hasattr(x, "mT"):
            return x.mT if getattr(x, "ndim", 2) > 1 else x  # a group has no such number
        if on_device(x):
            raise TypeError(f"a {type(x).__name__} on a device cannot be transposed without a copy")
        try:
            x = np.asarray(x)
        except Exception:  # the call says why
            return x
    return x.swapaxes(-1, -2) if x.ndim > 1 else x  # the call refuses one dimension

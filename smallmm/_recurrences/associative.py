"""Prefixes of an associative function: of few long series, whose times are computed side by side."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .._base.errors import LinAlgError, shown
from .._calls.arrays import without_labels
from .._programs.arrays import on_host
from .._programs.compose import namespace_of
from .._programs.fuse import fuse
from .._programs.fused import Fused
from .scan import Scan
from .times import Times

_CHUNK = 64  # times that are combined one after the other; part of what results are
_steps: WeakKeyDictionary[Fused[..., Any], Fused[..., Any]] = WeakKeyDictionary()


def associative_scan(function: Callable[..., Any], xs: Any, *, reverse: bool = False) -> Any:
    """What an associative function makes of the first t of many, for each t.

    Other than `scan` it computes the times of a series side by side, which is faster where there are fewer
    series than threads of the processor.

    Parameters
    ----------
    function : callable
        ``(*a, *b) -> ab``, which are like a, of one pair: a function that `fuse` made, or one that it can,
        which without a signature takes numbers. It must be associative up to rounding.
    xs : array_like or tuple of array_like, shapes (times, ..., core)
        The elements.
    reverse : bool, default False
        From the last time to the first: result t is function of what the later times make, and of time t.

    Returns
    -------
    array or tuple of arrays, shapes (times, ..., core)
        Of times 0 to t; of reverse, from the last to t. In a tuple if xs are.

    Raises
    ------
    LinAlgError
        The function has failed somewhere in some series. The exception holds ``info``, shape (...), and
        ``result``, of which the others' are right.
    ValueError, TypeError
        As `scan`.

    See Also
    --------
    scan : one time after the other, for functions that are not associative, and for many series.

    Notes
    -----
    Chunks of 64 times are computed one time after the other, all at once; then so are the chunks' last
    results, and so on; and the function combines each with what came before its chunk. 2 calls of the
    function for each time, 4 passes over memory. The order depends on the number of times alone: bits do not
    change with threads, devices and batch.

    W. D. Hillis and G. L. Steele, "Data parallel algorithms" (1986); G. E. Blelloch, "Prefix sums and their
    applications" (1990).

    Examples
    --------
    >>> product = smallmm.fuse("(n,n),(n,n)->(n,n)")(lambda a, b: a @ b)
    >>> a = np.tile(np.array([[1.0, 1.0], [0.0, 1.0]]), (1000, 1, 1))
    >>> smallmm.associative_scan(product, a)[-1]
    array([[   1., 1000.],
           [   0.,    1.]])
    """
    name = "associative_scan"
    if not callable(function):
        raise TypeError(f"{name}: function is {shown(function)}; expected a function")
    fused = function if isinstance(function, Fused) else fuse(function)
    given = list(xs) if isinstance(xs, tuple) else [xs]
    arrays = [without_labels(x) for x in given]
    arrays = [x if hasattr(x, "dtype") and hasattr(x, "ndim") else np.asarray(x) for x in arrays]
    if not arrays or any(not x.ndim for x in arrays):
        raise ValueError(f"{name}: xs is {shown(xs)}; expected arrays with times as their first dimension")
    if len({x.shape[0] for x in arrays}) > 1:
        raise ValueError(
            f"{name}: xs have {', '.join(str(x.shape[0]) for x in arrays)} times; expected one number"
        )
    results, info = prefixes(fused, arrays, reverse)
    answer = tuple(results) if isinstance(xs, tuple) else results[0]
    if info.any():
        count = np.count_nonzero(info)
        raise LinAlgError(f"{name}: {fused._name} fails in {count} of {info.size} series", info, answer)
    return answer


def prefixes(function: Fused[..., Any], arrays: list[Any], reverse: bool) -> tuple[list[Any], np.ndarray]:
    """What `associative_scan` returns, and info of each series."""
    xp: Any = np if all(isinstance(x, np.ndarray) for x in arrays) else namespace_of(arrays[0])
    arrays = [xp.flip(x, axis=0) for x in arrays] if reverse else arrays
    failures: list[Any] = []
    results = _prefixes(function, arrays, xp, failures)
    results = [xp.flip(x, axis=0) for x in results] if reverse else results
    return results, _per_series(function._name, failures, arrays[0].ndim - 1 - len(function._inputs[0]))


def _prefixes(function: Fused[..., Any], arrays: list[Any], xp: Any, failures: list[Any]) -> list[Any]:
    """Results for each time. To failures info of each call is added, whose last dimensions are those of the
    batch."""
    times = arrays[0].shape[0]
    if times <= _CHUNK:
        return _one_by_one(function, arrays, xp, failures)
    chunks = times // _CHUNK
    heads = [xp.reshape(x[: chunks * _CHUNK], (chunks, _CHUNK, *x.shape[1:])) for x in arrays]
    heads = [xp.moveaxis(x, 1, 0) for x in heads]
    local = _one_by_one(function, heads, xp, failures)
    before = _prefixes(function, [x[-1] for x in local], xp, failures)
    local = [xp.moveaxis(x, 0, 1) for x in local]
    later = _combined(function, [x[:-1, None] for x in before], [x[1:] for x in local], failures)
    parts = [[x[0] for x in local], [xp.reshape(x, (-1, *x.shape[2:])) for x in later]]
    if rest := [x[chunks * _CHUNK :] for x in arrays if times % _CHUNK]:
        rest = _one_by_one(function, rest, xp, failures)
        parts.append(_combined(function, [x[-1:] for x in before], rest, failures))
    return [xp.concat(own, axis=0) for own in zip(*parts, strict=True)]


def _one_by_one(function: Fused[..., Any], arrays: list[Any], xp: Any, failures: list[Any]) -> list[Any]:
    """Results for each time, by a scan."""
    if function not in _steps:
        _steps[function] = _step_of(function)
    first = [x[:1] for x in arrays]
    if not arrays[0].shape[0]:
        return first
    rest = tuple(x[1:] for x in arrays)
    call = Scan("associative_scan", _steps[function], tuple(x[0] for x in arrays), rest, (), None, {})
    if not call.length:
        results = call.plan.results
        return [xp.asarray(x, dtype=getattr(xp, y.dtype.name)) for x, y in zip(first, results, strict=False)]
    found = call.run(Times(call.length, 1, False), None)
    if found.info is not None:
        failures.append(found.info[..., 0])
    first = [
        xp.broadcast_to(xp.asarray(x, dtype=y.dtype), (1, *y.shape[1:]))
        for x, y in zip(first, found.ys, strict=True)
    ]
    return [xp.concat([x, y], axis=0) for x, y in zip(first, found.ys, strict=True)]


def _combined(function: Fused[..., Any], a: list[Any], b: list[Any], failures: list[Any]) -> list[Any]:
    _, results, columns = function.parts(*a, *b)
    if columns is not None:
        codes = on_host(function._name, columns)
        first = (codes != 0).argmax(-1)
        failures.append(np.take_along_axis(codes, first[..., None], -1)[..., 0])
    return list(results)


def _per_series(name: str, failures: list[Any], batch: int) -> Any:
    """The first of a series' failures. batch: how many dimensions it has."""
    info: Any = np.int32(0)
    for own in failures:
        codes = on_host(name, own)
        codes = codes.reshape(-1, *codes.shape[codes.ndim - batch :])
        first = np.take_along_axis(codes, (codes != 0).argmax(axis=0)[None], axis=0)[0] if codes.size else 0
        info = np.where(info != 0, info, first)
    return info


def _step_of(function: Fused[..., Any]) -> Fused[..., Any]:
    """A step of a scan whose carry is kept, too."""

    def step(*arrays: Any) -> Any:
        results = function(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        return (*results, *results)

    made: Fused[..., Any] = Fused(step, ",".join(f"({','.join(dims)})" for dims in function._inputs))
    made.speak_as(function._name)
    made._names = function._names
    return made

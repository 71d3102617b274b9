"""Prefixes of an associative function: of few long series, whose times are computed side by side."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .._base.errors import LinAlgError, shown
from .._base.shapes import dtype_of
from .._calls.arrays import without_labels
from .._libraries import is_group, on_device, type_name
from .._libraries.dask import is_lazy
from .._programs.arrays import on_host
from .._programs.compose import namespace_of
from .._programs.cuda_steps import NotFused
from .._programs.fuse import fuse
from .._programs.fused import Fused
from .scan import Outcome, Scan
from .times import Times

_CHUNK = 32  # times that are combined one after the other; part of what results are
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
    What chunks of 32 times make is computed one time after the other, all chunks at once; then, in the same
    way, what all chunks before each make; from there each chunk is computed again. Of up to 32 times that is
    `scan`. 2 calls of the function for each time, 3 passes over memory. The order depends on the number of
    times alone: bits do not change with threads, devices and batch.

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
    for x in given:
        if is_group(x) or is_lazy(x):
            raise TypeError(f"{name}: xs has a {type_name(x)}; expected arrays, as of one length or chunk")
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
    cores = [len(dims) for dims in function._inputs[: len(arrays)]]
    batch = max(x.ndim - 1 - core for x, core in zip(arrays, cores, strict=True))
    series = _Series(function, batch)
    times = arrays[0].shape[0]
    results = series.on_device(arrays, reverse) if times > _CHUNK else None
    if results is None:
        xp: Any = np if all(isinstance(x, np.ndarray) for x in arrays) else namespace_of(arrays[0])
        aligned = [
            xp.reshape(x, (times, *[1] * (batch + 1 + core - x.ndim), *x.shape[1:]))
            for x, core in zip(arrays, cores, strict=True)
        ]
        aligned = [xp.flip(x, axis=0) for x in aligned] if reverse else aligned
        results = series.prefixes(aligned, xp)
        results = [xp.flip(x, axis=0) for x in results] if reverse else results
    return results, _per_series(function._name, series.failures, batch)


class _Series:
    """Series with so many batch dimensions. failures: codes, whose last dimensions those are."""

    def __init__(self, function: Fused[..., Any], batch: int) -> None:
        if function not in _steps:
            _steps[function] = _step_of(function)
        self.step = _steps[function]
        self.batch = batch
        self.failures: list[Any] = []

    def prefixes(self, arrays: list[Any], xp: Any) -> list[Any]:
        """Results for each time."""
        times = arrays[0].shape[0]
        if not times:
            return arrays
        first = [x[0] for x in arrays]
        if times <= _CHUNK:
            ys = self._scanned(first, [x[1:] for x in arrays]).ys
            return _after(xp, first, ys)
        whole, rest = divmod(times - 1, _CHUNK)
        totals, end = whole + (rest > 0) - 1, times - rest
        chunks = [xp.moveaxis(xp.reshape(x[1:end], (whole, _CHUNK, *x.shape[1:])), 1, 0) for x in arrays]
        made = self._scanned([x[0, :totals] for x in chunks], [x[1:, :totals] for x in chunks]).carry
        before = self.prefixes(_after(xp, first, made), xp)
        last = [x[whole] for x in before] if rest else [], [x[end:] for x in arrays]
        if xp is not np:
            parts = [
                [x[:1] for x in before],
                [
                    xp.reshape(xp.moveaxis(y, 0, 1), (-1, *y.shape[2:]))
                    for y in self._scanned([x[:whole] for x in before], chunks).ys
                ],
                *([self._scanned(*last).ys] if rest else []),
            ]
            return [xp.concat(list(own), axis=0) for own in zip(*parts, strict=True)]
        results = [np.empty((times, *x.shape[1:]), x.dtype) for x in before]
        for x, y in zip(results, before, strict=True):
            x[0] = y[0]
        outs = [x[1:end].reshape(whole, _CHUNK, *x.shape[1:]).swapaxes(0, 1) for x in results]
        self._scanned([x[:whole] for x in before], chunks, outs)
        if rest:
            self._scanned(*last, [x[end:] for x in results])
        return results

    def _scanned(self, carry: list[Any], xs: list[Any], out: list[Any] | None = None) -> Outcome:
        call = Scan("associative_scan", self.step, tuple(carry), tuple(xs), (), None, {})
        found = call.run(Times(call.length, 1, False), out)
        if found.info is not None:
            self.failures.append(found.info[..., 0])
        return found

    def on_device(self, arrays: list[Any], reverse: bool) -> list[Any] | None:
        """By kernels that one call of the core launches; None: there are none for such arrays."""
        if not on_device(arrays[0]):
            return None
        first, rest = tuple(x[0] for x in arrays), tuple(x[1:] for x in arrays)
        call = Scan("associative_scan", self.step, first, rest, (), None, {})
        program = None if call._must_be_called() else call.plan.on_device()
        same = all(dtype_of(x) == y.dtype for x, y in zip(arrays, call.plan.results, strict=False))
        if program is None or not same:
            return None
        try:
            loops = call._device_loops(program)
            results, failures = loops.prefixes(call.name, arrays, call.batch, _CHUNK, reverse)
        except NotFused as why:
            call.plan.why_not_on_device = str(why)
            return None
        self.failures += failures
        return results


def _after(xp: Any, first: list[Any], others: list[Any]) -> list[Any]:
    """One element, and after it others, for each array."""
    return [
        xp.concat([xp.broadcast_to(xp.asarray(x, dtype=y.dtype), (1, *y.shape[1:])), y], axis=0)
        for x, y in zip(first, others, strict=True)
    ]


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

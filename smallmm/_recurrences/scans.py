"""Scans: what a function makes of a state and of a measurement, again and again; and what the functions that
consist of scans share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from .._base.errors import LinAlgError, shown
from .._base.hooks import current
from .._base.options import flag, one_of
from .._libraries import is_group, library_of
from .._programs.arrays import any_failed, on_host
from .._programs.compose import array_of, namespace_of
from .._programs.explanation import FusedExplanation
from .._programs.fuse import Fused, fuse
from .operands import listed
from .parts import Argument, in_parts, needs_parts
from .scan import Outcome, Scan
from .times import Times


class ScanResult(NamedTuple):
    """The carry after the last time, and the other results of each time."""

    carry: Any
    ys: Any


class ScanExResult(NamedTuple):
    """The carry after the last time, the other results of each time, and for each series what failed first, 0
    if nothing did, and at what time, -1 if at none."""

    carry: Any
    ys: Any
    info: Any
    time: Any


def scan(
    function: Callable[..., Any],
    carry: Any,
    xs: Any = None,
    *,
    consts: Any = (),
    length: int | None = None,
    reverse: bool = False,
    outputs: Literal["all", "last"] = "all",
    every: int = 1,
    out: Any = None,
    progress: bool | Callable[[int, int], Any] = False,
    **options: Any,
) -> ScanResult:
    """Run a recurrence: a function of a state and of what comes at each time, which returns the next state.

    All times of a series run in one pass: the state stays in the cache, or in registers of a GPU, and only
    what comes and what is asked for moves.

    Parameters
    ----------
    function : callable
        ``(*carry, *x, *consts) -> (*carry, *y)`` of one series at one time: a function that `fuse` made, or
        one that it can, which without a signature takes numbers. The carries that it returns have the shapes
        of those that it takes.
    carry : array_like or tuple of array_like, shapes (..., core)
        The state before the first time.
    xs : array_like or tuple of array_like, shapes (times, ..., core), optional
        What comes at each time.
    consts : array_like or tuple of array_like, shapes (..., core), optional
        What is the same at all times. Batch dimensions of carry, of each time's xs and of consts broadcast.
    length : int, optional
        How many times there are, if there are no xs.
    reverse : bool, default False
        From the last time to the first.
    outputs : {"all", "last"}, default "all"
        ``"last"``: only the last time's ys, without a dimension of times. Steps on which they alone depend
        run once then.
    every : int, default 1
        Keep the ys of the last time, and of every so many-th before it.
    out : array or tuple of arrays, optional
        Where ys are written; None for those that are not to be.
    progress : bool or callable, default False
        True writes to standard error how many times have run; a function is called with their number and that
        of all, as ``progress(100, 1000)``.
    **options
        The function's own options.

    Returns
    -------
    ScanResult
        ``carry``, after the last time, in a tuple if it was given in one, shapes (..., core); ``ys``, the
        other results, shapes (times, ..., core): an array, or a tuple of none or of several.

    Raises
    ------
    LinAlgError
        Some series have failed at some time. The exception holds ``info`` and ``time``, shape (...), of the
        first failure of each, and ``result``: the others have gone on, and so have those that failed, with
        NaN.
    ValueError, TypeError
        As `fuse`; carry, xs and what function returns do not fit.

    See Also
    --------
    scan_ex : without an exception for series that fail.
    fuse : what function may do.

    Notes
    -----
    The times' sum of the function's operations. The bits are those of one call of the function for each time.
    The state is read and written once: a time moves the bytes of x and y. Arrays on a CUDA device take one
    kernel. Where PyTorch or JAX record or compile, and where a step has no kernel, the function is called for
    each time; ``explain(scan, function, carry, xs)`` says so.

    xs may be a `Group` of series of different lengths, whose members have shape (times, ..., core): each has
    the bits of a scan of its own. carry and consts serve all series, or have one batch entry for each in
    front. ys are a group, and the carry an array; so are ys with ``outputs="last"``, of each series' own last
    time. Dask's arrays give Dask's arrays, a scan for each chunk of series; time is one chunk.

    Examples
    --------
    Interest of 10 % on 1000 accounts, to which one comes each year:

    >>> year = smallmm.fuse(lambda account, paid: (1.1 * account + paid, account))
    >>> account, before = smallmm.scan(year, np.zeros(1000), np.ones((20, 1000)))
    >>> account.shape, before.shape
    ((1000,), (20, 1000))
    >>> account[0].round(2)
    np.float64(57.27)
    """
    given = {"length": length, "reverse": reverse, "outputs": outputs, "every": every, **options}
    if needs_parts((*listed(carry), *listed(xs), *listed(consts))):
        return _in_parts(scan, function, carry, xs, consts, out, progress=progress, **given)
    call, times = _call("scan", function, carry, xs, consts, **given)
    return _checked(call, times, call.run(times, out, progress), outputs)


def scan_ex(
    function: Callable[..., Any],
    carry: Any,
    xs: Any = None,
    *,
    consts: Any = (),
    length: int | None = None,
    reverse: bool = False,
    outputs: Literal["all", "last"] = "all",
    every: int = 1,
    out: Any = None,
    progress: bool | Callable[[int, int], Any] = False,
    check_errors: bool = False,
    **options: Any,
) -> ScanExResult:
    """As `scan`, without an exception for series that fail.

    Parameters
    ----------
    function, carry, xs, consts, length, reverse, outputs, every, out, progress, **options
        As for `scan`.
    check_errors : bool, default False
        Whether to raise for series that fail, as `scan` does.

    Returns
    -------
    ScanExResult
        ``carry`` and ``ys`` as `scan` returns them; ``info``, int32, shape (...), 0 or what was wrong first
        with a series; ``time``, int64, shape (...), when that was, -1 for series without failure. Both are
        of NumPy.

    Raises
    ------
    LinAlgError
        With `check_errors`, as `scan`.
    ValueError, TypeError
        As `scan`.

    Examples
    --------
    >>> invert = smallmm.fuse("(n,n),(n,n)->(n,n)")(lambda a, b: smallmm.inv(a) + b)
    >>> b = np.zeros((3, 2, 2, 2))
    >>> b[0, 1] = -np.eye(2)  # which makes the second matrix 0
    >>> smallmm.scan_ex(invert, np.eye(2), b).time
    array([-1,  1])
    """
    given = {"length": length, "reverse": reverse, "outputs": outputs, "every": every, **options}
    if needs_parts((*listed(carry), *listed(xs), *listed(consts))):
        given |= {"progress": progress, "check_errors": check_errors}
        return _in_parts(scan_ex, function, carry, xs, consts, out, **given)
    call, times = _call("scan_ex", function, carry, xs, consts, **given)
    outcome = call.run(times, out, progress)
    raises = flag("scan_ex", "check_errors", check_errors)
    result = _checked(call, times, outcome, outputs) if raises else _result(call, outcome, outputs)
    return ScanExResult(*result, *_failures(call, outcome, times))


def _explain(
    function: Callable[..., Any],
    carry: Any,
    xs: Any = None,
    *,
    out: Any = None,
    progress: Any = False,
    check_errors: bool = False,
    **arguments: Any,
) -> FusedExplanation:
    """How a scan would run; the named arguments do not matter."""
    if any(is_group(x) for x in (*listed(carry), *listed(xs), *listed(arguments.get("consts")))):
        raise TypeError("explain: a Group takes a scan for each length; explain that of one of its members")
    if (settings := current()) is not None:
        return cast(FusedExplanation, settings.explain(scan, (function, carry, xs), out, arguments))
    call, times = _call("scan", function, carry, xs, **arguments)
    return call.explain(times)


scan.explain = scan_ex.explain = _explain  # type: ignore[attr-defined]


def scanned(
    name: str,
    function: Callable[..., Any],
    carry: Any,
    xs: Any,
    consts: Any = (),
    *,
    reverse: bool = False,
    outputs: str = "all",
) -> ScanResult:
    """A scan within a public function, which messages name."""
    call, times = _call(name, function, carry, xs, consts, reverse=reverse, outputs=outputs)
    return _checked(call, times, call.run(times, None), outputs)


@contextmanager
def results_as(make: Callable[[Any], Any]) -> Iterator[None]:
    """Context of a scan whose exception is to have what a function makes of the scan's result."""
    try:
        yield
    except LinAlgError as error:
        error.result = make(error.result)
        raise


def _in_parts(public: Any, function: Any, carry: Any, xs: Any, consts: Any, out: Any, **options: Any) -> Any:
    """What `in_parts` makes of `scan` or `scan_ex`."""
    lists = {"carry": listed(carry), "xs": listed(xs), "consts": listed(consts)}
    name = public.__name__
    fused = _fused(name, function)
    given = [(label, f"{label}[{i}]", x) for label, own in lists.items() for i, x in enumerate(own)]
    arguments = {
        place: Argument(x, len(dims), label == "xs")
        for (label, place, x), dims in zip(given, fused._inputs, strict=False)
    }
    kind = type(carry) if isinstance(carry, tuple | list) else None
    has_times = options["outputs"] == "all"
    timed = (False, has_times, False, False)[: 2 if public is scan else 4]
    return in_parts(name, partial(_of_arrays, public, fused, kind, options), arguments, timed, out)


def _of_arrays(public: Any, function: Any, kind: Any, options: dict[str, Any], **arrays: Any) -> Any:
    """`scan` or `scan_ex` of arrays that are named as in messages. kind: of tuple that the carry is; None: it
    is one array."""
    carry, xs, consts = (
        [x for place, x in arrays.items() if place.startswith(label)] for label in ("carry", "xs", "consts")
    )
    state = carry[0] if kind is None else kind(*carry) if hasattr(kind, "_fields") else tuple(carry)
    return public(function, state, tuple(xs) or None, consts=tuple(consts), **options)


def _fused(name: str, function: Any) -> Fused[..., Any]:
    if not callable(function):
        raise TypeError(f"{name}: function is {shown(function)}; expected a function")
    return function if isinstance(function, Fused) else fuse(function)


def _call(
    name: str,
    function: Any,
    carry: Any,
    xs: Any,
    consts: Any = (),
    length: int | None = None,
    reverse: bool = False,
    outputs: str = "all",
    every: int = 1,
    **options: Any,
) -> tuple[Scan, Times]:
    fused = _fused(name, function)
    one_of(name, "outputs", outputs, ("all", "last"))
    if not isinstance(every, int | np.integer) or every < 1:
        raise ValueError(f"{name}: every is {shown(every)}; expected an integer of at least 1")
    call = Scan(name, fused, carry, xs, consts, length, options)
    every = max(1, call.length) if outputs == "last" else int(every)
    return call, Times(call.length, every, bool(reverse))


def _checked(call: Scan, times: Times, outcome: Outcome, outputs: str) -> ScanResult:
    result = _result(call, outcome, outputs)
    if outcome.info is not None and any_failed(call.name, outcome.info[..., 0]):
        raise call.error(outcome, result, _failures(call, outcome, times)[1])
    return result


def _result(call: Scan, outcome: Outcome, outputs: str) -> ScanResult:
    ys = [y[0] for y in outcome.ys] if outputs == "last" and call.length else outcome.ys
    return ScanResult(call.carry_of(outcome.carry), ys[0] if len(ys) == 1 else tuple(ys))


def _failures(call: Scan, outcome: Outcome, times: Times) -> tuple[Any, Any]:
    """Info, and the time of each first failure, -1 where nothing failed; on the host, or traced."""
    if outcome.info is None:
        return np.zeros(call.batch, np.int32), np.full(call.batch, -1)
    is_traced = library_of(outcome.info).is_traced(outcome.info)
    info = outcome.info if is_traced else on_host(call.name, outcome.info)
    xp: Any = namespace_of(info)
    ran = xp.asarray(info[..., 1], dtype=int) - 1
    return info[..., 0], xp.where(ran < 0, -1, times.length - 1 - ran if times.reverse else ran)


def in_time(name: str, arrays: dict[str, Any], cores: dict[str, str]) -> dict[str, Any]:
    """Arrays whose first dimension is time, as many in each. cores: the last dimensions, as "n,n"."""
    made = {label: array_of(name, label, x) for label, x in arrays.items()}
    for label, x in made.items():
        if x.ndim < 2 + cores[label].count(","):
            wanted = f"(T, ..., {cores[label].replace(',', ', ')})"
            raise ValueError(f"{name}: {label} has shape {tuple(x.shape)}; expected {wanted}: time first")
    lengths = {label: x.shape[0] for label, x in made.items()}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{label} has {n}" for label, n in lengths.items())
        raise ValueError(f"{name}: {given} times; expected as many in each")
    return made


def joined(*arrays: Any) -> Any:
    """One after the other in time; those of one time broadcast to the batch of the others."""
    shape = np.broadcast_shapes(*(tuple(x.shape)[1:] for x in arrays))
    arrays = tuple(x for x in arrays if x.shape[0]) or arrays[:1]
    xp: Any = namespace_of(arrays[0])
    whole = [x if tuple(x.shape)[1:] == shape else xp.broadcast_to(x, (1, *shape)) for x in arrays]
    return xp.concatenate(whole) if xp is np else xp.concat(whole)


def zeros_like(x: Any) -> Any:
    return namespace_of(x).zeros_like(x)

"""Arrays of the host through devices: a call's matrices go up in blocks, on several streams, and its results
come down.

What runs here is the gufunc that a function has chosen, or the program of a fused function: functions check
the results, infos among them, as those of the CPU. `work` divides it into blocks, `streams`
moves and computes them, and `cost` says what that costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from .. import _core
from .._base.catalog import FUNCTIONS
from .._base.composition import Composition
from .._base.errors import LinAlgError, explain_failure, explain_pivots, shown
from .._base.hooks import offloaded
from .._base.options import integer
from .._base.shapes import NUMBERS, number_dtype, takes_complex_on_device
from .._functions.explain import explain
from .._libraries import on_device, type_name
from .._libraries.base import overrides_ufuncs
from .._programs.cuda_launch import DeviceProgram
from .._programs.cuda_steps import NotFused
from .cost import OffloadExplanation, expected
from .streams import empty_cache, run
from .work import Call, Plan, Program, Work

__all__ = ["OffloadExplanation", "Settings", "empty_cache", "offload", "offloading"]

STREAMS = 4


class Settings:
    """How calls are offloaded. With `plans`, none is: it gets their plans."""

    def __init__(self, devices: tuple[int, ...], block: int | None, streams: int, strict: bool) -> None:
        self.devices = devices
        self.block = block  # bytes; None: as many as are good
        self.streams = streams
        self.strict = strict  # calls that no device takes are errors
        self.plans: list[Plan] | None = None
        self.calls = 0
        self.why = ""  # a fused function did not run as one kernel

    @property
    def lanes(self) -> int:
        """Streams of all devices."""
        return self.streams * max(1, len(self.devices))

    def call(
        self, op: str, gufunc: Any, operands: dict[str, Any], targets: dict[str, Any], kwargs: dict[str, Any]
    ) -> Any:
        """``gufunc(*operands.values(), *targets.values())`` through the devices; NotImplemented if they do
        not take it."""
        why = _why_not(op, gufunc, operands, targets, kwargs)
        if why is None and isinstance(gufunc, Composition):
            results = self._composed(gufunc, operands, targets)
            if results is not None:
                return results
            why = "its steps are several kernels, or depend on elements"
        elif why is None:
            call = Call(op, gufunc, operands, targets)
            if call.is_empty():  # which needs no device
                self.calls += 1
                return NotImplemented
            why = call.why_not()
        if why is not None:
            if self.strict:
                raise NotImplementedError(f"offload: no device takes {op}: {why}")
            return NotImplemented
        self.calls += 1
        if self.plans is not None:
            results = self._planned(call)
            return results[0] if len(results) == 1 else tuple(results)
        if "pivots" in operands:
            wrong = explain_pivots(op, gufunc, operands["pivots"])
            if wrong is not None:
                raise wrong
        run(call, self.devices, self.streams, self.block)
        results = call.answer()
        return results[0] if len(results) == 1 else tuple(results)

    def program(
        self,
        program: DeviceProgram,
        names: list[str],
        operands: list[np.ndarray],
        batch: tuple[int, ...],
        targets: tuple[np.ndarray, ...],
    ) -> Any:
        """The outputs of a fused function, a list; one kernel computes each block of matrices.
        NotImplemented if its steps must run one after the other. `NotFused`: there is no kernel."""
        work = Program(program, names, operands, batch, targets)
        if work.is_empty():
            self.calls += 1
            return NotImplemented
        if why := work.why_not():
            self.why = why
            return NotImplemented
        if self.plans is not None:
            program.check(operands)
            results = self._planned(work)
        else:
            run(work, self.devices, self.streams, self.block)
            results = work.answer()
        self.calls += 1
        return results

    def _composed(self, composition: Composition, operands: dict[str, Any], targets: dict[str, Any]) -> Any:
        """The answer of a composition; NotImplemented if there is nothing to compute, None if no kernel has
        all of its steps."""
        given = [type(x) if type(x) in NUMBERS else np.asarray(x).dtype for x in operands.values()]
        dtype = composition.resolve_dtypes((*given, *(None,) * composition.nout))[0]
        arrays = [np.asarray(x).astype(dtype, copy=False) for x in operands.values()]
        plan = composition.device_plan(arrays)
        if plan is None:
            return None
        outs = (*targets.values(), *(None,) * composition.nout)[: composition.nout]
        batch = composition.batch_of(arrays)
        try:
            results = self.program(
                plan.on_device(), list(operands), arrays, batch, plan.targets(arrays, outs, batch)
            )
        except NotFused as why:
            plan.why_not_on_device = str(why)
            return None
        if results is NotImplemented:
            return results
        for i, out in enumerate(outs):
            if out is not None and results[i] is not out:
                np.copyto(out, results[i], casting="same_kind")
                results[i] = out
        return results[0] if len(results) == 1 else tuple(results)

    def _planned(self, work: Work) -> list[np.ndarray]:
        """Results in memory that is not touched."""
        assert self.plans is not None
        self.plans.append(work.plan(self.block, self.lanes))
        return [np.zeros(x.shape, x.dtype) for x in work.wholes]

    def meets(self, explain: Callable[[], Any]) -> None:
        """Its parts are offloaded."""

    def explain(
        self, function: Any, arrays: tuple[Any, ...], out: Any, options: dict[str, Any]
    ) -> OffloadExplanation:
        """What `explain` says in a context with these settings."""
        return explained(self, function, arrays, out, options)


def _why_not(
    op: str, gufunc: Any, operands: dict[str, Any], targets: dict[str, Any], kwargs: dict[str, Any]
) -> str | None:
    """Why no device takes a call, if that is known without its sizes. An exception if they do not fit."""
    if kwargs:
        return f"{next(iter(kwargs))} is given"
    if any(map(overrides_ufuncs, operands.values())):
        return "an operand is no array of NumPy"
    if (wrong := explain_failure(op, gufunc, operands, targets, {})) is not None:
        raise wrong
    if isinstance(gufunc, Composition):
        return None
    number = number_dtype(gufunc, operands)
    takes = number.kind != "c" or takes_complex_on_device(gufunc)
    return None if takes else f"it has no kernels for {number}"


# --- the public functions ---------------------------------------------------------------------------------


def offload(
    function: Callable[..., Any],
    /,
    *arrays: Any,
    device: int | str | Sequence[int] = 0,
    block: int | None = None,
    streams: int | None = None,
    out: Any = None,
    **options: Any,
) -> Any:
    """``function(*arrays, out=out, **options)`` of arrays on the host, computed by a GPU.

    Parameters
    ----------
    function : callable
        A function of smallmm, a fused one, or another that calls them.
    *arrays : array_like, shape (..., m, n) and so on
        What the function takes, on the host and of any size.
    device : int, "all", or sequence of int
        The device, or several, which share the blocks.
    block : int, optional
        Bytes of the operands and results of a block of matrices, by default up to 32 MiB. It is halved while
        a device has not enough memory.
    streams : int, optional
        Blocks that are under way at a time on each device, 3 by default.
    out : array or tuple of arrays, optional
        As of the function.
    **options
        The function's own keywords.

    Returns
    -------
    As of the function: arrays of NumPy, or of the library of `arrays`.

    Raises
    ------
    CudaUnavailableError
        There is no driver, no such device, or no NVRTC.
    NotImplementedError
        No device takes the call: orders without a kernel, or functions that are composed of others and have
        no one kernel, as those whose steps depend on elements.
    MemoryError
        A device has no memory for one matrix, or the host none that can be page-locked.
    TypeError, ValueError, LinAlgError
        An array is on a device; or the function raises it. Indices are those of the whole stack.

    See Also
    --------
    offloading : the same for all calls in a context.

    Notes
    -----
    Results have the bits of the plain call. Arrays of `empty_pinned` or `pin` move without the CPU; others
    are copied by smallmm's threads to page-locked memory, which is kept for later calls until `empty_cache`.
    Operands without batch dimensions are moved once, and so are two views of one memory. Of a fused function
    one kernel computes all steps of a block, where it has them all. Any other function that makes several
    calls moves the results between them. ``explain(offload, function, *arrays)`` says what
    would be moved, and whether it pays.
    """
    name = _name_of("offload", function)
    settings = _settings("offload", device, block, streams, strict=True)
    for i, x in enumerate(_flat(arrays)):
        if on_device(x):
            raise TypeError(
                f"offload: argument {i} of {name} is a {type_name(x)} on a device; expected arrays on the "
                "host"
            )
    _open(settings)
    with offloaded(settings):
        result = function(*arrays, **options, **({} if out is None else {"out": out}))
    if not settings.calls:
        raise NotImplementedError(f"offload: {name} makes no call that a device takes")
    return result


@contextmanager
def offloading(
    *, device: int | str | Sequence[int] = 0, block: int | None = None, streams: int | None = None
) -> Iterator[None]:
    """Context in which this thread's calls on arrays of the host are computed by a GPU.

    Parameters
    ----------
    device, block, streams
        As of `offload`.

    Raises
    ------
    CudaUnavailableError
        On entry: there is no driver or no such device.

    Notes
    -----
    Calls that no device takes are computed by the CPU, as they are outside. In the context `explain` says
    what a call would move.
    """
    settings = _settings("offloading", device, block, streams, strict=False)
    _open(settings)
    with offloaded(settings):
        yield


def _name_of(op: str, function: Any) -> str:
    if not callable(function):
        raise TypeError(f"{op}: function is {shown(function)}; expected a function of smallmm")
    return str(getattr(function, "__name__", function))


def _settings(op: str, device: Any, block: Any, streams: Any, strict: bool) -> Settings:
    if isinstance(device, str):
        if device != "all":
            raise ValueError(f"{op}: device is {shown(device)}; expected a number, numbers or 'all'")
        devices: tuple[int, ...] = ()  # counted when they are opened
    elif isinstance(device, Sequence):
        devices = tuple(integer(op, "device", x) for x in device)
        if not devices or len(set(devices)) < len(devices):
            raise ValueError(f"{op}: device is {shown(device)}; expected different numbers")
    else:
        devices = (integer(op, "device", device),)
    for name, value in (("block", block), ("streams", streams)):
        if value is not None:
            integer(op, name, value, least=1)
    return Settings(devices, block, STREAMS if streams is None else streams, strict)


def _open(settings: Settings) -> None:
    """CudaUnavailableError if a device is not there."""
    settings.devices = settings.devices or tuple(range(_core.cuda_count()))
    for device in settings.devices or (0,):
        _core.cuda_device(device)


def _flat(x: Any) -> list[Any]:
    return [z for y in x for z in _flat(y)] if isinstance(x, tuple | list) else [x]


# --- what `explain` says ----------------------------------------------------------------------------------


def explained(
    settings: Settings, function: Any, arrays: tuple[Any, ...], out: Any, options: dict[str, Any]
) -> OffloadExplanation:
    """What `explain` says of an offloaded call. No device is used."""
    name = function if isinstance(function, str) else _name_of("explain", function)
    with offloaded(None):
        host = explain(function, *arrays, out=out, **options)
    if name in FUNCTIONS:
        function = FUNCTIONS[name].function
    planned = Settings(settings.devices, settings.block, settings.streams, strict=True)
    planned.plans = []
    given = {} if out is None else {"out": out}
    with offloaded(planned), suppress(LinAlgError):
        function(*arrays, **options, **given)
    return expected(name, settings.devices, planned.plans, planned.why, host)


def _explain(
    function: Any,
    /,
    *arrays: Any,
    device: Any = 0,
    block: int | None = None,
    streams: int | None = None,
    out: Any = None,
    **options: Any,
) -> OffloadExplanation:
    """``explain(offload, function, *arrays, ...)``."""
    settings = _settings("offload", device, block, streams, strict=True)
    return explained(settings, function, arrays, out, options)


offload.explain = _explain  # type: ignore[attr-defined]

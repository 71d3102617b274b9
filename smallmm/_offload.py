"""Arrays of the host through devices: a call's matrices go up in blocks, on several streams, and its results
come down.

Each stream has a thread of Python and a `_Lane`: memory on the device for one block, and page-locked slots
for what lies in ordinary memory. While one lane waits, the others copy, so that all directions are busy.
What runs here is the gufunc that a function has chosen, or the program of a fused function: functions check
the results, infos among them, as those of the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product, zip_longest
from math import prod
from threading import Lock, Thread
from typing import Any, NamedTuple

import numpy as np

from . import _core, cuda
from ._adapters import on_device, type_name
from ._adapters.base import overrides_ufuncs
from ._catalog import FUNCTIONS
from ._device_programs import DeviceProgram
from ._errors import LinAlgError, explain_failure, explain_pivots, shown
from ._explain import Explanation, FusedExplanation, explain
from ._offloading import offloaded
from ._options import integer
from ._shapes import (
    absent_dimensions,
    broadcast_shapes,
    computed_dtypes,
    core_dimensions,
    core_sizes,
    is_rectangular,
    narrow_dtype,
    number_dtype,
    takes_complex_on_device,
    with_dimensions,
)
from ._transfers import DeviceArray, address_of, dense_strides, is_dense, memory_order

BLOCK = 32 << 20  # bytes of a block, by default; but
LEAST_BLOCK = 1 << 20  # down to this so many that each stream
ROUNDS = 4  # gets several blocks
STREAMS = 4
_LINE = 256  # bytes to a multiple of which operands begin


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

    def call(
        self, op: str, gufunc: Any, operands: dict[str, Any], targets: dict[str, Any], kwargs: dict[str, Any]
    ) -> Any:
        """``gufunc(*operands.values(), *targets.values())`` through the devices; NotImplemented if they do
        not take it."""
        why = _why_not(op, gufunc, operands, targets, kwargs)
        if why is None:
            call = _Call(op, gufunc, operands, targets)
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
        call.run(self)
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
        """The outputs of a fused function, a list, of which one kernel computes each block of matrices;
        NotImplemented if its steps must run one after the other. `NotFused`: there is no kernel."""
        work = _Program(program, names, operands, batch, targets)
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
            work.run(self)
            results = work.answer()
        self.calls += 1
        return results

    def _planned(self, work: _Work) -> list[np.ndarray]:
        """Results of which no page is touched."""
        assert self.plans is not None
        self.plans.append(work.plan(self))
        return [np.zeros(x.shape, x.dtype) for x in work.wholes]

    def explain(
        self, function: Any, arrays: tuple[Any, ...], out: Any, options: dict[str, Any]
    ) -> OffloadExplanation:
        """What `explain` says in a context with these settings."""
        return explained(self, function, arrays, out, options)


class Plan(NamedTuple):
    """How a gufunc's call, or a program, is divided."""

    matrices: int  # of a block
    blocks: int
    lanes: int  # of all devices
    up: int  # bytes
    down: int
    staged: int  # bytes of what is copied to or from page-locked memory
    operation: str


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
        No device takes the call: orders without a kernel, functions that are composed of others and of
        element-wise operations.
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


def empty_cache() -> None:
    """Release the memory, on devices and page-locked, that offloaded calls keep for the next one."""
    with _idle_lock:
        _idle.clear()


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
        if value is not None and integer(op, name, value) < 1:
            raise ValueError(f"{op}: {name} is {value}; expected at least 1")
    return Settings(devices, block, STREAMS if streams is None else streams, strict)


def _open(settings: Settings) -> None:
    """CudaUnavailableError if a device is not there."""
    settings.devices = settings.devices or tuple(range(_core.cuda_count()))
    for device in settings.devices or (0,):
        _core.cuda_device(device)


def _flat(x: Any) -> list[Any]:
    return [z for y in x for z in _flat(y)] if isinstance(x, tuple | list) else [x]


# --- calls ------------------------------------------------------------------------------------------------


class _Operand:
    """An input or output of a call: the array of the host, aligned with the batch dimensions."""

    def __init__(self, x: np.ndarray, core: int, dims: int, moved: np.dtype) -> None:
        missing = dims - (x.ndim - core)
        x = x[(None,) * missing + (...,)]
        self.core_shape = x.shape[dims:]
        once = tuple(
            slice(0, 1) if n > 1 and step == 0 else slice(None)
            for n, step in zip(x.shape, x.strides, strict=True)
        )
        self.array = x[(*once, ...)]  # each element once; never a scalar
        self.dims = dims
        self.dtype = moved
        self.pinned = False

    def of_block(self, block: tuple[slice, ...]) -> np.ndarray:
        own: list[Any] = [
            part if n > 1 else slice(None) for part, n in zip(block, self.array.shape, strict=False)
        ]
        return self.array[(*own, ...)]

    def varies(self, axis: int) -> bool:
        """Whether blocks that are parts of this axis, and of those before it, differ."""
        return any(n > 1 for n in self.array.shape[: min(axis + 1, self.dims)])

    def bytes_of(self, x: np.ndarray) -> int:
        return _up(x.size * self.dtype.itemsize)

    def moves_itself(self, x: np.ndarray) -> bool:
        """Whether the device reads or writes the array's own memory."""
        return self.pinned and x.dtype == self.dtype and is_dense(x, memory_order(x))


def _up(size: int) -> int:
    return -(-size // _LINE) * _LINE


def _why_not(
    op: str, gufunc: Any, operands: dict[str, Any], targets: dict[str, Any], kwargs: dict[str, Any]
) -> str | None:
    """Why no device takes a call, if that is known without its sizes. An exception if they do not fit."""
    if not isinstance(gufunc, np.ufunc):
        return "it is composed of other functions and of element-wise operations"
    if kwargs:
        return f"{next(iter(kwargs))} is given"
    if any(map(overrides_ufuncs, operands.values())):
        return "an operand is no array of NumPy"
    wrong = explain_failure(op, gufunc, operands, targets, {})
    if wrong is not None:
        raise wrong
    number = number_dtype(gufunc, operands)
    takes = number.kind != "c" or takes_complex_on_device(gufunc)
    return None if takes else f"it has no kernels for {number}"


class _Work:
    """What goes through devices: arrays of NumPy that fit each other, and what computes a block of them."""

    operation = ""  # of which the rates are known
    batch: tuple[int, ...]
    inputs: list[Any]  # _Operand, or a number
    outputs: list[_Operand]
    given: list[Any]  # the caller's arrays for results, or None
    wholes: list[np.ndarray]  # the memory of results
    updates = False  # the first result is added to what was there

    def launch(self, stream: int, arrays: list[Any], results: list[DeviceArray]) -> None:
        """One block, on the device that these are on."""
        raise NotImplementedError

    # --- dividing

    def _division(self, most: int) -> tuple[int, int]:
        """The axis that blocks of up to `most` matrices are parts of, and their length along it."""
        for axis in range(len(self.batch)):
            rest = prod(self.batch[axis + 1 :])
            if rest <= most:
                return axis, min(self.batch[axis], most // rest)
        return -1, 1

    def _blocks(self, most: int) -> list[tuple[slice, ...]]:
        axis, step = self._division(most)
        if axis < 0:
            return [()]
        ends = [*([1] * axis), step]
        starts = product(*(range(0, n, by) for n, by in zip(self.batch, ends, strict=False)))
        rest = (slice(None),) * (len(self.batch) - axis - 1)
        return [(*(slice(i, i + by) for i, by in zip(start, ends, strict=True)), *rest) for start in starts]

    def most(self, settings: Settings) -> int:
        """Matrices of a block."""
        each = sum(
            prod(x.core_shape) * x.dtype.itemsize
            for x in (*self._arrays(), *self.outputs)
            if x.varies(len(self.batch))
        )
        count = prod(self.batch)
        block = settings.block
        if block is None:
            lanes = settings.streams * max(1, len(settings.devices))
            block = min(BLOCK, max(LEAST_BLOCK, count * each // (lanes * ROUNDS)))
        return max(1, min(count, block // max(1, each)))

    def _arrays(self) -> list[_Operand]:
        return [x for x in self.inputs if isinstance(x, _Operand)]

    def plan(self, settings: Settings) -> Plan:
        most = self.most(settings)
        ups = list({_memory_of(x.array): x for x in self._arrays()}.values())
        ups += self.outputs[:1] if self.updates else []
        for x in (*ups, *self.outputs):
            x.pinned = _is_our_pinned(x.array)
        blocks = len(self._blocks(most))
        return Plan(
            most,
            blocks,
            min(blocks, settings.streams * max(1, len(settings.devices))),
            sum(x.array.size * x.dtype.itemsize for x in ups),
            sum(x.array.size * x.dtype.itemsize for x in self.outputs),
            sum(x.array.nbytes for x in (*ups, *self.outputs) if not x.moves_itself(x.array)),
            self.operation,
        )

    # --- running

    def run(self, settings: Settings) -> None:
        for x in (*self._arrays(), *self.outputs):
            low, high = np.lib.array_utils.byte_bounds(x.array)
            x.pinned = _core.cuda_is_pinned(settings.devices[0], low, high - low)
        most = self.most(settings)
        while True:
            try:
                _Stream(self, settings, most).run()
                return
            except MemoryError:
                empty_cache()
                if most == 1:
                    raise
                most = max(1, most // 2)

    def answer(self) -> list[Any]:
        results = []
        for out, whole in zip(self.given, self.wholes, strict=True):
            if out is not None and whole is not out:
                np.copyto(out, whole, casting="same_kind")
            results.append(whole[()] if out is None else out)
        return results


class _Call(_Work):
    """A gufunc's call on arrays of NumPy that fit each other."""

    def __init__(self, op: str, gufunc: np.ufunc, operands: dict[str, Any], targets: dict[str, Any]) -> None:
        self.gufunc = gufunc
        self.operation = _core.gufunc_rows[gufunc.__name__][0]
        self.labels = tuple(f"{op}: {name}" for name in (*operands, *["a result"] * gufunc.nout))
        arrays = {name: np.asarray(x) for name, x in operands.items()}
        inputs, outputs = core_dimensions(gufunc)
        absent = absent_dimensions(arrays.values(), inputs)  # which are of length 1 on the device
        self.sizes = {**dict.fromkeys(absent, 1), **core_sizes(gufunc, arrays)}
        self.computed = number = number_dtype(gufunc, operands)
        narrow = narrow_dtype(gufunc, operands)
        own = [narrow or dtype for dtype in computed_dtypes(gufunc, operands, {})]
        moved = computed_dtypes(gufunc, operands, {})
        full = [with_dimensions(x, dims, absent) for x, dims in zip(arrays.values(), inputs, strict=True)]
        cores = [len(dims) for dims in inputs]
        stacks = [x.shape[: x.ndim - core] for x, core in zip(full, cores, strict=True)]
        given = list(targets.values())[: gufunc.nout]
        out_shapes = [
            tuple(self.sizes[dim.rstrip("?")] for dim in dims if dim not in absent) for dims in outputs
        ]
        stacks += [
            x.shape[: x.ndim - len(shape)]
            for x, shape in zip(given, out_shapes, strict=False)
            if x is not None
        ]
        self.batch = broadcast_shapes(*stacks)
        dims = len(self.batch)
        self.inputs = [
            float(x) if core == 0 and x.ndim == 0 else
            _Operand(x, core, dims, np.dtype(np.int32) if name == "pivots" else number)
            for name, x, core in zip(arrays, full, cores, strict=True)
        ]  # fmt: skip
        self.given = [x for x, _ in zip_longest(given, range(gufunc.nout))]
        beta = operands.get("beta", 0) if gufunc.__name__ == "gemm" else 0
        self.updates = bool(np.any(np.asarray(beta) != 0)) and self.given[0] is not None
        self.wholes = [
            self._whole(out, self.batch + shape, dtype, list(arrays.values()))
            for out, shape, dtype in zip(self.given, out_shapes, own, strict=True)
        ]
        self.outputs = [
            _Operand(with_dimensions(x, names, absent), len(names), dims, dtype)
            for x, names, dtype in zip(self.wholes, outputs, moved, strict=True)
        ]

    def _whole(
        self, out: Any, shape: tuple[int, ...], dtype: np.dtype, arrays: list[np.ndarray]
    ) -> np.ndarray:
        """The memory of a result: the caller's, unless it overlaps an operand."""
        if out is None:
            return np.empty(shape, dtype)
        if not any(np.may_share_memory(out, x) for x in arrays):
            return np.asarray(out)
        return np.array(out) if self.updates else np.empty(shape, out.dtype)

    def why_not(self) -> str | None:
        sizes = self.sizes
        m, k, n = (sizes.get(dim, 1) for dim in "mkn")
        if self.operation != "MATMUL":
            m = sizes.get("m", n)
        if len(self.batch) > _core.limits["cuda_dimensions"] - 2:
            return f"there are {len(self.batch)} batch dimensions"
        if is_rectangular(self.gufunc) or not cuda.has_kernel_for(
            self.operation, self.computed, m, max(k, 1), n
        ):
            return f"it has no kernels for {', '.join(f'{dim} = {size}' for dim, size in sizes.items())}"
        return None

    def is_empty(self) -> bool:
        return 0 in self.batch or 0 in self.sizes.values()

    def launch(self, stream: int, arrays: list[Any], results: list[DeviceArray]) -> None:
        _core.device_run(self.gufunc, stream, *arrays, *results, labels=self.labels)


class _Program(_Work):
    """A fused function's program on arrays of NumPy."""

    def __init__(
        self,
        program: DeviceProgram,
        names: list[str],
        operands: list[np.ndarray],
        batch: tuple[int, ...],
        targets: tuple[np.ndarray, ...],
    ) -> None:
        self.program = program
        self.names = names
        self.batch = batch
        dims = len(batch)
        described = program.described
        self.inputs = [
            x if x.ndim == 0 else _Operand(x, len(shape), dims, x.dtype)
            for x, (_, _, shape, _) in zip(operands, described.inputs, strict=True)
        ]
        self.given = list(targets) or [None] * len(described.outputs)
        self.wholes = list(targets) or [
            np.empty(batch + shape, dtype) for _, dtype, shape, _ in described.outputs
        ]
        self.outputs = [
            _Operand(x, len(shape), dims, x.dtype)
            for x, (_, _, shape, _) in zip(self.wholes, described.outputs, strict=True)
        ]

    def why_not(self) -> str:
        most = max(x.array.ndim for x in (*self._arrays(), *self.outputs))
        if most > _core.limits["cuda_dimensions"]:
            return f"arrays have {most} dimensions"
        return "" if self._arrays() else "all operands are numbers"

    def is_empty(self) -> bool:
        return any(x.size == 0 for x in self.wholes)

    def launch(self, stream: int, arrays: list[Any], results: list[DeviceArray]) -> None:
        self.program.launch(self.names, arrays, results, stream)


def _memory_of(x: np.ndarray) -> tuple[Any, ...]:
    """The same for views of the same elements."""
    order = memory_order(x)
    sizes = tuple((x.shape[d], x.strides[d]) for d in order if x.shape[d] > 1)
    return address_of(x), x.dtype, sizes


class _Stream:
    """One pass of a call's blocks."""

    def __init__(self, call: _Work, settings: Settings, most: int) -> None:
        self.call = call
        self.axis, _ = call._division(most)
        self.blocks = call._blocks(most)
        self.next = iter(self.blocks)
        self.lock = Lock()
        self.error: BaseException | None = None
        self.devices = settings.devices
        self.count = min(len(self.blocks), settings.streams * len(self.devices))
        self.shared: dict[int, dict[int, DeviceArray]] = {}

    def run(self) -> None:
        """All blocks, or the first exception, once no device uses the caller's memory any longer."""
        lanes: list[_Lane] = []
        try:
            for i in range(self.count):
                lanes.append(_lane_of(self.devices[i % len(self.devices)]))
            for device in {lane.device for lane in lanes}:
                self.shared[device] = self._once(device)
            if self.count == 1:
                self._work(lanes[0])
            else:
                self._in_threads(lanes)
        except BaseException as error:
            self.error = self.error or error
        if self.error is not None:
            first, self.error = self.error, None  # which would keep itself, and the lanes
            self.shared.clear()
            try:
                raise first
            finally:
                del first
        with _idle_lock:
            for lane in lanes:
                _idle.setdefault(lane.device, []).append(lane)

    def _in_threads(self, lanes: list[_Lane]) -> None:
        threads = [Thread(target=self._work, args=(lane,), daemon=True) for lane in lanes]
        begun = []
        try:
            for thread in threads:
                thread.start()
                begun.append(thread)
            for thread in threads:
                thread.join()
        except BaseException as error:  # Ctrl-C, or no more threads
            self.error = error
            for thread in begun:
                thread.join()
            raise

    def _once(self, device: int) -> dict[int, DeviceArray]:
        """What is the same for all blocks."""
        placed = {}
        for i, x in enumerate(self.call.inputs):
            if isinstance(x, _Operand) and not x.varies(self.axis):
                ready = np.asarray(x.array, x.dtype, order="C")
                memory = _core.cuda_memory(device, ready.nbytes)
                array = DeviceArray(memory, memory.address, device, x.dtype, ready.shape, ready.strides)
                _core.cuda_copy(device, memory.address, address_of(ready), ready.nbytes, 0)
                placed[i] = _with_core(array, x)
        _core.cuda_wait(device, 0)
        return placed

    def _work(self, lane: _Lane) -> None:
        """Blocks, until there is none left."""
        try:
            try:
                while self.error is None:
                    with self.lock:
                        block = next(self.next, None)
                    if block is None:
                        break
                    self._one(lane, block)
            finally:
                _core.cuda_wait(lane.device, lane.handle)
        except BaseException as error:
            with self.lock:
                self.error = self.error or error

    def _one(self, lane: _Lane, block: tuple[slice, ...]) -> None:
        call = self.call
        ups = {
            i: x.of_block(block)
            for i, x in enumerate(call.inputs)
            if isinstance(x, _Operand) and i not in self.shared[lane.device]
        }
        downs = [x.of_block(block) for x in call.outputs]
        lane.begin(call, ups, downs)
        arrays: list[Any] = []
        seen: dict[Any, DeviceArray] = {}
        for i, x in enumerate(call.inputs):
            if not isinstance(x, _Operand):
                arrays.append(x)
            elif i not in ups:
                arrays.append(self.shared[lane.device][i])
            else:
                arrays.append(_with_core(lane.uploaded(x, ups[i], seen), x))
        results = []
        for x, view in zip(call.outputs, downs, strict=True):
            order = memory_order(view) if is_dense(view, memory_order(view)) else tuple(range(view.ndim))
            results.append(lane.room(x, view.shape, order))
            if call.updates:
                lane.upload(x, view, results[-1])
        call.launch(lane.handle, arrays, results)
        for x, view, result in zip(call.outputs, downs, results, strict=True):
            lane.download(x, view, result)
        lane.end()


def _with_core(array: DeviceArray, x: _Operand) -> DeviceArray:
    """The array whose elements that were moved once stand where they are several times."""
    strides = tuple(
        0 if had != n else step
        for n, had, step in zip(x.core_shape, array.shape[x.dims :], array.strides[x.dims :], strict=True)
    )
    return DeviceArray(
        array._kept,
        array._address,
        array.device,
        array.dtype,
        (*array.shape[: x.dims], *x.core_shape),
        (*array.strides[: x.dims], *strides),
    )


class _Lane:
    """A stream with its memory: on the device for a block, page-locked for what of it is staged."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.stream = _core.cuda_stream(device)
        self.handle = self.stream.address
        self.memory: Any = None
        self.slots: Any = None

    def begin(self, call: _Work, ups: dict[int, np.ndarray], downs: list[np.ndarray]) -> None:
        """Room for a block, whose arrays these are. MemoryError if there is not enough."""
        pairs = [(call.inputs[i], x) for i, x in ups.items()]
        pairs += zip(call.outputs, downs, strict=True)
        size = sum(x.bytes_of(view) for x, view in pairs)
        pairs += pairs[-len(downs) :][:1] if call.updates else []  # goes up, too
        staged = sum(0 if x.moves_itself(view) else x.bytes_of(view) for x, view in pairs)
        if self.memory is None or self.memory.bytes < size:
            self.memory = None  # before there are two
            self.memory = _core.cuda_memory(self.device, size, self.stream)
        if staged and (self.slots is None or self.slots.bytes < staged):
            self.slots = None
            self.slots = _core.cuda_pinned(self.device, staged)
        self.used = self.staged = 0
        self.later: list[tuple[np.ndarray, np.ndarray]] = []

    def room(self, x: _Operand, shape: tuple[int, ...], order: tuple[int, ...]) -> DeviceArray:
        strides = dense_strides(shape, order, x.dtype.itemsize)
        address = self.memory.address + self.used
        self.used += _up(prod(shape) * x.dtype.itemsize)
        return DeviceArray(self.memory, address, self.device, x.dtype, shape, strides)

    def slot(self, like: DeviceArray) -> np.ndarray:
        first = self.staged
        self.staged += _up(like.nbytes)
        return np.ndarray(like.shape, like.dtype, self.slots, first, like.strides)

    def uploaded(self, x: _Operand, view: np.ndarray, seen: dict[Any, DeviceArray]) -> DeviceArray:
        """The array on the device; memory that went up as another operand does not again."""
        order = memory_order(view)
        key = (_memory_of(view), x.dtype)
        if key not in seen:
            seen[key] = self.room(x, view.shape, order)
            self.upload(x, view, seen[key])
        its = seen[key]
        strides = dense_strides(view.shape, order, x.dtype.itemsize)
        return DeviceArray(its._kept, its._address, self.device, x.dtype, view.shape, strides)

    def upload(self, x: _Operand, view: np.ndarray, to: DeviceArray) -> None:
        source = view
        if not x.moves_itself(view):
            source = self.slot(to)
            _copied(source, view)
        _core.cuda_copy(self.device, to._address, address_of(source), to.nbytes, self.handle)

    def download(self, x: _Operand, view: np.ndarray, result: DeviceArray) -> None:
        target = view
        if not x.moves_itself(view):
            target = self.slot(result)
            self.later.append((view, target))
        _core.cuda_copy(self.device, address_of(target), result._address, result.nbytes, self.handle)

    def end(self) -> None:
        """What was staged is in its place. Otherwise the next block may follow at once."""
        if self.staged:
            _core.cuda_wait(self.device, self.handle)
        for view, slot in self.later:
            _copied(view, slot)


def _copied(to: np.ndarray, x: np.ndarray) -> None:
    order = memory_order(to)
    if to.dtype == x.dtype and is_dense(to, order) and is_dense(x, order):
        _core.host_copy(address_of(to), address_of(x), to.nbytes)
        return
    with np.errstate(all="ignore"):
        np.copyto(to, x, casting="unsafe")


def _is_our_pinned(x: np.ndarray) -> bool:
    """Whether it lies in memory of `empty_pinned` or `pin`. Of others the driver would have to be asked."""
    base: Any = x
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, _core.CudaResource)


# Lanes of earlier calls, by device
_idle: dict[int, list[_Lane]] = {}
_idle_lock = Lock()
_lost: list[Any] = []  # of the parent of a forked process: its driver is not the child's


def _lane_of(device: int) -> _Lane:
    with _idle_lock:
        lanes = _idle.get(device)
        if lanes:
            return lanes.pop()
    return _Lane(device)


def _forget() -> None:
    global _idle_lock
    _lost.append(dict(_idle))
    _idle.clear()
    _idle_lock = Lock()


os.register_at_fork(after_in_child=_forget)


# --- what it would cost -----------------------------------------------------------------------------------


# Measured on an H200 and its host, a Xeon (family 6 model 207), in November 2026. HOST_MEMORY, LATENCY and
# the rates of products are rough.
LINK = 49e9  # bytes a second, each way while both are busy, page-locked
STAGING = 7.8e9  # bytes a second that a thread copies to or from page-locked memory
DEVICE_MEMORY = 4e12  # bytes a second
LATENCY = 1e-4  # seconds of a call
HOST_MEMORY = 1e10  # bytes a second of a thread
_RATES = {  # flops a second: of a thread of a CPU with AVX-512, of the device
    "MATMUL": (4e10, 2e13),  # products
    "EIG": (1.5e10, 1.15e12),  # n = 16, f64: 2,500 and 32 ns a matrix
    "SVD": (6.6e9, 8.9e11),  # 9,900 and 74 ns
    "": (3e10, 5e12),  # all others; inverses of n = 32: 1,409 and 9 ns
}


class OffloadExplanation(NamedTuple):
    """How an offloaded call would run. `str` gives it in words."""

    op: str
    devices: tuple[int, ...]  # empty: all
    matrices: int  # of a block
    blocks: int  # of all calls that it makes
    streams: int  # of all devices, that would be used
    bytes_up: int
    bytes_down: int
    bytes_staged: int  # of both, what passes through page-locked memory first
    calls: int  # each of which moves its operands and results; 1 where one kernel runs a fused function
    why: str  # the steps of a fused function are calls of their own; empty: they are not
    seconds: float  # that the model expects of an H200
    seconds_host: float  # and of this machine's threads
    host: Explanation | FusedExplanation  # how the CPU would compute it

    @property
    def pays(self) -> bool:
        """Whether the model expects the device to be faster."""
        return self.seconds < self.seconds_host

    def __str__(self) -> str:
        where = "all devices" if not self.devices else f"device {', '.join(map(str, self.devices))}"
        verdict = "it pays" if self.pays else "it does not pay"
        fused = isinstance(self.host, FusedExplanation)
        one_by_one = f"  its steps are {self.calls} calls, one after the other: {self.why}"
        return "\n".join(
            [
                f"{self.op} on {where}: {self.blocks} block(s) of up to {self.matrices} matrices on "
                f"{self.streams} stream(s)",
                f"  {self.bytes_up:.4g} bytes up, {self.bytes_down:.4g} bytes down, {self.bytes_staged:.4g} "
                "of them through page-locked memory",
                *([one_by_one if self.why else "  one kernel runs all steps"] if fused else []),
                f"  expected: {self.seconds:.2g} s; on the CPU {self.seconds_host:.2g} s: {verdict}",
            ]
        )


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
    plans = planned.plans
    up, down, staged = (sum(getattr(x, word) for x in plans) for word in ("up", "down", "staged"))
    threads = _core.get_num_threads()
    seconds = LATENCY * len(plans)
    on_host = host.bytes / (HOST_MEMORY * threads)
    rates = [_rates(plan.operation) for plan in plans]
    if rates:
        own, devices = min(x for x, _ in rates), min(y for _, y in rates)
        on_host = max(on_host, host.flops / (own * threads))
        seconds += max(
            up / LINK,
            down / LINK,
            staged / (STAGING * threads),
            (up + down) / DEVICE_MEMORY,
            host.flops / devices,
        ) / max(1, len(settings.devices))
    return OffloadExplanation(
        name,
        settings.devices,
        max((x.matrices for x in plans), default=0),
        sum(x.blocks for x in plans),
        max((x.lanes for x in plans), default=0),
        up,
        down,
        staged,
        len(plans),
        planned.why,
        seconds,
        on_host,
        host,
    )


def _rates(operation: str) -> tuple[float, float]:
    return next(rates for name, rates in _RATES.items() if operation.startswith(name))


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

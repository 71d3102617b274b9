"""Blocks of work through devices, on several streams.

Each stream has a `Lane`: memory on the device for one block, and page-locked slots for what lies in ordinary
memory. Lanes take blocks in turn, from one thread, which waits for a lane's last block only where slots are
used again; meanwhile the other lanes' blocks are on their way, so that all directions are busy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from .. import _core
from .._gpu.device_array import DeviceArray, address_of, dense_strides, is_dense, memory_order
from .work import Operand, Work, aligned, memory_of


def run(work: Work, devices: Sequence[int], streams: int, block: int | None) -> None:
    """The work's results, where they belong; `block` bytes at a time, on so many streams of each device."""
    for x in (*work.arrays(), *work.outputs):
        low, high = np.lib.array_utils.byte_bounds(x.array)
        x.pinned = _core.cuda_is_pinned(devices[0], low, high - low)
    most = work.most(block, streams * len(devices))
    while True:
        try:
            Stream(work, devices, streams, most).run()
            return
        except MemoryError:
            empty_cache()
            if most == 1:
                raise
            most = max(1, most // 2)


def empty_cache() -> None:
    """Release the memory, on devices and page-locked, that offloaded calls keep for the next one."""
    with _idle_lock:
        _idle.clear()


class Stream:
    """One pass of a call's blocks."""

    def __init__(self, call: Work, devices: Sequence[int], streams: int, most: int) -> None:
        self.call = call
        self.axis, _ = call.division(most)
        self.blocks = call.blocks(most)
        self.devices = devices
        self.count = min(len(self.blocks), streams * len(devices))
        self.shared: dict[int, dict[int, DeviceArray]] = {}

    def run(self) -> None:
        """All blocks. Then, or after an exception, no device uses the caller's memory any longer."""
        lanes: list[Lane] = []
        try:
            for i in range(self.count):
                lanes.append(_lane_of(self.devices[i % len(self.devices)]))
            for device in {lane.device for lane in lanes}:
                self.shared[device] = self._once(device)
            for i, block in enumerate(self.blocks):
                self._one(lanes[i % self.count], block)
            for lane in lanes:
                _core.cuda_wait(lane.device, lane.handle)
                lane.finish()
        except BaseException:
            for lane in lanes:
                with suppress(RuntimeError):  # the first error is raised
                    _core.cuda_wait(lane.device, lane.handle)
            self.shared.clear()
            raise
        with _idle_lock:
            for lane in lanes:
                _idle.setdefault(lane.device, []).append(lane)

    def _once(self, device: int) -> dict[int, DeviceArray]:
        """What is the same for all blocks."""
        placed = {}
        for i, x in enumerate(self.call.inputs):
            if isinstance(x, Operand) and not x.varies(self.axis):
                ready = np.asarray(x.array, x.dtype, order="C")
                memory = _core.cuda_memory(device, ready.nbytes)
                array = DeviceArray(memory, memory.address, device, x.dtype, ready.shape, ready.strides)
                _core.cuda_copy(device, memory.address, address_of(ready), ready.nbytes, 0)
                placed[i] = _with_core(array, x)
        _core.cuda_wait(device, 0)
        return placed

    def _one(self, lane: Lane, block: tuple[slice, ...]) -> None:
        call = self.call
        ups = {
            i: x.of_block(block)
            for i, x in enumerate(call.inputs)
            if isinstance(x, Operand) and i not in self.shared[lane.device]
        }
        downs = [x.of_block(block) for x in call.outputs]
        lane.begin(call, ups, downs)
        arrays: list[Any] = []
        seen: dict[Any, DeviceArray] = {}
        for i, x in enumerate(call.inputs):
            if not isinstance(x, Operand):
                arrays.append(x)
            elif i not in ups:
                arrays.append(self.shared[lane.device][i])
            else:
                arrays.append(_with_core(lane.uploaded(x, ups[i], seen), x))
        results = []
        for x, view in zip(call.outputs, downs, strict=True):
            results.append(lane.allocate(x, view.shape, memory_order(view)))
            if call.updates:
                lane.upload(x, view, results[-1])
        call.launch(lane.handle, arrays, results)
        for x, view, result in zip(call.outputs, downs, results, strict=True):
            lane.download(x, view, result)


def _with_core(array: DeviceArray, x: Operand) -> DeviceArray:
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


class Lane:
    """A stream with its memory: on the device for a block, page-locked for what of it is staged."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.stream = _core.cuda_stream(device)
        self.handle = self.stream.address
        self.memory: Any = None
        self.slots: Any = None
        self.staged = 0  # bytes of slots in use
        self.later: list[tuple[np.ndarray, np.ndarray]] = []  # results and their slots

    def begin(self, call: Work, ups: dict[int, np.ndarray], downs: list[np.ndarray]) -> None:
        """Room for a block, whose arrays these are. MemoryError if there is not enough."""
        self.finish()
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
        self.used = 0

    def allocate(self, x: Operand, shape: tuple[int, ...], order: tuple[int, ...]) -> DeviceArray:
        strides = dense_strides(shape, order, x.dtype.itemsize)
        address = self.memory.address + self.used
        self.used += aligned(prod(shape) * x.dtype.itemsize)
        return DeviceArray(self.memory, address, self.device, x.dtype, shape, strides)

    def slot(self, like: DeviceArray) -> np.ndarray:
        first = self.staged
        self.staged += aligned(like.nbytes)
        return np.ndarray(like.shape, like.dtype, self.slots, first, like.strides)

    def uploaded(self, x: Operand, view: np.ndarray, seen: dict[Any, DeviceArray]) -> DeviceArray:
        """The array on the device; memory that went up as another operand does not again."""
        order = memory_order(view)
        key = (memory_of(view), x.dtype)
        if key not in seen:
            seen[key] = self.allocate(x, view.shape, order)
            self.upload(x, view, seen[key])
        its = seen[key]
        strides = dense_strides(view.shape, order, x.dtype.itemsize)
        return DeviceArray(its._kept, its._address, self.device, x.dtype, view.shape, strides)

    def upload(self, x: Operand, view: np.ndarray, to: DeviceArray) -> None:
        source = view
        if not x.moves_itself(view):
            source = self.slot(to)
            _copied(source, view)
        _core.cuda_copy(self.device, to._address, address_of(source), to.nbytes, self.handle, False)

    def download(self, x: Operand, view: np.ndarray, result: DeviceArray) -> None:
        target = view
        if not x.moves_itself(view):
            target = self.slot(result)
            self.later.append((view, target))
        _core.cuda_copy(self.device, address_of(target), result._address, result.nbytes, self.handle, False)

    def finish(self) -> None:
        """What was staged is in its place, and slots are free. A block without any is not waited for."""
        if self.staged:
            _core.cuda_wait(self.device, self.handle)
        for view, slot in self.later:
            _copied(view, slot)
        self.staged = 0
        self.later = []


def _copied(to: np.ndarray, x: np.ndarray) -> None:
    order = memory_order(to)
    if to.dtype == x.dtype and is_dense(to, order) and is_dense(x, order):
        _core.host_copy(address_of(to), address_of(x), to.nbytes)
        return
    with np.errstate(all="ignore"):
        np.copyto(to, x, casting="unsafe")


# Lanes of earlier calls, by device
_idle: dict[int, list[Lane]] = {}
_idle_lock = Lock()
_lost: list[Any] = []  # of the parent of a forked process: its driver is not the child's


def _lane_of(device: int) -> Lane:
    with _idle_lock:
        lanes = _idle.get(device)
        if lanes:
            return lanes.pop()
    return Lane(device)


def _forget() -> None:
    global _idle_lock
    _lost.append(dict(_idle))
    _idle.clear()
    _idle_lock = Lock()


os.register_at_fork(after_in_child=_forget)

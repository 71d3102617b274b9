"""Prefixes on a CUDA device: the kernels of an associative scan, which one call of the core launches."""

import struct
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.cache import Cache
from .._programs.arrays import any_failed, on_host
from .._programs.compile import dense_strides
from .._programs.cuda_kernel import Kernel, Layout
from .._programs.cuda_launch import merge_batch, strides_in
from .._programs.cuda_steps import VECTOR
from .._programs.dtypes import COMPLEX
from .cuda_loop import INFO, Loop, loop_kernel

_MAX_LAYOUTS = 64
_REGION = 256  # bytes; the parts of the workspace are multiples


class Stack(NamedTuple):
    """Elements of a series, in times: which array of the call they are in, and from which byte on; strides in
    elements from time to time, over the batch, and in a matrix."""

    array: int
    first: int
    step: int
    batch: list[int]
    core: tuple[int, ...]
    itemsize: int
    aligned: bool

    def address(self, time: int) -> int:
        return self.first + time * self.step * self.itemsize


class Chunks(NamedTuple):
    """The first time of the first series, and times from series to series and from step to step."""

    stack: Stack
    first: int
    apart: int
    step: int


class Launch(NamedTuple):
    """A kernel that runs so many series side by side, each for so many times."""

    carry: list[Chunks]
    xs: list[Chunks]
    ys: list[Chunks]
    after: list[tuple[int, int]]  # array and byte to which the last carry goes
    series: int
    length: int
    every: int


class Ladder:
    """The kernels for so many times and such a batch. `loops` are those of a step whose results are the next
    carry, and the same once more."""

    def __init__(
        self, loops: Any, lengths: list[int], chunk: int, batch: tuple[int, ...], reverse: bool
    ) -> None:
        self.loops, self.lengths, self.chunk, self.batch = loops, lengths, chunk, batch
        self.reverse = reverse
        outputs = loops.program.outputs
        self.count = len(loops.program.inputs) // 2
        self.dtypes = [np.dtype(dtype) for _, dtype, _, _ in outputs[: self.count]]
        self.shapes = [shape for _, _, shape, _ in outputs[: self.count]]
        self.has_info = len(outputs) > 2 * self.count
        # Where each level's elements begin in the workspace. Level 0, which lies in the operands, has there
        # the last carries of launches, which nobody reads.
        self.places: dict[tuple[int, int], int] = {}
        self.bytes = 0
        for level, length in enumerate([lengths[1], *lengths[1:]]):
            for j, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True)):
                self.places[level, j] = self.bytes
                size = length * prod((*batch, *shape)) * dtype.itemsize
                self.bytes += -(-size // _REGION) * _REGION
        self._known = Cache(_MAX_LAYOUTS)

    def run(self, name: str, arrays: list[Any], library: Any) -> tuple[list[Any], list[np.ndarray]]:
        """Results for each time, new arrays of the library; and codes of failures, if something failed."""
        shapes = [(self.lengths[0], *self.batch, *shape) for shape in self.shapes]
        results = [library.empty(shape, dtype) for shape, dtype in zip(shapes, self.dtypes, strict=True)]
        matrices = prod(self.batch)
        rows = (2 * sum(self.lengths[1:]) + 1 + (self.lengths[-1] > 1)) * matrices  # of all launches
        own = [library.empty((self.bytes,), np.dtype(np.uint8))]
        own += [library.empty((rows, INFO), np.dtype(np.int32))] * self.has_info
        labels = (f"{name}: xs",) * (len(arrays) + len(results) + len(own))
        if matrices:
            _core.device_program(self, library.stream(), labels, (), *arrays, *results, *own)
        failures: list[np.ndarray] = []
        if self.has_info and matrices and any_failed(name, info := library.finished(own[1])):
            failures.append(on_host(name, info)[:, 0].reshape(-1, *self.batch))
        return [library.finished(x) for x in results], failures

    def __call__(self, device: int, layouts: tuple[Any, ...]) -> list[Any]:
        """What `_core.device_program` asks: kernels, blocks, arguments, and which arrays these are about."""
        key = device, layouts[: self.count]
        known: list[Any] = self._known.get(key) or self._known.keep(key, self._made(device, layouts))
        return known

    def _made(self, device: int, layouts: tuple[Any, ...]) -> list[Any]:
        extents, levels = self._levels(layouts)
        kernels: dict[Any, Kernel] = {}
        made, rows = [], 0
        for x in self._launches(levels):
            made.append(self._words(device, x, extents, rows, kernels))
            rows += x.series * prod(self.batch)
        return made

    def _levels(self, layouts: tuple[Any, ...]) -> tuple[list[int], list[tuple[list[Stack], list[Stack]]]]:
        """The merged batch, and what each level reads and writes."""
        own, dense = [], []
        for (_, shape, strides, _), core in zip(layouts, self.shapes, strict=False):
            own.append(strides_in(self.batch, shape[1:], strides[1:], len(core)))
            items = dense_strides((*self.batch, *core), np.dtype("i1"))
            dense.append(strides_in(self.batch, (*self.batch, *core), items, len(core)))
        extents, merged = merge_batch(self.batch, [*own, *dense])
        read, written = [], []
        per_level: list[list[Stack]] = [[] for _ in self.lengths[1:]]
        last = self.lengths[0] - 1 if self.reverse else 0
        sign = -1 if self.reverse else 1
        for j, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True)):
            _, given, strides, at = layouts[j]
            size, batch = dtype.itemsize, merged[j]
            inner = tuple(
                step if n > 1 else 0
                for n, step in zip(shape, strides[len(given) - len(shape) :], strict=True)
            )
            aligned = at == 0 and not any(step * size % VECTOR for step in (*batch, strides[0]))
            step = strides[0]
            read.append(Stack(j, last * step * size, sign * step, batch, inner, size, aligned))
            items = dense_strides(shape, np.dtype("i1"))
            inner = tuple(step if n > 1 else 0 for n, step in zip(shape, items, strict=True))
            step, batch = prod((*self.batch, *shape)), merged[self.count + j]
            first = last * step * size
            written.append(Stack(self.count + j, first, sign * step, batch, inner, size, True))
            for level, stacks in enumerate(per_level, 1):
                place = self.places[level, j]
                stacks.append(Stack(2 * self.count, place, step, batch, inner, size, True))
        return extents, [(read, written), *((x, x) for x in per_level)]

    def _launches(self, levels: list[tuple[list[Stack], list[Stack]]]) -> list[Launch]:
        """In their order."""
        length, found = self.chunk, []
        scratch = [(2 * self.count, self.places[0, j]) for j in range(self.count)]

        def all_of(stacks: list[Stack], first: int, apart: int, step: int = 1) -> list[Chunks]:
            return [Chunks(x, first, apart, step) for x in stacks]

        def start(level: int) -> Launch:
            """The first element, which is a result."""
            read, written = all_of(levels[0][0], 0, 0), all_of(levels[level][1], 0, 0)
            to = [(x.array, x.address(0)) for x in levels[level][1]]
            return Launch(read, read, written, to, 1, 0, 1)

        for level, times in enumerate(self.lengths[:-1]):
            (read, _), (above, _) = levels[level], levels[level + 1]
            whole, rest = divmod(times - 1, length)
            totals = all_of(read, 1, length), all_of(read, 2, length), all_of(above, 1, 1, 0)
            found.append(start(level))
            found.append(Launch(*totals, scratch, whole + (rest > 0) - 1, length - 1, length - 1))
        top = levels[-1][0]
        found.append(start(len(levels) - 1))
        onward = all_of(top, 0, 0), all_of(top, 1, 0), all_of(top, 1, 0)
        if self.lengths[-1] > 1:
            found.append(Launch(*onward, scratch, 1, self.lengths[-1] - 1, 1))
        for level in reversed(range(len(self.lengths) - 1)):
            (read, written), (above, _) = levels[level], levels[level + 1]
            whole, rest = divmod(self.lengths[level] - 1, length)
            parts = all_of(above, 0, 1), all_of(read, 1, length), all_of(written, 1, length)
            found.append(Launch(*parts, scratch, whole, length, 1))
            if rest:
                at = 1 + whole * length
                parts = all_of(above, whole, 1), all_of(read, at, 0), all_of(written, at, 0)
                found.append(Launch(*parts, scratch, 1, rest, 1))
        return found

    def _words(
        self, device: int, x: Launch, extents: list[int], row: int, kernels: dict[Any, Kernel]
    ) -> tuple[Any, int, bytes, bytes]:
        given = [*x.carry, *x.xs]
        one = len(extents) == 1 and extents[0] == 1  # no batch

        def layout(c: Chunks) -> Layout:
            return Layout("strided", c.stack.core, c.stack.aligned)

        def strides(c: Chunks) -> list[int]:
            return [*([] if one else c.stack.batch), c.apart * c.stack.step]

        sizes = [*([] if one else extents), x.series]
        key = (*map(layout, given),)
        if key not in kernels:
            loop = Loop(self.count, self.count, self.has_info, (False,) * len(given))
            ways = tuple(map(layout, x.ys))
            shared = _core.cuda_device(device)[2]
            kernels[key] = loop_kernel(self.loops.program, key, len(sizes), loop, ways, shared)
        kernel = kernels[key]
        total = x.series * prod(self.batch)
        places = [(c.stack.array, c.stack.address(c.first)) for c in (*given, *x.ys)]
        places[len(given) : len(given)] = x.after
        places += [(2 * self.count + 1, row * INFO * 4)] * self.has_info
        steps = {i: strides(c) for i, c in enumerate(given)}
        steps |= {len(given) + self.count + i: strides(c) for i, c in enumerate(x.ys)}
        words = [total, *(byte for _, byte in places), *sizes]
        words += [step for i in kernel.strided for step in steps[i]]
        words += [x.length, x.every, (x.length - 1) % x.every]
        moving = [*x.xs, *x.ys]
        parts = [2 if dtype in COMPLEX else 1 for dtype in (*self.dtypes, *self.dtypes)]
        words += [0] * len(moving)
        words += [c.step * c.stack.step * n for c, n in zip(moving, parts, strict=True)]
        blocks = -(-total // kernel.matrices)
        packed = struct.pack(f"{len(words)}q", *words)
        return self.loops.loaded(device, kernel), blocks, packed, bytes(array for array, _ in places)


def ladder_of(times: int, chunk: int) -> list[int]:
    """How many elements each level has: chunks' totals are those of the next, after the first element."""
    lengths = [times]
    while lengths[-1] > chunk:
        lengths.append(-(-(lengths[-1] - 1) // chunk))
    return lengths

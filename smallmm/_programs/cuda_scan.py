"""Scans on a CUDA device: which kernel takes arrays that lie so, and its launches; `cuda_loop` writes the
kernels."""

import struct
from math import prod
from typing import Any

import numpy as np

from .. import _core
from .._gpu.device import _same_device
from .compile import Description
from .cuda_kernel import Kernel
from .cuda_launch import _layout_of, _merged, _strides_in
from .cuda_loop import INFO, Loop, loop_kernel
from .dtypes import COMPLEX

_MOST_LAYOUTS = 64


class DeviceLoops:
    """The kernels of a program's loops, for arrays that lie in memory in ways that were met."""

    def __init__(self, program: Description) -> None:
        self.program = program
        self._known: dict[Any, tuple[Any, Kernel, bytes]] = {}
        self._loaded: dict[tuple[int, str], Any] = {}

    def run(self, scan: Any, times: Any, shown: Any) -> tuple[list[Any], list[Any], Any]:
        """The carries, the other results and info, new arrays of the operands' library, in the order of its
        current stream. `NotFused`: no kernel can."""
        count, batch = len(scan.carry), scan.batch
        plan = scan.plan
        given = list(scan.operands)
        given[count : count + len(scan.xs)] = scan.xs
        names = scan.function._names
        is_number = tuple(isinstance(x, np.ndarray) and x.ndim == 0 for x in given)
        labelled = {n: x for n, x, number in zip(names, given, is_number, strict=True) if not number}
        _, library = _same_device(scan.name, labelled)
        arrays = [x for x, number in zip(given, is_number, strict=True) if not number]
        numbers = tuple(
            part
            for x in (y.item() for y, number in zip(given, is_number, strict=True) if number)
            for part in ((x.real, x.imag) if isinstance(x, complex) else (float(x),))
        )
        carry = [library.empty((*batch, *x.shape), x.dtype) for x in plan.results[:count]]
        ys = [library.empty((times.kept(), *batch, *x.shape), x.dtype) for x in plan.results[count:]]
        has_info = bool(plan.columns)
        info = library.empty((*batch, INFO), np.dtype(np.int32)) if has_info else None
        stream = library.stream()
        for part in times.parts(shown.parts):
            found = [library.empty((*batch, INFO), np.dtype(np.int32))] if has_info else []
            loop = Loop(count, len(scan.xs), has_info, True)

            def plan_of(device: int, layouts: tuple[Any, ...], part: Any = part, loop: Loop = loop) -> Any:
                return self._launch(device, layouts, is_number, loop, batch, times, part)

            outputs = [*carry, *ys, *found]
            labels = tuple(f"{scan.name}: an array" for _ in (*arrays, *outputs))
            if prod(batch):
                _core.device_program(plan_of, stream, labels, numbers, *arrays, *outputs)
            arrays[:count] = carry
            if has_info:
                info = found[0] if part.done == 0 else _merged_info(info, found[0], part.done)
            shown(part.done + part.length)
        return [library.finished(x) for x in carry], [library.finished(x) for x in ys], info

    def _launch(
        self,
        device: int,
        layouts: tuple[Any, ...],
        is_number: tuple[bool, ...],
        loop: Loop,
        batch: tuple[int, ...],
        times: Any,
        part: Any,
    ) -> tuple[Any, int, bytes]:
        key = device, layouts, is_number, times.reverse
        if key not in self._known:
            if len(self._known) >= _MOST_LAYOUTS:
                self._known.clear()
            self._known[key] = self._found(device, layouts, is_number, loop, batch)
        capsule, kernel, fixed = self._known[key]
        sign = -1 if times.reverse else 1
        outputs = layouts[len(layouts) - len(self.program.outputs) :]
        moving = _whole(layouts, is_number)[loop.carries : loop.carries + loop.xs]
        ys = outputs[loop.carries : len(outputs) - loop.has_info]
        scale = [2 if np.dtype(d) in COMPLEX else 1 for _, d, _, _ in self._moving(loop)]
        steps = [x[2][0] * n for x, n in zip((*moving, *ys), scale, strict=True)]
        firsts = [part.first] * len(moving) + [part.place] * len(ys)
        until = (part.length - 1) % times.every
        words = [part.length, times.every, until, *(n * x for n, x in zip(firsts, steps, strict=True))]
        words += [sign * x for x in steps]
        blocks = -(-prod(batch) // kernel.matrices)
        return capsule, blocks, fixed + struct.pack(f"{len(words)}q", *words)

    def _moving(self, loop: Loop) -> list[Any]:
        ends = len(self.program.outputs) - loop.has_info
        xs = self.program.inputs[loop.carries : loop.carries + loop.xs]
        return [*xs, *self.program.outputs[loop.carries : ends]]

    def _found(
        self,
        device: int,
        layouts: tuple[Any, ...],
        is_number: tuple[bool, ...],
        loop: Loop,
        batch: tuple[int, ...],
    ) -> tuple[Any, Kernel, bytes]:
        program = self.program
        given = _whole(layouts, is_number)
        moves = range(loop.carries, loop.carries + loop.xs)
        ys = layouts[len(layouts) - len(program.outputs) + loop.carries :]
        aligned = all(
            at == 0 and strides[0] * np.dtype(dtype).itemsize % 16 == 0
            for (_, _, strides, at), (_, dtype, _, _) in zip(ys, self._moving(loop)[loop.xs :], strict=False)
        )
        of_one_time = []
        for i, x in enumerate(given):
            if x is not None and i in moves:
                name, shape, strides, at = x
                step = strides[0] * np.dtype(program.inputs[i][1]).itemsize
                x = name, shape[1:], strides[1:], at or step % 16
            of_one_time.append(x)
        cores = [len(shape) for _, _, shape, _ in program.inputs]
        own = [
            (0,) * len(batch) if x is None else _strides_in(batch, x[1], x[2], core)
            for x, core in zip(of_one_time, cores, strict=True)
        ]
        extents, steps = _merged(batch, own)
        ways = tuple(
            _layout_of(x, shape, batch, step)
            for x, (_, _, shape, _), step in zip(of_one_time, program.inputs, own, strict=True)
        )
        shared = _core.cuda_device(device)[2]
        kernel = loop_kernel(program, ways, len(extents), loop._replace(aligned=aligned), shared)
        numbers = sum(
            2 if dtype in COMPLEX else 1
            for number, (_, dtype, _, _) in zip(is_number, program.inputs, strict=True)
            if number
        )
        words = [prod(batch), *[0] * (len(layouts) + numbers)]
        if kernel.strided:
            words += [*extents, *(step for i in kernel.strided for step in steps[i])]
        if (device, kernel.text) not in self._loaded:
            self._loaded[device, kernel.text] = _core.cuda_program(
                kernel.text, device, kernel.matrices, kernel.threads, kernel.shared
            )[0]
        return self._loaded[device, kernel.text], kernel, struct.pack(f"{len(words)}q", *words)


def _whole(layouts: tuple[Any, ...], is_number: tuple[bool, ...]) -> list[Any]:
    """The layouts of inputs; None for numbers."""
    taken = iter(layouts)
    return [None if number else next(taken) for number in is_number]


def _merged_info(info: Any, found: Any, done: int) -> Any:
    """Info with failures that were found after so many times."""
    new = (found[..., 1:2] != 0) & (info[..., 1:2] == 0)
    later = found + (found[..., 1:2] != 0) * done * np.array([0, 1, 0])
    return info + new * later

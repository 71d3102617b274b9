"""Scans on a CUDA device: which kernel takes arrays that lie so, and its launches; `cuda_loop` writes the
kernels."""

import struct
from math import prod
from typing import Any

import numpy as np

from .. import _core
from .._base.cache import Cache
from .._gpu.device import same_device
from .._programs.arrays import any_failed, on_host
from .._programs.compile import Description
from .._programs.cuda_kernel import Kernel, Layout
from .._programs.cuda_launch import laid_out, loaded, numbers_among, words_of_numbers
from .._programs.cuda_steps import VECTOR
from .._programs.dtypes import COMPLEX
from .._programs.failures import note
from .cuda_loop import INFO, Loop, loop_kernel
from .cuda_prefixes import Ladder, ladder_of

_MAX_LAYOUTS = 64


class DeviceLoops:
    """A program's loops for arrays that lie in memory in ways that were met."""

    def __init__(self, program: Description) -> None:
        self.program = program
        self._known = Cache(_MAX_LAYOUTS)
        self._loaded: dict[tuple[int, str], Any] = {}
        self._ladders = Cache(_MAX_LAYOUTS)

    def run(self, scan: Any, times: Any, shown: Any) -> tuple[list[Any], list[Any], Any]:
        """The carries, the other results and info, new arrays of the operands' library, in the order of its
        current stream. `NotFused`: no kernel can."""
        count, batch, results = len(scan.carry), scan.batch, scan.plan.results
        arrays, numbers, library, loop = self._sorted(scan)
        carry = [library.empty((*batch, *x.shape), x.dtype) for x in results[:count]]
        ys = [library.empty((times.kept(), *batch, *x.shape), x.dtype) for x in results[count:]]
        infos: list[tuple[int, Any]] = []  # the times that ran before a part, and its info
        for part in times.parts(shown.parts):
            found = [library.empty((*batch, INFO), np.dtype(np.int32))] if loop.has_info else []
            outputs = [*carry, *ys, *found]
            self.launch(scan.name, batch, times, part, (arrays, numbers, loop), outputs, library.stream())
            arrays[:count] = carry
            infos += [(part.done, library.finished(x)) for x in found]
            if shown.progress and library.writable:  # it is waited for; JAX takes memory over once
                on_host(scan.name, library.finished(carry[0]))
            shown(part.done + part.length, carry)
        info = _of_all_parts(scan.name, batch, infos) if len(infos) > 1 else infos[0][1] if infos else None
        return [library.finished(x) for x in carry], [library.finished(x) for x in ys], info

    def launch(
        self,
        name: str,
        batch: tuple[int, ...],
        times: Any,
        part: Any,
        given: tuple[list[Any], tuple[float, ...], Loop],
        outputs: list[Any],
        stream: int,
    ) -> None:
        """The times of a part, on a stream. given: what `sort` makes of the operands. outputs: in row-major
        order, with time first."""
        arrays, numbers, loop = given

        def plan(device: int, layouts: tuple[Any, ...]) -> tuple[Any, int, bytes]:
            kernel, text, words = self._known_for(device, layouts, loop, batch)
            words += self._moves(layouts, loop, batch, times, part)
            return kernel, -(-prod(batch) // text.matrices), words

        labels = (f"{name}: an operand",) * (len(arrays) + len(outputs))
        if prod(batch):
            _core.device_program(plan, stream, labels, numbers, *arrays, *outputs)

    def kernel(self, scan: Any) -> Kernel:
        """The kernel that `run` would launch."""
        arrays, numbers, library, loop = self._sorted(scan)
        found: list[Kernel] = []

        def plan(device: int, layouts: tuple[Any, ...]) -> tuple[Any, int, bytes]:
            kernel, text, words = self._known_for(device, layouts, loop, scan.batch)
            found.append(text)
            return kernel, 0, words

        labels = (f"{scan.name}: an operand",) * len(arrays)
        _core.device_program(plan, library.stream(), labels, numbers, *arrays)
        return found[0]

    def prefixes(
        self, name: str, arrays: list[Any], batch: tuple[int, ...], chunk: int, reverse: bool
    ) -> tuple[list[Any], list[np.ndarray]]:
        """The prefixes of series, and codes of failures, as far as there are any."""
        given = {f"xs[{i}]": x for i, x in enumerate(arrays)}
        _, library = same_device(name, given)
        key = arrays[0].shape[0], batch, chunk, reverse
        ladder: Ladder = self._ladders.get(key) or self._ladders.keep(
            key, Ladder(self, ladder_of(key[0], chunk), chunk, batch, reverse)
        )
        return ladder.run(name, list(given.values()), library)

    def _sorted(self, scan: Any) -> tuple[list[Any], tuple[float, ...], Any, Loop]:
        """Arrays and numbers among the operands, the arrays' library, and the loop."""
        count, moves = len(scan.carry), len(scan.xs)
        given = [*scan.operands[:count], *scan.xs, *scan.operands[count + moves :]]
        arrays, numbers, loop = sort(scan, given)
        names = [n for n, number in zip(scan.function._names, loop.is_number, strict=True) if not number]
        _, library = same_device(scan.name, dict(zip(names, arrays, strict=True)))
        return arrays, numbers, library, loop

    def _known_for(
        self, device: int, layouts: tuple[Any, ...], loop: Loop, batch: tuple[int, ...]
    ) -> tuple[Any, Kernel, bytes]:
        """The loaded kernel, its text, and arguments but for addresses and times."""
        key = device, layouts, loop, batch
        known: tuple[Any, Kernel, bytes] = self._known.get(key) or self._known.keep(
            key, self._found(device, layouts, loop, batch)
        )
        return known

    def _moves(
        self, layouts: tuple[Any, ...], loop: Loop, batch: tuple[int, ...], times: Any, part: Any
    ) -> bytes:
        """The arguments that say how arrays move: in parts of complex numbers."""
        xs = loop.given(layouts)[loop.carries : loop.carries + loop.xs]
        dtypes = [dtype for _, dtype, _, _ in self.program.inputs[loop.carries : loop.carries + loop.xs]]
        steps = [x[2][0] * (2 if y in COMPLEX else 1) for x, y in zip(xs, dtypes, strict=True)]
        firsts = [part.first] * len(xs)
        for dtype, size in self._ys(loop):
            steps.append(prod(batch) * size * (2 if dtype in COMPLEX else 1))
            firsts.append(part.place)
        words = [part.length, times.every, (part.length - 1) % times.every]
        words += [first * step for first, step in zip(firsts, steps, strict=True)]
        words += [-step if times.reverse else step for step in steps]
        return struct.pack(f"{len(words)}q", *words)

    def _ys(self, loop: Loop) -> list[tuple[np.dtype, int]]:
        """Element types and elements of a matrix of the outputs that move."""
        outputs = self.program.outputs[loop.carries : len(self.program.outputs) - loop.has_info]
        return [(np.dtype(dtype), prod(shape)) for _, dtype, shape, _ in outputs]

    def _found(
        self, device: int, layouts: tuple[Any, ...], loop: Loop, batch: tuple[int, ...]
    ) -> tuple[Any, Kernel, bytes]:
        given = loop.given(layouts)
        for i in range(loop.carries, loop.carries + loop.xs):
            name, shape, strides, at = given[i]
            step = strides[0] * np.dtype(self.program.inputs[i][1]).itemsize
            given[i] = name, shape[1:], strides[1:], at or step % VECTOR
        extents, steps, ways = laid_out(given, self.program.inputs, batch)
        ys = tuple(
            Layout("flat", (), prod(batch) * size * x.itemsize % VECTOR == 0) for x, size in self._ys(loop)
        )
        kernel = loop_kernel(self.program, ways, len(extents), loop, ys, _core.cuda_device(device)[2])
        numbers = words_of_numbers(loop.is_number, self.program.inputs)
        words = [prod(batch), *[0] * (len(layouts) + numbers)]
        if kernel.strided:
            words += [*extents, *(step for i in kernel.strided for step in steps[i])]
        return self.loaded(device, kernel), kernel, struct.pack(f"{len(words)}q", *words)

    def loaded(self, device: int, kernel: Kernel) -> Any:
        return loaded(self._loaded, device, kernel)


def sort(scan: Any, given: list[Any]) -> tuple[list[Any], tuple[float, ...], Loop]:
    """Arrays and numbers among operands of a scan, and its loop."""
    is_number, numbers = numbers_among(given)
    arrays = [x for x, number in zip(given, is_number, strict=True) if not number]
    return arrays, numbers, Loop(len(scan.carry), len(scan.xs), bool(scan.plan.columns), is_number)


def _of_all_parts(name: str, batch: tuple[int, ...], infos: list[tuple[int, Any]]) -> np.ndarray:
    """On the host, as failures are rare."""
    info = np.zeros((*batch, INFO), np.int32)
    for done, found in infos:
        if any_failed(name, found):
            note(info, on_host(name, found), done)
    return info

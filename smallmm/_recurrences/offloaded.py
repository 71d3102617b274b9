"""Scans of arrays of the host that a CUDA device computes: in the words of a program, with which they are
streamed block by block of series."""

from typing import Any

import numpy as np

from .._programs.cuda_kernel import Layout
from .cuda_loop import INFO, loop_kernel
from .cuda_scan import DeviceLoops, sort
from .times import Times


class OffloadedScan:
    """What `DeviceProgram` is to a fused function. Time, where there is one, is the first dimension of a
    matrix."""

    def __init__(self, scan: Any, times: Times, loops: DeviceLoops) -> None:
        self.scan, self.times, self.loops = scan, times, loops
        count, moves = len(scan.carry), len(scan.xs)
        own = loops.program
        self.described = own._replace(
            inputs=_in_time(own.inputs, range(count, count + moves), times.length),
            outputs=_in_time(own.outputs, range(count, len(scan.plan.results)), times.kept()),
        )
        if scan.plan.columns:
            info = own.outputs[-1]
            outputs = (*self.described.outputs[:-1], (info[0], info[1], (INFO,), info[3]))
            self.described = self.described._replace(outputs=outputs)
        self.moving = range(count, count + moves)

    def check(self, operands: list[np.ndarray]) -> None:
        """`NotFused` if no kernel can. No device is used."""
        _, _, loop = sort(self.scan, operands)
        layouts = tuple(Layout("number") if x else Layout("flat", (), True) for x in loop.is_number)
        ys = (Layout("flat"),) * (len(self.scan.plan.results) - loop.carries)
        loop_kernel(self.loops.program, layouts, 1, loop, ys)

    def launch(self, names: list[str], operands: list[Any], outputs: list[Any], stream: int) -> None:
        """The kernel for a block, on a stream."""
        dims, (part,) = len(self.scan.batch), self.times.parts(1)
        given = [time_first(x, dims) if i in self.moving else x for i, x in enumerate(operands)]
        last = len(self.scan.plan.results)
        targets = [
            time_first(x, dims) if len(self.scan.carry) <= i < last else x for i, x in enumerate(outputs)
        ]
        batch = tuple(outputs[0].shape[:dims])
        self.loops.launch(self.scan.name, batch, self.times, part, sort(self.scan, given), targets, stream)


def _in_time(arrays: tuple[Any, ...], which: range, length: int) -> tuple[Any, ...]:
    """Descriptions of inputs or outputs; `which` of them have so many times."""
    return tuple(
        (value, dtype, (length, *shape) if i in which else shape, strides)
        for i, (value, dtype, shape, strides) in enumerate(arrays)
    )


def time_first(x: Any, place: int) -> Any:
    for d in reversed(range(place)):
        x = x.swapaxes(d, d + 1)
    return x

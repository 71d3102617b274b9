"""A record run step by step on arrays of a device by smallmm's own kernels, with the bits of one kernel for
all steps, which the device may have no room for. Between calls of gufuncs, element-wise steps are programs
whose matrices are numbers, and arrays come side by side by programs whose matrices are lines."""

from functools import cache
from typing import Any

import numpy as np

from .._base.shapes import broadcast_shapes
from .._gpu.device import same_device
from .._gpu.device_array import DeviceArray
from .compile import NotCompiled
from .cuda_launch import DeviceProgram
from .cuda_steps import NotFused
from .dtypes import FLOATS
from .interpreter import Runner, dimensions
from .record import VIEWS, Record, Step, Value, View
from .symbols import record_of


def runner_of(record: Record, arrays: list[Any]) -> "DeviceRunner | None":
    """What runs a record on arrays of a device, and numbers; None if their library has not all dtypes
    of the values between steps."""
    runner = DeviceRunner(record, arrays)
    between = {x.dtype for step in record.steps for x in step.results}
    return runner if all(runner.library.nearest(x) == x for x in between) else None


class DeviceRunner(Runner):
    """Constants, and numbers that a function is given, are NumPy's until a call wants them on the device."""

    def __init__(self, record: Record, arrays: list[Any]) -> None:
        named = {f"operand {i}": x for i, x in enumerate(arrays) if not isinstance(x, np.ndarray)}
        _, given = same_device(record.name, named)
        arrays = [named.get(f"operand {i}", x) for i, x in enumerate(arrays)]
        super().__init__(record, list(map(given.with_operations, arrays)), given.namespace)
        _, self.library = same_device(record.name, {"an operand": self.like})
        self._given = given

    def _as_library(self, x: np.ndarray) -> Any:
        return x

    def seen(self, view: View) -> tuple[Any, int]:
        x, batch = self._stack(view.value)
        if isinstance(x, np.ndarray):
            return self.library.asarray(np.array(view.of(x), order="C")), batch
        return super().seen(view)

    def _viewed(self, x: Any, batch: int, word: str, argument: Any) -> Any:
        if word == "pairs" and isinstance(x, DeviceArray):
            return x.viewed(VIEWS[word], argument)
        return super()._viewed(x, batch, word, argument)

    def computed(self, step: Step) -> Any:
        try:
            return self._lines(step) if step.kind == "join" else self._elements(step)
        except (NotFused, NotCompiled) as why:
            if step.kind != "join" and isinstance(self.like, DeviceArray):  # its operations are programs
                raise NotImplementedError(
                    f"{step.label}: {why}, and a DeviceArray has no such operation"
                ) from None
            return super().computed(step)

    def _elements(self, step: Step) -> Any:
        """Of an element-wise step. Where that makes complex numbers of pairs, a pair is a vector."""
        pairs, dims = len(step.target.operations), dimensions(step)
        operands = [self._number(view) for view in step.operands]
        if all(x is not None for x in operands):
            operands[0] = None
        operands = [
            self._aligned(view, dims) if x is None else x
            for view, x in zip(step.operands, operands, strict=True)
        ]
        return _computed(step, operands, pairs, (), step.results[0].shape)

    def _number(self, view: View) -> np.ndarray | None:
        """An operand that is one number for all elements: the kernel takes it by value."""
        x, _ = self._stack(view.value)
        is_one = isinstance(x, np.ndarray) and x.size == 1 and view.dtype == x.dtype
        return x.reshape(()) if is_one and view.of(x).size else None

    def _lines(self, step: Step) -> Any:
        """Of operands side by side along an axis, which becomes that of lines; or as complex numbers."""
        pairs, dims = len(step.target.operations), dimensions(step)
        axis, line = step.axis - dims, -1 - pairs
        operands = [self._aligned(view, dims) for view in step.operands]
        if axis > line:
            return _computed(step, operands, pairs, ())
        moved = [_moved(self.xp, x, axis, line) for x in operands]
        length = step.results[0].shape[step.axis]
        return _moved(self.xp, _computed(step, moved, 1 + pairs, (length,)), -1, axis + pairs)

    def returned(self, x: Any) -> Any:
        return self._given.returned(x)

    def answer(self, x: Any) -> Any:
        answer, _ = self.seen(x.view)
        return (
            answer
            if x.dtype == x.view.dtype
            else _run(_conversion(x.view.dtype, x.dtype), [answer], answer.shape)
        )


def _computed(
    step: Step, operands: list[Any], core: int, shape: tuple[int, ...], stack: tuple[int, ...] = ()
) -> Any:
    """A step without a call by one kernel. Its matrices are the last so many dimensions of operands, and of
    that shape in the result, which has at least these batch dimensions."""
    shapes = [tuple(x.shape) for x in operands]
    stacks = [own[: max(len(own) - core, 0)] for own in shapes]
    inputs = tuple(
        (own[len(stack) :], view.dtype)
        for own, stack, view in zip(shapes, stacks, step.operands, strict=True)
    )
    program = _program_of(step.kind, step.name, step.dtype, inputs, shape, step.results[0].dtype)
    return _run(program, operands, broadcast_shapes(*stacks, stack))


def _run(program: DeviceProgram, operands: list[Any], batch: tuple[int, ...]) -> Any:
    (result,), _ = program.run([f"operand {i}" for i in range(len(operands))], operands, batch)
    return result


@cache
def _program_of(
    kind: str,
    name: str,
    dtype: np.dtype,
    inputs: tuple[tuple[tuple[int, ...], np.dtype], ...],
    shape: tuple[int, ...],
    result: np.dtype,
) -> DeviceProgram:
    record = record_of(name, dtype)
    views = tuple(record.input(own, of, dense=True).view for own, of in inputs)
    value = Value(shape, result, "computed")
    record.steps.append(Step(kind, name, views, (value,), dtype, name))
    return DeviceProgram(record, [record.symbol(value)], 0)


@cache
def _conversion(of: np.dtype, to: np.dtype) -> DeviceProgram:
    """Elements in another dtype, or in the same one, dense."""
    record = record_of("astype", FLOATS[1])
    return DeviceProgram(record, [record.symbol(record.input((), of, dense=True).view.value, to)], 0)


def _moved(xp: Any, x: Any, axis: int, to: int) -> Any:
    """x with an axis at another place; both count from the last."""
    axes = list(range(x.ndim))
    axes.insert(x.ndim + to, axes.pop(axis))
    return xp.permute_dims(x, tuple(axes))

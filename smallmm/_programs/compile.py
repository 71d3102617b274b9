"""From the record of a function to a program of the C core, for inputs with such strides: every view becomes
an offset and strides, in bytes, which NumPy computes on an array that has no memory."""

from collections import Counter
from itertools import groupby
from math import prod
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.shapes import absent_dimensions, broadcast_shapes, core_dimensions, is_bfloat16
from .dtypes import COMPLEX, FLOATS, INT32, NUMBERS, real_of
from .record import Record, Step, Value, View

INPUT, OUTPUT, CONSTANT, TEMPORARY = range(4)
CALL, MAP, CONVERT, UNLESS = range(4)
_OPERATIONS = {name: i for i, name in enumerate(_core.operations)}
_MAX_DIMS = 8  # of a step's own stack


class Description(NamedTuple):
    """A program in the words of `_core.Program`: values as (kind, bytes of a matrix, array of a constant);
    steps as (kind, function or operation, form, dtype, to, from, (m, n, k), outer extents, operands), where
    an operand is (value, offset, row, column, outer strides) or None, and the function of `UNLESS` is how
    many steps are left out; inputs and outputs as (value, dtype,
    core shape, core strides). Offsets and strides are bytes."""

    values: tuple[Any, ...]
    steps: tuple[Any, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    constants: tuple[np.ndarray, ...]


class NotCompiled(Exception):
    """The record has what the core does not run; it is run step by step."""


def compiled(
    record: Record,
    results: list[Any],
    layouts: list[tuple[int, ...]],
    columns: int,
) -> Description:
    """The program.

    results: symbols. layouts: the strides of the core dimensions of each input. columns: of info, 0 if no
    step can fail.
    """
    return _Compiler(record, layouts).program(results, columns)


def program_of(description: Description) -> Any:
    try:
        return _core.Program(*description)
    except ValueError:  # more inputs and outputs, or dimensions of one, than a program takes
        raise NotCompiled from None


def info_columns(record: Record) -> list[int]:
    """How many numbers of info each step has that can fail: one, or one for each member of its own stack."""
    return [prod(step.info.shape) for step in record.fallible() if step.info is not None]


def needed_steps(record: Record, results: list[Any]) -> list[Step]:
    """Steps that results depend on, and steps that can fail."""
    needed = {x.view.value for x in results}
    steps = []
    for step in reversed(record.steps):
        if step.info is not None or not needed.isdisjoint(step.results):
            needed.update(view.value for view in step.operands)
            if step.unless is not None:
                needed.add(step.unless.value)
            steps.append(step)
    return steps[::-1]


class _Compiler:
    def __init__(self, record: Record, layouts: list[tuple[int, ...]]) -> None:
        self.record = record
        self.values: list[tuple[int, int, Any]] = []
        self.steps: list[Any] = []
        self.places: dict[Value, tuple[int, int]] = {}  # the value of the program, and the offset in it
        self.layouts: dict[Value, tuple[int, ...]] = {}
        self.inputs = []
        for value, strides in zip(record.inputs, layouts, strict=True):
            index = self._new(INPUT, 0)
            self.places[value] = index, 0
            self.layouts[value] = strides
            self.inputs.append((index, value.dtype, value.shape, strides))

    def program(self, results: list[Any], columns: int) -> Description:
        outputs = []
        views: Counter[Value] = Counter(x.view.value for x in results)
        copied = []
        for x in results:
            value = x.view.value
            index = self._new(OUTPUT, 0)
            strides = dense_strides(x.shape, x.dtype)
            outputs.append((index, x.dtype, x.shape, strides))
            is_own = value.kind == "computed" and not x.view.operations and value.dtype == x.dtype
            if is_own and views[value] == 1 and value not in self.places and not self._is_info(value):
                self.places[value] = index, 0
            else:
                copied.append((x, index, strides))
        if columns:
            index = self._new(OUTPUT, 0)
            outputs.append((index, INT32, (columns,), (4,)))
            at = 0
            for step in self.record.fallible():
                assert step.info is not None
                self.places[step.info] = index, at
                at += 4 * prod(step.info.shape)
        for view, steps in groupby(needed_steps(self.record, results), attrgetter("unless")):
            first = len(self.steps)
            for step in steps:
                self._add(step)
            if view is not None:
                self._leave_out(view, first)
        for x, index, strides in copied:
            self._copy(x.view, x.shape, index, strides, x.dtype)
        constants = tuple(array for _, _, array in self.values if array is not None)
        return Description(
            tuple(self.values), tuple(self.steps), tuple(self.inputs), tuple(outputs), constants
        )

    # --- values ---

    def _is_info(self, value: Value) -> bool:
        return any(step.info is value for step in self.record.fallible())

    def _new(self, kind: int, size: int, array: Any = None) -> int:
        self.values.append((kind, size, array))
        return len(self.values) - 1

    def _place(self, value: Value) -> tuple[int, int]:
        if value not in self.places:
            if value.kind == "constant":
                assert value.array is not None
                array = value.array if value.array.size else np.zeros(1, value.dtype)
                self.places[value] = self._new(CONSTANT, 0, array), 0
            else:
                size = prod(value.shape) * value.dtype.itemsize
                self.places[value] = self._new(TEMPORARY, size), 0
        return self.places[value]

    def _seen(self, view: View) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """Which value, the offset of the view, its shape and strides."""
        index, offset = self._place(view.value)
        value = view.value
        strides = self.layouts.get(value) or dense_strides(value.shape, value.dtype)
        if not view.operations:
            return index, offset, value.shape, strides
        whole = without_memory(value.shape, strides, value.dtype)
        part = view.of(whole)
        return index, offset + address_of(part) - address_of(whole), part.shape, part.strides

    # --- steps ---

    def _add(self, step: Step) -> None:
        match step.kind:
            case "call":
                self._call(step)
            case "map":
                self._elements(
                    MAP, _core.functions[step.name][0], step.dtype, self._seen(step.target), step.operands
                )
            case "convert":
                self._convert(self._seen(step.target), step.operands[0], step.target.dtype)
            case "join":
                self._join(step)

    def _leave_out(self, view: View, first: int) -> None:
        """The steps from the first on, unless some element is 0."""
        steps = self.steps[first:]
        del self.steps[first:]
        self._elements(UNLESS, len(steps), view.dtype, self._seen(view), ())
        self.steps += steps

    def _elements(
        self,
        kind: int,
        which: int,
        dtype: np.dtype,
        result: tuple[int, int, tuple[int, ...], tuple[int, ...]],
        arguments: tuple[View, ...],
        types: tuple[int, int] = (0, 0),
    ) -> None:
        shape = result[2]
        seen = [result, *(_broadcast(self._seen(x), shape) for x in arguments)]
        *own, m, n = (1,) * (2 - len(shape)) + shape
        operands = tuple(_operand(index, offset, strides) for index, offset, _, strides in seen)
        self._append(kind, which, 0, dtype, types, (m, n, 1), tuple(own[::-1]), operands)

    def _append(
        self,
        kind: int,
        which: int,
        form: int,
        dtype: np.dtype,
        types: tuple[int, int],
        sizes: tuple[int, int, int],
        own: tuple[int, ...],
        operands: tuple[Any, ...],
    ) -> None:
        if len(own) > _MAX_DIMS:
            raise NotCompiled
        number = _core.dtypes.index(NUMBERS[dtype])
        self.steps.append((kind, which, form, number, *types, sizes, own, operands))

    def _convert(self, result: Any, view: View, to: np.dtype) -> None:
        self._elements(CONVERT, 0, FLOATS[1], result, (view,), (_type(to), _type(view.dtype)))

    def _copy(
        self, view: View, shape: tuple[int, ...], index: int, strides: tuple[int, ...], dtype: np.dtype
    ) -> None:
        if dtype in COMPLEX:
            view, dtype = view.as_pairs(), real_of(dtype)
            shape, strides = (*shape, 2), (*strides, dtype.itemsize)
        target = index, 0, shape, strides
        if dtype == view.dtype and dtype in FLOATS:
            self._elements(MAP, _core.functions["copy"][0], dtype, target, (view,))
        else:
            self._convert(target, view, dtype)

    def _join(self, step: Step) -> None:
        index, offset, _, strides = self._seen(step.target)
        for view in step.operands:
            shape = self._seen(view)[2]
            target = index, offset, shape, strides
            self._elements(MAP, _core.functions["copy"][0], step.dtype, target, (view,))
            offset += shape[step.axis] * strides[step.axis]

    def _call(self, step: Step) -> None:
        gufunc = getattr(_core, step.name)
        operation, form = _core.gufunc_rows[step.name]
        rows = _core.operations[operation]
        views = (*step.operands, *map(View, step.results))
        inputs, outputs = core_dimensions(gufunc)
        shapes = [self._seen(x) for x in views]
        absent = absent_dimensions([SimpleNamespace(ndim=len(x[2])) for x in shapes[: len(inputs)]], inputs)
        present = [[d for d in dims if d not in absent] for dims in (*inputs, *outputs)]
        whole = len(views) == len(rows)
        sizes: dict[str, int] = {}
        owns = [x[2][: len(x[2]) - len(dims)] for x, dims in zip(shapes, present, strict=True)]
        own = broadcast_shapes(*owns)
        operands: list[Any] = []
        given = iter(zip(shapes, present, strict=True))
        for _, _, optional, _, row, col in rows:
            if optional and not whole:
                operands.append(None)
                continue
            (index, offset, shape, strides), dims = next(given)
            core = len(dims)
            outer = _broadcast_strides(shape[: len(shape) - core], strides[: len(shape) - core], own)
            shape, strides = shape[len(shape) - core :], strides[len(strides) - core :]
            if core == 1:
                is_row = dims[0].rstrip("?") == col and dims[0].rstrip("?") != row
                shape, strides = ((1, *shape), (0, *strides)) if is_row else ((*shape, 1), (*strides, 0))
            elif core == 0:
                shape, strides = (1, 1), (0, 0)
            for name, size in ((row, shape[0]), (col, shape[1])):
                sizes.setdefault(name, size)
            operands.append(_operand(index, offset, outer + tuple(strides)))
        m, n, k = (sizes.get(x) for x in "mnk")
        n = 1 if n is None else n
        m = n if m is None else m
        k = 1 if k is None else k
        which = _OPERATIONS[operation]
        self._append(CALL, which, form, step.dtype, (0, 0), (m, n, k), tuple(own[::-1]), tuple(operands))


def _type(dtype: np.dtype) -> int:
    names = {**NUMBERS, np.dtype(np.float16): "f16"}
    name = "bf16" if is_bfloat16(dtype) else names.get(dtype, dtype.name)
    return _core.elements.index(name)


def dense_strides(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    strides, step = [], dtype.itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(strides[::-1])


def without_memory(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of that layout, none of whose elements may be read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)


def address_of(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def _broadcast_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...]
) -> tuple[int, ...]:
    """Strides of an operand whose dimensions of length 1, or missing ones, are repeated."""
    own = tuple(0 if size == 1 else step for size, step in zip(shape, strides, strict=True))
    return (0,) * (len(to) - len(own)) + own


def _broadcast(
    seen: tuple[int, int, tuple[int, ...], tuple[int, ...]], shape: tuple[int, ...]
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    index, offset, own, strides = seen
    return index, offset, shape, _broadcast_strides(own, strides, shape)


def _operand(index: int, offset: int, strides: tuple[int, ...]) -> tuple[Any, ...]:
    """An operand of a step: the last two dimensions are rows and columns."""
    *outer, row, col = (0,) * (2 - len(strides)) + strides
    return index, offset, row, col, tuple(outer[::-1])

"""Sums of long vectors in a fused function. A vector longer than a cache is divided into blocks of as many
elements as `sums` adds in a row. One program computes the element-wise steps and the sum of each block: its
stack is that of the blocks, so that threads share them and values between the steps stay in the cache.
Another program takes these sums to the end. The order of operations, and so the bits, are those of a single
program. This is not for functions whose element-wise steps need a sum, or whose results have all elements."""

from math import prod
from typing import Any

import numpy as np

from .arrays import is_dense
from .compile import NotCompiled, address_of, compiled, dense_strides, program_of, without_memory
from .compose import CHUNK
from .dtypes import COMPLEX
from .record import Record, Step, Value, View

MIN_LENGTH = 1 << 14  # elements of a vector that is divided


class LongProgram:
    """Is called as a `_core.Program` is. Raises NotCompiled where a function is not of this kind."""

    def __init__(
        self, record: Record, results: list[Any], steps: list[Step], layouts: list[tuple[int, ...]]
    ) -> None:
        self._length = max((x.shape[0] for x in record.inputs if len(x.shape) == 1), default=0)
        if self._length < MIN_LENGTH or record.fallible() or _has_complex(record):
            raise NotCompiled
        self._whole = self._length - self._length % CHUNK
        self._steps = steps
        self._inputs = record.inputs
        # values of all elements, with the step of each; the sums of their blocks, and of what is left
        self._elements: dict[Value, Step | None] = {
            x: None for x in record.inputs if x.shape == (self._length,)
        }
        self._sums: dict[Value, Value] = {}
        self._ends: dict[Value, Value] = {}
        self._copies: dict[Value, Value] = {}  # of the elements of all blocks
        self._after = self._divide()
        if not self._sums or any(x.view.value in {**self._elements, **self._copies} for x in results):
            raise NotCompiled
        self._blocks = self._part(record, layouts, self._sums, CHUNK)
        self._end = self._part(record, layouts, self._ends, self._length - self._whole)
        sums = [*self._sums, *self._ends]
        others = [(x, own) for x, own in zip(record.inputs, layouts, strict=True) if x not in self._elements]
        last = Record(record.name, record.dtype, record.make_symbol, record.namespace)
        last.inputs, last.steps = [*sums, *(x for x, _ in others)], self._after
        own = [*(dense_strides(x.shape, x.dtype) for x in sums), *(own for _, own in others)]
        self._last = program_of(compiled(last, results, own, 0))

    def _divide(self) -> list[Step]:
        """Find elements and sums. What is left are the steps that take sums alone."""
        after = []
        rest = self._length - self._whole
        for step in self._steps:
            sources = [self._copies.get(x.value, x.value) for x in step.operands]
            spans = [
                _span(x) if y in self._elements else None for x, y in zip(step.operands, sources, strict=True)
            ]
            if not any(x in self._elements for x in sources):
                after.append(step)
            elif step.kind == "map" and step.name == "copy" and spans[0] == (0, (self._whole,)):
                self._copies[step.results[0]] = sources[0]
            elif step.kind in ("map", "convert") and step.results[0].shape == (self._length,):
                if not all(
                    x == (0, (self._length,)) or self._is_number(y)
                    for x, y in zip(spans, step.operands, strict=True)
                ):
                    raise NotCompiled
                self._elements[step.results[0]] = step
            elif step.name == "matvec" and _is_ones(step.operands[1]):
                if spans[0] == (0, (self._whole // CHUNK, 1, CHUNK)):
                    self._sums[step.results[0]] = sources[0]
                elif spans[0] == (self._whole, (1, rest)) or (
                    not rest and spans[0] and spans[0][1] == (1, 0)
                ):
                    self._ends[step.results[0]] = sources[0]
                else:
                    raise NotCompiled
            else:
                raise NotCompiled
        return after

    def _is_number(self, view: View) -> bool:
        """Whether it is one number for all elements, known before the first step."""
        return view.value.kind != "computed" and prod(view.value.shape) == 1 and not view.operations

    def _is_of_blocks(self, x: Value) -> bool:
        return x in self._elements or x.shape in ((), (1,))

    def _part(
        self, record: Record, layouts: list[tuple[int, ...]], sums: dict[Value, Value], size: int
    ) -> Any:
        """The program of all steps on so many elements, and of their sums."""
        own = Record(record.name, record.dtype, record.make_symbol, record.namespace)
        values: dict[Value, Value] = {}
        for x in filter(self._is_of_blocks, record.inputs):
            shape = (size,) if x in self._elements else x.shape
            values[x] = Value(shape, x.dtype, "input", dense=x.dense)
            own.inputs.append(values[x])
        for x, step in self._elements.items():
            if step is None:
                continue
            sources = [self._copies.get(view.value, view.value) for view in step.operands]
            operands = tuple(View(values.get(y, y)) for y in sources)
            values[x] = Value((size,), x.dtype, "computed")
            own.steps.append(Step(step.kind, step.name, operands, (values[x],), step.dtype, step.label))
        results = []
        for total, x in sums.items():
            row = View(values[x], (("index", (None, (None, None, None))),))
            ones = own.constant(np.ones(size, x.dtype)).view
            value = Value((1,), total.dtype, "computed")
            own.steps.append(Step("call", "matvec", (row, ones), (value,), x.dtype, "sum"))
            results.append(own.symbol(value))
        given = [y for x, y in zip(record.inputs, layouts, strict=True) if self._is_of_blocks(x)]
        return program_of(compiled(own, results, given, 0))

    def __call__(self, *arrays: Any) -> Any:
        given, targets = arrays[: len(self._inputs)], arrays[len(self._inputs) :]
        if len(given) < len(self._inputs):
            return NotImplemented
        blocks, ends, others = [], [], []
        for x, value in zip(given, self._inputs, strict=True):
            core = len(value.shape)
            if type(x) is not np.ndarray or x.ndim < core or x.shape[x.ndim - core :] != value.shape:
                return NotImplemented
            if value in self._elements:
                blocks.append(x[..., : self._whole].reshape(*x.shape[:-1], -1, CHUNK))
                ends.append(x[..., self._whole :])
                continue
            others.append(x)
            if self._is_of_blocks(value):
                blocks.append(x[..., None, :] if core else x[..., None])
                ends.append(x)
        sums, end = self._blocks(*blocks), self._end(*ends)
        if sums is NotImplemented or end is NotImplemented:
            return NotImplemented
        return self._last(*sums[0], *end[0], *others, *targets)

    @property
    def plan(self) -> dict[str, Any]:
        """As that of `_core.Program`: of a whole vector, but for the tile, which is of blocks."""
        blocks, last = self._blocks.plan, self._last.plan
        count = self._whole // CHUNK
        names, of_sums = iter(last["kernels"]), blocks["kernels"][-1] if blocks["kernels"] else None
        kernels: list[str | None] = []
        for step in self._steps:
            if step in self._after:
                kernels += [next(names, None) for _ in (step.operands if step.kind == "join" else (step,))]
            else:
                is_sum = step.results[0] in self._sums or step.results[0] in self._ends
                kernels.append(of_sums if is_sum else None)
        added = {x: blocks[x] * count + self._end.plan[x] + last[x] for x in ("flops", "bytes", "saved")}
        return {**blocks, **added, "kernels": tuple(kernels), "block": CHUNK}


def _has_complex(record: Record) -> bool:
    return any(x.dtype in COMPLEX for x in (*record.inputs, *(y for s in record.steps for y in s.results)))


def _span(view: View) -> tuple[int, tuple[int, ...]] | None:
    """The first element of a vector that a view has, and its shape, if its elements follow each other."""
    whole = without_memory(view.value.shape, dense_strides(view.value.shape, np.dtype("f8")), np.dtype("f8"))
    part = view.of(whole)
    if not is_dense(part, part.ndim):
        return None
    return (address_of(part) - address_of(whole)) // 8, part.shape


def _is_ones(view: View) -> bool:
    array = view.value.array
    return array is not None and not view.operations and bool((array == 1).all())

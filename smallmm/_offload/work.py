"""What is offloaded: a gufunc's call, or a fused function's program, as work that is divided into blocks."""

from __future__ import annotations

from itertools import product, zip_longest
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.shapes import (
    SCALED,
    absent_dimensions,
    broadcast_shapes,
    computed_dtypes,
    core_dimensions,
    core_sizes,
    device_has_kernel,
    narrow_dtype,
    number_dtype,
    operand_dtypes,
    with_dimensions,
)
from .._gpu.device_array import DeviceArray, address_of, is_dense, memory_order
from .._programs.cuda_launch import DeviceProgram

BLOCK = 32 << 20  # bytes of a block, by default; but
MIN_BLOCK = 1 << 20  # down to this so many that each stream
ROUNDS = 4  # gets several blocks
_LINE = 256  # operands begin at multiples of so many bytes


class Plan(NamedTuple):
    """How a gufunc's call, or a program, is divided."""

    matrices: int  # of a block
    blocks: int
    lanes: int  # of all devices
    up: int  # bytes
    down: int
    staged: int  # bytes that are copied to or from page-locked memory
    operation: str


class Operand:
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
        return aligned(x.size * self.dtype.itemsize)

    def moves_itself(self, x: np.ndarray) -> bool:
        """Whether the device reads or writes the array's own memory."""
        return self.pinned and x.dtype == self.dtype and is_dense(x, memory_order(x))


def aligned(size: int) -> int:
    return -(-size // _LINE) * _LINE


def memory_of(x: np.ndarray) -> tuple[Any, ...]:
    """The same for views of the same elements."""
    order = memory_order(x)
    sizes = tuple((x.shape[d], x.strides[d]) for d in order if x.shape[d] > 1)
    return address_of(x), x.dtype, sizes


def is_our_pinned(x: np.ndarray) -> bool:
    """Whether it lies in memory of `empty_pinned` or `pin`. Of others the driver would have to be asked."""
    base: Any = x
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, _core.CudaResource)


class Work:
    """What goes through devices: arrays of NumPy that fit each other, and what computes a block of them."""

    operation = ""  # its rates are known
    batch: tuple[int, ...]
    inputs: list[Any]  # Operand, or a number
    outputs: list[Operand]
    given: list[Any]  # the caller's arrays for results, or None
    wholes: list[np.ndarray]  # the memory of results
    updates = False  # the first result is added to the caller's array

    def launch(self, stream: int, arrays: list[Any], results: list[DeviceArray]) -> None:
        """One block, on the device that these are on."""
        raise NotImplementedError

    def division(self, most: int) -> tuple[int, int]:
        """The axis that blocks of up to `most` matrices are parts of, and their length along it."""
        for axis in range(len(self.batch)):
            rest = prod(self.batch[axis + 1 :])
            if rest <= most:
                return axis, min(self.batch[axis], most // rest)
        return -1, 1

    def blocks(self, most: int) -> list[tuple[slice, ...]]:
        axis, step = self.division(most)
        if axis < 0:
            return [()]
        ends = [*([1] * axis), step]
        starts = product(*(range(0, n, by) for n, by in zip(self.batch, ends, strict=False)))
        rest = (slice(None),) * (len(self.batch) - axis - 1)
        return [(*(slice(i, i + by) for i, by in zip(start, ends, strict=True)), *rest) for start in starts]

    def most(self, block: int | None, lanes: int) -> int:
        """Matrices of a block of so many bytes; with None, of as many as suit the lanes."""
        each = sum(
            prod(x.core_shape) * x.dtype.itemsize
            for x in (*self.arrays(), *self.outputs)
            if x.varies(len(self.batch))
        )
        count = prod(self.batch)
        if block is None:
            block = min(BLOCK, max(MIN_BLOCK, count * each // (lanes * ROUNDS)))
        return max(1, min(count, block // max(1, each)))

    def arrays(self) -> list[Operand]:
        return [x for x in self.inputs if isinstance(x, Operand)]

    def plan(self, block: int | None, lanes: int) -> Plan:
        most = self.most(block, lanes)
        ups = list({memory_of(x.array): x for x in self.arrays()}.values())
        ups += self.outputs[:1] if self.updates else []
        for x in (*ups, *self.outputs):
            x.pinned = is_our_pinned(x.array)
        blocks = len(self.blocks(most))
        return Plan(
            most,
            blocks,
            min(blocks, lanes),
            sum(x.array.size * x.dtype.itemsize for x in ups),
            sum(x.array.size * x.dtype.itemsize for x in self.outputs),
            sum(x.array.nbytes for x in (*ups, *self.outputs) if not x.moves_itself(x.array)),
            self.operation,
        )

    def answer(self) -> list[Any]:
        results = []
        for out, whole in zip(self.given, self.wholes, strict=True):
            if out is not None and whole is not out:
                np.copyto(out, whole, casting="same_kind")
            results.append(whole[()] if out is None else out)
        return results


class Call(Work):
    """A gufunc's call on arrays of NumPy that fit each other."""

    def __init__(self, op: str, gufunc: np.ufunc, operands: dict[str, Any], targets: dict[str, Any]) -> None:
        self.gufunc = gufunc
        self.operation = _core.gufunc_rows[gufunc.__name__][0]
        self.labels = tuple(f"{op}: {name}" for name in (*operands, *["a result"] * gufunc.nout))
        arrays = {name: np.asarray(x) for name, x in operands.items()}
        inputs, outputs = core_dimensions(gufunc)
        absent = absent_dimensions(arrays.values(), inputs)  # which are of length 1 on the device
        self.sizes = {**dict.fromkeys(absent, 1), **core_sizes(gufunc, arrays)}
        self.computed = number_dtype(gufunc, operands)
        own_inputs = operand_dtypes(gufunc, operands)
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
            Operand(x, core, dims, own_inputs[name])
            for name, x, core in zip(arrays, full, cores, strict=True)
        ]  # fmt: skip
        self.given = [x for x, _ in zip_longest(given, range(gufunc.nout))]
        beta = operands.get("beta", 0) if gufunc.__name__ in SCALED else 0
        self.updates = bool(np.any(np.asarray(beta) != 0)) and self.given[0] is not None
        self.wholes = [
            self._whole(out, self.batch + shape, dtype, list(arrays.values()))
            for out, shape, dtype in zip(self.given, out_shapes, own, strict=True)
        ]
        self.outputs = [
            Operand(with_dimensions(x, names, absent), len(names), dims, dtype)
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
        if not device_has_kernel(self.operation, self.computed, m, max(k, 1), n):
            return f"it has no kernels for {', '.join(f'{dim} = {size}' for dim, size in sizes.items())}"
        return None

    def is_empty(self) -> bool:
        return 0 in self.batch or 0 in self.sizes.values()

    def launch(self, stream: int, arrays: list[Any], results: list[DeviceArray]) -> None:
        _core.device_run(self.gufunc, stream, *arrays, *results, labels=self.labels)


class Program(Work):
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
            x if x.ndim == 0 else Operand(x, len(shape), dims, x.dtype)
            for x, (_, _, shape, _) in zip(operands, described.inputs, strict=True)
        ]
        self.given = list(targets) or [None] * len(described.outputs)
        self.wholes = list(targets) or [
            np.empty(batch + shape, dtype) for _, dtype, shape, _ in described.outputs
        ]
        self.outputs = [
            Operand(x, len(shape), dims, x.dtype)
            for x, (_, _, shape, _) in zip(self.wholes, described.outputs, strict=True)
        ]

    def why_not(self) -> str:
        most = max(x.array.ndim for x in (*self.arrays(), *self.outputs))
        if most > _core.limits["cuda_dimensions"]:
            return f"arrays have {most} dimensions"
        return "" if self.arrays() else "all operands are numbers"

    def is_empty(self) -> bool:
        return any(x.size == 0 for x in self.wholes)

    def launch(self, stream: int, arrays: list[Any], results: list[DeviceArray]) -> None:
        self.program.launch(self.names, arrays, results, stream)

"""Fused functions on arrays of a CUDA device: one kernel runs all steps. Here is which kernel takes arrays
that lie so, and its launch; `cuda_kernel` writes the kernels."""

import struct
from math import prod
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._base.cache import Cache
from .._gpu.device import same_device
from .compile import compiled, dense_strides
from .cuda_kernel import Kernel, Layout, kernel_of
from .cuda_steps import VECTOR, NotFused, merged
from .dtypes import COMPLEX
from .record import Record

_MAX_LAYOUTS = 64
_MAX_ARRAYS = 64  # csrc/python/device/device_programs.c


class DeviceProgram:
    """A record as kernels. `NotFused`: no kernel takes its numbers."""

    def __init__(self, record: Record, results: list[Any], columns: int) -> None:
        layouts = [dense_strides(x.shape, x.dtype) for x in record.inputs]
        self.described = compiled(record, results, layouts, columns)
        self.name = record.name
        self._launches: dict[tuple[bool, ...], _Launches] = {}

    def run(
        self, names: list[str], operands: list[Any], batch: tuple[int, ...]
    ) -> tuple[list[Any], tuple[Any, int, bytes]]:
        """The outputs, new arrays of the operands' library, in the order of its current stream; and what was
        launched: kernel, blocks, and arguments but for addresses and numbers. Operands are arrays of a
        device, and numbers as arrays of NumPy without dimensions. `NotFused`: no kernel can."""
        given = self._sorted(names, operands)
        _, library = same_device(self.name, given[0])
        outputs = [
            library.empty((*batch, *shape), np.dtype(dtype)) for _, dtype, shape, _ in self.described.outputs
        ]
        launched = self._launch(given, outputs, library.stream())
        return [library.finished(x) for x in outputs], launched

    def launch(self, names: list[str], operands: list[Any], outputs: list[Any], stream: int) -> None:
        """The kernel, on a stream, from such operands to outputs in row-major order."""
        self._launch(self._sorted(names, operands), outputs, stream)

    def _launch(self, given: "_Given", outputs: list[Any], stream: int) -> tuple[Any, int, bytes]:
        arrays, numbers, launches = given
        found: list[tuple[Any, int, bytes]] = []

        def plan(device: int, layouts: tuple[Any, ...]) -> tuple[Any, int, bytes]:
            found.append(launches.known(device, layouts)[1])
            return found[0]

        labels = (*(f"{self.name}: {name}" for name in arrays), *[f"{self.name}: an output"] * len(outputs))
        _core.device_program(plan, stream, labels, numbers, *arrays.values(), *outputs)
        return found[0]

    def check(self, operands: list[np.ndarray]) -> None:
        """`NotFused` if there is no kernel for such arrays, which are on the host. No device is used."""
        _Launches(self, tuple(x.ndim == 0 for x in operands))  # refuses too many
        layouts = tuple(
            Layout("number") if x.ndim == 0 else
            Layout("flat", (), True) if x.ndim > len(shape) else
            Layout("one", tuple(step // x.itemsize for step in dense_strides(shape, x.dtype)))
            for x, (_, _, shape, _) in zip(operands, self.described.inputs, strict=True)
        )  # fmt: skip
        kernel_of(self.described, layouts, 1)

    def explain(self, names: list[str], operands: list[Any]) -> dict[str, Any]:
        """The kernel that `run` would launch, and what the program does with a matrix. `NotFused`: there is
        no kernel."""
        arrays, numbers, launches = self._sorted(names, operands)
        _, library = same_device(self.name, arrays)
        found: list[Kernel] = []

        def plan(device: int, layouts: tuple[Any, ...]) -> tuple[Any, int, bytes]:
            kernel, (capsule, _, words) = launches.known(device, layouts)
            found.append(kernel)
            return capsule, 0, words

        labels = tuple(f"{self.name}: {name}" for name in arrays)
        _core.device_program(plan, library.stream(), labels, numbers, *arrays.values())
        (kernel,) = found
        on_host = _core.Program(*self.described)
        on_host(*(np.zeros(shape, dtype) for _, dtype, shape, _ in self.described.inputs))
        return {
            **on_host.plan,
            "kernels": (),
            "tile": kernel.matrices,
            "lanes": kernel.lanes,
            "shared": kernel.shared,
        }

    def _sorted(self, names: list[str], operands: list[Any]) -> "_Given":
        """Arrays by name, numbers, and what launches such operands."""
        which, numbers = numbers_among(operands)
        arrays = {n: x for n, x, is_number in zip(names, operands, which, strict=True) if not is_number}
        if which not in self._launches:
            self._launches[which] = _Launches(self, which)
        return arrays, numbers, self._launches[which]


_Given: TypeAlias = "tuple[dict[str, Any], tuple[float, ...], _Launches]"


class _Launches:
    """Kernels and their arguments for arrays that lie in memory in ways that were met."""

    def __init__(self, program: DeviceProgram, is_number: tuple[bool, ...]) -> None:
        arrays = is_number.count(False) + len(program.described.outputs)
        if arrays > _MAX_ARRAYS:
            raise NotFused(f"it has {arrays} operands and results; a kernel has at most {_MAX_ARRAYS}")
        self.program = program
        self.is_number = is_number
        self._known = Cache(_MAX_LAYOUTS)
        self._loaded: dict[tuple[int, str], Any] = {}
        self._lock = Lock()  # blocks of arrays of the host come from several threads

    def known(self, device: int, layouts: tuple[Any, ...]) -> tuple[Kernel, tuple[Any, int, bytes]]:
        """The kernel, and what `_core.device_program` asks: the loaded one, blocks, and arguments but for
        addresses."""
        key = device, layouts
        with self._lock:
            return self._known.get(key) or self._known.keep(key, self._found(device, layouts))

    def _found(self, device: int, layouts: tuple[Any, ...]) -> tuple[Kernel, tuple[Any, int, bytes]]:
        described = self.program.described
        taken = iter(layouts)
        cores = [len(shape) for _, _, shape, _ in described.inputs]
        given = [None if number else next(taken) for number in self.is_number]
        stacks = [() if x is None else x[1][: len(x[1]) - core] for x, core in zip(given, cores, strict=True)]
        batch = np.broadcast_shapes(*stacks)
        extents, strides, ways = laid_out(given, described.inputs, batch)
        shared = _core.cuda_device(device)[2]
        kernel = kernel_of(described, ways, len(extents), shared=shared)
        total = prod(batch)
        arrays = len(layouts) + (len(described.outputs) if len(layouts) == self.is_number.count(False) else 0)
        numbers = words_of_numbers(self.is_number, described.inputs)
        words = [total, *[0] * (arrays + numbers)]
        if kernel.strided:
            words += [*extents, *(step for i in kernel.strided for step in strides[i])]
        blocks, packed = -(-total // kernel.matrices), struct.pack(f"{len(words)}q", *words)
        return kernel, (loaded(self._loaded, device, kernel), blocks, packed)


def loaded(known: dict[tuple[int, str], Any], device: int, kernel: Kernel) -> Any:
    """The kernel on a device, to which each text goes once."""
    key = device, kernel.text
    if key not in known:
        known[key], *_ = _core.cuda_program(
            kernel.text, device, kernel.matrices, kernel.threads, kernel.shared
        )
    return known[key]


def numbers_among(operands: list[Any]) -> tuple[tuple[bool, ...], tuple[float, ...]]:
    """Which operands are numbers, as arrays of NumPy without dimensions; and these, complex ones in parts."""
    which = tuple(isinstance(x, np.ndarray) and x.ndim == 0 for x in operands)
    given = [x.item() for x, is_number in zip(operands, which, strict=True) if is_number]
    parts = [(x.real, x.imag) if isinstance(x, complex) else (float(x),) for x in given]
    return which, tuple(x for own in parts for x in own)


def words_of_numbers(is_number: tuple[bool, ...], inputs: tuple[Any, ...]) -> int:
    """Of the inputs that are given by value; complex ones have two."""
    dtypes = [dtype for number, (_, dtype, _, _) in zip(is_number, inputs, strict=True) if number]
    return sum(2 if dtype in COMPLEX else 1 for dtype in dtypes)


def laid_out(
    given: list[Any], inputs: tuple[Any, ...], batch: tuple[int, ...]
) -> tuple[list[int], list[list[int]], tuple[Layout, ...]]:
    """The batch dimensions and each input's strides over them, as `merge_batch` has them, and how each input
    lies. given: what `_core.device_program` says of it; None for numbers."""
    own = [
        (0,) * len(batch) if x is None else strides_in(batch, x[1], x[2], len(shape))
        for x, (_, _, shape, _) in zip(given, inputs, strict=True)
    ]
    ways = tuple(
        _layout_of(x, shape, np.dtype(dtype).itemsize, batch, steps)
        for x, (_, dtype, shape, _), steps in zip(given, inputs, own, strict=True)
    )
    return *merge_batch(batch, own), ways


def strides_in(
    batch: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...], core: int
) -> tuple[int, ...]:
    """Strides over the batch dimensions, in elements; 0 where the array is repeated."""
    own = len(shape) - core
    steps = tuple(0 if n == 1 else step for n, step in zip(shape[:own], strides[:own], strict=True))
    return (0,) * (len(batch) - own) + steps


def merge_batch(batch: tuple[int, ...], own: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Batch dimensions, innermost first, and strides of each array; at least one dimension."""
    extents, strides = merged(batch[::-1], [x[::-1] for x in own])
    return extents or [1], [x or [0] for x in strides]


def _layout_of(
    given: Any, core: tuple[int, ...], itemsize: int, batch: tuple[int, ...], steps: tuple[int, ...]
) -> Layout:
    if given is None:
        return Layout("number")
    _, shape, strides, at = given
    inner = tuple(
        step if n > 1 else 0 for n, step in zip(core, strides[len(shape) - len(core) :], strict=True)
    )
    items = dense_strides((*batch, *core), np.dtype("i1"))
    expected = (*((step if n > 1 else 0) for n, step in zip((*batch, *core), items, strict=True)),)
    found = (*(step if n > 1 else 0 for n, step in zip(batch, steps, strict=True)), *inner)
    if found == expected:
        return Layout("flat", (), at == 0)
    if not any(found[: len(batch)]):
        return Layout("one", inner, at == 0)
    aligned = at == 0 and not any(step * itemsize % VECTOR for step in steps)
    return Layout("strided", inner, aligned)

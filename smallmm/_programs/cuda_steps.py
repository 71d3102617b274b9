"""The steps of a program in the text of its CUDA kernel: calls of what csrc/cuda/program has, on values that
`cuda_kernel` puts into registers or into shared memory."""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.shapes import is_bfloat16
from .compile import CALL, CONSTANT, CONVERT, MAP, TEMPORARY, UNLESS, Description
from .dtypes import BOOL, COMPLEX, FLOATS, INT32, INTEGERS, real_of

WARP = 32
VECTOR = 16  # bytes of the widest access

_FUNCTIONS = {number: (name, count) for name, (number, count) in _core.functions.items()}
_OPERATIONS = tuple(_core.operations)
_DEEP = 1024  # terms of a sum, beyond which the core adds it in chunks
_SIGNED = ("signed char", "short", "int", "long long")
_UNSIGNED = ("unsigned char", "unsigned short", "unsigned", "unsigned long long")
_TYPES: dict[np.dtype, str] = {
    **dict(zip(FLOATS, ("float", "double"), strict=True)),
    **dict(zip(INTEGERS, _SIGNED + _UNSIGNED, strict=True)),
    BOOL: "Truth",
    np.dtype(np.float16): "f16",
}
_NUMBERS = tuple(np.dtype({"f32": "f4", "f64": "f8"}[x]) for x in _core.dtypes[:2])

# Of those operations that steps.cuh has: how many elements of scratch they need, and steps that wait for
# each other.
_SCRATCH: dict[str, Callable[[int, int], int]] = {
    "MATMUL": lambda n, k: 0,
    "SOLVE_TRIANGULAR": lambda n, k: 0,
    "CHO_SOLVE": lambda n, k: 0,
    "CHOLESKY": lambda n, k: 0,
    "SOLVE_POS": lambda n, k: n * n,
    "SOLVE": lambda n, k: n * n,
    "LU": lambda n, k: 0,
    "LU_SOLVE": lambda n, k: 0,
    "DET": lambda n, k: n * n,
    "SLOGDET": lambda n, k: n * n,
    "INV": lambda n, k: n * (n + 1),  # and its pivots
}


def whole_vectors(size: int) -> int:
    """Bytes of as many vectors as hold that many."""
    return -(-size // VECTOR) * VECTOR


class _Text(NamedTuple):
    """An operation whose algorithm a kernel of its own has, too: it is included for each size and type."""

    kernel: str  # whose shared memory of a matrix is what the step works in
    file: str
    max_in_registers: int  # rows and columns, where each thread has a matrix
    weight: int  # about so many operations for each m n min(m, n)
    sweeps: bool = False  # one thread finds what all of them do then

    def costs(self, name: str, dtype: int, sizes: tuple[int, int, int], lanes: int) -> tuple[int, int]:
        """Bytes of scratch, in whole vectors, and operations with those of threads that wait."""
        m, n, k = sizes
        problem = {"op": name, "dtype": _core.dtypes[dtype], "m": m, "n": n, "k": k}
        several: dict[str, Any] = {"kernel": self.kernel, "lanes": max(lanes, 2), "threads": WARP}
        # a thread might have all of it in registers, or, for the kernel, too much of it
        while (grid := _core.cuda_plan(problem, 1 << 30, several)) is None:
            several["lanes"] *= 2
        rows = min(m, n)
        busy = m * n * (self.weight * rows + 2 * k) * -(-rows // lanes) * lanes // rows
        waiting = (40 * rows * rows if self.sweeps else 10 * rows) * (lanes - 1)
        return whole_vectors(grid["shared"] // grid["matrices"]), (busy + waiting) * (
            4 if _is_complex(dtype) else 1
        )


_QR, _EIGH, _SVD = ("QR", "QR_R", "QR_RAW"), ("EIGH", "EIGVALSH"), ("SVD", "SVD_FULL", "SVDVALS")
_LU, _LDL = ("LU", "SOLVE", "LU_SOLVE", "INV", "DET", "SLOGDET"), ("LDL", "LDL_SOLVE", "SOLVE_SYM")
_TEXTS = {
    **dict.fromkeys(_QR, _Text("qr_shared", "qr_step.cuh", 4, 4)),
    **dict.fromkeys(_EIGH, _Text("eigh_shared", "eigh_step.cuh", 4, 9, sweeps=True)),
    **dict.fromkeys(_SVD, _Text("svd_shared", "svd_step.cuh", 4, 16, sweeps=True)),
    "LSTSQ": _Text("lstsq_shared", "lstsq_step.cuh", 0, 4, sweeps=True),
    **dict.fromkeys(_LDL, _Text("ldl_lanes", "ldl_step.cuh", 0, 1)),
    "EXPM": _Text("expm_shared", "expm_step.cuh", 0, 30),
    "LU_RCOND": _Text("refinement_lanes", "rcond_step.cuh", 0, 3),
}
_TEXTS_OF_COMPLEX = {
    **_TEXTS,
    **dict.fromkeys((*_LU, "CHOLESKY", "SOLVE_POS"), _Text("systems_shared", "systems_step.cuh", 0, 1)),
    **dict.fromkeys(("CHO_SOLVE", "SOLVE_TRIANGULAR"), _Text("systems_shared", "systems_step.cuh", 0, 0)),
}


def _text_of(name: str, dtype: int, sizes: tuple[int, int, int]) -> _Text | None:
    is_rectangular = name == "LU" and sizes[0] != sizes[1]
    return (_TEXTS_OF_COMPLEX if _is_complex(dtype) or is_rectangular else _TEXTS).get(name)


# Functions whose code has branches, and calls for rare arguments. Their loops over shared memory are not
# unrolled: that saves nothing, and NVRTC 13.0 gave the last of four complex quotients a wrong address
_WITH_BRANCHES = {
    *("divide", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "erfc", "ndtr"),
    *("power", "arctan2", "exponent", "scaled"),
}
_MAX_CONSTANTS = 4096
_MAX_STEPS = 2000  # NVRTC takes 4 s for 1,000, 20 s for these, minutes and gigabytes for 3,400
_EMPTY = "an array has no elements in a matrix"


class NotFused(Exception):
    """Why a program has no kernel."""


class Value(NamedTuple):
    kind: int
    dtype: np.dtype  # of complex numbers that of their parts,
    size: int  # so many of them
    array: Any
    is_complex: bool

    @property
    def bytes(self) -> int:
        """Bytes, in whole vectors."""
        return whole_vectors(self.size * self.dtype.itemsize)


class Step(NamedTuple):
    lines: list[str]
    uses: tuple[int, ...]  # values
    scratch: int  # bytes, of whole vectors
    operations: int
    text: tuple[str, ...] = ()  # of a function that it calls
    in_registers: bool = True  # if each thread has a matrix
    leaves_out: int = 0  # so many steps after it, on a condition that its last line opens


class Steps:
    """Writes the steps of a program."""

    def __init__(self, program: Description, values: list[Value]) -> None:
        self.program = program
        self.values = values

    def texts(self, lanes: int) -> list[Step]:
        """For so many threads of a matrix."""
        return [self._step(step, lanes) for step in self.program.steps]

    @staticmethod
    def end_of(value: int, steps: list[Step]) -> int:
        """The step after which no other uses a value, or the last of those that may be left out with it."""
        left_out = {number + i for number, x in enumerate(steps) for i in range(1, x.leaves_out + 1)}
        last = max((number for number, x in enumerate(steps) if value in x.uses), default=0)
        return next(number for number in range(last, len(steps)) if number + 1 not in left_out)

    def _step(self, step: Any, lanes: int) -> Step:
        kind, which, form, dtype, to, source, sizes, own, operands = step
        uses = tuple(x[0] for x in operands if x is not None)
        if kind == CALL:
            return self._call(_OPERATIONS[which], form, dtype, sizes, own, operands, uses, lanes)
        space, text = _NOWHERE
        unroll = "INNER"
        if kind == MAP:
            name, count = _FUNCTIONS[which]
            if lanes > 1 and name in _WITH_BRANCHES:
                unroll = "1"
            function = f"map_{name}<{c_type(_part(dtype))}>"
            if _is_complex(dtype):
                space, text = _elements_of(dtype)
                function = f"{space}::map_{name}"
        elif kind == CONVERT:
            function, count = f"converted<{c_type(_type(to))}, {c_type(_type(source))}>", 1
        m, n, _ = sizes
        extents = (n, m, *own)
        strides = [
            tuple(x // self._bytes(index, space) for x in (col, row, *outer))
            for index, _, row, col, outer in operands
        ]
        places = [
            self._place(x, index_of("e", *merged(extents, strides), i), space) for i, x in enumerate(operands)
        ]
        if kind == UNLESS:
            line = f"if (some_is_zero<{prod(extents)}>([&](int e) {{ return {places[0]}; }}, lane)) {{"
            return Step([line], uses, 0, prod(extents), leaves_out=which)
        arguments = ", ".join(places[1 : 1 + count])
        lines = [
            f"#pragma unroll {unroll}",
            f"for (int e = lane; e < {prod(extents)}; e += LANES) {places[0]} = {function}({arguments});",
        ]
        return Step(lines, uses, 0, prod(extents), text)

    def _bytes(self, value: int, space: str) -> int:
        """Of an element, which is a complex number where the step has them in that namespace."""
        return self.values[value].dtype.itemsize * (2 if space else 1)

    def _place(self, operand: Any, index: str, space: str) -> str:
        value, offset, *_ = operand
        first = offset // self._bytes(value, space)
        both = index if not first else str(first) if index == "0" else f"{first} + {index}"
        return f"{_elements(value, space)}[{both}]"

    def _call(
        self,
        name: str,
        form: int,
        dtype: int,
        sizes: tuple[int, int, int],
        own: tuple[int, ...],
        operands: Any,
        uses: tuple[int, ...],
        lanes: int,
    ) -> Step:
        text = _text_of(name, dtype, sizes)
        if text is None and (name not in _SCRATCH or (_is_complex(dtype) and name != "MATMUL")):
            numbers = " of complex numbers" if _is_complex(dtype) else ""
            raise NotFused(f"no kernel of a program has {name.lower()}{numbers}")
        m, n, k = sizes
        order = _core.limits["cuda_order"]
        if name != "MATMUL" and (min(m, n) > order or m * n > order**2):
            raise NotFused("a matrix is larger than the kernels take")
        if text is not None and not m * n * k:
            raise NotFused(_EMPTY)
        rows = _core.operations[name]
        space, function = _NOWHERE
        if text is not None:
            space, function = _namespace(name, form, dtype, sizes, text.file)
        elif _is_complex(dtype):
            space, function = _elements_of(dtype)
        views = []
        for x, (_, direction, _, element, _, _) in zip(operands, rows, strict=True):
            if x is None:
                views.append("Missing{}")
                continue
            value, offset, row, col, outer = x
            if name == "MATMUL" and not space and self._is_ones(value):
                views.append(f"Ones<{c_type(_part(dtype))}>{{}}")
                continue
            pairs = space if _is_complex(dtype) and element == "number" else ""
            size = self._bytes(value, pairs)
            steps = [step // size for step in outer]
            index = index_of("r", own, [steps], 0) if own else "0"
            kind = c_type(INT32) if element == "int32" else c_type(_part(dtype))
            kind = f"{space}::Complex" if pairs else kind
            constness = "const " if direction == "in" else ""
            first = offset // size
            at = _elements(value, pairs)
            at += (f" + {first}" if first else "") + (f" + {index}" if index != "0" else "")
            views.append(f"View<{constness}{kind}, {row // size}, {col // size}>{{{at}}}")
        runs = prod(own)
        if name == "MATMUL":
            return self._product(sizes, runs, views, operands, uses, lanes, function)
        if text is not None:
            body = f"{space}::step(*scratch, {', '.join(views)});"
            lines = _repeated(body, runs, f"{space}::Work", 1)
            scratch, operations = text.costs(name, dtype, sizes, lanes)
            kept = max(m, n) <= text.max_in_registers
            return Step(lines, uses, scratch, runs * operations, function, kept)
        scratch = _SCRATCH[name](n, k)
        arguments = ", ".join((*views, "scratch" if scratch else "Missing{}", "lane"))
        body = f"step_{name.lower()}<{form}, {m}, {n}, {k}>({arguments});"
        lines = _repeated(body, runs, c_type(_part(dtype)), scratch)
        # of a row after the other: what other threads would wait for
        factors = name != "SOLVE_TRIANGULAR"
        operations = runs * (n * n * (n // 3 + 2 * k) if factors else n * n * k)
        return Step(lines, uses, whole_vectors(scratch * _part(dtype).itemsize), operations)

    def _is_ones(self, value: int) -> bool:
        x = self.values[value]
        return x.kind == CONSTANT and not x.is_complex and bool((x.array == 1).all())

    def _has_vectors(self, operand: Any, m: int, k: int) -> bool:
        """Whether each row of k numbers is whole vectors of memory."""
        value, offset, row, col, outer = operand
        size = self._bytes(value, "")
        steps = (offset, k * size, *outer, row if m > 1 else 0)
        return bool(k) and col == size and not any(step % VECTOR for step in steps)

    def _product(
        self,
        sizes: Any,
        runs: int,
        views: list[str],
        operands: Any,
        uses: tuple[int, ...],
        lanes: int,
        function: tuple[str, ...],
    ) -> Step:
        m, n, k = sizes
        a, b, alpha, _, c = views
        sums_rows = n == 1 and (a.startswith("Ones"), b.startswith("Ones")) == (False, True)
        sums_rows = sums_rows and lanes > 1 and self._has_vectors(operands[0], m, k)
        beta = self.values[operands[3][0]].array if operands[3] else np.zeros(1)
        if beta is None or beta.any():
            raise NotFused("no kernel of a program adds beta C to a product")
        if k > _DEEP:
            raise NotFused(f"a product is a sum of {k} terms")
        rows, cols = (1, 1) if sums_rows else _tile_of(m, n, k, runs, lanes)
        down, across = -(-m // rows), -(-n // cols)
        tile = f"e % {across} * {cols}" if cols > 1 or across > 1 else "0"
        row = f"e / {across} % {down} * {rows}" if runs > 1 else f"e / {across} * {rows}"
        lines = ["#pragma unroll UNROLL", f"for (int e = lane; e < {runs * down * across}; e += LANES) {{"]
        lines += [f"    const int r = e / {across * down};"] if runs > 1 else []
        product = f"product_tile<{m}, {n}, {k}, {rows}, {cols}>({a}, {b}, {alpha}, {c}, {row}, {tile})"
        lines += [f"    {f'sum_row<{k}>({a}, {alpha}, {c}, {row})' if sums_rows else product};", "}"]
        rounds = -(-runs * down * across // lanes)
        work = rounds * k * (rows * cols + (rows + cols if lanes > 1 else 0))
        return Step(lines, uses, 0, work * lanes * (4 if function else 1), function)


def _part(dtype: int) -> np.dtype:
    """The type of numbers, or of the parts of complex ones."""
    return _NUMBERS[dtype % len(_NUMBERS)]


def _is_complex(dtype: int) -> bool:
    return dtype >= len(_NUMBERS)


def _elements(value: int, space: str) -> str:
    """The address of a value's elements, which are complex numbers if there is a namespace for them."""
    return f"{space}::numbers(v{value})" if space else f"v{value}"


def _namespace(
    name: str, form: int, dtype: int, sizes: tuple[int, int, int], file: str
) -> tuple[str, tuple[str, ...]]:
    """That in which the text of a file is included for these sizes."""
    space = "_".join(map(str, (name.lower(), _core.dtypes[dtype], form, *sizes)))
    macros = {"T": c_type(_part(dtype)), "COMPLEX": int(_is_complex(dtype))}
    macros |= {"OP": f"SMM_OP_{name}", "FORM": form}
    macros |= dict(zip("MNK", sizes, strict=True))
    lines = [f"namespace {space} {{", *(f"#define SMM_{macro} {value}" for macro, value in macros.items())]
    lines += [f'#include "{file}"', *(f"#undef SMM_{macro}" for macro in macros), "}"]
    return space, tuple(lines)


def _elements_of(dtype: int) -> tuple[str, tuple[str, ...]]:
    """The namespace of complex numbers for products and element-wise steps."""
    return _namespace("MATMUL", 0, dtype, (1, 1, 1), "map_complex.cuh")


_NOWHERE: tuple[str, tuple[str, ...]] = "", ()


def _repeated(body: str, runs: int, kind: str, scratch: int) -> list[str]:
    """A step of each of some matrices in turn, which all have so many elements each."""
    if runs > 1:
        lines = ["#pragma unroll UNROLL", f"for (int r = 0; r < {runs}; r++) {{", f"    {body}"]
        lines += ["    SYNC_LANES();", "}"] if scratch else ["}"]
    else:
        lines = [body]
    return ["{", f"    SCRATCH({kind}, {scratch});", *lines, "}"] if scratch else lines


def values_of(program: Description) -> list[Value]:
    """The element types of temporaries are those of the steps that write them."""
    dtypes: dict[int, np.dtype] = {}
    counts: dict[int, int] = {}
    for index, dtype, shape, _ in (*program.inputs, *program.outputs):
        dtypes[index], counts[index] = np.dtype(dtype), prod(shape)
    for i, (kind, _, array) in enumerate(program.values):
        if kind == CONSTANT:
            dtypes[i], counts[i] = array.dtype, array.size
    complex_steps = set()
    for kind, which, _, dtype, to, source, _, _, operands in program.steps:
        if kind == UNLESS:  # of a value that an earlier step writes
            continue
        for place, x in enumerate(operands):
            if x is None:
                continue
            element = _core.operations[_OPERATIONS[which]][place][3] if kind == CALL else "number"
            if _is_complex(dtype) and element == "number" and kind != CONVERT:
                complex_steps.add(x[0])
            if x[0] in dtypes:
                continue
            if kind == CALL:
                dtypes[x[0]] = INT32 if element == "int32" else _part(dtype)
            else:
                dtypes[x[0]] = _part(dtype) if kind == MAP else _type(source if place else to)
    values = []
    for i, (kind, size, array) in enumerate(program.values):
        dtype = dtypes.get(i, FLOATS[1])
        is_complex = dtype in COMPLEX or i in complex_steps
        if dtype in COMPLEX:
            dtype = real_of(dtype)
            counts[i] *= 2
            array = None if array is None else np.ascontiguousarray(array).view(dtype)
        values.append(Value(kind, dtype, counts.get(i, size // dtype.itemsize), array, is_complex))
    if len(program.steps) > _MAX_STEPS:
        raise NotFused(f"it has {len(program.steps)} steps; a kernel has at most {_MAX_STEPS}")
    if sum(x.size for x in values if x.kind == CONSTANT) > _MAX_CONSTANTS:
        raise NotFused("its constants are too many for a kernel")
    if any(x.size == 0 for x in values if x.kind != TEMPORARY):
        raise NotFused(_EMPTY)
    return values


def _type(number: int) -> np.dtype:
    names = {"f16": "float16", "bf16": "bfloat16"}
    name = _core.elements[number]
    return _NUMBERS[number] if number < len(_NUMBERS) else np.dtype(names.get(name, name))


def c_type(dtype: np.dtype) -> str:
    return "bf16" if is_bfloat16(dtype) else _TYPES[dtype]


def merged(extents: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Dimensions, innermost first, without those of length 1; merged where all operands step evenly."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, size in enumerate(extents):
        if size == 1:
            continue
        own = [x[d] for x in strides]
        if sizes and all(step == x[-1] * sizes[-1] for step, x in zip(own, steps, strict=True)):
            sizes[-1] *= size
            continue
        sizes.append(size)
        for step, x in zip(own, steps, strict=True):
            x.append(step)
    return sizes, steps


def index_of(name: str, sizes: Any, steps: Any, which: int) -> str:
    """Where element number `name` of a box of these sizes, innermost first, lies in an operand."""
    terms = []
    below = 1
    for d, (size, step) in enumerate(zip(sizes, steps[which], strict=True)):
        if step:
            term = name if below == 1 else f"{name} / {below}"
            term = f"{term} % {size}" if d + 1 < len(sizes) else term
            terms.append(term if step == 1 else f"{term} * {step}")
        below *= size
    return " + ".join(terms) or "0"


def _tile_of(m: int, n: int, k: int, runs: int, lanes: int) -> tuple[int, int]:
    """Rows and columns of C that a thread computes at a time: few loads for each product, and all threads
    busy."""
    if lanes == 1:
        return 1, 1

    def cost(tile: tuple[int, int]) -> tuple[float, int]:
        rows, cols = tile
        rounds = -(-runs * -(-m // rows) * -(-n // cols) // lanes)
        return rounds * (rows * cols + rows + cols), rows * cols

    return min(((r, c) for r in range(1, min(m, 6) + 1) for c in range(1, min(n, 6) + 1)), key=cost)

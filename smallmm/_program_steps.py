"""The steps of a program in the text of its CUDA kernel: calls of what csrc/cuda/program has, on values that
`_program_texts` puts into registers or into shared memory."""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._compile import CALL, CONSTANT, MAP, TEMPORARY, Description
from ._record import BOOL, COMPLEX, FLOATS, INT32, INTEGERS, NUMBERS
from ._shapes import is_bfloat16

WARP = 32

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


class _Text(NamedTuple):
    """Operations whose algorithm a kernel of its own has, too: it is included for each size and type."""

    kernel: str  # whose shared memory of a matrix is what the step works in
    file: str
    most_in_registers: int  # rows and columns, where each thread has a matrix
    shared: Callable[[int, int, int], int]  # operations, which threads share,
    alone: Callable[[int, int, int], int]  # and those of one, for which the others wait


def _square(m: int, n: int, k: int) -> int:
    return 40 * min(m, n) ** 2


_QR = _Text("qr_shared", "qr_step.cuh", 4, lambda m, n, k: 4 * m * n * min(m, n), lambda m, n, k: 10 * n)
_EIGH = _Text("eigh_shared", "eigh_step.cuh", 4, lambda m, n, k: 9 * n**3, _square)
_SVD = _Text("svd_shared", "svd_step.cuh", 4, lambda m, n, k: 16 * m * n * min(m, n), _square)
_LSTSQ = _Text("lstsq_shared", "lstsq_step.cuh", 0, lambda m, n, k: 2 * m * n * (min(m, n) + k), _square)
_TEXTS = {
    **dict.fromkeys(("QR", "QR_R", "QR_RAW"), _QR),
    **dict.fromkeys(("EIGH", "EIGVALSH"), _EIGH),
    **dict.fromkeys(("SVD", "SVD_FULL", "SVDVALS"), _SVD),
    "LSTSQ": _LSTSQ,
}

_MOST_CONSTANTS = 1024


class NotFused(Exception):
    """Why a program has no kernel."""


class Value(NamedTuple):
    kind: int
    dtype: np.dtype
    size: int  # in elements
    array: Any


class Step(NamedTuple):
    lines: list[str]
    uses: tuple[int, ...]  # values
    scratch: int  # bytes
    operations: int
    text: tuple[str, ...] = ()  # of a function that it calls
    in_registers: bool = True  # if each thread has a matrix


def refuse_complex(program: Description) -> None:
    """`NotFused` if numbers are complex."""
    dtypes = {dtype for _, dtype, *_ in (*program.inputs, *program.outputs)}
    if not dtypes.isdisjoint(COMPLEX) or any(step[3] >= len(_NUMBERS) for step in program.steps):
        raise NotFused("no kernel of a program takes complex numbers")


class Steps:
    """Writes the steps of a program."""

    def __init__(self, program: Description, values: list[Value]) -> None:
        self.program = program
        self.values = values

    def texts(self, lanes: int) -> list[Step]:
        """For so many threads of a matrix."""
        return [self._step(step, lanes) for step in self.program.steps]

    def _step(self, step: Any, lanes: int) -> Step:
        kind, which, form, dtype, to, source, sizes, own, operands = step
        uses = tuple(x[0] for x in operands if x is not None)
        if kind == CALL:
            return self._call(_OPERATIONS[which], form, _NUMBERS[dtype], sizes, own, operands, uses, lanes)
        if kind == MAP:
            name, count = _FUNCTIONS[which]
            function = f"map_{name}<{c_type(_NUMBERS[dtype])}>"
        else:
            function, count = f"converted<{c_type(_type(to))}, {c_type(_type(source))}>", 1
        m, n, _ = sizes
        extents = (n, m, *own)
        strides = [
            tuple(x // self.values[index].dtype.itemsize for x in (col, row, *outer))
            for index, _, row, col, outer in operands
        ]
        places = [self._place(x, index_of("e", *merged(extents, strides), i)) for i, x in enumerate(operands)]
        arguments = ", ".join(places[1 : 1 + count])
        lines = [
            "#pragma unroll INNER",
            f"for (int e = lane; e < {prod(extents)}; e += LANES) {places[0]} = {function}({arguments});",
        ]
        return Step(lines, uses, 0, prod(extents))

    def _place(self, operand: Any, index: str) -> str:
        value, offset, *_ = operand
        first = offset // self.values[value].dtype.itemsize
        both = index if not first else str(first) if index == "0" else f"{first} + {index}"
        return f"v{value}[{both}]"

    def _call(
        self,
        name: str,
        form: int,
        dtype: np.dtype,
        sizes: tuple[int, int, int],
        own: tuple[int, ...],
        operands: Any,
        uses: tuple[int, ...],
        lanes: int,
    ) -> Step:
        if name not in _SCRATCH and name not in _TEXTS:
            raise NotFused(f"no kernel of a program has {name.lower()}")
        m, n, k = sizes
        order = _core.limits["order"]
        if name != "MATMUL" and (min(m, n) > order or m * n > order**2):
            raise NotFused("a matrix is larger than the kernels take")
        rows = _core.operations[name]
        views = []
        for x, (_, direction, _, element, _, _) in zip(operands, rows, strict=True):
            if x is None:
                views.append("Missing{}")
                continue
            value, offset, row, col, outer = x
            size = self.values[value].dtype.itemsize
            steps = [step // size for step in outer]
            index = index_of("r", own, [steps], 0) if own else "0"
            kind = c_type(INT32) if element == "int32" else c_type(dtype)
            constness = "const " if direction == "in" else ""
            first = offset // size
            at = f"v{value}" + (f" + {first}" if first else "") + (f" + {index}" if index != "0" else "")
            views.append(f"View<{constness}{kind}, {row // size}, {col // size}>{{{at}}}")
        runs = prod(own)
        if name == "MATMUL":
            return self._product(sizes, runs, views, operands, uses, lanes)
        if name in _TEXTS:
            return self._of_text(name, form, dtype, sizes, runs, views, uses, lanes)
        scratch = _SCRATCH[name](n, k)
        arguments = ", ".join((*views, "scratch" if scratch else "Missing{}", "lane"))
        body = f"step_{name.lower()}<{form}, {m}, {n}, {k}>({arguments});"
        lines = _repeated(body, runs, c_type(dtype), scratch)
        # of a row after the other: what other threads would wait for
        operations = runs * (n * n * n // 3 + 2 * n * n * k)
        return Step(lines, uses, scratch * dtype.itemsize, operations)

    def _of_text(
        self,
        name: str,
        form: int,
        dtype: np.dtype,
        sizes: tuple[int, int, int],
        runs: int,
        views: list[str],
        uses: tuple[int, ...],
        lanes: int,
    ) -> Step:
        """A step whose function is made for its sizes."""
        m, n, k = sizes
        text = _TEXTS[name]
        space = "_".join(map(str, (name.lower(), NUMBERS[dtype], form, *sizes)))
        macros = {"T": c_type(dtype), "OP": f"SMM_OP_{name}", "FORM": form, "M": m, "N": n, "K": k}
        function = (
            f"namespace {space} {{",
            *(f"#define SMM_{macro} {value}" for macro, value in macros.items()),
            f'#include "{text.file}"',
            *(f"#undef SMM_{macro}" for macro in macros),
            "}",
        )
        body = f"{space}::step(*scratch, {', '.join(views)});"
        lines = _repeated(body, runs, f"{space}::Work", 1)
        problem = {"op": name, "dtype": NUMBERS[dtype], "m": m, "n": n, "k": k}
        grid = _core.cuda_plan(problem, 1 << 30, {"kernel": text.kernel, "lanes": 2, "threads": WARP})
        assert grid is not None
        rows = min(m, n)
        shared = text.shared(m, n, k) * -(-rows // lanes) * lanes // rows
        return Step(
            lines,
            uses,
            grid["shared"] // grid["matrices"],
            runs * (shared + text.alone(m, n, k) * lanes),
            function,
            max(m, n) <= text.most_in_registers,
        )

    def _product(
        self, sizes: Any, runs: int, views: list[str], operands: Any, uses: tuple[int, ...], lanes: int
    ) -> Step:
        m, n, k = sizes
        a, b, alpha, _, c = views
        beta = self.values[operands[3][0]].array if operands[3] else np.zeros(1)
        if beta is None or beta.any():
            raise NotFused("no kernel of a program adds beta C to a product")
        if k > _DEEP:
            raise NotFused(f"a product is a sum of {k} terms")
        rows, cols = _tile_of(m, n, k, runs, lanes)
        down, across = -(-m // rows), -(-n // cols)
        tile = f"e % {across} * {cols}" if cols > 1 or across > 1 else "0"
        row = f"e / {across} % {down} * {rows}" if runs > 1 else f"e / {across} * {rows}"
        lines = ["#pragma unroll UNROLL", f"for (int e = lane; e < {runs * down * across}; e += LANES) {{"]
        lines += [f"    const int r = e / {across * down};"] if runs > 1 else []
        lines += [
            f"    product_tile<{m}, {n}, {k}, {rows}, {cols}>({a}, {b}, {alpha}, {c}, {row}, {tile});",
            "}",
        ]
        rounds = -(-runs * down * across // lanes)
        work = rounds * k * (rows * cols + (rows + cols if lanes > 1 else 0))
        return Step(lines, uses, 0, work * lanes)


def _repeated(body: str, runs: int, kind: str, scratch: int) -> list[str]:
    """A step of each of some matrices in turn, which all have the same room of so many elements."""
    if runs > 1:
        lines = ["#pragma unroll UNROLL", f"for (int r = 0; r < {runs}; r++) {{", f"    {body}"]
        lines += ["    MEET();", "}"] if scratch else ["}"]
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
    for kind, which, _, dtype, to, source, _, _, operands in program.steps:
        for place, x in enumerate(operands):
            if x is None or x[0] in dtypes:
                continue
            if kind == CALL:
                element = _core.operations[_OPERATIONS[which]][place][3]
                dtypes[x[0]] = INT32 if element == "int32" else _NUMBERS[dtype]
            else:
                dtypes[x[0]] = _NUMBERS[dtype] if kind == MAP else _type(source if place else to)
    values = []
    for i, (kind, size, array) in enumerate(program.values):
        dtype = dtypes.get(i, FLOATS[1])
        values.append(Value(kind, dtype, counts.get(i, size // dtype.itemsize), array))
    if sum(x.size for x in values if x.kind == CONSTANT) > _MOST_CONSTANTS:
        raise NotFused("its constants are too many for a kernel")
    if any(x.size == 0 for x in values if x.kind != TEMPORARY):
        raise NotFused("an array has no elements in a matrix")
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

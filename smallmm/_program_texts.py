"""The texts of CUDA kernels for fused functions: one kernel runs all steps of a program. What the texts are
made of is csrc/cuda/program.

A program is described by `_compile.Description`, for inputs that are dense. How they really lie in memory is
a `Layout` of each.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._compile import CALL, CONSTANT, MAP, TEMPORARY, Description
from ._record import BOOL, COMPLEX, FLOATS, INT32, INTEGERS
from ._shapes import arithmetic, is_bfloat16

LANES = (1, 2, 4, 8, 16, 32)
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

# Words of values, and operations that may be written out, of a kernel whose threads have a matrix each. What
# is beyond the 255 registers spills to the L1 cache, which up to here takes less time than sharing a matrix
# among threads (kalman_step of 9 and 3 in double, 505 words, on an H100: 0.94 ns; else 1.5 ns and more).
_MOST_WORDS = 512
_MOST_OPERATIONS = 3000
_MOST_CONSTANTS = 1024
_SHARED = 96 << 10  # bytes that a block may have
_MOST_THREADS = 128


class NotFused(Exception):
    """Why a program has no kernel."""


class Layout(NamedTuple):
    """How an input lies in memory: "flat", its matrices dense and one after the other; "one" for all;
    "strided", anyhow; "number", given by value. Strides of the core dimensions, in elements."""

    kind: str
    core: tuple[int, ...] = ()
    aligned: bool = True  # the address is a multiple of 16 bytes


class Kernel(NamedTuple):
    """A text, and how it is launched."""

    text: str
    lanes: int  # threads of a matrix
    threads: int  # of a block
    matrices: int  # of a block
    shared: int  # bytes of a block
    strided: tuple[int, ...]  # which inputs have strides among the arguments


class _Value(NamedTuple):
    kind: int
    dtype: np.dtype
    size: int  # in elements
    array: Any


class _Step(NamedTuple):
    lines: list[str]
    uses: tuple[int, ...]  # values
    scratch: int  # bytes
    operations: int


def refuse_complex(program: Description) -> None:
    """`NotFused` if numbers are complex."""
    dtypes = {dtype for _, dtype, *_ in (*program.inputs, *program.outputs)}
    if not dtypes.isdisjoint(COMPLEX) or any(step[3] >= len(_NUMBERS) for step in program.steps):
        raise NotFused("no kernel of a program takes complex numbers")


def kernel_of(
    program: Description, layouts: tuple[Layout, ...], dims: int, *, lanes: int = 0, shared: int = _SHARED
) -> Kernel:
    """The kernel for inputs that lie so, with so many batch dimensions. lanes: 0 for what seems best. shared:
    bytes that a block may have."""
    return _Writer(program, layouts, dims, min(shared, _SHARED)).kernel(lanes)


class _Writer:
    def __init__(self, program: Description, layouts: tuple[Layout, ...], dims: int, shared: int) -> None:
        self.program = program
        self.most_shared = shared
        self.layouts = layouts
        self.dims = dims
        self.inputs = [index for index, *_ in program.inputs]
        self.outputs = [index for index, *_ in program.outputs]
        self.values = _values_of(program)
        self.ones = [i for i, x in zip(self.inputs, layouts, strict=True) if x.kind in ("one", "number")]

    def kernel(self, lanes: int) -> Kernel:
        sizes = {x.size for x in self.values if x.kind != CONSTANT}
        if sizes == {1} and lanes in (0, 1):
            return self._of_numbers()
        tried = (lanes,) if lanes else LANES if self._fits_registers() else LANES[1:]
        found = [x for x in map(self._of_matrices, tried) if x is not None]
        if not found:
            raise NotFused("the values of a matrix need more shared memory than a block has")
        return min(found, key=lambda x: x[0])[1]

    def _fits_registers(self) -> bool:
        steps = self._steps(1)
        words = {i: -(-x.size * x.dtype.itemsize // 4) for i, x in enumerate(self.values)}
        alive = self._lives(steps)
        return (
            _peak(alive, words, steps, 4) <= _MOST_WORDS
            and sum(x.operations for x in steps) <= _MOST_OPERATIONS
        )

    # --- steps ---

    def _steps(self, lanes: int) -> list[_Step]:
        return [self._step(step, lanes) for step in self.program.steps]

    def _step(self, step: Any, lanes: int) -> _Step:
        kind, which, form, dtype, to, source, sizes, own, operands = step
        uses = tuple(x[0] for x in operands if x is not None)
        if kind == CALL:
            return self._call(_OPERATIONS[which], form, _NUMBERS[dtype], sizes, own, operands, uses, lanes)
        if kind == MAP:
            name, count = _FUNCTIONS[which]
            function = f"map_{name}<{_c_type(_NUMBERS[dtype])}>"
        else:
            function, count = f"converted<{_c_type(_type(to))}, {_c_type(_type(source))}>", 1
        m, n, _ = sizes
        extents = (n, m, *own)
        strides = [
            tuple(x // self.values[index].dtype.itemsize for x in (col, row, *outer))
            for index, _, row, col, outer in operands
        ]
        places = [self._place(x, _index("e", *_merged(extents, strides), i)) for i, x in enumerate(operands)]
        arguments = ", ".join(places[1 : 1 + count])
        lines = [
            "#pragma unroll INNER",
            f"for (int e = lane; e < {prod(extents)}; e += LANES) {places[0]} = {function}({arguments});",
        ]
        return _Step(lines, uses, 0, prod(extents))

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
    ) -> _Step:
        if name not in _SCRATCH:
            raise NotFused(f"no kernel of a program has {name.lower()}")
        m, n, k = sizes
        if name != "MATMUL" and n > _core.limits["order"]:
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
            index = _index("r", own, [steps], 0) if own else "0"
            kind = _c_type(INT32) if element == "int32" else _c_type(dtype)
            constness = "const " if direction == "in" else ""
            first = offset // size
            at = f"v{value}" + (f" + {first}" if first else "") + (f" + {index}" if index != "0" else "")
            views.append(f"View<{constness}{kind}, {row // size}, {col // size}>{{{at}}}")
        runs = prod(own)
        if name == "MATMUL":
            return self._product(sizes, runs, views, operands, uses, lanes)
        scratch = _SCRATCH[name](n, k)
        arguments = ", ".join((*views, "scratch" if scratch else "Missing{}", "lane"))
        body = f"step_{name.lower()}<{form}, {m}, {n}, {k}>({arguments});"
        lines = ["{", f"    SCRATCH({_c_type(dtype)}, {scratch});"] if scratch else []
        if runs > 1:
            lines += ["#pragma unroll UNROLL", f"for (int r = 0; r < {runs}; r++) {{", f"    {body}"]
            lines += ["    MEET();"] if scratch else []
            lines += ["}"]
        else:
            lines += [body]
        lines += ["}"] if scratch else []
        # of a row after the other: what other threads would wait for
        operations = runs * (n * n * n // 3 + 2 * n * n * k)
        return _Step(lines, uses, scratch * dtype.itemsize, operations)

    def _product(
        self, sizes: Any, runs: int, views: list[str], operands: Any, uses: tuple[int, ...], lanes: int
    ) -> _Step:
        m, n, k = sizes
        a, b, *_, c = views
        if operands[2] is not None or operands[3] is not None:
            raise NotFused("no kernel of a program has alpha and beta")
        if k > _DEEP:
            raise NotFused(f"a product is a sum of {k} terms")
        rows, cols = _tile_of(m, n, k, runs, lanes)
        down, across = -(-m // rows), -(-n // cols)
        tile = f"e % {across} * {cols}" if cols > 1 or across > 1 else "0"
        row = f"e / {across} % {down} * {rows}" if runs > 1 else f"e / {across} * {rows}"
        lines = ["#pragma unroll UNROLL", f"for (int e = lane; e < {runs * down * across}; e += LANES) {{"]
        lines += [f"    const int r = e / {across * down};"] if runs > 1 else []
        lines += [
            f"    product_tile<{m}, {n}, {k}, {rows}, {cols}>({a}, {b}, {c}, {row}, {tile});",
            "}",
        ]
        rounds = -(-runs * down * across // lanes)
        work = rounds * k * (rows * cols + (rows + cols if lanes > 1 else 0))
        return _Step(lines, uses, 0, work * lanes)

    # --- kernels ---

    def _head(self, lanes: int, pitch: int, threads: int) -> list[str]:
        """What comes before the steps: sizes, arguments, constants."""
        strided = sum(x.kind == "strided" for x in self.layouts)
        numbers = sum(x.kind == "number" for x in self.layouts)
        arrays = len(self.layouts) - numbers + len(self.outputs)
        lines = [
            f"#define SMM_LANES {lanes}",
            f"#define SMM_PITCH {pitch}",
            f"#define SMM_THREADS {threads}",
            '#include "program.cuh"',
            "struct Arguments {",
            "    long long batch;",
            f"    void *data[{arrays}];",
        ]
        lines += [f"    double number[{numbers}];"] if numbers else []
        if strided:
            lines += [f"    long long extent[{self.dims}];", f"    long long stride[{strided}][{self.dims}];"]
        lines += ["};"]
        for i, x in enumerate(self.values):
            if x.kind == CONSTANT:
                lines += _constant(f"v{i}", x.array)
        return lines

    def _function(self, steps: list[_Step], at: dict[int, int], lanes: int) -> list[str]:
        """The steps, as a function of inputs and outputs."""
        parameters = ["char *mine", "int lane"]
        parameters += [f"const {_c_type(self.values[i].dtype)} *v{i}" for i in self.inputs]
        parameters += [f"{_c_type(self.values[i].dtype)} *v{i}" for i in self.outputs]
        lines = [f"__device__ __forceinline__ void compute({', '.join(parameters)}) {{"]
        for i, x in enumerate(self.values):
            if x.kind != TEMPORARY:
                continue
            kind = _c_type(x.dtype)
            if lanes == 1:
                lines.append(f"    {kind} v{i}[{x.size}];")
            elif i in at:
                lines.append(f"    {kind} *const v{i} = reinterpret_cast<{kind} *>(mine + {at[i]});")
        for number, step in enumerate(steps):
            own = ["MEET();", *step.lines]
            if step.scratch:
                place = at.get(-1 - number, 0)
                define = (
                    "#define SCRATCH(X, count) X scratch[count]"
                    if lanes == 1
                    else f"#define SCRATCH(X, count) X *const scratch = reinterpret_cast<X *>(mine + {place})"
                )
                own = [define, *own, "#undef SCRATCH"]
            lines += [x if x.startswith("#") else f"    {x}" for x in own]
        return [*lines, "}"]

    def _data(self, i: int) -> str:
        """The address of value i among the arguments."""
        arrays = [j for j, x in zip(self.inputs, self.layouts, strict=True) if x.kind != "number"]
        kind = _c_type(self.values[i].dtype)
        constness = "" if i in self.outputs else "const "
        return f"static_cast<{constness}{kind} *>(args.data[{(arrays + self.outputs).index(i)}])"

    def _moved(self, word: str, i: int, at: int, aligned: bool) -> str:
        """Load or store a warp's matrices of value i."""
        x = self.values[i]
        what = f"{_c_type(x.dtype)}, {x.size}, {str(aligned).lower()}"
        return f"{word}<{what}>(warp, {at}, {self._data(i)} + first * {x.size}, count);"

    def _number(self, i: int) -> str:
        numbers = [j for j, x in zip(self.inputs, self.layouts, strict=True) if x.kind == "number"]
        dtype = self.values[i].dtype
        x = f"static_cast<{_c_type(arithmetic(dtype))}>(args.number[{numbers.index(i)}])"
        return f"converted<{_c_type(dtype)}, {_c_type(arithmetic(dtype))}>({x})"

    def _offset(self, i: int, matrix: str) -> str:
        strided = [j for j, x in zip(self.inputs, self.layouts, strict=True) if x.kind == "strided"]
        return f"offset_of(args.extent, args.stride[{strided.index(i)}], {matrix})"

    def _strided(self) -> tuple[int, ...]:
        return tuple(i for i, x in enumerate(self.layouts) if x.kind == "strided")

    def _of_numbers(self) -> Kernel:
        """Every value is a number: a thread takes neighbours, as many as fill a vector."""
        flat = [i for i, x in zip(self.inputs, self.layouts, strict=True) if x.kind == "flat"]
        largest = max(self.values[i].dtype.itemsize for i in (*flat, *self.outputs))
        aligned = all(x.aligned for x in self.layouts if x.kind == "flat")
        width = VECTOR // largest if aligned else 1
        threads = 256
        body = [
            f"const long long first = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * {width};"
        ]
        body += ["const long long count = args.batch - first;", "if (count <= 0) return;"]
        for i, layout in zip(self.inputs, self.layouts, strict=True):
            kind = _c_type(self.values[i].dtype)
            match layout.kind:
                case "flat":
                    body += [f"{kind} v{i}[{width}];", f"load_numbers(v{i}, {self._data(i)} + first, count);"]
                case "one":
                    body += [f"const {kind} v{i}[1] = {{*{self._data(i)}}};"]
                case "number":
                    body += [f"const {kind} v{i}[1] = {{{self._number(i)}}};"]
                case _:
                    at = self._offset(i, "first + (u < count ? u : 0)")
                    body += [f"{kind} v{i}[{width}];", "#pragma unroll"]
                    body += [f"for (int u = 0; u < {width}; u++) v{i}[u] = {self._data(i)}[{at}];"]
        body += [f"{_c_type(self.values[i].dtype)} v{i}[{width}];" for i in self.outputs]
        arguments = [f"v{i}" if i in self.ones else f"v{i} + u" for i in (*self.inputs, *self.outputs)]
        body += [
            "#pragma unroll",
            f"for (int u = 0; u < {width}; u++) compute({', '.join(['nullptr', '0', *arguments])});",
        ]
        body += [f"store_numbers({self._data(i)} + first, v{i}, count);" for i in self.outputs]
        text = [
            *self._head(1, 16, threads),
            *self._function(self._steps(1), {}, 1),
            *_kernel_lines(body),
        ]
        return Kernel("\n".join(text) + "\n", 1, threads, threads * width, 0, self._strided())

    def _of_matrices(self, lanes: int) -> tuple[float, Kernel] | None:
        """The kernel with so many threads of each matrix, and what it seems to cost; None: it cannot be."""
        steps = self._steps(lanes)
        loaded = [i for i in self.inputs if i not in self.ones]
        operations = sum(x.operations for x in steps)
        if lanes == 1:
            at, end = _one_after_another({i: self._bytes(i) for i in loaded})
            out, end_of_outputs = _one_after_another({i: self._bytes(i) for i in self.outputs})
            at, pitch = {**at, **out}, _pitch(max(end, end_of_outputs))
        else:
            at, end = _placed(self._lives(steps), {i: self._bytes(i) for i in range(len(self.values))}, steps)
            pitch = _pitch(end)
        shared_by_all, ones_end = _one_after_another({i: self._bytes(i) for i in self.ones})
        warp = pitch * (WARP // lanes)
        warps = min(_MOST_THREADS // WARP, (self.most_shared - ones_end) // warp)
        if warps < 1:
            return None
        kernel = self._text(steps, at, shared_by_all, ones_end, lanes, pitch, warps * WARP)
        at_once = min(64, (224 << 10) // (warp + ones_end / warps + 256))  # warps of a multiprocessor
        cost = operations * max(1.0, 12 / at_once)
        return cost, kernel

    def _bytes(self, i: int) -> int:
        return -(-self.values[i].size * self.values[i].dtype.itemsize // VECTOR) * VECTOR

    def _lives(self, steps: list[_Step]) -> dict[int, tuple[int, int]]:
        """The first and last step of values that a matrix has for itself."""
        alive: dict[int, tuple[int, int]] = {}
        for number, step in enumerate(steps):
            for i in step.uses:
                if self.values[i].kind != CONSTANT and i not in self.ones:
                    first, _ = alive.get(i, (number, number))
                    alive[i] = first, number
        for i in (i for i in self.inputs if i not in self.ones):
            alive[i] = -1, alive.get(i, (-1, -1))[1]
        for i in self.outputs:
            alive[i] = alive.get(i, (len(steps), 0))[0], len(steps)
        return alive

    def _text(
        self,
        steps: list[_Step],
        at: dict[int, int],
        shared_by_all: dict[int, int],
        ones_end: int,
        lanes: int,
        pitch: int,
        threads: int,
    ) -> Kernel:
        body = [
            "extern __shared__ __align__(16) char shared[];",
            "const int thread = threadIdx.x % 32, lane = LANES == 1 ? 0 : thread % LANES;",
            "const long long first =",
            "    (static_cast<long long>(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32) * MATRICES;",
            "const long long rest = args.batch - first;",
            "const int count = rest < 0 ? 0 : rest < MATRICES ? static_cast<int>(rest) : MATRICES;",
            f"char *const warp = shared + {ones_end} + threadIdx.x / 32 * (MATRICES * PITCH);",
            "char *const mine = warp + thread / LANES * PITCH;",
        ]
        for i, layout in zip(self.inputs, self.layouts, strict=True):
            x = self.values[i]
            kind = _c_type(x.dtype)
            strides = tuple(layout.core)
            shape = next(shape for index, _, shape, _ in self.program.inputs if index == i)
            element = _index("e", *_merged(shape[::-1], [strides[::-1]]), 0) if strides else "e"
            where = f"reinterpret_cast<{kind} *>"
            match layout.kind:
                case "flat":
                    body.append(self._moved("load", i, at[i], layout.aligned))
                case "one":
                    body += [f"for (int e = threadIdx.x; e < {x.size}; e += THREADS)"]
                    body += [f"    {where}(shared + {shared_by_all[i]})[e] = {self._data(i)}[{element}];"]
                case "number":
                    body += [
                        f"if (threadIdx.x == 0) *{where}(shared + {shared_by_all[i]}) = {self._number(i)};"
                    ]
                case _:
                    matrix = "first + thread / LANES < args.batch ? first + thread / LANES : args.batch - 1"
                    body += [
                        "{",
                        f"    const {kind} *const from = {self._data(i)} + {self._offset(i, matrix)};",
                    ]
                    body += ["#pragma unroll 8", f"    for (int e = lane; e < {x.size}; e += LANES)"]
                    body += [f"        {where}(mine + {at[i]})[e] = from[{element}];", "}"]
        body += ["copies_done();", "__syncthreads();" if self.ones else "__syncwarp();"]
        arguments = ["mine", "lane"]
        for i in self.inputs:
            kind = _c_type(self.values[i].dtype)
            if i in self.ones:
                arguments.append(f"reinterpret_cast<const {kind} *>(shared + {shared_by_all[i]})")
            elif lanes == 1:
                body += [
                    f"{kind} v{i}[{self.values[i].size}];",
                    f"fetch<{self.values[i].size}>(v{i}, mine + {at[i]});",
                ]
                arguments.append(f"v{i}")
            else:
                arguments.append(f"reinterpret_cast<const {kind} *>(mine + {at[i]})")
        for i in self.outputs:
            kind = _c_type(self.values[i].dtype)
            if lanes == 1:
                body.append(f"{kind} v{i}[{self.values[i].size}];")
                arguments.append(f"v{i}")
            else:
                arguments.append(f"reinterpret_cast<{kind} *>(mine + {at[i]})")
        body += [f"compute({', '.join(arguments)});", "__syncwarp();"]
        if lanes == 1:
            body += [f"keep<{self.values[i].size}>(mine + {at[i]}, v{i});" for i in self.outputs]
            body += ["__syncwarp();"]
        body += [self._moved("store", i, at[i], True) for i in self.outputs]
        text = [*self._head(lanes, pitch, threads), *self._function(steps, at, lanes), *_kernel_lines(body)]
        shared = ones_end + threads // lanes * pitch
        return Kernel("\n".join(text) + "\n", lanes, threads, threads // lanes, shared, self._strided())


def _kernel_lines(body: list[str]) -> list[str]:
    head = [
        'extern "C" __global__ void __launch_bounds__(THREADS)',
        "smm_program(const __grid_constant__ Arguments args) {",
    ]
    return [*head, *(x if x.startswith("#") else f"    {x}" for x in body), "}"]


def _values_of(program: Description) -> list[_Value]:
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
        values.append(_Value(kind, dtype, counts.get(i, size // dtype.itemsize), array))
    if sum(x.size for x in values if x.kind == CONSTANT) > _MOST_CONSTANTS:
        raise NotFused("its constants are too many for a kernel")
    if any(x.size == 0 for x in values if x.kind != TEMPORARY):
        raise NotFused("an array has no elements in a matrix")
    return values


def _type(number: int) -> np.dtype:
    names = {"f16": "float16", "bf16": "bfloat16"}
    name = _core.elements[number]
    return _NUMBERS[number] if number < len(_NUMBERS) else np.dtype(names.get(name, name))


def _c_type(dtype: np.dtype) -> str:
    return "bf16" if is_bfloat16(dtype) else _TYPES[dtype]


def _constant(name: str, array: np.ndarray) -> list[str]:
    """An array in the text. Floating-point numbers are written by their bits, because NVRTC initializes no
    variable with an infinity or a NaN."""
    kind = _c_type(array.dtype)
    elements = array.ravel()
    if array.dtype.kind != "f":
        words = ", ".join(str(int(x)) for x in elements)
        return [f"static __device__ const {kind} {name}[] = {{{words}}};"]
    words = ", ".join(map(hex, elements.view(f"u{elements.itemsize}").tolist()))
    integer = {4: "unsigned", 8: "unsigned long long"}[elements.itemsize]
    return [
        f"static __device__ const {integer} {name}_bits[] = {{{words}}};",
        f"#define {name} reinterpret_cast<const {kind} *>({name}_bits)",
    ]


def _merged(extents: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
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


def _index(name: str, sizes: Any, steps: Any, which: int) -> str:
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


def _pitch(end: int) -> int:
    """Bytes of a matrix in shared memory: an odd number of vectors, so that neighbours are in other banks."""
    return (max(end, 1) + VECTOR - 1) // VECTOR * VECTOR | VECTOR


def _one_after_another(sizes: dict[int, int]) -> tuple[dict[int, int], int]:
    at, end = {}, 0
    for i, size in sizes.items():
        at[i] = end
        end += size
    return at, end


def _peak(alive: dict[int, tuple[int, int]], sizes: dict[int, int], steps: list[_Step], unit: int) -> int:
    """The most that lives at a time, with scratch."""
    return max(
        sum(sizes[i] for i, (first, last) in alive.items() if first <= s <= last)
        + (steps[s].scratch // unit if 0 <= s < len(steps) else 0)
        for s in range(-1, len(steps) + 1)
    )


def _placed(
    alive: dict[int, tuple[int, int]], sizes: dict[int, int], steps: list[_Step]
) -> tuple[dict[int, int], int]:
    """Offsets of values, and of the scratch of step s at key -1 - s, each in the first gap that is free as
    long as it lives."""
    lives = {**alive, **{-1 - s: (s, s) for s, step in enumerate(steps) if step.scratch}}
    sizes = {**sizes, **{-1 - s: -(-x.scratch // VECTOR) * VECTOR for s, x in enumerate(steps)}}
    at: dict[int, int] = {}
    for i, (first, last) in lives.items():
        others = sorted((at[j], at[j] + sizes[j]) for j in at if lives[j][0] <= last and lives[j][1] >= first)
        ends = [0]
        for begin, end in others:
            if begin - ends[-1] >= sizes[i]:
                break
            ends.append(max(ends[-1], end))
        at[i] = ends[-1]
    return at, max((at[i] + sizes[i] for i in at), default=0)

"""The texts of CUDA kernels for fused functions: one kernel runs all steps of a program, which
`cuda_steps` writes. What the texts are made of is csrc/cuda/program.

A program is described by `compile.Description`, for inputs that are dense. How they really lie in memory is
a `Layout` of each.
"""

from collections import Counter
from typing import NamedTuple

from .._base.shapes import arithmetic
from .compile import CONSTANT, TEMPORARY, Description
from .cuda_steps import VECTOR, WARP, NotFused, Step, Steps, Value, c_type, index_of, merged, values_of
from .dtypes import COMPLEX

LANES = (1, 2, 4, 8, 16, 32)

# Words of values, and operations that may be written out, of a kernel whose threads have a matrix each. What
# is beyond the 255 registers spills to the L1 cache, which up to here takes less time than sharing a matrix
# among threads (a scan of kalman_step of 9 and 3 in float, 3351 operations, on an H200: 0.16 ns; else 0.77).
_MAX_WORDS = 512
_MAX_OPERATIONS = 4000
_SHARED = 96 << 10  # bytes that a block may have
_MAX_THREADS = 128


class Layout(NamedTuple):
    """How an input lies in memory: "flat", its matrices dense and one after the other; "one" for all;
    "strided", arbitrary strides; "number", given by value. Strides of the core dimensions, in elements."""

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
    strided: tuple[int, ...]  # which inputs, and then outputs, have strides among the arguments


class BlockLayout(NamedTuple):
    """Of a block: threads of a matrix and in all, bytes of a matrix, and those that all matrices share."""

    lanes: int
    threads: int
    pitch: int
    of_all: int
    shared: dict[int, int]


def kernel_of(
    program: Description, layouts: tuple[Layout, ...], dims: int, *, lanes: int = 0, shared: int = _SHARED
) -> Kernel:
    """The kernel for inputs that lie so, with so many batch dimensions. lanes: 0 for what seems best. shared:
    bytes that a block may have."""
    return _Writer(program, layouts, dims, min(shared, _SHARED)).kernel(lanes)


class _Writer:
    keeps = True  # results leave a thread's registers for shared memory when no step is left that uses them

    def __init__(self, program: Description, layouts: tuple[Layout, ...], dims: int, shared: int) -> None:
        self.program = program
        self.max_shared = shared
        self.layouts = layouts
        self.dims = dims
        self.inputs = [index for index, *_ in program.inputs]
        self.layout_of = dict(zip(self.inputs, layouts, strict=True))
        self.outputs = [index for index, *_ in program.outputs]
        self.values = values_of(program)
        self.steps = Steps(program, self.values)
        self.ones = [i for i, x in zip(self.inputs, layouts, strict=True) if x.kind in ("one", "number")]
        self.strided = [i for i, x in zip(self.inputs, layouts, strict=True) if x.kind == "strided"]

    def kernel(self, lanes: int) -> Kernel:
        if lanes in (0, 1) and {x.size for x in self.values if x.kind != CONSTANT} == {1}:
            return self._of_numbers()
        tried = (lanes,) if lanes else LANES if self._fits_registers() else LANES[1:]
        found = [x for x in map(self._of_matrices, tried) if x is not None]
        if not found:
            raise NotFused("the values of a matrix need more shared memory than a block has")
        return min(found, key=lambda x: x[0])[1]

    def _fits_registers(self) -> bool:
        steps = self.steps.texts(1)
        words = {i: -(-x.size * x.dtype.itemsize // 4) for i, x in enumerate(self.values)}
        alive = self._lives(steps)
        return (
            all(x.in_registers for x in steps)
            and _peak(alive, words, steps, 4) <= _MAX_WORDS
            and sum(x.operations for x in steps) <= _MAX_OPERATIONS
        )

    # --- kernels ---

    def _head(self, lanes: int, pitch: int, threads: int) -> list[str]:
        """What comes before the steps: sizes, arguments, constants."""
        strided = len(self.strided)
        given = [i for i, x in zip(self.inputs, self.layouts, strict=True) if x.kind == "number"]
        numbers = sum(self.values[i].size for i in given)
        arrays = len(self.layouts) - len(given) + len(self.outputs)
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
                lines += _constant(f"v{i}", x)
        return lines

    def _function(
        self, steps: list[Step], at: dict[int, int], lanes: int, sometimes: frozenset[int] = frozenset()
    ) -> list[str]:
        """The steps, as a function of inputs and outputs. sometimes: steps that run only if `written`."""
        parameters = ["char *mine", "int lane", *["bool written"] * bool(sometimes)]
        parameters += [f"const {c_type(self.values[i].dtype)} *v{i}" for i in self.inputs]
        parameters += [f"{c_type(self.values[i].dtype)} *v{i}" for i in self.outputs]
        lines = [line for text in dict.fromkeys(step.text for step in steps) for line in text]
        lines += [f"__device__ __forceinline__ void compute({', '.join(parameters)}) {{"]
        for i, x in enumerate(self.values):
            if x.kind != TEMPORARY:
                continue
            if lanes == 1:
                lines.append(f"    {self._array(i)};")
            elif i in at:
                lines.append(f"    {c_type(x.dtype)} *const v{i} = {self._in_shared(i, at[i])};")
        ends: Counter[int] = Counter(number + x.leaves_out for number, x in enumerate(steps) if x.leaves_out)
        kept = {i: self.steps.end_of(i, steps) for i in self.outputs if self.keeps and lanes == 1 and i in at}
        for number, step in enumerate(steps):
            own = ["SYNC_LANES();", *step.lines]
            if step.scratch:
                place = at.get(-1 - number, 0)
                there = (
                    f'static_assert(sizeof(X[count]) <= {step.scratch}, "others lie behind it");'
                    f" X *const scratch = reinterpret_cast<X *>(mine + {place})"
                )
                define = f"#define SCRATCH(X, count) {'X scratch[count]' if lanes == 1 else there}"
                own = [define, *own, "#undef SCRATCH"]
            own += ["}"] * ends[number]
            own = ["if (written) {", *own, "}"] if number in sometimes else own
            own += [f"keep<{self.values[i].size}>(mine + {at[i]}, v{i});" for i in kept if kept[i] == number]
            lines += [x if x.startswith("#") else f"    {x}" for x in own]
        return [*lines, "}"]

    def _data(self, i: int) -> str:
        """The address of value i among the arguments."""
        arrays = [j for j, x in zip(self.inputs, self.layouts, strict=True) if x.kind != "number"]
        kind = c_type(self.values[i].dtype)
        constness = "" if i in self.outputs else "const "
        return f"static_cast<{constness}{kind} *>(args.data[{(arrays + self.outputs).index(i)}])"

    def _moved(self, i: int) -> tuple[Layout, str]:
        """How value i lies in memory, and what is moved of each matrix."""
        x, layout = self.values[i], self.layout_of.get(i, Layout("flat"))
        return layout, f"{c_type(x.dtype)}, {x.size}, {str(layout.aligned).lower()}"

    def _load(self, i: int, at: str | int, base: str) -> list[str]:
        """Bring a warp's matrices of an input, from `base` on, to their places."""
        layout, what = self._moved(i)
        if layout.kind != "strided":
            return [f"load<{what}>(warp, {at}, {base} + first * {self.values[i].size}, count);"]
        element = self._element(i, layout)
        if element == "e":
            return [f"load_apart<{what}>(warp, {at}, {base}, offset{i});"]
        return [
            "#pragma unroll 8",
            f"for (int e = lane; e < {self.values[i].size}; e += LANES)",
            f"    reinterpret_cast<{c_type(self.values[i].dtype)} *>(mine + {at})[e] = "
            f"({base} + offset{i})[{element}];",
        ]

    def _store(self, i: int, at: int, base: str) -> str:
        layout, what = self._moved(i)
        if layout.kind == "strided":
            return f"store_apart<{what}>(warp, {at}, {base}, offset{i}, count);"
        return f"store<{what}>(warp, {at}, {base} + first * {self.values[i].size}, count);"

    def _load_shared(self, i: int, at: int) -> list[str]:
        """What all matrices share comes once for a block."""
        to = f"reinterpret_cast<{c_type(self.values[i].dtype)} *>(shared + {at})"
        if self.layout_of[i].kind == "number":
            return [f"if (threadIdx.x == 0) {to}[{p}] = {x};" for p, x in enumerate(self._numbers(i))]
        return [
            f"for (int e = threadIdx.x; e < {self.values[i].size}; e += THREADS)",
            f"    {to}[e] = {self._data(i)}[{self._element(i, self.layout_of[i])}];",
        ]

    def _in_shared(self, i: int, at: str | int) -> str:
        """A matrix's elements of a value, which begin there, or those of all matrices."""
        constness = "const " if i in self.inputs else ""
        where = "shared" if i in self.ones else "mine"
        return f"reinterpret_cast<{constness}{c_type(self.values[i].dtype)} *>({where} + {at})"

    def _array(self, i: int) -> str:
        """The declaration of a thread's own value."""
        x = self.values[i]
        size = max(x.size, 1)  # C++ has no arrays without elements
        return f"{'alignas(16) ' if x.is_complex else ''}{c_type(x.dtype)} v{i}[{size}]"

    def _numbers(self, i: int) -> list[str]:
        """What was given by value: a number, or the parts of one."""
        given = [j for j, x in zip(self.inputs, self.layouts, strict=True) if x.kind == "number"]
        first = sum(self.values[j].size for j in given[: given.index(i)])
        kind = c_type(self.values[i].dtype)
        computed = c_type(arithmetic(self.values[i].dtype))
        return [
            f"converted<{kind}, {computed}>(static_cast<{computed}>(args.number[{first + part}]))"
            for part in range(self.values[i].size)
        ]

    def _offset(self, i: int, matrix: str) -> str:
        offset = f"offset_of(args.extent, args.stride[{self.strided.index(i)}], {matrix})"
        return f"2 * {offset}" if self._described(i)[0] in COMPLEX else offset

    def _described(self, i: int) -> tuple[str, tuple[int, ...]]:
        """The dtype and shape of an input or output."""
        given = (*self.program.inputs, *self.program.outputs)
        return next((dtype, shape) for index, dtype, shape, _ in given if index == i)

    def _strided(self) -> tuple[int, ...]:
        return tuple((self.inputs + self.outputs).index(i) for i in self.strided)

    def _element(self, i: int, layout: Layout) -> str:
        """Where element e of a matrix of an input lies in memory."""
        strides = tuple(layout.core)
        dtype, shape = self._described(i)
        if strides and dtype in COMPLEX:
            shape, strides = (*shape, 2), (*(2 * step for step in strides), 1)
        return index_of("e", *merged(shape[::-1], [strides[::-1]]), 0) if strides else "e"

    def _of_numbers(self) -> Kernel:
        """Every value is a number: a thread takes neighbours, as many as fill a vector."""
        flat = [i for i, x in zip(self.inputs, self.layouts, strict=True) if x.kind == "flat"]
        largest = max(self.values[i].dtype.itemsize for i in (*flat, *self.outputs))
        aligned = all(x.aligned for x in self.layouts if x.kind == "flat")
        width, threads = VECTOR // largest if aligned else 1, 256
        body = [
            f"const long long first = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * {width};"
        ]
        body += ["const long long count = args.batch - first;", "if (count <= 0) return;"]
        for i, layout in zip(self.inputs, self.layouts, strict=True):
            kind = c_type(self.values[i].dtype)
            match layout.kind:
                case "flat":
                    body += [f"{kind} v{i}[{width}];", f"load_values(v{i}, {self._data(i)} + first, count);"]
                case "one":
                    body += [f"const {kind} v{i}[1] = {{*{self._data(i)}}};"]
                case "number":
                    body += [f"const {kind} v{i}[1] = {{{self._numbers(i)[0]}}};"]
                case _:
                    at = self._offset(i, "first + (u < count ? u : 0)")
                    body += [f"{kind} v{i}[{width}];", "#pragma unroll"]
                    body += [f"for (int u = 0; u < {width}; u++) v{i}[u] = {self._data(i)}[{at}];"]
        body += [f"{c_type(self.values[i].dtype)} v{i}[{width}];" for i in self.outputs]
        arguments = [f"v{i}" if i in self.ones else f"v{i} + u" for i in (*self.inputs, *self.outputs)]
        body += [
            "#pragma unroll",
            f"for (int u = 0; u < {width}; u++) compute({', '.join(['nullptr', '0', *arguments])});",
        ]
        body += [f"store_values({self._data(i)} + first, v{i}, count);" for i in self.outputs]
        text = [
            *self._head(1, 16, threads),
            *self._function(self.steps.texts(1), {}, 1),
            *_kernel_lines(body),
        ]
        return Kernel("\n".join(text) + "\n", 1, threads, threads * width, 0, self._strided())

    def _of_matrices(self, lanes: int) -> tuple[float, Kernel] | None:
        """The kernel with so many threads of each matrix, and what it seems to cost; None: it cannot be."""
        steps = self.steps.texts(lanes)
        operations = sum(x.operations for x in _usual(steps))
        if lanes == 1:
            at, end = _one_after_another({i: self.values[i].bytes for i in self.inputs if i not in self.ones})
            out, end_of_outputs = _one_after_another({i: self.values[i].bytes for i in self.outputs})
            at, end = {**at, **out}, max(end, end_of_outputs)
        else:
            at, end = _placed(
                self._lives(steps), {i: self.values[i].bytes for i in range(len(self.values))}, steps
            )
        return self._in_block(steps, at, end, lanes, operations)

    def _in_block(
        self, steps: list[Step], at: dict[int, int], end: int, lanes: int, operations: int
    ) -> tuple[float, Kernel] | None:
        """The kernel with these places of values in a matrix's memory, which ends there, and its cost."""
        pitch = _pitch(end)
        shared_by_all, ones_end = _one_after_another({i: self.values[i].bytes for i in self.ones})
        warp = pitch * (WARP // lanes)
        warps = min(_MAX_THREADS // WARP, (self.max_shared - ones_end) // warp)
        if warps < 1:
            return None
        kernel = self._text(steps, at, BlockLayout(lanes, warps * WARP, pitch, ones_end, shared_by_all))
        at_once = min(64, (224 << 10) // (warp + ones_end / warps + 256))  # warps of a multiprocessor
        return operations * max(1.0, 12 / at_once), kernel

    def _lives(self, steps: list[Step]) -> dict[int, tuple[int, int]]:
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

    def _text(self, steps: list[Step], at: dict[int, int], block: BlockLayout) -> Kernel:
        body = places_in_block(block, "")
        for i in self.inputs:
            if i in self.ones:
                body += self._load_shared(i, block.shared[i])
                continue
            if i in self.strided:
                matrix = "first + thread / LANES < args.batch ? first + thread / LANES : args.batch - 1"
                body.append(f"const long long offset{i} = {self._offset(i, matrix)};")
            body += self._load(i, at[i], self._data(i))
        body += ["copies_done();", "__syncthreads();" if self.ones else "__syncwarp();"]
        arguments = ["mine", "lane"]
        for i in (*self.inputs, *self.outputs):
            if block.lanes > 1 or i in self.ones:
                arguments.append(self._in_shared(i, block.shared[i] if i in self.ones else at[i]))
                continue
            body.append(f"{self._array(i)};")
            if i in self.inputs:
                body.append(f"fetch<{self.values[i].size}>(v{i}, mine + {at[i]});")
            arguments.append(f"v{i}")
        body += [f"compute({', '.join(arguments)});", "__syncwarp();"]
        body += [self._store(i, at[i], self._data(i)) for i in self.outputs]
        return self._kernel(steps, at, block, body)

    def _kernel(
        self,
        steps: list[Step],
        at: dict[int, int],
        block: BlockLayout,
        body: list[str],
        sometimes: frozenset[int] = frozenset(),
    ) -> Kernel:
        text = [
            *self._head(block.lanes, block.pitch, block.threads),
            *self._function(steps, at, block.lanes, sometimes),
            *_kernel_lines(body, ", 1" * self.keeps),  # or ptxas spills for blocks that find no space
        ]
        matrices = block.threads // block.lanes
        shared = block.of_all + matrices * block.pitch
        return Kernel("\n".join(text) + "\n", block.lanes, block.threads, matrices, shared, self._strided())


def places_in_block(block: BlockLayout, rest: str, *own: str) -> list[str]:
    """Which matrices a warp and a thread have, and where they are in shared memory."""
    return [
        "extern __shared__ __align__(16) char shared[];",
        "const int thread = threadIdx.x % 32, lane = LANES == 1 ? 0 : thread % LANES;",
        "const long long first =",
        "    (static_cast<long long>(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32) * MATRICES;",
        f"const long long rest = args.batch - first{rest};",
        "const int count = rest < 0 ? 0 : rest < MATRICES ? static_cast<int>(rest) : MATRICES;",
        *own,
        f"char *const warp = shared + {block.of_all} + threadIdx.x / 32 * (MATRICES * PITCH);",
        "char *const mine = warp + thread / LANES * PITCH;",
    ]


def _usual(steps: list[Step]) -> list[Step]:
    """Those that are not left out where a step leaves out others."""
    left_out = {number + i for number, x in enumerate(steps) for i in range(1, x.leaves_out + 1)}
    return [x for number, x in enumerate(steps) if number not in left_out]


def _kernel_lines(body: list[str], blocks: str = "") -> list[str]:
    head = [
        f'extern "C" __global__ void __launch_bounds__(THREADS{blocks})',
        "smm_program(const __grid_constant__ Arguments args) {",
    ]
    return [*head, *(x if x.startswith("#") else f"    {x}" for x in body), "}"]


def _constant(name: str, value: Value) -> list[str]:
    """An array in the text. Floating-point numbers are written by their bits, because NVRTC initializes no
    variable with an infinity or a NaN."""
    kind = c_type(value.dtype)
    elements = value.array.ravel()
    if value.dtype.kind != "f":
        words = ", ".join(str(int(x)) for x in elements)
        return [f"static __device__ const {kind} {name}[] = {{{words}}};"]
    words = ", ".join(map(hex, elements.view(f"u{elements.itemsize}").tolist()))
    integer = {4: "unsigned", 8: "unsigned long long"}[elements.itemsize]
    return [
        f"static __device__ const __align__(16) {integer} {name}_bits[] = {{{words}}};",
        f"#define {name} reinterpret_cast<const {kind} *>({name}_bits)",
    ]


def _pitch(end: int) -> int:
    """Bytes of a matrix in shared memory: an odd number of vectors, so that neighbours are in other banks."""
    return (max(end, 1) + VECTOR - 1) // VECTOR * VECTOR | VECTOR


def _one_after_another(sizes: dict[int, int]) -> tuple[dict[int, int], int]:
    at, end = {}, 0
    for i, size in sizes.items():
        at[i] = end
        end += size
    return at, end


def _peak(alive: dict[int, tuple[int, int]], sizes: dict[int, int], steps: list[Step], unit: int) -> int:
    """The most that lives at a time, with scratch."""
    return max(
        sum(sizes[i] for i, (first, last) in alive.items() if first <= s <= last)
        + (steps[s].scratch // unit if 0 <= s < len(steps) else 0)
        for s in range(-1, len(steps) + 1)
    )


def _placed(
    alive: dict[int, tuple[int, int]], sizes: dict[int, int], steps: list[Step]
) -> tuple[dict[int, int], int]:
    """Offsets of values, and of the scratch of step s at key -1 - s, each in the first gap that is free as
    long as it lives; large ones first, between which small ones would leave gaps."""
    lives = {**alive, **{-1 - s: (s, s) for s, step in enumerate(steps) if step.scratch}}
    sizes = {**sizes, **{-1 - s: x.scratch for s, x in enumerate(steps)}}
    at: dict[int, int] = {}
    for i, (first, last) in sorted(lives.items(), key=lambda x: -sizes[x[0]]):
        others = sorted((at[j], at[j] + sizes[j]) for j in at if lives[j][0] <= last and lives[j][1] >= first)
        ends = [0]
        for begin, end in others:
            if begin - ends[-1] >= sizes[i]:
                break
            ends.append(max(ends[-1], end))
        at[i] = ends[-1]
    return at, max((at[i] + sizes[i] for i in at), default=0)

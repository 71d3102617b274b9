"""The texts of CUDA kernels for scans: one kernel runs all times of a program. What a series carries from one
time to the next stays in registers, or in shared memory; inputs of the next time come to shared memory
while this one is computed."""

from typing import Any, NamedTuple

from .._programs.compile import Description, NotCompiled, program_of
from .._programs.cuda_kernel import (
    _SHARED,
    BlockLayout,
    Kernel,
    Layout,
    _one_after_another,
    _placed,
    _Writer,
    places_in_block,
)
from .._programs.cuda_steps import NotFused, Step, c_type

INFO = 3  # numbers of a matrix's first failure: code, time from 1, column


class Loop(NamedTuple):
    """The first of a program's inputs are carried, the next move; so are and do its outputs."""

    carries: int
    xs: int
    has_info: bool
    is_number: tuple[bool, ...]  # of each input: given by value

    def given(self, layouts: tuple[Any, ...]) -> list[Any]:
        """The layouts of the inputs; None for numbers."""
        taken = iter(layouts)
        return [None if number else next(taken) for number in self.is_number]


def loop_kernel(
    program: Description,
    layouts: tuple[Layout, ...],
    dims: int,
    loop: Loop,
    ys: tuple[Layout, ...],
    shared: int = _SHARED,
) -> Kernel:
    """As `cuda_kernel.kernel_of`. ys: how the outputs that move lie, "flat" or "strided". Layouts of what
    moves are those of each time."""
    return _LoopWriter(program, layouts, dims, shared, loop, ys).kernel(0)


class _LoopWriter(_Writer):
    keeps = False  # they are carried, or are of one time

    def __init__(
        self,
        program: Description,
        layouts: tuple[Layout, ...],
        dims: int,
        shared: int,
        loop: Loop,
        ys: tuple[Layout, ...],
    ) -> None:
        own = loop.carries + loop.xs
        layouts = tuple(
            x if i >= own or x.kind == "flat" else x._replace(kind="strided") for i, x in enumerate(layouts)
        )
        super().__init__(program, layouts, dims, shared)
        n = loop.carries
        self.has_info = loop.has_info
        self.before, self.xs, self.consts = self.inputs[:n], self.inputs[n:own], self.inputs[own:]
        self.after = self.outputs[:n]
        self.info = self.outputs[-1] if loop.has_info else -1
        self.ys = self.outputs[n : len(self.outputs) - loop.has_info]
        self.moving = [*self.xs, *self.ys]
        self.layout_of |= zip(self.ys, ys, strict=True)
        self.strided += [i for i in self.ys if self.layout_of[i].kind == "strided"]
        self.sometimes = self._for_outputs(n)

    def _of_numbers(self) -> Kernel:
        """A thread has a matrix of one number."""
        found = self._of_matrices(1)
        if found is None:
            raise NotFused("the values of a matrix need more shared memory than a block has")
        return found[1]

    def _for_outputs(self, carries: int) -> frozenset[int]:
        """Steps that need not run where no output is written: nothing that is carried depends on them."""
        try:
            return frozenset(program_of(self.program).steps_for_outputs(carries))
        except NotCompiled:  # the core takes fewer inputs and outputs than a kernel
            return frozenset()

    def _lives(self, steps: list[Step]) -> dict[int, tuple[int, int]]:
        alive = super()._lives(steps)
        whole = (-1, len(steps))
        return {i: whole if i in (*self.inputs, self.info) else x for i, x in alive.items()}

    def _of_matrices(self, lanes: int) -> tuple[float, Kernel] | None:
        steps = self.steps.texts(lanes)
        operations = sum(x.operations for x in steps)
        apart = {i: self.values[i].bytes for i in self.consts if i not in self.ones}
        at, end = _one_after_another(apart)
        carried: dict[int, int] = {}
        for i in self.xs:
            carried[i], end = end, end + self.values[i].bytes * (1 if lanes == 1 else 2)
        at |= carried
        if lanes == 1:
            stage = end
            for i in self.ys:
                at[i], end = end, end + self.values[i].bytes
            # carries pass where outputs do later
            places, most = _one_after_another({i: self.values[i].bytes for i in self.before})
            at |= {i: stage + x for i, x in places.items()}
            at |= {after: at[before] for before, after in zip(self.before, self.after, strict=True)}
            end = max(end, stage + most)
        else:
            alive = {i: x for i, x in self._lives(steps).items() if i not in at}
            placed, most = _placed(alive, {i: self.values[i].bytes for i in range(len(self.values))}, steps)
            at |= {i: end + x for i, x in placed.items()}
            end += most
        return self._in_block(steps, at, end, lanes, operations)

    # --- the text ---

    def _text(self, steps: list[Step], at: dict[int, int], block: BlockLayout) -> Kernel:
        matrix = "const long long matrix = own < args.batch ? own : args.batch - 1;"
        body = [
            *places_in_block(block, ", own = first + thread / LANES", matrix),
            *self._begin(at, block),
            "for (long long t = 0; t < args.length; t++) {",
            *(x if x.startswith("#") else f"    {x}" for x in self._one_time(at, block)),
            "}",
            *self._end(at, block.lanes),
        ]
        return self._kernel(steps, at, block, body, self.sometimes)

    def _begin(self, at: dict[int, int], block: BlockLayout) -> list[str]:
        """Before the first time: load carries and constants, and the inputs of the first time."""
        body = [f"const long long offset{i} = {self._offset(i, 'matrix')};" for i in self.strided]
        for i in self.ones:
            body += self._load_shared(i, block.shared[i])
        body += ["__syncthreads();"] if self.ones else []
        body.append("if (count == 0) return;")
        for i in (*self.before, *(i for i in self.consts if i not in self.ones)):
            body += self._load(i, at[i], self._data(i))
        body += ["copies_done();", "__syncwarp();"]
        if block.lanes == 1:
            body += [f"{self._array(i)};" for i in (*self.before, *self.after, *self.moving)]
            body += [f"fetch<{self.values[i].size}>(v{i}, mine + {at[i]});" for i in self.before]
        if self.has_info:
            body.append(f"int failed[{INFO}] = {{}};")
            size = self.values[self.info].size
            if block.lanes == 1:
                body.append(f"int v{self.info}[{size}] = {{}};")
            else:
                body += [f"for (int e = lane; e < {size}; e += LANES)"]
                body += [f"    {self._in_shared(self.info, at[self.info])}[e] = 0;"]
        for m, i in enumerate(self.moving):
            constness = "const " if i in self.xs else ""
            kind = c_type(self.values[i].dtype)
            body.append(f"{constness}{kind} *at{i} = {self._data(i)} + args.start[{m}];")
        body += ["long long until = args.until;", "__syncwarp();"]
        body.append("if (args.length) {")
        body += [line for i in self.xs for line in self._load(i, at[i], f"at{i}")]
        return [*body, "}"]

    def _one_time(self, at: dict[int, int], block: BlockLayout) -> list[str]:
        one = block.lanes == 1
        body = ["copies_done();", "__syncwarp();"]
        if one and self.xs:
            body += [f"fetch<{self.values[i].size}>(v{i}, mine + {at[i]});" for i in self.xs]
            body.append("__syncwarp();")
        body += [f"at{i} += args.time[{m}];" for m, i in enumerate(self.xs)]
        if self.xs:
            body.append("if (t + 1 < args.length) {")
            for i in self.xs:
                body += self._load(
                    i, at[i] if one else f"{at[i]} + (t + 1) % 2 * {self.values[i].bytes}", f"at{i}"
                )
            body.append("}")
        body.append("const bool written = until == 0;")
        arguments = ["mine", "lane", *["written"] * bool(self.sometimes)]
        for i in (*self.inputs, *self.outputs):
            if i in self.ones:
                arguments.append(self._in_shared(i, block.shared[i]))
            elif one and i not in self.consts:
                arguments.append(f"v{i}")
            else:
                place = f"{at[i]} + t % 2 * {self.values[i].bytes}" if i in self.xs else at[i]
                arguments.append(self._in_shared(i, place))
        body += [f"compute({', '.join(arguments)});", "__syncwarp();"]
        body += self._noted(at, one) if self.has_info else []
        if self.ys:
            body.append("if (written) {")
            body += [f"    keep<{self.values[i].size}>(mine + {at[i]}, v{i});" for i in self.ys if one]
            body.append("    __syncwarp();")
            for m, i in enumerate(self.ys):
                body += [
                    f"    {self._store(i, at[i], f'at{i}')}",
                    f"    at{i} += args.time[{len(self.xs) + m}];",
                ]
            body.append("}")
        body.append("until = written ? args.every - 1 : until - 1;")
        for before, after in zip(self.before, self.after, strict=True):
            size = self.values[before].size
            if one:
                body += ["#pragma unroll", f"for (int e = 0; e < {size}; e++) v{before}[e] = v{after}[e];"]
            else:
                kind = c_type(self.values[before].dtype)
                to = f"reinterpret_cast<{kind} *>(mine + {at[before]})"
                body += [f"for (int e = lane; e < {size}; e += LANES)"]
                body += [f"    {to}[e] = {self._in_shared(after, at[after])}[e];"]
        return body

    def _noted(self, at: dict[int, int], one: bool) -> list[str]:
        """The first failure. Columns of steps that did not run hold earlier codes."""
        code = f"v{self.info}" if one else self._in_shared(self.info, at[self.info])
        return [
            "if (failed[1] == 0 && lane == 0) {",
            "#pragma unroll",
            f"    for (int c = 0; c < {self.values[self.info].size}; c++)",
            f"        if (failed[1] == 0 && {code}[c] != 0)",
            f"            failed[0] = {code}[c], failed[1] = static_cast<int>(t) + 1, failed[2] = c;",
            "}",
        ]

    def _end(self, at: dict[int, int], lanes: int) -> list[str]:
        body = ["__syncwarp();"]
        if lanes == 1:
            body += [f"keep<{self.values[i].size}>(mine + {at[i]}, v{i});" for i in self.before]
            body.append("__syncwarp();")
        for before, after in zip(self.before, self.after, strict=True):
            body.append(self._store(after, at[before], self._data(after)))
        if self.has_info:
            to = f"{self._data(self.info)}[matrix * {INFO} + e]"
            body += ["if (lane == 0 && thread / LANES < count) {", "#pragma unroll"]
            body += [f"    for (int e = 0; e < {INFO}; e++) {to} = failed[e];", "}"]
        return body

    def _head(self, lanes: int, pitch: int, threads: int) -> list[str]:
        lines = super()._head(lanes, pitch, threads)
        end, moves = lines.index("};"), len(self.moving)
        own = ["    long long length, every, until;"]
        own += [f"    long long start[{moves}], time[{moves}];"] if moves else []
        return [*lines[:end], *own, *lines[end:]]

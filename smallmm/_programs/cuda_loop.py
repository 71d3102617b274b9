"""Scans on a CUDA device: one kernel runs all times of a program. What a series carries from one time to the
next stays in registers, or in shared memory; what is read of the next time comes while this one is computed."""

import struct
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._gpu.device import _same_device
from .compile import CALL, UNLESS, Description, dense_strides
from .cuda_kernel import Kernel, Layout, _kernel_lines, _one_after_another, _pitch, _placed, _Writer
from .cuda_launch import _layout_of, _merged, _strides_in
from .cuda_steps import WARP, NotFused, Step, c_type, index_of, merged
from .dtypes import COMPLEX

_INFO = 3  # numbers of a matrix's first failure: code, time from 1, column


class Loop(NamedTuple):
    """The first of a program's inputs are carried, the next move; so are and do its outputs."""

    carries: int
    xs: int
    has_info: bool
    aligned: bool  # the outputs that move are at multiples of 16 bytes at each time


def loop_kernel(
    program: Description, layouts: tuple[Layout, ...], dims: int, loop: Loop, shared: int
) -> Kernel:
    """As `cuda_kernel.kernel_of`. Layouts of what moves are those of each time."""
    return _LoopWriter(program, layouts, dims, shared, loop).kernel(0)


class _LoopWriter(_Writer):
    def __init__(
        self, program: Description, layouts: tuple[Layout, ...], dims: int, shared: int, loop: Loop
    ) -> None:
        own = loop.carries + loop.xs
        layouts = tuple(x if i >= own or x.kind == "flat" else x._replace(kind="strided") for i, x in enumerate(layouts))
        super().__init__(program, layouts, dims, shared)
        n = loop.carries
        self.loop = loop
        self.before, self.xs, self.consts = self.inputs[:n], self.inputs[n:own], self.inputs[own:]
        self.after = self.outputs[:n]
        self.info = self.outputs[-1] if loop.has_info else -1
        self.ys = self.outputs[n : len(self.outputs) - loop.has_info]
        self.moving = [*self.xs, *self.ys]
        self.sometimes = self._for_outputs()

    def _of_numbers(self) -> Kernel:
        """A thread has a matrix of one number."""
        found = self._of_matrices(1)
        if found is None:
            raise NotFused("the values of a matrix need more shared memory than a block has")
        return found[1]

    def _for_outputs(self) -> frozenset[int]:
        """Steps that need not run where no output is written: nothing that is carried depends on them."""
        steps = self.program.steps
        if any(step[0] == UNLESS for step in steps):
            return frozenset()
        carried, found = set(self.after), set()
        for number in reversed(range(len(steps))):
            kind, which, *_, operands = steps[number]
            rows = list(_core.operations.values())[which] if kind == CALL else None
            written = [
                i for i, x in enumerate(operands)
                if x is not None and (i == 0 if rows is None else rows[i][1] != "in")
            ]  # fmt: skip
            if any(operands[i][0] in carried for i in written):
                carried.update(x[0] for x in operands if x is not None)
            else:
                found.add(number)
        return frozenset(found)

    def _lives(self, steps: list[Step]) -> dict[int, tuple[int, int]]:
        alive = super()._lives(steps)
        whole = (-1, len(steps))
        return {i: whole if i in (*self.inputs, self.info) else x for i, x in alive.items()}

    def _of_matrices(self, lanes: int) -> tuple[float, Kernel] | None:
        steps = self.steps.texts(lanes)
        operations = sum(x.operations for x in steps)
        apart = {i: self._bytes(i) for i in self.consts if i not in self.ones}
        at, end = _one_after_another(apart)
        rooms: dict[int, int] = {}
        for i in self.xs:
            rooms[i], end = end, end + self._bytes(i) * (1 if lanes == 1 else 2)
        at |= rooms
        if lanes == 1:
            stage = end
            for i in self.ys:
                at[i], end = end, end + self._bytes(i)
            # carries pass where outputs do later
            places, most = _one_after_another({i: self._bytes(i) for i in self.before})
            at |= {i: stage + x for i, x in places.items()}
            at |= {after: at[before] for before, after in zip(self.before, self.after, strict=True)}
            end = max(end, stage + most)
        else:
            alive = {i: x for i, x in self._lives(steps).items() if i not in at}
            placed, most = _placed(alive, {i: self._bytes(i) for i in range(len(self.values))}, steps)
            at |= {i: end + x for i, x in placed.items()}
            end += most
        pitch = _pitch(end)
        shared_by_all, ones_end = _one_after_another({i: self._bytes(i) for i in self.ones})
        warp = pitch * (WARP // lanes)
        warps = min(4, (self.most_shared - ones_end) // warp)
        if warps < 1:
            return None
        kernel = self._loop_text(steps, at, shared_by_all, ones_end, lanes, pitch, warps * WARP)
        at_once = min(64, (224 << 10) // (warp + ones_end / warps + 256))
        return operations * max(1.0, 12 / at_once), kernel

    # --- the text ---

    def _load(self, i: int, at: str, base: str) -> list[str]:
        """A warp's matrices of a value that is no number, from `base` on, to its place."""
        x, layout = self.values[i], self.layouts[self.inputs.index(i)]
        kind = c_type(x.dtype)
        if layout.kind == "flat":
            aligned = str(layout.aligned).lower()
            return [f"load<{kind}, {x.size}, {aligned}>(warp, {at}, {base} + first * {x.size}, count);"]
        strides = tuple(layout.core)
        shape = next(shape for index, _, shape, _ in self.program.inputs if index == i)
        if strides and self._is_complex(i):
            shape, strides = (*shape, 2), (*(2 * step for step in strides), 1)
        element = index_of("e", *merged(shape[::-1], [strides[::-1]]), 0) if strides else "e"
        return [
            "#pragma unroll 8",
            f"for (int e = lane; e < {x.size}; e += LANES)",
            f"    reinterpret_cast<{kind} *>(mine + {at})[e] = ({base} + offset{i})[{element}];",
        ]

    def _store(self, i: int, at: str, base: str) -> str:
        x = self.values[i]
        aligned = str(i in self.after or self.loop.aligned).lower()
        return f"store<{c_type(x.dtype)}, {x.size}, {aligned}>(warp, {at}, {base} + first * {x.size}, count);"

    def _loop_text(
        self,
        steps: list[Step],
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
            "const long long matrix = first + thread / LANES < args.batch ? first + thread / LANES : args.batch - 1;",
        ]
        for i, layout in zip(self.inputs, self.layouts, strict=True):
            if layout.kind == "strided":
                body.append(f"const long long offset{i} = {self._offset(i, 'matrix')};")
            if layout.kind in ("one", "number"):
                body += self._shared_by_all(i, layout, shared_by_all[i])
        body += ["__syncthreads();"] if self.ones else []
        body += ["if (count == 0) return;"]
        for i in (*self.before, *(i for i in self.consts if i in at)):
            body += self._load(i, str(at[i]), self._data(i))
        body += ["copies_done();", "__syncwarp();"]
        if lanes == 1:
            for before, after in zip(self.before, self.after, strict=True):
                body += [f"{self._array(before)};", f"fetch<{self.values[before].size}>(v{before}, mine + {at[before]});"]
                body += [f"{self._array(after)};"]
            body += [f"{self._array(i)};" for i in (*self.xs, *self.ys)]
            body += [f"int v{self.info}[{self.values[self.info].size}] = {{}};"] if self.loop.has_info else []
        elif self.loop.has_info:
            size = self.values[self.info].size
            body += [f"for (int e = lane; e < {size}; e += LANES) reinterpret_cast<int *>(mine + {at[self.info]})[e] = 0;"]
        body += [f"int failed[{_INFO}] = {{}};"] if self.loop.has_info else []
        for m, i in enumerate(self.moving):
            kind = c_type(self.values[i].dtype)
            constness = "const " if i in self.xs else ""
            body.append(f"{constness}{kind} *at{i} = {self._data(i)} + args.start[{m}];")
        body += ["long long until = args.until;", "__syncwarp();"]
        for i in self.xs:
            body += self._load(i, str(at[i]), f"at{i}")
        body += ["for (long long t = 0; t < args.length; t++) {"]
        body += [f"    {x}" if not x.startswith("#") else x for x in self._one_time(at, lanes)]
        body += ["}", "__syncwarp();"]
        for before, after in zip(self.before, self.after, strict=True):
            if lanes == 1:
                body += [f"keep<{self.values[before].size}>(mine + {at[before]}, v{before});"]
        body += ["__syncwarp();"]
        body += [self._store(after, str(at[before]), self._data(after)) for before, after in zip(self.before, self.after, strict=True)]
        if self.loop.has_info:
            body += ["if (lane == 0 && thread / LANES < count) {", "#pragma unroll"]
            body += [f"    for (int e = 0; e < {_INFO}; e++) {self._data(self.info)}[matrix * {_INFO} + e] = failed[e];", "}"]
        sometimes = self.sometimes
        text = [*self._head(lanes, pitch, threads), *self._function(steps, at, lanes, sometimes), *_kernel_lines(body)]
        shared = ones_end + threads // lanes * pitch
        return Kernel("\n".join(text) + "\n", lanes, threads, threads // lanes, shared, self._strided())

    def _one_time(self, at: dict[int, int], lanes: int) -> list[str]:
        body = ["copies_done();", "__syncwarp();"]
        parity = "" if lanes == 1 else " + (t & 1) * {0}"
        if lanes == 1 and self.xs:
            body += [f"fetch<{self.values[i].size}>(v{i}, mine + {at[i]});" for i in self.xs]
            body += ["__syncwarp();"]
        body += [f"at{i} += args.time[{self.moving.index(i)}];" for i in self.xs]
        if self.xs:
            body += ["if (t + 1 < args.length) {"]
            for i in self.xs:
                other = str(at[i]) + ("" if lanes == 1 else f" + ((t + 1) & 1) * {self._bytes(i)}")
                body += self._load(i, other, f"at{i}")
            body += ["}"]
        body += ["const bool written = until == 0;"]
        arguments = ["mine", "lane", *["written"] * bool(self.sometimes)]
        for i in (*self.inputs, *self.outputs):
            kind = c_type(self.values[i].dtype)
            constness = "const " if i in self.inputs else ""
            if i in self.ones:
                arguments.append(f"reinterpret_cast<const {kind} *>(shared + {self._shared_at(i)})")
            elif lanes == 1 and i not in self.consts:
                arguments.append(f"v{i}")
            else:
                where = f"mine + {at[i]}" + (parity.format(self._bytes(i)) if i in self.xs else "")
                arguments.append(f"reinterpret_cast<{constness}{kind} *>({where})")
        body += [f"compute({', '.join(arguments)});", "__syncwarp();"]
        if self.loop.has_info:
            code = f"v{self.info}" if lanes == 1 else f"reinterpret_cast<const int *>(mine + {at[self.info]})"
            body += ["if (failed[1] == 0 && lane == 0) {", "#pragma unroll"]
            body += [f"    for (int c = 0; c < {self.values[self.info].size}; c++)"]
            body += [f"        if (failed[1] == 0 && {code}[c] != 0)"]
            body += [f"            failed[0] = {code}[c], failed[1] = static_cast<int>(t) + 1, failed[2] = c;", "}"]
        if self.ys:
            body += ["if (written) {"]
            body += [f"    keep<{self.values[i].size}>(mine + {at[i]}, v{i});" for i in self.ys if lanes == 1]
            body += ["    __syncwarp();"]
            body += [f"    {self._store(i, str(at[i]), f'at{i}')}" for i in self.ys]
            body += [f"    at{i} += args.time[{self.moving.index(i)}];" for i in self.ys]
            body += ["}"]
        body += ["until = written ? args.every - 1 : until - 1;"]
        for before, after in zip(self.before, self.after, strict=True):
            size, kind = self.values[before].size, c_type(self.values[before].dtype)
            if lanes == 1:
                body += ["#pragma unroll", f"for (int e = 0; e < {size}; e++) v{before}[e] = v{after}[e];"]
            else:
                body += [f"for (int e = lane; e < {size}; e += LANES)"]
                body += [f"    reinterpret_cast<{kind} *>(mine + {at[before]})[e] = reinterpret_cast<const {kind} *>(mine + {at[after]})[e];"]
        return body

    def _head(self, lanes: int, pitch: int, threads: int) -> list[str]:
        lines = super()._head(lanes, pitch, threads)
        end = lines.index("};")
        moves = len(self.moving)
        own = ["    long long length, every, until;"]
        own += [f"    long long start[{moves}];", f"    long long time[{moves}];"] if moves else []
        return [*lines[:end], *own, *lines[end:]]

    def _shared_at(self, i: int) -> int:
        return _one_after_another({j: self._bytes(j) for j in self.ones})[0][i]

    def _shared_by_all(self, i: int, layout: Layout, at: int) -> list[str]:
        kind = c_type(self.values[i].dtype)
        to = f"reinterpret_cast<{kind} *>(shared + {at})"
        if layout.kind == "number":
            return [f"if (threadIdx.x == 0) {to}[{p}] = {number};" for p, number in enumerate(self._numbers(i))]
        strides = tuple(layout.core)
        shape = next(shape for index, _, shape, _ in self.program.inputs if index == i)
        if strides and self._is_complex(i):
            shape, strides = (*shape, 2), (*(2 * step for step in strides), 1)
        element = index_of("e", *merged(shape[::-1], [strides[::-1]]), 0) if strides else "e"
        return [
            f"for (int e = threadIdx.x; e < {self.values[i].size}; e += THREADS)",
            f"    {to}[e] = {self._data(i)}[{element}];",
        ]


class DeviceLoops:
    """The kernels of a program's loops, for arrays that lie in memory in ways that were met."""

    def __init__(self, program: Description) -> None:
        self.program = program
        self._known: dict[Any, tuple[Any, Kernel, bytes]] = {}
        self._loaded: dict[tuple[int, str], Any] = {}

    def run(self, scan: Any, times: Any, shown: Any) -> tuple[list[Any], list[Any], Any]:
        """The carries, the other results and info, new arrays of the operands' library, in the order of its
        current stream. `NotFused`: no kernel can."""
        count, batch = len(scan.carry), scan.batch
        plan = scan.plan
        given = list(scan.operands)
        given[count : count + len(scan.xs)] = scan.xs
        names = scan.function._names
        is_number = tuple(isinstance(x, np.ndarray) and x.ndim == 0 for x in given)
        labelled = {n: x for n, x, number in zip(names, given, is_number, strict=True) if not number}
        _, library = _same_device(scan.name, labelled)
        arrays = [x for x, number in zip(given, is_number, strict=True) if not number]
        numbers = tuple(
            part
            for x in (y.item() for y, number in zip(given, is_number, strict=True) if number)
            for part in ((x.real, x.imag) if isinstance(x, complex) else (float(x),))
        )
        carry = [library.empty((*batch, *x.shape), x.dtype) for x in plan.results[:count]]
        ys = [library.empty((times.kept(), *batch, *x.shape), x.dtype) for x in plan.results[count:]]
        has_info = bool(plan.columns)
        info = library.empty((*batch, _INFO), np.dtype(np.int32)) if has_info else None
        stream = library.stream()
        for part in times.parts(shown.parts):
            found = [library.empty((*batch, _INFO), np.dtype(np.int32))] if has_info else []
            loop = Loop(count, len(scan.xs), has_info, True)

            def plan_of(device: int, layouts: tuple[Any, ...], part: Any = part, loop: Loop = loop) -> Any:
                return self._launch(device, layouts, is_number, loop, batch, times, part)

            outputs = [*carry, *ys, *found]
            labels = tuple(f"{scan.name}: an array" for _ in (*arrays, *outputs))
            if prod(batch):
                _core.device_program(plan_of, stream, labels, numbers, *arrays, *outputs)
            arrays[:count] = carry
            if has_info:
                info = found[0] if part.done == 0 else _merged_info(info, found[0], part.done)
            shown(part.done + part.length)
        return [library.finished(x) for x in carry], [library.finished(x) for x in ys], info

    def _launch(
        self,
        device: int,
        layouts: tuple[Any, ...],
        is_number: tuple[bool, ...],
        loop: Loop,
        batch: tuple[int, ...],
        times: Any,
        part: Any,
    ) -> tuple[Any, int, bytes]:
        key = device, layouts, is_number, times.reverse
        if key not in self._known:
            if len(self._known) >= _MOST_LAYOUTS:
                self._known.clear()
            self._known[key] = self._found(device, layouts, is_number, loop, batch)
        capsule, kernel, fixed = self._known[key]
        sign = -1 if times.reverse else 1
        outputs = layouts[len(layouts) - len(self.program.outputs) :]
        moving = [x for x, number in zip(_whole(layouts, is_number), is_number, strict=False) if not number]
        moving = _whole(layouts, is_number)[loop.carries : loop.carries + loop.xs]
        ys = outputs[loop.carries : len(outputs) - loop.has_info]
        scale = [2 if np.dtype(d) in COMPLEX else 1 for _, d, _, _ in self._moving(loop)]
        steps = [x[2][0] * n for x, n in zip((*moving, *ys), scale, strict=True)]
        firsts = [part.first] * len(moving) + [part.place] * len(ys)
        until = (part.length - 1) % times.every
        words = [part.length, times.every, until, *(n * x for n, x in zip(firsts, steps, strict=True))]
        words += [sign * x for x in steps]
        blocks = -(-prod(batch) // kernel.matrices)
        return capsule, blocks, fixed + struct.pack(f"{len(words)}q", *words)

    def _moving(self, loop: Loop) -> list[Any]:
        ends = len(self.program.outputs) - loop.has_info
        xs = self.program.inputs[loop.carries : loop.carries + loop.xs]
        return [*xs, *self.program.outputs[loop.carries : ends]]

    def _found(
        self,
        device: int,
        layouts: tuple[Any, ...],
        is_number: tuple[bool, ...],
        loop: Loop,
        batch: tuple[int, ...],
    ) -> tuple[Any, Kernel, bytes]:
        program = self.program
        given = _whole(layouts, is_number)
        moves = range(loop.carries, loop.carries + loop.xs)
        aligned = all(
            x[3] == 0 and x[2][0] * np.dtype(d).itemsize % 16 == 0
            for x, (_, d, _, _) in zip(
                layouts[len(layouts) - len(program.outputs) :][loop.carries :][: len(program.outputs) - loop.carries - loop.has_info],
                program.outputs[loop.carries :],
                strict=False,
            )
        )
        of_one_time = []
        for i, x in enumerate(given):
            if x is not None and i in moves:
                name, shape, strides, at = x
                step = strides[0] * np.dtype(program.inputs[i][1]).itemsize
                x = name, shape[1:], strides[1:], at or step % 16
            of_one_time.append(x)
        cores = [len(shape) for _, _, shape, _ in program.inputs]
        own = [
            (0,) * len(batch) if x is None else _strides_in(batch, x[1], x[2], core)
            for x, core in zip(of_one_time, cores, strict=True)
        ]
        extents, steps = _merged(batch, own)
        ways = tuple(
            _layout_of(x, shape, batch, step)
            for x, (_, _, shape, _), step in zip(of_one_time, program.inputs, own, strict=True)
        )
        shared = _core.cuda_device(device)[2]
        kernel = loop_kernel(program, ways, len(extents), loop._replace(aligned=aligned), shared)
        numbers = sum(
            2 if dtype in COMPLEX else 1
            for number, (_, dtype, _, _) in zip(is_number, program.inputs, strict=True)
            if number
        )
        words = [prod(batch), *[0] * (len(layouts) + numbers)]
        if kernel.strided:
            words += [*extents, *(step for i in kernel.strided for step in steps[i])]
        if (device, kernel.text) not in self._loaded:
            self._loaded[device, kernel.text] = _core.cuda_program(
                kernel.text, device, kernel.matrices, kernel.threads, kernel.shared
            )[0]
        return self._loaded[device, kernel.text], kernel, struct.pack(f"{len(words)}q", *words)


_MOST_LAYOUTS = 64


def _whole(layouts: tuple[Any, ...], is_number: tuple[bool, ...]) -> list[Any]:
    """The layouts of inputs; None for numbers."""
    taken = iter(layouts)
    return [None if number else next(taken) for number in is_number]


def _merged_info(info: Any, found: Any, done: int) -> Any:
    """Info with failures that were found after so many times."""
    new = (found[..., 1:2] != 0) & (info[..., 1:2] == 0)
    later = found + (found[..., 1:2] != 0) * done * np.array([0, 1, 0])
    return info + new * later

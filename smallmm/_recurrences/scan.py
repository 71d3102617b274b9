"""Scans: a fused function whose results are its arguments of the next time. A loop of the program runs all
times; where there is no program, the function is called for each."""

from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import LinAlgError, shown
from .._base.hooks import Settings, current, offloaded
from .._base.later import later
from .._base.shapes import dtype_of
from .._calls.arrays import as_numpy, copy_to
from .._libraries import library_of, on_device
from .._programs.arrays import (
    any_failed,
    as_library,
    core_strides,
    on_host,
    refuse_out,
    wants_gradient,
)
from .._programs.compose import namespace_of
from .._programs.cuda_launch import DeviceProgram
from .._programs.cuda_steps import NotFused
from .._programs.explanation import FusedExplanation
from .._programs.failures import note, with_failures
from .._programs.fused import Fused
from .._programs.plan import Plan
from .cuda_scan import DeviceLoops
from .offloaded import OffloadedScan
from .operands import Known, arrays_of, as_dtype, broadcast, first_of, full_on_device, layouts_of
from .times import Shown, Times


class Outcome(NamedTuple):
    """The carries after the last time, the other results, and info, shape (..., 3), of each matrix's first
    failure: the code, the place among the times that ran, from 1, and the column. None: nothing fails."""

    plan: Plan
    carry: list[Any]
    ys: list[Any]
    info: Any


class Scan:
    """A call of `scan`, whose arguments have been checked."""

    def __init__(
        self,
        name: str,
        function: Fused[..., Any],
        carry: Any,
        xs: Any,
        consts: Any,
        length: int | None,
        options: dict[str, Any],
    ) -> None:
        self.name = name
        self.function = function
        self.carry, self.xs, self.consts = (
            arrays_of(name, label, x) for label, x in (("carry", carry), ("xs", xs), ("consts", consts))
        )
        self.options = options
        self.single = not isinstance(carry, tuple | list)
        self.kind = type(carry)
        if not self.carry:
            raise ValueError(f"{name}: carry has no arrays; expected one, or a tuple of them")
        key = layouts_of(self.carry, self.xs, self.consts, length)
        self.is_numpys = key is not None
        self.known = function._scans.get(key) if key and not options else None
        if self.known is None:
            self.length = self._length(length)
            given = (*self.carry, *map(first_of, self.xs), *self.consts)
            self.operands = self.function._operands(given)
            self.batch = self.function._batch(self.operands)
            self.plan = self._plan()
            if key and not options and all(x is y for x, y in zip(given, self.operands, strict=True)):
                self.known = Known(self.plan, self.batch, self.length)
                function._scans.keep(key, self.known)
        else:
            self.plan, self.batch, self.length = self.known.plan, self.known.batch, self.known.length
            self.operands = [*self.carry, *map(first_of, self.xs), *self.consts]

    def _length(self, given: int | None) -> int:
        found = {}
        for i, x in enumerate(self.xs):
            if not getattr(x, "ndim", 0):
                raise ValueError(f"{self.name}: xs[{i}] is a number; expected times as its first dimension")
            found[x.shape[0]] = f"xs[{i}] has {x.shape[0]} times"
        if given is not None:
            if not isinstance(given, int | np.integer) or given < 0:
                raise ValueError(f"{self.name}: length is {shown(given)}; expected an integer of at least 0")
            found[int(given)] = f"length is {given}"
        if not found:
            raise ValueError(f"{self.name}: without xs, length must say how many times there are")
        if len(found) > 1:
            raise ValueError(f"{self.name}: {', but '.join(found.values())}")
        return next(iter(found))

    def _plan(self) -> Plan:
        """The plan of one time. Carries become of the dtype that the function makes of them: float64, say, of
        integers."""
        count = len(self.carry)
        for _ in range(3):
            plan = self.function._plan(self.operands, self.options)
            if len(plan.results) < count:
                raise ValueError(
                    f"{self.name}: {self.function._name} returns {len(plan.results)} arrays; expected at "
                    f"least {count}, the next carry"
                )
            changed = False
            for i, (x, new) in enumerate(zip(self.operands, plan.results[:count], strict=False)):
                core = tuple(x.shape)[x.ndim - new.ndim :] if x.ndim >= new.ndim else None
                if core != new.shape or len(self.function._inputs[i]) != new.ndim:
                    raise ValueError(
                        f"{self.name}: carry {i} has shape {tuple(x.shape)}, and {self.function._name} makes "
                        f"one of shape {('...', *new.shape)} of it; expected the same shape".replace("'", "")
                    )
                if dtype_of(x) != new.dtype:
                    self.operands[i] = as_dtype(x, new.dtype)
                    changed = True
            if not changed:
                return plan
        raise TypeError(f"{self.name}: {self.function._name} changes the dtype of its carry at each time")

    # --- running ---

    def run(self, times: Times, out: Any, progress: Any = False, keep: Any = None) -> Outcome:
        """keep: is called with the times that have run, and the carry, about as often as there are times
        between two calls."""
        if out is None and (recorded := self._differentiated(times, progress)) is not None:
            return recorded
        plan, like = self.plan, self._like()
        ys_of = plan.results[len(self.carry) :]
        shapes = [(times.kept(), *self.batch, *y.shape) for y in ys_of]
        outs = self._outs(out, shapes, [y.dtype for y in ys_of], like)
        outcome = None
        shown = Shown(self.name, times.length, progress, keep)
        if times.length and not self._must_be_called():
            on_gpu = like is not None and on_device(like)
            if (settings := current()) is not None and not on_gpu and not (progress or keep):
                outcome = self._offloaded(times, outs, like, settings)
            if outcome is None:
                with offloaded(None):
                    run = self._on_device if on_gpu else partial(self._on_host, outs=outs, like=like)
                    outcome = run(times, shown=shown)
        if outcome is None:
            outcome = self._by_library(times) or self._by_calls(times, shapes, shown)
        for i, target in enumerate(outs):
            if target is not None and outcome.ys[i] is not target:
                copy_to(target, outcome.ys[i])
                outcome.ys[i] = target
        return outcome

    def _differentiated(self, times: Times, progress: Any) -> Outcome | None:
        """By a library that differentiates it in one pass; None: it wants none, or sees each time."""
        count = len(self.carry)
        arrays = (*self.operands[:count], *self.xs, *self.operands[count + len(self.xs) :])
        tracked = None if self.is_numpys else next(filter(wants_gradient, arrays), None)
        if tracked is None or not times.length:
            return None

        outcome: Outcome

        def computed(*arrays: Any) -> Any:
            nonlocal outcome
            backward, outcome = later("_derivatives.scans").with_backward(self, arrays, times, progress)
            return backward, (*outcome.carry, *outcome.ys)

        outputs = library_of(tracked).recorded_program(computed, arrays)
        if outputs is None:
            return None
        return outcome._replace(carry=list(outputs[:count]), ys=list(outputs[count:]))

    def _like(self) -> Any:
        if self.is_numpys:
            return None
        arrays = [x for x in (*self.operands, *self.xs) if not isinstance(x, np.ndarray)]
        return next((x for x in arrays if on_device(x)), next(iter(arrays), None))

    def _must_be_called(self) -> bool:
        """Whether its library must see each time: to record derivatives, or to compile."""
        arrays = () if self.is_numpys else (*self.operands, *self.xs)
        return any(
            wants_gradient(x) or library_of(x).is_traced(x) or library_of(x).is_divided(x) for x in arrays
        )

    def _outs(self, out: Any, shapes: list[Any], dtypes: list[np.dtype], like: Any) -> list[Any]:
        if out is None:
            return [None] * len(shapes)
        outs = list(out) if isinstance(out, tuple | list) else [out]
        if len(outs) != len(shapes):
            raise TypeError(f"{self.name}: out has {len(outs)} arrays; expected {len(shapes)}, as ys")
        for i, (target, shape, dtype) in enumerate(zip(outs, shapes, dtypes, strict=True)):
            if target is not None:
                refuse_out(self.name, f"out[{i}]", target, shape, dtype, like)
        return outs

    def _arrays_of_host(self, like: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The operands of a time, the carries those of each series, and xs."""
        given = [self._of_numpy(x, like) for x in self.operands]
        for i, dims in enumerate(self.function._inputs[: len(self.carry)]):
            x = given[i]
            given[i] = np.empty((*self.batch, *x.shape[x.ndim - len(dims) :]), x.dtype)
            given[i][...] = x
        return given, [self._of_numpy(x, like) for x in self.xs]

    def _on_host(self, times: Times, outs: list[Any], like: Any, shown: Shown) -> Outcome | None:
        """By a loop of the program of the core; None if there is none."""
        plan, count, batch = self.plan, len(self.carry), self.batch
        given, moving = self._arrays_of_host(like)
        consts = given[count + len(moving) :]
        program = self._program(given, moving)
        if not hasattr(program, "loop"):
            return None
        carry = [np.empty((*batch, *x.shape), x.dtype) for x in plan.results[:count]]
        ys = self._targets(times, outs, [*given, *moving])
        columns = sum(plan.columns)
        info = np.zeros((*batch, 3), np.int32) if columns else None
        sign = -1 if times.reverse else 1
        steps = [[0] * count, [sign * x.strides[0] for x in moving], [0] * (len(consts) + count)]
        steps += [[sign * y.strides[0] for y in ys], [0] * bool(columns)]
        strides = tuple(x for own in steps for x in own)
        before = given[:count]
        for part in times.parts(shown.parts):
            found = [np.empty((*batch, 3), np.int32)] if columns else []
            own = [x[part.first, ...] for x in moving], [y[part.place, ...] for y in ys]  # numbers are arrays
            arrays = (*before, *own[0], *consts, *carry, *own[1], *found)
            try:
                taken = program.loop(arrays, count, columns, part.length, times.every, strides)
            except ValueError:  # an order beyond the kernels
                return None
            if not taken:
                return None
            if info is not None:
                note(info, found[0], part.done)
            before = carry
            shown(part.done + part.length, carry)
        return self._outcome(carry, ys, info, like)

    def _program(self, given: list[np.ndarray], moving: list[np.ndarray]) -> Any:
        """Of the core, for operands that lie so."""
        if self.known is not None and self.known.program is not None:
            return self.known.program
        count = len(self.carry)
        arrays = [*given[:count], *moving, *given[count + len(moving) :]]
        cores = map(len, self.function._inputs)
        program = self.plan.program(tuple(core_strides(x, n) for x, n in zip(arrays, cores, strict=True)))
        if self.known is not None:
            self.known.program = program
        return program

    def _outcome(self, carry: list[Any], ys: list[Any], info: Any, like: Any) -> Outcome:
        """Of arrays of NumPy, in the library of the operands."""
        if like is None:
            return Outcome(self.plan, [x[()] for x in carry], ys, info)
        carry, ys = ([as_library(x, like) for x in arrays] for arrays in (carry, ys))
        return Outcome(self.plan, carry, ys, info)

    def _offloaded(self, times: Times, outs: list[Any], like: Any, settings: Settings) -> Outcome | None:
        """Through a device, series by series; None if no kernel can."""
        program, dims, count = self.plan.on_device(), len(self.batch), len(self.carry)
        if program is None or not dims:
            settings.why = "there is one series" if program else self.plan.why_not_on_device
            return None
        given, moving = self._arrays_of_host(like)
        in_order = [x if isinstance(x, np.ndarray) and x.flags.c_contiguous else None for x in outs]
        ys = self._targets(times, in_order, [*given, *moving])  # the kernel's results have time first
        carry = [np.empty((*self.batch, *x.shape), x.dtype) for x in self.plan.results[:count]]
        info = np.zeros((*self.batch, 3), np.int32) if self.plan.columns else None
        cores = map(len, self.function._inputs[count:])
        given[count : count + len(moving)] = [
            np.moveaxis(x, 0, x.ndim - 1 - core) for x, core in zip(moving, cores, strict=False)
        ]
        targets = [*carry, *(np.moveaxis(y, 0, dims) for y in ys), *([] if info is None else [info])]
        work = OffloadedScan(self, times, self._device_loops(program))
        try:
            done = settings.program(work, self.function._names, given, self.batch, tuple(targets))
        except NotFused as why:
            settings.why = str(why)
            return None
        return None if done is NotImplemented else self._outcome(carry, ys, info, like)

    def _of_numpy(self, x: Any, like: Any) -> np.ndarray:
        array = x if like is None else as_numpy(self.name, "an operand", x)
        return (
            array
            if array.flags.aligned and array.dtype.isnative
            else array.astype(array.dtype.newbyteorder("="))
        )

    def _targets(self, times: Times, outs: list[Any], read: list[np.ndarray]) -> list[np.ndarray]:
        """Where the results are written: the caller's arrays if the program can."""
        ys: list[np.ndarray] = []
        for y, own in zip(self.plan.results[len(self.carry) :], outs, strict=True):
            fits = type(own) is np.ndarray and own.dtype == y.dtype and own.flags.aligned
            fits = fits and core_strides(own, y.ndim) == core_strides(np.empty(y.shape, y.dtype), y.ndim)
            if not fits or any(np.may_share_memory(own, x) for x in (*read, *ys)):
                own = np.empty((times.kept(), *self.batch, *y.shape), y.dtype)
            ys.append(own)
        return ys

    def _on_device(self, times: Times, shown: Shown) -> Outcome | None:
        """By one kernel; None if there is none."""
        program = self.plan.on_device()
        if program is None:
            return None
        for i in range(len(self.carry)):
            if isinstance(self.operands[i], np.ndarray):  # a number
                self.operands[i] = full_on_device(self._like(), self.batch, self.operands[i])
        try:
            return Outcome(self.plan, *self._device_loops(program).run(self, times, shown))
        except NotFused as why:
            self.plan.why_not_on_device = str(why)
            return None

    def _device_loops(self, program: DeviceProgram) -> DeviceLoops:
        if self.plan.loops is None:
            self.plan.loops = DeviceLoops(program.described)
        return self.plan.loops

    def _by_library(self, times: Times) -> Outcome | None:
        """By a loop of the library that traces the call; None if there is none."""
        count, last, plan = len(self.carry), len(self.carry) + len(self.xs), self.plan
        traced = next((x for x in (*self.operands, *self.xs) if library_of(x).is_traced(x)), None)
        if traced is None or not times.length:
            return None
        xp = namespace_of(traced)
        shapes = [(*self.batch, *x.shape) for x in plan.results]

        def step(carry: Any, xs: Any) -> tuple[list[Any], list[Any]]:
            arrays = (*carry[:count], *xs, *self.operands[last:])
            _, results, columns = self.function._run(arrays, None, self.options)
            results = [broadcast(xp, x, shape) for x, shape in zip(results, shapes, strict=True)]
            time, *infos = carry[count:]
            infos = [with_failures(xp, info, columns, time) for info in infos]
            return [*results[:count], time + 1, *infos], results[count:]

        carry = [broadcast(xp, x, shape) for x, shape in zip(self.operands[:count], shapes, strict=False)]
        carry.append(xp.asarray(0, dtype=xp.int32))  # the times that ran
        carry += [xp.zeros((*self.batch, 3), dtype=xp.int32)] * bool(plan.columns)
        xs = [xp.flip(x, axis=0) for x in self.xs] if times.reverse else self.xs
        looped = library_of(traced).looped(step, carry, xs, times.length, times.every)
        if looped is None:
            return None
        carry, ys = looped
        ys = [xp.flip(y, axis=0) for y in ys] if times.reverse else ys
        return Outcome(plan, carry[:count], ys, carry[-1] if plan.columns else None)

    def _by_calls(self, times: Times, shapes: list[Any], shown: Shown) -> Outcome:
        """Time after time. Also what a loop of a program is compared with."""
        count, plan = len(self.carry), self.plan
        like = self._like()
        xp: Any = np if like is None else namespace_of(like)
        carry = list(self.operands[:count])
        consts = self.operands[count + len(self.xs) :]
        kept: list[list[Any]] = [[None] * times.kept() for _ in shapes]
        codes: list[Any] = []
        for t, place in times.in_order():
            operands = (*carry, *(x[t] for x in self.xs), *consts)
            _, results, info = self.function._run(operands, None, self.options)
            carry = list(results[:count])
            codes.append(info)
            for own, y in zip(kept, results[count:], strict=True):
                if place >= 0:
                    own[place] = y
            shown(len(codes), carry)
        if not times.length:
            whole = [(*self.batch, *r.shape) for r in plan.results[:count]]
            carry = [broadcast(xp, x, shape) for x, shape in zip(carry, whole, strict=True)]
            empty = [
                xp.zeros(s, dtype=getattr(xp, y.dtype.name))
                for s, y in zip(shapes, plan.results[count:], strict=True)
            ]
            return Outcome(plan, carry, empty, None)
        ys = [xp.stack(list(own)) for own in kept]
        return Outcome(plan, carry, ys, self._first_failures(codes) if plan.columns else None)

    def _first_failures(self, codes: list[Any]) -> Any:
        """Info, of arrays of codes, one for each time that ran. On the host, as failures are rare."""
        info = np.zeros((*self.batch, 3), np.int32)
        for t, columns in enumerate(codes):
            if columns is None or not any_failed(self.name, columns):
                continue
            info = with_failures(np, info, on_host(self.name, columns), t)
        return info

    def explain(self, times: Times) -> FusedExplanation:
        """How `run` would go: as one call of the function, again and again."""
        matrices, results = prod(self.batch), self.plan.results
        once = self.function.explain(*self.operands, **self.options)
        carried = sum(x.size * x.dtype.itemsize for x in results[: len(self.carry)])
        written = sum(x.size * x.dtype.itemsize for x in results[len(self.carry) :])
        read = [*self.xs, *self.operands[len(self.carry) + len(self.xs) :]]
        moved = sum(prod(x.shape) * dtype_of(x).itemsize for x in read)
        moved += matrices * (2 * carried + times.kept() * written)
        found = once._replace(
            name=f"{self.name} of {self.function._name}",
            flops=once.flops * times.length,
            bytes=float(moved),
            saved=(once.saved + 2 * carried * matrices) * times.length,
            times=times.length,
            carried=carried,
        )
        if self._must_be_called():
            return found._replace(fused=False, why="its library records each call")
        program = self.plan.on_device() if found.lanes else None
        if program is None:
            return found
        try:
            kernel = self._device_loops(program).kernel(self)
        except NotFused as why:
            return found._replace(fused=False, why=str(why))
        return found._replace(tile=kernel.matrices, lanes=kernel.lanes, shared=kernel.shared)

    # --- what callers get ---

    def carry_of(self, arrays: list[Any]) -> Any:
        if self.single:
            return arrays[0]
        return self.kind(*arrays) if hasattr(self.kind, "_fields") else tuple(arrays)

    def error(self, outcome: Outcome, answer: Any, time: np.ndarray) -> LinAlgError:
        """The exception for a call in which some series failed."""
        info = on_host(self.name, outcome.info)
        columns = np.zeros((*info.shape[:-1], sum(outcome.plan.columns)), np.int32)
        np.put_along_axis(columns, info[..., 2:], info[..., :1], -1)
        error = outcome.plan.failures.error(self.name, answer, columns)
        first = int(time.ravel()[np.flatnonzero(time.ravel() >= 0)[0]])
        made = LinAlgError(f"{error}; time {first} was the first", error.info, answer, error.step, time[()])
        made._failed = outcome.plan.failures, columns
        return made

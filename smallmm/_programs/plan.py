"""What a fused function's record becomes: programs, one for each layout of the arguments, and the structure
of what the function returns."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from .._base.cache import Cache
from .._base.composition import Composition
from .._base.errors import refuse_misfits
from .._base.shapes import NUMBERS, PRODUCTS, broadcast_shapes, dtype_of
from .._libraries import on_device
from .arrays import any_failed, core_strides, is_dense, laid_out_like
from .compile import (
    NotCompiled,
    compiled,
    dense_strides,
    info_columns,
    needed_steps,
    program_of,
    without_memory,
)
from .cuda_launch import DeviceProgram
from .cuda_steps import NotFused
from .dtypes import COMPLEX, real_of
from .explanation import FusedExplanation, explanation_of_steps
from .failures import Failures, FusedExResult
from .long_sums import LongProgram
from .record import Record
from .symbols import Symbol, record_of

_NO_KERNEL = "a step has no kernel"
TOO_LARGE = "a matrix is larger than the kernels take"
MAX_RECORDS = 64  # of a function, for shapes and dtypes that it has met

# Element-wise functions with the bits of NumPy's, or that compositions take from smallmm on the host, too
_AS_ON_HOST = frozenset(
    [
        *("copy", "negative", "absolute", "sqrt", "floor", "ceil", "sign", "exponent", "add", "subtract"),
        *("multiply", "divide", "scaled", "minimum", "maximum", "copysign", "where", "power"),
        *("less", "less_equal", "equal", "not_equal"),
    ]
)
_THREADS_THAT_FACTOR, _THREADS = 2, 4  # of large stacks (AMD EPYC of family 26, November 2026)
_MAX_STEPS = 72  # of a composition: with more it repeats what single matrices may do without


class Plan:
    """A record with the structure of its results, and the programs made of it, one for each layout."""

    def __init__(
        self, record: Record, results: list[Symbol], make: Callable[[list[Any]], Any], with_info: bool = True
    ) -> None:
        self.record = record
        self.results = results
        self.make = make
        self.steps = needed_steps(record, results)
        self.fallible = record.fallible()
        self.columns = info_columns(record) if with_info else []
        self.failures = Failures(self.steps, self.fallible, self.columns)
        self.programs = Cache(MAX_RECORDS)
        self.prepared: set[Any] = set()  # programs that `_core.Prepared` has, and for which numbers
        self.why_not = ""
        self.why_not_on_device = ""
        self.backward: Any = None  # the backward pass, once it is wanted
        self.loops: Any = None  # on a device, of scans
        self._on_device: DeviceProgram | None = None

    def targets(self, operands: list[Any], outs: Any, batch: tuple[int, ...]) -> tuple[Any, ...]:
        """Outputs to be written at once: arrays as the program makes them, which overlap nothing."""
        if outs is None or any(x is None for x in outs):
            return ()
        for i, (out, x) in enumerate(zip(outs, self.results, strict=True)):
            others = [*operands, *outs[:i]]
            if not (
                type(out) is np.ndarray
                and out.dtype == x.dtype
                and out.shape == batch + x.shape
                and out.size  # an empty array counts as contiguous, whatever its strides
                and out.flags.c_contiguous
                and out.flags.aligned
                and not any(np.may_share_memory(out, other) for other in others)
            ):
                return ()
        return (*outs, np.empty((*batch, sum(self.columns)), np.int32)) if self.columns else tuple(outs)

    def checked(self, name: str, results: list[Any], info: Any) -> Any:
        answer = self.make(results)
        if info is None or not any_failed(name, info):
            return answer
        raise self.failures.error(name, answer, info)

    def ex_result(self, name: str, results: list[Any], info: Any) -> FusedExResult:
        return self.failures.result(name, self.make(results), results, self.results[0].ndim, info)

    def explained(
        self, name: str, names: list[str], operands: list[Any], batch: tuple[int, ...], program: Any, why: str
    ) -> FusedExplanation:
        """What `explain` says. program: what runs such operands; None, for the reason `why`, if the steps run
        one after the other."""
        items = [value.shape for value in self.record.inputs]
        details: dict[str, Any] = {"tile": 0, "temporaries": 0, "flops": 0.0, "saved": 0.0, "kernels": ()}
        fused = program is not None
        if isinstance(program, DeviceProgram):
            try:
                details = program.explain(names, operands)
            except NotFused as reason:
                fused, why = False, str(reason)
        elif fused and all(isinstance(x, np.ndarray) for x in operands):
            try:
                program(
                    *(laid_out_like(np.zeros(c, x.dtype), x) for x, c in zip(operands, items, strict=True))
                )
                details = program.plan
            except ValueError:
                fused, why = False, TOO_LARGE
        return explanation_of_steps(name, self, operands, items, prod(batch), fused, why, details)

    def on_device(self) -> DeviceProgram | None:
        """The program for arrays of a device; None if there is none."""
        if self._on_device is None and not self.why_not_on_device:
            try:
                self._on_device = DeviceProgram(self.record, self.results, sum(self.columns))
            except NotCompiled:
                self.why_not_on_device = _NO_KERNEL
            except NotFused as why:
                self.why_not_on_device = str(why)
        return None if self.why_not_on_device else self._on_device

    def run_on_device(self, names: list[str], arrays: list[Any], batch: tuple[int, ...]) -> Any:
        """The results, and what was launched: one kernel; None if there is none."""
        program = self.on_device()
        try:
            return program and program.run(names, arrays, batch)
        except NotFused as why:
            self.why_not_on_device = str(why)
            return None

    def program(self, layouts: tuple[tuple[int, ...], ...]) -> Any:
        """The program for inputs with these core strides; None if there is none."""
        if self.why_not:
            return None
        if layouts not in self.programs:
            try:
                self.programs.keep(layouts, self._compiled(list(layouts)))
            except NotCompiled:
                self.why_not = _NO_KERNEL
                return None
        return self.programs[layouts]

    def program_of(self, operands: Sequence[np.ndarray]) -> Any:
        """The program for arrays that lie as these; None if there is none, or it takes no such order."""
        inputs = self.record.inputs
        layouts = [core_strides(x, len(value.shape)) for x, value in zip(operands, inputs, strict=True)]
        program = self.program(tuple(layouts))
        try:
            if program is not None:
                program(*(x[(0,) * (x.ndim - len(v.shape))] for x, v in zip(operands, inputs, strict=True)))
        except ValueError:
            return None
        return program

    def _compiled(self, layouts: list[tuple[int, ...]]) -> Any:
        try:
            return LongProgram(self.record, self.results, self.steps, layouts)
        except NotCompiled:
            return program_of(compiled(self.record, self.results, layouts, sum(self.columns)))


def host_program_of(composition: Composition, operands: Sequence[np.ndarray]) -> tuple[Any, int]:
    """The program, and the threads with which it is faster than NumPy's operations: those of one thread take
    the time of little arithmetic."""
    plan = _plan_of(composition, operands)
    if plan is None:
        return None, 0
    factors = any(x.kind == "call" and x.name not in PRODUCTS for x in plan.steps)
    return plan.program_of(operands), _THREADS_THAT_FACTOR if factors else _THREADS


def _plan_of(composition: Composition, operands: Sequence[np.ndarray]) -> Plan | None:
    """A composition's steps for arrays of such dtypes and core shapes, with the bits that NumPy's operations
    give; None if it has others, or depends on elements."""
    dtypes = composition.resolve_dtypes((*(x.dtype for x in operands), *(None,) * composition.nout))
    record = record_of(composition.op, real_of(dtypes[0]))
    inputs = [(x, len(dims)) for x, dims in zip(operands, composition.core_inputs, strict=True)]
    symbols = [record.input(x.shape[x.ndim - n :], x.dtype, is_dense(x, n)) for x, n in inputs]
    try:
        answer = composition.run(record.namespace(record), tuple(symbols))
        results = [
            x if x.dtype == dtype else record.converted(x, dtype)
            for x, dtype in zip(map(record.as_symbol, answer), dtypes[len(operands) :], strict=True)
        ]
    except (TypeError, ValueError, NotImplementedError):
        return None
    plan = Plan(record, results, tuple, with_info=False)
    own = all(x.kind != "map" or (x.name in _AS_ON_HOST and x.dtype not in COMPLEX) for x in plan.steps)
    return plan if own and len(plan.steps) <= _MAX_STEPS else None


def device_plan_of(composition: Composition, like: Any, cores: Sequence[tuple[int, ...]]) -> Plan | None:
    """The same for arrays of a device, of the dtype of another, whose matrices have these shapes."""
    dtype = dtype_of(like)
    return _plan_of(composition, [without_memory(x, dense_strides(x, dtype), dtype) for x in cores])


def explanation_of(composition: Composition, operands: dict[str, Any]) -> FusedExplanation | None:
    """How a composition's call runs, once such calls were met some times; None if its steps depend on
    elements, or are NumPy's own."""
    arrays = list(operands.values())
    like = next((x for x in arrays if on_device(x)), None)
    given = [type(x) if type(x) in NUMBERS else dtype_of(x) for x in arrays]
    if like is None:
        dtype = composition.resolve_dtypes((*given, *(None,) * composition.nout))[0]
        arrays = [np.asarray(x).astype(dtype, copy=False) for x in arrays]
    else:
        arrays = [np.asarray(x, dtype_of(like)) if type(x) in NUMBERS else x for x in arrays]
    shapes = [tuple(x.shape) for x in arrays]
    shaped = [
        without_memory(x, dense_strides(x, y), y) for x, y in zip(shapes, map(dtype_of, arrays), strict=True)
    ]
    named = dict(zip(operands, arrays if like is None else shaped, strict=True))
    refuse_misfits(composition.op, composition, named)
    own = [x.ndim - len(dims) for x, dims in zip(arrays, composition.core_inputs, strict=True)]
    cores = [tuple(x.shape)[at:] for x, at in zip(arrays, own, strict=True)]
    plan = _plan_of(composition, arrays) if like is None else device_plan_of(composition, like, cores)
    if plan is None:
        return None
    layouts = tuple(core_strides(x, len(core)) for x, core in zip(arrays, cores, strict=True))
    program = plan.program(layouts) if like is None else plan.on_device()
    batch = broadcast_shapes(*(tuple(x.shape)[:at] for x, at in zip(arrays, own, strict=True)))
    why_not = plan.why_not if like is None else plan.why_not_on_device
    return plan.explained(composition.op, list(operands), arrays, batch, program, why_not)


def structure(record: Record, answer: Any) -> tuple[list[Symbol], Callable[[list[Any]], Any]]:
    """The arrays that a function returns, and what puts them together again."""
    if isinstance(answer, tuple | list):
        if not answer:
            raise TypeError(f"{record.name} returns nothing; expected an array or a tuple of them")
        parts = [structure(record, x) for x in answer]
        results = [x for part, _ in parts for x in part]
        ends = np.cumsum([0, *(len(part) for part, _ in parts)]).tolist()
        kind = type(answer)

        def make(arrays: list[Any]) -> Any:
            made = [
                build(arrays[first:last])
                for (_, build), first, last in zip(parts, ends[:-1], ends[1:], strict=True)
            ]
            return kind(*made) if hasattr(kind, "_fields") else kind(made)

        if all(len(part) == 1 for part, _ in parts) and kind is tuple:
            return results, make if len(parts) == 1 else tuple
        return results, make
    try:
        symbol = record.as_symbol(answer)
    except (TypeError, ValueError):
        raise TypeError(
            f"{record.name} returns a {type(answer).__name__}; expected an array or a tuple of them"
        ) from None
    return [symbol], the_one


def the_one(arrays: list[Any]) -> Any:
    return arrays[0]

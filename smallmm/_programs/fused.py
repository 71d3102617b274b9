"""Fused functions: calls of a function that was recorded as one program."""

import functools
import sys
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from .. import _core
from .._base.cache import Cache
from .._base.composition import INFO_APART, NO_INFO, is_met_on_device
from .._base.hooks import Settings, current
from .._base.later import later
from .._base.shapes import NUMBERS, stand_in
from .._base.torch_compile import call_in_graph, object_in_graph
from .._calls.arrays import as_numpy, copy_to
from .._libraries import is_group, library_of, on_device, type_name
from .._libraries.dask import is_lazy, lazily
from .arrays import as_library, core_strides, refuse_out, wants_gradient
from .compose import namespace_of
from .cuda_launch import DeviceProgram
from .cuda_steps import NotFused
from .failures import FusedExResult
from .interpreter import Runner, interpret
from .plan import TOO_LARGE, Plan, the_one
from .recorded_function import RecordedFunction
from .symbols import Symbol

# What `_core.Prepared` takes as it is, beside arrays with DLPack's exchange API
PREPARED = frozenset((np.ndarray, *NUMBERS, *np.sctypeDict.values()))


P = ParamSpec("P")
R = TypeVar("R")

_NO_RULES = "a derivative is wanted, and not all steps have one in one pass"


class Fused(RecordedFunction, Generic[P, R]):
    """A function of stacks of matrices that `fuse` made. Call it with whole stacks."""

    def __init__(
        self, function: Callable[P, R], signature: str | None, reasons: dict[str, str] | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        super().__init__(function, signature, reasons)
        self._in_graph = object_in_graph(self)
        self._forget_calls()
        self._program_cache = Cache()  # (plan, program, batch) of arrays of a device
        self._scans = Cache()  # what scans of arrays that lie so share

    def _forget_calls(self) -> None:
        self._prepared, self._prepared_parts = _core.Prepared(), _core.Prepared()
        for plan in self._plans.values():
            plan.prepared.clear()

    def prepared(self, *arrays: Any) -> Any:
        """The result if such a call was met before, else NotImplemented."""
        return self._prepared(*arrays)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By its name where it is a module's, as functions are pickled; else by what it is made of."""
        name: str = self.__dict__.get("__qualname__", "")
        home = sys.modules.get(self.__dict__.get("__module__", ""))
        return (
            name
            if getattr(home, name, None) is self
            else (Fused, (self.function, self.signature, self.reasons))
        )

    def __repr__(self) -> str:
        return f"<fused function {self._name}{self.__signature__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @overload
    def __call__(self, *arrays: P.args, **options: P.kwargs) -> R: ...

    @overload
    def __call__(self, *arrays: Any, out: Any, **options: Any) -> R: ...

    def __call__(self, *arrays: Any, out: Any = None, **options: Any) -> Any:
        if options:
            arrays = self._bound(arrays, options)
        answer = self._prepared(*arrays, out=out, **options)
        if answer is not NotImplemented:
            return answer
        if any(isinstance(x, Symbol) for x in arrays):
            return self._inlined(arrays, out, options)
        if any(map(is_lazy, arrays)):
            return self._later(arrays, out, options)
        plan, results, info = self._run(arrays, out, options)
        return plan.checked(self._name, results, info)

    __call__._torchdynamo_inline = call_in_graph  # type: ignore[attr-defined]

    def ex(self, *arrays: Any, out: Any = None, **options: Any) -> FusedExResult:
        """The result and info, without an exception for matrices that fail.

        info, int32, shape (...), is 0, or what is wrong, as the first step that fails for the matrix says.
        ``.step`` of what is returned names that step, of the first matrix that fails.
        """
        arrays = self._bound(arrays, options)
        answer = self._prepared_parts(*arrays, out=out, **options)
        if answer is NotImplemented:
            if any(map(is_lazy, arrays)):
                return self._later(arrays, out, options, with_info=True)
            answer = self._run(arrays, out, options)
        plan, results, info = answer
        return plan.ex_result(self._name, results, info)

    def parts(self, *arrays: Any, **options: Any) -> tuple[Plan, list[Any], Any]:
        """The plan, the results in a row, and info with a column for each step that can fail."""
        arrays = self._bound(arrays, options)
        answer = self._prepared_parts(*arrays, **options)
        return self._run(arrays, None, options) if answer is NotImplemented else answer

    def explain(self, *arrays: Any, out: Any = None, **options: Any) -> Any:
        """How a call with these arrays would run: steps, tile, temporaries, traffic. Nothing is computed, and
        `out` does not matter. A `FusedExplanation`; where calls are offloaded, an `OffloadExplanation`."""
        arrays = self._bound(arrays, options)
        if (settings := current()) is not None and not any(map(on_device, arrays)):
            return settings.explain(self, arrays, out, options)
        operands = self._operands(arrays)
        plan = self._plan(operands, options)
        batch = self._batch(operands)
        program, why = self._program_for(plan, operands)
        if not self._has_rules(plan, operands, options):
            program, why = None, _NO_RULES
        operands = [x.detach() if wants_gradient(x) else x for x in operands]
        return plan.explained(self._name, self._names, operands, batch, program, why)

    def _has_rules(self, plan: Plan, operands: list[Any], options: dict[str, Any]) -> bool:
        """Whether derivatives, if they are wanted, are computed in one pass."""
        wanted = tuple(i for i, x in enumerate(operands) if wants_gradient(x))
        if not wanted:
            return True
        results = [stand_in(x.shape, x.dtype) for x in plan.results]
        backward = later("_derivatives.backward").backward_of_plan(self, plan, options)
        return bool(backward.is_recordable(operands, results, wanted))

    # --- running ---

    def _program_for(self, plan: Plan, operands: list[Any]) -> tuple[Any, str]:
        """The program, or None and why there is none."""
        for name, x in zip(self._names, operands, strict=True):
            library = library_of(x)
            if library.is_traced(x):
                return None, f"{name} is traced by its library"
            if library.is_divided(x):
                raise TypeError(
                    f"{self._name}: {name} is a {type_name(x)} that several devices have parts of; call the "
                    "function within jax.jit, or within jax.shard_map, where each device computes its part"
                )
        if current() is not None or any(map(on_device, operands)):
            return plan.on_device(), plan.why_not_on_device
        layouts = tuple(core_strides(x, len(dims)) for x, dims in zip(operands, self._inputs, strict=True))
        program = plan.program(layouts) if all(isinstance(x, np.ndarray) for x in operands) else plan
        return program, plan.why_not

    def _run(self, arrays: tuple[Any, ...], out: Any, options: dict[str, Any]) -> tuple[Plan, list[Any], Any]:
        """The plan, the results and info."""
        if any(map(is_group, arrays)):
            from .._calls.group_calls import run_fused  # which few programs need

            if out is not None:
                raise TypeError(f"{self._name}: out is given for a Group; use the result instead")
            parts = functools.partial(self.parts, **options)
            return run_fused(self._name, self._names, self._inputs, parts, arrays)
        if (settings := current()) is not None:
            settings.meets(lambda: self.explain(*arrays, out=out, **options))
        cached = None if options or out is not None else self._cached_program(arrays)
        if cached is not None:
            plan, program, batch = cached
            return plan, *self._by_one_kernel(plan, program, list(arrays), batch, (), {})
        tracked = next((x for x in arrays if wants_gradient(x)), None)
        if tracked is not None and out is None:
            recorded = self._differentiated(tracked, arrays, options)
            if recorded is not None:
                return recorded
        operands = self._operands(arrays)
        batch = self._batch(operands)
        plan = self._plan(operands, options)
        foreign = next((x for x in operands if not isinstance(x, np.ndarray)), None)
        outs = self._outs(plan, out, batch, foreign)
        program, why_not = (None, _NO_RULES) if tracked is not None else self._program_for(plan, operands)
        if program is None:
            if settings is not None:
                settings.why = why_not
            results, info = self._step_by_step(plan, operands)
        elif any(map(on_device, operands)):
            if not options and all(map(on_device, arrays)):
                self._program_cache.keep(_key(arrays), (plan, program, batch))
            results, info = self._by_one_kernel(plan, program, operands, batch, arrays, options)
        else:
            if foreign is not None:
                operands = [
                    self._converted(name, as_numpy(self._name, name, x))
                    for name, x in zip(self._names, operands, strict=True)
                ]
            if settings is not None:
                results, info = self._offloaded(plan, program, operands, outs, batch, settings)
            else:
                results, info = self._fused(plan, operands, outs, batch)
                if all(type(x) in PREPARED or hasattr(x, "__dlpack_c_exchange_api__") for x in arrays):
                    self._prepare(plan, arrays, operands, options)
            if foreign is not None:
                results = [as_library(x, foreign) for x in results]
                info = as_library(info, foreign)
        for i, target in enumerate(outs or ()):
            if target is not None and results[i] is not target:
                copy_to(target, results[i])
                results[i] = target
        return plan, results, info

    def _differentiated(
        self, tracked: Any, arrays: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Plan, list[Any], Any] | None:
        """By a library that differentiates it in one pass; None: it is to see each step."""
        plan: Plan

        def computed(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
            nonlocal plan
            plan, results, info = self.parts(*arrays, **options)
            backward = later("_derivatives.backward").backward_of_plan(self, plan, options)
            return backward, tuple(results) if info is None else (*results, info)

        outputs = library_of(tracked).recorded_program(computed, arrays)
        if outputs is None:
            return None
        results = list(outputs[: len(plan.results)])
        return plan, results, None if len(outputs) == len(results) else outputs[-1]

    def _cached_program(self, arrays: tuple[Any, ...]) -> Any:
        """What an earlier call of such arrays on a device found: small calls are not to wait for it again."""
        if not self._program_cache or not all(map(on_device, arrays)):
            return None
        if any(wants_gradient(x) or library_of(x).is_traced(x) for x in arrays):
            return None
        return self._program_cache.get(_key(arrays))

    def _later(
        self, arrays: tuple[Any, ...], out: Any, options: dict[str, Any], with_info: bool = False
    ) -> Any:
        """The result, or with info what `ex` returns, as Dask arrays. Without info, bad matrices raise when
        they are computed."""
        if out is not None:
            raise TypeError(f"{self._name}: out is given, but a call of Dask arrays writes to none")
        operands = self._operands(arrays)
        if not any(n != n for x in operands for n in x.shape):  # NaN: not known yet
            self._batch(operands)
        plan = self._plan(operands, options)
        has_columns = with_info and bool(plan.columns)
        shapes = [x.shape for x in plan.results] + [(sum(plan.columns),)] * has_columns
        dtypes = [x.dtype for x in plan.results] + [np.dtype(np.int32)] * has_columns
        dims = [[f"result{i}_{j}" for j in range(len(shape))] for i, shape in enumerate(shapes)]
        sizes = {
            dim: n for own, shape in zip(dims, shapes, strict=True) for dim, n in zip(own, shape, strict=True)
        }
        sides = (",".join(f"({','.join(core)})" for core in side) for side in (self._inputs, dims))
        results = lazily(
            functools.partial(_of_chunks, self, options, has_columns),
            "->".join(sides),
            *operands,
            dtypes=dtypes if len(dims) > 1 else dtypes[0],
            output_sizes=sizes,
            labels=[f"{self._name}: {name}" for name in self._names],
        )
        results = list(results) if len(dims) > 1 else [results]
        info = results.pop() if has_columns else None
        return plan.ex_result(self._name, results, info) if with_info else plan.make(results)

    def _prepare(
        self, plan: Plan, arrays: tuple[Any, ...], operands: list[Any], options: dict[str, Any]
    ) -> None:
        """Calls with such arguments need no Python from now on."""
        program, _ = self._program_for(plan, operands)
        numbers = tuple(type(x) if type(x) in NUMBERS else None for x in arrays)
        if program is None or (id(program), numbers) in plan.prepared:
            return
        plan.prepared.add((id(program), numbers))

        outputs = len(plan.results) + bool(plan.columns)
        self._keep(plan, lambda table, kept: table.add(program, numbers, options, outputs, *kept))

    def _keep(self, plan: Plan, add: Callable[[Any, tuple[int, Any, Any]], bool | None]) -> None:
        """Enter a call of the function, and of `ex`, with what becomes of a program's outputs."""

        def failed(outputs: list[Any]) -> Any:
            return plan.checked(self._name, outputs[:-1], outputs[-1])

        def parts(outputs: list[Any]) -> tuple[Plan, list[Any], Any]:
            info = outputs.pop() if plan.columns else None
            return plan, outputs, info

        make = None if plan.make in (the_one, tuple) else plan.make
        was_added = add(self._prepared, (INFO_APART if plan.columns else NO_INFO, make, failed))
        if was_added:
            was_added = add(self._prepared_parts, (NO_INFO, parts, None))
        if was_added is False:  # there are so many calls that older ones may be done with
            self._forget_calls()

    def _fused(
        self, plan: Plan, operands: list[Any], outs: Any, batch: tuple[int, ...]
    ) -> tuple[list[Any], Any]:
        operands = [x if x.flags.aligned else x.copy() for x in operands]
        program, _ = self._program_for(plan, operands)
        if program is None:  # as another library's arrays, which only here are NumPy's, did not show
            return self._step_by_step(plan, operands)
        targets = plan.targets(operands, outs, batch)
        try:
            answer = program(*operands, *targets)
        except ValueError:
            # an order beyond the kernels
            plan.why_not = TOO_LARGE
            return self._step_by_step(plan, operands)
        if answer is NotImplemented:
            most = max(len(batch) + x.ndim for x in plan.results)
            raise ValueError(f"{self._name}: a result has {most} dimensions, more than NumPy's arrays have")
        results = list(answer[0])
        info = results.pop() if plan.columns else None
        return results, info

    def _by_one_kernel(
        self,
        plan: Plan,
        program: DeviceProgram,
        operands: list[Any],
        batch: tuple[int, ...],
        arrays: tuple[Any, ...],
        options: dict[str, Any],
    ) -> tuple[list[Any], Any]:
        """arrays: what the caller gave; () if a call of such arrays is prepared, or cannot be."""
        try:
            results, launched = program.run(self._names, operands, batch)
        except NotFused as why:
            plan.why_not_on_device = str(why)
            return self._step_by_step(plan, operands)
        if arrays and all(map(is_met_on_device, arrays, operands)):
            outputs = tuple(results)
            self._keep(
                plan, lambda table, kept: table.add_on_device(launched, arrays, outputs, options, *kept)
            )
        return results, results.pop() if plan.columns else None

    def _offloaded(
        self,
        plan: Plan,
        program: DeviceProgram,
        operands: list[np.ndarray],
        outs: Any,
        batch: tuple[int, ...],
        settings: Settings,
    ) -> tuple[list[Any], Any]:
        targets = plan.targets(operands, outs, batch)
        try:
            results = settings.program(program, self._names, operands, batch, targets)
        except NotFused as why:
            plan.why_not_on_device = settings.why = str(why)
            results = NotImplemented
        if results is NotImplemented:
            return self._step_by_step(plan, operands)
        return results, results.pop() if plan.columns else None

    def _step_by_step(self, plan: Plan, operands: list[Any]) -> tuple[list[Any], Any]:
        return interpret(self._runner(plan, operands), plan.results, plan.steps, bool(plan.columns))

    def _runner(self, plan: Plan, operands: list[Any]) -> Runner:
        """By smallmm's own kernels on a device, unless the library is to see each step."""
        foreign = next((x for x in operands if not isinstance(x, np.ndarray)), None)
        if foreign is None:
            return Runner(plan.record, operands, np)
        for name, x in zip(self._names, operands, strict=True):
            if isinstance(x, np.ndarray) and x.ndim:
                raise TypeError(
                    f"{self._name}: {name} is a numpy.ndarray, others are {type(foreign).__name__}s; "
                    "expected arrays of one library"
                )
        is_seen = any(wants_gradient(x) or library_of(x).is_traced(x) for x in operands)
        if on_device(foreign) and not is_seen:
            runner: Runner | None = later("_programs.device_steps").runner_of(plan.record, operands)
            if runner is not None:
                return runner
        try:
            return Runner(plan.record, operands, namespace_of(foreign))
        except TypeError:
            raise NotImplementedError(
                f"{self._name}: {plan.why_not_on_device or 'its steps run one after the other'}, and "
                f"arrays of {type_name(foreign)} have no operations of their own for that"
            ) from None

    def _outs(self, plan: Plan, out: Any, batch: tuple[int, ...], like: Any) -> list[Any] | None:
        """The arrays to write to, if all are writable. like: an array of the inputs' library."""
        if out is None:
            return None
        outs = list(out) if isinstance(out, tuple) else [out]
        if len(outs) != len(plan.results):
            raise TypeError(
                f"{self._name}: out is "
                f"{f'a tuple of {len(outs)}' if isinstance(out, tuple) else 'one array'}; "
                f"expected {len(plan.results)}"
            )
        for i, (target, x) in enumerate(zip(outs, plan.results, strict=True)):
            if target is not None:
                refuse_out(self._name, f"out[{i}]", target, batch + x.shape, x.dtype, like)
        return outs


def _key(arrays: tuple[Any, ...]) -> Any:
    return tuple([(x.dtype, tuple(x.shape)) for x in arrays])


def _of_chunks(function: Fused, options: dict[str, Any], with_info: bool, *chunks: np.ndarray) -> Any:
    """The results for NumPy's arrays in a row, as Dask has them."""
    plan, results, info = function._run(chunks, None, options)
    if not with_info:
        plan.checked(function._name, results, info)
    results = [*results, info] if with_info else results
    return tuple(results) if len(results) > 1 else results[0]

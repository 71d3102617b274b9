"""Backward passes in one pass: fused functions of the operands of a call and the gradients of its results.

A gufunc's uses its results, too, which were saved. A composition's and a fused function's compute again what
they need of the steps, which takes less time than reading it.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from .._base.composition import MAX_RECORDED, Composition
from .._base.shapes import core_dimensions, dtype_of
from .._libraries import on_device
from .._libraries.recording import gradients, has_rule
from .._programs.fuse import fuse
from .._programs.fused import Fused
from .._programs.plan import Plan, structure
from .reverse import gradients_of_inputs

# Orders on a device up to which one kernel of all steps is used instead of kernels of single ones (H200;
# measured for these and for `inv`)
_MAX_ON_DEVICE = {"cholesky": 32, "cholesky_upper": 32, "eigh": 32, "eigh_upper": 32}
_MAX_OF_OTHERS = 16

_NOT_RECORDED = (TypeError, ValueError, NotImplementedError)  # a step has no rule, or depends on elements


class Backward:
    """The backward pass of a function: a fused one for each set of gradients that are given and wanted."""

    gufunc: Any = None  # whose rule it is; its results are saved, too

    def __init__(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """inputs, outputs: how many core dimensions each operand and each result has."""
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self._passes: dict[Any, Fused] = {}

    def gradients(
        self, operands: Sequence[Any], results: Sequence[Any], grads: Sequence[Any], wanted: tuple[int, ...]
    ) -> Sequence[Any] | None:
        """The gradients of the wanted operands, broadcast to all batch dimensions; None: the rule is to be
        used one step after the other. grads: of the results, None for those that nothing depends on."""
        given = tuple([i for i, g in enumerate(grads) if g is not None])
        return self._pass(given, wanted).parts(*operands, *[grads[i] for i in given])[1]

    def _pass(self, given: tuple[int, ...], wanted: tuple[int, ...]) -> Fused:
        if (given, wanted) not in self._passes:

            def backward_pass(*symbols: Any) -> Any:
                return self.found(symbols[: len(self.inputs)], symbols[len(self.inputs) :], given, wanted)

            backward_pass.__name__ = f"backward pass of {self.name}"
            dims = [*self.inputs, *self._saved(), *(self.outputs[i] for i in given)]
            self._passes[given, wanted] = fuse(backward_pass, signature_of(dims))
        return self._passes[given, wanted]

    def found(self, operands: Any, others: Any, given: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
        """The gradients of the wanted operands, of symbols. Zeros are those of what nothing depends on."""
        found = self._found(operands, others, given, wanted)
        xp = operands[0].__array_namespace__()
        return tuple(xp.zeros_like(operands[i]) if found[i] is None else found[i] for i in wanted)

    def _saved(self) -> list[int]:
        """How many core dimensions each result has that the pass uses."""
        return []

    def _found(self, operands: Any, others: Any, given: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
        """The gradient of each operand, of symbols; None if there is none. others: what was saved, and the
        gradients that are given."""
        raise NotImplementedError

    def _all(self, given: tuple[int, ...], some: Sequence[Any]) -> tuple[Any, ...]:
        """The gradient of each result, None where it is not given."""
        known = dict(zip(given, some, strict=True))
        return tuple(known.get(i) for i in range(len(self.outputs)))


class OfSteps(Backward):
    """Of a function of symbols, which returns a list of its results."""

    def __init__(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], function: Callable[..., Any]
    ) -> None:
        super().__init__(name, inputs, outputs)
        self.function = function
        self._recordable: dict[Any, bool] = {}
        self.of_scans: dict[Any, tuple[Fused, Fused]] = {}  # functions that its scans go back by

    def is_recordable(self, operands: Sequence[Any], results: Sequence[Any], wanted: tuple[int, ...]) -> bool:
        """Whether all steps have rules for operands of such dtypes."""
        key = wanted, _dtypes(operands)
        if key not in self._recordable:
            given = tuple(i for i, x in enumerate(results) if x is not None and dtype_of(x).kind in "fcV")
            try:
                one_pass = self._pass(given, wanted)
                self._recordable[key] = one_pass.is_recorded((*operands, *(results[i] for i in given)))
            except _NOT_RECORDED:
                self._recordable[key] = False
        return self._recordable[key]

    def _found(self, operands: Any, others: Any, given: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
        results = self.function(*operands)
        record = operands[0].record
        found = gradients_of_inputs(record, results, self._all(given, others)[: len(results)])
        of_input = dict(zip(record.inputs, found, strict=True))
        return [of_input[x.view.value] for x in operands]


class OfRule(Backward):
    """Of a gufunc, or a composition, that has a rule."""

    def __init__(self, gufunc: Any, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        super().__init__(gufunc.__name__, inputs, outputs)
        self.gufunc = gufunc
        self._refused: set[Any] = set()  # calls that were not recorded

    def gradients(
        self, operands: Sequence[Any], results: Sequence[Any], grads: Sequence[Any], wanted: tuple[int, ...]
    ) -> Sequence[Any] | None:
        given = tuple([i for i, g in enumerate(grads) if g is not None])
        key = given, wanted, _dtypes(operands)
        if key in self._refused or not self._is_small(operands):
            return None
        saved = [0 if x is None else x for x in results]  # info that is 0 everywhere
        try:
            return self._pass(given, wanted).parts(*operands, *saved, *[grads[i] for i in given])[1]
        except _NOT_RECORDED:
            self._refused.add(key)
            return None

    def _is_small(self, operands: Sequence[Any]) -> bool:
        cores = [x.shape[x.ndim - n :] for x, n in zip(operands, self.inputs, strict=True) if n]
        if max(map(prod, cores)) > MAX_RECORDED:
            return False
        most = _MAX_ON_DEVICE.get(self.name, _MAX_OF_OTHERS)
        return max(map(max, cores)) <= most or not on_device(operands[0])

    def _saved(self) -> list[int]:
        return self.outputs

    def _found(self, operands: Any, others: Any, given: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
        results, some = others[: len(self.outputs)], others[len(self.outputs) :]
        xp = operands[0].__array_namespace__()
        return gradients(xp, self.gufunc, operands, results, self._all(given, some), True, wanted)


_of_gufuncs: dict[str, Backward] = {}


def backward_of(function: Any) -> Backward:
    """The backward pass of a gufunc or a composition."""
    if isinstance(function, Composition) and not has_rule(function):
        if function.backward is None:
            inputs, outputs = core_dimensions(function)  # type: ignore[arg-type]
            dims = list(map(len, inputs)), list(map(len, outputs))
            function.backward = OfSteps(function.op, *dims, _steps_of(function))
        backward: Backward = function.backward
        return backward
    name = function.__name__
    if name not in _of_gufuncs:
        inputs, outputs = core_dimensions(function)
        _of_gufuncs[name] = OfRule(function, list(map(len, inputs)), list(map(len, outputs)))
    return _of_gufuncs[name]


def backward_of_plan(function: Fused, plan: Plan, options: dict[str, Any]) -> OfSteps:
    """That of a fused function, for calls with such a plan."""

    def steps(*symbols: Any) -> Sequence[Any]:
        return structure(symbols[0].record, function.function(*symbols, **options))[0]

    if plan.backward is None:
        outputs = [x.ndim for x in plan.results] + [1] * bool(plan.columns)
        plan.backward = OfSteps(function._name, list(map(len, function._inputs)), outputs, steps)
    return plan.backward


def signature_of(dims: Sequence[int]) -> str:
    """For `fuse`: arguments of so many core dimensions each, which have nothing to do with each other."""
    words = (",".join(f"d{i}_{k}" for k in range(n)) for i, n in enumerate(dims))
    return ",".join(f"({core})" for core in words)


def _steps_of(composition: Composition) -> Callable[..., Any]:
    def steps(*symbols: Any) -> Sequence[Any]:
        record = symbols[0].record
        return [record.as_symbol(x) for x in composition.run(record.namespace(record), symbols)]

    return steps


def _dtypes(operands: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([getattr(x, "dtype", type(x)) for x in operands])

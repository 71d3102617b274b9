"""Backward passes in one pass: fused functions of the operands of a call and the gradients of its results.

A gufunc's uses its results, too, which were saved. A composition's and a fused function's compute again what
they need of the steps, which takes less time than reading it.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ._adapters import on_device
from ._adapters.recording import gradients, has_rule
from ._composition import MOST_RECORDED, Composition
from ._fuse import Fused, fuse
from ._fused_plan import Plan, structure
from ._reverse import gradients_of_inputs
from ._shapes import core_dimensions, dtype_of

# Orders on a device up to which one kernel of all steps takes less time than kernels of single ones (H200)
MOST_ON_DEVICE = 16

_NOT_RECORDED = (TypeError, ValueError, NotImplementedError)  # a step has no rule, or depends on elements


class Backward:
    """The backward pass of a function: a fused one for each set of gradients that are given and wanted."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        function: Callable[..., Any] | None = None,
        gufunc: Any = None,
    ) -> None:
        """inputs, outputs: how many core dimensions each operand and each result has. function: of symbols,
        whose results it returns; or the gufunc whose rule is used."""
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.function = function
        self.gufunc = gufunc
        self._passes: dict[Any, Fused] = {}
        self._recordable: dict[Any, bool] = {}

    def is_recordable(self, operands: Sequence[Any], results: Sequence[Any], wanted: tuple[int, ...]) -> bool:
        """Whether all steps have rules for operands of such dtypes."""
        key = wanted, _dtypes(operands)
        if key not in self._recordable:
            given = tuple(i for i, x in enumerate(results) if x is not None and dtype_of(x).kind in "fcV")
            arrays = (*operands, *(results if self.gufunc is not None else ()), *(results[i] for i in given))
            try:
                self._recordable[key] = self._pass(given, wanted).is_recorded(arrays)
            except _NOT_RECORDED:
                self._recordable[key] = False
        return self._recordable[key]

    def gradients(
        self, operands: Sequence[Any], results: Sequence[Any], grads: Sequence[Any], wanted: tuple[int, ...]
    ) -> Sequence[Any] | None:
        """The gradients of the wanted operands, broadcast to all batch dimensions; None: the rules are to be
        used one step after the other. grads: of the results, None for those that nothing depends on."""
        given = tuple([i for i, g in enumerate(grads) if g is not None])
        fused, some = self._pass(given, wanted), [grads[i] for i in given]
        if self.gufunc is None:
            return fused.ex(*operands, *some)[0]
        key = given, wanted, _dtypes(operands)
        if not (self._recordable.get(key, True) and self._is_small(operands)):
            return None
        try:
            saved = [0 if x is None else x for x in results]  # info that is 0 everywhere
            return fused.ex(*operands, *saved, *some)[0]
        except _NOT_RECORDED:
            self._recordable[key] = False
            return None

    def _is_small(self, operands: Sequence[Any]) -> bool:
        cores = [x.shape[x.ndim - n :] for x, n in zip(operands, self.inputs, strict=True) if n]
        if max(map(prod, cores)) > MOST_RECORDED:
            return False
        return max(map(max, cores)) <= MOST_ON_DEVICE or not on_device(operands[0])

    def _pass(self, given: tuple[int, ...], wanted: tuple[int, ...]) -> Fused:
        if (given, wanted) not in self._passes:

            def backward_pass(*symbols: Any) -> Any:
                return self._computed(given, wanted, symbols)

            backward_pass.__name__ = f"backward pass of {self.name}"
            saved = self.outputs if self.gufunc is not None else []
            dims = [*self.inputs, *saved, *(self.outputs[i] for i in given)]
            words = (",".join(f"d{i}_{k}" for k in range(n)) for i, n in enumerate(dims))
            self._passes[given, wanted] = fuse(backward_pass, ",".join(f"({core})" for core in words))
        return self._passes[given, wanted]

    def _computed(self, given: tuple[int, ...], wanted: tuple[int, ...], symbols: Sequence[Any]) -> Any:
        """The gradients of the wanted operands, of symbols: zeros of those that nothing depends on."""
        record = symbols[0].record
        xp = record.namespace(record)
        operands, others = tuple(symbols[: len(self.inputs)]), tuple(symbols[len(self.inputs) :])
        if self.gufunc is not None:
            results, some = others[: len(self.outputs)], others[len(self.outputs) :]
        else:
            assert self.function is not None
            results, some = tuple(self.function(*operands)), others
        known = dict(zip(given, some, strict=True))
        grads = tuple(known.get(i) for i in range(len(self.outputs)))
        if self.gufunc is not None:
            found: Sequence[Any] = gradients(xp, self.gufunc, operands, results, grads, True, wanted)
        else:
            found = gradients_of_inputs(record, results, grads[: len(results)])
        return tuple(xp.zeros_like(operands[i]) if found[i] is None else found[i] for i in wanted)


_of_gufuncs: dict[str, Backward] = {}


def backward_of(function: Any) -> Backward:
    """The backward pass of a gufunc or a composition."""
    if isinstance(function, Composition) and not has_rule(function):
        if function.backward is None:
            inputs, outputs = core_dimensions(function)  # type: ignore[arg-type]
            function.backward = Backward(
                function.op, list(map(len, inputs)), list(map(len, outputs)), _steps_of(function)
            )
        backward: Backward = function.backward
        return backward
    name = function.__name__
    if name not in _of_gufuncs:
        inputs, outputs = core_dimensions(function)
        _of_gufuncs[name] = Backward(name, list(map(len, inputs)), list(map(len, outputs)), gufunc=function)
    return _of_gufuncs[name]


def backward_of_plan(function: Fused, plan: Plan, options: dict[str, Any]) -> Backward:
    """That of a fused function, for calls with such a plan."""

    def steps(*symbols: Any) -> Sequence[Any]:
        return structure(symbols[0].record, function.function(*symbols, **options))[0]

    if plan.backward is None:
        outputs = [x.ndim for x in plan.results] + [1] * bool(plan.columns)
        plan.backward = Backward(function._name, list(map(len, function._inputs)), outputs, steps)
    return plan.backward


def _steps_of(composition: Composition) -> Callable[..., Any]:
    def steps(*symbols: Any) -> Sequence[Any]:
        record = symbols[0].record
        return [record.as_symbol(x) for x in composition.run(record.namespace(record), symbols)]

    return steps


def _dtypes(operands: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([getattr(x, "dtype", type(x)) for x in operands])

"""Reverse mode within a record: the gradients of its inputs are further steps, so that a backward pass is a
program as its function is. Steps that call gufuncs have the rules of `_libraries.recording`, element-wise
functions those below, and a view gives the gradient of its part back to the whole.

A gradient G of X means that the real part of sum(conj(G) dX) is what a change dX makes of the loss.
"""

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np

from .. import _core
from .._base.shapes import is_complex, stand_in
from .._libraries.recording import RULES, gradients, summed
from .._programs.dtypes import COMPLEX, is_half
from .._programs.record import VIEWS, Record, Step, Value, View, basic_index

Gradients = Sequence[Any]  # symbols; None: of what the results do not depend on


def gradients_of_inputs(record: Record, results: Sequence[Any], grads: Gradients) -> list[Any]:
    """The gradient of each of the record's inputs, from those of results. TypeError: a step has no rule."""
    steps = list(record.steps)
    depends = {x for x in record.inputs if x.dtype.kind in "fcV"}
    for step in steps:
        step.unless = None  # a step that a tile leaves out would have no derivative
        if step.name not in _CONSTANT and any(x.value in depends for x in step.operands):
            depends.update(step.results)
    copied = {step.results[0]: _source(step) for step in steps if step.label == "copy"}
    found: dict[Value, _Sum] = {}

    def add(view: View, gradient: Any) -> None:
        while view.value in copied:  # made where the operand is not dense: bits do not depend on that
            source = copied[view.value]
            view = View(source.value, source.operations + view.operations)
        if gradient is not None and view.value in depends:
            found.setdefault(view.value, _Sum(view.value)).add(view, gradient)

    def gradient_of(x: Value) -> Any:
        return found[x].total() if x in found else None

    for x, gradient in zip(results, grads, strict=True):
        add(x.view, gradient)
    for step in reversed(steps):
        if not found.keys().isdisjoint(step.results):
            wanted = [i for i, x in enumerate(step.operands) if x.value in depends and _has_elements(x)]
            answers = _of_step(record, step, [gradient_of(x) for x in step.results], wanted)
            for i in wanted:
                add(step.operands[i], answers[i])
    return [gradient_of(x) for x in record.inputs]


def _has_elements(view: View) -> bool:
    return view.of(stand_in(view.value.shape, view.value.dtype)).size > 0


def _source(step: Step) -> View:
    """What a step copies."""
    (view,) = step.operands
    return View(view.value, view.operations[:-1]) if step.target.operations else view


# --- views -------------------------------------------------------------------------------------------------


class _Sum:
    """The gradients that views of one value give it. Those of stretches of an axis are joined, not each
    filled with zeros and added: n elements of a vector take n steps, not n vectors."""

    def __init__(self, value: Value) -> None:
        self.value, self.whole = value, None
        # Of a view before it is indexed, and of an axis of it.
        self.stretches: dict[tuple[Any, int], list[tuple[range, Any]]] = {}

    def add(self, view: View, gradient: Any) -> None:
        words = [word for word, _ in view.operations]
        at = words.index("index") if "index" in words else len(words)
        if is_complex(gradient) and not is_complex(view):
            gradient = gradient.real
        before, shapes = view.operations[:at], _shapes(view)
        gradient = _of_whole(view.operations[at + 1 :], gradient, shapes[at + 1 :])
        if at < len(words):
            gradient, parts = _in_dimensions(gradient, view.operations[at][1], shapes[at])
            partial = [i for i, x in enumerate(parts) if x != range(shapes[at][i])]
            if len(partial) == 1 and (chosen := parts[partial[0]]) and chosen.step == 1:
                (axis,) = partial
                self.stretches.setdefault((before, axis), []).append((chosen, gradient))
                return
            gradient = _of_parts(gradient, parts, shapes[at])
        self._add_whole(_of_whole(before, gradient, shapes))

    def total(self) -> Any:
        for (before, axis), stretches in self.stretches.items():
            layers: list[tuple[set[int], list[tuple[range, Any]]]] = []  # in which stretches do not overlap
            for stretch in stretches:
                layer = next((x for x in layers if x[0].isdisjoint(stretch[0])), None)
                if layer is None:
                    layers.append(layer := (set(), []))
                layer[0].update(stretch[0])
                layer[1].append(stretch)
            shapes = _shapes(View(self.value, before))
            for _, disjoint in layers:
                self._add_whole(_of_whole(before, _joined(disjoint, axis, shapes[-1][axis]), shapes))
        self.stretches = {}
        return self.whole

    def _add_whole(self, gradient: Any) -> None:
        self.whole = gradient if self.whole is None else self.whole + gradient


def _shapes(view: View) -> list[tuple[int, ...]]:
    """Those of its value, and after each of its operations."""
    part = stand_in(view.value.shape, view.value.dtype)
    shapes = [part.shape]
    for word, argument in view.operations:
        part = VIEWS[word](part, argument)
        shapes.append(part.shape)
    return shapes


def _of_whole(operations: tuple[Any, ...], gradient: Any, shapes: list[tuple[int, ...]]) -> Any:
    """The gradient of an array, from that of a view of it. shapes: before each operation."""
    for (word, argument), shape in reversed([*zip(operations, shapes, strict=False)]):
        gradient = _WHOLES[word](gradient, argument, shape)
    return gradient


def _of_indexed(g: Any, key: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    return _of_parts(*_in_dimensions(g, key, shape), shape)


def _in_dimensions(g: Any, key: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, list[range]]:
    """g with the dimensions of the whole, and which elements of it each axis of g has."""
    parts: list[range] = []
    axis = 0
    for i in basic_index(key):
        if i is None:
            g = g[(*(slice(None),) * axis, 0)]
            continue
        size = shape[len(parts)]
        if not isinstance(i, slice):
            g, i = g[(*(slice(None),) * axis, None)], slice(i, i + 1 or None)
        parts.append(range(size)[i])
        axis += 1
    return g, parts


def _of_parts(g: Any, parts: list[range], shape: tuple[int, ...]) -> Any:
    for axis, chosen in enumerate(parts):
        g = _scattered(g, axis, chosen, shape[axis])
    return g


def _joined(stretches: list[tuple[range, Any]], axis: int, size: int) -> Any:
    """Stretches that do not overlap, and zeros where there is none."""
    parts, end = [], 0
    for chosen, g in sorted(stretches, key=lambda x: x[0].start):
        parts += [*_zeros(g, axis, chosen.start - end), g]
        end = chosen.stop
    parts += _zeros(parts[-1], axis, size - end)
    return parts[0].__array_namespace__().concat(parts, axis=axis)


def _zeros(g: Any, axis: int, count: int) -> list[Any]:
    """So many along an axis, as an array beside g, or none."""
    shape = (*g.shape[:axis], count, *g.shape[axis + 1 :])
    zeros = g.record.constant(0, g.dtype)
    return [g.__array_namespace__().broadcast_to(zeros, shape)] if count else []


def _scattered(g: Any, axis: int, chosen: range, size: int) -> Any:
    """g with its elements along an axis at these places, of so many; zeros are between them."""
    if chosen == range(size):
        return g
    before = (slice(None),) * axis
    xp = g.__array_namespace__()
    if chosen.step < 0:
        return _scattered(g[(*before, slice(None, None, -1))], axis, chosen[::-1], size)
    if chosen.step == 1 or len(chosen) < 2:
        first = chosen.start if len(chosen) else 0
        return _joined([(range(first, first + len(chosen)), g)], axis, size)
    at = {place: i for i, place in enumerate(chosen)}
    parts = [[g[(*before, slice(at[i], at[i] + 1))]] if i in at else _zeros(g, axis, 1) for i in range(size)]
    return xp.concat([x for part in parts for x in part], axis=axis)


def _of_diagonal(g: Any, offset: int, shape: tuple[int, ...]) -> Any:
    """Rows of one element each if the offset is not negative, columns else, where the diagonal is."""
    m, n = shape[-2:]
    axis, size = g.ndim - 1, m if offset >= 0 else n
    g = _scattered(g, axis, range(g.shape[-1]), size)
    g = g[..., None] if offset >= 0 else g[..., None, :]
    return g.__array_namespace__().where(g.record.constant(np.eye(m, n, offset, dtype=bool)), g, 0.0)


_WHOLES: dict[str, Callable[[Any, Any, tuple[int, ...]], Any]] = {
    "index": _of_indexed,
    "permute": lambda g, axes, shape: g.transpose([int(i) for i in np.argsort(axes)]),
    "broadcast": lambda g, to, shape: summed(g.__array_namespace__(), g, shape),
    "reshape": lambda g, to, shape: g.reshape(shape),
    "diagonal": _of_diagonal,
    "pairs": lambda g, none, shape: g.record.joined(g[..., 0], g[..., 1]),
}


# --- steps -------------------------------------------------------------------------------------------------


def _of_step(record: Record, step: Step, grads: Gradients, wanted: list[int]) -> Gradients:
    """The gradients of the operands of a step, at least of those that are wanted."""
    operands = [record.symbol(x.value, None, x.operations) for x in step.operands]
    if step.kind == "call":
        return _of_call(record, step, operands, grads, wanted)
    (g,) = grads
    target = step.target
    g = record.pairs(g) if target.operations else g
    if step.kind == "convert":
        return [_in_dtype(record, g, step.operands[0].dtype)]
    if step.kind == "join":
        ends = np.cumsum([0, *(x.shape[step.axis] for x in operands)]).tolist()
        before = (slice(None),) * step.axis
        return [g[(*before, slice(*ends[i : i + 2]))] for i in range(len(operands))]
    rule = _ELEMENTWISE.get(step.name)
    if rule is None:
        raise TypeError(f"{record.name}: {step.name} has no derivative")
    xp = record.namespace(record)
    answers: list[Any] = [None] * len(operands)
    found = rule(xp, g, record.symbol(target.value, None, target.operations), *operands)
    for i in wanted:
        answer = found[i]() if callable(found[i]) else found[i]
        answers[i] = None if answer is None else summed(xp, answer, operands[i].shape)
    return answers


def _of_call(
    record: Record, step: Step, operands: list[Any], grads: Gradients, wanted: list[int]
) -> Gradients:
    if step.name not in RULES:
        raise TypeError(f"{record.name}: {step.label} has no derivative")
    results = [record.symbol(x) for x in step.results]
    shown = [g if x.dtype.kind in "fc" else None for g, x in zip(grads, step.results, strict=True)]
    gufunc = getattr(_core, step.name)
    return gradients(
        record.namespace(record), gufunc, tuple(operands), tuple(results), tuple(shown), True, wanted
    )


def _in_dtype(record: Record, x: Any, dtype: np.dtype) -> Any:
    if dtype == x.dtype or dtype in COMPLEX:
        return x
    return record.converted(x, dtype) if is_half(dtype) else record.as_number(x, dtype)


# --- element-wise functions: (namespace, gradient, result, operands) -> gradients, or functions of none --


def _conj(x: Any) -> Any:
    return x.conj() if is_complex(x) else x


def _along(derivative: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The rule of a function of one argument with this derivative, of (namespace, result, argument)."""
    return lambda xp, g, r, x: (g * _conj(derivative(xp, r, x)),)


def _quotient(xp: Any, g: Any, r: Any, x: Any, y: Any) -> tuple[Any, ...]:
    return lambda: g / _conj(y), lambda: -(g * _conj(r / y))


def _power(xp: Any, g: Any, r: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """As PyTorch has it: of x^0 and of 0^y the derivatives are 0."""

    def of_x() -> Any:
        return g * xp.where(y == 0, 0.0, y * x ** (y - 1.0))

    def of_y() -> Any:
        return g * xp.where(x == 0, 0.0, r * xp.log(xp.where(x == 0, 1.0, x)))

    return of_x, of_y


def _extreme(is_first: Callable[[Any, Any], Any]) -> Callable[..., tuple[Any, ...]]:
    """Equal arguments have half of the gradient each."""

    def rule(xp: Any, g: Any, r: Any, x: Any, y: Any) -> tuple[Any, ...]:
        half = xp.where(x == y, 0.5 * g, 0.0)
        return lambda: xp.where(is_first(x, y), g, half), lambda: xp.where(is_first(y, x), g, half)

    return rule


def _copysign(xp: Any, g: Any, r: Any, x: Any, y: Any) -> tuple[Any, ...]:
    return lambda: g * xp.sign(x) * xp.sign(r), None


def _arctan2(xp: Any, g: Any, r: Any, x: Any, y: Any) -> tuple[Any, ...]:
    square = x * x + y * y
    return lambda: g * (y / square), lambda: -(g * (x / square))


def _normal(x: Any) -> Any:
    return x.__array_namespace__().exp(-0.5 * (x * x)) / sqrt(2 * pi)


def _error(xp: Any, x: Any) -> Any:
    return 2 / sqrt(pi) * xp.exp(-(x * x))


_ELEMENTWISE: dict[str, Callable[..., tuple[Any, ...]]] = {
    "negative": lambda xp, g, r, x: (-g,),
    "absolute": lambda xp, g, r, x: (g * xp.sign(x),),
    "sqrt": lambda xp, g, r, x: (g / _conj(2.0 * r),),
    "exp": _along(lambda xp, r, x: r),
    "expm1": _along(lambda xp, r, x: r + 1.0),
    "log": lambda xp, g, r, x: (g / _conj(x),),
    "log1p": lambda xp, g, r, x: (g / (x + 1.0),),
    "sin": _along(lambda xp, r, x: xp.cos(x)),
    "cos": _along(lambda xp, r, x: -xp.sin(x)),
    "tanh": _along(lambda xp, r, x: 1.0 - r * r),
    "erf": _along(lambda xp, r, x: _error(xp, x)),
    "erfc": _along(lambda xp, r, x: -_error(xp, x)),
    "ndtr": _along(lambda xp, r, x: _normal(x)),
    "add": lambda xp, g, r, x, y: (g, g),
    "subtract": lambda xp, g, r, x, y: (g, lambda: -g),
    "multiply": lambda xp, g, r, x, y: (lambda: g * _conj(y), lambda: g * _conj(x)),
    "divide": _quotient,
    "power": _power,
    "scaled": lambda xp, g, r, x, y: (g.record.map("scaled", g, y), None),
    "minimum": _extreme(lambda x, y: x < y),
    "maximum": _extreme(lambda x, y: x > y),
    "copysign": _copysign,
    "arctan2": _arctan2,
    "where": lambda xp, g, r, c, x, y: (
        None,
        lambda: xp.where(c, g, 0.0),
        lambda: xp.where(c, 0.0, g),
    ),
}
# Steps whose results do not change with their operands, but at jumps
_CONSTANT = ("floor", "ceil", "sign", "exponent", "less", "less_equal", "equal", "not_equal")

"""The record of a function: steps over values, made by calling the function once with symbols. Everything
here is about one matrix (or vector, or number) of each stack; batch dimensions come when it is run.

A step is data: what it computes, its operands and its results. `compile` turns a record into a program of
the C core, `interpreter` runs it as separate calls on arrays of any library.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from .. import _core
from .._base.errors import explain_failure, refuse_misfits, wrong_dtype
from .._base.shapes import PRODUCTS, arithmetic, broadcast_shapes, stand_in
from .complex_steps import FUNCTIONS
from .dtypes import (
    BOOL,
    COMPLEX,
    FLOATS,
    INT32,
    NUMBERS,
    PYTHONS,
    SUPPORTED,
    complex_of,
    is_half,
    is_supported,
    real_of,
    result_dtype,
    weak_promotion,
)


@dataclass(eq=False)
class Value:
    """An input, a constant, or what steps write. Truth is kept as 1 and 0 in a number, and float16 and
    bfloat16 in float32, but in inputs and where the function rounds; the dtype of a symbol says so."""

    shape: tuple[int, ...]
    dtype: np.dtype
    kind: str  # "input", "constant", "computed"
    array: np.ndarray | None = None  # of a constant
    dense: bool = True  # in row-major order; inputs may be in any


@dataclass(frozen=True)
class View:
    """A value, or a part of it, seen by NumPy's basic indexing: each operation is a word and its argument."""

    value: Value
    operations: tuple[tuple[str, Any], ...] = ()

    @property
    def dtype(self) -> np.dtype:
        """Of the elements as they are stored."""
        return real_of(self.value.dtype) if _PAIRS in self.operations else self.value.dtype

    def as_pairs(self) -> "View":
        """Of complex numbers: their parts, along another last dimension."""
        return View(self.value, (*self.operations, _PAIRS))

    def of(self, array: np.ndarray) -> np.ndarray:
        """The same view of an array in place of the value."""
        for word, argument in self.operations:
            array = VIEWS[word](array, argument)
        return array


def basic_index(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index of NumPy that a view keeps: numbers, None, and slices as (start, stop, step)."""
    return tuple(slice(*x) if isinstance(x, tuple) else x for x in key)


_PAIRS = ("pairs", None)


def _pairs(x: np.ndarray, _: None) -> np.ndarray:
    shape, strides = (*x.shape, 2), (*x.strides, x.itemsize // 2)
    return np.lib.stride_tricks.as_strided(x.real, shape, strides, writeable=False)


VIEWS: dict[str, Any] = {
    "index": lambda x, key: x[(*basic_index(key), ...)],  # an array, even of no dimensions
    "permute": np.transpose,
    "broadcast": lambda x, shape: np.broadcast_to(x, shape),
    "reshape": np.reshape,
    "diagonal": lambda x, offset: np.diagonal(x, offset, -2, -1),
    "pairs": _pairs,
}


@dataclass(eq=False)
class Step:
    """What is computed ("call": a gufunc of the core; "map": an element-wise function; "convert"; "join":
    operands side by side along an axis), the operands, and the values that are the results."""

    kind: str
    name: str
    operands: tuple[View, ...]
    results: tuple[Value, ...]
    dtype: np.dtype  # of the computation
    label: str  # the function that the user called
    kernel: str | None = None
    axis: int = 0
    unless: View | None = None  # truth: a tile where all of it is true leaves the step out
    reason: str | None = None  # what it means that the step fails, in words of the function that has it

    @property
    def target(self) -> View:
        """The first result as the step sees it: one of real numbers writes complex ones as pairs."""
        result = View(self.results[0])
        return result.as_pairs() if result.dtype in COMPLEX and self.dtype in FLOATS else result

    @property
    def info(self) -> Value | None:
        """The result that tells which matrices have failed."""
        if self.kind != "call" or not _core.operations[self.operation][-1][2]:
            return None
        whole = len(self.operands) + len(self.results) == len(_core.operations[self.operation])
        return self.results[-1] if whole and _core.operations[self.operation][-1][0] == "info" else None

    @property
    def operation(self) -> str:
        return _core.gufunc_rows[self.name][0]


@dataclass(eq=False)
class Record:
    """The steps of a function, in the order in which it made them."""

    name: str
    dtype: np.dtype  # that of the inputs that are no integers, together, or of their parts
    make_symbol: Any
    namespace: Any
    steps: list[Step] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    _known: dict[Any, Any] = field(default_factory=dict)  # duplicates are computed once

    # --- values ---

    def input(self, shape: tuple[int, ...], dtype: np.dtype, dense: bool) -> Any:
        value = Value(shape, dtype, "input", dense=dense)
        self.inputs.append(value)
        return self.symbol(value, dtype)

    def constant(self, array: Any, dtype: Any = None) -> Any:
        """An array as a symbol. dtype: of numbers; halves are not rounded, as they are computed."""
        array = np.asarray(array, None if dtype is None else arithmetic(np.dtype(dtype)), order="C")
        if not is_supported(array.dtype):
            raise TypeError(f"{self.name}: a constant has dtype {array.dtype}; expected {SUPPORTED}")
        key = ("constant", array.dtype, array.shape, array.tobytes())
        if key not in self._known:
            own = array.astype(arithmetic(self.dtype if array.dtype == BOOL else array.dtype))
            own.flags.writeable = False
            self._known[key] = Value(array.shape, own.dtype, "constant", own)
        return self.symbol(self._known[key], array.dtype if dtype is None else np.dtype(dtype))

    def symbol(self, value: Value, dtype: np.dtype | None = None, operations: tuple[Any, ...] = ()) -> Any:
        view = View(value, operations)
        return self.make_symbol(
            self, view, view.of(stand_in(value.shape, value.dtype)).shape, dtype or view.dtype
        )

    def as_symbol(self, x: Any, dtype: Any = None) -> Any:
        """x as a symbol: itself, a number, or a NumPy array that becomes a constant."""
        record = getattr(x, "record", None)
        if record is self:
            return x
        if record is not None:
            raise TypeError(f"{self.name}: a value of another call of a fused function is used")
        if type(x) in PYTHONS:
            return self.constant(x, BOOL if type(x) is bool else weak_promotion(dtype or self.dtype, type(x)))
        return self.constant(x)

    # --- steps ---

    @contextmanager
    def unless(self, truth: Any) -> Iterator[None]:
        """Steps that are recorded in this context matter only where `truth` is false."""
        known, first = dict(self._known), len(self.steps)
        yield
        self._known = known  # what may be left out is no value for others
        for step in self.steps[first:]:
            step.unless = truth.view  # of contexts within contexts the outermost counts

    def map(self, name: str, *operands: Any, truth: bool = False) -> Any:
        """An element-wise function of the core; truth: the result is true or false."""
        strong = [x for x in operands if type(x) not in PYTHONS]
        dtype = self.common(strong)
        if len(strong) < len(operands) and not truth and all(_is_truth(x) for x in strong):
            dtype = FLOATS[1]
        symbols = [self.as_symbol(x, dtype) for x in operands]
        dtype = self.common(symbols)
        symbols = [self.as_number(x, dtype) for x in symbols]
        if dtype in COMPLEX:
            if name not in FUNCTIONS:
                raise TypeError(f"{self.name}: {name} of complex numbers cannot be fused")
            return FUNCTIONS[name](self, name, *symbols)
        return self.mapped(name, symbols, arithmetic(dtype), BOOL if truth else dtype)

    def mapped(self, name: str, symbols: Any, dtype: np.dtype, result: np.dtype) -> Any:
        """A step of that dtype. One of real numbers may write complex ones as pairs."""
        shape = broadcast_shapes(*(x.shape for x in symbols))
        by_parts = result in COMPLEX and dtype in FLOATS
        views = tuple(x.view for x in symbols)
        key = (name, dtype, by_parts, views)
        if key not in self._known and not by_parts and all(x.value.kind == "constant" for x in views):
            self._known[key] = self.constant(
                elementwise(name, *(x.of(x.value.array) for x in views))
            ).view.value
        if key not in self._known:
            value = Value(shape[:-1] if by_parts else shape, result if by_parts else dtype, "computed")
            self._known[key] = value
            self.steps.append(Step("map", name, views, (value,), dtype, name))
        return self.symbol(self._known[key], result)

    # --- complex numbers ---

    def pairs(self, x: Any) -> Any:
        """Real and imaginary part of each element, along another last dimension."""
        view = x.view.as_pairs()
        return self.symbol(view.value, None, view.operations)

    def by_parts(self, name: str, *operands: Any) -> Any:
        """A function of real numbers, applied to the parts of complex ones; real operands meet both parts."""
        parts = [self.pairs(x) if x.dtype in COMPLEX else x[..., None] for x in operands]
        dtype = next(x.dtype for x in parts if x.dtype in FLOATS)
        return self.mapped(name, [self.as_number(x, dtype) for x in parts], dtype, complex_of(dtype))

    def joined(self, re: Any, im: Any) -> Any:
        """Complex numbers of these parts, which have one dtype."""
        shape = broadcast_shapes(re.shape, im.shape)
        parts = [
            self.symbol(x.view.value, None, (*x.view.operations, ("broadcast", shape))) for x in (re, im)
        ]
        return self._joined([x[..., None] for x in parts], len(shape), shape, complex_of(re.dtype), "complex")

    def common(self, symbols: Any) -> np.dtype:
        """The dtype of a computation with these; that of the inputs if all are truth."""
        dtypes = [x.dtype for x in symbols if not _is_truth(x)]
        return result_dtype(self.name, dtypes) if dtypes else self.dtype

    def as_number(self, x: Any, dtype: np.dtype) -> Any:
        """x with its elements in that dtype of numbers; halves are computed in float32, and not rounded."""
        stored = arithmetic(dtype)
        x = x if x.view.dtype == stored else self.converted(x, stored)
        return x if x.dtype in (dtype, BOOL) else self.symbol(x.view.value, dtype, x.view.operations)

    def converted(self, x: Any, dtype: np.dtype) -> Any:
        """x with elements of that dtype, rounded to it."""
        x = self.as_number(x, arithmetic(dtype)) if is_half(dtype) else x
        if x.view.value.kind == "constant":
            array = x.view.of(x.view.value.array)
            return self.constant(array.astype(dtype))
        if dtype in COMPLEX and x.view.dtype not in COMPLEX:
            real = self.as_number(x, real_of(dtype))
            return self.joined(real, self.constant(0, real.dtype))
        view = x.view.as_pairs() if dtype in COMPLEX else x.view
        key = ("convert", dtype, view)
        if key not in self._known:
            value = self._known[key] = Value(x.shape, dtype, "computed")
            self.steps.append(Step("convert", "convert", (view,), (value,), real_of(dtype), f"to {dtype}"))
        return self.symbol(self._known[key])

    def dense(self, x: Any) -> Any:
        """x as a value of its own, in row-major order."""
        value = x.view.value
        if value.dense and not x.view.operations:
            return x
        stored = x.view.dtype
        copied = Value(x.shape, stored, "computed")
        view = x.view.as_pairs() if stored in COMPLEX else x.view
        step = Step("map", "copy", (view,), (copied,), real_of(stored), "copy")
        if stored not in NUMBERS:
            step = Step("convert", "convert", (x.view,), (copied,), self.dtype, "copy")
        self.steps.append(step)
        return self.symbol(copied, x.dtype)

    def join(self, parts: list[Any], axis: int) -> Any:
        """Symbols side by side along an axis."""
        dtype = self.common(parts)
        truth = all(x.dtype == BOOL for x in parts)
        parts = [self.as_number(x, dtype) for x in parts]
        shapes = {(x.shape[:axis], x.shape[axis + 1 :]) for x in parts}
        if len(shapes) > 1:
            given = ", ".join(str(x.shape) for x in parts)
            raise ValueError(f"{self.name}: shapes {given} cannot be joined along axis {axis}")
        shape = list(parts[0].shape)
        shape[axis] = sum(x.shape[axis] for x in parts)
        parts = [self.pairs(x) if dtype in COMPLEX else x for x in parts]
        seen = BOOL if truth else dtype
        return self._joined(parts, axis, tuple(shape), arithmetic(dtype), "concat", seen)

    def _joined(
        self,
        parts: list[Any],
        axis: int,
        shape: tuple[int, ...],
        dtype: np.dtype,
        label: str,
        seen: np.dtype | None = None,
    ) -> Any:
        views = tuple(x.view for x in parts)
        key = ("join", dtype, shape, axis, views)
        if key not in self._known:
            value = self._known[key] = Value(shape, dtype, "computed")
            self.steps.append(Step("join", "concat", views, (value,), real_of(dtype), label, axis=axis))
        return self.symbol(self._known[key], seen)

    def call(self, op: str, gufunc: Any, operands: dict[str, Any]) -> Any:
        """A gufunc of the core, or a composition, whose parts are recorded."""
        given = {name: self.as_symbol(x) for name, x in operands.items()}
        if isinstance(gufunc, np.ufunc) and (name := _complex_beside_real(gufunc, given)) is not None:
            return self._of_parts(op, gufunc, given, name)
        integers, real = _operands_of(gufunc, "int32") | {"pivots"}, _operands_of(gufunc, "real")
        numbers = [x for name, x in given.items() if name not in integers]
        dtype = self.common(numbers)
        if all(map(_is_truth, numbers)):
            dtype = FLOATS[1]
            if gufunc.__name__ in PRODUCTS:
                raise TypeError(f"{self.name}: {op} of booleans; use where(condition, 1.0, 0.0)")
        of = {name: real_of(dtype) if name in real else dtype for name in given}
        symbols = {
            name: x if name in integers and x.dtype == INT32 else self.as_number(x, arithmetic(of[name]))
            for name, x in given.items()
        }
        results = self._called(op, gufunc, symbols, arithmetic(dtype))
        if is_half(dtype):
            results = tuple(self.as_number(x, dtype) if x.dtype == FLOATS[0] else x for x in results)
        return results if gufunc.nout > 1 else results[0]

    def _of_parts(self, op: str, gufunc: np.ufunc, operands: dict[str, Any], name: str) -> Any:
        """A call of real matrices and of a complex one, the named operand."""
        z = operands[name]
        if gufunc.__name__ in PRODUCTS:
            return self.joined(*(self.call(op, gufunc, {**operands, name: x}) for x in (z.real, z.imag)))
        is_vector = len(z.shape) < 2
        columns = z[..., None] if is_vector else z
        k = columns.shape[-1]
        both = self.join([columns.real, columns.imag], len(columns.shape) - 1)
        results = self.call(op, gufunc, {**operands, name: both})
        x, *others = results if gufunc.nout > 1 else (results,)
        x = self.joined(x[..., :k], x[..., k:])
        x = x[..., 0] if is_vector else x
        return (x, *others) if others else x

    def _called(self, op: str, gufunc: Any, symbols: dict[str, Any], dtype: np.dtype) -> tuple[Any, ...]:
        if not isinstance(gufunc, np.ufunc):
            return self._composition(gufunc, symbols)
        stand_ins = {name: stand_in(x.shape, x.view.dtype) for name, x in symbols.items()}
        results: list[Any] = []
        try:
            plan = _core.explain(lambda: results.append(gufunc(*stand_ins.values())))
        except (TypeError, ValueError) as error:
            why = explain_failure(op, gufunc, stand_ins, {}, {})
            raise (why or error) from None
        shaped = results[0] if gufunc.nout > 1 else (results[0],)
        values = tuple(Value(np.shape(x), x.dtype, "computed") for x in shaped)
        views = tuple(x.view for x in symbols.values())
        key = (gufunc.__name__, dtype, views)
        if key not in self._known:
            self._known[key] = values
            self.steps.append(Step("call", gufunc.__name__, views, values, dtype, op, plan["kernel"]))
        return tuple(self.symbol(x) for x in self._known[key])

    def _composition(self, composition: Any, symbols: dict[str, Any]) -> tuple[Any, ...]:
        for name, x in symbols.items():
            if x.dtype in COMPLEX and not composition.takes_complex:
                raise wrong_dtype(composition.op, name, x.dtype, where=f", in {self.name}")
        stand_ins = {name: stand_in(x.shape, x.view.dtype) for name, x in symbols.items()}
        refuse_misfits(composition.op, composition, stand_ins)
        return tuple(composition.run(self.namespace(self), tuple(symbols.values())))

    def fallible(self) -> list[Step]:
        """The steps that can fail, in order."""
        return [x for x in self.steps if x.info is not None]


def _complex_beside_real(gufunc: np.ufunc, operands: dict[str, Any]) -> str | None:
    """The name of the complex operand, if there is one and the call is of real numbers nevertheless."""
    names = [name for name, x in operands.items() if x.dtype in COMPLEX]
    if len(names) != 1:
        return None
    integers, always_real = _operands_of(gufunc, "int32") | {"pivots"}, _operands_of(gufunc, "real")
    given = (COMPLEX[1] if x in names else INT32 if x in integers else FLOATS[1] for x in operands)
    dtypes = gufunc.resolve_dtypes((*given, *(None,) * gufunc.nout))
    numbers = {x for name, x in zip(operands, dtypes, strict=False) if name not in integers | always_real}
    return names[0] if numbers == {COMPLEX[1], FLOATS[1]} else None


def _is_truth(x: Any) -> bool:
    return getattr(x, "dtype", BOOL) == BOOL


def _operands_of(gufunc: Any, element: str) -> set[str]:
    """Operands of a gufunc with such elements: "real" where others are complex, "int32"."""
    rows = _core.operations[_core.gufunc_rows[gufunc.__name__][0]] if isinstance(gufunc, np.ufunc) else ()
    return {name for name, _, _, kind, *_ in rows if kind == element}


def elementwise(name: str, *arrays: np.ndarray) -> Any:
    """A function of functions.def on NumPy arrays of one dtype, which broadcast."""
    dense = [
        x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C")
        for x in map(np.asarray, arrays)
    ]
    (result,), _ = _program_of(name, dense[0].dtype)(*dense)
    return result


@cache
def _program_of(name: str, dtype: np.dtype) -> Any:
    number = _core.dtypes.index(NUMBERS[dtype])
    which, count = _core.functions[name]
    values = (*((0, 0, None) for _ in range(count)), (1, 0, None))
    operands = tuple((i, 0, 0, 0, ()) for i in (count, *range(count)))
    step = (1, which, 0, number, 0, 0, (1, 1, 1), (), operands)
    given = tuple((i, dtype, (), ()) for i in range(count))
    return _core.Program(values, (step,), given, ((count, dtype, (), ()),), ())


def power(xp: Any, x: Any, y: float) -> Any:
    """x^y, of x that are not negative: on the host, and in programs, smallmm's own powers."""
    if xp is not np or y in (-1, 0.5, 1, 2):  # which are operations that are rounded once
        return x**y
    return elementwise("power", x, np.asarray(y, x.dtype))

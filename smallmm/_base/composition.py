"""Functions that are composed of smallmm's own and of element-wise operations of the caller's library. To
`_calls.arrays` and `_gpu.device` a composition is a gufunc: it has a signature and dtypes, and it broadcasts.

NumPy arrays are computed in blocks of matrices that stay in the cache. Arrays on a device are computed as a
whole, on the current stream of their library. A block has no influence on a result: sums are smallmm's
products, whose order of additions is fixed, and every other operation computes each element by itself.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import inf, prod
from numbers import Number
from typing import Any

import numpy as np

from .. import _core
from .cache import Cache
from .errors import NotInGraph
from .hooks import current
from .later import later
from .shapes import (
    NUMBERS,
    Dimensions,
    arithmetic,
    broadcast_shapes,
    core_dimensions,
    is_complex,
    output_shapes,
    register_bfloat16,
)

# Elements of the largest operand in a block: without a temporary of its size, with one or two, or with many
NO_TEMPORARIES = 1 << 62
FEW_TEMPORARIES = 1 << 18
MANY_TEMPORARIES = 1 << 15

# A program of all steps is made for arrays of a kind (dtypes, core shapes and strides) after so many calls.
# One of many elements counts as several: it costs as much as a hundred of single matrices
RECORDED_AFTER, ELEMENTS_OF_A_CALL = 8, 1 << 14
MAX_RECORDED = 1 << 11  # elements of a matrix
MAX_KINDS = 256
# Elements of a stack for which a program is faster than NumPy's operations on blocks, whatever the threads
MAX_OF_FEW_THREADS = 1 << 14

MAX_DIMS = 64  # of NumPy's arrays
PLAIN_DIMS = MAX_DIMS // 2  # of a batch that functions see as it is: they add dimensions
CHUNK = 64  # elements that are added in a row

PLAIN_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "c8", "c16")))  # numbers that are computed as they are

# What a composition knows of its calls, and does not give to a copy
_OWN = ("_prepared", "_plans", "_calls", "backward")

_REALS = frozenset(x for x in PLAIN_DTYPES if x.kind == "f")

# What `_core.Prepared` does with a program's last output: it is a result as others; it is info and no
# result; it is info and a result, which is None where it is 0 everywhere
NO_INFO, INFO_APART, INFO_AMONG = range(3)

# The dtype of an output: the real one of the computation, or the complex one of its precision.
# Classes: themselves also after pickling
REAL, COMPLEX = np.floating, np.complexfloating

# Whether work on an array becomes part of a CUDA graph: `_libraries` enters what knows the libraries' streams
CAPTURES: list[Callable[[Any], bool]] = []


class Composition:
    """``function(xp, *arrays)`` for stacks of any library, where xp is the library's namespace.

    The function broadcasts. It returns an array, or a tuple of them if the signature has several outputs. An
    output has the dtype of the computation if its entry of `dtypes` is None. The rule of its derivatives is
    that of its name; messages speak of `op`, the name if None. is_checked: the caller gives the results to
    `checked`, which takes None for an info that is 0 everywhere.
    """

    def __init__(
        self,
        name: str,
        signature: str,
        function: Callable[..., Any],
        dtypes: tuple[Any, ...] = (None,),
        block: int = FEW_TEMPORARIES,
        takes_complex: bool = False,
        op: str | None = None,
        is_checked: bool = False,
    ) -> None:
        self.__name__ = name
        self.op = op or name
        self.signature = signature
        self.function = function
        self.nout = len(dtypes)
        self.nin = signature.count("(") - self.nout
        self._dtypes = dtypes
        self._block = block
        self._plain = frozenset(x for x in PLAIN_DTYPES if takes_complex or x.kind != "c")
        self.core_inputs, self._outputs = core_dimensions(self)  # type: ignore[arg-type]
        self.takes_complex = takes_complex
        self._info = INFO_AMONG if is_checked else NO_INFO
        # launch(library, stream, *arrays, labels=...) where a kernel computes it on a device. False: an
        # output overlaps an operand
        self.launch: Callable[..., Any] | None = None
        self._forget()

    def _forget(self) -> None:
        self._prepared = _core.Prepared()
        self._plans = Cache(MAX_KINDS)  # programs on a device; None: there is none
        self._calls = Cache(MAX_KINDS)  # how many there were of each kind; infinity: no program has it
        self.backward: Any = None  # the backward pass, once it is wanted

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in self.__dict__.items() if name not in _OWN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def directly(self, operands: Sequence[Any], out: Any = None) -> Any:
        """The answers for NumPy's own arrays of one dtype, and numbers, which fit: most calls, and single
        matrices are not to wait for more than this. NotImplemented for others: `arrays.call` converts or
        explains them."""
        answer = self._prepared(*operands, out=out)
        if answer is not NotImplemented or out is not None:
            return answer
        dtypes = {x.dtype if type(x) is np.ndarray else None for x in operands if type(x) not in NUMBERS}
        if len(dtypes) != 1 or not dtypes <= self._plain or current() is not None:
            return NotImplemented
        try:
            arrays = [np.asarray(x, *dtypes) for x in operands]
            batch, _ = _sizes(self.core_inputs, tuple([x.shape for x in arrays]))
        except (ValueError, TypeError, OverflowError):
            return NotImplemented
        return self._answers([_answer(x) for x in self._computed(operands, arrays, batch)])

    def _computed(
        self, operands: Sequence[Any], arrays: Sequence[np.ndarray], batch: tuple[int, ...]
    ) -> Sequence[Any]:
        """The results for arrays that were made of these operands."""
        if self._is_due(arrays, batch) and self._has_program(operands, arrays):
            answer = self._prepared(*operands)
            if answer is not NotImplemented:
                *results, last = answer if self.nout > 1 else (answer,)
                return *results, np.zeros(batch, np.int32) if last is None else last
        with np.errstate(all="ignore"):
            return self._in_blocks(arrays, batch)

    def _is_due(self, operands: Sequence[Any], batch: tuple[int, ...]) -> bool:
        """Whether enough was computed of such arrays that a program of all steps is worth its making."""
        inner = [(x, x.ndim - len(dims)) for x, dims in zip(operands, self.core_inputs, strict=True)]
        key = tuple([(x.dtype, x.shape[at:], x.strides[at:]) for x, at in inner])
        most = max([prod(x.shape[at:]) for x, at in inner])
        if most > MAX_RECORDED or 0 in batch:
            return False
        calls = self._calls.get(key, 0) + 1 + most * prod(batch) / ELEMENTS_OF_A_CALL
        self._calls.keep(key, inf if calls >= RECORDED_AFTER else calls)
        return bool(RECORDED_AFTER <= calls < inf)

    def _has_program(self, operands: Sequence[Any], arrays: Sequence[np.ndarray]) -> bool:
        """Whether there is a program of all steps, which is made here."""
        program, threads = later("_programs.plan").host_program_of(self, arrays)
        if program is None:
            return False
        numbers = tuple(type(x) if type(x) in NUMBERS else None for x in operands)
        if not self._prepared.add(
            program, numbers, {}, self.nout, self._info, None, None, MAX_OF_FEW_THREADS, threads
        ):
            self._forget()
        return True

    def device_plan(self, operands: Sequence[Any]) -> Any:
        """The steps for arrays of a device, and numbers, as a plan, which may have a kernel; None if they
        depend on elements, or are too many."""
        inner = zip(operands, self.core_inputs, strict=True)
        cores = [() if _is_number(x) else tuple(x.shape)[x.ndim - len(dims) :] for x, dims in inner]
        like = next((x for x in operands if not _is_number(x)), None)
        if like is None or max(map(prod, cores)) > MAX_RECORDED:
            return None
        key = str(like.dtype), tuple(cores), tuple(map(_is_number, operands))
        if key not in self._plans:
            self._plans.keep(key, later("_programs.plan").device_plan_of(self, like, cores))
        plan = self._plans[key]
        return None if plan is None or plan.on_device() is None else plan

    def on_device(self, given: Sequence[Any], operands: dict[str, Any]) -> list[Any] | None:
        """The results for arrays of a device, and numbers, by one kernel of all steps; None if there is none.
        given: what the caller gave, of which operands were made; () if that includes outputs."""
        plan = self.device_plan(list(operands.values()))
        if plan is None:
            return None
        dtype = plan.record.inputs[0].dtype
        arrays = [np.asarray(x, dtype) if _is_number(x) else x for x in operands.values()]
        found = plan.run_on_device(list(operands), arrays, self.batch_of(arrays))
        if found is None:
            return None
        results, launched = found
        same = [x is y for x, y in zip(given, operands.values(), strict=False)]
        if given and all(same) and all(map(is_met_on_device, given, arrays)):
            kept = self._prepared.add_on_device(
                launched, tuple(given), tuple(results), {}, self._info, None, None
            )
            if kept is False:
                self._prepared = _core.Prepared()
        return results

    def batch_of(self, arrays: Sequence[Any]) -> tuple[int, ...]:
        """The batch dimensions of arrays, or numbers as arrays of NumPy, that fit."""
        inner = zip(arrays, self.core_inputs, strict=True)
        return broadcast_shapes(*(tuple(x.shape)[: max(0, x.ndim - len(dims))] for x, dims in inner))

    def resolve_dtypes(self, dtypes: tuple[Any, ...]) -> tuple[np.dtype, ...]:
        """As of a gufunc. Python's numbers are given as types, and follow the arrays."""
        arrays = [x for x in dtypes[: self.nin] if isinstance(x, np.dtype)]
        common = np.result_type(*arrays or [np.dtype(float)], *[1j] * (complex in dtypes))
        register_bfloat16(common)
        own = _core.inv.resolve_dtypes((common, None, None))[1]
        if own.kind == "c" and not self.takes_complex:
            raise TypeError(f"{self.op}: complex numbers are not taken")
        real = np.finfo(own).dtype if own.kind == "c" else own
        numbers = {None: own, REAL: real, COMPLEX: np.result_type(arithmetic(real), np.complex64)}
        outputs = (np.dtype(numbers.get(x, x)) for x in self._dtypes)
        return (*(arithmetic(own),) * self.nin, *outputs)

    def output_shapes(self, operands: dict[str, np.ndarray]) -> list[tuple[int, ...]]:
        """The shapes of the outputs for operands that fit."""
        return output_shapes(self, operands)  # type: ignore[arg-type]

    def run(self, xp: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results, in the library of the operands. Some operands may be numbers."""
        like, *_ = operands
        try:
            return self._results(xp, [constant(xp, x, like) if _is_number(x) else x for x in operands])
        except NotInGraph as why:
            raise RuntimeError(f"{self.op}: {why}") from None

    def _results(self, xp: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
        results = self.function(xp, *operands)
        return results if self.nout > 1 else (results,)

    def __call__(self, *arguments: Any) -> Any:
        """On NumPy arrays: operands, then outputs or None for each. The caller explains exceptions."""
        for x in arguments[: self.nin]:
            if hasattr(x, "__array_ufunc__") and not isinstance(x, np.ndarray | np.generic):
                raise TypeError(f"{self.op}: a {type(x).__name__} is not taken; pass its values")
        arrays = [np.asarray(x) for x in arguments[: self.nin]]
        numbers = (type(x) if type(x) in NUMBERS else None for x in arguments)
        given = (number or x.dtype for x, number in zip(arrays, numbers, strict=False))
        dtypes = self.resolve_dtypes(tuple(given))
        arrays = [x.astype(dtypes[0], copy=False) for x in arrays]
        batch, sizes = _sizes(self.core_inputs, tuple([x.shape for x in arrays]))
        cores = [tuple(sizes[dim] for dim in dims) for dims in self._outputs]
        outs = (*arguments[self.nin :], *(None,) * self.nout)[: self.nout]
        for out, dtype, core in zip(outs, dtypes[self.nin :], cores, strict=True):
            if out is not None:
                check_output(out, dtype, batch, core)
        with np.errstate(all="ignore"):
            results = [
                np.asarray(x).astype(dtype, copy=False) if dtype != arithmetic(dtype) else x
                for x, dtype in zip(self._computed(arrays, arrays, batch), dtypes[self.nin :], strict=True)
            ]
        for out, result in zip(outs, results, strict=True):
            if out is not None:
                np.copyto(out, result, casting="same_kind")
        return self._answers(
            [_answer(x) if out is None else out for out, x in zip(outs, results, strict=True)]
        )

    def _answers(self, answers: list[Any]) -> Any:
        return answers[0] if self.nout == 1 else tuple(answers)

    def _in_blocks(self, arrays: Sequence[np.ndarray], batch: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        count, is_plain = prod(batch), len(batch) <= PLAIN_DIMS
        if count == 1 and is_plain:
            return self._results(np, arrays)
        cores = [x.shape[x.ndim - len(dims) :] for x, dims in zip(arrays, self.core_inputs, strict=True)]
        step = max(1, self._block // max(1, *map(prod, cores)))
        if count <= step and is_plain:
            return self._results(np, arrays)
        flat = [
            x.reshape(core) if prod(x.shape[: x.ndim - len(core)]) == 1 < count else _flat(x, batch, core)
            for x, core in zip(arrays, cores, strict=True)
        ]
        wholes: list[np.ndarray] = []
        for first in range(0, count, step):
            part = slice(first, first + step)
            results = self._results(
                np, [x if x.shape == core else x[part] for x, core in zip(flat, cores, strict=True)]
            )
            wholes = wholes or [np.empty((count, *x.shape[1:]), x.dtype) for x in results]
            for whole, result in zip(wholes, results, strict=True):
                whole[part] = result
            if not any(x.size for x in wholes):  # of as many matrices as you like
                break
        return tuple(x.reshape(batch + x.shape[1:]) for x in wholes)


@lru_cache(maxsize=256)
def composition_of(
    name: str,
    signature: str,
    dtypes: tuple[Any, ...],
    function: Callable[..., Any],
    *options: Any,
    block: int = FEW_TEMPORARIES,
    op: str | None = None,
    is_checked: bool = False,
) -> Composition:
    """``function(*options, xp, *arrays)`` for stacks of real and complex numbers: one object for the same
    options, which knows the programs of the arrays that it met."""
    own = partial(function, *options) if options else function
    return Composition(name, signature, own, dtypes, block, takes_complex=True, op=op, is_checked=is_checked)


@lru_cache(maxsize=1024)
def _sizes(inputs: Dimensions, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], dict[str, int]]:
    """The batch dimensions of operands of these shapes, and the length of each core dimension."""
    sizes: dict[str, int] = {}
    stacks = []
    for shape, dims in zip(shapes, inputs, strict=True):
        stack = len(shape) - len(dims)
        if stack < 0 or any(sizes.setdefault(d, s) != s for d, s in zip(dims, shape[stack:], strict=True)):
            raise ValueError("core dimensions do not fit")
        stacks.append(shape[:stack])
    return broadcast_shapes(*stacks), sizes


def _answer(result: Any) -> Any:
    """As a gufunc gives it: dense, or a number."""
    return np.asarray(result, order="C")[()]


def constant(xp: Any, values: Any, like: Any) -> Any:
    """Values as an array of the library, dtype and device of another."""
    if xp is np:
        return np.asarray(values, like.dtype)
    values = np.asarray(values)
    x = from_host(xp, values.tolist(), like, like.dtype)
    return x if values.size else xp.reshape(x, values.shape)  # lists of nothing do not tell


def from_host(xp: Any, values: Any, like: Any, dtype: Any = None) -> Any:
    """Values as an array of the library and device of another."""
    from array_api_compat import device

    if CAPTURES and CAPTURES[0](like):
        raise NotInGraph("no CUDA graph can have it, because it copies constants from the host")
    return xp.asarray(values, dtype=dtype, device=device(like))


@lru_cache(maxsize=256)
def _few_ones(count: int, dtype: np.dtype) -> np.ndarray:
    ones = np.ones(count, dtype)
    ones.flags.writeable = False
    return ones


def ones(xp: Any, count: int, like: Any) -> Any:
    """A vector of ones, as an array of the library, dtype and device of another. It is not written to."""
    if xp is np and count <= CHUNK:
        return _few_ones(count, like.dtype)
    return constant(xp, np.ones(count), like)


def real_part(xp: Any, x: Any) -> Any:
    """Of an operand that is real, but was given the dtype of complex ones."""
    return xp.real(x) if is_complex(x) else x


def conjugate(xp: Any, x: Any) -> Any:
    """x itself if it is real."""
    return xp.conj(x) if is_complex(x) else x


def adjoint(xp: Any, x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return conjugate(xp, xp.matrix_transpose(x))


def identity(xp: Any, n: int, like: Any) -> Any:
    """The identity of order n, as an array of the library, dtype and device of another."""
    if xp is np:
        return np.eye(n, dtype=like.dtype)
    from array_api_compat import device

    return xp.eye(n, dtype=like.dtype, device=device(like))


def is_met_on_device(given: Any, operand: Any) -> bool:
    """Whether `_core.Prepared` takes the argument that became an operand: an array of a device, or a
    number of Python that is one number of the kernel's arguments, which rounds it to the operand's dtype."""
    if type(given) in (int, float):
        return operand.dtype in _REALS
    return not isinstance(given, np.ndarray | np.generic | Number)


def _is_number(x: Any) -> bool:
    return isinstance(x, Number) or (isinstance(x, np.ndarray) and x.ndim == 0)


def _flat(x: np.ndarray, batch: tuple[int, ...], core: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(x, batch + core).reshape(prod(batch), *core)


def check_output(out: Any, dtype: np.dtype, batch: tuple[int, ...], core: tuple[int, ...]) -> None:
    if not isinstance(out, np.ndarray) or not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError("out is no array for the result")
    stack = out.shape[: max(out.ndim - len(core), 0)]
    fits = out.shape[len(stack) :] == core and broadcast_shapes(batch, stack) == stack
    if not fits or not out.flags.writeable:
        raise ValueError("out does not take the result")

"""A record run as separate calls, on stacks of any library and device: what programs of the core do not take,
and with which their results are compared."""

from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _core
from .._base.shapes import absent_dimensions, broadcast_shapes, core_dimensions
from .._calls.arrays import call
from .compose import cast, joined, power_of_two
from .dtypes import BOOL, COMPLEX
from .record import Record, Step, Value, View, basic_index, elementwise

Stack = tuple[Any, int]  # an array, and how many of its first dimensions are batch dimensions


def interpret(
    runner: "Runner", results: list[Any], steps: list[Step], with_info: bool
) -> tuple[list[Any], Any]:
    """Results, and if wanted info with columns for each step that can fail; None if none can."""
    xp = runner.xp
    for step in steps:
        runner.add(step)
    infos = [
        xp.reshape(
            xp.broadcast_to(runner.stacks[x][0], (*runner.batch, *x.shape)), (*runner.batch, prod(x.shape))
        )
        for x in (step.info for step in steps if with_info)
        if x is not None
    ]
    answers = []
    for x in results:
        answer = runner.answer(x)
        shape = (*runner.batch, *x.shape)
        answer = xp.broadcast_to(answer, shape) if answer.shape != shape else answer
        answers.append(np.array(answer)[()] if xp is np else runner.returned(answer))
    return answers, runner.returned(xp.concat(infos, axis=-1)) if infos else None


class Runner:
    """The steps of a record on arrays, by operations of their library: xp is its namespace."""

    def __init__(self, record: Record, arrays: list[Any], xp: Any) -> None:
        self.xp = xp
        self.batch = broadcast_shapes(
            *(x.shape[: x.ndim - len(value.shape)] for value, x in zip(record.inputs, arrays, strict=True))
        )
        self.like = next((x for x in arrays if not isinstance(x, np.ndarray)), None)
        self.stacks: dict[Value, Stack] = {}
        for value, x in zip(record.inputs, arrays, strict=True):
            own = self._as_library(x) if isinstance(x, np.ndarray) else x
            self.stacks[value] = own, x.ndim - len(value.shape)

    def _stack(self, value: Value) -> Stack:
        if value not in self.stacks:
            assert value.array is not None
            self.stacks[value] = self._as_library(value.array), 0
        return self.stacks[value]

    def _as_library(self, x: np.ndarray) -> Any:
        """A constant, or a number, as an array of the library, beside the others."""
        if self.like is None:
            return x
        from array_api_compat import device

        return self.xp.asarray(x.copy(), device=device(self.like))

    def seen(self, view: View) -> Stack:
        x, batch = self._stack(view.value)
        for word, argument in view.operations:
            x = self._viewed(x, batch, word, argument)
        return x, batch

    def _viewed(self, x: Any, batch: int, word: str, argument: Any) -> Any:
        match word:
            case "index":
                return self._indexed(x, batch, basic_index(argument))
            case "permute":
                return self.xp.permute_dims(x, (*range(batch), *(batch + i for i in argument)))
            case "broadcast":
                core = x.ndim - batch
                x = x[(*(slice(None),) * batch, *(None,) * (len(argument) - core), ...)]
                return self.xp.broadcast_to(x, (*x.shape[:batch], *argument))
            case "reshape":
                return self.xp.reshape(x, (*x.shape[:batch], *argument))
            case "pairs":
                return self.xp.stack([self.xp.real(x), self.xp.imag(x)], axis=-1)
            case _:
                return self.xp.linalg.diagonal(x, offset=argument)

    def _indexed(self, x: Any, batch: int, index: tuple[Any, ...]) -> Any:
        """Dimensions that an index reverses are reversed first: PyTorch has no slices with negative steps."""
        taken: list[Any] = [slice(None)] * batch
        axis = batch
        for i in index:
            if isinstance(i, slice) and i.step is not None and i.step < 0:
                chosen, last = range(x.shape[axis])[i], x.shape[axis] - 1
                x = self.xp.flip(x, axis=axis)
                i = slice(last - chosen.start, last - chosen.stop, -chosen.step)
            taken.append(i)
            axis += i is not None
        return x[tuple(taken)]

    def _aligned(self, view: View, dims: int) -> Any:
        """The view with that many dimensions of its own, so that those of the batch meet each other."""
        x, batch = self.seen(view)
        missing = dims - (x.ndim - batch)
        return x[(*(slice(None),) * batch, *(None,) * missing, ...)] if missing else x

    def add(self, step: Step) -> None:
        if step.kind == "call":
            self._call(step)
            return
        result = self.computed(step)
        self.stacks[step.results[0]] = result, result.ndim - len(step.results[0].shape)

    def computed(self, step: Step) -> Any:
        """The result of a step that is no call."""
        match step.kind:
            case "map":
                result = self._map(step)
            case "convert":
                result = cast(self.xp, self.seen(step.operands[0])[0], step.target.dtype)
            case _:
                dims = dimensions(step)
                parts = [self._aligned(x, dims) for x in step.operands]
                whole = broadcast_shapes(*(x.shape[: x.ndim - dims] for x in parts))
                parts = [self.xp.broadcast_to(x, whole + x.shape[x.ndim - dims :]) for x in parts]
                result = self.xp.concat(parts, axis=step.axis - dims)
        return joined(self.xp, result[..., 0], result[..., 1]) if step.target.operations else result

    def answer(self, x: Any) -> Any:
        """A result of the record, which is a symbol, in its dtype."""
        answer, _ = self.seen(x.view)
        if x.dtype == BOOL and x.view.dtype != BOOL:
            return answer != 0
        return answer if x.dtype == x.view.dtype else cast(self.xp, answer, x.dtype)

    def returned(self, x: Any) -> Any:
        """What the caller gets of a result."""
        return x

    def _map(self, step: Step) -> Any:
        dims = dimensions(step)
        x = [self._aligned(view, dims) for view in step.operands]
        xp = self.xp
        if step.name in _TRUE:
            return xp.astype(getattr(xp, step.name)(*x), getattr(xp, str(step.dtype)))
        if step.name == "where":
            return xp.where(x[0] != 0, x[1], x[2])
        if step.name == "copy":
            return x[0]
        if xp is np and (step.name in _OURS or step.dtype in COMPLEX):
            return elementwise(step.name, *x)
        if step.name == "exponent":
            return xp.astype(xp.frexp(x[0])[1], x[0].dtype)
        if step.name == "scaled":
            return x[0] * power_of_two(xp, xp.astype(x[1], xp.int32), x[1])
        if step.name in ("erf", "erfc", "ndtr"):
            return _special(self.like, step.name)(*x)
        name = {"absolute": "abs", "power": "pow", "arctan2": "atan2"}.get(step.name, step.name)
        with np.errstate(all="ignore"):
            return getattr(xp, name)(*x)

    def _call(self, step: Step) -> None:
        gufunc = getattr(_core, step.name)
        inputs, _ = core_dimensions(gufunc)
        stacks = [self.seen(x) for x in step.operands]
        own = [SimpleNamespace(ndim=x.ndim - batch) for x, batch in stacks]
        absent = absent_dimensions(own, inputs)
        cores = [len([d for d in dims if d not in absent]) for dims in inputs]
        most = max(x.ndim - core for x, core in zip(own, cores, strict=True))
        names = (name for name, direction, *_ in _core.operations[step.operation] if direction == "in")
        operands = {}
        for name, view, core in zip(names, step.operands, cores, strict=False):
            operands[name] = self._aligned(view, most + core)
        results = _with_all_dimensions(step.label, gufunc, absent, operands, self.xp)
        for value, x in zip(step.results, results, strict=True):
            self.stacks[value] = x, x.ndim - len(value.shape)


def dimensions(step: Step) -> int:
    """Of the first result as the step sees it."""
    return len(step.results[0].shape) + len(step.target.operations)


def _with_all_dimensions(
    op: str, gufunc: Any, absent: set[str], operands: dict[str, Any], xp: Any
) -> tuple[Any, ...]:
    """The results of a gufunc. A vector without its optional dimension, which stacks of vectors do not have,
    is a matrix of one row or column for the call."""
    inputs, outputs = core_dimensions(gufunc)
    for (name, x), dims in zip(operands.items(), inputs, strict=True):
        here = [d for d in dims if d not in absent]
        lengths = iter(x.shape[x.ndim - len(here) :])
        if len(here) < len(dims):
            core = (1 if d in absent else next(lengths) for d in dims)
            operands[name] = xp.reshape(x, (*x.shape[: x.ndim - len(here)], *core))
    results = call(op, gufunc, operands, None if gufunc.nout == 1 else (), {})
    results = results if gufunc.nout > 1 else (results,)
    return tuple(
        x[(..., *(0 if d in absent else slice(None) for d in dims))] if absent.intersection(dims) else x
        for x, dims in zip(results, outputs, strict=True)
    )


_TRUE = ("less", "less_equal", "equal", "not_equal")
_OURS = (
    *("exp", "expm1", "log", "log1p", "sin", "cos", "arctan2", "tanh", "erf", "erfc", "ndtr", "power"),
    *("exponent", "scaled"),
)


def _special(like: Any, name: str) -> Any:
    """erf, erfc and ndtr of a library, which the array API does not have."""
    library = type(like).__module__.partition(".")[0]
    if library == "torch":
        import torch

        return getattr(torch.special, name)
    if library.startswith("jax"):
        import jax.scipy.special

        return jax.scipy.stats.norm.cdf if name == "ndtr" else getattr(jax.scipy.special, name)
    if library == "cupy":
        import cupyx.scipy.special

        return getattr(cupyx.scipy.special, name)
    raise TypeError(f"{name} of arrays of {library} is unknown")

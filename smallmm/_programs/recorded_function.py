"""The records of a function of matrices: one for each combination of dtypes, core shapes and options."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

from .._base.cache import Cache
from .._base.errors import shown
from .._base.options import is_hashable
from .._base.shapes import dtype_of
from .arrays import is_dense
from .batched_function import BatchedFunction, signature_text
from .dtypes import FLOATS, SUPPORTED, is_number, is_supported, real_of, result_dtype
from .failures import refuse_reasons
from .plan import MAX_RECORDS, Plan, structure
from .record import Record
from .symbols import Symbol, record_of

_MAX_TRIALS = 32  # of signatures, for a message


class RecordedFunction(BatchedFunction):
    """A function of one matrix, vector or number of each stack, which is called with symbols."""

    def __init__(
        self, function: Callable[..., Any], signature: str | None, reasons: dict[str, str] | None
    ) -> None:
        super().__init__(function, signature)
        self.reasons = refuse_reasons(reasons)
        self._plans = Cache(MAX_RECORDS)

    def is_recorded(self, arrays: tuple[Any, ...]) -> bool:
        """Whether a record of the function takes such arrays, or numbers; else an exception says why not."""
        return bool(self._plan(self._operands(arrays), {}).results)

    def _inlined(self, arrays: tuple[Any, ...], out: Any, options: dict[str, Any]) -> Any:
        """Called by a function that is recorded: its steps become steps of that one."""
        if out is not None:
            raise TypeError(f"{self._name}: out is given in a function that is fused")
        record = next(x.record for x in arrays if isinstance(x, Symbol))
        symbols = [record.as_symbol(x) for x in arrays]
        for name, x, dims in zip(self._names, symbols, self._inputs, strict=True):
            if self.signature is not None and x.ndim != len(dims):
                expected = signature_text(dims)
                raise ValueError(
                    f"{self._name}: {name} has shape {x.shape} in {record.name}; expected {expected}"
                )
        return self._steps(record, symbols, options)

    def _steps(self, record: Record, symbols: list[Symbol], options: dict[str, Any]) -> Any:
        """What the function returns for symbols. The steps that it records fail for its own reasons."""
        first = len(record.steps)
        answer = self.function(*symbols, **options)
        for step in record.steps[first:]:
            step.reason = step.reason or self.reasons.get(step.label)
        return answer

    def _plan(self, operands: list[Any], options: dict[str, Any]) -> Plan:
        cores = tuple(
            (dtype_of(x), tuple(map(int, tuple(x.shape)[x.ndim - len(dims) :])), is_dense(x, len(dims)))
            for x, dims in zip(operands, self._inputs, strict=True)
        )
        key = (
            cores,
            tuple((name, type(x), x.hex() if type(x) is float else x) for name, x in sorted(options.items())),
        )
        try:
            plan: Plan | None = self._plans.get(key)
        except TypeError:
            wrong = next(name for name, x in options.items() if not is_hashable(x))
            if wrong in self._names:
                raise TypeError(f"{self._name}: {wrong} is given twice, by place and by name") from None
            raise TypeError(
                f"{self._name}: {wrong} is {shown(options[wrong])}; expected {self._expected()}, and other "
                "keywords that are numbers or strings, on which the record depends"
            ) from None
        try:
            return plan or self._plans.keep(key, self._recorded(cores, options))
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise self._advised(error, operands, options) from None

    def _recorded(self, cores: Any, options: dict[str, Any]) -> Plan:
        for name, (dtype, *_) in zip(self._names, cores, strict=True):
            if not is_supported(dtype):
                raise TypeError(f"{self._name}: {name} has dtype {dtype}; expected {SUPPORTED}")
        numbers = [dtype for dtype, *_ in cores if is_number(dtype)]
        record = record_of(self._name, real_of(result_dtype(self._name, numbers)) if numbers else FLOATS[1])
        symbols = [record.input(shape, dtype, dense) for dtype, shape, dense in cores]
        answer = self._steps(record, symbols, options)
        results, make = structure(record, answer)
        if self._outputs is not None:
            self._check_outputs(results, cores)
        return Plan(record, results, make)

    def _batch(self, operands: list[Any]) -> tuple[int, ...]:
        try:
            return super()._batch(operands)
        except ValueError as error:
            if max(x.ndim for x in operands) < 2:
                raise
            raise self._advised(error, operands, {}) from None

    def _advised(self, error: Exception, operands: list[Any], options: dict[str, Any]) -> Exception:
        """The exception, which says what to write where a signature is missing."""
        signature = self._signature_for(operands, options) if self.signature is None else ""
        if not signature:
            return error
        return type(error)(
            f"{error}. Without a signature {self._name} takes a number of each array; for matrices write "
            f'fuse("{signature}")'
        )

    def _signature_for(self, operands: list[Any], options: dict[str, Any]) -> str:
        """A signature with which the function takes such arrays; "" if none is found."""
        shapes = [tuple(x.shape) for x in operands]
        choices = product(*(range(min(len(shape), 2), -1, -1) for shape in shapes))
        splits = [[len(x) - n for x, n in zip(shapes, dims, strict=True)] for dims in choices]
        splits.sort(key=lambda at: (len({x[:i] for x, i in zip(shapes, at, strict=True)}), sum(at)))
        for at in splits[:_MAX_TRIALS]:
            cores = [x[i:] for x, i in zip(shapes, at, strict=True)]
            tall = next((len(set(core)) == 2 for core in cores if len(core) == 2), False)
            sizes = dict.fromkeys(n for core in cores for n in core)
            letters = dict(zip(sizes, "mnklpqrst" if tall else "nmklpqrst", strict=False))
            signature = _words_of(cores, letters)
            trial = RecordedFunction(self.function, signature, None)
            with suppress(Exception):
                trial._batch(operands)
                results = trial._plan(operands, options).results
                return f"{signature}->{_words_of([x.shape for x in results], letters)}"
        return ""


def _words_of(cores: list[tuple[int, ...]], letters: dict[int, str]) -> str:
    return ",".join(f"({','.join(letters.get(n, str(n)) for n in core)})" for core in cores)

"""What a fused function's record becomes: programs, one for each layout of the arguments, and the structure
of what the function returns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ._compile import NotCompiled, compiled, info_columns, needed_steps, program_of
from ._device_programs import DeviceProgram
from ._long import LongProgram
from ._program_steps import NotFused
from ._record import Record
from ._symbols import Symbol

_NO_KERNEL = "a step has no kernel"
MOST_RECORDS = 64  # of a function, for shapes and dtypes that it has met


class Plan:
    """A record with the structure of its results, and the programs made of it, one for each layout."""

    def __init__(self, record: Record, results: list[Symbol], make: Callable[[list[Any]], Any]) -> None:
        self.record = record
        self.results = results
        self.make = make
        self.steps = needed_steps(record, results)
        self.fallible = record.fallible()
        self.columns = info_columns(record)
        self.programs: dict[Any, Any] = {}
        self.why_not = ""
        self.why_not_on_device = ""
        self._on_device: DeviceProgram | None = None

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

    def program(self, layouts: tuple[tuple[int, ...], ...]) -> Any:
        """The program for inputs with these core strides; None if there is none."""
        if self.why_not:
            return None
        if layouts not in self.programs:
            if len(self.programs) > MOST_RECORDS:
                self.programs.clear()
            try:
                self.programs[layouts] = self._compiled(list(layouts))
            except NotCompiled:
                self.why_not = _NO_KERNEL
                return None
        return self.programs[layouts]

    def _compiled(self, layouts: list[tuple[int, ...]]) -> Any:
        try:
            return LongProgram(self.record, self.results, self.steps, layouts)
        except NotCompiled:
            return program_of(compiled(self.record, self.results, layouts, sum(self.columns)))


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
            return results, lambda arrays: tuple(arrays[: len(results)])
        return results, make
    try:
        symbol = record.as_symbol(answer)
    except (TypeError, ValueError):
        raise TypeError(
            f"{record.name} returns a {type(answer).__name__}; expected an array or a tuple of them"
        ) from None
    return [symbol], lambda arrays: arrays[0]

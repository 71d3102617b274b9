"""A scan within a public function, which its messages name, and the arrays that such functions take."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._functions.recurrences import ScanResult, _call, _failures, _result
from .._programs.arrays import any_failed
from .._programs.compose import array_of, namespace_of


def scanned(
    name: str,
    function: Callable[..., Any],
    carry: Any,
    xs: Any,
    consts: Any = (),
    *,
    reverse: bool = False,
    outputs: str = "all",
) -> ScanResult:
    call, times = _call(name, function, carry, xs, consts, None, reverse, outputs, 1, {})
    outcome = call.run(times, None)
    result = _result(call, outcome, outputs)
    if outcome.info is not None and any_failed(name, outcome.info[..., 0]):
        raise call.error(outcome, result, _failures(call, outcome, times)[1])
    return result


def in_time(name: str, arrays: dict[str, Any], cores: dict[str, str]) -> dict[str, Any]:
    """Arrays whose first dimension is time, as many in each. cores: the last dimensions, as "n,n"."""
    made = {label: array_of(name, label, x) for label, x in arrays.items()}
    for label, x in made.items():
        if x.ndim < 2 + cores[label].count(","):
            wanted = f"(T, ..., {cores[label].replace(',', ', ')})"
            raise ValueError(f"{name}: {label} has shape {tuple(x.shape)}; expected {wanted}: time first")
    lengths = {label: x.shape[0] for label, x in made.items()}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{label} has {n}" for label, n in lengths.items())
        raise ValueError(f"{name}: {given} times; expected as many in each")
    return made


def joined(*arrays: Any) -> Any:
    """One after the other in time."""
    xp: Any = namespace_of(arrays[0])
    return xp.concatenate(arrays) if xp is np else xp.concat(arrays)

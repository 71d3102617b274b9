"""Twins: the functions whose names end in ``_ex``, which return info beside the results, and do not raise for
matrices that fail.

A twin calls the function that it is named for with `WithInfo` for `out`. So it takes all that this one takes.
The direct path declines such an `out`, and what follows it (`calls.run`, `calls.checked`) knows it."""

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from .._base.catalog import COMPOSITIONS, FUNCTIONS, composed_of_others, computed_by
from .._base.options import flag

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")


class WithInfo:
    """What a twin gives as `out`: where results and info go, and what becomes of them."""

    __slots__ = ("check_errors", "others", "out", "result")

    def __init__(self, out: Any, check_errors: bool, result: Any, others: tuple[Any, ...]) -> None:
        self.out, self.check_errors, self.result, self.others = out, check_errors, result, others

    def outs(self, op: str, count: int) -> tuple[Any, ...]:
        """`out` as a tuple with an entry for each of the results, the last of which is info."""
        if self.out is None:
            return (None,) * count
        named = (x._fields for x in (self.result, *self.others))
        return entries(op, self.out, count, next((fields for fields in named if len(fields) == count), ()))

    def made(self, *fields: Any) -> Any:
        """The named tuple with so many fields."""
        if len(fields) == len(self.result._fields):
            return self.result(*fields)
        return next(x for x in self.others if len(x._fields) == len(fields))(*fields)


def entries(op: str, out: Any, count: int, fields: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """out as a tuple with so many entries, of fields with these names."""
    if out is None:
        return (None,) * count
    if not isinstance(out, tuple) or len(out) != count:
        given = f"a tuple of {len(out)}" if isinstance(out, tuple) else f"a {type(out).__name__}"
        expected = f"({', '.join(fields)})" if fields else f"of {count}"
        raise TypeError(f"{op}: out is {given}; expected a tuple {expected}")
    return out


@cache
def _info_alone(result: Any, others: tuple[Any, ...]) -> WithInfo:
    """What a twin without `out` or other options gives: kept, because to make it is a tenth of a call."""
    return WithInfo(None, False, result, others)


def with_info(
    plain: Callable[..., Any],
    result: type[_R],
    args: tuple[Any, ...],
    options: dict[str, Any],
    *others: type[Any],
) -> _R:
    """What the twin of a function returns: `result`, or, with options that ask for other results, the one of
    `others` that has as many fields."""
    try:
        answer: _R
        if not options:
            answer = plain(*args, out=_info_alone(result, others))  # type: ignore[arg-type]
            return answer
        out, check_errors = options.pop("out", None), options.pop("check_errors", False)
        check_errors = check_errors is not False and flag(plain.__name__, "check_errors", check_errors)
        answer = plain(*args, **options, out=WithInfo(out, check_errors, result, others))
        return answer
    except Exception as error:
        if error.args and isinstance(error.args[0], str):  # a message names the function that was called
            name = plain.__name__
            error.args = re.sub(rf"\b{name}\b", f"{name}_ex", error.args[0], count=1), *error.args[1:]
        raise


def twin_of(plain: Callable[..., Any]) -> Callable[[_F], _F]:
    """Enter a twin into the catalogue, with the parameters of the function that it is named for."""

    def enter(twin: _F) -> _F:
        name, signature = plain.__name__, inspect.signature(plain)
        out = signature.parameters["out"].replace(annotation="tuple[Any, ...] | None")
        check_errors = out.replace(name="check_errors", annotation=bool, default=False)
        given = [x for x in signature.parameters.values() if x.name != "out"]
        twin.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*given, check_errors, out], return_annotation=twin.__annotations__["return"]
        )
        if twin.__doc__:
            words = inspect.cleandoc(twin.__doc__).partition("Returns\n")
            listed = f"Parameters\n----------\n{', '.join(x.name for x in given)}\n    As of `{name}`.\n"
            twin.__doc__ = words[0] + listed + _OWN_PARAMETERS.format(name=name) + "".join(words[1:])
        enters = composed_of_others if name in COMPOSITIONS else computed_by(*FUNCTIONS[name].gufuncs)
        return enters(twin)

    return enter


_OWN_PARAMETERS = """\
check_errors : bool
    Whether to raise `LinAlgError` where `{name}` does, as PyTorch's option of this name.
out : tuple of arrays, optional
    Where the results and info are written; each may be None.

"""

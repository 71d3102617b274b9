"""Twins: the functions whose names end in ``_ex``, which return info beside the results, and do not raise for
matrices that fail.

A twin calls the function that it is named for with `WithInfo` for `out`. So it takes all that this one takes.
The direct path declines such an `out`, and what follows it (`calls.run`, `calls.checked`) knows it."""

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from .._base.catalog import COMPOSITIONS, FUNCTIONS, composed_of_others, computed_by
from .._base.options import flag

_R = TypeVar("_R")


class WithInfo:
    """What a twin gives as `out`: where results and info go, and what becomes of them. kinds: the named
    tuples that the twin returns, by the number of their fields."""

    __slots__ = ("check_errors", "kinds", "out")

    def __init__(self, out: Any, check_errors: bool, kinds: dict[int, Any]) -> None:
        self.out, self.check_errors, self.kinds = out, check_errors, kinds

    def outs(self, op: str, count: int) -> tuple[Any, ...]:
        """`out` as a tuple with an entry for each of the results, info being the last."""
        if self.out is None:
            return (None,) * count
        return entries(op, self.out, count, self.kinds[count]._fields if count in self.kinds else ())

    def made(self, *fields: Any) -> Any:
        """The named tuple with so many fields."""
        return self.kinds[len(fields)](*fields)


def entries(op: str, out: Any, count: int, fields: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """out as a tuple with so many entries, of fields with these names."""
    if out is None:
        return (None,) * count
    if not isinstance(out, tuple) or len(out) != count:
        given = f"a tuple of {len(out)}" if isinstance(out, tuple) else f"a {type(out).__name__}"
        expected = f"({', '.join(fields)})" if fields else f"of {count}"
        raise TypeError(f"{op}: out is {given}; expected a tuple {expected}")
    return out


def twin_of(
    plain: Callable[..., Any],
    result: type[_R],
    info: str,
    examples: dict[str, str],
    others: dict[Any, str] | None = None,
) -> Callable[..., _R]:
    """The twin of a function, entered into the catalogue: with the parameters of that function, it returns
    `result`. others: the named tuples, of other numbers of fields, that it returns where options ask for
    them, and when that is. info: what info is. examples: arguments, and info of a call with them."""
    kinds = {len(x._fields): x for x in (result, *(others or ()))}
    alone = WithInfo(None, False, kinds)  # without options: to make it is a tenth of a call
    name = plain.__name__

    def twin(*args: Any, **options: Any) -> Any:
        try:
            if not options:
                return plain(*args, out=alone)
            out, check_errors = options.pop("out", None), options.pop("check_errors", False)
            check_errors = check_errors is not False and flag(name, "check_errors", check_errors)
            return plain(*args, **options, out=WithInfo(out, check_errors, kinds))
        except Exception as error:
            if error.args and isinstance(error.args[0], str):  # a message names the function that was called
                error.args = re.sub(rf"\b{name}\b", f"{name}_ex", error.args[0], count=1), *error.args[1:]
            raise

    signature = inspect.signature(plain)
    out = signature.parameters["out"].replace(annotation="tuple[Any, ...] | None")
    check_errors = out.replace(name="check_errors", annotation=bool, default=False)
    given = [x for x in signature.parameters.values() if x.name != "out"]
    twin.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*given, check_errors, out], return_annotation=Any if others else result
    )
    twin.__name__ = twin.__qualname__ = f"{name}_ex"
    twin.__module__ = plain.__module__
    *fields, _ = result._fields  # type: ignore[attr-defined]
    numbers = f"{', '.join(f'``{x}``' for x in fields)}: as of `{name}`; floating-point numbers of matrices "
    returned = numbers + "whose info is not 0 are NaN.", f"``info``, int32, shape (...), is {info}."
    twin.__doc__ = _DOC.format(
        name=name,
        fields=", ".join((*fields, "info")),
        given=", ".join(x.name for x in given),
        kinds=", or ".join(
            [result.__name__, *(f"{x.__name__} {when}" for x, when in (others or {}).items())]
        ),
        returned="".join(re.sub(r"(.{1,104})(?: |$)", r"    \1\n", x) for x in returned),
        examples="\n".join(f">>> smallmm.{name}_ex({x}).info\n{y}" for x, y in examples.items()),
    )
    return (composed_of_others if name in COMPOSITIONS else computed_by(*FUNCTIONS[name].gufuncs))(twin)


_DOC = """\
`{name}` that never raises for matrices that fail: ``({fields})``.

Parameters
----------
{given}
    As of `{name}`.
check_errors : bool
    Whether to raise `LinAlgError` where `{name}` does, as PyTorch's option of this name.
out : tuple of arrays, optional
    Where the results and info are written; each may be None.

Returns
-------
{kinds}
{returned}
Examples
--------
{examples}
"""

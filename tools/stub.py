"""Writes smallmm/__init__.pyi, what type checkers and editors see of the public names. A function of
arrays has overloads, by which arrays of a library give arrays of this library. Signatures are those of
`inspect`, results those that docstrings name first under Returns. All other names are imported.

    python tools/stub.py            rewrite it
    python tools/stub.py --check    exit 1 if it is not up to date"""

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from functions import ROOT, smallmm, takes_a_group

from smallmm._base.catalog import COMPOSITIONS, FUNCTIONS
from smallmm._programs.chosen import Chosen
from smallmm._programs.fused import Fused

STUB = ROOT / "smallmm" / "__init__.pyi"
WIDTH = 110

HEADER = '''\
"""What type checkers see of smallmm. Written by tools/stub.py; do not edit."""

from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, Unpack, overload

from numpy import ndarray
from numpy.typing import ArrayLike
from typing_extensions import TypeVar

'''
KNOWN = {"Any", "ArrayLike", "Literal", "Sequence", "Unpack"}  # of the header

# NumPy's arrays do not keep their dtype: results of integers are float64, and info is int32. A result with
# one number for each matrix may be NumPy's number: it is Any, as in NumPy's stubs.
TYPES = """\
__version__: str

class _DLPackArray(Protocol):
    def __dlpack__(self) -> Any: ...

class _LazyArray(Protocol):
    @property
    def __array_function__(self) -> Any: ...

_OnHost = ndarray | Sequence[Any] | complex
_Array = TypeVar("_Array", bound=_DLPackArray | _LazyArray)
_AnyArray = ArrayLike | _DLPackArray | _LazyArray
_Result = TypeVar("_Result", default=Any)
"""

# Function -> its options by whose values it returns something else: the option, the value, the result
BY_OPTION: dict[str, list[tuple[str, Any, str]]] = {
    "eigh": [("eigvals_only", True, "array")],
    "eigh_ex": [("eigvals_only", True, "EigvalshExResult")],
    "linsolve": [("return_rcond", True, "(array, array)")],
    "linsolve_ex": [
        ("precision", "mixed", "LinsolveExpertResult"),
        ("ill_conditioned", True, "LinsolveExpertResult"),
        ("return_rcond", True, "LinsolveExpertResult"),
    ],
    "lstsq_ex": [("precision", "mixed", "LstsqMixedExResult")],
    "lu": [("permute_l", True, "PermutedLUResult")],
    "pinv": [("return_rank", True, "(array, array)")],
    "qr": [("mode", "r", "array"), ("mode", "raw", "QRRawResult")],
    "ridge": [("intercept", True, "RidgeResult")],
    "svd": [("compute_uv", False, "array")],
    "svd_ex": [("compute_uv", False, "SVDvalsExResult")],
}


class Kind(NamedTuple):
    """What one overload takes and gives: the operand at a place, the others, `out`, the result."""

    operand: str
    others: str
    out: str
    result: str
    place: int = 0


def shown(annotation: Any) -> str:
    """An annotation as it is written."""
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is Any:
        return "Any"
    if isinstance(annotation, str):
        return annotation
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"Literal[{', '.join(map(quoted, args))}]"
    if origin in (Union, UnionType):
        return " | ".join(map(shown, args))
    if origin:
        return f"{origin.__name__}[{', '.join('...' if x is ... else shown(x) for x in args)}]"
    name: str = annotation.__name__
    return name


def quoted(x: Any) -> str:
    return f'"{x}"' if isinstance(x, str) else repr(x)


def is_record(x: Any) -> bool:
    """Whether it is a named tuple that holds arrays."""
    return isinstance(x, type) and hasattr(x, "_fields") and Any in arrays_of(x)


def arrays_of(record: type) -> list[Any]:
    return [record.__annotations__.get(name) for name in record._fields]  # type: ignore[attr-defined]


def is_of_arrays(name: str) -> bool:
    return name in {**FUNCTIONS, **COMPOSITIONS} or isinstance(getattr(smallmm, name), Fused | Chosen)


def returned(name: str) -> tuple[str, bool]:
    """What a function returns first of all, and whether that is one number for each matrix."""
    words = (inspect.getdoc(getattr(smallmm, name)) or "").partition("\nReturns\n-------\n")[2]
    words = words.partition("\nRaises\n")[0]
    result = re.match(r"\w+", words)
    assert result, f"the docstring of {name} says what it returns"
    if result[0] == "array":
        first = words.partition("\n")[0]
        return "array", bool(re.fullmatch(r"array( of \w+)?(, shape .*\(\.\.\.\).*)?", first))
    shapes = set(re.findall(r"shape (\(\.\.\.[^)]*\))", words))
    return result[0], shapes == {"(...)"} and not name.endswith("_ex")


def result_type(result: str, array: str) -> str:
    if result == "array":
        return array
    return f"tuple[{array}, {array}]" if result == "(array, array)" else f"{result}[{array}]"


def out_type(result: str, array: str) -> str:
    """Of one array, or of a tuple of them."""
    count = 2 if result == "(array, array)" else 1
    if result[0].isupper():
        count = arrays_of(getattr(smallmm, result)).count(Any)
    one = array if array == "Any" else f"{array} | None"
    if count == 1:
        return one
    return f"tuple[{', '.join([one] * count)}] | None"


def overloads(name: str, own: str = "") -> Iterator[str]:
    """The definition of a function, or, with the name of its first parameter, of a method."""
    function = getattr(smallmm, name)
    result, is_number = returned(name)
    groups = group_of(name, is_number)
    by_option = BY_OPTION.get(name, [])
    head = "__call__" if own else name
    for given in forms(function):
        places = sum(is_operand(x) and x.default is x.empty for x in given)
        for option, value, other in [*by_option, (None, None, result)]:
            narrowed = narrowed_options(function, by_option, option, value)
            for kind in kinds(is_number, groups if option is None else "", min(places, 2)):
                types = result_type(other, kind.result), out_type(other, kind.out)
                for is_by_name in by_name(given, option):
                    yield definition(head, own, given, kind, *types, narrowed, is_by_name)


def group_of(name: str, is_number: bool) -> str:
    """What a function gives for groups, if it takes them: groups, unless some results are numbers."""
    if not takes_a_group(name.removesuffix("_ex")):
        return ""
    return "Any" if is_number or name.endswith("_ex") else "Group"


def kinds(is_number: bool, group: str, places: int) -> Iterator[Kind]:
    """Of NumPy's arrays and numbers, of one other library, of a group and other operands, of the rest."""
    on_host = "Any" if is_number else "ndarray"
    yield Kind("_OnHost", "_OnHost", "ndarray", on_host)
    yield Kind("_Array", "_Array | complex", "_Array", "_Array")
    if group:
        yield from (Kind("Group", "_AnyArray", group, group, place) for place in range(places))
    yield Kind("ArrayLike", "ArrayLike", "ndarray", on_host)


def by_name(given: list[inspect.Parameter], option: str | None) -> tuple[bool, ...]:
    """Whether an option that has to be given is given by name, by place, or both in turn."""
    names = [x.name for x in given]
    if option is None or given[names.index(option)].kind is inspect.Parameter.KEYWORD_ONLY:
        return (True,)
    before = given[: names.index(option)]
    return (True, False) if any(x.default is not x.empty for x in before) else (False,)


def is_operand(x: inspect.Parameter) -> bool:
    """Whether a parameter is an array; those of functions that `fuse` made have no annotation."""
    if x.annotation is Any:
        return x.kind is x.POSITIONAL_OR_KEYWORD and x.default is x.empty
    return "ArrayLike" in shown(x.annotation)


def forms(function: Callable[..., Any]) -> Iterator[list[inspect.Parameter]]:
    """The parameters, and those with two factors as one tuple."""
    given = list(inspect.signature(function).parameters.values())
    yield given
    place = getattr(function, "place_of_factors", None)
    if place is not None:
        pair = given[place].replace(annotation="tuple[ArrayLike, ArrayLike]")
        yield [*given[:place], pair, *given[place + 2 :]]


def narrowed_options(
    function: Callable[..., Any], by_option: list[tuple[str, Any, str]], option: str | None, value: Any
) -> dict[str, tuple[Any, ...]]:
    """The values of options for which the result is of one type."""
    if option is not None:
        return {option: (value,)}
    found: dict[str, tuple[Any, ...]] = {}
    for each, _, _ in by_option:
        annotation = inspect.signature(function).parameters[each].annotation
        values = (True, False) if annotation is bool else get_args(annotation)
        others = [x for option, x, _ in by_option if option == each]
        found[each] = tuple(x for x in values if x not in others)
    return found


def definition(
    name: str,
    own: str,
    given: list[inspect.Parameter],
    kind: Kind,
    result: str,
    out: str,
    narrowed: dict[str, tuple[Any, ...]],
    is_by_name: bool,
) -> str:
    """One overload. An option whose default gives another result has to be given, by name or by place."""
    parameters = [own] if own else []
    passed = [x.kind for x in given]
    needed = [i for i, x in enumerate(given) if x.default not in narrowed.get(x.name, (x.default,))]
    needs_star = inspect.Parameter.VAR_POSITIONAL not in passed
    place = 0
    for i, x in enumerate(given):
        annotation = shown(x.annotation)
        if x.name == "out":
            annotation = out
        elif x.name in narrowed:
            annotation = shown(Literal[narrowed[x.name]])
        elif is_operand(x):
            array = kind.operand if place == kind.place or x.kind is x.VAR_POSITIONAL else kind.others
            annotation = "ArrayLike" if annotation == "Any" else annotation
            annotation = annotation.replace("ArrayLike", array)
            place += 1
        if needs_star and (x.kind is x.KEYWORD_ONLY or (i in needed and is_by_name)):
            parameters.append("*")
            needs_star = False
        has_default = x.default is not x.empty and i not in needed
        if needed and not is_by_name and i < needed[0]:
            has_default = False
        stars = "*" * (x.kind is x.VAR_POSITIONAL) or "**" * (x.kind is x.VAR_KEYWORD)
        parameters.append(f"{stars}{x.name}: {annotation}{f' = {quoted(x.default)}' * has_default}")
        if x.kind is x.POSITIONAL_ONLY and x.POSITIONAL_ONLY not in passed[i + 1 :]:
            parameters.append("/")
    indent = "    " if own else ""
    return laid_out(f"{indent}@overload\n{indent}def {name}(", parameters, f") -> {result}: ...", indent)


def laid_out(head: str, items: list[str], tail: str, indent: str = "") -> str:
    """In one line, in three, or with a line for each, as ruff does."""
    whole = f"{head}{', '.join(items)}{tail}"
    if max(map(len, whole.splitlines())) <= WIDTH:
        return whole
    inner = f"{indent}    {', '.join(items)}"
    return listed(head, items, tail, indent) if len(inner) > WIDTH else f"{head}\n{inner}\n{indent}{tail}"


def record(name: str) -> str:
    """The class of a named tuple, with the other names of its fields."""
    own = getattr(smallmm, name)
    lines = [f"    {x}: {'_Result' if y is Any else shown(y)}" for x, y in own.__annotations__.items()]
    others = [x for x, y in vars(own).items() if isinstance(y, property)]
    lines += [f"    @property\n    def {x}(self) -> _Result: ..." for x in others]
    return f"class {name}(NamedTuple, Generic[_Result]):\n" + "\n".join(lines)


def function(name: str) -> str:
    """One that `fuse` made is an object with other methods."""
    if not isinstance(getattr(smallmm, name), Fused | Chosen):
        return "\n".join(overloads(name))
    base = type(getattr(smallmm, name)).__name__
    own = "\n".join(overloads(name, "self"))
    if base == "Fused":  # which has a call for each of its signatures
        base, own = "Fused[..., Any]", own.replace("@overload", "@overload  # type: ignore[override]", 1)
    return f"\nclass _{name}({base}):\n{own}\n\n{name}: _{name}\n"


def homes() -> dict[str, str]:
    """The module of each public name."""
    found: dict[str, str] = {}
    tree = ast.parse(STUB.with_suffix(".py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            found |= {x.name: node.module or "" for x in node.names}
    for module, names in vars(smallmm)["_LATER"].items():
        found |= dict.fromkeys(names, module)
        found |= {} if names else {module: ""}
    return found


def imports(names: list[str]) -> str:
    """Of public names that are not defined here, and of those of annotations."""
    homes_of = homes()
    found: dict[str, set[str]] = {}
    for name in names:
        x = getattr(smallmm, name)
        if is_of_arrays(name):
            module = homes_of[name.removesuffix("_ex")]
            words = set(re.findall(r"\b[A-Z]\w+\b", str(inspect.signature(x)))) - set(names) - KNOWN
            for word in words & vars(import_module(f"smallmm.{module}")).keys():
                found.setdefault(home_of_type(word), set()).add(word)
        elif not is_record(x) and name != "__version__":
            found.setdefault(homes_of[name], set()).add(name)
        if isinstance(x, Fused | Chosen):
            found.setdefault(type(x).__module__.removeprefix("smallmm."), set()).add(type(x).__name__)
    lines = (imported(module, sorted(x, key=order)) for module, x in sorted(found.items()) if x)
    return "\n".join(lines)


def home_of_type(name: str) -> str:
    """The module that defines what annotations name."""
    definition = re.compile(rf"^(class {name}\(|{name} = )", re.MULTILINE)
    modules = (x for key, x in sys.modules.items() if key.startswith("smallmm.") and hasattr(x, "__file__"))
    home = next(
        x for x in modules if str(x.__file__).endswith(".py") and definition.search(inspect.getsource(x))
    )
    return home.__name__.removeprefix("smallmm.")


def imported(module: str, names: list[str]) -> str:
    line = f"from .{module} import {', '.join(names)}"
    return line if len(line) <= WIDTH else listed(f"from .{module} import (", names, ")")


def listed(head: str, items: list[str], tail: str, indent: str = "") -> str:
    return "\n".join([head, *(f"{indent}    {x}," for x in items), indent + tail])


def order(name: str) -> tuple[bool, str]:
    """Classes first, as ruff sorts."""
    return not name[0].isupper(), name.lower()


def rendered() -> str:
    names = smallmm.__all__
    records = [record(x) for x in names if is_record(getattr(smallmm, x))]
    functions = [function(x) for x in names if is_of_arrays(x)]
    body = "\n\n".join(records) + "\n\n" + re.sub("\n\n+", "\n\n", "\n".join(functions)).strip()
    public = listed("__all__ = [", [f'"{x}"' for x in names], "]")
    return f"{HEADER}{imports(names)}\n\n{public}\n\n{TYPES}\n{body}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it is not up to date")
    if not parser.parse_args().check:
        STUB.write_text(rendered(), encoding="utf-8")
    elif rendered() != STUB.read_text(encoding="utf-8"):
        sys.exit(f"{STUB.relative_to(ROOT)} is not up to date: run python tools/stub.py")


if __name__ == "__main__":
    main()

"""Calls on groups: one for each combination of shapes."""

from collections.abc import Callable
from functools import partial
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._base.errors import shown
from .._base.shapes import Dimensions, core_dimensions, operand_dtypes
from .._libraries import is_group, on_device
from .arrays import call
from .calls import run
from .group_classes import Classes, OnHost

if TYPE_CHECKING:
    from .groups import Group

# Gufuncs of matrices that are not wide, which take one operand: those of wide ones
_OF_WIDE = {
    "qr_tall": "qr_complete",
    **{f"{x}_tall": f"{x}_wide" for x in ("lu_factor", "qr_r", "qr_raw", "svd", "svd_full", "svdvals")},
}


def call_of_groups(group: "Group", op: str, gufunc: Any, operands: dict[str, Any]) -> Any:
    """A call of smallmm on groups, for each combination of shapes: on the host one job of all
    these calls, on a device a launch each."""
    groups = {name: x for name, x in operands.items() if is_group(x)}
    inputs, outputs = core_dimensions(gufunc)
    _check(op, gufunc.__name__, operands, inputs, len(group))
    if not all(outputs):
        _check_members(op, operands, inputs)
    if gufunc.__name__ in _OF_WIDE and any(x.shape[-2] < x.shape[-1] for x in group._stacks):
        return _by_sides(group, op, gufunc, *operands)
    classes = group._classes_with(groups.values())
    count = len(classes.counts)
    on_host = not any(x._library is not OnHost if is_group(x) else on_device(x) for x in operands.values())
    stacks: list[Any] = []
    for x in operands.values():
        if is_group(x):
            stacks.append(x._in(classes))
        else:
            stacks.append(np.asarray(x) if on_host and x is not None and not isinstance(x, Number) else x)
    tried: Any = NotImplemented
    if on_host and isinstance(gufunc, np.ufunc):
        dtypes = {dtype for x in groups.values() for _, dtype in x._kinds}
        if len(dtypes.union(x.dtype for x in stacks if isinstance(x, np.ndarray))) > 1:
            stacks = _in_common_dtypes(gufunc, stacks, count)
        tried = _core.many(gufunc, classes.counts, *stacks)
    if tried is NotImplemented:
        tried = tuple([None] * count for _ in range(gufunc.nout)), list(range(count))
    results, left = tried
    compute = partial(run, op, gufunc.__name__) if isinstance(gufunc, np.ufunc) else _composed(op, gufunc)
    for number in left:
        ordered = {
            name: x[number] if type(x) is list else x for name, x in zip(operands, stacks, strict=True)
        }
        parts = compute(ordered, (None,) * gufunc.nout)
        _put(results, number, parts if gufunc.nout > 1 else (parts,), classes)
    answers = [
        group._results([x] if isinstance(x, np.ndarray) else x, len(dims), classes)
        for dims, x in zip(outputs, results, strict=True)
    ]
    return tuple(answers) if gufunc.nout > 1 else answers[0]


def _by_sides(group: "Group", op: str, gufunc: np.ufunc, name: str) -> Any:
    """A call on one group with tall and with wide members, whose kernels are not the same."""
    wide = np.array([x.shape[-2] < x.shape[-1] for x in group._stacks])
    twin = getattr(_core, _OF_WIDE[gufunc.__name__])
    results, members = [], []
    for its, which in ((gufunc, ~wide), (twin, wide)):
        if not which.any():
            continue
        own = group._classes
        chosen = which[own.number]  # members
        places = np.cumsum(chosen) - 1  # of each among the chosen ones
        stacks = [x for x, taken in zip(group._stacks, which, strict=True) if taken]
        order = places[own.members[which[own.number[own.members]]]]
        part = group._with(stacks, Classes(order, own.counts[which], group._library))
        answer = call_of_groups(part, op, its, {name: part})
        results.append(answer if its.nout > 1 else (answer,))
        members.append(np.flatnonzero(chosen))
    answers = [_merged(group, list(parts), members) for parts in zip(*results, strict=True)]
    return tuple(answers) if gufunc.nout > 1 else answers[0]


def _merged(like: "Group", parts: list[Any], members: list[np.ndarray]) -> Any:
    """One group, or one array of numbers, of those of some members each."""
    if not is_group(parts[0]):
        place = like._library.index(np.argsort(np.concatenate(members)))
        return like._library.take(like._library.concat(parts), place)
    order = np.concatenate([own[x._classes.members] for own, x in zip(members, parts, strict=True)])
    counts = np.concatenate([x._classes.counts for x in parts])
    return like._with([y for x in parts for y in x._stacks], Classes(order, counts, like._library))


def _composed(op: str, composition: Any) -> Callable[..., Any]:
    return lambda operands, outs: call(op, composition, operands, outs, {})


def run_fused(
    op: str, names: list[str], inputs: list[list[str]], parts: Callable[..., Any], arrays: tuple[Any, ...]
) -> tuple[Any, list[Any], Any]:
    """The plan, the results and info of a fused function of groups, and of arrays that serve all members:
    one call for each combination of shapes."""
    groups = [x for x in arrays if is_group(x)]
    operands = dict(zip(names, arrays, strict=False))
    _check(op, op, operands, inputs, len(groups[0]))  # type: ignore[arg-type]
    first = groups[0]
    classes = first._classes_with(groups[1:])
    count = len(classes.counts)
    columns = [x._in(classes) if is_group(x) else [x] * count for x in arrays]
    found = [parts(*row) for row in zip(*columns, strict=True)]
    if not found:  # of no members: a stack of none has the results
        found = [parts(*_no_members(arrays, inputs))]
    plan = max((plan for plan, *_ in found), key=lambda plan: sum(plan.columns))
    if plan.columns or not all(x.ndim for x in plan.results):
        _check_members(op, operands, inputs)  # type: ignore[arg-type]
    results = [
        first._results([results[i] for _, results, _ in found] if count else [], x.ndim, classes)
        for i, x in enumerate(plan.results)
    ]
    if not plan.columns:
        return plan, results, None
    info = [np.zeros((0, 1), np.int32)] if not count else [x for *_, x in found]
    return plan, results, first._library.take(first._library.concat(info), classes.index)


def _no_members(arrays: tuple[Any, ...], inputs: list[list[str]]) -> list[Any]:
    sizes: dict[str, int] = {}
    for x, dims in zip(arrays, inputs, strict=True):
        if not is_group(x):
            sizes |= dict(zip(dims, np.shape(x), strict=False))
    return [
        np.empty((0, *(int(d) if d.isdigit() else sizes.get(d, 1) for d in dims))) if is_group(x) else x
        for x, dims in zip(arrays, inputs, strict=True)
    ]


def _check(op: str, gufunc: str, operands: dict[str, Any], inputs: Dimensions, members: int) -> None:
    """Raise unless operands are groups of so many members, and arrays that serve all members."""
    first = next(name for name, x in operands.items() if is_group(x))
    for (name, x), dims in zip(operands.items(), inputs, strict=False):
        if not is_group(x):
            if x is not None and np.ndim(x) > len(dims):
                one = ("number", "vector", "matrix")[len(dims)]
                raise ValueError(
                    f"{op}: {name} is {shown(x)}; expected a group, or one {one} for all members"
                )
            continue
        if len(x) != members:
            raise ValueError(f"{op}: {name} is a group of {len(x)}; expected {members}, as {first}")
        may_lack = gufunc == "matmul" or any(dim.endswith("?") for dim in dims)
        if may_lack and any(ndim <= len(dims) for ndim, _ in x._kinds):
            raise ValueError(
                f"{op}: a group has vectors; expected matrices, a vector being one of one column"
            )
        if any(ndim <= len(dims) for ndim, _ in x._kinds):
            raise ValueError(f"{op}: a member of {name} has fewer than {len(dims)} dimensions")


def _check_members(op: str, operands: dict[str, Any], inputs: Dimensions) -> None:
    """Raise if a member is a stack: of it there are several numbers, or several info, instead of one."""
    for (name, x), dims in zip(operands.items(), inputs, strict=False):
        if is_group(x) and any(ndim > len(dims) + 1 for ndim, _ in x._kinds):
            raise ValueError(
                f"{op}: a member of {name} has more than {len(dims)} dimensions; expected no stacks, as "
                "there is one number, or one info, for each member"
            )


def _in_common_dtypes(gufunc: Any, operands: list[Any], count: int) -> list[Any]:
    """Operands, each a list of that many stacks or an array for all. Where floats and complex numbers of
    several dtypes meet, they are converted to those that NumPy would give the gufunc."""
    columns = [x if type(x) is list else [x] * count for x in operands]
    rows = [_in_common_dtype(gufunc, row) for row in zip(*columns, strict=True)]
    return [list(column) for column in zip(*rows, strict=True)]


def _in_common_dtype(gufunc: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    if not all(isinstance(x, np.ndarray) and x.dtype.kind in "fc" for x in arrays):
        return arrays
    dtypes = operand_dtypes(gufunc, {str(i): x for i, x in enumerate(arrays)})
    return tuple(x.astype(dtypes[str(i)], copy=False) for i, x in enumerate(arrays))


def _put(results: tuple[Any, ...], number: int, parts: tuple[Any, ...], classes: Classes) -> None:
    """Put the results of one stack among those of all. Numbers of all stacks are one array."""
    for x, part in zip(results, parts, strict=True):
        if isinstance(x, np.ndarray):
            first = classes.firsts[number]
            x[first : first + classes.counts[number]] = part
        else:
            x[number] = part

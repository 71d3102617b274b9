"""Series that no one pass takes: those of a `Group`, which differ in length, and those in chunks of Dask's
arrays. A function of series is called for each length, or will be for each chunk."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import LinAlgError
from .._base.shapes import NUMBERS
from .._calls.arrays import without_labels
from .._libraries import is_group
from .._libraries.dask import is_lazy, lazily

Timed = bool | tuple[Any, ...]


class Argument(NamedTuple):
    """An argument of a function of series: how many dimensions a series' own have, and whether time is the
    first of all."""

    given: Any
    core: int
    moves: bool


def arguments_of(moving: dict[str, Any], fixed: dict[str, Any], cores: dict[str, str]) -> dict[str, Argument]:
    """cores: the dimensions of a series' own, as "n,n"."""
    given = [(label, x, True) for label, x in moving.items()]
    given += [(label, x, False) for label, x in fixed.items()]
    return {
        label: Argument(x, len(cores[label].split(",")) if cores[label] else 0, moves)
        for label, x, moves in given
    }


def needs_parts(arrays: Iterable[Any]) -> bool:
    """Whether there are groups, or arrays of Dask."""
    return any(is_group(x) or is_lazy(x) for x in arrays)


def in_parts(
    name: str, function: Callable[..., Any], arguments: dict[str, Argument], timed: Timed, out: Any = None
) -> Any:
    """``function(**arguments)`` where some of the arrays need parts. timed: which results have time first, a
    tuple as the results are one; what it says of a tuple holds for each in it."""
    if out is not None:
        raise TypeError(f"{name}: out is given for a Group or an array of Dask; use the result instead")
    for label, x in arguments.items():
        stacks = x.given._stacks if is_group(x.given) else [x.given]
        for shape in (np.shape(y)[is_group(x.given) :] for y in stacks):
            if len(shape) < x.core + x.moves:
                raise ValueError(
                    f"{name}: {'a member of ' * is_group(x.given)}{label} has shape {shape}; expected "
                    f"{x.core + x.moves} dimensions or more{', time first' * x.moves}"
                )
    compute = _by_lengths if any(is_group(x.given) for x in arguments.values()) else _by_chunks
    return compute(name, function, arguments, timed)


def _mapped(function: Callable[..., Any], timed: Timed, *trees: Any) -> Any:
    """Results of the structure of these: of the arrays in one place ``function(has_time, *arrays)``; None
    where one is missing."""
    if any(x is None for x in trees):
        return None
    if not isinstance(trees[0], tuple):
        return function(bool(timed), *trees)
    own = [
        _mapped(function, timed[i] if isinstance(timed, tuple) else timed, *parts)
        for i, parts in enumerate(zip(*trees, strict=True))
    ]
    return type(trees[0])(*own) if hasattr(trees[0], "_fields") else tuple(own)


# --- groups -----------------------------------------------------------------------------------------------


def _by_lengths(name: str, function: Callable[..., Any], arguments: dict[str, Argument], timed: Timed) -> Any:
    groups = {label: x for label, x in arguments.items() if is_group(x.given)}
    first, leader = next((label, x.given) for label, x in groups.items())
    batch = _refuse_misfits(name, arguments, groups, first)
    classes = leader._classes_with(x.given for x in groups.values())
    library = leader._library
    stacks = {label: x.given._in(classes) for label, x in groups.items()}
    results, errors = [], {}
    for i, (start, count) in enumerate(zip(classes.firsts, classes.counts, strict=True)):
        index = library.index(classes.members[start : start + count])
        arrays = {}
        for label, x in arguments.items():
            if label in stacks:
                stack = stacks[label][i].swapaxes(0, 1) if x.moves else stacks[label][i]
                lacking = 1 + len(batch) - (stack.ndim - x.moves - x.core)
                arrays[label] = _with_dimensions(stack, 1 + x.moves, lacking)
            else:
                arrays[label] = _of_members(name, label, x, batch, len(leader), index, library)
        try:
            results.append(function(**arrays))
        except LinAlgError as error:
            if error._failed is None:  # it is not about series
                raise
            errors[i] = error
            results.append(error.result)
    joined = partial(_joined, leader, classes)
    answer = _mapped(joined, timed, *results)
    if errors:
        raise _error_of_all(name, errors, answer, classes, joined)
    return answer


def _refuse_misfits(
    name: str, arguments: dict[str, Argument], groups: dict[str, Argument], first: str
) -> tuple[int, ...]:
    """Raises unless groups have as many series each; the batch dimensions that all series have."""
    count = len(groups[first].given)
    if not count:
        raise ValueError(f"{name}: {first} is a group of no series")
    batches = {}
    for label, (x, core, moves) in groups.items():
        if len(x) != count:
            raise ValueError(f"{name}: {label} is a group of {len(x)}; expected {count}, as {first}")
        for stack in x._stacks:
            shape = tuple(stack.shape)[1:]
            batches[shape[moves : len(shape) - core]] = f"one of {label} has shape {shape}"
    longest = max(batches, key=len)
    for batch, words in batches.items():
        if batch and batch != longest:
            raise ValueError(
                f"{name}: {words}, {batches[longest]}; expected equal batch dimensions in all members"
            )
    return longest


def _of_members(
    name: str, label: str, x: Argument, batch: tuple[int, ...], series: int, index: Any, library: Any
) -> Any:
    """An array that is no group, of some of the series: its own, or what serves all."""
    array = without_labels(x.given)
    if type(array) in NUMBERS:
        return array
    array = array if hasattr(array, "ndim") else np.asarray(array)
    lacking = 1 + len(batch) - (array.ndim - x.core - x.moves)
    if lacking > 0:
        return _with_dimensions(array, 1, lacking) if x.moves else array
    count = array.shape[x.moves]
    if lacking < 0 or count not in (1, series):
        raise ValueError(
            f"{name}: {label} has shape {tuple(array.shape)}; expected a group, or what serves all or each "
            f"of {series} series"
        )
    own = library.take(array.swapaxes(0, 1) if x.moves else array, index) if count > 1 else array
    return own.swapaxes(0, 1) if x.moves and count > 1 else own


def _with_dimensions(x: Any, place: int, count: int) -> Any:
    """With so many more of length 1 before that one."""
    return x[(*(slice(None),) * place, *(None,) * count)] if count else x


def _joined(leader: Any, classes: Any, timed: bool, *parts: Any) -> Any:
    """A group of what has times, or of arrays of different shapes; else an array."""
    if timed:
        return leader._with([x.swapaxes(0, 1) for x in parts], classes)
    if len({tuple(x.shape)[1:] for x in parts}) > 1:
        return leader._with(list(parts), classes)
    if isinstance(parts[0], np.ndarray):  # of a device's series, too, info
        return np.concatenate(parts)[classes.firsts[classes.number] + classes.position]
    return leader._library.take(leader._library.concat(list(parts)), classes.index)


def _error_of_all(
    name: str, errors: dict[int, LinAlgError], answer: Any, classes: Any, joined: Callable[..., Any]
) -> LinAlgError:
    """One exception for those of several lengths."""
    shape = next(iter(errors.values())).info.shape[1:]

    def of_all(value: int, parts: dict[int, Any]) -> Any:
        wholes = [np.full((n, *shape), value, np.int32) for n in classes.counts]
        return joined(False, *(parts.get(i, whole) for i, whole in enumerate(wholes)))

    info = of_all(0, {i: x.info for i, x in errors.items()})
    time = of_all(-1, {i: x.time for i, x in errors.items()})
    bad = np.argwhere(info)
    first = tuple(bad[0].tolist())
    failures, columns = errors[classes.number[first[0]]]._failed
    one = failures.error(name, answer, columns[(classes.position[first[0]], *first[1:])])
    words = f"series {first[0] if len(first) == 1 else first} was the first of {len(bad)}"
    message = f"{one}; {words} of {info.size} that failed, at time {time[first]}"
    return LinAlgError(message, info, answer, one.step, time.astype(np.int64))


# --- Dask -------------------------------------------------------------------------------------------------


def _by_chunks(name: str, function: Callable[..., Any], arguments: dict[str, Argument], timed: Timed) -> Any:
    numbers = {label: x.given for label, x in arguments.items() if type(x.given) in NUMBERS}
    arrays = {
        label: x if is_lazy(x.given) else x._replace(given=np.asarray(x.given))
        for label, x in arguments.items()
        if label not in numbers
    }
    for label, x in arrays.items():
        if is_lazy(x.given) and x.moves:
            _refuse_parts_of_time(name, label, x.given)
    batches = {label: x.given.shape[x.moves : x.given.ndim - x.core] for label, x in arrays.items()}
    try:
        np.broadcast_shapes(*(x for x in batches.values() if all(n == n for n in x)))  # NaN: not known yet
    except ValueError:
        words = ", ".join(f"{label} has {x}" for label, x in batches.items())
        raise ValueError(f"{name}: batch dimensions do not broadcast: {words}") from None
    function = partial(function, **numbers)
    most = max(x.given.ndim - x.core - x.moves for x in arrays.values())
    outline = function(**{label: _of_no_series(x, most) for label, x in arrays.items()})
    leaves: list[tuple[bool, Any]] = []
    _mapped(lambda *leaf: leaves.append(leaf), timed, outline)
    cores = [x.ndim - 1 - most - own for own, x in leaves]
    sides = (
        [_dims("x", i, x.core, x.moves) for i, x in enumerate(arrays.values())],
        [_dims("y", i, core, own) for i, ((own, _), core) in enumerate(zip(leaves, cores, strict=True))],
    )
    sizes = {
        dim: x.shape[0] if dim.endswith("t") else x.shape[x.ndim - core + int(dim.rpartition("_")[2])]
        for dims, (_, x), core in zip(sides[1], leaves, cores, strict=True)
        for dim in dims
    }
    dtypes = [x.dtype for _, x in leaves]
    kinds = tuple((label, x.core, x.moves) for label, x in arrays.items())
    results = lazily(
        partial(_of_chunks, function, kinds, timed, tuple(cores)),
        "->".join(",".join(f"({','.join(dims)})" for dims in side) for side in sides),
        *(_time_behind(x.given, x.core) if x.moves else x.given for x in arrays.values()),
        dtypes=dtypes if len(leaves) > 1 else dtypes[0],
        output_sizes=sizes,
        labels=[f"{name}: {label}" for label in arrays],
    )  # fmt: skip
    rows = zip(results if len(leaves) > 1 else [results], cores, strict=True)

    def of_all(moves: bool, _: Any) -> Any:
        y, core = next(rows)
        return _time_first(y, core) if moves else y

    return _mapped(of_all, timed, outline)


def _dims(kind: str, i: int, core: int, moves: bool) -> list[str]:
    return [f"{kind}{i}t"] * moves + [f"{kind}{i}_{j}" for j in range(core)]


def _refuse_parts_of_time(name: str, label: str, array: Any) -> None:
    if len(array.chunks[0]) > 1:
        raise ValueError(
            f"{name}: {label} has chunks {array.chunks[0]} along time, its first dimension; expected one: "
            f"call {label}.rechunk({{0: -1}})"
        )
    if array.shape[0] != array.shape[0]:
        raise ValueError(
            f"{name}: {label} has shape {array.shape}, nan for a number of times that is not computed yet: "
            "call its compute_chunk_sizes()"
        )


def _of_no_series(x: Argument, batch: int) -> np.ndarray:
    """An array like x, with so many batch dimensions after one of length 0."""
    shape = tuple(x.given.shape)
    return np.zeros((*shape[: x.moves], 0, *[1] * batch, *shape[len(shape) - x.core :]), x.given.dtype)


def _time_behind(x: Any, core: int) -> Any:
    """With time among the dimensions of a series."""
    return _moved(x, 0, x.ndim - 1 - core)


def _time_first(x: Any, core: int) -> Any:
    return _moved(x, x.ndim - 1 - core, 0)


def _moved(x: Any, source: int, to: int) -> Any:
    axes = [d for d in range(x.ndim) if d != source]
    axes.insert(to, source)
    return x.transpose(axes)


def _of_chunks(
    function: Callable[..., Any],
    arguments: tuple[tuple[str, int, bool], ...],
    timed: Timed,
    cores: tuple[int, ...],
    *chunks: np.ndarray,
) -> Any:
    """The results for chunks of NumPy's arrays, in a row, as Dask has them."""
    given = zip(arguments, chunks, strict=True)
    found = function(**{label: _time_first(x, core) if moves else x for (label, core, moves), x in given})
    leaves: list[tuple[bool, Any]] = []
    _mapped(lambda *leaf: leaves.append(leaf), timed, found)
    rows = zip(leaves, cores, strict=True)
    results = [_time_behind(x, core) if own else x for (own, x), core in rows]
    return tuple(results) if len(results) > 1 else results[0]

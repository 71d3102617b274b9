"""Groups: matrices of different sizes, which products, factorizations and solves take."""

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from numbers import Number
from typing import Any

import numpy as np

from .. import _core
from .._base.catalog import public
from .._base.errors import is_supported, shown
from .._base.shapes import Dimensions, core_dimensions, dtype_of, operand_dtypes
from .._libraries import on_device
from .calls import conjugated, run


class _OnHost:
    """Of NumPy what `Device` has of a library for stacks. The class serves, and is itself after pickling."""

    concat = staticmethod(np.concatenate)

    @staticmethod
    def layout(x: np.ndarray) -> None:
        return None

    @staticmethod
    def index(places: np.ndarray) -> np.ndarray:
        return places

    @staticmethod
    def take(x: np.ndarray, index: np.ndarray) -> np.ndarray:
        return x[index]


_TAKEN = {x.name for x in map(np.dtype, np.typecodes["All"]) if is_supported(x, with_complex=True)}


@lru_cache(maxsize=64)
def _takes(dtype: np.dtype | str) -> bool:
    """Whether groups have such members."""
    return getattr(dtype, "name", dtype) in _TAKEN


class _Classes:
    """Which members lie in which stack: those of the first, in its order, then those of the next."""

    def __init__(self, members: np.ndarray, counts: np.ndarray, library: Any) -> None:
        self.members = members
        self.counts = counts  # of each stack
        self.firsts = np.cumsum(counts) - counts  # of each stack: the place of its first in `members`
        self.number, self.position = np.empty((2, len(members)), np.intp)  # of the stack of each member,
        self.number[members] = np.repeat(np.arange(len(counts)), counts)  # and of each member in its stack
        self.position[members] = np.arange(len(members)) - np.repeat(self.firsts, counts)
        # The place of each member in `members`; made now, for whoever waits for the stacks to find it, too
        self.index = library.index(self.firsts[self.number] + self.position)


class Group:
    """Matrices (or vectors) of different sizes, for one call of smallmm.

    Parameters
    ----------
    arrays : iterable of array_like
        One array for each member, on the host or all on one device. They are copied: members of one shape and
        dtype lie in one stack.

    Notes
    -----
    A call on groups is one job: threads share the matrices of all shapes. On a device it is one launch for
    each shape, in the order of the library's current stream. An argument that is no group serves all members.
    The result is a group in the same order, or an array where each member gives a number. These
    functions take groups: `matmul`, `matvec`, `vecmat`, `batched_matmul`, `solve`, `solve_triangular`, `inv`,
    `det`, `slogdet`, `lu_factor`, `lu_solve`, `cholesky`, `cho_solve`, `eigh`, `eigvalsh`, `expm`, and their
    ``_ex`` forms. ``group.mT`` are the transposes, ``group.conj()`` the complex conjugates.

    Examples
    --------
    >>> group = smallmm.Group([np.eye(2), 2 * np.eye(3)])
    >>> smallmm.det(group)
    array([1., 8.])
    >>> [x.shape for x in smallmm.inv(group)]
    [(2, 2), (3, 3)]
    """

    is_traced = False

    def __init__(self, arrays: Iterable[Any]) -> None:
        named = {f"arrays[{i}]": x for i, x in enumerate(arrays)}
        self._library: Any = _OnHost
        infos: dict[str, Any]  # what has the shape and the dtype of each
        if any(map(on_device, named.values())):
            from .._gpu.device import _same_device  # here: most groups need none of it

            infos, self._library = _same_device("Group", named)
        else:
            infos = named = {name: np.asarray(x) for name, x in named.items()}
        keys: dict[Any, list[int]] = {}
        for i, (name, x) in enumerate(infos.items()):
            places = keys.setdefault((x.shape, x.dtype, self._library.layout(named[name])), [])
            if not places and not _takes(x.dtype):
                raise TypeError(
                    f"Group: {name} has dtype {x.dtype}; expected float16, float32, float64, complex64, "
                    "complex128, an integer type or bool"
                )
            places.append(i)
        members = list(named.values())
        self._stacks = [self._library.concat([members[i][None] for i in places]) for places in keys.values()]
        order = np.array([i for places in keys.values() for i in places], np.intp)
        counts = np.array([len(x) for x in keys.values()], np.intp)
        self._classes = _Classes(order, counts, self._library)

    def __len__(self) -> int:
        return len(self._classes.members)

    def __getitem__(self, i: int) -> Any:
        return self._stacks[self._classes.number[i]][self._classes.position[i]]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Group of {len(self)} arrays of {len(self._stacks)} shapes>"

    @property
    def dtype(self) -> np.dtype:
        """The dtype that those of all members are converted to where they meet."""
        return np.result_type(*map(dtype_of, self._stacks), *[np.float64] * (not self._stacks))

    @property
    def common_shape(self) -> tuple[int, ...]:
        """That of a stack of all members; () if their shapes differ."""
        shapes = {(len(self), *x.shape[1:]) for x in self._stacks}
        return shapes.pop() if len(shapes) == 1 else ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """A stack of members of one shape; TypeError if they have several."""
        if self._stacks and not self.common_shape:
            raise TypeError(
                f"{self!r} is no array: its members have several shapes; call this function, which takes "
                "arrays, for each member"
            )
        if copy is False:
            raise ValueError(f"{self!r} becomes an array by a copy only")
        return np.array(list(self), dtype)

    @property
    def mT(self) -> "Group":
        """The group of the transposes, without a copy."""
        if any(x.ndim < 3 for x in self._stacks):
            raise ValueError("Group.mT: a member has fewer than 2 dimensions; expected matrices")
        return self._with([x.swapaxes(-1, -2) for x in self._stacks], self._classes)

    def conj(self) -> "Group":
        """The group of the complex conjugates; of real members, themselves."""
        return self._with([conjugated(x) for x in self._stacks], self._classes)

    def __matmul__(self, other: Any) -> Any:
        return public("matmul")(self, other)

    def _with(self, stacks: list[Any], classes: _Classes) -> "Group":
        group = object.__new__(Group)
        group._library, group._stacks, group._classes = self._library, stacks, classes
        return group

    @cached_property
    def _kinds(self) -> set[tuple[int, Any]]:
        """Dimensions and dtypes of stacks."""
        return {(x.ndim, x.dtype) for x in self._stacks}

    def _in(self, classes: _Classes) -> list[Any]:
        """Stacks of other classes, of which each has members of one stack.

        A stack is copied once, its members in the order of classes; stacks of these are then views.
        """
        own = self._classes
        if classes.number is own.number:
            return self._stacks
        order = classes.members[np.argsort(own.number[classes.members], kind="stable")]
        ends = np.cumsum(own.counts).tolist()
        library = self._library
        index = library.index(own.position[order])
        copies = [
            library.take(x, index[first:end])
            for x, first, end in zip(self._stacks, [0, *ends], ends, strict=False)
        ]
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        leaders = classes.members[classes.firsts]
        number = own.number[leaders]
        begin = place[leaders] - own.firsts[number]
        where = zip(number.tolist(), begin.tolist(), (begin + classes.counts).tolist(), strict=True)
        return [copies[i][first:end] for i, first, end in where]

    def take_call(self, op: str, gufunc: Any, operands: dict[str, Any]) -> Any:
        """A call of smallmm on this and others, for each combination of shapes: on the host one job of all
        these calls, on a device a launch each."""
        groups = {name: x for name, x in operands.items() if isinstance(x, Group)}
        if not isinstance(gufunc, np.ufunc):
            raise TypeError(f"{op}: {next(iter(groups))} is a Group, which this function does not take")
        inputs, outputs = core_dimensions(gufunc)
        _check(op, gufunc, operands, inputs, len(self))
        each = [x._classes for x in groups.values()]
        classes = self._classes
        alike = all(x is classes or np.array_equal(x.number, classes.number) for x in each)
        if not alike:
            classes = _common([x.number for x in each], self._library)
        count = len(classes.counts)
        on_host = not any(
            x._library is not _OnHost if isinstance(x, Group) else on_device(x) for x in operands.values()
        )
        stacks: list[Any] = []
        for x in operands.values():
            if isinstance(x, Group):
                stacks.append(x._stacks if alike else x._in(classes))
            else:
                stacks.append(np.asarray(x) if on_host and x is not None and not isinstance(x, Number) else x)
        tried: Any = NotImplemented
        if on_host:
            dtypes = {dtype for x in groups.values() for _, dtype in x._kinds}
            if len(dtypes.union(x.dtype for x in stacks if isinstance(x, np.ndarray))) > 1:
                stacks = _in_common_dtypes(gufunc, stacks, count)
            tried = _core.many(gufunc, classes.counts, *stacks)
        if tried is NotImplemented:
            tried = tuple([None] * count for _ in range(gufunc.nout)), list(range(count))
        results, left = tried
        for number in left:
            ordered = {
                name: x[number] if type(x) is list else x for name, x in zip(operands, stacks, strict=True)
            }
            parts = run(op, gufunc.__name__, ordered, (None,) * gufunc.nout)
            _put(results, number, parts if gufunc.nout > 1 else (parts,), classes)
        answers: list[Any] = []
        for dims, result in zip(outputs, results, strict=True):
            parts = [result] if isinstance(result, np.ndarray) else result
            if dims:
                answers.append(self._with(parts, classes))
            else:
                numbers = self._library.concat(parts) if parts else np.empty(0)
                answers.append(self._library.take(numbers, classes.index))
        return tuple(answers) if gufunc.nout > 1 else answers[0]


def _check(op: str, gufunc: Any, operands: dict[str, Any], inputs: Dimensions, members: int) -> None:
    """Raise unless operands are groups of so many members, and arrays that serve all members."""
    first = next(name for name, x in operands.items() if isinstance(x, Group))
    for (name, x), dims in zip(operands.items(), inputs, strict=False):
        if not isinstance(x, Group):
            if x is not None and np.ndim(x) > len(dims):
                one = ("number", "vector", "matrix")[len(dims)]
                raise ValueError(
                    f"{op}: {name} is {shown(x)}; expected a group, or one {one} for all members"
                )
            continue
        if len(x) != members:
            raise ValueError(f"{op}: {name} is a group of {len(x)}; expected {members}, as {first}")
        may_lack = gufunc.__name__ == "matmul" or any(dim.endswith("?") for dim in dims)
        if may_lack and any(ndim <= len(dims) for ndim, _ in x._kinds):
            raise ValueError(
                f"{op}: a group has vectors; expected matrices, a vector being one of one column"
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


def _put(results: tuple[Any, ...], number: int, parts: tuple[Any, ...], classes: _Classes) -> None:
    """Put the results of one stack among those of all. Numbers of all stacks are one array."""
    for x, part in zip(results, parts, strict=True):
        if isinstance(x, np.ndarray):
            first = classes.firsts[number]
            x[first : first + classes.counts[number]] = part
        else:
            x[number] = part


def _common(numbers: list[np.ndarray], library: Any) -> _Classes:
    """The members for which all of these numbers are the same, for each combination that occurs."""
    combined = numbers[0]
    for x in numbers[1:]:
        combined = np.unique(combined * (x.max(initial=0) + 1) + x, return_inverse=True)[1]
    order = np.argsort(combined, kind="stable")
    return _Classes(order, np.bincount(combined[order]), library)

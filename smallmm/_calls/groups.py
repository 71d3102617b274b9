"""Groups: matrices of different sizes, which products, factorizations and solves take."""

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from numbers import Number
from typing import Any

import numpy as np

from .._base.catalog import public
from .._base.errors import is_supported, shown
from .._base.shapes import dtype_of
from .._libraries import library_of, on_device
from .arrays import as_numpy, without_labels
from .calls import conjugated
from .group_calls import call_of_groups
from .group_classes import Classes, OnHost, common

_SUPPORTED = {x.name for x in map(np.dtype, np.typecodes["All"]) if is_supported(x, with_complex=True)}


@lru_cache(maxsize=64)
def _takes(dtype: np.dtype | str) -> bool:
    """Whether groups have such members."""
    return getattr(dtype, "name", dtype) in _SUPPORTED


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
    The result is a group in the same order, or an array where each member gives a number. Groups are taken
    by products, systems, factorizations, `lstsq`, determinants, spectra, `pinv`, `polar`, their ``_ex``
    forms, by every fused function, as `cov`, `whiten`, `ridge` and `kalman_step`, and as series of different
    lengths by `scan` and what is built on it.

    ``group.mT`` are the transposes, ``group.conj()`` the complex conjugates. ``+ - * /`` and ``-group`` work
    element by element, with another group, a number, or an array that serves all members. ``np.asarray``
    makes a stack of a group whose members have one shape.

    Examples
    --------
    >>> group = smallmm.Group([np.eye(2), 2 * np.eye(3)])
    >>> smallmm.det(group)
    array([1., 8.])
    >>> [x.shape for x in smallmm.inv(group)]
    [(2, 2), (3, 3)]
    """

    is_traced = False
    __array_ufunc__ = None  # so that NumPy leaves operators of its arrays and of groups to groups
    keys: Any = None

    def __init__(self, arrays: Iterable[Any]) -> None:
        named = {f"arrays[{i}]": x for i, x in enumerate(arrays)}
        self._library: Any = OnHost
        infos: dict[str, Any]  # what has the shape and the dtype of each
        if any(map(on_device, named.values())):
            from .._gpu.device import same_device  # here: most groups need none of it

            infos, self._library = same_device("Group", named)
        else:
            infos = named = {
                name: x if type(x) is np.ndarray else as_numpy("Group", name, without_labels(x))
                for name, x in named.items()
            }
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
        self._classes = Classes(order, counts, self._library)

    @classmethod
    def from_frame(cls, frame: Any, by: Any, columns: Any = None) -> "Group":
        """The rows of a data frame that have one key, as a member for each key.

        Parameters
        ----------
        frame : DataFrame of pandas or polars, or Table of pyarrow
            Missing values become NaN. Rows with a missing key are left out.
        by : column name, or list of them
            The columns whose values are the keys. Of pandas also what else its ``groupby`` takes.
        columns : column name, or list of them, optional
            A list: members are matrices of these columns. A name: members are vectors. None: all columns
            that are not in `by`.

        Returns
        -------
        Group
            In the order of the keys. Its ``keys``, and those of groups that are computed of it, are an Index
            of pandas, or a frame of the other libraries with the columns `by`.

        Raises
        ------
        TypeError
            `frame` is something else; a column has no numbers.
        KeyError, or the library's own error
            There is no such column.

        Notes
        -----
        Rows are sorted once, by the library, and copied once; no step takes time for each group.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"id": ["b", "a", "b"], "x": [1.0, 2.0, 3.0], "y": [0.0, 5.0, 1.0]})
        >>> group = smallmm.Group.from_frame(frame, by="id", columns=["x", "y"])
        >>> group.keys.tolist(), group[1].tolist()
        (['a', 'b'], [[1.0, 0.0], [3.0, 1.0]])
        """
        library = library_of(frame)
        keys, rows, counts = library.grouped(frame, by)
        values = library.columns(frame, by, columns)[rows]
        firsts = np.cumsum(counts) - counts
        sizes, number = np.unique(counts, return_inverse=True)
        order = np.argsort(number, kind="stable")
        group: Group = object.__new__(cls)
        group._library, group.keys = OnHost, keys
        group._classes = Classes(order, np.bincount(number), OnHost)
        group._stacks = [
            values[firsts[number == i][:, None] + np.arange(size)] for i, size in enumerate(sizes.tolist())
        ]
        return group

    def to_frame(self, columns: Any = None) -> Any:
        """The members as a frame of the library of `keys`: a row for each row of a matrix, or for each
        vector, with the member's key.

        Parameters
        ----------
        columns : list of column names, optional
            One for each element of a row.

        Raises
        ------
        TypeError
            The group has no keys, as one that was not made of a frame.
        ValueError
            Rows differ in length, or not as many names are given.
        """
        if self.keys is None:
            raise TypeError("Group.to_frame: the group has no keys; expected one of Group.from_frame")
        members = [x[None] if x.ndim == 1 else x for x in map(np.asarray, self)]
        values = np.concatenate(members) if members else np.empty((0, len(columns or ())))
        counts = np.array([len(x) for x in members], np.intp)
        return library_of(self.keys).framed(self.keys, counts, values, columns)

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
    def shape_for_kernels(self) -> tuple[int, ...]:
        """That of a stack whose kernels take all members, or all that are not wide: for the others a call
        takes those of wide ones."""
        is_square = all(x.ndim < 3 or x.shape[-2] == x.shape[-1] for x in self._stacks)
        return self.common_shape or ((1, 1, 1) if is_square else (1, 2, 1))

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

    def __rmatmul__(self, other: Any) -> Any:
        return public("matmul")(other, self)

    def __add__(self, other: Any) -> "Group":
        return self._elementwise("+", operator.add, other)

    def __radd__(self, other: Any) -> "Group":
        return self._elementwise("+", operator.add, other, reflected=True)

    def __sub__(self, other: Any) -> "Group":
        return self._elementwise("-", operator.sub, other)

    def __rsub__(self, other: Any) -> "Group":
        return self._elementwise("-", operator.sub, other, reflected=True)

    def __mul__(self, other: Any) -> "Group":
        return self._elementwise("*", operator.mul, other)

    def __rmul__(self, other: Any) -> "Group":
        return self._elementwise("*", operator.mul, other, reflected=True)

    def __truediv__(self, other: Any) -> "Group":
        return self._elementwise("/", operator.truediv, other)

    def __rtruediv__(self, other: Any) -> "Group":
        return self._elementwise("/", operator.truediv, other, reflected=True)

    def __neg__(self) -> "Group":
        return self.each(lambda x, ndim: -x)

    def each(self, function: Callable[[Any, int], Any]) -> "Group":
        """The group of what a function makes of each stack, given its members' dimensions."""
        return self._with([function(x, x.ndim - 1) for x in self._stacks], self._classes)

    def _elementwise(
        self, symbol: str, function: Callable[[Any, Any], Any], other: Any, reflected: bool = False
    ) -> Any:
        """function(x, y) of members x and those of another group, or what serves all members; reflected: of
        y and x."""

        def of_members(x: Any, y: Any) -> Any:
            return _of_members(symbol, function, *((y, x) if reflected else (x, y)))

        if isinstance(other, Group):
            if len(other) != len(self):
                raise ValueError(f"Group {symbol} Group: of {len(self)} and {len(other)} members")
            classes = self._classes_with([other])
            pairs = zip(self._in(classes), other._in(classes), strict=True)
            return self._with([of_members(x, y) for x, y in pairs], classes)
        if not hasattr(other, "dtype") and not isinstance(other, Number):
            return NotImplemented
        ndim = np.ndim(other)
        for x in self._stacks:
            if ndim >= x.ndim:
                raise ValueError(
                    f"Group {symbol} {shown(other)}: expected a group, a number, or one array for all "
                    f"members, of at most {x.ndim - 1} dimensions"
                )
        return self.each(lambda x, _: of_members(x, other[None] if ndim else other))

    def _classes_with(self, groups: Iterable["Group"]) -> Classes:
        """This group's classes, or those of all these groups together, where they differ."""
        each = [self._classes, *(x._classes for x in groups)]
        if all(x is each[0] or np.array_equal(x.number, each[0].number) for x in each):
            return each[0]
        return common([x.number for x in each], self._library)

    def _with(self, stacks: list[Any], classes: Classes) -> "Group":
        group = object.__new__(Group)
        group._library, group._stacks, group._classes = self._library, stacks, classes
        group.keys = self.keys
        return group

    def _results(self, parts: list[Any], dims: int, classes: Classes) -> Any:
        """A group of stacks, or an array of one number for each member, which has so many dimensions."""
        if dims:
            return self._with(parts, classes)
        numbers = self._library.concat(parts) if parts else np.empty(0)
        return self._library.take(numbers, classes.index)

    @property
    def min_dims(self) -> int:
        """The fewest dimensions that a member has."""
        return min((ndim - 1 for ndim, _ in self._kinds), default=2)

    def take_call(self, op: str, gufunc: Any, operands: dict[str, Any]) -> Any:
        """What a call of smallmm on this and others becomes."""
        return call_of_groups(self, op, gufunc, operands)

    @cached_property
    def _kinds(self) -> set[tuple[int, Any]]:
        """Dimensions and dtypes of stacks."""
        return {(x.ndim, x.dtype) for x in self._stacks}

    def _in(self, classes: Classes) -> list[Any]:
        """Stacks of other classes, each with members of one stack.

        A stack is copied once, its members in the order of classes; stacks of these are then views.
        """
        own = self._classes
        if classes is own or np.array_equal(classes.number, own.number):
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


def _of_members(symbol: str, function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """function(x, y) of two stacks, whose members broadcast, or of a stack and a number."""
    most = max(np.ndim(x), np.ndim(y))
    spread = [
        z[(slice(None), *(None,) * (most - np.ndim(z)))] if 0 < np.ndim(z) < most else z for z in (x, y)
    ]
    try:
        return function(*spread)
    except (TypeError, ValueError, RuntimeError) as error:
        shapes = " and ".join(str(tuple(np.shape(z))[1:]) for z in (x, y))
        raise type(error)(f"Group {symbol}: members of shapes {shapes}: {error}") from None

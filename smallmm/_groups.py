"""Groups: matrices of different sizes, which products, factorizations and solves take."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from . import _core
from ._arrays import call
from ._errors import shown
from ._shapes import core_dimensions


class Group:
    """Matrices (or vectors) of different sizes, for one call of smallmm.

    Parameters
    ----------
    arrays : iterable of array_like
        One array for each member. They are copied: members of one shape and dtype lie in one stack.

    Notes
    -----
    A call on groups is one job: threads share the matrices of all shapes. An argument that is no group serves
    all members. The result is a group in the same order, or an array where each member gives a number. These
    functions take groups: `matmul`, `matvec`, `vecmat`, `batched_matmul`, `solve`, `solve_triangular`, `inv`,
    `det`, `slogdet`, `cholesky`, `cho_solve`, `eigh`, `eigvalsh`, and their ``_ex`` forms.

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
        members = [np.asarray(x) for x in arrays]
        for i, x in enumerate(members):
            if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
                raise TypeError(
                    f"Group: arrays[{i}] has dtype {x.dtype}; expected float32, float64 or integers"
                )
        keys: dict[Any, list[int]] = {}
        for i, x in enumerate(members):
            keys.setdefault((x.shape, x.dtype), []).append(i)
        self._stacks = [np.stack([members[i] for i in indices]) for indices in keys.values()]
        self._members = [np.asarray(indices) for indices in keys.values()]  # of each stack, in its order
        self._places = _places_of(self._members, len(members))

    def __len__(self) -> int:
        return self._places.shape[1]

    def __getitem__(self, i: int) -> np.ndarray:
        stack, position = self._places[:, i]
        return self._stacks[stack][position]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Group of {len(self)} arrays of {len(self._stacks)} shapes>"

    @property
    def mT(self) -> "Group":
        """The group of the transposes, without a copy."""
        return self._with([x.swapaxes(-1, -2) for x in self._stacks], self._members, self._places)

    def __matmul__(self, other: Any) -> Any:
        from ._products import matmul

        return matmul(self, other)  # type: ignore[arg-type]  # ArrayLike is NumPy's

    @staticmethod
    def _with(stacks: list[np.ndarray], members: list[np.ndarray], places: np.ndarray) -> "Group":
        group = object.__new__(Group)
        group._stacks, group._members, group._places = stacks, members, places
        return group

    def _some(self, indices: np.ndarray) -> np.ndarray:
        """Members of one stack, in ascending order; all of them without a copy."""
        stack = self._stacks[self._places[0, indices[0]]]
        return stack if len(indices) == len(stack) else stack[self._places[1, indices]]

    def take_call(self, op: str, gufunc: Any, operands: dict[str, Any]) -> Any:
        """A call of smallmm on this and others: one job, of a call for each combination of shapes."""
        groups = {name: x for name, x in operands.items() if isinstance(x, Group)}
        for name, x in groups.items():
            if len(x) != len(self):
                first = next(iter(groups))
                raise ValueError(f"{op}: {name} is a group of {len(x)}; expected {len(self)}, as {first}")
        others = {name: x for name, x in operands.items() if name not in groups}
        for name, dims in zip(operands, core_dimensions(gufunc)[0], strict=False):
            x = others.get(name)
            if x is not None and np.ndim(x) > len(dims):
                one = ("number", "vector", "matrix")[len(dims)]
                raise ValueError(
                    f"{op}: {name} is {shown(x)}; expected a group, or one {one} for all members"
                )
        members, places = self._members, self._places
        alike = all(x._places is places or (x._places[0] == places[0]).all() for x in groups.values())
        if not alike:
            members = _classes([x._places[0] for x in groups.values()])
            places = _places_of(members, len(self))
        given: dict[str, Any] = dict(others)
        for name, x in groups.items():
            given[name] = x._stacks if alike else [x._some(indices) for indices in members]
        vectors = gufunc.__name__ == "matmul" or "?" in gufunc.signature
        if vectors and any(x.ndim == 2 for name in groups for x in given[name]):
            raise ValueError(
                f"{op}: a group has vectors; expected matrices, a vector being one of one column"
            )
        stacks = _in_common_dtypes([given[name] for name in operands], len(members))
        tried = _core.many(gufunc, members, *stacks)
        if tried is NotImplemented:
            tried = tuple([None] * len(members) for _ in range(gufunc.nout)), list(range(len(members)))
        results, left = tried
        for number in left:
            ordered = {
                name: x[number] if type(x) is list else x for name, x in zip(operands, stacks, strict=True)
            }
            parts = call(op, gufunc, ordered, None if gufunc.nout == 1 else (), {})
            _put(results, number, parts if gufunc.nout > 1 else (parts,), members)
        answers: list[Any] = []
        for dims, result in zip(core_dimensions(gufunc)[1], results, strict=True):
            parts = [result] if isinstance(result, np.ndarray) else result
            if dims:
                answers.append(self._with(parts, members, places))
                continue
            numbers = np.empty(len(self), np.result_type(*parts) if parts else float)
            if parts:
                numbers[np.concatenate(members)] = np.concatenate(parts)
            answers.append(numbers)
        return tuple(answers) if gufunc.nout > 1 else answers[0]


def _in_common_dtypes(operands: list[Any], count: int) -> list[Any]:
    """Operands, each a list of that many stacks or an array for all. Where floats of several dtypes meet,
    they are converted to the one that NumPy would compute in."""
    operands = [x if type(x) is list or x is None else np.asarray(x) for x in operands]
    dtypes = {y.dtype.str for x in operands if x is not None for y in (x if type(x) is list else (x,))}
    if len(dtypes) < 2:
        return operands
    columns = [x if type(x) is list else [x] * count for x in operands]
    rows = [_in_common_dtype(row) for row in zip(*columns, strict=True)]
    return [list(column) for column in zip(*rows, strict=True)]


def _in_common_dtype(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    if any(x is None or x.dtype.kind != "f" for x in arrays):
        return arrays
    common = np.result_type(*arrays)
    return tuple(x.astype(common, copy=False) for x in arrays)


def _put(results: tuple[Any, ...], number: int, parts: tuple[Any, ...], members: list[np.ndarray]) -> None:
    """Put the results of one stack among those of all. Numbers of all stacks are one array."""
    for x, part in zip(results, parts, strict=True):
        if isinstance(x, np.ndarray):
            first = sum(map(len, members[:number]))
            x[first : first + len(members[number])] = part
        else:
            x[number] = part


def _classes(numbers: list[np.ndarray]) -> list[np.ndarray]:
    """The members for which all of these numbers are the same, for each combination that occurs."""
    combined = numbers[0]
    for x in numbers[1:]:
        combined = np.unique(combined * (x.max(initial=0) + 1) + x, return_inverse=True)[1]
    order = np.argsort(combined, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(combined[order])) + 1) if len(order) else []


def _places_of(members: list[np.ndarray], count: int) -> np.ndarray:
    """The number of the stack of each member, and its position in it."""
    places = np.empty((2, count), np.intp)
    for number, indices in enumerate(members):
        places[0, indices] = number
        places[1, indices] = np.arange(len(indices))
    return places

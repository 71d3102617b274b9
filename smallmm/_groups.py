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
    A call on groups is one call for each combination of shapes. An argument that is no group serves all
    members. The result is a group in the same order, or an array where each member gives a number. These
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
        """A call of smallmm on this and others: one for each combination of shapes."""
        groups = {name: x for name, x in operands.items() if isinstance(x, Group)}
        for name, x in groups.items():
            if len(x) != len(self):
                first = next(iter(groups))
                raise ValueError(f"{op}: {name} is a group of {len(x)}; expected {len(self)}, as {first}")
        others = {name: x for name, x in operands.items() if name not in groups}
        for name, x in others.items():
            if x is not None and np.ndim(x) > 2:
                raise ValueError(
                    f"{op}: {name} is {shown(x)}; expected a group, or one matrix for all members"
                )
        members, places = self._members, self._places
        alike = all(x._places is places or (x._places[0] == places[0]).all() for x in groups.values())
        if not alike:
            members = _classes([x._places[0] for x in groups.values()])
            places = _places_of(members, len(self))
        direct = _core.direct[gufunc.__name__]
        parts = []
        for number, indices in enumerate(members):
            if alike:
                given = {name: x._stacks[number] for name, x in groups.items()}
            else:
                given = {name: x._some(indices) for name, x in groups.items()}
            vectors = gufunc.__name__ == "matmul" or "?" in gufunc.signature
            if vectors and any(x.ndim == 2 for x in given.values()):
                raise ValueError(
                    f"{op}: a group has vectors; expected matrices, a vector being one of one column"
                )
            ordered = {name: given.get(name, others.get(name)) for name in operands}
            results = direct(*ordered.values(), *(None,) * gufunc.nout)
            if results is NotImplemented:
                results = call(op, gufunc, ordered, None if gufunc.nout == 1 else (), {})
            results = results if gufunc.nout > 1 else (results,)
            # The direct path gives None for an info that is 0 everywhere.
            parts.append([np.zeros(len(indices), np.int32) if x is None else x for x in results])
        answers: list[Any] = []
        for o, dims in enumerate(core_dimensions(gufunc)[1]):
            stacks = [part[o] for part in parts]
            if dims:
                answers.append(self._with(stacks, members, places))
                continue
            numbers = np.empty(len(self), np.result_type(*stacks) if stacks else float)
            for indices, part in zip(members, stacks, strict=True):
                numbers[indices] = part
            answers.append(numbers)
        return tuple(answers) if gufunc.nout > 1 else answers[0]


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

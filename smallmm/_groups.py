"""Groups: matrices of different sizes, which products, factorizations and solves take."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

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
        self._places: list[tuple[int, int]] = [(0, 0)] * len(members)
        self._stacks = []
        for number, indices in enumerate(keys.values()):
            self._stacks.append(np.stack([members[i] for i in indices]))
            for position, i in enumerate(indices):
                self._places[i] = number, position

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: int) -> np.ndarray:
        stack, position = self._places[i]
        return self._stacks[stack][position]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Group of {len(self)} arrays of {len(self._stacks)} shapes>"

    @property
    def mT(self) -> "Group":
        """The group of the transposes, without a copy."""
        return self._with([x.swapaxes(-1, -2) for x in self._stacks])

    def __matmul__(self, other: Any) -> Any:
        from ._products import matmul

        return matmul(self, other)  # type: ignore[arg-type]  # ArrayLike is NumPy's

    def _with(self, stacks: list[np.ndarray]) -> "Group":
        other = object.__new__(Group)
        other._places = self._places
        other._stacks = stacks
        return other

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
        classes: dict[Any, list[int]] = {}
        for i in range(len(self)):
            classes.setdefault(tuple(x._places[i][0] for x in groups.values()), []).append(i)
        parts = []
        for key, indices in classes.items():
            given = {
                name: _at(x._stacks[number], [x._places[i][1] for i in indices])
                for (name, x), number in zip(groups.items(), key, strict=True)
            }
            vectors = gufunc.__name__ == "matmul" or "?" in gufunc.signature
            if vectors and any(x.ndim == 2 for x in given.values()):
                raise ValueError(
                    f"{op}: a group has vectors; expected matrices, a vector being one of one column"
                )
            ordered = {name: given.get(name, others.get(name)) for name in operands}
            results = call(op, gufunc, ordered, None if gufunc.nout == 1 else (), {})
            parts.append(results if gufunc.nout > 1 else (results,))
        return self._gathered(gufunc, list(classes.values()), parts)

    def _gathered(self, gufunc: Any, classes: list[list[int]], parts: list[Any]) -> Any:
        _, outputs = core_dimensions(gufunc)
        places = [(0, 0)] * len(self)
        for number, indices in enumerate(classes):
            for position, i in enumerate(indices):
                places[i] = number, position
        answers: list[Any] = []
        for o, dims in enumerate(outputs):
            group = self._with([part[o] for part in parts])
            group._places = places
            answers.append(group if dims else np.array([group[i] for i in range(len(self))]))
        return tuple(answers) if gufunc.nout > 1 else answers[0]


def _at(stack: np.ndarray, positions: list[int]) -> np.ndarray:
    return stack if positions == list(range(len(stack))) else stack[positions]

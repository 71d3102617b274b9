"""The arguments of a fused function: what its signature says of them, and the arrays made of them."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.errors import shown
from .._base.shapes import NUMBERS, broadcast_shapes, dtype_of
from .._calls.arrays import as_numpy, without_labels
from .._libraries import is_group
from .._libraries.dask import is_lazy
from .._libraries.dlpack import refuse_without_ml_dtypes
from .dtypes import BOOL, SUPPORTED, is_supported, together, weak_promotion


class BatchedFunction:
    """A function of one matrix, vector or number of each stack, with a signature."""

    def __init__(self, function: Callable[..., Any], signature: str | None) -> None:
        self.function = function
        self.signature = signature
        self._name = getattr(function, "__name__", "function")
        names = [
            name
            for name, x in inspect.signature(function).parameters.items()
            if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD) and x.default is x.empty
        ]
        if signature is None:
            self._inputs: list[list[str]] = [[] for _ in names]
            self._outputs: list[list[str]] | None = None
        else:
            self._inputs, self._outputs = _parsed(self._name, signature)
        self._names = [*names, *(f"argument {i}" for i in range(len(names), len(self._inputs)))]
        if len(self._inputs) != len(names) and not any(
            x.kind is x.VAR_POSITIONAL for x in inspect.signature(function).parameters.values()
        ):
            raise ValueError(
                f"fuse: signature {signature!r} has {len(self._inputs)} operands; {self._name} has "
                f"{len(names)}"
            )

    def speak_as(self, name: str) -> None:
        """Have messages speak of the public function that calls this one."""
        self._name = name

    def _operands(self, arrays: tuple[Any, ...]) -> list[Any]:
        """The arguments as arrays, with dtypes that are fused."""
        if len(arrays) != len(self._inputs):
            raise TypeError(f"{self._name} takes {len(self._inputs)} arrays; {len(arrays)} were given")
        operands = []
        for name, given in zip(self._names, arrays, strict=True):
            if is_group(given):
                raise TypeError(f"{self._name}: {name} is {given!r}; expected an array, as its members are")
            x = without_labels(given)
            if not hasattr(x, "dtype") or isinstance(x, np.generic):
                try:
                    x = np.asarray(x)
                except Exception as error:
                    raise ValueError(
                        f"{self._name}: {name} is {shown(given)} that NumPy cannot make an array of: {error}"
                    ) from None
            if isinstance(x, np.ndarray):
                x = as_numpy(self._name, name, x)
            if isinstance(x, np.ndarray) or is_lazy(x):
                x = self._converted(name, x)
            elif str(x.dtype).endswith("bfloat16"):
                refuse_without_ml_dtypes(self._name, name)
            operands.append(x)
        return self._with_numbers(arrays, operands)

    def _with_numbers(self, arrays: tuple[Any, ...], operands: list[Any]) -> list[Any]:
        """Numbers of Python follow the dtype of the arrays."""
        if not any(type(x) in NUMBERS for x in arrays):
            return operands
        strong = [x for given, x in zip(arrays, operands, strict=True) if type(given) not in NUMBERS]
        dtypes = [y for y in map(dtype_of, strong) if y != BOOL]
        if not dtypes:
            return operands
        common = together(self._name, dtypes)
        return [
            np.asarray(given, weak_promotion(common, type(given))) if type(given) in NUMBERS else x
            for given, x in zip(arrays, operands, strict=True)
        ]

    def _converted(self, name: str, x: Any) -> Any:
        """An array of NumPy or Dask, in the processor's order of bytes."""
        if not is_supported(x.dtype.newbyteorder("=")):
            raise TypeError(f"{self._name}: {name} has dtype {x.dtype}; expected {SUPPORTED}")
        return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))

    def _batch(self, operands: list[Any]) -> tuple[int, ...]:
        sizes: dict[str, int] = {}
        stacks = []
        for name, x, dims in zip(self._names, operands, self._inputs, strict=True):
            if x.ndim < len(dims):
                raise ValueError(
                    f"{self._name}: {name} has shape {tuple(x.shape)}; expected at least {len(dims)} "
                    f"dimension{'s' if len(dims) > 1 else ''}, {words(dims)}"
                )
            core = tuple(x.shape)[x.ndim - len(dims) :]
            for dim, size in zip(dims, core, strict=True):
                expected = int(dim) if dim.isdigit() else sizes.setdefault(dim, size)
                if expected != size:
                    known = [str(sizes.get(d, d)) for d in dims]
                    raise ValueError(
                        f"{self._name}: {name} has shape {tuple(x.shape)}; expected "
                        f"(..., {', '.join(known)}) "
                        f"for {words(dims)}"
                    )
            stacks.append(tuple(x.shape)[: x.ndim - len(dims)])
        try:
            return broadcast_shapes(*stacks)
        except ValueError:
            raise ValueError(
                f"{self._name}: batch dimensions {', '.join(map(str, stacks))} of "
                f"{', '.join(self._names)} do not broadcast"
            ) from None

    def _check_outputs(self, results: list[Any], cores: Any) -> None:
        assert self._outputs is not None
        if len(results) != len(self._outputs):
            raise ValueError(
                f"{self._name} returns {len(results)} arrays; its signature {self.signature!r} has "
                f"{len(self._outputs)}"
            )
        sizes = {
            dim: size
            for (_, shape, _), dims in zip(cores, self._inputs, strict=True)
            for dim, size in zip(dims, shape, strict=True)
        }
        for i, (x, dims) in enumerate(zip(results, self._outputs, strict=True)):
            expected = tuple(int(d) if d.isdigit() else sizes.get(d, -1) for d in dims)
            if len(expected) != x.ndim or any(
                a not in (b, -1) for a, b in zip(expected, x.shape, strict=True)
            ):
                raise ValueError(
                    f"{self._name}: result {i} has shape {x.shape}; its signature {self.signature!r} says "
                    f"{words(dims)}"
                )


def _parsed(name: str, signature: Any) -> tuple[list[list[str]], list[list[str]] | None]:
    dims = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
    side = rf"{dims}(?:\s*,\s*{dims})*"
    if not isinstance(signature, str) or not re.fullmatch(rf"\s*{side}\s*(?:->\s*{side}\s*)?", signature):
        raise ValueError(f"fuse: signature of {name} is {shown(signature)}; expected '(n,n),(n)->(n)', say")
    sides = [
        [
            [d.strip() for d in core.split(",")] if core.strip() else []
            for core in re.findall(r"\((.*?)\)", part)
        ]
        for part in signature.split("->")
    ]
    return sides[0], sides[1] if len(sides) > 1 else None


def words(dims: list[str]) -> str:
    return f"(..., {', '.join(dims)})" if dims else "(...)"

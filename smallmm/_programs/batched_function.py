"""The arguments of a fused function: what its signature says of them, and the arrays made of them."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.errors import no_array, shown
from .._base.shapes import NUMBERS, broadcast_shapes, dtype_of
from .._calls.arrays import as_numpy, without_labels
from .._libraries import is_group, library_of, type_name
from .._libraries.base import overrides_ufuncs
from .._libraries.dask import is_lazy
from .._libraries.dlpack import refuse_without_ml_dtypes
from .._libraries.numpy import NumPy
from .dtypes import BOOL, SUPPORTED, is_supported, result_dtype, weak_promotion


class BatchedFunction:
    """A function of one matrix, vector or number of each stack, with a signature."""

    def __init__(self, function: Callable[..., Any], signature: str | None) -> None:
        self.function = function
        self.signature = signature
        self._name = getattr(function, "__name__", "function")
        parameters = inspect.signature(function).parameters.values()
        arrays = [x for x in parameters if _is_array(x)]
        names = [x.name for x in arrays]
        self.__signature__ = _signature_of(self._name, function)
        if signature is None:
            self._inputs: list[list[str]] = [[] for _ in names]
            self._outputs: list[list[str]] | None = None
        else:
            self._inputs, self._outputs = _parsed(self._name, signature)
        self._names = [*names, *(f"argument {i}" for i in range(len(names), len(self._inputs)))]
        self._by_name = {x.name for x in arrays if x.kind is x.POSITIONAL_OR_KEYWORD}
        if len(self._inputs) != len(names) and not any(x.kind is x.VAR_POSITIONAL for x in parameters):
            raise ValueError(
                f"fuse: signature {signature!r} has {len(self._inputs)} operands; {self._name} has "
                f"{len(names)}"
            )

    def speak_as(self, name: str) -> None:
        """Have messages speak of the public function that calls this one."""
        self._name = name

    def _bound(self, arrays: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """The arrays in a row; arrays given by name are taken from the options."""
        for name in self._names[len(arrays) :]:
            if name not in options or name not in self._by_name:
                return arrays  # too few: `_operands` says so
            arrays += (options.pop(name),)
        return arrays

    def _expected(self) -> str:
        count = len(self._inputs)
        return f"{count} array{'s' * (count != 1)}, {', '.join(self._names)}" if count else "no arrays"

    def _operands(self, arrays: tuple[Any, ...]) -> list[Any]:
        """The arguments as arrays, with dtypes that are fused."""
        if len(arrays) < len(self._inputs):
            raise TypeError(
                f"{self._name}: {self._names[len(arrays)]} is missing; expected {self._expected()}"
            )
        if len(arrays) > len(self._inputs):
            raise TypeError(
                f"{self._name}: {len(arrays)} arrays are given by place; expected {self._expected()}, and "
                "options by name"
            )
        operands = []
        for name, given in zip(self._names, arrays, strict=True):
            x = without_labels(given)
            self._refuse_strange(name, x)
            if not hasattr(x, "dtype") or isinstance(x, np.generic):
                try:
                    x = np.asarray(x)
                except Exception as error:
                    raise no_array(self._name, name, given, error) from None
            if isinstance(x, np.ndarray):
                x = as_numpy(self._name, name, x)
            if isinstance(x, np.ndarray) or is_lazy(x):
                x = self._converted(name, x)
            elif str(x.dtype).endswith("bfloat16"):
                refuse_without_ml_dtypes(self._name, name)
            operands.append(x)
        return self._with_numbers(arrays, operands)

    def _refuse_strange(self, name: str, x: Any) -> None:
        """TypeError for what NumPy makes no array of, or has rules of its own."""
        if is_group(x):
            why = "call it for the arrays of each shape"
        elif overrides_ufuncs(x) and type(library_of(x)) is NumPy:
            why = f"pass its values, or call xarray.apply_ufunc({self._name}, ..., input_core_dims=...)"
            why = why if type_name(x).startswith("xarray.") else "pass its values"
        else:
            return
        raise TypeError(
            f"{self._name}: {name} is a {type_name(x)}, which a fused function does not take; {why}"
        )

    def _with_numbers(self, arrays: tuple[Any, ...], operands: list[Any]) -> list[Any]:
        """Numbers of Python follow the dtype of the arrays."""
        if not any(type(x) in NUMBERS for x in arrays):
            return operands
        strong = [x for given, x in zip(arrays, operands, strict=True) if type(given) not in NUMBERS]
        dtypes = [y for y in map(dtype_of, strong) if y != BOOL]
        if not dtypes:
            return operands
        common = result_dtype(self._name, dtypes)
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
                    f"dimension{'s' if len(dims) > 1 else ''}, {signature_text(dims)}"
                )
            core = tuple(x.shape)[x.ndim - len(dims) :]
            for dim, size in zip(dims, core, strict=True):
                expected = int(dim) if dim.isdigit() else sizes.setdefault(dim, size)
                if expected != size:
                    known = [str(sizes.get(d, d)) for d in dims]
                    raise ValueError(
                        f"{self._name}: {name} has shape {tuple(x.shape)}; expected "
                        f"(..., {', '.join(known)}) "
                        f"for {signature_text(dims)}"
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
                    f"{signature_text(dims)}"
                )


def _is_array(x: inspect.Parameter) -> bool:
    """Whether an argument of a function is an array where the function is fused; else it is an option."""
    return x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD) and x.default is x.empty


def _signature_of(name: str, function: Callable[..., Any]) -> inspect.Signature:
    """What the fused function takes: arrays by place or name, options by name, and out."""
    own = inspect.signature(function)
    given = own.parameters.values()
    if any(x.name == "out" and _is_array(x) for x in given):
        raise ValueError(
            f"fuse: an array of {name} is named out, which is where a fused function writes its results; "
            "expected another name"
        )
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any)
    arrays = [x for x in given if _is_array(x) or x.kind is x.VAR_POSITIONAL]
    others = [x for x in given if x not in arrays and x.name != "out"]
    options = [x.replace(kind=x.KEYWORD_ONLY) for x in others if x.kind is not x.VAR_KEYWORD]
    rest = [x for x in others if x.kind is x.VAR_KEYWORD]
    return own.replace(parameters=[*arrays, *options, out, *rest])


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


def signature_text(dims: list[str]) -> str:
    return f"(..., {', '.join(dims)})" if dims else "(...)"

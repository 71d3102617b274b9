"""Calls on arrays of any library. `_libraries` knows what each library needs: NumPy's arrays, and those that
follow its `__array_ufunc__` protocol, go to the gufunc as they are; Dask's are computed later; those that
only speak DLPack (PyTorch, JAX) are seen as NumPy's. Arrays on a device go to its kernels."""

from typing import Any

import numpy as np

from .._base.composition import Composition
from .._base.hooks import current
from .._base.later import later
from .._base.shapes import NUMPYS
from .._base.torch_compile import tell_dynamo
from .._libraries import is_group, library_of, on_device, type_name


def call(op: str, gufunc: np.ufunc, operands: dict[str, Any], out: Any, kwargs: dict[str, Any]) -> Any:
    """``gufunc(*operands.values(), *out, **kwargs)`` for arrays of any library.

    out is an array, None, or a tuple of as many of them as the caller may give, in the order of the outputs.
    """
    tell_dynamo()
    outs = _named(out if isinstance(out, tuple) else (out,))
    if gufunc.__name__ not in NUMPYS:  # which leave pandas' objects to pandas
        operands = {name: without_labels(x) for name, x in operands.items()}
        for name, x in outs.items():
            if without_labels(x) is not x:
                raise TypeError(f"{op}: {name} is a {type_name(x)}; expected a numpy.ndarray")
    if gufunc.nout == 1 and len(outs) != 1:
        raise ValueError(f"{op}: out is a tuple of {len(outs)}; expected an array, or a tuple of one")
    if (settings := current()) is not None and isinstance(gufunc, Composition):
        settings.meets(lambda: later("_programs.plan").explanation_of(gufunc, operands))
    arrays = {**operands, **{name: x for name, x in outs.items() if x is not None}}
    libraries = {name: library_of(x) for name, x in arrays.items()}
    library = max(libraries.values(), key=lambda library: library.rank)
    if library.records(gufunc, operands):
        if kwargs:
            raise TypeError(
                f"{op}: {next(iter(kwargs))} is given, but PyTorch or JAX records the call, which takes none"
            )
        results = library.recorded(op, gufunc, operands, call)
        if all(x is None for x in outs.values()):
            return results
        targets = [*outs.items(), *[("", None)] * gufunc.nout]
        answers = tuple(
            x if out is None else library.written(op, name, out, x)
            for (name, out), x in zip(targets, results if gufunc.nout > 1 else (results,), strict=False)
        )
        return answers if gufunc.nout > 1 else answers[0]
    for name, other in libraries.items():
        other.refuse_traced(op, name, arrays[name])
    if any(map(on_device, arrays.values())) and not library.takes_device_arrays(operands):
        from .._gpu import device  # here: most processes need none of it

        return device.call(op, gufunc, operands, outs, kwargs)
    return library.call(op, gufunc, operands, outs, kwargs)


def with_core_shape(a: Any) -> tuple[Any, int, int]:
    """A stack of matrices as an array, or a group, and their rows and columns. If it is none, the call says
    so."""
    if type(a) is np.ndarray:
        shape = a.shape
    else:
        a = without_labels(a)
        try:
            shape = a.shape_for_kernels if is_group(a) else np.shape(a)
        except ValueError:
            shape = ()
    return (a, *(shape[-2:] if len(shape) > 1 else (1, 1)))


def core_dims(x: Any) -> int:
    """1 for a vector, or a group of vectors; 2 for matrices, whose stack may have any dimensions."""
    if is_group(x):
        return min(x.min_dims, 2)
    return min(x.ndim if hasattr(x, "ndim") else np.ndim(x), 2)


def as_numpy(op: str, name: str, x: Any) -> np.ndarray:
    """A NumPy array of x, which is on the host, without a copy where x is an array."""
    return library_of(x).as_numpy(op, name, x)


def without_labels(x: Any) -> Any:
    """x, or the array that NumPy makes of it where it is none, or an object of pandas: once, so that a
    function that looks at its shape has that of its elements."""
    if type(x) is np.ndarray:
        return x
    tell_dynamo()
    return library_of(x).values(x)


def copy_to(target: Any, result: Any, casting: Any = "same_kind") -> None:
    if isinstance(target, np.ndarray):
        np.copyto(target, result, casting=casting)
    else:
        target[...] = result


def _named(outs: tuple[Any, ...]) -> dict[str, Any]:
    return {"out": outs[0]} if len(outs) == 1 else {f"out[{i}]": x for i, x in enumerate(outs)}

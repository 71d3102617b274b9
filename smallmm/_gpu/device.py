"""Calls on arrays of CUDA devices that `_core.direct` declined: libraries without DLPack's C exchange API,
mixed dtypes, factors per matrix, outputs that overlap inputs, sizes without a kernel, and errors.
`_libraries` has what each library calls its current stream, and how it makes an array."""

from __future__ import annotations

from functools import partial
from operator import index
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.composition import Composition
from .._base.errors import explain_failure, wrong_dtype_on_device
from .._base.shapes import (
    PRODUCTS,
    SCALED,
    arithmetic,
    computed_dtypes,
    core_dimensions,
    core_sizes,
    is_bfloat16,
    is_number,
    is_of_diagonals,
    is_zero,
    narrow_dtype,
    number_dtype,
    operand_dtypes,
    output_shapes,
    register_bfloat16,
    takes_complex_on_device,
)
from .._libraries import library_of, on_device, type_name
from .._libraries.base import CUDA, Device
from .._libraries.dlpack import refuse_without_ml_dtypes
from . import by_library

_MAX_DIMS = _core.limits["cuda_dimensions"]  # batch dimensions and the matrix's


def any_nonzero(op: str, info: Any, twin: str | None = None) -> bool:
    """Whether any info is not 0, for which the device is waited for. twin: a function that does not wait."""
    found = _core.cuda_any(info)
    if found is not None:
        return found
    if library_of(info).is_capturing(info):
        raise RuntimeError(
            f"{op}: no CUDA graph can have it, because it waits for the device to say which matrices fail"
            + (f"; {twin} does not wait" if twin else "")
        )
    return bool(info.any() if hasattr(info, "any") else to_host(info).any())


def to_host(x: Any) -> np.ndarray:
    return library_of(x).to_host(x)


def call(
    op: str,
    gufunc: np.ufunc,
    operands: dict[str, Any],
    outs: dict[str, Any],
    kwargs: dict[str, Any],
) -> Any:
    """``gufunc(*operands.values(), *outs.values())`` where at least one of them is on a device."""
    if kwargs:
        raise TypeError(f"{op}: {', '.join(kwargs)} is for NumPy arrays, not for arrays on a device")
    given_operands, operands = operands, dict(operands)
    given = {name: x for name, x in outs.items() if x is not None}
    arrays = {**{name: x for name, x in operands.items() if not is_number(x)}, **given}
    infos, library = same_device(op, arrays)
    operands |= {name: x for name, x in arrays.items() if name in operands}
    kinds = "biufc" if takes_complex_on_device(gufunc) else "biuf"
    for name, info in infos.items():
        if info.dtype == "bfloat16":
            refuse_without_ml_dtypes(op, name)
        elif _kind_of(info.dtype) not in kinds:
            raise wrong_dtype_on_device(op, name, info.dtype)
        if len(info.shape) > _MAX_DIMS:
            raise ValueError(
                f"{op}: {name} has {len(info.shape)} dimensions; expected at most {_MAX_DIMS} on a device, "
                "2 of them a matrix's"
            )

    shaped = {
        name: _shaped(op, name, infos[name]) if name in infos else np.asarray(x)
        for name, x in operands.items()
    }
    for name, x in shaped.items():
        register_bfloat16(x.dtype)
        if x.dtype.kind not in kinds and not is_bfloat16(x.dtype):
            raise wrong_dtype_on_device(op, name, x.dtype)
    shaped_outs = {name: _shaped(op, name, infos[name]) if name in given else None for name in outs}
    if "pivots" in shaped and not shaped["pivots"].size:
        shaped["pivots"] = shaped["pivots"].astype(np.int32)  # an empty array is one of floats by default
    explanation = explain_failure(op, gufunc, shaped, shaped_outs, {})
    if explanation is not None:
        raise explanation
    for name, x in given.items():
        if not library.writable:
            raise TypeError(f"{op}: {name} is a {type_name(x)}, which cannot be written to")

    typed = {name: shaped[name] if name in infos else x for name, x in operands.items()}
    narrow = narrow_dtype(gufunc, typed)
    sizes = core_sizes(gufunc, shaped)
    composition: Any = gufunc if isinstance(gufunc, Composition) else None
    operation, _ = _core.gufunc_rows.get(gufunc.__name__, ("", 0))
    number = library.nearest(number_dtype(gufunc, typed))
    loads = not composition and _runs_kernel(gufunc, operation, number, sizes)
    widened = (lambda dtype: dtype) if loads else arithmetic  # where no kernel loads halves
    own_dtypes = [library.nearest(narrow or dtype) for dtype in computed_dtypes(gufunc, typed, {})]
    dtypes = [library.nearest(widened(dtype)) for dtype in computed_dtypes(gufunc, typed, {})]
    computed = widened(number)
    most = _core.cuda_max_order(operation, computed) if operation else 0
    runs_kernel = loads or (not composition and _runs_kernel(gufunc, operation, computed, sizes))
    inputs = operand_dtypes(gufunc, typed)
    for name, info in infos.items():
        if name not in operands:
            continue
        wanted = "int32" if name == "pivots" else widened(library.nearest(inputs[name])).name
        if info.dtype == wanted:
            continue
        wide = name == "pivots" and np.dtype(info.dtype).itemsize >= 4
        operands[name] = library.narrowed(operands[name]) if wide else library.astype(operands[name], wanted)
    outputs = [
        _Output(name, out, shape, dtype, out is not None and infos[name].dtype == dtype.name)
        for (name, out), shape, dtype in zip(
            [*((name, arrays.get(name)) for name in outs), *[("a new output", None)] * gufunc.nout],
            composition.output_shapes(shaped) if composition else output_shapes(gufunc, shaped),
            dtypes,
            strict=False,
        )
    ]
    if runs_kernel or (composition and composition.launch):
        results = _run(op, library, gufunc, operands, outputs)
    elif composition:
        results = composition.on_device(() if given else tuple(given_operands.values()), operands)
        if not results:
            seen = tuple(map(library.with_operations, operands.values()))
            results = list(map(library.returned, composition.run(library.namespace, seen)))
    elif sizes["n"] == 0 or (sizes.get("m") == 0 and not is_of_diagonals(operation)):
        results = _of_nothing(library, gufunc, operands, shaped)
    elif by_library.takes(library, gufunc.__name__, sizes, most):
        results = list(by_library.call(library, gufunc.__name__, operands))
    elif sizes.get("k") == 0:
        results = _without_columns(op, library, gufunc, operands, infos["b"].shape, outputs)
    elif is_of_diagonals(operation):
        raise ValueError(f"{op}: the order is {sizes['n']}; expected at most 2^24, which infos count")
    else:
        raise NotImplementedError(
            f"{op}: no kernel takes {sizes.get('m', sizes['n'])} x {sizes['n']} matrices on a device (they "
            f"take min(m, n) <= {most} and m n <= {most**2}); "
            + (
                f"{library.name} may"
                if library.has_linear_algebra
                else "copy them to the host, or pass arrays of PyTorch, CuPy or JAX, which may"
            )
        )
    answers = []
    for output, own, result, out in zip(
        outputs, own_dtypes, results, [*outs.values(), *[None] * gufunc.nout], strict=False
    ):
        if output.given is not None and result is not output.given:
            output.given[...] = result
        if own != output.dtype and output.given is None:
            result = library.astype(result, own.name)
        answers.append(result if out is None else out)
    return answers[0] if len(answers) == 1 else tuple(answers)


def _runs_kernel(gufunc: np.ufunc, operation: str, number: np.dtype, sizes: dict[str, int]) -> bool:
    """Whether a kernel of that dtype computes matrices of such sizes, where there is something to compute."""
    m, n = sizes.get("m", 1 if gufunc.__name__ in PRODUCTS else sizes["n"]), sizes.get("n", 1)
    if gufunc.__name__ in PRODUCTS:
        return bool(_core.cuda_takes(gufunc, number, m, sizes["k"], n))
    if n == 0 or sizes.get("k") == 0 or (m == 0 and not is_of_diagonals(operation)):
        return False
    return bool(_core.cuda_takes(gufunc, number, m, 1, n))


class _Output(NamedTuple):
    name: str
    given: Any  # the caller's array, or None
    shape: tuple[int, ...]
    dtype: np.dtype
    usable: bool  # the caller's is of that dtype


def _run(
    op: str, library: Device, gufunc: np.ufunc, operands: dict[str, Any], outputs: list[_Output]
) -> list[Any]:
    """Launch. Results go to the caller's arrays, but to new ones where those overlap an operand."""
    stream = library.stream()
    launch: Any = partial(_core.device_run, gufunc)
    if isinstance(gufunc, Composition):
        launch = partial(gufunc.launch, library)
    labels = tuple(f"{op}: {name}" for name in (*operands, *(x.name for x in outputs)))
    for aside in (False, True):
        results = [x.given if x.usable and not aside else library.empty(x.shape, x.dtype) for x in outputs]
        if gufunc.__name__ in SCALED and results[0] is not outputs[0].given and not is_zero(operands["beta"]):
            results[0][...] = outputs[0].given
        if launch(stream, *operands.values(), *results, labels=labels):
            break
    return [
        x if x is output.given else library.finished(x) for x, output in zip(results, outputs, strict=True)
    ]


def _of_nothing(
    library: Device, gufunc: np.ufunc, operands: dict[str, Any], shaped: dict[str, np.ndarray]
) -> list[Any]:
    """Matrices without an element: what the host says. No value matters but those of b, for its norm."""
    results = gufunc(*(np.zeros(x.shape, x.dtype) for x in shaped.values()))
    answers = [
        library.asarray(np.asarray(x, arithmetic(x.dtype)))
        for x in (results if gufunc.nout > 1 else (results,))
    ]
    if gufunc.__name__ == "lstsq" and 0 not in operands["b"].shape:
        answers[1] = library.norms(operands["b"])
    return answers


def _without_columns(
    op: str,
    library: Device,
    gufunc: np.ufunc,
    operands: dict[str, Any],
    shape: tuple[int, ...],
    outputs: list[_Output],
) -> list[Any]:
    """No right-hand side, where info still counts: one, which is dropped."""
    has_columns = [dims[-1:] == ("k?",) for dims in core_dimensions(gufunc)[1]]
    computed = outputs[0].dtype
    widened = [
        _Output(x.name, None, (*x.shape[:-1], 1) if columns else x.shape, x.dtype, False)
        for x, columns in zip(outputs, has_columns, strict=True)
    ]
    b = library.asarray(np.zeros((*shape[:-1], 1), computed))
    results = _run(op, library, gufunc, {**operands, "b": b}, widened)
    return [x[..., :0] if columns else x for x, columns in zip(results, has_columns, strict=True)]


class _Info(NamedTuple):
    device: int
    dtype: str
    shape: tuple[int, ...]


def _info(op: str, name: str, x: Any) -> _Info:
    if not hasattr(x, "__dlpack_device__"):
        return _Info(*_core.device_of(x, f"{op}: {name}"))
    try:
        kind, device = map(index, x.__dlpack_device__())
        if device.bit_length() > 31 or device < 0:
            raise ValueError(f"a device of number {device}")
    except Exception as error:
        raise TypeError(
            f"{op}: {name} is a {type_name(x)} whose __dlpack_device__ failed or returned no pair of a "
            f"type and a number: {error!r:.200}"
        ) from error
    if kind != CUDA:
        raise TypeError(
            f"{op}: {name} is a {type_name(x)} on a device that is no CUDA GPU: its DLPack type is {kind}; "
            f"expected {CUDA}"
        )
    try:
        return _Info(device, str(x.dtype).rpartition(".")[2], tuple(map(index, x.shape)))
    except Exception as error:
        raise TypeError(
            f"{op}: {name} is a {type_name(x)} without a dtype and a shape of integers: {error!r:.200}"
        ) from error


def same_device(op: str, arrays: dict[str, Any]) -> tuple[dict[str, _Info], Device]:
    """What each array is, and the library of all on their one device; TypeError if there are several."""
    first_name = next(name for name, x in arrays.items() if on_device(x))
    first = arrays[first_name]
    infos: dict[str, _Info] = {}
    library = library_of(first)
    for name, x in arrays.items():
        if not on_device(x):
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} on the host but {first_name} is a {type_name(first)} "
                "on a device; nothing moves between them by itself"
            )
        if library_of(x).name != library.name:
            raise TypeError(
                f"{op}: {name} is a {type_name(x)} but {first_name} is a {type_name(first)}; "
                "expected arrays of one library"
            )
        x = arrays[name] = library.shareable(op, name, x)
        infos[name] = _info(op, name, x)
        if infos[name].device != next(iter(infos.values())).device:
            raise TypeError(
                f"{op}: {name} is on CUDA device {infos[name].device} but {next(iter(infos))} on "
                f"{next(iter(infos.values())).device}; expected arrays of one device"
            )
    try:
        return infos, library.on(first, infos[first_name].device)
    except TypeError as error:
        raise TypeError(
            f"{op}: {first_name} is a {type_name(first)}; expected an array of PyTorch, CuPy, JAX or Numba"
        ) from error


def _kind_of(dtype: str) -> str:
    """NumPy's letter, or V if it has no such dtype."""
    try:
        return np.dtype(dtype).kind
    except (SyntaxError, TypeError, ValueError):
        return "V"


def _shaped(op: str, name: str, info: _Info) -> np.ndarray:
    """An array of that dtype and shape without memory of its own, for NumPy's rules and our messages."""
    if info.dtype == "bfloat16" or _kind_of(info.dtype) in "biufc":
        dtype = np.dtype(info.dtype)
    else:
        dtype = np.dtype("V1")
    if any(length < 0 for length in info.shape):
        raise ValueError(f"{op}: {name} has shape {info.shape}; expected numbers >= 0")
    return np.lib.stride_tricks.as_strided(np.zeros((), dtype), info.shape, (0,) * len(info.shape))

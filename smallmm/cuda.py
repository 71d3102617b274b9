"""NVIDIA GPUs: what is available, and kernels compiled before their first use.

The functions of smallmm take arrays on a device as they take those on the host; nothing here needs to be
called. No CUDA library is loaded before the first array on a device or the first call of a function below.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._base.catalog import FUNCTIONS
from ._base.errors import shown
from ._base.options import integer
from ._base.shapes import device_has_kernel
from ._gpu import tuned

if TYPE_CHECKING:  # it would take a quarter of the time that importing smallmm does
    from pathlib import Path

    from ._gpu.device_array import DeviceArray, copy
    from ._gpu.transfers import empty_pinned, pin, to_device, to_host
    from ._offload.api import OffloadExplanation, offload, offloading
    from ._offload.streams import empty_cache

__all__ = [
    "CudaUnavailableError",
    "DeviceArray",
    "OffloadExplanation",
    "cache_directory",
    "copy",
    "device_name",
    "empty_cache",
    "empty_pinned",
    "is_available",
    "offload",
    "offloading",
    "pin",
    "to_device",
    "to_host",
    "warmup",
]

# Imported when first asked for: they would add to every import.
_LATER = {
    "_offload.api": ("OffloadExplanation", "empty_cache", "offload", "offloading"),
    "_gpu.device_array": ("DeviceArray", "copy"),
    "_gpu.transfers": ("empty_pinned", "pin", "to_device", "to_host"),
}

if not TYPE_CHECKING:  # for a type checker every name would exist

    def __getattr__(name):
        for module, names in _LATER.items():
            if name in names:
                loaded = import_module(f".{module}", __package__)
                globals().update({each: getattr(loaded, each) for each in names})
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class CudaUnavailableError(RuntimeError):
    """There is no driver, no usable GPU, or no NVRTC. The message says which, and what to install."""


def is_available(device: int = 0) -> bool:
    """Whether kernels can be compiled for this device and run on it."""
    try:
        warmup([(1, 1, 1)], dtypes=("f32",), device=device)
    except CudaUnavailableError:
        return False
    return True


def device_name(device: int = 0) -> str:
    """The name of a device, as the driver gives it."""
    return _core.cuda_device(integer("device_name", "device", device))[0]


_LAYOUT = ("order_a", "order_b", "order_c", "source_a", "source_b", "aligned", "scaled", "small")
_FORMS = ("upper", "unit", "transposed", "symmetric", "normwise", "extra")
_DTYPES = {"f32": "f32", "f64": "f64", "float32": "f32", "float64": "f64"}
_DTYPES |= {"f16": "f16", "bf16": "bf16", "float16": "f16", "bfloat16": "bf16"}
_DTYPES |= {"c64": "c64", "c128": "c128", "complex64": "c64", "complex128": "c128"}
# Operations with right-hand sides
_SOLVES = {x for name, (x, _) in _core.gufunc_rows.items() if "k?" in str(getattr(_core, name).signature)}


def _operations() -> dict[str, str]:
    """The operations by what `warmup` calls them: their first function, or a mode of it (qr_raw)."""
    named: dict[str, str] = {}
    for name, row in FUNCTIONS.items():
        first, *modes = row.operations
        named.setdefault(first, name)
        named |= {mode: mode.lower() for mode in modes}
    return dict(sorted((name, operation) for operation, name in named.items()))


def warmup(
    shapes: Iterable[tuple[int, int, int] | int],
    *,
    op: str = "batched_matmul",
    dtypes: Iterable[str] = ("f32", "f64"),
    device: int = 0,
    **layout: int,
) -> list[dict[str, Any]]:
    """Compile and load the kernels for some shapes, so that the first call need not. While a CUDA graph is
    captured, a call could not load a kernel.

    Parameters
    ----------
    shapes : iterable of (m, k, n) or n
        For products, m x k and k x n matrices. Otherwise m x n matrices with k right-hand sides, or for
        "qr" with k columns of Q. n alone stands for square matrices with one right-hand side.
    op : str
        The function: "batched_matmul", "solve", "inv", "eigh" and so on; "qr_r" and "qr_raw" for these modes
        of "qr".
    dtypes : iterable of str
        Element types: "f16", "bf16", "f32", "f64", "c64", "c128", or NumPy's names of them.
    device : int
        The device's number.
    **layout
        What differs from contiguous, aligned operands, each 0 or 1: ``order_a``, ``order_b`` and
        ``order_c`` (1: the matrix is transposed), ``source_a`` and ``source_b`` (1: one matrix for the whole
        batch), ``aligned`` (0: the data begins at any element), ``scaled`` (1: with alpha and beta),
        ``upper`` (which triangle; 1 by default for "solve_triangular"), ``unit`` (1: a unit diagonal),
        ``transposed`` (1: lu_solve's trans), ``symmetric`` (1: complex matrices of ldl_factor, ldl_solve and
        solve_sym are not Hermitian), ``normwise`` and ``extra`` (1: of backward_error, refine), and ``small``
        (1: for a few thousand matrices at most, 0: for more; by default both).

    Returns
    -------
    list of dict
        How each of them runs: kernel, parameters, threads and matrices of a block, the device whose tuned
        row it is (None: the kernel's baseline), whether it came from disk.

    Raises
    ------
    CudaUnavailableError
        Without a driver, a device or NVRTC.
    ValueError
        No such function or dtype, or no kernel for a shape or a complex dtype.
    TypeError
        No such keyword, or its value is of another type.
    """
    operations = _operations()
    if not isinstance(op, str) or op not in operations:
        raise ValueError(f"warmup: op is {shown(op)}; expected one of {', '.join(operations)}")
    operation = operations[op]
    words = (*_LAYOUT, *_FORMS)
    unknown = layout.keys() - set(words)
    if unknown:
        raise TypeError(f"warmup: there is no {min(unknown)!r}; expected some of {', '.join(words)}")
    device = integer("warmup", "device", device)
    layout = {word: integer("warmup", word, value) for word, value in layout.items()}
    for word, value in layout.items():
        if value not in (0, 1):
            raise ValueError(f"warmup: {word} is {value}; expected 0 or 1")
    dtypes = _list("dtypes", dtypes)
    for dtype in dtypes:
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            raise ValueError(f"warmup: dtype is {shown(dtype)}; expected one of {', '.join(_DTYPES)}")
        if _DTYPES[dtype][0] == "c" and operation not in _core.cuda_complex_operations:
            raise ValueError(f"warmup: no kernel takes {op} of {dtype}")
    columns = operation == "MATMUL" or operation.startswith("QR")
    sizes = [_sizes(shape, columns) for shape in _list("shapes", shapes)]
    for m, k, n in sizes:
        if not all(device_has_kernel(operation, _computed_in(_DTYPES[x]), m, k, n) for x in dtypes):
            raise ValueError(f"warmup: no kernel takes {op} of {(m, k, n)}")
    problems = [
        {
            "op": operation,
            "dtype": _DTYPES[dtype],
            "m": m,
            "n": n,
            "small": small,
            **_part(operation, k),
            **_as_kernels_see(operation, layout, _DTYPES[dtype]),
        }
        for dtype in dtypes
        for m, k, n in sizes
        for small in ([layout["small"]] if "small" in layout else (0, 1))
    ]
    return [{**problem, **_core.cuda_warm(problem, device)} for problem in problems]


def _list(name: str, x: Any) -> list[Any]:
    try:
        return list(x)
    except TypeError:
        raise TypeError(f"warmup: {name} is {shown(x)}; expected a list of them") from None


def _sizes(shape: Any, columns: bool) -> tuple[int, int, int]:
    """m, k and n."""
    try:
        m, k, n = shape if isinstance(shape, Iterable) else (shape, shape if columns else 1, shape)
        return index(m), index(k), index(n)
    except (TypeError, ValueError):
        raise TypeError(f"warmup: a shape is {shown(shape)}; expected (m, k, n) or n") from None


def _computed_in(dtype: str) -> np.dtype:
    """The dtype that kernels of f32, say, compute in."""
    return np.dtype("f4" if dtype in ("f16", "bf16") else f"{dtype[0]}{int(dtype[1:]) // 8}")


def _as_kernels_see(operation: str, layout: dict[str, int], dtype: str) -> dict[str, int]:
    """The words of `warmup` as a kernel's: Cholesky's upper triangle is the lower one of the transpose, but
    complex factors are conjugated, too. Real matrices that are symmetric are Hermitian."""
    given = {"upper": int(operation == "SOLVE_TRIANGULAR"), **layout}
    if dtype[0] != "c":
        given["symmetric"] = 0
    form = sum(_core.forms[word] for word in _FORMS if given.get(word))
    placed = {word: value for word, value in layout.items() if word not in _FORMS}
    transposed = ("CHOLESKY",) if dtype[0] == "c" else ("CHOLESKY", "CHO_SOLVE", "SOLVE_POS")
    if operation in transposed and form:
        form, placed["order_a"] = 0, 1
        if operation == "CHOLESKY":
            placed["order_c"] = 1
    return {"form": form, **placed}


def _part(operation: str, k: int) -> dict[str, int]:
    """k right-hand sides. Many are solved in parts, which have gaps between matrices."""
    most, strided = _core.limits["cuda_columns"], _core.source_strided
    if k <= most or operation not in _SOLVES:
        return {"k": k}
    return {"k": most, "source_b": strided, "source_c": strided}


def compile_for(
    problems: Iterable[dict[str, Any]],
    arch: int,
    parameters: Iterable[dict[str, Any] | None] | None = None,
    *,
    shared_memory: int = 160 << 10,
    threads: int | None = None,
) -> list[tuple[bytes, str | None, str, bool]]:
    """Cubins of kernels for an architecture (90 for sm_90), of which no device is needed: for tests, and to
    fill the cache for other machines. Each is (cubin, NVRTC's log or None, name, whether it was on disk)."""
    problems = list(problems)
    given = [None] * len(problems) if parameters is None else list(parameters)
    from concurrent.futures import ThreadPoolExecutor  # here: it would double the time of an import

    with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda p, x: _core.cuda_build(p, x, arch, shared_memory), problems, given))


def cache_directory() -> Path | None:
    """Where compiled kernels are kept: ``SMALLMM_CACHE_DIR`` (empty: nowhere), else the user's cache folder.

    None if they are not kept: the path is not absolute, or the folder belongs to another user or is writable
    by others, who could put their own kernels there."""
    return find_cache()[0]


def find_cache() -> tuple[Path | None, str]:
    """That folder and "", or None and why."""
    from pathlib import Path

    chosen = os.environ.get("SMALLMM_CACHE_DIR")
    if chosen == "":
        return None, "SMALLMM_CACHE_DIR is empty"
    folder = _user_cache() if chosen is None else Path(chosen).absolute()
    if folder is None or not folder.is_absolute():
        return None, (
            f"the user's cache folder is {folder or 'unknown'}; expected an absolute path (of HOME, "
            "XDG_CACHE_HOME or SMALLMM_CACHE_DIR)"
        )
    if not _core.cuda_may_cache(os.fsencode(folder)):
        return None, (
            f"{folder} is no folder that belongs to this user and that no other may write to; chmod go-w "
            "it, or set SMALLMM_CACHE_DIR to another"
        )
    return folder, ""


def _user_cache() -> Path | None:
    from pathlib import Path

    try:
        from platformdirs import user_cache_path

        return user_cache_path("smallmm")
    except ImportError:
        with suppress(RuntimeError):
            return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smallmm"
    except RuntimeError:  # a user without a home
        pass
    return None


def _nvrtc_path() -> str | None:
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return load_nvidia_dynamic_lib("nvrtc").abs_path
    except Exception:  # not installed, or it finds none: the usual names are tried
        return None


def _configure() -> None:
    """Called by the C side once, before a device is first used."""
    cache, why = find_cache()
    if cache is None and os.environ.get("SMALLMM_CACHE_DIR") != "":
        import warnings

        warnings.warn(
            f"smallmm compiles each kernel anew in each process: {why}", RuntimeWarning, stacklevel=2
        )
    _core.cuda_configure(os.fsencode(_nvrtc_path() or ""), os.fsencode(cache or ""))
    tuned.use(cache)

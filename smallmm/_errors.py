"""Why a call failed, in the caller's words. Runs only after NumPy has refused the arguments."""

import re
from typing import Any

import numpy as np

_DTYPES = "float16, float32, float64, an integer type or bool"


def explain_failure(
    op: str, gufunc: np.ufunc, operands: dict[str, Any], out: Any, kwargs: dict[str, Any]
) -> Exception | None:
    """The exception that names the argument at fault, what was given and what was expected.
    None if the arguments are not to blame or NumPy's keywords are, which NumPy names itself."""
    arrays = {}
    for name, x in operands.items():
        try:
            arrays[name] = np.asanyarray(x)
        except Exception as error:
            return ValueError(
                f"{op}: {name} is a {type(x).__name__} that NumPy cannot make an array of: {error}"
            )
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            return TypeError(f"{op}: {name} has dtype {array.dtype}; expected {_DTYPES}")
    if out is not None and not isinstance(out, np.ndarray):
        return TypeError(f"{op}: out is a {type(out).__name__}; expected a numpy.ndarray")
    if out is not None:
        computed = np.dtype(kwargs.get("dtype") or _computed_dtype(arrays))
        casting = kwargs.get("casting", "same_kind")
        if not np.can_cast(computed, out.dtype, casting):
            return TypeError(
                f"{op}: out has dtype {out.dtype}; the result is {computed}, and casting is {casting!r}"
            )
        if not out.flags.writeable:
            return ValueError(f"{op}: out is read-only; expected an array that can be written to")
    if "axes" in kwargs:
        return None
    return _explain_shapes(op, gufunc, arrays, out)


def _computed_dtype(arrays: dict[str, np.ndarray]) -> np.dtype:
    common = np.result_type(*arrays.values())
    return np.dtype(np.float64 if common.kind in "biu" or common.itemsize == 8 else np.float32)


def _explain_shapes(op: str, gufunc: np.ufunc, arrays: dict[str, np.ndarray], out: Any) -> Exception | None:
    *core_dims, core_dims_out = (
        core.split(",") if core else [] for core in re.findall(r"\((.*?)\)", gufunc.signature)
    )
    sizes: dict[str, int] = {}
    owner: dict[str, str] = {}
    batch: tuple[int, ...] = ()
    batch_owner = ""
    absent = set()

    for (name, array), dims in zip(arrays.items(), core_dims, strict=True):
        if array.ndim < len(dims):  # optional dimensions (?) may be absent
            absent.update(dim for dim in dims if dim.endswith("?"))
            dims = [dim for dim in dims if not dim.endswith("?")]
        if array.ndim < len(dims):
            return ValueError(
                f"{op}: {name} has shape {array.shape}; expected at least {len(dims)} "
                f"dimension{'s' if len(dims) > 1 else ''}, "
                f"{_shape_text(dims, {})}"
            )
        shape = array.shape[array.ndim - len(dims) :]
        for dim, size in zip(dims, shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                other = owner[dim]
                return ValueError(
                    f"{op}: {name} has shape {array.shape}; expected {_shape_text(dims, sizes)} "
                    f"to match {other} of shape {arrays[other].shape}"
                )
            owner.setdefault(dim, name)
        stack = array.shape[: array.ndim - len(dims)]
        try:
            batch = np.broadcast_shapes(batch, stack)
        except ValueError:
            return ValueError(
                f"{op}: {name} has shape {array.shape}, whose batch dimensions {stack} do not broadcast "
                f"against {batch} of {batch_owner}"
            )
        batch_owner = f"{batch_owner} and {name}" if batch_owner else name

    if out is not None:
        core = tuple(sizes[dim] for dim in core_dims_out if dim not in absent)
        stack = out.shape[: max(out.ndim - len(core), 0)]
        try:
            fits = out.shape[len(stack) :] == core and np.broadcast_shapes(batch, stack) == stack
        except ValueError:
            fits = False
        if not fits:
            return ValueError(f"{op}: out has shape {out.shape}; expected {batch + core}")
    return None


def _shape_text(dims: list[str], sizes: dict[str, int]) -> str:
    return (
        "(..., " + ", ".join(str(sizes.get(dim, dim)).rstrip("?") for dim in dims) + ")" if dims else "(...)"
    )

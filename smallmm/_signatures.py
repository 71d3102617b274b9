"""What gufuncs say about their operands: dimensions and dtypes."""

import re
from typing import Any

import numpy as np


def core_dimensions(gufunc: np.ufunc) -> tuple[list[list[str]], list[list[str]]]:
    """The core dimensions of each input and of each output, optional ones with their "?"."""
    inputs, outputs = (
        [dims.split(",") if dims else [] for dims in re.findall(r"\((.*?)\)", part)]
        for part in str(gufunc.signature).split("->")
    )
    return inputs, outputs


def fixed_signature(gufunc: np.ufunc, operands: dict[str, Any]) -> str:
    """The signature for these operands: optional dimensions (?) are there if theirs suffice."""
    absent: set[str] = set()
    for x, dims in zip(operands.values(), core_dimensions(gufunc)[0], strict=True):
        if np.ndim(x) < len(dims):
            absent.update(dim for dim in dims if dim.endswith("?"))
    kept = [
        ",".join(
            "(" + ",".join(dim.rstrip("?") for dim in dims if dim not in absent) + ")"
            for dims in operands_of_side
        )
        for operands_of_side in core_dimensions(gufunc)
    ]
    return "->".join(kept)


def output_dtypes(gufunc: np.ufunc, operands: dict[str, Any], kwargs: dict[str, Any]) -> list[np.dtype]:
    """The dtypes of a gufunc's outputs. Python's numbers have none of their own and follow the arrays."""
    inputs = (type(x) if type(x) in (int, float) else dtype_of(x) for x in operands.values())
    dtypes = gufunc.resolve_dtypes((*inputs, *(None,) * gufunc.nout))[gufunc.nin :]
    return [np.dtype(kwargs.get("dtype") or dtype) for dtype in dtypes]


def dtype_of(x: Any) -> np.dtype:
    """The dtype that NumPy sees in an array of any library, or in what can become one."""
    dtype = getattr(x, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) else np.asarray(x).dtype

from collections.abc import Callable
from typing import Any

import numpy as np

__version__: str
compiler: str

direct: dict[str, Callable[..., Any]]
# of each operation of ops.def: operand, "in" or "out", whether it is optional, element type, rows, columns
operations: dict[str, tuple[tuple[str, str, bool, str, str, str], ...]]
dtypes: tuple[str, ...]
gufunc_rows: dict[str, tuple[str, int]]  # of each gufunc below: operation of ops.def, form
forms: dict[str, int]
limits: dict[str, int]
source_strided: int

matmul: np.ufunc
batched_matmul: np.ufunc
gemm: np.ufunc
matvec: np.ufunc
vecmat: np.ufunc
lu_factor: np.ufunc
lu_factor_tall: np.ufunc
lu_factor_wide: np.ufunc
lu_solve: np.ufunc
lu_solve_transposed: np.ufunc
solve: np.ufunc
inv: np.ufunc
det: np.ufunc
slogdet: np.ufunc
cholesky: np.ufunc
cholesky_upper: np.ufunc
cho_solve: np.ufunc
cho_solve_upper: np.ufunc
solve_lower: np.ufunc
solve_upper: np.ufunc
solve_unit_lower: np.ufunc
solve_unit_upper: np.ufunc
qr_tall: np.ufunc
qr_complete: np.ufunc
qr_r_tall: np.ufunc
qr_r_wide: np.ufunc
qr_raw_tall: np.ufunc
qr_raw_wide: np.ufunc
lstsq: np.ufunc
eigh: np.ufunc
eigh_upper: np.ufunc
eigvalsh: np.ufunc
eigvalsh_upper: np.ufunc
svd_tall: np.ufunc
svd_wide: np.ufunc
svd_full_tall: np.ufunc
svd_full_wide: np.ufunc
svdvals_tall: np.ufunc
svdvals_wide: np.ufunc

def add_bfloat16(dtype: np.dtype, /) -> None: ...
def isa() -> str: ...
def isas_available() -> tuple[str, ...]: ...
def select_isa(name: str | None, /) -> None: ...
def select_kernel(name: str | None, /) -> None: ...
def get_num_threads() -> int: ...
def set_num_threads(threads: int, /) -> None: ...
def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> dict[str, Any]: ...
def reference(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...

# arrays on CUDA devices, and the kernels for them
def device_run(  # False: an output overlaps; labels begin messages
    gufunc: np.ufunc, stream: int, /, *operands: Any, labels: tuple[str, ...] = ()
) -> bool: ...
def device_of(x: Any, label: str, /) -> tuple[int, str, tuple[int, ...]]: ...
def device_empty(shape: tuple[int, ...], dtype: str, device: int, stream: int, /) -> tuple[Any, int]: ...
def cuda_configure(nvrtc: bytes, cache: bytes, /) -> None: ...
def cuda_may_cache(directory: bytes, /) -> bool: ...
def cuda_catalog() -> dict[str, Any]: ...
def cuda_tune(rows: list[dict[str, Any]], /) -> None: ...
def cuda_plan(
    problem: dict[str, Any], shared_memory: int, parameters: dict[str, Any] = ..., /
) -> dict[str, Any] | None: ...
def cuda_build(
    problem: dict[str, Any], parameters: dict[str, Any] | None, arch: int, shared_memory: int, /
) -> tuple[bytes, str | None, str, bool]: ...
def cuda_warm(problem: dict[str, Any], device: int, /) -> dict[str, Any]: ...
def cuda_device(ordinal: int, /) -> tuple[str, int, int]: ...
def cuda_nvrtc_version() -> str: ...

"""Multiply, factor and solve millions of tiny matrices held in stacked arrays, at the machine's limit.

>>> import numpy as np
>>> import smallmm
>>> a = np.ones((1_000_000, 3, 3))
>>> smallmm.batched_matmul(a, a.mT).shape
(1000000, 3, 3)
"""

import sys
from typing import TYPE_CHECKING, Any

try:
    from ._core import __version__
except ValueError as refused:  # SMALLMM_ISA; python -m imports this package before __main__ could say so
    if sys.argv[:1] != ["-m"] or sys.orig_argv[-len(sys.argv)].removeprefix("-m") != "smallmm":
        raise
    print(f"python -m smallmm: {refused}", file=sys.stderr)
    sys.exit(2)

from . import cuda
from ._config import Explanation, explain, get_num_threads, set_num_threads, show_config, threads
from ._errors import LinAlgError
from ._least_squares import lstsq, lstsq_ex, qr
from ._linalg import (
    cho_solve,
    cholesky,
    cholesky_ex,
    det,
    inv,
    inv_ex,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
)
from ._matmul import batched_matmul, matmul, matvec, vecmat
from ._spectra import eigh, eigh_ex, eigvalsh, eigvalsh_ex
from .cuda import CudaUnavailableError

if TYPE_CHECKING:
    from ._bench import bench

__all__ = [
    "CudaUnavailableError",
    "Explanation",
    "LinAlgError",
    "__version__",
    "batched_matmul",
    "bench",
    "cho_solve",
    "cholesky",
    "cholesky_ex",
    "cuda",
    "det",
    "eigh",
    "eigh_ex",
    "eigvalsh",
    "eigvalsh_ex",
    "explain",
    "get_num_threads",
    "inv",
    "inv_ex",
    "lstsq",
    "lstsq_ex",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matvec",
    "qr",
    "set_num_threads",
    "show_config",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "threads",
    "vecmat",
]


def __getattr__(name: str) -> Any:
    """`bench` is imported when first asked for: it would add to every import."""
    if name != "bench":
        raise AttributeError(f"module 'smallmm' has no attribute {name!r}")
    from ._bench import bench

    globals()["bench"] = bench
    return bench


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

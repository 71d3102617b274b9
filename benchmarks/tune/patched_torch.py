"""For how many matrices a kernel of smallmm within PyTorch's operator is faster than its own, on the CPU:
material for the rows SMM_LEAST of csrc/python/patch/patched_torch.def, found as patched.py finds NumPy's.

    SMALLMM_NUM_THREADS=1 python -m benchmarks.tune.patched_torch [operator ...]
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import smallmm
from smallmm import _core

from .patched import least_of, print_rows

ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32)
TYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
    torch.complex128: "C128",
}


def call_of(name: str, dtype: torch.dtype, order: int, count: int) -> Callable[[], Any]:
    """Well conditioned; positive definite where that is asked for."""
    a = torch.randn(count, order, order, dtype=dtype) + 2 * order**0.5 * torch.eye(order, dtype=dtype)
    if name in ("linalg_cholesky_ex", "_linalg_eigh"):
        a = a @ a.mH.resolve_conj()
    operator = getattr(torch.ops.aten, name).default
    return partial(operator, *[a] * (2 if name in ("bmm", "_linalg_solve_ex") else 1))


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    smallmm.patch_torch()
    for name in names or [name for name in _core.patched_torch if "." not in name]:  # overloads have out=
        for dtype, words in TYPES.items():
            found = {order: least_of(partial(call_of, name, dtype, order)) for order in ORDERS}
            print_rows(name, words, found)


if __name__ == "__main__":
    main(sys.argv[1:])

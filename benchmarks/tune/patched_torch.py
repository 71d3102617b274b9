"""For how many matrices a kernel of smallmm within PyTorch's operator is faster than its own, on the CPU:
material for the rows SMM_MIN_BATCH of csrc/python/patch/patched_torch.def, found as patched.py finds NumPy's.

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


L = torch.linalg
# Of what an operator is called, if not of A alone.
ARGUMENTS: dict[str, Callable[[torch.Tensor], tuple[Any, ...]]] = {
    "bmm": lambda a: (a, a),
    "baddbmm": lambda a: (a, a, a),
    "_linalg_solve_ex": lambda a: (a, a),
    "_cholesky_solve_helper": lambda a: (a, a, False),
    "linalg_solve_triangular": lambda a: (a, a),
    "linalg_lu_solve": lambda a: (*L.lu_factor(a), a),
    "linalg_ldl_solve": lambda a: (*L.ldl_factor(a), a),
    "linalg_lstsq": lambda a: (a, a[..., :1]),
    "linalg_matrix_exp": lambda a: (a / a.shape[-1],),
}
OPTIONS = {"linalg_solve_triangular": {"upper": True}}


def call_of(name: str, dtype: torch.dtype, order: int, count: int) -> Callable[[], Any]:
    """Well conditioned; positive definite where that is asked for."""
    a = torch.randn(count, order, order, dtype=dtype) + 2 * order**0.5 * torch.eye(order, dtype=dtype)
    if name in ("linalg_cholesky_ex", "_linalg_eigh"):
        a = a @ a.mH.resolve_conj()
    arguments = ARGUMENTS[name](a) if name in ARGUMENTS else (a,)
    return partial(getattr(torch.ops.aten, name).default, *arguments, **OPTIONS.get(name, {}))


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    smallmm.patch_torch()
    for name in names or [name for name in _core.patched_torch if "." not in name]:  # overloads have out=
        for dtype, words in TYPES.items():
            found = {order: least_of(partial(call_of, name, dtype, order)) for order in ORDERS}
            print_rows(name, words, found)


if __name__ == "__main__":
    main(sys.argv[1:])

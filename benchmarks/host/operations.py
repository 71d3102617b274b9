"""What the core calls the operations that are timed, and what some contenders do instead of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smallmm import _core
from smallmm._tools.bounds import BOUNDS
from smallmm._tools.operations import OPERATIONS, Operation, norm


class Core(NamedTuple):
    """An operation's row in ops.def, and whether it is timed with `info`."""

    name: str
    has_info: bool = True

    @property
    def results(self) -> list[str]:
        """Names of its results, `info` apart."""
        operands = _core.operations[self.name]
        return [name for name, direction, optional, *_ in operands if direction == "out" and not optional]


CORE = {
    "matmul": Core("MATMUL", has_info=False),
    "lu_factor": Core("LU"),
    "solve": Core("SOLVE"),
    "solve_pos": Core("SOLVE_POS"),
    "solve_sym": Core("SOLVE_SYM"),
    "inv": Core("INV"),
    "det": Core("DET", has_info=False),
    "cholesky": Core("CHOLESKY"),
    "qr": Core("QR", has_info=False),
    "eigh": Core("EIGH"),
    "eigvalsh": Core("EIGVALSH"),
    "eig": Core("EIG"),
    "eigvals": Core("EIGVALS"),
    "svd": Core("SVD"),
    "svdvals": Core("SVDVALS"),
}

LINALG = {name: op for name, op in OPERATIONS.items() if name != "matmul"}


def _r(u: float, a: np.ndarray, b: None, r: np.ndarray) -> np.ndarray:
    """|A^T A - R^T R|, which errors of A reach twice"""
    return norm(a.mT @ a - r.mT @ r) / (2 * BOUNDS["qr"](a.shape[-1]) * u * norm(a) * norm(a.mT))


QR_R = Operation("qr_r", lambda m, k, n: 4 / 3 * n**3, _r, "n")  # of some contenders only

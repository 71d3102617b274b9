"""What the core calls the operations that are timed, and what some contenders do instead of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smallmm._bench import OPERATIONS, Operation, norm
from smallmm._bounds import BOUNDS


class Core(NamedTuple):
    """An operation's row in ops.def, its results by their names in smm_call, and whether it has `info`."""

    name: str
    results: tuple[str, ...]
    has_info: bool = True


CORE = {
    "matmul": Core("MATMUL", ("c",), has_info=False),
    "lu_factor": Core("LU", ("c", "pivots")),
    "solve": Core("SOLVE", ("c",)),
    "inv": Core("INV", ("c",)),
    "det": Core("DET", ("c",), has_info=False),
    "cholesky": Core("CHOLESKY", ("c",)),
    "qr": Core("QR", ("c", "d"), has_info=False),
    "eigh": Core("EIGH", ("d", "c")),
    "eigvalsh": Core("EIGVALSH", ("d",)),
}

LINALG = {name: op for name, op in OPERATIONS.items() if name != "matmul"}


def _r(u: float, a: np.ndarray, b: None, r: np.ndarray) -> np.ndarray:
    """|A^T A - R^T R|, which errors of A reach twice"""
    return norm(a.mT @ a - r.mT @ r) / (2 * BOUNDS["qr"](a.shape[-1]) * u * norm(a) * norm(a.mT))


QR_R = Operation("qr_r", lambda m, k, n: 4 / 3 * n**3, _r, "n")  # of some contenders only

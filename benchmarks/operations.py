"""The factorizations and solves that bench_linalg.py measures, one row each in OPERATIONS, and their data.

What they cost and how a result is checked is in the package's list (smallmm/_bench.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import harness
import numpy as np

from smallmm import _bench
from smallmm._bench import norm
from smallmm._bounds import BOUNDS

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation(_bench.Operation):
    """`core`: its row in ops.def. `outputs`: the names of the results in ops.def and their shapes,
    n: matrix, 1: column, p: pivots, s: scalar."""

    core: str
    outputs: dict[str, str]
    has_info: bool = True

    @property
    def has_rhs(self) -> bool:
        return bool(self.b)


@dataclass(frozen=True)
class Stack:
    """The operands of one case: matrices a, right-hand sides b, room for the results."""

    a: np.ndarray
    b: np.ndarray | None
    outs: Arrays

    @property
    def operands(self) -> list[np.ndarray]:
        return [self.a] if self.b is None else [self.a, self.b]

    @property
    def nbytes(self) -> int:
        """The compulsory traffic: operands read once, results written once."""
        return sum(x.nbytes for x in (*self.operands, *self.outs))


@dataclass(frozen=True)
class Job:
    """A contender's call, and how to check it: `read` makes results of what `call` returns, of operation `op`
    on the matrices `a`. `less`: what it leaves undone, if it does less than was asked."""

    call: harness.Call
    read: Callable[[object], Arrays]
    op: Operation
    a: np.ndarray
    words: str  # what is called
    less: str = ""


# --- operations -----------------------------------------------------------------------------------


def _operation(name: str, core: str, outputs: dict[str, str], *, has_info: bool = True) -> Operation:
    """The package's operation, with what the core needs to know."""
    return Operation(**vars(_bench.OPERATIONS[name]), core=core, outputs=outputs, has_info=has_info)


def _r(u: float, a: np.ndarray, b: None, r: np.ndarray) -> np.ndarray:
    """|A^T A - R^T R|, which errors of A reach twice"""
    return norm(a.mT @ a - r.mT @ r) / (2 * BOUNDS["qr"](a.shape[-1]) * u * norm(a) * norm(a.mT))


LU = _operation("lu_factor", "LU", {"lu": "n", "pivots": "p"})
SOLVE = _operation("solve", "SOLVE", {"x": "1"})
INV = _operation("inv", "INV", {"inverse": "n"})
DET = _operation("det", "DET", {"det": "s"}, has_info=False)
CHOLESKY = _operation("cholesky", "CHOLESKY", {"l": "n"})
QR = _operation("qr", "QR", {"q": "n", "r": "n"}, has_info=False)
QR_R = Operation(  # of some peers only
    name="qr_r", flops=lambda n: 4 / 3 * n**3, check=_r, core="QR_R", outputs={"r": "n"}, has_info=False
)

OPERATIONS = {op.name: op for op in (LU, SOLVE, INV, DET, CHOLESKY, QR)}


# --- data -----------------------------------------------------------------------------------------


def stack(op: Operation, dtype: str, n: int, footprint: int) -> Stack:
    """Operands of at least `footprint` bytes together (in a cache: at most); general ones uniform in -1 .. 1.

    They are parts of one block that begins at a page: how they lie to one another does not depend on chance.
    """
    real = harness.DTYPES[dtype]
    shapes = {"n": (n, n), "1": (n, 1), "p": (n,), "s": ()}
    dtypes = {"p": np.dtype(np.int32)}
    kinds = ["n", *(["1"] if op.has_rhs else []), *op.outputs.values()]
    each = [dtypes.get(kind, real).itemsize * int(np.prod(shapes[kind])) for kind in kinds]
    batch = harness.count_for(footprint, sum(each))
    starts = np.cumsum([0, *(-(-batch * size // 64) * 64 for size in each)])
    block = np.empty(starts[-1] + 4096, np.uint8)
    block = block[-block.ctypes.data % 4096 :]
    a, *rest = (
        block[start : start + batch * size].view(dtypes.get(kind, real)).reshape(batch, *shapes[kind])
        for kind, size, start in zip(kinds, each, starts[:-1], strict=True)
    )
    rng = np.random.default_rng(n)
    distinct = rng.uniform(-1, 1, (min(batch, _bench.DISTINCT), n, n))
    if op.positive:
        distinct = distinct @ distinct.mT + n * np.eye(n)
    b = rest.pop(0) if op.has_rhs else None
    for first in range(0, batch, _bench.DISTINCT):
        a[first : first + _bench.DISTINCT] = distinct[: batch - first]
    if b is not None:
        b[:] = rng.uniform(-1, 1, b.shape)
    return Stack(a, b, tuple(rest))


def validate(name: str, job: Job, stack: Stack) -> None:
    """Run the job and check what it found, for up to 2048 matrices: first, last and random ones."""
    for out in stack.outs:
        out.fill(-1)
    results = job.read(job.call())
    _bench.validate(f"{name}: {job.words}", job.op, job.a, stack.b, map(np.asarray, results))

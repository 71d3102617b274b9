"""The factorizations and solves that bench_linalg.py measures, one row each in OPERATIONS: what they cost, on
which data they run, and how a result is checked.

A check compares in float64 with the accuracy that the project promises (u: unit roundoff of the dtype; norms
are 1-norms) and gives a ratio per matrix, which must not exceed 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import harness
import numpy as np

Arrays = tuple[np.ndarray, ...]
DISTINCT = 4093  # matrices; prime, so that the period of a larger stack is none of the caches'


@dataclass(frozen=True, eq=False)
class Operation:
    """`outputs`: the names of the results in smm_call and their shapes, n: matrix, 1: column, p: pivots,
    s: scalar. check(u, a, b, *results) gets stacks in float64."""

    name: str
    core: str  # its row in ops.def
    outputs: dict[str, str]
    flops: Callable[[int], float]
    check: Callable[..., np.ndarray]
    has_rhs: bool = False
    positive: bool = False  # on symmetric positive definite matrices
    has_info: bool = True


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


# --- checks ---------------------------------------------------------------------------------------


def _norm(x: np.ndarray) -> np.ndarray:
    return np.abs(x).sum(-2).max(-1)


def _lu(u: float, a: np.ndarray, b: None, lu: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """|P A - L U| <= 10 n u |A|"""
    n, every = a.shape[-1], np.arange(len(a))
    for i, p in enumerate(pivots.astype(int).T):
        a[every, i], a[every, p] = a[every, p], a[every, i]
    return _norm(a - (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)) / (10 * n * u * _norm(a))


def _solve(u: float, a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """|b - A x| <= 20 n u (|A| |x| + |b|)"""
    return _norm(b - a @ x) / (20 * a.shape[-1] * u * (_norm(a) * _norm(x) + _norm(b)))


def _inv(u: float, a: np.ndarray, b: None, x: np.ndarray) -> np.ndarray:
    """|A X - I| <= 50 n u |A| |X|"""
    n = a.shape[-1]
    return _norm(a @ x - np.eye(n)) / (50 * n * u * _norm(a) * _norm(x))


def _det(u: float, a: np.ndarray, b: None, det: np.ndarray) -> np.ndarray:
    """|d - det A| <= 20 n u |det A| |A| |A^-1|"""
    exact = np.linalg.det(a)
    return np.abs(det - exact) / (20 * a.shape[-1] * u * np.abs(exact) * _norm(a) * _norm(np.linalg.inv(a)))


def _cholesky(u: float, a: np.ndarray, b: None, l: np.ndarray) -> np.ndarray:  # noqa: E741
    """|A - L L^T| <= 10 n u |A|; of L the lower triangle"""
    lower = np.tril(l)
    return _norm(a - lower @ lower.mT) / (10 * a.shape[-1] * u * _norm(a))


def _qr(u: float, a: np.ndarray, b: None, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """|A - Q R| <= 20 n u |A| and |Q^T Q - I| <= 20 n u"""
    n = a.shape[-1]
    return np.maximum(_norm(a - q @ r) / _norm(a), _norm(q.mT @ q - np.eye(n))) / (20 * n * u)


def _r(u: float, a: np.ndarray, b: None, r: np.ndarray) -> np.ndarray:
    """|A^T A - R^T R| <= 40 n u |A^T| |A|"""
    return _norm(a.mT @ a - r.mT @ r) / (40 * a.shape[-1] * u * _norm(a) * _norm(a.mT))


LU = Operation("lu_factor", "LU", {"c": "n", "pivots": "p"}, lambda n: 2 / 3 * n**3, _lu)
SOLVE = Operation("solve", "SOLVE", {"c": "1"}, lambda n: 2 / 3 * n**3 + 2 * n**2, _solve, has_rhs=True)
INV = Operation("inv", "INV", {"c": "n"}, lambda n: 2 * n**3, _inv)
DET = Operation("det", "DET", {"c": "s"}, lambda n: 2 / 3 * n**3, _det, has_info=False)
CHOLESKY = Operation("cholesky", "CHOLESKY", {"c": "n"}, lambda n: n**3 / 3, _cholesky, positive=True)
QR = Operation("qr", "QR", {"c": "n", "d": "n"}, lambda n: 8 / 3 * n**3, _qr, has_info=False)
QR_R = Operation("qr_r", "QR_R", {"d": "n"}, lambda n: 4 / 3 * n**3, _r, has_info=False)  # of some peers only

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
    distinct = rng.uniform(-1, 1, (min(batch, DISTINCT), n, n))
    if op.positive:
        distinct = distinct @ distinct.mT + n * np.eye(n)
    b = rest.pop(0) if op.has_rhs else None
    for first in range(0, batch, DISTINCT):
        a[first : first + DISTINCT] = distinct[: batch - first]
    if b is not None:
        b[:] = rng.uniform(-1, 1, b.shape)
    return Stack(a, b, tuple(rest))


def validate(name: str, job: Job, stack: Stack) -> None:
    """Run the job and check what it found, for up to 2048 matrices: first, last and random ones."""
    for out in stack.outs:
        out.fill(-1)
    results = job.read(job.call())
    chosen = harness.some_of(len(job.a), 2048)
    u = np.finfo(job.a.dtype).eps / 2
    a, rhs = (x if x is None else x[chosen].astype(np.float64) for x in (job.a, stack.b))
    ratio = job.op.check(u, a, rhs, *(np.asarray(x)[chosen].astype(np.float64) for x in results))
    if not (ratio <= 1).all():
        wrong = np.flatnonzero(~(ratio <= 1))
        raise AssertionError(
            f"{name}: {job.words} of {a.shape[-2:]} {job.a.dtype}: {len(wrong)} of {len(a)} are wrong, "
            f"first matrix {chosen[wrong[0]]}, by a factor of {ratio[wrong[0]]:.3g}"
        )

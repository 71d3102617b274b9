"""What `smallmm.bench` and benchmarks/ measure: operations, with their flops and the checks of their results,
and the operands of a case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bounds import BOUNDS, COMPLEX_FACTOR

DTYPES: dict[str, np.dtype] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
NUMBERS = DTYPES | {"c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128)}
DISTINCT = 4093  # random matrices of a larger stack; prime, so that their period is none of the caches'


# --- operations and their checks ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Operation:
    """What is timed, what it costs, and how a result is checked: check(u, a, b, *results) gets stacks in
    float64 or complex128 and the unit roundoff u of the computation, and gives a ratio per matrix, which must
    not exceed 1. `flops` are those of real matrices.

    `results` has a letter for each result, `b` for the second operand, if there is one: "n" a matrix, "1" a
    column, "v" a real vector, "p" pivots, "s" a scalar, "z" a complex matrix, "w" a complex vector.
    """

    name: str
    flops: Callable[[int, int, int], float]  # of (m, k, n); k: right-hand sides
    check: Callable[..., np.ndarray]
    results: str
    b: str = ""
    matrices: str = "general"  # or "definite", "symmetric"
    assume_a: str = ""  # of `solve`: what it is told of them

    @property
    def function(self) -> str:
        return "batched_matmul" if self.name == "matmul" else "solve" if self.assume_a else self.name

    @property
    def options(self) -> dict[str, str]:
        return {"assume_a": self.assume_a} if self.assume_a else {}


def norm(x: np.ndarray) -> np.ndarray:
    """1-norms."""
    return np.abs(x).sum(-2).max(-1)


def adjoint(x: np.ndarray) -> np.ndarray:
    return x.conj().mT


# Of results the largest error, in shares of what smallmm/_tools/bounds.py allows.


def matmul_error(u: float, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Of each element, computed in a precision beyond that of u."""
    wide = np.result_type(a, b, np.longdouble if u < 1e-10 else np.float64)
    a, b = a.astype(wide), b.astype(wide)
    return np.abs(c - a @ b) / (BOUNDS["matmul"](a.shape[-1]) * u * (np.abs(a) @ np.abs(b)))


def _matmul(u: float, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return matmul_error(u, a, b, c).max((-1, -2))


def _lu(u: float, a: np.ndarray, b: None, lu: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    n, every = a.shape[-1], np.arange(len(a))
    a = a.copy()
    for i, p in enumerate(pivots.astype(int).T):
        a[every, i], a[every, p] = a[every, p], a[every, i]
    return norm(a - (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)) / (BOUNDS["lu"](n) * u * norm(a))


def _solve(u: float, a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    return norm(b - a @ x) / (BOUNDS["solve"](a.shape[-1]) * u * (norm(a) * norm(x) + norm(b)))


def _inv(u: float, a: np.ndarray, b: None, x: np.ndarray) -> np.ndarray:
    n = a.shape[-1]
    return norm(a @ x - np.eye(n)) / (BOUNDS["inv"](n) * u * norm(a) * norm(x))


def _det(u: float, a: np.ndarray, b: None, det: np.ndarray) -> np.ndarray:
    exact = np.linalg.det(a)
    allowed = BOUNDS["det"](a.shape[-1]) * u * norm(a) * norm(np.linalg.inv(a)) * np.abs(exact)
    return np.abs(det - exact) / allowed


def _cholesky(u: float, a: np.ndarray, b: None, l: np.ndarray) -> np.ndarray:  # noqa: E741
    """Of l the lower triangle counts."""
    lower = np.tril(l)
    return norm(a - lower @ adjoint(lower)) / (BOUNDS["cholesky"](a.shape[-1]) * u * norm(a))


def _qr(u: float, a: np.ndarray, b: None, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    n = a.shape[-1]
    return np.maximum(norm(a - q @ r) / norm(a), norm(adjoint(q) @ q - np.eye(n))) / (BOUNDS["qr"](n) * u)


def _eigh(u: float, a: np.ndarray, b: None, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    n = a.shape[-1]
    left = norm(a @ v - v * w[..., None, :]) / norm(a)
    return np.maximum(left, norm(adjoint(v) @ v - np.eye(n))) / (BOUNDS["eigh"](n) * u)


def _eigvalsh(u: float, a: np.ndarray, b: None, w: np.ndarray) -> np.ndarray:
    """Half of the bound of residuals is ours, the other half is left to the reference."""
    off = np.abs(w - np.linalg.eigvalsh(a)).max(-1)
    return off / (BOUNDS["eigh"](a.shape[-1]) * u * norm(a))


def _eig(u: float, a: np.ndarray, b: None, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    left = norm(a @ v - v * w[..., None, :]) / norm(a)
    return np.maximum(left, np.abs(np.linalg.norm(v, axis=-2) - 1).max(-1)) / (BOUNDS["eig"](a.shape[-1]) * u)


def _eigvals(u: float, a: np.ndarray, b: None, w: np.ndarray) -> np.ndarray:
    """Each is one of a matrix that is near, and their sum is the trace."""
    n = a.shape[-1]
    off = np.linalg.svdvals(a[..., None, :, :] - w[..., None, None] * np.eye(n))[..., -1].max(-1)
    off = np.maximum(off, np.abs(w.sum(-1) - np.trace(a, axis1=-2, axis2=-1)) / n)
    return off / (BOUNDS["eig"](n) * u * norm(a))


def _svd(u: float, a: np.ndarray, b: None, left: np.ndarray, s: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`right` is V transposed."""
    n = a.shape[-1]
    off = norm(a - (left * s[..., None, :]) @ right) / norm(a)
    for q in (adjoint(left) @ left, right @ adjoint(right)):
        off = np.maximum(off, norm(q - np.eye(n)))
    return off / (BOUNDS["svd"](n) * u)


def _svdvals(u: float, a: np.ndarray, b: None, s: np.ndarray) -> np.ndarray:
    """As `_eigvalsh`."""
    off = np.abs(s - np.linalg.svdvals(a)).max(-1)
    return off / (BOUNDS["svd"](a.shape[-1]) * u * norm(a))


def _by_triangle(m: int, k: int, n: int) -> float:
    """Operations of a factorization of one triangle, and of the solves."""
    return 1 / 3 * n**3 + 2 * n**2 * k


OPERATIONS = {
    op.name: op
    for op in (
        Operation("matmul", lambda m, k, n: 2 * m * k * n, _matmul, "n", b="n"),
        Operation("lu_factor", lambda m, k, n: 2 / 3 * n**3, _lu, "np"),
        Operation("solve", lambda m, k, n: 2 / 3 * n**3 + 2 * n**2 * k, _solve, "1", b="1"),
        Operation("solve_pos", _by_triangle, _solve, "1", b="1", matrices="definite", assume_a="pos"),
        Operation("solve_sym", _by_triangle, _solve, "1", b="1", matrices="symmetric", assume_a="her"),
        Operation("inv", lambda m, k, n: 2 * n**3, _inv, "n"),
        Operation("det", lambda m, k, n: 2 / 3 * n**3, _det, "s"),
        Operation("cholesky", lambda m, k, n: n**3 / 3, _cholesky, "n", matrices="definite"),
        Operation("qr", lambda m, k, n: 8 / 3 * n**3, _qr, "nn"),
        Operation("eigh", lambda m, k, n: 9 * n**3, _eigh, "vn", matrices="symmetric"),
        Operation("eigvalsh", lambda m, k, n: 4 / 3 * n**3 + 40 * n**2, _eigvalsh, "v", matrices="symmetric"),
        Operation("eig", lambda m, k, n: 25 * n**3, _eig, "wz"),
        Operation("eigvals", lambda m, k, n: 10 * n**3, _eigvals, "w"),
        Operation("svd", lambda m, k, n: 16 * n**3, _svd, "nvn"),
        Operation("svdvals", lambda m, k, n: 4 * n**3 + 20 * n**2, _svdvals, "v"),
    )
}


def some_of(batch: int, limit: int) -> np.ndarray:
    """Up to `limit` indices of matrices: the first, the last, and random ones between."""
    if batch <= limit:
        return np.arange(batch)
    ends = np.r_[: limit // 4, batch - limit // 4 : batch]
    return np.unique(np.r_[ends, np.random.default_rng(batch).integers(0, batch, limit // 2)])


def validate(
    what: str,
    op: Operation,
    a: np.ndarray,
    b: np.ndarray | None,
    results: Iterable[np.ndarray],
    limit: int = 2048,
) -> None:
    """Raise AssertionError unless the results are accurate for up to `limit` matrices."""
    results = list(results)
    chosen = some_of(len(results[0]), limit)

    def some(x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x, (len(results[0]), *x.shape[-2:])) if x.ndim == 2 else x

    operands = (x if x is None else _wide(some(x)[chosen]) for x in (a, b))
    factor = COMPLEX_FACTOR if a.dtype.kind == "c" else 1
    ratio = op.check(factor * np.finfo(a.dtype).eps / 2, *operands, *(_wide(x[chosen]) for x in results))
    wrong = np.flatnonzero(~(ratio <= 1))
    if wrong.size:
        raise AssertionError(
            f"{what} of {a.shape[-2:]} {a.dtype}: {wrong.size} of {len(chosen)} matrices are wrong, "
            f"the first {chosen[wrong[0]]}, by a factor of {ratio[wrong[0]]:.3g}"
        )


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.result_type(x, np.float64))


# --- cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stack:
    """The operands of one case: matrices a, right-hand sides b, and room for the results.

    One matrix, without a batch dimension, stands for all. `outs` is empty where a contender makes its own.
    """

    a: Any
    b: Any
    outs: tuple[Any, ...] = ()

    @property
    def operands(self) -> list[Any]:
        return [self.a] if self.b is None else [self.a, self.b]

    @property
    def batch(self) -> int:
        return len(self.outs[0])

    def nbytes(self, batch: int) -> int:
        """The compulsory traffic of so many matrices: operands read once, results written once."""
        return sum(x.nbytes if x.ndim == 2 else x[:batch].nbytes for x in (*self.operands, *self.outs))


def _parts(op: Operation, dtype: str, n: int) -> list[tuple[np.dtype, tuple[int, ...]]]:
    """Of a, b and the results: the type of an element, and the shape of one matrix."""
    shapes: dict[str, tuple[int, ...]] = {"n": (n, n), "1": (n, 1), "v": (n,), "p": (n,), "s": ()}
    shapes |= {"z": (n, n), "w": (n,)}
    number = NUMBERS[dtype]
    pair = np.result_type(number, np.complex64)
    types = {"p": np.dtype(np.int32), "v": np.finfo(number).dtype, "z": pair, "w": pair}
    return [(types.get(kind, number), shapes[kind]) for kind in "n" + op.b + op.results]


def bytes_of(op: Operation, dtype: str, n: int) -> int:
    """Of the operands and the results of one matrix of order n."""
    return sum(real.itemsize * math.prod(shape) for real, shape in _parts(op, dtype, n))


def stack(op: Operation, dtype: str, n: int, batch: int) -> Stack:
    """Matrices uniform in -1 .. 1, or A + A^H, or A A^H + n I of such; right-hand sides uniform in -1 .. 1.
    Both parts of complex numbers are.

    All are parts of one block that begins at a page: how they lie to one another does not depend on chance.
    """
    parts = _parts(op, dtype, n)
    starts = [0]
    for real, shape in parts:
        starts.append(starts[-1] + -(-batch * real.itemsize * math.prod(shape) // 64) * 64)
    block = np.empty(starts[-1] + 4096, np.uint8)
    block = block[-block.ctypes.data % 4096 :]
    a, *rest = (
        block[start : start + batch * real.itemsize * math.prod(shape)].view(real).reshape(batch, *shape)
        for (real, shape), start in zip(parts, starts[:-1], strict=True)
    )
    rng = np.random.default_rng(n)
    distinct = _uniform(rng, (min(batch, DISTINCT), n, n), a.dtype)
    if op.matrices == "symmetric":
        distinct = distinct + adjoint(distinct)
    if op.matrices == "definite":
        distinct = distinct @ adjoint(distinct) + n * np.eye(n)
    _repeat(a, distinct)
    b = rest.pop(0) if op.b else None
    if b is not None:
        _repeat(b, _uniform(rng, (min(batch, DISTINCT), *b.shape[1:]), b.dtype))
    return Stack(a, b, tuple(rest))


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    x = rng.uniform(-1, 1, shape)
    return x + 1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else x


def _repeat(x: np.ndarray, distinct: np.ndarray) -> None:
    for first in range(0, len(x), len(distinct)):
        x[first : first + len(distinct)] = distinct[: len(x) - first]


def sizes_of(op: Operation, x: Stack) -> tuple[int, int, int]:
    """(m, k, n) as the core counts them; k: the inner dimension of products, right-hand sides of solves."""
    m, n = x.a.shape[-2:]
    if op.name == "matmul":
        return m, n, x.b.shape[-1]
    return m, 1 if op.b == "1" else n, n

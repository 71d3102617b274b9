"""Matrices on a device that are too large for the kernels: the linear algebra of the arrays' own library,
PyTorch's, CuPy's or JAX's. Each function does for a stack what the gufunc of its name does. Bits are the
library's, and info is 1 where it finds no answer. And gufuncs that have no kernel: compositions of others."""

from collections.abc import Callable
from functools import partial
from typing import Any

from .._base.later import later
from .._base.shapes import broadcast_shapes, has_kernel
from .._libraries.base import Device


def takes(library: Device, gufunc: str, sizes: dict[str, int], most: int) -> bool:
    """Whether the matrices are too large for the kernels, which end at this order, and the library may take
    them."""
    n = sizes.get("n", 1)
    if gufunc not in FUNCTIONS or has_kernel(sizes.get("m", n), n, most):
        return False
    return library.has_linear_algebra or gufunc in _COMPOSED


def call(library: Device, gufunc: str, operands: dict[str, Any]) -> tuple[Any, ...]:
    """The results of the gufunc, info included."""
    with library.in_own_precision():
        results = FUNCTIONS[gufunc](library, *map(library.with_operations, operands.values()))
        return tuple(map(library.returned, results))


def _per_matrix(x: Any) -> Any:
    return x[..., None, None]


def _finite(xp: Any, x: Any) -> Any:
    return xp.all(xp.isfinite(x), axis=(-2, -1))


def _with_info(xp: Any, bad: Any, *results: Any) -> tuple[Any, ...]:
    """NaN for bad matrices, and info. Results are stacks of matrices or of vectors."""
    answers = []
    for x in results:
        there = bad[(..., *(None,) * (x.ndim - bad.ndim))]
        answers.append(xp.where(there, xp.asarray(float("nan"), dtype=x.dtype, device=x.device), x))
    return *answers, xp.astype(bad, xp.int32)


def _columns(b: Any) -> tuple[Any, bool]:
    """b as a stack of matrices, and whether it was one vector."""
    return (b[:, None], True) if b.ndim == 1 else (b, False)


def _broadcast(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    batch = broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return xp.broadcast_to(a, (*batch, *a.shape[-2:])), xp.broadcast_to(b, (*batch, *b.shape[-2:]))


def _solved(library: Device, a: Any, b: Any) -> tuple[Any, ...]:
    """X of A X = B for any A, which is singular where X is not finite though A and B are."""
    xp = library.namespace
    b, is_vector = _columns(b)
    a, b = _broadcast(xp, a, b)
    x = library.solve(a, b)
    bad = _finite(xp, a) & _finite(xp, b) & ~_finite(xp, x)
    x, info = _with_info(xp, bad, x)
    return (x[..., 0] if is_vector else x), info


def _inverse(library: Device, a: Any) -> tuple[Any, ...]:
    xp = library.namespace
    x = library.inv(a)
    return _with_info(xp, _finite(xp, a) & ~_finite(xp, x), x)


def _triangle(xp: Any, a: Any, upper: bool, unit: bool = False) -> Any:
    if not unit:
        return xp.triu(a) if upper else xp.tril(a)
    one = xp.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return (xp.triu(a, k=1) if upper else xp.tril(a, k=-1)) + one


def _real(xp: Any, x: Any) -> Any:
    return xp.real(x) if xp.isdtype(x.dtype, "complex floating") else x


def _adjoint(xp: Any, x: Any, conjugates: bool = True) -> Any:
    is_complex = xp.isdtype(x.dtype, "complex floating")
    return (xp.conj(x) if conjugates and is_complex else x).mT


def _hermitian(xp: Any, a: Any, upper: bool, hermitian: bool = True) -> Any:
    """The matrix of which one triangle is given."""
    strict = xp.triu(a, k=1) if upper else xp.tril(a, k=-1)
    one = xp.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    diagonal = xp.astype(_real(xp, a), a.dtype) if hermitian else a
    return strict + _adjoint(xp, strict, hermitian) + xp.where(one != 0, diagonal, one)


def _triangular(library: Device, a: Any, b: Any, upper: bool, unit: bool) -> tuple[Any, ...]:
    xp = library.namespace
    triangle = _triangle(xp, a, upper, unit)
    zero = xp.any(xp.linalg.diagonal(triangle) == 0, axis=-1)
    b, is_vector = _columns(b)
    x = library.solve_triangular(*_broadcast(xp, triangle, b), upper)
    x, info = _with_info(xp, xp.broadcast_to(zero, x.shape[:-2]), x)
    return (x[..., 0] if is_vector else x), info


def _cholesky(library: Device, a: Any, upper: bool) -> tuple[Any, ...]:
    xp = library.namespace
    lower, bad = library.cholesky(_hermitian(xp, a, upper))
    return _with_info(xp, bad, _adjoint(xp, lower) if upper else lower)


def _by_factor(library: Device, factor: Any, b: Any, upper: bool) -> Any:
    """X of L L^H X = B by the triangle that is given."""
    xp = library.namespace
    triangle = _triangle(xp, factor, upper)
    lower, b = _broadcast(xp, _adjoint(xp, triangle) if upper else triangle, b)
    y = library.solve_triangular(lower, b, False)
    return library.solve_triangular(_adjoint(xp, lower), y, True)


def _cho_solve(library: Device, factor: Any, b: Any, upper: bool) -> tuple[Any, ...]:
    xp = library.namespace
    zero = xp.any(xp.linalg.diagonal(factor) == 0, axis=-1)
    b, is_vector = _columns(b)
    x = _by_factor(library, factor, b, upper)
    x, _ = _with_info(xp, xp.broadcast_to(zero, x.shape[:-2]), x)
    return (x[..., 0] if is_vector else x,)


def _solve_pos(library: Device, a: Any, b: Any, upper: bool) -> tuple[Any, ...]:
    xp = library.namespace
    lower, bad = library.cholesky(_hermitian(xp, a, upper))
    b, is_vector = _columns(b)
    x = _by_factor(library, lower, b, False)
    x, info = _with_info(xp, xp.broadcast_to(bad, x.shape[:-2]), x)
    return (x[..., 0] if is_vector else x), info


def _solve_sym(library: Device, a: Any, b: Any, upper: bool, hermitian: bool) -> tuple[Any, ...]:
    return _solved(library, _hermitian(library.namespace, a, upper, hermitian), b)


def _determinant(library: Device, a: Any) -> tuple[Any, ...]:
    return (library.namespace.linalg.det(a),)


def _slogdet(library: Device, a: Any) -> tuple[Any, ...]:
    return tuple(library.namespace.linalg.slogdet(a))


def _qr(library: Device, a: Any, mode: str) -> tuple[Any, ...]:
    xp = library.namespace
    if mode != "r":
        return tuple(xp.linalg.qr(a, mode=mode))
    return (xp.linalg.qr(a, mode="reduced")[1],)


def _phases(xp: Any, x: Any) -> Any:
    """What makes the largest element of each column, the first of equals, positive."""
    at = xp.argmax(xp.abs(x), axis=-2, keepdims=True)
    largest = xp.take_along_axis(x, at, axis=-2)
    if xp.isdtype(x.dtype, "complex floating"):
        return xp.conj(largest) / xp.abs(largest)
    return xp.where(largest < 0, -xp.ones_like(largest), xp.ones_like(largest))


def _safe(xp: Any, a: Any) -> tuple[Any, Any]:
    """Zeros for matrices that are not finite, of which no library promises anything, and where those are."""
    wrong = ~_finite(xp, a)
    return xp.where(_per_matrix(wrong), xp.zeros_like(a), a), wrong


def _nan_where(xp: Any, wrong: Any, *results: Any) -> tuple[Any, ...]:
    *answers, info = _with_info(xp, wrong, *results)
    return *answers, xp.zeros_like(info)


def _eigh(library: Device, a: Any, upper: bool, vectors: bool) -> tuple[Any, ...]:
    xp = library.namespace
    a, wrong = _safe(xp, _hermitian(xp, a, upper))
    if not vectors:
        return _nan_where(xp, wrong, xp.linalg.eigvalsh(a))
    w, v = xp.linalg.eigh(a)
    return _nan_where(xp, wrong, w, v * _phases(xp, v))


def _eig(library: Device, a: Any, vectors: bool) -> tuple[Any, ...]:
    xp = library.namespace
    a, wrong = _safe(xp, a)
    w, v = library.eig(a)
    return _nan_where(xp, wrong, w, v * _phases(xp, v)) if vectors else _nan_where(xp, wrong, w)


def _svd(library: Device, a: Any, full: bool) -> tuple[Any, ...]:
    xp = library.namespace
    a, wrong = _safe(xp, a)
    u, s, vh = xp.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    tall = a.shape[-2] >= a.shape[-1]
    phases = _phases(xp, vh.mT if tall else u)[..., :k]
    conjugates = xp.conj(phases) if xp.isdtype(a.dtype, "complex floating") else phases
    of_u, of_v = (conjugates, phases) if tall else (phases, conjugates)
    u = xp.concat([u[..., :k] * of_u, u[..., k:]], axis=-1)
    vh = xp.concat([vh[..., :k, :] * of_v.mT, vh[..., k:, :]], axis=-2)
    return _nan_where(xp, wrong, u, s, vh)


def _svdvals(library: Device, a: Any) -> tuple[Any, ...]:
    xp = library.namespace
    a, wrong = _safe(xp, a)
    return _nan_where(xp, wrong, xp.linalg.svdvals(a))


def _lstsq(library: Device, a: Any, b: Any, rtol: Any) -> tuple[Any, ...]:
    """By singular values, of which those count that exceed `rtol` times the largest."""
    xp = library.namespace
    b, is_vector = _columns(b)
    u, s, vh = xp.linalg.svd(_safe(xp, a)[0], full_matrices=False)
    rtol = rtol[..., None] if getattr(rtol, "ndim", 0) else float(rtol.real)
    counts = s > rtol * s[..., :1]
    inverse = xp.where(counts, 1 / xp.where(counts, s, xp.ones_like(s)), xp.zeros_like(s))
    y = xp.astype(inverse, u.dtype)[..., None] * (_adjoint(xp, u) @ b)
    x = _adjoint(xp, vh) @ y
    norms = library.norms(b - a @ x)
    rank = xp.astype(xp.sum(xp.astype(counts, xp.int32), axis=-1), xp.int32)
    wrong = xp.broadcast_to(~_finite(xp, a), x.shape[:-2])
    x, norms, info = _nan_where(xp, wrong, x, norms)
    rank = xp.where(wrong, xp.zeros_like(rank), xp.broadcast_to(rank, wrong.shape))
    return (x[..., 0], norms[..., 0], rank, info) if is_vector else (x, norms, rank, info)


def _lu_factor(library: Device, a: Any) -> tuple[Any, ...]:
    xp = library.namespace
    lu, pivots = library.lu_factor(a)
    diagonal = xp.linalg.diagonal(lu)
    bad = xp.any((diagonal == 0) | xp.isinf(diagonal), axis=-1)
    lu, info = _with_info(xp, bad, lu)
    return lu, xp.astype(pivots, xp.int32), info


def _lu_solve(library: Device, lu: Any, pivots: Any, b: Any, transposed: bool) -> tuple[Any, ...]:
    """By the triangles, and a permutation that the exchanges make."""
    xp = library.namespace
    n = lu.shape[-1]
    b, is_vector = _columns(b)
    rows = xp.broadcast_to(xp.arange(n, device=lu.device), pivots.shape)
    steps = xp.arange(n, device=lu.device)
    for k in range(n):  # rows k and pivots_k
        there = xp.astype(pivots[..., k : k + 1], rows.dtype)
        of_there = xp.take_along_axis(rows, there, axis=-1)
        rows = xp.where(steps == there, rows[..., k : k + 1], xp.where(steps == k, of_there, rows))
    lower, upper = _triangle(xp, lu, False, unit=True), _triangle(xp, lu, True)
    lower, b = _broadcast(xp, lower, b)
    upper, _ = _broadcast(xp, upper, b)
    batch = b.shape[:-2]
    rows = xp.broadcast_to(rows, (*batch, n))
    if transposed:
        y = library.solve_triangular(lower.mT, library.solve_triangular(upper.mT, b, False), True)
        index = xp.argsort(rows, axis=-1)
    else:
        y, index = b, rows
    y = xp.take_along_axis(y, xp.broadcast_to(index[..., None], y.shape), axis=-2)
    if not transposed:
        y = library.solve_triangular(upper, library.solve_triangular(lower, y, False), True)
    zero = xp.any(xp.linalg.diagonal(lu) == 0, axis=-1)
    x, _ = _with_info(xp, xp.broadcast_to(zero, batch), y)
    return (x[..., 0] if is_vector else x,)


def _mixed(library: Device, a: Any, b: Any, positive: bool) -> tuple[Any, ...]:
    b, is_vector = _columns(b)
    x, codes, info = later("_functions.mixed").refined(positive, library.namespace, a, b)
    return (x[..., 0] if is_vector else x), codes, info


def _expm(library: Device, a: Any) -> tuple[Any, ...]:
    return (library.expm(a),)


_COMPOSED: dict[str, Callable[..., tuple[Any, ...]]] = {
    "solve_mixed": partial(_mixed, positive=False),
    "solve_mixed_pos": partial(_mixed, positive=True),
}
FUNCTIONS: dict[str, Callable[..., tuple[Any, ...]]] = {
    **_COMPOSED,
    "solve": _solved,
    "inv": _inverse,
    "det": _determinant,
    "slogdet": _slogdet,
    **dict.fromkeys(("lu_factor", "lu_factor_tall", "lu_factor_wide"), _lu_factor),
    "lu_solve": partial(_lu_solve, transposed=False),
    "lu_solve_transposed": partial(_lu_solve, transposed=True),
    "solve_lower": partial(_triangular, upper=False, unit=False),
    "solve_upper": partial(_triangular, upper=True, unit=False),
    "solve_unit_lower": partial(_triangular, upper=False, unit=True),
    "solve_unit_upper": partial(_triangular, upper=True, unit=True),
    "qr_tall": partial(_qr, mode="reduced"),
    "qr_complete": partial(_qr, mode="complete"),
    "qr_r_tall": partial(_qr, mode="r"),
    "qr_r_wide": partial(_qr, mode="r"),
    "lstsq": _lstsq,
    "expm": _expm,
    "eig": partial(_eig, vectors=True),
    "eigvals": partial(_eig, vectors=False),
    "svdvals_tall": _svdvals,
    "svdvals_wide": _svdvals,
}
for _ending, _upper in (("", False), ("_upper", True)):
    FUNCTIONS |= {
        f"cholesky{_ending}": partial(_cholesky, upper=_upper),
        f"cho_solve{_ending}": partial(_cho_solve, upper=_upper),
        f"solve_pos{_ending}": partial(_solve_pos, upper=_upper),
        f"solve_sym{_ending}": partial(_solve_sym, upper=_upper, hermitian=False),
        f"solve_her{_ending}": partial(_solve_sym, upper=_upper, hermitian=True),
        f"eigh{_ending}": partial(_eigh, upper=_upper, vectors=True),
        f"eigvalsh{_ending}": partial(_eigh, upper=_upper, vectors=False),
    }
for _side in ("tall", "wide"):
    FUNCTIONS |= {
        f"svd_{_side}": partial(_svd, full=False),
        f"svd_full_{_side}": partial(_svd, full=True),
    }

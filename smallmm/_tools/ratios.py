"""LAPACK's test ratios: residuals of solutions, inverses and factors, in units of roundoff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.composition import identity
from .._base.errors import explain_pivots, shown, wrong_dtype
from .._base.shapes import dtype_of, is_bfloat16, is_number_type
from .._calls.arrays import as_numpy, without_labels
from .._functions.lu import permuted
from .._libraries import library_of, on_device
from .._programs.compose import cast, namespace_of


class _Wide(NamedTuple):
    """Arrays in the precision in which they are judged, their namespace, and the roundoff of the results."""

    xp: Any
    arrays: list[Any]
    u: float


def _wide(op: str, given: dict[str, Any], results: tuple[str, ...]) -> _Wide:
    """u is of the results; of integers and bools as they were computed, in float64."""
    given = {name: without_labels(x) for name, x in given.items()}
    dtypes = {name: _dtype(op, name, x) for name, x in given.items()}
    floats = [dtypes[name] for name in results if dtypes[name].kind not in "biu"]
    u = max(map(_roundoff, floats), default=2.0**-53)
    is_complex = any(dtype.kind == "c" for dtype in dtypes.values())
    where = {on_device(x) for x in given.values()}
    if where == {True}:
        xp = namespace_of(next(iter(given.values())))
        to = "complex128" if is_complex else "float64"
        return _Wide(xp, [cast(xp, x, to) for x in given.values()], u)
    if len(where) > 1:
        raise TypeError(f"{op}: {', '.join(given)} are partly on a device; expected all there, or none")
    wide = np.result_type(
        np.float64 if u > 1e-10 else np.longdouble, np.complex64 if is_complex else np.float32
    )
    return _Wide(np, [as_numpy(op, name, x).astype(wide) for name, x in given.items()], u)


def _dtype(op: str, name: str, x: Any) -> np.dtype:
    try:
        dtype = dtype_of(x)
    except TypeError:  # one that NumPy does not have
        raise wrong_dtype(op, name, x.dtype) from None
    if dtype.kind not in "biuc" and not is_number_type(dtype):
        raise wrong_dtype(op, name, dtype)
    return dtype


def _roundoff(dtype: np.dtype) -> float:
    return 2.0**-8 if is_bfloat16(dtype) else float(np.finfo(dtype).eps) / 2


def _matrices(op: str, name: str, x: Any) -> None:
    if x.ndim < 2:
        raise ValueError(
            f"{op}: {name} has shape {tuple(x.shape)}; expected at least 2 dimensions, (..., m, n)"
        )


def _norm(xp: Any, x: Any) -> Any:
    """The largest column sum of magnitudes of each matrix."""
    if 0 in x.shape[-2:]:
        return xp.sum(xp.abs(x), axis=(-2, -1))
    return xp.max(xp.sum(xp.abs(x), axis=-2), axis=-1)


def _ratio(xp: Any, error: Any, size: Any) -> Any:
    """error / size in float64: no error is 0, whatever the size, and one beside a size of 0 is infinite."""
    with np.errstate(all="ignore"):
        ratio = error / xp.where(error == 0, xp.ones_like(size), size)
    return cast(xp, ratio, "float64")


def _adjoint(xp: Any, x: Any) -> Any:
    return xp.conj(x.mT) if xp.isdtype(x.dtype, "complex floating") else x.mT


def _off_identity(xp: Any, product: Any) -> Any:
    """|I - product|."""
    return _norm(xp, product - identity(xp, product.shape[-1], product))


def _product(op: str, xp: Any, *factors: Any) -> Any:
    product, *others = factors
    for x in others:
        if product.shape[-1] != x.shape[-2]:
            raise ValueError(
                f"{op}: shapes {tuple(product.shape)} and {tuple(x.shape)} do not fit as factors"
            )
        with np.errstate(all="ignore"):
            product = xp.matmul(product, x)
    return product


def _difference(op: str, name: str, a: Any, product: Any) -> Any:
    if a.shape[-2:] != product.shape[-2:]:
        raise ValueError(
            f"{op}: {name} has shape {tuple(a.shape)}; the product is of shape {tuple(product.shape)}"
        )
    with np.errstate(all="ignore"):
        return a - product


def solution(op: str, a: Any, x: Any, b: Any) -> Any:
    xp, (a, x, b), u = _wide(op, {"a": a, "x": x, "b": b}, ("x",))
    _matrices(op, "a", a)
    if x.ndim != b.ndim and 1 in (x.ndim, b.ndim):
        x, b = (y[:, None] if y.ndim == 1 else y for y in (x, b))
    elif x.ndim == b.ndim == 1:
        x, b = x[:, None], b[:, None]
    left = xp.sum(xp.abs(_difference(op, "b", b, _product(op, xp, a, x))), axis=-2)
    size = _norm(xp, a)[..., None] * xp.sum(xp.abs(x), axis=-2) * u
    ratio = _ratio(xp, left, size)
    return xp.max(ratio, axis=-1) if ratio.shape[-1] else xp.sum(ratio, axis=-1)


def inverse_checked(op: str, a: Any, inverse: Any) -> Any:
    xp, (a, x), u = _wide(op, {"a": a, "inverse": inverse}, ("inverse",))
    _matrices(op, "a", a)
    _matrices(op, "inverse", x)
    off = _off_identity(xp, _product(op, xp, a, x))
    return _ratio(xp, off, max(a.shape[-1], 1) * _norm(xp, a) * _norm(xp, x) * u)


def _lu(op: str, a: Any, lu: Any, pivots: Any, u: Any = None) -> Any:
    if np.ndim(u) == np.ndim(pivots):  # not info, which has fewer dimensions
        return _plu(op, a, lu, pivots, u)
    on_host = pivots if not on_device(pivots) else library_of(pivots).to_host(pivots)
    wrong = explain_pivots(op, _core.lu_solve, as_numpy(op, "pivots", on_host))
    if wrong is not None:
        raise wrong
    xp, (a, lu), u = _wide(op, {"a": a, "LU": lu}, ("LU",))
    _matrices(op, "a", a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = xp.tril(lu[..., :k], k=-1) + identity(xp, m, lu)[:, :k]
    product = _product(op, xp, lower, xp.triu(lu[..., :k, :]))
    moved = permuted(xp, pivots, a) if on_device(pivots) else _permuted(a, as_numpy(op, "pivots", pivots))
    size = max(n, 1) * _norm(xp, a) * u
    return _ratio(xp, _norm(xp, _difference(op, "a", moved, product)), size)


def _plu(op: str, a: Any, p: Any, lower: Any, upper: Any) -> Any:
    """A = P L U; indices p say that row i of A is row p_i of L U."""
    indices = np.ndim(p) < np.ndim(lower)
    xp, (a, p, lower, upper), u = _wide(op, {"a": a, "P": p, "L": lower, "U": upper}, ("L", "U"))
    _matrices(op, "a", a)
    _matrices(op, "L", lower)
    if indices:
        p = p[..., None] == xp.cumsum(xp.ones_like(p), axis=-1)[..., None, :] - 1
        p = xp.where(p, xp.ones_like(lower[..., :1]), xp.zeros_like(lower[..., :1]))
    off = _norm(xp, _difference(op, "a", a, _product(op, xp, p, lower, upper)))
    return _ratio(xp, off, max(a.shape[-1], 1) * _norm(xp, a) * u)


def _permuted(a: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """P A: the rows exchanged in turn."""
    batch = np.broadcast_shapes(a.shape[:-2], pivots.shape[:-1])
    a = np.broadcast_to(a, batch + a.shape[-2:]).copy()
    pivots = np.broadcast_to(pivots, batch + pivots.shape[-1:])
    for i in range(pivots.shape[-1]):
        at = pivots[..., i, None, None].astype(np.intp)
        row = np.take_along_axis(a, at, -2)
        np.put_along_axis(a, at, a[..., i : i + 1, :], -2)
        a[..., i : i + 1, :] = row
    return a


def _cholesky(op: str, a: Any, c: Any, lower: bool | None = None) -> Any:
    xp, (a, c), u = _wide(op, {"a": a, "c": c}, ("c",))
    _matrices(op, "a", a)
    _matrices(op, "c", c)
    if lower is None:
        lower = bool(xp.all(xp.triu(c, k=1) == 0)) or not bool(xp.all(xp.tril(c, k=-1) == 0))
    c = xp.tril(c) if lower else _adjoint(xp, xp.triu(c))
    off = _norm(xp, _difference(op, "a", a, _product(op, xp, c, _adjoint(xp, c))))
    return _ratio(xp, off, max(a.shape[-1], 1) * _norm(xp, a) * u)


def _ldl(op: str, a: Any, ld: Any, pivots: Any) -> Any:
    """L D L^H is formed backwards: each step undoes what the elimination of its block did."""
    a, ld, pivots = (library_of(x).to_host(x) if on_device(x) else x for x in (a, ld, pivots))
    _, (a, ld), u = _wide(op, {"a": a, "LD": ld}, ("LD",))
    p = as_numpy(op, "pivots", pivots).astype(np.intp)
    _matrices(op, "a", a)
    _matrices(op, "LD", ld)
    n = ld.shape[-1]
    if p.shape[-1:] != (n,):
        raise ValueError(f"{op}: pivots has shape {p.shape}; expected (..., {n})")
    if not np.triu(ld, 1).any() or np.tril(ld, -1).any():
        whole = a
    else:  # rows and columns in reverse order
        whole, ld = a[..., ::-1, ::-1], ld[..., ::-1, ::-1]
        p = np.where(p > 0, n + 1 - p, -(n + 1) - p)[..., ::-1]
    starts = np.zeros((*p.shape[:-1], n + 1), bool)  # the last stands for the one before the first
    for k in range(n):
        starts[..., k] = (p[..., k] < 0) & ~starts[..., k - 1]
    starts = starts[..., :n]
    last = np.arange(n) + starts
    rows = abs(p) - 1
    alone = starts[..., :-1] & (p[..., :-1] != p[..., 1:])
    if alone.any() or (rows < last).any() or (rows >= n).any() or (last >= n).any():
        raise ValueError(f"{op}: pivots are none that ldl_factor gives for matrices of order {n}")
    return np.minimum(*(_ldl_product(op, whole, ld, starts, rows, turn, u) for turn in (np.conj, np.asarray)))


def _ldl_product(
    op: str, a: Any, ld: Any, starts: np.ndarray, rows: np.ndarray, turn: Callable[..., Any], u: float
) -> Any:
    n = ld.shape[-1]
    below = np.arange(n)[:, None] - np.arange(n)
    in_block = starts[..., None, :] & (below == 1)
    of_l = np.where((below > 0) & ~in_block, ld, 0)
    beside = np.where(in_block, ld, 0)
    x = np.where(below == 0, ld, 0) + beside + turn(beside).mT
    with np.errstate(all="ignore"):
        for k in reversed(range(n)):
            column = of_l[..., k : k + 1]
            x = x + column * x[..., k : k + 1, :]
            x = x + x[..., k : k + 1] * turn(column).mT
            if k and starts[..., k - 1].all():
                continue
            ends = starts[..., k - 1] if k else np.zeros(starts.shape[:-1], bool)
            last, row = k + starts[..., k], np.where(ends, k, rows[..., k])
            order = np.broadcast_to(np.arange(n), (*starts.shape[:-1], n)).copy()
            np.put_along_axis(order, last[..., None], row[..., None], -1)
            np.put_along_axis(order, row[..., None], last[..., None], -1)
            x = np.take_along_axis(np.take_along_axis(x, order[..., :, None], -2), order[..., None, :], -1)
    return _ratio(np, _norm(np, _difference(op, "a", a, x)), max(n, 1) * _norm(np, a) * u)


def _formed(op: str, xp: Any, h: Any, tau: Any) -> tuple[Any, Any]:
    """Q and R of reflectors, as geqrf leaves them, transposed."""
    h = h.mT
    m, k = h.shape[-2], tau.shape[-1]
    v = xp.tril(h[..., :k], k=-1) + identity(xp, m, h)[:, :k]
    q = identity(xp, m, h)
    for i in reversed(range(k)):
        one = v[..., i : i + 1]
        q = q - tau[..., i, None, None] * _product(op, xp, one, _product(op, xp, _adjoint(xp, one), q))
    return q, h


def _with_orthogonal(op: str, xp: Any, a: Any, product: Any, n: int, u: float, *factors: Any) -> Any:
    """The largest of |A - product| / (n |A| u) and, of each orthogonal factor, |I - Q^H Q| / (n u)."""
    ratio = _ratio(xp, _norm(xp, _difference(op, "a", a, product)), n * _norm(xp, a) * u)
    for q in factors:
        off = _off_identity(xp, _product(op, xp, _adjoint(xp, q), q))
        ratio = xp.maximum(ratio, cast(xp, off / (n * u), "float64"))
    return ratio


def _qr(op: str, a: Any, q: Any, r: Any) -> Any:
    raw = np.ndim(r) < np.ndim(q)
    xp, (a, q, r), u = _wide(op, {"a": a, "Q": q, "R": r}, ("Q", "R"))
    _matrices(op, "a", a)
    if raw:
        q, r = _formed(op, xp, q, r)
    product = _product(op, xp, q, xp.triu(r))
    return _with_orthogonal(op, xp, a, product, max(a.shape[-2], 1), u, q)


def _eigh(op: str, a: Any, w: Any, v: Any) -> Any:
    xp, (a, w, v), u = _wide(
        op, {"a": a, "eigenvalues": w, "eigenvectors": v}, ("eigenvalues", "eigenvectors")
    )
    _matrices(op, "a", a)
    product = _product(op, xp, v * w[..., None, :], _adjoint(xp, v))
    return _with_orthogonal(op, xp, a, product, max(a.shape[-1], 1), u, v)


def _eig(op: str, a: Any, w: Any, v: Any) -> Any:
    xp, (a, w, v), u = _wide(
        op, {"a": a, "eigenvalues": w, "eigenvectors": v}, ("eigenvalues", "eigenvectors")
    )
    _matrices(op, "a", a)
    n = max(a.shape[-1], 1)
    off = _norm(xp, _difference(op, "A V", _product(op, xp, a, v), v * w[..., None, :]))
    off_one = xp.abs(xp.sqrt(xp.sum(xp.abs(v) ** 2, axis=-2)) - 1)
    worst = xp.max(off_one, axis=-1) if v.shape[-1] else xp.sum(off_one, axis=-1)
    return xp.maximum(
        _ratio(xp, off, n * _norm(xp, a) * _norm(xp, v) * u),
        cast(xp, worst / (n * u), "float64"),
    )


def _svd(op: str, a: Any, left: Any, s: Any, right: Any) -> Any:
    xp, (a, left, s, right), u = _wide(op, {"a": a, "U": left, "S": s, "Vh": right}, ("U", "S", "Vh"))
    _matrices(op, "a", a)
    k, larger = s.shape[-1], max(*a.shape[-2:], 1)
    product = _product(op, xp, left[..., :k] * s[..., None, :], right[..., :k, :])
    return _with_orthogonal(op, xp, a, product, larger, u, left, _adjoint(xp, right))


class _Kind(NamedTuple):
    function: Callable[..., Any]
    fields: tuple[tuple[str, ...], ...]  # the names that libraries give the factors
    what: str


_KINDS = {
    "lu": _Kind(_lu, (("LU", "pivots"), ("P", "L", "U")), "|P A - L U| / (n |A| u)"),
    "cholesky": _Kind(_cholesky, (("c", "lower"), ("L",)), "|A - L L^H| / (n |A| u)"),
    "ldl": _Kind(_ldl, (("LD", "pivots"),), "|A - L D L^H| / (n |A| u)"),
    "qr": _Kind(
        _qr, (("Q", "R"), ("h", "tau")), "the largest of |A - Q R| / (m |A| u) and |I - Q^H Q| / (m u)"
    ),
    "eigh": _Kind(
        _eigh,
        (("eigenvalues", "eigenvectors"),),
        "the largest of |A - V diag(w) V^H| / (n |A| u) and |I - V^H V| / (n u)",
    ),
    "eig": _Kind(
        _eig,
        (("eigenvalues", "eigenvectors"),),
        "the largest of |A V - V diag(w)| / (n |A| |V| u) and ||v| - 1| / (n u), v the columns of V",
    ),
    "svd": _Kind(
        _svd,
        (("U", "S", "Vh"),),
        "the largest of |A - U diag(s) Vh| / (k |A| u), |I - U^H U| / (k u) and |I - Vh Vh^H| / (k u)",
    ),
}


def _kind_of(op: str, factors: Any) -> str:
    if not isinstance(factors, tuple | list):
        return "cholesky"
    for name, kind in _KINDS.items():
        if any(all(hasattr(factors, field) for field in fields) for fields in kind.fields):
            return "eig" if name == "eigh" and "eigh" not in type(factors).__name__.lower() else name
    raise ValueError(f"{op}: kind is None and factors is a plain tuple; expected one of {', '.join(_KINDS)}")


def factors_checked(op: str, a: Any, factors: Any, kind: str | None) -> tuple[Any, str]:
    if kind is None:
        kind = _kind_of(op, factors)
    elif kind not in _KINDS:
        raise ValueError(f"{op}: kind is {shown(kind)}; expected one of {', '.join(_KINDS)}")
    function, known, what = _KINDS[kind]
    parts = factors if isinstance(factors, tuple | list) else (factors,)
    for fields in known:
        if all(hasattr(factors, field) for field in fields):
            parts = tuple(getattr(factors, field) for field in fields)
            if fields == ("LU", "pivots") and type(factors).__module__ == "torch.return_types":
                parts = parts[0], parts[1] - 1
    if len(parts) < min(map(len, known)):
        raise ValueError(f"{op}: factors has {len(parts)} parts; expected ({', '.join(known[0])})")
    return function(op, a, *parts[: max(map(len, known))]), what

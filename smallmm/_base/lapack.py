"""Matrices that no kernel takes, one at a time through the LAPACK of SciPy or NumPy. Each function does for
one matrix what the gufunc of its name does; nothing here is fast."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import ceil, factorial, frexp, inf, isfinite, log2
from typing import Any, NamedTuple

import numpy as np

from .shapes import (
    MOST_ORDER,
    arithmetic,
    fixed_signature,
    has_kernel,
    is_complex,
    is_rectangular,
    output_dtypes,
    output_shapes,
    without_ones,
)


def takes(gufunc: np.ufunc, operands: dict[str, Any]) -> bool:
    """Whether the first operand's matrices are too large for the gufunc, which then raises ValueError."""
    if gufunc.__name__ not in FALLBACKS:
        return False
    m, n = np.shape(next(iter(operands.values())))[-2:]
    return is_rectangular(gufunc) or not has_kernel(m, n)


def call(op: str, gufunc: np.ufunc, operands: dict[str, Any], outs: dict[str, Any]) -> Any:
    """``gufunc(*operands.values(), *outs.values())``, whatever the order."""
    dtypes = output_dtypes(gufunc, operands, {})
    computed = np.empty(0, arithmetic(dtypes[0])).real.dtype  # results of real matrices may be complex
    if any(map(is_complex, operands.values())):
        computed = np.result_type(computed, np.complex64)
    arrays = [np.asarray(x) for x in operands.values()]
    named = dict(zip(operands, arrays, strict=True))
    given = [x.dtype if name == "pivots" else computed for name, x in named.items()]
    function = FALLBACKS[gufunc.__name__].function

    def of_one(*matrices: np.ndarray) -> Any:
        """Converted one at a time: the whole stack would take memory, and time without interrupts."""
        return function(*(x.astype(dtype, copy=False) for x, dtype in zip(matrices, given, strict=True)))

    one = np.vectorize(of_one, [arithmetic(x) for x in dtypes], signature=fixed_signature(gufunc, operands))
    try:
        with np.errstate(all="ignore"):
            results = one(*without_ones(gufunc, named))  # vectorize takes 32 batch dimensions
    except ImportError as error:
        shape, square = arrays[0].shape[-2:], " of square matrices" * is_rectangular(gufunc)
        raise ImportError(
            f"{op}: matrices of shape {shape} are beyond smallmm's kernels, which go to order "
            f"{MOST_ORDER}{square}, and SciPy, which would take them, is not installed: "
            "pip install 'smallmm[large]'"
        ) from error
    results = results if gufunc.nout > 1 else (results,)
    with np.errstate(all="ignore"):
        results = [x.astype(dtype, copy=False) for x, dtype in zip(results, dtypes, strict=True)]
    results = map(np.reshape, results, output_shapes(gufunc, named))
    targets = (*outs.values(), *(None,) * gufunc.nout)
    results = tuple(_written(out, result) for out, result in zip(targets, results, strict=False))
    return results if gufunc.nout > 1 else results[0]


def _written(out: np.ndarray | None, result: np.ndarray) -> Any:
    if out is None:
        return result[()]  # a scalar for one matrix, as gufuncs give it
    np.copyto(out, result, casting="same_kind")
    return out


def _lapack(name: str, *arrays: np.ndarray) -> Callable[..., Any]:
    from scipy.linalg.lapack import get_lapack_funcs

    return get_lapack_funcs((name,), arrays)[0]


def _nan_like(x: np.ndarray) -> np.ndarray:
    return np.full_like(x, complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan)


def _lu_factor(a: np.ndarray) -> Any:
    if a.size == 0:
        return a, np.zeros(min(a.shape)), 0
    lu, pivots, info = _lapack("getrf", a)(a)
    infinite = np.isinf(lu.diagonal())  # what overflowed is divided by it, and finite again
    if infinite.any() and not 0 < info <= infinite.argmax():
        info = infinite.argmax() + 1
    if info > 0:
        pivots[info - 1 :] = np.arange(info - 1, len(pivots))
        lu = _nan_like(lu)
    return lu, pivots, info


def _lu_solve(lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, trans: int = 0) -> Any:
    if b.size == 0:
        return b
    return _lapack("getrs", lu, b)(lu, pivots, b, trans=trans)[0]


def _lu_solve_transposed(lu: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> Any:
    return _lu_solve(lu, pivots, b, trans=1)


def _solve(a: np.ndarray, b: np.ndarray) -> Any:
    lu, pivots, info = _lu_factor(a)
    return (_nan_like(b) if info else _lu_solve(lu, pivots, b)), info


def _inv(a: np.ndarray) -> Any:
    lu, pivots, info = _lu_factor(a)
    return (lu if info else _lapack("getri", lu)(lu, pivots)[0]), info


def _lu_rcond(norm: str) -> Callable[..., Any]:
    def rcond(lu: np.ndarray, pivots: np.ndarray, norm_a: np.ndarray) -> Any:
        if np.isnan(norm_a) or np.isnan(lu).any():
            return np.nan
        return _lapack("gecon", lu)(lu, norm_a.real, norm=norm)[0] if norm_a and lu.diagonal().all() else 0

    return rcond


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x as a sum of two numbers of half its digits (Veltkamp)."""
    far = x * (2 ** (np.finfo(x.dtype).nmant // 2 + 1) + 1)
    high = far - (far - x)
    return high, x - high


def _size(x: np.ndarray) -> np.ndarray:
    """Magnitudes, of complex numbers |re| + |im|, as LAPACK's cabs1."""
    return np.abs(x.real) + np.abs(x.imag)


def _residual(a: np.ndarray, x: np.ndarray, b: np.ndarray, extra: bool) -> np.ndarray:
    """b - A x of columns, or of one; `extra`: by error-free transformations, products by Dekker's."""
    if not extra:
        return b - a @ x
    if a.dtype.kind == "c":
        parts = np.concatenate([x.real, x.imag])
        re = _residual(np.concatenate([a.real, -a.imag], 1), parts, b.real, True)
        return re + 1j * _residual(np.concatenate([a.imag, a.real], 1), parts, b.imag, True)
    total, rest = b.copy(), np.zeros_like(b)
    for of_a, of_x in zip(a.T, x, strict=True):
        column = of_a.reshape(-1, *(1,) * (x.ndim - 1))
        (a1, a2), (x1, x2) = _halves(column), _halves(of_x)
        p = column * of_x
        of_product = ((p - a1 * x1) - a1 * x2 - a2 * x1) - a2 * x2
        following = total - p
        moved = following - total
        rest += (total - (following - moved)) - (p + moved) + of_product
        total = following
    return total + rest


def _backward_error(normwise: bool, extra: bool) -> Callable[..., Any]:
    def error(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> Any:
        left = _residual(a, x, b, extra)
        if normwise:
            left = np.abs(left)
            size = np.abs(a).sum(-1).max() * np.abs(x).max(0) + np.abs(b).max(0)
            left = left.max(0)
            return np.where(left == 0, 0, left / size)
        left, size = _size(left), _size(a) @ _size(x) + _size(b)
        small = (len(a) + 1) * np.finfo(a.dtype).tiny
        add = np.where(size > small / (np.finfo(a.dtype).eps / 2), 0, small)
        return np.where(left == 0, 0, (left + add) / (size + add)).max(0)

    return error


def _refine(extra: bool) -> Callable[..., Any]:
    """gerfs, which SciPy does not have; the norm of its bound by the inverse itself."""
    error = _backward_error(normwise=False, extra=extra)

    def column(a: np.ndarray, lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, x: np.ndarray) -> Any:
        u = np.finfo(a.dtype).eps / 2
        last = np.inf if extra else 3
        for step in range(11 if extra else 6):
            r, berr = _residual(a, x, b, extra), error(a, x, b)
            d = _lu_solve(lu, pivots, r)
            size, least = (np.abs(d).max(), u * np.abs(x).max()) if extra else (berr, u)
            if not (size > least and 2 * size <= last) or step == (10 if extra else 5):
                break
            x, last = x + d, size
        terms = 2 if a.dtype.kind == "c" else 1
        c = (terms * (len(a) + 1) * u) ** (2 if extra else 1)
        bound = _size(r) + c * (_size(a) @ _size(x) + _size(b))
        inverse = _lu_solve(lu, pivots, np.eye(len(a), dtype=a.dtype))
        ferr = (np.abs(inverse) @ bound).max() / (np.abs(x).max() or 1)
        return x, ferr + terms * u * extra, berr

    def refine(a: np.ndarray, lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, x: np.ndarray) -> Any:
        if not lu.diagonal().all():
            return _nan_like(x), _nan_like(x[0].real), _nan_like(x[0].real)
        if x.ndim == 1:
            return column(a, lu, pivots, b, x)
        parts = [column(a, lu, pivots, *y) for y in zip(b.T, x.T, strict=True)]
        if not parts:
            return x, x[0].real, x[0].real
        columns, ferr, berr = map(np.array, zip(*parts, strict=True))
        return columns.T, ferr, berr

    return refine


def _slogdet(a: np.ndarray) -> Any:
    sign, logabsdet = np.linalg.slogdet(a)
    return (logabsdet if np.isnan(logabsdet) else sign), logabsdet


def _cholesky(a: np.ndarray, lower: bool = True) -> Any:
    c, info = _lapack("potrf", a)(a, lower=lower, clean=True)
    nan = np.isnan(c.diagonal())
    if info == 0 and nan.any():  # which some libraries do not look for
        info = nan.argmax() + 1
    return (_nan_like(c) if info else c), info


def _cholesky_upper(a: np.ndarray) -> Any:
    return _cholesky(a, lower=False)


def _cho_solve(c: np.ndarray, b: np.ndarray, lower: bool = True) -> Any:
    if b.size == 0:
        return b
    return _lapack("potrs", c, b)(c, b, lower=lower)[0]


def _cho_solve_upper(c: np.ndarray, b: np.ndarray) -> Any:
    return _cho_solve(c, b, lower=False)


def _solve_pos(lower: bool) -> Callable[..., Any]:
    def solve(a: np.ndarray, b: np.ndarray) -> Any:
        c, info = _cholesky(a, lower)
        return (_nan_like(b) if info else _cho_solve(c, b, lower)), info

    return solve


def _ldl_factor(a: np.ndarray, lower: bool = True, hermitian: bool = True) -> Any:
    if a.size == 0:
        return a, np.zeros(len(a)), 0
    is_hermitian = hermitian and a.dtype.kind == "c"
    ld, pivots, info = _lapack("hetrf" if is_hermitian else "sytrf", a)(a, lower=lower)
    ld = np.tril(ld) if lower else np.triu(ld)
    bad = ~np.isfinite(ld).all(axis=0)  # of which sytrf says nothing
    info = info or (bad.any() and 1 + (bad.argmax() if lower else len(bad) - 1 - bad[::-1].argmax()))
    return (_nan_like(ld) if info else ld), pivots, info


def _ldl_solve(
    ld: np.ndarray, pivots: np.ndarray, b: np.ndarray, lower: bool = True, hermitian: bool = True
) -> Any:
    """As sytrs and hetrs, which SciPy has from 1.17 on. An upper triangle is a lower one turned round."""
    n, pivots = len(ld), pivots.astype(np.int64)
    if not lower:
        turned = np.where(pivots > 0, n + 1 - pivots, -(n + 1) - pivots)[::-1]
        given = np.where(abs(pivots[::-1]) <= n, turned, 0)
        x, info = _ldl_solve(ld[::-1, ::-1], given, b[::-1], hermitian=hermitian)
        return x[::-1], info and -(n + 1 + info)
    x = b.copy()
    d = ld.diagonal().real if hermitian else ld.diagonal()
    blocks: list[int] = []
    while sum(blocks) < n:
        k = sum(blocks)
        order, row = (1, pivots[k] - 1) if pivots[k] > 0 else (2, -pivots[k] - 1)
        last = k + order - 1
        if not last <= row < n or pivots[min(last, n - 1)] != pivots[k]:
            return _nan_like(x), -(k + 1)
        x[[last, row]] = x[[row, last]]
        x[last + 1 :] -= ld[last + 1 :, k : last + 1] @ x[k : last + 1]
        if order == 1:
            x[k] /= d[k]
        else:
            e = ld[last, k]
            right = e.conj() if hermitian else e
            d0, d1, y0, y1 = d[k] / right, d[last] / e, x[k] / right, x[last] / e
            x[k], x[last] = (d1 * y0 - y1) / (d0 * d1 - 1), (d0 * y1 - y0) / (d0 * d1 - 1)
        blocks.append(order)
    for order in blocks[::-1]:
        k = sum(blocks) - order
        last = blocks.pop() + k - 1
        below = ld[last + 1 :, k : last + 1]
        x[k : last + 1] -= (below.conj() if hermitian else below).T @ x[last + 1 :]
        row = abs(pivots[k]) - 1
        x[[last, row]] = x[[row, last]]
    return x, 0


def _solve_by_ldl(lower: bool, hermitian: bool) -> Callable[..., Any]:
    def solve(a: np.ndarray, b: np.ndarray) -> Any:
        ld, pivots, info = _ldl_factor(a, lower, hermitian)
        return (_nan_like(b) if info else _ldl_solve(ld, pivots, b, lower, hermitian)[0]), info

    return solve


def _triangular(lower: bool, unit: bool) -> Callable[..., Any]:
    def solve(a: np.ndarray, b: np.ndarray) -> Any:
        if b.size == 0:
            zeros = np.flatnonzero(a.diagonal() == 0)
            return b, 0 if unit or not zeros.size else zeros[0] + 1
        x, info = _lapack("trtrs", a, b)(a, b, lower=lower, unitdiag=unit)
        return (_nan_like(b) if info else x), info

    return solve


def _qr(mode: str) -> Callable[..., Any]:
    def qr(a: np.ndarray) -> Any:
        from scipy.linalg import qr

        result = qr(a, mode=mode, check_finite=False)
        return result if mode in ("full", "economic") else result[0]

    return qr


def _qr_r_tall(a: np.ndarray) -> Any:
    return _qr("r")(a)[: a.shape[1]]


def _lstsq(a: np.ndarray, b: np.ndarray, rtol: np.ndarray) -> Any:
    from scipy.linalg import lstsq

    if not (np.isfinite(a).all() and np.isfinite(b).all()):  # of which gelsy promises nothing
        return _nan_like(np.empty((a.shape[1], *b.shape[1:]), b.dtype)), np.full(b.shape[1:], np.nan), 0, 0
    if b.size == 0:  # the rank is asked for all the same
        return np.empty((a.shape[1], 0)), np.empty(0), _lstsq(a, np.zeros(len(b)), rtol)[2], 0
    x, _, rank, _ = lstsq(a, b, cond=rtol.real, lapack_driver="gelsy", check_finite=False)
    return x, np.linalg.norm(b - a @ x, axis=0), rank, 0


def _triangle(a: np.ndarray) -> np.ndarray:
    """The lower triangle of a Hermitian matrix, of whose diagonal only real parts count."""
    a = np.tril(a)
    np.fill_diagonal(a, a.diagonal().real)
    return a


def _phases(x: np.ndarray) -> np.ndarray:
    """What makes the largest element of each column, the first of equals, positive."""
    largest = np.take_along_axis(x, np.abs(x).argmax(axis=0)[None], axis=0)
    if x.dtype.kind == "c":
        return largest.conj() / np.abs(largest)
    return np.where(largest < 0, -1, 1).astype(x.dtype)


def _eigh(a: np.ndarray) -> Any:
    a = _triangle(a)
    if np.isfinite(a).all():  # LAPACK promises nothing of others
        with suppress(np.linalg.LinAlgError):
            w, v = np.linalg.eigh(a)
            return w, v * _phases(v), 0
        return _nan_like(a[0].real), _nan_like(a), 1
    return _nan_like(a[0].real), _nan_like(a), 0


def _eigvalsh(a: np.ndarray) -> Any:
    a = _triangle(a)
    if np.isfinite(a).all():
        with suppress(np.linalg.LinAlgError):
            return np.linalg.eigvalsh(a), 0
        return _nan_like(a[0].real), 1
    return _nan_like(a[0].real), 0


def _as_complex(x: np.ndarray) -> np.ndarray:
    return x.astype(np.result_type(x, np.complex64), copy=False)


def _eig(a: np.ndarray) -> Any:
    if np.isfinite(a).all():
        with suppress(np.linalg.LinAlgError):
            w, v = map(_as_complex, np.linalg.eig(a))
            return w, v * _phases(v), 0
        return _nan_like(_as_complex(a[0])), _nan_like(_as_complex(a)), 1
    return _nan_like(_as_complex(a[0])), _nan_like(_as_complex(a)), 0


def _eigvals(a: np.ndarray) -> Any:
    if np.isfinite(a).all():
        with suppress(np.linalg.LinAlgError):
            return _as_complex(np.linalg.eigvals(a)), 0
        return _nan_like(_as_complex(a[0])), 1
    return _nan_like(_as_complex(a[0])), 0


def _svd(full_matrices: bool) -> Callable[..., Any]:
    def svd(a: np.ndarray) -> Any:
        m, n = a.shape
        info = 0
        if np.isfinite(a).all():  # LAPACK promises nothing of others
            try:
                u, s, vt = np.linalg.svd(a, full_matrices=full_matrices)
            except np.linalg.LinAlgError:
                info = 1
            else:
                fewer = vt.T if m >= n else u
                phases = _phases(fewer)[0]
                u[:, : len(s)] *= phases.conj() if m >= n else phases
                vt[: len(s)] *= (phases if m >= n else phases.conj())[:, None]
                return u, s, vt, 0
        k = min(m, n)
        shapes = (m, m if full_matrices else k), (k,), (n if full_matrices else k, n)
        u, s, vt = (np.empty(shape, x.dtype) for shape, x in zip(shapes, (a, a.real, a), strict=True))
        return _nan_like(u), _nan_like(s), _nan_like(vt), info

    return svd


def _svdvals(a: np.ndarray) -> Any:
    if np.isfinite(a).all():
        with suppress(np.linalg.LinAlgError):
            return np.linalg.svd(a, compute_uv=False), 0
        return np.full(min(a.shape), np.nan, a.real.dtype), 1
    return np.full(min(a.shape), np.nan, a.real.dtype), 0


PADE = {"float32": (7, 3.925724783138660), "float64": (13, 4.25)}  # the degree m and the largest norm


def _expm(a: np.ndarray) -> Any:
    """As csrc/exponential.h."""
    info = np.finfo(a.dtype)
    m, theta = PADE[info.dtype.name]
    size = float(np.abs(a).sum(0).max())
    if not isfinite(size):
        return _nan_like(a)
    exponent = min(max(frexp(size)[1], 0), info.maxexp - 2)
    t = a * info.dtype.type(2.0**-exponent)
    t2 = t @ t
    t4 = t2 @ t2
    t6 = t4 @ t2
    s = 0 if size <= theta else _squarings(m, theta, size, exponent, t, t4, t6)
    growth = 2.0 ** (exponent - s)
    powers = [np.eye(len(a)), *(x * info.dtype.type(growth**k) for k, x in ((2, t2), (4, t4), (6, t6)))]
    b = [factorial(2 * m - k) // (factorial(m - k) * factorial(k)) for k in range(m + 1)]
    b = [info.dtype.type(x / b[0]) for x in b]  # no term is much larger than A
    even, odd = (sum(map(np.multiply, b[first:8:2], powers)) for first in (0, 1))
    if m > 7:
        even += powers[3] @ sum(map(np.multiply, b[8::2], powers[1:]))
        odd += powers[3] @ sum(map(np.multiply, b[9::2], powers[1:]))
    u = (t * info.dtype.type(growth)) @ odd
    x = np.linalg.solve(even - u, even + u)
    corrections = [way for way in (np.transpose, np.asarray) if not np.tril(way(a), -1).any()]
    for left in range(s, -1, -1):
        if left < s:
            x = x @ x
        for way in corrections:
            _correct(way(x), way(a), 2.0**-left)
    return x


def _squarings(
    m: int, theta: float, size: float, exponent: int, t: np.ndarray, t4: np.ndarray, t6: np.ndarray
) -> int:
    """How many there are: smm_squarings_of."""
    d6, d8, d10 = (
        log2(norm) / k if (norm := float(np.abs(x).sum(0).max())) else -inf
        for k, x in ((6, t6), (8, t4 @ t4), (10, t6 @ t4))
    )
    bounds = [max(d6, d8), *([max(d8, d10)] if m > 7 else [])]
    last = float(np.linalg.matrix_power(np.abs(t).astype(np.float64), 2 * m + 1).sum(0).max())
    c = factorial(m) ** 2 / (factorial(2 * m) * factorial(2 * m + 1))
    alpha = c * last / (size * 2.0**-exponent) / (np.finfo(t.dtype).eps / 2)
    needed = [min(bounds) - log2(theta), log2(alpha) / (2 * m) if alpha else -inf]
    most = ceil(log2(size / theta))
    return max(
        0, exponent - (160 if m > 7 else 20), *(min(most, ceil(x + exponent)) for x in needed if x > -inf)
    )


def _correct(x: np.ndarray, a: np.ndarray, factor: float) -> None:
    """The diagonal of the exponential of an upper triangle, and what is above it."""
    w = a.diagonal() * a.dtype.type(factor)
    ascends = w[:-1].real < w[1:].real
    most, d = np.where(ascends, w[1:], w[:-1]), np.where(ascends, w[:-1] - w[1:], w[1:] - w[:-1])
    ratio = np.where(d == 0, 1, np.expm1(d) / np.where(d == 0, 1, d))
    above = a.diagonal(1)
    n = len(x)
    x[np.tril_indices(n, -1)] = 0
    x[np.arange(n), np.arange(n)] = np.exp(w)
    x[np.arange(n - 1), np.arange(1, n)] = np.where(
        above == 0, 0, above * a.dtype.type(factor) * np.exp(most) * ratio
    )


class Fallback(NamedTuple):
    """What takes the place of a gufunc, for one matrix."""

    routine: str  # of LAPACK, which does the work
    function: Callable[..., Any]


FALLBACKS = {
    "lu_factor": Fallback("getrf", _lu_factor),
    "lu_factor_tall": Fallback("getrf", _lu_factor),
    "lu_factor_wide": Fallback("getrf", _lu_factor),
    "lu_solve": Fallback("getrs", _lu_solve),
    "lu_solve_transposed": Fallback("getrs", _lu_solve_transposed),
    "lu_rcond": Fallback("gecon", _lu_rcond("1")),
    "lu_rcond_inf": Fallback("gecon", _lu_rcond("I")),
    "backward_error": Fallback("none", _backward_error(normwise=False, extra=False)),
    "backward_error_extra": Fallback("none", _backward_error(normwise=False, extra=True)),
    "backward_error_norm": Fallback("none", _backward_error(normwise=True, extra=False)),
    "backward_error_norm_extra": Fallback("none", _backward_error(normwise=True, extra=True)),
    "refine": Fallback("getrs", _refine(extra=False)),
    "refine_extra": Fallback("getrs", _refine(extra=True)),
    "solve": Fallback("getrf and getrs", _solve),
    "inv": Fallback("getrf and getri", _inv),
    "det": Fallback("getrf", np.linalg.det),
    "slogdet": Fallback("getrf", _slogdet),
    "cholesky": Fallback("potrf", _cholesky),
    "cholesky_upper": Fallback("potrf", _cholesky_upper),
    "cho_solve": Fallback("potrs", _cho_solve),
    "cho_solve_upper": Fallback("potrs", _cho_solve_upper),
    "solve_lower": Fallback("trtrs", _triangular(lower=True, unit=False)),
    "solve_upper": Fallback("trtrs", _triangular(lower=False, unit=False)),
    "solve_unit_lower": Fallback("trtrs", _triangular(lower=True, unit=True)),
    "solve_unit_upper": Fallback("trtrs", _triangular(lower=False, unit=True)),
    "solve_pos": Fallback("potrf and potrs", _solve_pos(lower=True)),
    "solve_pos_upper": Fallback("potrf and potrs", _solve_pos(lower=False)),
    "solve_sym": Fallback("sytrf", _solve_by_ldl(lower=True, hermitian=False)),
    "solve_sym_upper": Fallback("sytrf", _solve_by_ldl(lower=False, hermitian=False)),
    "solve_her": Fallback("sytrf", _solve_by_ldl(lower=True, hermitian=True)),
    "solve_her_upper": Fallback("sytrf", _solve_by_ldl(lower=False, hermitian=True)),
    "ldl_factor": Fallback("sytrf", _ldl_factor),
    "ldl_factor_upper": Fallback("sytrf", partial(_ldl_factor, lower=False)),
    "ldl_factor_symmetric": Fallback("sytrf", partial(_ldl_factor, hermitian=False)),
    "ldl_factor_symmetric_upper": Fallback("sytrf", partial(_ldl_factor, lower=False, hermitian=False)),
    "ldl_solve": Fallback("substitution", _ldl_solve),
    "ldl_solve_upper": Fallback("substitution", partial(_ldl_solve, lower=False)),
    "ldl_solve_symmetric": Fallback("substitution", partial(_ldl_solve, hermitian=False)),
    "ldl_solve_symmetric_upper": Fallback("substitution", partial(_ldl_solve, lower=False, hermitian=False)),
    "qr_tall": Fallback("geqrf", _qr("economic")),
    "qr_complete": Fallback("geqrf", _qr("full")),
    "qr_r_tall": Fallback("geqrf", _qr_r_tall),
    "qr_r_wide": Fallback("geqrf", _qr("r")),
    "qr_raw_tall": Fallback("geqrf", _qr("raw")),
    "qr_raw_wide": Fallback("geqrf", _qr("raw")),
    "lstsq": Fallback("gelsy", _lstsq),
    "eigh": Fallback("syevd", _eigh),
    "eigh_upper": Fallback("syevd", lambda a: _eigh(a.conj().T)),
    "eigvalsh": Fallback("syevd", _eigvalsh),
    "eigvalsh_upper": Fallback("syevd", lambda a: _eigvalsh(a.conj().T)),
    "eig": Fallback("geev", _eig),
    "eigvals": Fallback("geev", _eigvals),
    "expm": Fallback("gesv", _expm),
    "svd_tall": Fallback("gesdd", _svd(full_matrices=False)),
    "svd_wide": Fallback("gesdd", _svd(full_matrices=False)),
    "svd_full_tall": Fallback("gesdd", _svd(full_matrices=True)),
    "svd_full_wide": Fallback("gesdd", _svd(full_matrices=True)),
    "svdvals_tall": Fallback("gesdd", _svdvals),
    "svdvals_wide": Fallback("gesdd", _svdvals),
}

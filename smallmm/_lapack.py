"""Matrices that no kernel takes, one at a time through the LAPACK of SciPy or NumPy. Each function does for
one matrix what the gufunc of its name does; nothing here is fast."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ._shapes import (
    MOST_ORDER,
    arithmetic,
    fixed_signature,
    has_kernel,
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
    computed = arithmetic(dtypes[0])
    arrays = [np.asarray(x) if name == "pivots" else np.asarray(x, computed) for name, x in operands.items()]
    named = dict(zip(operands, arrays, strict=True))
    function = FALLBACKS[gufunc.__name__].function
    one = np.vectorize(function, [arithmetic(x) for x in dtypes], signature=fixed_signature(gufunc, operands))
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
    given = (*outs.values(), *(None,) * gufunc.nout)
    results = tuple(_written(out, result) for out, result in zip(given, results, strict=False))
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
    return np.full_like(x, np.nan)


def _lu_factor(a: np.ndarray) -> Any:
    if a.size == 0:
        return a, np.zeros(min(a.shape)), 0
    lu, pivots, info = _lapack("getrf", a)(a)
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
        nan = _nan_like(b[0])
        return np.full((a.shape[1], *b.shape[1:]), np.nan), nan, 0, 0
    if b.size == 0:  # the rank is asked for all the same
        return np.empty((a.shape[1], 0)), b[0], _lstsq(a, np.zeros(len(b)), rtol)[2], 0
    x, _, rank, _ = lstsq(a, b, cond=rtol, lapack_driver="gelsy", check_finite=False)
    return x, np.linalg.norm(b - a @ x, axis=0), rank, 0


def _eigh(a: np.ndarray) -> Any:
    a = np.tril(a)
    if np.isfinite(a).all():  # LAPACK promises nothing of others
        with suppress(np.linalg.LinAlgError):
            w, v = np.linalg.eigh(a)
            largest = np.take_along_axis(v, np.abs(v).argmax(axis=0)[None], axis=0)
            return w, np.where(largest < 0, -v, v), 0
        return _nan_like(a[0]), _nan_like(a), 1
    return _nan_like(a[0]), _nan_like(a), 0


def _eigvalsh(a: np.ndarray) -> Any:
    a = np.tril(a)
    if np.isfinite(a).all():
        with suppress(np.linalg.LinAlgError):
            return np.linalg.eigvalsh(a), 0
        return _nan_like(a[0]), 1
    return _nan_like(a[0]), 0


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
                largest = np.take_along_axis(fewer, np.abs(fewer).argmax(axis=0)[None], axis=0)[0]
                signs = np.where(largest < 0, -1, 1).astype(a.dtype)
                u[:, : len(s)] *= signs
                vt[: len(s)] *= signs[:, None]
                return u, s, vt, 0
        k = min(m, n)
        shapes = (m, m if full_matrices else k), (k,), (n if full_matrices else k, n)
        return *(np.full(shape, np.nan, a.dtype) for shape in shapes), info

    return svd


def _svdvals(a: np.ndarray) -> Any:
    if np.isfinite(a).all():
        with suppress(np.linalg.LinAlgError):
            return np.linalg.svd(a, compute_uv=False), 0
        return np.full(min(a.shape), np.nan, a.dtype), 1
    return np.full(min(a.shape), np.nan, a.dtype), 0


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
    "qr_tall": Fallback("geqrf", _qr("economic")),
    "qr_complete": Fallback("geqrf", _qr("full")),
    "qr_r_tall": Fallback("geqrf", _qr_r_tall),
    "qr_r_wide": Fallback("geqrf", _qr("r")),
    "qr_raw_tall": Fallback("geqrf", _qr("raw")),
    "qr_raw_wide": Fallback("geqrf", _qr("raw")),
    "lstsq": Fallback("gelsy", _lstsq),
    "eigh": Fallback("syevd", _eigh),
    "eigh_upper": Fallback("syevd", lambda a: _eigh(a.T)),
    "eigvalsh": Fallback("syevd", _eigvalsh),
    "eigvalsh_upper": Fallback("syevd", lambda a: _eigvalsh(a.T)),
    "svd_tall": Fallback("gesdd", _svd(full_matrices=False)),
    "svd_wide": Fallback("gesdd", _svd(full_matrices=False)),
    "svd_full_tall": Fallback("gesdd", _svd(full_matrices=True)),
    "svd_full_wide": Fallback("gesdd", _svd(full_matrices=True)),
    "svdvals_tall": Fallback("gesdd", _svdvals),
    "svdvals_wide": Fallback("gesdd", _svdvals),
}

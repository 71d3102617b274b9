"""Matrices that no kernel takes, one by one through the LAPACK of SciPy or NumPy. Each function does for one
matrix what the gufunc of its name does."""

import warnings
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import plain
from .fallbacks import backward_error, expm, lapack, ldl_solve, lu_rcond, lu_solve, nan_like, refined
from .shapes import (
    MAX_ORDER,
    arithmetic,
    batch_shape,
    broadcast,
    fixed_signature,
    has_kernel,
    is_complex,
    output_dtypes,
    output_shapes,
    without_ones,
)
from .stacks import over_stack


def takes(gufunc: np.ufunc, operands: dict[str, Any]) -> bool:
    """Whether the first operand's matrices are too large for the gufunc, which then raises ValueError."""
    if gufunc.__name__ not in FALLBACKS:
        return False
    m, n = np.shape(next(iter(operands.values())))[-2:]
    return not has_kernel(m, n)


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

    stacks = without_ones(gufunc, named)  # vectorize takes 32 batch dimensions
    signature, numbers = fixed_signature(gufunc, operands), [arithmetic(x) for x in dtypes]
    try:
        shape = batch_shape(gufunc, stacks)
        with closing(over_stack(of_one, shape, broadcast(gufunc, stacks))) as each, np.errstate(all="ignore"):
            results = np.vectorize(lambda *_: next(each), numbers, signature=signature)(*stacks.values())
    except ImportError as error:
        shape = arrays[0].shape[-2:]
        raise ImportError(
            f"{op}: matrices of shape {shape} are beyond smallmm's kernels, which go to order "
            f"{MAX_ORDER}, and SciPy, which would take them, is not installed: "
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


def _lu_factor(a: np.ndarray) -> Any:
    if a.size == 0:
        return a, np.zeros(min(a.shape)), 0
    lu, pivots, info = lapack("getrf", a)(a)
    infinite = np.isinf(lu.diagonal())  # what overflowed is divided by it, and finite again
    if infinite.any() and not 0 < info <= infinite.argmax():
        info = infinite.argmax() + 1
    if info > 0:
        pivots[info - 1 :] = np.arange(info - 1, len(pivots))
        lu = nan_like(lu)
    return lu, pivots, info


def _solve(a: np.ndarray, b: np.ndarray) -> Any:
    lu, pivots, info = _lu_factor(a)
    return (nan_like(b) if info else lu_solve(lu, pivots, b)), info


def _inv(a: np.ndarray) -> Any:
    lu, pivots, info = _lu_factor(a)
    return (lu if info else lapack("getri", lu)(lu, pivots)[0]), info


def _slogdet(a: np.ndarray) -> Any:
    sign, logabsdet = np.linalg.slogdet(a)
    return (logabsdet if np.isnan(logabsdet) else sign), logabsdet


def _cholesky(a: np.ndarray, lower: bool = True) -> Any:
    c, info = lapack("potrf", a)(a, lower=lower, clean=True)
    nan = np.isnan(c.diagonal())
    if info == 0 and nan.any():  # which some libraries do not look for
        info = nan.argmax() + 1
    return (nan_like(c) if info else c), info


def _cho_solve(c: np.ndarray, b: np.ndarray, lower: bool = True) -> Any:
    if b.size == 0:
        return b
    return lapack("potrs", c, b)(c, b, lower=lower)[0]


def _solve_pos(a: np.ndarray, b: np.ndarray, lower: bool) -> Any:
    c, info = _cholesky(a, lower)
    return (nan_like(b) if info else _cho_solve(c, b, lower)), info


def _ldl_factor(a: np.ndarray, lower: bool = True, hermitian: bool = True) -> Any:
    if a.size == 0:
        return a, np.zeros(len(a)), 0
    is_hermitian = hermitian and a.dtype.kind == "c"
    ld, pivots, info = lapack("hetrf" if is_hermitian else "sytrf", a)(a, lower=lower)
    ld = np.tril(ld) if lower else np.triu(ld)
    bad = ~np.isfinite(ld).all(axis=0)  # sytrf does not report it
    info = info or (bad.any() and 1 + (bad.argmax() if lower else len(bad) - 1 - bad[::-1].argmax()))
    return (nan_like(ld) if info else ld), pivots, info


def _solve_by_ldl(a: np.ndarray, b: np.ndarray, lower: bool, hermitian: bool) -> Any:
    ld, pivots, info = _ldl_factor(a, lower, hermitian)
    return (nan_like(b) if info else ldl_solve(ld, pivots, b, lower, hermitian)[0]), info


def _triangular(a: np.ndarray, b: np.ndarray, lower: bool, unit: bool) -> Any:
    if b.size == 0:
        zeros = np.flatnonzero(a.diagonal() == 0)
        return b, 0 if unit or not zeros.size else zeros[0] + 1
    x, info = lapack("trtrs", a, b)(a, b, lower=lower, unitdiag=unit)
    return (nan_like(b) if info else x), info


def _qr(a: np.ndarray, mode: str) -> Any:
    try:
        from scipy.linalg import qr
    except ImportError:
        result = plain.qr(a, mode)
    else:
        result = qr(a, mode=mode, check_finite=False)
    return result if mode in ("full", "economic") else result[0]


def _qr_r_tall(a: np.ndarray) -> Any:
    return _qr(a, "r")[: a.shape[1]]


def _lstsq(a: np.ndarray, b: np.ndarray, rtol: np.ndarray) -> Any:
    from scipy.linalg import lstsq

    if not (np.isfinite(a).all() and np.isfinite(b).all()):  # gelsy promises nothing then
        return nan_like(np.empty((a.shape[1], *b.shape[1:]), b.dtype)), np.full(b.shape[1:], np.nan), 0, 0
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


def _converged(a: np.ndarray, compute: Callable[[np.ndarray], Any], *nan: np.ndarray) -> Any:
    """The results of a function of NumPy's, and info, which is 1 where it does not converge: results are NaN
    then. So are those of a matrix that is not finite, for which LAPACK promises nothing."""
    if not np.isfinite(a).all():
        return *nan, 0
    try:
        return *compute(a), 0
    except np.linalg.LinAlgError:
        return *nan, 1


def _eigh(a: np.ndarray) -> Any:
    def vectors(a: np.ndarray) -> Any:
        w, v = np.linalg.eigh(a)
        return w, v * _phases(v)

    return _converged(_triangle(a), vectors, nan_like(a[0].real), nan_like(a))


def _eigvalsh(a: np.ndarray) -> Any:
    return _converged(_triangle(a), lambda a: (np.linalg.eigvalsh(a),), nan_like(a[0].real))


def _as_complex(x: np.ndarray) -> np.ndarray:
    return x.astype(np.result_type(x, np.complex64), copy=False)


def _eig(a: np.ndarray) -> Any:
    def vectors(a: np.ndarray) -> Any:
        w, v = map(_as_complex, np.linalg.eig(a))
        return w, v * _phases(v)

    nan = nan_like(_as_complex(a))
    return _converged(a, vectors, nan[0], nan)


def _eigvals(a: np.ndarray) -> Any:
    return _converged(a, lambda a: (_as_complex(np.linalg.eigvals(a)),), nan_like(_as_complex(a[0])))


def _schur(a: np.ndarray) -> Any:
    if np.isfinite(a).all():  # LAPACK promises nothing of others
        results = lapack("gees", a)(lambda *_: None, a)
        t, z, info = results[0], results[-3], results[-1]
        return (nan_like(t), nan_like(z), info) if info else (t, z, 0)
    return nan_like(a), nan_like(a), 0


def _sqrtm(a: np.ndarray) -> Any:
    from scipy.linalg import sqrtm

    if not np.isfinite(a).all():
        return nan_like(_as_complex(a)), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of singular matrices
        x = sqrtm(a)
    whole = _as_complex(x)
    negative = int(x.dtype.kind == "c" and a.dtype.kind != "c")  # at least
    return (whole, negative, 0) if np.isfinite(x).all() else (nan_like(whole), negative, 1)


def _svd(a: np.ndarray, full_matrices: bool) -> Any:
    m, n = a.shape
    k = min(m, n)

    def vectors(a: np.ndarray) -> Any:
        u, s, vt = np.linalg.svd(a, full_matrices=full_matrices)
        phases = _phases(vt.T if m >= n else u)[0]
        u[:, :k] *= phases.conj() if m >= n else phases
        vt[:k] *= (phases if m >= n else phases.conj())[:, None]
        return u, s, vt

    shapes = (m, m if full_matrices else k), (k,), (n if full_matrices else k, n)
    empty = (np.empty(shape, x.dtype) for shape, x in zip(shapes, (a, a.real, a), strict=True))
    return _converged(a, vectors, *map(nan_like, empty))


def _svdvals(a: np.ndarray) -> Any:
    values = np.full(min(a.shape), np.nan, a.real.dtype)
    return _converged(a, lambda a: (np.linalg.svd(a, compute_uv=False),), values)


class Fallback(NamedTuple):
    """What takes the place of a gufunc, for one matrix."""

    routine: str  # of LAPACK, which does the work
    function: Callable[..., Any]


FALLBACKS = {
    "lu_factor": Fallback("getrf", _lu_factor),
    "lu_factor_tall": Fallback("getrf", _lu_factor),
    "lu_factor_wide": Fallback("getrf", _lu_factor),
    "lu_solve": Fallback("getrs", lu_solve),
    "lu_solve_transposed": Fallback("getrs", partial(lu_solve, trans=1)),
    "lu_rcond": Fallback("gecon", partial(lu_rcond, norm="1")),
    "lu_rcond_inf": Fallback("gecon", partial(lu_rcond, norm="I")),
    "backward_error": Fallback("none", partial(backward_error, normwise=False, extra=False)),
    "backward_error_extra": Fallback("none", partial(backward_error, normwise=False, extra=True)),
    "backward_error_norm": Fallback("none", partial(backward_error, normwise=True, extra=False)),
    "backward_error_norm_extra": Fallback("none", partial(backward_error, normwise=True, extra=True)),
    "refine": Fallback("getrs", partial(refined, extra=False)),
    "refine_extra": Fallback("getrs", partial(refined, extra=True)),
    "solve": Fallback("getrf and getrs", _solve),
    "inv": Fallback("getrf and getri", _inv),
    "det": Fallback("getrf", np.linalg.det),
    "slogdet": Fallback("getrf", _slogdet),
    "cholesky": Fallback("potrf", _cholesky),
    "cholesky_upper": Fallback("potrf", partial(_cholesky, lower=False)),
    "cho_solve": Fallback("potrs", _cho_solve),
    "cho_solve_upper": Fallback("potrs", partial(_cho_solve, lower=False)),
    "solve_lower": Fallback("trtrs", partial(_triangular, lower=True, unit=False)),
    "solve_upper": Fallback("trtrs", partial(_triangular, lower=False, unit=False)),
    "solve_unit_lower": Fallback("trtrs", partial(_triangular, lower=True, unit=True)),
    "solve_unit_upper": Fallback("trtrs", partial(_triangular, lower=False, unit=True)),
    "solve_pos": Fallback("potrf and potrs", partial(_solve_pos, lower=True)),
    "solve_pos_upper": Fallback("potrf and potrs", partial(_solve_pos, lower=False)),
    "solve_sym": Fallback("sytrf", partial(_solve_by_ldl, lower=True, hermitian=False)),
    "solve_sym_upper": Fallback("sytrf", partial(_solve_by_ldl, lower=False, hermitian=False)),
    "solve_her": Fallback("sytrf", partial(_solve_by_ldl, lower=True, hermitian=True)),
    "solve_her_upper": Fallback("sytrf", partial(_solve_by_ldl, lower=False, hermitian=True)),
    "ldl_factor": Fallback("sytrf", _ldl_factor),
    "ldl_factor_upper": Fallback("sytrf", partial(_ldl_factor, lower=False)),
    "ldl_factor_symmetric": Fallback("sytrf", partial(_ldl_factor, hermitian=False)),
    "ldl_factor_symmetric_upper": Fallback("sytrf", partial(_ldl_factor, lower=False, hermitian=False)),
    "ldl_solve": Fallback("substitution", ldl_solve),
    "ldl_solve_upper": Fallback("substitution", partial(ldl_solve, lower=False)),
    "ldl_solve_symmetric": Fallback("substitution", partial(ldl_solve, hermitian=False)),
    "ldl_solve_symmetric_upper": Fallback("substitution", partial(ldl_solve, lower=False, hermitian=False)),
    "qr_tall": Fallback("geqrf", partial(_qr, mode="economic")),
    "qr_complete": Fallback("geqrf", partial(_qr, mode="full")),
    "qr_r_tall": Fallback("geqrf", _qr_r_tall),
    "qr_r_wide": Fallback("geqrf", partial(_qr, mode="r")),
    "qr_raw_tall": Fallback("geqrf", partial(_qr, mode="raw")),
    "qr_raw_wide": Fallback("geqrf", partial(_qr, mode="raw")),
    "lstsq": Fallback("gelsy", _lstsq),
    "eigh": Fallback("syevd", _eigh),
    "eigh_upper": Fallback("syevd", lambda a: _eigh(a.conj().T)),
    "eigvalsh": Fallback("syevd", _eigvalsh),
    "eigvalsh_upper": Fallback("syevd", lambda a: _eigvalsh(a.conj().T)),
    "eig": Fallback("geev", _eig),
    "eigvals": Fallback("geev", _eigvals),
    "schur": Fallback("gees", _schur),
    "sqrtm": Fallback("gees", _sqrtm),
    "expm": Fallback("gesv", expm),
    "svd_tall": Fallback("gesdd", partial(_svd, full_matrices=False)),
    "svd_wide": Fallback("gesdd", partial(_svd, full_matrices=False)),
    "svd_full_tall": Fallback("gesdd", partial(_svd, full_matrices=True)),
    "svd_full_wide": Fallback("gesdd", partial(_svd, full_matrices=True)),
    "svdvals_tall": Fallback("gesdd", _svdvals),
    "svdvals_wide": Fallback("gesdd", _svdvals),
}

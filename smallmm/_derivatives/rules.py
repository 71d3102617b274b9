"""Derivatives: for each gufunc, what the gradient of its results makes of its operands (reverse mode).

A rule is written in smallmm's own functions and the array API, so it has a derivative itself, and serves
every library. This module enters its rules in `_libraries.recording`, for PyTorch's autograd and JAX's
transformations. Functions that are composed of others need no rule.

Matrices are real or complex. A gradient G of X means that the real part of tr(G^H dX) is what a change dX
makes of the loss: PyTorch's convention, in which the transposes of real matrices become adjoints.

M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008); S. F. Walter and L. Lehmann (2010) for QR; G. H. Golub and V. Pereyra (1973) for least squares.
"""

from contextlib import nullcontext
from functools import partial
from typing import Any

from .._base.composition import adjoint, conjugate, identity
from .._base.shapes import is_complex
from .._calls.calls import run
from .._functions.banded import solve_banded
from .._functions.cholesky import cho_solve
from .._functions.least_squares import lstsq, qr
from .._functions.lu import lu_solve
from .._functions.matrix_functions import expm, sqrtm_ex
from .._functions.products import Precision, batched_matmul, matmul
from .._functions.svd import svd_ex
from .._functions.systems import det as _determinant
from .._functions.systems import inv_ex, solve_ex, solve_triangular
from .._libraries import library_of
from .._libraries.recording import RULES, Arrays
from . import ldl, lu
from .rules_of_spectra import (
    eig,
    eigh,
    eigvals,
    eigvalsh,
    half,
    hermitian,
    logm,
    of_matrix,
    orthogonalize,
    pinv,
    polar,
    powm,
    scaled,
    svd,
    svdvals,
    times,
)

# --- the rules; g: the gradient of a result, t: of an operand, h: an adjoint --------------------------------


def _matmul(
    xp: Any, operands: Arrays, results: Arrays, grads: Arrays, precision: Precision = "fixed"
) -> Arrays:
    a, b = operands
    (g,) = grads
    return (
        lambda: matmul(g, adjoint(xp, b), precision=precision),
        lambda: matmul(adjoint(xp, a), g, precision=precision),
    )


def _matvec(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    a, x = operands
    g = grads[0][..., None]
    return lambda: matmul(g, conjugate(xp, x)[..., None, :]), lambda: matmul(adjoint(xp, a), g)[..., 0]


def _vecmat(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    x, a = operands
    g = grads[0][..., None, :]
    return lambda: matmul(g, adjoint(xp, a))[..., 0, :], lambda: matmul(conjugate(xp, x)[..., None], g)


def _gemm(
    xp: Any, operands: Arrays, results: Arrays, grads: Arrays, precision: Precision = "fixed"
) -> Arrays:
    """alpha A B: there is no C where there is a derivative."""
    a, b, alpha, _ = operands
    (g,) = grads
    is_array = hasattr(alpha, "ndim")
    factor = conjugate(xp, alpha) if is_array else alpha.conjugate()

    def of_alpha() -> Any:
        return xp.sum(g * conjugate(xp, matmul(a, b, precision=precision)), axis=(-2, -1))

    return (
        lambda: batched_matmul(g, adjoint(xp, b), alpha=factor, precision=precision),
        lambda: batched_matmul(adjoint(xp, a), g, alpha=factor, precision=precision),
        of_alpha if is_array else None,
    )


def _solve(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    tb = solve_ex(adjoint(xp, operands[0]), grads[0]).x
    return lambda: matmul(-tb, adjoint(xp, results[0])), tb


def _inv(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    h = adjoint(xp, results[0])
    return (-times(h, grads[0], h),)


def _adjugate(xp: Any, a: Any, det: Any) -> Any:
    """det(A) A^-1, which is defined for singular matrices, too: V adj(S) U^H times the determinants of both,
    of A = U S V^H; G. W. Stewart, "On the adjugate matrix" (1998)."""
    inverse, info = inv_ex(a)
    singular = (info != 0)[..., None, None]

    def of_singular() -> Any:
        """Of another matrix where it is regular, so that derivatives are finite."""
        u, s, vh, _ = svd_ex(xp.where(singular, a, xp.tril(xp.ones_like(a))))
        rows = xp.where(identity(xp, a.shape[-1], s) != 0, xp.ones_like(s)[..., None, :], s[..., None, :])
        whole = times(scaled(adjoint(xp, vh), xp.prod(rows, axis=-1)), adjoint(xp, u))
        return (_determinant(u) * _determinant(vh))[..., None, None] * whole

    def of_all() -> Any:
        """Both, each of what it has finite derivatives of."""
        with xp.unless(info == 0) if hasattr(xp, "unless") else nullcontext():  # a function that is recorded
            whole = of_singular()
        one = identity(xp, a.shape[-1], a)
        regular = det[..., None, None] * inv_ex(xp.where(singular, one, a)).inverse
        return xp.where(singular, whole, regular)

    return library_of(info).if_any(singular, of_all, lambda: det[..., None, None] * inverse)


def _det(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    return (grads[0][..., None, None] * adjoint(xp, _adjugate(xp, operands[0], results[0])),)


def _slogdet(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """Signs of real numbers are constant; those of complex ones turn."""
    g_sign, g = grads
    if g_sign is not None and is_complex(g_sign):
        turn = g_sign * conjugate(xp, results[0])
        turn = (turn - conjugate(xp, turn)) / 2
        g = turn if g is None else turn + g
    return (g[..., None, None] * adjoint(xp, inv_ex(operands[0]).inverse) if g is not None else None,)


def _cholesky(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    lower = results[0]
    inner = half(xp, matmul(adjoint(xp, lower), xp.tril(grads[0])))
    left = solve_triangular(lower, inner, trans=2, lower=True)
    return (hermitian(xp, solve_triangular(lower, adjoint(xp, left), trans=2, lower=True)),)


def _cholesky_upper(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    return _cholesky(xp, operands, (adjoint(xp, results[0]),), (adjoint(xp, grads[0]),))


def _cho_solve(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, lower: bool = True) -> Arrays:
    c, _ = operands
    x, g = results[0], grads[0]
    tb = cho_solve((c, lower), g)

    def of_c() -> Any:
        ta = 2 * hermitian(xp, matmul(-tb, adjoint(xp, x)))
        return xp.tril(matmul(ta, xp.tril(c))) if lower else xp.triu(matmul(xp.triu(c), ta))

    return of_c, tb


def _triangular(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, lower: bool, unit: bool) -> Arrays:
    a, _ = operands
    tb = solve_triangular(a, grads[0], trans=2, lower=lower, unit_diagonal=unit)

    def of_a() -> Any:
        ta = matmul(-tb, adjoint(xp, results[0]))
        return xp.tril(ta, k=-int(unit)) if lower else xp.triu(ta, k=int(unit))

    return of_a, tb


def _solve_hermitian(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, gufunc: str) -> Arrays:
    """Of the Hermitian matrix that a triangle of A stands for."""
    tb = run(gufunc, gufunc, {"a": operands[0], "b": grads[0]}, (None, None))[0]
    return lambda: hermitian(xp, matmul(-tb, adjoint(xp, results[0]))), tb


def _solve_symmetric(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, gufunc: str) -> Arrays:
    """Of a symmetric one, whose adjoint is its conjugate."""
    g = conjugate(xp, grads[0])
    tb = conjugate(xp, run(gufunc, gufunc, {"a": operands[0], "b": g}, (None, None))[0])

    def of_a() -> Any:
        ta = matmul(-tb, adjoint(xp, results[0]))
        return (ta + xp.matrix_transpose(ta)) / 2

    return of_a, tb


def _solve_tridiagonal(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, gufunc: str) -> Arrays:
    dl, d, du, _ = operands
    x = conjugate(xp, results[0])
    dl, d, du = (conjugate(xp, y) for y in (dl, d, du))
    tb = run(gufunc, gufunc, {"dl": du, "d": d, "du": dl, "b": grads[0]}, (None, None))[0]
    below = -xp.sum(tb[..., 1:, :] * x[..., :-1, :], axis=-1)
    above = -xp.sum(tb[..., :-1, :] * x[..., 1:, :], axis=-1)
    return below, -xp.sum(tb * x, axis=-1), above, tb


def _solve_banded(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """Row r of ab is the diagonal r - u above the main one, and in the transpose row m - 1 - r, shifted."""
    ab, x, lower = conjugate(xp, operands[0]), conjugate(xp, results[0]), operands[1]
    m, n = ab.shape[-2:]
    above = m - 1 - int(lower)

    def moved(y: Any, by: int) -> Any:
        """Column j of y in column j + by; columns from outside are zero."""
        if abs(by) >= n:
            return xp.zeros_like(y)
        zeros = xp.zeros_like(y[..., : abs(by)])
        return xp.concat([zeros, y[..., : n - by]] if by > 0 else [y[..., -by:], zeros], axis=-1)

    flipped = xp.stack([moved(ab[..., r, :], r - above) for r in reversed(range(m))], axis=-2)
    tb = solve_banded((above, int(lower)), flipped, grads[0])
    rows = [-xp.sum(xp.stack([moved(tb[..., k], above - r) * x[..., k] for k in range(x.shape[-1])]), axis=0)
            for r in range(m)]  # fmt: skip
    return xp.stack(rows, axis=-2), None, tb


def _refine(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """Of A^-1 B; bounds of errors count as constants."""
    a, lu, pivots, b, _ = operands
    if grads[0] is None:
        return xp.zeros_like(a), None, None, xp.zeros_like(b)
    tb = lu_solve((lu, pivots), grads[0], 2)
    return lambda: matmul(-tb, adjoint(xp, results[0])), None, None, tb


def _solveh_banded(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, gufunc: str) -> Arrays:
    ab, _ = operands
    x, (m, n) = results[0], ab.shape[-2:]
    tb = run(gufunc, gufunc, {"ab": ab, "b": grads[0]}, (None, None))[0]
    upper, h, tb_h = gufunc.endswith("_upper"), conjugate(xp, x), conjugate(xp, tb)
    rows = [-xp.sum((tb * h + tb_h * x) / 2, axis=-1)]
    for k in range(1, m):  # a row of ab stands for a diagonal of either triangle
        both = tb[..., k:, :] * h[..., : n - k, :] + tb_h[..., : n - k, :] * x[..., k:, :]
        rows.append(-xp.sum(conjugate(xp, both) if upper else both, axis=-1))
    zeros = [xp.zeros_like(rows[0][..., : n - row.shape[-1]]) for row in rows]
    pairs = [(y, x) if upper else (x, y) for x, y in zip(rows, zeros, strict=True)]
    whole = [xp.concat(list(pair), axis=-1) for pair in pairs]
    return xp.stack(whole[::-1] if upper else whole, axis=-2), tb


def _qr(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """A of full rank, and Q with as many columns as the smaller of m and n."""
    q, r, *_ = results
    gq, gr = grads[:2]
    m, n = operands[0].shape[-2:]
    gq = xp.zeros_like(q) if gq is None else gq
    gr = xp.zeros_like(r) if gr is None else gr
    if m < n:  # A = Q (U V): what Q V depends on by Q goes to the first columns
        first = _qr(
            xp, (operands[0][..., :m],), (q, r[..., :m]),
            (gq + matmul(operands[0][..., m:], adjoint(xp, gr[..., m:])), gr[..., :m]),
        )[0]  # fmt: skip
        return (xp.concat([first, matmul(q, gr[..., m:])], axis=-1),)
    inner = matmul(r, adjoint(xp, xp.triu(gr))) - matmul(adjoint(xp, gq), q)
    right = gq + matmul(q, 2 * hermitian(xp, half(xp, inner)))
    return (adjoint(xp, solve_triangular(r, adjoint(xp, right), lower=False)),)


def _qr_complete(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    m, n = operands[0].shape[-2:]
    if m > n:
        raise NotImplementedError("qr: no derivative of mode 'complete' where m > n; use 'reduced'")
    return _qr(xp, operands, results, grads)


def _qr_r(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    return _qr(xp, operands, qr(operands[0]), (None, grads[0]))


def _lstsq(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """Where the rank does not change: x = A^+ b, and the norms of r = b - A x."""
    a, b, *_ = operands
    x, norms, *_ = results
    g, g_norms, *_ = grads
    residual = b - matmul(a, x)
    ta, tb = xp.zeros_like(a), xp.zeros_like(b)
    if g is not None:
        h = adjoint(xp, a)
        tb = lstsq(h, g).x
        ta = (
            matmul(residual, adjoint(xp, lstsq(a, tb).x))
            - matmul(tb, adjoint(xp, x))
            + matmul(lstsq(h, x).x, adjoint(xp, g - matmul(h, tb)))
        )
    if g_norms is not None:
        exact = norms == 0  # a minimum
        g_norms = xp.where(exact, xp.zeros_like(norms), g_norms / xp.where(exact, xp.ones_like(norms), norms))
        along = scaled(residual, g_norms)
        ta, tb = ta - matmul(along, adjoint(xp, x)), tb + along
    return ta, tb


RULES |= {
    "matmul": _matmul,
    "batched_matmul": _matmul,
    "gemm": _gemm,
    "matmul_tensor": partial(_matmul, precision="tensor"),
    "batched_matmul_tensor": partial(_matmul, precision="tensor"),
    "gemm_tensor": partial(_gemm, precision="tensor"),
    "matvec": _matvec,
    "vecmat": _vecmat,
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    **dict.fromkeys(("lu_factor", "lu_factor_tall", "lu_factor_wide"), lu.factor),
    "lu_solve": partial(lu.solution, transposed=False),
    "lu_solve_transposed": partial(lu.solution, transposed=True),
    "cholesky": _cholesky,
    "cholesky_upper": _cholesky_upper,
    "cho_solve": _cho_solve,
    "cho_solve_upper": partial(_cho_solve, lower=False),
    "solve_lower": partial(_triangular, lower=True, unit=False),
    "solve_upper": partial(_triangular, lower=False, unit=False),
    "solve_unit_lower": partial(_triangular, lower=True, unit=True),
    "solve_unit_upper": partial(_triangular, lower=False, unit=True),
    "ldl_factor": partial(ldl.factor, lower=True, hermitian=True),
    "ldl_factor_upper": partial(ldl.factor, lower=False, hermitian=True),
    "ldl_factor_symmetric": partial(ldl.factor, lower=True, hermitian=False),
    "ldl_factor_symmetric_upper": partial(ldl.factor, lower=False, hermitian=False),
    "ldl_solve": partial(ldl.solution, lower=True, hermitian=True),
    "ldl_solve_upper": partial(ldl.solution, lower=False, hermitian=True),
    "ldl_solve_symmetric": partial(ldl.solution, lower=True, hermitian=False),
    "ldl_solve_symmetric_upper": partial(ldl.solution, lower=False, hermitian=False),
    "solve_mixed": _solve,
    "solve_mixed_pos": partial(_solve_hermitian, gufunc="solve_pos"),
    "solve_mixed_complex": _solve,
    "solve_mixed_pos_complex": partial(_solve_hermitian, gufunc="solve_pos"),
    **{
        name: partial(_solve_hermitian, gufunc=name)
        for name in ("solve_pos", "solve_pos_upper", "solve_her", "solve_her_upper")
    },
    **{name: partial(_solve_symmetric, gufunc=name) for name in ("solve_sym", "solve_sym_upper")},
    **{
        name: partial(_solve_tridiagonal, gufunc=name)
        for name in ("solve_tridiagonal", "solve_tridiagonal_unpivoted")
    },
    **{name: partial(_solveh_banded, gufunc=name) for name in ("solveh_banded", "solveh_banded_upper")},
    "solve_banded": _solve_banded,
    "refine": _refine,
    "refine_extra": _refine,
    "qr_tall": _qr,
    "qr_complete": _qr_complete,
    "qr_r_tall": _qr_r,
    "qr_r_wide": _qr_r,
    "lstsq": _lstsq,
    "lstsq_mixed": _lstsq,
    "eigh": eigh,
    "eigh_upper": eigh,
    "eigvalsh": partial(eigvalsh, upper=False),
    "eigvalsh_upper": partial(eigvalsh, upper=True),
    "eig": eig,
    "eigvals": eigvals,
    "svd_tall": svd,
    "svd_wide": svd,
    "svdvals_tall": svdvals,
    "svdvals_wide": svdvals,
    **{  # of each its own operator of PyTorch
        f"pinv{triangle}{rtol}{rank}": pinv
        for triangle in ("", "_lower", "_upper")
        for rtol in ("", "_rtol")
        for rank in ("", "_rank")
    },
    "orthogonalize": orthogonalize,
    "polar_left": partial(polar, right=False),
    "polar_right": partial(polar, right=True),
    "expm": partial(of_matrix, function=expm),
    "sqrtm": partial(of_matrix, function=lambda a: sqrtm_ex(a).x),
    "logm_general": partial(of_matrix, function=logm),
    "powm_general": partial(of_matrix, function=powm),
}

"""The rules of eigenvalues, singular values, pseudoinverses and functions of matrices, and products that all
rules use."""

from collections.abc import Callable
from typing import Any

from .._base.composition import adjoint, conjugate, identity
from .._base.later import later
from .._base.shapes import is_complex
from .._functions.products import matmul
from .._functions.spectra import eig_ex, eigh_ex
from .._functions.svd import svd_ex
from .._functions.systems import solve_ex
from .._libraries.recording import Arrays


def times(*factors: Any) -> Any:
    """The product of matrices, from the left."""
    product, *others = factors
    for x in others:
        product = matmul(product, x)
    return product


def scaled(x: Any, s: Any) -> Any:
    """The columns of x times the elements of s."""
    return x * s[..., None, :]


def half(xp: Any, x: Any) -> Any:
    """The lower triangle of x, with half of its diagonal."""
    return xp.tril(x) * (1 - identity(xp, x.shape[-1], x) / 2)


def _skew(xp: Any, x: Any) -> Any:
    return x - adjoint(xp, x)


def hermitian(xp: Any, x: Any) -> Any:
    return (x + adjoint(xp, x)) / 2


def _inverse_gaps(xp: Any, w: Any) -> Any:
    """1 / (w_j - w_i), and 0 on the diagonal. Infinite between equal ones: no derivative."""
    one = identity(xp, w.shape[-1], w)
    return (1 - one) / (w[..., None, :] - w[..., :, None] + one)


def _of_eigenvalues(xp: Any, v: Any, gw: Any) -> Any:
    return matmul(scaled(v, gw), adjoint(xp, v))


def _of_eigenvectors(xp: Any, w: Any, v: Any, gw: Any, gv: Any) -> Any:
    """Complex vectors count up to their phases, on which no loss may depend."""
    h = adjoint(xp, v)
    inner = _inverse_gaps(xp, w) * matmul(h, gv) + scaled(identity(xp, w.shape[-1], w), gw)
    return hermitian(xp, times(v, inner, h))


def eigh(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    w, v, *_ = results
    gw, gv = grads[:2]
    if gv is None:
        return (_of_eigenvalues(xp, v, gw),)
    return (_of_eigenvectors(xp, w, v, xp.zeros_like(w) if gw is None else gw, gv),)


def eigvalsh(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, upper: bool) -> Arrays:
    v = eigh_ex(operands[0], UPLO="U" if upper else "L").eigenvectors
    return (_of_eigenvalues(xp, v, grads[0]),)


def _of_similar(xp: Any, v: Any, inner: Any) -> Any:
    """V^-H X V^H"""
    h = adjoint(xp, v)
    return solve_ex(h, matmul(inner, h)).x


def eig(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """Vectors have norm 1, and count up to their phases, on which no loss may depend."""
    w, v, *_ = results
    gw, gv = grads[:2]
    one = identity(xp, w.shape[-1], w)
    inner = 0
    if gv is not None:
        h = adjoint(xp, v)
        along = matmul(h, gv)
        inner = along - scaled(matmul(h, v), xp.sum(xp.real(one * along), axis=-2))
        inner = (1 - one) * inner / conjugate(xp, w[..., None, :] - w[..., :, None] + one)
    if gw is not None:
        inner = inner + scaled(one, gw)
    return (_of_similar(xp, v, inner),)


def eigvals(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    v = eig_ex(operands[0]).eigenvectors
    return (_of_similar(xp, v, scaled(identity(xp, v.shape[-1], v), grads[0])),)


def svd(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """Complex vectors count up to a phase of each pair, on which no loss may depend."""
    u, s, vh, *_ = results
    gu, gs, gvh = grads[:3]
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    inner, outside = 0, 0
    if gs is not None:
        inner = scaled(identity(xp, k, s), gs)
    if gu is not None or gvh is not None:
        gaps = _inverse_gaps(xp, s * s)
    if gu is not None:
        own = matmul(adjoint(xp, u), gu)
        inner = inner + scaled(gaps * _skew(xp, own), s)
        if is_complex(own):
            inner = inner + identity(xp, k, s) * _skew(xp, own) / (2 * s[..., None, :])
        if m > k:
            outside = times(scaled(gu - matmul(u, own), 1 / s), vh)
    if gvh is not None:
        own = matmul(vh, adjoint(xp, gvh))
        inner = inner + s[..., :, None] * (gaps * _skew(xp, own))
        if n > k:
            outside = outside + matmul(scaled(u, 1 / s), gvh - matmul(adjoint(xp, own), vh))
    return (times(u, inner, vh) + outside,)


def svdvals(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    u, _, vh, _ = svd_ex(operands[0], full_matrices=False)
    return (matmul(scaled(u, grads[0]), vh),)


def pinv(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    """Where the rank does not change."""
    a, p, g = operands[0], results[0], grads[0]
    h, g_h = adjoint(xp, p), adjoint(xp, g)
    left, right = matmul(g_h, matmul(p, h)), matmul(matmul(h, p), g_h)
    return (-times(h, g, h) + left - times(a, p, left) + right - times(right, p, a),)


def _of_nearest(xp: Any, w: Any, s: Any, vh: Any, g: Any) -> Any:
    """Of the matrix with orthonormal columns nearest to W diag(s) V^H. Equal singular values may be."""
    m, n, k = w.shape[-2], vh.shape[-1], s.shape[-1]
    h, v = adjoint(xp, w), adjoint(xp, vh)
    left, right = matmul(h, g), matmul(g, v)
    gradient = times(w, _skew(xp, matmul(left, v)) / (s[..., None, :] + s[..., :, None]), vh)
    if m > k:
        gradient = gradient + matmul(scaled(right - matmul(w, matmul(h, right)), 1 / s), vh)
    if n > k:
        gradient = gradient + matmul(scaled(w, 1 / s), left - matmul(matmul(left, v), vh))
    return gradient


def orthogonalize(xp: Any, operands: Arrays, results: Arrays, grads: Arrays) -> Arrays:
    w, s, vh, _ = svd_ex(operands[0], full_matrices=False)
    return (_of_nearest(xp, w, s, vh, grads[0]),)


def polar(xp: Any, operands: Arrays, results: Arrays, grads: Arrays, right: bool) -> Arrays:
    """P is U^H A, or A U^H."""
    a, u = operands[0], results[0]
    of_u, of_p = grads[:2]
    along = 0
    if of_p is not None:
        of_p = hermitian(xp, of_p)
        through = matmul(a, of_p) if right else matmul(of_p, a)
        of_u = through if of_u is None else of_u + through
        along = matmul(u, of_p) if right else matmul(of_p, u)
    w, s, vh, _ = svd_ex(a, full_matrices=False)
    return (_of_nearest(xp, w, s, vh, of_u) + along,)


def of_matrix(
    xp: Any, operands: Arrays, results: Arrays, grads: Arrays, function: Callable[..., Any]
) -> Arrays:
    """The derivative of a function of matrices at A^T in the direction conj(G) is the block above the
    diagonal of that of [[A^T, conj(G)], [0, A^T]]: R. Mathias, "A chain rule for matrix functions" (1996).
    Of A^H and G it would be that of the other root where an eigenvalue is negative."""
    a, *parameters = operands
    g, h = conjugate(xp, grads[0]), xp.matrix_transpose(a)
    n = h.shape[-1]
    h = h if h.dtype == g.dtype else xp.astype(h, g.dtype)  # results of real matrices may be complex
    above = xp.concat([h, g], axis=-1)
    below = xp.concat([xp.zeros_like(h), h], axis=-1)
    return (conjugate(xp, function(xp.concat([above, below], axis=-2), *parameters)[..., :n, n:]),)


def logm(a: Any) -> Any:
    return later("_schur.general").raw("logm", {"a": a})


def powm(a: Any, p: Any) -> Any:
    return later("_schur.general").raw("powm", {"a": a, "p": p})

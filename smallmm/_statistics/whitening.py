"""Whitening: samples whose covariance is made the identity."""

from typing import Any, Literal, NamedTuple

import numpy as np

from .._base.options import finite, one_of
from .._functions.cholesky import cholesky
from .._functions.spectra import eigh
from .._functions.systems import solve_triangular
from .._programs.fuse import fuse

# What it means that Cholesky's step {i}, from 0, finds nothing positive
_REASONS = {
    "cholesky": "the covariance of x is not positive definite: feature {i} is constant or depends on those "
    "before it"
}

Method = Literal["cholesky", "pca", "zca"]
METHODS = ("cholesky", "pca", "zca")


class WhiteningResult(NamedTuple):
    """The mean of a set, and the W of ``y = W (x - mean)``."""

    mean: Any
    matrix: Any


def _factored(op: str, x: Any, eps: float, method: str) -> tuple[Any, Any, Any, bool]:
    """The mean, the centred samples, the Cholesky factor or the whitening matrix, and whether it is the
    factor."""
    method = one_of(op, "method", method, METHODS)
    mean = x.mean(axis=-2)
    y = x - mean
    c = y.mT @ y.conj() / float(max(x.shape[-2] - 1, 1))
    if eps := finite(op, "eps", eps):
        c = c + eps * np.eye(x.shape[-1], dtype=c.dtype)
    lower = cholesky(c)  # of all methods: it says which sets have no covariance that can be inverted
    if method == "cholesky":
        return mean, y, lower, True
    w, v = eigh(c)
    w, adjoint = np.flip(w), np.flip(v.conj().mT, axis=0)  # the largest eigenvalue first
    matrix = adjoint / np.sqrt(w)[:, None]
    return mean, y, adjoint.conj().mT @ matrix if method == "zca" else matrix, False


@fuse("(m,n)->(m,n)", reasons=_REASONS)
def whiten(x: Any, *, eps: float = 0.0, method: Method = "cholesky") -> Any:
    """Samples with their mean removed and their covariance made the identity, for each set of a stack.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Sets of m samples of n features.
    eps : float
        What is added to the diagonal of the covariance, at least 0: sets with features that depend on each
        other, or with few samples, need it.
    method : {"cholesky", "pca", "zca"}
        Which of the matrices W with ``W C W^H = I``. "cholesky": the inverse of C's Cholesky factor, which
        is lower triangular. "pca": principal components, the one of the largest variance first, each
        divided by its standard deviation. "zca": the inverse of C's square root, whose results are nearest
        to the samples.
    out : array, shape (..., m, n), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., m, n)

    Raises
    ------
    LinAlgError
        The covariance of some set is not positive definite: it has at most n samples, or features that
        depend on each other.
    ValueError, TypeError
        As `solve`; `method` is another word.

    See Also
    --------
    whitening : the mean and the matrix, to apply them to other samples.
    Whitener : the same as an estimator of scikit-learn.
    mahalanobis : with a mean and a covariance that are given.

    Notes
    -----
    ``C = L L^T`` is the covariance with divisor m - 1; a centred sample y becomes ``L^-1 y`` (Cholesky
    whitening). 2 m n^2 + n^3 / 3 + m n^2 operations. The other methods take the eigenvalues of C, too: those
    of `eigh` are added. A. Kessy, A. Lewin and K. Strimmer, "Optimal whitening and decorrelation" (2018).

    Each value of `eps` is recorded for itself, as all options of fused functions are.

    Examples
    --------
    >>> y = smallmm.whiten(np.array([[1.0, 0.0], [2.0, 5.0], [4.0, 1.0]]))
    >>> np.allclose(np.cov(y.T), np.eye(2))
    True
    """
    _, y, factor, is_triangle = _factored("whiten", x, eps, method)
    return solve_triangular(factor, y.mT, lower=True).mT if is_triangle else y @ factor.mT


@fuse("(m,n)->(n),(n,n)", reasons=_REASONS)
def whitening(x: Any, *, eps: float = 0.0, method: Method = "cholesky") -> Any:
    """The mean and the matrix that whiten the samples of each set of a stack.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Sets of m samples of n features.
    eps : float
        What is added to the diagonal of the covariance, as in `whiten`.
    method : {"cholesky", "pca", "zca"}
        Which matrix, as in `whiten`.
    out : (array, array), optional
        Where the results are written; each may be None.

    Returns
    -------
    WhiteningResult
        ``mean``, shape (..., n).
        ``matrix``, shape (..., n, n): W, so that ``(x - mean[..., None, :]) @ W.mT`` is white.

    Raises
    ------
    LinAlgError
        The covariance of some set is not positive definite.
    ValueError, TypeError
        As `whiten`.

    See Also
    --------
    whiten : the samples themselves.

    Notes
    -----
    2 m n^2 + 2 n^3 / 3 operations, and those of `eigh` where the method needs eigenvalues.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 2.0], [2.0, -2.0]])
    >>> mean, w = smallmm.whitening(x, method="zca")
    >>> mean, np.allclose(w @ smallmm.cov(x) @ w.mT, np.eye(2))
    (array([2., 0.]), True)
    """
    mean, _, factor, is_triangle = _factored("whitening", x, eps, method)
    if is_triangle:
        factor = solve_triangular(factor, np.eye(x.shape[-1], dtype=factor.dtype), lower=True)
    return WhiteningResult(mean, factor)

"""Chains of operations that people use, as fused functions: also examples of how to write one's own."""

from math import log, pi
from typing import Any

import numpy as np

from .._base.shapes import is_complex
from .._programs.compose import in_one_dtype
from .._programs.fuse import fuse
from .cholesky import cholesky
from .systems import solve_triangular

# What it means that Cholesky's step {i}, from 0, finds nothing positive
_DEPENDENT = "feature {i} is constant or depends on those before it"
_COVARIANCE = {"cholesky": f"covariance is not positive definite: {_DEPENDENT}"}


@fuse("(m,n),(n,n)->(m,m)")
def congruence(a: Any, x: Any) -> Any:
    """A X A^T for each pair of matrices of two stacks.

    Parameters
    ----------
    a, x : array_like, shapes (..., m, n) and (..., n, n)
        Two stacks of matrices, whose batch dimensions broadcast.
    out : array, shape (..., m, m), optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., m, m)

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`.

    See Also
    --------
    multi_dot : products of any matrices.

    Notes
    -----
    Two products, 2 m n (n + m) operations. The result has the bits of ``(a @ x) @ a.mT``. It is symmetric
    up to rounding if X is.

    Examples
    --------
    >>> smallmm.congruence(np.array([[1.0, 2.0]]), np.eye(2))
    array([[5.]])
    """
    return a @ x @ a.mT


@fuse("(n),(n),(n,n)->()", reasons=_COVARIANCE)
def mahalanobis(x: Any, mean: Any, covariance: Any) -> Any:
    """Mahalanobis distances: how far vectors are from a mean, in units of a covariance.

    Parameters
    ----------
    x, mean : array_like, shape (..., n)
        Stacks of vectors.
    covariance : array_like, shape (..., n, n)
        A stack of positive definite matrices. All batch dimensions broadcast.
    out : array, shape (...), optional
        Where the result is written.

    Returns
    -------
    array, shape (...)
        ``sqrt((x - mean)^T covariance^-1 (x - mean))``

    Raises
    ------
    LinAlgError
        Some covariances are not positive definite.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    gaussian_logpdf : the density that belongs to the distance.

    Notes
    -----
    By Cholesky, ``|L^-1 (x - mean)|``: n^3 / 3 + n^2 operations.

    Examples
    --------
    >>> smallmm.mahalanobis(np.array([3.0, 8.0]), np.zeros(2), np.diag([1.0, 4.0]))
    np.float64(5.0)
    """
    x, mean, covariance = in_one_dtype("mahalanobis", (x, mean, covariance))
    y = solve_triangular(cholesky(covariance), x - mean, lower=True)
    return np.sqrt((y.conj() * y).real.sum())


@fuse("(n),(n),(n,n)->()", reasons=_COVARIANCE)
def gaussian_logpdf(x: Any, mean: Any, covariance: Any) -> Any:
    """Logarithms of the density of normal distributions.

    Parameters
    ----------
    x, mean : array_like, shape (..., n)
        Stacks of vectors.
    covariance : array_like, shape (..., n, n)
        A stack of positive definite matrices. All batch dimensions broadcast.
    out : array, shape (...), optional
        Where the result is written.

    Returns
    -------
    array, shape (...)

    Raises
    ------
    LinAlgError
        Some covariances are not positive definite.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    mahalanobis : the distance in it.

    Notes
    -----
    ``-(n log(2 pi) + log det C + d^2) / 2``, where d is the Mahalanobis distance, by Cholesky: n^3 / 3 + n^2
    operations and n logarithms.

    Examples
    --------
    >>> smallmm.gaussian_logpdf(np.zeros(2), np.zeros(2), np.eye(2)).round(6)
    np.float64(-1.837877)
    """
    x, mean, covariance = in_one_dtype("gaussian_logpdf", (x, mean, covariance))
    lower = cholesky(covariance)
    if is_complex(x) or is_complex(mean) or is_complex(lower):
        raise TypeError("gaussian_logpdf of complex numbers; expected real ones")
    y = solve_triangular(lower, x - mean, lower=True)
    return -0.5 * (x.shape[-1] * log(2 * pi) + (y * y).sum()) - np.log(np.diagonal(lower)).sum()

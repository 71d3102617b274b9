"""Chains of operations that people use, as fused functions: also examples of how to write one's own."""

from math import log, pi
from typing import Any, NamedTuple

import numpy as np

from .._base.shapes import is_complex
from .._programs.compose import in_one_dtype
from .._programs.fuse import fuse
from .cholesky import cholesky
from .systems import solve_triangular

# What it means that Cholesky's step {i}, from 0, finds nothing positive
_DEPENDENT = "feature {i} is constant or depends on those before it"
_COVARIANCE = {"cholesky": f"covariance is not positive definite: {_DEPENDENT}"}


class KalmanStepResult(NamedTuple):
    """The state after a measurement, and its covariance."""

    x: Any
    p: Any


@fuse(
    "(n),(n,n),(m),(n,n),(m,n),(n,n),(m,m)->(n),(n,n)",
    reasons={
        "cholesky": "the innovation covariance h p h^T + r is not positive definite: measurement {i} is "
        "constant or depends on those before it"
    },
)
def kalman_step(x: Any, p: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Any:
    """One step of each of many Kalman filters: prediction, then update by a measurement.

    Parameters
    ----------
    x, p : array_like, shapes (..., n) and (..., n, n)
        The state and its covariance.
    z : array_like, shape (..., m)
        The measurement.
    f, h : array_like, shapes (..., n, n) and (..., m, n)
        The transition ``x -> f x`` and what is measured, ``h x``.
    q, r : array_like, shapes (..., n, n) and (..., m, m)
        The covariances of process and measurement.
    out : tuple of arrays, optional
        Where x and p are written. They may be the inputs.

    Returns
    -------
    KalmanStepResult
        ``x``, shape (..., n), and ``p``, shape (..., n, n), after the measurement. All batch dimensions
        broadcast: one f, h, q and r serve all filters.

    Raises
    ------
    LinAlgError
        The covariance of some measurement, ``h p h^T + r``, is not positive definite.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    fuse : how to write such a function.

    Notes
    -----
    ``p' = f p f^T + q``, ``h p' h^T + r = l l^T`` by Cholesky, ``w = l^-1 h p'``, then
    ``x = f x + w^T l^-1 (z - h f x)`` and ``p = p' - w^T w``. 6 n^3 + 4 n^2 m + 3 n m^2 + m^3 / 3
    operations. p is symmetric to the bit if q is: p' is the mean of itself and its transpose.

    ``p' - w^T w`` cancels where the measurement is much more accurate than the prediction. Eigenvalues of
    p below some u times the largest one of p' are rounding errors, and may be negative: u is 6e-8 in
    float32 and 1e-16 in float64. With p of 1e6 and r of 1e-8, say, p does not stay positive definite in
    float32, and a later step may raise LinAlgError. float64 has 8 digits more.

    R. E. Kalman, "A new approach to linear filtering and prediction problems" (1960).

    Examples
    --------
    >>> x, p = np.zeros((1000, 2)), np.tile(np.eye(2), (1000, 1, 1))
    >>> f, h, r = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.eye(1)
    >>> result = smallmm.kalman_step(x, p, np.full((1000, 1), 3.0), f, h, np.zeros((2, 2)), r)
    >>> result.x[0]
    array([2., 1.])
    """
    x, p, z, f, h, q, r = in_one_dtype("kalman_step", (x, p, z, f, h, q, r))
    x = f @ x
    fp = f @ p
    p = 0.5 * (fp @ f.conj().mT + f @ fp.conj().mT) + q  # products whose bits are each other's transposes
    hp = h @ p
    lower = cholesky(hp @ h.conj().mT + r)
    w = solve_triangular(lower, hp, lower=True)
    x = x + w.conj().mT @ solve_triangular(lower, z - h @ x, lower=True)
    p = p - w.conj().mT @ w
    return KalmanStepResult(x, 0.5 * (p + p.conj().mT) if is_complex(p) else p)


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

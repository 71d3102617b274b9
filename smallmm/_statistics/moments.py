"""Covariances and correlations of stacks of samples."""

from math import nan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.options import finite, flag
from .._base.shapes import is_complex
from .._programs.chosen import Choice, chosen_among
from .._programs.compose import in_one_dtype
from .._programs.fuse import fuse


def mean_of(op: str, x: Any, *weights: Any) -> Any:
    """The mean of the rows of x, which are weighted if there are weights."""
    if not weights:
        return x.mean(axis=-2)
    (w,) = weights
    if w.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{op}: weights has {w.shape[-1]} elements; expected {x.shape[-2]}, one for each sample"
        )
    return w @ x / w.sum()


def weighted(x: Any, *weights: Any) -> Any:
    """x, or its rows times the roots of the weights."""
    return x * np.sqrt(weights[0])[:, None] if weights else x


def _degrees(count: int, ddof: float, *weights: Any) -> Any:
    """What sums of squares are divided by: NaN where that is not positive."""
    if not weights:
        return float(count - ddof) if count > ddof else nan
    (w,) = weights
    total = w.sum()
    free = total - ddof * (w * w).sum() / total if ddof else total
    return np.where(free > 0, free, nan)


def _covariance(op: str, x: Any, weights: tuple[Any, ...], ddof: float, rowvar: bool) -> Any:
    x, *w = in_one_dtype(op, (x.mT if flag(op, "rowvar", rowvar) else x, *weights))
    y = weighted(x - mean_of(op, x, *w), *w)
    c = y.mT @ y.conj() / _degrees(x.shape[-2], finite(op, "ddof", ddof), *w)
    return 0.5 * (c + c.conj().mT) if is_complex(c) else c  # the diagonal is real to the bit


def _correlation(x: Any, weights: tuple[Any, ...], rowvar: bool) -> Any:
    c = _covariance("corr", x, weights, 0, rowvar)
    deviation = np.sqrt(np.diagonal(c).real)
    r = c / deviation[:, None] / deviation[None, :]
    if is_complex(r):
        return np.clip(r.real, -1.0, 1.0) + 1j * np.clip(r.imag, -1.0, 1.0)
    return np.clip(r, -1.0, 1.0)


@fuse("(i,j)->(n,n)")
def _cov(x: Any, *, ddof: float = 1, rowvar: bool = False) -> Any:
    return _covariance("cov", x, (), ddof, rowvar)


@fuse("(i,j),(m)->(n,n)")
def _weighted_cov(x: Any, weights: Any, *, ddof: float = 1, rowvar: bool = False) -> Any:
    return _covariance("cov", x, (weights,), ddof, rowvar)


@fuse("(i,j)->(n,n)")
def _corr(x: Any, *, rowvar: bool = False) -> Any:
    return _correlation(x, (), rowvar)


@fuse("(i,j),(m)->(n,n)")
def _weighted_corr(x: Any, weights: Any, *, rowvar: bool = False) -> Any:
    return _correlation(x, (weights,), rowvar)


@chosen_among(_cov, _weighted_cov)
def cov(
    x: "ArrayLike",
    weights: "ArrayLike | None" = None,
    *,
    ddof: float = 1,
    rowvar: bool = False,
    out: Any = None,
) -> Choice:
    """Covariance matrix of each set of samples of a stack.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Sets of m samples of n features; with `rowvar`, of shape (..., n, m).
    weights : array_like, shape (..., m), optional
        How much each sample counts, relative to the others: ``aweights`` of `numpy.cov`. All batch
        dimensions broadcast.
    ddof : int or float
        What is subtracted from the number of samples to get the divisor. 1 gives unbiased estimates.
    rowvar : bool
        Whether features are rows. `numpy.cov` has True for the default.
    out : array, shape (..., n, n), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., n, n)
        Symmetric or, of complex samples, Hermitian to the bit. NaN for sets whose divisor is not positive,
        as that of a single sample, and where a weight is negative.

    Raises
    ------
    ValueError, TypeError
        As `solve`; there are not as many weights as samples.

    See Also
    --------
    corr : the same in units of the standard deviations.
    whiten : samples whose covariance is the identity.

    Notes
    -----
    The mean is subtracted first. ``C = Y^T conj(Y) / (m - ddof)`` of what is left; with weights w the rows
    of Y are times their roots, and the divisor is ``sum(w) - ddof sum(w^2) / sum(w)``. 2 m n^2 operations.

    Examples
    --------
    >>> smallmm.cov(np.array([[[1.0, 0.0], [2.0, 4.0], [3.0, 2.0]]]))
    array([[[1., 1.],
            [1., 4.]]])
    """
    options = {"ddof": ddof, "rowvar": rowvar, "out": out}
    return (_cov, (x,), options) if weights is None else (_weighted_cov, (x, weights), options)


@chosen_among(_corr, _weighted_corr)
def corr(
    x: "ArrayLike", weights: "ArrayLike | None" = None, *, rowvar: bool = False, out: Any = None
) -> Choice:
    """Correlation matrix of each set of samples of a stack, as `numpy.corrcoef`.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Sets of m samples of n features; with `rowvar`, of shape (..., n, m).
    weights : array_like, shape (..., m), optional
        How much each sample counts, relative to the others. All batch dimensions broadcast.
    rowvar : bool
        Whether features are rows. `numpy.corrcoef` has True for the default.
    out : array, shape (..., n, n), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., n, n)
        Between -1 and 1. NaN in the row and the column of a feature that is constant.

    Raises
    ------
    ValueError, TypeError
        As `solve`; there are not as many weights as samples.

    See Also
    --------
    cov : covariances.

    Notes
    -----
    Covariances divided by both standard deviations. 2 m n^2 operations.

    Examples
    --------
    >>> smallmm.corr(np.array([[1.0, 0.0], [2.0, 4.0], [3.0, 2.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    options = {"rowvar": rowvar, "out": out}
    return (_corr, (x,), options) if weights is None else (_weighted_corr, (x, weights), options)

"""The step of a Kalman filter, in each of its forms."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._base.options import flag, one_of
from .._base.shapes import is_complex
from .._functions.cholesky import cholesky
from .._functions.least_squares import qr
from .._functions.systems import solve_triangular
from .._programs.compose import in_one_dtype
from .._programs.fuse import fuse

_INNOVATION = (
    "the innovation covariance h p h^T + r is not positive definite: measurement {i} is constant or depends "
    "on those before it"
)
REASONS = {"cholesky": _INNOVATION, "solve_triangular": _INNOVATION}


class KalmanStepResult(NamedTuple):
    """The state after a measurement, and its covariance."""

    x: Any
    p: Any


class Updated(NamedTuple):
    """The state after a measurement, its covariance or the root of it, and what the measurement's likelihood
    takes: the innovation in units of its root, and the diagonal of the root."""

    x: Any
    p: Any
    e: Any
    diagonal: Any


def between(a: Any, p: Any) -> Any:
    """``a p a^T`` of a symmetric p, symmetric to the bit: products whose bits are each other's transposes."""
    ap = a @ p
    return 0.5 * (ap @ a.conj().mT + a @ ap.conj().mT)


def _covariance_updated(joseph: bool, x: Any, p: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Updated:
    p = between(f, p) + q
    hp = h @ p
    lower = cholesky(hp @ h.conj().mT + r)
    w = solve_triangular(lower, hp, lower=True)
    e = solve_triangular(lower, z - h @ x, lower=True)
    x = x + w.conj().mT @ e
    if joseph:
        gain = solve_triangular(lower.conj().mT, w, lower=False).conj().mT
        p = between(np.eye(len(x), dtype=p.dtype) - gain @ h, p) + between(gain, r)
    else:
        p = p - w.conj().mT @ w
        p = 0.5 * (p + p.conj().mT) if is_complex(p) else p
    return Updated(x, p, e, np.diagonal(lower))


def triangle(*rows: Any) -> Any:
    """R of QR of rows, the largest first. In another order reflections add large rows to small ones, which
    rounds away what small rows say: measurements that are much more accurate than the prediction. A. Cox and
    N. Higham, "Stability of Householder QR factorization for weighted least squares problems" (1998)."""
    a = np.concatenate(rows)
    count, one = len(a), np.ones(len(a), a.dtype)
    size = np.max(np.abs(a), axis=1)
    places = np.arange(count, dtype=a.dtype)
    # 1 where row i is above row j, for i < j
    above = (size[:, None] >= size).astype(a.dtype) * np.triu(np.ones((count, count), a.dtype), 1)
    place = places[::-1] + above.mT @ one - above @ one
    return qr((place == places[:, None]).astype(a.dtype) @ a, mode="r")


def _root_updated(x: Any, p: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Updated:
    """p, q and r are roots: ``s s^T`` is the covariance. No product of covariances is formed."""
    m, n = h.shape
    predicted = triangle((f @ p).conj().mT, q.conj().mT)
    above = np.concatenate([predicted @ h.conj().mT, predicted], axis=1)
    below = np.concatenate([r.conj().mT, np.zeros((r.shape[1], n), r.dtype)], axis=1)
    upper = qr(np.concatenate([above, below]), mode="r")
    lower, p = upper[:m, :m].conj().mT, upper[m:, m:].conj().mT
    # A pivot that rounding of the prediction may have made, and r has not, is 0: the solve fails then
    pivots = np.abs(np.diagonal(lower))
    rounding = (m + n) * np.finfo(r.dtype).eps * np.abs(lower).sum(axis=1)
    noise = np.where(np.abs(h).sum(axis=1) > 0, np.abs(r).sum(axis=1), 0).sum()
    is_lost = (pivots <= rounding) & (2 * noise <= pivots)
    lower = np.where(is_lost * np.eye(m, dtype=r.dtype) != 0, 0, lower)
    e = solve_triangular(lower, z - h @ x, lower=True)
    x = x + upper[:m, m:].conj().mT @ e
    return Updated(x, np.where(is_lost.any(), np.nan, p), e, np.diagonal(lower))


_UPDATES: dict[str, Callable[..., Updated]] = {
    "standard": lambda *arrays: _covariance_updated(False, *arrays),
    "joseph": lambda *arrays: _covariance_updated(True, *arrays),
    "square_root": _root_updated,
}
FORMS = tuple(_UPDATES)


def _without_missing(form: str, z: Any, h: Any, r: Any) -> tuple[Any, Any, Any]:
    """A missing measurement, which is NaN, becomes one of 0 that measures nothing, with variance 1."""
    present = ~np.isnan(z)
    rows, eye = present[:, None], np.eye(len(z), dtype=r.dtype)
    if form == "square_root":
        r = np.concatenate([np.where(rows, r, 0), np.where(rows, np.zeros_like(eye), eye)], axis=1)
    else:
        r = np.where(rows, np.where(present, r, eye), eye)
    return np.where(present, z, 0), np.where(rows, h, 0), r


def updated(name: str, form: str, missing: bool, arrays: tuple[Any, ...], control: Any = None) -> Updated:
    """A step of a function that is fused."""
    x, p, z, f, h, q, r = in_one_dtype(name, arrays)
    x = f @ x if control is None else f @ x + control
    if missing:
        z, h, r = _without_missing(form, z, h, r)
    return _UPDATES[form](x, p, z, f, h, q, r)


@fuse("(n),(n,n),(m),(n,n),(m,n),(n,n),(m,m)->(n),(n,n)", reasons=REASONS)
def kalman_step(
    x: Any, p: Any, z: Any, f: Any, h: Any, q: Any, r: Any, *, form: str = "standard", missing: bool = False
) -> Any:
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
    form : {"standard", "joseph", "square_root"}
        How p is computed: see Notes. With "square_root" p, q and r, and the p that is returned, are roots
        ``s`` of covariances ``s s^T``: those of `cholesky`, say.
    missing : bool
        Whether elements of z that are NaN were not measured, and do not count.
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
    kalman_filter : all steps of all series in one pass.
    fuse : how to write such a function.

    Notes
    -----
    ``p' = f p f^T + q``, ``h p' h^T + r = l l^T`` by Cholesky, ``w = l^-1 h p'``, then
    ``x = f x + w^T l^-1 (z - h f x)`` and ``p = p' - w^T w``. 6 n^3 + 4 n^2 m + 3 n m^2 + m^3 / 3
    operations. p is symmetric to the bit if q is: p' is the mean of itself and its transpose.

    ``p' - w^T w`` cancels where the measurement is much more accurate than the prediction. Eigenvalues of
    p below some u times the largest one of p' are rounding errors, and may be negative: u is 6e-8 in
    float32 and 1e-16 in float64. With p of 1e6 and r of 1e-8, say, p does not stay positive definite in
    float32, and a later step may raise LinAlgError. float64 has 8 digits more, and the other forms help:

    - "joseph": ``p = (1 - k h) p' (1 - k h)^T + k r k^T``, where ``k = w^T l^-1``: a sum of two positive
      semidefinite matrices. It cancels less, and takes 8 n^3 + 4 n^2 m operations more.
    - "square_root": p is never formed. QR of ``[(f s)^T; q^T]`` makes the root of p', and QR of
      ``[s' h, s'; r^T, 0]``, with the transposed root s' of p', those of ``h p' h^T + r`` and of p.
      ``s s^T`` is positive semidefinite whatever the rounding. About 3 times the operations. Measurements
      count as dependent if rounding alone tells them apart; the other forms notice that half of the time.

    R. E. Kalman, "A new approach to linear filtering and prediction problems" (1960). R. S. Bucy and
    P. D. Joseph, "Filtering for stochastic processes" (1968). P. Kaminski, A. Bryson and S. Schmidt,
    "Discrete square root filtering" (1971).

    Examples
    --------
    >>> x, p = np.zeros((1000, 2)), np.tile(np.eye(2), (1000, 1, 1))
    >>> f, h, r = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.eye(1)
    >>> result = smallmm.kalman_step(x, p, np.full((1000, 1), 3.0), f, h, np.zeros((2, 2)), r)
    >>> result.x[0]
    array([2., 1.])
    """
    form, missing = one_of("kalman_step", "form", form, FORMS), flag("kalman_step", "missing", missing)
    new = updated("kalman_step", form, missing, (x, p, z, f, h, q, r))
    return KalmanStepResult(new.x, new.p)

"""The routines of LAPACK that large matrices need most, by NumPy alone, for where SciPy is not installed.
Recursion halves matrices, so that products do the work. Arguments and results are those of SciPy."""

from typing import Any

import numpy as np


def _exchange(x: np.ndarray, pivots: np.ndarray, back: bool = False) -> None:
    """Rows of x, one pivot after the other, or from the last to the first."""
    order = np.arange(len(x))
    for i in range(len(pivots))[:: -1 if back else 1]:
        order[[i, pivots[i]]] = order[[pivots[i], i]]
    x[:] = x[order]


def _solve(t: np.ndarray, b: np.ndarray, lower: bool, unit: bool = False) -> np.ndarray:
    """X of T X = B, T being a triangle, beyond which nothing is read."""
    if len(t) == 1:
        return b if unit else b / t[0, 0]
    half = len(t) // 2
    if lower:
        first = _solve(t[:half, :half], b[:half], lower, unit)
        return np.concatenate(
            [first, _solve(t[half:, half:], b[half:] - t[half:, :half] @ first, lower, unit)]
        )
    last = _solve(t[half:, half:], b[half:], lower, unit)
    return np.concatenate([_solve(t[:half, :half], b[:half] - t[:half, half:] @ last, lower, unit), last])


def _factor(a: np.ndarray, pivots: np.ndarray) -> None:
    """A becomes L and U (Toledo, SIAM Journal on Matrix Analysis and Applications 18, 1997)."""
    m, n = a.shape
    if n == 1:
        pivots[0] = p = (np.abs(a[:, 0].real) + np.abs(a[:, 0].imag)).argmax()
        a[[0, p]] = a[[p, 0]]
        if a[0, 0] != 0:
            a[1:] /= a[0]
        return
    half = m if n > m else n // 2
    left, right = a[:, :half], a[:, half:]
    _factor(left, pivots[:half])
    _exchange(right, pivots[:half])
    right[:half] = _solve(left[:half], right[:half], lower=True, unit=True)
    if half < m:
        right[half:] -= left[half:] @ right[:half]
        _factor(right[half:], pivots[half:])
        _exchange(left[half:], pivots[half:])
        pivots[half:] += half


def getrf(a: np.ndarray) -> Any:
    lu, pivots = a.copy(), np.empty(min(a.shape), np.int32)
    _factor(lu, pivots)
    zeros = np.flatnonzero(lu.diagonal() == 0)
    return lu, pivots, zeros[0] + 1 if zeros.size else 0


def getrs(lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, trans: int = 0) -> Any:
    x = b.copy()
    if trans:
        x = _solve(lu.T, _solve(lu.T, x, lower=True), lower=False, unit=True)
        _exchange(x, pivots, back=True)
        return x, 0
    _exchange(x, pivots)
    return _solve(lu, _solve(lu, x, lower=True, unit=True), lower=False), 0


def getri(lu: np.ndarray, pivots: np.ndarray) -> Any:
    return getrs(lu, pivots, np.eye(len(lu), dtype=lu.dtype))


def _cholesky(c: np.ndarray) -> int:
    """The lower triangle of C becomes that of L; the step, from 1, that failed, or 0."""
    if len(c) == 1:
        if not c[0, 0].real > 0:
            return 1
        c[0, 0] = np.sqrt(c[0, 0].real)
        return 0
    half = len(c) // 2
    if info := _cholesky(c[:half, :half]):
        return info
    below = c[half:, :half]
    below[:] = _solve(c[:half, :half], below.conj().T, lower=True).conj().T
    c[half:, half:] -= below @ below.conj().T
    info = _cholesky(c[half:, half:])
    return info and info + half


def potrf(a: np.ndarray, lower: bool, clean: bool) -> Any:
    c = (a if lower else a.conj().T).copy()
    info = _cholesky(c)
    c = np.tril(c) if clean else c
    return c if lower else c.conj().T, info


def potrs(c: np.ndarray, b: np.ndarray, lower: bool) -> Any:
    left = c if lower else c.conj().T
    return _solve(left.conj().T, _solve(left, b, lower=True), lower=False), 0


def trtrs(a: np.ndarray, b: np.ndarray, lower: bool, unitdiag: bool) -> Any:
    zeros = np.flatnonzero(a.diagonal() == 0)
    if zeros.size and not unitdiag:
        return b, zeros[0] + 1
    return _solve(a, b, lower, unitdiag), 0


def qr(a: np.ndarray, mode: str) -> Any:
    """As scipy.linalg.qr."""
    modes: dict[str, Any] = {"economic": "reduced", "full": "complete"}
    found: Any = np.linalg.qr(a, modes.get(mode, mode))
    if mode == "raw":
        return (found[0].T, found[1]), None
    return (found,) if mode == "r" else found


ROUTINES = {f.__name__: f for f in (getrf, getrs, getri, potrf, potrs, trtrs)}

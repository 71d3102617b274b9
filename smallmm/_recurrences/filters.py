"""Kalman filters and smoothers of whole series, in one pass forward and one backward."""

import inspect
from collections.abc import Callable, Iterable
from functools import cache, partial
from math import log, pi
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._base.errors import LinAlgError, shown
from .._base.options import flag, one_of
from .._base.shapes import is_complex
from .._functions.cholesky import cho_solve, cholesky, cholesky_ex
from .._functions.products import matmul
from .._functions.spectra import eigh
from .._functions.systems import solve_triangular
from .._libraries import library_of
from .._programs.arrays import any_failed
from .._programs.compose import all_true, array_of, in_one_dtype, namespace_of
from .._programs.fuse import Fused, fuse
from .kalman import FORMS, REASONS, between, triangle, updated
from .parts import arguments_of, in_parts, needs_parts
from .scans import ScanResult, in_time, joined, results_as, scanned

_CORES = {
    **dict.fromkeys(("x", "x0", "control"), "n"),
    **dict.fromkeys(("p", "p0", "f", "q"), "n,n"),
    **{"z": "m", "h": "m,n", "r": "m,m", "total": ""},
}
_PREDICTION = "the predicted covariance f p f^T + q is not positive definite"


class RTSSmootherResult(NamedTuple):
    """The states given all measurements, and their covariances."""

    x: Any
    p: Any


class KalmanFilterResult(NamedTuple):
    """The states and their covariances after each measurement, the logarithm of each series' likelihood, and
    what `rts_smoother` makes of them; None: not asked for."""

    x: Any
    p: Any
    loglik: Any
    smoothed: RTSSmootherResult | None


def _in_signature(
    name: str,
    carry: tuple[str, ...],
    rest: tuple[str, ...],
    results: tuple[str, ...],
    reasons: dict[str, str],
) -> Callable[[Callable[[dict[str, Any]], Any]], Fused[..., Any]]:
    """Makes a function of a dict of arrays, which are given in this order, a fused function of that name."""

    def made(step: Callable[[dict[str, Any]], Any]) -> Fused[..., Any]:
        def function(*arrays: Any) -> Any:
            return step(dict(zip(names, arrays, strict=True)))

        names = (*carry, *rest)
        parameter = inspect.Parameter
        of_names = [parameter(x, parameter.POSITIONAL_OR_KEYWORD) for x in names]
        function.__name__ = name
        function.__signature__ = inspect.Signature(of_names)  # type: ignore[attr-defined]
        sides = (",".join(f"({_CORES[x.removeprefix('next_')]})" for x in side) for side in (names, results))
        return fuse("->".join(sides), reasons=reasons)(function)

    return made


@cache
def _filter(
    moving: tuple[str, ...], fixed: tuple[str, ...], form: str, missing: bool, loglik: bool, kept: str
) -> Any:
    """A time of the filter: the carry, and the results of each time: x and "p", x and the "root" of p, or
    ""."""
    carry = ("x", "p", "total") if loglik else ("x", "p")

    @_in_signature("kalman_filter", carry, (*moving, *fixed), (*carry, "x", "p") if kept else carry, REASONS)
    def step(a: dict[str, Any]) -> Any:
        arrays = tuple(a[name] for name in ("x", "p", "z", "f", "h", "q", "r"))
        x, p, e, diagonal = updated("kalman_filter", form, missing, arrays, a.get("control"))
        if is_complex(x) or is_complex(p):
            raise TypeError("kalman_filter of complex numbers; expected real ones")
        results = (x, p @ p.mT if form == "square_root" and kept == "p" else p) if kept else ()
        if not loglik:
            return x, p, *results
        counted = np.where(np.isnan(a["z"]), 0, log(2 * pi) * np.ones_like(e)) if missing else log(2 * pi)
        terms = e * e + np.log(diagonal * diagonal) + counted
        return x, p, a["total"] - 0.5 * terms.sum(), *results

    return step


@cache
def _smoother(moving: tuple[str, ...], fixed: tuple[str, ...], roots: bool) -> Any:
    """A time of the smoother, of what it made of the next one. p, q: their roots if `roots`."""
    reasons = {"cholesky": _PREDICTION, "solve_triangular": _PREDICTION}

    @_in_signature(
        "rts_smoother", ("next_x", "next_p"), ("x", "p", *moving, *fixed), ("x", "p", "x", "p"), reasons
    )
    def step(a: dict[str, Any]) -> Any:
        names = ("next_x", "next_p", "x", "p", "f", "q")
        next_x, next_p, x, p, f, q = in_one_dtype("rts_smoother", tuple(a[name] for name in names))
        predicted = f @ x + a["control"] if "control" in a else f @ x
        if roots:
            gain, p = _roots_smoothed(next_p, p, f, q)
        else:
            predicted_p = between(f, p) + q
            gain = cho_solve((cholesky(predicted_p), True), f @ p).mT
            p = p + between(gain, next_p - predicted_p)
        x = x + gain @ (next_x - predicted)
        return x, p, x, p @ p.mT if roots else p

    return step


def _roots_smoothed(next_p: Any, p: Any, f: Any, q: Any) -> tuple[Any, Any]:
    """The gain, and the root of the smoothed covariance. With ``[(f s)^T, s^T; q^T, 0] = Q [a, b; 0, c]`` the
    gain is ``b^T a^-T``, and ``c^T c`` is what of p the next state does not determine."""
    n = len(f)
    above = np.concatenate([(f @ p).mT, p.mT], axis=1)
    below = np.concatenate([q.mT, np.zeros((n, n), q.dtype)], axis=1)
    upper = triangle(above, below)
    gain = solve_triangular(upper[:n, :n], upper[:n, n:], lower=False).mT
    return gain, triangle(upper[n:, n:], (gain @ next_p).mT).mT


def _root(name: str, label: str, x: Any) -> Any:
    """A root s of each covariance ``s s^T``: by Cholesky, which keeps small numbers beside large ones,
    where it is positive definite; else of its eigenvalues."""
    covariances = array_of(name, label, x)
    found = cholesky_ex(covariances)
    if not (library_of(found.info).is_traced(found.info) or any_failed(name, found.info)):
        return found.L
    xp: Any = namespace_of(covariances)
    w, v = eigh(covariances)
    most = xp.max(xp.abs(w), axis=-1, keepdims=True)
    if not all_true(xp, w >= -w.shape[-1] * xp.finfo(w.dtype).eps * most, True):
        raise LinAlgError(f"{name}: {label} is not positive semidefinite")
    roots = v * xp.sqrt(xp.where(w > 0, w, xp.zeros_like(w)))[..., None, :]
    return xp.where((found.info == 0)[..., None, None], found.L, roots)


def _varying(name: str, varying: Any, among: str) -> tuple[str, ...]:
    """The names in `varying`, in the order of the arguments."""
    try:
        given = set(varying)
    except TypeError:
        given = {varying}
    if not given <= set(among):
        raise ValueError(
            f"{name}: varying is {shown(varying)}; expected names among {', '.join(map(repr, among))}, those "
            "of arrays whose first dimension is time"
        )
    return tuple(label for label in among if label in given)


def kalman_filter(
    z: "ArrayLike",
    x0: "ArrayLike",
    p0: "ArrayLike",
    f: "ArrayLike",
    h: "ArrayLike",
    q: "ArrayLike",
    r: "ArrayLike",
    *,
    control: "ArrayLike | None" = None,
    varying: Iterable[str] = (),
    form: Literal["standard", "joseph", "square_root"] = "standard",
    missing: bool = False,
    loglik: bool = True,
    smooth: bool = False,
    outputs: Literal["all", "last"] = "all",
) -> KalmanFilterResult:
    """Kalman filters of many series: states, covariances and likelihoods of all times, in one pass.

    Parameters
    ----------
    z : array_like, shape (T, ..., m)
        The measurements: time first, then series.
    x0, p0 : array_like, shapes (..., n) and (..., n, n)
        The state before the first time, and its covariance: the first step predicts, then updates by z[0].
    f, h : array_like, shapes (..., n, n) and (..., m, n)
        The transition ``x -> f x`` and what is measured, ``h x``.
    q, r : array_like, shapes (..., n, n) and (..., m, m)
        The covariances of process and measurement.
    control : array_like, shape (T, ..., n), optional
        What is added to ``f x`` at each time.
    varying : iterable of {"f", "h", "q", "r"}
        Which of these arrays differ from time to time. Time is their first dimension, as that of z:
        ``varying="f"`` with f of shape (T, ..., n, n). f[t] leads to time t, from the one before.
    form : {"standard", "joseph", "square_root"}
        How covariances are computed: see `kalman_step`. Here all arrays are covariances in each form.
    missing : bool
        Whether elements of z that are NaN were not measured. The others of the same time count.
    loglik : bool
        Whether the logarithm of the likelihood is computed.
    smooth : bool
        Whether `rts_smoother` follows.
    outputs : {"all", "last"}
        "last": the state of the last time alone, which saves most of the memory.

    Returns
    -------
    KalmanFilterResult
        ``x``, shape (T, ..., n), and ``p``, shape (T, ..., n, n), after the measurement of each time; of the
        last one, without T, with ``outputs="last"``. ``loglik``, shape (...), float64: the logarithm of the
        likelihood of each series, or None. ``smoothed``: `RTSSmootherResult` of x and p given all
        measurements, or None. Batch dimensions broadcast: one f, h, q and r serve all series.

    Raises
    ------
    LinAlgError
        The covariance of some measurement, ``h p h^T + r``, is not positive definite; with smooth, that of a
        prediction, ``f p f^T + q``. ``time`` says when in each series.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    rts_smoother : the smoother alone.
    kalman_step : one time of it, where measurements come one after the other.
    scan : how to write other filters.

    Notes
    -----
    One `scan`: all times of a few series run before the next series, on a CUDA device in one kernel. At each
    time the operations of `kalman_step`, and m logarithms; T (n + n^2) numbers of a series are written.

    A missing measurement takes a row of zeros in h, the value 0 and the variance 1, so that it changes
    nothing; the likelihood counts those that are there.

    z may be a `Group` of series of different lengths, members of shape (T, ..., m), and so may all arrays
    with time; x0, p0 and the others then serve all series or have one entry for each in front. x and p are
    groups, and loglik an array; with ``outputs="last"`` all three are arrays. Dask's arrays give Dask's, of
    each chunk of series; time is one chunk.

    With the form "square_root" q and r may be positive semidefinite as long as ``h p h^T + r`` is positive
    definite; roots are taken once, before the pass.

    R. E. Kalman, "A new approach to linear filtering and prediction problems" (1960). A. C. Harvey,
    "Forecasting, structural time series models and the Kalman filter" (1989), 3.4, for the likelihood.

    Examples
    --------
    Positions are measured, and velocities found, of 1000 bodies at once.

    >>> t = np.arange(20.0)
    >>> z = np.broadcast_to((3 + 0.5 * t)[:, None, None], (20, 1000, 1))
    >>> f, h = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    >>> found = smallmm.kalman_filter(z, np.zeros(2), 1e3 * np.eye(2), f, h, 1e-4 * np.eye(2), np.eye(1))
    >>> found.x.shape, found.p.shape, found.loglik.shape
    ((20, 1000, 2), (20, 1000, 2, 2), (1000,))
    >>> found.x[-1, 0].round(2)
    array([12.5,  0.5])
    """
    name = "kalman_filter"
    form = one_of(name, "form", form, FORMS)
    missing, loglik = flag(name, "missing", missing), flag(name, "loglik", loglik)
    if flag(name, "smooth", smooth) and outputs == "last":
        raise ValueError(f"{name}: smooth is True and outputs is 'last'; expected outputs='all'")
    fixed = {"f": f, "h": h, "q": q, "r": r}
    moving = {"z": z} if control is None else {"z": z, "control": control}
    vary = _varying(name, varying, "fhqr")
    moving |= {label: fixed.pop(label) for label in vary}
    before = {"x0": x0, "p0": p0}
    if needs_parts((*moving.values(), *before.values(), *fixed.values())):
        options: Any = {"form": form, "missing": missing, "loglik": loglik, "smooth": smooth}
        whole = partial(kalman_filter, varying=vary, outputs=outputs, **options)
        arguments = arguments_of(moving, before | fixed, _CORES)
        has_times = outputs == "all"
        timed = has_times, has_times, False, has_times
        parted: KalmanFilterResult = in_parts(name, whole, arguments, timed)
        return parted
    roots = form == "square_root"
    if roots:
        p0 = _root(name, "p0", p0)
        for arrays in (moving, fixed):
            arrays |= {label: _root(name, label, x) for label, x in arrays.items() if label in "qr"}
    moving = in_time(name, moving, _CORES)
    kept = "" if outputs == "last" else "root" if roots and smooth else "p"
    step = _filter(tuple(moving), tuple(fixed), form, missing, loglik, kept)
    carry = (x0, p0, np.zeros(())) if loglik else (x0, p0)

    def made(found: ScanResult) -> KalmanFilterResult:
        x, p = found.ys if kept else found.carry[:2]
        p = matmul(p, p.mT) if roots and kept != "p" else p
        return KalmanFilterResult(x, p, found.carry[2] if loglik else None, None)

    xs, consts = tuple(moving.values()), tuple(fixed.values())
    with results_as(made):
        found = scanned(name, step, carry, xs, consts, outputs=outputs)
    result = made(found)
    if not smooth:
        return result
    with results_as(lambda smoothed: result._replace(smoothed=smoothed)):
        smoothed = _smoothed(name, found.ys[0], found.ys[1], moving, fixed, roots)
    return result._replace(smoothed=smoothed)


def rts_smoother(
    x: "ArrayLike",
    p: "ArrayLike",
    f: "ArrayLike",
    q: "ArrayLike",
    *,
    control: "ArrayLike | None" = None,
    varying: Iterable[str] = (),
) -> RTSSmootherResult:
    """States given all measurements, also later ones, of what a Kalman filter found: one pass backward.

    Parameters
    ----------
    x, p : array_like, shapes (T, ..., n) and (T, ..., n, n)
        The states after the measurement of each time, and their covariances, as `kalman_filter` returns
        them.
    f, q : array_like, shape (..., n, n)
        The transition ``x -> f x`` and the covariance of the process.
    control : array_like, shape (T, ..., n), optional
        What was added to ``f x`` at each time.
    varying : iterable of {"f", "q"}
        Which of these have time as their first dimension, as in `kalman_filter`.

    Returns
    -------
    RTSSmootherResult
        ``x``, shape (T, ..., n), and ``p``, shape (T, ..., n, n). Those of the last time are the filter's.

    Raises
    ------
    LinAlgError
        The covariance of some prediction, ``f p f^T + q``, is not positive definite. ``time`` says when in
        each series.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    kalman_filter : with ``smooth=True`` it calls this, and with roots smooths them.

    Notes
    -----
    With ``p' = f p f^T + q`` and ``g = p f^T p'^-1`` by Cholesky, ``x + g (x_next - f x)`` and
    ``p + g (p_next - p') g^T``: about 14 n^3 operations at each time. p is symmetric to the bit.

    After the form "square_root" `kalman_filter` smooths roots: that of p is QR of two roots whose squares are
    added, so that it is positive semidefinite (P. Park and T. Kailath, "New square-root smoothing
    algorithms", 1996).

    Groups of series, and Dask's arrays, are taken as by `kalman_filter`.

    H. E. Rauch, F. Tung and C. T. Striebel, "Maximum likelihood estimates of linear dynamic systems" (1965).

    Examples
    --------
    >>> f, h, z = np.eye(1), np.eye(1), np.array([[1.0], [3.0]])
    >>> found = smallmm.kalman_filter(z, [0.0], [[1e6]], f, h, 1e-9 * np.eye(1), np.eye(1))
    >>> smallmm.rts_smoother(found.x, found.p, f, 1e-9 * np.eye(1)).x.round(3)
    array([[2.],
           [2.]])
    """
    name = "rts_smoother"
    fixed = {"f": f, "q": q}
    moving = {"x": x, "p": p} if control is None else {"x": x, "p": p, "control": control}
    vary = _varying(name, varying, "fq")
    moving |= {label: fixed.pop(label) for label in vary}
    if needs_parts((*moving.values(), *fixed.values())):
        whole = partial(rts_smoother, varying=vary)
        parted: RTSSmootherResult = in_parts(name, whole, arguments_of(moving, fixed, _CORES), True)
        return parted
    moving = in_time(name, moving, _CORES)
    x, p = moving.pop("x"), moving.pop("p")
    return _smoothed(name, x, p, moving, fixed, False)


def _smoothed(
    name: str, x: Any, p: Any, moving: dict[str, Any], fixed: dict[str, Any], roots: bool
) -> RTSSmootherResult:
    """Of arrays with time first, and of those without. p and q: their roots if `roots`. The last time is as
    it is; each other one takes the f, q and control that led to the next one."""
    if not x.shape[0]:
        return RTSSmootherResult(x, p)
    to_next = {label: a[1:] for label, a in moving.items() if label in ("control", "f", "q")}
    fixed = {label: a for label, a in fixed.items() if label in ("f", "q")}
    step = _smoother(tuple(to_next), tuple(fixed), roots)
    xs, consts = (x[:-1], p[:-1], *to_next.values()), tuple(fixed.values())

    def made(found: ScanResult) -> RTSSmootherResult:
        last = matmul(p[-1:], p[-1:].mT) if roots else p[-1:]
        return RTSSmootherResult(joined(found.ys[0], x[-1:]), joined(found.ys[1], last))

    with results_as(made):
        found = scanned(name, step, (x[-1], p[-1]), xs, consts, reverse=True)
    return made(found)

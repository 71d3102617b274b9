"""Ordinary differential equations of many small systems."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.composition import from_host
from .._base.errors import shown
from .._base.shapes import dtype_of
from .._programs.compose import array_of, cast, namespace_of
from .._programs.fuse import Fused, fuse
from .parts import Argument, in_parts, needs_parts
from .scans import joined, results_as, scanned

_KEPT = 64  # functions whose steps are kept


@fuse
def _span(after: Any, before: Any) -> Any:
    return after - before


@lru_cache(_KEPT)
def _step_of(function: Any) -> Fused[..., Any]:
    """The step for a function of t, y and others."""
    derivative = function if isinstance(function, Fused) else fuse(function)
    dims = derivative._inputs
    if len(dims) < 2 or dims[0]:
        raise ValueError(
            f"rk4: the signature of {derivative._name} is {derivative.signature}; expected '(),(n)->(n)', "
            "with t as the first argument, y as the second, and any others"
        )

    def rk4(y: Any, before: Any, t: Any, h: Any, *others: Any) -> Any:
        half = 0.5 * h
        k1 = derivative(before, y, *others)
        k2 = derivative(before + half, y + half * k1, *others)
        k3 = derivative(before + half, y + half * k2, *others)
        k4 = derivative(t, y + h * k3, *others)
        y = y + h / 6 * (k1 + 2 * (k2 + k3) + k4)
        return y, y

    cores = [f"({','.join(own)})" for own in (dims[1], (), (), (), *dims[2:], dims[1], dims[1])]
    return fuse(f"{','.join(cores[:-2])}->{','.join(cores[-2:])}")(rk4)


def rk4(function: Callable[..., Any], y0: "ArrayLike", t: "ArrayLike", *args: Any) -> Any:
    """Solutions of ``dy/dt = function(t, y, *args)`` of many small systems, with the steps that t has.

    Parameters
    ----------
    function : callable
        Written for one system, as `fuse` takes it, or fused already: it returns dy/dt, of the shape of y. If
        y is a vector, it has a signature, ``@smallmm.fuse("(),(n)->(n)")``; without one y is a number.
    y0 : array_like, shape (..., n), or as the signature says
        y at ``t[0]``.
    t : array_like, shape (T,) or (T, ...)
        The times at which y is wanted, in rising or falling order, for all systems or for each. Each step
        leads from one to the next.
    *args : array_like
        Parameters of the systems, the further arguments of the function: one for all, or one for each.

    Returns
    -------
    array, shape (T, ..., n)
        y at each time; the first is y0. It has the dtype of y0 and args, which t takes, too.

    Raises
    ------
    ValueError, TypeError
        The function has no arguments t and y, or returns another shape than that of y; or as `fuse`.

    See Also
    --------
    scan : other schemes.
    scipy.integrate.solve_ivp : steps of one system that follow an error bound.

    Notes
    -----
    The classical method of Runge and Kutta, of order 4: an error of h^5 in a step, of h^4 in all. Nothing
    estimates it; halve the steps to see it. All steps of all systems are one `scan`, on a CUDA device one
    kernel; each evaluates the function four times. t may be a `Group` of different numbers of times, y0 and
    args then have one entry for each in front or serve all; Dask's arrays are taken as by `scan`.

    W. Kutta, "Beitrag zur naeherungsweisen Integration totaler Differentialgleichungen" (1901).

    Examples
    --------
    A thousand pendulums that start at different angles:

    >>> @smallmm.fuse("(),(n),()->(n)")
    ... def pendulum(t, y, gravity):
    ...     return np.stack([y[1], -gravity * np.sin(y[0])])
    >>> start = np.stack([np.linspace(0, 0.1, 1000), np.zeros(1000)], axis=-1)
    >>> t = np.linspace(0, 2 * np.pi, 101)
    >>> y = smallmm.rk4(pendulum, start, t, 1.0)
    >>> y.shape, y[-1, -1].round(3)  # small swings have the period 2 pi
    ((101, 1000, 2), array([0.1, 0. ]))
    """
    name = "rk4"
    if not callable(function):
        raise TypeError(f"{name}: function is {shown(function)}; expected a function")
    step = _step_of(function)
    if needs_parts((y0, t, *args)):
        others = {
            f"args[{i}]": Argument(x, len(dims), False)
            for i, (x, dims) in enumerate(zip(args, step._inputs[4:], strict=False))
        }
        arguments = {"y0": Argument(y0, len(step._inputs[0]), False), "t": Argument(t, 0, True), **others}
        return in_parts(name, lambda y0, t, **args: rk4(function, y0, t, *args.values()), arguments, True)
    start, times = array_of(name, "y0", y0), array_of(name, "t", t)
    if not times.ndim:
        raise ValueError(f"{name}: t is a number; expected times as its first dimension")
    before = joined(times[:1], times[:-1])
    xs = tuple(_beside(start, x) for x in (before, times, _span(times, before)))
    with results_as(lambda found: found.ys):
        return scanned(name, step, start, xs, args).ys


def _beside(y: Any, t: Any) -> Any:
    """Times in the library and dtype of y, on its device."""
    dtype = dtype_of(y)
    real = (
        np.finfo(dtype).dtype if dtype.kind == "c" else np.dtype(np.float64) if dtype.kind in "biu" else dtype
    )
    xp: Any = namespace_of(y)
    return (
        from_host(xp, t, y, getattr(xp, real.name)) if isinstance(t, np.ndarray) else cast(xp, t, real.name)
    )

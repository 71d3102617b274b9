"""Linear recurrences, of numbers and of vectors, and products of all matrices up to each time."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.options import flag
from .._libraries import is_group
from .._programs.compose import array_of, in_one_dtype
from .._programs.fuse import Fused, fuse
from .associative import prefixes
from .parts import arguments_of, in_parts, needs_parts
from .scans import scanned


def _next(x: Any, a: Any, b: Any) -> Any:
    x, a, b = in_one_dtype("linear_recurrence", (x, a, b))
    x = a @ x + b if x.ndim else a * x + b
    return x, x


def _next_by_one(x: Any, b: Any, a: Any) -> Any:
    """With an a of all times, which comes last then."""
    return _next(x, a, b)


# By whether a is matrices, and whether it is the same at all times
_STEPS: dict[tuple[bool, bool], Fused[..., Any]] = {
    (False, False): fuse(_next),
    (False, True): fuse(_next_by_one),
    (True, False): fuse(_next, "(n),(n,n),(n)->(n),(n)"),
    (True, True): fuse(_next_by_one, "(n),(n),(n,n)->(n),(n)"),
}
for _step in _STEPS.values():
    _step.speak_as("linear_recurrence")


def _dims(x: Any) -> int:
    return x.min_dims if is_group(x) else np.ndim(x)


def linear_recurrence(a: "ArrayLike", b: "ArrayLike", x0: "ArrayLike", *, reverse: bool = False) -> Any:
    """``x[t] = a[t] x[t-1] + b[t]`` of many series, in one pass.

    Parameters
    ----------
    a, b : array_like, shapes (T, ..., n, n) and (T, ..., n), or (T, ...) and (T, ...)
        Time first. a is matrices and b vectors if a has one dimension more than b; with as many, both are
        numbers. All dimensions but the n broadcast, time too: a of shape (1, n, n) is one matrix for all
        times and series.
    x0 : array_like, shape (..., n) or (...)
        x before the first time.
    reverse : bool
        Whether time runs backward: ``x[t] = a[t] x[t+1] + b[t]``, and x0 is what comes after the last time.

    Returns
    -------
    array, shape (T, ..., n) or (T, ...)
        x at each time, without x0.

    Raises
    ------
    ValueError, TypeError
        a has neither as many dimensions as b nor one more; or as `matmul`.

    See Also
    --------
    cumulative_matmul : products of the matrices.
    scan : other recurrences.

    Notes
    -----
    One `scan`: 2 n^2 operations for each time and series, of numbers 2. Times run one after the other; series
    run side by side, and threads share them. Groups of series, and Dask's arrays, are taken as by `scan`.

    Examples
    --------
    Returns of rewards, each later one discounted by 0.5:

    >>> rewards = np.array([1.0, 0.0, 4.0])
    >>> smallmm.linear_recurrence([0.5], rewards, 0.0, reverse=True)
    array([2., 2., 4.])

    Autoregressions of two numbers, one matrix for all times of 1000 series:

    >>> a, shocks = np.array([[[0.5, 0.1], [0.0, 0.9]]]), np.ones((20, 1000, 2))
    >>> smallmm.linear_recurrence(a[:, None], shocks, np.zeros(2)).shape
    (20, 1000, 2)
    """
    name = "linear_recurrence"
    backward = flag(name, "reverse", reverse)
    if needs_parts((a, b, x0)):
        dims = "n" if _dims(a) > _dims(b) else ""
        cores = {"a": dims and "n,n", "b": dims, "x0": dims}
        arguments = arguments_of({"a": a, "b": b}, {"x0": x0}, cores)
        return in_parts(name, partial(linear_recurrence, reverse=backward), arguments, True)
    factors, added = array_of(name, "a", a), array_of(name, "b", b)
    more = factors.ndim - added.ndim
    if more not in (0, 1) or not added.ndim:
        raise ValueError(
            f"{name}: a has shape {tuple(factors.shape)} and b {tuple(added.shape)}; expected (T, ..., n, n) "
            "and (T, ..., n), or numbers of as many dimensions, with time first"
        )
    times = factors.shape[0], added.shape[0]
    if times[0] != times[1] and 1 not in times:
        raise ValueError(f"{name}: a has {times[0]} times and b {times[1]}; expected as many, or 1")
    constant_a = times[0] != times[1] and times[0] == 1
    xs: tuple[Any, ...]
    consts: tuple[Any, ...] = ()
    if constant_a:
        xs, consts = (added,), (factors[0],)
    elif times[0] != times[1]:
        xs, consts = (factors,), (added[0],)
    else:
        xs = factors, added
    return scanned(name, _STEPS[more == 1, constant_a], x0, xs, consts, reverse=backward).ys


@fuse("(n,n),(n,n)->(n,n)")
def _followed(product: Any, a: Any) -> Any:
    return product @ a


@fuse("(n,n),(n,n)->(n,n)")
def _preceded(product: Any, a: Any) -> Any:
    return a @ product


for _product in (_followed, _preceded):
    _product.speak_as("cumulative_matmul")


def cumulative_matmul(a: "ArrayLike", *, reverse: bool = False) -> Any:
    """Products of all matrices up to each time, ``a[0] @ a[1] @ ... @ a[t]``, of many series in one pass.

    Parameters
    ----------
    a : array_like, shape (T, ..., n, n)
        Time first, then series.
    reverse : bool
        Whether products are those from each time on: ``a[t] @ a[t+1] @ ... @ a[T-1]``.

    Returns
    -------
    array, shape (T, ..., n, n)

    Raises
    ------
    ValueError, TypeError
        As `matmul`.

    See Also
    --------
    linear_recurrence : products with a vector, n times cheaper.
    multi_dot : the product of a few matrices.

    Notes
    -----
    By `associative_scan`, which shares the times of a long series among threads: 4 n^3 operations for each
    time and series. Of up to 32 times, from the first to the last, half as many. Where
    x[t] = a[t] x[t-1], the products that lead from x[0] are those of the transposes,
    ``cumulative_matmul(a.mT).mT``. Groups of series, and Dask's arrays, are taken as by `scan`.

    Examples
    --------
    >>> a = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> smallmm.cumulative_matmul(np.stack([a, a, a]))[:, 0, 1]
    array([1., 2., 3.])
    """
    name = "cumulative_matmul"
    backward = flag(name, "reverse", reverse)
    if needs_parts((a,)):
        whole = partial(cumulative_matmul, reverse=backward)
        return in_parts(name, whole, arguments_of({"a": a}, {}, {"a": "n,n"}), True)
    given = array_of(name, "a", a)
    if given.ndim < 3 or given.shape[-1] != given.shape[-2]:
        raise ValueError(f"{name}: a has shape {tuple(given.shape)}; expected (T, ..., n, n)")
    return prefixes(_preceded if backward else _followed, [given], backward)[0][0]

"""Systems of tensors, which are systems of matrices in other shapes."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.catalog import composed_of_others
from .._base.errors import SINGULAR, shown
from .._base.options import integer
from .._calls.calls import run
from .._programs.compose import array_of, namespace_of, permuted, written


@composed_of_others
def tensorsolve(
    a: ArrayLike, b: ArrayLike, /, axes: "Sequence[int] | None" = None, *, out: Any = None
) -> Any:
    """Solve ``tensordot(a, x, axes=x.ndim) = b`` for x, as `numpy.linalg.tensorsolve`.

    Parameters
    ----------
    a : array_like
        One tensor. The product of its first ``b.ndim`` lengths equals that of the others.
    b : array_like
        The right-hand side, with as many elements.
    axes : sequence of int, optional
        Axes of `a` that are moved to its end, in this order, before all else.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape ``a.shape[b.ndim:]``

    Raises
    ------
    LinAlgError
        `a` is singular as a matrix.
    ValueError, TypeError
        As `solve`; the lengths do not fit; `a` does not have these axes, each once.

    See Also
    --------
    solve : dtypes, accuracy, orders above 32.
    tensorinv : the inverse.

    Notes
    -----
    The operations of `solve`, of one matrix with a row for each element of `b`.

    Examples
    --------
    >>> a = np.eye(6).reshape(2, 3, 3, 2)
    >>> smallmm.tensorsolve(a, np.ones((2, 3))).shape
    (3, 2)
    """
    op = "tensorsolve"
    tensor, values = array_of(op, "a", a), array_of(op, "b", b)
    if axes is not None:
        tensor = permuted(tensor, _moved_last(op, axes, tensor.ndim))
    matrix = _matrix(op, tensor, values.ndim, "the dimensions of b")
    n = matrix.shape[0]
    if prod(values.shape) != n:
        raise ValueError(f"{op}: b has shape {tuple(values.shape)}; expected {n} elements")
    operands = {"a": matrix, "b": _reshaped(values, (n,))}
    x = run(op, "solve", operands, (None,), None, SINGULAR)
    return written(op, _reshaped(x, tuple(tensor.shape[values.ndim :])), out)


@composed_of_others
def tensorinv(a: ArrayLike, /, ind: int = 2, *, out: Any = None) -> Any:
    """The inverse of a tensor for `tensordot`, as `numpy.linalg.tensorinv`.

    Parameters
    ----------
    a : array_like
        One tensor. The product of its first `ind` lengths equals that of the others.
    ind : int
        How many of its dimensions stand for rows of a matrix.
    out : array, optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape ``a.shape[ind:] + a.shape[:ind]``
        ``tensordot(tensorinv(a, ind), b, axes=ind)`` is ``tensorsolve(a, b)`` of b with `ind` dimensions.

    Raises
    ------
    LinAlgError
        `a` is singular as a matrix.
    ValueError, TypeError
        As `inv`; the lengths do not fit; `ind` is not a positive integer.

    See Also
    --------
    inv : dtypes, accuracy, orders above 32.
    tensorsolve : solutions, in less time and with smaller errors.

    Notes
    -----
    The operations of `inv`, of one matrix.

    Examples
    --------
    >>> smallmm.tensorinv(np.eye(6).reshape(2, 3, 3, 2)).shape
    (3, 2, 2, 3)
    """
    op = "tensorinv"
    tensor, ind = array_of(op, "a", a), integer(op, "ind", ind)
    if ind < 1:
        raise ValueError(f"{op}: ind is {ind}; expected at least 1")
    inverse = run(op, "inv", {"a": _matrix(op, tensor, ind, "ind")}, (None,), None, SINGULAR)
    return written(op, _reshaped(inverse, (*tensor.shape[ind:], *tensor.shape[:ind])), out)


def _matrix(op: str, a: Any, rows: int, why: str) -> Any:
    """The matrix whose rows are the first dimensions of a."""
    n = prod(a.shape[:rows])
    if rows > a.ndim or prod(a.shape[rows:]) != n:
        raise np.linalg.LinAlgError(  # as NumPy's, also a ValueError
            f"{op}: a has shape {tuple(a.shape)}; expected equal products of its first {rows} lengths "
            f"({why}) and of the others"
        )
    return _reshaped(a, (n, n))


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return namespace_of(x).reshape(x, shape)


def _moved_last(op: str, axes: "Sequence[int]", ndim: int) -> tuple[int, ...]:
    """The order of so many axes, of which some are last."""
    last = [integer(op, "axes", i) for i in axes]
    if not all(-ndim <= i < ndim for i in last) or len({i % ndim for i in last}) < len(last):
        raise ValueError(f"{op}: axes is {shown(axes)}; expected different axes of {ndim} dimensions")
    last = [i % ndim for i in last]
    return (*(i for i in range(ndim) if i not in last), *last)

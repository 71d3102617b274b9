"""Systems of tensors, which are systems of matrices in other shapes."""

from collections.abc import Sequence
from functools import cache
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.cache import Cache
from .._base.catalog import composed_of_others
from .._base.errors import SINGULAR, shown
from .._base.options import integer, pair, sequence
from .._calls.calls import checked, outs_with_info, run
from .._calls.twins import twin_of
from .._programs.compose import array_of, in_one_dtype, namespace_of, permuted, written
from .._programs.fuse import fuse
from .._programs.fused import Fused
from .contract import contract_with_path
from .subscripts import is_list
from .systems import InvExResult, SolveExResult

_tensordots = Cache()  # by axes and shapes: the subscripts


@composed_of_others
def tensorsolve(
    a: "ArrayLike", b: "ArrayLike", axes: "Sequence[int] | None" = None, *, out: Any = None
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
    solve : dtypes, accuracy, orders above 128.
    tensorinv : the inverse.
    tensorsolve_ex : the same, with a singular tensor reported in a number.

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
    x, info = run(op, "solve", operands, (None, None))
    return _written(op, _reshaped(x, tuple(tensor.shape[values.ndim :])), info, out)


tensorsolve_ex = twin_of(
    tensorsolve,
    SolveExResult,
    "that of `solve_ex`, of the one matrix that the tensor is",
    {"np.zeros((2, 3, 3, 2)), np.ones((2, 3))": "np.int32(1)"},
)


@composed_of_others
def tensorinv(a: "ArrayLike", ind: int = 2, *, out: Any = None) -> Any:
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
    inv : dtypes, accuracy, orders above 128.
    tensorinv_ex : the same, with a singular tensor reported in a number.
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
    tensor, ind = array_of(op, "a", a), integer(op, "ind", ind, least=1)
    inverse, info = run(op, "inv", {"a": _matrix(op, tensor, ind, "ind")}, (None, None))
    return _written(op, _reshaped(inverse, (*tensor.shape[ind:], *tensor.shape[:ind])), info, out)


tensorinv_ex = twin_of(
    tensorinv,
    InvExResult,
    "that of `inv_ex`, of the one matrix that the tensor is",
    {"np.zeros((2, 3, 3, 2))": "np.int32(1)"},
)


def _written(op: str, x: Any, info: Any, out: Any) -> Any:
    """The tensor that a matrix stands for, with info where that is wanted."""
    outs = outs_with_info(op, out)
    return checked(op, (written(op, x, outs[0]), written(op, info, outs[1])), SINGULAR, wanted=out)


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
    """The order of so many axes with these as the last ones."""
    last = [integer(op, "axes", i) for i in sequence(op, "axes", axes)]
    if not all(-ndim <= i < ndim for i in last) or len({i % ndim for i in last}) < len(last):
        raise ValueError(f"{op}: axes is {shown(axes)}; expected different axes of {ndim} dimensions")
    last = [i % ndim for i in last]
    return (*(i for i in range(ndim) if i not in last), *last)


@composed_of_others
def tensordot(x1: "ArrayLike", x2: "ArrayLike", /, axes: Any = 2, *, out: Any = None) -> Any:
    """Sums of products over some axes, as in the Python array API standard and `numpy.tensordot`.

    Parameters
    ----------
    x1, x2 : array_like
        The operands. No dimensions broadcast.
    axes : int or pair of (sequences of) int
        Which axes of `x1` are summed over with which of `x2`. An int: so many, the last with the first.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array
        Its axes are the others of `x1`, then the others of `x2`.

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`; the operands do not have these axes, or not with equal lengths.

    See Also
    --------
    contract : sums by subscripts, also of stacks.

    Notes
    -----
    The operations of one product of two matrices, in one call of `matmul`.

    Examples
    --------
    >>> smallmm.tensordot(np.ones((5, 2, 3)), np.ones((3, 2, 4)), axes=((1, 2), (1, 0))).shape
    (5, 4)
    """
    op = "tensordot"
    operands = array_of(op, "x1", x1), array_of(op, "x2", x2)
    shapes = tuple(operands[0].shape), tuple(operands[1].shape)
    key = repr(axes), shapes  # in which 1.0 is not 1
    subscripts = _tensordots.get(key)
    if subscripts is None:
        subscripts = _subscripts_of(op, axes, shapes)
        _tensordots.keep(key, subscripts)
    answer = contract_with_path(op, subscripts, operands, None, out, None, "K", "safe", False)
    return np.asarray(answer) if isinstance(answer, np.generic) else answer  # as NumPy's


def _subscripts_of(op: str, axes: Any, shapes: Sequence[tuple[int, ...]]) -> str:
    dims = [len(shape) for shape in shapes]
    if sum(dims) > len(ascii_letters):
        raise ValueError(
            f"{op}: x1 and x2 have {sum(dims)} dimensions; expected at most {len(ascii_letters)}"
        )
    letters = iter(ascii_letters)
    labels = [[next(letters) for _ in shape] for shape in shapes]
    for i, j in _summed_axes(op, axes, dims):
        if shapes[0][i] != shapes[1][j]:
            raise ValueError(
                f"{op}: x2 has shape {shapes[1]}; expected {shapes[0][i]} elements along axis {j}"
            )
        labels[1][j] = labels[0][i]
    once = [x for some, others in (labels, labels[::-1]) for x in some if x not in others]
    left, right = ("".join(some) for some in labels)
    return f"{left},{right}->{''.join(once)}"


def _summed_axes(op: str, axes: Any, dims: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of axes of two operands of so many dimensions, counted from 0."""
    if is_list(axes):
        sides = [
            [integer(op, "axes", i) for i in (side if is_list(side) else [side])]
            for side in pair(
                op, "axes", axes if isinstance(axes, tuple) else [*axes], "(axes of x1, axes of x2)"
            )
        ]
    else:
        count = integer(op, "axes", axes, least=0)
        sides = [list(range(-count, 0)), list(range(count))]
    for side, ndim in zip(sides, dims, strict=True):
        if not all(-ndim <= i < ndim for i in side) or len({i % ndim for i in side}) < len(side):
            raise ValueError(
                f"{op}: axes is {shown(axes)}; expected axes of {dims[0]} and {dims[1]} dimensions"
            )
    if len(sides[0]) != len(sides[1]):
        raise ValueError(f"{op}: axes is {shown(axes)}; expected as many axes of x1 as of x2")
    first, second = ([i % ndim for i in side] for side, ndim in zip(sides, dims, strict=True))
    return list(zip(first, second, strict=True))


@composed_of_others
def kron_apply(factors: "Sequence[ArrayLike]", x: "ArrayLike", *, out: Any = None) -> Any:
    """The Kronecker product of matrices times a vector, without that product.

    Parameters
    ----------
    factors : sequence of array_like, shapes (..., m_i, n_i)
        The matrices A, B, ... of ``A (x) B (x) ...``, or stacks of them.
    x : array_like, shape (..., n_1 n_2 ...)
        A stack of vectors. All batch dimensions broadcast.
    out : array, shape (..., m_1 m_2 ...), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., m_1 m_2 ...)

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`; `x` has another length than the product of the n_i; there is no factor.

    See Also
    --------
    contract, sum_factorized : other products along the dimensions of a tensor.

    Notes
    -----
    x is seen as a tensor, and each factor is multiplied along its dimension, the first first: of k square
    factors of order n, 2 k n^(k + 1) operations in place of 2 n^(2 k).

    Examples
    --------
    >>> a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.eye(3)
    >>> x = np.arange(6.0)
    >>> np.array_equal(smallmm.kron_apply([a, b], x), np.kron(a, b) @ x)
    True
    """
    factors = sequence("kron_apply", "factors", factors)
    if not factors:
        raise ValueError("kron_apply: factors has no matrix; expected at least one")
    return _kron(len(factors))(*factors, x, out=out)


@cache
def _kron(count: int) -> Fused:
    def kron_apply(*arrays: Any) -> Any:
        *factors, x = in_one_dtype("kron_apply", arrays)
        columns = prod(a.shape[-1] for a in factors)
        if x.shape[-1] != columns:
            raise ValueError(f"kron_apply: x has length {x.shape[-1]}; expected {columns}, of the factors")
        return _along(factors, x.reshape(*(a.shape[-1] for a in factors))).reshape(-1)

    signature = ",".join(f"(m{i},n{i})" for i in range(count))
    return fuse(kron_apply, f"{signature},(n)")


def _along(factors: Sequence[Any], x: Any) -> Any:
    """Each matrix times a tensor, along the dimension that it stands for, from the first to the last."""
    for i, a in enumerate(factors):
        before, after = x.shape[:i], x.shape[i + 1 :]
        if i == 0:
            x = a @ x.reshape(x.shape[0], -1)
        elif not after:
            x = x.reshape(-1, x.shape[-1]) @ a.mT
        else:
            x = a @ x.reshape(prod(before), x.shape[i], -1)
        x = x.reshape(*before, a.shape[0], *after)
    return x


@composed_of_others
def sum_factorized(b1: "ArrayLike", d: "ArrayLike", u: "ArrayLike", *, out: Any = None) -> Any:
    """``B^T D B u`` with ``B = B1 (x) B1 (x) B1``: how finite elements of high order are applied.

    Parameters
    ----------
    b1 : array_like, shape (..., q, p)
        The values of p functions at q points of one dimension.
    d : array_like, shape (..., q, q, q)
        The diagonal of D: a number for each point.
    u : array_like, shape (..., p, p, p)
        A coefficient for each product of functions. All batch dimensions broadcast.
    out : array, shape (..., p, p, p), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., p, p, p)

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`.

    See Also
    --------
    kron_apply : one such product.

    Notes
    -----
    Six products along one dimension each, and one by D, in one pass: 4 (q p^3 + q^2 p^2 + q^3 p) operations
    per element in place of 4 q^3 p^3 (S. A. Orszag, "Spectral methods for problems in
    complex geometries", 1980).

    Examples
    --------
    >>> b1, d, u = np.ones((3, 2)), np.ones((1000, 3, 3, 3)), np.ones((1000, 2, 2, 2))
    >>> smallmm.sum_factorized(b1, d, u)[0, 0, 0, 0]
    np.float64(216.0)
    """
    return _sum_factorized(b1, d, u, out=out)


@fuse("(q,p),(q,q,q),(p,p,p)->(p,p,p)")
def _sum_factorized(b1: Any, d: Any, u: Any) -> Any:
    b1, d, u = in_one_dtype("sum_factorized", (b1, d, u))
    there = _along([b1, b1, b1], u)
    return _along([b1.mT, b1.mT, b1.mT], d * there)


_sum_factorized._name = "sum_factorized"

"""Products of several operands, products of vectors, and traces and diagonals."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from numpy.typing import ArrayLike

from .._base.catalog import composed_of_others
from .._base.composition import MAX_DIMS, NO_TEMPORARIES, composition_of
from .._base.options import dtype_of_sums, integer, sequence
from .._calls.calls import conjugated
from .._programs.compose import (
    array_of,
    composed,
    differences,
    dimensions,
    in_one_dtype,
    namespace_of,
    permuted,
    products,
    sums,
)
from .products import matmul, product_by


@composed_of_others
def matrix_transpose(x: "ArrayLike", /) -> Any:
    """The transpose of each matrix of a stack, as a view.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        A stack of matrices, of any dtype.

    Returns
    -------
    array, shape (..., n, m)

    Raises
    ------
    ValueError
        `x` has fewer than two dimensions.

    See Also
    --------
    einsum : other orders of dimensions.

    Notes
    -----
    No operations: no element is copied or converted.

    Examples
    --------
    >>> smallmm.matrix_transpose(np.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    matrices = _matrices("matrix_transpose", x)
    ndim = matrices.ndim
    return permuted(matrices, (*range(ndim - 2), ndim - 1, ndim - 2))


@composed_of_others
def diagonal(x: "ArrayLike", /, *, offset: int = 0) -> Any:
    """A diagonal of each matrix of a stack, as `numpy.linalg.diagonal`.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        A stack of matrices, of any dtype.
    offset : int
        0: the main diagonal. k > 0: the one that begins in column k. k < 0: the one that begins in row -k.

    Returns
    -------
    array, shape (..., k)
        A view of `x` if its library has views. NumPy's are read-only.

    Raises
    ------
    ValueError, TypeError
        `x` has fewer than two dimensions; `offset` is not an integer.

    See Also
    --------
    trace : the sum of a diagonal.

    Notes
    -----
    No operations: no element is converted.

    Examples
    --------
    >>> smallmm.diagonal([[1, 2], [3, 4]], offset=1)
    array([2])
    """
    matrices = _matrices("diagonal", x)
    return _diagonal(namespace_of(matrices), matrices, integer("diagonal", "offset", offset))


@composed_of_others
def trace(x: "ArrayLike", /, *, offset: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """Sum of a diagonal of each matrix of a stack, as `numpy.linalg.trace`.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        A stack of matrices.
    offset : int
        The diagonal, as in `diagonal`.
    dtype : dtype, optional
        A floating-point or complex type, of which the elements are added. None: that of `x`, of integers
        float64.
    out : array, shape (...), optional
        Where the result is written.

    Returns
    -------
    array, shape (...)
        0 for a diagonal without elements.

    Raises
    ------
    ValueError, TypeError
        As `solve`; `offset` is not an integer.

    See Also
    --------
    diagonal : the elements.
    solve : dtypes.

    Notes
    -----
    min(m, n) operations per matrix. Elements are added from the top, in chunks of 64, and the sums of chunks
    likewise. Bits do not depend on the batch, the neighbours, strides or threads. Integers are added in
    float64.

    Examples
    --------
    >>> smallmm.trace([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    array([ 5., 13.])
    """
    offset = integer("trace", "offset", offset)
    if dtype is not None:
        (x,) = in_one_dtype(
            "trace", [diagonal(_matrices("trace", x), offset=offset)], dtype_of_sums("trace", dtype)
        )
        return composed(composition_of("trace", "(n)->()", (None,), sums), {"x": x}, out)
    composition = composition_of("trace", "(m,n)->()", (None,), _trace, offset, block=NO_TEMPORARIES)
    return composed(composition, {"x": x}, out)


@composed_of_others
def outer(x1: "ArrayLike", x2: "ArrayLike", /, *, out: Any = None) -> Any:
    """Outer product of each pair of vectors: column times row.

    Parameters
    ----------
    x1 : array_like, shape (..., m)
        A stack of vectors.
    x2 : array_like, shape (..., n)
        A stack of vectors. Batch dimensions broadcast.
    out : array, shape (..., m, n), optional
        Where the result is written.

    Returns
    -------
    array, shape (..., m, n)

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`; an operand has no dimension.

    See Also
    --------
    batched_matmul : dtypes.
    numpy.outer : flattens its operands.

    Notes
    -----
    m n operations per pair, in one call of `matmul`.

    Examples
    --------
    >>> smallmm.outer([1.0, 2.0], [3.0, 4.0, 5.0])
    array([[ 3.,  4.,  5.],
           [ 6.,  8., 10.]])
    """
    column, row = _array("outer", "x1", x1), _array("outer", "x2", x2)
    for name, x in (("x1", column), ("x2", row)):
        _refuse_most_dimensions("outer", name, x)
    return product_by("outer", "matmul", column[..., :, None], row[..., None, :], out)


@composed_of_others
def vecdot(x1: "ArrayLike", x2: "ArrayLike", /, *, axis: int = -1, out: Any = None) -> Any:
    """Inner product of each pair of vectors, as in the Python array API standard and `numpy.vecdot`.

    Parameters
    ----------
    x1 : array_like, shape (..., k)
        A stack of vectors, whose complex elements are conjugated.
    x2 : array_like, shape (..., k)
        A stack of vectors. Batch dimensions broadcast.
    axis : int
        The axis of the k elements.
    out : array, shape (...), optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (...)

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`; an operand has no such `axis`.

    See Also
    --------
    batched_matmul : dtypes, accuracy.
    contract : sums over several axes.

    Notes
    -----
    2 k operations per pair, in one call of `vecmat`.

    Examples
    --------
    >>> smallmm.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    array([3., 7.])
    """
    axis = integer("vecdot", "axis", axis)
    row = conjugated(_vectors("vecdot", "x1", x1, axis))
    column = _vectors("vecdot", "x2", x2, axis, row.shape[-1])
    _refuse_most_dimensions("vecdot", "x2", column)
    column = column[..., None]
    if out is None:
        return product_by("vecdot", "vecmat", row, column)[..., 0]
    product_by("vecdot", "vecmat", row, column, out[..., None] if hasattr(out, "ndim") else out)
    return out


@composed_of_others
def cross(x1: "ArrayLike", x2: "ArrayLike", /, *, axis: int = -1, out: Any = None) -> Any:
    """Cross product of each pair of vectors of three elements, as `numpy.linalg.cross`.

    Parameters
    ----------
    x1, x2 : array_like
        Stacks of vectors, which broadcast.
    axis : int
        The axis of the three elements.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array
        Has the broadcast shape.

    Raises
    ------
    ValueError, TypeError
        As `solve`; an operand has no such `axis`, or not with length 3.

    See Also
    --------
    solve : dtypes.

    Notes
    -----
    9 operations per pair. Each element is ``x1[i] * x2[j] - x1[j] * x2[i]``. Both products are rounded.

    Examples
    --------
    >>> smallmm.cross([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.0, 0.0, 1.0])
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.]])
    """
    axis = integer("cross", "axis", axis)
    operands = {name: _vectors("cross", name, x, axis, 3) for name, x in (("x1", x1), ("x2", x2))}
    target = _moved(out, axis, -1) if hasattr(out, "ndim") and out.ndim >= len(operands["x1"].shape) else out
    result = composed(_CROSS, operands, target)
    return _moved(result, -1, axis) if out is None else out


@composed_of_others
def multi_dot(arrays: "Sequence[ArrayLike]", *, out: Any = None) -> Any:
    """Product of several stacks of matrices, in the order with the fewest operations.

    Parameters
    ----------
    arrays : sequence of array_like, shapes (..., m, k), (..., k, l), ..., (..., p, n)
        At least two. Batch dimensions broadcast. The first may be a vector, which is a row, and the last may
        be a vector, which is a column.
    out : array, shape (..., m, n), optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., m, n), without m or n where that operand is a vector

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`; `arrays` has fewer than two.

    See Also
    --------
    batched_matmul : dtypes, accuracy.

    Notes
    -----
    The order depends only on the sizes of the matrices, not on the batch. It has the fewest operations. Of
    equal orders it is the one that splits furthest to the left (Cormen et al., Introduction to Algorithms,
    15.2). Each product is one call of `matmul`.

    Examples
    --------
    >>> a, b, c = np.ones((100, 2, 30)), np.ones((100, 30, 2)), np.ones((100, 2, 1))
    >>> smallmm.multi_dot([a, b, c]).shape
    (100, 2, 1)
    """
    operands = [
        _array("multi_dot", f"arrays[{i}]", x) for i, x in enumerate(sequence("multi_dot", "arrays", arrays))
    ]
    if len(operands) < 2:
        raise ValueError(f"multi_dot: arrays has {len(operands)} arrays; expected at least two")
    operands = in_one_dtype("multi_dot", operands)
    shapes = [tuple(x.shape) for x in operands]
    is_row, is_column = (len(shape) == 1 for shape in (shapes[0], shapes[-1]))
    if is_row:
        operands[0] = operands[0][None, :]
    if is_column:
        operands[-1] = operands[-1][:, None]
    sizes = list(operands[0].shape[-2:])
    for i, x in enumerate(operands):
        if x.ndim < 2:
            raise ValueError(f"multi_dot: arrays[{i}] has shape {shapes[i]}; expected at least 2 dimensions")
        if i and x.shape[-2] != sizes[-1]:
            raise ValueError(
                f"multi_dot: arrays[{i}] has shape {shapes[i]}; expected {sizes[-1]} rows to match "
                f"arrays[{i - 1}] of shape {shapes[i - 1]}"
            )
        sizes[i + 1 :] = [x.shape[-1]]
    splits = _cheapest_splits(tuple(map(int, sizes)))

    def product(first: int, last: int, out: Any = None) -> Any:
        if first == last:
            return operands[first]
        split = splits[first, last]
        return matmul(product(first, split), product(split + 1, last), out)

    rows, columns = 0 if is_row else slice(None), 0 if is_column else slice(None)
    if out is None:
        whole = product(0, len(operands) - 1)
        return whole[..., rows, columns] if is_row or is_column else whole
    if is_row:
        target = out[..., None, None] if is_column else out[..., None, :]
    else:
        target = out[..., None] if is_column else out
    product(0, len(operands) - 1, target)
    return out


# --- what the public functions share -------------------------------------------------------------------


def _array(op: str, name: str, x: Any) -> Any:
    """x as an array of at least one dimension."""
    x = array_of(op, name, x)
    if not x.ndim:
        raise ValueError(f"{op}: {name} has no dimension; expected at least 1")
    return x


def _refuse_most_dimensions(op: str, name: str, x: Any) -> None:
    """ValueError for an array that cannot have the one dimension more that is needed."""
    if x.ndim >= MAX_DIMS:
        raise ValueError(f"{op}: {name} has {x.ndim} dimensions; expected at most {MAX_DIMS - 1}")


def _vectors(op: str, name: str, x: Any, axis: int, length: int | None = None) -> Any:
    """x with its vectors along the last axis, which have that length."""
    x = _array(op, name, x)
    if not -x.ndim <= axis < x.ndim or length not in (None, x.shape[axis]):
        expected = f"axis {axis}" if length is None else f"length {length} along axis {axis}"
        raise ValueError(f"{op}: {name} has shape {tuple(x.shape)}; expected {expected}")
    return _moved(x, axis, -1)


def _matrices(op: str, x: Any) -> Any:
    x = _array(op, "x", x)
    if x.ndim < 2:
        raise ValueError(f"{op}: x has shape {tuple(x.shape)}; expected at least 2 dimensions, (..., m, n)")
    return x


def _moved(x: Any, source: int, target: int) -> Any:
    """x with one axis elsewhere."""
    axes = list(range(dimensions(x)))
    axes.insert(target % len(axes), axes.pop(source))
    return permuted(x, tuple(axes))


@lru_cache(maxsize=256)
def _cheapest_splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """For each run of matrices the one after which it is split; matrix i is sizes[i] x sizes[i + 1]."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    splits = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            cost[first, last], splits[first, last] = min(
                (
                    cost[first, split]
                    + cost[split + 1, last]
                    + sizes[first] * sizes[split + 1] * sizes[last + 1],
                    split,
                )
                for split in range(first, last)
            )
    return splits


# --- in terms of a library's namespace -----------------------------------------------------------------


def _diagonal(xp: Any, x: Any, offset: int) -> Any:
    return xp.linalg.diagonal(x, offset=offset)


def _trace(offset: int, xp: Any, x: Any) -> Any:
    return sums(xp, _diagonal(xp, x, offset))


def _cross(xp: Any, a: Any, b: Any) -> Any:
    a0, a1, a2 = (a[..., i] for i in range(3))
    b0, b1, b2 = (b[..., i] for i in range(3))
    pairs = ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))
    both = ((products(xp, p, q), products(xp, r, s)) for p, q, r, s in pairs)
    return xp.stack([differences(xp, x, y) for x, y in both], axis=-1)


_CROSS = composition_of("cross", "(k),(k)->(k)", (None,), _cross)

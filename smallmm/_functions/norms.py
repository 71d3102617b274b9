"""Norms, condition numbers and ranks of stacked arrays. All sums are smallmm's products with ones, in a fixed
order."""

from math import inf, prod
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._base.cache import Cache
from .._base.catalog import composed_of_others
from .._base.composition import REAL, Composition, composition_of
from .._base.errors import NO_SINGULAR_VALUES, NOT_ORTHOGONAL, refuse_complex, shown
from .._base.options import flag
from .._calls.arrays import without_labels
from .._calls.calls import checked
from .._programs.compose import array_of, composed, dimensions, permuted
from .norm_steps import (
    cond_of,
    matrix_order,
    norm_of_matrices,
    norm_of_values,
    norm_of_vectors,
    rank,
    rank_of_vector,
    reduced_axes,
)


@composed_of_others
def vector_norm(
    x: "ArrayLike",
    /,
    ord: float | None = 2,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Norms of vectors, as defined by the Python array API standard and by `numpy.linalg.vector_norm`.

    Parameters
    ----------
    x : array_like
        An array that has its vectors along `axis`.
    ord : number, inf or -inf
        ``sum(abs(x)**ord)**(1 / ord)``. inf: the largest magnitude. -inf: the smallest. 0: the number of
        elements that are not zero. None: 2, as in NumPy.
    axis : int or tuple of ints, optional
        The axis of each vector, or several axes, whose elements form one vector. None: all axes.
    keepdims : bool
        Whether the result keeps the axes of the vectors, with length 1.
    out : array, optional
        Where the result is written.

    Returns
    -------
    array
        Has the shape of `x` without the axes of the vectors. No intermediate result over- or underflows. The
        norm of a vector without elements is 0.

    Raises
    ------
    ValueError, TypeError
        As `solve`; `ord` is not a number; `x` has no such `axis`; `ord` is negative for no elements.

    See Also
    --------
    norm : NumPy's older function, for vectors and matrices.
    matrix_norm : norms of matrices.
    solve : dtypes.

    Notes
    -----
    About 2 operations per element. Elements are added in C order, in chunks of 64, and the sums of chunks
    likewise. Bits do not depend on the batch, the neighbours, strides or threads. Powers by whole numbers up
    to 8 are products of squares; others, and roots, are smallmm's own, as those of `fuse`.

    Examples
    --------
    >>> smallmm.vector_norm([[3.0, 4.0], [1e200, 0.0]], axis=1)
    array([5.e+000, 1.e+200])
    """
    key = _key("vector_norm", x, ord, axis, keepdims, out)
    answer = _again(key, x)
    if answer is not NotImplemented:
        return answer
    return _vector_norm(
        "vector_norm", array_of("vector_norm", "x", x), axis, keepdims, 2 if ord is None else ord, out, key
    )


@composed_of_others
def matrix_norm(
    x: "ArrayLike",
    /,
    ord: Literal["fro", "nuc"] | float | None = "fro",
    *,
    keepdims: bool = False,
    out: Any = None,
) -> Any:
    """Norm of each matrix of a stack, as defined by the Python array API standard.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        A stack of matrices.
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf}
        "fro": the square root of the sum of squares. "nuc": the sum of singular values. 1, -1: the largest or
        smallest column sum of magnitudes. inf, -inf: the same for rows. 2, -2: the largest or smallest
        singular value. None: "fro", as in NumPy.
    keepdims : bool
        True: the result has shape (..., 1, 1).
    out : array, optional
        Where the result is written.

    Returns
    -------
    array, shape (...)
        The norm of a matrix without elements is 0. No intermediate result over- or underflows.

    Raises
    ------
    LinAlgError
        The singular values of some matrices did not converge. The exception holds the other matrices' norms.
    ValueError, TypeError
        As `solve`; `ord` is another value, or negative for matrices without elements.

    See Also
    --------
    norm : NumPy's older function, for vectors and matrices.
    solve : dtypes.

    Notes
    -----
    About 2 m n operations per matrix, and those of `svdvals` for "nuc", 2 and -2. Columns are added from the
    top, rows from the left, and for "fro" squares in columns, then the sums of columns. Bits do not depend on
    the batch, the neighbours, strides or threads.

    Examples
    --------
    >>> a = [[1.0, -2.0], [3.0, 4.0]]
    >>> float(smallmm.matrix_norm(a, ord=1)), float(smallmm.matrix_norm(a, ord=np.inf))
    (6.0, 7.0)
    """
    key = _key("matrix_norm", x, ord, None, keepdims, out)
    answer = _again(key, x)
    if answer is not NotImplemented:
        return answer
    x = array_of("matrix_norm", "x", x)
    if dimensions(x) < 2:
        raise ValueError(
            f"matrix_norm: x has shape {np.shape(x)}; expected at least 2 dimensions, (..., m, n)"
        )
    return _matrix_norm("matrix_norm", x, (-2, -1), keepdims, "fro" if ord is None else ord, out, key)


@composed_of_others
def norm(
    x: "ArrayLike",
    ord: Literal["fro", "nuc"] | float | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    check_finite: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Norms of vectors or of matrices, as `numpy.linalg.norm`.

    Parameters
    ----------
    x : array_like
        An array; of one or two dimensions if `ord` is given and `axis` is not.
    ord : {"fro", "nuc"} or number, optional
        As in `vector_norm` for vectors, as in `matrix_norm` for matrices. None: the square root of the sum of
        squares.
    axis : int or (int, int), optional
        The axis of the vectors, or the axes of the rows and columns of matrices. None: all axes.
    keepdims : bool
        Whether the result keeps these axes, with length 1.
    check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, optional
        Where the result is written.

    Returns
    -------
    array
        Has the shape of `x` without these axes.

    Raises
    ------
    LinAlgError, ValueError, TypeError
        As `vector_norm` and `matrix_norm`.

    See Also
    --------
    vector_norm, matrix_norm : the same, by the names of the array API standard.

    Notes
    -----
    About 2 operations per element, and those of `svdvals` for "nuc", 2 and -2.

    Examples
    --------
    >>> x = np.arange(12.0).reshape(2, 2, 3)
    >>> smallmm.norm(x, axis=(1, 2)).round(3)
    array([ 7.416, 21.237])
    >>> smallmm.norm(x, 1, axis=2)
    array([[ 3., 12.],
           [21., 30.]])
    """
    key = _key("norm", x, ord, axis, keepdims, out)
    answer = _again(key, x)
    if answer is not NotImplemented:
        return answer
    x = array_of("norm", "x", x)
    ndim = dimensions(x)
    if axis is None:
        if ord is None:
            return _vector_norm("norm", x, None, keepdims, 2, out, key)
        axis = tuple(range(ndim))
        if ndim not in (1, 2):
            raise ValueError(
                f"norm: x has {ndim} dimensions; expected 1 or 2, or axis, where ord is {shown(ord)}"
            )
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    if len(axes) == 1:
        return _vector_norm("norm", x, axes[0], keepdims, 2 if ord is None else ord, out, key)
    if len(axes) != 2:
        raise ValueError(f"norm: axis is {shown(axis)}; expected an integer or a pair of them")
    return _matrix_norm("norm", x, tuple(axes), keepdims, "fro" if ord is None else ord, out, key)


@composed_of_others
def cond(x: "ArrayLike", p: Literal["fro", "nuc"] | float | None = None, *, out: Any = None) -> Any:
    """Condition number of each matrix of a stack, as `numpy.linalg.cond`.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        A stack of matrices, square unless `p` is None, 2 or -2.
    p : {None, 1, -1, 2, -2, inf, -inf, "fro", "nuc"}
        None, 2: the largest singular value divided by the smallest. -2: the reciprocal of that. Others:
        ``matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)``.
    out : array, shape (...), optional
        Where the result is written.

    Returns
    -------
    array, shape (...)
        Infinite for singular matrices, which are not an error. NaN only if the matrix has a NaN.

    Raises
    ------
    LinAlgError
        The singular values of some matrices did not converge. The exception holds the other results.
    numpy.linalg.LinAlgError
        `x` has fewer than two dimensions, no elements, or is not square where it must be.
    ValueError, TypeError
        As `solve`; `p` is another value.

    See Also
    --------
    matrix_norm, inv : what it is computed from.
    solve : dtypes, orders above 128.

    Notes
    -----
    For 1, -1, inf, -inf and "fro" about 2 n^3 operations per matrix.

    Examples
    --------
    >>> a = [[[1.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]]
    >>> smallmm.cond(a, 1)
    array([ 4., inf])
    """
    x = array_of("cond", "x", x)
    order = matrix_order("cond", "p", 2 if p is None else p)
    shape = np.shape(x)
    if dimensions(x) > 1 and prod(shape[-2:]) == 0:
        raise np.linalg.LinAlgError(f"cond: x has shape {tuple(shape)}; expected matrices with elements")
    signature = "(m,n)->(),()" if order in (2, -2) else "(n,n)->(),()"
    composition = composition_of("cond", signature, (REAL, np.int32), cond_of, order, is_checked=True)
    return checked("cond", composed(composition, {"x": x}, (out,)), NOT_ORTHOGONAL)


@composed_of_others
def matrix_rank(
    A: "ArrayLike",
    tol: "ArrayLike | None" = None,
    hermitian: bool = False,
    *,
    rtol: "ArrayLike | None" = None,
    lower: bool = True,
    out: Any = None,
) -> Any:
    """Rank of each matrix of a stack: how many singular values are above a tolerance.

    Parameters
    ----------
    A : array_like, shape (..., m, n)
        A stack of matrices. A vector has rank 0 if it is zero, else 1.
    tol : array_like, shape (...), optional
        Singular values that do not exceed it count as zero. One number, or one per matrix.
    hermitian : bool
        Whether the matrices are symmetric or, if complex, Hermitian. Then only one triangle is read, and the
        magnitudes of eigenvalues, which cost less, are the singular values.
    rtol : array_like, shape (...), optional
        The same, divided by the largest singular value. If both are None, max(m, n) times the machine
        epsilon.
    lower : bool
        Whether the lower triangle of symmetric matrices is read, not the upper one.
    out : array of int64, shape (...), optional
        Where the result is written.

    Returns
    -------
    array of int64, shape (...)

    Raises
    ------
    LinAlgError
        The singular values of some matrices did not converge, or some have a NaN or an infinity. The
        exception holds the other results.
    ValueError, TypeError
        As `solve`; both `tol` and `rtol` are given.

    See Also
    --------
    lstsq : its rank is that of QR with column pivoting.
    solve : dtypes.

    Notes
    -----
    The operations of `eigvalsh` or `svdvals`.

    Examples
    --------
    >>> smallmm.matrix_rank([np.eye(3), np.ones((3, 3))], hermitian=True)
    array([3, 1])
    """
    A = array_of("matrix_rank", "A", A)
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: tol and rtol are both given; expected one of them")
    hermitian = flag("matrix_rank", "hermitian", hermitian)
    if dimensions(A) < 2:
        dims = "(k)" if dimensions(A) else "()"
        composition = composition_of("matrix_rank", f"{dims}->()", (np.int64,), rank_of_vector)
        return composed(composition, {"A": A}, out)
    operands = {"A": A}
    tolerance = without_labels(rtol if tol is None else tol)
    if tolerance is not None:
        name = "rtol" if tol is None else "tol"
        refuse_complex("matrix_rank", name, tolerance)
        operands[name] = tolerance
    matrices = "(n,n)" if hermitian else "(m,n)"
    signature = f"{matrices}{',()' * (len(operands) - 1)}->(),()"
    dtypes, absolute = (np.int64, np.int32), tol is not None
    triangle = ("L" if flag("matrix_rank", "lower", lower) else "U") if hermitian else None
    composition = composition_of("matrix_rank", signature, dtypes, rank, triangle, absolute, is_checked=True)
    return checked("matrix_rank", composed(composition, operands, (out,)), NO_SINGULAR_VALUES)


# --- what the public functions share -------------------------------------------------------------------


_cache = Cache()  # by `_key`: compositions


def _key(op: str, x: Any, order: Any, axis: Any, keepdims: Any, out: Any) -> Any:
    """What calls have in common that one composition serves as it is; None: they are looked at anew."""
    plain = out is None and keepdims is False and type(axis) in (int, type(None))
    if not plain or type(order) not in (int, float, str, type(None)):
        return None
    return op, getattr(x, "ndim", None), type(order), order, axis


def _again(key: Any, x: Any) -> Any:
    """The result if such a call was met before, else NotImplemented."""
    cached = _cache.get(key)
    return NotImplemented if cached is None else cached.directly((x,))


def _vector_norm(op: str, x: Any, axis: Any, keepdims: Any, order: Any, out: Any, key: Any) -> Any:
    if isinstance(order, bool | str) or not isinstance(order, Real) or order != order:
        raise ValueError(f"{op}: ord is {shown(order)}; expected a number, inf or -inf")
    axes = reduced_axes(op, x, axis)
    if order < 0 and prod(np.shape(x)[axis] for axis in axes) == 0:
        raise ValueError(
            f"{op}: x has shape {tuple(np.shape(x))}; expected vectors with elements for ord < 0"
        )
    names = ",".join(f"k{i}" for i in range(len(axes)))
    composition = composition_of(op, f"({names})->()", (REAL,), norm_of_vectors, len(axes), float(order))
    return _reduced(op, composition, x, axes, keepdims, out, None if order < 0 else key)


def _matrix_norm(
    op: str, x: Any, axis: tuple[Any, ...], keepdims: Any, order: Any, out: Any, key: Any
) -> Any:
    order = matrix_order(op, "ord", order)
    axes = reduced_axes(op, x, axis)
    shape = np.shape(x)
    if order in (-1, -2, -inf) and prod(shape[axis] for axis in axes) == 0:
        raise ValueError(f"{op}: x has shape {tuple(shape)}; expected matrices with elements for ord < 0")
    if order in (2, -2, "nuc"):
        composition = composition_of(
            op, "(m,n)->(),()", (REAL, np.int32), norm_of_values, order, is_checked=True
        )
    else:
        composition = composition_of(op, "(m,n)->()", (REAL,), norm_of_matrices, order)
    return _reduced(op, composition, x, axes, keepdims, out, None if order in (-1, -inf) else key)


def _reduced(
    op: str, composition: Composition, x: Any, axes: tuple[int, ...], keepdims: Any, out: Any, key: Any
) -> Any:
    """The composition of x, whose core dimensions are these axes, which stay with length 1 if `keepdims`."""
    keep = flag(op, "keepdims", keepdims)
    ndim = dimensions(x)
    target = out
    if keep and hasattr(out, "ndim"):
        expected = tuple(1 if i in axes else size for i, size in enumerate(np.shape(x)))
        if tuple(out.shape) != expected:
            raise ValueError(f"{op}: out has shape {tuple(out.shape)}; expected {expected}")
        target = out[tuple(0 if i in axes else slice(None) for i in range(ndim))]
    if axes != tuple(range(ndim - len(axes), ndim)):
        x = permuted(x, (*(i for i in range(ndim) if i not in axes), *axes))
    elif key is not None and composition.nout == 1:
        _cache.keep(key, composition)
    result = composed(composition, {"x": x}, (target,) if composition.nout > 1 else target)
    if composition.nout > 1:
        result = checked(op, result, NOT_ORTHOGONAL)
    if out is not None:
        return out
    return result[tuple(None if i in axes else slice(None) for i in range(ndim))] if keep else result

"""What `solve` and `linsolve` share: solutions of A X = B for what the caller says of A, or for what A's values say.

Only the part of A that a word names is read. Every way is a gufunc, so that bits are those of the function of that
name."""

from typing import Any

import numpy as np

from ._adapters import on_device
from ._arrays import as_numpy
from ._banded import refuse_devices
from ._calls import checked, run, transposed
from ._errors import NOT_POSITIVE_DEFINITE, SINGULAR, SINGULAR_TRIANGLE, Reason, shown
from ._shapes import MOST_ORDER

# SciPy's words, and their short forms
WORDS = {
    "general": "general",
    "gen": "general",
    "symmetric": "symmetric",
    "sym": "symmetric",
    "hermitian": "symmetric",  # numbers are real
    "her": "symmetric",
    "positive definite": "positive definite",
    "pos": "positive definite",
    "upper triangular": "upper triangular",
    "lower triangular": "lower triangular",
    "tridiagonal": "tridiagonal",
    "banded": "banded",
    "diagonal": "diagonal",
    "auto": "auto",
}
# What these call besides the gufunc of `solve`, whose own functions name them
GUFUNCS = ("solve_pos", "solve_pos_upper")


def checked_word(op: str, assume_a: Any) -> str:
    """The whole word for what is said of A."""
    word = "auto" if assume_a is None else assume_a
    if not isinstance(word, str) or word not in WORDS:
        raise ValueError(f"{op}: assume_a is {shown(assume_a)}; expected one of {', '.join(map(repr, WORDS))}")
    return WORDS[word]


def solve_as(op: str, a: Any, b: Any, assume_a: Any, *, out: Any = None, **options: Any) -> Any:
    """X, or LinAlgError with those of the matrices that have one."""
    x, info, reason = solve_as_ex(op, a, b, assume_a, out=out, **options)
    return checked(op, (x, info), reason)


def solve_as_ex(
    op: str,
    a: Any,
    b: Any,
    assume_a: Any,
    *,
    lower: bool = False,
    unit_diagonal: bool = False,
    transpose: bool = False,
    bandwidths: tuple[int, int] | None = None,
    out: Any = None,
) -> tuple[Any, Any, Reason]:
    """X, info, and what an info that is not 0 means."""
    word = checked_word(op, assume_a)
    if word == "auto":
        return _solve_each(op, a, b, transpose, out)
    if word == "positive definite":
        return *_solve_pos(op, a, b, lower, out), NOT_POSITIVE_DEFINITE
    if word.endswith("triangular"):
        lower = (word == "lower triangular") != transpose
        gufunc = f"solve_{'unit_' * unit_diagonal}{'lower' if lower else 'upper'}"
        a = transposed(a) if transpose else a
        return *run(op, gufunc, {"a": a, "b": b}, (out, None)), SINGULAR_TRIANGLE
    if word == "symmetric":
        return *_solve_symmetric(op, a, b, lower, out), SINGULAR
    if word == "general":
        a = transposed(a) if transpose else a
        return *run(op, "solve", {"a": a, "b": b}, (out, None)), SINGULAR
    a = on_host(op, "a", a)
    b = on_host(op, "b", b)
    _check_square(op, a)
    a = a.mT if transpose else a
    if word == "diagonal":
        return *_divided(op, a.diagonal(axis1=-2, axis2=-1), b, out), SINGULAR
    if word == "tridiagonal":
        diagonals = [a.diagonal(k, axis1=-2, axis2=-1) for k in (-1, 0, 1)]
        operands = dict(zip(("dl", "d", "du"), diagonals, strict=True))
        return *run(op, "solve_tridiagonal", {**operands, "b": b}, (out, None)), SINGULAR
    if bandwidths is not None and transpose:
        bandwidths = bandwidths[::-1]
    below, above = bandwidths or bandwidths_of(a)
    operands = {"ab": diagonals_of(a, below, above), "lower": np.array(below, np.int32), "b": b}
    return *run(op, "solve_banded", operands, (out, None)), SINGULAR


def on_host(op: str, name: str, x: Any) -> np.ndarray:
    refuse_devices(op, **{name: x})
    return as_numpy(op, name, x)


def _check_square(op: str, a: np.ndarray) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(f"{op}: a has shape {a.shape}; expected square matrices, (..., n, n)")


def _solve_pos(op: str, a: Any, b: Any, lower: bool, out: Any) -> tuple[Any, Any]:
    upper = "" if lower else "_upper"
    if not (on_device(a) or on_device(b)):
        return run(op, f"solve_pos{upper}", {"a": a, "b": b}, (out, None))
    factor, info = run(op, f"cholesky{upper}", {"a": a}, (None, None))  # devices have no kernel for both
    return run(op, f"cho_solve{upper}", {"c": factor, "b": b}, (out,)), info


def _solve_symmetric(op: str, a: Any, b: Any, lower: bool, out: Any) -> tuple[Any, Any]:
    a, upper = on_host(op, "a", a), "" if lower else "_upper"
    _check_square(op, a)
    if a.shape[-1] > MOST_ORDER:  # no kernel takes them; LAPACK's takes whole ones
        half = np.tri(a.shape[-1], dtype=bool)
        whole = np.where(half if lower else half.T, a, a.mT)
        return run(op, "solve", {"a": whole, "b": b}, (out, None))
    factors, pivots, info = run(op, f"ldl_factor{upper}", {"a": a}, (None, None, None))
    x, wrong = run(op, f"ldl_solve{upper}", {"a": factors, "pivots": pivots, "b": b}, (out, None))
    return x, info + 0 * wrong  # of the batch dimensions of both


def _divided(op: str, d: np.ndarray, b: np.ndarray, out: Any) -> tuple[Any, Any]:
    """Of diagonal matrices: that is a triangle without anything else, one row of three diagonals at a time."""
    none = np.zeros(max(0, d.shape[-1] - 1), d.dtype)
    return run(op, "solve_tridiagonal_unpivoted", {"dl": none, "d": d, "du": none, "b": b}, (out, None))


# --- bands ---------------------------------------------------------------------------------------------


def bandwidths_of(a: np.ndarray) -> tuple[int, int]:
    """How many diagonals below and above the main one some matrix has that are not zero."""
    rows, columns = np.nonzero((a != 0).reshape(-1, *a.shape[-2:]).any(axis=0))
    return max(0, *(rows - columns).tolist(), 0), max(0, *(columns - rows).tolist(), 0)


def diagonals_of(a: np.ndarray, below: int, above: int) -> np.ndarray:
    """The diagonals of full matrices as SciPy stores them."""
    n = a.shape[-1]
    ab = np.zeros((*a.shape[:-2], below + above + 1, n), a.dtype)
    for k in range(-min(below, n - 1), min(above, n - 1) + 1):
        ab[..., above - k, max(k, 0) : n + min(k, 0)] = a.diagonal(k, axis1=-2, axis2=-1)
    return ab


# --- by value ------------------------------------------------------------------------------------------

FOUND = ("diagonal", "upper triangular", "lower triangular", "tridiagonal", "positive definite", "general")
_MAYBE_DEFINITE, _GENERAL = 4, 5


def structures(a: np.ndarray) -> np.ndarray:
    """For each matrix of a stack the place in FOUND of what its zeros and its symmetry say, exactly. Of "positive
    definite" they say only that it may be: the matrix is symmetric, and its diagonal positive."""
    n = a.shape[-1]
    zero = a == 0
    offset = np.arange(n) - np.arange(n)[:, None]

    def without(where: np.ndarray) -> np.ndarray:
        return (zero | ~where).all(axis=(-2, -1))

    upper, lower, narrow = without(offset < 0), without(offset > 0), without(abs(offset) > 1)
    symmetric = (a == a.mT).all(axis=(-2, -1)) & (a.diagonal(axis1=-2, axis2=-1) > 0).all(axis=-1)
    return np.select([upper & lower, upper, lower, narrow, symmetric], range(5), 5)


def _solve_each(op: str, a: Any, b: Any, transpose: bool, out: Any) -> tuple[Any, Any, Reason]:
    """Each matrix by what was found of it. One that is symmetric but not positive definite is a general one."""
    a, b = on_host(op, "a", a), on_host(op, "b", b)
    _check_square(op, a)
    a = a.mT if transpose else a
    is_vector = b.ndim == 1
    right = b[:, None] if is_vector else b
    batch = np.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    flat_a = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    flat_b = np.broadcast_to(right, (*batch, *right.shape[-2:])).reshape(-1, *right.shape[-2:])
    kinds = np.broadcast_to(structures(a), batch).ravel()
    x, _ = run(op, "solve", {"a": flat_a[:0], "b": flat_b[:0]}, (None, None))  # its dtype, and what is wrong
    x, info = np.empty((len(kinds), *x.shape[1:]), x.dtype), np.zeros(len(kinds), np.int32)
    left = np.ones(len(kinds), bool)
    for kind in (_MAYBE_DEFINITE, *range(_MAYBE_DEFINITE), _GENERAL):
        these = np.flatnonzero(left if kind == _GENERAL else kinds == kind)
        if not len(these):
            continue
        x[these], info[these], _ = solve_as_ex(op, flat_a[these], flat_b[these], FOUND[kind], lower=True)
        left[these] = (info[these] != 0) if kind == _MAYBE_DEFINITE else False
    x, info = x.reshape(*batch, *x.shape[1:]), info.reshape(batch)
    x = x[..., 0] if is_vector else x
    if out is not None:
        np.copyto(out, x, casting="same_kind")
        x = out
    return x[()], info[()], SINGULAR

"""What `solve` and `linsolve` share: solutions of A X = B for what the caller says of A, or for what A's
values say.

Only the part of A that a word names is read. Bits are those of the function for that structure."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import as_numpy
from ._banded import refuse_devices
from ._calls import run, transposed
from ._compose import composed, dimensions, extreme
from ._composition import Composition, constant
from ._contractions import diagonal
from ._errors import NOT_POSITIVE_DEFINITE, SINGULAR, SINGULAR_TRIANGLE, Reason, shown
from ._shapes import broadcast_shapes

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
# What they call, besides what compositions do
GUFUNCS = (
    "solve",
    "solve_pos",
    "solve_pos_upper",
    "solve_sym",
    "solve_sym_upper",
    "solve_lower",
    "solve_upper",
)


class Structure(NamedTuple):
    """What is said of A."""

    word: str  # a whole one
    lower: bool = False  # the triangle that is read of symmetric and positive definite matrices
    unit_diagonal: bool = False
    transpose: bool = False  # solve A^T X = B
    bandwidths: tuple[int, int] | None = None


def checked_word(op: str, assume_a: Any) -> str:
    """The whole word for what is said of A."""
    word = "auto" if assume_a is None else assume_a
    if not isinstance(word, str) or word not in WORDS:
        raise ValueError(
            f"{op}: assume_a is {shown(assume_a)}; expected one of {', '.join(map(repr, WORDS))}"
        )
    return WORDS[word]


def gufunc_of(s: Structure) -> tuple[str, Reason] | None:
    """The gufunc of A and B, and what its info means; None: of other operands."""
    if s.word == "general":
        return "solve", SINGULAR
    if s.word == "positive definite":
        return f"solve_pos{'' if s.lower else '_upper'}", NOT_POSITIVE_DEFINITE
    if s.word == "symmetric":
        return f"solve_sym{'' if s.lower else '_upper'}", SINGULAR
    if s.word.endswith("triangular"):
        lower = (s.word == "lower triangular") != s.transpose
        return f"solve_{'unit_' * s.unit_diagonal}{'lower' if lower else 'upper'}", SINGULAR_TRIANGLE
    return None


# Of a word without any option: the direct path, the gufunc, and what its info means
PLAIN = {
    word: (_core.direct[found[0]], *found) for word in WORDS if (found := gufunc_of(Structure(WORDS[word])))
}


def solve_as(op: str, a: Any, b: Any, s: Structure, outs: tuple[Any, Any]) -> tuple[Any, Any, Reason]:
    """X, info, and what an info that is not 0 means. outs: where X and info go, or None."""
    found = gufunc_of(s)
    if found is not None:
        gufunc, reason = found
        is_symmetric = s.word in ("symmetric", "positive definite")
        a = transposed(a) if s.transpose and not is_symmetric else a
        return *run(op, gufunc, {"a": a, "b": b}, outs), reason
    a = transposed(a) if s.transpose else a
    solutions: dict[str, Callable[..., Any]] = {
        "diagonal": _divided,
        "tridiagonal": partial(_solve_tridiagonal, op),
        "banded": partial(_solve_banded, op),
        "auto": partial(_solve_each, op),
    }
    solution = solutions[s.word]
    if s.word == "banded":
        widths = s.bandwidths[::-1] if s.bandwidths and s.transpose else s.bandwidths
        solution = partial(solution, widths or bandwidths_of(on_host(op, "a", a)))
    if s.word != "diagonal":
        refuse_devices(op, a=a, b=b)
    is_vector = dimensions(b) == 1
    composition = Composition(
        op,
        "(n,n),(n)->(n),()" if is_vector else "(n,n),(n,k)->(n,k),()",
        partial(_of_columns, solution) if is_vector else solution,
        (None, np.int32),
    )
    return *composed(composition, {"a": a, "b": b}, outs), SINGULAR


def on_host(op: str, name: str, x: Any) -> np.ndarray:
    refuse_devices(op, **{name: x})
    return as_numpy(op, name, x)


# --- compositions: of A and B, X and info ----------------------------------------------------------------


def _of_columns(solution: Callable[..., Any], xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    x, info = solution(xp, a, b[..., None])
    return x[..., 0], info


def _divided(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Of diagonal matrices. info: the first element that is zero, from 1."""
    d = diagonal(a)
    n = d.shape[-1]
    numbers, beyond, zero, nan = (constant(xp, x, b) for x in (np.arange(1, n + 1), n + 1, 0, np.nan))
    first = extreme(xp, xp.where(d == 0, numbers, beyond), -1)
    info = xp.where(first == beyond, zero, first)
    x = xp.where((info == 0)[..., None, None], b / d[..., None], nan)
    return x, info.astype(np.int32) if xp is np else xp.astype(info, xp.int32)


def _solve_tridiagonal(op: str, xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    operands = {f"diagonal {k} of a": diagonal(a, offset=k) for k in (-1, 0, 1)}
    return run(op, "solve_tridiagonal", {**operands, "b": b}, (None, None))


def _solve_banded(op: str, bandwidths: tuple[int, int], xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    below, above = bandwidths
    operands = {"diagonals of a": diagonals_of(xp, a, below, above), "lower": np.array(below, np.int32)}
    return run(op, "solve_banded", {**operands, "b": b}, (None, None))


def bandwidths_of(a: np.ndarray) -> tuple[int, int]:
    """How many diagonals below and above the main one some matrix has that are not zero."""
    if a.ndim < 2:
        return 0, 0  # the call says what is wrong
    rows, columns = np.nonzero((a != 0).any(axis=tuple(range(a.ndim - 2))))
    return max(0, *(rows - columns).tolist(), 0), max(0, *(columns - rows).tolist(), 0)


def diagonals_of(xp: Any, a: Any, below: int, above: int) -> Any:
    """The diagonals of full matrices as SciPy stores them."""
    n = a.shape[-1]
    if n == 0:
        return a

    def row(k: int) -> Any:
        if abs(k) >= n:
            return xp.zeros_like(a[..., 0, :])
        before, after = (xp.zeros_like(a[..., 0, : max(0, part)]) for part in (k, -k))
        return xp.concat([before, diagonal(a, offset=k), after], axis=-1)

    return xp.stack([row(k) for k in range(above, -below - 1, -1)], axis=-2)


# --- by value ------------------------------------------------------------------------------------------

# The first that fits counts
FOUND = ("diagonal", "upper triangular", "lower triangular", "tridiagonal", "positive definite", "general")
_MAYBE_DEFINITE, _GENERAL = 4, 5


def structures(a: np.ndarray) -> np.ndarray:
    """For each matrix of a stack the place in FOUND of what its zeros and its symmetry say, exactly. Of
    "positive definite" they say only that it may be: the matrix is symmetric, and its diagonal positive."""
    n = a.shape[-1]
    zero = a == 0
    offset = np.arange(n) - np.arange(n)[:, None]

    def without(where: np.ndarray) -> np.ndarray:
        return (zero | ~where).all(axis=(-2, -1))

    upper, lower, narrow = without(offset < 0), without(offset > 0), without(abs(offset) > 1)
    symmetric = (a == a.mT).all(axis=(-2, -1)) & (a.diagonal(axis1=-2, axis2=-1) > 0).all(axis=-1)
    found = np.full(upper.shape, _GENERAL)
    for kind, has in reversed([*enumerate((upper & lower, upper, lower, narrow, symmetric))]):
        found[has] = kind
    return found


def found_in(a: np.ndarray) -> tuple[tuple[str, int], ...]:
    """The words for what is found of the matrices of a stack, and how many matrices each is said of."""
    counts = np.bincount(structures(a).ravel(), minlength=len(FOUND)).tolist()
    return tuple((word, count) for word, count in zip(FOUND, counts, strict=True) if count)


def _solve_each(op: str, xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Each matrix by what was found of it. A symmetric one that is not positive definite is a general one."""
    if xp is not np:
        raise TypeError(f"{op}: assume_a is 'auto', which has no derivative; expected another word")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    kinds = np.broadcast_to(structures(a), batch).ravel()
    a, b = (np.broadcast_to(y, (*batch, *y.shape[-2:])).reshape(len(kinds), *y.shape[-2:]) for y in (a, b))
    x, info = np.empty(b.shape, b.dtype), np.zeros(len(kinds), np.int32)
    left = np.ones(len(kinds), bool)
    for kind in (_MAYBE_DEFINITE, *range(_MAYBE_DEFINITE), _GENERAL):
        these = np.flatnonzero(left if kind == _GENERAL else kinds == kind)
        if not len(these):
            continue
        structure = Structure(FOUND[kind], lower=True)
        x[these], info[these], _ = solve_as(op, a[these], b[these], structure, (None, None))
        left[these] = (info[these] != 0) if kind == _MAYBE_DEFINITE else False
    return x.reshape(*batch, *x.shape[1:]), info.reshape(batch)

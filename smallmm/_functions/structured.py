"""What `solve` and `linsolve` share: solutions of A X = B for what the caller says of A, or for what A's
values say.

Only the part of A that a word names is read. Bits are those of the function for that structure."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from .. import _core
from .._base.composition import composition_of, constant, identity
from .._base.errors import NOT_POSITIVE_DEFINITE, SINGULAR, SINGULAR_TRIANGLE, Reason, shown
from .._base.options import flag
from .._base.shapes import broadcast_shapes, is_complex
from .._calls.calls import checked, conjugated, outs_with_info, run, run_from_the_right, transposed
from .._libraries import library_of, on_device
from .._programs.compose import array_of, composed, dimensions, dtype_name, extreme, namespace_of
from .contractions import diagonal

# SciPy's words, and their short forms
StructureWord = Literal[
    "general",
    "gen",
    "symmetric",
    "sym",
    "hermitian",
    "her",
    "positive definite",
    "pos",
    "upper triangular",
    "lower triangular",
    "tridiagonal",
    "banded",
    "diagonal",
    "auto",
]
_SHORT = {"gen": "general", "sym": "symmetric", "her": "hermitian", "pos": "positive definite"}
WORDS: dict[str, str] = {word: _SHORT.get(word, word) for word in get_args(StructureWord)}
# What they call, besides what compositions do
GUFUNCS = (
    "solve",
    *(f"solve_{word}{side}" for word in ("pos", "sym", "her") for side in ("", "_upper")),
    *("solve_lower", "solve_upper"),
)
# Of which one triangle is read
TRIANGLES = ("symmetric", "hermitian", "positive definite")


class Structure(NamedTuple):
    """What is said of A."""

    word: str  # a whole one
    lower: bool = False  # the triangle that is read where that is one
    unit_diagonal: bool = False
    transpose: bool = False  # solve A^T X = B
    bandwidths: tuple[int, int] | None = None


def checked_word(op: str, assume_a: Any) -> str:
    """The whole word for the structure of A."""
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
    if s.word in ("symmetric", "hermitian"):
        return f"solve_{s.word[:3]}{'' if s.lower else '_upper'}", SINGULAR
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
    if s.transpose and s.word != "symmetric":  # the transpose of a Hermitian matrix is its conjugate
        a = (conjugated if s.word in TRIANGLES else transposed)(a)
    found = gufunc_of(s)
    if found is not None:
        gufunc, reason = found
        return *run(op, gufunc, {"a": a, "b": b}, outs), reason
    solutions: dict[str, tuple[Any, ...]] = {
        "diagonal": (_divided,),
        "tridiagonal": (_solve_tridiagonal, op),
        "banded": (_solve_banded, op),
        "auto": (_solve_each, op),
    }
    solution = solutions[s.word]
    if s.word == "banded":
        a = array_of(op, "a", a)
        widths = s.bandwidths[::-1] if s.bandwidths and s.transpose else s.bandwidths
        solution = (*solution, tuple(widths or bandwidths_of(op, a)))
    is_vector = dimensions(b) == 1
    signature = "(n,n),(n)->(n),()" if is_vector else "(n,n),(n,k)->(n,k),()"
    function, *options = (_of_columns, *solution) if is_vector else solution
    composition = composition_of(f"solve_as_{s.word}", signature, (None, np.int32), function, *options, op=op)
    return *composed(composition, {"a": a, "b": b}, outs), SINGULAR


def solve_otherwise(a: Any, b: Any, lower: Any, assume_a: Any, transposed_a: Any, left: Any, out: Any) -> Any:
    """`solve` of other than general matrices, or of transposed ones, or from the right."""
    word = checked_word("solve", assume_a)
    transpose = transposed_a is not False and flag("solve", "transposed", transposed_a)
    left = left is True or flag("solve", "left", left)
    if word == "general":
        operands = {"a": transposed(a) if transpose == left else a, "b": b}
        if left:
            return run("solve", "solve", operands, (out,), None, SINGULAR)
        return run_from_the_right("solve", "solve", operands, out, SINGULAR)
    if not left:
        raise ValueError("solve: left is False; expected True with assume_a")
    if assume_a in PLAIN and lower is False and not transpose:
        direct, gufunc, reason = PLAIN[assume_a]
        results = direct(a, b, out)
        if results is not NotImplemented and results[1] is None:
            return results[0]
        return run("solve", gufunc, {"a": a, "b": b}, (out,), None, reason, results)
    structure = Structure(word, flag("solve", "lower", lower), transpose=transpose)
    x, info, reason = solve_as("solve", a, b, structure, outs_with_info("solve", out))
    return checked("solve", (x, info), reason, wanted=out)


def inverse_as(op: str, a: Any, s: Structure, out: Any) -> Any:
    """The inverses of matrices with that structure."""
    dtypes = (None, np.int32)
    composition = composition_of(f"inv_as_{s.word}", "(n,n)->(n,n),()", dtypes, _inverse, op, s, op=op)
    results = composed(composition, {"a": a}, outs_with_info(op, out))
    found = gufunc_of(s)
    return checked(op, results, SINGULAR if found is None else found[1], wanted=out)


def _inverse(op: str, s: Structure, xp: Any, a: Any) -> tuple[Any, Any]:
    return solve_as(op, a, identity(xp, a.shape[-1], a), s, (None, None))[:2]


def whole_of_triangle(op: str, a: Any, lower: bool) -> Any:
    """Symmetric or Hermitian matrices, from one triangle."""
    function = both_triangles, "hermitian", lower
    return composed(composition_of("whole_of_triangle", "(n,n)->(n,n)", (None,), *function, op=op), {"a": a})


# --- compositions: of A and B, X and info ----------------------------------------------------------------


def both_triangles(word: str, lower: bool, xp: Any, a: Any) -> Any:
    """The matrix, from one triangle; of a Hermitian one's diagonal the real part is read."""
    strict = xp.tril(a, k=-1) if lower else xp.triu(a, k=1)
    inner = xp.tril(xp.triu(a))
    if word != "symmetric" and is_complex(a):
        return strict + xp.conj(strict).mT + xp.real(inner)
    return strict + strict.mT + inner


def _of_columns(solution: Callable[..., Any], *options: Any) -> tuple[Any, Any]:
    *given, b = options
    x, info = solution(*given, b[..., None])
    return x[..., 0], info


def _divided(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Of diagonal matrices. info: the first element that is zero, from 1."""
    d = diagonal(a)
    n = d.shape[-1]
    like = xp.real(b) if is_complex(b) else b
    numbers, beyond, zero, nan = (constant(xp, x, like) for x in (np.arange(1, n + 1), n + 1, 0, np.nan))
    first = extreme(xp, xp.where(d == 0, numbers, beyond), -1)
    first = xp.broadcast_to(first, broadcast_shapes(first.shape, b.shape[:-2]))
    info = xp.where(first == beyond, zero, first)
    x = xp.where((info == 0)[..., None, None], _quotient(xp, b, d[..., None]), nan)
    return x, info.astype(np.int32) if xp is np else xp.astype(info, xp.int32)


def _quotient(xp: Any, b: Any, d: Any) -> Any:
    """b / d. Libraries divide by complex numbers near the largest as by infinities."""
    if not is_complex(d):
        return b / d
    large = xp.maximum(xp.abs(xp.real(d)), xp.abs(xp.imag(d))) > float(np.finfo(dtype_name(d)).max) / 4
    return xp.where(large, b / (d * 0.25) * 0.25, b / d)


def _solve_tridiagonal(op: str, xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    operands = {f"diagonal {k} of a": diagonal(a, offset=k) for k in (-1, 0, 1)}
    return run(op, "solve_tridiagonal", {**operands, "b": b}, (None, None))


def _solve_banded(op: str, bandwidths: tuple[int, int], xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    below, above = bandwidths
    operands = {"diagonals of a": diagonals_of(xp, a, below, above), "lower": np.array(below, np.int32)}
    return run(op, "solve_banded", {**operands, "b": b}, (None, None))


def bandwidths_of(op: str, a: Any) -> tuple[int, int]:
    """How many diagonals below and above the main one some matrix has that are not zero. A device is waited
    for."""
    a = a if on_device(a) else _values(op, a)
    if a.ndim < 2:
        return 0, 0  # the call refuses it
    xp = namespace_of(a)
    has = a != 0
    if a.ndim > 2:
        has = xp.any(has, axis=tuple(range(a.ndim - 2)))
    rows, columns = np.nonzero(_values(op, has))
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


def structures(op: str, a: Any) -> np.ndarray:
    """For each matrix of a stack the place in FOUND of what its zeros and its symmetry say, exactly. Of
    "positive definite" they say only that it may be: the matrix is symmetric, or Hermitian, and its diagonal
    positive. A device is waited for."""
    xp = namespace_of(a)
    n = a.shape[-1]
    zero = a == 0
    offset = np.arange(n) - np.arange(n)[:, None]

    def without(where: np.ndarray) -> Any:
        return xp.all(zero | _placed(xp, ~where, a), axis=(-2, -1))

    upper, lower, narrow = without(offset < 0), without(offset > 0), without(abs(offset) > 1)
    own, mirrored = (xp.real(diagonal(a)), xp.conj(a).mT) if is_complex(a) else (diagonal(a), a.mT)
    symmetric = xp.all(a == mirrored, axis=(-2, -1)) & xp.all(own > 0, axis=-1)
    has = _values(op, xp.stack([upper & lower, upper, lower, narrow, symmetric]))
    found = np.full(has.shape[1:], _GENERAL)
    for kind in reversed(range(len(has))):
        found[has[kind]] = kind
    return found


def found_in(op: str, a: Any) -> tuple[tuple[str, int], ...]:
    """The structures found among the matrices of a stack, and how many matrices have each."""
    counts = np.bincount(structures(op, a).ravel(), minlength=len(FOUND)).tolist()
    return tuple((word, count) for word, count in zip(FOUND, counts, strict=True) if count)


def _solve_each(op: str, xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Each matrix by its structure. A symmetric one that is not positive definite is a general one."""
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    kinds = np.broadcast_to(structures(op, a), batch).flatten()
    a, b = (
        xp.reshape(xp.broadcast_to(y, (*batch, *y.shape[-2:])), (len(kinds), *y.shape[-2:])) for y in (a, b)
    )
    parts: list[tuple[np.ndarray, Any, Any]] = []
    for kind in (_MAYBE_DEFINITE, *range(_MAYBE_DEFINITE), _GENERAL):
        these = np.flatnonzero(kinds == kind)
        if not len(these) and (parts or kind != _GENERAL):
            continue
        structure = Structure(FOUND[kind], lower=True)
        x, info, _ = solve_as(op, _some(xp, a, these), _some(xp, b, these), structure, (None, None))
        if kind == _MAYBE_DEFINITE and not (is_good := _values(op, info) == 0).all():
            kinds[these[~is_good]] = _GENERAL
            x, info = (_some(xp, y, np.flatnonzero(is_good)) for y in (x, info))
            these = these[is_good]
        parts.append((these, x, info))
    places, *results = zip(*parts, strict=True)
    back = np.argsort(np.concatenate(places))
    x, info = (y[0] if len(y) == 1 else _some(xp, xp.concat(y), back) for y in results)
    return xp.reshape(x, (*batch, *x.shape[1:])), xp.reshape(info, batch)


def _placed(xp: Any, values: np.ndarray, like: Any) -> Any:
    """Of the library and on the device of another array."""
    if xp is np:
        return values
    from array_api_compat import device

    return xp.asarray(values, device=device(like))


def _some(xp: Any, x: Any, these: np.ndarray) -> Any:
    return x[these] if xp is np else xp.take(x, _placed(xp, these, x), axis=0)


def _values(op: str, x: Any) -> np.ndarray:
    """As a NumPy array. A device is waited for."""
    library = library_of(x)
    values = library.elements(x)
    if values is None or values.shape != x.shape:  # all that a transformation works on together
        raise TypeError(f"{op}: structure is looked for in a, which has no elements yet; say what it is")
    return library.to_host(values) if on_device(values) else library.as_numpy(op, "a", values)

"""`linsolve`: one call for every structure of A."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from ._arrays import core_shape
from ._calls import checked, run, several
from ._calls import transposed as with_rows_as_columns
from ._catalog import computed_by
from ._compose import namespace_of
from ._errors import SINGULAR, shown
from ._least_squares import lstsq_ex
from ._options import flag, integer, pair
from ._structured import GUFUNCS, PLAIN, Structure, checked_word, solve_as


class LinsolveExResult(NamedTuple):
    """The solution, and info: 0, or what is wrong with the matrix, as of the function for its structure."""

    x: Any
    info: Any


# Options that ask for another way than elimination in the input's precision: name, its usual value
_LATER = {"precision": "fixed", "ill_conditioned": False, "return_rcond": False}


def _refuse_later(op: str, **options: Any) -> None:
    for name, value in options.items():
        usual = _LATER[name]
        if isinstance(usual, bool):
            value = flag(op, name, value)
        elif value not in ("fixed", "mixed"):
            raise ValueError(f"{op}: {name} is {shown(value)}; expected 'fixed' or 'mixed'")
        if value != usual:
            raise NotImplementedError(f"{op}: {name} is {shown(value)}; only {usual!r} is implemented")


def _unpacked(op: str, a: Any, lower: bool) -> Any:
    """Symmetric matrices of which one triangle is packed, as LAPACK packs it: one column after the other."""
    a = a if hasattr(a, "ndim") else np.asarray(a)
    size = a.shape[-1] if a.ndim else -1
    n = int((np.sqrt(8 * max(size, 0) + 1) - 1) / 2)
    if n * (n + 1) // 2 != size:
        raise ValueError(f"{op}: a has shape {tuple(a.shape)}; expected (..., n (n + 1) / 2) if packed")
    i, j = np.indices((n, n))
    first, second = np.minimum(i, j), np.maximum(i, j)
    places = second + first * (2 * n - 1 - first) // 2 if lower else first + second * (second + 1) // 2
    if isinstance(a, np.ndarray):
        return a[..., places]
    from array_api_compat import device

    xp = namespace_of(a)
    whole = xp.take(a, xp.asarray(places.ravel(), device=device(a)), axis=-1)
    return xp.reshape(whole, (*a.shape[:-1], n, n))


def _solved(op: str, a: Any, b: Any, assume_a: Any, options: dict[str, Any], outs: tuple[Any, Any]) -> Any:
    """X, info, and what an info that is not 0 means."""
    word, widths = checked_word(op, assume_a), options["bandwidths"]
    lower, unit_diagonal, transpose, packed = (
        flag(op, name, options[name]) for name in ("lower", "unit_diagonal", "transposed", "packed")
    )
    if unit_diagonal and not word.endswith("triangular"):
        raise ValueError(f"{op}: unit_diagonal is True; expected False unless assume_a is triangular")
    if widths is not None:
        if word != "banded":
            raise ValueError(
                f"{op}: bandwidths is {shown(widths)}; expected None unless assume_a is 'banded'"
            )
        first, second = pair(op, "bandwidths", widths, "(l, u)")
        widths = integer(op, "bandwidths", first), integer(op, "bandwidths", second)
        if min(widths) < 0:
            raise ValueError(f"{op}: bandwidths is {shown(widths)}; expected (l, u) of at least 0")
    if packed:
        if word not in ("symmetric", "positive definite", "upper triangular", "lower triangular"):
            raise ValueError(f"{op}: packed is True; expected False for assume_a {word!r}")
        a = _unpacked(op, a, lower or word == "lower triangular")
    m, n = core_shape(a)
    if m != n and word in ("general", "auto"):
        a = with_rows_as_columns(a) if transpose else a
        result = lstsq_ex(a, b, out=(outs[0], None, None, outs[1]))
        return result.x, result.info, SINGULAR
    return solve_as(op, a, b, Structure(word, lower, unit_diagonal, transpose, widths), outs)


@computed_by(*GUFUNCS, "solve_unit_lower", "solve_unit_upper")
def linsolve(
    a: "ArrayLike",
    b: "ArrayLike",
    /,
    *,
    assume_a: str | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: str = "fixed",
    ill_conditioned: bool = False,
    return_rcond: bool = False,
    out: Any = None,
) -> Any:
    """Solve A X = B by the method for the structure of A.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of matrices, of which only the triangle or the band that `assume_a` names is read. General
        matrices may be rectangular: then X minimises |A X - B|, as by `lstsq`.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    assume_a : str or None
        As of `solve`, or "auto", for which None is another name: each matrix is looked at. Its zeros tell
        diagonal, triangular and tridiagonal ones; symmetric ones with a positive diagonal are solved by
        Cholesky, or as general ones if they are not positive definite.
    lower : bool
        Whether to read the lower triangle of symmetric and positive definite matrices, not the upper one.
    unit_diagonal : bool
        Whether the diagonal of triangular matrices is taken to be ones and not read.
    transposed : bool
        Whether to solve A^T X = B.
    bandwidths : (int, int), optional
        How many diagonals of banded matrices are below and above the main one. None: they are looked for.
    packed : bool
        Whether `a` has shape (..., n (n + 1) / 2): the columns of one triangle of symmetric, positive
        definite or triangular matrices, one after the other, as LAPACK packs them. They are unpacked first.
    precision, ill_conditioned, return_rcond
        Only "fixed", False and False are implemented.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    LinAlgError
        Some matrices are singular, or not positive definite where that was said of them. No other method is
        tried. The exception holds the other matrices' solutions.
    ValueError
        As `solve`; a word is unknown, or options contradict each other.
    TypeError
        As `solve`; arrays are on a device and `assume_a` is "tridiagonal", "banded" or "auto".
    NotImplementedError
        An option that is not implemented; as `solve`.

    See Also
    --------
    linsolve_ex : the same, with bad matrices reported in an array.
    solve_tridiagonal, solve_banded, solveh_banded : diagonals that are stored as such.

    Notes
    -----
    Bits are those of the function for the structure, and so are accuracy and operations: 1/3 n^3 for positive
    definite matrices, 2/3 n^3 for general and symmetric ones, n^2 k for triangular ones.

    Examples
    --------
    >>> smallmm.linsolve([[4.0, 2.0], [2.0, 5.0]], [6.0, 7.0], assume_a="pos")
    array([1., 1.])
    """
    if (
        isinstance(assume_a, str)
        and assume_a in PLAIN
        and precision == "fixed"
        and lower is unit_diagonal is transposed is packed is ill_conditioned is return_rcond is False
        and bandwidths is None
    ):
        direct, gufunc, reason = PLAIN[assume_a]
        results = direct(a, b, out)
        if results is not NotImplemented:
            if results[1] is None:
                return results[0]
            return run("linsolve", gufunc, {"a": a, "b": b}, (out,), None, reason, results)
    _refuse_later("linsolve", precision=precision, ill_conditioned=ill_conditioned, return_rcond=return_rcond)
    options = {
        "lower": lower,
        "unit_diagonal": unit_diagonal,
        "transposed": transposed,
        "bandwidths": bandwidths,
        "packed": packed,
    }
    x, info, reason = _solved("linsolve", a, b, assume_a, options, (out, None))
    return checked("linsolve", (x, info), reason)


@computed_by(*GUFUNCS, "solve_unit_lower", "solve_unit_upper")
def linsolve_ex(
    a: "ArrayLike",
    b: "ArrayLike",
    /,
    *,
    assume_a: str | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: str = "fixed",
    ill_conditioned: bool = False,
    out: tuple[Any, Any] | None = None,
) -> LinsolveExResult:
    """`linsolve` that never raises for bad matrices: ``(x, info)``.

    ``info``, int32, shape (...), is 0, or k if pivot k, counted from 1, is the first that is zero, or if the
    leading minor of order k is the first that is not positive; x of such a matrix is NaN.

    >>> smallmm.linsolve_ex([[0.0]], [1.0], assume_a="pos").info
    np.int32(1)
    """
    _refuse_later("linsolve_ex", precision=precision, ill_conditioned=ill_conditioned)
    options = {
        "lower": lower,
        "unit_diagonal": unit_diagonal,
        "transposed": transposed,
        "bandwidths": bandwidths,
        "packed": packed,
    }
    x, info, _ = _solved(
        "linsolve_ex", a, b, assume_a, options, several("linsolve_ex", out, LinsolveExResult)
    )
    return LinsolveExResult(x, info)

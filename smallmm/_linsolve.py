"""`linsolve`: one call for every structure of A."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from ._calls import checked, several
from ._catalog import composed_of_others
from ._errors import shown
from ._least_squares import lstsq_ex
from ._options import flag, integer, pair
from ._structured import checked_word, on_host, solve_as_ex


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


def _unpacked(op: str, a: Any, lower: bool) -> np.ndarray:
    """One triangle of each matrix, whose columns lie one after the other as LAPACK packs them."""
    packed = on_host(op, "a", a)
    size = packed.shape[-1] if packed.ndim else -1
    n = int((np.sqrt(8 * max(size, 0) + 1) - 1) / 2)
    if n * (n + 1) // 2 != size:
        raise ValueError(f"{op}: a has shape {packed.shape}; expected (..., n (n + 1) / 2) if packed")
    rows, columns = np.triu_indices(n) if lower else np.tril_indices(n)
    full = np.zeros((*packed.shape[:-1], n, n), packed.dtype)
    full[..., columns, rows] = packed
    return full


def _solved(
    op: str,
    a: Any,
    b: Any,
    assume_a: Any,
    lower: Any,
    unit_diagonal: Any,
    transposed: Any,
    bandwidths: Any,
    packed: Any,
    out: Any,
) -> Any:
    word = checked_word(op, assume_a)
    lower, unit_diagonal, transposed, packed = (
        flag(op, name, x)
        for name, x in (
            ("lower", lower),
            ("unit_diagonal", unit_diagonal),
            ("transposed", transposed),
            ("packed", packed),
        )
    )
    if unit_diagonal and not word.endswith("triangular"):
        raise ValueError(f"{op}: unit_diagonal is True; expected False unless assume_a is triangular")
    if bandwidths is not None:
        if word != "banded":
            raise ValueError(f"{op}: bandwidths is {shown(bandwidths)}; expected None unless assume_a is 'banded'")
        bandwidths = tuple(integer(op, "bandwidths", x) for x in pair(op, "bandwidths", bandwidths, "(l, u)"))
        if min(bandwidths) < 0:
            raise ValueError(f"{op}: bandwidths is {shown(bandwidths)}; expected (l, u) of at least 0")
    if packed:
        if word not in ("symmetric", "positive definite", "upper triangular", "lower triangular"):
            raise ValueError(f"{op}: packed is True; expected False for assume_a {word!r}")
        a = _unpacked(op, a, lower or word == "lower triangular")
    shape = np.shape(a) if word in ("general", "auto") else ()
    if len(shape) > 1 and shape[-1] != shape[-2]:
        a = np.swapaxes(on_host(op, "a", a), -1, -2) if transposed else a
        result = lstsq_ex(a, b)
        return result.x if out is None else _into(out, result.x), result.info, None
    return solve_as_ex(
        op,
        a,
        b,
        word,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose=transposed,
        bandwidths=bandwidths,
        out=out,
    )


def _into(out: Any, x: Any) -> Any:
    np.copyto(out, x, casting="same_kind")
    return out


@composed_of_others
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
        As `solve`; arrays are on a device, but for general, triangular and positive definite matrices.
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
    _refuse_later("linsolve", precision=precision, ill_conditioned=ill_conditioned, return_rcond=return_rcond)
    x, info, reason = _solved(
        "linsolve", a, b, assume_a, lower, unit_diagonal, transposed, bandwidths, packed, out
    )
    return x if reason is None else checked("linsolve", (x, info), reason)


@composed_of_others
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
    x_out, info_out = several("linsolve_ex", out, LinsolveExResult)
    x, info, _ = _solved(
        "linsolve_ex", a, b, assume_a, lower, unit_diagonal, transposed, bandwidths, packed, x_out
    )
    return LinsolveExResult(x, info if info_out is None else _into(info_out, info))

"""`linsolve`: one call for every structure of A."""

from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .._base.catalog import computed_by
from .._base.composition import REAL, composition_of, identity
from .._base.errors import NOT_POSITIVE_DEFINITE, SINGULAR, shown
from .._base.options import flag, integer, one_of, pair
from .._calls.arrays import with_core_shape, without_labels
from .._calls.calls import checked, delivered, outs_with_info, run
from .._calls.calls import transposed as with_rows_as_columns
from .._calls.twins import WithInfo, twin_of
from .._programs.compose import composed, namespace_of
from .least_squares import lstsq_ex
from .mixed import expert_solve_ex, mixed_solve_ex
from .mixed_least_squares import mixed_lstsq_ex
from .refinement import rcond_in
from .structured import (
    GUFUNCS,
    PLAIN,
    TRIANGLES,
    Structure,
    StructureWord,
    both_triangles,
    checked_word,
    solve_as,
)


class LinsolveExResult(NamedTuple):
    """The solution, and info: 0, or what is wrong with the matrix, as of the function for its structure."""

    x: Any
    info: Any


class LinsolveExpertResult(NamedTuple):
    """What `linsolve_ex` returns with options of accuracy: the solution; the reciprocal condition number, or
    None if it was not asked for; info; and the steps of refinement in mixed precision, or None."""

    x: Any
    rcond: Any
    info: Any
    iterations: Any


class _Accuracy(NamedTuple):
    """Options that ask for more than elimination in the input's precision."""

    mixed: bool
    ill_conditioned: bool
    return_rcond: bool


def _accuracy(op: str, precision: Any, ill_conditioned: Any, return_rcond: Any) -> _Accuracy:
    asked = _Accuracy(
        one_of(op, "precision", precision, ("fixed", "mixed")) == "mixed",
        flag(op, "ill_conditioned", ill_conditioned),
        flag(op, "return_rcond", return_rcond),
    )
    if asked.mixed and asked.ill_conditioned:
        raise ValueError(f"{op}: ill_conditioned is True; expected False with precision 'mixed'")
    return asked


def _whole(s: Structure, xp: Any, a: Any) -> Any:
    """The whole matrix, made of the part that is read, and transposed if `transposed`."""
    below, above = s.bandwidths or ((1, 1) if s.word == "tridiagonal" else (0, 0))
    if s.word in TRIANGLES:
        a = both_triangles(s.word, s.lower, xp, a)
    if s.word.endswith("triangular"):
        strict = xp.tril(a, k=-1) if s.word == "lower triangular" else xp.triu(a, k=1)
        inner = identity(xp, a.shape[-1], a) if s.unit_diagonal else xp.tril(xp.triu(a))
        a = strict + inner
    elif s.word in ("diagonal", "tridiagonal", "banded") and (s.bandwidths or s.word != "banded"):
        a = xp.tril(xp.triu(a, k=-below), k=above)
    return a.mT if s.transpose else a


def _rcond_of(s: Structure, xp: Any, a: Any) -> Any:
    return rcond_in(1, xp, _whole(s, xp, a))


def _accurately(
    op: str, a: Any, b: Any, s: Structure, asked: _Accuracy, outs: tuple[Any, Any]
) -> tuple[LinsolveExpertResult, Any]:
    """The results, and what an info that is not 0 means."""
    a, m, n = with_core_shape(a)
    rcond = iterations = None
    if m != n and s.word in ("general", "auto"):
        if asked.return_rcond:
            raise ValueError(f"{op}: return_rcond is True; expected False for matrices that are not square")
        if not asked.mixed:
            x, info, reason = _by_structure(op, a, b, s, outs)
            return LinsolveExpertResult(x, None, info, None), reason
        found = mixed_lstsq_ex(op, _transposed(a, s), b, (outs[0], None, None, outs[1], None))
        return LinsolveExpertResult(found.x, None, found.info, found.iterations), SINGULAR
    if (asked.mixed or asked.ill_conditioned) and s.word not in ("general", *TRIANGLES):
        name = "precision is 'mixed'" if asked.mixed else "ill_conditioned is True"
        raise ValueError(
            f"{op}: {name} and assume_a {s.word!r}; expected 'general', 'symmetric' or 'positive definite'"
        )
    whole = partial(_whole, s)
    if asked.return_rcond and not asked.ill_conditioned:
        composition = composition_of("rcond_as", "(n,n)->()", (REAL,), _rcond_of, s, op=op)
        rcond = composed(composition, {"a": a})  # before x, whose `out` may lie where A does
    if asked.mixed:
        positive = s.word == "positive definite"
        is_general = s.word == "general"
        x, info, iterations = mixed_solve_ex(
            op,
            _transposed(a, s) if is_general else a,
            b,
            positive=positive,
            whole=None if is_general else whole,
            fallback=None if is_general else lambda a, b: _by_structure(op, a, b, s, (None, None))[:2],
            out=outs[0],
        )
        reason = NOT_POSITIVE_DEFINITE if positive else SINGULAR
    elif asked.ill_conditioned:
        x, rcond, _, _, info = expert_solve_ex(op, a, b, whole=whole, out=outs[0])
        reason = SINGULAR
    else:
        x, info, reason = _by_structure(op, a, b, s, outs)
    return LinsolveExpertResult(x, rcond, info, iterations), reason


def _unpacked(op: str, a: Any, lower: bool) -> Any:
    """Symmetric matrices whose triangle is packed, as LAPACK packs it: one column after the other."""
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


def _structure(op: str, a: Any, assume_a: Any, options: dict[str, Any]) -> tuple[Any, Structure]:
    """The matrices, unpacked, and their structure."""
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
        if word not in (*TRIANGLES, "upper triangular", "lower triangular"):
            raise ValueError(f"{op}: packed is True; expected False for assume_a {word!r}")
        a = _unpacked(op, a, lower or word == "lower triangular")
    return a, Structure(word, lower, unit_diagonal, transpose, widths)


def _transposed(a: Any, s: Structure) -> Any:
    return with_rows_as_columns(a) if s.transpose else a


def _by_structure(op: str, a: Any, b: Any, s: Structure, outs: tuple[Any, Any]) -> Any:
    """X, info, and what an info that is not 0 means."""
    a, m, n = with_core_shape(a)
    if m != n and s.word in ("general", "auto"):
        result = lstsq_ex(_transposed(a, s), b, out=(outs[0], None, None, outs[1]))
        return result.x, result.info, SINGULAR
    return solve_as(op, a, b, s, outs)


@computed_by(*GUFUNCS, "solve_unit_lower", "solve_unit_upper", "solve_mixed", "solve_mixed_pos")
def linsolve(
    a: "ArrayLike",
    b: "ArrayLike",
    *,
    assume_a: "StructureWord | None" = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: bool = False,
    out: Any = None,
) -> Any:
    """Solve A X = B by the method for the structure of A.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of matrices, of which only the triangle or the band that `assume_a` names is read. General
        matrices may be rectangular: then X minimises ``|A X - B|``, as by `lstsq`.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    assume_a : str or None
        As of `solve`, or "auto", for which None is another name: each matrix is looked at. Its zeros tell
        diagonal, triangular and tridiagonal ones; symmetric, or Hermitian, ones with a positive diagonal are
        solved by Cholesky, or as general ones if they are not positive definite.
    lower : bool
        Whether to read the lower triangle of symmetric, Hermitian and positive definite matrices, not the
        upper one.
    unit_diagonal : bool
        Whether the diagonal of triangular matrices is taken to be ones and not read.
    transposed : bool
        Whether to solve A^T X = B, without conjugation.
    bandwidths : (int, int), optional
        How many diagonals of banded matrices are below and above the main one. None: they are looked for.
    packed : bool
        Whether `a` has shape (..., n (n + 1) / 2): the columns of one triangle of symmetric, positive
        definite or triangular matrices, one after the other, as LAPACK packs them. They are unpacked first.
    precision : {"fixed", "mixed"}
        "mixed", of general, symmetric, positive definite or rectangular matrices of float64, and of square
        ones of complex128: factors in float32 (complex64), refined with residuals in float64 (complex128). A
        matrix for which that does not do is solved in float64.
    ill_conditioned : bool
        Whether to scale rows and columns of general, symmetric or positive definite matrices by powers of
        two, and to refine the solution, as LAPACK's gesvx.
    return_rcond : bool
        Whether to estimate the reciprocal condition number of each matrix, as `rcond`.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector
        With `return_rcond` a tuple of it and rcond, shape (...), of the matrices; of the scaled ones with
        `ill_conditioned`.

    Raises
    ------
    LinAlgError
        Some matrices are singular, or not positive definite where that was said of them. No other method is
        tried. The exception holds the other matrices' solutions.
    ValueError
        As `solve`; a word is unknown, or options contradict each other.
    TypeError
        As `solve`.
    NotImplementedError
        As `solve`.

    See Also
    --------
    linsolve_ex : the same, with bad matrices reported in an array.
    solve_tridiagonal, solve_banded, solveh_banded : diagonals that are stored as such.

    Notes
    -----
    Bits are those of the function for the structure, and so are accuracy and operations: 1/3 n^3 for positive
    definite matrices, 2/3 n^3 for general and symmetric ones, n^2 k for triangular ones. LU solves
    complex symmetric and Hermitian ones.

    "mixed" is LAPACK's dsgesv, for positive definite matrices dsposv, matrix by matrix: right-hand sides have
    converged where ``|b - A x| <= sqrt(n) |x| |A| 2^-53`` in infinity norms. Where it falls back, bits are
    those of "fixed".

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
    asked = _accuracy("linsolve", precision, ill_conditioned, return_rcond)
    options = {
        "lower": lower,
        "unit_diagonal": unit_diagonal,
        "transposed": transposed,
        "bandwidths": bandwidths,
        "packed": packed,
    }
    a, b = without_labels(a), without_labels(b)
    a, structure = _structure("linsolve", a, assume_a, options)
    if not any(asked):
        x, info, reason = _by_structure("linsolve", a, b, structure, outs_with_info("linsolve", out))
        return checked("linsolve", (x, info), reason, wanted=out)
    is_twin = type(out) is WithInfo
    outs = out.outs("linsolve", 4) if is_twin else ()
    found, reason = _accurately("linsolve", a, b, structure, asked, (None if is_twin else out, None))
    failed = found.info
    if asked.ill_conditioned:
        failed = failed * (
            failed <= with_core_shape(a)[2]
        )  # n + 1: singular to the precision, with a solution
    if is_twin:
        if out.check_errors:
            checked("linsolve", (found.x, failed), reason)
        return out.made(*delivered("linsolve", outs, found))
    if asked.return_rcond:
        return checked("linsolve", (found.x, found.rcond, failed), reason, lambda x, rcond: (x, rcond))
    return checked("linsolve", (found.x, failed), reason)


linsolve_ex = twin_of(
    linsolve,
    LinsolveExResult,
    "0, or k if pivot k, counted from 1, is the first that is zero or overflows, or if the leading minor of "
    "order k is the first that is not positive. With `ill_conditioned` it is n + 1, and x what it is, where "
    "rcond is below the unit roundoff. ``iterations`` counts the steps in mixed precision, or says why a "
    "matrix was solved in float64: -2, its elements overflow float32; -3, it is singular or not positive "
    "definite there; -31, it did not converge in 30 steps; -1, the condition of a rectangular one, or more "
    "columns than rows",
    {"[[0.0]], [1.0], assume_a='pos'": "np.int32(1)"},
    {LinsolveExpertResult: "with `precision`, `ill_conditioned` or `return_rcond`"},
)

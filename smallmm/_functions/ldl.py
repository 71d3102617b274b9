"""L D L^T of symmetric matrices and L D L^H of Hermitian ones, and solves from them."""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .._base.catalog import computed_by
from .._base.errors import SINGULAR, WRONG_PIVOTS
from .._base.options import flag
from .._calls.calls import factors_in_one, run, several
from .._calls.twins import twin_of


class LDLResult(NamedTuple):
    """L and D in one triangle, and the pivots."""

    LD: Any
    pivots: Any


class LDLExResult(NamedTuple):
    """L and D in one triangle, the pivots, and info: 0, or the first block of D, from 1, that is useless."""

    LD: Any
    pivots: Any
    info: Any


def _form(op: str, name: str, lower: Any, hermitian: Any) -> str:
    """The gufunc of a name. Of real matrices both forms of the factors are one."""
    symmetric = "" if flag(op, "hermitian", hermitian) else "_symmetric"
    return f"{name}{symmetric}{'' if flag(op, 'lower', lower) else '_upper'}"


def _forms(name: str) -> tuple[str, ...]:
    return name, f"{name}_upper", f"{name}_symmetric", f"{name}_symmetric_upper"


@computed_by(*_forms("ldl_factor"))
def ldl_factor(
    a: "ArrayLike", *, lower: bool = True, hermitian: bool = True, out: tuple[Any, Any] | None = None
) -> LDLResult:
    """Factor each symmetric or Hermitian matrix as P A P^T = L D L^H.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or Hermitian matrices, of which only the lower triangle is read, or the upper.
    lower : bool
        False: read the upper triangle, and give U of U D U^H.
    hermitian : bool
        What complex matrices are. True: Hermitian; of their diagonals only the real part is read, and D has a
        real diagonal. False: symmetric, P A P^T = L D L^T, without conjugates. For real matrices both are the
        same. `torch.linalg.ldl_factor` has the default False, `scipy.linalg.ldl` True.
    out : (array of shape (..., n, n), array of int32 of shape (..., n)), optional
        Where the results are written; either may be None.

    Returns
    -------
    LDLResult
        ``LD``, shape (..., n, n): D, whose blocks have order 1 or 2, and L without its unit diagonal, in one
        triangle; zeros in the other.
        ``pivots``, int32, shape (..., n): as LAPACK's sytrf and hetrf give them, from 1. Two neighbours that
        are equal and negative say that their block has order 2.

    Raises
    ------
    LinAlgError
        Some matrices are singular: a block of D is exactly zero; or a pivot is NaN or overflows. The
        exception holds the other matrices' factors.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    ldl_solve : solves with the factors.
    ldl_factor_ex : the same, with singular matrices reported in an array.
    cholesky : positive definite matrices, in less time.

    Notes
    -----
    The pivoting of Bunch and Kaufman, as LAPACK's sytf2 and hetf2. 1/3 n^3 operations per matrix.

    Examples
    --------
    >>> smallmm.ldl_factor([[0.0, 1.0], [1.0, 0.0]]).pivots
    array([-2, -2], dtype=int32)
    """
    gufunc = _form("ldl_factor", "ldl_factor", lower, hermitian)
    return run("ldl_factor", gufunc, {"a": a}, several("ldl_factor", out, LDLResult), LDLResult, SINGULAR)


ldl_factor_ex = twin_of(
    ldl_factor,
    LDLExResult,
    "0, or k if block k of D, counted from 1, is zero, infinite or NaN",
    {"np.zeros((2, 2))": "np.int32(1)"},
)


@computed_by(*_forms("ldl_solve"))
@factors_in_one(0)
def ldl_solve(
    LD: "ArrayLike",
    pivots: "ArrayLike",
    b: "ArrayLike",
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: Any = None,
) -> Any:
    """Solve A X = B from the factors of `ldl_factor`.

    Parameters
    ----------
    LD, pivots : array_like, shapes (..., n, n) and (..., n)
        What `ldl_factor` gave, or LAPACK's sytrf or hetrf: two arguments, or one, which is a tuple of both.
        Of LD only one triangle is read.
    b : array_like, shape (..., n, k) or (n,)
        Right-hand sides; a vector only if it has one dimension. Batch dimensions broadcast.
    lower, hermitian : bool
        As given to `ldl_factor`.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.

    Returns
    -------
    array, shape (..., n, k), or (..., n) for a vector

    Raises
    ------
    LinAlgError
        Pivots are none that `ldl_factor` gives. The exception holds the other matrices' solutions.
    ValueError, TypeError
        As `solve`.

    See Also
    --------
    ldl_factor : the factors.
    solve : with ``assume_a="sym"`` or ``"her"``, both.

    Notes
    -----
    ``|B - A X|_1 <= 20 n u (g |A|_1 |X|_1 + |B|_1)``, where g is ``| |L| |D| |L^H| |_1 / |A|_1``, or 1 if
    that is less. 2 n^2 k operations per matrix.

    Examples
    --------
    >>> smallmm.ldl_solve(smallmm.ldl_factor([[0.0, 1.0], [1.0, 0.0]]), [3.0, 4.0])
    array([4., 3.])
    """
    gufunc = _form("ldl_solve", "ldl_solve", lower, hermitian)
    return run("ldl_solve", gufunc, {"LD": LD, "pivots": pivots, "b": b}, (out,), None, WRONG_PIVOTS)

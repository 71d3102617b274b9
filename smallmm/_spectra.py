"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices."""

from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from . import _core
from ._calls import run, several
from ._catalog import computed_by
from ._errors import NOT_CONVERGED, shown

_direct = _core.direct
_TRIANGLES = {"L": "", "l": "", "U": "_upper", "u": "_upper"}


class EighResult(NamedTuple):
    """A V = V diag(w)."""

    eigenvalues: Any
    eigenvectors: Any


class EighExResult(NamedTuple):
    """`EighResult`, and info: 0, or how many off-diagonal elements did not become negligible."""

    eigenvalues: Any
    eigenvectors: Any
    info: Any


class EigvalshExResult(NamedTuple):
    """The eigenvalues, and info: 0, or how many off-diagonal elements did not become negligible."""

    eigenvalues: Any
    info: Any


@computed_by("eigh", "eigh_upper")
def eigh(
    a: "ArrayLike", /, *, UPLO: Literal["L", "U"] = "L", out: tuple[Any, Any] | None = None
) -> EighResult:
    """Eigenvalues and eigenvectors of each symmetric or Hermitian matrix of a stack: A V = V diag(w).

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or, if complex, Hermitian matrices, of which only one triangle is read, and
        of the diagonal only the real part.
    UPLO : {"L", "U"}
        Whether that is the lower or the upper one.
    out : (array of shape (..., n), array of shape (..., n, n)), optional
        Where the results are written. They may be, or overlap, the input; either may be None.

    Returns
    -------
    EighResult
        ``eigenvalues``, shape (..., n): real and ascending.
        ``eigenvectors``, shape (..., n, n): column j belongs to eigenvalue j. Columns are orthonormal. The
        component of largest magnitude of each, the first of equals, is positive; of complex ones it is
        real and positive.

    Raises
    ------
    LinAlgError
        Some matrices did not converge in 30 n sweeps; no such matrix is known. The exception holds the other
        matrices' results.
    ValueError, TypeError
        As `solve`; `UPLO` is another value.
    NotImplementedError
        n is above 32 and the arrays are on a GPU.

    See Also
    --------
    eigvalsh : the eigenvalues only, in half the time.
    eigh_ex : the same, with matrices that did not converge reported in an array.
    solve : dtypes.

    Notes
    -----
    Householder tridiagonalisation (LAPACK's sytrd, hetrd), which leaves a real matrix, and implicit QR with
    Wilkinson's shift (steqr), in a fixed order. Bits do not depend on the batch, the neighbours, strides,
    threads or the instruction set, except for the portable kernels on a CPU without FMA. ``|A V - V
    diag(w)|_1 <= 20 n u |A|_1``, ``|V^H V - I|_1 <= 20 n u``, and each eigenvalue is within ``10 n u |A|_1``;
    of complex matrices three times as much. Eigenvalues much smaller than the largest therefore have fewer
    correct digits, as in LAPACK. No intermediate result over- or underflows.

    NaN and infinities give NaN within their own matrix and are not an error. For equal or nearly equal
    eigenvalues any orthonormal basis may be returned. About 9 n^3 operations per matrix, of complex ones 24
    n^3. Orders above 32 go to NumPy's LAPACK, one matrix at a time: correct, but slower, and with other bits.

    Examples
    --------
    >>> w, v = smallmm.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> w
    array([1., 3.])
    >>> np.allclose(v @ np.diag(w) @ v.T, [[2, 1], [1, 2]])
    True
    """
    outs = several("eigh", out, EighResult)
    gufunc = "eigh" + _triangle("eigh", UPLO)
    results = _direct[gufunc](a, *outs)
    if results is not NotImplemented and results[2] is None:
        return EighResult(results[0], results[1])
    return run("eigh", gufunc, {"a": a}, outs, EighResult, NOT_CONVERGED, results)


@computed_by("eigh", "eigh_upper")
def eigh_ex(
    a: "ArrayLike", /, *, UPLO: Literal["L", "U"] = "L", out: tuple[Any, Any, Any] | None = None
) -> EighExResult:
    """`eigh` that never raises for matrices that did not converge: ``(eigenvalues, eigenvectors, info)``.

    ``info``, int32, shape (...), is 0, or how many off-diagonal elements did not become negligible; the
    results of such a matrix are NaN.

    >>> smallmm.eigh_ex(np.eye(2)).info
    np.int32(0)
    """
    outs = several("eigh_ex", out, EighExResult)
    return run("eigh_ex", "eigh" + _triangle("eigh_ex", UPLO), {"a": a}, outs, EighExResult)


@computed_by("eigvalsh", "eigvalsh_upper")
def eigvalsh(a: "ArrayLike", /, *, UPLO: Literal["L", "U"] = "L", out: Any = None) -> Any:
    """Eigenvalues of each symmetric or Hermitian matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or, if complex, Hermitian matrices, of which only one triangle is read, and
        of the diagonal only the real part.
    UPLO : {"L", "U"}
        Whether that is the lower or the upper one.
    out : array, shape (..., n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n)
        Real and ascending. Up to order 32 they are those of `eigh`, bit for bit.

    Raises
    ------
    LinAlgError, ValueError, TypeError, NotImplementedError
        As `eigh`.

    See Also
    --------
    eigh : the eigenvectors too; accuracy, NaN, orders above 32.
    eigvalsh_ex : the same, with matrices that did not converge reported in an array.

    Notes
    -----
    The method of `eigh`, without vectors. About 4/3 n^3 + 40 n^2 operations per matrix.

    Examples
    --------
    >>> smallmm.eigvalsh([[[2.0, 1.0], [1.0, 2.0]], [[5.0, 0.0], [0.0, -5.0]]])
    array([[ 1.,  3.],
           [-5.,  5.]])
    """
    gufunc = "eigvalsh" + _triangle("eigvalsh", UPLO)
    results = _direct[gufunc](a, out)
    if results is not NotImplemented and results[1] is None:
        return results[0]
    return run("eigvalsh", gufunc, {"a": a}, (out,), None, NOT_CONVERGED, results)


@computed_by("eigvalsh", "eigvalsh_upper")
def eigvalsh_ex(
    a: "ArrayLike", /, *, UPLO: Literal["L", "U"] = "L", out: tuple[Any, Any] | None = None
) -> EigvalshExResult:
    """`eigvalsh` that never raises for matrices that did not converge: ``(eigenvalues, info)``.

    ``info``, int32, shape (...), is that of `eigh_ex`.

    >>> smallmm.eigvalsh_ex(np.diag([3.0, np.nan]))
    EigvalshExResult(eigenvalues=array([nan, nan]), info=np.int32(0))
    """
    outs = several("eigvalsh_ex", out, EigvalshExResult)
    return run("eigvalsh_ex", "eigvalsh" + _triangle("eigvalsh_ex", UPLO), {"a": a}, outs, EigvalshExResult)


def _triangle(op: str, uplo: Any) -> str:
    """What UPLO adds to the name of a gufunc."""
    if not isinstance(uplo, str) or uplo not in _TRIANGLES:
        raise ValueError(f"{op}: UPLO is {shown(uplo)}; expected 'L' or 'U'")
    return _TRIANGLES[uplo]

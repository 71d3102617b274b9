"""Eigenvalues and eigenvectors."""

from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .. import _core
from .._base.catalog import computed_by
from .._base.errors import NOT_CONVERGED, shown
from .._base.options import flag, integer, pair
from .._calls.arrays import with_core_shape
from .._calls.calls import checked, delivered, outs_with_info, run, several
from .._calls.twins import twin_of

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


class EigResult(NamedTuple):
    """A V = V diag(w), of complex numbers."""

    eigenvalues: Any
    eigenvectors: Any


class EigExResult(NamedTuple):
    """`EigResult`, and info: 0, or how many eigenvalues were not found."""

    eigenvalues: Any
    eigenvectors: Any
    info: Any


class EigvalsExResult(NamedTuple):
    """The eigenvalues, and info: 0, or how many were not found."""

    eigenvalues: Any
    info: Any


@computed_by("eig")
def eig(
    a: "ArrayLike",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[Any, Any] | None = None,
) -> EigResult:
    """Eigenvalues and eigenvectors of each general square matrix of a stack: A V = V diag(w).

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : (array of shape (..., n), array of shape (..., n, n)), optional
        Where the results are written. They are complex; either may be None.

    Returns
    -------
    EigResult
        ``eigenvalues``, shape (..., n): complex, in no order that is promised. Of a real matrix those that
        are real have the imaginary part 0, and the others are exactly conjugate pairs, the one with the
        positive imaginary part first.
        ``eigenvectors``, shape (..., n, n): complex; column j belongs to eigenvalue j. Columns have 2-norm
        1. The component of largest magnitude of each, the first of equals, is real and positive. Columns of
        a real matrix are real or conjugate like the eigenvalues.

        Results of float32 and complex64 are complex64, of others complex128. Those of float16 and bfloat16,
        which have no complex type, are complex64.

    Raises
    ------
    LinAlgError
        Some matrices did not converge in 30 max(n, 10) sweeps, which is rare. The exception holds the other
        matrices' results.
    ValueError, TypeError
        As `solve`.
    NotImplementedError
        n is above 128 and the arrays are Numba's or smallmm's own on a GPU. Those of other libraries go to
        the library's linear algebra.

    See Also
    --------
    eigvals : the eigenvalues only, in half the time.
    eigh : of symmetric and Hermitian matrices, faster and with orthonormal eigenvectors.
    eig_ex : the same, with matrices that did not converge reported in an array.
    solve : dtypes.

    Notes
    -----
    The matrix is balanced by powers of two (LAPACK's gebal since 3.5.0, without permutations) and reduced to
    Hessenberg form by Householder reflectors (gehrd). QR with Francis's double shift, of complex matrices
    with a single shift, makes it triangular (lahqr). Back substitution gives the vectors (trevc). The
    order of operations is fixed. Bits do not depend on the batch, the neighbours, strides, threads or the
    instruction set, except for the portable kernels on a CPU without FMA.

    With the balanced matrix ``B = D^-1 A D``, each column ``v = D y`` has ``|B y - y w|_1 <= 20 max(n, 10) u
    |B|_1 |y|_1``, and ``|A V - V diag(w)|_1 <= 20 max(n, 10) u f |A|_1``, of complex matrices three times as
    much. Here f is the ratio of the largest element of D to the smallest: 1 where for no i the 2-norms of row
    i and of column i differ by more than a factor of 2. LAPACK's residuals grow as much. Eigenvalues are
    exact ones of a matrix that is as near to B. How far they move, and whether the eigenvectors are
    independent, depends on the matrix: of a defective one some columns are nearly equal. No intermediate
    result over- or underflows.

    NaN and infinities give NaN within their own matrix and are not an error. About 25 n^3 operations per
    matrix. Orders above 128 go to NumPy's LAPACK, one in each thread: correct, but slower, and with other
    bits.

    Examples
    --------
    >>> w, v = smallmm.eig([[0.0, -1.0], [1.0, 0.0]])  # a rotation by a right angle
    >>> w
    array([0.+1.j, 0.-1.j])
    >>> np.allclose([[0, -1], [1, 0]] @ v, v * w)
    True
    """
    outs = several("eig", out, EigResult)
    results = _direct["eig"](a, *outs)
    if results is not NotImplemented and results[2] is None:
        return EigResult(results[0], results[1])
    return run("eig", "eig", {"a": a}, outs, EigResult, NOT_CONVERGED, results)


eig_ex = twin_of(eig, EigExResult, "0, or how many eigenvalues were not found", {"np.eye(2)": "np.int32(0)"})


@computed_by("eigvals")
def eigvals(a: "ArrayLike", *, overwrite_a: bool = False, check_finite: bool = False, out: Any = None) -> Any:
    """Eigenvalues of each general square matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, shape (..., n), optional
        Where the result is written. It is complex.

    Returns
    -------
    array, shape (..., n)
        Complex, in no order that is promised. Up to order 128 they are those of `eig`, bit for bit.

    Raises
    ------
    LinAlgError, ValueError, TypeError, NotImplementedError
        As `eig`.

    See Also
    --------
    eig : the eigenvectors too; accuracy, NaN, orders above 128.
    eigvals_ex : the same, with matrices that did not converge reported in an array.
    eigvalsh : of symmetric and Hermitian matrices.

    Notes
    -----
    The method of `eig`, without vectors. About 10 n^3 operations per matrix.

    Examples
    --------
    >>> smallmm.eigvals([[[2.0, 1.0], [0.0, 3.0]], [[1.0, -2.0], [2.0, 1.0]]])
    array([[2.+0.j, 3.+0.j],
           [1.+2.j, 1.-2.j]])
    """
    results = _direct["eigvals"](a, out)
    if results is not NotImplemented and results[1] is None:
        return results[0]
    return run("eigvals", "eigvals", {"a": a}, (out,), None, NOT_CONVERGED, results)


eigvals_ex = twin_of(eigvals, EigvalsExResult, "that of `eig_ex`", {"np.diag([3.0, np.nan])": "np.int32(0)"})


@computed_by("eigh", "eigh_upper", "eigvalsh", "eigvalsh_upper")
def eigh(
    a: "ArrayLike",
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: bool = False,
    subset_by_index: "tuple[int, int] | None" = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of each symmetric or Hermitian matrix of a stack: A V = V diag(w).

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or, if complex, Hermitian matrices, of which only one triangle is read, and
        of the diagonal only the real part.
    UPLO : {"L", "U"}
        Whether that is the lower or the upper one.
    lower : bool, optional
        SciPy's name for the same. None: `UPLO` decides.
    eigvals_only : bool
        Whether to return the eigenvalues alone, as `eigvalsh` does.
    subset_by_index : (int, int), optional
        The first and the last eigenvalue that is wanted, from 0 in ascending order, with their eigenvectors.
        All are computed.
    overwrite_a, overwrite_b, check_finite, driver : bool, str
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : (array of shape (..., n), array of shape (..., n, n)), optional
        Where the results are written. They may be, or overlap, the input; either may be None. One array if
        `eigvals_only`.

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
        Some matrices did not converge in 30 n sweeps (30 with n up to 4); no such matrix is known. The
        exception holds the other matrices' results.
    ValueError, TypeError
        As `solve`; `UPLO` or `subset_by_index` is another value, or `lower` contradicts `UPLO`.
    NotImplementedError
        n is above 128 and the arrays are Numba's or smallmm's own on a GPU. Those of other libraries go to
        the library's linear algebra.

    See Also
    --------
    eigvalsh : the eigenvalues only, in half the time.
    eigh_ex : the same, with matrices that did not converge reported in an array.
    solve : dtypes.

    Notes
    -----
    With n up to 4: Jacobi's rotations of rows and columns (Demmel and Veselic 1992), until every ``|a_ij|``
    is at most ``4 u sqrt|a_ii a_jj|``. With n above 4: Householder tridiagonalisation (LAPACK's sytrd,
    hetrd), which leaves a real matrix, and implicit QR with Wilkinson's shift (steqr). The order of
    operations is fixed. Bits do not depend on the batch, the neighbours, strides, threads or the instruction
    set, except for the portable kernels on a CPU without FMA.

    ``|A V - V diag(w)|_1 <= 20 n u |A|_1``, ``|V^H V - I|_1 <= 20 n u``, and each eigenvalue is within ``10 n
    u |A|_1``; of complex matrices three times as much. Eigenvalues much smaller than the largest therefore
    have fewer correct digits, as in LAPACK. Jacobi's method is better: if A = D B D is definite, with D
    diagonal, the relative error of each eigenvalue depends on the condition of B alone, in whatever order D
    is graded, down to 2^-600 of the largest (2^-75 in single precision). No intermediate result over- or
    underflows.

    NaN and infinities give NaN within their own matrix and are not an error. For equal or nearly equal
    eigenvalues any orthonormal basis may be returned. About 9 n^3 operations per matrix, of complex ones 24
    n^3. Orders above 128 go to NumPy's LAPACK, one in each thread: correct, but slower, and with other
    bits.

    Examples
    --------
    >>> w, v = smallmm.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> w
    array([1., 3.])
    >>> np.allclose(v @ np.diag(w) @ v.T, [[2, 1], [1, 2]])
    True
    """
    if eigvals_only is not False and flag("eigh", "eigvals_only", eigvals_only):
        gufunc = "eigvalsh" + _triangle("eigh", UPLO, lower)
        if subset_by_index is not None:
            return _some("eigh", gufunc, a, subset_by_index, out)
        return run("eigh", gufunc, {"a": a}, (out,), None, NOT_CONVERGED)
    outs = several("eigh", out, EighResult)
    gufunc = "eigh" + _triangle("eigh", UPLO, lower)
    if subset_by_index is not None:
        return _some("eigh", gufunc, a, subset_by_index, out, EighResult)
    results = _direct[gufunc](a, *outs)
    if results is not NotImplemented and results[2] is None:
        return EighResult(results[0], results[1])
    return run("eigh", gufunc, {"a": a}, outs, EighResult, NOT_CONVERGED, results)


eigh_ex = twin_of(
    eigh,
    EighExResult,
    "0, or how many off-diagonal elements did not become negligible",
    {"np.eye(2)": "np.int32(0)"},
    {EigvalshExResult: "if `eigvals_only`"},
)


@computed_by("eigvalsh", "eigvalsh_upper")
def eigvalsh(
    a: "ArrayLike",
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: "tuple[int, int] | None" = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: Any = None,
) -> Any:
    """Eigenvalues of each symmetric or Hermitian matrix of a stack.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of symmetric or, if complex, Hermitian matrices, of which only one triangle is read, and
        of the diagonal only the real part.
    UPLO : {"L", "U"}
        Whether that is the lower or the upper one.
    lower, subset_by_index : optional
        As of `eigh`.
    overwrite_a, overwrite_b, check_finite, driver : bool, str
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : array, shape (..., n), optional
        Where the result is written. It may be, or overlap, the input.

    Returns
    -------
    array, shape (..., n)
        Real and ascending. Up to order 128 they are those of `eigh`, bit for bit.

    Raises
    ------
    LinAlgError, ValueError, TypeError, NotImplementedError
        As `eigh`.

    See Also
    --------
    eigh : the eigenvectors too; accuracy, NaN, orders above 128.
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
    gufunc = "eigvalsh" + _triangle("eigvalsh", UPLO, lower)
    if subset_by_index is not None:
        return _some("eigvalsh", gufunc, a, subset_by_index, out)
    results = _direct[gufunc](a, out)
    if results is not NotImplemented and results[1] is None:
        return results[0]
    return run("eigvalsh", gufunc, {"a": a}, (out,), None, NOT_CONVERGED, results)


eigvalsh_ex = twin_of(
    eigvalsh, EigvalshExResult, "that of `eigh_ex`", {"np.diag([3.0, np.nan])": "np.int32(0)"}
)


def _triangle(op: str, uplo: Any, lower: Any) -> str:
    """What the triangle that is read adds to the name of a gufunc."""
    if not isinstance(uplo, str) or uplo not in _TRIANGLES:
        raise ValueError(f"{op}: UPLO is {shown(uplo)}; expected 'L' or 'U'")
    if lower is None:
        return _TRIANGLES[uplo]
    if flag(op, "lower", lower) and _TRIANGLES[uplo]:
        raise ValueError(f"{op}: lower is True and UPLO {uplo!r}; expected one of them")
    return "" if lower else "_upper"


def _some(op: str, gufunc: str, a: Any, subset: Any, out: Any, result: type[EighResult] | None = None) -> Any:
    """The results for the eigenvalues from one to another."""
    ends = pair(op, "subset_by_index", subset, "(first, last)")
    first, last = (integer(op, "subset_by_index", x) for x in ends)
    a, _, n = with_core_shape(a)
    if not 0 <= first <= last < n:
        raise ValueError(f"{op}: subset_by_index is {shown(subset)}; expected 0 <= first <= last < {n}")
    outs = outs_with_info(op, out, result)
    *found, info = run(op, gufunc, {"a": a}, (None,) * len(outs))
    found = [x[..., first : last + 1] for x in found]
    return checked(op, delivered(op, outs, (*found, info)), NOT_CONVERGED, result, out)

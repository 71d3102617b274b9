"""Schur forms."""

from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike  # quoted below: `help` would show the long union that it stands for

from .. import _core
from .._base.catalog import computed_by
from .._base.errors import NOT_CONVERGED
from .._base.options import one_of
from .._base.shapes import is_complex
from .._calls.calls import run, several
from .._calls.twins import twin_of
from .._programs.compose import HALVES, array_of, cast, full_dtype_name, namespace_of

_direct = _core.direct["schur"]


class SchurResult(NamedTuple):
    """A = Z T Z^H."""

    T: Any
    Z: Any


class SchurExResult(NamedTuple):
    """`SchurResult`, and info: 0, or how many eigenvalues were not found."""

    T: Any
    Z: Any
    info: Any


@computed_by("schur")
def schur(
    a: "ArrayLike",
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SchurResult:
    """Schur form of each square matrix of a stack: A = Z T Z^H, as `scipy.linalg.schur`.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        A stack of square matrices.
    output : {"real", "complex"}
        "complex": of real matrices, too, the complex form, with a triangle. Complex matrices have no other.
        SciPy's "r" and "c" are accepted too.
    overwrite_a, check_finite : bool
        Accepted for compatibility with SciPy; without effect, as in `solve`.
    out : (array of shape (..., n, n), array of shape (..., n, n)), optional
        Where the results are written. They may be, or overlap, the input; either may be None.

    Returns
    -------
    SchurResult
        ``T``, shape (..., n, n): upper triangular, with zeros below. Of real matrices it is real, and has
        blocks of order 2 on its diagonal, each of a pair of conjugate eigenvalues: its diagonal elements are
        equal, and those beside it have opposite signs. Eigenvalues are in no order that is promised.
        ``Z``, shape (..., n, n): orthogonal or, if complex, unitary.

    Raises
    ------
    LinAlgError
        Some matrices did not converge in 30 max(n, 10) sweeps, which is rare. The exception holds the other
        matrices' results.
    ValueError, TypeError
        As `solve`; `output` is another word.
    NotImplementedError
        n is above 128 and the arrays are on a GPU.

    See Also
    --------
    eig : eigenvectors instead, which may be nearly dependent.
    sqrtm, logm, powm : functions of matrices, which are computed by way of T.
    schur_ex : the same, with matrices that did not converge reported in an array.
    solve : dtypes.

    Notes
    -----
    Reduction to Hessenberg form by Householder reflectors (LAPACK's gehrd), and QR with Francis's double
    shift, of complex matrices with a single shift (lahqr): the method of `eig`, without balancing, which is
    not orthogonal. In a fixed order: bits do not depend on the batch, the neighbours, strides, threads or the
    instruction set, except for the portable kernels on a CPU without FMA. ``|Z T Z^H - A|_1 <= 20 max(n, 10)
    u |A|_1`` and ``|Z^H Z - I|_1 <= 20 max(n, 10) u``, of complex matrices three times as much.

    NaN and infinities give NaN within their own matrix and are not an error. About 25 n^3 operations per
    matrix. Orders above 128 go to SciPy's LAPACK, one matrix at a time: correct, but slower, and with other
    bits.

    Examples
    --------
    >>> a = np.array([[0.0, 2.0, 1.0], [-2.0, 0.0, 1.0], [0.0, 0.0, 3.0]])
    >>> t, z = smallmm.schur(a)
    >>> t.round(3) + 0.0  # a pair of eigenvalues, 2i and -2i, and 3
    array([[ 0.,  2.,  1.],
           [-2.,  0.,  1.],
           [ 0.,  0.,  3.]])
    >>> t, z = smallmm.schur(a, "complex")
    >>> np.allclose(z @ t @ z.conj().mT, a), t.diagonal().round(3) + 0.0
    (True, array([0.+2.j, 0.-2.j, 3.+0.j]))
    """
    if one_of("schur", "output", output, ("real", "complex", "r", "c"))[0] == "c":
        a = _as_complex(a)
    outs = several("schur", out, SchurResult)
    results = _direct(a, *outs)
    if results is not NotImplemented and results[2] is None:
        return SchurResult(results[0], results[1])
    return run("schur", "schur", {"a": a}, outs, SchurResult, NOT_CONVERGED, results)


schur_ex = twin_of(
    schur, SchurExResult, "0, or how many eigenvalues were not found", {"np.eye(2)": "np.int32(0)"}
)


def _as_complex(a: Any) -> Any:
    """Numbers of float32, float16 and bfloat16 as complex64, others as complex128."""
    a = array_of("schur", "a", a)
    if is_complex(a):
        return a
    single = full_dtype_name(a) in (*HALVES, "float32")
    return cast(namespace_of(a), a, "complex64" if single else "complex128")

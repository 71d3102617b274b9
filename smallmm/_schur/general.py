"""Functions of general matrices: A = Z T Z^H, f(A) = Z f(T) Z^H."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.composition import (
    COMPLEX,
    MANY_TEMPORARIES,
    Composition,
    adjoint,
    composition_of,
    constant,
    real_part,
)
from .._base.errors import Reason
from .._base.shapes import is_complex
from .._calls.calls import checked, delivered, outs_with_info, run
from .._functions.products import batched_matmul
from .._libraries import is_group
from .._libraries.dask import is_lazy
from .._programs.compose import (
    HALVES,
    all_true,
    array_of,
    cast,
    composed,
    count,
    dtype_name,
    full_dtype_name,
    joined,
    namespace_of,
)
from . import triangles
from .schur import schur_ex

NOT_DEFINED = Reason(
    "Matrix is singular",
    "without a result",
    "elements that no number can be, as the matrix is singular, or eigenvalues that did not converge: {k}",
)
_OF_TRIANGLES: dict[str, Callable[..., tuple[Any, Any]]] = {
    "logm": triangles.logarithms,
    "powm": triangles.powers,
}


def root(A: Any, out: Any = None) -> Any:
    """`sqrtm` of general matrices."""
    return _delivered("sqrtm", A, run("sqrtm", "sqrtm", {"A": A}, (None, None, None)), out)


def function(op: str, a: Any, operands: dict[str, Any], out: Any = None) -> Any:
    """`logm` or `powm` of general matrices."""
    return _delivered(op, a, composed(composition_of_general(op), operands), out)


def raw(op: str, operands: dict[str, Any]) -> Any:
    """The same, complex always."""
    return composed(composition_of_general(op), operands)[0]


def composition_of_general(op: str) -> Composition:
    """`logm`, or `powm`, whose exponent is an operand because derivatives need it."""
    parameters = ",()" if op == "powm" else ""
    return composition_of(
        f"{op}_general",
        f"(n,n){parameters}->(n,n),(),()",
        (COMPLEX, np.int32, np.int32),
        _of_schur_form,
        op,
        op=op,
        block=MANY_TEMPORARIES,
    )


def _delivered(op: str, a: Any, results: tuple[Any, Any, Any], out: Any) -> Any:
    """x and info. x is real if all matrices of the stack are and have no negative eigenvalue. It is complex
    if it is computed later, or recorded, as nothing is known of its eigenvalues then."""
    x, negative, info = results
    outs = outs_with_info(op, out)
    a = a if is_group(a) else array_of(op, "a", a)
    if not is_complex(a) and not is_lazy(x) and not hasattr(x, "record"):
        whole = negative if is_group(x) else x
        xp = namespace_of(whole) if hasattr(whole, "ndim") else np
        try:
            is_real = all_true(xp, negative == 0, unknown=False)
        except TypeError as error:  # JAX's, of a tracer
            raise TypeError(
                f"{op}: whether the results of real matrices are real depends on their eigenvalues, which "
                "are not known while the call is traced; pass complex matrices, or symmetric ones with "
                "assume_a='sym'"
            ) from error
        if is_real:
            x = x.each(lambda y, _: _real(xp, y, a)) if is_group(x) else _real(xp, x, a)
    return checked(op, delivered(op, outs, (x, info)), NOT_DEFINED, wanted=out)


def _real(xp: Any, x: Any, like: Any) -> Any:
    """Dense, in the dtype of what it was computed of."""
    x = xp.real(x) + 0.0
    return cast(xp, x, full_dtype_name(like)) if full_dtype_name(like) in HALVES else x


def _of_schur_form(op: str, xp: Any, a: Any, *parameters: Any) -> tuple[Any, Any, Any]:
    """f(A), how many eigenvalues are negative, and info."""
    if hasattr(xp, "joined"):
        raise NotImplementedError(
            f"{op}: general matrices cannot be fused, as the number of steps depends on their elements; call "
            f"{op} outside of the fused function, or with assume_a='sym' if the matrices are symmetric"
        )
    t, z, info = schur_ex(a)
    t, z, negative = (t, z, xp.zeros_like(info)) if is_complex(a) else _triangular(xp, t, z)
    given = (cast(xp, real_part(xp, x), "float64") for x in parameters)
    f, undefined = _OF_TRIANGLES[op](xp, cast(xp, t, "complex128"), *given)
    f = cast(xp, f, "complex64" if dtype_name(a) == "float32" else "complex128")
    x = batched_matmul(batched_matmul(z, f), adjoint(xp, z))
    info = info + cast(xp, undefined, "int32")
    bad = (info > 0)[..., None, None]
    re, im = (xp.where(bad, constant(xp, np.nan, part), part) for part in (xp.real(x), xp.imag(x)))
    if not is_complex(a):
        im = xp.where((negative > 0)[..., None, None], im, xp.zeros_like(im))
    return joined(xp, re, im), negative, info


def _triangular(xp: Any, t: Any, z: Any) -> tuple[Any, Any, Any]:
    """The complex Schur form of a real one, and how many real eigenvalues are negative. A block (a b; c a)
    has the eigenvalues a + i w and a - i w, w^2 = -b c, and (b, i w) is an eigenvector. It becomes
    (a + i w, b + c; 0, a - i w): errors of rounding a would be large beside small w."""
    n = t.shape[-1]
    diagonal = xp.linalg.diagonal(t)
    none = xp.zeros_like(diagonal[..., :1])
    b, c = (xp.linalg.diagonal(t, offset=k) for k in (1, -1))
    b, c = (xp.concat([x, none], axis=-1) for x in (b, c))  # of the blocks that begin in each row
    first = c != 0
    second = xp.concat([none != 0, first[..., :-1]], axis=-1)
    size = xp.where(first, xp.abs(b) + xp.abs(c), xp.ones_like(b))
    root_b, root_c = xp.sqrt(xp.abs(b)), xp.sqrt(xp.abs(c))
    own = xp.where(first, xp.sign(b) * root_b / xp.sqrt(size), xp.zeros_like(b))
    other = xp.where(first, root_c / xp.sqrt(size), xp.zeros_like(c))
    w = xp.where(first, root_b * root_c, xp.zeros_like(b))
    before = [xp.concat([none, x[..., :-1]], axis=-1) for x in (own, w)]
    eye, right, left = (constant(xp, np.eye(n, k=k), t) for k in (0, 1, -1))
    one = xp.where(first | second, own + before[0], xp.ones_like(own))
    turn = joined(xp, eye * one[..., None, :], right * other[..., :, None] + left * other[..., None, :])
    t, z = (joined(xp, x, xp.zeros_like(x)) for x in (t, z))
    t = batched_matmul(batched_matmul(adjoint(xp, turn), t), turn)
    above = constant(xp, np.tri(n, k=-1), b) == 0
    t = xp.where(above, t, xp.zeros_like(t))
    t = triangles.with_diagonal(xp, t, joined(xp, diagonal, w - before[1]))
    if n > 1:
        beside = joined(xp, b + c, xp.zeros_like(b))[..., :-1]
        beside = xp.where(first[..., :-1], beside, xp.linalg.diagonal(t, offset=1))
        t = triangles.with_diagonal(xp, t, beside, 1)
    negative = count(xp, (diagonal < 0) & ~(first | second))
    return t, batched_matmul(z, turn), cast(xp, negative, "int32")

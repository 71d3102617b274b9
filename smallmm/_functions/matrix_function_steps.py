"""Functions of matrices in terms of a library's namespace, and what their options mean."""

from typing import Any, NamedTuple

import numpy as np

from .._base.composition import (
    MANY_TEMPORARIES,
    adjoint,
    composition_of,
    constant,
    identity,
    real_part,
)
from .._base.errors import Reason, shown
from .._base.options import flag
from .._base.shapes import is_complex
from .._calls.calls import checked, outs_with_info
from .._calls.twins import WithInfo
from .._programs.compose import composed, constant_of, count, dtype_name, extreme, joined
from .._programs.record import power
from .products import batched_matmul
from .spectra import eigh_ex
from .svd import svd_ex
from .systems import inv_ex

SYMMETRIC = {
    **dict.fromkeys(("gen", "general"), False),
    **dict.fromkeys(("sym", "symmetric", "her", "hermitian", "pos", "positive definite"), True),
}


class MatrixFunctionExResult(NamedTuple):
    """The function of each matrix, and info: 0, or what is wrong with it, in the words of the function."""

    x: Any
    info: Any


def is_symmetric(op: str, assume_a: Any) -> bool:
    if not isinstance(assume_a, str) or assume_a not in SYMMETRIC:
        raise ValueError(f"{op}: assume_a is {shown(assume_a)}; expected 'gen' or 'sym'")
    return SYMMETRIC[assume_a]


def of_symmetric(
    op: str, operands: dict[str, Any], function: tuple[Any, ...], lower: Any, out: Any, reason: Reason
) -> Any:
    """function: one of eigenvalues, and its options."""
    composition = composition_of(
        f"{op}_symmetric",  # the rule of a general matrix's derivative is that of its gufunc
        "(n,n)->(n,n),()",
        (None, np.int32),
        _by_eigenvalues,
        function,
        flag(op, "lower", lower),
        op=op,
        block=MANY_TEMPORARIES,
        is_checked=type(out) is not WithInfo,
    )
    return checked(op, composed(composition, operands, outs_with_info(op, out)), reason, wanted=out)


def _by_eigenvalues(
    function: tuple[Any, ...], lower: bool, xp: Any, a: Any, *parameters: Any
) -> tuple[Any, Any]:
    """V diag(f) V^H, symmetric or Hermitian to the bit, and info. The function of eigenvalues gives
    sqrt(abs(f)), the signs of f or None where all are positive, and where an eigenvalue has no f."""
    x, _, info = _and_roots(function, lower, xp, a, *parameters)
    return x, info


def _and_roots(
    function: tuple[Any, ...], lower: bool, xp: Any, a: Any, *parameters: Any
) -> tuple[Any, Any, Any]:
    """`_by_eigenvalues`, with the roots."""
    of_values, *options = function
    w, v, info = eigh_ex(a, "L" if lower else "U")
    roots, signs, undefined = of_values(*options, xp, w, *parameters)
    if undefined is not None:
        wrong = count(xp, undefined)
        info = info + xp.asarray(wrong, dtype=info.dtype)
        roots = xp.where(wrong[..., None] > 0, constant(xp, np.nan, roots), roots)
    left = v * roots[..., None, :]
    right = left if signs is None else left * signs[..., None, :]
    return _hermitian(xp, batched_matmul(left, adjoint(xp, right))), roots, info


def _hermitian(xp: Any, x: Any) -> Any:
    """The lower triangle, and above it what belongs there: of complex products the terms of an element and
    of its mirror image are added in other orders. Those of real ones are equal."""
    if not is_complex(x):
        return x
    n = x.shape[-1]
    lower, diagonal = (constant(xp, places, xp.real(x)) > 0 for places in (np.tri(n), np.eye(n)))
    x = xp.where(lower, x, adjoint(xp, x))
    im = xp.imag(x)
    return joined(xp, xp.real(x), xp.where(diagonal, xp.zeros_like(im), im))


def exponentials(xp: Any, w: Any) -> tuple[Any, Any, Any]:
    return xp.exp(w / 2), None, None


def roots_of(xp: Any, w: Any) -> tuple[Any, Any, Any]:
    w, undefined = _nonnegative(xp, w)
    return xp.sqrt(xp.sqrt(w)), None, undefined


def logarithms(xp: Any, w: Any) -> tuple[Any, Any, Any]:
    undefined = w <= 0
    logs = xp.log(xp.where(undefined, xp.ones_like(w), w))
    return xp.sqrt(xp.abs(logs)), xp.sign(logs), undefined


def powers(p: float, xp: Any, w: Any) -> tuple[Any, Any, Any]:
    signs, undefined = None, None
    if p.is_integer():
        if p % 2:
            signs = xp.sign(w)
        if p < 0:
            undefined = w == 0
    elif p > 0:
        w, undefined = _nonnegative(xp, w)
    else:
        undefined = w <= 0
    return power(xp, xp.abs(w), p / 2), signs, undefined


def _nonnegative(xp: Any, w: Any) -> tuple[Any, Any]:
    """Eigenvalues, zeros where they are negative by rounding, and where they are more negative."""
    limit = 10 * w.shape[-1] * float(np.finfo(dtype_name(w)).eps) / 2
    undefined = w < -limit * extreme(xp, xp.abs(w))[..., None]
    return xp.where(w < 0, xp.zeros_like(w), w), undefined


def _inverses(xp: Any, w: Any, *tolerance: Any) -> tuple[Any, Any, Any]:
    return (*_reciprocal_roots(xp, w, w.shape[-1], *tolerance), None)


def _reciprocal_roots(xp: Any, w: Any, most: int, *tolerance: Any) -> tuple[Any, Any]:
    """sqrt(abs(1 / w)) and signs, 0 where w counts as zero."""
    size = xp.abs(w)
    rtol = real_part(xp, *tolerance) if tolerance else constant(xp, most * np.finfo(dtype_name(w)).eps, w)
    zero = size <= (extreme(xp, size) * rtol)[..., None]
    roots = 1 / xp.sqrt(xp.where(zero, xp.ones_like(w), size))
    return xp.where(zero, xp.zeros_like(w), roots), xp.sign(w)


def pinv_of_symmetric(lower: bool, with_rank: bool, xp: Any, a: Any, *tolerance: Any) -> tuple[Any, ...]:
    x, roots, info = _and_roots((_inverses,), lower, xp, a, *tolerance)
    return (x, count(xp, roots > 0), info) if with_rank else (x, info)


def pinv_of(with_rank: bool, xp: Any, a: Any, *tolerance: Any) -> tuple[Any, ...]:
    u, s, vh, info = svd_ex(a, full_matrices=False)
    roots, _ = _reciprocal_roots(xp, s, max(a.shape[-2:]), *tolerance)
    left = adjoint(xp, vh) * roots[..., None, :]
    x = batched_matmul(left, adjoint(xp, u * roots[..., None, :]))
    return (x, count(xp, roots > 0), info) if with_rank else (x, info)


def power_with_info(n: int, xp: Any, a: Any) -> tuple[Any, Any]:
    """A^n, which no matrix lacks, and info."""
    return power_of(n, xp, a), xp.zeros_like(xp.all(a == a, axis=(-2, -1)), dtype=xp.int32)


def power_of_inverse(n: int, xp: Any, a: Any) -> tuple[Any, Any]:
    """A^-n, and info."""
    inverse, info = inv_ex(a)
    return power_of(n, xp, inverse), info


def power_of(n: int, xp: Any, a: Any) -> Any:
    if n == 0:
        return constant_of(xp, xp.zeros_like(a) + identity(xp, a.shape[-1], a), a)
    if n == 3:
        return batched_matmul(batched_matmul(a, a), a)
    while not n & 1:
        a, n = batched_matmul(a, a), n >> 1
    x = xp.astype(a, a.dtype, copy=True)
    while n := n >> 1:
        a = batched_matmul(a, a)
        if n & 1:
            x = batched_matmul(x, a)
    return x

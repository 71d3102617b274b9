"""Systems of float64 solved by factors in float32 and residuals in float64 (LAPACK's dsgesv and dsposv; for
complex128 zcgesv and zcposv), and systems that are scaled, estimated and refined (gesvx): the core's and
compositions, for `linsolve`.

A. Buttari, J. Dongarra, J. Langou, J. Langou, P. Luszczek, J. Kurzak, "Mixed precision iterative refinement
techniques for the solution of dense linear systems", Int. J. High Perform. Comput. Appl. 21, 2007.
"""

from collections.abc import Callable
from functools import partial
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.composition import REAL, Composition
from .._base.lapack import FALLBACKS, Fallback
from .._base.shapes import dtype_of, is_complex, is_number_type
from .._calls.arrays import without_labels
from .._calls.calls import run
from .._libraries import on_device
from .._programs.compose import (
    all_true,
    cast,
    composed,
    dimensions,
    dtype_name,
    extreme,
    magnitudes,
    norm_1,
    power_of_two,
    sums,
)
from .cholesky import cho_solve, cholesky_ex
from .lu import lu_factor_ex, lu_solve
from .products import batched_matmul
from .refinement import lu_rcond, refine
from .systems import solve_ex

STEPS = 30  # of refinement, at most
UNIT = 2.0**-53
OVERFLOWED, SINGULAR, NOT_CONVERGED = -2, -3, -STEPS - 1  # what LAPACK says in the place of the steps

InDouble = Callable[[Any, Any], tuple[Any, Any]]  # a and b to x and info
Whole = Callable[[Any, Any], Any]  # in a namespace: from the given part of a matrix, the whole


def as_given(xp: Any, a: Any) -> Any:
    return a


class MixedResult(NamedTuple):
    """The solution, info of the matrices that were solved in float64, else 0, and how many steps were taken,
    or, negative, why the matrix was solved in float64."""

    x: Any
    info: Any
    iterations: Any


class ExpertResult(NamedTuple):
    """What gesvx returns: the solution, the condition, bounds of errors, and info: n + 1 where A is singular
    to the precision."""

    x: Any
    rcond: Any
    ferr: Any
    berr: Any
    info: Any


def refuse_single(op: str, **operands: Any) -> None:
    """TypeError unless the call is computed in float64 or complex128."""
    for name, x in operands.items():
        dtype = dtype_of(x)
        if is_number_type(dtype) and dtype.itemsize < (16 if dtype.kind == "c" else 8):
            raise TypeError(
                f"{op}: {name} has dtype {dtype}; expected float64 or complex128 with precision 'mixed'"
            )


def single(xp: Any, x: Any) -> Any:
    return cast(xp, x, "complex64" if is_complex(x) else "float32")


def double(xp: Any, x: Any) -> Any:
    return cast(xp, x, "complex128" if is_complex(x) else "float64")


def largest(xp: Any, x: Any) -> Any:
    """The largest magnitude of each column, NaN if one is."""
    return extreme(xp, magnitudes(xp, x).mT)


def scaled(xp: Any, x: Any) -> tuple[Any, Any]:
    """Columns with a largest magnitude of 1 in float32, and what they were divided by."""
    size = largest(xp, x)[..., None, :]
    size = xp.where((size > 0) & (size < inf), size, xp.ones_like(size))
    # Complex numbers as NumPy divides them by real ones: libraries have quotients of their own
    return single(xp, x * (1 / size) if is_complex(x) else x / size), size


def replaced(xp: Any, bad: Any, results: tuple[Any, ...], again: Callable[..., Any], *operands: Any) -> Any:
    """The results, those of bad matrices computed again from the operands, which are matrices."""
    if all_true(xp, ~bad, True):
        return results
    if xp is np and bad.ndim:
        some = again(*(np.broadcast_to(x, bad.shape + x.shape[-2:])[bad] for x in operands))
        for x, y in zip(results, some, strict=True):
            x[bad] = y
        return results
    return tuple(
        xp.where(xp.reshape(bad, (*bad.shape, *(1,) * (x.ndim - bad.ndim))), y, x)
        for x, y in zip(results, again(*operands), strict=True)
    )


# --- dsgesv and dsposv ----------------------------------------------------------------------------------


def _factor(a: Any) -> tuple[Callable[[Any], Any], Any]:
    lu, pivots, info = lu_factor_ex(a)
    return partial(lu_solve, (lu, pivots)), info


def _factor_positive(a: Any) -> tuple[Callable[[Any], Any], Any]:
    c, info = cholesky_ex(a)
    return partial(cho_solve, (c, True)), info


def refined(positive: bool, xp: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """What the core's SOLVE_MIXED gives, to the bit, of arrays on a device and of orders that it does not
    take. A column that has converged stays as it is, so columns do not know of each other."""
    narrow = single(xp, a)
    solve, info = (_factor_positive if positive else _factor)(narrow)
    overflowed = (extreme(xp, largest(xp, narrow)) == inf) & (extreme(xp, largest(xp, a)) < inf)
    bound = (extreme(xp, sums(xp, magnitudes(xp, a))) * (UNIT * sqrt(a.shape[-1])))[..., None]
    r = b + xp.zeros_like(a[..., :1])  # with the batch of both
    x = xp.zeros_like(r)
    done = xp.zeros(r.shape[:-2] + r.shape[-1:], dtype=xp.bool, **placed_as(xp, r))
    steps = xp.zeros_like(xp.any(done, axis=-1), dtype=xp.int32)
    hopeless = overflowed | (info != 0)
    for step in range(STEPS + 1):
        right, size = scaled(xp, r)
        d = double(xp, solve(right)) * size
        steps = xp.where(xp.all(done, axis=-1), steps, xp.full_like(steps, step))
        x = xp.where(done[..., None, :], x, x + d)
        r = b - batched_matmul(a, x)
        left = largest(xp, r)
        done = done | (left <= largest(xp, x) * bound)
        hopeless = hopeless | xp.any(~xp.isfinite(left), axis=-1)
        if all_true(xp, xp.all(done, axis=-1) | hopeless, True):
            break
    codes = xp.where(xp.all(done, axis=-1), steps, xp.full_like(steps, NOT_CONVERGED))
    codes = xp.where(info != 0, xp.full_like(codes, SINGULAR), codes)
    codes = xp.where(overflowed, xp.full_like(codes, OVERFLOWED), codes)
    again = _solve_positive if positive else solve_ex
    x, info = replaced(xp, codes < 0, (x, xp.zeros_like(codes)), again, a, b)
    return x, codes, info


def _solve_positive(a: Any, b: Any) -> tuple[Any, Any]:
    c, info = cholesky_ex(a)
    return cho_solve((c, True), b), info


def _refined_alone(positive: bool, a: np.ndarray, b: np.ndarray) -> tuple[Any, Any, Any]:
    x, *others = refined(positive, np, a, b if b.ndim > 1 else b[:, None])
    return (x if b.ndim > 1 else x[:, 0]), *others


FALLBACKS |= {  # here, because it calls functions that fall back themselves
    "solve_mixed": Fallback("sgetrf and sgetrs", partial(_refined_alone, False)),
    "solve_mixed_pos": Fallback("spotrf and spotrs", partial(_refined_alone, True)),
}


def _in_core(op: str, positive: bool, a: Any, b: Any, out: Any = None) -> tuple[Any, Any, Any]:
    gufunc = "solve_mixed_pos" if positive else "solve_mixed"
    return run(op, gufunc, {"a": a, "b": b}, (out, None, None))


def _is_of_core(a: Any, b: Any) -> bool:
    """Whether the core computes it: on a device only what a kernel takes."""
    if is_complex(a) or is_complex(b):
        return False
    if not (on_device(a) or on_device(b)):
        return True
    most = _core.cuda_max_order("SOLVE_MIXED", np.dtype(np.float64))
    return 0 < a.shape[-1] <= most and b.shape[-1] > 0


def _mixed(
    op: str, positive: bool, whole: Whole, fallback: InDouble | None, xp: Any, given: Any, b: Any
) -> tuple[Any, Any, Any]:
    a = whole(xp, given)
    x, codes, info = _in_core(op, positive, a, b) if _is_of_core(a, b) else refined(positive, xp, a, b)
    if fallback is not None:
        x, info = replaced(xp, codes < 0, (x, info), fallback, given, b)
    return x, codes, info


def placed_as(xp: Any, like: Any) -> dict[str, Any]:
    """What makes a new array of the library lie where another does."""
    if xp is np:
        return {}
    from array_api_compat import device

    return {"device": device(like)}


def solved(op: str, composition: Composition, a: Any, b: Any, x_out: Any) -> tuple[Any, ...]:
    """The composition's results for a `b` of any dimensions; a vector has one."""
    a, b = without_labels(a), without_labels(b)
    if dimensions(b) != 1:
        return composed(composition, {"a": a, "b": b}, (x_out, *(None,) * (composition.nout - 1)))
    column = (b if hasattr(b, "ndim") else np.asarray(b))[:, None]
    target = None if x_out is None else x_out[..., None]
    x, *others = composed(composition, {"a": a, "b": column}, (target, *(None,) * (composition.nout - 1)))
    rows = ["k" in dims for dims in composition.signature.split("->")[1][1:-1].split("),(")][1:]
    others = [y[..., 0] if row else y for y, row in zip(others, rows, strict=True)]
    return (x[..., 0] if x_out is None else x_out), *others


def _nothing(function: Callable[..., Any], shapes: str, xp: Any, a: Any, b: Any) -> Any:
    """Of no unknowns, or no right-hand sides, what there is: zeros, and a rcond of 1 if that is asked for."""
    if a.shape[-1] and b.shape[-1]:
        return function(xp, a, b)
    x = b + xp.zeros_like(xp.sum(a, axis=(-2, -1)))[..., None, None]
    each, column = (magnitudes(xp, xp.sum(x, axis=axes)) for axes in ((-2, -1), -2))  # zeros
    number = cast(xp, each, "int32")
    return tuple({"x": x, "k": column, "i": number, "1": xp.ones_like(each)}[shape] for shape in shapes)


def mixed_solve_ex(
    op: str,
    a: Any,
    b: Any,
    *,
    positive: bool = False,
    whole: Whole | None = None,
    fallback: InDouble | None = None,
    out: Any = None,
) -> MixedResult:
    """X of A X = B by factors in float32 and residuals in float64, matrix by matrix, as LAPACK's dsgesv, or
    dsposv if the matrices are positive definite, of which both triangles are read. Complex matrices have
    factors in complex64 and residuals in complex128 (zcgesv, zcposv).

    A matrix is solved in float64, by `solve_ex`, Cholesky's factors or the fallback, whose bits x then has,
    where its elements overflow float32 (iterations = -2), its factors in float32 are singular (-3), or a
    right-hand side has not converged after 30 steps (-31): ``|B - A X| <= sqrt(n) |X| |A| 2^-53`` in infinity
    norms. Residuals are divided by their largest element before they are narrowed.
    """
    a, b = without_labels(a), without_labels(b)
    refuse_single(op, a=a, b=b)
    with_complex = any(dtype_of(x).kind == "c" for x in (a, b))
    if not (whole or fallback) and _is_of_core(a, b):
        x, iterations, info = _in_core(op, positive, a, b, out)
        return MixedResult(x, info, iterations)
    function = partial(_mixed, op, positive, whole or as_given, fallback)
    signature, dtypes = "(n,n),(n,k)->(n,k),(),()", (None, np.int32, np.int32)
    # Of whole real matrices it is the core's operation, in results and in rules of derivatives
    name = f"solve_mixed{'_pos' * positive}{'_complex' * with_complex}"
    composition = Composition(
        "solve_mixed_parts" if whole or fallback else name,
        signature,
        partial(_nothing, function, "xii"),
        dtypes,
        takes_complex=True,
        op=op,
    )
    x, iterations, info = solved(op, composition, a, b, out)
    return MixedResult(x, info, iterations)


# --- gesvx ---------------------------------------------------------------------------------------------


def scale_of(xp: Any, most: Any) -> Any:
    """The exponents of powers of two that bring largest magnitudes to 1/2 .. 1; 0 where none can."""
    good = (most > 0) & (most < inf)
    return xp.where(good, -xp.frexp(xp.where(good, most, xp.ones_like(most)))[1], 0)


def _expert(whole: Whole, xp: Any, given: Any, b: Any) -> ExpertResult:
    a = whole(xp, given)
    n = a.shape[-1]
    rows = scale_of(xp, extreme(xp, magnitudes(xp, a)))
    of_rows = power_of_two(xp, rows, a)[..., :, None]
    equal = a * of_rows
    columns = scale_of(xp, largest(xp, equal))
    of_columns = power_of_two(xp, columns, a)
    equal = equal * of_columns[..., None, :]
    lu, pivots, info = lu_factor_ex(equal)
    size = norm_1(xp, equal)
    rcond = lu_rcond(lu, pivots, size)
    right = b * of_rows
    y, ferr, berr = refine(equal, lu, pivots, right, lu_solve((lu, pivots), right))
    rcond = xp.where((info != 0) & ~xp.isnan(size), xp.zeros_like(rcond), rcond)
    u = float(np.finfo(dtype_name(a)).eps) / 2
    info = xp.where((info == 0) & (rcond < u), xp.full_like(info, n + 1), info)
    x = y * of_columns[..., :, None]
    batch = x.shape[:-2]  # of A and B
    return ExpertResult(x, xp.broadcast_to(rcond, batch), ferr, berr, xp.broadcast_to(info, batch))


def expert_solve_ex(op: str, a: Any, b: Any, *, whole: Whole = as_given, out: Any = None) -> ExpertResult:
    """X of A X = B for matrices that may be ill-conditioned, as LAPACK's gesvx: rows and columns are scaled
    by powers of two, the solution is refined, and rcond (of the scaled matrix) and errors are estimated.

    info is k if pivot k, counted from 1, is zero: then x is NaN and rcond 0; or n + 1 where rcond is below
    the unit roundoff: x is what it is.
    """
    signature, dtypes = "(n,n),(n,k)->(n,k),(),(k),(k),()", (None, REAL, REAL, REAL, np.int32)
    function = partial(_nothing, partial(_expert, whole), "x1kki")
    composition = Composition("solve_expert", signature, function, dtypes, takes_complex=True, op=op)
    return ExpertResult(*solved(op, composition, a, b, out))

"""Norms, condition numbers and ranks in terms of a library's namespace, and what their options mean."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from math import inf, prod
from numbers import Real
from typing import Any

import numpy as np

from .._base.composition import constant, real_part
from .._base.errors import shown
from .._base.options import integer
from .._base.shapes import is_complex
from .._programs.compose import (
    column_sums,
    constant_of,
    count,
    dimensions,
    dtype_name,
    extreme,
    magnitudes,
    norm_1,
    parts,
    power_of_two,
    sums,
)
from .._programs.record import power
from .spectra import eigvalsh_ex
from .svd import svdvals_ex
from .systems import inv_ex

MAX_FACTORS = 8  # of a power that is computed by products


def reduced_axes(op: str, x: Any, axis: Any) -> tuple[int, ...]:
    """As numbers >= 0, each once."""
    ndim = dimensions(x)
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = []
    for number in (integer(op, "axis", x) for x in given):
        if not -ndim <= number < ndim:
            raise np.exceptions.AxisError(
                f"{op}: axis is {shown(axis)}; expected numbers from {-ndim} to {ndim - 1}, of x's dimensions"
            )
        axes.append(number % ndim)
    if len(set(axes)) < len(axes):
        raise ValueError(f"{op}: axis is {shown(axis)}; expected different axes")
    return tuple(axes)


def matrix_order(op: str, name: str, order: Any) -> Any:
    """As one of the orders of `matrix_norm`."""
    if isinstance(order, str):
        if order in ("fro", "nuc"):
            return order
    elif isinstance(order, Real) and not isinstance(order, bool) and abs(order) in (1, 2, inf):
        return float(order)
    raise ValueError(f"{op}: {name} is {shown(order)}; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")


def norm_of_matrices(order: Any, xp: Any, x: Any) -> Any:
    if order == "fro":
        return _norm_2(xp, parts(xp, x), lambda squares: sums(xp, column_sums(xp, squares)), 2)
    size = magnitudes(xp, x)
    return extreme(xp, column_sums(xp, size) if abs(order) == 1 else sums(xp, size), order)


def norm_of_values(order: Any, xp: Any, x: Any) -> Any:
    """Norms that singular values make, and info."""
    values, info = svdvals_ex(x)
    if order == "nuc" or not values.shape[-1]:
        return sums(xp, values), info
    return values[..., 0 if order > 0 else -1], info


def norm_of_vectors(axes: int, order: float, xp: Any, x: Any) -> Any:
    """Of the elements of that many last axes."""
    x = _merged(xp, x, axes)
    if order == 2:
        x = parts(xp, x)
    elif is_complex(x):
        x = magnitudes(xp, x)
    if not x.shape[-1]:
        return sums(xp, x)
    if order == 0:
        return sums(xp, constant_of(xp, xp.where(x == 0, xp.zeros_like(x), xp.ones_like(x)), x))
    if order == 2:
        return _norm_2(xp, x, partial(sums, xp), 1)
    size = xp.abs(x)
    if order == 1:
        return sums(xp, size)
    if order in (inf, -inf):
        return extreme(xp, size, order)
    powers = partial(_powers, xp, order)
    root = partial(power, xp, y=1 / order)
    return _norm_by_powers(xp, size, 1, order, lambda y: sums(xp, powers(y)), root)


def _powers(xp: Any, order: float, y: Any) -> Any:
    """y^order. Where that has no finite derivative at 0, it has none there."""
    if xp is np or order > 1:
        return _power_or_product(xp, y, order)
    zero = y == 0
    powers = _power_or_product(xp, xp.where(zero, xp.ones_like(y), y), order)
    return xp.where(zero, constant(xp, 0.0 if order > 0 else inf, y), powers)


def _power_or_product(xp: Any, y: Any, order: float) -> Any:
    """y^order: small whole powers by squares and products, which take a tenth of the time of others."""
    if abs(order) > MAX_FACTORS or not order.is_integer():
        return power(xp, y, order)
    product: Any = None
    for place, bit in enumerate(reversed(f"{int(abs(order)):b}")):
        y = y * y if place else y
        if bit == "1":
            product = y if product is None else product * y
    return product if order > 0 else 1 / product


def _merged(xp: Any, x: Any, axes: int) -> Any:
    """x with that many last axes as one."""
    if axes == 1:
        return x
    shape = (*x.shape[: x.ndim - axes], prod(x.shape[x.ndim - axes :]))
    return x.reshape(shape) if xp is np else xp.reshape(x, shape)  # NumPy's function takes four times as long


def _norm_2(xp: Any, x: Any, add: Callable[[Any], Any], axes: int) -> Any:
    """The root of the sum of squares."""
    return _norm_by_powers(xp, x, axes, 2, lambda y: add(y * y), xp.sqrt)


def _norm_by_powers(
    xp: Any, x: Any, axes: int, order: float, powers: Callable[[Any], Any], root: Callable[[Any], Any]
) -> Any:
    """root(powers(x)), of elements divided by a power of two where that sum of powers is not normal. No root
    is taken of 0, where it has no derivative, also if another value is chosen."""
    total = powers(x)
    smallest, largest = _normal_sums(dtype_name(x))
    if xp is np and not total.ndim and smallest <= total.item() <= largest:
        return root(total)  # the same as below, which takes as long as all else of a single norm
    normal = (total >= smallest) & (total <= largest)
    if xp is np and normal.all():
        return root(total)
    one = xp.ones_like(total)
    norms = root(xp.where(normal, total, one))
    with xp.unless(normal) if hasattr(xp, "unless") else nullcontext():  # a function that is recorded
        most = extreme(xp, _merged(xp, xp.abs(x), axes), order)
        usable = (most > 0) & xp.isfinite(most)
        _, exponents = xp.frexp(xp.where(usable, most, one))
        scale = power_of_two(xp, -exponents, x)
        scaled = root(xp.where(usable, powers(x * scale[(..., *(None,) * axes)]), one)) / scale
        others = xp.where(most == 0, xp.zeros_like(most), most)  # a minimum
        careful = xp.where(usable, scaled, others)
    return xp.where(normal, norms, careful)


@cache
def _normal_sums(dtype: str) -> tuple[float, float]:
    info = np.finfo(dtype)
    return float(info.tiny / info.eps**2), float(info.max)


def cond_of(order: Any, xp: Any, x: Any) -> tuple[Any, Any]:
    """Condition numbers, and info."""
    if order in (2, -2):
        values, info = svdvals_ex(x)
        largest, smallest = values[..., 0], values[..., -1]
        r = largest / smallest if order > 0 else smallest / largest
    else:
        inverse, singular = inv_ex(x)
        if order == "nuc":
            first, info = norm_of_values(order, xp, x)
            second, _ = norm_of_values(order, xp, inverse)
        else:
            first, second = norm_of_matrices(order, xp, x), norm_of_matrices(order, xp, inverse)
            info = xp.zeros_like(singular)
        r = first * second
    undefined = xp.isnan(r) & ~xp.isnan(norm_1(xp, x)) & (info == 0)
    return xp.where(undefined, constant(xp, inf, r), r), info


def rank(triangle: Any, absolute: bool, xp: Any, a: Any, *tolerances: Any) -> tuple[Any, Any]:
    """Ranks, and info: not 0 where there are no singular values. triangle: that of Hermitian matrices which
    is read, or None."""
    values, info = eigvalsh_ex(a, triangle) if triangle else svdvals_ex(a)
    values = xp.abs(values)
    eps = np.finfo(dtype_name(values)).eps
    limit = real_part(xp, *tolerances) if tolerances else constant(xp, max(a.shape[-2:]) * eps, values)
    largest = extreme(xp, values)
    if not absolute:
        limit = largest * limit
    info = xp.where(xp.isnan(largest), xp.ones_like(info), info)
    return count(xp, values > limit[..., None]), info


def rank_of_vector(xp: Any, x: Any) -> Any:
    return count(xp, (extreme(xp, magnitudes(xp, x)) if x.ndim else x)[..., None] != 0)

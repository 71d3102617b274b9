"""Derivatives as JAX has them: the primitive `smallmm_tangents`, linear in the tangents of operands, whose
transpose is the rule of the reverse mode. Imported with the first derivative: JAX is there then.

A rule makes gradients of operands from those g of results, linearly in g. The tangents of the results are the
adjoint of this map at the tangents of the operands, which JAX finds by differentiating the rule with respect
to g. That happens where a tangent is computed; the reverse mode transposes the primitive before, and then
evaluates the rule alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .jax_promotion import own_promotion
from .recording import Arrays, gradients


@dataclass(frozen=True)
class _Of:
    """A gufunc, as JAX's caches can hold it: NumPy's take no weak references."""

    gufunc: Any


# Parameters: what it is the derivative of; which operands have a tangent; for each vmap, from the innermost
# one, which operands and results it maps, 0 or None. These and all tangents have its dimension first.
# Arguments: operands, results, tangents. Results: the tangents of those results that have some.
_tangents = Primitive("smallmm_tangents")
_tangents.multiple_results = True


def tangents(gufunc: Any, operands: Arrays, results: Arrays, moved: Arrays) -> Arrays:
    """The tangents of the results, from those of the operands."""
    places = tuple(i for i, t in enumerate(moved) if type(t) is not SymbolicZero)
    answers = [SymbolicZero(jax.typeof(x).to_tangent_aval()) for x in results]
    given = [moved[i] for i in places]
    found = _tangents.bind(*operands, *results, *given, of=_Of(gufunc), places=places, maps=())
    for i, tangent in zip(_smooth(results), found, strict=True):
        answers[i] = tangent
    return tuple(answers)


def _smooth(results: Arrays) -> list[int]:
    """Which have derivatives: integers have none."""
    return [i for i, x in enumerate(results) if jax.numpy.issubdtype(x.dtype, np.inexact)]


def _split(of: _Of, arguments: Any) -> tuple[Arrays, Arrays]:
    """What is fixed, and the tangents."""
    count = of.gufunc.nin + of.gufunc.nout
    return tuple(arguments[:count]), tuple(arguments[count:])


def _mapped(function: Any, maps: Any) -> Any:
    """function(fixed, linear) of whole stacks, by the vmaps that were met."""
    for axes in maps:
        function = jax.vmap(function, in_axes=(axes, 0))
    return function


def _gradients(fixed: Arrays, grads: Any, *, of: _Of, places: Any, maps: Any) -> Any:
    """The rule: gradients of the operands that have tangents, from those of the results that have some."""

    @own_promotion()
    def rule(fixed: Arrays, grads: Any) -> Any:
        operands, results = fixed[: of.gufunc.nin], fixed[of.gufunc.nin :]
        given: list[Any] = [None] * len(results)
        for i, g in zip(_smooth(results), grads, strict=True):
            given[i] = None if g is None else jax.numpy.asarray(g)  # NumPy's may be given
        found = gradients(jax.numpy, of.gufunc, operands, results, tuple(given), wanted=places)
        return [jax.numpy.zeros_like(operands[i]) if found[i] is None else found[i] for i in places]

    return _mapped(rule, maps)(fixed, grads)


def _computed(*arguments: Any, of: _Of, **parameters: Any) -> Any:
    fixed, moved = _split(of, arguments)
    outlines = _outline(*arguments, of=of, **parameters)
    zeros = [jax.numpy.zeros(x.shape, x.dtype) for x in outlines]
    _, transposed = jax.vjp(lambda grads: _gradients(fixed, grads, of=of, **parameters), zeros)
    return transposed(list(map(jax.numpy.asarray, moved)))[0]


def _outline(*arguments: Any, of: _Of, places: Any, maps: Any) -> Any:
    fixed, moved = _split(of, arguments)
    lead = moved[0].shape[: len(maps)]
    results = []
    for i in _smooth(fixed[of.gufunc.nin :]):
        x = fixed[of.gufunc.nin + i]
        own = sum(axes[of.gufunc.nin + i] is not None for axes in maps)
        results.append(jax.core.ShapedArray((*lead, *x.shape[own:]), x.dtype))
    return results


def _transposed(grads: Any, *arguments: Any, of: _Of, **parameters: Any) -> Any:
    fixed, _ = _split(of, arguments)
    given = [None if type(g) is ad.Zero else g for g in grads]
    return [None] * len(fixed) + _gradients(fixed, given, of=of, **parameters)


def _moved(arguments: Any, changes: Any, *, of: _Of, **parameters: Any) -> Any:
    """Second derivatives."""
    fixed, moved = _split(of, arguments)
    of_fixed, of_moved = _split(of, changes)
    results = _tangents.bind(*arguments, of=of, **parameters)
    parts = []
    if any(type(t) is not ad.Zero for t in of_moved):
        whole = map(ad.instantiate_zeros, of_moved)
        parts.append(_tangents.bind(*fixed, *whole, of=of, **parameters))
    places = [i for i, t in enumerate(of_fixed) if type(t) is not ad.Zero and t.dtype != jax.dtypes.float0]
    if places:

        def at(*some: Any) -> Any:
            point = list(fixed)
            for i, x in zip(places, some, strict=True):
                point[i] = x
            return _computed(*point, *moved, of=of, **parameters)

        point, along = (tuple(x[i] for i in places) for x in (fixed, of_fixed))
        parts.append(jax.jvp(at, point, along)[1])
    if not parts:
        return results, [ad.Zero.from_primal_value(x) for x in results]
    return results, [sum(some[1:], some[0]) for some in zip(*parts, strict=True)]


def _batched(arguments: Any, axes: Any, *, of: _Of, maps: Any, **parameters: Any) -> Any:
    fixed, moved = _split(of, arguments)
    of_fixed, of_moved = _split(of, axes)
    size = next(x.shape[d] for x, d in zip(arguments, axes, strict=True) if d is not None)
    fixed = tuple(
        x if d is None else jax.numpy.moveaxis(x, d, 0) for x, d in zip(fixed, of_fixed, strict=True)
    )
    moved = tuple(
        jax.numpy.broadcast_to(x, (size, *x.shape)) if d is None else jax.numpy.moveaxis(x, d, 0)
        for x, d in zip(moved, of_moved, strict=True)
    )
    own = tuple(None if d is None else 0 for d in of_fixed)
    results = _tangents.bind(*fixed, *moved, of=of, maps=(*maps, own), **parameters)
    return results, [0] * len(results)


_tangents.def_impl(_computed)
_tangents.def_abstract_eval(_outline)
ad.primitive_jvps[_tangents] = _moved
ad.primitive_transposes[_tangents] = _transposed
batching.primitive_batchers[_tangents] = _batched
mlir.register_lowering(_tangents, mlir.lower_fun(_computed, multiple_results=True))

"""How libraries that record calls differentiate them: by rules, which `_derivatives.rules` enters here.
They know nothing of operands that were broadcast. Gradients of complex numbers are conjugates of derivatives
in rules, as they are in PyTorch."""

from collections.abc import Callable, Collection
from typing import Any

from .._base.composition import conjugate
from .._base.shapes import absent_dimensions, core_dimensions, is_complex, with_dimensions, without_dimensions

Arrays = tuple[Any, ...]
# (namespace, operands, results, gradients of the results, None for those that nothing depends on)
#   -> gradients of the first operands, or functions that compute them, which are called if they are wanted
Rule = Callable[[Any, Arrays, Arrays, Arrays], Arrays]
RULES: dict[str, Rule] = {}  # by the gufunc's name


def gradients(
    xp: Any,
    gufunc: Any,
    operands: Arrays,
    results: Arrays,
    grads: Arrays,
    conjugated: bool = False,
    wanted: Collection[int] | None = None,
) -> list[Any]:
    """The gradient of each operand, in its shape and dtype; None: of one that the results do not depend on.

    operands, results: of the call. grads: of a function of the results with respect to each of them.
    conjugated: whether gradients are the conjugates of derivatives; JAX's are not.
    wanted: which operands', by their places; None: all.
    """
    if not conjugated:
        grads = tuple(conjugate(xp, g) for g in grads)
    inputs, outputs = core_dimensions(gufunc)
    absent = absent_dimensions(operands, inputs)
    operands = tuple(with_dimensions(x, dims, absent) for x, dims in zip(operands, inputs, strict=True))
    results, grads = (
        tuple(
            x if x is None else with_dimensions(x, dims, absent)
            for x, dims in zip(side, outputs, strict=True)
        )
        for side in (results, grads)
    )
    found = RULES[gufunc.__name__](xp, operands, results, grads)
    answers: list[Any] = [None] * len(operands)
    for i, (x, gradient) in enumerate(zip(operands, found, strict=False)):
        if gradient is not None and (wanted is None or i in wanted):
            gradient = gradient() if callable(gradient) else gradient
            gradient = without_dimensions(summed(xp, gradient, x.shape), inputs[i], absent)
            if is_complex(gradient) and not is_complex(x):
                gradient = xp.real(gradient)
            elif not conjugated:
                gradient = conjugate(xp, gradient)
            answers[i] = xp.astype(gradient, x.dtype) if gradient.dtype != x.dtype else gradient
    return answers


def has_rule(gufunc: Any) -> bool:
    return gufunc.__name__ in RULES


def summed(xp: Any, gradient: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of an operand of that shape, which was broadcast to the shape of this one."""
    extra = gradient.ndim - len(shape)
    axes = (
        *range(extra),
        *(i + extra for i, n in enumerate(shape) if n == 1 and gradient.shape[i + extra] != 1),
    )
    return xp.reshape(xp.sum(gradient, axis=axes), shape) if axes else gradient

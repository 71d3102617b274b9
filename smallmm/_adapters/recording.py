"""How libraries that record calls differentiate them: by rules, which `_gradients` enters here, and which
know nothing of operands that were broadcast."""

from collections.abc import Callable
from typing import Any

from .._shapes import core_dimensions

Arrays = tuple[Any, ...]
# (namespace, operands, results, gradients of the results, None for those that nothing depends on)
#   -> gradients of the first operands
Rule = Callable[[Any, Arrays, Arrays, Arrays], Arrays]
RULES: dict[str, Rule] = {}  # by the gufunc's name


def gradients(xp: Any, gufunc: Any, operands: Arrays, results: Arrays, grads: Arrays) -> list[Any]:
    """The gradient of each operand, in its shape and dtype; None: of one that the results do not depend on.

    operands, results: of the call. grads: of a function of the results with respect to each of them.
    """
    rule = RULES[gufunc.__name__]
    inputs, outputs = core_dimensions(gufunc)
    vectors = [_is_vector(x, dims) for x, dims in zip(operands, inputs, strict=True)]
    if any(vectors):  # b of one dimension: a column here
        operands = tuple(x[..., None] if v else x for x, v in zip(operands, vectors, strict=True))
        columns = [bool(dims) and dims[-1] == "k?" for dims in outputs]
        results, grads = (
            tuple(x[..., None] if c and x is not None else x for x, c in zip(side, columns, strict=False))
            for side in (results, grads)
        )
    found = rule(xp, operands, results, grads)
    answers = []
    for x, gradient, is_vector in zip(operands, found, vectors, strict=False):
        gradient = _summed(xp, gradient, x.shape) if gradient is not None else None
        if gradient is not None:
            gradient = gradient[..., 0] if is_vector else gradient
            gradient = xp.astype(gradient, x.dtype) if gradient.dtype != x.dtype else gradient
        answers.append(gradient)
    return [*answers, *[None] * (len(operands) - len(answers))]


def has_rule(gufunc: Any) -> bool:
    return gufunc.__name__ in RULES


def _is_vector(x: Any, dims: list[str]) -> bool:
    return "k?" in dims[-1:] and getattr(x, "ndim", 2) < len(dims)


def _summed(xp: Any, gradient: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of an operand of that shape, which was broadcast to the shape of this one."""
    extra = gradient.ndim - len(shape)
    axes = (
        *range(extra),
        *(i + extra for i, n in enumerate(shape) if n == 1 and gradient.shape[i + extra] > 1),
    )
    return xp.reshape(xp.sum(gradient, axis=axes), shape) if axes else gradient

"""torch.compile has calls of smallmm's functions in its graphs as they are: it does not look into them.

An attribute of a function says what it traces instead. Here this is a function that, while it is traced,
tells PyTorch what to take as it is, and then calls the first one. PyTorch is not imported for this.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

_F = TypeVar("_F", bound=Callable[..., Any])

_untold: "WeakSet[Any]" = WeakSet()  # functions for graphs that PyTorch does not know yet
_was_told = False


def in_graph(function: _F) -> _F:
    """Have torch.compile call the function, whose arguments and results are arrays, in its graph."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        _tell_while_tracing()
        return function(*args, **kwargs)

    _tell_apart(traced)
    _have_told(function, traced)
    function._torchdynamo_inline = traced  # type: ignore[attr-defined]
    # And where the function itself is compiled
    function._torchdynamo_orig_callable = traced  # type: ignore[attr-defined]
    function._torchdynamo_wrapper_id = id(function)  # type: ignore[attr-defined]
    return function


def object_in_graph(function: Any) -> Callable[..., Any]:
    """The same for an object of a class whose `__call__` has `call_in_graph` for that attribute. It keeps the
    result as `_in_graph`: a function, which PyTorch meets first when it was told of it."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    _tell_apart(called)
    _have_told(function, called)
    return called


def call_in_graph(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch.compile traces instead of the `__call__` of such an object."""
    _tell_while_tracing()
    return self._in_graph(*args, **kwargs)


def _tell_apart(closure: Any) -> None:
    """Give it code of its own. torch.compile takes functions of equal code for one, and would give what it
    has compiled for one of smallmm's functions to the next."""
    closure.__code__ = closure.__code__.replace()


def _have_told(*functions: Any) -> None:
    """At once if PyTorch skips the rest of smallmm by now: it meets them first then."""
    _untold.update(functions)
    if _was_told:
        tell_dynamo()


def tell_dynamo() -> None:
    """Have torch.compile take the functions as they are, and skip what else is in smallmm: what reads memory
    has no graph. It does not trace a function with the attribute below, but runs it."""
    global _was_told
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is None or not _untold:
        return
    import torch

    while _untold:
        torch.compiler.allow_in_graph(_untold.pop())
    if not _was_told:  # each time the rules are compiled anew
        rules.add("smallmm")
        _was_told = True


tell_dynamo._torchdynamo_disable = True  # type: ignore[attr-defined]


def _tell_while_tracing() -> None:
    tell_dynamo()


_tell_while_tracing._dynamo_marked_constant = True  # type: ignore[attr-defined]

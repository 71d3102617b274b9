"""Public functions that are one of several fused functions, as their arguments ask."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .._base.torch_compile import call_in_graph, object_in_graph
from .fused import Fused

Choice = tuple[Fused, tuple[Any, ...], dict[str, Any]]  # a function, its arrays and its keywords


class Chosen:
    """A function whose arguments choose among fused functions, which have its name in messages. The first
    takes calls without keywords that were met before; `choose` need not leave out defaults."""

    def __init__(self, choose: Callable[..., Choice], *among: Fused) -> None:
        functools.update_wrapper(self, choose)
        self.choose = choose
        self.among = among
        signature = inspect.signature(choose)
        self.__signature__ = signature.replace(return_annotation=Any)
        self._defaults = {name: x.default for name, x in signature.parameters.items()}
        for fused in among:
            fused.speak_as(choose.__name__)
        self._in_graph = object_in_graph(self)

    def __reduce__(self) -> str:
        name: str = self.__dict__["__qualname__"]
        return name

    def __repr__(self) -> str:
        return f"<fused function {self.__dict__['__name__']}{self.__signature__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            answer = self.among[0].prepared(*args)
            if answer is not NotImplemented:
                return answer
        fused, arrays, keywords = self._chosen(args, kwargs)
        return fused(*arrays, **keywords)

    __call__._torchdynamo_inline = call_in_graph  # type: ignore[attr-defined]

    def ex(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """The result and info, without an exception for matrices that fail."""
        fused, arrays, keywords = self._chosen(args, kwargs)
        return fused.ex(*arrays, **keywords)

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """How a call with these arguments would run: a `FusedExplanation`."""
        fused, arrays, keywords = self._chosen(args, kwargs)
        return fused.explain(*arrays, **keywords)

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Choice:
        """The choice, without keywords that have their defaults, so that a call is met again without them."""
        fused, arrays, keywords = self.choose(*args, **kwargs)
        defaults = self._defaults
        return fused, arrays, {name: x for name, x in keywords.items() if x is not defaults[name]}


def chosen_among(*among: Fused) -> Callable[[Callable[..., Choice]], Chosen]:
    """A decorator: the function returns one of these, the arrays it takes and its keywords."""
    return lambda choose: Chosen(choose, *among)

"""The catalogue: one row for each public function that gufuncs of the core compute, entered by the decorator
`computed_by`. What _core lists (operations, forms, signatures) is not repeated. The decorator
`composed_of_others` enters functions that call these."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .. import _core
from .errors import shown
from .later import later
from .torch_compile import in_graph

_F = TypeVar("_F", bound=Callable[..., Any])


class Row(NamedTuple):
    """A public function, and the gufuncs of _core that it calls, one or the other as its arguments ask."""

    function: Callable[..., Any]
    gufuncs: tuple[str, ...]

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations of ops.def behind it, each once; the first is what the function is named for."""
        return tuple(dict.fromkeys(_core.gufunc_rows[name][0] for name in self.gufuncs))


FUNCTIONS: dict[str, Row] = {}


def computed_by(*gufuncs: str) -> Callable[[_F], _F]:
    """Enter a public function into the catalogue."""

    def enter(function: _F) -> _F:
        FUNCTIONS[function.__name__] = Row(function, gufuncs)
        return in_graph(function)

    return enter


def name_of(op: str, argument: str, function: Any, others: tuple[str, ...] = ()) -> str:
    """The name of a public function of the catalogue, or of others, that is given as such or by its name."""
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    names = {*FUNCTIONS, *others}
    if name not in names:
        raise ValueError(f"{op}: {argument} is {shown(function)}; expected one of {', '.join(sorted(names))}")
    return name


def public(name: str) -> Callable[..., Any]:
    """The public function of that name, which is imported now if it has not been."""
    function: Callable[..., Any] = getattr(later(""), name)
    return function


COMPOSITIONS: dict[str, Callable[..., Any]] = {}


def composed_of_others(function: _F) -> _F:
    """Enter a public function that calls other functions of smallmm, and no gufunc itself."""
    COMPOSITIONS[function.__name__] = function
    return in_graph(function)

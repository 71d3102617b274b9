"""The functions of arrays that a fused function may call, of its symbols (`symbols`): element by element, of
shapes and of linear algebra. Each is a view, or steps of the record."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any

from .._base.catalog import public
from .record import Record
from .symbol_elementwise import ELEMENTWISE
from .symbol_shapes import SHAPES, as_symbols, diagonal, moveaxis, summed

if TYPE_CHECKING:
    from .symbols import Symbol


# --- linear algebra ----------------------------------------------------------------------------------------


def _dot(x: Any, y: Any) -> Symbol:
    """Over the last axis of x and the one before the last of y, whose other axes do not meet."""
    a, b = as_symbols([x, y])
    if not a.ndim or not b.ndim:
        return ELEMENTWISE["multiply"](x, y)
    if b.ndim < 3:
        return public("matmul")(a, b)
    rows = a.reshape((prod(a.shape[:-1]), a.shape[-1]))
    both = moveaxis(public("matmul")(rows, b), -2, 0)
    return both.reshape((*a.shape[:-1], *b.shape[:-2], b.shape[-1]))


def _inner(x: Any, y: Any) -> Symbol:
    a, b = as_symbols([x, y])
    return _dot(x, b.mT if a.ndim and b.ndim > 1 else y)


def _vdot(x: Any, y: Any) -> Symbol:
    a, b = (z.reshape(-1) for z in as_symbols([x, y]))
    if a.shape != b.shape:
        raise ValueError(f"{a.record.name}: vdot of {a.size} and {b.size} elements; expected as many")
    return summed(ELEMENTWISE["multiply"](a.conj(), b))


def _outer(x: Any, y: Any) -> Symbol:
    column, row = (z.reshape(-1) for z in as_symbols([x, y]))
    return ELEMENTWISE["multiply"](column[:, None], row)


def _outer_of_vectors(x: Any, y: Any) -> Any:
    a, b = as_symbols([x, y])
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"{a.record.name}: outer of shapes {a.shape} and {b.shape}; expected two vectors")
    return public("outer")(a, b)


LINALG: dict[str, Callable[..., Any] | str] = {  # a name: smallmm's function of that name
    **{
        name: name
        for name in (
            *("matmul", "matvec", "vecmat", "batched_matmul", "trace", "cross", "multi_dot", "vecdot"),
            *("solve", "inv", "det", "slogdet", "solve_triangular", "cholesky", "cho_factor", "cho_solve"),
            *("lu_factor", "lu_solve", "qr", "eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals"),
            *("norm", "vector_norm", "matrix_norm", "cond", "matrix_rank", "pinv", "matrix_power"),
        )
    },
    "outer": _outer_of_vectors,
    "diagonal": lambda x, /, *, offset=0: diagonal(x, offset, -2, -1),
}

PRODUCTS: dict[str, Callable[..., Any]] = {
    "einsum": lambda subscripts, *operands, optimize=False: public("einsum")(subscripts, *operands),
    "contract": lambda subscripts, *operands, path=None: public("contract")(subscripts, *operands, path=path),
    "dot": _dot,
    "inner": _inner,
    "vdot": _vdot,
    "outer": _outer,
}

METHODS = (
    *("sum", "mean", "max", "min", "prod", "any", "all", "cumsum", "trace", "diagonal"),
    *("squeeze", "swapaxes", "take", "clip", "dot"),
)


def function_named(record: Record, name: str, module: str = "numpy") -> Callable[..., Any]:
    """The function of that name of NumPy, of its `linalg`, of SciPy or the array API."""
    own = (PRODUCTS, ELEMENTWISE, SHAPES, LINALG)
    tables = (LINALG, *own) if module == "numpy.linalg" else own if module == "numpy" else ()
    found = next((table[name] for table in tables if name in table), None)
    if found is None:
        raise TypeError(f"{record.name}: {name} cannot be fused; docs/programs.md lists what can")
    if isinstance(found, str):
        found = public(found)
    return partial(_called, record, name, found)


_signature_of = cache(signature)


def _called(record: Record, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Options that NumPy's function has and this one has not are refused, unless they are None."""
    known = _signature_of(function)
    kwargs = {word: x for word, x in kwargs.items() if x is not None or word in known.parameters}
    try:
        known.bind(*args, **kwargs)
    except TypeError as why:
        raise TypeError(f"{record.name}: {name} of these arguments cannot be fused: {why}") from None
    return function(*args, **kwargs)

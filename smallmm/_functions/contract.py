"""Contractions, of any number of operands: `subscripts` makes products of pairs of them. Where there is a
batch and more than one step, the steps are one fused function."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._base.cache import Cache
from .._base.catalog import composed_of_others
from .._base.composition import PLAIN_DTYPES
from .._base.errors import shown
from .._base.options import one_of
from .._base.shapes import has_sizes
from .._libraries import library_of, on_device
from .._programs.compose import full_dtype_name
from .._programs.fuse import fuse
from .._programs.fused import Fused
from . import products
from .subscripts import Labels, Pairs, contracted, contraction, multiplications

_MIN_BATCH = 8  # members: fewer do not share the threads
# Multiplications of a member whose steps are fused, since beyond the kernels of products are as fast by
# themselves; and of few members, which then run in one thread
_MAX_OF_A_MEMBER, _MAX_WITHOUT_THREADS = 1 << 17, 1 << 16
_cache = Cache()  # by subscripts and shapes: the prepared calls of what computes them
_NAMES = frozenset(x.name for x in PLAIN_DTYPES)


@composed_of_others
def contract(
    subscripts: "str | ArrayLike",
    /,
    *operands: "ArrayLike | Sequence[Any]",
    path: Any = None,
    out: Any = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = True,
) -> Any:
    """Sums of products of arrays, by the subscripts of `numpy.einsum`.

    Parameters
    ----------
    subscripts : str
        A letter for each dimension of each operand, and ``...`` for other dimensions, which broadcast. A
        letter that is not in the result is summed over; one that an operand has twice is its diagonal. The
        result may be omitted, as in `numpy.einsum`. Also as lists: ``contract(a, [0, 1], b, [1, 2], [0, 2])``
        is ``contract("AB,BC->AC", a, b)``. 0 to 25 stand for A to Z, 26 to 51 for a to z.
    *operands : array_like
        One or more arrays. Dimensions of one letter have one length, or 1: they broadcast.
    path : sequence of tuples of int, optional
        Which operands are multiplied in which order, as `numpy.einsum_path` and
        ``opt_einsum.contract_path`` give it. None: of up to five operands the order with the fewest
        multiplications, operands without a common letter last; of more the one that `numpy.einsum_path`
        finds by its greedy search.
    out : array, optional
        Where the result is written. It may be, or overlap, an input.
    dtype : dtype, optional
        What operands are converted to, and computed in. None: what holds the dtypes of all, and of `out`.
    order : {"K", "C", "F", "A"}
        The layout of a new NumPy array. "K": any. "A": that of the operands if all are of Fortran's.
    casting : {"safe", "no", "equiv", "same_kind", "unsafe"}
        Which conversions to `dtype`, and to that of `out`, are made, as `numpy.can_cast` says.
    optimize : bool, str or path
        Of `numpy.einsum`: a path is `path`. Anything else has no effect.

    Returns
    -------
    array
        Of one operand without a sum, a view, whatever `dtype` and `order` are. A number if it has no
        dimension.

    Raises
    ------
    ValueError, TypeError
        As `batched_matmul`; the subscripts are invalid or do not fit the operands; `casting` forbids a
        conversion.

    See Also
    --------
    einsum : the same.
    sum_factorized, kron_apply : contractions that have names.
    fuse : what makes one pass of several products.

    Notes
    -----
    Each pair is one call of `matmul` on views of the operands: letters of both and of the result are batch
    dimensions, summed letters merge to one dimension. A pair without a sum, one of whose operands has all
    letters, is multiplied element by element. Steps of small members are fused into one pass over the first
    letters of the result. The number of operations is that of the products in this order, and their
    order depends on the subscripts, the sizes and `path` only. All operands have one dtype before the first
    product. float16 and bfloat16 are rounded once, after the last.

    Examples
    --------
    >>> b, u = np.ones((4, 3)), np.ones((1000, 3, 3, 3))
    >>> smallmm.contract("ai,bj,ck,eijk->eabc", b, b, b, u).shape
    (1000, 4, 4, 4)
    >>> smallmm.contract("bii->b", np.eye(3)[None])
    array([3.])
    """
    return contract_with_path("contract", subscripts, operands, path, out, dtype, order, casting, optimize)


@composed_of_others
def einsum(
    subscripts: "str | ArrayLike",
    /,
    *operands: "ArrayLike | Sequence[Any]",
    path: Any = None,
    out: Any = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = False,
) -> Any:
    """`contract`, by the name that NumPy has for it.

    Parameters
    ----------
    subscripts, *operands, path, out, dtype, order, casting, optimize
        As of `contract`. A letter may be summed over by several operands, alone, or stand for a diagonal, as
        in `numpy.einsum`.

    Returns
    -------
    array
        As of `contract`.

    Raises
    ------
    ValueError, TypeError
        As `contract`.

    See Also
    --------
    contract : the same, with all that is to say.

    Notes
    -----
    The operations of `contract`. A product of two stacks of matrices, such as ``"...ij,...jk->...ik"``, is
    one call of `matmul`, with its bits.

    Examples
    --------
    >>> a, x = np.ones((1000, 4, 3)), np.ones((1000, 3))
    >>> smallmm.einsum("...ij,...j->...i", a, x).shape
    (1000, 4)
    >>> smallmm.einsum(a, [..., 0, 1], x, [..., 1], [..., 0]).shape
    (1000, 4)
    """
    return contract_with_path("einsum", subscripts, operands, path, out, dtype, order, casting, optimize)


def contract_with_path(
    op: str,
    subscripts: Any,
    operands: tuple[Any, ...],
    path: Any,
    out: Any,
    dtype: Any,
    order: Any,
    casting: Any,
    optimize: Any,
) -> Any:
    key = None
    plain = path is None and out is None and dtype is None and order == "K" and casting == "safe"
    if plain and (optimize is False or optimize is True):
        product = _plain_product(subscripts, *operands) if len(operands) == 2 else None
        if product is not None:
            try:
                return product(*operands)
            except TypeError:  # said below, of the operands
                pass
        elif type(subscripts) is str and all(map(_is_cacheable, operands)):
            key = subscripts, *[tuple(x.shape) for x in operands]
            cached = _cache.get(key)
            answer = cached(*operands) if cached else NotImplemented
            if answer is not NotImplemented:
                return answer
    order = one_of(op, "order", order, ("K", "C", "F", "A"))
    casting = one_of(op, "casting", casting, ("safe", "no", "equiv", "same_kind", "unsafe"))
    path = path if path is not None else _path_of(op, optimize)

    def fused(op: str, arrays: list[Any], *steps: Any) -> Any:
        function, stacks = _in_one_pass(op, arrays, *steps)
        if function and key and all(x is y for x, y in zip(stacks, operands, strict=True)):
            _cache.keep(key, function.prepared)
        return function(*stacks) if function else None

    answer = contraction(op, subscripts, operands, path, out, fused, dtype, order, casting)
    return answer[()] if type(answer) is np.ndarray and out is None and not answer.ndim else answer


def _path_of(op: str, optimize: Any) -> Any:
    """The path that NumPy's option is, if it is one."""
    if isinstance(optimize, bool | str) or optimize is None:
        return None
    if not isinstance(optimize, tuple | list) or not optimize:
        raise TypeError(f"{op}: optimize is {shown(optimize)}; expected True, False, a word or a path")
    return None if len(optimize) == 2 and isinstance(optimize[1], Real) else optimize


def _plain_product(subscripts: Any, a: Any, b: Any) -> Any:
    """`matmul` or `matvec` if that is all, which is found once for each text: most calls are such."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray or type(subscripts) is not str:
        return None
    product, lead, core = _known_product(subscripts, a.ndim, b.ndim)
    return product if product and a.shape[:lead] == b.shape[:lead] and a.shape[-1] == b.shape[core] else None


@lru_cache(maxsize=256)
def _known_product(subscripts: str, a: int, b: int) -> tuple[Any, int, int]:
    """The product, how many dimensions lead in both operands, and which of the second is summed over. A
    second operand without the leading ones is one for all."""
    none = None, 0, 0
    found = re.fullmatch(
        r"(\.{3})?([a-zA-Z]*),(\.{3})?([a-zA-Z]*)->(\.{3})?([a-zA-Z]*)", subscripts.replace(" ", "")
    )
    if not found:
        return none
    dots, (x, y, z) = found.group(1, 3, 5), found.group(2, 4, 6)
    if len(set(dots)) > 1 or (not dots[0] and (a, b) != (len(x), len(y))) or a < len(x) or b < len(y):
        return none
    lead = x[:-2]
    if (dots[0] and lead) or len(set(x)) < len(x) or len(x) < 2 or not z.startswith(lead):
        return none
    shared = len(lead) if y.startswith(lead) else 0
    i, j = x[-2], x[-1]
    y, z = y[shared:], z[len(lead) :]
    if len(y) == 2 and y[0] == j and y[1] not in x and z == i + y[1]:
        return products.matmul, shared, -2
    return (products.matvec, shared, -1) if y == j and z == i else none


# --- fused ---------------------------------------------------------------------------------------------


def _in_one_pass(
    op: str, arrays: list[Any], labels: list[Labels], order: Labels, pairs: Pairs
) -> tuple[Fused | None, list[Any]]:
    """A fused function of all steps, and its arguments. It has a batch: labels that begin the result, and
    begin every operand that has them. None: it is not worth it."""
    if not all(map(_is_plain, arrays)):
        return None, []
    if any(len(set(some)) < len(some) for some in labels) and len(arrays) > 1:
        return None, []
    sizes = {
        label: n
        for x, some in zip(arrays, labels, strict=True)
        for label, n in zip(some, x.shape, strict=True)
    }
    steps = multiplications(labels, order, pairs) or [set(labels[0])]
    lead = order[: _batch_dimensions(labels, order, steps, sizes)]
    each = sum(prod(sizes[x] for x in step if x not in lead) for step in steps)
    count = prod(sizes[x] for x in lead)
    if each > _MAX_OF_A_MEMBER or (count < _MIN_BATCH and each * count > _MAX_WITHOUT_THREADS):
        return None, []
    stacks = []
    for x, some in zip(arrays, labels, strict=True):
        missing = [y not in some for y in lead]
        first = missing.index(False) if False in missing else len(lead)  # missing ones broadcast
        index = tuple(None if y else slice(None) for y in missing[first:])
        stacks.append(x[(*index, ...)] if None in index else x)
    cores = tuple(tuple(y for y in some if y not in lead) for some in labels)
    return _fused_function(op, cores, order[len(lead) :], pairs), stacks


def _is_plain(x: Any) -> bool:
    """Whether its numbers are computed as they are, here and now."""
    if type(x) is np.ndarray:
        return x.dtype in PLAIN_DTYPES
    if not _is_cacheable(x) or not hasattr(x, "__getitem__") or full_dtype_name(x) not in _NAMES:
        return False
    return not library_of(x).is_traced(x)


def _is_cacheable(x: Any) -> bool:
    if type(x) is np.ndarray:
        return True
    return (hasattr(x, "__dlpack_c_exchange_api__") or on_device(x)) and has_sizes(x.shape)


def _batch_dimensions(
    labels: list[Labels], order: Labels, steps: list[set[Any]], sizes: dict[Any, int]
) -> int:
    """How many of the result's first labels are those of a batch. The operands of most dimensions have them,
    so that no row or column is taken for one, and no step that lacks one of them, and is therefore done again
    for each member, costs anything to speak of."""
    most = max(map(len, labels))
    fewest = sum(prod(sizes[x] for x in step) for step in steps)
    for batch, label in enumerate(order):
        lead = order[: batch + 1]
        own = [tuple(x for x in lead if x in some) for some in labels]
        begin = all(some[: len(first)] == first for some, first in zip(labels, own, strict=True))
        shared = all(label in some for some in labels if len(some) == most)
        once = all(some.count(label) < 2 for some in labels)
        several = sum(label in some for some in labels) > 1
        cost = sum(prod(sizes[x] for x in {*step, *lead}) for step in steps)
        if not (begin and shared and once and (several or not batch) and cost <= 1.05 * fewest):
            return batch
    return len(order)


@cache
def _fused_function(op: str, cores: tuple[Labels, ...], order: Labels, pairs: Pairs) -> Fused:
    names = {
        label: f"d{i}" for i, label in enumerate(dict.fromkeys(y for some in (*cores, order) for y in some))
    }
    signature = ",".join("(" + ",".join(names[y] for y in some) + ")" for some in cores)

    def function(*arrays: Any) -> Any:
        return contracted(arrays, cores, order, pairs)

    function.__name__ = op
    return fuse(function, signature)

"""Contractions by subscripts: a path of pairs, each a product of two stacks of matrices."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import is_supported, shown, wrong_dtype
from .._base.options import dtype_of_sums, integer
from .._base.shapes import dtype_of, has_sizes
from .._libraries import type_name
from .._libraries.dask import SeveralChunks
from .._programs.compose import (
    HALVES,
    array_of,
    cast,
    full_dtype_name,
    in_one_dtype,
    namespace_of,
    permuted,
    products,
    sums,
    written,
)
from .products import matmul

_LETTERS = ascii_uppercase + ascii_lowercase  # in the order of those of a result that is omitted
_MAX_SEARCHED = 5  # operands; up to so many, all paths are compared
Labels = tuple[Any, ...]
Pairs = tuple[tuple[int, ...], ...]
Fused = Callable[[str, list[Any], list[Labels], Labels, Pairs], Any] | None


def contraction(
    op: str,
    subscripts: Any,
    operands: Sequence[Any],
    path: Any = None,
    out: Any = None,
    fused: Fused = None,
    dtype: Any = None,
    layout: str = "K",
    casting: Any = "safe",
) -> Any:
    """The contraction, of arrays of any library; `fused` may take the arrays, their labels, those of the
    result and the pairs, and returns None if it does not. The keywords are those of `contract`."""
    if isinstance(subscripts, bytes):
        subscripts = subscripts.decode("latin-1")
    if not isinstance(subscripts, str):
        subscripts, operands = _in_letters(op, subscripts, *operands)
    given = [array_of(op, f"operand {i}", x) for i, x in enumerate(operands)]
    shapes = tuple([tuple(x.shape) for x in given])
    is_kept = path is None and all(map(has_sizes, shapes))
    plan = _plan(op, subscripts, shapes) if is_kept else _planned(op, subscripts, shapes, path)
    arrays = [x if index is None else x[index] for x, index in zip(given, plan.indices, strict=True)]
    if plan.is_view and (out is None or dtype is None):  # of any dtype
        return written(op, contracted(arrays, *plan.steps), out, casting)
    arrays = _in_one_dtype(op, arrays, out, dtype, casting)
    narrow, wide = ("", "") if plan.is_one_product else _dtypes(arrays)
    if wide != narrow:
        arrays = [cast(namespace_of(x), x, wide) for x in arrays]
    answer = fused(op, arrays, *plan.steps) if fused else None
    if answer is None:
        try:
            answer = contracted(arrays, *plan.steps)
        except SeveralChunks as error:
            raise ValueError(
                f"{op}: an operand has several chunks along a dimension that is summed over, or that is "
                "rows or columns of a product; expected one: call its rechunk({axis: -1})"
            ) from error
    if wide != narrow and (narrow == "bool" or narrow in HALVES):
        answer = cast(namespace_of(answer), answer, narrow)
    return written(op, answer if layout == "K" else _laid_out(op, answer, layout, given), out, casting)


class _Plan(NamedTuple):
    """What follows from subscripts and shapes."""

    indices: tuple[Any, ...]  # of each operand: what leaves the dimensions along which it is broadcast
    steps: tuple[list[Labels], Labels, Pairs]  # the labels of the others, those of the result, the pairs
    is_view: bool
    is_one_product: bool


def _planned(op: str, subscripts: str, shapes: tuple[tuple[int, ...], ...], path: Any = None) -> _Plan:
    inputs, result = _parsed(op, subscripts, len(shapes))
    labels = [_labels(op, i, x, letters) for i, (x, letters) in enumerate(zip(shapes, inputs, strict=True))]
    most = max([0, *(-x for some in labels for x in some if isinstance(x, int))])
    if most and "." not in result:
        raise ValueError(
            f"{op}: subscripts is {subscripts!r}; expected '...' in the result, for {most} more dimensions"
        )
    order = tuple(y for x in result for y in (range(-most, 0) if x == "." else [x]))
    sizes = _sizes(op, shapes, labels)
    indices = []
    for i, (shape, some) in enumerate(zip(shapes, labels, strict=True)):
        ones = [size == 1 and sizes[label] != 1 for size, label in zip(shape, some, strict=True)]
        indices.append(tuple(0 if one else slice(None) for one in ones) if any(ones) else None)
        labels[i] = tuple(label for label, one in zip(some, ones, strict=True) if not one)
    alone = any(set(x) - {*order, *y} for x, y in zip(labels, labels[::-1], strict=True))
    return _Plan(
        tuple(indices),
        (labels, order, _path(op, labels, order, sizes, path)),
        len(labels) == 1 and set(labels[0]) == set(order),
        len(labels) == 2 and not alone,
    )


_plan = lru_cache(maxsize=256)(_planned)


def _laid_out(op: str, x: Any, layout: Any, given: Sequence[Any]) -> np.ndarray:
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{op}: order is {layout!r}, but the result is a {type_name(x)}; expected 'K'")
    if layout == "A":
        layout = "F" if all(y.flags.f_contiguous for y in given) else "C"
    return np.asarray(x, order=layout)


# --- dtypes --------------------------------------------------------------------------------------------


def _in_one_dtype(op: str, arrays: list[Any], out: Any, dtype: Any, casting: Any) -> list[Any]:
    """Arrays of the dtype that is asked for, or else of the one that holds all, and `out`."""
    for i, x in enumerate(arrays):
        if isinstance(x.dtype, np.dtype) and not is_supported(x.dtype, with_complex=True):
            raise wrong_dtype(op, f"operand {i}", x.dtype, True)
    held = isinstance(out, np.ndarray) and is_supported(out.dtype, True)
    if dtype is None and not held and casting not in ("no", "equiv"):
        return in_one_dtype(op, arrays)
    others = [out.dtype] if held else []
    target = np.result_type(*map(dtype_of, arrays), *others) if dtype is None else dtype_of_sums(op, dtype)
    for i, x in enumerate(arrays):
        if not np.can_cast(dtype_of(x), target, casting):
            raise TypeError(
                f"{op}: operand {i} has dtype {x.dtype}; computed is {target}, and casting is {casting!r}"
            )
    return in_one_dtype(op, arrays, target)


def _dtypes(arrays: list[Any]) -> tuple[str, str]:
    """The name of the arrays' dtype, and of the one in which they are computed: sums and products are rounded
    once. So they are by themselves in one product, and in a function that is recorded."""
    narrow = full_dtype_name(arrays[0])
    if any(getattr(x, "is_traced", False) for x in arrays):
        return narrow, narrow
    if isinstance(arrays[0], np.ndarray) and arrays[0].dtype.kind in "biu":
        return narrow, "float64"
    return narrow, "float32" if narrow in HALVES else narrow


# --- subscripts ----------------------------------------------------------------------------------------


def _in_letters(op: str, *given: Any) -> tuple[str, tuple[Any, ...]]:
    """Subscripts and operands of NumPy's other form: each operand, then its list; the result's last."""
    inputs, result = (given[:-1], given[-1:]) if len(given) % 2 else (given, ())
    lists = (*inputs[1::2], *result)
    if not inputs or not all(map(is_list, lists)):
        raise TypeError(
            f"{op}: subscripts is {shown(given[0])}; expected a str such as '...ij,...jk->...ik', or a list "
            "after each operand"
        )
    texts = ["".join("..." if x is ... else _letter(op, x) for x in some) for some in lists]
    return "->".join([",".join(texts[: len(inputs) // 2]), *texts[len(inputs) // 2 :]]), inputs[::2]


def is_list(x: Any) -> bool:
    """Whether x is a list of integers, or of objects that are refused as such."""
    return isinstance(x, list | tuple | range) or (
        isinstance(x, np.ndarray) and x.ndim > 0 and x.dtype.kind in "iu"
    )


def _letter(op: str, x: Any) -> str:
    number = integer(op, "a subscript", x)
    if not 0 <= number < len(_LETTERS):
        raise ValueError(f"{op}: a subscript is {number}; expected 0 to {len(_LETTERS) - 1}")
    return _LETTERS[number]


def _parsed(op: str, subscripts: Any, count: int) -> tuple[list[str], str]:
    """The letters of each operand and of the result, "." standing for an ellipsis."""
    text = subscripts.replace(" ", "").replace(".", "?").replace("???", ".")
    left, arrow, result = text.partition("->")
    inputs = left.split(",")
    if not all(re.fullmatch(r"[A-Za-z]*\.?[A-Za-z]*", part) for part in (*inputs, result)):
        raise ValueError(f"{op}: subscripts is {subscripts!r}; expected letters, '...', ',' and one '->'")
    if len(inputs) != count:
        raise ValueError(f"{op}: subscripts is {subscripts!r}, of {len(inputs)} operands; given are {count}")
    letters = "".join(inputs).replace(".", "")
    if not arrow:
        once = "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
        return inputs, "." * ("." in left) + once
    if unknown := set(result) - set(letters) - {"."}:
        raise ValueError(
            f"{op}: subscripts is {subscripts!r}; expected letters of operands in the result, each once: "
            f"{min(unknown)} is none"
        )
    if len(set(result)) < len(result):
        raise ValueError(
            f"{op}: subscripts is {subscripts!r}; expected letters of operands in the result, each once"
        )
    return inputs, result


def _labels(op: str, i: int, shape: tuple[int, ...], letters: str) -> Labels:
    """A label for each dimension: its letter, or -1, -2, ... from the right where an ellipsis stands."""
    others = len(shape) - len(letters.replace(".", ""))
    if others < 0 or (others and "." not in letters):
        expected = f"dimensions {letters}".replace(".", "...") if letters else "no dimensions"
        raise ValueError(f"{op}: operand {i} has shape {shape}; expected {expected}")
    return tuple(y for letter in letters for y in (range(-others, 0) if letter == "." else [letter]))


def _sizes(op: str, shapes: Sequence[tuple[int, ...]], labels: list[Labels]) -> dict[Any, int]:
    """The length of each label. Operands have that length, or 1: they broadcast."""
    sizes: dict[Any, int] = {}
    owner: dict[Any, int] = {}
    for i, (shape, some) in enumerate(zip(shapes, labels, strict=True)):
        own: dict[Any, int] = {}  # of a diagonal both lengths are equal
        for label, size in zip(some, shape, strict=True):
            if size != size:
                raise ValueError(
                    f"{op}: operand {i} has shape {tuple(shape)}, nan for lengths that are not computed yet; "
                    "expected known ones: call its compute_chunk_sizes()"
                )
            known, first = own.setdefault(label, size), i
            if known == size:
                known, first = sizes.setdefault(label, size), owner.setdefault(label, i)
                if known == 1:
                    sizes[label], owner[label] = size, i
                if 1 in (known, size) or known == size:
                    continue
            what = f"dimension {label} of '...'" if isinstance(label, int) else label
            raise ValueError(
                f"{op}: {what} is {known} in operand {first} and {size} in operand {i}; expected one length"
            )
    return sizes


def _path(op: str, labels: list[Labels], order: Labels, sizes: dict[Any, int], path: Any) -> Pairs:
    count = len(labels)
    if path is None:
        if count < 3:
            return ((*range(count),),)
        if count <= _MAX_SEARCHED:
            return _cheapest(tuple(map(frozenset, labels)), frozenset(order), sizes)[-1]
        numbers = {label: i for i, label in enumerate(sizes)}
        if len(numbers) > 52:
            return ((0, 1),) * (count - 1)
        given: list[Any] = []
        for some in labels:
            once = list(dict.fromkeys(some))
            given += [np.broadcast_to(0.0, [sizes[x] for x in once]), [numbers[x] for x in once]]
        path, _ = np.einsum_path(*given, [numbers[x] for x in order], optimize="greedy")
    steps = [tuple(x) for x in path if not isinstance(x, str)]
    left = count
    for step in steps:
        if not step or any(not isinstance(i, int | np.integer) or not 0 <= i < left for i in step):
            raise ValueError(
                f"{op}: path is {shown(path)}; expected positions among the operands that are left"
            )
        left -= len(set(step)) - 1
    if left != 1:
        raise ValueError(f"{op}: path is {shown(path)}; it leaves {left} operands")
    return tuple(tuple(int(i) for i in step) for step in steps)


def _cheapest(
    left: tuple[frozenset[Any], ...], needed: frozenset[Any], sizes: dict[Any, int]
) -> tuple[int, int, Pairs]:
    """The path of fewest multiplications, of these the one of smallest results: both numbers, and the path.
    Operands without a common label come last."""
    if len(left) < 2:
        return 0, 0, ()
    pairs = list(combinations(range(len(left)), 2))
    found = []
    for i, j in [(i, j) for i, j in pairs if left[i] & left[j]] or pairs:
        rest = (*left[:i], *left[i + 1 : j], *left[j + 1 :])
        both = left[i] | left[j]
        kept = both & needed.union(*rest)
        steps, elements, path = _cheapest((*rest, kept), needed, sizes)
        steps += prod(sizes[x] for x in both)
        found.append((steps, elements + prod(sizes[x] for x in kept), ((i, j), *path)))
    return min(found)


def multiplications(labels: Sequence[Labels], order: Labels, pairs: Pairs) -> list[set[Any]]:
    """The labels over which each step of a path multiplies."""
    left, steps = list(map(set, labels)), []
    for step in pairs:
        chosen = [left[i] for i in sorted(step)]
        left = [x for i, x in enumerate(left) if i not in step]
        while len(chosen) > 1:
            first, second, *rest = chosen
            steps.append(first | second)
            chosen = [(first | second) & set(order).union(*left, *rest), *rest]
        left += chosen
    return steps


# --- products of pairs ---------------------------------------------------------------------------------


def contracted(arrays: Sequence[Any], labels: Sequence[Labels], order: Labels, pairs: Pairs) -> Any:
    left = list(zip(arrays, labels, strict=True))
    for step in pairs:
        chosen = [left[i] for i in sorted(step)]
        left = [x for i, x in enumerate(left) if i not in step]
        while len(chosen) > 1:
            first, second, *rest = chosen
            needed = {*order, *(x for _, some in (*left, *rest) for x in some)}
            if _first_place(second[1], first[1], order) < _first_place(first[1], second[1], order):
                first, second = second, first  # the rows of the result come before its columns
            chosen = [_product(first, second, needed), *rest]
        left += chosen
    x, some = _alone(*left[0], set(order))
    return permuted(x, tuple(map(some.index, order)))


def _alone(x: Any, labels: Labels, needed: set[Any]) -> tuple[Any, Labels]:
    """x without repeated letters, and summed over the letters that nothing else needs."""
    if len(set(labels)) < len(labels) and isinstance(x, np.ndarray):  # its own views cannot be written to
        numbers = {y: i for i, y in enumerate(dict.fromkeys(labels))}
        x, labels = np.einsum(x, [numbers[y] for y in labels], [*numbers.values()]), tuple(numbers)
    while len(set(labels)) < len(labels):
        twice = next(y for y in labels if labels.count(y) > 1)
        i = labels.index(twice)
        j = labels.index(twice, i + 1)
        rest = [k for k in range(len(labels)) if k not in (i, j)]
        x = namespace_of(x).linalg.diagonal(permuted(x, (*rest, i, j)))
        labels = (*(labels[k] for k in rest), twice)
    summed = [y for y in labels if y not in needed]
    if not summed:
        return x, labels
    kept = tuple(y for y in labels if y in needed)
    x = permuted(x, tuple(labels.index(y) for y in (*kept, *summed)))
    xp = namespace_of(x)
    return sums(xp, xp.reshape(x, (*x.shape[: len(kept)], prod(x.shape[len(kept) :])))), kept


def _first_place(labels: Labels, others: Labels, order: Labels) -> int:
    """The first place in the result of a letter that the other operand lacks."""
    return min((order.index(x) for x in labels if x in order and x not in others), default=len(order))


def _product(first: tuple[Any, Labels], second: tuple[Any, Labels], needed: set[Any]) -> tuple[Any, Labels]:
    """Two operands as stacks of matrices, multiplied."""
    a, ours = _alone(*first, needed | set(second[1]))
    b, theirs = _alone(*second, needed | set(ours))
    both = [x for x in ours if x in theirs]
    summed = [x for x in both if x not in needed]
    if not summed and (set(ours) <= set(theirs) or set(theirs) <= set(ours)):
        return _scaled((a, ours), (b, theirs))
    batch = sorted(x for x in {*ours, *theirs} if isinstance(x, int))
    batch += [x for x in both if x in needed and x not in batch]
    rows = [x for x in ours if x not in theirs and x not in batch]
    columns = [x for x in theirs if x not in ours and x not in batch]
    sizes = dict(zip(theirs, b.shape, strict=True)) | dict(zip(ours, a.shape, strict=True))
    a, outer_rows = _arranged(a, ours, batch, rows, summed, False)
    b, outer_columns = _arranged(b, theirs, batch, columns, summed, True)
    # dimensions of rows or columns that do not merge are batch dimensions, of one operand
    dims = len(batch)
    a = a[(*(slice(None),) * (dims + len(outer_rows)), *(None,) * len(outer_columns), ...)]
    b = b[(*(slice(None),) * dims, *(None,) * len(outer_rows), ...)]
    result = matmul(a, b)
    kept_rows, kept_columns = rows[len(outer_rows) :], columns[len(outer_columns) :]
    shape = (*result.shape[:-2], *(sizes[x] for x in kept_rows), *(sizes[x] for x in kept_columns))
    if len(kept_rows) != 1 or len(kept_columns) != 1:
        result = namespace_of(result).reshape(result, shape)
    return result, (*batch, *outer_rows, *outer_columns, *kept_rows, *kept_columns)


def _scaled(first: tuple[Any, Labels], second: tuple[Any, Labels]) -> tuple[Any, Labels]:
    """Element by element; one operand has all labels."""
    (x, labels), (y, some) = sorted((first, second), key=lambda z: -len(z[1]))
    kept = [label for label in labels if label in some]
    y = permuted(y, tuple(some.index(label) for label in kept))
    y = y[tuple(slice(None) if label in some else None for label in labels)]
    return products(namespace_of(x), x, y), labels


def _arranged(
    x: Any, labels: Labels, batch: list[Any], own: list[Any], summed: list[Any], is_second: bool
) -> tuple[Any, list[Any]]:
    """x as a stack of matrices, those batch dimensions that it lacks being of length 1; and those of its own
    dimensions that remain outside of the matrices: all but the last, unless they merge without a copy."""
    inside = own if _merges(x, [labels.index(y) for y in own]) else own[-1:]
    outside = own[: len(own) - len(inside)]
    core = (*summed, *inside) if is_second else (*inside, *summed)
    order = [y for y in batch if y in labels] + [*outside, *core]
    x = permuted(x, tuple(labels.index(y) for y in order))
    lead = tuple(slice(None) if y in labels else None for y in batch)
    x = x[(*lead, ...)]
    first = len(batch) + len(outside)
    sizes = dict(zip((*batch, *outside, *core), x.shape, strict=True))
    matrix = (prod(sizes[y] for y in inside), prod(sizes[y] for y in summed))
    if len(inside) != 1 or len(summed) != 1:
        x = namespace_of(x).reshape(x, (*x.shape[:first], *(matrix[::-1] if is_second else matrix)))
    return x, outside


def _merges(x: Any, axes: list[int]) -> bool:
    """Whether these dimensions of x are one, without a copy."""
    if len(axes) < 2:
        return True
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return False
    if isinstance(x, np.ndarray):
        return all(x.strides[i] == x.strides[i + 1] * x.shape[i + 1] for i in axes[:-1])
    return bool(getattr(x, "is_traced", False)) and x.view.value.dense and not x.view.operations

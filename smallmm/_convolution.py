"""Two-dimensional convolutions as products: filters times columns of the im2col matrix, of which only a tile
is in memory."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._adapters import library_of, on_device, type_name
from ._adapters.base import overrides_ufuncs
from ._arrays import call, without_labels
from ._catalog import composed_of_others
from ._composition import Composition
from ._config import get_num_threads
from ._errors import shown
from ._options import integer, one_of
from ._products import batched_matmul
from ._shapes import broadcast_shapes

_LAYOUTS = ("NCHW", "NHWC", "CHWN")
_TILE = 1 << 18  # elements of the im2col matrix in memory, for each thread: in float32 1 MB, half an L2

Pair = tuple[int, int]


@composed_of_others
def conv2d(
    x: ArrayLike,
    w: ArrayLike,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCHW",
    out: Any = None,
) -> Any:
    """Two-dimensional convolution, without a flip of the filters, as `torch.nn.functional.conv2d`.

    Parameters
    ----------
    x : array_like, shape (..., N, C, H, W), or as `layout` says
        N images of C channels.
    w : array_like, shape (..., K, C / groups, R, S)
        K filters, in this order of dimensions with every layout. The batch dimensions of `x` and `w`
        broadcast: each member of a stack may have filters of its own.
    stride : int or pair of int
        Steps between outputs, along H and along W.
    padding : int, pair of int, "valid" or "same"
        Zeros before and after H, and W. "valid": none. "same": as many as keep H and W, with stride 1; of an
        odd number there is one more at the end.
    dilation : int or pair of int
        Steps between the elements of a filter.
    groups : int
        Channels and filters are split into so many groups. Filters see the channels of their own group.
    layout : {"NCHW", "NHWC", "CHWN"}
        The order of the dimensions of `x` and of the result, the last being contiguous.
    out : array, optional
        Where the result is written. It may overlap an input.

    Returns
    -------
    array, shape (..., N, K, P, Q), or as `layout` says
        ``P = (H + zeros - dilation (R - 1) - 1) // stride + 1``; Q likewise.

    Raises
    ------
    ValueError
        Shapes do not match, `groups` does not divide channels and filters, a filter is larger than the padded
        image, `stride`, `dilation` or `groups` is less than 1, or `padding` is negative.
    TypeError
        As `batched_matmul`; an array is on a device or lazy, or a derivative is wanted.

    See Also
    --------
    batched_matmul : dtypes, accuracy.

    Notes
    -----
    2 N K P Q R S C / groups operations. The result equals, to the bit, the product by `matmul` of the matrix
    of filters with the im2col matrix: the sum is over channels, then rows, then columns of a filter. float16
    and bfloat16 are computed in float32 and rounded once, integers and bools are computed in float64.
    Elements in the padding are zeros of the im2col matrix: an infinite filter gives NaN there.

    The im2col matrix is made in tiles of 2^18 elements per thread, or of one column if that has more
    (S. Chetlur et al., "cuDNN: Efficient primitives for deep learning", 2014). Threads share the product of a
    tile. Filters of one element, with stride 1 and without padding, are multiplied by the images themselves.

    Examples
    --------
    >>> x, w = np.ones((2, 3, 5, 5)), np.ones((4, 3, 3, 3))
    >>> smallmm.conv2d(x, w, padding=1).shape
    (2, 4, 5, 5)
    >>> smallmm.conv2d(x, w)[0, 0, 0, 0]
    np.float64(27.0)
    """
    layout = one_of("conv2d", "layout", layout, _LAYOUTS)
    operands = {"x": without_labels(x), "w": without_labels(w)}
    for name, a in {**operands, "out": out}.items():
        if library_of(a).is_traced(a):
            raise TypeError(f"conv2d: {name} is a {type_name(a)}, which has no elements yet; pass its values")
        if on_device(a):
            raise TypeError(f"conv2d: {name} is a {type_name(a)} on a device; expected an array on the host")
        if overrides_ufuncs(a):
            raise TypeError(f"conv2d: {name} is a {type_name(a)}, which is not taken; pass its values")
    shapes = {name: _shape(name, a) for name, a in operands.items()}
    composition = _Convolution(
        shapes["x"], shapes["w"], layout, stride, padding, dilation, integer("conv2d", "groups", groups)
    )
    expected = composition.batch + composition.core
    if hasattr(out, "shape") and tuple(out.shape) != expected:
        raise ValueError(f"conv2d: out has shape {tuple(out.shape)}; expected {expected}")
    return call("conv2d", composition, operands, out, {})  # type: ignore[arg-type]


class _Convolution(Composition):
    """The convolution of arrays of these shapes. Letters are dimensions: those of a layout, B the batch, G
    the groups; C, H and W of the result are its filters, rows and columns."""

    def __init__(
        self,
        x: tuple[int, ...],
        w: tuple[int, ...],
        layout: str,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
    ) -> None:
        super().__init__("conv2d", "(n,c,h,w),(k,d,r,s)->(n,k,p,q)", self.run, takes_complex=True)
        self.layout = layout
        size = dict(zip(layout, x[-4:], strict=True))
        filters, channels, *self.kernel = w[-4:]
        if groups < 1:
            raise ValueError(f"conv2d: groups is {groups}; expected at least 1")
        if size["C"] % groups or filters % groups:
            raise ValueError(
                f"conv2d: groups is {groups}; expected a divisor of the {size['C']} channels of x and of the "
                f"{filters} filters of w"
            )
        if channels * groups != size["C"]:
            raise ValueError(
                f"conv2d: w has shape {w}; expected {size['C'] // groups} channels to match x of shape {x}"
                + (f" in {groups} groups" if groups > 1 else "")
            )
        if not all(self.kernel):
            raise ValueError(f"conv2d: w has shape {w}; expected filters of at least one element")
        self.groups = groups
        self.stride = _pair("stride", stride, 1)
        self.dilation = _pair("dilation", dilation, 1)
        spans = [d * (n - 1) + 1 for d, n in zip(self.dilation, self.kernel, strict=True)]
        zeros = self._zeros(padding, spans)
        self.before = [before for before, _ in zeros]
        self.padded = any(map(any, zeros))
        self.rows_columns = (size["H"], size["W"])
        wide = [n + sum(z) for n, z in zip(self.rows_columns, zeros, strict=True)]
        if any(span > n for span, n in zip(spans, wide, strict=True)):
            raise ValueError(
                f"conv2d: w has shape {w}, whose filters span {spans[0]} x {spans[1]}; expected at most the "
                f"{wide[0]} x {wide[1]} of padded x"
            )
        size["H"], size["W"] = (
            (n - span) // s + 1 for n, span, s in zip(wide, spans, self.stride, strict=True)
        )
        size["C"] = filters
        self.core = tuple(size[letter] for letter in layout)
        try:
            self.batch = broadcast_shapes(x[:-4], w[:-4])
        except ValueError:
            raise ValueError(
                f"conv2d: w has shape {w}, whose batch dimensions {w[:-4]} do not broadcast against "
                f"{x[:-4]} of x"
            ) from None

    def _zeros(self, padding: Any, spans: list[int]) -> list[Pair]:
        """How many before and after the rows, and the columns."""
        if not isinstance(padding, str):
            return [(n, n) for n in _pair("padding", padding, 0)]
        if one_of("conv2d", "padding", padding, ("valid", "same")) == "valid":
            return [(0, 0), (0, 0)]
        if self.stride != (1, 1):
            raise ValueError(f"conv2d: stride is {self.stride}; expected 1 with padding='same'")
        return [((span - 1) // 2, span // 2) for span in spans]

    def run(self, xp: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """What libraries ask for that record the call."""
        raise TypeError(
            f"conv2d: x or w, a {type_name(operands[0])}, is of a recorded call; conv2d has no derivative: "
            "pass arrays that require none"
        )

    def _shapes(self, arrays: list[np.ndarray]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        return self.batch, [self.core]

    def _in_blocks(self, arrays: list[np.ndarray], batch: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        x, w = arrays
        count = prod(batch)
        out = np.empty((count, *self.core), x.dtype)
        x = self._by_letters(np.broadcast_to(x, batch + x.shape[-4:]).reshape(count, *x.shape[-4:]))
        target = self._by_letters(out)
        depth = prod(w.shape[-3:])
        w = w.reshape(*w.shape[:-4], self.groups, w.shape[-4] // self.groups, depth)
        # Where the channels of the result are last, the kernel transposes the product: filters are, too.
        w = np.ascontiguousarray(w) if self.layout[-1] != "C" else np.ascontiguousarray(w.mT).mT
        w = np.broadcast_to(w, batch + w.shape[-3:]).reshape(count, *w.shape[-3:])

        # Dimensions before the channels are a stack of products, unless none is behind: then rows merge.
        before, behind = self.layout.split("C")
        stack, pixels = ("B" + before, behind) if behind else ("B", before)
        per_pixel = self.groups * max(1, depth)
        most = max(1, _TILE * get_num_threads() // per_pixel)
        is_view = self.kernel == [1, 1] and self.stride == (1, 1) and not self.padded
        sizes = {letter: target.shape["BNGCHW".index(letter)] for letter in stack + pixels}
        room = None if is_view else np.empty(min(most, prod(sizes.values())) * self.groups * depth, x.dtype)
        for tile in _tiles(sizes, most):
            index = tuple(tile.get(letter, slice(None)) for letter in "BNGCHW")
            if room is None:
                columns = _ordered(x[index], "BNGCHW", stack + "GC" + pixels)
            else:
                columns = self._columns(x, tile, stack, pixels, room)
            result = _ordered(target[index], "BNGCHW", stack + "GC" + pixels)
            lead = (*result.shape[: len(stack)], self.groups)
            filters = w[tile["B"]]
            batched_matmul(
                filters[:, None] if len(stack) > 1 else filters,
                columns.reshape(*lead, depth, prod(result.shape[-len(pixels) :])),
                result.reshape(*lead, filters.shape[-2], prod(result.shape[-len(pixels) :])),  # a view
            )
        return (out.reshape(batch + self.core),)

    def _by_letters(self, a: np.ndarray) -> np.ndarray:
        """A view with the dimensions BNGCHW of an array of the layout."""
        a = _ordered(a, "B" + self.layout, "BNCHW")
        b, n, c, h, w = a.shape
        return a.reshape(b, n, self.groups, c // self.groups, h, w)

    def _columns(
        self, x: np.ndarray, tile: dict[str, slice], stack: str, pixels: str, room: np.ndarray
    ) -> np.ndarray:
        """The columns of the im2col matrix for the outputs of a tile, in `room`."""
        order = stack + "GCRS" + pixels
        sizes = {
            "G": self.groups,
            "C": x.shape[3],
            **dict(zip("RS", self.kernel, strict=True)),
            **{letter: part.stop - part.start for letter, part in tile.items()},
        }
        shape = [sizes[letter] for letter in order]
        columns = room[: prod(shape)].reshape(shape)
        if self.padded:
            columns[...] = 0
        elements = _ordered(columns, order, "RSBNGCHW")
        sources = x[tile["B"], tile["N"]]
        for r, s in product(*map(range, self.kernel)):
            (rows, from_rows), (cols, from_cols) = (
                self._inside(axis, at, tile["HW"[axis]]) for axis, at in enumerate((r, s))
            )
            elements[r, s, ..., rows, cols] = sources[..., from_rows, from_cols]
        return columns

    def _inside(self, axis: int, at: int, outputs: slice) -> tuple[slice, slice]:
        """Of outputs along an axis, those for which element `at` of the filter is not in the padding, counted
        from the first, and the elements of x that it then meets."""
        step, first = self.stride[axis], at * self.dilation[axis] - self.before[axis]
        start = max(outputs.start, -(first // step))
        stop = min(outputs.stop, (self.rows_columns[axis] - 1 - first) // step + 1)
        if stop <= start:
            return slice(0, 0), slice(0, 0)
        inputs = slice(start * step + first, (stop - 1) * step + first + 1, step)
        return slice(start - outputs.start, stop - outputs.start), inputs


def _tiles(sizes: dict[str, int], most: int) -> Iterator[dict[str, slice]]:
    """Parts of the dimensions, of at most so many elements, which are runs: inside the dimension that is
    split all are whole, and outside one index is taken."""
    if not all(sizes.values()):
        return
    ranges = []
    for size in reversed(sizes.values()):
        step = -(-size // -(-size // max(1, min(size, most))))
        most //= step
        ranges.append([slice(first, min(first + step, size)) for first in range(0, size, step)])
    for parts in product(*reversed(ranges)):
        yield dict(zip(sizes, parts, strict=True))


def _ordered(a: np.ndarray, letters: str, wanted: str) -> np.ndarray:
    """A view with the dimensions in another order."""
    return a.transpose([letters.index(letter) for letter in wanted])


def _shape(name: str, a: Any) -> tuple[int, ...]:
    try:
        shape = tuple(a.shape) if hasattr(a, "shape") else np.shape(a)
    except ValueError as error:
        raise ValueError(
            f"conv2d: {name} is a {type(a).__name__} that NumPy cannot make an array of: {error}"
        ) from None
    if len(shape) < 4:
        raise ValueError(f"conv2d: {name} has shape {shape}; expected at least 4 dimensions")
    return shape


def _pair(name: str, given: Any, least: int) -> Pair:
    """One number for rows and columns, or one for each."""
    numbers = given if isinstance(given, tuple | list) else (given, given)
    if len(numbers) != 2:
        raise ValueError(f"conv2d: {name} is {shown(given)}; expected an integer or a pair")
    rows, columns = (integer("conv2d", name, n) for n in numbers)
    if min(rows, columns) < least:
        raise ValueError(f"conv2d: {name} is {shown(given)}; expected at least {least}")
    return rows, columns

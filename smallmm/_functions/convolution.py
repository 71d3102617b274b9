"""Two-dimensional convolutions. The core computes them (csrc/core/convolution.c); this module checks
the arguments and gives it views. Libraries that record calls get a composition of operations that they
record."""

from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._base.cache import Cache
from .._base.catalog import composed_of_others
from .._base.composition import PLAIN_DTYPES, Composition, check_output, from_host
from .._base.errors import shown
from .._base.hooks import current
from .._base.options import integer, one_of
from .._base.shapes import broadcast_shapes
from .._calls.arrays import call
from .._libraries import library_of, on_device, type_name
from .._libraries.base import overrides_ufuncs
from .._programs.compose import array_of
from .products import matmul

_LAYOUTS = ("NCHW", "NHWC", "CHWN")


Pair = tuple[int, int]


@composed_of_others
def conv2d(
    x: "ArrayLike",
    w: "ArrayLike",
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: Literal["NCHW", "NHWC", "CHWN"] = "NCHW",
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
        As `batched_matmul`; an array is lazy, or complex and on a device; a derivative is wanted and `out`
        given.

    See Also
    --------
    batched_matmul : dtypes, accuracy.

    Notes
    -----
    2 N K P Q R S C / groups operations. The result equals, to the bit, the product by `matmul` of the matrix
    of filters with the im2col matrix: the sum is over channels, then rows, then columns of a filter. float16
    and bfloat16 are computed in float32 and rounded once, integers and bools are computed in float64.
    Elements in the padding are zeros of the im2col matrix: an infinite filter gives NaN there.

    The im2col matrix is made in tiles of up to 512 columns, in a buffer of each thread, as operands of the
    kernels of products (S. Chetlur et al., "cuDNN: Efficient primitives for deep learning", 2014). Threads
    share the tiles and, where these are few, the filters. On a GPU the kernel of products gathers its panels
    from the images. Where PyTorch or JAX records the call (derivatives,
    `vmap`, `jit`), the im2col matrix is whole.

    Examples
    --------
    >>> x, w = np.ones((2, 3, 5, 5)), np.ones((4, 3, 3, 3))
    >>> smallmm.conv2d(x, w, padding=1).shape
    (2, 4, 5, 5)
    >>> smallmm.conv2d(x, w)[0, 0, 0, 0]
    np.float64(27.0)
    """
    key = _key(x, w, (layout, stride, padding, dilation, groups)) if out is None else None
    cached = _cache.get(key) if key else None
    answer = cached.run_cached(x, w) if cached is not None else NotImplemented
    if answer is not NotImplemented:
        return answer
    layout = one_of("conv2d", "layout", layout, _LAYOUTS)
    operands = {name: array_of("conv2d", name, a) for name, a in (("x", x), ("w", w))}
    for name, a in {**operands, "out": out}.items():
        if overrides_ufuncs(a) and not on_device(a):
            raise TypeError(f"conv2d: {name} is a {type_name(a)}, which is not taken; pass its values")
    shapes = {name: _shape(name, a) for name, a in operands.items()}
    composition: Any = _Convolution(
        shapes["x"],
        shapes["w"],
        layout,
        stride,
        padding,
        dilation,
        integer("conv2d", "groups", groups, least=1),
    )
    for name, a in {**operands, "out": out}.items():
        library = library_of(a)
        if library.is_traced(a) and not library.records(composition, operands):
            raise TypeError(f"conv2d: {name} is a {type_name(a)}, which has no elements yet; pass its values")
    expected = composition.batch + composition.core
    if hasattr(out, "shape") and tuple(out.shape) != expected:
        raise ValueError(f"conv2d: out has shape {tuple(out.shape)}; expected {expected}")
    result = call("conv2d", composition, operands, out, {})
    if key:
        _cache.keep(key, composition)
    return result


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
        super().__init__("conv2d", "(n,c,h,w),(k,d,r,s)->(n,k,p,q)", self._composed, takes_complex=True)
        self.shapes = x, w
        self.launch = self._launch
        self.layout = layout
        size = dict(zip(layout, x[-4:], strict=True))
        filters, channels, *kernel = w[-4:]
        self.kernel = (kernel[0], kernel[1])
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
        self.before = (zeros[0][0], zeros[1][0])
        self.channels, self.inputs = channels, (size["H"], size["W"])
        wide = [n + sum(z) for n, z in zip(self.inputs, zeros, strict=True)]
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
        axes = tuple(layout.index(letter) for letter in "NCHW")
        self.words = axes, groups, self.stride, self.dilation, self.before  # what the core is told
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

    def output_shapes(self, operands: dict[str, np.ndarray]) -> list[tuple[int, ...]]:
        return [self.batch + self.core]

    def _launch(self, library: Any, stream: int, x: Any, w: Any, y: Any, labels: tuple[str, ...]) -> bool:
        """On arrays of a device, whose dtypes are one. False: y overlaps another."""
        launched = _core.device_convolve(stream, x, w, y, self.words, labels)
        if launched is None:
            dense = library.empty(tuple(w.shape), np.dtype(str(w.dtype).rpartition(".")[2]))
            dense[...] = w
            launched = _core.device_convolve(stream, x, dense, y, self.words, labels)
        return bool(launched)

    def _composed(self, xp: Any, x: Any, w: Any) -> Any:
        """For libraries that record the call: the product with the whole im2col matrix, which they
        differentiate. Images are taken apart by an index; one more element, a zero, is the padding."""
        images = self._moved(xp, x, self.layout, "NCHW")
        *lead, n = images.shape[:-3]
        images = xp.reshape(images, (*lead, n, self.groups, -1))
        images = xp.concat([images, xp.zeros_like(images[..., :1])], axis=-1)
        index = self._index()
        columns = xp.take(images, from_host(xp, index.reshape(-1), x), axis=-1)
        filters = xp.reshape(w, (*w.shape[:-4], 1, self.groups, w.shape[-4] // self.groups, len(index)))
        result = matmul(filters, xp.reshape(columns, (*lead, n, self.groups, *index.shape)))
        size = dict(zip(self.layout, self.core, strict=True))
        result = xp.reshape(result, (*result.shape[:-4], *(size[letter] for letter in "NCHW")))
        return self._moved(xp, result, "NCHW", self.layout)

    @staticmethod
    def _moved(xp: Any, x: Any, letters: str, wanted: str) -> Any:
        """With the last dimensions in another order."""
        first = x.ndim - 4
        return xp.permute_dims(x, (*range(first), *(first + letters.index(letter) for letter in wanted)))

    def _index(self) -> np.ndarray:
        """The im2col matrix (C / groups * R * S, P * Q) as places in a group of an image. Those in the
        padding are the place behind its last."""
        size = dict(zip(self.layout, self.core, strict=True))
        (rows, columns), channels = self.inputs, self.channels
        at = []
        for axis, letter in enumerate("HW"):
            taps, outputs = np.arange(self.kernel[axis])[:, None], np.arange(size[letter])
            at.append(outputs * self.stride[axis] + taps * self.dilation[axis] - self.before[axis])
        h, w = at[0][:, None, :, None], at[1][None, :, None, :]
        inside = (h >= 0) & (h < rows) & (w >= 0) & (w < columns)
        places = np.arange(channels)[:, None, None, None, None] * (rows * columns) + h * columns + w
        index = np.where(inside, places, channels * rows * columns)
        return index.reshape(channels * prod(self.kernel), size["H"] * size["W"])

    def __call__(self, *arguments: Any) -> Any:
        """On NumPy arrays: x, w, and the output or None. The caller explains exceptions."""
        x, w = map(np.asarray, arguments[:2])
        if (x.shape, w.shape) != self.shapes:
            raise ValueError(
                f"conv2d: x and w have elements of shapes {x.shape}, {w.shape}; expected {self.shapes}"
            )
        out = arguments[2] if len(arguments) > 2 else None
        computed, _, own = self.resolve_dtypes((x.dtype, w.dtype, None))
        x, w = _aligned(x.astype(own, copy=False)), _aligned(w.astype(computed, copy=False))
        if out is not None:
            check_output(out, own, self.batch, self.core)
        result: Any = out
        if out is None or not self._is_direct(out, own, x, w):
            result = np.empty(self.batch + self.core, own)
        self._run(x, w, result)
        if out is None or out is result:
            return result
        np.copyto(out, result, casting="same_kind")
        return out

    def run_cached(self, x: Any, w: Any) -> Any:
        """Of arrays for which this was made, as `_key` tells them. NotImplemented: the call looks closer."""
        if type(x) is not np.ndarray:
            return _core.device_convolve_new(x, w, self.batch + self.core, self.words)
        result = np.empty(self.batch + self.core, x.dtype)
        self._run(_aligned(x), _aligned(w), result)
        return result

    def _run(self, x: np.ndarray, w: np.ndarray, result: np.ndarray) -> None:
        if _core.convolve(x, w, result, self.words) is None:
            _core.convolve(x, w.copy(), result, self.words)

    @staticmethod
    def _is_direct(out: np.ndarray, own: np.dtype, *operands: np.ndarray) -> bool:
        """Whether the core may write to it."""
        overlaps = any(np.may_share_memory(out, x) for x in operands)
        return out.dtype == own and out.flags.aligned and not overlaps


_cache = Cache()  # by what `_key` tells


def _key(x: Any, w: Any, options: tuple[Any, ...]) -> Any:
    """What calls have in common that one composition serves: of NumPy's arrays of one dtype that is computed
    as it is, and of arrays of a device. None for others."""
    if type(x) is not type(w):
        return None
    if type(x) is np.ndarray:
        if x.dtype != w.dtype or x.dtype not in PLAIN_DTYPES or current() is not None:
            return None
    elif not on_device(x) or not on_device(w):
        return None
    words = repr(options)  # in which True is not 1
    return type(x), x.dtype, w.dtype, tuple(x.shape), tuple(w.shape), words


def _aligned(a: np.ndarray) -> np.ndarray:
    return a if a.flags.aligned else a.copy()


def _shape(name: str, a: Any) -> tuple[int, ...]:
    shape = tuple(a.shape)
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

"""Convolutions: values against loops in extended precision and against PyTorch, bits against the product with
the whole im2col matrix, layouts, stacks, dtypes, `out`, and what is refused."""

import itertools
import re
import tracemalloc

import numpy as np
import pytest
from accuracy import assert_same_bits, unit_roundoff
from matrices import normal

import smallmm

LAYOUTS = ("NCHW", "NHWC", "CHWN")

# N, C, H, W, K, R, S, and options
CASES = [
    ((2, 3, 7, 6, 4, 3, 2), {}),
    ((1, 1, 1, 1, 1, 1, 1), {}),
    ((3, 4, 5, 5, 6, 1, 1), {}),
    ((3, 4, 5, 5, 6, 1, 1), {"stride": 2}),
    ((3, 4, 5, 5, 6, 1, 1), {"padding": 1}),
    ((3, 4, 5, 5, 6, 1, 1), {"groups": 2}),
    ((2, 6, 8, 9, 4, 3, 3), {"groups": 2, "padding": 1}),
    ((2, 5, 6, 7, 5, 3, 3), {"groups": 5, "padding": "same"}),
    ((2, 3, 9, 11, 2, 3, 4), {"stride": (2, 3), "padding": (2, 5), "dilation": (2, 1)}),
    ((1, 2, 4, 4, 3, 4, 4), {}),
    ((1, 2, 2, 3, 3, 5, 5), {"padding": 3, "stride": 4}),
    ((2, 2, 6, 5, 3, 2, 4), {"padding": "same", "dilation": 2}),
    ((2, 2, 6, 5, 3, 2, 4), {"padding": "valid"}),
    ((1, 130, 4, 5, 7, 3, 3), {"padding": 1}),  # a sum of more than 1024 products
]


def operands(rng, sizes, dtype, groups=1, batch_x=(), batch_w=(), **_):
    n, c, h, w, k, r, s = sizes
    return normal(rng, (*batch_x, n, c, h, w), dtype), normal(rng, (*batch_w, k, c // groups, r, s), dtype)


def in_layout(x, layout):
    """NCHW in memory as the layout says."""
    axes = [x.ndim - 4 + "NCHW".index(letter) for letter in layout]
    return np.ascontiguousarray(x.transpose(*range(x.ndim - 4), *axes))


def pairs(stride=1, padding=0, dilation=1, kernel=(1, 1)):
    stride, dilation = (x if isinstance(x, tuple) else (x, x) for x in (stride, dilation))
    if padding == "same":
        spans = [d * (n - 1) for d, n in zip(dilation, kernel, strict=True)]
        return stride, [(span // 2, span - span // 2) for span in spans], dilation
    padding = 0 if padding == "valid" else padding
    return stride, [(n, n) for n in (padding if isinstance(padding, tuple) else (padding,) * 2)], dilation


def im2col(x, kernel, groups=1, **options):
    """The whole matrix, (..., N, groups, P, Q, C / groups * R * S), by the definition."""
    (sh, sw), zeros, (dh, dw) = pairs(**options, kernel=kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + zeros)
    (r, s), (*batch, c, h, w) = kernel, x.shape
    p, q = (h - dh * (r - 1) - 1) // sh + 1, (w - dw * (s - 1) - 1) // sw + 1
    rows, columns = (
        step * np.arange(count)[:, None] + d * np.arange(n)
        for step, count, d, n in ((sh, p, dh, r), (sw, q, dw, s))
    )
    parts = x[..., rows[:, None, :, None], columns[None, :, None, :]]  # (..., C, P, Q, R, S)
    parts = parts.reshape(*batch, groups, c // groups, p, q, r, s)
    return np.moveaxis(parts, -5, -3).reshape(*batch, groups, p, q, -1)


def by_product(multiply, x, w, groups=1, **options):
    """The convolution as a product of the matrix of filters with the im2col matrix, NCHW."""
    columns = im2col(x, w.shape[-2:], groups, **options)
    *batch, n, _, p, q, depth = columns.shape
    k = w.shape[-4]
    filters = w.reshape(*w.shape[:-4], 1, groups, k // groups, depth)
    product = multiply(filters, columns.reshape(*batch, n, groups, p * q, depth).mT)
    return product.reshape(*product.shape[:-4], n, k, p, q)


def loops(x, w, groups=1, **options):
    """One element after the other."""
    stride, zeros, dilation = pairs(**options, kernel=w.shape[-2:])
    x = np.pad(x, [(0, 0)] * 2 + zeros)
    (n, c, *size), (k, per_group, *kernel) = x.shape, w.shape
    p, q = ((a - d * (b - 1) - 1) // t + 1 for a, b, t, d in zip(size, kernel, stride, dilation, strict=True))
    result = np.zeros((n, k, p, q), x.dtype)
    for i, j, u, v in np.ndindex(result.shape):
        first = j // (k // groups) * per_group
        for c, r, s in np.ndindex(per_group, *kernel):
            at = u * stride[0] + r * dilation[0], v * stride[1] + s * dilation[1]
            result[i, j, u, v] += x[i, first + c, *at] * w[j, c, r, s]
    return result


@pytest.mark.parametrize(("sizes", "options"), CASES)
def test_bits_are_those_of_the_im2col_product(sizes, options, number, isa, rng):
    x, w = operands(rng, sizes, number, **options)
    expected = by_product(smallmm.matmul, x, w, **options)
    for layout in LAYOUTS:
        result = smallmm.conv2d(in_layout(x, layout), w, layout=layout, **options)
        assert result.flags.c_contiguous
        assert_same_bits(result, in_layout(expected, layout))
    if number.kind == "f":  # in either order of the factors
        assert_same_bits(by_product(lambda a, b: smallmm.matmul(b.mT, a.mT).mT, x, w, **options), expected)


@pytest.mark.parametrize(("sizes", "options"), CASES[:-1])
def test_values(sizes, options, dtype, rng):
    x, w = operands(rng, sizes, dtype, **options)
    exact = loops(x.astype(np.longdouble), w.astype(np.longdouble), **options)
    size = loops(abs(x).astype(np.longdouble), abs(w).astype(np.longdouble), **options)
    bound = (np.prod(w.shape[1:]) + 2) * unit_roundoff(dtype) * size
    assert np.all(abs(smallmm.conv2d(x, w, **options) - exact) <= bound)


@pytest.mark.parametrize(("sizes", "options"), CASES)
def test_values_are_torchs(torch, sizes, options, rng):
    x, w = (torch.asarray(a) for a in operands(rng, sizes, np.dtype("f8"), **options))
    result = smallmm.conv2d(x, w, **options)
    assert type(result) is torch.Tensor
    torch.testing.assert_close(result, torch.nn.functional.conv2d(x, w, **options), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((2, 1, 40, 37, 3, 2, 3), {}),  # more columns than a tile has, of few terms
        ((5, 40, 11, 9, 18, 5, 5), {"padding": 2}),  # tiles of several images; 1000 terms
        ((3, 70, 13, 15, 33, 4, 4), {"padding": 1, "stride": (1, 2)}),  # 1120 terms: by chunks
        ((40, 260, 2, 2, 5, 2, 2), {"padding": 1}),  # rows shorter than a vector
        ((70, 4, 3, 3, 2, 3, 3), {"groups": 2}),  # one output of an image
        ((1, 2048, 1, 1, 40, 1, 1), {}),  # of all
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_bits_across_tiles(sizes, options, dtype, rng):
    x, w = operands(rng, sizes, np.dtype(dtype), **options)
    expected = by_product(smallmm.matmul, x, w, **options)
    for layout in LAYOUTS:
        for count in (1, 3):
            with smallmm.threads(count):
                result = smallmm.conv2d(in_layout(x, layout), w, layout=layout, **options)
            assert_same_bits(result, in_layout(expected, layout))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_do_not_matter(count, rng):
    for sizes in ((2, 16, 60, 60, 24, 3, 3), (1, 150, 7, 7, 100, 3, 3)):  # few tiles: filters are shared
        x, w = operands(rng, sizes, np.dtype("f4"))
        with smallmm.threads(1):
            expected = smallmm.conv2d(x, w, padding=1)
        with smallmm.threads(count):
            assert_same_bits(smallmm.conv2d(x, w, padding=1), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_nothing_is_copied_as_a_whole(layout, dtype, rng):
    """Only the result is allocated, or, with `out`, nothing: of halves the filters in float32."""
    x, w = operands(rng, (4, 8, 100, 100, 2, 5, 5), np.dtype(dtype), batch_x=(2, 1), batch_w=(3,))
    x = in_layout(x, layout)
    shape = smallmm.conv2d(x, w, padding=2, layout=layout).shape
    out = np.full((*shape[:-1], 2 * shape[-1]), 7, dtype)
    for given, bytes_allowed in ((None, out.nbytes // 2), (out[..., ::2], 0)):
        tracemalloc.start()
        result = smallmm.conv2d(x, w, padding=2, layout=layout, out=given)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < bytes_allowed + 100_000
    assert_same_bits(np.ascontiguousarray(result), smallmm.conv2d(x, w, padding=2, layout=layout))
    assert np.all(out[..., 1::2] == 7)


@pytest.mark.parametrize(
    ("batch_x", "batch_w"),
    [((5,), (5,)), ((5,), ()), ((), (5,)), ((2, 1), (3,)), ((2, 3), (2, 1)), ((1,), (1, 1)), ((0,), (1,))],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacks_with_filters_of_their_own(batch_x, batch_w, layout, rng):
    options = {"groups": 2, "padding": 1, "stride": (1, 2)}
    x, w = operands(rng, (3, 4, 5, 6, 2, 3, 3), np.dtype("f8"), 2, batch_x, batch_w)
    result = smallmm.conv2d(in_layout(x, layout), w, layout=layout, **options)
    batch = np.broadcast_shapes(batch_x, batch_w)
    assert result.shape[:-4] == batch
    x, w = (np.broadcast_to(a, batch + a.shape[-4:]) for a in (x, w))
    for i in np.ndindex(batch):
        alone = smallmm.conv2d(x[i], w[i], **options)
        assert_same_bits(result[i], in_layout(alone, layout))


def test_many_small_images_with_filters_of_their_own(rng):
    x, w = operands(rng, (1, 1, 8, 8, 1, 3, 3), np.dtype("f4"), 1, (3000,), (3000,))
    windows = np.lib.stride_tricks.sliding_window_view(x[:, 0, 0], (3, 3), axis=(1, 2))
    np.testing.assert_allclose(
        smallmm.conv2d(x, w)[:, 0, 0], np.einsum("bpqrs,brs->bpq", windows, w[:, 0, 0]), rtol=1e-4, atol=1e-5
    )


def test_strides_do_not_matter(rng):
    x, w = operands(rng, (2, 4, 7, 6, 3, 3, 3), np.dtype("f4"))
    for size in (3, 1):
        filters = w[..., :size, :size]
        expected = smallmm.conv2d(x.copy(), filters.copy())
        for order in itertools.permutations(range(4)):
            for a in (x, x[:, :, ::-1, ::-1][:, :, ::-1, ::-1], np.repeat(x, 2, axis=3)[..., ::2]):
                back = np.argsort(order)
                result = smallmm.conv2d(a.transpose(order).copy().transpose(back), filters[:, ::-1][:, ::-1])
                assert_same_bits(result, expected)


def test_one_bad_image_does_not_touch_its_neighbours(rng):
    x, w = operands(rng, (3, 2, 6, 6, 4, 3, 3), np.dtype("f4"))
    good = smallmm.conv2d(x, w)
    x[1, 0, 2, 2] = np.nan
    bad = smallmm.conv2d(x, w)
    assert_same_bits(bad[::2], good[::2])
    assert np.isnan(bad[1, :, :3, :3]).all()
    assert_same_bits(bad[1, :, 3], good[1, :, 3])


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        ((0, 3, 5, 5, 2, 3, 3), (0, 2, 3, 3)),
        ((2, 3, 5, 5, 0, 3, 3), (2, 0, 3, 3)),
        ((2, 0, 5, 5, 2, 3, 3), (2, 2, 3, 3)),
    ],
)
def test_empty(sizes, shape, dtype, rng):
    result = smallmm.conv2d(*operands(rng, sizes, dtype))
    assert_same_bits(result, np.zeros(shape, dtype))


def test_dtypes(rng):
    x, w = operands(rng, (2, 3, 6, 6, 4, 3, 3), np.dtype("f8"))
    halves = x.astype("f2"), w.astype("f2")
    expected = smallmm.conv2d(*(a.astype("f4") for a in halves))
    assert_same_bits(smallmm.conv2d(*halves), expected.astype("f2"))
    assert smallmm.conv2d(x.astype("f4"), w).dtype == np.float64
    whole = (4 * x).astype(int)
    assert_same_bits(smallmm.conv2d(whole, w > 0), smallmm.conv2d(whole.astype(float), (w > 0).astype(float)))
    assert_same_bits(smallmm.conv2d(x.tolist(), w.tolist()), smallmm.conv2d(x, w))


def test_bfloat16(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, w = (a.astype(ml_dtypes.bfloat16) for a in operands(rng, (2, 3, 6, 6, 4, 3, 3), np.dtype("f4")))
    expected = smallmm.conv2d(x.astype("f4"), w.astype("f4")).astype(ml_dtypes.bfloat16)
    assert_same_bits(smallmm.conv2d(x, w), expected)


def test_out(rng):
    x, w = operands(rng, (2, 3, 6, 6, 3, 3, 3), np.dtype("f4"))
    expected = smallmm.conv2d(x, w, padding=1)
    for out in (np.empty((2, 3, 6, 6), "f4"), np.empty((6, 6, 3, 2), "f8").T, x):
        assert smallmm.conv2d(x, w, padding=1, out=out) is out
        assert_same_bits(out.astype("f4"), expected)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_of_any_strides(dtype, layout, rng):
    x, w = operands(rng, (2, 4, 6, 7, 6, 3, 3), np.dtype(dtype), 2)
    x = in_layout(x, layout)
    expected = smallmm.conv2d(x, w, groups=2, layout=layout)
    for order in itertools.permutations(range(4)):
        room = np.full([expected.shape[i] for i in order] + [2], 7, dtype)
        out = room[..., 0].transpose(np.argsort(order))[:, ::-1]
        assert smallmm.conv2d(x, w, groups=2, layout=layout, out=out) is out
        assert_same_bits(np.ascontiguousarray(out), expected)
        assert np.all(room[..., 1] == 7)


def test_operands_that_are_not_aligned_or_native(rng):
    x, w = operands(rng, (2, 3, 6, 6, 3, 3, 3), np.dtype("f4"))
    expected = smallmm.conv2d(x, w)
    for a in (x.astype(">f4"), np.frombuffer(b"0" + x.tobytes(), np.uint8)[1:].view("f4").reshape(x.shape)):
        out = np.empty(expected.shape, ">f4")
        assert_same_bits(smallmm.conv2d(a, w), expected)
        assert_same_bits(smallmm.conv2d(a, w, out=out).astype("f4"), expected)


def test_many_filters(rng):
    """More than sums that a thread has room for: they are computed in parts, whose bits are those of all."""
    x, w = rng.standard_normal((1, 150, 12, 12)), rng.standard_normal((700, 150, 3, 3))
    with smallmm.threads(1):
        whole = smallmm.conv2d(x, w)
        parts = [smallmm.conv2d(x, w[first : first + 50]) for first in range(0, 700, 50)]
    assert_same_bits(whole, np.concatenate(parts, axis=1))


def test_explain(rng):
    x, w = operands(rng, (2, 16, 60, 60, 24, 3, 3), np.dtype("f4"), batch_x=(5,))
    with smallmm.threads(1):
        plan = smallmm.explain("conv2d", x, w, padding=1)
    assert (plan.op, plan.threads, plan.packed, plan.matrices) == ("conv2d", 1, ("b",), 5)
    assert plan.strategy == "rows"
    assert plan.flops == 2 * 5 * 2 * 24 * 60 * 60 * 16 * 9
    assert plan.parts * plan.group >= 2 * 60 * 60
    out = np.full((5, 2, 24, 58, 58), 7, "f4")
    assert smallmm.explain(smallmm.conv2d, x, w, out=out).parts > 1
    assert np.all(out == 7)
    assert smallmm.explain("conv2d", x.astype("f2"), w.astype("f2")).computed == "float32"
    assert smallmm.explain("conv2d", x[:0], w).kernel is None


def test_filters_of_a_unit(rng):
    """Their sums fit the 512 KiB of a thread's room, with one thread too; and threads share few tiles."""
    x, w = operands(rng, (1, 1, 34, 34, 400, 3, 3), np.dtype("f8"))
    with smallmm.threads(1):
        plan = smallmm.explain("conv2d", x, w)
        blocks = plan.parts // -(-32 * 32 // plan.group)
        assert blocks > 1
        assert -(-400 // blocks) * plan.group * 8 <= 512 * 1024
        expected = smallmm.conv2d(x, w)
    assert_same_bits(expected[:, :100], smallmm.conv2d(x, w[:100]))
    x, w = operands(rng, (1, 16, 10, 10, 256, 3, 3), np.dtype("f8"))
    for threads, parts in ((1, 1), (2, 8), (4, 16)):
        with smallmm.threads(threads):
            plan = smallmm.explain("conv2d", x, w)
            assert (plan.threads, plan.parts) == (threads, parts)


class Sharing:
    """Says that it has another shape than the array that it shares by DLPack."""

    def __init__(self, values, shape):
        self.values, self.shape, self.ndim, self.dtype = values, shape, len(shape), values.dtype

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __array_namespace__(self, api_version=None):
        return np


def test_shapes_that_are_not_those_of_the_elements(rng):
    x, w = operands(rng, (2, 3, 6, 6, 4, 3, 3), np.dtype("f8"))
    assert_same_bits(smallmm.conv2d(Sharing(x, x.shape), Sharing(w, w.shape)), smallmm.conv2d(x, w))
    for wrong in ((2, 3, 9, 9), (7, 2, 3, 6, 6)):
        with pytest.raises(ValueError, match="conv2d: x and w have elements of shapes"):
            smallmm.conv2d(Sharing(x, wrong), Sharing(w, w.shape))


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": (1, 3, 6, 6)},
        {"x": (3, 6, 6)},
        {"w": (4, 2, 3, 3)},
        {"w": (5, 3, 3, 3)},
        {"w": (4, 3, 0, 3)},
        {"w": (2, 4, 3, 3, 3)},
        {"y": (2, 5, 4, 4)},
        {"axes": (0, 1, 2, 4)},
        {"axes": (0, 1, 1, 3)},
        {"groups": 0},
        {"stride": (0, 1)},
        {"dilation": (1, -1)},
        {"before": (-1, 0)},
    ],
    ids=str,
)
def test_the_core_takes_no_arrays_that_do_not_fit(wrong):
    right = {"x": (2, 3, 6, 6), "w": (4, 3, 3, 3), "y": (2, 4, 4, 4), "axes": (0, 1, 2, 3), "groups": 1}
    right |= {"stride": (1, 1), "dilation": (1, 1), "before": (0, 0)}
    for given in (right, right | wrong):
        x, w, y, *words = given.values()
        arrays = [np.zeros(shape) for shape in (x, w, y)]
        if given is right:
            assert smallmm._core.convolve(*arrays, tuple(words))
            continue
        with pytest.raises(ValueError, match=r"do not fit each other|an operand is null, a size is"):
            smallmm._core.convolve(*arrays, tuple(words))


X, W, OUT = np.ones((2, 4, 5, 6)), np.ones((6, 4, 3, 3)), np.ones((2, 6, 3, 4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: smallmm.conv2d(X[0], W), ValueError, "conv2d: x has shape (4, 5, 6); expected at least 4"),
        (lambda: smallmm.conv2d(X, 1.0), ValueError, "conv2d: w has shape (); expected at least 4"),
        (lambda: smallmm.conv2d([[1], [1, 2]], W), ValueError, "conv2d: x is a list that NumPy cannot"),
        (lambda: smallmm.conv2d(X[:, :3], W), ValueError, "conv2d: w has shape (6, 4, 3, 3); expected 3"),
        (lambda: smallmm.conv2d(X, W, groups=2), ValueError, "expected 2 channels to match x of shape"),
        (lambda: smallmm.conv2d(X, W, groups=3), ValueError, "conv2d: groups is 3; expected a divisor"),
        (lambda: smallmm.conv2d(X, W[:5, :2], groups=2), ValueError, "and of the 5 filters of w"),
        (lambda: smallmm.conv2d(X, W, groups=0), ValueError, "conv2d: groups is 0; expected at least 1"),
        (lambda: smallmm.conv2d(X, W, groups=1.5), TypeError, "conv2d: groups is 1.5; expected an integer"),
        (lambda: smallmm.conv2d(X[:, :, :2], W), ValueError, "span 3 x 3; expected at most the 2 x 6"),
        (lambda: smallmm.conv2d(X, W, dilation=3), ValueError, "span 7 x 7; expected at most the 5 x 6"),
        (lambda: smallmm.conv2d(X, W[..., :0]), ValueError, "expected filters of at least one element"),
        (lambda: smallmm.conv2d(X, W, stride=0), ValueError, "conv2d: stride is 0; expected at least 1"),
        (lambda: smallmm.conv2d(X, W, stride=(1, 2, 3)), ValueError, "conv2d: stride is (1, 2, 3); expected"),
        (lambda: smallmm.conv2d(X, W, stride="a"), TypeError, "conv2d: stride is 'a'; expected an integer"),
        (lambda: smallmm.conv2d(X, W, dilation=(1, 0)), ValueError, "conv2d: dilation is (1, 0); expected"),
        (lambda: smallmm.conv2d(X, W, padding=-1), ValueError, "conv2d: padding is -1; expected at least 0"),
        (lambda: smallmm.conv2d(X, W, padding="full"), ValueError, "conv2d: padding is 'full'; expected"),
        (lambda: smallmm.conv2d(X, W, padding="same", stride=2), ValueError, "conv2d: stride is (2, 2)"),
        (lambda: smallmm.conv2d(X, W, layout="HWCN"), ValueError, "conv2d: layout is 'HWCN'; expected"),
        (
            lambda: smallmm.conv2d([X, X], [W, W, W]),
            ValueError,
            "conv2d: w has shape (3, 6, 4, 3, 3), whose batch",
        ),
        (lambda: smallmm.conv2d(X, W, out=np.empty((2, 6, 3, 3))), ValueError, "expected (2, 6, 3, 4)"),
        (lambda: smallmm.conv2d(X, W, out=[0]), TypeError, "conv2d: out is a list"),
        (lambda: smallmm.conv2d(X, W, out=OUT.astype(int)), TypeError, "conv2d: out has dtype int64"),
        (
            lambda: smallmm.conv2d(X, W, out=np.broadcast_to(0.0, (2, 6, 3, 4))),
            ValueError,
            "conv2d: out is read-only",
        ),
        (lambda: smallmm.conv2d(X.astype("g"), W), TypeError, "conv2d: x has dtype"),
        (lambda: smallmm.conv2d(X, W.astype("U1")), TypeError, "conv2d: w has dtype"),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


DERIVED = [
    {},
    {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)},
    {"groups": 2, "padding": "same", "batch_x": (2, 1), "batch_w": (3,)},
]


@pytest.mark.parametrize("options", DERIVED)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_torchs_gradients(torch, options, layout, rng):
    x, w = operands(rng, (2, 2, 4, 4, 2, 3, 2), np.dtype("f8"), **options)
    x, w = torch.as_tensor(in_layout(x, layout)).requires_grad_(), torch.as_tensor(w).requires_grad_()
    options = {name: value for name, value in options.items() if not name.startswith("batch")}

    def call(x, w):
        return smallmm.conv2d(x, w, layout=layout, **options)

    assert torch.autograd.gradcheck(call, (x, w))
    if layout == "NHWC":
        assert torch.autograd.gradgradcheck(call, (x, w), fast_mode=True)
    with torch.no_grad():
        plain = call(x, w)
    assert torch.equal(call(x, w), plain)
    assert torch.equal(torch.vmap(lambda a: call(a, w.detach()))(x.detach()[None])[0], plain)


def test_torchs_gradients_of_complex_numbers(torch, rng):
    x, w = (torch.as_tensor(a) for a in operands(rng, (2, 2, 4, 4, 2, 3, 2), np.dtype("c16"), groups=2))
    x, w = x.requires_grad_(), w.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: smallmm.conv2d(x, w, groups=2), (x, w), fast_mode=True)
    mapped = torch.vmap(lambda a: smallmm.conv2d(a, w.detach(), groups=2))(x.detach()[None])[0]
    assert torch.equal(mapped, smallmm.conv2d(x.detach(), w.detach(), groups=2))


def test_torchs_dtypes_and_out(torch):
    x, w = torch.ones((2, 4, 5, 6), dtype=torch.float16), torch.ones((6, 4, 3, 3), dtype=torch.float16)
    assert smallmm.conv2d(x, w).dtype == torch.float16
    assert smallmm.conv2d(x, w.requires_grad_()).dtype == torch.float16
    with pytest.raises(TypeError, match="conv2d: out is given, but a derivative is wanted"):
        smallmm.conv2d(x, w, out=torch.empty((2, 6, 3, 4), dtype=torch.float16))
    with torch.no_grad():
        assert smallmm.conv2d(x, w).shape == (2, 6, 3, 4)


@pytest.mark.parametrize("options", DERIVED[:2])
def test_jaxs_arrays(options, jax, rng):
    x, w = operands(rng, (2, 3, 6, 6, 4, 3, 3), np.dtype("f4"))
    expected = smallmm.conv2d(x, w, **options)
    stride, zeros, dilation = pairs(**options)

    def call(x, w):
        return smallmm.conv2d(x, w, **options)

    def by_jax(x, w):
        return jax.lax.conv_general_dilated(x, w, stride, zeros, rhs_dilation=dilation)

    x, w = map(jax.numpy.asarray, (x, w))
    assert isinstance(call(x, w), jax.Array)
    for function in (call, jax.jit(call), lambda x, w: jax.vmap(call, (0, None))(x[:, None], w)[:, 0]):
        assert_same_bits(np.asarray(function(x, w)), expected)
    found, wanted = (jax.grad(lambda *a, f=f: (f(*a) ** 2).sum(), (0, 1))(x, w) for f in (call, by_jax))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_lazy_and_fused_arrays_are_refused():
    dask = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"conv2d: w is a dask.*; pass its values"):
        smallmm.conv2d(X, dask.ones(W.shape))
    with pytest.raises(TypeError, match=r"conv2d: x is a .*"):
        smallmm.fuse(lambda x: smallmm.conv2d(x, W), "(n,c,h,w)->(n,k,p,q)")(X)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
def test_again(rng, layout):
    """A call that was met before takes a shorter way: the same bits, of other arrays, too."""
    x, w = rng.standard_normal((3, 4, 6, 7)), rng.standard_normal((6, 2, 3, 3))
    x = np.ascontiguousarray(np.einsum("nchw->" + layout.lower(), x))
    options = {"padding": (1, 2), "stride": [2, 1], "groups": 2, "layout": layout}
    expected = smallmm.conv2d(x, w, **options)
    memory = np.zeros(x.nbytes + 1, np.uint8)
    askew = memory[1:].view(x.dtype).reshape(x.shape)
    askew[...] = x
    for given in (x, x[..., ::-1].copy()[..., ::-1], askew):
        np.testing.assert_array_equal(smallmm.conv2d(given, w, **options), expected)
    np.testing.assert_array_equal(
        smallmm.conv2d(x + 1, w, **options), smallmm.conv2d(x + 1, w, out=np.empty_like(expected), **options)
    )
    with pytest.raises(TypeError, match="stride"):
        smallmm.conv2d(x, w, **{**options, "stride": (2, 1.0)})
    assert smallmm.conv2d(x.astype(np.float32), w, **options).dtype == np.float64

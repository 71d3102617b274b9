"""Convolutions on a GPU: the CPU's bits for every layout, padding, stride and group, and for stacks."""

import numpy as np
import pytest
from test_convolution import CASES, LAYOUTS, in_layout, operands

import smallmm

pytestmark = pytest.mark.usefixtures("torch_cuda")
LARGER = [
    ((2, 1, 40, 37, 3, 2, 3), {}),
    ((5, 40, 11, 9, 18, 5, 5), {"padding": 2}),
    ((3, 70, 13, 15, 33, 4, 4), {"padding": 1, "stride": (1, 2)}),  # 1120 terms: by chunks
    ((40, 260, 2, 2, 5, 2, 2), {"padding": 1}),
    ((70, 4, 3, 3, 2, 3, 3), {"groups": 2}),
    ((1, 2048, 1, 1, 40, 1, 1), {}),
    ((4, 832, 7, 7, 128, 5, 5), {"padding": 2}),  # 20800 terms
    ((8, 64, 56, 56, 64, 3, 3), {"padding": 1}),
    ((2, 3, 224, 224, 16, 7, 7), {"padding": 3, "stride": 2}),
    ((2, 64, 30, 30, 64, 3, 3), {"groups": 64, "padding": "same"}),
]


def assert_cpu_bits(y, x, w, **options):
    expected = smallmm.conv2d(x, w, **options)
    y = y.cpu().numpy()
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(y.view(f"u{y.itemsize}"), expected.view(f"u{y.itemsize}"))


def on_device(torch, *arrays):
    return [torch.from_numpy(np.ascontiguousarray(a)).cuda() for a in arrays]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("sizes", "options"), CASES + LARGER)
def test_bits(torch, rng, dtype, sizes, options, layout):
    x, w = operands(rng, sizes, dtype, **options)
    x = in_layout(x, layout)
    given = on_device(torch, x, w)
    y = smallmm.conv2d(*given, layout=layout, **options)
    assert type(y) is torch.Tensor
    assert_cpu_bits(y, x, w, layout=layout, **options)
    out = torch.full_like(y, float("nan"))
    assert smallmm.conv2d(*given, layout=layout, out=out, **options) is out
    assert torch.equal(out, y)


@pytest.mark.parametrize(
    ("batch_x", "batch_w"),
    [((5,), (5,)), ((5,), ()), ((), (5,)), ((2, 1), (3,)), ((2, 3), (2, 1)), ((1,), (1, 1)), ((0,), (1,))],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacks_with_filters_of_their_own(torch, rng, batch_x, batch_w, layout):
    options = {"groups": 2, "padding": 1, "stride": (1, 2), "layout": layout}
    x, w = operands(rng, (3, 4, 5, 6, 2, 3, 3), np.dtype("f8"), 2, batch_x, batch_w)
    x = in_layout(x, layout)
    assert_cpu_bits(smallmm.conv2d(*on_device(torch, x, w), **options), x, w, **options)


def test_many_small_images_with_filters_of_their_own(torch, rng, dtype):
    x, w = operands(rng, (1, 1, 8, 8, 1, 3, 3), dtype, 1, (70_001,), (70_001,))
    assert_cpu_bits(smallmm.conv2d(*on_device(torch, x, w)), x, w)


def test_strides_do_not_matter(torch, rng):
    x, w = operands(rng, (3, 4, 9, 8, 5, 3, 3), np.dtype("f4"))
    given, filters = on_device(torch, x, w)
    channels_last = given.to(memory_format=torch.channels_last)
    for a in (
        given,
        channels_last,
        torch.repeat_interleave(given, 2, 3)[..., ::2],
        given[:1].expand(3, 4, 9, 8),
    ):
        for b in (filters, filters.mT.contiguous().mT, filters[:1].expand(5, 4, 3, 3), filters[..., 1:, 1:]):
            y = smallmm.conv2d(a, b)
            assert_cpu_bits(y, a.contiguous().cpu().numpy(), b.contiguous().cpu().numpy())
            room = torch.full((*y.shape, 2), 7.0, device="cuda")
            smallmm.conv2d(a, b, out=room[..., 1])
            assert torch.equal(room[..., 1], y)
            assert (room[..., 0] == 7).all()


def test_out_that_is_an_operand(torch, rng):
    x, w = operands(rng, (2, 3, 6, 6, 3, 3, 3), np.dtype("f4"))
    given, filters = on_device(torch, x, w)
    assert smallmm.conv2d(given, filters, padding=1, out=given) is given
    assert_cpu_bits(given, x, w, padding=1)


def test_one_bad_image_does_not_touch_its_neighbours(torch, rng):
    x, w = operands(rng, (3, 2, 6, 6, 4, 3, 3), np.dtype("f4"))
    x[1, 0, 2, 2] = np.nan
    y = smallmm.conv2d(*on_device(torch, x, w)).cpu().numpy()
    good = smallmm.conv2d(x, w)
    np.testing.assert_array_equal(y, good)
    assert np.isnan(y[1, :, :3, :3]).all()
    assert not np.isnan(y[::2]).any()


@pytest.mark.parametrize("sizes", [(0, 3, 5, 5, 2, 3, 3), (2, 3, 5, 5, 0, 3, 3), (2, 0, 5, 5, 2, 3, 3)])
def test_empty(torch, rng, dtype, sizes):
    x, w = operands(rng, sizes, dtype)
    assert_cpu_bits(smallmm.conv2d(*on_device(torch, x, w)), x, w)


def test_dtypes(torch, rng):
    x, w = operands(rng, (2, 3, 6, 6, 4, 3, 3), np.dtype("f8"))
    halves = x.astype("f2"), w.astype("f2")
    assert_cpu_bits(smallmm.conv2d(*on_device(torch, *halves)), *halves)
    mixed = x.astype("f4"), w
    assert_cpu_bits(smallmm.conv2d(*on_device(torch, *mixed)), *mixed)


def test_gradients_are_those_of_the_cpu(torch):
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(s, dtype=torch.float64, generator=generator) for s in ((2, 4, 5, 6), (6, 2, 3, 3)))
    found = []
    for device in ("cpu", "cuda"):
        given = [a.to(device).detach().requires_grad_() for a in (x, w)]
        smallmm.conv2d(*given, groups=2, padding=1).sum().backward()
        found.append([a.grad.cpu() for a in given])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("library", ["cupy", "jax"])
def test_other_libraries(required, rng, library):
    x, w = operands(rng, (2, 4, 6, 6, 6, 3, 3), np.dtype("f4"), 2)
    module = required(library)
    asarray = module.asarray if library == "cupy" else required("jax.numpy").asarray
    y = smallmm.conv2d(asarray(x), asarray(w), groups=2)
    assert type(y) is type(asarray(x))
    y = module.asnumpy(y) if library == "cupy" else np.asarray(y)
    np.testing.assert_array_equal(y, smallmm.conv2d(x, w, groups=2))


def test_explain(torch):
    x, w = torch.ones(5, 2, 16, 60, 60, device="cuda"), torch.ones(24, 16, 3, 3, device="cuda")
    plan = smallmm.explain("conv2d", x, w, padding=1)
    assert plan.kernel.startswith("smm_matmul_tiled_f32_sm")
    assert plan.matrices == 5
    assert plan.flops == 2 * 5 * 2 * 24 * 60 * 60 * 16 * 9


def test_bad_arguments_are_named(torch):
    x, w = torch.ones(2, 4, 5, 6, device="cuda"), torch.ones(6, 4, 3, 3, device="cuda")
    for call, error, words in (
        (lambda: smallmm.conv2d(x[0], w), ValueError, r"conv2d: x has shape \(4, 5, 6\)"),
        (lambda: smallmm.conv2d(x, w[:, :3]), ValueError, r"conv2d: w has shape \(6, 3, 3, 3\)"),
        (lambda: smallmm.conv2d(x, w, stride=0), ValueError, "conv2d: stride is 0"),
        (lambda: smallmm.conv2d(x, w, dilation=3), ValueError, "span 7 x 7"),
        (lambda: smallmm.conv2d(x, w, out=x), ValueError, r"conv2d: out has shape \(2, 4, 5, 6\)"),
        (lambda: smallmm.conv2d(x, w.to(torch.complex64)), TypeError, "conv2d: w has dtype complex64"),
        (lambda: smallmm.conv2d(x, w.cpu()), TypeError, "conv2d: .*"),
    ):
        with pytest.raises(error, match=words):
            call()

"""Products with dimensions above 64, and convolutions, on a GPU: the CPU's bits for every size, depth and
layout."""

import numpy as np
import pytest
from test_convolution import CASES, in_layout
from test_convolution import LAYOUTS as LAYOUTS_OF_IMAGES
from test_convolution import operands as images_and_filters
from test_device_matmul import LAYOUTS, assert_cpu_bits, stack

import smallmm

pytestmark = pytest.mark.usefixtures("torch_cuda")

SIZES = [  # batch, m, k, n
    *((2, n, n, n) for n in (65, 66, 100, 127, 128, 129, 200, 257)),
    (1, 1000, 1000, 1000),
    *((3, 5, k, 7) for k in (65, 255, 256, 257, 1023, 1024, 1025, 1280, 1281, 5000)),
    *((1, n, 100_000, n) for n in (1, 2, 3, 4, 8, 16)),
    (1, 4, 1_000_000, 4),
    (1, 1, 1_000_003, 1),
    (1, 32, 60_000, 32),
    (40, 4, 20_000, 4),
    (1, 2560, 2560, 16),
    (1, 16, 2560, 2560),
    (1, 10_000, 3, 3),
    (2, 3, 3, 10_000),
    (70_000, 1, 1, 65),
    (1, 70, 0, 70),
    (0, 70, 70, 70),
]


@pytest.fixture
def torch(torch_cuda):
    return torch_cuda


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(torch, rng, dtype, size):
    batch, m, k, n = size
    a, b = stack(rng, batch, m, k, dtype=dtype), stack(rng, batch, k, n, dtype=dtype)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    assert_cpu_bits(smallmm.batched_matmul(x, y), a, b)
    x, y = (
        torch.from_numpy(np.ascontiguousarray(a.mT)).cuda().mT,
        torch.from_numpy(np.ascontiguousarray(b.mT)).cuda().mT,
    )
    out = torch.full((batch, n, m), float("nan"), dtype=x.dtype, device="cuda").mT
    smallmm.batched_matmul(x, y, out=out)
    assert_cpu_bits(out, a, b)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_transposed_times_itself(torch, rng, dtype, n):
    a = stack(rng, 300_001, n, dtype=dtype)
    x = torch.from_numpy(a).cuda()
    assert_cpu_bits(smallmm.batched_matmul(x.mT, x), a.T, a)


@pytest.mark.parametrize("size", [(3, 70, 40, 66), (3, 6, 3000, 5)], ids=str)
@pytest.mark.parametrize("lay_b", LAYOUTS)
@pytest.mark.parametrize("lay_a", LAYOUTS)
def test_layouts(torch, rng, lay_a, lay_b, size):
    batch, m, k, n = size
    dtype = np.float32 if len(lay_a + lay_b) % 2 else np.float64
    a, b = stack(rng, batch, m, k, dtype=dtype), stack(rng, batch, k, n, dtype=dtype)
    x, y = LAYOUTS[lay_a](torch, a), LAYOUTS[lay_b](torch, b)
    out = LAYOUTS[lay_b](torch, np.full((batch, m, n), np.nan, dtype))
    smallmm.batched_matmul(x, y, out=out)
    assert_cpu_bits(out, a, b)
    assert_cpu_bits(smallmm.batched_matmul(x[:1], y), a[:1], b)


@pytest.mark.parametrize("size", [(2, 70, 40, 66), (2, 6, 3000, 5), (1, 3, 400_000, 3)], ids=str)
@pytest.mark.parametrize("factors", [(1, 1), (2.5, -0.5), (-1, 0), (0, 3)])
def test_scaling(torch, rng, dtype, size, factors):
    batch, m, k, n = size
    alpha, beta = factors
    a, b = stack(rng, batch, m, k, dtype=dtype), stack(rng, batch, k, n, dtype=dtype)
    c = stack(rng, batch, m, n, dtype=dtype)
    out = torch.from_numpy(c).cuda()
    smallmm.batched_matmul(
        torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda(), alpha=alpha, beta=beta, out=out
    )
    assert_cpu_bits(out, a, b, alpha=alpha, beta=beta, out=c)


def test_on_streams(torch, rng):
    """Partial sums of calls on several streams are apart."""
    a, b = stack(rng, 8, 3, 200_000), stack(rng, 8, 200_000, 3)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    streams = [torch.cuda.Stream() for _ in range(8)]
    torch.cuda.synchronize()
    results = []
    for i, stream in enumerate(streams * 4):
        with torch.cuda.stream(stream):
            results.append(smallmm.batched_matmul(x[i % 8], y[i % 8]))
    torch.cuda.synchronize()
    for i, result in enumerate(results):
        assert_cpu_bits(result, a[i % 8], b[i % 8])


def test_in_a_graph(torch, rng):
    """A captured product has memory of its own for partial sums, and runs again."""
    a, b = stack(rng, 4, 100_000), stack(rng, 100_000, 4)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    out = smallmm.batched_matmul(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        smallmm.batched_matmul(x, y, out=out)
    for _ in range(3):
        out.zero_()
        graph.replay()
        assert_cpu_bits(out, a, b)


@pytest.mark.parametrize("layout", LAYOUTS_OF_IMAGES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions(torch, rng, dtype, case, layout):
    sizes, options = case
    x, w = images_and_filters(rng, sizes, dtype, **options)
    x = in_layout(x, layout)
    expected = smallmm.conv2d(x, w, layout=layout, **options)
    for other in (False, True):
        there = (
            torch.from_numpy(np.ascontiguousarray(x.T)).cuda().permute(3, 2, 1, 0)
            if other
            else torch.from_numpy(x).cuda()
        )
        found = smallmm.conv2d(there, torch.from_numpy(w).cuda(), layout=layout, **options).cpu().numpy()
        np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{found.itemsize}"))


def test_stacks_of_convolutions(torch, rng, dtype):
    """Each stack has filters of its own; every other filter and channel."""
    sizes = (2, 4, 9, 8, 6, 3, 3)
    x, w = images_and_filters(rng, sizes, dtype, batch_x=(3, 1), batch_w=(5,))
    there = [torch.from_numpy(a).cuda() for a in (x, w)]
    found = smallmm.conv2d(*there, padding=1).cpu().numpy()
    np.testing.assert_array_equal(found, smallmm.conv2d(x, w, padding=1))
    found = smallmm.conv2d(there[0][..., ::2, :, :], there[1][..., ::2, ::2, :, :], padding=1).cpu().numpy()
    np.testing.assert_array_equal(found, smallmm.conv2d(x[..., ::2, :, :], w[..., ::2, ::2, :, :], padding=1))


def test_out_of_convolutions(torch, rng):
    x, w = images_and_filters(rng, (2, 3, 8, 8, 3, 3, 3), np.float32)
    there = torch.from_numpy(x).cuda()
    filters = torch.from_numpy(w).cuda()
    out = torch.empty_like(there)
    assert smallmm.conv2d(there, filters, padding=1, out=out) is out
    np.testing.assert_array_equal(out.cpu().numpy(), smallmm.conv2d(x, w, padding=1))
    smallmm.conv2d(there, filters, padding=1, out=there)
    np.testing.assert_array_equal(there.cpu().numpy(), out.cpu().numpy())


def test_what_convolutions_refuse(torch):
    x, w = torch.zeros(1, 2, 4, 4, device="cuda"), torch.zeros(3, 2, 3, 3, device="cuda")
    with pytest.raises(TypeError, match="conv2d: w"):
        smallmm.conv2d(x, w.cpu())
    with pytest.raises(TypeError, match="complex"):
        smallmm.conv2d(x.to(torch.complex64), w.to(torch.complex64))
    with pytest.raises(ValueError, match="conv2d: out"):
        smallmm.conv2d(x, w, out=torch.zeros(1, 3, 4, 4, device="cuda"))

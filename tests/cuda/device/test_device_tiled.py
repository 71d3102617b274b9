"""Products with dimensions above 64 on a GPU: the CPU's bits for every size, depth and layout."""

import numpy as np
import pytest
from test_device_matmul import LAYOUTS, assert_cpu_bits, stack

import smallmm
from smallmm import cuda

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


def check(torch, a, b):
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    out = torch.full((len(a), a.shape[-2], b.shape[-1]), float("nan")).to(x)
    assert smallmm.batched_matmul(x, y, out=out) is out
    assert_cpu_bits(out, a, b)


def test_random_rectangles(torch, rng, dtype):
    """One side is often small, and one large."""
    for sizes in 2 ** rng.uniform(0, 10, (60, 3)):
        m, k, n = map(int, sizes)
        m = m if max(m, k, n) > 64 else 65
        check(torch, stack(rng, 5, m, k, dtype=dtype), stack(rng, 5, k, n, dtype=dtype))


def test_thousands_of_deep_ones(torch, rng, dtype):
    """More partial sums than their memory holds at a time."""
    check(torch, stack(rng, 3000, 8, 1500, dtype=dtype), stack(rng, 3000, 1500, 8, dtype=dtype))


def test_partial_sums_a_part_at_a_time(torch):
    """The bits of one call for many matrices are those of one for each."""
    x = torch.rand(40, 300, 70_000, device="cuda", dtype=torch.float32)
    y = torch.rand(1, 70_000, 90, device="cuda", dtype=torch.float32)
    c = smallmm.batched_matmul(x, y)
    for i in (0, 17, 39):
        assert torch.equal(c[i], smallmm.batched_matmul(x[i], y[0]))
    assert_cpu_bits(c[39:], x[39:].cpu().numpy(), y.cpu().numpy())


@pytest.mark.parametrize("shape", [(70, 3, 5), (3, 1300, 4)])
def test_broadcasting(torch, rng, dtype, shape):
    m, k, n = shape
    for batch_a, batch_b in [((), (9,)), ((9,), ()), ((4, 1), (1, 5)), ((2, 1, 3), (5, 1)), ((), ())]:
        a, b = stack(rng, *batch_a, m, k, dtype=dtype), stack(rng, *batch_b, k, n, dtype=dtype)
        assert_cpu_bits(smallmm.batched_matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()), a, b)


def test_output_overlapping_an_operand(torch, rng):
    """It is written aside, also where it is the operand."""
    a = stack(rng, 4, 80, 80)
    for target in (0, 1):
        x = [torch.from_numpy(a).cuda(), torch.from_numpy(a).cuda()]
        smallmm.batched_matmul(*x, out=x[target])
        assert_cpu_bits(x[target], a, a)


def test_vectors(torch, rng, dtype):
    a, b = stack(rng, 3, 70, 2000, dtype=dtype), stack(rng, 3, 2000, dtype=dtype)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    np.testing.assert_array_equal(smallmm.matvec(x, y).cpu().numpy(), smallmm.matvec(a, b))
    np.testing.assert_array_equal(smallmm.vecmat(y, x.mT).cpu().numpy(), smallmm.vecmat(b, a.mT))
    np.testing.assert_array_equal(smallmm.matmul(y[0], y[1]).cpu().numpy(), smallmm.matmul(b[0], b[1]))


def test_empty(torch):
    for shape_a, shape_b in [((0, 70, 3), (0, 3, 3)), ((4, 0, 300), (4, 300, 2)), ((4, 90, 2), (4, 2, 0))]:
        c = smallmm.batched_matmul(torch.ones(shape_a, device="cuda"), torch.ones(shape_b, device="cuda"))
        assert c.shape == (shape_a[0], shape_a[1], shape_b[2])
    c = torch.full((4, 70, 65), float("nan"), device="cuda")
    smallmm.batched_matmul(torch.ones(4, 70, 0, device="cuda"), torch.ones(4, 0, 65, device="cuda"), out=c)
    assert not c.any()


def test_nan_stays_in_its_matrix(torch, rng):
    for shape in ((70, 70), (3, 3000)):
        a = stack(rng, 9, *shape)
        expected = smallmm.batched_matmul(a, a.mT)
        x, bad = torch.from_numpy(a).cuda(), torch.from_numpy(a).cuda()
        bad[7] = float("nan")
        c = smallmm.batched_matmul(bad, x.mT).cpu().numpy()
        assert np.isnan(c[7]).all()
        keep = np.arange(9) != 7
        np.testing.assert_array_equal(c[keep], expected[keep])


def test_other_dtypes(torch, rng):
    a = stack(rng, 2, 70, 70, dtype=np.float32)
    x = torch.from_numpy(a).cuda()
    assert_cpu_bits(smallmm.batched_matmul(x.half(), x.half()), a.astype(np.float16), a.astype(np.float16))
    assert_cpu_bits(smallmm.batched_matmul(x, x.double()), a, a.astype(np.float64))


def test_elements_beyond_two_to_the_31(torch):
    rows = (1 << 29) + 77
    if torch.cuda.mem_get_info()[0] < 5 * rows * 5:
        pytest.skip("needs 13 GB of device memory")
    x = torch.empty(rows, 5, device="cuda", dtype=torch.float32)
    x.view(-1).copy_(torch.arange(5 * rows, device="cuda", dtype=torch.int64).remainder_(7).sub_(3))
    y = torch.eye(5, device="cuda")
    c = smallmm.batched_matmul(x, y)
    assert torch.equal(c, x)
    del c
    sums = smallmm.batched_matmul(x[: 1 << 20].mT, x[: 1 << 20])
    assert_cpu_bits(sums, x[: 1 << 20].mT.cpu().numpy(), x[: 1 << 20].cpu().numpy())
    ones = torch.ones(rows, 1, device="cuda", dtype=torch.float32)
    total = smallmm.batched_matmul(x.mT, ones)
    assert torch.allclose(total[:, 0].double(), x.sum(0, dtype=torch.float64), atol=100)


def test_explain_and_warmup(torch):
    x = torch.ones(1000, 200, 200, device="cuda")
    plan = smallmm.explain("batched_matmul", x, x)
    assert plan.kernel.startswith("smm_matmul_tiled_f32_sm")
    for warm in cuda.warmup([(200, 200, 200)], dtypes=["f32"]):
        assert warm["kernel"] == "matmul_tiled"

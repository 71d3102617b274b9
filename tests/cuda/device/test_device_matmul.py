"""Products on a GPU: the CPU's bits for every shape, layout, dtype and batch."""

import numpy as np
import pytest

import smallmm

pytestmark = pytest.mark.usefixtures("torch_cuda")


def stack(rng, *shape, dtype=np.float64):
    return rng.uniform(-1, 1, shape).astype(dtype)


def assert_cpu_bits(c, a, b, **factors):
    """c, on the device, has the bits of the CPU's product of the host arrays a and b."""
    out = factors.pop("out", None)
    expected = smallmm.batched_matmul(a, b, None if out is None else out.copy(), **factors)
    c = c.cpu().numpy()
    assert c.dtype == expected.dtype
    assert c.shape == expected.shape
    np.testing.assert_array_equal(c.view(f"u{c.itemsize}"), expected.view(f"u{c.itemsize}"))


@pytest.mark.parametrize("n", [*range(1, 34), 48, 63, 64])
def test_every_order(torch, rng, dtype, n):
    for batch in (1, 5, 1003):
        a, b = stack(rng, batch, n, n, dtype=dtype), stack(rng, batch, n, n, dtype=dtype)
        x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
        out = torch.full_like(x, float("nan"))
        assert smallmm.batched_matmul(x, y, out=out) is out
        assert_cpu_bits(out, a, b)
        assert_cpu_bits(smallmm.batched_matmul(x, y), a, b)


def test_random_rectangles(torch, rng, dtype):
    for m, k, n in rng.integers(1, 33, (40, 3)):
        a, b = stack(rng, 301, m, k, dtype=dtype), stack(rng, 301, k, n, dtype=dtype)
        assert_cpu_bits(smallmm.batched_matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()), a, b)


def framed(torch, x, before, after):
    """x on the device within larger memory of NaN: strides that are not those of a contiguous array."""
    shape = [size + first + last for size, first, last in zip(x.shape, before, after, strict=True)]
    frame = torch.full(shape, float("nan"), dtype=torch.from_numpy(x).dtype, device="cuda")
    view = frame[tuple(slice(first, first + size) for size, first in zip(x.shape, before, strict=True))]
    view.copy_(torch.from_numpy(x))
    return view


def offset(torch, x, elements):
    flat = torch.zeros(x.size + elements, dtype=torch.from_numpy(x).dtype, device="cuda")[elements:]
    flat.copy_(torch.from_numpy(x).reshape(-1))
    return flat.reshape(x.shape)


LAYOUTS = {
    "contiguous": lambda torch, x: torch.from_numpy(x).cuda(),
    "transposed": lambda torch, x: torch.from_numpy(np.ascontiguousarray(x.mT)).cuda().mT,
    "padded": lambda torch, x: framed(torch, x, (0, 1, 1), (0, 2, 3)),
    "padded transposed": lambda torch, x: framed(torch, np.ascontiguousarray(x.mT), (0, 1, 1), (0, 2, 3)).mT,
    "gaps between matrices": lambda torch, x: framed(torch, x, (0, 0, 0), (0, 3, 0)),
    "every other": lambda torch, x: torch.from_numpy(np.repeat(np.repeat(x, 2, 0), 2, 2)).cuda()[::2, :, ::2],
    "batch last": lambda torch, x: (
        torch.from_numpy(np.ascontiguousarray(x.transpose(1, 2, 0))).cuda().permute(2, 0, 1)
    ),
    "off by one element": lambda torch, x: offset(torch, x, 1),
    "off by three elements": lambda torch, x: offset(torch, x, 3),
}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 12, 16, 31, 32])
@pytest.mark.parametrize("lay_b", LAYOUTS)
@pytest.mark.parametrize("lay_a", LAYOUTS)
def test_layouts(torch, rng, lay_a, lay_b, n):
    dtype = np.float32 if (n + len(lay_a)) % 2 else np.float64
    a, b = stack(rng, 67, n, n, dtype=dtype), stack(rng, 67, n, n, dtype=dtype)
    x, y = LAYOUTS[lay_a](torch, a), LAYOUTS[lay_b](torch, b)
    assert_cpu_bits(smallmm.batched_matmul(x, y), a, b)
    out = LAYOUTS[lay_a](torch, np.full_like(a, np.nan))
    smallmm.batched_matmul(x, y, out=out)
    assert_cpu_bits(out, a, b)


@pytest.mark.parametrize("shape", [(7, 3, 5), (16, 16, 16), (31, 4, 9), (4, 4, 4)])
def test_broadcasting(torch, rng, dtype, shape):
    m, k, n = shape
    for batch_a, batch_b in [
        ((), (9,)),
        ((9,), ()),
        ((1,), (9,)),
        ((4, 1), (1, 5)),
        ((2, 1, 3), (5, 1)),
        ((), ()),
    ]:
        a, b = stack(rng, *batch_a, m, k, dtype=dtype), stack(rng, *batch_b, k, n, dtype=dtype)
        assert_cpu_bits(smallmm.batched_matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()), a, b)
    a, b = stack(rng, m, k, dtype=dtype), stack(rng, 9, k, n, dtype=dtype)
    x = torch.from_numpy(a).cuda().expand(9, m, k)
    assert_cpu_bits(smallmm.batched_matmul(x, torch.from_numpy(b).cuda()), np.broadcast_to(a, (9, m, k)), b)


@pytest.mark.parametrize("n", range(1, 34))
def test_one_matrix_for_many(torch, dtype, n):
    """The bits of a full stack, where blocks come back several times and the last one is not full."""
    batch, other = 40_003, n // 2 + 1

    def random(*shape):
        return torch.rand(*shape, device="cuda", dtype=getattr(torch, np.dtype(dtype).name))

    for k, length in ((n, n), (other, n), (n, other)):
        x, one = random(batch, n, k), random(k, length)
        expected = smallmm.batched_matmul(x, one.expand(batch, k, length).contiguous())
        assert_cpu_bits(expected[-9:], x[-9:].cpu().numpy(), one.cpu().numpy())
        for a in (x, x.mT.contiguous().mT) if k == length else (x,):
            for b in (one, one.mT.contiguous().mT):
                assert torch.equal(smallmm.batched_matmul(a, b), expected)
                turned = smallmm.batched_matmul(b.mT, a.mT.contiguous())  # (X B)^T = B^T X^T
                assert torch.equal(turned, expected.mT)
                assert torch.equal(smallmm.batched_matmul(b.mT, a.mT), expected.mT)
    x, one = random(batch, n, n), random(n, n)
    for a, b in ((x, one), (one, x)):
        expected = smallmm.batched_matmul(a, b)
        out = x.clone()
        smallmm.batched_matmul(*((out, one) if a is x else (one, out)), out=out)
        assert torch.equal(out, expected)


@pytest.mark.parametrize("n", [1, 2, 4, 7, 16, 32])
def test_scaling(torch, rng, dtype, n):
    a, b, c = (stack(rng, 33, n, n, dtype=dtype) for _ in range(3))
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    assert_cpu_bits(smallmm.batched_matmul(x, y, alpha=3), a, b, alpha=3)
    for alpha, beta in [(1, 1), (2.5, -0.5), (-1, 0)]:
        out = torch.from_numpy(c).cuda()
        smallmm.batched_matmul(x, y, out=out, alpha=alpha, beta=beta)
        assert_cpu_bits(out, a, b, out=c, alpha=alpha, beta=beta)
    nan = torch.full_like(x, float("nan"))
    assert_cpu_bits(smallmm.batched_matmul(x, y, out=nan, alpha=2, beta=0), a, b, alpha=2)
    alphas, betas = stack(rng, 33, dtype=dtype), stack(rng, 33, dtype=dtype)
    betas[::3] = 0
    out = torch.from_numpy(c).cuda()
    smallmm.batched_matmul(
        x, y, out=out, alpha=torch.from_numpy(alphas).cuda(), beta=torch.from_numpy(betas).cuda()
    )
    assert_cpu_bits(out, a, b, out=c, alpha=alphas, beta=betas)


@pytest.mark.parametrize("n", [1, 2, 4, 7, 8, 16, 32])
def test_output_in_place_or_overlapping(torch, rng, n):
    a, b = stack(rng, 40, n, n), stack(rng, 40, n, n)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    for target in ("a", "b"):
        u, v = x.clone(), y.clone()
        smallmm.batched_matmul(u, v, out=u if target == "a" else v)
        assert_cpu_bits(u if target == "a" else v, a, b)
    memory = torch.cat([x, x[:1]])
    expected = smallmm.batched_matmul(x, y)
    smallmm.batched_matmul(memory[:40], y, out=memory[1:])
    assert torch.equal(memory[1:], expected)


def test_vectors(torch, rng, dtype):
    a, b = stack(rng, 21, 5, 7, dtype=dtype), stack(rng, 21, 7, dtype=dtype)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    np.testing.assert_array_equal(smallmm.matvec(x, y).cpu().numpy(), smallmm.matvec(a, b))
    np.testing.assert_array_equal(smallmm.vecmat(y, x.mT).cpu().numpy(), smallmm.vecmat(b, a.mT))
    np.testing.assert_array_equal(smallmm.matmul(x, y[0]).cpu().numpy(), smallmm.matmul(a, b[0]))
    np.testing.assert_array_equal(smallmm.matmul(y[0], x.mT).cpu().numpy(), smallmm.matmul(b[0], a.mT))
    assert smallmm.matmul(y[0], y[0]).shape == ()
    np.testing.assert_array_equal(smallmm.matmul(x, x.mT).cpu().numpy(), smallmm.matmul(a, a.mT))


def test_empty(torch):
    for shape_a, shape_b in [((0, 3, 3), (0, 3, 3)), ((4, 0, 3), (4, 3, 2)), ((4, 3, 2), (4, 2, 0))]:
        c = smallmm.batched_matmul(torch.ones(shape_a, device="cuda"), torch.ones(shape_b, device="cuda"))
        assert c.shape == (shape_a[0], shape_a[1], shape_b[2])
    c = smallmm.batched_matmul(torch.ones(4, 3, 0, device="cuda"), torch.ones(4, 0, 5, device="cuda"))
    assert c.shape == (4, 3, 5)
    assert not c.any()


def test_dtypes(torch, rng):
    a = stack(rng, 8, 3, 3, dtype=np.float32)
    x = torch.from_numpy(a).cuda()
    assert smallmm.batched_matmul(x.half(), x.half()).dtype == torch.float16
    assert smallmm.batched_matmul(x, x.double()).dtype == torch.float64
    ones = torch.ones(8, 3, 3, dtype=torch.int32, device="cuda")
    assert smallmm.batched_matmul(ones, ones).dtype == torch.float64
    np.testing.assert_array_equal(smallmm.batched_matmul(ones, ones).cpu().numpy(), np.full((8, 3, 3), 3.0))
    out = torch.empty(8, 3, 3, dtype=torch.float64, device="cuda")
    smallmm.batched_matmul(x, x, out=out)
    np.testing.assert_array_equal(out.cpu().numpy(), smallmm.batched_matmul(a, a))


def test_nan_stays_in_its_matrix(torch, rng):
    for n in (2, 3, 8, 17, 32):
        a = stack(rng, 200, n, n)
        expected = smallmm.batched_matmul(a, a)
        x, bad = torch.from_numpy(a).cuda(), torch.from_numpy(a).cuda()
        bad[77] = float("nan")
        c = smallmm.batched_matmul(bad, x).cpu().numpy()
        assert np.isnan(c[77]).all()
        keep = np.arange(200) != 77
        np.testing.assert_array_equal(c[keep], expected[keep])


def test_complex_above_the_largest_kernel(torch, rng):
    """By PyTorch's own product."""
    a, b = (stack(rng, 3, *shape) + 1j * stack(rng, 3, *shape) for shape in ((70, 66), (66, 80)))
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    np.testing.assert_allclose(smallmm.batched_matmul(x, y).cpu().numpy(), a @ b, rtol=1e-12, atol=1e-12)
    c = torch.ones(3, 70, 80, dtype=torch.complex128, device="cuda")
    smallmm.batched_matmul(x, y, out=c, alpha=2, beta=3)
    np.testing.assert_allclose(c.cpu().numpy(), 2 * (a @ b) + 3, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n", "dtype"), [(2, np.float64), (3, np.float32)])
def test_ten_million(torch, n, dtype):
    x = torch.rand(10_000_000, n, n, device="cuda", dtype=getattr(torch, np.dtype(dtype).name))
    c = smallmm.batched_matmul(x, x)
    for part in (slice(0, 1000), slice(65_000, 66_000), slice(-1000, None)):
        a = x[part].cpu().numpy()
        assert_cpu_bits(c[part], a, a)


def test_more_than_two_to_the_31_elements(torch):
    batch = (1 << 29) + 12345
    if torch.cuda.mem_get_info()[0] < 4 * batch * 16:
        pytest.skip("needs 35 GB of device memory")
    x = torch.empty(batch, 2, 2, device="cuda", dtype=torch.float32)
    x.view(-1).copy_(torch.arange(4 * batch, device="cuda", dtype=torch.int64).remainder_(1021))
    for view in (x, x.mT, x[1:].view(-1)[1:-3].view(-1, 2, 2)):
        c = smallmm.batched_matmul(view, view)
        for part in (slice(0, 1000), slice((1 << 29) - 9, (1 << 29) + 9), slice(-1000, None)):
            a = view[part].cpu().numpy()
            assert_cpu_bits(c[part], a, a)
        del c

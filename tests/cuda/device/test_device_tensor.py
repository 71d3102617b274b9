"""Products by tensor cores: within their bound of the exact result, for every size, depth and layout. Without
precision="tensor" no bit changes, which test_device_tiled.py and test_device_halves.py hold."""

import numpy as np
import pytest

import smallmm
from smallmm import _core, cuda
from smallmm._gpu import tuned
from smallmm._tools.bounds import BOUNDS

SIZES = [  # batch, m, k, n
    *((3, n, n, n) for n in (16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 257)),
    (1, 1000, 1000, 1000),
    (1, 1001, 999, 1003),
    (20_000, 32, 32, 32),
    (1000, 16, 16, 16),
    (500, 64, 64, 64),
    *((2, 17, k, 19) for k in (1, 15, 255, 257, 1024, 1025, 1281, 5000)),
    *((1, n, 100_000, n) for n in (4, 16, 32, 64)),
    (1, 16, 1_000_003, 16),
    (1, 2560, 2560, 16),
    (1, 16, 2560, 2560),
    (1, 70, 0, 70),
    (0, 70, 70, 70),
]


def numbers(rng, *shape):
    return rng.standard_normal(shape)


def assert_near(c, a, b, alpha=1, beta=0, before=0):
    """C = alpha A B + beta `before`, of NumPy's arrays of float16 or bfloat16."""
    digits = {"float16": 11, "bfloat16": 8}[c.dtype.name]
    c, a, b, before = (np.asarray(x, np.float64) for x in (c, a, b, before))
    exact = alpha * (a @ b) + beta * before
    size = abs(alpha) * (np.abs(a) @ np.abs(b)) + abs(beta * before)
    bound = BOUNDS["matmul_tensor"](a.shape[-1]) * 2.0**-24 * size
    bound += 2.0**-digits * (np.abs(exact) + bound) + 2.0**-25  # to which subnormal numbers are rounded
    assert np.all(np.abs(c - exact) <= bound), np.max(np.abs(c - exact) / bound)


@pytest.fixture(params=["float16", "bfloat16"])
def half(request, torch):
    pytest.importorskip("ml_dtypes")
    return getattr(torch, request.param)


def on_host(x):
    """Of PyTorch, which has no bfloat16 of NumPy's."""
    import ml_dtypes
    import torch

    x = x.detach().cpu()
    return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy()


def stacks(torch, rng, half, *shapes):
    return [torch.from_numpy(numbers(rng, *shape).astype(np.float32)).cuda().to(half) for shape in shapes]


def check(c, a, b, *factors, before=0):
    assert_near(on_host(c), on_host(a), on_host(b), *factors, before=before)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(torch, rng, half, size):
    batch, m, k, n = size
    a, b = stacks(torch, rng, half, (batch, m, k), (batch, k, n))
    a /= max(k, 1) ** 0.5  # nothing overflows
    check(smallmm.batched_matmul(a, b, precision="tensor"), a, b)
    a, b = a.mT.contiguous().mT, b.mT.contiguous().mT
    out = torch.full((batch, n, m), float("nan"), dtype=half, device="cuda").mT
    assert smallmm.batched_matmul(a, b, out=out, precision="tensor") is out
    check(out, a, b)


@pytest.mark.parametrize("size", [(3, 70, 40, 66), (3, 18, 3000, 20), (3, 128, 64, 128)], ids=str)
@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_layouts(torch, rng, half, size, shift):
    """Operands that begin at any element, with gaps, and with other strides."""
    batch, m, k, n = size
    a, b = stacks(torch, rng, half, (batch, m, k + 5), (batch, k + 9, n + 8))
    a, b = a[:, :, shift : k + shift] / 32, b[:, shift : k + shift, :n]
    out = torch.full((batch, m, n + 3), float("nan"), dtype=half, device="cuda")
    smallmm.batched_matmul(a, b, out=out[:, :, :n], precision="tensor")
    check(out[:, :, :n], a, b)
    assert out[:, :, n:].isnan().all()
    (wide,) = stacks(torch, rng, half, (batch, m, 2 * k))
    check(smallmm.matmul(wide[..., ::2] / 32, b, precision="tensor"), wide[..., ::2] / 32, b)


@pytest.mark.parametrize("size", [(2, 70, 40, 66), (2, 33, 5000, 17)], ids=str)
@pytest.mark.parametrize("factors", [(1, 1), (2.5, -0.5), (-1, 0), (0, 3)])
def test_scaling(torch, rng, half, size, factors):
    batch, m, k, n = size
    a, b, c = stacks(torch, rng, half, (batch, m, k), (batch, k, n), (batch, m, n))
    before = on_host(c).copy()
    alpha, beta = factors
    smallmm.batched_matmul(a, b, alpha=alpha, beta=beta, out=c, precision="tensor")
    check(c, a, b, alpha, beta, before=before)


def test_vectors_broadcasting_and_an_output_that_is_an_operand(torch, rng, half):
    a, b = stacks(torch, rng, half, (4, 1, 70, 80), (5, 80, 66))
    check(smallmm.matmul(a, b, precision="tensor"), a, b)
    (x,) = stacks(torch, rng, half, (80,))
    check(smallmm.matmul(a, x, precision="tensor"), a, x)
    (s,) = stacks(torch, rng, half, (3, 96, 96))
    before = s.clone()
    smallmm.batched_matmul(s, s, out=s, precision="tensor")
    check(s, before, before)


def test_infinities_and_nan_stay_in_their_rows(torch, rng, half):
    a, b = stacks(torch, rng, half, (2, 70, 70), (2, 70, 70))
    expected = smallmm.matmul(a, b, precision="tensor")
    bad = a.clone()
    bad[1, 3, 5], bad[1, 40] = float("inf"), float("nan")
    c = smallmm.matmul(bad, b, precision="tensor")
    assert c[1, 3].isinf().all()
    assert c[1, 40].isnan().all()
    rest = [i for i in range(70) if i not in (3, 40)]
    assert torch.equal(c[0], expected[0])
    assert torch.equal(c[1, rest], expected[1, rest])


def test_the_same_again(torch, rng, half):
    """Bits are the device's, but they are the same each time."""
    a, b = stacks(torch, rng, half, (1, 33, 200_000), (1, 200_000, 40))
    first = smallmm.matmul(a, b, precision="tensor")
    for _ in range(3):
        assert torch.equal(smallmm.matmul(a, b, precision="tensor"), first)


def test_derivatives(torch, rng, half):
    a, b = (x.requires_grad_() for x in stacks(torch, rng, half, (2, 70, 80), (2, 80, 90)))
    (g,) = stacks(torch, rng, half, (2, 70, 90))
    smallmm.matmul(a, b, precision="tensor").backward(g / 8)
    check(a.grad, g / 8, b.mT.detach())
    check(b.grad, a.mT.detach(), g / 8)


def test_explain_and_errors(torch, half):
    x = torch.ones(200, 200, device="cuda", dtype=half)
    plan = smallmm.explain("matmul", x, x, precision="tensor")
    assert plan.kernel.startswith("smm_matmul_tensor_")
    assert "tensor" not in smallmm.explain("matmul", x, x).kernel
    with pytest.raises(ValueError, match="matmul: x1 has dtype float32; expected float16 or bfloat16"):
        smallmm.matmul(x.float(), x.float(), precision="tensor")


TILES = [  # rows, cols, lanes, across, threads, depth
    (8, 16, 256, 16, 256, 64),
    (2, 4, 32, 4, 128, 16),
    (4, 8, 64, 4, 128, 128),
]


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_other_tiles(torch, rng, half, tile):
    cuda.device_name()  # looks for tables once
    problem = {"dtype": {torch.float16: "f16", torch.bfloat16: "bf16"}[half], "form": _core.forms["tensor"]}
    names = ("rows", "cols", "lanes", "across", "threads", "depth")
    row = {"kernel": "matmul_tensor", **dict(zip(names, tile, strict=True)), "stages": 3, "levels": 2}
    shapes = [(200, 300, 150), (64, 5000, 48)]
    try:
        _core.cuda_tune([{**problem, **row, "m": m, "k": k, "n": n} for m, k, n in shapes])
        for m, k, n in shapes:
            a, b = stacks(torch, rng, half, (m, k), (k, n))
            check(smallmm.matmul(a / 16, b, precision="tensor"), a / 16, b)
    finally:
        _core.cuda_tune([*tuned.load().rows])

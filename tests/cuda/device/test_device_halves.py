"""float16 and bfloat16 on a GPU: the CPU's bits for every operation; conversions of all values; mixtures;
what is computed in float32; the other libraries."""

import itertools
import sys

import numpy as np
import pytest
from cases import OF_SQUARE, OF_TALL, OF_WIDE, SYSTEMS, names, operands
from matrices import kinds, normal
from test_device_linalg import MANY, RECTANGLES, on_host
from test_device_matmul import LAYOUTS

import smallmm
from smallmm import _core
from smallmm._base.shapes import is_bfloat16, register_bfloat16

pytestmark = pytest.mark.usefixtures("torch_cuda")

HALVES = ["float16", "bfloat16"]
ORDERS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 31, 32)


@pytest.fixture(params=HALVES)
def half(request):
    dtype = np.dtype(np.float16)
    if request.param == "bfloat16":
        dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    register_bfloat16(dtype)
    return dtype


def on_device(torch, x):
    """PyTorch takes no bfloat16 from NumPy."""
    x = np.ascontiguousarray(x)
    if is_bfloat16(x.dtype):
        return torch.from_numpy(x.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(x).cuda()


def regular(rng, n, half):
    """A stack of matrices that rounding to halves leaves regular."""
    return (rng.uniform(-1, 1, (9, n, n)) + 2 * n * np.eye(n)).astype(half)


def bits(x):
    """Of a tensor or an array as integers, NaN for NaN: 0x7fff."""
    if not isinstance(x, np.ndarray):
        nan = x.isnan().cpu().numpy()
        x = x.view(sys.modules["torch"].int16).cpu().numpy()
    else:
        nan, x = np.isnan(x), x.view(np.int16)
    return np.where(nan, 0x7FFF, x)


def assert_same_bits(name, results, expected):
    results = results if isinstance(results, tuple) else (results,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for i, (x, y) in enumerate(zip(results, expected, strict=True)):
        assert str(x.dtype).removeprefix("torch.") == y.dtype.name, (name, i)
        assert x.shape == y.shape, (name, i)
        if y.dtype in (np.int32, np.complex64):
            np.testing.assert_array_equal(x.cpu().numpy(), y, f"{name} {i}")
        else:
            np.testing.assert_array_equal(bits(x), bits(y), f"{name} {i}")


def call(torch, name, arrays, *outs):
    x = [on_device(torch, y) if y.ndim else y for y in arrays]
    result = _core.direct[name](*x, *outs)
    assert result is not NotImplemented
    return result


@pytest.mark.parametrize("name", OF_SQUARE)
def test_every_operation(torch, rng, half, name):
    for n in ORDERS:
        arrays = operands(rng, name, kinds(rng, n, n, half))
        for count in (1, len(arrays[0]), MANY):
            part = [np.resize(x, (count, *x.shape[1:])) for x in arrays]
            assert_same_bits(name, call(torch, name, part), on_host(name, part))


@pytest.mark.parametrize(("m", "n"), [*((n, n) for n in ORDERS), *RECTANGLES])
def test_rectangles(torch, rng, half, m, n):
    for name in OF_TALL if m >= n else OF_WIDE:
        arrays = operands(rng, name, kinds(rng, m, n, half))
        assert_same_bits(name, call(torch, name, arrays), on_host(name, arrays))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(torch, rng, layout):
    """Of float16, which LAYOUTS can make; in place, too."""
    half = np.dtype(np.float16)
    for name in names("factors") + SYSTEMS + OF_TALL:
        for n in (1, 3, 8, 17, 32):
            arrays = operands(rng, name, kinds(rng, n, n, half))
            x = [LAYOUTS[layout](torch, y) if y.ndim > 2 else torch.from_numpy(y).cuda() for y in arrays]
            assert_same_bits(name, _core.direct[name](*x), on_host(name, arrays))
    for n in (2, 7, 16):
        a = regular(rng, n, half)
        x = LAYOUTS[layout](torch, a)
        assert_same_bits("inv", (smallmm.inv(x, out=x),), (smallmm.inv(a),))


def test_products(torch, rng, half):
    sizes = [(n, n, n) for n in (*range(1, 34), 48, 64)] + [(5, 3, 1), (1, 40, 2), (64, 7, 33)]
    for (m, k, n), batch in itertools.product(sizes, (1, 67, 1003)):
        a, b, c = (normal(rng, (batch, *size), half) for size in ((m, k), (k, n), (m, n)))
        x, y = on_device(torch, a), on_device(torch, b)
        assert_same_bits("matmul", smallmm.batched_matmul(x, y), smallmm.batched_matmul(a, b))
        if batch != 67:
            continue
        for given, its in ((x[0], a[0]), (x[:1], a[:1])):
            assert_same_bits("matmul", smallmm.batched_matmul(given, y), smallmm.batched_matmul(its, b))
        found = smallmm.batched_matmul(x.mT.contiguous().mT, y[1])
        assert_same_bits("matmul", found, smallmm.batched_matmul(a, b[1]))
        for alpha, beta in ((0.1, 1 / 3), (1 + 2.0**-11 + 2.0**-40, 0), (-2, 1)):
            out = on_device(torch, c)
            assert smallmm.batched_matmul(x, y, out=out, alpha=alpha, beta=beta) is out
            wanted = smallmm.batched_matmul(a, b, c.copy(), alpha=alpha, beta=beta)
            assert_same_bits("matmul", out, wanted)


def test_diagonals(torch, rng, half):
    for n in (1, 3, 33, 200):
        ab, b = normal(rng, (70, 3, n), half), normal(rng, (70, n, 2), half)
        ab[:, 1] += half.type(20)
        x, y = on_device(torch, ab), on_device(torch, b)
        assert_same_bits(
            "tridiagonal",
            smallmm.solve_tridiagonal(x[:, 2, :-1], x[:, 1], x[:, 0, 1:], y),
            smallmm.solve_tridiagonal(ab[:, 2, :-1], ab[:, 1], ab[:, 0, 1:], b),
        )
        found, expected = smallmm.solve_banded((1, 1), x, y), smallmm.solve_banded((1, 1), ab, b)
        assert_same_bits("banded", found, expected)
        found, expected = smallmm.solveh_banded(x[:, :2], y), smallmm.solveh_banded(ab[:, :2], b)
        assert_same_bits("positive definite", found, expected)


def test_every_value(torch, half):
    """All 65,536 of each type are read; products round to what is between them, too small or too large."""
    every = np.arange(1 << 16, dtype=np.uint16).view(half).reshape(-1, 1, 1)
    x = on_device(torch, every)
    for factor in (1, 1 + 2.0**-7, 1 / 3, 2.0**-15, 2.0**-24, -(2.0**9), 2.0**15, np.inf):
        one = np.full((1, 1), factor, half)
        with np.errstate(all="ignore"):
            expected = smallmm.batched_matmul(every, one)
        assert_same_bits("matmul", smallmm.batched_matmul(x, on_device(torch, one)), expected)
    chance = np.random.default_rng(0)
    for _ in range(20):
        other = chance.integers(0, 1 << 16, 1 << 16, dtype=np.uint16).view(half).reshape(-1, 1, 1)
        with np.errstate(all="ignore"):
            expected = smallmm.batched_matmul(every, other)
        assert_same_bits("matmul", smallmm.batched_matmul(x, on_device(torch, other)), expected)


def test_mixtures(torch, rng, half):
    a, b = normal(rng, (9, 4, 4), half), rng.standard_normal((9, 4, 2)).astype(np.float32)
    x, y = on_device(torch, a), torch.from_numpy(b).cuda()
    found = smallmm.solve(x, y)
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.cpu().numpy(), smallmm.solve(a, b))
    assert smallmm.batched_matmul(x, y.double()).dtype == torch.float64
    integers = torch.ones(9, 4, 4, dtype=torch.int8, device="cuda")
    found, expected = smallmm.matmul(x, integers), smallmm.matmul(a, np.ones((9, 4, 4), np.int8))
    assert_same_bits("matmul", found, expected)
    with pytest.raises(TypeError, match=r"x1 has dtype float16 but x2 has bfloat16; expected one of them"):
        smallmm.matmul(x.to(torch.float16), x.to(torch.bfloat16))


def test_what_has_no_kernel_of_halves(torch, rng, half):
    """Products above order 64 and compositions are computed in float32, and rounded."""
    dtype = getattr(torch, half.name)
    a = normal(rng, (3, 70, 70), half)
    x = on_device(torch, a)
    found = smallmm.batched_matmul(x, x)
    assert found.dtype == dtype
    wide = (x.double() @ x.double()).cpu().numpy()
    np.testing.assert_allclose(found.double().cpu().numpy(), wide, rtol=2.0**-7, atol=2.0**-5)
    small = x[:, :4, :4]
    assert smallmm.norm(small, axis=(-2, -1)).dtype == dtype
    assert smallmm.inv(x[:0, :3, :3]).dtype == dtype
    assert smallmm.det(x[:, :0, :0]).dtype == dtype
    assert smallmm.solve(small, small[..., :0]).dtype == dtype


def test_explain_and_warmup(torch, half):
    x = on_device(torch, np.broadcast_to(np.eye(4, dtype=half), (5, 4, 4)))
    name = {"float16": "f16", "bfloat16": "bf16"}[half.name]
    plan = smallmm.explain("inv", x)
    assert plan.computed == "float32"
    assert f"_{name}_sm" in plan.kernel
    assert plan.bytes == 5 * 2 * 16 * 2
    rows = smallmm.cuda.warmup([3], op="inv", dtypes=[half.name, name])
    assert {row["dtype"] for row in rows} == {name}


def test_bfloat16_without_ml_dtypes(torch, monkeypatch):
    """One dtype needs no NumPy's; a mixture does."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = torch.eye(3, device="cuda", dtype=torch.bfloat16).repeat(4, 1, 1)
    assert torch.equal(smallmm.batched_matmul(x, x), x)
    with pytest.raises(TypeError, match=r"a has dtype bfloat16, which NumPy has with ml_dtypes alone"):
        smallmm.batched_matmul(x, x.float())


def test_gradients(torch, half):
    x = torch.eye(3, device="cuda", dtype=getattr(torch, half.name)).repeat(4, 1, 1).requires_grad_()
    smallmm.inv(2 * x).sum().backward()
    assert x.grad.dtype == x.dtype
    assert torch.isfinite(x.grad).all()


def test_cupy(required, rng, half):
    cupy = required("cupy")
    a, b = regular(rng, 7, half), normal(rng, (9, 7, 2), half)
    try:
        x, y = cupy.asarray(a), cupy.asarray(b)
    except (TypeError, ValueError):
        pytest.skip(f"this CuPy has no {half}")
    found = smallmm.solve(x, y)
    assert isinstance(found, cupy.ndarray)
    assert found.dtype == half
    np.testing.assert_array_equal(bits(found.get()), bits(smallmm.solve(a, b)))


def test_jax(required, rng, half):
    jax = required("jax")
    a = regular(rng, 5, half)
    x = jax.numpy.asarray(a)
    for found in (smallmm.inv(x), jax.jit(smallmm.inv)(x)):
        assert found.dtype == half
        np.testing.assert_array_equal(bits(np.asarray(found)), bits(smallmm.inv(a)))


def test_own_arrays(rng, half):
    a = regular(rng, 6, half)
    x = smallmm.cuda.to_device(a)
    assert smallmm.inv(x).dtype == half
    np.testing.assert_array_equal(bits(smallmm.inv(x).to_host()), bits(smallmm.inv(a)))
    np.testing.assert_array_equal(bits(smallmm.cuda.offload(smallmm.inv, a)), bits(smallmm.inv(a)))

"""Factorizations and solves on a GPU: the CPU's bits for every operation, order, layout and kind of matrix;
what people call, with its errors; the other libraries."""

import re

import numpy as np
import pytest
from accuracy import as_tuple, same_signs
from cases import OF_DOUBLES, OF_SQUARE, OF_TALL, OF_WIDE, SYSTEMS, operands
from matrices import good, kinds
from test_device_matmul import LAYOUTS

import smallmm
from smallmm import _core

pytestmark = pytest.mark.usefixtures("torch_cuda")

ORDERS = [*range(1, 33)]
LARGE = [33, 40, 64, 65, 100, 127, 128]  # of matrices that a block shares
MANY = 4321  # more matrices than those batches have that the plan takes for small
RECTANGLES = [
    (3, 2),
    (5, 1),
    (1, 5),
    (7, 4),
    (4, 7),
    (12, 8),
    (16, 5),
    (5, 16),
    (32, 8),
    (8, 32),
    (33, 31),
    (100, 10),
]


def on_host(name, arrays):
    with np.errstate(all="ignore"):
        return as_tuple(getattr(_core, name)(*arrays))


def assert_cpu_bits(name, results, arrays):
    assert_same_bits(results, on_host(name, arrays))


def assert_same_bits(results, expected):
    """NaN for NaN."""
    for i, (x, y) in enumerate(zip(as_tuple(results), expected, strict=True)):
        x = x.cpu().numpy()
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        np.testing.assert_array_equal(x, y)
        assert same_signs(x, y), f"output {i}: a zero of the other sign"


def call(torch, name, arrays, *outs):
    x = [torch.from_numpy(y).cuda() if y.ndim else y for y in arrays]
    result = _core.direct[name](*x, *outs)
    assert result is not NotImplemented
    return result


@pytest.mark.parametrize("name", OF_SQUARE)
def test_every_order(torch, rng, dtype, name):
    for n in ORDERS:
        arrays = operands(rng, name, kinds(rng, n, n, dtype))
        for count in (1, len(arrays[0]), MANY):
            part = [np.resize(x, (count, *x.shape[1:])) for x in arrays]
            assert_cpu_bits(name, call(torch, name, part), part)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("name", OF_SQUARE)
def test_orders_of_a_block(torch, rng, dtype, name):
    operation = _core.gufunc_rows[name][0]
    for n in LARGE:
        if n <= _core.cuda_max_order(operation, np.dtype(dtype)):
            arrays = operands(rng, name, kinds(rng, n, n, dtype))
            assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize("name", OF_TALL)
def test_every_order_of_qr(torch, rng, dtype, name):
    for n in ORDERS:
        arrays = operands(rng, name, kinds(rng, n, n, dtype))
        for count in (len(arrays[0]), MANY):
            part = [np.resize(x, (count, *x.shape[1:])) if x.ndim else x for x in arrays]
            assert_cpu_bits(name, call(torch, name, part), part)


@pytest.mark.parametrize("n", [33, 48, 64, 65, 100, 128])
@pytest.mark.parametrize("number", [np.float32, np.float64, np.complex64, np.complex128])
def test_large_orders(torch, rng, number, n):
    """Of which a block takes each matrix."""
    for name in (*OF_SQUARE, *OF_TALL):
        if _core.cuda_takes(getattr(_core, name), np.dtype(number), n, n, n):
            arrays = operands(rng, name, kinds(rng, n, n, number)[::7])
            assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize(("m", "n"), [(20, 60), (128, 100), (1000, 16), (4, 4096), (5000, 3), (2, 3000)])
@pytest.mark.parametrize("number", [np.float64, np.complex128])
def test_large_rectangles(torch, rng, number, m, n):
    for name in OF_TALL if m >= n else OF_WIDE:
        k = m if name == "qr_complete" else min(m, n)
        if k <= 1000 and _core.cuda_takes(getattr(_core, name), np.dtype(number), m, k, n):
            arrays = operands(rng, name, kinds(rng, m, n, number)[::7])
            assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize(("m", "n"), RECTANGLES)
def test_rectangles(torch, rng, dtype, m, n):
    for name in OF_TALL if m >= n else OF_WIDE:
        arrays = operands(rng, name, kinds(rng, m, n, dtype))
        assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize("name", [*SYSTEMS, "lstsq"])
def test_right_hand_sides(torch, rng, dtype, name):
    """Any number of columns, more than a kernel takes at a time, and b as one vector."""
    for n, k in ((1, 1), (3, 1), (4, 4), (7, 16), (8, 17), (16, 33), (31, 5), (32, 100)):
        arrays = operands(rng, name, kinds(rng, n, n, dtype), k)
        assert_cpu_bits(name, call(torch, name, arrays), arrays)
    arrays = [x[1, ...] for x in operands(rng, name, good(rng, 5, 5, dtype), 1)]
    arrays[-1 - (name == "lstsq")] = arrays[-1 - (name == "lstsq")][:, 0]
    assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize("name", OF_DOUBLES)
def test_mixed_precision(torch, rng, name):
    for n in ORDERS:
        for k, count in ((1, 1), (3, 70), (40, 70), (1, MANY)):
            arrays = operands(rng, name, kinds(rng, n, n, np.float64), k)
            part = [np.resize(x, (count, *x.shape[1:])) for x in arrays]
            assert_cpu_bits(name, call(torch, name, part), part)


@pytest.mark.parametrize("name", [*OF_SQUARE, *OF_TALL, *OF_DOUBLES])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(torch, rng, name, layout):
    for n in (1, 3, 8, 17, 32):
        for dtype in (np.float32, np.float64) if n == 8 and name not in OF_DOUBLES else (np.float64,):
            arrays = operands(rng, name, kinds(rng, n, n, dtype))
            x = [LAYOUTS[layout](torch, y) if y.ndim > 2 else y for y in arrays]
            x = [torch.from_numpy(y).cuda() if isinstance(y, np.ndarray) and y.ndim else y for y in x]
            assert_cpu_bits(name, _core.direct[name](*x), arrays)


@pytest.mark.parametrize("name", [*OF_SQUARE, *OF_TALL, *OF_DOUBLES])
@pytest.mark.parametrize("layout", ["transposed", "padded", "batch last", "off by one element"])
def test_layouts_of_out(torch, rng, name, layout):
    for n in (3, 8, 17, 32):
        arrays = operands(rng, name, kinds(rng, n, n, np.float64))
        x = [torch.from_numpy(y).cuda() if y.ndim else y for y in arrays]
        expected = on_host(name, arrays)
        outs = [
            LAYOUTS[layout](torch, np.full_like(y, -3))
            if y.ndim == 3
            else torch.full((*y.shape, 2), -3, dtype=torch.from_numpy(y).dtype, device="cuda")[..., 0]
            for y in expected
        ]
        results = as_tuple(_core.direct[name](*x, *outs))
        assert all(result is out for result, out in zip(results, outs, strict=True))
        assert_cpu_bits(name, results, arrays)


@pytest.mark.parametrize("name", ["lu_factor", "inv"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_many(torch, rng, dtype, name, layout):
    """In and out: of the larger orders kernels of their own factor many matrices."""
    for n in (28, 31):
        a = np.resize(kinds(rng, n, n, dtype), (MANY, n, n))
        expected = on_host(name, [a])
        outs = [torch.full(y.shape, -3, dtype=torch.from_numpy(y).dtype, device="cuda") for y in expected]
        outs[0] = LAYOUTS[layout](torch, np.full_like(a, -3))
        assert_cpu_bits(name, _core.direct[name](LAYOUTS[layout](torch, a), *outs), [a])


def test_broadcast(torch, rng, dtype):
    for n in (3, 8, 20):
        a, b = good(rng, n, n, dtype)[:6], rng.standard_normal((5, 6, n, 2)).astype(dtype)
        for x, y in ((a[0], b), (a, b), (a[:, None, None], b[0, 0]), (np.stack([a, a])[:, None], b)):
            assert_cpu_bits("solve", call(torch, "solve", [x, y]), [x, y])
    many = good(rng, 4, 4, dtype)[:1].reshape(1, 1, 1, 4, 4)
    many = np.broadcast_to(many, (3, 1, 2, 4, 4)) + np.arange(6, dtype=dtype).reshape(3, 1, 2, 1, 1)
    x = torch.from_numpy(many).cuda().expand(3, 4, 2, 4, 4).transpose(0, 2)
    host = np.broadcast_to(many, (3, 4, 2, 4, 4)).swapaxes(0, 2)
    assert_cpu_bits("inv", _core.direct["inv"](x), [host])


@pytest.mark.parametrize(
    "name", ["lu_factor", "inv", "cholesky", "cholesky_upper", "solve", "solve_upper", "cho_solve"]
)
def test_in_place(torch, rng, dtype, name):
    """An output that is an input, matrix by matrix; and one that overlaps it otherwise, which goes aside."""
    for n in (1, 2, 4, 5, 8, 16, 32):
        arrays = operands(rng, name, kinds(rng, n, n, dtype), n)
        for which in range(len(arrays)):
            x = [torch.from_numpy(y).cuda() for y in arrays]
            result = as_tuple(_core.direct[name](*x, x[which]))
            assert result[0] is x[which]
            assert_cpu_bits(name, result, arrays)
    a = np.stack([np.eye(4) * (i + 2) for i in range(10)])
    x = torch.from_numpy(a).cuda()
    assert _core.direct["inv"](x[:-1], x[1:]) is NotImplemented
    smallmm.inv(x[:-1], out=x[1:])
    np.testing.assert_array_equal(x[1:].cpu().numpy(), smallmm.inv(a[:-1]))


def test_what_people_call(torch, rng):
    a = rng.standard_normal((50, 6, 6)) + 6 * np.eye(6)
    spd, b = a @ a.mT, rng.standard_normal((50, 6, 3))
    x, s, y = (torch.from_numpy(z).cuda() for z in (a, spd, b))

    def same(device, host):
        if isinstance(host, tuple):
            assert type(device) is type(host)
            return [same(d, h) for d, h in zip(device, host, strict=True)]
        assert isinstance(device, torch.Tensor)
        assert device.is_cuda
        return np.testing.assert_allclose(device.cpu().numpy(), host, rtol=1e-13)

    sm = smallmm
    for function in (sm.lu_factor, sm.lu_factor_ex, sm.inv, sm.inv_ex, sm.det, sm.slogdet):
        same(function(x), function(a))
    for function in (sm.cholesky, sm.cholesky_ex):
        same(function(s), function(spd))
        same(function(s, upper=True), function(spd, upper=True))
    for function in (sm.solve, sm.solve_ex, sm.lstsq, sm.lstsq_ex, sm.solve_triangular):
        same(function(x, y), function(a, b))
    same(sm.lstsq(x, y, rtol=0.5), sm.lstsq(a, b, rtol=0.5))
    far, right = np.diag([1e250, 1e240]), np.full(2, 1e300)  # scaled back in two steps x would overflow
    same(sm.lstsq(*(torch.from_numpy(z).cuda() for z in (far, right))), sm.lstsq(far, right))
    rtol = np.linspace(0, 1, 50)
    same(sm.lstsq(x, y, rtol=torch.from_numpy(rtol).cuda()), sm.lstsq(a, b, rtol=rtol))
    for trans in (0, 1):
        same(sm.lu_solve(sm.lu_factor(x), y, trans), sm.lu_solve(sm.lu_factor(a), b, trans))
        same(sm.solve_triangular(x, y, trans, True, True), sm.solve_triangular(a, b, trans, True, True))
    lu, pivots = sm.lu_factor(x)
    same(sm.lu_solve((lu, pivots.long()), y), sm.lu_solve(sm.lu_factor(a), b))
    same(sm.cho_solve((sm.cholesky(s), True), y), sm.cho_solve((sm.cholesky(spd), True), b))
    for mode in ("reduced", "complete", "r", "raw"):
        same(sm.qr(x[:, :, :4], mode), sm.qr(a[:, :, :4], mode))
        same(sm.qr(x[:, :4], mode), sm.qr(a[:, :4], mode))
    same(sm.solve(x.float(), y), sm.solve(a.astype(np.float32), b))
    same(sm.inv((10 * x).int()), sm.inv((10 * a).astype(np.int32)))


def test_bad_matrices(torch, rng):
    a = rng.standard_normal((1000, 5, 5))
    a[[7, 300]] = 0
    x = torch.from_numpy(a).cuda()
    with pytest.raises(
        smallmm.LinAlgError, match=r"2 of 1000 matrices are singular, the first at index \(7,\)"
    ) as e:
        smallmm.inv(x)
    assert e.value.info.is_cuda
    assert e.value.info.nonzero().ravel().tolist() == [7, 300]
    assert e.value.result[7].isnan().all()
    np.testing.assert_array_equal(e.value.result.cpu().numpy(), smallmm.inv_ex(a).inverse)
    with pytest.raises(smallmm.LinAlgError, match="not positive definite"):
        smallmm.cholesky(-x @ x.mT)
    with pytest.raises(smallmm.LinAlgError, match=r"^Singular matrix"):
        smallmm.solve(x[7], x[0])
    with pytest.raises(smallmm.LinAlgError, match="element 1 of the diagonal is zero"):
        smallmm.solve_triangular(x, x)
    assert (smallmm.det(x) == 0).nonzero().ravel().tolist() == [7, 300]


def test_nothing_and_too_much(torch):
    for shape in ((0, 4, 4), (3, 0, 0), (2, 0, 3, 3)):
        x = torch.ones(shape, device="cuda")
        host = np.ones(shape, np.float32)
        for function in (smallmm.inv, smallmm.det, smallmm.lu_factor_ex, smallmm.cholesky, smallmm.slogdet):
            for device, expected in zip(as_tuple(function(x)), as_tuple(function(host)), strict=True):
                assert device.is_cuda
                np.testing.assert_array_equal(device.cpu().numpy(), expected)
    x = torch.eye(3, device="cuda").repeat(4, 1, 1)
    x[2] = 0
    assert smallmm.solve_ex(x, x[..., :0]).info.tolist() == [0, 0, 1, 0]
    result = smallmm.lstsq(torch.ones(4, 3, 0, device="cuda"), torch.ones(4, 3, 2, device="cuda"))
    assert result.x.shape == (4, 0, 2)
    np.testing.assert_allclose(result.residual_norms.cpu().numpy(), np.sqrt(3), rtol=1e-6)
    with pytest.raises(smallmm.LinAlgError, match="inv: 2 of 2 matrices are singular"):
        smallmm.inv(torch.ones(2, 33, 33, device="cuda"))


def test_errors(torch):
    x = torch.eye(3, device="cuda").repeat(4, 1, 1)
    with pytest.raises(
        TypeError, match=r"b is a torch.Tensor on the host but a is a torch.Tensor on a device"
    ):
        smallmm.solve(x, x.cpu())
    with pytest.raises(ValueError, match=r"solve: b has shape \(4, 2, 3\); expected \(..., 3, k\)"):
        smallmm.solve(x, x[:, :2])
    with pytest.raises(ValueError, match=r"inv: a has shape \(4, 2, 3\); expected square matrices"):
        smallmm.inv(x[:, :2])
    with pytest.raises(ValueError, match=r"out\[1\] has shape \(3,\); expected \(4,\)"):
        smallmm.inv_ex(x, out=(None, torch.zeros(3, dtype=torch.int32, device="cuda")))
    with pytest.raises(TypeError, match=r"requires a gradient"):
        smallmm.qr(x.clone().requires_grad_(), mode="raw")
    with pytest.raises(TypeError, match=r"pivots has dtype float32; expected an integer type"):
        smallmm.lu_solve((x, x[..., 0]), x)


def test_pivots_that_are_no_rows(torch, rng):
    arrays = operands(rng, "lu_solve", good(rng, 6, 6, np.float64))
    arrays[1] = rng.integers(-3, 9, arrays[1].shape).astype(np.int32)
    for name in ("lu_solve", "lu_solve_transposed"):
        results = as_tuple(call(torch, name, arrays))
        expected = tuple(np.empty_like(x.cpu().numpy()) for x in results)
        with pytest.raises(ValueError, match="an operand"):  # the host computes all, then complains
            getattr(_core, name)(*arrays, out=expected)
        assert_same_bits(results, expected)


def test_graph_without_synchronising(torch, rng):
    a = rng.standard_normal((1000, 8, 8))
    x = torch.from_numpy(a).cuda()
    b = x[..., :1].contiguous()
    smallmm.inv_ex(x)
    smallmm.solve_ex(x, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inverse, info = smallmm.inv_ex(x)
        solution = smallmm.solve_ex(x, b).x
    x[3] = 0
    graph.replay()
    torch.cuda.synchronize()
    assert info.nonzero().ravel().tolist() == [3]
    a[3] = 0
    np.testing.assert_array_equal(inverse.cpu().numpy(), smallmm.inv_ex(a).inverse)
    np.testing.assert_array_equal(solution.cpu().numpy(), smallmm.solve_ex(a, b.cpu().numpy()).x)


def test_no_allocation(torch):
    x = torch.rand(1000, 6, 6, device="cuda")
    outs = smallmm.inv_ex(x)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(10):
        smallmm.inv_ex(x, out=tuple(outs))
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_stream(torch):
    x, twice = torch.zeros(200_000, 4, 4, device="cuda"), torch.eye(4, device="cuda") * 2
    with torch.cuda.stream(torch.cuda.Stream()):
        smallmm.inv_ex(x)  # whose memory serves the call that is watched
        x.copy_(twice)
        torch.cuda.synchronize()
        x.zero_()
        torch.cuda._sleep(1_000_000_000)
        x.copy_(twice)
        inverse, _ = smallmm.inv_ex(x)
        done = torch.cuda.Event()
        done.record()
        assert not done.query(), "the call waited for the stream"
        assert (inverse.sum() == 200_000 * 2).item()


@pytest.mark.parametrize(("batch", "n"), [(10_000_001, 2), (2_200_000, 32)])
def test_many(torch, rng, batch, n):
    """More matrices, and more elements, than 32 bits count."""
    x = torch.randn(batch, n, n, device="cuda")
    picks = [0, 1, batch // 2, batch - 2, batch - 1]
    for function in (smallmm.inv_ex, smallmm.lu_factor_ex, lambda x: smallmm.qr(x, mode="raw")):
        for got, expected in zip(function(x), function(x[picks].cpu().numpy()), strict=True):
            np.testing.assert_array_equal(got[picks].cpu().numpy(), expected)
        del got


def test_explain(torch):
    x = torch.rand(1000, 8, 8, device="cuda")
    how = smallmm.explain("inv", x)
    assert re.fullmatch(r"smm_inv_\w+_f32_sm\d+", how.kernel)
    assert how.isa.startswith("sm_")
    assert how.matrices == 1000
    assert how.bytes == 1000 * (2 * 64 * 4)
    assert smallmm.explain("batched_matmul", x, x).strategy in ("staged", "direct", "whole")


def test_calls_find_the_tuned_rows(torch):
    """A call describes its problem as the rows do."""
    device, arch, shared = _core.cuda_device(0)
    for name, op in (("lu_factor", "LU"), ("inv", "INV"), ("det", "DET"), ("cholesky", "CHOLESKY")):
        for n in (5, 12, 24):
            how = smallmm.explain(name, torch.rand(5000, n, n, device="cuda"))
            problem = {"op": op, "dtype": "f32", "m": n, "k": 1, "n": n, "device": device, "arch": arch}
            plan = _core.cuda_plan(problem, shared)
            assert how.kernel == f"smm_{plan['kernel']}_f32_sm{arch}"
            assert (how.threads, how.group) == (plan["block"], plan["matrices"])
            assert how.tuned_on == plan["tuned_on"]


def test_cupy(required, rng):
    cupy = required("cupy")
    a, b = rng.standard_normal((50, 6, 6)), rng.standard_normal((50, 6, 2))
    x, y = cupy.asarray(a), cupy.asarray(b)
    solution = smallmm.solve(x, y)
    assert type(solution) is cupy.ndarray
    np.testing.assert_array_equal(solution.get(), smallmm.solve(a, b))
    out = (cupy.empty((50, 6, 6)), cupy.empty(50, cupy.int32))
    smallmm.inv_ex(x, out=out)
    np.testing.assert_array_equal(out[0].get(), smallmm.inv(a))
    for got, expected in zip(smallmm.qr(x), smallmm.qr(a), strict=True):
        np.testing.assert_array_equal(got.get(), expected)
    for got, expected in zip(smallmm.lstsq(x[:, ::-1], y), smallmm.lstsq(a[:, ::-1], b), strict=True):
        np.testing.assert_array_equal(got.get(), expected)
    x[3] = 0
    with pytest.raises(smallmm.LinAlgError, match="1 of 50"):
        smallmm.inv(x)


@pytest.fixture
def jax(required, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = required("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    return jax


def test_jax(jax, rng):
    a, b = (
        rng.standard_normal((50, 6, 6)).astype(np.float32),
        rng.standard_normal((50, 6, 2)).astype(np.float32),
    )
    x, y = jax.numpy.asarray(a), jax.numpy.asarray(b)
    for got, expected in zip(smallmm.lu_factor_ex(x), smallmm.lu_factor_ex(a), strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected)
    np.testing.assert_array_equal(np.asarray(smallmm.solve(x, y)), smallmm.solve(a, b))


@pytest.mark.parametrize("n", [8, 32, 40])
def test_jax_of_complex(jax, rng, n):
    """JAX takes over memory of ours: elements of the right type, and as many."""
    a = rng.standard_normal((3, n, n, 2)).astype(np.float32) @ np.array([1, 1j], np.complex64)
    a += n * np.eye(n, dtype=np.complex64)
    x = jax.numpy.asarray(a)
    for found, expected in (
        (smallmm.matmul(x, x), smallmm.matmul(a, a)),
        (smallmm.inv(x), smallmm.inv(a)),
        (smallmm.matrix_power(x, -2), smallmm.matrix_power(a, -2)),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-4)
    larger = smallmm.fuse(lambda x, y: x > y)
    found = larger(x.real, x.imag)
    assert found.dtype == bool
    np.testing.assert_array_equal(np.asarray(found), a.real > a.imag)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", ["inv", "solve", "qr", "eigh", "lstsq", "matmul", "slogdet", "lu_factor"])
def test_compiled_by_jax(jax, rng, name, dtype):
    function = getattr(smallmm, name)
    count = 2 if name in ("solve", "lstsq", "matmul") else 1
    numbers = [rng.standard_normal((*s, 2)) @ [1, 1j] for s in ((50, 6, 6), (50, 6, 2))[:count]]
    arrays = [(x if dtype == np.complex64 else x.real).astype(dtype) for x in numbers]
    expected = jax.tree.leaves(function(*arrays))
    for transform in (jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f))):
        found = jax.tree.leaves(transform(lambda *x: tuple(jax.tree.leaves(function(*x))))(*arrays))
        for got, wanted in zip(found, expected, strict=True):
            assert got.devices() == {jax.devices("gpu")[0]}
            np.testing.assert_array_equal(np.asarray(got), wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", ["inv", "solve", "eigvalsh", "matmul"])
def test_derivatives_in_jax(jax, rng, name, dtype):
    """Reverse and forward, compiled: what they are on the CPU."""
    count = 2 if name in ("solve", "matmul") else 1
    numbers = [rng.standard_normal((*s, 2)) @ [1, 1j] for s in ((9, 3, 3), (9, 3, 2))[:count]]
    arrays = [(x if dtype == np.complex64 else x.real).astype(dtype) for x in numbers]

    def loss(*x):
        return (abs(getattr(smallmm, name)(*x)) ** 2).sum()

    derivatives = [jax.jit(jax.grad(loss, tuple(range(count)))), jax.jit(lambda *x: jax.jvp(loss, x, x)[1])]
    for derivative in derivatives:
        found, expected = (
            jax.tree.leaves(derivative(*(jax.device_put(x, jax.devices(where)[0]) for x in arrays)))
            for where in ("gpu", "cpu")
        )
        for x, y in zip(found, expected, strict=True):
            scale = np.abs(y).max()
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-3, atol=1e-3 * scale)


def test_compiled_by_jax_of_few_rights(jax, rng):
    a, b = rng.standard_normal((5, 4, 4)).astype(np.float16), rng.standard_normal((4, 3)).astype(np.float16)
    found = jax.jit(jax.vmap(smallmm.solve, in_axes=(0, None)))(a, b)
    np.testing.assert_array_equal(np.asarray(found), smallmm.solve(a, b))
    gradient = jax.grad(lambda a: smallmm.slogdet(a).logabsdet.sum())(2 * jax.numpy.eye(4)[None])
    assert float(gradient[0, 0, 0]) == 0.5
    with pytest.raises(TypeError, match=r"inv: a has shape .* no kernel"):
        jax.jit(smallmm.inv)(jax.numpy.eye(140))


def test_numba(required, rng):
    cuda = required("numba.cuda")
    a = rng.standard_normal((50, 6, 6))
    x = cuda.to_device(a)
    np.testing.assert_array_equal(smallmm.inv(x).copy_to_host(), smallmm.inv(a))
    with pytest.raises(smallmm.LinAlgError, match="50 of 50"):
        smallmm.cholesky(cuda.to_device(-np.eye(3) * np.ones((50, 1, 1))))

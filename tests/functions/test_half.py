"""float16 and bfloat16: every operation gives what it gives for the same numbers in float32, rounded once."""

import sys
from itertools import cycle

import numpy as np
import pytest
from accuracy import as_tuple, assert_same
from cases import DRAWN, GUFUNCS
from layouts import LAYOUTS, WRITABLE
from test_linalg import in_place

import smallmm
import smallmm._core as core


@pytest.fixture(params=["float16", "bfloat16"])
def half(request):
    if request.param == "float16":
        return np.dtype(np.float16)
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    smallmm.inv(np.eye(1, dtype=dtype))  # gufuncs know it once the package has seen it
    return dtype


@pytest.fixture(params=[name for name, row in DRAWN.items() if row.takes(np.float32)])
def case(request):
    return DRAWN[request.param]


def wide(x):
    return x if x.dtype.kind in "ic" else x.astype(np.float32)


def rounded(x, dtype):
    with np.errstate(all="ignore"):
        return x if x.dtype.kind in "ic" else x.astype(dtype)


def assert_same_halves(results, expected, dtype):
    """Equal to the bit, except that one NaN is as good as another."""
    results, expected = as_tuple(results), as_tuple(expected)
    assert len(results) == len(expected)
    for x, y in zip(results, expected, strict=True):
        if np.asarray(y).dtype.kind in "ic":  # there are no complex halves
            np.testing.assert_array_equal(x, y, strict=True)
        else:
            assert np.asarray(x).dtype == dtype
            assert_same(wide(np.asarray(x)), wide(rounded(np.asarray(y), dtype)))


def stored(case, m, n, dtype):
    """Operands of a case, of every kind, rounded."""
    operands = case.operands(np.random.default_rng([m, n]), m, n, np.dtype(np.float32))
    return [rounded(x, dtype) for x in operands]


def test_every_gufunc_has_a_row():
    assert GUFUNCS.keys() == core.gufunc_rows.keys()


def test_float32_rounded_once(isa, half, case):
    for m, n in case.few_shapes:
        operands = stored(case, m, n, half)
        expected = case.gufunc(*map(wide, operands))
        assert_same_halves(case.gufunc(*operands), expected, half)
        direct = core.direct[case.name](*operands, *[None] * case.gufunc.nout)
        assert direct is not NotImplemented
        assert_same_halves(direct, expected, half)


def test_layouts(half, case):
    layouts, outs = cycle(LAYOUTS.items()), cycle(WRITABLE.values())
    for m, n in [(n, n) for n in (1, 2, 3, 5, 8, 17)] if (5, 5) in case.shapes else case.few_shapes[:4]:
        operands = stored(case, m, n, half)
        for _ in LAYOUTS:
            (name, layout), place_out = next(layouts), next(outs)
            first = [np.broadcast_to(x[:1], x.shape) for x in operands] if name == "broadcast" else operands
            expected = [rounded(x, half) for x in as_tuple(case.gufunc(*map(wide, first)))]
            given = [x if name == "broadcast" else in_place(layout, x) for x in first]
            out = tuple(in_place(place_out, np.full_like(x, 7)) for x in expected)
            assert_same_halves(case.gufunc(*given, *out), tuple(expected), half)


@pytest.mark.parametrize("batch", [0, 1, 2, 15, 16, 17, 33, 500, 5000])
def test_batches(half, case, batch):
    """Around the edges of vectors and tiles, and on several threads."""
    operands = [np.resize(x, (batch, *x.shape[1:])) for x in stored(case, 4, 4, half)]
    expected = case.gufunc(*map(wide, operands))
    for threads in (1, 3):
        with smallmm.threads(threads):
            assert_same_halves(case.gufunc(*operands), expected, half)


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(n, n, n) for n in (1, 2, 3, 4, 7, 8, 16, 32, 33)]
    + [(3, 5, 1), (1, 5, 3), (2, 3000, 5), (200, 150, 170), (4, 0, 4), (1, 20000, 1)],
)
def test_products(isa, half, rng, m, k, n):
    batch = 3 if m * n > 2000 else 70
    a, b = (rounded(rng.standard_normal((batch, *s)), half) for s in ((m, k), (k, n)))
    wides = wide(a), wide(b)
    assert_same_halves(smallmm.matmul(a, b), smallmm.matmul(*wides), half)
    columns = np.ascontiguousarray(a.mT).mT, np.ascontiguousarray(b.mT).mT
    assert_same_halves(smallmm.matmul(*columns), smallmm.matmul(*wides), half)
    assert_same_halves(smallmm.matmul(a, b[:1]), smallmm.matmul(wides[0], wides[1][:1]), half)
    alpha, beta, c = (rounded(rng.standard_normal(s), half) for s in (batch, batch, (batch, m, n)))
    expected = smallmm.batched_matmul(*wides, alpha=wide(alpha), beta=wide(beta), out=wide(c))
    assert_same_halves(smallmm.batched_matmul(a, b, alpha=alpha, beta=beta, out=c), expected, half)


def test_nan_in_an_output_that_is_not_read(half):
    x, out = np.eye(3, dtype=half), np.full((3, 3), np.nan, half)
    assert_same_halves(smallmm.batched_matmul(x, x, beta=0, alpha=2, out=out), wide(2 * np.eye(3)), half)


def test_numbers_follow_the_arrays(half):
    x = np.ones((2, 2), half)
    result = smallmm.batched_matmul(x, x, alpha=0.1)
    assert_same_halves(result, np.full((2, 2), 2 * np.float32(half.type(0.1))), half)


def test_every_code_both_ways(isa, half):
    """Times 1, which float32 does exactly; the conversions themselves are in tests/core/test_stored.c."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    x = codes.view(half)[:, None, None]
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float32)
    result = smallmm.matmul(x, np.ones((1, 1), half))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(result.view(np.uint16)[numbers], x.view(np.uint16)[numbers])
    assert np.isnan(wide(result)[~numbers]).all()
    same = smallmm.matmul(x, np.ones((1, 1), np.float32))  # mixed with float32, by NumPy's conversion
    np.testing.assert_array_equal(same[numbers], expected[numbers], strict=True)


def test_rounding_is_numpys(isa, half, rng):
    """Products of two numbers, which float32 holds: of float16 some are subnormal, some overflow."""
    x, y = (rng.integers(0, 1 << 16, (300000, 1, 1), np.uint16).view(half) for _ in range(2))
    with np.errstate(all="ignore"):
        expected = x.astype(np.float32) * y.astype(np.float32)
    assert_same_halves(smallmm.matmul(x, y), expected, half)


def test_bits_are_those_of_every_instruction_set(half, case):
    operands = stored(case, 4, 4, half)
    results = []
    for name in core.isas_available():
        if name == "portable":
            continue  # rounds twice where the others round once
        core.select_isa(name)
        results.append(as_tuple(case.gufunc(*operands)))
    core.select_isa(None)
    for other in results[1:]:
        assert_same_halves(other, results[0], half)


def test_promotion():
    half, single, double = (np.eye(2, dtype=dtype) for dtype in (np.float16, np.float32, np.float64))
    assert smallmm.matmul(half, single).dtype == np.float32
    assert smallmm.solve(double, half).dtype == np.float64
    assert smallmm.solve(half, np.eye(2, dtype=np.int8)).dtype == np.float16
    assert smallmm.solve(half, np.eye(2, dtype=np.int64)).dtype == np.float64
    assert smallmm.matmul(half, half, dtype=np.float32).dtype == np.float32
    out = np.empty((2, 2), np.float32)
    assert smallmm.inv(half, out=out) is out
    with pytest.raises(TypeError, match="inv: out has dtype int64; the result is float16"):
        smallmm.inv(half, out=np.empty((2, 2), np.int64))


def test_promotion_of_bfloat16():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.eye(2, dtype=bfloat16)
    assert smallmm.matmul(x, x.astype(np.float32)).dtype == np.float32
    assert smallmm.matmul(x.astype(np.float64), x).dtype == np.float64
    with pytest.raises(
        TypeError, match="solve: b has dtype float16 but a has bfloat16; expected one of them"
    ):
        smallmm.solve(x, x.astype(np.float16))


def test_bfloat16_is_met_by_any_function(run_python):
    """Also where it is not the first argument, or of a composition, and from several threads at once."""
    pytest.importorskip("ml_dtypes")
    run_python("""
        from concurrent.futures import ThreadPoolExecutor
        import numpy as np, smallmm, ml_dtypes
        x = np.eye(3, dtype=ml_dtypes.bfloat16)
        calls = [lambda: smallmm.matmul(x, x), lambda: smallmm.expm(x), lambda: smallmm.lstsq(x, x).x] * 5
        with ThreadPoolExecutor(8) as pool:
            for result in pool.map(lambda call: call(), calls):
                assert result.dtype == x.dtype, result.dtype
    """)


def test_add_bfloat16_takes_no_other():
    with pytest.raises(TypeError, match=r"expected ml_dtypes\.bfloat16"):
        core.add_bfloat16(np.dtype(np.float32))


def test_failures(half):
    x = np.stack([np.eye(3), np.zeros((3, 3)), 2 * np.eye(3)]).astype(half)
    with pytest.raises(smallmm.LinAlgError, match=r"1 of 3 matrices is singular") as caught:
        smallmm.inv(x)
    assert caught.value.result.dtype == half
    np.testing.assert_array_equal(caught.value.info, np.array([0, 1, 0], np.int32), strict=True)
    assert np.isnan(wide(caught.value.result[1])).all()
    np.testing.assert_array_equal(wide(caught.value.result[2]), np.eye(3) / 2)
    with pytest.raises(smallmm.LinAlgError, match="not positive definite"):
        smallmm.cholesky(-x)


def test_rank_by_default_is_that_of_float32(half, rng):
    """The epsilon of what is computed counts: a tall matrix times that of bfloat16 would have no rank."""
    a = rounded(rng.standard_normal((4, 200, 3)), half)
    b = rounded(rng.standard_normal((4, 200)), half)[..., None]
    result = smallmm.lstsq(a, b)
    assert (result.rank == 3).all()
    assert_same_halves(tuple(result), tuple(smallmm.lstsq(wide(a), wide(b))), half)


def test_results_that_overflow():
    x = np.array([[300.0]], np.float16)
    assert smallmm.matmul(x, x)[0, 0] == np.inf
    assert smallmm.det(np.diag([300.0, 300.0]).astype(np.float16)) == np.inf
    assert smallmm.det(np.diag([300.0, 300.0, 1e-4]).astype(np.float16)).dtype == np.float16


@pytest.mark.parametrize(
    "name", ["solve", "inv", "det", "slogdet", "cholesky", "qr", "eigh", "svdvals", "lu_factor"]
)
def test_orders_beyond_the_kernels(half, rng, name):
    x = rng.standard_normal((2, 40, 40))
    a = rounded(x @ x.mT + 40 * np.eye(40), half)
    arguments = (a, a) if name == "solve" else (a,)
    function = getattr(smallmm, name)
    assert_same_halves(function(*arguments), function(*map(wide, arguments)), half)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: smallmm.expm(x / 4),
        lambda x: smallmm.sqrtm(x, assume_a="sym"),
        lambda x: smallmm.pinv(x),
        lambda x: smallmm.cond(x),
        lambda x: smallmm.matrix_norm(x),
        lambda x: smallmm.vector_norm(x),
        lambda x: smallmm.matrix_power(x, 3),
        lambda x: smallmm.matrix_rank(x),
        lambda x: smallmm.trace(x),
    ],
)
def test_compositions(half, rng, call):
    x = rng.standard_normal((5, 4, 4))
    a = rounded((x @ x.mT + 4 * np.eye(4)) / 8, half)
    result, expected = call(a), call(wide(a))
    if np.asarray(expected).dtype != np.float32:
        np.testing.assert_array_equal(result, expected, strict=True)
    else:
        assert_same_halves(result, expected, half)


# Products that tensor cores may compute, which the host has none of
TENSOR = {
    "matmul": lambda a, b, **words: smallmm.matmul(a, b, **words),
    "vector": lambda a, b, **words: smallmm.matmul(a, b[0, :, 0], **words),
    "batched_matmul": lambda a, b, **words: smallmm.batched_matmul(a, b, **words),
    "gemm": lambda a, b, **words: smallmm.batched_matmul(a, b, alpha=0.5, **words),
    "out": lambda a, b, **words: smallmm.batched_matmul(a, b, np.ones((9, 3, 2), a.dtype), beta=2, **words),
}


@pytest.mark.parametrize("call", TENSOR.values(), ids=TENSOR)
def test_tensor_cores_are_a_devices(half, rng, call):
    a, b = (rounded(rng.standard_normal(shape), half) for shape in ((9, 3, 4), (9, 4, 2)))
    assert_same_halves(call(a, b, precision="tensor"), wide(call(a, b, precision="fixed")), half)
    lazy = pytest.importorskip("dask.array").from_array(a, chunks=(4, 3, 4))
    assert_same_halves(
        smallmm.matmul(lazy, b, precision="tensor").compute(scheduler="synchronous"),
        wide(smallmm.matmul(a, b)),
        half,
    )


def test_precision_of_products(half):
    a, single = np.ones((2, 3, 3), half), np.ones((3, 3), np.float32)
    for x, y, name, dtype, expected in (
        (single, a, "x1", "float32", "float16 or bfloat16"),
        (a, single, "x2", "float32", half.name),
        (a, [[1.0] * 3] * 3, "x2", "float64", half.name),
        (a.astype(complex), a, "x1", "complex128", "float16 or bfloat16"),
        (a, np.ones((3, 3), int), "x2", "int64", half.name),
    ):
        with pytest.raises(
            ValueError,
            match=rf"^matmul: {name} has dtype {dtype}; expected {expected} with precision 'tensor'$",
        ):
            smallmm.matmul(x, y, precision="tensor")
    with pytest.raises(ValueError, match="batched_matmul: b has dtype float32"):
        smallmm.batched_matmul(a, single, precision="tensor")
    for word in ("tf32", None, 3, ["tensor"]):
        with pytest.raises(ValueError, match=r"matmul: precision is .*; expected 'fixed' or 'tensor'"):
            smallmm.matmul(a, a, precision=word)
    with pytest.raises(TypeError, match="precision"):
        smallmm.matvec(a, a[..., 0], precision="tensor")


def test_derivatives_by_tensor_cores(torch, rng):
    """They are asked for in both passes, of PyTorch and JAX."""
    pytest.importorskip("ml_dtypes")
    for dtype in (torch.float16, torch.bfloat16):
        found = []
        for precision in ("fixed", "tensor"):
            a, b, alpha = (torch.ones(s, dtype=dtype, requires_grad=True) for s in ((5, 3, 4), (4, 2), (5,)))
            product = smallmm.batched_matmul(a, b, alpha=alpha, precision=precision)
            (product * smallmm.matmul(a, b, precision=precision)).sum().backward()
            found.append((a.grad, b.grad, alpha.grad))
        assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))
        mapped = torch.vmap(lambda x: smallmm.matmul(x, x, precision="tensor"))(torch.ones(5, 3, 3).to(dtype))
        assert mapped.dtype == dtype


def test_numbers_beside_followed_tensors(torch):
    """PyTorch's transformations make no float32 of halves beside a number."""
    pytest.importorskip("ml_dtypes")
    for dtype in (torch.float16, torch.bfloat16):
        a = torch.rand(5, 3, 3).to(dtype)
        mapped = torch.vmap(lambda x: smallmm.batched_matmul(x, x, alpha=0.1))(a)
        assert mapped.dtype == dtype
        assert torch.equal(mapped, smallmm.batched_matmul(a, a, alpha=0.1))


def test_jax_by_tensor_cores(jax):
    for dtype in ("float16", "bfloat16"):
        a, b = jax.numpy.ones((5, 3, 4), dtype), jax.numpy.ones((4, 2), dtype)

        def product(a, b):
            return smallmm.matmul(a, b, precision="tensor")

        for x in (product(a, b), jax.jit(product)(a, b), jax.vmap(product, (0, None))(a, b)):
            assert x.dtype == dtype
            assert (x == 4).all()
        gradient = jax.grad(lambda a, b: product(a, b).sum())(a, b)
        assert gradient.dtype == dtype
        assert (gradient == 2).all()
        with pytest.raises(ValueError, match="matmul: x1 has dtype float32; expected float16 or bfloat16"):
            jax.jit(product)(a.astype("float32"), b)


def test_explain(half):
    explanation = smallmm.explain("solve", np.ones((100, 5, 5), half), np.ones((5, 2), half))
    assert explanation.computed == "float32"
    assert "_f32_" in explanation.kernel
    assert "computed in float32, and rounded once" in str(explanation)
    assert explanation.bytes == 2 * (100 * 25 + 10 + 100 * 10)
    assert smallmm.explain("solve", np.ones((5, 5)), np.ones((5, 2))).computed is None


def test_torch(torch, rng):
    pytest.importorskip("ml_dtypes")
    x = torch.from_numpy(rng.standard_normal((6, 5, 5)).astype(np.float32))
    for dtype in (torch.float16, torch.bfloat16):
        half = x.to(dtype)
        result = smallmm.inv(half)
        assert result.dtype == dtype
        assert torch.equal(result, smallmm.inv(half.float()).to(dtype))
        out = torch.empty(6, 5, 5, dtype=dtype).mT
        assert smallmm.matmul(half.mT, half, out=out) is out
        assert torch.equal(out, smallmm.matmul(half.float().mT, half.float()).to(dtype))


def test_torch_without_ml_dtypes(torch, monkeypatch):
    """What NumPy's arrays stand for needs them."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    a = torch.eye(2, dtype=torch.bfloat16)
    assert torch.equal(smallmm.inv(a), a)
    with pytest.raises(
        TypeError, match=r"solve: a has dtype bfloat16, .*ml_dtypes.* or convert it to float32"
    ):
        smallmm.solve(a, a.float())


def test_jax(jax):
    x = jax.numpy.eye(3, dtype="bfloat16") * 3
    result = smallmm.inv(x)
    assert result.dtype == x.dtype
    assert isinstance(result, type(x))
    assert float(result[0, 0]) == float(jax.numpy.asarray(1 / 3, "bfloat16"))

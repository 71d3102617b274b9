"""PyTorch with kernels of smallmm: the same values up to rounding, and the same everything else."""

import os
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.needs_library

from toggles import differences  # noqa: E402
from torch_operators import (  # noqa: E402
    DTYPES,
    FUNCTIONS,
    LAYOUTS,
    OPERATORS,
    OUTS,
    WITH_OUT,
    assert_agrees,
    aten,
    leaves,
    operands,
    out_case,
    positive,
    served,
    serving,
)

import smallmm  # noqa: E402
import smallmm._core as core  # noqa: E402
from smallmm._patching import patch  # noqa: E402

L = torch.linalg


@pytest.fixture(scope="module", autouse=True)
def counts():
    """Reports of other tests begin at 0."""
    yield
    core.clear_loop_counts("torch")


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_orders_and_types(name, dtype):
    call, kind = OPERATORS[name]
    for n in (1, 2, 3, 4, 5, 7, 8, 13, 16, 24, 32, 33, *((129,) if name != "det" else ())):
        for batch in ((1,), (5,)):
            a, b = operands(n, batch, dtype, "cpu")
            plain = call(a, b)
            with serving():
                ours = call(a, b)
                assert (served()[0] > 0) == (n <= 128)
            assert_agrees(kind, call, a, b, ours, plain)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_layouts(name, layout):
    call, kind = OPERATORS[name]
    for dtype in (torch.float32, torch.complex128):
        for n in (1, 3, 6):
            a, b = (LAYOUTS[layout](x) for x in operands(n, (4,), dtype, "cpu"))
            plain = call(a, b)
            with serving():
                ours = call(a, b)
                assert served()[0]
            assert_agrees(kind, call, a, b, ours, plain)


@pytest.mark.parametrize("name", [name for name in OPERATORS if "bmm" not in name])
@pytest.mark.parametrize("batch", [(), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_batches(name, batch):
    call, kind = OPERATORS[name]
    a, b = operands(3, batch, torch.float64, "cpu")
    plain = call(a, b)
    with serving():
        ours = call(a, b)
        assert (served()[0] > 0) == (0 not in batch)
    assert_agrees(kind, call, a, b, ours, plain)


def test_right_hand_sides():
    a, b = operands(4, (2, 3), torch.float64, "cpu")
    for rhs, serves in (
        (b[..., :1], True),
        (b[0, 0], True),
        (b[:, :1], True),
        (b[None], False),
        (b[..., 0], True),
        (b[0, 0, :, 0], True),
        (b.mT[..., :2], True),
    ):
        plain = aten._linalg_solve_ex(a, rhs)
        with serving():
            ours = aten._linalg_solve_ex(a, rhs)
            assert (served()[0] > 0) == serves
        assert_agrees("close", None, a, rhs, ours, plain)
    many, vectors = operands(4, (70,), torch.float32, "cpu")
    plain = aten._linalg_solve_ex(many, vectors[..., 0])
    with serving():
        ours = aten._linalg_solve_ex(many, vectors[..., 0])
        assert served() == (70, 0)
    assert_agrees("close", None, many, vectors, ours, plain)
    for function in (
        lambda: L.solve(a, b, left=False),
        lambda: L.solve(a[0, 0], b[0]),
        lambda: a[0, 0] @ b[0, 0, 0],
    ):
        plain = function()
        with serving():
            assert torch.allclose(function(), plain)


def test_products_of_rectangles_and_conjugates():
    generator = torch.Generator().manual_seed(0)
    for dtype in DTYPES:
        a, b = (torch.randn(shape, dtype=dtype, generator=generator) for shape in ((5, 3, 7), (5, 7, 2)))
        for x, y in ((a, b), (a.conj(), b), (a, b.conj()), (a.conj(), b.mT.conj().mT)):
            plain = torch.bmm(x, y)
            with serving():
                assert torch.allclose(torch.bmm(x, y), plain, rtol=1e-4, atol=1e-5)
                assert served() == (5, 0)


BITS = {
    "none": lambda x: x,
    "conjugated": lambda x: x.conj(),
    "negated": lambda x: x._neg_view(),
    "both": lambda x: x._neg_view().conj(),
}


@pytest.mark.parametrize("of_b", BITS)
@pytest.mark.parametrize("of_a", BITS)
def test_conjugation_and_sign_that_kernels_resolve(of_a, of_b):
    for dtype in (torch.float32, torch.complex128):
        a, b = operands(3, (4,), dtype, "cpu")
        x, y = BITS[of_a](a), BITS[of_b](b)
        for function in (
            lambda x, y: x @ y,
            lambda x, y: torch.baddbmm(y, x, y.mT),
            lambda x, y: L.solve_triangular(x, y, upper=True),
            lambda x, y: L.solve_triangular(x.mT, y, upper=True),
            lambda x, y: L.solve_triangular(x.mH, y, upper=False, left=False),
        ):
            plain = function(x, y)
            with serving():
                ours = function(x, y)
                assert served()[0]
            assert ours.stride() == plain.stride()
            assert torch.allclose(ours, plain, atol=1e-5)


def test_what_is_added_to_products():
    for dtype in DTYPES:
        a, b = operands(3, (4,), dtype, "cpu")
        x = b.mT + 1
        for addend in (x, x[:1], x[0], x[0, :1], x[0, 0], x[0, 0, 0], x.mT, x[:, :, :1]):
            numbers = [(1, 1, 4), (2, 0, 4), (0.5, -1.5, 4), (True, 1, 0)]
            for alpha, beta, serves in [*numbers, *([(2 + 1j, 1, 0)] if dtype.is_complex else [])]:
                plain = torch.baddbmm(addend, a, b, alpha=alpha, beta=beta)
                with serving():
                    ours = torch.baddbmm(addend, a, b, alpha=alpha, beta=beta)
                    assert served()[0] == serves
                assert torch.allclose(ours, plain, rtol=1e-4, atol=1e-4)
        nothing = torch.full_like(x, torch.nan)
        expected = x.baddbmm(a, b, beta=0.5)
        with serving():
            assert torch.allclose(torch.baddbmm(nothing, a, b, beta=0), a @ b)
            with torch.inference_mode():
                assert torch.allclose(aten.baddbmm(x, a, b, beta=0.5), expected)
            assert torch.baddbmm(x, a, b, beta=0.5, out=x) is x
            assert served()[0] == 16
        assert torch.allclose(x, expected)


def test_boxed_values_are_released():
    a, b = operands(3, (40,), torch.float64, "cpu")
    counts = [torch._C._storage_Use_Count(x.untyped_storage()._cdata) for x in (a, b)]
    with serving():
        for _ in range(10):
            out = torch.baddbmm(b, a, b)
            torch.baddbmm(b, a, b, out=out)
            with pytest.raises(RuntimeError):
                torch.baddbmm(b, a, b[:2])
        assert torch._C._storage_Use_Count(out.untyped_storage()._cdata) == 2  # and that of this line
        assert served() == (800, 400)
    assert [torch._C._storage_Use_Count(x.untyped_storage()._cdata) for x in (a, b)] == counts


def test_batches_of_both_sides():
    a, b = operands(3, (2, 4), torch.float64, "cpu")
    symmetric = a.tril() + a.tril(-1).mT
    lu, ld, definite = L.lu_factor(a), L.ldl_factor(a), L.cholesky(positive(a))
    for x, y in ((slice(None), 0), (0, slice(None)), (slice(None), slice(1)), (slice(1), slice(None))):
        for function in (
            lambda x, y: L.lu_solve(*(z[x] for z in lu), b[y]),
            lambda x, y: L.lu_solve(*(z[x] for z in lu), b[y].mT, left=False),
            lambda x, y: torch.cholesky_solve(b[y], definite[x]),
            lambda x, y: L.solve_triangular(a[x], b[y], upper=True),
            lambda x, y: L.lstsq(a[x], b[y]).solution if a[x].ndim == b[y].ndim else b,
            lambda x, y: L.lstsq(a[x], b[y]).rank if a[x].ndim == b[y].ndim else b,
        ):
            plain = function(x, y)
            with serving():
                ours = function(x, y)
            assert ours.stride() == plain.stride()
            assert torch.allclose(ours, plain)
        with serving():  # PyTorch 2.13 takes wrong pivots where B has more matrices
            ours = L.ldl_solve(*(z[x] for z in ld), b[y])
        assert torch.allclose(ours, L.solve(symmetric[x], b[y]))


def test_least_squares():
    """What is not of full rank, or has options, is PyTorch's.

    Its driver ``gelsy``, the default, keeps columns that memory left behind in place, so that ranks
    below the full one are of any value (issue 187411): such values are not compared.
    """
    a, b = (x[..., :4, :] for x in operands(7, (5,), torch.float64, "cpu"))
    deficient = a.mT.clone()
    deficient[2, :, 1] = deficient[2, :, 0]
    for x, options, serves in (
        (a, {}, True),
        (a.mT, {}, True),
        (deficient, {}, False),
        (a, {"rcond": 0.5}, False),
        (a, {"driver": "gelsd", "rcond": 0.5}, False),
        (a.mT, {"driver": "gels", "rcond": 1e-3}, False),
    ):
        rhs = b if x is a else b.mT
        plain = L.lstsq(x, rhs, **options)
        with serving():
            ours = L.lstsq(x, rhs, **options)
            assert (served()[0] == 5) == serves
        arbitrary = "driver" not in options and (x is deficient or "rcond" in options)
        for y, z in zip(ours, plain, strict=True):
            assert (y.dtype, y.shape, y.stride()) == (z.dtype, z.shape, z.stride())
            assert arbitrary or torch.allclose(y, z)


def test_exponentials_of_numbers_have_the_strides_of_a():
    a = torch.randn(4, 3, 1, 1).transpose(0, 1)
    for x in (a, a.contiguous()):
        plain = L.matrix_exp(x)
        with serving():
            ours = L.matrix_exp(x)
            assert (served()[0] > 0) == x.is_contiguous()
        assert ours.stride()[:2] == plain.stride()[:2]
        assert torch.allclose(ours, plain)


def test_out():
    a, b = operands(3, (9,), torch.float32, "cpu")
    plain = torch.bmm(a, b)
    with serving():
        for out, serves in (
            (torch.empty(9, 3, 3), True),
            (torch.empty(9, 3, 6)[..., ::2], True),
            (torch.empty(0), True),
            (torch.empty(2, 3, 3).resize_(9, 3, 3), True),
        ):
            before = served()[0]
            assert torch.bmm(a, b, out=out) is out
            assert torch.allclose(out, plain, atol=1e-5)
            assert (served()[0] > before) == serves
        assert torch.allclose(torch.matmul(a, b, out=torch.empty(9, 3, 3)), plain, atol=1e-5)
    x, y = operands(3, (9,), torch.complex64, "cpu")
    plain = torch.bmm(x, y)
    with serving():
        for out in (torch.empty_like(x), torch.empty_like(x).conj()):
            assert torch.allclose(torch.bmm(x, y, out=out), plain, atol=1e-5)
    overlapping = a.clone()
    torch.bmm(overlapping, b, out=overlapping)
    with serving():
        ours = a.clone()
        torch.bmm(ours, b, out=ours)
        assert torch.equal(ours, overlapping)  # PyTorch overwrites what it reads, too
        assert served()[0] == 0
        with pytest.raises(RuntimeError, match="dtype"):
            torch.bmm(a, b, out=torch.empty(9, 3, 3, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("overload", WITH_OUT, ids=str)
def test_every_out(overload, dtype):
    """Those that fit, or are empty, are written by smallmm; PyTorch resizes others."""
    for n in (1, 3, 16):
        arguments, names, functional, writing = out_case(overload, n, dtype, "cpu")
        with serving():
            results = leaves(functional(*arguments))
        for kind, make in OUTS.items():
            outs = [make(x) if x.ndim > 1 or kind != "columns" else torch.empty_like(x) for x in results]
            strides = [out.stride() for out in outs]
            with serving(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch's, of a tensor that it resizes
                given = leaves(writing(*arguments, **dict(zip(names, outs, strict=True))))
                assert (served()[0] > 0) == (kind != "of another shape")
            assert all(x is y for x, y in zip(given, outs, strict=True))
            for out, result, step in zip(outs, results, strides, strict=True):
                assert out.shape == result.shape
                if kind == "of another shape":
                    continue
                assert torch.equal(out, result)
                assert out.stride() == (result.stride() if kind == "empty" else step)


@pytest.mark.parametrize("overload", WITH_OUT, ids=str)
def test_outs_that_pytorch_writes(overload):
    """Handed on, of the wrong type, or in the memory of A."""
    arguments, names, functional, writing = out_case(overload, 3, torch.float64, "cpu")
    plain = leaves(functional(*arguments))
    for make in (OUTS["rows"], OUTS["empty"]):
        outs = [make(x) for x in plain]
        with serving(fewest=1000):
            writing(*arguments, **dict(zip(names, outs, strict=True)))
            assert served() == (0, 5)
        assert all(torch.equal(x, y) for x, y in zip(outs, plain, strict=True))
    wrong = [torch.empty_like(x, dtype=torch.int64) for x in plain]
    with serving(), pytest.raises(RuntimeError, match=r"(?i)dtype|expected|safely"):
        writing(*arguments, **dict(zip(names, wrong, strict=True)))
    like_a = [i for i, x in enumerate(plain) if x.shape == arguments[0].shape and not x.is_complex()]
    if not like_a:
        return

    def in_place():
        outs = [torch.empty_like(x) for x in plain]
        outs[like_a[0]] = arguments[0].clone()
        writing(outs[like_a[0]], *arguments[1:], **dict(zip(names, outs, strict=True)))
        return outs

    expected = in_place()
    with serving():
        ours = in_place()
        # A is not read any more when X is written, or what is added to lies as the result
        serves = overload in (aten._linalg_solve_ex.result, aten.baddbmm.out)
        assert (served()[0] != 0) == serves
    for x, y in zip(ours, expected, strict=True):
        assert torch.allclose(x, y)


def test_functions_with_out():
    a, b = operands(3, (6,), torch.float64, "cpu")
    definite = a @ a.mT + torch.eye(3)
    for function, arguments in (
        (L.inv, (a,)),
        (L.solve, (a, b)),
        (L.det, (a,)),
        (L.slogdet, (a,)),
        (L.cholesky, (definite,)),
        (L.eigh, (definite,)),
        (L.eigvalsh, (definite,)),
        (L.svd, (a, False)),
        (L.svdvals, (a,)),
        (L.lu_factor, (a,)),
        (L.eigvals, (a,)),
    ):
        with serving():
            plain = function(*arguments)
            before = served()[0]
            outs = tuple(torch.empty_like(x) for x in leaves(plain))
            function(*arguments, out=outs if len(outs) > 1 else outs[0])
            assert served()[0] > before, function
        assert all(torch.equal(x, y) for x, y in zip(outs, leaves(plain), strict=True)), function


# --- errors ---------------------------------------------------------------------------------------

BAD = {
    "shapes": lambda: torch.bmm(torch.ones(3, 2, 2), torch.ones(4, 2, 2)),
    "dtypes": lambda: torch.bmm(torch.ones(3, 2, 2), torch.ones(3, 2, 2).double()),
    "integers": lambda: L.inv(torch.ones(3, 2, 2, dtype=torch.int64)),
    "not square": lambda: L.inv(torch.ones(3, 2, 4)),
    "letters": lambda: L.eigh(torch.ones(3, 2, 2), UPLO="X"),
    "driver": lambda: L.svd(torch.ones(3, 2, 2), driver="gesvd"),
    "singular inv": lambda: L.inv(torch.zeros(3, 2, 2)),
    "singular inv_ex": lambda: L.inv_ex(torch.zeros(3, 2, 2), check_errors=True),
    "singular solve": lambda: L.solve(torch.zeros(3, 2, 2), torch.ones(3, 2, 2)),
    "singular lu": lambda: L.lu_factor(torch.zeros(3, 2, 2)),
    "cholesky": lambda: L.cholesky(-torch.eye(2).expand(3, 2, 2)),
    "cholesky_ex": lambda: L.cholesky_ex(-torch.eye(2).expand(3, 2, 2), check_errors=True),
    "baddbmm shapes": lambda: torch.baddbmm(torch.ones(5, 2), *2 * [torch.ones(3, 2, 2)]),
    "baddbmm dtypes": lambda: torch.baddbmm(torch.ones(2, 2).double(), *2 * [torch.ones(3, 2, 2)]),
    "baddbmm numbers": lambda: torch.baddbmm(*3 * [torch.ones(3, 2, 2)], beta="a"),
    "baddbmm beyond float32": lambda: torch.baddbmm(*3 * [torch.ones(3, 2, 2)], alpha=1e39),
    "qr mode": lambda: L.qr(torch.ones(3, 2, 2), mode="raw"),
    "lstsq driver": lambda: L.lstsq(torch.ones(3, 2, 2), torch.ones(3, 2, 2), driver="a"),
    "lstsq shapes": lambda: L.lstsq(torch.ones(3, 2, 2), torch.ones(2)),
    "pivots": lambda: L.lu_solve(
        torch.ones(3, 2, 2), torch.full((3, 2), 5, dtype=torch.int32), torch.ones(3, 2, 2)
    ),
    "pivots of ldl": lambda: L.ldl_solve(
        torch.ones(3, 2, 2), torch.zeros(3, 2, dtype=torch.int32), torch.ones(3, 2, 2)
    ),
    "pivots' type": lambda: L.lu_solve(torch.ones(3, 2, 2), torch.ones(3, 2).long(), torch.ones(3, 2, 2)),
    "pivots' shape": lambda: L.lu_solve(torch.ones(3, 2, 2), torch.ones(2).int(), torch.ones(3, 2, 2)),
    "triangular": lambda: L.solve_triangular(torch.ones(3, 2, 4), torch.ones(3, 2, 2), upper=True),
    "exponential": lambda: L.matrix_exp(torch.ones(3, 2, 4)),
    "ldl": lambda: L.ldl_factor(torch.zeros(3, 2, 2)),
    "eigh": lambda: L.eigh(torch.full((3, 3, 3), torch.nan)),
    "svd": lambda: L.svd(torch.full((3, 2, 2), torch.nan)),
    "eig": lambda: L.eig(torch.full((3, 2, 2), torch.nan)),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_pytorchs(name):
    with pytest.raises(Exception) as plain:
        BAD[name]()
    with serving(), pytest.raises(Exception) as ours:
        BAD[name]()
    assert type(ours.value) is type(plain.value)
    assert (
        str(ours.value).split("Exception raised from")[0]
        == str(plain.value).split("Exception raised from")[0]
    )


def test_failed_matrices_are_pytorchs():
    a = torch.eye(3).repeat(4, 1, 1)
    a[2] = 0
    for function in (L.inv_ex, L.cholesky_ex, L.lu_factor_ex, L.det, L.slogdet):
        plain = function(a)
        with serving():
            ours = function(a)
        for x, y in zip(leaves(ours), leaves(plain), strict=True):
            assert torch.equal(x.nan_to_num(), y.nan_to_num())


def test_errors_release_their_operands():
    import gc
    import weakref

    a, b = torch.ones(3, 2, 2), torch.ones(4, 2, 2)
    before = torch._C._storage_Use_Count(a.untyped_storage()._cdata)
    with serving():
        for _ in range(10):
            with pytest.raises(RuntimeError):
                torch.bmm(a, b)
        before_one = served()[0]
        torch.bmm(a, a)
        assert served()[0] == before_one + 3  # PyTorch's kernel was left
    gc.collect()
    assert torch._C._storage_Use_Count(a.untyped_storage()._cdata) == before
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None


# --- what is around the kernels -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name, dtype):
    a, _ = operands(3, (2,), dtype, "cpu")
    a.requires_grad_()
    with serving():
        assert torch.autograd.gradcheck(FUNCTIONS[name], a)
        assert torch.autograd.gradgradcheck(FUNCTIONS[name], a)
        assert served()[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transformations(name):
    function = FUNCTIONS[name]
    a, _ = operands(3, (4,), torch.float64, "cpu")
    plain = torch.vmap(function)(a), torch.func.vmap(torch.func.jacrev(lambda x: function(x)))(a)
    with serving():
        ours = torch.vmap(function)(a), torch.func.vmap(torch.func.jacrev(lambda x: function(x)))(a)
        assert served()[0]
    for x, y in zip(
        torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(plain), strict=True
    ):
        assert torch.allclose(x, y)
    with serving():
        tangent = torch.func.jvp(function, (a,), (a,))[1]
        if name != "lstsq":  # PyTorch has no meta kernel of it
            meta = function(a.to("meta"))
            for x, y in zip(*(torch.utils._pytree.tree_leaves(z) for z in (meta, plain[0])), strict=True):
                assert (x.shape, x.device.type) == (y.shape, "meta")
    expected = torch.func.jvp(function, (a,), (a,))[1]
    for x, y in zip(*(torch.utils._pytree.tree_leaves(z) for z in (tangent, expected)), strict=True):
        assert torch.allclose(x, y)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend):
    def step(a, b):
        x = L.solve(a @ b, L.inv(a)) + L.cholesky(b @ b.mT) + L.eigh(a + a.mT)[0].unsqueeze(-1)
        return torch.baddbmm(x, a, b, alpha=2) + L.qr(a)[0] + L.solve_triangular(a, b, upper=True)

    a, b = (x.requires_grad_() for x in operands(3, (6,), torch.float64, "cpu"))
    plain = step(a, b)
    torch._dynamo.reset()
    with serving():
        compiled = torch.compile(step, fullgraph=True, backend=backend)
        ours = compiled(a, b)
        assert served()[0]
        gradient = torch.autograd.grad(ours.sum(), a)[0]
    assert torch.allclose(ours, plain)
    assert torch.allclose(gradient, torch.autograd.grad(plain.sum(), a)[0])
    torch._dynamo.reset()


def test_inference_out_and_other_tensors():
    a, b = operands(3, (6,), torch.float32, "cpu")
    plain = a @ b
    with serving():
        with torch.inference_mode():
            assert torch.allclose(a @ b, plain, atol=1e-5)
        assert torch.allclose(torch.bmm(a, b, out=torch.empty(0)), plain, atol=1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            assert (a @ b).dtype == torch.bfloat16
        assert (a.half() @ b.half()).dtype == torch.float16
        assert torch.equal(a.long() @ b.long(), (a.long().double() @ b.long().double()).long())
        sparse = torch.bmm(a.to_sparse(), b)
        assert torch.allclose(sparse, plain, atol=1e-5)


def own_samples(dtype):
    """PyTorch's own samples of operators that call the patched ones."""
    pytest.importorskip("expecttest", reason="PyTorch's tests need it")
    from torch.testing._internal.common_methods_invocations import op_db

    others = ("bmm", "baddbmm", "matmul", "einsum", "inverse", "det", "logdet", "slogdet", "cholesky", "svd")
    others += ("pinverse", "cholesky_solve", "lu_solve", "matrix_exp", "qr", "triangular_solve")
    for op in op_db:
        if (op.name.startswith("linalg.") or op.name in others) and op.supports_dtype(dtype, "cpu"):
            for sample in op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd):
                yield op, sample


def value_and_gradient(op, sample):
    """Of what does not depend on signs and phases; or what was raised."""
    tree = torch.utils._pytree.tree_leaves
    inputs = [x for x in tree((sample.input, sample.args, sample.kwargs)) if torch.is_tensor(x)]
    inputs = [x for x in inputs if x.requires_grad]
    torch.manual_seed(0)
    try:
        results = op(sample.input, *sample.args, **sample.kwargs)
        if sample.output_process_fn_grad:
            results = sample.output_process_fn_grad(results)
        results = [x for x in tree(results) if torch.is_tensor(x)]
        outs = [x for x in results if x.requires_grad]
        towards = [torch.randn_like(x) for x in outs]
        gradients = torch.autograd.grad(outs, inputs, towards, allow_unused=True) if outs else ()
    except Exception as error:
        return [], (type(error), str(error).split("Exception raised from")[0])
    signs = any(part in op.name for part in ("eig", "svd")) and "vals" not in op.name
    return [*([] if signs else results), *gradients], [(x.shape, x.dtype) for x in results]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_pytorchs_own_samples(dtype):
    matrices = 0
    for op, sample in own_samples(dtype):
        plain, shapes = value_and_gradient(op, sample)
        with serving():
            ours, own_shapes = value_and_gradient(op, sample)
            matrices += served()[0]
        assert own_shapes == shapes, (op.name, sample)
        for x, y in zip(ours, plain, strict=True):
            if y is not None and y.numel():
                scale = max(1, y.abs().max().item()) if y.dtype != torch.bool else 1
                assert torch.allclose(x, y, rtol=1e-6, atol=1e-7 * scale, equal_nan=True), (op.name, sample)
    assert matrices > 1000


# --- patching -------------------------------------------------------------------------------------


def test_patches_do_not_stack():
    assert not smallmm.is_patched("torch")
    smallmm.patch_torch()
    smallmm.patch_torch()
    with smallmm.patched("numpy", "torch"):
        with smallmm.patched():
            assert smallmm.is_patched("torch")
            assert smallmm.is_patched("numpy")
        smallmm.unpatch_torch()
        assert smallmm.is_patched("torch")
    assert not smallmm.is_patched("torch")
    assert not smallmm.is_patched()
    smallmm.unpatch_torch()


def test_everything_that_there_is_has_a_kernel():
    with smallmm.patched("torch"):
        pass
    assert [name.removesuffix(" CPU") for name in patch._pytorch.kernels if name.endswith("CPU")] == list(
        core.patched_torch
    )


def test_unpatched_is_unpatched():
    a, b = operands(3, (100,), torch.float32, "cpu")
    plain = torch.bmm(a, b)
    with serving():
        torch.bmm(a, b)
    before = smallmm.patch_report()
    assert torch.equal(torch.bmm(a, b), plain)
    assert smallmm.patch_report() == before


def test_report_says_why():
    a, b = operands(3, (10,), torch.float32, "cpu")
    with serving(fewest=4):
        torch.bmm(a, b)
        torch.bmm(a[:2], b[:2])
        torch.bmm(torch.ones(5, 140, 3), torch.ones(5, 3, 3))
        torch.bmm(a.half(), b.half())
        L.inv_ex(torch.zeros(4, 2, 2))
    report = smallmm.patch_report()
    rows = {(r.function, r.order, r.outcome.partition(":")[0]): (r.calls, r.matrices) for r in report.rows}
    rows = {key: value for key, value in rows.items() if key[0].startswith("aten.")}
    assert rows == {
        ("aten.bmm", 3, "served"): (1, 10),
        ("aten.bmm", 3, "few"): (1, 2),
        ("aten.bmm", 0, "large"): (1, 5),
        ("aten.bmm", 0, "other"): (1, 0),
        ("aten.linalg_inv_ex", 2, "exceptional"): (1, 4),
    }
    with smallmm.patched("torch"):
        assert served() == (0, 0)


def test_threads_compute_while_pytorch_is_patched_and_unpatched():
    """With operands of which no result is rounded, so that all must be equal."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randint(-3, 4, (2, 40, 3, 3), generator=generator).double()
    powers = torch.randint(-4, 5, (40, 3, 1), generator=generator).double().exp2()
    orders = torch.rand(40, 3, generator=generator).argsort(-1)
    scaled, squares = torch.eye(3).double()[orders] * powers, torch.eye(3) * powers**2

    def compute():
        out = torch.empty_like(b)
        L.inv(scaled, out=out)
        results = torch.bmm(a, b), out, L.det(scaled), L.solve(scaled, b), L.cholesky(squares)
        factors = L.lu_factor_ex(scaled)
        return [x.numpy().tobytes() for x in (*results, *factors, L.eigvalsh(squares))]

    core.set_fewest(1)
    try:
        wrong, passes, served = differences(compute, smallmm.patch_torch, smallmm.unpatch_torch)
    finally:
        core.set_fewest(0)
    assert not wrong
    assert min(passes)
    assert served
    assert not smallmm.is_patched("torch")


def test_an_old_pytorch_is_refused(monkeypatch):
    monkeypatch.setattr(patch._pytorch, "kernels", None)
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(
        RuntimeError, match=r"patch_torch: PyTorch 2.9.1\+cpu is too old; expected 2.10 or newer"
    ):
        smallmm.patch_torch()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match="patch_torch: PyTorch cannot be imported"):
        smallmm.patch_torch()
    assert not smallmm.is_patched("torch")


def test_values_of_a_later_pytorch_are_left_alone():
    code = """
import torch, smallmm
torch.__version__ = "2.14.0"
smallmm.patch_torch()
from smallmm._patching.patch import _pytorch
print(sorted({x.partition(".")[0].split()[0] for x in _pytorch.kernels} & {"bmm", "baddbmm"}))
"""
    assert python("-c", code).stdout == "['bmm']\n"


# --- programs -------------------------------------------------------------------------------------

PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
print("torch" in sys.modules, end=" ")
import torch
import smallmm
a = torch.ones(5_000, 3, 3) + torch.eye(3)
torch.linalg.inv(a)
print(smallmm.is_patched("torch"), smallmm.is_patched())
"""


def python(*arguments, **environment):
    source = os.path.dirname(os.path.dirname(smallmm.__file__))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(("options", "says"), [(["--torch"], "True False"), ([], "True True")])
def test_run(tmp_path, options, says):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = python("-m", "smallmm", "run", *options, "--report", script)
    assert done.stdout == f"False {says}\n"
    assert "smallmm served 5000 matrices" in done.stderr
    assert "Overriding" not in done.stderr


def test_programs_start_patched():
    done = python("-c", "import smallmm._patching.at_start\n" + PROGRAM, SMALLMM_PATCH="torch")
    assert (done.stdout, done.stderr) == ("False True False\n", "")

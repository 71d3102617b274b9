"""What PyTorch follows: torch.compile and torch.export with whole graphs, torch.vmap and torch.func, tensors
without elements. Autograd's own checks are in test_gradients.py."""

import numpy as np
import pytest
from accuracy import as_tuple, assert_same
from test_gradients import cases, complex_arguments, complex_cases

import smallmm
from smallmm import _core
from smallmm._libraries import Library

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.needs_library

F64 = torch.float64
TRACED_FURTHER = {"matmul", "solve", "lu", "lstsq", "eigh", "expm", "cond"}


def all_cases(device="cpu"):
    """Those of complex numbers have names of their own."""

    def eye(n):
        return torch.eye(n, dtype=F64, device=device)

    chosen = {name: x for name, x in complex_cases(torch, eye).items() if name in COMPLEX}
    return cases(torch, eye) | {f"complex {name}": x for name, x in chosen.items()}


COMPLEX = {
    "of adjoints", "scaled", "solve", "slogdet", "cholesky", "cho_solve", "lu adjoint", "qr", "lstsq", "eigh",
    "svd", "svdvals", "pinv", "norms", "trace",
}  # fmt: skip
CASES = all_cases()
NAMES = sorted(CASES)


def numbers(rng, name):
    _, shapes = CASES[name]
    is_complex = name.startswith("complex ")
    x = complex_arguments(rng, shapes) if is_complex else [rng.standard_normal(shape) for shape in shapes]
    return [torch.from_numpy(y) for y in x]


def leaves(x):
    return torch.utils._pytree.tree_leaves(x)


def arguments(rng, name):
    return CASES[name][0], numbers(rng, name)


def assert_equal(found, expected):
    assert type(found) is type(expected)
    for x, y in zip(leaves(found), leaves(expected), strict=True):
        assert x.dtype == y.dtype
        assert torch.equal(x, y)


def with_gradients(function, x):
    """The results, and the gradients of the sum of their squares."""
    x = [y.clone().requires_grad_() for y in x]
    results = function(*x)
    squares = [(y * y.conj()).real.sum() for y in leaves(results) if y.requires_grad]
    return results, torch.autograd.grad(sum(squares), x)


@smallmm.fuse("(n,n),(n)->(n),()")
def fused(a, b):
    x = smallmm.solve(a, b[:, None])[:, 0]
    return x, (x * b).sum()


OF_MATRICES = {
    "inv": smallmm.inv,
    "qr": smallmm.qr,
    "fused": lambda a: fused(a, a[..., 0]),
    "cov": smallmm.cov,
    "congruence": lambda a: smallmm.congruence(a, a),
    "einsum": lambda a: smallmm.einsum("bij,bkj,bkl->bil", a, a, a),
    "multi_dot": lambda a: smallmm.multi_dot([a, a, a]),
}


def mahalanobis(x, a):
    return smallmm.mahalanobis(x, 0 * x, a @ a.mT + torch.eye(3, dtype=F64))


class TestCompile:
    @pytest.fixture(autouse=True)
    def _afresh(self):
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    @staticmethod
    def compiled(function, backend="aot_eager", **options):
        return torch.compile(function, fullgraph=True, backend=backend, **options)

    @pytest.mark.parametrize("name", NAMES)
    def test_whole_graphs(self, rng, name):
        """Of every function that has a derivative: the same bits, and the derivative."""
        function, x = arguments(rng, name)
        backend = "aot_eager" if name in TRACED_FURTHER else "eager"  # which ends with Dynamo, and is faster
        found, gradients = with_gradients(self.compiled(function, backend), x)
        expected, exact = with_gradients(function, x)
        assert_equal(found, expected)
        for y, z in zip(gradients, exact, strict=True):
            torch.testing.assert_close(y, z, rtol=1e-12, atol=1e-13)

    @pytest.mark.parametrize("function", [mahalanobis, lambda b, a: fused(a, b)])
    def test_fused_functions(self, rng, function):
        x = [torch.from_numpy(rng.standard_normal(s)) for s in [(4, 3), (4, 3, 3)]]
        for found, expected in zip(leaves(self.compiled(function)(*x)), leaves(function(*x)), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)

    def test_a_fused_function_made_later(self, rng):
        a = torch.from_numpy(rng.standard_normal((4, 3, 3)))
        self.compiled(lambda a: smallmm.inv(a))(a)
        double = smallmm.fuse(twice, "(n,n)->(n,n)")
        assert torch.equal(self.compiled(lambda a: double(a))(a), 2 * a)

    def test_batches_of_any_length(self, rng):
        """One graph for the first batch, and one for all others."""
        graphs = []

        def backend(graph, inputs):
            graphs.append(graph)
            return graph

        compiled = self.compiled(lambda a, b: smallmm.solve(a, b), backend)
        for n in (2, 3, 5, 9):
            a, b = (torch.from_numpy(rng.standard_normal((n, 3, k))) for k in (3, 2))
            assert torch.equal(compiled(a, b), smallmm.solve(a, b))
        assert len(graphs) == 2

    def test_out(self, rng):
        def function(a):
            x = torch.empty_like(a)
            return smallmm.inv(a, out=x) + x

        a = torch.from_numpy(rng.standard_normal((4, 3, 3)))
        assert torch.equal(self.compiled(function)(a), 2 * smallmm.inv(a))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
    def test_dtypes(self, rng, dtype):
        if dtype == torch.bfloat16:
            pytest.importorskip("ml_dtypes")
        a = torch.from_numpy(rng.integers(-4, 5, (5, 3, 3)) + 9 * np.eye(3)).to(dtype)
        a = torch.triu(a) if dtype == torch.bool else a

        def function(a):
            return smallmm.inv(a), smallmm.matmul(a, a), smallmm.cond(a), smallmm.svdvals(a)

        assert_equal(self.compiled(function)(a), function(a))

    def test_vmap_within(self, rng):
        a = torch.from_numpy(rng.standard_normal((4, 3, 3)))
        assert torch.equal(self.compiled(lambda a: torch.vmap(smallmm.inv)(a))(a), smallmm.inv(a))

    def test_a_singular_matrix_is_nan(self):
        a = torch.stack([torch.eye(2), torch.zeros(2, 2)])
        assert torch.isnan(self.compiled(lambda a: smallmm.inv(a))(a)).tolist() == [
            [[False] * 2] * 2,
            [[True] * 2] * 2,
        ]

    def test_errors_name_the_argument(self):
        with pytest.raises(RuntimeError, match=r"solve: b has shape \(2, 3\)"):
            self.compiled(lambda a, b: smallmm.solve(a, b))(torch.eye(3), torch.ones(2, 3))

    def test_functions_are_told_apart(self, rng):
        """Where they are compiled by themselves: none has the graph of another."""
        a = torch.from_numpy(rng.standard_normal((4, 3, 3)))
        made = [smallmm.fuse(x, "(n,n)->(n,n)") for x in (twice, lambda a: a @ a)]
        for function in [
            smallmm.inv,
            smallmm.det,
            smallmm.expm,
            smallmm.norm,
            smallmm.cov,
            smallmm.corr,
            *made,
        ]:
            assert torch.equal(self.compiled(function, "eager")(a), function(a))

    @pytest.mark.parametrize("function", OF_MATRICES, ids=str)
    def test_other_lengths_and_orders(self, rng, function):
        """All batches but the first share a graph."""
        counter = torch._dynamo.testing.CompileCounter()
        compiled = self.compiled(lambda a: OF_MATRICES[function](a), counter)
        for count in (3, 5, 4, 7):
            a = torch.from_numpy(rng.standard_normal((count, 4, 4)))
            assert_equal(compiled(a), OF_MATRICES[function](a))
        assert counter.frame_count == 2
        for n in (2, 5):
            a = torch.from_numpy(rng.standard_normal((3, n, n)))
            assert_equal(compiled(a), OF_MATRICES[function](a))

    def test_graphs_break_elsewhere(self, rng):
        """What reads memory has no graph: it runs between two of them."""
        a = rng.standard_normal((2, 3, 3))

        def function(x):
            group = smallmm.Group([a[0], a[1]])
            return x + 1, torch.from_numpy(smallmm.inv(group)[0])

        found = torch.compile(function, backend="aot_eager")(torch.ones(3))[1]
        np.testing.assert_array_equal(found, smallmm.inv(a[0]))


def twice(a):
    return a + a


def test_first_call_in_a_process(run_python):
    """PyTorch meets a fused function, and has not been told of smallmm yet."""
    code = """
        import smallmm, torch
        a = 2 * torch.eye(3).repeat(5, 1, 1)
        function = torch.compile(lambda a: smallmm.congruence(a, a), fullgraph=True, backend="eager")
        print(function(a).sum().item())
    """
    assert run_python(code).stdout == "120.0\n"


def conv2d(x):
    return smallmm.conv2d(x[None, None], x[None, None])


@pytest.mark.parametrize(
    "function", [smallmm.norm, smallmm.matrix_norm, smallmm.trace, smallmm.cond, smallmm.matrix_rank, conv2d]
)
def test_constants_in_a_cuda_graph(monkeypatch, function):
    """Copies from the host are refused, in smallmm's words; here of tensors that are on the host."""
    monkeypatch.setattr(Library, "is_capturing", lambda self, x: True)
    with pytest.raises(RuntimeError, match=r"^\w+: no CUDA graph can have it, because it copies constants"):
        function(torch.eye(3, requires_grad=True))


def test_functions_that_are_loaded_later(run_python):
    """When PyTorch was told of the others."""
    code = """
        import smallmm, torch

        def compiled(function, *x):
            return torch.compile(function, fullgraph=True, backend="eager")(*x)

        a = 2 * torch.eye(4)
        compiled(lambda a: smallmm.inv(a), a)
        x, w = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2)
        print(compiled(lambda x, w: smallmm.conv2d(x, w), x, w).sum().item())
        print(compiled(smallmm.einsum, "ij,jk->ik", a, a).sum().item())
        print(compiled(lambda a: smallmm.tensorinv(a.reshape(2, 2, 4)), a).sum().item())
    """
    assert run_python(code).stdout.split() == ["36.0", "16.0", "2.0"]


def test_export(rng):
    class Module(torch.nn.Module):
        def forward(self, a, b):
            return smallmm.solve(a, b)

    a, b = (torch.from_numpy(rng.standard_normal((4, 3, k))) for k in (3, 2))
    program = torch.export.export(Module(), (a, b))
    assert "smallmm.solve" in str(program.graph)
    assert torch.equal(program.module()(a, b), smallmm.solve(a, b))


class TestTransforms:
    @pytest.mark.parametrize("name", NAMES)
    def test_vmap(self, rng, name):
        function, x = arguments(rng, name)
        stacked = [torch.stack([y, y + 1, y - 1]) for y in x]
        found = torch.vmap(function)(*stacked)
        for i in range(3):
            for y, z in zip(leaves(found), leaves(function(*(s[i] for s in stacked))), strict=True):
                torch.testing.assert_close(y[i], z, rtol=1e-10, atol=1e-11)

    @pytest.mark.parametrize("name", ["solve", "lu", "eigh", "svd", "cond"])
    def test_jacobians(self, rng, name):
        function, x = arguments(rng, name)

        def first(*x):
            return leaves(function(*x))[0]

        found = torch.func.jacrev(first, argnums=tuple(range(len(x))))(*x)
        expected = torch.autograd.functional.jacobian(first, tuple(x))
        for y, z in zip(found, expected, strict=True):
            torch.testing.assert_close(y, z, rtol=1e-10, atol=1e-11)

    @pytest.mark.parametrize("name", ["batched_matmul", "lu", "lstsq", "slogdet"])
    def test_forward_mode(self, rng, name):
        """Against central differences: broadcast operands, several results, integers among them."""
        function, x = arguments(rng, name)
        moved = [torch.from_numpy(rng.standard_normal(y.shape)) for y in x]
        results, found = torch.func.jvp(function, tuple(x), tuple(moved))
        for y, z in zip(leaves(results), leaves(function(*x)), strict=True):
            assert torch.equal(y, z)
        step = 1e-6
        ends = [leaves(function(*(y + t * d for y, d in zip(x, moved, strict=True)))) for t in (step, -step)]
        for y, above, below in zip(leaves(found), *ends, strict=True):
            torch.testing.assert_close(y, (above - below) / (2 * step), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("name", ["eigh"])
    def test_mixed_orders(self, rng, name):
        """Forward over reverse, and the other orders, against reverse over reverse."""
        function, x = arguments(rng, name)

        def value(y):
            return sum((z * z).sum() for z in leaves(function(y, *x[1:])))

        expected = torch.func.jacrev(torch.func.jacrev(value))(x[0])
        jacfwd, jacrev = torch.func.jacfwd, torch.func.jacrev
        for hessian in (torch.func.hessian(value), jacrev(jacfwd(value)), jacfwd(jacfwd(value))):
            torch.testing.assert_close(hessian(x[0]), expected, rtol=1e-8, atol=1e-8)

    def test_zeros_without_memory(self):
        """As PyTorch makes them in forward mode."""
        zeros = torch._efficientzerotensor((5, 3, 3), dtype=F64)
        a = torch.eye(3, dtype=F64)
        assert torch.equal(smallmm.matmul(zeros, a), torch.zeros(5, 3, 3, dtype=F64))
        assert torch.equal(smallmm.inv(a + zeros), a.expand(5, 3, 3))

    def test_tangents_of_singular_matrices(self):
        """NaN there alone."""
        a = torch.stack([2 * torch.eye(3), torch.zeros(3, 3)])
        _, found = torch.func.jvp(lambda a: smallmm.inv_ex(a).inverse, (a,), (torch.ones_like(a),))
        assert torch.equal(found[0], torch.full((3, 3), -0.25))
        assert torch.isnan(found[1]).all()

    def test_the_same_bits(self, rng):
        a = torch.from_numpy(rng.standard_normal((5, 2, 3, 3)))
        b = torch.from_numpy(rng.standard_normal((2, 3, 4)))
        assert torch.equal(torch.vmap(smallmm.solve, in_dims=(0, None))(a, b), smallmm.solve(a, b))
        assert torch.equal(torch.vmap(torch.vmap(smallmm.inv), in_dims=1, out_dims=1)(a), smallmm.inv(a))
        vectors = torch.vmap(smallmm.solve, in_dims=(None, 1))(a[0, 0], b[0])
        assert torch.equal(vectors, smallmm.solve(a[0, 0], b[0]).mT)
        pair = torch.vmap(lambda a: smallmm.lu_solve(smallmm.lu_factor(a), b[0]))(a[0])
        assert torch.equal(pair, smallmm.solve(a[0], b[0]))

    def test_second_derivatives_of_each(self, rng):
        a = torch.from_numpy(rng.standard_normal((4, 3, 3))) + 3 * torch.eye(3, dtype=F64)
        hessian = torch.func.jacrev(torch.func.grad(lambda a: smallmm.slogdet(a).logabsdet))
        expected = torch.func.jacrev(torch.func.grad(lambda a: torch.linalg.slogdet(a).logabsdet))
        torch.testing.assert_close(torch.vmap(hessian)(a), torch.vmap(expected)(a))

    def test_numbers_and_dtypes(self, rng):
        a, b = torch.ones(4, 3, 3), torch.ones(3, 3, dtype=torch.float16)
        found = torch.vmap(lambda a: smallmm.batched_matmul(a, b, alpha=2.5))(a)
        assert torch.equal(found, smallmm.batched_matmul(a, b, alpha=2.5))
        assert found.dtype == torch.float32
        integers = torch.vmap(smallmm.matmul)(a.long(), a.long())
        assert integers.dtype == F64

    def test_fused_functions(self, rng):
        a, b = (torch.from_numpy(rng.standard_normal(s)) for s in [(4, 3, 3), (4, 3)])
        for x, y in zip(torch.vmap(fused)(a, b), fused(a, b), strict=True):
            torch.testing.assert_close(x, y)

    def test_a_singular_matrix(self):
        a = torch.stack([torch.eye(2), torch.zeros(2, 2)])
        with pytest.raises(smallmm.LinAlgError, match=r"inv: 1 of 2 matrices .* index \(1,\)"):
            torch.vmap(smallmm.inv)(a)
        assert torch.isnan(torch.vmap(lambda a: smallmm.inv_ex(a).inverse)(a)[1]).all()

    def test_what_is_refused(self):
        a = torch.eye(3).repeat(2, 1, 1)
        with pytest.raises(TypeError, match=r"qr: a is a torch.Tensor with a derivative in forward mode"):
            torch.func.jvp(lambda a: smallmm.qr(a, mode="raw"), (a,), (a,))
        with pytest.raises(TypeError, match=r"qr: a .* requires a gradient, which smallmm does not compute"):
            torch.func.grad(lambda a: smallmm.qr(a, mode="raw")[0].sum())(a)
        with pytest.raises(ValueError, match=r"solve: b has shape \(2, 3\); expected \(\.\.\., 3, k\)"):
            torch.vmap(smallmm.solve)(a, torch.ones(2, 2, 3))


class TestMeta:
    @pytest.mark.parametrize("name", NAMES)
    def test_shapes(self, rng, name):
        function, _ = all_cases("meta")[name]
        x = numbers(rng, name)
        expected = CASES[name][0](*x)
        for y, z in zip(leaves(function(*(y.to("meta") for y in x))), leaves(expected), strict=True):
            assert y.is_meta
            assert (y.shape, y.dtype) == (z.shape, z.dtype)

    def test_mixed_precision_beside_the_ordinary(self):
        """One name, two numbers of operands and results: whichever PyTorch met first."""
        x = torch.ones(3, 3, dtype=F64, device="meta"), torch.ones(3, 2, dtype=F64, device="meta")
        for precision in ("fixed", "mixed", "fixed"):
            found = leaves(smallmm.lstsq(*x, precision=precision))
            assert (found[0].shape, found[0].dtype) == ((3, 2), F64)

    def test_wrong_shapes(self):
        with pytest.raises(ValueError, match=r"inv: a has shape \(2, 3\)"):
            smallmm.inv(torch.empty(2, 3, device="meta"))

    def test_other_devices(self):
        x = torch.ones(2, 2)
        with pytest.raises(TypeError, match=r"a is a torch.Tensor on cpu but b is a torch.Tensor on meta"):
            smallmm.batched_matmul(x, x.to("meta"))


OPERATORS = {
    "matmul": ("matmul(x1,x2)", [(2, 3, 4), (4, 2)]),
    "solve": ("solve(a,b)", [(2, 3, 3), (1, 3, 2)]),
    "slogdet": ("slogdet(a)", [(0, 3, 3)]),
    "qr_tall": ("qr(a)", [(2, 4, 3)]),
    "lu_factor_tall": ("lu_factor(a)", [(2, 40, 3)]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(rng, name):
    """PyTorch's own check of what is registered."""
    call, shapes = OPERATORS[name]
    gufunc = getattr(_core, name)
    operator = operator_of(gufunc)
    x = [torch.from_numpy(rng.standard_normal(s)).requires_grad_() for s in shapes]
    torch.library.opcheck(operator, (call, *x))


def operator_of(gufunc):
    from smallmm._calls.arrays import call
    from smallmm._libraries.torch_operators import operator

    return operator(call, gufunc)


class TestOnTheHost:
    """Tensors of the host go to the core as NumPy's arrays do: the same bits, info and exceptions."""

    @pytest.mark.parametrize(
        "name", ["inv", "inv_ex", "det", "slogdet", "cholesky", "eigh", "svd", "qr", "eig", "expm"]
    )
    @pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
    def test_bits(self, rng, name, dtype):
        a = rng.standard_normal((4, 3, 5, 5)).astype(dtype)
        a = a @ np.swapaxes(a, -1, -2) + np.eye(5, dtype=dtype)
        function = getattr(smallmm, name)
        for index in (slice(None), (1, 2), (slice(None), 1), (slice(None, None, 2),), (slice(0, 1),)):
            given = a[index]
            for x in (given, np.swapaxes(given, -1, -2), given[..., None, :, :].repeat(2, -3)):
                found, expected = function(torch.from_numpy(x)), function(x)
                for y, z in zip(as_tuple(found), as_tuple(expected), strict=True):
                    assert isinstance(y, torch.Tensor)
                    assert y.shape == np.shape(z)
                    assert_same(y.numpy(), np.asarray(z))

    def test_numbers(self, rng):
        a, b = rng.standard_normal((2, 6, 4, 4))
        x, y = map(torch.from_numpy, (a, b))
        for alpha in (2.5, 3, np.float32(0.5), np.int64(2), np.array(0.25)):
            expected = smallmm.batched_matmul(a, b, alpha=alpha)
            assert_same(smallmm.batched_matmul(x, y, alpha=alpha).numpy(), expected)
        out = y.clone()
        smallmm.batched_matmul(x, y, out=out, alpha=2.0, beta=-1.0)
        assert_same(out.numpy(), smallmm.batched_matmul(a, b, out=b.copy(), alpha=2.0, beta=-1.0))
        z = x + 1j * y
        assert_same(
            smallmm.batched_matmul(z, z, alpha=1 - 2j).numpy(),
            smallmm.batched_matmul(z.numpy(), z.numpy(), alpha=1 - 2j),
        )
        assert_same(
            smallmm.solve_banded((1, 1), x[:, :3], y).numpy(), smallmm.solve_banded((1, 1), a[:, :3], b)
        )

    def test_what_a_tensor_may_be(self, rng):
        a = torch.from_numpy(rng.standard_normal((4, 4, 4)))
        z = a + 1j * a.flip(0)
        b = a.expand(3, 4, 4, 4)
        for x in (b, b.mT, a.flip(0), a[:, 1:3, ::2], a.new_zeros((0, 3, 3)), a.new_zeros((2, 0, 0))):
            expected = smallmm.matmul(x.numpy(), x.mT.numpy())
            assert_same(smallmm.matmul(x, x.mT).numpy(), expected)
        for x in (z.conj(), z.mH, torch.resolve_conj(z.conj()), z.conj().imag):
            expected = smallmm.matmul(x.resolve_conj().resolve_neg().numpy(), z.real.numpy())
            assert_same(smallmm.matmul(x, z.real).resolve_conj().numpy(), expected)
        assert smallmm.matmul(a, a.float()).dtype == torch.float64
        assert_same(smallmm.matmul(z, a).numpy(), smallmm.matmul(z.numpy(), a.numpy()))
        assert smallmm.inv(a.new_ones(40, 40) + 40 * torch.eye(40)).shape == (40, 40)
        with torch.no_grad():
            assert not smallmm.inv(a.clone().requires_grad_()).requires_grad
        assert smallmm.inv(a.clone().requires_grad_()).requires_grad
        with pytest.raises(smallmm.LinAlgError, match="1 of 4") as caught:
            smallmm.inv(a * torch.tensor([1.0, 0, 1, 1])[:, None, None])
        assert caught.value.info.tolist() == [0, 1, 0, 0]
        with pytest.raises((TypeError, ValueError)):
            smallmm.matmul(a, a[:, :3])

    def test_out(self, rng):
        a = torch.from_numpy(rng.standard_normal((6, 4, 4)))
        expected = smallmm.matmul(a.numpy(), a.numpy())
        out = torch.empty_like(a)
        assert smallmm.matmul(a, a, out=out) is out
        assert_same(out.numpy(), expected)
        turned = torch.empty_like(a).mT
        assert smallmm.matmul(a, a, out=turned) is turned
        assert_same(turned.numpy(), expected)
        for own in (a.clone(), a.clone().flip(0)):
            wanted = smallmm.matmul(own.numpy().copy(), own.numpy().copy())
            assert smallmm.matmul(own, own, out=own) is own
            assert_same(own.numpy(), wanted)
        with pytest.raises(ValueError, match="out"):
            smallmm.matmul(a, a, out=torch.empty(5, 4, 4, dtype=a.dtype))

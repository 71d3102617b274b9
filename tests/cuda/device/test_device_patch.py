"""PyTorch with kernels of smallmm on a GPU: the calls of torch_operators.py, and what is around kernels."""

import pytest

torch = pytest.importorskip("torch")

from torch_operators import (  # noqa: E402
    FUNCTIONS,
    LAYOUTS,
    OPERATORS,
    OUTS,
    WITH_OUT,
    assert_agrees,
    leaves,
    operands,
    out_case,
    served,
    serving,
)

import smallmm  # noqa: E402
from smallmm._patching import patch  # noqa: E402

pytestmark = pytest.mark.usefixtures("torch_cuda")
L = torch.linalg


def stack(n, count, dtype=torch.float64, seed=0):
    return operands(n, (count,), dtype, "cuda", seed)


def test_everything_has_a_kernel():
    with smallmm.patched("torch"):
        pass
    registered = {name.removesuffix(" CUDA") for name in patch._pytorch.kernels if name.endswith(" CUDA")}
    assert registered == set(smallmm._core.patched_torch)


# Each order, type and layout is a kernel to be compiled.
SIZES = [(torch.float32, 3, 2), (torch.float32, 3, 300), (torch.float64, 3, 300), (torch.complex64, 3, 300)]
MORE = [(torch.float32, n, 300) for n in (1, 8, 32, 33, 64)]
MORE += [(torch.float64, 16, 300), (torch.float64, 32, 7), (torch.complex128, 5, 300)]


def assert_order_agrees(name, dtype, n, count):
    call, kind = OPERATORS[name]
    a, b = stack(n, count, dtype)
    try:
        plain = call(a, b)
    except RuntimeError as why:  # as where it was built without MAGMA
        pytest.skip(f"PyTorch does not take this: {why}")
    with serving():
        ours = call(a, b)
        rows = {row.function for row in smallmm.patch_report().rows if row.outcome == "served"} - {
            "aten.bmm",
            "aten.bmm.out",
        }
        if not name.startswith("bmm"):
            assert rows, smallmm.patch_report()
        else:
            assert served()[0] == count
    if name != "det" or n <= 32:  # the determinant overflows in float32 at order 64
        assert_agrees(kind, call, a, b, ours, plain)


@pytest.mark.parametrize(("dtype", "n", "count"), SIZES)
@pytest.mark.parametrize("name", OPERATORS)
def test_order_three(name, dtype, n, count):
    assert_order_agrees(name, dtype, n, count)


@pytest.mark.parametrize(("dtype", "n", "count"), MORE)
@pytest.mark.parametrize("name", OPERATORS)
def test_other_orders(name, dtype, n, count):
    assert_order_agrees(name, dtype, n, count)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "name",
    ["bmm", "inv_ex", "cholesky_ex upper", "eigh", "svd tall", "qr wide", "lstsq tall", "ldl_factor_ex"],
)
def test_layouts(name, layout):
    call, kind = OPERATORS[name]
    for dtype in (torch.float32, torch.complex64):
        a, b = (LAYOUTS[layout](x) for x in stack(3, 4, dtype))
        plain = call(a, b)
        with serving():
            ours = call(a, b)
        assert_agrees(kind, call, a, b, ours, plain)


@pytest.mark.parametrize("name", [name for name in OPERATORS if "bmm" not in name])
@pytest.mark.parametrize("batch", [(), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_batches(name, batch):
    call, kind = OPERATORS[name]
    a, b = operands(3, batch, torch.float64, "cuda")
    try:
        plain = call(a, b)
    except RuntimeError:
        pytest.skip("PyTorch does not take this")
    with serving():
        ours = call(a, b)
    assert_agrees(kind, call, a, b, ours, plain)


BAD = {
    "shapes": lambda: torch.bmm(torch.ones(3, 2, 2).cuda(), torch.ones(4, 2, 2).cuda()),
    "devices": lambda: torch.bmm(torch.ones(3, 2, 2).cuda(), torch.ones(3, 2, 2)),
    "singular inv": lambda: L.inv(torch.zeros(3, 2, 2).cuda()),
    "singular inv_ex": lambda: L.inv_ex(torch.zeros(3, 2, 2).cuda(), check_errors=True),
    "singular solve": lambda: L.solve(torch.zeros(3, 2, 2).cuda(), torch.ones(3, 2, 1).cuda()),
    "cholesky": lambda: L.cholesky(-torch.eye(2).expand(3, 2, 2).cuda()),
    "eigh": lambda: L.eigh(torch.full((3, 3, 3), torch.nan).cuda()),
    "svd": lambda: L.svd(torch.full((3, 2, 2), torch.nan).cuda()),
    "eig": lambda: L.eig(torch.full((3, 2, 2), torch.nan).cuda()),
}


def outcome(function):
    try:
        return None, function()
    except Exception as error:
        return type(error), str(error).split("Exception raised from")[0]


@pytest.mark.parametrize("name", BAD)
def test_errors_are_pytorchs(name):
    plain = outcome(BAD[name])
    with serving():
        ours = outcome(BAD[name])
    assert ours[0] is plain[0]
    if plain[0] is not None:
        assert ours[1] == plain[1]


def test_info_of_failed_matrices():
    a = torch.eye(3).repeat(5, 1, 1).cuda()
    a[2, 1, 1] = 0
    a[4, 0, 0] = -1
    for function in (L.inv_ex, L.cholesky_ex, lambda a: L.solve_ex(a, a + 1)):
        plain = function(a)
        with serving():
            ours = function(a)
            assert served()[0] == 5
        assert torch.equal(ours.info, plain.info)
        good = plain.info == 0
        assert torch.allclose(ours[0][good], plain[0][good])


def test_factors_and_determinants_of_singular_matrices():
    """And gradients, which PyTorch computes from these factors: those of PyTorch on the host."""

    def results(a):
        lu, pivots, info = L.lu_factor_ex(a)
        p, lower, upper = torch.lu_unpack(lu, pivots)
        values = [info, p @ lower @ upper, L.det(a), *L.slogdet(a)]
        return [x.detach() for x in values] + list(torch.autograd.grad(L.det(a).abs().sum(), a))

    for n in (3, 9, 20, 36):
        for dtype in (torch.float64, torch.complex128):
            a = stack(n, 5, dtype)[0]
            a[1, :, 1] = a[2, 0] = a[3] = 0
            plain = results(a.cpu().requires_grad_())
            with serving():
                ours = results(a.requires_grad_())
                assert served()[0]
            assert ours[0].tolist() == [0, 2, n, 1, 0]
            for x, y in zip(ours, plain, strict=True):
                size = y.nan_to_num(neginf=0).abs().max().clamp(min=1).item()
                assert torch.allclose(x.cpu(), y, rtol=1e-6, atol=1e-6 * size), (n, dtype)


def test_every_out():
    for overload in WITH_OUT:
        for dtype in (torch.float32, torch.complex128):
            arguments, names, functional, writing = out_case(overload, 3, dtype, "cuda")
            with serving():
                results = leaves(functional(*arguments))
                for kind in ("rows", "columns", "empty"):
                    make = OUTS[kind]
                    outs = [make(x) if x.ndim > 1 else torch.empty_like(x) for x in results]
                    before = served()[0]
                    writing(*arguments, **dict(zip(names, outs, strict=True)))
                    assert served()[0] > before, overload
                    same = [torch.equal(x, y) for x, y in zip(outs, results, strict=True)]
                    assert all(same), (overload, kind)


DERIVED = ["bmm", "baddbmm", "inv", "cholesky", "solve", "det", "slogdet", "eigh", "svd", "svdvals"]
DERIVED += ["cholesky_solve", "solve_triangular", "lu_solve", "qr", "lstsq", "matrix_exp"]


@pytest.mark.parametrize("name", DERIVED)
def test_derivatives_and_transformations(name):
    function = FUNCTIONS[name]
    a = stack(3, 3)[0].requires_grad_()
    with serving():
        assert torch.autograd.gradcheck(function, a)
        assert torch.autograd.gradgradcheck(function, a)
    a = a.detach()
    plain = torch.vmap(function)(a)
    with serving():
        ours = torch.vmap(function)(a)
        assert served()[0]
    for x, y in zip(*(torch.utils._pytree.tree_leaves(z) for z in (ours, plain)), strict=True):
        assert torch.allclose(x, y)


def test_compile():
    def step(a, b):
        return L.inv(a @ b) + L.cholesky(b @ b.mT) + L.eigh(a + a.mT)[0].unsqueeze(-1)

    a, b = (x.requires_grad_() for x in stack(3, 6))
    plain = step(a, b)
    with serving():
        ours = torch.compile(step, fullgraph=True, backend="aot_eager")(a, b)
        assert served()[0]
        gradient = torch.autograd.grad(ours.sum(), a)[0]
    assert torch.allclose(ours, plain)
    assert torch.allclose(gradient, torch.autograd.grad(plain.sum(), a)[0])
    torch._dynamo.reset()


def test_streams_and_graphs():
    a, b = stack(4, 1000, torch.float32)
    expected = L.inv_ex(torch.bmm(a, b)).inverse
    stream = torch.cuda.Stream()
    with serving():
        torch.bmm(a, b), L.inv_ex(a)  # compiles their kernels
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x = L.inv_ex(torch.bmm(a, b)).inverse
        torch.cuda.current_stream().wait_stream(stream)
        assert torch.allclose(x, expected, rtol=1e-2, atol=1e-3)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = L.inv_ex(torch.bmm(a, b)).inverse
        graph.replay()
        torch.cuda.synchronize()
    assert torch.allclose(y, expected, rtol=1e-2, atol=1e-3)


def test_more_matrices_than_pytorchs_eigh_has_memory_for():
    a = stack(3, 1_000_000, torch.float32)[0]
    a = a + a.mT
    with serving():
        w, v = L.eigh(a)
        assert served() == (1_000_000, 0)
    assert torch.allclose(a @ v, v * w.unsqueeze(-2), atol=1e-3)


HOST_TIMES = {
    "bmm": lambda a: torch.bmm(a, a),
    "inv_ex": L.inv_ex,
    "cholesky_ex": L.cholesky_ex,
    "lu_factor_ex": L.lu_factor_ex,
    "solve_ex": lambda a: L.solve_ex(a, a),
    "det": L.det,
    "slogdet": L.slogdet,
}


def test_host_time():
    """Of calls that are handed on or served: no more than the goals, with some room for a busy host."""
    import time

    def host(function):
        best = float("inf")
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(50):
                function()
            best = min(best, (time.perf_counter() - start) / 50 * 1e6)
        torch.cuda.synchronize()
        return best

    large, small = stack(100, 2, torch.float32)[0], stack(3, 10, torch.float32)[0]
    plain = host(lambda: torch.bmm(large, large))
    with smallmm.patched("torch"):
        handed_on = host(lambda: torch.bmm(large, large))
        served_in = {name: host(lambda f=f: f(small)) for name, f in HOST_TIMES.items()}
    print(f"us: bmm {plain:.1f}, handed on {handed_on:.1f}; served {served_in}")
    assert handed_on < plain + 3
    assert max(served_in.values()) < 20

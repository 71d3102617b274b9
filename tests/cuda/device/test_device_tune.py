"""`tune` on a GPU: what it finds gives the same bits, is used, and takes no more time than before."""

import pytest

import smallmm
from smallmm import _core
from smallmm._gpu import tuned


@pytest.fixture(autouse=True)
def own_rows(torch_cuda, tmp_path, monkeypatch):
    """A cache folder for this test, whose rows are forgotten after it."""
    smallmm.cuda.device_name()
    monkeypatch.setenv("SMALLMM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuned, "_kept", {})
    _core.cuda_tune(tuned.load().rows)
    yield tmp_path
    _core.cuda_tune(tuned.load().rows)


def operands_of(torch, name, n, dtype, batch):
    a = torch.rand(batch, n, n, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))
    if name == "cholesky_ex":
        return (a @ a.mT + n * torch.eye(n, device="cuda", dtype=a.dtype),)
    return (a, a.mT.contiguous()) if name == "matmul" else (a, a[..., :1]) if name == "solve_ex" else (a,)


@pytest.mark.parametrize("batch", [300, 100_000])
@pytest.mark.parametrize(
    ("name", "n", "dtype"),
    [
        ("inv_ex", 3, "float64"),
        ("solve_ex", 17, "float32"),
        ("cholesky_ex", 8, "float64"),
        ("matmul", 7, "float32"),
        ("matmul", 5, "float16"),
        ("qr", 6, "float64"),
        ("eigh", 4, "float32"),
    ],
)
def test_finds(torch_cuda, own_rows, name, n, dtype, batch):
    operands = operands_of(torch_cuda, name, n, dtype, batch)
    function = getattr(smallmm, name)
    before = function(*operands)
    found = smallmm.tune(name, *operands, top=6, seconds=20)
    after = function(*operands)
    for x, y in zip(*((x if isinstance(x, tuple) else (x,)) for x in (before, after)), strict=True):
        assert torch_cuda.equal(x, y)
    assert found.discarded == 0
    assert 0 < found.after_ns <= found.before_ns
    how = smallmm.explain(name, *operands)
    if found.saved:
        assert how.source == "tuned (user)"
        assert found.saved.is_relative_to(own_rows)
        assert len(tuned.load_own(own_rows).rows) == 1
        tuned._kept.clear()
        tuned.use(own_rows)  # as a later process does
        assert smallmm.explain(name, *operands).source == "tuned (user)"


def test_large_products_and_deep_sums(torch_cuda):
    """The kernel of any size, whose sums need memory of the device, within a graph, too."""
    x = torch_cuda.rand(70_000, 40, device="cuda")
    before = smallmm.matmul(x.mT, x)
    found = smallmm.tune("matmul", x.mT, x, top=4, seconds=20, save=False)
    assert found.kernel == "matmul_tiled"
    assert torch_cuda.equal(smallmm.matmul(x.mT, x), before)


def test_long_systems(torch_cuda):
    d = 4 + torch_cuda.rand(2000, 300, device="cuda")
    b = torch_cuda.rand(2000, 300, 1, device="cuda")
    before = smallmm.solve_tridiagonal(d[:, 1:], 3 * d, d[:, 1:], b)
    smallmm.tune("solve_tridiagonal", d[:, 1:], 3 * d, d[:, 1:], b, top=4, seconds=20, save=False)
    assert torch_cuda.equal(smallmm.solve_tridiagonal(d[:, 1:], 3 * d, d[:, 1:], b), before)


def test_on_a_stream_of_the_caller(torch_cuda):
    a = torch_cuda.rand(5000, 6, 6, device="cuda")
    with torch_cuda.cuda.stream(torch_cuda.cuda.Stream()):
        b = a + 6 * torch_cuda.eye(6, device="cuda")
        found = smallmm.tune("inv", b, top=3, seconds=10, save=False)
        assert torch_cuda.allclose(smallmm.inv(b) @ b, torch_cuda.eye(6, device="cuda"), atol=1e-4)
    assert found.before_ns > 0


def test_refuses(torch_cuda):
    a = torch_cuda.rand(10, 3, 3, device="cuda")
    with pytest.raises(ValueError, match="there is nothing to compute"):
        smallmm.tune("matmul", a[:0], a[:0])
    with pytest.raises(TypeError, match="out is given"):
        smallmm.tune("inv", a, out=a)

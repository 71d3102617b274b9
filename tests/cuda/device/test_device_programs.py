"""Fused functions on a GPU, where one kernel runs all steps: the host's bits for arrays of PyTorch and CuPy,
layouts, streams, `out`, bad matrices, derivatives, large stacks."""

import numpy as np
import pytest
from test_programs import RECORDED, operands, positive

import smallmm
from smallmm import fuse

pytestmark = pytest.mark.usefixtures("torch_cuda")


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def arrays_of(x):
    return [z for y in x for z in arrays_of(y)] if isinstance(x, tuple) else [x]


def assert_same(found, expected, get):
    for x, y in zip(arrays_of(found), arrays_of(expected), strict=True):
        if y is None:
            assert x is None
            continue
        x = get(x)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_array_equal(x, y)


def kalman(rng, n, m, count, dtype=np.float64):
    arrays = [rng.standard_normal((count, n)), positive(rng, n, (count,)), rng.standard_normal((count, m))]
    arrays += [rng.standard_normal((n, n)), rng.standard_normal((m, n)), positive(rng, n), positive(rng, m)]
    return [x.astype(dtype) for x in arrays]


OF_COMPLEX = ("arithmetic", "products", "solves", "parts", "hermitian")


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "f8") for name in RECORDED), *((name, "c16") for name in OF_COMPLEX)]
)
def test_what_is_recorded(name, dtype, rng, torch_cuda):
    """All that the tests of the host record, but for steps that run one after the other."""
    signature, function = RECORDED[name]
    fused = fuse(function, signature)
    for batches in ([(300,), ()], [(2, 1, 40), (3, 1)], [(0,)]):
        arrays = operands(rng, signature, batches, dtype)
        moved = [torch_cuda.asarray(x, device="cuda") for x in arrays]
        if smallmm.explain(fused, *moved).fused:
            assert_same(fused.ex(*moved), fused.ex(*arrays), lambda x: x.cpu().numpy())


@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 2), (6, 3), (9, 3), (16, 8), (24, 12)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kalman(n, m, dtype, rng, library):
    put, get = library
    arrays = kalman(rng, n, m, 1001, dtype)
    moved = list(map(put, arrays))
    assert smallmm.explain(smallmm.kalman_step, *moved).fused
    assert_same(smallmm.kalman_step(*moved), tuple(smallmm.kalman_step(*arrays)), get)


@pytest.mark.parametrize(
    ("name", "n", "dtype"),
    [
        ("spectra", 3, "f4"),
        ("spectra", 8, "f8"),
        ("spectra", 2, "c16"),
        ("spectra", 6, "c8"),
        ("factorizations", 20, "f4"),
        ("factorizations", 5, "c16"),
        ("pinv", 4, "f8"),
    ],
)
def test_factorizations(name, n, dtype, rng, torch_cuda):
    """In registers and in shared memory; bad matrices, and such of lower rank."""
    function = RECORDED[name][1] if name in RECORDED else smallmm.pinv
    fused = fuse(function, "(m,n)")
    a = rng.standard_normal((2, 301, n, n))
    a = (a[0] + 1j * a[1] if dtype[0] == "c" else a[0]).astype(dtype)
    a[7], a[8, 0], a[9, :, 0] = 0, np.nan, a[9, :, 1]
    moved = torch_cuda.asarray(a, device="cuda")
    assert smallmm.explain(fused, moved).fused
    assert_same(fused.ex(moved), fused.ex(a), lambda x: x.cpu().numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int64"])
def test_types_that_are_stored(dtype, rng, torch_cuda):
    kept = getattr(torch_cuda, dtype)
    arrays = [torch_cuda.asarray(4 * x).to(kept) for x in kalman(rng, 4, 2, 1001)]
    function = fuse(lambda a, b: (a @ b, a * 0.5, a.mT), "(n,n),(n)")
    for chain, given in ((smallmm.kalman_step, arrays), (function, [arrays[1], arrays[0]])):
        moved = [x.cuda() for x in given]
        assert smallmm.explain(chain, *moved).fused
        expected = tuple(x.double().numpy() for x in chain.ex(*given)[0])
        assert_same(chain.ex(*moved)[0], expected, lambda x: x.cpu().double().numpy())


def test_layouts(rng, torch_cuda):
    a, x = rng.standard_normal((6, 1, 3, 5)), positive(rng, 5, (4,))
    moved = [torch_cuda.asarray(y, device="cuda") for y in (a, x)]
    get = lambda y: y.cpu().numpy()  # noqa: E731
    assert_same(smallmm.congruence(*moved), smallmm.congruence(a, x), get)
    assert_same(smallmm.congruence(moved[0][::2], moved[1].mT), smallmm.congruence(a[::2], x.mT), get)
    triad = fuse(lambda b, c, d: b + c * d)
    y = rng.random((3, 100_001))
    for part in (slice(None), slice(1, None), slice(None, None, 3)):
        z = torch_cuda.asarray(y, device="cuda")[:, part]
        assert_same(triad(*z), triad(*y[:, part]), get)
    assert_same(triad(z[0], 2.0, z[1][:, None][:500]), triad(y[0, part], 2.0, y[1, part][:, None][:500]), get)


def test_bad_matrices(rng, library):
    put, get = library
    x, covariance = rng.standard_normal((1000, 3)), positive(rng, 3, (1000,))
    covariance[77] *= -1
    said = r"covariance is not positive definite in 1 of 1000 cases, the first at index \(77,\): feature 0 is"
    arrays = x, np.zeros(3), covariance
    found, info = smallmm.mahalanobis.ex(*map(put, arrays))
    expected, expected_info = smallmm.mahalanobis.ex(*arrays)
    assert_same((found, info), (expected, expected_info), get)
    with pytest.raises(smallmm.LinAlgError, match=said):
        smallmm.mahalanobis(*map(put, arrays))


def test_streams_out_and_derivatives(rng, torch_cuda):
    arrays = [torch_cuda.asarray(x, device="cuda") for x in kalman(rng, 4, 2, 200_000)]
    expected = smallmm.kalman_step(*arrays)
    stream = torch_cuda.cuda.Stream()
    stream.wait_stream(torch_cuda.cuda.current_stream())
    with torch_cuda.cuda.stream(stream):
        later = [x * 2 / 2 for x in arrays]
        found = smallmm.kalman_step(*later)
        x, p = later[0], later[1]
        smallmm.kalman_step(*later, out=(x, p))
    stream.synchronize()
    for y, z, t in zip(found, expected, (x, p), strict=True):
        assert torch_cuda.equal(y, z)
        assert torch_cuda.equal(t, z)
    arrays[0].requires_grad_()
    gradient = torch_cuda.autograd.grad(smallmm.kalman_step(*arrays)[0].sum(), arrays[0])[0]
    assert gradient.shape == arrays[0].shape
    assert smallmm.explain(smallmm.kalman_step, *arrays).fused  # derivatives are programs, too


def test_a_large_stack(torch_cuda):
    """Beyond 2^31 elements."""
    if torch_cuda.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("too little memory")
    triad = fuse(lambda b, c: b + c * c)
    b = torch_cuda.arange((1 << 31) + 77, device="cuda", dtype=torch_cuda.float32)
    assert torch_cuda.equal(triad(b, 2.0)[-100:], b[-100:] + 4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "int32"])
def test_numbers_of_calls_that_were_met(torch, rng, dtype):
    """The second call has the bits of the first, and of the host, whatever numbers become."""
    a = (4 * rng.standard_normal((9, 3))).astype(dtype)
    function = smallmm.fuse("(n),(),()")(lambda x, s, t: x * s + t)
    expected = function(a, 0.1, 3)
    x = torch.from_numpy(a).cuda()
    for _ in range(3):
        assert function(x, 0.1, 3).cpu().numpy().tobytes() == expected.tobytes()
    for s, t in ((0.7, 3), (0.1, 5), (-0.0, 0)):
        assert function(x, s, t).cpu().numpy().tobytes() == function(a, s, t).tobytes()


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 9, 12, 16, 17])
@pytest.mark.parametrize("dtype", ["c8", "c16", "f4", "f8"])
def test_functions_with_branches(n, dtype, rng, library):
    """Loops over shared memory: once each fourth quotient was wrong where a matrix was shared by all."""
    put, get = library
    x, y = rng.uniform(-1, 1, (2, 40, n, n))
    y = (y + 1j * x[::-1] if dtype[0] == "c" else y).astype(dtype)

    def branches(x, y):
        z = 0.5 * (y.T @ y)
        return x[0] * 1.0, z / (1 + abs(z)), np.sqrt(1 + z * z), np.exp(-abs(z)), np.sin(z.real)

    fused = fuse(branches, "(n,n),(n,n)")
    for own in (y, y[0]):
        arrays = put(x), put(own)
        assert n > 16 or smallmm.explain(fused, *arrays).fused
        if smallmm.explain(fused, *arrays).fused:
            assert_same(fused(*arrays), fused(x, own), get)

"""Groups whose members are on a GPU: results, infos and errors are those of the host's groups, and nothing
waits for the device but what checks infos."""

import numpy as np
import pytest

import smallmm

pytestmark = pytest.mark.usefixtures("torch_cuda")

SIZES = (3, 2, 5, 3, 1, 2, 3, 32)


def members(rng, dtype=np.float64):
    """Square matrices, and right-hand sides that have other stacks."""
    imaginary = 1j if np.dtype(dtype).kind == "c" else 0
    a = [rng.standard_normal((2, n, n)) for n in SIZES]
    a = [x + imaginary * y + 2 * len(x) * np.eye(len(x)) for x, y in a]
    b = [rng.standard_normal((n, 1 + i % 3)) for i, n in enumerate(SIZES)]
    return [x.astype(dtype) for x in a], [x.astype(dtype) for x in b]


def on_host(x, asnumpy):
    """The arrays of all members, or one of all numbers, in tuples where there are several results."""
    if isinstance(x, tuple):
        return [on_host(y, asnumpy) for y in x]
    return [*map(asnumpy, x)] if isinstance(x, smallmm.Group) else [asnumpy(x)]


def same(library, function, *groups):
    asarray, asnumpy = library
    found = on_host(function(*(smallmm.Group(map(asarray, x)) for x in groups)), asnumpy)
    expected = on_host(function(*map(smallmm.Group, groups)), np.asarray)
    if isinstance(expected[0], np.ndarray):
        found, expected = [found], [expected]
    for ours, theirs in zip(found, expected, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_results(library, rng, dtype):
    a, b = members(rng, dtype)
    same(library, smallmm.matmul, a, b)
    same(library, lambda x: x.conj().mT @ x, a)
    same(library, smallmm.solve, a, b)
    same(library, lambda x, y: smallmm.solve(x, y, left=False), a, [x.T for x in b])
    same(library, lambda x, y: smallmm.solve_triangular(x, y, "C", lower=True), a, b)
    same(library, lambda x, y: smallmm.lu_solve(smallmm.lu_factor(x), y), a, b)
    same(library, lambda x: smallmm.cholesky(x @ x.conj().mT), a)
    same(library, smallmm.det, a)
    same(library, smallmm.inv_ex, [*a, np.zeros((3, 3), dtype)])
    same(library, lambda x: smallmm.eigvalsh(x), a)
    same(library, lambda x, y: smallmm.batched_matmul(x, y, alpha=3), a, b)
    same(library, smallmm.matvec, a, [x[:, 0] for x in b])


def test_dtypes(library, rng):
    """Each member in its own; numbers of all in one."""
    a, b = members(rng)
    dtypes = ["f8", "f4", "f2", "i4", "f4", "c8", "f2", "f8"]
    mixed = [x.astype(dtype) for x, dtype in zip(a, dtypes, strict=True)]
    same(library, smallmm.matmul, mixed, b)
    same(library, smallmm.det, mixed)


def test_layouts(library, rng):
    asarray, asnumpy = library
    whole = asarray(rng.standard_normal((4, 6, 5, 5)))
    views = [whole[0, 0], whole[1, ::2, 1, :3], whole[0, 1].T, whole[2, :5, 0, ::2], whole[1, 1]]
    group = smallmm.Group(views)
    gram = group.mT @ group
    for x, y, z in zip(group, views, gram, strict=True):
        np.testing.assert_array_equal(asnumpy(x), asnumpy(y))
        np.testing.assert_array_equal(asnumpy(z), smallmm.matmul(asnumpy(y).T, asnumpy(y)))


def test_one_matrix_for_all(library, rng):
    asarray, asnumpy = library
    a, matrix = [rng.standard_normal((n, 3)) for n in SIZES], rng.standard_normal((3, 2))
    found = smallmm.matmul(smallmm.Group(map(asarray, a)), asarray(matrix))
    for x, y in zip(found, a, strict=True):
        np.testing.assert_array_equal(asnumpy(x), smallmm.matmul(y, matrix))


def test_bad_matrices(library):
    asarray, asnumpy = library
    a = [np.eye(2), np.zeros((3, 3)), np.eye(3), np.zeros((2, 2))]
    with pytest.raises(smallmm.LinAlgError) as theirs:
        smallmm.inv(smallmm.Group(a))
    with pytest.raises(smallmm.LinAlgError) as ours:
        smallmm.inv(smallmm.Group(map(asarray, a)))
    assert str(ours.value) == str(theirs.value)
    assert asnumpy(ours.value.info).tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(asnumpy(ours.value.result[2]), np.eye(3))


def test_does_not_wait(torch):
    """Groups of matrices that the same stream writes late; but for the first time, when kernels are built."""
    side = torch.cuda.Stream()
    x = [torch.zeros(n, n, dtype=torch.float64, device="cuda") for n in SIZES]
    b = [torch.ones(n, 1 + i % 3, dtype=torch.float64, device="cuda") for i, n in enumerate(SIZES)]
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for cycles in (1, 500_000_000):
            torch.cuda._sleep(cycles)
            for matrix in x:
                matrix.copy_(2 * torch.eye(len(matrix), device="cuda"))
            group = smallmm.Group(x)
            solution, info = smallmm.solve_ex(group, smallmm.Group(b))
            determinants = smallmm.det(smallmm.matmul(group, group))
            done = torch.cuda.Event()
            done.record()
        assert not done.query(), "a call waited for the stream"
        done.synchronize()
    assert determinants.tolist() == [4.0**n for n in SIZES]
    assert not info.any()
    assert all((y == 0.5).all() for y in solution)


def test_larger_than_kernels(library, rng):
    """The library's own linear algebra inverts members that no kernel takes."""
    asarray, asnumpy = library
    a = [rng.standard_normal((n, n)) + 2 * n * np.eye(n) for n in (40, 3, 40)] + [np.zeros((40, 40))]
    inverse, info = smallmm.inv_ex(smallmm.Group(map(asarray, a)))
    for x, y in zip(inverse, a[:3], strict=False):
        np.testing.assert_allclose(asnumpy(x), np.linalg.inv(y), rtol=1e-10, atol=1e-13)
    assert asnumpy(info).tolist() == [0, 0, 0, 1]
    assert np.isnan(asnumpy(inverse[3])).all()


def test_graph(torch):
    """Of a group that is made before, whose members are written anew."""
    group = smallmm.Group([torch.eye(n, device="cuda") for n in SIZES])
    smallmm.det(group)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = smallmm.det(group)
    for x in group:
        x.mul_(2)
    graph.replay()
    assert found.tolist() == [2.0**n for n in SIZES]
    right = smallmm.Group([torch.ones(n, 1 + i % 3, device="cuda") for i, n in enumerate(SIZES)])
    smallmm.matmul(group, right)
    with pytest.raises(RuntimeError, match="no CUDA graph can have it"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            smallmm.matmul(group, right)  # members of `group` change places, which are copied to the device


def test_jax(required, rng):
    jax = required("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    a, b = members(rng, "f4")
    library = jax.numpy.asarray, np.asarray
    same(library, smallmm.solve, a, b)
    same(library, smallmm.slogdet, [x for x in a if len(x) < 3])


def test_other_places(torch):
    """All members are of one library, and on the device."""
    a = torch.eye(2, device="cuda")
    with pytest.raises(TypeError, match=r"Group: arrays\[1\] is a numpy.ndarray on the host but arrays\[0\]"):
        smallmm.Group([a, np.eye(2)])
    with pytest.raises(TypeError, match=r"x2 is a numpy.ndarray on the host but x1 is a torch.Tensor"):
        smallmm.matmul(smallmm.Group([a]), smallmm.Group([np.eye(2)]))
    with pytest.raises(TypeError, match=r"arrays\[0\] is a torch.Tensor that requires a gradient"):
        smallmm.Group([a.clone().requires_grad_()])

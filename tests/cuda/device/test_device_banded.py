"""Solves with matrices of few diagonals on a GPU: the CPU's bits for every kernel, order, layout and kind of
matrix; what people call, with its errors."""

import numpy as np
import pytest
from accuracy import as_tuple
from cases import OF_DIAGONALS
from matrices import diagonals_of_every_kind, normal
from test_device_linalg import assert_cpu_bits, call

import smallmm
from smallmm import _core

pytestmark = pytest.mark.usefixtures("torch_cuda")

ORDERS = [1, 2, 3, 5, 8, 16, 17, 32, 33, 64, 100, 257, 1000]


def widths_of(name):
    """How many diagonals, and of them below the main one; None: each matrix's own number."""
    if name.startswith("solve_tridiagonal"):
        return [(3, 1)]
    if name == "solve_banded":
        return [(1, 0), (2, 0), (2, 1), (3, 1), (5, 2), (9, 4), (6, 1), (40, 20), (4, None)]
    return [(m, 0) for m in (1, 2, 3, 6, 20)]


@pytest.mark.parametrize("name", OF_DIAGONALS)
def test_every_order(torch, rng, dtype, name):
    for n in ORDERS:
        for m, lower in widths_of(name):
            count = int(rng.choice([1, 45, 1000])) if n > 300 else int(rng.choice([1, 45, 7001]))
            k = int(rng.choice([1, 1, 2, 4, 5])) if n < 300 else 1
            arrays = diagonals_of_every_kind(rng, name, m, n, k, count, dtype, lower)
            assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize("name", OF_DIAGONALS)
def test_many(torch, rng, name):
    """More systems than are under way at a time, of several tiles."""
    arrays = diagonals_of_every_kind(rng, name, 3, 40, 1, 200_001, np.float64, 1)
    assert_cpu_bits(name, call(torch, name, arrays), arrays)


def test_in_parts(torch, rng, dtype):
    """Long systems without row exchanges."""
    for n, k, count in ((8192, 1, 3), (9001, 3, 2), (600_000, 1, 1)):
        arrays = [normal(rng, (count, size), dtype) for size in (n - 1, n, n - 1)]
        arrays[1] += 6
        arrays.append(normal(rng, (count, n, k), dtype))
        name = "solve_tridiagonal_unpivoted"
        assert_cpu_bits(name, call(torch, name, arrays), arrays)


def test_right_hand_sides(torch, rng, dtype):
    for name, m, lower, n, k in (
        ("solve_tridiagonal", 3, 1, 50, 100),
        ("solve_banded", 5, 2, 20, 33),
        ("solve_banded", 40, 9, 70, 3),
        ("solveh_banded", 3, 0, 70, 17),
    ):
        arrays = diagonals_of_every_kind(rng, name, m, n, k, 60, dtype, lower)
        assert_cpu_bits(name, call(torch, name, arrays), arrays)
        one = [x[0] if x.ndim else x for x in arrays]
        one[-1] = np.ascontiguousarray(one[-1][:, 0])
        assert_cpu_bits(name, call(torch, name, one), one)


@pytest.mark.parametrize("name", OF_DIAGONALS)
def test_layouts(torch, rng, dtype, name):
    """Gaps, reversed order of dimensions, operands that all matrices share, several batch dimensions."""
    m, lower = widths_of(name)[-2 if name == "solve_banded" else -1]
    arrays = diagonals_of_every_kind(rng, name, m, 37, 3, 60, dtype, lower)
    frames = [np.full([size + 3 for size in x.shape], -7, x.dtype) for x in arrays]
    moved = []
    for x, frame in zip(arrays, frames, strict=True):
        if not x.ndim:
            moved.append(x)
            continue
        inner = tuple(slice(1, size + 1) for size in x.shape)
        frame[inner] = x
        moved.append(torch.from_numpy(frame).cuda()[inner])
    assert_cpu_bits(name, _core.direct[name](*moved), arrays)
    turned = [torch.from_numpy(np.asfortranarray(x)).cuda() if x.ndim else x for x in arrays]
    assert_cpu_bits(name, _core.direct[name](*turned), arrays)
    shared = [arrays[0][:1], *arrays[1:]]
    assert_cpu_bits(name, call(torch, name, shared), shared)
    folded = [x.reshape(5, 12, *x.shape[1:]) if x.ndim else x for x in arrays]
    folded[-1] = folded[-1][:, :1]
    assert_cpu_bits(name, call(torch, name, folded), folded)
    out = torch.full((120, 37, 6), -3, dtype=torch.from_numpy(arrays[-1]).dtype, device="cuda")
    results = call(torch, name, arrays, out[::2, :, ::2])
    assert_cpu_bits(name, results, arrays)
    assert bool((out[1::2] == -3).all())
    assert bool((out[:, :, 1::2] == -3).all())


@pytest.mark.parametrize("name", OF_DIAGONALS)
def test_in_place(torch, rng, dtype, name):
    for n in (1, 3, 31, 33, 500):
        for k in (1, 3):
            m, lower = widths_of(name)[-2 if name == "solve_banded" else 0]
            arrays = diagonals_of_every_kind(rng, name, m, n, k, 70, dtype, lower)
            x = [torch.from_numpy(y).cuda() if y.ndim else y for y in arrays]
            results = as_tuple(_core.direct[name](*x, x[-1]))
            assert results[0] is x[-1]
            assert_cpu_bits(name, results, arrays)
    ab, b = normal(rng, (9, 3, 3), dtype), normal(rng, (9, 3, 3), dtype)  # X does not replace diagonals
    x, y = torch.from_numpy(ab).cuda(), torch.from_numpy(b).cuda()
    expected = smallmm.solve_banded((1, 1), ab, b)
    np.testing.assert_array_equal(smallmm.solve_banded((1, 1), x, y, out=x).cpu().numpy(), expected)


def test_few_long_systems(torch, rng, dtype):
    n = 200_000
    arrays = diagonals_of_every_kind(rng, "solve_tridiagonal", 3, n, 1, 3, dtype)
    assert_cpu_bits("solve_tridiagonal", call(torch, "solve_tridiagonal", arrays), arrays)


def test_graphs_and_streams(torch, rng):
    """What long systems need beside their operands belongs to the graph, or comes in the stream's order."""
    arrays = diagonals_of_every_kind(rng, "solve_tridiagonal", 3, 300, 1, 500, np.float64)
    x = [torch.from_numpy(y).cuda() for y in arrays]
    out, info = torch.empty_like(x[-1]), torch.empty(500, dtype=torch.int32, device="cuda")
    direct = _core.direct["solve_tridiagonal"]
    direct(*x, out, info)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        direct(*x, out, info)
    for _ in range(3):
        out.zero_()
        graph.replay()
        assert_cpu_bits("solve_tridiagonal", (out, info), arrays)
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    results = []
    for i in range(20):
        with torch.cuda.stream(streams[i % 4]):
            results.append(direct(*x))
    torch.cuda.synchronize()
    for result in results:
        assert_cpu_bits("solve_tridiagonal", result, arrays)


def test_what_people_call(torch, rng):
    n = 40
    dl, d, du = (rng.standard_normal((30, size)) for size in (n - 1, n, n - 1))
    ab, b = rng.standard_normal((30, 4, n)), rng.standard_normal((30, n, 2))
    ab[:, 0] += 9
    move = lambda *arrays: [torch.from_numpy(x).cuda() for x in arrays]  # noqa: E731

    def same(device, host):
        assert device.is_cuda
        np.testing.assert_array_equal(device.cpu().numpy(), host)

    sm = smallmm
    same(sm.solve_tridiagonal(*move(dl, d, du, b)), sm.solve_tridiagonal(dl, d, du, b))
    same(
        sm.solve_tridiagonal(*move(dl, d + 5, du, b), pivot=False),
        sm.solve_tridiagonal(dl, d + 5, du, b, pivot=False),
    )
    same(sm.solve_banded((3, 0), *move(ab, b)), sm.solve_banded((3, 0), ab, b))
    same(sm.solveh_banded(*move(ab, b), lower=True), sm.solveh_banded(ab, b, lower=True))
    assert sm.explain("solve_tridiagonal", *move(dl, d, du, b)).kernel.startswith("smm_banded_tiles_f64_sm")
    assert (
        sm.explain("solve_banded", (30, 30), *move(rng.random((9, 61, 80)), rng.random((9, 80, 1)))).strategy
        == "thread"
    )
    bad = ab.copy()
    bad[7] = 0
    with pytest.raises(sm.LinAlgError, match=r"1 of 30 matrices is singular, the first at index \(7,\)") as e:
        sm.solve_banded((3, 0), *move(bad, b))
    assert e.value.info.is_cuda
    expected = sm.solve_banded((3, 0), np.delete(ab, 7, 0), np.delete(b, 7, 0))
    np.testing.assert_array_equal(np.delete(e.value.result.cpu().numpy(), 7, 0), expected)
    with pytest.raises(ValueError, match="dl has shape"):
        sm.solve_tridiagonal(*move(d, d, du, b))
    with pytest.raises(TypeError, match="on the host but"):
        sm.solve_tridiagonal(*move(dl, d, du), b)


@pytest.mark.parametrize("word", ["tridiagonal", "banded", "auto"])
def test_structures(torch, rng, dtype, word):
    a = (rng.standard_normal((40, 9, 9)) + 9 * np.eye(9)).astype(dtype)
    kinds = (
        np.triu(a[:8]),
        np.tril(a[8:16]),
        np.triu(np.tril(a[16:24], 1), -1),
        a[24:32] @ a[24:32].mT,
        a[32:],
    )
    a = np.concatenate([*kinds, -np.ones((1, 9, 9), dtype), np.eye(9, dtype=dtype)[None]])
    a[30] -= 300 * np.eye(9, dtype=dtype)  # symmetric, not definite
    a[30] = -a[30]
    b = rng.standard_normal((len(a), 9, 2)).astype(dtype)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    found, info = smallmm.linsolve_ex(x, y, assume_a=word)
    expected, infos = smallmm.linsolve_ex(a, b, assume_a=word)
    np.testing.assert_array_equal(info.cpu().numpy(), infos)
    np.testing.assert_array_equal(found.cpu().numpy(), expected)
    found, _ = smallmm.linsolve_ex(x, y[0, :, 0], assume_a=word)
    np.testing.assert_array_equal(found.cpu().numpy(), smallmm.linsolve_ex(a, b[0, :, 0], assume_a=word).x)
    assert smallmm.linsolve_ex(x[:0], y[:0], assume_a=word).x.shape == (0, 9, 2)
    if word == "auto":
        plan = smallmm.explain("linsolve", x, y, assume_a="auto")
        assert plan.found == smallmm.explain("linsolve", a, b, assume_a="auto").found

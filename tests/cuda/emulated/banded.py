"""Functions of matrices of few diagonals, whose arrays are on the emulated GPU: results and errors are those
of the host, from one system to several tiles of one."""

import os

import numpy as np
from checks import raised

import smallmm
from smallmm import _core, cuda


def same(function, *arrays, **options):
    x = function(*map(cuda.to_device, arrays), **options)
    assert isinstance(x, cuda.DeviceArray)
    np.testing.assert_array_equal(cuda.to_host(x), function(*arrays, **options))


def long_systems(rng, n, k, dtype):
    """Three of them, which are solved in parts, and the rows of pivots that are zero."""
    dl, d, du = ((rng.standard_normal((3, size)) / 4).astype(dtype) for size in (n - 1, n, n - 1))
    d += 2
    for system, row in ((0, 700), (2, 64), (2, 900)):  # of a part, and of separators
        d[system, row] = dl[system, row - 1 : row + 1] = du[system, row - 1 : row + 1] = 0
    return dl, d, du, (rng.standard_normal((3, n, k)) * (1 + 1j * (d.dtype.kind == "c"))).astype(dtype)


def in_parts(rng):
    unpivoted = _core.solve_tridiagonal_unpivoted
    row = {"op": "SOLVE_TRIDIAGONAL", "form": 16, "m": 3, "k": 1, "n": 8192, "lower": 1}
    row |= {"kernel": "banded_parts", "lanes": 1, "threads": 32, "rows": 16}
    _core.cuda_tune([{**row, "dtype": "c128", "small": 1}])
    for n, k, dtype in (
        (8193 + 5, 1, np.float64),
        (8193, 2, np.complex64),
        (8192, 1, np.complex128),
        (70_001, 1, np.float32),
    ):
        arrays = long_systems(rng, n, k, dtype)
        expected, infos = unpivoted(*arrays)
        assert infos.tolist() == [701, 0, 65]
        held = [cuda.to_device(x) for x in (*arrays, np.zeros_like(expected), np.full(3, 7, np.int32))]
        assert _core.device_run(unpivoted, 0, *held)
        x, info = map(cuda.to_host, held[4:])
        np.testing.assert_array_equal(x, expected)
        np.testing.assert_array_equal(info, infos)
        assert _core.device_run(unpivoted, 0, *held[:4], held[3], held[5])  # in place
        np.testing.assert_array_equal(cuda.to_host(held[3]), expected)
        same(smallmm.solve_tridiagonal, *(y[1] for y in arrays), pivot=False)
    dl, d, du, b = long_systems(rng, 8192, 1, np.float64)
    d[[0, 2]] += 9
    same(smallmm.solve_tridiagonal, dl[0], d[:, None], du[0], b[:2], pivot=False)
    held = [cuda.to_device(x) for x in (dl, d, du, b)]
    plan = smallmm.explain("solve_tridiagonal", *held, pivot=False)
    assert (plan.parts, plan.rows, plan.matrices) == (512, 16, 3), plan
    found = cuda.offload(smallmm.solve_tridiagonal, dl, d, du, b, pivot=False, block=1)
    np.testing.assert_array_equal(found, smallmm.solve_tridiagonal(dl, d, du, b, pivot=False))
    halves = [x.astype(np.float16) for x in (dl, d, du, b)]
    same(smallmm.solve_tridiagonal, *halves, pivot=False)


def message(function, *arrays, **options):
    error = raised(function, *arrays, **options)
    return type(error), str(error)


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    rng = np.random.default_rng(0)
    n = 40
    dl, d, du = (rng.standard_normal((7, size)) for size in (n - 1, n, n - 1))
    ab, b = rng.standard_normal((7, 3, n)), rng.standard_normal((7, n, 1))
    definite = ab + 9 * np.array([[1], [0], [0]])

    def banded(ab, b, **options):
        return smallmm.solve_banded((1, 1), ab, b, **options)

    same(smallmm.solve_tridiagonal, dl, d, du, b)
    same(smallmm.solve_tridiagonal, dl, d, du, b, pivot=False)
    same(smallmm.solve_tridiagonal, dl[0], d[0], du[0], b[0, :, 0])
    same(smallmm.solve_tridiagonal, dl[0], d, du, b[0])
    same(smallmm.solve_tridiagonal, dl[:, :0], d[:, :1], du[:, :0], b[:, :1])
    same(banded, ab, b)
    same(smallmm.solveh_banded, definite, b, lower=True)
    for dtype in (np.float32, np.complex64, np.complex128):
        turned = [
            (x * np.exp(1j * x) if dtype != np.float32 else x).astype(dtype) for x in (dl, d, du, ab, b)
        ]
        same(smallmm.solve_tridiagonal, *turned[:3], turned[-1])
        same(banded, *turned[3:])
        off = turned[3] * np.array([[0], [1], [1]], dtype) + 20 * np.array([[1], [0], [0]], dtype)
        same(smallmm.solveh_banded, off, turned[-1], lower=True)
        same(smallmm.solveh_banded, off[:, ::-1], turned[-1])
    for function, *arrays in (
        (smallmm.solve_tridiagonal, dl[:, :0], d[:, :0], du[:, :0], b[:, :0]),
        (smallmm.solve_tridiagonal, dl[:0], d[:0], du[:0], b[:0]),
        (banded, ab[..., :0], b[:, :0]),
    ):
        assert cuda.to_host(function(*map(cuda.to_device, arrays))).shape == arrays[-1].shape

    # errors are the host's; a bad matrix is NaN, and no other
    bad = ab.copy()
    bad[3] = 0
    assert message(banded, *map(cuda.to_device, (bad, b))) == message(banded, bad, b)
    wrong = (d, d, du, b)
    words = message(smallmm.solve_tridiagonal, *map(cuda.to_device, wrong))
    assert words == message(smallmm.solve_tridiagonal, *wrong)
    kind, words = message(smallmm.solve_tridiagonal, *map(cuda.to_device, (dl, d, du)), b)
    assert kind is TypeError, kind
    assert "b is a numpy.ndarray on the host but dl is" in words, words

    # X may take the place of B, but not of diagonals
    for function, *arrays in ((banded, ab, b), (banded, ab[..., :3], np.repeat(b[:, :3], 3, -1))):
        expected = function(*arrays)
        for place in range(2):
            moved = [*map(cuda.to_device, arrays)]
            if moved[place].shape == expected.shape:
                assert function(*moved, out=moved[place]) is moved[place]
                np.testing.assert_array_equal(cuda.to_host(moved[place]), expected)

    # how many diagonals are below the main one may be each matrix's own; no sense is no crash
    lower = np.array([0, 1, 2, 1, -1, 3, 0], np.int32)
    results = np.zeros(b.shape), np.zeros(7, np.int32)
    held = [cuda.to_device(x) for x in (ab, lower, b, *results)]
    assert _core.device_run(_core.solve_banded, 0, *held)
    x, info = map(cuda.to_host, held[3:])
    assert info.tolist() == [0, 0, 0, 0, -1, -1, 0]
    assert np.isnan(x[4:6]).all()
    np.testing.assert_array_equal(x[2], smallmm.solve_banded((2, 0), ab[2], b[2]))

    plan = smallmm.explain("solve_banded", (1, 1), *map(cuda.to_device, (ab, b)))
    on_host = smallmm.explain("solve_banded", (1, 1), ab, b)
    assert plan.kernel == "smm_banded_tiles_f64_sm90", plan.kernel
    assert (plan.matrices, plan.flops, plan.bytes) == (7, on_host.flops, on_host.bytes)
    found = cuda.offload(smallmm.solve_tridiagonal, dl, d, du, b, block=1000)
    np.testing.assert_array_equal(found, smallmm.solve_tridiagonal(dl, d, du, b))
    found = cuda.offload(smallmm.solve_banded, (1, 1), ab, b, block=1000)
    np.testing.assert_array_equal(found, banded(ab, b))

    in_parts(rng)

    held = [cuda.to_device(x) for x in (dl, d, du, b)]
    os.environ["EMULATED_MEMORY"] = "1"  # what long systems need beside their operands is not to be had
    kind, words = message(smallmm.solve_tridiagonal, *held, out=held[-1])
    assert kind is MemoryError, (kind, words)


if __name__ == "__main__":
    main()

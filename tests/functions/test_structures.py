"""Solves by structure: against SciPy's `assume_a`, against NumPy in a higher precision, what is read, what is
refused, and what is said of bad matrices."""

import re
from functools import cache, partial

import numpy as np
import pytest
import scipy.linalg
from accuracy import COMPLEX, assert_accurate_solution, assert_same, assert_same_bits, has_fma
from matrices import diagonals_of_every_kind, good, good_definite, normal

import smallmm
from smallmm import _core

EYE, ONES = np.eye, np.ones
WORDS = {
    "general": ("general", "gen"),
    "symmetric": ("symmetric", "sym", "hermitian", "her"),
    "definite": ("positive definite", "pos"),
    "upper": ("upper triangular",),
    "lower": ("lower triangular",),
    "tridiagonal": ("tridiagonal",),
    "banded": ("banded",),
    "diagonal": ("diagonal",),
}
ORDERS = [1, 2, 3, 5, 8, 13, 32, 33, 50]
LOWER = ("symmetric", "hermitian", "positive definite")


def matrices_of(kind, rng, n, dtype):
    """A stack of well-conditioned matrices of a structure."""
    x = rng.standard_normal((6, n, n)) + 2 * n * np.eye(n)
    x = {
        "symmetric": lambda: x + x.mT - 3 * n * np.eye(n),
        "definite": lambda: x @ x.mT,
        "upper": lambda: np.triu(x),
        "lower": lambda: np.tril(x),
        "tridiagonal": lambda: np.tril(np.triu(x, -1), 1),
        "banded": lambda: np.tril(np.triu(x, -2), 1),
        "diagonal": lambda: x * np.eye(n),
    }.get(kind, lambda: x)()
    return x.astype(dtype)


def part_that_is_read(kind, a, lower):
    """The matrices with NaN where nothing is read."""
    keep = {
        "symmetric": np.tril if lower else np.triu,
        "definite": np.tril if lower else np.triu,
        "upper": np.triu,
        "lower": np.tril,
        "tridiagonal": lambda x: np.tril(np.triu(x, -1), 1),
        "diagonal": lambda x: x * np.eye(x.shape[-1]),
    }.get(kind)
    return a if keep is None else np.where(keep(np.ones_like(a)) != 0, a, np.nan).astype(a.dtype)


def diagonals(a):
    return [a.diagonal(k, -2, -1) for k in (-1, 0, 1)]


def stored(a, below, above):
    """Diagonals as SciPy stores them, with NaN outside of the matrix."""
    n = a.shape[-1]
    ab = np.full((*a.shape[:-2], below + above + 1, n), np.nan, a.dtype)
    for k in range(-min(below, n - 1), min(above, n - 1) + 1):
        ab[..., above - k, max(k, 0) : n + min(k, 0)] = a.diagonal(k, -2, -1)
    return ab


@cache
def solved_by_scipy(kind, word, n, dtype):
    """Matrices, right-hand sides and the solutions, by either triangle."""
    rng = np.random.default_rng(n)
    a, b = matrices_of(kind, rng, n, dtype), normal(rng, (6, n, 2), dtype)
    solve = partial(scipy.linalg.solve, assume_a=word)
    wide = [(x.astype(float), y.astype(float)) for x, y in zip(a, b, strict=True)]
    return a, b, [np.stack([solve(x, y, lower=lower) for x, y in wide]) for lower in (False, True)]


@pytest.mark.parametrize(("kind", "word"), [(kind, word) for kind, words in WORDS.items() for word in words])
class TestWords:
    @pytest.mark.parametrize("n", ORDERS)
    def test_as_scipys(self, isa, dtype, kind, word, n):
        """Only the part is read that is named. LAPACK is the judge of order and sign."""
        a, b, of_scipy = solved_by_scipy(kind, word, n, dtype)
        for lower in (False, True):
            given = part_that_is_read(kind, a, lower)
            x = smallmm.solve(given, b, assume_a=word, lower=lower)
            assert_accurate_solution(x, a, b)
            assert_same_bits(smallmm.linsolve(given, b, assume_a=word, lower=lower), x)
            result, info = smallmm.linsolve_ex(given, b, assume_a=word, lower=lower)
            assert_same_bits(result, x)
            assert_same_bits(info, np.zeros(6, np.int32))
            rtol = 1e-3 if dtype == np.float32 else 1e-9
            np.testing.assert_allclose(x, of_scipy[lower], rtol=rtol, atol=1e-6)

    def test_vectors_transposes_and_out(self, kind, word, rng):
        a, b = matrices_of(kind, rng, 5, np.float64), normal(rng, (5,), np.float64)
        x = smallmm.linsolve(a, b, assume_a=word)
        assert x.shape == (6, 5)
        assert_same_bits(x, smallmm.linsolve(a, b[:, None], assume_a=word)[..., 0])
        transposed = smallmm.linsolve(a, b, assume_a=word, transposed=True)
        np.testing.assert_allclose(smallmm.matvec(a.mT, transposed), np.broadcast_to(b, (6, 5)), atol=1e-12)
        out = np.full((6, 10), 7.0)[:, ::2]
        assert smallmm.linsolve(a, b, assume_a=word, out=out) is out
        assert_same_bits(np.ascontiguousarray(out), x)
        assert smallmm.solve(a[0], b, assume_a=word).shape == (5,)

    def test_one_bad_matrix(self, isa, dtype, kind, word, rng):
        a, b = matrices_of(kind, rng, 4, dtype), normal(rng, (6, 4, 3), dtype)
        good_ones = smallmm.solve(a, b, assume_a=word)
        a[2] = 0
        with pytest.raises(smallmm.LinAlgError, match=r"solve: 1 of 6 matrices is .* index \(2,\)") as caught:
            smallmm.solve(a, b, assume_a=word)
        info = smallmm.linsolve_ex(a, b, assume_a=word).info
        # which of the triangles of a symmetric matrix is eliminated from the other end
        assert info.tolist() == [0, 0, 4 if kind == "symmetric" else 1, 0, 0, 0]
        assert_same_bits(caught.value.info, info)
        assert np.isnan(caught.value.result[2]).all()
        others = [0, 1, 3, 4, 5]
        assert_same_bits(caught.value.result[others], good_ones[others])


@pytest.mark.parametrize(
    "word", ["diagonal", "tridiagonal", "banded", "auto", "sym", "pos", "upper triangular"]
)
@pytest.mark.parametrize("make", [list, memoryview], ids=["lists", "memoryviews"])
def test_what_numpy_makes_arrays_of(word, make):
    a, b = np.diag([4.0, 16.0]), np.array([4.0, 32.0])
    given = (a.tolist(), b.tolist()) if make is list else (memoryview(a), memoryview(b))
    np.testing.assert_array_equal(smallmm.solve(*given, assume_a=word), [1, 2])
    np.testing.assert_array_equal(smallmm.linsolve(*given, assume_a=word), [1, 2])


@pytest.mark.parametrize("word", ["general", "diagonal", "tridiagonal", "banded", "auto"])
def test_infos_are_of_the_whole_batch(word, rng):
    """Of one matrix for many right-hand sides."""
    x, info = smallmm.linsolve_ex(np.diag([1.0, 0.0, 2.0]), rng.random((5, 3, 2)), assume_a=word)
    assert (x.shape, info.shape) == ((5, 3, 2), (5,))
    assert np.isnan(x).all()
    assert (info > 0).all()


@pytest.mark.parametrize("n", ORDERS)
class TestDiagonals:
    def test_tridiagonal(self, isa, dtype, n, rng):
        a = np.tril(np.triu(good(rng, n, n, dtype), -1), 1)
        b = normal(rng, (len(a), n, 3), dtype)
        x = smallmm.solve_tridiagonal(*diagonals(a), b)
        assert_accurate_solution(x, a, b)
        assert_same_bits(smallmm.solve(a, b, assume_a="tridiagonal"), x)
        dominant = a + np.where(np.eye(n), 4 * abs(a).max((-2, -1), keepdims=True), 0).astype(dtype)
        assert_accurate_solution(smallmm.solve_tridiagonal(*diagonals(dominant), b, pivot=False), dominant, b)

    @pytest.mark.parametrize(("below", "above"), [(0, 0), (1, 1), (2, 0), (0, 3), (5, 2), (1, 6)])
    def test_banded(self, isa, dtype, n, below, above, rng):
        a = np.tril(np.triu(good(rng, n, n, dtype), -below), above)
        a[..., range(n), range(n)] += 1
        b = normal(rng, (len(a), n, 3), dtype)
        x = smallmm.solve_banded((below, above), stored(a, below, above), b)
        assert_accurate_solution(x, a, b)
        assert_same_bits(smallmm.linsolve(a, b, assume_a="banded", bandwidths=(below, above)), x)
        flipped = smallmm.linsolve(a, b, assume_a="banded", bandwidths=(below, above), transposed=True)
        assert_accurate_solution(flipped, a.mT, b)

    @pytest.mark.parametrize("width", [0, 1, 2, 6])
    def test_definite_banded(self, isa, dtype, n, width, rng):
        a = np.tril(np.triu(good_definite(rng, n, dtype), -width), width)
        a[..., range(n), range(n)] += abs(a).sum(-1)
        b = normal(rng, (len(a), n, 3), dtype)
        for lower in (False, True):
            ab = stored(a, width, 0) if lower else stored(a, 0, width)
            x = smallmm.solveh_banded(ab, b, lower=lower)
            assert_accurate_solution(x, a, b)
            for q in range(3 if n > 1 else 0):  # of order 1 SciPy takes no second diagonal
                expected = scipy.linalg.solveh_banded(np.nan_to_num(ab[q]).astype(float), b[q], lower=lower)
                np.testing.assert_allclose(x[q], expected, rtol=1e-3, atol=1e-6)


def test_long_systems(dtype, rng):
    """The room of a thread grows with the order, and others use it afterwards."""
    n = 20_000
    d, b = normal(rng, (5, n), dtype) + 5, normal(rng, (5, n, 1), dtype)
    off = normal(rng, (5, n - 1), dtype)
    x = smallmm.solve_tridiagonal(off, d, off, b)
    back = d[..., None] * x
    back[:, 1:] += off[..., None] * x[:, :-1]
    back[:, :-1] += off[..., None] * x[:, 1:]
    np.testing.assert_allclose(back, b, atol=1e-4 if dtype == np.float32 else 1e-12)
    ab = np.zeros((5, 3, n), dtype)
    ab[:, 0, 1:], ab[:, 1], ab[:, 2, :-1] = off, d, off
    np.testing.assert_allclose(smallmm.solve_banded((1, 1), ab, b), x, rtol=1e-3, atol=1e-4)
    a = good(rng, 8, 8, dtype)
    assert_accurate_solution(smallmm.solve(a, a), a, a)


MIN, PART = 8192, 16  # rows of a system that is solved in parts, and of these


def dominant(rng, batch, n, dtype):
    """Diagonals of matrices that every method is accurate for."""
    dl, d, du = (normal(rng, (*batch, size), np.dtype(dtype)) for size in (n - 1, n, n - 1))
    sizes = abs(d)
    sizes[..., 1:] += abs(dl)
    sizes[..., :-1] += abs(du)
    d = (np.sign(d) * sizes).astype(dtype)
    return dl, d, du


def worst_error(dl, d, du, b, x):
    """The largest |B - A X| beside |A| |X| + |B|, element by element, in units of the roundoff."""
    wide = np.clongdouble if np.iscomplexobj(x) else np.longdouble
    dl, d, du, b, x = (y.astype(wide) for y in (dl[..., None], d[..., None], du[..., None], b, x))
    residual, size = b - d * x, abs(b) + abs(d * x)
    residual[..., 1:, :] -= dl * x[..., :-1, :]
    residual[..., :-1, :] -= du * x[..., 1:, :]
    size[..., 1:, :] += abs(dl * x[..., :-1, :])
    size[..., :-1, :] += abs(du * x[..., 1:, :])
    return float((abs(residual) / size).max())


class TestParts:
    """Long systems without row exchanges, which are solved in parts."""

    ORDERS = (MIN - 1, MIN, MIN + 1, MIN + 2, MIN + PART - 1, MIN + PART, 10_000)

    @pytest.mark.parametrize("n", ORDERS)
    def test_bits_and_errors(self, isa, number, n, rng):
        """Parts of whole numbers of rows, a row more, a row less."""
        arrays = (*dominant(rng, (2,), n, number), normal(rng, (2, n, 2), np.dtype(number)))
        x, info = _core.solve_tridiagonal_unpivoted(*arrays)
        if has_fma(isa):
            assert_same((x, info), _core.reference(_core.solve_tridiagonal_unpivoted, *arrays))
        assert not info.any()
        assert worst_error(*arrays, x) <= 16 * np.finfo(number).eps

    def test_levels_of_parts(self, rng):
        """Of 2^20 rows 65536 are separators, and 4096, 256, 16 of these."""
        n = 1 << 20
        dl, d, du = dominant(rng, (), n, np.float64)
        b = normal(rng, (n,), np.dtype(np.float64))
        x = smallmm.solve_tridiagonal(dl, d, du, b, pivot=False)
        ab = np.stack([np.append(0, du), d, np.append(dl, 0)])
        np.testing.assert_allclose(x, scipy.linalg.solve_banded((1, 1), ab, b), rtol=1e-13, atol=1e-14)
        assert worst_error(dl, d, du, b[:, None], x[:, None]) <= 24 * np.finfo(np.float64).eps

    def test_against_a_higher_precision(self, rng):
        """In five levels."""
        mpmath = pytest.importorskip("mpmath")
        n = (1 << 16) + 5
        arrays = dl, d, du, b = *dominant(rng, (), n, np.float64), normal(rng, (n,), np.dtype(np.float64))
        with mpmath.workdps(40):
            below, main, above, x = ([mpmath.mpf(float(y)) for y in array] for array in arrays)
            for i in range(1, n):
                factor = below[i - 1] / main[i - 1]
                main[i] -= factor * above[i - 1]
                x[i] -= factor * x[i - 1]
            x[-1] /= main[-1]
            for i in reversed(range(n - 1)):
                x[i] = (x[i] - above[i] * x[i + 1]) / main[i]
            expected = np.array([float(y) for y in x])
        found = smallmm.solve_tridiagonal(dl, d, du, b, pivot=False)
        assert abs(found - expected).max() <= 4 * np.finfo(np.float64).eps * abs(expected).max()

    @pytest.mark.parametrize("columns", [0, 1, 3, 65])
    def test_layouts_batches_and_threads(self, number, columns, rng):
        n, batch = MIN + 40, 35 if columns < 3 else 2  # more systems than are solved at a time
        dl, d, du = dominant(rng, (batch,), n, number)
        b = normal(rng, (batch, n, columns), np.dtype(number))
        x = smallmm.solve_tridiagonal(dl, d, du, b, pivot=False)
        for q in (0, batch // 2, batch - 1):
            alone = smallmm.solve_tridiagonal(dl[q], d[q], du[q], b[q], pivot=False)
            assert_same_bits(alone, x[q])
        smallmm.set_num_threads(1)
        try:
            assert_same_bits(smallmm.solve_tridiagonal(dl, d, du, b, pivot=False), x)
        finally:
            smallmm.set_num_threads(0)
        turned = [np.asfortranarray(y)[::-1] for y in (dl, d, du)]
        out = np.full((columns, n, batch), 7, number).T[::-1]
        assert smallmm.solve_tridiagonal(*turned, b[::-1], pivot=False, out=out) is out
        assert_same_bits(np.ascontiguousarray(out[::-1]), x)
        assert smallmm.solve_tridiagonal(dl, d, du, b, pivot=False, out=b) is b
        assert_same_bits(b, x)

    def test_broadcasting(self, rng):
        n = MIN
        dl, d, du = dominant(rng, (2, 1), n, np.float64)
        b = normal(rng, (3, n, 2), np.dtype(np.float64))
        x = smallmm.solve_tridiagonal(dl[0, 0], d, du, b, pivot=False)
        assert x.shape == (2, 3, n, 2)
        assert_same_bits(smallmm.solve_tridiagonal(dl[0, 0], d[1, 0], du[1, 0], b[2], pivot=False), x[1, 2])

    @pytest.mark.parametrize("n", [MIN + 30, 66_000])
    def test_zero_pivots(self, isa, number, n, rng):
        """info is the least row with one: within a part, in the last, of a separator; of all levels."""
        separators = (PART + 1,), (64 * PART + 1,), (65 * PART + 1,)
        rows = [(1,), (2,), (PART,), *separators, (130, 5), (n,), (n - 1,), ()]
        dl, d, du = dominant(rng, (len(rows),), n, number)
        b = normal(rng, (len(rows), n, 1), np.dtype(number))
        for q, bad in enumerate(rows):
            for row in bad:
                i = row - 1
                d[q, i] = 0
                dl[q, max(0, i - 1) : i + 1] = 0
                du[q, max(0, i - 1) : i + 1] = 0
        x, info = _core.solve_tridiagonal_unpivoted(dl, d, du, b)
        assert info.tolist() == [min(bad, default=0) for bad in rows]
        assert np.isnan(x[:-1]).all()
        assert worst_error(dl[-1], d[-1], du[-1], b[-1], x[-1]) <= 8 * np.finfo(number).eps
        with pytest.raises(smallmm.LinAlgError, match=r"9 of 10 matrices are singular"):
            smallmm.solve_tridiagonal(dl, d, du, b, pivot=False)

    def test_numbers_that_are_not_finite(self, dtype, rng):
        arrays = diagonals_of_every_kind(rng, "solve_tridiagonal_unpivoted", 3, MIN + 3, 1, 22, dtype)
        assert_same(
            _core.solve_tridiagonal_unpivoted(*arrays),
            _core.reference(_core.solve_tridiagonal_unpivoted, *arrays),
        )

    def test_halves_stay_in_one_piece(self, rng):
        """Numbers between the steps would be rounded."""
        arrays = [x.astype(np.float16) for x in dominant(rng, (), MIN, np.float32)]
        b = normal(rng, (MIN, 1), np.dtype(np.float32)).astype(np.float16)
        x, _ = _core.solve_tridiagonal_unpivoted(*arrays, b)
        assert_same((x,), _core.reference(_core.solve_tridiagonal_unpivoted, *arrays, b)[:1])
        assert smallmm.explain("solve_tridiagonal", *arrays, b, pivot=False).rows == 0

    def test_other_ways_to_call(self, rng):
        dl, d, du = dominant(rng, (2,), MIN, np.float64)
        b = normal(rng, (2, MIN, 1), np.dtype(np.float64))
        x = smallmm.solve_tridiagonal(dl, d, du, b, pivot=False)
        groups = [smallmm.Group([y[0], np.array(z)]) for y, z in zip(
            (dl, d, du, b), ([1.0], [2.0, 2.0], [1.0], [[3.0], [3.0]]), strict=True)]  # fmt: skip
        one, other = smallmm.solve_tridiagonal(*groups, pivot=False)
        assert_same_bits(one, x[0])
        np.testing.assert_allclose(other, 1)
        plan = smallmm.explain("solve_tridiagonal", *groups, pivot=False)
        assert plan.matrices == 2
        assert plan.flops > 11 * MIN
        fused = smallmm.fuse(
            lambda dl, d, du, b: 2 * smallmm.solve_tridiagonal(dl, d, du, b, pivot=False), "(m),(n),(m),(n,k)"
        )
        assert_same_bits(fused(dl, d, du, b), 2 * x)

    def test_torch(self, torch, rng):
        """Derivatives are solutions of systems in parts, and those of another method."""
        arrays = (*dominant(rng, (2,), MIN, np.float64), normal(rng, (MIN, 1), np.dtype(np.float64)))
        tensors = [torch.from_numpy(x).requires_grad_() for x in arrays]
        weights = torch.from_numpy(normal(rng, (2, MIN, 1), np.dtype(np.float64)))
        found = []
        for pivot in (False, True):
            x = smallmm.solve_tridiagonal(*tensors, pivot=pivot)
            found.append((x, *torch.autograd.grad((x * weights).sum(), tensors)))
        assert_same_bits(found[0][0].detach().numpy(), smallmm.solve_tridiagonal(*arrays, pivot=False))
        for x, y in zip(*found, strict=True):
            torch.testing.assert_close(x, y)

    def test_jax(self, jax, rng):
        arrays = (*dominant(rng, (2,), MIN, np.float32), normal(rng, (MIN, 1), np.dtype(np.float32)))
        x = smallmm.solve_tridiagonal(*arrays, pivot=False)
        solve = partial(smallmm.solve_tridiagonal, pivot=False)
        for function in (solve, jax.jit(solve)):
            assert_same_bits(np.asarray(function(*map(jax.numpy.asarray, arrays))), x)
        grads = [
            jax.grad(lambda b, pivot=pivot: smallmm.solve_tridiagonal(*arrays[:3], b, pivot=pivot).sum())(
                jax.numpy.asarray(arrays[3])
            )
            for pivot in (False, True)
        ]
        np.testing.assert_allclose(*map(np.asarray, grads), rtol=1e-4, atol=1e-5)

    def test_dask(self, rng):
        da = pytest.importorskip("dask.array")
        arrays = (*dominant(rng, (4,), MIN, np.float64), normal(rng, (4, MIN, 1), np.dtype(np.float64)))
        lazy = [da.from_array(x, chunks=(2, *(-1,) * (x.ndim - 1))) for x in arrays]
        x = smallmm.solve_tridiagonal(*lazy, pivot=False)
        assert_same_bits(x.compute(), smallmm.solve_tridiagonal(*arrays, pivot=False))

    def test_explanation(self, rng):
        arrays = (*dominant(rng, (2,), MIN, np.float64), np.ones((2, MIN, 1)))
        plan = smallmm.explain("solve_tridiagonal", *arrays, pivot=False)
        assert (plan.parts, plan.rows, plan.matrices) == (512, PART, 2)
        assert plan.kernel.startswith("smm_parts_lanes_f64")
        assert "each matrix in 512 parts of 16 rows" in str(plan)
        stepwise = smallmm.explain("solve_tridiagonal", *arrays)
        assert (stepwise.parts, stepwise.rows) == (1, 0)
        assert (stepwise.flops, stepwise.bytes) == (plan.flops, plan.bytes)


def test_longer_than_infos_count():
    with pytest.raises(ValueError, match="diagonals n <= 2\\^24"):
        smallmm.solve_tridiagonal(*(np.broadcast_to(1.0, n) for n in (2**25 - 1, 2**25, 2**25 - 1, 2**25)))


def test_different_numbers_of_diagonals_below_in_one_stack(isa, dtype, rng):
    ab, b = normal(rng, (40, 4, 9), dtype), normal(rng, (40, 9, 2), dtype)
    lower = rng.integers(0, 4, 40).astype(np.int32)
    ab[range(40), 3 - lower] += 9
    x, info = _core.solve_banded(ab, lower, b)
    assert not info.any()
    for q in range(40):
        assert_same_bits(x[q], smallmm.solve_banded((int(lower[q]), 3 - int(lower[q])), ab[q], b[q]))

    wrong = lower.copy()
    wrong[[3, 17, 39]] = -1, 4, 1000
    y, info = _core.solve_banded(ab, wrong, b)
    bad = wrong != lower
    assert_same_bits(info, np.where(bad, np.int32(-1), np.int32(0)))
    assert np.isnan(y[bad]).all()
    assert_same_bits(y[~bad], x[~bad])


@pytest.mark.parametrize("hermitian", [True, False])
class TestLDL:
    @pytest.mark.parametrize("wide", [np.float64, np.complex128])
    def test_pivots_are_lapacks(self, isa, wide, hermitian, rng):
        trf = "hetrf" if hermitian and wide == np.complex128 else "sytrf"
        (lapack,) = scipy.linalg.get_lapack_funcs((trf,), dtype=wide)
        for n in (1, 2, 5, 17, 32, 40, 130):
            a = normal(rng, (9, n, n), np.dtype(wide))
            for lower in (False, True):
                ld, pivots, info = smallmm.ldl_factor_ex(a, lower=lower, hermitian=hermitian)
                assert not info.any()
                for q in range(9):
                    expected, its_pivots, _ = lapack(a[q], lower=lower)
                    np.testing.assert_array_equal(pivots[q], its_pivots)
                    half = np.tril if lower else np.triu
                    np.testing.assert_allclose(ld[q], half(expected), atol=1e-9)
                    assert not (np.triu if lower else np.tril)(ld[q], 1 if lower else -1).any()

    @pytest.mark.parametrize("lower", [True, False])
    def test_blocks_are_scipys(self, number, hermitian, lower, rng):
        a = normal(rng, (5, 6, 6), number)
        a = a + (a.conj() if hermitian else a).mT
        ld, pivots = smallmm.ldl_factor(a, lower=lower, hermitian=hermitian)
        assert (pivots < 0).any()
        for q in range(5):
            _, d, _ = scipy.linalg.ldl(a[q], lower=lower, hermitian=hermitian)
            limit = 1e3 * np.finfo(number).eps * abs(d).max()
            np.testing.assert_allclose(ld[q].diagonal(), d.diagonal(), atol=limit)
            side = -1 if lower else 1
            beside = np.where(d.diagonal(side) != 0, ld[q].diagonal(side), 0)
            np.testing.assert_allclose(beside, d.diagonal(side), atol=limit)

    def test_exact_solutions(self, isa, number, hermitian, rng):
        """Of whole numbers, whose solutions mpmath knows to thirty digits."""
        mpmath = pytest.importorskip("mpmath")
        n, eps = 7, np.finfo(number).eps
        a = np.round(4 * normal(rng, (3, n, n), number))
        a[1, range(n), range(n)] = 0  # blocks of order 2
        a = (np.tril(a) + (np.tril(a, -1).conj() if hermitian else np.tril(a, -1)).mT).astype(number)
        if hermitian and number.kind == "c":
            a.imag[:, range(n), range(n)] = 0
        b = np.round(9 * normal(rng, (3, n), number))
        factors = smallmm.ldl_factor(a, hermitian=hermitian)
        x = smallmm.ldl_solve(*factors, b[..., None], hermitian=hermitian)[..., 0]
        with mpmath.workdps(30):
            for q in range(3):
                exact = mpmath.lu_solve(mpmath.matrix(a[q].tolist()), mpmath.matrix(b[q].tolist()))
                expected = np.array([complex(y) for y in exact])
                limit = 20 * n * eps * np.linalg.cond(a[q].astype(complex)) * abs(expected).max()
                assert abs(x[q] - expected).max() <= limit

    @pytest.mark.parametrize("n", [3, 33, 129])
    def test_bad_matrices(self, isa, number, hermitian, n):
        a = np.stack([np.eye(n), np.zeros((n, n)), np.diag(np.arange(n)), np.full((n, n), np.nan)]).astype(
            number
        )
        with pytest.raises(smallmm.LinAlgError, match=r"ldl_factor: 3 of 4 matrices are singular") as caught:
            smallmm.ldl_factor(a, hermitian=hermitian)
        assert caught.value.info.tolist() == [0, 1, 1, 1]
        bad = caught.value.result.LD[1:]
        assert (np.isnan(bad.real) & (np.isnan(bad.imag) | (number.kind == "f"))).all()
        assert_same_bits(caught.value.result.LD[0], np.eye(n, dtype=number))
        upper = smallmm.ldl_factor_ex(a, lower=False, hermitian=hermitian).info.tolist()
        assert upper == [0, n, 1, n]

    @pytest.mark.parametrize("n", [2, 3, 8, 9, 32])
    @pytest.mark.parametrize("lower", [True, False])
    def test_neighbours_do_not_matter(self, isa, number, n, lower, hermitian, rng):
        """Blocks of different orders, zeros, infinities and NaN side by side: each as it is alone."""
        form = {"lower": lower, "hermitian": hermitian}
        a = normal(rng, (40, n, n), number)
        a = a + (a.conj() if hermitian else a).mT
        a[::5] = a[::5] @ a[::5]  # blocks of order 1
        a[1::5, range(n), range(n)] = 0  # blocks of order 2 come first
        a[2], a[7, 0], a[12, -1, -1], a[17, n // 2, n // 2], a[22] = 0, np.inf, np.nan, -0.0, -0.0
        b = normal(rng, (40, n, 1), number)
        ld, pivots, info = smallmm.ldl_factor_ex(a, **form)
        solve = getattr(_core, f"solve_{'her' if hermitian else 'sym'}{'' if lower else '_upper'}")
        x, _ = solve(a, b)
        assert (pivots < 0).any()
        assert (pivots > 0).any()
        assert 0 < (info != 0).sum() < 10
        for q in range(40):
            for whole, alone in zip((ld, pivots, info), smallmm.ldl_factor_ex(a[q], **form), strict=True):
                assert_same(whole[q], alone)
            assert_same(x[q], solve(a[q], b[q])[0])

    @pytest.mark.parametrize("n", [3, 33, 129])
    @pytest.mark.parametrize("lower", [True, False])
    @pytest.mark.parametrize("wide", [np.int32, np.int64])
    def test_wrong_pivots(self, isa, number, n, lower, hermitian, wide, rng):
        form = {"lower": lower, "hermitian": hermitian}
        a = normal(rng, (7, n, n), number)
        ld, pivots = smallmm.ldl_factor(a, **form)
        pivots = pivots.astype(wide)
        b = normal(rng, (7, n, 2), number)
        expected = smallmm.ldl_solve(ld, pivots, b, **form)
        for pivot in (0, n + 1, -n - 1, -(2**31), 2**31 - 1):
            wrong = pivots.copy()
            wrong[4, 1] = pivot
            with pytest.raises(
                smallmm.LinAlgError, match=r"ldl_solve: 1 of 7 .* index \(4,\): pivot \d+ is none"
            ) as caught:
                smallmm.ldl_solve(ld, wrong, b, **form)
            assert caught.value.info[4] < 0
            assert np.isnan(caught.value.result[4]).all()
            assert_same_bits(np.delete(caught.value.result, 4, 0), np.delete(expected, 4, 0))


def near_the_largest(rng, count, n, number):
    """Matrices and right-hand sides of numbers to the largest there is: many eliminations overflow."""
    real = np.finfo(number).dtype

    def some(*shape):
        one = (count, *(1,) * (len(shape) - 1))
        x = rng.choice([-1, -0.5, -0.25, -0.125, 0, 0.125, 0.25, 0.5, 1], shape)
        x *= np.where(rng.random(one) < 0.5, 1, rng.uniform(0.3, 1, shape))
        return x.astype(real) * (np.finfo(number).max * rng.choice([1, 0.5, 2.0**-30], one)).astype(real)

    def numbers(*shape):
        return (some(*shape) + 1j * some(*shape) if number.kind == "c" else some(*shape)).astype(number)

    return numbers(count, n, n), numbers(count, n, 1)


@pytest.mark.parametrize("number", [*map(np.dtype, "fdFD")], ids=str)
class TestNearTheLargestNumber:
    """What overflows when it is eliminated gives the solution, or NaN, or infinities, or info: never numbers
    that are wrong."""

    def check(self, a, b, x, info):
        good = (info == 0) & np.isfinite(x).all((-2, -1))
        wide = np.result_type(number := a.dtype, np.longdouble)  # beyond whose range nothing is
        least = np.finfo(number).smallest_subnormal / np.finfo(number).eps  # x may be as small
        size = np.abs(a.astype(wide)).sum(-1).max(-1)
        with np.errstate(all="ignore"):
            left = np.abs(b - a.astype(wide) @ x).max((-2, -1))
            allowed = size * (np.abs(x.astype(wide)).max((-2, -1)) + least) + np.abs(b.astype(wide)).max(
                (-2, -1)
            )
        assert (left[good] <= 200 * np.finfo(number).eps * allowed[good]).all()
        return np.count_nonzero(good)

    @pytest.mark.parametrize("n", [2, 3, 6])
    def test_words(self, isa, number, n, rng):
        a, b = near_the_largest(rng, 300, n, number)
        lower, strict = np.tril(a), np.tril(a, -1)
        real = (np.eye(n) * a.real).astype(number)
        for word, matrices in {
            "general": a,
            "symmetric": lower + strict.mT,
            "hermitian": strict + strict.conj().mT + real,
            "positive definite": strict / 16 + strict.conj().mT / 16 + abs(real),
            "lower triangular": lower,
            "upper triangular": lower.mT,
            "diagonal": a * np.eye(n),
            "tridiagonal": np.triu(np.tril(a, 1), -1),
            "banded": np.triu(np.tril(a, 2), -1),
        }.items():
            matrices = matrices.astype(number)
            for which in (word, "auto"):
                found = smallmm.linsolve_ex(matrices, b, assume_a=which, lower=which in LOWER)
                assert self.check(matrices, b, *found)
            if word in LOWER:
                self.check(matrices, b, *smallmm.linsolve_ex(matrices, b, assume_a=word))

    @pytest.mark.where.with_args(lambda isa: has_fma(isa))  # others round otherwise
    @pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
    def test_kernels_agree(self, isa, number, n, rng):
        a, b = near_the_largest(rng, 200, n, number)
        a[::7] = 0
        band = np.concatenate([np.zeros_like(a[:, :1]), a], 1)[:, : min(n, 3)].copy()
        calls = {
            **dict.fromkeys(("lu_factor", "ldl_factor", "ldl_factor_upper", "ldl_factor_symmetric"), (a,)),
            **dict.fromkeys(("solve", "solve_sym", "solve_her", "solve_her_upper"), (a, b)),
            **dict.fromkeys(("solve_tridiagonal", "solve_tridiagonal_unpivoted"), (*diagonals(a), b)),
            "solve_banded": (band, np.array(min(n, 3) // 2, np.int32), b),
            "solve_lower": (a, b),
        }
        for name, operands in calls.items():
            gufunc = getattr(_core, name)
            assert_same(gufunc(*operands), _core.reference(gufunc, *operands))

    @pytest.mark.parametrize("n", [2, 33, 129])
    def test_pivots_that_overflow(self, isa, number, n):
        m = np.finfo(number).max
        a, b = np.eye(n, dtype=number), np.zeros((n, 1), number)
        a[:2, :2], b[0] = [[m, m], [m, -m]], m
        for word in ("general", "symmetric", "hermitian", "tridiagonal", "banded", "auto"):
            x, info = smallmm.linsolve_ex(a, b, assume_a=word, lower=word in LOWER)
            assert info == 2
            assert np.isnan(x).all()
        assert smallmm.ldl_factor_ex(a).info == 2
        assert smallmm.ldl_factor_ex(a[::-1, ::-1], lower=False).info == n - 1
        with pytest.raises(smallmm.LinAlgError, match="pivot 2 is zero or overflows"):
            smallmm.solve_tridiagonal(*diagonals(a), b, pivot=False)

    def test_parts_of_long_systems(self, isa, number):
        n, m = 1 << 13, np.finfo(number).max
        b = np.full((n, 1), m, number)
        for row in (3, 16, 17, 1000):
            dl, d, du = np.zeros(n - 1, number), np.full(n, m, number), np.zeros(n - 1, number)
            dl[row - 1], du[row - 1] = -m, m
            x, info = _core.solve_tridiagonal_unpivoted(dl, d, du, b)
            assert info in (row, row + 1)  # elimination goes down or up
            assert np.isnan(x).all()

    @pytest.mark.where.with_args(lambda number: np.dtype(number).kind == "c")
    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_parts_whose_sum_overflows(self, isa, number, n):
        """Of complex numbers; pivots are compared by it."""
        one, most = 0.75 + 0.7j, np.finfo(number).max
        a, b = (np.eye(n) * one * most).astype(number), np.full((n, 1), most * one * (0.5 - 0.125j), number)
        for word in ("general", "upper triangular", "lower triangular", "diagonal", "banded", "tridiagonal"):
            x = smallmm.linsolve(a, b, assume_a=word)
            np.testing.assert_allclose(x, np.full((n, 1), 0.5 - 0.125j), rtol=1e-6)
        sign, logarithm = smallmm.slogdet(a)
        np.testing.assert_allclose(sign, (one / abs(one)) ** n, rtol=1e-6)
        size = np.log(abs(one)) + np.log(np.float64(most))
        np.testing.assert_allclose(logarithm, n * size, rtol=1e-6)


class TestAuto:
    KINDS = ("diagonal", "upper", "lower", "tridiagonal", "definite", "general")

    def stack(self, rng, n=6):
        a = np.concatenate([matrices_of(kind, rng, n, np.float64) for kind in self.KINDS])
        return a, normal(rng, (len(a), n, 2), np.float64)

    def test_bits_are_those_of_each_structure(self, isa, rng):
        a, b = self.stack(rng)
        x = smallmm.linsolve(a, b, assume_a="auto")
        assert_same_bits(smallmm.solve(a, b, assume_a=None), x)
        for i, kind in enumerate(self.KINDS):
            part = slice(6 * i, 6 * i + 6)
            expected = smallmm.solve(a[part], b[part], assume_a=WORDS[kind][0], lower=True)
            assert_same_bits(x[part], expected)
        order = rng.permutation(len(a))
        assert_same_bits(smallmm.linsolve(a[order], b[order], assume_a="auto"), x[order])

    def test_symmetric_but_not_definite(self, rng):
        a = matrices_of("symmetric", rng, 5, np.float64)
        a[..., range(5), range(5)] = 1
        b = normal(rng, (5,), np.float64)
        assert_same_bits(smallmm.linsolve(a, b, assume_a="auto"), smallmm.solve(a, b))

    def test_broadcasting_and_bad_ones(self, rng):
        a, b = self.stack(rng)
        b = normal(rng, (3, 1, 6, 2), np.float64)
        a[7] = 0
        x, info = smallmm.linsolve_ex(a, b, assume_a="auto")
        assert x.shape == (3, 36, 6, 2)
        assert info.shape == (3, 36)
        assert (info != 0).sum() == 3
        assert (info[:, 7] == 1).all()
        assert np.isnan(x[:, 7]).all()

    def test_explained(self, rng):
        a, b = self.stack(rng)
        a, b = np.concatenate([a, a[24:30]]), np.concatenate([b, b[24:30]])
        plan = smallmm.explain("linsolve", a, b, assume_a="auto")
        assert dict(plan.found) == {
            "diagonal": 6,
            "upper triangular": 6,
            "lower triangular": 6,
            "tridiagonal": 6,
            "positive definite": 12,
            "general": 6,
        }
        assert plan.kernel.startswith("smm_solve_pos_lanes")
        assert "12 positive definite" in str(plan)
        assert smallmm.explain("solve", a, b, assume_a="sym").kernel.startswith("smm_solve_sym_lanes")
        assert smallmm.explain("solve", EYE(140), ONES(140), assume_a="sym").kernel == "lapack sytrf"


class TestOptions:
    def test_packed(self, dtype, rng):
        n = 5
        a, b = matrices_of("definite", rng, n, dtype), normal(rng, (6, n, 2), dtype)
        for lower in (False, True):
            places = [(i, j) for j in range(n) for i in (range(j, n) if lower else range(j + 1))]
            packed = np.stack([a[:, i, j] for i, j in places], axis=-1)
            for word in ("pos", "sym"):
                x = smallmm.linsolve(packed, b, assume_a=word, packed=True, lower=lower)
                assert_same_bits(x, smallmm.solve(a, b, assume_a=word, lower=lower))
            word = "lower triangular" if lower else "upper triangular"
            x = smallmm.linsolve(packed, b, assume_a=word, packed=True)
            assert_same_bits(x, smallmm.solve(a, b, assume_a=word))

    def test_unit_diagonal(self, dtype, rng):
        a, b = normal(rng, (6, 4, 4), dtype), normal(rng, (6, 4, 2), dtype)
        for lower, word in ((True, "lower triangular"), (False, "upper triangular")):
            x = smallmm.linsolve(a, b, assume_a=word, unit_diagonal=True)
            assert_same_bits(x, smallmm.solve_triangular(a, b, lower=lower, unit_diagonal=True))
            x = smallmm.linsolve(a, b, assume_a=word, unit_diagonal=True, transposed=True)
            assert_same_bits(x, smallmm.solve_triangular(a, b, 1, lower=lower, unit_diagonal=True))

    def test_rectangular(self, dtype, rng):
        a, b = normal(rng, (6, 7, 4), dtype), normal(rng, (6, 7, 2), dtype)
        assert_same_bits(smallmm.linsolve(a, b), smallmm.lstsq(a, b).x)
        out = np.empty((6, 7, 2), dtype)
        assert smallmm.linsolve(a, b[:, :4], transposed=True, out=out) is out
        assert_same_bits(out, smallmm.lstsq(a.mT, b[:, :4]).x)
        assert_same(smallmm.linsolve_ex(a, b).info, np.zeros(6, np.int32))


@pytest.mark.parametrize("number", COMPLEX, ids=lambda number: number.__name__)
class TestComplex:
    """Solutions against LAPACK's and by their residuals; only what is named is read."""

    ZEROS = ("upper triangular", "lower triangular", "tridiagonal", "banded", "diagonal")
    WORDS = ("pos", "her", "sym", "auto", *ZEROS)

    @staticmethod
    def stack(word, rng, n, number):
        x = normal(rng, (6, n, n), np.dtype(number)) + 2 * n * np.eye(n)
        if word == "pos":
            x = x @ x.conj().mT
            half = np.tril(x, -1)
            return (half + half.conj().mT + x.real * np.eye(n)).astype(number)
        if word in ("her", "sym"):
            x = x - 2 * n * np.eye(n)
            return (x + (x.conj() if word == "her" else x).mT + n * np.eye(n)).astype(number)
        kind = {"upper triangular": "upper", "lower triangular": "lower", "auto": "general"}.get(word, word)
        if kind == "banded":
            return np.tril(np.triu(x, -2), 1).astype(number)
        return np.nan_to_num(part_that_is_read(kind, x, lower=False)).astype(number)

    @pytest.mark.parametrize("n", [1, 5, 17])
    @pytest.mark.parametrize("word", WORDS)
    def test_words(self, isa, number, word, n, rng):
        a, b = self.stack(word, rng, n, number), normal(rng, (6, n, 18), np.dtype(number))
        for lower in (False, True):
            if lower and word not in ("pos", "her", "sym"):
                continue
            half = (np.tril if lower else np.triu)(ONES((n, n)))
            kept = half if word in ("pos", "her", "sym") else ONES((n, n))
            given = np.where(kept != 0, a, np.nan).astype(number)
            if word in ("her", "pos"):  # of the diagonal the real part
                given.imag[:, np.arange(n), np.arange(n)] = np.nan
            x = smallmm.linsolve(given, b, assume_a=word, lower=lower)
            assert x.dtype == number
            assert_accurate_solution(x, a, b)
            if word == "pos":  # the bits of the two halves
                assert_same_bits(x, smallmm.cho_solve((smallmm.cholesky(a), True), b))
            x = smallmm.linsolve(given, b, assume_a=word, lower=lower, transposed=True)
            assert_accurate_solution(x, np.ascontiguousarray(a.mT), b)

    @pytest.mark.parametrize("word", ["pos", "her", "sym"])
    def test_beyond_the_kernels(self, number, word, rng):
        a, b = self.stack(word, rng, 129, number)[:2], normal(rng, (2, 129, 1), np.dtype(number))
        assert_accurate_solution(smallmm.solve(a, b, assume_a=word), a, b)

    def test_one_bad_matrix_and_layouts(self, isa, number, rng):
        for word in self.WORDS:
            a, b = self.stack(word, rng, 5, number), normal(rng, (6, 5, 3), np.dtype(number))
            good_ones = smallmm.linsolve(a, b, assume_a=word)
            for turned in (a.mT.copy().mT, np.repeat(a, 2, 0)[::2], a[::-1].copy()[::-1]):
                assert_same_bits(smallmm.linsolve(turned, b.mT.copy().mT, assume_a=word), good_ones)
            assert smallmm.linsolve(a[:0], b[:0], assume_a=word).shape == (0, 5, 3)
            a[2] = 0
            x, info = smallmm.linsolve_ex(a, b, assume_a=word)
            assert np.isnan(x[2]).all()
            assert (info != 0).tolist() == [q == 2 for q in range(6)]
            assert_same_bits(np.delete(x, 2, 0), np.delete(good_ones, 2, 0))

    def test_auto_finds_hermitian_ones(self, number, rng):
        """A symmetric matrix of complex numbers is a general one."""
        a, b = self.stack("pos", rng, 4, number), normal(rng, (6, 4, 1), np.dtype(number))
        assert_same_bits(
            smallmm.linsolve(a, b, assume_a="auto"), smallmm.solve(a, b, assume_a="pos", lower=True)
        )
        symmetric = (a + a.mT + 1j * np.eye(4)).astype(number)
        assert_same_bits(smallmm.linsolve(symmetric, b, assume_a="auto"), smallmm.solve(symmetric, b))

    @pytest.mark.parametrize("lower", [False, True])
    @pytest.mark.parametrize("word", ["pos", "her", "sym"])
    def test_options_of_accuracy(self, number, word, lower, rng):
        """Of the matrix that is meant, of which a triangle is given."""
        a, b = self.stack(word, rng, 5, number), normal(rng, (6, 5, 2), np.dtype(number))
        given = np.where((np.tril if lower else np.triu)(ONES((5, 5))) != 0, a, np.nan).astype(number)
        if word != "sym":
            given.imag[:, np.arange(5), np.arange(5)] = np.nan
        options = [{"ill_conditioned": True}, {"return_rcond": True}]
        if number == np.complex128:
            options.append({"precision": "mixed"})
        for transposed, matrix in ((False, a), (True, np.ascontiguousarray(a.mT))):
            for option in options:
                found = smallmm.linsolve_ex(
                    given, b, assume_a=word, lower=lower, transposed=transposed, **option
                )
                assert_accurate_solution(found.x, matrix, b)
                if "return_rcond" in option:
                    assert_same_bits(found.rcond, smallmm.rcond(matrix))
                if "precision" in option:
                    assert (found.iterations > 0).all()

    def test_packed(self, number, rng):
        a, b = self.stack("pos", rng, 5, number), normal(rng, (6, 5, 2), np.dtype(number))
        rows, cols = np.triu_indices(5)
        x = smallmm.linsolve(a[:, cols, rows], b, assume_a="pos", lower=True, packed=True)
        assert_same_bits(x, smallmm.solve(a, b, assume_a="pos", lower=True))

    @pytest.mark.parametrize("n", [1, 2, 3, 40, 130])
    def test_diagonals(self, isa, number, n, rng):
        a, b = self.stack("banded", rng, n, number), normal(rng, (6, n, 18), np.dtype(number))
        x = smallmm.solve_banded((2, 1), stored(a, 2, 1), b)
        assert_accurate_solution(x, a, b)
        small = np.tril(np.triu(normal(rng, a.shape, np.dtype(number)), -1), 1)  # rows are exchanged
        for given in (np.tril(np.triu(a, -1), 1), small):
            assert_accurate_solution(smallmm.solve_tridiagonal(*diagonals(given), b), given, b)
        unpivoted = smallmm.solve_tridiagonal(*diagonals(a), b, pivot=False)
        assert_accurate_solution(unpivoted, np.tril(np.triu(a, -1), 1), b)

    @pytest.mark.parametrize("n", [1, 2, 3, 40, 130])
    def test_definite_diagonals(self, isa, number, n, rng):
        """Of the main diagonal only the real part is read."""
        half = np.tril(np.triu(normal(rng, (6, n, n), np.dtype(number)), -2), -1)
        a = (half + half.conj().mT + 20 * np.eye(n)).astype(number)
        b = normal(rng, (6, n, 5), np.dtype(number))
        for lower in (False, True):
            ab = stored(a, 2 * lower, 2 * (not lower))
            ab[..., 0 if lower else 2, :] += complex(0, np.nan)
            x = smallmm.solveh_banded(ab, b, lower=lower)
            assert_accurate_solution(x, a, b)
        ab[1, 0, n // 2] = -1
        with pytest.raises(smallmm.LinAlgError, match=r"1 of 6 matrices is .* index \(1,\)"):
            smallmm.solveh_banded(ab, b, lower=True)


ERRORS = [
    (lambda: smallmm.solve(EYE(2), ONES(2), assume_a="posdef"), ValueError,
     "solve: assume_a is 'posdef'; expected one of 'general', 'gen', 'symmetric'"),
    (lambda: smallmm.solve(EYE(2), ONES(2), assume_a=["pos"]), ValueError, "solve: assume_a is ['pos']"),
    (lambda: smallmm.linsolve(EYE(2), ONES(2), assume_a="band"), ValueError, "linsolve: assume_a is 'band'"),
    (lambda: smallmm.solve(EYE(2), ONES(2), assume_a="pos", lower="L"), TypeError,
     "solve: lower is 'L'; expected True or False"),
    (lambda: smallmm.solve(EYE(2), ONES(2), assume_a="pos", left=False), ValueError,
     "solve: left is False; expected True with assume_a"),
    (lambda: smallmm.solve(ONES((3, 2)), ONES(3), assume_a="pos"), np.linalg.LinAlgError,
     "solve: a has shape (3, 2); expected square matrices"),
    (lambda: smallmm.solve(ONES((3, 2)), ONES(3), assume_a="tridiagonal"), np.linalg.LinAlgError,
     "solve: a has shape (3, 2); expected square matrices"),
    (lambda: smallmm.solve(EYE(3), ONES(2), assume_a="diagonal"), ValueError,
     "solve: b has shape (2,); expected (..., 3) to match a of shape (3, 3)"),
    (lambda: smallmm.ldl_factor(EYE(3), hermitian=None), TypeError, "ldl_factor: hermitian is None"),
    (lambda: smallmm.ldl_solve(EYE(3), [1, 2, 3], ONES(3), hermitian="no"), TypeError,
     "ldl_solve: hermitian is 'no'"),
    (lambda: smallmm.linsolve(EYE(2), ONES(2), unit_diagonal=True), ValueError,
     "linsolve: unit_diagonal is True; expected False unless assume_a is triangular"),
    (lambda: smallmm.linsolve(EYE(2), ONES(2), bandwidths=(1, 1)), ValueError,
     "linsolve: bandwidths is (1, 1); expected None unless assume_a is 'banded'"),
    (lambda: smallmm.linsolve(EYE(2), ONES(2), assume_a="banded", bandwidths=(-1, 1)), ValueError,
     "linsolve: bandwidths is (-1, 1); expected (l, u) of at least 0"),
    (lambda: smallmm.linsolve(EYE(2), ONES(2), assume_a="banded", bandwidths=1), TypeError,
     "linsolve: bandwidths is a int; expected a tuple (l, u)"),
    (lambda: smallmm.linsolve(ONES(3), ONES(2), packed=True), ValueError,
     "linsolve: packed is True; expected False for assume_a 'general'"),
    (lambda: smallmm.linsolve(ONES(4), ONES(2), assume_a="pos", packed=True), ValueError,
     "linsolve: a has shape (4,); expected (..., n (n + 1) / 2) if packed"),
    (lambda: smallmm.linsolve(EYE(2), ONES(2), precision="half"), ValueError,
     "linsolve: precision is 'half'; expected 'fixed' or 'mixed'"),
    (lambda: smallmm.linsolve_ex(EYE(2), ONES(2), out=ONES(2)), TypeError,
     "linsolve_ex: out is a ndarray; expected a tuple (x, info)"),
    (lambda: smallmm.solve_tridiagonal(ONES(3), ONES(3), ONES(2), ONES(3)), ValueError,
     "solve_tridiagonal: dl has shape (3,); expected (..., 2) to match d of shape (3,)"),
    (lambda: smallmm.solve_tridiagonal(ONES(2), ONES(3), ONES(2), ONES(4)), ValueError,
     "solve_tridiagonal: b has shape (4,); expected (..., 3) to match d of shape (3,)"),
    (lambda: smallmm.solve_tridiagonal(ONES(2), ONES(3), ONES(2), ONES(3), pivot="no"), TypeError,
     "solve_tridiagonal: pivot is 'no'"),
    (lambda: smallmm.solve_tridiagonal(ONES(2), np.ones(3, np.clongdouble), ONES(2), ONES(3)), TypeError,
     "solve_tridiagonal: d has dtype complex256"),
    (lambda: smallmm.solve_banded((1, 1), ONES((2, 3)), ONES(3)), ValueError,
     "solve_banded: l_and_u is (1, 1), and ab has shape (2, 3); expected (..., l + u + 1, n)"),
    (lambda: smallmm.solve_banded((-1, 1), ONES((1, 3)), ONES(3)), ValueError,
     "solve_banded: l_and_u is (-1, 1)"),
    (lambda: smallmm.solve_banded((1, "u"), ONES((1, 3)), ONES(3)), TypeError, "solve_banded: u is 'u'"),
    (lambda: smallmm.solve_banded(1, ONES((1, 3)), ONES(3)), TypeError, "solve_banded: l_and_u is a int"),
    (lambda: smallmm.solve_banded((1, 1), ONES((3, 3)), ONES(2)), ValueError,
     "solve_banded: b has shape (2,); expected (..., 3) to match ab of shape (3, 3)"),
    (lambda: smallmm.solveh_banded(ONES(3), ONES(3)), ValueError, "solveh_banded: ab has shape (3,)"),
    (lambda: smallmm.solveh_banded(ONES((0, 3)), ONES(3)), ValueError, "solveh_banded: ab has shape (0, 3)"),
    (lambda: smallmm.solveh_banded(ONES((1, 3)), ONES(3), lower="L"), TypeError,
     "solveh_banded: lower is 'L'"),
    (lambda: smallmm.ldl_factor(ONES((3, 2))), np.linalg.LinAlgError, "ldl_factor: a has shape (3, 2)"),
    (lambda: smallmm.ldl_factor(EYE(2), lower=2.5), TypeError, "ldl_factor: lower is 2.5"),
    (lambda: smallmm.ldl_solve(EYE(3), [1, 2], ONES(3)), ValueError,
     "ldl_solve: pivots has shape (2,); expected (..., 3) to match LD of shape (3, 3)"),
    (lambda: smallmm.ldl_solve(EYE(3), [1.0, 2.0, 3.0], ONES(3)), TypeError,
     "ldl_solve: pivots has dtype float64; expected an integer type"),
]  # fmt: skip


@pytest.mark.parametrize(("make_call", "error", "message"), ERRORS, ids=[message for *_, message in ERRORS])
def test_errors_name_the_argument(make_call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make_call()


def test_dask(rng):
    da = pytest.importorskip("dask.array")
    a, b = matrices_of("tridiagonal", rng, 5, np.float64), normal(rng, (6, 5, 2), np.float64)
    expected = smallmm.solve(a, b, assume_a="tridiagonal")
    lazy = [da.from_array(np.ascontiguousarray(x), chunks=(2, -1)) for x in diagonals(a)]
    right = da.from_array(b, chunks=(2, -1, -1))
    x = smallmm.solve_tridiagonal(*lazy, right)
    assert isinstance(x, da.Array)
    assert_same_bits(x.compute(), expected)
    ab = np.nan_to_num(stored(a, 1, 1))
    assert_same_bits(smallmm.solve_banded((1, 1), da.from_array(ab, chunks=(3, -1, -1)), right).compute(),
                     smallmm.solve_banded((1, 1), ab, b))  # fmt: skip


class TestTorch:
    def test_diagonals(self, torch, rng):
        a, b = matrices_of("tridiagonal", rng, 5, np.float64), normal(rng, (6, 5, 2), np.float64)
        tensors = [torch.from_numpy(np.ascontiguousarray(x)) for x in (*diagonals(a), b)]
        x = smallmm.solve_tridiagonal(*tensors)
        assert isinstance(x, torch.Tensor)
        assert_same_bits(x.numpy(), smallmm.solve_tridiagonal(*diagonals(a), b))
        packed = torch.from_numpy(np.ascontiguousarray(a[:, [0, 0, 1], [0, 1, 1]]))
        x = smallmm.linsolve(packed, tensors[3][:, :2], assume_a="sym", packed=True)
        assert isinstance(x, torch.Tensor)

    def test_structure_that_is_looked_for(self, torch, rng):
        """Derivatives are those of what is found: a part of A that is not read has none."""
        a = torch.from_numpy(normal(rng, (3, 4, 4), np.float64) + 5 * np.eye(4))
        a[1].triu_()
        b = torch.from_numpy(normal(rng, (3, 4, 2), np.float64))
        gradients = [
            torch.func.grad(lambda a, word=word: (smallmm.linsolve(a, b, assume_a=word) ** 2).sum())(a)
            for word in ("auto", "general", "upper triangular")
        ]
        torch.testing.assert_close(gradients[0][[0, 2]], gradients[1][[0, 2]])
        torch.testing.assert_close(gradients[0][1], gradients[2][1])
        assert smallmm.linsolve(a[:0], b[:0], assume_a="auto").shape == (0, 4, 2)
        found = torch.vmap(lambda a, b: smallmm.linsolve(a, b, assume_a="banded", bandwidths=(3, 3)))(a, b)
        assert torch.equal(found, smallmm.linsolve(a, b, assume_a="banded", bandwidths=(3, 3)))
        for word in ("auto", "banded"):
            with pytest.raises(TypeError, match=r"structure is looked for in a, which has no elements yet"):
                smallmm.linsolve(a.to("meta"), b.to("meta"), assume_a=word)
            with pytest.raises(TypeError, match=r"structure is looked for in a, which has no elements yet"):
                torch.vmap(lambda a, word=word: smallmm.linsolve(a, b[0], assume_a=word))(a)

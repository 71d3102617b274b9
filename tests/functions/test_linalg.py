"""Factorizations and solves: every operation, instruction set, dtype, order, layout and batch size, on
matrices of every kind, against the reference (to the bit) and against the table of error bounds."""

import functools
from contextlib import nullcontext
from itertools import cycle

import numpy as np
import pytest
import scipy.linalg
from accuracy import (
    as_tuple,
    assert_accurate_cholesky,
    assert_accurate_determinant,
    assert_accurate_inverse,
    assert_accurate_least_squares,
    assert_accurate_lu,
    assert_accurate_qr,
    assert_accurate_solution,
    assert_same,
    assert_same_bits,
    bound,
    has_fma,
    unit_roundoff,
)
from cases import DRAWN, drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import LAYOUTS, WRITABLE
from matrices import (
    conditioned,
    deficient,
    every_kind,
    good,
    good_definite,
    nearly_deficient,
    normal,
    not_finite,
)

import smallmm
import smallmm._core as core

LANES = (4, 8, 16)
BATCHES = sorted({0, 1, *(lanes + d for lanes in LANES for d in (-1, 0, 1))})


@pytest.fixture(params=DRAWN)
def case(request):
    return DRAWN[request.param]


of_its_types = pytest.mark.where.with_args(lambda case, number: DRAWN[case].takes(number))


@functools.cache
def stacks(name, m, n, dtype):
    """The operands of a case and what the reference makes of them."""
    case = DRAWN[name]
    operands = case.operands(np.random.default_rng([m, n]), m, n, dtype)
    results = as_tuple(core.reference(case.gufunc, *operands))
    for x in (*operands, *results):
        x.flags.writeable = False
    return operands, results


def placed(layout, x):
    """A stack of matrices, vectors or scalars laid out so."""
    return layout(x.reshape(*x.shape, *(1,) * (3 - x.ndim))).reshape(x.shape)


def in_place(layout, x):
    """The same, as a view into what the layout made."""
    return layout(x.reshape(*x.shape, *(1,) * (3 - x.ndim)))[(..., *(0,) * (3 - x.ndim))]


# --- Bits ----------------------------------------------------------------------------------------------


@of_its_types
def test_reference_to_the_bit(number, case):
    """Every order, operands and outputs in every layout, all kinds of matrices side by side.
    core/test_linalg.c tries every instruction set."""
    if not has_fma(core.isa()):
        pytest.skip("rounds twice where the reference rounds once")
    layouts, outs = cycle(LAYOUTS.items()), cycle(WRITABLE.values())
    for m, n in case.shapes:
        operands, expected = stacks(case.name, m, n, number)
        assert_same(as_tuple(case.gufunc(*operands)), expected)
        for _ in range(4):
            (name, layout), place_out = next(layouts), next(outs)
            out = tuple(in_place(place_out, np.full_like(x, -5)) for x in expected)
            if name == "broadcast":
                q = n % len(operands[0])
                given = [np.broadcast_to(x[q], x.shape) for x in operands]
                assert_same(
                    as_tuple(case.gufunc(*given, *out)),
                    tuple(np.broadcast_to(x[q], x.shape) for x in expected),
                )
            else:
                given = [in_place(layout, x) for x in operands]
                assert_same(as_tuple(case.gufunc(*given, *out)), expected)


@of_its_types
def test_bits_do_not_depend_on_place(isa, number, case):
    """Whatever the batch size, the position and the neighbours."""
    for m, n in case.few_shapes:
        operands, _ = stacks(case.name, m, n, number)
        results = as_tuple(case.gufunc(*operands))
        order = np.random.default_rng(n).permutation(np.resize(np.arange(len(operands[0])), 150))
        many = as_tuple(case.gufunc(*(x[order] for x in operands)))
        assert_same(many, tuple(x[order] for x in results))
        for batch in BATCHES:
            some = as_tuple(case.gufunc(*(x[order[:batch]] for x in operands)))
            assert_same(some, tuple(x[order[:batch]] for x in results))


@pytest.mark.parametrize(
    ("m", "n"), [(33, 33), (50, 50), (64, 41), (41, 64), (200, 9), (34, 7), (7, 130), (2, 9)]
)
def test_panels_of_few_matrices(isa, number, m, n, rng):
    """One by one, with rows in the lanes, they have the bits of those side by side."""
    a = every_kind(rng, m, n, number)[:24]
    functions = [smallmm.lu_factor_ex]
    functions += [lambda x: smallmm.solve_ex(x, x[..., :2]), smallmm.slogdet] if m == n else []
    for function in functions:
        together = tuple(function(a))
        for count in (1, 2, 3):
            parts = [function(a[q : q + count]) for q in range(0, len(a), count)]
            assert_same(tuple(map(np.concatenate, zip(*parts, strict=True))), together)


@of_its_types
@pytest.mark.parametrize(("n", "size"), [(3, None), (8, 280_000)])
def test_large_batch(number, case, n, size):
    """By threads, beyond 16 bits, and at order 8 so many bytes that results are streamed around the caches.
    The bits are those of a few at a time. core/test_linalg.c tries every instruction set."""
    operands, _ = stacks(case.name, n, n, number)
    results = as_tuple(case.gufunc(*operands))
    order = np.resize(np.arange(len(operands[0])), size // number.itemsize if size else 70_000)
    with smallmm.threads(3):
        many = as_tuple(case.gufunc(*(x[order] for x in operands)))
    assert_same(many, tuple(x[order] for x in results))


@of_its_types
@pytest.mark.parametrize("k", [0, 1, 2, 4, 7, 8, 9, 16, 17, 40, 300])
@pytest.mark.parametrize(
    "case",
    [
        "solve",
        "lu_solve",
        "lu_solve_transposed",
        "cho_solve",
        "cho_solve_upper",
        "solve_lower",
        "lstsq",
        "solve_pos",
        "solve_sym",
        "solve_her",
        "ldl_solve",
        "ldl_solve_symmetric",
        "solve_tridiagonal",
        "solve_banded",
        "solveh_banded",
    ],
    indirect=True,
)
def test_right_hand_sides(isa, number, case, k):
    """Columns do not know of each other."""
    for m, n in case.few_shapes:
        operands, _ = stacks(case.name, m, n, number)
        at = next(i for i, x in enumerate(operands) if x.ndim == 3 and x.shape[-1] == 3 and i > 0)
        b = np.resize(operands[at].mT, (len(operands[0]), k, m)).mT if k else operands[at][:, :, :0]
        wide = as_tuple(case.gufunc(*operands[:at], b, *operands[at + 1 :]))
        narrow = as_tuple(case.gufunc(*operands[:at], b[:, :, -1:], *operands[at + 1 :]))
        assert wide[0].shape[-1] == k
        if k:
            assert_same(np.ascontiguousarray(wide[0][:, :, -1:]), narrow[0])


@of_its_types
def test_bits_without_bad_neighbours(isa, number, case):
    """The good matrices of a stack, computed without the bad ones."""
    for m, n in case.few_shapes:
        operands, _ = stacks(case.name, m, n, number)
        results = as_tuple(case.gufunc(*operands))
        fine = np.flatnonzero(
            [all(np.isfinite(x[q]).all() for x in results) for q in range(len(operands[0]))]
        )
        alone = as_tuple(case.gufunc(*(x[fine] for x in operands)))
        assert len(fine)
        for x, y in zip(alone, results, strict=True):
            assert_same_bits(x, y[fine])


def strided_stack(data, x, batch):
    """Matrices of x in some of the batch dimensions, in any order in memory, reversed or with gaps."""
    own = [size if data.draw(st.booleans(), "there") else 1 for size in batch]
    own = own[data.draw(st.integers(0, len(own)), "leading dimensions left out") :]
    steps = [data.draw(st.sampled_from([1, -1, 2]), "step") for _ in own]
    axes = data.draw(st.permutations(range(len(own))), "order in memory")
    memory = [own[d] * abs(steps[d]) for d in axes]
    some = np.reshape(x[np.arange(np.prod(memory, dtype=int)) % len(x)], (*memory, *x.shape[1:]))
    ordered = np.moveaxis(some, range(len(own)), axes)
    return np.asarray(ordered[tuple(slice(None, None, step) for step in steps)])


@given(data=st.data())
@settings(max_examples=200)
def test_batch_dimensions(isa, number, data):
    """Any number of them, each operand with some: what the same matrices give in a row."""
    names = sorted(name for name, case in DRAWN.items() if case.takes(number))
    case = DRAWN[data.draw(st.sampled_from(names), "operation")]
    m, n = data.draw(st.sampled_from([s for s in case.few_shapes if s[0] * s[1] <= 64]), "shape")
    batch = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 17]), max_size=3), "batch")
    operands = stacks(case.name, m, n, number)[0]
    strided = [strided_stack(data, x, batch) for x in operands]
    cores = [x.shape[1:] for x in operands]
    whole = np.broadcast_shapes(
        *(x.shape[: x.ndim - len(core)] for x, core in zip(strided, cores, strict=True))
    )
    in_a_row = [
        np.broadcast_to(x, (*whole, *core)).reshape(np.prod(whole, dtype=int), *core)
        for x, core in zip(strided, cores, strict=True)
    ]
    expected = tuple(np.reshape(x, (*whole, *x.shape[1:])) for x in as_tuple(case.gufunc(*in_a_row)))
    assert_same(as_tuple(case.gufunc(*strided)), expected)
    direct = core.direct[case.name](*strided, *[None] * len(expected))
    assert direct is not NotImplemented
    assert_same(as_tuple(direct), expected)


@pytest.mark.parametrize("batch", [(), (1,), (1000,), (70_000,), (3, 5)])
def test_info_that_is_not_asked_for(isa, batch):
    """The direct way gives None in the place of an info that is 0 everywhere, on one thread or several."""
    a = np.zeros((*batch, 2, 2)) + np.eye(2)
    assert core.direct["inv"](a)[1] is None
    assert core.direct["inv"](a, None)[1] is None
    assert_same(core.direct["inv"](a, None, None)[1], np.zeros(batch, np.int32))
    a[..., 1, 1][(-1,) * len(batch)] = 0
    info = core.direct["inv"](a)[1]
    assert np.count_nonzero(info) == 1
    assert info[(-1,) * len(batch)] == 2
    assert_same(core.reference(core.direct["inv"], a)[1], info)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 32])
def test_inverses_that_overflow(isa, dtype, n, rng):
    """Of elements so small that it, or what it is made of, overflows: the inverse, infinities, or info n,
    which is not that of LU. NaN goes with an info, unless A has it."""
    tiny = np.finfo(dtype).tiny
    for size in (tiny / 16, tiny / 2, tiny, tiny * 4, tiny * 64):
        a = (rng.standard_normal((400, n, n)) * size).astype(dtype)
        a[::3, 0] *= 2.0**-6
        a[1] = np.eye(n, dtype=dtype)
        a[2, 0, 0] = np.nan
        x, info = smallmm.inv_ex(a)
        nan = np.isnan(x).any((-2, -1))
        assert np.array_equal(np.delete(nan, 2), np.delete(info != 0, 2))
        assert (nan[2], info[2], info[1]) == (True, 0, 0)
        of_lu = smallmm.lu_factor_ex(a).info
        assert ((info == of_lu) | ((of_lu == 0) & (info == n))).all()
        good = np.isfinite(x).all((-2, -1))
        wide = a[good].astype(np.longdouble)
        off = np.abs(wide @ x[good] - np.eye(n)).sum(-2).max(-1)
        limit = np.abs(wide).sum(-2).max(-1) * np.abs(x[good].astype(np.longdouble)).sum(-2).max(-1)
        assert (
            off
            <= 50 * n * np.finfo(dtype).eps * limit + n * limit * np.finfo(dtype).smallest_subnormal / size
        ).all()
        if has_fma(isa):
            assert_same((x, info), core.reference(core.inv, a))
    with pytest.raises(smallmm.LinAlgError, match="zero or overflows") if n > 1 else nullcontext():
        smallmm.inv(np.eye(n) * np.finfo(float).smallest_subnormal)


# --- Accuracy ------------------------------------------------------------------------------------------


ORDERS = [*range(1, 34), 40, 65, 128, 129]  # the last is beyond our kernels


def some(kind, *sizes_and_dtype):
    """A stack of a kind of matrices; a third of it where sums in extended precision take long."""
    stack = drawn(kind, *sizes_and_dtype)
    return stack if max(stack.shape) <= 100 else stack[::3]


@pytest.mark.accuracy
@pytest.mark.parametrize("n", ORDERS)
class TestAccuracy:
    def test_lu(self, isa, number, n, rng):
        a = some(good, n, n, number)
        lu, pivots = smallmm.lu_factor(a)
        assert_accurate_lu(lu, pivots, a)
        b = normal(rng, (len(a), n, 2), number)
        assert_accurate_solution(smallmm.lu_solve((lu, pivots), b), a, b)
        assert_accurate_solution(smallmm.lu_solve((lu, pivots), b, trans=1), a.mT, b)
        assert_accurate_solution(smallmm.lu_solve((lu, pivots), b, trans=2), a.conj().mT, b)

    def test_solve(self, isa, number, n, rng):
        a = some(good, n, n, number)
        b = normal(rng, (len(a), n, 2), number)
        assert_accurate_solution(smallmm.solve(a, b), a, b)

    def test_inv(self, isa, number, n):
        a = some(good, n, n, number)
        assert_accurate_inverse(smallmm.inv(a), a)

    def test_determinants(self, isa, number, n):
        a = some(good, n, n, number)
        assert_accurate_determinant(*smallmm.slogdet(a), a, smallmm.det(a))

    def test_cholesky(self, isa, number, n, rng):
        a = some(good_definite, n, number)
        for upper in (False, True):
            c = smallmm.cholesky(a, upper=upper)
            assert_accurate_cholesky(c, a, upper)
            b = normal(rng, (len(a), n, 2), number)
            assert_accurate_solution(smallmm.cho_solve((c, not upper), b), a, b)

    def test_solve_triangular(self, isa, number, n, rng):
        a = some(good, n, n, number)
        b = normal(rng, (len(a), n, 2), number)
        for lower in (False, True):
            for unit in (False, True):
                t = np.tril(a) if lower else np.triu(a)
                if unit or n > 40:  # the growth of such solutions is what backward errors are made for
                    t = np.where(np.eye(n, dtype=bool), number.type(1) if unit else t, t / n).astype(number)
                diagonal = t + np.where(np.eye(n, dtype=bool), np.nan, 0) if unit else t
                given = {"lower": lower, "unit_diagonal": unit}
                x = smallmm.solve_triangular(diagonal.astype(number), b, **given)
                assert_accurate_solution(x, t, b)
                x = smallmm.solve_triangular(diagonal.astype(number), b, "T", **given)
                assert_accurate_solution(x, t.mT, b)
                x = smallmm.solve_triangular(diagonal.astype(number), b, "C", **given)
                assert_accurate_solution(x, t.conj().mT, b)

    @pytest.mark.parametrize("hermitian", [True, False])
    def test_ldl(self, isa, number, n, hermitian, rng):
        a = some(good, n, n, number)
        a = a + (a.conj() if hermitian else a).mT
        b = normal(rng, (len(a), n, 2), number)
        for lower in (False, True):
            form = {"lower": lower, "hermitian": hermitian}
            given = (np.tril(a) if lower else np.triu(a)).astype(number)
            ld, pivots = smallmm.ldl_factor(given, **form)
            x = smallmm.ldl_solve(ld, pivots, b, **form)
            assert_accurate_solution(x, a, b)
            word = "her" if hermitian else "sym"
            assert_same_bits(smallmm.solve(given, b, assume_a=word, lower=lower), x)

    def test_solve_pos(self, isa, dtype, n, rng):
        a = some(good_definite, n, dtype)
        b = normal(rng, (len(a), n, 2), dtype)
        for lower in (False, True):
            x = smallmm.solve(np.tril(a) if lower else np.triu(a), b, assume_a="pos", lower=lower)
            assert_accurate_solution(x, a, b)
            factor = smallmm.cholesky(a, upper=not lower)
            assert_same_bits(smallmm.cho_solve((factor, lower), b), x)

    @pytest.mark.parametrize("shape", ["square", "tall", "wide"])
    def test_qr(self, isa, number, n, shape):
        m, n = {"square": (n, n), "tall": (2 * n + 1, n), "wide": (n, n + 5)}[shape]
        a = some(good, m, n, number)
        q, r = smallmm.qr(a)
        assert q.shape[-1] == r.shape[-2] == min(m, n)
        assert_accurate_qr(q, r, a)
        assert_accurate_qr(*smallmm.qr(a, mode="complete"), a)
        assert_same_bits(smallmm.qr(a, mode="r"), r)
        h, tau = smallmm.qr(a, mode="raw")
        np.testing.assert_array_equal(np.triu(h.mT)[:, : min(m, n)], r)
        assert_same_bits(smallmm.qr(a.astype(number), mode="raw").tau, tau)

    @pytest.mark.parametrize("shape", ["square", "tall", "wide"])
    def test_lstsq(self, isa, dtype, n, shape, rng):
        m, n = {"square": (n, n), "tall": (2 * n + 1, n), "wide": (n, 2 * n + 1)}[shape]
        a = np.concatenate([normal(rng, (5, m, n), dtype), conditioned(rng, 5, m, n, 1e3).astype(dtype)])
        b = normal(rng, (len(a), m, 2), dtype)
        x, norms, rank = smallmm.lstsq(a, b)
        assert np.all(rank == min(m, n))
        assert_accurate_least_squares(x, norms, a, b)
        if m < n:  # the solution of minimum norm lies in the row space
            rows = np.linalg.qr(a.mT.astype(np.float64))[0]
            beside = np.linalg.norm(x - rows @ (rows.mT @ x), axis=-2).max(-1)
            assert np.all(
                beside <= bound("lstsq", dtype, n) * condition_of_rows(a) * np.linalg.norm(x, axis=-2).max(-1)
            )


def condition_of_rows(a):
    values = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    return values[:, 0] / values[:, -1]


def test_least_squares_far_from_one(isa, dtype):
    """Scaled back by one power of two after the other, these would overflow on the way to x."""
    a, b = ((830, 800), (1000, 1020)) if dtype == np.float64 else ((100, 85), (110, 122))
    a, b = np.ldexp(1.0, a).astype(dtype), np.ldexp(1 + 2.0**-18, b).astype(dtype)
    x = smallmm.lstsq(np.repeat(np.diag(a)[None], 9, axis=0), b, rtol=1e-12).x
    assert_same_bits(x, np.repeat((b / a)[None], 9, axis=0))


@pytest.mark.parametrize(
    ("m", "n", "rank"), [(6, 4, 2), (4, 6, 3), (5, 5, 1), (32, 32, 20), (12, 3, 0), (40, 20, 7)]
)
def test_rank_deficient_least_squares(isa, dtype, m, n, rank, rng):
    rtol = 1e-10 if dtype == np.float64 else 1e-4
    a = (rng.standard_normal((9, m, rank)) @ rng.standard_normal((9, rank, n))).astype(dtype)
    b = normal(rng, (9, m, 2), dtype)
    x, norms, found = smallmm.lstsq(a, b, rtol=rtol)
    assert np.all(found == rank)
    assert norms.shape == (9, 2)
    for q in range(9):
        expected, *_ = np.linalg.lstsq(a[q].astype(np.float64), b[q].astype(np.float64), rcond=rtol)
        u, size = unit_roundoff(dtype), np.abs(b[q]).max()
        np.testing.assert_allclose(x[q], expected, rtol=0, atol=500 * u * np.linalg.norm(expected))
        residual = np.linalg.norm(b[q] - a[q].astype(np.float64) @ expected, axis=0)
        np.testing.assert_allclose(norms[q], residual, rtol=0, atol=100 * u * size)


def test_extremes_of_determinants(isa, dtype):
    """Partial products may leave the dtype's range as long as the determinant does not."""
    info = np.finfo(dtype)
    big, small = np.sqrt(info.max) * 8, np.sqrt(info.tiny) / 8
    for n in (3, 4, 8, 9, 17, 32):
        diagonals = np.ones((6, n), dtype)
        diagonals[0, :4][: min(4, n)] = [big, big, small, small][: min(4, n)]
        diagonals[1, :3] = [small, small, big]
        diagonals[2] = info.max
        diagonals[3] = info.tiny
        diagonals[4] = 2
        diagonals[5, 0] = info.smallest_subnormal
        a = np.zeros((6, n, n), dtype)
        a[:, np.arange(n), np.arange(n)] = diagonals
        exact = np.prod(diagonals.astype(np.longdouble), axis=1)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(smallmm.det(a), exact.astype(dtype), rtol=n * info.eps)
        sign, logabsdet = smallmm.slogdet(a)
        assert np.all(sign == 1)
        logs = np.log(diagonals.astype(np.longdouble)).sum(1)
        np.testing.assert_allclose(logabsdet, logs.astype(np.float64), rtol=8 * info.eps, atol=n * info.eps)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16, 32])
def test_near_overflow_and_underflow(isa, dtype, n, rng):
    """Scaled by powers of two to the edges of the dtype, solutions are scaled and otherwise the same."""
    a = normal(rng, (7, n, n), dtype) + dtype.type(3) * np.eye(n, dtype=dtype)
    b = normal(rng, (7, n, 2), dtype)
    x = smallmm.solve(a, b)
    high, low = (dtype.type(2.0) ** e for e in ((1000, -990) if dtype == np.float64 else (110, -100)))
    for scale in (high, low):
        assert_same_bits(smallmm.solve(a * scale, b * scale), x)
    q, r = smallmm.qr(a)
    for scale in (high, low):
        scaled_q, scaled_r = smallmm.qr(a * scale)
        np.testing.assert_allclose(scaled_q, q, rtol=0, atol=40 * n * np.finfo(dtype).eps)
        np.testing.assert_allclose(scaled_r / scale, r, rtol=0, atol=200 * n * n * np.finfo(dtype).eps)


@pytest.mark.parametrize(("m", "n"), [(2, 2), (8, 4), (4, 8), (12, 12), (32, 16), (16, 32), (32, 32)])
def test_rank_as_gelsy(isa, dtype, m, n, rng):
    """LAPACK's ranks at rtol or, where rounding decides, at an rtol nearby; and solutions as large."""
    a = np.concatenate([nearly_deficient(rng, m, n, dtype) for _ in range(3)])
    b = normal(rng, (len(a), m), dtype)
    eps = max(m, n) * np.finfo(dtype).eps
    for rtol in (eps, 3 * eps, 1e-3, 0.3):
        off = 1 + 3 * eps / rtol
        solutions, _, ranks = smallmm.lstsq(a, b[..., None], rtol)
        for q, (x, rank) in enumerate(zip(solutions, ranks, strict=True)):
            expected, _, same, _ = gelsy(a[q], b[q], cond=rtol)
            assert gelsy(a[q], b[q], cond=rtol * off)[2] <= rank <= gelsy(a[q], b[q], cond=rtol / off)[2]
            if rank == same:
                assert 1 / 30 <= np.linalg.norm(x) / np.linalg.norm(expected) <= 30


gelsy = functools.partial(scipy.linalg.lstsq, lapack_driver="gelsy", check_finite=False)


def test_rank_far_from_one(isa, dtype, rng):
    """The same ranks and solutions where A is near the largest or the smallest numbers of the dtype."""
    eps = np.finfo(dtype).eps
    a = np.concatenate([nearly_deficient(rng, 8, 6, dtype), conditioned(rng, 5, 8, 6, 10).astype(dtype)])
    a = np.where(np.abs(a) < eps**2, 0, a)  # which stays normal
    b = normal(rng, (len(a), 8, 1), dtype)
    x, _, rank = smallmm.lstsq(a, b)
    for exponent in (-900, 1000) if dtype == np.float64 else (-70, 100):
        scale = dtype.type(2.0) ** exponent
        scaled = smallmm.lstsq(a * scale, b)
        assert_same_bits(scaled.rank, rank)
        assert_same_bits(scaled.x[-5:] * scale, x[-5:])


@pytest.mark.parametrize("rtol", [0, 1e-30])
def test_rank_without_tolerance(isa, dtype, rtol):
    """Zeros on the diagonal of R never count: solutions stay finite where gelsy's do not."""
    a = np.zeros((9, 4, 4), dtype)
    a[:, range(3), range(3)] = [1, 1e-6, 1e-12]
    a[:4, :, 3] = a[:4, :, 2]
    x, norms, rank = smallmm.lstsq(a, np.ones((9, 4, 1), dtype), rtol=rtol)
    assert rank.tolist() == [3] * 9
    np.testing.assert_allclose(x[4:, :3, 0], [[1, 1e6, 1e12]] * 5, rtol=1e-5)
    np.testing.assert_allclose(x[:4, 2:, 0], 5e11, rtol=1e-5)
    np.testing.assert_allclose(norms, 1, rtol=1e-5)


def test_rank_at_a_large_tolerance():
    """The first column counts, whatever rtol, unless it is zero: as LAPACK's."""
    assert smallmm.lstsq(
        np.stack([np.eye(3), np.zeros((3, 3))]), np.ones(3)[:, None], rtol=2
    ).rank.tolist() == [1, 0]


# --- Bad matrices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 8, 12, 16, 24, 31, 32, 33, 66])
class TestBadMatrices:
    def test_singular(self, isa, number, n, rng):
        a = good(rng, n, n, number)
        b = normal(rng, (len(a), n, 2), number)
        bad = np.arange(len(a)) % 3 == 1
        a[bad] = np.resize(deficient(rng, n, n, number), a[bad].shape)
        fine = ~bad
        x, info = smallmm.solve_ex(a, b)
        assert np.all((info > 0) == bad)
        assert np.all(info <= n)
        assert np.isnan(x[bad]).all()
        assert_same_bits(x[fine], smallmm.solve(a[fine], b[fine]))
        inverse, info = smallmm.inv_ex(a)
        assert np.all((info > 0) == bad)
        assert np.isnan(inverse[bad]).all()
        assert_same_bits(inverse[fine], smallmm.inv(a[fine]))
        lu, pivots, info = smallmm.lu_factor_ex(a)
        assert np.all((info > 0) == bad)
        assert np.isnan(lu[bad]).all()
        assert np.all((pivots >= np.arange(n)) & (pivots < n))
        assert_same_bits(lu[fine], smallmm.lu_factor(a[fine]).LU)
        assert np.all(smallmm.det(a[bad]) == 0)
        sign, logabsdet = smallmm.slogdet(a)
        assert np.all((sign == 0) == bad)
        assert np.all((logabsdet == -np.inf) == bad)

    def test_info_is_the_first_zero_pivot(self, isa, number, n):
        a = np.zeros((n, n, n), number)
        a[:, np.arange(n), np.arange(n)] = 2
        a[np.arange(n), np.arange(n), np.arange(n)] = 0
        a[:, n - 1, n - 1] = 0
        first = np.arange(1, n + 1)
        assert_same_bits(smallmm.solve_ex(a, np.ones((n, 1), number)).info, first.astype(np.int32))
        assert_same_bits(smallmm.inv_ex(a).info, first.astype(np.int32))
        _, pivots, info = smallmm.lu_factor_ex(a)
        assert_same_bits(info, first.astype(np.int32))
        assert_same_bits(pivots, np.broadcast_to(np.arange(n, dtype=np.int32), (n, n)).copy())
        assert_same_bits(smallmm.cholesky_ex(a).info, first.astype(np.int32))
        with pytest.raises(smallmm.LinAlgError) as caught:
            smallmm.solve_triangular(a, np.ones((n, 1), number))
        assert_same_bits(caught.value.info, first.astype(np.int32))

    def test_not_definite(self, isa, number, n, rng):
        a = good_definite(rng, n, number)
        bad = np.arange(len(a)) % 3 == 1
        where = np.arange(bad.sum()) % n
        a[bad, where, where] = np.resize(np.array([-1, 0, np.nan, -np.inf], number), bad.sum())
        for upper in (False, True):
            c, info = smallmm.cholesky_ex(a, upper=upper)
            assert np.all((info > 0) == bad)
            assert np.all(info[bad] == where + 1)
            assert np.isnan(c[bad]).all()
            assert_same_bits(c[~bad], smallmm.cholesky(a[~bad], upper=upper))

    def test_not_finite(self, isa, dtype, n, rng):
        """NaN comes out where NaN went in, nothing hangs, and neighbours stay as they are."""
        a = good(rng, n, n, dtype)
        b = normal(rng, (len(a), n, 2), dtype)
        bad = np.arange(len(a)) % 3 == 1
        clean = {f: f(a[~bad]) for f in (smallmm.inv_ex, smallmm.det, smallmm.slogdet, smallmm.qr)}
        clean_x = smallmm.solve_ex(a[~bad], b[~bad])
        clean_lstsq = smallmm.lstsq(a[~bad], b[~bad])
        a[bad] = np.resize(not_finite(rng, n, n, dtype), a[bad].shape)
        nan = np.isnan(a).any((1, 2))
        for f, expected in clean.items():
            results = f(a)
            for x, y in zip(as_tuple(results), as_tuple(expected), strict=True):
                assert_same_bits(x[~bad], y)
            finite = [np.isfinite(x[nan].reshape(nan.sum(), -1)).all(axis=1) for x in as_tuple(results)]
            assert not np.all(finite, axis=0).any()
        for results, expected in ((smallmm.solve_ex(a, b), clean_x), (smallmm.lstsq(a, b), clean_lstsq)):
            for x, y in zip(results, expected, strict=True):
                assert_same_bits(x[~bad], y)


class TestLinAlgError:
    def test_says_how_many_and_which(self):
        a = np.broadcast_to(np.eye(3), (4, 5, 3, 3)).copy()
        a[2, 1] = 0
        a[3, 4, 1, 1] = 0
        b = np.ones((3, 1))
        with pytest.raises(smallmm.LinAlgError) as caught:
            smallmm.solve(a, b)
        assert str(caught.value) == (
            "solve: 2 of 20 matrices are singular, the first at index (2, 1): pivot 1 is zero "
            "or overflows (counted from 1); see .info and .result of this exception for every matrix"
        )
        assert isinstance(caught.value, np.linalg.LinAlgError)
        assert caught.value.info.shape == (4, 5)
        assert caught.value.info[3, 4] == 2
        x = caught.value.result
        assert np.isnan(x[2, 1]).all()
        np.testing.assert_array_equal(x[0], 1)

    @pytest.mark.parametrize(
        ("make_call", "message"),
        [
            (
                lambda a: smallmm.solve(a, [1, 2]),
                "Singular matrix (solve: pivot 2 is zero or overflows, counted from 1)",
            ),
            (smallmm.inv, "Singular matrix (inv: pivot 2 is zero or overflows, counted from 1)"),
            (smallmm.lu_factor, "Singular matrix (lu_factor: pivot 2 is zero or overflows, counted from 1)"),
            (
                smallmm.cholesky,
                "Matrix is not positive definite (cholesky: the leading minor of order 2 is not positive, "
                "counted from 1)",
            ),
            (
                lambda a: smallmm.solve_triangular(np.diag([1.0, 0.0]), [1, 2]),
                "Singular matrix (solve_triangular: element 2 of the diagonal is zero, counted from 1)",
            ),
        ],
    )
    def test_of_one_matrix(self, make_call, message):
        with pytest.raises(smallmm.LinAlgError) as caught:
            make_call(np.ones((2, 2)))
        assert str(caught.value) == message
        assert caught.value.info == 2

    def test_result_of_several(self):
        with pytest.raises(smallmm.LinAlgError) as caught:
            smallmm.lu_factor(np.stack([np.eye(2), np.ones((2, 2))]))
        np.testing.assert_array_equal(caught.value.result.LU[0], np.eye(2))
        np.testing.assert_array_equal(caught.value.result.pivots[0], [0, 1])

    def test_result_goes_to_out(self):
        out = np.empty((2, 2, 2))
        with pytest.raises(smallmm.LinAlgError) as caught:
            smallmm.inv(np.stack([np.eye(2), np.ones((2, 2))]), out=out)
        assert caught.value.result is out
        np.testing.assert_array_equal(out[0], np.eye(2))

    def test_survives_pickling(self):
        import pickle

        with pytest.raises(smallmm.LinAlgError) as caught:
            smallmm.inv(np.zeros((2, 2)))
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)
        assert again.info == 1

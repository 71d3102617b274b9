"""Condition estimates, backward errors and refinement; systems and least squares in mixed precision; systems
that are scaled. Bits against the reference are in test_linalg.py."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.linalg
from accuracy import COMPLEX, assert_same, assert_same_bits, has_kernel_of_its_own, real
from matrices import conditioned, deficient, good, normal

import smallmm
from smallmm._base.shapes import MAX_ORDER
from smallmm._functions.mixed import expert_solve_ex, mixed_solve_ex, refined
from smallmm._functions.mixed_least_squares import mixed_lstsq_ex

pytestmark = pytest.mark.where.with_args(has_kernel_of_its_own)

ORDERS = [1, 2, 3, 4, 7, 8, 16, 17, 31, 32, 33, 65, 130]


def u_of(dtype):
    return np.finfo(dtype).eps / 2


def known(rng, count, n, condition, dtype, k=2):
    """Matrices, right-hand sides, and their solutions, exactly: of so few bits that products are exact."""
    bits, most = (40, 7) if dtype == np.float64 else (15, 3)
    a = np.round(conditioned(rng, count, n, n, condition) * 2.0**bits) / 2.0**bits
    x = rng.integers(-most, most + 1, (count, n, k)).astype(np.float64)
    x[:, 0] = most
    return a.astype(dtype), (a @ x).astype(dtype), x.astype(dtype)


def refined_in_extended_precision(a, b):
    """The solution, to more digits than float64 has."""
    double = np.result_type(a, np.float64)
    wide = np.result_type(double, np.longdouble)
    x = np.linalg.solve(a.astype(double), b.astype(double)).astype(wide)
    for _ in range(3):
        left = b - a.astype(wide) @ x
        x = x + np.linalg.solve(a.astype(double), left.astype(double))
    return x


def off(x, exact):
    return np.abs(x - exact).max(-2) / np.abs(exact).max(-2)


# --- rcond ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", ORDERS)
class TestRcond:
    @pytest.mark.parametrize("ord", [1, np.inf])
    def test_is_near_the_truth(self, isa, dtype, n, ord, rng):
        """Never below it, but by rounding; above it as LAPACK's estimate, which is the same but for ties."""
        a = np.concatenate([conditioned(rng, 30, n, n, c) for c in (1, 10, 1e3, 1e4)]).astype(dtype)
        a = np.concatenate([a, normal(rng, (30, n, n), dtype)])
        found = smallmm.rcond(a, ord)
        true = 1 / np.linalg.cond(a.astype(np.float64), ord)
        rounding = 1 - 40 * n * u_of(dtype) / true
        assert np.all(found >= true * rounding)
        assert np.median(found / true) < 1.5
        assert np.all(found <= 10 * true)
        names = scipy.linalg.lapack.get_lapack_funcs(("getrf", "gecon"), (a,))
        for x, ours in zip(a, found, strict=True):
            lu, *_ = names[0](x)
            size = np.abs(x).sum(0 if ord == 1 else 1).max()
            theirs = names[1](lu, size, norm="1" if ord == 1 else "I")[0]
            assert 1 / 3 < ours / theirs < 3

    def test_bad_matrices(self, isa, dtype, n, rng):
        a = good(rng, n, n, dtype)
        expected = smallmm.rcond(a)
        bad = a.copy()
        bad[2] = deficient(rng, n, n, dtype)[0]
        bad[5, n // 2, 0] = np.nan
        bad[7] = 0
        found = smallmm.rcond(bad)
        assert found[[2, 7]].tolist() == [0, 0]
        assert np.isnan(found[5])
        keep = np.delete(np.arange(len(a)), [2, 5, 7])
        assert_same_bits(found[keep], expected[keep])

    def test_from_factors(self, isa, dtype, n, rng):
        a = normal(rng, (9, n, n), dtype)
        lu, pivots = smallmm.lu_factor(a)
        norm = smallmm.matrix_norm(a, ord=1)
        expected = smallmm.rcond(a)
        assert_same_bits(smallmm.lu_rcond(lu, pivots, norm), expected)
        assert_same_bits(smallmm.lu_rcond(lu, pivots.astype(np.int64), norm), expected)
        one = smallmm.lu_rcond(lu, pivots, 1.0)
        np.testing.assert_allclose(one, expected * norm, rtol=8 * u_of(dtype))
        assert smallmm.lu_rcond(lu, pivots, 0).tolist() == [0] * 9
        assert np.isnan(smallmm.lu_rcond(lu, pivots, np.nan)).all()
        lu[3] = np.eye(n)
        lu[3, n - 1, n - 1] = 0
        assert smallmm.lu_rcond(lu, pivots, norm)[3] == 0


def test_rcond_of_simple_matrices(dtype):
    assert smallmm.rcond(np.eye(5, dtype=dtype)) == 1
    assert smallmm.rcond(np.diag([1, 2, 8]).astype(dtype)) == 0.125
    assert smallmm.rcond(np.ones((3, 0, 0), dtype)).tolist() == [1] * 3
    assert smallmm.rcond(np.ones((0, 3, 3), dtype)).shape == (0,)
    tiny = 8 * np.finfo(dtype).tiny * np.eye(3, dtype=dtype)
    assert smallmm.rcond(tiny) == 1
    assert smallmm.rcond(np.diag([1, np.finfo(dtype).smallest_subnormal]).astype(dtype)) == 0  # no inverse


def test_higham_s_counterexamples(dtype):
    """Estimates that are far too large, as LAPACK's are: nothing goes wrong but that."""
    for c in (2, 10, 1e3):
        a = np.linalg.inv(np.array([[1, c, -c], [0, 1 + 1 / c, -1], [0, -1, 1 + 1 / c]]))
        found = smallmm.rcond(a.astype(dtype))
        assert found >= 0.9 / np.linalg.cond(a, 1)


# --- backward errors -----------------------------------------------------------------------------------


def exact_error(a, x, b, normwise):
    """Of one column, in rational numbers."""
    n = len(a)
    a, x, b = ([list(map(Fraction, row)) for row in np.atleast_2d(y).tolist()] for y in (a, x, b))
    x, b = x[0], b[0]
    r = [abs(b[i] - sum(a[i][j] * x[j] for j in range(n))) for i in range(n)]
    if normwise:
        size = max(sum(map(abs, row)) for row in a) * max(map(abs, x)) + max(map(abs, b))
        return float(max(r) / size)
    w = [abs(b[i]) + sum(abs(a[i][j] * x[j]) for j in range(n)) for i in range(n)]
    return float(max(p / q if p else 0 for p, q in zip(r, w, strict=True)))


@pytest.mark.parametrize("kind", ["componentwise", "normwise"])
@pytest.mark.parametrize("n", [1, 2, 5, 16, 32, 35])
class TestBackwardErrors:
    def test_are_right(self, isa, dtype, n, kind, rng):
        a, b = normal(rng, (4, n, n), dtype), normal(rng, (4, n, 2), dtype)
        x = smallmm.solve(a, b)
        plain = smallmm.backward_error(a, x, b, kind)
        extra = smallmm.backward_error(a, x, b, kind, precision="extra")
        expected = np.array(
            [
                [exact_error(a[q], x[q, :, j], b[q, :, j], kind == "normwise") for j in (0, 1)]
                for q in range(4)
            ]
        )
        np.testing.assert_allclose(plain, expected, rtol=0, atol=(n + 2) * u_of(dtype))
        np.testing.assert_allclose(
            extra, expected, rtol=4 * n * u_of(dtype), atol=n**2 * u_of(dtype) ** 2 * 4
        )

    def test_bad_numbers_stay_in_their_column(self, isa, dtype, n, kind, rng):
        a, b, x = known(rng, 9, n, 10, dtype, k=3)
        for precision in ("fixed", "extra"):
            bad = x.copy()
            bad[4, n - 1, 1] = np.nan
            found = smallmm.backward_error(a, bad, b, kind, precision=precision)
            assert np.isnan(found[4, 1])
            expected = smallmm.backward_error(a, x, b, kind, precision=precision)
            found[4, 1] = expected[4, 1]
            assert_same_bits(found, expected)
            assert np.all(expected == 0)


def test_backward_errors_of_nothing(dtype):
    """0 / 0 counts as 0."""
    zero = np.zeros((3, 3), dtype)
    for kind in ("componentwise", "normwise"):
        assert smallmm.backward_error(zero, zero[0], zero[0], kind) == 0
        assert smallmm.backward_error(np.eye(3, dtype=dtype), zero[:, :0], zero[:, :0], kind).shape == (0,)


# --- refinement ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", ORDERS)
class TestRefine:
    def test_errors_and_bounds(self, isa, dtype, n, rng):
        worst = (1e3, 1e8) if dtype == np.float64 else (10, 1e3)
        for condition in worst:
            a, b, exact = known(rng, 40, n, condition, dtype)
            lu, pivots, info = smallmm.lu_factor_ex(a)
            fine = info == 0  # rounding to few bits may make one singular
            a, b, exact, lu, pivots = (y[fine] for y in (a, b, exact, lu, pivots))
            x = smallmm.lu_solve((lu, pivots), b)
            found = smallmm.refine(a, lu, pivots, b, x)
            assert np.all(found.berr <= (n + 1) * u_of(dtype))
            assert np.all(off(found.x, exact) <= found.ferr + 1e-30)
            extra = smallmm.refine(a, lu, pivots, b, x, precision="extra")
            reachable = smallmm.rcond(a) > 30 * n * u_of(dtype)
            assert np.all(off(extra.x, exact)[reachable] <= 2 * u_of(dtype))
            assert np.all((off(extra.x, exact) <= extra.ferr)[reachable])
            assert np.all(extra.ferr >= u_of(dtype))

    def test_bounds_of_solutions_that_are_rounded(self, isa, dtype, n, rng):
        """The error of rounding x counts, too: the bound is of all."""
        for kind in (dtype, np.result_type(dtype, np.complex64)):
            a, b = normal(rng, (60, n, n), kind) + 2 * n**0.5 * np.eye(n), normal(rng, (60, n, 1), kind)
            a = a.astype(kind)
            lu, pivots = smallmm.lu_factor(a)
            found = smallmm.refine(a, lu, pivots, b, smallmm.lu_solve((lu, pivots), b), precision="extra")
            exact = refined_in_extended_precision(a, b)
            error = off(found.x, exact)
            assert (error > 0).any()
            assert (error <= found.ferr).all()
            assert (found.ferr <= 40 * n * u_of(found.ferr.dtype)).all()

    def test_bound_is_of_the_largest_component(self, dtype, n, rng):
        """Scaling a row of x down does not change ferr, and a large x has a small one."""
        a = np.eye(n, dtype=dtype) * 3
        b = np.ones((n, 1), dtype)
        b[: n // 2] = 1e-6
        lu, pivots = smallmm.lu_factor(a)
        x = smallmm.lu_solve((lu, pivots), b)
        for precision, units in (("fixed", 2 * (n + 2)), ("extra", 3)):
            ferr = smallmm.refine(a, lu, pivots, b, x, precision=precision).ferr
            assert u_of(dtype) / 4 < ferr[0] <= units * u_of(dtype)

    def test_of_a_poor_solution(self, isa, dtype, n, rng):
        a, b, exact = known(rng, 9, n, 10, dtype)
        lu, pivots = smallmm.lu_factor(a)
        for precision in ("fixed", "extra"):
            found = smallmm.refine(a, lu, pivots, b, exact + exact / 8, precision=precision)
            assert np.all(off(found.x, exact) < 40 * n * u_of(dtype))
            assert np.all(found.berr <= (n + 1) * u_of(dtype))

    def test_bad_matrices(self, isa, dtype, n, rng):
        a, b, exact = known(rng, 21, n, 10, dtype)
        lu, pivots = smallmm.lu_factor(a)
        for precision in ("fixed", "extra"):
            expected = smallmm.refine(a, lu, pivots, b, exact, precision=precision)
            bad_a, bad_lu, bad_b = a.copy(), lu.copy(), b.copy()
            bad_a[3, 0, 0], bad_b[8] = np.nan, np.inf
            bad_lu[5, n - 1, n - 1] = 0
            found = smallmm.refine(bad_a, bad_lu, pivots, bad_b, exact, precision=precision)
            assert np.isnan(found.berr[[3, 5]]).all()
            assert np.isnan(found.x[5]).all()
            keep = np.delete(np.arange(21), [3, 5, 8])
            assert_same(tuple(y[keep] for y in found), tuple(y[keep] for y in expected))

    def test_columns_do_not_know_of_each_other(self, isa, dtype, n, rng):
        a, b, exact = known(rng, 5, n, 100, dtype, k=5)
        lu, pivots = smallmm.lu_factor(a)
        x = exact * (1 + normal(rng, exact.shape, dtype) / 64)
        for precision in ("fixed", "extra"):
            whole = smallmm.refine(a, lu, pivots, b, x, precision=precision)
            for j in range(5):
                alone = smallmm.refine(
                    a, lu, pivots, b[..., j : j + 1], x[..., j : j + 1], precision=precision
                )
                assert_same(tuple(alone), tuple(np.ascontiguousarray(y[..., j : j + 1]) for y in whole))

    def test_forms_of_operands(self, dtype, n, rng):
        a, b, exact = known(rng, 1, n, 10, dtype, k=1)
        a, b, exact = a[0], b[0, :, 0], exact[0, :, 0]
        lu, pivots = smallmm.lu_factor(a)
        x, ferr, berr = smallmm.refine(a, lu, pivots, b, exact)
        assert (x.shape, ferr.shape, berr.shape) == ((n,), (), ())
        assert x.tolist() == exact.tolist()
        assert berr == 0
        out = np.zeros(n, dtype), None, None
        assert smallmm.refine(a, lu, pivots, b, exact, out=out).x is out[0]
        many = np.stack([b, 2 * b])[:, :, None]
        assert smallmm.refine(a, lu, pivots, many, many).berr.shape == (2, 1)


class TestArguments:
    def test_words(self):
        a, b = np.eye(2), np.ones(2)
        with pytest.raises(ValueError, match="rcond: ord is 2; expected 1 or inf"):
            smallmm.rcond(a, 2)
        with pytest.raises(ValueError, match="lu_rcond: ord is '1'; expected 1 or inf"):
            smallmm.lu_rcond(a, [0, 1], 1, "1")
        with pytest.raises(
            ValueError, match="backward_error: kind is 'norm'; expected 'componentwise' or 'normwise'"
        ):
            smallmm.backward_error(a, b, b, "norm")
        with pytest.raises(
            ValueError, match="backward_error: precision is True; expected 'fixed' or 'extra'"
        ):
            smallmm.backward_error(a, b, b, precision=True)
        with pytest.raises(ValueError, match="refine: precision is 'mixed'; expected 'fixed' or 'extra'"):
            smallmm.refine(a, a, [0, 1], b, b, precision="mixed")

    def test_shapes_and_pivots(self):
        a, b = np.eye(3), np.ones((3, 2))
        with pytest.raises(ValueError, match=r"refine: LU has shape \(2, 2\)"):
            smallmm.refine(a, np.eye(2), [0, 1, 2], b, b)
        with pytest.raises(ValueError, match=r"refine: x has shape \(3, 1\)"):
            smallmm.refine(a, a, [0, 1, 2], b, b[:, :1])
        with pytest.raises(
            ValueError, match=r"refine: pivots has 0 at step 2; expected one of the rows 2 to 2"
        ):
            smallmm.refine(a, a, [0, 1, 0], b, b)
        with pytest.raises(ValueError, match=r"lu_rcond: pivots has 3 at step 0"):
            smallmm.lu_rcond(a, [3, 1, 2], 1.0)
        with pytest.raises(ValueError, match=r"backward_error: b has shape \(2, 2\)"):
            smallmm.backward_error(a, b, b[:2])
        with pytest.raises(ValueError, match=r"rcond: a has shape \(3, 2\); expected square"):
            smallmm.rcond(b)
        with pytest.raises(TypeError, match="lu_rcond: norm_a has dtype complex128"):
            smallmm.lu_rcond(a, [0, 1, 2], 1j)
        with pytest.raises(TypeError, match="backward_error: x has dtype object"):
            smallmm.backward_error(a, b.astype(object), b)

    def test_explain(self):
        a, b, pivots = np.zeros((9, 4, 4)), np.zeros((9, 4, 1)), np.zeros((9, 4), np.int32)
        assert smallmm.explain("refine", a, a, pivots, b, b).kernel.startswith("smm_refine_lanes")
        assert smallmm.explain("lu_rcond", a, pivots, np.ones(9)).kernel.startswith("smm_lu_rcond_lanes")


# --- mixed precision -----------------------------------------------------------------------------------


def residual_test(a, x, b):
    """LAPACK's: |b - A x| / (sqrt(n) |x| |A| u) in infinity norms."""
    a, x, b = (np.asarray(y, np.longdouble) for y in (a, x, b))
    size = np.sqrt(a.shape[-1]) * np.abs(x).max(-2) * np.abs(a).sum(-1).max(-1)[..., None] * 2.0**-53
    return np.abs(b - a @ x).max(-2) / size


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 32, 33, 129])
class TestMixed:
    def test_converges(self, isa, n, rng):
        for condition, most in ((10, 3), (1e3, 4), (1e5, 6)):
            a, b = conditioned(rng, 100, n, n, condition), rng.standard_normal((100, n, 3))
            x, info, iterations = mixed_solve_ex("solve", a, b)
            assert not info.any()
            assert iterations.min() >= 0
            assert iterations.max() <= most
            assert np.all(residual_test(a, x, b) <= 1 + n)

    def test_falls_back(self, isa, n, rng):
        """To the bits of float64, matrix by matrix."""
        a, b = conditioned(rng, 12, n, n, 10), rng.standard_normal((12, n, 2))
        expected = mixed_solve_ex("solve", a, b)
        bad = a.copy()
        bad[2] *= 1e39 / np.abs(a[2]).max()
        bad[4] = 0
        bad[6, n - 1, 0] = np.nan
        bad[8] = 1e-60 * np.eye(n)
        bad[9] = conditioned(rng, 1, n, n, 1e14)[0]
        x, info, iterations = mixed_solve_ex("solve", bad, b)
        singular = smallmm.solve_ex(bad, b)
        assert iterations[[2, 4, 8]].tolist() == [-2, -3, -3]
        assert iterations[6] in (-31, -3)
        assert (iterations[9] == -31) == (n > 1)
        assert info.tolist() == singular.info.tolist()
        assert info[4] == 1
        again = iterations < 0
        assert_same(x[again], singular.x[again])
        keep = np.delete(np.arange(12), [2, 4, 6, 8, 9])
        assert_same_bits(x[keep], expected.x[keep])
        assert iterations[keep].tolist() == expected.iterations[keep].tolist()

    def test_far_from_one(self, isa, n, rng):
        a, b = conditioned(rng, 5, n, n, 10), rng.standard_normal((5, n, 1))
        x = mixed_solve_ex("solve", a, b).x
        scaled = mixed_solve_ex("solve", a * 2.0**20, b * 2.0**700)
        assert scaled.iterations.min() >= 0
        assert_same_bits(scaled.x, x * 2.0**680)

    def test_positive_definite(self, isa, n, rng):
        q = np.linalg.qr(rng.standard_normal((20, n, n)))[0]
        a = (q * np.geomspace(1, 1e-4, n)) @ q.mT
        a = (a + a.mT) / 2
        b = rng.standard_normal((20, n, 2))
        expected = mixed_solve_ex("solve", a, b, positive=True)
        assert expected.iterations.min() >= 0
        assert np.all(residual_test(a, expected.x, b) <= 1 + n)
        a[3] = -a[3]
        a[7, 0, 0] = 1e300
        x, info, iterations = mixed_solve_ex("solve", a, b, positive=True)
        assert (info[3], iterations[3], iterations[7]) == (1, -3, -2)
        assert np.isnan(x[3]).all()
        c, _ = smallmm.cholesky_ex(a[7])
        assert_same_bits(x[7], smallmm.cho_solve((c, True), b[7]))
        keep = np.delete(np.arange(20), [3, 7])
        assert_same_bits(x[keep], expected.x[keep])

    def test_place_and_columns(self, isa, n, rng):
        a = np.concatenate([conditioned(rng, 10, n, n, c) for c in (10, 1e4, 1e7)])
        b = rng.standard_normal((30, n, 3))
        whole = mixed_solve_ex("solve", a, b)
        order = rng.permutation(np.resize(np.arange(30), 1000 if n <= 32 else 60))
        many = mixed_solve_ex("solve", a[order], b[order])
        assert_same(tuple(many), tuple(y[order] for y in whole))
        one = mixed_solve_ex("solve", a[7], b[7, :, 0])
        assert one.x.shape == (n,)
        if n <= 32:  # LAPACK's columns have bits by their neighbours
            assert_same(one.x, whole.x[7, :, 0].copy())


@pytest.mark.parametrize("positive", [False, True])
def test_core_and_composition_agree(isa, positive, rng):
    """To the bit: what arrays on a device get, and orders above 32, is the same."""
    for n, columns in ((1, 1), (3, 9), (8, 4), (17, 5), (32, 1)):
        a = np.concatenate([conditioned(rng, 25, n, n, c) for c in (10, 1e4, 1e8)])
        a = a @ a.mT if positive else a
        b = rng.standard_normal((75, n, columns)) * 2.0 ** rng.integers(-900, 900, (75, 1, columns))
        a[3], a[4], a[5, 0, 0], a[6] = 0, a[4] * 1e60, np.nan, a[6] * 1e-60
        a[7, n - 1, n - 1], b[8] = np.inf, 0
        with np.errstate(all="ignore"):
            x, iterations, info = refined(positive, np, a, b)
        found = mixed_solve_ex("solve", a, b, positive=positive)
        assert_same(tuple(found), (x, info, iterations))
        turned = np.asfortranarray(a.T).T[::-1].mT.copy().mT
        backwards = mixed_solve_ex("solve", turned, b[::-1, :, ::-1], positive=positive)
        assert_same(backwards.x[::-1, :, ::-1].copy(), x)
        assert_same(backwards.iterations[::-1].copy(), iterations)


class TestMixedArguments:
    def test_forms_of_operands(self, rng):
        a, b = rng.standard_normal((3, 1, 4, 4)) + 4 * np.eye(4), rng.standard_normal((5, 4, 2))
        x, info, iterations = mixed_solve_ex("solve", a, b)
        assert (x.shape, info.shape, iterations.shape) == ((3, 5, 4, 2), (3, 5), (3, 5))
        assert_same(x[1, 2], mixed_solve_ex("solve", a[1, 0], b[2]).x)
        out = np.empty((3, 5, 4, 2))
        assert mixed_solve_ex("solve", a, b, out=out).x is out
        assert_same(out, x)
        vector = np.empty((3, 1, 4))
        assert mixed_solve_ex("solve", a, b[0, :, 0], out=vector).x is vector
        assert mixed_solve_ex("solve", a.tolist(), b[0].tolist()).x.shape == (3, 1, 4, 2)
        assert mixed_solve_ex("solve", a[..., ::-1, :].mT, b).x.shape == x.shape

    def test_nothing(self):
        for shapes in (((0, 4, 4), (4, 2)), ((3, 0, 0), (0, 2)), ((3, 4, 4), (4, 0))):
            a, b = (np.ones(shape) for shape in shapes)
            x, info, iterations = mixed_solve_ex("solve", a, b)
            assert x.shape == (shapes[0][0], *b.shape)
            assert info.tolist() == iterations.tolist() == [0] * shapes[0][0]
            found = expert_solve_ex("solve", a, b)
            assert (found.ferr.shape, found.rcond.shape) == ((len(a), b.shape[-1]), (len(a),))

    def test_single_precision_is_refused(self):
        a = np.eye(3)
        for x, y in ((a.astype("f"), a), (a, a.astype("e")), (a.astype("F"), a)):
            with pytest.raises(
                TypeError,
                match=r"solve: [ab] has dtype .*; expected float64 or complex128 with precision 'mixed'",
            ):
                mixed_solve_ex("solve", x, y)
            with pytest.raises(TypeError, match="expected float64 or complex128 with precision 'mixed'"):
                smallmm.lstsq(x, y, precision="mixed")
        assert mixed_solve_ex("solve", a.astype(int), a).x.tolist() == a.tolist()

    def test_shapes(self):
        with pytest.raises(ValueError, match=r"solve: a has shape \(2, 3\)"):
            mixed_solve_ex("solve", np.ones((2, 3)), np.ones((2, 1)))


# --- scaled systems ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 8, 17, 32, 33, 129])
class TestExpert:
    def test_scales(self, isa, dtype, n, rng):
        """Rows and columns that are far apart do not count: the scaled matrix is what it was."""
        a = (normal(rng, (9, n, n), dtype) + 2 * n**0.5 * np.eye(n)).astype(dtype)
        far = 2.0 ** rng.integers(-25, 26, (2, 9, n)).astype(dtype)
        scaled = (a * far[0, :, :, None] * far[1, :, None, :]).astype(dtype)
        x = rng.integers(-3, 4, (9, n, 2)).astype(dtype)
        b = (scaled.astype(np.longdouble) @ (x / far[1, :, :, None])).astype(dtype)
        found = expert_solve_ex("solve", scaled, b)
        assert not found.info.any()
        assert np.all(found.rcond > 1e-5)
        got = found.x * far[1, :, :, None]
        assert np.all(np.abs(got - x) <= 1e3 * n * u_of(dtype) * 3 / found.rcond[:, None, None])
        assert np.all(found.berr <= 2 * (n + 1) * u_of(dtype))

    def test_info(self, isa, dtype, n, rng):
        a, b = normal(rng, (7, n, n), dtype), normal(rng, (7, n, 1), dtype)
        a[:, range(n), range(n)] += n
        expected = expert_solve_ex("solve", a, b)
        a[1] = 0
        a[4, 0, n - 1] = np.nan
        if n > 1:
            a[5] = 1
            a[5, 0, 0] = 1 + np.finfo(dtype).eps
            a[5, range(1, n), range(1, n)] += np.arange(1, n)
            a[5, 1, 1] = 1
        found = expert_solve_ex("solve", a, b)
        assert found.info[1] == 1
        assert found.rcond[1] == 0
        assert np.isnan(found.x[[1, 4]]).all()
        if n > 1:
            assert found.info[5] == n + 1
            assert np.isfinite(found.x[5]).all()
        keep = [0, 2, 3, 6]
        assert_same(tuple(y[keep] for y in found), tuple(y[keep] for y in expected))


# --- least squares in mixed precision ------------------------------------------------------------------

SHAPES = [(1, 1), (8, 4), (5, 5), (32, 8), (32, 32), (64, 16), (100, 3), (40, 33)]


@pytest.mark.parametrize("wide", [np.dtype(np.float64), np.dtype(np.complex128)], ids=str)
@pytest.mark.parametrize(("m", "n"), SHAPES)
class TestMixedLeastSquares:
    def test_is_as_good_as_qr(self, isa, m, n, wide, rng):
        """Within 0.1 of 2 n u (cond + cond^2 |r| / (|A| |x|)), and better than that."""
        for condition in (3, 1e2, 1e4):
            for left in (0, 1e-3, 1):
                a = conditioned(rng, 20, m, n, condition, wide)
                x = normal(rng, (20, n, 1), wide)
                ax = a @ x
                beside = normal(rng, (20, m, 1), wide)
                q = np.linalg.qr(a)[0]
                for _ in range(2):
                    beside -= q @ (q.conj().mT @ beside)
                size = np.linalg.norm(ax, axis=1, keepdims=True) / (
                    np.linalg.norm(beside, axis=1, keepdims=True) + 1e-300
                )
                b = ax + left * beside * size * (m > n)
                found = mixed_lstsq_ex("lstsq", a, b)
                fixed = smallmm.lstsq(a, b)
                norm_a, norm_x = 1, np.linalg.norm(x, axis=1)[:, 0]
                residual = np.linalg.norm(b - ax, axis=1)[:, 0]
                bound = 2 * n * 2.0**-53 * (condition + condition**2 * residual / (norm_a * norm_x))
                error = np.linalg.norm(found.x - x, axis=1)[:, 0] / norm_x
                assert np.all(error <= np.maximum(bound, 20 * 2.0**-53))
                kept = found.iterations >= 0
                assert kept.all() or condition == 1e4
                assert found.iterations.max() <= 13
                assert np.all(found.rank == n)
                np.testing.assert_allclose(
                    found.residual_norms[:, 0],
                    fixed.residual_norms[:, 0],
                    atol=1e-11 * np.abs(b).max(),
                    rtol=1e-9,
                )

    def test_gate(self, isa, m, n, wide, rng):
        a, b = conditioned(rng, 12, m, n, 10, wide), normal(rng, (12, m, 2), wide)
        expected = mixed_lstsq_ex("lstsq", a, b)
        if n > 1:
            a[2] = conditioned(rng, 1, m, n, 1e7, wide)[0]
        a[5, :, n - 1] = 0
        a[7, m - 1, 0] = np.nan
        found = mixed_lstsq_ex("lstsq", a, b)
        fixed = smallmm.lstsq(a, b)
        bad = [2, 5, 7] if n > 1 else [5, 7]
        assert found.iterations[bad].tolist() == [-1] * len(bad)
        assert_same(tuple(y[bad] for y in found[:3]), tuple(y[bad] for y in fixed))
        assert found.rank[5] == n - 1
        keep = np.delete(np.arange(12), [2, 5, 7])
        assert_same(tuple(y[keep] for y in found), tuple(y[keep] for y in expected))

    def test_scale_does_not_matter(self, isa, m, n, wide, rng):
        """Nor whether float32 has numbers that large or small, or their squares."""
        a, b = conditioned(rng, 5, m, n, 1e3, wide), normal(rng, (5, m, 2), wide)
        expected = smallmm.lstsq_ex(a, b, precision="mixed")
        for power in (-900, -500, -140, -100, -20, 60, 100, 140, 500, 900):
            for of_b in (0, power // 2, power):
                scaled = smallmm.lstsq_ex(a * 2.0**power, b * 2.0**of_b, precision="mixed")
                assert_same_bits(scaled.x, expected.x * 2.0 ** (of_b - power))
                assert scaled.iterations.tolist() == expected.iterations.tolist()

    # The bits of LAPACK's columns depend on their neighbours
    @pytest.mark.where.with_args(lambda n: n <= MAX_ORDER)
    def test_columns_do_not_know_of_each_other(self, isa, m, n, wide, rng):
        a, b = conditioned(rng, 5, m, n, 1e3, wide), normal(rng, (5, m, 3), wide)
        whole = smallmm.lstsq(a, b, precision="mixed")
        for j in range(3):
            alone = smallmm.lstsq(a, b[..., j : j + 1], precision="mixed")
            assert_same(alone.x, np.ascontiguousarray(whole.x[..., j : j + 1]))


class TestMixedLeastSquaresArguments:
    def test_wide(self, rng):
        a, b = rng.standard_normal((3, 4, 7)), rng.standard_normal((3, 4, 1))
        found = smallmm.lstsq_ex(a, b, precision="mixed")
        assert found.iterations.tolist() == [-1] * 3
        assert_same(tuple(found[:4]), tuple(smallmm.lstsq_ex(a, b)))

    def test_words(self, rng):
        a = rng.standard_normal((3, 7, 4))
        with pytest.raises(ValueError, match="lstsq: precision is 'double'; expected 'fixed' or 'mixed'"):
            smallmm.lstsq(a, a, precision="double")
        with pytest.raises(ValueError, match=r"lstsq: rtol is 0\.1; expected None with precision 'mixed'"):
            smallmm.lstsq(a, a, rtol=0.1, precision="mixed")

    def test_out_and_vectors(self, rng):
        a, b = rng.standard_normal((7, 4)), rng.standard_normal(7)
        x, norms, rank = smallmm.lstsq(a, b, precision="mixed")
        assert (x.shape, norms.shape, int(rank)) == ((4,), (), 4)
        out = np.zeros(4), np.zeros(()), np.zeros((), np.int32)
        found = smallmm.lstsq(a, b, precision="mixed", out=out)
        assert all(y is z for y, z in zip(found, out, strict=True))
        assert_same(out, (x, np.asarray(norms), np.asarray(rank)))

    def test_real_beside_complex(self, rng):
        a, b = rng.standard_normal((3, 7, 4)), normal(rng, (3, 7, 2), np.dtype(complex))
        found = smallmm.lstsq(a, b, precision="mixed")
        assert (found.x.dtype, found.residual_norms.dtype) == (complex, float)
        assert_same(found, smallmm.lstsq(a + 0j, b, precision="mixed"))


# --- linsolve with options of accuracy -----------------------------------------------------------------

WORDS = (
    "general",
    "symmetric",
    "positive definite",
    "upper triangular",
    "lower triangular",
    "tridiagonal",
    "banded",
    "diagonal",
    "auto",
)


def of_structure(word, rng, n):
    """Matrices, what of them is read, and a b. Elsewhere is NaN."""
    a = rng.standard_normal((9, n, n)) + 3 * np.sqrt(n) * np.eye(n)
    offset = np.arange(n) - np.arange(n)[:, None]
    reads = {
        "symmetric": offset >= 0,
        "positive definite": offset >= 0,
        "upper triangular": offset >= 0,
        "lower triangular": offset <= 0,
        "tridiagonal": abs(offset) <= 1,
        "banded": (offset >= -1) & (offset <= 2),
        "diagonal": offset == 0,
    }.get(word, offset == offset)
    if word == "positive definite":
        a = a @ a.mT
    part = np.where(reads, a, 0)
    whole = part + np.triu(part, 1).mT if word in ("symmetric", "positive definite") else part
    return (
        np.where(reads, a, 0 if word in ("banded", "auto") else np.nan),
        whole,
        rng.standard_normal((9, n, 2)),
    )


@pytest.mark.parametrize("n", [1, 2, 5, 16, 33, 129])
class TestLinsolve:
    @pytest.mark.parametrize("transposed", [False, True])
    @pytest.mark.parametrize("word", WORDS)
    def test_rcond(self, word, transposed, n, rng):
        given, whole, b = of_structure(word, rng, n)
        x, rcond = smallmm.linsolve(given, b, assume_a=word, transposed=transposed, return_rcond=True)
        assert_same_bits(x, smallmm.linsolve(given, b, assume_a=word, transposed=transposed))
        assert_same_bits(rcond, smallmm.rcond(whole.mT if transposed else whole))
        found = smallmm.linsolve_ex(given, b, assume_a=word, transposed=transposed, return_rcond=True)
        assert_same_bits(found.x, x)
        assert_same_bits(found.rcond, rcond)
        assert found.iterations is None

    @pytest.mark.where.with_args(lambda n: n > 1)  # B has two columns
    @pytest.mark.parametrize("word", WORDS)
    def test_out_may_lie_where_a_does(self, dtype, word, n, rng):
        given, _, b = (y.astype(dtype) for y in of_structure(word, rng, n))
        options = [{"return_rcond": True}]
        if word in WORDS[:3]:
            options.append({"return_rcond": True, "ill_conditioned": True})
        if word in WORDS[:3] and dtype == np.float64:
            options.append({"return_rcond": True, "precision": "mixed"})
        for more in options:
            expected = smallmm.linsolve(given, b, assume_a=word, **more)
            a = given.copy()
            found = smallmm.linsolve(a, b, assume_a=word, out=a[..., :2], **more)
            assert_same(tuple(map(np.array, found)), expected)
            expected = smallmm.linsolve_ex(given, b, assume_a=word, **more)
            a = given.copy()
            out = (a[..., 1:3] if n > 2 else a, None, None, None)
            found = smallmm.linsolve_ex(a, b, assume_a=word, out=out, **more)
            assert_same(tuple(map(np.array, found)), tuple(map(np.array, expected)))

    @pytest.mark.parametrize("transposed", [False, True])
    @pytest.mark.parametrize("word", WORDS[:3])
    def test_mixed(self, isa, word, transposed, n, rng):
        given, whole, b = of_structure(word, rng, n)
        turned = whole.mT if transposed else whole
        options = {"assume_a": word, "transposed": transposed}
        found = smallmm.linsolve_ex(given, b, precision="mixed", **options)
        assert found.iterations.min() >= 0 or n == 1  # which LAPACK's test is too strict for
        assert found.rcond is None
        assert np.all(residual_test(turned, found.x, b) <= 1 + n)
        assert_same_bits(smallmm.linsolve(given, b, precision="mixed", **options), found.x)
        given[4] = given[4] * 1e60  # which float32 does not hold
        x, rcond, info, iterations = smallmm.linsolve_ex(
            given, b, precision="mixed", return_rcond=True, **options
        )
        assert iterations[4] == -2
        assert_same_bits(x[4], smallmm.linsolve(given[4], b[4], **options))
        assert_same_bits(np.delete(x, 4, 0), np.delete(found.x, 4, 0))
        assert not info.any()
        assert rcond.shape == (9,)

    @pytest.mark.parametrize("word", WORDS[:3])
    def test_ill_conditioned(self, isa, dtype, word, n, rng):
        given, whole, b = (y.astype(dtype) for y in of_structure(word, rng, n))
        x, rcond = smallmm.linsolve(given, b, assume_a=word, ill_conditioned=True, return_rcond=True)
        expected = expert_solve_ex("solve", whole, b)
        assert_same((x, rcond), (expected.x, expected.rcond))
        singular = whole.copy()
        singular[2] = 0
        with pytest.raises(smallmm.LinAlgError, match=r"linsolve: 1 of 9 .* at index \(2,\)") as error:
            smallmm.linsolve(singular, b, ill_conditioned=True, return_rcond=True)
        x, rcond = error.value.result
        assert rcond[2] == 0
        assert np.isnan(x[2]).all()

    def test_failures(self, isa, n, rng):
        given, _, b = of_structure("positive definite", rng, n)
        given[3] = -given[3]
        given[5] = 0
        found = smallmm.linsolve_ex(given, b, assume_a="pos", precision="mixed")
        assert found.info[[3, 5]].tolist() == [1, 1]
        assert found.iterations[[3, 5]].tolist() == [-3, -3]
        assert np.isnan(found.x[[3, 5]]).all()
        with pytest.raises(smallmm.LinAlgError, match="linsolve: 2 of 9 matrices are not positive definite"):
            smallmm.linsolve(given, b, assume_a="pos", precision="mixed")


class TestLinsolveArguments:
    def test_rectangular(self, rng):
        a, b = rng.standard_normal((5, 9, 4)), rng.standard_normal((5, 9, 2))
        expected = smallmm.lstsq_ex(a, b, precision="mixed")
        found = smallmm.linsolve_ex(a, b, precision="mixed")
        assert_same((found.x, found.info, found.iterations), (expected.x, expected.info, expected.iterations))
        assert_same_bits(smallmm.linsolve(a.mT, b, transposed=True, precision="mixed"), expected.x)
        assert_same_bits(smallmm.linsolve(a, b, ill_conditioned=True), smallmm.lstsq(a, b).x)
        with pytest.raises(
            ValueError, match="linsolve: return_rcond is True; expected False for matrices that"
        ):
            smallmm.linsolve(a, b, return_rcond=True)

    def test_singular_to_the_precision(self):
        a = np.array([[1, 1], [1, 1 + 2.0**-52]])
        found = smallmm.linsolve_ex(a, [1.0, 2.0], ill_conditioned=True)
        assert (int(found.info), bool(0 < found.rcond < 2.0**-53)) == (3, True)
        assert np.isfinite(smallmm.linsolve(a, [1.0, 2.0], ill_conditioned=True)).all()

    def test_contradictions(self):
        a, b = np.eye(3), np.ones(3)
        with pytest.raises(
            ValueError, match="ill_conditioned is True; expected False with precision 'mixed'"
        ):
            smallmm.linsolve(a, b, precision="mixed", ill_conditioned=True)
        with pytest.raises(
            ValueError, match="precision is 'mixed' and assume_a 'banded'; expected 'general'"
        ):
            smallmm.linsolve(a, b, assume_a="banded", precision="mixed")
        with pytest.raises(ValueError, match="ill_conditioned is True and assume_a 'auto'; expected"):
            smallmm.linsolve_ex(a, b, assume_a="auto", ill_conditioned=True)
        with pytest.raises(TypeError, match="linsolve: return_rcond is 'yes'; expected True or False"):
            smallmm.linsolve(a, b, return_rcond="yes")
        with pytest.raises(TypeError, match="linsolve: a has dtype float32; expected float64"):
            smallmm.linsolve(a.astype("f"), b, precision="mixed")

    def test_out(self, rng):
        a, b = rng.standard_normal((5, 4, 4)) + 4 * np.eye(4), rng.standard_normal((5, 4, 2))
        expected = smallmm.linsolve_ex(a, b, precision="mixed", return_rcond=True)
        out = np.empty((5, 4, 2)), np.empty(5), np.empty(5, np.int32), np.empty(5, np.int32)
        found = smallmm.linsolve_ex(a, b, precision="mixed", return_rcond=True, out=out)
        assert all(x is y for x, y in zip(found, out, strict=True))
        assert_same(out, tuple(expected))
        x = np.empty((5, 4, 2))
        assert smallmm.linsolve(a, b, precision="mixed", out=x) is x
        assert_same(x, expected.x)

    def test_dask(self, rng):
        da = pytest.importorskip("dask.array")
        a, b = rng.standard_normal((6, 4, 4)) + 4 * np.eye(4), rng.standard_normal((6, 4, 2))
        lazy_a, lazy_b = (da.from_array(y, chunks=(3, -1, -1)) for y in (a, b))
        x, rcond = smallmm.linsolve(lazy_a, lazy_b, precision="mixed", return_rcond=True)
        expected = smallmm.linsolve(a, b, precision="mixed", return_rcond=True)
        assert_same((np.asarray(x), np.asarray(rcond)), expected)

    def test_torch(self, torch, rng):
        a, b = rng.standard_normal((6, 4, 4)) + 4 * np.eye(4), rng.standard_normal((6, 4, 2))
        a[3] *= 1e60
        for options in (
            {"precision": "mixed"},
            {"ill_conditioned": True},
            {"precision": "mixed", "assume_a": "sym"},
        ):
            found = smallmm.linsolve_ex(torch.asarray(a), torch.asarray(b), return_rcond=True, **options)
            assert all(y is None or isinstance(y, torch.Tensor) for y in found)
            expected = smallmm.linsolve_ex(a, b, return_rcond=True, **options)
            for x, y in zip(found, expected, strict=True):
                assert (x is None) == (y is None)
                assert x is None or assert_same(x.numpy(), y) is None
        lu, pivots = smallmm.lu_factor(torch.asarray(a))
        assert isinstance(
            smallmm.refine(torch.asarray(a), lu, pivots, torch.asarray(b), torch.asarray(b)).x, torch.Tensor
        )

    @pytest.mark.parametrize("wide", [np.dtype(np.float64), np.dtype(np.complex128)], ids=str)
    @pytest.mark.parametrize("shape", [(6, 4, 4), (4, 4)])
    def test_in_a_namespace(self, torch, rng, shape, wide):
        """What arrays on a device run: the functions over another library's namespace, with the same bits."""
        from array_api_compat import torch as xp

        from smallmm._functions import mixed, mixed_least_squares

        a, b = normal(rng, shape, wide) + 4 * np.eye(4), normal(rng, (*shape[:-1], 2), wide)
        a[..., :1] *= 1e20
        if len(shape) > 2:
            a[3] *= 1e60
            a[4] = 0
        functions = [
            lambda xp, a, b: mixed.refined(False, xp, a, b),
            lambda xp, a, b: mixed._expert(mixed.as_given, xp, a, b),
            mixed_least_squares._mixed,
        ]
        for function in functions:
            with np.errstate(all="ignore"):
                expected = function(np, a, b)
            found = function(xp, torch.asarray(a), torch.asarray(b))
            assert_same(tuple(y.numpy() for y in found), tuple(np.asarray(y) for y in expected))


# --- complex numbers -----------------------------------------------------------------------------------


def cabs1(x):
    return np.abs(x.real) + np.abs(x.imag)


@pytest.fixture(params=COMPLEX, ids=lambda dtype: dtype.__name__)
def number(request):
    return np.dtype(request.param)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 17, 32, 33, 129])
class TestComplex:
    """The bits are compared with the reference in test_linalg.py."""

    @pytest.mark.parametrize("ord", [1, np.inf])
    def test_rcond(self, isa, number, n, ord, rng):
        """As LAPACK's gecon, and never below the truth, but by rounding."""
        a = normal(rng, (40, n, n), number)
        a[:20] *= np.geomspace(1, 1e-3, n).astype(real(number))
        found = smallmm.rcond(a, ord)
        assert found.dtype == real(number)
        true = 1 / np.linalg.cond(a.astype(complex), ord)
        assert np.all(found >= true * (1 - 40 * n * u_of(number) / true))
        assert np.all(found <= 10 * true)
        getrf, gecon = scipy.linalg.lapack.get_lapack_funcs(("getrf", "gecon"), (a,))
        theirs = [
            gecon(getrf(x)[0], np.abs(x).sum(0 if ord == 1 else 1).max(), norm="1" if ord == 1 else "I")[0]
            for x in a
        ]
        assert np.median(np.abs(found / theirs - 1)) < 100 * n * u_of(number)
        assert_same_bits(smallmm.linsolve_ex(a, a, return_rcond=True).rcond, smallmm.rcond(a))
        bad = a.copy()
        bad[3], bad[5, n - 1, 0] = 0, complex(0, np.nan)
        again = smallmm.rcond(bad, ord)
        assert again[3] == 0
        assert np.isnan(again[5])
        keep = np.delete(np.arange(40), [3, 5])
        assert_same_bits(again[keep], found[keep])

    @pytest.mark.parametrize("precision", ["fixed", "extra"])
    def test_backward_errors(self, isa, number, n, precision, rng):
        a, b = normal(rng, (9, n, n), number), normal(rng, (9, n, 2), number)
        x = (smallmm.solve(a, b) * (1 + normal(rng, b.shape, number).real / 64)).astype(number)
        wide, columns = a.astype(np.clongdouble), x.astype(np.clongdouble)
        left = b - wide @ columns
        expected = (cabs1(left) / (cabs1(wide) @ cabs1(columns) + cabs1(b))).max(-2)
        found = smallmm.backward_error(a, x, b, precision=precision)
        assert found.dtype == real(number)
        np.testing.assert_allclose(
            found, expected, rtol=4 * n * u_of(number), atol=4 * (n + 1) * u_of(number)
        )
        size = np.abs(a).sum(-1).max(-1)[:, None] * np.abs(x).max(-2) + np.abs(b).max(-2)
        found = smallmm.backward_error(a, x, b, "normwise", precision=precision)
        np.testing.assert_allclose(
            found, np.abs(left).max(-2) / size, rtol=4 * n * u_of(number), atol=4 * (n + 1) * u_of(number)
        )

    @pytest.mark.parametrize("precision", ["fixed", "extra"])
    def test_refine(self, isa, number, n, precision, rng):
        bits = 40 if number == np.complex128 else 14
        a = (np.round(normal(rng, (21, n, n), number) * 2.0 ** (bits // 2)) / 2.0 ** (bits // 2)).astype(
            number
        )
        exact = (rng.integers(-7, 8, (21, n, 2)) + 1j * rng.integers(-7, 8, (21, n, 2))).astype(number)
        exact[:, 0] = 7
        b = (a.astype(complex) @ exact).astype(number)
        lu, pivots = smallmm.lu_factor(a)
        found = smallmm.refine(a, lu, pivots, b, exact + exact / 8, precision=precision)
        assert (found.x.dtype, found.ferr.dtype) == (number, real(number))
        assert np.all(found.berr <= 2 * (n + 1) * u_of(number))
        assert np.all(off(found.x, exact) <= found.ferr + u_of(number))
        if precision == "extra":
            assert np.all(off(found.x, exact) <= 2 * u_of(number))
        bad_lu, bad_b = lu.copy(), b.copy()
        bad_lu[5, n - 1, n - 1], bad_b[8, 0, 0] = 0, np.nan
        again = smallmm.refine(a, bad_lu, pivots, bad_b, exact + exact / 8, precision=precision)
        assert np.isnan(again.x[5]).all()
        assert np.isnan(again.berr[8, 0])
        keep = np.delete(np.arange(21), [5, 8])
        assert_same(tuple(y[keep] for y in again), tuple(y[keep] for y in found))

    def test_expert(self, isa, number, n, rng):
        """Rows of very different sizes."""
        a, b = normal(rng, (9, n, n), number), normal(rng, (9, n, 2), number)
        sizes = (2.0 ** rng.integers(-20, 20, (9, n, 1))).astype(real(number))
        found = smallmm.linsolve_ex(a * sizes, b * sizes, ill_conditioned=True, return_rcond=True)
        assert (found.x.dtype, found.rcond.dtype) == (number, real(number))
        expected = np.linalg.solve(a.astype(complex), b.astype(complex))
        assert np.all(off(found.x, expected) * found.rcond[:, None] <= 100 * n * u_of(number))
        assert not found.info.any()
        turned = smallmm.linsolve(a, b, ill_conditioned=True, transposed=True)
        assert np.all(smallmm.backward_error(a.mT, turned, b) <= 4 * (n + 1) * u_of(number))

    def test_mixed_of_complex64(self, n):
        a = np.ones((9, n, n), np.complex64)
        with pytest.raises(TypeError, match="a has dtype complex64; expected float64 or complex128"):
            smallmm.linsolve(a, a, precision="mixed")

    @pytest.mark.parametrize("number", [np.dtype(np.complex128)])
    def test_mixed(self, isa, number, n, rng):
        """Of one singular matrix, and of one that float32 does not hold."""
        a, b = normal(rng, (9, n, n), number), normal(rng, (9, n, 2), number)
        a[2], a[5] = 0, a[5] * 1e200
        x, _, info, iterations = smallmm.linsolve_ex(a, b, precision="mixed")
        assert info.tolist() == [q == 2 for q in range(9)]
        assert (iterations[2], iterations[5]) == (-3, -2)
        assert_same(x[[2, 5]], smallmm.solve_ex(a, b).x[[2, 5]])
        good = np.delete(np.arange(9), [2, 5])
        assert np.all(smallmm.backward_error(a[good], x[good], b[good], "normwise") <= n * u_of(number))
        part = smallmm.linsolve(a[good], b[good].real, precision="mixed")
        assert_same(part, smallmm.linsolve(a[good], b[good].real.astype(number), precision="mixed"))

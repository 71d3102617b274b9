"""Every entry of docs/differences-from-numpy.md, agreement with NumPy and SciPy, and NumPy's own examples."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from accuracy import assert_same_bits
from matrices import normal

import smallmm

EYE, ONES = np.eye, np.ones
PAGE = Path(__file__).parents[2] / "docs" / "differences-from-numpy.md"


def test_every_entry_has_its_test():
    named = re.findall(r"\(`(test_\w+)`\)", PAGE.read_text())
    assert len(named) > 20
    assert set(named) <= set(globals())
    assert PAGE.read_text().count("\n- ") == len(named)


# --- Precision and dtypes ---------------------------------------------------------------------------------


def test_float32_stays_float32(rng):
    a, b = normal(rng, (50, 6, 6), np.float32), normal(rng, (50, 6, 1), np.float32)
    exact = np.linalg.solve(a.astype(np.float64), b)
    assert_same_bits(np.linalg.solve(a, b), exact.astype(np.float32))
    x = smallmm.solve(a, b)
    assert x.dtype == np.float32
    assert np.any(x != exact.astype(np.float32))


def test_float16_is_taken():
    assert smallmm.inv(2 * EYE(2, dtype=np.float16)).dtype == np.float16
    with pytest.raises(TypeError):
        np.linalg.inv(EYE(2, dtype=np.float16))


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_extended_precision_is_refused(dtype):
    for function in (smallmm.inv, smallmm.det, smallmm.qr, smallmm.cholesky, smallmm.lu_factor):
        with pytest.raises(TypeError, match="expected float16, bfloat16, float32, float64"):
            function(EYE(2, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.bool_])
def test_narrow_products_are_those_of_numpy(dtype, rng):
    """float16 is summed in float32 and rounded once; NumPy may round in between."""
    a, b = (rng.integers(-3, 4, shape).clip(0).astype(dtype) for shape in [(50, 6, 5), (50, 5, 4)])
    for name, x, y in (
        ("matmul", a, b),
        ("matmul", a[0, 0], b[0, :, 0]),
        ("matvec", a, b[..., 0]),
        ("vecmat", a[:, 0], b),
    ):
        ours, theirs = getattr(smallmm, name)(x, y), getattr(np, name)(x, y)
        assert ours.dtype == theirs.dtype == dtype
        np.testing.assert_array_equal(ours, theirs)
    assert smallmm.batched_matmul(a, b).dtype == dtype
    out = np.empty((50, 6, 4), dtype)
    assert smallmm.matmul(a, b, out=out) is out
    np.testing.assert_array_equal(out, np.matmul(a, b))
    assert smallmm.matmul(a, b, dtype=np.float64).dtype == np.float64


def test_float16_is_rounded_once(rng):
    a, b = (rng.random((20, 8, 8)).astype(np.float16) for _ in range(2))
    wide = smallmm.matmul(a.astype(np.float32), b.astype(np.float32))
    assert_same_bits(smallmm.matmul(a, b), wide.astype(np.float16))
    assert_same_bits(smallmm.batched_matmul(a, b, alpha=2), (2 * wide).astype(np.float16))


def test_integers_are_multiplied_in_float64():
    a = np.full((2, 2), 100, np.int8)
    assert smallmm.matmul(a, a).dtype == np.float64
    assert smallmm.matmul(a, a)[0, 0] == 20000
    assert np.matmul(a, a)[0, 0] == 20000 % 256
    assert smallmm.det(a).dtype == np.linalg.det(a).dtype == np.float64


def test_batched_matmul_takes_no_vectors():
    with pytest.raises(ValueError, match="expected at least 2 dimensions"):
        smallmm.batched_matmul(ONES(2), EYE(2))
    np.testing.assert_array_equal(smallmm.matmul(ONES(2), EYE(2)), 1)


def test_masked_elements_are_refused():
    a = np.ma.array(2 * EYE(2), mask=[[True, False], [False, False]])
    for call in (smallmm.inv, lambda a: smallmm.matmul(a, a), lambda a: smallmm.batched_matmul(EYE(2), a)):
        with pytest.raises(
            TypeError, match="is a masked array, 1 of whose 4 elements are masked; expected none"
        ):
            call(a)
    np.testing.assert_array_equal(np.linalg.inv(a), EYE(2) / 2)  # as if there were no mask
    assert type(smallmm.inv(a.filled(1))) is type(smallmm.inv(np.ma.array(EYE(2)))) is np.ndarray


# --- Matrices without an answer ---------------------------------------------------------------------------


def test_error_tells_more():
    a = np.stack([EYE(2), ONES((2, 2)), 2 * EYE(2)])
    with pytest.raises(np.linalg.LinAlgError) as caught:
        smallmm.inv(a)
    assert "1 of 3 matrices is singular, the first at index (1,)" in str(caught.value)
    assert caught.value.info.tolist() == [0, 2, 0]
    np.testing.assert_array_equal(caught.value.result[2], EYE(2) / 2)
    with pytest.raises(np.linalg.LinAlgError, match=r"^Singular matrix$"):
        np.linalg.inv(a)
    with pytest.raises(np.linalg.LinAlgError, match=r"^Singular matrix \(inv: pivot 2 "):
        smallmm.inv(a[1])


def test_ex_functions_do_not_raise():
    a, b = np.stack([EYE(2), np.diag([0.0, 1.0])]), ONES((2, 1))
    for results in (
        smallmm.solve_ex(a, b),
        smallmm.inv_ex(a),
        smallmm.cholesky_ex(a),
        smallmm.lu_factor_ex(a),
    ):
        assert results.info.tolist() == [0, 1]
        assert np.isnan(results[0][1]).all()
        assert np.isfinite(results[0][0]).all()
    assert smallmm.lstsq_ex(a, b).info.tolist() == [0, 0]


def test_results_have_fields_of_pytorch():
    a, b = EYE(2), ONES((2, 1))
    solved = smallmm.solve_ex(a, b)
    assert solved.result is solved.x
    for result in (smallmm.lstsq(a, b), smallmm.lstsq_ex(a, b), smallmm.lstsq_ex(a, b, precision="mixed")):
        assert result.solution is result.x


def test_singular_factors_are_nan():
    with pytest.raises(smallmm.LinAlgError):
        smallmm.lu_factor(ONES((2, 2)))
    assert np.isnan(smallmm.lu_factor_ex(ONES((2, 2))).LU).all()
    with pytest.warns(scipy.linalg.LinAlgWarning):
        assert scipy.linalg.lu_factor(ONES((2, 2)))[0][1, 1] == 0


def test_cholesky_of_nan_raises():
    a = np.diag([1.0, np.nan])
    with pytest.raises(smallmm.LinAlgError, match="leading minor of order 2 "):
        smallmm.cholesky(a)
    assert np.isnan(np.linalg.cholesky(a)[1, 1])


def test_not_finite_is_no_error():
    a, b = np.full((2, 2), np.nan), ONES((2, 1))
    assert np.isnan(smallmm.lstsq(a, b).x).all()
    assert np.isnan(smallmm.solve(a, b)).all()
    assert np.isnan(smallmm.lu_factor(a).LU).any()
    assert np.isnan(smallmm.solve_triangular(a, b)).all()
    with pytest.raises(ValueError, match="infs or NaNs"):
        scipy.linalg.lu_factor(a)


def test_no_warnings():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert smallmm.det(1e200 * EYE(2)) == np.inf
        assert np.isnan(smallmm.slogdet(np.full((2, 2), np.nan)).logabsdet)
        assert smallmm.inv([[1e-310]])[0, 0] == np.inf
        large = np.full((2, 3, 3), 3e4, np.float16)
        assert np.all(smallmm.einsum("bij,bjk,bkl->bil", large, large, large) == np.inf)
        small = np.array([[2, 6e-8], [0, 2]], np.float16)
        assert smallmm.sqrtm(small)[0, 1] == smallmm.logm(small)[0, 1] < 6e-8
        beyond_kernels = np.full((130, 130), 10, np.float32)
        assert np.all(smallmm.expm(beyond_kernels) == np.inf)
    with pytest.warns(RuntimeWarning, match="overflow encountered in cast"):
        smallmm.matmul(np.full((2, 2), 1e300), EYE(2), out=np.empty((2, 2), np.float32))
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.linalg.det(1e200 * EYE(2))


# --- Functions --------------------------------------------------------------------------------------------


def test_lstsq_has_three_fields(rng):
    a, b = normal(rng, (6, 5, 3), np.float64), normal(rng, (6, 5, 2), np.float64)
    a[3, :, 2] = a[3, :, 0]
    result = smallmm.lstsq(a, b, rcond=1e-12)
    assert result._fields == ("x", "residual_norms", "rank")
    assert [x.shape for x in result] == [(6, 3, 2), (6, 2), (6,)]
    assert result.rank.tolist() == [3, 3, 3, 2, 3, 3]
    for x, y in zip(result, smallmm.lstsq(a, b, rtol=1e-12), strict=True):
        assert_same_bits(x, y)
    for q in range(6):
        x, _, rank, values = np.linalg.lstsq(a[q], b[q], rcond=1e-12)
        np.testing.assert_allclose(result.x[q], x, atol=1e-12)
        assert result.rank[q] == rank
        assert len(values) == 3


def test_residual_norms_are_not_squared(rng):
    a, b = normal(rng, (5, 3), np.float64), normal(rng, (5, 2), np.float64)
    np.testing.assert_allclose(smallmm.lstsq(a, b).residual_norms ** 2, np.linalg.lstsq(a, b)[1])
    a[:, 2] = a[:, 0]
    x, norms, _ = smallmm.lstsq(a, b)
    np.testing.assert_allclose(norms, np.linalg.norm(b - a @ x, axis=0))
    assert np.linalg.lstsq(a, b)[1].size == 0
    assert smallmm.lstsq(a, b[:, 0]).residual_norms.shape == ()


def test_qr_has_no_old_modes(rng):
    a = normal(rng, (5, 3), np.float64)
    for ours, theirs in zip(smallmm.qr(a, "economic"), scipy.linalg.qr(a, mode="economic"), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-14)
    for mode in ("full", "f", "e"):
        with pytest.raises(ValueError, match=f"qr: mode is '{mode}'; expected 'reduced'"):
            smallmm.qr(EYE(2), mode=mode)


def test_eigenvectors_have_fixed_signs():
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    v = smallmm.eigh(a).eigenvectors
    assert (v[np.abs(v).argmax(0), [0, 1]] > 0).all()
    assert np.abs(v) == pytest.approx(np.abs(np.linalg.eigh(a).eigenvectors))


def test_eigenvalues_are_complex():
    a = np.diag([1.0, 2.0])
    assert np.linalg.eigvals(a).dtype == np.float64
    assert [x.dtype for x in (smallmm.eigvals(a), *smallmm.eig(a))] == [np.complex128] * 3
    assert smallmm.eigvals(a.astype(np.float32)).dtype == np.complex64


def test_eigenvectors_of_eig_have_fixed_phases():
    a = np.array([[0.0, -1.0, 0.0], [2.0, 1.0, 0.0], [0.5, 0.0, -3.0]])
    v = smallmm.eig(a).eigenvectors
    largest = v[np.abs(v).argmax(0), [0, 1, 2]]
    assert (largest.real > 0).all()
    assert (largest.imag == 0).all()


def test_cholesky_is_lower():
    a = np.array([[4.0, 2.0], [2.0, 5.0]])
    np.testing.assert_array_equal(smallmm.cholesky(a), np.linalg.cholesky(a))
    np.testing.assert_array_equal(smallmm.cholesky(a, upper=True), scipy.linalg.cholesky(a))
    np.testing.assert_array_equal(smallmm.cholesky(a, lower=False), scipy.linalg.cholesky(a, lower=False))
    np.testing.assert_array_equal(smallmm.cho_factor(a)[0], scipy.linalg.cholesky(a))


def test_out():
    out = np.empty((2, 2)), np.empty((2, 2))
    result = smallmm.qr(EYE(2), out=out)
    assert result.Q is out[0]
    assert result.R is out[1]
    assert smallmm.inv(EYE(2), out=out[0]) is out[0]
    assert smallmm.matrix_transpose(out[0]).base is out[0]


def test_features_are_columns(rng):
    x, weights = rng.standard_normal((9, 2)), rng.random(9)
    np.testing.assert_allclose(smallmm.cov(x, weights), np.cov(x, rowvar=False, aweights=weights))
    np.testing.assert_allclose(smallmm.cov(x, rowvar=True), np.cov(x))
    np.testing.assert_allclose(smallmm.corr(x), np.corrcoef(x, rowvar=False))
    assert np.isnan(smallmm.cov(x[:1])).all()


def test_norms_do_not_overflow(dtype):
    x = np.array([3, 4], dtype) * dtype.type(np.finfo(dtype).max / 8)
    with np.errstate(over="ignore"):
        assert np.isinf(np.linalg.norm(x))
    np.testing.assert_allclose(smallmm.norm(x) / x[0], 5 / 3, rtol=1e-6)
    tiny = np.array([3, 4], dtype) * np.finfo(dtype).tiny
    assert np.linalg.norm(tiny) == 0
    np.testing.assert_allclose(smallmm.norm(tiny), 5 * np.finfo(dtype).tiny, rtol=1e-6)


def test_tolerance_of_pinv(dtype):
    eps = np.finfo(dtype).eps
    for smallest, counts in [(1.5 * eps, False), (3 * eps, True)]:
        a = np.diag([1, smallest]).astype(dtype)
        assert smallmm.matrix_rank(a, hermitian=True) == 1 + counts
        assert (smallmm.pinv(a, hermitian=True)[1, 1] > 0) == counts
        for theirs in (np.linalg.pinv(a, hermitian=True), smallmm.pinv(a, 1e-15, hermitian=True)):
            assert (theirs[1, 1] > 0) == (smallest > 1e-15)


def test_powers_of_integers_are_floats():
    a = np.array([[1, 1], [1, 0]])
    for function, arguments in [("matrix_power", (a, 5)), ("trace", (a,)), ("cross", ([1, 2, 3], [4, 5, 6]))]:
        ours, theirs = getattr(smallmm, function)(*arguments), getattr(np.linalg, function)(*arguments)
        assert ours.dtype == np.float64
        assert theirs.dtype == np.int64
        np.testing.assert_array_equal(ours, theirs)


def test_outer_accepts_stacks(rng):
    x, y = rng.standard_normal((2, 7, 3))
    assert smallmm.outer(x, y).shape == (7, 3, 3)
    assert np.outer(x, y).shape == (21, 21)
    assert_same_bits(smallmm.outer(x[2], y[2]), np.outer(x[2], y[2]))


def test_multi_dot_accepts_stacks(rng):
    a, b, c = rng.standard_normal((3, 7, 4, 4))
    np.testing.assert_allclose(smallmm.multi_dot([a, b, c]), a @ b @ c)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.multi_dot([a, b, c])


def test_einsum_computes_products(rng):
    a, b = rng.standard_normal((2, 7, 4, 4))
    np.testing.assert_allclose(smallmm.einsum("bij,bjk->bik", a, b), np.einsum("bij,bjk->bik", a, b))
    np.testing.assert_allclose(smallmm.einsum("bii->b", a), np.einsum("bii->b", a))


def test_einsum_of_integers_is_float():
    a = np.arange(9).reshape(3, 3)
    assert smallmm.einsum("ij,jk->ik", a, a).dtype == np.float64
    assert smallmm.einsum("ij->i", a).dtype == np.float64
    assert smallmm.einsum("ij->ji", a).dtype == a.dtype
    with pytest.raises(TypeError, match="integers are added in float64"):
        smallmm.einsum("ij,jk->ik", a, a, dtype=int)
    assert np.einsum("ij,jk->ik", a, a).dtype == a.dtype


def test_functions_of_singular_matrices():
    a, nilpotent = np.array([[2.0, 1.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    for name in ("sqrtm", "logm"):
        theirs, ours = getattr(scipy.linalg, name), getattr(smallmm, name)
        np.testing.assert_allclose(ours(a), theirs(a), atol=1e-14)
        np.testing.assert_allclose(ours(-a), theirs(-a), atol=1e-14)
        assert ours(a).dtype == np.float64
        assert ours(np.stack([a, -a])).dtype == np.complex128
        with pytest.raises(smallmm.LinAlgError):
            ours(nilpotent)
        with pytest.warns(Warning, match="singular"):
            theirs(nilpotent)
    np.testing.assert_allclose(smallmm.powm(a, 0.3), scipy.linalg.fractional_matrix_power(a, 0.3), atol=1e-14)


def test_scipy_keywords_have_no_effect():
    """In every function that SciPy has, where SciPy has them."""
    a, b = EYE(2), np.array([1.0, np.nan])
    for function, arguments in {
        "solve": (a, b),
        "inv": (a,),
        "det": (a,),
        "lu_factor": (a,),
        "lu_solve": (smallmm.lu_factor(a), b),
        "cholesky": (a,),
        "cho_factor": (a,),
        "cho_solve": ((a, True), b),
        "solve_triangular": (a, b),
        "qr": (a,),
        "lstsq": (a, b),
        "eig": (a,),
        "eigh": (a,),
        "eigvals": (a,),
        "eigvalsh": (a,),
        "svd": (a,),
        "svdvals": (a,),
        "pinv": (a,),
        "norm": (a,),
        "solve_banded": ((0, 0), ONES((1, 2)), b),
        "solveh_banded": (ONES((1, 2)), b),
    }.items():
        ours, theirs = getattr(smallmm, function), getattr(scipy.linalg, function)
        for keyword in inspect.signature(theirs).parameters:
            if keyword.startswith(("overwrite_", "check_finite")) and (function, keyword) != (
                "eig",
                "overwrite_b",
            ):
                for yes in (True, False):
                    np.testing.assert_equal(ours(*arguments, **{keyword: yes}), ours(*arguments))
            if keyword.endswith("driver"):
                np.testing.assert_equal(ours(*arguments, **{keyword: "gesvd"}), ours(*arguments))
    assert np.isnan(b[1])
    with pytest.raises(ValueError, match="infs or NaNs"):
        scipy.linalg.solve(a, b, check_finite=True)


def test_orders_above_128(rng):
    a = normal(rng, (2, 129, 129), np.float64)
    np.testing.assert_allclose(smallmm.inv(a), np.linalg.inv(a))
    assert smallmm.explain("inv", a).kernel.startswith("lapack")
    assert smallmm.explain("inv", a[:, 1:, 1:]).kernel.startswith("smm_inv")
    assert smallmm.explain("qr", np.ones((2, 16384, 1))).kernel.startswith("smm_qr")
    assert smallmm.explain("qr", np.ones((2, 16385, 1))).kernel.startswith("lapack")


# --- The same as NumPy ------------------------------------------------------------------------------------


def test_b_is_a_vector_only_with_one_dimension(rng):
    a, b = normal(rng, (4, 4, 4), np.float64), normal(rng, (4, 4), np.float64)
    np.testing.assert_allclose(smallmm.solve(a, b), np.linalg.solve(a, b))
    np.testing.assert_allclose(smallmm.solve(a, b[0]), np.linalg.solve(a, b[0]))
    np.testing.assert_allclose(smallmm.solve(a, b[..., None]), np.linalg.solve(a, b[..., None]))
    for function in (smallmm.solve, np.linalg.solve):
        with pytest.raises(ValueError):
            function(a[:3], b[:3])


def test_cholesky_reads_one_triangle():
    a = np.array([[4.0, np.nan], [2.0, 5.0]])
    np.testing.assert_array_equal(smallmm.cholesky(a), np.linalg.cholesky(a))
    np.testing.assert_array_equal(smallmm.cholesky(a.T, upper=True), np.linalg.cholesky(a.T, upper=True))


def test_singular_means_exactly():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]) / 10
    assert np.linalg.matrix_rank(a) == 2
    assert np.abs(smallmm.inv(a)).max() > 1e14
    assert np.abs(np.linalg.inv(a)).max() > 1e14
    for a in ([[6.0, 1.0], [6.0, 1.0]], [[1.0, 1.0], [3.0, 3.0]]):
        found = smallmm.lu_factor_ex(a).info
        assert smallmm.inv_ex(a).info == smallmm.solve_ex(a, [1.0, 1.0]).info == found
        assert (smallmm.det(a) == 0) == (found > 0)


def test_determinants_of_singular_matrices():
    for library in (smallmm, np.linalg):
        assert library.det(ONES((3, 3))) == 0
        sign, logabsdet = library.slogdet(ONES((3, 3)))
        assert (sign, logabsdet) == (0, -np.inf)


# --- Agreement with SciPy and NumPy -----------------------------------------------------------------------


def exact_ties(rng, n):
    """Matrices with many ties for the pivot, of which rounding breaks none: elimination of order 3 with
    elements -1, 0 and 1 is exact, so they are made of such blocks, their rows shuffled."""
    blocks = rng.integers(-1, 2, (40 * n, 3, 3))
    blocks = blocks[np.abs(np.linalg.det(blocks)) > 0.5]
    count = n // 3
    return np.stack(
        [
            rng.permutation(scipy.linalg.block_diag(*blocks[q * count : (q + 1) * count], np.eye(n % 3)))
            for q in range(40)
        ]
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32])
def test_pivots_are_those_of_scipy(isa, dtype, n, rng):
    """Of ties too: the first of equals."""
    for a in (normal(rng, (40, n, n), dtype), exact_ties(rng, n).astype(dtype)):
        lu, pivots, info = smallmm.lu_factor_ex(a)
        assert not info.any()
        for q in range(len(a)):
            expected, expected_pivots = scipy.linalg.lu_factor(a[q])
            np.testing.assert_array_equal(pivots[q], expected_pivots)
            np.testing.assert_allclose(lu[q], expected, rtol=0, atol=2000 * n * np.finfo(dtype).eps)


def test_factors_of_scipy_work(dtype, rng):
    a = normal(rng, (5, 5), dtype)
    a = a @ a.T + EYE(5, dtype=dtype)
    b = normal(rng, (5, 2), dtype)
    tolerance = {"rtol": 1e-3 if dtype == np.float32 else 1e-9}
    x = smallmm.lu_solve(scipy.linalg.lu_factor(a), b)
    np.testing.assert_allclose(x, scipy.linalg.lu_solve(smallmm.lu_factor(a), b), **tolerance)
    for lower in (False, True):
        factor = scipy.linalg.cho_factor(a, lower=lower)
        np.testing.assert_allclose(smallmm.cho_solve(factor, b), x, **tolerance)


@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular_has_scipys_arguments(trans, lower, unit, rng):
    a, b = normal(rng, (4, 4), np.float64) + 4 * EYE(4), normal(rng, (4,), np.float64)
    np.testing.assert_allclose(
        smallmm.solve_triangular(a, b, trans, lower, unit),
        scipy.linalg.solve_triangular(a, b, trans, lower, unit),
    )


@pytest.mark.parametrize(("m", "n"), [(4, 4), (7, 3), (3, 7)])
def test_qr_is_numpys(m, n, rng):
    """LAPACK's signs and reflectors."""
    a = normal(rng, (5, m, n), np.float64)
    for mode in ("reduced", "complete", "raw"):
        for ours, theirs in zip(smallmm.qr(a, mode), np.linalg.qr(a, mode), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-13)
    np.testing.assert_allclose(smallmm.qr(a, "r"), np.linalg.qr(a, "r"), atol=1e-13)
    assert smallmm.qr(a)._fields == np.linalg.qr(a)._fields
    assert smallmm.slogdet(EYE(2))._fields == np.linalg.slogdet(EYE(2))._fields


class TestExamplesOfNumPy:
    """What the documentation of numpy.linalg shows (without its complex numbers)."""

    def test_cholesky(self):
        a = np.array([[1, -2], [-2, 5]])
        l = smallmm.cholesky(a)  # noqa: E741
        np.testing.assert_array_equal(l, [[1, 0], [-2, 1]])
        np.testing.assert_array_equal(np.dot(l, l.T), a)
        np.testing.assert_array_equal(smallmm.cholesky(a, upper=True), l.T)

    def test_det(self):
        a = np.array([[[1, 2], [3, 4]], [[1, 2], [2, 1]], [[1, 3], [3, 1]]])
        assert a.shape == (3, 2, 2)
        np.testing.assert_allclose(smallmm.det(a), [-2, -3, -8])

    def test_slogdet(self):
        sign, logabsdet = smallmm.slogdet(np.array([[1, 2], [3, 4]]))
        np.testing.assert_allclose((sign, logabsdet), (-1, 0.69314718055994529))
        a = np.array([[[1, 2], [3, 4]], [[1, 2], [2, 1]], [[1, 3], [3, 1]]])
        sign, logabsdet = smallmm.slogdet(a)
        np.testing.assert_allclose(sign * np.exp(logabsdet), [-2, -3, -8])
        sign, logabsdet = smallmm.slogdet(np.eye(500) * 0.1)
        np.testing.assert_allclose((sign, logabsdet), (1, -1151.2925464970228))

    def test_inv(self):
        a = np.array([[1.0, 2.0], [3.0, 4.0]])
        inverse = smallmm.inv(a)
        assert np.allclose(a @ inverse, np.eye(2))
        assert np.allclose(inverse @ a, np.eye(2))
        a = np.array([[[1.0, 2.0], [3.0, 4.0]], [[1, 3], [3, 5]]])
        expected = [[[-2, 1], [1.5, -0.5]], [[-1.25, 0.75], [0.75, -0.25]]]
        np.testing.assert_allclose(smallmm.inv(a), expected)

    def test_solve(self):
        a, b = np.array([[1, 2], [3, 5]]), np.array([1, 2])
        x = smallmm.solve(a, b)
        np.testing.assert_allclose(x, [-1, 1], atol=1e-15)
        assert np.allclose(np.dot(a, x), b)

    def test_qr(self, rng):
        a = rng.normal(size=(9, 6))
        q, r = smallmm.qr(a)
        assert np.allclose(a, np.dot(q, r))
        assert np.allclose(r, smallmm.qr(a, mode="r"))
        a = rng.normal(size=(3, 2, 2))
        q, r = smallmm.qr(a)
        assert q.shape == r.shape == (3, 2, 2)
        assert np.allclose(a, np.matmul(q, r))
        a, b = np.array([[0, 1], [1, 1], [1, 1], [2, 1]]), np.array([1, 2, 2, 3])
        q, r = smallmm.qr(a)
        p = np.dot(q.T, b)
        np.testing.assert_allclose(np.dot(smallmm.inv(r), p), [1, 1])

    def test_lstsq(self):
        x, y = np.array([0, 1, 2, 3]), np.array([-1, 0.2, 0.9, 2.1])
        a = np.vstack([x, np.ones(len(x))]).T
        m, c = smallmm.lstsq(a, y)[0]
        np.testing.assert_allclose((m, c), (1, -0.95))

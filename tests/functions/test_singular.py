"""Which matrices are singular: all functions agree, and nothing becomes finite again after overflow."""

import numpy as np
import pytest

import smallmm

ORDERS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32)


def suspects(n, count):
    """Matrices that are singular but for rounding, which LU finds in some of them."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((count, n, n))
    columns, rows = x.copy(), x.copy()
    columns[..., 0], rows[:, 0] = columns[..., -1], rows[:, -1]
    small = rng.integers(-9, 10, (count, n, n)).astype(float)
    sums = small.copy()
    sums[:, -1] = sums[:, :-1].sum(-2)
    rank = max(1, n // 2)
    low = rng.standard_normal((count, n, rank)) @ rng.standard_normal((count, rank, n))
    whole = rng.integers(-3, 4, (count, n, rank)) @ rng.integers(-3, 4, (count, rank, n))
    scale = 2.0 ** rng.integers(-20, 20, (count, n, 1))
    counting = np.arange(n * n).reshape(n, n) + np.arange(count)[:, None, None]
    stacks = [columns, rows, small, sums, low, whole, scale * sums, sums * scale.mT, counting, counting / 7]
    tiny = [stack * 2.0**-126 for stack in (columns, rows, small, low)]
    return np.concatenate([*stacks, *tiny])


@pytest.mark.parametrize("n", ORDERS)
def test_functions_agree(isa, n, dtype):
    a = suspects(n, 200).astype(dtype)
    info = smallmm.lu_factor_ex(a).info
    assert n == 1 or (info > 0).any()
    x = smallmm.inv_ex(a)
    overflows = (x.info != info) & (x.info == n)  # the inverse does, not LU
    np.testing.assert_array_equal(x.info[~overflows], info[~overflows])
    columns = smallmm.solve_ex(a[overflows], np.eye(n, dtype=dtype)).x
    assert not (np.abs(columns).max((-2, -1), initial=0) < np.finfo(dtype).max / 1000).any()  # NaN, too
    np.testing.assert_array_equal(smallmm.solve_ex(a, np.ones((n, 1), dtype)).info, info)
    np.testing.assert_array_equal(smallmm.det(a)[info > 0], 0)
    assert np.isnan(x.inverse[x.info > 0]).all()


@pytest.mark.parametrize("n", [2, 3, 8, 16, 17, 32])
def test_no_finite_number_after_overflow(isa, n, dtype):
    """Elimination of max [[1, 1], [-1, 1]] overflows: the solution (1/2, 1/2) cannot be found so."""
    most = np.finfo(dtype).max
    a = np.eye(n, dtype=dtype)
    a[:2, :2] = [[most, most], [-most, most]]
    b = np.zeros(n, dtype)
    b[0] = most
    for result in (smallmm.solve_ex(a, b), smallmm.inv_ex(a), smallmm.lu_factor_ex(a)):
        assert result.info == 2
        assert np.isnan(result[0]).all()
    assert not np.isfinite(smallmm.det(a))
    with pytest.raises(smallmm.LinAlgError):
        smallmm.solve(a, b)


def test_multipliers_of_huge_pivots(isa, dtype):
    """Reciprocals of pivots above max / 4 are subnormal, hence not exact."""
    rng = np.random.default_rng(0)
    for n in (2, 3, 5, 8, 16, 17, 32):
        scale = np.finfo(dtype).max / (2 * n)
        a = (rng.uniform(-1, 1, (200, n, n)) * scale).astype(dtype)
        a[:, :, 0] *= 1.9 * n
        lu, _, info = smallmm.lu_factor_ex(a)
        good = info == 0
        assert good.any()
        assert np.abs(np.tril(lu[good], -1)).max() <= 1


def test_inverse_of_a_gaussian_kernel(isa, dtype):
    """A X - I is small, not only X A - I."""
    for n in range(4, 33):
        t = np.linspace(0, 1, n)
        noise = 1e-10 if dtype == np.float64 else 1e-3
        a = (np.exp(-((t[:, None] - t) ** 2) / (2 * 0.157**2)) + noise * np.eye(n)).astype(dtype)
        x = smallmm.inv(a)
        a, x = a.astype(np.longdouble), x.astype(np.longdouble)
        condition = np.abs(a).sum(0).max() * np.abs(x).sum(0).max()
        error = np.abs(a @ x - np.eye(n)).sum(0).max()
        assert error <= 50 * n * np.finfo(dtype).eps / 2 * condition

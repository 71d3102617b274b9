"""Somebody who tests code of their own with pytest and smallmm.testing."""

import numpy as np
import pytest

import smallmm
from smallmm.testing import assert_factors, assert_inverse, assert_solves, solution_ratio


def own_solve(a, b):
    """Cramer's rule, which they wrote."""
    d = smallmm.det(a)
    columns = []
    for j in range(a.shape[-1]):
        other = a.copy()
        other[..., j] = b[..., 0]
        columns.append(smallmm.det(other) / d)
    return np.stack(columns, axis=-1)[..., None]


@pytest.fixture
def stack():
    rng = np.random.default_rng(2)
    return rng.standard_normal((100, 3, 3)) + 3 * np.eye(3), rng.standard_normal((100, 3, 1))


def test_own_solve(stack):
    assert_solves(stack[0], own_solve(*stack), stack[1])


def test_wrong_solution_is_found(stack):
    x = own_solve(*stack)
    x[42] *= 1.001
    with pytest.raises(
        AssertionError, match=r"1 of 100 matrices exceeds the bound, the worst at index \(42,\)"
    ):
        assert_solves(stack[0], x, stack[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ratios_are_small_in_each_precision(stack, dtype):
    a, b = (x.astype(dtype) for x in stack)
    assert solution_ratio(a, smallmm.solve(a, b), b).max() < 10


def test_inverse_and_factors(stack):
    a, _ = stack
    assert_inverse(a, smallmm.inv(a))
    assert_factors(a, smallmm.lu_factor(a))
    assert_factors(a, smallmm.qr(a))


def test_singular_matrices_raise(stack):
    a, b = stack
    a[7] = 0
    with pytest.raises(
        np.linalg.LinAlgError, match=r"1 of 100 matrices is singular, the first at index \(7,\)"
    ):
        smallmm.solve(a, b)

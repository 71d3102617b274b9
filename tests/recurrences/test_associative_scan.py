"""Prefixes of associative functions, against one call for each time."""

import numpy as np
import pytest
from scans import affine, multiplied, sum_of_inverses

import smallmm

LENGTHS = [1, 2, 31, 32, 33, 34, 64, 65, 66, 200, 1025, 4200]


def one_by_one(a, reverse):
    a = a[::-1] if reverse else a
    found = [a[0]]
    for x in a[1:]:
        found.append(found[-1] @ x)
    return np.stack(found[::-1] if reverse else found)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("times", LENGTHS)
def test_products(times, reverse, rng):
    for batch in ((), (3,), (2, 1)):
        a = 0.6 * rng.standard_normal((times, *batch, 3, 3))
        found = smallmm.associative_scan(multiplied, a, reverse=reverse)
        expected = one_by_one(a, reverse)
        assert (found.shape, found.dtype) == (a.shape, a.dtype)
        scale = np.abs(expected).max(axis=(-2, -1), keepdims=True)
        np.testing.assert_allclose(found / scale, expected / scale, atol=1e-13)


def test_several_arrays(rng):
    a, b = 0.5 * rng.standard_normal((300, 2, 4, 4)), rng.standard_normal((300, 2, 4))
    _, found = smallmm.associative_scan(affine, (a, b))
    x = np.zeros((2, 4))
    for t in range(300):
        x = (a[t] @ x[..., None])[..., 0] + b[t]
        np.testing.assert_allclose(found[t], x, rtol=1e-9, atol=1e-12)


def test_numbers():
    found = smallmm.associative_scan(lambda a, b: np.maximum(a, b), [3.0, 1.0, 4.0, 1.0, 5.0])
    np.testing.assert_array_equal(found, [3, 3, 4, 4, 5])
    found = smallmm.associative_scan(lambda a, b: a + b, np.arange(1, 101))
    np.testing.assert_array_equal(found, np.cumsum(np.arange(1, 101)))
    assert found.dtype == np.float64


def test_bits_depend_on_the_times_alone(rng):
    """Of threads, batch and layout."""
    a = rng.standard_normal((500, 4, 3, 3)).astype(np.float32)
    whole = smallmm.associative_scan(multiplied, a)
    with smallmm.threads(3):
        np.testing.assert_array_equal(smallmm.associative_scan(multiplied, a), whole)
    np.testing.assert_array_equal(smallmm.associative_scan(multiplied, a[:, 2]), whole[:, 2])
    np.testing.assert_array_equal(smallmm.associative_scan(multiplied, np.asfortranarray(a)), whole)


def test_failures(rng):
    a = np.tile(np.eye(2), (200, 5, 1, 1))
    a[150, 3] = 0
    with pytest.raises(
        smallmm.LinAlgError, match="associative_scan: sum_of_inverses fails in 1 of 5 series"
    ) as e:
        smallmm.associative_scan(sum_of_inverses, a)
    np.testing.assert_array_equal(e.value.info != 0, [False, False, False, True, False])
    np.testing.assert_allclose(e.value.result[:, 0], np.eye(2) / np.arange(1, 201)[:, None, None])


def test_bad_input():
    for wrong, message in (
        (lambda: smallmm.associative_scan(1, np.ones(3)), "associative_scan: function is 1"),
        (lambda: smallmm.associative_scan(multiplied, 2.0), "associative_scan: xs is 2.0; expected arrays"),
        (lambda: smallmm.associative_scan(multiplied, ()), r"associative_scan: xs is \(\)"),
        (
            lambda: smallmm.associative_scan(affine, (np.ones((3, 2, 2)), np.ones((4, 2)))),
            "xs have 3, 4 times",
        ),
        (lambda: smallmm.associative_scan(affine, np.ones((3, 2, 2))), "affine: c is missing"),
        (
            lambda: smallmm.associative_scan(multiplied, smallmm.Group([np.ones((3, 2, 2))])),
            "associative_scan: xs has a smallmm.Group",
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            wrong()


@pytest.mark.needs_library
def test_torch(torch, rng):
    a = rng.standard_normal((200, 2, 3, 3))
    for reverse in (False, True):
        found = smallmm.associative_scan(multiplied, torch.from_numpy(a), reverse=reverse)
        assert isinstance(found, torch.Tensor)
        np.testing.assert_array_equal(found.numpy(), smallmm.associative_scan(multiplied, a, reverse=reverse))


@pytest.mark.needs_library
def test_jax(jax, rng):
    a = rng.standard_normal((130, 3, 3)).astype(np.float32)
    found = smallmm.associative_scan(multiplied, jax.numpy.asarray(a))
    np.testing.assert_array_equal(np.asarray(found), smallmm.associative_scan(multiplied, a))

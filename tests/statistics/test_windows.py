"""Sliding windows: NumPy's, in the order of samples, without a copy."""

import numpy as np
import pytest

import smallmm

view_of = np.lib.stride_tricks.sliding_window_view
CASES = [
    ((9, 2), 3, -2, 1),
    ((4, 9, 2), 3, -2, 2),
    ((4, 9), 4, -1, 3),
    ((3, 4, 9, 2), 9, 2, 1),
    ((5, 6), 2, 0, 1),
]


def expected_windows(x, window, axis, step):
    axis %= x.ndim
    return np.moveaxis(view_of(x, window, axis), -1, axis + 1)[
        (slice(None),) * axis + (slice(None, None, step),)
    ]


@pytest.mark.parametrize(("shape", "window", "axis", "step"), CASES)
def test_windows(rng, shape, window, axis, step):
    x = rng.standard_normal(shape)
    found = smallmm.sliding(x, window, axis=axis, step=step)
    np.testing.assert_array_equal(found, expected_windows(x, window, axis, step))
    assert np.shares_memory(found, x)
    place = axis % x.ndim
    assert found.shape[place : place + 2] == ((shape[place] - window) // step + 1, window)


@pytest.mark.parametrize(("shape", "window", "axis", "step"), CASES)
def test_tensors(torch, rng, shape, window, axis, step):
    x = torch.from_numpy(rng.standard_normal(shape))
    found = smallmm.sliding(x, window, axis=axis, step=step)
    np.testing.assert_array_equal(found, expected_windows(x.numpy(), window, axis, step))
    assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize(("shape", "window", "axis", "step"), CASES)
def test_jax(jax, rng, shape, window, axis, step):
    x = rng.standard_normal(shape).astype(np.float32)
    function = jax.jit(lambda x: smallmm.sliding(x, window, axis=axis, step=step))
    np.testing.assert_array_equal(function(x), expected_windows(x, window, axis, step))


def test_dask(rng):
    da = pytest.importorskip("dask.array")
    x = rng.standard_normal((4, 50, 2))
    found = smallmm.sliding(da.from_array(x, chunks=(2, 20, 2)), 5, step=3)
    np.testing.assert_array_equal(found, expected_windows(x, 5, -2, 3))


def test_groups_frames_and_fused_functions(rng):
    members = [rng.standard_normal((m, 2)) for m in (5, 7, 5)]
    found = smallmm.sliding(smallmm.Group(members), 3, step=2)
    for x, y in zip(found, members, strict=True):
        np.testing.assert_array_equal(x, expected_windows(y, 3, -2, 2))
    pd = pytest.importorskip("pandas")
    np.testing.assert_array_equal(
        smallmm.sliding(pd.DataFrame(members[1]), 3), expected_windows(members[1], 3, 0, 1)
    )
    fused = smallmm.fuse("(m,n)")(lambda x: smallmm.sliding(x, 3, step=2).mean(axis=-2))
    np.testing.assert_allclose(fused(members[1]), expected_windows(members[1], 3, -2, 2).mean(-2), rtol=1e-14)


def test_moving_covariances(rng):
    """Windows overlap in memory, and are read as they lie."""
    x = rng.standard_normal((6, 40, 3))
    c = smallmm.cov(smallmm.sliding(x, 10))
    assert c.shape == (6, 31, 3, 3)
    np.testing.assert_allclose(c[4, 17], np.cov(x[4, 17:27].T), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: smallmm.sliding(x, 10),
            ValueError,
            "sliding: window is 10; expected at most 9, the samples",
        ),
        (lambda x: smallmm.sliding(x, 0), ValueError, "sliding: window is 0; expected at least 1"),
        (lambda x: smallmm.sliding(x, 2, step=0), ValueError, "sliding: step is 0; expected at least 1"),
        (lambda x: smallmm.sliding(x, 2.5), TypeError, "sliding: window is 2.5; expected an integer"),
        (
            lambda x: smallmm.sliding(x, 2, axis=2),
            ValueError,
            "sliding: axis is 2; expected one of the 2 of x",
        ),
        (lambda x: smallmm.sliding(x[0], 2), ValueError, "sliding: axis is -2; expected one of the 1 of x"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((9, 2)))

"""What the functions are for, each with its answer known: normals of a point cloud, directions in an image,
whitening, the Riemannian mean of covariances, rotations and stretches. notebooks/05_spectra.ipynb shows
them."""

import numpy as np
import pytest
from accuracy import assert_same_bits, unit_roundoff

import smallmm


def covariance(x):
    centred = x - x.mean(axis=-2, keepdims=True)
    return smallmm.einsum("...ki,...kj->...ij", centred, centred)


def rotations(rng, count, dtype):
    """By the exponentials of skew matrices."""
    x = rng.standard_normal((count, 3, 3)).astype(dtype)
    return smallmm.expm(x - x.mT)


def test_normals_of_planes(dtype, rng):
    """Points of a plane, any way it is turned, have its normal."""
    turn = rotations(rng, 500, dtype)
    flat = rng.standard_normal((500, 20, 3)).astype(dtype) * np.array([1, 1, 0], dtype)
    points = smallmm.matmul(flat, turn.mT) + dtype.type(3)
    values, axes = smallmm.eigh(covariance(points))
    sine = smallmm.vector_norm(smallmm.cross(axes[..., 0], turn[..., 2]), axis=-1)
    assert sine.max() < 1e3 * unit_roundoff(dtype)
    assert (values[:, 0] <= 1e3 * unit_roundoff(dtype) * values[:, 2]).all()


def test_directions_of_stripes():
    """The structure tensor of stripes has one direction, across them, and no other."""
    y, x = np.mgrid[:40, :40]
    for degrees in (0, 20, 90, 135):
        normal = np.array([np.sin(np.radians(degrees)), np.cos(np.radians(degrees))])
        gradient = np.cos(0.9 * (normal[0] * y + normal[1] * x))[..., None] * normal
        windows = np.lib.stride_tricks.sliding_window_view(gradient, (5, 5), (0, 1)).reshape(36, 36, 2, 25)
        tensor = smallmm.einsum("...ik,...jk->...ij", windows, windows)
        values, axes = smallmm.eigh(tensor)
        np.testing.assert_allclose(np.abs(smallmm.einsum("...i,i->...", axes[..., 1], normal)), 1)
        assert (values[..., 0] < 1e-12 * smallmm.trace(tensor)).all()


def test_whitening(dtype, rng):
    x = (rng.standard_normal((300, 200, 6)) @ rng.standard_normal((300, 6, 6))).astype(dtype)
    c = smallmm.matmul(x.mT, x) / dtype.type(200)
    well = smallmm.cond(c, 1) < 1e4
    white = smallmm.matmul(x, smallmm.powm(c, -0.5, assume_a="sym"))[well]
    assert well.sum() > 100
    left_over = smallmm.matmul(white.mT, white) / dtype.type(200) - np.eye(6, dtype=dtype)
    assert np.abs(left_over).max() < 1e6 * unit_roundoff(dtype)


def riemannian_mean(a, steps=40):
    """Of the matrices along the axis before the last two: M^1/2 exp(mean log(M^-1/2 A M^-1/2)) M^1/2."""
    mean = a.mean(axis=-3)
    for _ in range(steps):
        root, inverse = (smallmm.powm(mean, p, assume_a="sym") for p in (0.5, -0.5))
        inverse = inverse[..., None, :, :]
        logs = smallmm.logm(smallmm.multi_dot([inverse, a, inverse]), assume_a="sym").mean(axis=-3)
        mean = smallmm.multi_dot([root, smallmm.expm(logs, assume_a="sym"), root])
    return mean


class TestRiemannianMean:
    @pytest.fixture
    def a(self, rng):
        x = rng.standard_normal((5, 9, 8, 12))
        return x @ x.mT

    def test_determinants(self, a):
        """That of the mean is the geometric mean of theirs."""
        expected = smallmm.slogdet(a).logabsdet.mean(axis=-1)
        np.testing.assert_allclose(smallmm.slogdet(riemannian_mean(a)).logabsdet, expected, atol=1e-11)

    def test_congruence(self, a, rng):
        """The mean of W A W^T is W M W^T, and that of inverses is the inverse."""
        w = rng.standard_normal((8, 8)) + 4 * np.eye(8)
        turned = riemannian_mean(smallmm.multi_dot([w, a, w.T]))
        mean = riemannian_mean(a)
        np.testing.assert_allclose(turned, w @ mean @ w.T, rtol=1e-9, atol=1e-9 * np.abs(turned).max())
        inverse = riemannian_mean(smallmm.inv(a))
        np.testing.assert_allclose(inverse @ mean, np.broadcast_to(np.eye(8), mean.shape), atol=1e-8)

    def test_of_two(self, a):
        """It is A^1/2 (A^-1/2 B A^-1/2)^1/2 A^1/2."""
        first, second = a[:, 0], a[:, 1]
        root, inverse = (smallmm.powm(first, p, assume_a="sym") for p in (0.5, -0.5))
        middle = smallmm.sqrtm(smallmm.multi_dot([inverse, second, inverse]), assume_a="sym")
        expected = smallmm.multi_dot([root, middle, root])
        np.testing.assert_allclose(riemannian_mean(a[:, :2]), expected, rtol=1e-8, atol=1e-9)

    def test_each_by_itself(self, a):
        assert_same_bits(riemannian_mean(a)[3], riemannian_mean(a[3]))


class TestPolar:
    """F = R P, a rotation times a stretch."""

    @pytest.fixture
    def bodies(self, dtype, rng):
        r = rotations(rng, 400, dtype)
        x = rng.uniform(-0.3, 0.3, (400, 3, 3)).astype(dtype)
        p = np.eye(3, dtype=dtype) + (x + x.mT) / 2
        return r, p, smallmm.matmul(r, p)

    def test_by_roots(self, dtype, bodies):
        r, p, f = bodies
        stretch = smallmm.sqrtm(smallmm.matmul(f.mT, f), assume_a="sym")
        assert np.abs(stretch - p).max() < 300 * unit_roundoff(dtype)
        assert np.abs(smallmm.matmul(f, smallmm.inv(stretch)) - r).max() < 1e3 * unit_roundoff(dtype)

    def test_by_singular_values(self, dtype, bodies):
        r, p, f = bodies
        u, s, vh = smallmm.svd(f)
        assert np.abs(smallmm.matmul(u, vh) - r).max() < 100 * unit_roundoff(dtype)
        assert np.abs(smallmm.multi_dot([vh.mT * s[..., None, :], vh]) - p).max() < 100 * unit_roundoff(dtype)

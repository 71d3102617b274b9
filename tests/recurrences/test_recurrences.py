"""Linear recurrences, products of matrices, and equations of motion, against loops of NumPy."""

import itertools

import numpy as np
import pytest

import smallmm
from smallmm._recurrences.scan import Scan


def by_loop(a, b, x, reverse):
    times, found = max(len(a), len(b)), {}
    for t in range(times)[:: -1 if reverse else 1]:
        own, added = a[t % len(a)], b[t % len(b)]
        x = np.matvec(own, x) + added if a.ndim > b.ndim else own * x + added
        found[t] = x
    return np.stack([found[t] for t in range(times)])


@pytest.fixture
def one_pass(monkeypatch):
    """Nothing is called for each time."""
    monkeypatch.setattr(Scan, "_by_calls", None)


@pytest.mark.usefixtures("one_pass")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize(
    ("a", "b", "x0"),
    [
        ((9, 5), (9, 5), (5,)),
        ((9, 1), (9, 5), ()),
        ((1, 1), (9, 5), (5,)),
        ((9, 5), (1, 5), (5,)),
        ((9,), (9,), ()),
        ((9, 5, 3, 3), (9, 5, 3), (5, 3)),
        ((1, 1, 3, 3), (9, 5, 3), (3,)),
        ((9, 5, 3, 3), (1, 5, 3), (3,)),
        ((9, 3, 3), (9, 3), (3,)),
        ((1, 3, 3), (1, 3), (3,)),
    ],
)
def test_linear_recurrence(rng, a, b, x0, dtype, reverse):
    a, b, x0 = (0.5 * rng.standard_normal(shape).astype(dtype) for shape in (a, b, x0))
    found = smallmm.linear_recurrence(a, b, x0, reverse=reverse)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(
        found, by_loop(a, b, x0, reverse), rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-6
    )


def test_first_order_filter_of_scipy(rng):
    signal = pytest.importorskip("scipy.signal")
    x = rng.standard_normal((200, 7))
    np.testing.assert_allclose(
        smallmm.linear_recurrence([[0.9]], 0.1 * x, 0.0),
        signal.lfilter([0.1], [1, -0.9], x, axis=0),
        rtol=1e-12,
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(8, 3, 3), (8, 4, 2, 5, 5), (1, 2, 2), (0, 2, 2)])
def test_cumulative_matmul(rng, shape, reverse):
    a = rng.standard_normal(shape)
    found = smallmm.cumulative_matmul(a, reverse=reverse)
    assert found.shape == shape
    for t in range(len(a)):
        parts = a[t:] if reverse else a[: t + 1]
        expected = parts[0]
        for x in parts[1:]:
            expected = expected @ x
        np.testing.assert_allclose(found[t], expected, rtol=1e-9, atol=1e-9)


@smallmm.fuse("(),(n),(),()->(n)")
def lorenz(t, y, sigma, rho):
    return np.stack([sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


def lorenz_of_one(t, y, sigma, rho):
    return np.array([sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


def rk4_of_one(function, y, t, *args):
    found = [y]
    for before, after in itertools.pairwise(t):
        h = after - before
        k1 = function(before, y, *args)
        k2 = function(before + h / 2, y + h / 2 * k1, *args)
        k3 = function(before + h / 2, y + h / 2 * k2, *args)
        k4 = function(after, y + h * k3, *args)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found.append(y)
    return np.array(found)


@pytest.mark.usefixtures("one_pass")
def test_rk4_of_systems(rng):
    start, rho, t = rng.standard_normal((6, 3)), rng.uniform(20, 30, 6), np.linspace(0, 0.5, 51)
    found = smallmm.rk4(lorenz, start, t, 10.0, rho)
    assert found.shape == (51, 6, 3)
    np.testing.assert_array_equal(found[0], start)
    for i in range(6):
        np.testing.assert_allclose(
            found[:, i], rk4_of_one(lorenz_of_one, start[i], t, 10.0, rho[i]), rtol=1e-9
        )


@pytest.mark.usefixtures("one_pass")
def test_rk4_agrees_with_scipy():
    integrate = pytest.importorskip("scipy.integrate")
    t = np.linspace(0, 1, 1001)
    exact = integrate.solve_ivp(lorenz_of_one, (0, 1), np.ones(3), "DOP853", t, args=(10.0, 28.0), rtol=1e-12)
    np.testing.assert_allclose(
        smallmm.rk4(lorenz, np.ones(3), t, 10.0, 28.0), exact.y.T, rtol=1e-6, atol=1e-5
    )


@pytest.mark.usefixtures("one_pass")
def test_rk4_is_of_order_four_and_depends_on_time():
    errors = [
        abs(smallmm.rk4(lambda t, y: t * y, [1.0], np.linspace(0, 2, n + 1))[-1, 0] - np.exp(2))
        for n in (20, 40)
    ]
    assert 13 < errors[0] / errors[1] < 19


def test_rk4_of_own_times_and_of_dtypes(torch, rng):
    t = np.cumsum(rng.random((11, 5)), axis=0) + 1e6
    decay = smallmm.fuse(lambda t, y, k: -k * y)
    found = smallmm.rk4(decay, np.ones(5, "f4"), t, np.float32(0.1))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.exp(-0.1 * (t - t[0])), rtol=1e-4)
    tensor = smallmm.rk4(decay, torch.ones(5), torch.from_numpy(t), 0.1)
    assert tensor.dtype == torch.float32
    np.testing.assert_array_equal(tensor, found)
    np.testing.assert_array_equal(smallmm.rk4(decay, torch.ones(5), t, 0.1), found)
    rate = torch.tensor(0.1, requires_grad=True)
    smallmm.rk4(decay, torch.ones(5), t, rate)[-1].sum().backward()
    np.testing.assert_allclose(rate.grad, ((t[0] - t[-1]) * np.exp(-0.1 * (t[-1] - t[0]))).sum(), rtol=1e-3)


def test_tensors(torch, rng):
    a, b = rng.standard_normal((9, 5, 3, 3)), rng.standard_normal((9, 5, 3))
    found = smallmm.linear_recurrence(
        torch.from_numpy(a), torch.from_numpy(b), torch.zeros(3, dtype=torch.float64)
    )
    np.testing.assert_array_equal(found, smallmm.linear_recurrence(a, b, np.zeros(3)))
    found = smallmm.cumulative_matmul(torch.from_numpy(a))
    np.testing.assert_array_equal(found, smallmm.cumulative_matmul(a))


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"linear_recurrence: a has shape \(3, 2, 2, 2\) and b \(3, 2\)"):
        smallmm.linear_recurrence(np.zeros((3, 2, 2, 2)), np.zeros((3, 2)), 0.0)
    with pytest.raises(ValueError, match=r"linear_recurrence: a has 3 times and b 4; expected as many, or 1"):
        smallmm.linear_recurrence(np.zeros(3), np.zeros(4), 0.0)
    with pytest.raises(ValueError, match=r"linear_recurrence: a has shape \(2, 4\); expected"):
        smallmm.linear_recurrence(np.zeros((3, 2, 4)), np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(TypeError, match=r"linear_recurrence: reverse is 'yes'"):
        smallmm.linear_recurrence(np.zeros(3), np.zeros(3), 0.0, reverse="yes")
    with pytest.raises(
        ValueError, match=r"cumulative_matmul: a has shape \(3, 2\); expected \(T, ..., n, n\)"
    ):
        smallmm.cumulative_matmul(np.zeros((3, 2)))
    with pytest.raises(TypeError, match=r"rk4: function is 3; expected a function"):
        smallmm.rk4(3, np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match=r"rk4: t is a number; expected times"):
        smallmm.rk4(lorenz, np.zeros(3), 1.0, 10.0, 28.0)
    with pytest.raises(ValueError, match=r"rk4: the signature of <lambda> is \(n\)->\(n\); expected"):
        smallmm.rk4(smallmm.fuse("(n)->(n)")(lambda y: y), np.zeros(3), np.zeros(4))
    with pytest.raises(TypeError, match=r"rk4: argument .* is missing"):
        smallmm.rk4(lorenz, np.zeros(3), np.zeros(4), 10.0)

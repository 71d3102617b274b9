"""More than 2**31 elements: sizes and offsets must not pass through 32 bits."""

import numpy as np
import pytest

import smallmm


def available_memory():
    with open("/proc/meminfo") as info:
        return next(int(line.split()[1]) * 1024 for line in info if line.startswith("MemAvailable"))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 4, 8])
def test_more_than_2_to_31_elements(n):
    batch = (2**31 + 1000) // (n * n) + 1
    needed = 1.1 * batch * n * n * 4
    if available_memory() < needed:
        pytest.skip(f"needs {needed / 1e9:.0f} GB of memory")
    a = np.arange(n * n, dtype=np.float32).reshape(n, n)
    factors = np.arange(1, 8, dtype=np.float32)
    out = np.zeros((batch, n, n), np.float32)
    smallmm.batched_matmul(np.broadcast_to(a, out.shape), a, out)
    expected = a @ a
    step = 1_000_000
    assert all((out[q : q + step] == expected).all() for q in range(0, batch, step))
    # In place over all of it, each end of the stack with a factor of its own.
    out[:7] *= factors[:, None, None]
    out[-7:] *= factors[:, None, None]
    smallmm.batched_matmul(out[-7:], a, out[-7:])
    np.testing.assert_array_equal(out[-7:], factors[:, None, None] * (expected @ a))
    np.testing.assert_array_equal(out[:7], factors[:, None, None] * expected)


@pytest.mark.slow
def test_more_than_2_to_31_columns():
    columns = 2**31 + 64
    if available_memory() < 2.1 * columns * 4:
        pytest.skip(f"needs {8.4 * columns / 1e9:.0f} GB of memory")
    b = np.ones((1, columns), np.float32)
    b[0, -1] = 2
    c = smallmm.batched_matmul(np.full((1, 1), 3, np.float32), b)
    assert c[0, -1] == 6
    step = 1 << 24
    assert all((c[0, j : min(j + step, columns - 1)] == 3).all() for j in range(0, columns, step))


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 8])
def test_inverses_of_more_than_2_to_31_elements(n):
    batch = (2**31 + 1000) // (n * n) + 1
    needed = 1.2 * batch * (n * n + 1) * 4
    if available_memory() < needed:
        pytest.skip(f"needs {needed / 1e9:.0f} GB of memory")
    a = np.triu(np.ones((n, n), np.float32)) * 2
    inverse = smallmm.inv(a)
    out, info = smallmm.inv_ex(np.broadcast_to(a, (batch, n, n)))
    assert not info.any()
    step = 1_000_000
    assert all((out[q : q + step] == inverse).all() for q in range(0, batch, step))
    # In place over both ends of the stack, of which one begins with a singular matrix.
    out[0] = 0
    for part, bad in ((out[:7], 1), (out[-7:], 0)):
        same, info = smallmm.inv_ex(part, out=(part, None))
        assert same is part
        assert info.tolist() == [bad, 0, 0, 0, 0, 0, 0]
        np.testing.assert_array_equal(part[1:], np.broadcast_to(a, (6, n, n)))

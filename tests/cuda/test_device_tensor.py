"""Products by tensor cores: within their bound of the exact result, for every size, depth and layout."""

import numpy as np


def numbers(rng, *shape):
    return rng.standard_normal(shape)


def assert_near(c, a, b, alpha=1, beta=0, before=0):
    """C = alpha A B + beta `before` of arrays of float16 or bfloat16, which NumPy has."""
    digits = {"float16": 11, "bfloat16": 8}[c.dtype.name]
    c, a, b = (np.asarray(x, np.float64) for x in (c, a, b))
    before = np.asarray(before, np.float64)
    exact = alpha * (a @ b) + beta * before
    u, k = 2.0**-24, a.shape[-1]
    bound = 4 * (min(k, 4096) + 32) * u * (abs(alpha) * (np.abs(a) @ np.abs(b)) + abs(beta * before))
    bound += 2.0**-digits * (np.abs(exact) + bound) + 2.0**-25
    assert np.all(np.abs(c - exact) <= bound), np.max(np.abs(c - exact) / bound)

"""What results must satisfy: the one table of error bounds, and equality to the bit."""

import numpy as np

import smallmm._core as core

# op: bound on the error of a result, elementwise, in units of |A||B|, from the inner dimension k
BOUNDS = {"matmul": lambda k: k + 2}

DTYPES = (np.float32, np.float64)


def unit_roundoff(dtype):
    return np.finfo(dtype).eps / 2


def assert_accurate_matmul(c, a, b):
    """|C - AB| <= (k + 2) u |A||B|, with AB in extended precision."""
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    bound = BOUNDS["matmul"](a.shape[-1]) * unit_roundoff(c.dtype) * (np.abs(a) @ np.abs(b))
    assert np.all(np.abs(c - a @ b) <= bound)


def assert_same_bits(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert x.tobytes() == y.tobytes()


def has_fma(isa):
    return isa != "portable"


def assert_matches_reference(isa, gufunc, *operands):
    """The gufunc's result has the reference's bits, or, without FMA, its accuracy. Returns the result."""
    result = gufunc(*operands)
    expected = core.reference(gufunc, *operands)
    if has_fma(isa):
        assert_same_bits(result, expected)
    else:
        assert_accurate_matmul(result, *operands[:2])
    return result

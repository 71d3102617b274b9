"""LU in LAPACK's form on the emulated GPU: `as_lapack.py KERNEL DTYPE N...`. Regular matrices have the
host's bits, singular ones the factors of LAPACK's getrf; pivots count from one, as lu_solve takes them."""

import os
import random
import sys

import numpy as np
import scipy.linalg
from run import LAYOUTS, OnDevice, dtype_named, parameters_of

from smallmm import _core, cuda

FORM = _core.forms["lapack"]
COUNT = 11


def stack(rng, n, dtype):
    """Regular, but for a column or a row of zeros in some, all of them in one."""
    a = rng.standard_normal((COUNT, n, n))
    if dtype.kind == "c":
        a = a + 1j * rng.standard_normal(a.shape)
    a[1, :, 0] = a[2, :, n // 2] = a[3, :, -1] = a[4, n // 2] = 0
    a[5] = 0
    a[6, :, n // 3 :] = 0
    a[7, 0] = 0
    return a.astype(dtype)


def factored(chance, a):
    """LU, pivots and info of the device, in some layout."""
    n = a.shape[-1]
    lu = chance.choice(list(LAYOUTS.values()))(np.full_like(a, -3))
    pivots, info = np.full(a.shape[:-1], -3, np.int32), np.full(len(a), -3, np.int32)
    given = chance.choice(list(LAYOUTS.values()))(a)
    assert _core.device_run(_core.lu_factor, 0, *map(OnDevice, (given, lu, pivots, info)), form=FORM)
    assert pivots.min() >= 1
    assert pivots.max() <= n
    return lu, pivots, info


def check(chance, rng, n, dtype):
    a = stack(rng, n, dtype)
    lu, pivots, info = factored(chance, a)
    with np.errstate(all="ignore"):
        host_lu, host_pivots, host_info = _core.lu_factor(a)
    regular = host_info == 0
    np.testing.assert_array_equal(info, host_info)
    np.testing.assert_array_equal(lu[regular], host_lu[regular])
    np.testing.assert_array_equal(pivots[regular], host_pivots[regular] + 1)
    assert 2 <= regular.sum() < COUNT
    (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), (a,))
    for x, own, own_pivots, failed in zip(a, lu, pivots, info, strict=True):
        expected, expected_pivots, expected_info = getrf(x)
        assert failed == expected_info
        np.testing.assert_array_equal(own_pivots, expected_pivots + 1)
        np.testing.assert_allclose(own, expected, atol=100 * n * np.finfo(dtype).eps)
    b, x = np.ones((2, COUNT, n, 2), dtype)
    assert _core.device_run(_core.lu_solve, 0, *map(OnDevice, (lu, pivots, b, x)), form=FORM)
    np.testing.assert_array_equal(x[regular], _core.lu_solve(host_lu, host_pivots, b)[regular])
    assert np.isnan(x[~regular]).all()
    pivots[::2, 0] = 0  # is no row in this form
    assert _core.device_run(_core.lu_solve, 0, *map(OnDevice, (lu, pivots, b, x)), form=FORM)
    assert np.isnan(x[::2]).all()


def main():
    kernel, name, *orders = sys.argv[1:]
    dtype = dtype_named(name)
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    chance, rng = random.Random(0), np.random.default_rng(0)
    for n in map(int, orders):
        problem = {"op": "LU", "dtype": name, "m": n, "k": 1, "n": n, "form": FORM}
        row = parameters_of(chance, kernel, problem, "any")
        assert row, (kernel, name, n)
        _core.cuda_tune([{**problem, **row, "small": small} for small in (0, 1)])
        check(chance, rng, n, dtype)


if __name__ == "__main__":
    main()

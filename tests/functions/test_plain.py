"""What takes the place of LAPACK's routines above order 128 where SciPy is not installed."""

import numpy as np
import pytest

from smallmm._base import plain

TYPES = ("f4", "f8", "c8", "c16")


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("c") else x).astype(dtype)


def assert_near(x, y, dtype):
    tolerance = 2e-3 if np.finfo(dtype).bits == 32 else 1e-10
    assert x.dtype == y.dtype
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max())


@pytest.fixture
def scipys():
    lapack = pytest.importorskip("scipy.linalg.lapack")
    return lambda name, x: lapack.get_lapack_funcs((name,), (x,))[0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (7, 7), (130, 130), (9, 4), (4, 9), (1, 5), (5, 1)])
def test_lu_is_scipys(scipys, dtype, shape, rng):
    a = numbers(rng, shape, dtype)
    for x, y in zip(plain.getrf(a), scipys("getrf", a)(a), strict=True):
        assert_near(x, y, dtype) if np.ndim(x) == 2 else np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 131])
def test_solves_are_scipys(scipys, dtype, n, rng):
    a = numbers(rng, (n, n), dtype) + n * np.eye(n, dtype=dtype)
    lu, pivots, _ = plain.getrf(a)
    for b in (numbers(rng, n, dtype), numbers(rng, (n, 3), dtype)):
        for trans in (0, 1):
            expected = scipys("getrs", a)(lu, pivots, b, trans=trans)[0]
            assert_near(plain.getrs(lu, pivots, b, trans=trans)[0], expected, dtype)
        for lower in (True, False):
            for unit in (True, False):
                t = (np.tril if lower else np.triu)(a, -1 if lower else 1) / n + np.eye(n, dtype=dtype)
                expected = scipys("trtrs", a)(t, b, lower=lower, unitdiag=unit)[0]
                assert_near(plain.trtrs(t, b, lower=lower, unitdiag=unit)[0], expected, dtype)
    assert_near(plain.getri(lu, pivots)[0], scipys("getri", a)(lu, pivots)[0], dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 2, 6, 129])
def test_cholesky_is_scipys(scipys, dtype, lower, n, rng):
    a = numbers(rng, (n, n), dtype)
    a = a @ a.conj().T + n * np.eye(n, dtype=dtype)
    c, info = plain.potrf(a, lower=lower, clean=True)
    expected, _ = scipys("potrf", a)(a, lower=lower, clean=True)
    assert info == 0
    assert_near(c, expected, dtype)
    b = numbers(rng, (n, 2), dtype)
    assert_near(plain.potrs(c, b, lower=lower)[0], scipys("potrs", a)(c, b, lower=lower)[0], dtype)


def test_what_fails_is_said():
    a = np.eye(6)
    a[3, 3] = -1
    assert plain.potrf(a, lower=True, clean=True)[1] == 4
    a[3, 3] = 0
    assert plain.getrf(a)[2] == 4
    assert plain.trtrs(a, a, lower=True, unitdiag=False)[1] == 4
    assert plain.trtrs(a, a, lower=True, unitdiag=True)[1] == 0


@pytest.mark.parametrize("mode", ["economic", "full", "r", "raw"])
@pytest.mark.parametrize("shape", [(131, 130), (130, 131)])
def test_qr_is_scipys(mode, shape, rng):
    linalg = pytest.importorskip("scipy.linalg")
    a = rng.standard_normal(shape)
    found, expected = plain.qr(a, mode), linalg.qr(a, mode=mode)
    if mode == "raw":
        found, expected = found[0], expected[0]
    for x, y in zip(found, expected, strict=True):
        n = len(x) if mode == "r" else None  # NumPy's has no rows of zeros
        assert_near(x, y[:n], "f8")


def test_functions_without_scipy(run_python):
    code = """
    import sys
    sys.modules["scipy"] = sys.modules["scipy.linalg"] = None
    import numpy as np, smallmm
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 140, 140))
    s = a @ a.mT + np.eye(140)
    x, factors = smallmm.solve(a, b), smallmm.lu_factor(a)
    print(np.abs(a @ x - b).max() < 1e-8, np.abs(smallmm.inv(a) @ a - np.eye(140)).max() < 1e-8)
    print(np.abs(smallmm.lu_solve(factors, b) - x).max() == 0, end=" ")
    l, (q, r) = smallmm.cholesky(s), smallmm.qr(a)
    print(np.abs(l @ l.mT - s).max() < 1e-9, np.abs(q @ r - a).max() < 1e-9)
    a[1, 5] = 0
    print(smallmm.solve_ex(a, b)[1].tolist(), smallmm.cholesky_ex(-s).info.tolist())
    """
    lines = run_python(code).stdout.splitlines()
    assert lines == ["True True", "True True True", "[0, 140, 0] [1, 1, 1]"]

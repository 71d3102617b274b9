"""The linear algebra that takes the place of kernels on a device, here of arrays on the host, against the
gufuncs."""

import numpy as np
import pytest
from cases import OF_DOUBLES

from smallmm import _core
from smallmm._gpu import by_library

pytestmark = pytest.mark.needs_library
LIBRARIES = ("torch", "jax")
OF_ANY_BASIS = ("svd_full_tall", "svd_full_wide")  # of what singular vectors leave out


@pytest.fixture(params=LIBRARIES)
def device(request):
    """What the library does on a device, and arrays of it."""
    module = request.getfixturevalue(request.param)
    if request.param == "torch":
        from smallmm._libraries.torch import TorchDevice

        return TorchDevice("torch", module.zeros(1), 0), module.from_numpy
    from smallmm._libraries.jax import JaxDevice

    return JaxDevice("jax", module.numpy.zeros(1), 0), module.numpy.asarray


def operands(rng, name, dtype):
    m, n = (50, 40) if name.endswith("_tall") or name in ("lstsq", "qr_complete") else (40, 40)
    a = rng.standard_normal((3, *((40, 50) if name.endswith("_wide") else (m, n))))
    b = rng.standard_normal((3, m, 2))
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * rng.standard_normal(a.shape), b + 1j * rng.standard_normal(b.shape)
    if a.shape[1] == a.shape[2]:
        a = a + 13 * np.eye(40)
    if "cho" in name or "pos" in name:
        a = a @ a.conj().mT
    if name.startswith("cho_solve"):
        a = np.linalg.cholesky(a)
        a = a.conj().mT if name.endswith("upper") else a
    if "lower" in name or name.endswith("solve_upper") or name == "solve_unit_upper":
        a = a / 40 + np.eye(40)
        if "unit" in name:  # whose diagonal is not read
            a[:, range(40), range(40)] = np.nan
    if name == "expm":
        a = a / 40
    if name == "det":  # within the range of float32
        a = a / 13
    a, b = a.astype(dtype), b.astype(dtype)
    if name.startswith("lu_solve"):
        return [*_core.lu_factor(a)[:2], b]
    if name == "lstsq":
        return [a, b, a.real.dtype.type(1e-5)]
    return [a, b] if "solve" in name else [a]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", sorted(by_library.FUNCTIONS.keys() - OF_DOUBLES))
def test_as_the_gufunc(device, rng, name, dtype):
    check(device, rng, name, dtype)


@pytest.mark.parametrize("name", OF_DOUBLES)
def test_doubles_as_the_gufunc(device, jax, rng, name):
    with jax.enable_x64(True):
        check(device, rng, name, np.float64)


def check(device, rng, name, dtype):
    library, from_numpy = device
    given = operands(rng, name, dtype)
    expected = getattr(_core, name)(*given)
    arrays = [from_numpy(np.ascontiguousarray(x)) if x.ndim else x for x in given]
    found = by_library.call(library, name, dict(enumerate(arrays)))
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(found) == len(expected)
    for x, y in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert x.shape == y.shape
        if name in OF_ANY_BASIS and x.shape[1:] == (50, 50):
            np.testing.assert_allclose(x @ x.conj().mT, np.broadcast_to(np.eye(50), x.shape), atol=1e-5)
        elif name in ("eig", "eigvals"):  # in another order
            np.testing.assert_allclose(np.sort(abs(x), None), np.sort(abs(y), None), atol=1e-3)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=3e-4 * max(1, abs(y).max()))


def test_matrices_that_fail(device):
    library, from_numpy = device
    a = from_numpy(np.stack([np.eye(40), np.zeros((40, 40)), -np.eye(40)]).astype(np.float32))
    for name, bad in (
        ("solve", [0, 1, 0]),
        ("inv", [0, 1, 0]),
        ("lu_factor", [0, 1, 0]),
        ("cholesky", [0, 1, 1]),
        ("solve_pos", [0, 1, 1]),
        ("solve_lower", [0, 1, 0]),
    ):
        x, *_, info = by_library.call(library, name, {"a": a, "b": a} if "solve" in name else {"a": a})
        assert np.asarray(info).tolist() == bad, name
        assert np.isnan(np.asarray(x)).any((-2, -1)).tolist() == [x == 1 for x in bad], name

"""Functions of smallmm on arrays of `smallmm.cuda`, whether one kernel computes them or several: results are
those of the host, to the bit but where NumPy's exponentials, logarithms and quotients are computed there."""

import numpy as np
import pytest
from cases import ACCURATELY, COMPOSITIONS, FUNCTIONS
from differential import OF_LIBRARIES

import smallmm
from smallmm import cuda

pytestmark = pytest.mark.usefixtures("torch_cuda")

ROWS = {**FUNCTIONS, **ACCURATELY, **COMPOSITIONS}


def moved(x):
    if isinstance(x, tuple | list):
        parts = map(moved, x)
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return cuda.to_device(x) if isinstance(x, np.ndarray) and x.ndim else x


def leaves(x):
    return [z for y in x for z in leaves(y)] if isinstance(x, tuple | list) else [x]


@pytest.mark.parametrize(
    ("n", "dtype"), [(3, np.float64), (40, np.float64), (100, np.float64), (20, np.complex128)]
)
@pytest.mark.parametrize("name", ROWS)
def test_function(rng, name, n, dtype):
    row = ROWS[name]
    a = rng.standard_normal((3, n, n)).astype(dtype)
    b = rng.standard_normal((3, n, 2)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * a[::-1], b + 1j * b[::-1]
    arguments = row.arguments(a @ a.mT.conj() / n + 2 * np.eye(n), b)
    function = getattr(smallmm, row.op)
    try:
        expected = leaves(function(*arguments, *row.options, **row.keywords))
    except (TypeError, ValueError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            function(*moved(arguments), *row.options, **row.keywords)
        return
    found = leaves(function(*moved(arguments), *row.options, **row.keywords))
    tolerance = OF_LIBRARIES.get(name, 0)
    for ours, theirs in zip(found, expected, strict=True):
        if theirs is None or isinstance(theirs, bool):
            assert ours is theirs
            continue
        ours, theirs = cuda.to_host(ours), np.asarray(theirs)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if not tolerance:
            np.testing.assert_array_equal(ours, theirs)
        else:
            size = np.finfo(theirs.dtype).eps * abs(theirs).max() if theirs.dtype.kind in "fc" else 0
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize("imaginary", [0, 1j], ids=["real", "complex"])
def test_general_functions(rng, imaginary):
    """Of matrices whose eigenvalues are any."""
    a = rng.standard_normal((4, 6, 6)) + imaginary * rng.standard_normal((4, 6, 6))
    x = cuda.to_device(a)
    for function in (smallmm.logm, lambda y, assume_a: smallmm.powm(y, 0.3, assume_a=assume_a)):
        found, expected = cuda.to_host(function(x, assume_a="general")), function(a, assume_a="general")
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * abs(expected).max())

"""Norms, matrix functions and contractions on a GPU: the CPU's values, and its bits where the functions are
products and comparisons alone; `out`, tolerances, and what is refused."""

import functools

import numpy as np
import pytest
from accuracy import as_tuple, unit_roundoff
from cases import COMPOSITIONS
from test_compositions import stack

import smallmm

pytestmark = pytest.mark.usefixtures("torch_cuda")

SAME_BITS = [
    "matrix_norm, 1",
    "matrix_norm, -inf",
    "vector_norm, inf",
    "vector_norm, 3",
    "powm",
    "trace",
    "matrix_power, 5",
    "matrix_power, -3",
    "cross",
    "outer",
    "multi_dot",
    "einsum",
]


@pytest.mark.parametrize("name", COMPOSITIONS)
@pytest.mark.parametrize("n", [3, 8])
def test_values(name, n, library, dtype, rng):
    put, get = library
    a = stack(rng, n, dtype, 1000)
    given = put(a)
    results = as_tuple(COMPOSITIONS[name](given))
    for x, expected in zip(results, as_tuple(COMPOSITIONS[name](a)), strict=True):
        assert type(x) is type(given)
        assert x.device == given.device
        x = get(x)
        assert (x.shape, x.dtype) == (expected.shape, expected.dtype)
        if name in SAME_BITS:
            assert x.tobytes() == expected.tobytes()
        else:
            size = np.abs(expected).max(axis=tuple(range(1, x.ndim)), keepdims=True)
            assert np.all(np.abs(x - expected) <= 100 * unit_roundoff(dtype) * size)


def test_of_several_shapes(torch_cuda, rng):
    a = torch_cuda.asarray(rng.standard_normal((2, 3, 4, 4)), device="cuda")
    assert smallmm.norm(a).shape == ()
    assert smallmm.norm(a, axis=0).shape == (3, 4, 4)
    assert smallmm.matrix_norm(a, keepdims=True).shape == (2, 3, 1, 1)
    assert smallmm.diagonal(a, offset=1).shape == (2, 3, 3)
    assert smallmm.expm(a[:0]).shape == (0, 3, 4, 4)
    assert smallmm.expm(a.to(torch_cuda.int32)).dtype == torch_cuda.float64
    assert smallmm.matrix_rank(a @ a.mT, 1e-9, hermitian=True).tolist() == [[4] * 3] * 2


def test_out(torch_cuda, rng):
    a = torch_cuda.asarray(rng.standard_normal((5, 4, 4)), device="cuda")
    expected = smallmm.expm(a)
    out = torch_cuda.empty_like(a)
    assert smallmm.expm(a, out=out) is out
    assert torch_cuda.equal(out, expected)
    assert smallmm.expm(a, out=a) is a
    assert torch_cuda.equal(a, expected)
    with pytest.raises(ValueError, match=r"expm: out has shape \(5, 4\); expected \(5, 4, 4\)"):
        smallmm.expm(a, out=out[..., 0])


def test_bad_matrices(torch_cuda):
    a = torch_cuda.eye(3, dtype=torch_cuda.float64, device="cuda").repeat(5, 1, 1)
    a[2] *= -1
    x, info = smallmm.sqrtm_ex(a, assume_a="sym")
    assert info.is_cuda
    assert info.tolist() == [0, 0, 3, 0, 0]
    assert x[2].isnan().all()
    with pytest.raises(smallmm.LinAlgError, match=r"sqrtm: 1 of 5 matrices .* at index \(2,\)"):
        smallmm.sqrtm(a, assume_a="sym")


def test_numba(required, rng):
    """By operations of smallmm's own arrays, which see the same memory."""
    cuda = required("numba.cuda")
    a = rng.standard_normal((5, 20, 20))
    a = a @ a.mT + np.eye(20)
    for function in (smallmm.lu, smallmm.rcond, functools.partial(smallmm.logm, assume_a="sym")):
        x = cuda.to_device(a)
        found, expected = function(x), function(a)
        found, expected = (y if isinstance(y, tuple) else (y,) for y in (found, expected))
        for ours, theirs in zip(found, expected, strict=True):
            assert type(ours) is type(x)
            np.testing.assert_allclose(ours.copy_to_host(), theirs, rtol=0, atol=1e-13 * abs(theirs).max())

"""Arrays of smallmm.cuda on the emulated GPU, whose elements fused functions convert and conjugate: results
are those of the host."""

import os

import numpy as np
from ml_dtypes import bfloat16

import smallmm
from smallmm import _core, cuda


def same(function, *arrays, **options):
    found = function(*(cuda.to_device(x) if isinstance(x, np.ndarray) else x for x in arrays), **options)
    expected = function(*arrays, **options)
    for x, y in zip(*(z if isinstance(z, tuple) else (z,) for z in (found, expected)), strict=True):
        x = cuda.to_host(x)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), (x.dtype, y.dtype)
        np.testing.assert_array_equal(x, y)


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    rng = np.random.default_rng(0)
    a, b = 10 * rng.standard_normal((3, 4, 4)), rng.standard_normal((3, 4, 2))
    for one, other in (("f4", "f8"), ("f2", "f4"), ("i8", "f4"), ("u1", "f8"), ("f4", "c16"), ("?", "f4")):
        same(smallmm.matmul, a.astype(one), b.astype(other))
        same(smallmm.matmul, b.mT.astype(other)[::-1], a.astype(one))
    same(smallmm.matmul, a.astype(bfloat16), b.astype(np.float32))
    same(smallmm.solve, a, b.astype(np.float32))
    same(smallmm.lstsq, a.astype(np.float16), b.astype(np.float16))

    z = a + 1j * a[::-1]
    same(smallmm.vecmat, z[:, 0], z)
    same(smallmm.solve_triangular, z, b, lower=True, trans="C")
    x = cuda.to_device(z)
    np.testing.assert_array_equal(cuda.to_host(x.mT.conj()), z.mT.conj())
    held = cuda.to_device(a)
    assert held.conj() is held

    lu, pivots = smallmm.lu_factor(a)
    same(lambda lu, pivots, b: smallmm.lu_solve((lu, pivots), b), lu, pivots.astype(np.int64), b)
    far = pivots.astype(np.int64)
    far[1, 2] += 1 << 32  # no row, also modulo 2^32
    words = []
    for moved in ((lu, far, b), map(cuda.to_device, (lu, far, b))):
        lu_, pivots_, b_ = moved
        try:
            words.append(cuda.to_host(smallmm.lu_solve((lu_, pivots_), b_)))
        except ValueError as error:
            words.append(str(error))
    assert isinstance(words[0], str), words
    assert isinstance(words[1], str) or np.isnan(words[1][1]).all(), words

    empty = np.zeros((3, 4, 0))
    for right in (b, b[..., :1], b[0, :, 0], b + 1j * b):
        x, norms, rank, _ = map(cuda.to_host, smallmm.lstsq_ex(cuda.to_device(empty), cuda.to_device(right)))
        assert x.size == 0
        assert not rank.any()
        np.testing.assert_allclose(norms, smallmm.lstsq(empty, right).residual_norms, rtol=1e-15)


if __name__ == "__main__":
    main()

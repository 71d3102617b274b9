"""Functions of complex systems, whose arrays are on the emulated GPU: results are those of the host."""

import os

import numpy as np

import smallmm
from smallmm import _core, cuda


def same(function, *arrays):
    found, expected = function(*map(cuda.to_device, arrays)), function(*arrays)
    for x, y in zip(*(z if isinstance(z, tuple) else (z,) for z in (found, expected)), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(cuda.to_host(x), y)


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    rng = np.random.default_rng(0)
    for dtype in (np.complex64, np.complex128):
        a, b = ((rng.standard_normal((9, 5, n)) * np.exp(1j * n)).astype(dtype) for n in (5, 2))
        a += 1j * rng.standard_normal((9, 5, 5))
        definite, x = a @ a.conj().mT + np.eye(5, dtype=dtype), smallmm.solve(a, b)
        norm, factors = np.abs(a).sum(-2).max(-1), smallmm.lu_factor(a)
        for lower in (True, False):
            triangle = np.tril(definite) if lower else np.triu(definite)
            same(lambda a, b, lower=lower: smallmm.solve(a, b, assume_a="pos", lower=lower), triangle, b)
        for precision in ("fixed", "extra"):
            same(lambda *x, how=precision: smallmm.refine(*x, precision=how), a, *factors, b, x)
        for number in (1, np.inf):
            same(lambda *x, number=number: smallmm.lu_rcond(*x, number), *factors, norm)
        same(smallmm.backward_error, a, x, b)
        found = cuda.offload(smallmm.solve, definite, b, assume_a="pos", block=1000)
        np.testing.assert_array_equal(found, smallmm.solve(definite, b, assume_a="pos"))
        plan = smallmm.explain("refine", *map(cuda.to_device, (a, *factors, b, x)))
        assert "smm_refinement_lanes_c" in plan.kernel, plan.kernel


if __name__ == "__main__":
    main()

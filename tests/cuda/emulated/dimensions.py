"""Calls of several batch dimensions on the emulated GPU give the CPU's bits, whether they merge or not."""

import os
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from run import OnDevice  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402


def check(gufunc, *arrays):
    """`arrays`: inputs, and the outputs, which may be inputs; numbers are none for the device."""
    inputs = [np.array(x) for x in arrays[: gufunc.nin]]
    expected = gufunc(*inputs, *([arrays[-1].copy()] if gufunc is _core.gemm else []))
    on_device = [OnDevice(x) if isinstance(x, np.ndarray) else x for x in arrays]
    assert _core.device_run(gufunc, 0, *on_device), "an output overlaps an input"
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, wanted in zip(arrays[gufunc.nin :], expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    rng = np.random.default_rng(0)
    large = rng.standard_normal((2, 70, 70))  # for which complex kernels are too small
    x, y = cuda.to_device(large), cuda.to_device(large * 1j)
    np.testing.assert_array_equal(cuda.to_host(smallmm.matmul(x, y)), smallmm.matmul(large, large * 1j))
    dense = rng.standard_normal((4, 2, 3, 5, 5))
    mixed = rng.standard_normal((2, 3, 4, 5, 5)).transpose(2, 0, 1, 3, 4)
    for a in (dense, mixed):
        info = np.ones((4, 2, 3), np.int32)
        check(_core.solve, a, rng.standard_normal((3, 5, 2)), np.zeros((4, 2, 3, 5, 2)), info)
        check(_core.solve, a, rng.standard_normal(5), np.zeros((4, 2, 3, 5)), info)
        check(_core.gemm, a, dense, 1.5, -0.5, np.full((4, 2, 3, 5, 5), 2.0))
        check(_core.gemm, a, dense, rng.standard_normal((2, 3)), -0.5, np.full((4, 2, 3, 5, 5), 2.0))
        check(_core.gemm, 1j * a, 1j * dense, 1.5 - 2j, 0.5j, np.full((4, 2, 3, 5, 5), 2j))
        check(
            _core.solve, a + 1j, rng.standard_normal((3, 5, 2)) + 0j, np.zeros((4, 2, 3, 5, 2), complex), info
        )
        by_columns = np.zeros((4, 2, 3, 5, 5), complex).mT  # whose transpose is no product of the same bits
        check(_core.batched_matmul, a + 1j, 1j * dense + 1, by_columns)
        for out in (np.zeros((4, 2, 3, 5, 5), complex), by_columns):  # a real matrix beside a complex one
            check(_core.batched_matmul, a, 1j * dense + 1, out)
            check(_core.batched_matmul, a + 1j, dense, out)
            check(_core.solve, a, 1j * dense + 1, out, info)
        check(_core.gemm, a, 1j * dense, rng.standard_normal((2, 3)), -0.5, np.full((4, 2, 3, 5, 5), 2j))
        check(_core.gemm, a + 2j, dense, 1.5, 2, np.full((4, 2, 3, 5, 5), 2j))
        check(_core.matvec, a, rng.standard_normal(5) + 1j, np.zeros((4, 2, 3, 5), complex))
        right = rng.standard_normal((3, 5, 2)) + 1j
        check(_core.solve, a, right, np.zeros((4, 2, 3, 5, 2), complex), info)
        check(_core.cho_solve, a, right[0, :, 0], np.zeros((4, 2, 3, 5), complex))
        in_place = np.array(a)
        check(_core.inv, in_place, in_place, info)
        two = [OnDevice(x) for x in (in_place[:2], in_place[1:3], info[:2])]
        assert not _core.device_run(_core.inv, 0, *two), "an overlap"


if __name__ == "__main__":
    main()

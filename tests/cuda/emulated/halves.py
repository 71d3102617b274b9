"""float16 and bfloat16 on the emulated GPU: all values of each, as operands and as results."""

import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from run import OnDevice  # noqa: E402

from smallmm import _core, cuda  # noqa: E402
from smallmm._base.shapes import register_bfloat16  # noqa: E402


def check(gufunc, *operands, results):
    with np.errstate(all="ignore"):
        expected = gufunc(*operands, *([results.copy()] if gufunc is _core.gemm else []))
    on_device = [OnDevice(x) if isinstance(x, np.ndarray) and x.ndim else x for x in operands]
    assert _core.device_run(gufunc, 0, *on_device, OnDevice(results))
    wide = [x.astype(np.float32) for x in (results, expected)]
    np.testing.assert_array_equal(*wide)
    numbers = ~np.isnan(wide[0])
    np.testing.assert_array_equal(*(x.view(np.uint16)[numbers] for x in (results, expected)))


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        register_bfloat16(dtype)
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        # A row of a matrix by a column: x y + 0, where y makes ties and numbers that are too large or small.
        rows = np.stack([every, np.zeros_like(every)], -1).reshape(-1, 64, 2)
        factors = np.array([1, 1 + 2.0**-7, 1 / 3, 2.0**-15, -(2.0**9)])
        columns = np.stack([factors, np.zeros_like(factors)]).astype(dtype)
        check(_core.batched_matmul, rows, columns, results=np.ones((len(rows), 64, 5), dtype))
        # alpha is half-way between two numbers of float16 but for its last bit, which float32 does not have
        alpha, ones = 1 + 2.0**-11 + 2.0**-40, np.ones((3, 2, 2), dtype)
        check(_core.gemm, ones, ones, alpha, 0.1, results=ones * dtype.type(3))
        plan = _core.explain(
            _core.device_run, _core.batched_matmul, 0, *map(OnDevice, (ones, ones, ones.copy()))
        )
        assert plan["computed"] == "f32", plan
        assert plan["bytes"] == 2 * 3 * 4 * 2, plan  # ones count once


if __name__ == "__main__":
    main()

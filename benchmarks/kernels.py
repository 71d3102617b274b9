"""The core's matmul timed in C, without Python: csrc compiled into a temporary library, called in a loop."""

from __future__ import annotations

import ctypes
import re
from functools import cache

import harness
import numpy as np

DTYPE_CODES = {"f32": 0, "f64": 1}  # smm_dtype


def version() -> str:
    """SMM_VERSION."""
    header = (harness.ROOT / "csrc" / "smallmm.h").read_text(encoding="utf-8")
    return re.search(r'SMM_VERSION "(.*)"', header).group(1)


@cache
def core() -> ctypes.CDLL:
    """The core as a shared library whose functions are visible; one thread."""
    csrc = harness.ROOT / "csrc"
    sources = [*sorted(csrc.glob("*.c")), *sorted((csrc / "kernels").glob("*.c")), harness.HERE / "kernels.c"]
    flags = [f"-I{csrc}", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=default"]
    library = harness.compile_c("core", sources, flags)
    library.smm_select_isa.argtypes = [ctypes.c_char_p]
    library.smm_isa.restype = ctypes.c_char_p
    library.run_square.argtypes = [
        ctypes.c_int,
        *[ctypes.c_ssize_t] * 2,
        *[ctypes.c_void_p] * 3,
        ctypes.c_ssize_t,
    ]
    library.smm_set_num_threads(1)
    return library


def bind(dtype: str, a: np.ndarray, b: np.ndarray, out: np.ndarray, times: int) -> harness.Call:
    """A call that multiplies the stacks `times` times."""
    library, (batch, n, _) = core(), out.shape
    arguments = (DTYPE_CODES[dtype], n, batch, a.ctypes.data, b.ctypes.data, out.ctypes.data, times)

    def call(keep: tuple[np.ndarray, ...] = (a, b, out)) -> None:
        if library.run_square(*arguments):
            raise RuntimeError("smm_run failed")

    return call

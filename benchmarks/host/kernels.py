"""The core timed in C, without Python: csrc compiled into a temporary library, its calls run in a loop."""

from __future__ import annotations

import ctypes
import re
from functools import cache

import numpy as np

from smallmm import _core
from smallmm._tools.bench import Call as Function

from .. import records
from .machine import HERE, compile_c

CSRC = records.ROOT / "csrc"


class Operand(ctypes.Structure):
    """smm_operand."""

    _fields_ = [("data", ctypes.c_void_p), *((f, ctypes.c_ssize_t) for f in ("batch", "row", "col"))]


class Call(ctypes.Structure):
    """smm_call."""

    _fields_ = [
        *(("op", ctypes.c_int), ("dtype", ctypes.c_int), ("form", ctypes.c_uint)),
        *((f, ctypes.c_ssize_t) for f in ("batch", "m", "n", "k")),
        ("operand", Operand * _core.limits["operands"]),
        ("outer", ctypes.c_void_p),
        ("failed", ctypes.POINTER(ctypes.c_bool)),
    ]


def version() -> str:
    """SMM_VERSION."""
    return re.search(r'SMM_VERSION "(.*)"', (CSRC / "smallmm.h").read_text(encoding="utf-8")).group(1)


@cache
def core() -> ctypes.CDLL:
    """The core as a shared library whose functions are visible; one thread."""
    folders = (CSRC, CSRC / "kernels", CSRC / "reference")
    sources = [source for folder in folders for source in sorted(folder.glob("*.c"))]
    flags = [f"-I{CSRC}", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=default"]
    library = compile_c("core", [*sources, HERE / "kernels.c"], flags)
    library.smm_select_isa.argtypes = [ctypes.c_char_p]
    library.smm_isa.restype = ctypes.c_char_p
    library.run_repeatedly.argtypes = [ctypes.POINTER(Call), ctypes.c_ssize_t]
    library.smm_set_num_threads(1)
    return library


def select_isa(isa: str) -> str:
    """Make the core use this instruction set ("": its own choice); the name of the one in use."""
    if core().smm_select_isa(isa.encode() or None):
        raise SystemExit(f"the core offers no {isa}")
    return core().smm_isa().decode()


def bind(op: str, dtype: str, shape: tuple[int, int, int], *, times: int, **operands: np.ndarray) -> Function:
    """A call that runs the operation on stacks `times` times; shape is (m, k, n) as the core counts them.

    Operands are stacks of matrices, of vectors (columns) or of scalars, by their names in ops.def.
    """
    m, k, n = shape
    library, batch = core(), len(next(iter(operands.values())))
    codes = {"op": [*_core.operations].index(op), "dtype": [*_core.dtypes].index(dtype)}
    call = Call(**codes, batch=batch, m=m, n=n, k=k)
    names = [name for name, *_ in _core.operations[op]]
    for name, x in operands.items():
        call.operand[names.index(name)] = Operand(x.ctypes.data, *x.strides)

    def run(keep: dict[str, np.ndarray] = operands) -> None:
        if library.run_repeatedly(call, times):
            raise RuntimeError("smm_run failed")

    return run


def info_of(batch: int) -> np.ndarray:
    """Room for what the core says of each matrix."""
    return np.zeros(batch, np.int32)

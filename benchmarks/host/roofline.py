"""What the machine can do at most, as contenders: FMA peak, 2 reads + 1 write near and far.

They run in the same rounds, on the same buffers and threads as the contenders they bound.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np

from smallmm._tools.bench import Call
from smallmm._tools.operations import DTYPES

from .. import records
from .arena import Arena, aligned
from .machine import HERE, compile_c, cpu_flags

VECTOR_BYTES = {"avx512": 64, "avx2": 32}
FLAGS = {"avx512": ["-mavx512f", "-mavx512vl", "-mavx2", "-mfma"], "avx2": ["-mavx2", "-mfma"]}
CHAINS, UNROLL, PART = 12, 4, 256 << 10  # as in roofline.c


def best_isa() -> str:
    """The widest instruction set of this machine, in smallmm's words; "generic": the compiler's default."""
    flags = cpu_flags()
    if {"avx512f", "avx512vl"} <= flags:
        return "avx512"
    return "avx2" if {"avx2", "fma"} <= flags else "generic"


@dataclass(frozen=True)
class Bound:
    """A call, and the work it does."""

    call: Call
    flops: float
    bytes: float


@cache
def _library(dtype: str, isa: str) -> ctypes.CDLL:
    real, vector = {"f32": "float", "f64": "double"}[dtype], VECTOR_BYTES.get(isa, 16)
    csrc = records.ROOT / "csrc"
    flags = [
        f"-DREAL={real}",
        f"-DVECTOR={vector}",
        f"-I{csrc / 'core'}",
        "-ffp-contract=fast",
        *FLAGS.get(isa, []),
    ]
    sources = [HERE / "roofline.c", csrc / "threads" / "threads.c"]
    library = compile_c(f"roofline-{dtype}-{isa}", sources, flags)
    library.fma_flops.restype = ctypes.c_ssize_t
    library.fma_chains.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
    library.add.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_ssize_t] * 2
    library.add_streamed.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_ssize_t, ctypes.c_int]
    return library


def fma(dtype: str, isa: str) -> Bound:
    """Independent chains of FMA in registers, one thread."""
    library, loops = _library(dtype, isa), 200_000
    lanes = VECTOR_BYTES.get(isa, 16) // DTYPES[dtype].itemsize
    values = aligned(np.full(CHAINS * lanes + 64, 0.5, DTYPES[dtype]))

    def call() -> None:
        library.fma_chains(values.ctypes.data, loops)

    return Bound(call, loops * library.fma_flops(), 0)


def in_cache(dtype: str, isa: str, footprint: int, times: int = 64) -> Bound:
    """C = A + B, `times` times, with plain stores, on three arrays of `footprint` bytes together."""
    library, item = _library(dtype, isa), DTYPES[dtype].itemsize
    vector = VECTOR_BYTES.get(isa, 16)
    vectors = footprint // 3 // vector // UNROLL * UNROLL
    # One block for all three, as far apart as their size: no chance aliasing from where malloc put them.
    block = aligned(np.ones(3 * vectors * vector // item + 64, DTYPES[dtype]))
    a, b, c = (block.ctypes.data + i * vectors * vector for i in range(3))

    def call(keep: np.ndarray = block) -> None:
        library.add(a, b, c, vectors, times)

    return Bound(call, times * vectors * vector // item, 3 * times * vectors * vector)


def streamed(dtype: str, isa: str, arena: Arena, footprint: int, threads: int) -> Bound:
    """C = A + B with non-temporal stores, once, on the arena's buffers, in parts that threads share out."""
    library = _library(dtype, isa)
    a, b, c = arena.a, arena.b, arena.c
    parts = min(footprint // 3, a.nbytes, b.nbytes, c.nbytes) // PART

    def call() -> None:
        library.add_streamed(a.ctypes.data, b.ctypes.data, c.ctypes.data, parts, threads)

    return Bound(call, parts * PART // c.itemsize, 3 * parts * PART)

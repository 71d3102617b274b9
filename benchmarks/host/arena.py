"""Buffers that are filled once, of which the cases of a topic take views: no page is new while timing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from smallmm._tools.operations import DTYPES, OPERATIONS, Operation, Stack, bytes_of, stack

IN_CACHE = 1 << 20  # bytes of A, B and C together
OUT_OF_CACHE = 1 << 30


def aligned(x: np.ndarray) -> np.ndarray:
    """The part of a flat array that starts at a cache line."""
    return x[-x.ctypes.data % 64 // x.itemsize :]


def count_for(footprint: int, each: int) -> int:
    """How many matrices of `each` bytes have at least `footprint` bytes together (in a cache: at most)."""
    return max(1, footprint // each if footprint < OUT_OF_CACHE // 8 else -(-footprint // each))


def batch_for(footprint: int, dtype: str, m: int, k: int, n: int) -> int:
    """The batch whose A, B and C together have this footprint."""
    return count_for(footprint, (m * k + k * n + m * n) * DTYPES[dtype].itemsize)


class Arena:
    """Three flat buffers for products.

    They begin at a cache line, or `offset` elements after one: where malloc puts an array is chance.
    """

    PERIOD = 1048573  # values; prime, so that no two matrices at a round distance are equal

    def __init__(self, dtype: str, elements: tuple[int, int, int]):
        rng = np.random.default_rng(20)
        block = rng.uniform(-1, 1, self.PERIOD).astype(DTYPES[dtype])
        spare = 128 // block.itemsize  # for alignment and offset
        self.a, self.b, self.c = (
            aligned(np.resize(np.roll(block, 17 * i), count + spare)) for i, count in enumerate(elements)
        )

    def stack(self, batch: int, m: int, k: int, n: int, offset: int = 0) -> Stack:
        """out = a @ b."""
        return Stack(
            self.a[offset : offset + batch * m * k].reshape(batch, m, k),
            self.b[offset : offset + batch * k * n].reshape(batch, k, n),
            (self.c[offset : offset + batch * m * n].reshape(batch, m, n),),
        )


def arena_for(dtype: str, footprint: int, shapes: Iterable[tuple[int, int, int]]) -> Arena:
    """An arena that holds the batch of each shape (m, k, n) at this footprint."""
    sizes = [(batch_for(footprint, dtype, m, k, n), m, k, n) for m, k, n in shapes]
    return Arena(
        dtype,
        (
            max(q * m * k for q, m, k, n in sizes),
            max(q * k * n for q, m, k, n in sizes),
            max(q * m * n for q, m, k, n in sizes),
        ),
    )


def stack_of(op: Operation, dtype: str, n: int, footprint: int) -> Stack:
    """Operands of at least `footprint` bytes together (in a cache: at most)."""
    return stack(op, dtype, n, count_for(footprint, bytes_of(op, dtype, n)))


MATMUL = OPERATIONS["matmul"]

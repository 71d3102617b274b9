"""Which kernels can compute a problem on a GPU, with which parameters: what `tune` and benchmarks/tune try.

A problem is a dictionary: ``op`` as in csrc/defs/ops.def, ``dtype``, ``m``, ``k``, ``n``, and what differs
from contiguous operands (``order_a``, ``source_a`` and so on, ``small``). A candidate is a dictionary, too:
the ``kernel`` and its parameters. `fits` of each kernel (csrc/cuda/*/plan.c) says whether it can; nothing
here is compiled or run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from .. import _core

KERNELS: dict[str, dict[str, tuple[int, ...]]] = _core.cuda_catalog()["kernels"]  # parameters, values to try
# Bytes of an element in registers and in shared memory.
COMPUTED_SIZES = {"f32": 4, "f64": 8, "f16": 4, "bf16": 4, "c64": 8, "c128": 16}
MAX_THREADS = 768  # asked of a multiprocessor by `blocks`: 80 registers for each; with fewer, kernels spill
PRODUCTS = ("matmul_staged", "matmul_direct", "matmul_whole", "matmul_one")
OF_ANY_SIZE = ("matmul_tiled", "matmul_tensor")
Row = dict[str, Any]


def tiles(problem: Row, effort: int) -> list[tuple[int, int]]:
    """Tile shapes with few reads per product and little waste, best first; none too large for registers."""
    m, n = problem["m"], problem["n"]
    size = COMPUTED_SIZES[problem["dtype"]]
    most = min(256 // size, 64 if effort > 2 else 32)
    vector = max(v for v in (1, 2, 4) if v * size <= 16 and n % v == 0)
    found = []
    for rows, cols in itertools.product(range(1, min(m, 13) + 1), range(1, min(n, 12) + 1)):
        if rows * cols > most or (cols % vector and cols != n):
            continue
        threads = math.ceil(m / rows) * math.ceil(n / cols)
        waste = threads * rows * cols / (m * n)
        found.append((waste * (1 + 2 * (rows + cols / vector) / (rows * cols)), rows, cols))
    return [(rows, cols) for _, rows, cols in sorted(found)]


def candidates(problem: Row, shared: int, effort: int = 2) -> list[Row]:
    """Parameters that fit the problem and are worth timing, on a device with so much shared memory. Of
    products there are more with more effort (1, 2 or 3)."""
    found = candidates_of_product(problem, shared, effort) if _has_tiles(problem, shared) else []
    for kernel, values in KERNELS.items():
        if kernel in PRODUCTS:
            continue
        if (kernel.partition("_")[0] == "matmul") != (problem["op"] == "MATMUL"):
            continue
        for chosen in itertools.product(*values.values()):
            row: Row = {"kernel": kernel, **dict(zip(values, chosen, strict=True))}
            if row.get("blocks", 0) * row["threads"] > MAX_THREADS or not _all_works(problem, row):
                continue
            if _core.cuda_plan(problem, shared, row) is not None:
                found.append(row)
    return found


def _has_tiles(problem: Row, shared: int) -> bool:
    """A product whose matrices a block holds as a whole. Others have kernels that take any size."""
    plan = _core.cuda_plan(problem, shared)
    return problem["op"] == "MATMUL" and plan is not None and plan["kernel"] not in OF_ANY_SIZE


def _all_works(problem: Row, row: Row) -> bool:
    """Not most of a matrix's threads are idle, and partial sums are of deep ones. Of products `lanes` means
    something else."""
    if problem["op"] == "MATMUL":
        return not row.get("levels") or problem["k"] > _core.limits["deep"]
    return row["lanes"] < 2 * problem["n"]


def candidates_of_product(problem: Row, shared: int, effort: int) -> list[Row]:
    """The same for products; more of them with more effort (1, 2 or 3)."""
    size = COMPUTED_SIZES[problem["dtype"]]
    found: dict[tuple[Any, ...], Row] = {}

    def consider(kernel: str, **chosen: Any) -> None:
        usual = {"async": 1, "through_shared": 1}
        row = {"kernel": kernel, **{x: chosen.get(x, usual.get(x, 0)) for x in KERNELS[kernel]}}
        assert chosen.keys() <= row.keys(), f"{kernel} has no such parameter: {chosen}"
        grid = _core.cuda_plan(problem, shared, row)
        if grid is not None:
            effect = {**row, "lanes": 0, "threads": 0}
            found.setdefault((*effect.values(), grid["matrices"], grid["block"]), row)

    m, n = problem["m"], problem["n"]
    line = n * size
    shapes = tiles(problem, effort)
    few = shapes[: (12 if size >= 8 and n > 12 else 8, 12, 24)[effort - 1]]
    if m <= 12 and effort > 1:
        few += [(1, n), (m, n), (2, n), (1, 1), (m, 1)]
    pads = (0, 1) if line % 32 == 0 or problem["k"] * size % 32 == 0 else (0,)
    one = problem.get("source_a") or problem.get("source_b")  # worth staging for many matrices only
    sizes = ((64, 128, 256) if one else (32, 64, 128), (32, 64, 96, 128), (32, 64, 96, 128, 160, 192, 256))[
        effort - 1
    ]
    unrolls = (0,) if effort < 3 or n < 16 else (0, 5, 10)
    for (rows, cols), threads, pad in itertools.product(dict.fromkeys(few), sizes, pads):
        for through, unroll in itertools.product((1, 0) if line % 16 == 0 else (1,), unrolls):
            shape = {"rows": rows, "cols": cols, "threads": threads, "pad": pad}
            for blocked in (0, 1) if n % 2 else (0,):  # of scalars only
                consider(
                    kernel="matmul_staged", **shape, blocked=blocked, through_shared=through, unroll=unroll
                )
        if line < 96 and n % 2 == 0:
            consider(kernel="matmul_staged", rows=rows, cols=cols, threads=threads, pad=pad, **{"async": 0})
    if line <= 128:
        vector = 16 // size
        for rows, cols, threads, unroll, ahead in itertools.product(
            dict.fromkeys((1, 2, 4, 8, m // 4 or 1, m // 2 or 1)),
            (vector, 2 * vector, n),
            (64, 128, 256),
            (0,) if n < 16 else (0, 5),
            (0,) if n < 8 else (0, 1),
        ):
            shape = {"rows": min(rows, m), "cols": min(cols, n), "threads": threads}
            consider(kernel="matmul_direct", **shape, unroll=unroll, ahead=ahead)
    for groups, threads in itertools.product(*KERNELS["matmul_whole"].values()):
        consider(kernel="matmul_whole", groups=groups, threads=threads)
    if problem.get("source_a", 0) + problem.get("source_b", 0) == 1:
        consider_one(problem, shared, effort, consider)
    return list(found.values())


def consider_one(problem: Row, shared: int, effort: int, consider: Callable[..., None]) -> None:
    """Those of matmul_one, which want few warps and much of the shared memory."""
    a, size = problem.get("source_a"), COMPUTED_SIZES[problem["dtype"]]
    length = problem["m"] if a else problem["n"]
    # A product costs an instruction, an element that is read about one.
    columns = [x for x in range(1, 9) if x * problem["k"] * size <= 768]
    columns.sort(key=lambda x: (x + 1) / max(1, 32 // math.ceil(length / x)))
    for held, lines, (threads, blocks), stages, matrices in itertools.product(
        columns[: 1 + effort],
        (1, 2, 4),
        ((64, 4), (128, 2), (128, 3), (256, 1))[: 2 + effort],
        (4, 6, 3, 8)[: 1 + effort],
        (64, 32, 16, 8, 4, 2),
    ):
        rows, cols = (held, lines) if a else (lines, held)
        row: Row = {"rows": rows, "cols": cols, "threads": threads, "blocks": blocks, "stages": stages}
        row |= {"kernel": "matmul_one", "lanes": max(1, threads // matrices)}
        grid = _core.cuda_plan(problem, shared, row)
        if grid is not None and blocks * grid["shared"] > shared // 2:
            consider(**row)

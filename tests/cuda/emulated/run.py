"""Run a kernel on the emulated GPU (gpu), and hold its results to the CPU's bits: `run.py lu_blocked`.

A case is an operation that the kernel serves, a dtype, an order or a shape, parameters that it can run this
with, and how each operand lies in memory. test_emulated.py says in what environment."""

import argparse
import os
import random
import sys
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from accuracy import same_signs  # noqa: E402
from cases import OF_DIAGONALS, OF_DOUBLES, OF_SQUARE, OF_TALL, operands  # noqa: E402
from matrices import diagonals_of_every_kind, kinds, normal  # noqa: E402

from smallmm import _core, cuda  # noqa: E402
from smallmm._base.shapes import arithmetic, register_bfloat16  # noqa: E402

SHARED = 227 << 10
COUNT = 69  # matrices, at most: as a rule more than a block takes, and its last one is not full
LARGE = (33, 40, 47, 48, 63, 64, 65, 96, 100, 127, 128)  # orders for which a matrix has a block, and
COUNT_OF_LARGE = 5  # as many matrices
SPACE = {  # of every parameter of kernels.def, of which a kernel has some
    "rows": (0, 1, 2, 4, 8),
    "cols": (0, 1, 2, 4, 8),
    "blocked": (0, 1),
    "groups": (1, 2, 4),
    "lanes": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    "across": (1, 2, 4),
    "wide": (1, 2, 4),
    "panel": (0, 2, 4, 8),
    "steps": (0, 2, 4, 8),
    "refetch": (0, 1),
    "threads": (32, 64, 128, 256, 512),
    "blocks": (0, 1),
    "stages": (0, 2, 3),
    "unroll": (0, 1, 5),
    "pad": (0, 1),
    "async": (0, 1),
    "ahead": (0, 1),
    "through_shared": (0, 1),
    "outside": (0, 1),
}
OPS = {  # of each gufunc with kernels; those that NumPy has, too, are batched_matmul's
    name: operation
    for name, (operation, form) in _core.gufunc_rows.items()
    if not form & _core.forms["tensor"] and name not in ("matmul", "matvec", "vecmat")
}
SERVED = {
    "systems_shared": (
        *("LU", "SOLVE", "LU_SOLVE", "INV", "DET", "SLOGDET"),
        *("CHOLESKY", "CHO_SOLVE", "SOLVE_POS", "SOLVE_TRIANGULAR"),
    ),
    "lu_lanes": ("LU", "SOLVE", "DET", "SLOGDET", "INV"),
    "lu_rows_numbers": ("LU", "SOLVE", "DET", "SLOGDET", "INV"),
    "lu": ("LU", "SOLVE", "DET", "SLOGDET"),
    "triangular": ("LU_SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR"),
    "cholesky": ("CHOLESKY", "SOLVE_POS"),
    "ldl": ("LDL", "LDL_SOLVE", "SOLVE_SYM"),
    "banded_thread": ("SOLVE_BANDED", "SOLVEH_BANDED"),
    "banded": ("SOLVE_TRIDIAGONAL", "SOLVE_BANDED", "SOLVEH_BANDED"),
    "qr": ("QR", "QR_R", "QR_RAW"),
    "eig": ("EIG", "EIGVALS", "SCHUR", "SQRTM"),
    "eigh": ("EIGH", "EIGVALSH"),
    "svd": ("SVD", "SVD_FULL", "SVDVALS"),
    "refinement": ("LU_RCOND", "BACKWARD_ERROR", "REFINE"),
    "mixed": ("SOLVE_MIXED",),
}


STORED = ("f16", "bf16")
AROUND = -7  # what lies in memory beside an operand


def frame(x):
    """A copy within a larger array: matrices with gaps."""
    around = np.full([size + 3 for size in x.shape], AROUND, x.dtype)
    copy = around[tuple(slice(1, size + 1) for size in x.shape)]
    copy[...] = x
    return copy


def aligned(x, elements=0):
    """A copy that begins so many elements after a multiple of 64 bytes."""
    line = 64 // x.itemsize
    around = np.full(x.size + 3 * line, AROUND, x.dtype)
    begin = line - around.ctypes.data % 64 // x.itemsize + elements
    copy = around[begin : begin + x.size].reshape(x.shape)
    copy[...] = x
    return copy


LAYOUTS = {
    "flat": aligned,
    "off by one element": lambda x: aligned(x, 1),
    "transposed": lambda x: aligned(np.ascontiguousarray(x.mT)).mT if x.ndim > 2 else aligned(x),
    "framed": frame,
}
OF_INPUTS = {**LAYOUTS, "one for all": lambda x: np.broadcast_to(aligned(x[:1]), x.shape)}


class OnDevice:
    """NumPy's memory, which is the emulated GPU's."""

    def __init__(self, x):
        self.__cuda_array_interface__ = {
            "shape": x.shape,
            "typestr": x.dtype.str,
            "data": (x.ctypes.data, False),
            "strides": x.strides,
            "version": 3,
        }


def shape_of(chance, name, rows):
    if isinstance(rows, int):
        return rows, 1, rows
    few, max_few = rows == "few", 8 if name.startswith(("lstsq", "eig", "schur", "svd")) else 4
    if OPS[name] == "MATMUL":
        m, k, n = (chance.randint(1, 36) for _ in "mkn")
        return chance.choice(((m, k, n), (n, n, n)))
    if name in OF_DIAGONALS:
        m, n = chance.randint(1, 8), chance.choice((chance.randint(1, 9), chance.randint(10, 80)))
        return n - 1 if "tri" in name else m, chance.choice((1, 1, 2, 3, 5)), n
    m = n = chance.choice((chance.randint(1, 12), chance.randint(9, 24), chance.randint(17, 32)))
    if name in ("eig", "schur", "sqrtm"):  # which take the emulated GPU seconds
        m = n = chance.randint(1, 14)
    if few:
        m = n = chance.randint(1, max_few)
    if rows == "large":
        m = n = chance.choice(LARGE)
    if name not in (*OF_SQUARE, *OF_DOUBLES) and chance.random() < 0.5:
        x = chance.randint(1, max_few if few else 128 if rows == "large" else min(100, 1024 // n))
        m, n = (max(x, n), min(x, n)) if name in OF_TALL else (min(x, n), max(x, n))
    if name.startswith(("lu_factor", "qr", "svd")):
        return m, m if name == "qr_complete" else min(m, n), n
    with_columns = any(operand == "b" for operand, *_ in _core.operations[OPS[name]])
    return m, chance.choice((1, 1, 2, 3, 5, 16, 32)) if with_columns else 1, n


def parameters_of(chance, kernel, problem, rows):
    """Some that the kernel can run the problem with, or None."""
    names = _core.cuda_catalog()["kernels"][kernel]
    for _ in range(300):
        row = {"kernel": kernel, **{name: chance.choice(SPACE[name]) for name in names}}
        row |= {"lanes": 1} if rows == "few" else {}
        if _core.cuda_plan(problem, SHARED, row) is not None:
            return row
    return None


def drawn(chance, problem, kernel, space):
    """Parameters with which the kernel can run the problem."""
    while True:
        row = {"kernel": kernel, **{name: chance.choice(values) for name, values in space.items()}}
        if _core.cuda_plan(problem, SHARED, row) is not None:
            return row


def tune_product(problem, row):
    """The row is that of every way to load, also of the transposed product, which a column-major C takes. An
    empty one leaves the choice to the plan."""
    turned = {**problem, "m": problem["n"], "n": problem["m"]}
    _core.cuda_tune(
        [{**x, **row, "load": load} for x in (problem, turned) for load in range(3)] if row else []
    )


def dtype_named(name):
    if name == "bf16":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name.replace("f", "float").replace("c", "complex"))


def cases(chance, kernel, dtypes, rows):
    """Every other one of flat operands, as some kernels want them; every third of a type that is only stored,
    if the kernel takes one. rows: "few" of matrices of a thread, "large" of those of a block, an order, or
    any."""
    varied, number = True, 0
    family = kernel.partition("_")[0]
    served = [
        name for name, op in OPS.items() if op in SERVED.get(kernel, SERVED.get(family, (family.upper(),)))
    ]
    while True:
        name = chance.choice(served)
        dtype = chance.choice(STORED if number % 3 == 2 else dtypes) if name not in OF_DOUBLES else "f64"
        m, k, n = shape_of(chance, name, rows)
        one = kernel == "matmul_one"
        problem = {"op": OPS[name], "dtype": dtype, "m": m, "k": k, "n": n}
        problem |= {"source_b": int(one), "scaled": int(name == "gemm")}
        problem |= {"lower": chance.randrange(m)} if name == "solve_banded" else {}
        problem |= {"lower": 1} if name.startswith("solve_tridiagonal") else {}
        row = parameters_of(chance, kernel, problem, rows)
        if row is None and dtype not in STORED:
            continue
        number += 1
        if row is None:
            continue
        varied = not varied
        ways = [chance.choice(list(OF_INPUTS)) if varied else "flat" for _ in range(5)]
        outs = [chance.choice(list(LAYOUTS)) if varied else "flat" for _ in range(4)]
        if one:
            ways[1] = "one for all"
        in_place = (
            name.startswith("lu_factor") or name in ("inv", "expm", "cholesky", "ldl_factor", *OF_DIAGONALS)
        ) and chance.random() < 0.3
        yield row, (name, problem, ways, outs, in_place)


def check(rng, name, problem, ways, outs, in_place):
    m, k, n = (problem[x] for x in "mkn")
    dtype = dtype_named(problem["dtype"])
    count = COUNT_OF_LARGE if m in LARGE or n in LARGE else COUNT
    register_bfloat16(dtype)
    if problem["op"] == "MATMUL":
        arrays = [normal(rng, (COUNT, *shape), dtype) for shape in ((m, k), (k, n))]
        factors = (1.5 - 2j, -0.25 + 1j) if dtype.kind == "c" else (1.5, -0.25)
        arrays += [np.asarray(x, dtype) for x in factors] if name == "gemm" else []
    elif name in OF_DIAGONALS:
        lower = None if problem["kernel"] == "banded_thread" else problem.get("lower")
        arrays = diagonals_of_every_kind(rng, name, m, n, k, COUNT, dtype, lower)
    else:
        arrays = operands(rng, name, kinds(rng, m, n, dtype)[:count], k)
    takes_pivots = problem["op"] in ("LU_SOLVE", "LU_RCOND", "REFINE")
    if takes_pivots:  # some are no rows: NaN on a device, where the host raises
        pivots = next(x for x in arrays if x.dtype == np.int32)
        pivots[::7, n // 2] = rng.choice([-1, n, 2**31 - 1, -(2**31), n // 2 - 1], len(pivots[::7]))
    arrays = [OF_INPUTS[ways[i]](x) if x.ndim > 1 else aligned(x) for i, x in enumerate(arrays)]
    gufunc = getattr(_core, name)
    with np.errstate(all="ignore"):
        compute = partial(_core.reference, gufunc) if takes_pivots else gufunc
        expected = compute(*arrays, *([np.full((COUNT, m, n), -3, dtype)] if name == "gemm" else []))
    expected = expected if isinstance(expected, tuple) else (expected,)
    results = [LAYOUTS[outs[i]](np.full(x.shape, -3, x.dtype)) for i, x in enumerate(expected)]
    if in_place and arrays[0].shape == expected[0].shape and arrays[0].flags.writeable:
        results[0] = arrays[0]
    if in_place and name in OF_DIAGONALS and arrays[-1].flags.writeable:
        results[0] = arrays[-1]
    given = [x if x.shape == () and x.dtype == np.int32 else OnDevice(x) for x in (*arrays, *results)]
    assert _core.device_run(gufunc, 0, *given)
    for i, (x, y) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_array_equal(*(z.astype(arithmetic(z.dtype)) for z in (x, y)), f"output {i}")
        assert same_signs(x, y), f"output {i}: a zero of the other sign"
        assert (x.base == AROUND).sum() >= x.base.size - x.size, f"output {i}: a write beside it"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel")
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--rows", choices=("any", "few", "large"), default="any")
    parser.add_argument("--order", type=int, help="of all cases, of square matrices")
    parser.add_argument("--dtypes", nargs="+", help="by default those that are computed")
    arguments = parser.parse_args()
    of_complex = arguments.kernel.endswith("_numbers") or arguments.kernel == "systems_shared"
    dtypes = arguments.dtypes or (("c64", "c128") if of_complex else ("f32", "f64"))
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    chance = random.Random(f"{arguments.kernel} {arguments.seed}")
    endless = cases(chance, arguments.kernel, dtypes, arguments.order or arguments.rows)
    for number, (row, case) in zip(range(arguments.cases), endless, strict=False):
        print(number, row, *case, flush=True)
        problem = case[1]
        problem["kernel"] = row["kernel"]
        _core.cuda_tune([{**problem, **row, "small": x} for x in (0, 1)])
        check(np.random.default_rng(number), *case)


if __name__ == "__main__":
    main()

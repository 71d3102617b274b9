"""How exact results are: the largest error of each operation over stacks of every kind, beside LAPACK's in
the same precision (SciPy's, one matrix at a time) and BLAS's product.

    python -m benchmarks.host.accuracy

Rows go to results/host/accuracy-<machine>-errors.json: errors in units of the roundoff u, as
tests/support/accuracy.py measures them and smallmm/_tools/bounds.py bounds them; LAPACK's is null where its
results are not finite. The operands are those of tests/support/matrices.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.linalg

import smallmm
from smallmm._tools.bounds import BOUNDS
from smallmm._tools.operations import DTYPES

from .. import records
from .contenders import blas_of
from .machine import machine

sys.path.append(str(records.ROOT / "tests"))
import accuracy
import matrices

ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
KINDS = ("random", "ill-conditioned", "graded", "tiny")
CONDITION = {"f64": 1e12, "f32": 1e5}
Arrays = tuple[np.ndarray, ...]


def stacks(rng: np.random.Generator, kind: str, dtype: str, count: int, m: int, n: int) -> np.ndarray:
    """`count` matrices of a kind, in float64. Of tiny ones, half of the elements are subnormal in `dtype`."""
    if kind == "random":
        return rng.standard_normal((count, m, n))
    if kind == "ill-conditioned":
        return matrices.conditioned(rng, count, m, n, CONDITION[dtype])
    if kind == "graded":
        return matrices.graded(rng, count, m, n, np.float64)
    return matrices.conditioned(rng, count, m, n, 10) * (4 * float(np.finfo(DTYPES[dtype]).tiny))


def general(rng: np.random.Generator, kind: str, dtype: str, count: int, n: int) -> Arrays:
    """Square matrices and two right-hand sides of their magnitude."""
    a = stacks(rng, kind, dtype, count, n, n)
    return a, rng.standard_normal((count, n, 2)) * np.abs(a).max((-2, -1), keepdims=True)


def products(rng: np.random.Generator, kind: str, dtype: str, count: int, n: int) -> Arrays:
    """Tiny matrices times large ones: no bound holds for products that underflow."""
    a = stacks(rng, kind, dtype, count, n, n)
    if kind == "tiny":
        return a, rng.standard_normal((count, n, n)) / np.finfo(DTYPES[dtype]).eps ** 2
    return a, stacks(rng, kind, dtype, count, n, n)


def definite(rng: np.random.Generator, kind: str, dtype: str, count: int, n: int) -> Arrays:
    """Symmetric positive definite, with the condition of `general`, graded ones by rows and columns."""
    values = np.geomspace(1, 1 / (CONDITION[dtype] if kind == "ill-conditioned" else 10), n)
    q = matrices.orthonormal(rng, count, n, n)
    a = (q * values) @ q.mT
    if kind == "graded":
        scale = np.geomspace(1, 1e-8 if dtype == "f64" else 1e-4, n)
        a *= scale[:, None] * scale
    if kind == "tiny":
        a *= 4 * float(np.finfo(DTYPES[dtype]).tiny)
    return (matrices.symmetric(a),)


def triangles(rng: np.random.Generator, kind: str, dtype: str, count: int, n: int) -> Arrays:
    a, b = general(rng, kind, dtype, count, n)
    return np.triu(np.linalg.qr(a).R), b


def tall(rng: np.random.Generator, kind: str, dtype: str, count: int, n: int) -> Arrays:
    """Twice as many rows as columns, or as many as the kernels take."""
    m = min(2 * n, 1024 // n)
    a = stacks(rng, kind, dtype, count, m, n)
    return a, rng.standard_normal((count, m, 2)) * np.abs(a).max((-2, -1), keepdims=True)


# --- LAPACK, one matrix at a time -----------------------------------------------------------------


def each(function: Callable[..., tuple], *operands: np.ndarray) -> list[np.ndarray]:
    """The results of a function of one matrix, stacked."""
    return [np.stack(x) for x in zip(*(function(*one) for one in zip(*operands, strict=True)), strict=True)]


def routine(name: str, a: np.ndarray) -> Callable[..., tuple]:
    return scipy.linalg.get_lapack_funcs(name, dtype=a.dtype)


def lapack_inverse(a: np.ndarray) -> tuple[np.ndarray]:
    return (routine("getri", a)(*routine("getrf", a)(a)[:2])[0],)


def lapack_qr(a: np.ndarray) -> Arrays:
    h, tau, *_ = routine("geqrf", a)(a)
    return routine("orgqr", a)(h, tau)[0], np.triu(h[: a.shape[1]])


def lapack_lstsq(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
    m, n = a.shape
    return (scipy.linalg.lstsq(a, b, cond=max(m, n) * np.finfo(a.dtype).eps, lapack_driver="gelsy")[0],)


# --- operations -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """`operands` makes them; `error` measures the results of `ours` and of `theirs`; `bound` is its row of
    BOUNDS."""

    name: str
    operands: Callable[..., Arrays]
    ours: Callable[..., tuple]
    theirs: Callable[..., Arrays]
    error: Callable[..., np.ndarray]
    bound: str


def _qr_error(q: np.ndarray, r: np.ndarray, a: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return np.maximum(*accuracy.qr_error(q, r, a))


OPERATIONS = (
    Operation(
        "matmul",
        products,
        lambda a, b: (smallmm.matmul(a, b),),
        lambda a, b: (np.matmul(a, b),),
        accuracy.matmul_error,
        "matmul",
    ),
    Operation(
        "lu_factor",
        general,
        lambda a, b: smallmm.lu_factor(a),
        lambda a, b: each(lambda x: routine("getrf", x)(x)[:2], a),
        lambda lu, pivots, a, b: accuracy.lu_error(lu, pivots, a),
        "lu",
    ),
    Operation(
        "solve",
        general,
        lambda a, b: (smallmm.solve(a, b),),
        lambda a, b: each(lambda x, y: (routine("gesv", x)(x, y)[2],), a, b),
        accuracy.solution_error,
        "solve",
    ),
    Operation(
        "inv",
        general,
        lambda a, b: (smallmm.inv(a),),
        lambda a, b: each(lapack_inverse, a),
        lambda x, a, b: accuracy.inverse_error(x, a),
        "inv",
    ),
    Operation(
        "cholesky",
        definite,
        lambda a: (smallmm.cholesky(a),),
        lambda a: each(lambda x: (routine("potrf", x)(x, lower=True)[0],), a),
        accuracy.cholesky_error,
        "cholesky",
    ),
    Operation(
        "solve_triangular",
        triangles,
        lambda a, b: (smallmm.solve_triangular(a, b),),
        lambda a, b: each(lambda x, y: (routine("trtrs", x)(x, y)[0],), a, b),
        accuracy.solution_error,
        "solve",
    ),
    Operation("qr", tall, lambda a, b: smallmm.qr(a), lambda a, b: each(lapack_qr, a), _qr_error, "qr"),
    Operation(
        "lstsq",
        tall,
        lambda a, b: (smallmm.lstsq(a, b).x,),
        lambda a, b: each(lapack_lstsq, a, b),
        accuracy.least_squares_error,
        "lstsq",
    ),
)


def rows(count: int) -> Iterator[dict[str, object]]:
    version = f"SciPy {scipy.__version__} ({blas_of('scipy')[0]})"
    for op in OPERATIONS:
        for dtype, real in DTYPES.items():
            for kind in KINDS:
                for n in ORDERS:
                    rng = np.random.default_rng(n)
                    operands = [x.astype(real) for x in op.operands(rng, kind, dtype, count, n)]
                    with np.errstate(all="ignore"):  # LAPACK's NaN
                        error, lapack = (
                            float(f"{np.max(op.error(*run(*operands), *operands)):.3g}")
                            for run in (op.ours, op.theirs)
                        )
                    larger = max(operands[0].shape[-2:])
                    assert error <= BOUNDS[op.bound](larger), (op.name, dtype, kind, n, error)
                    yield {
                        "op": op.name,
                        "dtype": dtype,
                        "n": n,
                        "kind": kind,
                        "count": count,
                        "error": error,
                        "lapack": lapack if np.isfinite(lapack) else None,
                        "bound": BOUNDS[op.bound](larger),
                        "isa": smallmm.show_config("dicts")["isa"],
                        "version": version,
                    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="matrices of each kind and order")
    parser.add_argument("--quick", action="store_true", help="a few matrices: does it work here?")
    parser.add_argument(
        "--out", type=Path, help="folder of the rows (default: results/host; none if --quick)"
    )
    options = parser.parse_args()
    about = machine()
    folder = options.out or records.RESULTS / "host"
    run = records.Run(folder / f"accuracy-{about['slug']}-errors.json", about, records.commit())
    for row in rows(5 if options.quick else options.count):
        run.add(row)
        if row["n"] == ORDERS[-1]:
            print(*(row[field] for field in ("op", "dtype", "kind", "error", "lapack", "bound")))
    if options.out or not options.quick:
        run.write()


if __name__ == "__main__":
    main()

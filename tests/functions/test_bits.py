"""The bits of every gufunc's results are those recorded in bits.json.

A record is a hash of all outputs over orders, layouts and batch sizes, one for each gufunc and element
type, with and without fused multiply-add: all instruction sets but `portable` give the same bits.
Inputs come from integers alone.

    python tests/functions/test_bits.py     records what has no record yet
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pytest
from cases import GUFUNCS

from smallmm import _core
from smallmm._base.shapes import PRODUCTS, SCALED

RECORDED = Path(__file__).with_name("bits.json")
DTYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
OF_DIAGONALS = "solve_tridiagonal", "solve_banded", "solveh_banded"
ROWS = [
    (name, dtype, orders)
    for name in sorted(GUFUNCS)
    for dtype in DTYPES
    if GUFUNCS[name].takes(DTYPES[dtype])
    for orders in (("", "large") if name not in (*PRODUCTS, *OF_DIAGONALS) else ("",))
]
LARGE = (33, 47, 64, 100, 128)  # orders that have a record of their own
MATRICES = 19  # full vectors of all instruction sets, and a rest


@cache  # for all gufuncs, element types and instruction sets: else a third of the time
def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Float64 in -1 .. 1 of 52 bits, by a hash of their places."""
    x = np.arange(np.prod(shape, dtype=np.int64), dtype=np.uint64) + np.uint64(seed << 32)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        x = (x ^ (x >> np.uint64(29))) * np.uint64(factor)
    x = ((x >> np.uint64(11)).astype(np.float64) / 2**52 - 1).reshape(shape)
    x.flags.writeable = False
    return x


def laid_out(x: np.ndarray, core: int, layout: int) -> np.ndarray:
    """The same stack in another layout; the leading axes count matrices, the last `core` are theirs."""
    if layout == 1 and core == 2:  # column-major
        return x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    if layout == 2:  # gaps everywhere
        wide = np.zeros([2 * n for n in x.shape], x.dtype)
        view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
        view[...] = x
        return view
    if layout == 3:  # the batch innermost
        return np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)
    if layout == 4:  # everything reversed
        back = (slice(None, None, -1),) * x.ndim
        return x[back].copy()[back]
    return x


def outweigh(x: np.ndarray, name: str, seed: int) -> None:
    """Make the main diagonal larger than the others, where operands are diagonals."""
    m = x.shape[-2]
    if name.startswith("solve_tridiagonal"):
        x += 3 * (seed == 1)
    else:
        main = {"solve_banded": m - 1 - (m - 1) // 2, "solveh_banded": 0, "solveh_banded_upper": m - 1}[name]
        x[..., main, :] += 2 * m + 1


@lru_cache(128)  # the calls of a gufunc, whose layouts and instruction sets follow each other
def operands_of(name: str, m: int, n: int, k: int, batch: tuple[int, ...], dtype: type) -> list[np.ndarray]:
    """The inputs of a gufunc, but for factors: well-conditioned matrices, and one that is singular."""
    ufunc = getattr(_core, name)
    inputs = ufunc.signature.split("->")[0][1:-1].split("),(")
    sizes = {"m": n - 1 if name.startswith("solve_tridiagonal") else m, "n": n, "k": k}
    operands = []
    for seed, letters in enumerate(inputs):
        core = tuple(sizes[c] for c in letters.replace("?", "").split(",") if c)
        place = seed + 7 * (m + 40 * n + 1600 * k)
        x = numbers(batch + core, place).copy()
        if np.dtype(dtype).kind == "c":
            x = x + 1j * numbers(batch + core, place + (1 << 20))
        if name.startswith(OF_DIAGONALS) and core and "k?" not in letters:
            outweigh(x, name, seed)
            x[(0,) * len(batch)] = 0
        elif seed == 0 and name not in PRODUCTS:
            x += (min(m, n) + 1) * np.eye(*core)
            if not name.startswith(("eig", "qr", "lstsq", "svd")):
                x[(0,) * len(batch)] = 0
        if name == "expm":  # some are triangular
            x[1::3], x[2::6] = np.triu(x[1::3]), np.tril(x[2::6])
        if name == "solve_banded" and not core:  # how many are below the main one
            x = np.full(batch, (m - 1) // 2)
        if name.startswith("ldl_solve") and len(core) == 1:  # pivots, of blocks of order 1 and 2
            pairs = (np.arange(n) < n // 2 * 2) & (numbers((*batch, 1), 5) > 0)
            x = np.where(pairs, -1 - np.arange(n) // 2 * 2 - (not name.endswith("upper")), 1 + np.arange(n))
        if name.startswith(("lu_solve", "lu_rcond")) and len(core) == 1:  # pivots
            x = np.arange(n) + np.int64(numbers(batch + core, 5) > 0) * (n - 1 - np.arange(n))
        if name == "lstsq" and not core:
            x = np.full(batch, 2.0**-16)
        if x.dtype.kind == "i":
            operands.append(x.astype(np.int32))
        else:
            is_real = name.startswith(("lstsq", "lu_rcond")) and not core
            operands.append(x.real.astype(np.finfo(dtype).dtype) if is_real else x.astype(dtype))
    return operands


def calls(name: str, dtype: type, orders: str) -> Iterator[tuple[np.ndarray, ...]]:
    """The outputs of calls of all orders up to 32, or of some larger ones, with all layouts."""
    ufunc = getattr(_core, name)

    def run(m: int, n: int, k: int, batch: tuple[int, ...], layout: int) -> tuple[np.ndarray, ...]:
        cores = [s.count(",") + 1 if s else 0 for s in ufunc.signature.split("->")[0][1:-1].split("),(")]
        given = list(operands_of(name, m, n, k, batch, dtype))
        if name.startswith("refine"):
            given[1:3] = _core.lu_factor(given[0])[:2]
        if layout == 5:  # batch dimensions that do not merge
            given = [np.swapaxes(np.swapaxes(x, 0, 1).copy(), 0, 1) for x in given[:1]] + given[1:]
        else:
            given = [laid_out(x, core, layout) for x, core in zip(given, cores, strict=True)]
        out = [np.ones((*batch, m, n), dtype)] if name in SCALED else []
        through = _core.direct[name](*given, *out)
        through = ufunc(*given, *out) if through is NotImplemented else through
        through = through if isinstance(through, tuple) else (through,)
        return tuple(np.asarray(x) for x in through if x is not None)

    tall, wide = name.endswith("_tall"), name.endswith("_wide")
    if orders == "large":
        for n in LARGE:
            fewer = n - n % 7
            yield run(fewer if wide else n, fewer if tall else n, n % 3 + 1, (3,), n % 5)
        return
    for n in range(1, 33):
        k = (n * 7) % 19 + 1
        yield run(n, n, k, (MATRICES,), 0)
        yield run(n, n, k, (MATRICES,), 1 + n % 4)
        if n % 3 == 0:
            yield run(n, n, 1, (3, 2, 4), 5)
        m = n + n % 7 if tall or not wide else max(1, n - n % 7)
        if "m" in ufunc.signature and m <= 32:
            yield run(m, n, 3, (MATRICES,), n % 5)
    if "matmul" in name or name in SCALED:
        yield run(3, 2, 1500, (3,), 0)  # deep sums
        yield run(90, 70, 50, (2,), 1)
    if name == "solve_tridiagonal_unpivoted":  # in parts, and their separators, too
        yield run(9000, 9000, 2, (3,), 1)
        yield run(70000, 70000, 1, (2,), 0)
    yield run(4, 4, 2, (60000,), 0)  # out of cache, on several threads


@cache
def hashes(isa: str, name: str, dtype: str, orders: str) -> str:
    smallmm_isa = _core.isa()
    _core.select_isa(isa)
    try:
        seen = hashlib.sha256()
        for outputs in calls(name, DTYPES[dtype], orders):
            for x in outputs:
                # -NaN, NaN and its payloads are one; zeros keep their signs
                y = np.ascontiguousarray(x)
                y = y.reshape(x.shape) if y.dtype.kind != "c" else y[..., None].view(np.finfo(y.dtype).dtype)
                y = np.where(y != y, np.array(np.nan, y.dtype), y) if y.dtype.kind == "f" else y
                seen.update(f"{x.dtype} {x.shape}".encode() + y.tobytes())
        assert seen.digest() != hashlib.sha256().digest(), "no result"
        return seen.hexdigest()[:16]
    finally:
        _core.select_isa(smallmm_isa)


def key(isa: str, name: str, dtype: str, orders: str) -> str:
    """Tensor cores are a device's."""
    sums = "separate" if isa == "portable" else "fused"
    return f"{name.removesuffix('_tensor')} {dtype} {orders}{' ' * bool(orders)}{sums}"


@pytest.mark.parametrize("isa", _core.isas_available())
@pytest.mark.parametrize(("name", "dtype", "orders"), ROWS)
def test_bits_are_those_recorded(isa: str, name: str, dtype: str, orders: str) -> None:
    assert hashes(isa, name, dtype, orders) == json.loads(RECORDED.read_text())[key(isa, name, dtype, orders)]


if __name__ == "__main__":
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for name, dtype, orders in ROWS:
        for isa in _core.isas_available():
            found = hashes(isa, name, dtype, orders)
            before = recorded.setdefault(key(isa, name, dtype, orders), found)
            if before != found:
                print(f"{isa}: {key(isa, name, dtype, orders)} is {found}, recorded {before}")
    RECORDED.write_text(json.dumps(recorded, indent=0, sort_keys=True) + "\n")

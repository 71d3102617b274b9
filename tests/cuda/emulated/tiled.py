"""Products of any size on the emulated GPU give the CPU's bits: by the plan's parameters and by others, of
deep sums however they are shared, of operands however they lie."""

import itertools
import os
import random
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from run import LAYOUTS, OF_INPUTS, SHARED, OnDevice, aligned, drawn, dtype_named, tune_product  # noqa: E402

from smallmm import _core, cuda  # noqa: E402
from smallmm._base.shapes import register_bfloat16  # noqa: E402

SPACE = {
    "rows": (1, 2, 3, 4),
    "cols": (1, 2, 4, 5),
    "lanes": (1, 2, 4, 16, 32, 64),
    "across": (1, 2, 4, 8),
    "threads": (32, 64),
    "blocks": (0, 1),
    "depth": (2, 8, 16),
    "levels": (0, 1, 3),
}
DTYPES = ("f32", "c128", "f16", "f64", "bf16", "c64")
TENSOR = {"rows": 3, "cols": 2, "lanes": 64, "across": 4, "threads": 64, "blocks": 0, "depth": 8, "levels": 1}
PLAIN = {"rows": 4, "cols": 4, "lanes": 8, "across": 2, "threads": 32, "blocks": 0, "depth": 8, "levels": 1}
FACTORS = ((1.5, -0.25), (1.5 - 2j, -0.25 + 1j))
SHAPES = [  # batch, m, k, n
    (1, 65, 3, 5),
    (2, 5, 66, 7),
    (3, 3, 1, 70),
    (1, 66, 0, 4),
    (2, 3, 1024, 5),
    (1, 2, 1025, 3),
    (3, 4, 1793, 3),
    (1, 3, 5000, 4),
    (2, 1, 2817, 6),
    (1, 1, 12_345, 1),
]


def numbers(rng, *shape, dtype):
    """With zeros of either sign, of which a sum in another order, or from 0 on, would show."""
    if dtype.kind == "c":
        x = np.empty(shape, dtype)
        x.real, x.imag = (numbers(rng, *shape, dtype=np.dtype(float)) for _ in range(2))
        return x
    x = rng.standard_normal(shape)
    x[rng.random(shape) < 0.1] = 0
    return np.copysign(x, rng.standard_normal(shape)).astype(dtype)


def check(chance, rng, shape, dtype, scaled, row, ways=None):
    batch, m, k, n = shape
    a, b = numbers(rng, batch, m, k, dtype=dtype), numbers(rng, batch, k, n, dtype=dtype)
    a[..., 0, :] = -0.0  # and its products, sums of -0
    ways = ways or [chance.choice(list(OF_INPUTS)) for _ in range(2)]
    way = chance.choice(list(LAYOUTS))
    name = next(name for name in DTYPES if dtype_named(name) == dtype)
    problem = {"op": "MATMUL", "dtype": name, "m": m, "k": k, "n": n, "scaled": int(scaled)}
    row = row if isinstance(row, dict) else drawn(chance, problem, "matmul_tiled", SPACE) if row else {}
    tune_product(problem, row)
    print(shape, name, ways, way, row, _core.cuda_plan(problem, SHARED), flush=True)
    gufunc = _core.gemm if scaled else _core.batched_matmul
    a, b = OF_INPUTS[ways[0]](a), OF_INPUTS[ways[1]](b)
    arrays = [a, b, *([np.asarray(x, dtype) for x in FACTORS[dtype.kind == "c"]] if scaled else [])]
    out = LAYOUTS[way](np.full((batch, m, n), -3, dtype))
    expected = gufunc(*arrays, *([out.copy()] if scaled else []))
    assert _core.device_run(gufunc, 0, *map(OnDevice, arrays), OnDevice(out))
    bits = f"u{out.real.itemsize}"
    for x, y in (
        ((out.real, expected.real), (out.imag, expected.imag)) if dtype.kind == "c" else ((out, expected),)
    ):
        np.testing.assert_array_equal(x.copy().view(bits), y.copy().view(bits))


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    chance = random.Random(int(sys.argv[1]))
    rng = np.random.default_rng(int(sys.argv[1]))
    for i, shape in enumerate(SHAPES):
        dtype = dtype_named(DTYPES[i % 6])
        register_bfloat16(dtype)
        check(chance, rng, shape, dtype, scaled=i % 3 == 2, row=i % 4 > 0)
    for shape in ((1, 70, 37, 20), (2, 50, 3000, 9)):
        check(chance, rng, shape, np.dtype(float), scaled=False, row={"kernel": "matmul_tiled", **TENSOR})
    for ways in itertools.permutations(("flat", "transposed")):  # whole tiles of aligned vectors
        for row, dtype in (
            (TENSOR, float),
            (TENSOR, complex),
            (PLAIN, float),
            (PLAIN, np.float32),
            (PLAIN, np.complex64),
        ):
            for shape in ((1, 96, 36, 16), (1, 48, 1544, 8)):
                check(chance, rng, shape, np.dtype(dtype), False, {"kernel": "matmul_tiled", **row}, ways)

    x = aligned(numbers(rng, 1, 70, 70, dtype=np.dtype(float)))
    assert not _core.device_run(_core.batched_matmul, 0, *map(OnDevice, (x, x.copy(), x))), (
        "it would overwrite A"
    )


if __name__ == "__main__":
    main()

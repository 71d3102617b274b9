"""Products by tensor cores on the emulated GPU: within their bound by the plan's parameters and by others, of
every depth, of operands however they lie."""

import os
import random
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from run import AROUND, LAYOUTS, OF_INPUTS, SHARED, OnDevice, drawn, dtype_named, tune_product  # noqa: E402
from test_device_tensor import assert_near, numbers  # noqa: E402

from smallmm import _core, cuda  # noqa: E402
from smallmm._base.shapes import register_bfloat16  # noqa: E402

SPACE = {
    "rows": (2, 4),
    "cols": (4, 8),
    "lanes": (32, 64),
    "across": (4, 8),
    "threads": (32, 64),
    "blocks": (0, 1),
    "depth": (16, 32, 64),
    "stages": (2, 3, 4),
    "levels": (0, 1, 3),
}
SHAPES = [  # batch, m, k, n
    (1, 65, 3, 24),
    (2, 16, 66, 40),
    (3, 24, 1, 70),
    (1, 66, 0, 20),
    (2, 32, 32, 32),
    (2, 16, 1024, 18),
    (1, 17, 1025, 16),
    (3, 16, 1793, 16),
    (1, 16, 5000, 17),
]


def check(chance, rng, shape, name, scaled, by_plan):
    batch, m, k, n = shape
    dtype = dtype_named(name)
    register_bfloat16(dtype)
    a, b = numbers(rng, batch, m, k).astype(dtype), numbers(rng, batch, k, n).astype(dtype)
    ways = [chance.choice(list(OF_INPUTS)) for _ in range(2)]
    way = chance.choice(list(LAYOUTS))
    problem = {"dtype": name, "m": m, "k": k, "n": n, "scaled": int(scaled), "form": _core.forms["tensor"]}
    row = {} if by_plan else drawn(chance, problem, "matmul_tensor", SPACE)
    tune_product(problem, row)
    print(shape, name, ways, way, row, _core.cuda_plan(problem, SHARED), flush=True)
    arrays = [OF_INPUTS[way](x) for way, x in zip(ways, (a, b), strict=True)]
    alpha, beta = (1.5, -0.25) if scaled else (1, 0)
    before = numbers(rng, batch, m, n).astype(dtype)
    out = LAYOUTS[way](before)
    factors = [np.asarray(x, dtype) for x in (alpha, beta)] if scaled else []
    gufunc = _core.gemm_tensor if scaled else _core.batched_matmul_tensor
    assert _core.device_run(gufunc, 0, *map(OnDevice, (*arrays, *factors)), OnDevice(out))
    assert_near(out, *arrays, alpha, beta, before)
    assert (out.base == AROUND).sum() >= out.base.size - out.size, "a write beside it"


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    chance = random.Random(int(sys.argv[1]))
    rng = np.random.default_rng(int(sys.argv[1]))
    for i, shape in enumerate(SHAPES):
        check(chance, rng, shape, ("f16", "bf16")[i % 2], scaled=i % 3 == 2, by_plan=i % 4 == 0)


if __name__ == "__main__":
    main()

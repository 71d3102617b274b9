"""Convolutions on the emulated GPU give the CPU's bits: in every layout, in groups, of stacks, however images
lie."""

import os
import random
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from run import LAYOUTS, OnDevice, aligned, drawn  # noqa: E402
from test_convolution import CASES, in_layout, operands  # noqa: E402
from tiled import SPACE  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402
from smallmm._functions.convolution import _Convolution  # noqa: E402

OF_IMAGES = 3  # where B comes from, as args.h says
STACKS = [
    ((1, 1, 5, 4, 1, 3, 3), {"batch_x": (7,), "batch_w": (7,)}),
    ((2, 2, 4, 5, 3, 2, 3), {"batch_x": (2, 1), "batch_w": (3,), "padding": 1}),
]


def launch(x, w, y, layout, options):
    words = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **options}
    groups = words.pop("groups")
    convolution = _Convolution(x.shape, w.shape, layout, *words.values(), groups)
    return convolution.launch(None, 0, *map(OnDevice, (x, w, y)), labels=("x", "w", "y"))


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    chance = random.Random(int(sys.argv[1]))
    rng = np.random.default_rng(int(sys.argv[1]))
    for number, (sizes, options) in enumerate(CASES[2::2] + CASES[-1:] + STACKS):
        dtype = np.dtype(chance.choice((np.float32, np.float64)))
        x, w = operands(rng, sizes, dtype, **options)
        options = {name: value for name, value in options.items() if not name.startswith("batch")}
        layout = chance.choice(("NCHW", "NHWC", "CHWN"))
        expected = smallmm.conv2d(in_layout(x, layout), w, layout=layout, **options)
        groups = options.get("groups", 1)
        size = dict(zip(layout, expected.shape[-4:], strict=True))
        problem = {"op": "MATMUL", "dtype": f"f{8 * dtype.itemsize}", "source_b": OF_IMAGES}
        problem |= {
            "m": size["C"] // groups,
            "k": w[..., 0, :, :, :].size,
            "n": size["N"] * size["H"] * size["W"],
        }
        row = drawn(chance, problem, "matmul_tiled", SPACE) if number % 3 else {}
        _core.cuda_tune([{**problem, **row, "load": load} for load in range(4)] if row else [])
        print(sizes, options, dtype, layout, row, flush=True)
        x, w = LAYOUTS[chance.choice(list(LAYOUTS))](in_layout(x, layout)), aligned(w)
        y = LAYOUTS[chance.choice(list(LAYOUTS))](np.full_like(expected, -3))
        assert launch(x, w, y, layout, options)
        np.testing.assert_array_equal(y.view(f"u{y.itemsize}"), expected.view(f"u{y.itemsize}"))
    x = aligned(rng.standard_normal((1, 1, 5, 5)))
    assert launch(x, aligned(np.ones((1, 1, 1, 1))), x, "NCHW", {}) is False, "the result overlaps the images"
    empty = np.zeros((0, 2, 5, 5))
    assert launch(empty, aligned(np.ones((3, 2, 1, 1))), np.zeros((0, 3, 5, 5)), "NCHW", {})


if __name__ == "__main__":
    main()

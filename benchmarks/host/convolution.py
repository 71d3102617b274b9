"""Convolutions of fourteen shapes of networks (DeepBench's; P. Tillet and D. Cox, "Input-aware auto-tuning of
compute-bound HPC kernels", 2017, Table 5) beside PyTorch, if installed, and im2col with a product by NumPy.

    python -m benchmarks.host.convolution                      one image of each
    python -m benchmarks.host.convolution --images 4 --shape 3 7 --threads 1

Figures are GFLOP/s in float32, with the strides and paddings of DeepBench.
"""

import argparse
from functools import partial

import numpy as np

import smallmm
from smallmm._tools.timing import measure

from .mixed import table

# P, Q, K, C, R, S, stride, padding
SHAPES = (
    (79, 341, 32, 1, 5, 20, 2, 0),
    (38, 166, 32, 32, 5, 10, 2, 0),
    (24, 240, 32, 16, 3, 3, 1, 1),
    (12, 120, 64, 32, 3, 3, 1, 1),
    (54, 54, 64, 64, 3, 3, 1, 1),
    (27, 27, 128, 128, 3, 3, 1, 1),
    (14, 14, 48, 512, 5, 5, 1, 2),
    (7, 7, 128, 832, 5, 5, 1, 2),
    (112, 112, 128, 64, 3, 3, 1, 1),
    (56, 56, 256, 128, 3, 3, 1, 1),
    (39, 174, 128, 64, 5, 5, 2, 1),
    (19, 87, 256, 128, 5, 5, 2, 1),
    (7, 7, 512, 512, 3, 3, 1, 1),
    (7, 7, 2048, 1024, 1, 1, 2, 0),
)


def by_numpy(x, w, stride, padding):
    """im2col, and one product."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    n, c, p, q, r, s = windows.shape
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * r * s, p * q)
    return (w.reshape(len(w), -1) @ columns).reshape(n, -1, p, q)


def calls(x, w, stride, padding, threads):
    """What is timed, by column of the table."""
    options = {"stride": stride, "padding": padding}
    found = {}
    for layout in ("NCHW", "NHWC", "CHWN"):
        given = np.ascontiguousarray(x.transpose(["NCHW".index(letter) for letter in layout]))
        found[layout] = partial(smallmm.conv2d, given, w, layout=layout, **options)
    found["im2col and NumPy"] = partial(by_numpy, x, w, **options)
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(threads)
    found["PyTorch"] = partial(torch.nn.functional.conv2d, *map(torch.as_tensor, (x, w)), **options)
    return found


def rows(shapes, images, threads):
    rng = np.random.default_rng(0)
    for number in shapes:
        p, q, k, c, r, s, stride, padding = SHAPES[number - 1]
        h, w = (stride * (n - 1) + size - 2 * padding for n, size in ((p, r), (q, s)))
        x = rng.standard_normal((images, c, h, w), dtype=np.float32)
        filters = rng.standard_normal((k, c, r, s), dtype=np.float32)
        contenders = calls(x, filters, stride, padding, threads)
        expected = by_numpy(x.astype(float), filters.astype(float), stride, padding)
        for name, call in contenders.items():
            axes = [name.index(letter) for letter in "NCHW"] if len(name) == 4 else range(4)
            result = np.asarray(call()).transpose(axes)
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())
        flops = 2 * expected.size * c * r * s
        times = measure(contenders, repetitions=1, least=3)
        yield {
            "shape": f"{number}: {images} x {c} x {h} x {w}, {k} x {r} x {s}",
            **{name: f"{flops / time.median:.1f}" for name, time in times.items()},
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    numbers = range(1, len(SHAPES) + 1)
    parser.add_argument("--shape", type=int, nargs="+", choices=numbers, default=numbers, metavar="1-14")
    parser.add_argument("--images", type=int, default=1, help="N of every shape")
    parser.add_argument("--threads", type=int, default=smallmm.get_num_threads(), help="NumPy's are its own")
    options = parser.parse_args()
    with smallmm.threads(options.threads):
        found = list(rows(options.shape, options.images, options.threads))
    table(list(found[0]), [list(row.values()) for row in found])


if __name__ == "__main__":
    main()

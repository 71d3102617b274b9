"""Products of few large or deep matrices, and convolutions, on a GPU beside PyTorch (cuBLAS, cuDNN).

    python -m benchmarks.device.shapes --topic deep            # the products of Tillet and Cox, 2017, Table 4
    python -m benchmarks.device.shapes --topic tensor          # the same of halves, by tensor cores
    python -m benchmarks.device.shapes --topic convolution     # their 14 convolutions

Each row is the median of calls replayed in a CUDA graph, which take turns at operands that exceed L2 in
all. In rows of convolutions m, k, n are those of the product: filters, terms of a sum, outputs. `percent`
is the compulsory traffic over the time, as a share of the copy. Rows go to
benchmarks/results/device/shapes-<device>-<topic>.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import smallmm
from smallmm._tools import bench
from smallmm._tools.contenders import PEERS, Contender, our_own

from ..host.convolution import SHAPES
from .suite import SIZES, Problem, Run, main, progress

COLD = 128 << 20  # bytes of operands that take turns: more than L2 has
IMAGES = (16, 16, 16, 16, 8, 8, 16, 16, 8, 8, 16, 16, 16, 16)
PRODUCTS = [  # which, layout (T: stored by columns), m, n, k
    *(("LINPACK", "NT", n, n, n) for n in (512, 1024, 2048)),
    *(("DeepBench F", "NN", 2560, n, 2560) for n in (16, 32, 64, 128)),
    *(("DeepBench B", "TN", 2560, n, 2560) for n in (16, 32, 64, 128)),
    *(("ICA", "NT", n, n, 60_000) for n in (32, 64, 256)),
    *(("SVD", "NT", n, n, 32) for n in (896, 3456, 4096)),
    *(("A^T A", "TN", n, n, 1_000_000) for n in (2, 4, 8, 16)),
]
ERRORS = {"f32": 1e-4, "f64": 1e-12, "f16": 2e-3, "bf16": 1e-2}  # at most, as parts of the largest element


def graph_of(run: Run, calls: list[Callable[[], Any]]) -> bench.Timing:
    """Of one of the calls, which take turns."""

    def all_of_them() -> None:
        for call in calls:
            call()

    found = run.timer.replay(all_of_them, 1)
    each = (x / len(calls) for x in (found.median, found.low, found.high))
    return bench.Timing(*each, found.samples)


def compare(
    run: Run,
    problem: Problem,
    moved: int,
    sets: list[Any],
    contenders: list[tuple[Contender, str, Any]],
    **more: Any,
) -> None:
    """Ours and the others on several sets of operands; all results are near the first's in float64."""
    _, _, call = contenders[-1]
    expected = call(*(x.double() for x in sets[0]))
    for who, words, call in contenders:
        found = call(*sets[0]).double()
        error = float((found - expected).abs().max() / expected.abs().max())
        assert error < ERRORS[problem["dtype"]], (words, problem, error)
        run.time(who, problem, graph_of(run, [partial(call, *x) for x in sets]), 1, moved, words, **more)


def products(run: Run, dtypes: dict[str, str], words: str, ours: Callable[..., Any]) -> None:
    """Ours and PyTorch's, with outputs of their own, as PyTorch has in a graph. Elements are such that no sum
    overflows float16."""
    import torch

    for dtype, name in dtypes.items():
        for which, layout, m, n, k in progress(PRODUCTS, len(PRODUCTS), f"products {dtype}"):
            if run.quick and m * n * k > 1e9:
                continue
            moved = (m * k + k * n + m * n) * SIZES[dtype]
            number, scale = getattr(torch, name), k**-0.5

            def random(rows: int, cols: int, letter: str, number: Any = number, scale: float = scale) -> Any:
                shape = (cols, rows) if letter == "T" else (rows, cols)
                x = (torch.rand(shape, device="cuda", dtype=torch.float64) * scale).to(number)
                return x.mT if letter == "T" else x

            sets = [(random(m, k, layout[0]), random(k, n, layout[1])) for _ in range(max(COLD // moved, 1))]
            if which == "A^T A":
                sets = [(a, a.mT) for a, _ in sets]
                moved -= n * k * SIZES[dtype]
            problem = {"op": "MATMUL", "dtype": dtype, "m": m, "k": k, "n": n}
            theirs = (PEERS["PyTorch"](), "torch.matmul", torch.matmul)
            compare(run, problem, moved, sets, [(our_own(), words, ours), theirs], which=which, layout=layout)


def deep(run: Run, options: argparse.Namespace) -> None:
    products(run, {"f32": "float32", "f64": "float64"}, "smallmm.matmul", smallmm.matmul)


def tensor(run: Run, options: argparse.Namespace) -> None:
    ours = partial(smallmm.matmul, precision="tensor")
    products(run, {"f16": "float16", "bf16": "bfloat16"}, "smallmm.matmul(precision='tensor')", ours)


def convolution(run: Run, options: argparse.Namespace) -> None:
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    for number, (images, shape) in progress(
        enumerate(zip(IMAGES, SHAPES, strict=True), 1), len(SHAPES), "convolution f32"
    ):
        for plain in (True, False):  # as ISAAC timed them, and with DeepBench's strides and paddings
            p, q, k, c, r, s, stride, padding = shape
            stride, padding = (1, 0) if plain else (stride, padding)
            if plain and shape[-2:] == (1, 0):
                continue
            if run.quick and number not in (3, 7):
                continue
            h, w = (stride * (n - 1) + size - 2 * padding for n, size in ((p, r), (q, s)))
            moved = 4 * (images * c * h * w + k * c * r * s + images * k * p * q)
            sets = [
                (torch.randn(images, c, h, w, device="cuda"), torch.randn(k, c, r, s, device="cuda"))
                for _ in range(max(COLD // moved, 1))
            ]
            words = {"stride": stride, "padding": padding}
            problem = {"op": "conv2d", "dtype": "f32", "m": k, "k": c * r * s, "n": images * p * q}
            contenders = [
                (our_own(), "smallmm.conv2d", partial(smallmm.conv2d, **words)),
                (
                    PEERS["PyTorch"](),
                    "torch.nn.functional.conv2d",
                    partial(torch.nn.functional.conv2d, **words),
                ),
            ]
            compare(run, problem, moved, sets, contenders, which=number, **words)


if __name__ == "__main__":
    main("shapes", __doc__.partition("\n\n")[0], {"deep": deep, "tensor": tensor, "convolution": convolution})

"""The main job on real input: at every pixel of a photograph, the covariance of the colours around it.

    python -m smallmm demo [picture.png]

The photograph comes with matplotlib. Its 307,200 covariances (3 x 3) are one product of overlapping windows
(25 x 3) with themselves, checked against NumPy and timed beside it; the picture shows what they say.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import smallmm

from ._tools.timing import measure

SIZE = 5  # pixels across a neighbourhood


def photograph() -> np.ndarray:
    """The photograph that comes with matplotlib, Grace Hopper by James S. Davis: (600, 512, 3) uint8."""
    from matplotlib.cbook import get_sample_data
    from matplotlib.pyplot import imread

    with get_sample_data("grace_hopper.jpg") as file:
        return imread(file)


def windows(image: np.ndarray, size: int = SIZE) -> np.ndarray:
    """The neighbourhood of every pixel, as the rows of a matrix each: overlapping views, not copies.

    image is (height, width, 3); the result is (height, width + size - 1, size * size, 3), read-only. The last
    size - 1 matrices of each row wrap around the border and mean nothing: they are there because a batch that
    steps evenly through memory, seams included, is one run for the threads instead of one per row.

    The image is copied `size` times, not size^2: once cut into columns of `size` pixels, which lie one after
    another in memory, so that any `size` columns side by side are a window.
    """
    height, width, channels = image.shape
    before, after = size // 2, size - 1 - size // 2
    padded = np.pad(image, ((before, after + 1), (before, after), (0, 0)), mode="edge")
    columns = np.ascontiguousarray(sliding_window_view(padded, size, axis=0).swapaxes(-1, -2))
    width += size - 1
    flat = sliding_window_view(columns.ravel(), size * size * channels)[:: size * channels]
    return flat[: height * width].reshape(height, width, size * size, channels)


def covariance(x: np.ndarray) -> np.ndarray:
    """Covariances (..., 3, 3) of the rows of x (..., count, 3): the mean of their outer products, less the
    outer product of their mean. The values should lie around zero, or the difference cancels digits."""
    count = x.shape[-2]
    mean = smallmm.batched_matmul(np.full((1, count), 1 / count, x.dtype), x)
    products = smallmm.batched_matmul(x.mT, x)
    return smallmm.batched_matmul(mean.mT, mean, out=products, alpha=-1, beta=1 / count)


def machine() -> str:
    """What times depend on, for the first line of a notebook."""
    config = smallmm.show_config("dicts")
    versions = (f"{name} {config[name]}" for name in ("python", "numpy", "smallmm"))
    return f"{config['cpu']}, {config['isa']}, {config['threads']} threads; {', '.join(versions)}"


def times(contenders: dict[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """Median seconds of each contender, run in turn."""
    return {name: t.median / 1e9 for name, t in measure(contenders, budget_s=0, least=rounds).items()}


def compare(x: np.ndarray) -> dict[str, float]:
    """Median seconds of the product x.mT @ x by NumPy and by smallmm, into memory that is there."""
    out = np.empty((*x.shape[:-2], x.shape[-1], x.shape[-1]), x.dtype)

    def ours(threads: int) -> None:
        with smallmm.threads(threads):
            smallmm.batched_matmul(x.mT, x, out=out)

    most = smallmm.get_num_threads()
    contenders: dict[str, Callable[[], Any]] = {
        "np.matmul": lambda: np.matmul(x.mT, x, out=out),
        "smallmm, 1 thread": lambda: ours(1),
    }
    if most > 1:
        contenders[f"smallmm, {most} threads"] = lambda: ours(most)
    return times(contenders)


def table(seconds: dict[str, float], matrices: int) -> str:
    """The times as text; how many times faster than the first each is."""
    first = next(iter(seconds.values()))
    lines = [f"{'':20}{'ms':>8}{'ns per matrix':>16}{'times faster':>15}"]
    for name, s in seconds.items():
        lines.append(f"{name:20}{s * 1e3:8.2f}{s * 1e9 / matrices:16.1f}{first / s:15.1f}")
    return "\n".join(lines)


def colour_map(covariances: np.ndarray) -> np.ndarray:
    """What the covariances say, as an image (height, width, 3): the hue is the colour axis along which a
    neighbourhood varies most, the brightness the standard deviation along it, from 2 to 100 levels."""
    variances, axes = np.linalg.eigh(covariances)
    axis = np.abs(axes[..., -1])
    hue = axis / axis.max(axis=-1, keepdims=True)
    deviation = np.sqrt(np.maximum(variances[..., -1:], 2**2))
    return hue * np.clip(np.log(deviation / 2) / np.log(100 / 2), 0, 1)


def draw(image: np.ndarray, shown: np.ndarray, path: Path) -> None:
    """Write the photograph beside its map."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.2), layout="constrained")
    titles = "the photograph", f"how its colours vary, {SIZE} x {SIZE} pixels around each"
    for axes, picture, title in zip(figure.subplots(1, 2), (image, shown), titles, strict=True):
        axes.imshow(picture)
        axes.set_title(title)
        axes.axis("off")
    figure.savefig(path, dpi=120)


def main(path: Path) -> None:
    image = photograph()
    height, width, _ = image.shape
    x = windows(image.astype(np.float32) - 128)
    matrices = x.shape[0] * x.shape[1]
    print(f"{height} x {width} pixels, {matrices} windows of {x.shape[-2]} x {x.shape[-1]} {x.dtype}")
    print(smallmm.explain("batched_matmul", x.mT, x))

    # Whole numbers below 2^24 are exact in float32, and so are these sums: both must give the same.
    if not np.array_equal(smallmm.batched_matmul(x.mT, x), np.matmul(x.mT, x)):
        sys.exit("smallmm and NumPy differ")
    found = covariance(x)[:, :width]
    some = [(i, j) for i in range(0, height, 25) for j in range(0, width, 25)]
    error = max(np.abs(found[at] - np.cov(x[at].T.astype(np.float64), ddof=0)).max() for at in some)
    print("products equal to NumPy's, to the bit")
    print(f"covariances within {error:.1g} of np.cov in float64 ({len(some)} tried)\n")

    print(table(compare(x), matrices))
    draw(image, colour_map(found), path)
    print(f"\npicture: {path.resolve()}")

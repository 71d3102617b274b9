"""Filters and other recurrences on the emulated GPU: the bits are those of the host."""

import os
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("support", "recurrences")]

import paths  # noqa: E402, F401
from test_filters import FORMS, drawn  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402
from smallmm._recurrences.linear import _preceded  # noqa: E402
from smallmm._recurrences.scan import Scan  # noqa: E402
from smallmm._recurrences.scans import scanned  # noqa: E402


def same(function, *arrays, **options):
    expected = function(*arrays, **options)
    found = function(*map(cuda.to_device, arrays), **options)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for x, y in pairs:
        assert (x is None) == (y is None)
        for a, b in zip(x, y, strict=True) if isinstance(y, tuple) else [(x, y)]:
            if b is not None:
                np.testing.assert_array_equal(cuda.to_host(a), b)


def main():
    Scan._by_calls = None  # a kernel runs all of them
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    rng = np.random.default_rng(0)
    {"filters": filters, "others": others}[sys.argv[1]](rng)


def filters(rng):
    for form, dtype in zip(FORMS, ("f4", "f8", "f4"), strict=True):
        given = [x.astype(dtype) for x in drawn(rng, 5, (7,), 3, 2, "f", some_missing=True).values()]
        same(smallmm.kalman_filter, *given, form=form, varying="f", missing=True)


def others(rng):
    in_groups(rng)
    p = np.eye(3) + 0.1 * np.ones((4, 9, 3, 3))
    same(smallmm.rts_smoother, rng.standard_normal((4, 9, 3)), p, 0.9 * p[0], p[0])
    z, f = rng.standard_normal((5, 7, 2)), 0.9 * np.eye(3)
    for form in ("standard", "square_root"):
        arrays = z, np.zeros(3), np.eye(3), f, np.eye(2, 3), np.eye(3), np.eye(2)
        same(smallmm.kalman_filter, *arrays, form=form, smooth=True)
    same(smallmm.linear_recurrence, *(rng.standard_normal(s) for s in ((6, 9), (6, 9), (9,))))
    same(smallmm.linear_recurrence, *(rng.standard_normal(s) for s in ((1, 1, 3, 3), (6, 9, 3), (9, 3))))
    same(scan_by(_preceded, 1, 1, reverse=True), p[0], rng.standard_normal((6, 9, 3, 3)))
    same(smallmm.hmm_forward, *(np.log(rng.random(s)) for s in ((3,), (3, 3), (6, 9, 3))))
    same(smallmm.hmm_viterbi, *(np.log(rng.random(s)) for s in ((3,), (3, 3), (6, 9, 3))))
    decay = smallmm.fuse("(),(n),()->(n)")(lambda t, y, k: -k * y + np.cos(t))
    y, t, k = rng.standard_normal((9, 3)), np.linspace(0, 1, 6), rng.random(9)
    expected = smallmm.rk4(decay, y, t, k)
    y, k = cuda.to_device(y), cuda.to_device(k)
    for times in (t, cuda.to_device(t)):
        np.testing.assert_array_equal(cuda.to_host(smallmm.rk4(decay, y, times, k)), expected)


def in_groups(rng):
    """Series of different lengths, on the host and on the device."""
    z = [rng.standard_normal((n, 2)) for n in (3, 5, 3)]
    model = np.eye(3), np.eye(3), np.eye(2, 3), np.eye(3), np.eye(2)
    x0 = rng.standard_normal((3, 3))
    expected = smallmm.kalman_filter(smallmm.Group(z), x0, *model)
    on_device = map(cuda.to_device, (x0, *model))
    found = smallmm.kalman_filter(smallmm.Group(map(cuda.to_device, z)), *on_device)
    np.testing.assert_array_equal(cuda.to_host(found.loglik), expected.loglik)
    for x, y in zip((*found.x, *found.p), (*expected.x, *expected.p), strict=True):
        np.testing.assert_array_equal(cuda.to_host(x), y)


def scan_by(step, carries, moving, **options):
    """A function of all arrays in a row whose results are in a row, too."""

    def function(*arrays):
        parts = arrays[:carries], arrays[carries : carries + moving], arrays[carries + moving :]
        carry, ys = scanned("scan", step, *parts, **options)
        return *carry, *(ys if isinstance(ys, tuple) else (ys,))

    return function


main()

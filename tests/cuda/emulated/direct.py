"""Calls that were met before, on arrays with DLPack's C exchange API, on the emulated GPU: the bits of the
host, without a plan of their own, and what is refused as in the first call."""

import os
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import exchange  # noqa: E402
import paths  # noqa: E402, F401
from checks import raised  # noqa: E402
from programs import normal, positive, same  # noqa: E402
from test_convolution import CASES, LAYOUTS, in_layout, operands  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402
from smallmm._functions import convolution  # noqa: E402
from smallmm._gpu import device  # noqa: E402


def without_a_plan(function, *arrays):
    """The result of the second call, which must not come to the general path."""
    function(*arrays)
    general, device.call = device.call, None
    try:
        before = len(exchange.calls)
        result = function(*arrays)
        assert len(exchange.calls) > before
        return result
    finally:
        device.call = general


def convolutions():
    rng = np.random.default_rng(0)
    for number, (sizes, options) in enumerate(CASES[::3]):
        x, w = operands(rng, sizes, np.dtype(("f4", "f8")[number % 2]), **options)
        layout = LAYOUTS[number % len(LAYOUTS)]
        x = in_layout(x, layout)
        arrays = cuda.to_device(x), cuda.to_device(w)
        result = without_a_plan(
            lambda x, w, o=options, k=layout: smallmm.conv2d(x, w, layout=k, **o), *arrays
        )
        same(result, smallmm.conv2d(x, w, layout=layout, **options))
    x, w = operands(rng, (2, 3, 6, 6, 4, 3, 3), np.dtype("f4"), 1, (5, 1), (2,))
    given = cuda.to_device(x), cuda.to_device(w)
    same(without_a_plan(smallmm.conv2d, *given), smallmm.conv2d(x, w))
    turned = cuda.to_device(np.ascontiguousarray(x.mT)).mT
    same(smallmm.conv2d(turned, given[1]), smallmm.conv2d(x, w))
    filters = cuda.to_device(np.ascontiguousarray(w.mT)).mT  # whose elements are at no one distance
    composition = convolution._Convolution(x.shape, w.shape, "NCHW", 1, 0, 1, 1)
    assert composition.run_cached(given[0], filters) is NotImplemented
    cached = len(convolution._cache)
    same(smallmm.conv2d(*given, padding=1), smallmm.conv2d(x, w, padding=1))
    assert len(convolution._cache) > cached, "an option is part of the key"
    same(smallmm.conv2d(*given, padding=1), smallmm.conv2d(x, w, padding=1))
    assert "stride is 1.0" in str(raised(smallmm.conv2d, *given, stride=1.0)), (
        "which is equal to what is cached"
    )
    empty = cuda.to_device(x[:, :, :0]), given[1]
    assert without_a_plan(smallmm.conv2d, *empty).shape == (5, 2, 0, 4, 4, 4)
    assert smallmm.explain("conv2d", *given).kernel.startswith("smm_matmul_tiled")


def contractions():
    a, b = normal((5, 4, 3), np.float32), normal((3, 2), np.float32)
    for x, y, axes in ((a, b, 1), (a, b, ((-1,), (0,))), (a, a[0], ([1, 2], [0, 1])), (a, b, ((2,), 0))):
        given = cuda.to_device(x), cuda.to_device(y)
        result = without_a_plan(lambda x, y, k=axes: smallmm.tensordot(x, y, k), *given)
        same(result, smallmm.tensordot(x, y, axes))
    given = cuda.to_device(a), cuda.to_device(b)
    assert "axes is 1.0" in str(raised(smallmm.tensordot, *given, 1.0)), "which is equal to what is cached"
    assert "expected 3 elements along axis 1" in str(raised(smallmm.tensordot, *given, ((2,), (1,))))


def conditions():
    """Singular and tiny matrices, those with a NaN, and others, in every lane."""
    for dtype, n in (
        (np.float32, 2),
        (np.float64, 9),
        (np.float64, 32),
        (np.complex64, 5),
        (np.complex128, 17),
    ):
        a = normal((9, n, n), dtype)
        a[1], a[2, 0, 0], a[3, 1] = 0, np.nan, a[3, 0]
        a[4] *= np.asarray(8 * np.finfo(dtype).tiny, dtype)
        for order in (1, np.inf):
            result = without_a_plan(lambda a, k=order: smallmm.rcond(a, k), cuda.to_device(a))
            same(result, smallmm.rcond(a, order))
            assert cuda.to_host(result)[1] == 0
            assert np.isnan(cuda.to_host(result)[2])


def norms():
    """By products and by powers, of elements whose powers are no normal numbers, too."""
    for dtype in (np.float32, np.float64, np.complex64):
        x = normal((9, 5), dtype)
        x[1], x[2, 0], x[3] = 0, np.nan, x[3] * np.asarray(np.finfo(dtype).max / 64, dtype)
        x[4] *= np.asarray(np.finfo(dtype).tiny, dtype)
        for order in (3, 2.5, -1.5, -3):
            given = cuda.to_device(x)
            result = without_a_plan(lambda x, k=order: smallmm.vector_norm(x, axis=-1, ord=k), given)
            same(result, smallmm.vector_norm(x, axis=-1, ord=order))
    a = positive(4, (6,), np.float64)
    result = without_a_plan(lambda a: smallmm.powm(a, 0.3, assume_a="sym"), cuda.to_device(a))
    same(result, smallmm.powm(a, 0.3, assume_a="sym"))


def main():
    exchange.install()
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.environ["EMULATED_LIBRARY"].encode(), b"")
    for part in sys.argv[1:]:
        globals()[part]()


main()

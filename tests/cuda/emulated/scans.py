"""Scans on the emulated GPU, where one kernel runs all times: the bits are those of the host."""

import os
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from scans import PREFIXES, SCANS, compare, compare_prefixes, drawn, elements  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402
from smallmm._recurrences.associative import _Series  # noqa: E402
from smallmm._recurrences.scan import Scan  # noqa: E402

RNG = np.random.default_rng(0)


def main():
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    if sys.argv[1] == "prefixes":
        return prefixes()
    Scan._by_calls = None  # a kernel runs all of them
    for name in sys.argv[1].split(","):
        for times in (1, 7):
            for batch in ((37,), (), (3, 5)):
                carry, xs, consts = drawn(SCANS[name], RNG, times, batch)
                for options in ({}, {"reverse": True}, {"every": 3}, {"outputs": "last"}):
                    compare(SCANS[name], carry, xs, consts, options, cuda.to_device, cuda.to_host)
    shared_by_all()
    return in_parts()


def shared_by_all():
    """xs that all series read, at an address that is not a multiple of a vector."""
    function = smallmm.fuse(lambda c, x: (0.5 * c + x, c * x), "(n),(n)->(n),(n)")
    carry, x = RNG.standard_normal((37, 4)).astype("f4"), RNG.standard_normal((5, 5)).astype("f4")
    for step in (slice(1, None), slice(0, 4)):
        expected = smallmm.scan(function, carry, x[:, step])
        found = smallmm.scan(function, cuda.to_device(carry), cuda.to_device(x)[:, step])
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(cuda.to_host(a), b)


def prefixes():
    """Associative scans: one call launches the kernels of all levels."""
    by_kernels = _Series.on_device

    def checked(series, arrays, reverse):
        found = by_kernels(series, arrays, reverse)
        assert found is not None or isinstance(arrays[0], np.ndarray)
        return found

    _Series.on_device = checked
    for name, case in PREFIXES.items():
        lengths = ((33, False), (34, True), (65, False), (66, True), (1100, False))
        for times, reverse in lengths if name == "multiplied" else ((34, False), (97, True)):
            arrays = elements(case, RNG, times, name == "sum_of_inverses")
            compare_prefixes(case, arrays, reverse, cuda.to_device, cuda.to_host)
        compare_prefixes(case, arrays, False, apart, cuda.to_host)


def apart(x):
    """On the device with gaps between times, and rows that are columns in memory."""
    x = np.repeat(x, 2, axis=0)
    turned = x.ndim > 2 and x.shape[-1] == x.shape[-2]
    on_device = cuda.to_device(np.ascontiguousarray(x.mT) if turned else x)[::2]
    return on_device.mT if turned else on_device


def in_parts():
    """Several launches, between which progress is shown: the same info as on the host."""
    case = SCANS["solved"]
    carry, xs, _ = drawn(case, RNG, 7, (37,), some_fail=True)
    for options in ({}, {"reverse": True}, {"outputs": "last"}):
        shown = []
        options["progress"] = lambda done, times, shown=shown: shown.append(done)
        given = [tuple(map(cuda.to_device, x)) for x in (carry, xs)]
        expected, found = (smallmm.scan_ex(case.function, *x, **options) for x in ((carry, xs), given))
        assert shown == 2 * [1, 2, 3, 4, 5, 6, 7]
        assert found.time.max() > 0
        for x, y in zip((found.info, found.time), (expected.info, expected.time), strict=True):
            np.testing.assert_array_equal(x, y)
        for x, y in zip((*found.carry, *found.ys), (*expected.carry, *expected.ys), strict=True):
            np.testing.assert_array_equal(cuda.to_host(x), y)


main()

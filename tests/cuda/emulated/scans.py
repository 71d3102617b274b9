"""Scans on the emulated GPU, where one kernel runs all times: the bits are those of the host."""

import os
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from scans import SCANS, compare, drawn  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402
from smallmm._recurrences.scan import Scan  # noqa: E402

RNG = np.random.default_rng(0)


def main():
    Scan._by_calls = None  # a kernel runs all of them
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    for name in sys.argv[1].split(","):
        for times in (1, 7):
            for batch in ((37,), (), (3, 5)):
                carry, xs, consts = drawn(SCANS[name], RNG, times, batch)
                for options in ({}, {"reverse": True}, {"every": 3}, {"outputs": "last"}):
                    compare(SCANS[name], carry, xs, consts, options, cuda.to_device, cuda.to_host)
    in_parts()


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

"""Calls on the emulated GPU while a CUDA graph is captured: what waits for the device says so."""

import ctypes
import os

import numpy as np
from checks import raised

import smallmm
from smallmm import _core, cuda


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    driver, graph = ctypes.CDLL(os.environ["EMULATED_LIBRARY"]), ctypes.c_void_p()
    a = cuda.to_device(2 * np.eye(3)[None].repeat(4, 0))
    system = smallmm.fuse(lambda a: smallmm.inv(a) + 1, "(n,n)->(n,n)")
    assert not _core.cuda_is_capturing(0, 0)
    expected = cuda.to_host(smallmm.solve_ex(a, a).x), cuda.to_host(system.ex(a)[0])
    smallmm.solve(a, a)
    driver.cuStreamBeginCapture_v2(None, 0)
    assert _core.cuda_is_capturing(0, 0)
    found = smallmm.solve_ex(a, a).x, system.ex(a)[0]
    message = "no CUDA graph can have it, because it waits for the device to say which matrices fail; "
    assert str(raised(smallmm.solve, a, a)) == f"solve: {message}solve_ex does not wait"
    assert str(raised(system, a)) == f"<lambda>: {message}<lambda>.ex does not wait"
    driver.cuStreamEndCapture(None, ctypes.byref(graph))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(cuda.to_host(x), y)


main()

"""Compositions on the emulated GPU, where one kernel runs all steps: the bits of the host, in the second call
of a kind as in the first."""

import os
from itertools import cycle

import numpy as np
from checks import raised
from programs import normal, positive, same

import smallmm
from smallmm import _core, cuda

FUNCTIONS = {
    "matrix_norm": smallmm.matrix_norm,
    "matrix_norm, 1": lambda a: smallmm.matrix_norm(a, ord=1),
    "matrix_norm, -inf": lambda a: smallmm.matrix_norm(a, ord=-np.inf),
    "matrix_norm, nuc": lambda a: smallmm.matrix_norm(a, ord="nuc"),
    "cond": smallmm.cond,
    "cond, 1": lambda a: smallmm.cond(a, 1),
    "matrix_rank": smallmm.matrix_rank,
    "matrix_rank, tol": lambda a: smallmm.matrix_rank(a, 0.25),
    "rcond": smallmm.rcond,
    "rcond, inf": lambda a: smallmm.rcond(a, np.inf),
    "trace": smallmm.trace,
    "matrix_power": lambda a: smallmm.matrix_power(a, 5),
    "matrix_power, -2": lambda a: smallmm.matrix_power(a, -2),
    "pinv": smallmm.pinv,
    "pinv, hermitian": lambda a: smallmm.pinv(a, 1e-3, hermitian=True),
    "orthogonalize": smallmm.orthogonalize,
    "polar": smallmm.polar,
    "sqrtm": lambda a: smallmm.sqrtm(a, assume_a="sym"),
}


def main():
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.environ["EMULATED_LIBRARY"].encode(), b"")
    of_complex = ["matrix_norm", "matrix_norm, 1", "rcond", "rcond, inf", "trace", "matrix_power"]
    for dtype, names in ((np.float32, FUNCTIONS), (np.complex128, of_complex)):
        for name, n in zip(names, cycle((2, 5)), strict=False):  # of a thread, and of several threads
            a = positive(n, (3, 4), dtype)
            a[0, 1] *= np.asarray(np.finfo(dtype).max / 4 / abs(a[0, 1]).max(), dtype)
            a[2, 1] *= np.asarray(np.finfo(dtype).tiny, dtype)
            expected = FUNCTIONS[name](a)
            on_device = cuda.to_device(a)
            for _ in range(2):
                same(FUNCTIONS[name](on_device), expected)
    a = normal((4, 3, 3), np.float64)
    a[2] = 0
    error = raised(smallmm.matrix_power, cuda.to_device(a), -1)
    assert isinstance(error, smallmm.LinAlgError)
    assert cuda.to_host(error.info).tolist() == [0, 0, 1, 0]
    vectors = normal((6, 5), np.float64)
    same(smallmm.vector_norm(cuda.to_device(vectors), axis=-1), smallmm.vector_norm(vectors, axis=-1))


main()

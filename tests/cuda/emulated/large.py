"""Matrices above order 32 on the emulated GPU, by kernels of blocks: `large.py eigh 33 f64`, or `large.py qr
100x60 c64`. Results are those of the host, for good matrices, hard ones and such as are not finite."""

import os
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from matrices import deficient, extreme, good, not_finite  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402

FUNCTIONS = {
    "qr": [smallmm.qr, lambda a: smallmm.qr(a, mode="r")],
    "qr complete": [lambda a: smallmm.qr(a, mode="complete"), lambda a: smallmm.qr(a, mode="raw")],
    "lstsq": [lambda a, b: smallmm.lstsq_ex(a, b)],
    "eigh": [smallmm.eigh_ex, smallmm.eigvalsh_ex],
    "eigh upper": [lambda a: smallmm.eigh_ex(a, lower=False)],
    "svd": [lambda a: smallmm.svd_ex(a, full_matrices=False), smallmm.svdvals_ex],
    "svd full": [smallmm.svd_ex],
    "eig": [smallmm.eig_ex, smallmm.eigvals_ex],
    "schur": [smallmm.schur_ex],
    "sqrtm": [smallmm.sqrtm_ex],
}


def leaves(x):
    return [z for y in x for z in leaves(y)] if isinstance(x, tuple) else [x]


def check(name, m, n, dtype):
    rng = np.random.default_rng(m * n)
    with np.errstate(all="ignore"):
        kinds = [np.asarray(kind(rng, m, n, dtype))[:1] for kind in (good, deficient, extreme, not_finite)]
    a = np.concatenate(kinds)
    operands = [a, rng.standard_normal((len(a), m, 3)).astype(dtype)] if name == "lstsq" else [a]
    for function in FUNCTIONS[name]:
        with np.errstate(all="ignore"):
            expected = leaves(function(*operands))
        found = leaves(function(*map(cuda.to_device, operands)))
        assert len(found) == len(expected)
        for i, (x, y) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_array_equal(cuda.to_host(x), y, f"{name} {m} x {n} {dtype}: result {i}")


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    name, *cases = sys.argv[1:]
    for size, dtype in zip(cases[::2], cases[1::2], strict=True):
        m, _, n = size.partition("x")
        check(name, int(m), int(n or m), np.dtype(dtype.replace("f", "float").replace("c", "complex")))


if __name__ == "__main__":
    main()

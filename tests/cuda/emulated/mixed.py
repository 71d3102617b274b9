"""Systems in mixed precision, whose arrays are on the emulated GPU: results are those of the host."""

import os

import numpy as np

import smallmm
from smallmm import _core, cuda


def systems(rng, n, k):
    """Of conditions that take none to many steps and more than there are, and whose elements overflow
    float32, are singular there or in float64, or not finite. Right-hand sides differ in size, too."""
    u, v = (np.linalg.qr(rng.standard_normal((9, n, n)))[0] for _ in "uv")
    conditions = np.geomspace(1, 1e9, 9)[:, None, None]
    a = (u * conditions ** -np.linspace(0, 1, n)) @ v
    others = np.stack([a[0] * 1e39, a[1] * 1e-300, a[2] * 0, a[3], a[4], a[5] * 1e-42])
    others[3, 0, -1], others[4, -1, 0] = np.nan, -np.inf
    a = np.concatenate([a, others, np.eye(n)[None]])
    b = rng.standard_normal((len(a), n, k)) * 10.0 ** rng.integers(-150, 150, (len(a), 1, k))
    b[1], b[2, 0], b[3, -1, -1] = 0, np.nan, np.inf
    return a, b


def same(function, *arrays):
    found = function(*map(cuda.to_device, arrays))
    for x, y in zip(found, function(*arrays), strict=True):
        np.testing.assert_array_equal(cuda.to_host(x), y)
    return found


def main():
    cuda.device_name()
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), b"")
    rng = np.random.default_rng(0)

    def mixed(a, b, **options):
        return tuple(x for x in smallmm.linsolve_ex(a, b, precision="mixed", **options) if x is not None)

    steps = set()
    for n, k in ((1, 1), (3, 3), (8, 1), (13, 40), (32, 2)):
        a, b = systems(rng, n, k)
        *_, iterations = same(mixed, a, b)
        steps |= set(cuda.to_host(iterations).tolist())
        same(lambda a, b: mixed(a, b, assume_a="pos"), a @ a.mT, b)
        same(lambda a, b: mixed(a, b, assume_a="sym"), a + a.mT, b)
        same(mixed, a.mT, b[:1])
        same(mixed, a[0], b[0, :, 0])
        plan = smallmm.explain("linsolve", cuda.to_device(a), cuda.to_device(b), precision="mixed")
        assert "smm_mixed_lanes_f64" in plan.kernel, plan.kernel
    assert steps > {-31, -3, -2, 0, 1, 2, 3}, steps
    assert max(steps) > 6, steps
    for shape, columns in (((2, 3, 3), 0), ((0, 3, 3), 2), ((2, 0, 0), 1), ((2, 40, 40), 1)):
        a = rng.standard_normal(shape)
        same(mixed, a, rng.standard_normal((*shape[:-1], columns)))


if __name__ == "__main__":
    main()

"""Arrays of smallmm.cuda on the emulated GPU, `own.py namespace` or `functions`: their operators and their
functions of the array API are NumPy's, and what no one kernel computes has the bits of the host.
`own.py numba`: arrays that have no operations are seen as such ones."""

import operator
import os
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
from checks import raised
from programs import normal, positive, same

import smallmm
from smallmm import _core, cuda


def moved(x):
    """Arrays on the device, in tuples and lists, too."""
    if isinstance(x, tuple | list):
        return type(x)(map(moved, x))
    return cuda.to_device(x) if isinstance(x, np.ndarray) else x


def agree(function, *arrays, **options):
    same(function(*moved(arrays), **options), function(*arrays, **options))


def namespace():
    x, z = normal((2, 3, 4), np.float64), normal((3, 4), np.complex128)
    n = np.arange(12, dtype=np.int32).reshape(3, 4)
    on_device = cuda.to_device(x)
    xp = on_device.__array_namespace__()
    for word, *arrays in (
        ("sub", 1.5, x), ("truediv", x, x[0]), ("mul", z, x), ("mul", n, 3), ("add", n, np.float64(3)),
        ("pow", x, 2), ("eq", z, z.real), ("and_", x > 0, n > 3), ("invert", x > 0), ("matmul", x, x[0].T),
        ("mod", x, 2),
    ):  # fmt: skip
        function = getattr(operator, word)
        if word == "mod":
            assert type(raised(function, *moved(arrays))) is TypeError
        else:
            agree(function, *arrays)
    for word, *arguments, options in (
        ("sum", x > 0, {"axis": -1}), ("max", n, {"axis": (0, 1), "keepdims": True}),
        ("any", x > 1, {"axis": (-2, -1)}), ("concat", [n, n[:1]], {"axis": 0}),
        ("stack", [n, n], {"axis": -1}), ("take", x, [3, 0, 1], {"axis": 2}), ("tril", x, {"k": 1}),
        ("flip", z, {"axis": 0}), ("where", n > 3, n, 0, {}), ("astype", x, np.int64, {}),
        ("astype", n, np.bool, {}), ("full_like", x, np.nan, {}), ("reshape", n[..., :2], (2, -1), {}),
        ("imag", z, {}), ("isfinite", x, {}),
    ):  # fmt: skip
        expected = getattr(np, word)(*arguments, **options)
        same(getattr(xp, word)(*moved(arguments), **options), np.asarray(expected))
    for word in ("sinh", "atanh"):
        for y in (1e-9 * x, np.tanh(x), 1e-9 * z, z / 9):
            found = cuda.to_host(getattr(xp, word)(cuda.to_device(y)))
            expected = (np.arctanh if word == "atanh" else np.sinh)(y)
            np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert (on_device == on_device).all()
    assert not (on_device != on_device).any()
    assert bool(on_device[0, 0, 0] == x[0, 0, 0])
    error = raised(operator.add, on_device, x)
    assert "is a numpy.ndarray on the host but argument 0 is a smallmm.cuda.DeviceArray" in str(error), error
    assert str(raised(operator.add, x, on_device)).startswith(
        "add: argument 0 is a numpy.ndarray on the host"
    )


def functions():
    n = 4
    a, b = positive(n, (3,)), normal((3, n, 2), np.float64)
    hard = np.stack([a[0], a[1] * 1e60, np.vander(np.linspace(1, 2, n)) ** 9, np.zeros((n, n))])
    kinds = np.concatenate([np.tril(a), np.triu(np.tril(a, 1), -1), a, b @ b.mT + np.tri(n)])
    packed = a[:, *np.tril_indices(n)]
    for function, *arrays, options in (
        (smallmm.linsolve_ex, hard, b[0], {"precision": "mixed"}),
        (smallmm.linsolve_ex, hard, b[0], {"ill_conditioned": True}),
        (smallmm.linsolve, a, b[0], {"ill_conditioned": True}),
        (smallmm.linsolve, kinds, b[0], {"assume_a": "auto"}),
        (smallmm.linsolve, packed, b, {"assume_a": "sym", "packed": True, "lower": False}),
        (smallmm.lu, normal((2, 18, 18), np.float64), {"p_indices": True}),
        (smallmm.einsum, "bij,bjk,bk->bi", a, a, b[..., 0], {}),
        (smallmm.einsum, "bii->b", a, {}),
        (smallmm.sliding, a, {"window": 3, "axis": 1}),
    ):
        agree(function, *arrays, **options)
    error = raised(smallmm.inv, cuda.to_device(np.eye(140)))
    assert type(error) is NotImplementedError
    assert "copy them to the host, or pass arrays of PyTorch" in str(error), error


def numba():
    """Of a library without operations, whose arrays lie where smallmm's own lie."""

    class Array:
        __module__ = "numba.cuda"

        def __init__(self, x):
            self.__cuda_array_interface__ = {**x.__cuda_array_interface__, "stream": None}
            self.own, self.shape, self.dtype, self.ndim = x, x.shape, x.dtype, x.ndim

        def __getitem__(self, index):
            return Array(self.own[index])

        def copy_to_host(self):
            return cuda.to_host(self.own)

    empty = cuda.to_device(np.empty(1)).empty
    module = ModuleType("numba")
    module.cuda = SimpleNamespace(
        gpus=[nullcontext()],
        device_array=lambda shape, dtype: Array(empty(shape, dtype)),
        to_device=lambda x: Array(cuda.to_device(x)),
    )
    sys.modules["numba"] = module

    @smallmm.fuse("(n,n),(n)->(n)")
    def steps(a, x):
        return 0.5 * smallmm.solve_tridiagonal(a[0, 1:], a[1], a[0, 1:], x)

    a, x = positive(4, (3,)), normal((3, 4), np.float64)
    bad = np.stack([a[0], np.zeros((4, 4))])
    for function, *arrays in (
        (smallmm.matmul, a, a.astype(np.float32)),
        (smallmm.trace, positive(46, (2,))),
        (steps, a, x),
        (steps.ex, bad, x[0]),
    ):
        found, expected = function(*map(module.cuda.to_device, arrays)), function(*arrays)
        found, expected = (y if isinstance(y, tuple) else (y,) for y in (found, expected))
        for ours, theirs in zip(found, expected, strict=True):
            assert type(ours) is Array
            np.testing.assert_array_equal(ours.copy_to_host(), theirs)


if __name__ == "__main__":
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.environ["EMULATED_LIBRARY"].encode(), b"")
    {"namespace": namespace, "functions": functions, "numba": numba}[sys.argv[1]]()

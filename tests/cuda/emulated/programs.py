"""Fused functions on the emulated GPU, where one kernel runs all steps, or one each: `programs.py results`,
`large`, `derivatives` or `failures`. The bits are those of the host, whatever the number of threads of a
matrix and the layouts."""

import contextlib
import ctypes
import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
from ml_dtypes import bfloat16

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from checks import raised  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda, fuse  # noqa: E402
from smallmm._derivatives.backward import backward_of, backward_of_plan  # noqa: E402
from smallmm._functions import tensors  # noqa: E402
from smallmm._programs import cuda_kernel, cuda_launch  # noqa: E402
from smallmm._statistics import moments, regression  # noqa: E402

GPU = ctypes.CDLL(os.environ["EMULATED_LIBRARY"])
RNG = np.random.default_rng(0)
COUNT = 37  # matrices: of no whole number of warps


def arrays_of(x):
    return [z for y in x for z in arrays_of(y)] if isinstance(x, tuple) else [x]


def positive(n, batch=(), dtype=np.float64):
    a = normal((*batch, n, n), np.result_type(dtype, np.float64))
    return (a @ a.mT.conj() + n * np.eye(n)).astype(dtype)


def normal(shape, dtype):
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def on_device(x):
    return cuda.to_device(x) if isinstance(x, np.ndarray) and x.ndim else x


def same(found, expected):
    for x, y in zip(arrays_of(found), arrays_of(expected), strict=True):
        if y is None:
            assert x is None
            continue
        x = cuda.to_host(x)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if x.dtype == bfloat16:
            x, y = x.astype(np.float32), y.astype(np.float32)
        np.testing.assert_array_equal(x, y)
        if y.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(x[x == x]), np.signbit(y[y == y]))


def forget(function):
    """Its records, and the kernels of calls that it has met."""
    function._plans.clear()
    function._program_cache.clear()


def check(function, *arrays, lanes=0, moved=None, **options):
    """moved: the arrays on the device, if they are not to lie as `to_device` puts them."""
    expected = function.ex(*arrays, **options)
    cuda_launch.kernel_of = partial(cuda_kernel.kernel_of, lanes=lanes)
    forget(function)
    moved = list(map(on_device, arrays)) if moved is None else moved
    same(function.ex(*moved, **options), expected)
    plan = function._plans[next(iter(function._plans))]
    assert not plan.why_not_on_device, plan.why_not_on_device
    forget(function)
    cuda_launch.kernel_of = cuda_kernel.kernel_of


@fuse("(n,n),(n,n),(n,k)")
def systems(a, p, b):
    """Of general and of positive definite matrices."""
    lu, pivots = smallmm.lu_factor(a)
    sign, logarithm = smallmm.slogdet(a)
    x = smallmm.lu_solve((lu, pivots), b), smallmm.lu_solve((lu, pivots), b, trans="T")
    y = smallmm.solve(a, b), smallmm.inv(a), smallmm.det(a), sign, logarithm, lu, pivots
    lower, upper = smallmm.cholesky(p), smallmm.cholesky(p, upper=True)
    z = smallmm.cho_solve((lower, True), b), smallmm.cho_solve((upper, False), b)
    t = smallmm.solve_triangular(lower, b, lower=True), smallmm.solve_triangular(upper, b, lower=False)
    u = smallmm.solve(p, b, assume_a="pos"), smallmm.solve(p, b, assume_a="pos", lower=True)
    return *x, *y, lower, upper, *z, *t, *u, smallmm.solve_triangular(p, b, lower=True, unit_diagonal=True)


@fuse("(m,n),(m,k)")
def factors(a, b):
    """Of rectangular and of Hermitian matrices."""
    s = a @ a.mT.conj()
    w, v = smallmm.eigh(s)
    u, values, vt = smallmm.svd(a)
    x, residuals, rank = smallmm.lstsq(a, b)
    first = *smallmm.lu_factor(a), *smallmm.qr(a), *smallmm.qr(a, mode="complete")
    first += smallmm.qr(a, mode="r"), *smallmm.qr(a, mode="raw")
    second = w, (v * np.sqrt(abs(w))) @ v.mT.conj(), smallmm.eigvalsh(s, UPLO="U"), x, residuals, rank
    third = u, values, vt, *smallmm.svd(a, full_matrices=False), smallmm.pinv(a), smallmm.expm(s)
    upper = smallmm.ldl_factor(s, lower=False)
    fourth = *upper, smallmm.ldl_solve(*upper, b, lower=False), smallmm.solve(s, b, assume_a="her")
    return *first, *second, *third, *fourth


@fuse("(m,n),(n),()")
def shapes(a, b, c):
    """Views, joins, reductions, constants, truth."""
    table = np.arange(6.0)
    return (
        a.mT @ a,
        smallmm.batched_matmul(a, a.mT, alpha=c),
        np.concatenate([a, b[None] * c], axis=0)[::-1],
        np.stack([b, -b])[:, ::2],
        a.sum(axis=0),
        np.max(a),
        np.cumsum(b),
        np.tril(a) + table[: a.shape[1]],
        (a > c).all(axis=0),
        np.where(b > 0, b, c),
        np.linalg.norm(a),
        np.diagonal(a),
        a.reshape(-1)[1:],
    )


@fuse("(m,n)")
def sums(a):
    """Of chunks of 64 elements, which end with one that has fewer, or none."""
    return a.sum(), a.mean(), np.linalg.norm(a), abs(a).sum(), (a @ a.mT).sum()


@fuse
def functions(x, y):
    xp = x.__array_namespace__()
    return (
        *(getattr(xp, name)(x) for name in ("exp", "expm1", "sin", "cos", "tanh", "erf", "erfc", "ndtr")),
        *(xp.sqrt(abs(x)), xp.log(abs(x)), xp.log1p(abs(x)), xp.sign(x), xp.floor(x), xp.ceil(x), -x),
        *(x**y, abs(x) ** 1.5, x / y, x < y, x == y, xp.where(x < y, x, y), xp.copysign(x, y), xp.isnan(x)),
        *(xp.minimum(x, y), xp.maximum(x, y), (x > 0) & (y > 0), xp.arctan2(x, y)),
    )


@fuse
def functions_of_complex(x, y):
    xp = x.__array_namespace__()
    return (
        *(x + y, x * y, x / y, abs(x), x.real * y, x.conj(), xp.where(x.real > 0, x, y), x == y),
        *(xp.exp(x), xp.log(x), xp.sqrt(x), xp.sin(x), xp.cos(x), xp.tan(x), xp.tanh(x), x**3, x**y),
    )


@fuse("(m,n),(n,k),()")
def products_of_complex(a, b, c):
    return (
        a @ b,
        c * (a.mT.conj() @ a),
        np.array([1, 2j, 0.5])[: a.shape[0]] @ a,
        a.sum(axis=0),
        np.max(a.real),
    )


def kalman(n, m, dtype=np.float64):
    batch = (COUNT,)
    arrays = [RNG.standard_normal((COUNT, n)), positive(n, batch), RNG.standard_normal((COUNT, m))]
    arrays += [RNG.standard_normal((n, n)), RNG.standard_normal((m, n)), positive(n), positive(m)]
    return [x.astype(dtype) for x in arrays]


def bad_matrices(n, dtype):
    """Good ones, and of every kind a bad one."""
    a = RNG.standard_normal((COUNT, n, n))
    for i, bad in enumerate((0, np.nan, np.inf, 1e300, 1e-300)):
        a[3 * i + 1] = a[3 * i + 1] * bad if i > 2 else bad
    a[17, 0] = 0
    a[19, -1] = a[19, 0]
    a[20] = np.round(3 * a[20])
    if np.dtype(dtype).kind == "c":
        a = a + 1j * a[::-1]
    with np.errstate(all="ignore"):
        return a.astype(dtype)


def results():
    for n, lanes, dtype in (
        (1, 1, "f4"),
        (3, 1, "f8"),
        (4, 2, "f4"),
        (5, 8, "f8"),
        (6, 32, "f4"),
        (3, 1, "c8"),
        (5, 4, "c16"),
    ):
        p = positive(n, (COUNT,), dtype)
        p[5] = -p[5]
        p[7, 0, 0] = np.nan
        p[9, -1] = 0
        b = normal((COUNT, n, 1 if lanes == 8 else 2), dtype)
        check(systems, bad_matrices(n, dtype), p, b, lanes=lanes)
    for m, n, lanes, dtype in ((3, 2, 1, "f8"), (4, 7, 4, "f4"), (2, 3, 1, "c16"), (7, 5, 8, "c8")):
        a = bad_matrices(7, dtype)[:, :m, :n].copy()
        a[25:30, :, 0] = a[25:30, :, 1]
        check(factors, a, normal((COUNT, m, 2), dtype), lanes=lanes)
    for n, m, dtype in ((4, 2, np.float64), (9, 3, np.float32)):
        check(smallmm.kalman_step, *kalman(n, m, dtype))
    a, b = RNG.standard_normal((COUNT, 3, 4)), RNG.standard_normal((COUNT, 4))
    check(shapes, a, b, RNG.standard_normal(COUNT), lanes=8)
    check(shapes, a.astype(np.float32), b, 0.25, lanes=1)
    for m, n, dtype in ((16, 16, "f4"), (64, 4, "f8"), (17, 15, "f8"), (2, 64, "c8")):
        check(sums, normal((COUNT, m, n), dtype), lanes=32)
    chains()
    numbers()
    complex_numbers()
    kinds()
    layouts()


def chains():
    b1, d, u = RNG.random((3, 2)), RNG.random((COUNT, 3, 3, 3)), RNG.random((COUNT, 2, 2, 2))
    check(tensors._sum_factorized, b1, d, u)
    a, b, w = RNG.random((COUNT, 5, 3)), RNG.random((COUNT, 5, 2)), RNG.random((COUNT, 5))
    check(regression._of_matrix, a, b, 0.5, intercept=False)
    check(regression._of_weighted_vector, a, b[..., 0], 0.5, w, intercept=True)
    check(moments._cov, a, ddof=1, rowvar=True)
    check(moments._weighted_cov, a + 1j * b[..., :1], w, ddof=1, rowvar=False)
    check(moments._weighted_corr, a, w, rowvar=False)
    check(smallmm.whiten, RNG.random((COUNT, 6, 3)))
    check(smallmm.whiten, RNG.random((COUNT, 6, 3)), method="zca", eps=0.1)
    check(smallmm.whitening, RNG.random((COUNT, 6, 2)), method="pca")
    x, covariance = RNG.random((COUNT, 4)), positive(4, (COUNT,))
    check(smallmm.mahalanobis, x, np.zeros(4), covariance)
    check(smallmm.congruence, RNG.random((COUNT, 7, 12)), positive(12, (COUNT,)))
    check(smallmm.gaussian_logpdf, x[:, None], x[:5], positive(4))


def numbers():
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-310, 1e300, 2**0.5, 1e22, -3.5, 710])
    x = np.concatenate([special, 4 * RNG.standard_normal(500)])
    y = np.concatenate([special[::-1], 4 * RNG.standard_normal(500)])
    check(functions, x, y)
    with np.errstate(all="ignore"):
        check(functions, x.astype(np.float32), y.astype(np.float32))
    triad = fuse(lambda a, b, c: a + b * c)
    for count in (0, 1, 2, 255, 1024, 1025):
        check(triad, *RNG.random((3, count)))
    check(triad, RNG.random(9).astype(np.float32), 3.0, RNG.random(9).astype(np.float32))


def complex_numbers():
    special = [0, -1, 1e300j, complex(0, np.inf), complex(np.nan, 1), complex(1, 1e22), complex(-2, -0.0)]
    x = np.concatenate([special, 4 * normal(100, "c16")])
    y = np.concatenate([special[::-1], 4 * normal(100, "c16")])
    check(functions_of_complex, x, y)
    with np.errstate(all="ignore"):
        check(functions_of_complex, x.astype("c8"), 1.5 - 2j)
    for lanes, dtype in ((1, "c16"), (4, "c8")):
        a, b = normal((COUNT, 3, 4), dtype), normal((4, 2), dtype)
        moved = [on_device(x) for x in (np.repeat(a, 2, axis=2), b, np.repeat(a[..., 0], 2, axis=1))]
        moved = [moved[0][..., ::2], moved[1], moved[2][:, 2]]
        arrays = [np.array(cuda.to_host(x)) for x in moved]
        check(products_of_complex, *arrays, moved=moved, lanes=lanes)


def kinds():
    """Truth, integers of every width, float16 and bfloat16, as numbers and as matrices."""
    inverse = fuse(lambda a, x: (np.linalg.inv(a) @ x, a.mT, x.astype("f4"), a[1] > x), "(n,n),(n)")
    halves = np.dtype(np.float16), np.dtype(bfloat16)
    for dtypes in ("?bhBH", "iqIQ", halves[:1], halves[1:]):  # with float32 they make float32 or float64

        @fuse(",".join("()" for _ in (*dtypes, "f")))
        def mixed(*arrays):
            *all_a, b = arrays
            return tuple(x for a in all_a for x in (a * 0.5 + b, a, np.where(a > b, a, b), a > 2))

        arrays = [(4 * RNG.random(300)).astype(dtype) for dtype in dtypes]
        check(mixed, *arrays, RNG.random(300).astype(np.float32))
        check(mixed, *arrays, arrays[0][:7, None])
        check(mixed, *arrays, 0.3)
    for dtype, sizes in zip(halves, (((3, 1), (4, 8)), ((4, 1), (3, 2))), strict=True):
        for n, lanes in sizes:
            a, x = positive(n, (COUNT,)).astype(dtype), RNG.standard_normal((COUNT, n)).astype(dtype)
            check(inverse, a, x, lanes=lanes)
        check(smallmm.kalman_step, *kalman(4, 2, dtype))


def layouts():
    """Strided, broadcast, transposed; several batch dimensions; addresses that are no multiples of 16."""
    triad = fuse(lambda a, b, c: a + b * c)
    check(triad, RNG.random((4, 1, 7)), RNG.random((3, 1)), RNG.random((4, 3, 7)))
    a, b, c = RNG.random((3, 6, 40))
    moved = [on_device(a)[::2, 1:8], on_device(b.T.copy()).mT[1::2, ::-2][:, :7], on_device(c)[:3, 9:16]]
    check(triad, *map(cuda.to_host, moved), moved=moved)
    odd = [on_device(x.ravel())[1:100] for x in (a, b, c)]
    check(triad, *map(cuda.to_host, odd), moved=odd)
    for lanes in (1, 4):
        x, p = RNG.random((5, 1, 2, 3)), positive(3, (4, 3))
        moved = [on_device(x)[::-2], on_device(p).mT[:3]]
        check(smallmm.congruence, *(np.array(cuda.to_host(y)) for y in moved), moved=moved, lanes=lanes)
        moved = [on_device(np.array(x.mT)).mT[1], on_device(RNG.random((9, 4, 4)))[1:8:3, :3, 1:]]
        check(smallmm.congruence, *(np.array(cuda.to_host(y)) for y in moved), moved=moved, lanes=lanes)
    check(
        smallmm.kalman_step, *(x[:, None] if x.ndim > 2 else x for x in kalman(2, 1)[:3]), *kalman(2, 1)[3:]
    )


def derivatives():
    """Backward passes, of gradients that lie in any way."""
    for n, dtype in ((3, "f8"), (8, "f4"), (17, "f8"), (32, "f4"), (4, "c16")):
        a, g = normal((2, 9, n, n), dtype)
        w, gw = RNG.standard_normal((2, 9, n)).astype(a.real.dtype)
        info = np.zeros(9, np.int32)
        check(backward_pass("inv"), a, a, info, g)
        check(backward_pass("cholesky"), a, a, info, g)
        check(backward_pass("eigh", (0,)), a, w, a, info, gw)
        check(backward_pass("eigh", (0, 1)), a, w, a, info, gw, g)
    x, p, z, f, h, q, r = kalman(3, 2)
    plan = smallmm.kalman_step._plan(smallmm.kalman_step._operands((x, p, z, f, h, q, r)), {})
    grads = normal(x.shape, "f8"), normal(p.shape, "f8")
    step = backward_of_plan(smallmm.kalman_step, plan, {})._pass((0, 1), (0, 1, 2))
    check(step, x, p, z, f, h, q, r, *grads)


def backward_pass(name, given=(0,)):
    """Of a gufunc: a function of its operand, its results, and the gradients of those that are given."""
    return backward_of(getattr(_core, name))._pass(given, (0,))


@fuse("(n,n),(n,n)")
def of_each_kind(a, b):
    """Steps of every kind, between which are views of any strides."""
    both = (
        np.concatenate([a, b[::-1]], axis=-2),
        np.concatenate([a, b], axis=-1) * 2,
        np.stack([a, b], axis=-1),
    )
    parts = np.exp(a @ b * 0.01).real, abs(a - 3), a / b, np.sqrt(a), (a * b).imag, np.trace(a)
    joined = (a.real + 1j * b.real).T, a.astype(np.complex64).conj()
    return (
        *both,
        *parts,
        *joined,
        a.reshape(-1)[::-3],
        np.where(abs(a) > 1, a, 2),
        abs(a) > abs(b),
        3 * np.eye(2),
    )


def large():
    """Of orders for which no one kernel has room: a kernel for each step, of own arrays, too."""
    n = 33
    same(
        systems.ex(
            *map(on_device, some := (normal((2, n, n), float), positive(n, (2,)), normal((2, n, 3), float)))
        ),
        systems.ex(*some),
    )
    for dtype in (np.float16, np.complex128):
        a, b = normal((3, 34, 34), dtype), normal((34, 34), dtype)
        same(of_each_kind.ex(on_device(a), on_device(b)), of_each_kind.ex(a, b))
    plan = smallmm.explain(of_each_kind, on_device(a), on_device(b))
    assert (plan.fused, plan.matrices) == (False, 3), plan
    assert "step by step: the values of a matrix need more shared memory than a block has" in str(plan), plan
    a[1], some = (
        0,
        fuse(lambda a, b: (smallmm.inv(a).T, smallmm.solve(b, a), smallmm.expm(a / 9)), "(n,n),(n,n)"),
    )
    here, there = some.ex(a, b), some.ex(on_device(a), on_device(b))
    same(there[0], here[0])
    assert (cuda.to_host(there.info).tolist(), there.step) == (here.info.tolist(), here.step)
    assert str(raised(some, on_device(a), on_device(b))) == str(raised(some, a, b))
    a = positive(n, (2,))
    for function in (
        smallmm.pinv,
        lambda a: smallmm.cond(a, 1),
        lambda a: smallmm.linsolve_ex(a, a, return_rcond=True),
        lambda a: smallmm.sqrtm(a, assume_a="sym"),
    ):
        same(function(on_device(a)), function(a))


def failures():
    """One exception, which names the step; explain; what no kernel takes."""
    covariance = positive(3, (COUNT,))
    covariance[4] *= -1
    arguments = [on_device(x) for x in (RNG.random((COUNT, 3)), np.zeros(3), covariance)]
    error = raised(smallmm.mahalanobis, *arguments)
    assert "covariance is not positive definite in 1 of 37 cases, the first at index (4,)" in str(error), (
        error
    )
    assert np.isnan(cuda.to_host(error.result)).sum() == 1
    assert np.argwhere(error.info).tolist() == [[4]]
    plan = smallmm.explain(smallmm.mahalanobis, *arguments)
    assert (plan.fused, plan.lanes, plan.matrices) == (True, 1, COUNT), plan
    assert "one kernel, 128 in a block, a thread each" in str(plan), plan
    large = [on_device(x) for x in (np.ones((3, 12, 12)), positive(12, (3,)))]
    plan = smallmm.explain(smallmm.congruence, *large)
    assert plan.lanes > 1, plan
    assert f"{plan.lanes} threads each, {plan.shared} bytes of shared memory" in str(plan), plan
    for name, function in (
        ("solve_banded", lambda a: smallmm.solve_banded((1, 1), a, a)),
        ("eig", lambda a: smallmm.eig(a).eigenvalues),
        ("solve_tridiagonal", lambda a: smallmm.solve_tridiagonal(a[0, 1:], a[0], a[0, 1:], a)),
    ):
        calls = fuse(function, "(n,n)")
        plan = smallmm.explain(calls, on_device(covariance))
        assert (plan.fused, plan.why) == (False, f"no kernel of a program has {name}"), plan
    huge = fuse(lambda a, b: a @ b, "(m,k),(k,n)")
    plan = smallmm.explain(huge, on_device(np.ones((2, 64, 300))), on_device(np.ones((2, 300, 64))))
    assert plan.why == "the values of a matrix need more shared memory than a block has", plan
    many, vectors = fuse(lambda *x: sum(x[1:], x[0]), ",".join(["(n)"] * 64)), [normal((3, 2), float)] * 64
    sums = fuse("(n)->(n)")(np.cumsum)
    for function, operands, why in (
        (many, vectors, "it has 65 operands and results; a kernel has at most 64"),
        (sums, [normal((3, 1001), float)], "it has 2001 steps; a kernel has at most 2000"),
    ):
        arrays = list(map(on_device, operands))
        assert smallmm.explain(function, *arrays).why == why
        same(function(*arrays), function(*operands))
    error = raised(smallmm.mahalanobis, arguments[0], arguments[1], covariance)
    assert "mahalanobis: covariance is a numpy.ndarray on the host" in str(error), error
    same(calls(on_device(covariance)), calls(covariance))
    for k in range(8):  # of each call of the driver in turn
        forget(smallmm.mahalanobis)
        GPU.emulated_fail_at(k, 700)
        with contextlib.suppress(RuntimeError, MemoryError, BufferError):
            smallmm.mahalanobis.ex(*arguments)
        GPU.emulated_fail_at(-1, 0)
    same(smallmm.mahalanobis.ex(*arguments), smallmm.mahalanobis.ex(*map(cuda.to_host, arguments)))


if __name__ == "__main__":
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.environ["EMULATED_LIBRARY"].encode(), b"")
    {"results": results, "large": large, "derivatives": derivatives, "failures": failures}[sys.argv[1]]()

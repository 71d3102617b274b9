"""Host arrays through the emulated GPU: `offload.py results`, `failures`, `devices` or `memory`. Results are
those of the plain calls to the bit, errors too; nothing is left when a call of the driver fails."""

import ctypes
import os
import sys
from functools import partial

import numpy as np
from checks import raised

import smallmm
from smallmm import _core, cuda

GPU = ctypes.CDLL(os.environ["EMULATED_LIBRARY"])


def same(found, expected):
    assert type(found) is type(expected), (type(found), type(expected))
    if isinstance(expected, tuple):
        for x, y in zip(found, expected, strict=True):
            same(x, y)
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)
        if expected.dtype.kind == "f":
            numbers = expected == expected  # the sign of NaN is nobody's
            np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
    else:
        assert found == expected or found != found


def check(function, *arrays, **options):
    for block, streams in ((1, 1), (700, 3), (1 << 20, 2)):
        found = cuda.offload(function, *arrays, block=block, streams=streams, **options)
        same(found, function(*arrays, **options))


def pinned(x):
    copy = cuda.empty_pinned(x.shape, x.dtype)
    copy[...] = x
    return copy


def scans():
    """Blocks of series, with the bits of the host, where a single series stays."""
    rng = np.random.default_rng(1)
    step = smallmm.fuse("(n),(m),(n,n),()->(n),(n),()")(
        lambda x, u, a, k: ((y := smallmm.solve(a, x) + k * u.sum()), k * y, u.sum())
    )
    a = np.eye(3) + 0.1 * rng.standard_normal((5, 3, 3))
    x, u, k = rng.standard_normal((4, 5, 3)), rng.standard_normal((6, 4, 5, 2)), 0.5
    for options in ({}, {"reverse": True}, {"every": 4}, {"every": 4, "reverse": True}, {"outputs": "last"}):
        check(smallmm.scan, step, x, u, consts=(a, k), **options)
        check(smallmm.scan, step, x[0, 0], u[:, :, :1], consts=(a, k), **options)
    check(smallmm.scan, step, x, np.asfortranarray(u), consts=(a, k))
    out = np.empty((6, 4, 5, 3)), np.empty((6, 4, 5))
    found = cuda.offload(smallmm.scan, step, x, u, consts=(a, k), out=out, block=700)
    assert found.ys[0] is out[0]
    same(found, smallmm.scan(step, x, u, consts=(a, k)))
    bad = np.concatenate([a[:2], 0 * a[:1], a[3:]])
    check(smallmm.scan_ex, step, x, u, consts=(bad, k))
    number = smallmm.fuse(lambda c, x: (c + x, c))
    check(smallmm.scan, number, 0.0, rng.standard_normal((7, 30)))
    z = rng.standard_normal((5, 40, 2))
    model = np.zeros(3), np.eye(3), np.eye(3), np.eye(2, 3), np.eye(3), np.eye(2)
    check(smallmm.kalman_filter, z, *model, smooth=True)
    group = smallmm.Group([z[: 3 + i % 2, i] for i in range(9)])
    found, expected = cuda.offload(smallmm.kalman_filter, group, *model), smallmm.kalman_filter(group, *model)
    np.testing.assert_array_equal(found.loglik, expected.loglik)
    plan = smallmm.explain(cuda.offload, smallmm.scan, step, x, u, consts=(a, k))
    assert (plan.calls, plan.why) == (1, "")
    assert plan.bytes_up == x.nbytes + u.nbytes + a.nbytes
    with cuda.offloading():
        assert smallmm.explain(smallmm.scan, step, x, u, consts=(a, k)).calls == 1
        one = smallmm.scan(step, x[0, 0], u[:, 0, 0], consts=(a[0], k))
    same(one, smallmm.scan(step, x[0, 0], u[:, 0, 0], consts=(a[0], k)))


def results():
    scans()
    rng = np.random.default_rng(0)
    n, count = 3, 23
    a = rng.standard_normal((count, n, n)) + 3 * np.eye(n)
    b = rng.standard_normal((count, n, 2))
    spd = a @ a.mT

    # functions of one and of several outputs, with options, tuples and info
    check(smallmm.matmul, a, b)
    check(smallmm.solve, a, b)
    check(smallmm.solve, a, b[0])
    check(smallmm.solve_ex, a, b)
    check(smallmm.lu_factor, a)
    check(smallmm.lu_solve, smallmm.lu_factor(a), b)
    check(smallmm.slogdet, a)
    check(smallmm.eigh, spd)
    check(smallmm.cholesky, spd, upper=True)

    # layouts: views of one memory, gaps, negative strides, broadcasting of batches and of matrices
    check(smallmm.matmul, a, a.mT)
    check(smallmm.matmul, a[::-2], np.pad(a, ((0, 0), (0, 1), (0, 2)))[::2, :n, :n])
    check(smallmm.matmul, a[:20].reshape(4, 5, n, n), a[:5])
    check(smallmm.matmul, a[:4, None], a[:5])
    check(smallmm.matmul, a[:20].reshape(4, 5, n, n).swapaxes(0, 1), a[0])
    check(smallmm.matmul, np.broadcast_to(a[:, :1], a.shape), np.broadcast_to(a[0], a.shape))
    check(smallmm.matmul, a[0], a[1])
    check(smallmm.det, a[0])
    check(smallmm.solve, a, b[0, :, 0])
    check(smallmm.matmul, np.asfortranarray(a), a)

    # dtypes: integers, mixtures, halves, bool, another byte order
    ints = rng.integers(-9, 9, a.shape)
    check(smallmm.matmul, ints, ints)
    check(smallmm.matmul, a.astype("f4"), a.astype("f2"))
    check(smallmm.matmul, a.astype("f2"), a.astype("f2"))
    check(smallmm.matmul, ints > 0, ints > 3)
    check(smallmm.solve, a + 1j * spd, b)
    check(smallmm.solve, a, 1j * b - b)
    check(smallmm.matmul, a, 1j * spd + a)
    check(smallmm.matmul, 1j * spd + a, a.astype("f4"))
    check(smallmm.eigh, spd + 1j * (a - a.mT))
    check(smallmm.inv, a.astype(">f8"))
    check(smallmm.solve, a.tolist(), b)

    # out: of another dtype, strided, an input, with more batch dimensions, scaled and added to
    for make in (np.empty, cuda.empty_pinned):
        out = make((count, n, 2))
        assert cuda.offload(smallmm.matmul, a, b, out=out, block=700) is out
        same(out, smallmm.matmul(a, b))
    out = np.zeros((count, 2, n)).mT
    cuda.offload(smallmm.matmul, a, b, out=out, block=700)
    same(np.array(out), smallmm.matmul(a, b))
    out = np.zeros((2, count, n, 2))
    cuda.offload(smallmm.matmul, a, b, out=out, block=700)
    same(out, smallmm.matmul(a, b, out=np.zeros_like(out)))
    c = a.copy()
    assert cuda.offload(smallmm.inv, c, out=c, block=700) is c
    same(c, smallmm.inv(a))
    c, d = b.copy(), b.copy()
    cuda.offload(smallmm.batched_matmul, a, b, out=c, alpha=1.5, beta=-0.5, block=700)
    same(c, smallmm.batched_matmul(a, b, out=d, alpha=1.5, beta=-0.5))
    c, d, alpha = a.copy(), a.copy(), rng.standard_normal(count)
    cuda.offload(smallmm.batched_matmul, c, c, out=c, alpha=alpha, beta=2, block=700)
    same(c, smallmm.batched_matmul(d, d, out=d, alpha=alpha, beta=2))
    out = (np.empty(count, np.int8), np.empty((count, n, n)))
    error = raised(cuda.offload, smallmm.eigh, spd, out=out)
    assert str(error) == str(raised(smallmm.eigh, spd, out=out)), error

    # page-locked operands go up themselves, whole or in part
    x = pinned(a)
    with cuda.offloading(block=700):
        same(smallmm.matmul(x, x[::-1]), smallmm.matmul(a, a[::-1]))
        same(smallmm.solve(x, cuda.pin(b)), smallmm.solve(a, b))

    # nothing to do
    for shape in ((0, n, n), (count, 0, 0), (0, 0, 0)):
        check(smallmm.inv, np.empty(shape))
    check(smallmm.solve, a, b[..., :0])

    # a bad matrix: its index in the whole stack, its info, and the results of the others
    bad = a.copy()
    bad[[13, 19]] = 0
    for function, arrays in ((smallmm.inv, (bad,)), (smallmm.solve, (bad, b)), (smallmm.lu_factor, (bad,))):
        expected = raised(function, *arrays)
        found = raised(cuda.offload, function, *arrays, block=700)
        assert (type(found), str(found)) == (smallmm.LinAlgError, str(expected)), found
        assert "(13,)" in str(found)
        same(found.info, expected.info)
        same(found.result, expected.result)
    check(smallmm.inv_ex, bad)
    pivots = np.tile(np.arange(n, dtype=np.int32), (count, 1))
    pivots[17] = 5
    expected = raised(smallmm.lu_solve, (a, pivots), b)
    assert str(raised(cuda.offload, smallmm.lu_solve, (a, pivots), b)) == str(expected)
    for arguments in ((a, b[:5]), (a[:, :2], b), (np.array("x"), b)):
        expected = raised(smallmm.solve, *arguments)
        found = raised(cuda.offload, smallmm.solve, *arguments)
        assert (type(found), str(found)) == (type(expected), str(expected)), (found, expected)

    fused_functions(a, b, bad)
    compositions(a, bad)
    check(lambda a, b: smallmm.matmul(smallmm.inv(a), b), a, b)

    # what no device takes: an error, or the CPU
    general = partial(smallmm.logm, assume_a="general")  # so many steps as its elements ask for
    general.__name__ = "logm"
    for function, y in ((smallmm.inv, np.eye(140)), (general, a @ a.mT)):
        assert type(raised(cuda.offload, function, y)) is NotImplementedError
        with cuda.offloading():
            same(function(y), function(y.copy()))
    assert "makes no call" in str(raised(cuda.offload, np.linalg.inv, a))

    # explain: what the plan says is what is moved
    plan = smallmm.explain(cuda.offload, smallmm.matmul, x, x.mT, block=1000)
    assert (plan.matrices, plan.blocks, plan.streams) == (1000 // 216, 6, 4), plan
    assert (plan.bytes_up, plan.bytes_down, plan.bytes_staged) == (a.nbytes, a.nbytes, a.nbytes)
    with cuda.offloading(block=1000):
        assert smallmm.explain("matmul", x, x.mT)[:8] == plan[:8]
    assert smallmm.explain("matmul", a, a).kernel.startswith("smm_")

    arrays_on_device(a)


@smallmm.fuse("(n,n),(n,k)")
def chain(a, b):
    x = smallmm.solve(a, b)
    return a.mT @ x, np.exp(-x), x > 0


@smallmm.fuse("(n,n)")
def calls(a):
    return np.exp(-smallmm.solve_tridiagonal(a[0, 1:], a[0], a[0, 1:], a))


def fused_functions(a, b, bad):
    """One kernel computes a block; where there is none, the steps are calls."""
    chain(a, b)  # the program that it keeps is not the one that runs
    check(chain, a, b)
    check(chain.ex, bad, b)
    expected, found = raised(chain, bad, b), raised(cuda.offload, chain, bad, b, block=700)
    assert str(found) == str(expected), (found, expected)
    same(found.info, expected.info)
    same(found.result, expected.result)
    triad = smallmm.fuse(lambda a, b, c: a + b * c)
    check(triad, a, 0.5, a[:, :1])
    check(triad, a.astype("f4"), np.float32(3), a[0].astype("f4"))
    check(triad, np.arange(5), 1, a[0, 0, 0])
    check(chain, a[::-2].mT, np.pad(b, ((0, 0), (0, 1), (0, 2)))[::2, :3, :2])
    check(chain, a[:20].reshape(4, 5, 3, 3).swapaxes(0, 1), b[0])
    check(chain, a[:4, None], b[:5])
    check(chain, a[0], b[1])
    check(chain, np.broadcast_to(a[0], a.shape), a.mT)
    check(chain, a[:0], b[:0])
    check(triad, *np.empty((3, 0)))
    check(smallmm.kalman_step, a[..., 0], a @ a.mT, b[..., 0, :], np.eye(3), b[0].T, np.eye(3), np.eye(2))
    check(calls, a @ a.mT)
    for make in (np.empty, cuda.empty_pinned):
        out = make(a.shape)
        assert cuda.offload(triad, pinned(a), a, 2.0, out=out, block=700) is out
        same(out, triad(a, a, 2.0))
    out = a.copy()
    cuda.offload(triad, out, out, out, out=out, block=700)
    same(out, triad(a, a, a))
    with cuda.offloading():  # those of a device stay there
        same(cuda.to_host(chain(cuda.to_device(a), cuda.to_device(b))[0]), chain(a, b)[0])
    assert "makes no call" in str(raised(cuda.offload, triad, 1.0, 2.0, 3.0))
    error = raised(cuda.offload, chain, a.reshape(23, *([1] * 30), 3, 3), b[0])
    assert "no device takes solve: there are 31 batch dimensions" in str(error), error

    # once up, once down; and not so where the steps are calls
    plan = smallmm.explain(cuda.offload, chain, a, b, block=700)
    up, down = a.nbytes + b.nbytes, 2 * b.nbytes + b.size + 4 * len(a)
    assert (plan.calls, plan.why, plan.bytes_up, plan.bytes_down) == (1, "", up, down), plan
    assert "one kernel runs all steps" in str(plan)
    with cuda.offloading(block=700):
        assert smallmm.explain(chain, a, b)[:10] == plan[:10]
    plan = smallmm.explain(cuda.offload, calls, a)
    assert (plan.calls, plan.why) == (1, "no kernel of a program has solve_tridiagonal"), plan
    assert "its steps are 1 calls, one after the other: no kernel" in str(plan)
    copies = copied(chain, a, b)
    assert copies == 2 + 3 + 1, copies  # operands, results and info of the one block


def compositions(a, bad):
    """One kernel computes a block."""
    check(smallmm.pinv, a)
    check(smallmm.matrix_norm, a[::-2].mT.astype("f4"))
    expected, found = (raised(f, *x) for f, x in (
        (smallmm.matrix_power, (bad, -1)), (cuda.offload, (smallmm.matrix_power, bad, -1)),
    ))  # fmt: skip
    assert str(found) == str(expected), (found, expected)
    same(found.result, expected.result)
    out = np.empty(len(a))
    assert cuda.offload(smallmm.trace, a, out=out) is out
    same(out, smallmm.trace(a))
    plan = smallmm.explain(cuda.offload, smallmm.pinv, a)
    assert (plan.calls, plan.why, plan.bytes_up, plan.bytes_down) == (
        1,
        "",
        a.nbytes,
        a.nbytes + 4 * len(a),
    ), plan


def copied(function, *arrays):
    """Copies between host and device of one block."""
    copy, count = _core.cuda_copy, []
    _core.cuda_copy = lambda *what: count.append(what) or copy(*what)
    try:
        cuda.offload(function, *arrays, block=1 << 20)
    finally:
        _core.cuda_copy = copy
    return len(count)


def arrays_on_device(a):
    x = cuda.to_device(a)
    assert (x.shape, x.dtype, x.device, x.ndim, len(x)) == (a.shape, a.dtype, 0, 3, len(a))
    same(cuda.to_host(x), a)
    same(cuda.to_host(x[1:7:2, :, ::-1].mT), np.ascontiguousarray(a[1:7:2, :, ::-1].mT))
    same(cuda.to_host(x[3, 1]), a[3, 1])
    same(cuda.to_host(cuda.to_device(a.mT)).copy(), a.mT.copy())
    same(cuda.to_host(smallmm.inv(x)), smallmm.inv(a))
    same(cuda.to_host(smallmm.matmul(x, x.mT)), smallmm.matmul(a, a.mT))
    error = raised(smallmm.inv, cuda.to_device(np.zeros((2, 2, 2))))
    assert (type(error), type(error.info)) == (smallmm.LinAlgError, cuda.DeviceArray)
    x[2:4] = a[5:7]
    same(cuda.to_host(x[2:4]), a[5:7])
    out = np.empty_like(a)
    cuda.copy(x, out, stream=1)
    _core.cuda_wait(0, 1)
    same(out, cuda.to_host(x))
    memory = pinned(a)
    y = cuda.to_device(memory, mapped=True)
    same(cuda.to_host(smallmm.det(y)), smallmm.det(a))
    assert np.shares_memory(cuda.to_host(y), memory)
    for function, arguments, said in (
        (cuda.to_device, {"a": x}, "to_device: a is a smallmm.cuda.DeviceArray"),
        (cuda.to_device, {"a": a.astype(str)}, "expected a number type"),
        (cuda.to_device, {"a": a, "mapped": True}, "a is not page-locked"),
        (cuda.to_host, {"x": a}, "to_host: x is a ndarray of shape"),
        (cuda.copy, {"src": a, "dst": a}, "expected a DeviceArray"),
        (cuda.copy, {"src": x, "dst": a[1:]}, "copy: dst is of float64 and shape"),
        (cuda.copy, {"src": x[::2], "dst": a[::2], "stream": 1}, "expected no gaps"),
        (cuda.copy, {"src": x, "dst": np.broadcast_to(a, a.shape)}, "dst is read-only"),
        (cuda.empty_pinned, {"shape": (2, -1)}, "expected no negative size"),
        (cuda.empty_pinned, {"shape": "x"}, "expected integers"),
        (cuda.pin, {"a": x}, "pin: a is a smallmm.cuda.DeviceArray"),
        (cuda.pin, {"a": memory}, "cuMemHostRegister"),
        (smallmm.matmul, {"x1": x, "x2": a}, "nothing moves between them by itself"),
    ):
        positional = function is smallmm.matmul
        error = raised(function, *arguments.values()) if positional else raised(function, **arguments)
        assert said in str(error), error
    for said, options in (
        ("offload: device is 'one'", {"device": "one"}),
        ("offload: device is []", {"device": []}),
        ("offload: block is 0", {"block": 0}),
        ("offload: streams is 0", {"streams": 0}),
        ("no CUDA device 9", {"device": 9}),
    ):
        assert said in str(raised(cuda.offload, smallmm.inv, a, **options))
    assert "argument 1 of solve" in str(raised(cuda.offload, smallmm.solve, a, x))
    assert "function is 3" in str(raised(cuda.offload, 3, a))


def left():
    cuda.empty_cache()
    return GPU.emulated_live()


def failures():
    """Of every call of the driver in turn, also for want of memory."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((9, 3, 3)), rng.standard_normal((3, 1))
    expected = smallmm.solve(a, b)
    fused = smallmm.fuse(smallmm.solve, "(n,n),(n,k)")
    locked, out = pinned(a), cuda.empty_pinned(expected.shape)
    cases = (
        lambda: cuda.offload(smallmm.solve, a, b, block=400, streams=2),
        lambda: cuda.offload(smallmm.solve, locked, b, block=400, streams=2, out=out),
        lambda: cuda.to_host(smallmm.solve(cuda.to_device(a), cuda.to_device(b)[None])),
        lambda: smallmm.solve(cuda.pin(np.array(a)), b),
        lambda: cuda.offload(fused, a, b, block=400, streams=2),
    )
    for case in cases:
        same(case(), expected)  # and keeps its kernels
        before = left()
        GPU.emulated_fail_at(-1, 0)
        same(case(), expected)
        calls = GPU.emulated_calls()
        for error in (2, 700):
            survived = 0
            for k in range(calls):
                GPU.emulated_fail_at(k, error)
                try:
                    found = case()
                    same(found, expected)
                    survived += 1
                except (MemoryError, RuntimeError, BufferError):
                    pass
                found = None
                GPU.emulated_fail_at(-1, 0)
                assert left() == before, f"call {k} of {calls}, error {error}: something is left"
            assert survived < calls
        print(calls, "calls")


def devices():
    """All devices share the blocks, of fused functions too. One that fails ends the call with its error."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((101, 3, 3)) + 3 * np.eye(3)
    b = rng.standard_normal((3, 2))
    bad = a.copy()
    bad[[60, 97]] = 0
    count = int(os.environ["EMULATED_DEVICES"])
    orders = ["all", [*range(count)][::-1], count - 1]
    copy, used = _core.cuda_copy, set()
    _core.cuda_copy = lambda device, *what: used.add(device) or copy(device, *what)
    for function in (smallmm.solve, chain):
        expected = function(a, b)
        for device in orders:
            for block in (None, 700):
                used.clear()
                same(cuda.offload(function, a, b, device=device, block=block, streams=2), expected)
                several = block is not None and device != count - 1
                assert used == (set(range(count)) if several else used & {0, count - 1}), (used, device)
        with cuda.offloading(device="all", block=700):
            same(function(a, b), expected)
        error = raised(cuda.offload, function, bad, b, device="all", block=700)
        same(error.info, raised(function, bad, b).info)
        before = left()
        for broken in range(count):
            os.environ["EMULATED_BROKEN"] = str(broken)
            error = raised(cuda.offload, function, a, b, device="all", block=700, streams=1)
            assert "cuLaunchKernel" in str(error), error
            error = None
            assert left() == before
            others = [x for x in range(count) if x != broken]
            if others:
                same(cuda.offload(function, a, b, device=others, block=700), expected)
            del os.environ["EMULATED_BROKEN"]
            same(cuda.offload(function, a, b, device="all", block=700), expected)
            assert left() == before
    _core.cuda_copy = copy
    assert f"no CUDA device {count}" in str(raised(cuda.offload, chain, a, b, device=[0, count]))


def memory():
    """Two devices of little memory: arrays that are larger; blocks are halved until they fit."""
    a = np.random.default_rng(0).standard_normal((600, 3, 3))
    expected = smallmm.inv(a)
    assert a.nbytes > 1 << 15
    for devices in (0, 1, "all", [1, 0]):
        same(cuda.offload(smallmm.inv, a, device=devices), expected)
    with cuda.offloading(device="all", block=2000):
        same(smallmm.inv(a), expected)
    triad = smallmm.fuse(lambda a, b, c: a + b * c)
    same(cuda.offload(triad, a, 2.0, a, device="all"), triad(a, 2.0, a))
    wide = np.zeros((64, 64))
    assert type(raised(cuda.offload, smallmm.matmul, wide[None], wide)) is MemoryError
    assert left() == 0


if __name__ == "__main__":
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.environ["EMULATED_LIBRARY"].encode(), b"")
    {"results": results, "failures": failures, "devices": devices, "memory": memory}[sys.argv[1]]()

"""Streams, graphs, threads, other libraries, errors, on a GPU."""

import ctypes
import threading
from typing import ClassVar

import numpy as np
import pytest
from capsules import Tensor, Unversioned, capsule_of

import smallmm
from smallmm import _core

pytestmark = pytest.mark.usefixtures("torch_cuda")


def test_runs_on_the_current_stream(torch):
    """Its input is written late by the same stream; a consumer on another stream sees all of it."""
    batch = 200_000
    smallmm.cuda.warmup([8], dtypes=("f64",))
    side, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(batch, 8, 8, dtype=torch.float64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(1)
        c = smallmm.batched_matmul(x, x)
        done = torch.cuda.Event()
        done.record()
    assert not done.query(), "the call waited for the stream"
    with torch.cuda.stream(consumer):
        consumer.wait_event(done)
        total = c.sum()
    consumer.synchronize()
    assert total.item() == batch * 64 * 8


def test_graph(torch):
    smallmm.cuda.warmup([4, 7], dtypes=("f32",))
    for n in (4, 7):
        x = torch.rand(1000, n, n, device="cuda")
        out = torch.empty_like(x)
        smallmm.batched_matmul(x, x, out=out)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            smallmm.batched_matmul(x, x, out=out)
            fresh = smallmm.batched_matmul(out, x)
        x.copy_(torch.rand(1000, n, n, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        expected = smallmm.batched_matmul(x, x)
        assert torch.equal(out, expected)
        assert torch.equal(fresh, smallmm.batched_matmul(expected, x))


def test_graph_after_warmup(torch):
    """What `warmup` has built needs no call before a capture."""
    x = torch.rand(5000, 11, 11, device="cuda", dtype=torch.float64)
    out = torch.empty_like(x)
    smallmm.cuda.warmup([11], dtypes=("f64",))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        smallmm.batched_matmul(x, x, out=out)
    graph.replay()
    a = x.cpu().numpy()
    np.testing.assert_array_equal(out.cpu().numpy(), smallmm.batched_matmul(a, a))


def test_threads(torch):
    wrong = []

    def work(seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            for n in (3, 9, 14, 21, 5):
                x = torch.rand(5000, n, n, device="cuda", generator=generator, dtype=torch.float64)
                c = smallmm.batched_matmul(x, x)
                a = x.cpu().numpy()
                if not np.array_equal(c.cpu().numpy(), smallmm.batched_matmul(a, a)):
                    wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture
def two_devices(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    return ["cuda:0", "cuda:1"]


def test_second_device(torch, two_devices):
    """What lies on a device is computed there, to the same bits, and the current device stays what it was."""
    for n in (3, 8, 17, 32):
        a = torch.rand(3000, n, n, dtype=torch.float64)
        first, second = (
            [f(a.to(d)) for d in two_devices] for f in (smallmm.inv, lambda x: smallmm.matmul(x, x))
        )
        for results in (first, second):
            assert [str(x.device) for x in results] == two_devices
            assert torch.equal(results[0].cpu(), results[1].cpu())
        factors = smallmm.lu_factor(a.to("cuda:1"))
        assert {str(x.device) for x in factors} == {"cuda:1"}
        out = torch.empty_like(a, device="cuda:1")
        assert smallmm.batched_matmul(a.to("cuda:1"), a.to("cuda:1"), out=out) is out
        assert torch.equal(out, second[1])
    assert torch.cuda.current_device() == 0


def test_second_device_runs_on_its_own_stream(torch, two_devices):
    x = torch.zeros(100_000, 8, 8, dtype=torch.float64, device="cuda:1")
    smallmm.matmul(x, x)
    torch.cuda.synchronize("cuda:1")
    with torch.cuda.stream(torch.cuda.Stream("cuda:1")):
        torch.cuda._sleep(50_000_000)
        x.fill_(1)
        c = smallmm.batched_matmul(x, x)
        assert c.sum().item() == 100_000 * 64 * 8


def test_devices_do_not_mix(torch, two_devices):
    x, y = (torch.rand(10, 4, 4, device=d) for d in two_devices)
    with pytest.raises(TypeError, match="device"):
        smallmm.matmul(x, y)
    with pytest.raises(TypeError, match="device"):
        smallmm.batched_matmul(x, x, out=y)


def test_threads_on_two_devices(torch, two_devices):
    wrong = []

    def work(device):
        for n in (3, 9, 14, 21, 5):
            x = torch.rand(5000, n, n, device=device, dtype=torch.float64)
            a = x.cpu().numpy()
            if not np.array_equal(smallmm.matmul(x, x).cpu().numpy(), smallmm.matmul(a, a)):
                wrong.append((device, n))

    threads = [threading.Thread(target=work, args=(device,)) for device in 2 * two_devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_warmup_builds_what_runs(torch):
    plan, _ = smallmm.cuda.warmup([(5, 6, 7)], dtypes=("f64",))
    assert plan["m"] == 5
    assert plan["kernel"].startswith("matmul_")
    assert smallmm.cuda.is_available()


@pytest.mark.parametrize(
    ("op", "gufunc", "layout"),
    [
        ("solve", "solve", {}),
        ("solve_triangular", "solve_upper", {}),
        ("solve_triangular", "solve_lower", {"upper": 0}),
        ("solve_triangular", "solve_unit_upper", {"unit": 1}),
        ("lu_solve", "lu_solve_transposed", {"transposed": 1}),
        ("cholesky", "cholesky_upper", {"upper": 1}),
        ("qr_raw", "qr_raw_tall", {}),
        ("inv", "inv", {}),
    ],
)
@pytest.mark.parametrize("columns", [1, 17])
def test_warmup_is_of_the_kernel_that_runs(torch, op, gufunc, layout, columns):
    """A graph is captured after it, which cannot load kernels."""
    a = torch.eye(13, device="cuda", dtype=torch.float64).repeat(50, 1, 1) * 2
    b = torch.ones(50, 13, columns, device="cuda", dtype=torch.float64)
    pivots = torch.arange(13, device="cuda", dtype=torch.int32).repeat(50, 1)
    operands = {1: (a,), 2: (a, b), 3: (a, pivots, b)}[getattr(_core, gufunc).nin]
    smallmm.cuda.warmup([(13, 13 if op == "qr_raw" else columns, 13)], op=op, dtypes=("float64",), **layout)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        assert _core.direct[gufunc](*operands) is not NotImplemented


def test_what_no_graph_can_have(torch):
    """It is refused before anything that ends the capture."""
    a = torch.eye(3, device="cuda").repeat(4, 1, 1)
    smallmm.inv(a), smallmm.pinv(a)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(RuntimeError, match=r"^pinv: no CUDA graph can have it, because it waits"):
            smallmm.pinv(a)
        with pytest.raises(RuntimeError, match=r"^inv: no CUDA graph can .* waits .*; inv_ex does not wait"):
            smallmm.inv(a)
        x = smallmm.inv_ex(a).inverse
    assert x.shape == a.shape


@pytest.mark.parametrize("name", ["norm", "matrix_norm", "vector_norm", "trace"])
def test_compositions_in_a_graph(torch, name):
    """Once their kernels are compiled."""
    a = torch.rand(4, 3, 3, device="cuda")
    function = {"norm": lambda a: smallmm.norm(a, axis=(1, 2))}.get(name, getattr(smallmm, name))
    expected, graph = function(a), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = function(a)
    for _ in range(2):
        found.zero_()
        graph.replay()
        assert torch.equal(found, expected)


def test_derivative_of_det_in_a_graph(torch):
    a = torch.stack([torch.eye(3), torch.zeros(3, 3)]).cuda().requires_grad_()
    for graph in (None, torch.cuda.CUDAGraph()):
        with torch.cuda.graph(graph) if graph else torch.cuda.stream(torch.cuda.Stream()):
            (found,) = torch.autograd.grad(smallmm.det(a).sum(), a)
    graph.replay()
    assert torch.equal(found, torch.stack([torch.eye(3), torch.zeros(3, 3)]).cuda())


def test_numbers_of_numpy(torch):
    x = torch.rand(100, 5, 5, device="cuda")
    out = torch.ones_like(x)
    for alpha in (np.float64(2), np.float32(2), np.int64(2), np.array(2.0)):
        assert torch.equal(smallmm.batched_matmul(x, x, alpha=alpha), smallmm.batched_matmul(x, x, alpha=2))
    expected = smallmm.batched_matmul(x, x, out=out.clone(), beta=1)
    assert torch.equal(smallmm.batched_matmul(x, x, out=out, beta=np.bool_(True)), expected)
    assert torch.equal(smallmm.lstsq(x, x, np.float32(1e-6)).rank, smallmm.lstsq(x, x, 1e-6).rank)


def test_arrays_stay_until_the_kernel_is_done(torch):
    """On a thread on which no context is current, where an event cannot be had without making one so."""

    class Given:
        def __init__(self, x):
            self.capsule = x.__dlpack__(stream=-1)

        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **_):
            return self.capsule

    def given():
        x = torch.eye(3, device="cuda").repeat(100_000, 1, 1)
        return (
            Given(x),
            Given(torch.empty_like(x)),
            Given(torch.empty(100_000, device="cuda", dtype=torch.int32)),
        )

    def give_back():
        stream.synchronize()
        _core.device_run(_core.matmul, stream.cuda_stream, one, one, torch.empty_like(one))

    stream, one = torch.cuda.Stream(), torch.eye(3, device="cuda")
    _core.device_run(_core.inv, stream.cuda_stream, *given())  # compiles
    give_back()
    operands = given()
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)
    thread = threading.Thread(target=lambda: _core.device_run(_core.inv, stream.cuda_stream, *operands))
    thread.start()
    thread.join()
    assert not stream.query()
    assert torch.cuda.memory_allocated() == held
    give_back()
    assert torch.cuda.memory_allocated() < held


def test_no_allocation(torch):
    x = torch.rand(1000, 6, 6, device="cuda")
    out = torch.empty_like(x)
    smallmm.batched_matmul(x, x, out=out)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    free = torch.cuda.mem_get_info()[0]
    for _ in range(10):
        smallmm.batched_matmul(x, x, out=out)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    assert torch.cuda.mem_get_info()[0] == free


class Capsule:
    """A float64 array on the current device, as another library might give it: by a DLPack capsule without a
    version, with a byte offset, without strides. As it has no deleter, its memory stays."""

    everlasting: ClassVar = []

    def __init__(self, address, shape, byte_offset):
        self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        tensor = Tensor(address - byte_offset, 2, 0, len(shape), 2, 64, 1, self.sizes, None, byte_offset)
        self.managed = Unversioned(tensor)
        self.everlasting.append(self)

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):  # no max_version: a TypeError, to be tried again without
        return capsule_of(self.managed, b"dltensor")


class Interface:
    """The same by the CUDA array interface."""

    def __init__(self, x, **more):
        strides = tuple(8 * s for s in x.stride())
        self.__cuda_array_interface__ = {
            "shape": tuple(x.shape), "typestr": "<f8", "data": (x.data_ptr(), False), "version": 3,
            "strides": strides, **more,
        }  # fmt: skip


class TestBuffers:
    """What arrays say of themselves, of libraries that are not here."""

    @pytest.fixture
    def x(self, torch):
        return torch.rand(100, 5, 5, device="cuda", dtype=torch.float64)

    def run(self, torch, *operands):
        stream = torch.cuda.current_stream().cuda_stream
        assert _core.device_run(_core.matmul, stream, *operands)

    def test_capsules(self, torch, x):
        out, expected = torch.empty_like(x), smallmm.matmul(x, x)
        for offset in (0, 8, 4096):
            given = Capsule(x.data_ptr(), x.shape, offset)
            self.run(torch, given, given, out.fill_(0))
            assert torch.equal(out, expected)
        self.run(torch, x, x, Capsule(out.fill_(0).data_ptr(), out.shape, 16))
        assert torch.equal(out, expected)

    def test_interface(self, torch, x):
        out = torch.empty_like(x)
        for y, more in (
            (x, {"strides": None}),
            (x, {}),
            (x.mT, {}),
            (x[:, :1].expand_as(x), {}),
            (x[::2], {}),
        ):
            to = out[: len(y)].fill_(0)
            self.run(torch, Interface(y, **more), Interface(y, **more), Interface(to))
            assert torch.equal(to, smallmm.matmul(y, y))

    def test_interface_with_a_stream(self, torch):
        x = torch.zeros(100_000, 8, 8, device="cuda", dtype=torch.float64)
        out = torch.empty_like(x)
        self.run(torch, x, x, out)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.fill_(1)
        given = Interface(x, stream=side.cuda_stream)
        self.run(torch, given, given, out)
        assert out.sum().item() == 100_000 * 64 * 8

    def test_refused(self, torch, x):
        out = torch.empty_like(x)
        with pytest.raises(BufferError, match="has a mask"):
            self.run(torch, Interface(x, mask=x), x, out)
        with pytest.raises(ValueError, match="read-only"):
            self.run(torch, x, x, Interface(out, data=(out.data_ptr(), True)))
        with pytest.raises(BufferError, match="expected None or a tuple of 3 multiples of 8 bytes"):
            self.run(torch, Interface(x, strides=(200, 40, 4)), x, out)
        with pytest.raises(ValueError, match="multiple of 8 bytes, an element's size"):
            self.run(torch, Interface(x[1:], data=(x.data_ptr() + 4, False)), x[1:], out[1:])
        deep = x.reshape(*[1] * 9, 100, 5, 5)
        with pytest.raises(ValueError, match="matmul: x1 has 12 dimensions; expected at most 10"):
            smallmm.matmul(deep, deep)


class TestCupy:
    @pytest.fixture
    def cupy(self, required):
        return required("cupy")

    def test_in_and_out(self, cupy, rng):
        a, b = rng.random((50, 3, 4)), rng.random((50, 4, 2))
        x, y = cupy.asarray(a), cupy.asarray(b)
        c = smallmm.batched_matmul(x, y)
        assert type(c) is cupy.ndarray
        expected = smallmm.batched_matmul(a, b)
        np.testing.assert_array_equal(c.get(), expected)
        out = cupy.full((50, 3, 2), np.nan)
        assert smallmm.batched_matmul(x, y, out=out, alpha=2) is out
        np.testing.assert_array_equal(out.get(), smallmm.batched_matmul(a, b, alpha=2))
        np.testing.assert_array_equal(smallmm.matmul(x, y[0]).get(), smallmm.matmul(a, b[0]))

    def test_negative_strides(self, cupy, rng):
        a = rng.random((50, 5, 5))
        for index in (np.s_[::-1], np.s_[:, ::-1], np.s_[:, :, ::-1], np.s_[::-2, ::-1, ::-1]):
            c = smallmm.batched_matmul(cupy.asarray(a)[index], cupy.asarray(a)[index].swapaxes(1, 2))
            np.testing.assert_array_equal(c.get(), smallmm.batched_matmul(a[index], a[index].mT))

    def test_its_stream(self, cupy, rng):
        a = rng.random((1000, 4, 4))
        x = cupy.zeros_like(a)
        smallmm.batched_matmul(x, x)
        late = cupy.asarray(a)
        wait = cupy.RawKernel(
            'extern "C" __global__ void wait() { for (long long t = clock64(); clock64() - t < 50000000;); }',
            "wait",
        )
        with cupy.cuda.Stream(non_blocking=True) as stream:
            wait((1,), (1,), ())
            x[...] = late
            c = smallmm.batched_matmul(x, x)
            assert not stream.done, "the call waited for the stream"
            np.testing.assert_array_equal(c.get(), smallmm.batched_matmul(a, a))

    def test_held_while_others_capture(self, cupy, torch):
        """Its arrays are kept until they have been used, which does no harm to a capture elsewhere."""
        z = cupy.random.random((400_000, 8, 8))
        room = cupy.empty_like(z)
        x = torch.rand(1000, 3, 3, device="cuda", dtype=torch.float64)
        expected = smallmm.matmul(x, x)
        out = torch.empty_like(x)
        given = [Interface(t) for t in (x, x, out)]
        smallmm.batched_matmul(z, z, out=room)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            assert _core.device_run(_core.matmul, side.cuda_stream, *given)  # gives CuPy's back
        graph.replay()
        assert torch.equal(out, expected)

    def test_libraries_do_not_mix(self, cupy, torch):
        x = torch.rand(4, 3, 3, device="cuda", dtype=torch.float64)
        with pytest.raises(
            TypeError, match=r"b is a cupy.ndarray but a is a torch.Tensor; expected arrays of one"
        ):
            smallmm.batched_matmul(x, cupy.from_dlpack(x))

    def test_many_dimensions(self, cupy, rng):
        a, b = rng.random((2, 1, 3, 1, 2, 4, 4)), rng.random((1, 5, 1, 2, 1, 4, 4))
        c = smallmm.batched_matmul(cupy.asarray(a), cupy.asarray(b))
        np.testing.assert_array_equal(c.get(), smallmm.batched_matmul(a, b))


class TestJax:
    @pytest.fixture
    def jnp(self, monkeypatch, required):
        monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        jax = required("jax")
        if jax.default_backend() != "gpu":
            pytest.skip("JAX sees no GPU")
        return jax.numpy

    def test_in_and_out(self, jnp, rng):
        a, b = rng.random((5000, 3, 4), np.float32), rng.random((5000, 4, 2), np.float32)
        x, y = jnp.asarray(a), jnp.asarray(b)
        expected = smallmm.batched_matmul(a, b)
        for _ in range(20):
            c = smallmm.batched_matmul(x, y)
            assert type(c) is type(x)
            np.testing.assert_array_equal(np.asarray(c), expected)
            np.testing.assert_array_equal(np.asarray(smallmm.batched_matmul(x + 0, y + 0) * 2), expected * 2)
        with pytest.raises(TypeError, match="cannot be written to"):
            smallmm.batched_matmul(x, y, out=c)

    def test_what_no_kernel_computes(self, jnp, rng):
        """Large products are its own, in the full precision; nothing at all has a shape."""
        a = rng.random((20, 70, 70), np.float32)
        c = np.asarray(smallmm.batched_matmul(jnp.asarray(a), jnp.asarray(a)), np.float64)
        exact = a.astype(np.float64) @ a.astype(np.float64)
        assert np.abs(c - exact).max() <= 72 * 2.0**-24 * exact.max()
        none = jnp.zeros((5, 0, 0), np.float32)
        assert smallmm.inv(none).shape == (5, 0, 0)
        eye = jnp.broadcast_to(jnp.eye(3, dtype=np.float32), (5, 3, 3))
        assert smallmm.solve(eye, jnp.zeros((5, 3, 0), np.float32)).shape == (5, 3, 0)

    def test_integers(self, jnp):
        """In its widest floating-point dtype, which is float32 unless jax_enable_x64 is on."""
        x = jnp.ones((4, 3, 3), np.int32)
        c = smallmm.batched_matmul(x, x)
        assert c.dtype == (x + 1.0).dtype
        np.testing.assert_array_equal(np.asarray(c), np.full((4, 3, 3), 3))

    def test_memory_of_a_dropped_result(self, jnp, rng):
        """It is not given to another while JAX, which runs later than Python, still reads it."""
        a, big = jnp.asarray(rng.random((200_000, 4, 4), np.float32)), jnp.full((6000, 6000), 1 / 6000)
        c = smallmm.batched_matmul(a, a)
        expected = np.asarray(c)
        (big @ big @ (big @ big) @ (big @ big)).block_until_ready()
        for _ in range(5):
            c = smallmm.batched_matmul(a, a).block_until_ready()
            late = big @ big @ (big @ big) @ (big @ big)
            copied = c + 0 * late[0, 0]
            del c
            for _ in range(3):
                smallmm.batched_matmul(a + 1, a)
            np.testing.assert_array_equal(np.asarray(copied), expected)


class TestNumba:
    def test_in_and_out(self, required, rng):
        cuda = required("numba.cuda")
        a, b = rng.random((50, 3, 4)), rng.random((50, 4, 2))
        x, y = cuda.to_device(a), cuda.to_device(b)
        c = smallmm.batched_matmul(x, y)
        assert type(c) is type(x)
        np.testing.assert_array_equal(c.copy_to_host(), smallmm.batched_matmul(a, b))
        out = cuda.device_array((50, 3, 2))
        smallmm.batched_matmul(x, y, out=out)
        np.testing.assert_array_equal(out.copy_to_host(), smallmm.batched_matmul(a, b))
        smallmm.batched_matmul(x, y, out=out, alpha=2, beta=-1)
        c = np.ascontiguousarray(smallmm.batched_matmul(a, b))
        np.testing.assert_array_equal(
            out.copy_to_host(), smallmm.batched_matmul(a, b, out=c, alpha=2, beta=-1)
        )
        np.testing.assert_array_equal(
            smallmm.matmul(x[::2], y[0]).copy_to_host(), smallmm.matmul(a[::2], b[0])
        )

    def test_its_stream(self, required, torch):
        """An array that names a stream is waited for."""
        cuda = required("numba.cuda")
        side = torch.cuda.Stream()
        x = cuda.device_array((100_000, 8, 8), stream=cuda.external_stream(side.cuda_stream))
        smallmm.matmul(x, x)
        torch.cuda.synchronize()
        seen = torch.as_tensor(x, device="cuda")
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            seen.fill_(1)
        assert smallmm.matmul(x, x).copy_to_host().sum() == 100_000 * 64 * 8

    def test_dtypes(self, required, rng):
        cuda = required("numba.cuda")
        a = rng.integers(-9, 9, (4, 3, 3), np.int32)
        found = smallmm.matmul(cuda.to_device(a), cuda.to_device(a.astype(np.float64)))
        np.testing.assert_array_equal(found.copy_to_host(), smallmm.matmul(a, a.astype(np.float64)))

    def test_what_it_lacks(self, required):
        cuda = required("numba.cuda")
        with pytest.raises(NotImplementedError, match="copy them to the host, or pass arrays of PyTorch"):
            smallmm.inv(cuda.to_device(np.eye(140)))


def test_errors(torch):
    x = torch.ones(4, 3, 3, device="cuda")
    with pytest.raises(
        TypeError, match=r"b is a torch.Tensor on the host but a is a torch.Tensor on a device"
    ):
        smallmm.batched_matmul(x, x.cpu())
    with pytest.raises(TypeError, match=r"x1 is a numpy.ndarray on the host"):
        smallmm.matmul(np.ones((3, 3)), x)
    with pytest.raises(ValueError, match=r"b has shape \(4, 2, 3\); expected \(..., 3, n\)"):
        smallmm.batched_matmul(x, x[:, :2])
    with pytest.raises(ValueError, match=r"out has shape \(3, 3\); expected \(4, 3, 3\)"):
        smallmm.batched_matmul(x, x, out=x[0])
    with pytest.raises(TypeError, match=r"out is given, but a derivative is wanted"):
        smallmm.batched_matmul(x.clone().requires_grad_(), x, out=x)
    with pytest.raises(ValueError, match=r"out is None, but beta is 1"):
        smallmm.batched_matmul(x, x, beta=1)
    with pytest.raises(TypeError, match=r"axes is for NumPy arrays"):
        smallmm.matmul(x, x, axes=[(0, 1), (0, 1), (0, 1)])
    with pytest.raises((TypeError, ValueError)):
        smallmm.batched_matmul(x, x, out=x[:1].expand(4, 3, 3))


def test_repeated_rows_and_columns(torch):
    """Strides of zero within a matrix are read as they are."""
    x = torch.rand(50, 7, 7, device="cuda", dtype=torch.float64)
    for y in (x[:, :1].expand_as(x), x[:, :, :1].expand_as(x), x[:1, :1, :1].expand_as(x)):
        a = y.cpu().numpy()
        np.testing.assert_array_equal(smallmm.matmul(y, x).cpu().numpy(), smallmm.matmul(a, x.cpu().numpy()))


def test_negative_bit(torch):
    z = torch.complex(torch.rand(4, 3, 3), torch.rand(4, 3, 3)).cuda()
    x = z.conj().imag
    assert x.is_neg()
    a = x.cpu().numpy() if not x.is_neg() else x.resolve_neg().cpu().numpy()
    np.testing.assert_array_equal(smallmm.batched_matmul(x, x).cpu().numpy(), smallmm.batched_matmul(a, a))


def test_first_compile_and_disk(torch, run_python, tmp_path):
    """A kernel is compiled within 1.5 s and loaded from disk within 10 ms, in fresh processes."""
    code = """
        import time, torch, smallmm
        x = torch.rand(1000, 21, 21, device="cuda", dtype=torch.float64)
        smallmm.cuda.warmup([1], dtypes=("f32",))
        torch.cuda.synchronize()
        start = time.perf_counter()
        smallmm.batched_matmul(x, x)
        print(time.perf_counter() - start)
    """
    environment = {"SMALLMM_CACHE_DIR": str(tmp_path)}
    first, second = (float(run_python(code, environment).stdout) for _ in range(2))
    print(f"first compile {first * 1e3:.0f} ms, from disk {second * 1e3:.2f} ms")
    assert first < 1.5
    assert second < 0.01

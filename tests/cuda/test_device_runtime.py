"""Streams, graphs, threads, other libraries, errors, on a GPU."""

import threading

import numpy as np
import pytest

import smallmm

pytestmark = pytest.mark.usefixtures("torch_cuda")


@pytest.fixture
def torch(torch_cuda):
    return torch_cuda


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


class TestCupy:
    @pytest.fixture
    def cupy(self):
        return pytest.importorskip("cupy")

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
        with cupy.cuda.Stream(non_blocking=True):
            x = cupy.asarray(a)
            c = smallmm.batched_matmul(x, x)
            np.testing.assert_array_equal(c.get(), smallmm.batched_matmul(a, a))

    def test_many_dimensions(self, cupy, rng):
        a, b = rng.random((2, 1, 3, 1, 2, 4, 4)), rng.random((1, 5, 1, 2, 1, 4, 4))
        c = smallmm.batched_matmul(cupy.asarray(a), cupy.asarray(b))
        np.testing.assert_array_equal(c.get(), smallmm.batched_matmul(a, b))


class TestJax:
    @pytest.fixture
    def jnp(self, monkeypatch):
        monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        jax = pytest.importorskip("jax")
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


class TestNumba:
    def test_in_and_out(self, rng):
        cuda = pytest.importorskip("numba.cuda")
        a, b = rng.random((50, 3, 4)), rng.random((50, 4, 2))
        x, y = cuda.to_device(a), cuda.to_device(b)
        c = smallmm.batched_matmul(x, y)
        assert type(c) is type(x)
        np.testing.assert_array_equal(c.copy_to_host(), smallmm.batched_matmul(a, b))
        out = cuda.device_array((50, 3, 2))
        smallmm.batched_matmul(x, y, out=out)
        np.testing.assert_array_equal(out.copy_to_host(), smallmm.batched_matmul(a, b))


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
    with pytest.raises(TypeError, match=r"requires a gradient"):
        smallmm.batched_matmul(x.clone().requires_grad_(), x)
    with pytest.raises(TypeError, match=r"a has dtype bfloat16"):
        smallmm.batched_matmul(x.bfloat16(), x)
    with pytest.raises(TypeError, match=r"a has dtype complex64"):
        smallmm.batched_matmul(x.to(torch.complex64), x)
    with pytest.raises(ValueError, match=r"needs out"):
        smallmm.batched_matmul(x, x, beta=1)
    with pytest.raises(TypeError, match=r"axes is for NumPy arrays"):
        smallmm.matmul(x, x, axes=[(0, 1), (0, 1), (0, 1)])
    with pytest.raises((TypeError, ValueError)):
        smallmm.batched_matmul(x, x, out=x[:1].expand(4, 3, 3))


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
    assert second < 0.05

"""Host arrays through the GPU: emulated (emulated/offload.py), or a real one. Without one, what is said."""

import numpy as np
import pytest

import smallmm
from smallmm import _core, cuda


@pytest.mark.parametrize(
    ("part", "settings"),
    [
        ("results", {}),
        ("failures", {}),
        *(("devices", {"EMULATED_DEVICES": count}) for count in (1, 2, 3)),
        ("memory", {"EMULATED_DEVICES": 2, "EMULATED_MEMORY": 20_000}),
    ],
)
def test_emulated(emulated, part, settings):
    emulated("offload.py", part, **settings)


def test_dlpack(emulated):
    """Device arrays for other libraries: nothing is copied, and nothing is left."""
    emulated("dlpack.py")


def test_without_gpu(run_python):
    """A clear error from both; plans need no device; nothing remains switched on."""
    code = """
        import numpy as np, smallmm
        from smallmm import cuda
        a = np.ones((5, 3, 3))
        for call in (lambda: cuda.offload(smallmm.det, a), lambda: cuda.offloading().__enter__()):
            try:
                call()
            except smallmm.CudaUnavailableError as error:
                assert "no CUDA driver" in str(error) or "finds no usable GPU" in str(error), error
            else:
                raise SystemExit("no error")
        plan = smallmm.explain(cuda.offload, smallmm.matmul, a, a)
        assert (plan.bytes_up, plan.bytes_down) == (a.nbytes, a.nbytes)
        assert np.array_equal(smallmm.det(a), np.zeros(5))
    """
    run_python(code, {"CUDA_VISIBLE_DEVICES": ""})


def test_explanation(monkeypatch):
    """Costs follow bytes and operations; both verdicts occur."""
    a = np.ones((20_000, 16, 16))
    monkeypatch.setattr(_core, "get_num_threads", lambda: 1)
    eigh = smallmm.explain(cuda.offload, smallmm.eigh, a)
    product = smallmm.explain(cuda.offload, "matmul", a, a[0])
    assert eigh.pays
    assert "it pays" in str(eigh)
    assert (eigh.bytes_up, eigh.bytes_down) == (a.nbytes, a.nbytes + a.nbytes // 16 + 4 * len(a))
    assert (product.bytes_up, product.bytes_down) == (a.nbytes + a[0].nbytes, a.nbytes)
    assert not product.pays
    assert "it does not pay" in str(product)
    assert eigh.host.kernel.startswith("smm_eigh")
    assert (eigh.blocks, eigh.streams) == (16, 4)  # each stream has several

    def calls(a):
        return smallmm.solve_tridiagonal(a[0, 1:], a[0], a[0, 1:], smallmm.inv(smallmm.inv(a)))

    plan = smallmm.explain(cuda.offload, smallmm.fuse(calls, "(n,n)"), a)
    assert (plan.calls, plan.bytes_up) == (3, 3 * a.nbytes + a[:, 0].nbytes + a[:, 0, 1:].nbytes)
    why = "no kernel of a program has solve_tridiagonal"
    assert f"its steps are 3 calls, one after the other: {why}" in str(plan)
    plan = smallmm.explain(cuda.offload, smallmm.eigh, a.astype(complex))
    assert plan.bytes_up == 2 * a.nbytes


def test_on_a_real_gpu(torch_cuda):
    """Page-locked and not, in several blocks; with PyTorch's arrays of the host, and beside its streams."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5000, 8, 8))
    a = a @ a.mT + 8 * np.eye(8)
    pinned = cuda.empty_pinned(a.shape)
    pinned[...] = a
    for function in (smallmm.inv, smallmm.eigh, smallmm.lu_factor, smallmm.slogdet):
        expected = function(a)
        for x in (a, pinned, cuda.pin(a.copy()), torch_cuda.from_numpy(a)):
            found = cuda.offload(function, x, block=1 << 20)
            pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
            for y, z in pairs:
                np.testing.assert_array_equal(np.asarray(y), z)
    device = cuda.to_device(a)
    tensor = torch_cuda.as_tensor(device, device="cuda")
    assert tensor.data_ptr() == device.__cuda_array_interface__["data"][0]
    shared = torch_cuda.from_dlpack(device)
    assert shared.data_ptr() == tensor.data_ptr()
    shared[0] *= 2  # and back, which the copy to the host waits for
    shared[0] /= 2
    np.testing.assert_array_equal(cuda.to_host(device), a)
    np.testing.assert_array_equal(shared[::2].mT.cpu().numpy(), cuda.to_host(device[::2].mT))
    with torch_cuda.cuda.stream(torch_cuda.cuda.Stream()):
        product = torch_cuda.from_dlpack(smallmm.matmul(device, device)) + 0
    np.testing.assert_array_equal(product.cpu().numpy(), smallmm.matmul(a, a))
    copied = torch_cuda.from_dlpack(device, copy=True)
    assert copied.data_ptr() != tensor.data_ptr()
    np.testing.assert_array_equal(copied.cpu().numpy(), a)
    fused = smallmm.fuse(lambda a, b: smallmm.solve(a, b) * 2, "(n,n),(n,n)")
    for x in (a, pinned):
        np.testing.assert_array_equal(cuda.offload(fused, x, a, block=1 << 20), fused(a, a))
    np.testing.assert_array_equal(cuda.to_host(smallmm.inv(device)), smallmm.inv(a))
    mapped = cuda.to_device(pinned, mapped=True)
    np.testing.assert_array_equal(cuda.to_host(smallmm.inv(mapped)), smallmm.inv(a))
    cuda.empty_cache()

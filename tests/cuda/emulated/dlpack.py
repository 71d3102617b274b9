"""DLPack of `DeviceArray` on the emulated GPU, whose memory the CPU reads, with a consumer of our own."""

import contextlib
import ctypes
import gc
import os
import sys
import threading
import weakref
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "support")]

import paths  # noqa: E402, F401
from capsules import Unversioned, Versioned  # noqa: E402
from checks import raised  # noqa: E402

import smallmm  # noqa: E402
from smallmm import _core, cuda  # noqa: E402

GPU = ctypes.CDLL(os.environ["EMULATED_LIBRARY"])
PYTHON = ctypes.pythonapi
PYTHON.PyCapsule_GetPointer.restype = ctypes.c_void_p
PYTHON.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
PYTHON.PyCapsule_GetName.restype = ctypes.c_char_p
PYTHON.PyCapsule_GetName.argtypes = [ctypes.py_object]
PYTHON.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
CODES = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
NAMES = {}  # which capsules keep the addresses of


class Taken:
    """What a consumer makes of a capsule: an array that reads its memory, until `delete`."""

    def __init__(self, capsule):
        name = PYTHON.PyCapsule_GetName(capsule)
        self.kind = {b"dltensor": Unversioned, b"dltensor_versioned": Versioned}[name]
        self.address = PYTHON.PyCapsule_GetPointer(capsule, name)
        self.managed = self.kind.from_address(self.address)
        used = NAMES.setdefault(name, b"used_" + name)
        assert PYTHON.PyCapsule_SetName(capsule, used) == 0
        x = self.managed.tensor
        assert (x.lanes, x.byte_offset) == (1, 0)
        self.device = x.device_type, x.device
        dtype = np.dtype(f"{CODES[x.code]}{x.bits // 8}")
        self.shape = tuple(x.shape[i] for i in range(x.ndim))
        strides = tuple(x.strides[i] * dtype.itemsize for i in range(x.ndim)) if x.strides else None
        self.data = x.data or 0
        buffer = {"data": (self.data, False), "shape": self.shape, "strides": strides, "typestr": dtype.str}
        holder = type("Holder", (), {"__array_interface__": {**buffer, "version": 3}})()
        self.array = np.asarray(holder) if self.data else np.empty(self.shape, dtype)

    def delete(self):
        self.array = None
        self.managed.deleter(self.address)


def left():
    gc.collect()
    cuda.empty_cache()
    return GPU.emulated_live()


def contents():
    """Shapes, strides and dtypes; the same memory, which both write to."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 3, 4))
    for dtype in ("f4", "f8", "c8", "c16", "f2", "i4", "i8", "u1", "?"):
        for version in (None, (0, 8), (1, 0), (1, 1), (2, 3)):
            x = cuda.to_device(a.astype(dtype))
            taken = Taken(x.__dlpack__(max_version=version))
            assert taken.kind is (Versioned if version and version >= (1, 0) else Unversioned)
            if taken.kind is Versioned:
                assert (taken.managed.major, taken.managed.flags) == (1, 0)
            assert taken.device == x.__dlpack_device__() == (2, 0)
            assert taken.data == x.__cuda_array_interface__["data"][0]
            assert taken.array.dtype == dtype
            np.testing.assert_array_equal(taken.array, a.astype(dtype))
            taken.delete()
    x = cuda.to_device(a)
    for view in (
        *(x[1:4:2, :, ::-1], x.mT, x[2, 1], x[2, 1, 3], x[:0], x[..., None], x[::-1, 1:, 2:].mT),
        *(cuda.to_device(np.float64(3)), cuda.to_device(a.reshape(5, *[1] * 12, 12))),
    ):
        expected = cuda.to_host(view)
        for copied in (None, False, True):
            taken = Taken(view.__dlpack__(copy=copied, max_version=(1, 1)))
            np.testing.assert_array_equal(taken.array, expected)
            assert taken.shape == expected.shape
            assert taken.managed.flags == (2 if copied else 0)  # copied
            if expected.size:
                assert (taken.data == view.__cuda_array_interface__["data"][0]) is not copied
            taken.delete()
    taken = Taken(x.__dlpack__())
    taken.array[0, 0] = 7
    assert (cuda.to_host(x)[0, 0] == 7).all()
    x[1, 1] = np.zeros(4)
    assert not taken.array[1, 1].any()
    x[...] = a
    taken.delete()
    # to the host, and from what the device has mapped
    pinned = cuda.empty_pinned((3, 2))
    pinned[...] = 5
    mapped = cuda.to_device(pinned, mapped=True)
    for y in (x, mapped):
        for copied in (None, True):
            taken = Taken(y.__dlpack__(dl_device=(1, 0), copy=copied))
            assert taken.device == (1, 0)
            np.testing.assert_array_equal(taken.array, cuda.to_host(y))
            assert np.may_share_memory(taken.array, pinned) is (y is mapped and copied is None)
            taken.delete()
    taken = Taken(mapped.__dlpack__())
    del pinned, mapped, y
    assert (taken.array == 5).all()
    taken.delete()
    # smallmm's own functions hold no capsule
    before = left()
    np.testing.assert_array_equal(
        cuda.to_host(smallmm.inv(x[:, :, :3])), smallmm.inv(cuda.to_host(x)[..., :3])
    )
    assert left() == before


def new_memory():
    """What results of JAX are written to: elements of every type, and as many."""
    before = left()
    for dtype in ("f4", "f8", "c8", "c16", "f2", "i4", "i8", "u1", "?"):
        capsule, address = _core.device_empty((5, 3), np.dtype(dtype).str, 0, 0)
        taken = Taken(capsule)
        assert (taken.array.dtype, taken.shape, taken.data) == (np.dtype(dtype), (5, 3), address)
        assert GPU.emulated_bytes_of(ctypes.c_void_p(address)) == 15 * np.dtype(dtype).itemsize
        taken.delete()
        del capsule
    assert left() == before
    assert "no device has elements of type 'S3'" in str(raised(_core.device_empty, (2,), "S3", 0, 0))


def refusals():
    x = cuda.to_device(np.ones((2, 2)))
    for said, options in (
        ("stream is 0; expected", {"stream": 0}),
        ("stream is -2; expected", {"stream": -2}),
        ("__dlpack__: stream is 'x'", {"stream": "x"}),
        ("dl_device is (2, 1); expected (2, 0) or (1, 0)", {"dl_device": (2, 1)}),
        ("copy is False, but dl_device is the host", {"dl_device": (1, 0), "copy": False}),
    ):
        error = raised(x.__dlpack__, **options)
        assert said in str(error), error
        assert isinstance(error, BufferError | ValueError | TypeError)
    assert type(raised(np.from_dlpack, x)) in (BufferError, RuntimeError)


def streams():
    """The consumer's stream waits for ours, unless it says that it need not."""
    order, asked = _core.cuda_order, []
    x = cuda.to_device(np.ones((2, 2)))
    stream = _core.cuda_stream(0)
    _core.cuda_order = lambda *what: asked.append(what) or order(*what)
    try:
        for given, expected in ((None, 1), (1, 1), (2, 2), (stream.address, stream.address), (-1, None)):
            asked.clear()
            x.__dlpack__(stream=given)
            assert asked == ([] if expected is None else [(0, expected, 1)]), (given, asked)
            GPU.emulated_fail_at(-1, 0)
            if expected is not None:
                order(0, expected, 1)
                assert (GPU.emulated_calls() == 0) is (expected == 1)
    finally:
        _core.cuda_order = order


def lifetimes():
    """The memory is released once, whoever is the last: the array, the capsule, or the consumer."""
    a = np.arange(12.0).reshape(3, 4)
    before = left()
    for version in (None, (1, 1)):
        capsule = cuda.to_device(a).__dlpack__(max_version=version)  # never consumed
        assert left() == before + 1
        del capsule
        assert left() == before
        x = cuda.to_device(a)
        capsules = [x.__dlpack__(max_version=version) for _ in range(3)]
        first, second = map(Taken, capsules[:2])
        del x
        assert left() == before + 1
        del capsules  # two that were taken and renamed, which do nothing, and one
        np.testing.assert_array_equal(first.array, a)
        first.delete()
        assert left() == before + 1
        np.testing.assert_array_equal(second.array, a)
        thread = threading.Thread(target=second.delete)  # on any thread
        thread.start()
        thread.join()
        assert left() == before
        taken = Taken(cuda.to_device(a).__dlpack__(max_version=version, copy=True))
        assert left() == before + 1
        taken.delete()
        assert left() == before
    memory = cuda.empty_pinned((2, 2))
    gone = weakref.ref(memory)
    taken = Taken(cuda.to_device(memory, mapped=True).__dlpack__())
    del memory
    assert gone() is not None
    taken.delete()
    assert gone() is None
    assert left() == before
    # no call of the driver that fails leaves anything
    x = cuda.to_device(a)
    stream = _core.cuda_stream(0)
    before = left()
    for k in range(8):
        for options in ({"copy": True}, {"stream": stream.address}, {"dl_device": (1, 0)}):
            GPU.emulated_fail_at(k, 700)
            with contextlib.suppress(MemoryError, RuntimeError):
                x.__dlpack__(**options)
            GPU.emulated_fail_at(-1, 0)
            assert left() == before, (k, options)


if __name__ == "__main__":
    cuda.device_name()  # tables and NVRTC are looked for once, so before others are named
    _core.cuda_configure(os.environ["EMULATED_LIBRARY"].encode(), b"")
    for part in (contents, new_memory, refusals, streams, lifetimes):
        part()
    kept = Taken(cuda.to_device(np.ones(3)).__dlpack__())  # a consumer that outlives the interpreter
    sys.modules["kept"] = kept

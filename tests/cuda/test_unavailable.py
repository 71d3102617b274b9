"""What is said where CUDA, or a part of it, is missing. Runs on any machine."""

import numpy as np
import pytest

import smallmm

DEVICE_ARRAY = """
    import smallmm

    class Array:
        shape, dtype = (4, 3, 3), "float32"
        __cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (1 << 20, False), "version": 3}

    try:
        smallmm.batched_matmul(Array(), Array())
    except smallmm.CudaUnavailableError as error:
        print(error)
"""


@pytest.fixture
def no_driver():
    try:
        smallmm.cuda.device_name()
    except smallmm.CudaUnavailableError:
        return
    pytest.skip("there is a driver")


def test_no_driver(no_driver, run_python):
    assert not smallmm.cuda.is_available()
    with pytest.raises(smallmm.CudaUnavailableError, match=r"no CUDA driver .*install the NVIDIA driver"):
        smallmm.cuda.warmup([3])
    said = run_python(DEVICE_ARRAY).stdout
    assert "no CUDA driver" in said
    assert "install the NVIDIA driver" in said


def test_no_nvrtc(run_python, tmp_path):
    code = """
        import smallmm
        from smallmm import _core
        _core.cuda_plan({"dtype": "f32", "m": 2, "k": 2, "n": 2}, 1 << 17)
        _core.cuda_configure("/nowhere/libnvrtc.so", None)
        try:
            _core.cuda_build({"dtype": "f32", "m": 2, "k": 2, "n": 2}, None, 90, 1 << 17)
        except smallmm.CudaUnavailableError as error:
            print(error)
        else:
            print("found by its usual name")
    """
    said = run_python(code).stdout
    assert "usual name" in said or ("no NVRTC" in said and "pip install 'smallmm[cuda]'" in said)


def test_import_opens_nothing(run_python):
    """Importing, and computing on the host, opens neither driver nor NVRTC nor the libraries around them."""
    code = """
        import sys, numpy, smallmm
        smallmm.batched_matmul(numpy.eye(3), numpy.eye(3))
        maps = open("/proc/self/maps").read()
        print([name for name in ("libcuda", "libnvrtc") if name in maps])
        unwanted = ("torch", "cupy", "cuda", "smallmm._device", "platformdirs")
        print([name for name in unwanted if name in sys.modules])
    """
    assert run_python(code).stdout == "[]\n[]\n"


def test_messages_name_what_was_given():
    class Array:
        shape, dtype = (4, 3, 3), "float32"

        def __dlpack_device__(self):
            return (8, 0)  # Metal

        def __dlpack__(self, **_):
            raise AssertionError("moved")

    with pytest.raises(TypeError, match=r"b is a .*Array but a is a|on the host|no CUDA GPU"):
        smallmm.batched_matmul(Array(), Array())
    with pytest.raises(TypeError, match=r"a is a numpy.ndarray on the host"):
        smallmm.batched_matmul(np.eye(3), Array())


def test_unknown_kernel_and_parameters():
    from smallmm import _core

    problem = {"dtype": "f32", "m": 4, "k": 4, "n": 4}
    with pytest.raises(ValueError, match="there is no CUDA kernel 'magic'"):
        _core.cuda_plan(problem, 1 << 17, {"kernel": "magic"})
    assert (
        _core.cuda_plan(problem, 1 << 17, {"kernel": "matmul_staged", "rows": 5, "cols": 1, "threads": 64})
        is None
    )
    with pytest.raises(ValueError, match="expected a dtype"):
        _core.cuda_plan({"m": 1}, 1 << 17)
    with pytest.raises(TypeError, match="a list of rows"):
        _core.cuda_tune(())

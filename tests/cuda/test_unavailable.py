"""What is said where CUDA, or a part of it, is missing. Runs on any machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import smallmm
from smallmm import cuda

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


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    """Folders with a CUDA driver that runs nothing, whole and without one of its functions."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folders = {}
    for name, flags in (("whole", []), ("old", ["-DcuMemAllocAsync=none"])):
        folders[name] = tmp_path_factory.mktemp(name)
        source = Path(__file__).with_name("fake_driver.c")
        command = [compiler, "-shared", "-fPIC", *flags, "-o", folders[name] / "libcuda.so.1", source]
        subprocess.run(command, check=True)
    return folders


@pytest.mark.parametrize(
    ("driver", "settings", "device", "said"),
    [
        ("whole", {"FAKE_INIT": "100"}, 0, r"finds no usable GPU \(cuInit: .*error 100\); nvidia-smi"),
        ("whole", {}, 3, r"no CUDA device 3; the driver sees 1 \(CUDA_VISIBLE_DEVICES"),
        ("whole", {"FAKE_CC": "75"}, 0, r"compute capability 7\.5; a GPU of 8\.0 or newer"),
        ("whole", {"FAKE_CUDA": "9020"}, 0, r"the driver is of CUDA 9\.2 and cannot load .*newer driver"),
        ("old", {}, 0, r"has no cuMemAllocAsync; install the NVIDIA driver 525"),
    ],
    ids=["no GPU", "no such device", "old GPU", "old driver, new NVRTC", "old driver"],
)
def test_unusable_drivers(run_python, tmp_path, drivers, driver, settings, device, said):
    environment = {"SMALLMM_CACHE_DIR": str(tmp_path)}
    if "FAKE_CUDA" in settings:  # from disk, because some NVRTC ask the driver for more than the fake one has
        compiled = """
            from smallmm import cuda
            problem = {"op": "MATMUL", "dtype": "f32", "m": 2, "k": 2, "n": 2, "small": 0}
            cuda.compile_for([problem], 90, shared_memory=200 << 10)
        """
        done = run_python(compiled, environment, check=False)
        if "CudaUnavailableError" in done.stderr:
            pytest.skip(done.stderr.splitlines()[-1])
    folders = [str(drivers[driver]), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment |= {"LD_LIBRARY_PATH": os.pathsep.join(folders), **settings}
    code = f"""
        import smallmm
        try:
            smallmm.cuda.warmup([2], device={device})
        except smallmm.CudaUnavailableError as error:
            print(error)
    """
    done = run_python(code, environment, check=False)
    assert re.search(said, done.stdout), done.stderr


def test_no_nvrtc(run_python):
    """Where neither cuda-pathfinder nor the usual names lead to one."""
    code = """
        import ctypes, smallmm
        from smallmm import _core, cuda
        cuda._nvrtc_path = lambda: "/nowhere/libnvrtc.so"
        for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
            try:
                ctypes.CDLL(name)
                raise SystemExit("found by its usual name")
            except OSError:
                pass
        try:
            cuda.compile_for([{"dtype": "f32", "m": 2, "k": 2, "n": 2}], 90)
        except smallmm.CudaUnavailableError as error:
            print(error)
    """
    done = run_python(code, check=False)
    if "usual name" in done.stderr:
        pytest.skip("NVRTC is installed where the loader finds it")
    assert "no NVRTC" in done.stdout
    assert "pip install 'smallmm[cuda]'" in done.stdout


def test_import_opens_nothing(run_python):
    """Importing, and computing on the host, opens neither driver nor NVRTC nor the libraries around them."""
    code = """
        import sys, numpy, smallmm
        smallmm.batched_matmul(numpy.eye(3), numpy.eye(3))
        maps = open("/proc/self/maps").read()
        print([name for name in ("libcuda", "libnvrtc") if name in maps])
        unwanted = ("torch", "cupy", "cuda", "smallmm._gpu.device", "platformdirs")
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


def test_warmup_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match="there is no 'order_x'; expected some of order_a"):
        cuda.warmup([3], order_x=1)
    with pytest.raises(ValueError, match=r"op is 'magic'; expected one of .*batched_matmul"):
        cuda.warmup([3], op="magic")
    with pytest.raises(ValueError, match="dtype is 'f8'; expected one of f32, f64"):
        cuda.warmup([3], dtypes=("f8",))
    for shapes, keywords, words in (
        ([3], {"op": []}, r"op is \[\]"),
        ([3], {"dtypes": [[]]}, r"dtype is \[\]"),
        ([3], {"dtypes": 32}, "dtypes is 32"),
        ([3], {"device": "cuda"}, "device is 'cuda'; expected an integer"),
        ([3], {"order_a": "F"}, "order_a is 'F'; expected an integer"),
        ([3], {"order_a": 2}, "order_a is 2; expected 0 or 1"),
        (3, {}, "shapes is 3"),
        ([(3, 4)], {}, r"a shape is \(3, 4\); expected \(m, k, n\) or n"),
        ([1.5], {}, "a shape is 1.5"),
        ([3], {"op": "m" * 99}, "op is a str; expected one of .*batched_matmul"),
        ([3], {"dtypes": ["f" * 99]}, "dtype is a str; expected one of f32"),
        ([tuple(range(99))], {}, "a shape is a tuple; expected"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"warmup: {words}"):
            cuda.warmup(shapes, **keywords)
    with pytest.raises(TypeError, match="device_name: device is None; expected an integer"):
        cuda.device_name(None)
    for shape, op in ((129, "solve"), ((4, 4, 0), "batched_matmul")):
        with pytest.raises(ValueError, match=f"no kernel takes {op} of"):
            cuda.warmup([shape], op=op)
    with pytest.raises(ValueError, match="no kernel takes inv of"):
        cuda.warmup([129], op="inv")


def test_without_a_place_for_the_cache(run_python, tmp_path):
    """No home, or a folder's name that is no text: no exception of its own."""
    code = "import smallmm.cuda; print(smallmm.cuda.is_available() in (True, False))"
    assert "True" in run_python(code, {"SMALLMM_CACHE_DIR": str(tmp_path) + "/\udcff"}).stdout
    homeless = "import pathlib\ndef home(): raise RuntimeError('no home')\npathlib.Path.home = home\n"
    nowhere = "import sys; sys.modules['platformdirs'] = None\n"
    assert "True" in run_python(homeless + nowhere + code, {"XDG_CACHE_HOME": ""}).stdout


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

"""Tests of the CUDA side. Those that need a GPU take the fixture `torch_cuda` and are skipped without one;
the others run wherever NVRTC is. `make test-cuda` runs them all and fails without a GPU or a library."""

import fcntl
import importlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from smallmm._core import isas_available

os.environ["CUDA_CACHE_DISABLE"] = "1"  # NVRTC's own cache, which keeps no logs
EMULATED = Path(__file__).parent / "emulated"
SUPPORT = Path(__file__).parents[1] / "support"
# Of kernels for the emulated GPU: with -O1 they take a quarter longer, of which compiling is half.
FLAGS = ["-fPIC", "-Og", "-g1", "-w", "-std=gnu++17", "-ffp-contract=off", "-fno-strict-aliasing"]
FLAGS += ["-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"]  # emulated/gpu/races.h
HAS_AVX2 = bool({"avx2", "avx512"} & {*isas_available()})  # and FMA
FLAGS += ["-mfma"] if HAS_AVX2 else []
# Registers that nobody wrote hold anything on a GPU, here a large number. gcc 11 has no such option.
POISON = "-ftrivial-auto-var-init=pattern"
REGISTERS = pytest.StashKey[dict[str, list[int]]]()


@pytest.fixture(scope="session")
def required():
    """Imports a library, which `make test-cuda` must have; otherwise its tests are skipped without it."""
    return importlib.import_module if os.environ.get("SMALLMM_TEST_CUDA") else pytest.importorskip


@pytest.fixture(scope="session")
def torch_cuda(required):
    torch = required("torch")
    if not torch.cuda.is_available():
        if os.environ.get("SMALLMM_TEST_CUDA"):
            pytest.fail("SMALLMM_TEST_CUDA is set but PyTorch sees no GPU")
        pytest.skip("no GPU")
    return torch


@pytest.fixture
def torch(torch_cuda):
    return torch_cuda


@pytest.fixture(params=["torch", "cupy"])
def library(request, required):
    """How an array gets to the device, and how it comes back."""
    module = required(request.param)
    if request.param == "torch":
        return lambda x: module.asarray(x, device="cuda"), lambda x: x.cpu().numpy()
    return module.asarray, module.asnumpy


@pytest.fixture(scope="session")
def compiler():
    found = shutil.which("c++") or shutil.which("g++")
    return found or pytest.skip("no C++ compiler")


@pytest.fixture(scope="session")
def flags(compiler):
    """Of the compiler of kernels for the emulated GPU."""
    command = [compiler, POISON, "-fsyntax-only", "-x", "c++", os.devnull]
    poisons = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return [*FLAGS, POISON] if poisons else FLAGS


@pytest.fixture(scope="session")
def emulated_library(tmp_path_factory, compiler):
    """A CUDA driver and NVRTC that run kernels on the CPU (emulated/gpu), built by one worker for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "emulated"
    folder.mkdir(exist_ok=True)
    library = folder / "libcuda.so.1"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            vectors = ["-mavx2"] if HAS_AVX2 else []  # of what threads know of each other
            command = [compiler, "-shared", "-fPIC", "-O3", *vectors, "-std=c++17", "-o", library]
            subprocess.run([*command, EMULATED / "gpu/gpu.cpp", "-ldl"], check=True)
            (folder / "built").touch()
    return library


@pytest.fixture(scope="session")
def emulated_forks(emulated_library, compiler, flags):
    """What runs scripts (emulated/gpu/forks.py)."""
    environment = {
        **{x: os.environ[x] for x in os.environ if not x.startswith("SMALLMM_")},
        "PYTHONPATH": ":".join(filter(None, (str(SUPPORT), str(EMULATED), os.environ.get("PYTHONPATH")))),
        "LD_LIBRARY_PATH": f"{emulated_library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        "EMULATED_LIBRARY": str(emulated_library),
        "EMULATED_HEADERS": str(EMULATED / "gpu"),
        "EMULATED_KERNELS": str(emulated_library.parent),
        "EMULATED_COMPILER": shlex.join([compiler, *flags]),
        "CCACHE_DISABLE": "1",  # it takes a fifth of the time to look
        "EMULATED_LINKER": "ld",  # alone it takes half as long: the process has libc and libm
    }
    command = [sys.executable, EMULATED / "gpu/forks.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as forks:
        yield forks


@pytest.fixture
def emulated(emulated_forks, tmp_path):
    """Run a Python script of the folder emulated/, or another, where the emulated GPU is the only one. The
    result is what it printed; it must not fail.

    Keywords are more environment variables. What is compiled lies in tmp_path."""

    def run(script, *arguments, **settings):
        command = [str(EMULATED / script), *map(str, arguments)]
        environment = {"EMULATED_FOLDER": str(tmp_path), **{x: str(y) for x, y in settings.items()}}
        printed = [tmp_path / "output", tmp_path / "errors"]
        emulated_forks.stdin.write(json.dumps([command, environment, [*map(str, printed)]]) + "\n")
        emulated_forks.stdin.flush()
        status = emulated_forks.stdout.readline().strip()
        output, errors = (path.read_text() for path in printed)
        if status != "0":
            raise RuntimeError(f"{shlex.join(command)}: {status} {output[-1000:]}{errors[-3000:]}")
        return output

    return run


@pytest.fixture(scope="session")
def registers(request):
    """Registers a thread of the kernels that were compiled, of each architecture and kind of kernel."""
    return request.config.stash.setdefault(REGISTERS, {})


def pytest_terminal_summary(terminalreporter, config):
    for kind, found in sorted(config.stash.get(REGISTERS, {}).items()):
        terminalreporter.write_line(
            f"{kind}: {len(found)} compiled, {min(found)} to {max(found)} registers a thread, "
            f"{sorted(found)[len(found) // 2]} on the median"
        )

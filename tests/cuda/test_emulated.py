"""The GPU's kernels run on the CPU (emulated/gpu.cpp): each gives the CPU's bits, whatever its parameters,
however operands lie, and in whatever order the threads of a block come to run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_compile import KERNELS

HERE = Path(__file__).parent / "emulated"
COMPILER = shutil.which("c++") or shutil.which("g++")
CASES = int(os.environ.get("SMALLMM_EMULATED_CASES", "6"))  # of a kernel


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    library = tmp_path_factory.mktemp("emulated") / "libcuda.so.1"
    command = [COMPILER, "-shared", "-fPIC", "-O1", "-std=c++17", "-o", library, HERE / "gpu.cpp", "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.fixture
def run(library, tmp_path):
    def run(*arguments, capability=90, script="run.py"):
        environment = {
            **{x: os.environ[x] for x in os.environ if not x.startswith("SMALLMM_")},
            "LD_LIBRARY_PATH": f"{library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "EMULATED_LIBRARY": str(library),
            "EMULATED_HEADERS": str(HERE),
            "EMULATED_FOLDER": str(tmp_path),
            "EMULATED_CC": str(capability),
            "CXX": str(COMPILER),
        }
        return subprocess.run(
            [sys.executable, HERE / script, *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("kernel", "capability"),
    [
        *[("_".join(words), 90) for words in KERNELS],
        ("inv_shared", 80),
        ("inv_tensor", 80),
    ],
)
def test_kernel(run, tmp_path, kernel, capability):
    """Some also without what came with sm_90: bulk copies, and the tensor cores that are used."""
    done = run(kernel, "--cases", CASES if capability == 90 else CASES // 2, capability=capability)
    assert done.returncode == 0, (done.stdout[-1000:], done.stderr[-3000:])
    ran = [path for path in tmp_path.iterdir() if f"smm_{kernel}_" in path.name]
    assert len(ran) >= CASES // 4, "others were planned"


def test_batch_dimensions(run):
    """Merged or not, in place, with a vector or a number for each matrix; and an overlap is refused."""
    done = run(script="dimensions.py")
    assert done.returncode == 0, done.stderr[-3000:]

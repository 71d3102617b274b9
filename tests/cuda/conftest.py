"""Tests of the CUDA side. Those that need a GPU take the fixture `torch_cuda` and are skipped without one;
the others run wherever NVRTC is. `make test-cuda` runs them all and fails without a GPU or a library."""

import importlib
import os

import pytest

os.environ["CUDA_CACHE_DISABLE"] = "1"  # NVRTC's own cache, which keeps no logs
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

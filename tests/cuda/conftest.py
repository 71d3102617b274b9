"""Tests of the CUDA side. Those that need a GPU take the fixture `torch_cuda` and are skipped without one;
the others run wherever NVRTC is. `make test-cuda` runs them all and fails without a GPU."""

import os

import pytest


@pytest.fixture(scope="session")
def torch_cuda():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        if os.environ.get("SMALLMM_TEST_CUDA"):
            pytest.fail("SMALLMM_TEST_CUDA is set but PyTorch sees no GPU")
        pytest.skip("no GPU")
    return torch

import importlib
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from accuracy import COMPLEX, DTYPES
from hypothesis import HealthCheck, settings

import smallmm._core as core

# Of pytest's workers and what tests start: BLAS threads wait in loops, and other tests want the processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("default")


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run tests that need minutes or much memory")
    parser.addoption("--libraries", action="store_true", help="fail without PyTorch or JAX, and skip no test")


LIBRARIES = {"torch", "jax"}  # fixtures, and parameters of tests


def pytest_configure(config):
    if config.getoption("--libraries"):
        for name in LIBRARIES:
            importlib.import_module(name)


def pytest_collection_modifyitems(config, items):
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if LIBRARIES & {*item.fixturenames, *(x for x in parameters if isinstance(x, str))}:
            item.add_marker(pytest.mark.needs_library)
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))


@pytest.fixture(params=core.isas_available())
def isa(request):
    """Every instruction set of this machine in turn, forced."""
    core.select_isa(request.param)
    yield request.param
    core.select_isa(None)


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture(params=DTYPES + COMPLEX, ids=lambda dtype: dtype.__name__)
def number(request):
    """dtype, or a complex one; complex64 with the best instruction set, for core/test_linalg.c tries all."""
    forced = request.getfixturevalue("isa") if "isa" in request.fixturenames else None
    if request.param == np.complex64 and forced not in (None, core.isas_available()[-1]):
        pytest.skip("core/test_linalg.c tries it")
    return np.dtype(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(20261121)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax(monkeypatch):
    """JAX with its arrays on the host, also where it sees a GPU, whose memory it leaves to others."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        yield jax


@pytest.fixture(scope="session")
def run_python():
    """Run Python code in a process of its own, with more environment variables."""

    def run(code, environment=None, check=True):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SMALLMM_", "OMP_"))}
        return subprocess.run(
            [sys.executable, "-P", "-c", textwrap.dedent(code)],
            env={**clean, **(environment or {})},
            capture_output=True,
            text=True,
            check=check,
            timeout=120,
        )

    return run

import gc
import importlib.util
import inspect
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from accuracy import DTYPES, has_fma
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
        sys.modules["torch"].set_num_threads(1)  # its threads wait in loops, too


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Tests that were collected stay: to look for garbage among them takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    missing = {name for name in LIBRARIES if importlib.util.find_spec(name) is None}
    skipped = set()  # functions, and the libraries that they need
    tried = []
    for item in filter(is_tried, items):
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        fixtures = {name.removesuffix("_cuda") for name in item.fixturenames}  # torch_cuda is PyTorch's, too
        libraries = LIBRARIES & {*fixtures, *(x for x in parameters if isinstance(x, str))}
        if libraries:
            item.add_marker(pytest.mark.needs_library)
        if libraries & missing:  # one case says so
            function = (item.nodeid.partition("[")[0], *sorted(libraries))
            if function in skipped:
                continue
            skipped.add(function)
        tried.append(item)
    items[:] = tried
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Of a test that passed a worker sends one message, not five: these take longer than a short test."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture(params=core.isas_available())
def isa(request):
    """Every instruction set of this machine in turn, forced."""
    core.select_isa(request.param)
    yield request.param
    core.select_isa(None)


def is_tried(item):
    """Whether there is something to test with these parameters: the function that `@pytest.mark.where` has
    says so. A skip is for what the machine lacks."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return needs_isa(item, given.get("isa")) and all(
        holds(*(given.get(name) for name in inspect.signature(holds).parameters))
        for mark in item.iter_markers("where")
        for holds in mark.args
    )


def needs_isa(item, isa):
    """Whether a test must be tried with its instruction set. The best one, and those that round otherwise,
    always are. For accuracy (`@pytest.mark.accuracy`) that is enough: with FMA all give the same bits, which
    test_bits.py and core/test_linalg.c compare. complex64 (`@pytest.mark.best_isa`) is tried with the best
    alone, since core/test_linalg.c tries all."""
    if isa in (None, core.isas_available()[-1]):
        return True
    return not item.get_closest_marker("best_isa") and not (
        item.get_closest_marker("accuracy") and has_fma(isa)
    )


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture(
    params=[*DTYPES, pytest.param(np.complex64, marks=pytest.mark.best_isa), np.complex128],
    ids=lambda dtype: dtype.__name__,
)
def number(request):
    """dtype, or a complex one."""
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

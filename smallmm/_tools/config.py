"""What smallmm runs on, and with how many threads."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, overload

import numpy as np

from .. import _core, cuda
from .._base.options import integer, one_of
from .._gpu import tuned as _tuned


def get_num_threads() -> int:
    """Number of threads that a call may use, the calling one among them."""
    return _core.get_num_threads()


def set_num_threads(threads: int, /) -> None:
    """Set the number of threads that a call of this process may use.

    Parameters
    ----------
    threads : int
        At least 1; or 0 for the default: ``SMALLMM_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the CPUs
        that affinity and the control group of the process allow.

    Notes
    -----
    Results do not depend on it, bit for bit. Small calls use fewer threads than they may.
    """
    _core.set_num_threads(integer("set_num_threads", "threads", threads))


@contextmanager
def threads(threads: int, /) -> Iterator[None]:
    """Context in which calls of this process, from any thread, may use so many threads (0: the default).

    >>> with smallmm.threads(1):
    ...     smallmm.get_num_threads()
    1
    """
    before = _core.get_num_threads()
    _core.set_num_threads(integer("threads", "threads", threads))
    try:
        yield
    finally:
        _core.set_num_threads(before)


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, Any]: ...
def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, Any] | None:
    """Show versions, the instruction set, threads, NUMA nodes, GPUs and their compiler.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        Print them, or return them as a dictionary, as in `numpy.show_config`.

    Notes
    -----
    GPUs are listed by the driver's library NVML. CUDA is not started, because a process that forks later
    could not use it in its children.
    """
    mode = one_of("show_config", "mode", mode, ("stdout", "dicts"))
    cache, why = cuda.find_cache()
    config = {
        "smallmm": _core.__version__,
        "numpy": np.__version__,
        "python": sys.version.partition(" ")[0],
        "compiler": _core.compiler,
        "system": f"{os.uname().sysname} {os.uname().release}",
        "cpu": cpu(),
        "isa": _core.isa(),
        "isas available": list(_core.isas_available()),
        "threads": _core.get_num_threads(),
        "numa nodes": _numa_nodes(),
        "gpus": _gpus(),
        "nvrtc": _nvrtc(),
        "tuned rows": _tuned_rows(_tuned.load()),
        "own tuned rows": _tuned_rows(_tuned.load_own(cache)),
        "kernel cache": str(cache or f"none: {why}"),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("SMALLMM_", "OMP_", "OPENBLAS_", "MKL_"))  # ours, and what NumPy's BLAS heeds
        },
    }
    if mode == "dicts":
        return config
    for name, value in config.items():
        if isinstance(value, dict):
            value = [f"{key}={x}" for key, x in value.items()]
        if isinstance(value, list):
            value = ", ".join(value) or "none"
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        line = f"{name + ':':16}{value}".encode(
            encoding, "backslashreplace"
        )  # names of files need be no text
        print(line.decode(encoding))
    return None


def cpu() -> str:
    """The CPU's name with family and model, as names are short on virtual machines; else the architecture."""
    from pathlib import Path  # here: it takes as long to import as the rest of smallmm does

    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    fields = {"model name": "", "cpu family": "family ", "model": "model "}
    found = [(re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE), word) for name, word in fields.items()]
    return " ".join(word + x[1].strip() for x, word in found if x) or os.uname().machine


def _numa_nodes() -> list[str]:
    """Each node with the CPUs that this process may use: "node 0: CPUs 0-15"; why they do not matter."""
    from .. import numa  # here: seldom needed

    why, _, nodes = numa._known_nodes()
    what = [
        f"node {node.number}: {f'CPUs {_ranges(node.cpus)}' if node.cpus else 'no CPUs'}"
        f"{'' if node.has_memory else ', no memory'}"
        for node in nodes
    ]
    return [f"{each} (ignored: {why})" for each in what] if why else what


def _ranges(numbers: tuple[int, ...]) -> str:
    """ "0-3,8" of ascending numbers."""
    starts = [x for x in numbers if x - 1 not in numbers]
    ends = [x for x in numbers if x + 1 not in numbers]
    return ",".join(str(x) if x == y else f"{x}-{y}" for x, y in zip(starts, ends, strict=True))


def _nvrtc() -> str:
    """Where NVRTC is."""
    from ctypes.util import find_library  # here: seldom needed

    return cuda._nvrtc_path() or find_library("nvrtc") or "none; pip install 'smallmm[cuda]' brings it"


def _tuned_rows(tuned: _tuned.Tuned) -> list[str]:
    """How many rows there are of each device, and the parts of files that were skipped."""
    counts = Counter(f"{row['device']} (sm_{row['arch']})" for row in tuned.rows)
    return [f"{count} of {device}" for device, count in counts.items()] + [
        f"skipped {what} in {file}" for file, what in tuned.skipped.items()
    ]


def _gpus() -> list[str]:
    """Name and architecture of each NVIDIA GPU, by the driver's NVML."""
    import ctypes  # here: seldom needed

    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    if nvml.nvmlInit_v2():
        return []
    count, gpus = ctypes.c_uint(), []
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for i in range(count.value):
        device, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        major, minor = ctypes.c_int(), ctypes.c_int()
        nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device))
        nvml.nvmlDeviceGetName(device, name, len(name))
        nvml.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor))
        gpus.append(f"{name.value.decode()} (sm_{major.value}{minor.value})")
    nvml.nvmlShutdown()
    return gpus

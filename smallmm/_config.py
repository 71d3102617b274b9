"""What smallmm runs on, with how many threads, and how it would run a call."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from numbers import Number
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from . import _core, _lapack, _least_squares, _linalg, _matmul, _spectra, _tuned, cuda
from ._arrays import as_numpy, on_device
from ._errors import LinAlgError, integer, shown

_EXPLAINED = {
    f.__name__: f
    for f in (
        _matmul.batched_matmul,
        _matmul.matmul,
        _matmul.matvec,
        _matmul.vecmat,
        _linalg.lu_factor,
        _linalg.lu_factor_ex,
        _linalg.lu_solve,
        _linalg.solve,
        _linalg.solve_ex,
        _linalg.inv,
        _linalg.inv_ex,
        _linalg.det,
        _linalg.slogdet,
        _linalg.cholesky,
        _linalg.cholesky_ex,
        _linalg.cho_factor,
        _linalg.cho_solve,
        _linalg.solve_triangular,
        _least_squares.qr,
        _least_squares.lstsq,
        _least_squares.lstsq_ex,
        _spectra.eigh,
        _spectra.eigh_ex,
        _spectra.eigvalsh,
        _spectra.eigvalsh_ex,
    )
}


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
    Results do not depend on it, to the bit. Small calls use fewer threads than they may.
    """
    _core.set_num_threads(integer("set_num_threads", "threads", threads))


@contextmanager
def threads(threads: int, /) -> Iterator[None]:
    """Context in which calls of this process, from whatever thread, may use so many threads (0: the default).

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
    """Show versions, instruction set, threads, and what there is of NUMA, GPUs and their compiler.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        Print them, or return them as a dictionary, as in `numpy.show_config`.

    Notes
    -----
    GPUs are those that the driver's library NVML lists: CUDA is not started, which a process that forks later
    could not use in its children.
    """
    if not isinstance(mode, str) or mode not in ("stdout", "dicts"):
        raise ValueError(f"show_config: mode is {shown(mode)}; expected 'stdout' or 'dicts'")
    cache, why = cuda.find_cache()
    config = {
        "smallmm": _core.__version__,
        "numpy": np.__version__,
        "python": sys.version.partition(" ")[0],
        "compiler": _core.compiler,
        "system": f"{os.uname().sysname} {os.uname().release}",
        "cpu": _cpu(),
        "isa": _core.isa(),
        "isas available": list(_core.isas_available()),
        "threads": _core.get_num_threads(),
        "numa nodes": _numa_nodes(),
        "gpus": _gpus(),
        "nvrtc": _nvrtc(),
        "tuned rows": _tuned_rows(),
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
        print(f"{name + ':':16}{value}")
    return None


def _cpu() -> str:
    """The CPU's name, else the machine's architecture."""
    from pathlib import Path  # here: it takes as long to import as the rest of smallmm does

    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else os.uname().machine


def _numa_nodes() -> list[str]:
    """The CPUs of each node, as the kernel lists them: "CPUs 0-15"."""
    from pathlib import Path

    files = Path("/sys/devices/system/node").glob("node[0-9]*/cpulist")
    in_order = sorted(files, key=lambda file: (len(str(file)), file))
    return [f"CPUs {file.read_text().strip()}" for file in in_order]


def _nvrtc() -> str:
    """Where NVRTC is."""
    from ctypes.util import find_library  # here: seldom needed

    return cuda._nvrtc_path() or find_library("nvrtc") or "none; pip install 'smallmm[cuda]' brings it"


def _tuned_rows() -> list[str]:
    """How many rows there are of each device, and what was skipped of which file."""
    tuned = _tuned.load()
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


class Explanation(NamedTuple):
    """How a call would run. `str` gives it in words."""

    op: str
    kernel: str | None  # "lapack ..." beyond the order of our kernels; None: nothing to compute
    isa: str  # or the architecture of a GPU, sm_90
    packed: tuple[str, ...]  # operands copied tile by tile into a form that the kernel reads
    staged: bool  # the output passes through a buffer
    nontemporal: bool  # the output is written around the caches
    swapped: bool  # computed as C^T = B^T A^T
    threads: int  # on a GPU: of a block
    group: int  # matrices that share a buffer; on a GPU: of a block
    calls: int  # runs of equally spaced matrices that the batch dimensions fall into
    matrices: int
    flops: float
    bytes: float  # compulsory memory traffic
    source: str | None  # of a GPU's kernel: "tuned" or "baseline"
    tuned_on: str | None  # the device whose tuned row it is: this one, or the nearest that has one

    @property
    def strategy(self) -> str | None:
        """The idea that the kernel follows, as ARCHITECTURE.md names it."""
        if self.kernel is None or self.kernel.startswith("lapack"):
            return None
        idea = re.sub(r"smm_(\w+?)(_\d+)?_f\d+_\w+", r"\1", self.kernel)
        return idea.removeprefix("matmul_") if idea.startswith("matmul_") else idea.rpartition("_")[2]

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in flops per byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __str__(self) -> str:
        if self.kernel is None:
            return f"{self.op}: nothing to compute"
        how = [f"packs {' and '.join(self.packed)}"] if self.packed else []
        how += ["computed transposed"] if self.swapped else []
        how += ["output staged"] if self.staged else []
        how += ["output written around the caches"] if self.nontemporal else []
        how += [f"tuned on {self.tuned_on}"] if self.tuned_on else []
        how += ["the kernel's baseline"] if self.source == "baseline" else []
        return "\n".join(
            [
                f"{self.op}: {self.matrices} matrices by {self.kernel} on {self.threads} thread(s)",
                f"  {'; '.join(how) or 'operands used in place'}",
                f"  {self.flops:.4g} flops, {self.bytes:.4g} bytes, {self.intensity:.3g} flops per byte",
            ]
        )


def explain(op: str | Callable[..., Any], /, *arrays: Any, out: Any = None, **kwargs: Any) -> Explanation:
    """How a call would run: which kernel, on what, with which parameters.

    Parameters
    ----------
    op : str or function
        ``"solve"`` or ``smallmm.solve``; any other operation likewise.
    *arrays : array_like
        The operands, in tuples where the function takes them so. Their shapes, dtypes, strides and alignment
        matter, their values do not.
    out : array or tuple of arrays, optional
        The output, which is not written to.
    **kwargs
        As the function itself takes, ``alpha`` or ``mode`` for example.

    Returns
    -------
    Explanation
        A named tuple; print it for a summary.

    Examples
    --------
    >>> smallmm.explain("batched_matmul", np.ones((1000, 4, 4)), np.ones((4, 4))).matrices
    1000
    """
    name = op if isinstance(op, str) else getattr(op, "__name__", "")
    if name not in _EXPLAINED:
        raise ValueError(f"explain: op is {shown(op)}; expected one of {', '.join(_EXPLAINED)}")
    operands = _each(lambda x: as_numpy(name, "an operand", x) if _is_host_array(x) else x, arrays)
    out = _each(lambda x: _scratch_like(as_numpy(name, "out", x)) if _is_host_array(x) else x, out)
    plan = _core.explain(_unchecked, _EXPLAINED[name], *operands, out=out, **kwargs)
    packed = tuple(x for x in "ab" if plan.pop(f"pack_{x}"))
    architecture = re.search(r"_sm(\d+)$", plan["kernel"] or "")
    plan["isa"] = f"sm_{architecture[1]}" if architecture else _core.isa()
    if plan["kernel"] is None and plan["matrices"]:
        plan["kernel"] = f"lapack {_lapack.ROUTINES[name.removesuffix('_ex')]}"
        plan.update(threads=1, nontemporal=False)
    return Explanation(op=name, packed=packed, staged=plan.pop("stage_c"), **plan)


def _is_host_array(x: Any) -> bool:
    """Not an array on a device; nor an option, "T" or "r", nor None for an output that is not given."""
    return x is not None and not isinstance(x, str | Number) and not on_device(x)


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    """function(x), of each member of tuples."""
    return tuple(_each(function, y) for y in x) if isinstance(x, tuple) else function(x)


def _unchecked(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call a function whose outputs are not computed, so that what its checks say means nothing."""
    with suppress(LinAlgError):
        function(*args, **kwargs)


def _scratch_like(x: np.ndarray) -> np.ndarray:
    """An array with the shape, dtype and strides of x and memory of its own."""
    low, high = np.lib.array_utils.byte_bounds(x)
    return np.ndarray(x.shape, x.dtype, np.empty(high - low, np.uint8), x.ctypes.data - low, x.strides)

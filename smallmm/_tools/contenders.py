"""What `smallmm.bench` times: ours and the libraries that are installed, on the host or a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import smallmm

from .._base.errors import shown

if TYPE_CHECKING:
    from .operations import Operation, Stack
    from .timing import Call

ReadResult = Callable[[Any], Iterable[Any]]


def in_a_tuple(returned: Any) -> Iterable[Any]:
    return returned if isinstance(returned, (tuple, list)) else (returned,)


class Job(NamedTuple):
    """A contender's call, and how to see its result as NumPy arrays.

    Some contenders do less than was asked, or another operation on other matrices: their results are checked
    as those of `does` on `of`.
    """

    call: Call
    words: str  # what is called
    read: ReadResult = in_a_tuple
    less: str = ""  # what it leaves undone
    does: Operation | None = None
    of: np.ndarray | None = None


class Contender(NamedTuple):
    """`bind` gives the job of an operation on a stack of the device's arrays; None: it has no function."""

    name: str
    version: str
    bind: Callable[[Operation, Stack], Job | None]
    set_threads: Callable[[int], object] | None = None  # None: it has one thread
    isa: Callable[[], str] = lambda: ""


def bind_ours(op: Operation, stack: Stack) -> Job:
    function = getattr(smallmm, op.function)
    outs = stack.outs or tuple(in_a_tuple(function(*stack.operands, **op.options)))
    for x in () if stack.outs else outs:
        x[...] = 0  # results are validated as the timed call leaves them
    out = outs if len(outs) > 1 else outs[0]
    return Job(
        partial(function, *stack.operands, **op.options, out=out), f"smallmm.{op.function}", lambda _: outs
    )


def our_own() -> Contender:
    return Contender(
        "smallmm", smallmm.__version__, bind_ours, smallmm.set_num_threads, lambda: smallmm._core.isa()
    )


def _numpy() -> Contender:
    def bind(op: Operation, stack: Stack) -> Job | None:
        if op.name == "matmul":
            (out,) = stack.outs
            return Job(partial(np.matmul, *stack.operands, out=out), "np.matmul")
        function = getattr(np.linalg, op.function, None)
        return function and Job(partial(function, *stack.operands), f"np.linalg.{op.function}")

    return Contender("NumPy", np.__version__, bind)


def _scipy() -> Contender:
    import scipy
    import scipy.linalg

    # Eigenvectors of the default driver, evr, are not as orthogonal as is asked here; evd is NumPy's.
    options: dict[str, dict[str, Any]] = {
        "cholesky": {"lower": True},
        "qr": {"mode": "economic"},
        "eigh": {"driver": "evd"},
    }

    def bind(op: Operation, stack: Stack) -> Job | None:
        function = getattr(scipy.linalg, op.function, None)
        if function is None:
            return None
        function = partial(function, check_finite=False, **options.get(op.name, op.options))
        operands = [x[:1000] for x in stack.operands]  # a loop, in SciPy or here: its time needs no more
        words = f"scipy.linalg.{op.function}"
        less = "returns a view" if op.name == "det" and stack.a.shape[-1] == 1 else ""
        try:
            function(*(x[:2] for x in operands))
        except ValueError:  # versions that take no stacks
            one = function(*(x[0] for x in operands))
            several = isinstance(one, tuple)
            return Job(
                lambda: [function(*matrices) for matrices in zip(*operands, strict=True)],
                f"{words} in a loop",
                lambda returned: (
                    map(np.array, zip(*returned, strict=True)) if several else (np.array(returned),)
                ),
            )
        return Job(partial(function, *operands), words, less=less)

    return Contender("SciPy", scipy.__version__, bind)


def _torch() -> Contender:
    import torch

    names = {name: f"{name}_ex" for name in ("lu_factor", "solve", "inv", "cholesky")}  # ask for no wait

    def bind(op: Operation, stack: Stack) -> Job:
        if op.name == "matmul":
            batch = len(stack.outs[0] if stack.outs else stack.a)
            tensors = [torch.as_tensor(x).expand(batch, *x.shape[-2:]) for x in stack.operands]
            out = torch.as_tensor(stack.outs[0]) if stack.outs else torch.zeros_like(tensors[0])
            return Job(partial(torch.bmm, *tensors, out=out), "torch.bmm", lambda _: (out,))
        name = names.get(op.function, op.function)

        def read(returned: Any) -> list[Any]:
            found = list(in_a_tuple(returned))
            if op.name == "lu_factor":
                found[1] = found[1] - 1  # counted from 1
            return found[: len(op.results)]

        tensors = [torch.as_tensor(x) for x in stack.operands]
        return Job(partial(getattr(torch.linalg, name), *tensors), f"torch.linalg.{name}", read)

    return Contender("PyTorch", torch.__version__, bind, torch.set_num_threads)


def _cupy() -> Contender:
    import cupy

    def bind(op: Operation, stack: Stack) -> Job | None:
        arrays = [cupy.from_dlpack(x) for x in stack.operands]
        if op.name == "matmul":
            return Job(partial(cupy.matmul, *arrays, out=cupy.zeros_like(arrays[0])), "cupy.matmul")
        function = getattr(cupy.linalg, op.function, None)
        return function and Job(partial(function, *arrays), f"cupy.linalg.{op.function}")

    return Contender("CuPy", cupy.__version__, bind)


def _jax() -> Contender:
    import jax

    def bind(op: Operation, stack: Stack) -> Job | None:
        module, name = ("numpy", op.name) if op.name == "matmul" else ("numpy.linalg", op.function)
        function = getattr(jax.numpy if op.name == "matmul" else jax.numpy.linalg, name, None)
        if function is None:
            return None
        if op.name == "matmul":
            function = partial(function, precision="highest")
        in_double = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)
        try:
            arrays = [jax.dlpack.from_dlpack(x) for x in stack.operands]
            compiled = jax.jit(function).lower(*arrays).compile()
        finally:
            jax.config.update("jax_enable_x64", in_double)
        return Job(partial(compiled, *arrays), f"jax.{module}.{name}")

    return Contender("JAX", jax.__version__, bind)


DEVICE = re.compile(r"cpu|cuda(:\d{1,9})?")
PEERS = {"NumPy": _numpy, "SciPy": _scipy, "PyTorch": _torch, "CuPy": _cupy, "JAX": _jax}
ON_HOST, ON_DEVICE = ("NumPy", "SciPy", "PyTorch"), ("PyTorch", "CuPy", "JAX")


class NoDevice(RuntimeError):
    """The device that was asked for is not there, or nothing that makes arrays on it."""


class BenchDevice(NamedTuple):
    """Where operands lie: how they get there, and how to wait for a result."""

    name: str
    put: Callable[[np.ndarray], Any]
    wait: Callable[[Any], object]


def finish(last: Any) -> None:
    """Wait for a result of JAX, which has streams of its own."""
    for x in in_a_tuple(last):
        getattr(x, "block_until_ready", lambda: None)()


def bench_device(device: str, op: str = "bench") -> BenchDevice:
    """The host, or a GPU through PyTorch or else CuPy."""
    if not isinstance(device, str) or not DEVICE.fullmatch(device):
        raise ValueError(f"{op}: device is {shown(device)}; expected 'cpu', 'cuda' or 'cuda:1'")
    if device == "cpu":
        return BenchDevice("cpu", lambda x: x, lambda last: None)
    index = int(device.partition(":")[2] or 0)
    name = f"{smallmm.cuda.device_name(index)} (cuda:{index})"
    try:
        import torch
    except ImportError:
        return _cupy_device(index, name, op)
    seen = torch.cuda.device_count()
    if index >= seen:
        raise NoDevice(f"{op}: there is no {device} for PyTorch {torch.__version__}, which sees {seen} GPUs")
    place = torch.device("cuda", index)
    torch.cuda.set_device(place)

    def wait(last: Any) -> None:
        finish(last)
        torch.cuda.synchronize()

    return BenchDevice(name, lambda x: torch.from_numpy(x).to(place), wait)


def _cupy_device(index: int, name: str, op: str) -> BenchDevice:
    try:
        import cupy
    except ImportError:
        raise NoDevice(f"{op}: arrays on a GPU need PyTorch or CuPy, and neither is installed") from None
    cupy.cuda.Device(index).use()

    def wait(last: Any) -> None:
        finish(last)
        cupy.cuda.get_current_stream().synchronize()

    return BenchDevice(name, cupy.asarray, wait)

"""What `smallmm.bench` times: ours and the libraries that are installed, on the host or a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import smallmm

from ._errors import shown

if TYPE_CHECKING:
    from ._bench import Call, Operation


class Job(NamedTuple):
    """A contender's call, and how to see its result as NumPy arrays."""

    call: Call
    words: str  # what is called
    read: Callable[[Any], Iterable[Any]] = lambda returned: (
        returned if isinstance(returned, (tuple, list)) else (returned,)
    )


class Contender(NamedTuple):
    """`bind` gives the job of an operation on operands, which are the device's; None: it has no function."""

    name: str
    version: str
    bind: Callable[[Operation, list[Any]], Job | None]


def bind_ours(op: Operation, operands: list[Any]) -> Job:
    function = getattr(smallmm, op.function)
    out = function(*operands)
    out = tuple(out) if isinstance(out, tuple) else out
    for x in out if isinstance(out, tuple) else (out,):
        x[...] = 0  # what is validated is what the timed call leaves there
    return Job(partial(function, *operands, out=out), f"smallmm.{op.function}")


def _numpy() -> Contender:
    def bind(op: Operation, operands: list[np.ndarray]) -> Job | None:
        if op.name == "matmul":
            return Job(partial(np.matmul, *operands, out=np.zeros_like(operands[0])), "np.matmul")
        function = getattr(np.linalg, op.name, None)
        return function and Job(partial(function, *operands), f"np.linalg.{op.name}")

    return Contender("NumPy", np.__version__, bind)


def _scipy() -> Contender:
    import scipy
    import scipy.linalg

    options: dict[str, dict[str, Any]] = {"cholesky": {"lower": True}, "qr": {"mode": "economic"}}

    def bind(op: Operation, operands: list[np.ndarray]) -> Job | None:
        function = getattr(scipy.linalg, op.name, None)
        if function is None:
            return None
        function = partial(function, check_finite=False, **options.get(op.name, {}))
        operands = [x[:1000] for x in operands]  # a loop, in SciPy or here: its time per matrix needs no more
        words = f"scipy.linalg.{op.name}"
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
        return Job(partial(function, *operands), words)

    return Contender("SciPy", scipy.__version__, bind)


def _torch() -> Contender:
    import torch

    names = {name: f"{name}_ex" for name in ("lu_factor", "solve", "inv", "cholesky")}  # ask for no wait
    results = {"lu_factor": 2, "qr": 2}

    def bind(op: Operation, operands: list[Any]) -> Job:
        tensors = [torch.as_tensor(x) for x in operands]
        if op.name == "matmul":
            return Job(partial(torch.bmm, *tensors, out=torch.zeros_like(tensors[0])), "torch.bmm")
        name = names.get(op.name, op.name)

        def read(returned: Any) -> list[Any]:
            found = list(returned) if isinstance(returned, tuple) else [returned]
            if op.name == "lu_factor":
                found[1] = found[1] - 1  # counted from 1
            return found[: results.get(op.name, 1)]

        return Job(partial(getattr(torch.linalg, name), *tensors), f"torch.linalg.{name}", read)

    return Contender("PyTorch", torch.__version__, bind)


def _cupy() -> Contender:
    import cupy

    def bind(op: Operation, operands: list[Any]) -> Job | None:
        arrays = [cupy.from_dlpack(x) for x in operands]
        if op.name == "matmul":
            return Job(partial(cupy.matmul, *arrays, out=cupy.zeros_like(arrays[0])), "cupy.matmul")
        function = getattr(cupy.linalg, op.name, None)
        return function and Job(partial(function, *arrays), f"cupy.linalg.{op.name}")

    return Contender("CuPy", cupy.__version__, bind)


DEVICE = re.compile(r"cpu|cuda(:\d{1,9})?")
PEERS = {"NumPy": _numpy, "SciPy": _scipy, "PyTorch": _torch, "CuPy": _cupy}
ON_HOST, ON_DEVICE = ("NumPy", "SciPy", "PyTorch"), ("PyTorch", "CuPy")


class NoDevice(RuntimeError):
    """The device that was asked for is not there, or nothing that makes arrays on it."""


class Place(NamedTuple):
    """Where operands lie: how they get there, and how to wait for what happens there."""

    name: str
    put: Callable[[np.ndarray], Any]
    wait: Call


def place_of(device: str) -> Place:
    """The host, or a GPU through PyTorch or else CuPy."""
    if not isinstance(device, str) or not DEVICE.fullmatch(device):
        raise ValueError(f"bench: device is {shown(device)}; expected 'cpu', 'cuda' or 'cuda:1'")
    if device == "cpu":
        return Place("cpu", lambda x: x, lambda: None)
    index = int(device.partition(":")[2] or 0)
    name = f"{smallmm.cuda.device_name(index)} (cuda:{index})"
    try:
        import torch
    except ImportError:
        return _cupy_place(index, name)
    seen = torch.cuda.device_count()
    if index >= seen:
        raise NoDevice(f"bench: there is no {device} for PyTorch {torch.__version__}, which sees {seen} GPUs")
    place = torch.device("cuda", index)
    torch.cuda.set_device(place)
    return Place(name, lambda x: torch.from_numpy(x).to(place), torch.cuda.synchronize)


def _cupy_place(index: int, name: str) -> Place:
    try:
        import cupy
    except ImportError:
        raise NoDevice("bench: arrays on a GPU need PyTorch or CuPy, and neither is installed") from None
    cupy.cuda.Device(index).use()
    return Place(name, cupy.asarray, lambda: cupy.cuda.get_current_stream().synchronize())

"""Fused functions on a GPU beside their steps as separate calls, PyTorch, and the copy.

    python -m benchmarks.device.programs [--megabytes M] [--only NAME] [--lanes L ...]

Operands are 1 GiB, timed by events. Each result is compared with that of the host, bit by bit, before it is
timed. Rows are printed, not kept: nanoseconds for each matrix, percent of the copy that the compulsory
traffic is, and times of the separate calls, PyTorch and `torch.compile`. --lanes: also kernels with so many
threads of a matrix, which are not the ones that would be chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import smallmm
from smallmm._programs import cuda_kernel, cuda_launch
from smallmm._programs.compose import namespace_of
from smallmm._programs.fused import Fused
from smallmm._programs.interpreter import interpret

from ..host.programs import CASES
from .suite import Timer, copy_speed

CHECKED = 1000  # matrices that the host computes, too
DISTINCT = 10_000  # matrices that are made on the host, and repeated


def separate(function: Fused, arrays: tuple[Any, ...]) -> Any:
    """The steps one after the other on whole stacks."""
    operands = function._operands(arrays)
    plan = function._plan(operands, {})
    return interpret(plan.record, plan.results, operands, plan.steps, namespace_of(arrays[0]))


def kalman_of_torch(torch: Any, x: Any, p: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Any:
    x = (f @ x[..., None])[..., 0]
    p = f @ p @ f.mT + q
    hp = h @ p
    gain = torch.cholesky_solve(hp, torch.linalg.cholesky_ex(hp @ h.mT + r)[0]).mT
    return x + (gain @ (z - (h @ x[..., None])[..., 0])[..., None])[..., 0], p - gain @ hp


def black_scholes_of_torch(torch: Any, s: Any, x: Any, t: Any, r: Any, v: Any) -> Any:
    d = torch.sqrt(t)
    d1 = (torch.log(s / x) + (r + v * v / 2) * t) / (v * d)
    return s * torch.special.ndtr(d1) - x * torch.exp(-r * t) * torch.special.ndtr(d1 - v * d)


def of_torch(torch: Any, name: str) -> Callable[..., Any] | None:
    if name.startswith("kalman"):
        return partial(kalman_of_torch, torch)
    known = {
        "triad": lambda b, c, d: b + c * d,
        "congruence 4": lambda a, x: a @ x @ a.mT,
        "Black-Scholes": partial(black_scholes_of_torch, torch),
    }
    return known.get(name)


def clear(function: Fused) -> None:
    function._plans.clear()
    function._last = None


def check(function: Fused, arrays: tuple[Any, ...], batch: int) -> None:
    """The first and the last matrices have the host's bits."""
    found = function.ex(*arrays)[0]
    for part in (slice(0, CHECKED), slice(-CHECKED, None)):
        few = [x[part].cpu().numpy() if x.shape[:1] == (batch,) else x.cpu().numpy() for x in arrays]
        expected = function.ex(*few)[0]
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else ((found, expected),)
        for x, y in pairs:
            np.testing.assert_array_equal(x[part].cpu().numpy(), y)


def stacked(torch: Any, x: np.ndarray, made: int, batch: int) -> Any:
    """On the device, the matrices repeated."""
    own = torch.as_tensor(x, device="cuda")
    if own.shape[:1] != (made,):
        return own
    return own.repeat(-(-batch // made), *(1,) * (own.ndim - 1))[:batch].contiguous()


def contenders(
    torch: Any, name: str, function: Fused, arrays: tuple[Any, ...], compiled: bool
) -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {"separate": lambda: separate(function, arrays)}
    call = of_torch(torch, name)
    if call:
        calls["PyTorch"] = lambda: call(*arrays)
    if call and compiled:
        fast = torch.compile(call)
        calls["torch.compile"] = lambda: fast(*arrays)
    return calls


def time_case(
    timer: Timer, copy: float, name: str, arrays: tuple[Any, ...], batch: int, options: argparse.Namespace
) -> None:
    function, _, size = CASES[name]
    dtype = str(arrays[0].dtype).rpartition(".")[2]
    bytes_of = size // 2 if dtype == "float32" else size
    for lanes in (0, *options.lanes):
        cuda_launch.kernel_of = partial(cuda_kernel.kernel_of, lanes=lanes)
        clear(function)
        try:
            plan = smallmm.explain(function, *arrays)
            check(function, arrays, batch)
        except Exception as error:
            print(f"{name:18} {lanes} threads: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        fused = timer(lambda: function.parts(*arrays)) / batch
        words = [f"{name:18} {dtype} {plan.lanes:2} of a matrix, {plan.tile:4} in a block:"]
        words += [f"{fused * 1e9:8.4f} ns {100 * bytes_of / fused / copy:5.1f} %"]
        others = {} if lanes else contenders(timer.torch, name, function, arrays, options.compiled)
        for who, call in others.items():
            try:
                took = timer(call, samples=3) / batch
                words.append(f"{who} {took * 1e9:.4f} ns ({took / fused:.2f} times)")
            except Exception as error:
                words.append(f"{who}: {type(error).__name__}")
        print("  ".join(words), flush=True)
    cuda_launch.kernel_of = cuda_kernel.kernel_of
    clear(function)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="of the operands of each case")
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--lanes", type=int, nargs="*", default=[], help="threads of a matrix")
    parser.add_argument("--compiled", action="store_true", help="torch.compile, too")
    options = parser.parse_args()
    timer = Timer()
    torch = timer.torch
    copy = max(copy_speed(timer) for _ in range(3))
    print(f"{torch.cuda.get_device_name()}, copy {copy / 1e12:.2f} TB/s", flush=True)
    for name, (_, operands, size) in CASES.items():
        for dtype in (np.float64, np.float32) if options.only in name else ():
            batch = options.megabytes * 10**6 // (size * np.dtype(dtype).itemsize // 8)
            made = min(batch, DISTINCT)
            arrays = tuple(stacked(torch, x.astype(dtype), made, batch) for x in operands(made))
            time_case(timer, copy, name, arrays, batch, options)
            del arrays
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

"""Complex matrices on a GPU beside PyTorch, and beside the copy: a line for each operation, dtype, order.

    python -m benchmarks.device.complex_numbers --operations matmul,solve,eigh --orders 2,3,4,8,16,32

Results of the first 500 matrices have the bits of the CPU's, which is checked before timing. Times are
medians of event-timed calls on operands of 256 MB; PyTorch's of at most 2000 matrices where it takes them
one by one. Percent: the bytes of operands and results over the time, as a share of a device-to-device copy.
Nothing is written to a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import smallmm

BYTES, FEW, CHECKED = 256 << 20, 2000, 500
ONE_BY_ONE = ("eigh", "svd", "lstsq", "cholesky")


def median_ms(call: Callable[[], Any], calls: int) -> float:
    import torch

    call()
    times = []
    for _ in range(calls):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return median(times)


def contenders(operation: str, x: Any, h: Any, b: Any) -> tuple[tuple[Any, ...], Callable[..., Any], Any]:
    """The operands, our function and PyTorch's."""
    import torch

    return {
        "matmul": ((x, h), smallmm.matmul, torch.matmul),
        "solve": ((x, b), smallmm.solve_ex, torch.linalg.solve_ex),
        "inv": ((x,), smallmm.inv_ex, torch.linalg.inv_ex),
        "cholesky": ((h,), smallmm.cholesky_ex, torch.linalg.cholesky_ex),
        "eigh": ((h,), smallmm.eigh_ex, torch.linalg.eigh),
        "svd": ((x,), smallmm.svd_ex, torch.linalg.svd),
        "lstsq": ((x, b), smallmm.lstsq_ex, torch.linalg.lstsq),
    }[operation]


def results_of(x: Any) -> list[Any]:
    return [x] if hasattr(x, "data_ptr") else [y for y in x if hasattr(y, "data_ptr")]


def measure(operation: str, name: str, n: int, copy_rate: float) -> str:
    import torch

    dtype = {"c64": torch.complex64, "c128": torch.complex128}[name]
    batch = BYTES // (n * n * dtype.itemsize)
    x = torch.randn(batch, n, n, dtype=dtype, device="cuda")
    b = torch.randn(batch, n, 1, dtype=dtype, device="cuda")
    h = x @ x.mH + n * torch.eye(n, dtype=dtype, device="cuda")
    operands, ours, theirs = contenders(operation, x, h, b)
    found = results_of(ours(*operands))
    expected = ours(*(y[:CHECKED].cpu().numpy() for y in operands))
    for y, wanted in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_array_equal(y[:CHECKED].cpu().numpy(), wanted)
    moved = sum(y.numel() * y.element_size() for y in (*operands, *found))
    del found
    ms = median_ms(lambda: ours(*operands), 7)
    part = tuple(y[:FEW] for y in operands) if operation in ONE_BY_ONE else operands
    other = median_ms(lambda: theirs(*part), 3) / len(part[0])
    percent = 100 * moved / (ms * 1e-3) / copy_rate
    ns = 1e6 * ms / batch
    faster = 1e6 * other / ns
    return f"{operation:9}{name:5}{n:3}{ns:12.4f} ns {percent:5.0f} % of the copy {faster:8.1f} times PyTorch"


def copy_rate() -> float:
    """Bytes read and written per second."""
    import torch

    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * len(source) / (median_ms(lambda: target.copy_(source), 20) * 1e-3)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", default="matmul,solve,inv,cholesky,eigh,svd,lstsq")
    parser.add_argument("--orders", default="2,3,4,8,16,32")
    arguments = parser.parse_args()
    rate = copy_rate()
    print(f"{torch.cuda.get_device_name()}: the copy moves {rate / 1e12:.2f} TB/s")
    for operation in arguments.operations.split(","):
        for name in ("c64", "c128"):
            for n in map(int, arguments.orders.split(",")):
                print(measure(operation, name, n, rate), flush=True)


if __name__ == "__main__":
    main()

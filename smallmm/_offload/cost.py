"""What an offloaded call would move, and a model of the time it takes: what `explain` says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import _core
from .._base.later import later
from .._functions.explain import Explanation
from .._programs.explanation import FusedExplanation
from .work import Plan

# Measured on an H200 and its host, a Xeon (family 6 model 207), in November 2026. HOST_MEMORY, LATENCY and
# the rates of products are rough.
LINK = 49e9  # bytes a second, each way while both are busy, page-locked
STAGING = 7.8e9  # bytes a second that a thread copies to or from page-locked memory
DEVICE_MEMORY = 4e12  # bytes a second
LATENCY = 1e-4  # seconds of a call
HOST_MEMORY = 1e10  # bytes a second of a thread
_RATES = {  # flops a second: of a thread of a CPU with AVX-512, of the device
    "MATMUL": (4e10, 2e13),  # products
    "EIG": (1.5e10, 1.15e12),  # n = 16, f64: 2,500 and 32 ns a matrix
    "SVD": (6.6e9, 8.9e11),  # 9,900 and 74 ns
    "": (3e10, 5e12),  # all others; inverses of n = 32: 1,409 and 9 ns
}


class OffloadExplanation(NamedTuple):
    """How an offloaded call would run. `str` gives it in words."""

    op: str
    devices: tuple[int, ...]  # empty: all
    matrices: int  # of a block
    blocks: int  # of all calls that it makes
    streams: int  # of all devices, that would be used
    bytes_up: int
    bytes_down: int
    bytes_staged: int  # of both, what passes through page-locked memory first
    calls: int  # each of which moves its operands and results; 1 where one kernel runs a fused function
    why: str  # the steps of a fused function are calls of their own; empty: they are not
    seconds: float  # that the model expects of an H200
    seconds_host: float  # and of this machine's threads
    host: Explanation | FusedExplanation  # how the CPU would compute it

    def _repr_html_(self) -> str:
        return str(later("_base.tables").html_table(self))

    @property
    def pays(self) -> bool:
        """Whether the model expects the device to be faster."""
        return self.seconds < self.seconds_host

    def __str__(self) -> str:
        where = "all devices" if not self.devices else f"device {', '.join(map(str, self.devices))}"
        verdict = "it pays" if self.pays else "it does not pay"
        fused = isinstance(self.host, FusedExplanation)
        one_by_one = f"  its steps are {self.calls} calls, one after the other: {self.why}"
        return "\n".join(
            [
                f"{self.op} on {where}: {self.blocks} block(s) of up to {self.matrices} matrices on "
                f"{self.streams} stream(s)",
                f"  {self.bytes_up:.4g} bytes up, {self.bytes_down:.4g} bytes down, {self.bytes_staged:.4g} "
                "of them through page-locked memory",
                *([one_by_one if self.why else "  one kernel runs all steps"] if fused else []),
                f"  expected: {self.seconds:.2g} s; on the CPU {self.seconds_host:.2g} s: {verdict}",
            ]
        )


def expected(
    name: str, devices: tuple[int, ...], plans: Sequence[Plan], why: str, host: Explanation | FusedExplanation
) -> OffloadExplanation:
    """The cost of calls with these plans on the devices, and on the CPU as `host` says."""
    up, down, staged = (sum(getattr(x, word) for x in plans) for word in ("up", "down", "staged"))
    threads = _core.get_num_threads()
    seconds = LATENCY * len(plans)
    on_host = host.bytes / (HOST_MEMORY * threads)
    rates = [_rates(plan.operation) for plan in plans]
    if rates:
        own, its = min(x for x, _ in rates), min(y for _, y in rates)
        on_host = max(on_host, host.flops / (own * threads))
        seconds += max(
            up / LINK,
            down / LINK,
            staged / (STAGING * threads),
            (up + down) / DEVICE_MEMORY,
            host.flops / its,
        ) / max(1, len(devices))
    return OffloadExplanation(
        name,
        devices,
        max((x.matrices for x in plans), default=0),
        sum(x.blocks for x in plans),
        max((x.lanes for x in plans), default=0),
        up,
        down,
        staged,
        len(plans),
        why,
        seconds,
        on_host,
        host,
    )


def _rates(operation: str) -> tuple[float, float]:
    return next(rates for name, rates in _RATES.items() if operation.startswith(name))

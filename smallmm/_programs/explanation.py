"""What `explain` says of a fused function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._base.later import later

if TYPE_CHECKING:
    from .plan import Plan


class FusedStep(NamedTuple):
    """A step of a fused function."""

    name: str
    shapes: tuple[tuple[int, ...], ...]  # of its operands and results, of each matrix
    kernel: str | None  # None: an element-wise function, or LAPACK


class FusedExplanation(NamedTuple):
    """How a fused function would run. `str` gives it in words."""

    name: str
    steps: tuple[FusedStep, ...]
    fused: bool  # False: the steps run one after the other on whole stacks
    why: str  # they do
    matrices: int
    tile: int  # matrices that go through all steps together; on a GPU: of a block of the one kernel
    temporaries: int  # bytes of a matrix
    flops: float  # of all matrices
    bytes: float  # compulsory traffic of all matrices
    saved: float  # bytes that separate calls would write and read between steps
    lanes: int = 0  # on a GPU: threads of a matrix; its values are in registers if it is one
    shared: int = 0  # on a GPU: bytes of shared memory of a block
    block: int = 0  # elements of the blocks that a long vector is divided into; the tile is of blocks then
    times: int = 1  # of a scan: how often the steps run
    carried: int = (
        0  # of a scan: bytes of a matrix that go from one time to the next, without memory if fused
    )

    def _repr_html_(self) -> str:
        return str(later("_base.tables").html_table(self))

    def __str__(self) -> str:
        if not self.fused:
            how = f"step by step: {self.why}"
        elif self.lanes:
            threads = "a thread each" if self.lanes == 1 else f"{self.lanes} threads each"
            how = f"one kernel, {self.tile} in a block, {threads}, {self.shared} bytes of shared memory"
        elif self.block:
            how = f"{self.tile} blocks of {self.block} elements at a time"
        else:
            how = f"{self.tile} at a time, {self.temporaries} bytes of temporaries each"
        what = f"{len(self.steps)} steps on {self.matrices} matrices"
        if self.carried:
            where = "the cache" if not self.lanes else "registers" if self.lanes == 1 else "shared memory"
            what = f"{len(self.steps)} steps, {self.times} times, on {self.matrices} series"
            how += f"; {self.carried} bytes each are carried in {where if self.fused else 'memory'}"
        lines = [f"{self.name}: {what}, {how}"]
        for i, step in enumerate(self.steps):
            *operands, result = (str(shape).replace(" ", "") for shape in step.shapes)
            by = f" by {step.kernel}" if step.kernel else ""
            lines.append(f"  {i}: {step.name} {' '.join(operands)} -> {result}{by}")
        lines.append(
            f"  {self.flops:.4g} flops, {self.bytes:.4g} bytes; separate calls would move "
            f"{self.saved:.4g} bytes more"
        )
        return "\n".join(lines)


def explanation_of_steps(
    name: str,
    plan: Plan,
    operands: list[Any],
    items: list[tuple[int, ...]],
    matrices: int,
    fused: bool,
    why: str,
    details: dict[str, Any],
) -> FusedExplanation:
    """items: the shape of a matrix of each operand; details: what the program says of itself."""
    names, steps = iter(details["kernels"]), []
    for step in plan.steps:
        kernel, *_ = [next(names, None) for _ in (step.operands if step.kind == "join" else (step,))]
        shapes = [plan.record.symbol(x.value, None, x.operations).shape for x in step.operands]
        steps.append(FusedStep(step.label, (*shapes, step.results[0].shape), kernel))
    moved = sum(
        int(np.prod(shape)) * x.dtype.itemsize * (matrices if x.ndim > len(shape) else 1)
        for x, shape in zip(operands, items, strict=True)
    )
    moved += sum(x.size * x.dtype.itemsize * matrices for x in plan.results)
    return FusedExplanation(
        name,
        tuple(steps),
        fused,
        why,
        matrices,
        int(details["tile"]),
        int(details["temporaries"]),
        details["flops"] * matrices,
        float(moved),
        details["saved"] * matrices,
        details.get("lanes", 0),
        details.get("shared", 0),
        details.get("block", 0),
    )

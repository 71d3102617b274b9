"""Fill smallmm/tuned/<device>/: time the feasible kernels of each problem on this GPU, and keep the fastest.

    python -m benchmarks.tune.cuda                        # orders 1..32
    python -m benchmarks.tune.cuda --ops SOLVE INV --orders 3 16 --small 0 1
    python -m benchmarks.tune.cuda --orders 3 16 --dry    # print, keep the table as it is

For each problem it takes the feasible set (`candidates`), compiles it in parallel into the disk cache,
checks every kernel's result against the bits of the first, and the first's against the CPU's, then times each
over operands of 1 GiB, or for small batches 100 and 1000 matrices in a CUDA graph, of whose times the
geometric mean counts. Rows of other problems stay as they are. Needs PyTorch with a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from smallmm import _core
from smallmm._gpu import tuned
from smallmm._gpu.tuned import driver_version, slug_of
from smallmm._tools.candidates import KERNELS, candidates

from ..device.suite import (
    OPS,
    SOLVES,
    Stack,
    Timer,
    compile_one,
    copy_speed,
    problem_of,
    progress,
    traffic,
)
from ..records import commit

TUNED = Path(tuned.__file__).parent / "tuned"
LAYOUT = ("order_a", "order_b", "source_a", "source_b", "order_c")
SMALL_BATCHES = (100, 1000)
FINALISTS = 4
Row = dict[str, Any]


def tune(problem: Row, rows: list[Row], timer: Timer) -> tuple[float, list[tuple[float, Row]]]:
    """The batch, and every candidate's time, fastest first. One with other bits is an error."""
    small = problem.get("small")
    _core.cuda_tune([{**problem, **rows[0]}])
    stacks = [Stack(problem, batch) for batch in (SMALL_BATCHES if small else (None,))]
    for stack in stacks:
        stack.assert_cpu_bits()
    references = [[x.clone() for x in stack.outputs] for stack in stacks]
    times = []
    for row in rows:
        _core.cuda_tune([{**problem, **row}])
        seconds = []
        for stack, reference in zip(stacks, references, strict=True):
            for x in stack.outputs:
                x.fill_(-1)
            stack()
            if not all(same_bits(x, y) for x, y in zip(stack.outputs, reference, strict=True)):
                raise AssertionError(f"other bits: {problem} {row}")
            seconds.append(timer.replayed(stack) if small else timer(stack, warm=0))  # is warm
        times.append((statistics.geometric_mean(seconds), row))
    times.sort(key=lambda x: x[0])
    if not small:  # a device that draws its full power clocks down; so the best again, rested
        for i, (_, row) in enumerate(times[:FINALISTS]):
            _core.cuda_tune([{**problem, **row}])
            stacks[0]()
            times[i] = timer(stacks[0], rest=0.3), row
        times[:FINALISTS] = sorted(times[:FINALISTS], key=lambda x: x[0])
    return statistics.geometric_mean(stack.batch for stack in stacks), times


def same_bits(x: Any, y: Any) -> bool:
    """Of NaN, too, which comes of singular matrices: of order 1 a batch has some."""
    import torch

    x, y = (torch.view_as_real(z) if z.is_complex() else z for z in (x, y))
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return torch.equal(x.view(integers), y.view(integers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="*", default=list(OPS), choices=list(OPS))
    parser.add_argument("--orders", type=int, nargs="*", default=[*range(1, 33)])
    parser.add_argument(
        "--nrhs", type=int, nargs="*", default=[1], help="right-hand sides of solves; 0: as many as rows"
    )
    parser.add_argument("--dtypes", nargs="*", default=["f32", "f64"])
    parser.add_argument("--layouts", nargs="*", default=["00000"], help=f"{', '.join(LAYOUT)}: 0 or 1")
    parser.add_argument(
        "--small", type=int, nargs="*", default=[0], help="1: for batches too small to fill a GPU"
    )
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--effort", type=int, choices=(1, 2, 3), default=2, help="how many kernels to try")
    parser.add_argument("--kernels", nargs="*", help="only these, besides the one that a call runs now")
    parser.add_argument("--dry", action="store_true", help="leave the table as it is")
    parser.add_argument("--out", type=Path, default=TUNED)
    parser.add_argument("--log", type=Path, help="every candidate's time")
    arguments = parser.parse_args()

    name, arch, shared = _core.cuda_device(arguments.device)
    own = {"device": name, "arch": arch}
    problems = [
        problem_of(op, dtype, n, nrhs or n, small=small, **dict(zip(LAYOUT, map(int, layout), strict=True)))
        for op in arguments.ops
        for nrhs in (arguments.nrhs if op.endswith(SOLVES) else [1])
        for small in arguments.small
        for layout in arguments.layouts
        for dtype in arguments.dtypes
        for n in arguments.orders
    ]
    sets = []
    for problem in problems:
        rows = candidates({**problem, **own}, shared, arguments.effort)
        rows = [row for row in rows if not arguments.kernels or row["kernel"] in arguments.kernels]
        plan = _core.cuda_plan({**problem, **own}, shared)  # what a call runs now
        runs_now = {x: plan[x] for x in ("kernel", *KERNELS[plan["kernel"]])}
        sets.append(rows if runs_now in rows else [*rows, runs_now])
    jobs = [
        (problem, row, arch, shared) for problem, rows in zip(problems, sets, strict=True) for row in rows
    ]
    print(f"{len(problems)} problems, {len(jobs)} kernels on {name}", flush=True)
    # Spilling kernels are left out before they are ever timed.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        usage = dict(
            zip(
                map(repr, jobs),
                progress(pool.map(compile_one, jobs, chunksize=8), len(jobs), "compile"),
                strict=True,
            )
        )

    timer = Timer()
    speed = copy_speed(timer)
    print(f"copy: {speed / 1e12:.3f} TB/s", flush=True)
    best, log = [], []
    for problem, rows in zip(progress(problems, len(problems), "time"), sets, strict=True):
        rows = [row for row in rows if usage[repr((problem, row, arch, shared))][1] <= 48]
        batch, times = tune(problem, rows, timer)
        moved = traffic(problem, batch)
        in_ns = [(round(seconds / batch * 1e9, 5), row) for seconds, row in times]
        best.append(
            {
                **problem,
                **in_ns[0][1],
                "ns": in_ns[0][0],
                "percent": round(100 * moved / times[0][0] / speed, 1),
                "runner_up": {**in_ns[1][1], "ns": in_ns[1][0]} if len(in_ns) > 1 else None,
            }
        )
        log += [{**problem, **x, "percent": round(100 * moved / t / speed, 1)} for t, x in times]
        print(best[-1], flush=True)
    if arguments.log:
        arguments.log.write_text("\n".join(map(json.dumps, log)))
    if not arguments.dry:
        run = {
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "commit": commit(),
            "driver": driver_version(),
            "nvrtc": _core.cuda_nvrtc_version(),
        }
        write_tables(arguments.out / f"{slug_of(name)}-sm{arch}", name, arch, run, best)


def write_tables(folder: Path, device: str, arch: int, run: Row, best: list[Row]) -> None:
    """The best rows take the place of those of the same problems. A run without rows is forgotten."""
    folder.mkdir(parents=True, exist_ok=True)
    for op in {row["op"] for row in best}:
        path = folder / f"{op.lower().replace('_', '-')}.json"
        table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": [], "rows": []}
        rows = {key(row): (row, table["runs"][row["run"]]) for row in table["rows"]}
        rows |= {key(row): (row, run) for row in best if row["op"] == op}
        runs: list[Row] = []
        for _, of in rows.values():
            if of not in runs:
                runs.append(of)
        runs.sort(key=lambda x: x["date"])
        placed = [{**row, "run": runs.index(of)} for _, (row, of) in sorted(rows.items())]
        path.write_text(tuned.table(device, arch, runs, placed), encoding="utf-8")


def key(row: Row) -> tuple[Any, ...]:
    return tuple({"order_c": 0, **row}[x] for x in ("op", "small", *LAYOUT, "dtype", "m", "k", "n"))


if __name__ == "__main__":
    main()

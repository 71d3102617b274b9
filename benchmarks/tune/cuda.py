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
import itertools
import json
import math
import os
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from smallmm import _core, _tuned

from ..device.suite import (
    COMPUTED_SIZES,
    GUFUNCS,
    Stack,
    Timer,
    compile_one,
    copy_speed,
    driver_version,
    problem_of,
    progress,
    slug_of,
    traffic,
)
from ..records import commit

TUNED = Path(_tuned.__file__).parent / "tuned"
CATALOG = _core.cuda_catalog()
KERNELS: dict[str, dict[str, tuple[int, ...]]] = CATALOG["kernels"]  # their parameters and values to try
LAYOUT = ("order_a", "order_b", "source_a", "source_b")
MOST_THREADS = 768  # asked of a multiprocessor by `blocks`: 80 registers for each; with fewer, kernels spill
SMALL_BATCHES = (100, 1000)
FINALISTS = 4
Row = dict[str, Any]


def tiles(problem: Row, effort: int) -> list[tuple[int, int]]:
    """Tile shapes with few reads per product and little waste, best first; none too large for registers."""
    m, n = problem["m"], problem["n"]
    most = 64 if effort > 2 and COMPUTED_SIZES[problem["dtype"]] == 4 else 32
    vector = max(v for v in (1, 2, 16 // COMPUTED_SIZES[problem["dtype"]]) if n % v == 0)
    found = []
    for rows, cols in itertools.product(range(1, min(m, 13) + 1), range(1, min(n, 12) + 1)):
        if rows * cols > most or (cols % vector and cols != n):
            continue
        threads = math.ceil(m / rows) * math.ceil(n / cols)
        waste = threads * rows * cols / (m * n)
        found.append((waste * (1 + 2 * (rows + cols / vector) / (rows * cols)), rows, cols))
    return [(rows, cols) for _, rows, cols in sorted(found)]


def candidates(problem: Row, shared: int, effort: int) -> list[Row]:
    """Parameters that fit the problem and are worth timing."""
    if problem["op"] == "MATMUL":
        return candidates_of_product(problem, shared, effort)
    found = []
    for kernel, values in KERNELS.items():
        if kernel.startswith("matmul"):
            continue
        for chosen in itertools.product(*values.values()):
            row = {"kernel": kernel, **dict(zip(values, chosen, strict=True))}
            if row.get("blocks", 0) * row["threads"] > MOST_THREADS:
                continue
            if row["lanes"] < 2 * problem["n"] and _core.cuda_plan(problem, shared, row) is not None:
                found.append(row)
    return found


def candidates_of_product(problem: Row, shared: int, effort: int) -> list[Row]:
    """The same for products; more of them with more effort (1, 2 or 3)."""
    size = COMPUTED_SIZES[problem["dtype"]]
    found: dict[tuple[Any, ...], Row] = {}

    def consider(kernel: str, **chosen: Any) -> None:
        usual = {"async": 1, "through_shared": 1}
        row = {"kernel": kernel, **{x: chosen.get(x, usual.get(x, 0)) for x in KERNELS[kernel]}}
        assert chosen.keys() <= row.keys(), f"{kernel} has no such parameter: {chosen}"
        grid = _core.cuda_plan(problem, shared, row)
        if grid is not None:
            effect = {**row, "lanes": 0, "threads": 0}
            found.setdefault((*effect.values(), grid["matrices"], grid["block"]), row)

    m, n = problem["m"], problem["n"]
    line = n * size
    shapes = tiles(problem, effort)
    few = shapes[: (12 if size == 8 and n > 12 else 8, 12, 24)[effort - 1]]
    if m <= 12 and effort > 1:
        few += [(1, n), (m, n), (2, n), (1, 1), (m, 1)]
    pads = (0, 1) if line % 32 == 0 or problem["k"] * size % 32 == 0 else (0,)
    one = problem.get("source_a") or problem.get("source_b")  # worth staging for many matrices only
    sizes = ((64, 128, 256) if one else (32, 64, 128), (32, 64, 96, 128), (32, 64, 96, 128, 160, 192, 256))[
        effort - 1
    ]
    unrolls = (0,) if effort < 3 or n < 16 else (0, 5, 10)
    for (rows, cols), threads, pad in itertools.product(dict.fromkeys(few), sizes, pads):
        for through, unroll in itertools.product((1, 0) if line % 16 == 0 else (1,), unrolls):
            shape = {"rows": rows, "cols": cols, "threads": threads, "pad": pad}
            for blocked in (0, 1) if n % 2 else (0,):  # of scalars only
                consider(
                    kernel="matmul_staged", **shape, blocked=blocked, through_shared=through, unroll=unroll
                )
        if line < 96 and n % 2 == 0:
            consider(kernel="matmul_staged", rows=rows, cols=cols, threads=threads, pad=pad, **{"async": 0})
    if line <= 128:
        vector = 16 // size
        for rows, cols, threads in itertools.product((1, 2, 4), (vector, 2 * vector, n), (64, 128, 256)):
            consider(kernel="matmul_direct", rows=min(rows, m), cols=min(cols, n), threads=threads)
    for groups, threads in itertools.product(*KERNELS["matmul_whole"].values()):
        consider(kernel="matmul_whole", groups=groups, threads=threads)
    if problem.get("source_a", 0) + problem.get("source_b", 0) == 1:
        consider_one(problem, shared, effort, consider)
    return list(found.values())


def consider_one(problem: Row, shared: int, effort: int, consider: Callable[..., None]) -> None:
    """Those of matmul_one, which want few warps and much of the shared memory."""
    a, size = problem.get("source_a"), COMPUTED_SIZES[problem["dtype"]]
    length = problem["m"] if a else problem["n"]
    # A product costs an instruction, an element that is read about one.
    columns = [x for x in range(1, 9) if x * problem["k"] * size <= 768]
    columns.sort(key=lambda x: (x + 1) / max(1, 32 // math.ceil(length / x)))
    for held, lines, (threads, blocks), stages, matrices in itertools.product(
        columns[: 1 + effort],
        (1, 2, 4),
        ((64, 4), (128, 2), (128, 3), (256, 1))[: 2 + effort],
        (4, 6, 3, 8)[: 1 + effort],
        (64, 32, 16, 8, 4, 2),
    ):
        rows, cols = (held, lines) if a else (lines, held)
        row = {"rows": rows, "cols": cols, "threads": threads, "blocks": blocks, "stages": stages}
        row |= {"kernel": "matmul_one", "lanes": max(1, threads // matrices)}
        grid = _core.cuda_plan(problem, shared, row)
        if grid is not None and blocks * grid["shared"] > shared // 2:
            consider(**row)


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

    integers = torch.int16 if x.element_size() == 2 else torch.int32
    return torch.equal(x.view(integers), y.view(integers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="*", default=list(GUFUNCS), choices=list(GUFUNCS))
    parser.add_argument("--orders", type=int, nargs="*", default=[*range(1, 33)])
    parser.add_argument("--dtypes", nargs="*", default=["f32", "f64"])
    parser.add_argument(
        "--layouts", nargs="*", default=["0000"], help="order_a, order_b, source_a, source_b: 0 or 1"
    )
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
        problem_of(op, dtype, n, small=small, **dict(zip(LAYOUT, map(int, layout), strict=True)))
        for op in arguments.ops
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
        lines = [json.dumps({**row, "run": runs.index(of)}) for _, (row, of) in sorted(rows.items())]
        head = f'"device": {json.dumps(device)}, "compute_capability": {arch}'
        lists = [",\n".join(x) for x in (map(json.dumps, runs), lines)]
        text = '{{{},\n"runs": [\n{}\n],\n"rows": [\n{}\n]}}\n'.format(head, *lists)
        path.write_text(text, encoding="utf-8")


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[x] for x in ("op", "small", *LAYOUT, "dtype", "m", "k", "n"))


if __name__ == "__main__":
    main()

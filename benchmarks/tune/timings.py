"""Timings of kernels, to which a model of their times can be fitted: random candidates of random problems.

A file is a list of lines of JSON, and files may be joined. A line with "device" says where and of what commit
those after it are; each of these is a problem with its batch, and its candidates with what they took:

    {"device": "NVIDIA H100 80GB HBM3", "arch": 90, "driver": ..., "copy_bytes_per_s": 3.0e12, ...}
    {"problem": {"op": "INV", ...}, "batch": 1000, "bytes": 128000, "candidates": 30, "failed": 0,
     "times": [{"kernel": "inv_lanes", "lanes": 1, ..., "ns": 2250.0, "registers": 40, "spills": 0}, ...]}

Under a head with "kernel" and "columns" a time is a list of values. "ns" are those of the whole batch. The
first of the times that `collect` writes is that of what a call runs now.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from smallmm import _core
from smallmm._gpu.tuned import driver_version
from smallmm._tools.candidates import KERNELS, candidates
from smallmm._tools.progress import tqdm
from smallmm._tools.timing import seconds_left
from smallmm._tools.tune import same_bits

from ..device.suite import Problem, Stack, Timer, bytes_of, compile_one, copy_speed, traffic
from ..records import commit, today

OPS = {  # how often each is drawn; LARGE: products above the order of tuned rows
    "MATMUL": 12, "LU": 2, "SOLVE": 3, "INV": 3, "DET": 1, "CHOLESKY": 2, "LU_SOLVE": 1, "CHO_SOLVE": 1,
    "SOLVE_TRIANGULAR": 1, "QR": 2, "QR_R": 1, "QR_RAW": 1, "LSTSQ": 1, "EIGH": 1, "EIGVALSH": 1, "SVD": 1,
    "SVDVALS": 1, "LARGE": 12,
}  # fmt: skip
SOLVES = ("LU_SOLVE", "SOLVE", "CHO_SOLVE", "SOLVE_TRIANGULAR", "LSTSQ")
TALL = ("QR", "QR_R", "QR_RAW", "LSTSQ", "SVD", "SVDVALS")
FOOTPRINTS = (1 << 26, 1 << 28)  # bytes of a large batch, beyond the caches
MAX_SMALL = 4096  # matrices of a batch that is planned as a small one (csrc/cuda/describe.c)
LARGE_ELEMENTS, LARGE_PRODUCTS = 1 << 25, 1 << 34  # at most
EACH = 16  # candidates of a problem
LIKELY = 100  # of the fastest by a model, if there is one, half of them are taken
SAMPLES = 3
Row = dict[str, Any]


class Case(NamedTuple):
    """A problem that is to be timed. The first of the rows is what a call runs now."""

    problem: Problem
    batch: int
    candidates: int
    rows: list[Row]


def draw(chance: random.Random, ops: dict[str, int] = OPS) -> tuple[Problem, int]:
    """A problem and its batch."""
    op = chance.choices([*ops], [*ops.values()])[0]
    if op == "LARGE":
        return draw_large(chance)
    problem: Problem = {"op": op, "dtype": chance.choice(("f32", "f64"))}
    n = chance.choice((chance.randint(1, 32), chance.randint(1, 12), 2 ** chance.randint(0, 5)))
    m = k = n
    if op == "MATMUL":
        if chance.random() < 0.5:
            m, k, n = (chance.choice((x, chance.randint(1, 32))) for x in (m, k, n))
        problem |= {f"order_{x}": int(chance.random() < 0.2) for x in "ab"}
        if chance.random() < 0.15:
            problem[f"source_{chance.choice('ab')}"] = 1
    elif op in TALL and chance.random() < 0.4:
        m = chance.randint(n, max(n, min(100, 1024 // n)))
    if op in SOLVES:
        k = chance.choice((1, 1, 1, chance.randint(2, _core.limits["cuda_columns"])))
    elif op not in ("MATMUL", *TALL):
        k = 1
    problem |= {"m": m, "k": k, "n": n}
    if chance.random() < 0.3:
        return problem | {"small": 1}, int(2 ** chance.uniform(5, 12))
    most = bytes_of(problem)
    return problem | {"small": 0}, max(MAX_SMALL + 1, int(chance.uniform(*FOOTPRINTS) / most)) | 1


def draw_large(chance: random.Random) -> tuple[Problem, int]:
    """A product with a dimension above those of the kernels for small matrices, and their number."""
    while True:
        m, n = (int(2 ** chance.uniform(0, 13)) for _ in "mn")
        k = int(2 ** chance.uniform(2, 20))
        batch = chance.choice((1, 1, 1, int(2 ** chance.uniform(0, 7))))
        elements, products = (m * k + k * n + m * n) * batch, m * k * n * batch
        is_large = max(m, k, n) > _core.limits["cuda_product_order"]
        if is_large and elements <= LARGE_ELEMENTS and products <= LARGE_PRODUCTS:
            break
    problem = {"op": "MATMUL", "dtype": chance.choice(("f32", "f64")), "m": m, "k": k, "n": n, "small": 1}
    load = {"load": (batch - 1).bit_length()}
    return problem | load | {f"order_{x}": int(chance.random() < 0.5) for x in "ab"}, batch


def some_of(rows: list[Row], predicted: list[float | None], chance: random.Random) -> list[Row]:
    """Random ones; half of them of those that a model takes for the fastest, if it knows them all."""
    count = min(len(rows), EACH - 1)
    if None in predicted:
        return chance.sample(rows, count)
    ranked = sorted(range(len(rows)), key=lambda i: predicted[i] or 0)
    likely = chance.sample(ranked[:LIKELY], min(len(ranked), LIKELY, count // 2))
    rest = [i for i in ranked if i not in likely]
    return [rows[i] for i in likely + chance.sample(rest, count - len(likely))]


def cases(chance: random.Random, device: str, arch: int, shared: int, ops: dict[str, int]) -> Iterator[Case]:
    """Without end. Of products fewer candidates are tried now and then: those that look best."""
    while True:
        problem, batch = draw(chance, ops)
        whole = {**problem, "device": device, "arch": arch}
        plan = _core.cuda_plan(whole, shared)
        present = {x: plan[x] for x in ("kernel", *KERNELS[plan["kernel"]])}
        rows = [row for row in candidates(whole, shared, chance.choice((1, 2, 2, 3))) if row != present]
        if rows:
            some = some_of(rows, _core.cuda_predict(whole, rows, shared), chance)
            yield Case(problem, batch, len(rows) + 1, [present, *some])


def time_case(
    case: Case, usage: list[tuple[int, int] | None], stack: Any, time: Any = _core.cuda_time
) -> Row:
    """The line of a case. Candidates that fail or could not be compiled are left out, and counted."""
    expected = None
    times, failed = [], 0
    for row, used in zip(case.rows, usage, strict=True):
        if used is None:
            failed += 1
            continue
        try:
            results, samples = time(row, SAMPLES, stack)
        except RuntimeError:
            failed += 1
            continue
        if min(samples) <= 0:
            raise AssertionError(f"nothing ran on the device: {case.problem}")
        results = [x.clone() for x in stack.outputs] if expected is None else stack.outputs
        expected = results if expected is None else expected
        if not all(map(same_bits, results, expected)):
            raise AssertionError(f"other bits: {case.problem} {row}")
        about = {"registers": used[0], "spills": used[1]} if used[0] else {}  # unknown of those from disk
        times.append({**row, "ns": round(statistics.median(samples), 1), **about})
    return {
        "problem": case.problem,
        "batch": case.batch,
        "bytes": traffic(case.problem, case.batch),
        "candidates": case.candidates,
        "failed": failed,
        "times": times,
    }


def compiled(job: Future[tuple[int, int]]) -> tuple[int, int] | None:
    try:
        return job.result()
    except BrokenExecutor:
        raise
    except RuntimeError:
        return None


def lines(drawn: Iterator[Case], compile_: Callable[[Case], list[Future]], seconds: float,
          make: Callable[[Problem, int], Any], ahead: int) -> Iterator[Row]:  # fmt: skip
    """The lines of cases, as long as there is time; others are compiled meanwhile, about so many kernels."""
    left = seconds_left(seconds)
    waiting: deque[tuple[Case, list[Future]]] = deque()
    while left():
        while sum(len(jobs) for _, jobs in waiting) < ahead:
            case = next(drawn)
            waiting.append((case, compile_(case)))
        case, jobs = waiting.popleft()
        yield time_case(case, [compiled(job) for job in jobs], make(case.problem, case.batch))


def collect(out: Path, seconds: float, ops: dict[str, int], seed: int) -> tuple[int, int]:
    """Append to a file what there is time for; how many problems, and how many kernels were timed."""
    cores = len(os.sched_getaffinity(0))
    problems = kernels = 0
    # Not forked: CUDA does not work in the children of a process that has started it.
    with (
        ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool,
        out.open("a", encoding="utf-8") as file,
    ):
        device, arch, shared = _core.cuda_device(0)
        head = {"device": device, "arch": arch, "shared": shared, "driver": driver_version()}
        head |= {"nvrtc": _core.cuda_nvrtc_version(), "commit": commit(), "date": today(), "seed": seed}
        file.write(json.dumps(head | {"copy_bytes_per_s": float(f"{copy_speed(Timer()):.5g}")}) + "\n")

        def compile_(case: Case) -> list[Future]:
            return [pool.submit(compile_one, (case.problem, row, arch, shared)) for row in case.rows]

        drawn = cases(random.Random(seed), device, arch, shared, ops)
        found = lines(drawn, compile_, seconds, Stack, 6 * cores + EACH)
        for line in tqdm(found, desc="problems", unit="", mininterval=5):
            file.write(json.dumps(line) + "\n")
            file.flush()
            problems += 1
            kernels += len(line["times"])
        pool.shutdown(cancel_futures=True)
    return problems, kernels


def read(paths: Iterable[Path]) -> Iterator[tuple[Row, Row]]:
    """Each problem's line, with the head that it stands under."""
    for path in paths:
        head: Row = {}
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if "device" in line:
                head = line
            else:
                if "columns" in head:
                    names, kernel = head["columns"], {"kernel": head["kernel"]}
                    line["times"] = [kernel | dict(zip(names, x, strict=True)) for x in line["times"]]
                yield head, line

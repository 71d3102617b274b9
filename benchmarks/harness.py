"""Validate, then time, then write rows.

A *contender* is a function without arguments that performs one case (op, dtype, shape, batch, layout).
`validate_matmul` compares what it computes with extended precision, element by element. The timer is the
package's own, `measure` of smallmm/_bench.py, the only one on the host: it times all contenders of a case
round-robin and gives medians and quartiles. `Run` turns them into rows and writes
benchmarks/results/<op>-<machine>-<topic>.jsonl. What compiled code loops over is timed so as well: C files in
this folder loop, they never time.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

from smallmm._bench import DTYPES, Call, Timing, matmul_error, some_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"

IN_CACHE = 1 << 20  # bytes of A, B and C together
OUT_OF_CACHE = 1 << 30

# --- data and validation --------------------------------------------------------------------------


def aligned(x: np.ndarray) -> np.ndarray:
    """The part of a flat array that starts at a cache line."""
    return x[-x.ctypes.data % 64 // x.itemsize :]


def count_for(footprint: int, each: int) -> int:
    """How many matrices of `each` bytes have at least `footprint` bytes together (in a cache: at most)."""
    return max(1, footprint // each if footprint < OUT_OF_CACHE // 8 else -(-footprint // each))


def batch_for(footprint: int, dtype: str, m: int, k: int, n: int) -> int:
    """The batch whose A, B and C together have this footprint."""
    return count_for(footprint, (m * k + k * n + m * n) * DTYPES[dtype].itemsize)


class Arena:
    """Three flat buffers, filled once, of which every case takes views: no page is new while timing.

    They begin at a cache line, or `offset` elements after one: where malloc puts an array is chance.
    """

    PERIOD = 1048573  # values; prime, so that no two matrices at a round distance are equal

    def __init__(self, dtype: str, elements: tuple[int, int, int]):
        rng = np.random.default_rng(20)
        block = rng.uniform(-1, 1, self.PERIOD).astype(DTYPES[dtype])
        spare = 128 // block.itemsize  # for alignment and offset
        self.a, self.b, self.c = (
            aligned(np.resize(np.roll(block, 17 * i), count + spare)) for i, count in enumerate(elements)
        )

    def matrices(
        self, batch: int, m: int, k: int, n: int, offset: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (
            self.a[offset : offset + batch * m * k].reshape(batch, m, k),
            self.b[offset : offset + batch * k * n].reshape(batch, k, n),
            self.c[offset : offset + batch * m * n].reshape(batch, m, n),
        )


def arena_for(dtype: str, footprint: int, shapes: Iterable[tuple[int, int, int]]) -> Arena:
    """An arena that holds the batch of each shape (m, k, n) at this footprint."""
    sizes = [(batch_for(footprint, dtype, m, k, n), m, k, n) for m, k, n in shapes]
    return Arena(
        dtype,
        (
            max(q * m * k for q, m, k, n in sizes),
            max(q * k * n for q, m, k, n in sizes),
            max(q * m * n for q, m, k, n in sizes),
        ),
    )


def validate_matmul(
    name: str, call: Call, a: np.ndarray, b: np.ndarray, out: np.ndarray, limit: int = 2048
) -> None:
    """|C - AB| <= (k + 2) u |A||B|, element by element, for up to `limit` matrices: first, last, random."""
    out.fill(np.nan)
    call()
    batch = out.shape[0]
    chosen = some_of(batch, limit)
    a, b = (np.broadcast_to(x, (batch, *x.shape[-2:]))[chosen] for x in (a, b))
    wrong = ~(matmul_error(np.finfo(out.dtype).eps / 2, a, b, out[chosen]) <= 1)
    if wrong.any():
        q, i, j = np.argwhere(wrong)[0]
        raise AssertionError(
            f"{name}: {wrong.sum()} elements off, first: matrix {chosen[q]}, element ({i}, {j})"
        )


# --- machine --------------------------------------------------------------------------------------


def _first(pattern: str, text: str, default: str = "unknown") -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1).strip() if found else default


def cpu_flags() -> frozenset[str]:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    return frozenset(_first(r"^(?:flags|Features)\s*:(.*)$", text, "").split())


def cpus() -> int:
    """CPUs this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def compiler() -> str | None:
    """The C compiler: $CC or cc."""
    return shutil.which(os.environ.get("CC", "cc"))


@cache
def machine() -> dict[str, object]:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    model = _first(r"^model name\s*:(.*)$", text, platform.processor() or platform.machine())
    family, number = _first(r"^cpu family\s*:(.*)$", text, ""), _first(r"^model\s*:(.*)$", text, "")
    caches = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / f).read_text().strip() for f in ("level", "type", "size"))
        if kind != "Instruction":
            caches[f"L{level}"] = size
    cc = compiler()
    version = (
        subprocess.run([cc, "--version"], capture_output=True, text=True, check=True).stdout if cc else "none"
    )
    name = " ".join(filter(None, [model, family and f"family {family}", number and f"model {number}"]))
    slug = re.sub(r"[^a-z0-9]+", "-", f"{model} {family} {number} {os.cpu_count()}cpu".lower()).strip("-")
    return {
        "slug": slug,
        "cpu": name,
        "cores": os.cpu_count(),
        "caches": caches,
        "os": f"{platform.system()} {platform.release()}",
        "compiler": version.splitlines()[0],
        "python": platform.python_version(),
    }


@cache
def commit() -> str:
    """The commit, with +dirty when the code that is measured, or measures, differs from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    if not shutil.which("git"):
        return "unknown"
    changed = git(
        "status", "--porcelain", "--", "csrc", "smallmm", "setup.py", "benchmarks/*.py", "benchmarks/*.c"
    )
    return (git("rev-parse", "--short=12", "--verify", "-q", "HEAD") or "none") + (
        "+dirty" if changed else ""
    )


# --- compiled helpers -----------------------------------------------------------------------------


NO_COMPILER = "no C compiler found (cc, or the one CC names): the limits of the machine cannot be measured"


class NoCompiler(RuntimeError):
    """Raised where something must be compiled and nothing can."""


_SHARED = tempfile.TemporaryDirectory(prefix="smallmm-bench-")


def compile_c(name: str, sources: Iterable[Path], flags: Iterable[str] = ()) -> ctypes.CDLL:
    """Compile C files into a temporary shared library and load it."""
    cc = compiler()
    if cc is None:
        raise NoCompiler(NO_COMPILER)
    folder = Path(_SHARED.name)
    flags = ["-std=gnu11", "-O3", "-fPIC", *flags]

    def build(words: list[str]) -> None:
        done = subprocess.run([cc, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{cc} {' '.join(words)}:\n{done.stderr}")

    sources = list(sources)
    objects = [str(folder / f"{name}-{i}.o") for i in range(len(sources))]
    with ThreadPoolExecutor(cpus()) as pool:
        list(pool.map(lambda s, o: build([*flags, "-c", str(s), "-o", o]), sources, objects))
    library = folder / f"{name}.so"
    build(["-shared", "-o", str(library), *objects, "-lm", "-lpthread"])
    return ctypes.CDLL(str(library))


# --- rows -----------------------------------------------------------------------------------------


def row(
    timing: Timing,
    *,
    op: str,
    dtype: str,
    shape: tuple[int, int, int],
    batch: int,
    contender: str,
    version: str,
    regime: str,
    threads: int,
    isa: str = "",
    layout: str = "contiguous",
    device: str = "cpu",
    flops: float,
    bytes: float,
    repeats: int = 1,
    **more: object,
) -> dict[str, object]:
    """One row. `flops` and `bytes` are the work and the compulsory traffic of one timed call: operands read
    once, C written; `repeats` is how often that call works through the batch."""
    m, k, n = shape
    return {
        "op": op,
        "dtype": dtype,
        "m": m,
        "k": k,
        "n": n,
        "batch": batch,
        "layout": layout,
        "regime": regime,
        "contender": contender,
        "version": version,
        "device": device,
        "threads": threads,
        "isa": isa,
        "ns_per_matrix": float(f"{timing.median / (batch * repeats):.5g}"),
        "quartiles": [float(f"{t / (batch * repeats):.5g}") for t in (timing.low, timing.high)],
        "samples": timing.samples,
        "gflops": float(f"{flops / timing.median:.4g}"),
        "gbytes": float(f"{bytes / timing.median:.4g}"),
        **more,
    }


class Run:
    """The rows of one topic: `add` them, then `write` them with machine, commit and date.

    The first line of a file describes the machine in full; each row names it by its slug and its CPU.
    """

    def __init__(self, op: str, topic: str, folder: Path = RESULTS):
        self.path = folder / f"{op}-{machine()['slug']}-{topic}.jsonl"
        self.rows: list[dict[str, object]] = []
        self.date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")

    def add(self, row: dict[str, object]) -> dict[str, object]:
        about = machine()
        row |= {"machine": about["slug"], "cpu": about["cpu"], "commit": commit(), "date": self.date}
        self.rows.append(row)
        return row

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [{"machine": machine()}, *self.rows]
        self.path.write_text(
            "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8"
        )


def read_rows(path: Path) -> tuple[dict[str, object], list[dict[str, object]]]:
    """The machine and the rows of a results file."""
    head, *rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return head["machine"], rows

"""The machine: what it is, and C code that is compiled for it.

C files in this folder loop, they never time: the timer is `measure` of smallmm/_tools/bench.py.
"""

from __future__ import annotations

import ctypes
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

from smallmm._tools.config import cpu

HERE = Path(__file__).resolve().parent


def cpu_flags() -> frozenset[str]:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split() if found else ())


def cpus() -> int:
    """CPUs this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def compiler() -> str | None:
    """The C compiler: $CC or cc."""
    return shutil.which(os.environ.get("CC", "cc"))


@cache
def machine() -> dict[str, object]:
    caches = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / f).read_text().strip() for f in ("level", "type", "size"))
        if kind != "Instruction":
            caches[f"L{level}"] = size
    cc = compiler()
    version = (
        subprocess.run([cc, "--version"], capture_output=True, text=True, check=True).stdout if cc else "none"
    )
    name = cpu()
    short = re.sub(r" (?:family|model) (?=\d)", " ", name)
    slug = re.sub(r"[^a-z0-9]+", "-", f"{short} {os.cpu_count()}cpu".lower()).strip("-")
    return {
        "slug": slug,
        "cpu": name,
        "cores": os.cpu_count(),
        "caches": caches,
        "os": f"{platform.system()} {platform.release()}",
        "compiler": version.splitlines()[0],
        "python": platform.python_version(),
    }


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
    build(["-shared", "-o", str(library), *objects, "-lm", "-lpthread", "-ldl"])
    return ctypes.CDLL(str(library))

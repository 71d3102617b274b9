"""Builds smallmm._core from csrc/. Everything else about the package is in pyproject.toml.

Environment switches for those who work on it:

    SMALLMM_DEBUG=1      -O0 -g
    SMALLMM_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer (preload libasan to import it)
    SMALLMM_COVERAGE=1   gcov instrumentation
    SMALLMM_NATIVE=1     without AVX-512 if this processor lacks it: half less to compile
    SMALLMM_NATIVE=best  without AVX2 if it has AVX-512, too
    SMALLMM_JOBS=n       sources compiled at a time (default: the CPUs this process may use)
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

VERSION = re.search(r'SMM_VERSION "(.+)"', Path("csrc/smallmm.h").read_text())[1]


def switched_on(name):
    return os.environ.get(name, "0") not in ("", "0")


# -g0: many Pythons ask for debug information, which would be nine tenths of the library.
compile_args = ["-std=gnu11", "-O3", "-g0", "-Wall", "-Wextra"]
compile_args += ["-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
link_args = []
if switched_on("SMALLMM_DEBUG"):
    compile_args += ["-O0", "-g"]
if switched_on("SMALLMM_SANITIZE"):
    sanitize = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]
    compile_args += ["-O1", "-g", *sanitize]
    link_args += sanitize
if switched_on("SMALLMM_COVERAGE"):
    compile_args += ["-O0", "-g", "--coverage"]
    link_args += ["--coverage"]
cpu = Path("/proc/cpuinfo")
if switched_on("SMALLMM_NATIVE") and cpu.exists():
    if "avx512vl" not in cpu.read_text():
        compile_args += ["-DSMM_WITHOUT_AVX512"]
    elif os.environ["SMALLMM_NATIVE"] == "best":
        compile_args += ["-DSMM_WITHOUT_AVX2"]


class parallel_build_ext(build_ext):
    """build_ext that compiles the sources of an extension side by side."""

    def build_extension(self, ext):
        compile_in_turn = self.compiler.compile
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = int(os.environ.get("SMALLMM_JOBS") or cpus or 1)

        def compile(sources, **kwargs):
            with ThreadPoolExecutor(jobs) as pool:
                objects = pool.map(lambda source: compile_in_turn([source], **kwargs), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = compile
        super().build_extension(ext)


core = Extension(
    "smallmm._core",
    sources=sorted(glob("csrc/**/*.c", recursive=True)),
    depends=sorted(f for kind in ("h", "def", "cuh") for f in glob(f"csrc/**/*.{kind}", recursive=True)),
    include_dirs=[numpy.get_include()],
    extra_compile_args=compile_args,
    extra_link_args=link_args,
    libraries=["m", "pthread", "dl"],
)

setup(version=VERSION, ext_modules=[core], cmdclass={"build_ext": parallel_build_ext})

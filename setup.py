"""Builds smallmm._core from csrc/. Everything else about the package is in pyproject.toml.

Environment switches:

    SMALLMM_ISAS=native  kernels for the instruction sets that this processor has (the default)
    SMALLMM_ISAS=best    for the best of them alone: half as much to compile
    SMALLMM_ISAS=all     for all of the architecture: what is installed elsewhere, as wheels are
    SMALLMM_JOBS=n       sources compiled at a time (default: the CPUs this process may use)

and for those who work on it:

    SMALLMM_DEBUG=1      -O0 -g
    SMALLMM_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer: six minutes of a core with
                         SMALLMM_ISAS=best; to import it:
                         LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 python
    SMALLMM_COVERAGE=1   gcov instrumentation
"""

import os
import platform
import re
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from itertools import count
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

if sys.maxsize < 2**32:
    sys.exit("smallmm needs a 64-bit Python: its kernels are for x86-64 and 64-bit ARM")
VERSION = re.search(r'SMM_VERSION "(.+)"', Path("csrc/smallmm.h").read_text())[1]


def switched_on(name):
    return os.environ.get(name, "0") not in ("", "0")


WHICH = os.environ.get("SMALLMM_ISAS") or "native"
if WHICH not in ("native", "best", "all"):
    sys.exit(f"SMALLMM_ISAS is {WHICH!r}; expected native, best or all")
CPU = Path("/proc/cpuinfo")
HAS = set(CPU.read_text().split()) if WHICH != "all" and CPU.exists() else None  # None: any processor


def without_isas():
    """What leaves out the kernels that SMALLMM_ISAS does not ask for."""
    if HAS is None:
        return []
    without = {"AVX512": "avx512vl" not in HAS}
    if WHICH == "best":
        without["AVX2"] = not without["AVX512"]
        without["PORTABLE"] = "avx2" in HAS or platform.machine() == "aarch64"
    return [f"-DSMM_WITHOUT_{isa}" for isa in without if without[isa]]


compile_args = ["-std=gnu11", "-O3", "-Wall", "-Wextra"]
compile_args += ["-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
compile_args += without_isas()
# The tests' oracle takes half the time where fma() is an instruction; -O2 makes it a third smaller.
reference_args = ["-mfma"] if HAS and "fma" in HAS else []
# `portable`, a fifth of the library, is there to be right: -O2 makes it an eighth smaller.
portable_args = []
# Nothing is thrown through kernels: without unwind tables the library is a hundredth smaller.
kernel_args = ["-fno-asynchronous-unwind-tables"]
# Exceptions of PyTorch's kernels pass through this file, which releases what it owns.
with_exceptions = {"csrc/python/patch/patch_torch.c": ["-fexceptions"]}
link_args = ["-Wl,-z,relro,-z,now"]
# Not of the kernels, which meet nothing but checked sizes: LU, products and inverses of order 2 would take
# 7 to 11 % longer, anything from order 4 on up to 3 % (AMD EPYC family 25 model 17, paired, November 2026).
protect_args = ["-fstack-protector-strong"]
if switched_on("SMALLMM_DEBUG"):
    compile_args += ["-O0", "-g"]
elif switched_on("SMALLMM_SANITIZE"):
    # As in tests/core/Makefile, which says why: else the kernels take three times as long to compile.
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-sanitize=null,object-size"]
    fewer_inlined = ["--param", "asan-instrumentation-with-call-threshold=0"]
    compile_args += ["-O1", "-g1", "-fno-omit-frame-pointer", *sanitize, *fewer_inlined]
    link_args += sanitize
elif switched_on("SMALLMM_COVERAGE"):
    compile_args += ["-O0", "-g", "--coverage"]
    link_args += ["--coverage"]
else:
    compile_args += ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-DNDEBUG"]  # Python's headers assert
    portable_args += ["-O2"]
    reference_args += ["-O2"]


def without_pythons(command):
    """Without the flags that this Python was compiled with, whose debug information would be nine tenths of
    the library: so every Python gets the objects that tests/core tests."""
    pythons = set((sysconfig.get_config_var("CFLAGS") or "").split())
    return [word for word in command if word not in pythons]


class parallel_build_ext(build_ext):
    """build_ext that compiles the sources of an extension side by side, and tells of each (pip: with -v)."""

    def build_extension(self, ext):
        compile_in_turn = self.compiler.compile
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = int(os.environ.get("SMALLMM_JOBS") or cpus or 1)
        done = count(1)

        def compile_one(source, extra_postargs, **kwargs):
            more = kernel_args if source.startswith("csrc/kernels/") else protect_args
            more = more + (portable_args if source.startswith("csrc/kernels/portable_") else [])
            more = more + (reference_args if source.startswith("csrc/reference/") else [])
            more = more + with_exceptions.get(source, [])
            objects = compile_in_turn([source], extra_postargs=extra_postargs + more, **kwargs)
            print(f"[{next(done)} of {len(ext.sources)}] {source}", flush=True)
            return objects

        def compile(sources, **kwargs):
            with ThreadPoolExecutor(jobs) as pool:
                objects = pool.map(lambda source: compile_one(source, **kwargs), sources)
                return [name for names in objects for name in names]

        # setuptools takes a library that is newer than its sources for built, whatever it was built with.
        self.compiler.compiler_so = without_pythons(self.compiler.compiler_so)
        flags = " ".join(
            [
                *self.compiler.compiler_so,
                *compile_args,
                *kernel_args,
                *portable_args,
                *reference_args,
                *link_args,
            ]
        )
        built_with = Path(self.build_temp, "flags")
        self.force = self.force or not built_with.exists() or built_with.read_text() != flags
        self.compiler.compile = compile
        super().build_extension(ext)
        built_with.parent.mkdir(parents=True, exist_ok=True)
        built_with.write_text(flags)


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

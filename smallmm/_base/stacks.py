"""A function of one matrix for each of a stack, by several threads: for LAPACK, which SciPy and NumPy call
without the GIL. A library of BLAS has one thread of its own meanwhile, or each of ours would start more."""

import ctypes
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core

MAX_FOR_BLAS = 512  # the order up to which fewer matrices than threads are better computed by one thread each
WORTH_THREADS = 1e8  # products of sizes: 5 ms of LAPACK or more, where threads take half of one to start
ROUND = 64  # matrices for each thread that wait at a time: all of a large stack would take memory
_THREADS_OF_BLAS = (  # functions that say how many there are, and that set it
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


def over_stack(
    function: Callable[..., Any], batch: tuple[int, ...], operands: Sequence[np.ndarray]
) -> Generator[Any, None, None]:
    """The results of a function of one matrix of each operand, whose first dimensions are `batch`, in the
    order of the matrices."""
    available, count = _core.get_num_threads(), prod(batch)
    threads, sizes = min(available, count), operands[0].shape[-2:]
    each = ([x[i] for x in operands] for i in np.ndindex(batch))

    def one(matrices: list[np.ndarray]) -> Any:
        with np.errstate(all="ignore"):  # which a thread does not have from the one that started it
            return function(*matrices)

    few = count < available and min(sizes) > MAX_FOR_BLAS
    if threads < 2 or few or count * prod(sizes) * min(sizes) < WORTH_THREADS:
        yield from map(one, each)
        return
    from concurrent.futures import ThreadPoolExecutor

    first = one(next(each))  # imports what the function needs, and with it a library of BLAS
    with _one_thread_of_blas(), ThreadPoolExecutor(threads) as pool:
        yield first
        while some := list(islice(each, ROUND * threads)):
            yield from pool.map(one, some)


@cache
def _library(path: str) -> Any:
    """The functions of a loaded library that say and set its threads, if it is one of BLAS that has them."""
    library = ctypes.CDLL(path)
    for names in _THREADS_OF_BLAS:
        if all(hasattr(library, name) for name in names):
            return tuple(getattr(library, name) for name in names)
    return None


@lru_cache(1)
def _libraries(_modules: int) -> list[Any]:
    """Those of this process; they are looked for again when more modules were imported."""
    with Path("/proc/self/maps").open() as maps:
        files = {
            Path(line.split(maxsplit=5)[5].rstrip())
            for line in maps
            if "openblas" in line or "mkl_rt" in line
        }
    return [found for file in sorted(files) if ".so" in file.name and (found := _library(str(file)))]


_lock = threading.Lock()
_before: list[Any] = []  # how to set the threads of each library, and how many it had
_users = 0


@contextmanager
def _one_thread_of_blas() -> Iterator[None]:
    global _users
    with _lock:
        if not _users:
            _before[:] = [
                (set_threads, get_threads()) for get_threads, set_threads in _libraries(len(sys.modules))
            ]
            for set_threads, _ in _before:
                set_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            for set_threads, threads in () if _users else _before:
                set_threads(threads)

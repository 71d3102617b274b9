"""The contenders of the matmul benchmarks: smallmm and what else a user has, one row each in PEERS.

Each reports its version, or why it is not there. `bind(a, b, out)` returns the call that computes
out = a @ b into preallocated memory, or raises `Unsupported`. SciPy is not among them: it has no batched
matrix product, and a Python loop over scipy.linalg.blas.dgemm would time the loop.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import harness
import numpy as np

import smallmm

Bind = Callable[[np.ndarray, np.ndarray, np.ndarray], harness.Call]


class Unsupported(Exception):
    """This peer has no call for this case."""


class Unavailable(Exception):
    """This peer is not installed; the message says what was looked for."""


@dataclass(frozen=True)
class Peer:
    name: str
    version: str
    bind: Bind
    set_threads: Callable[[int], object] | None = None  # None: one thread only
    isa: Callable[[], str] = lambda: ""


def _smallmm() -> Peer:
    def bind(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> harness.Call:
        return lambda: smallmm.batched_matmul(a, b, out=out)

    def isa() -> str:
        return smallmm._core.isa()

    return Peer("smallmm", smallmm.__version__, bind, smallmm.set_num_threads, isa)


def blas_of(package: str) -> tuple[str, Callable[[int], object]]:
    """The BLAS that an imported package brings along, or else uses, in words; and what sets its threads."""
    try:
        import threadpoolctl
    except ImportError:
        return "BLAS unknown without threadpoolctl", lambda count: None
    every = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    own = [library for library in every if f"/{package}" in library.filepath] or every
    words = (f"{b.internal_api} {b.version} {getattr(b, 'architecture', '')}".strip() for b in own)

    def set_threads(count: int) -> None:
        for library in own:
            library.set_num_threads(count)

    return ", ".join(words), set_threads


def _numpy() -> Peer:
    blas, set_threads = blas_of("numpy")

    def bind(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> harness.Call:
        return lambda: np.matmul(a, b, out=out)

    return Peer("np.matmul", f"{np.__version__} ({blas})", bind, set_threads)


def _torch() -> Peer:
    try:
        import torch
    except ImportError as missing:
        raise Unavailable(f"import torch: {missing}") from missing

    def tensor(x: np.ndarray, batch: int) -> torch.Tensor:
        return torch.from_numpy(x).expand(batch, *x.shape[-2:])

    def bind(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> harness.Call:
        x, y, z = (tensor(each, out.shape[0]) for each in (a, b, out))
        return lambda: torch.bmm(x, y, out=z)

    return Peer("torch.bmm", torch.__version__, bind, torch.set_num_threads)


@dataclass(frozen=True)
class Blas:
    """How BLAS sees a stack: transposed or not, leading dimension and batch stride in elements; row-major."""

    transposed: bool
    ld: int
    batch: int


def blas_form(x: np.ndarray) -> Blas:
    item = x.itemsize
    row, column = (s // item for s in x.strides[-2:])
    batch = x.strides[0] // item if x.ndim == 3 else 0
    rows, columns = x.shape[-2:]
    if column == 1 or columns == 1:
        return Blas(False, max(row, columns), batch)
    if row == 1 or rows == 1:
        return Blas(True, max(column, rows), batch)
    raise Unsupported("rows and columns are both strided")


@cache
def mkl_library() -> ctypes.CDLL:
    """libmkl_rt from the `mkl` wheel of this environment, or from the system's search path."""
    names = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"), reverse=True)
    for name in [str(n) for n in names] + [ctypes.util.find_library("mkl_rt")]:
        if name:
            return ctypes.CDLL(name)
    raise Unavailable("libmkl_rt: not in this environment's lib (pip install mkl) nor on the system")


def mkl_version(mkl: ctypes.CDLL) -> str:
    text = ctypes.create_string_buffer(198)
    mkl.mkl_get_version_string(text, len(text))
    words = text.value.decode().split()
    return words[words.index("Version") + 1] if "Version" in words else "unknown"


def _mkl() -> Peer:
    mkl = mkl_library()
    row_major, plain, transposed = 101, 111, 112
    types = {
        "f32": (mkl.cblas_sgemm_batch_strided, ctypes.c_float),
        "f64": (mkl.cblas_dgemm_batch_strided, ctypes.c_double),
    }
    integer = ctypes.c_int

    def bind(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> harness.Call:
        function, real = types[f"f{8 * out.itemsize}"]
        x, y, z = (blas_form(each) for each in (a, b, out))
        (batch, m, n), k = out.shape, a.shape[-1]
        ta, tb = (transposed if form.transposed else plain for form in (x, y))
        arguments = (
            *map(integer, (row_major, ta, tb, m, n, k)),
            *(real(1), ctypes.c_void_p(a.ctypes.data), integer(x.ld), integer(x.batch)),
            *(ctypes.c_void_p(b.ctypes.data), integer(y.ld), integer(y.batch)),
            *(real(0), ctypes.c_void_p(out.ctypes.data), integer(z.ld), integer(z.batch), integer(batch)),
        )
        return lambda keep=(a, b, out): function(*arguments)

    return Peer("MKL batch_strided", mkl_version(mkl), bind, mkl.MKL_Set_Num_Threads)


@cache
def loops() -> ctypes.CDLL:
    try:
        return harness.compile_c("peers", [harness.HERE / "peers.c"])
    except harness.NoCompiler as missing:
        raise Unavailable(str(missing)) from missing


def _batch_arguments(*stacks: tuple[np.ndarray, Blas]) -> list[ctypes._SimpleCData]:
    """Pointer and batch stride in bytes of each stack."""
    return [
        word
        for x, form in stacks
        for word in (ctypes.c_void_p(x.ctypes.data), ctypes.c_ssize_t(form.batch * x.itemsize))
    ]


def _mkl_jit() -> Peer:
    mkl, loop = mkl_library(), loops().run_mkl_jit
    row_major, plain, transposed, jitted = 101, 111, 112, 0
    types = {"f32": ("s", ctypes.c_float), "f64": ("d", ctypes.c_double)}
    integer = ctypes.c_int

    def bind(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> harness.Call:
        letter, real = types[f"f{8 * out.itemsize}"]
        x, y, z = (blas_form(each) for each in (a, b, out))
        (batch, m, n), k = out.shape, a.shape[-1]
        ta, tb = (transposed if form.transposed else plain for form in (x, y))
        jitter = ctypes.c_void_p()
        status = getattr(mkl, f"mkl_cblas_jit_create_{letter}gemm")(
            *(ctypes.byref(jitter), row_major, ta, tb, m, n, k),
            *(real(1), integer(x.ld), integer(y.ld), real(0), integer(z.ld)),
        )
        if status != jitted:
            raise Unsupported("MKL generates no code for this case on this machine")
        pointer = getattr(mkl, f"mkl_jit_get_{letter}gemm_ptr")
        pointer.restype = ctypes.c_void_p
        arguments = (
            *(ctypes.c_void_p(pointer(jitter)), jitter),
            *_batch_arguments((a, x), (b, y), (out, z)),
            ctypes.c_ssize_t(batch),
        )
        return lambda keep=(a, b, out): loop(*arguments)

    return Peer("MKL JIT loop", mkl_version(mkl), bind)


class _GemmShape(ctypes.Structure):
    """libxsmm_gemm_shape of LIBXSMM 2."""

    _fields_ = [(f, ctypes.c_int) for f in ("m", "n", "k", "lda", "ldb", "ldc", "a", "b", "out", "compute")]


def _libxsmm() -> Peer:
    name = os.environ.get("LIBXSMM_LIBRARY") or ctypes.util.find_library("xsmm")
    if not name:
        raise Unavailable("LIBXSMM_LIBRARY is not set and there is no libxsmm on the system")
    try:
        library = ctypes.CDLL(name)
    except OSError as missing:
        raise Unavailable(str(missing)) from missing
    if not hasattr(library, "libxsmm_dispatch_gemm"):
        raise Unavailable("this LIBXSMM has no libxsmm_dispatch_gemm: version 2 is needed")
    loop = loops().run_libxsmm
    library.libxsmm_init()
    library.libxsmm_get_target_arch.restype = ctypes.c_char_p
    dispatch = library.libxsmm_dispatch_gemm
    dispatch.restype = ctypes.c_void_p
    dispatch.argtypes = [_GemmShape, ctypes.c_uint, ctypes.c_uint]
    types = {"f64": 0, "f32": 1}
    trans_a, trans_b, beta_0 = 1, 2, 4

    def bind(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> harness.Call:
        # LIBXSMM is column-major: C^T (n x m) = B^T A^T.
        x, y, z = (blas_form(each) for each in (a, b, out))
        (batch, m, n), k = out.shape, a.shape[-1]
        shape = _GemmShape(n, m, k, y.ld, x.ld, z.ld, *[types[f"f{8 * out.itemsize}"]] * 4)
        kernel = dispatch(shape, beta_0 | trans_a * y.transposed | trans_b * x.transposed, 0)
        if not kernel:
            raise Unsupported("libxsmm_dispatch_gemm has no kernel")
        arguments = (
            ctypes.c_void_p(kernel),
            *_batch_arguments((b, y), (a, x), (out, z)),
            ctypes.c_ssize_t(batch),
        )
        return lambda keep=(a, b, out): loop(*arguments)

    return Peer("LIBXSMM JIT loop", f"2 ({library.libxsmm_get_target_arch().decode()})", bind)


PEERS: tuple[Callable[[], Peer], ...] = (_smallmm, _numpy, _torch, _mkl, _mkl_jit, _libxsmm)


def available(makers: Iterable[Callable[[], Peer]]) -> tuple[list[Peer], list[str]]:
    """The peers that are here, smallmm first; and a line for each that is not."""
    here, missing = [], []
    for make in makers:
        try:
            here.append(make())
        except Unavailable as reason:
            missing.append(f"{make.__name__.strip('_')} is not available: {reason}")
    return here, missing

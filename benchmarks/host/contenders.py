"""Who is timed on a CPU: smallmm, and what else a user has, a function each in CONTENDERS.

smallmm and the libraries of Python are those of the package (smallmm/_tools/contenders.py); here are the
threads and the BLAS of NumPy and SciPy, and compiled contenders: MKL and LIBXSMM. `bind(op, stack)` returns
the job that performs an operation on a stack, None if there is no such function, or raises `Unsupported`.
Ours, MKL and LIBXSMM write into memory that is there; the others' factorizations are called as their users
do, and allocate. SciPy has no batched product.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from smallmm._tools.contenders import PEERS, Contender, Job, our_own
from smallmm._tools.operations import OPERATIONS, Operation, Stack

from .arena import aligned
from .machine import HERE, NoCompiler, compile_c
from .operations import QR_R


class Unsupported(Exception):
    """This contender has no call for this case."""


class Unavailable(Exception):
    """This contender is not installed; the message says what was looked for."""


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


def _library(name: str) -> Contender:
    """One of the package's contenders."""
    try:
        return PEERS[name]()
    except ImportError as missing:
        raise Unavailable(f"import {name.lower()}: {missing}") from missing


def _with_blas(contender: Contender) -> Contender:
    """With the BLAS that it uses, and what sets its threads."""
    blas, set_threads = blas_of(contender.name.lower())
    return contender._replace(version=f"{contender.version} ({blas})", set_threads=set_threads)


def _numpy() -> Contender:
    """For LU, which it does not have, the nearest that it has."""
    numpy = _with_blas(_library("NumPy"))

    def bind(op: Operation, stack: Stack) -> Job | None:
        if op.name == "lu_factor":
            det = OPERATIONS["det"]
            return numpy.bind(det, stack)._replace(less="gives the determinant alone", does=det)
        return numpy.bind(op, stack)

    return numpy._replace(bind=bind)


def _scipy() -> Contender:
    return _with_blas(_library("SciPy"))


def _torch() -> Contender:
    return _library("PyTorch")


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


def _product(call: Callable[[], object], stack: Stack, words: str) -> Job:
    """Whose result is in the memory that was given; `stack` lives as long as the call."""
    return Job(call, words, lambda _: stack.outs)


def _mkl() -> Contender:
    mkl = mkl_library()
    row_major, plain, transposed = 101, 111, 112
    types = {
        "f32": (mkl.cblas_sgemm_batch_strided, ctypes.c_float),
        "f64": (mkl.cblas_dgemm_batch_strided, ctypes.c_double),
    }
    integer = ctypes.c_int

    def bind(op: Operation, stack: Stack) -> Job | None:
        if op.name != "matmul":
            return None
        (a, b), (out,) = stack.operands, stack.outs
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
        return _product(lambda: function(*arguments), stack, function.__name__)

    return Contender("MKL batch_strided", mkl_version(mkl), bind, mkl.MKL_Set_Num_Threads)


@cache
def loops() -> ctypes.CDLL:
    try:
        return compile_c("peers", [HERE / "peers.c"])
    except NoCompiler as missing:
        raise Unavailable(str(missing)) from missing


def _batch_arguments(*stacks: tuple[np.ndarray, Blas]) -> list[ctypes._SimpleCData]:
    """Pointer and batch stride in bytes of each stack."""
    return [
        word
        for x, form in stacks
        for word in (ctypes.c_void_p(x.ctypes.data), ctypes.c_ssize_t(form.batch * x.itemsize))
    ]


def _mkl_jit() -> Contender:
    mkl, loop = mkl_library(), loops().run_mkl_jit
    row_major, plain, transposed, jitted = 101, 111, 112, 0
    types = {"f32": ("s", ctypes.c_float), "f64": ("d", ctypes.c_double)}
    integer = ctypes.c_int

    def bind(op: Operation, stack: Stack) -> Job | None:
        if op.name != "matmul":
            return None
        (a, b), (out,) = stack.operands, stack.outs
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
        return _product(lambda: loop(*arguments), stack, f"mkl_jit_get_{letter}gemm_ptr")

    return Contender("MKL JIT loop", mkl_version(mkl), bind)


class _GemmShape(ctypes.Structure):
    """libxsmm_gemm_shape of LIBXSMM 2."""

    _fields_ = [(f, ctypes.c_int) for f in ("m", "n", "k", "lda", "ldb", "ldc", "a", "b", "out", "compute")]


def _libxsmm() -> Contender:
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

    def bind(op: Operation, stack: Stack) -> Job | None:
        if op.name != "matmul":
            return None
        (a, b), (out,) = stack.operands, stack.outs
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
        return _product(lambda: loop(*arguments), stack, "libxsmm_dispatch_gemm")

    return Contender("LIBXSMM JIT loop", f"2 ({library.libxsmm_get_target_arch().decode()})", bind)


def _pointer(x: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


def _sizes(a: np.ndarray) -> list[ctypes.c_ssize_t]:
    """Order, bytes of an element, batch: the last arguments of the loops in peers.c."""
    return [ctypes.c_ssize_t(size) for size in (a.shape[-1], a.itemsize, len(a))]


def _lapacke() -> Contender:
    """By columns, as LAPACK likes it, so on the transposes; functions that neither copy nor look for NaN."""
    mkl, loop = mkl_library(), loops()
    calls = {  # the loop in peers.c, and the routines it is given
        "lu_factor": (loop.run_getrf, ["getrf"]),
        "solve": (loop.run_gesv, ["gesv"]),
        "inv": (loop.run_getri, ["getrf", "getri"]),
        "det": (loop.run_det, ["getrf"]),
        "cholesky": (loop.run_potrf, ["potrf"]),
        "qr": (loop.run_qr, ["geqrf", "orgqr"]),
    }

    def bind(op: Operation, stack: Stack) -> Job | None:
        if op.name not in calls:
            return None
        run, routines = calls[op.name]
        names = [f"LAPACKE_{_letter(stack.a)}{routine}_work" for routine in routines]
        arrays = [*stack.operands, *stack.outs]
        arguments = (
            *(ctypes.cast(getattr(mkl, name), ctypes.c_void_p) for name in names),
            *map(_pointer, arrays),
            *_sizes(stack.a),
        )

        def read(_: object) -> tuple[np.ndarray, ...]:
            if op.name == "lu_factor":
                return stack.outs[0].mT, stack.outs[1] - 1
            return stack.outs if op.name in ("solve", "det") else tuple(x.mT for x in stack.outs)

        return Job(lambda: run(*arguments), " and ".join(names), read, of=stack.a.mT)

    return Contender("LAPACKE loop (MKL)", mkl_version(mkl), bind)


def _letter(a: np.ndarray) -> str:
    return "s" if a.dtype == np.float32 else "d"


class _Compact(ctypes.Structure):
    """The struct compact of peers.c."""

    ROUTINES = ("pack", "unpack", "getrfnp", "getrinp", "potrf", "geqrf")
    _fields_ = [
        *((f, ctypes.c_void_p) for f in ROUTINES),
        ("format", ctypes.c_int),
        ("at_a_time", ctypes.c_int),
    ]


def _compact() -> Contender:
    """LU and inverse without pivoting, on matrices whose diagonal dominates."""
    mkl, loop = mkl_library(), loops().run_compact
    most, work_elements, at_a_time = 32, 1 << 16, 512
    calls = {
        "lu_factor": ["getrfnp"],
        "inv": ["getrfnp", "getrinp"],
        "cholesky": ["potrf"],
        "qr": ["geqrf"],
    }
    less = {"lu_factor": "does not pivot", "inv": "does not pivot", "qr": "does not form Q"}

    @cache
    def buffers() -> list[np.ndarray]:
        sizes = (at_a_time * most * most, at_a_time * most, work_elements)
        return [aligned(np.zeros(size + 64)) for size in sizes]

    def bind(op: Operation, stack: Stack) -> Job | None:
        if op.name not in calls:
            return None
        letter, n = _letter(stack.a), stack.a.shape[-1]
        names = {
            **{routine: f"mkl_{letter}ge{routine}_compact" for routine in ("pack", "unpack")},
            **{routine: f"mkl_{letter}{routine}_compact" for routine in calls[op.name]},
        }
        struct = _Compact(format=mkl.mkl_get_format_compact(), at_a_time=at_a_time)
        for routine, name in names.items():
            setattr(struct, routine, ctypes.cast(getattr(mkl, name), ctypes.c_void_p).value)
        a = (
            stack.a + n * np.eye(n, dtype=stack.a.dtype)
            if "does not pivot" in less.get(op.name, "")
            else stack.a
        )
        tau = np.zeros((len(a), n), a.dtype)
        arguments = (
            *(ctypes.byref(struct), *map(_pointer, (a, stack.outs[0], tau, *buffers()))),
            *(ctypes.c_ssize_t(work_elements), *_sizes(a)),
        )

        def read(_: object) -> tuple[np.ndarray, ...]:
            result = stack.outs[0].mT
            if op.name == "lu_factor":
                return result, np.broadcast_to(np.arange(n), (len(a), n))
            return (np.triu(result),) if op.name == "qr" else (result,)

        words = " and ".join(names[routine] for routine in calls[op.name])
        call = partial(lambda keep: loop(*arguments), (struct, a, tau))
        does = QR_R if op.name == "qr" else None
        return Job(call, words, read, less.get(op.name, ""), does, a.mT)

    return Contender("MKL compact", mkl_version(mkl), bind)


CONTENDERS: tuple[Callable[[], Contender], ...] = (
    *(our_own, _numpy, _scipy, _torch),
    *(_mkl, _mkl_jit, _libxsmm, _lapacke, _compact),
)


def available(makers: Iterable[Callable[[], Contender]] = CONTENDERS) -> tuple[list[Contender], list[str]]:
    """Those that are here, smallmm first; and a line for each that is not."""
    here, missing = [], []
    for make in makers:
        try:
            here.append(make())
        except Unavailable as reason:
            missing.append(f"{make.__name__.strip('_')} is not available: {reason}")
    return here, missing

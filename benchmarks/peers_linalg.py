"""The contenders of the factorization and solve benchmarks: smallmm and what else a user has, in PEERS.

`bind(op, stack)` returns the Job that performs the operation on the stack, or raises `Unsupported`. Ours and
MKL write into memory that is there; NumPy, SciPy and PyTorch are called as their users do, and allocate.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial

import harness
import numpy as np
from operations import CHOLESKY, DET, INV, LU, QR, QR_R, SOLVE, Arrays, Job, Operation, Stack
from peers import Peer, Unavailable, Unsupported, blas_of, loops, mkl_library, mkl_version

import smallmm


def _as_tuple(returned: object) -> Arrays:
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def _smallmm() -> Peer:
    def bind(op: Operation, stack: Stack) -> Job:
        function = getattr(smallmm, op.name)
        out = stack.outs if len(stack.outs) > 1 else stack.outs[0]
        words = f"smallmm.{op.name}"
        return Job(lambda: function(*stack.operands, out=out), lambda _: stack.outs, op, stack.a, words)

    return Peer("smallmm", smallmm.__version__, bind, smallmm.set_num_threads, lambda: smallmm._core.isa())


def _numpy() -> Peer:
    blas, set_threads = blas_of("numpy")

    def bind(op: Operation, stack: Stack) -> Job:
        less = "gives the determinant alone" if op is LU else ""  # the nearest that it has
        op = DET if op is LU else op
        function = getattr(np.linalg, op.name)
        return Job(lambda: function(*stack.operands), _as_tuple, op, stack.a, f"np.linalg.{op.name}", less)

    return Peer("NumPy", f"{np.__version__} ({blas})", bind, set_threads)


def _scipy() -> Peer:
    try:
        import scipy
        import scipy.linalg
    except ImportError as missing:
        raise Unavailable(f"import scipy: {missing}") from missing
    blas, set_threads = blas_of("scipy")
    options = {CHOLESKY: {"lower": True}, QR: {"mode": "economic"}}

    def bind(op: Operation, stack: Stack) -> Job:
        function = getattr(scipy.linalg, op.name)
        keywords = {"check_finite": False, **options.get(op, {})}
        less = "returns a view" if op is DET and stack.a.shape[-1] == 1 else ""
        call = partial(function, *stack.operands, **keywords)
        return Job(call, _as_tuple, op, stack.a, f"scipy.linalg.{op.name}", less)

    return Peer("SciPy", f"{scipy.__version__} ({blas})", bind, set_threads)


def _torch() -> Peer:
    try:
        import torch
    except ImportError as missing:
        raise Unavailable(f"import torch: {missing}") from missing
    names = {LU: "lu_factor_ex", SOLVE: "solve_ex", INV: "inv_ex", CHOLESKY: "cholesky_ex"}

    def bind(op: Operation, stack: Stack) -> Job:
        name = names.get(op, op.name)
        function = getattr(torch.linalg, name)
        operands = [torch.from_numpy(x) for x in stack.operands]

        def read(returned: object) -> Arrays:
            arrays = [x.numpy() for x in _as_tuple(returned)]
            return (arrays[0], arrays[1] - 1) if op is LU else tuple(arrays[: len(op.outputs)])

        return Job(lambda: function(*operands), read, op, stack.a, f"torch.linalg.{name}")

    return Peer("PyTorch", torch.__version__, bind, torch.set_num_threads)


def _pointer(x: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


def _sizes(a: np.ndarray) -> list[ctypes.c_ssize_t]:
    """Order, bytes of an element, batch: the last arguments of the loops in peers.c."""
    return [ctypes.c_ssize_t(size) for size in (a.shape[-1], a.itemsize, len(a))]


def _lapacke() -> Peer:
    """By columns, as LAPACK likes it, so on the transposes; functions that neither copy nor look for NaN."""
    mkl, loop = mkl_library(), loops()
    calls = {  # the loop in peers.c, and the routines it is given
        LU: (loop.run_getrf, ["getrf"]),
        SOLVE: (loop.run_gesv, ["gesv"]),
        INV: (loop.run_getri, ["getrf", "getri"]),
        DET: (loop.run_det, ["getrf"]),
        CHOLESKY: (loop.run_potrf, ["potrf"]),
        QR: (loop.run_qr, ["geqrf", "orgqr"]),
    }

    def bind(op: Operation, stack: Stack) -> Job:
        run, routines = calls[op]
        names = [f"LAPACKE_{_letter(stack.a)}{routine}_work" for routine in routines]
        arrays = [*stack.operands, *stack.outs]
        arguments = (
            *(ctypes.cast(getattr(mkl, name), ctypes.c_void_p) for name in names),
            *map(_pointer, arrays),
            *_sizes(stack.a),
        )

        def read(_: object) -> Arrays:
            if op is LU:
                return stack.outs[0].mT, stack.outs[1] - 1
            return stack.outs if op in (SOLVE, DET) else tuple(x.mT for x in stack.outs)

        return Job(lambda: run(*arguments), read, op, stack.a.mT, " and ".join(names))

    return Peer("LAPACKE loop (MKL)", mkl_version(mkl), bind)


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


def _compact() -> Peer:
    """LU and inverse without pivoting, on matrices whose diagonal dominates."""
    mkl, loop = mkl_library(), loops().run_compact
    most, work_elements, at_a_time = 32, 1 << 16, 512
    calls = {LU: ["getrfnp"], INV: ["getrfnp", "getrinp"], CHOLESKY: ["potrf"], QR: ["geqrf"]}
    less = {LU: "does not pivot", INV: "does not pivot", QR: "does not form Q"}

    @cache
    def buffers() -> list[np.ndarray]:
        sizes = (at_a_time * most * most, at_a_time * most, work_elements)
        return [harness.aligned(np.zeros(size + 64)) for size in sizes]

    def bind(op: Operation, stack: Stack) -> Job:
        if op not in calls:
            raise Unsupported("MKL has no compact routine")
        letter, n = _letter(stack.a), stack.a.shape[-1]
        names = {
            **{routine: f"mkl_{letter}ge{routine}_compact" for routine in ("pack", "unpack")},
            **{routine: f"mkl_{letter}{routine}_compact" for routine in calls[op]},
        }
        struct = _Compact(format=mkl.mkl_get_format_compact(), at_a_time=at_a_time)
        for routine, name in names.items():
            setattr(struct, routine, ctypes.cast(getattr(mkl, name), ctypes.c_void_p).value)
        a = stack.a + n * np.eye(n, dtype=stack.a.dtype) if op in (LU, INV) else stack.a
        tau = np.zeros((len(a), n), a.dtype)
        arguments = (
            *(ctypes.byref(struct), *map(_pointer, (a, stack.outs[0], tau, *buffers()))),
            *(ctypes.c_ssize_t(work_elements), *_sizes(a)),
        )

        def read(_: object) -> Arrays:
            result = stack.outs[0].mT
            if op is LU:
                return result, np.broadcast_to(np.arange(n), (len(a), n))
            return (np.triu(result),) if op is QR else (result,)

        words = " and ".join(names[routine] for routine in calls[op])
        call = partial(lambda keep: loop(*arguments), (struct, a, tau))
        return Job(call, read, QR_R if op is QR else op, a.mT, words, less.get(op, ""))

    return Peer("MKL compact", mkl_version(mkl), bind)


PEERS = (_smallmm, _numpy, _scipy, _torch, _lapacke, _compact)

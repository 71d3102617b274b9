"""Who is timed on a GPU beside smallmm: PyTorch, CuPy and JAX as the package binds them
(smallmm/_tools/contenders.py), PyTorch's functions for operations that the package does not time, and
cuBLAS and cuSOLVER called directly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from smallmm._tools import bench, operations
from smallmm._tools.contenders import PEERS, Contender, Job, our_own

from .suite import Problem, Stack, op_of

MAX_OF_PEERS = 100_000  # some take a second for that
LOOPS = 2000  # matrices for those who call a function for each of them; these, or fewer of slow ones:
LOOPING = {"qr": LOOPS, "eig": 100, "eigvals": 100}
LOOPING_COMPLEX = dict.fromkeys(("eigh", "eigvalsh", "svd", "svdvals", "cholesky"), LOOPS)
LOOPING_LARGER = dict.fromkeys(("qr", "eigh", "svd"), 100)  # above order 32
JAX_ORDERS = (2, 4, 8, 16, 32, 64, 128)  # it compiles each shape anew


class Timed(NamedTuple):
    """A call of a contender. `before` is called before it and not counted; `read` gives the results for a
    check, None if there is none; `of` are the matrices that they are of, if not the operands as they are."""

    who: Contender
    words: str
    call: Callable[[], Any]
    batch: int
    read: Callable[[Any], Iterable[Any]] | None = None
    before: Callable[[], Any] | None = None
    of: Any = None


def _unbound(op: Any, stack: Any) -> Job | None:
    return None


def ours(problem: Problem, stack: Stack) -> Timed:
    """By the direct road, into outputs that are there."""
    return Timed(our_own(), f"smallmm.{op_of(problem)}", stack, stack.batch, lambda _: stack.outputs)


# --- the vendor's libraries -----------------------------------------------------------------------


def vendor_library(name: str) -> Contender:
    """Those that PyTorch brings along."""
    import torch

    return Contender(name, torch.__version__, _unbound)


def letter_of(dtype: Any) -> str:
    """What it begins the names of functions with."""
    return {"float32": "S", "float64": "D", "complex64": "C", "complex128": "Z"}[str(dtype).split(".")[1]]


def cublas(a: Any, b: Any, c: Any) -> Callable[[], None]:
    """cublas?gemmStridedBatched on row-major operands: C^T = B^T A^T."""
    import torch

    library = ctypes.CDLL("libcublas.so.13")
    function = getattr(library, f"cublas{letter_of(c.dtype)}gemmStridedBatched")
    scalar = ctypes.c_double if c.real.dtype == torch.float64 else ctypes.c_float
    number = scalar * 2  # of real numbers only the first is read
    batch, m, n = c.shape
    k = a.shape[-1]
    one, zero = number(1, 0), number(0, 0)
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (b, a, c)]

    def call() -> None:
        handle = ctypes.c_void_p(torch.cuda.current_blas_handle())  # set to the current stream
        status = function(
            handle, 0, 0, n, m, k, one,
            pointers[0], n, ctypes.c_longlong(k * n),
            pointers[1], k, ctypes.c_longlong(m * k), zero,
            pointers[2], n, ctypes.c_longlong(m * n), batch,
        )  # fmt: skip
        assert status == 0, status

    return call


class Vendor:
    """cuBLAS and cuSOLVER called directly: arrays of pointers, matrices by columns, in place."""

    def __init__(self, a: Any):
        import torch

        self.torch = torch
        self.blas, self.solver = ctypes.CDLL("libcublas.so.13"), ctypes.CDLL("libcusolver.so.12")
        self.a, self.work = a, a.clone()
        self.batch, self.n, _ = a.shape
        self.letter = letter_of(a.dtype)
        self.pointers = self.addresses(self.work)
        self.info = torch.zeros(self.batch, dtype=torch.int32, device="cuda")
        self.pivots = torch.zeros(self.batch, self.n, dtype=torch.int32, device="cuda")
        self.handle = ctypes.c_void_p()
        assert self.solver.cusolverDnCreate(ctypes.byref(self.handle)) == 0

    def addresses(self, x: Any) -> Any:
        step = x.stride(0) * x.element_size()
        return self.torch.arange(len(x), device="cuda", dtype=self.torch.int64) * step + x.data_ptr()

    def on_stream(self) -> None:
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        assert self.solver.cusolverDnSetStream(self.handle, stream) == 0

    def restore(self) -> None:
        self.work.copy_(self.a)

    def _blas(self, name: str, *args: Any) -> None:
        handle = ctypes.c_void_p(self.torch.cuda.current_blas_handle())
        status = getattr(self.blas, f"cublas{self.letter}{name}")(handle, *args)
        assert status == 0, (name, status)

    def getrf(self) -> None:
        p = ctypes.c_void_p
        self._blas("getrfBatched", self.n, p(self.pointers.data_ptr()), self.n, p(self.pivots.data_ptr()),
                   p(self.info.data_ptr()), self.batch)  # fmt: skip

    def matinv(self, to: Any) -> None:
        p = ctypes.c_void_p
        self._blas("matinvBatched", self.n, p(self.pointers.data_ptr()), self.n, p(to.data_ptr()), self.n,
                   p(self.info.data_ptr()), self.batch)  # fmt: skip

    def geqrf(self, tau: Any) -> None:
        p = ctypes.c_void_p
        self._blas("geqrfBatched", self.n, self.n, p(self.pointers.data_ptr()), self.n,
                   p(tau.data_ptr()), ctypes.byref(ctypes.c_int()), self.batch)  # fmt: skip

    def getrs(self, b: Any) -> None:
        p = ctypes.c_void_p
        self._blas("getrsBatched", 0, self.n, 1, p(self.pointers.data_ptr()), self.n,
                   p(self.pivots.data_ptr()), p(b.data_ptr()), self.n, ctypes.byref(ctypes.c_int()),
                   self.batch)  # fmt: skip

    def potrf(self) -> None:
        p = ctypes.c_void_p
        self.on_stream()
        status = getattr(self.solver, f"cusolverDn{self.letter}potrfBatched")(
            self.handle, 0, self.n, p(self.pointers.data_ptr()), self.n, p(self.info.data_ptr()), self.batch
        )
        assert status == 0, status


def vendors(problem: Problem, inputs: list[Any], out: Any) -> Iterator[Timed]:
    """cuBLAS and cuSOLVER, which see the transposes and work in place."""
    import torch

    a, *rest = inputs
    blas, solver = vendor_library("cuBLAS"), vendor_library("cuSOLVER")
    of = partial(Timed, batch=len(a))
    op = problem["op"]
    if op == "MATMUL":
        yield of(blas, "", cublas(a, rest[0], out), read=lambda _: (out,))
        return
    vendor = Vendor(a)
    if op == "LU":
        read = lambda _: (vendor.work.mT, vendor.pivots - 1)  # noqa: E731
        yield of(blas, "", vendor.getrf, read=read, before=vendor.restore, of=a.mT)
    elif op == "CHOLESKY":
        yield of(solver, "", vendor.potrf, read=lambda _: (vendor.work.mT,), before=vendor.restore)
    elif op == "INV":
        inverse = torch.empty_like(a)
        yield of(blas, "", partial(vendor.matinv, vendor.addresses(inverse)), read=lambda _: (inverse,))
    elif op == "QR_RAW":
        tau = torch.zeros(a.shape[:2], dtype=a.dtype, device="cuda")
        yield of(blas, "", partial(vendor.geqrf, vendor.addresses(tau)), before=vendor.restore)
    elif op == "SOLVE":
        (b,) = rest
        x = b.clone()
        pointers = vendor.addresses(x)

        def factor_and_solve() -> None:
            vendor.getrf()
            vendor.getrs(pointers)

        def restore() -> None:
            vendor.restore()
            x.copy_(b)

        yield of(blas, "", factor_and_solve, read=lambda _: (x,), before=restore, of=a.mT)


# --- frameworks -----------------------------------------------------------------------------------


def torch_functions(inputs: list[Any]) -> dict[str, tuple[str, Callable[[], Any], int]]:
    """PyTorch's functions for operations that the package does not time: words, call, matrices."""
    import torch

    a, *rest = inputs
    la, batch = torch.linalg, len(a)
    return {
        "QR_RAW": ("torch.geqrf", lambda: torch.geqrf(a[:LOOPS]), LOOPS),
        "LU_SOLVE": ("torch.linalg.lu_solve", lambda: la.lu_solve(a, rest[0] + 1, rest[1]), batch),
        "CHO_SOLVE": ("torch.cholesky_solve", lambda: torch.cholesky_solve(rest[0], a), batch),
        "SOLVE_TRIANGULAR": (
            "torch.linalg.solve_triangular",
            lambda: la.solve_triangular(a, rest[0], upper=False),
            batch,
        ),
        "LSTSQ": ("torch.linalg.lstsq", lambda: la.lstsq(a[:LOOPS], rest[0][:LOOPS]), LOOPS),
    }


@cache
def available() -> tuple[Contender, ...]:
    """Those of the package's that are installed; a line for each that is not."""
    found = []
    for library in bench.ON_DEVICE:
        try:
            found.append(PEERS[library]())
        except ImportError as missing:
            print(f"{library} is not installed: {missing}")
    return tuple(found)


def frameworks(problem: Problem, inputs: list[Any], out: Any) -> Iterator[Timed]:
    """PyTorch, CuPy and JAX."""
    name, n = op_of(problem), problem["n"]
    for who in available():
        if name not in operations.OPERATIONS:
            functions = torch_functions(inputs)
            if who.name == "PyTorch" and problem["op"] in functions:
                words, call, batch = functions[problem["op"]]
                yield Timed(who, words, call, min(batch, len(inputs[0])))
            continue
        looping = LOOPING | (LOOPING_COMPLEX if inputs[0].is_complex() else {})
        loops = (looping | (LOOPING_LARGER if n > 32 else {})).get(name)
        compiles = who.name == "JAX" and name != "matmul" and n not in JAX_ORDERS
        if compiles or (who.name == "CuPy" and name in looping):
            continue
        few = [x[:loops] for x in inputs]
        a, b = few if len(few) == 2 else (few[0], None)
        job = who.bind(
            operations.OPERATIONS[name], operations.Stack(a, b, (out,) if name == "matmul" else ())
        )
        if job:
            yield Timed(who, job.words, job.call, len(a), job.read)


def contenders(problem: Problem, stack: Stack) -> Iterator[Timed]:
    """All others, on the operands of ours and, of products, its output; of factorizations on at most
    MAX_OF_PEERS matrices."""
    inputs = stack.inputs
    if problem["op"] != "MATMUL":
        inputs = [x[:MAX_OF_PEERS].contiguous() for x in inputs if hasattr(x, "ndim")]
    yield from vendors(problem, inputs, stack.outputs[0])
    yield from frameworks(problem, inputs, stack.outputs[0])


def validate(problem: Problem, inputs: list[Any], timed: Timed, returned: Any) -> None:
    """Check the results of the first, the last and some other matrices against the table of bounds."""
    import torch

    name = op_of(problem)
    if timed.read is None or name not in operations.OPERATIONS:
        return
    op = operations.OPERATIONS[name]
    found = list(timed.read(returned))[: len(op.results)]  # ours has info, too
    results = [x if isinstance(x, torch.Tensor) else torch.from_dlpack(x) for x in found]
    chosen = torch.as_tensor(operations.some_of(len(results[0]), 512), device=results[0].device)
    a, b = (timed.of if timed.of is not None else inputs[0]), (inputs[1] if len(inputs) > 1 else None)
    some = [x if x is None else x[chosen].cpu().numpy() for x in (a, b, *results)]
    operations.validate(timed.words or timed.who.name, op, *some[:2], some[2:])

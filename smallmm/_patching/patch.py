"""NumPy and PyTorch made fast on stacks: loops and kernels of smallmm (csrc/python/patch/) are put
into them or taken out."""

import os
import platform
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import _core
from .._base.errors import shown

_lock = threading.RLock()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)  # so that a child does not wait for a thread that it does not have


class _Library:
    """One that can be patched, and who wants it to be."""

    title: str
    contexts = 0  # that keep it patched
    asked = False  # by patch_numpy or patch_torch, which no context undoes

    def put_in(self, op: str) -> None:
        raise NotImplementedError

    def take_out(self, op: str) -> None:
        raise NotImplementedError

    def is_patched(self) -> bool:
        raise NotImplementedError

    def patch(self, op: str) -> None:
        with _lock:
            self.put_in(op)
            self.asked = True

    def unpatch(self, op: str) -> None:
        with _lock:
            if not self.contexts:
                self.take_out(op)
            self.asked = False

    @contextmanager
    def patched(self) -> Iterator[None]:
        with _lock:
            self.put_in("patched")
            self.contexts += 1
        try:
            yield
        finally:
            with _lock:
                self.contexts -= 1
                if not (self.contexts or self.asked):
                    self.take_out("patched")


# --- NumPy ----------------------------------------------------------------------------------------


def _ufuncs() -> dict[str, np.ufunc]:
    """Those of the core's list that this NumPy has."""
    linalg = getattr(np.linalg, "_umath_linalg", None)
    found = {name: getattr(np, name, None) or getattr(linalg, name, None) for name in _core.patched}
    return {name: ufunc for name, ufunc in found.items() if isinstance(ufunc, np.ufunc)}


def _are_loops_called(name: str, ufunc: np.ufunc, loops: int) -> bool:
    """Whether calls of a ufunc, one for each type, reach its new loops."""
    dims = [
        len(core.split(",")) for core in re.findall(r"\((.*?)\)", str(ufunc.signature).partition("->")[0])
    ]
    before = _calls(name)
    for types in ufunc.types:
        if types[0] in "fdFD":
            ufunc(*(np.ones((1,) * ndim, types[0]) for ndim in dims))
    return _calls(name) - before >= loops


def _calls(name: str) -> int:
    return sum(calls for function, _, _, calls, _ in _core.loop_counts() if function == name)


def _refuse_where_others_are_in_the_way(op: str, ufuncs: dict[str, np.ufunc]) -> None:
    names = [name for name, ufunc in ufuncs.items() if _core.loops_in(name, ufunc)[1]]
    if names:
        raise RuntimeError(
            f"{op}: another library has exchanged the loops of {', '.join(names)} after smallmm did; "
            "undo that first. Nothing was changed"
        )


class _NumPy(_Library):
    title = "NumPy"

    def put_in(self, op: str) -> None:
        ufuncs = _ufuncs()
        _refuse_where_others_are_in_the_way(op, ufuncs)
        if self.is_patched():
            return
        try:
            loops = {name: _core.exchange_loops(name, ufunc, True) for name, ufunc in ufuncs.items()}
            with np.errstate(all="ignore"):
                deaf = [
                    name for name, count in loops.items() if not _are_loops_called(name, ufuncs[name], count)
                ]
            if deaf or not any(loops.values()):
                raise RuntimeError(
                    f"{op}: NumPy {np.__version__} ignores exchanged loops of "
                    f"{', '.join(deaf) or 'all ufuncs'}; NumPy was left unpatched"
                )
        except BaseException:
            self.take_out(op)
            raise
        _core.clear_loop_counts("numpy")

    def take_out(self, op: str) -> None:
        ufuncs = _ufuncs()
        _refuse_where_others_are_in_the_way(op, ufuncs)
        for name, ufunc in ufuncs.items():
            _core.exchange_loops(name, ufunc, False)

    def is_patched(self) -> bool:
        return any(_core.loops_in(name, ufunc)[0] for name, ufunc in _ufuncs().items())


# --- PyTorch --------------------------------------------------------------------------------------

OLDEST_TORCH = (2, 10)
NEWEST_BOXED = 2, 13  # whose values in memory are known to be those that patch_torch.c takes in boxes


def _torch(op: str) -> Any:
    """PyTorch, if smallmm's kernels fit it."""
    if sys.platform != "linux":
        raise RuntimeError(f"{op}: PyTorch is patched on Linux; this is {platform.system()}")
    try:
        import torch
    except ImportError as why:
        raise RuntimeError(f"{op}: PyTorch cannot be imported: {why}") from why
    if _version(torch) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise RuntimeError(f"{op}: PyTorch {torch.__version__} is too old; expected {oldest} or newer")
    return torch


def _version(torch: Any) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))


def _use_up_the_warning(torch: Any) -> None:
    """PyTorch warns once in a process when a kernel is replaced: now, of an operator for its tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = torch.library.Library("aten", "IMPL")
        library.impl("_test_optional_intlist", lambda values, addends: values, "CPU")
        library._destroy()


def _register(op: str) -> list[str]:
    """Register the kernels of all operators: "bmm CPU" and so on."""
    torch = _torch(op)
    folder = Path(torch.__file__).parent / "lib"
    cuda = folder / "libtorch_cuda.so"
    has_cuda = torch.version.cuda is not None and cuda.exists()
    _use_up_the_warning(torch)
    libraries = str(folder / "libtorch_cpu.so"), str(cuda) if has_cuda else None
    found = _core.register_torch(*libraries, _version(torch) <= NEWEST_BOXED)
    if isinstance(found, str):
        raise RuntimeError(f"{op}: PyTorch {torch.__version__} lacks {found}; PyTorch was left unpatched")
    before = _calls("aten.bmm")
    _core.serve_torch(True)
    one = torch.ones(1, 1, 1, device="cpu")
    torch.bmm(one, one)
    _core.serve_torch(False)
    if _calls("aten.bmm") == before:
        raise RuntimeError(f"{op}: PyTorch {torch.__version__} ignores registered kernels")
    return found


class _Torch(_Library):
    title = "PyTorch"
    kernels: list[str] | None = None  # once they are registered
    serves = False

    def put_in(self, op: str) -> None:
        if self.serves:
            return
        if self.kernels is None:
            self.kernels = _register(op)
        _core.clear_loop_counts("torch")
        _core.serve_torch(True)
        self.serves = True

    def take_out(self, op: str) -> None:
        if self.serves:
            _core.serve_torch(False)
        self.serves = False

    def is_patched(self) -> bool:
        return self.serves


# --- both -----------------------------------------------------------------------------------------

_numpy, _pytorch = _NumPy(), _Torch()
LIBRARIES: dict[str, _Library] = {"numpy": _numpy, "torch": _pytorch}


def is_patched(library: Literal["numpy", "torch"] = "numpy") -> bool:
    """Whether a library's functions are computed by smallmm where that is faster.

    Parameters
    ----------
    library : {"numpy", "torch"}
        See `patch_numpy` and `patch_torch`.

    Examples
    --------
    >>> smallmm.is_patched("torch")
    False
    """
    check_libraries("is_patched", (library,))
    return LIBRARIES[library].is_patched()


def patch_numpy() -> None:
    """Have NumPy's own functions compute stacks of small matrices by smallmm, in this process.

    ``np.matmul`` (``a @ b``), ``np.matvec``, ``np.vecmat``, ``np.vecdot``, and ``solve``, ``inv``, ``det``,
    ``slogdet``, ``cholesky``, ``eigh``, ``eigvalsh``, ``eig``, ``eigvals``, ``svd``, ``svdvals`` and
    ``qr`` (all but Q) of ``numpy.linalg``, and so whatever calls these: ``np.einsum(optimize=True)``,
    ``np.linalg.pinv``, ``matrix_power``, other libraries. Only the innermost loops of NumPy's ufuncs are
    exchanged, so everything around them stays NumPy's. Calls that NumPy computes faster, and those that fail
    or raise floating-point exceptions, are handed on to NumPy's loops.

    Raises
    ------
    RuntimeError
        If this NumPy ignores exchanged loops, or another library has exchanged them since.

    See Also
    --------
    patched, unpatch_numpy, patch_report

    Notes
    -----
    Importing smallmm patches nothing, and a second patch changes nothing. What differs from NumPy, and the
    other ways to patch, are on the page "NumPy and PyTorch themselves, faster".

    Examples
    --------
    >>> smallmm.patch_numpy()
    >>> a = np.ones((1000, 3, 3)) + np.eye(3)
    >>> x = np.linalg.inv(a)  # by smallmm
    >>> smallmm.unpatch_numpy()
    """
    _numpy.patch("patch_numpy")


def unpatch_numpy() -> None:
    """Give NumPy its own loops back; a context of `patched` that has not ended keeps them away until it does.

    Threads that are in a loop of smallmm finish it. A NumPy that is not patched stays as it is.
    """
    _numpy.unpatch("unpatch_numpy")


def patch_torch() -> None:
    """Have PyTorch's own operators compute stacks of small matrices by smallmm, in this process.

    ``torch.bmm`` (``a @ b``), ``baddbmm`` and ``cholesky_solve``, and of ``torch.linalg`` ``inv``, ``solve``,
    ``solve_triangular``, ``lstsq``, ``det``, ``slogdet``, ``lu_factor``, ``lu_solve``, ``cholesky``,
    ``ldl_factor``, ``ldl_solve``, ``qr``, ``eigh``, ``eigvalsh``, ``svd``, ``svdvals``, ``eig``, ``eigvals``
    and ``matrix_exp``, and whatever calls these, on the CPU and on CUDA devices. Only the innermost kernels
    are replaced, so derivatives, ``vmap``, ``torch.compile``, streams and errors stay PyTorch's. Calls that
    PyTorch computes faster, and on the CPU those that fail, are handed on to PyTorch's kernels.

    Raises
    ------
    RuntimeError
        If there is no PyTorch, or it is older than 2.10, or lacks a function that this needs.

    See Also
    --------
    patched, unpatch_torch, patch_report, patch_numpy

    Notes
    -----
    What is patched and what differs are on the page "NumPy and PyTorch themselves, faster".

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> smallmm.patch_torch()  # doctest: +SKIP
    >>> a = torch.ones(1000, 3, 3) + torch.eye(3)  # doctest: +SKIP
    >>> x = torch.linalg.inv(a)  # doctest: +SKIP
    >>> smallmm.unpatch_torch()
    """
    _pytorch.patch("patch_torch")


def unpatch_torch() -> None:
    """Have PyTorch compute everything again; a context of `patched` that has not ended delays that.

    The kernels stay registered and hand on all calls, which takes them some tenths of a microsecond. A
    PyTorch that is not patched stays as it is.
    """
    _pytorch.unpatch("unpatch_torch")


@contextmanager
def patched(*libraries: Literal["numpy", "torch"]) -> Iterator[None]:
    """Context in which these libraries are patched, for all threads of the process.

    Parameters
    ----------
    *libraries : {"numpy", "torch"}
        See `patch_numpy` and `patch_torch`. None given: NumPy, and PyTorch if the program has imported it.

    Examples
    --------
    >>> with smallmm.patched("numpy"):
    ...     x = np.linalg.det(np.ones((1000, 3, 3)))
    >>> smallmm.is_patched()
    False
    """
    check_libraries("patched", libraries)
    with ExitStack() as contexts:
        for name in libraries or [name for name in LIBRARIES if name in sys.modules]:
            contexts.enter_context(LIBRARIES[name].patched())
        yield


def check_libraries(op: str, names: tuple[Any, ...]) -> None:
    for name in names:
        if not isinstance(name, str) or name not in LIBRARIES:
            known = " or ".join(map(repr, LIBRARIES))
            raise ValueError(f"{op}: libraries has {shown(name)}; expected {known}")


class PatchCount(NamedTuple):
    """Calls of a function on matrices of one order that ended in one way: see `patch_report`."""

    function: str
    order: int
    outcome: str
    calls: int
    matrices: int


@dataclass(frozen=True)
class PatchReport:
    """What `patch_report` counted: ``rows`` of `PatchCount`. Printed, it is a table."""

    rows: tuple[PatchCount, ...]

    @property
    def served(self) -> int:
        """Matrices that smallmm computed."""
        return sum(row.matrices for row in self.rows if row.outcome == "served")

    @property
    def handed_on(self) -> int:
        """Matrices that NumPy or PyTorch computed, for whatever reason."""
        return sum(row.matrices for row in self.rows) - self.served

    def __str__(self) -> str:
        of_torch = [row.function.startswith("aten.") for row in self.rows]
        titles = [_pytorch.title] * any(of_torch)
        if not all(of_torch) or not titles:
            titles.insert(0, _numpy.title)
        head = (
            f"smallmm served {self.served} matrices and handed {self.handed_on} on to {' and '.join(titles)}"
        )
        if not self.rows:
            return head
        outcome, why = zip(*(row.outcome.partition(": ")[::2] for row in self.rows), strict=True)
        names = "function", "order", "outcome", "calls", "matrices"
        cells = [
            (row.function, str(row.order) if row.order else "other", what, str(row.calls), str(row.matrices))
            for row, what in zip(self.rows, outcome, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if i in (0, 2) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in (names, *cells)
        ]
        reasons = dict.fromkeys(f"{x}: {y}" for x, y in zip(outcome, why, strict=True) if y)
        return "\n".join([head, "", *lines, *([""] if reasons else []), *reasons])


def patch_report() -> PatchReport:
    """Count what patched functions did since NumPy, or PyTorch, was last patched.

    Returns
    -------
    PatchReport
        Its ``rows`` say how many calls, and matrices, of a function and an order (the greatest of the core
        dimensions; 0: above 128, or one is empty) were served by smallmm, or handed on and why. A function
        has the name that it has within: ``np.linalg.cholesky`` is ``cholesky_lo``, ``torch.linalg.cholesky``
        is ``aten.linalg_cholesky_ex``.

    Examples
    --------
    >>> with smallmm.patched("numpy"):
    ...     x = np.linalg.inv(np.ones((1000, 3, 3)) + np.eye(3))
    >>> sum(row.matrices for row in smallmm.patch_report().rows if row.function == "inv")
    1000
    """
    return PatchReport(tuple(PatchCount(*row) for row in _core.loop_counts()))


def load_ipython_extension(_shell: Any) -> None:
    """What ``%load_ext smallmm`` calls."""
    patch_numpy()


def unload_ipython_extension(_shell: Any) -> None:
    """What ``%unload_ext smallmm`` calls."""
    unpatch_numpy()

"""NumPy made fast on stacks: loops of smallmm (csrc/python/patch.c), put into its ufuncs or taken out."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._errors import shown

LIBRARIES = ("numpy",)

_lock = threading.RLock()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)  # so that a child does not wait for a thread that it does not have
_contexts = 0  # that keep NumPy patched
_asked = False  # by patch_numpy, which no context undoes


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
    return sum(calls for ufunc, _, _, calls, _ in _core.loop_counts() if ufunc == name)


def _refuse_where_others_are_in_the_way(op: str, ufuncs: dict[str, np.ufunc]) -> None:
    names = [name for name, ufunc in ufuncs.items() if _core.loops_in(name, ufunc)[1]]
    if names:
        raise RuntimeError(
            f"{op}: another library has exchanged the loops of {', '.join(names)} after smallmm did; "
            "undo that first. Nothing was changed"
        )


def _put_in(op: str) -> None:
    ufuncs = _ufuncs()
    _refuse_where_others_are_in_the_way(op, ufuncs)
    if is_patched():
        return
    try:
        loops = {name: _core.exchange_loops(name, ufunc, True) for name, ufunc in ufuncs.items()}
        with np.errstate(all="ignore"):
            deaf = [name for name, count in loops.items() if not _are_loops_called(name, ufuncs[name], count)]
        if deaf or not any(loops.values()):
            raise RuntimeError(
                f"{op}: NumPy {np.__version__} ignores exchanged loops of {', '.join(deaf) or 'all ufuncs'}; "
                "NumPy was left unpatched"
            )
    except BaseException:
        _take_out(op)
        raise
    _core.clear_loop_counts()


def _take_out(op: str) -> None:
    ufuncs = _ufuncs()
    _refuse_where_others_are_in_the_way(op, ufuncs)
    for name, ufunc in ufuncs.items():
        _core.exchange_loops(name, ufunc, False)


def is_patched() -> bool:
    """Whether NumPy's functions are computed by smallmm where that is faster: see `patch_numpy`."""
    return any(_core.loops_in(name, ufunc)[0] for name, ufunc in _ufuncs().items())


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
    other ways to patch, are on the page "NumPy itself, faster".

    Examples
    --------
    >>> smallmm.patch_numpy()
    >>> a = np.ones((1000, 3, 3)) + np.eye(3)
    >>> x = np.linalg.inv(a)  # by smallmm
    >>> smallmm.unpatch_numpy()
    """
    global _asked
    with _lock:
        _put_in("patch_numpy")
        _asked = True


def unpatch_numpy() -> None:
    """Give NumPy its own loops back; a context of `patched` that has not ended keeps them away until it does.

    Threads that are in a loop of smallmm finish it. A NumPy that is not patched stays as it is.
    """
    global _asked
    with _lock:
        if not _contexts:
            _take_out("unpatch_numpy")
        _asked = False


@contextmanager
def patched(*libraries: str) -> Iterator[None]:
    """Context in which these libraries are patched, for all threads of the process.

    Parameters
    ----------
    *libraries : {"numpy"}
        See `patch_numpy`. None given: all that are known.

    Examples
    --------
    >>> with smallmm.patched("numpy"):
    ...     x = np.linalg.det(np.ones((1000, 3, 3)))
    >>> smallmm.is_patched()
    False
    """
    global _contexts
    check_libraries("patched", libraries)
    with _lock:
        _put_in("patched")
        _contexts += 1
    try:
        yield
    finally:
        with _lock:
            _contexts -= 1
            if not (_contexts or _asked):
                _take_out("patched")


def check_libraries(op: str, names: tuple[Any, ...]) -> None:
    for name in names:
        if name not in LIBRARIES:
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
        """Matrices that NumPy computed, for whatever reason."""
        return sum(row.matrices for row in self.rows) - self.served

    def __str__(self) -> str:
        head = f"smallmm served {self.served} matrices and handed {self.handed_on} on to NumPy"
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
    """Count what patched functions did since NumPy was last patched.

    Returns
    -------
    PatchReport
        Its ``rows`` say how many calls, and matrices, of a ufunc and an order (the greatest of the core
        dimensions; 0: above 32, or one is empty) were served by smallmm, or handed on to NumPy and why. A
        ufunc has the name that NumPy gives it within: ``np.linalg.cholesky`` is ``cholesky_lo``.

    Examples
    --------
    >>> with smallmm.patched("numpy"):
    ...     x = np.linalg.inv(np.ones((1000, 3, 3)) + np.eye(3))
    >>> smallmm.patch_report().served
    1000
    """
    return PatchReport(tuple(PatchCount(*row) for row in _core.loop_counts()))


def load_ipython_extension(_shell: Any) -> None:
    """What ``%load_ext smallmm`` calls."""
    patch_numpy()


def unload_ipython_extension(_shell: Any) -> None:
    """What ``%unload_ext smallmm`` calls."""
    unpatch_numpy()

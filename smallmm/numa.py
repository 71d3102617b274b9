"""Where arrays lie on machines of non-uniform memory access, such as those of two sockets.

Nothing here needs to be called: each node computes a part of the matrices of a large call, that which lies in
its own memory, and writes the results there. What can be chosen is where the operands lie.
"""

from __future__ import annotations

import errno
import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._base.errors import shown
from ._base.options import integer
from ._calls.arrays import as_numpy

__all__ = ["empty", "place", "where"]

_SAMPLES = 4096  # pages that `where` looks at
_STEP = 1 << 16  # pages of a system call


class _Node(NamedTuple):
    """A node of this machine."""

    number: int
    cpus: tuple[int, ...]  # that this process may use
    has_memory: bool


def _known_nodes() -> tuple[str | None, int, list[_Node]]:
    """Why nodes do not matter ("": there is one; None: they do), the number of the one of this thread, all of
    them."""
    why, here, rows = _core.numa_nodes()
    return why, here, [_Node(number, tuple(cpus), has_memory) for number, cpus, has_memory in rows]


def empty(
    shape: int | tuple[int, ...], dtype: Any = np.float64, placement: str | int = "split"
) -> np.ndarray:
    """Array without defined values, whose memory comes from chosen nodes.

    Parameters
    ----------
    shape : int or tuple of ints
    dtype : dtype, optional
        Of numbers: no Python objects.
    placement : {"split", "interleave", "local"} or int, optional
        ``"split"``: each node gets one stretch, as long as its number of CPUs demands: that which its threads
        work on. ``"interleave"``: the pages go to all nodes in turn. ``"local"``: to the node of the calling
        thread. A number: to that node.

    Returns
    -------
    array of NumPy
        Its memory is returned to the system with the array.

    Raises
    ------
    ValueError
        There is no such placement or node, or the shape is negative.
    TypeError
        The dtype has Python objects, or the shape is not of integers.
    MemoryError
        There is not enough memory.

    Notes
    -----
    Memory is placed by whole pages (4 KB, as a rule); of two nodes that share a page it is the first one's.
    Where a node has none left, others help. Where there is one node or no libnuma, or where the system
    refuses to place memory, as in many containers, the array has ordinary memory, and `where` gives None.
    Takes time when the array is first written.

    Examples
    --------
    >>> a = smallmm.numa.empty((1000, 4, 4), np.float32)
    >>> a[...] = np.eye(4)
    >>> smallmm.det(a).shape
    (1000,)
    """
    import mmap  # here: seldom needed

    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"numa.empty: dtype is {dtype}; expected one of numbers")
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    sizes = tuple(integer("numa.empty", "shape", size, bits=62) for size in sizes)
    if min(sizes, default=0) < 0:
        raise ValueError(f"numa.empty: shape is {shown(shape)}; expected no negative size")
    size = math.prod(sizes) * dtype.itemsize
    try:
        memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        raise MemoryError(f"numa.empty: no memory for {size} bytes") from None
    for first, end, numbers in _runs("empty", placement, 0, size):
        if end > first:
            first, end = first * mmap.PAGESIZE, min(end * mmap.PAGESIZE, size)
            error = _core.numa_bind(memory, first, end, len(numbers) > 1, np.array(numbers, np.int32))
            if error == errno.ENOMEM:
                raise MemoryError(f"numa.empty: no memory to place {size} bytes")
    return np.ndarray(sizes, dtype, memory)


def place(a: Any, placement: str | int) -> None:
    """Move the memory of an array to chosen nodes.

    Parameters
    ----------
    a : array
        Of NumPy, or of another library on the host.
    placement : {"split", "interleave", "local"} or int
        As in `empty`.

    Raises
    ------
    ValueError
        There is no such placement or node.
    TypeError
        This is no array, or one on a device.
    MemoryError
        A node has not enough memory.

    Notes
    -----
    Pages are moved as a whole, with what else lies in the first and the last one and between the array's
    elements. Pages that were never written stay without a node until they are. Pages that the system does
    not move stay where they are. Where there is one node or no libnuma, or where the system refuses
    altogether, nothing happens. Takes time in proportion to the pages that move: each is copied.

    Examples
    --------
    >>> smallmm.numa.place(np.ones((1000, 4, 4)), "interleave")
    """
    low, high = _range("place", a)
    runs = _runs("place", placement, low, high)
    nodes = np.concatenate([np.resize(np.array(its, np.int32), end - first) for first, end, its in runs])
    pages = _pages(low, high)
    for first in range(0, len(pages), _STEP):
        some = slice(first, first + _STEP)
        status = np.zeros(len(pages[some]), np.int32)
        error = _core.numa_move(pages[some], nodes[some], status)
        if error == errno.ENOMEM or (status == -errno.ENOMEM).any():
            raise MemoryError("numa.place: no memory to move the array")
        if error:
            return


def where(a: Any) -> dict[int, float] | None:
    """On which nodes the memory of an array lies.

    Parameters
    ----------
    a : array
        Of NumPy, or of another library on the host.

    Returns
    -------
    dict or None
        The fraction of its pages on each node that has some. What is missing to 1 was never written, and lies
        nowhere. None: the system does not say, or ``SMALLMM_NUMA=0``.

    Raises
    ------
    TypeError
        This is no array, or one on a device.

    Notes
    -----
    Looks at 4096 pages at most, at random places.

    Examples
    --------
    >>> smallmm.numa.where(np.ones((1000, 4, 4)))  # doctest: +SKIP
    {0: 1.0}
    """
    pages = _pages(*_range("where", a))
    if len(pages) > _SAMPLES:
        pages = np.random.default_rng(0).choice(pages, _SAMPLES, replace=False)
    status = np.empty(len(pages), np.int32)
    if _core.numa_move(pages, None, status):
        return None
    found, counts = np.unique(status[status >= 0], return_counts=True)
    return dict(zip(found.tolist(), (counts / len(pages)).tolist(), strict=True))


def _range(op: str, a: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of that behind its last."""
    from ._libraries import on_device

    if on_device(a) or not (hasattr(a, "__array_interface__") or hasattr(a, "__dlpack__")):
        raise TypeError(f"numa.{op}: a is {shown(a)}; expected an array on the host")
    x = as_numpy(f"numa.{op}", "a", a)
    return np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)


def _pages(low: int, high: int) -> np.ndarray:
    """The addresses of the pages that these bytes lie in."""
    from mmap import PAGESIZE

    return np.arange(low // PAGESIZE * PAGESIZE, high, PAGESIZE, dtype=np.uintp)


def _runs(op: str, placement: Any, low: int, high: int) -> list[tuple[int, int, list[int]]]:
    """Runs of `_pages`: the first, the one behind the last, and the nodes that they go to in turn. ValueError
    if there is no such placement or node."""
    from mmap import PAGESIZE

    _, here, nodes = _known_nodes()
    nodes = [node for node in nodes if node.has_memory] or [_Node(here, (), True)]
    numbers = [node.number for node in nodes]
    pages = -(-high // PAGESIZE) - low // PAGESIZE
    word = placement if isinstance(placement, str) else ""
    if word == "interleave":
        return [(0, pages, numbers)]
    if word == "split":
        ends = np.cumsum([len(node.cpus) for node in nodes])
        ends = ends if ends[-1] else np.arange(1, len(nodes) + 1)
        ends = np.ceil((low % PAGESIZE + (high - low) * (ends / ends[-1])) / PAGESIZE).astype(int).tolist()
        return [(*run, [number]) for *run, number in zip([0, *ends], ends, numbers, strict=False)]
    if word == "local":
        placement = here if here in numbers else numbers[0]
    if not isinstance(placement, Integral) or isinstance(placement, bool) or placement not in numbers:
        raise ValueError(
            f"numa.{op}: placement is {shown(placement)}; expected 'split', 'interleave', 'local' or the "
            f"number of a node with memory, of which there are {len(nodes)}: {', '.join(map(str, numbers))}"
        )
    return [(0, pages, [int(placement)])]

"""How a call would run."""

import re
from collections.abc import Callable
from contextlib import suppress
from numbers import Number
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base import lapack
from .._base.catalog import COMPOSITIONS, name_of, public
from .._base.errors import LinAlgError
from .._base.hooks import current, offloaded
from .._base.later import later
from .._calls.arrays import as_numpy
from .._libraries import library_of, on_device
from .structured import found_in

_OTHERS = ("conv2d",)  # which calls no gufunc, and which the core explains, too


class _Met(Exception):
    """A function calls one that consists of steps."""

    def __init__(self, explain: Callable[[], Any]) -> None:
        super().__init__()
        self.explain = explain


class _Explaining:
    """The settings of a thread whose calls are explained: none goes through a device."""

    why = ""

    def call(self, *arguments: Any) -> Any:
        return NotImplemented

    program = explain = call

    def meets(self, explain: Callable[[], Any]) -> None:
        raise _Met(explain)


class Explanation(NamedTuple):
    """How a call would run. `str` gives it in words."""

    op: str
    kernel: str | None  # "lapack ...", "torch's own": beyond our kernels; None: nothing to compute
    computed: str | None  # the dtype that float16 and bfloat16 are converted to; None: the operands' own
    isa: str  # or the architecture of a GPU, sm_90
    packed: tuple[str, ...]  # operands copied tile by tile into a form that the kernel reads
    staged: bool  # the output passes through a buffer
    nontemporal: bool  # the output is written around the caches
    swapped: bool  # computed as C^T = B^T A^T
    threads: int  # on a GPU: of a block
    parts: int  # that threads share of each matrix, where there are few; on a GPU: 1
    rows: int  # or those of a long tridiagonal system, in each of so many rows; 0 of all others
    group: int  # matrices that share a buffer; on a GPU: of a block
    calls: int  # runs of equally spaced matrices that the batch dimensions fall into
    matrices: int
    flops: float
    bytes: float  # compulsory memory traffic
    source: str | None  # of a GPU's kernel: "tuned (user)", which `tune` found; "tuned"; "model"; "baseline"
    tuned_on: str | None  # the device whose tuned row it is: this one, or the nearest that has one
    found: tuple[tuple[str, int], ...] = ()  # of assume_a="auto": structures, and how many matrices have them
    nodes: tuple[tuple[int, float], ...] = ()  # of several: their numbers, and their shares of the matrices

    def _repr_html_(self) -> str:
        return str(later("_base.tables").html_table(self))

    @property
    def strategy(self) -> str | None:
        """The idea that the kernel follows, as ARCHITECTURE.md names it."""
        if self.kernel is None or not self.kernel.startswith("smm_"):
            return None
        idea = re.sub(r"smm_(\w+?)(_\d+)?_[cf]\d+_\w+", r"\1", self.kernel)
        return idea.removeprefix("matmul_") if idea.startswith("matmul_") else idea.rpartition("_")[2]

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in flops per byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __str__(self) -> str:
        if self.kernel is None:
            return f"{self.op}: nothing to compute"
        how = [f"packs {' and '.join(self.packed)}"] if self.packed else []
        of_rows = f" of {self.rows} rows" if self.rows else ""
        how += [f"each matrix in {self.parts} parts{of_rows}"] if self.parts > 1 else []
        how += ["computed transposed"] if self.swapped else []
        how += ["output staged"] if self.staged else []
        how += ["output written around the caches"] if self.nontemporal else []
        how += [f"computed in {self.computed}, and rounded once"] if self.computed else []
        how += [f"{self.source} on {self.tuned_on}"] if self.tuned_on else []
        how += ["the kernel's baseline"] if self.source == "baseline" else []
        how += ["the fastest by a model of the kernel's time"] if self.source == "model" else []
        shares = ", ".join(f"{share:.0%} on node {node}" for node, share in self.nodes)
        how += [f"matrices: {shares}"] if shares else []
        found = [f"  found: {', '.join(f'{many} {word}' for word, many in self.found)}"] if self.found else []
        return "\n".join(
            [
                f"{self.op}: {self.matrices} matrices by {self.kernel} on {self.threads} thread(s)",
                *found,
                f"  {'; '.join(how) or 'operands used in place'}",
                f"  {self.flops:.4g} flops, {self.bytes:.4g} bytes, {self.intensity:.3g} flops per byte",
            ]
        )


def explain(op: str | Callable[..., Any], /, *arrays: Any, out: Any = None, **kwargs: Any) -> Explanation:
    """How a call would run: which kernel, on what, with which parameters.

    Parameters
    ----------
    op : str or function
        ``"solve"`` or ``smallmm.solve``, or another function of arrays. Of a function of NumPy, such as
        ``np.linalg.solve``: who computes the call while NumPy is patched.
    *arrays : array_like
        The operands, in tuples where the function takes tuples. Their shapes, dtypes, strides and alignment
        matter, their values do not, unless the function is asked to look for structure.
    out : array or tuple of arrays, optional
        The output, which is not written to.
    **kwargs
        The function's own keywords, such as ``alpha`` or ``mode``.

    Returns
    -------
    Explanation
        A named tuple; print it for a summary. A notebook shows it as a table. Of functions that consist of
        steps, as norms and fused functions: `FusedExplanation`; of calls that are offloaded:
        `smallmm.cuda.OffloadExplanation`; of functions of NumPy: `PatchExplanation`.

    Raises
    ------
    ValueError, TypeError
        There is no such function; or the call itself would raise it.

    Notes
    -----
    Nothing is computed. The plan is that of the first run of evenly spaced matrices; matrices, flops and
    bytes are those of all. With ``assume_a="auto"`` the plan is for the structure that most matrices have.

    Norms and other functions of several steps run one step after the other until such calls were met some
    times, and then in one pass, which is what is explained.

    Examples
    --------
    >>> smallmm.explain("batched_matmul", np.ones((1000, 4, 4)), np.ones((4, 4))).matrices
    1000
    """
    if hasattr(op, "explain"):  # a fused function, or `offload`
        return op.explain(*arrays, out=out, **kwargs)
    if _is_numpys(op):
        from .._patching.explain_patched import explain_patched  # which few programs need

        return explain_patched(op, arrays, kwargs if out is None else kwargs | {"out": out})  # type: ignore[return-value, arg-type]
    if (settings := current()) is not None:
        return settings.explain(op, arrays, out, kwargs)
    name = op if isinstance(op, str) else getattr(op, "__name__", "")
    if name in later("").__all__ and hasattr(public(name), "explain"):  # imported, it is in the catalogue
        return public(name).explain(*arrays, out=out, **kwargs)  # type: ignore[attr-defined]
    name = name_of("explain", "op", op, (*_OTHERS, *COMPOSITIONS))
    function = public(name)
    operands = _each(lambda x: as_numpy(name, "an operand", x) if _is_host_array(x) else x, arrays)
    out = _each(lambda x: _scratch_like(as_numpy(name, "out", x)) if _is_host_array(x) else x, out)
    given = {} if out is None else {"out": out}
    looks = kwargs.get("assume_a", "general") in (None, "auto")
    found = found_in(name, operands[0] if operands else kwargs["a"]) if looks else ()
    if found:
        kwargs |= {"assume_a": max(found, key=itemgetter(1))[0], "lower": True}
    if not found:  # which a list of steps would not show
        try:  # some options make a composition of a function that has kernels
            with offloaded(_Explaining()):
                _core.explain(_unchecked, function, *operands, **given, **kwargs)
        except _Met as met:
            steps = met.explain()
            if steps is not None:
                return steps._replace(name=name)
    plan = _core.explain(_unchecked, function, *operands, **given, **kwargs)
    packed = tuple(x for x in "ab" if plan.pop(f"pack_{x}"))
    architecture = re.search(r"_sm(\d+)$", plan["kernel"] or "")
    plan["isa"] = f"sm_{architecture[1]}" if architecture else _core.isa()
    row = plan.pop("operation"), plan.pop("form")
    if plan["kernel"] is None and plan["matrices"]:
        gufunc = next(gufunc for gufunc, its in _core.gufunc_rows.items() if its == row)
        plan["kernel"] = f"lapack {lapack.FALLBACKS[gufunc].routine}"
        plan.update(threads=1, nontemporal=False)
    there = next((x for x in operands if on_device(x)), None)
    if there is not None and not plan["calls"] and 0 not in there.shape:
        plan["kernel"] = f"{library_of(there).name}'s own"
    if plan["computed"] is not None:
        plan["computed"] = f"float{plan['computed'].removeprefix('f')}"
    return Explanation(op=name, packed=packed, staged=plan.pop("stage_c"), found=found, **plan)


def _is_numpys(op: Any) -> bool:
    """Whether it is a function of NumPy's own."""
    if isinstance(op, np.ufunc):
        return getattr(_core, op.__name__, None) is not op
    return callable(op) and (getattr(op, "__module__", None) or "").partition(".")[0] == "numpy"


def _is_host_array(x: Any) -> bool:
    """Neither an array on a device, nor a group, nor an option ("T", "r"), nor None for no output."""
    is_option = x is None or isinstance(x, str | Number)
    return not (is_option or on_device(x) or hasattr(x, "take_call"))


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    """function(x), of each member of tuples, and of lists of arrays."""
    several = isinstance(x, tuple) or (isinstance(x, list) and all(hasattr(y, "ndim") for y in x))
    return tuple(_each(function, y) for y in x) if several else function(x)


def _unchecked(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call a function whose outputs are not computed, and whose checks therefore mean nothing."""
    with suppress(LinAlgError):
        function(*args, **kwargs)


def _scratch_like(x: np.ndarray) -> np.ndarray:
    """An array with the shape, dtype and strides of x and memory of its own."""
    if x.dtype.hasobject:  # what lies there must be references; no function computes such elements
        return np.empty_like(x)
    low, high = np.lib.array_utils.byte_bounds(x)
    return np.ndarray(x.shape, x.dtype, np.empty(high - low, np.uint8), x.ctypes.data - low, x.strides)

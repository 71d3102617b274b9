"""Who computes a call of NumPy's while it is patched: what `explain` says of NumPy's own functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._base.later import later
from .patch import is_patched

_DTYPES = {"f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}


class PatchedLoop(NamedTuple):
    """Calls of the loop of one ufunc that are alike, within a call of a function of NumPy."""

    ufunc: str
    dtype: str
    order: int  # the greatest of the core dimensions; 0: above 128, or one is empty
    calls: int  # one for each run of evenly spaced matrices
    matrices: int  # of all these calls
    fewest: int | None  # in a call for which smallmm computes it; None: it never does
    outcome: str  # as of `patch_report`: "served", or the reason why NumPy computes it

    def __str__(self) -> str:
        what = f"{self.ufunc} of {self.matrices} {'matrix' if self.matrices == 1 else 'matrices'}"
        what += f" of order {self.order}" if self.order else ""
        calls = f" in {self.calls} calls" if self.calls > 1 else ""
        least = f"; smallmm serves calls of {self.fewest} or more" if self.fewest is not None else ""
        by = "by smallmm" if self.outcome == "served" else f"by NumPy ({self.outcome})"
        return f"{what} in {self.dtype}{calls}: {by}{least}"


class PatchExplanation(NamedTuple):
    """Who computes a call of a function of NumPy. `str` gives it in words."""

    function: str
    patched: bool  # whether NumPy is; if not, there are no loops
    loops: tuple[PatchedLoop, ...]  # those that the call enters

    def _repr_html_(self) -> str:
        return str(later("_base.tables").html_table(self))

    @property
    def by(self) -> str:
        """``"smallmm"``, ``"NumPy"``, or ``"both"`` if they share the loops."""
        served = {loop.outcome == "served" for loop in self.loops} or {False}
        return "both" if len(served) > 1 else "smallmm" if True in served else "NumPy"

    @property
    def why(self) -> str:
        """The reason."""
        if not self.patched:
            return "not patched"
        if not self.loops:
            return "no patched loop: another function, type or library"
        return "; ".join(dict.fromkeys(loop.outcome for loop in self.loops))

    def __str__(self) -> str:
        if not self.loops:
            return f"{self.function}: by NumPy ({self.why})"
        return "\n".join([f"{self.function}: by {self.by}", *(f"  {loop}" for loop in self.loops)])


def explain_patched(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> PatchExplanation:
    """The call is made with loops that compute nothing, so only what is not patched is computed."""
    name = function.__name__
    if not is_patched():
        return PatchExplanation(name, False, ())
    with np.errstate(all="ignore"):
        loops = _core.explain_loops(function, *args, **kwargs)
    return PatchExplanation(
        name, True, tuple(PatchedLoop(*loop)._replace(dtype=_DTYPES[loop[1]]) for loop in loops)
    )

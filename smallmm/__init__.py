"""Multiply, factor and solve millions of tiny matrices held in stacked arrays, at the machine's limit.

>>> import numpy as np
>>> import smallmm
>>> a = np.ones((1_000_000, 3, 3))
>>> smallmm.batched_matmul(a, a.mT).shape
(1000000, 3, 3)
"""

# ruff: noqa: F401  # what is imported is public

from importlib import import_module as _import_module

try:
    from ._core import __version__
except (ValueError, ModuleNotFoundError) as why:
    from ._tools.startup import explained

    raise explained(why) from None

from . import cuda
from ._base.errors import LinAlgError
from ._derivatives import rules as _rules  # enters them
from ._functions.banded import (
    solve_banded,
    solve_banded_ex,
    solve_tridiagonal,
    solve_tridiagonal_ex,
    solveh_banded,
    solveh_banded_ex,
)
from ._functions.cholesky import (
    ChoFactorExResult,
    ChoFactorResult,
    CholeskyExResult,
    cho_factor,
    cho_factor_ex,
    cho_solve,
    cholesky,
    cholesky_ex,
)
from ._functions.contractions import cross, diagonal, matrix_transpose, multi_dot, outer, trace, vecdot
from ._functions.explain import Explanation, explain
from ._functions.ldl import LDLExResult, LDLResult, ldl_factor, ldl_factor_ex, ldl_solve
from ._functions.least_squares import (
    LstsqExResult,
    LstsqResult,
    QRRawResult,
    QRResult,
    lstsq,
    lstsq_ex,
    pinv,
    qr,
)
from ._functions.linsolve import LinsolveExpertResult, LinsolveExResult, linsolve, linsolve_ex
from ._functions.lu import (
    LUExResult,
    LUFactorsResult,
    LUResult,
    PermutedLUResult,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
)
from ._functions.matrix_functions import (
    MatrixFunctionExResult,
    expm,
    logm,
    logm_ex,
    matrix_power,
    matrix_power_ex,
    powm,
    powm_ex,
    sqrtm,
    sqrtm_ex,
)
from ._functions.mixed_least_squares import LstsqMixedExResult
from ._functions.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from ._functions.products import batched_matmul, matmul, matvec, vecmat
from ._functions.refinement import RefineResult, backward_error, lu_rcond, rcond, refine
from ._functions.spectra import (
    EigExResult,
    EighExResult,
    EighResult,
    EigResult,
    EigvalsExResult,
    EigvalshExResult,
    eig,
    eig_ex,
    eigh,
    eigh_ex,
    eigvals,
    eigvals_ex,
    eigvalsh,
    eigvalsh_ex,
)
from ._functions.svd import (
    PolarResult,
    SVDExResult,
    SVDResult,
    SVDvalsExResult,
    orthogonalize,
    polar,
    svd,
    svd_ex,
    svdvals,
    svdvals_ex,
)
from ._functions.systems import (
    InvExResult,
    SlogdetResult,
    SolveExResult,
    det,
    inv,
    inv_ex,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    solve_triangular_ex,
)
from ._programs.explanation import FusedExplanation, FusedStep
from ._tools.config import get_num_threads, set_num_threads, show_config, threads
from .cuda import CudaUnavailableError

# Imported when first asked for: they would add to every import.
_LATER = {
    "_tools.bench": ("bench",),
    "_functions.chains": ("congruence", "gaussian_logpdf", "mahalanobis"),
    "_recurrences.scans": ("ScanExResult", "ScanResult", "scan", "scan_ex"),
    "_recurrences.associative": ("associative_scan",),
    "_functions.contract": ("contract", "einsum"),
    "_functions.convolution": ("conv2d",),
    "_programs.failures": ("FailedStep", "FusedExResult"),
    "_programs.fuse": ("fuse",),
    "_calls.groups": ("Group",),
    "_patching.explain_patched": ("PatchExplanation", "PatchedLoop"),
    "_patching.patch": (
        "PatchCount",
        "PatchReport",
        "is_patched",
        "load_ipython_extension",
        "patch_numpy",
        "patch_report",
        "patch_torch",
        "patched",
        "unload_ipython_extension",
        "unpatch_numpy",
        "unpatch_torch",
    ),
    "_functions.tensors": (
        "kron_apply",
        "sum_factorized",
        "tensordot",
        "tensorinv",
        "tensorinv_ex",
        "tensorsolve",
        "tensorsolve_ex",
    ),
    "_recurrences.filters": ("KalmanFilterResult", "RTSSmootherResult", "kalman_filter", "rts_smoother"),
    "_recurrences.hmm": ("HMMForwardResult", "HMMViterbiResult", "hmm_forward", "hmm_viterbi"),
    "_recurrences.kalman": ("KalmanStepResult", "kalman_step"),
    "_recurrences.linear": ("cumulative_matmul", "linear_recurrence"),
    "_recurrences.ode": ("rk4",),
    "_schur.schur": ("SchurExResult", "SchurResult", "schur", "schur_ex"),
    "_statistics.moments": ("corr", "cov"),
    "_statistics.regression": ("RidgeResult", "ridge"),
    "_statistics.whitener": ("Whitener",),
    "_statistics.whitening": ("WhiteningResult", "whiten", "whitening"),
    "_statistics.windows": ("sliding",),
    "_tools.tune": ("TuneResult", "tune"),
    "numa": (),
    "testing": (),
}

# What is imported above or later is public, but for what IPython alone looks for
__all__ = sorted(
    {"__version__", *(name for name in globals() if not name.startswith("_"))}
    | {name for module, names in _LATER.items() for name in names or (module,)}
    - {"load_ipython_extension", "unload_ipython_extension"}
)


def _publish(name: str, value: object) -> None:
    """Types and functions are known by their public names, in tracebacks and where they are pickled."""
    if callable(value):
        value.__module__ = "smallmm"
    globals()[name] = value


for _name in set(__all__) & globals().keys():
    _publish(_name, globals()[_name])
del _name


def __getattr__(name: str) -> object:
    module = next((module for module, names in _LATER.items() if name in (module, *names)), None)
    if module:
        loaded = _import_module(f".{module}", __name__)
        for later in _LATER[module]:
            _publish(later, getattr(loaded, later))
        return globals()[name]
    advice = "" if name.startswith("_") else _import_module("._base.names", __name__).advice(name, __all__)
    raise AttributeError(f"module 'smallmm' has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return [*__all__]

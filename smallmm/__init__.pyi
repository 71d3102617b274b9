"""What type checkers see of smallmm. Written by tools/stub.py; do not edit."""

from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, Unpack, overload

from numpy import ndarray
from numpy.typing import ArrayLike
from typing_extensions import TypeVar

from . import cuda, numa, testing
from ._base.errors import LinAlgError
from ._calls.groups import Group
from ._functions.explain import Explanation, explain
from ._functions.matrix_functions import Assumption
from ._functions.products import Precision, UFuncKeywords
from ._functions.structured import StructureWord
from ._patching.explain_patched import PatchedLoop, PatchExplanation
from ._patching.patch import (
    PatchCount,
    PatchReport,
    is_patched,
    patch_numpy,
    patch_report,
    patch_torch,
    patched,
    unpatch_numpy,
    unpatch_torch,
)
from ._programs.chosen import Chosen
from ._programs.explanation import FusedExplanation, FusedStep
from ._programs.failures import FailedStep, FusedExResult
from ._programs.fuse import fuse
from ._programs.fused import Fused
from ._recurrences.associative import associative_scan
from ._recurrences.filters import kalman_filter, rts_smoother
from ._recurrences.hmm import hmm_forward, hmm_viterbi
from ._recurrences.linear import cumulative_matmul, linear_recurrence
from ._recurrences.ode import rk4
from ._recurrences.scans import scan, scan_ex
from ._statistics.whitener import Whitener
from ._tools.bench import bench
from ._tools.config import get_num_threads, set_num_threads, show_config, threads
from ._tools.tune import TuneResult, tune
from .cuda import CudaUnavailableError

__all__ = [
    "ChoFactorExResult",
    "ChoFactorResult",
    "CholeskyExResult",
    "CudaUnavailableError",
    "EigExResult",
    "EigResult",
    "EighExResult",
    "EighResult",
    "EigvalsExResult",
    "EigvalshExResult",
    "Explanation",
    "FailedStep",
    "FusedExResult",
    "FusedExplanation",
    "FusedStep",
    "Group",
    "HMMForwardResult",
    "HMMViterbiResult",
    "InvExResult",
    "KalmanFilterResult",
    "KalmanStepResult",
    "LDLExResult",
    "LDLResult",
    "LUExResult",
    "LUFactorsResult",
    "LUResult",
    "LinAlgError",
    "LinsolveExResult",
    "LinsolveExpertResult",
    "LstsqExResult",
    "LstsqMixedExResult",
    "LstsqResult",
    "MatrixFunctionExResult",
    "PatchCount",
    "PatchExplanation",
    "PatchReport",
    "PatchedLoop",
    "PermutedLUResult",
    "PolarResult",
    "QRRawResult",
    "QRResult",
    "RTSSmootherResult",
    "RefineResult",
    "RidgeResult",
    "SVDExResult",
    "SVDResult",
    "SVDvalsExResult",
    "ScanExResult",
    "ScanResult",
    "SchurExResult",
    "SchurResult",
    "SlogdetResult",
    "SolveExResult",
    "TuneResult",
    "Whitener",
    "WhiteningResult",
    "__version__",
    "associative_scan",
    "backward_error",
    "batched_matmul",
    "bench",
    "cho_factor",
    "cho_factor_ex",
    "cho_solve",
    "cholesky",
    "cholesky_ex",
    "cond",
    "congruence",
    "contract",
    "conv2d",
    "corr",
    "cov",
    "cross",
    "cuda",
    "cumulative_matmul",
    "det",
    "diagonal",
    "eig",
    "eig_ex",
    "eigh",
    "eigh_ex",
    "eigvals",
    "eigvals_ex",
    "eigvalsh",
    "eigvalsh_ex",
    "einsum",
    "explain",
    "expm",
    "fuse",
    "gaussian_logpdf",
    "get_num_threads",
    "hmm_forward",
    "hmm_viterbi",
    "inv",
    "inv_ex",
    "is_patched",
    "kalman_filter",
    "kalman_step",
    "kron_apply",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "linear_recurrence",
    "linsolve",
    "linsolve_ex",
    "logm",
    "logm_ex",
    "lstsq",
    "lstsq_ex",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_rcond",
    "lu_solve",
    "mahalanobis",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_power_ex",
    "matrix_rank",
    "matrix_transpose",
    "matvec",
    "multi_dot",
    "norm",
    "numa",
    "orthogonalize",
    "outer",
    "patch_numpy",
    "patch_report",
    "patch_torch",
    "patched",
    "pinv",
    "polar",
    "powm",
    "powm_ex",
    "qr",
    "rcond",
    "refine",
    "ridge",
    "rk4",
    "rts_smoother",
    "scan",
    "scan_ex",
    "schur",
    "schur_ex",
    "set_num_threads",
    "show_config",
    "sliding",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_banded_ex",
    "solve_ex",
    "solve_triangular",
    "solve_triangular_ex",
    "solve_tridiagonal",
    "solve_tridiagonal_ex",
    "solveh_banded",
    "solveh_banded_ex",
    "sqrtm",
    "sqrtm_ex",
    "sum_factorized",
    "svd",
    "svd_ex",
    "svdvals",
    "svdvals_ex",
    "tensordot",
    "tensorinv",
    "tensorinv_ex",
    "tensorsolve",
    "tensorsolve_ex",
    "testing",
    "threads",
    "trace",
    "tune",
    "unpatch_numpy",
    "unpatch_torch",
    "vecdot",
    "vecmat",
    "vector_norm",
    "whiten",
    "whitening",
]

__version__: str

class _DLPackArray(Protocol):
    def __dlpack__(self) -> Any: ...

class _LazyArray(Protocol):
    @property
    def __array_function__(self) -> Any: ...

_OnHost = ndarray | Sequence[Any] | complex
_Array = TypeVar("_Array", bound=_DLPackArray | _LazyArray)
_AnyArray = ArrayLike | _DLPackArray | _LazyArray
_Result = TypeVar("_Result", default=Any)

class ChoFactorExResult(NamedTuple, Generic[_Result]):
    c: _Result
    lower: bool
    info: _Result

class ChoFactorResult(NamedTuple, Generic[_Result]):
    c: _Result
    lower: bool

class CholeskyExResult(NamedTuple, Generic[_Result]):
    L: _Result
    info: _Result

class EigExResult(NamedTuple, Generic[_Result]):
    eigenvalues: _Result
    eigenvectors: _Result
    info: _Result

class EigResult(NamedTuple, Generic[_Result]):
    eigenvalues: _Result
    eigenvectors: _Result

class EighExResult(NamedTuple, Generic[_Result]):
    eigenvalues: _Result
    eigenvectors: _Result
    info: _Result

class EighResult(NamedTuple, Generic[_Result]):
    eigenvalues: _Result
    eigenvectors: _Result

class EigvalsExResult(NamedTuple, Generic[_Result]):
    eigenvalues: _Result
    info: _Result

class EigvalshExResult(NamedTuple, Generic[_Result]):
    eigenvalues: _Result
    info: _Result

class HMMForwardResult(NamedTuple, Generic[_Result]):
    loglik: _Result
    log_filtered: _Result

class HMMViterbiResult(NamedTuple, Generic[_Result]):
    path: _Result
    log_probability: _Result

class InvExResult(NamedTuple, Generic[_Result]):
    inverse: _Result
    info: _Result

class KalmanFilterResult(NamedTuple, Generic[_Result]):
    x: _Result
    p: _Result
    loglik: _Result
    smoothed: RTSSmootherResult | None

class KalmanStepResult(NamedTuple, Generic[_Result]):
    x: _Result
    p: _Result

class LDLExResult(NamedTuple, Generic[_Result]):
    LD: _Result
    pivots: _Result
    info: _Result

class LDLResult(NamedTuple, Generic[_Result]):
    LD: _Result
    pivots: _Result

class LUExResult(NamedTuple, Generic[_Result]):
    LU: _Result
    pivots: _Result
    info: _Result

class LUFactorsResult(NamedTuple, Generic[_Result]):
    P: _Result
    L: _Result
    U: _Result

class LUResult(NamedTuple, Generic[_Result]):
    LU: _Result
    pivots: _Result

class LinsolveExResult(NamedTuple, Generic[_Result]):
    x: _Result
    info: _Result

class LinsolveExpertResult(NamedTuple, Generic[_Result]):
    x: _Result
    rcond: _Result
    info: _Result
    iterations: _Result

class LstsqExResult(NamedTuple, Generic[_Result]):
    x: _Result
    residual_norms: _Result
    rank: _Result
    info: _Result
    @property
    def solution(self) -> _Result: ...

class LstsqMixedExResult(NamedTuple, Generic[_Result]):
    x: _Result
    residual_norms: _Result
    rank: _Result
    info: _Result
    iterations: _Result
    @property
    def solution(self) -> _Result: ...

class LstsqResult(NamedTuple, Generic[_Result]):
    x: _Result
    residual_norms: _Result
    rank: _Result
    @property
    def solution(self) -> _Result: ...

class MatrixFunctionExResult(NamedTuple, Generic[_Result]):
    x: _Result
    info: _Result

class PermutedLUResult(NamedTuple, Generic[_Result]):
    PL: _Result
    U: _Result

class PolarResult(NamedTuple, Generic[_Result]):
    u: _Result
    p: _Result

class QRRawResult(NamedTuple, Generic[_Result]):
    h: _Result
    tau: _Result

class QRResult(NamedTuple, Generic[_Result]):
    Q: _Result
    R: _Result

class RTSSmootherResult(NamedTuple, Generic[_Result]):
    x: _Result
    p: _Result

class RefineResult(NamedTuple, Generic[_Result]):
    x: _Result
    ferr: _Result
    berr: _Result

class RidgeResult(NamedTuple, Generic[_Result]):
    x: _Result
    intercept: _Result

class SVDExResult(NamedTuple, Generic[_Result]):
    U: _Result
    S: _Result
    Vh: _Result
    info: _Result

class SVDResult(NamedTuple, Generic[_Result]):
    U: _Result
    S: _Result
    Vh: _Result

class SVDvalsExResult(NamedTuple, Generic[_Result]):
    S: _Result
    info: _Result

class ScanExResult(NamedTuple, Generic[_Result]):
    carry: _Result
    ys: _Result
    info: _Result
    time: _Result

class ScanResult(NamedTuple, Generic[_Result]):
    carry: _Result
    ys: _Result

class SchurExResult(NamedTuple, Generic[_Result]):
    T: _Result
    Z: _Result
    info: _Result

class SchurResult(NamedTuple, Generic[_Result]):
    T: _Result
    Z: _Result

class SlogdetResult(NamedTuple, Generic[_Result]):
    sign: _Result
    logabsdet: _Result

class SolveExResult(NamedTuple, Generic[_Result]):
    x: _Result
    info: _Result
    @property
    def result(self) -> _Result: ...

class WhiteningResult(NamedTuple, Generic[_Result]):
    mean: _Result
    matrix: _Result

@overload
def backward_error(
    a: _OnHost,
    x: _OnHost,
    b: _OnHost,
    kind: Literal["componentwise", "normwise"] = "componentwise",
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: ndarray | None = None,
) -> Any: ...
@overload
def backward_error(
    a: _Array,
    x: _Array | complex,
    b: _Array | complex,
    kind: Literal["componentwise", "normwise"] = "componentwise",
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: _Array | None = None,
) -> _Array: ...
@overload
def backward_error(
    a: Group,
    x: _AnyArray,
    b: _AnyArray,
    kind: Literal["componentwise", "normwise"] = "componentwise",
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: Any = None,
) -> Any: ...
@overload
def backward_error(
    a: _AnyArray,
    x: Group,
    b: _AnyArray,
    kind: Literal["componentwise", "normwise"] = "componentwise",
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: Any = None,
) -> Any: ...
@overload
def backward_error(
    a: ArrayLike,
    x: ArrayLike,
    b: ArrayLike,
    kind: Literal["componentwise", "normwise"] = "componentwise",
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: ndarray | None = None,
) -> Any: ...
@overload
def batched_matmul(
    a: _OnHost,
    b: _OnHost,
    out: ndarray | None = None,
    *,
    alpha: _OnHost = 1,
    beta: _OnHost = 0,
    precision: Precision = "fixed",
) -> ndarray: ...
@overload
def batched_matmul(
    a: _Array,
    b: _Array | complex,
    out: _Array | None = None,
    *,
    alpha: _Array | complex = 1,
    beta: _Array | complex = 0,
    precision: Precision = "fixed",
) -> _Array: ...
@overload
def batched_matmul(
    a: Group,
    b: _AnyArray,
    out: Group | None = None,
    *,
    alpha: _AnyArray = 1,
    beta: _AnyArray = 0,
    precision: Precision = "fixed",
) -> Group: ...
@overload
def batched_matmul(
    a: _AnyArray,
    b: Group,
    out: Group | None = None,
    *,
    alpha: _AnyArray = 1,
    beta: _AnyArray = 0,
    precision: Precision = "fixed",
) -> Group: ...
@overload
def batched_matmul(
    a: ArrayLike,
    b: ArrayLike,
    out: ndarray | None = None,
    *,
    alpha: ArrayLike = 1,
    beta: ArrayLike = 0,
    precision: Precision = "fixed",
) -> ndarray: ...
@overload
def cho_factor(
    a: _OnHost,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ChoFactorResult[ndarray]: ...
@overload
def cho_factor(
    a: _Array,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: _Array | None = None,
) -> ChoFactorResult[_Array]: ...
@overload
def cho_factor(
    a: Group,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: Group | None = None,
) -> ChoFactorResult[Group]: ...
@overload
def cho_factor(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ChoFactorResult[ndarray]: ...
@overload
def cho_factor_ex(
    a: _OnHost,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> ChoFactorExResult[ndarray]: ...
@overload
def cho_factor_ex(
    a: _Array,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> ChoFactorExResult[_Array]: ...
@overload
def cho_factor_ex(
    a: Group,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> ChoFactorExResult[Any]: ...
@overload
def cho_factor_ex(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> ChoFactorExResult[ndarray]: ...
@overload
def cho_solve(
    c_and_lower: tuple[_OnHost, bool],
    b: _OnHost,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def cho_solve(
    c_and_lower: tuple[_Array, bool],
    b: _Array | complex,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: _Array | None = None,
) -> _Array: ...
@overload
def cho_solve(
    c_and_lower: tuple[Group, bool],
    b: _AnyArray,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: Group | None = None,
) -> Group: ...
@overload
def cho_solve(
    c_and_lower: tuple[_AnyArray, bool],
    b: Group,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: Group | None = None,
) -> Group: ...
@overload
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def cholesky(
    a: _OnHost,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def cholesky(
    a: _Array,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def cholesky(
    a: Group,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    out: Group | None = None,
) -> Group: ...
@overload
def cholesky(
    a: ArrayLike,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def cholesky_ex(
    a: _OnHost,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> CholeskyExResult[ndarray]: ...
@overload
def cholesky_ex(
    a: _Array,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> CholeskyExResult[_Array]: ...
@overload
def cholesky_ex(
    a: Group,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> CholeskyExResult[Any]: ...
@overload
def cholesky_ex(
    a: ArrayLike,
    lower: bool | None = None,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> CholeskyExResult[ndarray]: ...
@overload
def cond(
    x: _OnHost, p: Literal["fro", "nuc"] | float | None = None, *, out: ndarray | None = None
) -> Any: ...
@overload
def cond(
    x: _Array, p: Literal["fro", "nuc"] | float | None = None, *, out: _Array | None = None
) -> _Array: ...
@overload
def cond(
    x: ArrayLike, p: Literal["fro", "nuc"] | float | None = None, *, out: ndarray | None = None
) -> Any: ...

class _congruence(Fused[..., Any]):
    @overload  # type: ignore[override]
    def __call__(self, a: _OnHost, x: _OnHost, *, out: ndarray | None = None) -> ndarray: ...
    @overload
    def __call__(self, a: _Array, x: _Array | complex, *, out: _Array | None = None) -> _Array: ...
    @overload
    def __call__(self, a: Group, x: _AnyArray, *, out: Group | None = None) -> Group: ...
    @overload
    def __call__(self, a: _AnyArray, x: Group, *, out: Group | None = None) -> Group: ...
    @overload
    def __call__(self, a: ArrayLike, x: ArrayLike, *, out: ndarray | None = None) -> ndarray: ...

congruence: _congruence

@overload
def contract(
    subscripts: str | _OnHost,
    /,
    *operands: _OnHost | Sequence[Any],
    path: Any = None,
    out: ndarray | None = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = True,
) -> Any: ...
@overload
def contract(
    subscripts: str | _Array,
    /,
    *operands: _Array | Sequence[Any],
    path: Any = None,
    out: _Array | None = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = True,
) -> _Array: ...
@overload
def contract(
    subscripts: str | ArrayLike,
    /,
    *operands: ArrayLike | Sequence[Any],
    path: Any = None,
    out: ndarray | None = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = True,
) -> Any: ...
@overload
def conv2d(
    x: _OnHost,
    w: _OnHost,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: Literal["NCHW", "NHWC", "CHWN"] = "NCHW",
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def conv2d(
    x: _Array,
    w: _Array | complex,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: Literal["NCHW", "NHWC", "CHWN"] = "NCHW",
    out: _Array | None = None,
) -> _Array: ...
@overload
def conv2d(
    x: ArrayLike,
    w: ArrayLike,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: Literal["NCHW", "NHWC", "CHWN"] = "NCHW",
    out: ndarray | None = None,
) -> ndarray: ...

class _corr(Chosen):
    @overload
    def __call__(
        self, x: _OnHost, weights: _OnHost | None = None, *, rowvar: bool = False, out: ndarray | None = None
    ) -> ndarray: ...
    @overload
    def __call__(
        self,
        x: _Array,
        weights: _Array | complex | None = None,
        *,
        rowvar: bool = False,
        out: _Array | None = None,
    ) -> _Array: ...
    @overload
    def __call__(
        self, x: Group, weights: _AnyArray | None = None, *, rowvar: bool = False, out: Group | None = None
    ) -> Group: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        rowvar: bool = False,
        out: ndarray | None = None,
    ) -> ndarray: ...

corr: _corr

class _cov(Chosen):
    @overload
    def __call__(
        self,
        x: _OnHost,
        weights: _OnHost | None = None,
        *,
        ddof: float = 1,
        rowvar: bool = False,
        out: ndarray | None = None,
    ) -> ndarray: ...
    @overload
    def __call__(
        self,
        x: _Array,
        weights: _Array | complex | None = None,
        *,
        ddof: float = 1,
        rowvar: bool = False,
        out: _Array | None = None,
    ) -> _Array: ...
    @overload
    def __call__(
        self,
        x: Group,
        weights: _AnyArray | None = None,
        *,
        ddof: float = 1,
        rowvar: bool = False,
        out: Group | None = None,
    ) -> Group: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        ddof: float = 1,
        rowvar: bool = False,
        out: ndarray | None = None,
    ) -> ndarray: ...

cov: _cov

@overload
def cross(x1: _OnHost, x2: _OnHost, /, *, axis: int = -1, out: ndarray | None = None) -> Any: ...
@overload
def cross(x1: _Array, x2: _Array | complex, /, *, axis: int = -1, out: _Array | None = None) -> _Array: ...
@overload
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, out: ndarray | None = None) -> Any: ...
@overload
def det(
    a: _OnHost, overwrite_a: bool = False, check_finite: bool = False, *, out: ndarray | None = None
) -> Any: ...
@overload
def det(
    a: _Array, overwrite_a: bool = False, check_finite: bool = False, *, out: _Array | None = None
) -> _Array: ...
@overload
def det(a: Group, overwrite_a: bool = False, check_finite: bool = False, *, out: Any = None) -> Any: ...
@overload
def det(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = False, *, out: ndarray | None = None
) -> Any: ...
@overload
def diagonal(x: _OnHost, /, *, offset: int = 0) -> ndarray: ...
@overload
def diagonal(x: _Array, /, *, offset: int = 0) -> _Array: ...
@overload
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> ndarray: ...
@overload
def eig(
    a: _OnHost,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigResult[ndarray]: ...
@overload
def eig(
    a: _Array,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> EigResult[_Array]: ...
@overload
def eig(
    a: Group,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[Group | None, Group | None] | None = None,
) -> EigResult[Group]: ...
@overload
def eig(
    a: ArrayLike,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigResult[ndarray]: ...
@overload
def eig_ex(
    a: _OnHost,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> EigExResult[ndarray]: ...
@overload
def eig_ex(
    a: _Array,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> EigExResult[_Array]: ...
@overload
def eig_ex(
    a: Group,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[Any, Any, Any] | None = None,
) -> EigExResult[Any]: ...
@overload
def eig_ex(
    a: ArrayLike,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> EigExResult[ndarray]: ...
@overload
def eigh(
    a: _OnHost,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[True],
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def eigh(
    a: _Array,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[True],
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: _Array | None = None,
) -> _Array: ...
@overload
def eigh(
    a: ArrayLike,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[True],
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def eigh(
    a: _OnHost,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EighResult[ndarray]: ...
@overload
def eigh(
    a: _Array,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> EighResult[_Array]: ...
@overload
def eigh(
    a: Group,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: tuple[Group | None, Group | None] | None = None,
) -> EighResult[Group]: ...
@overload
def eigh(
    a: ArrayLike,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EighResult[ndarray]: ...
@overload
def eigh_ex(
    a: _OnHost,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[True],
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigvalshExResult[ndarray]: ...
@overload
def eigh_ex(
    a: _Array,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[True],
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> EigvalshExResult[_Array]: ...
@overload
def eigh_ex(
    a: ArrayLike,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[True],
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigvalshExResult[ndarray]: ...
@overload
def eigh_ex(
    a: _OnHost,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> EighExResult[ndarray]: ...
@overload
def eigh_ex(
    a: _Array,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> EighExResult[_Array]: ...
@overload
def eigh_ex(
    a: Group,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[Any, Any, Any] | None = None,
) -> EighExResult[Any]: ...
@overload
def eigh_ex(
    a: ArrayLike,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    eigvals_only: Literal[False] = False,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> EighExResult[ndarray]: ...
@overload
def eigvals(
    a: _OnHost, *, overwrite_a: bool = False, check_finite: bool = False, out: ndarray | None = None
) -> ndarray: ...
@overload
def eigvals(
    a: _Array, *, overwrite_a: bool = False, check_finite: bool = False, out: _Array | None = None
) -> _Array: ...
@overload
def eigvals(
    a: Group, *, overwrite_a: bool = False, check_finite: bool = False, out: Group | None = None
) -> Group: ...
@overload
def eigvals(
    a: ArrayLike, *, overwrite_a: bool = False, check_finite: bool = False, out: ndarray | None = None
) -> ndarray: ...
@overload
def eigvals_ex(
    a: _OnHost,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigvalsExResult[ndarray]: ...
@overload
def eigvals_ex(
    a: _Array,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> EigvalsExResult[_Array]: ...
@overload
def eigvals_ex(
    a: Group,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> EigvalsExResult[Any]: ...
@overload
def eigvals_ex(
    a: ArrayLike,
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigvalsExResult[ndarray]: ...
@overload
def eigvalsh(
    a: _OnHost,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def eigvalsh(
    a: _Array,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: _Array | None = None,
) -> _Array: ...
@overload
def eigvalsh(
    a: Group,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: Group | None = None,
) -> Group: ...
@overload
def eigvalsh(
    a: ArrayLike,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def eigvalsh_ex(
    a: _OnHost,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigvalshExResult[ndarray]: ...
@overload
def eigvalsh_ex(
    a: _Array,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> EigvalshExResult[_Array]: ...
@overload
def eigvalsh_ex(
    a: Group,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> EigvalshExResult[Any]: ...
@overload
def eigvalsh_ex(
    a: ArrayLike,
    UPLO: Literal["L", "U"] = "L",
    *,
    lower: bool | None = None,
    subset_by_index: tuple[int, int] | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> EigvalshExResult[ndarray]: ...
@overload
def einsum(
    subscripts: str | _OnHost,
    /,
    *operands: _OnHost | Sequence[Any],
    path: Any = None,
    out: ndarray | None = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = False,
) -> Any: ...
@overload
def einsum(
    subscripts: str | _Array,
    /,
    *operands: _Array | Sequence[Any],
    path: Any = None,
    out: _Array | None = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = False,
) -> _Array: ...
@overload
def einsum(
    subscripts: str | ArrayLike,
    /,
    *operands: ArrayLike | Sequence[Any],
    path: Any = None,
    out: ndarray | None = None,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: Any = False,
) -> Any: ...
@overload
def expm(
    A: _OnHost, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def expm(
    A: _Array, *, assume_a: Assumption = "gen", lower: bool = True, out: _Array | None = None
) -> _Array: ...
@overload
def expm(
    A: Group, *, assume_a: Assumption = "gen", lower: bool = True, out: Group | None = None
) -> Group: ...
@overload
def expm(
    A: ArrayLike, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...

class _gaussian_logpdf(Fused[..., Any]):
    @overload  # type: ignore[override]
    def __call__(
        self, x: _OnHost, mean: _OnHost, covariance: _OnHost, *, out: ndarray | None = None
    ) -> Any: ...
    @overload
    def __call__(
        self, x: _Array, mean: _Array | complex, covariance: _Array | complex, *, out: _Array | None = None
    ) -> _Array: ...
    @overload
    def __call__(self, x: Group, mean: _AnyArray, covariance: _AnyArray, *, out: Any = None) -> Any: ...
    @overload
    def __call__(self, x: _AnyArray, mean: Group, covariance: _AnyArray, *, out: Any = None) -> Any: ...
    @overload
    def __call__(
        self, x: ArrayLike, mean: ArrayLike, covariance: ArrayLike, *, out: ndarray | None = None
    ) -> Any: ...

gaussian_logpdf: _gaussian_logpdf

@overload
def inv(
    a: _OnHost,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def inv(
    a: _Array,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def inv(
    a: Group,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    out: Group | None = None,
) -> Group: ...
@overload
def inv(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def inv_ex(
    a: _OnHost,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> InvExResult[ndarray]: ...
@overload
def inv_ex(
    a: _Array,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> InvExResult[_Array]: ...
@overload
def inv_ex(
    a: Group,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> InvExResult[Any]: ...
@overload
def inv_ex(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> InvExResult[ndarray]: ...

class _kalman_step(Fused[..., Any]):
    @overload  # type: ignore[override]
    def __call__(
        self,
        x: _OnHost,
        p: _OnHost,
        z: _OnHost,
        f: _OnHost,
        h: _OnHost,
        q: _OnHost,
        r: _OnHost,
        *,
        form: str = "standard",
        missing: bool = False,
        out: tuple[ndarray | None, ndarray | None] | None = None,
    ) -> KalmanStepResult[ndarray]: ...
    @overload
    def __call__(
        self,
        x: _Array,
        p: _Array | complex,
        z: _Array | complex,
        f: _Array | complex,
        h: _Array | complex,
        q: _Array | complex,
        r: _Array | complex,
        *,
        form: str = "standard",
        missing: bool = False,
        out: tuple[_Array | None, _Array | None] | None = None,
    ) -> KalmanStepResult[_Array]: ...
    @overload
    def __call__(
        self,
        x: Group,
        p: _AnyArray,
        z: _AnyArray,
        f: _AnyArray,
        h: _AnyArray,
        q: _AnyArray,
        r: _AnyArray,
        *,
        form: str = "standard",
        missing: bool = False,
        out: tuple[Group | None, Group | None] | None = None,
    ) -> KalmanStepResult[Group]: ...
    @overload
    def __call__(
        self,
        x: _AnyArray,
        p: Group,
        z: _AnyArray,
        f: _AnyArray,
        h: _AnyArray,
        q: _AnyArray,
        r: _AnyArray,
        *,
        form: str = "standard",
        missing: bool = False,
        out: tuple[Group | None, Group | None] | None = None,
    ) -> KalmanStepResult[Group]: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        p: ArrayLike,
        z: ArrayLike,
        f: ArrayLike,
        h: ArrayLike,
        q: ArrayLike,
        r: ArrayLike,
        *,
        form: str = "standard",
        missing: bool = False,
        out: tuple[ndarray | None, ndarray | None] | None = None,
    ) -> KalmanStepResult[ndarray]: ...

kalman_step: _kalman_step

@overload
def kron_apply(factors: Sequence[_OnHost], x: _OnHost, *, out: ndarray | None = None) -> ndarray: ...
@overload
def kron_apply(factors: Sequence[_Array], x: _Array | complex, *, out: _Array | None = None) -> _Array: ...
@overload
def kron_apply(factors: Sequence[ArrayLike], x: ArrayLike, *, out: ndarray | None = None) -> ndarray: ...
@overload
def ldl_factor(
    a: _OnHost,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> LDLResult[ndarray]: ...
@overload
def ldl_factor(
    a: _Array,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> LDLResult[_Array]: ...
@overload
def ldl_factor(
    a: Group,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: tuple[Group | None, Group | None] | None = None,
) -> LDLResult[Group]: ...
@overload
def ldl_factor(
    a: ArrayLike,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> LDLResult[ndarray]: ...
@overload
def ldl_factor_ex(
    a: _OnHost,
    *,
    lower: bool = True,
    hermitian: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LDLExResult[ndarray]: ...
@overload
def ldl_factor_ex(
    a: _Array,
    *,
    lower: bool = True,
    hermitian: bool = True,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> LDLExResult[_Array]: ...
@overload
def ldl_factor_ex(
    a: Group,
    *,
    lower: bool = True,
    hermitian: bool = True,
    check_errors: bool = False,
    out: tuple[Any, Any, Any] | None = None,
) -> LDLExResult[Any]: ...
@overload
def ldl_factor_ex(
    a: ArrayLike,
    *,
    lower: bool = True,
    hermitian: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LDLExResult[ndarray]: ...
@overload
def ldl_solve(
    LD: _OnHost,
    pivots: _OnHost,
    b: _OnHost,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def ldl_solve(
    LD: _Array,
    pivots: _Array | complex,
    b: _Array | complex,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: _Array | None = None,
) -> _Array: ...
@overload
def ldl_solve(
    LD: Group,
    pivots: _AnyArray,
    b: _AnyArray,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: Group | None = None,
) -> Group: ...
@overload
def ldl_solve(
    LD: _AnyArray,
    pivots: Group,
    b: _AnyArray,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: Group | None = None,
) -> Group: ...
@overload
def ldl_solve(
    LD: ArrayLike,
    pivots: ArrayLike,
    b: ArrayLike,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def ldl_solve(
    LD: tuple[_OnHost, _OnHost],
    b: _OnHost,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def ldl_solve(
    LD: tuple[_Array, _Array],
    b: _Array | complex,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: _Array | None = None,
) -> _Array: ...
@overload
def ldl_solve(
    LD: tuple[Group, Group],
    b: _AnyArray,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: Group | None = None,
) -> Group: ...
@overload
def ldl_solve(
    LD: tuple[_AnyArray, _AnyArray],
    b: Group,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: Group | None = None,
) -> Group: ...
@overload
def ldl_solve(
    LD: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    *,
    lower: bool = True,
    hermitian: bool = True,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def linsolve(
    a: _OnHost,
    b: _OnHost,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[True],
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> tuple[ndarray, ndarray]: ...
@overload
def linsolve(
    a: _Array,
    b: _Array | complex,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[True],
    out: tuple[_Array | None, _Array | None] | None = None,
) -> tuple[_Array, _Array]: ...
@overload
def linsolve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[True],
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> tuple[ndarray, ndarray]: ...
@overload
def linsolve(
    a: _OnHost,
    b: _OnHost,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[False] = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def linsolve(
    a: _Array,
    b: _Array | complex,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[False] = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def linsolve(
    a: Group,
    b: _AnyArray,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[False] = False,
    out: Group | None = None,
) -> Group: ...
@overload
def linsolve(
    a: _AnyArray,
    b: Group,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[False] = False,
    out: Group | None = None,
) -> Group: ...
@overload
def linsolve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[False] = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def linsolve_ex(
    a: _OnHost,
    b: _OnHost,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["mixed"],
    ill_conditioned: bool = False,
    return_rcond: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LinsolveExpertResult[ndarray]: ...
@overload
def linsolve_ex(
    a: _Array,
    b: _Array | complex,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["mixed"],
    ill_conditioned: bool = False,
    return_rcond: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None, _Array | None] | None = None,
) -> LinsolveExpertResult[_Array]: ...
@overload
def linsolve_ex(
    a: ArrayLike,
    b: ArrayLike,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["mixed"],
    ill_conditioned: bool = False,
    return_rcond: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LinsolveExpertResult[ndarray]: ...
@overload
def linsolve_ex(
    a: _OnHost,
    b: _OnHost,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: Literal[True],
    return_rcond: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LinsolveExpertResult[ndarray]: ...
@overload
def linsolve_ex(
    a: _Array,
    b: _Array | complex,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: Literal[True],
    return_rcond: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None, _Array | None] | None = None,
) -> LinsolveExpertResult[_Array]: ...
@overload
def linsolve_ex(
    a: ArrayLike,
    b: ArrayLike,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: Literal[True],
    return_rcond: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LinsolveExpertResult[ndarray]: ...
@overload
def linsolve_ex(
    a: _OnHost,
    b: _OnHost,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[True],
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LinsolveExpertResult[ndarray]: ...
@overload
def linsolve_ex(
    a: _Array,
    b: _Array | complex,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[True],
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None, _Array | None] | None = None,
) -> LinsolveExpertResult[_Array]: ...
@overload
def linsolve_ex(
    a: ArrayLike,
    b: ArrayLike,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed", "mixed"] = "fixed",
    ill_conditioned: bool = False,
    return_rcond: Literal[True],
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LinsolveExpertResult[ndarray]: ...
@overload
def linsolve_ex(
    a: _OnHost,
    b: _OnHost,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed"] = "fixed",
    ill_conditioned: Literal[False] = False,
    return_rcond: Literal[False] = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> LinsolveExResult[ndarray]: ...
@overload
def linsolve_ex(
    a: _Array,
    b: _Array | complex,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed"] = "fixed",
    ill_conditioned: Literal[False] = False,
    return_rcond: Literal[False] = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> LinsolveExResult[_Array]: ...
@overload
def linsolve_ex(
    a: Group,
    b: _AnyArray,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed"] = "fixed",
    ill_conditioned: Literal[False] = False,
    return_rcond: Literal[False] = False,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> LinsolveExResult[Any]: ...
@overload
def linsolve_ex(
    a: _AnyArray,
    b: Group,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed"] = "fixed",
    ill_conditioned: Literal[False] = False,
    return_rcond: Literal[False] = False,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> LinsolveExResult[Any]: ...
@overload
def linsolve_ex(
    a: ArrayLike,
    b: ArrayLike,
    *,
    assume_a: StructureWord | None = "general",
    lower: bool = False,
    unit_diagonal: bool = False,
    transposed: bool = False,
    bandwidths: tuple[int, int] | None = None,
    packed: bool = False,
    precision: Literal["fixed"] = "fixed",
    ill_conditioned: Literal[False] = False,
    return_rcond: Literal[False] = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> LinsolveExResult[ndarray]: ...
@overload
def logm(
    A: _OnHost, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def logm(
    A: _Array, *, assume_a: Assumption = "gen", lower: bool = True, out: _Array | None = None
) -> _Array: ...
@overload
def logm(
    A: Group, *, assume_a: Assumption = "gen", lower: bool = True, out: Group | None = None
) -> Group: ...
@overload
def logm(
    A: ArrayLike, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def logm_ex(
    A: _OnHost,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def logm_ex(
    A: _Array,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> MatrixFunctionExResult[_Array]: ...
@overload
def logm_ex(
    A: Group,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> MatrixFunctionExResult[Any]: ...
@overload
def logm_ex(
    A: ArrayLike,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def lstsq(
    a: _OnHost,
    b: _OnHost,
    rcond: _OnHost | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _OnHost | None = None,
    cond: _OnHost | None = None,
    driver: str | None = None,
    precision: Literal["fixed", "mixed"] = "fixed",
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LstsqResult[ndarray]: ...
@overload
def lstsq(
    a: _Array,
    b: _Array | complex,
    rcond: _Array | complex | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _Array | complex | None = None,
    cond: _Array | complex | None = None,
    driver: str | None = None,
    precision: Literal["fixed", "mixed"] = "fixed",
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> LstsqResult[_Array]: ...
@overload
def lstsq(
    a: Group,
    b: _AnyArray,
    rcond: _AnyArray | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _AnyArray | None = None,
    cond: _AnyArray | None = None,
    driver: str | None = None,
    precision: Literal["fixed", "mixed"] = "fixed",
    out: tuple[Group | None, Group | None, Group | None] | None = None,
) -> LstsqResult[Group]: ...
@overload
def lstsq(
    a: _AnyArray,
    b: Group,
    rcond: _AnyArray | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _AnyArray | None = None,
    cond: _AnyArray | None = None,
    driver: str | None = None,
    precision: Literal["fixed", "mixed"] = "fixed",
    out: tuple[Group | None, Group | None, Group | None] | None = None,
) -> LstsqResult[Group]: ...
@overload
def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    rcond: ArrayLike | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: ArrayLike | None = None,
    cond: ArrayLike | None = None,
    driver: str | None = None,
    precision: Literal["fixed", "mixed"] = "fixed",
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LstsqResult[ndarray]: ...
@overload
def lstsq_ex(
    a: _OnHost,
    b: _OnHost,
    rcond: _OnHost | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _OnHost | None = None,
    cond: _OnHost | None = None,
    driver: str | None = None,
    precision: Literal["mixed"],
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LstsqMixedExResult[ndarray]: ...
@overload
def lstsq_ex(
    a: _Array,
    b: _Array | complex,
    rcond: _Array | complex | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _Array | complex | None = None,
    cond: _Array | complex | None = None,
    driver: str | None = None,
    precision: Literal["mixed"],
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None, _Array | None, _Array | None] | None = None,
) -> LstsqMixedExResult[_Array]: ...
@overload
def lstsq_ex(
    a: ArrayLike,
    b: ArrayLike,
    rcond: ArrayLike | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: ArrayLike | None = None,
    cond: ArrayLike | None = None,
    driver: str | None = None,
    precision: Literal["mixed"],
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LstsqMixedExResult[ndarray]: ...
@overload
def lstsq_ex(
    a: _OnHost,
    b: _OnHost,
    rcond: _OnHost | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _OnHost | None = None,
    cond: _OnHost | None = None,
    driver: str | None = None,
    precision: Literal["fixed"] = "fixed",
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LstsqExResult[ndarray]: ...
@overload
def lstsq_ex(
    a: _Array,
    b: _Array | complex,
    rcond: _Array | complex | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _Array | complex | None = None,
    cond: _Array | complex | None = None,
    driver: str | None = None,
    precision: Literal["fixed"] = "fixed",
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None, _Array | None] | None = None,
) -> LstsqExResult[_Array]: ...
@overload
def lstsq_ex(
    a: Group,
    b: _AnyArray,
    rcond: _AnyArray | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _AnyArray | None = None,
    cond: _AnyArray | None = None,
    driver: str | None = None,
    precision: Literal["fixed"] = "fixed",
    check_errors: bool = False,
    out: tuple[Any, Any, Any, Any] | None = None,
) -> LstsqExResult[Any]: ...
@overload
def lstsq_ex(
    a: _AnyArray,
    b: Group,
    rcond: _AnyArray | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: _AnyArray | None = None,
    cond: _AnyArray | None = None,
    driver: str | None = None,
    precision: Literal["fixed"] = "fixed",
    check_errors: bool = False,
    out: tuple[Any, Any, Any, Any] | None = None,
) -> LstsqExResult[Any]: ...
@overload
def lstsq_ex(
    a: ArrayLike,
    b: ArrayLike,
    rcond: ArrayLike | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    lapack_driver: str | None = None,
    *,
    rtol: ArrayLike | None = None,
    cond: ArrayLike | None = None,
    driver: str | None = None,
    precision: Literal["fixed"] = "fixed",
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LstsqExResult[ndarray]: ...
@overload
def lu(
    a: _OnHost,
    permute_l: Literal[True],
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> PermutedLUResult[ndarray]: ...
@overload
def lu(
    a: _Array,
    permute_l: Literal[True],
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> PermutedLUResult[_Array]: ...
@overload
def lu(
    a: ArrayLike,
    permute_l: Literal[True],
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> PermutedLUResult[ndarray]: ...
@overload
def lu(
    a: _OnHost,
    permute_l: Literal[False] = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LUFactorsResult[ndarray]: ...
@overload
def lu(
    a: _Array,
    permute_l: Literal[False] = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> LUFactorsResult[_Array]: ...
@overload
def lu(
    a: Group,
    permute_l: Literal[False] = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[Group | None, Group | None, Group | None] | None = None,
) -> LUFactorsResult[Group]: ...
@overload
def lu(
    a: ArrayLike,
    permute_l: Literal[False] = False,
    overwrite_a: bool = False,
    check_finite: bool = False,
    p_indices: bool = False,
    *,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LUFactorsResult[ndarray]: ...
@overload
def lu_factor(
    a: _OnHost,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> LUResult[ndarray]: ...
@overload
def lu_factor(
    a: _Array,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> LUResult[_Array]: ...
@overload
def lu_factor(
    a: Group,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: tuple[Group | None, Group | None] | None = None,
) -> LUResult[Group]: ...
@overload
def lu_factor(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> LUResult[ndarray]: ...
@overload
def lu_factor_ex(
    a: _OnHost,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LUExResult[ndarray]: ...
@overload
def lu_factor_ex(
    a: _Array,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> LUExResult[_Array]: ...
@overload
def lu_factor_ex(
    a: Group,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[Any, Any, Any] | None = None,
) -> LUExResult[Any]: ...
@overload
def lu_factor_ex(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> LUExResult[ndarray]: ...
@overload
def lu_rcond(
    lu: _OnHost, pivots: _OnHost, norm_a: _OnHost, ord: Literal[1] | float = 1, *, out: ndarray | None = None
) -> Any: ...
@overload
def lu_rcond(
    lu: _Array,
    pivots: _Array | complex,
    norm_a: _Array | complex,
    ord: Literal[1] | float = 1,
    *,
    out: _Array | None = None,
) -> _Array: ...
@overload
def lu_rcond(
    lu: Group, pivots: _AnyArray, norm_a: _AnyArray, ord: Literal[1] | float = 1, *, out: Any = None
) -> Any: ...
@overload
def lu_rcond(
    lu: _AnyArray, pivots: Group, norm_a: _AnyArray, ord: Literal[1] | float = 1, *, out: Any = None
) -> Any: ...
@overload
def lu_rcond(
    lu: ArrayLike,
    pivots: ArrayLike,
    norm_a: ArrayLike,
    ord: Literal[1] | float = 1,
    *,
    out: ndarray | None = None,
) -> Any: ...
@overload
def lu_rcond(
    lu: tuple[_OnHost, _OnHost], norm_a: _OnHost, ord: Literal[1] | float = 1, *, out: ndarray | None = None
) -> Any: ...
@overload
def lu_rcond(
    lu: tuple[_Array, _Array],
    norm_a: _Array | complex,
    ord: Literal[1] | float = 1,
    *,
    out: _Array | None = None,
) -> _Array: ...
@overload
def lu_rcond(
    lu: tuple[Group, Group], norm_a: _AnyArray, ord: Literal[1] | float = 1, *, out: Any = None
) -> Any: ...
@overload
def lu_rcond(
    lu: tuple[_AnyArray, _AnyArray], norm_a: Group, ord: Literal[1] | float = 1, *, out: Any = None
) -> Any: ...
@overload
def lu_rcond(
    lu: tuple[ArrayLike, ArrayLike],
    norm_a: ArrayLike,
    ord: Literal[1] | float = 1,
    *,
    out: ndarray | None = None,
) -> Any: ...
@overload
def lu_solve(
    lu_and_piv: tuple[_OnHost, _OnHost],
    b: _OnHost,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def lu_solve(
    lu_and_piv: tuple[_Array, _Array],
    b: _Array | complex,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def lu_solve(
    lu_and_piv: tuple[Group, Group],
    b: _AnyArray,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Group | None = None,
) -> Group: ...
@overload
def lu_solve(
    lu_and_piv: tuple[_AnyArray, _AnyArray],
    b: Group,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Group | None = None,
) -> Group: ...
@overload
def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...

class _mahalanobis(Fused[..., Any]):
    @overload  # type: ignore[override]
    def __call__(
        self, x: _OnHost, mean: _OnHost, covariance: _OnHost, *, out: ndarray | None = None
    ) -> Any: ...
    @overload
    def __call__(
        self, x: _Array, mean: _Array | complex, covariance: _Array | complex, *, out: _Array | None = None
    ) -> _Array: ...
    @overload
    def __call__(self, x: Group, mean: _AnyArray, covariance: _AnyArray, *, out: Any = None) -> Any: ...
    @overload
    def __call__(self, x: _AnyArray, mean: Group, covariance: _AnyArray, *, out: Any = None) -> Any: ...
    @overload
    def __call__(
        self, x: ArrayLike, mean: ArrayLike, covariance: ArrayLike, *, out: ndarray | None = None
    ) -> Any: ...

mahalanobis: _mahalanobis

@overload
def matmul(
    x1: _OnHost,
    x2: _OnHost,
    /,
    out: ndarray | None = None,
    *,
    precision: Precision = "fixed",
    **kwargs: Unpack[UFuncKeywords],
) -> ndarray: ...
@overload
def matmul(
    x1: _Array,
    x2: _Array | complex,
    /,
    out: _Array | None = None,
    *,
    precision: Precision = "fixed",
    **kwargs: Unpack[UFuncKeywords],
) -> _Array: ...
@overload
def matmul(
    x1: Group,
    x2: _AnyArray,
    /,
    out: Group | None = None,
    *,
    precision: Precision = "fixed",
    **kwargs: Unpack[UFuncKeywords],
) -> Group: ...
@overload
def matmul(
    x1: _AnyArray,
    x2: Group,
    /,
    out: Group | None = None,
    *,
    precision: Precision = "fixed",
    **kwargs: Unpack[UFuncKeywords],
) -> Group: ...
@overload
def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: ndarray | None = None,
    *,
    precision: Precision = "fixed",
    **kwargs: Unpack[UFuncKeywords],
) -> ndarray: ...
@overload
def matrix_norm(
    x: _OnHost,
    /,
    ord: Literal["fro", "nuc"] | float | None = "fro",
    *,
    keepdims: bool = False,
    out: ndarray | None = None,
) -> Any: ...
@overload
def matrix_norm(
    x: _Array,
    /,
    ord: Literal["fro", "nuc"] | float | None = "fro",
    *,
    keepdims: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def matrix_norm(
    x: ArrayLike,
    /,
    ord: Literal["fro", "nuc"] | float | None = "fro",
    *,
    keepdims: bool = False,
    out: ndarray | None = None,
) -> Any: ...
@overload
def matrix_power(a: _OnHost, n: int, *, out: ndarray | None = None) -> ndarray: ...
@overload
def matrix_power(a: _Array, n: int, *, out: _Array | None = None) -> _Array: ...
@overload
def matrix_power(a: Group, n: int, *, out: Group | None = None) -> Group: ...
@overload
def matrix_power(a: ArrayLike, n: int, *, out: ndarray | None = None) -> ndarray: ...
@overload
def matrix_power_ex(
    a: _OnHost,
    n: int,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def matrix_power_ex(
    a: _Array, n: int, *, check_errors: bool = False, out: tuple[_Array | None, _Array | None] | None = None
) -> MatrixFunctionExResult[_Array]: ...
@overload
def matrix_power_ex(
    a: Group, n: int, *, check_errors: bool = False, out: tuple[Any, Any] | None = None
) -> MatrixFunctionExResult[Any]: ...
@overload
def matrix_power_ex(
    a: ArrayLike,
    n: int,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def matrix_rank(
    A: _OnHost,
    tol: _OnHost | None = None,
    hermitian: bool = False,
    *,
    rtol: _OnHost | None = None,
    lower: bool = True,
    out: ndarray | None = None,
) -> Any: ...
@overload
def matrix_rank(
    A: _Array,
    tol: _Array | complex | None = None,
    hermitian: bool = False,
    *,
    rtol: _Array | complex | None = None,
    lower: bool = True,
    out: _Array | None = None,
) -> _Array: ...
@overload
def matrix_rank(
    A: ArrayLike,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
    lower: bool = True,
    out: ndarray | None = None,
) -> Any: ...
@overload
def matrix_transpose(x: _OnHost, /) -> ndarray: ...
@overload
def matrix_transpose(x: _Array, /) -> _Array: ...
@overload
def matrix_transpose(x: ArrayLike, /) -> ndarray: ...
@overload
def matvec(
    x1: _OnHost, x2: _OnHost, /, out: ndarray | None = None, **kwargs: Unpack[UFuncKeywords]
) -> ndarray: ...
@overload
def matvec(
    x1: _Array, x2: _Array | complex, /, out: _Array | None = None, **kwargs: Unpack[UFuncKeywords]
) -> _Array: ...
@overload
def matvec(
    x1: Group, x2: _AnyArray, /, out: Group | None = None, **kwargs: Unpack[UFuncKeywords]
) -> Group: ...
@overload
def matvec(
    x1: _AnyArray, x2: Group, /, out: Group | None = None, **kwargs: Unpack[UFuncKeywords]
) -> Group: ...
@overload
def matvec(
    x1: ArrayLike, x2: ArrayLike, /, out: ndarray | None = None, **kwargs: Unpack[UFuncKeywords]
) -> ndarray: ...
@overload
def multi_dot(arrays: Sequence[_OnHost], *, out: ndarray | None = None) -> ndarray: ...
@overload
def multi_dot(arrays: Sequence[_Array], *, out: _Array | None = None) -> _Array: ...
@overload
def multi_dot(arrays: Sequence[ArrayLike], *, out: ndarray | None = None) -> ndarray: ...
@overload
def norm(
    x: _OnHost,
    ord: Literal["fro", "nuc"] | float | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> Any: ...
@overload
def norm(
    x: _Array,
    ord: Literal["fro", "nuc"] | float | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    check_finite: bool = False,
    *,
    out: _Array | None = None,
) -> _Array: ...
@overload
def norm(
    x: ArrayLike,
    ord: Literal["fro", "nuc"] | float | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> Any: ...
@overload
def orthogonalize(a: _OnHost, *, out: ndarray | None = None) -> ndarray: ...
@overload
def orthogonalize(a: _Array, *, out: _Array | None = None) -> _Array: ...
@overload
def orthogonalize(a: Group, *, out: Group | None = None) -> Group: ...
@overload
def orthogonalize(a: ArrayLike, *, out: ndarray | None = None) -> ndarray: ...
@overload
def outer(x1: _OnHost, x2: _OnHost, /, *, out: ndarray | None = None) -> ndarray: ...
@overload
def outer(x1: _Array, x2: _Array | complex, /, *, out: _Array | None = None) -> _Array: ...
@overload
def outer(x1: ArrayLike, x2: ArrayLike, /, *, out: ndarray | None = None) -> ndarray: ...
@overload
def pinv(
    a: _OnHost,
    rcond: _OnHost | None = None,
    hermitian: bool = False,
    *,
    rtol: _OnHost | None = None,
    lower: bool = True,
    return_rank: Literal[True],
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> tuple[ndarray, ndarray]: ...
@overload
def pinv(
    a: _Array,
    rcond: _Array | complex | None = None,
    hermitian: bool = False,
    *,
    rtol: _Array | complex | None = None,
    lower: bool = True,
    return_rank: Literal[True],
    check_finite: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> tuple[_Array, _Array]: ...
@overload
def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
    lower: bool = True,
    return_rank: Literal[True],
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> tuple[ndarray, ndarray]: ...
@overload
def pinv(
    a: _OnHost,
    rcond: _OnHost | None = None,
    hermitian: bool = False,
    *,
    rtol: _OnHost | None = None,
    lower: bool = True,
    return_rank: Literal[False] = False,
    check_finite: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def pinv(
    a: _Array,
    rcond: _Array | complex | None = None,
    hermitian: bool = False,
    *,
    rtol: _Array | complex | None = None,
    lower: bool = True,
    return_rank: Literal[False] = False,
    check_finite: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def pinv(
    a: Group,
    rcond: _AnyArray | None = None,
    hermitian: bool = False,
    *,
    rtol: _AnyArray | None = None,
    lower: bool = True,
    return_rank: Literal[False] = False,
    check_finite: bool = False,
    out: Group | None = None,
) -> Group: ...
@overload
def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
    lower: bool = True,
    return_rank: Literal[False] = False,
    check_finite: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def polar(
    a: _OnHost,
    side: Literal["right", "left"] = "right",
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> PolarResult[ndarray]: ...
@overload
def polar(
    a: _Array,
    side: Literal["right", "left"] = "right",
    *,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> PolarResult[_Array]: ...
@overload
def polar(
    a: Group,
    side: Literal["right", "left"] = "right",
    *,
    out: tuple[Group | None, Group | None] | None = None,
) -> PolarResult[Group]: ...
@overload
def polar(
    a: ArrayLike,
    side: Literal["right", "left"] = "right",
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> PolarResult[ndarray]: ...
@overload
def powm(
    a: _OnHost, p: float, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def powm(
    a: _Array, p: float, *, assume_a: Assumption = "gen", lower: bool = True, out: _Array | None = None
) -> _Array: ...
@overload
def powm(
    a: Group, p: float, *, assume_a: Assumption = "gen", lower: bool = True, out: Group | None = None
) -> Group: ...
@overload
def powm(
    a: ArrayLike, p: float, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def powm_ex(
    a: _OnHost,
    p: float,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def powm_ex(
    a: _Array,
    p: float,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> MatrixFunctionExResult[_Array]: ...
@overload
def powm_ex(
    a: Group,
    p: float,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> MatrixFunctionExResult[Any]: ...
@overload
def powm_ex(
    a: ArrayLike,
    p: float,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def qr(
    a: _OnHost,
    mode: Literal["r"],
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def qr(
    a: _Array,
    mode: Literal["r"],
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def qr(
    a: ArrayLike,
    mode: Literal["r"],
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def qr(
    a: _OnHost,
    mode: Literal["raw"],
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> QRRawResult[ndarray]: ...
@overload
def qr(
    a: _Array,
    mode: Literal["raw"],
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> QRRawResult[_Array]: ...
@overload
def qr(
    a: ArrayLike,
    mode: Literal["raw"],
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> QRRawResult[ndarray]: ...
@overload
def qr(
    a: _OnHost,
    mode: Literal["reduced", "economic", "complete"] = "reduced",
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> QRResult[ndarray]: ...
@overload
def qr(
    a: _Array,
    mode: Literal["reduced", "economic", "complete"] = "reduced",
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> QRResult[_Array]: ...
@overload
def qr(
    a: Group,
    mode: Literal["reduced", "economic", "complete"] = "reduced",
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: tuple[Group | None, Group | None] | None = None,
) -> QRResult[Group]: ...
@overload
def qr(
    a: ArrayLike,
    mode: Literal["reduced", "economic", "complete"] = "reduced",
    *,
    overwrite_a: bool = False,
    lwork: int | None = None,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> QRResult[ndarray]: ...
@overload
def rcond(a: _OnHost, ord: Literal[1] | float = 1, *, out: ndarray | None = None) -> Any: ...
@overload
def rcond(a: _Array, ord: Literal[1] | float = 1, *, out: _Array | None = None) -> _Array: ...
@overload
def rcond(a: Group, ord: Literal[1] | float = 1, *, out: Any = None) -> Any: ...
@overload
def rcond(a: ArrayLike, ord: Literal[1] | float = 1, *, out: ndarray | None = None) -> Any: ...
@overload
def refine(
    a: _OnHost,
    lu: _OnHost,
    pivots: _OnHost,
    b: _OnHost,
    x: _OnHost,
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> RefineResult[ndarray]: ...
@overload
def refine(
    a: _Array,
    lu: _Array | complex,
    pivots: _Array | complex,
    b: _Array | complex,
    x: _Array | complex,
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> RefineResult[_Array]: ...
@overload
def refine(
    a: ArrayLike,
    lu: ArrayLike,
    pivots: ArrayLike,
    b: ArrayLike,
    x: ArrayLike,
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> RefineResult[ndarray]: ...
@overload
def refine(
    a: _OnHost,
    lu: tuple[_OnHost, _OnHost],
    b: _OnHost,
    x: _OnHost,
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> RefineResult[ndarray]: ...
@overload
def refine(
    a: _Array,
    lu: tuple[_Array | complex, _Array | complex],
    b: _Array | complex,
    x: _Array | complex,
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> RefineResult[_Array]: ...
@overload
def refine(
    a: ArrayLike,
    lu: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    x: ArrayLike,
    *,
    precision: Literal["fixed", "extra"] = "fixed",
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> RefineResult[ndarray]: ...

class _ridge(Chosen):
    @overload
    def __call__(
        self,
        a: _OnHost,
        b: _OnHost,
        alpha: _OnHost,
        *,
        intercept: Literal[True],
        weights: _OnHost | None = None,
        out: tuple[ndarray | None, ndarray | None] | None = None,
    ) -> RidgeResult[ndarray]: ...
    @overload
    def __call__(
        self,
        a: _Array,
        b: _Array | complex,
        alpha: _Array | complex,
        *,
        intercept: Literal[True],
        weights: _Array | complex | None = None,
        out: tuple[_Array | None, _Array | None] | None = None,
    ) -> RidgeResult[_Array]: ...
    @overload
    def __call__(
        self,
        a: ArrayLike,
        b: ArrayLike,
        alpha: ArrayLike,
        *,
        intercept: Literal[True],
        weights: ArrayLike | None = None,
        out: tuple[ndarray | None, ndarray | None] | None = None,
    ) -> RidgeResult[ndarray]: ...
    @overload
    def __call__(
        self,
        a: _OnHost,
        b: _OnHost,
        alpha: _OnHost,
        *,
        intercept: Literal[False] = False,
        weights: _OnHost | None = None,
        out: ndarray | None = None,
    ) -> ndarray: ...
    @overload
    def __call__(
        self,
        a: _Array,
        b: _Array | complex,
        alpha: _Array | complex,
        *,
        intercept: Literal[False] = False,
        weights: _Array | complex | None = None,
        out: _Array | None = None,
    ) -> _Array: ...
    @overload
    def __call__(
        self,
        a: Group,
        b: _AnyArray,
        alpha: _AnyArray,
        *,
        intercept: Literal[False] = False,
        weights: _AnyArray | None = None,
        out: Group | None = None,
    ) -> Group: ...
    @overload
    def __call__(
        self,
        a: _AnyArray,
        b: Group,
        alpha: _AnyArray,
        *,
        intercept: Literal[False] = False,
        weights: _AnyArray | None = None,
        out: Group | None = None,
    ) -> Group: ...
    @overload
    def __call__(
        self,
        a: ArrayLike,
        b: ArrayLike,
        alpha: ArrayLike,
        *,
        intercept: Literal[False] = False,
        weights: ArrayLike | None = None,
        out: ndarray | None = None,
    ) -> ndarray: ...

ridge: _ridge

@overload
def schur(
    a: _OnHost,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SchurResult[ndarray]: ...
@overload
def schur(
    a: _Array,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SchurResult[_Array]: ...
@overload
def schur(
    a: Group,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[Group | None, Group | None] | None = None,
) -> SchurResult[Group]: ...
@overload
def schur(
    a: ArrayLike,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SchurResult[ndarray]: ...
@overload
def schur_ex(
    a: _OnHost,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> SchurExResult[ndarray]: ...
@overload
def schur_ex(
    a: _Array,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> SchurExResult[_Array]: ...
@overload
def schur_ex(
    a: Group,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[Any, Any, Any] | None = None,
) -> SchurExResult[Any]: ...
@overload
def schur_ex(
    a: ArrayLike,
    output: Literal["real", "complex"] = "real",
    *,
    overwrite_a: bool = False,
    check_finite: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> SchurExResult[ndarray]: ...
@overload
def sliding(x: _OnHost, window: int, *, axis: int = -2, step: int = 1) -> ndarray: ...
@overload
def sliding(x: _Array, window: int, *, axis: int = -2, step: int = 1) -> _Array: ...
@overload
def sliding(x: Group, window: int, *, axis: int = -2, step: int = 1) -> Group: ...
@overload
def sliding(x: ArrayLike, window: int, *, axis: int = -2, step: int = 1) -> ndarray: ...
@overload
def slogdet(
    a: _OnHost, *, out: tuple[ndarray | None, ndarray | None] | None = None
) -> SlogdetResult[Any]: ...
@overload
def slogdet(
    a: _Array, *, out: tuple[_Array | None, _Array | None] | None = None
) -> SlogdetResult[_Array]: ...
@overload
def slogdet(a: Group, *, out: tuple[Any, Any] | None = None) -> SlogdetResult[Any]: ...
@overload
def slogdet(
    a: ArrayLike, *, out: tuple[ndarray | None, ndarray | None] | None = None
) -> SlogdetResult[Any]: ...
@overload
def solve(
    a: _OnHost,
    b: _OnHost,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solve(
    a: _Array,
    b: _Array | complex,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    out: _Array | None = None,
) -> _Array: ...
@overload
def solve(
    a: Group,
    b: _AnyArray,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    out: Group | None = None,
) -> Group: ...
@overload
def solve(
    a: _AnyArray,
    b: Group,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    out: Group | None = None,
) -> Group: ...
@overload
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int],
    ab: _OnHost,
    b: _OnHost,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int],
    ab: _Array,
    b: _Array | complex,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: _Array | None = None,
) -> _Array: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int],
    ab: Group,
    b: _AnyArray,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: Group | None = None,
) -> Group: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int],
    ab: _AnyArray,
    b: Group,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: Group | None = None,
) -> Group: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solve_banded_ex(
    l_and_u: tuple[int, int],
    ab: _OnHost,
    b: _OnHost,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solve_banded_ex(
    l_and_u: tuple[int, int],
    ab: _Array,
    b: _Array | complex,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SolveExResult[_Array]: ...
@overload
def solve_banded_ex(
    l_and_u: tuple[int, int],
    ab: Group,
    b: _AnyArray,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solve_banded_ex(
    l_and_u: tuple[int, int],
    ab: _AnyArray,
    b: Group,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solve_banded_ex(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solve_ex(
    a: _OnHost,
    b: _OnHost,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solve_ex(
    a: _Array,
    b: _Array | complex,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SolveExResult[_Array]: ...
@overload
def solve_ex(
    a: Group,
    b: _AnyArray,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solve_ex(
    a: _AnyArray,
    b: Group,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solve_ex(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    assume_a: StructureWord | None = "general",
    transposed: bool = False,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solve_triangular(
    a: _OnHost,
    b: _OnHost,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solve_triangular(
    a: _Array,
    b: _Array | complex,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def solve_triangular(
    a: Group,
    b: _AnyArray,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    out: Group | None = None,
) -> Group: ...
@overload
def solve_triangular(
    a: _AnyArray,
    b: Group,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    out: Group | None = None,
) -> Group: ...
@overload
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solve_triangular_ex(
    a: _OnHost,
    b: _OnHost,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solve_triangular_ex(
    a: _Array,
    b: _Array | complex,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SolveExResult[_Array]: ...
@overload
def solve_triangular_ex(
    a: Group,
    b: _AnyArray,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solve_triangular_ex(
    a: _AnyArray,
    b: Group,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solve_triangular_ex(
    a: ArrayLike,
    b: ArrayLike,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
    *,
    left: bool = True,
    upper: bool | None = None,
    unitriangular: bool = False,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solve_tridiagonal(
    dl: _OnHost, d: _OnHost, du: _OnHost, b: _OnHost, *, pivot: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def solve_tridiagonal(
    dl: _Array,
    d: _Array | complex,
    du: _Array | complex,
    b: _Array | complex,
    *,
    pivot: bool = True,
    out: _Array | None = None,
) -> _Array: ...
@overload
def solve_tridiagonal(
    dl: ArrayLike,
    d: ArrayLike,
    du: ArrayLike,
    b: ArrayLike,
    *,
    pivot: bool = True,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solve_tridiagonal_ex(
    dl: _OnHost,
    d: _OnHost,
    du: _OnHost,
    b: _OnHost,
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solve_tridiagonal_ex(
    dl: _Array,
    d: _Array | complex,
    du: _Array | complex,
    b: _Array | complex,
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SolveExResult[_Array]: ...
@overload
def solve_tridiagonal_ex(
    dl: ArrayLike,
    d: ArrayLike,
    du: ArrayLike,
    b: ArrayLike,
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solveh_banded(
    ab: _OnHost,
    b: _OnHost,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solveh_banded(
    ab: _Array,
    b: _Array | complex,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    out: _Array | None = None,
) -> _Array: ...
@overload
def solveh_banded(
    ab: Group,
    b: _AnyArray,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    out: Group | None = None,
) -> Group: ...
@overload
def solveh_banded(
    ab: _AnyArray,
    b: Group,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    out: Group | None = None,
) -> Group: ...
@overload
def solveh_banded(
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def solveh_banded_ex(
    ab: _OnHost,
    b: _OnHost,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def solveh_banded_ex(
    ab: _Array,
    b: _Array | complex,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SolveExResult[_Array]: ...
@overload
def solveh_banded_ex(
    ab: Group,
    b: _AnyArray,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solveh_banded_ex(
    ab: _AnyArray,
    b: Group,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SolveExResult[Any]: ...
@overload
def solveh_banded_ex(
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = False,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def sqrtm(
    A: _OnHost, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def sqrtm(
    A: _Array, *, assume_a: Assumption = "gen", lower: bool = True, out: _Array | None = None
) -> _Array: ...
@overload
def sqrtm(
    A: Group, *, assume_a: Assumption = "gen", lower: bool = True, out: Group | None = None
) -> Group: ...
@overload
def sqrtm(
    A: ArrayLike, *, assume_a: Assumption = "gen", lower: bool = True, out: ndarray | None = None
) -> ndarray: ...
@overload
def sqrtm_ex(
    A: _OnHost,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def sqrtm_ex(
    A: _Array,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> MatrixFunctionExResult[_Array]: ...
@overload
def sqrtm_ex(
    A: Group,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> MatrixFunctionExResult[Any]: ...
@overload
def sqrtm_ex(
    A: ArrayLike,
    *,
    assume_a: Assumption = "gen",
    lower: bool = True,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> MatrixFunctionExResult[ndarray]: ...
@overload
def sum_factorized(b1: _OnHost, d: _OnHost, u: _OnHost, *, out: ndarray | None = None) -> ndarray: ...
@overload
def sum_factorized(
    b1: _Array, d: _Array | complex, u: _Array | complex, *, out: _Array | None = None
) -> _Array: ...
@overload
def sum_factorized(b1: ArrayLike, d: ArrayLike, u: ArrayLike, *, out: ndarray | None = None) -> ndarray: ...
@overload
def svd(
    a: _OnHost,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def svd(
    a: _OnHost,
    full_matrices: bool,
    compute_uv: Literal[False],
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def svd(
    a: _Array,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: _Array | None = None,
) -> _Array: ...
@overload
def svd(
    a: _Array,
    full_matrices: bool,
    compute_uv: Literal[False],
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: _Array | None = None,
) -> _Array: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool,
    compute_uv: Literal[False],
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def svd(
    a: _OnHost,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> SVDResult[ndarray]: ...
@overload
def svd(
    a: _Array,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: tuple[_Array | None, _Array | None, _Array | None] | None = None,
) -> SVDResult[_Array]: ...
@overload
def svd(
    a: Group,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: tuple[Group | None, Group | None, Group | None] | None = None,
) -> SVDResult[Group]: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    out: tuple[ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> SVDResult[ndarray]: ...
@overload
def svd_ex(
    a: _OnHost,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SVDvalsExResult[ndarray]: ...
@overload
def svd_ex(
    a: _OnHost,
    full_matrices: bool,
    compute_uv: Literal[False],
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SVDvalsExResult[ndarray]: ...
@overload
def svd_ex(
    a: _Array,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SVDvalsExResult[_Array]: ...
@overload
def svd_ex(
    a: _Array,
    full_matrices: bool,
    compute_uv: Literal[False],
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SVDvalsExResult[_Array]: ...
@overload
def svd_ex(
    a: ArrayLike,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SVDvalsExResult[ndarray]: ...
@overload
def svd_ex(
    a: ArrayLike,
    full_matrices: bool,
    compute_uv: Literal[False],
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SVDvalsExResult[ndarray]: ...
@overload
def svd_ex(
    a: _OnHost,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> SVDExResult[ndarray]: ...
@overload
def svd_ex(
    a: _Array,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None, _Array | None, _Array | None] | None = None,
) -> SVDExResult[_Array]: ...
@overload
def svd_ex(
    a: Group,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[Any, Any, Any, Any] | None = None,
) -> SVDExResult[Any]: ...
@overload
def svd_ex(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = False,
    lapack_driver: str = "gesdd",
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None, ndarray | None, ndarray | None] | None = None,
) -> SVDExResult[ndarray]: ...
@overload
def svdvals(
    a: _OnHost,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def svdvals(
    a: _Array,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    out: _Array | None = None,
) -> _Array: ...
@overload
def svdvals(
    a: Group,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    out: Group | None = None,
) -> Group: ...
@overload
def svdvals(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    out: ndarray | None = None,
) -> ndarray: ...
@overload
def svdvals_ex(
    a: _OnHost,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SVDvalsExResult[ndarray]: ...
@overload
def svdvals_ex(
    a: _Array,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SVDvalsExResult[_Array]: ...
@overload
def svdvals_ex(
    a: Group,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[Any, Any] | None = None,
) -> SVDvalsExResult[Any]: ...
@overload
def svdvals_ex(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = False,
    *,
    driver: str | None = None,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SVDvalsExResult[ndarray]: ...
@overload
def tensordot(x1: _OnHost, x2: _OnHost, /, axes: Any = 2, *, out: ndarray | None = None) -> Any: ...
@overload
def tensordot(x1: _Array, x2: _Array | complex, /, axes: Any = 2, *, out: _Array | None = None) -> _Array: ...
@overload
def tensordot(x1: ArrayLike, x2: ArrayLike, /, axes: Any = 2, *, out: ndarray | None = None) -> Any: ...
@overload
def tensorinv(a: _OnHost, ind: int = 2, *, out: ndarray | None = None) -> ndarray: ...
@overload
def tensorinv(a: _Array, ind: int = 2, *, out: _Array | None = None) -> _Array: ...
@overload
def tensorinv(a: ArrayLike, ind: int = 2, *, out: ndarray | None = None) -> ndarray: ...
@overload
def tensorinv_ex(
    a: _OnHost,
    ind: int = 2,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> InvExResult[ndarray]: ...
@overload
def tensorinv_ex(
    a: _Array,
    ind: int = 2,
    *,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> InvExResult[_Array]: ...
@overload
def tensorinv_ex(
    a: ArrayLike,
    ind: int = 2,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> InvExResult[ndarray]: ...
@overload
def tensorsolve(
    a: _OnHost, b: _OnHost, axes: Sequence[int] | None = None, *, out: ndarray | None = None
) -> ndarray: ...
@overload
def tensorsolve(
    a: _Array, b: _Array | complex, axes: Sequence[int] | None = None, *, out: _Array | None = None
) -> _Array: ...
@overload
def tensorsolve(
    a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None, *, out: ndarray | None = None
) -> ndarray: ...
@overload
def tensorsolve_ex(
    a: _OnHost,
    b: _OnHost,
    axes: Sequence[int] | None = None,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def tensorsolve_ex(
    a: _Array,
    b: _Array | complex,
    axes: Sequence[int] | None = None,
    *,
    check_errors: bool = False,
    out: tuple[_Array | None, _Array | None] | None = None,
) -> SolveExResult[_Array]: ...
@overload
def tensorsolve_ex(
    a: ArrayLike,
    b: ArrayLike,
    axes: Sequence[int] | None = None,
    *,
    check_errors: bool = False,
    out: tuple[ndarray | None, ndarray | None] | None = None,
) -> SolveExResult[ndarray]: ...
@overload
def trace(x: _OnHost, /, *, offset: int = 0, dtype: Any = None, out: ndarray | None = None) -> Any: ...
@overload
def trace(x: _Array, /, *, offset: int = 0, dtype: Any = None, out: _Array | None = None) -> _Array: ...
@overload
def trace(x: Group, /, *, offset: int = 0, dtype: Any = None, out: Any = None) -> Any: ...
@overload
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None, out: ndarray | None = None) -> Any: ...
@overload
def vecdot(x1: _OnHost, x2: _OnHost, /, *, axis: int = -1, out: ndarray | None = None) -> Any: ...
@overload
def vecdot(x1: _Array, x2: _Array | complex, /, *, axis: int = -1, out: _Array | None = None) -> _Array: ...
@overload
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, out: ndarray | None = None) -> Any: ...
@overload
def vecmat(
    x1: _OnHost, x2: _OnHost, /, out: ndarray | None = None, **kwargs: Unpack[UFuncKeywords]
) -> ndarray: ...
@overload
def vecmat(
    x1: _Array, x2: _Array | complex, /, out: _Array | None = None, **kwargs: Unpack[UFuncKeywords]
) -> _Array: ...
@overload
def vecmat(
    x1: Group, x2: _AnyArray, /, out: Group | None = None, **kwargs: Unpack[UFuncKeywords]
) -> Group: ...
@overload
def vecmat(
    x1: _AnyArray, x2: Group, /, out: Group | None = None, **kwargs: Unpack[UFuncKeywords]
) -> Group: ...
@overload
def vecmat(
    x1: ArrayLike, x2: ArrayLike, /, out: ndarray | None = None, **kwargs: Unpack[UFuncKeywords]
) -> ndarray: ...
@overload
def vector_norm(
    x: _OnHost,
    /,
    ord: float | None = 2,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    *,
    out: ndarray | None = None,
) -> Any: ...
@overload
def vector_norm(
    x: _Array,
    /,
    ord: float | None = 2,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    *,
    out: _Array | None = None,
) -> _Array: ...
@overload
def vector_norm(
    x: ArrayLike,
    /,
    ord: float | None = 2,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    *,
    out: ndarray | None = None,
) -> Any: ...

class _whiten(Fused[..., Any]):
    @overload  # type: ignore[override]
    def __call__(
        self,
        x: _OnHost,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: ndarray | None = None,
    ) -> ndarray: ...
    @overload
    def __call__(
        self,
        x: _Array,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: _Array | None = None,
    ) -> _Array: ...
    @overload
    def __call__(
        self,
        x: Group,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: Group | None = None,
    ) -> Group: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: ndarray | None = None,
    ) -> ndarray: ...

whiten: _whiten

class _whitening(Fused[..., Any]):
    @overload  # type: ignore[override]
    def __call__(
        self,
        x: _OnHost,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: tuple[ndarray | None, ndarray | None] | None = None,
    ) -> WhiteningResult[ndarray]: ...
    @overload
    def __call__(
        self,
        x: _Array,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: tuple[_Array | None, _Array | None] | None = None,
    ) -> WhiteningResult[_Array]: ...
    @overload
    def __call__(
        self,
        x: Group,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: tuple[Group | None, Group | None] | None = None,
    ) -> WhiteningResult[Group]: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        *,
        eps: float = 0.0,
        method: Literal["cholesky", "pca", "zca"] = "cholesky",
        out: tuple[ndarray | None, ndarray | None] | None = None,
    ) -> WhiteningResult[ndarray]: ...

whitening: _whitening

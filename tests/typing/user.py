"""What type checkers make of a user's script: `make lint` runs them on it, and test_errors.py runs it."""

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
from numpy.typing import NDArray

import smallmm

Array = NDArray[Any]
a = np.stack([np.eye(3), 2 * np.eye(3)])
b = np.ones((2, 3, 1))

# Arrays, lists and integers in, arrays out; numbers where NumPy may give a number
assert_type(smallmm.inv(a), Array)
assert_type(smallmm.inv([[1, 2], [3, 4]]), Array)
assert_type(
    smallmm.solve(a=a, b=b, assume_a="pos", lower=True, overwrite_a=True, out=np.empty_like(b)), Array
)
assert_type(smallmm.matmul([[1.0, 2.0]], [[3.0], [4.0]]), Array)
assert_type(smallmm.matmul(a, a, dtype=np.float32, casting="same_kind"), Array)
assert_type(smallmm.batched_matmul(a, a, np.ones_like(a), alpha=2, beta=[0.5, 1.0]), Array)
length: float = smallmm.norm([3.0, 4.0])

# Named tuples, by their public names, and of which arrays
factors: smallmm.LUResult = smallmm.lu_factor(a)
lu, pivots = smallmm.lu_factor(a)
assert_type(pivots, Array)
assert_type(smallmm.lu_solve((lu, pivots), b, trans="T", adjoint=False, left=True), Array)
assert_type(smallmm.solve_ex(a, b), smallmm.SolveExResult[Array])
assert_type(smallmm.inv_ex(a=a, assume_a="sym", check_errors=True).info, Array)
assert_type(smallmm.cho_factor(a).lower, bool)
assert_type(smallmm.cho_solve(smallmm.cho_factor(a, lower=True), b, check_finite=False), Array)
assert_type(smallmm.lstsq(a, b, rtol=1e-12), smallmm.LstsqResult[Array])
assert_type(smallmm.lu_rcond((lu, pivots), smallmm.matrix_norm(a, 1)), Any)
sign, logabsdet = smallmm.slogdet(a)

# Results that options choose
assert_type(smallmm.eigh(a), smallmm.EighResult[Array])
assert_type(smallmm.eigh(a, "U", eigvals_only=True), Array)
assert_type(smallmm.qr(a, mode="economic").Q, Array)
assert_type(smallmm.qr(a, mode="raw"), smallmm.QRRawResult[Array])
assert_type(smallmm.svd(a, compute_uv=False), Array)
assert_type(smallmm.svd(a, False, hermitian=True).S, Array)
assert_type(smallmm.pinv(a, return_rank=True), tuple[Array, Array])
assert_type(smallmm.ridge(a, b, 1.0, intercept=True), smallmm.RidgeResult[Array])


# Fused functions keep their signatures, and take `out`
@smallmm.fuse("(n,n),(n)->(n)")
def scaled(a: Array, x: Array, *, by: float = 1.0) -> Array:
    return smallmm.matvec(a, x) * by


assert_type(scaled(a, b[..., 0], by=2.0), Array)
assert_type(scaled(a, b[..., 0], out=np.empty((2, 3))), Array)
assert_type(smallmm.congruence(a, a), Array)

# Groups in, groups out
group = smallmm.Group([np.eye(2), np.eye(3)])
assert_type((2 * group - group / 3.0).mT, smallmm.Group)
assert_type(smallmm.inv(group), smallmm.Group)
assert_type(smallmm.matmul(group, group), smallmm.Group)
assert_type(smallmm.eigh(group).eigenvectors, smallmm.Group)

# Exceptions with what they carry, options, contexts
try:
    smallmm.cholesky(-a, upper=True)
except smallmm.LinAlgError as error:
    assert_type(error.result, Any)
with smallmm.threads(1):
    count: int = smallmm.get_num_threads()
plan: smallmm.Explanation = smallmm.explain(smallmm.inv, a)
print(plan.kernel, plan.strategy, sign, logabsdet, count)
white: Any = smallmm.Whitener(method="pca", eps=0.1).fit(a).transform(a)

# What a type checker has to find
if TYPE_CHECKING:
    smallmm.sovle(a, b)  # type: ignore[attr-defined]
    smallmm.solve(a)  # type: ignore[call-overload]
    smallmm.solve(a, b, assume_a="positive")  # type: ignore[call-overload]
    smallmm.qr(a, mode="old")  # type: ignore[call-overload]
    smallmm.eigh(a, UPLO="lower")  # type: ignore[call-overload]
    smallmm.matmul(a, a, odd=1)  # type: ignore[call-overload]
    smallmm.matmul(a, a, precision="high")  # type: ignore[call-overload]
    smallmm.inv(a, out=[[1.0]])  # type: ignore[call-overload]
    print(smallmm.inv(a).inverse)  # type: ignore[attr-defined]
    print(smallmm.lu_factor(a).piv)  # type: ignore[attr-defined]
    smallmm.Whitener(method="svd")  # type: ignore[arg-type]
    scaled(a)  # type: ignore[call-overload]
    scaled(a, b, to=2.0)  # type: ignore[call-overload]

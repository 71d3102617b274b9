"""What a type checker makes of a user's script: `make lint` runs mypy on it, and test_errors.py runs it."""

from typing import Any, assert_type

import numpy as np

import smallmm

a = np.stack([np.eye(3), 2 * np.eye(3)])
b = np.ones((2, 3, 1))

# Named tuples, by their public names
factors: smallmm.LUResult = smallmm.lu_factor(a)
x = smallmm.lu_solve(factors, b, trans="T", adjoint=False, left=True)
lu, pivots = factors
assert_type(smallmm.solve_ex(a, b), smallmm.SolveExResult)
assert_type(smallmm.inv_ex(a).info, Any)
assert_type(smallmm.cho_factor(a, lower=True), smallmm.ChoFactorResult)
assert_type(smallmm.lstsq(a, b, rtol=1e-12), smallmm.LstsqResult)
sign, logabsdet = smallmm.slogdet(a)
assert_type(smallmm.cho_factor(a).lower, bool)
x = smallmm.cho_solve(smallmm.cho_factor(a), b, check_finite=False)

# Arrays, lists and numbers; keywords of gufuncs
smallmm.matmul([[1.0, 2.0]], [[3.0], [4.0]])
smallmm.matmul(a, a, dtype=np.float32, casting="same_kind")
smallmm.batched_matmul(a, a, x, alpha=2, beta=[0.5, 1.0]) if x.shape == a.shape else None
smallmm.qr(a, mode="economic")

# Arguments by position and by name, as NumPy, SciPy and PyTorch have them
smallmm.solve(a=a, b=b, assume_a="pos", lower=True, overwrite_a=True)
smallmm.svd(a, False, hermitian=True)
assert_type(smallmm.inv_ex(a=a, assume_a="sym", check_errors=True), smallmm.InvExResult)
x = smallmm.lu_rcond(factors, smallmm.matrix_norm(a, 1))
x, rank = smallmm.pinv(a, return_rank=True)

# Exceptions with what they carry, options, contexts
try:
    smallmm.cholesky(-a, upper=True)
except smallmm.LinAlgError as error:
    assert_type(error.result, Any)
with smallmm.threads(1):
    count: int = smallmm.get_num_threads()
config: dict[str, Any] = smallmm.show_config("dicts")
plan: smallmm.Explanation = smallmm.explain(smallmm.inv, a)
print(plan.kernel, plan.strategy, config["isa"])

# Groups and statistics
group = smallmm.Group([np.eye(2), np.eye(3)])
assert_type((2 * group - group / 3.0).mT, smallmm.Group)
fit = smallmm.ridge(a, b, 1.0, intercept=True)
white: Any = smallmm.Whitener(method="pca", eps=0.1).fit(a).transform(a)
polar: smallmm.PolarResult = smallmm.polar(a, "left")

# What a type checker has to find
if len(a) > 2:
    smallmm.sovle(a, b)  # type: ignore[attr-defined]
    smallmm.solve(a)  # type: ignore[call-arg]
    smallmm.qr(a, mode="old")  # type: ignore[arg-type]
    x = smallmm.lu_factor(a).piv  # type: ignore[attr-defined]
    smallmm.matmul(a, a, odd=1)  # type: ignore[call-arg]
    smallmm.Whitener(method="svd")  # type: ignore[arg-type]

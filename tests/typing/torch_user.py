"""What type checkers make of a script with tensors: test_types.py runs them on it where PyTorch is."""

from typing import TYPE_CHECKING, assert_type

import torch
from torch import Tensor

import smallmm

a = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
b = torch.ones(2, 3, 1, dtype=torch.float64)

# Tensors in, tensors out
assert_type(smallmm.inv(a), Tensor)
assert_type(smallmm.solve(a, b, assume_a="pos", out=torch.empty_like(b)), Tensor)
assert_type(smallmm.det(a), Tensor)
assert_type(smallmm.matmul(a, a.mT), Tensor)
assert_type(smallmm.batched_matmul(a, a, alpha=2.0), Tensor)
assert_type(smallmm.solve_ex(a, b).info, Tensor)
assert_type(smallmm.solve_ex(a, b).result, Tensor)
assert_type(smallmm.lstsq(a, b).solution, Tensor)
assert_type(smallmm.eigh(a), smallmm.EighResult[Tensor])
w, v = smallmm.eigh(a)
assert_type(w, Tensor)
assert_type(smallmm.eigh(a, eigvals_only=True), Tensor)
assert_type(smallmm.svd(a, compute_uv=False), Tensor)
assert_type(smallmm.qr(a, mode="r"), Tensor)
assert_type(smallmm.slogdet(a).logabsdet, Tensor)
assert_type(smallmm.lu_solve(smallmm.lu_factor(a), b), Tensor)
assert_type(smallmm.cho_solve(smallmm.cho_factor(a), b), Tensor)
assert_type(smallmm.lu_rcond(smallmm.lu_factor(a), smallmm.matrix_norm(a, 1)), Tensor)
assert_type(smallmm.mahalanobis(b[..., 0], b[..., 0], a), Tensor)
assert_type(smallmm.pinv(a, return_rank=True), tuple[Tensor, Tensor])
assert_type(smallmm.multi_dot([a, a, b]), Tensor)
assert_type(smallmm.contract("...ij,...jk->...ik", a, b), Tensor)
assert_type(smallmm.ridge(a, b, 1.0, intercept=True), smallmm.RidgeResult[Tensor])
assert_type(smallmm.cov(a), Tensor)
assert_type(smallmm.linsolve(a, b), Tensor)
assert_type(smallmm.linsolve_ex(a, b, precision="mixed").iterations, Tensor)
assert_type(smallmm.vector_norm(a), Tensor)

# What a type checker has to find
if TYPE_CHECKING:
    smallmm.solve(a, b, assume_a="positive")  # type: ignore[call-overload]
    smallmm.inv(a, out=1.0)  # type: ignore[call-overload]
    print(smallmm.inv(a).info)  # type: ignore[attr-defined]

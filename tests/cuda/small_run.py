"""A small run over every kind of kernel, for compute-sanitizer (`make sanitize-cuda`): exact allocations, few
matrices, last blocks that are not full, misaligned and strided operands."""

import itertools
import os
import sys
from functools import partial
from pathlib import Path

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # so that a byte too far is outside an allocation
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "support")]

import numpy as np  # noqa: E402
import paths  # noqa: E402, F401
import torch  # noqa: E402
from random_programs import random_program  # noqa: E402

import smallmm  # noqa: E402


def factor_and_solve(x: torch.Tensor, y: torch.Tensor) -> None:
    """Every operation once, on matrices of which one is singular."""
    x = x + x.shape[-1] * torch.eye(x.shape[-1], device="cuda", dtype=x.dtype)
    x[3] = 0
    symmetric = x @ x.mT
    for a in (x, x.mT):
        smallmm.lu_factor_ex(a)
        smallmm.solve_ex(a, y)
        smallmm.inv_ex(a)
        smallmm.det(a)
        smallmm.slogdet(a)
        smallmm.cholesky_ex(symmetric)
        smallmm.eigvalsh_ex(symmetric)
        smallmm.eig_ex(a)
        smallmm.eigvals_ex(a)
        smallmm.cho_solve((a, True), y[..., :1])
        smallmm.cho_solve((a, False), y)
        smallmm.solve_triangular(a, y, unit_diagonal=True)
        lu, pivots, _ = smallmm.lu_factor_ex(a)
        smallmm.lu_solve((lu, pivots), y)
        smallmm.lu_solve((lu, pivots), y[..., :1], 1)
        for mode in ("reduced", "r", "raw"):
            smallmm.qr(a, mode)
        smallmm.lstsq(a, y[..., :1])
    for triangle in "LU":
        smallmm.eigh_ex(x + x.mT, UPLO=triangle)
    smallmm.inv_ex(x, out=(x, None))


def of_complex_numbers(x: torch.Tensor, y: torch.Tensor) -> None:
    """Eigenvalues, singular values and least squares; in registers up to order 4."""
    hermitian = x + x.mH
    for a in (x, x.mT, x[..., : x.shape[-1] // 2 + 1]):
        smallmm.svd_ex(a, full_matrices=True)
        smallmm.svdvals_ex(a)
        smallmm.lstsq(a, y[..., :1])
    for a in (x, x.mT):
        smallmm.eig_ex(a)
        smallmm.eigvals_ex(a)
    for triangle in "LU":
        smallmm.eigh_ex(hermitian, UPLO=triangle)
        smallmm.eigvalsh_ex(hermitian, UPLO=triangle)


def with_structure(x: torch.Tensor, y: torch.Tensor) -> None:
    """Definite matrices, diagonals of one tile and of many, and what is known of solutions."""
    n = x.shape[-1]
    one = torch.eye(n, device="cuda", dtype=x.dtype)
    for lower in (True, False):
        smallmm.solve(x @ x.mH + one, y, assume_a="pos", lower=lower)
    lu, pivots, _ = smallmm.lu_factor_ex(x + n * one)
    smallmm.refine(x + n * one, lu, pivots, y, y, precision="extra")
    smallmm.backward_error(x, y, y)
    smallmm.rcond(x)
    d = x.flatten()[: 37 * n].view(-1, n)
    smallmm.solve_tridiagonal(d[:, 1:], d + 9, d[:, 1:], y)
    bands = x + 9 * n * (torch.arange(n, device="cuda")[:, None] == n // 2)
    smallmm.solve_banded((n - 1 - n // 2, n // 2), bands, y)
    bands = x + 9 * n * (torch.arange(n, device="cuda")[:, None] == 0)
    smallmm.solveh_banded(bands, y, lower=True)


def fused_steps(n: int, m: int, dtype: torch.dtype) -> None:
    """One kernel for all steps: of operands of each filter, one for all, and with gaps."""
    new = partial(torch.rand, device="cuda", dtype=dtype)
    x, p, z = new(206, n), new(206, n, n), new(206, m)
    model = new(n, n), new(m, n), new(n, n), torch.eye(m, device="cuda", dtype=dtype)
    smallmm.kalman_step.ex(x, p @ p.mT, z, *model)
    smallmm.kalman_step.ex(x[::2], p.mT[::2], z[1::2], *model)
    systems = smallmm.fuse(lambda a, b: (smallmm.solve(a, b), smallmm.inv(a)), "(n,n),(n,k)")
    systems.ex(p, p[:1, :, :3])
    factors = smallmm.fuse(
        lambda a, b: (*smallmm.qr(a), smallmm.lstsq(a, b).x, *smallmm.eigh(a), *smallmm.svd(a)), "(n,n),(n,k)"
    )
    for a in (p, torch.complex(p, p)):
        factors.ex(a, a[:1, :, :3])
        systems.ex(a, a[:1, :, :3])


def random_steps(seed: int) -> None:
    """A fused function that nobody chose, and the sums of whole chunks."""
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    arrays = [torch.from_numpy(x).cuda() for x in program.inputs(rng, (37,))]
    smallmm.fuse(program.function, program.signature).ex(*arrays)
    a = torch.rand(37, *rng.integers(1, 9, 2) * 8, device="cuda")
    smallmm.fuse(lambda a: (a.sum(), np.linalg.norm(a), a.mean(axis=0)), "(m,n)").ex(a)


def main() -> None:
    for dtype, n in itertools.product(
        (torch.float32, torch.float64), (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32)
    ):
        batch = 37
        x = torch.rand(batch, n, n, device="cuda", dtype=dtype)
        y = torch.rand(batch, n, n, device="cuda", dtype=dtype)
        odd = torch.rand(batch * n * n + 1, device="cuda", dtype=dtype)[1:].view(batch, n, n)
        apart = torch.rand(batch, n, 2 * n, device="cuda", dtype=dtype)[:, :, ::2]
        for a, b in [
            (x, y),
            (x.mT, y.mT),
            (odd, x),
            (apart, odd),
            (x[:1].expand_as(y), y),
            (x[:, :1], y[:, :, :1]),
        ]:
            c = smallmm.batched_matmul(a, b)
            expected = torch.matmul(a.double().cpu(), b.double().cpu())
            torch.testing.assert_close(c.double().cpu(), expected, rtol=1e-4, atol=1e-5)
        smallmm.batched_matmul(x, y, out=odd, alpha=2, beta=1)
        smallmm.batched_matmul(x, y, out=x)
        factor_and_solve(x, y)
        factor_and_solve(odd, apart)
        with_structure(x, apart)
        z = torch.complex(x, y), torch.complex(odd, y)
        of_complex_numbers(*z)
        with_structure(*z)
    for dtype, n in itertools.product((torch.float32, torch.float64), (3, 9, 12, 14, 16, 20, 24, 29, 32)):
        x = torch.rand(4099, n, n, device="cuda", dtype=dtype)  # enough for the kernels of full batches
        for one in (x[0], x[0, :, : n // 2 + 1].contiguous()):
            smallmm.batched_matmul(x, one)
            smallmm.batched_matmul(one.mT, x)
            smallmm.batched_matmul(one.mT, x.mT)
        for a in (x, x.mT):
            smallmm.inv_ex(a)
            smallmm.lu_factor_ex(a)
        smallmm.solve_ex(x, x[..., :1])
        smallmm.cholesky_ex(x)
    for dtype, (n, m) in itertools.product((torch.float32, torch.float64), ((4, 2), (9, 3), (20, 8))):
        fused_steps(n, m, dtype)
    for seed in range(24):
        random_steps(seed)
    torch.cuda.synchronize()
    print("done")


if __name__ == "__main__":
    main()

"""Calls of the operators that `patch_torch` patches, and what their results must agree in: the same table for
tensors on the host (test_patch_torch.py) and on a device (cuda/test_device_patch.py)."""

from functools import partial

import torch
from toggles import serving

import smallmm

REALS = (torch.float32, torch.float64)
DTYPES = (*REALS, torch.complex64, torch.complex128)
aten = torch.ops.aten
serving = partial(serving, "torch")

# How results compare: "close", element by element; or what must be equal to what they were computed from.
OPERATORS = {
    "bmm": (lambda a, b: aten.bmm(a, b), "close"),
    "bmm_out": (lambda a, b: torch.bmm(a, b, out=torch.empty_like(a).mT), "close"),
    "baddbmm": (lambda a, b: aten.baddbmm(b, a, b, beta=-0.5, alpha=2), "close"),
    "baddbmm of vectors": (lambda a, b: torch.baddbmm(b[0, 0], narrow(a).mT, b), "close"),
    "inv_ex": (lambda a, b: aten.linalg_inv_ex(a), "close"),
    "cholesky_ex": (lambda a, b: aten.linalg_cholesky_ex(positive(a)), "close"),
    "cholesky_ex upper": (lambda a, b: aten.linalg_cholesky_ex(positive(a), upper=True), "close"),
    "lu_factor_ex": (lambda a, b: aten.linalg_lu_factor_ex(a), "factors"),
    "solve_ex": (lambda a, b: aten._linalg_solve_ex(a, b), "factors"),
    "solve vectors": (lambda a, b: aten._linalg_solve_ex(a, b[..., 0]), "factors"),
    "det": (lambda a, b: aten._linalg_det(a), "factors"),
    "slogdet": (lambda a, b: aten._linalg_slogdet(a), "factors"),
    "eigh": (lambda a, b: aten._linalg_eigh(positive(a)), "eigh"),
    "eigh upper": (lambda a, b: aten._linalg_eigh(positive(a), "U"), "eigh"),
    "eigvalsh": (lambda a, b: aten._linalg_eigh(positive(a), "L", False), "close"),
    "svd": (lambda a, b: aten._linalg_svd(a), "svd"),
    "svd tall": (lambda a, b: aten._linalg_svd(narrow(a)), "svd"),
    "svd wide": (lambda a, b: aten._linalg_svd(narrow(a).mT), "svd"),
    "svd full": (lambda a, b: aten._linalg_svd(narrow(a), True), "svd"),
    "svdvals": (lambda a, b: aten._linalg_svd(a, False, False), "close"),
    "cholesky_solve": (lambda a, b: aten._cholesky_solve_helper(b, L.cholesky(positive(a)), False), "close"),
    "cholesky_solve upper": (
        lambda a, b: aten._cholesky_solve_helper(narrow(b), L.cholesky(positive(a), upper=True), True),
        "close",
    ),
    "solve_triangular": (lambda a, b: aten.linalg_solve_triangular(a, b, upper=True), "close"),
    "solve_triangular lower": (lambda a, b: aten.linalg_solve_triangular(a, narrow(b), upper=False), "close"),
    "solve_triangular right": (
        lambda a, b: aten.linalg_solve_triangular(a, narrow(b).mT, upper=True, left=False),
        "close",
    ),
    "solve_triangular unit": (
        lambda a, b: aten.linalg_solve_triangular(
            a / (8 * a.shape[-1]), b, upper=False, left=False, unitriangular=True
        ),
        "close",
    ),
    "solve_triangular of A^H": (lambda a, b: aten.linalg_solve_triangular(a.mH, b, upper=True), "close"),
    "lu_solve": (lambda a, b: aten.linalg_lu_solve(*L.lu_factor(a), narrow(b)), "close"),
    "lu_solve right": (lambda a, b: aten.linalg_lu_solve(*L.lu_factor(a), narrow(b).mT, left=False), "close"),
    "lu_solve adjoint": (lambda a, b: aten.linalg_lu_solve(*L.lu_factor(a), b, adjoint=True), "close"),
    "lu_solve right adjoint": (
        lambda a, b: aten.linalg_lu_solve(*L.lu_factor(a), b, left=False, adjoint=True),
        "close",
    ),
    "ldl_factor_ex": (lambda a, b: aten.linalg_ldl_factor_ex(a), "close"),
    "ldl_factor_ex hermitian": (lambda a, b: aten.linalg_ldl_factor_ex(positive(a), hermitian=True), "close"),
    "ldl_solve": (lambda a, b: aten.linalg_ldl_solve(*L.ldl_factor(a), narrow(b)), "close"),
    "ldl_solve hermitian": (
        lambda a, b: aten.linalg_ldl_solve(*L.ldl_factor(positive(a), hermitian=True), b, hermitian=True),
        "close",
    ),
    "qr": (lambda a, b: aten.linalg_qr(a), "close"),
    "qr tall": (lambda a, b: aten.linalg_qr(narrow(a)), "close"),
    "qr wide": (lambda a, b: aten.linalg_qr(narrow(a).mT), "close"),
    "qr complete": (lambda a, b: aten.linalg_qr(narrow(a), "complete"), "close"),
    "qr r": (lambda a, b: aten.linalg_qr(narrow(a), "r"), "close"),
    "qr r wide": (lambda a, b: aten.linalg_qr(narrow(a).mT, "r"), "close"),
    "lstsq": (lambda a, b: aten.linalg_lstsq(a, b), "close"),
    "lstsq tall": (lambda a, b: aten.linalg_lstsq(narrow(a), b), "close"),
    "lstsq wide": (lambda a, b: aten.linalg_lstsq(narrow(a).mT, narrow(b).mT), "close"),
    "lstsq vectors": (lambda a, b: aten.linalg_lstsq(narrow(a), b[..., 0]), "close"),
    "matrix_exp": (lambda a, b: aten.linalg_matrix_exp(a / (4 * a.shape[-1] ** 0.5)), "close"),
    "eig": (lambda a, b: aten.linalg_eig(a), "eig"),
    "eigvals": (lambda a, b: aten._linalg_eigvals(a), "spectrum"),
}

# Their overloads with out=: of what they are called, with which options, and the names of the results.
WITH_OUT = {
    aten.bmm.out: (lambda a, b: (a, b), {}, ("out",)),
    aten.baddbmm.out: (lambda a, b: (b.mT, a, b), {"beta": 2}, ("out",)),
    aten.linalg_inv_ex.inverse: (lambda a, b: (a,), {}, ("inverse", "info")),
    aten.linalg_cholesky_ex.L: (lambda a, b: (positive(a),), {}, ("L", "info")),
    aten.linalg_lu_factor_ex.out: (lambda a, b: (a,), {}, ("LU", "pivots", "info")),
    aten._linalg_solve_ex.result: (lambda a, b: (a, b), {}, ("result", "LU", "pivots", "info")),
    aten._linalg_det.result: (lambda a, b: (a,), {}, ("result", "LU", "pivots")),
    aten._linalg_slogdet.sign: (lambda a, b: (a,), {}, ("sign", "logabsdet", "LU", "pivots")),
    aten._linalg_eigh.eigenvalues: (
        lambda a, b: (positive(a), "L", True),
        {},
        ("eigenvalues", "eigenvectors"),
    ),
    aten._linalg_svd.U: (lambda a, b: (a, False, True), {}, ("U", "S", "Vh")),
    aten.linalg_eig.out: (lambda a, b: (a,), {}, ("eigenvalues", "eigenvectors")),
    aten.linalg_eigvals.out: (lambda a, b: (a,), {}, ("out",)),
    aten._cholesky_solve_helper.out: (lambda a, b: (b, L.cholesky(positive(a)), False), {}, ("out",)),
    aten.linalg_solve_triangular.out: (lambda a, b: (a, b), {"upper": True, "left": False}, ("out",)),
    aten.linalg_lu_solve.out: (lambda a, b: (*L.lu_factor(a), b), {"left": False}, ("out",)),
    aten.linalg_ldl_factor_ex.out: (lambda a, b: (a,), {}, ("LD", "pivots", "info")),
    aten.linalg_ldl_solve.out: (lambda a, b: (*L.ldl_factor(a), b), {}, ("out",)),
    aten.linalg_qr.out: (lambda a, b: (narrow(a), "complete"), {}, ("Q", "R")),
    aten.linalg_lstsq.out: (
        lambda a, b: (narrow(a), b),
        {},
        ("solution", "residuals", "rank", "singular_values"),
    ),
    aten.linalg_matrix_exp.out: (lambda a, b: (a / 8,), {}, ("out",)),
}
OUTS = {
    "rows": lambda x: torch.empty_like(x, memory_format=torch.contiguous_format),
    "columns": lambda x: torch.empty_like(x.mT, memory_format=torch.contiguous_format).mT,
    "every second": lambda x: x.new_empty((*x.shape, 2))[..., 0],
    "empty": lambda x: x.new_empty(0),
    "of another shape": lambda x: x.new_empty(2),
}


def out_case(overload, n, dtype, device, batch=(5,)):
    """Arguments of an overload with out=, the names of results, and both overloads with their options."""
    arguments, options, names = WITH_OUT[overload]
    functional = aten._linalg_eigvals if overload is aten.linalg_eigvals.out else overload.overloadpacket
    given = arguments(*operands(n, batch, dtype, device))
    return given, names, partial(functional, **options), partial(overload, **options)


# Functions that call them, and have derivatives
L = torch.linalg
FUNCTIONS = {
    "bmm": lambda a: a @ a,
    "baddbmm": lambda a: torch.baddbmm(*3 * [a.reshape(-1, *a.shape[-2:])], beta=0.5).reshape(a.shape),
    "inv": L.inv,
    "cholesky": lambda a: L.cholesky(a @ a.mH + torch.eye(a.shape[-1], device=a.device)),
    "cholesky_solve": lambda a: torch.cholesky_solve(
        a, L.cholesky(a @ a.mH + torch.eye(a.shape[-1], device=a.device))
    ),
    "solve_triangular": lambda a: L.solve_triangular(a, a @ a, upper=True),
    "solve_triangular right": lambda a: L.solve_triangular(a.mH, a @ a, upper=False, left=False),
    # PyTorch 2.13's derivatives of LU are wrong within vmap
    "lu_solve": lambda a: L.lu_solve(
        *L.lu_factor(torch.eye(a.shape[-1], dtype=a.dtype, device=a.device) + 1), a
    ),
    "qr": lambda a: L.qr(a[..., :2]),
    "lstsq": lambda a: L.lstsq(a[..., :2], a)[0],
    "matrix_exp": L.matrix_exp,
    "solve": lambda a: L.solve(a, a @ a),
    "solve vectors": lambda a: L.solve(a, a[..., 0]),
    "det": L.det,
    "det of columns": lambda a: L.det(a.mT),
    "slogdet": lambda a: L.slogdet(a)[1],
    "eigh": lambda a: L.eigh(a + a.mH)[0],
    "eigvalsh": lambda a: L.eigvalsh(a + a.mH),
    "svd": lambda a: (lambda u, s, vh: (s, (u * s.unsqueeze(-2)) @ vh))(*L.svd(a)),
    "svdvals": L.svdvals,
    "eigvals": lambda a: L.eigvals(a).abs().sum(-1),
}


def narrow(a):
    """Half of its columns."""
    return a[..., : (a.shape[-1] + 1) // 2]


def positive(a):
    """Hermitian and positive definite, but for numbers above the diagonal that need not be read."""
    return a @ a.mH + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def operands(n, batch, dtype, device, seed=0):
    """Well-conditioned matrices, and others of the same shape, row-major."""
    generator = torch.Generator().manual_seed(seed + n)
    real = torch.float64
    shape = (*batch, n, n)
    a, b = (torch.randn(shape, generator=generator, dtype=real) for _ in range(2))
    if dtype.is_complex:
        a, b = (x + 1j * torch.randn(shape, generator=generator, dtype=real) for x in (a, b))
    a = a + 2 * n**0.5 * torch.eye(n, dtype=real)
    return a.to(dtype).to(device), b.to(dtype).to(device)


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT.contiguous().mT,
    "every second": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "batch last": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    "broadcast": lambda x: x[:1].expand(x.shape),
    "offset": lambda x: torch.cat([x[:1], x])[1:],
    "conjugated": lambda x: x.conj(),
    "negated": lambda x: torch.complex(x, -x).conj().imag if not x.is_complex() else x,
}


def leaves(results):
    return list(results) if isinstance(results, tuple | list) else [results]


def near(x, y, n):
    """Up to rounding."""
    if not (x.is_floating_point() or x.is_complex()):
        assert torch.equal(x, y)
        return
    eps = torch.finfo(x.dtype).eps
    x, y = x.to("cpu"), y.to("cpu")
    x, y = (x.to(torch.complex128), y.to(torch.complex128)) if x.is_complex() else (x.double(), y.double())
    if x.numel():
        error, scale = (x - y).abs().max().item(), max(1.0, y.abs().max().item())
        assert error <= 500 * n * eps * scale, (error, scale)


def assert_agrees(kind, call, a, b, ours, plain):
    ours, plain = leaves(ours), leaves(plain)
    for x, y in zip(ours, plain, strict=True):
        assert (x.shape, x.dtype, x.device) == (y.shape, y.dtype, y.device)
        if y.numel() > 1:  # of one element, strides may be anything
            significant = [d for d in range(y.ndim) if y.shape[d] > 1]
            assert [x.stride(d) for d in significant] == [y.stride(d) for d in significant], (
                x.stride(),
                y.stride(),
            )
    n = a.shape[-1]
    if kind == "close":
        for x, y in zip(ours, plain, strict=True):
            near(x, y, n)
    elif kind == "factors":  # a device's library may choose pivots of complex matrices otherwise
        lu = next(i for i, x in enumerate(ours) if x.dtype == torch.int32) - 1  # the pivots follow it
        for x, y in zip([*ours[:lu], *ours[lu + 2 :]], [*plain[:lu], *plain[lu + 2 :]], strict=True):
            near(x, y, n)
        factors = [torch.lu_unpack(*x[lu : lu + 2]) for x in (ours, plain)]
        near(*(p @ lower @ upper for p, lower, upper in factors), n)
        if not a.is_complex():
            assert torch.equal(ours[lu + 1], plain[lu + 1])
    elif kind == "eigh":
        near(ours[0], plain[0], n)
        near(positive(a) @ ours[1], ours[1] * ours[0].unsqueeze(-2), n)
    elif kind == "svd":
        u, s, vh = ours
        k = s.shape[-1]
        near(s, plain[1], n)
        near(
            (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :],
            (plain[0][..., :k] * s.unsqueeze(-2)) @ plain[2][..., :k, :],
            n,
        )
        near(u.mH @ u, torch.eye(u.shape[-1], dtype=u.dtype).expand(u.mH.shape[:-1] + u.shape[-1:]), n)
    else:
        distances = (ours[0].unsqueeze(-1) - plain[0].unsqueeze(-2)).abs()
        near(distances.min(-1).values, torch.zeros_like(ours[0].abs()), 10 * n)
        if kind == "eig":
            near(a.to(ours[1].dtype) @ ours[1], ours[1] * ours[0].unsqueeze(-2), n)


def served():
    """Matrices since PyTorch was last patched: by smallmm, and handed on."""
    rows = [row for row in smallmm.patch_report().rows if row.function.startswith("aten.")]
    ours = sum(row.matrices for row in rows if row.outcome == "served")
    return ours, sum(row.matrices for row in rows) - ours

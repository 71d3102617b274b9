"""What the tests on a device and those on the emulated one share: gufuncs, and operands for them. Without
pytest, which takes as long to import as all else that a process for the emulated GPU imports."""

import numpy as np
from matrices import deficient, extreme, good, nearly_deficient, normal, not_finite

from smallmm import _core

FACTORED = ["lu_factor", "inv", "det", "slogdet", "cholesky", "cholesky_upper"]
FACTORED += ["ldl_factor", "ldl_factor_upper", "ldl_factor_symmetric", "ldl_factor_symmetric_upper"]
SOLVED = ["solve", "lu_solve", "lu_solve_transposed", "cho_solve", "cho_solve_upper"]
SOLVED += ["solve_lower", "solve_upper", "solve_unit_lower", "solve_unit_upper"]
SOLVED += ["solve_pos", "solve_pos_upper", "solve_sym", "solve_sym_upper", "solve_her", "solve_her_upper"]
SOLVED += ["ldl_solve", "ldl_solve_upper", "ldl_solve_symmetric", "ldl_solve_symmetric_upper"]
SPECTRA = ["eig", "eigvals", "eigh", "eigh_upper", "eigvalsh", "eigvalsh_upper", "expm"]
CONDITIONS = ["lu_rcond", "lu_rcond_inf"]
REFINED = ["refine", "refine_extra"]
ERRORS = ["backward_error", "backward_error_extra", "backward_error_norm", "backward_error_norm_extra"]
SQUARE = FACTORED + SOLVED + SPECTRA + CONDITIONS + REFINED + ERRORS
TALL = [
    "qr_tall",
    "qr_complete",
    "qr_r_tall",
    "qr_raw_tall",
    "lstsq",
    "svd_tall",
    "svd_full_tall",
    "svdvals_tall",
]
WIDE = ["qr_complete", "qr_r_wide", "qr_raw_wide", "lstsq", "svd_wide", "svd_full_wide", "svdvals_wide"]
WITH_COLUMNS = [*SOLVED, "lstsq"]


def kinds(rng, m, n, dtype):
    """Good, hard and bad matrices, next to each other; symmetric ones among the square."""
    makers = (good, extreme, deficient, not_finite)
    stacks = [maker(rng, m, n, dtype) for maker in makers for _ in range(2)]
    if m == n:
        x = good(rng, n, n, dtype)
        stacks.append((x @ x.conj().mT + 0.01 * np.eye(n)).astype(dtype))
    a = np.concatenate(stacks)
    return a[rng.permutation(len(a))]


def operands(rng, name, a, k=2):
    """What a gufunc takes besides a, on the host."""
    if name in ("lu_solve", "lu_solve_transposed"):
        with np.errstate(all="ignore"):
            lu, pivots, _ = _core.lu_factor(a)
        return [lu, pivots, normal(rng, (*a.shape[:-1], k), a.dtype)]
    if name in CONDITIONS + REFINED + ERRORS:
        b = normal(rng, (*a.shape[:-1], k), a.dtype)
        with np.errstate(all="ignore"):
            lu, pivots, _ = _core.lu_factor(a)
            x = _core.reference(_core.lu_solve, lu, pivots, b) * a.dtype.type(1 + 2.0**-8)
            norm = np.abs(a).sum(-2).max(-1).astype(a.real.dtype)
        return (
            [lu, pivots, norm]
            if name in CONDITIONS
            else [a, lu, pivots, b, x]
            if name in REFINED
            else [a, x, b]
        )
    if name.startswith("ldl_solve"):
        ld, pivots, _ = getattr(_core, name.replace("solve", "factor"))(a)
        return [ld, pivots, normal(rng, (*a.shape[:-1], k), a.dtype)]
    if name == "lstsq":
        a = np.concatenate([nearly_deficient(rng, *a.shape[-2:], a.dtype), a])[: len(a)]
        return [a, normal(rng, (*a.shape[:-1], k), a.dtype), np.asarray(1e-6, a.real.dtype)]
    if name in WITH_COLUMNS:
        return [a, normal(rng, (*a.shape[:-1], k), a.dtype)]
    return [a]


def same_signs(x, y):
    """Of all parts that are numbers, zeros included."""
    parts = ((x.real, y.real), (x.imag, y.imag)) if x.dtype.kind == "c" else ((x, y),)
    return all((np.isnan(x) | (np.signbit(x) == np.signbit(y))).all() for x, y in parts)

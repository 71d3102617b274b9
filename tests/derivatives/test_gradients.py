"""Derivatives: each rule against central differences in NumPy; PyTorch's and JAX's own checks where they are
installed, of first and second order."""

from __future__ import annotations

import numpy as np
import pytest
from accuracy import as_tuple
from cases import GUFUNCS, adjoint, hermitian

import smallmm
from smallmm import _core
from smallmm._base.shapes import takes_complex
from smallmm._derivatives import backward, rules
from smallmm._libraries.recording import RULES as RULES_OF_ALL
from smallmm._libraries.recording import gradients
from smallmm._schur import general

STEP = 1e-6


RULES = {name: row.derivative for name, row in GUFUNCS.items() if row.derivative}
# Rules whose gufuncs take operands that are no random numbers; the functions below cover them
BY_FUNCTION = {
    "solve_banded",
    "refine",
    "refine_extra",
    "gemm",
    "matmul_tensor",
    "batched_matmul_tensor",
    "gemm_tensor",
    "lu_solve",
    "lu_solve_transposed",
    "ldl_solve",
    "ldl_solve_upper",
    "ldl_solve_symmetric",
    "ldl_solve_symmetric_upper",
    "lstsq",
    "lstsq_mixed",
    "solve_mixed_complex",
    "solve_mixed_pos_complex",
    "eig",
    "eigvals",
    *(name for name in RULES_OF_ALL if name.startswith("pinv")),
    "orthogonalize",
    "polar_left",
    "polar_right",
    "expm",
    "sqrtm",
    "logm_general",
    "powm_general",
}


def weighted(weights, results):
    return sum(float((w * x).sum()) for w, x in zip(weights, results, strict=False))


def check(rng, gufunc, operands, make, count, fixed=()):
    """The derivative of a random linear function of the results, along a random direction."""
    results = as_tuple(gufunc(make(operands[0]), *operands[1:], *fixed))
    weights = [rng.standard_normal(x.shape) for x in results[:count]]
    moved = [rng.standard_normal(x.shape) for x in operands]

    def value(t):
        first, *others = (x + t * d for x, d in zip(operands, moved, strict=True))
        return weighted(weights, as_tuple(gufunc(make(first), *others, *fixed)))

    expected = (value(STEP) - value(-STEP)) / (2 * STEP)
    whole = (make(operands[0]), *operands[1:], *fixed)
    grads = (*weights, *[None] * (len(results) - count))
    found = gradients(np, gufunc, whole, results, grads)
    for x, gradient in zip(whole, found, strict=True):
        assert gradient is None or gradient.shape == np.shape(x)
    along = (make(operands[0] + STEP * moved[0]) - make(operands[0] - STEP * moved[0])) / (2 * STEP)
    total = sum(
        float((g * d).sum()) for g, d in zip(found, (along, *moved[1:]), strict=False) if g is not None
    )
    assert total == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_every_rule_has_a_case():
    assert {*RULES} | BY_FUNCTION == {*RULES_OF_ALL}


@pytest.mark.parametrize("name", RULES)
def test_rule(rng, name):
    shapes, make, count = RULES[name]
    check(rng, getattr(_core, name), [rng.standard_normal(s) for s in shapes], make, count)


@pytest.mark.parametrize("real", [None, 0, 1])
@pytest.mark.parametrize("name", [x for x in RULES if takes_complex(getattr(_core, x))])
def test_rule_of_complex_numbers(rng, name, real):
    """In PyTorch's convention: the conjugate of the derivative; `real`: the operand that is, if there are
    several. Of eigenvectors and singular vectors see below."""
    shapes, make, count = RULES[name]
    gufunc = getattr(_core, name)
    has_phases = name.startswith(("eigh", "svd_"))

    def numbers(shape, i=None):
        x = rng.standard_normal((*shape, 2)) @ [1, 1j]
        return x.real if len(shapes) > 1 and i is not None and i == real else x

    operands, moved = ([numbers(s, i) for i, s in enumerate(shapes)] for _ in range(2))
    results = as_tuple(gufunc(make(operands[0]), *operands[1:]))
    weights = [
        numbers(x.shape) if x.dtype.kind == "c" else rng.standard_normal(x.shape) for x in results[:count]
    ]
    if has_phases:
        weights = [w if w.dtype.kind == "f" else None for w in weights]

    def value(t):
        first, *others = (x + t * d for x, d in zip(operands, moved, strict=True))
        moved_results = as_tuple(gufunc(make(first), *others))
        return sum(np.vdot(w, x).real for w, x in zip(weights, moved_results, strict=False) if w is not None)

    whole = (make(operands[0]), *operands[1:])
    grads = (*weights, *[None] * (len(results) - count))
    found = gradients(np, gufunc, whole, results, grads, conjugated=True)
    assert [x.dtype for x in found] == [x.dtype for x in whole]
    along = (make(operands[0] + STEP * moved[0]) - make(operands[0] - STEP * moved[0])) / (2 * STEP)
    total = sum((g.conj() * d).sum().real for g, d in zip(found, (along, *moved[1:]), strict=True))
    assert total == pytest.approx((value(STEP) - value(-STEP)) / (2 * STEP), rel=1e-6, abs=1e-7)


def test_derivatives_are_conjugated_for_jax(rng):
    a, w = rng.standard_normal((2, 3, 3, 2)) @ [1, 1j]
    for conjugated, x in ((False, w), (True, w.conj())):
        (found,) = gradients(np, _core.inv, (a,), (np.linalg.inv(a), None), (x, None), conjugated)
        expected = -np.linalg.inv(a).T @ w @ np.linalg.inv(a).T
        np.testing.assert_allclose(found, expected.conj() if conjugated else expected, rtol=1e-10)


def test_complex_vectors(rng):
    """Of projections on them, on which their phases have no influence."""
    a, w, moved = rng.standard_normal((3, 4, 4, 2)) @ [1, 1j]
    a, w, moved, d = hermitian(a), hermitian(w), hermitian(moved), np.arange(1.0, 5)

    def projected(t):
        v = _core.eigh(a + t * moved)[1]
        return np.vdot(w, v * d @ adjoint(v)).real

    values, v, info = _core.eigh(a)
    (found,) = gradients(np, _core.eigh, (a,), (values, v, info), (None, 2 * w @ v * d, None), True)
    expected = (projected(STEP) - projected(-STEP)) / (2 * STEP)
    assert np.vdot(found, moved).real == pytest.approx(expected, rel=1e-6)


@pytest.mark.where.with_args(lambda number: np.finfo(number).bits == 64)  # differences need digits
@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_general_matrices(rng, number, name):
    """Of real ones, too, whose eigenvalues are complex: as differences have it."""
    gufunc = getattr(_core, name)
    a, moved = rng.standard_normal((2, 3, 5, 5)).astype(number)
    if number.kind == "c":
        a = a + 1j * rng.standard_normal(a.shape)
    results = gufunc(a)
    weights = [rng.standard_normal((*x.shape, 2)) @ [1, 1j] for x in results[:-1]]

    def loss(t):
        w, *vectors = gufunc(a + t * moved)[:-1]
        own = (weights[0].conj() * w).real.sum()
        return own + sum((weights[1].real * np.abs(v) ** 2).sum() for v in vectors)

    grads = (weights[0], *(2 * weights[1].real * v for v in results[1:-1]), None)
    (found,) = gradients(np, gufunc, (a,), results, grads, True)
    assert found.dtype == number
    expected = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    assert np.vdot(found, moved).real == pytest.approx(expected, rel=1e-5)


@pytest.mark.where.with_args(lambda number: np.finfo(number).bits == 64)
@pytest.mark.parametrize("name", ["sqrtm", "logm", "powm"])
def test_functions_of_general_matrices(rng, number, name):
    """Of real and complex ones, whose results are complex: one eigenvalue is negative."""
    function = _core.sqrtm if name == "sqrtm" else general.composition_of_general(name)
    own = np.diag([4.0, 3.0, 2.0, -1.0]) + 0.3 * rng.standard_normal((4, 4))
    moved = rng.standard_normal((4, 4)).astype(number)
    a = own + 1j * rng.standard_normal(own.shape) if number.kind == "c" else own
    given = (a, np.asarray(0.3, number)) if name == "powm" else (a,)
    weights = rng.standard_normal((4, 4, 2)) @ [1, 1j]

    def loss(t):
        return np.vdot(weights, function(a + t * moved, *given[1:])[0]).real

    found, *_ = gradients(np, function, given, function(*given), (weights, None, None), True)
    assert found.dtype == number
    expected = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    assert np.vdot(found, moved).real == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("name", "shape"), [("svd_tall", (5, 3)), ("svd_wide", (3, 5))])
def test_complex_singular_vectors(rng, name, shape):
    a, w, moved = rng.standard_normal((3, *shape, 2)) @ [1, 1j]
    gufunc, d = getattr(_core, name), np.arange(1.0, 4)

    def product(t):
        u, _, vh, _ = gufunc(a + t * moved)
        return np.vdot(w, u * d @ vh).real

    u, s, vh, info = gufunc(a)
    grads = (w @ adjoint(vh) * d, None, d[:, None] * (adjoint(u) @ w), None)
    (found,) = gradients(np, gufunc, (a,), (u, s, vh, info), grads, True)
    expected = (product(STEP) - product(-STEP)) / (2 * STEP)
    assert np.vdot(found, moved).real == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("alpha", [2.5, np.array([2.0, -3.0])])
def test_scaled_product(rng, alpha):
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 2))
    w = rng.standard_normal((2, 3, 2))
    ta, tb, t_alpha, _ = gradients(np, _core.gemm, (a, b, alpha, 0.0), (None,), (w,))
    scale = np.reshape(alpha, (-1, 1, 1))
    np.testing.assert_allclose(ta, scale * w @ b.mT, rtol=1e-13)
    np.testing.assert_allclose(tb, (scale * a.mT @ w).sum(axis=0), rtol=1e-13)
    if np.ndim(alpha):
        np.testing.assert_allclose(t_alpha, (w * (a @ b)).sum(axis=(1, 2)), rtol=1e-13)


@pytest.mark.parametrize("name", ["lu_solve", "lu_solve_transposed"])
def test_solutions_from_factors(rng, name):
    lu, pivots, _ = _core.lu_factor(rng.standard_normal((2, 3, 3)))
    b, w = rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3, 2))
    moved, gufunc = rng.standard_normal(lu.shape), getattr(_core, name)
    found = gradients(np, gufunc, (lu, pivots, b), (gufunc(lu, pivots, b),), (w,))
    ends = [(w * gufunc(lu + t * moved, pivots, b)).sum() for t in (STEP, -STEP)]
    assert (found[0] * moved).sum() == pytest.approx((ends[0] - ends[1]) / (2 * STEP), rel=1e-6)
    direction = rng.standard_normal(b.shape)
    assert (found[2] * direction).sum() == pytest.approx((w * gufunc(lu, pivots, direction)).sum(), rel=1e-12)


@pytest.mark.parametrize("suffix", ["", "_upper", "_symmetric", "_symmetric_upper"])
@pytest.mark.parametrize("parts", [[1], [1, 1j]], ids=["real", "complex"])
@pytest.mark.parametrize("has_diagonal", [True, False])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_solutions_from_symmetric_factors(rng, suffix, parts, has_diagonal, n):
    """Of exchanged rows and blocks of any order, for derivatives of both functions, one after the other."""

    def numbers(*shape):
        return rng.standard_normal((*shape, len(parts))) @ parts

    turned = np.matrix_transpose if "symmetric" in suffix else adjoint
    a = numbers(3, n, n)
    a = (a + turned(a)) / 2 * (1 if has_diagonal else 1 - np.eye(n)) + np.eye(n) * (has_diagonal or n % 2)
    b, w = numbers(3, n, 2), numbers(3, n, 2)
    factor, solve = (getattr(_core, f"ldl_{name}{suffix}") for name in ("factor", "solve"))
    ld, pivots, info = factor(a)
    x = solve(ld, pivots, b)
    t_ld, _, tb = gradients(np, solve, (ld, pivots, b), x, (w, None), True)
    moved = numbers(*ld.shape)
    moved = np.triu(moved) if "upper" in suffix else np.tril(moved)
    ends = [np.vdot(w, solve(ld + t * moved, pivots, b)[0]).real for t in (STEP, -STEP)]
    assert np.vdot(t_ld, moved).real == pytest.approx((ends[0] - ends[1]) / (2 * STEP), rel=1e-5)
    (ta,) = gradients(np, factor, (a,), (ld, pivots, info), (t_ld, None, None), True)
    expected = -tb @ adjoint(x[0])
    np.testing.assert_allclose(ta, (expected + turned(expected)) / 2, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("lower", "m", "n"), [(1, 3, 5), (2, 3, 4), (0, 3, 4), (1, 4, 2), (0, 1, 3), (1, 3, 1)]
)
def test_banded_systems(rng, lower, m, n):
    ab, b, w = rng.standard_normal((2, m, n)), rng.standard_normal((n, 2)), rng.standard_normal((2, n, 2))
    ab[:, m - 1 - lower] += 9
    along = rng.standard_normal(ab.shape), rng.standard_normal(b.shape)

    def value(t):
        return (w * smallmm.solve_banded((lower, m - 1 - lower), ab + t * along[0], b + t * along[1])).sum()

    x = smallmm.solve_banded((lower, m - 1 - lower), ab, b)
    ta, _, tb = gradients(np, _core.solve_banded, (ab, np.int32(lower), b), (x, None), (w, None))
    expected = (value(STEP) - value(-STEP)) / (2 * STEP)
    assert (ta * along[0]).sum() + (tb * along[1]).sum() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["refine", "refine_extra"])
def test_refined_solutions(rng, name):
    """Their derivative is that of the solution, whatever the factors and the first solution are."""
    a, b, w = rng.standard_normal((2, 4, 4)), rng.standard_normal((2, 4, 3)), rng.standard_normal((2, 4, 3))
    lu, pivots = smallmm.lu_factor(a)
    x = smallmm.solve(a, b)
    ta, *others, tb, tx = gradients(
        np, getattr(_core, name), (a, lu, pivots, b, x), (x, None, None), (w, None, None)
    )
    assert (*others, tx) == (None, None, None)
    for found, expected in zip(
        (ta, tb), gradients(np, _core.solve, (a, b), (x, None), (w, None)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 3, 5), (2, 3, 3)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_least_squares(rng, shape, columns):
    a, b = rng.standard_normal(shape), rng.standard_normal((shape[1], *columns))
    count = 2 if shape[1] > shape[2] else 1  # otherwise the residual is rounding errors
    check(rng, _core.lstsq, [a, b], lambda a: a, count, (np.asarray(1e-12),))


def cofactors(a):
    minors = [
        [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(len(a))]
        for i in range(len(a))
    ]
    return np.array(minors)


SINGULAR = {
    "order 1": [[0.0]],
    "rank 1 of 2": [[1.0, 2.0], [2.0, 4.0]],
    "rank 2 of 3": [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [7.0, 8.0, 10.0]],
    "rank 1 of 3": [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "zero pivots alone": np.eye(20, k=1),
    "zero": np.zeros((3, 3)),
}


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("factor", [1.0, 2j])
def test_determinants_of_singular_matrices(rng, name, factor):
    """Their derivatives are cofactors."""
    a = np.array(SINGULAR[name]) * factor
    a = np.stack([a, a + 3 * np.eye(len(a))])
    assert np.array_equal(_core.inv(a)[1] != 0, [True, False])
    (found,) = gradients(np, _core.det, (a,), (_core.det(a),), (np.ones(2),))
    for x, y in zip(found, a, strict=True):
        expected = cofactors(y)
        np.testing.assert_allclose(x, expected, atol=1e-13 * max(1, np.abs(expected).max()))


def test_norms_of_exact_solutions(rng):
    """Residuals of 0 are minima of their norms."""
    a = rng.standard_normal((4, 2))
    b, w = np.zeros((4, 1)), np.ones(1)
    results = _core.lstsq(a, b, 0.0)
    found = gradients(np, _core.lstsq, (a, b, 0.0), results, (None, w, None, None))
    assert not np.any(found[0])
    assert not np.any(found[1])


def test_values_alone_of_repeated_eigenvalues(rng):
    """Only vectors have no derivative there."""
    a = np.broadcast_to(np.eye(3), (2, 3, 3))
    w, v, info = _core.eigh(a)
    (found,) = gradients(np, _core.eigh, (a,), (w, v, info), (np.ones_like(w), None, None))
    np.testing.assert_allclose(found, a, atol=1e-15)


# --- whole functions, as PyTorch and JAX call them ---------------------------------------------------------


def cases(xp, eye):
    """name: (function, shapes of its arguments)"""

    def sym(a):
        return (a + a.mT) / 2

    def low(a):
        return xp.tril(a) + 3 * eye(a.shape[-1])

    def spd(a):
        return a @ a.mT + 3 * eye(a.shape[-1])

    return {
        "matmul": (smallmm.matmul, [(2, 3, 4), (4,)]),
        "batched_matmul": (lambda a, b: smallmm.batched_matmul(a, b, alpha=2.5), [(3, 4), (2, 4, 2)]),
        "solve": (smallmm.solve, [(2, 3, 3), (3,)]),
        "solve left": (lambda a, b: smallmm.solve(a, b, left=False), [(2, 3, 3), (2, 3)]),
        "inv": (smallmm.inv, [(2, 3, 3)]),
        "slogdet": (lambda a: smallmm.slogdet(a)[1], [(2, 3, 3)]),
        "cholesky": (lambda a: smallmm.cholesky(spd(a)), [(2, 3, 3)]),
        "cho_solve": (lambda a, b: smallmm.cho_solve((low(a), True), b), [(2, 3, 3), (3, 2)]),
        "lu": (lambda a, b: smallmm.lu_solve(smallmm.lu_factor(a)[:2], b, 1), [(2, 3, 3), (3, 2)]),
        "solve_triangular": (
            lambda a, b: smallmm.solve_triangular(low(a), b, lower=True, trans=1), [(2, 3, 3), (3, 2)]
        ),
        "ldl": (lambda a, b: smallmm.ldl_solve(*smallmm.ldl_factor(sym(a)), b), [(2, 3, 3), (3, 2)]),
        "mixed": (lambda a, b: smallmm.linsolve(a, b, precision="mixed"), [(2, 3, 3), (3, 2)]),
        "mixed least squares": (lambda a, b: smallmm.lstsq(a, b, precision="mixed")[0], [(2, 5, 3), (5, 2)]),
        "tridiagonal": (
            lambda dl, d, du, b: smallmm.solve_tridiagonal(dl, d + 5, du, b), [(2, 3), (2, 4), (3,), (4, 2)]
        ),
        "banded": (
            lambda ab, b: smallmm.solve_banded((1, 1), ab + 9 * eye(3)[:, 1:2], b), [(3, 4), (2, 4, 2)]
        ),
        "refine": (
            lambda a, b: smallmm.refine(a, *smallmm.lu_factor(a)[:2], b, smallmm.solve(a, b))[0],
            [(3, 3), (3, 2)],
        ),
        "qr": (smallmm.qr, [(2, 4, 3)]),
        "lstsq": (lambda a, b: smallmm.lstsq(a, b)[:2], [(2, 5, 3), (5, 2)]),
        "eigh": (lambda a: smallmm.eigh(sym(a)), [(2, 4, 4)]),
        "svd": (lambda a: smallmm.svd(a, full_matrices=False), [(2, 4, 3)]),
        "svdvals": (smallmm.svdvals, [(2, 3, 4)]),
        "pinv": (smallmm.pinv, [(2, 4, 3)]),
        "expm": (smallmm.expm, [(2, 3, 3)]),
        "polar": (smallmm.polar, [(2, 4, 3)]),
        "polar of wide": (smallmm.polar, [(2, 2, 3)]),
        "polar left": (lambda a: smallmm.polar(a, "left"), [(2, 3, 4)]),
        "orthogonalize": (smallmm.orthogonalize, [(2, 4, 3)]),
        "cov": (smallmm.cov, [(2, 5, 3)]),
        "corr": (smallmm.corr, [(2, 5, 3)]),
        "whiten": (smallmm.whiten, [(2, 7, 3)]),
        "whiten zca": (lambda a: smallmm.whiten(a, method="zca", eps=0.1), [(2, 7, 3)]),
        "ridge": (lambda a, b: smallmm.ridge(a, b, 0.5, intercept=True), [(2, 5, 3), (5,)]),
        "sliding": (lambda a: smallmm.sliding(a, 2, step=2), [(2, 5, 3)]),
        "sqrtm": (lambda a: smallmm.sqrtm(spd(a), assume_a="sym"), [(2, 3, 3)]),
        "sqrtm of general": (lambda a: smallmm.sqrtm((1 + 0j) * (4 * eye(3) + a)), [(2, 3, 3)]),
        "logm of general": (lambda a: smallmm.logm((1 + 0j) * (4 * eye(3) + a)), [(2, 3, 3)]),
        "powm of general": (lambda a: smallmm.powm((1 + 0j) * (4 * eye(3) + a), 0.3), [(2, 3, 3)]),
        "factors of lu": (lambda a: smallmm.lu(4 * eye(3) + a)[1:], [(2, 3, 3)]),
        "matrix_norm": (smallmm.matrix_norm, [(2, 4, 3)]),
        "cond": (smallmm.cond, [(2, 3, 3)]),
        "trace": (smallmm.trace, [(2, 4, 4)]),
        "matrix_power": (lambda a: smallmm.matrix_power(a, -2), [(2, 3, 3)]),
        "multi_dot": (lambda a, b, c: smallmm.multi_dot([a, b, c]), [(2, 3), (3, 4), (4, 2)]),
        "einsum": (lambda a, b: smallmm.einsum("bij,bjk->bik", a, b), [(2, 3, 3), (2, 3, 2)]),
    }  # fmt: skip


NAMES = sorted(cases(np, np.eye))
# Of the others PyTorch checks second derivatives by the same rules: JAX compiles half a second for each.
TWICE_BY_JAX = {"solve", "slogdet", "cholesky", "lu", "qr", "lstsq", "eigh", "svd", "expm", "einsum"}


def complex_cases(xp, eye):
    """The same of complex arguments, without structures and roundings that are real numbers' only. Results
    do not depend on phases of vectors."""

    def sym(a):
        return (a + adjoint(a)) / 2

    def spd(a):
        return a @ adjoint(a) + 3 * eye(a.shape[-1])

    def of_eigenvectors(a):
        w, v = smallmm.eigh(sym(a))
        return w, (v * (w + 1)[..., None, :]) @ v[..., :1, :].conj().mT

    def of_general(a):
        w, v = smallmm.eig(a)
        return w, (v * (w + 1)[..., None, :]) @ v[..., :1, :].conj().mT

    def of_singular_vectors(a):
        u, s, vh = smallmm.svd(a, full_matrices=False)
        return (u * (s + 1)[..., None, :]) @ vh

    def norms(a):
        return [smallmm.matrix_norm(a, ord=p) for p in ("fro", "nuc", 1, 2)]

    real = cases(xp, eye)
    names = (
        "matmul", "batched_matmul", "solve", "solve left", "inv", "qr", "lstsq", "svdvals", "pinv", "expm",
        "polar", "polar of wide", "polar left", "orthogonalize", "cov", "whiten", "ridge", "sliding",
        "cond", "trace", "matrix_power", "multi_dot", "einsum",
    )  # fmt: skip
    return {name: real[name] for name in names} | {
        "of adjoints": (lambda a, b: smallmm.matmul(adjoint(a), b.conj()), [(2, 3, 4), (3, 2)]),
        "vecmat": (smallmm.vecmat, [(2, 3), (3, 4)]),
        "scaled": (
            lambda a, b, c: smallmm.batched_matmul(a, b, alpha=c) * (2 - 1j), [(2, 3, 4), (4, 2), (2,)]
        ),
        "det": (smallmm.det, [(2, 3, 3)]),
        "slogdet": (lambda a: tuple(smallmm.slogdet(a)), [(2, 3, 3)]),
        "cholesky": (lambda a: smallmm.cholesky(spd(a)), [(2, 3, 3)]),
        "cholesky upper": (lambda a: smallmm.cholesky(spd(a), upper=True), [(3, 3)]),
        "cho_solve": (lambda a, b: smallmm.cho_solve((a, True), b), [(2, 3, 3), (3, 2)]),
        "cho_solve upper": (lambda a, b: smallmm.cho_solve((a, False), b), [(3, 3), (2, 3, 2)]),
        "lu": (lambda a, b: smallmm.lu_solve(smallmm.lu_factor(a)[:2], b, 1), [(3, 3), (2, 3, 1)]),
        "lu adjoint": (lambda a, b: smallmm.lu_solve(smallmm.lu_factor(a)[:2], b, 2), [(3, 3), (3,)]),
        "ldl": (lambda a, b: smallmm.ldl_solve(*smallmm.ldl_factor(sym(a)), b), [(2, 3, 3), (3, 2)]),
        "ldl symmetric": (
            lambda a, b: smallmm.ldl_solve(
                *smallmm.ldl_factor(a + a.mT, lower=False, hermitian=False), b, lower=False, hermitian=False
            ), [(3, 3), (2, 3, 2)],
        ),
        "solve_her": (lambda a, b: smallmm.solve(sym(a), b, assume_a="her"), [(2, 3, 3), (3, 2)]),
        "solve_sym": (lambda a, b: smallmm.solve(a + a.mT, b, assume_a="sym"), [(3, 3), (2, 3, 2)]),
        "solve_triangular": (
            lambda a, b: smallmm.solve_triangular(a + 3 * eye(3), b, lower=True, trans=2), [(2, 3, 3), (3, 2)]
        ),
        "qr wide": (smallmm.qr, [(2, 3, 4)]),
        "qr r": (lambda a: smallmm.qr(a, mode="r"), [(4, 3)]),
        "lstsq wide": (lambda a, b: smallmm.lstsq(a, b)[0], [(2, 3, 4), (3,)]),
        "lstsq mixed": (lambda a, b: smallmm.lstsq(a, b, precision="mixed")[0], [(2, 5, 3), (5, 2)]),
        "eig": (of_general, [(2, 3, 3)]),
        "eigvals": (smallmm.eigvals, [(2, 4, 4)]),
        "eigh": (of_eigenvectors, [(2, 3, 3)]),
        "eigvalsh": (lambda a: smallmm.eigvalsh(sym(a)), [(2, 4, 4)]),
        "svd": (of_singular_vectors, [(2, 4, 3)]),
        "svd wide": (of_singular_vectors, [(3, 4)]),
        "sqrtm": (lambda a: smallmm.sqrtm(spd(a), assume_a="sym"), [(3, 3)]),
        "norms": (norms, [(2, 4, 3)]),
        "vector_norm": (lambda a: smallmm.vector_norm(a, ord=3), [(4,)]),
        "cross": (smallmm.cross, [(2, 3), (3,)]),
    }  # fmt: skip


COMPLEX_NAMES = sorted(complex_cases(np, np.eye))


def complex_arguments(rng, shapes):
    return [rng.standard_normal((*shape, 2)) @ [1, 1j] for shape in shapes]


class TestTorch:
    @pytest.mark.parametrize("word", ["diagonal", "tridiagonal", "upper triangular"])
    @pytest.mark.parametrize("function", [smallmm.solve, smallmm.linsolve])
    def test_of_what_is_read(self, torch, function, word):
        """The other elements of A are no zeros, and have no gradient."""
        for number in (torch.float64, torch.complex128):
            a = (torch.randn(2, 3, 3, dtype=number) + 5 * torch.eye(3)).requires_grad_()
            b = torch.randn(2, 3, 1, dtype=number, requires_grad=True)
            assert torch.autograd.gradcheck(lambda a, b: function(a, b, assume_a=word), (a, b))

    @pytest.mark.parametrize("name", COMPLEX_NAMES)
    def test_gradcheck_of_complex_numbers(self, torch, rng, name):
        function, shapes = complex_cases(torch, lambda n: torch.eye(n, dtype=torch.float64))[name]
        x = [torch.from_numpy(x).requires_grad_() for x in complex_arguments(rng, shapes)]
        assert torch.autograd.gradcheck(function, x, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, x, fast_mode=True)
        forward = {"check_forward_ad": True, "check_backward_ad": False}
        assert torch.autograd.gradcheck(function, x, fast_mode=True, **forward)

    @pytest.mark.parametrize("is_real", [0, 1])
    def test_real_and_complex_operands(self, torch, rng, is_real):
        x = complex_arguments(rng, [(2, 3, 3), (3, 2)])
        x[is_real] = x[is_real].real.copy()
        x = [torch.from_numpy(y).requires_grad_() for y in x]
        for function in (smallmm.matmul, smallmm.solve, smallmm.linsolve):
            assert torch.autograd.gradcheck(function, x, fast_mode=True)

    @pytest.mark.parametrize("p", [1, 2, 3, np.inf])
    def test_norms_of_complex_zeros(self, torch, p):
        """As PyTorch's: elements that are 0 harm nobody."""
        x = torch.tensor([1 + 1j, 0, 3j, 2], dtype=torch.complex128)
        found, expected = (
            torch.autograd.grad(norm(y), y)[0]
            for norm, y in (
                (lambda y: smallmm.vector_norm(y, ord=p), x.clone().requires_grad_()),
                (lambda y: torch.linalg.vector_norm(y, p), x.clone().requires_grad_()),
            )
        )
        torch.testing.assert_close(found, expected)

    @pytest.mark.parametrize("numbers", [np.float64, np.complex128])
    @pytest.mark.parametrize("elements", [[0, 0, 0], [0, 1, -2]])
    def test_norms_of_zeros(self, torch, numbers, elements):
        """As PyTorch's: 0 for elements that are 0, also where the norm is."""
        x = torch.from_numpy(np.array(elements, numbers))
        for p in (0.5, 1, 1.5, 2, 3, np.inf, -0.5, -1, -2, -np.inf):
            found, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
            smallmm.vector_norm(found, ord=p).backward()
            torch.linalg.vector_norm(expected, p).backward()
            torch.testing.assert_close(found.grad, expected.grad, msg=str(p))
        matrix = x.repeat(2, 1).requires_grad_()
        smallmm.norm(matrix * 0).backward()
        assert not matrix.grad.any()

    @pytest.mark.parametrize(
        "function", [lambda x: smallmm.matrix_power(x, 0), lambda x: smallmm.vector_norm(x, ord=0)]
    )
    def test_constant_results(self, torch, function):
        x = torch.tensor([[np.nan, 1.0], [2.0, 3.0]], requires_grad=True)
        function(x).sum().backward()
        assert torch.equal(x.grad, torch.zeros(2, 2))

    @pytest.mark.parametrize("hermitian", [True, False])
    @pytest.mark.parametrize("lower", [True, False])
    def test_symmetric_factors_of_order_0(self, torch, lower, hermitian):
        a, b = torch.zeros(2, 0, 0, requires_grad=True), torch.zeros(0, 3, requires_grad=True)
        options = {"lower": lower, "hermitian": hermitian}
        ld, pivots, *_ = smallmm.ldl_factor(a, **options)
        (ld.sum() + smallmm.ldl_solve(ld, pivots, b, **options).sum()).backward()
        assert (a.grad.shape, b.grad.shape) == (a.shape, b.shape)

    @pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 3, 0), (2, 0, 3), (0, 3, 2)])
    def test_factors_without_elements(self, torch, shape):
        for function in (smallmm.lu_factor, smallmm.lu):
            a = torch.zeros(shape, requires_grad=True)
            sum(x.sum() for x in function(a) if x.requires_grad).backward()
            assert a.grad.shape == a.shape
        torch.autograd.gradcheck(lambda a: smallmm.lu(a)[1:], torch.eye(3, 2).double().requires_grad_())

    def test_factors_of_many_rows(self, torch):
        """More than kernels of solves with factors take."""
        a = torch.arange(600.0, dtype=torch.float64).sin().reshape(300, 2).requires_grad_()
        torch.autograd.gradcheck(lambda a: smallmm.lu_factor(a).LU, a, fast_mode=True)

    def test_second_derivatives_of_singular_determinants(self, torch):
        a = torch.tensor(SINGULAR["rank 2 of 3"], dtype=torch.float64)
        x = torch.stack([a, a + torch.eye(3)]).requires_grad_()
        assert torch.autograd.gradcheck(smallmm.det, x)
        assert torch.autograd.gradgradcheck(smallmm.det, x)
        found = torch.vmap(torch.func.grad(smallmm.det))(x.detach())
        (expected,) = torch.autograd.grad(smallmm.det(x).sum(), x)
        torch.testing.assert_close(found, expected)

    @pytest.mark.parametrize("name", NAMES)
    def test_gradcheck(self, torch, rng, name):
        function, shapes = cases(torch, lambda n: torch.eye(n, dtype=torch.float64))[name]
        x = [torch.from_numpy(rng.standard_normal(shape)).requires_grad_() for shape in shapes]
        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x, fast_mode=True)

    @pytest.mark.parametrize("name", ["solve", "qr"])
    def test_gradcheck_in_forward_mode(self, torch, rng, name):
        function, shapes = cases(torch, lambda n: torch.eye(n, dtype=torch.float64))[name]
        x = [torch.from_numpy(rng.standard_normal(shape)).requires_grad_() for shape in shapes]
        assert torch.autograd.gradcheck(function, x, check_forward_ad=True, check_backward_ad=False)
        assert torch.autograd.gradgradcheck(
            function, x, fast_mode=True, check_fwd_over_rev=True, check_rev_over_rev=False,
            check_undefined_grad=False,
        )  # fmt: skip

    def test_complex_numbers_in_forward_mode(self, torch, rng):
        a, b = (
            torch.from_numpy(rng.standard_normal((*s, 2)) @ [1, 1j]).requires_grad_()
            for s in [(2, 3, 3), (3, 2)]
        )
        real = torch.from_numpy(rng.standard_normal((3, 3))).requires_grad_()
        check = torch.autograd.gradcheck
        assert check(smallmm.solve, (a, b), check_forward_ad=True, check_backward_ad=False)
        assert check(smallmm.matmul, (real, b), check_forward_ad=True, check_backward_ad=False)

    def test_what_it_refuses(self, torch):
        x = torch.eye(3).repeat(2, 1, 1).requires_grad_()
        with pytest.raises(TypeError, match=r"inv: out is given, but a derivative is wanted"):
            smallmm.inv(x, out=torch.empty(2, 3, 3))
        with pytest.raises(TypeError, match=r"svd: a .* requires a gradient, which smallmm does not compute"):
            smallmm.svd(x[:, :2])

    def test_svd_of_square_matrices(self, torch, rng):
        """Of which U and Vh are those of the reduced one."""
        x = torch.from_numpy(rng.standard_normal((2, 3, 3))).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: smallmm.svd(x), x)

    def test_square_q_of_tall_matrices(self, torch):
        q, _ = smallmm.qr(torch.rand(4, 3).requires_grad_(), mode="complete")
        with pytest.raises(NotImplementedError, match="qr: no derivative of mode 'complete'"):
            q.sum().backward()

    def test_a_singular_matrix(self, torch):
        x = torch.stack([torch.eye(3), torch.zeros(3, 3)]).double().requires_grad_()
        smallmm.inv_ex(x).inverse.nansum().backward()
        assert torch.isfinite(x.grad[0]).all()
        with pytest.raises(smallmm.LinAlgError, match="inv: 1 of 2 matrices"):
            smallmm.inv(x)

    def test_training(self, torch, rng):
        """Parameters of a linear filter are found again from what it gave."""
        a = torch.from_numpy(rng.standard_normal((50, 3, 3))) + 4 * torch.eye(3, dtype=torch.float64)
        truth = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
        target = smallmm.solve(a, truth[:, None])
        guess = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([guess], max_iter=50)

        def loss():
            optimizer.zero_grad()
            error = ((smallmm.solve(a, guess[:, None]) - target) ** 2).sum()
            error.backward()
            return error

        optimizer.step(loss)
        assert torch.allclose(guess, truth, atol=1e-6)


class TestJax:
    @pytest.fixture
    def jax(self, jax):
        pytest.importorskip("jax.test_util")
        with jax.enable_x64(True):
            yield jax

    @pytest.mark.parametrize("name", NAMES)
    def test_transformations(self, jax, rng, name):
        xp = jax.numpy
        function, shapes = cases(xp, xp.eye)[name]
        x = [xp.asarray(rng.standard_normal(shape)) for shape in shapes]
        # Compiled: without, JAX compiles each of many steps by itself, which takes longer.
        found = jax.jit(jax.vmap(function))(*(xp.stack([y + 1, y]) for y in x))
        for y, z in zip(jax.tree.leaves(found), jax.tree.leaves(function(*x)), strict=True):
            assert y.dtype == z.dtype
            np.testing.assert_allclose(y[1], z, rtol=1e-10, atol=1e-12)
        order = 2 if name in TWICE_BY_JAX else 1
        jax.test_util.check_grads(jax.jit(function), x, order=order, modes=["rev"], rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize(
        "name",
        [
            "scaled",
            "solve",
            "slogdet",
            "cholesky",
            "lu adjoint",
            "qr",
            "lstsq",
            "eig",
            "eigh",
            "svd",
            "svdvals",
        ],
    )
    def test_transformations_of_complex_numbers(self, jax, rng, name):
        """Gradients are derivatives: their products with a change add up to that of the loss."""
        xp = jax.numpy
        x, moved = (complex_arguments(rng, complex_cases(np, np.eye)[name][1]) for _ in range(2))

        def loss(namespace, function, weights, *x):
            results = jax.tree.leaves(function(*x))
            return sum(namespace.sum((y * w).real) for y, w in zip(results, weights, strict=True))

        def value(t):
            return loss(np, function, weights, *(y + t * d for y, d in zip(x, moved, strict=True)))

        function, _ = complex_cases(np, np.eye)[name]
        weights = complex_arguments(rng, [np.shape(y) for y in jax.tree.leaves(function(*x))])
        traced = jax.value_and_grad(
            lambda *x: loss(xp, complex_cases(xp, xp.eye)[name][0], weights, *x), tuple(range(len(x)))
        )
        values, grads = jax.jit(jax.vmap(traced))(*(xp.stack([y + 1, y]) for y in x))
        assert values[1] == pytest.approx(value(0), rel=1e-10)
        total = sum((g[1] * d).sum().real for g, d in zip(grads, moved, strict=True))
        assert total == pytest.approx((value(STEP) - value(-STEP)) / (2 * STEP), rel=1e-6, abs=1e-7)

    def test_second_derivatives_of_complex_numbers(self, jax, rng):
        (x,) = complex_arguments(rng, [(2, 2)])
        jax.test_util.check_grads(
            jax.jit(smallmm.inv), [jax.numpy.asarray(x)], order=2, modes=["rev"], rtol=1e-3, atol=1e-4
        )

    @pytest.mark.parametrize("name", ["solve", "slogdet"])
    def test_forward_mode(self, jax, rng, name):
        xp = jax.numpy
        function, shapes = cases(xp, xp.eye)[name]
        x = [xp.asarray(rng.standard_normal(shape)) for shape in shapes]
        jax.test_util.check_grads(
            lambda *x: function(*map(xp.asarray, x)), x, order=1, modes=["fwd", "rev"], rtol=1e-3, atol=1e-4
        )
        moved = [xp.asarray(rng.standard_normal(shape)) for shape in shapes]
        _, found = jax.jvp(function, x, moved)
        _, linear = jax.linearize(function, *x)
        compiled = jax.jit(lambda x, t: jax.jvp(function, x, t)[1])(x, moved)
        for other in (linear(*moved), compiled):
            for y, z in zip(jax.tree.leaves(found), jax.tree.leaves(other), strict=True):
                np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-12)

    def test_mixed_orders(self, jax, rng):
        """Of a stack mapped together with a matrix that is not."""
        a, b = (jax.numpy.asarray(rng.standard_normal(s)) for s in ((2, 3, 3), (3, 2)))

        def value(a):
            return (smallmm.solve(a, b) ** 2).sum()

        expected = jax.vmap(jax.jacrev(jax.jacrev(value)))(a)
        for hessian in (jax.hessian(value), jax.jacrev(jax.jacfwd(value)), jax.jacfwd(jax.jacfwd(value))):
            found = jax.jit(jax.vmap(hessian))(a)
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)

    def test_tangents_of_singular_matrices(self, jax):
        xp = jax.numpy
        a = xp.stack([2 * xp.eye(3), xp.zeros((3, 3))])
        _, found = jax.jvp(lambda a: smallmm.inv_ex(a).inverse, (a,), (xp.ones_like(a),))
        np.testing.assert_array_equal(found[0], np.full((3, 3), -0.25))
        assert np.isnan(found[1]).all()

    def test_singular_determinants(self, jax):
        a = jax.numpy.asarray(SINGULAR["rank 2 of 3"])
        a = jax.numpy.stack([a, a + jax.numpy.eye(3)])
        expected = np.stack([cofactors(x) for x in a])
        found = jax.grad(lambda x: smallmm.det(x).sum())(a)
        np.testing.assert_allclose(found, expected, atol=1e-13)
        found = jax.jit(jax.vmap(jax.grad(smallmm.det)))(a)
        np.testing.assert_allclose(found, expected, atol=1e-13)

    @pytest.mark.parametrize("p", [0.5, 2, 3])
    def test_norm_of_zeros(self, jax, p):
        assert not jax.grad(lambda x: smallmm.vector_norm(x, ord=p))(jax.numpy.zeros(3)).any()

    @pytest.mark.parametrize("name", ["qr", "svdvals", "eigvals", "slogdet", "lu"])
    def test_strict_promotion(self, jax, rng, name):
        """What the caller's code may not do is no matter of smallmm's."""
        xp = jax.numpy
        function, shapes = {**cases(xp, xp.eye), "eigvals": (smallmm.eigvals, [(2, 3, 3)])}[name]
        x = [xp.asarray(rng.standard_normal(s)) for s in shapes]

        def loss(*x):
            return sum((y * y).real.sum() for y in jax.tree.leaves(function(*x)))

        expected = jax.grad(loss)(*x)
        with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
            np.testing.assert_allclose(jax.grad(loss)(*x), expected, rtol=1e-10)

    def test_some_are_mapped(self, jax, rng):
        a, b = (jax.numpy.asarray(rng.standard_normal(s)) for s in ((5, 3, 3), (2, 3, 4)))
        found = jax.vmap(smallmm.solve, in_axes=(0, None))(a, b)
        np.testing.assert_array_equal(found, smallmm.solve(a[:, None], b))
        vectors = jax.vmap(smallmm.solve, in_axes=(None, 0))(a[0], b[0].T)
        np.testing.assert_array_equal(vectors, smallmm.solve(a[0], b[0].T[..., None])[..., 0])

    def test_a_singular_matrix_is_nan(self, jax):
        x = jax.numpy.stack([jax.numpy.eye(2), jax.numpy.zeros((2, 2))])
        assert np.isnan(jax.jit(smallmm.inv)(x)).tolist() == [[[False] * 2] * 2, [[True] * 2] * 2]

    def test_errors(self, jax):
        with pytest.raises(ValueError, match=r"solve: b has shape \(2, 3\)"):
            jax.jit(smallmm.solve)(jax.numpy.eye(3), jax.numpy.ones((2, 3)))


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_gradients_that_nobody_wants(torch, monkeypatch, rng, wanted):
    """They are not steps of the pass: of a constant factor, and of the matrix of a system."""
    products = []
    monkeypatch.setattr(backward, "_of_gufuncs", {})  # passes are recorded once
    monkeypatch.setattr(rules, "matmul", lambda *x, **options: products.append(x) or smallmm.matmul(*x))
    a, b = (torch.from_numpy(rng.random((3, 4, 4))).requires_grad_(x) for x in wanted)
    smallmm.matmul(a, b).sum().backward()
    assert len(products) == sum(wanted)
    smallmm.solve(a, b).sum().backward()
    assert len(products) == sum(wanted) + wanted[0]
    assert [x.grad is not None for x in (a, b)] == list(wanted)
    products.clear()
    torch.func.jvp(lambda y: smallmm.matmul(a.detach(), y), (b.detach(),), (b.detach(),))
    assert len(products) == 2  # the rule, and its transpose

"""Fused functions: the bits of the separate calls, whatever the shapes, layouts, batch and threads; what can
be recorded; errors; chains."""

import pickle
import re

import layouts
import numpy as np
import pytest
from accuracy import as_tuple
from cases import DRAWN
from random_programs import random_numbers, random_program

import smallmm
import smallmm._core as core
from smallmm import fuse
from smallmm._base.shapes import PRODUCTS
from smallmm._programs import long_sums
from smallmm._programs.fused import Fused
from smallmm._programs.interpreter import Runner, interpret

SEED = 11


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def positive(rng, n, batch=(), dtype=np.float64):
    a = rng.standard_normal((*batch, n, n))
    return (a @ a.mT + n * np.eye(n)).astype(dtype)


def separately(function, *arrays, **options):
    """The results of a fused function, step by step on whole stacks."""
    operands = function._operands(arrays)
    plan = function._plan(operands, options)
    runner = Runner(plan.record, operands, np)
    results, _ = interpret(runner, plan.results, plan.steps, with_info=False)
    return plan.make(results)


def assert_same(a, b):
    a, b = (x if isinstance(x, tuple) else (x,) for x in (a, b))
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        np.testing.assert_array_equal(x, y)


S, V, M = "()", "(n)", "(n,n)"

# name: (signature, function)
RECORDED = {
    "arithmetic": ("(),(),()", lambda a, b, c: (a + b * c - a / 3, -a, +b, abs(c), 2 - a, 1 / b)),
    "powers": ("(),()", lambda a, b: (a**2, abs(a) ** 0.5, abs(a) ** 1.5, a**3, a**-1, abs(a) ** b, 2.0**a)),
    "comparisons": ("(),()", lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b)),
    "logic": ("(),()", lambda a, b: ((a < b) & (a > 0), (a < b) | (b > 0), ~(a < b))),
    "where": ("(),()", lambda a, b: (np.where(a < b, a, b), np.where(a > 0, 1.0, a), np.where(a < 0, b, 0))),
    "numpy": (
        "(n),(n)",
        lambda a, b: (
            np.sqrt(np.abs(a)),
            np.exp(a),
            np.log(np.abs(a)),
            np.minimum(a, b),
            np.maximum(a, 0),
            np.sign(a),
            np.floor(a),
            np.ceil(b),
            np.square(a),
            np.clip(a, -0.5, 0.5),
            np.copysign(a, b),
            np.reciprocal(a),
            np.isnan(a),
            np.isfinite(b),
            np.isinf(a),
            np.add(a, 1),
            np.subtract(1, b),
            np.power(a, 2),
        ),
    ),
    "reductions": (
        "(m,n)",
        lambda a: (
            a.sum(),
            np.sum(a, axis=0),
            a.sum(axis=1, keepdims=True),
            a.mean(),
            np.max(a),
            a.min(axis=-1),
            np.prod(a, axis=0),
            np.cumsum(a, axis=1),
            a.max(axis=(0, 1)),
            np.any(a > 1),
            (a > -9).all(axis=0),
        ),
    ),
    "views": (
        "(m,n)",
        lambda a: (
            a.mT,
            a.T,
            a[0],
            a[:, -1],
            a[1:, :2],
            a[::-1],
            a[..., ::2],
            a[0, 1],
            a[None],
            np.swapaxes(a, 0, 1),
            a.reshape(-1),
            np.diagonal(a),
            np.transpose(a),
            np.ravel(a.mT),
            np.broadcast_to(a[0], (4, a.shape[1])),
        ),
    ),
    "joined": (
        "(m,n),(n)",
        lambda a, b: (
            np.concatenate([a, b[None]], axis=0),
            np.stack([b, b * 2]),
            np.stack([a, -a], axis=-1),
            np.concatenate([a.mT, b[:, None], a.mT], axis=1),
            np.hstack([b, b]),
            np.vstack([a, b]),
        ),
    ),
    "triangles": (
        "(n,n)",
        lambda a: (np.tril(a), np.triu(a, 1), np.diag(np.diagonal(a)), np.trace(a), np.zeros_like(a)),
    ),
    "products": (
        "(m,n),(n),(n,k),(m)",
        lambda a, x, b, y: (
            a @ x,
            a @ b,
            y @ a,
            x @ x,
            smallmm.vecmat(y, a),
            np.matmul(a, b).mT,
            np.dot(a, x),
            smallmm.matvec(a, x),
            smallmm.outer(y, x),
            np.linalg.outer(y, x),
            np.vecdot(x, x),
        ),
    ),
    "einsum": (
        "(m,n),(n,k)",
        lambda a, b: (
            np.einsum("ij,jk->ik", a, b),
            np.einsum("ij,ij->", a, a),
            np.einsum("ij->ji", a),
            np.einsum("ij,jk,lk->il", a, b, b),
            np.einsum("ij->i", a),
        ),
    ),
    "few diagonals": (
        "(n,n),(n)",
        lambda a, x: (
            smallmm.solve_banded((1, 1), a, x),
            smallmm.solve_banded((2, 0), a, x),
            smallmm.linsolve(a, x, assume_a="banded", bandwidths=(0, 1)),
            smallmm.solve_tridiagonal(x[1:], x, x[:-1], x),
        ),
    ),
    "solves": (
        "(n,n),(n),(n,k)",
        lambda a, x, b: (
            smallmm.solve(a, x),
            smallmm.solve(a, b),
            np.linalg.inv(a),
            np.linalg.det(a),
            *np.linalg.slogdet(a),
            smallmm.lu_solve(smallmm.lu_factor(a), b),
            smallmm.solve(a.mT, b),
            smallmm.solve_triangular(a, b, lower=True),
            smallmm.solve_triangular(a, x, trans=1),
        ),
    ),
    "positive": (
        "(n,n),(n,k)",
        lambda a, b: (
            lower := np.linalg.cholesky(a @ a.mT + np.eye(a.shape[-1], dtype=a.dtype)),
            smallmm.cho_solve((lower, True), b),
            smallmm.cholesky(a @ a.mT + a.shape[-1] * np.eye(a.shape[-1], dtype=a.dtype), upper=True),
        ),
    ),
    "factorizations": ("(m,n)", lambda a: (*smallmm.qr(a), *smallmm.qr(a.mT), smallmm.qr(a, mode="r"))),
    "spectra": (
        "(m,n)",
        lambda a: (
            *np.linalg.eigh(a @ a.mT),
            smallmm.eigvalsh(a.mT @ a),
            *np.linalg.svd(a, full_matrices=False),
            smallmm.svdvals(a),
        ),
    ),
    "least squares": ("(m,n),(m,k)", lambda a, b: smallmm.lstsq(a, b).x),
    "norms": (
        "(m,n),(n)",
        lambda a, x: (
            np.linalg.norm(a),
            np.linalg.norm(x),
            smallmm.vector_norm(x, ord=1),
            smallmm.matrix_norm(a, ord=1),
            smallmm.matrix_norm(a, ord=np.inf),
            smallmm.norm(x, np.inf),
            np.linalg.norm(x * 1e30),
            smallmm.matrix_norm(a, ord=2),
        ),
    ),
    "functions": (
        "(m,n)",
        lambda a: (
            smallmm.pinv(a),
            smallmm.sqrtm(a @ a.mT + np.eye(a.shape[-2], dtype=a.dtype), assume_a="sym"),
            smallmm.matrix_power(a @ a.mT, 3),
            np.linalg.cross(a[:3, 0], a[:3, 1]),
        ),
    ),
    "parts": (
        "(m,n),(n)",
        lambda a, x: (
            a.conj(),
            a.real,
            np.imag(a[1:]),
            np.conjugate(a.mT) @ a,
            a.imag * x,
            a * x.real,
            abs(a),
            np.where(a.real > 0, a, x),
            np.where(a == x, a.imag, 0),
            a.mT.real + 1j,
            1j * a - 2,
            np.vdot(x, x),
            np.vecdot(x, x * 2j),
            a.mean(axis=0),
            a.reshape(-1).conj()[::2],
            a.astype(np.complex128),
            np.isnan(a) | np.isinf(a),
            np.isfinite(a),
            np.trace(a[:3].conj()),
        ),
    ),
    "hermitian": (
        "(m,n),(n,k)",
        lambda a, b: (
            gram := np.conj(a.mT) @ a + np.eye(a.shape[-1], dtype=a.real.dtype),
            lower := smallmm.cholesky(gram),
            smallmm.cho_solve((lower, True), b),
            *smallmm.eigh(gram),
            smallmm.lu_solve(smallmm.lu_factor(gram), b, trans=2),
            smallmm.solve_triangular(lower, b, lower=True, trans="C"),
            smallmm.sqrtm(gram, assume_a="her"),
            smallmm.cond(gram),
            smallmm.matrix_rank(gram),
        ),
    ),
    "input": ("(n,n)", lambda a: (a, a.mT, a)),
    "constant": ("(n,n)", lambda a: (np.ones(3), a + np.arange(a.shape[-1]), 2.0)),
}

SHAPES = {
    "(m,n)": (5, 3),
    "(n,k)": (3, 2),
    "(n)": (3,),
    "(m)": (5,),
    "(n,n)": (3, 3),
    "(m,k)": (5, 2),
    "()": (),
}


# What has an order, or needs a positive definite or symmetric matrix that is not Hermitian
REAL_ONLY = {"powers", "comparisons", "logic", "where", "numpy", "reductions", "positive", "functions"}
DTYPES = [(name, dtype) for name in RECORDED for dtype in "fdFD" if dtype in "fd" or name not in REAL_ONLY]


def operands(rng, signature, batches, dtype):
    cores = re.findall(r"\([^)]*\)", signature)
    shapes = [(*batches[i % len(batches)], *SHAPES[core]) for i, core in enumerate(cores)]
    if np.dtype(dtype).kind != "c":
        return [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    return [(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(("name", "dtype"), DTYPES)
def test_bits_are_those_of_separate_calls(name, dtype, rng):
    signature, function = RECORDED[name]
    fused = fuse(function, signature)
    for batches in ([()], [(1,)], [(7,)], [(300,), ()], [(2, 1, 40), (3, 1)], [(5, 1), (70,)], [(0,)]):
        arrays = operands(rng, signature, batches, dtype)
        assert_same(tuple(fused(*arrays)), tuple(separately(fused, *arrays)))


@pytest.mark.parametrize(("name", "dtype"), [x for x in DTYPES if x[1] in "dD"])
def test_layout_does_not_matter(name, dtype, rng):
    signature, function = RECORDED[name]
    fused = fuse(function, signature)
    arrays = operands(rng, signature, [(50,)], dtype)
    expected = fused(*arrays)
    for change in (
        np.asfortranarray,
        lambda x: x[::-1].copy()[::-1],
        lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
    ):
        assert_same(tuple(fused(*map(change, arrays))), tuple(expected))


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_functions(first):
    """Chains of steps that nobody chose have the values of NumPy, and the bits of separate calls."""
    for seed in range(first, first + 25):
        rng = np.random.default_rng(seed)
        case = random_program(rng)
        fused = fuse(case.function, case.signature)
        batch = [(), (3,), (2, 2)][seed % 3]
        given = case.inputs(rng, batch)
        results = fused(*given)
        assert_same(results, separately(fused, *given))
        for i in np.ndindex(batch):
            for x, y in zip(results, case.function(*(x[i] for x in given)), strict=True):
                assert (x.dtype, x[i].shape) == (y.dtype, y.shape), case.describe()
                size = 1 + np.abs(y).max(initial=0)
                np.testing.assert_allclose(
                    x[i], y, rtol=0, atol=case.tolerance * size, err_msg=f"{seed}: {case.describe()}"
                )


OF_MATRICES = {
    "cumsum": lambda a: np.cumsum(a),
    "reshape": lambda a: a.reshape(-1),
    "reshape of a transpose": lambda a: a.T.reshape(a.shape),
    "norm": lambda a: np.linalg.norm(a),
    "norms": lambda a: np.linalg.norm(a, axis=0),
    "sums": lambda a: a.sum(axis=0),
    "largest": lambda a: a.max(axis=1, keepdims=True),
    "joined": lambda a: np.concatenate([a, a[::-1]], axis=1),
    "elements": lambda a: np.sqrt(1 + a.T * a.T),
    "product": lambda a: a.T @ a,
    "stack": lambda a: np.stack([a, 2 * a]).ravel(),
}


@pytest.mark.parametrize("dtype", "dFi")
@pytest.mark.parametrize("name", OF_MATRICES)
def test_strides_do_not_matter(name, dtype, rng):
    """Also from call to call, which keep a program, and without batch dimensions."""
    if name == "largest" and dtype == "F":
        return
    function = OF_MATRICES[name]
    fused = fuse("(m,n)")(function)
    for own in ((3, 2), (2, 3), (1, 4), (4, 1), (8, 8)):
        for batch in [(), (), (), (5,), (2, 3)] * 3:
            a = (4 * rng.standard_normal((*batch, *own)) + (1j if dtype == "F" else 0)).astype(dtype)
            given = layouts.at_random(rng, a)
            if batch and rng.random() < 0.3:
                a = given = np.broadcast_to(given[:1], given.shape)
            result = fused(given)
            for i in np.ndindex(batch):
                np.testing.assert_allclose(result[i], function(a[i]), rtol=1e-5)


def test_strides_of_contractions_do_not_matter(rng):
    b1, d, u = rng.standard_normal((2, 3)), rng.standard_normal((2, 2, 2)), rng.standard_normal((3, 3, 3))
    expected = smallmm.sum_factorized(b1, d, u)
    for _ in range(10):
        given = (layouts.at_random(rng, x) for x in (b1, d, u))
        np.testing.assert_array_equal(smallmm.sum_factorized(*given), expected)


@pytest.mark.parametrize("isa", core.isas_available())
@pytest.mark.parametrize("name", ["kalman_step", "gaussian_logpdf", "whiten"])
def test_every_instruction_set(isa, name, rng):
    arrays = chain_arguments(rng, name, (333,))
    fused = getattr(smallmm, name)
    best = core.isa()
    try:
        core.select_isa(isa)
        result, expected = fused(*arrays), separately(fused, *arrays)
    finally:
        core.select_isa(best)
    assert_same(
        tuple(np.atleast_1d(result)) if not isinstance(result, tuple) else result,
        tuple(np.atleast_1d(expected)) if not isinstance(expected, tuple) else expected,
    )


def test_threads_do_not_matter(rng):
    arrays = chain_arguments(rng, "kalman_step", (20001,))
    results = []
    for count in (1, 2, 3):
        with smallmm.threads(count):
            results.append(smallmm.kalman_step(*arrays))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])
    some = smallmm.kalman_step(*(x[77:78] if x.ndim > 1 and len(x) == 20001 else x for x in arrays))
    np.testing.assert_array_equal(some.x[0], results[0].x[77])


def good_operands(gufunc, dims, rng):
    """Stacks of 20 without bad matrices."""
    name = gufunc.__name__
    if name not in DRAWN:
        return [
            rng.standard_normal((20, *({"m": 5, "k": 4, "n": 3}[x.strip("?")] for x in own))) for own in dims
        ]
    given = DRAWN[name].operands(rng, 5, 5, np.dtype(float))
    results = as_tuple(core.reference(gufunc, *given))
    good = np.all([np.isfinite(x.reshape(len(x), -1)).all(1) for x in (*given, *results)], 0)
    return [np.resize(x[good], (20, *x.shape[1:])) for x in given]


# gemm's output is an input, too.
@pytest.mark.parametrize("name", [*DRAWN, *(x for x in sorted(PRODUCTS) if not x.startswith("gemm"))])
def test_every_gufunc(name, rng):
    gufunc = getattr(core, name)
    dims = [x.split(",") if x else () for x in re.findall(r"\(([^)]*)\)", gufunc.signature.split("->")[0])]
    given = good_operands(gufunc, dims, rng)
    names = [x for x, direction, *_ in core.operations[core.gufunc_rows[name][0]] if direction == "in"]
    fused = fuse(
        lambda *x: x[0].take_call(name, gufunc, dict(zip(names, x, strict=False))),
        ",".join(f"({','.join(own).replace('?', '')})" for own in dims),
    )
    assert name in str(fused.explain(*given))
    assert_same(fused(*given), gufunc(*given))


# --- complex numbers ---


def complex_numbers(rng, *shape, dtype=np.complex128):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("isa", core.isas_available())
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_arithmetic_is_that_of_the_kernels(dtype, isa, rng):
    """Products and quotients of numbers are products and systems of order 1."""
    scale = np.exp(rng.uniform(-40, 40, 700))[:, None] if dtype == np.complex64 else 1e150
    x, y = complex_numbers(rng, 700, 5, dtype=dtype), (complex_numbers(rng, 700, 5) * scale).astype(dtype)
    a, b = x[..., None, None], y[..., None, None]
    best = core.isa()
    try:
        core.select_isa(isa)
        product, quotient = fuse(lambda x, y: (x * y, x / y))(x, y)
        np.testing.assert_array_equal(product, smallmm.matmul(a, b)[..., 0, 0])
        np.testing.assert_array_equal(quotient, smallmm.solve(b, a)[..., 0, 0])
    finally:
        core.select_isa(best)
    wide = np.clongdouble
    exact, u = x.astype(wide) * y, np.finfo(dtype).eps
    finite = np.isfinite(exact.astype(dtype))
    assert (abs(product - exact) <= 4 * u * abs(exact))[finite].all()
    exact = x.astype(wide) / y
    normal = abs(exact) > np.finfo(dtype).tiny / u
    assert (abs(quotient - exact) <= 16 * u * abs(exact))[normal].all()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_beyond_the_ordinary(dtype):
    parts = np.array([0.0, -0.0, 1.5, -np.inf, np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny])
    x = np.empty(64, dtype)
    x.real, x.imag = (y.ravel() for y in np.meshgrid(parts, parts))

    def exact(x):
        classes = np.isnan(x), np.isinf(x), np.isfinite(x)
        return -x, x.conj(), x + x[()], x.real, x.imag, x == x, x != x, *classes

    found = fuse(exact)(x)
    with np.errstate(all="ignore"):
        expected = exact(x)
        sizes = np.abs(x.astype(np.clongdouble)).astype(x.real.dtype)
    assert_same(found, expected)
    ours = fuse(lambda x: abs(x))(x)
    known = ~np.isnan(x)
    np.testing.assert_allclose(ours[known], sizes[known], rtol=3 * np.finfo(dtype).eps)
    assert np.isnan(fuse(lambda x: x / 0)(x[:1] * 0)).all()


def test_complex_dtypes_follow_numpy(rng):
    add = fuse(lambda a, b: a + b)
    for first in "?lfdFD":
        for second in "FD":
            x, y = np.ones(3, first), (2 - 1j) * np.ones(3, second)
            assert_same(add(x, y), x + y)
            assert_same(add(y, x), y + x)
    c8 = np.ones(3, np.complex64)
    assert fuse(lambda a: a * 2.5j + True)(c8).dtype == np.complex64
    assert fuse(lambda a: a * np.complex128(2))(c8).dtype == np.complex128
    assert fuse(lambda a: a + 1j)(np.ones(3, np.float32)).dtype == np.complex64
    assert fuse(lambda a: np.where(a > 0, a, 1j))(np.ones(3)).dtype == np.complex128
    assert_same(fuse(lambda a: a.real + a.conj())(np.arange(3.0)), 2 * np.arange(3.0))
    assert_same(fuse(lambda a: a.imag)(np.ones(3)), np.zeros(3))
    assert_same(add(c8.astype(">c8"), c8), c8 + c8)
    solved = fuse(lambda a, b: smallmm.solve(a, b), "(n,n),(n)")(np.eye(3) * 2, c8)
    assert_same(solved, np.full(3, 0.5, np.complex128))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (np.expm1, "f: expm1 of complex numbers"),
        (np.log1p, "f: log1p of complex numbers"),
        (np.floor, "f: floor of complex numbers"),
        (lambda x: np.arctan2(x, 1), "f: arctan2 of complex numbers"),
        (lambda x: np.maximum(x, 1), "f: maximum of complex numbers"),
        (lambda x: x < 1, "f: less of complex numbers"),
        (lambda x: x.astype(np.float64), "f: astype.float64. of complex numbers; use .real"),
    ],
)
def test_what_complex_numbers_do_not_have(function, text):
    def f(x):
        return function(x)

    with pytest.raises(TypeError, match=text):
        fuse(f)(np.ones(3, complex))


COMPLEX_FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "root": lambda x: x**0.5,
    "cube": lambda x: x**3,
    "whole": lambda x: x**-7,
    "one": lambda x: x**0,
    "power": lambda x: x ** (0.3 - 1.2j),
    "powers": lambda x: np.power(x, np.conj(x) - 0.5),
    "of a real": lambda x: np.power(2.5, x),
}


@pytest.mark.parametrize("isa", core.isas_available())
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
def test_functions_of_complex_numbers(name, dtype, isa, rng):
    function = COMPLEX_FUNCTIONS[name]
    fused, x = fuse(function), complex_numbers(rng, 333, 5, dtype=dtype)
    best = core.isa()
    try:
        core.select_isa(isa)
        result = fused(x)
        assert_same(result, separately(fused, x))
        assert_same(fused(x[::-2, 1:]), result[::-2, 1:])
    finally:
        core.select_isa(best)
    assert result.dtype == dtype
    exact = function(x.astype(np.clongdouble))
    # of powers the error of y log x counts
    bound = 12 * np.maximum(abs(np.log(abs(exact))), 1) if "power" in name or name == "of a real" else 12
    assert (abs(result - exact) <= bound * np.finfo(dtype).eps * abs(exact)).all()


def test_tangents_do_not_overflow():
    x = np.array([1 + 700j, -2 - 1e300j, 0.5 + 45j, complex(3, np.inf), complex(0, np.nan)])
    np.testing.assert_allclose(fuse(np.tan)(x)[:4], [1j, -1j, 1j, 1j], atol=1e-30)
    turned = np.array([complex(z.imag, -z.real) for z in x[:4]])
    np.testing.assert_allclose(fuse(np.tanh)(turned), [1, -1, 1, 1], atol=1e-30)
    assert np.isnan(fuse(np.tan)(x)[4])
    with np.errstate(all="ignore"):
        assert_same(fuse(np.power)(np.zeros(3, complex), [2 + 1j, 0, 1.5]), np.array([0, 1, 0j]))
    assert np.isnan(fuse(np.power)(np.zeros(1, complex), [-1 + 1j])).all()


def test_waves(rng):
    """A function of several complex steps, on threads, and with out."""
    wave = fuse(lambda k, x, t: np.exp(1j * (k * x - np.sqrt(k) * t)) / (1 + k))
    k, x = complex_numbers(rng, 20001), rng.standard_normal(20001)
    k = k * 0.1
    expected = np.exp(1j * (k * x - np.sqrt(k) * 0.5)) / (1 + k)
    np.testing.assert_allclose(wave(k, x, 0.5), expected, rtol=1e-13)
    out = np.empty_like(expected)
    with smallmm.threads(1):
        assert_same(wave(k, x, 0.5, out=out), wave(k, x, 0.5))
    assert [s.name for s in wave.explain(k, x, 0.5).steps].count("exp") == 1


def test_derivatives_of_complex_functions(torch, rng):
    fused = fuse(lambda x: np.exp(x) + np.log(x) * np.sqrt(x) + np.sin(x) * np.cos(x))
    x = torch.from_numpy(complex_numbers(rng, 5)).requires_grad_()
    assert torch.autograd.gradcheck(fused, x)
    np.testing.assert_allclose(fused(x).detach().numpy(), fused(x.detach().numpy()), rtol=1e-13)


def test_a_bad_complex_matrix_spoils_no_other(rng):
    a, b = complex_numbers(rng, 70, 4, 4), complex_numbers(rng, 70, 4)
    fused = fuse(lambda a, b: smallmm.solve(a, b.conj()) * 2j, "(n,n),(n)")
    good = fused(a, b)
    a[33] = 0
    with pytest.raises(
        smallmm.LinAlgError, match=r"solve, the \d(st|nd|rd|th) step, fails in 1 of 70 .*\(33,\)"
    ):
        fused(a, b)
    result, info = fused.ex(a, b)
    assert np.flatnonzero(info).tolist() == [33]
    assert np.isnan(result[33]).all()
    np.testing.assert_array_equal(np.delete(result, 33, 0), np.delete(good, 33, 0))


def test_complex_programs_are_explained_and_threads_do_not_matter(rng):
    fused = fuse(lambda h, y: smallmm.solve(h.conj().mT @ h, h.conj().mT @ y), "(m,n),(m)")
    h, y = complex_numbers(rng, 20001, 4, 3), complex_numbers(rng, 20001, 4)
    explanation = fused.explain(h, y)
    assert explanation.fused
    assert [x.name for x in explanation.steps] == ["negative", "complex", "matmul", "matmul", "solve"]
    assert "c128" in explanation.steps[-1].kernel
    with smallmm.threads(1):
        one = fused(h, y)
    with smallmm.threads(2):
        assert_same(fused(h, y), one)
    out = np.empty_like(one)
    assert fused(h, y, out=out) is out
    assert_same(out, one)
    assert_same(fused(h[77], y[77]), one[77])


def test_chains_of_complex_numbers(rng):
    a, b = complex_numbers(rng, 30, 6, 3), complex_numbers(rng, 30, 6, 2)
    adjoint = a.conj().mT
    best = np.linalg.solve(adjoint @ a + 0.5 * np.eye(3), adjoint @ b)
    np.testing.assert_allclose(smallmm.ridge(a, b, 0.5), best, rtol=1e-10)
    white = smallmm.whiten(a)
    covariance = white.mT @ white.conj() / 5
    np.testing.assert_allclose(covariance, np.broadcast_to(np.eye(3), covariance.shape), atol=1e-12)
    c = adjoint @ a + np.eye(3)
    x = b[:, :3, 0]
    d = np.sqrt(np.einsum("bi,bi->b", x.conj(), np.linalg.solve(c, x[..., None])[..., 0]).real)
    np.testing.assert_allclose(smallmm.mahalanobis(x, np.zeros(3), c), d, rtol=1e-10)
    np.testing.assert_allclose(smallmm.congruence(a, c), a @ c @ a.mT, rtol=1e-10)
    with pytest.raises(TypeError, match="gaussian_logpdf of complex numbers"):
        smallmm.gaussian_logpdf(x, np.zeros(3), c)
    f, h, z = complex_numbers(rng, 3, 3), complex_numbers(rng, 2, 3), complex_numbers(rng, 30, 2)
    q, r = np.eye(3), np.eye(2)
    state = smallmm.kalman_step(x, c, z, f, h, q, r)
    p = f @ c @ f.conj().T + q
    gain = p @ h.conj().T @ np.linalg.inv(h @ p @ h.conj().T + r)
    mean = x @ f.T
    np.testing.assert_allclose(state.x, mean + (gain @ (z - mean @ h.T)[..., None])[..., 0], rtol=1e-9)
    np.testing.assert_allclose(state.p, p - gain @ h @ p, rtol=1e-8, atol=1e-9)
    three = np.einsum("eij,ejk,ekl->eil", a, c, c)
    np.testing.assert_allclose(smallmm.contract("eij,ejk,ekl->eil", a, c, c), three, rtol=1e-10)
    u, v = complex_numbers(rng, 4, 3), complex_numbers(rng, 30, 9)
    np.testing.assert_allclose(smallmm.kron_apply([u, u], v), v @ np.kron(u, u).T, rtol=1e-10)


def test_long_complex_vectors(rng):
    x, y = complex_numbers(rng, 2, 20001)
    dot = fuse(lambda x, y: np.vdot(x, y), "(n),(n)")
    assert_same(dot(x, y), separately(dot, x, y))
    assert_same(
        fuse(lambda x, y: np.sum(x.real * y.imag), "(n),(n)")(x, y),
        fuse(lambda x, y: np.sum(x * y), "(n),(n)")(x.real.copy(), y.imag.copy()),
    )
    np.testing.assert_allclose(dot(x, y), np.vdot(x, y), rtol=1e-12)


def test_complex_tensors(torch, rng):
    fused = fuse(lambda h, y: (smallmm.solve(h.conj().mT @ h, h.conj().mT @ y), abs(y) * y), "(m,n),(m)")
    h, y = complex_numbers(rng, 50, 4, 3), complex_numbers(rng, 50, 4)
    tensors = torch.from_numpy(h), torch.from_numpy(y)
    expected = fused(h, y)
    assert_same(tuple(x.numpy() for x in fused(*tensors)), expected)
    assert_same(tuple(x.numpy() for x in fused(*(x.conj() for x in tensors))), fused(h.conj(), y.conj()))
    h = tensors[0].requires_grad_()
    assert fused.explain(h, tensors[1]).fused
    without = fuse(lambda h: h * smallmm.rcond(h.conj().mT @ h), "(m,n)").explain(h)
    assert (without.fused, without.why[:23]) == (False, "a derivative is wanted,")
    assert torch.autograd.gradcheck(lambda x: fused(x, tensors[1][:2])[0], h[:2].detach().requires_grad_())


def test_tensors_that_an_index_reverses(rng):
    """Step by step, since PyTorch has no slices with negative steps."""
    torch = pytest.importorskip("torch")
    a = rng.standard_normal((3, 8, 4))
    for index in np.s_[::-1], np.s_[3, ::-1], np.s_[None, 5:0:-2], np.s_[1:5:-1], np.s_[..., -1:-9:-3]:
        reversed_ = fuse(lambda a, index=index: a[index], "(m,n)")
        found = reversed_(torch.from_numpy(a).requires_grad_())
        assert_same(found.detach().numpy(), np.stack([x[index] for x in a]))


def test_large_matrices_go_step_by_step(rng):
    fused = fuse(lambda a, b: smallmm.solve(a, b) + 1, "(n,n),(n,k)")
    for n in 40, 128, 140:
        a, b = rng.standard_normal((3, n, n)), rng.standard_normal((3, n, 2))
        np.testing.assert_array_equal(fused(a, b), smallmm.solve(a, b) + 1)
        assert fused.explain(a, b).fused == (n <= 128)
    explanation = fused.explain(a, b)
    assert not explanation.fused
    assert "larger than the kernels" in explanation.why
    product = fuse(lambda a: a @ a.mT @ a, "(m,n)")
    wide = rng.standard_normal((4, 100, 90))
    np.testing.assert_array_equal(product(wide), smallmm.matmul(smallmm.matmul(wide, wide.mT), wide))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["d", "D"])
def test_pivots_of_large_matrices_are_integers(rng, dtype):
    """Where LAPACK runs a step, too."""
    a, b = rng.standard_normal((2, 2, 130, 130)).astype(dtype)
    a += np.exp(1j * b).astype(dtype) if dtype == "D" else 0
    solution = fuse(lambda a, b: smallmm.lu_solve(smallmm.lu_factor(a), b), "(n,n),(n,k)")
    assert_same(solution(a, b), smallmm.lu_solve(smallmm.lu_factor(a), b))


def test_deep_products(rng):
    a = rng.standard_normal((3, 2, 5000))
    fused = fuse(lambda a: a @ a.mT, "(m,n)")
    np.testing.assert_array_equal(fused(a), smallmm.matmul(a, a.mT))


def test_flat_expressions(rng):
    triad = fuse(lambda b, c, d: b + c * d)
    b, c, d = rng.standard_normal((3, 10007))
    np.testing.assert_array_equal(triad(b, c, d), b + c * d)
    np.testing.assert_array_equal(triad(b, c, 2.0), b + c * 2.0)
    out = np.empty_like(b)
    assert triad(b, c, d, out=out) is out
    np.testing.assert_array_equal(out, b + c * d)


def black_scholes(s, x, t, r, v):
    xp = s.__array_namespace__()
    d = np.sqrt(t)
    d1 = (np.log(s / x) + (r + v * v / 2) * t) / (v * d)
    return s * xp.ndtr(d1) - x * np.exp(-r * t) * xp.ndtr(d1 - v * d)


def test_black_scholes():
    price = fuse(black_scholes)
    calls = price(np.array([100.0, 90.0]), 100.0, 1.0, 0.05, 0.2)
    np.testing.assert_allclose(calls, [10.450583572185565, 5.091222078817552], rtol=1e-14)
    assert price(100.0, 100.0, 1.0, 0.05, 0.2) == calls[0]


def test_scipys_functions(rng):
    special = pytest.importorskip("scipy.special")
    x = rng.standard_normal(100)
    fused = fuse(lambda x: (special.erf(x), special.erfc(x), special.ndtr(x)))
    for ours, theirs in zip(fused(x), (special.erf, special.erfc, special.ndtr), strict=True):
        np.testing.assert_allclose(ours, theirs(x), rtol=1e-13)


def test_angles_and_hyperbolic_functions(rng):
    x = rng.standard_normal((100, 3))
    x[0] = [1e22, -0.0, 1e300]
    fused = fuse(lambda x: (np.sin(x), np.cos(x), np.tan(x), np.tanh(x), np.expm1(x), np.log1p(abs(x))))
    functions = (np.sin, np.cos, np.tan, np.tanh, lambda x: np.expm1(x), lambda x: np.log1p(abs(x)))
    with np.errstate(over="ignore"):
        for ours, function in zip(fused(x), functions, strict=True):
            np.testing.assert_allclose(ours, function(x), rtol=1e-15, atol=0)
    y = rng.standard_normal((100, 3))
    fused = fuse(
        lambda y, x: (np.arctan2(y, x), np.arctan(y), np.angle(x), y.__array_namespace__().atan2(y, 2))
    )
    for ours, theirs in zip(
        fused(y, x), (np.arctan2(y, x), np.arctan(y), np.angle(x), np.arctan2(y, 2)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-15, atol=0)


def test_rotations(rng):
    """Rotation matrices from angles, and the inverse by the transpose, in one pass."""

    @fuse("(),(2)->(2)")
    def turned(angle, x):
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([np.stack([c, -s]), np.stack([s, c])]) @ x

    angle, x = rng.uniform(-4, 4, 50), rng.standard_normal((50, 2))
    there = turned(angle, x)
    np.testing.assert_allclose(there[:, 0], np.cos(angle) * x[:, 0] - np.sin(angle) * x[:, 1], atol=1e-15)
    np.testing.assert_allclose(turned(-angle, there), x, atol=2e-15)


# --- dtypes, results, options --------------------------------------------------------------------------


def test_dtypes_follow_numpy(rng):
    add = fuse(lambda a, b: a + b)
    f4, f8, ints = np.ones(3, "f4"), np.ones(3), np.arange(3)
    for x, y in ((f4, f4), (f4, f8), (f8, f4), (ints, f8), (f8, ints), (ints, ints)):
        expected = np.add(x, y, dtype=np.float64) if x.dtype.kind == y.dtype.kind == "i" else x + y
        assert_same(add(x, y), expected)
    assert fuse(lambda a: a * 2.0 + 1)(f4).dtype == np.float32
    assert fuse(lambda a: a * np.float64(2))(f4).dtype == np.float64
    assert fuse(lambda a: a.astype(np.float32))(f8).dtype == np.float32
    assert fuse(lambda a, b: np.where(a, b, 0))(np.array([True, False]), np.ones(2)).tolist() == [1, 0]
    for wrong in (np.ones(3, np.clongdouble), np.ones(3, np.longdouble), np.array(["a"])):
        with pytest.raises(TypeError, match="a has dtype"):
            fuse(lambda a: a + 1)(wrong)


KINDS = "?bBhHiIqQefdFD"


def bfloat16():
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def promoted(*dtypes):
    """By NumPy's rules; but integers are computed in float64."""
    common = np.result_type(*dtypes)
    return np.dtype(np.float64) if common.kind in "biu" else common


def each_kind():
    return [*map(np.dtype, KINDS), bfloat16()]


def test_dtypes_of_all_pairs_follow_numpy():
    multiply = fuse(lambda a, b: a * b)
    for first in each_kind():
        x = np.array([1, 3, 5]).astype(first)
        for second in each_kind():
            y = np.array([7, 1, 2]).astype(second)
            if first == second == np.bool_:
                with pytest.raises(TypeError, match="multiply of booleans"):
                    multiply(x, y)
                continue
            try:
                expected = promoted(first, second)
            except TypeError:  # bfloat16 with what it does not hold
                with pytest.raises(TypeError, match="have none in common; convert one of them"):
                    multiply(x, y)
                continue
            assert_same(multiply(x, y), x.astype(expected) * y.astype(expected))


@pytest.mark.parametrize("number", [True, 3, 2.5, 1.5j])
def test_numbers_of_python_follow_the_arrays(number):
    """Those within the function, and those that are arguments."""
    within, given = fuse(lambda a: a * number), fuse(lambda a, b: a * b)
    for dtype in each_kind():
        x = np.array([1, 3, 5]).astype(dtype)
        if dtype == bfloat16():
            expected = np.dtype(np.complex64) if type(number) is complex else dtype
        elif dtype == np.bool_ and number is True:
            continue
        else:
            expected = promoted(dtype, number)
        product = x.astype(expected) * np.asarray(number, expected)
        for result in (within(x), given(x, number), fuse(lambda a: number * a)(x)):
            assert_same(result, product)


def test_dtypes_of_what_is_joined_and_chosen_follow_numpy():
    joined = fuse(lambda a, b: np.concatenate([a, b]), "(n),(m)")
    chosen = fuse(lambda a, b: np.where(a > 2, a, b))
    product = fuse(lambda a, b: a @ b, "(m,n),(n)")
    for first in KINDS:
        for second in KINDS:
            x, y, expected = np.ones(3, first), np.ones(3, second), promoted(first, second)
            if first + second != "??":
                assert joined(x, y).dtype == expected, (first, second)
                if x.dtype.kind != "c":
                    assert chosen(x, y).dtype == expected, (first, second)
                assert_same(product(np.ones((2, 3), first), y), np.full(2, 3, expected))
    f4 = np.ones(3, "f4")
    assert fuse(lambda a: a + np.arange(3), "(n)")(f4).dtype == np.float64
    assert fuse(lambda a: a + np.int16(1))(f4).dtype == np.float32
    assert fuse(lambda a: a + np.int64(1))(f4).dtype == np.float64
    assert fuse(lambda a: (a > 0) * 2.0)(f4).dtype == np.float64
    assert fuse(lambda a: np.where(a > 0, 1.0, 0.0))(f4).dtype == np.float64
    assert fuse(lambda a, b: (2.0**a, b))(f4, np.ones(3))[0].dtype == np.float32
    assert fuse(lambda a, b: np.where(a, b, 0))(np.full(3, 1e-300), f4).tolist() == [1, 1, 1]
    x = np.array([1, 1j, 0, complex(0, np.nan)])
    assert fuse(lambda a, b: np.where(a, b, 3j))(x, 0 * x[0]).tolist() == [0, 0, 3j, 0]


@pytest.mark.parametrize("kind", "bhilqBHILQ")
def test_integers_of_every_width(kind, rng):
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max, (50, 7), kind, endpoint=True)
    x[0, :2] = info.min, info.max
    assert_same(
        fuse(lambda a: (a, a[::-1], a.reshape(-1), np.zeros_like(a)), "(n)")(x), (x, x[:, ::-1], x, 0 * x)
    )
    half = fuse(lambda a: a * 0.5)
    for own in (x, x[::-1, ::2], np.asfortranarray(x), x.astype(x.dtype.newbyteorder())):
        assert_same(half(own), own * np.float64(0.5))
    assert_same(half(x), separately(half, x))


def test_integers_of_other_libraries(torch):
    fused = fuse(lambda a, b: a * 2 + b)
    for kind in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool):
        a, b = torch.ones(3, dtype=kind), torch.full((3,), 0.5)
        expected = fused(a.numpy(), b.numpy())
        assert_same(fused(a, b).numpy(), expected)
        assert_same(fused(a, b.requires_grad_()).detach().numpy(), expected)


# --- float16 and bfloat16 ---


@pytest.fixture(params=["float16", "bfloat16"])
def half(request):
    return np.dtype(np.float16) if request.param == "float16" else bfloat16()


def in_float32(x):
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def rounded(x, dtype):
    with np.errstate(all="ignore"):
        return x.astype(dtype) if x.dtype == np.float32 else x


# bfloat16 and int64 have no dtype in common
@pytest.mark.where.with_args(lambda name, half: name != "constant" or half == "float16")
@pytest.mark.parametrize("name", RECORDED)
def test_halves_are_computed_in_float32_and_rounded_once(name, half, rng):
    signature, function = RECORDED[name]
    fused = fuse(function, signature)
    for batches in ([()], [(7,)], [(300,), ()], [(2, 1, 40), (3, 1)], [(0,)]):
        arrays = [rounded(x, half) for x in operands(rng, signature, batches, "f")]
        results, expected = tuple(fused(*arrays)), tuple(fused(*map(in_float32, arrays)))
        assert [x.dtype for x in results] == [rounded(x, half).dtype for x in expected]
        assert_same(tuple(map(in_float32, results)), tuple(in_float32(rounded(x, half)) for x in expected))
        alone = separately(fused, *arrays)
        assert_same(tuple(map(in_float32, results)), tuple(map(in_float32, alone)))


@pytest.mark.parametrize("isa", core.isas_available())
def test_layouts_of_halves_do_not_matter(half, isa, rng):
    signature, function = RECORDED["views"]
    fused = fuse(lambda a: (*function(a), *(x * 1.5 for x in function(a))), signature)
    (x,) = operands(rng, signature, [(50,)], "f")
    x = rounded(x, half)
    best = core.isa()
    try:
        core.select_isa(isa)
        expected = tuple(map(in_float32, fused(in_float32(x))))
        for change in (
            np.array,
            np.asfortranarray,
            lambda x: x[::-1].copy()[::-1],
            lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
        ):
            results = fused(change(x))
            assert {y.dtype for y in results} == {half}
            assert_same(
                tuple(map(in_float32, results)), tuple(in_float32(rounded(y, half)) for y in expected)
            )
    finally:
        core.select_isa(best)


def test_every_code_of_halves(half):
    codes = np.arange(1 << 16, dtype=np.uint16).view(half)
    with np.errstate(all="ignore"):
        wide = codes.astype(np.float32)
    same, to_float32, to_float64 = fuse(lambda a: (a * 1.0, a.astype(np.float32), a.astype(np.float64)))(
        codes
    )
    np.testing.assert_array_equal(in_float32(same), wide)
    np.testing.assert_array_equal(to_float32, wide)
    np.testing.assert_array_equal(to_float64, wide)
    x = (np.random.default_rng(2).standard_normal(5000) * np.exp(np.linspace(-30, 30, 5000))).astype("f4")
    for given in (x, x.astype("f8")):
        (narrow,) = fuse(lambda a: (a.astype(half),))(given)
        np.testing.assert_array_equal(narrow.view("u2"), rounded(x, half).view("u2"))


def test_what_is_between_the_steps_is_not_rounded(half):
    x = np.array([1.0, 200.0, 3e4], half)
    assert_same(in_float32(fuse(lambda a: a * 1e4 / 1e4)(x)), in_float32(x))
    assert fuse(lambda a: (a + 1e-4) - a)(x[:1]) == half.type(np.float32(1 + 1e-4) - np.float32(1))
    (twice,) = fuse(lambda a: ((a / 3).astype("f4").astype(half).astype("f4") * 3,))(x)  # unless asked for
    np.testing.assert_array_equal(twice, in_float32((in_float32(x) / 3).astype(half)) * 3)
    assert fuse(lambda a: a.astype(half))(x).dtype == half


def test_halves_that_do_not_meet(half, rng):
    other = bfloat16() if half == np.float16 else np.dtype(np.float16)
    with pytest.raises(
        TypeError, match=r"dtypes b?float16 and b?float16 have none in common; convert one of them"
    ):
        fuse(lambda a, b: a + b)(np.ones(3, half), np.ones(3, other))


def test_halves_of_long_sums_and_threads(half, rng):
    x, y = rounded(rng.standard_normal((2, 40001)).astype("f4"), half)
    dot = fuse(lambda x, y: np.sum(x * y), "(n),(n)")
    assert dot.explain(x, y).block
    assert dot(x, y) == rounded(np.array(dot(in_float32(x), in_float32(y))), half)
    state = [rounded(np.asarray(a, "f4"), half) for a in chain_arguments(rng, "kalman_step", (20001,))]
    with smallmm.threads(1):
        one = smallmm.kalman_step(*state)
    with smallmm.threads(2):
        two = smallmm.kalman_step(*state)
    out = tuple(np.empty_like(x) for x in one)
    smallmm.kalman_step(*state, out=out)
    for a, b, c in zip(one, two, out, strict=True):
        assert a.dtype == half
        np.testing.assert_array_equal(a.view("u2"), b.view("u2"))
        np.testing.assert_array_equal(a.view("u2"), c.view("u2"))


def test_halves_of_bad_matrices(half, rng):
    a, b = (rounded(rng.standard_normal(s).astype("f4"), half) for s in ((70, 4, 4), (70, 4)))
    a[33] = half.type(0)
    fused = fuse(lambda a, b: smallmm.solve(a, b) * 2, "(n,n),(n)")
    with pytest.raises(
        smallmm.LinAlgError, match=r"solve, the \d(st|nd|rd|th) step, fails in 1 of 70 .*\(33,\)"
    ):
        fused(a, b)
    result, info = fused.ex(a, b)
    assert np.flatnonzero(info).tolist() == [33]
    assert np.isnan(in_float32(result[33])).all()
    names = [step.name for step in fused.explain(a, b).steps]
    assert names == ["to float32", "to float32", "solve", "multiply"]


def test_halves_of_other_libraries(torch, half, rng):
    x = rounded(rng.standard_normal((50, 3, 3)).astype("f4") + 3 * np.eye(3, dtype="f4"), half)
    fused = fuse(lambda a: (smallmm.inv(a), np.exp(-a)), "(n,n)")
    expected = tuple(map(in_float32, fused(x)))
    tensor = torch.from_numpy(in_float32(x)).to(getattr(torch, half.name))
    results = fused(tensor)
    assert {y.dtype for y in results} == {tensor.dtype}
    assert_same(tuple(y.float().numpy() for y in results), expected)
    leaf = tensor.requires_grad_()
    results = fused(leaf)
    assert {y.dtype for y in results} == {tensor.dtype}
    np.testing.assert_array_equal(results[0].detach().float().numpy(), expected[0])
    sum(y.float().sum() for y in results).backward()
    assert leaf.grad.dtype == tensor.dtype


def test_halves_of_jax(jax, half, rng):
    x = rounded(rng.standard_normal((50, 3)).astype("f4"), half)
    fused = fuse(lambda a: np.exp(-a) * 2)
    result = fused(jax.numpy.asarray(x))
    assert result.dtype == half
    np.testing.assert_array_equal(in_float32(np.asarray(result)), in_float32(fused(x)))


def test_results_have_the_functions_structure():
    x = np.arange(3.0)
    assert isinstance(fuse(lambda a: [a, a + 1])(x), list)
    one, (two, three) = fuse(lambda a: (a, (a + 1, a + 2)))(x)
    assert (three == x + 2).all()
    assert (two == x + 1).all()
    assert (one == x).all()
    assert type(fuse(lambda a: a + 1)(1.0)) is np.float64
    assert fuse(lambda a: a)(x) is not x


def test_keywords_are_part_of_the_record(rng):
    @fuse("(n,n)")
    def power(a, *, k=2, symmetric=False):
        for _ in range(k - 1):
            a = a @ a
        return a + a.mT if symmetric else a

    a = rng.standard_normal((5, 3, 3))
    np.testing.assert_allclose(power(a), a @ a)
    np.testing.assert_allclose(power(a, k=3), a @ a @ (a @ a))
    np.testing.assert_allclose(power(a, k=1, symmetric=True), a + a.mT)
    np.testing.assert_allclose(power(a), a @ a)
    with pytest.raises(TypeError, match=r"power: k is .*; expected 1 array, a, and other keywords"):
        power(a, k=np.ones(3))


def test_fused_functions_call_each_other(rng):
    distance = fuse(lambda x, m, c: smallmm.mahalanobis(x, m, c) ** 2, "(n),(n),(n,n)")
    x, c = rng.standard_normal((9, 3)), positive(rng, 3)
    np.testing.assert_allclose(distance(x, np.zeros(3), c), smallmm.mahalanobis(x, np.zeros(3), c) ** 2)


def test_recorded_once_for_a_signature():
    calls = []

    @fuse("(n)")
    def count(x):
        calls.append(x.shape)
        return x + 1

    for batch in ((), (4,), (2, 3)):
        count(np.ones((*batch, 2)))
    count(np.ones((4, 4))[:, ::2])
    assert calls == [(2,), (2,)]  # once more for another layout, which may be read as it lies
    count(np.ones(3))
    count(np.ones(2, "f4"))
    assert calls[2:] == [(3,), (2,)]


@pytest.mark.parametrize("overlap", [0, 1, 8])
def test_out_may_overlap(overlap, rng):
    memory = rng.standard_normal(1000)
    x = memory[: 300 * 3].reshape(300, 3)
    expected = fuse(lambda x: x[::-1] * 2, "(n)")(x.copy())
    out = memory[overlap : overlap + 900].reshape(300, 3)
    assert fuse(lambda x: x[::-1] * 2, "(n)")(x, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_out(rng):
    x, p, *rest = chain_arguments(rng, "kalman_step", (100,))
    expected = smallmm.kalman_step(x, p, *rest)
    result = smallmm.kalman_step(x, p, *rest, out=(x, p))
    assert result.x is x
    assert result.p is p
    assert_same(result, expected)
    single = np.empty((100, 4), np.float32)
    smallmm.kalman_step(*chain_arguments(rng, "kalman_step", (100,)), out=(single, None))
    assert single.any()
    with pytest.raises(ValueError, match=r"kalman_step: out\[0\] is .*\(3,\); expected shape \(100, 4\)"):
        smallmm.kalman_step(x, p, *rest, out=(np.empty(3), None))
    with pytest.raises(TypeError, match="out is one array; expected 2"):
        smallmm.kalman_step(x, p, *rest, out=x)


def test_out_without_elements():
    for out in np.empty((0, 3, 3)), np.empty((0, 3, 3)).mT, np.empty((4, 7, 7))[:0, ::3, ::3]:
        assert smallmm.cov(np.empty((0, 5, 3)), out=out) is out


def read_only(shape):
    x = np.zeros(shape)
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("second", [np.zeros((9, 9)), np.zeros((3, 4, 4), int), read_only((3, 4, 4)), "out"])
def test_out_is_untouched_where_another_is_refused(second, rng):
    first = np.full((3, 4), 7.0)
    with pytest.raises((TypeError, ValueError), match=r"kalman_step: out\[1\] "):
        smallmm.kalman_step(*chain_arguments(rng, "kalman_step", (3,)), out=(first, second))
    assert (first == 7).all()


def test_out_is_of_the_inputs_library(rng):
    torch = pytest.importorskip("torch")
    a = rng.standard_normal((5, 2, 2))
    f = fuse("(n,n)")(lambda a: (a + 1, a * 2))
    out = np.zeros_like(a), torch.zeros(a.shape, dtype=torch.float64)
    for given, name in ((a, "1"), (torch.from_numpy(a), "0")):
        with pytest.raises(TypeError, match=rf"out\[{name}\] is a .*, as the inputs are"):
            f(given, out=out)
    assert not out[0].any()
    assert not out[1].any()
    own = torch.zeros(a.shape, dtype=torch.float64), torch.zeros(a.shape, dtype=torch.float32)
    assert f(torch.from_numpy(a), out=own)[1] is own[1]
    np.testing.assert_array_equal(own[0], a + 1)


# --- errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "branch",
    [
        lambda x: x if x > 0 else -x,
        lambda x: x and 1.0,
        lambda x: not x,
        lambda x: max(x, 1.0),
    ],
)
def test_branches_name_where(branch):
    branch.__name__ = "f"
    with pytest.raises(TypeError, match=r"f: a branch .*Use where\(condition, x, y\)"):
        fuse(branch)(np.ones(3))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: float(x), "float"),
        (lambda x: int(x), "int"),
        (lambda x: np.asarray(x), "a NumPy array depends on the elements"),
        (lambda x: np.arcsin(x), "arcsin cannot be fused"),
        (lambda x: np.add.reduce(x), "add.reduce cannot be fused"),
        (lambda x: np.fft.fft(x), "fft cannot be fused"),
        (lambda x: x.__setitem__(0, 1), "cannot be assigned to"),
        (lambda x: "text", "returns a str"),
        (lambda x: None, "returns a NoneType"),
        (lambda x: (), "returns nothing"),
        (lambda x: (x > 0) + (x > 1), "add of booleans"),
        (lambda x: x & x, "expected comparisons"),
        (lambda x: x[[0, 1]], "an index is a list"),
    ],
)
def test_what_cannot_be_fused(function, text):
    function.__name__ = "f"
    with pytest.raises(TypeError, match=text):
        fuse(function, "(n)")(np.ones((5, 3)))


def test_shapes_are_named():
    f = fuse(lambda a, b: a @ b, "(m,n),(n)->(m)")
    with pytest.raises(ValueError, match=r"<lambda>: b has shape \(2,\); expected \(..., 3\) for \(..., n\)"):
        f(np.ones((5, 4, 3)), np.ones(2))
    with pytest.raises(ValueError, match=r"a has shape \(3,\); expected at least 2 dimensions"):
        f(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match=r"batch dimensions \(5,\), \(4,\) of a, b do not broadcast"):
        f(np.ones((5, 3, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"result 0 has shape \(3,\); its signature '\(n,n\),\(n\)->\(\)'"):
        fuse(lambda a, b: a @ b, "(n,n),(n)->()")(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="<lambda>: b is missing; expected 2 arrays, a, b"):
        f(np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"matmul: .*shape"):
        fuse(lambda a, b: a @ b, "(m,n),(k)")(np.ones((2, 3)), np.ones(2))
    assert fuse(lambda a: a * 2, "(3)")(np.ones((2, 3))).shape == (2, 3)
    with pytest.raises(ValueError, match=r"expected .* 3"):
        fuse(lambda a: a * 2, "(3)")(np.ones((2, 4)))


@pytest.mark.parametrize("signature", ["n", "(n", "(n)->", "(n),,(m)", "(n)(m)", "(n)->(m)->(k)", "(n-1)"])
def test_wrong_signatures(signature):
    with pytest.raises(ValueError, match="fuse: signature of"):
        fuse(lambda a: a, signature)


def test_wrong_definitions():
    with pytest.raises(ValueError, match="has 2 operands; <lambda> has 1"):
        fuse(lambda a: a, "(n),(n)")
    with pytest.raises(TypeError, match="fuse: function is 3"):
        fuse(3)


def test_failures_name_the_step(rng):
    @fuse("(n,n),(n)")
    def both(a, b):
        x = smallmm.solve(a, b)
        return x, smallmm.cholesky(a)

    a = positive(rng, 3, (50,))
    a[7], a[9] = 0, -a[9]
    b = rng.standard_normal((50, 3))
    with pytest.raises(smallmm.LinAlgError) as e:
        both(a, b)
    assert str(e.value) == (
        "both: solve, the 1st step, fails in 1 of 50 cases, the first at index (7,): pivot 1 is zero or "
        "overflows (counted from 1); see .info and .result of this exception for each"
    )
    info = e.value.info
    assert info.shape == (50,)
    assert (np.flatnonzero(info) == [7, 9]).all()
    assert e.value.step == ("solve", 0)
    assert both.explain(a, b).steps[e.value.step.place].name == "solve"
    x, lower = e.value.result
    good = np.delete(np.arange(50), [7, 9])
    np.testing.assert_array_equal(x[good], smallmm.solve(a[good], b[good][..., None])[..., 0])
    assert np.isnan(x[7]).all()
    assert np.isnan(np.tril(lower[9])[np.tril_indices(3)]).all()
    found = both.ex(a, b)
    (y, _), same = found
    np.testing.assert_array_equal(same, info)
    np.testing.assert_array_equal(y, x)
    assert found.step == e.value.step
    assert both.ex(a[8], b[8]).step is None
    with pytest.raises(smallmm.LinAlgError, match=r"^both: cholesky, the 2nd step, fails: the leading") as e:
        both(a[9], b[9])
    assert e.value.info == 1
    assert str(e.value.step) == "cholesky, the 2nd step"


def test_info_within_a_function(rng):
    @fuse("(n,n),(n)")
    def careful(a, b):
        x, info = smallmm.solve_ex(a, b)
        return np.where(info == 0, x, 0.0), info

    a = positive(rng, 3, (20,))
    a[4] = 0
    x, info = careful.ex(a, np.ones((20, 3)))[0]
    assert info.dtype == np.int32
    assert info[4] == 1
    assert not x[4].any()
    assert x[3].any()


# --- explain, other libraries --------------------------------------------------------------------------


def test_explain(rng):
    arrays = chain_arguments(rng, "kalman_step", (1000,))
    explanation = smallmm.explain(smallmm.kalman_step, *arrays)
    assert explanation.fused
    assert explanation.matrices == 1000
    assert explanation.tile >= 16
    assert explanation.saved > explanation.bytes
    assert sum(step.kernel is not None for step in explanation.steps) == 12
    assert "kalman_step: " in str(explanation)
    assert "cholesky" in str(explanation)


def test_torch_and_jax_arrays(torch, rng):
    arrays = chain_arguments(rng, "kalman_step", (30,))
    expected = smallmm.kalman_step(*arrays)
    result = smallmm.kalman_step(*map(torch.from_numpy, arrays))
    assert all(isinstance(x, torch.Tensor) for x in result)
    assert_same(tuple(x.numpy() for x in result), tuple(expected))
    x = torch.from_numpy(arrays[0]).requires_grad_()
    state = smallmm.kalman_step(x, *map(torch.from_numpy, arrays[1:]))
    state.x.sum().backward()
    assert x.grad.shape == x.shape
    explanation = smallmm.kalman_step.explain(x, *map(torch.from_numpy, arrays[1:]))
    assert explanation.fused


def test_numbers_beside_what_is_traced(rng):
    a, b = rng.standard_normal((5, 4, 3)), rng.standard_normal((5, 4, 2))
    expected = smallmm.ridge(a, b, 0.5)
    torch = pytest.importorskip("torch")
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    for number in (0.5, np.asarray(0.5)):
        np.testing.assert_allclose(smallmm.ridge(x.clone().requires_grad_(), y, number).detach(), expected)
    np.testing.assert_allclose(torch.vmap(lambda x, y: smallmm.ridge(x, y, 0.5))(x, y), expected)
    assert smallmm.ridge(x.to("meta"), y.to("meta"), 0.5).shape == expected.shape
    tracked = x.clone().requires_grad_()
    smallmm.ridge(tracked, b, 0.5).sum().backward()
    found, tracked.grad = tracked.grad, None
    smallmm.ridge(tracked, y, 0.5).sum().backward()
    assert torch.equal(found, tracked.grad)
    jax = pytest.importorskip("jax")
    step = jax.jit(lambda x, y: smallmm.ridge(x, y, 0.5))
    np.testing.assert_allclose(step(a.astype("f4"), b.astype("f4")), expected, atol=1e-4)


def test_lists_and_numbers():
    assert smallmm.mahalanobis([3.0, 8.0], [0, 0], [[1, 0], [0, 4]]) == 5
    assert smallmm.mahalanobis(memoryview(np.array([3.0, 8.0])), [0, 0], [[1, 0], [0, 4]]) == 5


@pytest.mark.parametrize("dims", [8, 9, 32, 63, 64])
def test_many_dimensions(dims):
    a = np.arange(6.0).reshape((1,) * (dims - 2) + (2, 3))
    signature = f"({','.join(f'd{i}' for i in range(dims))})"
    np.testing.assert_array_equal(fuse(signature)(lambda a: a + 1)(a), a + 1)
    np.testing.assert_array_equal(fuse("(n)")(lambda a: a + 1)(a), a + 1)
    outer = fuse(f"{signature},(k)")(lambda a, b: smallmm.outer(a, b))
    stack = fuse("(n)")(lambda a: np.stack([a, a]))
    if dims < 64:
        np.testing.assert_array_equal(outer(a, np.ones(4)), np.repeat(a[..., None], 4, axis=-1))
        np.testing.assert_array_equal(stack(a)[..., 1, :], a)
        return
    with pytest.raises(ValueError, match="a result has 65 dimensions"):
        stack(a)
    with pytest.raises(ValueError, match="outer: x1 has 64 dimensions; expected at most 63"):
        outer(a, np.ones(4))


def test_empty_results_take_no_time():
    many = np.broadcast_to(np.ones(0), (2**40, 0))
    assert fuse("(n)")(lambda x: x + 1)(many).shape == many.shape
    assert fuse("(n)")(lambda x: x[:0] * 2)(np.broadcast_to(np.ones(3), (2**40, 3))).shape == many.shape
    with pytest.raises(MemoryError):  # beyond all addresses: of less, a system may promise what it has not
        fuse("(n)")(lambda x: x.sum())(np.broadcast_to(np.ones(0), (2**58, 0)))
    np.testing.assert_array_equal(fuse("(n)")(lambda x: x.sum())(many[:3]), np.zeros(3))


# --- chains --------------------------------------------------------------------------------------------


def chain_arguments(rng, name, batch, n=4, m=2):
    matrix = rng.standard_normal
    return {
        "kalman_step": lambda: (
            matrix((*batch, n)),
            positive(rng, n, batch),
            matrix((*batch, m)),
            matrix((n, n)),
            matrix((m, n)),
            positive(rng, n),
            positive(rng, m),
        ),
        "congruence": lambda: (matrix((*batch, m, n)), positive(rng, n, batch)),
        "whiten": lambda: (matrix((*batch, 9, n)),),
        "mahalanobis": lambda: (matrix((*batch, n)), matrix((n,)), positive(rng, n, batch)),
        "gaussian_logpdf": lambda: (matrix((*batch, n)), matrix((n,)), positive(rng, n, batch)),
    }[name]()


def kalman(x, p, z, f, h, q, r):
    x = f @ x
    p = f @ p @ f.T + q
    k = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
    return x + k @ (z - h @ x), p - k @ h @ p


def logpdf(x, mean, c):
    d = x - mean
    return -0.5 * (len(x) * np.log(2 * np.pi) + np.linalg.slogdet(c)[1] + d @ np.linalg.solve(c, d))


PLAIN = {
    "kalman_step": kalman,
    "congruence": lambda a, x: a @ x @ a.T,
    "whiten": lambda x: np.linalg.solve(np.linalg.cholesky(np.atleast_2d(np.cov(x.T))), (x - x.mean(0)).T).T,
    "mahalanobis": lambda x, m, c: np.sqrt((x - m) @ np.linalg.solve(c, x - m)),
    "gaussian_logpdf": logpdf,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PLAIN)
def test_chains(name, dtype, rng):
    fused = getattr(smallmm, name)
    assert isinstance(fused, Fused)
    for n, m in ((4, 2), (6, 3), (1, 1), (3, 3)):
        arrays = [x.astype(dtype) for x in chain_arguments(rng, name, (40,), n, m)]
        result = fused(*arrays)
        result = result if isinstance(result, tuple) else (result,)
        cores = [len(dims) for dims in fused._inputs]
        for q in (0, 39):
            one = [x[q] if x.ndim > core else x for x, core in zip(arrays, cores, strict=True)]
            expected = PLAIN[name](*(x.astype(np.float64) for x in one))
            expected = expected if isinstance(expected, tuple) else (expected,)
            for ours, theirs in zip(result, expected, strict=True):
                assert ours.dtype == dtype
                size = 1 + np.abs(theirs).max()
                tolerance = (2e-3 if dtype == np.float32 else 1e-11) * size
                np.testing.assert_allclose(ours[q], theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", "fdFD")
def test_covariances_of_kalman_step_are_symmetric(dtype, rng):
    for n, m in ((1, 1), (4, 2), (7, 3)):
        shapes = (9, n), (9, m), (n, n), (m, n)
        x, z, f, h = (random_numbers(rng, shape, np.dtype(dtype)) for shape in shapes)
        q, r = np.eye(n, dtype=dtype), np.eye(m, dtype=dtype)
        p = np.tile(q, (9, 1, 1))
        for _ in range(4):
            x, p = smallmm.kalman_step(x, p, z, f, h, q, r)
            np.testing.assert_array_equal(p, p.conj().mT)


def squared(a):
    return a @ a


def test_pickling():
    """By name, as functions are; a fused function that has no name of its own by what it is made of."""
    assert pickle.loads(pickle.dumps(smallmm.congruence)) is smallmm.congruence
    again = pickle.loads(pickle.dumps(fuse(squared, "(n,n)->(n,n)")))
    assert again.signature == "(n,n)->(n,n)"
    assert_same(again(np.eye(3)), np.eye(3))


class TestLongVectors:
    """Sums of vectors that are divided into blocks have the bits of those that are not."""

    FUNCTIONS = {  # noqa: RUF012
        "dot": ("(n),(n)->()", lambda x, y: np.sum(x * y)),
        "several": (
            "(n),(n)->(),()",
            lambda x, y: (np.sqrt(np.sum((x - y) ** 2 * 0.5)) + 1, np.exp(-x).mean()),
        ),
        "one input": ("(n),()->()", lambda x, s: np.sum(x * s)),
        "a mask": ("(n),(n)->()", lambda x, y: np.sum(np.where(x < y, x, 0.0))),
    }
    OTHERS = {  # noqa: RUF012
        "centred": ("(n),(n)->()", lambda x, y: np.sum((x - x.mean()) * y)),
        "elements": ("(n),(n)->(),(n)", lambda x, y: (np.sum(x), x * y)),
        "scan": ("(n),(n)->(n)", lambda x, y: np.cumsum(x * y)),
        "part": ("(n),(n)->()", lambda x, y: np.sum((x * y)[1:])),
        "reversed": ("(n),(n)->()", lambda x, y: np.sum(x[::-1] * y)),
    }

    def results(self, monkeypatch, least, signature, function, operands):
        monkeypatch.setattr(long_sums, "MIN_LENGTH", least)
        fused = smallmm.fuse(signature)(function)
        result = fused(*operands)
        (plan,) = fused._plans.values()
        kinds = {type(x) for x in plan.programs.values()}
        return (result if isinstance(result, tuple) else (result,)), kinds

    def check(self, monkeypatch, signature, function, operands, divided=True):
        ours, kinds = self.results(monkeypatch, 2, signature, function, operands)
        assert (kinds == {long_sums.LongProgram}) == divided
        theirs, kinds = self.results(monkeypatch, 1 << 60, signature, function, operands)
        assert kinds == {smallmm._core.Program}
        for x, y in zip(ours, theirs, strict=True):
            assert type(x) is type(y)
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)

    def operands(self, rng, signature, n, dtype, batch=()):
        x, y = rng.standard_normal((2, *batch, n)).astype(dtype)
        return (x, y[..., 0]) if "()->" in signature else (x, y)

    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("isa", smallmm._core.isas_available())
    def test_bits(self, name, isa, rng, monkeypatch):
        before = smallmm._core.isa()
        smallmm._core.select_isa(isa)
        try:
            for n in (65, 128, 4095, 4096, 4097, 5000, 64**3 + 1):
                for dtype in ("f8", "f4"):
                    signature, function = self.FUNCTIONS[name]
                    operands = self.operands(rng, signature, n, dtype)
                    self.check(monkeypatch, signature, function, operands)
        finally:
            smallmm._core.select_isa(before)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_layouts_and_stacks(self, name, rng, monkeypatch):
        signature, function = self.FUNCTIONS[name]
        for batch in ((3,), (2, 1, 3), (0,), (400,)):
            x, y = self.operands(rng, signature, 200, "f8", batch)
            self.check(monkeypatch, signature, function, (x, y))
            self.check(monkeypatch, signature, function, (x[..., ::-1], y[:1]))
            wide = np.repeat(x, 3, axis=-1)[..., ::3]
            self.check(monkeypatch, signature, function, (wide, y))
            self.check(monkeypatch, signature, function, (np.asfortranarray(x), y))

    @pytest.mark.parametrize("name", OTHERS)
    def test_not_divided(self, name, rng, monkeypatch):
        signature, function = self.OTHERS[name]
        self.check(monkeypatch, signature, function, self.operands(rng, signature, 1000, "f8"), False)

    def test_many_sums(self, rng, monkeypatch):
        """More than the program of the sums takes."""
        x = rng.standard_normal(1000)
        for count in 10, 40:
            signature = "(n)->" + ",".join(["()"] * count)
            function = lambda x, count=count: tuple(np.sum(x * float(i)) for i in range(count))  # noqa: E731
            self.check(monkeypatch, signature, function, (x,), divided=count == 10)

    def test_a_long_vector(self, rng):
        """Threads share it, and it is right; NaN stays NaN."""
        x, y = rng.standard_normal((2, 300_001))
        dot = smallmm.fuse("(n),(n)->()")(lambda x, y: np.sum(x * y))
        first = dot(x, y)
        assert first == pytest.approx(x @ y, rel=1e-9)
        for threads in 1, 2, 5:
            with smallmm.threads(threads):
                assert dot(x, y) == first
        out = np.empty(2)
        dot(x, np.stack([y, y]), out=out)
        assert (out == first).all()
        assert dot(x > 0, y) == pytest.approx(y[x > 0].sum(), rel=1e-9)
        assert np.isnan(dot(np.where(np.arange(len(x)) == 77, np.nan, x), y))
        with pytest.raises(ValueError, match="y has shape"):
            dot(x, y[1:])
        plan = dot.explain(x, y)
        assert (plan.block, plan.fused) == (64, True)
        assert plan.temporaries <= 64 * 8
        assert "blocks of 64 elements" in str(plan)
        assert plan.steps[2].kernel.startswith("smm_matmul")


def test_masked():
    """No step heeds a mask: what is masked is refused, and a mask of nothing is none."""
    function = fuse(lambda x, y: x + y)
    with pytest.raises(TypeError, match="y is a masked array, 1 of whose 2 elements are masked"):
        function(0.0, np.ma.masked_array([1.0, 2.0], [False, True]))
    found = function(0.0, np.ma.masked_array([1.0, 2.0], [False, False]))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, [1, 2])

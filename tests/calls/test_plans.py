"""Plans: kernels forced by name, what SMALLMM_VERBOSE prints, batch dimensions that do not merge, and the
tables of operations and element types that the core exports."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import smallmm
from smallmm import _core

LENGTHS = (1, 3, 8, 64, 130, 600, 1000, 1500)
GUFUNCS = [x for x in vars(_core).values() if isinstance(x, np.ufunc)]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import numpy as np, smallmm\n{code}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(autouse=True)
def no_kernel_is_forced_afterwards() -> Iterator[None]:
    yield
    _core.select_kernel(None)


def of_layout(layout: str, rows: int, cols: int) -> np.ndarray:
    return np.ones((rows, 2 * cols))[:, ::2] if layout == "gaps" else np.ones((rows, cols), order=layout)


@pytest.mark.parametrize("of_a", ["C", "F", "gaps"])
@pytest.mark.parametrize("of_b", ["C", "F", "gaps"])
def test_no_large_product_is_computed_element_by_element(of_a, of_b):
    """As those of 512 to 1024 terms were that pack an operand: 40 times as slow."""
    for m, k, n in itertools.product(LENGTHS, LENGTHS, LENGTHS):
        if not 5e4 <= m * k * n <= 1e8:
            continue
        a, b = of_layout(of_a, m, k), of_layout(of_b, k, n)
        for order in ("C", "F"):
            plan = smallmm.explain("matmul", a, b, out=np.empty((m, n), order=order))
            assert "strided" not in plan.kernel, (m, k, n, order)


@pytest.mark.parametrize(
    "name", ["cholesky", "qr", "eigh", "eigvalsh", "svd", "svdvals", "eig", "eigvals", "schur"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_few_matrices_do_not_leave_lanes_empty(name, dtype):
    """One after the other they are faster, and have the bits that they have among many."""
    function, n = getattr(smallmm, name), 65
    rng = np.random.default_rng(7)
    many = rng.standard_normal((40, n, n)).astype(dtype)
    if np.iscomplexobj(many):
        many.imag = rng.standard_normal((40, n, n))
    many = many + many.conj().mT + 4 * n * np.eye(n, dtype=dtype)
    assert smallmm.explain(function, many[:1]).strategy == "single"
    assert smallmm.explain(function, many).strategy != "single"
    expected = function(many)
    for q in range(3):
        found = function(many[q])
        for x, y in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
            np.testing.assert_array_equal(x, y[q])


@pytest.mark.parametrize("isa", _core.isas_available())
@pytest.mark.parametrize(
    ("kernel", "function", "n"),
    [
        ("inv_panels", smallmm.inv, 5),
        ("lu_panels", smallmm.lu_factor, 4),
        ("lu_panels", smallmm.det, 4),
        ("qr_lanes", smallmm.qr, 3),
        ("cholesky_lanes", smallmm.cholesky, 2),
        ("eigh_lanes", smallmm.eigh, 5),
        ("ldl_lanes", smallmm.ldl_factor, 3),
        ("cholesky_single", smallmm.cholesky, 9),
        ("qr_single", smallmm.qr, 9),
        ("eigh_single", smallmm.eigh, 9),
        ("eigvalsh_single", smallmm.eigvalsh, 17),
        ("svd_single", smallmm.svd, 9),
        ("svd_single", smallmm.svdvals, 17),
        ("eig_single", smallmm.eig, 9),
        ("eigvals_single", smallmm.eigvals, 17),
        ("schur_single", smallmm.schur, 9),
        ("sqrtm_single", smallmm.sqrtm, 17),
        ("matmul_strided", smallmm.matmul, 5),
        ("matmul_rows", smallmm.matmul, 8),
    ],
)
def test_a_forced_kernel_runs_and_gives_the_same_bits(isa, kernel, function, n):
    before = _core.isa()
    a = np.random.default_rng(n).standard_normal((37, n, n))
    a = a @ a.mT + n * np.eye(n)
    operands = [a, a] if function is smallmm.matmul else [a]
    try:
        _core.select_isa(isa)
        expected = function(*operands)
        _core.select_kernel(kernel)
        forced = smallmm.explain(function, *operands).kernel
        found = function(*operands)
        other = smallmm.explain(smallmm.solve_triangular, a, a[0, 0]).kernel
    finally:
        _core.select_isa(before)
    assert forced == f"smm_{kernel}_f64_{isa}"
    assert kernel not in other
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("isa", _core.isas_available())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [9, 16, 17, 20, 23, 24, 31, 32, 64])
def test_cholesky_of_full_lanes_has_the_bits_of_one_matrix(isa, dtype, n):
    """How rows of L are stored depends on the order, on gaps between rows, and on where matrices begin."""
    before = _core.isa()
    a = np.random.default_rng(n).standard_normal((37, n, n)).astype(dtype)
    a = a @ a.mT + n * np.eye(n, dtype=dtype)
    wide = np.full((37, n, n + 1), 7, dtype)
    try:
        _core.select_isa(isa)
        expected = np.stack([smallmm.cholesky(x) for x in a])
        np.testing.assert_array_equal(smallmm.cholesky(a), expected)
        smallmm.cholesky(a, out=wide[..., :n])
        np.testing.assert_array_equal(wide[..., :n], expected)
        assert (wide[..., n] == 7).all()
    finally:
        _core.select_isa(before)


@pytest.mark.parametrize("isa", _core.isas_available())
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", [3, 9, 17, 30])
def test_panels_and_lanes_of_complex_matrices_give_the_same_bits(isa, dtype, n):
    """One of the matrices is singular, one tiny and one huge: their quotients are not by reciprocals."""
    before = _core.isa()
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((2, 19, n, n)) + 1j * rng.standard_normal((2, 19, n, n))).astype(dtype)
    tiny = np.finfo(dtype).tiny
    a[1, :, 1], a[2], a[3] = 0, a[2] * tiny * 8, a[3] / tiny / n
    calls = [smallmm.lu_factor_ex, smallmm.inv_ex, smallmm.slogdet]
    calls += [lambda x, k=k: smallmm.solve_ex(x, b[: len(x), :, :k]) for k in (1, 3, n)]
    calls.append(lambda x: [smallmm.det(x)])
    try:
        _core.select_isa(isa)
        for call in calls:
            found = []
            for kernel in ("lu_panels", "det_lanes" if call in (smallmm.slogdet, calls[-1]) else "lu_lanes"):
                _core.select_kernel(kernel)
                found.append([np.asarray(x) for count in (1, 19) for x in call(a[:count])])
            for x, y in zip(*found, strict=True):
                np.testing.assert_array_equal(x, y)
                assert np.isfinite(x[0]).all()
    finally:
        _core.select_isa(before)


@pytest.mark.parametrize("isa", _core.isas_available())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [4, 7, 9, 12, 13, 15, 16, 23])
def test_panels_and_lanes_of_real_matrices_give_the_same_bits(isa, dtype, n):
    """Panels are taken from dense matrices where they lie, from others by a copy. Some matrices have equal,
    zero or tiny pivots, or NaN, and must have the same rows exchanged."""
    before = _core.isa()
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, 41, n, n)).astype(dtype)
    a[::3] = rng.integers(-1, 2, a[::3].shape)
    a[1, :, 1], a[2] = 0, a[2] * np.finfo(dtype).tiny * 8
    a[4, rng.integers(n), rng.integers(n)] = np.nan
    wide = np.zeros((41, n, 2 * n), dtype)
    wide[..., ::2] = a
    layouts = [a, wide[..., ::2], np.asfortranarray(a), a.mT.copy().mT, a[::-1].copy()[::-1]]
    calls = [smallmm.lu_factor_ex, smallmm.slogdet]
    calls += [lambda x, k=k: smallmm.solve_ex(x, b[: len(x), :, :k]) for k in (1, 2, 3, 4)]
    try:
        _core.select_isa(isa)
        for call in calls:
            _core.select_kernel(None)
            expected = {count: call(a[:count]) for count in (1, 41)}
            _core.select_kernel("lu_panels")
            for layout in layouts:
                for count, results in expected.items():
                    for x, y in zip(call(layout[:count]), results, strict=True):
                        np.testing.assert_array_equal(x, y)
    finally:
        _core.select_isa(before)


def test_many_right_hand_sides_have_the_bits_of_one():
    rng = np.random.default_rng(5)
    for dtype in (np.float32, np.float64, np.complex64):
        a, b = rng.standard_normal((2, 3, 45, 45)).astype(dtype)
        many = smallmm.solve(a, b)
        for j in (0, 7, 44):
            np.testing.assert_array_equal(smallmm.solve(a, b[..., j : j + 1]), many[..., j : j + 1])


def test_a_kernel_that_cannot_run_a_call_leaves_it_alone():
    a = np.eye(4)[None]
    usual = smallmm.explain(smallmm.inv, a).kernel
    for kernel in ("matmul_rows", "lu_panels"):
        _core.select_kernel(kernel)
        assert smallmm.explain(smallmm.inv, a).kernel == usual


def test_an_unknown_kernel_is_an_error():
    with pytest.raises(ValueError, match=r"kernel 'no_such' .* is unknown; expected an operation"):
        _core.select_kernel("no_such")
    done = run("", SMALLMM_KERNEL="no_such")
    assert "ValueError: kernel 'no_such' (from SMALLMM_KERNEL or select_kernel) is unknown" in done.stderr
    done = run("print(smallmm.explain(smallmm.inv, np.eye(5)).kernel)", SMALLMM_KERNEL="inv_panels")
    assert done.stdout.startswith("smm_inv_panels_f64_"), done.stderr


def test_verbose_prints_a_line_for_each_plan():
    code = "smallmm.matmul(np.ones((5, 2, 3)), np.ones((5, 3, 2))); smallmm.inv(np.eye(4, dtype=np.float32))"
    lines = run(code, SMALLMM_VERBOSE="1").stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("smallmm: MATMUL f64 m=2 n=2 k=3 batch=5: smm_matmul_")
    assert lines[1].startswith("smallmm: INV f32 m=4 n=4 k=1 batch=1: smm_inv_")
    for value in ("", "0"):
        assert run(code, SMALLMM_VERBOSE=value).stderr == ""


def test_batch_dimensions_that_do_not_merge_are_one_job():
    a = np.random.default_rng(1).standard_normal((2, 3, 4, 5, 3, 3))
    mixed = a.transpose(3, 1, 0, 2, 4, 5)
    plan = _core.explain(_core.direct["matmul"], mixed, mixed)
    assert (plan["calls"], plan["matrices"]) == (1, 120)
    found = _core.direct["matmul"](mixed, mixed)
    expected = smallmm.matmul(a, a).transpose(3, 1, 0, 2, 4, 5)
    np.testing.assert_array_equal(found, expected)
    out = np.zeros((3, 5, 4, 2, 3, 3)).transpose(1, 0, 3, 2, 4, 5)
    assert _core.direct["inv"](mixed, out)[0] is out
    np.testing.assert_array_equal(out, smallmm.inv(np.ascontiguousarray(mixed)))


def test_more_dimensions_than_a_call_has_are_left_to_numpy():
    a = np.ones([2, 1] * 10 + [2, 2])[(slice(None), 0) * 10]
    spread = np.zeros([3] * 10 + [2, 2])[(slice(2),) * 10]
    assert _core.direct["matmul"](spread, a) is NotImplemented
    np.testing.assert_array_equal(smallmm.matmul(spread, a), np.matmul(spread, a))


@pytest.mark.parametrize("name", ["solve", "lu_solve", "cho_solve", "solve_lower", "lstsq"])
def test_a_vector_takes_the_direct_road(name):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((6, 3, 3)) + 4 * np.eye(3), rng.standard_normal(3)
    pivots = [np.tile(np.arange(3, dtype=np.int32), (6, 1))] if name == "lu_solve" else []
    rtol = [np.full(6, 1e-9)] if name == "lstsq" else []
    found = _core.direct[name](a, *pivots, b, *rtol)
    expected = _core.direct[name](a, *pivots, b[:, None], *rtol)
    assert found is not NotImplemented
    found, expected = (x[0] if isinstance(x, tuple) else x for x in (found, expected))
    assert found.shape == (6, 3)
    np.testing.assert_array_equal(found, expected[..., 0])


class TestTables:
    def test_operations(self):
        for name, operands in _core.operations.items():
            names = [operand for operand, *_ in operands]
            assert names[0] == {"SOLVE_TRIDIAGONAL": "dl", "SOLVE_BANDED": "ab", "SOLVEH_BANDED": "ab"}.get(
                name, "a"
            )
            assert len(set(names)) == len(names) <= _core.limits["operands"]
            assert ("info" in names) == (name not in ("MATMUL", "EXPM"))
            assert "info" not in names[:-1]
            directions = [direction for _, direction, *_ in operands]
            assert directions == sorted(directions), "inputs come first"
            for _, direction, optional, element, rows, cols in operands:
                assert direction in ("in", "out")
                assert element in ("number", "real", "complex", "int32")
                assert {rows, cols} <= {"1", "m", "n", "k"}
                assert not optional or (rows, cols) == ("1", "1")

    def test_each_gufunc_has_loops_for_each_dtype(self):
        assert _core.dtypes == ("f32", "f64", "c64", "c128", "f16", "bf16")
        assert set(_core.complex_operations) <= set(_core.operations)
        for gufunc in GUFUNCS:
            assert len(gufunc.types) in (0, len(_core.dtypes)), gufunc.__name__

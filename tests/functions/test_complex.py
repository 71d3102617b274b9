"""Complex numbers: what is said of them alone. Bits, layouts and bounds of the operations are in
test_matmul.py and test_linalg.py, beside those of real numbers."""

from itertools import product

import numpy as np
import pytest
import scipy.linalg
from accuracy import (
    COMPLEX,
    assert_same_bits,
    bound,
    for_products,
    has_fma,
    has_kernel_of_its_own,
    norm1,
    real,
    unit_roundoff,
    wide_matmul,
)
from layouts import LAYOUTS, WRITABLE
from matrices import good_definite, normal

import smallmm
import smallmm._core as core
from smallmm._base.shapes import is_complex, takes_complex

pytestmark = pytest.mark.where.with_args(has_kernel_of_its_own)


@pytest.fixture(params=COMPLEX, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return np.dtype(request.param)


def assert_close(x, expected, dtype):
    x, expected = np.asarray(x), np.asarray(expected)
    assert x.dtype.itemsize == (dtype.itemsize if x.dtype.kind == "c" else dtype.itemsize // 2)
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(x, expected, rtol=0, atol=2e3 * np.finfo(dtype).eps * scale)


# --- products ------------------------------------------------------------------------------------------


@pytest.mark.where.with_args(lambda isa: has_fma(isa))  # others round twice
def test_parts_of_a_product(isa):
    """Each part is the term of the first factor's real part, and then that of its imaginary part."""
    a, b = np.complex128(complex(1 + 2**-30, 1)), np.complex128(complex(1 + 2**-30, 1))
    (c,) = smallmm.matmul(np.full((1, 1), a), np.full(1, b))
    square = np.float64((1 + 2**-30) ** 2)  # rounded, then less 1 by a fused multiply-add
    assert c.real == square - 1
    assert c.imag == 2 * (1 + 2**-30)


def test_infinities_are_not_rescued(isa, dtype):
    """C's Annex G would make an infinity of this."""
    c = smallmm.matmul(np.array([[complex(np.inf, 1)]], dtype), np.array([complex(1, np.inf)], dtype))
    assert np.isnan(c[0].real)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 17, 17)])
def test_conjugates_are_numpys(isa, dtype, shape, rng):
    a, b = normal(rng, shape, dtype), normal(rng, shape, dtype)
    assert_close(smallmm.matmul(a.conj().mT, b), np.matmul(a.conj().mT, b), dtype)
    x = normal(rng, shape[:2], dtype)
    assert_close(smallmm.vecmat(x, a), np.vecmat(x, a), dtype)
    assert_close(smallmm.matvec(a, x), np.matvec(a, x), dtype)
    wide = a.astype(complex)
    assert_close(smallmm.vecmat(x.tolist(), wide), np.vecmat(x.tolist(), wide), np.dtype(complex))


@pytest.mark.parametrize(
    ("pair", "computed"), [("fF", "F"), ("dF", "D"), ("fD", "D"), ("iF", "D"), ("eF", "F"), ("dD", "D")]
)
def test_mixtures_follow_numpy(pair, computed, rng):
    a, b = (np.ones((2, 3, 3), dtype) + np.eye(3, dtype=dtype) for dtype in pair)
    assert np.matmul(a, b).dtype == computed
    for x, y in ((a, b), (b, a)):
        c = smallmm.batched_matmul(x, y)
        assert_same_bits(c, smallmm.batched_matmul(x.astype(computed), y.astype(computed)))
        x = x + np.eye(3, dtype=x.dtype) * np.arange(3).astype(x.dtype)
        solution = smallmm.solve(x, y)
        assert solution.dtype == computed
        assert_close(x @ solution, y, np.dtype(computed))


# --- products of a real and a complex factor -----------------------------------------------------------


def assert_parts_are_products(c, x, y, multiply=core.batched_matmul):
    """Parts of the product have the bits of products of the real factor with the parts of the other."""
    for part in ("real", "imag"):
        factors = (getattr(z, part) if z.dtype.kind == "c" else z for z in (x, y))
        expected = np.zeros(c.shape, real(c.dtype))
        expected[...] = multiply(*factors)
        assert_same_bits(getattr(c, part), expected)


def factors(rng, m, k, n, dtype, batch=9):
    """Real times complex, and complex times real."""
    a, b = normal(rng, (batch, m, k), dtype), normal(rng, (batch, k, n), dtype)
    return (a.real.copy(), b), (a, b.imag.copy())


@pytest.mark.parametrize("shape", [(n, n, n) for n in range(1, 34)] + [(1, 5, 7), (7, 5, 1), (3, 40, 2)])
def test_a_real_factor(isa, dtype, shape, rng):
    """In every layout, and equal to the complex product, of finite numbers."""
    for x, y in factors(rng, *shape, dtype):
        whole = core.batched_matmul(x.astype(dtype), y.astype(dtype))
        for place_x, place_y in product(LAYOUTS.values(), repeat=2):
            placed = place_x(x), place_y(y)
            c = smallmm.batched_matmul(*placed)
            assert c.dtype == dtype
            assert_parts_are_products(c, *placed)
            assert_same_bits(core.batched_matmul(*placed), c)
        assert (smallmm.batched_matmul(x, y) == whole).all()


@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 13, 32])
def test_a_real_factor_and_out(isa, dtype, layout, n, rng):
    for x, y in factors(rng, n, n, n, dtype):
        expected = smallmm.batched_matmul(x, y)
        for place in (LAYOUTS["c"], LAYOUTS["transposed"]):
            out = WRITABLE[layout](np.full_like(expected, np.nan))
            assert smallmm.batched_matmul(place(x), place(y), out) is out
            assert_same_bits(out, expected)
        memory = x if x.dtype == dtype else y
        target = WRITABLE[layout](memory.copy())
        x, y = (target, y) if memory is x else (x, target)
        assert_same_bits(smallmm.batched_matmul(x, y, target), expected)


@pytest.mark.parametrize("shape", [(100, 70, 130), (1, 3000, 1), (4, 1300, 6), (70, 1025, 3)])
def test_a_real_factor_beyond_tiny(isa, dtype, shape, rng):
    for x, y in factors(rng, *shape, dtype, batch=2):
        for place in (LAYOUTS["c"], LAYOUTS["transposed"], LAYOUTS["sliced"]):
            assert_parts_are_products(smallmm.batched_matmul(place(x), place(y)), x, y)


def test_vectors_of_a_real_factor(isa, dtype, rng):
    for x, y in factors(rng, 5, 4, 3, dtype):
        assert_parts_are_products(smallmm.matvec(x, y[..., 0]), x, y[..., 0], smallmm.matvec)
        row = x[:, 0]
        assert_parts_are_products(smallmm.vecmat(row.conj(), y), row, y, smallmm.vecmat)
        assert_parts_are_products(smallmm.matmul(row[2], y), row[2], y, smallmm.matmul)
        assert_parts_are_products(smallmm.vecdot(row.conj(), y[..., 0]), row, y[..., 0], smallmm.vecdot)
        assert smallmm.matmul(row[0], y[0, :, 0]) == smallmm.matmul(row, y)[0, 0, 0]


def test_batch_dimensions_of_a_real_factor(isa, dtype, rng):
    a, b = normal(rng, (2, 1, 5, 3, 4), dtype), normal(rng, (3, 1, 4, 2), dtype)
    for x, y in ((a.real, b), (a, b.real), (a.real.swapaxes(0, 2), b), (a[:, :, :0], b.real)):
        c = smallmm.matmul(x, y)
        assert c.shape == (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), 3, 2)
        assert_parts_are_products(c, x, y)
    many = np.broadcast_to(a.real[(None,) * 5], (2, 1, 3, 1, 2, 2, 1, 5, 3, 4))  # more than the core takes
    many = many.transpose(8, *range(8), 9) if many.shape[8] == 4 else many
    assert_parts_are_products(smallmm.matmul(many, b), many, b)


@pytest.mark.parametrize("sizes", [(0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_nothing_of_a_real_factor(dtype, sizes, rng):
    for x, y in factors(rng, *sizes, dtype):
        c = smallmm.matmul(x, y)
        assert c.shape == (9, sizes[0], sizes[2])
        assert not c.any()


def test_scaled_products_of_a_real_factor(isa, dtype, rng):
    for x, y in factors(rng, 4, 3, 5, dtype):
        c = normal(rng, (9, 4, 5), dtype)
        weights = normal(rng, (9,), real(dtype))
        for alpha, beta in ((2, 0), (0.5, -3), (weights, weights[::-1])):
            out = c.copy()
            smallmm.batched_matmul(x, y, out, alpha=alpha, beta=beta)
            for part in ("real", "imag"):
                factors_of_part = (getattr(z, part) if z.dtype.kind == "c" else z for z in (x, y))
                expected = getattr(c, part).copy()
                smallmm.batched_matmul(*factors_of_part, expected, alpha=alpha, beta=beta)
                assert_same_bits(getattr(out, part), expected)
        for alpha in (1j, weights * dtype.type(1j)):  # which are complex, as all is then
            assert_same_bits(
                smallmm.batched_matmul(x, y, alpha=alpha),
                smallmm.batched_matmul(x.astype(dtype), y.astype(dtype), alpha=alpha),
            )


def test_infinities_beside_a_real_factor(isa, dtype):
    """Nothing is multiplied by an imaginary part of zero."""
    z, r = np.array([[complex(np.inf, 1)]], dtype), np.array([[2]], real(dtype))
    for c in (smallmm.matmul(r, z), smallmm.matmul(z, r), smallmm.matmul(z.mT, r, np.empty_like(z))):
        assert c == complex(np.inf, 2)
    assert np.isnan(smallmm.matmul(r.astype(dtype), z).imag)


@pytest.mark.parametrize("pair", ["dF", "fD", "iF", "eF", "?F", "bF", "iD", "eD"])
def test_precisions_of_a_real_factor(pair, rng):
    """Both factors are converted to the precision of NumPy's result, the real one stays real."""
    x = (3 * rng.standard_normal((7, 3, 4))).astype(pair[0])
    z = normal(rng, (7, 4, 5), np.dtype(pair[1]))
    dtype = np.result_type(x, z)
    for a, b in ((x, z), (z.mT, x.mT)):
        c = smallmm.matmul(a, b)
        assert c.dtype == dtype
        for computed, found in ((dtype, c), (np.dtype("D"), core.matmul(a, b, dtype=np.complex128))):
            wide = (y.astype(computed if is_complex(y) else real(computed)) for y in (a, b))
            assert_same_bits(found, smallmm.matmul(*wide))


def test_a_real_factor_is_explained(dtype):
    a, b = np.ones((50, 4, 4), real(dtype)), np.ones((50, 4, 4), dtype)
    of_real = smallmm.explain("matmul", a, a)
    plan = smallmm.explain("matmul", a, b)  # twice as many columns
    assert f"_{np.dtype(real(dtype)).name.replace('loat', '')}_" in plan.kernel
    assert (plan.matrices, plan.flops) == (50, 2 * of_real.flops)
    assert not plan.packed
    assert not plan.staged
    assert smallmm.explain("matmul", b.mT, a).flops == 2 * of_real.flops  # of rows
    plan = smallmm.explain("matmul", b, a)  # twice as many matrices
    assert (plan.matrices, plan.flops) == (100, 2 * of_real.flops)
    assert smallmm.explain("matmul", b, b).kernel != plan.kernel


def test_who_else_multiplies_by_a_real_factor(dtype, rng):
    """They have the same bits, infinities included."""
    for x, y in factors(rng, 3, 4, 5, dtype):
        (x if x.dtype == dtype else y)[2, 1, 2] = complex(np.inf, 1)
        expected = smallmm.matmul(x, y)
        assert np.isinf(expected.real).any()
        for found in (
            smallmm.fuse("(m,k),(k,n)->(m,n)")(smallmm.matmul)(x, y),
            smallmm.fuse("(m,k),(k,n)->(m,n)")(lambda x, y: smallmm.batched_matmul(x, y, alpha=1.0))(x, y),
            smallmm.contract("bij,bjk->bik", x, y),
            smallmm.multi_dot([x, y]),
            np.stack(list(smallmm.matmul(smallmm.Group(list(x)), smallmm.Group(list(y))))),
        ):
            assert_same_bits(found, expected)


def test_a_real_factor_of_dask(dtype, rng):
    da = pytest.importorskip("dask.array")
    for x, y in factors(rng, 3, 4, 5, dtype):
        for first in (da.from_array(x, chunks=(2, 3, 4)), x):
            lazy = smallmm.batched_matmul(first, da.from_array(y, chunks=(3, 4, 5)), alpha=2)
            assert lazy.dtype == dtype
            assert_same_bits(lazy.compute(), smallmm.batched_matmul(x, y, alpha=2))


def test_a_real_factor_of_torch(torch, dtype, rng):
    for x, y in factors(rng, 3, 4, 5, dtype):
        (x if x.dtype == dtype else y)[2, 1, 2] = complex(np.inf, 1)
        expected = smallmm.matmul(x, y)
        tensors = torch.from_numpy(x), torch.from_numpy(y)
        assert_same_bits(smallmm.matmul(*tensors).numpy(), expected)
        assert_same_bits(torch.vmap(smallmm.matmul)(*tensors).numpy(), expected)
        followed = smallmm.matmul(tensors[0].clone().requires_grad_(), tensors[1])
        assert_same_bits(followed.detach().numpy(), expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_real_factor_of_jax(jax, compiled, rng):
    multiply = jax.jit(smallmm.matmul) if compiled else smallmm.matmul
    for x, y in factors(rng, 3, 4, 5, np.dtype(np.complex64)):
        (x if x.dtype.kind == "c" else y)[2, 1, 2] = complex(np.inf, 1)
        found = np.asarray(multiply(jax.numpy.asarray(x), jax.numpy.asarray(y)))
        assert_same_bits(found, smallmm.matmul(x, y))


# --- systems of a real matrix, with complex right-hand sides --------------------------------------------

ARGUMENTS = {  # of a gufunc, of a good matrix
    "lu_solve": lambda a: smallmm.lu_factor(a),
    "lu_solve_transposed": lambda a: smallmm.lu_factor(a),
    "cho_solve": lambda a: (smallmm.cholesky(a @ a.mT),),
    "cho_solve_upper": lambda a: (smallmm.cholesky(a @ a.mT, upper=True),),
    "solve_pos": lambda a: (a @ a.mT,),
    "solve_sym": lambda a: (a + a.mT,),
    "ldl_solve": lambda a: smallmm.ldl_factor(a + a.mT),
    "ldl_solve_symmetric": lambda a: smallmm.ldl_factor(a + a.mT),
    "solve_tridiagonal": lambda a: [smallmm.diagonal(a, offset=offset) for offset in (-1, 0, 1)],
    "solve_banded": lambda a: (a[:, :3].copy(), np.array(1, np.int32)),
    "solveh_banded": lambda a: (np.abs(a[:, :3]) + np.array([[9], [1], [1]], a.dtype),),
}


@pytest.mark.where.with_args(lambda name, n: n > 2 or "banded" not in name)  # they have three diagonals
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 17, 32])
@pytest.mark.parametrize(
    "name", [*ARGUMENTS, "solve", "solve_lower", "solve_upper", "solve_unit_lower", "solve_unit_upper"]
)
def test_real_systems_with_complex_right_hand_sides(isa, dtype, name, n, rng):
    """Parts of the solution are the solutions for the parts, in every layout."""
    gufunc = getattr(core, name)
    a = rng.standard_normal((9, n, n)).astype(real(dtype)) + 3 * np.eye(n, dtype=real(dtype))
    operands = tuple(ARGUMENTS.get(name, lambda a: (a,))(a))
    for k in (1, 3):
        b = normal(rng, (9, n, k), dtype)
        for place in LAYOUTS.values():
            given = place(b)
            found = gufunc(*operands, given)
            direct = core.direct[name](*operands, given)
            assert direct is not NotImplemented or place is LAYOUTS["misaligned"]
            if direct is not NotImplemented:
                assert_same_bits(*(x[0] if isinstance(x, tuple) else x for x in (direct, found)))
            for part in ("real", "imag"):
                expected = gufunc(*operands, getattr(given, part).copy())
                x, *info = found if isinstance(found, tuple) else (found,)
                y, *wanted = expected if isinstance(expected, tuple) else (expected,)
                assert x.dtype == dtype
                assert_same_bits(getattr(x, part).copy(), y)
                for z, w in zip(info, wanted, strict=True):
                    assert_same_bits(z, w)


def test_vectors_of_real_systems(isa, dtype, rng):
    a, b = normal(rng, (7, 5, 5), real(dtype)), normal(rng, (5,), dtype)
    x = smallmm.solve(a, b)
    assert_close(a @ x[..., None], np.broadcast_to(b[:, None], (7, 5, 1)), dtype)
    assert_same_bits(x, smallmm.solve(a, b[:, None])[..., 0])
    again = b[None, :].repeat(7, 0)[..., None]
    assert_same_bits(smallmm.solve(a, again, out=again)[..., 0], x)


@pytest.mark.parametrize("n", [3, 40, 130])
def test_functions_of_real_systems(dtype, n, rng):
    """What people call, beyond the kernels' orders, too."""
    a = normal(rng, (4, n, n), real(dtype)) + n * np.eye(n, dtype=real(dtype))
    b, definite = normal(rng, (4, n, 2), dtype), a @ a.mT
    for x, matrix in (
        (smallmm.solve(a, b), a),
        (smallmm.lu_solve(smallmm.lu_factor(a), b), a),
        (smallmm.lu_solve(smallmm.lu_factor(a), b, trans="C"), a.mT),
        (smallmm.cho_solve((smallmm.cholesky(definite), True), b), definite),
        (smallmm.solve_triangular(np.tril(a), b, lower=True), np.tril(a)),
        (smallmm.solve(definite, b, assume_a="her"), definite),
        (smallmm.solve(a, b.mT, left=False).mT, a.mT),
        (smallmm.linsolve(a, b), a),
    ):
        assert x.dtype == dtype
        assert_close(matrix @ x, b, dtype)


def test_bad_real_systems_spoil_no_neighbour(isa, dtype, rng):
    a, b = normal(rng, (30, 4, 4), real(dtype)), normal(rng, (30, 4, 2), dtype)
    a[7] = 0
    for place in (LAYOUTS["c"], LAYOUTS["transposed"]):
        x, info = smallmm.solve_ex(a, place(b))
        assert np.flatnonzero(info).tolist() == [7]
        assert np.isnan(x[7].real).all()
        assert np.isnan(x[7].imag).all()
        assert_same_bits(x[8], smallmm.solve(a[8], b[8]))
        with pytest.raises(smallmm.LinAlgError, match="1 of 30"):
            smallmm.solve(a, place(b))


def test_who_else_solves_real_systems(torch, dtype, rng):
    a, b = normal(rng, (6, 4, 4), real(dtype)), normal(rng, (6, 4, 3), dtype)
    expected = smallmm.solve(a, b)
    assert_same_bits(smallmm.fuse("(n,n),(n,k)->(n,k)")(smallmm.solve)(a, b), expected)
    of_vectors = smallmm.fuse("(n,n),(n)->(n)")(smallmm.solve)
    assert_same_bits(of_vectors(a, b[..., 0].copy()), smallmm.solve(a, b[..., :1])[..., 0])
    assert_same_bits(np.stack(list(smallmm.solve(smallmm.Group(list(a)), smallmm.Group(list(b))))), expected)
    tensors = torch.from_numpy(a).requires_grad_(), torch.from_numpy(b)
    assert_same_bits(smallmm.solve(*tensors).detach().numpy(), expected)


def test_real_systems_of_jax(jax, rng):
    a, b = normal(rng, (6, 4, 4), np.float32), normal(rng, (6, 4, 3), np.dtype(np.complex64))
    expected = smallmm.solve(a, b)
    for solve in (smallmm.solve, jax.jit(smallmm.solve)):
        assert_same_bits(np.asarray(solve(jax.numpy.asarray(a), jax.numpy.asarray(b))), expected)


def test_real_systems_of_dask(dtype, rng):
    da = pytest.importorskip("dask.array")
    a, b = normal(rng, (6, 4, 4), real(dtype)), normal(rng, (6, 4, 3), dtype)
    lazy = smallmm.solve(da.from_array(a, chunks=(2, 4, 4)), b)
    assert_same_bits(lazy.compute(), smallmm.solve(a, b))


def test_real_systems_are_explained(dtype):
    a, b = np.ones((50, 4, 4), real(dtype)), np.ones((50, 4, 3), dtype)
    assert smallmm.explain("solve", a, b).kernel == smallmm.explain("solve", a, b.real).kernel
    of_complex = smallmm.explain("solve", a.astype(dtype), b)
    assert smallmm.explain("solve", a.astype(dtype), b.real).kernel == of_complex.kernel


def test_numbers_follow_the_arrays(dtype, rng):
    a = normal(rng, (3, 2, 2), dtype)
    assert_same_bits(smallmm.batched_matmul(a, a, alpha=2), smallmm.batched_matmul(a, a, alpha=dtype.type(2)))
    assert smallmm.batched_matmul(a, a, alpha=1j).dtype == dtype
    assert smallmm.batched_matmul(a.real, a.real, alpha=1j).dtype == dtype


# --- systems -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 8, 32, 40, 130])
@pytest.mark.parametrize("left", [True, False])
def test_conjugate_transposes(isa, dtype, n, left, rng):
    a = normal(rng, (5, n, n), dtype) + n * np.eye(n, dtype=dtype)
    b = normal(rng, (5, n, 3), dtype)
    given = b if left else np.ascontiguousarray(b.mT)
    meant = {0: a, "N": a, 1: a.mT, "T": a.mT, 2: a.conj().mT, "C": a.conj().mT}
    for trans, of in meant.items():
        for matrix, solve in (
            (of, lambda trans=trans: smallmm.lu_solve(smallmm.lu_factor(a), given, trans, left=left)),
            (np.tril(of), lambda trans=trans: triangular(a, given, trans, left)),
        ):
            x = solve()
            back = matrix @ x if left else x @ matrix
            assert np.all(np.abs(back - given) <= 100 * bound("solve", dtype, n) * norm1(a).max())
    assert_same_bits(
        smallmm.lu_solve(smallmm.lu_factor(a), given, adjoint=True, left=left),
        smallmm.lu_solve(smallmm.lu_factor(a), given, "C", left=left),
    )


def triangular(a, b, trans, left):
    lower = trans in (0, "N")
    return smallmm.solve_triangular(np.tril(a) if lower else np.triu(a), b, trans, lower, left=left)


def test_conjugate_transposes_of_lists(rng):
    a = np.array([[2, 1j], [0, 1]])
    x = smallmm.solve_triangular(a.tolist(), [1, 1], "C")
    np.testing.assert_allclose(a.conj().T @ x, [1, 1])


def test_pivots_are_compared_by_the_sum_of_parts(isa, dtype):
    """|3 + 3i| < |5|, but |3| + |3| > 5: as LAPACK."""
    a = np.array([[5, 1], [3 + 3j, 1]], dtype)
    assert smallmm.lu_factor(a).pivots.tolist() == [1, 1]
    assert scipy.linalg.lu_factor(a)[1].tolist() == [1, 1]


def test_quotients_neither_over_nor_underflow(isa, dtype):
    """Smith's division: re^2 + im^2 would."""
    info = np.finfo(dtype)
    for size in (info.max / 8, info.tiny * 8):
        a = np.array([[complex(3, 4)]], dtype) * real(dtype).type(size)
        np.testing.assert_allclose(smallmm.solve(a, a[0]), [1], rtol=8 * info.eps)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16])
def test_powers_of_two_leave_determinants(isa, dtype, n, rng):
    """Whether the product of the pivots needs exponents apart or not, its bits are the same."""
    a = np.triu(normal(rng, (37, n, n), dtype))
    far = a.copy()
    exponent = 300 if dtype == np.complex128 else 40
    far[::2, 0] *= real(dtype).type(2.0) ** exponent
    far[::2, n - 1] *= real(dtype).type(2.0) ** -exponent
    assert_same_bits(smallmm.det(far), smallmm.det(a))
    for found, expected in zip(smallmm.slogdet(far), smallmm.slogdet(a), strict=True):
        assert_same_bits(found, expected)
    exact = np.prod(np.diagonal(a, axis1=-2, axis2=-1).astype(np.clongdouble), axis=-1)
    assert np.all(abs(smallmm.det(a) - exact) <= 4 * n * np.finfo(dtype).eps * abs(exact))


def test_slogdet_is_on_the_unit_circle(isa, dtype, rng):
    a = normal(rng, (50, 6, 6), dtype)
    sign, logabsdet = smallmm.slogdet(a)
    expected = np.linalg.slogdet(a)
    assert sign.dtype == dtype
    assert logabsdet.dtype == real(dtype)
    np.testing.assert_allclose(np.abs(sign), 1, rtol=4 * np.finfo(dtype).eps)
    assert_close(sign, expected.sign, dtype)
    np.testing.assert_allclose(logabsdet, expected.logabsdet, rtol=1e-3 if dtype == np.complex64 else 1e-11)
    sign, logabsdet = smallmm.slogdet(np.zeros((2, 2), dtype))
    assert (sign, logabsdet) == (0, -np.inf)


def test_diagonals_of_hermitian_matrices(isa, dtype, rng):
    """Of A only one triangle is read, and of its diagonal the real part; that of L is real."""
    a = good_definite(rng, 5, dtype)
    lower = smallmm.cholesky(
        (np.tril(a) + np.triu(np.full((5, 5), np.nan), 1) + 7j * np.eye(5)).astype(dtype)
    )
    assert_same_bits(lower, smallmm.cholesky(a))
    assert_same_bits(smallmm.cholesky(a, upper=True), smallmm.cholesky(a.mT).mT.copy())
    assert np.all(np.diagonal(lower, axis1=-2, axis2=-1).imag == 0)


def test_qr_has_a_real_diagonal(isa, dtype, rng):
    """And LAPACK's factors."""
    a = normal(rng, (7, 6, 4), dtype)
    q, r = smallmm.qr(a)
    assert np.all(np.diagonal(r, axis1=-2, axis2=-1).imag == 0)
    for x, *expected in zip(a, q, r, strict=True):
        for found, theirs in zip(expected, scipy.linalg.qr(x, mode="economic"), strict=True):
            assert_close(found, theirs, dtype)
    h, tau = smallmm.qr(a, mode="raw")
    for x, found_h, found_tau in zip(a, h, tau, strict=True):
        (theirs, their_tau), _ = scipy.linalg.qr(x, mode="raw")
        assert_close(found_h.T, theirs, dtype)
        assert_close(found_tau, their_tau, dtype)


def hermitian(rng, n, dtype):
    """Stacks of Hermitian matrices: whole numbers, diagonal, rank one, far from 1, real, with pairs of
    equal eigenvalues."""
    x, column = normal(rng, (20, n, n), dtype), normal(rng, (5, n, 1), dtype)
    a = x + x.conj().mT
    far = real(dtype).type(2.0**40)
    q = np.linalg.qr(x[:3]).Q
    twice = (q * (np.arange(n) // 2)) @ q.conj().mT
    stacks = (a, np.round(a), a[:2] * np.eye(n), column @ column.conj().mT, a[:2] * far, a[:2] / far,
              a[:3].real + 0j, twice)  # fmt: skip
    a = np.concatenate(stacks).astype(dtype)
    return (np.tril(a, -1) + np.tril(a, -1).conj().mT + a.real * np.eye(n)).astype(dtype)


def norms(x):
    """1-norms in extended precision."""
    return np.abs(x).sum(-2).max(-1)


def assert_positive(x):
    """Of each column an element of largest magnitude, but for rounding, is real and positive."""
    size, eps = np.abs(x), np.finfo(x.dtype).eps
    largest = size >= size.max(-2, keepdims=True) * (1 - 8 * eps)
    assert (largest & (np.abs(x.imag) <= 2 * eps) & (x.real > 0)).any(-2).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 17, 32, 33, 129])
def test_eigh(isa, dtype, n, rng):
    a = hermitian(rng, n, dtype)
    w, v, info = smallmm.eigh_ex(a)
    assert not info.any()
    assert (w.dtype, v.dtype) == (real(dtype), dtype)
    assert (np.diff(w) >= 0).all()
    wide, vectors = for_products(a, v)
    limit = bound("eigh", dtype, n)
    assert (norms(wide_matmul(wide, vectors) - vectors * w[:, None, :]) <= limit * norms(wide)).all()
    assert (norms(wide_matmul(vectors.conj().mT, vectors) - np.eye(n)) <= limit).all()
    assert_positive(v)
    exact = np.linalg.eigvalsh(a.astype(np.complex128))
    assert (np.abs(w - exact).max(-1) <= limit * norms(wide)).all()
    values = smallmm.eigvalsh(a)
    if n <= 32:
        assert_same_bits(values, w)
    assert (np.abs(values - w).max(-1) <= limit * norms(wide)).all()


@pytest.mark.parametrize("n", [1, 2, 5, 32, 33, 129])
def test_triangles_of_hermitian_matrices(isa, dtype, n, rng):
    """Only one is read, and of the diagonal the real part; NaN stays in its matrix."""
    a = hermitian(rng, n, dtype)
    expected = smallmm.eigh(a)
    lower = np.where(np.tri(n, dtype=bool), a, np.nan) + (7j * np.eye(n)).astype(dtype)
    upper = np.where(np.tri(n, dtype=bool).T, a, np.nan) + (7j * np.eye(n)).astype(dtype)
    for found in (smallmm.eigh(lower), smallmm.eigh(upper, UPLO="U")):
        assert_same_bits(found.eigenvalues, expected.eigenvalues)
        assert_same_bits(found.eigenvectors, expected.eigenvectors)
    a[3, n - 1, 0] = complex(0, np.inf) if n > 1 else np.inf
    w, v, info = smallmm.eigh_ex(a)
    assert not info.any()
    assert np.isnan(w[3]).all()
    assert (np.isnan(v[3].real) & np.isnan(v[3].imag)).all()
    assert_same_bits(np.delete(v, 3, 0), np.delete(expected.eigenvectors, 3, 0))


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (3, 3),
        (4, 4),
        (5, 5),
        (8, 8),
        (17, 17),
        (32, 32),
        (5, 2),
        (2, 5),
        (40, 9),
        (9, 40),
        (34, 33),
        (140, 130),
    ],
)
@pytest.mark.parametrize("full", [False, True])
def test_svd(isa, dtype, shape, full, rng):
    m, n = shape
    x = normal(rng, (5, m, n), dtype)
    graded = x[:3] * np.geomspace(1, 1e-6, n)
    rank_one = x[:3, :, :1] @ x[:3, :1].conj()
    ones, beside = np.eye(m, n)[None], np.eye(m, n, 1)[None]
    range_ = np.finfo(dtype)
    special = (
        ones,
        1j * beside,
        beside + float(range_.eps) * x[:1],
        x[:2] * (ones + beside),
        2j * ones[:, ::-1],
    )
    sized = x[:1] * float(range_.tiny), x[:1].real * 1j * float(range_.max / 16 / max(m, n))
    a = np.concatenate(
        (x, np.round(x[:2]), graded, rank_one[:1], 0 * x[:1], x[:1].real + 0j, *special, *sized)
    ).astype(dtype)
    u, s, vh, info = smallmm.svd_ex(a, full_matrices=full)
    assert not info.any()
    assert (u.dtype, s.dtype, vh.dtype) == (dtype, real(dtype), dtype)
    k, limit = min(m, n), bound("svd", dtype, max(m, n))
    wide, left, right = (y.astype(np.clongdouble) for y in (a, u, vh))
    assert (norms(wide_matmul(left[..., :k] * s[:, None], right[:, :k]) - wide) <= limit * norms(wide)).all()
    assert (norms(wide_matmul(left.conj().mT, left) - np.eye(left.shape[-1])) <= limit).all()
    assert (norms(wide_matmul(right, right.conj().mT) - np.eye(right.shape[-2])) <= limit).all()
    assert (np.diff(s) <= 0).all()
    exact = np.linalg.svdvals(a.astype(np.complex128))
    assert (np.abs(s - exact).max(-1) <= limit * norms(wide)).all()
    assert_positive(vh[:, :k].mT if m >= n else u[..., :k])
    values = smallmm.svdvals(a)
    if k <= 32:
        assert_same_bits(values, s)
    if k <= 32 and has_fma(isa):
        gufunc = getattr(core, f"svd{'_full' * full}_{'tall' if m >= n else 'wide'}")
        for ours, expected in zip((u, s, vh), core.reference(gufunc, a)[:3], strict=True):
            assert_same_bits(ours, expected)
    assert (np.abs(values - s).max(-1) <= limit * norms(wide)).all()
    a[2, -1, 0] = complex(0, np.nan)
    again = smallmm.svd_ex(a, full_matrices=full)
    assert not again.info.any()
    assert all(np.isnan(y[2]).all() for y in again[:3])
    assert_same_bits(np.delete(again.U, 2, 0), np.delete(u, 2, 0))


def test_small_singular_values(isa, dtype, rng):
    """Those of graded matrices have a relative accuracy."""
    q = normal(rng, (9, 6, 4), dtype)
    scales = 2.0 ** (-8 * np.arange(4))
    s = smallmm.svdvals((q * scales).astype(dtype))
    r = np.linalg.qr(q.astype(np.complex128)).R
    expected = np.linalg.svdvals(q.astype(np.complex128))
    assert (s / scales <= 8 * expected[:, :1]).all()
    assert (s / scales >= expected[:, -1:] / 8).all()
    products = np.prod(s.astype(float), axis=-1)
    exact = np.abs(np.prod(np.diagonal(r, axis1=1, axis2=2), axis=-1)) * np.prod(scales)
    np.testing.assert_allclose(products, exact, rtol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("n", [129, 140])
def test_orders_beyond_the_kernels(dtype, n, rng):
    a = normal(rng, (2, n, n), dtype) + n * np.eye(n, dtype=dtype)
    b = normal(rng, (2, n, 2), dtype)
    assert_close(a @ smallmm.solve(a, b), b, dtype)
    assert_close(a @ smallmm.inv(a), np.eye(n) + 0 * a, dtype)
    definite = a @ a.conj().mT
    for upper in (False, True):
        c = smallmm.cholesky(definite, upper=upper)
        assert_close(c.conj().mT @ c if upper else c @ c.conj().mT, definite, dtype)
        assert_close(definite @ smallmm.cho_solve((c, not upper), b), b, dtype)
    bad = smallmm.solve_ex(np.zeros((n, n), dtype), b)
    assert np.all(bad.info == 1)
    assert np.isnan(bad.x.real).all()
    assert np.isnan(bad.x.imag).all()


# --- compositions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 1, np.inf, -np.inf, 0, 3.5])
def test_vector_norms(dtype, order, rng):
    x = normal(rng, (5, 130), dtype)
    for given in (x, x[:, ::-1], x.T):
        axis = 0 if given.shape[0] == 130 else 1
        assert_close(
            smallmm.vector_norm(given, axis=axis, ord=order),
            np.linalg.vector_norm(given, axis=axis, ord=order),
            dtype,
        )
    assert_same_bits(
        smallmm.vector_norm(x[:, ::3], axis=1, ord=order),
        smallmm.vector_norm(x[:, ::3].copy(), axis=1, ord=order),
    )


@pytest.mark.parametrize("order", ["fro", 1, -1, np.inf, -np.inf, 2, -2, "nuc"])
def test_matrix_norms(dtype, order, rng):
    x = normal(rng, (5, 4, 4), dtype)
    assert_close(smallmm.matrix_norm(x, ord=order), np.linalg.matrix_norm(x, ord=order), dtype)
    assert_close(smallmm.cond(x, order), np.linalg.cond(x, order), dtype)


def test_norms_neither_over_nor_underflow(dtype):
    info = np.finfo(dtype)
    for size in (info.max / 8, info.tiny):
        x = np.array([3, 4j, 12], dtype) * real(dtype).type(size / 16)
        for order in (2, 1, np.inf):
            np.testing.assert_allclose(
                smallmm.vector_norm(x, ord=order) / size, {2: 13, 1: 19, np.inf: 12}[order] / 16, rtol=1e-6
            )
    assert smallmm.norm(np.array([complex(np.inf, 1)], dtype)) == np.inf
    assert np.isnan(smallmm.norm(np.array([complex(np.nan, 1)], dtype), 1))


def test_traces(dtype, rng):
    x = normal(rng, (5, 70, 70), dtype)
    assert_close(smallmm.trace(x), np.trace(x, axis1=1, axis2=2), dtype)
    x[0, 0, 0] = complex(np.inf, 1)
    assert np.isfinite(smallmm.trace(x)[0].imag)
    assert_same_bits(smallmm.diagonal(x, offset=1), np.diagonal(x, 1, 1, 2))


def test_other_compositions(dtype, rng):
    a, x = normal(rng, (5, 4, 4), dtype), normal(rng, (5, 4), dtype)
    for power in (0, 1, 3, 5, -2):
        assert_close(smallmm.matrix_power(a, power), np.linalg.matrix_power(a, power), dtype)
    assert_close(smallmm.multi_dot([a, a, x[..., None]]), a @ a @ x[..., None], dtype)
    assert_close(smallmm.outer(x, x), x[..., None] * x[..., None, :], dtype)
    assert_close(smallmm.cross(x[:, 1:], x[:, :3]), np.linalg.cross(x[:, 1:], x[:, :3]), dtype)
    assert_close(smallmm.einsum("bij,bkj->bik", a, a), np.einsum("bij,bkj->bik", a, a), dtype)
    for scale in (1e-4, 1, 20):
        assert_close(smallmm.expm(1j * scale * a), scipy.linalg.expm(1j * scale * a), dtype)
    assert smallmm.matrix_rank(x[0]) == 1


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16])
def test_functions_of_hermitian_matrices(dtype, n, rng):
    z = normal(rng, (9, n, n), dtype)
    a = z @ z.conj().mT + np.eye(n, dtype=real(dtype))
    lower = np.tril(a) + np.triu(np.full_like(a, np.nan), 1)  # which alone is read
    results = {
        "sqrtm": smallmm.sqrtm(lower, assume_a="her"),
        "logm": smallmm.logm(lower, assume_a="her"),
        "powm": smallmm.powm(lower, -0.5, assume_a="her"),
        "expm": smallmm.expm(lower / (4 * n), assume_a="her"),
        "pinv": smallmm.pinv(lower, hermitian=True),
    }
    for x in results.values():
        assert x.dtype == dtype
        np.testing.assert_array_equal(x, x.conj().mT)
    eps, size = np.finfo(dtype).eps, np.linalg.norm(a, 2, axis=(1, 2)).max()
    root, inverse_root = results["sqrtm"], results["powm"]
    np.testing.assert_allclose(root @ root, a, atol=40 * n * eps * size)
    np.testing.assert_allclose(
        root @ inverse_root, np.broadcast_to(np.eye(n), a.shape), atol=60 * n * eps * size
    )
    wide = a.astype(complex)
    for name, expected in (
        ("logm", [scipy.linalg.logm(x) for x in wide]),
        ("expm", scipy.linalg.expm(wide / (4 * n))),
        ("pinv", np.linalg.inv(wide)),
    ):
        np.testing.assert_allclose(results[name], expected, atol=60 * n * eps * max(1, size))
    assert_same_bits(smallmm.sqrtm(a[3], assume_a="her"), root[3])


def test_hermitian_matrices_without_a_function():
    a = np.array([[[1, 1j], [-1j, 1]], [[1, 2j], [-2j, 1]], [[2, 1j], [-1j, 2]]])
    x, info = smallmm.logm_ex(a, assume_a="her")
    np.testing.assert_array_equal(info > 0, [True, True, False])
    np.testing.assert_array_equal(np.isnan(x).all((1, 2)), info > 0)
    assert_same_bits(x[2], smallmm.logm(a[2], assume_a="her"))


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 2), (2, 5), (16, 16)])
def test_pseudoinverses_and_ranks(dtype, shape, rng):
    rank = max(1, min(shape) - 1)
    a = normal(rng, (9, shape[0], rank), dtype) @ normal(rng, (9, rank, shape[1]), dtype)
    rtol = 1e-4 if real(dtype) == np.float32 else 1e-10
    x = smallmm.pinv(a, rtol=rtol)
    expected = np.linalg.pinv(a.astype(complex), rtol)
    np.testing.assert_allclose(
        x, expected, atol=1e3 * np.finfo(dtype).eps * np.abs(expected).max() ** 2 * np.abs(a).max()
    )
    np.testing.assert_array_equal(smallmm.matrix_rank(a, rtol=rtol), rank)
    np.testing.assert_array_equal(smallmm.matrix_rank(a, tol=np.full(9, 1e9, real(dtype))), 0)
    hermitian = a @ a.conj().mT
    np.testing.assert_array_equal(smallmm.matrix_rank(hermitian, hermitian=True, rtol=rtol / 10), rank)


# --- least squares -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (8, 3), (3, 8), (32, 32), (90, 4), (40, 36)])
def test_least_squares(isa, dtype, shape, rng):
    m, n = shape
    a, b = normal(rng, (9, m, n), dtype), normal(rng, (9, m, 3), dtype)
    x, norms, rank = smallmm.lstsq(a, b)
    assert (x.dtype, norms.dtype) == (dtype, real(dtype))
    assert np.all(rank == min(m, n))
    wide, right = a.astype(complex), b.astype(complex)
    residual = right - wide @ x
    unit = bound("lstsq", dtype, max(m, n))
    size = norm1(a)[:, None] * np.linalg.norm(x, axis=-2) + np.linalg.norm(b, axis=-2)
    assert np.all(np.linalg.norm(wide.conj().mT @ residual, axis=-2) <= unit * norm1(a)[:, None] * size)
    np.testing.assert_array_less(np.abs(norms - np.linalg.norm(residual, axis=-2)), unit * size + 1e-300)
    if m < n:  # of least norm: in the space of A^H
        q = np.linalg.qr(wide.conj().mT)[0]
        beside = np.linalg.norm(x - q @ (q.conj().mT @ x), axis=-2)
        assert np.all(beside <= unit * np.linalg.cond(wide)[:, None] * np.linalg.norm(x, axis=-2))
    assert_same_bits(smallmm.lstsq(a[4], b[4]).x, x[4])
    assert_same_bits(smallmm.lstsq(a, b[..., 1:2]).x, x[..., 1:2])


@pytest.mark.parametrize(("m", "n", "rank"), [(6, 4, 2), (4, 6, 3), (5, 5, 1), (32, 32, 20), (12, 3, 0)])
def test_rank_deficient_least_squares(isa, dtype, m, n, rank, rng):
    rtol = 1e-10 if dtype == np.complex128 else 1e-4
    a = normal(rng, (9, m, rank), dtype) @ normal(rng, (9, rank, n), dtype)
    b = normal(rng, (9, m, 2), dtype)
    x, norms, found = smallmm.lstsq(a, b, rtol=rtol)
    assert np.all(found == rank)
    expected = np.linalg.pinv(a.astype(complex), rtol) @ b
    u = unit_roundoff(dtype)
    np.testing.assert_allclose(x, expected, rtol=0, atol=300 * u * np.linalg.norm(expected))
    residual = np.linalg.norm(b - a.astype(complex) @ expected, axis=-2)
    np.testing.assert_allclose(norms, residual, rtol=0, atol=100 * u * np.abs(b).max())


def test_ranks_are_those_of_lapack(isa, dtype, rng):
    """Nearly deficient: singular values from 1 down to far below the tolerance."""
    for m, n in ((6, 6), (9, 5), (4, 7)):
        p = min(m, n)
        u, v = (np.linalg.qr(normal(rng, (20, k, p), np.dtype(complex)))[0] for k in (m, n))
        a = (u * 10.0 ** -np.linspace(0, 14, p)) @ v.conj().mT
        rank = smallmm.lstsq(a.astype(dtype), np.ones((m, 1), dtype)).rank
        rtol = max(m, n) * np.finfo(dtype).eps
        theirs = [
            scipy.linalg.lstsq(x, np.ones(m, dtype), cond=rtol, lapack_driver="gelsy")[2]
            for x in a.astype(dtype)
        ]
        assert np.mean(rank == theirs) > 0.9
        assert np.abs(rank - theirs).max() <= 1


def test_least_squares_far_from_one(isa, dtype, rng):
    a, b = normal(rng, (5, 6, 4), dtype), normal(rng, (5, 6, 1), dtype)
    x, _, rank = smallmm.lstsq(a, b)
    for exponent in (-900, 1000) if dtype == np.complex128 else (-90, 120):
        scale = real(dtype).type(2.0) ** exponent
        scaled = smallmm.lstsq(a * scale, b * scale)
        np.testing.assert_allclose(scaled.x, x, rtol=1e3 * np.finfo(dtype).eps)
        assert_same_bits(scaled.rank, rank)


def test_bad_least_squares_spoil_no_neighbour(isa, dtype, rng):
    a, b = normal(rng, (19, 5, 3), dtype), normal(rng, (19, 5, 2), dtype)
    clean = smallmm.lstsq(a, b)
    for number in (complex(np.nan, 0), complex(0, np.inf)):
        bad = a.copy()
        bad[7, 2, 1] = number
        x, norms, rank, info = smallmm.lstsq_ex(bad, b)
        assert np.isnan(x[7]).all()
        assert np.isnan(norms[7]).all()
        assert (rank[7], info[7]) == (0, 0)
        others = np.arange(19) != 7
        assert_same_bits(x[others], clean.x[others])


# --- what is not for complex numbers ---------------------------------------------------------------------

REFUSED = [
    ("lstsq", "rtol", lambda z: smallmm.lstsq(z, z, rtol=1j)),
    ("lstsq", "rcond", lambda z: smallmm.lstsq(z.real, z.real, [1j])),
    ("lu_rcond", "norm_a", lambda z: smallmm.lu_rcond(z, [0, 1, 2], 1j)),
    ("pinv", "rtol", lambda z: smallmm.pinv(z, rtol=1j)),
    ("pinv", "rcond", lambda z: smallmm.pinv(z.real, 1j)),
    ("matrix_rank", "tol", lambda z: smallmm.matrix_rank(z.real, tol=1j)),
    ("matrix_rank", "rtol", lambda z: smallmm.matrix_rank(z, rtol=[1j])),
]


@pytest.mark.parametrize(("op", "name", "call"), REFUSED, ids=[f"{op} {name}" for op, name, _ in REFUSED])
def test_refused(op, name, call):
    with pytest.raises(
        TypeError,
        match=f"^{op}: {name} has dtype complex128; expected float16, bfloat16, float32, float64, an",
    ):
        call(np.eye(3) + 1j)


def test_what_is_refused_is_listed():
    """docs/limits.md names them."""
    assert set(core.operations) - set(core.complex_operations) == {"SOLVE_MIXED"}
    assert takes_complex(core.matmul)


def test_out_must_hold_complex_numbers():
    with pytest.raises(TypeError, match="inv: out has dtype float64; the result is complex128"):
        smallmm.inv(np.eye(2) + 0j, out=np.empty((2, 2)))


def test_extended_precision_is_refused():
    with pytest.raises(
        TypeError,
        match="inv: a has dtype complex256; expected float16, bfloat16, float32, float64, complex64",
    ):
        smallmm.inv(np.eye(2, dtype=np.clongdouble))


def test_dask(dtype, rng):
    da = pytest.importorskip("dask.array")
    a = normal(rng, (6, 3, 3), dtype)
    lazy = da.from_array(a, chunks=(2, 3, 3))
    assert_same_bits(smallmm.inv(lazy).compute(), smallmm.inv(a))
    assert_same_bits(smallmm.slogdet(lazy)[1].compute(), smallmm.slogdet(a)[1])
    assert smallmm.lu_solve(smallmm.lu_factor(lazy), a, "C").compute().dtype == dtype


def test_torch(torch, dtype, rng):
    a = normal(rng, (6, 3, 3), dtype)
    x = torch.from_numpy(a)
    assert_same_bits(smallmm.inv(x).numpy(), smallmm.inv(a))
    assert_same_bits(smallmm.matmul(x.mH, x).numpy(), smallmm.matmul(a.conj().mT, a))
    with pytest.raises(TypeError, match=r"out is a .* with its conjugate bit set"):
        smallmm.inv(x, out=torch.empty_like(x).conj())


def test_jax(jax, rng):
    x = jax.numpy.asarray(normal(rng, (3, 3), np.dtype(np.complex64)))
    assert_same_bits(np.asarray(smallmm.inv(x)), smallmm.inv(np.asarray(x)))
    assert_same_bits(np.asarray(jax.jit(smallmm.inv)(x)), smallmm.inv(np.asarray(x)))

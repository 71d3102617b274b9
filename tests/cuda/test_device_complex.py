"""Complex matrices on a GPU: the CPU's bits for every operation, order, layout and kind of matrix; what
people call; and what has no kernel says so."""

import numpy as np
import pytest
from matrices import good, normal
from test_device_linalg import MANY, RECTANGLES, assert_cpu_bits, assert_same_bits, call, kinds, operands
from test_device_matmul import LAYOUTS

import smallmm
from smallmm import _core

pytestmark = pytest.mark.usefixtures("torch_cuda")

FACTORED = ["lu_factor", "inv", "det", "slogdet", "cholesky", "cholesky_upper"]
SOLVED = ["solve", "lu_solve", "lu_solve_transposed", "cho_solve", "cho_solve_upper"]
SOLVED += ["solve_lower", "solve_upper", "solve_unit_lower", "solve_unit_upper"]
TALL = ["qr_tall", "qr_complete", "qr_r_tall", "qr_raw_tall"]
WIDE = ["qr_complete", "qr_r_wide", "qr_raw_wide"]
DTYPES = [np.dtype(np.complex64), np.dtype(np.complex128)]


@pytest.fixture
def torch(torch_cuda):
    return torch_cuda


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


def test_every_operation_is_tested():
    names = {
        name
        for name, (op, form) in _core.gufunc_rows.items()
        if op in _core.cuda_complex_operations and not form & _core.forms["rectangular"]
    }
    assert names == {*FACTORED, *SOLVED, *TALL, *WIDE, "batched_matmul", "gemm", "matmul", "matvec", "vecmat"}


@pytest.mark.parametrize("name", FACTORED + SOLVED)
def test_every_order(torch, rng, dtype, name):
    for n in range(1, 33):
        arrays = operands(rng, name, kinds(rng, n, n, dtype))
        for count in (1, len(arrays[0]), MANY):
            part = [np.resize(x, (count, *x.shape[1:])) for x in arrays]
            assert_cpu_bits(name, call(torch, name, part), part)


@pytest.mark.parametrize("name", SOLVED)
def test_right_hand_sides(torch, rng, dtype, name):
    for n, k in ((1, 1), (3, 4), (7, 16), (8, 17), (16, 33), (32, 100)):
        arrays = operands(rng, name, kinds(rng, n, n, dtype), k)
        assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize(("m", "n"), [*((n, n) for n in (1, 2, 4, 7, 8, 16, 31, 32)), *RECTANGLES])
def test_qr(torch, rng, dtype, m, n):
    for name in TALL if m >= n else WIDE:
        arrays = operands(rng, name, kinds(rng, m, n, dtype))
        assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(torch, rng, dtype, layout):
    for name in FACTORED + SOLVED + TALL:
        for n in (1, 3, 8, 17, 32):
            arrays = operands(rng, name, kinds(rng, n, n, dtype))
            x = [LAYOUTS[layout](torch, y) if y.ndim > 2 else torch.from_numpy(y).cuda() for y in arrays]
            assert_cpu_bits(name, _core.direct[name](*x), arrays)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(torch, rng, dtype, layout):
    sizes = [
        *((n, n, n) for n in (1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 48, 64)),
        (5, 3, 1),
        (1, 40, 2),
        (64, 7, 33),
    ]
    for m, k, n in sizes:
        a, b, c = (normal(rng, (67, *size), dtype) for size in ((m, k), (k, n), (m, n)))
        x, y = (LAYOUTS[layout](torch, z) for z in (a, b))
        expected = smallmm.batched_matmul(a, b)
        assert_same_bits("matmul", smallmm.batched_matmul(x, y), (expected,))
        out = LAYOUTS[layout](torch, np.full_like(c, np.nan))
        assert smallmm.batched_matmul(x, y, out=out) is out
        assert_same_bits("matmul", out, (expected,))
        one = torch.from_numpy(b[0]).cuda()
        assert_same_bits("matmul", smallmm.batched_matmul(x, one), (smallmm.batched_matmul(a, b[0]),))
        for alpha, beta in (
            (2, 0),
            (1.5 - 1j, 0.25j),
            (normal(rng, (67,), dtype), normal(rng, (67,), dtype)),
        ):
            out = LAYOUTS[layout](torch, c)
            factors = [torch.from_numpy(z).cuda() if isinstance(z, np.ndarray) else z for z in (alpha, beta)]
            smallmm.batched_matmul(x, y, out=out, alpha=factors[0], beta=factors[1])
            wanted = smallmm.batched_matmul(a, b, c.copy(), alpha=alpha, beta=beta)
            assert_same_bits("matmul", out, (wanted,))


def test_conjugates_and_mixtures(torch, rng, dtype):
    a, b = normal(rng, (50, 5, 5), dtype), normal(rng, (50, 5, 3), dtype)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    assert x.mH.is_conj()
    assert_same_bits("matmul", smallmm.matmul(x.mH, y), (smallmm.matmul(a.conj().mT, b),))
    assert_same_bits("solve", smallmm.solve(x.conj(), y), (smallmm.solve(a.conj(), b),))
    for trans in (0, 1, 2):
        found = smallmm.lu_solve(smallmm.lu_factor(x), y, trans)
        assert_same_bits("lu_solve", found, (smallmm.lu_solve(smallmm.lu_factor(a), b, trans),))
    for trans in ("N", "T", "C"):
        found = smallmm.solve_triangular(x, y, trans, lower=True)
        assert_same_bits("solve_lower", found, (smallmm.solve_triangular(a, b, trans, lower=True),))
    real = b.real.copy()
    found = smallmm.solve(x, torch.from_numpy(real).cuda())
    assert_same_bits("solve", found, (smallmm.solve(a, real),))
    wide = smallmm.batched_matmul(torch.from_numpy(real).cuda().mT, y, alpha=2j)
    assert_same_bits("matmul", wide, (smallmm.batched_matmul(real.mT, b, alpha=2j),))


def test_one_bad_matrix(torch, rng, dtype):
    a = good(rng, 6, 6, dtype)
    a[3] = 0
    x = torch.from_numpy(a).cuda()
    assert_same_bits("inv", smallmm.inv_ex(x), tuple(smallmm.inv_ex(a)))
    with pytest.raises(smallmm.LinAlgError, match=r"singular, the first at index \(3,\)"):
        smallmm.inv(x)


def test_cupy(required, rng, dtype):
    cupy = required("cupy")
    a, b = good(rng, 7, 7, dtype), normal(rng, (7, 2), dtype)
    found = smallmm.solve(cupy.asarray(a), cupy.asarray(b))
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(found.get(), smallmm.solve(a, b))


def test_what_has_no_kernel(torch):
    x = torch.eye(3, device="cuda", dtype=torch.complex64).repeat(4, 1, 1)
    for name in ("eigh", "eigvalsh", "svd", "svdvals"):
        with pytest.raises(TypeError, match=f"{name}: a has dtype complex64"):
            getattr(smallmm, name)(x)

"""Complex matrices on a GPU: the CPU's bits for every operation, order, layout and kind of matrix; what
people call; and what has no kernel says so."""

import numpy as np
import pytest
from accuracy import as_tuple
from cases import OF_DIAGONALS, OF_TALL, OF_WIDE, SYSTEMS, names, operands
from matrices import diagonals_of_every_kind, good, kinds, normal
from test_device_linalg import MANY, RECTANGLES, assert_cpu_bits, assert_same_bits, call
from test_device_matmul import LAYOUTS

import smallmm
from smallmm import _core

pytestmark = pytest.mark.usefixtures("torch_cuda")

BY_OTHERS = ["solve_pos", "solve_pos_upper", *names("accuracy")]
SOLVED = [x for x in SYSTEMS if x not in BY_OTHERS]
FACTORED, SPECTRA = names("factors"), names("spectra")
PRODUCTS = {"batched_matmul", "gemm", "matmul", "matvec", "vecmat"}
TRIED = {*FACTORED, *SOLVED, *BY_OTHERS, *SPECTRA, *OF_TALL, *OF_WIDE, *OF_DIAGONALS, *PRODUCTS}
DTYPES = [np.dtype(np.complex64), np.dtype(np.complex128)]


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


@pytest.mark.parametrize("name", FACTORED + SOLVED + SPECTRA + ["lstsq", "svd_tall", "svdvals_tall"])
def test_every_order(torch, rng, dtype, name):
    for n in range(1, 33):
        arrays = operands(rng, name, kinds(rng, n, n, dtype))
        for count in (1, len(arrays[0]), MANY):
            part = [np.resize(x, (count, *x.shape[1:])) if x.ndim else x for x in arrays]
            assert_cpu_bits(name, call(torch, name, part), part)


@pytest.mark.parametrize("n", [1, 3, 8, 17, 32, 80])
def test_beside_real_matrices(torch, rng, dtype, n):
    """In every layout of the complex one; of float32 beside complex128, too."""
    a = rng.standard_normal((70, n, n)).astype(np.finfo(dtype).dtype)
    z = normal(rng, (70, n, n), dtype)

    def check(function, *arrays):
        expected = function(*(x.cpu().numpy() for x in arrays))
        assert_same_bits((function(*arrays),), (expected,))

    for place in LAYOUTS.values():
        there, given = torch.from_numpy(a).cuda(), place(torch, z)
        check(smallmm.matmul, there, given)
        check(smallmm.matmul, given, there)
        if n <= 32:
            check(smallmm.solve, there, given)
    check(smallmm.matmul, torch.from_numpy(a.astype(np.float32)).cuda(), given)


@pytest.mark.parametrize("size", [(65, 65, 65), (128, 128, 128), (100, 33, 70), (3, 1500, 5), (7, 70, 1)])
def test_large_products(torch, rng, dtype, size):
    """In every layout, those by columns of C, too; with vectors; added to C."""
    m, k, n = size
    a, b, c = (normal(rng, (5, *shape), dtype) for shape in ((m, k), (k, n), (m, n)))
    v, w = a[:, 0].copy(), b[..., 0].copy()
    vectors = [torch.from_numpy(x).cuda() for x in (v, w)]
    expected = smallmm.matmul(a, b)
    scaled = smallmm.batched_matmul(a, b, out=c.copy(), alpha=2 - 1j, beta=0.5j)
    for place in LAYOUTS.values():
        x, y = place(torch, a), place(torch, b)
        out = place(torch, c)
        assert_same_bits((smallmm.batched_matmul(x, y, out=out, alpha=2 - 1j, beta=0.5j),), (scaled,))
        assert_same_bits((smallmm.matmul(x, y),), (expected,))
        assert_same_bits((smallmm.vecmat(vectors[0], y),), (smallmm.vecmat(v, b),))
        assert_same_bits((smallmm.matvec(x, vectors[1]),), (smallmm.matvec(a, w),))


@pytest.mark.parametrize("name", BY_OTHERS)
def test_some_orders(torch, rng, dtype, name):
    """Of operations whose texts are those of other operations, or of real matrices."""
    for n, k in ((1, 1), (7, 2), (32, 17)):
        arrays = operands(rng, name, kinds(rng, n, n, dtype), k)
        for count in (1, len(arrays[0]), MANY) if n < 32 else (len(arrays[0]),):
            part = [np.resize(x, (count, *x.shape[1:])) for x in arrays]
            assert_cpu_bits(name, call(torch, name, part), part)
    arrays = operands(rng, name, kinds(rng, 8, 8, dtype), 3)
    moved = [LAYOUTS["padded"](torch, x) if x.ndim > 2 else torch.from_numpy(x).cuda() for x in arrays]
    assert_cpu_bits(name, _core.direct[name](*moved), arrays)


@pytest.mark.parametrize("name", OF_DIAGONALS)
def test_diagonals(torch, rng, dtype, name):
    """Of one tile and of several; by the kernel of many diagonals, too, if there may be so many."""
    tridiagonal = name.startswith("solve_tridiagonal")
    for m, lower, n, k in (
        *((3, 1, n, k) for n, k in ((1, 1), (33, 4), (700, 1))),
        *(() if tridiagonal else ((20, 12, 70, 2), (1, 0, 16, 1))),
        *(((4, None, 37, 1),) if name == "solve_banded" else ()),
    ):
        arrays = diagonals_of_every_kind(rng, name, m, n, k, 77, dtype, lower)
        assert_cpu_bits(name, call(torch, name, arrays), arrays)
    turned = [torch.from_numpy(np.asfortranarray(x)).cuda() if x.ndim else x for x in arrays]
    assert_cpu_bits(name, _core.direct[name](*turned), arrays)


@pytest.mark.parametrize("name", [*SOLVED, "lstsq"])
def test_right_hand_sides(torch, rng, dtype, name):
    for n, k in ((1, 1), (3, 4), (7, 16), (8, 17), (16, 33), (32, 100)):
        arrays = operands(rng, name, kinds(rng, n, n, dtype), k)
        assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize(("m", "n"), [*((n, n) for n in (1, 2, 4, 7, 8, 16, 31, 32)), *RECTANGLES])
def test_rectangles(torch, rng, dtype, m, n):
    for name in OF_TALL if m >= n else OF_WIDE:
        arrays = operands(rng, name, kinds(rng, m, n, dtype))
        assert_cpu_bits(name, call(torch, name, arrays), arrays)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(torch, rng, dtype, layout):
    for name in FACTORED + SOLVED + SPECTRA + OF_TALL:
        for n in (1, 3, 8, 17, 32):
            arrays = operands(rng, name, kinds(rng, n, n, dtype))
            x = [
                LAYOUTS[layout](torch, y) if y.ndim > 2 else torch.from_numpy(y).cuda() if y.ndim else y
                for y in arrays
            ]
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
        assert_same_bits(smallmm.batched_matmul(x, y), (expected,))
        out = LAYOUTS[layout](torch, np.full_like(c, np.nan))
        assert smallmm.batched_matmul(x, y, out=out) is out
        assert_same_bits(out, (expected,))
        one = torch.from_numpy(b[0]).cuda()
        assert_same_bits(smallmm.batched_matmul(x, one), (smallmm.batched_matmul(a, b[0]),))
        for alpha, beta in (
            (2, 0),
            (1.5 - 1j, 0.25j),
            (normal(rng, (67,), dtype), normal(rng, (67,), dtype)),
        ):
            out = LAYOUTS[layout](torch, c)
            factors = [torch.from_numpy(z).cuda() if isinstance(z, np.ndarray) else z for z in (alpha, beta)]
            smallmm.batched_matmul(x, y, out=out, alpha=factors[0], beta=factors[1])
            wanted = smallmm.batched_matmul(a, b, c.copy(), alpha=alpha, beta=beta)
            assert_same_bits(out, (wanted,))


def test_conjugates_and_mixtures(torch, rng, dtype):
    a, b = normal(rng, (50, 5, 5), dtype), normal(rng, (50, 5, 3), dtype)
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
    assert x.mH.is_conj()
    assert_same_bits(smallmm.matmul(x.mH, y), (smallmm.matmul(a.conj().mT, b),))
    assert_same_bits(smallmm.solve(x.conj(), y), (smallmm.solve(a.conj(), b),))
    for trans in (0, 1, 2):
        found = smallmm.lu_solve(smallmm.lu_factor(x), y, trans)
        assert_same_bits(found, (smallmm.lu_solve(smallmm.lu_factor(a), b, trans),))
    for trans in ("N", "T", "C"):
        found = smallmm.solve_triangular(x, y, trans, lower=True)
        assert_same_bits(found, (smallmm.solve_triangular(a, b, trans, lower=True),))
    real = b.real.copy()
    found = smallmm.solve(x, torch.from_numpy(real).cuda())
    assert_same_bits(found, (smallmm.solve(a, real),))
    wide = smallmm.batched_matmul(torch.from_numpy(real).cuda().mT, y, alpha=2j)
    assert_same_bits(wide, (smallmm.batched_matmul(real.mT, b, alpha=2j),))


def test_one_bad_matrix(torch, rng, dtype):
    a = good(rng, 6, 6, dtype)
    a[3] = 0
    x = torch.from_numpy(a).cuda()
    assert_same_bits(smallmm.inv_ex(x), tuple(smallmm.inv_ex(a)))
    with pytest.raises(smallmm.LinAlgError, match=r"singular, the first at index \(3,\)"):
        smallmm.inv(x)


def test_cupy(required, rng, dtype):
    cupy = required("cupy")
    a, b = good(rng, 7, 7, dtype), normal(rng, (7, 2), dtype)
    found = smallmm.solve(cupy.asarray(a), cupy.asarray(b))
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(found.get(), smallmm.solve(a, b))


COMPOSED = {
    "norm": lambda x, h: smallmm.norm(x),
    "vector_norm": lambda x, h: smallmm.vector_norm(x, axis=-1),
    "vector_norm, 3": lambda x, h: smallmm.vector_norm(x, axis=-1, ord=3),
    "matrix_norm": lambda x, h: smallmm.matrix_norm(x),
    "matrix_norm, 1": lambda x, h: smallmm.matrix_norm(x, ord=1),
    "matrix_norm, 2": lambda x, h: smallmm.matrix_norm(x, ord=2),
    "matrix_norm, nuc": lambda x, h: smallmm.matrix_norm(x, ord="nuc"),
    "cond": lambda x, h: smallmm.cond(x),
    "cond, 1": lambda x, h: smallmm.cond(x, 1),
    "matrix_rank": lambda x, h: smallmm.matrix_rank(x),
    "matrix_rank of Hermitian ones": lambda x, h: smallmm.matrix_rank(h, hermitian=True),
    "pinv": lambda x, h: smallmm.pinv(x, rtol=1e-3),
    "pinv of Hermitian ones": lambda x, h: smallmm.pinv(h, hermitian=True),
    "matrix_power": lambda x, h: smallmm.matrix_power(x, -3),
    "expm": lambda x, h: smallmm.expm(x),
    "expm of Hermitian ones": lambda x, h: smallmm.expm(h, assume_a="her"),
    "sqrtm": lambda x, h: smallmm.sqrtm(h, assume_a="her"),
    "logm": lambda x, h: smallmm.logm(h, assume_a="her"),
    "powm": lambda x, h: smallmm.powm(h, 0.3, assume_a="her"),
    "trace": lambda x, h: smallmm.trace(x),
    "cross": lambda x, h: smallmm.cross(x[..., :3], h[..., :3]),
    "outer": lambda x, h: smallmm.outer(x[:, 0], h[:, 0]),
}
WITH_SAME_BITS = ("matrix_norm, 2", "cond", "matrix_power", "trace", "outer")


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions(torch, rng, dtype, name):
    x = good(rng, 4, 4, dtype)
    h = x @ x.conj().mT + np.eye(4, dtype=dtype)
    few = np.linalg.norm(h, axis=(-2, -1)) < 80  # whose exponentials are finite
    x, h = x[few], h[few]
    expected = np.asarray(COMPOSED[name](x, h))
    found = COMPOSED[name](torch.from_numpy(x).cuda(), torch.from_numpy(h).cuda())
    assert found.is_cuda
    found = found.cpu().numpy()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if name in WITH_SAME_BITS:
        np.testing.assert_array_equal(found, expected)
    rtol = 1e-3 if dtype == np.complex64 else 1e-9
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


ACCURATE = {
    "solve, pos": lambda x, h, b: smallmm.solve(h, b, assume_a="pos"),
    "solve, upper pos": lambda x, h, b: smallmm.solve(h, b, assume_a="pos", lower=False),
    "rcond": lambda x, h, b: smallmm.rcond(x),
    "rcond, inf": lambda x, h, b: smallmm.rcond(x, np.inf),
    "backward_error": lambda x, h, b: smallmm.backward_error(x, smallmm.solve(x, b), b),
    "refine": lambda x, h, b: smallmm.refine(x, *smallmm.lu_factor(x), b, smallmm.solve(x, b)),
    "linsolve, rcond": lambda x, h, b: smallmm.linsolve_ex(x, b, return_rcond=True),
    "linsolve, rcond of pos": lambda x, h, b: smallmm.linsolve_ex(h, b, assume_a="pos", return_rcond=True),
    "linsolve, ill_conditioned": lambda x, h, b: smallmm.linsolve_ex(x, b, ill_conditioned=True),
    "linsolve, ill_conditioned her": lambda x, h, b: smallmm.linsolve_ex(
        h, b, assume_a="her", ill_conditioned=True
    ),
    "linsolve, tridiagonal": lambda x, h, b: smallmm.linsolve_ex(x, b, assume_a="tridiagonal"),
    "linsolve, auto": lambda x, h, b: smallmm.linsolve_ex(h, b, assume_a="auto"),
}
MIXED = {
    "linsolve": lambda x, h, b: smallmm.linsolve_ex(x, b, precision="mixed"),
    "linsolve, her": lambda x, h, b: smallmm.linsolve_ex(h, b, assume_a="her", precision="mixed"),
    "linsolve, pos": lambda x, h, b: smallmm.linsolve_ex(h, b, assume_a="pos", precision="mixed"),
    "lstsq": lambda x, h, b: smallmm.lstsq_ex(x[..., :4], b, precision="mixed")[::2],
}


def assert_same_as_on_host(torch, function, *arrays):
    found = function(*(torch.from_numpy(x).cuda() for x in arrays))
    for x, y in zip(as_tuple(found), as_tuple(function(*arrays)), strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert x.is_cuda
            assert_same_bits(x, (np.asarray(y),))


@pytest.mark.parametrize("name", ACCURATE)
def test_accuracy(torch, rng, dtype, name):
    x = good(rng, 5, 5, dtype)
    b = normal(rng, (len(x), 5, 2), dtype)
    assert_same_as_on_host(torch, ACCURATE[name], x, x @ x.conj().mT + np.eye(5, dtype=dtype), b)


@pytest.mark.parametrize("name", MIXED)
def test_mixed_precision(torch, rng, name):
    x = good(rng, 5, 5, np.complex128)
    b = normal(rng, (len(x), 5, 2), np.complex128)
    assert_same_as_on_host(torch, MIXED[name], x, x @ x.conj().mT + np.eye(5), b)


def test_rtol_of_each_matrix(torch, rng, dtype):
    """It is real, and converted to the real dtype."""
    a, b = good(rng, 6, 4, dtype), normal(rng, (6, 2), dtype)
    rtol = np.geomspace(1e-6, 1, len(a))
    x, y, each = (torch.from_numpy(z).cuda() for z in (a, b, rtol))
    found = smallmm.lstsq_ex(x, y, rtol=each)
    assert_same_bits(tuple(found), tuple(smallmm.lstsq_ex(a, b, rtol=rtol)))


def test_without_elements(torch, dtype):
    number = torch.complex64 if dtype == np.complex64 else torch.complex128
    a = torch.zeros(3, 4, 0, dtype=number, device="cuda")
    b = torch.full((3, 4, 2), 3 + 4j, dtype=number, device="cuda")
    found = smallmm.lstsq(a, b)
    assert found.x.shape == (3, 0, 2)
    np.testing.assert_allclose(found.residual_norms.cpu().numpy(), 10)
    assert smallmm.svdvals(a).shape == (3, 0)
    assert smallmm.lstsq(b[..., :1], b[..., :0]).x.shape == (3, 1, 0)


def test_explain(torch, dtype):
    x = torch.from_numpy(np.eye(3, dtype=dtype)).cuda().repeat(4, 1, 1)
    for name in ("eigh", "svd"):
        assert f"{name}_shared" in str(smallmm.explain(name, x))
    assert "lstsq_shared" in str(smallmm.explain("lstsq", x, x))
    assert "systems_shared" in str(smallmm.explain("solve", x, x, assume_a="pos"))
    assert "banded_tiles" in str(smallmm.explain("solve_banded", (1, 1), x, x))


def test_what_has_no_kernel(torch):
    x = torch.eye(3, device="cuda", dtype=torch.complex64).repeat(4, 1, 1)
    with pytest.raises(TypeError, match=r"conv2d: x has dtype complex64"):
        smallmm.conv2d(x[None], x[None])

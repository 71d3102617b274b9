"""Products against the reference: every instruction set, shape, layout and batch size."""

import warnings
from itertools import product

import numpy as np
import pytest
from accuracy import assert_accurate_matmul, assert_matches_reference, assert_same_bits, has_fma
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import LAYOUTS, WRITABLE
from matrices import normal

import smallmm
import smallmm._core as core

LANES = (4, 8, 16)
BATCHES = sorted({0, 1, 1000, *(lanes + d for lanes in LANES for d in (-1, 0, 1))})


def assert_matches_reference_in_every_layout(isa, a, b):
    """The reference is computed once of the same numbers: the layout "broadcast" has others."""
    expected = {}
    for place_a, place_b in product(LAYOUTS.values(), repeat=2):
        x, y = place_a(a), place_b(b)
        numbers = x.tobytes(), y.tobytes()
        if numbers in expected:
            assert_same_bits(core.batched_matmul(x, y), expected[numbers])
        else:
            expected[numbers] = assert_matches_reference(isa, core.batched_matmul, x, y)


def assert_scaled(isa, a, b, alpha, beta, c, place, most):
    """alpha A B + beta C has the reference's bits or, without FMA, errors of at most so many eps."""
    out, expected = place(c), c.copy()
    smallmm.batched_matmul(a, b, out, alpha=alpha, beta=beta)
    core.reference(core.gemm, a, b, alpha, beta, expected)
    if has_fma(isa):
        assert_same_bits(out, expected)
    else:
        np.testing.assert_allclose(out, expected, rtol=0, atol=most * np.finfo(c.dtype).eps)


@pytest.mark.parametrize("n", range(1, 34))
def test_square(isa, number, n, rng):
    a, b = normal(rng, (5, n, n), number), normal(rng, (5, n, n), number)
    assert_accurate_matmul(smallmm.batched_matmul(a, b), a, b)
    assert_matches_reference_in_every_layout(isa, a, b)


@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 13, 16, 24, 32, 33])
def test_layouts_of_out(isa, number, n, layout, rng):
    a, b = normal(rng, (9, n, n), number), normal(rng, (9, n, n), number)
    expected = smallmm.batched_matmul(a, b)
    for place_a, place_b in product((LAYOUTS["c"], LAYOUTS["transposed"]), repeat=2):
        out = WRITABLE[layout](np.full_like(a, np.nan))
        assert smallmm.batched_matmul(place_a(a), place_b(b), out) is out
        assert_same_bits(out, expected)


@given(data=st.data())
@settings(max_examples=300)
def test_rectangles(isa, number, data):
    size = st.integers(1, 40)
    m, k, n = data.draw(st.tuples(size, size, size), "m, k, n")
    batch = data.draw(st.sampled_from(BATCHES[:-1]), "batch")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
    layout = st.sampled_from(sorted(LAYOUTS))
    a = LAYOUTS[data.draw(layout, "layout of a")](normal(rng, (batch, m, k), number))
    b = LAYOUTS[data.draw(layout, "layout of b")](normal(rng, (batch, k, n), number))
    expected = assert_matches_reference(isa, core.batched_matmul, a, b)
    out = WRITABLE[data.draw(st.sampled_from(sorted(WRITABLE)), "layout of out")](
        np.full_like(expected, np.nan)
    )
    smallmm.batched_matmul(a, b, out)
    assert_same_bits(out, expected)


@pytest.mark.parametrize("shape", [(100, 70, 130), (90, 50, 70), (1, 1000, 1), (65, 1, 65), (2, 300, 4)])
def test_beyond_tiny(isa, number, shape, rng):
    m, k, n = shape
    a, b = normal(rng, (2, m, k), number), normal(rng, (2, k, n), number)
    for place in LAYOUTS.values():
        assert_matches_reference(isa, core.batched_matmul, place(a), place(b))


class TestDeepSums:
    """Of more than 1024 products: chunks of 256, added in a binary tree."""

    DEPTHS = (1024, 1025, 1279, 1280, 1281, 2048, 5000)

    @pytest.mark.parametrize("k", DEPTHS)
    @pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 3), (8, 8), (33, 5), (5, 40), (70, 3)])
    def test_bits(self, isa, number, m, k, n, rng):
        a, b = normal(rng, (2, m, k), number), normal(rng, (2, k, n), number)
        if (m, n) != (3, 3):
            assert_matches_reference(isa, core.batched_matmul, a, b)
            assert_matches_reference(isa, core.batched_matmul, LAYOUTS["f"](a), LAYOUTS["f"](b))
        else:
            assert_matches_reference_in_every_layout(isa, a, b)

    @pytest.mark.parametrize("k", DEPTHS)
    def test_scaling(self, isa, number, k, rng):
        a, b, c = (normal(rng, shape, number) for shape in ((3, 4, k), (3, k, 5), (3, 4, 5)))
        factors = normal(rng, (3,), number)
        for place in WRITABLE.values():
            for alpha, beta in [(2, 0), (0.5, -3), (factors, factors)]:
                assert_scaled(isa, a, b, alpha, beta, c, place, 10 * k)

    @pytest.mark.parametrize("k", [1500, 5000])
    def test_vectors(self, isa, number, k, rng):
        a, x = normal(rng, (2, 37, k), number), normal(rng, (2, k), number)
        for place in LAYOUTS.values():
            expected = smallmm.batched_matmul(place(a), x[..., None])
            assert_matches_reference(isa, core.batched_matmul, place(a), x[..., None])
            assert_same_bits(smallmm.matvec(place(a), x), expected[..., 0])
            if number.kind == "c":  # the factors change places, and with them the terms of imaginary parts
                expected = smallmm.batched_matmul(x[:, None], place(a).mT).mT
            assert_same_bits(smallmm.vecmat(x.conj(), place(a).mT), expected[..., 0])

    def test_threads_and_place(self, isa, number, rng):
        a, b = normal(rng, (200, 4, 1300), number), normal(rng, (200, 1300, 6), number)
        alone = np.stack([smallmm.batched_matmul(x, y) for x, y in zip(a, b, strict=True)])
        for number in (1, 2, 3):
            with smallmm.threads(number):
                assert_same_bits(smallmm.batched_matmul(a, b), alone)

    @pytest.mark.accuracy
    @pytest.mark.parametrize("k", [1025, 5000, 100_000, 1_000_000, 4_000_000])
    def test_accuracy(self, isa, dtype, k, rng):
        """Of numbers that are all alike the errors of a sum in a row are, too, and add up."""
        for points in (normal(rng, (k, 3), dtype), np.full((k, 3), 0.1, dtype)):
            assert_accurate_matmul(smallmm.matmul(points.T, points), points.T, points)

    def test_explained(self):
        a = np.ones((3, 5000))
        plan = smallmm.explain("matmul", a, a.T)
        assert plan.staged
        assert plan.flops == 2 * 3 * 3 * 5000


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (8, 8, 8), (3, 5, 2), (5, 25, 3)]
)
def test_batch_sizes(isa, number, batch, shape, rng):
    m, k, n = shape
    a, b = normal(rng, (batch, m, k), number), normal(rng, (batch, k, n), number)
    assert_matches_reference(isa, core.batched_matmul, a, b)
    assert_matches_reference(isa, core.batched_matmul, a, np.broadcast_to(b[:1], b.shape) if batch else b)


@pytest.mark.parametrize("n", [1, 3, 4, 6, 8])
def test_batch_beyond_16_bits(isa, number, n, rng):
    """70000 matrices, the same bits as 1000 of them at a time; streaming and threads take part."""
    a, b = normal(rng, (70000, n, n), number), normal(rng, (70000, n, n), number)
    c = smallmm.batched_matmul(a, b)
    for first in range(0, 70000, 1000):
        part = slice(first, first + 1000)
        assert_same_bits(c[part], smallmm.batched_matmul(a[part], b[part]))
    assert_matches_reference(isa, core.batched_matmul, a[-50:], b[-50:])


@pytest.mark.parametrize("shape", [(1000, 1000), (300_000, 1), (1, 300_000)])
def test_large_products_of_nothing(number, shape):
    """Which several threads might share."""
    m, n = shape
    with smallmm.threads(2):
        assert_same_bits(
            smallmm.matmul(np.ones((m, 0), number), np.ones((0, n), number)), np.zeros(shape, number)
        )


@pytest.mark.parametrize(("m", "k", "n"), list(product((0, 3), repeat=3)))
def test_empty(isa, number, m, k, n):
    a, b = np.ones((2, m, 4), number)[:, :, :k], np.ones((2, 4, n), number)[:, :k]
    for out in (None, np.full((2, m, n), np.nan, number)):
        assert_same_bits(smallmm.batched_matmul(a, b, out), np.full((2, m, n), k, number))
    out = np.full((2, m, n), 5, number)
    smallmm.batched_matmul(a, b, out, alpha=3, beta=2)
    assert_same_bits(out, np.full((2, m, n), 3 * k + 10, number))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 16, 31])
def test_bad_values_stay_in_their_matrix(isa, number, n, rng):
    a, b = normal(rng, (40, n, n), number), normal(rng, (40, n, n), number)
    good = smallmm.batched_matmul(a, b)
    for q, bad in enumerate([np.nan, np.inf, -np.inf, np.finfo(number).max]):
        a[10 * q + 3, 0, n // 2] = b[10 * q + 3, n // 2, n - 1] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = smallmm.batched_matmul(a, b)
    expected = core.reference(core.batched_matmul, a, b)
    if has_fma(isa):
        np.testing.assert_array_equal(c, expected)
    else:
        np.testing.assert_array_equal(np.isnan(c), np.isnan(expected))
        np.testing.assert_array_equal(np.isinf(c), np.isinf(expected))
    untouched = np.arange(40) % 10 != 3
    assert_same_bits(c[untouched], good[untouched])
    assert not np.isfinite(c[~untouched][:, 0, n - 1]).any()


@pytest.mark.parametrize("n", [1, 3, 4, 8, 17])
def test_subnormals(isa, dtype, n, rng):
    tiny = np.finfo(dtype).smallest_subnormal
    a = rng.integers(-9, 9, (6, n, n)).astype(dtype) * tiny
    b = rng.integers(-9, 9, (6, n, n)).astype(dtype)
    exact = np.matmul(np.round(a / tiny), b) * tiny
    np.testing.assert_array_equal(smallmm.batched_matmul(a, b), exact.astype(dtype))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 13, 32])
def test_bits_do_not_depend_on_place(isa, number, n, rng):
    a, b = normal(rng, (n, n), number), normal(rng, (n, n), number)
    alone = smallmm.batched_matmul(a, b)
    for batch in (2, 7, 8, 17, 130):
        for q in {0, 1, batch // 2, batch - 1}:
            many_a, many_b = normal(rng, (batch, n, n), number), normal(rng, (batch, n, n), number)
            many_a[q], many_b[q] = a, b
            assert_same_bits(smallmm.batched_matmul(many_a, many_b)[q], alone)


@pytest.mark.parametrize("n", [2, 3, 8, 16, 32])
def test_bits_do_not_depend_on_threads(isa, number, n, rng):
    batch = 1_000_000 // (n * n)
    a, b = normal(rng, (batch, n, n), number), normal(rng, (batch, n, n), number)
    results = []
    for number in (1, 2, 3):
        with smallmm.threads(number):
            results.append(smallmm.batched_matmul(a, b))
    assert_same_bits(results[1], results[0])
    assert_same_bits(results[2], results[0])


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (150, 150, 150),
        (3, 200_000, 3),
        (1, 1_000_000, 1),
        (70, 3000, 33),
        (2, 500, 1100),
        (1100, 500, 2),
        (40, 20_001, 9),
    ],
)
def test_few_large_matrices_are_shared_in_parts(isa, number, m, k, n, rng):
    a, b, c = (normal(rng, (2, *shape), number) for shape in ((m, k), (k, n), (m, n)))
    with smallmm.threads(1):
        assert smallmm.explain(smallmm.matmul, a, b).parts == 1
        alone, updated = smallmm.matmul(a, b), smallmm.batched_matmul(a, b, c.copy(), alpha=0.5, beta=-2)
    for threads in (2, 3, 8):
        with smallmm.threads(threads):
            assert smallmm.explain(smallmm.matmul, a, b).parts > 1
            assert_same_bits(smallmm.matmul(a, b), alone)
            if number.kind == "f":
                assert_same_bits(smallmm.matmul(b.mT, a.mT), alone.mT)
            assert_same_bits(smallmm.matmul(a[::-1], b[::-1]), alone[::-1])
            assert_same_bits(smallmm.batched_matmul(a, b, c.copy(), alpha=0.5, beta=-2), updated)
    assert "parts" in str(smallmm.explain(smallmm.matmul, a, b)) or smallmm.get_num_threads() == 1


def test_parts_of_a_call_of_many_matrices(dtype, rng):
    a, b = normal(rng, (1000, 100, 40), dtype), normal(rng, (1000, 40, 30), dtype)
    with smallmm.threads(4):
        assert smallmm.explain(smallmm.matmul, a, b).parts == 1


def test_bits_do_not_depend_on_isa(number, rng):
    fused = [isa for isa in core.isas_available() if has_fma(isa)]
    for n in range(1, 34):
        a, b = normal(rng, (19, n, n), number), normal(rng, (19, n, n), number)
        expected = core.reference(core.batched_matmul, a, b)
        for isa in fused:
            core.select_isa(isa)
            assert_same_bits(smallmm.batched_matmul(a, b), expected)
        core.select_isa(None)


def test_broadcasting(isa, number, rng):
    for shape_a, shape_b in [
        ((6, 1), (1, 5)),
        ((), (4,)),
        ((4,), ()),
        ((2, 1, 3), (4, 1)),
        ((0, 1), (1, 3)),
        ((), ()),
    ]:
        a, b = normal(rng, (*shape_a, 3, 4), number), normal(rng, (*shape_b, 4, 2), number)
        assert_matches_reference(isa, core.batched_matmul, a, b)
        assert smallmm.batched_matmul(a, b).shape == (*np.broadcast_shapes(shape_a, shape_b), 3, 2)


# name -> a, b and out as views of one stack
OVERLAPS = {
    "a itself": lambda x: (x[:-1], x[:-1], x[:-1]),
    "a shifted": lambda x: (x[:-1], x[1:], x[1:]),
    "a shifted back": lambda x: (x[1:], x[1:], x[:-1]),
    "a transposed": lambda x: (x, x, x.mT),
    "a reversed": lambda x: (x, x, x[::-1]),
}


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_large_stacks_in_blocks(dtype, isa, rng):
    """B by columns is packed. Where it is larger than the buffer, C is computed in blocks, of which none goes
    around the caches as whole matrices do."""
    dtype = np.dtype(dtype)
    m, k, n = 28, 63, 68 * 8 // dtype.itemsize + 1
    count = (40 << 20) // (dtype.itemsize * (m * k + k * n + m * n))
    a, b = normal(rng, (count, m, k), dtype), normal(rng, (count, n, k), dtype).mT
    for x, y in ((a, b), (b.mT, a.mT)):
        some = slice(0, count, 50)
        assert_same_bits(smallmm.matmul(x, y)[some], smallmm.matmul(x[some], y[some]))


class TestAliasing:
    """`out` that shares memory with an input is computed as if the inputs had been copied first."""

    @pytest.mark.parametrize("overlap", OVERLAPS)
    @pytest.mark.parametrize("n", [1, 3, 4, 8, 20])
    def test_out(self, isa, number, n, overlap, rng):
        x = normal(rng, (50, n, n), number)
        a, b, out = OVERLAPS[overlap](x)
        expected = smallmm.batched_matmul(a.copy(), b.copy())
        smallmm.batched_matmul(a, b, out)
        assert_same_bits(out, expected)

    @pytest.mark.parametrize("overlap", OVERLAPS)
    def test_updated_out(self, isa, number, overlap, rng):
        x = normal(rng, (50, 4, 4), number)
        a, b, out = OVERLAPS[overlap](x)
        expected = out.copy()
        smallmm.batched_matmul(a.copy(), b.copy(), expected, alpha=2, beta=-0.5)
        smallmm.batched_matmul(a, b, out, alpha=2, beta=-0.5)
        assert_same_bits(out, expected)

    def test_surroundings_of_out(self, isa, number, rng):
        for n in (1, 3, 4, 8, 17, 32):
            frame = np.full((20, n + 2, n + 3), 7, number)
            out = frame[::2, 1:-1, 2:-1]
            smallmm.batched_matmul(normal(rng, (10, n, n), number), normal(rng, (10, n, n), number), out)
            out[...] = 7
            assert (frame == 7).all()


class TestScaling:
    @pytest.mark.parametrize("layout", WRITABLE)
    @pytest.mark.parametrize("n", [1, 3, 4, 8, 16, 33])
    def test_against_reference(self, isa, number, n, layout, rng):
        a, b, c = (normal(rng, (11, n, n), number) for _ in range(3))
        factors = normal(rng, (11,), number)
        for alpha, beta in [
            (1, 1),
            (2, 0),
            (0.5, -3),
            (0, 1),
            (factors, 0.25),
            (2, factors),
            (factors, -factors),
        ]:
            assert_scaled(isa, a, b, alpha, beta, c, WRITABLE[layout], 100 * n)

    def test_out_is_read_where_beta_is_not_zero(self, isa, number):
        a = np.ones((3, 2, 2), number)
        out = np.full_like(a, np.nan)
        smallmm.batched_matmul(a, a, out, alpha=2, beta=np.array([0, 1, 0], number))
        np.testing.assert_array_equal(out[::2], 4)
        assert np.isnan(out[1]).all()

    def test_factors_broadcast(self, isa, number):
        a, alpha = np.ones((2, 2), number), np.arange(6, dtype=number).reshape(2, 3)
        c = smallmm.batched_matmul(a, a, alpha=alpha)
        assert_same_bits(c, np.broadcast_to(2 * alpha[..., None, None], (2, 3, 2, 2)))

    def test_numbers_do_not_change_the_dtype(self):
        a = np.ones((3, 2, 2), np.float32)
        assert smallmm.batched_matmul(a, a, alpha=0.5).dtype == np.float32
        assert smallmm.batched_matmul(a, a, alpha=np.array([0.5, 1, 2])).dtype == np.float64

    def test_beta_needs_out(self):
        for beta, shown in (
            (2, "2"),
            (np.ones((40, 25)), r"a ndarray of shape \(40, 25\)"),
            ([0.5] * 99, "a list"),
        ):
            with pytest.raises(
                ValueError, match=f"^batched_matmul: out is None, but beta is {shown}; expected"
            ):
                smallmm.batched_matmul(np.eye(2), np.eye(2), beta=beta)


class TestNumPySemantics:
    @pytest.mark.parametrize(
        ("shape_1", "shape_2"),
        [
            ((3,), (3,)),
            ((3,), (3, 2)),
            ((2, 3), (3,)),
            ((5, 2, 3), (3,)),
            ((3,), (5, 3, 2)),
            ((4, 1, 2, 3), (5, 3, 1)),
        ],
    )
    def test_vectors(self, isa, dtype, shape_1, shape_2, rng):
        x1, x2 = (rng.integers(-9, 9, shape).astype(dtype) for shape in (shape_1, shape_2))
        expected = np.matmul(x1, x2)
        for place in (np.asarray, np.asfortranarray, lambda x: np.repeat(x, 2, -1)[..., ::2]):
            result = smallmm.matmul(place(x1), place(x2))
            np.testing.assert_array_equal(result, expected)
            assert type(result) is type(expected)
            assert result.dtype == dtype

    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 32, 33])
    def test_matvec_and_vecmat(self, isa, dtype, n, rng):
        a, x = rng.integers(-9, 9, (6, 4, n)).astype(dtype), rng.integers(-9, 9, (6, n)).astype(dtype)
        expected = np.einsum("bmn,bn->bm", a, x)
        for place in LAYOUTS.values():
            np.testing.assert_array_equal(smallmm.matvec(place(a), x), np.einsum("bmn,bn->bm", place(a), x))
        np.testing.assert_array_equal(smallmm.matvec(a, x[:, ::-1][:, ::-1]), expected)
        np.testing.assert_array_equal(smallmm.vecmat(x, a.mT), expected)
        out = np.empty_like(expected)
        assert smallmm.vecmat(x, a.mT, out=out) is out
        np.testing.assert_array_equal(out, expected)

    def test_axes(self, number, rng):
        x = normal(rng, (3, 4, 5), number)
        axes = [(0, 1), (1, 0), (0, 2)]
        np.testing.assert_allclose(
            smallmm.matmul(x, x, axes=axes), np.matmul(x, x, axes=axes), rtol=1e-4, atol=1e-5
        )

    def test_keywords(self):
        x = np.ones((3, 2, 2), np.float32)
        assert smallmm.matmul(x, x, dtype=np.float64).dtype == np.float64
        assert (
            smallmm.matmul(x.astype(np.float64), x, dtype=np.float32, casting="same_kind").dtype == np.float32
        )
        assert smallmm.matmul(x, x, order="F").flags.f_contiguous
        with pytest.raises(TypeError, match="casting"):
            smallmm.matmul(x.astype(np.float64), x, dtype=np.float32, casting="safe")
        with pytest.raises(TypeError, match="where"):
            smallmm.matmul(x, x, where=True)

    def test_subclasses(self):
        class Stack(np.ndarray):
            pass

        x = np.ones((3, 2, 2)).view(Stack)
        assert type(smallmm.batched_matmul(x, x)) is Stack
        assert type(smallmm.matmul(x, x, subok=False)) is np.ndarray

    @pytest.mark.parametrize(
        ("given", "computed"),
        [
            ("?", "?"),
            ("b", "d"),
            ("H", "d"),
            ("i", "d"),
            ("q", "d"),
            ("Q", "d"),
            ("e", "e"),
            ("f", "f"),
            ("d", "d"),
        ],
    )
    def test_dtypes(self, isa, given, computed):
        a, b = np.array([[1, 0], [1, 1]], given), np.array([[1, 1], [0, 1]], given)
        for function in (smallmm.batched_matmul, smallmm.matmul):
            assert_same_bits(function(a, b), np.array([[1, 1], [1, 2]], computed))
        assert smallmm.matvec(a, b[0]).dtype == computed
        assert smallmm.batched_matmul(a, b, alpha=2).dtype == computed.replace("?", "d")

    @pytest.mark.parametrize(
        ("pair", "computed"), [("fd", "d"), ("fi", "d"), ("fb", "f"), ("ef", "f"), ("ei", "d")]
    )
    def test_mixed_dtypes(self, pair, computed):
        a, b = (np.ones((2, 2), dtype) for dtype in pair)
        assert smallmm.batched_matmul(a, b).dtype == computed
        assert smallmm.batched_matmul(b, a).dtype == computed

    def test_other_byte_order(self, number, rng):
        a = normal(rng, (3, 4, 4), number)
        assert_same_bits(
            smallmm.batched_matmul(a.astype(number.newbyteorder()), a), smallmm.batched_matmul(a, a)
        )

    def test_lists_and_buffers(self):
        np.testing.assert_array_equal(
            smallmm.batched_matmul([[1, 2], [3, 4]], [[1, 0], [0, 1]]), [[1, 2], [3, 4]]
        )
        assert smallmm.matmul([1.0, 2.0], (3, 4)) == 11
        buffer = memoryview(np.eye(2))
        np.testing.assert_array_equal(smallmm.batched_matmul(buffer, buffer), np.eye(2))

    def test_out_of_another_dtype(self, rng):
        a = normal(rng, (5, 3, 3), np.float64)
        out = np.empty((5, 3, 3), np.float32)
        smallmm.batched_matmul(a, a, out)
        assert_same_bits(out, smallmm.batched_matmul(a, a).astype(np.float32))

    def test_out_in_a_tuple(self):
        out = np.empty((2, 2))
        assert smallmm.matmul(np.eye(2), np.eye(2), out=(out,)) is out


class TestDirect:
    """The way past NumPy's machinery gives what the gufunc gives, or leaves the call to it."""

    def test_batch_dimensions(self, rng):
        """Any batch shapes and orders: merged, broadcast, transposed, sliced, empty."""
        for _ in range(1500):
            batch = [int(x) for x in rng.choice([0, 1, 1, 2, 3, 7, 40], rng.integers(0, 6))]
            m, k, n = (int(x) for x in rng.choice([0, 1, 2, 3, 5], 3))
            a, b = (_scrambled(rng, batch, core) for core in ((m, k), (k, n)))
            expected = core.batched_matmul(a, b)
            result = core.direct["batched_matmul"](a, b)
            assert_same_bits(result, np.ascontiguousarray(expected))
            out = np.full(expected.shape, np.nan)
            assert core.direct["batched_matmul"](a, b, out) is out
            assert_same_bits(out, result)

    def test_what_it_leaves(self, rng):
        a = rng.random((5, 3, 3))
        read_only = a.copy()
        read_only.flags.writeable = False
        direct = core.direct["batched_matmul"]
        for arguments in [
            (a, a.astype(np.float32)),
            (a.astype(int), a.astype(int)),
            (a.astype(">f8"), a),
            (a.tolist(), a),
            (a, np.ones((5, 2, 3))),
            (np.ones((4, 3, 3)), a),
            (a, np.ones(3)),
            (a, a, a),
            (a, a, a[::-1]),
            (a, a, read_only),
            (a, a, np.empty((4, 3, 3))),
            (a, a, np.empty((5, 3, 3), np.float32)),
            (a, a, None, None),
            (a,),
        ]:
            assert direct(*arguments) is NotImplemented

    def test_runs_share_the_threads(self, rng):
        """Batch dimensions that do not merge are one call, not one for each run."""
        x = rng.random((20_000, 3, 4, 4))[:, :2]
        assert smallmm.explain("batched_matmul", x, x).calls == 1
        assert_same_bits(smallmm.batched_matmul(x, x), smallmm.batched_matmul(x.copy(), x.copy()))


def _scrambled(rng, batch, core):
    """Random matrices over some of the batch dimensions, some of length 1, with gaps, in any order."""
    sizes = [size if rng.random() < 0.7 else 1 for size in batch][rng.integers(0, len(batch) + 1) :]
    gaps = rng.random(len(sizes) + 2) < 0.3
    shape = [*sizes, *core]
    whole = rng.standard_normal(
        [2 * size + 1 if gap else size for size, gap in zip(shape, gaps, strict=True)]
    )
    x = whole[
        tuple(
            slice(1, 2 * size + 1, 2) if gap else slice(None) for size, gap in zip(shape, gaps, strict=True)
        )
    ]
    order = [*rng.permutation(len(sizes)), len(sizes), len(sizes) + 1]
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order)) if rng.random() < 0.4 else x


def test_out_in_a_tuple(rng):
    a = rng.random((5, 3, 3))
    for out in ((None,), ()):
        with pytest.raises(ValueError, match="out is None, but beta is 1; expected"):
            smallmm.batched_matmul(a, a, beta=1, out=out)
    with pytest.raises(ValueError, match="out is a tuple of 0; expected an array, or a tuple of one"):
        smallmm.matmul(a, a, out=())
    out = np.zeros_like(a)
    assert smallmm.batched_matmul(a, a, beta=1, out=(out,)) is out

"""Products of several operands, of vectors and by subscripts, traces and diagonals: values, shapes, bits, and
what is refused. dtypes, `out` and libraries are in test_compositions.py."""

import itertools
import re
from functools import partial

import numpy as np
import pytest
from accuracy import assert_same_bits, exactly, unit_roundoff
from matrices import normal

import smallmm
from smallmm._libraries.dlpack import StandardDevice

PRODUCTS = [
    "...ij,...jk->...ik",
    "...ij,...j->...i",
    "...i,...ij->...j",
    "...i,...i->...",
    "...i,...j->...ij",
    "...i,...j->...ji",
    "...ij,...kj->...ik",
    "...ji,...jk->...ki",
    "bij,bjk->bik",
    "bij,bjk->kbi",
    "bij,jk->bik",
    "ij,bjk->bik",
    "bij,bj->ib",
    "ij,jk->ik",
    "ij,jk",
    "ji,jk",
    "i,i",
    "i,j",
    "b...ij,...bjk->...ikb",
    "abij,bajk->abik",
    "abij,jabk->ikab",
    "bi...,b...i->b...",
    "bij,bji...->bij...",
    "i,ij->ij",
    "ij,kl->ijkl",
    "ij,klj->ikl",
    "abi,ick->kabc",
    "ij,ij->ij",
    "ab,ab->ba",
    "ij->ji",
    "...ij->...ji",
    "ba",
    "abc->cab",
    "i...->...i",
    ",->",
]
OTHERS = [
    "ii->i",
    "ii",
    "ij->i",
    "ij,ij->",
    "ij,ij",
    "ijk,jkl->il",
    "ij,jk,kl->il",
    "ij,k->k",
    "ij,jj->i",
    "...ij->ij",
    "i...,i...->i",
]
SIZES = {"i": 3, "j": 4, "k": 5, "b": 7, "a": 2, "c": 6, "l": 2}


def operands(rng, subscripts, dtype, others=(3, 2)):
    inputs = subscripts.replace("...", ".").partition("->")[0].split(",")
    shapes = [[n for x in part for n in (others if x == "." else [SIZES[x]])] for part in inputs]
    return [normal(rng, shape, dtype) for shape in shapes]


def _random_call(rng, kinds):
    """Subscripts with repeated letters, ellipses, lengths of 1 that broadcast and few that do not fit."""
    letters = rng.permutation([*"abcXY"])[: rng.integers(1, 5)]
    sizes, other = {x: int(rng.choice([1, 2, 3, 3, 9])) for x in letters}, rng.integers(1, 4, 2)
    dots, parts, arrays = rng.random() < 0.3, [], []
    chosen = rng.choice(kinds, 2)
    for _ in range(rng.integers(1, 4)):
        own = [*rng.choice(letters, rng.integers(0, 4))]
        lengths = {x: 1 if rng.random() < 0.15 else n + (rng.random() < 0.01) for x, n in sizes.items()}
        shape = [lengths[x] for x in own]
        if dots:
            at, count = rng.integers(0, len(own) + 1), rng.integers(0, 3)
            own.insert(at, "...")
            shape[at:at] = [1 if rng.random() < 0.2 else int(n) for n in other[2 - count :]]
        kind = np.dtype(rng.choice(chosen))
        values = 3 * rng.random(shape) + (1j * rng.random(shape) if kind.kind == "c" else 0)
        parts.append("".join(own))
        arrays.append(np.asarray(values > 1 if kind.kind == "b" else values).astype(kind))
    subscripts = ",".join(parts)
    if rng.random() < 0.8:
        used = [x for x in letters if x in subscripts]
        result = [*rng.permutation(used)[: rng.integers(0, len(used) + 1)]]
        result[:0] = ["..."] if dots and rng.random() < 0.9 else []
        subscripts += "->" + "".join(result + ["a"] * (rng.random() < 0.03))
    options = {"casting": "unsafe"} if rng.random() < 0.2 else {}
    if rng.random() < 0.2:
        options["dtype"] = str(rng.choice(["f4", "f8", "c16"]))
        if options.get("casting") and any(x.dtype.kind == "c" for x in arrays):
            options["dtype"] = "c8"
        if all(x.dtype == bool for x in arrays):
            del options["dtype"]
    return subscripts, arrays, options


def _outcome(function, subscripts, arrays, options):
    try:
        return function(subscripts, *arrays, **options)
    except Exception as error:
        return error


def _parts(subscripts):
    return subscripts.partition("->")[0].replace("...", "").split(",")


class TestEinsum:
    # numpy.einsum wants the ellipsis in both operands
    @pytest.mark.where.with_args(lambda subscripts, others: subscripts != "bij,bji...->bij..." or not others)
    @pytest.mark.parametrize("subscripts", PRODUCTS)
    @pytest.mark.parametrize("others", [(), (3,), (3, 2)])
    def test_values(self, dtype, subscripts, others, rng):
        arrays = operands(rng, subscripts, dtype, others)
        result = smallmm.einsum(subscripts, *arrays)
        expected = np.einsum(subscripts, *map(np.longdouble, arrays))
        size = np.einsum(subscripts, *map(np.abs, exactly(*arrays)))
        assert result.shape == expected.shape
        assert result.dtype == dtype
        assert (np.abs(result - expected) <= 8 * unit_roundoff(dtype) * size).all()

    @pytest.mark.parametrize("subscripts", [x for x in PRODUCTS if "," in x])
    def test_out(self, subscripts, rng):
        arrays = operands(rng, subscripts, np.float64)
        expected = smallmm.einsum(subscripts, *arrays)
        out = np.full(expected.shape, 7.0)
        assert smallmm.einsum(subscripts, *arrays, out=out) is out
        assert_same_bits(out, np.asarray(expected).copy())

    def test_is_the_product(self, rng):
        """The bits of `matmul` and `matvec`."""
        a, b = rng.standard_normal((2, 100, 4, 4))
        assert_same_bits(smallmm.einsum("...ij,...jk->...ik", a, b), smallmm.matmul(a, b))
        assert_same_bits(smallmm.einsum("bij,bkj->bik", a, b), smallmm.matmul(a, b.mT))
        assert_same_bits(smallmm.einsum("...ij,...j->...i", a, b[:, 0]), smallmm.matvec(a, b[:, 0]))

    def test_every_pair_of_two_dimensions(self, rng):
        """With sums over one operand, over two letters, and with a letter twice."""
        for x, y in itertools.product(itertools.product("ijb", repeat=2), repeat=2):
            for z in itertools.chain(*(itertools.permutations("ijb", length) for length in range(4))):
                if {*z} - {*x, *y}:
                    continue
                subscripts = f"{''.join(x)},{''.join(y)}->{''.join(z)}"
                arrays = operands(rng, subscripts, np.float64)
                result = smallmm.einsum(subscripts, *arrays)
                np.testing.assert_allclose(result, np.einsum(subscripts, *arrays), atol=1e-12)

    def test_ellipses_broadcast(self, rng):
        a, b = rng.standard_normal((5, 1, 3, 4)), rng.standard_normal((2, 4, 3))
        np.testing.assert_allclose(
            smallmm.einsum("...ij,...jk->...ik", a, b), np.einsum("...ij,...jk->...ik", a, b)
        )
        c = rng.standard_normal((4, 6, 3))
        subscripts = "i...j,jk...->k...i"
        np.testing.assert_allclose(
            smallmm.einsum(subscripts, a[:, 0], c), np.einsum(subscripts, a[:, 0], c), atol=1e-13
        )

    def test_transposes_are_views(self, rng):
        a = rng.standard_normal((5, 3, 4))
        assert np.shares_memory(smallmm.einsum("...ij->...ji", a), a)

    @pytest.mark.parametrize("subscripts", OTHERS)
    def test_others(self, subscripts, number, rng):
        """Sums over one operand, diagonals, several summed letters, more operands."""
        arrays = [normal(rng, [3] * len(part), number) for part in _parts(subscripts)]
        result = smallmm.einsum(subscripts, *arrays)
        assert result.dtype == number
        np.testing.assert_allclose(result, np.einsum(subscripts, *arrays), rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize(
        ("subscripts", "shapes", "error", "text"),
        [
            ("ij,jk->iz", [(2, 2), (2, 2)], ValueError, "expected letters of operands in the result"),
            ("ij,jk->ii", [(2, 2), (2, 2)], ValueError, "expected letters of operands in the result"),
            ("ij,jk", [(2, 2)], ValueError, "of 2 operands; given are 1"),
            ("i.j,jk", [(2, 2), (2, 2)], ValueError, "expected letters, '...', ',' and one '->'"),
            ("ij->j->i", [(2, 2)], ValueError, "expected letters, '...', ',' and one '->'"),
            ("......ij->ij", [(2, 2)], ValueError, "expected letters, '...', ',' and one '->'"),
            (["ij"], [(2, 2)], TypeError, "expected a str such as"),
            (
                "ij,jk",
                [(2, 3), (2, 2)],
                ValueError,
                "j is 3 in operand 0 and 2 in operand 1; expected one length",
            ),
            ("ii,i->i", [(1, 3), (3,)], ValueError, "i is 1 in operand 0 and 3 in operand 0"),
            ("ij,jk", [(2, 0), (2, 2)], ValueError, "j is 0 in operand 0 and 2 in operand 1"),
            ("...i->i", [(1, 3)], ValueError, "expected '...' in the result, for 1 more dimensions"),
            ("ij,jk", [(2, 3), (2,)], ValueError, "operand 1 has shape (2,); expected dimensions jk"),
            ("...ij->...ji", [(2,)], ValueError, "operand 0 has shape (2,); expected dimensions ...ij"),
            (
                "ij,jk",
                [(2, 3, 4), (3, 2)],
                ValueError,
                "operand 0 has shape (2, 3, 4); expected dimensions ij",
            ),
        ],
    )
    def test_wrong(self, subscripts, shapes, error, text):
        with pytest.raises(error, match=re.escape(text)):
            smallmm.einsum(subscripts, *map(np.ones, shapes))

    @pytest.mark.parametrize(
        "lists",
        [
            ([0, 1], [1, 2], [0, 2]),
            ([0, 1], [1, 2]),
            ((30, 2), [2, 51], ()),
            ([30, 2], [2, 3]),
            ([..., 1], [1, ...], [...]),
            ([0, 1], [0, 2], [2, 0, 1]),
        ],
    )
    def test_lists(self, lists, number, rng):
        """NumPy's other form: after each operand a list, and one of the result."""
        a, b = normal(rng, (3, 3), number), normal(rng, (3, 3), number)
        arguments = (a, lists[0], b, *lists[1:])
        expected = np.einsum(*arguments)
        for function in (smallmm.einsum, smallmm.contract):
            np.testing.assert_allclose(function(*arguments), expected, rtol=1e-4, atol=1e-5)
        out = np.full(expected.shape, 7, number)
        assert smallmm.einsum(*arguments, out=out) is out
        assert_same_bits(out, np.asarray(smallmm.einsum(*arguments)).copy())

    def test_lists_of_one_and_of_three(self, rng):
        a = rng.standard_normal((20, 3, 3))
        assert np.shares_memory(smallmm.einsum(a, [5, 4, 3], [5, 3, 4]), a)
        assert_same_bits(
            smallmm.contract(a, [0, 1, 2], a, [0, 2, 3], a, [0, 3, 4], [0, 1, 4]),
            smallmm.contract("bij,bjk,bkl->bil", a, a, a),
        )

    @pytest.mark.parametrize(
        ("arguments", "error", "text"),
        [
            ((np.eye(2),), TypeError, "expected a str such as '...ij,...jk->...ik', or a list after each"),
            ((np.eye(2), 3), TypeError, "or a list after each operand"),
            ((np.eye(2), [0, 1], np.eye(2)), TypeError, "or a list after each operand"),
            ((np.eye(2), [0, 1.5]), TypeError, "a subscript is 1.5; expected an integer"),
            ((np.eye(2), [0, 52]), ValueError, "a subscript is 52; expected 0 to 51"),
            ((np.eye(2), [0, -1]), ValueError, "a subscript is -1; expected 0 to 51"),
            ((np.eye(2), [0, 1], [2]), ValueError, "expected letters of operands in the result"),
            ((np.eye(2), [0]), ValueError, "operand 0 has shape (2, 2); expected dimensions A"),
        ],
    )
    def test_wrong_lists(self, arguments, error, text):
        with pytest.raises(error, match=f"^einsum: .*{re.escape(text)}"):
            smallmm.einsum(*arguments)

    def test_letters_broadcast(self, rng):
        """A length of 1 beside another, summed or not, as in an ellipsis; also beside 0."""
        a, b, c = rng.standard_normal((2, 1, 3)), rng.standard_normal((1, 4, 3)), rng.standard_normal((4, 1))
        for subscripts in ("xyz,xyz->xyz", "xyz,xyz->z", "xyz,xyz", "...z,...z->...", "xyz,xwz->yw"):
            np.testing.assert_allclose(smallmm.einsum(subscripts, a, b), np.einsum(subscripts, a, b))
        for subscripts in ("xyz,xyz,yw->xw", "xyz,xyz,yz->", "xyz,xyz,yw->wzyx"):
            np.testing.assert_allclose(smallmm.contract(subscripts, a, b, c), np.einsum(subscripts, a, b, c))
        assert_same_bits(
            smallmm.einsum("bij,bjk->bik", a[:, :, :, None][:, 0], b[:1, :1]), a[..., 0, :, None] * b[:, 0]
        )
        for subscripts, shape in (("i,i->i", (0,)), ("i,i->", ()), ("i,j->ij", (0, 1)), ("i,ij->j", (1,))):
            other = np.ones((1, 1) if "ij," in subscripts or ",ij" in subscripts else 1)
            np.testing.assert_array_equal(smallmm.einsum(subscripts, np.ones(0), other), np.zeros(shape))

    def test_against_numpy(self, rng):
        """Calls that nobody chose: values, dtypes, and which are refused. NumPy's own answer is wrong where
        some lengths are 0 (2.4.6 writes beyond its result)."""
        kinds = ("f4", "f8", "c8", "c16", ">f8", ">f4", "f2", "i4", "u1", "?")
        for _ in range(800):
            call = _random_call(rng, kinds)
            found, expected = (_outcome(module.einsum, *call) for module in (smallmm, np))
            if isinstance(expected, Exception):
                kind = TypeError if isinstance(expected, TypeError) else ValueError
                assert isinstance(found, kind), call
                continue
            assert not isinstance(found, Exception), (found, call)
            subscripts, arrays, options = call
            integers = expected.dtype.kind in "iu"
            if not integers:
                assert (found.dtype, type(found)) == (expected.dtype, type(expected)), call
            assert found.shape == expected.shape
            sizes = np.einsum(subscripts, *(np.abs(x).astype(float) for x in arrays))
            exact = np.einsum(subscripts, *(x.astype("c16" if x.dtype.kind == "c" else "f8") for x in arrays))
            exact = exact > 0 if expected.dtype == bool else exact
            names = (found.dtype, options.get("dtype", found.dtype))
            unit = max((float(np.finfo(x).eps) for x in map(np.dtype, names) if x.kind in "fc"), default=0)
            error = np.abs(found.astype("c16") - exact)
            assert (error <= 50 * unit * sizes).all() or not np.isfinite(expected).all(), call

    @pytest.mark.parametrize("function", [smallmm.einsum, smallmm.contract])
    def test_options_of_numpy(self, function, rng):
        a, b = rng.standard_normal((2, 3, 3))
        expected = function("ij,jk->ik", a, b)
        path = ["einsum_path", (0, 1)]
        for optimize in (True, False, "greedy", "optimal", ("greedy", 1000), path, None):
            assert_same_bits(function("ij,jk->ik", a, b, optimize=optimize), expected)
        left, right = (
            function("ij,jk,kl->il", a, b, a, optimize=["einsum_path", *steps])
            for steps in ([(0, 1), (0, 1)], [(1, 2), (0, 1)])
        )
        assert_same_bits(left, smallmm.matmul(a.T, smallmm.matmul(a, b).T).T)
        assert_same_bits(right, smallmm.matmul(a, smallmm.matmul(b, a)))
        for order in "KCFA":
            for x in (a, np.asfortranarray(a)):
                found = function("ij,jk->ik", x, np.asfortranarray(b), order=order)
                assert_same_bits(np.ascontiguousarray(found), expected)
                assert found.flags.f_contiguous or (order == "C" or (order == "A" and x is a) or order == "K")
                assert found.flags.c_contiguous or order in "KFA"
        single = function("ij,jk->ik", a, b, dtype="f4", casting="same_kind")
        assert_same_bits(single, smallmm.matmul(a.astype("f4"), b.astype("f4")))
        assert function("ij,jk->ik", a, b, dtype=complex).dtype == complex
        assert function("ij->ji", a, dtype="f4", order="C").dtype == float  # a view
        out = np.empty((3, 3), "f4")
        function("ij,jk->ik", a, b, out=out, casting="same_kind")
        assert_same_bits(out, expected.astype("f4"))
        wide = np.empty((3, 3))
        function("ij,jk->ik", a.astype("f4"), b.astype("f4"), out=wide)
        assert_same_bits(wide, smallmm.matmul(a.astype("f4").astype(float), b.astype("f4").astype(float)))

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"dtype": "f4"}, TypeError, "operand 0 has dtype float64; computed is float32, and casting is"),
            ({"dtype": int, "casting": "unsafe"}, TypeError, "dtype is int64; expected one that sums have"),
            ({"dtype": "g"}, TypeError, "expected one that sums have"),
            ({"casting": "never"}, ValueError, "casting is 'never'; expected 'safe'"),
            ({"order": "Z"}, ValueError, "order is 'Z'; expected 'K'"),
            ({"optimize": 3}, TypeError, "optimize is 3; expected True, False, a word or a path"),
            ({"out": np.ones((2, 2), "f4")}, TypeError, "out has dtype float32; the result is float64"),
            ({"out": [[1.0]]}, TypeError, "out is [[1.0]]; expected an array"),
            ({"out": np.broadcast_to(1.0, (2, 2))}, ValueError, "out is read-only"),
        ],
    )
    def test_wrong_options(self, options, error, text):
        with pytest.raises(error, match=f"^einsum: .*{re.escape(text)}"):
            smallmm.einsum("ij,jk->ik", np.eye(2), np.eye(2), **options)

    @pytest.mark.parametrize("dtype", ["g", "O", "U3", "M8[s]"])
    def test_refused_dtypes(self, dtype):
        """But of views, which are of any."""
        x = np.zeros((3, 3), dtype)
        for subscripts in ("ij,jk->ik", "ij->i", "ij,kj->ik", "ij,jk,kl->il"):
            with pytest.raises(TypeError, match=f"^einsum: operand 0 has dtype {re.escape(str(x.dtype))};"):
                smallmm.einsum(subscripts, *[x] * (subscripts.count(",") + 1))
        assert smallmm.einsum("ij->ji", x).dtype == x.dtype

    def test_results_as_numpys(self):
        """Numbers where there is no dimension; views that can be written to; bool of bools."""
        x = np.ones((3, 3))
        assert isinstance(smallmm.einsum("ii", x), np.float64)
        assert isinstance(smallmm.einsum("ij,ij->", x, x), np.float64)
        smallmm.einsum("ii->i", x)[:] = 5
        assert np.array_equal(x.diagonal(), [5] * 3)
        truth = np.eye(3, dtype=bool)
        for subscripts in ("ij->i", "ij,jk->ik", "ij,jk->", "ij,jk,kl->l", "ij->"):
            arrays = [truth] * (subscripts.count(",") + 1)
            assert_same_bits(smallmm.einsum(subscripts, *arrays), np.einsum(subscripts, *arrays))

    def test_half_precision_is_rounded_once(self, rng):
        """Whatever the batch, which decides whether steps are fused."""
        a, b, c = rng.standard_normal((3, 40, 9, 9)).astype("f2")
        for subscripts in ("bij,bjk,bkl->bil", "bij,bjk->b", "bij->b"):
            arrays = (a, b, c)[: subscripts.count(",") + 1]
            whole = smallmm.einsum(subscripts, *arrays)
            assert_same_bits(smallmm.einsum(subscripts, *(x[:3] for x in arrays)), whole[:3])
            wide = smallmm.einsum(subscripts, *(x.astype("f4") for x in arrays))
            assert_same_bits(whole, wide.astype("f2"))

    def test_wrong_out(self):
        with pytest.raises(ValueError, match=r"einsum: out has shape \(2,\); expected \(2, 2\)"):
            smallmm.einsum("ij,jk", np.eye(2), np.eye(2), out=np.ones(2))
        with pytest.raises(ValueError, match="out has shape"):
            smallmm.einsum("ij,jk", np.eye(2), np.eye(2), out=np.ones((2, 3)))


class TestMultiDot:
    def test_values(self, dtype, rng):
        for sizes in [(3, 4, 5), (2, 30, 2, 1), (7, 1, 7, 2, 3), (4, 4, 4, 4, 4, 4), (5, 1, 1, 5)]:
            arrays = [normal(rng, (6, m, n), dtype) for m, n in itertools.pairwise(sizes)]
            expected = np.linalg.multi_dot([x[2].astype(np.float64) for x in arrays])
            result = smallmm.multi_dot(arrays)
            assert result.dtype == dtype
            np.testing.assert_allclose(result[2], expected, rtol=1e-4, atol=1e3 * unit_roundoff(dtype))

    def test_order(self, rng):
        """The cheapest by sizes; of equal ones that which is split furthest to the left."""
        a, b, c = (rng.standard_normal((9, m, n)) for m, n in [(2, 30), (30, 3), (3, 1)])
        mul = smallmm.matmul
        assert_same_bits(smallmm.multi_dot([a, b, c]), mul(a, mul(b, c)))
        assert_same_bits(smallmm.multi_dot([c.mT, b.mT, a.mT]), mul(mul(c.mT, b.mT), a.mT))
        square = rng.standard_normal((4, 9, 3, 3))
        expected = mul(square[0], mul(square[1], mul(square[2], square[3])))
        assert_same_bits(smallmm.multi_dot(list(square)), expected)

    def test_vectors_and_broadcasting(self, rng):
        a, x, y = rng.standard_normal((9, 4, 3)), rng.standard_normal(4), rng.standard_normal(3)
        np.testing.assert_allclose(smallmm.multi_dot([x, a, y]), np.einsum("i,bij,j->b", x, a, y))
        np.testing.assert_allclose(smallmm.multi_dot([x, a]), x @ a)
        np.testing.assert_allclose(smallmm.multi_dot([a, y]), a @ y)
        np.testing.assert_allclose(smallmm.multi_dot([x, a, a.mT]), x @ (a @ a.mT))
        np.testing.assert_allclose(
            smallmm.multi_dot([a[:, None], a.mT[:1], a[0]]), a[:, None] @ a.mT[:1] @ a[0]
        )
        np.testing.assert_allclose(smallmm.multi_dot([x, x]), x @ x)
        for arrays in ([x, a, y], [x, a], [a, y], [a, a.mT]):
            expected = smallmm.multi_dot(arrays)
            out = np.full(np.shape(expected), 7.0)
            assert smallmm.multi_dot(arrays, out=out) is out
            assert_same_bits(out, expected)


class TestTraceAndDiagonal:
    @pytest.mark.parametrize(
        "shape", [(3, 3), (2, 5), (5, 2), (1, 1), (9, 32, 32), (2, 3, 200, 130), (4, 0, 3)]
    )
    def test_values(self, dtype, shape, rng):
        a = normal(rng, shape, dtype)
        for offset in (0, 1, -1, 3, -4, 40):
            diagonal = np.linalg.diagonal(a, offset=offset)
            assert_same_bits(smallmm.diagonal(a, offset=offset).copy(), diagonal.copy())
            error = np.abs(smallmm.trace(a, offset=offset) - exactly(diagonal)[0].sum(-1))
            assert (error <= 70 * unit_roundoff(dtype) * np.abs(diagonal).sum(-1)).all()

    def test_order_of_sums(self, dtype, rng):
        a = normal(rng, (50, 30, 30), dtype)
        total = a[:, 0, 0].copy()
        for i in range(1, 30):
            total += a[:, i, i]
        assert_same_bits(smallmm.trace(a), total)

    def test_any_dtype(self):
        a = np.array([["a", "b"], ["c", "d"]])
        assert smallmm.diagonal(a).tolist() == ["a", "d"]
        assert smallmm.matrix_transpose(a).tolist() == [["a", "c"], ["b", "d"]]
        assert np.shares_memory(smallmm.matrix_transpose(a), a)
        assert smallmm.trace([[1, 2], [3, 4]]) == 5.0

    def test_other_libraries(self, jax):
        a = jax.numpy.arange(12.0).reshape(3, 4)
        assert smallmm.diagonal(a, offset=1).tolist() == [1, 6, 11]
        assert smallmm.matrix_transpose(a).shape == (4, 3)
        assert isinstance(smallmm.einsum("ij->ji", a), jax.Array)


class TestVectors:
    def test_cross(self, dtype, rng):
        a, b = normal(rng, (2, 40, 3), dtype)
        np.testing.assert_allclose(smallmm.cross(a, b), np.linalg.cross(a, b), rtol=1e-6)
        assert_same_bits(smallmm.cross(a, b), -smallmm.cross(b, a))
        assert_same_bits(smallmm.cross(a.T, b.T, axis=0), smallmm.cross(a, b).T.copy())
        out = np.empty((3, 40), dtype)
        assert smallmm.cross(a.T, b.T, axis=0, out=out) is out
        assert_same_bits(out, np.ascontiguousarray(smallmm.cross(a, b).T))
        assert_same_bits(smallmm.cross([1, 2, 3], [4, 5, 6]), np.array([-3.0, 6.0, -3.0]))

    def test_cross_of_infinite_complex_tensors(self, rng):
        """Their differences are those of NumPy: PyTorch's own would be NaN."""
        torch = pytest.importorskip("torch")
        a, b = (normal(rng, (9, 3), np.complex64) for _ in "ab")
        a[3, 1], b[5, 2] = np.inf, complex(1, -np.inf)
        with np.errstate(all="ignore"):
            expected = smallmm.cross(a, b)
        found = smallmm.cross(torch.from_numpy(a), torch.from_numpy(b)).numpy()
        np.testing.assert_array_equal(found, expected)

    def test_vecdot(self, number, rng):
        x, y = normal(rng, (40, 3), number), normal(rng, (40, 3), number)
        result = smallmm.vecdot(x, y)
        np.testing.assert_allclose(result, np.vecdot(x, y), rtol=1e-5, atol=1e-6)
        assert_same_bits(result, smallmm.vecmat(x, y[..., None])[..., 0])
        assert_same_bits(smallmm.vecdot(x.T, y.T, axis=0), result)
        assert_same_bits(
            smallmm.vecdot(x[:, None, ::-1], y[None, :, ::-1]).diagonal().copy(),
            smallmm.vecdot(x[:, ::-1], y[:, ::-1]),
        )
        out = np.empty((80,), number)[::2]
        assert smallmm.vecdot(x, y, out=out) is out
        assert_same_bits(out.copy(), result)
        assert np.shape(smallmm.vecdot(x[0], y[0])) == ()
        assert smallmm.vecdot(np.empty((5, 0)), np.empty((5, 0))).tolist() == [0] * 5
        assert smallmm.vecdot([1, 2], [3, 4]) == 11

    def test_outer(self, dtype, rng):
        x, y = normal(rng, (40, 3), dtype), normal(rng, (40, 5), dtype)
        assert_same_bits(smallmm.outer(x, y), x[:, :, None] * y[:, None, :])
        assert smallmm.outer(x[:, None], y[None]).shape == (40, 40, 3, 5)
        np.testing.assert_array_equal(smallmm.outer(x[0], y[0]), np.linalg.outer(x[0], y[0]))


class TestTensordot:
    @pytest.mark.parametrize(
        ("shapes", "axes"),
        [
            (((5, 2, 3), (2, 3, 4)), 2),
            (((5, 2, 3), (3, 2, 4)), ((1, 2), (1, 0))),
            (((5, 2, 3), (3, 2, 4)), [[-1, -2], [0, 1]]),
            (((5, 2, 3), (4, 5)), (0, 1)),
            (((5, 2), (3,)), 0),
            (((3,), (3,)), 1),
            (((2, 0), (0, 3)), 1),
        ],
    )
    def test_values(self, shapes, axes, number, rng):
        a, b = (normal(rng, shape, number) for shape in shapes)
        expected = np.tensordot(a, b, axes)
        result = smallmm.tensordot(a, b, axes=axes)
        assert result.dtype == number
        assert np.shape(result) == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        out = np.empty(expected.shape, number)
        assert smallmm.tensordot(a, b, axes=axes, out=out) is out
        np.testing.assert_array_equal(out, result)

    @pytest.mark.parametrize(
        ("axes", "error", "message"),
        [
            (3, ValueError, "axes is 3; expected axes of 2 and 2 dimensions"),
            (-1, ValueError, "axes is -1; expected at least 0"),
            (1.5, TypeError, "axes is 1.5; expected an integer"),
            ((0, (1, 2)), ValueError, "expected axes of 2 and 2 dimensions"),
            (((0, -2), (0, 1)), ValueError, "expected axes of 2 and 2 dimensions"),
            ((0, (0, 1)), ValueError, "expected as many axes of x1 as of x2"),
            ((0, 1, 2), TypeError, "axes is a tuple of 3; expected a tuple (axes of x1, axes of x2)"),
            ((0, 1), ValueError, "x2 has shape (3, 4); expected 2 elements along axis 1"),
        ],
    )
    def test_refused(self, axes, error, message):
        with pytest.raises(error, match=f"^tensordot: .*{re.escape(message)}"):
            smallmm.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=axes)

    def test_axes_of_any_sequence(self, rng):
        a = rng.standard_normal((2, 3))
        expected = smallmm.tensordot(a, a, axes=([0, 1], [0, 1]))
        for axes in ((range(2), range(2)), np.array([[0, 1], [0, 1]]), (np.arange(2), (0, 1)), np.array(2)):
            assert_same_bits(smallmm.tensordot(a, a, axes), expected)

    def test_one_matrix_for_all(self, rng, number):
        a, b = normal(rng, (2, 5, 4, 3), number), normal(rng, (3, 6), number)
        for _ in range(2):  # the second call knows what the first found
            assert_same_bits(smallmm.tensordot(a, b, 1), smallmm.matmul(a, b))
            assert_same_bits(smallmm.einsum("abcd,de->abce", a, b), smallmm.matmul(a, b))
            assert_same_bits(smallmm.einsum("abcd,d->abc", a, b[:, 0]), smallmm.matvec(a, b[:, 0]))
            assert type(smallmm.tensordot(b, b, 2)) is np.ndarray
            with pytest.raises(TypeError, match=r"axes is 1\.0; expected an integer"):
                smallmm.tensordot(a, b, 1.0)

    def test_one_element_broadcasts_not(self):
        with pytest.raises(ValueError, match=r"tensordot: x2 has shape \(3, 4\); expected 1 elements"):
            smallmm.tensordot(np.ones((2, 1)), np.ones((3, 4)), 1)

    def test_too_many_dimensions(self):
        x = np.ones((1,) * 27)
        with pytest.raises(
            ValueError, match=r"^tensordot: x1 and x2 have 54 dimensions; expected at most 52"
        ):
            smallmm.tensordot(x, x)


def assert_near(result, expected):
    """Of systems whose condition numbers are below 100."""
    limit = 200 * unit_roundoff(result.dtype) * np.abs(expected).max(initial=0)
    np.testing.assert_allclose(result, expected, rtol=0, atol=limit)


class TestTensors:
    @pytest.mark.parametrize(
        ("shapes", "axes"),
        [
            (((2, 3, 3, 2), (2, 3)), None),
            (((2, 3, 6), (2, 3)), None),
            (((6, 2, 3), (6,)), None),
            (((6, 2, 3), (2, 3)), (0,)),
            (((6, 2, 3), (2, 3)), [-3]),
            (((2, 3, 3, 2), (3, 2)), (0, 1)),
            (((6, 7, 6, 7), (6, 7)), None),  # above the orders that have kernels
            (((1,), ()), None),
            (((0, 3, 0), (0, 3)), None),
        ],
    )
    def test_solve(self, shapes, axes, number, rng):
        a, b = (normal(rng, shape, number) for shape in shapes)
        expected = np.linalg.tensorsolve(a, b, axes and [i % a.ndim for i in axes])
        result = smallmm.tensorsolve(a, b, axes)
        assert result.dtype == number
        assert np.shape(result) == expected.shape
        assert_near(result, expected)
        out = np.empty(expected.shape[::-1], number).T
        assert smallmm.tensorsolve(a, b, axes=axes, out=out) is out
        np.testing.assert_array_equal(out, result)

    @pytest.mark.parametrize(
        ("shape", "ind"), [((2, 3, 3, 2), 2), ((2, 3, 6), 2), ((6, 2, 3), 1), ((4, 2, 2), 1)]
    )
    def test_inverse(self, shape, ind, number, rng):
        a = normal(rng, shape, number)
        expected = np.linalg.tensorinv(a, ind)
        result = smallmm.tensorinv(a, ind)
        assert result.dtype == number
        assert result.shape == expected.shape
        assert_near(result, expected)
        out = np.empty(expected.shape, number)
        assert smallmm.tensorinv(a, ind=ind, out=out) is out
        np.testing.assert_array_equal(out, result)

    def test_is_the_system_of_matrices(self, rng):
        a, b = rng.standard_normal((2, 3, 3, 2)), rng.standard_normal((2, 3))
        matrix = a.reshape(6, 6)
        assert_same_bits(smallmm.tensorsolve(a, b), smallmm.solve(matrix, b.ravel()).reshape(3, 2))
        assert_same_bits(smallmm.tensorinv(a), smallmm.inv(matrix).reshape(3, 2, 2, 3))
        integers = np.arange(4).reshape(2, 2)
        assert_same_bits(smallmm.tensorsolve(integers.tolist(), [1, 2]), smallmm.solve(integers, [1, 2]))

    @pytest.mark.parametrize("library", ["torch", "jax"])
    def test_other_libraries(self, library, request, rng):
        given = request.getfixturevalue(library)
        array = given.numpy.asarray if library == "jax" else given.asarray
        a, b = rng.standard_normal((2, 3, 6)).astype("f4"), rng.standard_normal((2, 3)).astype("f4")
        for result, expected in [
            (smallmm.tensorsolve(array(a), array(b)), smallmm.tensorsolve(a, b)),
            (smallmm.tensorinv(array(a)), smallmm.tensorinv(a)),
            (smallmm.einsum(array(a), [0, 1, 2], array(b), [0, 1]), smallmm.einsum(a, [0, 1, 2], b, [0, 1])),
        ]:
            assert type(result) is type(array(b))
            assert_same_bits(np.asarray(result), expected)

    @pytest.mark.parametrize(
        ("call", "error", "text"),
        [
            (
                lambda x: smallmm.tensorsolve(x, np.ones((2, 3))),
                ValueError,
                "b has shape (2, 3); expected 4 elements",
            ),
            (
                lambda x: smallmm.tensorsolve(x, np.ones(2)),
                np.linalg.LinAlgError,
                "a has shape (2, 2, 4); expected equal products of its first 1 lengths (the dimensions of b)",
            ),
            (
                lambda x: smallmm.tensorsolve(x, x[0], (0, 3)),
                ValueError,
                "axes is (0, 3); expected different",
            ),
            (lambda x: smallmm.tensorsolve(x, x[0], (0, -3)), ValueError, "axes is (0, -3); expected"),
            (lambda x: smallmm.tensorsolve(x, x[0], (0.5,)), TypeError, "axes is 0.5; expected an integer"),
            (lambda x: smallmm.tensorsolve(x, [[1], [2, 3]]), ValueError, "b is a list that NumPy cannot"),
            (lambda x: smallmm.tensorsolve(x, x[0, :, :2].astype(object)), TypeError, "b has dtype object"),
            (
                lambda x: smallmm.tensorsolve(x, np.ones((2, 2)), out=np.ones((2, 2))),
                ValueError,
                "out has shape (2, 2); expected (4,)",
            ),
            (lambda x: smallmm.tensorinv(x, 0), ValueError, "ind is 0; expected at least 1"),
            (lambda x: smallmm.tensorinv(x, 1.5), TypeError, "ind is 1.5; expected an integer"),
            (
                lambda x: smallmm.tensorinv(x, 1),
                np.linalg.LinAlgError,
                "equal products of its first 1 lengths (ind)",
            ),
            (lambda x: smallmm.tensorinv(x, 4), ValueError, "equal products of its first 4 lengths (ind)"),
        ],
    )
    def test_refused(self, call, error, text):
        with pytest.raises(error, match=f"^tensor.*: .*{re.escape(text)}"):
            call(np.arange(16.0).reshape(2, 2, 4))

    def test_singular(self):
        for call in (
            lambda: smallmm.tensorsolve(np.zeros((4, 2, 2)), np.ones(4)),
            lambda: smallmm.tensorinv(np.zeros((2, 2, 4))),
        ):
            with pytest.raises(smallmm.LinAlgError, match=r"^Singular matrix \(tensor.*: pivot 1 is zero"):
                call()


class TestContract:
    @pytest.mark.parametrize(
        "subscripts",
        [
            "ai,bj,ck,eijk->eabc",
            "eij,ejk,ekl->eil",
            "...ij,...jk,...kl->...il",
            "eij,eik,ejk->e",
            "ij,jk,kl,lm->im",
            "eai,ebj,eij->eab",
            "eij,ekl->eikjl",
            "ei,ej,ek->eijk",
            "e,eij,ej->ei",
            "ijk,jil->kl",
            "abc,cd,def->abef",
            "eii,eij->ej",
            "ij,ij->ij",
            "i,i,i->",
            "ij->",
            ",ij->ij",
        ],
    )
    @pytest.mark.parametrize("batch", [1, 100])
    def test_values(self, subscripts, batch, rng):
        sizes = {x: 2 + i % 4 for i, x in enumerate("abcdfghijklm")} | {"e": batch}
        arrays = [
            rng.standard_normal((*((7,) if "." in part else ()), *(sizes[x] for x in part.replace(".", ""))))
            for part in subscripts.partition("->")[0].split(",")
        ]
        result = smallmm.contract(subscripts, *arrays)
        expected = np.einsum(subscripts, *arrays)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, atol=1e-12)
        strided = [np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x for x in arrays]
        np.testing.assert_allclose(smallmm.contract(subscripts, *strided), expected, atol=1e-12)
        out = np.full(expected.shape, np.nan)
        assert smallmm.contract(subscripts, *arrays, out=out) is out
        np.testing.assert_array_equal(out, result)

    def test_bits_do_not_depend_on_the_batch(self, rng):
        b, u = rng.standard_normal((5, 4)), rng.standard_normal((50, 4, 4, 4))
        whole = smallmm.contract("ai,bj,ck,eijk->eabc", b, b, b, u)
        for i in (0, 17):
            one = smallmm.contract("ai,bj,ck,eijk->eabc", b, b, b, u[i : i + 1])
            np.testing.assert_array_equal(one[0], whole[i])

    def test_path(self, rng):
        a, b, c = rng.standard_normal((3, 20, 4, 4))
        expected = np.einsum("bij,bjk,bkl->bil", a, b, c)
        for path in ([(0, 1), (0, 1)], [(1, 2), (0, 1)], ["einsum_path", (0, 1), (0, 1)], [(0, 1, 2)]):
            np.testing.assert_allclose(smallmm.contract("bij,bjk,bkl->bil", a, b, c, path=path), expected)
        left = smallmm.contract("bij,bjk,bkl->bil", a, b, c, path=[(0, 1), (0, 1)])
        assert_same_bits(left, smallmm.matmul(c.mT, smallmm.matmul(a, b).mT).mT)
        with pytest.raises(ValueError, match=r"contract: path is .*it leaves 2 operands"):
            smallmm.contract("ij,jk,kl->il", a[0], b[0], c[0], path=[(0, 1)])
        with pytest.raises(ValueError, match=r"contract: path is .*positions"):
            smallmm.contract("ij,jk,kl->il", a[0], b[0], c[0], path=[(0, 3)])

    def test_unknown_letters_are_named(self):
        with pytest.raises(ValueError, match="z is none"):
            smallmm.contract("ij->iz", np.eye(2))

    def test_kron_apply(self, rng):
        a, b, c = rng.standard_normal((2, 3)), rng.standard_normal((4, 4)), rng.standard_normal((3, 2))
        x = rng.standard_normal((50, 24))
        expected = x @ np.kron(np.kron(a, b), c).T
        np.testing.assert_allclose(smallmm.kron_apply([a, b, c], x), expected)
        np.testing.assert_allclose(smallmm.kron_apply([a], x[:, :3]), x[:, :3] @ a.T)
        np.testing.assert_allclose(smallmm.kron_apply([a, b, c], np.asfortranarray(x)), expected)
        with pytest.raises(ValueError, match="kron_apply: x has length 24; expected 12"):
            smallmm.kron_apply([a, b], x)
        with pytest.raises(ValueError, match="no matrix"):
            smallmm.kron_apply([], x)

    @pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 3), (4, 5), (6, 6)])
    def test_sum_factorized(self, p, q, rng):
        b1, d, u = (
            rng.standard_normal((q, p)),
            rng.standard_normal((40, q, q, q)),
            rng.standard_normal((40, p, p, p)),
        )
        b = np.kron(np.kron(b1, b1), b1)
        expected = ((u.reshape(40, -1) @ b.T) * d.reshape(40, -1)) @ b
        result = smallmm.sum_factorized(b1, d, u)
        np.testing.assert_allclose(
            result.reshape(40, -1), expected, rtol=0, atol=1e-11 * np.abs(expected).max()
        )


# The operands of each function: stacks of matrices, s of definite ones, vectors, and cubes
MIXED = {
    "einsum": ("aab", partial(smallmm.einsum, "bij,bjk,bkl->bil")),
    "einsum, sums alone": ("ab", partial(smallmm.einsum, "bij,klm->bm")),
    "einsum, lists": ("av", lambda a, v: smallmm.einsum(a, [0, 1, 2], v, [0, 2], [0, 1])),
    "contract": ("ava", partial(smallmm.contract, "bii,bj,bjk->bk")),
    "tensordot": ("aa", lambda a, b: smallmm.tensordot(a, b[0], axes=1)),
    "multi_dot": ("aaa", lambda *arrays: smallmm.multi_dot(arrays)),
    "matmul": ("aa", smallmm.matmul),
    "vecdot": ("vv", smallmm.vecdot),
    "outer": ("vv", smallmm.outer),
    "cross": ("vv", smallmm.cross),
    "kron_apply": ("aaw", lambda a, b, w: smallmm.kron_apply([a, b], w)),
    "sum_factorized": ("auu", smallmm.sum_factorized),
    "congruence": ("aa", smallmm.congruence),
    "conv2d": ("aa", lambda a, b: smallmm.conv2d(a[:, None, None], b[:, None, None], padding=1)),
    "ridge": ("aan", smallmm.ridge),
    "mahalanobis": ("vvs", smallmm.mahalanobis),
    "gaussian_logpdf": ("vvs", smallmm.gaussian_logpdf),
    "kalman_step": ("vsvaass", lambda *arrays: smallmm.kalman_step(*arrays).p),
    "fuse": ("aaa", smallmm.fuse("(m,n),(m,n),(m,n)->(n)")(partial(np.einsum, "ij,kl,jl->l"))),
}


@pytest.mark.parametrize("name", MIXED)
class TestMixedDtypes:
    """The bits of the call with all operands in their common dtype, in the processor's order of bytes."""

    def arrays(self, rng, name, batch, number):
        kinds, function = MIXED[name]
        shapes = {"v": (3,), "w": (9,), "u": (3, 3, 3), "n": ()}
        arrays = [normal(rng, (batch, *shapes.get(x, (3, 3))), number) for x in kinds]
        for i, x in enumerate(kinds):
            if x in "sn":
                arrays[i] = arrays[i] @ arrays[i].conj().mT + np.eye(3) if x == "s" else np.abs(arrays[i])
        return function, [x.astype(number) for x in arrays]

    @pytest.mark.parametrize("batch", [3, 40])  # which is fused, or not
    def test_precision(self, name, batch, rng):
        function, arrays = self.arrays(rng, name, batch, np.float64)
        count = len(arrays)
        for narrow in {
            *map(frozenset, itertools.combinations(range(count), max(1, count - 1))),
            frozenset({0}),
        }:
            given = [x.astype("f4") if i in narrow else x for i, x in enumerate(arrays)]
            found = function(*given)
            assert found.dtype == np.float64
            assert_same_bits(found, function(*(x.astype(float) for x in given)))

    @pytest.mark.where.with_args(
        lambda name, number: name != "gaussian_logpdf" or np.dtype(number).kind == "f"
    )
    def test_order_of_bytes(self, name, number, rng):
        function, arrays = self.arrays(rng, name, 9, number)
        expected = function(*arrays)
        for step in (1, 2):
            given = [x.astype(x.dtype.newbyteorder()) if i % step == 0 else x for i, x in enumerate(arrays)]
            assert_same_bits(function(*given), expected)


class TestGroup:
    def test_is_refused_by_name(self):
        group = smallmm.Group([np.eye(2), np.eye(3)])
        for call in (smallmm.norm, smallmm.cond, smallmm.diagonal, lambda x: smallmm.vecdot(x, x)):
            with pytest.raises(
                (TypeError, ValueError), match=r"<Group of 2 .* its members have several shapes"
            ):
                call(group)
        with pytest.raises(TypeError, match=r"whiten: x is a smallmm.Group, which a fused function does not"):
            smallmm.explain(smallmm.whiten, group)
        same = smallmm.Group([np.eye(2), np.ones((2, 2))])
        np.testing.assert_array_equal(np.asarray(same), [np.eye(2), np.ones((2, 2))])
        with pytest.raises(ValueError, match="by a copy"):
            np.asarray(same, copy=False)

    def test_calls(self, rng):
        sizes = [3, 2, 5, 3, 1, 2, 3]
        a = [rng.standard_normal((n, n)) + n * np.eye(n) for n in sizes]
        b = [rng.standard_normal((n, 2)) for n in sizes]
        group, right = smallmm.Group(a), smallmm.Group(b)
        assert len(group) == 7
        for result, function, operands in (
            (smallmm.solve(group, right), smallmm.solve, (a, b)),
            (smallmm.matmul(group, right), smallmm.matmul, (a, b)),
            (group @ group.mT, lambda x: smallmm.matmul(x, x.T), (a,)),
            (smallmm.inv(group), smallmm.inv, (a,)),
            (smallmm.det(group), smallmm.det, (a,)),
            (smallmm.lu_factor(group).LU, lambda x: smallmm.lu_factor(x).LU, (a,)),
            (smallmm.eigh(group).eigenvectors, lambda x: smallmm.eigh(x).eigenvectors, (a,)),
            (smallmm.cholesky(group @ group.mT), lambda x: smallmm.cholesky(smallmm.matmul(x, x.T)), (a,)),
        ):
            for ours, *theirs in zip(result, *operands, strict=True):
                np.testing.assert_array_equal(ours, function(*theirs))

    def test_shapes_that_fall_into_other_classes(self, rng):
        """Members of one shape meet others of several shapes and dtypes, and a matrix for all."""
        rows, columns = rng.integers(1, 4, 60), rng.integers(1, 4, 60)
        a = [rng.standard_normal((n, 3)).astype("f4" if n == 2 else "f8") for n in rows]
        b = [rng.standard_normal((3, n)) for n in columns]
        product = smallmm.matmul(smallmm.Group(a), smallmm.Group(b))
        for x, y, z in zip(smallmm.matmul(product, product.mT), a, b, strict=True):
            once = smallmm.matmul(y, z)
            np.testing.assert_array_equal(x, smallmm.matmul(once, once.T))
        for x, y in zip(smallmm.matmul(smallmm.Group(a), np.ones((3, 2))), a, strict=True):
            np.testing.assert_array_equal(x, smallmm.matmul(y, np.ones((3, 2))))

    def test_members_that_change_places(self, rng):
        """Stacks of several members each, which fall into other stacks twice, in three groups."""
        a = [rng.standard_normal((n, n)) + 9 * np.eye(n) for n in rng.integers(1, 4, 200)]
        columns = [rng.integers(1, 5, 200) for _ in range(2)]
        b, c = ([rng.standard_normal((len(x), k)) for x, k in zip(a, ks, strict=True)] for ks in columns)
        group, x, y = map(smallmm.Group, (a, b, c))
        found = smallmm.matmul(smallmm.solve(group, x).mT, smallmm.solve(group, y))
        assert len(found) == 200
        for ours, p, q, r in zip(found, a, b, c, strict=True):
            np.testing.assert_array_equal(ours, smallmm.matmul(smallmm.solve(p, q).T, smallmm.solve(p, r)))
        lu = smallmm.lu_factor(group)
        for ours, p, q in zip(smallmm.lu_solve(lu, x), a, b, strict=True):
            np.testing.assert_array_equal(ours, smallmm.lu_solve(smallmm.lu_factor(p), q))

    @pytest.mark.parametrize("isa", smallmm._core.isas_available())
    def test_threads_share_all_shapes(self, isa, rng):
        """The bits of each call by itself, on any number of threads."""
        sizes = rng.integers(1, 33, 300)
        a = [rng.standard_normal((n, n)).astype("f4" if n % 5 == 0 else "f8") for n in sizes]
        b = [rng.standard_normal((n, 3)).astype(x.dtype) for n, x in zip(sizes, a, strict=True)]
        group, right = smallmm.Group(a), smallmm.Group(b)
        before = smallmm._core.isa()
        try:
            smallmm._core.select_isa(isa)
            solved = [smallmm.solve(x, y) for x, y in zip(a, b, strict=True)]
            values = [smallmm.eigvalsh(x) for x in a]
            for threads in 1, 2, 5:
                with smallmm.threads(threads):
                    for ours, theirs in zip(smallmm.solve(group, right), solved, strict=True):
                        np.testing.assert_array_equal(ours, theirs)
                    for ours, theirs in zip(smallmm.eigvalsh(group), values, strict=True):
                        np.testing.assert_array_equal(ours, theirs)
        finally:
            smallmm._core.select_isa(before)

    def test_shapes_beyond_the_kernels(self, rng):
        """LAPACK computes them, and they keep their places."""
        a = [rng.standard_normal((n, n)) + n * np.eye(n) for n in (3, 40, 2, 33, 3)]
        group = smallmm.Group(a)
        for ours, x in zip(smallmm.inv(group), a, strict=True):
            np.testing.assert_array_equal(ours, smallmm.inv(x))
        np.testing.assert_array_equal(smallmm.det(group), [smallmm.det(x) for x in a])
        singular = smallmm.Group([*a, np.zeros((34, 34)), np.zeros((2, 2))])
        assert smallmm.inv_ex(singular)[1].tolist() == [0, 0, 0, 0, 0, 1, 1]

    @pytest.mark.parametrize("others", ["f2", "f4", "f8", "i4", "?"])
    def test_dtypes(self, others, rng):
        """Members, and what they meet, of several dtypes."""
        members = [(3, "f4"), (2, "f8"), (3, "f8"), (2, "f2"), (4, others), (3, "f4")]
        a = [(9 * rng.standard_normal((n, n))).astype(dtype) for n, dtype in members]
        b = [(9 * rng.standard_normal((n, 2))).astype(others) for n, _ in members]
        group = smallmm.Group(a)
        for ours, x, y in zip(smallmm.matmul(group, smallmm.Group(b)), a, b, strict=True):
            assert ours.dtype == smallmm.matmul(x, y).dtype
            np.testing.assert_array_equal(ours, smallmm.matmul(x, y))
        for ours, x in zip(smallmm.batched_matmul(group, group, alpha=2.5), a, strict=True):
            assert_same_bits(ours, smallmm.batched_matmul(x, x, alpha=2.5))
        dets = [smallmm.det(x) for x in a]
        ours = smallmm.det(group)
        assert ours.dtype == np.result_type(*dets)
        np.testing.assert_array_equal(ours, dets)
        three = smallmm.Group([x for x in a if len(x) == 3])
        matrix = (9 * rng.standard_normal((2, 3))).astype(others)
        for ours, x in zip(smallmm.matmul(matrix, three), three, strict=True):
            assert ours.dtype == smallmm.matmul(matrix, x).dtype
            np.testing.assert_array_equal(ours, smallmm.matmul(matrix, x))

    @pytest.mark.parametrize("isa", smallmm._core.isas_available())
    def test_complex_members(self, isa, rng):
        """Beside real ones, in two precisions, one of an order that LAPACK takes."""
        sizes = [3, 2, 5, 3, 1, 2, 3, 33]
        a = [rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)) + n * np.eye(n) for n in sizes]
        a = [x.astype("c8") if len(x) == 2 else x for x in a]
        b = [rng.standard_normal((len(x), 2)).astype("f4") for x in a]
        v = [x[:, 0].copy() for x in a]
        h = [smallmm.matmul(x, x.conj().T) for x in a]
        group, right, definite = map(smallmm.Group, (a, b, h))
        assert group.dtype == complex

        def assert_equal(found, function, *operands):
            for ours, *given in zip(found, *operands, strict=True):
                theirs = function(*given)
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours, theirs)

        before = smallmm._core.isa()
        try:
            smallmm._core.select_isa(isa)
            assert_equal(smallmm.solve(group, right), smallmm.solve, a, b)
            assert_equal(group.conj().mT @ group, lambda x: smallmm.matmul(x.conj().T, x), a)
            assert_equal(smallmm.vecmat(smallmm.Group(v), group), smallmm.vecmat, v, a)
            assert_equal(smallmm.eigh(definite).eigenvalues, lambda x: smallmm.eigh(x).eigenvalues, h)
            assert_equal(smallmm.cholesky(definite), smallmm.cholesky, h)
            assert_equal(smallmm.det(group), lambda x: smallmm.det(x).astype(complex), a)
        finally:
            smallmm._core.select_isa(before)
        assert smallmm.slogdet(smallmm.Group(a[:2])).logabsdet.dtype == np.float64
        assert smallmm.inv_ex(smallmm.Group([*a, np.zeros((2, 2), "c8")])).info.tolist() == [0] * 8 + [1]

    @pytest.mark.parametrize("trans", ["N", "T", "C"])
    @pytest.mark.parametrize("left", [True, False])
    def test_transposes(self, trans, left, rng):
        a = [
            rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)) + n * np.eye(n) for n in (2, 3, 2)
        ]
        b = [rng.standard_normal((len(x), 4) if left else (4, len(x))) for x in a]
        group, right = smallmm.Group(a), smallmm.Group(b)
        solved = smallmm.solve_triangular(group, right, trans, lower=True, left=left)
        by_factors = smallmm.lu_solve(smallmm.lu_factor(group), right, trans, left=left)
        for x, y, p, q in zip(solved, by_factors, a, b, strict=True):
            np.testing.assert_array_equal(x, smallmm.solve_triangular(p, q, trans, lower=True, left=left))
            np.testing.assert_array_equal(y, smallmm.lu_solve(smallmm.lu_factor(p), q, trans, left=left))
        with pytest.raises(ValueError, match="expected matrices"):
            _ = smallmm.Group([np.ones(2)]).mT

    def test_explained(self):
        """All members, with the threads of the job."""
        group = smallmm.Group([np.eye(n) for n in range(2, 33)] * 20)
        with smallmm.threads(2):
            plan = smallmm.explain("solve", group, group)
        assert (plan.matrices, plan.calls, plan.threads) == (620, 31, 2)
        flops = sum(smallmm.explain("solve", x, x).flops for x in group)
        assert plan.flops == pytest.approx(flops)

    @pytest.mark.parametrize("library", ["torch", "jax"])
    def test_stacks_of_other_libraries(self, library, request):
        """What groups on a device do with them, here on the CPU."""
        module = request.getfixturevalue(library)
        module = getattr(module, "numpy", module)
        x, y = module.ones((2, 3)), module.zeros((1, 3))
        stacks = StandardDevice(library, x, 0)
        joined = stacks.concat([x, y, module.ones((1, 3), dtype=module.int32)])
        assert joined.dtype == x.dtype
        found = stacks.take(joined, stacks.index(np.array([2, 0, 1])))
        assert found.tolist() == [[0.0] * 3, [1.0] * 3, [1.0] * 3]

    def test_no_members(self):
        group = smallmm.Group([])
        assert len(smallmm.inv(group)) == len(smallmm.matmul(group, group)) == 0
        assert smallmm.det(group).shape == (0,)

    def test_bad_matrices(self):
        group = smallmm.Group([np.eye(2), np.zeros((3, 3)), np.eye(3)])
        with pytest.raises(
            smallmm.LinAlgError, match=r"1 of 3 matrices is singular, the first at index \(1,\)"
        ) as e:
            smallmm.inv(group)
        np.testing.assert_array_equal(e.value.result[2], np.eye(3))
        inverse, info = smallmm.inv_ex(group)
        assert info.tolist() == [0, 1, 0]
        assert np.isnan(inverse[1]).all()

    def test_stacks_that_do_not_match_their_count(self):
        """The core is not given them: their numbers would not fit."""
        edge, right = [np.zeros((1, 2))], [np.ones((1, 3, 1))]
        outputs, left = smallmm._core.many(
            smallmm._core.solve_tridiagonal, np.array([1]), edge, np.full((5, 3), 2.0), edge, right
        )
        assert left == [0]
        assert outputs[0] == [None]
        with pytest.raises(TypeError, match="many: expected a gufunc of smallmm"):
            smallmm._core.many(np.add, np.array([1]), edge, edge)

    def test_wrong(self):
        with pytest.raises(ValueError, match="b is a group of 1; expected 2"):
            smallmm.solve(smallmm.Group([np.eye(2), np.eye(3)]), smallmm.Group([np.ones((2, 1))]))
        with pytest.raises(TypeError, match=r"arrays\[0\] has dtype"):
            smallmm.Group([np.ones(2, np.clongdouble)])
        with pytest.raises(ValueError, match="expected a group, or one matrix for all members"):
            smallmm.matmul(smallmm.Group([np.eye(3)]), np.ones((5, 3, 3)))
        with pytest.raises(ValueError, match="expected a group, or one vector for all members"):
            smallmm.matvec(smallmm.Group([np.eye(3)]), np.ones((5, 3)))
        with pytest.raises(TypeError, match="out is given"):
            smallmm.inv(smallmm.Group([np.eye(2)]), out=np.eye(2))
        with pytest.raises(TypeError, match="out is given for <Group of 1 arrays"):
            smallmm.matmul(np.eye(2), np.eye(2), out=smallmm.Group([np.eye(2)]))
        with pytest.raises(TypeError, match="is no array: its members have several shapes"):
            smallmm.norm(smallmm.Group([np.eye(2), np.eye(3)]))

"""What all functions share that are composed of others: norms, functions of matrices, contractions. Bits,
layouts, dtypes, `out`, other libraries' arrays, empty stacks, wrong arguments. Their values are in
test_norms.py, test_matrix_functions.py and test_contractions.py."""

import pickle
import re
import warnings
from math import prod

import numpy as np
import pytest
from accuracy import as_tuple, assert_same, assert_same_bits
from cases import COMPOSITIONS
from layouts import LAYOUTS, WRITABLE
from matrices import good_definite

import smallmm
import smallmm._base.composition as composition
import smallmm._programs.compose as compose
from smallmm._base.composition import Composition

OF_LISTS = [name for name in COMPOSITIONS if name not in ("cross", "outer", "multi_dot", "einsum")]
SQUARE = [name for name in COMPOSITIONS if name.startswith(("matrix_p", "expm", "sqrtm", "logm", "powm"))]
COMPOSED = [name for name in COMPOSITIONS if name not in ("outer", "multi_dot", "einsum")]


def stack(rng, n, dtype, count):
    """Definite matrices of every kind, repeated to that count."""
    return np.resize(good_definite(rng, n, dtype), (count, n, n))


@pytest.fixture(params=COMPOSITIONS)
def name(request):
    return request.param


@pytest.fixture
def function(name):
    return COMPOSITIONS[name]


class TestBits:
    @pytest.mark.parametrize("n", [3, 7, 32])
    def test_batch_and_place(self, function, dtype, n, rng):
        """A matrix alone, in a small stack, and in one of several blocks."""
        a = stack(rng, n, dtype, (1 << 18) // n**2 + 1003)
        whole = as_tuple(function(a))
        for x in (slice(0, 1), slice(0, 15), slice(101, 105), slice(len(a) - 5, None)):
            assert_same(as_tuple(function(a[x])), tuple(w[x].copy() for w in whole))
        for i in (0, 7, len(a) - 1):
            assert_same(as_tuple(function(a[i])), tuple(w[i] for w in whole))
        assert_same(as_tuple(function(a[::-1])), tuple(w[::-1].copy() for w in whole))

    @pytest.mark.parametrize("n", [3, 8, 17])
    def test_layouts(self, function, dtype, n, rng):
        a = stack(rng, n, dtype, 21)
        for name, place in LAYOUTS.items():
            expected = a if name != "broadcast" else np.repeat(a[:1], 21, 0)
            assert_same(as_tuple(function(place(a))), as_tuple(function(expected))), name

    @pytest.mark.parametrize("name", [x for x in COMPOSED if not x.endswith("tol")])  # numbers are converted
    @pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4)])
    def test_direct_way(self, name, number, shape, rng, monkeypatch):
        """Plain arrays do not go through conversions; others do, with the same bits."""
        a = good_definite(rng, 4, number)[:3].reshape(-1, 4, 4)[: prod(shape[:-2])].reshape(shape)
        expected = as_tuple(COMPOSITIONS[name](a.astype(a.dtype.newbyteorder())))
        monkeypatch.setattr(compose, "call", None)
        assert_same(as_tuple(COMPOSITIONS[name](a)), expected)

    def test_threads(self, function, rng):
        a = stack(rng, 4, np.float64, 50_000)
        with smallmm.threads(1):
            alone = as_tuple(function(a))
        with smallmm.threads(2):
            assert_same(as_tuple(function(a)), alone)

    def test_nested_stacks(self, function, dtype, rng):
        a = stack(rng, 4, dtype, 12)
        flat = as_tuple(function(a))
        nested = as_tuple(function(a.reshape(2, 3, 1, 2, 4, 4)))
        assert_same(tuple(x.reshape(12, *x.shape[4:]) for x in nested), flat)
        large = stack(rng, 4, dtype, 120_000)  # of several blocks
        swapped = as_tuple(function(large.reshape(400, 300, 4, 4).swapaxes(0, 1)))
        flat = as_tuple(function(large))
        assert_same(
            tuple(x.swapaxes(0, 1).reshape(y.shape) for x, y in zip(swapped, flat, strict=True)), flat
        )

    def test_neighbours(self, function, rng):
        """NaN and infinities stay in their own matrix, and nothing warns of them."""
        a = stack(rng, 4, np.float64, 15)
        good = as_tuple(function(a))
        bad = a.copy()
        bad[3], bad[7, 1, 2], bad[9] = np.nan, np.inf, 1e300
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                results = as_tuple(function(bad))
            except smallmm.LinAlgError as error:
                results = as_tuple(error.result)
        keep = np.delete(np.arange(15), [3, 7, 9])
        for x, y in zip(results, good, strict=False):
            assert_same_bits(x[keep], y[keep])


class TestDtypes:
    # Products have tests of bool and float16
    @pytest.mark.where.with_args(
        lambda name, given: given not in ("?", "e") or name not in ("outer", "multi_dot", "einsum")
    )
    @pytest.mark.parametrize(
        ("given", "computed", "own"),
        [(x, "d", "d") for x in "?bQd"] + [("e", "f", "e"), ("f", "f", "f"), (">f4", "f", "f")],
    )
    def test_of_results(self, function, name, given, computed, own):
        a = np.broadcast_to(np.eye(3), (2, 3, 3)).astype(given)
        expected = as_tuple(function(a.astype(computed)))
        assert_same(
            as_tuple(function(a)), tuple(x.astype(own) if x.dtype == computed else x for x in expected)
        )
        if not name.startswith(("matrix_rank", "lu, indices")):
            assert expected[0].dtype == computed

    @pytest.mark.parametrize("name", OF_LISTS)
    def test_lists(self, name):
        a = [[2.0, 0.0], [0.0, 4.0]]
        assert_same(as_tuple(COMPOSITIONS[name](a)), as_tuple(COMPOSITIONS[name](np.array(a))))

    @pytest.mark.parametrize("dtype", ["G", "g", "O", "U3"])
    def test_refused(self, function, name, dtype):
        op = name.partition(",")[0]
        with pytest.raises(TypeError, match=rf"{op if name in COMPOSED else ''}.* has dtype"):
            function(np.zeros((3, 3), dtype))


class TestOut:
    def test_is_what_is_returned(self, function, dtype, rng):
        a = stack(rng, 4, dtype, 5)
        results = function(a)
        for place in WRITABLE.values():
            outs = [
                place(np.full((*x.shape, *(1,) * (3 - x.ndim)), -7, x.dtype))[(..., *(0,) * (3 - x.ndim))]
                for x in as_tuple(results)
            ]
            returned = as_tuple(function(a, out=tuple(outs) if isinstance(results, tuple) else outs[0]))
            for x, out, expected in zip(returned, outs, as_tuple(results), strict=True):
                assert np.shares_memory(x, out)
                assert_same_bits(np.ascontiguousarray(out), np.ascontiguousarray(expected))

    @pytest.mark.parametrize(
        "name", [x for x in COMPOSED if x.startswith(("expm", "sqrtm", "powm", "matrix_p"))]
    )
    def test_may_be_the_input(self, function, rng):
        a = stack(rng, 4, np.float64, 9000)
        expected = as_tuple(function(a))[0]
        (
            function(a, out=(a, None))
            if "_ex" in str(function) or isinstance(function(a), tuple)
            else function(a, out=a)
        )
        assert_same_bits(a, expected)

    @pytest.mark.parametrize(
        "name", [x for x in COMPOSED if "_ex" not in x and not x.startswith(("polar", "lu"))]
    )
    def test_wrong(self, function, name, rng):
        op = name.partition(",")[0]
        a = stack(rng, 4, np.float64, 3)
        expected = function(a)
        before = np.full((*expected.shape[:-1], expected.shape[-1] + 1), 7, expected.dtype)
        for out, error, text in [
            (before, ValueError, "has shape"),
            (np.zeros(expected.shape, bool), TypeError, "has dtype bool"),
            (list(expected), TypeError, "is a list"),
        ]:
            with pytest.raises(error, match=rf"^{op}: out(\[0\])? {text}"):
                function(a, out=out)
        assert (before == 7).all()
        fixed = np.zeros_like(expected)
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match=r"read-only"):
            function(a, out=fixed)


class TestShapes:
    def test_empty_stacks(self, function, dtype):
        for shape in [(0, 4, 4), (2, 0, 3, 3)]:
            expected = as_tuple(function(np.broadcast_to(np.eye(shape[-1], dtype=dtype), (1, *shape[-2:]))))
            for x, y in zip(as_tuple(function(np.ones(shape, dtype))), expected, strict=True):
                assert x.shape == shape[:-2] + y.shape[1:]
                assert x.dtype == y.dtype

    @pytest.mark.parametrize(
        "name", [x for x in COMPOSED if x[-3:] != "inf" and "cond" not in x and "-" not in x and x != "cross"]
    )
    def test_no_elements(self, function, name, dtype):
        for x in as_tuple(function(np.ones((3, 0, 0), dtype))):
            assert x.shape[0] == 3
            assert not x.any()

    @pytest.mark.parametrize("name", ["matrix_power, 5"])  # without info, which has elements
    def test_no_elements_of_many_matrices(self, function, name):
        """Nothing goes through them one by one."""
        assert function(np.ones((2**40, 0, 0))).shape == (2**40, 0, 0)

    def test_as_many_dimensions_as_numpy_has(self, function, name):
        a = np.ones((2, *(1,) * 61, 3, 3)) + 9 * np.eye(3)
        if name == "outer":
            a = a[0]
        expected = as_tuple(function(a.reshape(-1, 3, 3)))
        for x, y in zip(as_tuple(function(a)), expected, strict=True):
            assert x.shape == a.shape[:-2] + y.shape[1:]
            assert_same_bits(x.reshape(y.shape), y)

    def test_more_dimensions_than_numpy_has(self):
        x = np.ones((1,) * 63 + (3,))
        for function in (smallmm.outer, smallmm.vecdot):
            with pytest.raises(ValueError, match=r"x\d has 64 dimensions; expected at most 63"):
                function(x, x)

    @pytest.mark.parametrize(
        "name", [x for x in COMPOSED if x.startswith(("matrix_p", "expm", "sqrtm", "logm"))]
    )
    def test_not_square(self, function, name):
        op = name.partition(",")[0]
        with pytest.raises(np.linalg.LinAlgError, match=rf"^{op}: [aA] has shape \(2, 3\); expected square"):
            function(np.ones((2, 3)))
        with pytest.raises(
            np.linalg.LinAlgError, match=rf"^{op}: [aA] has shape \(3,\); expected at least 2"
        ):
            function(np.ones(3))

    def test_beyond_order_32(self, function, dtype, rng):
        a = stack(rng, 40, dtype, 3)[1:] / 100
        whole = as_tuple(function(a))
        assert all(np.isfinite(x).all() for x in whole)
        for x, y in zip(as_tuple(function(a[1])), whole, strict=True):
            assert_same_bits(x, y[1])


class TestLibraries:
    @pytest.fixture(params=["torch", "jax"])
    def convert(self, request):
        library = request.getfixturevalue(request.param)
        return library.from_numpy if request.param == "torch" else library.numpy.asarray

    def test_by_dlpack(self, function, convert, rng):
        a = stack(rng, 4, np.float32, 15)
        given = convert(a)
        results = as_tuple(function(given))
        for x, expected in zip(results, as_tuple(function(a)), strict=True):
            assert type(x) is type(given)
            np.testing.assert_array_equal(np.asarray(x), expected)  # ranks are int32 in JAX

    @pytest.mark.parametrize("name", COMPOSED)
    def test_in_the_namespace_of_another(self, name, monkeypatch, jax, rng):
        """As on a GPU: the composition of another library's functions, without NumPy."""
        a = stack(rng, 4, np.float64, 30)
        expected = as_tuple(COMPOSITIONS[name](a))
        called: list[str] = []

        def run(op, composition, operands, out, kwargs):
            called.append(op)
            arrays = tuple(x if isinstance(x, float) else jax.numpy.asarray(x) for x in operands.values())
            results = composition.run(jax.numpy, arrays)
            assert all(isinstance(x, jax.Array) for x in results)
            results = tuple(np.asarray(x) for x in results)
            return results if len(results) > 1 else results[0]

        monkeypatch.setattr(Composition, "directly", lambda *_: NotImplemented)
        monkeypatch.setattr(compose, "call", run)
        with jax.enable_x64(True):
            for x, y in zip(as_tuple(COMPOSITIONS[name](a)), expected, strict=True):
                assert x.dtype == y.dtype
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-14 * np.abs(y).max())
        assert called

    def test_dask(self, function, name, rng):
        da = pytest.importorskip("dask.array")
        a = stack(rng, 4, np.float64, 50)
        lazy = da.from_array(a, chunks=(20, 4, 4))
        results = as_tuple(function(lazy))
        for x, expected in zip(results, as_tuple(function(a)), strict=True):
            assert isinstance(x, da.Array)
            assert x.shape == expected.shape
            assert x.dtype == expected.dtype
            assert_same_bits(x.compute(), expected)

    @pytest.mark.parametrize("name", OF_LISTS)
    def test_pandas(self, function, name):
        pd = pytest.importorskip("pandas")
        a = np.diag([2.0, 3.0])
        for x, y in zip(as_tuple(function(pd.DataFrame(a))), as_tuple(function(a)), strict=True):
            assert_same_bits(np.asarray(x), np.asarray(y))

    @pytest.mark.parametrize("name", COMPOSED)
    def test_masked(self, function, name):
        a = np.ma.masked_array(np.eye(3), np.eye(3) > 0)
        with pytest.raises(
            TypeError, match=rf"^{name.partition(',')[0]}: .* is a masked array, 3 of whose 9"
        ):
            function(a)

    def test_objects_of_ufuncs(self):
        xr = pytest.importorskip("xarray")
        with pytest.raises(TypeError, match=r"pinv: a DataArray is not taken; pass its values"):
            smallmm.pinv(xr.DataArray(np.eye(3)))

    def test_pickle(self, rng):
        composition = Composition("trace", "(m,n)->()", smallmm._functions.contractions._diagonal)
        assert pickle.loads(pickle.dumps(composition)).signature == "(m,n)->()"


@pytest.mark.parametrize("n", [2**64, -(2**70), 10**30])
def test_large_powers(n):
    a = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.array_equal(smallmm.matrix_power(a, n), np.eye(2))


class TestBroadcasting:
    def test_tolerances(self, dtype, rng):
        """One for each matrix, in several blocks too."""
        a = stack(rng, 4, dtype, 70_000)
        rtol = np.resize(np.array([1e-6, 1e-2, 0.5], dtype), 70_000)
        for function in (smallmm.matrix_rank, smallmm.pinv):
            whole = function(a, hermitian=True, rtol=rtol)
            for i in (0, 1, 2, 69_998):
                assert_same_bits(whole[i], function(a[i], hermitian=True, rtol=rtol[i]))
        grid = smallmm.matrix_rank(a[:6].reshape(3, 2, 4, 4), hermitian=True, rtol=rtol[:3, None])
        assert grid.shape == (3, 2)
        with pytest.raises(ValueError, match=r"matrix_rank: rtol has shape \(4,\), whose batch dimensions"):
            smallmm.matrix_rank(a[:3], hermitian=True, rtol=np.ones(4))

    def test_vectors(self, dtype, rng):
        x, y = rng.standard_normal((2, 50, 3)).astype(dtype)
        whole = smallmm.cross(x[:, None], y)
        assert whole.shape == (50, 50, 3)
        assert_same_bits(whole[7, 9], smallmm.cross(x[7], y[9]))
        large = smallmm.cross(np.resize(x, (500, 1, 3)), np.resize(y, (1, 400, 3)))  # in several blocks
        assert_same_bits(large[:50, :50], whole)


def test_arguments_are_named():
    for call, error, text in [
        (
            lambda: smallmm.matrix_norm(np.ones(3)),
            ValueError,
            "matrix_norm: x has shape (3,); expected at least 2",
        ),
        (lambda: smallmm.matrix_norm(np.eye(2), ord="f"), ValueError, "matrix_norm: ord is 'f'; expected"),
        (lambda: smallmm.matrix_norm(np.eye(2), ord=3), ValueError, "matrix_norm: ord is 3; expected"),
        (lambda: smallmm.matrix_norm(np.eye(2), keepdims="no"), TypeError, "matrix_norm: keepdims is 'no'"),
        (
            lambda: smallmm.vector_norm(np.ones(2), ord="fro"),
            ValueError,
            "vector_norm: ord is 'fro'; expected",
        ),
        (
            lambda: smallmm.vector_norm(np.ones(2), axis=1),
            IndexError,
            "vector_norm: axis is 1; expected numbers",
        ),
        (lambda: smallmm.vector_norm(np.ones(2), axis=0.0), TypeError, "vector_norm: axis is 0.0; expected"),
        (lambda: smallmm.vector_norm(np.eye(2), axis=(0, -2)), ValueError, "vector_norm: axis is (0, -2)"),
        (
            lambda: smallmm.norm(np.ones((2, 2, 2)), 2),
            ValueError,
            "norm: x has 3 dimensions; expected 1 or 2",
        ),
        (lambda: smallmm.norm(np.ones((2, 2, 2)), axis=(0, 1, 2)), ValueError, "norm: axis is (0, 1, 2)"),
        (
            lambda: smallmm.vector_norm([], ord=-1),
            ValueError,
            "vector_norm: x has shape (0,); expected vectors",
        ),
        (lambda: smallmm.matrix_norm(np.ones((0, 2)), ord=-1), ValueError, "matrix_norm: x has shape (0, 2)"),
        (lambda: smallmm.cond(np.eye(2), 3), ValueError, "cond: p is 3; expected 'fro'"),
        (lambda: smallmm.cond(np.ones((2, 3)), 1), ValueError, "cond: x has shape (2, 3); expected square"),
        (
            lambda: smallmm.cond(np.ones((0, 0))),
            ValueError,
            "cond: x has shape (0, 0); expected matrices with",
        ),
        (lambda: smallmm.matrix_rank(np.eye(2), 1, rtol=1), ValueError, "matrix_rank: tol and rtol are both"),
        (lambda: smallmm.pinv(np.eye(2), 1, rtol=1), ValueError, "pinv: rcond and rtol are both given"),
        (
            lambda: smallmm.pinv(np.eye(2), hermitian=None),
            TypeError,
            "pinv: hermitian is None; expected True",
        ),
        (
            lambda: smallmm.matrix_power(np.eye(2), 0.5),
            TypeError,
            "matrix_power: n is 0.5; expected an integer",
        ),
        (
            lambda: smallmm.expm(np.eye(2), assume_a="tri"),
            ValueError,
            "expm: assume_a is 'tri'; expected 'gen'",
        ),
        (lambda: smallmm.powm(np.eye(2), np.nan), ValueError, "powm: p is nan; expected a finite number"),
        (
            lambda: smallmm.einsum("i,->i", np.eye(2)[0], np.eye(2)),
            ValueError,
            "1 has shape (2, 2); expected no",
        ),
        (lambda: smallmm.powm(np.eye(2), "1"), ValueError, "powm: p is '1'; expected a finite number"),
        (
            lambda: smallmm.trace(np.eye(2), offset=0.5),
            TypeError,
            "trace: offset is 0.5; expected an integer",
        ),
        (lambda: smallmm.trace(np.ones(2)), ValueError, "trace: x has shape (2,); expected at least 2"),
        (lambda: smallmm.diagonal(np.ones(2)), ValueError, "diagonal: x has shape (2,); expected at least 2"),
        (lambda: smallmm.matrix_transpose([1]), ValueError, "matrix_transpose: x has shape (1,); expected"),
        (lambda: smallmm.outer(1.0, [1.0]), ValueError, "outer: x1 has no dimension; expected at least 1"),
        (lambda: smallmm.cross([1, 2], [1, 2]), ValueError, "cross: x1 has shape (2,); expected length 3"),
        (
            lambda: smallmm.vecdot([1, 2], [1, 2, 3]),
            ValueError,
            "vecdot: x2 has shape (3,); expected length 2 along axis -1",
        ),
        (lambda: smallmm.vecdot(1, [1]), ValueError, "vecdot: x1 has no dimension"),
        (lambda: smallmm.vecdot([1], [1], axis=1), ValueError, "vecdot: x1 has shape (1,); expected axis 1"),
        (
            lambda: smallmm.cross(np.ones(3), np.ones((3, 1))),
            ValueError,
            "cross: x2 has shape (3, 1); expected",
        ),
        (
            lambda: smallmm.multi_dot([np.eye(2)]),
            ValueError,
            "multi_dot: arrays has 1 arrays; expected at least",
        ),
        (
            lambda: smallmm.multi_dot([np.eye(2), np.ones((3, 2)), np.eye(2)]),
            ValueError,
            "multi_dot: arrays[1] has shape (3, 2); expected 2 rows to match arrays[0] of shape (2, 2)",
        ),
    ]:
        with pytest.raises(error, match=re.escape(text)):
            call()


class TestPrograms:
    """After some calls of a kind a composition is a program, with the bits of NumPy's operations."""

    @pytest.fixture
    def at_once(self, monkeypatch):
        monkeypatch.setattr(composition, "RECORDED_AFTER", 0)
        composition.composition_of.cache_clear()
        yield
        composition.composition_of.cache_clear()

    def never(self, monkeypatch):
        monkeypatch.setattr(composition, "RECORDED_AFTER", np.inf)
        composition.composition_of.cache_clear()

    @pytest.mark.parametrize("n", [2, 3, 8, 17])
    @pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
    def test_bits(self, rng, monkeypatch, name, n, dtype):
        function = COMPOSITIONS[name]
        n = max(n, 3) if name == "cross" else n
        plain = stack(rng, n, dtype, 12).reshape(3, 4, n, n)
        strange = plain.copy()
        strange[0, 0, -1, 0] = np.nan
        strange[0, 1], strange[0, 2] = 0, np.finfo(dtype).smallest_subnormal
        strange[0, 3] *= np.finfo(dtype).max / 4 / abs(strange[0, 3]).max()
        strange[1, 0, 0, 0] = np.inf
        given = [plain, plain[1, 1], strange, plain[::2, ::-1], plain.mT, strange.mT, plain[:, :1]]
        given.append(np.ascontiguousarray(plain[..., ::-1, :])[..., ::-1, :])
        self.never(monkeypatch)
        expected = [_answers(function, a) for a in given]
        monkeypatch.setattr(composition, "RECORDED_AFTER", 0)
        composition.composition_of.cache_clear()
        for a, want in zip(given, expected, strict=True):
            for _ in range(2):
                assert_same(_answers(function, a), want)
        composition.composition_of.cache_clear()

    def test_calls_need_no_python(self, rng, at_once, monkeypatch):
        """The second call of a kind is a program's."""
        a = stack(rng, 3, np.float64, 5)
        for x in (a, a[0], a.mT, a[:, :2]):
            smallmm.cond(x)
        asked = []
        monkeypatch.setattr(Composition, "_is_due", lambda *given: asked.append(given))
        for x in (a, a[:2], a[0], a.mT, a[:, :2], a[::-1]):
            smallmm.cond(x)
        assert not asked
        for x in (a[..., ::-1], a.astype(np.float32), a.astype(">f8").mT[..., ::-1], a.tolist()):
            smallmm.cond(x)
        assert len(asked) == 3  # a list becomes an array of a kind that is known

    def test_large_stacks(self, rng, at_once):
        """With few threads by other means than with many: the same bits."""
        a = stack(rng, 4, np.float64, 3000)
        for function in (smallmm.matrix_norm, smallmm.cond, smallmm.trace):
            with smallmm.threads(1):
                expected = function(a)
            for count in (2, 4):
                with smallmm.threads(count):
                    assert_same(function(a), expected)

    def test_in_a_new_process(self, run_python):
        """What makes programs is imported when it is first wanted."""
        code = """
            import sys, numpy as np, smallmm
            made = []
            for _ in range(9):
                smallmm.trace(np.eye(3))
                made.append("smallmm._programs.plan" in sys.modules)
            print(made[0], made[-1])
        """
        assert run_python(code).stdout == "False True\n"

    def test_numbers(self, rng, at_once):
        a = stack(rng, 3, np.float32, 5)
        for tol in (1e-3, 0.5, 1, np.float32(0.25), np.array(0.1, np.float32), np.full(5, 0.1, np.float32)):
            expected = [np.linalg.matrix_rank(x, float(np.ravel(tol)[0])) for x in a]
            for _ in range(3):
                np.testing.assert_array_equal(smallmm.matrix_rank(a, tol), expected)

    def test_out(self, rng, at_once):
        a = stack(rng, 4, np.float64, 6)
        expected = smallmm.matrix_power(a, 3)
        for _ in range(2):
            out = np.empty_like(a)
            assert smallmm.matrix_power(a, 3, out=out) is out
            assert_same(out, expected)
            own = a.copy()  # which the result overwrites
            assert smallmm.matrix_power(own, 3, out=own) is own
            assert_same(own, expected)
            wide = np.empty((2, *a.shape))
            smallmm.matrix_power(a, 3, out=wide)
            assert_same(wide[1], expected)
            with pytest.raises(ValueError, match="out"):
                smallmm.matrix_power(a, 3, out=np.empty((5, 4, 4)))

    def test_failures(self, rng, at_once):
        a = stack(rng, 3, np.float64, 6)
        a[2] = 0
        for _ in range(3):
            with pytest.raises(smallmm.LinAlgError, match="1 of 6") as caught:
                smallmm.matrix_power(a, -1)
            assert caught.value.info.tolist() == [0, 0, 1, 0, 0, 0]
            assert np.isnan(caught.value.result[2]).all()
            assert np.isfinite(caught.value.result[3]).all()

    def test_pickles_forget_programs(self, rng, at_once):
        a = stack(rng, 3, np.float64, 6)
        own = composition.composition_of("rank?", "(m,n)->()", (None,), _first_element)
        for x in (own, pickle.loads(pickle.dumps(own))):
            assert_same(x(a), a[:, 0, 0])


def _first_element(xp, a):
    return a[..., 0, 0]


def _answers(function, a):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(a)
        except smallmm.LinAlgError as error:
            return (*as_tuple(error.result), error.info)

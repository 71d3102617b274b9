"""How factorizations and solves are called: shapes, dtypes, `out`, other libraries, errors, explanations, and
orders beyond our kernels."""

import copy
import re
import warnings
from collections import defaultdict
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import scipy.linalg
from accuracy import (
    as_tuple,
    assert_accurate_cholesky,
    assert_accurate_determinant,
    assert_accurate_inverse,
    assert_accurate_least_squares,
    assert_accurate_lu,
    assert_accurate_qr,
    assert_accurate_solution,
    assert_same,
    assert_same_bits,
)
from cases import ACCURATELY, FUNCTIONS, OF_MATRICES, WITH_B, diagonals, three_diagonals
from layouts import WRITABLE
from matrices import good, good_definite, normal

import smallmm
from smallmm._base import catalog
from smallmm._base.shapes import PRODUCTS
from smallmm._calls import calls

ONES, EYE = np.ones, np.eye


def definite(rng, shape, dtype):
    """Stacks that every operation takes."""
    x = rng.standard_normal(shape)
    return (x @ x.mT + shape[-1] * np.eye(shape[-1])).astype(dtype)


def test_every_function_is_here():
    here = {function.op for function in FUNCTIONS.values()}
    assert here == {name for name, row in catalog.FUNCTIONS.items() if not PRODUCTS.issuperset(row.gufuncs)}


def test_the_catalogue_has_the_gufuncs_that_are_called(monkeypatch):
    called = defaultdict(set)

    def watched(op, gufunc, *others):
        called[op].add(gufunc.__name__)
        called[f"{op}_ex"].add(gufunc.__name__)  # which calls the other
        return call(op, gufunc, *others)

    call = calls.call
    monkeypatch.setattr(calls, "call", watched)
    other_forms = (
        lambda a, b: smallmm.cho_factor(a, lower=True),
        lambda a, b: smallmm.cholesky_ex(a, upper=True),
        lambda a, b: smallmm.solve_triangular(a, b, unit_diagonal=True),
        lambda a, b: smallmm.eigh_ex(a, UPLO="U"),
        lambda a, b: smallmm.eigh(a, "U", eigvals_only=True),
        lambda a, b: smallmm.eigvalsh_ex(a, UPLO="U"),
        lambda a, b: smallmm.svd_ex(a, full_matrices=False),
        *(
            lambda a, b, options=options, function=function: function(a, b, **options)
            for function in (smallmm.solve, smallmm.linsolve, smallmm.linsolve_ex)
            for options in (
                {"assume_a": "pos"},
                {"assume_a": "pos", "lower": True},
                {"assume_a": "sym"},
                {"assume_a": "sym", "lower": True},
                {"assume_a": "upper triangular"},
                {"assume_a": "lower triangular"},
            )
        ),
        *(
            lambda a, b, word=word, function=function: function(a, b, assume_a=word, precision="mixed")
            for function in (smallmm.linsolve, smallmm.linsolve_ex)
            for word in ("gen", "pos")
        ),
        *(
            lambda a, b, word=word, function=function: function(a, b, assume_a=word, unit_diagonal=True)
            for function in (smallmm.linsolve, smallmm.linsolve_ex)
            for word in ("upper triangular", "lower triangular")
        ),
        *(
            lambda a, b, lower=lower, hermitian=hermitian, function=function: function(
                a, b, lower=lower, hermitian=hermitian
            )
            for lower in (True, False)
            for hermitian in (True, False)
            for function in (
                lambda a, b, **form: smallmm.ldl_factor(a, **form),
                lambda a, b, **form: smallmm.ldl_factor_ex(a, **form),
                lambda a, b, **form: smallmm.ldl_solve(a, range(1, len(a) + 1), b, **form),
            )
        ),
        *(
            lambda a, b, word=word, lower=lower, function=function: function(a, b, assume_a=word, lower=lower)
            for word in ("sym", "her")
            for lower in (True, False)
            for function in (smallmm.solve, smallmm.linsolve, smallmm.linsolve_ex)
        ),
        lambda a, b: smallmm.solve_tridiagonal(*diagonals(a), b, pivot=False),
        lambda a, b: smallmm.solveh_banded(three_diagonals(a)[1:], b, lower=True),
        lambda a, b: smallmm.lu_rcond(*smallmm.lu_factor(a), 1, np.inf),
        lambda a, b: smallmm.backward_error(a, b, b, precision="extra"),
        lambda a, b: smallmm.backward_error(a, b, b, "normwise"),
        lambda a, b: smallmm.backward_error(a, b, b, "normwise", precision="extra"),
        lambda a, b: smallmm.refine(a, *smallmm.lu_factor(a), b, b, precision="extra"),
    )
    for function in (*FUNCTIONS.values(), *other_forms):
        for m, n in ((3, 3), (3, 2), (2, 3)):  # of integers, which the direct way does not take
            with suppress(ValueError):  # of the functions that take square matrices only
                function(np.eye(m, n, dtype=int), np.ones((m, 1), int))
    for op in ("linsolve", "linsolve_ex"):
        called[op].add("solve_mixed_pos")  # within a composition, whose arrays the direct way takes
    for op, row in catalog.FUNCTIONS.items():
        assert called[op] == (set() if PRODUCTS.issuperset(row.gufuncs) else {*row.gufuncs})


def like(results, arrays):
    """Arrays in the form in which results came."""
    return tuple(arrays) if isinstance(results, tuple) else arrays[0]


@pytest.fixture(params=FUNCTIONS)
def name(request):
    return request.param


@pytest.fixture
def function(name):
    return FUNCTIONS[name]


class TestShapes:
    def test_one_matrix_and_nested_stacks(self, function, dtype, rng):
        a, b = definite(rng, (2, 3, 4, 4), dtype), normal(rng, (2, 3, 4, 2), dtype)
        whole = as_tuple(function(a, b))
        for x in whole:
            assert x.shape[:2] == (2, 3)
        one = as_tuple(function(a[1, 2], b[1, 2]))
        assert_same(one, tuple(x[1, 2] for x in whole))
        flat = as_tuple(function(a.reshape(6, 4, 4), b.reshape(6, 4, 2)))
        assert_same(flat, tuple(x.reshape(6, *x.shape[2:]) for x in whole))

    @pytest.mark.parametrize("name", WITH_B)
    def test_broadcasting(self, function, dtype, rng):
        a, b = definite(rng, (3, 1, 4, 4), dtype), normal(rng, (1, 5, 4, 2), dtype)
        together = function(*(np.ascontiguousarray(np.broadcast_to(x, (3, 5, *x.shape[2:]))) for x in (a, b)))
        assert_same(as_tuple(function(a, b)), as_tuple(together))
        assert_same(
            as_tuple(function(a[0, 0], b)),
            tuple(x[:1] for x in as_tuple(function(np.repeat(a[:1], 5, 1), b))),
        )
        assert as_tuple(function(a, b[0, 0]))[0].shape == (3, 1, 4, 2)

    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize("n", [2, 8])
    def test_stacks_that_do_not_merge(self, n, threads, dtype, rng):
        """What a thread computes at a time begins and ends anywhere within a stack."""
        a = definite(rng, (3, 1100, n, n), dtype)[:, :1000]
        with smallmm.threads(threads):
            assert_same_bits(smallmm.inv(a), smallmm.inv(a.copy()))

    @pytest.mark.parametrize("name", WITH_B)
    def test_a_vector_has_one_dimension(self, function, dtype, rng):
        a, b = definite(rng, (4, 4, 4), dtype), normal(rng, (4, 4), dtype)
        vector = as_tuple(function(a, b[0]))[0]
        assert vector.shape == (4, 4)
        assert_same_bits(vector, np.ascontiguousarray(as_tuple(function(a, b[0, :, None]))[0][..., 0]))
        assert_same_bits(
            as_tuple(function(a, b))[0], as_tuple(function(a, b[None]))[0]
        )  # a matrix, not four vectors

    def test_empty(self, function, isa, dtype):
        for shape in [(0, 4, 4), (3, 0, 0), (0, 0, 0), (0, 3, 2, 2)]:
            a, b = np.ones(shape, dtype), np.ones((*shape[:-1], 2), dtype)
            for x in as_tuple(function(a, b)):
                assert x.shape[: len(shape) - 2] == shape[:-2]

    def test_no_elements(self, isa, dtype):
        nothing = np.ones((3, 0, 0), dtype)
        assert_same_bits(smallmm.det(nothing), np.ones(3, dtype))
        assert_same(tuple(smallmm.slogdet(nothing)), (np.ones(3, dtype), np.zeros(3, dtype)))
        assert_same(tuple(smallmm.solve_ex(nothing, nothing)), (nothing, np.zeros(3, np.int32)))
        assert_same(tuple(smallmm.inv_ex(nothing)), (nothing, np.zeros(3, np.int32)))
        assert_same(tuple(smallmm.lu_factor(nothing)), (nothing, np.zeros((3, 0), np.int32)))
        assert_same_bits(smallmm.cholesky(nothing), nothing)
        assert smallmm.solve(nothing, np.ones((0, 5), dtype)).shape == (3, 0, 5)

    def test_no_rows_or_columns(self, isa, dtype):
        for m, n in [(0, 3), (3, 0), (2000, 0), (0, 2000)]:
            a = np.ones((2, m, n), dtype)
            q, r = smallmm.qr(a)
            assert (q.shape, r.shape) == ((2, m, 0), (2, 0, n))
            assert smallmm.qr(a, mode="r").shape == (2, 0, n)
            assert [x.shape for x in smallmm.qr(a, mode="raw")] == [(2, n, m), (2, 0)]
            b = np.ones((2, m, 2), dtype)
            x, norms, rank = smallmm.lstsq(a, b)
            assert_same_bits(x, np.zeros((2, n, 2), dtype))
            assert norms.shape == (2, 2)
            np.testing.assert_allclose(norms, np.sqrt(m), rtol=1e-5)
            assert_same_bits(rank, np.zeros(2, np.int32))
        q, r = smallmm.qr(np.ones((2, 3, 0), dtype), mode="complete")
        assert_same_bits(q, np.broadcast_to(np.eye(3, dtype=dtype), (2, 3, 3)).copy())
        assert r.shape == (2, 3, 0)

    def test_no_right_hand_sides(self, isa, dtype, rng):
        a = definite(rng, (3, 4, 4), dtype)
        for name in WITH_B:
            x = as_tuple(FUNCTIONS[name](a, np.ones((3, 4, 0), dtype)))[0]
            assert x.shape == (3, 4, 0)
        assert smallmm.solve_ex(np.zeros((2, 4, 4), dtype), np.ones((4, 0), dtype)).info.tolist() == [1, 1]


class TestDtypes:
    @pytest.mark.parametrize(
        ("given", "computed", "own"),
        [(x, "d", "d") for x in "?bQd"] + [("e", "f", "e"), ("f", "f", "f"), (">f4", "f", "f")],
    )
    def test_of_results(self, function, given, computed, own):
        a, b = EYE(3).astype(given), ONES((3, 2)).astype(given)
        expected = as_tuple(function(a.astype(computed), b.astype(computed)))
        numbers = [x for x in expected if x.dtype.kind in "fc"]
        assert numbers
        assert all(x.dtype == (computed if x.dtype.kind == "f" else computed.upper()) for x in numbers)
        assert_same(
            as_tuple(function(a, b)), tuple(x.astype(own) if x.dtype == computed else x for x in expected)
        )
        assert all(x.dtype == np.int32 for x in expected if x.dtype.kind not in "fc")

    @pytest.mark.parametrize(("pair", "computed"), [("fd", "d"), ("fi", "d"), ("fb", "f"), ("ef", "f")])
    def test_mixed(self, pair, computed):
        a, b = EYE(2).astype(pair[0]), ONES((2, 1)).astype(pair[1])
        assert smallmm.solve(a, b).dtype == computed
        assert smallmm.solve(a.astype(pair[1]), b.astype(pair[0])).dtype == computed
        assert smallmm.lstsq(a, b).x.dtype == computed

    def test_wider_pivots(self, dtype):
        lu, pivots = smallmm.lu_factor(np.array([[1, 2], [3, 4]], dtype))
        x = smallmm.lu_solve((lu, pivots), np.ones(2, dtype))
        assert_same_bits(smallmm.lu_solve((lu, pivots.astype(np.int64)), np.ones(2, dtype)), x)
        assert x.dtype == dtype

    def test_lists(self):
        np.testing.assert_allclose(smallmm.solve([[2, 0], [0, 4]], [2, 8]), [1, 2])
        assert smallmm.det([[2, 0], [0, 4]]) == 8


class TestOut:
    def test_is_what_is_returned(self, function, dtype, rng):
        a, b = definite(rng, (5, 4, 4), dtype), normal(rng, (5, 4, 2), dtype)
        results = function(a, b)
        for place in WRITABLE.values():
            outs = [
                place(np.full((*x.shape, *(1,) * (3 - x.ndim)), -7, x.dtype))[(..., *(0,) * (3 - x.ndim))]
                for x in as_tuple(results)
            ]
            returned = as_tuple(function(a, b, out=like(results, outs)))
            for x, out, expected in zip(returned, outs, as_tuple(results), strict=True):
                assert np.shares_memory(x, out)
                assert_same_bits(np.ascontiguousarray(out), np.ascontiguousarray(expected))

    def test_some_of_several(self, rng):
        a = definite(rng, (5, 4, 4), np.float64)
        pivots = np.empty((5, 4), np.int32)
        lu, same = smallmm.lu_factor(a, out=(None, pivots))
        assert same is pivots
        assert_same_bits(lu, smallmm.lu_factor(a).LU)

    @pytest.mark.parametrize("name", ["lu_factor", "inv", "cholesky", "qr", "solve", "cho_solve", "lstsq"])
    @pytest.mark.parametrize("n", [1, 3, 8, 33])
    def test_may_overlap_the_input(self, function, isa, dtype, n, rng):
        x = definite(rng, (21, n, n), dtype)
        for view, out in [(x, x), (x[:-1], x[1:]), (x, x.mT), (x, x[::-1])]:
            a, target = view.copy(), None
            expected = function(a, a)
            memory = x.copy()
            as_view = memory[:-1] if view.shape != x.shape else memory
            target = {True: memory[1:]}.get(view.shape != x.shape)
            if target is None:
                target = memory if out is x else memory.mT if out.strides == x.mT.strides else memory[::-1]
            outs = like(expected, [target, *(None,) * (len(as_tuple(expected)) - 1)])
            assert_same(as_tuple(function(as_view, as_view, out=outs)), as_tuple(expected))

    @pytest.mark.parametrize("n", [2, 5, 33])
    def test_may_overlap_through_an_outer_dimension(self, n, dtype, rng):
        """Of whose indices no two overlap by themselves."""
        buffer = definite(rng, (8, 6, n, n), dtype)
        a, out = buffer[:4, :4], buffer[1:5, :4]
        expected = smallmm.inv(a.copy())
        smallmm.inv(a, out=out)
        assert_same_bits(out.copy(), expected)

    @pytest.mark.parametrize("name", [*FUNCTIONS, *ACCURATELY])
    def test_refused_before_anything_is_written(self, name, rng):
        function = (FUNCTIONS | ACCURATELY)[name]
        a, b = definite(rng, (5, 4, 4), np.float64), normal(rng, (5, 4, 2), np.float64)
        results = as_tuple(function(a, b))

        def wrong(x):
            read_only = np.full_like(x, -7)
            read_only.flags.writeable = False
            of_bool = np.full(x.shape, True)
            return [np.full((9, *x.shape[1:]), -7, x.dtype), read_only, [[-7]], of_bool]

        for i, x in enumerate(results):
            for bad in wrong(x) if x is not None else ():
                outs = [None if y is None else np.full_like(y, -7) for y in results]
                outs[i] = bad
                before = copy.deepcopy(outs)
                with pytest.raises((TypeError, ValueError), match=rf"{name.partition(',')[0]}.*: out"):
                    function(a, b, out=like(results if len(results) > 1 else results[0], outs))
                for y, z in zip(outs, before, strict=True):
                    np.testing.assert_array_equal(y, z)

    @pytest.mark.parametrize("casts", [False, True])
    def test_pivots_are_refused_before_anything_is_written(self, casts, rng):
        a, b = definite(rng, (3, 5, 4, 4), np.float64), normal(rng, (3, 1, 4, 2), np.float64)
        lu, pivots = smallmm.lu_factor(a)
        pivots[2, 4, 1] = 4
        out = np.full((3, 5, 4, 2), -7.0, np.float32 if casts else np.float64)
        with pytest.raises(ValueError, match=r"lu_solve: pivots has 4 at step 1 .* index \(2, 4\)"):
            smallmm.lu_solve((lu, pivots), b, out=out)
        assert (out == -7).all()

    def test_no_elements_of_many_matrices(self):
        """Nothing goes through them one by one."""
        many = 2**19
        c, b = np.ones((many, 1, 0, 0)), np.ones((1, many, 0, 2))
        out = np.ones((2**16, many, many, 0, 2))
        assert smallmm.cho_solve((c, True), b, out=out) is out
        with pytest.raises(ValueError, match=r"cho_solve: out has shape"):
            smallmm.cho_solve((c, True), b, out=out[:, 1:])

    def test_surroundings_stay(self, isa, dtype, rng):
        for n in (1, 3, 4, 8, 13, 17, 32):
            a, b = definite(rng, (10, n, n), dtype), normal(rng, (10, n, 3), dtype)
            for function in (
                FUNCTIONS["inv"],
                FUNCTIONS["solve"],
                FUNCTIONS["cholesky"],
                FUNCTIONS["lu_solve"],
            ):
                k = function(a, b).shape[-1]
                frame = np.full((20, n + 2, k + 3), 7, dtype)
                out = frame[::2, 1:-1, 2:-1]
                function(a, b, out=out)
                out[...] = 7
                assert (frame == 7).all()

    def test_of_a_vector(self, dtype, rng):
        a, b = definite(rng, (5, 4, 4), dtype), normal(rng, (4,), dtype)
        out = np.empty((5, 4), dtype)
        assert smallmm.solve(a, b, out=out) is out
        assert_same_bits(out, smallmm.solve(a, b))

    def test_of_another_dtype(self, rng):
        a = definite(rng, (5, 3, 3), np.float64)
        out = np.empty((5, 3, 3), np.float32)
        smallmm.inv(a, out=out)
        assert_same_bits(out, smallmm.inv(a).astype(np.float32))


def test_inputs_may_be_read_only(function, rng):
    a, b = definite(rng, (5, 4, 4), np.float64), normal(rng, (5, 4, 2), np.float64)
    expected = as_tuple(function(a, b))
    before = a.copy(), b.copy()
    a.flags.writeable = b.flags.writeable = False
    assert_same(as_tuple(function(a, b)), expected)
    assert_same((a, b), before)


def test_no_warnings(function):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bad in (0, np.nan, np.inf, 1e308, 1e-310):
            with suppress(smallmm.LinAlgError):
                function(np.full((3, 4, 4), bad), np.full((3, 4, 1), bad))


def test_subclasses():
    class Stack(np.ndarray):
        pass

    def types(result):
        return [type(x) for x in as_tuple(result)]

    for x in (EYE(3).view(Stack), EYE(3)[None].view(Stack), EYE(33).view(Stack)):
        for f in (
            "inv", "det", "slogdet", "qr", "cholesky", "svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals",
            "pinv", "cond", "matrix_norm", "matrix_rank",
        ):  # fmt: skip
            assert types(getattr(smallmm, f)(x)) == types(getattr(np.linalg, f)(x))
        assert types(smallmm.solve(x, x)) == [Stack]
        assert types(smallmm.lstsq(x, x)[:2]) == [Stack, Stack]
        assert types(smallmm.matrix_power(x, 3)) == [Stack]
        out = np.empty(x.shape)
        assert smallmm.inv(x, out=out) is out


class TestPandas:
    @pytest.fixture
    def pd(self):
        return pytest.importorskip("pandas")

    @pytest.mark.parametrize("name", OF_MATRICES)
    def test_values(self, name, function, pd, rng):
        """As in numpy.linalg, whatever the labels."""
        a, b = definite(rng, (3, 3), np.float64), normal(rng, (3, 2), np.float64)
        frame = pd.DataFrame(a, columns=["dtype", "x", "y"])
        series = pd.Series(b[:, 0], index=[2, 1, 0])
        for x, y in ((b, pd.DataFrame(b)), (b[:, 0], series), (b[:, 0], series.array)):
            for results in (function(frame, y), function(a, y)):
                expected = function(a, x)
                assert_same(results, expected)
                assert [*map(type, as_tuple(results))] == [*map(type, as_tuple(expected))]

    def test_factors(self, pd, rng):
        lu, pivots = smallmm.lu_factor(definite(rng, (3, 3), np.float64))
        x = smallmm.lu_solve((pd.DataFrame(lu), pd.Series(pivots)), pd.Series(lu[0]))
        assert_same_bits(x, smallmm.lu_solve((lu, pivots), lu[0]))

    def test_out(self, pd):
        out = np.empty((3, 3))
        assert smallmm.inv(pd.DataFrame(EYE(3)), out=out) is out
        assert (out == EYE(3)).all()
        with pytest.raises(TypeError, match=r"inv: out is a pandas.*DataFrame; expected a numpy.ndarray"):
            smallmm.inv(EYE(3), out=pd.DataFrame(EYE(3)))

    def test_errors(self, pd):
        with pytest.raises(ValueError, match=r"solve: b has shape \(2,\); expected \(..., 3\)"):
            smallmm.solve(pd.DataFrame(EYE(3)), pd.Series([1.0, 2.0]))
        with pytest.raises(TypeError, match=f"solve: b has dtype object; {DTYPES_EXPECTED}"):
            smallmm.solve(EYE(2), pd.Series(["p", "q"]))


class TestTorch:
    @pytest.mark.parametrize("name", OF_MATRICES)
    def test_same_library_back(self, function, torch, rng):
        a, b = definite(rng, (5, 4, 4), np.float32), normal(rng, (5, 4, 2), np.float32)
        expected = function(a, b)
        results = function(torch.from_numpy(a), torch.from_numpy(b))
        assert type(results) is type(expected) or isinstance(results, torch.Tensor)
        for x, y in zip(as_tuple(results), as_tuple(expected), strict=True):
            assert isinstance(x, torch.Tensor)
            assert_same_bits(np.ascontiguousarray(x.numpy()), np.ascontiguousarray(y))

    @pytest.mark.parametrize("name", OF_MATRICES)
    def test_out(self, function, torch, rng):
        a, b = (
            torch.from_numpy(definite(rng, (5, 4, 4), np.float64)),
            torch.ones(5, 4, 2, dtype=torch.float64),
        )
        expected = function(a, b)
        outs = [torch.full_like(x, -7) for x in as_tuple(expected)]
        results = as_tuple(function(a, b, out=like(expected, outs)))
        for x, out, y in zip(results, outs, as_tuple(expected), strict=True):
            assert x.data_ptr() == out.data_ptr()
            assert torch.equal(out, y)

    def test_one_matrix(self, torch):
        x = smallmm.det(torch.eye(3))
        assert isinstance(x, torch.Tensor)
        assert x.shape == ()
        assert smallmm.solve(torch.eye(3), torch.ones(3)).shape == (3,)

    def test_error_has_its_tensors(self, torch):
        with pytest.raises(
            smallmm.LinAlgError, match=r"inv: 1 of 2 matrices is singular, .* \(1,\)"
        ) as caught:
            smallmm.inv(torch.stack([torch.eye(2), torch.ones(2, 2)]))
        assert caught.value.info.tolist() == [0, 2]
        assert torch.equal(caught.value.result[0], torch.eye(2))

    def test_mixing_with_what_is_no_array(self, torch):
        with pytest.raises(TypeError, match=r"solve: a is a list but b is a torch.Tensor"):
            smallmm.solve([[1], [1, 2]], torch.eye(2))

    def test_mixing(self, torch):
        with pytest.raises(TypeError, match=r"solve: b is a numpy.ndarray but a is a torch.Tensor"):
            smallmm.solve(torch.eye(2), ONES((2, 1)))

    def test_beyond_our_order(self, torch, rng):
        a = torch.from_numpy(definite(rng, (2, 140, 140), np.float64))
        x = smallmm.inv(a)
        assert isinstance(x, torch.Tensor)
        assert torch.allclose(x @ a, torch.eye(140, dtype=torch.float64))


class TestJax:
    @pytest.mark.parametrize("name", OF_MATRICES)
    def test_same_library_back(self, function, jax, rng):
        a, b = definite(rng, (5, 4, 4), np.float32), normal(rng, (5, 4, 2), np.float32)
        expected = function(a, b)
        results = function(jax.numpy.asarray(a), jax.numpy.asarray(b))
        for x, y in zip(as_tuple(results), as_tuple(expected), strict=True):
            assert isinstance(x, jax.Array)
            assert_same_bits(np.ascontiguousarray(x), np.ascontiguousarray(y))

    def test_beyond_our_order(self, jax, rng):
        a = jax.numpy.asarray(definite(rng, (2, 140, 140), np.float32))
        x = smallmm.inv(a)
        assert isinstance(x, jax.Array)
        assert jax.numpy.allclose(x @ a, jax.numpy.eye(140), atol=1e-4)

    def test_error_has_its_arrays(self, jax):
        with pytest.raises(
            smallmm.LinAlgError, match=r"inv: 1 of 2 matrices is singular, .* \(1,\)"
        ) as caught:
            smallmm.inv(jax.numpy.stack([jax.numpy.eye(2), jax.numpy.ones((2, 2))]))
        assert isinstance(caught.value.result, jax.Array)
        assert caught.value.info.tolist() == [0, 2]

    def test_out_is_refused(self, jax):
        """Its arrays are immutable."""
        x = jax.numpy.eye(2)
        with pytest.raises(ValueError, match=r"inv: out is read-only"):
            smallmm.inv(x, out=x)

    def test_singular_matrices_do_not_stop_a_compiled_function(self, jax):
        assert np.isnan(jax.jit(smallmm.inv)(jax.numpy.zeros((2, 2)))).all()


class TestDask:
    # The type of sqrtm's results depends on eigenvalues, if they are known
    @pytest.mark.parametrize("name", [name for name in OF_MATRICES if not name.startswith("sqrtm")])
    def test_stays_lazy(self, name, function, rng):
        da = pytest.importorskip("dask.array")
        if name == "lu_solve":
            pytest.importorskip("dask.array")
        a, b = definite(rng, (20, 4, 4), np.float64), normal(rng, (20, 4, 2), np.float64)
        results = function(da.from_array(a, chunks=(7, 4, 4)), da.from_array(b, chunks=(7, 4, 2)))
        for x, y in zip(as_tuple(results), as_tuple(function(a, b)), strict=True):
            assert isinstance(x, da.Array)
            assert x.numblocks[0] == 3
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            assert_same_bits(np.ascontiguousarray(x.compute()), np.ascontiguousarray(y))

    def test_vector_and_mixture(self, rng):
        da = pytest.importorskip("dask.array")
        a, b = definite(rng, (20, 4, 4), np.float64), normal(rng, (4,), np.float64)
        lazy = smallmm.solve(da.from_array(a, chunks=(7, 4, 4)), b)
        assert isinstance(lazy, da.Array)
        assert_same_bits(lazy.compute(), smallmm.solve(a, b))

    def test_failures_come_when_computed(self):
        da = pytest.importorskip("dask.array")
        a = np.stack([EYE(2)] * 5 + [ONES((2, 2))] * 2)
        lazy = smallmm.inv(da.from_array(a, chunks=(4, 2, 2)))
        with pytest.raises(
            smallmm.LinAlgError, match=r"inv: 2 of 3 matrices are singular, the first at index \(1,\)"
        ):
            lazy.compute()
        lazy = smallmm.lu_factor(da.from_array(a, chunks=(4, 2, 2))).pivots
        with pytest.raises(smallmm.LinAlgError, match=r"lu_factor: 2 of 3"):
            lazy.compute()
        info = smallmm.inv_ex(da.from_array(a, chunks=(4, 2, 2))).info
        assert info.compute().tolist() == [0] * 5 + [2] * 2

    def test_beyond_our_order(self, rng):
        da = pytest.importorskip("dask.array")
        a = definite(rng, (4, 40, 40), np.float64)
        assert_same_bits(smallmm.inv(da.from_array(a, chunks=(2, 40, 40))).compute(), smallmm.inv(a))

    def test_errors_name_the_argument(self):
        da = pytest.importorskip("dask.array")
        for message, call in {
            r"inv: a has shape \(3,\); expected at least 2": lambda: smallmm.inv(da.ones(3)),
            r"det: a has shape \(4, 3\); expected square": lambda: smallmm.det(da.ones((4, 3))),
            r"matmul: x1 has shape \(\)": lambda: smallmm.matmul(da.ones(()), EYE(3)),
            r"solve: b has shape \(5, 1\)": lambda: smallmm.solve(EYE(3), da.ones((5, 1))),
            r"solve: b has shape \(4, 3, 1\), whose batch": lambda: smallmm.solve(
                da.ones((5, 3, 3)), da.ones((4, 3, 1))
            ),
            r"solve: b is a list that NumPy": lambda: smallmm.solve(da.ones((2, 2)), [[1], [1, 2]]),
        }.items():
            with pytest.raises(ValueError, match=message):
                call()
        parts = r"inv: a has chunks \(2, 2\) along dimension 1; .* call a.rechunk\({-2: -1, -1: -1}\)"
        with pytest.raises(ValueError, match=parts):
            smallmm.inv(da.ones((5, 4, 4), chunks=2))

    def test_out(self):
        da = pytest.importorskip("dask.array")
        with pytest.raises(TypeError, match=r"inv: out is given, but a call of Dask arrays writes to none"):
            smallmm.inv(da.ones((3, 2, 2)), out=np.empty((3, 2, 2)))


class OnDevice:
    """As little of a device array as it takes to recognise one."""

    shape = (2, 2)
    ndim = 2
    dtype = np.dtype(np.float64)

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self):
        raise AssertionError("moved off the device")


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in WITH_B
        if not name.startswith(("lu_solve", "ldl_solve"))  # whose factors are computed first
        and "unit" not in name
        and "transposed" not in name
        and name in OF_MATRICES
        and not name.endswith(("auto", "banded", "tridiagonal"))
    ],
)
def test_device_arrays_do_not_move(function):
    with pytest.raises(
        TypeError, match=r"is a numpy.ndarray on the host but \w+ is a .*OnDevice on a device"
    ):
        function(OnDevice(), np.ones((2, 2)))


REAL_EXPECTED = "expected float16, bfloat16, float32, float64, an integer type or bool"
DTYPES_EXPECTED = REAL_EXPECTED.replace("float64", "float64, complex64, complex128")
ERRORS = [
    (lambda: smallmm.solve(ONES((10, 3, 4)), ONES((10, 4, 1))), ValueError,
     "solve: a has shape (10, 3, 4); expected square matrices, (..., n, n)"),
    (lambda: smallmm.solve(ONES((10, 4, 4)), ONES((10, 4))), ValueError,
     "solve: b has shape (10, 4); expected (..., 4, k) to match a of shape (10, 4, 4); "
     "a stack of vectors is a stack of matrices of one column, b[..., None]"),
    (lambda: smallmm.solve(ONES((10, 4, 4)), ONES(3)), ValueError,
     "solve: b has shape (3,); expected (..., 4) to match a of shape (10, 4, 4)"),
    (lambda: smallmm.solve(ONES((10, 4, 4)), ONES((9, 4, 1))), ValueError,
     "solve: b has shape (9, 4, 1), whose batch dimensions (9,) do not broadcast against (10,) of a"),
    (lambda: smallmm.solve(ONES((4, 4)), 3), ValueError,
     "solve: b has shape (); expected at least 1 dimension"),
    (lambda: smallmm.inv(ONES(4)), ValueError,
     "inv: a has shape (4,); expected at least 2 dimensions, (..., n, n)"),
    (lambda: smallmm.inv([[1, 2], [3]]), ValueError, "inv: a is a list that NumPy cannot make an array of"),
    (lambda: smallmm.det(ONES((2, 3))), ValueError, "det: a has shape (2, 3); expected square matrices"),
    (lambda: smallmm.qr(ONES(3)), ValueError,
     "qr: a has shape (3,); expected at least 2 dimensions, (..., m, n)"),
    (lambda: smallmm.qr(EYE(3), mode="full"), ValueError,
     "qr: mode is 'full'; expected 'reduced', 'economic', 'complete', 'r' or 'raw' (SciPy's 'full'"),
    (lambda: smallmm.qr(EYE(3), mode=[]), ValueError, "qr: mode is []; expected 'reduced'"),
    (lambda: smallmm.qr(EYE(3), EYE(3)), ValueError, "qr: mode is a ndarray of shape (3, 3); expected"),
    (lambda: smallmm.lstsq(ONES((4, 2)), ONES((5, 1))), ValueError,
     "lstsq: b has shape (5, 1); expected (..., 4, k) to match a of shape (4, 2)"),
    (lambda: smallmm.lstsq(ONES((4, 2)), ONES(4), 0.1, rtol=0.1), ValueError,
     "lstsq: rcond and rtol are both given; expected one of them"),
    (lambda: smallmm.lstsq(ONES((4, 2)), ONES(4), rcond=-1), ValueError,
     "lstsq: rtol is -1; expected a number >= 0"),
    (lambda: smallmm.lstsq(ONES((4, 2)), ONES(4), rtol=1j), TypeError, "lstsq: rtol has dtype complex128"),
    (lambda: smallmm.lstsq(ONES((4, 2)), ONES(4), np.array("N")), TypeError, "lstsq: rtol has dtype <U1"),
    (lambda: smallmm.lu_solve((EYE(3), [0, 1]), ONES(3)), ValueError,
     "lu_solve: pivots has shape (2,); expected (..., 3) to match LU of shape (3, 3)"),
    (lambda: smallmm.lu_solve(EYE(3), ONES(3)), TypeError,
     "lu_solve: lu_and_piv is a ndarray; expected a tuple (LU, pivots)"),
    (lambda: smallmm.lu_solve(smallmm.lu_factor_ex(EYE(3)), ONES(3)), TypeError,
     "lu_solve: lu_and_piv is a LUExResult of 3; expected a tuple (LU, pivots)"),
    (lambda: smallmm.lu_solve((EYE(3), [0.0, 1.0, 2.0]), ONES(3)), TypeError,
     "lu_solve: pivots has dtype float64; expected an integer type"),
    (lambda: smallmm.lu_solve(smallmm.lu_factor(EYE(3)), ONES(3), trans=3), ValueError,
     "lu_solve: trans is 3; expected 0, 1, 2, 'N', 'T' or 'C'"),
    (lambda: smallmm.lu_solve(smallmm.lu_factor(EYE(3)), ONES(3), trans=[]), ValueError,
     "lu_solve: trans is []"),
    (lambda: smallmm.cho_solve((EYE(3), "U"), ONES(3)), TypeError,
     "cho_solve: lower is 'U'; expected True or False"),
    (lambda: smallmm.cholesky(EYE(3), upper=ONES(2)), TypeError,
     "cholesky: upper is a ndarray of shape (2,); expected True or False"),
    (lambda: smallmm.cholesky(EYE(3), upper=True, lower=True), ValueError,
     "cholesky: lower and upper are both True; expected one of them"),
    (lambda: smallmm.cholesky(EYE(3), lower="L"), TypeError, "cholesky: lower is 'L'; expected True"),
    (lambda: smallmm.solve_triangular(EYE(3), ONES(3), lower=True, upper=True), ValueError,
     "solve_triangular: lower and upper are both True; expected one of them"),
    (lambda: smallmm.solve(EYE(3), ONES((2, 4)), left=False), ValueError,
     "solve with left=False, of the transposes: b has shape (4, 2); expected (..., 3, k) to match a"),
    (lambda: smallmm.solve(EYE(3), ONES((2, 3)), left="no"), TypeError, "solve: left is 'no'"),
    (lambda: smallmm.solve(EYE(3), ONES((2, 3)), left=False, out=[[0] * 3] * 2), TypeError,
     "out is a list; expected a numpy.ndarray"),
    (lambda: smallmm.lu_solve(smallmm.lu_factor(ONES((3, 2)) + EYE(3)[:, :2]), ONES(3)), ValueError,
     "lu_solve: LU has shape (3, 2); expected square matrices"),
    (lambda: smallmm.lu_factor(EYE(5)[:, :3], out=(EYE(5), None)), ValueError,
     "lu_factor: out[0] has shape (5, 5); expected (5, 3)"),
    (lambda: smallmm.lu_factor(EYE(3)[0]), ValueError, "lu_factor: a has shape (3,); expected at least 2"),
    (lambda: smallmm.cholesky_ex(EYE(3), upper=None), TypeError, "cholesky_ex: upper is None"),
    (lambda: smallmm.solve_triangular(EYE(3), ONES(3), lower={}), TypeError, "solve_triangular: lower is {}"),
    (lambda: smallmm.solve_triangular(EYE(3), ONES(3), unit_diagonal="no"), TypeError,
     "solve_triangular: unit_diagonal is 'no'"),
    (lambda: smallmm.cho_solve(EYE(3), ONES(3)), TypeError,
     "cho_solve: c_and_lower is a ndarray; expected a tuple (c, lower)"),
    (lambda: smallmm.solve_triangular(EYE(3), ONES(3), trans="x"), ValueError,
     "solve_triangular: trans is 'x'"),
    (lambda: smallmm.inv(EYE(2, dtype="G")), TypeError, f"inv: a has dtype complex256; {DTYPES_EXPECTED}"),
    (lambda: smallmm.lu_rcond(EYE(2), [0, 1], 1j), TypeError,
     f"lu_rcond: norm_a has dtype complex128; {REAL_EXPECTED}"),
    (lambda: smallmm.det("text"), TypeError, f"det: a has dtype <U4; {DTYPES_EXPECTED}"),
    (lambda: smallmm.qr(None), TypeError, f"qr: a has dtype object; {DTYPES_EXPECTED}"),
    (lambda: smallmm.inv(EYE(2), out=ONES((2, 3))), ValueError, "inv: out has shape (2, 3); expected (2, 2)"),
    *((partial(getattr(smallmm, op), [[1.0, 2], [3]]), ValueError, f"{op}: {name} is a list that NumPy can")
      for op, name in (("norm", "x"), ("vector_norm", "x"), ("matrix_norm", "x"), ("cond", "x"),
                       ("matrix_rank", "A"))),
    (lambda: smallmm.solve_banded((1, 1), [[1.0, 2], [3]], [1, 2]), ValueError,
     "solve_banded: ab is a list that NumPy cannot"),
    (lambda: smallmm.solve_tridiagonal([1.0], [[1.0, 2], [3]], [1], [1, 2]), ValueError,
     "solve_tridiagonal: d is a list that NumPy cannot"),
    (lambda: smallmm.outer(ONES(3), ONES(2), out=ONES((2, 3))), ValueError,
     "outer: out has shape (2, 3); expected (3, 2)"),
    (lambda: smallmm.vecdot(ONES(3, object), ONES(3)), TypeError, "vecdot: x1 has dtype object"),
    (lambda: smallmm.trace(ONES(3), dtype=float), ValueError, "trace: x has shape (3,); expected at least 2"),
    (lambda: smallmm.schur(EYE(2), EYE(2)), ValueError, "schur: output is a ndarray of shape (2, 2)"),
    (lambda: smallmm.multi_dot(3), TypeError, "multi_dot: arrays is 3; expected a sequence"),
    (lambda: smallmm.kron_apply(3, ONES(3)), TypeError, "kron_apply: factors is 3; expected a sequence"),
    (lambda: smallmm.tensorsolve(EYE(2), ONES(2), 1), TypeError, "tensorsolve: axes is 1; expected a"),
    (lambda: smallmm.inv(EYE(2), out=ONES((2, 2), int)), TypeError,
     "inv: out has dtype int64; the result is float64, and casting is 'same_kind'"),
    (lambda: smallmm.inv(EYE(2), out=np.broadcast_to(1.0, (2, 2))), ValueError, "inv: out is read-only"),
    (lambda: smallmm.inv(EYE(2), out=[[0, 0], [0, 0]]), TypeError,
     "inv: out is a list; expected a numpy.ndarray"),
    (lambda: smallmm.lu_factor(EYE(2), out=EYE(2)), TypeError,
     "lu_factor: out is a ndarray; expected a tuple (LU, pivots)"),
    (lambda: smallmm.lu_factor_ex(EYE(2), out=(EYE(2), None)), TypeError,
     "lu_factor_ex: out is a tuple of 2; expected a tuple (LU, pivots, info)"),
    (lambda: smallmm.lu_factor(EYE(2), out=(None, ONES(3, np.int32))), ValueError,
     "lu_factor: out[1] has shape (3,); expected (2,)"),
    (lambda: smallmm.slogdet(EYE(2), out=(None, np.zeros((), int))), TypeError,
     "slogdet: out[1] has dtype int64"),
    (lambda: smallmm.slogdet(EYE(2), out=(np.empty((1, 1)), np.empty((3, 1)))), ValueError,
     "slogdet: out[1] has shape (3, 1); expected (1, 1)"),
    (lambda: smallmm.solve_ex(EYE(2), EYE(2), out=(np.empty((3, 2, 2)), np.empty(4, int))), ValueError,
     "solve_ex: out[1] has shape (4,); expected (3,)"),
    (lambda: smallmm.qr(EYE(2), "raw", out=([[0, 0], [0, 0]], None)), TypeError,
     "qr: out[0] is a list; expected a numpy.ndarray"),
    (lambda: smallmm.qr(ONES((5, 3, 2)), "raw", out=(ONES((5, 3, 2)), None)), ValueError,
     "qr: out[0] has shape (5, 3, 2); expected (5, 2, 3)"),
    (lambda: smallmm.qr(ONES((3, 2)), "raw", out=(ONES(3), None)), ValueError,
     "qr: out[0] has shape (3,); expected (2, 3)"),
    (lambda: smallmm.solve_triangular(ONES((2, 3)), ONES(3), trans=1), ValueError,
     "solve_triangular: a has shape (2, 3); expected square matrices"),
    (lambda: smallmm.solve_triangular([[1], [1, 2]], ONES(2), trans=1), ValueError,
     "solve_triangular: a is a list that NumPy cannot make an array of"),
    (lambda: smallmm.lstsq(EYE(2), ONES(2), 10**400), ValueError,
     "lstsq: rtol is above 1.797"),
    (lambda: smallmm.solve(EYE(2), 10**400), TypeError, f"solve: b has dtype object; {DTYPES_EXPECTED}"),
]  # fmt: skip


@pytest.mark.parametrize(("make_call", "error", "message"), ERRORS, ids=[message for *_, message in ERRORS])
def test_errors_name_the_argument(make_call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make_call()


def test_failed_call_leaves_out_alone():
    out = np.full((10, 4, 2), 7.0)
    with pytest.raises(ValueError, match="b has shape"):
        smallmm.solve(ONES((10, 4, 4)), ONES((10, 3, 2)), out=out)
    assert (out == 7).all()


def test_too_large_a_result_is_a_memory_error(function):
    a = np.broadcast_to(np.float64(1), (2**50, 4, 4))
    with pytest.raises(MemoryError):
        function(a, a)


class TestPivots:
    """Of which pivot i must be one of the rows i to n - 1, as those of lu_factor are."""

    @pytest.mark.parametrize("trans", [0, 1])
    @pytest.mark.parametrize("pivot", [-1, 1, 4, 2**31 - 1, -(2**31)])
    def test_out_of_range(self, isa, dtype, pivot, trans):
        pivots = np.array([0, 1, pivot, 3], np.int32)
        factors = np.eye(4, dtype=dtype)[None].repeat(20, 0)
        said = (
            rf"lu_solve: pivots has {pivot} at step 2; expected one of the rows 2 to 3: pivots count from 0"
        )
        with pytest.raises(ValueError, match=said):
            smallmm.lu_solve((factors, pivots), np.ones((4, 1), dtype), trans)
        many = np.arange(4, dtype=np.int32)[None].repeat(20, 0)
        many[17] = pivots
        said = said.replace("2;", r"2 of the matrix at index \(17,\);", 1)
        with pytest.raises(ValueError, match=said):
            smallmm.lu_solve((factors, many), np.ones((20, 4, 1), dtype)[::-1, ::-1], trans)

    def test_in_range(self, isa, dtype):
        """A zero of U is no error, and exchanges are done in their order."""
        lu, b = np.stack([EYE(3), EYE(3)]).astype(dtype), np.arange(3, dtype=dtype)[:, None]
        lu[1, 1, 1] = 0
        for pivots, expected in (([0, 1, 2], [0, 1, 2]), ([2, 2, 2], [2, 0, 1]), ([1, 2, 2], [1, 2, 0])):
            x = smallmm.lu_solve((lu, np.array(pivots, np.int32)), b)
            assert x[0, :, 0].tolist() == expected
            assert np.isnan(x[1]).all()

    @pytest.mark.parametrize("n", [4, 33, 129])
    def test_from_one(self, n):
        """PyTorch's. SciPy's LAPACK takes orders above 128, and would leave the matrix with them."""
        with pytest.raises(ValueError, match=f"has {n} at step {n - 1}.*PyTorch's count from 1: subtract 1"):
            smallmm.lu_solve((EYE(n), np.arange(n, dtype=np.int32) + 1), ONES(n))

    @pytest.mark.parametrize("wide", ["i8", "u8", "u4", ">i8", ">i4"])
    def test_wider(self, dtype, wide):
        """They are not taken modulo 2^32."""
        lu, pivots = smallmm.lu_factor(np.array([[1, 2], [3, 4]], dtype))
        x = smallmm.lu_solve((lu, pivots), np.ones(2, dtype))
        pivots = pivots.astype(wide)
        assert_same_bits(smallmm.lu_solve((lu, pivots), np.ones(2, dtype)), x)
        assert_same_bits(smallmm.lu_solve((lu, pivots.tolist()), np.ones(2, dtype)), x)
        for far in (2**32, -(2**32), 2**63 + 1, 2**31):
            if np.iinfo(wide).min <= 1 + far <= np.iinfo(wide).max:
                pivots[0] = 1 + far
                with pytest.raises(ValueError, match=f"lu_solve: pivots has {1 + far} at step 0"):
                    smallmm.lu_solve((lu, pivots), np.ones(2, dtype))

    def test_floats(self):
        for n, batch in ((0, ()), (0, (3,)), (4, (0,))):
            x = smallmm.lu_solve((np.zeros((*batch, n, n)), np.zeros((*batch, n))), np.zeros((*batch, n, 2)))
            assert x.shape == (*batch, n, 2)
        with pytest.raises(TypeError, match="lu_solve: pivots has dtype float64; expected an integer type"):
            smallmm.lu_solve((EYE(2), [0.0, 1.0]), ONES(2))

    def test_lazily(self):
        da = pytest.importorskip("dask.array")
        pivots = da.from_array(np.array([[0, 1], [1, 2]]), chunks=(1, 2))
        x = smallmm.lu_solve(
            (da.from_array(np.stack([EYE(2)] * 2), chunks=(1, 2, 2)), pivots), ONES((2, 2, 1))
        )
        with pytest.raises(ValueError, match="lu_solve: pivots has 2 at step 1"):
            x.compute()


class TestExplain:
    @pytest.mark.parametrize("n", [1, 4, 16, 32])
    @pytest.mark.parametrize(
        "name", [name for name in OF_MATRICES if not name.endswith(("diagonal", "banded", "auto", "complex"))]
    )
    def test_kernels(self, function, isa, dtype, n, rng):
        a, b = definite(rng, (100, n, n), dtype), normal(rng, (100, n, 2), dtype)
        plan = function.by(partial(smallmm.explain, function.op), a, b)
        assert plan.op == function.op
        assert plan.matrices == 100
        assert plan.kernel.startswith("smm_")
        assert plan.kernel.endswith(f"_f{8 * dtype.itemsize}_{isa}")
        assert plan.strategy in plan.kernel
        assert plan.flops > 0
        assert plan.bytes >= a.nbytes

    def test_functions(self):
        a = np.ones((7, 4, 4))
        assert smallmm.explain(smallmm.inv, a) == smallmm.explain("inv", a)

    def test_computes_nothing(self):
        a, out = np.zeros((7, 4, 4)), np.full((7, 4, 4), 5.0)
        assert smallmm.explain("inv", a, out=out).matrices == 7
        assert (out == 5).all()
        pair = np.full((7, 4, 4), 5.0), np.full((7, 4), 5, np.int32)
        assert smallmm.explain("lu_factor", a, out=pair).matrices == 7
        assert (pair[0] == 5).all()
        assert smallmm.explain("inv", a[:0]).kernel is None

    @pytest.mark.parametrize("element", [None, "text", 1])
    def test_outputs_of_objects(self, element):
        """Neither read nor written, though their elements are addresses."""
        a, b = np.ones((3, 4, 4)), np.ones((3, 4, 1))
        objects = np.full((3,), element, object)
        outs = b.copy(), objects, np.ones(3, "i4"), None
        assert smallmm.explain("linsolve_ex", a, b, return_rcond=True, out=outs).matrices > 0
        assert smallmm.explain("slogdet", a, out=(objects, None)).matrices == 3
        assert objects.tolist() == [element] * 3

    def test_beyond_our_order(self):
        plan = smallmm.explain("solve_ex", np.zeros((7, 140, 140)), np.zeros((140, 1)))
        assert plan.kernel == "lapack getrf and getrs"
        assert plan.strategy is None
        assert plan.matrices == 7
        assert plan.flops == pytest.approx(7 * (2 / 3 * 140**3 + 2 * 140**2))
        assert "lapack getrf" in str(plan)

    def test_large_calls_are_streamed(self):
        """So test_large_batch is about streaming too."""
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            a = np.broadcast_to(dtype(1), (280_000 // np.dtype(dtype).itemsize, 8, 8)).copy()
            for op in ("inv", "lu_factor", "cholesky", "qr"):
                assert smallmm.explain(op, a).nontemporal

    def test_errors(self):
        with pytest.raises(ValueError, match="solve: b has shape"):
            smallmm.explain("solve", np.eye(2), np.ones((3, 1)))


class TestFromTheRight:
    """X A = B, by strides."""

    @pytest.mark.parametrize("n", [1, 3, 8, 33, 129])
    @pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
    def test_same_bits(self, dtype, n, shape, rng):
        a, b = definite(rng, (*shape, n, n), dtype), normal(rng, (*shape, 2, n), dtype)
        lu = smallmm.lu_factor(a)
        for x, y in (
            (smallmm.solve(a, b, left=False), smallmm.solve(a.mT, b.mT)),
            (smallmm.lu_solve(lu, b, left=False), smallmm.lu_solve(lu, b.mT, 1)),
            (smallmm.lu_solve(lu, b, left=False, adjoint=True), smallmm.lu_solve(lu, b.mT)),
            (smallmm.lu_solve(lu, b.mT, adjoint=True), smallmm.lu_solve(lu, b.mT, 2)),
            (smallmm.solve_triangular(a, b, left=False), smallmm.solve_triangular(a.mT, b.mT, lower=True)),
            (
                smallmm.solve_triangular(a, b, 1, unitriangular=True, upper=False, left=False),
                smallmm.solve_triangular(a, b.mT, 0, True, True),
            ),
        ):
            assert_same_bits(*(np.ascontiguousarray(z if z.shape == x.shape else z.mT) for z in (x, y)))
        np.testing.assert_allclose(smallmm.solve(a, b, left=False) @ a, b, rtol=1e-2, atol=1e-2)

    def test_vectors_are_rows(self, rng):
        a, b = definite(rng, (5, 3, 3), np.float64), normal(rng, (3,), np.float64)
        x = smallmm.solve(a, b, left=False)
        assert x.shape == (5, 3)
        np.testing.assert_allclose(smallmm.vecmat(x, a), np.broadcast_to(b, (5, 3)))

    def test_out(self, rng):
        a, b = definite(rng, (5, 3, 3), np.float64), normal(rng, (5, 2, 3), np.float64)
        for name in ("solve", "solve_triangular"):
            out = np.empty((5, 2, 3))
            function = getattr(smallmm, name)
            assert function(a, b, left=False, out=out) is out
            np.testing.assert_array_equal(out, function(a, b, left=False))
        with pytest.raises(ValueError, match=r"out has shape \(3, 2\); expected \(5, 3, 2\)"):
            smallmm.solve(a, b, left=False, out=np.empty((2, 3)))

    def test_no_copy(self, rng):
        out = np.empty((5, 3, 2)).mT
        x = smallmm.solve(definite(rng, (5, 3, 3), np.float64), ONES((5, 2, 3)), left=False)
        assert x.strides == out.strides

    def test_failures(self):
        a = np.stack([EYE(2), ONES((2, 2))])
        with pytest.raises(smallmm.LinAlgError, match=r"^solve: 1 of 2 matrices is singular") as caught:
            smallmm.solve(a, ONES((2, 3, 2)), left=False)
        assert caught.value.result.shape == (2, 3, 2)
        np.testing.assert_array_equal(caught.value.result[0], 1)

    def test_other_libraries(self, torch, rng):
        a, b = definite(rng, (4, 3, 3), np.float64), normal(rng, (4, 2, 3), np.float64)
        expected = smallmm.solve(a, b, left=False)
        da = pytest.importorskip("dask.array")
        np.testing.assert_array_equal(smallmm.solve(da.from_array(a), da.from_array(b), left=False), expected)
        x = smallmm.solve(torch.from_numpy(a), torch.from_numpy(b), left=False)
        assert isinstance(x, torch.Tensor)
        np.testing.assert_array_equal(x, expected)


class TestRectangularLU:
    """Those of LAPACK but for rounding errors, by kernels where min(m, n) <= 128 and m n <= 16384."""

    @pytest.mark.parametrize(
        ("m", "n"),
        [
            *((5, 3), (3, 5), (40, 2), (2, 40), (1, 5), (5, 1), (4, 0), (0, 4), (20, 50), (33, 7)),
            *((128, 3), (3, 128), (100, 64), (40, 64), (200, 20), (20, 200), (130, 128), (129, 300)),
        ],
    )
    def test_is_scipys(self, dtype, m, n, rng):
        a = normal(rng, (2, 3, m, n), dtype)
        lu, pivots, info = smallmm.lu_factor_ex(a)
        assert (lu.shape, pivots.shape, info.shape) == ((2, 3, m, n), (2, 3, min(m, n)), (2, 3))
        assert (lu.dtype, pivots.dtype, info.dtype) == (dtype, np.int32, np.int32)
        assert not info.any()
        assert_same(smallmm.lu_factor(a), (lu, pivots))
        for q in np.ndindex(2, 3):
            expected, rows = scipy.linalg.lu_factor(a[q])
            np.testing.assert_array_equal(pivots[q], rows)
            np.testing.assert_allclose(lu[q], expected, rtol=0, atol=300 * max(m, n) * np.finfo(dtype).eps)

    def test_failures(self):
        a = np.stack([EYE(4)[:, :2], np.zeros((4, 2))])
        with pytest.raises(smallmm.LinAlgError, match=r"lu_factor: 1 of 2 matrices is singular") as caught:
            smallmm.lu_factor(a)
        assert caught.value.info.tolist() == [0, 1]
        assert_same_bits(caught.value.result.LU[0], a[0])
        assert np.isnan(caught.value.result.LU[1]).all()
        assert caught.value.result.pivots[1].tolist() == [0, 1]

    def test_out_and_empty_stacks(self):
        out = np.empty((3, 2)), np.empty(2, np.int32)
        assert smallmm.lu_factor(EYE(3)[:, :2], out=out).LU is out[0]
        assert smallmm.lu_factor(ONES((0, 3, 2))).pivots.shape == (0, 2)

    def test_explained(self):
        plan = smallmm.explain("lu_factor", ONES((7, 3, 2)))
        assert (plan.kernel[:13], plan.matrices) == ("smm_lu_panels", 7)
        assert smallmm.explain("lu_factor", ONES((7, 129, 128))).kernel == "lapack getrf"


class TestFactorsOfLU:
    @pytest.mark.parametrize("shape", [(1, 1), (4, 4), (6, 3), (3, 6), (40, 40)])
    @pytest.mark.parametrize("options", [{}, {"permute_l": True}, {"p_indices": True}], ids=str)
    def test_as_scipy(self, number, shape, options, rng):
        a = normal(rng, (5, *shape), number)
        for _ in range(10):  # the last ones by a program
            results = smallmm.lu(a, **options)
        theirs = [scipy.linalg.lu(x, **options) for x in a]
        for ours, *others in zip(results, *theirs, strict=True):
            np.testing.assert_allclose(ours, np.stack(others), atol=5e3 * np.finfo(number).eps)
        p, *_ = results
        assert p.dtype == (np.int32 if "p_indices" in options else number)

    @pytest.mark.parametrize(("m", "n"), [(3, 0), (0, 3), (0, 0)])
    def test_without_elements(self, m, n):
        """By steps, and as steps of a program."""
        for function in (smallmm.lu, smallmm.fuse("(m,n)")(lambda a: smallmm.lu(a))):
            for batch in ((), (2,), (0,)):
                p, lower, upper = function(ONES((*batch, m, n)))
                assert_same_bits(p, np.broadcast_to(EYE(m), (*batch, m, m)).copy())
                assert (lower.shape, upper.shape) == ((*batch, m, 0), (*batch, 0, n))

    def test_singular(self, rng):
        a = rng.standard_normal((3, 4, 4))
        good = smallmm.lu(a)
        a[1] = 1
        with pytest.raises(
            smallmm.LinAlgError, match=r"lu: 1 of 3 matrices is singular, the first"
        ) as caught:
            smallmm.lu(a)
        for x, y in zip(caught.value.result, good, strict=True):
            assert_same_bits(x[[0, 2]], y[[0, 2]])
        assert np.isnan(caught.value.result.L[1]).all()
        with pytest.raises(TypeError, match="lu: permute_l is 'yes'"):
            smallmm.lu(a, "yes")


class TestBeyondOurOrder:
    """Larger orders go to LAPACK, with the same rules for bad matrices."""

    def test_accuracy(self, dtype, rng):
        for n in (129, 140):
            a = good(rng, n, n, dtype)[:3]
            b = normal(rng, (3, n, 2), dtype)
            lu, pivots = smallmm.lu_factor(a)
            assert_accurate_lu(lu, pivots, a)
            assert_accurate_solution(smallmm.lu_solve((lu, pivots), b), a, b)
            assert_accurate_solution(smallmm.lu_solve((lu, pivots), b, 1), a.mT, b)
            assert_accurate_solution(smallmm.solve(a, b), a, b)
            assert_accurate_inverse(smallmm.inv(a), a)
            assert_accurate_determinant(*smallmm.slogdet(a), a, smallmm.det(a))
            definite = good_definite(rng, n, dtype)
            b = normal(rng, (len(definite), n, 2), dtype)
            for upper in (False, True):
                c = smallmm.cholesky(definite, upper=upper)
                assert_accurate_cholesky(c, definite, upper)
                assert_accurate_solution(smallmm.cho_solve((c, not upper), b), definite, b)
                x = smallmm.solve_triangular(c, b, lower=not upper)
                assert_accurate_solution(x, c, b)

    @pytest.mark.parametrize(("m", "n"), [(140, 130), (130, 140), (16400, 1), (1, 16400), (600, 40)])
    def test_rectangular(self, dtype, m, n, rng):
        a = normal(rng, (3, m, n), dtype)
        q, r = smallmm.qr(a)
        assert q.shape == (3, m, min(m, n))
        assert_accurate_qr(q, r, a)
        assert_same(smallmm.qr(a, mode="r"), r)
        h, tau = smallmm.qr(a, mode="raw")
        assert (h.shape, tau.shape) == ((3, n, m), (3, min(m, n)))
        if m <= 1000:  # else Q takes gigabytes
            q, r = smallmm.qr(a, mode="complete")
            assert (q.shape, r.shape) == ((3, m, m), (3, m, n))
        b = normal(rng, (3, m, 2), dtype)
        x, norms, rank = smallmm.lstsq(a, b)
        assert_accurate_least_squares(x, norms, a, b)
        assert rank.tolist() == [min(m, n)] * 3

    def test_results_have_the_same_form(self, function, dtype, rng):
        large, small = definite(rng, (2, 3, 129, 129), dtype), definite(rng, (2, 3, 128, 128), dtype)
        results, expected = function(large, large[..., :2]), function(small, small[..., :2])
        assert type(results) is type(expected)
        for x, y in zip(as_tuple(results), as_tuple(expected), strict=True):
            assert x.dtype == y.dtype
            assert x.shape == tuple({128: 129}.get(size, size) for size in y.shape)
        for x in as_tuple(function(large[0, 0], large[0, 0, :, 0])):
            assert x.shape == () or x.shape[0] == 129

    def test_out(self, function, rng):
        a = definite(rng, (3, 130, 130), np.float64)
        expected = function(a, a)
        outs = [np.full_like(x, -7) for x in as_tuple(expected)]
        results = function(a, a, out=like(expected, outs))
        for x, out, y in zip(as_tuple(results), outs, as_tuple(expected), strict=True):
            assert np.shares_memory(x, out)
            assert_same_bits(out, np.ascontiguousarray(y))

    def test_without_scipy(self, run_python):
        code = """
            import sys
            sys.modules["scipy"] = sys.modules["scipy.linalg"] = None
            import numpy as np, smallmm
            print(smallmm.det(np.eye(130)), smallmm.solve(np.eye(130) * 2, np.ones(130)).sum())
            try:
                smallmm.lstsq(np.eye(130), np.ones(130))
            except ImportError as error:
                print(error)
        """
        numbers, message = run_python(code).stdout.splitlines()
        assert numbers == "1.0 65.0"
        assert message == (
            "lstsq: matrices of shape (130, 130) are beyond smallmm's kernels, which go to order 128, and "
            "SciPy, which would take them, is not installed: pip install 'smallmm[large]'"
        )


# --- What was found by trying --------------------------------------------------------------------------


def test_masked_arrays_without_a_masked_element():
    a = np.ma.array(np.stack([2 * EYE(2)] * 3))
    assert_same_bits(smallmm.inv(a), np.asarray(a) / 4)
    assert smallmm.det(a).tolist() == [4, 4, 4]
    assert smallmm.det(a[0]) == 4
    assert smallmm.slogdet(a).sign.tolist() == [1, 1, 1]
    assert smallmm.lu_factor(a).pivots.shape == (3, 2)
    assert smallmm.solve(a, a).shape == (3, 2, 2)
    assert smallmm.lstsq(a, a).rank.tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", OF_MATRICES)
def test_no_mask_is_ignored(function):
    a, b = np.ma.array(2 * EYE(3)), ONES((3, 2))
    function(a, b)
    a[0, 1] = np.ma.masked
    with pytest.raises(
        TypeError, match=r"\w+: (a|A|c|LU|LD) is a masked array, 1 of whose 9 elements are masked; .*filled"
    ):
        function(a, b)


@pytest.mark.parametrize("n", [3, 129])
def test_outputs_with_masks_are_written_under_them(n):
    a, b = np.ma.array(np.stack([2 * EYE(n)] * 5)), ONES((5, n, 2))
    for op, arguments, shapes in (
        (smallmm.solve, (a, b), [(5, n, 2)]),
        (smallmm.det, (a,), [(5,)]),
        (smallmm.slogdet, (a,), [(5,), (5,)]),
        (smallmm.lstsq, (a, b), [(5, n, 2), (5, 2), (5,)]),
    ):
        expected = as_tuple(op(*arguments))
        outs = [np.ma.zeros(shape) for shape in shapes]
        outs[0][0] = np.ma.masked
        mask = outs[0].mask.copy()
        results = as_tuple(op(*arguments, out=tuple(outs) if len(outs) > 1 else outs[0]))
        for result, out, x in zip(results, outs, expected, strict=True):
            assert result is out
            np.testing.assert_array_equal(out.data, x)
        np.testing.assert_array_equal(outs[0].mask, mask)


@pytest.mark.parametrize("n", [2, 129])
def test_numpys_matrices(n):
    """As in numpy.linalg, what is no matrix does not become one."""
    a = (2 * EYE(n)).view(np.matrix)
    assert type(smallmm.det(a)) is np.float64
    assert type(smallmm.slogdet(a).sign) is np.float64
    lu, pivots = smallmm.lu_factor(a)
    assert type(lu) is np.matrix
    assert (type(pivots), pivots.shape) == (np.ndarray, (n,))
    assert type(smallmm.lu_solve((lu, pivots), a)) is np.matrix
    for x in (smallmm.inv(a), smallmm.solve(a, a), *smallmm.qr(a), *smallmm.qr(a, "raw")[:1]):
        assert type(x) is np.matrix
    assert smallmm.lstsq(a, a).rank == n
    assert smallmm.solve(np.stack([2 * EYE(n)] * 3), a).shape == (3, n, n)
    out = np.empty((n, n))
    assert smallmm.inv(a, out=out) is out
    with pytest.raises(smallmm.LinAlgError, match=r"^Singular matrix \(inv: ") as caught:
        smallmm.inv(0 * a)
    assert caught.value.info == 1


@pytest.mark.parametrize("n", [2, 129])
def test_masked_matrices(n):
    a = np.ma.array((2 * EYE(n)).view(np.matrix))
    assert type(smallmm.inv(a)) is np.matrix
    assert type(smallmm.det(a)) is np.float64
    assert smallmm.lu_factor(a).pivots.shape == (n,)
    assert smallmm.lstsq(a, a).rank == n
    assert smallmm.solve_ex(a, a).info == 0
    assert smallmm.solve(np.stack([2 * EYE(n)] * 3), a).shape == (3, n, n)
    for function in (smallmm.matmul, smallmm.batched_matmul):
        assert type(function(a, a)) is np.matrix
        assert type(function(np.stack([EYE(n)] * 3), a)) is np.ndarray
    a[0, 1] = np.ma.masked
    for function in (smallmm.inv, smallmm.det, smallmm.qr):
        with pytest.raises(TypeError, match=f"a is a masked array, 1 of whose {n * n} elements are masked"):
            function(a)


def test_outputs_without_dimensions_are_returned():
    out, other = np.empty(()), np.empty(())
    assert smallmm.det(2 * EYE(3), out=out) is out
    assert out == 8
    result = smallmm.slogdet(2 * EYE(3), out=(out, other))
    assert result.sign is out
    assert result.logabsdet is other
    assert type(smallmm.det(EYE(3))) is np.float64


def test_strides_that_are_not_used():
    """NumPy calls these arrays aligned, whatever the stride of an axis of one element."""
    records = ONES(5, [("x", "f8"), ("id", "i4")])["x"]
    assert smallmm.matvec(ONES((3, 1)), records[:1]).tolist() == [1, 1, 1]
    assert smallmm.matvec(ONES((1, 3)), ONES(3), out=records[:1]).tolist() == [3]
    odd = np.ndarray((3, 1, 1), "f8", np.zeros(100, "u1"), 0, (8, 5, 7))
    odd[:] = 2
    assert smallmm.inv(odd).ravel().tolist() == [0.5] * 3
    nothing = np.zeros((3, 0, 0), [("p", "u1"), ("v", "f8")])["v"]
    assert smallmm.det(nothing).tolist() == [1, 1, 1]


@pytest.mark.parametrize("yes", [1, np.True_, np.array(True)])
def test_cholesky_has_two_words_for_a_triangle(yes):
    a = np.array([[4.0, 2.0], [2.0, 5.0]])
    for lower in (True, False):
        expected = scipy.linalg.cholesky(a, lower=lower)
        assert_same_bits(smallmm.cholesky(a, lower=lower), expected)
        assert_same_bits(smallmm.cholesky(a, upper=not lower), expected)
        factor = smallmm.cho_factor(a, lower)
        assert factor.lower is lower
        assert_same_bits(factor.c, expected)
    assert smallmm.cho_factor(a, yes).lower is True
    assert smallmm.cho_factor(a).lower is scipy.linalg.cho_factor(a)[1]


@pytest.mark.parametrize("batch", [(), (1,), (1, 1), (3,)])
def test_failures_have_the_info_of_the_other_function(batch):
    """Of a single matrix, too, whose info is no array unless it failed."""
    a, b = np.ones((*batch, 2, 2)), np.ones((2, 1))
    for function, other, arguments in (
        (smallmm.solve, smallmm.solve_ex, (a, b)),
        (smallmm.solve, smallmm.solve_ex, (a, b + 0j)),
        (smallmm.inv, smallmm.inv_ex, (a,)),
        (smallmm.lu_factor, smallmm.lu_factor_ex, (a,)),
        (smallmm.cholesky, smallmm.cholesky_ex, (-a,)),
    ):
        with pytest.raises(smallmm.LinAlgError) as caught:
            function(*arguments)
        expected = other(*arguments)
        assert type(caught.value.info) is type(expected.info)
        np.testing.assert_array_equal(caught.value.info, expected.info, strict=True)
        assert_same(caught.value.result, expected[:-1] if len(expected) > 2 else expected[0])


def test_cho_factor_fails_with_its_result():
    a = np.stack([EYE(2), -EYE(2)])
    with pytest.raises(smallmm.LinAlgError, match=r"^cho_factor: 1 of 2 matrices is not positive") as caught:
        smallmm.cho_factor(a, lower=True)
    assert_same_bits(caught.value.result.c[0], EYE(2))
    assert caught.value.result.lower is True


@pytest.mark.parametrize("yes", [1, np.True_, np.array(True)])
def test_true_by_any_name(yes):
    a = np.array([[4.0, 2.0], [2.0, 5.0]])
    upper = smallmm.cholesky(a, upper=yes)
    assert_same_bits(upper, smallmm.cholesky(a).T)
    assert_same_bits(
        smallmm.cho_solve((upper.T, yes), ONES(2)), smallmm.cho_solve((upper, np.array(False)), ONES(2))
    )


def test_trans_by_any_name(rng):
    a, b = rng.random((5, 4, 4)), rng.random((5, 4, 1))
    factors = smallmm.lu_factor(a)
    expected = smallmm.lu_solve(factors, b, 1)
    for trans in (np.int64(1), "T", "C", 2):
        assert_same_bits(smallmm.lu_solve(factors, b, trans), expected)


@pytest.mark.parametrize("rtol", [np.float64(1e-6), np.finfo("f8").eps, np.array(1e-6), 1e-6])
def test_tolerances_have_no_precision(rng, rtol):
    a = rng.random((5, 4, 3), dtype=np.float32)
    assert smallmm.lstsq(a, a, rtol).x.dtype == np.float32


@pytest.mark.parametrize("rtol", [-1, np.float32(-1), np.array(-1.0), np.nan])
def test_tolerances_are_not_negative(rtol):
    with pytest.raises(ValueError, match=r"rtol is .*; expected a number >= 0"):
        smallmm.lstsq(EYE(3), EYE(3), rtol)


@pytest.mark.parametrize("rtol", [[0.1, -0.2], np.array([0.1, -0.2]), np.array([np.nan, 0.1])])
def test_no_tolerance_of_many_is_negative(rtol):
    with pytest.raises(ValueError, match=r"rtol has (-0.2|nan); expected numbers >= 0"):
        smallmm.lstsq(ONES((2, 3, 3)), ONES((2, 3, 1)), rtol=rtol)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_no_tolerance_of_other_libraries_is_negative(library, request):
    """They are looked at where their elements are at hand."""
    xp = request.getfixturevalue(library)
    xp = getattr(xp, "numpy", xp)
    a, b = xp.ones((2, 3, 3)), xp.ones((2, 3, 1))
    for rtol in (xp.asarray(-0.2), xp.asarray([0.1, -0.2]), xp.asarray([float("nan"), 0.1])):
        with pytest.raises(ValueError, match=r"rtol has (-0.2|nan)\d*; expected numbers >= 0"):
            smallmm.lstsq(a, b, rtol=rtol)
    assert smallmm.lstsq(a, b, rtol=xp.asarray([0.1, 0.2])).rank.tolist() == [1, 1]


def test_rank_without_right_hand_sides_beyond_order_32():
    result = smallmm.lstsq(ONES((2, 40, 40)), np.empty((2, 40, 0)))
    assert result.x.shape == (2, 40, 0)
    assert result.residual_norms.shape == (2, 0)
    assert result.rank.tolist() == [1, 1]


def test_options_and_missing_outputs_are_explained(rng):
    a = rng.random((6, 3, 3))
    for op, *arguments in (
        ("qr", a, "r"),
        ("solve_triangular", a, a, "T"),
        ("lu_solve", smallmm.lu_factor(a), a, 1),
    ):
        assert smallmm.explain(op, *arguments).matrices == 6
    assert smallmm.explain("slogdet", a, out=(np.empty(6), None)).matrices == 6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 9, 12, 16, 17, 24, 32])
def test_inverses_find_singular_what_factors_do(isa, rng, n, dtype):
    """The pivots are LU's. Most of these have one that is exactly zero, but rounding hides some."""
    a = rng.integers(1, 9, (4, 100, n, n)).astype(dtype)
    a[0, :, -1] = a[0, :, 0]
    a[1, :, :, -1] = a[1, :, :, 0]
    a[2, :, -1] = 3 * a[2, :, 0]
    a[3] = a[3, :, :1]
    found = smallmm.lu_factor_ex(a).info
    np.testing.assert_array_equal(smallmm.inv_ex(a).info, found)
    assert np.count_nonzero(found[0]) > 50
    assert np.count_nonzero(found[3]) > 50


@pytest.mark.parametrize(("n", "dims"), [(3, 33), (3, 62), (130, 33), (130, 60)])
def test_many_batch_dimensions(n, dims, rng):
    """As many as NumPy's arrays have, and as its gufuncs where those are asked."""
    batch = (2, *[1] * (dims - 3), 3, 2)
    a, b = definite(rng, (12, n, n), np.float64), rng.random((12, n, 2))
    x, y = a.reshape(*batch, n, n), b.reshape(*batch, n, 2)
    for call in FUNCTIONS.values():
        expected, results = (r if isinstance(r, tuple) else (r,) for r in (call(a, b), call(x, y)))
        for result, flat in zip(results, expected, strict=True):
            assert result.shape == batch + flat.shape[1:]
            np.testing.assert_array_equal(result, flat.reshape(result.shape))
    with pytest.raises(ValueError, match=r"^solve: b has shape .* do not broadcast"):
        smallmm.solve(x, np.concatenate([y, y, y], axis=-4))


def test_stacks_without_elements(run_python):
    """More matrices than could be counted in an hour: nothing is to be written, so nothing is to be done."""
    run_python("""
        import numpy as np, smallmm
        many = 2**41
        a = np.broadcast_to(np.eye(3), (many, 3, 3))
        large = np.broadcast_to(np.eye(130), (many, 130, 130))
        for n, x in (0, np.empty((many, 0, 0))), (3, a), (130, large):
            b = np.empty((many, n, 0))
            assert smallmm.cho_solve((x, True), b).shape == b.shape
            pivots = np.broadcast_to(np.arange(n, dtype=np.int32), (many, n))
            assert smallmm.lu_solve((x, pivots), b).shape == b.shape
            assert smallmm._core.cho_solve(x, b).shape == b.shape
        assert smallmm.batched_matmul(a[:, :0], a).shape == (many, 0, 3)
        assert smallmm.batched_matmul(a[:, :0], a, alpha=2).shape == (many, 0, 3)
        assert smallmm.qr(np.empty((many, 0, 3)))[1].shape == (many, 0, 3)
        halves = np.broadcast_to(np.eye(3), (2**20, 2**20, 2, 3, 3))[:, ::2]
        assert smallmm.cho_solve((halves, True), np.empty((2**20, 2**19, 2, 3, 0))).size == 0
    """)

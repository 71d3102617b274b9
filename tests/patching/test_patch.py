"""NumPy with loops of smallmm: the same values up to rounding, and the same everything else."""

import importlib
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from functools import partial

import numpy as np
import pytest
from layouts import LAYOUTS
from toggles import differences, serving

import smallmm
import smallmm._core as core
from smallmm._patching import patch
from smallmm._tools import cli

UFUNCS = patch._ufuncs()
KEEPING = [name for name in UFUNCS if not name.startswith("qr_r_raw")]  # their inputs
TYPES = "fdFD"
L = np.linalg
serving = partial(serving, "numpy")


def outcome(function, *args):
    """What it returns or raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*args)
        except Exception as error:
            result = type(error), str(error)
    return result, [(w.category, str(w.message)) for w in caught]


def both(function, *args):
    """By NumPy, and by smallmm within it; and how many matrices that served."""
    return both_of_all(function, [args])[0]


def both_of_all(function, arguments):
    plain = [outcome(function, *args) for args in arguments]
    all_of_it, served = [], 0
    with serving():
        for args, by_numpy in zip(arguments, plain, strict=True):
            ours = outcome(function, *args)
            before, served = served, smallmm.patch_report().served
            all_of_it.append((by_numpy, ours, served - before))
    return all_of_it


def arrays_in(result):
    return result if isinstance(result, tuple) else (result,)


def is_error(result):
    return isinstance(result, tuple) and isinstance(result[0], type)


def operands(rng, name, n, count, dtype):
    """Well conditioned; of `eigh` and `cholesky` positive definite; of `svd` not square."""
    inputs = str(UFUNCS[name].signature).partition("->")[0]
    ndims = [text.count(",") + 1 for text in re.findall(r"\((.*?)\)", inputs)]
    stacks = [rng.standard_normal((count, *(n,) * ndim)) for ndim in ndims]
    if dtype in "FD":
        stacks = [x + 1j * rng.standard_normal(x.shape) for x in stacks]
    if ndims[0] == 2 and name not in ("matmul", "matvec"):
        a = stacks[0]
        stacks[0] = (
            a @ a.conj().mT / n + np.eye(n)
            if name.startswith(("cho", "eigh", "eigv"))
            else a + 2 * n**0.5 * np.eye(n)
        )
    if name.startswith("svd"):
        fewer = slice(max(1, n - 2))
        stacks[0] = stacks[0][:, fewer] if name.startswith("svd_m") else stacks[0][:, :, fewer]
    return [x.astype(dtype) for x in stacks]


def assert_close(name, inputs, ours, plain):
    a, eps = inputs[0], np.finfo(plain[0].dtype).eps
    most = 500 * a.shape[-1] * eps

    def near(x, y):
        assert np.all(np.abs(x - y) <= most * max(1, np.abs(y).max(initial=0))), name

    if name.startswith("eig") and name.removesuffix("_lo").removesuffix("_up") in ("eig", "eigvals"):
        distances = np.abs(ours[0][..., :, None] - plain[0][..., None, :])
        near(distances.min(-1), 0 * ours[0].real)
    elif name.startswith(("eigh", "eigvalsh")) or len(ours) == 1:
        near(ours[0], plain[0])
    elif name == "slogdet":
        near(ours[0], plain[0])
        near(ours[1], plain[1])
    if name.startswith("eig") and len(ours) == 2:
        full = a
        if name.startswith("eigh"):
            half = np.tril(a) if name.endswith("lo") else np.triu(a)
            full = half + np.tril(half, -1).conj().mT + np.triu(half, 1).conj().mT
        near(full @ ours[1], ours[1] * ours[0][..., None, :])
    if name.startswith("svd") and len(ours) == 3:
        u, s, vh = ours
        near(s, plain[1])
        near((u[..., : s.shape[-1]] * s[..., None, :]) @ vh[..., : s.shape[-1], :], a)


def assert_alike(ours, plain):
    for x, y in zip(arrays_in(ours), arrays_in(plain), strict=True):
        assert type(x) is type(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if isinstance(x, np.ndarray):
            assert x.flags == y.flags


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("count", [0, 1, 3, 17])
def test_every_order_and_type(rng, name, count):
    large = (65, 128, 129) if name not in ("det", "slogdet") else ()  # which overflow there
    orders = [*range(1, 34), *large] if count == 3 else (1, 2, 3, 4, 5, 8, 16, 32, 33)
    for dtype in TYPES:
        stacks = [operands(rng, name, n, count, dtype) for n in orders]
        for inputs, (plain, ours, served) in zip(stacks, both_of_all(UFUNCS[name], stacks), strict=True):
            assert ours[1] == plain[1] == []
            assert_alike(ours[0], plain[0])
            assert_close(name, inputs, arrays_in(ours[0]), arrays_in(plain[0]))
            conjugated = name in ("vecdot", "vecmat") and dtype in "FD"
            largest = max(inputs[0].shape[1:])
            assert served == (count if largest <= 128 and not conjugated else 0)


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(rng, name, layout):
    for dtype in TYPES:
        stacks = [operands(rng, name, n, 5, dtype) for n in (1, 2, 3, 5, 8, 16)]
        stacks = [[LAYOUTS[layout](x) if x.ndim == 3 else x for x in inputs] for inputs in stacks]
        for inputs, (plain, ours, _) in zip(stacks, both_of_all(UFUNCS[name], stacks), strict=True):
            assert ours[1] == plain[1]
            assert_alike(ours[0], plain[0])
            assert_close(name, inputs, arrays_in(ours[0]), arrays_in(plain[0]))


@pytest.mark.parametrize("name", [name for name in ("matmul", "solve", "svd_s") if name in UFUNCS])
def test_rectangles(rng, name):
    for m, k, n in ((1, 5, 3), (4, 1, 2), (2, 7, 1), (3, 9, 32), (40, 3, 3), (3, 0, 2), (0, 3, 2)):
        a, b = rng.standard_normal((6, m, k)), rng.standard_normal((6, k, n))
        args = {"matmul": (a, b), "solve": (rng.standard_normal((6, k, k)), b), "svd_s": (a,)}[name]
        plain, ours, _ = both(UFUNCS[name], *args)
        assert_alike(ours[0], plain[0])
        assert_close(name, args, arrays_in(ours[0]), arrays_in(plain[0]))


@pytest.mark.parametrize("mode", ["reduced", "complete", "r", "raw"])
@pytest.mark.parametrize("dtype", TYPES)
def test_qr_of_every_shape_and_layout(rng, mode, dtype):
    shapes = [(m, n) for m in (0, 1, 2, 3, 5, 16, 32, 33) for n in (0, 1, 2, 3, 4, 17, 32, 129)]
    stacks = [rng.standard_normal((7, *shape)) for shape in shapes]
    if dtype in "FD":
        stacks = [x + 1j * rng.standard_normal(x.shape) for x in stacks]
    stacks = [x.astype(dtype) for x in stacks]
    stacks += [np.asfortranarray(x) for x in stacks] + [x.mT.copy().mT for x in stacks]
    before = [x.copy() for x in stacks]
    results = both_of_all(
        lambda a: tuple(L.qr(a, mode)) if mode != "r" else L.qr(a, mode), [(x,) for x in stacks]
    )
    for a, kept, (plain, ours, served) in zip(stacks, before, results, strict=True):
        assert np.array_equal(a, kept)
        assert ours[1] == plain[1] == []
        assert_alike(ours[0], plain[0])
        for x, y in zip(arrays_in(ours[0]), arrays_in(plain[0]), strict=True):
            assert np.allclose(x, y, rtol=0, atol=2e3 * np.finfo(x.dtype).eps)
        assert served == (7 if min(a.shape[1:]) > 0 and max(a.shape[1:]) <= 128 else 0)


def test_qr_of_a_stack_with_a_nan_is_numpys_to_the_bit(rng):
    for bad in (np.nan, np.inf):
        a = rng.standard_normal((9, 4, 3))
        a[5, 1:] = bad
        for mode in ("raw", "r", "reduced"):
            plain, ours, served = both(lambda a, mode=mode: L.qr(a, mode), a)
            assert served == 0
            for x, y in zip(arrays_in(ours[0]), arrays_in(plain[0]), strict=True):
                assert np.array_equal(x, y, equal_nan=True)


def test_qr_in_place_of_one_matrix_for_all_is_numpys(rng):
    name = next(name for name in UFUNCS if name.startswith("qr_r_raw"))
    a = rng.standard_normal((1, 3, 3))
    with serving():
        UFUNCS[name](np.lib.stride_tricks.as_strided(a, (4, 3, 3), (0, *a.strides[1:])))
    assert {row.outcome.partition(":")[0] for row in smallmm.patch_report().rows} == {"overlap"}


def test_two_batch_dimensions_are_several_calls_of_a_loop(rng):
    a, b = rng.standard_normal((4, 1, 3, 3)), rng.standard_normal((1, 5, 3, 2))
    for function in (np.matmul, L.solve):
        plain, ours, served = both(function, a, b)
        assert_alike(ours[0], plain[0])
        assert np.allclose(ours[0], plain[0], rtol=1e-10, atol=1e-12)
        assert served == 20


# --- errors, warnings, flags ----------------------------------------------------------------------

FUNCTIONS = {
    "matmul": lambda a: a @ a,
    "times zero": lambda a: a @ np.zeros_like(a),
    **{f.__name__: f for f in (L.inv, L.det, L.slogdet, L.cholesky, L.eigh, L.eigvalsh, L.eig, L.eigvals)},
    **{f.__name__: f for f in (L.svd, L.svdvals, L.pinv, L.matrix_rank)},
    "eigh upper": lambda a: L.eigh(a, "U"),
    "cholesky upper": lambda a: L.cholesky(a, upper=True),
    "svd reduced": lambda a: L.svd(a, full_matrices=False),
    "solve": lambda a: L.solve(a, np.ones_like(a)),
    "solve a vector": lambda a: L.solve(a, np.ones(a.shape[-1])),
    "solve nan": lambda a: L.solve(np.eye(a.shape[-1]) + 0 * np.nan_to_num(a), a),
    "cond": lambda a: L.cond(a, 1),
    "qr": L.qr,
    "qr raw": lambda a: L.qr(a, "raw"),
    "qr r": lambda a: L.qr(a, "r"),
}


def bad_matrices(n, name):
    """But those with which NumPy's own svd does not end, and those whose multiple eigenvalues are real or not
    as rounding has it."""
    eye = np.eye(n)
    unending = name.startswith("svd") or name == "pinv"
    multiple = name in ("eig", "eigvals")

    def with_one(value, i, j):
        x = eye.copy()
        x[i, j] = value
        return x

    yield from (with_one(np.nan, i, j) for i, j in ((0, n - 1), (n - 1, 0), (n - 1, n - 1)))
    yield from (with_one(v, 0, n - 1) for v in (np.inf, -np.inf) if not (unending and n == 1))
    yield from (with_one(v, n - 1, 0) for v in (np.inf, -np.inf) if not unending)
    yield from (np.full((n, n), v) for v in (0.0, np.nan, np.inf, 1.0) if not (multiple and v == 1))
    yield from (eye * v for v in (1e200, 1e-200, -1.0))
    if name != "pinv":  # which multiplies the phases of vectors by 1 / 0
        yield eye * 5e-324
    yield np.diag(np.arange(n, dtype=float))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", "dDf")
def test_bad_matrices(name, dtype):
    for n in (1, 2, 3, 8, 13):
        stacks = []
        for bad in bad_matrices(n, name):
            with np.errstate(all="ignore"):
                a = np.stack([np.eye(n), bad, 2 * np.eye(n)]).astype(dtype)
            stacks += [(a,), (a[1:2],), (a[1],)]
        for (stack,), (plain, ours, _) in zip(stacks, both_of_all(FUNCTIONS[name], stacks), strict=True):
            if is_error(plain[0]):
                assert ours == plain, stack
                continue
            # OpenBLAS sometimes raises the flag where no NaN arises, from inf inf + inf inf, say
            is_spurious = name == "matmul" and not np.isnan(plain[0]).any()
            assert ours[1] == plain[1] or (is_spurious and not ours[1] and "invalid" in str(plain[1])), stack
            assert_alike(ours[0], plain[0])
            for x, y in zip(arrays_in(ours[0]), arrays_in(plain[0]), strict=True):
                assert np.array_equal(np.isfinite(x), np.isfinite(y)), stack
                if name not in ("eigh", "eigh upper", "eig", "svd", "svd reduced", "qr", "qr raw"):
                    scale = np.abs(np.nan_to_num(y, posinf=0, neginf=0)).max()
                    assert np.allclose(x, y, rtol=1e-5, atol=1e-6 * scale, equal_nan=True), stack


@pytest.mark.parametrize("state", ["ignore", "raise", "call"])
def test_errstate(state):
    huge, inf = np.full((2, 3, 3), 1e200), np.full((2, 3, 3), np.inf)
    for a in (huge, inf, np.zeros((2, 3, 3)), np.eye(3)[None] * 1e-200):
        for function in (np.matmul, lambda a, _: L.det(a), lambda a, _: L.inv(a), lambda a, _: L.slogdet(a)):
            calls = []

            def call(a, function=function, calls=calls):
                with np.errstate(all=state, call=lambda *what: calls.append(what)):
                    return function(a, a)

            plain, ours, _ = both(call, a)
            assert is_error(plain[0]) == is_error(ours[0])
            assert plain[1] == ours[1]
            if is_error(plain[0]):
                assert plain[0] == ours[0]
            assert calls[: len(calls) // 2] == calls[len(calls) // 2 :]


def test_a_failure_in_an_earlier_call_of_the_loop_is_not_forgotten(rng):
    a = rng.standard_normal((4, 3, 3, 3))
    a[0, 1] = 0
    with serving(), pytest.raises(L.LinAlgError, match="Singular matrix"):
        L.inv(a[:, ::-1].transpose(1, 0, 2, 3)[:, ::2])
    b = np.ones((1, 3, 3, 1))
    with serving(), pytest.raises(L.LinAlgError, match="Singular matrix"):
        L.solve(a, b)


@pytest.mark.parametrize("threads", [1, 2])
def test_flags_of_worker_threads_reach_numpy_and_only_those_that_tell(rng, threads):
    a = rng.standard_normal((60_000, 4, 4))
    b = a.copy()
    b[59_999, 3, 3] = np.inf
    with smallmm.threads(threads), serving(), warnings.catch_warnings():
        warnings.simplefilter("error")
        np.matmul(a, a)
        L.inv(a), L.det(a), L.eigh(a)
        with pytest.raises(RuntimeWarning, match="invalid value encountered in matmul"):
            b @ np.zeros((4, 4))
    assert {row.outcome for row in smallmm.patch_report().rows if row.function != "matmul"} == {"served"}


def test_an_interrupt_waits_until_numpy_returns(rng):
    a = rng.standard_normal((40_000, 24, 24))

    def call():
        L.eigvals(a)
        for _ in range(100):  # the timer may have needed the interpreter's lock, which the loop had
            time.sleep(0.1)

    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # what a shell's job inherits ignores it
    try:
        with serving(), smallmm.threads(1):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                call()
    finally:
        signal.signal(signal.SIGINT, before)


# --- around the loop ------------------------------------------------------------------------------


def test_out_and_overlaps(rng):
    a, b = rng.standard_normal((2, 9, 3, 3))

    def into_itself():
        x = a.copy()
        np.matmul(x, b, out=x)
        y = a.copy()
        np.matmul(y[1:], y[:-1], out=y[:-1])
        z = a.copy()
        UFUNCS["inv"](z, out=z)
        w = np.zeros((9, 3, 6))[..., ::2]
        np.matmul(a, b, out=w)
        return (
            x,
            y,
            z,
            w,
            np.matmul(a, b, dtype=np.float32),
            np.matmul(a, b, axes=[(0, 1), (1, 2), (1, 2)]) if 0 else x,
        )

    plain, ours, _ = both(into_itself)
    for x, y in zip(ours[0], plain[0], strict=True):
        assert np.allclose(x, y, rtol=1e-5, atol=1e-6)


def test_subclasses_and_other_dtypes(rng):
    a = rng.standard_normal((3, 3))
    masked = np.ma.masked_array(np.stack([a, a]), mask=False)
    for function in (
        lambda: np.matrix(a) * np.matrix(a),
        lambda: np.matrix(a).I,
        lambda: masked @ masked,
        lambda: np.arange(9).reshape(3, 3) @ np.arange(9).reshape(3, 3),
        lambda: a.astype(object) @ a.astype(object),
        lambda: a.astype(np.float16) @ a.astype(np.float16),
        lambda: a.astype(np.longdouble) @ a.astype(np.longdouble),
        lambda: L.inv(np.arange(1, 5).reshape(2, 2)),
        lambda: a.astype(">f8") @ a,
        lambda: np.einsum("ij,jk->ik", a, a, optimize=True),
        lambda: L.matrix_power(a, 5),
        lambda: L.multi_dot([a, a, a]),
    ):
        plain, ours, _ = both(function)
        assert type(ours[0]) is type(plain[0])
        assert ours[0].dtype == plain[0].dtype
        assert np.allclose(ours[0].astype(float), plain[0].astype(float))


# --- explanations ---------------------------------------------------------------------------------


def test_explanations_of_numpys_functions_compute_nothing(rng):
    a = rng.standard_normal((1000, 3, 3))
    assert smallmm.explain(L.inv, a)[:2] == ("inv", False)
    assert str(smallmm.explain(np.matmul, a, a)) == "matmul: by NumPy (not patched)"
    out = a.copy()
    with smallmm.patched("numpy"):
        for function, args, ufuncs in (
            (L.inv, (a,), ["inv"]),
            (np.matmul, (a, a), ["matmul"]),
            (L.solve, (a, a), ["solve"]),
            (L.cholesky, (-a,), ["cholesky_lo"]),
            (L.pinv, (a,), ["svd_s", "matmul"]),
        ):
            plan = smallmm.explain(function, *args)
            assert [loop.ufunc.replace("_m_", "_").replace("_n_", "_") for loop in plan.loops] == ufuncs
            assert (plan.by, plan.why) == ("smallmm", "served")
            assert {loop[1:5] for loop in plan.loops} == {("float64", 3, 1, 1000)}
        smallmm.explain(np.matmul, a[::-1], a, out=out)
        assert np.array_equal(out, a)
        assert not smallmm.patch_report().rows


def test_other_threads_compute_while_one_explains(rng):
    a = rng.standard_normal((40, 3, 3))
    square = smallmm.matmul(a, a)

    class Elsewhere:
        """Computes in another thread when NumPy asks what it is, within the explained call."""

        def __array__(self, dtype=None, copy=None):
            thread = threading.Thread(target=lambda: found.append(a @ a))
            thread.start()
            thread.join()
            return a

    found = []
    with serving():
        assert smallmm.explain(np.matmul, Elsewhere(), a).by == "smallmm"
    assert np.allclose(found[0], square)


def test_errors_end_an_explanation(rng):
    a = rng.standard_normal((40, 3, 3))
    with serving():
        with pytest.raises(ValueError, match="mismatch in its core dimension"):
            smallmm.explain(np.matmul, a, np.ones((2, 2)))
        with pytest.raises(TypeError):
            core.explain_loops()
        assert np.allclose(a @ a, smallmm.matmul(a, a))


def test_loops_are_timed_when_asked(rng):
    a = rng.standard_normal((4000, 3, 3))
    with serving():
        core.time_loops(True)
        L.inv(a)
        assert 0 < core.time_loops(False) < 10
        L.inv(a)
        assert core.time_loops(False) == 0


@pytest.mark.parametrize("n", [16, 33, 100, 128])
def test_two_complex_matrices_are_served(n):
    a = np.eye(n) * np.full((2, 1, 1), 1j)
    with smallmm.patched("numpy"):
        for call in ((L.solve, a, a), (L.inv, a), (L.det, a), (L.slogdet, a)):
            assert smallmm.explain(*call).by == "smallmm"


def test_explanations_say_why_numpy_computes(rng):
    a = rng.standard_normal((1000, 3, 3))
    with smallmm.patched("numpy"):
        few = smallmm.explain(L.inv, a[0])
        assert few.by == "NumPy"
        assert few.why.startswith("few: ")
        assert 1 < few.loops[0].fewest < 1000
        assert "serves calls of " in str(few)
        large = smallmm.explain(L.det, np.ones((2, 140, 140)))
        assert large.why.startswith("large: ")
        assert (large.loops[0].fewest, large.loops[0].order) == (None, 0)
        assert smallmm.explain(np.matmul, a.astype(int), a.astype(int)).why.startswith("no patched loop")
        calls = smallmm.explain(L.solve, np.ones((4, 1, 3, 3)), np.ones((1, 50, 3, 2))).loops[0]
        assert (calls.calls > 1, calls.matrices) == (True, 200)
        with pytest.raises(L.LinAlgError, match="must be square"):
            smallmm.explain(L.inv, np.ones((3, 4)))
        assert smallmm.explain(smallmm.inv, a).kernel  # smallmm's own are explained as ever


# --- patching -------------------------------------------------------------------------------------


def test_patches_do_not_stack():
    assert not smallmm.is_patched()
    smallmm.patch_numpy()
    smallmm.patch_numpy()
    with smallmm.patched("numpy"):
        with smallmm.patched():
            assert smallmm.is_patched()
        assert smallmm.is_patched()
    assert smallmm.is_patched()
    smallmm.unpatch_numpy()
    assert not smallmm.is_patched()
    smallmm.unpatch_numpy()
    assert not smallmm.is_patched()


def test_numpy_is_not_unpatched_within_a_context():
    with smallmm.patched("numpy"):
        smallmm.patch_numpy()
        smallmm.unpatch_numpy()
        assert smallmm.is_patched()
    assert not smallmm.is_patched()


def test_errors_of_a_context_unpatch():
    with pytest.raises(KeyError), smallmm.patched("numpy"):
        raise KeyError
    assert not smallmm.is_patched()


def test_unknown_libraries_are_refused():
    with (
        pytest.raises(ValueError, match=r"patched: libraries has 'scipy'; expected 'numpy'"),
        smallmm.patched("scipy"),
    ):
        pass


def test_a_numpy_that_ignores_loops_is_refused(monkeypatch):
    monkeypatch.setattr(patch, "_are_loops_called", lambda *_: False)
    with pytest.raises(RuntimeError, match=r"patch_numpy: NumPy .* ignores exchanged loops of matmul"):
        smallmm.patch_numpy()
    assert not smallmm.is_patched()


def test_unknown_ufuncs_are_refused():
    with pytest.raises(ValueError, match="'tan'"):
        core.exchange_loops("tan", np.tan, True)
    assert core.exchange_loops("matmul", np.add, True) == 0
    assert core.exchange_loops("svd", UFUNCS["inv"], True) == 0


@pytest.mark.parametrize("isa", core.isas_available())
def test_thresholds_of_instruction_sets(isa):
    """AVX-512 has faster kernels for single complex matrices of these orders, others pay from two on."""
    code = """
        import numpy as np, smallmm
        with smallmm.patched("numpy"):
            for function, n in ((np.linalg.eigvalsh, 16), (np.linalg.svd, 12), (np.linalg.inv, 12)):
                plans = [smallmm.explain(function, np.ones((m, n, n), complex)) for m in (1, 2, 8)]
                print(*("smallmm" in str(plan).partition("\\n")[0] for plan in plans))
    """
    environment = {**os.environ, "SMALLMM_ISA": isa}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    single = isa == "avx512"
    expected = [[single, True, True], [single, True, True], [False, False, True]]
    assert done.stdout.split() == [str(x) for row in expected for x in row]


def test_threads_compute_while_numpy_is_patched_and_unpatched(rng):
    """With operands of which no result is rounded, so that all must be equal."""
    a, b = rng.integers(-3, 4, (2, 40, 3, 3)).astype(float)
    powers = np.exp2(rng.integers(-4, 5, (40, 3)))
    scaled = np.eye(3)[rng.permuted(np.tile(np.arange(3), (40, 1)), axis=1)] * powers[..., None]
    squares = np.eye(3) * powers[..., None] ** 2

    def compute():
        with np.errstate(all="raise"):
            products, solutions = (a @ b, np.vecdot(a, b)), (L.inv(scaled), L.solve(scaled, b))
            w, v = L.eigh(squares)  # no det: NumPy takes the exponential of its logarithm
            others = L.slogdet(scaled).sign, L.cholesky(squares), w, v @ v.mT
            return [x.tobytes() for x in (*products, *solutions, *others)]

    wrong, passes, served = differences(compute, smallmm.patch_numpy, smallmm.unpatch_numpy)
    assert not wrong
    assert min(passes)
    assert served
    assert not smallmm.is_patched()


def test_fork_pickle_and_reload(rng):
    a = rng.standard_normal((50, 3, 3))
    with serving():
        assert pickle.loads(pickle.dumps(np.matmul)) is np.matmul
        child = os.fork()
        if not child:
            smallmm.unpatch_numpy()
            os._exit(not (smallmm.is_patched() and np.allclose(a @ a, smallmm.matmul(a, a))))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = """
        import importlib, numpy as np, smallmm
        from smallmm._patching import patch as _patch
        smallmm.patch_numpy()
        _patch = importlib.reload(_patch)
        _patch.patch_numpy()
        print(_patch.is_patched())
        _patch.unpatch_numpy()
        print(_patch.is_patched(), (np.ones((9, 3, 3)) @ np.ones((9, 3, 3))).sum())
    """
    importlib.invalidate_caches()
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\nFalse 243.0\n"


def test_importing_patches_nothing(run_python):
    code = """
        import sys, smallmm
        print("smallmm._patching.patch" in sys.modules, smallmm.is_patched())
    """
    assert run_python(code, {"SMALLMM_PATCH": "numpy"}).stdout == "False False\n"


# --- report ---------------------------------------------------------------------------------------


def test_report_counts_what_is_served_and_why_not(rng):
    a = rng.standard_normal((10, 3, 3))
    singular = np.zeros((5, 3, 3))
    with serving(fewest=4):
        a @ a
        a[0] @ a[0]
        a[:2] @ a[:2]
        np.ones((2, 140, 140)) @ np.ones((2, 140, 3))
        with pytest.raises(L.LinAlgError):
            L.inv(singular)
        UFUNCS["inv"](a, out=a)
    report = smallmm.patch_report()
    rows = {(r.function, r.order, r.outcome.partition(":")[0]): (r.calls, r.matrices) for r in report.rows}
    assert rows == {
        ("matmul", 3, "served"): (1, 10),
        ("matmul", 3, "few"): (2, 3),
        ("matmul", 0, "large"): (1, 2),
        ("inv", 3, "exceptional"): (1, 5),
        ("inv", 3, "overlap"): (1, 10),
    }
    assert (report.served, report.handed_on) == (10, 20)
    assert "matmul        3  served           1        10" in str(report)
    assert str(report).startswith("smallmm served 10 matrices and handed 20 on to NumPy\n\nfunction")
    with smallmm.patched("numpy"):
        assert str(smallmm.patch_report()) == "smallmm served 0 matrices and handed 0 on to NumPy"


# --- programs -------------------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
import smallmm
a = np.ones((5_000, 3, 3)) + np.eye(3)
np.linalg.inv(a)
print(__name__, sys.argv[1:], smallmm.is_patched())
sys.exit(3)
"""


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("how", ["script", "module"])
def test_run(tmp_path, how, monkeypatch):
    (tmp_path / "program_to_run.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    source = os.path.dirname(os.path.dirname(smallmm.__file__))
    which = ["-m", "program_to_run"] if how == "module" else [tmp_path / "program_to_run.py"]
    done = python("-m", "smallmm", "run", "--numpy", "--report", *which, "--report", "x", PYTHONPATH=source)
    assert (done.stdout, done.returncode) == ("__main__ ['--report', 'x'] True\n", 3)
    assert "smallmm served 5000 matrices" in done.stderr


def test_errors_of_a_program_are_its_own(tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text("raise ValueError('its own')")
    source = os.path.dirname(os.path.dirname(smallmm.__file__))
    done = python("-m", "smallmm", "run", script, PYTHONPATH=source)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("ValueError: its own\n")


def test_programs_start_patched(tmp_path, capsys):
    assert cli.main(["patch", "status", "--target", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("smallmm-patch.pth: not installed\n")
    cli.main(["patch", "install", "--target", str(tmp_path)])
    assert capsys.readouterr().out.endswith("smallmm-patch.pth: installed\n")
    source = os.path.dirname(os.path.dirname(smallmm.__file__))
    code = f"""
import site, sys
site.addsitedir({str(tmp_path)!r})
print("smallmm" in sys.modules, end=" ")
import smallmm
print(smallmm.is_patched())
"""
    for value, words, said in (
        (None, "False False\n", ""),
        ("numpy", "True True\n", ""),
        (
            "numpi",
            "True False\n",
            "smallmm: SMALLMM_PATCH: libraries has 'numpi'; expected 'numpy' or 'torch'\n",
        ),
    ):
        environment = {"PYTHONPATH": source} | ({"SMALLMM_PATCH": value} if value else {})
        done = python("-c", code, **environment)
        assert (done.stdout, done.stderr) == (words, said)
    cli.main(["patch", "uninstall", "--target", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_notebooks():
    smallmm.load_ipython_extension(None)
    assert smallmm.is_patched()
    smallmm.unload_ipython_extension(None)
    assert not smallmm.is_patched()

"""Scans: a loop of a program has the bits of one call for each time, on arrays of every layout."""

import numpy as np
import pytest
from scans import SCANS, by_calls, compare, drawn, failing

import smallmm
from smallmm._recurrences.scan import Scan

OPTIONS = [
    {},
    {"reverse": True},
    {"every": 3},
    {"every": 3, "reverse": True},
    {"outputs": "last"},
    {"every": 99},
]


def same(found, expected):
    """Whether all that `scan_ex` returns is equal."""
    for x, y in zip(found, expected, strict=True):
        for a, b in zip(*((z if isinstance(z, tuple) else (z,)) for z in (x, y)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SCANS)
def test_every_instruction_set(isa, name, rng):
    for batch in ((301,), (), (5, 7)):
        compare(SCANS[name], *drawn(SCANS[name], rng, 7, batch), OPTIONS[len(batch)])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["filtered", "solved", "number"])
def test_what_is_kept(name, options, rng):
    for times in (1, 2, 9):
        compare(SCANS[name], *drawn(SCANS[name], rng, times, (6,)), options)


def test_steps_that_outputs_alone_need(rng):
    """Kernels of devices ask for them, too."""
    carry, xs, consts = drawn(SCANS["solved"], rng, 2, ())
    plan = Scan("scan", SCANS["solved"].function, carry, xs, consts, None, {}).plan
    program = plan.program_of([*carry, *(x[0] for x in xs), *consts])
    names = [step.name for step in plan.steps]
    assert names == ["add", "solve", "tanh", "absolute", "negative", "exp"]
    assert program.steps_for_outputs(1) == (3, 4, 5)
    assert program.steps_for_outputs(0) == (0, 1, 2, 3, 4, 5)
    with pytest.raises(ValueError, match="a program has no 9 carries"):
        program.steps_for_outputs(9)


def layouts(x, core):
    """The same numbers in memory that lies otherwise."""
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, axis=0)[::2]
    yield np.flip(np.flip(x, 0).copy(), 0)
    if x.ndim > 1 + core:
        yield np.repeat(x, 3, axis=1)[:, ::3]
        yield np.flip(np.flip(x, 1).copy(), 1)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    yield unaligned


@pytest.mark.parametrize("name", ["filtered", "product_complex", "solved", "number"])
def test_layouts(name, rng):
    case = SCANS[name]
    for batch in ((5,), (3, 4), ()):
        carry, xs, consts = drawn(case, rng, 4, batch)
        for other in layouts(xs[0], len(case.xs[0])):
            compare(case, carry, (other, *xs[1:]), consts, {"reverse": True})
        for other in layouts(carry[0], len(case.carry[0])) if carry[0].ndim else ():
            compare(case, (other, *carry[1:]), xs, consts, {})


def test_broadcasting(rng):
    """Carries, xs and consts each have the batch dimensions that they need."""
    case = SCANS["filtered"]
    carry, xs, consts = drawn(case, rng, 5, (3, 4))
    one, _, own = drawn(case, rng, 5, (4,))
    compare(case, one, xs, consts, {})
    compare(case, (one[0], carry[1][:1]), xs, (own[0], *consts[1:]), {})
    compare(case, carry, (xs[0][:, :1, :1],), consts, {"every": 2})
    compare(case, carry, (xs[0][:, 0, 0],), consts, {})


def test_results_are_as_the_carry_was_given(rng):
    a = rng.standard_normal((6, 10, 3, 3))
    c = np.eye(3)
    carry, ys = smallmm.scan(SCANS["product"].function, c, a)
    assert isinstance(carry, np.ndarray)
    assert carry.shape == (10, 3, 3)
    assert ys.shape == a.shape
    (again,), _ = smallmm.scan(SCANS["product"].function, (c,), [a])
    np.testing.assert_array_equal(again, carry)
    x = smallmm.KalmanStepResult(np.zeros(4), np.eye(4))
    z, f, h, q, r = rng.standard_normal((6, 2)), np.eye(4), np.eye(2, 4), np.eye(4), np.eye(2)
    carry, ys = smallmm.scan(smallmm.kalman_step, x, z, consts=(f, h, q, r))
    assert type(carry) is smallmm.KalmanStepResult
    assert ys == ()
    assert carry.x.shape == (4,)


def test_plain_functions_and_numbers():
    """A function that is not fused takes numbers; a carry of integers becomes what it makes of them."""
    carry, ys = smallmm.scan(lambda c, x: (c + x, c * x), 0, np.arange(1.0, 5))
    assert carry == 10.0
    assert isinstance(carry, np.floating)
    np.testing.assert_array_equal(ys, [0, 2, 9, 24])
    carry, ys = smallmm.scan(lambda c: 0.5 * c, np.float32(8), length=3)
    assert (carry, carry.dtype, ys) == (1.0, np.float32, ())
    carry, _ = smallmm.scan(lambda c, x: c + x, np.zeros(3, np.int64), np.ones((2, 3), np.float32))
    assert carry.dtype == np.float64


def test_nothing_to_do(rng):
    case = SCANS["filtered"]
    carry, xs, consts = drawn(case, rng, 0, (3,))
    found, ys = smallmm.scan(case.function, carry, xs, consts=consts)
    np.testing.assert_array_equal(found[1], carry[1])
    assert ys.shape == (0, 3, 4)
    assert ys.dtype == np.float64
    carry, xs, consts = drawn(case, rng, 4, (0,))
    found, ys = smallmm.scan(case.function, carry, xs, consts=consts)
    assert found[0].shape == (0, 4)
    assert ys.shape == (4, 0, 4)


def test_threads(rng):
    """The same bits, whatever the number of threads."""
    case = SCANS["solved"]
    operands = drawn(case, rng, 40, (3000,), some_fail=True)
    with smallmm.threads(1):
        expected = smallmm.scan_ex(case.function, *operands[:2])
    with smallmm.threads(3):
        found = smallmm.scan_ex(case.function, *operands[:2])
    same(found, expected)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"every": 2}], ids=str)
def test_failures(options, rng):
    """Each series' first failure, and its time; the others go on."""
    case = SCANS["solved"]
    operands = drawn(case, rng, 12, (50,), some_fail=True)
    info, time = failing(case, *operands, **options)
    assert np.count_nonzero(info) not in (0, 50)
    found = smallmm.scan_ex(case.function, *operands[:2], **options)
    np.testing.assert_array_equal(found.info, info)
    np.testing.assert_array_equal(found.time, time)
    with pytest.raises(
        smallmm.LinAlgError, match=rf"scan: solve, the 2nd step, fails in {np.count_nonzero(info)} of 50"
    ) as e:
        smallmm.scan(case.function, *operands[:2], **options)
    first = np.flatnonzero(info)[0]
    assert f"time {time[first]} " in str(e.value)
    np.testing.assert_array_equal(e.value.info, info)
    np.testing.assert_array_equal(e.value.time, time)
    assert e.value.step.name == "solve"
    np.testing.assert_array_equal(e.value.result.carry[0], found.carry[0])
    with pytest.raises(smallmm.LinAlgError, match="scan_ex: solve, the 2nd step, fails"):
        smallmm.scan_ex(case.function, *operands[:2], check_errors=True, **options)
    fine = smallmm.scan_ex(case.function, *drawn(case, rng, 3, (4,))[:2])
    assert not fine.info.any()
    assert (fine.time == -1).all()
    free = smallmm.scan_ex(SCANS["number"].function, 1.0, np.ones((2, 3)), consts=2.0)
    assert not free.info.any()
    assert (free.time == -1).all()


def test_out(rng):
    case = SCANS["solved"]
    carry, xs, _ = drawn(case, rng, 5, (4,))
    expected = smallmm.scan(case.function, carry, xs)
    out = np.empty((5, 4, 3)), np.empty((5, 4, 3), np.float32)
    with pytest.raises(TypeError, match=r"scan: out\[1\] has dtype int64; the result is float64"):
        smallmm.scan(case.function, carry, xs, out=(out[0], np.empty((5, 4, 3), int)))
    found = smallmm.scan(case.function, carry, xs, out=(out[0], None))
    assert found.ys[0] is out[0]
    np.testing.assert_array_equal(out[0], expected.ys[0])
    smallmm.scan(case.function, carry, xs, out=(xs[1], None))  # what is read is not lost
    np.testing.assert_array_equal(xs[1], expected.ys[0])
    with pytest.raises(ValueError, match=r"scan: out\[0\] is .*; expected shape \(5, 4, 3\)"):
        smallmm.scan(case.function, carry, xs, out=(np.empty(3), None))
    with pytest.raises(TypeError, match="scan: out has 1 arrays; expected 2"):
        smallmm.scan(case.function, carry, xs, out=out[0])


@pytest.mark.parametrize(
    "options", [{}, {"reverse": True}, {"every": 7}, {"every": 7, "reverse": True}], ids=str
)
def test_progress(options, rng, capsys):
    """It comes in parts, which changes no bit."""
    case = SCANS["solved"]
    operands = drawn(case, rng, 200, (5,), some_fail=True)[:2]
    expected = smallmm.scan_ex(case.function, *operands, **options)
    seen = []
    found = smallmm.scan_ex(case.function, *operands, progress=lambda *x: seen.append(x), **options)
    assert len(seen) > 10
    assert seen[-1] == (200, 200)
    assert seen == sorted(seen)
    same(found, expected)
    smallmm.scan(smallmm.fuse(lambda c: 0.5 * c), np.zeros(3), length=60, progress=True)
    assert capsys.readouterr().err.endswith("\rscan: 60 of 60 times\n")


def test_bad_input(rng):
    f = SCANS["product"].function
    a, c = rng.standard_normal((5, 3, 3)), np.eye(3)
    longer = smallmm.fuse("(n),(m)->(m)")(lambda c, x: x)
    one = smallmm.fuse("(n),(n)->(n)")(lambda c, x: x)
    for wrong, message in (
        (lambda: smallmm.scan(3, c, a), "scan: function is 3; expected a function"),
        (lambda: smallmm.scan(f, c, a, outputs="none"), "scan: outputs is 'none'; expected 'all' or 'last'"),
        (lambda: smallmm.scan(f, c, a, every=0), "scan: every is 0; expected an integer of at least 1"),
        (lambda: smallmm.scan(f, (), a), "scan: carry has no arrays"),
        (lambda: smallmm.scan(f, c), "product: argument|product: a is missing|without xs, length"),
        (lambda: smallmm.scan(f, c, a, length=4), r"xs\[0\] has 5 times, but length is 4"),
        (lambda: smallmm.scan(f, c, a, length=-1), "length is -1; expected an integer of at least 0"),
        (lambda: smallmm.scan(f, c, 3.0), r"xs\[0\] is a number; expected times as its first dimension"),
        (lambda: smallmm.scan(f, c, (a, a)), "product: 3 arrays are given"),
        (lambda: smallmm.scan(f, np.eye(2), a), r"product: a has shape \(3, 3\)"),
        (lambda: smallmm.scan(longer, np.ones(2), np.ones((4, 3))),
         r"carry 0 has shape \(2,\), and .* makes one of shape \(\.\.\., 3\)"),
        (lambda: smallmm.scan(one, (np.ones(2), np.ones(2)), length=3),
         "returns 1 arrays; expected at least 2, the next carry"),
        (lambda: smallmm.scan(f, c, np.ma.masked_equal(a, a[0, 0, 0])), "scan: xs is a masked array, 1 of"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            wrong()


@pytest.mark.needs_library
def test_torch(torch, rng):
    for name in ("filtered", "solved", "number", "product12"):
        for options in OPTIONS:
            compare(
                SCANS[name], *drawn(SCANS[name], rng, 6, (9,)), options, torch.from_numpy, lambda x: x.numpy()
            )
    case = SCANS["product"]
    carry, xs, _ = drawn(case, rng, 4, (2,))
    found, ys = smallmm.scan(case.function, torch.from_numpy(carry[0]), torch.from_numpy(xs[0]))
    assert isinstance(found, torch.Tensor)
    assert isinstance(ys, torch.Tensor)


@pytest.mark.needs_library
def test_jax(jax, rng):
    """Also where it compiles: then the times are those of the compiled function."""
    case = SCANS["filtered32"]
    operands = drawn(case, rng, 3, (4,))
    compare(case, *operands, {}, jax.numpy.asarray, np.asarray)
    expected, expected_ys = by_calls(case, *operands)
    found = jax.jit(lambda c, x, k: smallmm.scan(case.function, c, x, consts=k))(*operands)
    np.testing.assert_allclose(found.carry[0], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.ys, expected_ys[0], rtol=1e-5, atol=1e-6)

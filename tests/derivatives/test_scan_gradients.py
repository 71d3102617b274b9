"""Derivatives of scans: by scans in the other direction, against PyTorch's own checks, calls time after time,
and a loop in PyTorch; JAX's by its own loop, against differences."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scans import SCANS, drawn

import smallmm
from smallmm._recurrences.scan import Scan
from smallmm._recurrences.times import Times

OPTIONS = {
    "all": {},
    "reverse": {"reverse": True},
    "every": {"every": 3},
    "every reverse": {"every": 3, "reverse": True},
    "last": {"outputs": "last"},
}
DOUBLE = [name for name, case in SCANS.items() if case.dtype in ("f8", "c16")]
SYMMETRIC = {"filtered": (1, 5, 6), "spectrum": (0,)}  # operands of which one triangle is read


@smallmm.fuse("(n),(n,n),(),(m),(n,n),(m,n),(n,n),(m,m)->(n),(n,n),()")
def likelihood(x, p, total, z, f, h, q, r):
    """A Kalman filter, and the log-likelihood of its measurements."""
    x, p = f @ x, f @ p @ f.mT + q
    lower = np.linalg.cholesky(h @ p @ h.mT + r)
    white = smallmm.solve_triangular(lower, z - h @ x, lower=True)
    w = smallmm.solve_triangular(lower, h @ p, lower=True)
    total = total - 0.5 * (white @ white) - np.log(np.diagonal(lower)).sum()
    return x + w.mT @ white, p - w.mT @ w, total


def likelihood_of_torch(torch, x, p, total, z, f, h, q, r):
    """The same as PyTorch has it."""
    x, p = x @ f.mT, f @ p @ f.mT + q
    lower = torch.linalg.cholesky(h @ p @ h.mT + r)
    white = torch.linalg.solve_triangular(lower, (z - x @ h.mT)[..., None], upper=False)[..., 0]
    w = torch.linalg.solve_triangular(lower, h @ p, upper=False)
    total = total - 0.5 * (white * white).sum(-1) - lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return x + (w.mT @ white[..., None])[..., 0], p - w.mT @ w, total


def tensors(torch, arrays, dtype=None):
    arrays = [x if dtype is None else x.astype(dtype) for x in arrays]
    return [torch.from_numpy(x).requires_grad_() for x in arrays]


def flat(result):
    """The carries and the ys in a row."""
    carry, ys = result
    return (*carry, *(ys if isinstance(ys, tuple) else (ys,)))


def function_of_all(name, counts, options, scan=smallmm.scan):
    """Of carries, x and constants in a row; of symmetric matrices where one triangle is read."""
    n, m = counts[0], sum(counts[:2])

    def function(*operands):
        operands = [(x + x.mT) / 2 if i in SYMMETRIC.get(name, ()) else x for i, x in enumerate(operands)]
        return flat(scan(SCANS[name].function, operands[:n], operands[n:m], consts=operands[m:], **options))

    return function


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", DOUBLE)
def test_gradients(name, options, rng, torch):
    """Of first and second order, against differences."""
    operands = drawn(SCANS[name], rng, 7, (2,))
    arrays = [x for side in operands for x in tensors(torch, side)]
    function = function_of_all(name, list(map(len, operands)), OPTIONS[options])
    torch.autograd.gradcheck(function, arrays, fast_mode=True, atol=1e-4)
    torch.autograd.gradgradcheck(function, arrays, fast_mode=True, atol=1e-4)


def gradients(torch, function, arrays, weights):
    results = function(*arrays)
    loss = sum((w * x).sum().real for w, x in zip(weights, results, strict=True))
    return results, torch.autograd.grad(loss, arrays)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", SCANS)
def test_against_calls(name, options, rng, torch, monkeypatch):
    """Batch dimensions differ, and times are no multiple of a segment. The results have the bits of a scan
    that is not differentiated."""
    case = SCANS[name]
    carry, xs, consts = drawn(case, rng, 23, (3, 2))
    operands = [x[0, :1] for x in carry], [x[:, 0] for x in xs], list(consts)
    if len(xs) > 1:
        operands[1][1] = xs[1]
    arrays = [x for side in operands for x in tensors(torch, side)]
    function = function_of_all(name, list(map(len, operands)), OPTIONS[options])
    with torch.no_grad():
        expected = function(*arrays)
    weights = [torch.from_numpy(rng.standard_normal(tuple(x.shape)).astype(case.dtype)) for x in expected]
    results, found = gradients(torch, function, arrays, weights)
    for x, y in zip(results, expected, strict=True):
        assert torch.equal(x, y)
        assert x.requires_grad
    monkeypatch.setattr(Scan, "_differentiated", lambda *args: None)
    _, wanted = gradients(torch, function, arrays, weights)
    tolerance = 1e-9 if case.dtype in ("f8", "c16") else 2e-3
    for x, y, z in zip(found, wanted, arrays, strict=True):
        assert (x.shape, x.dtype) == (z.shape, z.dtype)
        assert (x - y).norm() <= tolerance * (1 + y.norm())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("every", [1, 2, 3, 7, 12, 30])
def test_parts(every, reverse):
    """Each time runs once, and what is kept is what a part writes last in its place."""
    for length in range(1, 30):
        times = Times(length, every, reverse)
        expected = {place: t for t, place in times.in_order() if place >= 0}
        for count in (1, 2, 5, 30):
            parts = list(times.parts(count))
            assert [x.done for x in parts] == [sum(x.length for x in parts[:i]) for i in range(len(parts))]
            assert sum(x.length for x in parts) == length
            assert len(parts) <= 2 * count + 1
            sign, written = -1 if reverse else 1, {}
            for part in parts:
                ends = [i for i in range(part.length) if (part.length - 1 - i) % every == 0]
                written |= {part.place + sign * i: part.first + sign * t for i, t in enumerate(ends)}
            assert written == expected


@smallmm.fuse
def counted(c, n, x, k):
    return c * x + n * k, n + n, c + k


def test_operands_of_other_kinds(rng, torch):
    """A carry that is promoted, one of integers, x that all series share, a constant of NumPy; progress."""
    c = torch.rand(2, requires_grad=True)
    x = torch.rand(6, dtype=torch.float64, requires_grad=True)
    n = torch.tensor([1, 3])
    shown = []
    operands = (c, n), x
    (end, count), ys = smallmm.scan(
        counted, *operands, consts=np.array(0.5), progress=lambda done, all_times: shown.append(done)
    )
    assert shown == [1, 2, 3, 4, 5, 6]
    assert count.tolist() == [64.0, 192.0]
    found = torch.autograd.grad(end.sum() + (ys**2).sum(), (c, x))
    state, total = c.double(), 0
    for t in range(6):
        total = total + ((state + 0.5) ** 2).sum()
        state = state * x[t] + n * 2**t * 0.5
    expected = torch.autograd.grad(state.sum() + total, (c, x))
    for y, z in zip(found, expected, strict=True):
        torch.testing.assert_close(y, z)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_sums_of_halves_are_float32(name, torch):
    dtype = getattr(torch, name)

    @smallmm.fuse
    def moved(c, x, k):
        return (0.5 * c + k * x,)

    k = torch.tensor(0.01, dtype=dtype, requires_grad=True)
    c, x = torch.zeros(2, dtype=dtype), torch.ones(6000, 2, dtype=dtype)
    (end,) = smallmm.scan(moved, (c,), x, consts=k).carry
    assert torch.autograd.grad(end.sum(), k)[0] == 4
    total = smallmm.scan(lambda c, x, k: c * 1 + k * x, c.float(), x.float(), consts=k.float()).carry
    assert torch.autograd.grad(total.sum(), k)[0] == 12000


def test_a_step_without_a_rule(torch):
    """PyTorch is handed each time, and hears which step has no derivative."""

    @smallmm.fuse("(n),(m,n)->(n)")
    def factored(c, a):
        return c + smallmm.qr(a, mode="raw")[0][0, 0]

    a = torch.eye(2, 3, dtype=torch.float64).repeat(4, 1, 1)
    end, _ = smallmm.scan(factored, torch.zeros(3, dtype=torch.float64), a)
    assert end.tolist() == [4, 4, 4]
    assert factored(end, a[0]).tolist() == [5, 5, 5]
    with pytest.raises(TypeError, match="requires a gradient, which smallmm does not compute"):
        smallmm.scan(factored, torch.zeros(3, dtype=torch.float64), a.requires_grad_())


def draw_filter(rng, torch, times, series, dtype="f8"):
    """Measurements of a filter whose q and r are to be found, and what is known of it."""
    f = np.array([[1, 0.3], [-0.1, 0.9]])
    h = np.array([[1.0, 0.5]])
    states, x = [], np.zeros((series, 2))
    for _ in range(times):
        x = x @ f.T + 0.5 * rng.standard_normal((series, 2))
        states.append(x @ h.T + 0.2 * rng.standard_normal((series, 1)))
    z = np.stack(states)
    start = np.zeros((series, 2)), np.broadcast_to(np.eye(2), (series, 2, 2)), np.zeros(series)
    return [torch.from_numpy(x.astype(dtype)) for x in (*start, z, f, h)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_likelihood_of_a_filter(dtype, rng, torch):
    """Its gradient is that of a loop in PyTorch, and leads Adam to better q and r."""
    *start, z, f, h = draw_filter(rng, torch, 60, 5, dtype)
    sizes = [torch.zeros(2, dtype=z.dtype).requires_grad_(), torch.zeros(1, dtype=z.dtype).requires_grad_()]

    def of_scan():
        q, r = (torch.diag(x.exp()) for x in sizes)
        carry, ys = smallmm.scan(likelihood, tuple(start), z, consts=(f, h, q, r))
        assert ys == ()
        return carry[2].sum()

    def of_loop():
        q, r = (torch.diag(x.exp()) for x in sizes)
        carry = start
        for x in z:
            carry = likelihood_of_torch(torch, *carry, x, f, h, q, r)
        return carry[2].sum()

    found, expected = (torch.autograd.grad(x(), sizes) for x in (of_scan, of_loop))
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-3 if dtype == "f4" else 1e-10, atol=0)
    optimizer = torch.optim.Adam(sizes, lr=0.1)
    values = []
    for _ in range(20):
        optimizer.zero_grad()
        value = of_scan()
        (-value).backward()
        optimizer.step()
        values.append(value.item())
    assert values == sorted(values)
    assert values[-1] > values[0] + 10


@pytest.mark.parametrize("options", [{}, {"outputs": "last"}, {"every": 2500}])
def test_memory(options, rng, torch):
    """Some hundred times what is carried, of 10,000 times, whatever is kept of the outputs."""
    times, series = 10_000, 20
    name = "product"
    a = torch.from_numpy(np.eye(3) + 0.1 * rng.standard_normal((times, 3, 3))).requires_grad_()
    c = torch.eye(3, dtype=torch.float64).expand(series, 3, 3).clone().requires_grad_()
    end, _ = smallmm.scan(SCANS[name].function, c, a[:5], **options)
    torch.autograd.grad(end.sum(), (c, a))  # makes the programs
    tracemalloc.start()
    try:
        carry, ys = smallmm.scan(SCANS[name].function, c, a, **options)
        before = tracemalloc.get_traced_memory()[0]
        torch.autograd.grad(carry.sum(), (c, a))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    a_state = 8 * 9 * series
    outputs = ys.numel() * 8
    assert before - outputs < 150 * a_state
    assert peak - outputs < 800 * a_state


@pytest.mark.parametrize(
    ("name", "options"),
    [("number", x) for x in OPTIONS]
    + [("filtered", "every reverse"), ("product_complex", "every"), ("solved", "last")],
)
def test_jax(name, options, rng, jax):
    """Within jit, grad and vmap JAX has a loop; here it computes in float32."""
    case, options = SCANS[name], OPTIONS[options]
    sides = drawn(case, rng, 7, (2,))
    operands = [x for side in sides for x in side]
    function = function_of_all(name, list(map(len, sides)), options)
    expected = function(*operands)
    weights = [rng.standard_normal(x.shape) for x in expected]

    def loss(*arrays):
        return sum((w * x).sum().real for w, x in zip(weights, function(*arrays), strict=True))

    arrays = list(map(jax.numpy.asarray, operands))
    first, *others = arrays
    results = jax.jit(function)(*arrays)
    mapped = jax.vmap(lambda x: function(x, *others))(jax.numpy.stack([first, 2 * first]))
    for x, y, z in zip(results, mapped, expected, strict=True):
        assert x.shape == z.shape
        np.testing.assert_allclose(x, z, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(y[0], z, rtol=2e-4, atol=2e-4)
    found = jax.grad(loss, tuple(range(len(arrays))))(*arrays)
    moved = [rng.standard_normal(x.shape) for x in operands]
    ends = [loss(*(x + sign * 1e-6 * d for x, d in zip(operands, moved, strict=True))) for sign in (1, -1)]
    along = sum((np.asarray(g) * d).sum().real for g, d in zip(found, moved, strict=True))
    np.testing.assert_allclose(along, (ends[0] - ends[1]) / 2e-6, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("options", [{}, {"reverse": True}])
def test_info_within_jit(options, rng, jax):
    case = SCANS["solved"]
    carry, xs, _ = drawn(case, rng, 9, (12,), some_fail=True)

    def run(carry, xs):
        return tuple(smallmm.scan_ex(case.function, carry, xs, **options)[2:])

    expected = run(carry, xs)
    assert expected[1].max() > 0
    assert expected[1].min() == -1
    for x, y in zip(jax.jit(run)(carry, xs), expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_loop_of_jax_is_compiled_once(rng, jax):
    """However many times there are."""
    sizes = []
    for times in (5, 500):
        a, c = jax.numpy.ones((times, 3, 3)), jax.numpy.ones((2, 3, 3))
        function = jax.grad(lambda c, a: smallmm.scan(SCANS["product"].function, c, a).carry.sum())
        sizes.append(len(str(jax.make_jaxpr(function)(c, a))))
    assert sizes[1] < 1.1 * sizes[0]

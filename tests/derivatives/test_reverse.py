"""Backward passes in one pass: each against central differences, of real and complex numbers, and their own
backward passes, too. What PyTorch makes of them is tested in `test_gradients`."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import random_numbers, random_program

import smallmm
from smallmm import fuse
from smallmm._derivatives.backward import OfSteps, backward_of_plan
from smallmm._derivatives.reverse import _CONSTANT, _ELEMENTWISE

STEP = 1e-6

# name: (core shapes of the operands, function); those of "positive" take numbers above 0.5
OF_NUMBERS = {
    "copy": ("x", lambda x: (x.mT + 0).reshape(-1)),
    "negative": ("x", lambda x: -x),
    "absolute": ("x", np.abs),
    "exp": ("x", np.exp),
    "expm1": ("x", np.expm1),
    "sin": ("x", np.sin),
    "cos": ("x", np.cos),
    "tan": ("x", np.tan),
    "tanh": ("x", np.tanh),
    "erf": ("x", lambda x: x.__array_namespace__().erf(x)),
    "erfc": ("x", lambda x: x.__array_namespace__().erfc(x)),
    "ndtr": ("x", lambda x: x.__array_namespace__().ndtr(x)),
    "sqrt": ("p", np.sqrt),
    "log": ("p", np.log),
    "log1p": ("p", np.log1p),
    "square": ("x", lambda x: x**2),
    "cube": ("x", lambda x: x**3),
    "reciprocal": ("p", lambda x: x**-1),
    "add": ("xx", lambda x, y: x + 2 * y[0]),
    "subtract": ("xx", lambda x, y: x[:, :1] - y),
    "multiply": ("xx", lambda x, y: x * y[1]),
    "divide": ("xp", lambda x, y: x / y),
    "power": ("px", lambda x, y: x**y),
    "minimum": ("xx", np.minimum),
    "maximum": ("xx", np.maximum),
    "copysign": ("xx", np.copysign),
    "arctan2": ("xx", np.arctan2),
    "where": ("xx", lambda x, y: np.where(x.real > y.real, x * x, y)),
    "clip": ("x", lambda x: np.clip(x, -0.5, 0.5)),
    "scaled": ("p", lambda x: smallmm.vector_norm(x, axis=-1)),
    "floor": ("x", lambda x: x * np.floor(x)),
    "ceil": ("x", lambda x: x * np.ceil(x)),
    "sign": ("x", lambda x: x * np.sign(x)),
}
OF_ARRAYS = {
    "row": ("x", lambda x: x[1] * x[:, 2].sum()),
    "steps": ("x", lambda x: x[::2, ::-1] * x[:2, 2::-2][:, :1]),
    "new axes": ("x", lambda x: x[:, None, 1:] * x[None, :, :1]),
    "nothing": ("x", lambda x: np.concatenate([x[3:], x[:2]])),
    "permuted": ("x", lambda x: x.mT @ x),
    "reshaped": ("x", lambda x: x.reshape(-1)[2:7]),
    "broadcast": ("x", lambda x: np.broadcast_to(x[0], (4, 3)) * np.arange(12.0).reshape(4, 3)),
    "diagonal": ("x", lambda x: np.diagonal(x) * np.diagonal(x, 1).sum() + np.diagonal(x, -1)[0]),
    "diagonals of rows": ("x", lambda x: np.diagonal(x[:2], -1) * np.diagonal(x[:, :2], 1)),
    "joined": ("xx", lambda x, y: np.concatenate([x, y * y, x[:1]], axis=0)),
    "stacked": ("xx", lambda x, y: np.stack([x, y], axis=1) * x[:, None]),
    "sum": ("x", lambda x: x.sum(axis=0) * x.mean()),
    "long sum": ("x", lambda x: np.broadcast_to(x[..., None], (3, 3, 70)).reshape(-1).sum()),
    "sum of 64": ("x", lambda x: np.broadcast_to(x[0, :2, None], (2, 32)).reshape(-1).sum()),
    "prod": ("x", lambda x: x.prod(axis=-1)),
    "cumsum": ("x", lambda x: np.cumsum(x, axis=0) ** 2),
    "stretches": ("x", lambda x: x[0, 1:] * x[2, :2] + x[0, :2] * x[-1, 0] + x.reshape(-1)[4] * x.mT[1, 1:]),
    "triangle": ("x", lambda x: np.tril(x) @ np.triu(x, 1)),
    "solve": ("xx", lambda x, y: np.linalg.solve(x, y)),
    "solve of a vector": ("xx", lambda x, y: np.linalg.solve(x, y[0])),
    "inv": ("x", lambda x: np.linalg.inv(x) @ x[0]),
    "cholesky": ("x", lambda x: np.linalg.cholesky(x @ x.conj().mT + np.eye(3))),
    "matvec": ("xx", lambda x, y: x @ y[0] + y[1] @ x),
    "norm": ("x", smallmm.matrix_norm),
    "trace": ("x", lambda x: smallmm.trace(x) * x[0]),
    "einsum": ("xx", lambda x, y: np.einsum("ij,jk,kl->il", x, y, x)),
    "slogdet": ("x", lambda x: np.linalg.slogdet(x)[1]),
}
ONLY_REAL = {
    *("expm1", "erf", "erfc", "ndtr", "log1p", "minimum", "maximum", "copysign", "arctan2", "clip"),
    *("floor", "ceil", "sign"),
}
CASES = [
    (name, dtype)
    for name in (*OF_NUMBERS, *OF_ARRAYS)
    for dtype in ("f8", "c16")
    if dtype == "f8" or name not in ONLY_REAL
]


def operands(rng, kinds, dtype, batch=(4,)):
    arrays = []
    for kind in kinds:
        x = rng.standard_normal((*batch, 3, 3))
        x = 0.5 + np.abs(x) if kind == "p" else x
        arrays.append(x + 1j * rng.standard_normal(x.shape) if dtype == "c16" else x)
    return arrays


def backward_pass(function, kinds, arrays):
    """The fused function, and its backward pass for such arrays."""
    fused = fuse(function, ",".join(["(3,3)"] * len(kinds)))
    plan = fused._plan(fused._operands(tuple(arrays)), {})
    return fused, backward_of_plan(fused, plan, {})


def weighted(weights, x):
    """Re sum(conj(G) x), of each matrix."""
    product = (np.conj(weights) * x).real
    return product.reshape(len(product), -1).sum(axis=-1)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_against_differences(name, dtype, rng):
    kinds, function = {**OF_NUMBERS, **OF_ARRAYS}[name]
    arrays = operands(rng, kinds, dtype)
    fused, backward = backward_pass(function, kinds, arrays)
    result = np.asarray(fused(*arrays))
    grad = operands(rng, "x", "c16" if result.dtype.kind == "c" else "f8", (*result.shape, 1))[0][
        ..., 0, 0, 0
    ]
    grad = np.ascontiguousarray(grad, result.dtype)
    wanted = tuple(range(len(arrays)))
    found = backward.gradients(arrays, (), (grad,), wanted)
    moved = [x - x.conj().sum() / x.size for x in operands(rng, "x" * len(kinds), dtype)]
    ends = [fused(*(x + sign * STEP * d for x, d in zip(arrays, moved, strict=True))) for sign in (1, -1)]
    expected = weighted(grad, (ends[0] - ends[1]) / (2 * STEP))
    along = sum(weighted(g, d) for g, d in zip(found, moved, strict=True))
    assert [g.shape for g in found] == [x.shape for x in arrays]
    assert all(g.dtype == x.dtype for g, x in zip(found, arrays, strict=True))
    np.testing.assert_allclose(along, expected, rtol=2e-6, atol=2e-6)


def test_every_function_has_a_case_and_a_rule():
    from smallmm import _core

    assert {*_ELEMENTWISE, *_CONSTANT, "copy"} == set(_core.functions)
    assert set(_ELEMENTWISE) <= set(OF_NUMBERS)


@pytest.mark.parametrize("name", ["tanh", "divide", "where", "steps", "diagonal", "solve", "norm"])
def test_backward_pass_of_a_backward_pass(name, rng):
    """Its operands are those of the function and the gradient: a function of matrices itself."""
    kinds, function = {**OF_NUMBERS, **OF_ARRAYS}[name]
    arrays = operands(rng, kinds, "f8", (2,))
    fused, backward = backward_pass(function, kinds, arrays)
    result = np.asarray(fused(*arrays))
    weights = rng.standard_normal(result.shape)
    first = backward._pass((0,), (0,))
    plan = first._plan(first._operands((*arrays, weights)), {})
    second = backward_of_plan(first, plan, {})
    grad = rng.standard_normal(arrays[0].shape)
    nothing = [None] * (len(second.outputs) - 1)
    found = second.gradients((*arrays, weights), (), (grad, *nothing), (0, len(arrays)))
    moved, other = rng.standard_normal(arrays[0].shape), rng.standard_normal(weights.shape)

    def value(t):
        return first(arrays[0] + t * moved, *arrays[1:], weights + t * other)[0]

    expected = weighted(grad, (value(STEP) - value(-STEP)) / (2 * STEP))
    along = weighted(found[0], moved) + weighted(found[1], other)
    np.testing.assert_allclose(along, expected, rtol=1e-5, atol=1e-5)


def test_bits_do_not_depend_on_strides(rng):
    """Where a matrix that is not dense is copied first."""
    x, g = rng.standard_normal((40, 3, 3)), rng.standard_normal((40, 9))
    function = lambda a: np.cumsum(a) * (a.mT @ a).reshape(-1) + a.T.ravel()  # noqa: E731
    found = []
    for own in (x, np.ascontiguousarray(x.mT).mT, np.repeat(x, 2, -1)[..., ::2]):
        _, backward = backward_pass(function, "x", [own])
        found.append(backward.gradients([own], (), (g,), (0,))[0])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_no_step_is_without_elements(rng):
    """What is left of a sum of whole chunks of 64 is none."""
    x, g = rng.standard_normal((2, 3, 3)), np.ones(2)
    _, backward = backward_pass(lambda a: np.broadcast_to(a[0, :2, None], (2, 32)).sum(), "x", [x])
    backward.gradients([x], (), (g,), (0,))
    (plan,) = backward._pass((0,), (0,))._plans.values()
    assert all(0 not in value.shape for step in plan.steps for value in step.results)
    assert plan.on_device() is not None


def test_steps_of_a_sum_of_each_element(rng):
    """As many as of the function itself: its n elements do not each make a vector of n."""
    step = smallmm.fuse("(n)->(n)")(np.cumsum)
    counts = []
    for n in (20, 40):
        backward = backward_of_plan(step, step._plan([rng.standard_normal((1, n))], {}), {})
        one_pass = backward._pass((0,), (0,))
        counts.append(len(one_pass._plan([rng.standard_normal((1, n))] * 2, {}).record.steps))
    assert counts[1] - counts[0] <= 3 * 20


def test_equal_arguments_share_the_gradient(rng):
    x = rng.standard_normal((1, 3, 3))
    _, backward = backward_pass(np.maximum, "xx", [x, x])
    for found in backward.gradients([x, x], (), (np.ones_like(x),), (0, 1)):
        np.testing.assert_array_equal(found, np.full_like(x, 0.5))


def test_powers_at_zero():
    x, y = np.zeros((1, 3, 3)), np.full((1, 3, 3), 2.5)
    y[0, 0] = 0
    _, backward = backward_pass(lambda a, b: a**b, "xx", [x, y])
    for found in backward.gradients([x, y], (), (np.ones_like(x),), (0, 1)):
        np.testing.assert_array_equal(found, np.zeros_like(x))


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_in_the_dtype_of_the_operand(dtype, rng):
    x, y = rng.standard_normal((5, 3, 3)).astype(dtype), rng.standard_normal((5, 3, 3)).astype("f4")
    _, backward = backward_pass(lambda a, b: a @ b * b, "xx", [x, y])
    found = backward.gradients([x, y], (), (np.ones((5, 3, 3), "f4"),), (0, 1))
    assert [g.dtype for g in found] == [x.dtype, y.dtype]
    expected = y @ y.mT
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-5 if dtype == "f4" else 3e-2)


def test_of_what_the_results_do_not_depend_on(rng):
    x = rng.standard_normal((2, 3, 3))
    _, backward = backward_pass(lambda a, b: a + np.floor(b), "xx", [x, x])
    found = backward.gradients([x, x], (), (x,), (0, 1))
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], np.zeros_like(x))


def test_steps_without_a_rule_are_refused(rng):
    x = rng.standard_normal((2, 3, 3))
    backward = OfSteps("f", [2], [2], lambda a: [smallmm.backward_error(a, a, a)])
    with pytest.raises(TypeError, match="backward_error has no derivative"):
        backward.gradients([x], (), (x[:, 0],), (0,))


@pytest.mark.parametrize("seed", range(4))
def test_random_functions_beside_autograd(torch, seed, monkeypatch):
    """PyTorch's derivative of each step is the oracle."""
    rng = np.random.default_rng(seed)
    from smallmm._libraries import torch_operators

    in_one_pass = torch_operators.recorded_program
    compared = 0
    for _ in range(60):
        case = random_program(rng, "dddD")
        function = fuse(case.function, case.signature)
        arrays = [torch.from_numpy(x) for x in case.inputs(rng, (3,))]
        weights, found = [], []
        for recorded in (in_one_pass, lambda *x: None):
            monkeypatch.setattr(torch_operators, "recorded_program", recorded)
            tracked = [x.clone().requires_grad_() for x in arrays]
            results = function.ex(*tracked)[0]
            weights = weights or [torch.from_numpy(random_numbers(rng, x.shape, x.numpy(force=True).dtype))
                                  for x in results]  # fmt: skip
            smooth = [(x, w) for x, w in zip(results, weights, strict=True) if x.requires_grad]
            given = None
            if smooth:
                given = torch.autograd.grad(
                    [x for x, _ in smooth], tracked, [w for _, w in smooth], allow_unused=True
                )
                given = [torch.zeros_like(x) if g is None else g for g, x in zip(given, tracked, strict=True)]
            found.append(given)
        if any(x is None for x in found):  # constant, or so for PyTorch
            continue
        compared += 1
        for x, y in zip(*found, strict=True):
            usable = y.isfinite()  # vectors of equal eigenvalues have no derivative
            scale = max(1.0, float(y[usable].abs().max())) if usable.any() else 1.0
            text = case.describe()
            undefined = ~x.isfinite() if "eig" in text or "svd" in text else torch.zeros_like(usable)
            assert bool((torch.isclose(x, y, rtol=1e-8, atol=1e-8 * scale) | undefined | ~usable).all()), text
    assert compared > 30

"""`explain` of every public function: how, but not what, it computes. `test_plans.py` has the plans."""

import re

import numpy as np
import pytest
from cases import COMPOSITIONS, FUNCTIONS, Function, only_a, table

import smallmm
from smallmm._base import catalog
from smallmm._programs.fused import Fused

CUBE = np.ones((3, 3, 3))
OTHERS = table(
    *(Function(name, lambda a, b: (a, a)) for name in ("batched_matmul", "matmul", "vecdot")),
    *(
        Function(name, only_a)
        for name in ("corr", "cov", "diagonal", "matrix_transpose", "rcond", "whiten", "whitening")
    ),
    Function("congruence", lambda a, b: (a, a)),
    Function("contract", lambda a, b: ("bij,bjk,bkl->bil", a, a, a)),
    Function("conv2d", lambda a, b: (np.ones((2, 3, 8, 8)), np.ones((4, 3, 3, 3)))),
    *(Function(name, lambda a, b: (a[..., 0], a[0, 0], a)) for name in ("gaussian_logpdf", "mahalanobis")),
    Function("kalman_step", lambda a, b: (a[..., 0], a, b[..., 0], a[0], a[0], a[0], a[0])),
    Function("kron_apply", lambda a, b: ([a[0], a[1]], np.ones((5, 16)))),
    Function("matvec", lambda a, b: (a, a[..., 0])),
    Function("ridge", lambda a, b: (a, b, 0.5)),
    Function("sum_factorized", lambda a, b: (CUBE[0], CUBE, CUBE)),
    Function("tensordot", lambda a, b: (a[0], a[1], 1)),
    *(Function(f"tensorinv{ex}", lambda a, b: (a[0].reshape(2, 2, 4),), ind=2) for ex in ("", "_ex")),
    *(Function(f"tensorsolve{ex}", lambda a, b: (a[0].reshape(2, 2, 2, 2), b[0, :2])) for ex in ("", "_ex")),
    *(Function(name, lambda a, b: (a, 2)) for name in ("matrix_power_ex", "sliding")),
    Function("vecmat", lambda a, b: (a[..., 0], a)),
)
CALLS = FUNCTIONS | COMPOSITIONS | OTHERS


@pytest.fixture
def stacks(rng):
    a = rng.standard_normal((50, 4, 4))
    return a @ a.mT + np.eye(4), rng.standard_normal((50, 4, 2))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_call(name, stacks):
    row = CALLS[name]
    a, b = (x.copy() for x in stacks)
    by_name = row.by(lambda *x, **options: smallmm.explain(row.op, *x, **options), *stacks)
    itself = row.by(lambda *x, **options: smallmm.explain(getattr(smallmm, row.op), *x, **options), *stacks)
    for found in (by_name, itself):
        assert found[0] == row.op
        assert type(found) in (smallmm.Explanation, smallmm.FusedExplanation)
    assert type(by_name) is type(itself)
    for given, before in zip(stacks, (a, b), strict=True):
        np.testing.assert_array_equal(given, before)


def test_every_public_function():
    """That computes with arrays has a call above."""
    for name in smallmm.__all__:
        getattr(smallmm, name)  # enters those that are imported when first asked for
    fused = {name for name in smallmm.__all__ if isinstance(getattr(smallmm, name), Fused)}
    explained = {row.op for row in CALLS.values()}
    assert catalog.FUNCTIONS.keys() | catalog.COMPOSITIONS.keys() | fused <= explained


def test_steps(stacks):
    a, _ = stacks
    norms = smallmm.explain("norm", a, axis=(-2, -1))
    assert norms.name == "norm"
    assert (norms.fused, norms.matrices) == (True, 50)
    assert [step.name for step in norms.steps][:3] == ["multiply", "vecmat", "matvec"]
    roots = smallmm.explain(smallmm.sqrtm, a, assume_a="sym")
    assert "eigh" in roots.steps[0].name
    chain = smallmm.explain("einsum", "bij,bjk,bkl->bil", a, a, a)
    assert [step.kernel is not None for step in chain.steps] == [True, True]
    assert smallmm.explain("multi_dot", [a[0], a[1], a[2]]).matrices == 2
    assert smallmm.explain("diagonal", a).kernel is None
    assert smallmm.explain("mahalanobis", a[..., 0], a[0, 0], covariance=a).name == "mahalanobis"
    out = np.full(50, 7.0)
    smallmm.explain("trace", a, out=out)
    assert (out == 7).all()
    assert smallmm.explain("pinv", np.ones((3, 140, 140))).why == "a matrix is larger than the kernels take"
    before = smallmm.cond(a)
    np.testing.assert_array_equal(before, smallmm.cond(a))  # calls go where they went before


def test_what_is_refused(stacks):
    a, _ = stacks
    with pytest.raises(ValueError, match=r"explain: op is 'threads'; expected one of .*solve.*"):
        smallmm.explain("threads", 2)
    with pytest.raises(ValueError, match="norm: axis is 7"):
        smallmm.explain("norm", a, axis=7)
    with pytest.raises(ValueError, match=r"trace: x has shape \(4,\)"):
        smallmm.explain("trace", a[0, 0])
    assert smallmm.cond(a).shape == (50,)


def test_notebooks(stacks):
    a, b = stacks
    page = smallmm.explain("solve", a, b)._repr_html_()
    assert page.startswith("<table><caption>solve: 50 matrices by smm_solve_")
    assert "flops</th>" in page
    assert "found" not in page  # what says nothing
    steps = smallmm.explain("congruence", a, a)._repr_html_()
    assert steps.count("<td>matmul</td><td>(4, 4) (4, 4) (4, 4)</td>") == 2
    with smallmm.patched("numpy"):
        assert "<td>served</td>" in smallmm.explain(np.linalg.inv, a)._repr_html_()
    named = smallmm.fuse("(n,n)->(n,n)")(lambda a: a + 1)
    assert "&lt;lambda&gt;" in named.explain(a)._repr_html_()
    moved = smallmm.explain(smallmm.cuda.offload, smallmm.mahalanobis, a[..., 0], a[0, 0], covariance=a)
    page = moved._repr_html_()
    assert page.count("<table>") == page.count("</table>") == 3  # that of the host, and its steps, within
    assert not re.search(r"<td[^>]*></td><td[^>]*></td>", page)

"""Polar decompositions: SciPy's, with orthonormal factors, of every shape."""

import numpy as np
import pytest

import smallmm


def numbers(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "shape", [(5, 3, 3), (5, 6, 2), (5, 2, 6), (2, 3, 1, 1), (2, 40, 35), (0, 3, 3), (4, 0, 0)]
)
def test_is_scipys(rng, number, shape, side):
    linalg = pytest.importorskip("scipy.linalg")
    a = numbers(rng, shape, number)
    u, p = smallmm.polar(a, side)
    assert u.dtype == p.dtype == number
    assert u.shape == a.shape
    np.testing.assert_array_equal(p, p.conj().mT)
    np.testing.assert_array_equal(smallmm.orthogonalize(a), u)
    tolerance = 1e-3 if number.char in "fF" else 1e-10
    np.testing.assert_allclose(u @ p if side == "right" else p @ u, a, atol=tolerance)
    m, n = shape[-2:]
    identity = u.conj().mT @ u if m >= n else u @ u.conj().mT
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(min(m, n)), identity.shape), atol=tolerance)
    for one, *ours in zip(*(x.reshape(-1, *x.shape[-2:]) for x in (a, u, p) if a.size), strict=True):
        for x, y in zip(ours, linalg.polar(one, side), strict=True):
            np.testing.assert_allclose(x, y, atol=tolerance)


def test_what_surrounds_a_matrix_does_not_matter(rng):
    a = rng.standard_normal((300, 4, 3))
    u, p = smallmm.polar(a)
    for i in (0, 17, 299):
        np.testing.assert_array_equal(smallmm.polar(a[i]).u, u[i])
        np.testing.assert_array_equal(smallmm.polar(np.asfortranarray(a[i])).p, p[i])


def test_out_groups_and_fused_functions(rng):
    a = rng.standard_normal((6, 4, 3))
    expected = smallmm.polar(a)
    out = np.empty((6, 4, 3)), np.empty((6, 3, 3))
    assert smallmm.polar(a, out=out).p is out[1]
    np.testing.assert_array_equal(out[0], expected.u)
    members = [rng.standard_normal(shape) for shape in ((3, 3), (5, 2), (3, 3))]
    found = smallmm.polar(smallmm.Group(members), "left")
    for u, p, x in zip(*found, members, strict=True):
        np.testing.assert_array_equal(u, smallmm.polar(x, "left").u)
        np.testing.assert_array_equal(p, smallmm.polar(x, "left").p)
    rotated = smallmm.fuse("(m,n),(m,n)")(lambda a, b: smallmm.orthogonalize(a.mT @ b))
    b = rng.standard_normal((6, 4, 3))
    np.testing.assert_allclose(rotated(a, b), smallmm.orthogonalize(a.mT @ b), atol=1e-12)


def test_derivative_where_singular_values_are_equal(torch):
    """That of the singular vectors, which PyTorch's would be made of, is infinite there."""
    a = 2 * torch.eye(3, dtype=torch.float64)
    a.requires_grad_()
    moved = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]], dtype=torch.float64)
    (smallmm.orthogonalize(a) * moved).sum().backward()
    skew = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 0]], dtype=torch.float64)
    np.testing.assert_allclose(a.grad, skew / 2, atol=1e-14)
    assert torch.autograd.gradcheck(lambda a: tuple(smallmm.polar(a)), (a,))
    b = torch.diag(torch.tensor([1.0, 2, 4], dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradgradcheck(smallmm.orthogonalize, (b,))


def test_what_is_refused():
    with pytest.raises(ValueError, match="polar: side is 'top'; expected 'right' or 'left'"):
        smallmm.polar(np.eye(2), "top")
    with pytest.raises(TypeError, match=r"polar: out is a ndarray; expected a tuple \(u, p\)"):
        smallmm.polar(np.eye(2), out=np.eye(2))
    with pytest.raises(ValueError, match="orthogonalize: a has shape"):
        smallmm.orthogonalize(np.ones(3))

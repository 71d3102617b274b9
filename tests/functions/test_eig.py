"""Eigenvalues and eigenvectors of general matrices: accuracy on matrices of every kind, conjugate pairs,
phases, bad matrices. Bits, layouts and batches are in test_linalg.py, calls in test_linalg_calls.py."""

from functools import cache

import numpy as np
import pytest
from accuracy import (
    assert_same,
    assert_same_bits,
    bound,
    exactly,
    has_fma,
    has_kernel_of_its_own,
    is_complex,
    norm1,
    real,
    wide_matmul,
)
from matrices import extreme, normal, orthonormal

import smallmm
import smallmm._core as core

pytestmark = pytest.mark.where.with_args(has_kernel_of_its_own)

ORDERS = [*range(1, 10), 12, 15, 16, 17, 24, 31, 32, 33, 64, 129]  # the last is beyond our kernels


def similar(rng, t, dtype):
    """Matrices of these eigenvalues, about: Q T Q^H."""
    q = orthonormal(rng, 3, len(t), len(t), dtype)
    return q @ t @ q.conj().mT


def kinds(rng, n, dtype):
    """Stacks of matrices by name; two of a kind where sums in extended precision take long."""
    info, eye, x = np.finfo(dtype), np.eye(n), normal(rng, (20, n, n), dtype)
    jordan, step = 2 * eye + np.eye(n, k=1), np.eye(n, k=-1)
    far = np.geomspace(1, 1e-100 if info.dtype == np.float64 else 1e-10, n)
    companion = np.where(step > 0, step, x[:9] * (np.arange(n) == n - 1))
    turn = np.zeros((9, n, n)) + eye
    if n > 1:
        angle = rng.uniform(0, 6, 9)
        turn[:, 0, 0] = turn[:, 1, 1] = np.cos(angle)
        turn[:, 1, 0] = np.sin(angle)
        turn[:, 0, 1] = -turn[:, 1, 0]
    stacks = {
        "normal": x,
        "zero": 0 * x[:1],
        "identity": eye[None],
        "diagonal": x[:2] * eye,
        "ones": np.ones((1, n, n)),
        "jordan": jordan[None],
        "jordan, turned": similar(rng, jordan, dtype),
        "nilpotent": np.stack([step, step.T]),
        "nilpotent, turned": similar(rng, step, dtype),
        "cyclic": (step + np.eye(n, k=n - 1))[None],
        "companion": companion,
        "wilkinson's polynomial": (np.diag(np.arange(n) + 1.0) + n * np.eye(n, k=1))[None],
        "rotations": turn,
        "orthonormal": orthonormal(rng, 5, n, n, dtype),
        "symmetric": x[:5] + x[:5].conj().mT,
        "skew": x[:5] - x[:5].conj().mT,
        "triangular": np.concatenate([np.triu(x[:5]), np.tril(x[:5])]),
        "rank one": x[:5, :, :1] @ x[:5, :1],
        "repeated": similar(rng, np.diag(np.where(np.arange(n) < n // 2, 1.0, 2.0)), dtype),
        "clustered": similar(rng, np.diag(1 + np.arange(n) * float(info.eps)) + np.eye(n, k=1), dtype),
        "nearly a pair": x[:3] * float(info.eps) ** 0.5 + (step + np.eye(n, k=1)),
        "graded": x[:4] * far * far[:, None],
        "graded upwards": x[:4] * far[::-1] * far[::-1, None],
        "small integers": rng.integers(-1, 2, (40, n, n)),
        "Frank's": np.where(np.tri(n, k=-2) > 0, 0, n - np.maximum(*np.indices((n, n))))[None],
        "Hessenberg": np.triu(x[:9], -1),
        "nearly triangular": np.triu(x) + np.tril(x, -1) * np.geomspace(0.1, far[-1], 20)[:, None, None],
        "nearly lower": np.tril(x) + np.triu(x, 1) * np.geomspace(0.1, far[-1], 20)[:, None, None],
        "rows of all sizes": x * 2.0 ** rng.integers(-25, 25, (20, n, 1)),
        "in other units": x * (sizes := 2.0 ** rng.integers(-14, 14, (20, n, 1))) / sizes.mT,
        "elements of all sizes": x * 2.0 ** rng.integers(-25, 25, (20, n, n)),
        "ones, zeros and noise": 2.0**15 * rng.integers(0, 2, (40, n, n)) + rng.integers(-2, 3, (40, n, n)),
        "exchanges": np.where(np.add.outer(np.arange(n), np.arange(n)) == n - 1, 1.0, 0)[None],
        "tiny": x[:4] * float(info.tiny),
        "huge": x[:4] * float(info.max / (16 * n)),
    }
    most = None if n <= 64 else 2
    return {name: stack[:most].astype(dtype) for name, stack in stacks.items()}


def balanced(a):
    """The powers of two by which columns are multiplied, and rows divided, as in csrc/reference/eig.c."""
    size, d = np.abs(a).astype(np.longdouble), np.ones(a.shape[:-1], np.longdouble)
    n, most = a.shape[-1], 2.0 ** (300 if np.finfo(a.dtype).dtype == np.float64 else 30)
    beside, joined, before = (size > 0) & ~np.eye(n, dtype=bool), np.ones(d.shape, bool), None
    while before is None or (joined != before).any():
        before = joined
        joined = joined & (beside & joined[..., None]).any(-2) & (beside & joined[..., None, :]).any(-1)
    again, passes = n > 1, 0
    while again and passes < 20:
        again, passes = False, passes + 1
        for i in range(n):
            c, r = (np.linalg.norm(x, axis=-1) for x in (size[..., i], size[..., i, :]))
            usable = joined[..., i] & (c > 0) & (r > 0)
            steps = np.round(np.log2(np.where(usable, r, 1) / np.where(usable, c, 1)) / 2)
            f = (d[..., i] * 2**steps).clip(1 / most, most) / d[..., i]
            f[~(0.95 * (c + r) > c * f + r / f)] = 1
            size[..., i, :] /= f[..., None]
            size[..., i] *= f[..., None]
            d[..., i] *= f
            again |= (f != 1).any()
    return d


def limit_of(a, v):
    return bound("eig", v.dtype if is_complex(a.dtype) else real(v.dtype), a.shape[-1])


def assert_accurate(w, v, a, d, names=None):
    """The bounds of docs/promises.md; a result may be rounded to a multiple of the smallest number."""
    n, limit = a.shape[-1], limit_of(a, v)
    size, grain = norm1(a.astype(np.clongdouble)), 4 * n * np.longdouble(np.finfo(a.dtype).smallest_subnormal)
    wide, w, v = exactly(a.astype(v.dtype), w, v)
    residual = norm1(wide_matmul(wide, v) - v * w[..., None, :])
    allowed = limit * size * d.max(-1) / d.min(-1) + grain
    good = (residual <= allowed) & (np.abs(np.linalg.norm(v, axis=-2) - 1) <= limit).all(-1)
    assert good.all(), (np.max(residual / allowed), names[~good] if names is not None else "")


def assert_balanced_is_accurate(w, v, a, d):
    """The bound of B y - y w of each column, v = D y, where B = D^-1 A D."""
    limit, d = limit_of(a, v), d[..., None]
    wide, w, y = exactly(a.astype(v.dtype), w, v / d)
    b = wide * d.mT / d
    residual, allowed = np.abs(wide_matmul(b, y) - y * w[..., None, :]).sum(-2), limit * np.abs(y).sum(-2)
    size, grain = norm1(b)[..., None], (np.finfo(a.dtype).smallest_subnormal / d).sum(-2)
    assert (residual <= allowed * size + grain).all(), np.max(residual / (allowed * size + grain))


def assert_phases(v):
    """Of each column an element of largest magnitude, but for rounding, is real and positive; and no zero is
    negative."""
    n, size, eps = v.shape[-1], np.abs(v), np.finfo(v.dtype).eps
    largest = size >= size.max(-2, keepdims=True) * (1 - 8 * eps)
    assert (largest & (np.abs(v.imag) <= (2 * eps if n > 32 else 0)) & (v.real > 0)).any(-2).all()
    parts = v.view(real(v.dtype))
    assert n > 32 or not np.signbit(parts[parts == 0]).any()


def assert_pairs(w, v):
    """Of a real matrix: real eigenvalues with real eigenvectors, others in conjugate pairs side by side."""
    j = 0
    while j < len(w):
        if w[j].imag == 0:
            assert (v[:, j].imag == 0).all()
            j += 1
        else:
            assert w[j].imag > 0
            assert w[j + 1] == w[j].conj()
            assert (v[:, j + 1] == v[:, j].conj()).all()
            j += 2


@cache
def all_kinds(n, dtype):
    """Of all instruction sets: the matrices, the names of their kinds, and how they are balanced."""
    stacks = kinds(np.random.default_rng(20261121), n, dtype)
    a = np.concatenate([*stacks.values()])
    return a, np.repeat([*stacks], [len(x) for x in stacks.values()]), balanced(a)


@pytest.mark.accuracy
@pytest.mark.parametrize("n", ORDERS)
def test_accuracy(isa, number, n):
    a, names, d = all_kinds(n, number)
    w, v, info = smallmm.eig_ex(a)
    assert not info.any(), names[info != 0]
    assert (w.dtype, v.dtype) == (np.result_type(number, np.complex64),) * 2
    assert_accurate(w, v, a, d, names)
    assert_phases(v)
    if n <= 32:  # LAPACK permutes, too, and its vectors have the phases that NumPy multiplies with
        assert_balanced_is_accurate(w, v, a, d)
        if number.kind == "f":
            for q in range(len(a)):
                assert_pairs(w[q], v[q])
        assert_same_bits(smallmm.eigvals(a), w)


def matched(x, y):
    """The largest distance of numbers of x and y that are paired, the nearest first."""
    distance = np.abs(x[:, None] - y)
    most = 0
    for _ in x:
        i, j = np.unravel_index(np.nanargmin(distance), distance.shape)
        most = max(most, distance[i, j])
        distance[i, :] = distance[:, j] = np.nan
    return most


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 17, 32, 33, 129])
def test_eigenvalues(isa, number, n, rng):
    """As NumPy's of more digits, where they are well conditioned."""
    a = normal(rng, (20, n, n), number) + 4 * n * np.diag(np.arange(n)).astype(number)
    w = smallmm.eigvals(a)
    for x, values in zip(a, w, strict=True):
        expected = np.linalg.eigvals(x.astype(np.complex128))
        assert matched(values, expected) <= 40 * n * np.finfo(number).eps * np.abs(x).sum(0).max()


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8])
def test_exact_eigenvalues(isa, n):
    """Of companion matrices whose polynomials have the roots of unity, or 1 .. n."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for coefficients in (np.poly(np.arange(1, n + 1)), np.r_[1, np.zeros(n - 1), -1]):
            a = np.eye(n, k=-1)
            a[0] = -coefficients[1:]
            values = mpmath.eig(mpmath.matrix(a.tolist()), left=False, right=False)
            exact = np.array([complex(x) for x in values])
            inverse = np.linalg.cond(np.linalg.eig(a).eigenvectors)
            assert matched(smallmm.eigvals(a), exact) <= 20 * n * 2.0**-53 * inverse * np.abs(a).sum(0).max()


def test_known_matrices(isa):
    w, v = smallmm.eig([[0.0, -1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(w, [1j, -1j])
    np.testing.assert_allclose(v, np.array([[1, 1], [-1j, 1j]]) / np.sqrt(2), rtol=1e-15)
    w, v = smallmm.eig(np.array([[2.0, 1.0], [0.0, 2.0]]))  # one direction only
    np.testing.assert_array_equal(w, [2, 2])
    np.testing.assert_allclose(v, [[1, 1], [0, 0]], atol=1e-15)
    np.testing.assert_array_equal(smallmm.eigvals(np.diag([3.0, -1.0, 2.0])), [3, -1, 2])
    np.testing.assert_array_equal(smallmm.eigvals([[1j]]), [1j])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17, 32, 33, 129])
def test_not_finite(isa, number, n, rng):
    """NaN or an infinity makes that matrix NaN, is no error, and neighbours have the bits they had."""
    count = 40 if n <= 64 else 10
    a = normal(rng, (count, n, n), number)
    good = smallmm.eig(a)
    for bad in (np.nan, np.inf, -np.inf):
        b, at = a.copy(), rng.permutation(count)[: count // 4]
        b[at, n - 1, rng.integers(n)] = bad
        w, v, info = smallmm.eig_ex(b)
        assert not info.any()
        for x, before in zip((w, v), good, strict=True):
            assert (np.isnan(x[at].real) & np.isnan(x[at].imag)).all()
            assert_same_bits(np.delete(x, at, 0), np.delete(before, at, 0))
        assert (np.isnan(smallmm.eigvals(b)) == np.isnan(w)).all()


@pytest.mark.parametrize("n", [2, 3, 4, 8, 13, 32])
def test_slow_neighbours(isa, number, n, rng):
    """Matrices that converge at once, beside those that take long, have the bits that they have alone."""
    a = rng.permutation(np.concatenate(list(kinds(rng, n, number).values())))
    w, v = smallmm.eig(a)
    for q in range(0, len(a), 7):
        assert_same(tuple(smallmm.eig(a[q])), (w[q], v[q]))
    if has_fma(isa):
        assert_same(tuple(core.reference(core.eig, a))[:2], (w, v))


def test_near_the_ends_of_the_range(isa, number, rng):
    for n in (2, 3, 7, 32):
        a = extreme(rng, n, n, number)
        w, v, info = smallmm.eig_ex(a)
        assert not info.any()
        fine = np.isfinite(w).all(-1) & np.isfinite(a).all((-1, -2))
        assert fine.sum() > len(a) // 2
        assert_accurate(w[fine], v[fine], a[fine], balanced(a[fine]))


def test_powers_of_two(isa, number, rng):
    """Times an even one, a matrix has the same eigenvectors, to the bit."""
    a = normal(rng, (9, 5, 5), number)
    w, v = smallmm.eig(a)
    for power in (-14, 12) if np.finfo(number).dtype == np.float32 else (-150, 150):
        assert_same(tuple(smallmm.eig(a * number.type(2.0**power))), (w * number.type(2.0**power), v))


def test_balancing(isa, dtype, rng):
    """Units in which norms are 2^40 times as large make no eigenvalue less accurate."""
    d = np.geomspace(1, 2.0**40, 6)
    a = normal(rng, (9, 6, 6), dtype)
    w = smallmm.eigvals((d[:, None] * a / d).astype(dtype))
    for x, values in zip(a, w, strict=True):
        expected = np.linalg.eigvals(x.astype(float))
        assert matched(values, expected) <= 200 * np.finfo(dtype).eps * np.abs(x).sum()


@pytest.mark.parametrize("n", [8, 28, 32])
def test_balancing_spares_residuals(isa, number, n):
    """Of matrices that balancing by 1-norms without the diagonal scales too much: Frank's and Chow's."""
    i, j = np.indices((n, n))
    a = np.stack([np.where(i > j + 1, 0, n - np.maximum(i, j)), np.tri(n, k=1)]).astype(number)
    wide, w, v = exactly(a, *smallmm.eig(a))
    residual = norm1(wide_matmul(wide, v) - v * w[..., None, :])
    assert (residual <= bound("eig", number, n) / 2 * norm1(wide)).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves(name, rng):
    """Results are those of float32: there is no type for complex halves."""
    dtype = np.dtype(np.float16) if name == "float16" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    a = rng.standard_normal((20, 5, 5)).astype(dtype)
    for x in (a, a.mT, a[::-2, ::-1]):
        assert_same(tuple(smallmm.eig_ex(x)), tuple(smallmm.eig_ex(x.astype(np.float32))))
        assert_same(smallmm.eigvals(x), smallmm.eigvals(x.astype(np.float32)))


def test_real_out():
    with pytest.raises(TypeError, match="eigvals: out"):
        smallmm.eigvals(np.eye(2), out=np.empty(2))


def test_failure_is_told(monkeypatch):
    """What a matrix that does not converge would raise."""
    info = np.array([0, 3, 0], np.int32)
    monkeypatch.setitem(core.direct, "eigvals", lambda a, out: (np.zeros((3, 4), complex), info))
    with pytest.raises(
        smallmm.LinAlgError, match=r"eigvals: 1 of 3 matrices is not converged, the first at"
    ) as e:
        smallmm.eigvals(np.zeros((3, 4, 4)))
    assert e.value.info is info

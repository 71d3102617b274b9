"""Somebody who has a program of NumPy and SciPy, and exchanges the names one by one."""

import numpy as np
import scipy.linalg

import smallmm

rng = np.random.default_rng(1)
a = rng.standard_normal((50, 6, 6))
spd = a @ a.mT + np.eye(6)
b = rng.standard_normal((50, 6, 2))

# The names of numpy.linalg
for name, x in [
    ("inv", (a,)), ("det", (a,)), ("slogdet", (a,)), ("cholesky", (spd,)), ("eigvalsh", (spd,)),
    ("svdvals", (a,)), ("pinv", (a,)), ("matrix_rank", (a,)), ("norm", (a, "fro", (-2, -1))),
    ("cond", (a,)), ("matrix_power", (a, 3)), ("solve", (a, b)), ("multi_dot", ([a[0], a[1], b[0]],)),
]:  # fmt: skip
    ours, theirs = getattr(smallmm, name)(*x), getattr(np.linalg, name)(*x)
    for own, other in zip(np.atleast_1d(ours), np.atleast_1d(theirs), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9, err_msg=name)

# Results with names
sign, logabsdet = smallmm.slogdet(a)
q, r = smallmm.qr(a)
u, s, vh = smallmm.svd(a, full_matrices=False)
np.testing.assert_allclose(q @ r, a, atol=1e-12)
np.testing.assert_allclose((u * s[..., None, :]) @ vh, a, atol=1e-12)
assert np.array_equal(smallmm.slogdet(a).sign, sign)

# The names of scipy.linalg, which took one matrix at a time
lu, piv = smallmm.lu_factor(a)
np.testing.assert_allclose(smallmm.lu_solve((lu, piv), b), np.linalg.solve(a, b), rtol=1e-8)
c, low = smallmm.cho_factor(spd)
np.testing.assert_allclose(smallmm.cho_solve((c, low), b), np.linalg.solve(spd, b), rtol=1e-8)
one_by_one = np.stack([scipy.linalg.expm(x) for x in a])
np.testing.assert_allclose(smallmm.expm(a), one_by_one, rtol=1e-9)
np.testing.assert_allclose(
    smallmm.solve(spd, b, assume_a="pos"),
    np.stack([scipy.linalg.solve(x, y, assume_a="pos") for x, y in zip(spd, b, strict=True)]),
    rtol=1e-9,
)
np.testing.assert_allclose(
    smallmm.solve_triangular(np.tril(a), b, lower=True),
    np.stack([scipy.linalg.solve_triangular(x, y, lower=True) for x, y in zip(a, b, strict=True)]),
    rtol=1e-6,
)
assert np.allclose(smallmm.einsum("bij,bjk->bik", a, b), a @ b)

# Or nothing is exchanged at all
before = np.linalg.inv(a)
with smallmm.patched("numpy"):
    after = np.linalg.inv(a)
np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)

"""The promised bounds on errors: the one table, by which `bench`, the tests and benchmarks/ judge, and from
which benchmarks/report writes that of docs/promises.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2


@dataclass(frozen=True)
class Bound:
    """A bound on an error, in units of the roundoff u, where elements grow of g u, where balancing
    scales of f u; `words` say the same, and name the error."""

    functions: str
    units: Callable[[int], float]  # of the inner dimension, the order, or the larger of m and n
    words: str

    def __call__(self, n: int) -> float:
        return self.units(n)


# Of complex numbers, whose magnitude is the modulus, a bound is so many times as large.
COMPLEX_FACTOR = 3

# docs/promises.md explains g, the growth of elements, and f, the factor of balancing.
BOUNDS = {
    "matmul": Bound(
        "products",
        lambda k: k + 2 if k <= 1024 else 258 + ceil(log2(k / 256)),
        "|C - A B| <= (k + 2) u |A| |B|, element by element; for k > 1024 (258 + log2(k / 256)) u, "
        "the logarithm rounded up",
    ),
    "matmul_tensor": Bound(
        'products with `precision="tensor"` on a device',
        lambda k: 4 * (min(k, 4096) + 32),
        "|C - A B| <= 4 (min(k, 4096) + 32) u |A| |B|, with the u of float32, before C is rounded",
    ),
    "lu": Bound("`lu_factor`", lambda n: 10 * n, "|P A - L U| <= 10 n u g |A|, and no element of L above 1"),
    "solve": Bound(
        "`solve`, `linsolve`, `lu_solve`, `ldl_solve`, `solve_tridiagonal`, `solve_banded`, `solveh_banded`, "
        "`cho_solve`, `solve_triangular`",
        lambda n: 20 * n,
        "|B - A X| <= 20 n u (g |A| |X| + |B|), each column; g = 1 for the last three",
    ),
    "inv": Bound("`inv`", lambda n: 50 * n, "|A X - I| <= 50 n u g cond(A), wherever that is below 1"),
    "cholesky": Bound("`cholesky`", lambda n: 10 * n, "|A - L L^T| <= 10 n u |A|"),
    "qr": Bound("`qr`", lambda n: 20 * n, "|A - Q R| <= 20 n u |A|, and |Q^T Q - I| <= 20 n u"),
    "eigh": Bound(
        "`eigh`, `eigvalsh`",
        lambda n: 20 * n,
        "|A V - V diag(w)| <= 20 n u |A|, |V^H V - I| <= 20 n u, and each eigenvalue within 10 n u |A|",
    ),
    "eig": Bound(
        "`eig`",
        lambda n: 20 * max(n, 10),
        "|A V - V diag(w)| <= 20 max(n, 10) u f |A|, and columns of V have the 2-norm 1 within 20 max(n, 10) "
        "u",
    ),
    "schur": Bound(
        "`schur`",
        lambda n: 20 * max(n, 10),
        "|A - Z T Z^H| <= 20 max(n, 10) u |A|, and |Z^H Z - I| <= 20 max(n, 10) u",
    ),
    "sqrtm": Bound(
        "`sqrtm` of general matrices", lambda n: 20 * max(n, 10), "|X X - A| <= 20 max(n, 10) u |X|^2"
    ),
    "svd": Bound(
        "`svd`, `svdvals`",
        lambda n: 20 * n,
        "|A - U diag(s) Vh| <= 20 n u |A|, |U^H U - I| and |Vh Vh^H - I| <= 20 n u, and each singular value "
        "within 10 n u |A|; n is the larger size",
    ),
    "det": Bound(
        "`det`",
        lambda n: 10 * n**2,
        "|d - det A| <= 10 n^2 u g cond(A) |det A|, wherever that is below |det A|",
    ),
    "lstsq": Bound(
        "`lstsq`",
        lambda n: 50 * n,
        "|A^T (B - A X)| <= 50 max(m, n) u |A| (|A| |X| + |B|), each column, in 2-norms",
    ),
}

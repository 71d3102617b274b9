"""What all tests try: a row of GUFUNCS for each gufunc of the core, a row of FUNCTIONS or COMPOSITIONS for
each way to call a public function. The tests of bits, layouts, types, derivatives, libraries and devices draw
their cases from here.

This file does not import pytest: that takes as long as all else that a process for the emulated GPU imports.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matrices import every_definite, every_kind, nearly_deficient, normal

import smallmm
import smallmm._core as core
from smallmm._base.shapes import arithmetic, takes_complex

# --- Shapes ---------------------------------------------------------------------------------------------

SQUARE = tuple((n, n) for n in range(1, 33)), tuple((n, n) for n in (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32))
ANY_ORDER = tuple((n, n) for n in (*range(1, 12), 16, 23, 32, 33, 70)), SQUARE[1]
RECTANGLES = (
    (
        *((n, n) for n in range(1, 33)),
        *((2 * n + 1, n) for n in (*range(1, 9), 12, 16, 21)),
        *((n, 2 * n + 1) for n in (*range(1, 9), 12, 16, 21)),
        *[
            (1, 32),
            (32, 1),
            (1024, 1),
            (1, 1024),
            (100, 10),
            (10, 100),
            (33, 31),
            (31, 33),
            (341, 3),
            (3, 341),
        ],
    ),
    ((1, 1), (3, 3), (5, 2), (2, 5), (8, 8), (12, 4), (17, 9), (9, 17), (32, 32), (60, 6)),
)


def tall(shapes):
    return tuple(tuple((m, n) for m, n in some if m >= n) for some in shapes)


def wide(shapes):
    return tuple(tuple((m, n) for m, n in some if m <= n) for some in shapes)


def few_rows(shapes):
    """Without those whose square Q would be huge."""
    return tuple(tuple((m, n) for m, n in some if m <= 128) for some in shapes)


def few_columns(shapes):
    """Without those whose square Vh would be huge."""
    return tuple(tuple((m, n) for m, n in some if n <= 128) for some in shapes)


# --- Operands: functions of (generator, stack of matrices, number of right-hand sides) -------------------


@functools.cache
def drawn(kind, *sizes_and_dtype):
    """A stack of a kind of matrices, the same for all operations and instruction sets. It is read-only."""
    stack = kind(np.random.default_rng([1, *sizes_and_dtype[:-1]]), *sizes_and_dtype)
    stack.flags.writeable = False
    return stack


def any_kind(m, n, dtype):
    many = drawn(every_kind, m, n, dtype)
    return many if m * n <= 256 else many[:21]  # the reference is slow


def definite(m, n, dtype):
    return drawn(every_definite, n, dtype)


def alone(rng, a, k):
    return (a,)


def with_right_sides(rng, a, k):
    return a, normal(rng, (*a.shape[:-1], k), a.dtype)


def factored(rng, a, k):
    a, b = with_right_sides(rng, a, k)
    lu, pivots, _ = core.reference(core.lu_factor, a)
    return lu, pivots, b


def factors(rng, a, k):
    """Triangular factors, or what has none, with anything in the other triangle."""
    a, b = with_right_sides(rng, a, k)
    c, info = core.reference(core.cholesky, a)
    return np.tril(np.where(info[:, None, None] == 0, c, a)) + np.triu(a, 1), b


def upper_factors(rng, a, k):
    c, b = factors(rng, a, k)
    return np.ascontiguousarray(c.mT), b


def ldl_factored(name):
    """Factors, with anything in the other triangle, and some pivots that are none."""
    gufunc, other = getattr(core, name), np.tril if name.endswith("upper") else np.triu

    def operands(rng, a, k):
        a, b = with_right_sides(rng, a, k)
        ld, pivots, _ = core.reference(gufunc, a)
        n = a.shape[-1]
        pivots[::7, n // 2] = rng.choice([-1, 0, n + 1, 2**31 - 1, -(2**31), -n], len(pivots[::7]))
        return ld + other(a, -1 if other is np.tril else 1), pivots, b

    return operands


def tridiagonal(rng, a, k):
    a, b = with_right_sides(rng, a, k)
    return *(np.ascontiguousarray(a.diagonal(i, 1, 2)) for i in (-1, 0, 1)), b


def banded(rng, a, k):
    """Some more of the diagonals below the main one, and some fewer."""
    a, b = with_right_sides(rng, a, k)
    ab = np.ascontiguousarray(a[:, : 1 + a.shape[-1] % 5])
    return ab, rng.integers(0, ab.shape[1], len(ab)).astype(np.int32), b


def definite_banded(lower):
    def operands(rng, a, k):
        a, b = with_right_sides(rng, a, k)
        n = a.shape[-1]
        ab = np.zeros((len(a), 1 + n % 4, n), a.dtype)
        for i in range(min(n, ab.shape[1])):
            if lower:
                ab[:, i, : n - i] = a.diagonal(i, 1, 2)
            else:
                ab[:, -1 - i, i:] = a.diagonal(i, 1, 2)
        return ab, b

    return operands


def least_squares(rng, a, k):
    """Some of a rank that is hard to tell, and tolerances."""
    m, n = a.shape[-2:]
    a = rng.permutation(np.concatenate([a, drawn(nearly_deficient, m, n, a.dtype)]))
    eps = np.finfo(arithmetic(a.dtype)).eps
    tolerances = np.array([max(m, n) * eps, 1e-3, eps**2, 0], a.real.dtype)
    return *with_right_sides(rng, a, k), np.resize(tolerances, len(a))


def conditions(rng, a, k):
    """Factors, and norms of what was factored."""
    lu, pivots, _ = core.reference(core.lu_factor, a)
    with np.errstate(all="ignore"):
        return lu, pivots, np.abs(a).sum(-2).max(-1).astype(a.real.dtype)


def inexact(rng, a, k):
    """Solutions that refinement needs several steps for."""
    a, b = with_right_sides(rng, a, k)
    lu, pivots, _ = core.reference(core.lu_factor, a)
    x = core.reference(core.lu_solve, lu, pivots, b)
    with np.errstate(all="ignore"):
        return a, lu, pivots, b, x + x * (normal(rng, x.shape, a.dtype) / 128)


def solutions(rng, a, k):
    a, _, _, b, x = inexact(rng, a, k)
    return a, x, b


def exponents(rng, a, k):
    """Of sizes that need no squaring and several, triangular ones among them."""
    a = a.copy()
    with np.errstate(all="ignore"):
        a[::3] = np.triu(a[::3])
        a[1::6] = np.tril(a[1::6])
        sizes = np.resize([1, 3e-3, 20, 400], (len(a), 1, 1))
        return ((a * sizes / np.maximum(np.sqrt(a.shape[-1]), 1)).astype(a.dtype),)


# --- Derivatives: what makes a gufunc's first operand of random numbers ----------------------------------


def adjoint(a):
    return a.conj().mT


def hermitian(a):
    return (a + adjoint(a)) / 2


def mirrored(a):
    """Symmetric, complex ones without conjugates."""
    return (a + a.mT) / 2


def hollow(a):
    """Without a diagonal: blocks of order 2."""
    return a * (1 - np.eye(a.shape[-1]))


def lower(a):
    return np.tril(a, -1) + np.eye(a.shape[-1]) * (3 + a * a)


def upper(a):
    return lower(a).mT


def positive(a):
    return a @ adjoint(a) + 3 * np.eye(a.shape[-1])


def dominant(row):
    """Diagonals, of which that row is the main one."""
    return lambda a: a + 9 * (np.arange(a.shape[-2])[:, None] == row)


class Derivative(NamedTuple):
    """How it is compared with differences: shapes of operands, what makes the first, how many results have
    one."""

    shapes: list[tuple[int, ...]]
    make: Callable[[np.ndarray], np.ndarray] = lambda a: a
    count: int = 1


# --- Gufuncs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gufunc:
    """A gufunc and what to give it. Those of the group `mixed` take float64 alone. Rows without operands:
    tests of products draw them themselves."""

    name: str
    group: str
    make: Callable[..., tuple] | None = None
    derivative: Derivative | None = None  # if random numbers are operands
    kind: Callable[..., np.ndarray] = any_kind
    every: tuple = SQUARE

    @property
    def gufunc(self):
        return getattr(core, self.name)

    @property
    def shapes(self):
        return self.every[0]

    @property
    def few_shapes(self):
        return self.every[1]

    def operands(self, rng, m, n, dtype):
        return self.make(rng, self.kind(m, n, dtype), 3)

    def takes(self, dtype):
        """The types that are computed in."""
        if np.dtype(dtype).kind == "c":
            return takes_complex(self.gufunc)
        return self.group != "mixed" or dtype == np.float64


GUFUNCS = {
    row.name: row
    for row in (
        Gufunc("lu_factor", "factors", alone, Derivative([(2, 3, 3)])),
        Gufunc("lu_factor_tall", "rectangles", alone, Derivative([(2, 4, 3)]), every=tall(RECTANGLES)),
        Gufunc("lu_factor_wide", "rectangles", alone, Derivative([(2, 3, 5)]), every=wide(RECTANGLES)),
        Gufunc("lu_solve", "systems", factored),
        Gufunc("lu_solve_transposed", "systems", factored),
        Gufunc("solve", "systems", with_right_sides, Derivative([(2, 3, 3), (1, 3, 2)])),
        Gufunc("inv", "factors", alone, Derivative([(2, 3, 3)])),
        Gufunc("det", "factors", alone, Derivative([(2, 3, 3)])),
        Gufunc("slogdet", "factors", alone, Derivative([(2, 3, 3)], count=2)),
        Gufunc("cholesky", "factors", alone, Derivative([(2, 3, 3)], positive), definite),
        Gufunc("cholesky_upper", "factors", alone, Derivative([(2, 3, 3)], positive), definite),
        Gufunc("cho_solve", "systems", factors, Derivative([(2, 3, 3), (3, 2)], lower), definite),
        Gufunc("cho_solve_upper", "systems", upper_factors, Derivative([(2, 3, 3), (3,)], upper), definite),
        Gufunc("solve_lower", "systems", with_right_sides, Derivative([(2, 3, 3), (3, 2)], lower)),
        Gufunc("solve_upper", "systems", with_right_sides, Derivative([(2, 3, 3), (3,)], upper)),
        Gufunc("solve_unit_lower", "systems", with_right_sides, Derivative([(2, 3, 3), (3, 2)], lower)),
        Gufunc("solve_unit_upper", "systems", with_right_sides, Derivative([(2, 3, 3), (3, 2)], upper)),
        Gufunc("qr_tall", "rectangles", alone, Derivative([(2, 4, 3)], count=2), every=tall(RECTANGLES)),
        Gufunc("qr_complete", "rectangles", alone,
               Derivative([(2, 3, 5)], count=2), every=few_rows(RECTANGLES)),
        Gufunc("qr_r_tall", "rectangles", alone, Derivative([(2, 4, 3)]), every=tall(RECTANGLES)),
        Gufunc("qr_r_wide", "rectangles", alone, Derivative([(2, 3, 5)]), every=wide(RECTANGLES)),
        Gufunc("qr_raw_tall", "rectangles", alone, every=tall(RECTANGLES)),
        Gufunc("qr_raw_wide", "rectangles", alone, every=wide(RECTANGLES)),
        Gufunc("lstsq", "rectangles", least_squares, every=RECTANGLES),
        Gufunc("eigh", "spectra", alone, Derivative([(2, 4, 4)], hermitian, 2)),
        Gufunc("eigh_upper", "spectra", alone, Derivative([(2, 4, 4)], hermitian, 2)),
        Gufunc("eigvalsh", "spectra", alone, Derivative([(2, 4, 4)], hermitian)),
        Gufunc("eigvalsh_upper", "spectra", alone, Derivative([(2, 4, 4)], hermitian)),
        Gufunc("eig", "spectra", alone),
        Gufunc("eigvals", "spectra", alone),
        Gufunc("schur", "spectra", alone),
        Gufunc("sqrtm", "spectra", alone),
        Gufunc("expm", "spectra", exponents),
        Gufunc("svd_tall", "rectangles", alone, Derivative([(2, 4, 3)], count=3), every=tall(RECTANGLES)),
        Gufunc("svd_wide", "rectangles", alone, Derivative([(2, 3, 4)], count=3), every=wide(RECTANGLES)),
        Gufunc("svd_full_tall", "rectangles", alone, every=few_rows(tall(RECTANGLES))),
        Gufunc("svd_full_wide", "rectangles", alone, every=few_columns(wide(RECTANGLES))),
        Gufunc("svdvals_tall", "rectangles", alone, Derivative([(2, 4, 3)]), every=tall(RECTANGLES)),
        Gufunc("svdvals_wide", "rectangles", alone, Derivative([(2, 3, 4)]), every=wide(RECTANGLES)),
        Gufunc("solve_pos", "systems", with_right_sides, Derivative([(2, 3, 3), (3, 2)], positive), definite),
        Gufunc("solve_pos_upper", "systems", with_right_sides,
               Derivative([(2, 3, 3), (3,)], positive), definite),
        Gufunc("solve_sym", "systems", with_right_sides, Derivative([(2, 3, 3), (1, 3, 2)], mirrored)),
        Gufunc("solve_sym_upper", "systems", with_right_sides, Derivative([(2, 3, 3), (3, 2)], mirrored)),
        Gufunc("solve_her", "systems", with_right_sides, Derivative([(2, 3, 3), (1, 3, 2)], hermitian)),
        Gufunc("solve_her_upper", "systems", with_right_sides, Derivative([(2, 3, 3), (3, 2)], hermitian)),
        Gufunc("ldl_factor", "factors", alone, Derivative([(2, 5, 5)], lambda a: hollow(hermitian(a)))),
        Gufunc("ldl_factor_upper", "factors", alone, Derivative([(2, 6, 6)], hermitian)),
        Gufunc("ldl_factor_symmetric", "factors", alone,
               Derivative([(2, 5, 5)], lambda a: hollow(mirrored(a)))),
        Gufunc("ldl_factor_symmetric_upper", "factors", alone, Derivative([(2, 6, 6)], mirrored)),
        Gufunc("ldl_solve", "systems", ldl_factored("ldl_factor")),
        Gufunc("ldl_solve_upper", "systems", ldl_factored("ldl_factor_upper")),
        Gufunc("ldl_solve_symmetric", "systems", ldl_factored("ldl_factor_symmetric")),
        Gufunc("ldl_solve_symmetric_upper", "systems", ldl_factored("ldl_factor_symmetric_upper")),
        Gufunc("solve_tridiagonal", "diagonals", tridiagonal,
               Derivative([(2, 3), (2, 4), (3,), (4, 2)]), every=ANY_ORDER),
        Gufunc("solve_tridiagonal_unpivoted", "diagonals", tridiagonal,
               Derivative([(2, 3), (2, 4), (3,), (4,)]), every=ANY_ORDER),
        Gufunc("solve_banded", "diagonals", banded, every=ANY_ORDER),
        Gufunc("solveh_banded", "diagonals", definite_banded(lower=True),
               Derivative([(2, 3, 4), (4, 2)], dominant(0)), definite, ANY_ORDER),
        Gufunc("solveh_banded_upper", "diagonals", definite_banded(lower=False),
               Derivative([(3, 4), (2, 4, 2)], dominant(2)), definite, ANY_ORDER),
        Gufunc("lu_rcond", "accuracy", conditions),
        Gufunc("lu_rcond_inf", "accuracy", conditions),
        Gufunc("backward_error", "accuracy", solutions),
        Gufunc("backward_error_extra", "accuracy", solutions),
        Gufunc("backward_error_norm", "accuracy", solutions),
        Gufunc("backward_error_norm_extra", "accuracy", solutions),
        Gufunc("refine", "accuracy", inexact),
        Gufunc("refine_extra", "accuracy", inexact),
        Gufunc("solve_mixed", "mixed", with_right_sides, Derivative([(2, 3, 3), (1, 3, 2)])),
        Gufunc("solve_mixed_pos", "mixed", with_right_sides,
               Derivative([(2, 3, 3), (3,)], positive), definite),
        Gufunc("matmul", "products", derivative=Derivative([(2, 3, 4), (4, 2)])),
        Gufunc("batched_matmul", "products", derivative=Derivative([(1, 3, 4), (2, 4, 2)])),
        Gufunc("matvec", "products", derivative=Derivative([(2, 3, 4), (4,)])),
        Gufunc("vecmat", "products", derivative=Derivative([(2, 3), (3, 4)])),
        Gufunc("gemm", "products"),
        Gufunc("matmul_tensor", "products"),
        Gufunc("batched_matmul_tensor", "products"),
        Gufunc("gemm_tensor", "products"),
    )
}  # fmt: skip
DRAWN = {name: row for name, row in GUFUNCS.items() if row.make}


def names(*groups):
    return [name for name, row in GUFUNCS.items() if row.group in groups]


SYSTEMS = names("systems")
OF_SQUARE = names("factors", "systems", "spectra", "accuracy")
OF_TALL = [x for x in names("rectangles") if (5, 2) in GUFUNCS[x].few_shapes]
OF_WIDE = [x for x in names("rectangles") if (2, 5) in GUFUNCS[x].few_shapes]
OF_DIAGONALS = names("diagonals")
OF_DOUBLES = names("mixed")


def operands(rng, name, a, k=2):
    """What a gufunc takes, made of a stack of matrices, with k right-hand sides."""
    return list(GUFUNCS[name].make(rng, a, k))


# --- Public functions ------------------------------------------------------------------------------------


def only_a(a, b):
    return (a,)


def a_and_b(a, b):
    return a, b


def lu_factors(a, b):
    return (*smallmm.lu_factor(a),)


def diagonals(a):
    return [a.diagonal(k, -2, -1) for k in (-1, 0, 1)]


def three_diagonals(a):
    """As SciPy stores them."""
    below, main, above = diagonals(a)
    ab = np.zeros((*a.shape[:-2], 3, a.shape[-1]), a.dtype)
    ab[..., 0, 1:], ab[..., 1, : main.shape[-1]], ab[..., 2, :-1] = above, main, below
    return ab


class Function:
    """A call of a public function. Its arguments are made of two stacks, a and b; matrices of a are square,
    well-conditioned and definite. Its name is that of the function, with words behind a comma where there are
    several calls. `first`: only the first result has arrays."""

    def __init__(self, name, arguments, *options, first=False, **keywords):
        self.name, self.arguments, self.first = name, arguments, first
        self.options, self.keywords = options, keywords
        self.op = name.partition(",")[0]

    def __call__(self, a, b=None, **keywords):
        if self.first and self.op.endswith("_ex") and keywords.get("out") is not None:
            keywords["out"] = keywords["out"], None  # that of info
        results = self.by(getattr(smallmm, self.op), a, b, **keywords)
        return results[0] if self.first else results

    def by(self, function, a, b, **keywords):
        """What another function makes of these arguments."""
        return function(*self.arguments(a, b), *self.options, **self.keywords, **keywords)


def table(*rows):
    return {row.name: row for row in rows}


# Functions that gufuncs compute
FUNCTIONS = table(
    Function("lu_factor", only_a),
    Function("lu_factor_ex", only_a),
    Function("lu_solve", lambda a, b: (smallmm.lu_factor(a), b)),
    Function("lu_solve, transposed", lambda a, b: (smallmm.lu_factor(a), b), 1),
    Function("solve", a_and_b),
    Function("solve_ex", a_and_b),
    Function("solve, transposed a", a_and_b, transposed=True),
    Function("inv", only_a),
    Function("inv_ex", only_a),
    Function("det", only_a),
    Function("slogdet", only_a),
    Function("cholesky", only_a),
    Function("cholesky, upper", only_a, upper=True),
    Function("cho_factor", only_a, first=True),
    Function("cholesky_ex", only_a),
    Function("cho_solve", lambda a, b: ((a, True), b)),
    Function("cho_solve, upper", lambda a, b: ((a, False), b)),
    Function("cho_factor_ex", only_a, first=True),
    Function("solve_triangular", a_and_b),
    Function("solve_triangular_ex", a_and_b),
    Function("solve_triangular, lower", a_and_b, lower=True),
    Function("solve_triangular, unit", a_and_b, 1, unit_diagonal=True),
    Function("qr", only_a),
    Function("qr, complete", only_a, "complete"),
    Function("qr, r", only_a, mode="r"),
    Function("qr, raw", only_a, mode="raw"),
    Function("lstsq", a_and_b),
    Function("lstsq_ex", a_and_b),
    Function("eig", only_a),
    Function("eig_ex", only_a),
    Function("eigvals", only_a),
    Function("eigvals_ex", only_a),
    Function("schur", only_a),
    Function("schur, complex", only_a, "complex"),
    Function("schur_ex", only_a),
    Function("sqrtm", only_a),
    Function("sqrtm_ex", only_a),
    Function("expm", only_a),
    Function("eigh", only_a),
    Function("eigh_ex", only_a),
    Function("eigh, upper", only_a, UPLO="U"),
    Function("eigh, values", only_a, eigvals_only=True),
    Function("eigvalsh", only_a),
    Function("eigvalsh_ex", only_a),
    Function("eigvalsh, upper", only_a, UPLO="U"),
    Function("svd", only_a),
    Function("svd, reduced", only_a, full_matrices=False),
    Function("svd, values", only_a, compute_uv=False),
    Function("svd_ex", only_a),
    Function("svdvals", only_a),
    Function("ldl_factor", only_a),
    Function("ldl_factor, upper", only_a, lower=False),
    Function("ldl_factor_ex", only_a),
    Function("ldl_factor, symmetric", only_a, hermitian=False),
    Function("ldl_solve", lambda a, b: (*smallmm.ldl_factor(a)[:2], b)),
    *(
        Function(f"{op}{suffix}", arguments)
        for suffix in ("", "_ex")
        for op, arguments in {
            "solve_tridiagonal": lambda a, b: (*diagonals(a), b),
            "solve_banded": lambda a, b: ((1, 1), three_diagonals(a), b),
            "solveh_banded": lambda a, b: (three_diagonals(a)[..., :2, :], b),
        }.items()
    ),
    Function("svdvals_ex", only_a),
    Function("lu_rcond", lu_factors, 1),
    Function("backward_error", lambda a, b: (a, b, b)),
    Function("refine", lambda a, b: (a, *lu_factors(a, b), b, b)),
    *(
        Function(f"{op}, {word}", a_and_b, assume_a=word)
        for op, words in {
            "solve": ("symmetric", "pos", "lower triangular", "upper triangular"),
            "linsolve": ("general", "sym", "banded", "tridiagonal", "diagonal", "auto"),
            "linsolve_ex": ("general", "tridiagonal", "positive definite"),
        }.items()
        for word in words
    ),
)
# Options by which they are composed of others
ACCURATELY = table(
    *(
        Function(f"{op}, {options}", a_and_b, **options)
        for op in ("linsolve_ex", "lstsq", "lstsq_ex")
        for options in (
            {"precision": "mixed"},
            {"return_rcond": True},
            {"precision": "mixed", "return_rcond": True},
            {"ill_conditioned": True},
        )
        if op == "linsolve_ex" or options == {"precision": "mixed"}
    )
)
# Functions that are composed of others
COMPOSITIONS = table(
    Function("matrix_norm", only_a),
    *(Function(f"matrix_norm, {x}", only_a, ord=x) for x in (1, -1, np.inf, -np.inf)),
    Function("norm, rows", only_a, axis=-1),
    Function("norm, columns", only_a, 1, axis=-2),
    Function("vector_norm, 3", only_a, axis=(-1, -2), ord=3),
    Function("vector_norm, 0", only_a, axis=-1, ord=0),
    Function("vector_norm, inf", only_a, axis=-1, ord=np.inf),
    Function("cond, 1", only_a, 1),
    Function("cond, fro", only_a, "fro"),
    Function("matrix_rank, hermitian", only_a, hermitian=True),
    Function("matrix_rank, tol", only_a, 1e-3, hermitian=True),
    Function("trace", only_a),
    Function("trace, offset", only_a, offset=1),
    *(Function(f"matrix_power, {n}", only_a, n) for n in (5, 0, -3)),
    Function("pinv, hermitian", only_a, hermitian=True),
    Function("pinv, rtol", only_a, 1e-3, hermitian=True),
    Function("lu", only_a),
    Function("lu, permuted", only_a, True),
    Function("lu, indices", only_a, p_indices=True),
    Function("expm, sym", only_a, assume_a="sym"),
    Function("sqrtm, sym", only_a, assume_a="sym"),
    Function("sqrtm_ex, sym", only_a, assume_a="sym"),
    Function("logm", only_a, assume_a="sym"),
    Function("logm_ex", only_a, assume_a="sym"),
    Function("powm", only_a, 0.3, assume_a="sym"),
    Function("powm_ex", only_a, -1.5, assume_a="sym"),
    Function("cross", lambda a, b: (a[..., :3, :], a[..., -3:, :]), axis=-2),
    Function("outer", lambda a, b: (a[..., 0], a[..., 1, :])),
    Function("multi_dot", lambda a, b: ([a, a[..., :1], a[..., 1:2, :]],)),
    Function("einsum", lambda a, b: ("...ij,...kj->...ki", a, a)),
    *(Function(f"matrix_norm, {x}", only_a, ord=x) for x in (2, -2, "nuc")),
    Function("cond", only_a),
    Function("cond, -2", only_a, -2),
    Function("cond, nuc", only_a, "nuc"),
    Function("matrix_rank", only_a),
    Function("pinv", only_a),
    Function("polar", only_a),
    Function("polar, left", only_a, "left"),
    Function("orthogonalize", only_a),
)
WITH_B = [name for name in FUNCTIONS if "solve" in name or "lstsq" in name]
# NumPy makes the first operands of the others of a
OF_MATRICES = [
    x for x in FUNCTIONS if not x.startswith(("solve_tridiagonal", "solve_banded", "solveh_banded"))
]


def rows_of(op):
    """The ways to call a public function."""
    return (row for row in (*FUNCTIONS.values(), *COMPOSITIONS.values()) if row.op == op)

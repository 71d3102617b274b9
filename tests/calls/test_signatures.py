"""A call that NumPy, SciPy, PyTorch or the Array API has is a call of the function of that name here.

`DIFFERENCES` lists what is intended to differ, with the reason. `python tests/calls/test_signatures.py`
writes the table of docs/differences-from-numpy.md from it."""

import inspect
import re
from inspect import Parameter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.linalg
from accuracy import as_tuple, assert_same_bits
from cases import COMPOSITIONS, FUNCTIONS

import smallmm

PAGE = Path(__file__).parents[2] / "docs" / "differences-from-numpy.md"

# The linalg extension and the main namespace of the standard, 2024.12
ARRAY_API = """
cholesky(x, /, *, upper=False)
cross(x1, x2, /, *, axis=-1)
det(x, /)
diagonal(x, /, *, offset=0)
eigh(x, /)
eigvalsh(x, /)
inv(x, /)
matmul(x1, x2, /)
matrix_norm(x, /, *, keepdims=False, ord='fro')
matrix_power(x, n, /)
matrix_rank(x, /, *, rtol=None)
matrix_transpose(x, /)
outer(x1, x2, /)
pinv(x, /, *, rtol=None)
qr(x, /, *, mode='reduced')
slogdet(x, /)
solve(x1, x2, /)
svd(x, /, *, full_matrices=True)
svdvals(x, /)
tensordot(x1, x2, /, *, axes=2)
trace(x, /, *, offset=0, dtype=None)
vecdot(x1, x2, /, *, axis=-1)
vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""

# torch.linalg of PyTorch 2.13, as its docstrings have it, where Python sees no signatures
TORCH = """
cholesky(A, *, upper=False, out=None)
cholesky_ex(A, *, upper=False, check_errors=False, out=None)
cond(A, p=None, *, out=None)
cross(input, other, *, dim=-1, out=None)
det(A, *, out=None)
diagonal(A, *, offset=0, dim1=-2, dim2=-1)
eig(A, *, out=None)
eigh(A, UPLO='L', *, out=None)
eigvals(A, *, out=None)
eigvalsh(A, UPLO='L', *, out=None)
inv(A, *, out=None)
inv_ex(A, *, check_errors=False, out=None)
ldl_factor(A, *, hermitian=False, out=None)
ldl_factor_ex(A, *, hermitian=False, check_errors=False, out=None)
ldl_solve(LD, pivots, B, *, hermitian=False, out=None)
lstsq(A, B, rcond=None, *, driver=None)
lu_factor(A, *, pivot=True, out=None)
lu_factor_ex(A, *, pivot=True, check_errors=False, out=None)
lu_solve(LU, pivots, B, *, left=True, adjoint=False, out=None)
matmul(input, other, *, out=None)
matrix_norm(A, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None, out=None)
matrix_power(A, n, *, out=None)
matrix_rank(A, *, atol=None, rtol=None, hermitian=False, out=None)
multi_dot(tensors, *, out=None)
norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None)
pinv(A, *, atol=None, rtol=None, hermitian=False, out=None)
qr(A, mode='reduced', *, out=None)
slogdet(A, *, out=None)
solve(A, B, *, left=True, out=None)
solve_ex(A, B, *, left=True, check_errors=False, out=None)
solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None)
svd(A, full_matrices=True, *, driver=None, out=None)
svdvals(A, *, driver=None, out=None)
tensorinv(A, ind=2, *, out=None)
tensorsolve(A, B, dims=None, *, out=None)
vecdot(x, y, *, dim=-1, out=None)
vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None)
"""


def read(text):
    """The signatures of a table, by names."""
    found = {}
    for line in text.strip().splitlines():
        names = {}
        exec(f"def {line}: pass", names)
        name = line.partition("(")[0]
        found[name] = inspect.signature(names[name])
    return found


def signatures(*modules):
    """Those that the first of modules has of each public function of smallmm."""
    found = {}
    for name in smallmm.__all__:
        theirs = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
        if callable(theirs) and not isinstance(theirs, type):
            found[name] = inspect.signature(theirs)
    return found


LIBRARIES = {
    "the Array API": read(ARRAY_API),
    "NumPy": signatures(np.linalg, np),
    "SciPy": signatures(scipy.linalg),
    "PyTorch": read(TORCH),
}


class Found(NamedTuple):
    """A parameter of a library's function, and what a caller cannot do here."""

    library: str
    function: str
    parameter: str
    kind: str  # "missing", by keyword; "position", nothing or something else stands there; "default"


def compared(library, name, theirs):
    """What calls of theirs are not calls of ours, with the same meaning."""
    ours = inspect.signature(getattr(smallmm, name)).parameters
    by_position = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    positional = [x for x in ours.values() if x.kind in by_position]
    any_position = any(x.kind is Parameter.VAR_POSITIONAL for x in ours.values())
    any_keyword = any(x.kind is Parameter.VAR_KEYWORD for x in ours.values())
    for place, x in enumerate(theirs.parameters.values()):
        if x.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        same = ours.get(x.name)
        kinds = []
        by_keyword = any_keyword or (same is not None and same.kind is not Parameter.POSITIONAL_ONLY)
        if x.kind is not Parameter.POSITIONAL_ONLY and not by_keyword:
            kinds.append("missing")
        if x.kind is not Parameter.KEYWORD_ONLY and not any_position:
            there = positional[place] if place < len(positional) else None
            are_operands = there is not None and x.default is there.default is x.empty
            if not are_operands and (there is None or there.name != x.name):
                kinds.append("position")
        if (
            same is not None
            and isinstance(x.default, bool | int | float | str | None)
            and x.default != same.default
        ):
            kinds.append("default")
        for kind in kinds:
            yield Found(library, name, x.name, kind)


FOUND = [
    found
    for library, table in LIBRARIES.items()
    for name, theirs in table.items()
    for found in compared(library, name, theirs)
]


class Difference(NamedTuple):
    """One that is intended. Names are separated by spaces; "*" stands for all functions."""

    library: str
    functions: str
    parameters: str
    reason: str

    def covers(self, found):
        return (
            self.library == found.library
            and (self.functions == "*" or found.function in self.functions.split())
            and found.parameter in self.parameters.split()
        )


DIFFERENCES = [
    Difference(
        "NumPy",
        "cov",
        "m y rowvar bias ddof fweights aweights dtype",
        "samples are rows, as in pandas; `weights` are NumPy's `aweights`; the set of `y` is further columns",
    ),
    Difference("SciPy", "*", "check_finite", "has no effect and the default False: NaN propagates"),
    Difference(
        "SciPy", "solve inv", "assume_a", 'the default is "general", as NumPy has it; None: each is looked at'
    ),
    Difference("SciPy", "cholesky", "lower", "the default is the lower factor, as NumPy has it"),
    Difference("SciPy", "eigh eigvalsh", "lower", "None: `UPLO` decides, by default the lower triangle"),
    Difference(
        "SciPy",
        "eig eigvals eigh eigvalsh",
        "b type homogeneous_eigvals",
        "there are no generalized problems",
    ),
    Difference("SciPy", "eig", "left right", "right eigenvectors are returned, as NumPy does"),
    Difference("SciPy", "eig eigvals", "overwrite_a overwrite_b", "by keyword; there is no `b`"),
    Difference("SciPy", "eigh eigvalsh", "subset_by_value", "matrices would have different numbers of them"),
    Difference("SciPy", "lstsq", "cond", "by position it is NumPy's `rcond`, the same"),
    Difference("SciPy", "norm", "a", "NumPy calls it `x`"),
    Difference("SciPy", "pinv", "atol", "tolerances are relative; PyTorch's `atol` means something else"),
    Difference("SciPy", "qr", "mode overwrite_a lwork", "NumPy's `mode` stands first, with its default"),
    Difference("SciPy", "qr", "pivoting", "there is none but in `lstsq`"),
    Difference("SciPy", "svd", "overwrite_a lapack_driver", "by keyword; NumPy's `hermitian` stands there"),
    Difference(
        "SciPy", "schur", "lwork sort overwrite_a", "eigenvalues are in no promised order; by keyword"
    ),
    Difference("SciPy", "sqrtm logm", "disp blocksize", "deprecated"),
    Difference(
        "PyTorch",
        "*",
        "A B x y input other tensors LU",
        "matrices have NumPy's names; by position they are the same",
    ),
    Difference("PyTorch", "*", "dim dim1 dim2 dims keepdim", "NumPy's words: `axis`, `axes`, `keepdims`"),
    Difference("PyTorch", "norm matrix_norm vector_norm", "dtype", "convert first"),
    Difference(
        "PyTorch", "pinv matrix_rank", "atol", "tolerances are relative; SciPy's means something else"
    ),
    Difference("PyTorch", "lu_factor lu_factor_ex", "pivot", "rows are always exchanged"),
    Difference("PyTorch", "lu_solve", "LU pivots B", "SciPy's form: both factors are one tuple"),
    Difference(
        "PyTorch",
        "ldl_factor ldl_factor_ex ldl_solve",
        "hermitian",
        "the default is True, as of `scipy.linalg.ldl`",
    ),
]


@pytest.mark.parametrize("library", LIBRARIES)
def test_only_intended_differences_are_left(library):
    assert len(LIBRARIES[library]) > 20
    assert [x for x in FOUND if x.library == library and not any(y.covers(x) for y in DIFFERENCES)] == []


@pytest.mark.parametrize("entry", DIFFERENCES, ids=lambda x: f"{x.library}-{x.parameters}")
def test_intended_differences_are_there(entry):
    covered = [x for x in FOUND if entry.covers(x)]
    if entry.functions != "*":
        assert {x.function for x in covered} == {*entry.functions.split()}
    assert {x.parameter for x in covered} == {*entry.parameters.split()}


def table():
    """What docs/differences-from-numpy.md says of it."""
    rows = ["| in | of | argument | here |", "|---|---|---|---|"]
    for x in DIFFERENCES:
        functions = "all" if x.functions == "*" else f"`{x.functions}`"
        rows.append(f"| {x.library} | {functions} | `{x.parameters}` | {x.reason} |")
    return "\n".join(rows) + "\n"


def test_the_page_has_the_table():
    assert table() in PAGE.read_text(encoding="utf-8")


# What functions of torch.linalg return, but `residuals` and `singular_values` of `lstsq`: here norms are not
# squared, and no singular values are computed
FIELDS = {
    "cholesky_ex": "L info",
    "eig": "eigenvalues eigenvectors",
    "eigh": "eigenvalues eigenvectors",
    "inv_ex": "inverse info",
    "ldl_factor": "LD pivots",
    "ldl_factor_ex": "LD pivots info",
    "lstsq": "solution rank",
    "lu_factor": "LU pivots",
    "lu_factor_ex": "LU pivots info",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "solve_ex": "result info",
    "svd": "U S Vh",
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_of_pytorch(torch, name):
    a = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    b = [torch.ones(2, 1, dtype=torch.float64)] * (name in ("lstsq", "solve_ex"))
    ours, theirs = getattr(smallmm, name)(a, *b), getattr(torch.linalg, name)(a, *b)
    fields = re.findall(r"^(\w+)=", repr(theirs), re.MULTILINE)
    assert FIELDS[name].split() == [x for x in fields if x not in ("residuals", "singular_values")]
    for field in FIELDS[name].split():
        x, y = getattr(ours, field), getattr(theirs, field)
        assert x.shape == y.shape, field
        if field in ("eigenvectors", "Q", "R", "U", "Vh"):
            x, y = abs(x), abs(y)
        if field != "pivots" and name != "eig":
            np.testing.assert_allclose(x, y, atol=1e-12)


# --- calls -----------------------------------------------------------------------------------------------


def arguments_by_name(function, arguments, keywords):
    """All arguments as keywords, but those that are positional in NumPy, too."""
    bound = inspect.signature(function).bind(*arguments, **keywords)
    parameters = bound.signature.parameters
    only = [x for name, x in bound.arguments.items() if parameters[name].kind is Parameter.POSITIONAL_ONLY]
    more = [
        x
        for name in bound.arguments
        if parameters[name].kind is Parameter.VAR_POSITIONAL
        for x in bound.arguments[name]
    ]
    named = {
        name: x
        for name, x in bound.arguments.items()
        if parameters[name].kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    }
    return [*only, *more], named


@pytest.mark.parametrize("name", FUNCTIONS | COMPOSITIONS)
def test_arguments_have_names(rng, name):
    row = (FUNCTIONS | COMPOSITIONS)[name]
    a, b = rng.standard_normal((2, 5, 3, 3))
    a = a @ a.mT + 3 * np.eye(3)
    function = getattr(smallmm, row.op)
    only, named = arguments_by_name(function, (*row.arguments(a, b), *row.options), row.keywords)
    numpys = LIBRARIES["NumPy"].get(row.op)
    if numpys is None or next(iter(numpys.parameters.values())).kind is Parameter.POSITIONAL_OR_KEYWORD:
        assert only == [] or row.op in ("einsum", "contract")
    expected, found = row.by(function, a, b), function(*only, **named)
    for x, y in zip(as_tuple(expected), as_tuple(found), strict=True):
        assert_same_bits(np.asarray(x), np.asarray(y))


def test_options_by_position():
    a = np.array([[2.0, 1.0], [5.0, 3.0]])
    assert [x.shape for x in smallmm.svd(np.ones((3, 2)), False)] == [(3, 2), (2,), (2, 2)]
    assert smallmm.svd(a, True, False).shape == (2,)
    for name in ("eigh", "eigvalsh"):
        function, theirs = getattr(smallmm, name), getattr(np.linalg, name)
        for triangle in "LU":
            for x, y in zip(as_tuple(function(a, triangle)), as_tuple(theirs(a, triangle)), strict=True):
                np.testing.assert_allclose(abs(x), abs(y))
    assert smallmm.pinv(a, 0.5, True).shape == (2, 2)
    assert smallmm.matrix_rank(np.eye(2), 2.0, True) == 0
    assert smallmm.norm(a, 1, 0, True).shape == (1, 2)
    assert smallmm.vector_norm([[3, 4]], 1, 1) == 7
    assert smallmm.matrix_norm(a, 1) == 7
    assert_same_bits(smallmm.cholesky(a @ a.T, False), smallmm.cholesky(a @ a.T, upper=True))


# Functions, and what they make of a matrix of which a triangle is read: by default the first
TRIANGLES = {
    "cholesky": ("lower", {"lower": False}, {"upper": True}),
    "cholesky_ex": ("lower", {"lower": False}, {"upper": True}),
    "cho_factor": ("upper", {"lower": True}),
    "cho_factor_ex": ("upper", {"lower": True}),
    "eigh": ("lower", {"UPLO": "U"}, {"lower": False}),
    "eigvalsh": ("lower", {"UPLO": "U"}, {"lower": False}),
    "ldl_factor": ("lower", {"lower": False}),
    **{
        f"{name}, {word}": ("upper", {"lower": True})
        for name in ("solve", "inv", "linsolve", "solve_ex", "inv_ex")
        for word in ("pos", "sym", "her")
    },
    **{f"{name}, hermitian": ("lower", {"lower": False}) for name in ("svd", "pinv", "matrix_rank")},
    **{f"{name}, sym": ("lower", {"lower": False}) for name in ("expm", "sqrtm", "logm", "powm")},
    "solve_triangular": ("upper", {"lower": True}, {"upper": False}),
}


@pytest.mark.parametrize("case", TRIANGLES)
def test_one_triangle_is_read(rng, case):
    """The page says which by default, and what says otherwise."""
    name, _, word = case.partition(", ")
    first, *others = TRIANGLES[case]
    function = getattr(smallmm, name)
    x = rng.standard_normal((7, 3, 3))
    x = x @ x.mT + np.eye(3)
    options = {"hermitian": True} if word == "hermitian" else {"assume_a": word} if word else {}
    more = (np.ones((3, 1)),) if "solve" in name else (0.5,) if name == "powm" else ()
    halves = {"lower": np.tril(x) + np.triu(np.full((3, 3), 7.0), 1)}
    halves["upper"] = halves["lower"].mT.copy()
    second = "upper" if first == "lower" else "lower"
    for half, choices in ((first, [{}]), (second, others)):
        whole = np.tril(x) + np.tril(x, -1).mT
        if name == "solve_triangular":
            whole = np.tril(x) if half == "lower" else np.tril(x).mT
        expected = function(whole, *more, **options, **choices[0])
        for choice in choices:
            for y, z in zip(
                as_tuple(function(halves[half], *more, **options, **choice)), as_tuple(expected), strict=True
            ):
                assert_same_bits(np.asarray(y), np.asarray(z))
    page = PAGE.read_text(encoding="utf-8")
    row = next(
        x
        for x in page.splitlines()
        if re.match(rf"\| `[^|]*\b{name.removesuffix('_ex')}\b[^|]* \| (lower|upper)", x)
    )
    assert f"| {first}" in row


def test_explain_takes_names():
    a, b = np.eye(3), np.ones((3, 1))
    assert smallmm.explain("solve", a=a, b=b) == smallmm.explain("solve", a, b)
    assert smallmm.explain("linsolve", a=a, b=b, assume_a="auto").found == (("diagonal", 1),)
    assert smallmm.explain("solve_ex", a, b).kernel == smallmm.explain("solve", a, b).kernel


def test_contradictions_are_refused():
    for name in ("eigh", "eigvalsh"):
        with pytest.raises(ValueError, match=f"{name}: lower is True and UPLO 'U'"):
            getattr(smallmm, name)(np.eye(2), "U", lower=True)
        for subset in ((0, 2), (-1, 1), (1, 0)):
            with pytest.raises(
                ValueError, match=rf"{name}: subset_by_index is \(.*expected 0 <= first <= last < 2"
            ):
                getattr(smallmm, name)(np.eye(2), subset_by_index=subset)
        with pytest.raises(TypeError, match=f"{name}: subset_by_index is an? int"):
            getattr(smallmm, name)(np.eye(2), subset_by_index=1)
    with pytest.raises(ValueError, match="lstsq: rcond and cond are both given"):
        smallmm.lstsq(np.eye(2), np.ones(2), 0.1, cond=0.1)
    with pytest.raises(ValueError, match="inv: assume_a is 'odd'"):
        smallmm.inv(np.eye(2), assume_a="odd")
    with pytest.raises(TypeError, match="trace: dtype is int64; expected one that sums have"):
        smallmm.trace(np.eye(2), dtype=np.int64)
    with pytest.raises(TypeError, match="svd: hermitian is 'no'"):
        smallmm.svd(np.eye(2), hermitian="no")


@pytest.fixture
def good(rng, dtype):
    """Symmetric, or Hermitian, positive definite matrices."""
    x = rng.standard_normal((6, 4, 4)) + (1j * rng.standard_normal((6, 4, 4)) if dtype.kind == "c" else 0)
    return (x @ x.conj().mT + 4 * np.eye(4)).astype(dtype)


COMPLEX_TOO = pytest.mark.parametrize("dtype", [np.dtype("f8"), np.dtype("c16")], ids=str)


@COMPLEX_TOO
def test_eigenvalues_of_scipy(good):
    for first, last in [(0, 0), (1, 3), (0, 3)]:
        w, v = smallmm.eigh(good, subset_by_index=(first, last))
        np.testing.assert_allclose(good @ v, v * w[:, None, :], atol=1e-12)
        theirs = [scipy.linalg.eigh(x, eigvals_only=True, subset_by_index=(first, last)) for x in good]
        np.testing.assert_allclose(w, theirs)
        for found in (
            smallmm.eigvalsh(good, subset_by_index=(first, last)),
            smallmm.eigh(good, eigvals_only=True, subset_by_index=(first, last)),
            smallmm.eigh_ex(good, eigvals_only=True, subset_by_index=(first, last)).eigenvalues,
        ):
            np.testing.assert_allclose(found, theirs)
    assert_same_bits(smallmm.eigh(good, eigvals_only=True), smallmm.eigvalsh(good))
    out = np.empty((6, 2)), np.empty((6, 4, 2), good.dtype)
    results = smallmm.eigh(good, subset_by_index=(2, 3), out=out)
    assert results.eigenvalues is out[0]
    assert results.eigenvectors is out[1]
    assert smallmm.eigh_ex(good, subset_by_index=(2, 3))._fields == ("eigenvalues", "eigenvectors", "info")


@COMPLEX_TOO
def test_svd_of_hermitian(good):
    a = good - 8 * np.eye(4)  # of both signs
    u, s, vh = smallmm.svd(np.tril(a), hermitian=True)
    np.testing.assert_allclose((u * s[:, None, :]) @ vh, a, atol=1e-12)
    np.testing.assert_allclose(s, np.linalg.svd(a, hermitian=True, compute_uv=False))
    np.testing.assert_allclose(smallmm.svd(np.triu(a), True, False, True, lower=False), s)


@COMPLEX_TOO
@pytest.mark.parametrize(
    "word",
    [
        "pos",
        "her",
        "sym",
        "upper triangular",
        "lower triangular",
        "diagonal",
        "tridiagonal",
        "banded",
        "general",
        None,
    ],
)
def test_inverses_of_structures(good, word):
    a = good + (good - good.mT if word == "sym" else 0)
    a = (a + a.mT) / 2 if word == "sym" else np.tril(a) if word == "lower triangular" else a
    a = np.triu(a) if word == "upper triangular" else a * np.eye(4) if word == "diagonal" else a
    a = np.tril(np.triu(a, -1), 1) if word in ("tridiagonal", "banded") else a
    np.testing.assert_allclose(smallmm.inv(a, assume_a=word), np.linalg.inv(a), atol=1e-12)
    a[2] = 0
    with pytest.raises(smallmm.LinAlgError, match="1 of 6 matrices is") as caught:
        smallmm.inv(a, assume_a=word)
    inverse, info = smallmm.inv_ex(a, assume_a=word)
    assert (info != 0).tolist() == [False, False, True, False, False, False]
    assert_same_bits(caught.value.result, inverse)


def test_ranks_of_pseudoinverses(rng):
    a = rng.standard_normal((5, 4, 3))
    a[2, :, 2] = a[2, :, 0]
    x, rank = smallmm.pinv(a, return_rank=True)
    assert_same_bits(x, smallmm.pinv(a))
    assert rank.tolist() == [scipy.linalg.pinv(y, return_rank=True)[1] for y in a] == [3, 3, 2, 3, 3]
    assert rank.dtype == np.int64
    assert smallmm.pinv(np.diag([1.0, 0.0]), hermitian=True, return_rank=True)[1] == 1
    assert_same_bits(smallmm.lstsq(a, a, cond=1e-3).rank, smallmm.lstsq(a, a, 1e-3).rank)


@COMPLEX_TOO
def test_transposed_systems(good, rng):
    a, b = good + 3 * np.triu(np.ones((4, 4))), rng.standard_normal((6, 4, 2))
    np.testing.assert_allclose(smallmm.solve(a, b, transposed=True), np.linalg.solve(a.mT, b))
    np.testing.assert_allclose(smallmm.solve(a, b.mT, transposed=True, left=False), np.linalg.solve(a, b).mT)
    for word in ("pos", "her", "upper triangular", "lower triangular"):
        x = np.triu(a) if word == "upper triangular" else np.tril(a) if word == "lower triangular" else good
        found = smallmm.solve(x, b, assume_a=word, transposed=True)
        np.testing.assert_allclose(found, np.linalg.solve(x.mT, b), atol=1e-12)


def test_trace_in_a_dtype():
    a = np.full((2, 40, 40), 0.1, np.float32)
    assert smallmm.trace(a, dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(smallmm.trace(a, dtype=np.float64), smallmm.trace(a.astype(float)))
    np.testing.assert_allclose(
        smallmm.trace(a, offset=2, dtype=complex), np.linalg.trace(a, offset=2, dtype=complex)
    )
    assert smallmm.einsum("ij,jk->ik", np.eye(2), np.eye(2), optimize="greedy").shape == (2, 2)


def test_dtypes_of_other_libraries(torch):
    a = torch.ones((3, 2, 2), dtype=torch.float32)
    assert smallmm.trace(a, dtype=torch.float64).dtype == torch.float64
    assert smallmm.einsum("bii->b", a, dtype=torch.float64).dtype == torch.float64
    with pytest.raises(TypeError, match="trace: dtype is int64"):
        smallmm.trace(a, dtype=torch.int64)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: smallmm.inv(a, assume_a="pos"),
        lambda a: smallmm.inv(a, assume_a="tridiagonal"),
        lambda a: smallmm.svd(a, hermitian=True).S,
        lambda a: smallmm.eigh(a, subset_by_index=(1, 2)).eigenvectors,
        lambda a: smallmm.pinv(a, return_rank=True)[0],
        lambda a: smallmm.trace(a, dtype=np.float64),
        lambda a: smallmm.matrix_power_ex(a, 3).x,
        lambda a: smallmm.solve(a, a[:, :, :1], transposed=True),
        lambda a: smallmm.cho_factor_ex(a).c,
        lambda a: smallmm.logm_ex(a, assume_a="sym", lower=False).x,
    ],
)
def test_derivatives_of_options(torch, rng, call):
    a = rng.standard_normal((2, 3, 3))
    a = torch.tensor(a @ a.mT + np.eye(3), requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: call((a + a.mT) / 2), a)


def test_each_form_of_pinv_has_its_derivative(torch, rng):
    """Whatever forms there were before."""
    a = torch.tensor(rng.standard_normal((3, 4, 4)), requires_grad=True)
    forms = (
        {"hermitian": True},
        {"hermitian": True, "lower": False},
        {"rtol": 1e-10},
        {"return_rank": True},
        {"hermitian": True, "rtol": 1e-10, "return_rank": True},
        {},
    )
    for options in forms:
        x = smallmm.pinv(a, **options)
        x = x[0] if "return_rank" in options else x
        expected = smallmm.pinv(a.detach().numpy(), **{**options, "return_rank": False})
        np.testing.assert_allclose(x.detach().numpy(), expected)
        assert torch.autograd.grad(x.sum(), a)[0].shape == a.shape
        traced = torch.vmap(lambda a, options=options: smallmm.pinv(a, **options))(a.detach())
        np.testing.assert_allclose(traced[0] if "return_rank" in options else traced, expected)


def test_options_within_fused_functions(rng):
    a = rng.standard_normal((5, 3, 3))
    a = a @ a.mT + np.eye(3)
    for function in (
        lambda a: smallmm.solve(a=a, b=a + 1),
        lambda a: np.linalg.inv(a=a),
        lambda a: np.linalg.eigh(a, "U")[0],
        lambda a: np.linalg.svd(a, False)[1],
        lambda a: smallmm.solve_ex(a, a + 1, check_errors=True).x,
        lambda a: smallmm.inv(a, assume_a="pos"),
        lambda a: smallmm.svd(a, hermitian=True).S,
        lambda a: smallmm.trace(a, dtype=np.float64),
    ):
        np.testing.assert_allclose(smallmm.fuse(function, "(n,n)")(a), function(a), rtol=1e-12)


def test_groups_and_lazy_arrays_take_options(rng):
    a = [x @ x.T + np.eye(len(x)) for x in (rng.standard_normal((n, n)) for n in (2, 3, 3))]
    group = smallmm.Group(a)
    assert smallmm.inv_ex(group, check_errors=True).info.tolist() == [0, 0, 0]
    for x, y in zip(smallmm.cholesky(a=group, upper=True), a, strict=True):
        assert_same_bits(x, smallmm.cholesky(y, upper=True))
    for x, y in zip(smallmm.solve(group, group, assume_a="pos"), a, strict=True):
        assert_same_bits(x, smallmm.solve(y, y, assume_a="pos"))


def test_factors_in_one_tuple():
    a, b = np.array([[0.0, 1.0], [1.0, 3.0]]), np.ones(2)
    lu, ldl = smallmm.lu_factor(a), smallmm.ldl_factor(a)
    for x, y in (
        (smallmm.lu_rcond(lu, 4.0), smallmm.lu_rcond(*lu, 4.0)),
        (smallmm.lu_rcond(lu, 4.0, np.inf), smallmm.lu_rcond(*lu, 4.0, np.inf)),
        (smallmm.lu_rcond(lu, norm_a=4.0), smallmm.lu_rcond(lu=lu.LU, pivots=lu.pivots, norm_a=4.0)),
        (smallmm.ldl_solve(ldl, b), smallmm.ldl_solve(*ldl, b)),
        (smallmm.ldl_solve(ldl, b=b, lower=True), smallmm.ldl_solve(*ldl, b)),
        (smallmm.refine(a, lu, b, b).x, smallmm.refine(a, *lu, b, b).x),
    ):
        assert_same_bits(np.asarray(x), np.asarray(y))


# --- twins -----------------------------------------------------------------------------------------------

EVERY_TWIN = [name for name in smallmm.__all__ if name.endswith("_ex")]
TWINS = [x for x in EVERY_TWIN if x != "scan_ex"]  # whose first argument is a function


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_twins_take_what_their_functions_take(name):
    plain = inspect.signature(getattr(smallmm, name.removesuffix("_ex"))).parameters
    own = inspect.signature(getattr(smallmm, name)).parameters
    assert own.keys() - plain.keys() == {"check_errors"}
    assert [x for x in own if x not in ("check_errors", "out")] == [x for x in plain if x != "out"]


def with_bad(name):
    """The arguments of a function, and of one whose matrix number 2 fails."""
    op = name.removesuffix("_ex")
    a, b = np.stack([2 * np.eye(3) + 0.1 * np.ones((3, 3))] * 4), np.ones((4, 3, 1))
    bad = a.copy()
    bad[2] = np.diag([1.0, -1.0, 0.0]) if op in ("sqrtm", "logm", "powm") else 0
    keywords = {"assume_a": "sym"} if op in ("sqrtm", "logm", "powm") else {}

    def given(a):
        main, beside = a.diagonal(0, -2, -1), a.diagonal(1, -2, -1)
        if op.startswith("tensor"):
            tensor = a[2].reshape(3, 1, 3)
            return (tensor, np.ones((3, 1))) if op == "tensorsolve" else (tensor,)
        return {
            "solve_tridiagonal": (beside, main, beside, b),
            "solve_banded": ((0, 0), main[:, None, :], b),
            "solveh_banded": (main[:, None, :], b),
            "matrix_power": (a, -2),
            "powm": (a, -0.5),
        }.get(op, (a, b) if "solve" in op or op == "lstsq" else (a,))

    return given(a), given(bad), keywords


CAN_FAIL = [x for x in TWINS if not x.startswith(("eig", "schur", "svd", "lstsq"))]


@pytest.mark.parametrize("name", CAN_FAIL)
def test_twins_agree_with_their_functions(name):
    twin, plain = getattr(smallmm, name), getattr(smallmm, name.removesuffix("_ex"))
    good, bad, keywords = with_bad(name)
    *results, info = twin(*good, **keywords)
    assert not np.any(info)
    for x, y in zip(results, as_tuple(plain(*good, **keywords)), strict=True):
        assert_same_bits(np.asarray(x), np.asarray(y))
    *results, info = twin(*good, check_errors=True, **keywords)
    assert np.asarray(info).dtype == np.int32
    assert not np.any(info)
    *results, info = twin(*bad, **keywords)
    with pytest.raises(smallmm.LinAlgError) as caught:
        plain(*bad, **keywords)
    np.testing.assert_array_equal(caught.value.info, info)
    for x, y in zip(results, as_tuple(caught.value.result), strict=True):
        assert_same_bits(np.asarray(x), np.asarray(y))
    with pytest.raises(smallmm.LinAlgError) as again:
        twin(*bad, check_errors=True, **keywords)
    assert str(again.value) == str(caught.value).replace(name.removesuffix("_ex"), name, 1)


@pytest.mark.parametrize("name", TWINS)
def test_twins_write_to_out(name):
    twin = getattr(smallmm, name)
    good, _, keywords = with_bad(name)
    results = twin(*good, **keywords)
    arrays = [x for x in results if isinstance(x, np.ndarray | np.generic)]
    out = tuple(np.empty_like(np.asarray(x)) for x in arrays)
    again = twin(*good, out=out, **keywords)
    written = [x for x in again if isinstance(x, np.ndarray)]
    assert all(x is y for x, y in zip(written, out, strict=True))
    for x, y in zip(out, arrays, strict=True):
        assert_same_bits(x, np.asarray(y))
    with pytest.raises(TypeError, match=rf"^{name}: out is a tuple of {len(out) + 1}; expected a tuple "):
        twin(*good, out=(*out, None), **keywords)


def test_pages_list_the_twins():
    plain = {name.removesuffix("_ex") for name in EVERY_TWIN}
    page = (PAGE.parent / "errors.md").read_text(encoding="utf-8")
    listed = re.search(r"one for each function of this\s+list:\s+`([^`]+)`", page)[1]
    assert {*listed.split()} == plain


def test_errors_of_twins_name_them():
    for call, message in (
        (lambda: smallmm.solve_ex(np.eye(2), np.ones(3)), "^solve_ex: b has shape"),
        (lambda: smallmm.solve_ex(np.eye(2), np.ones(2), assume_a="odd"), "^solve_ex: assume_a is 'odd'"),
        (lambda: smallmm.eigh_ex(np.eye(2), "X"), "^eigh_ex: UPLO is 'X'"),
        (lambda: smallmm.inv_ex(np.eye(2), check_errors="no"), "^inv_ex: check_errors is 'no'"),
        (lambda: smallmm.inv_ex(), r"^inv_ex\(\) missing 1 required"),
        (lambda: smallmm.inv_ex(np.eye(2), odd=1), r"^inv_ex\(\) got an unexpected keyword"),
        (lambda: smallmm.tensorinv_ex(np.ones((2, 3))), "^tensorinv_ex: "),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_results_follow_the_options_of_twins():
    a, b = np.eye(3), np.ones(3)
    assert type(smallmm.svd_ex(a, compute_uv=False)) is smallmm.SVDvalsExResult
    assert type(smallmm.lstsq_ex(a, b, precision="mixed")) is smallmm.LstsqMixedExResult
    assert type(smallmm.linsolve_ex(a, b, return_rcond=True)) is smallmm.LinsolveExpertResult
    assert smallmm.cho_factor_ex(a, True).lower is True
    assert smallmm.matrix_power_ex(np.eye(2), 3).info == 0
    assert smallmm.matrix_power_ex(np.ones((4, 2, 2)), 3).info.tolist() == [0] * 4
    assert smallmm.matrix_power_ex(np.ones((0, 0)), 0).info == 0
    assert smallmm.powm_ex(np.zeros((2, 2)), -1).info == 1
    with pytest.raises(smallmm.LinAlgError):
        smallmm.linsolve_ex(np.zeros((3, 3)), b, return_rcond=True, check_errors=True)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    old = re.search(r"^\| in \| of \|.*\n(\|.*\n)+", page, re.MULTILINE)
    PAGE.write_text(page[: old.start()] + table() + page[old.end() :], encoding="utf-8")

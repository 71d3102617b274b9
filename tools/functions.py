"""Writes the table of functions in docs/functions.md: what autodoc makes of docs/api.md is not seen on a code
host. Sections and their order are those of docs/api.md, everything else is asked of the functions. Writes
also that of the C core's operations, in docs/from-c.md.

    python tools/functions.py            rewrite the tables
    python tools/functions.py --check    exit 1 if one is not up to date

It needs NumPy and SciPy, whose names of functions it looks up."""

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

import smallmm  # noqa: E402
from smallmm import _core  # noqa: E402
from smallmm._base.catalog import COMPOSITIONS, FUNCTIONS  # noqa: E402
from smallmm._libraries.recording import RULES  # noqa: E402

API = ROOT / "docs" / "api.md"

# What torch.linalg has; PyTorch itself need not be installed.
TORCH = {
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu_factor", "lu_factor_ex",
    "lu_solve", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr",
    "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve",
    "vecdot", "vector_norm",
}  # fmt: skip
# Functions that NumPy, SciPy, PyTorch have by another name or elsewhere; None: by the same name
ELSEWHERE: dict[str, tuple[str | None, str | None, str | None]] = {
    "batched_matmul": ("matmul", None, "baddbmm"),
    "cho_solve": (None, None, "cholesky_solve"),
    "contract": ("einsum", None, "einsum"),
    "conv2d": (None, None, "nn.functional.conv2d"),
    "einsum": (None, None, "einsum"),
    "expm": (None, None, "linalg.matrix_exp"),
    "gaussian_logpdf": (None, "stats.multivariate_normal.logpdf", "distributions.MultivariateNormal"),
    "ldl_factor": (None, "linalg.ldl", None),
    "linsolve": (None, "linalg.solve", None),
    "mahalanobis": (None, "spatial.distance.mahalanobis", None),
    "matrix_transpose": (None, None, "Tensor.mT"),
    "matvec": (None, None, "mv"),
    "outer": (None, None, "outer"),
    "powm": (None, "linalg.fractional_matrix_power", None),
    "tensordot": (None, None, "tensordot"),
    "trace": (None, None, "trace"),
}
# Compositions of which a step or the result has no derivative
NOT_DIFFERENTIATED = {"matrix_rank", "rcond"}

COLUMNS = (
    *("function", "what it computes", "NumPy", "SciPy", "PyTorch"),
    *("`out`", "`_ex`", "`assume_a`", "`Group`", "derivative"),
)


def sections() -> Iterator[tuple[str, str, list[str]]]:
    """Heading, module and functions of each list of docs/api.md."""
    for part in re.split(r"^## ", API.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        module = re.search(r"^\.\. currentmodule:: (\S+)$", part, re.MULTILINE)
        names = re.findall(r"^\.\. autofunction:: (\w+)$", part, re.MULTILINE)
        if module and names:
            yield part.partition("\n")[0], module[1], names


def of_numpy(name: str) -> str | None:
    """The ufuncs stand beside numpy.linalg, whose functions of these names are theirs with fewer options."""
    if hasattr(np.linalg, name) and not isinstance(getattr(np, name, None), np.ufunc):
        return f"linalg.{name}"
    return name if hasattr(np, name) else None


def other_names(name: str) -> tuple[str | None, ...]:
    same = (
        of_numpy(name),
        f"linalg.{name}" if callable(getattr(scipy.linalg, name, None)) else None,
        f"linalg.{name}" if name in TORCH else None,
    )
    elsewhere = ELSEWHERE.get(name, (None, None, None))
    return tuple(other or by_name for other, by_name in zip(elsewhere, same, strict=True))


def takes_a_group(name: str) -> bool:
    """Whether it computes two matrices of different orders that are a group."""
    matrices = smallmm.Group([np.array([[3.0, 1.0], [1.0, 2.0]]), np.diag([3.0, 4.0, 5.0])])
    vectors, samples = smallmm.Group([np.ones(2), np.ones(3)]), smallmm.Group([_SAMPLES, _SAMPLES[:, :2]])
    diagonals = smallmm.Group([np.ones((1, 2)), np.ones((1, 3))])
    arguments: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("sqrtm", "logm"), (matrices,)),
        **dict.fromkeys(("mahalanobis", "gaussian_logpdf"), (vectors, vectors, matrices)),
        **dict.fromkeys(("whiten", "whitening", "cov", "corr"), (samples,)),
        "ridge": (samples, samples, 1.0),
        "kalman_step": (vectors, matrices, vectors, *[matrices] * 4),
        "matrix_power": (matrices, 2),
        "powm": (matrices, 0.5),
        "multi_dot": ([matrices, matrices],),
        "cho_solve": (smallmm.cho_factor(matrices), matrices),
        "lu_solve": (smallmm.lu_factor(matrices), matrices),
        "ldl_solve": (smallmm.ldl_factor(matrices), matrices),
        "lu_rcond": (smallmm.lu_factor(matrices), 1.0),
        "solve_banded": ((0, 0), diagonals, matrices),
        "solveh_banded": (diagonals, matrices),
        "contract": ("...ij,...jk", matrices, matrices),
        "einsum": ("...ij,...jk", matrices, matrices),
        "sliding": (samples, 2),
    }
    function = getattr(smallmm, name)
    needed = [x for x in inspect.signature(function).parameters.values() if x.default is x.empty]
    given = arguments.get(name, (matrices,) * sum(x.kind < x.VAR_POSITIONAL for x in needed))
    try:
        function(*given)
    except (TypeError, ValueError, NotImplementedError):
        return False
    return True


_SAMPLES = np.array([[1.0, 0.0, 2.0], [2.0, 5.0, 1.0], [4.0, 1.0, 7.0], [3.0, 2.0, 0.0], [0.0, 4.0, 4.0]])


def derivative(name: str) -> str:
    if name in FUNCTIONS:
        has = [gufunc in RULES for gufunc in FUNCTIONS[name].gufuncs]
        return "yes" if all(has) else "some options" if any(has) else ""
    return "" if name in NOT_DIFFERENTIATED else "yes"


def first_sentence(function: Callable[..., Any]) -> str:
    """Of its docstring, in Markdown."""
    paragraph = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    return re.sub(r"`+", "`", re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]).replace("|", r"\|")


def link(name: str, function: Callable[..., Any]) -> str:
    source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").resolve()
    return f"[`{name}`](../{source.relative_to(ROOT).as_posix()})"


def row(name: str) -> list[str]:
    """Of a function of arrays."""
    function = getattr(smallmm, name)
    options = inspect.signature(function).parameters
    yes = {True: "yes", False: ""}
    return [
        link(name, function),
        first_sentence(function),
        *(f"`{other}`" if other else "" for other in other_names(name)),
        yes["out" in options],
        yes[f"{name}_ex" in smallmm.__all__],
        yes["assume_a" in options],
        yes[takes_a_group(name)],
        derivative(name),
    ]


def lines(columns: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows)]


def functions() -> str:
    """A table for each section of docs/api.md."""
    found: list[str] = []
    for heading, module, names in sections():
        for name in names:
            getattr(sys.modules.get(module) or smallmm, name, None)  # enters those that are imported later
        of_arrays = [
            x for x in names if x in {**FUNCTIONS, **COMPOSITIONS} or hasattr(getattr(smallmm, x, None), "ex")
        ]
        found += [f"## {heading}", ""]
        if of_arrays and module == "smallmm":
            rows = [row(x) for x in of_arrays if x != "fuse" and not x.endswith("_ex")]
            found += [*lines(COLUMNS, rows), ""]
        rest = [x for x in names if x not in of_arrays or x == "fuse"]
        if rest:
            prefix = "" if module == "smallmm" else module.removeprefix("smallmm.") + "."
            functions = {prefix + x: getattr(resolved(module), x) for x in rest}
            rows = [[link(x, function), first_sentence(function)] for x, function in functions.items()]
            found += [*lines(("function", "what it does"), rows), ""]
    return "\n".join(found).strip()


def resolved(module: str) -> Any:
    """smallmm or one of its modules."""
    return getattr(smallmm, module.partition(".")[2]) if "." in module else smallmm


def operand(name: str, optional: bool, element: str, rows: str, cols: str) -> str:
    size = "" if rows == cols == "1" else f" {rows} x {cols}" if cols != "1" else f" {rows}"
    return f"`{name}`{'*' * optional}{size}{'' if element == 'number' else f' ({element})'}"


def operations() -> str:
    """A row for each operation of the C core."""
    rows = []
    for name, operands in _core.operations.items():
        sides: dict[str, list[str]] = {"in": [], "out": []}
        for operand_name, direction, *more in operands:
            sides[direction].append(operand(operand_name, *more))
        rows.append([f"`SMM_OP_{name}`", ", ".join(sides["in"]) + " → " + ", ".join(sides["out"])])
    return "\n".join(lines(("operation", "operands"), rows))


# Page -> the name of its section, and what writes it
TABLES = {"functions.md": ("functions", functions), "from-c.md": ("operands", operations)}


def rendered(page: str) -> str:
    """A page of docs/ as it should be."""
    name, table = TABLES[page]
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(begin)
    return f"{before}{begin}\n{table()}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if one is not up to date"
    )
    check = parser.parse_args().check
    for name in TABLES:
        page, new = ROOT / "docs" / name, rendered(name)
        if check and new != page.read_text(encoding="utf-8"):
            sys.exit(f"docs/{name} is not up to date: run python tools/functions.py")
        page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()

"""The order of smallmm's packages: a module imports those of its own package and of what stands before it,
in functions too, and nothing in a circle. `make lint` runs this; it prints what breaks the order.

A lower package that needs a higher one when it is called asks `smallmm/_base/later.py`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "smallmm"
# A module that stands apart from its package has a line of its own.
ORDER = (
    *("_base", "_libraries", "_gpu", "cuda", "_calls"),
    "_functions.products",  # of which all sums are made
    *("numa", "_programs", "_patching", "_functions", "_derivatives", "_offload"),
    *("_tools", "testing", "__main__"),
)

Graph = dict[str, set[str]]


def graph(package: Path = PACKAGE) -> Graph:
    """What each module imports of the package, but for types; without __init__.py, which stands above all."""
    files = {".".join(f.relative_to(package).with_suffix("").parts): f for f in package.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): file for name, file in files.items() if name != "__init__"}
    return {name: _imported(name, file, modules) - {name} for name, file in modules.items()}


def _imported(name: str, file: Path, modules: dict[str, Path]) -> set[str]:
    own = ["smallmm", *name.split(".")]
    package = own if file.name == "__init__.py" else own[:-1]
    found = set()
    for full in _names(ast.parse(file.read_text(encoding="utf-8")), package):
        top, _, inner = full.partition(".")
        parts = inner.split(".")
        longest = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        if top == "smallmm" and (module := next((x for x in longest if x in modules), None)):
            found.add(module)
    return found


def _names(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """What is imported, each with its module."""
    for_types = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*module, alias.name]) for alias in node.names)


def _place(module: str) -> int:
    return ORDER.index(module if module in ORDER else module.partition(".")[0])


def upwards(imports: Graph) -> list[str]:
    """Imports of what stands later in the order."""
    return [
        f"smallmm.{module} imports smallmm.{other}, which stands above it"
        for module, others in sorted(imports.items())
        for other in sorted(others)
        if _place(other) > _place(module)
    ]


def circle(imports: Graph) -> list[str]:
    """Modules that import each other in a circle, if there are any."""
    left = dict(imports)
    while done := [module for module, others in left.items() if not others & left.keys()]:
        for module in done:
            del left[module]
    return [f"smallmm.{module} is part of a circle of imports" for module in sorted(left)]


if __name__ == "__main__":
    sys.exit("\n".join([*upwards(graph()), *circle(graph())]) or 0)

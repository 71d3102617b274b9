"""The order of smallmm's packages: a module imports those of its own package and of what stands before it,
in functions too, and nothing in a circle. Nor do files of C call each other in a circle. No folder has more
files than a reader takes in at a glance. `make lint` runs this; it prints what breaks the order.

A lower package that needs a higher one when it is called asks `smallmm/_base/later.py`."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "smallmm"
# A module that stands apart from its package has a line of its own.
ORDER = (
    *("_base", "_libraries", "_gpu", "cuda", "_calls"),
    "_functions.products",  # of which all sums are made
    *("numa", "_programs", "_patching", "_functions", "_schur", "_statistics", "_recurrences"),
    *("_derivatives", "_offload"),
    *("_tools.timing", "demo", "_tools", "testing", "__main__"),
)

Graph = dict[str, set[str]]
# Files of C that are linked together, each group as a whole below the next
LINKED = (
    ("csrc/core/*.c", "csrc/threads/*.c", "csrc/reference/*.c"),
    ("csrc/cuda/*.c", "csrc/cuda/*/*.c"),
    ("csrc/python/*.c", "csrc/python/*/*.c"),
)
MAX_FILES = 25  # in a folder, without __init__.py
SOURCES = {".py", ".sh", ".c", ".h", ".cpp", ".cuh", ".def"}


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


_NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)
_DEFINITION = re.compile(r"^(?!static\b)[A-Za-z_][\w *]*?\b(smm_\w+)\([^;{}]*\)\s*\{", re.MULTILINE)


def calls(patterns: tuple[str, ...], root: Path = ROOT) -> Graph:
    """The files of C whose functions each file names."""
    paths = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    texts = {
        str(path.relative_to(root)): _NO_CODE.sub(" ", path.read_text(encoding="utf-8")) for path in paths
    }
    home = {name: file for file, text in texts.items() for name in _DEFINITION.findall(text)}
    named = {file: set(re.findall(r"\bsmm_\w+", text)) for file, text in texts.items()}
    return {file: {home[name] for name in names & home.keys()} - {file} for file, names in named.items()}


def upwards(imports: Graph) -> list[str]:
    """Imports of what stands later in the order."""
    return [
        f"smallmm.{module} imports smallmm.{other}, which stands above it"
        for module, others in sorted(imports.items())
        for other in sorted(others)
        if _place(other) > _place(module)
    ]


def circle(imports: Graph) -> list[str]:
    """Modules or files that need each other in a circle, if there are any."""
    left = dict(imports)
    while done := [module for module, others in left.items() if not others & left.keys()]:
        for module in done:
            del left[module]
    while above := [module for module in left if not any(module in others for others in left.values())]:
        for module in above:
            del left[module]
    return [f"{module} is part of a circle" for module in sorted(left)]


def crowded(root: Path = ROOT) -> list[str]:
    """Folders with too many source files. Those of builds do not count: git ignores them."""
    counts = Counter(
        path.parent.relative_to(root)
        for folder in ("benchmarks", "csrc", "smallmm", "tests", "tools")
        for path in (root / folder).rglob("*")
        if path.suffix in SOURCES
        and path.name != "__init__.py"
        and "build" not in path.parts[len(root.parts) :]
    )
    most = counts.most_common()
    return [f"{folder} has {n} source files, more than {MAX_FILES}" for folder, n in most if n > MAX_FILES]


if __name__ == "__main__":
    circles = [line for group in (graph(), *map(calls, LINKED)) for line in circle(group)]
    sys.exit("\n".join([*upwards(graph()), *circles, *crowded()]) or 0)

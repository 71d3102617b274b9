"""The error of a package that cannot start: the compiled core refuses the environment, or is missing."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]


def explained(why: ValueError | ModuleNotFoundError) -> Exception:
    """What to raise if the import of the core fails with `why`; `python -m smallmm` exits with one line."""
    refused: Exception = why
    if isinstance(why, ModuleNotFoundError) and (FOLDER.parent / "setup.py").exists():
        refused = ImportError(_without_core(), name=why.name, path=str(FOLDER))
    # python -m imports this package before __main__ could say anything.
    if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "smallmm":
        print(f"python -m smallmm: {refused}", file=sys.stderr)
        sys.exit(2)
    return refused


def _without_core() -> str:
    """The message for a source folder in which nothing was built for this Python."""
    said = f"smallmm was imported from its source folder {FOLDER}, which has no core compiled for this Python"
    others = [entry for entry in sys.path if Path(entry).resolve() != FOLDER.parent]
    installed = PathFinder.find_spec("_core", [str(Path(entry, "smallmm")) for entry in others])
    if installed and installed.origin:
        found = Path(installed.origin).parent
        return f"{said}. It is installed in {found}: start Python in another folder, or with -P"
    return (
        f"{said}. Compile it there (pip install -e .), or install it (pip install .) and start Python with -P"
    )

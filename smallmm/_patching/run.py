"""The commands `python -m smallmm run` and `patch`: programs whose NumPy and PyTorch are patched."""

import argparse
import atexit
import os
import runpy
import sys
import sysconfig
from pathlib import Path
from typing import Any

from .patch import LIBRARIES, patch_numpy, patch_report, patch_torch
from .when_imported import when_imported

RUN = """\
Run a script or a module whose NumPy and PyTorch compute stacks of small matrices by smallmm, and which is
otherwise unchanged: see smallmm.patch_numpy and patch_torch. Options of smallmm come before it, its own after
it. Without --numpy and --torch both are patched; PyTorch when the program imports it."""
PATCH = """\
Have programs that are started with SMALLMM_PATCH=numpy or SMALLMM_PATCH=numpy,torch patched
(smallmm.patch_numpy, patch_torch): a file beside the installed packages, which Python reads whenever it
starts. Without that variable it imports nothing."""

FILE = "smallmm-patch.pth"
LINE = 'import os; os.environ.get("SMALLMM_PATCH") and __import__("smallmm._patching.at_start")\n'


def add_commands(commands: Any) -> None:
    run = commands.add_parser("run", help="run a program with NumPy and PyTorch patched", description=RUN)
    for library in LIBRARIES:
        run.add_argument(f"--{library}", action="store_true", help=f"patch {library}")
    run.add_argument("--report", action="store_true", help="at exit, print smallmm.patch_report() on stderr")
    run.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is a module")
    run.add_argument("program", metavar="PROGRAM", help="a script")
    run.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="its arguments")
    run.set_defaults(run=run_program)

    patch = commands.add_parser("patch", help="have programs start patched", description=PATCH)
    patch.add_argument("action", choices=["install", "uninstall", "status"])
    patch.add_argument("--target", type=Path, help="the folder (default: site-packages of this Python)")
    patch.set_defaults(run=_run_patch)


def patch_program(libraries: list[str]) -> None:
    """Patch NumPy now, and PyTorch when it is imported."""
    if "numpy" in libraries:
        patch_numpy()
    if "torch" in libraries:
        when_imported("torch", _patch_torch_or_say_why)


def _patch_torch_or_say_why() -> None:
    try:
        patch_torch()
    except RuntimeError as why:
        print(f"smallmm: {why}", file=sys.stderr)


def run_program(options: argparse.Namespace) -> None:
    """As Python runs it; what it raises is its own."""
    patch_program([name for name in LIBRARIES if getattr(options, name)] or list(LIBRARIES))
    if options.report:
        atexit.register(lambda: print(patch_report(), file=sys.stderr))
    sys.argv = [options.program, *options.arguments]
    if options.is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(options.program).resolve().parent)
        runpy.run_path(options.program, run_name="__main__")


def _run_patch(options: argparse.Namespace) -> None:
    path = (options.target or Path(sysconfig.get_path("purelib"))) / FILE
    if options.action == "install":
        path.write_text(LINE, encoding="utf-8")
    elif options.action == "uninstall":
        path.unlink(missing_ok=True)
    print(f"{path}: {'installed' if path.exists() else 'not installed'}")

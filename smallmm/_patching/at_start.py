"""Patches what SMALLMM_PATCH names, in a program that starts. The file that `python -m smallmm patch install`
writes imports it if that variable is set. A program starts whatever is wrong with the variable."""

import os
import sys

from .patch import check_libraries
from .run import patch_program

try:
    names = os.environ.get("SMALLMM_PATCH", "").replace(" ", "").split(",")
    check_libraries("SMALLMM_PATCH", tuple(names))
    patch_program(names)
except (RuntimeError, ValueError) as why:
    print(f"smallmm: {why}", file=sys.stderr)

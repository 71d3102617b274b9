"""Patches what SMALLMM_PATCH names, in a program that starts. The file that `python -m smallmm patch install`
writes imports it if that variable is set. A program starts whatever is wrong with the variable."""

import os
import sys

from ._patch import check_libraries, patch_numpy

try:
    check_libraries("SMALLMM_PATCH", tuple(os.environ.get("SMALLMM_PATCH", "").replace(" ", "").split(",")))
    patch_numpy()
except (RuntimeError, ValueError) as why:
    print(f"smallmm: {why}", file=sys.stderr)

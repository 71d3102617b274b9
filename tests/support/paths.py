"""Importing this puts the folders of tests/ on the path, for programs that are no tests themselves."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TESTS / folder)
    for folder in ("support", "functions", "programs", "cuda", "cuda/device", "cuda/emulated")
]

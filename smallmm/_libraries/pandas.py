"""Objects of pandas, which takes ufuncs that it does not know for ufuncs of elements: it aligns the operands'
labels, and attaches them to the result. Their values are taken instead, as numpy.linalg does."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numpy import NumPy


class Pandas(NumPy):
    def values(self, x: Any) -> np.ndarray:
        return np.asarray(x)

"""Multiply millions of tiny matrices held in stacked arrays, at the machine's limit.

>>> import numpy as np
>>> import smallmm
>>> a = np.ones((1_000_000, 3, 3))
>>> smallmm.batched_matmul(a, a.mT).shape
(1000000, 3, 3)
"""

from ._config import Explanation, explain, get_num_threads, set_num_threads, show_config, threads
from ._core import __version__
from ._matmul import batched_matmul, matmul, matvec, vecmat

__all__ = [
    "Explanation",
    "__version__",
    "batched_matmul",
    "explain",
    "get_num_threads",
    "matmul",
    "matvec",
    "set_num_threads",
    "show_config",
    "threads",
    "vecmat",
]

"""What the tests of patched NumPy and PyTorch share: the library patched, and threads that compute while it
is patched and unpatched."""

import os
import random
import threading
import time
from contextlib import contextmanager

import smallmm
import smallmm._core as core

# By default few, as they take the time of two cores; the page docs/patch.md tells of 1,000.
TIMES = int(os.environ.get("SMALLMM_TOGGLES", "40"))
THREADS = 8


@contextmanager
def serving(library, fewest=1):
    """The library is patched, and serves so few matrices. Reports tell of PyTorch's, too, of tests before."""
    core.clear_loop_counts("torch")
    core.set_fewest(fewest)
    try:
        with smallmm.patched(library):
            yield
    finally:
        core.set_fewest(0)


def differences(compute, patch, unpatch):
    """What threads computed while the library was patched and unpatched, and was not what it was before.

    compute() gives arrays as bytes; its operands are such that no result is rounded. The results that
    differed, how often each thread computed, and how many matrices smallmm served."""
    expected, ends = compute(), threading.Event()
    wrong, passes, served = [], [0] * THREADS, 0

    def go_on(own):
        while not ends.is_set():
            found = compute()
            passes[own] += 1
            wrong.extend(i for i, (x, y) in enumerate(zip(found, expected, strict=True)) if x != y)

    threads = [threading.Thread(target=go_on, args=(i,)) for i in range(THREADS)]
    chance = random.Random(0)
    for thread in threads:
        thread.start()
    try:
        for _ in range(TIMES):
            patch()
            time.sleep(chance.random() * 1e-3)
            served += smallmm.patch_report().served
            unpatch()
            time.sleep(chance.random() * 1e-3)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    return wrong, passes, served

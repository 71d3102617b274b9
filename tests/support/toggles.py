"""Threads that compute while a library is patched and unpatched."""

import os
import random
import threading
import time

import smallmm

# By default few, as they take the time of two cores; the page docs/patch.md tells of 1,000.
TIMES = int(os.environ.get("SMALLMM_TOGGLES", "40"))
THREADS = 8


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

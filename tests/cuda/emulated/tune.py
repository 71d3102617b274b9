"""`smallmm.tune` on the emulated GPU, whose clock is faster the nearer a block is to EMULATED_BEST threads:
`tune.py find FOLDER` finds and saves kernels, `tune.py use FOLDER` is a later process."""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np

import smallmm
from smallmm import _core, cuda
from smallmm._gpu import tuned

WHAT, CACHE = sys.argv[1], Path(sys.argv[2])
COUNT = 37


def main():
    os.environ["EMULATED_FOLDER"] += f"/{WHAT}"
    Path(os.environ["EMULATED_FOLDER"]).mkdir()
    os.environ["SMALLMM_CACHE_DIR"] = str(CACHE)
    cuda.device_name()  # NVRTC and the rows are looked for once, so before another is named
    _core.cuda_configure(os.fsencode(os.environ["EMULATED_LIBRARY"]), os.fsencode(CACHE))
    rng = np.random.default_rng(0)
    host = rng.standard_normal((COUNT, 3, 3))
    host[5] = 0  # singular
    a = cuda.to_device(host)
    {"find": find, "use": use}[WHAT](a, host)


def find(a, host):
    before = smallmm.explain("inv", a)
    assert before.source == "tuned", before  # by the row of another device
    found = smallmm.tune("inv", a, top=2)
    after = smallmm.explain(smallmm.inv, a)
    assert found.after_ns < found.before_ns
    assert (found.tried, found.discarded) == (2, 0)
    assert after.threads == 32 == found.parameters["threads"], (after, found)
    assert (after.source, after.tuned_on) == ("tuned (user)", cuda.device_name())
    assert "tuned (user) on" in str(after)
    same(smallmm.inv_ex(a)[0], smallmm.inv_ex(host)[0])
    assert found.saved.parent.parent == CACHE / "tuned"
    assert found.saved.stat().st_mode & 0o077 == 0

    # for this problem alone
    assert smallmm.explain("inv", cuda.to_device(np.zeros((5000, 3, 3)))).source == "tuned"
    assert smallmm.explain("inv", a.mT).source == "tuned"

    again = smallmm.tune("inv", a, seconds=0)  # nothing is tried
    assert (again.before_ns, again.tried, again.saved) == (again.after_ns, 0, None)
    assert again.parameters == found.parameters

    refused("nothing to compute", "inv", a[:0])
    refused("nothing to compute", "matmul", a[:, :0], a)
    refused("nothing to compute", "matmul", a[:, :, :0], a[:, :0])
    refused("0 calls of kernels", "inv", a[:, :0, :0])
    every_failure(a)


def refused(message, *arguments):
    said = ""
    try:
        smallmm.tune(*arguments)
    except ValueError as error:
        said = str(error)
    assert message in said, said


def every_failure(a):
    """Of each call of the driver in turn: it is raised, and nothing is left."""
    gpu = ctypes.CDLL(os.environ["EMULATED_LIBRARY"])
    row = {"kernel": "inv_lanes", **smallmm.tune("inv", a, seconds=0).parameters}

    def time():
        return _core.cuda_time(row, 2, smallmm.inv_ex, a)

    results, times = time()
    assert len(times) == 2
    assert min(times) > 0
    del results
    live = gpu.emulated_live()
    gpu.emulated_fail_at(-1, 0)
    time()
    calls = gpu.emulated_calls()
    assert calls > 20
    failed = 0
    for at in range(calls):
        gpu.emulated_fail_at(at, 2)
        try:
            time()
        except (MemoryError, BufferError, RuntimeError):
            failed += 1
        gpu.emulated_fail_at(-1, 0)
        assert gpu.emulated_live() == live, at
    assert failed > calls / 2
    assert _core.cuda_time(None, 1, smallmm.inv_ex, a)[1][0] > 0


def use(a, host):
    assert smallmm.explain("inv", a).source == "tuned (user)"
    assert len(tuned.load_own(CACHE).rows) == 1
    same(smallmm.inv_ex(a)[0], smallmm.inv_ex(host)[0])


def same(found, expected):
    assert found.to_host().tobytes() == expected.tobytes()


main()

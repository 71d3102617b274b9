"""`smallmm.tune` on the emulated GPU, whose clock is faster the nearer a block is to EMULATED_BEST threads:
`tune.py find FOLDER` finds and saves kernels, `tune.py use FOLDER` is a later process."""

import os
import sys
from pathlib import Path

import numpy as np

import smallmm
from smallmm import _core, _tuned, cuda

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
    found = smallmm.tune("inv", a, top=3)
    after = smallmm.explain(smallmm.inv, a)
    assert found.after_ns < found.before_ns
    assert (found.tried, found.discarded) == (3, 0)
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

    b = cuda.to_device(host[:, :, :1])
    unsaved = smallmm.tune("solve_triangular", a, b, top=2, save=False)
    assert unsaved.saved is None
    assert unsaved.after_ns < unsaved.before_ns
    assert smallmm.explain("solve_triangular", a, b).source == "tuned (user)"


def use(a, host):
    assert smallmm.explain("inv", a).source == "tuned (user)"
    b = cuda.to_device(host[:, :, :1])
    assert smallmm.explain("solve_triangular", a, b).source == "tuned"
    assert len(_tuned.load_own(CACHE).rows) == 1
    same(smallmm.inv_ex(a)[0], smallmm.inv_ex(host)[0])


def same(found, expected):
    assert found.to_host().tobytes() == expected.tobytes()


main()

"""Orders beyond the kernels by several threads: each matrix by LAPACK, BLAS with one thread meanwhile."""

import threading
import warnings

import numpy as np
import pytest

import smallmm
from smallmm._base import stacks

pytest.importorskip("scipy")


@pytest.fixture
def by_threads(monkeypatch):
    """Has every stack shared among four threads; the names of those that computed."""
    monkeypatch.setattr(stacks, "WORTH_THREADS", 0)
    names = set()
    solve = smallmm._base.lapack.FALLBACKS["solve"]

    def noted(*matrices):
        names.add(threading.current_thread().name)
        return solve.function(*matrices)

    monkeypatch.setitem(smallmm._base.lapack.FALLBACKS, "solve", solve._replace(function=noted))
    before = smallmm.get_num_threads()
    smallmm.set_num_threads(4)
    yield names
    smallmm.set_num_threads(before)


def threads_of_blas():
    return [get_threads() for get_threads, _ in stacks._libraries(0)]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_threads_give_what_one_gives(by_threads, dtype, rng):
    a, b = rng.standard_normal((2, 300, 1, 131, 131)).astype(dtype)
    b = b[:1, :, :, :2].repeat(2, 1)
    a[3] = 0
    found = smallmm.solve_ex(a, b)
    assert len(by_threads) > 1
    assert "MainThread" in by_threads  # the first matrix
    smallmm.set_num_threads(1)
    by_threads.clear()
    expected = smallmm.solve_ex(a, b)
    assert by_threads == {"MainThread"}
    assert found[0].shape == (300, 2, 131, 2)
    assert found[1][3].all()
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_blas_has_its_threads_again(by_threads, monkeypatch, rng):
    during = []
    inv = smallmm._base.lapack.FALLBACKS["inv"]

    def noted(a):
        during.append(threads_of_blas())
        if np.isnan(a[0, 0]):
            raise RuntimeError("within a thread")
        return inv.function(a)

    monkeypatch.setitem(smallmm._base.lapack.FALLBACKS, "inv", inv._replace(function=noted))
    a = rng.standard_normal((9, 130, 130))
    smallmm.inv(a)
    before = threads_of_blas()
    assert before == during[0]
    assert all(n == 1 for found in during[1:] for n in found)
    a[5, 0, 0] = np.nan
    with pytest.raises(RuntimeError, match="within a thread"):
        smallmm.inv(a)
    assert threads_of_blas() == before


def test_threads_of_python_share_a_library(by_threads, rng):
    a = rng.standard_normal((40, 130, 130))
    smallmm.inv(a)
    before, results = threads_of_blas(), []
    callers = [threading.Thread(target=lambda: results.append(smallmm.inv(a))) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert threads_of_blas() == before
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_no_warnings_of_threads(by_threads):
    a = np.full((8, 130, 130), 1e300) + np.eye(130)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smallmm.expm(np.broadcast_to(np.eye(130) * 800, (8, 130, 130)))
        smallmm.slogdet(a)

"""Good manners: the GIL, threads, other pools, fork and spawn."""

import multiprocessing
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from accuracy import assert_same_bits

import smallmm


def stacks(batch, n, dtype=np.float64):
    rng = np.random.default_rng(batch)
    return rng.random((batch, n, n)).astype(dtype), rng.random((batch, n, n)).astype(dtype)


def test_gil_is_released():
    """Another Python thread runs in the middle of a call, not only before and after it."""
    a, b = stacks(1000, 32)
    a, b = np.broadcast_to(a, (40, *a.shape)), np.broadcast_to(b[:1], (40, *b.shape))
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    other = threading.Thread(target=tick)
    other.start()
    with smallmm.threads(1):
        smallmm.batched_matmul(a[:1], b[:1])
        start = time.perf_counter()
        smallmm.batched_matmul(a, b)
        stop = time.perf_counter()
    done.set()
    other.join()
    quarter = (stop - start) / 4
    assert any(start + quarter < t < stop - quarter for t in ticks)


def test_threads_beside_numpy():
    """Several threads, some in smallmm and some in NumPy's own BLAS, all get their results."""
    a, b = stacks(20000, 8)
    x = np.random.default_rng(0).random((300, 300))
    ours, theirs = smallmm.batched_matmul(a, b), x @ x
    with smallmm.threads(3), ThreadPoolExecutor(6) as pool:
        futures = [
            pool.submit(smallmm.batched_matmul, a, b) if i % 2 else pool.submit(np.matmul, x, x)
            for i in range(60)
        ]
        for i, future in enumerate(futures):
            if i % 2:
                assert_same_bits(future.result(), ours)
            else:
                np.testing.assert_allclose(future.result(), theirs)


def test_concurrent_calls_have_the_same_bits():
    problems = [stacks(batch, n) for batch, n in [(5000, 3), (3000, 8), (70000, 4), (100, 32)] * 5]
    alone = [smallmm.batched_matmul(a, b) for a, b in problems]
    with smallmm.threads(2), ThreadPoolExecutor(4) as pool:
        for result, expected in zip(
            pool.map(lambda ab: smallmm.batched_matmul(*ab), problems), alone, strict=True
        ):
            assert_same_bits(result, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork():
    """Use, fork, use in the child and in the parent."""
    a, b = stacks(200000, 4)
    with smallmm.threads(3):
        expected = smallmm.batched_matmul(a, b)
        child = os.fork()
        if child == 0:
            same = np.array_equal(smallmm.batched_matmul(a, b), expected)
            os._exit(0 if same else 1)
        assert_same_bits(smallmm.batched_matmul(a, b), expected)
    deadline = time.monotonic() + 60
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if status == (0, 0):
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert status == (child, 0), "the child hung or got another result"


def total(batch):
    a, b = stacks(batch, 4)
    return smallmm.batched_matmul(a, b).sum()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(total, [10, 100000]) == [total(10), total(100000)]


class TestNumberOfThreads:
    def test_set_and_get(self):
        before = smallmm.get_num_threads()
        assert before >= 1
        smallmm.set_num_threads(3)
        assert smallmm.get_num_threads() == 3
        smallmm.set_num_threads(0)
        assert smallmm.get_num_threads() == before

    def test_context(self):
        before = smallmm.get_num_threads()
        with smallmm.threads(2):
            with smallmm.threads(5):
                assert smallmm.get_num_threads() == 5
            assert smallmm.get_num_threads() == 2
        assert smallmm.get_num_threads() == before

    def test_context_restores_after_an_error(self):
        before = smallmm.get_num_threads()
        with pytest.raises(RuntimeError, match="stop"), smallmm.threads(before + 1):
            raise RuntimeError("stop")
        assert smallmm.get_num_threads() == before

    @pytest.mark.parametrize("number", [-1, 2**40, 2**70])
    def test_wrong_numbers(self, number):
        with pytest.raises(ValueError, match=f"threads is {number}; expected"):
            smallmm.set_num_threads(number)

    @pytest.mark.parametrize("number", ["two", [], 2.0, None])
    def test_wrong_types(self, number):
        message = re.escape(f"threads: threads is {number!r}; expected an integer")
        with pytest.raises(TypeError, match=message):
            smallmm.set_num_threads(number)
        with pytest.raises(TypeError, match=message), smallmm.threads(number):
            pass

    @pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
    @pytest.mark.parametrize(
        ("environment", "expected"),
        [
            ({"SMALLMM_NUM_THREADS": "7"}, 7),
            ({"OMP_NUM_THREADS": "5"}, 5),
            ({"OMP_NUM_THREADS": "5,2"}, 5),
            ({"OMP_NUM_THREADS": "5", "SMALLMM_NUM_THREADS": ""}, 5),
            ({"SMALLMM_NUM_THREADS": "7", "OMP_NUM_THREADS": "5"}, 7),
        ],
    )
    def test_environment(self, environment, expected, run_python):
        assert (
            int(run_python("import smallmm; print(smallmm.get_num_threads())", environment).stdout)
            == expected
        )

    @pytest.mark.parametrize("value", ["abc", "0", "-1", "2.5", "4,2"])
    def test_wrong_environment(self, value, run_python):
        words = f"SMALLMM_NUM_THREADS is '{value}'; expected an integer of at least 1"
        result = run_python("import smallmm", {"SMALLMM_NUM_THREADS": value}, check=False)
        assert result.stderr.endswith(f"ValueError: {words}\n")
        code = f"""
            import os, smallmm
            os.environ["SMALLMM_NUM_THREADS"] = "{value}"
            for call in "smallmm.get_num_threads()", "smallmm.set_num_threads(0)", "smallmm.inv([[1]])":
                try:
                    eval(call)
                except ValueError as error:
                    print(error)
        """
        assert run_python(code).stdout == f"{words}\n" * 3

    @pytest.mark.parametrize("value", ["abc", "0", ""])
    def test_others_wrong_environment(self, value, run_python):
        """What is wrong with OpenMP's variable is for OpenMP to say."""
        code = "import smallmm; print(smallmm.get_num_threads())"
        assert run_python(code, {"OMP_NUM_THREADS": value}).stdout == run_python(code).stdout

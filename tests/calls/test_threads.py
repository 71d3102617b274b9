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


# All operations, layouts that are packed or loaded element by element, and more right-hand sides than are
# solved for at a time.
EVERYTHING = """
    import threading
    import numpy as np, smallmm
    from smallmm import _core as core

    def run(dtype, n):
        a = np.random.default_rng(n).random((37, n, n)).astype(dtype) + n * np.eye(n, dtype=dtype)
        a += a.mT
        for x in a, a.mT, np.broadcast_to(a[3], a.shape), a[::-1, ::-1, ::-1]:
            factors, c = smallmm.lu_factor(x), smallmm.cholesky(x)
            for k in 1, 2, 20:
                b = x[..., :1] + np.arange(k, dtype=dtype)
                smallmm.lu_solve(factors, b)
                smallmm.cho_solve((c, True), b)
                smallmm.solve_triangular(c, b)
                smallmm.solve(x, b)
                smallmm.lstsq(x, b)
                smallmm.batched_matmul(x, b)
            smallmm.batched_matmul(x, x, alpha=2)
            smallmm.matmul(x.mT, x)
            smallmm.matvec(x, x[..., 0])
            smallmm.vecmat(x[..., 0], x)
            smallmm.inv(x)
            smallmm.eigh(x)
            smallmm.eigvalsh(x, UPLO="U")
            smallmm.det(x)
            smallmm.slogdet(x)
            for mode in "reduced", "complete", "r", "raw":
                smallmm.qr(x[..., : n // 2 + 1], mode)

    def run_all():
        for isa in core.isas_available():
            core.select_isa(isa)
            for dtype in np.float32, np.float64:
                for n in 1, 2, 3, 5, 8, 12, 16, 17, 32:
                    run(dtype, n)
        print("done")
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_small_stacks(threads, run_python):
    """Threads may have stacks that are smaller than a few matrices of every lane."""
    code = f"""{EVERYTHING}
    smallmm.set_num_threads({threads})
    threading.stack_size(128 * 1024)
    thread = threading.Thread(target=run_all)
    thread.start()
    thread.join()
    """
    assert run_python(code).stdout == "done\n"


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is Linux's")
def test_no_memory_for_a_thread(run_python):
    """What a thread lacks is asked for once, and a call without it is a MemoryError, no crash."""
    code = """
    import resource, threading
    import numpy as np, smallmm

    a = np.eye(8)

    def call():
        with open("/proc/self/statm") as sizes:
            used = int(sizes.read().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used, limits[1]))
        taken = []
        try:
            while True:
                taken.append(bytearray(200_000))
        except MemoryError:
            pass
        try:
            smallmm.inv(a)
        except MemoryError:  # without a text, if Python itself finds no memory for one
            print("refused")
        resource.setrlimit(resource.RLIMIT_AS, limits)
        print(np.array_equal(smallmm.inv(a), a))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    """
    assert run_python(code).stdout == "refused\nTrue\n"


# Calls of many seconds: directly, through NumPy's gufunc, on strided operands by way of buffers, of one large
# matrix, of another whose columns must be packed, and of orders that are not for our kernels.
LONG = {
    "direct": "smallmm.det(many)",
    "gufunc": "smallmm._core.det(many)",
    "buffered": "smallmm.batched_matmul(many[..., :2, ::-1], many[..., :2], alpha=2)",
    "one": "smallmm.batched_matmul(tall, wide)",
    "packed": "smallmm.batched_matmul(tall, tall.mT)",
    "deep": "smallmm.batched_matmul(np.broadcast_to(1.0, (64, 10**9)), np.broadcast_to(1.0, (10**9, 1)))",
    "lapack": "smallmm.det(np.broadcast_to(np.eye(130), (10**6, 130, 130)))",
    "lapack's arrays": "smallmm.eig(np.broadcast_to(np.eye(130) + 1, (10**4, 130, 130)))",
    "diagonals": "smallmm.solve_tridiagonal(*diagonals, out=np.empty((900, 100_000)).T)",
    "fused": "fused(np.broadcast_to(np.float32(1.5), 10**9))",
    "fused pairs": "fused_complex(np.broadcast_to(1.5 + 2j, 10**8))",
    "one fused vector": "fused_vector(np.broadcast_to(1.5, 3 * 10**7))",
    "a long scan": "smallmm.scan(fused, np.full(2, 0.3), length=2**31 - 2)",
    "a scan of many": "smallmm.scan(fused, np.full(1_000_000, 0.3), length=1000)",
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("threads", [1, 2])
def test_interrupt(threads, run_python):
    """Each long call ends soon after the signal, and the next gives what it gave before."""
    code = f"""
    import os, signal, threading, time
    import numpy as np, smallmm
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    smallmm.set_num_threads({threads})
    many = np.broadcast_to(np.eye(32) + 1, (50_000_000, 32, 32))
    tall, wide = np.ones((12_000, 800)), np.ones((800, 12_000))
    diagonals = [np.broadcast_to(x, 100_000 - (x < 2)) for x in (1.0, 4.0, 1.0)]
    diagonals.append(np.broadcast_to(1.0, (100_000, 900)))
    fused = smallmm.fuse(lambda x: np.exp(np.sin(x)) ** 1.5)
    fused_complex = smallmm.fuse(lambda x: np.log(np.sin(x)))
    fused_vector = smallmm.fuse("(n)->(n)")(lambda x: np.exp(np.sin(x)) ** 1.5 * np.cos(x) ** 0.3)
    before = smallmm.batched_matmul(many[:20000, :2, :2], many[:20000, :2, :2])
    sent = []

    def send():
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    for name, call in {LONG}.items():
        call = compile(call, name, "exec")
        sent.clear()
        threading.Timer(0.3, send).start()
        seconds = None
        try:
            exec(call)
        except KeyboardInterrupt:
            seconds = time.process_time() - sent[0]
        after = smallmm.batched_matmul(many[:20000, :2, :2], many[:20000, :2, :2])
        print(name, seconds, np.array_equal(before, after), sep="|")
    """
    found = [line.split("|") for line in run_python(code).stdout.splitlines()]
    assert [name for name, *_ in found] == list(LONG)
    for name, seconds, same in found:
        assert seconds != "None", f"{name}: not interrupted"
        assert float(seconds) < 0.2 * threads, name  # of processors, which other processes may use, too
        assert same == "True", name


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_handler_of_a_signal_may_call(run_python):
    """A handler that raises nothing runs within a call, which then goes on with its own numbers."""
    code = """
    import signal
    import numpy as np, smallmm
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1000, 24, 24))[:, None]
    a, b = np.broadcast_to(a, (30, 1000, 24, 24)), b[..., ::-1]
    handled = []

    def handle(number, frame):
        product = smallmm.batched_matmul(a[0, :9, :7, ::-1], b[0, :9, :, :5], alpha=3)
        handled.append((product, smallmm.inv(a[0, :9])))

    def call():
        return smallmm.batched_matmul(a, b, alpha=2), smallmm.inv(a)

    expected = call()
    handle(0, None)
    reference = handled.pop()
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    for _ in range(5):
        result = call()
        assert all(np.array_equal(x, y) for x, y in zip(result, expected))
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert handled
    assert all(np.array_equal(x, y) for pair in handled for x, y in zip(pair, reference))
    """
    run_python(code)

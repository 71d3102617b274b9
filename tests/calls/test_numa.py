"""Nodes: where arrays lie, and which node computes what. One node is enough: pretended functions answer for
libnuma, or a folder lists two nodes. core/test_threads.c has the shares."""

import ctypes
import doctest
import errno
import math
import mmap
import os
import shutil
import subprocess

import numpy as np
import pytest
from accuracy import assert_same_bits
from pages import ROOT

import smallmm
import smallmm._core as core
from smallmm import numa

PAGE = mmap.PAGESIZE


def address(x):
    return x.__array_interface__["data"][0]


class Kernel:
    """What it knows of pages, and how it fails."""

    def __init__(self, monkeypatch, nodes, here=0, off=None):
        self.state = off, here, nodes
        self.node_of = {}  # of each page
        self.bind_error = self.move_error = errno.ENOSYS if off else 0
        self.page_error = self.calls = 0
        for name in "numa_nodes", "numa_bind", "numa_move":
            monkeypatch.setattr(core, name, getattr(self, name))

    def numa_nodes(self):
        return self.state

    def numa_bind(self, memory, first, last, interleave, nodes):
        self.calls += 1
        assert nodes.dtype == np.int32
        assert first % PAGE == 0
        assert first < last <= len(memory)
        assert interleave or len(nodes) == 1
        if not self.bind_error:
            begin = address(np.frombuffer(memory, np.uint8))
            for i, page in enumerate(range(begin + first, begin + last, PAGE)):
                self.node_of[page] = int(nodes[i % len(nodes)])
        return self.bind_error

    def numa_move(self, pages, nodes, status):
        self.calls += 1
        assert len(pages) == len(status)
        assert not (pages % PAGE).any()
        if self.move_error:
            return self.move_error
        for i, page in enumerate(pages.tolist()):
            if nodes is not None:
                self.node_of[page] = int(nodes[i])
            status[i] = self.page_error or self.node_of.get(page, -errno.ENOENT)
        return 0

    def pages(self, x):
        """The nodes of an array's pages, in order."""
        low, high = np.lib.array_utils.byte_bounds(x)
        return [self.node_of.get(page) for page in range(low // PAGE * PAGE, high, PAGE)]


TWO = [(0, [0, 1], True), (1, [2, 3], True)]
THREE = [
    (0, [0], True),
    (2, [1, 2, 3], True),
    (5, [], True),
    (7, [4, 5], False),
]  # one has no CPUs, one no memory


@pytest.fixture
def two(monkeypatch):
    return Kernel(monkeypatch, TWO, here=1)


@pytest.fixture
def three(monkeypatch):
    return Kernel(monkeypatch, THREE, here=7)


def placed(how, kernel, size, placement):
    """An array of so many bytes, by `empty` or by `place`."""
    if how == "empty":
        return numa.empty(size, np.uint8, placement)
    memory = np.zeros(size + 2 * PAGE, np.uint8)
    array = memory[-address(memory) % PAGE :][:size]
    numa.place(array, placement)
    return array


@pytest.mark.parametrize("how", ["empty", "place"])
class TestPlacements:
    def test_split(self, how, two):
        a = placed(how, two, 8 * PAGE, "split")
        assert two.pages(a) == [0] * 4 + [1] * 4
        assert numa.where(a) == {0: 0.5, 1: 0.5}

    def test_a_boundary_page_goes_to_the_lower_node(self, how, two):
        assert two.pages(placed(how, two, 7 * PAGE, "split")) == [0] * 4 + [1] * 3
        assert two.pages(placed(how, two, 6 * PAGE + 2, "split")) == [0] * 4 + [1] * 3
        assert two.pages(placed(how, two, 100, "split")) == [0]

    def test_split_by_cpus(self, how, three):
        """Of nodes with both CPUs and memory."""
        assert three.pages(placed(how, three, 8 * PAGE, "split")) == [0] * 2 + [2] * 6

    def test_split_without_cpus(self, how, monkeypatch):
        kernel = Kernel(monkeypatch, [(0, [], True), (1, [0, 1], False), (2, [], True)])
        assert kernel.pages(placed(how, kernel, 4 * PAGE, "split")) == [0] * 2 + [2] * 2

    def test_interleave(self, how, three):
        assert three.pages(placed(how, three, 7 * PAGE, "interleave")) == [0, 2, 5, 0, 2, 5, 0]

    def test_local(self, how, two):
        assert two.pages(placed(how, two, 3 * PAGE, "local")) == [1, 1, 1]

    def test_local_without_memory(self, how, three):
        assert three.pages(placed(how, three, 2 * PAGE, "local")) == [0, 0]

    @pytest.mark.parametrize("node", [5, np.int64(5), np.uint8(5)])
    def test_node(self, how, node, three):
        a = placed(how, three, 5 * PAGE, node)
        assert three.pages(a) == [5] * 5
        assert numa.where(a) == {5: 1.0}

    def test_nothing_to_place(self, how, two):
        assert placed(how, two, 0, "split").size == 0
        assert not two.node_of

    @pytest.mark.parametrize(
        "placement", [1, 3, -1, 8, "", "splt", "SPLIT", True, 0.0, None, [0], np.ones(2), b"split"]
    )
    def test_unknown(self, how, placement, three):
        shown = "a ndarray of shape" if isinstance(placement, np.ndarray) else repr(placement)
        with pytest.raises(ValueError) as failure:
            placed(how, three, 5 * PAGE, placement)
        message = str(failure.value)
        assert message.startswith(f"numa.{how}: placement is {shown}")
        assert message.endswith("'local' or the number of a node with memory, of which there are 3: 0, 2, 5")

    def test_refused(self, how, two):
        """In a container."""
        two.bind_error = two.move_error = errno.EPERM
        a = placed(how, two, 8 * PAGE, "split")
        a[:] = 3
        assert a.sum() == 3 * a.size
        assert numa.where(a) is None
        assert not two.node_of

    def test_switched_off(self, how, monkeypatch):
        kernel = Kernel(monkeypatch, TWO, off="libnuma.so.1 cannot be opened")
        for placement in "split", "interleave", "local", 1:
            assert numa.where(placed(how, kernel, 8 * PAGE, placement)) is None
        assert not kernel.node_of
        with pytest.raises(ValueError, match="there are 2: 0, 1"):
            placed(how, kernel, 8 * PAGE, 2)

    def test_nothing_is_known(self, how, monkeypatch):
        """Without sysfs."""
        kernel = Kernel(monkeypatch, [], off="")
        for placement in "split", "interleave", "local", 0:
            assert placed(how, kernel, 3 * PAGE, placement).size == 3 * PAGE

    def test_no_memory(self, how, two):
        two.bind_error = two.move_error = errno.ENOMEM
        with pytest.raises(MemoryError, match=f"numa.{how}: no memory to "):
            placed(how, two, 8 * PAGE, "split")


class TestEmpty:
    @pytest.mark.parametrize("shape", [(), 5, (3,), [2, 3], (2, 0, 4), (np.int64(2), 3)])
    @pytest.mark.parametrize("dtype", [np.float32, "f8", complex, bool])
    def test_shapes_and_types(self, shape, dtype, two):
        a = numa.empty(shape, dtype)
        expected = np.empty(shape, dtype)
        assert (a.shape, a.dtype) == (expected.shape, expected.dtype)
        assert a.flags.c_contiguous
        assert a.flags.writeable
        a[...] = 1
        assert (a == 1).all()

    def test_default_dtype(self):
        assert numa.empty((2, 3)).dtype == np.float64

    def test_results_go_there(self):
        rng = np.random.default_rng(0)
        a = numa.empty((30000, 4, 4))
        a[...] = rng.random(a.shape)
        out = numa.empty(a.shape, placement="interleave")
        assert smallmm.inv(a, out=out) is out
        assert_same_bits(out, smallmm.inv(np.array(a)))

    @pytest.mark.parametrize("shape", [2**61, (2**30, 2**30), 2**57])
    def test_no_memory(self, shape):
        with pytest.raises(MemoryError):
            numa.empty(shape)

    def test_wrong(self):
        with pytest.raises(ValueError, match=r"numa.empty: shape is \(2, -1\); expected no negative size"):
            numa.empty((2, -1))
        with pytest.raises(ValueError, match=r"numa\.empty: shape is"):
            numa.empty(2**70)
        with pytest.raises(TypeError, match=r"numa\.empty: shape is 2.5; expected an integer"):
            numa.empty((2, 2.5))
        with pytest.raises(TypeError, match=r"numa\.empty: dtype is object; expected one of numbers"):
            numa.empty(2, object)
        with pytest.raises(TypeError):
            numa.empty(2, "nonsense")


class TestArrays:
    """What `place` and `where` take."""

    def test_views(self, two):
        memory = np.zeros(20 * PAGE, np.uint8)
        base = memory[-address(memory) % PAGE :]
        numa.place(base[PAGE // 2 :][: 4 * PAGE], "interleave")  # parts of five pages
        assert two.pages(base[: 6 * PAGE]) == [0, 1, 0, 1, 0, None]
        assert numa.where(base[: 10 * PAGE]) == {0: 0.3, 1: 0.2}
        assert numa.where(base[2 * PAGE : PAGE : -1]) == {0: 0.5, 1: 0.5}

    def test_read_only(self, two):
        a = np.zeros(8 * PAGE, np.uint8)
        a.flags.writeable = False
        numa.place(a, 1)
        assert numa.where(a) == {1: 1.0}

    def test_pages_without_memory(self, two):
        two.page_error = -errno.ENOMEM
        with pytest.raises(MemoryError, match=r"numa\.place: no memory to move the array"):
            numa.place(np.zeros(8 * PAGE, np.uint8), 1)

    def test_pages_that_stay(self, two):
        two.page_error = -errno.EBUSY
        numa.place(np.zeros(8 * PAGE, np.uint8), 1)

    def test_many_pages_are_sampled(self, monkeypatch, two):
        monkeypatch.setattr(numa, "_SAMPLES", 50)
        a = np.zeros(400 * PAGE, np.uint8)
        numa.place(a, "split")
        found = numa.where(a)
        assert math.isclose(sum(found.values()), 1)
        assert 0.2 < found[0] < 0.8

    def test_many_pages_are_moved_piece_by_piece(self, monkeypatch, two):
        monkeypatch.setattr(numa, "_STEP", 7)
        a = np.zeros(100 * PAGE, np.uint8)
        numa.place(a, "split")
        assert two.calls == -(-len(two.pages(a)) // 7)
        assert two.pages(a) == sorted(two.pages(a))
        assert math.isclose(numa.where(a)[0], 0.5, abs_tol=0.01)

    def test_other_libraries(self, torch, two):
        x = torch.zeros(8 * PAGE, dtype=torch.uint8)
        numa.place(x, 1)
        assert numa.where(x) == {1: 1.0}

    @pytest.mark.parametrize("function", [numa.where, lambda a: numa.place(a, "split")])
    def test_wrong(self, function):
        class OnDevice:
            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self, **kwargs):
                raise AssertionError

        for x in [1.0, 2.0], 3.0, None, "text", OnDevice():
            with pytest.raises(TypeError, match=r"numa.\w+: a is .*; expected an array on the host"):
                function(x)


def test_docstring_examples():
    failures, tests = doctest.testmod(numa, extraglobs={"np": np, "smallmm": smallmm})
    assert tests > 0
    assert failures == 0


# Calls that threads share in every way: in stretches, in parts, in tiles, programs, with outer dimensions.
CALLS = """
    import numpy as np, os, smallmm
    rng = np.random.default_rng(0)
    a = rng.random((140_000, 3, 3)) + 3 * np.eye(3)
    b = a[::-1]
    half = a.astype(np.float16)
    large = rng.random((300, 300))
    step = smallmm.fuse("(n,n),(n,n)->(n,n)")(lambda x, y: smallmm.solve(x, y @ x))

    def results():
        outer = smallmm.batched_matmul(a[:70_000, None], b[:70_000].reshape(35_000, 2, 3, 3)[:1])
        return [
            smallmm.matmul(a, b), smallmm.inv(a), smallmm.matmul(a.mT, b), outer,
            smallmm.matmul(half, half), smallmm.matmul(large, large), step(a, b), step(a[::2], b[:1]),
            smallmm.matmul(np.broadcast_to(a[:5000], (30, 5000, 3, 3)), b[:5000]),
        ]

    smallmm.set_num_threads(1)
    expected = results()
    smallmm.set_num_threads(5)
    assert all(np.array_equal(x, y) for x, y in zip(results(), expected, strict=True))
"""


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    """A folder with fake_libnuma.c, compiled."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("libnuma")
    source = ROOT / "tests" / "support" / "fake_libnuma.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnuma.so.1", source], check=True)
    return folder


@pytest.fixture
def two_nodes(tmp_path):
    """The environment of a process that takes two CPUs of this machine for nodes."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    for node, its in enumerate((cpus[1::2], cpus[::2])):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(",".join(map(str, its)) + "\n")
    for name in "online", "has_memory":
        (tmp_path / name).write_text("0-1\n")
    return {"SMALLMM_NUMA": str(tmp_path)}


@pytest.fixture
def with_fake(two_nodes, fake):
    return {**two_nodes, "LD_LIBRARY_PATH": str(fake)}


@pytest.fixture(params=["libnuma", "fake"])
def with_either(request, two_nodes):
    if request.param == "fake":
        return request.getfixturevalue("with_fake")
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        pytest.skip("needs libnuma")
    return two_nodes


class TestLibnuma:
    """It is opened where there are several nodes; without it they do not matter."""

    CODE = """
    import numpy as np, os, smallmm
    a = smallmm.numa.empty((200_000, 4, 4), placement="interleave")
    a[...] = np.eye(4)
    smallmm.numa.place(a[:1000], "local")
    smallmm.set_num_threads(4)
    assert (smallmm.matmul(a, a) == a).all()
    where = smallmm.numa.where(a)
    workers = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
    bound = sum(len(cpus) < len(os.sched_getaffinity(0)) for cpus in workers)
    opened = "/libnuma.so" in open("/proc/self/maps").read()
    print(where and {node: round(share, 1) for node, share in where.items()}, bound, opened, flush=True)
    print(*smallmm.show_config("dicts")["numa nodes"], sep="; ")
    """

    def test_its_functions_are_called(self, run_python, with_fake):
        lines = run_python(self.CODE, with_fake).stdout.splitlines()
        pages = 200_000 * 128 // PAGE
        assert f"mbind: {pages * PAGE} bytes, mode 3, nodes 0x3 of 16384, flags 0" in lines
        assert any(
            line.startswith("move_pages of 0: 3") and line.endswith(" pages, flags 2") for line in lines
        )
        assert "{0: 0.5, 1: 0.5} 3 True" in lines
        assert not any("ignored" in line for line in lines)

    @pytest.mark.parametrize("how", ["missing", "no NUMA", "switched off", "one node"])
    def test_nothing_happens(self, run_python, with_fake, tmp_path, how):
        (tmp_path / "libnuma.so.1").touch()
        environment, why = {
            "missing": ({"LD_LIBRARY_PATH": str(tmp_path)}, "libnuma.so.1 cannot be opened"),
            "no NUMA": ({"FAKE_LIBNUMA": "-1"}, "libnuma finds no NUMA system"),
            "switched off": ({"SMALLMM_NUMA": "0"}, "SMALLMM_NUMA=0"),
            "one node": ({}, None),
        }[how]
        if how == "one node":
            (tmp_path / "online").write_text("1\n")
        found, config = run_python(self.CODE, {**with_fake, **environment}).stdout.splitlines()
        assert found == f"None 0 {how == 'no NUMA'}"
        assert all(node.endswith(f" (ignored: {why})" if why else " CPUs 0") for node in config.split("; "))


class TestTwoNodes:
    def test_same_bits(self, run_python, with_either):
        """Workers stay on the CPUs of their node, also those of a forked child."""
        code = f"""{CALLS}
    def check():
        assert all(np.array_equal(x, y) for x, y in zip(results(), expected, strict=True))
        nodes = [set(cpus) for _, cpus, _ in smallmm._core.numa_nodes()[2]]
        workers = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
        assert sorted(map(workers.count, nodes)) == [2, 2], workers
        assert os.sched_getaffinity(0) == nodes[0] | nodes[1]

    child = os.fork()
    check()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """
        run_python(code, with_either)

    def test_explain(self, run_python, with_fake):
        code = """
        import numpy as np, smallmm
        smallmm.set_num_threads(4)
        small, large = (np.broadcast_to(np.eye(4), (batch, 4, 4)) for batch in (50_000, 200_000))
        plan = smallmm.explain("matmul", small, small)
        print(plan.nodes)
        print("; ".join(str(plan).splitlines()[1].split("; ")[-1:]))
        print(round(sum(share for _, share in smallmm.explain("matmul", np.array(large), large).nodes), 9))
        print(smallmm.explain("matmul", small[:9], small[:9]).nodes)
        shared = np.ones((1, 1100, 1100))  # larger than all others, but the same for all matrices
        print(smallmm.explain("matmul", shared, np.ones((40, 1100, 3))).nodes)
        with smallmm.threads(1):
            print(smallmm.explain("matmul", large, large).nodes)
        print(*smallmm.show_config("dicts")["numa nodes"], sep=", ")
        """
        plan, words, total, tiny, shared, alone, config = run_python(code, with_fake).stdout.splitlines()
        assert plan == shared == "((0, 0.5), (1, 0.5))"
        assert words.strip() == "matrices: 50% on node 0, 50% on node 1"
        assert total == "1.0"
        assert tiny == alone == "()"
        assert config.startswith("node 0: CPUs ")
        assert ", node 1: CPUs " in config

    def test_switched_off(self, run_python):
        code = f"""{CALLS}
    print(smallmm.numa.where(a), smallmm.explain("matmul", a, b).nodes)
    print(*smallmm.show_config("dicts")["numa nodes"], sep=", ")
    """
        where, config = run_python(code, {"SMALLMM_NUMA": "0"}).stdout.splitlines()
        assert where == "None ()"
        assert not config or config.endswith(" (ignored: SMALLMM_NUMA=0)")

    def test_memory(self, run_python, with_either):
        """Pages that nobody wrote lie nowhere; others can be moved, or stay where there is no such node."""
        code = """
        import math, numpy as np, smallmm
        from smallmm import numa
        a = np.ones(1_000_000)
        if numa.where(a) is None:  # a container
            raise SystemExit
        for placement in "interleave", "split":
            numa.place(a, placement)
            assert math.isclose(sum(numa.where(a).values()), 1)
        assert (a == 1).all()
        if "{fake}" == "False":
            assert sum(numa.where(np.empty(10_000_000)).values()) < 0.1
            assert sum(numa.where(numa.empty(10_000_000)).values()) < 0.1
        """
        run_python(code.replace("{fake}", str("LD_LIBRARY_PATH" in with_either)), with_either)

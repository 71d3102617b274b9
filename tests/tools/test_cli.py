"""The command line and `smallmm.bench`: what they print, write, return, and say of bad arguments."""

import doctest
import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import smallmm
from smallmm._tools import bench, operations, timing
from smallmm._tools import cli as _cli
from smallmm._tools.contenders import BenchDevice

COMMANDS = ("bench", "tune", "info", "cache", "demo", "run", "patch")
SMALL = ("bench", "--op", "matmul", "solve", "--n", "2-3", "--dtype", "f64", "--seconds", "0.05")
KERNEL = b"NVRTC 13.0 texts 0 --gpu-architecture=sm_90 -DSMM_NAME=smm_lu_f64 -DSMM_M=5 -DSMM_K=6 -DSMM_N=7"


@pytest.fixture
def cli(capsys):
    """Run main(arguments) here: exit code, stdout, stderr."""

    def run(*arguments):
        try:
            code = _cli.main([str(x) for x in arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def process():
    """Run python -m smallmm: the finished process."""

    def run(*arguments, **environment):
        command = [sys.executable, "-m", "smallmm", *arguments]
        environment = {**os.environ, **environment}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=100
        )

    return run


@pytest.fixture
def without(monkeypatch):
    """Make packages look as if they were not installed."""

    def hide(*packages):
        find_spec = _cli.find_spec
        monkeypatch.setattr(_cli, "find_spec", lambda name: None if name in packages else find_spec(name))
        for name in packages:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


class TestBench:
    def test_table(self, cli):
        code, out, err = cli(*SMALL)
        assert (code, err) == (0, "")
        for words in ("matmul f64", "solve f64", "smallmm", "NumPy", "times faster"):
            assert words in out
        assert [line.split()[0] for line in out.splitlines() if line[:1].isdigit()] == ["2", "3"] * 2
        assert out.splitlines()[-1].startswith("Where we lost (their time / ours), of 4 cases: ")

    def test_json(self, process):
        done = process(*SMALL, "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["about"]["device"] == "cpu"
        assert found["about"]["contenders"]["NumPy"] == np.__version__
        ours = [row for row in found["rows"] if row["contender"] == "smallmm"]
        assert [(row["op"], row["n"]) for row in ours] == [
            ("matmul", 2),
            ("matmul", 3),
            ("solve", 2),
            ("solve", 3),
        ]
        for row in found["rows"]:
            low, high = row["quartiles"]
            assert 0 < low <= row["ns_per_matrix"] <= high
            assert row["samples"] >= 3
            assert row["gflops"] > 0
            assert row["gbytes"] > 0
        assert found["lost"].startswith("Where we lost")

    def test_quick_takes_part_in_everything(self):
        results = smallmm.bench(quick=True, n=4, seconds=0.1, batch=50)
        ours = {(row["op"], row["dtype"]) for row in results.rows if row["contender"] == "smallmm"}
        assert ours == {(op, dtype) for op in operations.OPERATIONS for dtype in ("f64", "f32")}
        assert {row["batch"] for row in results.rows} == {50}

    def test_only_numpy(self, cli, without):
        without("scipy", "torch")
        code, out, _ = cli(*SMALL)
        assert code == 0
        assert "left out: SciPy: not installed" in out
        assert "left out: PyTorch: not installed" in out
        assert "of 4 cases" in out.splitlines()[-1]

    def test_plot(self, cli, tmp_path):
        pytest.importorskip("matplotlib")
        for suffix, head in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
            path = tmp_path / f"bench{suffix}"
            assert cli(*SMALL, "--plot", path)[0] == 0
            assert path.read_bytes().startswith(head)

    def test_plot_without_matplotlib(self, cli, without, tmp_path):
        without("matplotlib")
        code, out, err = cli(*SMALL, "--plot", tmp_path / "bench.png")
        assert (code, out) == (1, "")  # said before anything is timed
        assert "--plot needs matplotlib, which is not installed" in err

    def test_plot_nowhere(self, cli, tmp_path):
        pytest.importorskip("matplotlib")
        code, _, err = cli(*SMALL, "--plot", tmp_path / "nowhere" / "bench.png")
        assert code == 1
        assert "there is no folder" in err

    def test_plot_that_cannot_be_written(self, cli, monkeypatch, tmp_path):
        """Said before anything is timed; where it turns out later, JSON is printed nevertheless."""
        pytest.importorskip("matplotlib")
        (tmp_path / "folder.png").mkdir()
        code, out, err = cli(*SMALL, "--json", "--plot", tmp_path / "folder.png")
        assert (code, out) == (1, "")
        assert err.startswith("python -m smallmm: --plot: [Errno 21] Is a directory")

        def disk_full(*_):
            raise OSError("disk full")

        monkeypatch.setattr(bench.Results, "plot", disk_full)
        code, out, err = cli(*SMALL, "--json", "--plot", tmp_path / "bench.png")
        assert (code, err) == (1, "python -m smallmm: disk full\n")
        assert json.loads(out)["rows"]
        assert not (tmp_path / "bench.png").exists()

    def test_out_of_memory(self, cli, monkeypatch):
        def fail(*_):
            raise MemoryError

        monkeypatch.setattr(bench, "stack", fail)
        code, _, err = cli(*SMALL)
        assert (code, err) == (1, "python -m smallmm: out of memory\n")

    def test_no_gpu(self, cli):
        if smallmm.cuda.is_available():
            pytest.skip("there is a GPU")
        code, out, err = cli(*SMALL, "--device", "cuda")
        assert (code, out) == (1, "")
        assert err.startswith("python -m smallmm: ")
        assert "CUDA" in err

    def test_where_we_lost(self):
        def row(contender, ns, quartiles):
            return {
                "op": "det", "dtype": "f32", "n": 3, "batch": 9, "contender": contender,
                "ns_per_matrix": ns, "quartiles": quartiles,
            }  # fmt: skip

        def lost(*rows):
            return bench.Results({}, list(rows), {}).lost()

        ours = row("smallmm", 10.0, [9.0, 11.0])
        assert lost(ours).endswith("there was nobody to compare with.")
        assert lost(ours, row("NumPy", 20.0, [19.0, 21.0])).endswith("of 1 cases: nowhere.")
        assert lost(ours, row("NumPy", 5.0, [4.0, 6.0])).endswith(": det f32 n = 3: NumPy (0.50).")
        assert lost(ours, row("NumPy", 9.5, [9.0, 9.9])).endswith("NumPy (0.95 within the spread).")

    def test_a_wrong_result_is_not_timed(self, cli, monkeypatch):
        monkeypatch.setattr(np, "matmul", lambda a, b, out: out)
        results = smallmm.bench("matmul", 3, "f64", seconds=0.05, peers=["NumPy"])
        assert {row["contender"] for row in results.rows} == {"smallmm"}
        assert "np.matmul of (3, 3) float64" in results.left_out["NumPy matmul"]
        monkeypatch.setattr(smallmm, "batched_matmul", lambda a, b, out=None: np.zeros_like(a))
        code, _, err = cli(*SMALL)
        assert code == 1
        assert "a result of smallmm is wrong" in err

    def test_what_a_device_does_not_take_is_left_out(self, monkeypatch):
        def refuse(*_, **__):
            raise NotImplementedError("no kernel")

        monkeypatch.setattr(smallmm, "inv", refuse)
        results = smallmm.bench(["inv", "det"], 3, "f64", seconds=0.05, peers=["NumPy"])
        assert {row["op"] for row in results.rows} == {"det"}
        assert results.left_out == {"smallmm inv": "no kernel"}

    def test_bad_arguments(self):
        for arguments, words in (
            ({"op": "trace"}, "op 'trace' is unknown; expected one of matmul, lu_factor"),
            ({"dtype": ["f16"]}, "dtype 'f16' is unknown"),
            ({"n": 0}, "n is 0"),
            ({"batch": 0}, "batch is 0"),
            ({"peers": ["MATLAB"]}, "peer 'MATLAB' is unknown"),
            ({"device": "tpu"}, "device is 'tpu'"),
            ({"op": [[]]}, r"op \[\] is unknown"),
            ({"dtype": np.float32}, "dtype <class 'numpy.float32'> is unknown"),
            ({"n": 2.5}, "n is 2.5"),
            ({"batch": "many"}, "batch is 'many'"),
            ({"batch": 2**64}, f"batch is {2**64}"),
            ({"peers": 3}, "peer 3 is unknown"),
            ({"device": 0}, "device is 0"),
            ({"seconds": "all"}, "seconds is 'all'"),
            ({"quick": "no"}, "quick is 'no'"),
            ({"show": True}, "show is True"),
        ):
            with pytest.raises((TypeError, ValueError), match=f"bench: {words}"):
                smallmm.bench(**arguments)

    def test_docstring_example(self):
        runner = doctest.DocTestRunner()
        for test in doctest.DocTestFinder().find(bench.bench, module=False, globs={"smallmm": smallmm}):
            runner.run(test)
        assert (runner.failures, runner.tries) == (0, 2)


class TestMeasure:
    def test_median_and_quartiles(self):
        found = timing.timing([4.0, 1.0, 3.0, 2.0, 5.0])
        assert (found.median, found.low, found.high, found.samples) == (3.0, 2.0, 4.0, 5)

    def test_in_turn(self):
        order = []
        calls = {name: lambda name=name: order.append(name) for name in "abc"}
        found = timing.measure(calls, budget_s=0, sample_s=1e-9, least=3)
        assert {timing.samples for timing in found.values()} == {3}
        assert order == list("abcabcbcacab")  # once to see how long it takes, then the rounds

    def test_waits(self):
        done = []
        sample = timing.clock(done.append)
        timing.measure({"a": lambda: "last"}, budget_s=0, sample_s=1e-9, least=2, sample=sample)
        assert done == ["last"] * 3

    def test_so_many_repetitions(self):
        calls = []
        timing.measure({"a": lambda: calls.append(1)}, budget_s=0, least=2, repetitions=5)
        assert len(calls) == 2 * (1 + 5)  # an untimed one before each sample


class TestInfo:
    def test_prints(self, cli):
        code, out, _ = cli("info")
        assert code == 0
        for words in ("smallmm:", "isa:", "threads:", "numa nodes:", "gpus:", "nvrtc:", "kernel cache:"):
            assert f"\n{words}" in f"\n{out}"

    def test_json(self, process, tmp_path):
        done = process("info", "--json", SMALLMM_CACHE_DIR=str(tmp_path), SMALLMM_NUM_THREADS="1")
        config = json.loads(done.stdout)
        assert config["threads"] == 1
        assert config["kernel cache"] == str(tmp_path)
        assert all(isinstance(gpu, str) for gpu in config["gpus"])
        node = re.compile(r"node \d+: CPUs [\d,-]+( \(ignored: .+\))?")
        assert all(map(node.fullmatch, config["numa nodes"]))


class TestCache:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        """A cache with a kernel, a damaged one, and a file that is none."""
        monkeypatch.setenv("SMALLMM_CACHE_DIR", str(tmp_path))
        head = b"SMMCUBN1" + b"".join(n.to_bytes(8, sys.byteorder) for n in (len(KERNEL), 100, 0))
        (tmp_path / "0123456789abcdef.cubin").write_bytes(head + KERNEL + bytes(100))
        (tmp_path / "fedcba9876543210.cubin").write_bytes(b"SMM")
        (tmp_path / "notes.txt").write_text("mine")
        return tmp_path

    def test_list(self, folder, cli):
        for arguments in (["cache"], ["cache", "list"]):
            code, out, _ = cli(*arguments)
            assert code == 0
            assert "smm_lu_f64 m=5 k=6 n=7 sm_90" in out
            assert "fedcba9876543210.cubin         3  damaged" in out
            assert out.splitlines()[-1] == f"2 compiled kernels, 0.0 MB, in {folder}"
        assert len(list(folder.iterdir())) == 3

    def test_clear(self, folder, cli):
        assert cli("cache", "clear")[1] == f"2 compiled kernels, 0.0 MB, removed from {folder}\n"
        assert [path.name for path in folder.iterdir()] == ["notes.txt"]
        assert cli("cache", "clear")[1].startswith("0 compiled kernels")

    def test_what_is_no_kernel(self, folder, cli, monkeypatch):
        """Folders, links and pipes are left alone; what others remove, or forbid to read, harms nothing."""
        kernel, damaged = sorted(folder.glob("*.cubin"))
        (folder / "folder.cubin").mkdir()
        (folder / "link.cubin").symlink_to(kernel)
        os.mkfifo(folder / "pipe.cubin")
        (folder / os.fsdecode(b"\xff.cubin")).write_bytes(b"SMMCUBN1" + b"\xff" * 24)
        read = _cli.open_without_waiting

        def forbid(path):
            if path == damaged:
                raise PermissionError
            kernel.unlink(missing_ok=True)
            return read(path)

        assert cli("cache")[1].splitlines()[-1] == f"3 compiled kernels, 0.0 MB, in {folder}"
        monkeypatch.setattr(_cli, "open_without_waiting", forbid)
        code, out, _ = cli("cache")
        assert code == 0
        assert [line.split()[-1] for line in out.splitlines()[:-1]] == ["damaged", "unreadable"]
        assert "\\udcff.cubin" in out
        assert cli("cache", "clear")[1] == f"2 compiled kernels, 0.0 MB, removed from {folder}\n"
        assert {path.name for path in folder.iterdir()} == {
            "folder.cubin",
            "link.cubin",
            "notes.txt",
            "pipe.cubin",
        }

    def test_absent_and_disabled(self, process, tmp_path):
        done = process("cache", SMALLMM_CACHE_DIR=str(tmp_path / "nowhere"))
        assert (done.returncode, done.stdout.split()[0]) == (0, "0")
        done = process("cache", "clear", SMALLMM_CACHE_DIR="")
        assert (done.returncode, done.stdout) == (
            0,
            "SMALLMM_CACHE_DIR is empty: compiled kernels are not kept\n",
        )

    def test_a_compiled_kernel(self, run_python, process, tmp_path):
        """What jit.c writes is what is listed."""
        compiled = run_python(
            """
            from smallmm import cuda
            try:
                cuda.compile_for([{"dtype": "f32", "m": 3, "k": 2, "n": 4}], 90)
            except cuda.CudaUnavailableError as error:
                print(error)
            """,
            {"SMALLMM_CACHE_DIR": str(tmp_path)},
        )
        if compiled.stdout:
            pytest.skip(compiled.stdout)
        listed = process("cache", SMALLMM_CACHE_DIR=str(tmp_path)).stdout
        assert "m=3 k=2 n=4 sm_90" in listed


class TestDemo:
    def test_writes_the_picture(self, process, tmp_path):
        pytest.importorskip("matplotlib")
        done = process("demo", str(tmp_path / "picture.png"))
        assert done.returncode == 0, done.stderr
        assert "products equal to NumPy's, to the bit" in done.stdout
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")

    def test_without_matplotlib(self, cli, without):
        without("matplotlib")
        code, out, err = cli("demo")
        assert (code, out) == (1, "")
        assert "the demo needs matplotlib" in err


class TestTune:
    def test_no_gpu(self, cli):
        if smallmm.cuda.is_available():
            pytest.skip("there is a GPU")
        code, out, err = cli("tune", "solve", "--n", "3")
        assert (code, out) == (1, "")
        assert "CUDA" in err

    def test_each_case(self, cli, monkeypatch):
        called = []

        def tune(*arguments, **options):
            called.append((arguments[0], *(x.shape for x in arguments[1:]), options))
            return "found"

        monkeypatch.setattr(
            _cli, "bench_device", lambda *_: BenchDevice("a GPU", lambda x: x, lambda _: None)
        )
        monkeypatch.setattr(smallmm, "tune", tune, raising=False)
        code, out, _ = cli("tune", "solve_pos", "--n", "2-3", "--batch", "5", "--top", "7", "--no-save")
        options = {"top": 7, "seconds": 30, "save": False, "assume_a": "pos"}
        assert (code, called) == (
            0, [("solve", (5, 2, 2), (5, 2, 1), options), ("solve", (5, 3, 3), (5, 3, 1), options)]
        )  # fmt: skip
        assert out.splitlines()[0] == "solve_pos f64 n = 2, 5 matrices on a GPU: found"


class TestArguments:
    def test_help(self, process):
        text = process("--help").stdout
        assert process().stdout == text
        assert all(f"\n    {command} " in text for command in COMMANDS)
        for command in COMMANDS:
            done = process(command, "--help")
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith(f"usage: python -m smallmm {command}")

    def test_version(self, process):
        assert process("--version").stdout == f"smallmm {smallmm.__version__}\n"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ("measure", "invalid choice: 'measure'"),
            ("bench --op trace", "invalid choice: 'trace'"),
            ("bench --n 0", "'0' is not within 1-64"),
            ("bench --n 8-2", "'8-2' is not within 1-64, or runs backwards"),
            ("bench --n 1000", "'1000' is not within 1-64"),
            ("bench --n 1-99999999999999999999", "is not within 1-64"),
            ("bench --n 3-", "'3-' is neither an order like 3 nor a range like 2-8"),
            ("bench --n three", "'three' is neither"),
            ("bench --n", "expected at least one argument"),
            ("bench --dtype f16", "invalid choice: 'f16'"),
            ("bench --device gpu", "'gpu' is not cpu, cuda or cuda:1"),
            ("bench --device cuda:", "'cuda:' is not cpu"),
            ("bench --device cuda:99999999999999999999", "is not cpu, cuda or cuda:1"),
            ("bench --batch 99999999999999999999", "is not greater than 0, or above 1e12"),
            ("bench --batch 0", "0 is not greater than 0"),
            ("bench --batch many", "invalid int value: 'many'"),
            ("bench --seconds nan", "nan is not greater than 0"),
            ("bench --peers MATLAB", "invalid choice: 'MATLAB'"),
            ("bench --plot bench.bmp", "'bench.bmp' does not end in .png"),
            ("demo picture.doc", "'picture.doc' does not end in .png"),
            ("tune", "required: FUNCTION"),
            ("tune solve", "required: --n"),
            ("tune trace --n 3", "invalid choice: 'trace'"),
            ("tune solve --n 3 --device cpu", "'cpu' has no kernels to choose from"),
            ("tune solve --n 3 --top 0", "0 is not greater than 0"),
            ("cache remove", "invalid choice: 'remove'"),
            ("info extra", "unrecognized arguments: extra"),
        ],
    )
    def test_bad(self, cli, arguments, words):
        code, out, err = cli(*arguments.split())
        assert (code, out) == (2, "")
        assert words in err

    def test_no_traceback(self, process, tmp_path):
        bad = process("bench", "--n", "x")
        assert bad.returncode == 2
        unwritable = process("demo", str(tmp_path / "nowhere" / "picture.png"))
        assert unwritable.returncode == 1
        assert "Traceback" not in bad.stderr + unwritable.stderr

    @pytest.mark.parametrize(
        "arguments", [(), ("info",), ("bench", "--n", "2"), ("cache", "clear"), ("--help",)]
    )
    def test_unknown_instruction_set(self, process, arguments):
        done = process(*arguments, SMALLMM_ISA="sse9")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("python -m smallmm: instruction set 'sse9' (from SMALLMM_ISA")
        assert len(done.stderr.splitlines()) == 1

    def test_unknown_instruction_set_elsewhere(self, tmp_path):
        """Another program of python -m gets the exception."""
        (tmp_path / "program").mkdir()
        (tmp_path / "program" / "__init__.py").write_text("import smallmm")
        command = [sys.executable, "-m", "program", "smallmm"]
        environment = {**os.environ, "SMALLMM_ISA": "sse9"}
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "\nValueError: instruction set 'sse9'" in done.stderr

    def test_closed_output(self):
        command = f"{shlex.quote(sys.executable)} -m smallmm info >&-"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        assert done.stderr == ""

    def test_closed_pipe_and_interrupt(self, cli, monkeypatch):
        command = f"{shlex.quote(sys.executable)} -m smallmm info | true"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        assert done.stderr == ""

        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(smallmm, "show_config", interrupted)
        assert cli("info")[0] == 130


def test_imported_when_asked_for(run_python):
    code = """
        import sys, smallmm
        few = "smallmm._tools.bench", "smallmm._tools.cli", "tqdm"
        print([name for name in few if name in sys.modules])
        print("bench" in dir(smallmm), callable(smallmm.bench))
    """
    assert run_python(code).stdout == "[]\nTrue True\n"

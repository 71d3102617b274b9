"""Configuration, explanation, import and documentation."""

import doctest
import importlib.metadata
import os
import pathlib
from types import ModuleType

import numpy as np
import pytest

import smallmm
import smallmm._core as core
from smallmm._tools import config


class TestShowConfig:
    def test_dicts(self):
        config = smallmm.show_config(mode="dicts")
        assert config["smallmm"] == smallmm.__version__
        assert config["isa"] in config["isas available"]
        assert config["threads"] == smallmm.get_num_threads()

    def test_cpu(self, monkeypatch):
        """As names of virtual machines are short, family and model stand behind them."""
        words = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n"
        monkeypatch.setattr(pathlib.Path, "exists", lambda _: True)
        monkeypatch.setattr(pathlib.Path, "read_text", lambda _: words)
        assert config.cpu() == "AMD EPYC family 26 model 2"
        monkeypatch.setattr(pathlib.Path, "read_text", lambda _: "processor\t: 0\n")
        assert config.cpu() == os.uname().machine

    def test_prints(self, capsys):
        assert smallmm.show_config() is None
        assert core.isa() in capsys.readouterr().out

    def test_environment_need_be_no_text(self, run_python):
        assert (
            "SMALLMM_X=\\udcff"
            in run_python("import smallmm; smallmm.show_config()", {"SMALLMM_X": "\udcff"}).stdout
        )

    def test_mode(self):
        with pytest.raises(ValueError, match="show_config: mode is 'xml'"):
            smallmm.show_config(mode="xml")
        with pytest.raises(ValueError, match="show_config: mode is a ndarray"):
            smallmm.show_config(mode=np.ones(2))


class TestExplain:
    def test_counts(self, isa, dtype):
        a, b = np.ones((1000, 4, 5), dtype), np.ones((1000, 5, 3), dtype)
        plan = smallmm.explain("batched_matmul", a, b)
        assert plan.isa == isa
        assert plan.kernel.endswith(f"f{dtype.itemsize * 8}_{isa}")
        assert f"_{plan.strategy}" in plan.kernel
        assert (plan.matrices, plan.calls) == (1000, 1)
        assert plan.flops == 2 * 1000 * 4 * 5 * 3
        assert plan.bytes == 1000 * (20 + 15 + 12) * dtype.itemsize
        assert plan.intensity == plan.flops / plan.bytes
        assert plan.kernel in str(plan)

    def test_functions_and_names(self):
        a, x = np.ones((7, 4, 4)), np.ones((7, 4))
        assert smallmm.explain(smallmm.matmul, a, a) == smallmm.explain("matmul", a, a)
        assert smallmm.explain("matvec", a, x).matrices == 7
        assert smallmm.explain("vecmat", x, a).flops == 2 * 7 * 16

    def test_strategy(self, isa):
        a = np.ones((1000, 5, 5))
        assert smallmm.explain("matvec", a, a[..., 0]).strategy == "vector_lanes"
        factors = a, np.zeros((1000, 5), np.int32)
        assert smallmm.explain("lu_solve", factors, a).strategy == "lanes"
        assert smallmm.explain("lu_solve", list(factors), a) == smallmm.explain("lu_solve", factors, a)

    def test_flops_of_wide_matrices(self):
        """As many as of the transposed ones: the shorter side has the reflectors."""
        a = np.ones((2, 3, 100))
        assert (
            smallmm.explain("qr", a, mode="r").flops
            == smallmm.explain("qr", a.mT, mode="r").flops
            == 2 * 1800
        )

    def test_computes_nothing(self):
        a, out = np.ones((7, 4, 4)), np.full((7, 9, 4), 5.0)
        assert smallmm.explain("batched_matmul", a, a, out=out[:, ::-2][:, :4], alpha=2, beta=3).matrices == 7
        assert (out == 5).all()
        assert smallmm.explain("matmul", a[:0], a[:0]).kernel is None

    def test_broadcast_operand_counts_once(self):
        a, b = np.ones((2, 1000, 4, 4))
        assert smallmm.explain("matmul", a, b).bytes == 3000 * 128
        assert smallmm.explain("matmul", a, b[0]).bytes == 2001 * 128

    def test_shared_data_counts_once(self):
        a = np.ones((1000, 4, 4))
        assert smallmm.explain("matmul", a.mT, a).bytes == 2000 * 128
        windows = np.lib.stride_tricks.sliding_window_view(np.ones((1003, 4)), 4, axis=0)  # share 3 of 4 rows
        assert smallmm.explain("matmul", windows, a).bytes == (1003 * 4 + 2 * 1000 * 16) * 8

    def test_threads_and_streaming(self):
        a = np.broadcast_to(np.ones((4, 4)), (1_000_000, 4, 4))
        with smallmm.threads(2):
            plan = smallmm.explain("batched_matmul", np.ones((1_000_000, 4, 4)), a)
        assert plan.threads == 2
        assert plan.nontemporal

    @pytest.mark.parametrize(
        ("m", "k", "n", "threads", "megabytes"),
        [
            (16, 16, 16, 1, 24),
            (31, 2, 5, 1, 11.8),
            (31, 2, 5, 8, 11.8),
            (31, 2, 5, 12, 17.6),
            (2, 31, 2, 1, 24),
        ],
    )
    def test_streaming_begins(self, m, k, n, threads, megabytes):
        """Where all operands take 24 MB, or the output 8, and 1 for each thread."""
        each = 8 * (m * k + k * n + m * n)
        for factor, streamed in ((0.98, False), (1.02, True)):
            batch = int(factor * megabytes * 2**20 / each)
            with smallmm.threads(threads):
                plan = smallmm.explain("matmul", np.ones((batch, m, k)), np.ones((batch, k, n)))
            assert plan.nontemporal == streamed

    def test_frozen(self):
        plan = smallmm.explain("matmul", np.eye(2), np.eye(2))
        with pytest.raises(AttributeError):
            plan.threads = 3

    def test_errors(self):
        with pytest.raises(
            ValueError, match="explain: op is 'transform'; expected one of backward_error, batched_matmul"
        ):
            smallmm.explain("transform", np.eye(2), np.eye(2))
        with pytest.raises(
            ValueError, match=r"explain: op is \[\]; expected one of backward_error, batched_matmul"
        ):
            smallmm.explain([], np.eye(2), np.eye(2))
        with pytest.raises(ValueError, match="batched_matmul: b has shape"):
            smallmm.explain("batched_matmul", np.eye(2), np.eye(3))


class TestInstructionSets:
    def test_environment(self, run_python):
        for name in core.isas_available():
            assert (
                run_python("import smallmm._core as c; print(c.isa())", {"SMALLMM_ISA": name}).stdout.strip()
                == name
            )

    def test_unknown(self, run_python):
        result = run_python("import smallmm", {"SMALLMM_ISA": "sse9"}, check=False)
        assert result.returncode != 0
        assert "instruction set 'sse9' (from SMALLMM_ISA or select_isa)" in result.stderr
        assert "portable" in result.stderr

    def test_select(self):
        before = core.isa()
        with pytest.raises(
            ValueError, match=r"instruction set 'sse9' .* is unknown or not available; .*portable"
        ):
            core.select_isa("sse9")
        assert core.isa() == before
        with pytest.raises(TypeError):
            core.select_isa(3)


class TestImport:
    def test_light(self, run_python):
        """Nothing is imported that NumPy does not import, and in little time (a generous bound)."""
        code = """
            import sys, time, numpy
            before = set(sys.modules)
            start = time.process_time()
            import smallmm
            print(time.process_time() - start)
            print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
        """
        seconds, modules = run_python(code).stdout.splitlines()
        assert float(seconds) < 0.2
        assert not {"torch", "dask", "array_api_compat", "scipy"} & set(modules.split())

    def test_silent(self, run_python):
        result = run_python("import smallmm, numpy as np; smallmm.matmul(np.eye(2), np.eye(2))")
        assert result.stdout + result.stderr == ""

    def test_version(self):
        assert importlib.metadata.version("smallmm") == smallmm.__version__


EXAMPLES = [name for name in smallmm.__all__ if ">>>" in (getattr(smallmm, name).__doc__ or "")]


@pytest.mark.parametrize("name", ["smallmm", *(name for name in EXAMPLES if name != "bench")])
def test_docstring_examples(name):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    found = getattr(smallmm, name, smallmm)
    names = {"np": np, "smallmm": smallmm} | (vars(found) if isinstance(found, ModuleType) else {})
    for test in finder.find(found, name, module=False, globs=names):
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0


def test_examples_are_many():
    assert len(EXAMPLES) > 80


def test_public_functions_are_documented():
    for name in smallmm.__all__:
        assert name == "__version__" or getattr(smallmm, name).__doc__

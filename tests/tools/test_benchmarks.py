"""The benchmarks that do not measure: rows and their files, what pages say of scripts, sizes, one timer."""

import ast
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from pages import PAGES, ROOT

import smallmm
from smallmm import _core
from smallmm._tools import contenders, operations, plots

sys.path.append(str(ROOT))
BENCHMARKS = ROOT / "benchmarks"

if not (BENCHMARKS / "results").exists():
    pytest.skip("needs a clone", allow_module_level=True)

from benchmarks import records  # noqa: E402
from benchmarks.host.operations import CORE  # noqa: E402
from benchmarks.report import judge  # noqa: E402

FILES = sorted(records.RESULTS.rglob("*.json"))


def row(**fields):
    return {"op": "inv", "dtype": "f64", "n": 3, "contender": "smallmm", "ns_per_matrix": 1.5} | fields


class TestRecords:
    def test_what_rows_share_stands_once(self):
        rows = [
            row(n=n, contender=who, commit="abc", version=f"{who} 1", ns_per_matrix=n * 0.1)
            for n in range(1, 9)
            for who in ("NumPy", "smallmm")
        ]
        text = records.dumps({"cpu": "one"}, rows)
        assert text.count('"commit"') == 1
        assert text.count("NumPy 1") == 1
        assert records.loads(text) == ({"cpu": "one"}, rows)

    def test_fields_that_some_rows_lack(self):
        """A null is not the same as no field, nor 1 as 1.0."""
        rows = [row(error=None), row(), row(quartiles=[1, 2.0]), row(n=4, host_us=1), row(host_us=1.0), row()]
        _, found = records.loads(records.dumps({}, rows))
        assert [json.dumps(x, sort_keys=True) for x in found] == [json.dumps(x, sort_keys=True) for x in rows]

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_file(self, path):
        """It is what the writer writes of its rows; each row has a commit and a date."""
        text = path.read_text(encoding="utf-8")
        machine, rows = records.loads(text)
        assert records.dumps(machine, rows) == text
        assert all(re.fullmatch(r"[0-9a-f]{7,12}(\+dirty)?", r["commit"]) for r in rows)
        assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", r["date"]) for r in rows)
        assert machine.keys() >= {"cpu", "cores"} or machine.keys() >= {
            "device",
            "driver",
            "copy_bytes_per_s",
        }

    def test_sizes(self):
        sizes = {path: path.stat().st_size for path in records.RESULTS.rglob("*") if path.is_file()}
        assert sum(sizes.values()) < 3 << 20
        assert sizes[records.RESULTS / "headline.svg"] < 60_000
        assert all(size < 60_000 for path, size in sizes.items() if path.suffix == ".svg")


class TestOperations:
    def test_the_core_has_a_row_for_each(self):
        assert CORE.keys() == operations.OPERATIONS.keys()
        for name, core in CORE.items():
            assert core.name in _core.operations
            assert len(core.results) == len(operations.OPERATIONS[name].results)

    @pytest.mark.parametrize("name", operations.OPERATIONS)
    def test_a_wrong_result_is_found(self, name):
        """NumPy's results pass, and not one that is off by a thousandth."""
        op = operations.OPERATIONS[name]
        numpy = contenders.PEERS["NumPy"]()
        stack = operations.stack(op, "f64", 5, 50)
        job = numpy.bind(op, stack) or contenders.PEERS["SciPy"]().bind(op, stack)
        results = [np.array(x) for x in job.read(job.call())]
        operations.validate(job.words, op, stack.a, stack.b, results)
        results[0][7] *= 1.001
        with pytest.raises(AssertionError, match="1 of 50 matrices are wrong, the first 7"):
            operations.validate(job.words, op, stack.a, stack.b, results)

    def test_symmetric_matrices(self):
        for name, matrices in (("eigh", "symmetric"), ("cholesky", "definite")):
            op = operations.OPERATIONS[name]
            a = operations.stack(op, "f32", 4, 9).a
            assert op.matrices == matrices
            assert np.array_equal(a, a.mT)

    def test_traffic(self):
        """Of solve: the matrix and a column in, a column out."""
        op = operations.OPERATIONS["solve"]
        assert operations.bytes_of(op, "f32", 3) == 4 * (9 + 3 + 3)
        assert operations.stack(op, "f32", 3, 10).nbytes(7) == 7 * 4 * (9 + 3 + 3)
        lu = operations.OPERATIONS["lu_factor"]
        assert operations.bytes_of(lu, "f64", 3) == 8 * 9 + 8 * 9 + 4 * 3


class TestReport:
    def test_commits_are_of_this_history(self):
        """Those that rows, tuned tables and pages name."""
        if not shutil.which("git"):
            pytest.skip("needs git")
        git = ["git", "-C", str(ROOT)]
        shallow = subprocess.run(
            [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
        )
        if shallow.stdout.strip() != "false":
            pytest.skip("needs the history")
        files = [*FILES, *PAGES, *(ROOT / "smallmm" / "tuned").rglob("*.json")]
        texts = (path.read_text(encoding="utf-8") for path in files)
        names = {x for text in texts for x in re.findall(r'\bcommit(?:": ?"|:? )([0-9a-f]{7,40})\b', text)}
        assert len(names) > 20
        found = subprocess.run(
            [*git, "cat-file", "--batch-check"], input="\n".join(names), capture_output=True, text=True
        )
        assert [x for x in found.stdout.splitlines() if x.split()[1] != "commit"] == []

    def test_every_topic_is_judged(self, capsys, monkeypatch):
        """Of each machine, but accuracy, whose bounds are asserted while it is measured, and other libraries'
        programs, of which nothing is promised."""
        monkeypatch.setattr(sys, "argv", ["judge"])
        judge.main()
        judged = re.findall(r"^(\w+): \d+ met, \d+ missed$", capsys.readouterr().out, re.MULTILINE)
        assert len(judged) == len(
            [path for path in FILES if not path.name.startswith(("accuracy", "clients"))]
        )

    def test_every_contender_has_a_colour(self):
        """The same in every figure, and no other library's; LAPACKE is MKL's."""
        names = {row["contender"] for path in FILES for row in records.read(path)[1] if "contender" in row}
        names |= {"smallmm", *contenders.PEERS}
        names -= {"roofline"}
        colours = {name: plots.colour(name) for name in names}
        mkl = {name for name in names if name.startswith(("MKL ", "LAPACKE")) and name != "MKL compact"}
        others = [colour for name, colour in colours.items() if name not in mkl]
        assert len({colours[name] for name in mkl}) == 1
        assert len(set(others)) == len(others)

    def test_a_figure_loses_bytes_not_words(self):
        pytest.importorskip("matplotlib")
        from benchmarks.report import figures

        svg = (
            '<svg xmlns="http://www.w3.org/2000/svg"><metadata>x</metadata><g id="a"><g id="b">'
            '<path d="M 1.2345 2&#10;L 3.0001 4.987654"/></g><text x="10.123456">0.125</text></g></svg>'
        )
        short = figures.shorter(svg)
        assert '<path d="M 1.2 2 L 3 5" />' in short
        assert '<text x="10.1">0.125</text>' in short
        assert "<g" not in short
        assert "metadata" not in short


def test_scripts_that_pages_name_exist():
    """`python -m benchmarks...`, benchmarks/....py and benchmarks/results/... in pages, sources and CI."""
    others = ("Makefile", ".ci/run", "ARCHITECTURE.md", "benchmarks/README.md")
    sources = [*PAGES, *(ROOT / name for name in others)]
    for page in [*sources, *BENCHMARKS.rglob("*.py")]:
        text = page.read_text(encoding="utf-8")
        for module in re.findall(r"python -m (benchmarks\.[\w.]*\w)", text):
            assert importlib.util.find_spec(module), f"{page}: {module}"
        for path in re.findall(r"\bbenchmarks/[\w/.-]*\.(?:py|svg|json|c|md)\b", text):
            assert (ROOT / path).exists(), f"{page}: {path}"


def imported(name):
    """A module of the package; None if it needs a library that is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "smallmm").startswith("smallmm"):
            raise
        return None


def modules_of(tree):
    """The modules that a script imports of the package, by the names that nothing else has in it."""
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for x in node.names:
                if x.name.split(".")[0] == "smallmm" and (module := imported(x.name)):
                    modules[x.asname or "smallmm"] = module if x.asname else smallmm
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
            package = imported(name) if not node.level and name.startswith("smallmm") else None
            for x in node.names if package else ():
                taken = getattr(package, x.name, None) or imported(f"{name}.{x.name}")
                if inspect.ismodule(taken):
                    modules[x.asname or x.name] = taken
    nodes = [*ast.walk(tree)]
    given = {x.arg for x in nodes if isinstance(x, ast.arg)}
    given |= {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    return {name: module for name, module in modules.items() if name not in given}


def module_of(node, modules):
    """The module that a name, or names with dots, stand for."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    of = module_of(node.value, modules) if isinstance(node, ast.Attribute) else None
    found = getattr(of, node.attr, None) if of else None
    return found if inspect.ismodule(found) else None


def list_of(node, modules):
    """The dictionary of the C core's words that an attribute is."""
    of = module_of(node.value, modules) if isinstance(node, ast.Attribute) else None
    found = getattr(of, node.attr, None) if of is smallmm._core else None
    return found if isinstance(found, dict) else None


@pytest.mark.parametrize("folder", ["benchmarks", "tests"])
def test_names_of_the_package_exist(folder):
    """Those of modules that a script imports, and words of its lists: many scripts run on GPUs alone."""
    for path in (ROOT / folder).rglob("*.py"):
        if path == ROOT / "tests/typing/user.py":  # takes names that type checkers are to refuse
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = modules_of(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and (of := module_of(node.value, modules)):
                assert hasattr(of, node.attr), f"{path}:{node.lineno}: {of.__name__}.{node.attr}"
            if isinstance(node, ast.Subscript) and (of := list_of(node.value, modules)):
                word = getattr(node.slice, "value", None)
                assert not isinstance(word, str) or word in of, f"{path}:{node.lineno}: {word}"


def test_one_timer():
    """Only smallmm/_tools/timing.py reads a clock; the import of smallmm is timed from outside it."""
    clocks = re.compile(r"\b(perf_counter|monotonic|process_time|timeit|time\.time|clock_gettime)")
    found = {
        path.relative_to(ROOT).as_posix(): len(clocks.findall(path.read_text(encoding="utf-8")))
        for folder in (BENCHMARKS, ROOT / "smallmm")
        for path in [*folder.rglob("*.py"), *folder.rglob("*.c")]
    }
    assert {path for path, count in found.items() if count} == {
        "smallmm/_tools/timing.py",
        "benchmarks/host/matmul.py",
    }

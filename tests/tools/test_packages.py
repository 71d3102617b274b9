"""What a code host and package index read: workflows, templates, metadata, the check of wheels."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module

import pytest
from pages import ROOT

import smallmm

sys.path.append(str(ROOT / "tools"))
FROM_SOURCES = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="not a source folder")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TARGETS = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def read(path):
    return pytest.importorskip("yaml").safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem
)
def test_workflow(path):
    """Its commands are there; actions of others are those of a version."""
    workflow = read(path)
    assert {"name", "permissions", "jobs"} < workflow.keys()
    for name, job in workflow["jobs"].items():
        assert (
            set(job.get("needs", ())) <= {*workflow["jobs"], *"needs"} or job["needs"] in workflow["jobs"]
        ), name
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+(/[\w-]+)+@(v\d+|release/v\d+)", step["uses"])
                continue
            program, *words = step["run"].split()
            if program == "make":
                assert words[0] in TARGETS
            elif program == ".ci/run":
                assert (ROOT / program).stat().st_mode & 0o100
            elif words[:1] and words[0].startswith("tools/"):
                assert (ROOT / words[0]).exists()


def test_wheels_have_every_instruction_set():
    assert PROJECT["tool"]["cibuildwheel"]["environment"]["SMALLMM_ISAS"] == "all"
    assert "SMALLMM_ISAS=all" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_template(path):
    """What it asks a reader to run exists."""
    template = read(path)
    assert {"name", "description", "body"} <= template.keys()
    text = path.read_text(encoding="utf-8")
    for command in re.findall(r"`python -m smallmm (\w+)", text):
        assert command in ("info", "bench", "cache")
    for name in re.findall(r"smallmm\.(\w+)\(", text):
        assert hasattr(smallmm, name)


def test_citation_is_of_this_version():
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == smallmm.__version__
    assert citation["abstract"] == PROJECT["project"]["description"]
    assert [x["name"] for x in citation["authors"]] == [x["name"] for x in PROJECT["project"]["authors"]]


def test_hooks_are_what_make_lint_runs():
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    for hook in local["hooks"]:
        command = hook["entry"].removeprefix(".venv/bin/").removesuffix(" -i")
        assert f"$(BIN)/{command}" in lint


def test_editors_wrap_where_the_tools_do():
    settings = (ROOT / ".editorconfig").read_text(encoding="utf-8")
    clang = re.search(r"ColumnLimit: (\d+)", (ROOT / ".clang-format").read_text(encoding="utf-8"))[1]
    widths = re.findall(r"max_line_length = (\d+)", settings)
    assert widths == [str(PROJECT["tool"]["ruff"]["line-length"]), clang, "100"]


class TestCheckOfWheels:
    """tools/check_wheel.py."""

    SHOWN = 'is consistent with the\nfollowing platform tag: "manylinux_2_{}_x86_64".\n'

    @pytest.fixture
    def complaint(self):
        return import_module("check_wheel").complaint

    def test_good(self, complaint, capsys):
        assert complaint("x.whl", 6_600_000, self.SHOWN.format(35)) is None
        assert capsys.readouterr().out == "x.whl: 6.6 MB, for manylinux_2_35\n"

    def test_bad(self, complaint):
        assert complaint("x.whl", 8_100_000, self.SHOWN.format(35)) == "x.whl: has 8.1 MB; expected at most 8"
        newer = "x.whl: needs glibc 2.37; expected 2.36 or older"
        assert complaint("x.whl", 10, self.SHOWN.format(37)) == newer
        assert "is for no manylinux" in complaint("x.whl", 10, 'following\nplatform tag: "linux_x86_64"')
        assert "is for no manylinux" in complaint("x.whl", 10, "no such file")


@FROM_SOURCES
def test_32_bits_are_refused():
    pytest.importorskip("setuptools")
    code = "import sys; sys.maxsize = 2**31 - 1; exec(open('setup.py').read())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "smallmm needs a 64-bit Python: its kernels are for x86-64 and 64-bit ARM\n"

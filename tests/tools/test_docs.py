"""Every code block and command of README and docs runs, here or in .ci/run, or is skipped with a reason.

Blocks of `python` and `pycon` run in the order of their page, in one namespace, as a reader would type them;
one that needs something runs alone. What `pycon` shows must come out. `c` and the `text` after it are tested
by tests/core/Makefile. Each command of `sh` is one that .ci/run or a test runs. A `diff` applies, and what it
makes compiles.

.ci/run executes the notebooks. Here their outputs are checked, and the width of prose.
"""

import ast
import doctest
import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from pages import FENCED, PAGES, ROOT, blocks

import smallmm

BLOCKS = [block for page in PAGES for block in blocks(page)]
LANGUAGES = "python", "pycon", "sh", "c", "diff", "text"
CODE = [block for block in BLOCKS if block.language in ("python", "pycon")]

# Commands that are run elsewhere than in a step of .ci/run or here
ELSEWHERE = {
    "python -m smallmm tune inv --n 4-8 --dtype f32 f64": "needs a GPU; test_cli.py has another in its place",
    ".ci/run": "runs this",
    "make install 'PREFIX=$HOME/.local'": "make ctest installs elsewhere",
    "gcc -O2 -Icsrc program.c build/libsmallmm.a -lm -lpthread -ldl -o program": "make ctest does",
}


def run(block, namespace):
    """Run a block in a namespace. What a pycon block shows must come out."""
    if block.language == "python":
        code = "\n" * (block.line - 1) + block.text
        exec(compile(code, block.page, "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(block.text, {}, str(block), str(block.page), block.line - 1)
    test.globs = namespace
    shown: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=shown.append, clear_globs=False)
    assert not runner.failures, "".join(shown)


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """An empty folder, and a JAX that leaves memory to others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.page == p for b in CODE)], ids=lambda p: p.stem)
@pytest.mark.usefixtures("surroundings")
def test_page(page):
    namespace = {"__name__": "__main__"}
    with smallmm.threads(0):
        for block in CODE:
            if block.page == page and not block.needs:
                run(block, namespace)


@pytest.mark.needs_library
@pytest.mark.parametrize("block", [block for block in CODE if block.needs], ids=str)
@pytest.mark.usefixtures("surroundings")
def test_block_that_needs(block):
    for name in block.needs:
        if name == "gpu":
            if not smallmm.cuda.is_available():
                pytest.skip("needs a GPU")
        else:
            pytest.importorskip(name)
    run(block, {"__name__": "__main__"})


@pytest.mark.skipif(not (shutil.which("git") and shutil.which("cc")), reason="needs git and a C compiler")
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "diff"], ids=str)
def test_diff(block, tmp_path):
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    shutil.copytree(
        ROOT / "tests" / "core", tmp_path / "tests" / "core", ignore=shutil.ignore_patterns("build")
    )
    changed = re.findall(r"^\+\+\+ b/(.+)$", block.text, re.MULTILINE)
    for name in changed:
        if (ROOT / name).exists() and not (tmp_path / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "diff").write_text(block.text, encoding="utf-8")
    subprocess.run(["git", "apply", "diff"], cwd=tmp_path, check=True)
    for name in changed:
        if name.endswith(".py"):
            ast.parse((tmp_path / name).read_text(encoding="utf-8"))
    sources = "csrc/core/*.c", "csrc/reference/*.c", "csrc/kernels/portable_*.c", "tests/core/test_linalg.c"
    check = "cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"
    subprocess.run([*check, *(file for some in sources for file in tmp_path.glob(some))], check=True)


def commands(some):
    """The commands of some blocks, without comments; a line that ends in a backslash goes on."""
    for block in some:
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                if words := shlex.split(line, comments=True):
                    yield shlex.join(words)


CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
STEPS = re.findall(r"^ *step (?:as_a_reader )?(?:\S+/bin/)?(.*)$", CI, re.MULTILINE)
AS_A_READER = re.findall(r"^ *step ((?:as_a_reader|make) .*)$", CI, re.MULTILINE)
TARGETS = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", [x for x in dict.fromkeys(commands(BLOCKS)) if x not in ELSEWHERE])
def test_command(command, tmp_path):
    program, *words = shlex.split(command)
    assert program != "make" or words[0] in TARGETS
    if command not in STEPS and command.replace("python -m", "python -P -m") not in STEPS:
        assert program == "python", "neither a step of .ci/run, nor ELSEWHERE, nor Python's"
        subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_first_commands(page):
    """They are run as they stand there, in a folder and an environment like a reader's."""
    first = list(commands([block for block in BLOCKS if block.page == ROOT / page]))
    assert first
    for command in first:
        assert command in AS_A_READER or f"as_a_reader {command}" in AS_A_READER


def test_languages():
    assert {block.language for block in BLOCKS if block.language[:1] != "{"} == {*LANGUAGES}


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_has_outputs(path):
    """Those of one run from the first cell to the last, without errors and paths of a machine, and small. The
    first says on which machine."""
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert re.match(r".+, \w+, \d+ threads; python [\d.]+, numpy [\d.]+, smallmm ", outputs[0]["text"][0])
    assert not [
        output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
    assert not re.search(r"/(home|root|tmp|usr|work)/", text)
    assert len(text) < 1_000_000


GENERATED = re.compile(r"^<!-- begin: .*?^<!-- end: .*?$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"], ids=lambda p: p.stem
)
def test_prose_is_at_most_100_columns(page):
    """Tables and what benchmarks/report writes may be wider."""
    text = FENCED.sub("", GENERATED.sub("", page.read_text(encoding="utf-8")))
    assert not [line for line in text.splitlines() if len(line) > 100 and not line.startswith("|")]


def anchors(page):
    """Of the headings of a page, as code hosts and Sphinx write them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


TEXTS = sorted({*PAGES, *ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md")})


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page):
    """What a page links to is there, as files of the repository."""
    links = re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text(encoding="utf-8")))
    for link in links:
        path, _, anchor = link.partition("#")
        if not path.startswith("http"):
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert target.is_relative_to(ROOT), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("name", ["performance", "cuda", "limits"])
def test_pages_for_users_are_short(name):
    """What was measured stands in docs/records/."""
    assert len((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split()) <= 1500


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


def test_where_things_are():
    """The table of CONTRIBUTING.md names files that have what it says."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `([\w/.-]+)` \| `(.+)` \|$", page, re.MULTILINE)
    assert len(rows) >= 12
    for file, text in rows:
        assert text in (ROOT / file).read_text(encoding="utf-8"), (file, text)

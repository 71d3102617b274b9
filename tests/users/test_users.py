"""Programs as a stranger would first write them, each for somebody: they run, and say nothing but what they
print. tests/core/Makefile runs program.c with the library that is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

USERS = Path(__file__).parent


def run(*command, cwd):
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_notebook(tmp_path):
    printed = run(USERS / "notebook.py", cwd=tmp_path)
    assert "inv: 1 of 4256 matrices is singular, the first at index (3, 4)" in printed


def test_porter(tmp_path):
    pytest.importorskip("scipy")
    run(USERS / "porter.py", cwd=tmp_path)


def test_torch(torch, tmp_path):
    assert "learned:" in run("-W", "ignore::FutureWarning", USERS / "torch_user.py", cwd=tmp_path)


def test_pytest(tmp_path):
    shutil.copy(USERS / "with_pytest.py", tmp_path / "test_own.py")
    assert "6 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py", cwd=tmp_path)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
@pytest.mark.parametrize(
    "language",
    [("c", "-std=c11"), ("c++", "-std=c++20", "-Wno-missing-field-initializers")],
    ids=lambda x: x[0],
)
def test_program_compiles(language):
    """As C, and what C++ has of it: the header."""
    strict = "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'csrc'}"
    source = (
        (USERS / "program.c").read_text(encoding="utf-8") if language[0] == "c" else "#include <smallmm.h>\n"
    )
    command = ["cc", "-x", *language, *strict, "-"]
    if language[0] == "c++" and not shutil.which("c++"):
        pytest.skip("needs a C++ compiler")
    subprocess.run(command, input=source, text=True, check=True)

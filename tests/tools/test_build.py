"""What is built: how it is linked, what the source distribution has, what is said where nothing was built."""

import importlib.machinery
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from pages import ROOT

import smallmm
import smallmm._core as core

FROM_SOURCES = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="not a source folder")


@pytest.fixture
def source_folder(tmp_path):
    """One in which nothing was built."""
    folder = tmp_path / "clone"
    without = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(os.path.dirname(smallmm.__file__), folder / "smallmm", ignore=without)
    (folder / "setup.py").touch()
    return folder


class TestSourceFolder:
    def run(self, folder, *arguments, path=""):
        """Without site-packages (-S), where an editable install would find this folder's core."""
        return subprocess.run(
            [sys.executable, "-S", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_not_installed(self, source_folder):
        done = self.run(source_folder, "-c", "import smallmm")
        words = (
            f"ImportError: smallmm was imported from its source folder {source_folder / 'smallmm'}, which has"
        )
        assert words in done.stderr
        assert "pip install" in done.stderr
        assert "During handling" not in done.stderr

    def test_installed(self, source_folder, tmp_path):
        installed = tmp_path / "site" / "smallmm"
        installed.mkdir(parents=True)
        (installed / f"_core{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
        done = self.run(source_folder, "-m", "smallmm", "info", path=str(installed.parent))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("python -m smallmm: smallmm was imported from its source folder")
        assert f"It is installed in {installed}: start Python in another folder, or with -P" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf")
def test_hardened():
    """Addresses are resolved once and then read-only, the stack is no code and, but of kernels, protected.
    Nothing is asserted, which would name the builder's folders."""

    def readelf(option):
        command = ["readelf", "--wide", option, core.__file__]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "GNU_RELRO" in readelf("--program-headers")
    assert re.search("BIND_NOW|FLAGS.*NOW", readelf("--dynamic"))
    assert re.search(r"GNU_STACK .* RW ", readelf("--program-headers"))
    called = readelf("--dyn-syms")
    assert "__stack_chk_fail" in called
    if "__asan_init" not in called and "__gcov" not in called:
        assert re.search(r"__\w+_chk\b", called.replace("__stack_chk_fail", ""))
        assert "__assert_fail" not in called


@FROM_SOURCES
def test_source_distribution(tmp_path):
    """It has what git has but measured rows and their plots, and names the licences of what others wrote."""
    pytest.importorskip("setuptools")
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        (info,) = [name for name in packed.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")]
        about = packed.extractfile(info).read().decode()
    licences = re.findall(r"^License-File: (.*)$", about, re.MULTILINE)
    assert licences == ["LICENSE", "csrc/math/fdlibm.LICENSE", "csrc/python/device/dlpack.LICENSE"]
    assert set(licences) <= names
    if not shutil.which("git"):
        pytest.skip("needs git")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone")
    assert {
        name for name in listed.stdout.split("\n") if not name.startswith("benchmarks/results/")
    } <= names | {""}

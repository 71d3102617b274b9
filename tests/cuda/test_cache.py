"""The cache of compiled kernels on disk: damaged files, other versions, several processes. No GPU needed."""

import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap

import pytest

from smallmm import cuda

CODE = """
    from smallmm import cuda
    (found,) = cuda.compile_for([{"dtype": "f32", "m": 3, "k": 2, "n": 3}], 90)
    print(len(found[0]), sum(found[0]), found[3])
"""


def compiled(run_python, folder):
    size, total, from_disk = run_python(CODE, {"SMALLMM_CACHE_DIR": str(folder)}).stdout.split()
    return int(size), int(total), from_disk == "True"


@pytest.fixture(scope="module")
def nvrtc():
    try:
        cuda.compile_for([{"dtype": "f32", "m": 1, "k": 1, "n": 1}], 90)
    except cuda.CudaUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def compile_once(nvrtc, run_python, tmp_path):
    return lambda: compiled(run_python, tmp_path)


@pytest.fixture(scope="module")
def an_empty_cache(nvrtc, run_python, tmp_path_factory):
    """What a process gets with it, and the file that is in it afterwards."""
    folder = tmp_path_factory.mktemp("cache")
    first = compiled(run_python, folder)
    (file,) = folder.iterdir()
    return first, file


@pytest.fixture
def first(compile_once, an_empty_cache, tmp_path):
    """What compiling gives, which the cache has."""
    first, file = an_empty_cache
    shutil.copy(file, tmp_path)
    return first


def test_kept_on_disk(compile_once, first, tmp_path):
    assert first[2] is False
    assert compile_once() == (*first[:2], True)
    (file,) = tmp_path.iterdir()
    assert file.suffix == ".cubin"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: b"",
        lambda data: data[:200],
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:-50] + bytes([data[-50] ^ 1]) + data[-49:],
        lambda data: data[:8] + b"\xff" * 24 + data[32:],
        lambda data: (
            data[:16]
            + (68 - int.from_bytes(data[8:16], "little")).to_bytes(8, "little", signed=True)
            + data[24:100]
        ),
    ],
    ids=["cut", "longer", "empty", "torn", "magic", "bit", "lengths", "lengths that wrap"],
)
def test_damaged_file(compile_once, first, tmp_path, damage):
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert compile_once() == first
    assert file.read_bytes() == whole


def fifo(file, whole):
    file.unlink()
    os.mkfifo(file)


def link(file, whole):
    other = file.with_name("other")
    file.rename(other)
    file.symlink_to(other)


def another_users(file, whole):
    try:
        os.chown(file, os.geteuid() + 1, -1)
    except PermissionError:
        pytest.skip("needs root")


@pytest.mark.parametrize(
    "replace",
    [
        fifo,
        link,
        another_users,
        lambda file, whole: file.chmod(0o620),
        lambda file, whole: file.chmod(0o602),
    ],
    ids=["fifo", "link", "of another user", "for a group to write to", "for all to write to"],
)
def test_other_than_an_own_plain_file(compile_once, first, tmp_path, replace):
    """It is not read, nor waited for, and a whole one takes its place."""
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    replace(file, whole)
    assert compile_once() == first
    assert (file.read_bytes(), stat.S_IMODE(file.lstat().st_mode)) == (whole, 0o600)
    assert stat.S_ISREG(file.lstat().st_mode)
    assert compile_once() == (*first[:2], True)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_folder_that_others_write_to(compile_once, first, tmp_path, mode):
    tmp_path.chmod(mode)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"")
    assert compile_once() == first
    assert (list(tmp_path.iterdir()), file.read_bytes()) == ([file], b"")


def test_new_folder_is_private(compile_once, tmp_path, run_python):
    folder = tmp_path / "a" / "b"
    assert run_python(CODE, {"SMALLMM_CACHE_DIR": str(folder)}).stdout.split()[2] == "False"
    assert len(list(folder.iterdir())) == 1
    assert [stat.S_IMODE(x.stat().st_mode) for x in (folder, folder.parent)] == [0o700, 0o700]
    (tmp_path / "link").symlink_to(folder)
    assert run_python(CODE, {"SMALLMM_CACHE_DIR": str(tmp_path / "link")}).stdout.split()[2] == "True"


def checksum(data):
    """FNV-1a of 64 bits, as jit.c."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def test_other_nvrtc(compile_once, first, tmp_path):
    """A whole file of another version of NVRTC, should its name be the same, is not used."""
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    head, body = whole[:32], whole[32:]
    assert int.from_bytes(head[24:], sys.byteorder) == checksum(body)
    other, count = re.subn(rb"NVRTC \d", b"NVRTC 9", body, count=1)
    assert count == 1
    file.write_bytes(head[:24] + checksum(other).to_bytes(8, sys.byteorder) + other)
    assert compile_once() == first
    assert file.read_bytes() == whole


def test_two_processes(compile_once, tmp_path, run_python):
    """Many processes at once, on an empty cache: all get the kernel and one whole file is left."""
    environment = {**os.environ, "SMALLMM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-P", "-c", textwrap.dedent(CODE)]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    found = {process.communicate(timeout=120)[0].rsplit(maxsplit=1)[0] for process in processes}
    assert all(process.returncode == 0 for process in processes)
    assert len(found) == 1
    assert len(list(tmp_path.iterdir())) == 1
    assert compile_once()[2] is True


def test_unwritable_and_disabled(compile_once, tmp_path, run_python):
    file = tmp_path / "a file"
    file.write_text("in the way")
    for directory in (str(file / "below"), ""):
        assert run_python(CODE, {"SMALLMM_CACHE_DIR": directory}).stdout.split()[2] == "False"
    assert list(tmp_path.iterdir()) == [file]


def test_default_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("SMALLMM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cuda.cache_directory() == tmp_path / "smallmm"
    monkeypatch.setenv("SMALLMM_CACHE_DIR", "")
    assert cuda.cache_directory() is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMALLMM_CACHE_DIR", "here")
    assert cuda.cache_directory() == tmp_path / "here"


@pytest.mark.parametrize(
    "environment",
    [{"XDG_CACHE_HOME": "relative"}, {"XDG_CACHE_HOME": "", "HOME": "relative"}],
    ids=["XDG_CACHE_HOME", "HOME"],
)
@pytest.mark.parametrize("platformdirs", [True, False])
def test_relative_home(monkeypatch, tmp_path, environment, platformdirs):
    """Nothing is kept below whatever the working directory is. Newer versions of platformdirs
    look up the user's home instead."""
    if platformdirs:
        pytest.importorskip("platformdirs")
    else:
        monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMALLMM_CACHE_DIR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found, why = cuda.find_cache()
    if found:
        assert platformdirs
        assert found.is_absolute()
        assert not found.is_relative_to(tmp_path)
    else:
        assert re.match(r"the user's cache folder is .*relative.*; expected an absolute path", why)


def test_what_is_said_of_a_folder_that_is_not_used(monkeypatch, tmp_path, run_python):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("SMALLMM_CACHE_DIR", str(tmp_path))
    folder, why = cuda.find_cache()
    assert folder is None
    assert why.startswith(
        f"{tmp_path} is no folder that belongs to this user and that no other may write to; chmod"
    )
    environment = {"SMALLMM_CACHE_DIR": str(tmp_path)}
    warned = run_python("import smallmm.cuda; smallmm.cuda.is_available()", environment).stderr
    assert f"RuntimeWarning: smallmm compiles each kernel anew in each process: {tmp_path} is no" in warned
    said = run_python("import smallmm; smallmm.show_config()", environment).stdout
    assert f"kernel cache:   none: {tmp_path} is no folder" in said
    said = run_python("from smallmm._tools.cli import main; main(['cache'])", environment).stdout
    assert "compiled kernels are not kept" in said

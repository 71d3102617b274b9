"""The cache of compiled kernels on disk: damaged files, other versions, several processes. No GPU needed."""

import os
import re
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


@pytest.fixture
def compile_once(run_python, tmp_path):
    try:
        cuda.compile_for([{"dtype": "f32", "m": 1, "k": 1, "n": 1}], 90)
    except cuda.CudaUnavailableError as error:
        pytest.skip(str(error))

    def compile_once():
        size, total, from_disk = run_python(CODE, {"SMALLMM_CACHE_DIR": str(tmp_path)}).stdout.split()
        return int(size), int(total), from_disk == "True"

    return compile_once


def test_kept_on_disk(compile_once, tmp_path):
    first = compile_once()
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
def test_damaged_file(compile_once, tmp_path, damage):
    first = compile_once()
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert compile_once() == first
    assert file.read_bytes() == whole


def checksum(data):
    """FNV-1a of 64 bits, as jit.c."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def test_other_nvrtc(compile_once, tmp_path):
    """A whole file of another version of NVRTC, should its name be the same, is not used."""
    first = compile_once()
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

"""What type checkers see: the stub, whether it is true, and what they say of users' scripts."""

import inspect
import json
import os
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from typing import get_args

import cases
import numpy as np
import pytest
from pages import ROOT

import smallmm
from smallmm._functions.structured import WORDS, StructureWord

sys.path.append(str(ROOT / "tools"))

SCRIPTS = ROOT / "tests" / "typing"
CALLS = {**cases.FUNCTIONS, **cases.COMPOSITIONS}


@pytest.fixture
def tool():
    pytest.importorskip("scipy")
    return import_module("stub")  # of tools/


def test_stub_is_up_to_date(tool):
    assert tool.rendered() == tool.STUB.read_text(encoding="utf-8"), "run python tools/stub.py"


@pytest.mark.parametrize("name", CALLS)
def test_results_are_what_the_stub_says(tool, name):
    """Of one matrix, where NumPy makes numbers of what has no dimension."""
    call = CALLS[name]
    a, b = np.diag([2.0, 3.0, 4.0]) + 0.5, np.arange(6.0).reshape(3, 2)
    function = getattr(smallmm, call.op)
    given = inspect.signature(function).bind(*call.arguments(a, b), *call.options, **call.keywords).arguments
    result, is_number = tool.returned(call.op)
    for option, value, other in tool.BY_OPTION.get(call.op, ()):
        result = other if given.get(option) == value else result
    found = call.by(function, a, b)
    if result == "array":
        assert isinstance(found, np.ndarray | np.generic if is_number else np.ndarray)
    elif result == "(array, array)":
        assert type(found) is tuple
        assert len(found) == 2
    else:
        assert type(found) is getattr(smallmm, result)


def test_words():
    assert get_args(StructureWord) == tuple(WORDS)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_users_script_with_tensors(tmp_path, checker, torch):
    """`make lint` checks that with arrays of NumPy. Here checkers have no settings but to be strict."""
    shutil.copy(SCRIPTS / "torch_user.py", tmp_path)
    if checker == "mypy":
        pytest.importorskip("mypy")
        command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="]
        command += ["--cache-dir=cache", "torch_user.py"]
    else:
        pytest.importorskip("pyright")
        settings = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}
        settings |= {"extraPaths": [str(ROOT)], "include": ["torch_user.py"]}
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_script_with_tensors_runs(torch):
    runpy.run_path(str(SCRIPTS / "torch_user.py"))

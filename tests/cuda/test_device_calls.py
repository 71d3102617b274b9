"""Tests that only run on a GPU call helpers with arguments that these take. A change elsewhere must not wait
for a GPU to be noticed."""

import ast
import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

DEVICE = Path(__file__).parent / "device"


def calls(tree):
    """Calls of names with arguments that are counted here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            starred = any(isinstance(x, ast.Starred) for x in node.args) or any(
                x.arg is None for x in node.keywords
            )
            if not starred:
                yield node


@pytest.mark.parametrize("path", sorted(DEVICE.glob("*.py")), ids=lambda path: path.stem)
def test_helpers_are_called_as_they_are_defined(path, monkeypatch):
    monkeypatch.syspath_prepend(str(DEVICE))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    checked = 0
    for node in calls(ast.parse(path.read_text())):
        function = getattr(module, node.func.id, None)
        if inspect.isfunction(function):
            try:
                inspect.signature(function).bind(*node.args, **{x.arg: x.value for x in node.keywords})
            except TypeError as error:
                pytest.fail(f"{path.name}:{node.lineno}: {node.func.id}: {error}")
            checked += 1
    assert checked

"""What runs when a library is imported."""

import importlib.util
import sys
from typing import Any


def when_imported(library: str, patch: Any) -> None:
    """Call `patch` after a library is imported; now, if it is."""
    if library in sys.modules:
        patch()
    else:
        sys.meta_path.insert(0, _Finder(library, patch))


class _Finder:
    """Finds one module as the others find it, and has something called after it is executed."""

    def __init__(self, name: str, then: Any) -> None:
        self.name, self.then = name, then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_call(module: Any) -> None:
                execute(module)
                self.then()

            spec.loader.exec_module = execute_and_call  # type: ignore[method-assign]
        return spec

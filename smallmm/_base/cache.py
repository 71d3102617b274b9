"""What was found before, and is found again without work."""

from typing import Any


class Cache(dict[Any, Any]):
    """What was found, by what tells it apart. All of it is forgotten when it becomes too much."""

    def __init__(self, most: int = 1024) -> None:
        self.most = most

    def keep(self, key: Any, found: Any) -> Any:
        """What was found, which is kept."""
        if len(self) >= self.most:
            self.clear()
        self[key] = found
        return found

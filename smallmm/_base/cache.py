"""Results that are kept, so that the same question finds them without work."""

from typing import Any


class Cache(dict[Any, Any]):
    """Results by their keys. One more than `most` makes all others be forgotten."""

    def __init__(self, most: int = 1024) -> None:
        self.most = most

    def keep(self, key: Any, found: Any) -> Any:
        """Keep a result, and return it."""
        if len(self) >= self.most:
            self.clear()
        self[key] = found
        return found

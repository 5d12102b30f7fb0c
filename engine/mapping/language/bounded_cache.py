"""A cache with a bound."""

from typing import Final, TypeVar

SEEN: Final = 4
MAX_KEY: Final = 4096
Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(dict[Key, Value]):
    """A dictionary that is cleared when it would grow beyond its bound."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._marks = SEEN * most
        self._seen: set[int] = set()

    def keep(self, key: Key, value: Value) -> Value:
        """Keep a value, and return it."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value

    def keep_if_again(self, key: Key, value: Value) -> Value:
        """Return a value, and keep it once its key comes a second time: single occurrences cost no memory.

        Keys of more than MAX_KEY characters are never kept, so that a feed of large messages fills nothing.
        """
        mark = hash(key)
        if mark in self._seen:
            return value if _size(key) > MAX_KEY else self.keep(key, value)
        if len(self._seen) >= self._marks:
            self._seen.clear()
        self._seen.add(mark)
        return value


def _size(key: object) -> int:
    if isinstance(key, str):
        return len(key)
    return sum([_size(part) for part in key]) if isinstance(key, tuple) else 0

"""What was worked out once and is kept for the next time, within a bound."""

from typing import Final, TypeVar

SEEN: Final = 4
Key = TypeVar("Key")
Value = TypeVar("Value")


class Kept(dict[Key, Value]):
    """A dictionary that forgets everything rather than grow beyond its bound."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._seen: set[int] = set()

    def keep(self, key: Key, value: Value) -> Value:
        """Keep a value, and return it."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value

    def keep_if_again(self, key: Key, value: Value) -> Value:
        """Keep a value whose key comes a second time, and return it: what comes once only costs no memory."""
        mark = hash(key)
        if mark in self._seen:
            return self.keep(key, value)
        if len(self._seen) >= SEEN * self._most:
            self._seen.clear()
        self._seen.add(mark)
        return value

"""A file with mistakes, read as its author most likely meant it, so that one mistake hides no other."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel

from engine.config.model import Step, field_at, inner_model, keys_at
from engine.config.secret import Secret

Path = tuple[Step, ...]
Places = dict[Path, tuple[int, int]]
# Replaces a secret that was refused: read by nobody, for what is guessed is not looked at.
_ANY_SECRET: Final = {"env": "SECRET"}


class Mended:
    """A plain value in which each fault found so far was mended; `guessed` are the paths that hold what nobody wrote.

    A misspelt key gets its nearest name, with its place; a wrong value the example of its field, or else it goes.
    """

    def __init__(self, value: Any, places: Mapping[Path, tuple[int, int]], model: type[BaseModel]) -> None:
        self.value = deepcopy(value)
        self.places: Places = dict(places)
        self.guessed: set[Path] = set()
        self._model = model

    def guesses(self, path: Path) -> bool:
        """True if the value at a path is a guess."""
        return any(path[:end] in self.guessed for end in range(len(path) + 1))

    def rename(self, unknown: Iterable[Path]) -> None:
        """Give misspelt keys their nearest names; those that have none go."""
        below: dict[Path, list[Path]] = {path: [] for path in unknown}
        for place in self.places if below else ():
            for path in (place[:end] for end in range(1, len(place) + 1) if place[:end] in below):
                below[path].append(place)
        for path, inside in below.items():
            above = self._at(path[:-1])
            if isinstance(above, dict) and path[-1] in above:
                self._rename(above, path, inside)

    def replace(self, wrong: Iterable[Path]) -> bool:
        """Replace the values at paths, or add missing ones; False where one of them has no replacement."""
        found = [self._stand_in(path) for path in wrong]
        return all(found)

    def _stand_in(self, path: Path) -> bool:
        above = self._at(path[:-1])
        if path and isinstance(above, dict):
            self._replace(above, path)
        # An item of a list has no default: its list has.
        return bool(path) and (isinstance(above, dict) or self._stand_in(path[:-1]))

    def _at(self, path: Path) -> Any:
        value = self.value
        for step in path:
            if isinstance(value, list):
                value = value[step] if isinstance(step, int) and step < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return value

    def _rename(self, above: dict[Step, Any], path: Path, inside: list[Path]) -> None:
        item = above.pop(path[-1])
        free = [key for key in keys_at(self._model, path[:-1], self.value) if key not in above]
        near = next(iter(get_close_matches(str(path[-1]), free, n=1, cutoff=0.6)), None)
        if near is None:
            return
        above[near] = item
        size = len(path)
        self.places |= {(*path[:-1], near, *one[size:]): self.places[one] for one in inside}

    def _replace(self, above: dict[str, Any], path: Path) -> None:
        self.guessed.add(path)
        above.pop(str(path[-1]), None)
        field = field_at(self._model, path, self.value)
        if field is not None and inner_model(field.annotation) is Secret:
            above[str(path[-1])] = dict(_ANY_SECRET)
        elif field is not None and field.examples:
            above[str(path[-1])] = deepcopy(field.examples[0])

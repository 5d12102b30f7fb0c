"""Authored YAML, read into plain values that remember where each stood; the only place that knows a YAML library.

Scalars stay as written (`NO` is the string "NO"; an empty plain scalar is None). Duplicate keys, anchors and aliases,
tags, tabs, too much nesting and too large files are refused, each with file, line and column.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from engine.config.frozen import answers
from engine.config.mending import Mended
from engine.config.wording import UNKNOWN, Placed, Step, telling, words
from engine.errors import ConfigurationError, Problem

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 40
# How often what is left of a file is looked at again: each look mends all that it found.
LOOKS: Final = 12
ALIAS: Final = "an alias"
TWICE: Final = "duplicate key"
TAB: Final = "a tab, which cannot start anything"
_STANDARD: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = frozenset({"str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq"})
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ABSENT: Final = frozenset({"", "~", "null"})

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """One authored file: its name as given, its plain value, and the line and column of every path in it.

    `problems`: what its YAML must not hold (a key twice, an alias, a tag) and was left out of the value.
    """

    file: str
    value: Any
    places: dict[tuple[Step, ...], Place]
    problems: tuple[Problem, ...] = ()

    def place(self, path: tuple[Step, ...]) -> Place:
        """Return line and column of a path, or of its nearest ancestor that is in the file."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def problem(self, path: tuple[Step, ...], found: str, expected: str) -> Problem:
        """Return a problem that stands at `path`."""
        line, column = self.place(path)
        return Problem(self.file, line, column, ".".join(str(step) for step in path), found, expected)


def read(path: Path) -> Source:
    """Read one YAML file; ConfigurationError holds every problem found."""
    return _flawless(scan(path))


def scan(path: Path, most_bytes: int = MAX_BYTES) -> Source:
    """Read one YAML file, also with what it must not hold; ConfigurationError where it is no YAML at all."""
    try:
        size = path.stat().st_size
        text = path.read_bytes() if size <= most_bytes else b""
    except OSError as error:
        raise ConfigurationError(
            (Problem(str(path), 1, 1, "", f"cannot be read ({error.strerror})", "give a readable file"),)
        ) from error
    if size > most_bytes:
        raise ConfigurationError(
            (Problem(str(path), 1, 1, "", f"{size} bytes", f"give a file of at most {most_bytes} bytes"),)
        )
    return _parse(text, str(path))


def scan_text(text: bytes | str, file: str, most_bytes: int = MAX_BYTES) -> Source:
    """Read YAML text that stands for `file`, as `scan` reads the file."""
    size = len(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    if size > most_bytes:
        raise ConfigurationError(
            (Problem(file, 1, 1, "", f"{size} bytes", f"give a file of at most {most_bytes} bytes"),)
        )
    return _parse(text, file)


def parse(text: bytes | str, file: str) -> Source:
    """Read YAML text that stands for `file`; ConfigurationError holds every problem found."""
    return _flawless(_parse(text, file))


def _flawless(source: Source) -> Source:
    if source.problems:
        raise ConfigurationError(source.problems)
    return source


def _parse(text: bytes | str, file: str) -> Source:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        deep, alias = _refusable(text, loader)
        node = None if deep else yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        found = TAB if _character(text, line, column) == "\t" else error.problem or "no YAML"
        problem = Problem(file, line, column, "", found, "write valid YAML (indent with spaces)")
        raise ConfigurationError((problem,)) from error
    except (yaml.YAMLError, UnicodeError) as error:
        place = _unreadable(text)
        raise ConfigurationError(
            (Problem(file, *place, "", "bytes that are not text", "save the file as YAML in UTF-8"),)
        ) from error
    if deep:
        raise ConfigurationError((Problem(file, *deep, "", "nesting too deep", f"at most {MAX_DEPTH} levels"),))
    walk = _Walk(file, alias)
    value = walk.plain(node, (), set()) if node is not None else None
    return Source(file, value, walk.places, tuple(walk.problems))


@dataclass(frozen=True, slots=True)
class Looked(Generic[Model]):
    """A file as one model reads it: every problem in it, and what it says, mended where it is wrong.

    `value`: None where nothing can be made of the file. `source` knows the places of mended keys, too.
    """

    source: Source
    value: Model | None
    problems: tuple[Problem, ...]
    guessed: frozenset[tuple[Step, ...]]

    def located(self, faults: Iterable[Placed]) -> Iterator[Problem]:
        """Yield faults as problems of the file, but those of what was guessed."""
        for path, found, expected in faults:
            if not any(path[:end] in self.guessed for end in range(len(path) + 1)):
                yield self.source.problem(path, found, expected)

    def ask(self, question: str) -> Iterator[Problem]:
        """Yield what every block of the file answers to a question: `conflicts`, `warnings` or `unavailable`."""
        return self.located(answers(self.value, methodcaller(question)))


def look(source: Source, model: type[Model]) -> Looked[Model]:
    """Read a source as a model, going on after each mistake with what was most likely meant."""
    mended = Mended(source.value, source.places, model)
    problems, value = list(source.problems), None
    # What was left out of the value is no more missing than wrong.
    refused = {problem.path for problem in source.problems if problem.found != TWICE}
    for _ in range(LOOKS):
        value, faults = _made(mended.value, model)
        now = Source(source.file, mended.value, mended.places)
        new = [(_location(fault, now), fault) for fault in telling(faults)]
        found = [now.problem(path, *words(fault, model)) for path, fault in new if not mended.guesses(path)]
        problems += [problem for problem in found if problem.path not in refused]
        # Misspelt keys first: what is called missing may be one of them.
        misspelt = [fault["loc"] for fault in faults if fault["type"] == UNKNOWN]
        wrong = [path for path, fault in new if fault["type"] != UNKNOWN]
        mended.rename(misspelt)
        if not faults or not mended.replace(wrong):
            break
    looked = Looked(Source(source.file, mended.value, mended.places), value, (), frozenset(mended.guessed))
    problems += looked.ask("conflicts")
    return replace(looked, problems=tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))))


def validate(source: Source, model: type[Model]) -> Model:
    """Make a model of a source; ConfigurationError holds every fault with its place."""
    looked = look(source, model)
    if looked.problems or looked.value is None:
        raise ConfigurationError(looked.problems)
    return looked.value


def _made(value: Any, model: type[Model]) -> tuple[Model | None, list[Any]]:
    """Return a model of a plain value, or what keeps it from being one."""
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        # Never passed on: pydantic's own text shows values, and a value may be a secret written in the wrong place.
        return None, error.errors(include_url=False)


def _location(fault: Any, source: Source) -> tuple[Step, ...]:
    location = tuple(step for step in fault["loc"] if isinstance(step, str | int))
    while location and location not in source.places and location[:-1] in source.places and fault["type"] != "missing":
        location = location[:-1]
    return location


def _refusable(text: bytes | str, loader: Any) -> tuple[Place | None, Place | None]:
    """Return where the nesting becomes too deep, and where the first alias stands; None for neither."""
    # Composing recurses in C: a file of brackets alone would end the process before anyone could measure its depth.
    depth, alias = 0, None
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            alias = alias or _place(event.start_mark)
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                return _place(event.start_mark), alias
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None, alias


def _place(mark: Any) -> Place:
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _unreadable(text: bytes | str) -> Place:
    """Return where the first bytes stand that are not text, or a control character."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        raw.decode()
        control = _CONTROL.search(raw)
        end = control.start() if control else 0
    except UnicodeDecodeError as error:
        end = error.start
    before = raw[:end].decode("utf-8", "replace")
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _character(text: bytes | str, line: int, column: int) -> str:
    lines = (text if isinstance(text, str) else text.decode("utf-8", "replace")).splitlines()
    return lines[line - 1][column - 1 : column] if line <= len(lines) else ""


def _refusal(node: yaml.Node, seen: set[int]) -> tuple[str, str] | None:
    if id(node) in seen:
        return ALIAS, "write the value out; anchors and aliases are not allowed"
    if node.tag.removeprefix(_STANDARD) not in _PLAIN_TAGS:
        return f"the tag {node.tag.replace(_STANDARD, '!!')}", "write the value without a tag"
    return None


def _empty(node: yaml.ScalarNode) -> bool:
    return node.value in _ABSENT and not node.style


class _Walk:
    """Turns YAML nodes into plain values, noting places and problems; of aliases only the first, where it stands."""

    def __init__(self, file: str, alias: Place | None) -> None:
        self.file = file
        self.alias = alias
        self.places: dict[tuple[Step, ...], Place] = {}
        self.problems: list[Problem] = []

    def plain(self, node: yaml.Node, path: tuple[Step, ...], seen: set[int]) -> Any:
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        refusal = _refusal(node, seen)
        if refusal:
            return self._refuse(node, path, *refusal)
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, seen)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(child, (*path, index), seen) for index, child in enumerate(node.value)]
        return None if isinstance(node, yaml.ScalarNode) and _empty(node) else node.value

    def _mapping(self, node: yaml.MappingNode, path: tuple[Step, ...], seen: set[int]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str):
                self._refuse(key_node, path, "a key that is no plain word", "write a plain word as the key")
                continue
            place = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if key in result:
                first = self.places[(*path, key)][0]
                self.problems.append(
                    Problem(
                        self.file,
                        *place,
                        ".".join(map(str, (*path, key))),
                        TWICE,
                        f"it stands already in line {first}: keep one of them",
                    )
                )
                continue
            self.places[(*path, key)] = place
            result[key] = self.plain(value_node, (*path, key), seen)
        return result

    def _refuse(self, node: yaml.Node, path: tuple[Step, ...], found: str, expected: str) -> None:
        place = _place(node.start_mark)
        if found == ALIAS:
            if self.alias is None:
                return
            place, self.alias = self.alias, None
        self.problems.append(Problem(self.file, *place, ".".join(map(str, path)), found, expected))

"""Authored YAML, read into plain values that remember where each stood; the only place that knows a YAML library.

Scalars stay as written (`NO` is the string "NO"; an empty plain scalar is None). Duplicate keys, anchors and aliases,
tags, tabs, too much nesting and too large files are refused, each with file, line and column.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from engine.config.mending import Mended
from engine.config.model import UNKNOWN, Placed, Step, answers, faults_of, telling, words
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
# How an open decision is marked in a comment, as drafts do.
DECIDE: Final = "decide:"
_MARK: Final = re.compile(rf"#[ \t]*{DECIDE}[ \t]*")
_MOST_SHOWN: Final = 100

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[int, int]


class DecisionMark(NamedTuple):
    """A comment `# decide: ...` of a file: an open decision, by line and column."""

    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class AuthoredFile:
    """One authored file: its name as given, its plain value, and the line and column of every path in it.

    `problems`: what its YAML must not hold (a key twice, an alias, a tag) and was left out of the value. `marks`: the
    decisions that its comments leave open.
    """

    file: str
    value: Any
    places: dict[tuple[Step, ...], Place]
    problems: tuple[Problem, ...] = ()
    marks: tuple[DecisionMark, ...] = ()

    def place(self, path: tuple[Step, ...]) -> Place:
        """Return line and column of a path, or of its nearest ancestor that is in the file."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def problem(self, path: tuple[Step, ...], found: str, expected: str) -> Problem:
        """Return a problem at `path`."""
        line, column = self.place(path)
        return Problem(self.file, line, column, ".".join(str(step) for step in path), found, expected)

    def undecided(self, elsewhere: Iterable[int] = ()) -> Iterator[Problem]:
        """Yield a problem for each mark of an open decision; none for the lines that `elsewhere` names."""
        keys: dict[int, tuple[Step, ...]] = {}
        for path, (line, _) in self.places.items():
            if path:
                keys.setdefault(line, path)
        for mark in self.marks:
            if mark.line not in elsewhere:
                key = ".".join(map(str, keys.get(mark.line, ())))
                found = f"undecided: {mark.text[:_MOST_SHOWN]}"
                yield Problem(self.file, mark.line, mark.column, key, found, f"remove `# {DECIDE}` once it is decided")


def read(path: Path) -> AuthoredFile:
    """Read one YAML file; ConfigurationError holds every problem found."""
    return _flawless(scan(path))


def scan(path: Path, most_bytes: int = MAX_BYTES) -> AuthoredFile:
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


def scan_text(text: bytes | str, file: str, most_bytes: int = MAX_BYTES) -> AuthoredFile:
    """Read YAML text in place of `file`, as `scan` reads the file."""
    size = len(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    if size > most_bytes:
        raise ConfigurationError(
            (Problem(file, 1, 1, "", f"{size} bytes", f"give a file of at most {most_bytes} bytes"),)
        )
    return _parse(text, file)


def parse(text: bytes | str, file: str) -> AuthoredFile:
    """Read YAML text in place of `file`; ConfigurationError holds every problem found."""
    return _flawless(_parse(text, file))


def _flawless(source: AuthoredFile) -> AuthoredFile:
    if source.problems:
        raise ConfigurationError(source.problems)
    return source


def _parse(text: bytes | str, file: str) -> AuthoredFile:
    reader = _Reader(file)
    try:
        value = reader.document(text)
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
    return AuthoredFile(file, value, reader.places, tuple(reader.problems), _marks(text))


def _marks(text: bytes | str) -> tuple[DecisionMark, ...]:
    """Return the marks in the comments of YAML that can be read; those in values are text."""
    text = text if isinstance(text, str) else text.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    found = list(_MARK.finditer(text))
    if not found:
        return ()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    scalars = [
        (token.start_mark.index, token.end_mark.index)
        for token in yaml.scan(text, loader)
        if isinstance(token, yaml.ScalarToken)
    ]
    marks: dict[int, DecisionMark] = {}
    for one in found:
        if not any(first <= one.start() < last for first, last in scalars):
            line, column = text.count("\n", 0, one.start()) + 1, one.start() - text.rfind("\n", 0, one.start())
            marks.setdefault(line, DecisionMark(line, column, text[one.end() :].partition("\n")[0].rstrip("\r")))
    return tuple(marks.values())


@dataclass(frozen=True, slots=True)
class Looked(Generic[Model]):
    """A file as one model reads it: every problem in it, and what it says, mended where it is wrong.

    `value`: None where nothing can be made of the file. `source` knows the places of mended keys, too.
    """

    source: AuthoredFile
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


def look(source: AuthoredFile, model: type[Model]) -> Looked[Model]:
    """Read a source as a model, going on after each mistake with what was most likely meant."""
    mended = Mended(source.value, source.places, model)
    problems, value = list(source.problems), None
    # What was left out of the value is no more missing than wrong.
    refused = {problem.path for problem in source.problems if problem.found != TWICE}
    for _ in range(LOOKS):
        value, faults = _made(mended.value, model, Path(source.file).parent)
        now = AuthoredFile(source.file, mended.value, mended.places)
        new = [(_location(fault, now), fault) for fault in telling(faults)]
        found = [
            now.problem(path, *words(fault, model, mended.value)) for path, fault in new if not mended.guesses(path)
        ]
        problems += [problem for problem in found if problem.path not in refused]
        # Misspelt keys first: what is called missing may be one of them.
        misspelt = [fault["loc"] for fault in faults if fault["type"] == UNKNOWN]
        wrong = [path for path, fault in new if fault["type"] != UNKNOWN]
        mended.rename(misspelt)
        if not faults or not mended.replace(wrong):
            break
    made = AuthoredFile(source.file, mended.value, mended.places, marks=source.marks)
    looked = Looked(made, value, (), frozenset(mended.guessed))
    problems += looked.ask("conflicts")
    return replace(looked, problems=tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))))


def validate(source: AuthoredFile, model: type[Model]) -> Model:
    """Make a model of a source; ConfigurationError holds every fault with its place."""
    looked = look(source, model)
    if looked.problems or looked.value is None:
        raise ConfigurationError(looked.problems)
    return looked.value


def _made(value: Any, model: type[Model], folder: Path) -> tuple[Model | None, list[Any]]:
    """Return a model of a plain value, whose relative paths start at a folder, or what keeps it from being one."""
    try:
        return model.model_validate(value, context=folder), []
    except ValidationError as error:
        # Never passed on: pydantic's own text shows values, and a value may be a secret written in the wrong place.
        return None, faults_of(error)


def _location(fault: Any, source: AuthoredFile) -> tuple[Step, ...]:
    location = tuple(step for step in fault["loc"] if isinstance(step, str | int))
    while location and location not in source.places and location[:-1] in source.places and fault["type"] != "missing":
        location = location[:-1]
    return location


def _place(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1


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


class _Reader:
    """Turns YAML into plain values, noting places and problems; of aliases only the first."""

    # From events, not from composed nodes: composing recurses in C, so that a file of brackets alone would end the
    # process before anyone could measure its depth, and a second pass for that would cost as much as the first.
    def __init__(self, file: str) -> None:
        self.places: dict[tuple[Step, ...], Place] = {}
        self.problems: list[Problem] = []
        self._file = file
        self._aliased = False

    def document(self, text: bytes | str) -> Any:
        """Return the value of the only document of a text, None where there is none; YAMLError, UnicodeError."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        self._next = loader.get_event
        try:
            self._next()  # the stream begins
            if isinstance(self._next(), yaml.StreamEndEvent):
                return None
            value = self._value(self._next(), ())
            self._next()  # the document ends
            after = self._next()
            if not isinstance(after, yaml.StreamEndEvent):
                self._note((), _place(after.start_mark), "a second document", "write one; give each a file of its own")
            return value
        finally:
            loader.dispose()

    def _value(self, event: Any, path: tuple[Step, ...]) -> Any:
        place = _place(event.start_mark)
        self.places.setdefault(path, place)
        if self._refused(event, path, place):
            self._skip(event, len(path))
            return None
        if isinstance(event, yaml.ScalarEvent):
            return None if event.value in _ABSENT and not event.style else event.value
        self._not_deeper(len(path), place)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        items: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: tuple[Step, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            place = _place(event.start_mark)
            if not isinstance(event, yaml.ScalarEvent):
                if not self._refused(event, path, place):
                    self._note(path, place, "a key that is no plain word", "write a plain word as the key")
                self._skip(event, len(path) + 1)
                self._skip(self._next(), len(path) + 1)
                continue
            key = event.value
            inner = (*path, key)
            if key in result:
                first = self.places[inner][0]
                self._note(inner, place, TWICE, f"it stands already in line {first}: keep one of them")
                self._skip(self._next(), len(path) + 1)
                continue
            self.places[inner] = place
            result[key] = self._value(self._next(), inner)
        return result

    def _refused(self, event: Any, path: tuple[Step, ...], place: Place) -> bool:
        """Say whether what begins here may not stand in a file, and note it as a problem."""
        if isinstance(event, yaml.AliasEvent):
            if not self._aliased:
                self._note(path, place, ALIAS, "write the value out; anchors and aliases are not allowed")
            self._aliased = True
            return True
        if event.tag and event.tag != "!" and event.tag.removeprefix(_STANDARD) not in _PLAIN_TAGS:
            self._note(path, place, f"the tag {event.tag.replace(_STANDARD, '!!')}", "write the value without a tag")
            return True
        return False

    def _skip(self, event: Any, depth: int) -> None:
        """Leave out what begins with an event, at a depth, up to its end."""
        outside = depth
        while True:
            if isinstance(event, yaml.CollectionStartEvent):
                self._not_deeper(depth, _place(event.start_mark))
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth == outside:
                return
            event = self._next()

    def _not_deeper(self, depth: int, place: Place) -> None:
        if depth >= MAX_DEPTH:
            raise ConfigurationError(
                (Problem(self._file, *place, "", "nesting too deep", f"at most {MAX_DEPTH} levels"),)
            )

    def _note(self, path: tuple[Step, ...], place: Place, found: str, expected: str) -> None:
        self.problems.append(Problem(self._file, *place, ".".join(map(str, path)), found, expected))

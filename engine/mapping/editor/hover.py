"""What is said of a word of a mapping file: a function, a field, a key; and what its line makes of a message."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.errors import ConfigurationError, MessageError
from engine.hl7.leaf import NULL
from engine.hl7.message import parse as parse_message
from engine.mapping.authoring.case import cases_for, cases_of, channel_of
from engine.mapping.authoring.evidence import Evidence
from engine.mapping.authoring.explain import WatchedMapping, explained_by, watch
from engine.mapping.authoring.schema import kind_of_file
from engine.mapping.editor.completion import (
    CONDITION_WORDS,
    STAGE_WORDS,
    TERM_WORDS,
    function_text,
    places_at,
    schemas_by_kind,
)
from engine.mapping.editor.cursor import EditorPosition, TextCursor, cursor_at
from engine.mapping.editor.hl7_names import name_of, type_of_field
from engine.mapping.editor.project import MappingProject
from engine.mapping.files.overlay import FIELD
from engine.mapping.language.expression import SegmentPath, parse_path
from engine.mapping.language.functions import FUNCTIONS

MOST_MESSAGES: Final = 200
MOST_SHOWN: Final = 3
LONGEST: Final = 120
PATH_WORD: Final = re.compile(rf"{FIELD.pattern}|[A-Z]{{2,3}}(?:\.\d{{1,2}}){{1,2}}")
WORDS: Final = {**CONDITION_WORDS, **TERM_WORDS, **STAGE_WORDS}


class Hover(NamedTuple):
    """What is said of a word, as Markdown, and the columns where the word begins and ends."""

    text: str
    start: int
    end: int


class ExampleMessage(NamedTuple):
    """A message to show values of: its bytes, and where it is from, in words."""

    raw: bytes
    origin: str


def hover(
    text: str, position: EditorPosition, file: Path, project: MappingProject, examples: "ExampleValues | None" = None
) -> Hover | None:
    """Return what is said of the word at a position, and the values that its line makes; None for nothing.

    `examples` has the messages that values are shown of.
    """
    cursor = cursor_at(text, position)
    parts = [
        *_about(cursor, project.below(file), text),
        *(examples.of_line(str(file), position.line) if examples else ()),
    ]
    end = cursor.start + len(cursor.whole_word)
    return Hover("\n\n".join(parts), cursor.start, end) if parts else None


def _about(cursor: TextCursor, path: Path, text: str) -> Iterator[str]:
    """Yield what is said of a word: as a function, a path, a word of conditions, or a key of the file."""
    word = cursor.whole_word
    if cursor.value is None:
        keys = (*cursor.keys, word)
        places = places_at(schemas_by_kind()[kind_of_file(path)], keys, text)
        described = (str(one["description"]) for one in places if "description" in one)
        yield from [text.partition("\n\n")[0] for text in described][:1]
    elif word in FUNCTIONS and cursor.value.rstrip().endswith("|"):
        shown, _, meaning = function_text(word, FUNCTIONS[word]).partition("\n\n")
        yield f"`{shown}`\n\n{meaning}"
    elif PATH_WORD.fullmatch(word) and (read := parse_path(word)) is not None:
        type_ = type_of_field(read.segment, read.field) if isinstance(read, SegmentPath) else read.type_
        if name := name_of(read):
            yield f"`{word}` {name} ({type_})"
    elif word in WORDS:
        yield f"`{WORDS[word]}`"


@dataclass(slots=True)
class ExampleValues:
    """The values that the lines of a mapping make of messages; each message is mapped once, when it is first needed.

    `messages`: those asked first; then those of the cases of the site and the shipped ones, at most 200 in all.
    `watched`: the mapping where it is compiled already, for a channel.
    """

    project: MappingProject
    messages: tuple[ExampleMessage, ...] = ()
    watched: WatchedMapping | None = None
    _found: list[tuple[ExampleMessage, dict[tuple[str, int], list[Evidence]]]] = field(default_factory=list)
    _waiting: Iterator[ExampleMessage] | None = None

    def of_line(self, file: str, line: int) -> Iterator[str]:
        """Yield the values that a line makes of the first message that it makes any of, as Markdown; none for none."""
        for message, lines in self._mapped():
            found = lines.get((file, line))
            if found:
                shown = [_shown(one) for one in found[:MOST_SHOWN]]
                yield "\n".join([f"Of {message.origin}:", "", *(f"- {one}" for one in dict.fromkeys(shown))])
                return

    def _mapped(self) -> Iterator[tuple[ExampleMessage, dict[tuple[str, int], list[Evidence]]]]:
        yield from self._found
        if self._waiting is None:
            self._waiting = iter((*self.messages, *case_messages(self.project))[:MOST_MESSAGES])
        for message in self._waiting:
            try:
                watched = self.watched = self.watched or watch(self.project.source, channel_of({}))
            except ConfigurationError:  # shown as diagnostics
                return
            self._found.append((message, _by_line(watched, message.raw)))
            yield self._found[-1]


def case_messages(project: MappingProject) -> tuple[ExampleMessage, ...]:
    """Return the messages of the cases of the site, then of the shipped ones; none of files that cannot be read."""
    found = []
    for folder in dict.fromkeys(project.folders):
        try:
            cases = cases_for(cases_of(folder, project.edited), project.source)
        except ConfigurationError:
            continue
        found += [ExampleMessage(case.raw, f"case “{case.name}”") for case in cases]
    return tuple(found)


def _by_line(watched: WatchedMapping, raw: bytes) -> dict[tuple[str, int], list[Evidence]]:
    """Return the evidence of a message by file and line of the rule; none of a message that cannot be read."""
    found: dict[tuple[str, int], list[Evidence]] = {}
    try:
        evidence: Iterable[Evidence] = explained_by(watched, parse_message(raw, event_from_evn=True)).evidence
    except MessageError:
        evidence = ()
    for one in evidence:
        if one.made is not None:
            found.setdefault((one.file, one.line), []).append(one)
    return found


def _shown(one: Evidence) -> str:
    read = f"{one.source} `{_text(one.raw)}` → " if one.source and one.raw is not None else ""
    return f"{read}{one.element} `{_text(one.made)}`"


def _text(value: Any) -> str:
    """Return a value as text of one line, cut where it is long."""
    if value is NULL:
        return '""'
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    text = " ".join(text.replace("`", "'").split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."

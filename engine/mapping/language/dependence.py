"""The dependence of a template: the fields that it reads, and whether it uses the event, its day or the sender.

It is the cache key of a template's value, and includes the data types and resource files that it names, recursively.
"""

import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from engine.mapping.files.overlay import FIELD
from engine.mapping.language.expression import EVENT, MAX_TEXTS, SEGMENT
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.reading import MessageReading, Sources

WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
# Words that read the event, its day or the sender.
ASKING: Final = {EVENT: "event"} | {name: one.asks for name, one in FUNCTIONS.items() if one.asks}
# What a function reads that asks for the patient: the whole segment.
WHOLE_PID: Final = ("PID", 0)
# The prefix of names that only a plan can resolve, `#patient`.
NAME: Final = "#"


class Dependence(NamedTuple):
    """The dependence of a template.

    `own`: the fields that it reads itself (0: the whole segment); `sources`: these, and those of the templates that
    it names. `event`, `today`, `source`: it uses the event, its day, the sender. `refers`: its values may have names
    that only a plan can resolve, as `#patient`.
    """

    own: Sources
    sources: Sources
    event: bool
    today: bool
    source: bool
    refers: bool

    @property
    def field(self) -> tuple[str, int] | None:
        """The only field that it depends on, if there is one; the field's text, unless empty, is then the cache key."""
        if self.own != self.sources or len(self.own) != 1 or self.event or self.today or self.source:
            return None
        return self.own[0] if self.own[0][1] else None

    def key(self, reading: MessageReading) -> Hashable:
        """Return the cache key of a template's value: the texts that it reads, and what else it uses."""
        first, sources = reading.first, self.sources
        text: Hashable = None
        if sources and not sources[1:] and sources[0][1]:
            segment = first.get(sources[0][0])
            text = segment.field(sources[0][1]) or None if segment is not None else None
        elif sources:
            texts = [
                reading.texts(name) if not number else segment.field(number) if (segment := first.get(name)) else ""
                for name, number in sources
            ]
            text = tuple(texts) if any(texts) else None
        if not (self.event or self.today or self.source):
            return text
        return (text, self.event and reading.event, self.today and reading.today, self.source and reading.source)


class TemplateReferences(NamedTuple):
    """The references of one template: words, fields, and whether it has names that only a plan resolves (`refers`)."""

    words: frozenset[str]
    sources: Sources
    refers: bool


def references_of(template: Any) -> TemplateReferences:
    """Return the references of a template itself, without those of the templates that it names."""
    text = repr(template).replace("\\n", " ")
    return TemplateReferences(frozenset(WORD.findall(text)), tuple(dict.fromkeys(_sources(template))), NAME in text)


def dependence_of(authored: Any, named: Mapping[str, TemplateReferences]) -> Dependence:
    """Return the dependence of a template; `named`: the references of data types and resource files by name."""
    own = references_of(authored)
    words, sources, refers = set(own.words), dict.fromkeys(own.sources), own.refers
    waiting = sorted(words & named.keys())
    while waiting:
        references = named[waiting.pop()]
        sources |= dict.fromkeys(references.sources)
        refers = refers or references.refers
        waiting += sorted((references.words & named.keys()) - words)
        words |= references.words
    asks = {ASKING[word] for word in words & ASKING.keys()}
    if "pid" in asks:
        sources |= {WHOLE_PID: None}
    return Dependence(own.sources, tuple(sources), "event" in asks, "today" in asks, "source" in asks, refers)


def _sources(authored: Any) -> tuple[tuple[str, int], ...]:
    """Return every field that a template names; for a segment that it iterates, the segment alone."""
    if isinstance(authored, dict):
        each = authored.get("each")
        sources = [source for part in authored.values() for source in _sources(part)]
        if isinstance(each, str) and SEGMENT.fullmatch(each):
            return ((each, 0), *(source for source in sources if source[0] != each))
        return tuple(sources)
    if isinstance(authored, list):
        return tuple([source for part in authored for source in _sources(part)])
    return _fields(authored) if isinstance(authored, str) else ()


@lru_cache(maxsize=MAX_TEXTS)
def _fields(text: str) -> tuple[tuple[str, int], ...]:
    return tuple([(match[1], int(match[2])) for match in FIELD.finditer(text)])

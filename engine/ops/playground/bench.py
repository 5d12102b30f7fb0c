"""The author's bench: mapping files with edits in their place, read and compiled, and kept for the next question."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.config.channel import Channel
from engine.config.source import AuthoredFile
from engine.errors import ConfigurationError, Problem
from engine.fhir.json import JsonObject
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.explain import WatchedMapping, watch
from engine.mapping.compile import MappingSource, read
from engine.mapping.files.document import Edited
from engine.ops.playground.site import MappingSite

# Replaces the file of the channel that is asked about: its filters come with the question.
CHANNEL_FILE: Final = AuthoredFile("channel", {}, {})


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What is asked on which channel: the site's files with edits in place of some, the mapping, the channel's part."""

    site: MappingSite
    edited: Edited
    mapping: str
    channel: Channel
    key: str

    @classmethod
    def of(cls, asked: JsonObject) -> "BenchRequest":
        """Return the question that a line of JSON asks."""
        site = MappingSite.of(Path(asked["folder"]) if asked["folder"] else None)
        edited = site.edited(asked["edited"])
        channel = channel_of(asked["channel"])
        key = repr((site, sorted(edited.items()), asked["mapping"], channel))
        return cls(site, edited, asked["mapping"], channel, key)


@dataclass(slots=True)
class Bench:
    """Keeps what was read last, and one mapping compiled in advance, as each watches a single message."""

    _key: tuple[object, ...] = ()
    _source: MappingSource | None = None
    _question: BenchRequest | None = None
    _spare: WatchedMapping | None = None

    def source(self, question: BenchRequest) -> MappingSource:
        """Return the mapping of a question, read again once a file of it was written."""
        key = (question.key, question.site.marks())
        if key != self._key or self._source is None:
            self._source = read(question.site.folders, question.mapping, question.edited)
            self._key, self._question, self._spare = key, question, None
        return self._source

    def check(self, question: BenchRequest) -> MappingSource:
        """Return the mapping of a question, checked as a whole; what is compiled for that serves the next message."""
        source = self.source(question)
        if self._spare is None:
            self._spare = watch(source, question.channel, CHANNEL_FILE)
        return source

    def watched(self, question: BenchRequest) -> WatchedMapping:
        """Return a mapping to be watched with one message."""
        source = self.source(question)
        spare, self._spare = self._spare, None
        return spare or watch(source, question.channel, CHANNEL_FILE)

    def prepare(self) -> None:
        """Compile the mapping of the last question once more, for the next message."""
        if self._spare is None and self._source is not None and self._question is not None:
            try:
                self._spare = watch(self._source, self._question.channel, CHANNEL_FILE)
            except ConfigurationError:
                self._source = None

    def forget(self) -> None:
        """Keep nothing: the next question reads all files."""
        self._key, self._source, self._question, self._spare = (), None, None, None


def problems_of(site: MappingSite, problems: tuple[Problem, ...]) -> list[JsonObject]:
    """Return problems with files by their names below the mapping folders."""
    return [{**problem._asdict(), "file": site.name(problem.file)} for problem in problems]

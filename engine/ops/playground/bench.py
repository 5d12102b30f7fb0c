"""The author's bench: mapping files with edits in their place, read and compiled, and kept for the next question."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.config.channel import Channel
from engine.config.channels import file_of
from engine.config.source import AuthoredFile
from engine.errors import Problem
from engine.fhir.json import JsonObject
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.explain import WatchedMapping, watch
from engine.mapping.compile import MappingSource, read
from engine.mapping.files.document import Edited
from engine.ops.playground.site import MappingSite

# In place of the file of the channel that is asked about, where its filters come with the question.
CHANNEL_FILE: Final = AuthoredFile("channel", {}, {})

# Values whose look-ups a watched mapping remembers, before another one takes its place.
MOST_SEEN: Final = 20_000


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What is asked on which channel: the site's files with edits in place of some, the mapping, the channel's part.

    `file`: the channel's, with its filters.
    """

    site: MappingSite
    edited: Edited
    mapping: str
    channel: Channel
    file: AuthoredFile
    key: str

    @classmethod
    def of(cls, asked: JsonObject) -> "BenchRequest":
        """Return the question that a line of JSON asks."""
        site = MappingSite.of(Path(asked["folder"]) if asked["folder"] else None)
        edited = site.edited(asked["edited"])
        channel = channel_of(asked["channel"])
        file = file_of(Path(asked["channels"]), asked["name"]) if channel.filters and "channels" in asked else None
        key = repr((site, sorted(edited.items()), asked["mapping"], channel, file))
        return cls(site, edited, asked["mapping"], channel, file or CHANNEL_FILE, key)


@dataclass(slots=True)
class Bench:
    """Keeps the mapping that was asked about last, read and compiled."""

    _key: tuple[object, ...] = ()
    _source: MappingSource | None = None
    _watched: WatchedMapping | None = None

    def source(self, question: BenchRequest) -> MappingSource:
        """Return the mapping of a question, read again once a file of it was written."""
        key = (question.key, question.site.marks())
        if key != self._key or self._source is None:
            self.forget()
            self._source = read(question.site.folders, question.mapping, question.edited)
            self._key = key
        return self._source

    def watched(self, question: BenchRequest) -> WatchedMapping:
        """Return the mapping of a question, to be watched; ConfigurationError holds every problem of its files."""
        source = self.source(question)
        if self._watched is None or len(self._watched.trace.seen) > MOST_SEEN:
            self._watched = watch(source, question.channel, question.file)
        return self._watched

    def forget(self) -> None:
        """Keep nothing: the next question reads all files."""
        self._key, self._source, self._watched = (), None, None


def problems_of(site: MappingSite, problems: tuple[Problem, ...]) -> list[JsonObject]:
    """Return problems with files by their names below the mapping folders."""
    return [{**problem._asdict(), "file": site.name(problem.file)} for problem in problems]

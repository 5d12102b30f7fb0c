"""Operations of the mapping playground: files, and what edits of them would make of a message.

Edits and messages are worked on in a process of their own and kept nowhere.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field

from engine.config.channel import Channel
from engine.errors import UsageError, WorkerError
from engine.ops.access.actor import Actor, Permission
from engine.ops.audit.trail import Audited
from engine.ops.operations.fields import EditedFiles, Verbatim, Word, number
from engine.ops.operations.operation import Operation, Request
from engine.ops.playground.site import MappingSite, asked_of, checked_names, digest
from engine.ops.views.answer import Answer
from engine.ops.views.playground import (
    Checked,
    Compared,
    CompletionList,
    MappingFile,
    MappingText,
    Tested,
    Tried,
    WordExplanation,
)
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.event_entries import is_event

A = TypeVar("A", bound=Answer)
MODULE: Final = "engine.ops.playground.worker"
# With the start of the process on a busy machine.
TRY_SECONDS: Final = 20.0
# Less than a page is waited for.
LONG_SECONDS: Final = 50.0
MOST_COMPARED: Final = 1_000
# Newest messages of a channel that are looked at for elements that are lost.
RECENT: Final = 200
MOST_CHARACTERS: Final = 262_144


async def worked(engine: Engine, question: Mapping[str, object], seconds: float) -> Any:
    """Return what the process makes of a question.

    UsageError for what it refuses, WorkerError where it cannot answer.
    """
    found = await engine.worker.ask(MODULE, question, seconds)
    if "refused" in found:
        raise UsageError(found["refused"])
    if "failed" in found:
        raise WorkerError(f"the try failed in the engine's own code: {found['failed']}")
    return found["made"]


class ListMappingFiles(Operation[list[MappingFile]]):
    """List the mapping files: the site's own, and those that ship with the engine."""

    name = "mappings.files"
    permission = Permission.MAPPINGS

    async def run(self, engine: Engine, _actor: Actor) -> list[MappingFile]:
        """Return them, the site's first."""
        return await asyncio.to_thread(_listed, MappingSite.of(engine.files.mappings))


class ShowMappingFile(Operation[MappingText]):
    """Show one mapping file."""

    name = "mappings.file"
    permission = Permission.MAPPINGS

    path: Word = Field("", description="Its path below the mapping folder; shipped/... for one that ships.")

    async def run(self, engine: Engine, _actor: Actor) -> MappingText:
        """Return its text; UsageError where there is no such file."""
        site = MappingSite.of(engine.files.mappings)
        file = site.path(self.path)
        try:
            content = await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            raise UsageError("there is no such mapping file; `mappings.files` lists them") from error
        return MappingText(path=self.path, digest=digest(content), text=content.decode("utf-8", "replace"))


class OnChannel(Request):
    """What is tried: edits of mapping files, as on a channel."""

    channel: Word = Field("", description="As on this channel; by default the first one.")
    destination: Word = Field("", description="By the mapping of this destination of the channel.")
    edited: EditedFiles = Field(default_factory=dict)

    def on(self, engine: Engine) -> Channel:
        """Return the channel, with the mapping of the destination; UsageError where there is none of that name."""
        of_messages = (name for name, feed in engine.feeds.items() if not is_event(feed.channel))
        name = self.channel or min(of_messages, default="")
        if name not in engine.feeds:
            raise UsageError("there is no such channel: `channels list` names them")
        return engine.feeds[name].channel_at(self.destination)

    def on_messages(self, engine: Engine) -> Channel:
        """Return the channel; UsageError where it takes no HL7 v2 messages."""
        channel = self.on(engine)
        if is_event(channel):
            raise UsageError(f"{channel.channel} takes the events of a FHIR server: try them with `mappings out try`")
        return channel

    async def worked(self, engine: Engine, do: str, answer: type[A], seconds: float, /, **more: object) -> A:
        """Return what the process makes of it; UsageError for what it refuses, WorkerError where it cannot answer."""
        checked_names(self.edited)
        channel = self.on(engine)
        question = {"do": do, **asked_of(engine.files.mappings, channel, self.edited), **more}
        return answer.model_validate(await worked(engine, question, seconds))


class TryMapping(OnChannel, Operation[Tried]):
    """Show what mappings, with edits, make of one message, and where each element comes from; nothing is kept."""

    name = "mappings.try"
    permission = Permission.MAPPINGS

    message: Verbatim = Field("", description="The message, one segment a line.")

    async def run(self, engine: Engine, _actor: Actor) -> Tried:
        """Return plan and elements, or the problems of the files."""
        if not self.message.strip():
            raise UsageError("message is missing: paste one, from MSH on")
        if len(self.message) > MOST_CHARACTERS:
            raise UsageError(f"message has more than {MOST_CHARACTERS} characters: try a shorter one")
        self.on_messages(engine)
        return await self.worked(engine, "try", Tried, TRY_SECONDS, message=self.message)


class CheckMapping(OnChannel, Operation[Checked]):
    """Check mapping files with edits; nothing is kept."""

    name = "mappings.check"
    permission = Permission.MAPPINGS

    async def run(self, engine: Engine, _actor: Actor) -> Checked:
        """Return every problem with file, line and column."""
        return await self.worked(engine, "check", Checked, TRY_SECONDS)


Column = Annotated[int, number(1, MOST_CHARACTERS), Audited.VALUE]


class AtPlace(OnChannel):
    """A place in a mapping file, as it is typed."""

    path: Word = Field("", description="Its path below the mapping folder; shipped/... for one that ships.")
    text: Verbatim = Field("", description="Its text as it is typed.")
    line: Column = Field(1, json_schema_extra={"minimum": 1}, description="The line of the place, from 1.")
    column: Column = Field(1, json_schema_extra={"minimum": 1}, description="Its column, from 1, in characters.")

    def place(self) -> dict[str, object]:
        """Return the place; UsageError for a text that is too long to be a mapping file."""
        if len(self.text) > MOST_CHARACTERS:
            raise UsageError(f"text has more than {MOST_CHARACTERS} characters: no mapping file has")
        return {"path": self.path, "text": self.text, "line": self.line, "column": self.column}


class CompleteMapping(AtPlace, Operation[CompletionList]):
    """Say what may be written at a place of a mapping file; nothing is kept."""

    name = "mappings.complete"
    permission = Permission.MAPPINGS

    async def run(self, engine: Engine, _actor: Actor) -> CompletionList:
        """Return the completions."""
        return await self.worked(engine, "complete", CompletionList, TRY_SECONDS, **self.place())


class ExplainWord(AtPlace, Operation[WordExplanation]):
    """Explain the word at a place of a mapping file, with the value of its line and where it leads; nothing is kept."""

    name = "mappings.explain-word"
    permission = Permission.MAPPINGS

    message: Verbatim = Field("", description="The message to show the value of; else those of the cases.")

    async def run(self, engine: Engine, _actor: Actor) -> WordExplanation:
        """Return what is said of it."""
        if len(self.message) > MOST_CHARACTERS:
            raise UsageError(f"message has more than {MOST_CHARACTERS} characters: try a shorter one")
        self.on_messages(engine)
        return await self.worked(engine, "word", WordExplanation, TRY_SECONDS, message=self.message, **self.place())


class RunCases(OnChannel, Operation[Tested]):
    """Run the site's cases on mapping files with edits, and name the elements that are made no longer.

    These are counted over the cases and the newest messages of the channel, and nothing else of those is shown.
    """

    name = "mappings.run-cases"
    permission = Permission.MAPPINGS

    recent: Annotated[
        int,
        number(0, MOST_COMPARED),
        Field(json_schema_extra={"minimum": 0}, description="How many of the newest messages; 0 for none."),
        Audited.VALUE,
    ] = RECENT

    async def run(self, engine: Engine, _actor: Actor) -> Tested:
        """Return the cases that differ and the elements that are lost, or the problems of the files."""
        return await self.tested(engine, cases=True)

    async def tested(self, engine: Engine, *, cases: bool) -> Tested:
        """Return the same, without `cases` of the newest messages alone."""
        name = self.on(engine).channel
        recent = 0 if is_event(self.on(engine)) else self.recent
        on = {"data": str(engine.files.data.resolve()), "name": name, "recent": recent, "cases": cases}
        return await self.worked(engine, "test", Tested, LONG_SECONDS, **on)


class CompareMapping(OnChannel, Operation[Compared]):
    """Compare what becomes of the newest messages of a channel with and without edits; nothing is changed."""

    name = "mappings.compare"
    permission = Permission.PHI

    limit: Annotated[
        int,
        number(1, MOST_COMPARED),
        Field(json_schema_extra={"minimum": 0}, description="How many messages, the newest."),
        Audited.VALUE,
    ] = 200

    async def run(self, engine: Engine, _actor: Actor) -> Compared:
        """Return the differences, grouped, or the problems of the files."""
        on = {"data": str(engine.files.data.resolve()), "name": self.on_messages(engine).channel, "limit": self.limit}
        return await self.worked(engine, "compare", Compared, LONG_SECONDS, **on)


def _listed(site: MappingSite) -> list[MappingFile]:
    return [MappingFile(path=site.name(str(file)), digest=digest(file.read_bytes())) for file in site.files()]


PLAYGROUND: Final = (
    ListMappingFiles,
    ShowMappingFile,
    CheckMapping,
    CompleteMapping,
    ExplainWord,
    TryMapping,
    RunCases,
    CompareMapping,
)

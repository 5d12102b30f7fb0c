"""Operations that share a message of the journal with authors, who may not see patients: as a de-identified copy."""

import asyncio
import secrets
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from engine.config.channel import Channel
from engine.errors import JournalError, UsageError
from engine.hl7.deidentification import deidentified
from engine.journal.read.reading import Reader
from engine.mapping.editor.project import MappingProject
from engine.ops.access.actor import Actor, Permission
from engine.ops.audit.trail import Audited
from engine.ops.operations.fields import EntryNumber, number
from engine.ops.operations.operation import Operation
from engine.ops.playground.shared_messages import SharedMessage, delete, share, shared_messages
from engine.ops.playground.site import MappingSite
from engine.ops.views.playground import SharedMessageView
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.event_entries import is_event
from engine.pipeline.inbound.judgement import read_message

KEY_BYTES: Final = 32
SharedNumber = Annotated[
    int,
    number(1),
    Field(json_schema_extra={"minimum": 1}, description="As `mappings.shared` numbers it."),
    Audited.VALUE,
]


class ShareMessage(Operation[SharedMessageView]):
    """Share a de-identified copy of an entry's message with authors, for 30 days."""

    name = "messages.share"
    permission = Permission.OPERATE

    entry: EntryNumber

    async def run(self, engine: Engine, actor: Actor) -> SharedMessageView:
        """Return the copy; UsageError for an event of a FHIR server, or where 50 copies are there."""
        made = await asyncio.to_thread(_shared, engine, self.entry, actor.name)
        return SharedMessageView.of(made)


class ListShared(Operation[list[SharedMessageView]]):
    """List the de-identified copies that operators shared, the newest first."""

    name = "mappings.shared"
    permission = Permission.MAPPINGS

    async def run(self, engine: Engine, _actor: Actor) -> list[SharedMessageView]:
        """Return them, with their text."""
        found = await asyncio.to_thread(shared_messages, engine.files.data, engine.now())
        return [SharedMessageView.of(one) for one in found]


class DeleteShared(Operation[None]):
    """Delete a copy that was shared."""

    name = "messages.unshare"
    permission = Permission.OPERATE

    shared: SharedNumber

    async def run(self, engine: Engine, _actor: Actor) -> None:
        """Delete it; UsageError where there is none."""
        await asyncio.to_thread(delete, engine.files.data, self.shared)


def _shared(engine: Engine, entry: int, by: str) -> SharedMessage:
    with Reader(engine.files.data) as reader:
        view = reader.show(entry)
    if view.worn_at is not None:
        raise JournalError(f"the bytes of entry {entry} were removed from the journal (`retention`)")
    feed = engine.feeds.get(view.row.channel)
    if feed is None or is_event(feed.channel):
        raise UsageError("only a message of a channel that is configured here, and takes HL7 v2, can be shared")
    message = read_message(view.raw, feed.channel, view.row.event)
    text = deidentified(message, secrets.token_bytes(KEY_BYTES), _codes(engine.files.mappings, feed.channel))
    return share(engine.files.data, engine.now(), by, view.row.channel, message.trigger, text.replace("\r", "\n"))


def _codes(mappings: Path | None, channel: Channel) -> frozenset[str]:
    """Return the codes of the tables of a channel's mapping."""
    documents = MappingProject(MappingSite.of(mappings).folders, {}, channel.mapping).documents
    tables = (document.value.get("codes") for document in (documents.tables if documents else {}).values())
    return frozenset(str(code) for codes in tables if isinstance(codes, dict) for code in codes)


SHARING: Final = (ShareMessage, ListShared, DeleteShared)

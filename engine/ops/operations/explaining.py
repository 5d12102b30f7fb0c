"""The operation that explains why an entry's message is mapped as it is.

It asks the process of the playground: a mapping is compiled for each explanation, and that would keep the interpreter
from the messages that arrive.
"""

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from engine.config.channel import Channel
from engine.config.relay import EDITED
from engine.errors import AdtEngineError, UsageError
from engine.journal.entry import BY_RULE
from engine.journal.read.reading import Reader
from engine.journal.read.views import EntryView
from engine.mapping.files.overlay import FIELD
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import EntryNumber, Word
from engine.ops.operations.operation import Operation
from engine.ops.views.entry import Explained, RelayedTo
from engine.pipeline.engine import Engine
from engine.pipeline.feed import Feed
from engine.pipeline.inbound.event_entries import is_event
from engine.pipeline.inbound.judgement import RELAYED
from engine.pipeline.repair.entry_operations import check_message, judge_bytes


def check_parts(element: str, field: str) -> None:
    """UsageError where both an element and a field are named, or what is no field."""
    if element and field:
        raise UsageError("give --element or --field, not both")
    if field and not FIELD.fullmatch(field):
        raise UsageError(f"{field!r} is not a field; give one such as PID-7 or PID-5.1")


class ExplainMessage(Operation[Explained]):
    """Explain, by the current mapping files, why an entry's message is mapped as it is."""

    name = "messages.explain"
    permission = Permission.PHI

    entry: EntryNumber
    element: Word = Field("", description="Only this element, such as Patient.birthDate.")
    field: Word = Field("", description="Only what this field went into, such as PID-7.")
    destination: Word = Field("", description="By this destination's mapping, where that is not the channel's.")

    async def run(self, engine: Engine, _actor: Actor) -> Explained:
        """Return the explanation; UsageError where the entry's channel is gone."""
        check_parts(self.element, self.field)
        view = await asyncio.to_thread(_shown, engine.files.data, self.entry)
        message = b64encode(view.raw).decode()
        parts = {"message": message, "event": view.row.event, "element": self.element, "field": self.field}
        if view.row.channel not in engine.feeds:
            raise UsageError(
                f"entry {self.entry} came on the channel {view.row.channel}, which is no longer configured"
            )
        feed = engine.feeds[view.row.channel]
        check_message(self.entry, feed.channel)
        relays = _relays(view, feed)
        alone = tuple(one for one in relays if one.destination == self.destination)
        if alone:
            return Explained(entry=self.entry, destination=self.destination, relays=alone)
        at = feed.channel_at(self.destination)
        made = await _worked(engine, "explain", at, parts)
        named = {"destination": self.destination, "mapping_name": at.mapping}
        return Explained.model_validate(
            {"entry": self.entry, **named, "own_mappings": feed.channel.own_mappings, "relays": relays, **made}
        )


def _relays(view: EntryView, feed: Feed) -> tuple[RelayedTo, ...]:
    """Return which relays of a channel get an entry's message by what the channel says now, and why others do not."""
    if not feed.channel.relays or view.worn_at is not None:
        return ()
    judged, entry = judge_bytes(view.raw, view, feed)
    goes = entry.destinations if entry is not None else ()
    why = next((flag.partition(" ")[2] for flag in judged.flags if flag.startswith(f"{RELAYED} ")), judged.reason)
    rule = judged.filter.rule if judged.filter is not None else ""
    return tuple(
        RelayedTo(
            destination=relay.name,
            sent=relay.name in goes,
            edited=relay.send == EDITED,
            why=why or ("" if relay.name in goes else BY_RULE),
            rule=rule,
        )
        for relay in feed.channel.relays
    )


async def prepare(engine: Engine, channel: str) -> None:
    """Have the process started and a channel's own mapping compiled, as an explanation is likely to be asked for next.

    What goes wrong is left for that to say.
    """
    feed = engine.feeds.get(channel)
    if engine.worker.pid is None and feed is not None and not is_event(feed.channel):
        with contextlib.suppress(AdtEngineError):
            await _worked(engine, "prepare", feed.channel, {})


async def _worked(engine: Engine, do: str, channel: Channel, parts: Mapping[str, str]) -> Any:
    from engine.ops.operations.playground import TRY_SECONDS, worked  # noqa: PLC0415 - rare, and slow to import
    from engine.ops.playground.site import asked_of  # noqa: PLC0415 - as above

    asked = asked_of(engine.files.mappings, channel, {})
    where = {"channels": str(engine.files.channels.resolve()), "name": channel.channel}
    return await worked(engine, {"do": do, **asked, **where, **parts}, TRY_SECONDS)


def _shown(data: Path, entry: int) -> EntryView:
    with Reader(data) as reader:
        return reader.show(entry)

"""Operations on destinations: their state and what waits for them; pause and resume."""

import asyncio
from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field

from engine.clock import now
from engine.config.fhir_events import Outgoing
from engine.config.in_force import KeyInForce, keys_in_force, keys_of_model
from engine.config.relay import MLLP
from engine.errors import UsageError
from engine.journal.read.backlog import Backlog, backlogs
from engine.journal.state.pausing import Pause
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import Reason, Word
from engine.ops.operations.operation import Operation, Request
from engine.ops.views.answer import Answer, Count, Time, time_of
from engine.pipeline.alerts.kind import PauseReason
from engine.pipeline.engine import Engine

MOST_TEXT: Final = 200


class DestinationView(Answer, facts=True):
    """A destination: ready, paused, failing, open or unreachable.

    `reason`: why it is paused or cannot be used, or how the newest try failed while nothing was answered since `since`;
    `next_try_at` is None where it is well, paused, or being tried now.
    `failing`: as a whole it cannot be used (`reason`: token, permission, TLS), and is tried again by itself; `open`:
    too many failures in a row, the same; `unreachable`: it has not answered since the start; `lacks`: what its server
    does not do, such as honour If-Match; `profile`: which server its file says that it is. `type`: fhir, or mllp for a
    relay, of which `fhir` and `profile` are empty.
    """

    destination: str
    state: str
    reason: str
    detail: str
    since: Time | None
    next_try_at: Time | None
    by: str
    under_way: Count
    waiting: Count
    oldest_received_at: Time | None
    held: Count
    held_since: Time | None
    type: str = "fhir"
    fhir: str
    profile: str = "generic"
    concurrency: Count
    channels: tuple[str, ...]
    lacks: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What it is: `FHIR R4`, or `relay`."""
        return "relay" if self.type == MLLP else f"FHIR {self.fhir}"


class KeyView(Answer, facts=True):
    """A key of a destination that is in force.

    `value`: as its file would have it; of a secret only that it is `set`, empty for none. `origin`: whether file or
    profile set it. `default`: what it would be without the file, or without the profile.
    """

    key: str
    value: str
    origin: Literal["file", "profile", "default"]
    default: str


class OfDestination(Request):
    """A destination by its name."""

    destination: Word = Field("", description="The destination's name.")

    def found(self, engine: Engine) -> str:
        """Return the destination's name; UsageError where there is no such destination."""
        if self.destination not in engine.dispatches:
            raise UsageError(f"there is no destination {self.destination or None!r}: `destinations list` names them")
        return self.destination


class ListDestinations(Operation[list[DestinationView]]):
    """List destinations by name, with what waits for each."""

    name = "destinations.list"
    permission = Permission.METADATA

    async def run(self, engine: Engine, _actor: Actor) -> list[DestinationView]:
        """Return all destinations."""
        return await _views(engine, *sorted(engine.dispatches))


class ListSettings(OfDestination, Operation[list[KeyView]]):
    """List the keys of a destination that are in force, and what set each: its file, its profile or the default."""

    name = "destinations.settings"
    permission = Permission.METADATA

    async def run(self, engine: Engine, _actor: Actor) -> list[KeyView]:
        """Return the keys, those of which the default is in force last."""
        name = self.found(engine)
        outgoing = tuple(_outgoing(engine, name))
        keys = keys_in_force(engine.dispatches[name].settings)
        # What a relay shares with other channels is without the key.
        found = (*(one for one in keys if not outgoing or one.key != "outgoing"), *outgoing)
        return [KeyView.of(one) for one in sorted(found, key=lambda one: one.origin == "default")]


def _outgoing(engine: Engine, name: str) -> Iterator[KeyInForce]:
    """Yield how the messages are made that a relay gets of a FHIR server's events, for each channel that names it."""
    channels = [one.channel for _, one in sorted(engine.feeds.items()) if name in one.outgoing]
    for channel in channels:
        relay = channel.relay_of(name)
        settings = (relay.outgoing if relay is not None else None) or Outgoing()
        prefix = f"{channel.channel}: " if len(channels) > 1 else ""
        for one in keys_of_model(settings, "outgoing."):
            yield one._replace(key=f"{prefix}{one.key}")


class PauseDestination(OfDestination, Operation[DestinationView]):
    """Pause a destination: nothing is delivered there until it is resumed, even after a restart."""

    name = "destinations.pause"
    permission = Permission.CHANNELS

    reason: Reason = ""

    async def run(self, engine: Engine, actor: Actor) -> DestinationView:
        """Return the destination."""
        name = self.found(engine)
        detail = self.reason[:MOST_TEXT]
        await engine.pauses.pause(Pause(name, PauseReason.BY_OPERATOR, detail, now(), actor.name))
        engine.wake((name,))
        return (await _views(engine, name))[0]


class ResumeDestination(OfDestination, Operation[DestinationView]):
    """Resume a paused destination."""

    name = "destinations.resume"
    permission = Permission.CHANNELS

    async def run(self, engine: Engine, _actor: Actor) -> DestinationView:
        """Return the destination."""
        name = self.found(engine)
        await engine.pauses.resume(name)
        engine.wake((name,))
        return (await _views(engine, name))[0]


class RetryDestination(OfDestination, Operation[DestinationView]):
    """Try a destination that does not answer at once, and all that waits for its next try there."""

    name = "destinations.retry"
    permission = Permission.OPERATE

    async def run(self, engine: Engine, _actor: Actor) -> DestinationView:
        """Return the destination as it was before that try; UsageError where it is paused."""
        name = self.found(engine)
        if engine.pauses.of(name) is not None:
            raise UsageError(f"{name} is paused, so that nothing is tried: `destinations resume {name}` first")
        await engine.dispatches[name].retry_now()
        return (await _views(engine, name))[0]


async def _views(engine: Engine, *names: str) -> list[DestinationView]:
    found = await asyncio.to_thread(backlogs, engine.files.data, names)
    return [_one(engine, name, found[name]) for name in names if name in engine.dispatches]


def _one(engine: Engine, name: str, backlog: Backlog) -> DestinationView:
    dispatch, pause = engine.dispatches[name], engine.pauses.of(name)
    return DestinationView(
        destination=name,
        state=dispatch.condition,
        reason=pause.reason if pause else dispatch.health.failing or dispatch.health.cause,
        detail=pause.detail if pause else "",
        since=time_of(pause.since if pause else dispatch.health.since),
        next_try_at=time_of(dispatch.next_try_at),
        by=pause.by if pause else "",
        under_way=dispatch.under_way,
        waiting=backlog.depth,
        oldest_received_at=time_of(backlog.oldest_at),
        held=backlog.held,
        held_since=time_of(backlog.held_since),
        type=dispatch.settings.type,
        fhir=getattr(dispatch.settings, "fhir", ""),
        profile=getattr(dispatch.settings, "profile", ""),
        concurrency=dispatch.settings.concurrency,
        channels=tuple(sorted(one for one, feed in engine.feeds.items() if name in feed.destinations)),
        lacks=tuple(dispatch.lacks),
    )


DESTINATIONS: Final = (ListDestinations, ListSettings, PauseDestination, ResumeDestination, RetryDestination)

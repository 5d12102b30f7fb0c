"""Operations on channels: what runs and its counters; start, stop, drain; reload."""

import asyncio
from typing import Annotated, Final, Literal

from pydantic import Field

from engine import telemetry
from engine.errors import ConfigurationError, UsageError
from engine.journal.read.backlog import left_of_channel
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import Word
from engine.ops.operations.operation import Operation, Request
from engine.ops.views.answer import Answer, Count, Time, known_as, time_of
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.counters import Counters


class MergesHeld(Answer, facts=True):
    """Which source went over the channel's `merge_limit`, and since when."""

    source: str
    since: Time


class ChannelView(Answer, facts=True):
    """A channel. Counters are since the engine's start; `since` and `by` say when and by whom it was stopped.

    `closed`: it should listen, but does not. `filtered`: accepted and sent nowhere, `rules`: how often a filter of each
    name held. `strayed`: how often senders strayed from MLLP, by kind (`bare-end`, `unframed`). `lacks`: what the
    servers of its destinations were found not to do, by destination. `own_mappings`: destinations with another mapping
    than `mapping`, and its name. `http` and `fhir`: the paths of its doors for HTTP and for events of a FHIR server.
    Of events: `server` and `events` say of which server, and who brings them; `unread` is why none come, empty where
    they do; `outgoing` has the outgoing mapping of each relay.
    """

    channel: str
    state: Literal["listening", "stopped", "closed"]
    since: Time | None
    by: str
    mode: str
    address: str
    port: Count
    http: str
    fhir: str = ""
    server: str = ""
    events: str = ""
    unread: str = ""
    outgoing: dict[str, str] = Field(default_factory=dict)
    connections: Count
    messages: Count
    refused: Count
    filtered: Count
    rules: dict[str, Count]
    strayed: dict[str, Count]
    duplicates: Count
    last_received_at: Time | None
    merges_held: MergesHeld | None
    mapping: str
    own_mappings: dict[str, str] = Field(default_factory=dict)
    contact: str
    destinations: tuple[str, ...]
    lacks: dict[str, tuple[str, ...]]


class DrainedChannel(ChannelView):
    """A channel that was stopped, and how many of its entries are left to deliver."""

    unfinished: Count


class Listening(Answer, facts=True):
    """Where a channel listens, and how many are connected."""

    address: Annotated[str, known_as("address", "host")]
    port: Count
    connections: Count


class Alive(Answer, facts=True):
    """What runs: channels that listen, and the gate of each destination."""

    channels: dict[str, Listening]
    destinations: dict[str, str]


class Reloaded(Answer):
    """What changed: channels by name, and mappings as `mapping NAME`."""

    changed: tuple[str, ...]


class OfChannel(Request):
    """A channel by its name."""

    channel: Word = Field("", description="The channel's name.")

    def found(self, engine: Engine) -> str:
        """Return the channel's name; UsageError where there is no such channel."""
        if self.channel not in engine.feeds:
            raise UsageError(f"there is no channel {self.channel or None!r}: `channels list` names them")
        return self.channel


class ShowAlive(Operation[Alive]):
    """Show which channels listen, and the state of each destination."""

    name = "alive"
    permission = Permission.METADATA

    async def run(self, engine: Engine, _actor: Actor) -> Alive:
        """Return channels and destinations."""
        return Alive(
            channels={name: Listening.of(listener) for name, listener in engine.listeners.open.items()},
            destinations={name: str(dispatch.throttle.breaker.gate) for name, dispatch in engine.dispatches.items()},
        )


class ListChannels(Operation[list[ChannelView]]):
    """List channels with their counters, by name."""

    name = "channels.list"
    permission = Permission.METADATA

    async def run(self, engine: Engine, _actor: Actor) -> list[ChannelView]:
        """Return all channels."""
        return [channel_view(engine, name) for name in sorted(engine.feeds)]


class StartChannel(OfChannel, Operation[ChannelView]):
    """Start a stopped channel: it listens again."""

    name = "channels.start"
    permission = Permission.CHANNELS

    async def run(self, engine: Engine, _actor: Actor) -> ChannelView:
        """Return the channel."""
        name = self.found(engine)
        await engine.listeners.start(engine.feeds[name].channel)
        return channel_view(engine, name)


class StopChannel(OfChannel, Operation[ChannelView]):
    """Stop a channel: messages in flight are answered, then no more are accepted."""

    name = "channels.stop"
    permission = Permission.CHANNELS

    async def run(self, engine: Engine, actor: Actor) -> ChannelView:
        """Return the channel."""
        name = self.found(engine)
        await _stopped(engine, name, actor)
        return channel_view(engine, name)


class DrainChannel(OfChannel, Operation[DrainedChannel]):
    """Stop a channel and count what is left to deliver; repeat it to count again."""

    name = "channels.drain"
    permission = Permission.CHANNELS

    async def run(self, engine: Engine, actor: Actor) -> DrainedChannel:
        """Return the channel."""
        name = self.found(engine)
        if name not in engine.listeners.stopped:
            await _stopped(engine, name, actor)
        left = await asyncio.to_thread(left_of_channel, engine.files.data, name, tuple(engine.dispatches))
        return DrainedChannel.of(channel_view(engine, name), unfinished=left)


class AllowMerge(OfChannel, Operation[ChannelView]):
    """Allow merges to continue that went over the channel's `merge_limit`."""

    name = "channels.allow-merge"
    permission = Permission.CHANNELS

    async def run(self, engine: Engine, _actor: Actor) -> ChannelView:
        """Return the channel."""
        name = self.found(engine)
        await engine.merges.let(name)
        return channel_view(engine, name)


class Reload(Operation[Reloaded]):
    """Reload channel and mapping files; if any file has a problem, nothing changes."""

    name = "reload"
    permission = Permission.CHANNELS

    async def run(self, engine: Engine, _actor: Actor) -> Reloaded:
        """Return what changed; UsageError with every problem."""
        try:
            return Reloaded(changed=tuple(await engine.reload()))
        except ConfigurationError as error:
            raise UsageError(f"nothing was changed:\n{error}") from error


class ShowMetrics(Operation[str]):
    """Show the metrics in the Prometheus text format."""

    name = "metrics"
    permission = Permission.METADATA

    async def run(self, _engine: Engine, _actor: Actor) -> str:
        """Return the text."""
        return telemetry.metrics_text()


async def _stopped(engine: Engine, name: str, actor: Actor) -> None:
    """Stop a channel; one that acknowledges on delivery is given the time that its answers may take."""
    acknowledge = engine.feeds[name].channel.acknowledge
    patience = acknowledge.within_seconds if acknowledge.when == "delivered" else 0.0
    await engine.listeners.stop(name, engine.now(), actor.name, patience)


def channel_view(engine: Engine, name: str) -> ChannelView:
    """Return one channel of a running engine."""
    channel = engine.feeds[name].channel
    listener, stopped, held = (
        engine.listeners.open.get(name),
        engine.listeners.stopped.get(name),
        engine.merges.held.get(name),
    )
    counters = engine.counters.get(name) or Counters()
    events = channel.listen.fhir
    return ChannelView(
        channel=name,
        state="stopped" if stopped else "listening" if name in engine.listeners.intakes else "closed",
        since=time_of(stopped.since if stopped else None),
        by=stopped.by if stopped else "",
        mode=channel.mode,
        address=listener.host if listener else "",
        port=listener.port if listener else 0,
        http=channel.listen.http.path if channel.listen.http else "",
        fhir=events.path if events else "",
        server=events.server.name if events else "",
        events=events.source if events else "",
        unread=engine.sources.unread(name, engine.now(), 0),
        outgoing=channel.outgoing_mappings,
        connections=listener.connections if listener else 0,
        messages=counters.messages,
        refused=counters.refused,
        filtered=counters.filtered,
        rules=dict(sorted(counters.rules.items())),
        strayed=dict(sorted(engine.listeners.strayed.get(name, {}).items())),
        duplicates=counters.duplicates,
        last_received_at=time_of(counters.last_at),
        merges_held=MergesHeld.of(held) if held else None,
        mapping=channel.mapping,
        own_mappings=channel.own_mappings,
        contact=channel.contact,
        destinations=tuple(destination.name for destination in channel.destinations),
        lacks={
            one.name: codes
            for one in channel.destinations
            if one.name in engine.dispatches and (codes := engine.dispatches[one.name].lacks)
        },
    )


CHANNELS: Final = (
    ShowAlive, ListChannels, StartChannel, StopChannel, DrainChannel, AllowMerge, Reload, ShowMetrics,
)  # fmt: skip

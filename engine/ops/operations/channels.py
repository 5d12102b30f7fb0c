"""Acts on channels: what runs and its counters; start, stop, drain; reload.

    channels.list         METADATA  {} -> [CHANNEL], by name
    channels.start        CHANNELS  {"channel"} -> CHANNEL       listens again
    channels.stop         CHANNELS  {"channel"} -> CHANNEL       answers what is in flight, then takes nothing
    channels.drain        CHANNELS  {"channel"} -> CHANNEL       the same; `unfinished` says what is left to deliver
    channels.allow-merge  CHANNELS  {"channel"} -> CHANNEL       merges that went past `merge_limit` go on
    reload                CHANNELS  {} -> {"changed": [names]}

CHANNEL: {"channel", "state": "listening" | "stopped" | "closed", "since", "by", "mode", "address", "port", "http",
"connections", "messages", "refused", "duplicates", "last_received_at", "merges_held": {"source", "since"} or null,
"mapping", "contact", "destinations": [names]}, after an act on it also "unfinished". Counters are of this start of the
engine; `since` and `by` tell of the stop. `closed`: it should listen, and does not.
"""

import asyncio
from datetime import datetime
from typing import Any, Final

from engine import telemetry
from engine.errors import ConfigurationError, UsageError
from engine.journal.read.backlog import left_of_channel
from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.counters import Counters


async def _alive(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return {
        "channels": {
            name: {"address": door.host, "port": door.port, "connections": door.connections}
            for name, door in engine.listeners.open.items()
        },
        "destinations": {name: str(dispatch.pace.breaker.gate) for name, dispatch in engine.dispatches.items()},
    }


async def _list(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return [shown(engine, name) for name in sorted(engine.feeds)]


async def _start(engine: Engine, _actor: Actor, given: Given) -> Any:
    name = _named(engine, given)
    await engine.listeners.start(engine.feeds[name].channel)
    return shown(engine, name)


async def _stop(engine: Engine, actor: Actor, given: Given) -> Any:
    name = _named(engine, given)
    await _stopped(engine, name, actor)
    return shown(engine, name)


async def _drain(engine: Engine, actor: Actor, given: Given) -> Any:
    """Stop a channel and say what is left; asked again, it only says that."""
    name = _named(engine, given)
    if name not in engine.listeners.stopped:
        await _stopped(engine, name, actor)
    left = await asyncio.to_thread(left_of_channel, engine.files.data, name, tuple(engine.dispatches))
    return shown(engine, name) | {"unfinished": left}


async def _stopped(engine: Engine, name: str, actor: Actor) -> None:
    """Stop a channel; one that acknowledges on delivery is given the time that its answers may take."""
    acknowledge = engine.feeds[name].channel.acknowledge
    patience = acknowledge.within_seconds if acknowledge.when == "delivered" else 0.0
    await engine.listeners.stop(name, engine.now(), actor.name, patience)


async def _allow_merge(engine: Engine, _actor: Actor, given: Given) -> Any:
    name = _named(engine, given)
    await engine.merges.let(name)
    return shown(engine, name)


async def _reload(engine: Engine, _actor: Actor, _given: Given) -> Any:
    try:
        return {"changed": await engine.reload()}
    except ConfigurationError as error:
        raise UsageError(f"nothing was changed:\n{error}") from error


async def _metrics(_engine: Engine, _actor: Actor, _given: Given) -> Any:
    return telemetry.metrics_text()


def shown(engine: Engine, name: str) -> dict[str, Any]:
    """Return one channel of a running engine as plain values."""
    channel = engine.feeds[name].channel
    door, stopped, held = (
        engine.listeners.open.get(name),
        engine.listeners.stopped.get(name),
        engine.merges.held.get(name),
    )
    counters = engine.counters.get(name) or Counters()
    return {
        "channel": name,
        "state": "stopped" if stopped else "listening" if name in engine.listeners.intakes else "closed",
        "since": time_of(stopped.since if stopped else None),
        "by": stopped.by if stopped else "",
        "mode": str(channel.mode),
        "address": door.host if door else "",
        "port": door.port if door else 0,
        "http": channel.listen.http.path if channel.listen.http else "",
        "connections": door.connections if door else 0,
        "messages": counters.messages,
        "refused": counters.refused,
        "duplicates": counters.duplicates,
        "last_received_at": time_of(counters.last_at),
        "merges_held": {"source": held.source, "since": time_of(held.since)} if held else None,
        "mapping": channel.mapping,
        "contact": channel.contact,
        "destinations": [destination.name for destination in channel.destinations],
    }


def time_of(moment: datetime | None) -> str | None:
    """Return a moment as pages and --json show it."""
    return moment.isoformat(timespec="milliseconds") if moment else None


def _named(engine: Engine, given: Given) -> str:
    name = given.get("channel")
    if not isinstance(name, str) or name not in engine.feeds:
        raise UsageError(f"there is no channel {name!r}: `channels list` names them")
    return name


CHANNELS: Final = (
    Act("alive", Permission.METADATA, _alive),
    Act("channels.list", Permission.METADATA, _list),
    Act("channels.start", Permission.CHANNELS, _start),
    Act("channels.stop", Permission.CHANNELS, _stop),
    Act("channels.drain", Permission.CHANNELS, _drain),
    Act("channels.allow-merge", Permission.CHANNELS, _allow_merge),
    Act("reload", Permission.CHANNELS, _reload),
    Act("metrics", Permission.METADATA, _metrics),
)

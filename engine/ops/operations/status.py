"""The engine's status: what is wrong in plain words, and the stages that messages pass; first page and `status`."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from engine import __version__
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.alerts import AlertView, ListAlerts
from engine.ops.operations.channels import ChannelView, ListChannels
from engine.ops.operations.destinations import DestinationView, ListDestinations
from engine.ops.operations.messages import CountMessages
from engine.ops.operations.operation import Operation
from engine.ops.views.answer import Answer, Count, Time, moment_text
from engine.ops.views.counts import Counts
from engine.ops.views.incident import GRAVITY, Severity, destination_sentence, destination_words
from engine.ops.views.reasons import reason_of
from engine.ops.views.wording import number
from engine.pipeline.alerts.kind import AlertKind
from engine.pipeline.engine import Engine


class Health(StrEnum):
    """How a stage does: well, somebody should look, nothing passes, or nothing is there."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"


class Incident(Answer, facts=True):
    """One thing that is wrong and that nobody has acknowledged, as one sentence.

    `code`: the line of the table of reasons; `detail` what else is known; `alert`: its number, 0 before one opens.
    `destination`: the destination that takes nothing because of it, '' where none does.
    """

    sentence: str
    severity: Severity
    since: Time | None
    code: str
    detail: str
    next_step: str
    alert: Count
    destination: str


class Stage(Answer, facts=True):
    """A stage that messages pass: `place` is senders, channels, waiting or destination; `state` says it in words.

    `lines` say what else there is. `destination`: how a destination is.
    """

    place: str
    name: str
    health: Health
    state: str
    lines: tuple[str, ...]
    alerts: tuple[AlertView, ...] = ()
    destination: DestinationView | None = None


class Status(Answer, facts=True):
    """An engine at a glance: incidents, the gravest first; stages in the order in which messages pass them.

    `severity`: that of the gravest incident, None where all is well; `acknowledged`: alerts that somebody has.
    """

    sentence: str
    severity: Severity | None
    version: str
    started_at: Time
    incidents: tuple[Incident, ...]
    acknowledged: Count
    stages: tuple[Stage, ...]


WELL: Final = "Messages flow: nothing needs a person."
# Alerts of a destination that is paused, fails or is down: its state says the same, and sooner.
OF_STATE: Final = frozenset(
    {
        AlertKind.HOLD_STORM,
        AlertKind.DESTINATION_PAUSED,
        AlertKind.DESTINATION_FAILURE,
        AlertKind.DESTINATION_DOWN,
    }
)
# The stage that an alert belongs to; those of a destination are shown at its own, those of the engine at none.
STAGES: Final[Mapping[str, frozenset[str]]] = {
    "senders": frozenset(
        {
            AlertKind.CONNECTIONS_REFUSED,
            AlertKind.NO_SENDER,
            AlertKind.EVENTS_UNREAD,
            AlertKind.NO_TRAFFIC,
            AlertKind.NEW_SOURCE,
            AlertKind.MERGE_BURST,
        }
    ),
    "channels": frozenset(
        {
            AlertKind.CHANNEL_STOPPED,
            AlertKind.REFUSAL_RATIO,
            AlertKind.MERGE_LIMIT,
            AlertKind.CERTIFICATE_EXPIRY,
            AlertKind.CERTIFICATE_ENDS,
            AlertKind.CERTIFICATE_EXPIRED,
            AlertKind.UNKNOWN_AUTHORITY,
            AlertKind.DISK_RESERVE,
        }
    ),
    "waiting": frozenset({AlertKind.HELD_LANES, AlertKind.QUEUE_AGE, AlertKind.QUEUE_DEPTH, AlertKind.LANE_CROWDED}),
}


class ShowStatus(Operation[Status]):
    """Show what is wrong, in plain words, and how each stage that messages pass does."""

    name = "status.show"
    permission = Permission.METADATA

    async def run(self, engine: Engine, actor: Actor) -> Status:
        """Return the status."""
        channels, destinations, alerts, counts = await asyncio.gather(
            ListChannels().run(engine, actor),
            ListDestinations().run(engine, actor),
            ListAlerts().run(engine, actor),
            asyncio.to_thread(CountMessages(since="1h").read, engine.files.data),
        )
        return status_of(channels, counts, destinations, alerts, moment_text(engine.started_at))


def status_of(
    channels: Sequence[ChannelView],
    counts: Counts,
    destinations: Sequence[DestinationView],
    alerts: Sequence[AlertView],
    started_at: str = "",
) -> Status:
    """Return a status; alerts that somebody has acknowledged are counted, and change no stage and no sentence."""
    fresh = [alert for alert in alerts if not alert.acknowledged_at]
    found = sorted(_incidents(channels, destinations, fresh), key=lambda one: (GRAVITY[one.severity], one.since or ""))
    return Status(
        sentence=found[0].sentence if found else WELL,
        severity=found[0].severity if found else None,
        version=__version__,
        started_at=started_at,
        incidents=tuple(found),
        acknowledged=len(alerts) - len(fresh),
        stages=(
            _senders(channels, fresh),
            _channels(channels, counts, fresh),
            _waiting(counts, fresh),
            *(_destination(destination, fresh) for destination in destinations),
        ),
    )


def _incidents(
    channels: Iterable[ChannelView], destinations: Iterable[DestinationView], alerts: Sequence[AlertView]
) -> Iterator[Incident]:
    silent = {destination.destination: destination for destination in destinations if destination.state != "ready"}
    for name, destination in silent.items():
        code = destination.reason
        yield Incident(
            sentence=destination_sentence(name, destination.state, code, destination.detail),
            severity=Severity.URGENT,
            since=destination.since,
            code=code,
            detail=f"{destination.waiting} waiting",
            next_step=reason_of(code).next_step if code else "",
            alert=next((alert.id for alert in alerts if alert.subject == name and alert.kind in OF_STATE), 0),
            destination=name,
        )
    for channel in channels:
        if channel.state == "closed":
            yield _closed(channel.channel)
    for alert in alerts:
        if alert.subject not in silent or alert.kind not in OF_STATE:
            is_down = alert.kind == AlertKind.DESTINATION_DOWN
            yield Incident(
                sentence=alert.sentence,
                severity=alert.severity,
                since=alert.opened_at,
                code=alert.kind,
                detail=alert.detail,
                next_step=alert.next_step,
                alert=alert.id,
                destination=alert.subject if is_down else "",
            )


def _closed(channel: str) -> Incident:
    return Incident(
        sentence=f"{channel} does not listen.",
        severity=Severity.URGENT,
        since=None,
        code="",
        detail="",
        next_step="See the log for why its port could not be had; `channels reload` tries again.",
        alert=0,
        destination="",
    )


def _senders(channels: Sequence[ChannelView], alerts: Iterable[AlertView]) -> Stage:
    here = _at("senders", alerts)
    connections = sum(channel.connections for channel in channels)
    lonely = [one.channel for one in channels if one.state == "listening" and one.port and not one.connections]
    without = f"none at {', '.join(lonely)}" if lonely and connections else ""
    return Stage(
        place="senders",
        name="Senders",
        health=_health(here, Health.GOOD if connections else Health.OFF),
        state=f"{number(connections)} connected",
        lines=tuple(filter(None, (without,))),
        alerts=here,
    )


def _channels(channels: Sequence[ChannelView], counts: Counts, alerts: Iterable[AlertView]) -> Stage:
    here = _at("channels", alerts)
    closed = [channel.channel for channel in channels if channel.state == "closed"]
    stopped = [channel.channel for channel in channels if channel.state == "stopped"]
    received = sum(one["received"] for one in counts.received.values())
    refused = sum(one["refused"] for one in counts.received.values())
    lines = [f"{number(received)} in the last hour"]
    lines += [f"{number(refused)} refused"] if refused else []
    lines += [f"not listening: {', '.join(closed)}"] if closed else []
    lines += [f"stopped: {', '.join(stopped)}"] if stopped else []
    listening = len(channels) - len(closed) - len(stopped)
    return Stage(
        place="channels",
        name="Channels",
        health=Health.BAD if closed else _health(here, Health.WARN if stopped else Health.GOOD),
        state=f"{listening} of {len(channels)} listening",
        lines=tuple(lines),
        alerts=here,
    )


def _waiting(counts: Counts, alerts: Iterable[AlertView]) -> Stage:
    here = _at("waiting", alerts)
    queues = counts.queues.values()
    held, waiting = sum(queue.held for queue in queues), sum(queue.unfinished - queue.held for queue in queues)
    return Stage(
        place="waiting",
        name="Waiting",
        health=_health(here, Health.WARN if held else Health.GOOD),
        state=f"{number(waiting)} waiting",
        lines=(f"{number(held)} held",) if held else (),
        alerts=here,
    )


def _destination(one: DestinationView, alerts: Iterable[AlertView]) -> Stage:
    here = tuple(alert for alert in alerts if alert.subject == one.destination and alert.kind not in STAGES["waiting"])
    down = next((alert.sentence for alert in here if alert.kind == AlertKind.DESTINATION_DOWN), "")
    well = one.state == "ready" and not down
    words = destination_words(one.state, one.reason, one.detail)
    if one.state == "ready":
        words = down.removeprefix(f"{one.destination} ").removesuffix(".") or "ready"
    return Stage(
        place="destination",
        name=one.destination,
        health=_health(here, Health.GOOD) if well else Health.BAD,
        state=words,
        lines=(f"{number(one.waiting)} waiting",) if one.waiting else (),
        alerts=here,
        destination=one,
    )


def _at(stage: str, alerts: Iterable[AlertView]) -> tuple[AlertView, ...]:
    return tuple(alert for alert in alerts if alert.kind in STAGES[stage])


def _health(alerts: Sequence[AlertView], otherwise: Health) -> Health:
    """Return how a stage does by the gravest of its alerts; one that can wait changes nothing."""
    found = {alert.severity for alert in alerts}
    if Severity.URGENT in found:
        return Health.BAD
    return Health.WARN if Severity.TO_DECIDE in found else otherwise


STATUS: Final = (ShowStatus,)

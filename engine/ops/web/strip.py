"""The strip across the first page: senders, channels, what waits, destinations, in the order in which messages flow."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.ops.operations.alerts import AlertView, Severity
from engine.ops.operations.channels import ChannelView
from engine.ops.operations.destinations import DestinationView
from engine.ops.views.counts import Counts
from engine.ops.web.wording import number
from engine.pipeline.alerts.kind import AlertKind, PauseReason

# Causes as people say them; of an HTTP status its number is said, and any other code as it is.
CAUSES: Final[Mapping[str, str]] = {
    "connection-refused": "connection refused",
    "not-connected": "its machine cannot be reached",
    "connect-timeout": "no connection in time",
    "connection-lost": "the connection breaks off",
    "timeout": "no answer in time",
    "name-not-resolved": "its name is not known to DNS",
    "tls": "TLS fails",
    "tls-certificate": "its certificate is not valid",
    "http-401": "it refuses our credentials (HTTP 401)",
    "http-403": "it forbids what we ask (HTTP 403)",
    "http-429": "it asks for fewer requests (HTTP 429)",
    "token-unavailable": "its token server does not answer",
    "token-refused": "its token server refuses our credentials",
    "private-key-unusable": "our private key cannot be used",
    "secret-unreadable": "our secret cannot be read",
    "answer-unreadable": "what answers is not HTTP or not JSON",
    "by-operator": "somebody paused it",
    "hold-storm": "the same failure held 50 patients",
    "restored": "the journal was restored from a backup",
}
# What a destination does that is in this state, said of one that has a cause.
DOES: Final[Mapping[str, str]] = {"paused": "is paused", "failing": "cannot be used"}
SILENT: Final = frozenset(
    {"connection-refused", "not-connected", "connect-timeout", "connection-lost", "timeout", "name-not-resolved"}
)
DRAWN: Final = {Severity.URGENT: "bad", Severity.TO_DECIDE: "warn", Severity.CAN_WAIT: "info"}
# The box that an alert belongs to; those of a destination stand in its own, those of the engine in none.
STAGES: Final[Mapping[str, frozenset[str]]] = {
    "senders": frozenset(
        {
            AlertKind.CONNECTIONS_REFUSED,
            AlertKind.NO_SENDER,
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


@dataclass(frozen=True, slots=True)
class Box:
    """One box: `kind` is how it is drawn (good, warn, bad, off), `state` its state in a word, `lines` what there is.

    `alerts`: those that are open here. `destination`: of the box of one; `does` and `cause`: what it does and why if it
    takes nothing; else empty.
    """

    name: str
    href: str
    kind: str
    state: str
    lines: tuple[str, ...]
    alerts: tuple[AlertView, ...] = ()
    destination: DestinationView | None = None
    does: str = ""
    cause: str = ""


def severity(one: AlertView) -> str:
    """Return how an alert is drawn: bad where messages do not flow, warn where a person has to decide, else info."""
    return DRAWN[one.severity]


def cause_of(one: DestinationView) -> str:
    """Return why a destination takes nothing, in words; '' where nothing is known."""
    status = one.reason.removeprefix("http-")
    said = CAUSES.get(one.reason) or (f"HTTP {status}" if status.isdigit() else one.reason)
    if one.state != "paused" or not one.detail:
        return said
    return one.detail if one.reason == PauseReason.BY_OPERATOR else f"{said}: {one.detail}"


def does_of(one: DestinationView) -> str:
    """Return what a destination does that takes nothing: `does not answer`, `fails`."""
    known = "does not answer" if one.reason in SILENT or one.state == "unreachable" else "fails"
    return DOES.get(one.state, known)


def strip(
    channels: Sequence[ChannelView],
    counts: Counts,
    destinations: Sequence[DestinationView],
    alerts: Sequence[AlertView],
) -> list[Box]:
    """Return the boxes from left to right; alerts that somebody has acknowledged colour nothing."""
    fresh = [alert for alert in alerts if not alert.acknowledged_at]
    return [
        _senders(channels, fresh),
        _channels(channels, counts, fresh),
        _waiting(counts, fresh),
        *(_destination(destination, fresh) for destination in destinations),
    ]


def _senders(channels: Sequence[ChannelView], alerts: Iterable[AlertView]) -> Box:
    here = _at("senders", alerts)
    connections = sum(channel.connections for channel in channels)
    lonely = [one.channel for one in channels if one.state == "listening" and one.port and not one.connections]
    said = f"{number(connections)} connected"
    without = f"none at {', '.join(lonely)}" if lonely and connections else ""
    kind = _kind(here, "good" if connections else "off")
    return Box("Senders", "/channels", kind, said, tuple(filter(None, (without,))), here)


def _channels(channels: Sequence[ChannelView], counts: Counts, alerts: Iterable[AlertView]) -> Box:
    here = _at("channels", alerts)
    closed = [channel.channel for channel in channels if channel.state == "closed"]
    stopped = [channel.channel for channel in channels if channel.state == "stopped"]
    received = sum(one["received"] for one in counts.received.values())
    refused = sum(one["refused"] for one in counts.received.values())
    lines = [f"{number(received)} in the last hour"]
    lines += [f"{number(refused)} refused"] if refused else []
    lines += [f"not listening: {', '.join(closed)}"] if closed else []
    lines += [f"stopped: {', '.join(stopped)}"] if stopped else []
    kind = "bad" if closed else _kind(here, "warn" if stopped else "good")
    listening = len(channels) - len(closed) - len(stopped)
    return Box("Channels", "/channels", kind, f"{listening} of {len(channels)} listening", tuple(lines), here)


def _waiting(counts: Counts, alerts: Iterable[AlertView]) -> Box:
    here = _at("waiting", alerts)
    queues = counts.queues.values()
    held, waiting = sum(queue.held for queue in queues), sum(queue.unfinished - queue.held for queue in queues)
    lines = [f"{number(held)} held"] if held else []
    kind = _kind(here, "warn" if held else "good")
    return Box("Waiting", "/lanes", kind, f"{number(waiting)} waiting", tuple(lines), here)


def _destination(one: DestinationView, alerts: Iterable[AlertView]) -> Box:
    here = tuple(alert for alert in alerts if alert.subject == one.destination and alert.kind not in STAGES["waiting"])
    is_down = any(alert.kind == AlertKind.DESTINATION_DOWN for alert in here)
    if one.state == "ready" and not is_down:
        lines = (f"{number(one.waiting)} waiting",) if one.waiting else ()
        return Box(one.destination, "/channels", _kind(here, "good"), "ready", lines, here, one)
    does = does_of(one)
    return Box(one.destination, "/channels", "bad", does, (), here, one, does, cause_of(one))


def _at(stage: str, alerts: Iterable[AlertView]) -> tuple[AlertView, ...]:
    return tuple(alert for alert in alerts if alert.kind in STAGES[stage])


def _kind(alerts: Sequence[AlertView], otherwise: str) -> str:
    """Return how a box is drawn: by the gravest of its alerts; by one that can wait as if it had none."""
    found = {severity(alert) for alert in alerts}
    return "bad" if "bad" in found else "warn" if "warn" in found else otherwise


def troubles(boxes: Iterable[Box]) -> Iterator[Box]:
    """Yield the boxes of destinations that take nothing: what is said first of all."""
    return (box for box in boxes if box.does)

"""The rules of the alerts, from facts to what is wrong, without clock, disk or socket; and the usual traffic.

What cannot be judged yet (a share of nothing, a silence that is shorter than the engine's life) is left out, so that an
alert that was open before a restart stays open until it is known to be over.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from engine.config.alerting import Alerting
from engine.journal.file.database import LOG_BYTES
from engine.journal.read.backlog import Backlog
from engine.journal.state.alerting import hour_of
from engine.journal.state.pausing import Pause
from engine.pipeline.alerts.book import AlertCondition
from engine.pipeline.alerts.kind import AlertKind, PauseReason

WEEK_HOURS: Final = 24 * 7
WEEKS: Final = 4
# A silence is no accident where this many messages would have come in the quietest of the weeks before.
EXPECTED: Final = 20.0
LEAST: Final = timedelta(minutes=10)


def usual(hours: Mapping[int, int], hour: int) -> int:
    """Return the least that came in the same hour of the weeks before; 0 unless two of them are known."""
    begun = min(hours, default=hour)
    known = [hours.get(hour - week * WEEK_HOURS, 0) for week in range(1, WEEKS + 1) if hour - week * WEEK_HOURS > begun]
    return min(known) if len(known) >= 2 else 0


def expected(hours: Mapping[int, int], since: datetime, now: datetime) -> float:
    """Return how many messages would have been usual between two moments."""
    total = 0.0
    for hour in range(hour_of(since), hour_of(now) + 1):
        begins, ends = max(since.timestamp(), hour * 3600.0), min(now.timestamp(), (hour + 1) * 3600.0)
        total += usual(hours, hour) * max(ends - begins, 0.0) / 3600.0
    return total


def is_silent(hours: Mapping[int, int], since: datetime, now: datetime) -> bool:
    """Say whether nothing came for longer than is usual at this hour of the week."""
    since = max(since, now - timedelta(hours=WEEK_HOURS))
    return now - since >= LEAST and expected(hours, since, now) >= EXPECTED


WINDOW: Final = timedelta(minutes=15)
LEAST_OF_A_SHARE: Final = 20
ENGINE: Final = "engine"
# A certificate that ends within it does not wait until morning.
A_DAY: Final = timedelta(days=1)
# Eight times what the write-ahead log is moved into the file at: somebody reads one moment for very long.
LONG_LOG_BYTES: Final = 8 * LOG_BYTES

# What the detail of held work ends with where all that a destination gets waits behind it.
IN_FEED_ORDER: Final = "waiting behind it in the order of the feed"

IsOpen = Callable[[AlertKind, str], bool]


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many went wrong within the window; `whole` says whether the window is that long yet."""

    bad: int
    total: int
    whole: bool


# Files, and when the first certificate of each ends.
Certificates = tuple[tuple[Path, datetime], ...]


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """What is known of a channel now; `silent_since` is when the last message came, or the engine started.

    `refused`: what is said of those who were refused within the window: which address, how often, and by what.
    `unread`: why the events of its FHIR server are not read.
    """

    listening: bool
    stopped: bool
    connections: int
    lonely_since: datetime | None
    silent_since: datetime
    heard: bool
    refusals: Share
    merges: int
    merge_limit: int
    merges_held: bool
    hours: Mapping[int, int] = field(default_factory=dict)
    certificates: Certificates = ()
    refused: tuple[str, ...] = ()
    unread: str = ""


@dataclass(frozen=True, slots=True)
class DestinationFacts:
    """What is known of a destination now; `down_seconds` for how long it has not answered, `cause` how it failed.

    `certificates`: the engine's own for this destination. `in_feed_order`: what is held holds all that follows it.
    """

    pause: Pause | None
    failing: str
    backlog: Backlog
    errors: Share
    down_seconds: float = 0.0
    cause: str = ""
    certificates: Certificates = ()
    in_feed_order: bool = False


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is known of the engine now.

    `hook_failing` says whether alerts cannot be sent, `entrance` who was turned away from pages and API, by kind, and
    `unanchored` why the audit trail cannot be anchored, empty where it can. `damage`: what of the journal's file is
    damaged. `log_bytes`: the length of its write-ahead log. `refused`: what the journal's database called a statement
    that it refused of late. `certificates`: those of the operators' pages.
    """

    now: datetime
    started_at: datetime
    channels: Mapping[str, ChannelFacts]
    destinations: Mapping[str, DestinationFacts]
    free_bytes: int
    reserve_bytes: int
    refused_reload: str
    hook_failing: bool
    entrance: Mapping[AlertKind, Share] = field(default_factory=dict)
    unanchored: str = ""
    damage: str = ""
    log_bytes: int = 0
    refused: str = ""
    certificates: Certificates = ()


def conditions(facts: EngineFacts, alerting: Alerting, is_open: IsOpen) -> Iterator[AlertCondition]:
    """Yield what is wrong and what is not; what is open clears only at half of what opened it."""
    for name, destination in facts.destinations.items():
        yield from _of_destination(name, destination, facts.now, alerting, is_open)
    for name, channel in facts.channels.items():
        yield from _of_channel(name, channel, facts, alerting, is_open)
    low = facts.free_bytes < facts.reserve_bytes * alerting.disk_reserves
    free = f"{facts.free_bytes // 2**20} MiB free, reserve {facts.reserve_bytes // 2**20} MiB"
    yield AlertCondition(AlertKind.DISK_RESERVE, ENGINE, low, free)
    yield AlertCondition(AlertKind.RELOAD_FAILED, ENGINE, bool(facts.refused_reload), facts.refused_reload)
    yield AlertCondition(AlertKind.WEBHOOK_FAILED, ENGINE, facts.hook_failing)
    yield AlertCondition(AlertKind.JOURNAL_DAMAGED, ENGINE, bool(facts.damage), facts.damage)
    yield AlertCondition(AlertKind.JOURNAL_REFUSES, ENGINE, bool(facts.refused), facts.refused)
    long = _past(facts.log_bytes, LONG_LOG_BYTES, is_open(AlertKind.LOG_GROWS, ENGINE))
    yield AlertCondition(AlertKind.LOG_GROWS, ENGINE, long, f"{facts.log_bytes // 2**20} MiB")
    yield from _certificates(ENGINE, facts.certificates, facts.now, alerting)
    yield AlertCondition(AlertKind.AUDIT_GAP, ENGINE, bool(facts.unanchored), facts.unanchored)
    limits = {
        AlertKind.LOG_IN_FAILURES: alerting.log_in_failures,
        AlertKind.TOKEN_FAILURES: alerting.token_failures,
    }
    for kind, share in facts.entrance.items():
        many = _past(share.bad, limits[kind], is_open(kind, ENGINE))
        if many or share.whole:
            yield AlertCondition(kind, ENGINE, many, f"{share.bad} in {WINDOW.total_seconds() // 60:.0f} minutes")


def _of_destination(
    name: str, facts: DestinationFacts, now: datetime, alerting: Alerting, is_open: IsOpen
) -> Iterator[AlertCondition]:
    pause, backlog = facts.pause, facts.backlog
    storm = pause is not None and pause.reason == PauseReason.HOLD_STORM
    detail = pause.detail if storm and pause else pause.reason if pause else ""
    yield AlertCondition(AlertKind.HOLD_STORM, name, storm, detail)
    yield AlertCondition(AlertKind.DESTINATION_PAUSED, name, pause is not None and not storm, detail)
    yield AlertCondition(AlertKind.DESTINATION_FAILURE, name, bool(facts.failing), facts.failing)
    # What has an alert of its own, a pause or a fault of the destination as a whole, opens no second one.
    long = facts.down_seconds >= alerting.destination_down_seconds
    down = long and backlog.depth > 0 and not facts.failing and pause is None
    waits = f"{facts.cause or 'no answer'} for {facts.down_seconds:.0f} seconds, {backlog.depth} waiting"
    yield AlertCondition(AlertKind.DESTINATION_DOWN, name, down, waits)
    behind = IN_FEED_ORDER if facts.in_feed_order else "waiting behind something older"
    held = f"{backlog.held} held, {backlog.waiting} {behind}"
    yield AlertCondition(AlertKind.HELD_LANES, name, backlog.held >= alerting.held_lanes, held)
    deep = _past(backlog.depth, alerting.queue_depth, is_open(AlertKind.QUEUE_DEPTH, name))
    yield AlertCondition(AlertKind.QUEUE_DEPTH, name, deep, f"{backlog.depth} waiting")
    minutes = (now - backlog.oldest_at).total_seconds() / 60 if backlog.oldest_at else 0.0
    old = _past(minutes, alerting.queue_age_minutes, is_open(AlertKind.QUEUE_AGE, name))
    yield AlertCondition(AlertKind.QUEUE_AGE, name, old, f"the oldest has been waiting for {minutes:.0f} minutes")
    yield from _share(AlertKind.ERROR_RATIO, name, facts.errors, alerting.error_ratio, is_open)
    yield from _certificates(name, facts.certificates, now, alerting)


def _of_channel(
    name: str, facts: ChannelFacts, engine: EngineFacts, alerting: Alerting, is_open: IsOpen
) -> Iterator[AlertCondition]:
    yield AlertCondition(AlertKind.CHANNEL_STOPPED, name, facts.stopped)
    yield AlertCondition(AlertKind.MERGE_LIMIT, name, facts.merges_held, "one source exceeded its limit")
    used = f"{facts.merges} of {facts.merge_limit} merges of one source"
    burst = _past(facts.merges, facts.merge_limit * alerting.merge_burst, is_open(AlertKind.MERGE_BURST, name))
    yield AlertCondition(AlertKind.MERGE_BURST, name, burst and facts.merges > 1, used)
    yield from _share(AlertKind.REFUSAL_RATIO, name, facts.refusals, alerting.refusal_ratio, is_open)
    yield AlertCondition(AlertKind.CONNECTIONS_REFUSED, name, bool(facts.refused), "; ".join(facts.refused))
    yield AlertCondition(AlertKind.EVENTS_UNREAD, name, bool(facts.unread), facts.unread)
    yield from _silence(name, facts, engine, alerting)
    yield from _loneliness(name, facts, engine, alerting)
    yield from _certificates(name, facts.certificates, engine.now, alerting)


def _certificates(name: str, certificates: Certificates, now: datetime, alerting: Alerting) -> Iterator[AlertCondition]:
    for path, end in certificates:
        left, at = end - now, f"{end.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        over, last = left < timedelta(), left < A_DAY
        soon = not last and left < timedelta(days=alerting.certificate_days)
        hours, minutes = divmod(max(int(left.total_seconds() // 60), 0), 60)
        days = f"{left.days} day{'s' if left.days != 1 else ''}"
        subject = f"{name} {path}"
        yield AlertCondition(AlertKind.CERTIFICATE_EXPIRY, subject, soon, f"{path.name}: {days} left, until {at}")
        within = f"{path.name}: ends in {hours} h {minutes} min, at {at}"
        yield AlertCondition(AlertKind.CERTIFICATE_ENDS, subject, last and not over, within)
        yield AlertCondition(AlertKind.CERTIFICATE_EXPIRED, subject, over, f"{path.name}: ended on {at}")


def _silence(name: str, facts: ChannelFacts, engine: EngineFacts, alerting: Alerting) -> Iterator[AlertCondition]:
    minutes = alerting.no_traffic_of(name)
    silent = engine.now - facts.silent_since
    if minutes is None:
        wrong = is_silent(facts.hours, facts.silent_since, engine.now)
    else:
        wrong = bool(minutes) and silent >= timedelta(minutes=minutes)
    wrong = wrong and facts.listening
    if wrong or facts.heard or minutes == 0 or not facts.listening:
        yield AlertCondition(
            AlertKind.NO_TRAFFIC, name, wrong, f"nothing for {silent.total_seconds() // 60:.0f} minutes"
        )


def _loneliness(name: str, facts: ChannelFacts, engine: EngineFacts, alerting: Alerting) -> Iterator[AlertCondition]:
    minutes = alerting.no_sender_of(name)
    if facts.lonely_since is None or not minutes or not facts.listening:
        yield AlertCondition(AlertKind.NO_SENDER, name, wrong=False)
        return
    lonely = engine.now - facts.lonely_since
    wrong = lonely >= timedelta(minutes=minutes)
    if wrong or facts.lonely_since > engine.started_at:
        yield AlertCondition(
            AlertKind.NO_SENDER, name, wrong, f"no sender for {lonely.total_seconds() // 60:.0f} minutes"
        )


def _share(kind: AlertKind, name: str, share: Share, limit: float, is_open: IsOpen) -> Iterator[AlertCondition]:
    if share.total < LEAST_OF_A_SHARE:
        if share.whole:
            yield AlertCondition(kind, name, wrong=False)
        return
    wrong = _past(share.bad / share.total, limit, is_open(kind, name))
    yield AlertCondition(
        kind, name, wrong, f"{share.bad} of {share.total} in {WINDOW.total_seconds() // 60:.0f} minutes"
    )


def _past(value: float, limit: float, opened: bool) -> bool:
    return value > limit / 2 if opened else value >= limit

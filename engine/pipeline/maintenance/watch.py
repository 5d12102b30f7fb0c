"""The watch: looks at a running engine now and then; settles the book of alerts and sets the gauges by what it sees."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from engine import telemetry
from engine.config.channel import Channel
from engine.errors import place_of
from engine.journal.claim import clocks
from engine.journal.file.database import FILE
from engine.journal.file.reserve import free_bytes_kept
from engine.journal.read.backlog import Backlog, backlogs
from engine.journal.state import alerting
from engine.pipeline.alerts.book import NODES, AlertCondition
from engine.pipeline.alerts.kind import AlertKind
from engine.pipeline.alerts.rules import (
    ENGINE,
    WINDOW,
    Certificates,
    ChannelFacts,
    DestinationFacts,
    EngineFacts,
    Share,
    conditions,
)
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.counters import Counters
from engine.receive.tls import ends_of


class Gauges:
    """The gauges of one engine; those of a destination that is gone go with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._commits = self._operations = 0
        self._gauged: set[str] = set()

    def set(self, facts: EngineFacts) -> None:
        """Set every gauge by what is known of the engine now."""
        for name in self._gauged - facts.destinations.keys():
            for gauge in (telemetry.QUEUE_DEPTH, telemetry.QUEUE_AGE, telemetry.HELD_LANES, telemetry.PAUSED):
                gauge.remove(name)
        self._gauged = set(facts.destinations)
        for name, destination in facts.destinations.items():
            backlog = destination.backlog
            age = (facts.now - backlog.oldest_at).total_seconds() if backlog.oldest_at else 0.0
            telemetry.QUEUE_DEPTH.labels(name).set(backlog.depth)
            telemetry.QUEUE_AGE.labels(name).set(max(age, 0.0))
            telemetry.HELD_LANES.labels(name).set(backlog.held)
            telemetry.PAUSED.labels(name).set(destination.pause is not None)
        for name, channel in facts.channels.items():
            telemetry.CONNECTIONS.labels(name).set(channel.connections)
        commits, operations = self._engine.journal.counts
        telemetry.COMMITS.inc(commits - self._commits)
        telemetry.COMMITTED.inc(operations - self._operations)
        self._commits, self._operations = commits, operations
        telemetry.ALERTS_OPEN.set(len(self._engine.alerts.open()))
        telemetry.DISK_FREE.set(facts.free_bytes)
        telemetry.JOURNAL_BYTES.set(size_of(self._engine.files.data / FILE) + facts.log_bytes)


def size_of(path: Path) -> int:
    """Return the bytes of a file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


LOOK_SECONDS: Final = 5.0
MOST_ADDRESSES: Final = 5
CERTIFICATES_EVERY: Final = timedelta(hours=1)
KINDS: Final = {
    "source": AlertKind.NEW_SOURCE,
    "authority": AlertKind.UNKNOWN_AUTHORITY,
    "lane": AlertKind.LANE_CROWDED,
}

_log = telemetry.logger()


class FailureWindow:
    """Counters as they stood within the last minutes; the share of what went wrong since."""

    def __init__(self) -> None:
        self._samples: deque[tuple[datetime, int, int]] = deque()

    def share(self, now: datetime, bad: int, total: int) -> Share:
        """Note how counters stand now; return what was added within the window."""
        self._samples.append((now, bad, total))
        while len(self._samples) > 1 and self._samples[1][0] <= now - WINDOW:
            self._samples.popleft()
        at, bad_then, total_then = self._samples[0]
        return Share(bad - bad_then, total - total_then, whole=now - at >= WINDOW)


@dataclass(slots=True)
class _Certificates:
    """When the certificates of a listener or a destination end, as their files were looked at last."""

    ends: Certificates = ()
    at: datetime | None = None

    def look(self, files: Iterable[str | Path | None], now: datetime, soon: datetime) -> Certificates:
        """Return when they end; files are read each hour, and each time where one ends before `soon`.

        So the alert clears when the renewed file is there.
        """
        if any(end < soon for _path, end in self.ends) or self.at is None or now - self.at >= CERTIFICATES_EVERY:
            self.ends, self.at = ends_of(files), now
        return self.ends


@dataclass(slots=True)
class _Memory:
    """What the watch remembers of a channel between two looks."""

    window: FailureWindow = field(default_factory=FailureWindow)
    lonely_since: datetime | None = None
    counted: int = 0
    certificates: _Certificates = field(default_factory=_Certificates)
    refused: dict[tuple[str, str], tuple[int, datetime]] = field(default_factory=dict)


class Monitor:
    """Looks at one engine; `look` once, or `run` until cancelled.

    `hook_failing` says whether alerts cannot be sent, `turned_away` how many were refused at the entrance so far,
    `unanchored` why the audit trail cannot be anchored. `certificate`: the file of the operators' pages' own.
    """

    def __init__(
        self,
        engine: Engine,
        hook_failing: Callable[[], bool] = bool,
        turned_away: Callable[[], Mapping[AlertKind, int]] = dict,
        unanchored: Callable[[], str] = str,
        certificate: Path | None = None,
    ) -> None:
        self._engine = engine
        self._hook_failing = hook_failing
        self._turned_away = turned_away
        self._unanchored = unanchored
        self._certificate = certificate
        self._of_pages = _Certificates()
        self._entrance: dict[AlertKind, FailureWindow] = {}
        self._channels: dict[str, _Memory] = {}
        self._destinations: dict[str, FailureWindow] = {}
        self._own_certificates: dict[str, _Certificates] = {}
        self._hours: dict[str, dict[int, int]] = {}
        self._began = False
        self._gauges = Gauges(engine)

    async def run(self) -> None:
        """Look every five seconds; a look that fails is logged, and the next one comes all the same."""
        while True:
            try:
                await self.look(self._engine.now())
            except Exception as error:  # noqa: BLE001 - the last resort: without the watch nobody would hear of anything
                if self._engine.journal.failed:
                    return
                _log.error("watch failed", error=type(error).__name__, point=place_of(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, now: datetime) -> None:
        """Look once."""
        engine = self._engine
        if not self._began:
            await self._begin(now)
        self._count_traffic(now)
        found = await asyncio.to_thread(backlogs, engine.files.data, tuple(engine.dispatches))
        facts = self._facts(now, found)
        await engine.alerts.settle([*await self._sights(now), *await self._clock(now)], now)
        settled = list(conditions(facts, engine.alerting, engine.alerts.is_open))
        blocked = self._blocked()
        await engine.alerts.settle([*settled, *self._gone(settled)], now)
        for name in blocked | self._blocked():
            engine.dispatches[name].health.blocked_until = now
        self._gauges.set(facts)

    def _blocked(self) -> set[str]:
        """Return the destinations that take nothing by their alerts."""
        return {name for name in self._engine.dispatches if self._engine.alerts.blocks(name)}

    async def _begin(self, now: datetime) -> None:
        """Take up what is known of the weeks before, and who was seen on which channel."""
        self._hours = await asyncio.to_thread(alerting.traffic, self._engine.files.data, now)
        for name, names in (await self._engine.journal.read(alerting.seen)).items():
            counters = self._engine.counters.setdefault(name, Counters())
            counters.sights = [sight for sight in counters.sights if (sight.kind, sight.name) not in names]
            counters.names |= names
        self._began = True

    def _count_traffic(self, now: datetime) -> None:
        hour = alerting.hour_of(now)
        for name, counters in self._engine.counters.items():
            memory, hours = self._channels.setdefault(name, _Memory()), self._hours.setdefault(name, {})
            grown, memory.counted = counters.messages - memory.counted, counters.messages
            if grown:
                hours[hour] = hours.get(hour, 0) + grown

    async def _sights(self, now: datetime) -> list[AlertCondition]:
        """Return what was seen for the first time; the first source of a channel is taken for its own."""
        found: list[AlertCondition] = []
        for channel, counters in self._engine.counters.items():
            sights, counters.sights = counters.sights, []
            if not sights:
                continue
            first = len([name for name in counters.names if name[0] == "source"]) == len(
                [one for one in sights if one.kind == "source"]
            )
            rows = [(channel, one.kind, one.name) for one in sights if one.kind != "lane"]
            await self._engine.journal.write(partial(alerting.see, sights=rows, now=now))
            strangers = sights[1:] if first and sights[0].kind == "source" else sights
            found += [
                AlertCondition(KINDS[one.kind], channel, wrong=True, detail=f"entry {one.seq}") for one in strangers
            ]
        return found

    async def _clock(self, now: datetime) -> list[AlertCondition]:
        """Return what is wrong with the clock; acknowledging the alert of a clock ahead accepts its time as correct."""
        engine = self._engine
        await engine.time.mind()
        step = engine.time.step().total_seconds()
        beyond = await engine.journal.read(partial(clocks.ahead, now=now))
        if beyond and engine.alerts.acknowledged(AlertKind.CLOCK_AHEAD, ENGINE):
            await engine.journal.write(partial(clocks.trust, now=now))
            beyond = timedelta()
        ahead = AlertCondition(AlertKind.CLOCK_AHEAD, ENGINE, bool(beyond), f"{beyond.days} days beyond what was known")
        back = AlertCondition(AlertKind.CLOCK_WENT_BACK, ENGINE, wrong=True, detail=f"by {step:.0f} seconds")
        return [ahead, back] if step else [ahead]

    def _facts(self, now: datetime, found: dict[str, Backlog]) -> EngineFacts:
        engine = self._engine
        disk = os.statvfs(engine.files.data)
        return EngineFacts(
            now,
            engine.started_at,
            {name: self._channel(name, feed.channel, now) for name, feed in engine.feeds.items()},
            {name: self._destination(name, found[name], now) for name in engine.dispatches if name in found},
            disk.f_bavail * disk.f_frsize,
            free_bytes_kept(engine.files.data),
            engine.refused_reload,
            self._hook_failing(),
            {
                kind: self._entrance.setdefault(kind, FailureWindow()).share(now, count, count)
                for kind, count in self._turned_away().items()
            },
            self._unanchored(),
            engine.damage,
            size_of(engine.files.data / f"{FILE}-wal"),
            engine.journal.refused,
            self._of_pages.look((self._certificate,), now, self._soon(now)) if self._certificate else (),
        )

    def _channel(self, name: str, channel: Channel, now: datetime) -> ChannelFacts:
        engine, memory = self._engine, self._channels.setdefault(name, _Memory())
        counters = engine.counters.get(name) or Counters()
        listening = engine.listeners.open.get(name)
        if listening is None or listening.connections:
            memory.lonely_since = None
        elif memory.lonely_since is None:
            memory.lonely_since = now if counters.last_at else engine.started_at
        return ChannelFacts(
            name in engine.listeners.intakes,
            name in engine.listeners.stopped,
            listening.connections if listening else 0,
            memory.lonely_since,
            counters.last_at or engine.started_at,
            counters.last_at is not None,
            memory.window.share(now, counters.refused, counters.messages),
            *engine.merges.limit(channel).used(now),
            name in engine.merges.held,
            self._hours.get(name, {}),
            self._certificates(channel, memory, now),
            _refused(memory, engine.listeners.refused(name), now),
            engine.sources.unread(name, now, engine.alerting.destination_down_seconds),
        )

    def _destination(self, name: str, backlog: Backlog, now: datetime) -> DestinationFacts:
        dispatch = self._engine.dispatches[name]
        health = dispatch.health
        share = self._destinations.setdefault(name, FailureWindow()).share(now, health.failures, health.settled)
        pause, down = self._engine.pauses.of(name), dispatch.throttle.down_seconds()
        certificate = dispatch.settings.own_certificate
        looked = self._own_certificates.setdefault(name, _Certificates())
        ends = looked.look((certificate,), now, self._soon(now)) if certificate else ()
        holds_all = dispatch.settings.in_feed_order and dispatch.settings.on_held == "hold-lane"
        return DestinationFacts(pause, health.failing, backlog, share, down, health.cause, ends, holds_all)

    def _certificates(self, channel: Channel, memory: _Memory, now: datetime) -> Certificates:
        tls = channel.listen.mllp.tls if channel.listen.mllp else None
        return () if tls is None else memory.certificates.look((tls.certificate, tls.client_ca), now, self._soon(now))

    def _soon(self, now: datetime) -> datetime:
        return now + timedelta(days=self._engine.alerting.certificate_days)

    def _gone(self, settled: list[AlertCondition]) -> Iterator[AlertCondition]:
        """Yield that nothing is wrong with channels and destinations that are no more."""
        engine = self._engine
        known = {*engine.feeds, *engine.dispatches, ENGINE, NODES, *(one.subject for one in settled)}
        for alert in engine.alerts.open():
            if alert.subject not in known:
                yield AlertCondition(AlertKind(alert.kind), alert.subject, wrong=False)


def _refused(memory: _Memory, found: Mapping[tuple[str, str], int], now: datetime) -> tuple[str, ...]:
    """Return what is said of those who were refused within the window, the most often first."""
    for who, count in found.items():
        memory.refused[who] = (memory.refused.get(who, (0, now))[0] + count, now)
    memory.refused = {who: one for who, one in memory.refused.items() if now - one[1] < WINDOW}
    ordered = sorted(memory.refused.items(), key=lambda one: (-one[1][0], one[0]))
    return tuple(f"{address} {count} times by {by}" for (address, by), (count, _at) in ordered[:MOST_ADDRESSES])

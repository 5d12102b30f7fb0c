"""The book of alerts: each opens once and clears once, over restarts; listeners get both events."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Final

from engine import telemetry
from engine.journal.journal import Journal
from engine.journal.nodes import telling
from engine.journal.nodes.telling import NodeCondition
from engine.journal.state import alerting
from engine.journal.state.alerting import Alert
from engine.pipeline.alerts.kind import AlertKind

# Something that happened rather than something that is: these stay open until a person has seen them.
UNTIL_SEEN: Final = frozenset(
    {AlertKind.NEW_SOURCE, AlertKind.UNKNOWN_AUTHORITY, AlertKind.LANE_CROWDED, AlertKind.CLOCK_WENT_BACK}
)

# What is well as long as it is at one node: senders and their messages come through any of them.
AT_ONE_OF_ALL: Final = frozenset({AlertKind.NO_TRAFFIC, AlertKind.NO_SENDER})

# What an alert about all nodes together is about.
NODES: Final = "nodes"

Heard = Callable[[Alert], None]
_log = telemetry.logger()


@dataclass(frozen=True, slots=True)
class AlertCondition:
    """What was looked at: whether something is wrong with a subject now, and in which words, without any patient."""

    kind: AlertKind
    subject: str
    wrong: bool
    detail: str = ""


def combined(said: Iterable[NodeCondition]) -> Iterator[AlertCondition]:
    """Yield what nodes say together: something is wrong where one says so, or all for what must happen at one only."""
    for (kind, subject), found in groupby(said, key=lambda one: (one.kind, one.subject)):
        nodes = tuple(found)
        wrong = [node for node in nodes if node.wrong]
        everywhere = len(wrong) == len(nodes)
        details = dict.fromkeys(one.detail for one in wrong)
        where = "" if everywhere else f"{', '.join(one.node for one in wrong)}: "
        yield AlertCondition(
            AlertKind(kind),
            subject,
            everywhere if AlertKind(kind) in AT_ONE_OF_ALL else bool(wrong),
            f"{where}{'; '.join(details)}" if wrong else "",
        )


class AlertBook:
    """The alerts of one engine; `listeners` hear of each that opens or clears (then `cleared_at` is set)."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open: dict[tuple[str, str], Alert] = {}
        self.listeners: list[Heard] = []

    async def recall(self) -> None:
        """Take up the alerts that were open before the start; nobody hears of them again."""
        self._open = {(one.kind, one.subject): one for one in await self._journal.read(alerting.open_alerts)}

    def open(self) -> tuple[Alert, ...]:
        """Return the alerts that are open, oldest first."""
        return tuple(sorted(self._open.values(), key=lambda one: one.id))

    def is_open(self, kind: AlertKind, subject: str) -> bool:
        """Say whether an alert is open."""
        return (kind, subject) in self._open

    def blocks(self, destination: str) -> bool:
        """Say whether an alert is open that says that a destination takes nothing."""
        return any((kind, destination) in self._open for kind in alerting.BLOCKING)

    def acknowledged(self, kind: AlertKind, subject: str) -> bool:
        """Say whether an alert is open and somebody has acknowledged it."""
        found = self._open.get((kind, subject))
        return found is not None and found.acknowledged_at is not None

    async def settle(self, conditions: Iterable[AlertCondition], now: datetime) -> None:
        """Open and clear by what was looked at; what was not looked at stays as it is.

        In a shared journal each node says how it finds things to be, and the one that leads settles them for all.
        """
        if self._journal.is_shared:
            conditions = await self._together(tuple(conditions))
        for condition in conditions:
            found = self._open.get((condition.kind, condition.subject))
            if condition.wrong and found is None:
                await self._begin(condition, now)
            elif condition.wrong and found is not None and found.detail != condition.detail:
                self._open[condition.kind, condition.subject] = replace(found, detail=condition.detail)
            elif not condition.wrong and found is not None and condition.kind not in UNTIL_SEEN:
                await self._end(found, now)

    async def _together(self, mine: tuple[AlertCondition, ...]) -> list[AlertCondition]:
        """Say how this node finds things to be; return what it is to settle: what happened here, or all if it leads."""
        happened = [one for one in mine if one.kind in UNTIL_SEEN]
        lasting = [(one.kind, one.subject, one.wrong, one.detail) for one in mine if one.kind not in UNTIL_SEEN]
        await self._journal.write(partial(telling.say, incarnation=self._journal.incarnation, found=lasting))
        await self.recall()
        if not self._journal.leads:
            return happened
        runs = await self._journal.read(telling.configurations)
        differ = AlertCondition(AlertKind.NODES_DIFFER, NODES, len(set(runs.values())) > 1, ", ".join(runs))
        lost = await self._journal.read(telling.lost)
        since = ", ".join(f"{name} since {ended.astimezone(UTC):%H:%M} UTC" for name, ended in lost.items())
        gone = AlertCondition(AlertKind.NODE_LOST, NODES, bool(lost), since)
        return [*happened, *combined(await self._journal.read(telling.said)), differ, gone]

    async def acknowledge(self, number: int, now: datetime, by: str) -> Alert | None:
        """Note who has taken care of an alert; None where no such alert is open. Some are cleared by that."""
        found = next((one for one in self._open.values() if one.id == number), None)
        if found is None:
            return None
        if found.acknowledged_at is None:
            await self._journal.write(partial(alerting.acknowledge, number=number, now=now, by=by))
            found = self._open[found.kind, found.subject] = replace(found, acknowledged_at=now, acknowledged_by=by)
        return await self._end(found, now) if found.kind in UNTIL_SEEN else found

    async def latest(self, limit: int) -> tuple[Alert, ...]:
        """Return the newest alerts, cleared ones among them, newest first; those that are open as they are now."""
        now = {one.id: one for one in self._open.values()}
        found = await self._journal.read(partial(alerting.latest_alerts, limit=limit))
        return tuple(now.get(one.id, one) for one in found)

    async def _begin(self, one: AlertCondition, now: datetime) -> None:
        work = partial(alerting.open_alert, kind=one.kind, subject=one.subject, detail=one.detail, now=now)
        alert = self._open[one.kind, one.subject] = await self._journal.write(work)
        self._announce(alert, "alert")

    async def _end(self, alert: Alert, now: datetime) -> Alert:
        await self._journal.write(partial(alerting.clear_alert, kind=alert.kind, subject=alert.subject, now=now))
        self._open.pop((alert.kind, alert.subject), None)
        cleared = replace(alert, cleared_at=now)
        self._announce(cleared, "alert cleared")
        return cleared

    def _announce(self, alert: Alert, event: str) -> None:
        log = _log.error if alert.cleared_at is None else _log.info
        log(event, code=alert.kind, point=alert.subject, reason=alert.detail)
        for listener in self.listeners:
            listener(alert)

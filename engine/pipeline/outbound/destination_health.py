"""How one destination has been doing since the start: what is counted of it, and what its failures mean for all."""

from collections import Counter
from datetime import UTC, datetime
from enum import StrEnum

from engine import telemetry
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.fhir.plan import Plan
from engine.journal.entry import FEED, Claimed, Settlement, State
from engine.journal.state.tally import TallyKey, delivery_of
from engine.pipeline.outbound.pauses import HoldStorm

_log = telemetry.logger()


class HealthState(StrEnum):
    """How a destination does; all but a paused one are tried again by themselves."""

    READY = "ready"
    PAUSED = "paused"
    FAILING = "failing"
    UNREACHABLE = "unreachable"
    OPEN = "open"


class DestinationHealth:
    """Counts one destination's deliveries.

    `failing` is why the destination as a whole cannot be used (token, permission, TLS), empty while it can; it is
    tried again by itself. `settled` and `failures` count how deliveries ended. `cause` and `since`: how the newest try
    failed, and when the first did, since the destination last answered; empty and None while it answers.
    `waits`: how long deliveries took since somebody last wrote that down; replays not. `blocked_until`: until when an
    outage, of the destination or of the engine, is known to have lasted.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.failing = self.cause = ""
        self.since: datetime | None = None
        self.settled = self.failures = 0
        self.waits: Counter[TallyKey] = Counter()
        self.blocked_until = datetime.min.replace(tzinfo=UTC)
        self._storm = HoldStorm()

    def failed(self, cause: str, now: datetime) -> None:
        """Note a failure that may be the destination's."""
        self.cause, self.since = cause, self.since or now

    def answered(self) -> None:
        """Note that the destination answers."""
        self.cause, self.since = "", None

    def count(self, claimed: Claimed, verdict: Verdict, result: Settlement) -> None:
        """Count one delivery that was settled."""
        if result.state is State.DELIVERED and not claimed.replay:
            took = (result.at - claimed.received_at).total_seconds()
            # A clock that was set back measured nothing.
            if took >= 0:
                delayed = claimed.received_at < self.blocked_until
                self.waits[delivery_of(self._name, claimed.received_at, result.at, delayed=delayed)] += 1
            telemetry.series(telemetry.DELIVERY_SECONDS, self._name).observe(max(took, 0.0))
        telemetry.series(telemetry.SETTLED, self._name, result.state, result.reason).inc()
        self.settled += 1
        self.failures += verdict.kind not in {VerdictKind.DELIVERED, VerdictKind.FILTERED}
        for attempt in verdict.attempts:
            telemetry.series(telemetry.ATTEMPTS, self._name, attempt.failure or "ok").inc()

    def judge(self, claimed: Claimed, verdict: Verdict, now: datetime) -> bool:
        """Note a destination that cannot be used; True where its holds are no matter of single patients any more."""
        if verdict.failure is Failure.DESTINATION:
            self.failing = verdict.reason
            _log.error("destination cannot be used", destination=self._name, reason=verdict.reason)
        elif verdict.kind is VerdictKind.DELIVERED or verdict.failure is Failure.PERMANENT:
            self.failing = ""
        held = verdict.kind is VerdictKind.HELD
        # The order of the feed is a lane that all of it has: it says of no patient that they are the same.
        lanes = tuple(lane for lane in claimed.lanes if lane != FEED)
        return held and self._storm.held(verdict.reason, lanes, claimed.seq, now)


def count_warnings(channel: str, plan: Plan | None) -> None:
    """Count each warning of a plan by reason and field, and codes that a table lacks by that table too."""
    if plan is None:
        return
    for warning in plan.warnings:
        reason, _, place = warning.partition(" ")
        telemetry.series(telemetry.WARNINGS, channel, reason, place).inc()
    for table, field in plan.unmapped:
        telemetry.series(telemetry.UNMAPPED, channel, table, field).inc()

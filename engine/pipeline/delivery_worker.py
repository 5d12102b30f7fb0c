"""The delivery worker: one claimed entry goes from its plan to its settlement; what goes wrong holds it, visibly.

mapping.plan -> stale? -> merges within the limit? -> deliver (journal.intend before a write) -> journal.settle
the message, or its edit -> relay -> journal.settle
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, Self

from engine import fault, telemetry
from engine.config.channel import Mode
from engine.config.destination import CREATE_ONLY
from engine.config.destination import Destination as Settings
from engine.config.fhir_events import FhirEvents
from engine.deliver.destination import FhirDestination
from engine.deliver.relay import SENT_AGAIN, RelayDestination
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.errors import (
    EventError,
    JournalRefusedError,
    MappingError,
    MessageError,
    SealError,
    UnreadServerError,
    place_of,
)
from engine.fhir.plan import Merge, Plan
from engine.hl7.message import Message
from engine.journal.entry import Claimed, FollowUpKind, FollowUpRequest, SentResource, Settlement, State
from engine.journal.journal import Journal
from engine.journal.state.pausing import Pause
from engine.journal.write.settling import superseded_by
from engine.mapping.compile import Mapping
from engine.mapping.subject.subject import Disposition
from engine.pipeline.alerts.kind import PauseReason
from engine.pipeline.feed import Feed, PipelineContext, is_watched, writers_of
from engine.pipeline.inbound.judgement import read_message
from engine.pipeline.inbound.outcomes import EntryOutcome
from engine.pipeline.outbound.collapsing import UpdateRun, claim_run, deliver_newest, of_head
from engine.pipeline.outbound.completing import LACKING, NOTE, completed, later
from engine.pipeline.outbound.destination_health import DestinationHealth, count_warnings
from engine.pipeline.outbound.follow_ups import FollowUps, is_announced, refusal
from engine.pipeline.outbound.memory import DestinationMemory
from engine.pipeline.outbound.relaying import DAMAGED, OutgoingMessage, outgoing, relay_dry_run
from engine.pipeline.outbound.settling import held, own_writes, settlement
from engine.pipeline.outbound.shadow import shadowed
from engine.pipeline.outbound.throttle import DeliveryThrottle

# How a delivery ends after which a relay has what an event says.
SETTLED: Final = frozenset({VerdictKind.DELIVERED, VerdictKind.FILTERED})
SKIPPED: Final = Verdict(VerdictKind.DELIVERED, "stale-skipped", unasked=True)

_log = telemetry.logger()


def now_filtered(mapping: Mapping, message: Message) -> str:
    """Return the rule by which a mapping asks nothing for a message that was taken in before; '' where it does."""
    subject = mapping.identify(message)
    return "" if subject.action is Disposition.DELIVER else subject.rule


class Carried(NamedTuple):
    """What came of one delivery: the verdict, the plan where there was one, what it is followed up by, and its feed.

    `sent`: what the relay has of a resource from now on. `run`: the updates whose newest was delivered for all of them.
    """

    verdict: Verdict
    plan: Plan | None = None
    follow_ups: tuple[FollowUpRequest, ...] = ()
    feed: Feed | None = None
    sent: SentResource | None = None
    run: UpdateRun | None = None

    def noting(self, *codes: str) -> Self:
        """Return the same with more notes in its verdict."""
        return self._replace(verdict=self.verdict.noting(*codes))

    def followed_by(self, follow_up: FollowUpRequest) -> Self:
        """Return the same, followed up by one thing more."""
        return self._replace(follow_ups=(*self.follow_ups, follow_up))


@dataclass(frozen=True, slots=True)
class DeliveryWorker:
    """Delivers entries to one destination, as it is described now."""

    name: str
    destination: FhirDestination | RelayDestination
    throttle: DeliveryThrottle
    journal: Journal
    memory: DestinationMemory
    health: DestinationHealth
    follow_ups: tuple[FollowUps, ...]
    shared: PipelineContext

    async def deliver(self, claimed: Claimed) -> Carried:
        """Deliver one entry and return what came of it, which is to be settled. Errors of the journal pass."""
        if isinstance(self.destination, FhirDestination):
            # Also where no channel takes its events: one may begin to, before this ends.
            self.shared.changes.writes.begin(self.name, claimed.seq)
        try:
            return await self._verdict_on(claimed)
        except BaseException:
            # It is never settled: nobody waits for that.
            self.shared.changes.writes.end(self.name, claimed.seq)
            raise

    async def _verdict_on(self, claimed: Claimed) -> Carried:
        feed = self.shared.feeds.get(claimed.channel)
        begun = self.throttle.now()
        try:
            if feed is None:
                carried = Carried(held("channel-removed"))
            elif isinstance(self.destination, RelayDestination) and feed.channel.listen.fhir is not None:
                carried = await self._change_sent(self.destination, claimed, feed, feed.channel.listen.fhir)
            elif isinstance(self.destination, RelayDestination):
                carried = await self._relayed(self.destination, claimed, feed)
            else:
                carried = await self._carry_out(self.destination, claimed, feed)
        except SealError:
            carried = Carried(held(DAMAGED))
        except (MappingError, MessageError, EventError) as error:
            carried = Carried(held(error.reason if isinstance(error, MappingError) else "unreadable"))
        except UnreadServerError as error:
            unread = Verdict(VerdictKind.RETRY, str(error), error.codes, Failure.TRANSIENT, unasked=True)
            carried = Carried(unread)
        except Exception as error:
            if self.journal.failed:
                raise
            _log.error(
                "delivery failed",
                entry=claimed.seq,
                destination=self.name,
                error=type(error).__name__,
                point=place_of(error),
            )
            carried = Carried(held("engine-error"))
        verdict = self.throttle.record_result(claimed.seq, carried.verdict, begun)
        if not self.throttle.down:
            self.health.answered()
        elif verdict.failure not in {Failure.NONE, Failure.PERMANENT}:
            self.health.failed(verdict.reason, self.shared.clock())
        return carried._replace(verdict=verdict, feed=feed)

    async def _relayed(self, relay: RelayDestination, claimed: Claimed, feed: Feed) -> Carried:
        """Pass the message on as it came in, or as the relay's steps edit it."""
        message = outgoing(claimed, feed, self.name)
        fault.point("F10")
        if claimed.shadow or feed.channel.mode is Mode.SHADOW:
            return Carried(shadowed(relay_dry_run(relay.settings, message)))
        body = message.raw if message.raw != claimed.raw else b""
        return Carried(
            await self._sent(relay, claimed, message.raw, message.control_id, body=body, intended=relay.holds_unknown)
        )

    async def _change_sent(self, relay: RelayDestination, claimed: Claimed, feed: Feed, events: FhirEvents) -> Carried:
        """Send the message of an event of a FHIR server, or nothing where it has nothing new for the relay."""
        settings = feed.channel.relay_of(self.name)
        if settings is None:
            return Carried(held("channel-removed"))
        if sha256(claimed.raw).digest() != claimed.digest:
            raise MappingError(DAMAGED)
        changes, now = self.shared.changes, self.shared.clock()
        writers = writers_of(self.shared.feeds, events.server)
        change = await changes.message(claimed, settings, feed.outgoing[self.name], writers, now)
        fault.point("F10")
        shadow = claimed.shadow or feed.channel.mode is Mode.SHADOW
        if change.nothing:
            verdict = Verdict(VerdictKind.FILTERED, change.nothing, change.notes, unasked=True)
        elif shadow:
            verdict = shadowed(relay_dry_run(relay.settings, OutgoingMessage(change.raw, change.control_id)))
        else:
            verdict = await self._sent(relay, claimed, change.raw, change.control_id, body=change.raw, intended=True)
            verdict = verdict.noting(*change.notes)
        sent = change.sent if not shadow and verdict.kind in SETTLED else None
        changes.sent(self.name, sent)
        return Carried(verdict, sent=sent)

    async def _sent(
        self, relay: RelayDestination, claimed: Claimed, raw: bytes, control_id: str, *, body: bytes, intended: bool
    ) -> Verdict:
        """Send a message; `intended`: it is in the journal before, so that the same bytes are sent again."""
        verdict = await relay.deliver(
            raw,
            control_id,
            (lambda request: self.journal.intend(claimed.seq, self.name, request)) if intended else None,
            at=self.shared.clock(),
            entry=claimed.seq,
            attempts_made=claimed.attempts_made,
            body=body,
            ambiguous=claimed.open_intent is not None,
        )
        if SENT_AGAIN in verdict.notes:
            telemetry.series(telemetry.RELAY_REPEATS, self.name).inc()
        return verdict

    async def _carry_out(self, server: FhirDestination, claimed: Claimed, feed: Feed) -> Carried:
        message = self._message(claimed, feed)
        mapping = feed.mapping_at(self.name)
        plan = mapping.plan(message)
        fault.point("F10")
        if not plan.interactions and (rule := now_filtered(mapping, message)):
            return Carried(Verdict(VerdictKind.FILTERED, rule, unasked=True), plan)
        if claimed.shadow or feed.channel.mode is Mode.SHADOW:
            now = self.shared.clock()
            dry_run = await server.dry_run(plan, self.memory, at=now, channel=feed.channel)
            return Carried(shadowed(dry_run), plan)
        if claimed.foreign or (self.journal.is_shared and not server.abilities.if_match):
            server.forget(plan)
            self.memory.forget(claimed.lanes, plan.source)
        stale = await self.memory.is_stale(claimed.lanes, plan)
        if stale and (policy := feed.channel.stale) != "apply" and not claimed.forced:
            return Carried(held("stale") if policy == "hold" else SKIPPED, plan)
        if not await self._merges_admitted(server, claimed, feed, plan):
            return Carried(held("merge-limit"), plan)
        collapsed = await self._collapsed(server, claimed, feed, plan)
        if collapsed is not None:
            return collapsed
        verdict = await self._delivered(server, claimed, plan, feed)
        if verdict.reason == LACKING and not verdict.attempts:
            whole = completed(plan, await later(claimed, self.memory, self.shared.feeds))
            if whole is not None:
                verdict = (await self._delivered(server, claimed, whole, feed)).noting(NOTE)
        carried = self._followed_up(server.settings, claimed, feed, message, plan, verdict)
        return carried.noting("stale") if stale else carried

    async def _collapsed(self, server: FhirDestination, claimed: Claimed, feed: Feed, plan: Plan) -> Carried | None:
        """Deliver the newest of the updates that wait in its place; None if the entry is to be delivered by itself."""
        # Where a channel only fills, the oldest value stays.
        collapse = server.settings.collapse if feed.channel.demographics != "fill" else None
        mapping = feed.mapping_at(self.name)
        run = await claim_run(self.journal, collapse, claimed, plan, lambda one: mapping.plan(self._message(one, feed)))
        if run is None:
            return None
        verdict = await deliver_newest(
            self.journal, run, partial(self._delivered, server, feed=feed), partial(self._put_off, feed=feed)
        )
        if verdict.kind is VerdictKind.RETRY:
            return Carried(of_head(verdict), plan)
        if verdict.kind is not VerdictKind.DELIVERED:
            return None
        stale = await self.memory.is_stale(run.newest.lanes, run.plan)
        message = self._message(run.newest, feed)
        carried = self._followed_up(server.settings, run.newest, feed, message, run.plan, verdict)._replace(run=run)
        return carried.noting("stale") if stale else carried

    async def _put_off(self, newest: Claimed, verdict: Verdict, feed: Feed) -> None:
        """Settle an update that was tried ahead of its turn: it waits for it again, or for its next try."""
        now = self.shared.clock()
        retry_at = self.throttle.retry_at(verdict, newest.tries + 1, now)
        result = replace(self._result(newest, Carried(verdict, None, feed=feed), retry_at, now), state=State.RECEIVED)
        await self.journal.settle(result)
        self.memory.settled(result)
        self.health.count(newest, verdict, result)

    async def _delivered(self, server: FhirDestination, claimed: Claimed, plan: Plan, feed: Feed) -> Verdict:
        return await server.deliver(
            plan,
            self.memory,
            lambda request: self.journal.intend(claimed.seq, self.name, request),
            at=self.shared.clock(),
            replay=claimed.replay,
            ambiguous=claimed.open_intent is not None,
            attempts_made=claimed.attempts_made,
            channel=feed.channel,
            decided=claimed.decided,
            entry=claimed.seq,
            lock_refusals=self.throttle.lock_refusals(claimed.seq),
        )

    def _followed_up(
        self, settings: Settings, claimed: Claimed, feed: Feed, message: Message, plan: Plan, verdict: Verdict
    ) -> Carried:
        """Return what was carried out with what it is followed up by, and a note why not where that was asked for."""
        carried = Carried(verdict, plan)
        if not verdict.patient:
            return carried
        if is_announced(claimed, feed.channel, settings, message):
            carried = carried.followed_by(FollowUpRequest(FollowUpKind.NOTICE, verdict.patient, verdict.visit))
        why_not = refusal(claimed, feed.channel, message, plan.event_at, self.shared.clock())
        if why_not is None:
            return carried.followed_by(FollowUpRequest(FollowUpKind.LOOKUP, verdict.patient))
        return carried.noting(why_not) if why_not else carried

    def _message(self, claimed: Claimed, feed: Feed) -> Message:
        """Return the message, as intake has read it or from its bytes; what the disk changed is never delivered."""
        message = self.shared.handover.take(claimed.seq)
        if message is None:
            if sha256(claimed.raw).digest() != claimed.digest:
                raise MappingError(DAMAGED)
            message = read_message(claimed.raw, feed.channel, claimed.event)
        return message

    async def _merges_admitted(self, server: FhirDestination, claimed: Claimed, feed: Feed, plan: Plan) -> bool:
        """Say whether the merges of an entry are within the limit; those of a load, or that a person let go, are.

        So are those that a destination which only gets creates is spared.
        """
        merges = sum(1 for interaction in plan.interactions if isinstance(interaction, Merge))
        if server.settings.writes == CREATE_ONLY:
            return True
        if not merges or claimed.tries or claimed.forced or feed.channel.mode is Mode.LOAD:
            return True
        if claimed.released and feed.channel.channel not in self.shared.merges.held:
            return True
        return await self.shared.merges.admits(
            feed.channel, plan.source, plan.event_at, claimed.seq, merges, self.shared.clock()
        )

    async def settle(self, claimed: Claimed, carried: Carried) -> bool:
        """Write down what came of an entry and tell of it; say whether it is to be tried again."""
        try:
            return await self._settle(claimed, carried)
        finally:
            self.shared.changes.settled(self.name, carried.sent)
            self.shared.changes.writes.end(self.name, claimed.seq)

    def _result(self, claimed: Claimed, carried: Carried, retry_at: datetime | None, now: datetime) -> Settlement:
        """Return what is written down of a delivery."""
        verdict, feed = carried.verdict, carried.feed
        is_mapped = isinstance(self.destination, FhirDestination)
        mapping = feed.mapping_at(self.name).hash if feed and is_mapped else ""
        if feed is not None and self.name in feed.outgoing:
            mapping = feed.outgoing[self.name].hash
        keep_lane = self.destination.settings.on_held == "hold-lane"
        follow_ups = carried.follow_ups if verdict.kind is VerdictKind.DELIVERED else ()
        result = settlement(
            claimed, verdict, carried.plan, mapping, retry_at, now, keep_lane=keep_lane, follow_ups=follow_ups
        )
        watched = is_mapped and bool(verdict.versions) and is_watched(self.shared.feeds, self.name)
        own = own_writes(claimed, verdict) if watched else ()
        superseded = carried.run.superseded if carried.run else ()
        return replace(result, sent=carried.sent, own_writes=own, superseded=superseded)

    async def _settle(self, claimed: Claimed, carried: Carried) -> bool:
        verdict, plan, feed, run = carried.verdict, carried.plan, carried.feed, carried.run
        head, claimed = claimed, run.newest if run else claimed
        now = self.shared.clock()
        retry_at = self.throttle.retry_at(verdict, claimed.tries + 1, now)
        result = self._result(claimed, carried, retry_at, now)
        if verdict.applied and plan is not None:
            self.memory.applied(claimed.lanes, plan)
        awaited = feed is not None and feed.channel.acknowledge.when == "delivered"
        # A person would have to decide of each that is not settled when the engine is killed.
        decided = isinstance(self.destination, RelayDestination) and self.destination.holds_unknown
        may_wait = verdict.kind is VerdictKind.DELIVERED and not awaited and not decided
        try:
            await self.journal.settle(result, may_wait=may_wait)
        except JournalRefusedError as error:
            # One patient's lane waits for a person, with its intents open: the next try reads before it writes.
            _log.error("not settled", entry=claimed.seq, destination=self.name, code=error.code)
            verdict, plan, retry_at, claimed = held("engine-error"), None, None, head
            result = settlement(claimed, verdict, plan, result.mapping, retry_at, now, keep_lane=True)
            if run is not None:
                await self.journal.put_back(self.name, [one.seq for one in run.behind])
            await self.journal.settle(result)
            self.memory.forget_all()
        self.memory.settled(result)
        for one in self.follow_ups if result.follow_ups else ():
            one.wake()
        self.health.count(claimed, verdict, result)
        if result.state is not State.RECEIVED:
            count_warnings(claimed.channel, plan)
            for end in (result, *superseded_by(result)):
                self.shared.outcomes.settled(end.seq, self.name, EntryOutcome(end.state, end.reason, end.notes))
        if verdict.kind not in {VerdictKind.DELIVERED, VerdictKind.FILTERED}:
            _log.warning(
                "not delivered",
                entry=claimed.seq,
                destination=self.name,
                state=result.state,
                reason=verdict.reason,
                attempt=claimed.tries + 1,
                codes=sorted({c for a in verdict.attempts for c in a.codes}),
            )
        if self.health.judge(claimed, verdict, now):
            await self.shared.pauses.pause(Pause(self.name, PauseReason.HOLD_STORM, verdict.reason, now, "adt-engine"))
        return retry_at is not None

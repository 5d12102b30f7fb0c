"""Dispatch: entries leave the journal in lane order, are mapped and delivered, and end visibly.

    journal.claim -> mapping.plan -> deliver (journal.intend before each write) -> journal.settle

One Dispatch serves one destination. What it claims heads all its lanes, so that everything under way at a time
belongs to different patients. The other half of the spine is intake.py.
"""

import asyncio
import contextlib
from collections import deque
from hashlib import sha256
from typing import Final

from engine import fault, telemetry
from engine.config.channel import Mode
from engine.config.destination import Destination as Settings
from engine.deliver.breaker import Gate
from engine.deliver.destination import Destination
from engine.deliver.verdict import Verdict, VerdictKind
from engine.errors import DeliveryError, DestinationError, MappingError, MessageError
from engine.fhir.plan import Merge, Plan
from engine.hl7.message import Message
from engine.journal.entry import Claimed, State
from engine.journal.journal import Journal
from engine.journal.pausing import Pause
from engine.pipeline.alerts.kind import PauseReason
from engine.pipeline.completing import LACKING, NOTE, completed
from engine.pipeline.conduct import Condition, Conduct
from engine.pipeline.counting import count_warnings
from engine.pipeline.feed import Feed
from engine.pipeline.judgement import read_message
from engine.pipeline.memory import DestinationMemory
from engine.pipeline.outcomes import Outcome
from engine.pipeline.pace import Pace
from engine.pipeline.settling import held, intent_of, settlement
from engine.pipeline.shadow import shadowed
from engine.pipeline.shared import Shared

IDLE_SECONDS: Final = 30.0
STOP_SECONDS: Final = 8.0
MOST_LATER: Final = 20

_log = telemetry.logger()


class Dispatch:
    """The deliveries of one destination, each settled before its lane goes on."""

    def __init__(
        self,
        name: str,
        destination: Destination,
        journal: Journal,
        pace: Pace,
        shared: Shared,
    ) -> None:
        self.name = name
        self.destination = destination
        self.pace = pace
        self.conduct = Conduct(name)
        self._pauses = shared.pauses
        self._merges = shared.merges
        self._next: tuple[Destination, Pace] | None = None
        self._journal = journal
        self._feeds = shared.feeds
        self._memory = DestinationMemory(name, journal)
        self._handover = shared.handover
        self._outcomes = shared.outcomes
        self._clock = shared.clock
        self._ready: deque[Claimed] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = False
        self._failed: BaseException | None = None
        self._checked = False
        self._checks = 0
        self._may_be_due = True

    def wake(self) -> None:
        """Say that there may be something to claim."""
        self._wake.set()

    async def run(self) -> None:
        """Claim and deliver until `stop` is called; a failure of the journal ends it."""
        while not self._stopping:
            self._wake.clear()
            await self._swap_when_idle()
            if self.halted:
                await self._give_back()
            elif await self._is_checked():
                await self._claim()
                self._start()
            if self._failed is not None:
                raise self._failed
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(await self._rest_seconds()):
                    await self._wake.wait()

    @property
    def settings(self) -> Settings:
        """The destination as it is described now, or will be once what is under way has ended."""
        return (self._next[0] if self._next else self.destination).settings

    @property
    def condition(self) -> Condition:
        """How the destination does, the gravest first."""
        if self._pauses.of(self.name) is not None:
            return Condition.PAUSED
        if self.conduct.failing:
            return Condition.FAILING
        if not self._checked:
            return Condition.UNREACHABLE
        return Condition.READY if self.pace.breaker.gate is Gate.CLOSED else Condition.OPEN

    @property
    def under_way(self) -> int:
        """How many deliveries are being carried out."""
        return len(self._under_way)

    @property
    def halted(self) -> bool:
        """Whether nothing may start: the destination is paused, or about to be exchanged for another."""
        return self._next is not None or self._pauses.of(self.name) is not None

    def exchange(self, destination: Destination, pace: Pace) -> None:
        """Go on at a destination that is described anew, once what is under way has ended at the old one."""
        self._next = (destination, pace)
        self._wake.set()

    async def _swap_when_idle(self) -> None:
        if self._next is None or self._under_way:
            return
        old, self.destination, self.pace = self.destination, *self._next
        self._next = None
        self._checked, self._checks, self.conduct.failing = False, 0, ""
        telemetry.BREAKER.labels(self.name).set(0)
        await self._give_back()
        await old.close()
        _log.info("destination exchanged", destination=self.name)

    async def _give_back(self) -> None:
        """Let go of what was claimed ahead: whoever reads the journal sees it waiting, and may discard it."""
        if self._ready:
            seqs, self._ready = [one.seq for one in self._ready], deque()
            await self._journal.give_back(self.name, seqs)

    async def stop(self) -> None:
        """Take nothing new, wait a bounded time for what is under way, then cut it off; a restart takes it up again."""
        self._stopping = True
        self._wake.set()
        if self._under_way:
            _done, late = await asyncio.wait(self._under_way, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _is_checked(self) -> bool:
        """Ask the destination what it can do, once; until it answers nothing is claimed for it."""
        if not self._checked:
            self._checks += 1
            try:
                abilities = await self.destination.check()
            except DeliveryError as error:
                self.conduct.failing = str(error) if isinstance(error, DestinationError) else ""
                _log.warning(
                    "destination does not answer", destination=self.name, attempt=self._checks, error=str(error)
                )
                return False
            self._checked, self.conduct.failing = True, ""
            _log.info("destination ready", destination=self.name, codes=list(abilities.missing()))
        return True

    async def _claim(self) -> None:
        """Keep as much claimed in advance as may be under way at once, and ask only when half of that is gone."""
        wanted = self.pace.ahead()
        if len(self._ready) * 2 < wanted:
            self._ready.extend(await self._journal.claim(self.name, wanted - len(self._ready), self._clock()))

    def _start(self) -> None:
        while self._ready and not self._stopping and not self.halted and self.pace.admit(len(self._under_way)):
            task = asyncio.create_task(self._deliver(self._ready.popleft()))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error
        self._start()
        # A breaker that has just opened is waited for by its own time, not by that of an idle destination.
        urgent = self._failed is not None or self.halted or self.pace.pause_seconds()
        if urgent or len(self._ready) * 2 < self.pace.ahead():
            self._wake.set()

    async def _rest_seconds(self) -> float:
        if self.halted:
            return IDLE_SECONDS
        if not self._checked:
            return self.pace.backoff_seconds(self._checks)
        if self._ready or not self._may_be_due:
            return self.pace.pause_seconds() or IDLE_SECONDS
        due = await self._journal.next_due(self.name)
        if due is None:
            self._may_be_due = False
            return IDLE_SECONDS
        wait = (due - self._clock()).total_seconds()
        return min(max(wait, self.pace.pause_seconds(), 0.0), IDLE_SECONDS)

    async def _deliver(self, claimed: Claimed) -> None:
        """Carry one entry to its settlement; whatever goes wrong with it holds it, and nothing is silent."""
        feed = self._feeds.get(claimed.channel)
        try:
            verdict, plan = await self._carry_out(claimed, feed) if feed else (held("channel-removed"), None)
        except (MappingError, MessageError) as error:
            verdict, plan = held(error.reason if isinstance(error, MappingError) else "unreadable"), None
        except Exception as error:
            if self._journal.failed:
                raise
            _log.error(
                "delivery failed",
                entry=claimed.seq,
                destination=self.name,
                error=type(error).__name__,
                point=telemetry.place_of(error),
            )
            verdict, plan = held("engine-error"), None
        await self._settle(claimed, feed, verdict, plan)

    async def _carry_out(self, claimed: Claimed, feed: Feed) -> tuple[Verdict, Plan | None]:
        plan = feed.mapping.plan(self._message(claimed, feed))
        fault.point("F10")
        if claimed.shadow or feed.channel.mode is Mode.SHADOW:
            now = self._clock()
            return shadowed(await self.destination.rehearse(plan, self._memory, at=now, channel=feed.channel)), plan
        stale = await self._memory.is_stale(claimed.lanes, plan)
        if stale and (policy := feed.channel.stale) != "apply" and not claimed.forced:
            return held("stale") if policy == "hold" else Verdict(VerdictKind.DELIVERED, "stale-skipped"), plan
        if not await self._merges_admitted(claimed, feed, plan):
            return held("merge-limit"), plan
        verdict = await self._delivered(claimed, feed, plan)
        if verdict.reason == LACKING and not verdict.attempts:
            whole = completed(plan, await self._later(claimed))
            if whole is not None:
                verdict = (await self._delivered(claimed, feed, whole)).noting(NOTE)
        return (verdict.noting("stale") if stale else verdict), plan

    async def _delivered(self, claimed: Claimed, feed: Feed, plan: Plan) -> Verdict:
        return await self.destination.deliver(
            plan,
            self._memory,
            lambda request: self._journal.intend(claimed.seq, self.name, intent_of(request)),
            at=self._clock(),
            replay=claimed.replay,
            ambiguous=claimed.open_intent is not None,
            attempts_made=claimed.attempts_made,
            channel=feed.channel,
        )

    async def _later(self, claimed: Claimed) -> list[Plan]:
        """Return the plans of what waits behind an entry, as far as they can be made."""
        plans = []
        for channel, raw in await self._journal.behind(self.name, claimed.lanes, claimed.seq, MOST_LATER):
            feed = self._feeds.get(channel)
            with contextlib.suppress(MappingError, MessageError):
                plans += [feed.mapping.plan(read_message(raw, feed.channel))] if feed else []
        return plans

    def _message(self, claimed: Claimed, feed: Feed) -> Message:
        """Return the message, as intake has read it or from its bytes; what the disk changed is never delivered."""
        message = self._handover.take(claimed.seq)
        if message is None:
            if sha256(claimed.raw).digest() != claimed.digest:
                raise MappingError("body-damaged")
            message = read_message(claimed.raw, feed.channel)
        return message

    async def _merges_admitted(self, claimed: Claimed, feed: Feed, plan: Plan) -> bool:
        """Say whether the merges of an entry are within the limit; those of a load, or that a person let go, are."""
        merges = sum(1 for interaction in plan.interactions if isinstance(interaction, Merge))
        if not merges or claimed.tries or claimed.forced or feed.channel.mode is Mode.LOAD:
            return True
        if claimed.released and feed.channel.channel not in self._merges.held:
            return True
        return await self._merges.admits(feed.channel, plan.source, plan.event_at, claimed.seq, merges, self._clock())

    async def _settle(self, claimed: Claimed, feed: Feed | None, verdict: Verdict, plan: Plan | None) -> None:
        now = self._clock()
        retry_at = self.pace.settled(verdict, claimed.tries + 1, now)
        mapping = feed.mapping.hash if feed else ""
        self._may_be_due = self._may_be_due or retry_at is not None
        keep_lane = self.destination.settings.on_held == "hold-lane"
        result = settlement(claimed, verdict, plan, mapping, retry_at, now, keep_lane=keep_lane)
        if verdict.applied and plan is not None:
            self._memory.applied(claimed.lanes, plan)
        await self._journal.settle(result)
        self.conduct.count(verdict, result)
        if result.state is not State.RECEIVED:
            count_warnings(claimed.channel, plan)
            self._outcomes.settled(claimed.seq, self.name, Outcome(result.state, result.reason))
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
        if self.conduct.judge(claimed, verdict, now):
            await self._pauses.pause(Pause(self.name, PauseReason.HOLD_STORM, verdict.reason, now, "adt-engine"))

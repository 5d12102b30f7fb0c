"""Follow-ups of a destination, outside all lanes: look-ups of admitted patients, and notices of delivered events.

journal.settle (with the promise) ... due -> asked at the destination -> how it ended, or when it is tried again

What is promised is asked at least once, through kills and restarts; the server makes asking twice one request.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar, Final

from prometheus_client import Counter

from engine import fault, telemetry
from engine.config.channel import Channel, Mode
from engine.config.destination import Destination as Settings
from engine.deliver.destination import FhirDestination
from engine.deliver.notice import Notice
from engine.deliver.reply import Ending, RequestReply
from engine.deliver.throttling import wait_seconds
from engine.errors import place_of
from engine.hl7.message import Message
from engine.journal.entry import Claimed, FollowUpKind
from engine.journal.journal import Journal
from engine.journal.state import follow_ups
from engine.journal.state.follow_ups import ASKED_ALREADY, DueRequest, FollowUpEnd, FollowUpState
from engine.pipeline.feed import PipelineContext

MOST_AT_ONCE: Final = 4
# After that many failures, which is most of an hour, a follow-up is given up.
MOST_TRIES: Final = 16
LONGEST_WAIT_SECONDS: Final = 900.0
IDLE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
# Table 0207: what is loaded, restored or archived, and not happening now.
NOT_CURRENT: Final = frozenset({"A", "I", "R"})

_log = telemetry.logger()


def happens_now(claimed: Claimed, channel: Channel, message: Message) -> bool:
    """Say whether a message tells of what happens now, for the first time: no replay, no load, no archive."""
    live = channel.mode is Mode.LIVE and not claimed.replay
    return live and message.leaf("MSH", 11, 2) not in NOT_CURRENT


class FollowUps(ABC):
    """The follow-ups of one kind; `ready` returns the destination while it may be asked, `draw` a number from 0 to 1.

    `counter` counts them by destination, state and reason, `failed` is logged of those that did not end well, and
    `answered` is the fault point after an answer.
    """

    kind: ClassVar[FollowUpKind]
    counter: ClassVar[Counter]
    failed: ClassVar[str]
    answered: ClassVar[str]

    def __init__(
        self,
        name: str,
        journal: Journal,
        shared: PipelineContext,
        ready: Callable[[], FhirDestination | None],
        draw: Callable[[], float],
    ) -> None:
        self._name = name
        self._journal = journal
        self._shared = shared
        self._ready = ready
        self._draw = draw
        self._wake = asyncio.Event()
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._failed: BaseException | None = None

    def wake(self) -> None:
        """Say that there may be something to ask for."""
        self._wake.set()

    async def run(self) -> None:
        """Ask for what is due until cancelled; what is under way then is asked again. A failed journal ends it."""
        try:
            while True:
                self._wake.clear()
                await self._start()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(await self._rest_seconds()):
                        await self._wake.wait()
                if self._failed is not None:
                    raise self._failed
        finally:
            for task in self._under_way.values():
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def _start(self) -> None:
        destination = self._ready() if self._journal.leads else None
        if destination is None:
            return
        due = partial(
            follow_ups.due, destination=self._name, kind=self.kind, now=self._shared.clock(), most=MOST_AT_ONCE
        )
        for one in await self._journal.read(due):
            if one.seq not in self._under_way and len(self._under_way) < MOST_AT_ONCE:
                task = self._under_way[one.seq] = asyncio.create_task(self._settle(destination, one))
                task.add_done_callback(partial(self._ended, one.seq))

    def _ended(self, seq: int, task: asyncio.Task[None]) -> None:
        self._under_way.pop(seq, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error
        self._wake.set()

    async def _rest_seconds(self) -> float:
        at = await self._journal.read(partial(follow_ups.next_due, destination=self._name, kind=self.kind))
        if at is None or self._ready() is None:
            return IDLE_SECONDS
        # What is under way is due all the time, and hides when the others are.
        least = LOOK_SECONDS if self._under_way else 0.0
        return min(max((at - self._shared.clock()).total_seconds(), least), IDLE_SECONDS)

    async def _settle(self, destination: FhirDestination, due: DueRequest) -> None:
        end = await self._end(destination, due)
        fault.point(self.answered)
        settle = partial(follow_ups.settle, destination=self._name, kind=self.kind, seq=due.seq, end=end)
        await self._journal.write(settle)
        telemetry.series(self.counter, self._name, end.state, end.reason).inc()
        if end.state is not FollowUpState.ACCEPTED:
            codes = list(end.codes)
            _log.warning(
                self.failed,
                entry=due.seq,
                destination=self._name,
                state=end.state,
                reason=end.reason,
                codes=codes,
                attempt=due.tries + 1,
            )

    async def _end(self, destination: FhirDestination, due: DueRequest) -> FollowUpEnd:
        now = self._shared.clock()
        feed = self._shared.feeds.get(due.channel)
        end = await self.known_end(destination, feed.channel if feed else None, due, now)
        if end is not None:
            return end
        return self._end_of(due, await self._reply(destination, due, now), destination.settings.retry.first_seconds)

    async def _reply(self, destination: FhirDestination, due: DueRequest, now: datetime) -> RequestReply:
        try:
            return await self.ask(destination, due, now)
        except Exception as error:  # noqa: BLE001 - a fault of ours ends this follow-up, and nothing else
            _log.error(
                "follow-up failed", kind=self.kind, entry=due.seq, error=type(error).__name__, point=place_of(error)
            )
            return RequestReply(Ending.REFUSED, "engine-error")

    @abstractmethod
    async def known_end(
        self, destination: FhirDestination, channel: Channel | None, due: DueRequest, now: datetime
    ) -> FollowUpEnd | None:
        """Return how one ends without asking, None where it is to be asked for; `channel` is None for one removed."""

    @abstractmethod
    async def ask(self, destination: FhirDestination, due: DueRequest, now: datetime) -> RequestReply:
        """Ask the destination."""

    def _end_of(self, due: DueRequest, reply: RequestReply, first_seconds: float) -> FollowUpEnd:
        now = self._shared.clock()
        if reply.ending is not Ending.RETRY:
            return FollowUpEnd(FollowUpState(reply.ending), reply.reason, now, reply.codes, reply.handle)
        tries = due.tries + 1
        if tries >= MOST_TRIES:
            return FollowUpEnd(FollowUpState.GIVEN_UP, reply.reason, now, reply.codes)
        wait = wait_seconds(tries, first_seconds, LONGEST_WAIT_SECONDS, self._draw())
        retry_at = now + timedelta(seconds=max(wait, reply.retry_after_seconds))
        return FollowUpEnd(FollowUpState.WAITING, reply.reason, now, reply.codes, retry_at=retry_at)


RESTRICTED: Final = "lookup-restricted"
TOO_OLD: Final = "lookup-too-old"
LOOK_UPS_OFF: Final = "lookup-turned-off"
# A patient who was asked for so lately is not asked for again: the same answer would come.
ASKED_WITHIN: Final = timedelta(minutes=10)
# Table 0717: no restriction at all, and a patient who takes part in all registries.
UNRESTRICTED: Final = frozenset({"NO", "OI"})


def refusal(
    claimed: Claimed, channel: Channel, message: Message, event_at: datetime | None, now: datetime
) -> str | None:
    """Say why no look-up is made for a delivered message: None where one is made, '' where none was asked for."""
    if claimed.event not in channel.lookup_on or not happens_now(claimed, channel, message):
        return ""
    if is_restricted(message):
        return RESTRICTED
    return TOO_OLD if now - (event_at or claimed.received_at) > channel.lookup_max_age else None


def is_restricted(message: Message) -> bool:
    """Say whether the patient's data must not be disclosed: PD1-12 protects it, or an ARV restricts access to any."""
    protected = message.leaf("PD1", 12)
    restrictions = (one for one in message.named("ARV") if one.leaf(2, 1) != "D")
    return (isinstance(protected, str) and protected.strip().upper() not in {"", "N"}) or any(
        restriction.leaf(3, 1) not in UNRESTRICTED for restriction in restrictions
    )


class LookUps(FollowUps):
    """The look-ups of one destination."""

    kind = FollowUpKind.LOOKUP
    counter = telemetry.LOOKUPS
    failed = "not looked up"
    answered = "F37"

    async def known_end(
        self, _destination: FhirDestination, channel: Channel | None, due: DueRequest, now: datetime
    ) -> FollowUpEnd | None:
        """Return how one ends that is no longer wanted, is too old by now, or was asked for a short time ago."""
        if channel is None or due.event not in channel.lookup_on or channel.mode is not Mode.LIVE:
            return FollowUpEnd(FollowUpState.GIVEN_UP, LOOK_UPS_OFF, now, asked=False)
        if now - due.began > channel.lookup_max_age:
            return FollowUpEnd(FollowUpState.GIVEN_UP, TOO_OLD, now, asked=False)
        asked = partial(follow_ups.recent, destination=self._name, patient=due.patient, now=now, within=ASKED_WITHIN)
        handle = await self._journal.read(asked)
        if handle is None:
            return None
        return FollowUpEnd(FollowUpState.ACCEPTED, ASKED_ALREADY, now, handle=handle, asked=False)

    async def ask(self, destination: FhirDestination, due: DueRequest, now: datetime) -> RequestReply:
        """Ask for a look-up of the patient."""
        return await destination.look_up(due.patient, now)


NOTICES_OFF: Final = "notice-turned-off"
OFF: Final = "off"
ADT: Final = "ADT"


def is_announced(claimed: Claimed, channel: Channel, settings: Settings, message: Message) -> bool:
    """True if a delivered message is announced to its destination: an ADT event of now, where that is set."""
    return settings.notify != OFF and message.leaf("MSH", 9, 1) == ADT and happens_now(claimed, channel, message)


class Notices(FollowUps):
    """The notices of one destination."""

    kind = FollowUpKind.NOTICE
    counter = telemetry.NOTICES
    failed = "not notified"
    answered = "F48"

    async def known_end(
        self, destination: FhirDestination, channel: Channel | None, _due: DueRequest, now: datetime
    ) -> FollowUpEnd | None:
        """Return how one ends that is no longer wanted."""
        if channel is None or destination.settings.notify == OFF or channel.mode is not Mode.LIVE:
            return FollowUpEnd(FollowUpState.GIVEN_UP, NOTICES_OFF, now, asked=False)
        return None

    async def ask(self, destination: FhirDestination, due: DueRequest, now: datetime) -> RequestReply:
        """Tell the destination of the event."""
        notice = Notice(due.channel, due.digest, due.event, due.received_at, due.patient, due.visit)
        return await destination.notify(notice, now)

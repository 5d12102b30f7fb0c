"""Look-ups of one destination: whoever was admitted there is looked up on the networks, beside all lanes.

journal.settle (with the promise) ... due -> asked at the destination -> how it ended, or when it is tried again

What is promised is asked at least once, through kills and restarts; the server makes asking twice one look-up.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine import fault, telemetry
from engine.config.channel import Channel, Mode
from engine.deliver.destination import Destination
from engine.deliver.pace.backoff import wait_seconds
from engine.deliver.reply import Ending, Reply
from engine.errors import place_of
from engine.hl7.message import Message
from engine.journal.entry import Claimed
from engine.journal.journal import Journal
from engine.journal.state import lookups
from engine.journal.state.lookups import ASKED_ALREADY, Due, LookUpEnd, LookUpState
from engine.pipeline.shared import Shared

RESTRICTED: Final = "lookup-restricted"
TOO_OLD: Final = "lookup-too-old"
TURNED_OFF: Final = "lookup-turned-off"
# A patient who was asked for so lately is not asked for again: the same answer would come.
ASKED_WITHIN: Final = timedelta(minutes=10)
MOST_AT_ONCE: Final = 4
# After that many failures, which is most of an hour, a look-up is given up.
MOST_TRIES: Final = 16
LONGEST_WAIT_SECONDS: Final = 900.0
IDLE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
# Table 0207: what is loaded, restored or archived, and not happening now.
NOT_CURRENT: Final = frozenset({"A", "I", "R"})
# Table 0717: no restriction at all, and a patient who takes part in all registries.
UNRESTRICTED: Final = frozenset({"NO", "OI"})

_log = telemetry.logger()


def refusal(
    claimed: Claimed, channel: Channel, message: Message, event_at: datetime | None, now: datetime
) -> str | None:
    """Say why no look-up is made for a delivered message: None where one is made, '' where none was asked for."""
    if claimed.event not in channel.lookup_on or claimed.replay or channel.mode is not Mode.LIVE:
        return ""
    if message.leaf("MSH", 11, 2) in NOT_CURRENT:
        return ""
    if is_restricted(message):
        return RESTRICTED
    return TOO_OLD if now - (event_at or claimed.received_at) > channel.lookup_max_age else None


def is_restricted(message: Message) -> bool:
    """Say whether the patient's data must not be disclosed: PD1-12 protects it, or an ARV restricts access to any."""
    protected = message.leaf("PD1", 12)
    restrictions = (one for one in message.named("ARV") if one.leaf(2, 1) != "D")
    return (isinstance(protected, str) and protected.strip().upper() not in {"", "N"}) or any(
        one.leaf(3, 1) not in UNRESTRICTED for one in restrictions
    )


class LookUps:
    """The look-ups of one destination; `ready` returns it while it may be asked, `draw` a number from 0 up to 1."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        shared: Shared,
        ready: Callable[[], Destination | None],
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
        destination = self._ready()
        if destination is None:
            return
        due = partial(lookups.due, destination=self._name, now=self._shared.clock(), most=MOST_AT_ONCE)
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
        at = await self._journal.read(partial(lookups.next_due, destination=self._name))
        if at is None or self._ready() is None:
            return IDLE_SECONDS
        # What is under way is due all the time, and hides when the others are.
        least = LOOK_SECONDS if self._under_way else 0.0
        return min(max((at - self._shared.clock()).total_seconds(), least), IDLE_SECONDS)

    async def _settle(self, destination: Destination, due: Due) -> None:
        end = await self._end(destination, due)
        fault.point("F37")
        await self._journal.write(partial(lookups.settle, destination=self._name, seq=due.seq, end=end))
        telemetry.series(telemetry.LOOKUPS, self._name, end.state, end.reason).inc()
        if end.state is not LookUpState.ACCEPTED:
            codes = list(end.codes)
            _log.warning(
                "not looked up",
                entry=due.seq,
                destination=self._name,
                state=end.state,
                reason=end.reason,
                codes=codes,
                attempt=due.tries + 1,
            )

    async def _end(self, destination: Destination, due: Due) -> LookUpEnd:
        now = self._shared.clock()
        feed = self._shared.feeds.get(due.channel)
        if feed is None or due.event not in feed.channel.lookup_on or feed.channel.mode is not Mode.LIVE:
            return LookUpEnd(LookUpState.GIVEN_UP, TURNED_OFF, now, asked=False)
        if now - due.began > feed.channel.lookup_max_age:
            return LookUpEnd(LookUpState.GIVEN_UP, TOO_OLD, now, asked=False)
        asked = partial(lookups.recent, destination=self._name, patient=due.patient, now=now, within=ASKED_WITHIN)
        handle = await self._journal.read(asked)
        if handle is not None:
            return LookUpEnd(LookUpState.ACCEPTED, ASKED_ALREADY, now, handle=handle, asked=False)
        return self._end_of(due, await self._reply(destination, due, now), destination.settings.retry.first_seconds)

    async def _reply(self, destination: Destination, due: Due, now: datetime) -> Reply:
        try:
            return await destination.look_up(due.patient, now)
        except Exception as error:  # noqa: BLE001 - a fault of ours ends this look-up, and nothing beside it
            _log.error("look-up failed", entry=due.seq, error=type(error).__name__, point=place_of(error))
            return Reply(Ending.REFUSED, "engine-error")

    def _end_of(self, due: Due, reply: Reply, first_seconds: float) -> LookUpEnd:
        now = self._shared.clock()
        if reply.ending is not Ending.RETRY:
            return LookUpEnd(LookUpState(reply.ending), reply.reason, now, reply.codes, reply.handle)
        tries = due.tries + 1
        if tries >= MOST_TRIES:
            return LookUpEnd(LookUpState.GIVEN_UP, reply.reason, now, reply.codes)
        wait = wait_seconds(tries, first_seconds, LONGEST_WAIT_SECONDS, self._draw())
        retry_at = now + timedelta(seconds=max(wait, reply.retry_after_seconds))
        return LookUpEnd(LookUpState.WAITING, reply.reason, now, reply.codes, retry_at=retry_at)

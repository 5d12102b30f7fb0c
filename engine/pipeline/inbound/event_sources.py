"""Who brings the events of a FHIR server by itself: for each such channel a task that asks for its history.

With `source: subscription` the server sends them, and the history is asked for what it did not send: what was given up
while nobody took it, and deletions, which many a server does not send at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from engine import telemetry
from engine.config.channel import Channel
from engine.config.fhir_events import SUBSCRIPTION, WEBHOOK, FhirEvents
from engine.deliver.fhir_reader import FhirReader
from engine.errors import AdtEngineError, JournalError, place_of
from engine.journal.entry import Recorded
from engine.journal.journal import Journal
from engine.pipeline.inbound.event_subscriptions import EventSubscriptions
from engine.pipeline.inbound.history import UNREADABLE, UNSUPPORTED, EventHistory, Take
from engine.receive.reply import Peer

NOT_STORED: Final = "not-stored"
# With a Subscription: how often the history is asked, each how many times the Subscriptions are looked at, and how long
# what the server may be sending just now is left to it.
CATCH_UP_SECONDS: Final = 60.0
KEEP_EVERY: Final = 5
LEFT_TO_THE_SERVER: Final = timedelta(seconds=20)
MOST_WAIT_SECONDS: Final = 60.0
# How often a node that does not lead looks whether it does.
LED_SECONDS: Final = 2.0

_log = telemetry.logger()


class EventSource:
    """One channel's source; `failing` is why it brings nothing, empty while it does.

    `lacks`: what the server cannot do, although its events come in.
    """

    def __init__(
        self, channel: str, events: FhirEvents, reader: FhirReader, journal: Journal, take: Take,
        clock: Callable[[], datetime],
    ) -> None:  # fmt: skip
        by_subscription = events.source == SUBSCRIPTION
        self.failing = self.lacks = ""
        self.since: datetime | None = None
        self._channel = channel
        self._reader = reader
        self._journal = journal
        self._clock = clock
        self._every = CATCH_UP_SECONDS if by_subscription else events.every_seconds
        self._history = EventHistory(
            channel, events, reader, journal, take, clock, until_age=LEFT_TO_THE_SERVER if by_subscription else None
        )
        self._subscriptions = EventSubscriptions(channel, events, reader, journal) if by_subscription else None
        self._turns = self._failures = 0

    async def run(self) -> None:
        """Bring events until cancelled."""
        try:
            while True:  # noqa: ASYNC110 - it is a server of others that is waited for
                await asyncio.sleep(await self.turn())
        finally:
            await self._reader.close()

    async def turn(self) -> float:
        """Bring what there is; return in how many seconds to do so again.

        Of several nodes the one that leads does it.
        """
        if not self._journal.leads:
            self._well()
            return min(self._every, LED_SECONDS)
        try:
            more = await self._bring()
        except JournalError:
            return self._failed(NOT_STORED)
        except AdtEngineError as error:
            return self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - what a server says must not end the engine
            _log.error("events failed", channel=self._channel, error=type(error).__name__, point=place_of(error))
            return self._failed(UNREADABLE)
        self._well()
        return 0.0 if more else self._every

    def unread(self, now: datetime, patience_seconds: float) -> str:
        """Return why nothing comes, once that lasts or cannot pass by itself; empty where all is well."""
        if self.since is None:
            return ""
        lasts = (now - self.since).total_seconds() >= patience_seconds
        return ", ".join(filter(None, (self.failing, self.lacks))) if lasts or self.failing == UNSUPPORTED else ""

    async def _bring(self) -> bool:
        """Keep the Subscriptions, and take what is new in the history; say whether there is more.

        The history is asked although a Subscription is refused: what comes by it is not lost.
        """
        if self._subscriptions is None:
            return await self._history.round()
        refused: AdtEngineError | None = None
        try:
            if self._turns % KEEP_EVERY == 0:
                await self._subscriptions.keep()
            self._turns += 1
        except AdtEngineError as error:
            refused = error
        more = await self._catch_up()
        if refused is not None:
            raise refused
        return more

    async def _catch_up(self) -> bool:
        try:
            more = await self._history.round()
        except AdtEngineError as error:
            if str(error) != UNSUPPORTED:
                raise
            if not self.lacks:
                _log.warning("missed events are not caught up", channel=self._channel, reason=UNSUPPORTED)
            self.lacks = UNSUPPORTED
            return False
        self.lacks = ""
        return more

    def _failed(self, reason: str) -> float:
        if self.since is None:
            self.since = self._clock()
            _log.error("events unread", channel=self._channel, reason=reason)
        self.failing = reason
        self._failures += 1
        return min(2.0 ** min(self._failures - 1, 6), MOST_WAIT_SECONDS)

    def _well(self) -> None:
        if self.since is not None:
            _log.info("events read again", channel=self._channel)
        self.failing, self.since, self._failures = "", None, 0


class EventSources:
    """The sources of one engine by channel; `take` records what they bring."""

    def __init__(
        self,
        journal: Journal,
        reader_of: Callable[[Channel, FhirEvents], FhirReader],
        watch: Callable[[Awaitable[None]], None],
        clock: Callable[[], datetime],
    ) -> None:
        self.take: Take = _nobody
        self._journal = journal
        self._reader_of = reader_of
        self._watch = watch
        self._clock = clock
        self.open: dict[str, EventSource] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, channel: Channel) -> None:
        """Begin to bring the events of a channel, if it has such a source; StartError where its files are unusable."""
        await self.stop(channel.channel)
        events = channel.listen.fhir
        if events is None or events.source == WEBHOOK:
            return
        reader = self._reader_of(channel, events)
        source = EventSource(channel.channel, events, reader, self._journal, self._recorded, self._clock)
        self.open[channel.channel] = source
        self._tasks[channel.channel] = task = asyncio.ensure_future(source.run())
        self._watch(task)

    async def stop(self, name: str) -> None:
        """Bring no more events of a channel; what was handed over is recorded, or comes again."""
        self.open.pop(name, None)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def unread(self, name: str, now: datetime, patience_seconds: float) -> str:
        """Return why the events of a channel are not read, empty where they are."""
        found = self.open.get(name)
        return found.unread(now, patience_seconds) if found is not None else ""

    async def _recorded(self, channel: str, pieces: Sequence[bytes], peer: Peer) -> Sequence[Recorded]:
        return await self.take(channel, pieces, peer)


async def _nobody(_channel: str, _pieces: Sequence[bytes], _peer: Peer) -> Sequence[Recorded]:
    raise JournalError

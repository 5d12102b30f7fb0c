"""Listeners: where channels listen; opened, closed, changed and stopped without dropping anybody else's connection."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from engine import telemetry
from engine.config.channel import Channel
from engine.config.listener_settings import Mllp
from engine.errors import AdtEngineError
from engine.journal.journal import Journal
from engine.journal.state import pausing
from engine.journal.state.pausing import Stopped
from engine.pipeline.feed import Feeds
from engine.pipeline.inbound.event_sources import EventSources
from engine.pipeline.intake import Intake
from engine.receive.block import EventKind
from engine.receive.conversation import FAILED
from engine.receive.listener import Listener, OpenListener, listen
from engine.receive.listener.admission import Refusals
from engine.receive.tls import Certificates

DRAIN_SECONDS: Final = 5.0
STALL_SECONDS: Final = 10.0
# Who is turned away before a byte is read: said in the log, but not more often than this.
TURNED_AWAY: Final = frozenset({"refused-full", "refused-address"})
# What went wrong in our own code; said likewise.
BROKEN: Final = frozenset({FAILED, "answer-failed"})
# What a sender does otherwise than MLLP has it; said likewise, of each address.
STRAYING: Final = frozenset({EventKind.BARE_END, EventKind.UNFRAMED})
MOST_ADDRESSES: Final = 100
SILENCE_SECONDS: Final = 60.0

_log = telemetry.logger()


class Listeners:
    """The listeners of one engine by channel; `intake_of` makes what answers behind one.

    `sources` bring events to the channels that ask for them; they go on and stop with the listeners.
    """

    def __init__(self, journal: Journal, intake_of: Callable[[str], Intake], sources: EventSources) -> None:
        self._journal = journal
        self._intake_of = intake_of
        self._sources = sources
        self.open: dict[str, OpenListener] = {}
        self.intakes: dict[str, Intake] = {}
        self.stopped: dict[str, Stopped] = {}
        # Who was refused at a channel's HTTP door.
        self.posts_refused: dict[str, Refusals] = {}
        # How often senders of a channel strayed from the protocol since the start, by kind.
        self.strayed: dict[str, Counter[str]] = {}
        self._observed_posts: dict[str, Observed] = {}
        # What is stopped and started here and at other nodes goes one by one.
        self._changing = asyncio.Lock()

    async def recall(self) -> None:
        """Take up which channels were stopped before the start."""
        self.stopped = {one.channel: one for one in await self._journal.read(pausing.stopped)}

    async def catch_up(self, feeds: Feeds) -> None:
        """Take up which channels other nodes have stopped and started since."""
        async with self._changing:
            await self._catch_up(feeds)

    async def _catch_up(self, feeds: Feeds) -> None:
        stopped = {one.channel: one for one in await self._journal.read(pausing.stopped)}
        started = self.stopped.keys() - stopped.keys()
        for name in stopped.keys() - self.stopped.keys():
            self.stopped[name] = stopped[name]
            await self.leave(name)
            _log.warning("channel stopped", channel=name)
        self.stopped = stopped
        for name in started & feeds.keys():
            await self.enter(feeds[name].channel)

    async def enter(self, channel: Channel) -> None:
        """Open the listeners of a channel, unless it is stopped; StartError where the port cannot be had."""
        name = channel.channel
        if name in self.stopped:
            _log.warning("channel stays stopped", channel=name)
            return
        intake = self._intake_of(name)
        if channel.listen.mllp is not None:
            self.open[name] = listening = await self._listen(channel, channel.listen.mllp, intake)
            _log.info("listening", channel=name, address=listening.host, port=listening.port)
        await self._sources.start(channel)
        self.intakes[name] = intake

    def refused(self, name: str) -> Mapping[tuple[str, str], int]:
        """Return who was refused at a channel's doors since this was asked last, by what, and how often."""
        listening, posts = self.open.get(name), self.posts_refused.get(name)
        by_line = listening.refused() if listening is not None else {}
        return Counter(by_line) + Counter(posts.take() if posts is not None else {})

    def refuse_post(self, name: str, address: str, by: str, event: str = "refused-full") -> None:
        """Note that a channel's HTTP door refused a message before it was read: who sent it, and what refused it."""
        self.posts_refused.setdefault(name, Refusals()).add(address, by)
        self._observed_posts.setdefault(name, Observed(name))(event)

    async def leave(self, name: str, seconds: float = DRAIN_SECONDS) -> None:
        """Close the listeners of a channel after what is under way was answered, at most `seconds` later."""
        self.intakes.pop(name, None)
        await self._sources.stop(name)
        listening = self.open.pop(name, None)
        if listening is not None:
            await listening.drain(seconds)

    async def leave_all(self) -> None:
        """Stop reading everywhere, answer what is in flight, close."""
        await asyncio.gather(*(self.leave(name) for name in {*self.open, *self.intakes}))

    async def change(self, before: Mapping[str, Channel], after: Mapping[str, Channel]) -> None:
        """Make the listeners those of `after`; a channel whose listener stays keeps its connections.

        StartError where a port cannot be had; then every listener is again as it was before.
        """
        names = dict.fromkeys((*before, *after))
        changed = [name for name in names if _listener(before.get(name)) != _listener(after.get(name))]
        ports = {name: listening.port for name, listening in self.open.items()}
        done: list[str] = []
        try:
            for name in changed:
                done.append(name)
                await self._change(name, before.get(name), after.get(name))
        except AdtEngineError:
            await self._undo({name: before.get(name) for name in done}, ports)
            raise

    async def _change(self, name: str, before: Channel | None, after: Channel | None) -> None:
        """Open a listener that has moved before the old one is closed, so that a failure costs nobody a connection."""
        old = None
        if before is not None and after is not None and _address(before) != _address(after):
            old = self.open.pop(name, None)
            try:
                await self.enter(after)
            except AdtEngineError:
                if old is not None:
                    self.open[name] = old
                raise
            if old is not None:
                await old.drain(DRAIN_SECONDS)
            return
        if after is not None and after.listen.mllp is not None and after.listen.mllp.tls is not None:
            Certificates(after.listen.mllp.tls, Observed(name))
        await self.leave(name)
        if after is not None:
            await self.enter(after)

    async def _undo(self, before: Mapping[str, Channel | None], ports: Mapping[str, int]) -> None:
        for name, channel in before.items():
            if channel is None:
                await self.leave(name)
                continue
            listening = self.open.get(name)
            if (
                listening is not None
                and _same(listening.listener.mllp, channel)
                and listening.listener.limits == channel.limits
            ):
                continue
            await self.leave(name)
            try:
                await self.enter(_at_port(channel, ports.get(name)))
            except AdtEngineError as error:
                _log.critical("listener not reopened", channel=name, error=str(error))

    async def start(self, channel: Channel) -> bool:
        """Let a stopped channel listen again; False where it was not stopped. StartError leaves it stopped."""
        async with self._changing:
            was = self.stopped.pop(channel.channel, None)
            if was is None:
                return False
            try:
                await self.enter(channel)
            except AdtEngineError:
                self.stopped[channel.channel] = was
                raise
            await self._journal.write(partial(pausing.start, channel=channel.channel))
        _log.info("channel started", channel=channel.channel)
        return True

    async def stop(self, name: str, now: datetime, by: str, patience: float = 0.0) -> None:
        """Close the listeners of a channel and keep them closed, over restarts, until somebody starts it.

        `patience`: seconds that answers under way may take beyond the usual: where they wait for a delivery.
        """
        async with self._changing:
            self.stopped.setdefault(name, Stopped(name, now, by))
            await self._journal.write(partial(pausing.stop, channel=name, now=now, by=by))
        await self.leave(name, DRAIN_SECONDS + patience)
        _log.warning("channel stopped", channel=name)

    async def _listen(self, channel: Channel, mllp: Mllp, intake: Intake) -> OpenListener:
        stall = channel.acknowledge.within_seconds + STALL_SECONDS
        listener = Listener(channel.channel, mllp, channel.limits, channel.allow, stall_seconds=stall)
        strayed = self.strayed.setdefault(channel.channel, Counter())
        return await listen(listener, intake.answer, Observed(channel.channel, strayed=strayed))


def _listener(channel: Channel | None) -> tuple[object, ...]:
    if channel is None:
        return ()
    return channel.listen, channel.limits, channel.allow, channel.acknowledge.within_seconds


def _address(channel: Channel) -> tuple[object, ...]:
    mllp = channel.listen.mllp
    return (mllp.host, mllp.port) if mllp is not None else ()


def _same(mllp: Mllp, channel: Channel) -> bool:
    return channel.listen.mllp is not None and channel.listen.mllp.model_copy(update={"port": mllp.port}) == mllp


def _at_port(channel: Channel, port: int | None) -> Channel:
    """Return a channel that listens on the port which it had, where its file leaves the choice to the system."""
    mllp = channel.listen.mllp
    if mllp is None or mllp.port or port is None:
        return channel
    listen = channel.listen.model_copy(update={"mllp": mllp.model_copy(update={"port": port})})
    return channel.model_copy(update={"listen": listen})


class Observed:
    """What happens on a channel's connections: counted, and what somebody should look at, said once a minute."""

    def __init__(
        self, channel: str, clock: Callable[[], float] = time.monotonic, strayed: Counter[str] | None = None
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._strayed = Counter() if strayed is None else strayed
        self._logged_at: dict[tuple[str, str], float] = {}
        self._addresses: set[str] = set()

    def __call__(self, kind: str, /, **about: str) -> None:
        """Hear of one event."""
        telemetry.BLOCKS.labels(self._channel, kind).inc()
        if kind in STRAYING:
            self._strayed[kind] += 1
        if kind == EventKind.UNFRAMED:
            telemetry.UNFRAMED.labels(self._channel, self._counted(about["address"]), about["first"]).inc()
        if kind in TURNED_AWAY and self._is_due(kind):
            _log.warning("connections refused", channel=self._channel, reason=kind)
        elif kind in BROKEN and self._is_due(kind):
            _log.error("connection failed", channel=self._channel, reason=kind, **about)
        elif kind in STRAYING and self._is_due(kind, self._counted(about["address"])):
            level = _log.error if kind == EventKind.UNFRAMED else _log.warning
            level("not as MLLP has it", channel=self._channel, reason=kind, **about)

    def _counted(self, address: str) -> str:
        """Return an address, or `other` where many have been seen: neither log nor metrics grow without a bound."""
        if len(self._addresses) < MOST_ADDRESSES:
            self._addresses.add(address)
        return address if address in self._addresses else "other"

    def _is_due(self, kind: str, address: str = "") -> bool:
        now = self._clock()
        due = now - self._logged_at.get((kind, address), -SILENCE_SECONDS) >= SILENCE_SECONDS
        if due:
            self._logged_at[kind, address] = now
        return due

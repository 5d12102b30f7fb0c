"""How many merges one source may send: a brake against a runaway or forged merge feed (`merge_limit`).

Past it the merges of the whole channel are held, over restarts, until a person lets them go on.
"""

import asyncio
from collections import deque
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine.config.channel import Channel
from engine.journal.journal import Journal
from engine.journal.state import pausing
from engine.journal.state.pausing import CountedMerge, HeldMerges

CEILING: Final = 10
MOST_COUNTED: Final = 20_000


class MergeCounter:
    """Counts the merges of each source in event time, so that a backlog does not trip it.

    At most `merges` within `window` of event time, and ten times that within `window` of real time.
    """

    def __init__(self, merges: int, window: timedelta) -> None:
        self._merges = merges
        self._window = window
        self._by_event: dict[str, deque[datetime]] = {}
        self._by_clock: dict[str, deque[datetime]] = {}

    def admit(self, source: str, event_at: datetime | None, now: datetime) -> bool:
        """Count one merge of a source; False where it is one too many (and then it is not counted)."""
        event_at = event_at or now
        clock = self._by_clock.setdefault(source, deque())
        while clock and clock[0] <= now - self._window:
            clock.popleft()
        near = sum(1 for earlier in self._by_event.get(source, ()) if abs(earlier - event_at) < self._window)
        if near >= self._merges or len(clock) >= self._merges * CEILING:
            return False
        self.counted(source, event_at, now)
        return True

    def counted(self, source: str, event_at: datetime, at: datetime) -> None:
        """Take a merge as counted."""
        events = self._by_event.setdefault(source, deque())
        events.append(event_at)
        self._by_clock.setdefault(source, deque()).append(at)
        while len(events) > self._merges * CEILING:
            events.popleft()

    def used(self, now: datetime) -> tuple[int, int]:
        """Return how many merges the source nearest to its limit has, as its next one would be counted, of how many.

        That is by event time, or by real time where the ceiling is nearer. 0 once the window of real time is over.
        """
        found = [(0, self._merges)]
        for source, clock in self._by_clock.items():
            recent = sum(at > now - self._window for at in clock)
            events = self._by_event[source]
            expected = events[-1] + (now - clock[-1]) if recent else now
            near = sum(abs(event - expected) < self._window for event in events) if recent else 0
            found += [(near, self._merges), (recent, self._merges * CEILING)]
        return max(found, key=lambda one: one[0] / one[1])


class MergeRateLimiter:
    """Limits how many merges per time each channel carries out; the journal stores the counts."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._limits: dict[str, tuple[tuple[int, timedelta], MergeCounter]] = {}
        self._counted: deque[CountedMerge] = deque(maxlen=MOST_COUNTED)
        self._seqs: dict[int, None] = {}
        self._stopped: dict[str, int] = {}
        self._let: set[int] = set()
        self.held: dict[str, HeldMerges] = {}
        # What is counted here and at other nodes goes one by one.
        self._counting = asyncio.Lock()

    async def open(self) -> None:
        """Take up what was counted and held before the start."""
        self._counted.extend(await self._journal.read(pausing.counted))
        self._seqs = dict.fromkeys(one.seq for one in self._counted)
        self.held = {one.channel: one for one in await self._journal.read(pausing.held)}

    async def catch_up(self) -> None:
        """Take up what other nodes have counted, held and let go since."""
        async with self._counting:
            await self._catch_up()

    async def _catch_up(self) -> None:
        self.held = {one.channel: one for one in await self._journal.read(pausing.held)}
        counted = await self._journal.read(pausing.counted)
        if [one.seq for one in counted] != [one.seq for one in self._counted]:
            self._counted = deque(counted, maxlen=MOST_COUNTED)
            self._seqs |= dict.fromkeys(one.seq for one in counted)
            self._limits.clear()

    async def admits(
        self, channel: Channel, source: str, event_at: datetime | None, seq: int, merges: int, now: datetime
    ) -> bool:
        """Say whether an entry's merges may be carried out, and count them; the first one too many holds the channel.

        An entry counts once, whatever destinations it has, and is let through again after a restart. The one that was
        too many goes once a person has let the channel merge again, however many merges it has by itself.
        """
        async with self._counting:
            if self._journal.is_shared:
                await self._catch_up()
            return await self._admits(channel, source, event_at, seq, merges, now)

    async def _admits(
        self, channel: Channel, source: str, event_at: datetime | None, seq: int, merges: int, now: datetime
    ) -> bool:
        if channel.channel in self.held:
            return False
        if seq in self._seqs:
            return True
        limit = self.limit(channel)
        let = seq in self._let
        if let or all(limit.admit(source, event_at, now) for _ in range(merges)):
            self._let.discard(seq)
            for _ in range(merges if let else 0):
                limit.counted(source, event_at or now, now)
            self._seqs[seq] = None
            if len(self._seqs) > MOST_COUNTED:
                del self._seqs[next(iter(self._seqs))]
            counted = [CountedMerge(channel.channel, source, event_at or now, now, seq)] * merges
            await self._journal.write(partial(pausing.count, merges=counted, keep=channel.merge_limit.merges * CEILING))
            self._counted += counted
            return True
        self._stopped[channel.channel] = seq
        held = self.held.setdefault(channel.channel, HeldMerges(channel.channel, source, now))
        await self._journal.write(partial(pausing.hold, held=held))
        return False

    async def let(self, channel: str) -> bool:
        """Let a channel merge again, counting from nothing; False where its merges were not held."""
        async with self._counting:
            was = await self._journal.write(partial(pausing.let, channel=channel))
            self.held.pop(channel, None)
            if channel in self._stopped:
                self._let.add(self._stopped.pop(channel))
            self._limits.pop(channel, None)
            kept = [one for one in self._counted if one.channel != channel]
            self._counted = deque(kept, maxlen=MOST_COUNTED)
            return was

    def limit(self, channel: Channel) -> MergeCounter:
        """Return the counter of a channel; after a change of its limit it counts what was counted by the new one."""
        terms = channel.merge_limit.merges, channel.merge_window
        known = self._limits.get(channel.channel)
        if known is None or known[0] != terms:
            limit = MergeCounter(*terms)
            for one in self._counted:
                if one.channel == channel.channel:
                    limit.counted(one.source, one.event_at, one.at)
            known = self._limits[channel.channel] = terms, limit
        return known[1]

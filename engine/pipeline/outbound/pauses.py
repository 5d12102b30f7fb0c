"""Pauses: destinations that take nothing until somebody says otherwise, and the brake that pauses one by itself."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine import telemetry
from engine.journal.journal import Journal
from engine.journal.state import pausing
from engine.journal.state.pausing import Pause

STORM_LANES: Final = 50
STORM_WINDOW: Final = timedelta(minutes=5)
# Holds that a channel asks for, or that have a brake of their own, are no fault of mapping or server.
NO_STORM: Final = frozenset(
    {
        "channel-removed",
        "demographic-match",
        "merge-conflict",
        "merge-limit",
        "merged-identifier",
        "overlay-suspected",
        "stale",
        "visit-reused",
    }
)

_log = telemetry.logger()


class Pauses:
    """The destinations of one engine that are paused, in memory and in the journal alike."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._paused: dict[str, Pause] = {}
        # What is paused and resumed here and at other nodes goes one by one.
        self._changing = asyncio.Lock()

    async def open(self, destinations: Iterable[str]) -> None:
        """Take up what was paused before the start; a restored journal pauses each of the destinations."""
        found = await self._journal.write(partial(pausing.paused_at_start, destinations=tuple(destinations)))
        self._paused = {one.destination: one for one in found}
        for one in found:
            _log.warning("destination stays paused", destination=one.destination, reason=one.reason)

    async def catch_up(self) -> bool:
        """Take up what other nodes have paused and let go on since; say whether that was anything."""
        async with self._changing:
            found = {one.destination: one for one in await self._journal.read(pausing.paused)}
            changed = found.keys() != self._paused.keys()
            self._paused = found
            return changed

    def of(self, destination: str) -> Pause | None:
        """Return why a destination is paused; None where it is not."""
        return self._paused.get(destination)

    def all(self) -> tuple[Pause, ...]:
        """Return what is paused, by name."""
        return tuple(self._paused[name] for name in sorted(self._paused))

    async def pause(self, pause: Pause) -> Pause:
        """Pause a destination; one that is paused already stays so for its first reason, which is returned."""
        async with self._changing:
            found = self._paused.setdefault(pause.destination, pause)
            await self._journal.write(partial(pausing.pause, pauses=(pause,)))
        _log.error("destination paused", destination=pause.destination, reason=found.reason, code=found.detail)
        return found

    async def resume(self, destination: str) -> bool:
        """Let a destination go on; False where it was not paused."""
        async with self._changing:
            was = await self._journal.write(partial(pausing.resume, destination=destination))
            self._paused.pop(destination, None)
        if was:
            _log.info("destination resumed", destination=destination)
        return was


class HoldStorm:
    """Counts the lanes that one destination's failures hold: the same failure in many is no matter of one patient."""

    def __init__(self) -> None:
        self._lanes: dict[str, dict[int, datetime]] = {}

    def held(self, reason: str, lanes: tuple[int, ...], seq: int, now: datetime) -> bool:
        """Note a held entry; True where the same reason held as many lanes in a short time as make a storm."""
        if reason in NO_STORM:
            return False
        held = self._lanes.setdefault(reason, {})
        held[min(lanes, default=-seq)] = now
        if len(held) < STORM_LANES:
            return False
        held = self._lanes[reason] = {lane: at for lane, at in held.items() if now - at < STORM_WINDOW}
        if len(held) < STORM_LANES:
            return False
        self._lanes.clear()
        return True

"""What is known of each site: asked at intervals, all at the same time, whoever looks and however many do."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from engine import telemetry
from engine.clock import now
from engine.config.sites import Sites, SiteSettings
from engine.errors import place_of
from engine.ops.sites.asking import SiteAnswer, ask

LOOK_SECONDS: Final = 1.0
# A description of the API is long: the version that it says is taken as known for so long.
VERSION_SECONDS: Final = 300.0

Ask = Callable[[SiteSettings, float, str], Awaitable[SiteAnswer]]

_log = telemetry.logger()


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """What is known of one site; `answer` is None until it was asked.

    `since`: the first question of a row that was not answered; `answered_at`: the last one that was.
    """

    settings: SiteSettings
    answer: SiteAnswer | None = None
    since: datetime | None = None
    answered_at: datetime | None = None


@dataclass(slots=True)
class _Watched:
    """One site while it is watched; times are of the steady clock."""

    status: SiteStatus
    due: float = float("-inf")
    version_until: float = float("-inf")
    task: asyncio.Task[None] | None = field(default=None)


class SiteMonitor:
    """Asks each of `configured()` every `refresh_seconds`; a slow one delays only itself.

    Settings that a reload changes hold from the next look on; what is known of a site whose settings stay is kept.
    """

    def __init__(
        self,
        configured: Callable[[], Sites],
        clock: Callable[[], datetime] = now,
        ticks: Callable[[], float] = time.monotonic,
        question: Ask = ask,
    ) -> None:
        self._configured = configured
        self._clock = clock
        self._ticks = ticks
        self._ask = question
        self._watched: dict[str, _Watched] = {}

    @property
    def is_used(self) -> bool:
        """Whether any site is configured."""
        return bool(self._configured().sites)

    def statuses(self) -> Sequence[SiteStatus]:
        """Return what is known of each site, in the order of the file."""
        known = self._watched
        return [
            known[site.name].status
            if site.name in known and known[site.name].status.settings == site
            else SiteStatus(site)
            for site in self._configured().sites
        ]

    async def run(self) -> None:
        """Ask, until cancelled; what is under way then is cancelled as well."""
        try:
            while True:
                self.begin()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            tasks = [watched.task for watched in self._watched.values() if watched.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self) -> Sequence[asyncio.Task[None]]:
        """Begin to ask each site whose turn it is, and return what is under way."""
        settings = self._configured()
        self._adopt(settings.sites)
        for watched in self._watched.values():
            if watched.task is None and watched.due <= self._ticks():
                watched.due = self._ticks() + settings.refresh_seconds
                watched.task = asyncio.create_task(self._one(watched, settings.timeout_seconds))
        return [watched.task for watched in self._watched.values() if watched.task is not None]

    def _adopt(self, sites: Sequence[SiteSettings]) -> None:
        """Watch the sites that are configured now, and no others."""
        before, self._watched = self._watched, {}
        for site in sites:
            known = before.get(site.name)
            if known is not None and known.status.settings == site:
                self._watched[site.name] = before.pop(site.name)
            else:
                self._watched[site.name] = _Watched(SiteStatus(site))
        for gone in before.values():
            if gone.task is not None:
                gone.task.cancel()

    async def _one(self, watched: _Watched, seconds: float) -> None:
        """Ask one site and note what it says; a fault of ours is in the log, and leaves what is known."""
        status = watched.status
        fresh = self._ticks() < watched.version_until
        version = status.answer.version if status.answer is not None and fresh else ""
        asked_at = self._clock()
        try:
            answer = await self._ask(status.settings, seconds, version)
        except Exception as error:  # noqa: BLE001 - the other sites are asked all the same
            _log.error("site not asked", error=type(error).__name__, point=place_of(error))
            return
        finally:
            watched.task = None
        if answer.fault is not None:
            watched.version_until = float("-inf")
            watched.status = replace(status, answer=answer, since=status.since or asked_at)
            return
        if not version:
            watched.version_until = self._ticks() + VERSION_SECONDS
        watched.status = replace(status, answer=answer, since=None, answered_at=self._clock())


@contextlib.asynccontextmanager
async def monitored(configured: Callable[[], Sites]) -> AsyncIterator[SiteMonitor]:
    """Watch the sites of a configuration until closed."""
    monitor = SiteMonitor(configured)
    task = asyncio.create_task(monitor.run())
    try:
        yield monitor
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

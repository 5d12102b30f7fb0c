"""The engine's life: configure, open the journal, start dispatch, listen; reload; stop in the reverse order."""

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from engine import telemetry
from engine.config.channel import Channel
from engine.config.destination import Destination as Settings
from engine.deliver.destination import Destination
from engine.errors import AdtEngineError, ConfigurationError, Problem, StartError
from engine.journal.journal import Journal
from engine.pipeline.configuration import Configuration, Files, configure
from engine.pipeline.dispatch import Dispatch
from engine.pipeline.feed import Feed, Feeds
from engine.pipeline.handover import Handover
from engine.pipeline.intake import Intake
from engine.pipeline.merge_limit import MergeLimit
from engine.pipeline.outcomes import Outcomes
from engine.pipeline.pace import Pace
from engine.receive.listener import Door, Listening, listen

DRAIN_SECONDS: Final = 5.0
STALL_SECONDS: Final = 10.0

_log = telemetry.logger()


def now() -> datetime:
    """Return the moment, aware, in UTC: the one reading of the wall clock in the engine."""
    return datetime.now(UTC)


class Engine:
    """One running engine on one data folder: doors, journal, dispatch."""

    def __init__(self, files: Files, journal: Journal, failed: asyncio.Event) -> None:
        self.files = files
        self.journal = journal
        self.failed = failed
        self.feeds: Feeds = {}
        self.doors: dict[str, Listening] = {}
        self.dispatches: dict[str, Dispatch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()
        self._handover = Handover()
        self._outcomes = Outcomes()

    @classmethod
    async def start(cls, files: Files) -> "Engine":
        """Start an engine; ConfigurationError, StartError or JournalUnusableError say why it cannot."""
        configuration = configure(files)
        _make_folder(files)
        failed = asyncio.Event()
        journal = await Journal.open(files.data, clock=now, fail=partial(_fail, failed))
        engine = cls(files, journal, failed)
        try:
            engine._put_in_force(configuration)
            for channel in configuration.channels.values():
                await engine._open_door(channel)
        except AdtEngineError:
            await engine.stop()
            raise
        return engine

    async def reload(self) -> tuple[str, ...]:
        """Read the authored files again, run the cases beside them, and swap them in whole; return what changed.

        ConfigurationError leaves everything as it was. Doors whose `listen` stays keep their connections; what is
        under way ends as it began. Reading and testing take a thread of their own, so that nobody waits for them.
        """
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> tuple[str, ...]:
        configuration = await asyncio.to_thread(configure, self.files, tested=True)
        self._refuse_changed_destinations(configuration)
        before = {name: feed.channel for name, feed in self.feeds.items()}
        self._put_in_force(configuration)
        changed = []
        for name, channel in configuration.channels.items():
            old = before.get(name)
            if old is None or _door(old) != _door(channel):
                if old is not None:
                    await self.doors.pop(name).close()
                await self._open_door(channel)
            if old != channel:
                changed.append(name)
        for name in before.keys() - configuration.channels.keys():
            await self.doors.pop(name).close()
            changed.append(name)
        _log.info("reloaded", count=len(changed))
        return tuple(changed)

    async def stop(self) -> None:
        """Stop reading, answer what is in flight, finish what is under way, close the journal."""
        await asyncio.gather(*(door.drain(DRAIN_SECONDS) for door in self.doors.values()))
        await asyncio.gather(*(dispatch.stop() for dispatch in self.dispatches.values()))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for dispatch in self.dispatches.values():
            await dispatch.destination.close()
        await self.journal.close()

    def wake(self, destinations: tuple[str, ...]) -> None:
        """Tell dispatch that there is something new for these destinations."""
        for name in destinations:
            self.dispatches[name].wake()

    def _refuse_changed_destinations(self, configuration: Configuration) -> None:
        """Raise ConfigurationError where a running destination is described anew: its deliveries began on the old."""
        changed = [
            name
            for name, settings in configuration.destinations.items()
            if name in self.dispatches and self.dispatches[name].destination.settings != settings
        ]
        if changed:
            folder = str(self.files.channels)
            expected = "restart the engine to put it in force"
            raise ConfigurationError(
                tuple(
                    Problem(folder, 1, 1, f"destinations.{name}", "changed while running", expected) for name in changed
                )
            )

    def _put_in_force(self, configuration: Configuration) -> None:
        for name, settings in configuration.destinations.items():
            if name not in self.dispatches:
                destination = destination_of(settings, configuration)
                pace = Pace(name, settings.concurrency, settings.retry, time.monotonic, random.random)
                dispatch = Dispatch(
                    name, destination, self.journal, self.feeds, pace, self._handover, self._outcomes, now
                )
                self.dispatches[name] = dispatch
                self._watch(dispatch.run())
        for name in self.feeds.keys() - configuration.channels.keys():
            del self.feeds[name]
        for name, channel in configuration.channels.items():
            self.feeds[name] = Feed(
                channel,
                configuration.mappings[name],
                MergeLimit(channel.merge_limit.merges, channel.merge_window),
                tuple(settings.name for settings in channel.destinations),
                frozenset(settings.name for settings in channel.destinations if settings.required),
            )

    async def _open_door(self, channel: Channel) -> None:
        intake = Intake(
            channel.channel,
            self.feeds,
            self.journal,
            self._handover,
            self._outcomes,
            self.wake,
            now,
            secrets.token_hex(3),
        )
        stall = channel.acknowledge.within_seconds + STALL_SECONDS
        door = Door(channel.channel, channel.listen.mllp, channel.limits, channel.allow, stall_seconds=stall)
        observe = partial(_observe, channel.channel)
        listening = self.doors[channel.channel] = await listen(door, intake.answer, observe)
        _log.info("listening", channel=channel.channel, address=listening.host, port=listening.port)

    def _watch(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Future[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _fail(self.failed, error)


def destination_of(settings: Settings, configuration: Configuration) -> Destination:
    """Return the client of a destination, with the policies of the first channel that names it."""
    channel = next(one for one in configuration.channels.values() if settings in one.destinations)
    return Destination(settings, channel, clock=now, new_id=lambda: secrets.token_hex(16))


def _door(channel: Channel) -> tuple[object, ...]:
    return channel.listen, channel.limits, channel.allow


def _make_folder(files: Files) -> None:
    try:
        files.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"the data folder {files.data} cannot be made ({error.strerror}): choose another with --data"
        ) from error


def _fail(failed: asyncio.Event, error: BaseException) -> None:
    _log.critical("engine stops", error=type(error).__name__, point=telemetry.place_of(error))
    failed.set()


def _observe(channel: str, kind: str) -> None:
    telemetry.BLOCKS.labels(channel, kind).inc()

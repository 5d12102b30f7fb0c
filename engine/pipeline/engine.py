"""The engine's life: configure, open the journal, start dispatch, listen; reload; stop in the reverse order."""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Set
from datetime import datetime
from functools import partial
from typing import Final

from engine import fault, telemetry
from engine.clock import now
from engine.config.alerting import Alerting
from engine.config.channel import AnyDestination, Channel
from engine.config.destination import Destination as Settings
from engine.config.fhir_events import FhirEvents
from engine.config.relay import Relay
from engine.config.sites import Sites
from engine.database.durable import make_folder
from engine.deliver.destination import FhirDestination
from engine.deliver.fhir_reader import FhirReader
from engine.deliver.relay import ApplicationAck, RelayDestination
from engine.deliver.wire.server import Fence
from engine.errors import AdtEngineError, ConfigurationError, Problem, StartError, brief, place_of
from engine.http.tls import RENEWED
from engine.journal.journal import Journal
from engine.journal.read import backlog
from engine.journal.state import uptime
from engine.pipeline.alerts.book import AlertBook
from engine.pipeline.catching_up import CatchingUp
from engine.pipeline.configuration import Configuration, ExaminedConfiguration, Files, examine
from engine.pipeline.dispatch import DeliveryDestination, Dispatch
from engine.pipeline.event_servers import EventServers
from engine.pipeline.feed import Feeds, Handover, PipelineContext, charsets_of, feeds_of
from engine.pipeline.fhir_intake import FhirIntake
from engine.pipeline.inbound.counters import Counters
from engine.pipeline.inbound.event_sources import EventSources
from engine.pipeline.inbound.merge_limit import MergeRateLimiter
from engine.pipeline.inbound.outcomes import Outcomes
from engine.pipeline.intake import Intake
from engine.pipeline.listeners import Listeners
from engine.pipeline.nodes import fence, keep_newest, notice_restored, shared_of
from engine.pipeline.outbound.change_messages import ChangeMessages
from engine.pipeline.outbound.number_forms import NumberForms
from engine.pipeline.outbound.pauses import Pauses
from engine.pipeline.outbound.relaying import keep_application_ack
from engine.pipeline.outbound.throttle import DeliveryThrottle
from engine.pipeline.outbound.timekeeping import Timekeeper
from engine.pipeline.publication import Publication, PublicationState, put, put_back, recover, settle
from engine.pipeline.repair.bulk_replay import BulkReplays
from engine.pipeline.repair.entry_operations import EntryOperations
from engine.pipeline.worker import Worker

# How many messages a relay claims ahead that sends them in the order of the feed.
AHEAD: Final = 64

_log = telemetry.logger()


class Engine:
    """One running engine on one data folder: listeners, journal, dispatch.

    `running_since`: since when the engine, or another node of its journal, has run without an outage.
    """

    def __init__(
        self,
        files: Files,
        journal: Journal,
        failed: asyncio.Event,
        clock: Callable[[], datetime] = now,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.files = files
        self.journal = journal
        self.failed = failed
        self.feeds: Feeds = {}
        self.dispatches: dict[str, Dispatch] = {}
        self.counters: dict[str, Counters] = {}
        self.pauses = Pauses(journal)
        self.merges = MergeRateLimiter(journal)
        self.sources = EventSources(journal, partial(_reader, journal), partial(self._watch, name=""), clock)
        self.listeners = Listeners(journal, self._intake, self.sources)
        self.alerts = AlertBook(journal)
        self.alerting = Alerting()
        self.sites = Sites()
        self.now = clock
        self.started_at = self.running_since = clock()
        self.stopping = False
        self.refused_reload = ""
        self.damage = ""
        self.time = Timekeeper(journal, clock, steady)
        self.worker = Worker()
        self.event_servers = EventServers(reader_of)
        self._tasks: dict[asyncio.Future[None], str] = {}
        self._reloading = asyncio.Lock()
        self._publishing: asyncio.Future[None] | None = None
        self._marks: frozenset[str] = frozenset()
        self.number_forms = NumberForms(journal)
        self._shared = PipelineContext(
            self.feeds, Handover(), Outcomes(), self.pauses, self.merges, clock, self.time,
            ChangeMessages(journal, self.event_servers.readers), self.number_forms.of,
        )  # fmt: skip
        self.events = FhirIntake(journal, self._shared, self.listeners, self.counters, self._arrived)
        self.sources.take = self.events.take
        self.entry_operations = EntryOperations(
            files.data, journal, self.feeds, self.dispatches, clock, self._shared.changes, self.number_forms.of
        )
        self.bulk_replays = BulkReplays(self.entry_operations)
        self.catching_up = CatchingUp(
            journal, files.data, self._shared, self.dispatches, self.listeners, self.alerts, self.bulk_replays
        )

    @classmethod
    async def start(
        cls, files: Files, clock: Callable[[], datetime] = now, steady: Callable[[], float] = time.monotonic
    ) -> "Engine":
        """Start an engine; `clock` tells the time of day, `steady` seconds that go on whatever becomes of the clock.

        ConfigurationError, StartError or JournalUnusableError say why it cannot.
        """
        if number := recover(files.data):
            _log.warning("mapping files put back", count=number)
        examined = examine(files)
        configuration = examined.usable()
        _log_warnings(examined)
        _make_folder(files)
        failed = asyncio.Event()
        heard = asyncio.Event()
        loop = asyncio.get_running_loop()
        shared = shared_of(files, configuration, partial(_set_soon, loop, heard))
        journal = await Journal.open(files.data, clock=clock, fail=partial(_fail, failed), shared=shared)
        engine = cls(files, journal, failed, clock, steady)
        engine.catching_up.heard = heard
        try:
            await engine.time.open()
            engine.running_since = await journal.write(partial(uptime.seen, now=clock()))
            if journal.is_shared:
                await notice_restored(journal, files.data, clock())
            await engine.pauses.open(configuration.destinations)
            await engine.merges.open()
            await engine.listeners.recall()
            await engine.alerts.recall()
            engine.alerting = configuration.alerting
            engine.sites = configuration.sites
            engine._marks = configuration.marks
            await engine._log_orphans(configuration)
            feeds = _feeds(configuration)
            await engine.number_forms.look(feeds)
            engine._dispatch(engine._new_destinations(configuration))
            await engine.event_servers.change(configuration.channels)
            engine.feeds |= feeds
            await engine.number_forms.keep(feeds, clock())
            for channel in configuration.channels.values():
                await engine.listeners.enter(channel)
            await engine.bulk_replays.recall()
            if journal.is_shared:
                engine._watch(engine.catching_up.run(), "")
        except AdtEngineError:
            await engine.stop()
            raise
        return engine

    async def reload(self) -> tuple[str, ...]:
        """Read the authored files again, run the cases of mappings that changed, and swap them in; return what changed.

        ConfigurationError or StartError leave all as it was. Listeners whose `listen` stays keep their connections;
        what is under way ends as it began, and a destination that is described anew takes over when that has ended.
        Reading and testing take a thread of their own, so that nobody waits for them.
        """
        async with self._reloading:
            try:
                changed = await self._reload()
            except AdtEngineError as error:
                self.refused_reload = brief(error)
                raise
            self.refused_reload = ""
            return changed

    async def publish(self, publication: Publication) -> None:
        """Write mapping files and put them in force as a reload does; the client may go away meanwhile.

        UsageError, ConfigurationError or StartError leave files and mappings as they were.
        """
        self._publishing = asyncio.ensure_future(self._publish(publication))
        await asyncio.shield(self._publishing)

    async def _publish(self, publication: Publication) -> None:
        async with self._reloading:
            await asyncio.to_thread(put, self.files.data, publication)
            fault.point("F51")
            try:
                await self._reload()
            except BaseException:
                await asyncio.to_thread(put_back, self.files.data, publication)
                raise
            await asyncio.to_thread(settle, self.files.data, publication, PublicationState.IN_FORCE)
            self.refused_reload = ""

    async def _reload(self) -> tuple[str, ...]:
        examined = await asyncio.to_thread(examine, self.files, in_force=self._marks)
        named = examined.destinations
        gone = self.dispatches.keys() - named if named is not None else set()
        problems = (*examined.problems, *await self._unfinished(gone))
        if problems:
            raise ConfigurationError(problems)
        configuration = examined.usable()
        _log_warnings(examined)
        fresh = self._new_destinations(configuration)
        feeds = dict(self.feeds)
        before = {name: feed.channel for name, feed in feeds.items()}
        added = self._dispatch({name: one for name, one in fresh.items() if name not in self.dispatches})
        described = _feeds(configuration)
        await self.number_forms.look(described)
        self._put_in_force(described)
        # Again: what was delivered meanwhile was known by the old forms.
        await self.number_forms.look(self.feeds)
        await self.event_servers.change(configuration.channels)
        try:
            await self.listeners.change(before, configuration.channels)
        except AdtEngineError:
            self._put_in_force(feeds)
            await self.number_forms.look(feeds)
            await self.event_servers.change(before)
            await self._end(added)
            raise
        await self.number_forms.keep(self.feeds, self.now())
        self.alerting = configuration.alerting
        self.sites = configuration.sites
        self._marks = configuration.marks
        for name, destination in fresh.items():
            if name not in added:
                self.dispatches[name].exchange(destination, _throttle(destination.settings))
        await self._end(gone)
        names = dict.fromkeys((*before, *configuration.channels))
        changed = tuple(name for name in names if before.get(name) != configuration.channels.get(name))
        old, new = (
            {(name, *key): mark for name, feed in some.items() for key, mark in feed.marks().items()}
            for some in (feeds, self.feeds)
        )
        changed += tuple(
            f"mapping {name}" for name in sorted({key[-1] for key in new if old.get(key, new[key]) != new[key]})
        )
        _log.info("reloaded", count=len(changed))
        return changed

    async def stop(self) -> None:
        """Stop reading, answer what is in flight, finish what is under way, close the journal."""
        self.stopping = True
        self.journal.leave()
        for task in [task for task, name in self._tasks.items() if not name]:
            task.cancel()
        if self._publishing is not None:
            await asyncio.gather(self._publishing, return_exceptions=True)
        await self.listeners.leave_all()
        await self.worker.close()
        await self.bulk_replays.close()
        await self._end(set(self.dispatches))
        await self.event_servers.close()
        if self.journal.is_shared:
            await asyncio.to_thread(keep_newest, self.journal, self.files.data)
        await self.journal.close()

    def charsets(self) -> dict[str, str]:
        """Return the character set that holds on each channel where MSH-18 is empty."""
        return charsets_of(self.feeds)

    def wake(self, destinations: tuple[str, ...]) -> None:
        """Tell dispatch that there may be something else to do for these destinations."""
        for dispatch in self._dispatches_of(destinations):
            dispatch.wake()

    def _arrived(self, destinations: tuple[str, ...]) -> None:
        for dispatch in self._dispatches_of(destinations):
            dispatch.arrived()

    def _dispatches_of(self, destinations: tuple[str, ...]) -> list[Dispatch]:
        return [self.dispatches[name] for name in destinations if name in self.dispatches]

    async def _log_orphans(self, configuration: Configuration) -> None:
        """Log the destinations that have unfinished work and stand in no channel file any more."""
        names = tuple(configuration.destinations)
        for name in await self.journal.read(partial(backlog.unknown_destinations, names)):
            _log.error("work without a destination", destination=name)

    async def _unfinished(self, gone: Set[str]) -> tuple[Problem, ...]:
        """Return a problem for each destination that goes and still has work to do."""
        left = [name for name in sorted(gone) if await self.journal.read(partial(backlog.has_unfinished, name))]
        expected = "let it deliver, or discard its entries, before you remove it"
        folder = str(self.files.channels)
        return tuple(Problem(folder, 1, 1, f"destinations.{name}", "has unfinished work", expected) for name in left)

    def _new_destinations(self, configuration: Configuration) -> dict[str, DeliveryDestination]:
        """Return the clients of destinations that are new or described anew; StartError where one cannot be made."""
        return {
            name: self._client(settings, configuration)
            for name, settings in configuration.destinations.items()
            if name not in self.dispatches or self.dispatches[name].settings != settings
        }

    def _client(self, settings: AnyDestination, configuration: Configuration) -> DeliveryDestination:
        if isinstance(settings, Relay):
            may_send = fence(self.journal, settings.acknowledgement.wait_seconds)
            observe, renewed = self._keep(settings), partial(_observe_certificate, settings)
            return RelayDestination(settings, ticks=time.monotonic, fence=may_send, observe=observe, renewed=renewed)
        return destination_of(settings, configuration, fence(self.journal, settings.timeout_seconds))

    def _keep(self, relay: Relay) -> Callable[[ApplicationAck], None]:
        """Return what keeps application acknowledgements that come after a delivery to a relay has ended."""
        return lambda ack: self._watch(keep_application_ack(self.journal, relay.name, ack, self.now()), relay.name)

    def _dispatch(self, destinations: Mapping[str, DeliveryDestination]) -> set[str]:
        for name, destination in destinations.items():
            dispatch = Dispatch(name, destination, self.journal, _throttle(destination.settings), self._shared)
            dispatch.health.blocked_until = self.now() if self.alerts.blocks(name) else self.running_since
            self.dispatches[name] = dispatch
            self._watch(dispatch.run(), name)
            for one in dispatch.follow_ups:
                self._watch(one.run(), name)
        return set(destinations)

    async def _end(self, names: set[str]) -> None:
        """Finish what is under way at destinations, and forget them."""
        ending = {name: self.dispatches[name] for name in names}
        await asyncio.gather(*(dispatch.stop() for dispatch in ending.values()))
        tasks = [task for task, name in self._tasks.items() if name in ending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name, dispatch in ending.items():
            await dispatch.destination.close()
            del self.dispatches[name]

    def _put_in_force(self, feeds: Feeds) -> None:
        for name in self.feeds.keys() - feeds.keys():
            del self.feeds[name]
        self.feeds |= feeds

    def _intake(self, channel: str) -> Intake:
        counters = self.counters.setdefault(channel, Counters())
        return Intake(channel, self.journal, self._shared, self._arrived, secrets.token_hex(3), counters)

    def _watch(self, work: Awaitable[None], name: str) -> None:
        task = asyncio.ensure_future(work)
        self._tasks[task] = name
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Future[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _fail(self.failed, error)


def destination_of(settings: Settings, configuration: Configuration, fence: Fence | None = None) -> FhirDestination:
    """Return the client of a destination, with the policies of the first channel that names it.

    `fence` is awaited before each write is sent.
    """
    channel = next(
        one for one in configuration.channels.values() if settings.name in {each.name for each in one.destinations}
    )
    return _fhir_client(settings, channel, fence)


def reader_of(channel: Channel, events: FhirEvents, fence: Fence | None = None) -> FhirReader:
    """Return what asks the FHIR server whose events a channel takes; `fence` as of a destination."""
    return FhirReader(_fhir_client(events.server, channel, fence))


def _reader(journal: Journal, channel: Channel, events: FhirEvents) -> FhirReader:
    return reader_of(channel, events, fence(journal, events.server.timeout_seconds))


def _fhir_client(settings: Settings, channel: Channel, fence: Fence | None) -> FhirDestination:
    observe = partial(_observe_certificate, settings)
    return FhirDestination(
        settings, channel, clock=now, new_id=lambda: secrets.token_hex(16), fence=fence, observe=observe
    )


def _observe_certificate(settings: AnyDestination, kind: str) -> None:
    """Log what became of the files of the engine's own certificate for a destination."""
    log = _log.info if kind == RENEWED else _log.error
    log(kind.replace("-", " "), destination=settings.name, file=settings.own_certificate)


def _feeds(of: Configuration) -> Feeds:
    return feeds_of(of.channels, of.mappings, of.own_mappings, of.edits, of.outgoing)


def _throttle(settings: AnyDestination) -> DeliveryThrottle:
    # One after the other, each is claimed ahead: a commit for each would be the pace of the relay.
    ahead = AHEAD if settings.in_feed_order else 0
    return DeliveryThrottle(settings.name, settings.concurrency, settings.retry, time.monotonic, random.random, ahead)


def _log_warnings(examined: ExaminedConfiguration) -> None:
    for one in examined.warnings:
        _log.warning("configuration doubtful", file=f"{one.file}:{one.line}:{one.column}", error=str(one))


def _make_folder(files: Files) -> None:
    try:
        make_folder(files.data)
    except OSError as error:
        raise StartError(
            f"the data folder {files.data} cannot be made ({error.strerror}): choose another with --data"
        ) from error


def _set_soon(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(event.set)


def _fail(failed: asyncio.Event, error: BaseException) -> None:
    _log.critical("engine stops", error=type(error).__name__, point=place_of(error))
    failed.set()

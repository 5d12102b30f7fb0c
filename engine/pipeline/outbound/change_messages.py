"""What a relay is sent of an event of a FHIR server: what changed since it was last sent something, as one message.

Not sent is what came out of order and is older than what was sent, what changed nothing that a message says, and what
the engine has itself written for a feed: that would come back to where it came from.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from engine.config.fhir_events import Outgoing
from engine.config.relay import Relay
from engine.config.text import own_control_id
from engine.deliver.fhir_reader import FhirReader
from engine.errors import DeliveryError, MappingError, UnreadServerError
from engine.fhir.event import FhirEvent, local, read_event
from engine.fhir.json import JsonObject
from engine.journal.entry import Claimed, OwnWrite, SentResource
from engine.journal.journal import Journal
from engine.journal.state import way_back
from engine.mapping.outgoing.change import ChangeKind, FhirChange, NothingToSend
from engine.mapping.outgoing.compile import OutgoingMapping
from engine.mapping.outgoing.detection import ResourceState, detect, moved_with, replaced_by, resource_state, state_of
from engine.pipeline.outbound.change_order import Standing, is_another, meta_of, standing, updated_at

OWN: Final = NothingToSend("own-change")
OLDER: Final = NothingToSend("older-version")
SENT_BEFORE: Final = NothingToSend("sent-already")
PATIENT_ABSENT: Final = "patient-not-found"
CONTENT_ABSENT: Final = "deleted-content-unknown"
SURVIVOR_ABSENT: Final = "survivor-not-found"
UNREAD: Final = "event-server-unread"
# How far back the history of one resource is read for the version before an event's.
MOST_VERSIONS: Final = 50
# How often the journal is asked for deliveries of other nodes that are under way.
POLL_SECONDS: Final = 0.1
# How long the deliveries that were under way when an event came are waited for.
MOST_WAIT_SECONDS: Final = 60.0
WENT_BACK: Final = "server-went-back"
# A version that was written later than this after the engine's own is another one under its number.
SAME_WRITE: Final = timedelta(minutes=1)


class ChangeMessage(NamedTuple):
    """What leaves for an event, or why nothing does, and what the relay has of the resource from then on.

    `sent` is None where nothing changes in what it has.
    """

    raw: bytes
    control_id: str
    sent: SentResource | None
    notes: tuple[str, ...] = ()
    nothing: str = ""


class WritesUnderWay:
    """The deliveries to FHIR servers that have begun and are not settled, by destination and entry."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], asyncio.Event] = {}

    def begin(self, destination: str, seq: int) -> None:
        """Note that a delivery begins."""
        self._ends[destination, seq] = asyncio.Event()

    def end(self, destination: str, seq: int) -> None:
        """Note that a delivery is settled."""
        ended = self._ends.pop((destination, seq), None)
        if ended is not None:
            ended.set()

    async def wait(self, destinations: Sequence[str]) -> None:
        """Wait until every delivery to some destinations that is under way now is settled."""
        for ended in [one for (name, _), one in self._ends.items() if name in destinations]:
            await ended.wait()


class ChangeMessages:
    """Makes the messages of events, for all relays of one engine; `readers` are the servers of channels, by channel."""

    def __init__(self, journal: Journal, readers: Mapping[str, FhirReader]) -> None:
        self._journal = journal
        self._readers = readers
        self.writes = WritesUnderWay()
        # What relays have been sent that is not yet settled, by relay and resource: the next event comes before that.
        self._unsettled: dict[tuple[str, str], SentResource] = {}
        self._waited_until: dict[tuple[str, ...], datetime] = {}
        self._began: dict[str, datetime] = {}

    async def message(  # noqa: PLR0911 - each is a reason
        self, claimed: Claimed, relay: Relay, mapping: OutgoingMapping, writers: Sequence[str], now: datetime
    ) -> ChangeMessage:
        """Return what a relay is sent of an event.

        `writers`: the destinations at the events' server. MappingError and EventError where no message can be made,
        UnreadServerError where the server has to be asked again.
        """
        event = read_event(claimed.raw)
        reader = self._readers[claimed.channel]
        state = state_of(event, reader.base)
        last = await self._last(relay.name, event.reference)
        try:
            at = await standing(event, state, last, reader) if last is not None else Standing.NEWER
        except DeliveryError as error:
            raise _unread(error) from error
        # What is older takes nothing newer from what the relay has.
        sent = None if at is Standing.OLDER else SentResource(event.reference, event.version, state.text)
        if at is Standing.OLDER and not claimed.forced:
            return _nothing(OLDER, None)
        if at is Standing.SAME and not claimed.replay:
            return _nothing(SENT_BEFORE, None)
        notes = (WENT_BACK,) if at is Standing.WENT_BACK else ()
        channel = await self._own(event, writers, claimed.received_at, now)
        if channel and (relay.outgoing or Outgoing()).leaves_out(channel):
            return _nothing(OWN, sent, notes)
        control_id = own_control_id(claimed.seq)
        if raw := await self._made_before(claimed, relay.name):
            return ChangeMessage(raw, control_id, sent, notes)
        try:
            before = await self._before(event, last, at, reader, claimed.channel)
            change = await self._change(event, state, before, reader)
        except DeliveryError as error:
            raise _unread(error) from error
        if isinstance(change, NothingToSend):
            return _nothing(change, sent, notes)
        made = mapping.message(change, control_id, event.at or claimed.received_at)
        if isinstance(made, NothingToSend):
            return _nothing(made, sent, notes)
        return ChangeMessage(made.raw, control_id, sent, (*notes, *made.notes))

    async def _made_before(self, claimed: Claimed, relay: str) -> bytes:
        """Return the message that an earlier try has made, to be sent as it was.

        Empty at first, and for the first try of what was replayed or released.
        """
        if not claimed.attempts_made:
            return b""
        return await self._journal.look(
            lambda context: way_back.last_message(context.connection, context.sealing, claimed.seq, relay)
        )

    def sent(self, relay: str, sent: SentResource | None) -> None:
        """Note what a relay has from now on, before that is settled."""
        if sent is not None:
            self._unsettled[relay, sent.resource] = sent

    def settled(self, relay: str, sent: SentResource | None) -> None:
        """Note that what a relay has is in the journal."""
        if sent is not None and self._unsettled.get((relay, sent.resource)) is sent:
            del self._unsettled[relay, sent.resource]

    async def _before(
        self, event: FhirEvent, last: SentResource | None, at: Standing, reader: FhirReader, channel: str
    ) -> ResourceState | None:
        """Return the state to which an event is the change: what the relay has, or what was there before."""
        # What is replayed is sent as it was the first time.
        if last is None or at in {Standing.OLDER, Standing.SAME}:
            return await self._unsent(event, reader, channel, anew=last is not None)
        state = ResourceState.read(last.state)
        if at is Standing.WENT_BACK and await is_another(state, event.reference, reader):
            return None
        return state

    async def _unsent(self, event: FhirEvent, reader: FhirReader, channel: str, *, anew: bool) -> ResourceState | None:
        """Return the state before an event, of a resource of which nothing was sent, or whose event is sent `anew`.

        None where it was not there, or came since the channel takes events: its first event comes late, or never.
        """
        if not event.version:
            return None
        if not event.version.isdecimal():
            former, first = await _former(event, reader)
            if first is not None and not anew and await self._is_since(channel, first):
                return None
            return resource_state(former, reader.base) if former is not None else None
        number = int(event.version) - 1
        first = await reader.read(event.reference, "1") if number > 0 else None
        if first is None or (not anew and await self._is_since(channel, first)):
            return None
        former = first if number == 1 else await reader.read(event.reference, str(number))
        return resource_state(former, reader.base) if former is not None else None

    async def _is_since(self, channel: str, first: JsonObject) -> bool:
        """Say whether the first version of a resource is not older than the first event of a channel."""
        if channel not in self._began:
            began = await self._journal.read(partial(way_back.first_event, channel=channel))
            if began is not None:
                self._began[channel] = began
        began, made_at = self._began.get(channel), updated_at(first)
        return began is not None and made_at is not None and made_at >= began

    async def _last(self, relay: str, reference: str) -> SentResource | None:
        """Return what a relay was last sent of a resource."""
        unsettled = self._unsettled.get((relay, reference))
        if unsettled is not None:
            return unsettled
        return await self._journal.read(partial(way_back.sent, destination=relay, resource=reference))

    async def _own(self, event: FhirEvent, writers: Sequence[str], received_at: datetime, now: datetime) -> str:
        """Return the channel for which the engine itself has written a version, '' for somebody else's.

        The event may come before the answer to the write, or before that is settled: where it is not known, the
        deliveries that were under way when the event came are waited for.
        """
        if not writers or not (event.version or event.deleted):
            return ""
        if channel := await self._written(event, writers):
            return channel
        names = tuple(writers)
        if (until := self._waited_until.get(names)) is not None and received_at <= until:
            return ""
        # What hangs for longer tells nothing more: its own change is sent once too often, and nothing stands still.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MOST_WAIT_SECONDS):
                await self.writes.wait(names)
                if self._journal.is_shared:
                    await self._wait_elsewhere(names)
        self._waited_until[names] = now
        return await self._written(event, writers)

    async def _written(self, event: FhirEvent, writers: Sequence[str]) -> str:
        # An answer to a deletion may name no version.
        versions = dict.fromkeys((event.version, "") if event.deleted else (event.version,))
        for name, version in itertools.product(writers, versions):
            own = await self._journal.read(
                partial(way_back.written, server=name, resource=event.reference, version=version)
            )
            if own is not None and _is_own(event, own):
                return own.channel
        return ""

    async def _wait_elsewhere(self, names: Sequence[str]) -> None:
        """Wait until what any node has claimed for some destinations now has ended."""
        left = await self._journal.read(partial(way_back.claimed, destinations=names))
        while left:
            await asyncio.sleep(POLL_SECONDS)
            left &= await self._journal.read(partial(way_back.claimed, destinations=names))

    async def _change(
        self, event: FhirEvent, now: ResourceState, before: ResourceState | None, reader: FhirReader
    ) -> FhirChange | NothingToSend:
        """Return what changed by an event whose state is `now`, with all that the message needs."""
        if before is not None and before.subject and now.subject and before.subject != now.subject:
            holder = await reader.read(before.subject)
            if holder is not None and replaced_by(holder, reader.base) == now.subject:
                before = moved_with(before, now.subject)
        kind = detect(event.type_, now, before)
        if isinstance(kind, NothingToSend):
            return kind
        resource = event.resource or await _last_content(event.reference, event.version, reader)
        if resource is None:
            raise MappingError(CONTENT_ABSENT)
        merged = resource if kind is ChangeKind.PATIENT_MERGED else None
        patient = resource if event.type_ == "Patient" else await _patient(event, resource, reader)
        if merged is not None:
            survivor = await _content(now.replaced_by, reader)
            if survivor is None:
                raise MappingError(SURVIVOR_ABSENT)
            patient = survivor
        visit = resource if event.type_ == "Encounter" else None
        about = [one for one in (patient, visit, merged) if one is not None]
        referred = await reader.referred(about, event.related)
        return FhirChange(kind, patient, visit, merged, referred, event.at)


async def _versions(reference: str, reader: FhirReader) -> list[Any]:
    """Return what the history of a resource has of each version, the newest first; None for a deletion."""
    bundle = (await reader.get(f"{reference}/_history?_count={MOST_VERSIONS}")).json
    entries = bundle.get("entry") or () if isinstance(bundle, dict) and bundle.get("type") == "history" else ()
    return [one.get("resource") if isinstance(one, dict) else None for one in entries]


async def _former(event: FhirEvent, reader: FhirReader) -> tuple[JsonObject | None, JsonObject | None]:
    """Return the version before an event's and the first one; None for what the resource's history does not say."""
    versions = await _versions(event.reference, reader)
    at = [number for number, one in enumerate(versions) if one and meta_of(one).get("versionId") == event.version]
    found = versions[at[0] + 1] if at and at[0] + 1 < len(versions) else None
    first = versions[-1] if versions and len(versions) < MOST_VERSIONS else None
    return reader.server.inward(found) if isinstance(found, dict) else None, first


async def _content(reference: str, reader: FhirReader) -> JsonObject | None:
    """Return a resource as it is now, or as it was before its deletion."""
    return await reader.read(reference) or await _last_content(reference, "", reader)


async def _last_content(reference: str, version: str, reader: FhirReader) -> JsonObject | None:
    """Return a resource as it was before its deletion in a version."""
    if version.isdecimal() and int(version) > 1:
        former = await reader.read(reference, str(int(version) - 1))
        if former is not None:
            return former
    for resource in await _versions(reference, reader):
        if isinstance(resource, dict) and resource.get("resourceType") == reference.partition("/")[0]:
            found: JsonObject = reader.server.inward(resource)
            return found
    return None


async def _patient(event: FhirEvent, visit: JsonObject, reader: FhirReader) -> JsonObject:
    """Return the patient of a visit as it came with the event, or as the server has it now, or had it."""
    subject = visit.get("subject")
    reference = str(subject.get("reference") or "") if isinstance(subject, dict) else ""
    place = local(reference, reader.base)
    came = event.related.get(reference) or event.related.get(place)
    found = came or (await _content(place, reader) if place else None)
    if found is None or found.get("resourceType") != "Patient":
        raise MappingError(PATIENT_ABSENT)
    return found


def _is_own(event: FhirEvent, own: OwnWrite) -> bool:
    """Say whether an event is of what the engine wrote, and of nobody who got its version after the server went back.

    A deletion whose version is not known is told by its moment alone.
    """
    if event.at is None or own.moment is None:
        return bool(own.version)
    return event.at <= own.moment + SAME_WRITE


def _unread(error: DeliveryError) -> UnreadServerError:
    return UnreadServerError(UNREAD, codes=(str(error), *error.codes))


def _nothing(why: NothingToSend, sent: SentResource | None, notes: tuple[str, ...] = ()) -> ChangeMessage:
    return ChangeMessage(b"", "", sent, notes, why.reason)

"""From an event of a FHIR server to what is recorded: which resource it is about, and in whose lane it belongs."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from engine import telemetry
from engine.config.channel import Channel
from engine.config.fhir_events import FhirEvents
from engine.errors import EventError, place_of
from engine.fhir.event import FhirEvent, local, read_event
from engine.journal.entry import NewEntry, State
from engine.pipeline.feed import Feed
from engine.pipeline.inbound.entries import MARKS, fragment_of, in_feed_order
from engine.receive.reply import Peer

PATIENT: Final = "Patient"
ENCOUNTER: Final = "Encounter"
NOT_TAKEN: Final = "event-type-not-taken"
FAULT: Final = "engine-error"
REPLACED_BY: Final = "replaced-by"
# Of the digest of an event without a version, what makes its name its own.
DIGEST_DIGITS: Final = 16

Lanes = tuple[tuple[str, ...], ...]

_log = telemetry.logger()


def is_event(channel: Channel) -> bool:
    """Say whether what comes in on a channel are the events of a FHIR server."""
    return channel.listen.fhir is not None


def event_entry(raw: bytes, feed: Feed, peer: Peer, received_at: datetime) -> NewEntry:
    """Return the entry of one piece of `split`: taken in, filtered by its type, or refused as it is no event."""
    try:
        return _entry(raw, feed, peer, received_at)
    except EventError as error:
        return refused_event(raw, str(error), feed, peer, received_at)
    except Exception as error:  # noqa: BLE001 - the last resort: what a fault of ours cannot read is kept and refused
        _log.error("judgement failed", channel=feed.channel.channel, error=type(error).__name__, point=place_of(error))
        return refused_event(raw, FAULT, feed, peer, received_at)


def refused_event(raw: bytes, reason: str, feed: Feed, peer: Peer, received_at: datetime) -> NewEntry:
    """Return the refused entry of what is no event."""
    return replace(fragment_of(raw, reason, peer, feed.channel, received_at), source=_events(feed).server.name)


def filtered_event(raw: bytes, feed: Feed, peer: Peer, received_at: datetime) -> NewEntry:
    """Return the entry of what holds nothing of the types that become messages."""
    return replace(refused_event(raw, NOT_TAKEN, feed, peer, received_at), state=State.FILTERED)


def _events(feed: Feed) -> FhirEvents:
    events = feed.channel.listen.fhir
    if events is None:
        raise ValueError("a channel of HL7 v2 messages takes no events")
    return events


def _entry(raw: bytes, feed: Feed, peer: Peer, received_at: datetime) -> NewEntry:
    events, event = _events(feed), read_event(raw)
    taken = event.type_ in events.types
    mark = MARKS.get(feed.channel.mode)
    patients, unite = _lanes(event, events.server.base_url.rstrip("/"))
    return NewEntry(
        channel=feed.channel.channel,
        peer=peer.tls_name or peer.address,
        source=events.server.name,
        control_id=_control_id(event, raw, received_at),
        event=event.type_,
        version=events.server.fhir,
        raw=raw,
        received_at=received_at,
        event_at=event.at,
        patients=patients,
        unite=unite,
        state=State.RECEIVED if taken else State.FILTERED,
        reason="" if taken else NOT_TAKEN,
        flags=(mark,) if taken and mark else (),
        destinations=feed.destinations if taken else (),
        in_feed_order=in_feed_order(feed, of_patient=bool(patients)),
    )


def _control_id(event: FhirEvent, raw: bytes, received_at: datetime) -> str:
    """Return what tells an event from every other: without a version its bytes, and what says no moment when it came.

    A second deletion says the same as the first one.
    """
    if event.version:
        return event.name
    came = b"" if event.at is not None else received_at.isoformat().encode()
    return f"{event.name}/{sha256(raw + came).hexdigest()[:DIGEST_DIGITS]}"


def _lanes(event: FhirEvent, base: str) -> tuple[Lanes, bool]:
    """Return whose lanes an event belongs in, and whether they are one lane from now on.

    A visit has a lane of its own beside its patient's: its deletion says no patient, and another patient may get it.
    """
    if event.type_ == PATIENT:
        survivors = dict.fromkeys(filter(None, _survivors(event, base)))
        names, unite = (event.reference, *survivors), bool(survivors)
    elif event.type_ == ENCOUNTER:
        subject = _subject(event, base)
        names, unite = ((subject, event.reference) if subject else (event.reference,)), False
    else:
        names, unite = (), False
    return tuple((f"{base}|{name}",) for name in names), unite


def _survivors(event: FhirEvent, base: str) -> Iterator[str]:
    """Yield the records by which a Patient is replaced."""
    links = event.resource.get("link") if event.resource is not None else None
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("type") == REPLACED_BY:
            found = local(_reference(link.get("other")), base)
            if found.startswith(f"{PATIENT}/") and found != event.reference:
                yield found


def _subject(event: FhirEvent, base: str) -> str:
    """Return the patient of a visit; '' where neither it nor what came with it says one."""
    named = _reference(event.resource.get("subject")) if event.resource is not None else ""
    found = local(named, base)
    if found.startswith(f"{PATIENT}/"):
        return found
    at_hand = [event.related.get(named)] if named else list(event.related.values())
    ids = {one.get("id") for one in at_hand if isinstance(one, dict) and one.get("resourceType") == PATIENT}
    return f"{PATIENT}/{ids.pop()}" if len(ids) == 1 else ""


def _reference(value: Any) -> str:
    reference = value.get("reference") if isinstance(value, dict) else None
    return reference if isinstance(reference, str) else ""

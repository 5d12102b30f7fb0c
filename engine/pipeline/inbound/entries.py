"""From what came in to what is recorded: the journal entry of a message, and of what is no message."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from engine.acknowledge.code import AckCode
from engine.config.channel import Channel, Mode
from engine.config.relay import ALL
from engine.hl7.header import Header
from engine.journal.entry import BY_RULE, LOAD, SHADOW, AckOutcome, NewEntry, State
from engine.mapping.subject.subject import MessageSubject, lane_key
from engine.pipeline.feed import Feed
from engine.pipeline.inbound.judgement import Judgement
from engine.receive.reply import Peer

# The flag of what is taken in while a channel is not live: no such receipt makes a live message a duplicate.
MARKS: Final = {Mode.SHADOW: SHADOW, Mode.LOAD: LOAD}


@dataclass(frozen=True, slots=True, repr=False)
class Arrival:
    """One message as it arrived and was judged; `batch` is BHS-11 of the batch it came in."""

    raw: bytes
    header: Header
    judged: Judgement
    peer: Peer
    received_at: datetime
    batch: str = ""


def entry_of(arrival: Arrival, feed: Feed, ack: bytes, code: AckCode | None, ack_outcome: AckOutcome) -> NewEntry:
    """Return the entry of a message that has a header."""
    header, judged = arrival.header, arrival.judged
    subject = judged.subject
    flags = (*subject.flags, *judged.flags) if subject else judged.flags
    if judged.state is State.RECEIVED and (mark := MARKS.get(feed.channel.mode)):
        flags = (*flags, mark)
    if held := judged.filter:
        flags = (*flags, f"{BY_RULE} {held.rule}")
    destinations, where_known = goes_to(judged, feed)
    return NewEntry(
        channel=feed.channel.channel,
        peer=arrival.peer.tls_name or arrival.peer.address,
        source=f"{header.component(3, 1)}|{header.component(4, 1)}",
        control_id=header.control_id.decode("ascii", "backslashreplace"),
        event=header.trigger,
        version=header.version or feed.channel.version,
        raw=arrival.raw,
        received_at=arrival.received_at,
        event_at=subject.event_at if subject else None,
        visit=subject.visit if subject else "",
        patients=_keys(subject) if subject else (),
        state=judged.state,
        reason=judged.reason,
        flags=flags,
        destinations=destinations,
        acknowledgement=ack,
        ack_code=code or "",
        ack_outcome=ack_outcome,
        mapping=feed.mapping.hash,
        batch=arrival.batch,
        where_known=where_known,
        in_feed_order=in_feed_order(feed, of_patient=bool(subject and subject.patients)),
        due=due(feed, header.trigger, arrival.received_at),
    )


def due(feed: Feed, event: str, received_at: datetime) -> dict[str, datetime]:
    """Return the destinations at which an event waits for newer ones of its kind, and until when."""
    servers = feed.channel.servers if feed.channel.mode is not Mode.SHADOW else ()
    return {
        one.name: received_at + timedelta(seconds=one.collapse.seconds)
        for one in servers
        if one.collapse is not None and one.waits and event in one.collapse.events
    }


def in_feed_order(feed: Feed, *, of_patient: bool = True) -> frozenset[str]:
    """Return the destinations that get a message in the order of the feed: those of no patient at every relay."""
    return frozenset(relay.name for relay in feed.channel.relays if relay.in_feed_order or not of_patient)


def goes_to(judged: Judgement, feed: Feed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the destinations that get a message, and those that get it only where they have one of its patients.

    A filter sends it to some only; but what says who somebody is (a merge, a change of number) is true wherever
    somebody of it is known. None for what is not taken in.
    """
    if judged.state is not State.RECEIVED:
        return (), ()
    if judged.relayed:
        return tuple(relay.name for relay in feed.channel.relays if relay.relay == ALL), ()
    held = judged.filter
    if held is None or not held.send_to:
        return feed.destinations, ()
    others = tuple(name for name in feed.destinations if name not in held.send_to)
    of_identity = judged.subject is not None and judged.subject.of_identity
    return tuple(name for name in feed.destinations if name in held.send_to), others if of_identity else ()


def fragment_of(raw: bytes, reason: str, peer: Peer, channel: Channel, received_at: datetime) -> NewEntry:
    """Return the refused entry of bytes that are no whole message."""
    return NewEntry(
        channel=channel.channel,
        peer=peer.tls_name or peer.address,
        source="",
        control_id="",
        event="",
        version="",
        raw=raw,
        received_at=received_at,
        state=State.REJECTED,
        reason=reason,
    )


def _keys(subject: MessageSubject) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(lane_key(identity) for identity in group) for group in subject.patients)

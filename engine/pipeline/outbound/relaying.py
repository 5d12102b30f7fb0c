"""What a relay sends for an entry: the bytes that came in, or these as its steps edit them."""

import contextlib
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

from engine import telemetry
from engine.config.relay import OWN, Relay
from engine.config.text import own_control_id
from engine.deliver.relay import END, END_WITHIN, METHOD, STATUSES, ApplicationAck
from engine.deliver.verdict import Verdict, VerdictKind
from engine.deliver.wire.dry_run import DryRun, PlannedCall
from engine.errors import JournalError, MappingError
from engine.hl7.header import read_header
from engine.http.request import HttpRequest
from engine.journal.entry import Claimed, RequestOutcome
from engine.journal.journal import Journal
from engine.mllp.acknowledgement import POSITIVE, printable
from engine.pipeline.feed import Feed
from engine.pipeline.inbound.judgement import read_message
from engine.pipeline.outbound.settling import held

DAMAGED: Final = "body-damaged"
WOULD_SEND: Final = "would-be-sent"
# The method under which an application acknowledgement is kept that came after a delivery had ended.
APPLICATION: Final = "ACK"

_log = telemetry.logger()


class OutgoingMessage(NamedTuple):
    """A message as it leaves, and its MSH-10."""

    raw: bytes
    control_id: str


def outgoing(claimed: Claimed, feed: Feed, destination: str) -> OutgoingMessage:
    """Return what leaves for an entry; MappingError where it cannot, and for what the disk has changed."""
    if sha256(claimed.raw).digest() != claimed.digest:
        raise MappingError(DAMAGED)
    return message_of(claimed.raw, claimed.seq, claimed.event, feed, destination)


def message_of(raw: bytes, seq: int, event: str, feed: Feed, destination: str) -> OutgoingMessage:
    """Return what a relay of a feed sends for a message of the journal; MappingError where it cannot be edited so."""
    edit, relay = feed.edit_at(destination), feed.channel.relay_of(destination)
    if edit is not None:
        own = own_control_id(seq) if relay is not None and relay.control_id == OWN else ""
        raw = edit.apply(read_message(raw, feed.channel, event), own)
    header = read_header(raw, charset=feed.channel.charset)
    return OutgoingMessage(raw, printable(header.control_id).strip() if header else "")


def relay_dry_run(relay: Relay, message: OutgoingMessage) -> DryRun:
    """Return what a relay would do now: nobody is asked, as a receiver says nothing before it gets the message."""
    if END in message.raw:
        return DryRun(held(END_WITHIN))
    call = PlannedCall(METHOD, relay.address, (), printable(message.raw).replace("\r", "\n"))
    return DryRun(Verdict(VerdictKind.DELIVERED, WOULD_SEND, unasked=True), (call,))


async def keep_application_ack(journal: Journal, destination: str, ack: ApplicationAck, at: datetime) -> None:
    """Keep with an entry what the receiver's application says of a message that it had accepted; count and log it."""
    code = ack.code if ack.code in STATUSES else "other"
    telemetry.series(telemetry.APPLICATION_ACKS, destination, code).inc()
    if code not in POSITIVE:
        _log.warning("refused by the application", entry=ack.entry, destination=destination, code=code)
    request = HttpRequest(0, APPLICATION, "", (), b"", at)
    outcome = RequestOutcome(0, STATUSES.get(code, 0), (code,), "", 0.0, ack.block, request)
    with contextlib.suppress(JournalError):  # a journal that has failed says so itself
        await journal.act(lambda context: context.settling.add_answer(ack.entry, destination, outcome, at))

"""What a laboratory answered: the acknowledgement of one message, read by HL7's rooms."""

from typing import Final, NamedTuple

from engine.errors import MessageLimitError, UndecodableMessageError, UnreadableMessageError
from engine.hl7.message import Message, parse
from engine.hl7.segment import Segment
from engine.interchange.orders.laboratory.connectors.connector import SendVerdict
from engine.interchange.store.transmission import TransmissionOutcome

# Table 0008.
TAKEN: Final = frozenset({"AA", "CA"})
NOT_TAKEN: Final = frozenset({"AE", "AR", "CE", "CR"})
LONGEST_TEXT: Final = 200
LONGEST_CODE: Final = 12


class Acknowledgement(NamedTuple):
    """MSA-1, and what it means for the order."""

    code: str
    verdict: SendVerdict


def read_acknowledgement(block: bytes, control_id: str) -> Acknowledgement:
    """Return what a block answers to the message of a control id; UNKNOWN where it answers another one, or nothing."""
    try:
        message = parse(block, undecodable="replace", max_segments=1000, max_repetitions=1000)
    except (UnreadableMessageError, UndecodableMessageError, MessageLimitError):
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "no-acknowledgement", "the answer is no HL7 message")
        )
    code, answered = _leaf(message, "MSA", 1), _leaf(message, "MSA", 2)
    if message.first("MSA") is None:
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "no-acknowledgement", "the answer has no MSA")
        )
    if answered != control_id:
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "wrong-id", "the answer is to another message (MSA-2)")
        )
    if code in TAKEN:
        return Acknowledgement(code, SendVerdict(TransmissionOutcome.ACCEPTED, code))
    if code not in NOT_TAKEN:
        return Acknowledgement(
            "", SendVerdict(TransmissionOutcome.UNKNOWN, "no-code", "the answer has no code of table 0008 (MSA-1)")
        )
    errors = [_error(one) for one in message.named("ERR")]
    number = next((found for found, _ in errors if found), "")
    texts = [text for _, text in errors if text] or [_leaf(message, "MSA", 3)]
    reason = " ".join(" ".join(filter(None, texts)).split())[:LONGEST_TEXT]
    return Acknowledgement(code, SendVerdict(TransmissionOutcome.REFUSED, f"{code} {number}".strip(), reason))


def _error(segment: Segment) -> tuple[str, str]:
    """Return code and text of an ERR as it is since 2.5 (ERR-3, 7, 8), or as it was before (ERR-1.4)."""
    number, text = segment.leaf(3), segment.leaf(8) or segment.leaf(7) or segment.leaf(3, 2)
    if not number:
        number, text = segment.leaf(1, 4), segment.leaf(1, 4, 2)
    # A code is a few letters and digits; other content may be patient data.
    known = number if isinstance(number, str) and number.isalnum() and len(number) <= LONGEST_CODE else ""
    return known, text if isinstance(text, str) else ""


def _leaf(message: Message, segment: str, field: int) -> str:
    found = message.leaf(segment, field)
    return found if isinstance(found, str) else ""

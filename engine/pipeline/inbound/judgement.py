"""What a message is worth before anything is stored: readable or not, whose it is, refused or accepted."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine import fault
from engine.acknowledge.judge import judge_header, judge_parts
from engine.config.channel import Channel
from engine.config.relay import ALL
from engine.errors import MessageError, MessageLimitError, UndecodableMessageError
from engine.hl7.conformance.check import check
from engine.hl7.finding import ErrorCode, Finding, FindingSeverity
from engine.hl7.header import Header
from engine.hl7.message import Message, OddLines, parse
from engine.journal.entry import State
from engine.mapping.compile import Mapping
from engine.mapping.files.group import merge_groups, pair_places
from engine.mapping.subject.subject import AppliedFilter, MessageSubject

ACKNOWLEDGEMENTS: Final = frozenset({"ACK", "MCF"})
ACKNOWLEDGEMENT: Final = "acknowledgement-received"
UNHANDLED: Final = "unhandled-message"
# The flag of what only relays get, with the reason for which it is delivered nowhere else.
RELAYED: Final = "relayed"
# What is said of lines that are not as the standard has them, with the numbers of the first of them.
NO_SEGMENT: Final = "not-a-segment"
MEANT: Final = "segment-name"
READ_AS: Final = "charset-differs"
BY_FEED: Final = "line-feed-end"
UNCLEAR: Final = "line-feed-unclear"
MOST_LINES: Final = 5


class Judgement(NamedTuple):
    """The state an entry begins in, why, and what was found; `message` and `subject` where it got that far.

    `flags` are written on the entry next to those of the subject. `relayed`: only relays with `relay: all` get it.
    """

    state: State
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    message: Message | None = None
    subject: MessageSubject | None = None
    flags: tuple[str, ...] = ()
    relayed: bool = False

    @property
    def filter(self) -> AppliedFilter | None:
        """The filter that held, if any did; of what was refused for another reason, none."""
        held = self.subject.filter if self.subject else None
        ended = self.state is State.REJECTED and held is not None and self.reason != held.rule
        return None if ended else held

    @property
    def pairs(self) -> tuple[tuple[str, ...], ...]:
        """The place of each pair of PID and MRG, of a merge of several."""
        if self.message is None or self.subject is None or not self.subject.merge:
            return ()
        groups = merge_groups(self.message)
        return tuple(pair_places(group, self.message) for group in groups) if len(groups) > 1 else ()

    @property
    def silent(self) -> bool:
        """Whether nothing at all is answered: an acknowledgement is never acknowledged."""
        return self.reason == ACKNOWLEDGEMENT


def judge(raw: bytes, header: Header, channel: Channel, mapping: Mapping) -> Judgement:
    """Judge one message for a channel; never raises for what a message holds."""
    if header.message_type in ACKNOWLEDGEMENTS:
        return Judgement(State.FILTERED, ACKNOWLEDGEMENT)
    judged = _judged(raw, header, channel, mapping)
    if judged.state is not State.FILTERED or not any(relay.relay == ALL for relay in channel.relays):
        return judged
    if judged.reason == UNHANDLED and channel.unhandled_messages != "relay":
        return judged
    flags = (*judged.flags, f"{RELAYED} {judged.reason}")
    return judged._replace(state=State.RECEIVED, reason="", flags=flags, relayed=True)


def _judged(raw: bytes, header: Header, channel: Channel, mapping: Mapping) -> Judgement:
    findings = judge_header(header, channel, mapping.taken)
    if findings:
        return _refused(findings)
    if header.message_type not in mapping.taken.types:
        return Judgement(State.FILTERED, UNHANDLED)
    message = _read(raw, channel, header.trigger)
    if isinstance(message, Judgement):
        return message
    odd = message.odd_lines
    findings = (*_unreadable_lines(odd, channel), *judge_parts(message)) if odd else judge_parts(message)
    if findings:
        return _refused(findings)
    judged = _of_subject(message, mapping.identify(message), channel.limits.identities)
    if odd or message.read_as:
        charset = (f"{READ_AS} {message.read_as}",) if message.read_as else ()
        judged = judged._replace(flags=(*charset, *(_line_flags(odd) if odd else ())))
    return judged if channel.conformance == "off" else _held_to_the_standard(judged, message, channel)


def _read(raw: bytes, channel: Channel, event: str) -> Message | Judgement:
    """Return the message, or what becomes of one that cannot be read."""
    try:
        message = read_message(raw, channel, event)
        fault.point("F02")
    except UndecodableMessageError:
        if channel.undecodable == "hold":
            return Judgement(State.HELD, "undecodable")
        return _refused((_finding("undecodable", "bytes that are not of the character set in MSH-18", "MSH-18"),))
    except MessageLimitError:
        return _refused((_finding("too-many-parts", "more segments or repetitions than this channel allows"),))
    except MessageError:
        return _refused((_finding("unreadable", "the message cannot be read", "MSH"),))
    return message


def read_message(raw: bytes, channel: Channel, event: str = "") -> Message:
    """Parse a message as a channel wants it; MessageError where it cannot be read.

    `event`: that of the journal, where the message is kept. It was read at the door, from EVN-1 if MSH-9.2 is
    empty, and holds whatever the channel says of EVN-1 by now: what was taken in is never read as something else.
    """
    return parse(
        raw,
        charset=channel.charset,
        undecodable="replace" if channel.undecodable == "replace" else "refuse",
        max_segments=channel.limits.segments,
        max_repetitions=channel.limits.repetitions,
        event_from_evn=channel.reads_evn(event),
    )


def _of_subject(message: Message, subject: MessageSubject, most: int) -> Judgement:
    if sum(len(group) for group in subject.patients) > most:
        return _refused((_finding("too-many-identities", "more patient numbers than this channel allows", "PID-3"),))
    if subject.findings:
        return Judgement(State.REJECTED, subject.findings[0].reason, subject.findings, message, subject)
    state = State.FILTERED if subject.action == "filter" else State.RECEIVED
    return Judgement(state, subject.rule if state is State.FILTERED else "", (), message, subject)


def _held_to_the_standard(judged: Judgement, message: Message, channel: Channel) -> Judgement:
    """Count on the entry how often a message breaks its version's rules, or refuse it; warnings do neither."""
    if judged.state is State.REJECTED:
        return judged
    errors = [one.finding() for one in check(message, channel.version) if one.severity is FindingSeverity.ERROR]
    if not errors:
        return judged
    if channel.conformance == "warn":
        return judged._replace(flags=(*judged.flags, f"conformance: {len(errors)}"))
    return judged._replace(state=State.REJECTED, reason=errors[0].reason, findings=tuple(errors))


def _unreadable_lines(odd: OddLines, channel: Channel) -> Iterator[Finding]:
    """Yield what of a message's lines cannot be read without losing something."""
    if odd.unclear:
        text = (
            f"a line feed in segment {_numbers(odd.unclear)} may be text or the end of the segment; write it in text "
            r"as \.br\, or end every segment with a carriage return"
        )
        yield Finding(ErrorCode.SEGMENT_SEQUENCE, UNCLEAR, (), text)
    if odd.none and channel.not_a_segment == "refuse":
        text = f"no segment in line {_numbers(odd.none)}; a carriage return in text is written as \\.br\\"
        yield Finding(ErrorCode.SEGMENT_SEQUENCE, NO_SEGMENT, (), text)


def _line_flags(odd: OddLines) -> tuple[str, ...]:
    """Return the flags of lines that are not as the standard has them."""
    found = {NO_SEGMENT: odd.none, MEANT: odd.meant, BY_FEED: odd.by_feed}
    return tuple(f"{code} {_numbers(lines)}" for code, lines in found.items() if lines)


def _numbers(lines: tuple[int, ...]) -> str:
    """Return some of the lines' numbers, and how many more there are."""
    more = len(lines) - MOST_LINES
    return ", ".join(map(str, lines[:MOST_LINES])) + (f" and {more} more" if more > 0 else "")


def _refused(findings: tuple[Finding, ...]) -> Judgement:
    return Judgement(State.REJECTED, findings[0].reason, findings)


def _finding(reason: str, text: str, *locations: str) -> Finding:
    return Finding(ErrorCode.DATA_TYPE, reason, locations, text)

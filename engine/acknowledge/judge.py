"""What can be judged without a mapping: whether this channel takes such messages, whole, and from this sender."""

from collections.abc import Iterator

from engine.config.channel import Channel
from engine.hl7.events import ADT, ADT_ALONE, VERSIONS, AcceptedMessages, known_trigger
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.header import Header
from engine.hl7.message import Message


def judge_header(header: Header, channel: Channel, taken: AcceptedMessages = ADT_ALONE) -> tuple[Finding, ...]:
    """Return everything that the header gives cause to refuse a message for; empty where nothing does."""
    return (
        *_kind(header, channel, taken),
        *_processing(header, channel),
        *_version(header),
        *_control_id(header),
        *_source(header, channel),
    )


def judge_parts(message: Message) -> tuple[Finding, ...]:
    """Return why a message that is only a part cannot be taken: one continued by DSC, or the rest of one, in ADD.

    MSH-14 alone is no sign of that: senders fill it with anything.
    """
    pointer = message.leaf("DSC", 1)
    place = "DSC-1" if isinstance(pointer, str) and pointer else "ADD" if message.first("ADD") is not None else ""
    if not place:
        return ()
    return (
        Finding(ErrorCode.UNSUPPORTED_MESSAGE, "continuation", (place,), "Continuation messages are not supported"),
    )


def _kind(header: Header, channel: Channel, taken: AcceptedMessages) -> Iterator[Finding]:
    type_, event = header.message_type, header.trigger
    if not type_:
        yield Finding(ErrorCode.REQUIRED_MISSING, "no-message-type", ("MSH-9.1",), "The message type is missing")
    elif type_ not in taken.types:
        if channel.unhandled_messages != "refuse":
            return
        text = f"Only {taken.text} messages are accepted"
        yield Finding(ErrorCode.UNSUPPORTED_MESSAGE, "unsupported-message", ("MSH-9.1",), text)
    elif not event:
        text = "The trigger event is missing"
        if header.event:
            text += "; it is read from EVN-1 on a channel with event_from_evn: true"
        yield Finding(ErrorCode.REQUIRED_MISSING, "no-trigger-event", ("MSH-9.2",), text)
    elif type_ == ADT and not (known_trigger(event) or event in taken.events):
        yield Finding(
            ErrorCode.UNSUPPORTED_EVENT, "unsupported-event", ("MSH-9.2",), "No HL7 version has this ADT trigger event"
        )


def _processing(header: Header, channel: Channel) -> Iterator[Finding]:
    if (header.processing_id or "P") not in channel.processing_ids:
        yield Finding(
            ErrorCode.UNSUPPORTED_PROCESSING, "processing-id", ("MSH-11.1",), "This processing ID is not accepted"
        )


def _version(header: Header) -> Iterator[Finding]:
    version = header.version
    if version and version not in VERSIONS:
        yield Finding(
            ErrorCode.UNSUPPORTED_VERSION, "unsupported-version", ("MSH-12.1",), "Only versions 2.1 to 2.9 are accepted"
        )


def _control_id(header: Header) -> Iterator[Finding]:
    if not _valued(header.control_id):
        yield Finding(ErrorCode.REQUIRED_MISSING, "no-control-id", ("MSH-10",), "The message control ID is missing")


def _source(header: Header, channel: Channel) -> Iterator[Finding]:
    """Compare MSH-3.1|MSH-4.1 with the channel's list; an entry without `|` speaks for every facility of its name."""
    if not channel.sources:
        return
    application, facility = header.component(3, 1), header.component(4, 1)
    if not {f"{application}|{facility}", application} & set(channel.sources):
        yield Finding(
            ErrorCode.TABLE_VALUE, "unlisted-source", ("MSH-3", "MSH-4"), "This sender is not listed on this channel"
        )


def _valued(field: bytes) -> bool:
    return field.strip() not in {b"", b'""'}

"""Messages that others wrote: each is read without loss, and python-hl7 cuts it as we do, or a table says why not."""

import re
from collections import Counter
from collections.abc import Iterator

import hl7
import pytest

from engine.errors import UndecodableMessageError, UnreadableMessageError
from engine.hl7.header import read_header
from engine.hl7.message import Message, Segment, parse

START = re.compile(rb"(?:\A|(?<=[\r\n\x0b\xbf]))MSH[^\sA-Za-z0-9]")

OURS_IS_RIGHT = {
    "MSH-2 is short": "python-hl7 reads `^~&` and `^\\&` by position and fills in the usual characters",
    "MSH-2 repeats a character": "python-hl7 cuts twice by the same character; the second role is none",
    "outer blanks": "python-hl7 strips blanks and control characters at both ends of the message, which are data in "
    "its last field",
    "empty header field": "python-hl7 makes of an MSH that ends behind MSH-2 no field at all",
}


def messages(file: object) -> Iterator[bytes]:
    """Cut a file at each MSH that begins a line; what stands between messages goes with the one before."""
    raw: bytes = file.raw  # type: ignore[attr-defined]
    starts = [found.start() for found in START.finditer(raw)]
    if not raw[: starts[0]].strip(b"\x0b\r\n\xef\xbb\xbf"):
        starts[0] = 0
    for begin, end in zip(starts, [*starts[1:], len(raw)], strict=True):
        yield raw[begin:end]


def read(file: object, raw: bytes) -> Message:
    """Parse as a channel would that knows of Latin-1 senders who do not say so."""
    notes: str = file.row["notes"]  # type: ignore[attr-defined]
    return parse(raw, charset="8859/1" if "NOT UTF-8" in notes else "UTF-8")


def test_every_file_is_read_and_written_back(corpus):
    """Each message of each file but the fuzzed ones is parsed, and its parts together are its text."""
    counted = Counter()
    for file in corpus:
        if file.kind == "fuzz":
            continue
        found = list(messages(file))
        assert len(found) >= 1, file.name
        for raw in found:
            message = read(file, raw)
            assert message.write() == raw, file.name
            assert_whole(message, file.name)
            counted[file.kind] += 1
    assert counted["full"] >= 197


def assert_whole(message, name):
    """Segments, fields, repetitions and components joined by their delimiters are the text again."""
    at = 0
    for segment in message.segments:
        begin = message.text.index(segment.text, at)
        assert not message.text[at:begin].strip("\r\n\x0b\ufeff \t"), name
        at = begin + len(segment.text)
        mark = message.delimiters.field
        fields = [segment.field(number) for number in range(1, segment.fields() + 1)]
        if segment.name in {"MSH", "FHS", "BHS"}:
            fields = fields[1:]
        # A name in small letters is read as the segment that it means.
        written = segment.text.partition(mark)[0]
        assert segment.name in {written, written.strip().upper()}, name
        assert mark.join([written, *fields]) == segment.text, name
        for number in range(3, segment.fields() + 1):
            assert_field(message, segment, number, name)
    assert not message.text[at:].strip("\r\n\x0b\x1c\x00"), name


def assert_field(message, segment, number, name):
    """The repetitions of a field, and the components of each, joined are its text; every leaf can be read."""
    component, repetition = message.delimiters.component, message.delimiters.repetition
    found = segment.repetitions(number)
    assert repetition.join(each.text for each in found) == segment.field(number), name
    for at, each in enumerate(found, 1):
        texts = [each.component(place) for place in range(1, each.components() + 1)]
        assert component.join(texts) == each.text, name
        for place in range(1, each.components() + 2):
            assert each.leaf(place) == segment.leaf(number, place, 1, at), name


def test_headers_agree_with_messages(corpus):
    """The header read from bytes says of type, event, version and control ID what the parsed message says."""
    for file in corpus:
        if file.kind == "fuzz":
            continue
        for raw in messages(file):
            header, message = read_header(raw), read(file, raw)
            assert header is not None, file.name
            assert header.message_type == message.message_type, file.name
            assert header.trigger == message.trigger, file.name
            assert header.version == message.version, file.name
            assert header.control_id.decode() == message.segments[0].field(10), file.name


def test_files_name_their_event(corpus):
    """MSH-9 and MSH-12 are what the manifest says of each file with one message and a usable MSH-2."""
    for file in corpus:
        if file.kind in {"fuzz", "batch/stream"}:
            continue
        message = read(file, file.raw)
        if difference(message) == "MSH-2 repeats a character":
            continue
        told = [*re.split(r"[\^@~]", file.row["event"]), ""]
        assert [message.message_type, message.trigger] == told[:2], file.name
        assert message.version == re.split(r"\^", file.row["version"])[0], file.name


def test_fuzzed_files_are_read_or_refused_by_name(corpus):
    """No fuzzed file does more than raise an error of ours, whatever the channel's settings; its header too."""
    refused = Counter()
    for file in corpus:
        if file.kind != "fuzz":
            continue
        read_header(file.raw)
        for settings in ({}, {"undecodable": "replace"}, {"charset": "8859/1"}):
            try:
                message = parse(file.raw, **settings)
            except (UnreadableMessageError, UndecodableMessageError) as error:
                refused[type(error).__name__] += 1
            else:
                assert_whole(message, file.name)
    assert refused.total() > 0


def difference(message: Message) -> str:
    """Name the row of OURS_IS_RIGHT that speaks of this message, '' for none."""
    declared = message.segments[0].field(2)
    if len(set(declared[:4])) < len(declared[:4]):
        return "MSH-2 repeats a character"
    if len(declared) < 4:
        return "MSH-2 is short"
    if message.segments[0].fields() <= 2:
        return "empty header field"
    last = message.segments[-1].text
    return "outer blanks" if last != last.strip() else ""


def test_python_hl7_cuts_the_same(corpus):
    """Fields, repetitions, components and subcomponents are those of python-hl7, but where a table says otherwise.

    python-hl7 knows one end of segments, CR, and no character sets: it is given our text with CR ends.
    """
    excused = Counter()
    for file in corpus:
        if file.kind == "fuzz":
            continue
        for raw in messages(file):
            message = read(file, raw)
            reason = difference(message)
            if reason:
                excused[reason] += 1
                continue
            other = hl7.parse("\r".join(segment.text for segment in message.segments) + "\r")
            assert len(other) == len(message.segments), file.name
            for ours, theirs in zip(message.segments, other, strict=True):
                assert cut_by_us(ours) == cut_by_python_hl7(theirs), file.name
    assert set(excused) <= set(OURS_IS_RIGHT)
    assert excused.total() < 30


def cut_by_us(segment: Segment) -> list[list[list[str]]]:
    """Fields of repetitions of components, as sent."""
    first = 3 if segment.name in {"MSH", "FHS", "BHS"} else 1
    return [
        [[each.component(place) for place in range(1, each.components() + 1)] for each in segment.repetitions(number)]
        for number in range(first, segment.fields() + 1)
    ]


def cut_by_python_hl7(segment: hl7.Segment) -> list[list[list[str]]]:
    """The same of python-hl7, which says '' for a field without repetitions."""
    first = 3 if str(segment[0]) in {"MSH", "FHS", "BHS"} else 1
    fields = []
    for field in segment[first:]:
        repetitions = [[str(part) for part in each] if isinstance(each, list) else [each] for each in field]
        fields.append([] if repetitions in ([], [[""]]) else repetitions)
    return fields


@pytest.mark.parametrize("reason", OURS_IS_RIGHT.values(), ids=OURS_IS_RIGHT)
def test_each_excuse_has_a_reason(reason):
    """Every disagreement with python-hl7 that is let pass says in words why ours is right."""
    assert "python-hl7" in reason

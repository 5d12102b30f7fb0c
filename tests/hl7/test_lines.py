"""Where segments end."""

import pytest

from engine.hl7.message import parse


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\r\r\n", "\n\n", "\r\r"])
def test_ends(end):
    """CR, LF and CRLF end a segment; what is empty between them is none."""
    raw = end.join(["MSH|^~\\&|A", "EVN|A01", "PID|1||7", "ZPI|x", ""]).encode()
    message = parse(raw)
    assert [segment.name for segment in message.segments] == ["MSH", "EVN", "PID", "ZPI"]
    assert [segment.position for segment in message.segments] == [1, 2, 3, 4]
    assert message.leaf("MSH", 3) == "A"
    assert message.leaf("ZPI", 1) == "x"
    assert message.write() == raw


def test_mixed_ends():
    """One message may hold all three."""
    message = parse(b"MSH|^~\\&|A\nEVN|A01\r\nPID|1||7\rPV1\nPV2|\r\n")
    assert [segment.name for segment in message.segments] == ["MSH", "EVN", "PID", "PV1", "PV2"]


def test_a_line_feed_inside_a_field_stays_there():
    """An LF that no segment follows is data: PID-13 is still found behind a typed address."""
    message = parse(b"MSH|^~\\&|A\rPID|1||7||Doe||||||1 Main St\nApt 4^^Town||555\rPV1|1|I\r")
    assert message.leaf("PID", 11) == "1 Main St\nApt 4"  # PID-11.1
    assert message.leaf("PID", 13) == "555"
    assert message.leaf("PV1", 2) == "I"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"\x0b", b"\r\x1c\r"),
        (b"\r\n", b"\n\x1c"),
        (b"\xef\xbb\xbf\r\n", b"\r\n\x00"),
        (b" \t", b"\x1c\r\n"),
    ],
)
def test_framing_left_around_a_message(before, after):
    """Blanks, line ends and framing bytes around a message are no part of its segments, and are kept."""
    raw = before + b"MSH|^~\\&|A\rPID|1||7 " + after
    message = parse(raw)
    assert [segment.text for segment in message.segments] == ["MSH|^~\\&|A", "PID|1||7 "]
    assert message.write() == raw


def test_odd_segments_are_kept():
    """A line without a segment's name is a segment all the same, under the name it has."""
    message = parse(b"MSH|^~\\&|A\r|||x\rpid|1\rPATIENT|1\rPID\r")
    assert [segment.name for segment in message.segments] == ["MSH", "", "pid", "PATIENT", "PID"]
    assert message.leaf("PID", 3) is None

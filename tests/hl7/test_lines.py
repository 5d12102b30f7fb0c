"""Where segments end."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.hl7.header import read_header
from engine.hl7.lines import KNOWN
from engine.hl7.message import Message, OddLines, parse


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
    """A line without a segment's name is a segment all the same, under the name it has, and is noted by its number."""
    message = parse(b"MSH|^~\\&|A\r|||x\rpid1|1\rPATIENT|1\rPID\r")
    assert [segment.name for segment in message.segments] == ["MSH", "", "pid1", "PATIENT", "PID"]
    assert message.leaf("PID", 3) is None
    assert message.odd_lines == OddLines(none=(2, 3, 4), meant=(), by_feed=(), unclear=())


MSH = "MSH|^~\\&|REG|HOSP|||20250701||ADT^A28|C1|P|2.5.1"
PID = "PID|1||L1^^^HOSP^MR||Osei^Ama||19900412|F|||"
NO_LINES = (None, OddLines((), (), (), ()))


def read(*segments: str, end: str = "\r") -> Message:
    """Parse segments with ends."""
    return parse("".join(f"{segment}{end}" for segment in segments).encode())


@pytest.mark.parametrize(
    ("typed", "street"),
    [
        pytest.param("12 Main\nUSA|PHX|^PRN^PH^^^602^5550123", "12 Main\nUSA", id="word-of-three-letters"),
        pytest.param("12 Main\nNYC||^PRN^PH^^^602^5550123", "12 Main\nNYC", id="and-an-empty-field"),
        pytest.param("12 Main\n\nUSA|PHX|^PRN^PH^^^602^5550123", "12 Main\n\nUSA", id="doubled"),
        pytest.param("12 Main\npid||^PRN^PH^^^602^5550123", "12 Main\npid", id="small-letters"),
        pytest.param("12 Main\n PV1|PHX|^PRN^PH^^^602^5550123", "12 Main\n PV1", id="blank-before-a-name"),
        pytest.param("12 Main\n\nPV9|PHX|^PRN^PH^^^602^5550123", "12 Main\n\nPV9", id="nearly-a-segment"),
        pytest.param("12 Main\x85Flat\u2028B|PHX|^PRN^PH^^^602^5550123", "12 Main\x85Flat\u2028B", id="NEL-and-U+2028"),
        pytest.param("12 Main\x0cFlat\tB|PHX|^PRN^PH^^^602^5550123", "12 Main\x0cFlat\tB", id="form-feed-and-tab"),
    ],
)
@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_a_line_feed_where_segments_end_in_cr_is_text(typed: str, street: str, end: str) -> None:
    """Country, district and phone behind a line break that somebody typed into an address are still there."""
    message = read(MSH, "EVN||20250701", PID + typed, "PV1|1|I", end=end)
    assert [segment.name for segment in message.segments] == ["MSH", "EVN", "PID", "PV1"]
    assert message.leaf("PID", 11) == street
    assert message.leaf("PID", 13, 7) == "5550123"
    assert message.leaf("PV1", 2) == "I"
    assert message.odd_lines is None


def test_the_rest_of_a_result_is_kept() -> None:
    """The second line of a report, and OBX-11 behind it, are not lost."""
    obx = "OBX|1|TX|36643-5^XR Chest^LN||Lungs clear\nNAD||||||F|||20250701"
    message = read(MSH.replace("ADT^A28", "ORU^R01"), "PID|1||1", "OBR|1", obx, "OBX|2|ST|8867-4||72||||||F")
    assert [segment.name for segment in message.segments] == ["MSH", "PID", "OBR", "OBX", "OBX"]
    assert message.leaf("OBX", 5) == "Lungs clear\nNAD"
    assert message.leaf("OBX", 11) == "F"


@pytest.mark.parametrize("name", ["PV1", "ZPI", "AL1"])
def test_a_segment_behind_a_line_feed_among_cr(name: str) -> None:
    """A segment that such a message has, or one of the site's own, is read as one, and its number noted."""
    message = read(MSH, f"{PID}12 Main^^Troy\n{name}|1|I", "PV2||x")
    assert [segment.name for segment in message.segments] == ["MSH", "PID", name, "PV2"]
    assert message.odd_lines == OddLines(none=(), meant=(), by_feed=(3,), unclear=())


@pytest.mark.parametrize("name", ["LOC", "MSH", "STF", "BTS"])
def test_a_name_that_the_message_does_not_have(name: str) -> None:
    """Behind a lone LF it may be text or a segment: nobody can say, and the message says so."""
    message = read(MSH, "EVN||2025", f"{PID}12 Main\n{name}|PHX|^PRN^PH^^^602^5550123", "PV1|1|I")
    assert [segment.name for segment in message.segments] == ["MSH", "EVN", "PID", "PV1"]
    assert message.odd_lines == OddLines(none=(), meant=(), by_feed=(), unclear=(3,))


@pytest.mark.parametrize(
    ("texts", "ends"),
    [
        ([MSH, "EVN||2025", f"{PID}12 Main^^Troy", "ZPI|x", "PV1|1|I"], "\n\n\n\n\n"),
        ([MSH, "EVN||2025", f"{PID}12 Main^^Troy", "XYZ|x", "PV1|1|I"], "\n\n\n\n\r"),
        ([MSH, "EVN||2025", f"{PID}12 Main^^Troy", "ZPI|x", "PV1|1|I"], "\n\r\n\r\n"),
        ([MSH, "EVN||2025", f"{PID}12 Main^^Troy", "PV1", "PV2||x"], "\n\n\r\n\n"),
    ],
)
def test_where_segments_end_in_lf(texts: list[str], ends: str) -> None:
    """Messages whose segments end in LF, all or the first of them, are cut as before."""
    message = parse("".join(map(str.__add__, texts, ends)).encode())
    assert [segment.text for segment in message.segments] == texts


def test_a_line_that_is_no_segment_where_segments_end_in_lf() -> None:
    """It is text of the segment before it; with fields in it that is noted, as they may be another segment's."""
    message = read(MSH, f"{PID}12 Main", "Apt 4^^Town||555", "PV1|1|I", end="\n")
    assert message.leaf("PID", 11) == "12 Main\nApt 4"
    assert message.leaf("PID", 13) == "555"
    assert message.odd_lines == OddLines(none=(2,), meant=(), by_feed=(), unclear=())
    assert read(MSH, f"{PID}12 Main", "Apt 4", "PV1|1|I", end="\n").odd_lines is None


@pytest.mark.parametrize("line", [" PV1|1|I", "PV1 |1|I", "pv1|1|I", "\tPv1 |1|I"])
@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_name_with_blanks_or_small_letters(line: str, end: str) -> None:
    """The visit of a PV1 that is written carelessly is read, and its line noted."""
    message = read(MSH, PID, line, end=end)
    assert message.leaf("PV1", 2) == "I"
    assert message.first("PV1") is message.segments[2]
    assert message.odd_lines == OddLines(none=(), meant=(3,), by_feed=(), unclear=())


@pytest.mark.parametrize(
    "line", ["PV1^1|1|I", "USA|PHX|^PRN", "12 Main St", "loc|x", "|||", "PV1\xa01|x", "Z|1", "zpi|1"]
)
def test_a_line_that_is_no_segment(line: str) -> None:
    """What nothing reads is noted by its number."""
    message = read(MSH, PID, line, "PV1|1|I")
    assert message.odd_lines == OddLines(none=(3,), meant=(), by_feed=(), unclear=())


def test_blank_lines_are_nothing() -> None:
    """Blanks between segments are no line that anybody misses."""
    assert read(MSH, PID, "  ", "PV1|1|I", "").odd_lines in NO_LINES


@pytest.mark.parametrize("typed", ["RE\nG", "RE\n\nUSA", "REG\n"])
def test_a_line_feed_in_msh(typed: str) -> None:
    """The header that is answered and the message that is read are cut at the same place."""
    raw = f"MSH|^~\\&|{typed}|HOSP|||20250701||ADT^A28|C1|P|2.5.1\rEVN||2025\rPID|1||7\r".encode()
    header = read_header(raw)
    assert header is not None
    assert header.control_id == b"C1"
    message = parse(raw)
    assert message.control_id == "C1"
    assert [segment.name for segment in message.segments] == ["MSH", "EVN", "PID"]


# Pieces of which messages are made: names known and unknown, ends, text that looks like either.
WORDS = st.sampled_from(
    [
        *sorted(KNOWN)[::9],
        "PID",
        "PV1",
        "OBX",
        "ZPI",
        "USA",
        "NAD",
        "pv1",
        " PV1",
        "PV1 ",
        "PV1^1",
        "x",
        "Lungs clear",
        "",
    ]
)
ENDS = st.sampled_from(["\r", "\n", "\r\n", "\n\n", "|", "||", "^", "~", "\x0c", "\x85", "\u2028", " "])


@given(st.lists(st.tuples(WORDS, ENDS), max_size=25))
@example([("PID|1||1||A|||||12 MAIN", "\n"), ("USA|PHX|5", "\r")])
def test_every_byte_is_read_or_noted(pieces: list[tuple[str, str]]) -> None:
    """All text is in some segment in its order, and each segment has a name that is read, or its line is noted."""
    body = MSH + "\r" + "".join(word + end for word, end in pieces)
    message = parse(body.encode())
    rest = body.replace("\r\n", "\r")
    for segment in message.segments:
        between, found, rest = rest.partition(segment.text)
        assert found
        assert not between.strip("\r\n")
    assert not rest.strip("\r\n\x00\x1c")
    odd = message.odd_lines
    noted = {*odd.none, *odd.meant, *odd.by_feed, *odd.unclear} if odd else set()
    for segment in message.segments:
        known = segment.name in KNOWN or segment.name.startswith("Z")
        assert known or segment.position in noted or not segment.text.strip()
    header = read_header(body.encode())
    assert header is not None
    assert header.fields[-1].decode() == message.segments[0].text.rpartition("|")[2]

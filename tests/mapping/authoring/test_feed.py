"""What messages are, whatever mapping reads them; and that nothing of a patient is told."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.mapping.authoring.feed import (
    Charset,
    DetectedEncoding,
    FeedSurvey,
    SeenAuthority,
    code_shown,
    detected_encoding,
    fault,
    kind_of,
    name_shown,
    named_times,
    read_sample,
)

HEAD = "MSH|^~\\&|REG|RVB|ENG|CDIS|20250701093000||ADT^{}|M1|P|2.5.1"
PID = "PID|1||100^^^RVB&1.2.3&ISO^MR~9^^^SSA^SS||QUINTERO^MARISOL||198402291215|F"


def _raw(*segments: str, event: str = "A01", head: str = HEAD, charset: str = "", codec: str = "utf-8") -> bytes:
    header = head.format(event) + ("||||||" + charset if charset else "")
    return "\r".join((header, *segments)).encode(codec)


def _feed(*raws: bytes) -> FeedSurvey:
    found = FeedSurvey()
    for number, raw in enumerate(raws, 1):
        found.add(f"message {number}", raw)
    return found


def test_who_sends_what_in_which_version() -> None:
    """Senders, versions, processing IDs, types, events and segments are counted by message."""
    found = _feed(_raw(PID), _raw(PID, "ZPI|1", "ZPI|2"), _raw(event="R01", head=HEAD.replace("ADT", "ORU")))
    assert found.messages == 3
    assert found.senders == {("REG", "RVB"): 3}
    assert found.receivers == {("ENG", "CDIS"): 3}
    assert (found.versions, found.processing) == ({"2.5.1": 3}, {"P": 3})
    assert found.types == {"ADT": 2, "ORU": 1}
    assert found.events == {"A01": 2, "ORU^R01": 1}
    assert found.segments == {"MSH": 3, "PID": 2, "ZPI": 1}


def test_events_that_evn_alone_says() -> None:
    """Counted as events, and how many of them a channel reads by `event_from_evn` alone."""
    alone = HEAD.replace("ADT^{}", "ADT")
    found = _feed(
        _raw("EVN|A01", PID), _raw("EVN|A08", PID, head=alone), _raw("EVN|A08", head=alone.replace("|2.5.1", "|2.2"))
    )
    assert (found.events, found.events_of_evn) == ({"A01": 1, "A08": 2}, 1)


def test_authorities_with_the_types_beside_them() -> None:
    """Of every field that identifies: CX, the numbers of old, and who gave a practitioner's or an order's number."""
    found = _feed(
        _raw(
            PID.replace("|1||", "|1|7|"),
            "MRG|5^^^RVB^MR||||||",
            "PV1|1|I|||||4712^Tansy^^^^^^^HR^L^^^PRN||||||||||||V1^^^RVB^VN",
            "OBR|1|o1^CDIS",
        )
    )
    assert set(found.authorities) == {
        SeenAuthority("", "", "", "PID-2", ""),
        SeenAuthority("RVB", "1.2.3", "ISO", "PID-3", "MR"),
        SeenAuthority("SSA", "", "", "PID-3", "SS"),
        SeenAuthority("RVB", "", "", "MRG-1", "MR"),
        SeenAuthority("HR", "", "", "PV1-7", "PRN"),
        SeenAuthority("RVB", "", "", "PV1-19", "VN"),
        SeenAuthority("CDIS", "", "", "OBR-2", ""),
    }


def test_times_without_a_zone() -> None:
    """A time of day without an offset is counted by field; a mere date is none."""
    found = _feed(_raw("EVN||20250701093000-0500", PID), _raw("EVN||20250701", PID.replace("198402291215", "19840229")))
    assert named_times(found) == [
        ("MSH-7", "Date time of message", 2, 0),
        ("PID-7", "Date time of birth", 1, 0),
        ("EVN-2", "Recorded date time", 0, 1),
    ]
    assert found.offsets == {"-0500": 1}


def test_fields_of_segments_of_ones_own() -> None:
    """Each field with the kinds of what it holds, never with a value."""
    found = _feed(_raw("ZPI|1|Y|QUINTERO|A^B", 'ZPI|2|""|two words'), _raw("ZPI|1|N|20250102"))
    assert found.own == {"ZPI-1": 2, "ZPI-2": 2, "ZPI-3": 2, "ZPI-4": 1}
    assert found.kinds["ZPI-2"] == {"Y or N": 2, '"" (delete)': 1}
    assert found.kinds["ZPI-3"] == {"one word": 1, "text": 1, "date": 1}
    assert found.kinds["ZPI-4"] == {"2 components": 1}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(_raw(PID), Charset("", DetectedEncoding.ASCII, ""), id="ascii"),
        pytest.param(_raw("PID|1||1||Müller"), Charset("", DetectedEncoding.UTF8, ""), id="utf-8"),
        pytest.param(
            _raw("PID|1||1||Müller", charset="8859/1", codec="latin-1"),
            Charset("8859/1", DetectedEncoding.LATIN, ""),
            id="latin, as declared",
        ),
        pytest.param(
            _raw("PID|1||1||Müller", charset="8859/1"),
            Charset("8859/1", DetectedEncoding.UTF8, "these bytes are UTF-8"),
            id="utf-8, declared as latin",
        ),
        pytest.param(
            _raw("PID|1||1||Müller", codec="latin-1"),
            Charset("", DetectedEncoding.LATIN, "MSH-18 is empty, which means UTF-8, and this is none"),
            id="latin, not declared",
        ),
        pytest.param(
            _raw("PID|1||1||M\N{LEFT DOUBLE QUOTATION MARK}", codec="cp1252", charset="UNICODE UTF-8"),
            Charset("UNICODE UTF-8", DetectedEncoding.PAGE, "bytes that are not of it"),
            id="a code page, declared as utf-8",
        ),
        pytest.param(_raw(PID, codec="utf-16"), Charset("", DetectedEncoding.WIDE, ""), id="utf-16"),
        pytest.param(_raw(PID, codec="utf-8-sig"), Charset("", DetectedEncoding.MARKED, ""), id="with a mark"),
        pytest.param(
            _raw("PID|1||1||\x1b$B", charset="~ISO IR87"),
            Charset("~ISO IR87", DetectedEncoding.SWITCHING, ""),
            id="iso 2022",
        ),
        pytest.param(
            _raw(PID, charset="ISO IR999"),
            Charset("ISO IR999", DetectedEncoding.ASCII, "MSH-18 is no character set of table 0211"),
            id="unknown",
        ),
        pytest.param(
            _raw(PID, charset="QUINTERO"),
            Charset("(8 characters)", DetectedEncoding.ASCII, "MSH-18 is no character set of table 0211"),
            id="something else",
        ),
    ],
)
def test_what_bytes_really_are(raw: bytes, expected: Charset) -> None:
    """What MSH-18 declares, what the bytes are, and what does not go together."""
    assert dict(_feed(raw).charsets) == {expected: 1}


def test_what_cannot_be_read_has_a_reason() -> None:
    """And the name of the first; bytes that are not of the set are read all the same, in the likely one."""
    latin = _raw("PID|1||1^^^RVB||Müller", codec="latin-1")
    found = _feed(b"nothing", b"MSH|x", latin, _raw(*["ZZZ|1"] * 10_001))
    assert found.unreadable == {"no-header": 1, "unusable-header": 1, "undecodable": 1, "too-many-parts": 1}
    assert found.firsts["undecodable"] == "message 3"
    assert found.messages == 1
    assert found.guesses == {"8859/1": 1}
    assert read_sample(latin).charset == "8859/1"


def test_names_and_numbers_of_a_patient_are_told_by_their_length() -> None:
    """Also where they stand in the place of an authority, a sender or an event."""
    found = _feed(
        b"MSH|^~\\&|QUINTERO|RVB|||||ADT^Marisol|1|P|2.5.1\r"
        b"PID|1||100234^^^QUINTERO^100234~5^^^100234||QUINTERO^MARISOL||||||||||||987654321"
    )
    assert found.senders == {("(8 characters)", "RVB"): 1}
    assert found.events == {"(7 characters)": 1}
    assert {one[:5:4] for one in found.authorities} == {("(8 characters)", "(6 characters)"), ("(6 characters)", "")}
    told = str((found.senders, found.events, found.authorities, found.kinds, found.charsets)).lower()
    assert all(value not in told for value in ("quintero", "marisol", "100234", "987654321"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Y", "Y or N"),
        ("20250102", "date"),
        ("20259902", "digits"),
        ("20250102103000", "time without a zone, or a long number"),
        ("20250102103000+0100", "time with a zone"),
        ("12", "digits"),
        ("1.5", "decimal number"),
        ("A1", "one word"),
        ("two words", "text"),
        ("", "text"),
        ('""', '"" (delete)'),
        ("A^^B", "3 components"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    """What a value is, without the value."""
    assert kind_of(text, "^") == kind


def test_codes_are_shown_where_they_look_like_codes() -> None:
    """No texts, no long numbers, nothing that is somebody's."""
    assert [code_shown(code, {"quintero"}) for code in ("ZZ", "M-", "I10", "28b")] == ["ZZ", "M-", "I10", "28b"]
    for code in ("QUINTERO", "two words", "123456", "A12345B", "555-1234", "1984-02", "x" * 21, "", "\x00"):
        assert code_shown(code, {"quintero"}) == f"({len(code)} characters)"
    assert name_shown("x" * 65, ()) == "(65 characters)"


@given(st.binary(max_size=300) | st.text(alphabet="MSHPIDZ|^~\\&\r\n\x1b\x0bA0é\ufffe", max_size=300).map(str.encode))
def test_no_bytes_are_too_strange(raw: bytes) -> None:
    """Whatever is in a sample, it is counted once, as read or with a reason."""
    for sample in (raw, b"MSH|^~\\&|" + raw, HEAD.encode() + b"\r" + raw):
        found = FeedSurvey()
        found.add("one", sample)
        assert found.messages + sum(found.unreadable.values()) in {1, 2}
        assert found.messages == 1 or sum(found.unreadable.values()) == 1
        assert isinstance(fault(sample), str)
        assert isinstance(detected_encoding(sample), DetectedEncoding)
        assert isinstance(found.senders, Counter)

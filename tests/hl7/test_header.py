"""The header as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hl7.header import character_set, read_header
from engine.hl7.message import parse

FULL = (
    b"MSH|^~\\&|APP^1.2^ISO|FAC|RAPP|RFAC|20240101||ADT^A01^ADT_A01|ID 1|P^T|2.5.1^X|||AL|NE|USA"
    b"|8859/1~ISO IR87\rPID|1\r"
)


def test_fields():
    """Every field is there as its bytes; type, event and the like also as text."""
    header = read_header(FULL)
    assert header is not None
    assert header.field(1) == b"|"
    assert header.field(2) == b"^~\\&"
    assert header.field(3) == b"APP^1.2^ISO"
    assert header.field(8) == b""
    assert header.field(99) == b""
    assert header.delimiters == b"|^~\\&"
    assert (header.message_type, header.trigger) == ("ADT", "A01")
    assert (header.control_id, header.processing_id, header.version) == (b"ID 1", "P", "2.5.1")
    assert (header.accept_condition, header.application_condition) == ("AL", "NE")
    assert header.charset_field == b"8859/1~ISO IR87"


def test_a_header_of_bytes_that_cannot_be_decoded():
    """What cannot be decoded is there all the same."""
    header = read_header(b"MSH|^~\\&|A\xff|B|||||\xfe^A01|\xe9|P|2.5\r")
    assert header is not None
    assert header.field(3) == b"A\xff"
    assert header.control_id == b"\xe9"
    assert header.trigger == "A01"


@pytest.mark.parametrize(
    "raw",
    [b"", b"MSH", b"PID|1\r", b"MSHA^~\\&", b"MSH\r|", b"FHS|^~\\&\rMSH|^~\\&", b"hello MSH|^~\\&", b"MSH\x00"],
)
def test_no_header(raw):
    """Without an MSH at the beginning there is none."""
    assert read_header(raw) is None


@pytest.mark.parametrize(
    "before", [b"\x0b", b"\r\n", b"\xef\xbb\xbf", b" ", b"\x00", b"\x00\x00\r\n\x00", b"\x00\x00\x00"]
)
def test_what_stands_before(before):
    """Framing, blanks, padding with zeros and byte order marks are passed over."""
    header = read_header(before + FULL)
    assert header is not None
    assert header.control_id == b"ID 1"
    assert parse(before + FULL).control_id == "ID 1"


@pytest.mark.parametrize(
    ("kind", "version", "evn", "always", "event"),
    [
        pytest.param("ADT", "2.2", "A08", False, "A08", id="2.2"),
        pytest.param("ADT", "2.3", "A08", False, "", id="2.3"),
        pytest.param("ADT", "2.3", "A08", True, "A08", id="2.3-channel-says-so"),
        pytest.param("ADT", "2.9", " A08 ", True, "A08", id="2.9-blanks"),
        pytest.param("ADT", "", "A08", True, "A08", id="no-version"),
        pytest.param('ADT^""', "2.5", "A08", True, "A08", id="null"),
        pytest.param("ADT^A01", "2.5", "A08", True, "A01", id="MSH-9.2-wins"),
        pytest.param("ADT", "2.5", "", True, "", id="neither"),
        pytest.param("ORU", "2.5", "R01", True, "", id="no-ADT"),
    ],
)
def test_the_event_of_evn(kind: str, version: str, evn: str, always: bool, event: str) -> None:
    """Before 2.3, and where a channel says so: EVN-1 where MSH-9.2 is empty; header and message agree."""
    raw = f"MSH|^~\\&|A|B|||||{kind}|1|P|{version}\rEVN|{evn}|20250701\r".encode()
    header = read_header(raw, event_from_evn=always)
    assert header is not None
    message = parse(raw, event_from_evn=always)
    assert (header.trigger, message.trigger, message.legible().trigger) == (event, event, event)
    wide = raw.decode().encode("utf-16")
    header = read_header(wide, event_from_evn=always)
    assert header is not None
    assert header.trigger == event


def test_a_message_without_what_cannot_be_read_keeps_its_event() -> None:
    """A control character in a name makes another message of it, of the same event."""
    message = parse(b"MSH|^~\\&|A|B|||||ADT|1|P|2.5\rEVN|A08\rPID|1||1||A\x00B\r", event_from_evn=True)
    assert message.legible() is not message
    assert message.legible().trigger == "A08"


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n", b""])
def test_ends(end):
    """The header ends where its segment does."""
    header = read_header(FULL.split(b"\r", maxsplit=1)[0] + end)
    assert header is not None
    assert header.charset_field == b"8859/1~ISO IR87"


def test_unusable_msh_2():
    """A header that cannot be used for parsing can still be answered."""
    header = read_header(b"MSH|0000|A|B|||||ADT^A01|77|P|2.5\r")
    assert header is not None
    assert header.control_id == b"77"
    assert header.message_type == "ADT"


def test_a_component_separator_that_is_taken():
    """An MSH that separates its fields by the usual component separator, and declares none, has no components."""
    header = read_header(b"MSH^^A&B^B\r")
    assert header is not None
    assert header.component(3, 1) == "A&B"
    assert header.component(3, 2) == ""


def test_wide_header():
    """Of a UTF-16 message the fields stand in UTF-8, and its codec is named."""
    header = read_header("MSH|^~\\&|Ä\r".encode("utf-16"))
    assert header is not None
    assert header.field(3) == "Ä".encode()
    assert header.wide == "utf-16-le"


def test_delimiter_bytes_inside_characters():
    """Two-byte characters that hold the byte of a delimiter do not shift the fields behind them."""
    kanji = b"\x1b$B!|!^\x1b(B"
    header = read_header(b"MSH|^~\\&|%s|B|||||ADT^A01|9|P|2.5||||||~ISO IR87\r" % kanji)
    assert header is not None
    assert (header.field(3), header.control_id, header.charset_field) == (kanji, b"9", b"~ISO IR87")


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        pytest.param("\u80b2\u8a31", "big5", id="the second bytes are those of the field separator and the escape"),
        pytest.param("\u907c\u904e\U00020000\u9928", "gb18030", id="two bytes and four"),
    ],
)
@pytest.mark.parametrize("separator", ["|", "^"])
def test_two_byte_sets_in_the_header(name: str, codec: str, separator: str) -> None:
    """A set of two bytes that MSH-18 declares is read so in MSH too: no name in it shifts the fields behind."""
    declared = {"big5": "BIG-5", "gb18030": "GB 18030-2000"}[codec]
    text = f"MSH|*~\\&|{name}|B|||||ADT*A01|9|P|2.5||||||{declared}\r".replace("|", separator)
    raw = text.encode(codec)
    header = read_header(raw)
    assert header is not None
    assert (header.field(3), header.control_id) == (name.encode(codec), b"9")
    assert character_set(raw) == (declared.encode(), b"~")


def test_two_byte_sets_of_a_channel_in_the_header() -> None:
    """Where MSH-18 is empty, or is null, the channel's set says what a byte of a delimiter is; a declared one wins."""
    raw = 'MSH|^~\\&|\u80b2|B|||||ADT^A01|9|P|2.5||||||""|X\r'.encode("big5")
    for one in (raw, raw[: raw.index(b'||||||"')] + b"\r"):
        header = read_header(one, charset="BIG-5")
        assert header is not None
        assert header.control_id == b"9"
        assert parse(one + b"PID|1\r", charset="BIG-5").leaf("MSH", 3) == "\u80b2"
    assert character_set(raw, "BIG-5") == (b'""', b"~")
    utf8 = read_header(b"\xef\xbb\xbfMSH|^~\\&|" + "\u20ac|B|||||ADT^A01|9|P|2.5\r".encode(), charset="BIG-5")
    assert utf8 is not None
    assert utf8.control_id == b"9"
    latin = "MSH|^~\\&|\u00e9|B|||||ADT^A01|9|P|2.5||||||8859/1\r".encode("latin-1")
    header = read_header(latin, charset="BIG-5")
    assert header is not None
    assert header.control_id == b"9"


def test_null_says_nothing():
    """A null component of the header reads as ''."""
    header = read_header(b'MSH|^~\\&|A|B|||||ADT^A01|9|""|""\r')
    assert header is not None
    assert (header.processing_id, header.version) == ("", "")


def test_nothing_of_the_message_in_its_repr():
    """A header in a log line says nothing of what it holds."""
    assert "ID 1" not in repr(read_header(FULL))


@given(st.binary(max_size=60))
def test_any_bytes(tail):
    """No bytes make reading a header fail, and what it holds joined is the segment."""
    for separator in (b"^", b"~", b"\x1b"):
        odd = read_header(b"MSH" + separator + tail)
        assert odd is None or isinstance(odd.version, str)
    header = read_header(b"MSH|" + tail)
    character_set(b"MSH|" + tail)
    if header is not None and not header.wide:
        assert (b"MSH|" + tail).startswith(b"|".join([header.fields[0], *header.fields[2:]]))

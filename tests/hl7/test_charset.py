"""Character sets of MSH-18 and what their bytes mean."""

import pytest

from engine.errors import UndecodableMessageError
from engine.hl7.charset import Coding, coding_of
from engine.hl7.message import parse


def message(charset: str, name: bytes, before: bytes = b"") -> bytes:
    """One message whose PID-5.1 is `name`; `before` stands in MSH-4."""
    return b"MSH|^~\\&|A|%s|||20240101||ADT^A01|1|P|2.5.1||||||%s\rPID|1||7^^^X||%s^B\r" % (
        before,
        charset.encode(),
        name,
    )


@pytest.mark.parametrize(
    ("charset", "name", "expected", "codec"),
    [
        pytest.param("", b"M\xc3\xbcller", "Müller", "utf-8", id="none: UTF-8"),
        pytest.param("UNICODE UTF-8", b"M\xc3\xbcller", "Müller", "utf-8", id="UTF-8"),
        pytest.param("UTF-8", b"M\xc3\xbcller", "Müller", "utf-8", id="a common spelling"),
        pytest.param("UNICODE", b"M\xc3\xbcller", "Müller", "utf-8", id="UNICODE in single bytes"),
        pytest.param("ASCII", b"Muller", "Muller", "ascii", id="ASCII"),
        pytest.param("8859/1", b"M\xfcller", "Müller", "iso8859_1", id="8859/1"),
        pytest.param("8859/2", b"\xa3ukasz", "Łukasz", "iso8859_2", id="8859/2"),
        pytest.param("8859/5", b"\xb8\xd2\xd0\xdd", "Иван", "iso8859_5", id="8859/5"),
        pytest.param("8859/15", b"\xa4", "€", "iso8859_15", id="8859/15"),
        pytest.param("WINDOWS-1252", b"O\x92Neil", "O’Neil", "cp1252", id="windows-1252"),
        pytest.param("GB 18030-2000", "张".encode("gb18030"), "张", "gb18030", id="GB 18030"),
        pytest.param("KS X 1001", "김".encode("euc_kr"), "김", "euc_kr", id="KS X 1001"),
        pytest.param("BIG-5", "許功".encode("big5"), "許功", "big5", id="Big5 with a backslash inside a character"),
        pytest.param("~ISO IR87", b"\x1b$B;3ED\x1b(B", "山田", "iso-2022", id="JIS X 0208 by switch"),
        pytest.param("~ISOIR87", b"\x1b$B;3ED\x1b(J", "山田", "iso-2022", id="the common spelling, ends in JIS Roman"),
        pytest.param("ISO IR87", b"\x1b$B;3ED\x1b(B", "山田", "iso-2022", id="as the only repetition"),
        pytest.param("~ISO IR159", b"\x1b$(D\x30\x21\x1b(B", "丂", "iso-2022", id="JIS X 0212"),
        pytest.param("~ISO IR87", b"\x1b$B-j\x1b(B", "㈱", "iso-2022", id="a row that only JIS X 0213 names"),
        pytest.param("ISO IR14~ISO IR87", b"\xd4\xcf\xc0\xde", "ﾔﾏﾀﾞ", "iso-2022", id="half-width katakana above"),
        pytest.param("~ISO IR87~ISO IR14", b"\x1b)I\xd4\xcf", "ﾔﾏ", "iso-2022", id="half-width katakana by switch"),
        pytest.param("~KS X 1001", b"\x1b$)C" + "김".encode("euc_kr"), "김", "iso-2022", id="Korean above"),
        pytest.param("~KS X 1001", b"\x1b$(C1h\x1b(B", "김", "iso-2022", id="Korean below"),
        pytest.param("8859/1~8859/5", b"\xfc\x1b-L\xb8\xd2", "üИв", "iso-2022", id="Latin, then Cyrillic"),
        pytest.param("8859/1~ISO IR87", b"\xfc", "ü", "iso-2022", id="no switch used"),
        pytest.param("CNS 11643-1992", b"Li", "Li", "ascii", id="a set without codec, ASCII bytes"),
        pytest.param("ISO IR 999", b"Li", "Li", "ascii", id="an unknown set, ASCII bytes"),
    ],
)
def test_declared_sets(charset, name, expected, codec):
    """PID-5.1 comes out as text, by the set that MSH-18 declares."""
    read = parse(message(charset, name))
    assert read.leaf("PID", 5) == expected  # PID-5.1
    assert read.leaf("PID", 5, 2) == "B"  # PID-5.2
    assert read.charset == codec
    assert read.write() == message(charset, name)


@pytest.mark.parametrize(
    ("charset", "name"),
    [
        pytest.param("", b"M\xfcller", id="Latin-1 bytes, nothing declared"),
        pytest.param("", b"\xc3", id="a UTF-8 character cut short"),
        pytest.param("ASCII", b"M\xc3\xbcller", id="UTF-8 bytes, ASCII declared"),
        pytest.param("ISO IR 999", b"M\xfcller", id="an unknown set"),
        pytest.param("CNS 11643-1992", b"\xa4\xa4", id="a set without codec"),
        pytest.param("8859/7", b"\xff", id="a hole in 8859/7"),
        pytest.param("~ISO IR87", b"\xfc", id="an upper byte where G1 is empty"),
        pytest.param("~ISO IR87", b"\x1b$B;3E\x1b(B", id="half a character"),
        pytest.param("~ISO IR87", b"\x1b%G", id="an unknown switch"),
        pytest.param("~ISO IR87", b"a\x1b", id="a bare escape byte"),
    ],
)
def test_undecodable(charset, name):
    """Bytes outside the set are refused; only on request do they become U+FFFD."""
    with pytest.raises(UndecodableMessageError):
        parse(message(charset, name))
    read = parse(message(charset, name), undecodable="replace")
    assert "\ufffd" in (read.leaf("PID", 5) or "")


def test_switches_end_with_their_line():
    """A set left in force ends with its segment; one above stays only where MSH-18 names no other for there."""
    korean = "\uae40".encode("euc_kr")
    lines = b"MSH|^~\\&|\x1b$)C|||||||||||||||%s\rPID|1||" + korean + b"||\x1b$B;3\rPV1|1|I\r"
    read = parse(lines % b"~KS X 1001")
    assert (read.leaf("PID", 3), read.leaf("PID", 5), read.leaf("PV1", 2)) == ("\uae40", "\u5c71", "I")
    assert parse(lines % b"8859/1~KS X 1001").leaf("PID", 3) == korean.decode("latin-1")


def test_errors_hold_no_bytes_of_the_message():
    """What is raised neither says nor carries what could not be decoded."""
    with pytest.raises(UndecodableMessageError) as caught:
        parse(message("", b"SENTINEL\xff"))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "SENTINEL" not in str(caught.value)


def test_the_channel_has_the_say_where_msh_18_is_empty():
    """An empty MSH-18 means the channel's set, under either of its names; a valued one wins."""
    assert parse(message("", b"M\xfcller"), charset="8859/1").leaf("PID", 5) == "Müller"
    assert parse(message("", b"M\xfcller"), charset="iso8859-1").leaf("PID", 5) == "Müller"
    assert parse(message("UNICODE UTF-8", b"M\xc3\xbc"), charset="8859/1").leaf("PID", 5) == "Mü"
    assert parse(message("", b"\x1b$B;3ED\x1b(B"), charset="~ISO IR87").leaf("PID", 5) == "山田"


def test_a_null_names_no_set():
    """MSH-18 that is null says as little as an empty one: the channel's set holds."""
    assert parse(message('""', "Müller".encode())).leaf("PID", 5) == "Müller"
    assert parse(message('""', b"M\xfcller"), charset="8859/1").leaf("PID", 5) == "Müller"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_wide_text(codec, mark):
    """UTF-16 and UTF-32 are known by their mark or by how MSH looks, whatever MSH-18 says."""
    raw = (mark + message("8859/1", "Müller".encode()).decode()).encode(codec)
    read = parse(raw)
    assert read.leaf("PID", 5) == "Müller"
    assert read.charset == codec
    assert read.write() == raw


def test_utf8_mark():
    """A UTF-8 byte order mark is passed over, and says UTF-8 louder than MSH-18."""
    raw = b"\xef\xbb\xbf" + message("8859/1", "Müller".encode())
    assert parse(raw).leaf("PID", 5) == "Müller"
    assert parse(raw).write() == raw


@pytest.mark.parametrize("before", [b"\x1b$B!|!^\x1b(B", b"\x1b$B!|\x1b$(D0|\x1b(B", b"\x1b$)Cx"])
def test_delimiter_bytes_inside_characters_of_the_header(before):
    """MSH-18 is found behind two-byte runs that hold the bytes of `|` and `^`."""
    raw = message("~ISO IR87", b"\x1b$B;3ED\x1b(B", before=before)
    assert parse(raw).leaf("PID", 5) == "山田"
    assert parse(raw).leaf("MSH", 10) == "1"


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("8859/1", "iso8859_1"),
        ("ISO 8859-1", "iso8859_1"),
        ("iso-8859-15", "iso8859_15"),
        ("cp1250", "cp1250"),
    ],
)
def test_names(name, codec):
    """Names are read without regard to blanks, hyphens and case."""
    assert coding_of(name.encode(), b"~", "ascii") == Coding(codec)


@pytest.mark.parametrize(
    ("charset", "name", "expected", "read_as"),
    [
        pytest.param("8859/1", b"O\x92Brien", "O\u2019Brien", "cp1252", id="an apostrophe of Windows"),
        pytest.param("8859/9", b"O\x92Brien \xfe", "O\u2019Brien \u015f", "cp1254", id="the same in Turkish"),
        pytest.param("8859/1", b"Zo\xeb", "Zo\u00eb", "", id="what is declared"),
        pytest.param("8859/1", b"A\x81\x92", "A\x81\x92", "", id="a byte that Windows does not have either"),
        pytest.param("8859/15", b"\xa4\x92", "\u20ac\x92", "", id="a set that Windows differs from"),
        pytest.param("WINDOWS-1252", b"O\x92Brien", "O\u2019Brien", "", id="declared as it is"),
        pytest.param("UNICODE UTF-8", "A\u0085\u2028B".encode(), "A\u0085\u2028B", "", id="controls of Unicode"),
    ],
)
def test_bytes_of_another_set_than_is_declared(charset: str, name: bytes, expected: str, read_as: str) -> None:
    """What can only be of the Windows set is read so, and the message says that it was."""
    read = parse(message(charset, name))
    assert read.leaf("PID", 5) == expected  # PID-5.1
    assert read.read_as == read_as


def test_a_byte_order_mark_against_what_is_declared() -> None:
    """The mark has the last word; a message that declares something else says that it was read otherwise."""
    for charset, read_as in (("8859/1", "utf-8"), ("UNICODE UTF-8", ""), ("", "")):
        raw = b"\xef\xbb\xbf" + message(charset, "Zo\u00eb".encode())
        assert parse(raw).leaf("PID", 5) == "Zo\u00eb"
        assert parse(raw).read_as == read_as


def test_the_channels_set_is_read_likewise() -> None:
    """Where MSH-18 is empty the channel's set is what is declared."""
    assert parse(message("", b"O\x92Brien"), charset="ISO-8859-1").read_as == "cp1252"

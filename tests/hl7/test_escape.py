r"""Escape sequences, undone and made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.hl7.delimiters import delimiters_of
from engine.hl7.escape import escape, unescape

USUAL = delimiters_of("|", "^~\\&")
OTHER = delimiters_of("!", "@#$%*")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(r"a\F\b\S\c\T\d\R\e\E\f\P\g", "a|b^c&d~e\\f#g", id="delimiters"),
        pytest.param(r"\X41\\X0D0A\x", "A\nx", id="hexadecimal"),
        pytest.param(r"a\X0D\b\X0D\\X0A\c\X0A\d\X0D\\X0D\e", "a\nb\nc\nd\n\ne", id="a carriage return is a line end"),
        pytest.param(r"a\X000d\\X0A\b\X000D\c\X000A\d", "a\nb\nc\nd", id="line ends in four digits"),
        pytest.param(r"a\X00d\b\X0041\c", r"a\X00d\b\X0041\c", id="what is no line end in four digits stays"),
        pytest.param(r"\XC3BC\ und \XC3\\XBC\ ", "ü und ü ", id="hexadecimal characters of several bytes"),
        pytest.param(r"\XE9\ \X41\\XE9\ ", "\\XE9\\ A\\XE9\\ ", id="bytes outside the message's set stay"),
        pytest.param(r"\X00\ a\X07\ \X41\\X1B\ ", r"\X00\ a\X07\ A\X1B\ ", id="control characters stay as written"),
        pytest.param(r"\X4\ \XZZ\ \X\ ", r"\X4\ \XZZ\ \X\ ", id="no hexadecimal at all"),
        pytest.param(r"one\.br\two\.sp\three\.sp2\four\.sp+1\ ", "one\ntwo\nthree\n\nfour\n ", id="line ends"),
        pytest.param(r"\.sp999\ ", r"\.sp999\ ", id="too many line ends stay"),
        pytest.param(r"very \H\important\N\ text", "very important text", id="highlighting"),
        pytest.param(r"\Zxx\T\F\ ", r"\Zxx\T| ", id="a local sequence stays, in pairs"),
        pytest.param(r"\.ti4\a", r"\.ti4\a", id="a formatting command without text stays"),
        pytest.param(r"a\b", r"a\b", id="a bare escape character"),
        pytest.param("trailing\\", "trailing\\", id="at the end"),
        pytest.param(r"\\", r"\\", id="an empty sequence"),
        pytest.param(r"5\3 of them \T\ more", r"5\3 of them & more", id="a stray escape before a real sequence"),
        pytest.param(r"\f\ \x41\ ", r"\f\ \x41\ ", id="lower case is no sequence"),
        pytest.param(r"\M2442\;3ED\C2842\ x", "山田 x", id="a switch to JIS X 0208 and back"),
        pytest.param(r"\M242844\0!\C2842\ ", "丂 ", id="a switch to JIS X 0212 and back"),
        pytest.param(r"\C2D41\é", "é", id="a switch of the upper half"),
        pytest.param(r"\M2442\;3E", r"\M2442\;3E", id="half a character stays"),
        pytest.param(r"\M7777\;3ED", r"\M7777\;3ED", id="an unknown switch stays"),
    ],
)
def test_unescape(text, expected):
    """Known sequences are undone, all else stays as it is."""
    assert unescape(text, USUAL) == expected


def test_other_delimiters():
    """Sequences stand for the delimiters that the message declares, the usual ones where it declares none."""
    assert unescape("a$F$b$S$c$T$d$R$e$E$f$P$g", OTHER) == "a!b@c%d#e$f*g"
    assert unescape("a\\T\\b", delimiters_of("|", "^~\\")) == "a&b"
    assert unescape("a\\T\\b", delimiters_of("|", "^~&")) == "a\\T\\b"  # no escape declared


def test_bytes_of_the_message_set():
    """Hexadecimal bytes are read by the set of the message; by UTF-8 where that is wide."""
    assert unescape(r"\XE9\ ", USUAL, "iso8859_1") == "é "
    assert unescape(r"\X0D\ ", USUAL, "utf-16-le") == "\n "
    assert unescape(r"\X41\ ", USUAL, "iso-2022") == "A "


@given(st.text(), st.sampled_from([USUAL, OTHER, delimiters_of("|", "^~\\&#")]))
def test_round_trip(text, delimiters):
    """What is escaped holds no delimiter and no line end, and unescaped is the text again, with LF for line ends."""
    escaped = escape(text, delimiters)
    assert unescape(escaped, delimiters) == text.replace("\r\n", "\n").replace("\r", "\n")
    marks = set(delimiters) - {delimiters.escape, ""} | {"\r", "\n"}
    assert not marks & set(escaped)


def test_escape_without_an_escape_character():
    """Where none is declared nothing can be escaped."""
    assert escape("a|b", delimiters_of("|", "^~&")) == "a|b"


@given(st.text(alphabet="\\FSTREPXHNCMZ.brsp0123456789ABCDEF \u00e9;", max_size=60))
def test_anything_can_be_unescaped(text):
    """No text makes unescape fail or grow beyond its bound."""
    assert len(unescape(text, USUAL)) <= len(text) * 20


@pytest.mark.parametrize("unit", ["\\", "\\X41\\", "\\E", "\\E\\", "\\M2442\\;3", "\\X4", "\\Xff\\"])
def test_long_texts_take_linear_time(unit):
    """A megabyte of escapes is undone; in quadratic time it would not end before the test's timeout."""
    text = unit * (1_000_000 // len(unit))
    assert len(unescape(text, USUAL)) <= len(text) * 20

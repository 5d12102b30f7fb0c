"""Editing: parts set anew leave every other byte as it was, and the difference names them."""

import pytest

from engine.errors import EditError
from engine.hl7.edit import differences, editable, edited, written
from engine.hl7.message import parse

RAW = (
    b"MSH|^~\\&|REG|RVB|||20260301||ADT^A08|C1|P|2.5.1\rEVN|A08|20260301\r"
    b"PID|1||RB-1^^^RVB^MR~77^^^LKS^MR||Quintero^Marisol^J||19840229|F|||1 Elm^^Salem\r\nNK1|1|A\rNK1|2|B\r"
)


def test_a_part_is_set_and_nothing_else() -> None:
    """Each kind of part; the bytes around it stay, line ends too."""
    changed = edited(parse(RAW), {"PID-5.1": "Smith", "PID-8": "M", "PID-3(2).1": "78", "PID-11.4": "OR"})
    expected = RAW.replace(b"Quintero", b"Smith").replace(b"|F|", b"|M|").replace(b"~77", b"~78")
    assert changed == expected.replace(b"^^Salem", b"^^Salem^OR")
    assert edited(parse(RAW), {"MSH-11": "T"}) == RAW.replace(b"|P|2", b"|T|2")
    assert edited(parse(RAW), {"PID-3[CX.4=LKS].1": "9"}) == RAW.replace(b"~77", b"~9")


def test_what_is_set_may_be_absent_null_or_new() -> None:
    """Empty is absent, two quotes are null, and fields that were not sent are made."""
    assert b"|19840229||||" in edited(parse(RAW), {"PID-8": ""})
    assert b'|""|||1 Elm' in edited(parse(RAW), {"PID-8": '""'})
    assert edited(parse(RAW), {"EVN-7.2": "X"}) == RAW.replace(b"EVN|A08|20260301", b"EVN|A08|20260301|||||^X")


def test_plain_text_is_escaped_and_a_whole_field_is_not() -> None:
    """A delimiter in a component is a character; in a field it delimits."""
    message = parse(edited(parse(RAW), {"PID-5.1": "A^B&C|D", "PID-11": "2 Oak^^Salem"}))
    assert message.leaf("PID", 5) == "A^B&C|D"
    assert message.leaf("PID", 11, 3) == "Salem"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"PID-3.1": "x"}, "2 repetitions"),
        ({"PID-3[CX.4=NONE].1": "x"}, "0 repetitions"),
        ({"NK1-2": "x"}, "2 segments NK1"),
        ({"PV1-2": "x"}, "no segment PV1"),
        ({"PID": "x"}, "not a path"),
        ({"MSH-2": "x"}, "delimiters"),
    ],
)
def test_what_cannot_be_set_is_told(changes: dict[str, str], said: str) -> None:
    """The part, and what to do."""
    with pytest.raises(EditError, match=said):
        edited(parse(RAW), changes)


def test_character_sets_are_kept() -> None:
    """Text goes back in the message's own set, or is refused where that has not got it."""
    raw = RAW.replace(b"2.5.1\r", b"2.5.1||||||8859/1\r", 1)
    assert b"|M\xfcller^" in edited(parse(raw), {"PID-5.1": "Müller"})
    assert "|Müller^".encode() in edited(parse(RAW), {"PID-5.1": "Müller"})
    with pytest.raises(EditError, match="MSH-18"):
        edited(parse(raw), {"PID-5.1": "Łuk"})
    with pytest.raises(EditError, match="2022"):
        edited(parse(raw.replace(b"8859/1", b"ISO IR87")), {"PID-5.1": "Łuk"})


def test_bytes_of_no_set_and_switched_sets_are_kept() -> None:
    """An edit of one part leaves what cannot be read, and what is in another set, byte for byte."""
    raw = RAW.replace(b"Marisol", b"Mar\xffsol")
    assert edited(parse(raw, undecodable="replace"), {"PID-8": "M"}) == raw.replace(b"|F|", b"|M|")
    kanji = RAW.replace(b"2.5.1\r", b"2.5.1||||||~ISO IR87\r", 1).replace(b"Marisol", b"\x1b$B;3ED\x1b(B")
    assert edited(parse(kanji), {"PID-8": "M"}) == kanji.replace(b"|F|", b"|M|")


def test_a_line_break_in_text_stays_one_when_the_message_is_edited() -> None:
    """What is given to edit has a line for each segment; nobody cuts a segment in two by storing it again."""
    raw = b"MSH|^~\\&|A\rPID|1||7||Doe||||||1 Main\nUSA|x\rPV1|1\r"
    text = editable(parse(raw).text)
    assert text.split("\n") == ["MSH|^~\\&|A", "PID|1||7||Doe||||||1 Main\\.br\\USA|x", "PV1|1"]
    assert parse(written(text, "UTF-8")).leaf("PID", 11) == parse(raw).leaf("PID", 11) == "1 Main\nUSA"
    assert editable("no message\r") == "no message"


def test_a_whole_message_is_written_in_its_set() -> None:
    """Whatever ends its lines in an editor."""
    text = parse(RAW).text.replace("\r\n", "\r").replace("\r", "\r\n")
    assert written(text, "UTF-8") == RAW.replace(b"\r\n", b"\r")
    assert written(text.replace("Quintero", "Müller"), "8859/1") == RAW.replace(b"\r\n", b"\r").replace(
        b"Quintero", b"M\xfcller"
    )


def test_differences_name_each_part() -> None:
    """Components of a field that does not repeat, a field that does, segments that came or went."""
    after = RAW.replace(b"Quintero", b"Smith").replace(b"~77^^^LKS^MR", b"").replace(b"NK1|2|B\r", b"PV1|1|I\r")
    assert [tuple(difference) for difference in differences(parse(RAW), parse(after))] == [
        ("PID-3", "RB-1^^^RVB^MR~77^^^LKS^MR", "RB-1^^^RVB^MR"),
        ("PID-5.1", "Quintero", "Smith"),
        ("NK1(2)", "NK1|2|B", None),
        ("PV1", None, "PV1|1|I"),
    ]
    assert differences(parse(RAW), parse(RAW)) == ()

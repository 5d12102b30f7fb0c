"""Messages: lossless, lazy, in three states, within limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import MessageError, MessageLimitError, UnreadableMessageError
from engine.hl7.leaf import NULL
from engine.hl7.message import parse

RAW = (
    b"MSH|^~\\&|APP^1.2^ISO|FAC&9&ISO^X|R|F|20240229101530+0100||ADT^A40^ADT_A40|ID1|P^T|2.5.1^DEU\r"
    b"EVN|A40|20240229\r"
    b'PID|1||7^^^RVB&1.2.3&ISO^MR~8^^^SSA^SS||Doe^""^Q|""|19700101|M|""^x||a\\T\\b^^c&d\\F\\e&||~x\r'
    b"MRG|9^^^RVB^MR\r"
    b"PID|2||10^^^RVB^MR\r"
    b"MRG|11^^^RVB^MR\r"
)


def test_header_values():
    """What MSH says of the message is there by name."""
    message = parse(RAW)
    assert message.message_type == "ADT"
    assert message.trigger == "A40"
    assert message.structure == "ADT_A39"  # derived: MSH-9.3 says ADT_A40
    assert message.control_id == "ID1"
    assert message.version == "2.5.1"
    assert message.processing_id == "P"
    assert message.source == "APP|FAC"
    assert message.delimiters == ("|", "^", "~", "\\", "&", "")
    assert message.charset == "utf-8"


def test_header_values_of_a_bare_header():
    """Without fields they are all ''."""
    message = parse(b"MSH|^~\\&")
    assert (message.message_type, message.trigger, message.structure, message.version) == ("", "", "", "")
    assert message.source == "|"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param((3,), "7", id="PID-3.1"),
        pytest.param((3, 4), "RVB", id="PID-3.4.1"),
        pytest.param((3, 4, 2), "1.2.3", id="PID-3.4.2"),
        pytest.param((3, 4, 4), None, id="PID-3.4.4 absent"),
        pytest.param((3, 1, 1, 2), "8", id="PID-3(2).1"),
        pytest.param((3, 5, 1, 2), "SS", id="PID-3(2).5"),
        pytest.param((3, 1, 1, 3), None, id="PID-3(3) absent"),
        pytest.param((4,), None, id="PID-4 empty"),
        pytest.param((5, 2), NULL, id="PID-5.2 null"),
        pytest.param((5, 2, 2), NULL, id="PID-5.2.2 null with its component"),
        pytest.param((5, 9), None, id="PID-5.9 absent"),
        pytest.param((6,), NULL, id="PID-6 null"),
        pytest.param((6, 3), NULL, id="PID-6.3 null with its field"),
        pytest.param((6, 1, 2), NULL, id="PID-6.1.2 null with its field"),
        pytest.param((6, 1, 1, 2), None, id="PID-6(2) absent"),
        pytest.param((7,), "19700101", id="PID-7"),
        pytest.param((7, 2), None, id="PID-7.2 absent"),
        pytest.param((7, 1, 2), None, id="PID-7.1.2 absent"),
        pytest.param((9,), NULL, id="PID-9.1 null"),
        pytest.param((9, 2), "x", id="PID-9.2 beside a null"),
        pytest.param((11,), "a&b", id="PID-11.1 escaped"),
        pytest.param((11, 2), None, id="PID-11.2 empty"),
        pytest.param((11, 3, 2), "d|e", id="PID-11.3.2 escaped"),
        pytest.param((11, 3, 3), None, id="PID-11.3.3 empty"),
        pytest.param((13,), None, id="PID-13(1) empty"),
        pytest.param((13, 1, 1, 2), "x", id="PID-13(2)"),
        pytest.param((40,), None, id="PID-40 absent"),
    ],
)
def test_leaves(place, expected):
    """A leaf is absent, null or a value, and the same by message, segment and repetition."""
    message = parse(RAW)
    assert message.leaf("PID", *place) == expected
    assert message.segments[2].leaf(*place) == expected
    field, component, subcomponent, repetition = (*place, *(1, 1, 1)[len(place) - 1 :])
    found = message.segments[2].repetitions(field)[repetition - 1 : repetition]
    assert (found[0].leaf(component, subcomponent) if found else None) == expected


def test_no_such_segment():
    """What is asked of a segment that is not there is absent."""
    message = parse(RAW)
    assert message.first("PV1") is None
    assert message.named("PV1") == ()
    assert message.leaf("PV1", 2) is None


def test_segments():
    """Segments keep their order and position; the same ones come each time."""
    message = parse(RAW)
    assert [segment.name for segment in message.segments] == ["MSH", "EVN", "PID", "MRG", "PID", "MRG"]
    assert [segment.position for segment in message.named("MRG")] == [4, 6]
    assert message.named("PID")[1] is message.segments[4]
    assert message.first("PID") is message.segments[2]


def test_fields_as_sent():
    """Fields, repetitions and components are there as they were sent; only leaves have their escapes undone."""
    pid = parse(RAW).segments[2]
    assert pid.field(11) == "a\\T\\b^^c&d\\F\\e&"
    assert pid.field(99) == ""
    assert pid.is_null(6)
    assert not pid.is_null(9)
    assert not pid.is_null(99)
    address = pid.repetitions(11)[0]
    assert address.components() == 3
    assert address.component(3) == "c&d\\F\\e&"
    assert address.component(4) == ""
    assert address.subcomponents(3) == ("c", "d|e", None)
    assert address.subcomponents(2) == ()
    assert pid.repetitions(6)[0].is_null
    assert [each.text for each in pid.repetitions(13)] == ["", "x"]
    assert pid.repetitions(4) == ()


def test_header_fields_that_declare_delimiters():
    """MSH-1 and MSH-2 are not cut by what they declare, and MSH-3 is the third field."""
    msh = parse(RAW).segments[0]
    assert (msh.field(1), msh.field(2)) == ("|", "^~\\&")
    assert (msh.leaf(1), msh.leaf(2)) == ("|", "^~\\&")
    assert msh.leaf(2, 2) is None
    assert [each.text for each in msh.repetitions(2)] == ["^~\\&"]
    assert msh.repetitions(2)[0].leaf() == "^~\\&"
    assert msh.leaf(3, 3) == "ISO"
    assert msh.fields() == 12


def test_other_delimiters():
    """A message is cut by the delimiters it declares."""
    message = parse(b"MSH!@#$%!A!F!!!20240101!!ADT@A01!1!P!2.5\rPID!1!!7@@@X%Y#8!!a$T$b@|^~\\&\r")
    assert message.trigger == "A01"
    assert message.leaf("PID", 3, 4, 2) == "Y"
    assert message.leaf("PID", 3, 1, 1, 2) == "8"
    assert message.leaf("PID", 5) == "a%b"
    assert message.leaf("PID", 5, 2) == "|^~\\&"


def test_undeclared_delimiters_are_text():
    """A delimiter that a short MSH-2 leaves out is plain text in every field."""
    message = parse(b"MSH|^~|A|F\rPID|1||7&8\\T\\\r")
    assert message.leaf("PID", 3) == "7&8\\T\\"


@pytest.mark.parametrize(
    "raw", [b"", b"\r\n", b"MSH", b"PID|1\r", b"MSH\r|^~\\&", b"MSHX^~\\&", b"FHS|^~\\&\rMSH|^~\\&", b"MSH|00"]
)
def test_unreadable(raw):
    """What does not begin with a usable MSH is refused by name."""
    with pytest.raises(UnreadableMessageError):
        parse(raw)


def test_limits():
    """More segments or repetitions than allowed are refused, as many as allowed are not."""
    raw = b"MSH|^~\\&|A\r" + b"NTE|1\r" * 9
    assert len(parse(raw, max_segments=10).segments) == 10
    with pytest.raises(MessageLimitError):
        parse(raw, max_segments=9)
    raw = b"MSH|^~\\&|A\rPID|1||" + b"7~" * 9
    assert len(parse(raw, max_repetitions=10).segments[1].repetitions(3)) == 10
    with pytest.raises(MessageLimitError):
        parse(raw, max_repetitions=9)


def test_nothing_of_the_patient_in_any_repr():
    """What a message and its parts look like in a log line says nothing of what they hold."""
    message = parse(RAW.replace(b"Doe", b"SENTINEL"))
    pid = message.segments[2]
    for shown in (message, pid, pid.repetitions(5)[0], message.segments, pid.repetitions(5)):
        assert "SENTINEL" not in repr(shown)
    assert repr(NULL) == "NULL"
    assert not NULL


LINES = st.lists(
    st.text(alphabet=st.sampled_from('PIDMSHNZ1|^~\\&#"\r\n\x0b\x1c Äé\ufeff\x00'), max_size=40), max_size=8
)


@given(LINES, st.sampled_from(["\r", "\n", "\r\n"]), st.sampled_from(["^~\\&", "^~\\&#", "^~&", "@#$%", "^"]))
def test_any_text_comes_back_whole(lines, end, encoding):
    """Whatever stands behind MSH, the bytes come back, and fields, repetitions and components joined are the text."""
    text = end.join([f"MSH|{encoding}|A", *lines])
    try:
        message = parse(text.encode())
    except UnreadableMessageError:
        return
    assert message.write() == text.encode()
    assert message.text == text
    rest = text.replace("\r", "").replace("\n", "")
    for segment in message.segments:
        bare = segment.text.replace("\n", "")
        assert bare in rest
        for number in range(1, segment.fields() + 1):
            if number <= 2 and segment.name in {"MSH", "FHS", "BHS"}:
                continue
            found = segment.repetitions(number)
            assert (message.delimiters.repetition or "?").join(each.text for each in found) == segment.field(number)
            for each in found:
                parts = [each.component(place) for place in range(1, each.components() + 1)]
                assert (message.delimiters.component or "?").join(parts) == each.text


@given(st.binary(max_size=300), st.sampled_from(["refuse", "replace"]))
def test_any_bytes_are_read_or_refused(tail, undecodable):
    """Arbitrary bytes behind a header are parsed and come back as they were, or are refused by an error of ours."""
    for raw in (tail, b"MSH|^~\\&|" + tail, b"MSH|^~\\&||||||||||||||||~ISO IR87\r" + tail):
        try:
            message = parse(raw, undecodable=undecodable)
        except MessageError:
            continue
        assert message.write() == raw
        for segment in message.segments:
            for number in range(segment.fields() + 2):
                segment.leaf(number)
                segment.repetitions(number)

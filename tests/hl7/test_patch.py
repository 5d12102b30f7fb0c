"""Patching: what is written reads back, and every byte that is not of it stays."""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EditError
from engine.hl7 import iso2022
from engine.hl7.message import Message, parse
from engine.hl7.patch import MessagePatch
from engine.hl7.path import parse_path
from engine.hl7.segment import Segment

RAW: Final = (
    b"MSH|^~\\&|REG|RVB|||20260301||ADT^A08|C1|P|2.5.1\rEVN|A08|20260301||\r"
    b"PID|1||RB-1^^^RVB^MR~77^^^LKS^MR||Quin\\F\\tero&x^Marisol||19840229|F|||\r\nZPI|x\rNK1|1|A\rNK1|2|B\r"
)
JAPANESE: Final = (
    b"MSH|^~\\&|REG|RVB|||20260301||ADT^A08|C1|P|2.5.1||||||~ISO IR87\r"
    b"PID|1||1||\x1b$B;3ED\x1b(B^\x1b$BB@O:\x1b(B\rZPI|\x1b$BB@O:\x1b(B|\r"
)


def of(message: Message, name: str) -> Segment:
    """Return the first segment of a name."""
    segment = message.first(name)
    assert segment is not None
    return segment


def written(raw: bytes, path: str, text: str, **options: str) -> bytes:
    """Return a message with a plain text in one part."""
    message, place = parse(raw, undecodable="replace", **options), parse_path(path)  # type: ignore[arg-type]
    patch = MessagePatch(message)
    patch.write(of(message, place.segment), place, patch.plain(text))
    return patch.patched().raw


def emptied(raw: bytes, *paths: str) -> bytes:
    """Return a message without some parts, or segments."""
    message = parse(raw, undecodable="replace")
    patch = MessagePatch(message)
    for path in paths:
        for segment in message.named(path[:3]):
            if len(path) == 3:
                patch.take_out(segment)
            else:
                patch.empty(segment, parse_path(path))
    return patch.patched().raw


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("PID-3.1", b"|RB-1^", b"|X^"),
        ("PID-3(2).1", b"~77^", b"~X^"),
        ("PID-3[CX.4=LKS].2", b"~77^^", b"~77^X^"),
        ("PID-3[CX.5=MR].1", b"RB-1^^^RVB^MR~77^", b"X^^^RVB^MR~X^"),
        ("PID-3[CX.4=NONE].1", b"", b""),
        ("PID-3(4).1", b"LKS^MR|", b"LKS^MR~~X|"),
        ("PID-5.1.2", b"&x^", b"&X^"),
        ("PID-5.1", b"Quin\\F\\tero&x", b"X"),
        ("PID-13.3", b"|F|||\r", b"|F|||||^^X\r"),
        ("ZPI-1", b"ZPI|x", b"ZPI|X"),
        ("MSH-5", b"RVB|||", b"RVB|X||"),
    ],
)
def test_a_part_is_written_and_nothing_else(path: str, old: bytes, new: bytes) -> None:
    """A choice by a value means all that it chooses, a field that was not sent is made."""
    assert written(RAW, path, "X") == RAW.replace(old, new)


@pytest.mark.parametrize(
    ("paths", "old", "new"),
    [
        (["PID-3"], b"RB-1^^^RVB^MR~77^^^LKS^MR", b""),
        (["PID-3(1)"], b"RB-1^^^RVB^MR~77", b"77"),
        (["PID-3(1)", "PID-3(2)"], b"RB-1^^^RVB^MR~77^^^LKS^MR", b""),
        (["PID-3[CX.4=LKS]"], b"~77^^^LKS^MR", b""),
        (["PID-3.4"], b"RB-1^^^RVB^MR~77^^^LKS^MR", b"RB-1^^^^MR~77^^^^MR"),
        (["PID-3(2).1"], b"~77^", b"~^"),
        (["PID-5.1.1"], b"Quin\\F\\tero&x", b"&x"),
        (["PID-5.9", "PID-30", "PID-2"], b"", b""),
        (["ZPI"], b"ZPI|x\r", b""),
        (["NK1"], b"NK1|1|A\rNK1|2|B\r", b""),
        (["PID"], RAW[RAW.index(b"PID") : RAW.index(b"ZPI")], b""),
    ],
)
def test_parts_and_segments_are_taken_out(paths: list[str], old: bytes, new: bytes) -> None:
    """Positions stay, repetitions close up, segments go with their line ends."""
    assert emptied(RAW, *paths) == RAW.replace(old, new)


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n", b""])
def test_the_last_segment_goes_with_one_line_end(end: bytes) -> None:
    """With its own, or, where it has none, with the one before it: the message ends as it did."""
    between = end or b"\r"
    raw = between.join((b"MSH|^~\\&|A|||||||C", b"PID|1", b"ZPI|x")) + end
    assert emptied(raw, "ZPI") == between.join((b"MSH|^~\\&|A|||||||C", b"PID|1")) + end


def test_a_null_is_no_list_of_components() -> None:
    """A component is written in place of the null, and nothing is taken out of one."""
    raw = RAW.replace(b"|F|||", b'|""|||')
    assert written(raw, "PID-8.2", "X") == RAW.replace(b"|F|||", b"|^X|||")
    assert emptied(raw, "PID-8.1") == raw
    assert written(RAW, "PID-8", '""') == raw


def test_bytes_outside_the_character_set_stay() -> None:
    """In the segment that is changed, too."""
    raw = RAW.replace(b"Marisol", b"Mar\xff\xfesol").replace(b"ZPI|x", b"ZPI|\x80\xc3")
    assert written(raw, "PID-8", "M") == raw.replace(b"|F|", b"|M|")


def test_text_that_switches_sets_stays_and_is_written() -> None:
    """No byte of a two-byte character is taken for a delimiter; a text of a declared set is written in it."""
    assert b"^" not in JAPANESE.split(b"\r")[2]
    assert written(JAPANESE, "PID-8", "M") == JAPANESE.replace(b"\x1b(B\rZPI", b"\x1b(B|||M\rZPI")
    assert parse(written(JAPANESE, "PID-5.1", "山^田")).leaf("PID", 5) == "山^田"
    with pytest.raises(EditError, match="ISO 2022"):
        written(JAPANESE, "PID-5.1", "Łuk")
    assert emptied(JAPANESE, "ZPI") == JAPANESE[: JAPANESE.index(b"ZPI")]
    assert iso2022.released(iso2022.visible(JAPANESE)) == JAPANESE


def test_a_set_that_holds_in_what_follows_is_not_taken_away() -> None:
    """The second register stays designated behind the segment that does it: without that, others read otherwise."""
    raw = b"MSH|^~\\&|REG|RVB|||2026||ADT^A08|C1|P|2.5.1||||||~KS X 1001\rPID|1||1||\x1b$)C\xb1\xe8\rZPI|\xb1\xe8\r"
    assert written(raw, "PID-8", "M") == raw.replace(b"\xe8\rZPI", b"\xe8|||M\rZPI")
    with pytest.raises(EditError, match="ISO 2022"):
        written(raw, "PID-5", "Kim")


@pytest.mark.parametrize(
    ("raw", "path", "text", "said"),
    [
        (RAW.replace(b"^~\\&", b"^~"), "PID-5.1", "A^B", "no escape character"),
        (RAW.replace(b"^~\\&", b"^"), "PID-3(2).1", "A", "no delimiter"),
        (RAW.replace(b"2.5.1\r", b"2.5.1||||||8859/1\r"), "PID-5.1", "Łuk", "MSH-18"),
    ],
)
def test_what_cannot_be_written_is_refused(raw: bytes, path: str, text: str, said: str) -> None:
    """Never another character in its place, and never a part more than there was."""
    with pytest.raises(EditError, match=said):
        written(raw, path, text)


def test_line_ends_that_would_mean_something_else_are_refused() -> None:
    """Without the segment between them a lone LF would stand before one that such a message does not have."""
    raw = b"MSH|^~\\&|A||||||ADT^A08|C\rPID|1\nZPI|x\rRXA|1\r"
    with pytest.raises(EditError, match="line ends"):
        emptied(raw, "ZPI")


PRINTABLE: Final = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co", "Cf", "Zl", "Zp")), max_size=12)
LATIN: Final = st.text(
    st.characters(min_codepoint=0xA0, max_codepoint=0xFF) | st.characters(min_codepoint=0x20, max_codepoint=0x7E),
    max_size=12,
)
SETS: Final = st.sampled_from(
    [
        ("UTF-8", ""),
        ("UTF-8", "UNICODE UTF-8"),
        ("8859/1", ""),
        ("UTF-8", "8859/1"),
        ("UTF-8", "GB 18030-2000"),
        ("BIG-5", ""),
    ]
)
MARKS: Final = st.lists(st.sampled_from("|^~\\&#!$%*+:;<=>?@_`{}"), min_size=5, max_size=5, unique=True)
PATHS: Final = st.sampled_from(["PID-5", "PID-5.1", "PID-5.2.2", "PID-5(2).1", "PID-30.4", "ZPI-1", "MSH-6.1", "PV1-2"])


@settings(max_examples=300)
@given(text=PRINTABLE | LATIN, charset=SETS, marks=MARKS, path=PATHS)
def test_any_text_reads_back(text: str, charset: tuple[str, str], marks: list[str], path: str) -> None:
    """By any delimiters and in several sets; what a set cannot write is refused, never replaced."""
    default, declared = charset
    field, component, repeat, escape, small = marks
    heads = [
        "MSH" + field + component + repeat + escape + small,
        *"ABCDE",
        "ADT",
        "1",
        "P",
        "2.5",
        *[""] * 5,
    ]
    lines = [
        field.join((*heads, declared)),
        field.join(("PID", "1", "", "7", "", f"Roe{component}Jo")),
        f"ZPI{field}x",
        "PV1",
    ]
    raw = "\r".join(lines).encode("ascii")
    place = parse_path(path)
    try:
        after = written(raw, path, text, charset=default)
    except EditError:
        codec = {"8859/1": "iso8859_1", "GB 18030-2000": "gb18030"}.get(declared or default, "utf-8")
        codec = "big5" if default == "BIG-5" else codec
        with pytest.raises(UnicodeEncodeError):
            text.encode(codec)
        return
    message = parse(after, charset=default)
    found = message.leaf(
        place.segment, place.field, place.component or 1, place.subcomponent or 1, place.repetition or 1
    )
    assert (str(found) if found == '""' else found) == (text or None)
    assert written(after, path, text, charset=default) == after
    others = [one for one in message.texts if not one.startswith(place.segment)]
    assert others == [line for line in lines if not line.startswith(place.segment)]


NOISE: Final = st.binary(max_size=30).map(lambda raw: bytes(set(raw) - set(b"\r\n\x00\x0b\x1c")))


@settings(max_examples=300)
@given(
    before=st.lists(NOISE, max_size=3), after=st.lists(NOISE, max_size=3), end=st.sampled_from([b"\r", b"\n", b"\r\n"])
)
def test_every_byte_that_is_not_touched_stays(before: list[bytes], after: list[bytes], end: bytes) -> None:
    """Whatever stands in other segments, and in other fields of the one that is changed."""
    head = [b"MSH|^~\\&|REG|RVB|||2026||ADT^A08|C1|P|2.5.1", *(b"ZAA|" + one for one in before)]
    tail = [*(b"ZBB|" + one for one in after), b"ZCC|"]
    person = b"|".join((b"PID", *before[:1], b"", b"", b"", b"", b"", b"", b"", b"")).split(b"|")
    expected = [*person]
    expected[8] = b"M"
    raw, changed = (end.join((*head, b"|".join(one), *tail)) + end for one in (person, expected))
    assert written(raw, "PID-8", "M") == changed

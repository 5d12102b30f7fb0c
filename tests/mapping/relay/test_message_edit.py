"""An edit applied: what leaves, what each step did, and what is held rather than sent otherwise than meant."""

import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.errors import MappingError
from engine.hl7.edit import differences
from engine.hl7.message import parse
from engine.mapping.compile import MappingSource
from engine.mapping.relay.message_edit import MessageEdit
from tests.mapping.relay.test_compile_edit import edits_of
from tests.tiers import trials

RAW: Final = (
    b"MSH|^~\\&|REG|RVB|||20260301||ADT^A08|C1|P|2.5.1\rEVN|A08|20260301||\r\n"
    b"PID|1||RB-1^^^RVB&1.2&ISO^MR~77^^^LKS^SS||Roe^Jo\\T\\Al||19840229|F|||1 Elm^^Salem||||||||123-45|||\r\n"
    b"ZPI|x\rNK1|1|Roe^Ann\rNK1|2|Poe^Ben|\rlower|\rZXX"
)
DELIMITERS: Final = b"|F|\\S\\\\R\\\\E\\\\T\\||1 Elm^^Salem||||||||123-45|\\F\\||"
SAMPLES: Final = sorted((Path(__file__).resolve().parents[3] / "samples").glob("*.hl7"))


def edit_of(source: MappingSource, *steps: str) -> MessageEdit:
    """Return the edit of a relay with these steps."""
    return edits_of(source, "".join(f"      - {step}\n" for step in steps))["radiology"]


@pytest.mark.parametrize(
    ("step", "old", "new"),
    [
        ("set: {MSH-5: RIS, MSH-6: HOSP}", b"RVB|||2026", b"RVB|RIS|HOSP|2026"),
        ("set: {MSH-12: 2.3}", b"2.5.1", b"2.3"),
        ("set: {PID-5.1: O'Hara & Co}", b"|Roe^Jo", b"|O'Hara \\T\\ Co^Jo"),
        ("set: {PID-5.1: \"'A | b'\"}", b"|Roe^Jo", b"|A \\F\\ b^Jo"),
        ("set: {PID-7: '\"\"'}", b"19840229", b'""'),
        ("set: {PID-2: PID-3}", b"PID|1||", b"PID|1|RB-1^^^RVB&1.2&ISO^MR|"),
        ("set: {PID-2.4: PID-3.4}", b"PID|1||", b"PID|1|^^^RVB&1.2&ISO|"),
        ("set: {PID-2.1: 'PID-3[CX.5=SS].1 | strip-start(7)'}", b"PID|1||", b"PID|1||"),
        ("set: {PID-2.1: \"PID-3[CX.5=XX].1 | else 'NONE'\"}", b"PID|1||", b"PID|1|NONE|"),
        ("set: {PID-2.1: \"PID-3.1 | strip-start(R) | else 'NONE'\"}", b"PID|1||", b"PID|1|B-1|"),
        ("set: {PID-8.1: PID-8 | code(administrative-sex)}", b"|F|", b"|female|"),
        ("set: {PID-5.1: PID-5.1 | upper}", b"|Roe^Jo", b"|ROE^Jo"),
        ("set: {PID-9: PID-20}", b"", b""),
        ("set: {PID-9.1: MSH-2, PID-20.1: MSH-1}", b"|F|||1 Elm^^Salem||||||||123-45|||", DELIMITERS),
        ('set: {PID-9: "PID-5 | when PID-8 = M"}', b"", b""),
        ('set: {PID-9: "PID-5 | when PID-8 = F"}', b"|F||", b"|F|Roe^Jo\\T\\Al|"),
        ("set: {MSH-3: MSH-4, MSH-4: MSH-3}", b"REG|RVB", b"RVB|REG"),
        ("set: {'PID-3[CX.5=SS].1': '0'}", b"~77^", b"~0^"),
        ("set: {'PID-3[CX.5=XX].1': '0'}", b"", b""),
        ("set: {PV1-2: I}", b"", b""),
        ("remove: [ZPI, PID-19]", b"123-45|||\r\nZPI|x\r", b"|||\r\n"),
        ("remove: ['PID-3[CX.5=SS]']", b"~77^^^LKS^SS", b""),
        ("remove: [NK1]", b"NK1|1|Roe^Ann\rNK1|2|Poe^Ben|\r", b""),
        ("remove: [ZXX]", b"\rZXX", b""),
        ("set: {PID-19.1: PID-19.1 | mask}", b"123-45", b"999-99"),
        ("{remove: [ZPI], when: PID-8 = M}", b"", b""),
        ("{remove: [ZPI], when: 'event in (A01, A08)'}", b"ZPI|x\r", b""),
    ],
)
def test_a_step_changes_its_parts_alone(source: MappingSource, step: str, old: bytes, new: bytes) -> None:
    """By a literal, a part as sent, an expression; an absent value changes nothing."""
    assert old in RAW
    assert edit_of(source, step).apply(parse(RAW)) == RAW.replace(old, new)


def test_a_part_is_set_in_each_segment_of_its_name(source: MappingSource) -> None:
    """A path into that segment is of the one that is written."""
    edit = edit_of(source, "set: {NK1-3.1: NK1-2.1 | upper, NK1-4: PID-8}")
    assert edit.apply(parse(RAW)) == RAW.replace(b"Roe^Ann", b"Roe^Ann|ROE|F").replace(b"Ben|", b"Ben|POE|F")


def test_steps_are_done_in_their_order(source: MappingSource) -> None:
    """Each reads the message as the one before has left it."""
    edit = edit_of(
        source, "set: {PID-8: M}", "{set: {PID-9: PID-8}, when: PID-8 = M}", "{remove: [ZPI], when: PID-8 = F}"
    )
    assert edit.apply(parse(RAW)) == RAW.replace(b"|F||", b"|M|M|")


def test_the_control_id_may_be_the_engines(source: MappingSource) -> None:
    """After all steps, escaped; without one MSH-10 stays."""
    edit = edit_of(source, "set: {MSH-5: RIS}")
    assert edit.apply(parse(RAW), "E|7") == RAW.replace(b"RVB|||", b"RVB|RIS||").replace(b"|C1|", b"|E\\F\\7|")


def test_each_step_is_explained(source: MappingSource) -> None:
    """With its place, whether its condition held, what differs, and what it could not do."""
    edit = edit_of(
        source,
        "{set: {MSH-5: RIS, PV1-2: I, PID-9: PID-20, 'PID-3[CX.5=XX].1': x}, remove: [ZPI]}",
        "{remove: [NK1], when: PID-8 = M}",
        "{set: {PID-8.1: ZPI-1 | code(administrative-sex)}}",
    )
    message = parse(RAW)
    first, second, third = edit.explained(message)
    assert (first.step, first.file, first.line, first.held) == (1, "a.yaml", 11, True)
    assert [tuple(one) for one in first.changes] == [("MSH-5", None, "RIS"), ("ZPI", "ZPI|x", None)]
    assert first.notes == (
        "PV1-2: the message has no PV1",
        "PID-9: no value",
        "PID-3[CX.5=XX].1: no repetition is chosen",
    )
    assert (second.step, second.line, second.held, second.changes, second.notes) == (2, 12, False, (), ())
    assert third.notes == ("PID-8.1: no value",)
    assert differences(message, edit.edited(message)) == first.changes


@pytest.mark.parametrize(
    ("raw", "step", "reason", "place"),
    [
        (RAW.replace(b"2.5.1", b"2.5.1||||||8859/1"), "set: {PID-5.1: Łuk}", "edit-value", "PID-5.1"),
        (RAW.replace(b"Roe^Jo", b"R\xffe^Jo"), "set: {PID-9.1: PID-5.1 | upper}", "edit-value", "PID-9.1"),
        (RAW.replace(b"^~\\&", b"^~"), "set: {PID-5.1: A^B}", "edit-value", "PID-5.1"),
        (RAW.replace(b"^~\\&", b"^"), "set: {'PID-3(2)': A}", "edit-unsafe", "PID-3(2)"),
        (RAW.replace(b"Roe^", b"R\xc3\xb6^"), "set: {MSH-18: 8859/1}", "edit-unsafe", "MSH-18"),
        (
            RAW.replace(b"2.5.1", b"2.5.1||||||8859/1").replace(b"Roe^", b"R\xf6^"),
            "remove: [MSH-18]",
            "edit-unsafe",
            "MSH-18",
        ),
    ],
)
def test_what_cannot_leave_as_meant_is_held(
    source: MappingSource, raw: bytes, step: str, reason: str, place: str
) -> None:
    """By a reason and a place, without a value: never another character, never a name in another character set."""
    edit = edit_of(source, step)
    with pytest.raises(MappingError) as caught:
        edit.apply(parse(raw, undecodable="replace"))
    assert (caught.value.reason, caught.value.location) == (reason, place)
    with pytest.raises(MappingError):
        edit.explained(parse(raw, undecodable="replace"))


def test_a_character_set_may_be_named_as_the_bytes_have_it(source: MappingSource) -> None:
    """A receiver that wants MSH-18 gets it."""
    raw = RAW.replace(b"Roe^", b"R\xf6e^")
    edit = edit_of(source, "set: {MSH-18: 8859/1}")
    assert edit.apply(parse(raw, charset="8859/1")) == raw.replace(b"2.5.1", b"2.5.1||||||8859/1")
    assert edit.apply(parse(RAW)) == RAW.replace(b"2.5.1", b"2.5.1||||||8859/1")


def test_a_part_as_sent_keeps_its_bytes(source: MappingSource) -> None:
    """What no character set reads, and what is in another set, is copied byte for byte."""
    edit = edit_of(source, "set: {PID-9: PID-5}")
    raw = RAW.replace(b"Roe^Jo", b"R\xffe^Jo")
    assert edit.apply(parse(raw, undecodable="replace")) == raw.replace(b"|F||", b"|F|R\xffe^Jo\\T\\Al|")
    kanji = RAW.replace(b"2.5.1", b"2.5.1||||||~ISO IR87").replace(b"Roe^Jo", b"\x1b$B;3ED\x1b(B^Jo")
    assert edit.apply(parse(kanji)) == kanji.replace(b"|F||", b"|F|\x1b$B;3ED\x1b(B^Jo\\T\\Al|")


@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_every_sample_keeps_all_other_bytes(source: MappingSource, path: Path) -> None:
    """In all character sets and line ends; a second time changes nothing."""
    raw = path.read_bytes()
    if not raw.startswith(b"MSH"):
        return
    edit = edit_of(source, "{set: {MSH-5: RIS, PID-30: N}, remove: [ZPI]}")
    before = parse(raw, undecodable="replace")
    after = edit.apply(before)
    assert edit.apply(parse(after, undecodable="replace")) == after
    changed = {re.sub(r"\(\d+\)", "", one.path) for one in differences(before, edit.edited(before))}
    assert changed <= {"MSH-5", "PID-30", "ZPI"}


PRINTABLE: Final = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="'"), min_size=1, max_size=20
)


@pytest.mark.property
@settings(max_examples=trials(100))
@example(text="\ufffd")
@given(text=PRINTABLE.filter(lambda text: text != '""'))
def test_a_literal_reads_back_and_is_set_once(source: MappingSource, text: str) -> None:
    """Whatever it holds; applied twice is applied once."""
    written = text.replace("\\", "\\\\").replace('"', '\\"')
    edit = edit_of(source, f"set: {{PID-5.1: \"'{written}'\"}}")
    after = edit.apply(parse(RAW))
    assert parse(after).leaf("PID", 5) == text
    assert edit.apply(parse(after)) == after


KEYED: Final = """\
channel: riverbend
listen: {mllp: {port: 0}}
keys: {study: {env: STUDY_KEY}}
destinations:
  - {name: fhir, base_url: http://127.0.0.1:1}
  - name: radiology
    type: mllp
    host: 127.0.0.1
    port: 2575
    send: edited
    edit:
"""


def test_each_patient_of_a_message_has_days_of_its_own(source: MappingSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """A date is shifted by the days of the PID before it; what is no date does not get through."""
    monkeypatch.setenv("STUDY_KEY", "correct horse battery")
    edit = edits_of(source, "      - set: {PID-7.1: PID-7 | shift-days(study)}\n", KEYED)["radiology"]

    def dates(*people: str) -> list[bytes]:
        lines = [f"PID|1||{number}^^^RVB^MR||||{born}" for number, _, born in (one.partition(" ") for one in people)]
        raw = "\r".join(("MSH|^~\\&|R|RVB|||20260301||ADT^A24|C1|P|2.5.1", *lines)).encode()
        return [line.rpartition(b"|")[2] for line in edit.apply(parse(raw)).split(b"\r")[1:]]

    one, other = dates("7 19840229", "8 19840229")
    assert one != other
    assert dates("8 19840229", "7 19840229") == [other, one]
    assert dates("7 29.02.1984") == [b'""']

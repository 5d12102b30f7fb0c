"""The edit of a relay: every fault is told in the channel's file, with line and column."""

from typing import Final

import pytest

from engine.config.channel import Channel
from engine.config.settings import shipped
from engine.config.source import look, parse
from engine.errors import ConfigurationError
from engine.hl7.message import parse as parse_message
from engine.mapping.compile import MappingSource, compile_edits, compile_mapping, load
from engine.mapping.relay.message_edit import MessageEdit

CHANNEL: Final = """\
channel: riverbend
listen: {mllp: {port: 0}}
destinations:
  - {name: fhir, base_url: http://127.0.0.1:1}
  - name: radiology
    type: mllp
    host: 127.0.0.1
    port: 2575
    send: edited
    edit:
"""
MESSAGE: Final = b"MSH|^~\\&|REG|RVB|||20260301||ADT^A08|C1|P|2.5.1\rPID|1||7||Roe^Jo|||F\r"


def edits_of(source: MappingSource, lines: str, channel: str = CHANNEL) -> dict[str, MessageEdit]:
    """Return the edits of the relays of a channel."""
    looked = look(parse(channel + lines, "a.yaml"), Channel)
    assert looked.value is not None
    assert looked.problems == ()
    return compile_edits(source, looked.value, looked.source)


FAULTS: Final = [
    ("- set: {PDI-5: x}", 15, "unknown segment 'PDI'", "'PID'"),
    ("- set: {PID-99: x}", 15, "unknown field PID-99", "1 to 40"),
    ("- set: {PID-5.99: x}", 15, "unknown component 99", "15 components"),
    ("- set: {pid-5: x}", 15, "found 'pid-5'", "did you mean 'PID-5'?"),
    ("- set: {PID: x}", 15, "found 'PID'", "expected a path"),
    ("- set: {ZPI-0: x}", 15, "found 'ZPI-0'", "expected a path"),
    ("- set: {'PID-3[5=MR]': x}", 15, "PID-3[5=MR]", "PID-3[CX.5=MR].1"),
    ("- set: {MSH-1: x}", 15, "MSH-1, the field separator", "leave it out"),
    ("- set: {MSH-2: x}", 15, "MSH-2, the delimiters", "leave it out"),
    ("- set: {MSH-10: x}", 15, "MSH-10, by which an answer is known", "control_id: own"),
    ("- remove: [MSH]", 18, "MSH, without which there is no message", "remove single fields"),
    ("- remove: [MSH-2]", 18, "MSH-2, the delimiters", "leave it out"),
    ("- remove: [PDI]", 18, "unknown segment 'PDI'", "'PID'"),
    ("- remove: [PID-99]", 18, "unknown field PID-99", "1 to 40"),
    ("- remove: [zpi]", 18, "found 'zpi'", "a segment such as ZPI"),
    ("- {set: {PID-8: x}, when: PDI-8}", 27, "unknown segment 'PDI'", "'PID'"),
    ("- {set: {PID-8: x}, when: PID-8 is F}", 27, "PID-8 is F", "PATH = value"),
    ("- {set: {PID-8: x}, when: PID-8 = F and PID-8 = M}", 27, "never holds", "exclude each other"),
    ("- {set: {PID-5.1: x, PID-5: y}}", 28, "PID-5, which PID-5.1 of this step", "write two steps"),
    ("- {set: {PV1-2: I}, remove: [PV1]}", 36, "PV1, which PV1-2 of this step", "write two steps"),
    ("- {set: {'PID-3(2).1': x}, remove: [PID-3.1.1]}", 43, "PID-3.1.1, which PID-3(2).1", "write two steps"),
    ("- remove: ['PID-3[CX.5=MR]', 'PID-3[CX.4=X]']", 36, "which PID-3[CX.5=MR]", "write two steps"),
    ("- remove: [ZPI, ZPI]", 23, "ZPI twice in one step", "take one of them out"),
    ("- set: {PID-8: ''}", 15, "an empty text", "remove: [PID-8]"),
    ("- set: {PID-8: RIS | upper}", 15, "'RIS | upper'", "in quotes"),
    ("- set: {PID-8: CX.4}", 15, "'CX.4'", "in quotes"),
    ("- set: {PID-8: pid-5}", 15, "found 'pid-5'", "did you mean 'PID-5'?"),
    ("- set: {PID-8: PID-5 PID-6}", 15, "PID-5 PID-6", "quoted text"),
    ("- set: {PID-8: PID-99}", 15, "unknown field PID-99", "1 to 40"),
    ("- set: {PID-8: PID-8(1000)}", 15, "'PID-8(1000)'", "expected a path"),
    ("- set: {PID-8.1: PID-8 | nothing}", 15, "unknown function 'nothing'", "did you mean"),
    ("- set: {PID-19.1: PID-19.1 | hash(study)}", 15, "the key 'study'", "add keys: {study:"),
    ("- set: {PID-8.1: PID-8 | code(nix)}", 15, "unknown table 'nix'", "tables/"),
    ("- set: {PID-8.1: PID-7 | date}", 15, "a date for an element of type string", "use one of"),
    ("- set: {PID-8: \"'U' | else PID-8\"}", 15, "after a constant", "remove it"),
    ("- set: {PID-2: PID-3.1}", 15, "one text for all of PID-2", "such as PID-2.1"),
]


@pytest.mark.parametrize(("line", "column", "found", "expected"), FAULTS)
def test_a_fault_is_told_with_its_place(
    source: MappingSource, line: str, column: int, found: str, expected: str
) -> None:
    """In the channel's file, at the path, the value or the condition."""
    with pytest.raises(ConfigurationError) as caught:
        edits_of(source, f"      {line}\n")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == ("a.yaml", 11, column), str(problem)
    assert (found in problem.found, expected in problem.expected) == (True, True), str(problem)


def test_every_fault_of_all_steps_is_told_at_once(source: MappingSource) -> None:
    """One that is left out hides no other."""
    with pytest.raises(ConfigurationError) as caught:
        edits_of(
            source, "      - {set: {PDI-5: x, PID-98: x}, remove: [XYZ]}\n      - {remove: [PID-99], when: PDI-8}\n"
        )
    assert [(one.line, one.path) for one in caught.value.problems] == [
        (11, "destinations.1.edit.0.set.PDI-5"),
        (11, "destinations.1.edit.0.set.PID-98"),
        (11, "destinations.1.edit.0.remove.0"),
        (12, "destinations.1.edit.1.remove.0"),
        (12, "destinations.1.edit.1.when"),
    ]


def test_each_relay_of_each_channel_has_its_own(source: MappingSource) -> None:
    """They share a mapping and nothing else; a relay that sends the original has none."""
    more = CHANNEL.replace("- name: radiology", "- name: NAME").partition("destinations:\n")[2].partition("  - name")[2]
    other = f"      - set: {{MSH-5: RIS}}\n  - name{more.replace('NAME', 'archive')}      - set: {{MSH-5: ARC}}\n"
    other += "  - {name: copy, type: mllp, host: 127.0.0.1, port: 2576}\n"
    ours = edits_of(source, other)
    theirs = edits_of(source, "      - set: {MSH-5: LAB}\n", CHANNEL.replace("riverbend", "lakes"))
    message = parse_message(MESSAGE)
    assert {name: parse_message(edit.apply(message)).leaf("MSH", 5) for name, edit in ours.items()} == {
        "radiology": "RIS",
        "archive": "ARC",
    }
    assert parse_message(theirs["radiology"].apply(message)).leaf("MSH", 5) == "LAB"
    assert len({edit.hash for edit in (*ours.values(), *theirs.values())}) == 3


def test_an_edit_is_no_part_of_the_mapping(source: MappingSource) -> None:
    """What was recorded with an entry tells by which mapping it was written, whatever is passed on elsewhere."""
    looked = [
        look(parse(CHANNEL + f"      - set: {{MSH-5: {name}}}\n", "a.yaml"), Channel).value for name in ("RIS", "LAB")
    ]
    assert len({compile_mapping(source, one).hash for one in looked if one is not None}) == 1
    assert load([shipped("mappings")], "adt").hash == source.hash

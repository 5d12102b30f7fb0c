"""Coverage over messages: what is read by no rule, which codes no table has, what is never made and never used."""

from collections.abc import Callable
from pathlib import Path

from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.coverage import Coverage
from engine.mapping.authoring.local_codes import MissingCode
from engine.mapping.compile import MappingSource

Make = Callable[..., Message]
PID = "PID|1||1^^^RVB^MR||A^B^^^^^L||19840229|F|||||555-1|||M|||||||||||||||||20250101"


def _covered(source: MappingSource, *messages: Message) -> Coverage:
    found = Coverage(source, channel_of({}))
    for message in messages:
        found.add(message)
    return found


def test_what_is_read_by_no_rule_is_counted_by_message(source: MappingSource, message: Make) -> None:
    """A field counts once for each message that fills it, with the standard's name."""
    found = _covered(source, message("A31", PID, "ZPI|1|Y"), message("A31", PID), message("A31", "PID|1||1^^^RVB"))
    assert found.messages == 3
    assert ("PID-33", "Last update date time", 2) in found.unread_named()
    assert found.unread["ZPI-2"] == 1
    assert "PID-7" not in found.unread


def test_codes_without_a_row_are_counted_each_time(source: MappingSource, message: Make) -> None:
    """The same code of the same field in two messages counts twice, although its text is the same."""
    made = [message("A31", PID.replace("|||M|", "|||ZZ|")) for _ in range(3)]
    found = _covered(source, *made, message("A31", PID))
    assert found.codes == {MissingCode("marital-status", "ZZ", "PID-16"): 3}


def test_what_is_found_elsewhere_is_not_unmapped(source: MappingSource, message: Make) -> None:
    """A race of the detailed table is looked up in the other one first, which is no unmapped code."""
    found = _covered(source, message("A31", "PID|1||1^^^RVB||A^B|||||2036-2"))
    assert not [code for code in found.codes if code.table == "race-detailed"]


def test_elements_and_rules_that_nothing_led_to(source: MappingSource, message: Make) -> None:
    """What is made is off the lists from then on; constants alone are no rules."""
    found = _covered(source, message("A31", PID))
    never = found.never_produced()
    assert "Patient.deceasedDateTime" in never
    assert "Patient.contact" in never
    assert "Patient.birthDate" not in never
    rules = {(Path(one.file).name, one.rule): one for one in found.never_used()}
    assert ("patient.yaml", "PID-7 | date") not in rules
    assert rules["patient.yaml", "PID-29 | datetime"].element == "Patient.deceasedDateTime"
    assert not [rule for rule in rules if rule[1].startswith("'http")]
    found.add(message("A31", PID, "NK1|1|A^B|MTH"))
    assert "Patient.contact" not in found.never_produced()


def test_outcomes_are_counted(source: MappingSource, message: Make) -> None:
    """Each event with what became of it."""
    found = _covered(source, message("A31", PID), message("A31", PID), message("A20"))
    assert found.outcomes == {("A31", "deliver", "update-person"): 2, ("A20", "filter", "bed-status"): 1}


def test_a_coding_system_that_nobody_knows_is_counted(source: MappingSource, message: Make) -> None:
    """Its name (CWE.3) is the code that the table lacks; a name with a row, HL7nnnn and local ones are none."""
    made = message("A31", "PID|1||1^^^RVB|||||||||||||||||||||||USA^^ISO3166_1~X^^HL70171~Y^^99RVB~Z^^NOWHERE")
    found = _covered(source, made, made)
    assert found.codes == {MissingCode("coding-system", "NOWHERE", "PID-26"): 2}

"""Any text that FHIR holds comes back as it was, or is an error: never a question mark, never another field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import MappingError
from engine.hl7.message import parse
from engine.mapping.outgoing.change import AdtMessage, ChangeKind, FhirChange, OutgoingSetting
from engine.mapping.outgoing.compile import compile_outgoing, read_outgoing
from engine.mapping.outgoing.write import usable_character_set
from tests.mapping.outgoing.conftest import NOW

SOURCE = read_outgoing([shipped("mappings")])
UNICODE = compile_outgoing(SOURCE)
LATIN = compile_outgoing(SOURCE, OutgoingSetting(character_set="8859/1"))
# What FHIR's string may hold; a text of quotation marks alone would be a deletion.
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")) | st.just("\n"), min_size=1).filter(
    lambda text: text.strip() == text != '""' and text
)

PATIENT = {"resourceType": "Patient", "identifier": [{"value": "1"}]}


def _patient(family: str) -> FhirChange:
    patient = {**PATIENT, "name": [{"family": family, "given": ["Ann"]}], "birthDate": "1980-01-02"}
    return FhirChange(ChangeKind.PATIENT_UPDATED, patient)


@given(TEXTS)
def test_any_text_comes_back(text: str) -> None:
    """Delimiters, escapes and line breaks are one leaf again; the fields beside it are where they were."""
    made = UNICODE.message(_patient(text), "1", NOW)
    assert isinstance(made, AdtMessage)
    message = parse(made.raw)
    assert message.leaf("PID", 5, 1) == text
    assert message.leaf("PID", 5, 2) == "Ann"
    assert message.leaf("PID", 7) == "19800102"


@given(TEXTS)
def test_what_a_character_set_lacks_is_an_error(text: str) -> None:
    """In Latin-1 a text is whole, or there is no message."""
    if text.encode("latin-1", "replace").decode("latin-1") != text:
        with pytest.raises(MappingError, match="unwritable-character at PID-5"):
            LATIN.message(_patient(text), "1", NOW)
        return
    made = LATIN.message(_patient(text), "1", NOW)
    assert isinstance(made, AdtMessage)
    assert parse(made.raw).leaf("PID", 5, 1) == text


def test_two_quotation_marks_are_no_deletion() -> None:
    """A text that reads as the null of HL7 is left out, and noted."""
    made = UNICODE.message(_patient('""'), "1", NOW)
    assert isinstance(made, AdtMessage)
    assert made.notes == ("value-left-out PID-5.1",)
    assert parse(made.raw).named("PID")[0].field(5) == "^Ann"


@pytest.mark.parametrize(
    ("name", "usable"),
    [("UNICODE UTF-8", True), ("8859/1", True), ("ASCII", True), ("", False), ("ISO IR87", False), ("EBCDIC", False)],
)
def test_character_sets(name: str, usable: bool) -> None:
    """Sets that switch within the text, and names that nobody knows, cannot be written."""
    assert usable_character_set(name) is usable


def test_repetitions_that_a_version_does_not_have_are_noted() -> None:
    """In 2.3 a race does not repeat."""
    coding = {"system": "urn:oid:2.16.840.1.113883.6.238"}
    omb = [{"url": "ombCategory", "valueCoding": {**coding, "code": code}} for code in ("2106-3", "2028-9")]
    race = {"url": "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race", "extension": omb}
    change = FhirChange(ChangeKind.PATIENT_UPDATED, {**PATIENT, "extension": [race]})
    made = compile_outgoing(SOURCE, OutgoingSetting(version="2.3")).message(change, "1", NOW)
    assert isinstance(made, AdtMessage)
    assert parse(made.raw).named("PID")[0].field(10) == "2106-3"
    assert "version-left-out PID-10(2)" in made.notes

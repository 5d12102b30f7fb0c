"""Trigger events and message structures by version."""

import pytest

from engine.hl7.events import TRIGGERS, VERSIONS, StructurePart, grammar, known_trigger, structure


@pytest.mark.parametrize(
    ("version", "trigger", "expected"),
    [
        ("2.1", "A04", "ADT_A04"),  # up to 2.3.1 each trigger has its own
        ("2.3.1", "A40", "ADT_A40"),
        ("2.4", "A12", "ADT_A09"),
        ("2.5", "A12", "ADT_A12"),
        ("2.5.1", "A08", "ADT_A01"),
        ("2.5.1", "A31", "ADT_A05"),
        ("2.5.1", "A40", "ADT_A39"),
        ("2.6", "A47", "ADT_A30"),
        ("2.7", "A47", "ADT_A44"),
        ("2.6", "A49", "ADT_A30"),
        ("2.7.1", "A49", "ADT_A43"),
        ("2.6", "A44", "ADT_A43"),
        ("2.8.2", "A44", "ADT_A44"),
        ("2.5.1", "A55", "ADT_A52"),
        ("2.9", "A55", "ADT_A54"),
        ("2.9.1", "A01", "ADT_A01"),
        ("2.8", "A18", "ADT_A18"),  # withdrawn, still sent
        ("2.9", "A39", "ADT_A39"),
        ("2.5.1", "Z99", "ADT_A01"),  # IHE PAM
        ("2.5.1", "A19", ""),  # a QRY
        ("2.5.1", "A99", ""),
        ("2.5.2", "A01", ""),
        ("", "A01", ""),
    ],
)
def test_structure(version, trigger, expected):
    """The structure follows from version and trigger."""
    assert structure(version, trigger) == expected


def test_known():
    """All triggers of the standard are known, and every version from 2.1 to 2.9."""
    assert known_trigger("A01")
    assert known_trigger("A62")
    assert known_trigger("Z99")
    assert not known_trigger("R01")
    assert not known_trigger("")
    assert len(TRIGGERS) == 59
    assert {"2.1", "2.9"} <= set(VERSIONS)


def test_grammar():
    """A structure is its segments and groups, required or not, repeating or not."""
    assert grammar("2.3", "ADT_A39") == (
        StructurePart("MSH", required=True, repeating=False),
        StructurePart("EVN", required=True, repeating=False),
        StructurePart(
            "PATIENT",
            required=True,
            repeating=True,
            parts=(
                StructurePart("PID", required=True, repeating=False),
                StructurePart("PD1", required=False, repeating=False),
                StructurePart("MRG", required=True, repeating=False),
                StructurePart("PV1", required=False, repeating=False),
            ),
        ),
    )
    insurance = next(part for part in grammar("2.5.1", "ADT_A01") if part.name == "INSURANCE")
    assert (insurance.required, insurance.repeating) == (False, True)
    assert [part.name for part in insurance.parts] == ["IN1", "IN2", "IN3", "ROL"]


def test_grammar_of_shared_layouts():
    """In 2.3 a trigger without a table of its own has that of its layout; a version without one, that of another."""
    assert grammar("2.3", "ADT_A08") == grammar("2.3", "ADT_A01")
    assert grammar("2.3.1", "ADT_A40") == grammar("2.3.1", "ADT_A39")
    assert grammar("2.9", "ADT_A01") == grammar("2.8.2", "ADT_A01")
    assert grammar("2.9", "ADT_A18") == grammar("2.6", "ADT_A18")
    assert grammar("2.1", "ADT_A28") == grammar("2.2", "ADT_A28")
    assert grammar("2.5.1", "ADT_A99") == ()
    assert grammar("9", "ADT_A01") == ()


def test_every_trigger_has_a_grammar_in_every_version():
    """What the trigger table names, the grammar table describes, beginning with MSH."""
    for version in VERSIONS:
        for trigger in TRIGGERS - {"A19"}:
            parts = grammar(version, structure(version, trigger))
            assert parts, (version, trigger)
            assert parts[0].name == "MSH"

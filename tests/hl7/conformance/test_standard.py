"""The compiled tables: whole for every version, and mended where hl7apy's are known to be wrong."""

import pytest

from engine.hl7.conformance.check import misplaced
from engine.hl7.conformance.standard import MODULES, primitive, standard
from engine.hl7.events import TRIGGERS, VERSIONS, StructurePart, grammar, structure


@pytest.mark.parametrize("version", VERSIONS)
def test_every_segment_of_adt_has_its_fields(version: str) -> None:
    """Each segment that an ADT structure of the version names is compiled, its parts by their numbers."""
    known = standard(version)
    assert known is not None
    found = 0
    for name in sorted({name for trigger in TRIGGERS for name in names(grammar(version, structure(version, trigger)))}):
        rule = known.segment(name)
        if rule is None:
            continue
        found += 1
        for number, part in enumerate(rule.fields):
            assert part is None or (part.number == number and part.name)
    assert found >= 5


def names(parts: tuple[StructurePart, ...]) -> list[str]:
    """Return the segments of a structure."""
    return [name for part in parts for name in (names(part.parts) if part.parts else [part.name])]


def test_a_version_is_read_once() -> None:
    """The second call gives what the first one made."""
    assert standard("2.5.1") is standard("2.5.1")
    assert standard("2.10") is None
    assert set(MODULES) == set(VERSIONS)


def test_names_types_and_bounds_are_the_standards() -> None:
    """PID-3 of 2.5.1: a list of CX, required; its fourth component an HD of three parts."""
    known = standard("2.5.1")
    assert known is not None
    rule = known.segment("PID")
    assert rule is not None
    part = rule.fields[3]
    assert part is not None
    assert (part.name, part.type, part.required, part.most) == ("Patient identifier list", "CX", True, -1)
    assert [below.name for below in part.parts[3].parts] == ["Namespace id", "Universal id", "Universal id type"]
    assert known.segment("ZPI") is None
    assert known.segment("ANYHL7SEGMENT") is None


@pytest.mark.parametrize(("version", "longest"), [("2.3", 199), ("2.5.1", 199), ("2.6", 999), ("2.7", 0), ("2.8.2", 0)])
def test_text_is_bounded_up_to_2_6(version: str, longest: int) -> None:
    """Since 2.7 the standard has conformance lengths, which bind nobody."""
    known = standard(version)
    assert known is not None
    part = known.value_type("ST")
    assert part is not None
    assert part.primitive is not None
    assert part.primitive.longest == longest


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("NM", "0 -1 +2.5 .5 7.", "x 1,5 1e3 - ٣"),
        ("SI", "0 12", "-1 1.5 ¹"),
        ("DT", "2024 202402 20240229", "202413 20230229 24 20240229010203"),
        ("TM", "06 0616 061604 061604.1234 0616+0100", "24 0660 6:16"),
        ("DTM", "2024 20240229 2024022906 20240229061604.1-0500", "20230229 202402291 2024022925 2024-02-29 0000"),
        ("ID", "anything", ""),
    ],
)
def test_each_primitive_type_knows_its_values(name: str, good: str, bad: str) -> None:
    """The forms of chapter 2A, and what is close to them."""
    fits = primitive(name).fits or bool
    assert all(fits(text) for text in good.split())
    assert not any(fits(text) for text in bad.split())


def test_a_register_that_grows_is_open() -> None:
    """Coding systems are registered between versions; HL7nnnn and 99xxx are in none of the lists and of all."""
    known = standard("2.5.1")
    assert known is not None
    rule = known.segment("PID")
    part = rule.fields[10] if rule else None
    table = part.parts[2].table if part else None
    assert table is not None
    assert table.open
    assert table.has("HL70005")
    assert table.has("99LOC")
    assert not table.has("nonsense")


def test_a_structure_that_nobody_knows_misplaces_nothing() -> None:
    """Of an unknown event only the fields can be checked."""
    assert misplaced("2.5.1", "", ("MSH", "XXX")) == ()

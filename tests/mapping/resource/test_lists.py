"""Segments that list things: what a site may say otherwise, what is told of mistakes, whose identity it is."""

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.fhir.plan import ElementChange, Keep, Retire
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import Mapping, compile_mapping, load, read
from tests.mapping.conftest import AUTHORITIES

SITE = "mapping: adt\nextends: shipped/adt\nresources: [Patient, AllergyIntolerance]\n"
PID = "PID|1||RB-1^^^RVB^MR||QUINTERO^MARISOL||19840229|F"
PENICILLIN, PEANUT = "AL1|1|DA|70618^Penicillin^RXNORM", "AL1|2|FA|^Peanut"
FILE = """resource: AllergyIntolerance
extends: shipped/allergyintolerance
"""


def _mapping(folder) -> Mapping:
    source = load([folder, shipped("mappings")], "adt")
    return compile_mapping(source, channel_of({"authorities": AUTHORITIES}))


def _listed(plan) -> list[str]:
    return [one.record.identities[0].value for one in plan.interactions if isinstance(one, Keep)]


def _retire(plan) -> Retire:
    (found,) = (interaction for interaction in plan.interactions if isinstance(interaction, Retire))
    return found


def test_one_line_sends_them(author, message) -> None:
    """Without the site's line no segment makes a resource; with it each AL1 does, and no other type."""
    said = message("A08", PID, PENICILLIN, PEANUT, "DG1|1||I20.9^Angina^I10")
    shipped_plan = compile_mapping(read([shipped("mappings")], "adt"), channel_of({})).plan(said)
    assert len(shipped_plan.interactions) == 1
    plan = _mapping(author(adt=SITE)).plan(said)
    assert len(_listed(plan)) == 2
    assert not _retire(plan).complete


def test_a_site_makes_a_snapshot_of_it(author, message) -> None:
    """A line `list` in the site's file holds for all segments of it."""
    folder = author(adt=SITE, resources__allergyintolerance=FILE + "list: snapshot\n")
    assert _retire(_mapping(folder).plan(message("A08", PID, PENICILLIN))).complete


def test_identity_is_of_the_feed_and_the_patient(author, message) -> None:
    """The same allergy of another patient or of another sender is another one; set id, order and blanks are nothing."""
    mapping = _mapping(author(adt=SITE))
    one, two = _listed(mapping.plan(message("A08", PID, PENICILLIN, PEANUT)))
    again = message("A08", PID, "AL1|1|FA|^ PEANUT ", "AL1|2|DA|70618^Penicillin V^RXNORM|MI")
    assert _listed(mapping.plan(again)) == [two, one]
    assert _listed(mapping.plan(message("A08", PID.replace("RB-1", "RB-2"), PENICILLIN))) != [one]
    other = mapping.plan(message("A08", PID, PENICILLIN.replace("70618", "70619")))
    assert _listed(other) != [one]


def test_no_segment_says_nothing(author, message) -> None:
    """Without a segment of the name there is neither a resource nor anything to take back."""
    assert len(_mapping(author(adt=SITE)).plan(message("A08", PID)).interactions) == 1


def test_a_deletion_of_the_person_lists_nothing(author, message) -> None:
    """An A29 does not bring what its segments list."""
    assert len(_mapping(author(adt=SITE)).plan(message("A29", PID, PENICILLIN)).interactions) == 1


def test_an_event_that_names_one_brings_it_alone(author, message) -> None:
    """`do` with a list of its own brings no other."""
    site = SITE.replace("AllergyIntolerance]", "AllergyIntolerance, Condition]")
    plan = _mapping(author(adt=site)).plan(
        message("A60", PID, "IAM|1|DA|^Penicillin|||A|P1", "DG1|1||I20.9^Angina^I10")
    )
    assert {one.record.type for one in plan.interactions if isinstance(one, Keep)} == {"AllergyIntolerance"}


def test_a_plan_is_the_same_again(author, message) -> None:
    """What was worked out before and what is worked out anew are equal."""
    mapping = _mapping(author(adt=SITE))
    said = message("A08", PID, PENICILLIN, PEANUT)
    assert mapping.plan(said) == mapping.plan(said) == _mapping(author(adt=SITE)).plan(said)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "resource: Gaol\npatient: subject\nsegments: {ZGO: {key: [ZGO-1], elements: {}}}\n",
            "unknown resource 'Gaol'",
        ),
        ("lst: snapshot\n", "unknown key 'lst'; did you mean 'list'?"),
        ("list: snapshots\n", "found 'snapshots'; expected snapshot or additive"),
        ("within: ward\n", "found 'ward'; expected patient or encounter"),
        ("patient: subject\n", "AllergyIntolerance has no element 'subject'"),
        ("needs: [cod]\n", "AllergyIntolerance has no element 'cod'; did you mean 'code'?"),
        ("retired: {stat: x}\n", "AllergyIntolerance has no element 'stat'"),
        ("retired: nothing\n", "no map 'retired'"),
        ("segments: {AL2: {key: [AL1-3], elements: {}}}\n", "unknown segment 'AL2'"),
        ("segments: {ZAL: {elements: {code: ZAL-3 | coded}}}\n", "no key"),
        ("segments: {AL1: {key: [AL1-33], elements: {code: AL1-3 | coded}}}\n", "unknown field AL1-33"),
        ("segments: {AL1: {keys: [AL1-3], elements: {code: AL1-3 | coded}}}\n", "unknown key 'keys'"),
        ("segments: {AL1: {key: [AL1-3], elements: {cod: AL1-3 | coded}}}\n", "did you mean 'code'?"),
        ("segments: {AL1: {key: [AL1-3], same_key: all, elements: {code: AL1-3 | coded}}}\n", "expected first or each"),
    ],
)
def test_mistakes_are_told_where_they_stand(author, text, told) -> None:
    """What an author gets wrong in a file with segments is told by file, line and the nearest right thing."""
    body = text if text.startswith("resource:") else FILE + text
    name = "goal" if body.startswith("resource: Gaol") else "allergyintolerance"
    folder = author(**{"adt": SITE, f"resources__{name}": body})
    with pytest.raises(ConfigurationError) as refused:
        load([folder, shipped("mappings")], "adt")
    assert any(told in str(problem) and f"{name}.yaml:" in str(problem) for problem in refused.value.problems), [
        str(problem) for problem in refused.value.problems
    ]


def test_a_type_that_has_no_file_is_told(author) -> None:
    """`resources` names what there is a file for."""
    with pytest.raises(ConfigurationError) as refused:
        load([author(adt=SITE.replace("AllergyIntolerance", "Allergies")), shipped("mappings")], "adt")
    assert "AllergyIntolerance" in str(refused.value.problems[0])


def test_sending_is_what_a_site_writes(author, message) -> None:
    """Cases that name `resources` see what a site with that line would."""
    told = sending(load([shipped("mappings")], "adt"), ("Patient", "AllergyIntolerance"))
    said = message("A08", PID, PENICILLIN)
    mapping = compile_mapping(told, channel_of({"authorities": AUTHORITIES}))
    assert mapping.plan(said) == _mapping(author(adt=SITE)).plan(said)


def _changes(plan) -> list[dict[str, ElementChange]]:
    kept = (interaction.record for interaction in plan.interactions if isinstance(interaction, Keep))
    return [{change.slice: change for change in record.changes} for record in kept]


def test_what_segments_have_in_common_is_read_once(author, message) -> None:
    """Two allergies of one kind share what that makes of each of them, once it came again; what differs is its own."""
    mapping = _mapping(author(adt=SITE))
    mapping.plan(message("A08", PID, PENICILLIN + "|SV|Rash"))
    one, other = _changes(mapping.plan(message("A08", PID, "AL1|1|DA|1^A^RXNORM|SV|Hives", "AL1|2|DA|2^B^RXNORM|SV")))
    assert one["criticality"] is other["criticality"]  # AL1-4
    assert [each["AL1-5"].items[0]["manifestation"] for each in (one, other)] == [
        [{"text": "Hives"}],
        [{"text": "unknown"}],
    ]
    assert [each["code"].items[0]["text"] for each in (one, other)] == ["A", "B"]  # AL1-3


def test_a_segment_that_is_not_there_leaves_the_other_word(author, message) -> None:
    """An element that has a word in place of an empty field has it where the segment of that is missing, too."""
    elements = "segments: {AL1: {elements: {code: AL1-3 | coded, recordedDate: PV2-8 | date | else '2026'}}}\n"
    mapping = _mapping(author(adt=SITE, resources__allergyintolerance=FILE + elements))
    for segments, said in (((), "2026"), (("PV2||||||||20260301",), "2026-03-01"), (("PV2|",), "2026")) * 2:
        (changes,) = _changes(mapping.plan(message("A08", PID, *segments, PENICILLIN)))
        assert changes["recordedDate"].items == (said,)

"""What events mean, whatever the version and whatever MSH-9.3 says; and which patients they join or keep apart."""

from collections.abc import Callable

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.fhir.plan import Identity, Link, Merge, Rename, Upsert
from engine.hl7.events import TRIGGERS, VERSIONS, structure
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, compile_mapping, load
from engine.mapping.subject.subject import Disposition
from tests.mapping.conftest import Author

RVB = "https://mrn.riverbend.example"
PID = "PID|1||RB-1^^^RVB||QUINTERO^MARISOL||19840229|F"
OTHER = "PID|2||RB-2^^^RVB||QUINTERO^MARI||19840229|F"
MRG = "MRG|RB-2^^^RVB"
Make = Callable[..., Message]

WHO = {
    **dict.fromkeys(("A18", "A30", "A34", "A36", "A39", "A40"), (Merge, (PID, MRG))),
    **dict.fromkeys(("A46", "A47", "A48"), (Rename, (PID, MRG))),
    **dict.fromkeys(("A24", "A37"), (Link, (PID, OTHER))),
    **dict.fromkeys(("A08", "A28", "A29", "A31", "Z99"), (Upsert, (PID,))),
}


def written(trigger: str, version: str, third: str, segments: tuple[str, ...]) -> Message:
    """Return a message of a version with MSH-9 as given."""
    kind = "^".join(part for part in ("ADT", trigger, third) if part)
    head = f"MSH|^~\\&|HIS|RVB|||20250701093000||{kind}|M1|P|{version}"
    return parse("\r".join((head, f"EVN|{trigger}|20250701092900", *segments)).encode())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("trigger", WHO)
def test_the_trigger_decides_in_every_version(mapping: Mapping, trigger: str, version: str) -> None:
    """With MSH-9.3 empty, right or wrong, in versions that know the event, do not yet or do no more: the same plan."""
    kind, segments = WHO[trigger]
    right = structure(version, trigger)
    plans = [
        mapping.plan(written(trigger, version, third, segments)) for third in ("", right, f"ADT_{trigger}", "ADT_A01")
    ]
    assert [type(interaction) for interaction in plans[0].interactions] == [kind]
    assert all(plan == plans[0] for plan in plans)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_event_has_its_rule_in_every_version(mapping: Mapping, version: str) -> None:
    """No event of any version falls to the rule for unknown ones."""
    rules = {mapping.identify(written(trigger, version, "", (PID, MRG))).rule for trigger in TRIGGERS}
    assert "unknown-event" not in rules


def test_a_change_of_number_joins_its_numbers_in_one_lane(mapping: Mapping, message: Make) -> None:
    """Old and new number are one patient from now on."""
    subject = mapping.identify(message("A47", PID, MRG))
    assert subject.patients == ((Identity(RVB, "RB-1"), Identity(RVB, "RB-2")),)


@pytest.mark.parametrize("event", ["A24", "A37"])
def test_a_link_waits_for_both_and_leaves_them_apart(mapping: Mapping, message: Make, event: str) -> None:
    """Each side is a patient of its own; only what runs is held up by both."""
    subject = mapping.identify(message(event, PID, OTHER))
    assert subject.patients == ((Identity(RVB, "RB-1"),), (Identity(RVB, "RB-2"),))
    assert not subject.merge


def test_more_than_two_records_are_linked_with_the_first(mapping: Mapping, message: Make) -> None:
    """A third PID is linked, too."""
    plan = mapping.plan(message("A24", PID, OTHER, "PID|3||RB-3^^^RVB"))
    pairs = [(one.one.identities, one.other.identities) for one in plan.interactions if isinstance(one, Link)]
    assert [other[0].value for _one, other in pairs] == ["RB-2", "RB-3"]
    assert {one[0].value for one, _other in pairs} == {"RB-1"}


def test_a_movement_of_the_past_does_not_touch_what_a_merge_means(mapping: Mapping, message: Make) -> None:
    """ZBE-5 speaks of movements; an event about who somebody is stays what it is."""
    subject = mapping.identify(message("A40", PID, MRG, "ZBE|1|20250101||INSERT|Y|A02"))
    assert (subject.rule, subject.action) == ("merge", Disposition.DELIVER)


def test_external_ids_are_identities_where_the_mapping_says_so(author: Author, message: Make) -> None:
    """A39 of 2.3 speaks of PID-2 and MRG-4 alone; a site that knows people by them adds PID-2."""
    folder = author(adt="mapping: adt\nextends: shipped/adt\nidentity: {from: [PID-3, PID-2]}\n")
    source = load([folder, shipped("mappings")], "adt")
    plan = compile_mapping(source, channel_of({"authorities": {"RVB": RVB}})).plan(
        message("A39", "PID|1|X-1^^^RVB|RB-1^^^RVB", "MRG||||X-2^^^RVB")
    )
    (merge,) = plan.interactions
    assert isinstance(merge, Merge)
    assert merge.source == Identity(RVB, "X-2")


def test_a_mark_of_the_past_that_is_not_whole_is_told(author: Author) -> None:
    """A misspelt key and a missing rule each have their line."""
    folder = author(adt="mapping: adt\nextends: shipped/adt\nhistoric: {field: ZBE5, values: Y}\n")
    with pytest.raises(ConfigurationError) as refused:
        load([folder, shipped("mappings")], "adt")
    told = [str(problem) for problem in refused.value.problems]
    assert any("unknown key 'values'" in line and "value" in line for line in told)
    assert any("ZBE-5" in line for line in told)

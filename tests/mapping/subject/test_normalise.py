"""`identity.normalise`: one form of a number is searched, written, merged and ordered, whatever its spelling."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.errors import MappingError
from engine.fhir.plan import Identity, Merge, Rename, Upsert
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, compile_mapping, read
from engine.mapping.subject.subject import Disposition

RVB, LAB = "https://mrn.riverbend.example", "urn:oid:1.2.3.4"
AUTHORITIES = {"RVB": RVB, "OLD": RVB, "LAB": LAB}
RULES = "{RVB: {leading_zeros: strip}, 1.2.3.4: {case: upper, remove: '-'}}"
Compile = Callable[..., Mapping]


def _mapping(folder: Path, rules: str = RULES) -> Mapping:
    text = f"mapping: adt\nextends: shipped/adt\nidentity:\n  normalise: {rules}\n"
    (folder / "adt.yaml").write_text(text, "utf-8")
    return compile_mapping(read([folder, shipped("mappings")], "adt"), channel_of({"authorities": AUTHORITIES}))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping:
    """A mapping that strips zeros of RVB's numbers, and writes LAB's in capitals without hyphens."""
    return _mapping(tmp_path_factory.mktemp("site"))


def _said(event: str, *segments: str) -> Message:
    head = f"MSH|^~\\&|REG|RVB|||20260701093000||ADT^{event}|1|P|2.5.1\rEVN||20260701093000"
    return parse("\r".join((head, *segments)).encode())


def _record(mapping: Mapping, message: Message) -> Upsert:
    (upsert,) = mapping.plan(message).interactions
    assert isinstance(upsert, Upsert)
    return upsert


@pytest.mark.parametrize("sent", ["4711", "0004711", "004711"])
def test_one_form_is_searched_and_written(site: Mapping, sent: str) -> None:
    """The patient is looked for by the form, and gets it; the number as sent stands in the message alone."""
    record = _record(site, _said("A31", f"PID|1||{sent}^^^RVB^MR||Quillon^Serafina")).patient
    assert record.identities == (Identity(RVB, "4711"),)
    assert [(one["system"], one["value"]) for one in record.identifiers] == [(RVB, "4711")]


def test_the_form_is_of_the_system_however_the_authority_is_named(site: Mapping) -> None:
    """OLD and RVB are one system here; LAB is named by its universal id; whatever the type."""
    message = _said("A31", "PID|1||07^^^OLD^PI~ab-1^^^LAB&1.2.3.4&ISO^MR~0009^^^XYZ^MR||Quillon^Serafina")
    found = set(_record(site, message).patient.identities)
    assert found == {(RVB, "7"), (LAB, "AB1"), ("urn:adt-engine:authority:XYZ", "0009")}


def test_numbers_that_are_no_identity_stay_as_sent(site: Mapping) -> None:
    """An account number has a system of its own, of which no rule speaks."""
    message = _said("A31", "PID|1||07^^^RVB^MR~0099^^^RVB^AN||Quillon^Serafina")
    written = [(one["system"], one["value"]) for one in _record(site, message).patient.identifiers]
    assert written == [(RVB, "7"), (f"{RVB}#AN", "0099")]


def test_a_lane_has_the_form_first_and_then_the_number_as_sent(site: Mapping) -> None:
    """All spellings meet in one lane; what waits there from before the rule goes first."""
    subject = site.identify(_said("A31", "PID|1||0004711^^^RVB^MR"))
    assert subject.patients == ((Identity(RVB, "4711"), Identity(RVB, "0004711")),)
    assert site.identify(_said("A31", "PID|1||4711^^^RVB^MR")).patients == ((Identity(RVB, "4711"),),)


def test_the_plan_names_each_number_with_its_spelling(site: Mapping) -> None:
    """By it a chart of a time before the rule is found."""
    plan = site.plan(_said("A40", "PID|1||0001^^^RVB^MR", "MRG|2^^^RVB^MR"))
    assert set(plan.originals) == {
        (Identity(RVB, "1"), Identity(RVB, "0001")),
        (Identity(RVB, "2"), Identity(RVB, "2")),
    }


def test_two_spellings_in_one_list_are_one_number(site: Mapping) -> None:
    """They are one identity and one identifier."""
    record = _record(site, _said("A31", "PID|1||0007^^^RVB^MR~07^^^OLD^MR||Quillon^Serafina")).patient
    assert record.identities == (Identity(RVB, "7"),)
    assert len(record.identifiers) == 1


@pytest.mark.parametrize("sent", ["000", "0", "999", "00999"])
def test_placeholders_are_judged_as_sent_and_in_their_form(site: Mapping, sent: str) -> None:
    """00999 would be searched as 999, which stands for nobody: it is refused, and not written either."""
    subject = site.identify(_said("A31", f"PID|1||{sent}^^^RVB^MR"))
    assert (subject.action, subject.findings[0].reason) == (Disposition.REFUSE, "placeholder-identity")
    both = _record(site, _said("A31", f"PID|1||{sent}^^^RVB^MR~x1^^^LAB^PI||Quillon^Serafina"))
    assert [one["value"] for one in both.patient.identifiers] == ["X1"]


def test_a_merge_is_of_the_forms(site: Mapping) -> None:
    """Both sides, and the identifiers that stay with the survivor."""
    (merge,) = site.plan(_said("A40", "PID|1||0001^^^RVB^MR", "MRG|0002^^^RVB^MR")).interactions
    assert isinstance(merge, Merge)
    assert (merge.source, merge.target) == (Identity(RVB, "2"), Identity(RVB, "1"))
    assert [one["value"] for one in merge.source_identifiers] == ["2"]
    assert [one["value"] for one in merge.survivor.identifiers] == ["1"]


def test_two_spellings_are_never_merged(site: Mapping) -> None:
    """They are one number: a merge of both is one with itself."""
    message = _said("A40", "PID|1||0001^^^RVB^MR", "MRG|1^^^RVB^MR")
    assert [finding.reason for finding in site.identify(message).findings] == ["self-merge"]
    with pytest.raises(MappingError, match="self-merge"):
        site.plan(message)


def test_a_change_of_identifier_may_change_the_spelling_alone(site: Mapping) -> None:
    """A47 from 0004711 to 4711 brings a chart of a time before the rule into the form."""
    message = _said("A47", "PID|1||4711^^^RVB^MR", "MRG|0004711^^^RVB^MR")
    (rename,) = site.plan(message).interactions
    assert isinstance(rename, Rename)
    assert (rename.old, rename.new) == ((Identity(RVB, "0004711"),), (Identity(RVB, "4711"),))
    assert [(one["value"], one["use"]) for one in rename.retired] == [("0004711", "old")]
    assert [one["value"] for one in rename.issued] == ["4711"]
    assert site.identify(message).patients == ((Identity(RVB, "4711"), Identity(RVB, "0004711")),)


def test_a_change_of_identifier_is_of_the_forms(site: Mapping) -> None:
    """A47 from one number to another: both in their form. Spelt alike on both sides, a number does not change."""
    (rename,) = site.plan(_said("A47", "PID|1||0005^^^RVB^MR", "MRG|0004^^^RVB^MR")).interactions
    assert isinstance(rename, Rename)
    assert (rename.old, rename.new) == ((Identity(RVB, "4"),), (Identity(RVB, "5"),))
    assert [one["value"] for one in rename.retired] == ["4"]
    (same,) = site.plan(
        _said("A47", "PID|1||0005^^^RVB^MR~b-2^^^LAB^PI", "MRG|0005^^^RVB^MR~a-2^^^LAB^PI")
    ).interactions
    assert isinstance(same, Rename)
    assert (same.old, same.new) == ((Identity(LAB, "A2"),), (Identity(LAB, "B2"),))


def test_the_original_is_kept_where_that_is_asked(tmp_path: Path) -> None:
    """As a secondary identifier under a system of its own; a number that is in its form has none."""
    mapping = _mapping(tmp_path, "{RVB: {leading_zeros: strip, keep_original: yes}}")
    record = _record(mapping, _said("A31", "PID|1||0007^^^RVB^MR||Quillon^Serafina")).patient
    kept = [(one.get("use"), one["system"], one["value"]) for one in record.identifiers]
    assert kept == [(None, RVB, "7"), ("secondary", f"{RVB}#as-sent", "0007")]
    assert record.identities == (Identity(RVB, "7"),)
    plain = _record(mapping, _said("A31", "PID|1||7^^^RVB^MR||Quillon^Serafina")).patient
    assert [one["value"] for one in plain.identifiers] == ["7"]


def test_without_a_rule_nothing_changes(mapping: Mapping) -> None:
    """The shipped mapping searches and writes as sent."""
    plan = mapping.plan(_said("A31", "PID|1||0004711^^^RVB^MR||Quillon^Serafina"))
    (upsert,) = plan.interactions
    assert isinstance(upsert, Upsert)
    assert upsert.patient.identities == (Identity(RVB, "0004711"),)
    assert (plan.originals, mapping.number_forms) == ((), {})

"""Explanations: every value of every plan has its rule, its source and what was done with it; and the reverse."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.errors import MessageError
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.evidence import Evidence
from engine.mapping.authoring.explain import Explanation, explain, explained_by, watch
from engine.mapping.authoring.survey import Survey
from engine.mapping.compile import MappingSource, load
from tests.conftest import CorpusFile

Make = Callable[..., Message]
# Two patients, visits with all their moves, a merge, notes that repeat.
SAMPLES = sorted(Path("samples").glob("0[1-9]*.hl7"))
PID = (
    "PID|1||RB-1^^^RVB^MR~9^^^SSA^SS||QUINTERO^MARISOL^^^^^L~OLDE^M||19840229|F|||1 ST^^CITY|KINGS|"
    "^PRN^PH^^^555^1~^WPN|||ZZZ|||9"
)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{path}[{index}]")
    else:
        yield path, value


def _told(found: Explanation) -> set[tuple[str, Any]]:
    made = [
        (re.sub(r"\(\d+\)", "", one.element).replace(".new.", "."), one.made)
        for one in found.evidence
        if one.made is not None
    ]
    return {leaf for element, value in made for leaf in _leaves(value, element)}


def _one(found: Explanation, element: str) -> Evidence:
    (one,) = [one for one in found.of_element(element) if one.made is not None]
    return one


def test_every_value_of_a_corpus_plan_is_explained(source: MappingSource, corpus: tuple[CorpusFile, ...]) -> None:
    """What a Patient or an Encounter holds of its segments is in the evidence, at its place and with its value."""
    watched = watch(source, channel_of({}))
    missing: list[str] = []
    seen: Counter[str] = Counter()
    for file in corpus:
        try:
            message = parse(file.raw)
        except MessageError:
            continue
        found = explained_by(watched, message)
        told = _told(found)
        for made in found.outcome.get("interactions", ()):
            if "upsert" not in made and made.get("keep") != "encounter":
                continue
            body = made.get("patient") or made["resource"]
            type_ = body["resourceType"]
            seen[type_] += 1
            left = {"resourceType"} | ({"subject", "identifier", "status"} if type_ == "Encounter" else set())
            parts = {name: part for name, part in body.items() if name not in left}
            missing += [f"{file.name}: {leaf[0]}" for leaf in _leaves(parts, type_) if leaf not in told]
    assert not missing, "\n".join(missing)
    assert seen["Patient"] > len(corpus) / 4
    assert seen["Encounter"] > len(corpus) / 8


@pytest.mark.parametrize(
    "raws",
    [
        pytest.param([path.read_bytes() for path in SAMPLES], id="samples"),
        pytest.param([SAMPLES[0].read_bytes().replace(b"Odile", b"Od\x07ile")], id="a control character"),
    ],
)
def test_a_watched_mapping_explains_each_message_as_if_it_were_the_first(
    source: MappingSource, raws: list[bytes]
) -> None:
    """In turn by one mapping, and by one that is compiled for the message alone."""
    watched = watch(source, channel_of({}))
    alone = [explain(source, channel_of({}), parse(raw)) for raw in raws]
    for again in range(4):
        for number, (raw, fresh) in enumerate(zip(raws, alone, strict=True)):
            found = explained_by(watched, parse(raw))
            assert found.evidence, number
            for name in ("evidence", "outcome", "conditions", "lines"):
                assert getattr(found, name) == getattr(fresh, name), (number, again, name)


def test_a_value_has_its_rule_its_source_and_what_was_done(source: MappingSource, message: Make) -> None:
    """The rule by file and line, the path, what stood there, the function and the row of the table."""
    found = explain(source, channel_of({}), message("A01", PID))
    one = _one(found, "Patient.gender")
    assert (one.source, one.raw, one.made, one.rule) == ("PID-8", "F", "female", "PID-8 | code(administrative-sex)")
    assert (Path(one.file).name, _line(one.file, one.line)) == ("patient.yaml", f"gender: {one.rule}")
    assert [applied.function for applied in one.functions] == ["code(administrative-sex)"]
    (row,) = one.rows
    assert _line(row.file, row.line) == "F: {code: female, display: Female}"
    assert Path(found.file).name == "adt.yaml"
    assert _line(found.file, found.line).startswith("A01: ")


def test_what_else_a_number_says_is_of_its_identifier(source: MappingSource, message: Make) -> None:
    """What stands beside an identity is told as the identifier's, not as what something is found by."""
    visit = "PV1|1|I|3W^312^A^RVB^^^^^^L-7&BEDS||||47^Hill^Ann^^^^^^RVB^L^7||||||||||||V1"
    told = {one.element: one.made for one in explain(source, channel_of({}), message("A01", PID, visit)).evidence}
    assert told["Practitioner.identifier.extension[0].valueString"] == "7"  # XCN.11
    assert "L-7" in [made for name, made in told.items() if name.endswith(".identifier.value")]  # PL.10


def test_repetitions_and_types_are_followed(source: MappingSource, message: Make) -> None:
    """A value of a data type names the repetition and component that it came from."""
    found = explain(source, channel_of({}), message("A01", PID))
    assert _one(found, "Patient.name[1].family").source == "PID-5(2).1"
    assert Path(_one(found, "Patient.name[1].family").file).name == "xpn.yaml"
    assert _one(found, "Patient.address[0].district").source == "PID-12"  # filled in
    assert _one(found, "telecom[0].use").source == "PID-13(1).2"
    assert [one.element for one in found.of_field("PID-12")] == ["Patient.address[0].district"]
    assert {one.element for one in found.of_field("PID-5(2)")} == {"Patient.name[1].family", "Patient.name[1].given[0]"}


def test_segments_are_counted(source: MappingSource, message: Make) -> None:
    """Which of several segments a value came from is told, also within a data type that a function names."""
    found = explain(source, channel_of({}), message("A01", PID, "NK1|1|A^B|MTH", "NK1|2|C^D|FTH"))
    one = _one(found, "Patient.contact[1].name.family")
    assert (one.source, one.segment) == ("NK1-2.1", 2)


def test_an_identifier_that_comes_twice_is_told_once(source: MappingSource, message: Make) -> None:
    """PID-19 repeats the number of PID-3: what stands in the Patient is explained by PID-3."""
    found = explain(source, channel_of({}), message("A01", PID))
    assert {one.source for one in found.of_element("identifier[1].value")} == {"PID-3(2).1"}
    assert found.of_element("identifier[2]") == ()


def test_what_was_not_made_is_told(source: MappingSource, message: Make) -> None:
    """An element that is missing shows the rules that were asked, and that nothing was there."""
    found = explain(source, channel_of({}), message("A01", "PID|1||1^^^RVB||A^B||1984022x|||||||||ZZZ"))
    (one,) = found.of_element("Patient.birthDate")
    assert (one.made, one.raw, one.asked) == (None, "1984022x", True)
    married = _one(found, "Patient.maritalStatus")
    assert [(row.code, row.line) for row in married.rows] == [("ZZZ", 0)]


def test_the_rules_of_an_element_that_nobody_asked(source: MappingSource, message: Make) -> None:
    """Where the message has nothing that they read, the rules are told all the same, with their places."""
    found = explain(source, channel_of({}), message("A01", "PID|1||1^^^RVB||A^B"))
    assert found.of_element("maritalStatus") == ()
    ((file, _line, text),) = found.rules_for("maritalStatus")
    assert (file.rpartition("/")[2], text) == ("patient.yaml", "PID-16 | coded(marital-status)")
    assert found.rules_for("Patient.birthDat") == ()
    assert "Patient.birthDate" in found.elements()


def test_what_no_rule_reads(source: MappingSource, message: Make) -> None:
    """Fields and components that are valued and that nothing reads are told with the standard's name."""
    made = message("A01", "PID|1||1^^^RVB^MR^X||A^B||19840229||||||||||||||||||Y|||||||L|20250101", "ZPI|1||Y")
    found = explain(source, channel_of({}), made)
    unread = dict(Survey(found.trace, source.documents).unread(made))
    assert unread["ZPI-3"] == ""
    assert unread["PID-3.6"] == "Patient identifier list"
    assert unread["PID-33"] == "Last update date time"
    assert "PID-7" not in unread
    assert "PID-1" not in unread


def test_each_merge_of_a_message_is_a_record(source: MappingSource, message: Make) -> None:
    """Two pairs of PID and MRG are two records; what goes away is told apart from what stays."""
    pair = ("PID|1||{}^^^RVB^MR||A^B", "MRG|{}^^^RVB^MR")
    segments = (part.format(number) for number, part in zip("1234", pair * 2, strict=True))
    found = explain(source, channel_of({"authorities": {"RVB": "urn:x"}}), message("A40", *segments))
    told = {one.element: one.made for one in found.evidence if one.element.endswith("].value")}
    assert told["Patient(2).merged.identifier[0].value"] == "4"


def test_resources_that_are_referred_to_are_told_apart(source: MappingSource, message: Make) -> None:
    """Two practitioners are two; what each is made of names its own field."""
    made = message("A01", PID, "PV1|1|I|3W^301^A^RVB||||4712^Tansy^Bruno|99^Roe^Ann|||||||||||V1^^^RVB^VN")
    found = explain(source, channel_of({}), made)
    names = {one.element: one.source for one in found.of_element("Practitioner(2).name")}
    assert names["Practitioner(2).name[0].family"] == "PV1-8(1).2"
    assert _one(found, "Encounter.location[0].location").source == "PV1-3"
    assert _one(found, "Encounter.status").made == "in-progress"
    assert not [one for one in Survey(found.trace, source.documents).unread(made) if one.path.startswith("PV1")]


def test_resources_of_a_list_are_told_apart(message: Make, tmp_path: Path) -> None:
    """The second AL1 is a second resource; what is not sent by the event table counts as read by nobody."""
    made = message("A01", PID, "AL1|1|DA|PEN^Penicillin", "AL1|2|FA|NUT^Nuts")
    shipped_alone = load([shipped("mappings")], "adt")
    found = explain(shipped_alone, channel_of({}), made)
    assert "AL1-3" in dict(Survey(found.trace, shipped_alone.documents).unread(made))
    own = "mapping: adt\nextends: shipped/adt\nresources: [Patient, AllergyIntolerance]\n"
    (tmp_path / "adt.yaml").write_text(own + "events:\n  A01: {do: [upsert patient, upsert allergyintolerance]}\n")
    source = load([tmp_path, shipped("mappings")], "adt")
    found = explain(source, channel_of({}), made)
    assert _one(found, "AllergyIntolerance(2).code").source == "AL1-3"
    assert [one.made for one in found.of_element("AllergyIntolerance.category")] == ["medication", "food"]
    assert "AL1-3" not in dict(Survey(found.trace, source.documents).unread(made))


def test_what_cannot_be_mapped_is_explained_as_far_as_it_went(source: MappingSource, message: Make) -> None:
    """A message without an identity has an outcome that says so, and no evidence."""
    found = explain(source, channel_of({}), message("A01", "PID|1||||A^B"))
    assert found.outcome["action"] == "refuse"
    assert found.evidence == ()


def test_a_site_s_own_line_is_named(message: Make, tmp_path: Path) -> None:
    """What a site overrides is told with the site's file, what it leaves alone with the shipped one."""
    (tmp_path / "resources").mkdir()
    own = tmp_path / "resources" / "patient.yaml"
    own.write_text(
        "resource: Patient\nextends: shipped/patient\nelements:\n  gender: ZPI-3 | code(administrative-sex)\n"
    )
    source = load([tmp_path, shipped("mappings")], "adt")
    found = explain(source, channel_of({}), message("A01", PID, "ZPI|1||M"))
    one = _one(found, "Patient.gender")
    assert (one.file, one.line, one.made) == (str(own), 4, "male")
    assert _one(found, "birthDate").file == str(shipped("mappings") / "resources" / "patient.yaml")


def test_what_a_condition_stopped_is_told_and_counted(message: Make, author: Callable[..., Path]) -> None:
    """The first number stays away for what its third component says; the second is still the second of the field."""
    line = "telecom: {each: PID-13, as: XTN, unless: XTN.3 = CP}"
    own = f"resource: Patient\nextends: shipped/patient\nelements:\n  {line}\n"
    source = load([author(resources__patient=own), shipped("mappings")], "adt")
    found = explain(source, channel_of({}), message("A01", "PID|1||1^^^RVB^MR||A^B||||||||555^PRN^CP~556^PRN^PH"))
    assert _one(found, "telecom[0].value").source == "PID-13(2)"
    (stopped,) = [one for one in found.of_element("telecom") if one.rule.startswith("unless")]
    (asked,) = stopped.conditions
    assert (stopped.source, stopped.made, asked.passed) == ("PID-13(1)", None, False)
    assert [(one.source, one.raw) for one in asked.read] == [("PID-13(1).3", "CP")]
    assert _line(asked.file, asked.line).startswith("telecom: ")
    assert _one(found, "telecom[0].value").conditions[0].passed


def test_an_object_that_lacks_what_it_needs_is_told(source: MappingSource, message: Make) -> None:
    """The type of a number without a number is made for nothing: it is not told as if it had come out."""
    found = explain(source, channel_of({}), message("A01", "PID|1||1^^^RVB^MR~^^^SSA^SS||A^B"))
    types = [one for one in found.of_element("identifier") if one.element.endswith("type")]
    (lost,) = [one for one in types if one.source == "PID-3(2)"]
    assert lost.made is None
    assert [(condition.text, condition.passed) for condition in lost.conditions] == [("needs value", False)]
    assert _line(lost.conditions[0].file, lost.conditions[0].line).startswith("needs: ")


def test_why_a_code_or_a_date_came_to_nothing(source: MappingSource, message: Make) -> None:
    """What the table says of codes that it does not have, and the warning of the function, stand beside it."""
    found = explain(source, channel_of({}), message("A01", "PID|1||1^^^RVB||A^B||1984022x|||||||||ZZZ"))
    (row,) = _one(found, "Patient.maritalStatus").rows
    assert row.policy
    assert _line(row.policy_file, row.policy_line) == f"unmapped: {row.policy}"
    assert [one.warnings for one in found.of_element("Patient.birthDate")] == [("bad-value PID-7",)]


def test_a_coding_system_that_a_site_assumes_is_of_the_site_s_line(message: Make, author: Callable[..., Path]) -> None:
    """Its row stands in no table."""
    source = load(
        [author(adt="mapping: adt\nextends: shipped/adt\nassume: {LOC: loinc}\n"), shipped("mappings")], "adt"
    )
    found = explain(source, channel_of({}), message("A01", "PID|1||1^^^RVB||A^B||||||||||||M^Wed^LOC"))
    rows = [row for one in found.evidence for row in one.rows if row.code == "LOC"]
    assert [_line(one.file, one.line) for one in rows] == ["assume: {LOC: loinc}"] * len(rows)
    assert rows


def _line(file: str, number: int) -> str:
    return Path(file).read_text().splitlines()[number - 1].strip()


def test_conditions_of_a_trail_are_told(source: MappingSource, message: Make) -> None:
    """Whether a visit arrives or leaves is a condition of its status table, and told with the event that decided."""
    visit = "PV1|1|I|3W^301^A||||||||||||||||V1^^^RVB^VN"
    told = explain(source, channel_of({}), message("A03", PID, visit)).conditions
    moments = {_line(one.file, one.line): one.passed for one in told if "encounter" in one.file}
    moments = {line.partition(":")[0]: passed for line, passed in moments.items()}
    assert (moments["arrives"], moments["leaves"]) == (False, True)


def test_the_form_of_a_number_is_named(tmp_path: Path, message: Make) -> None:
    """`normalise` is the last thing that was done with it; the place in the message is found by the form, too."""
    rule = "mapping: adt\nextends: shipped/adt\nidentity:\n  normalise: {RVB: {leading_zeros: strip}}\n"
    (tmp_path / "adt.yaml").write_text(rule, "utf-8")
    found = explain(
        load([tmp_path, shipped("mappings")], "adt"), channel_of({}), message("A31", "PID|1||0047^^^RVB^MR")
    )
    one = _one(found, "Patient.identifier[0].value")
    assert (one.raw, one.made, one.functions[-1].function) == ("0047", "47", "identity.normalise")

"""A site's own file of a type that does not ship: mapped in the shipped language, checked by FHIR's own definitions."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.fhir.r4 import choices, r4_elements
from engine.fhir.schema import FhirVersion, defects
from engine.fhir.secondary_validator import second_opinion
from engine.hl7.message import Message
from engine.mapping.authoring.case import cases_of, channel_of, run_cases
from engine.mapping.authoring.explain import explain
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import compile_mapping, load, read
from tests.fhir.targets import fields
from tests.mapping.any_type import block, site

Make = Callable[..., Message]
IMMUNIZATION = block("immunization")
APPOINTMENT = block("appointment")
SEGMENTS = (
    "PID|1||100003^^^RVB^MR||Quillon^Serafina||19630930|F",
    "PV1|1|P|3W^301^A||PRE1^^^RVB^VN||||||||||||||V0001^^^RVB^VN",
    "PV2||||||||20260401120000",
    "RXA|0|1|20260227||08^HepB^CVX|999||||1234^Osei^Ama|||||LOT1",
)
KEEP = "resource: {type}\npatient: {holder}\nidentity: {{type: VN, keys: [PV1-19]}}\nelements:\n  {line}\n"


def _mapping(folder: Path):
    return compile_mapping(read([folder, shipped("mappings")], "adt"), channel_of({}))


def _kept(folder: Path, message: Message) -> dict[str, dict]:
    made = outcome(_mapping(folder), message)
    return {one["resource"]["resourceType"]: one["resource"] for one in made["interactions"] if "resource" in one}


def _problems(folder: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load([folder, shipped("mappings")], "adt")
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_the_guide_s_own_types(tmp_path: Path, message: Make) -> None:
    """A list within the patient and a resource with a number of its own, with what they refer to in the plan."""
    found = _kept(site(tmp_path), message("A05", *SEGMENTS))
    immunization = found["Immunization"]
    assert immunization["vaccineCode"]["text"] == "HepB"  # RXA-5
    assert immunization["occurrenceDateTime"] == "2026-02-27"  # RXA-3
    assert immunization["patient"] == {"reference": "#patient"}
    assert immunization["encounter"] == {"reference": "#encounter"}
    assert immunization["performer"][0]["actor"]["reference"].startswith("#Practitioner ")  # RXA-10
    appointment = found["Appointment"]
    assert appointment["identifier"][0]["value"] == "PRE1"  # PV1-5
    assert appointment["participant"][0]["actor"] == {"reference": "#patient"}
    assert appointment["status"] == "booked"
    for one in (immunization, appointment):
        assert defects(one, FhirVersion.R4) == second_opinion(one, FhirVersion.R4) == ()


def test_an_act_may_refer_to_what_stands_before_it(tmp_path: Path, message: Make) -> None:
    """`'#encounter'` in a file with an identity of its own is the visit that the event names first."""
    folder = site(tmp_path)
    lines = "status: requested\n  intent: order\n  encounter: {reference: \"'#encounter'\"}"
    (folder / "resources/task.yaml").write_text(KEEP.format(type="Task", holder="for", line=lines), "utf-8")
    events = block("any type").replace("Immunization", "Task").replace("upsert appointment]", "upsert task]")
    (folder / "adt.yaml").write_text(events, "utf-8")
    task = _kept(folder, message("A05", *SEGMENTS))["Task"]
    assert task["for"] == {"reference": "#patient"}
    assert task["encounter"] == {"reference": "#encounter"}


def test_what_it_sends_is_known(tmp_path: Path) -> None:
    """The types of events and lists, and those that they refer to."""
    sends = _mapping(site(tmp_path)).sends
    assert {"Patient", "Encounter", "Immunization", "Appointment", "Practitioner", "Location"} <= sends
    assert not {"Observation", "Account", "DiagnosticReport"} & sends


def test_it_is_explained(tmp_path: Path, message: Make) -> None:
    """Each element has its rule, with file and line of the site's own file."""
    source = load([site(tmp_path), shipped("mappings")], "adt")
    (found,) = explain(source, channel_of({}), message("A05", *SEGMENTS)).of_element("Immunization.lotNumber")
    assert (Path(found.file).name, found.source, found.made) == ("immunization.yaml", "RXA-15", "LOT1")


def test_a_case_may_expect_it(tmp_path: Path) -> None:
    """By the name that it has in the plan, as the visit; a name that is none is told."""
    folder = site(tmp_path)
    (folder / "tests").mkdir()
    lines = "\n      ".join(SEGMENTS)
    head = "tests:\n  - case: a\n    event: A05\n    message: |\n      {}\n"
    case = head + "    expect: {{{}: {{resource: {{status: booked}}}}}}\n"
    source = load([folder, shipped("mappings")], "adt")
    (folder / "tests/own.yaml").write_text(case.format(lines, "appointment"), "utf-8")
    (found,) = run_cases(cases_of(folder), source)
    assert found.differences == ()
    (folder / "tests/own.yaml").write_text(case.format(lines, "appointmint"), "utf-8")
    with pytest.raises(ConfigurationError, match="unknown key 'appointmint'"):
        cases_of(folder)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("lotNumber", "lotNumbr"),
            ":14:7: segments.RXA.elements.lotNumbr: Immunization has no element 'lotNumbr'; did you mean 'lotNumber'?",
            id="element",
        ),
        pytest.param("immunization", IMMUNIZATION.replace("completed]", "done]"), "the code 'done'", id="binding"),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("      occurrenceDateTime: RXA-3 | datetime\n", ""),
            "no 'occurrence[x]', which Immunization requires; map one of occurrenceDateTime, occurrenceString",
            id="required choice",
        ),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("      vaccineCode: RXA-5 | coded\n", ""),
            "no 'vaccineCode', which Immunization requires",
            id="required",
        ),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("XCN | Practitioner", "RXA-27 | Location"),
            "a reference to Location; it may be of Organization, Practitioner, PractitionerRole",
            id="target",
        ),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("'#encounter'", "'#patient'"),
            "encounter.reference: a reference to Patient; it may be of Encounter",
            id="target in the plan",
        ),
        pytest.param(
            "immunization", IMMUNIZATION.replace("#encounter", "#encountr"), "did you mean '#encounter'?", id="name"
        ),
        pytest.param(
            "immunization", IMMUNIZATION.replace("#encounter", "#~Encountr"), "did you mean 'Encounter'?", id="same"
        ),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("lotNumber:", "occurrenceString:"),
            "occurrenceString beside occurrenceDateTime; write it as a line of occurrence[x]",
            id="two of a choice",
        ),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("occurrenceDateTime: RXA-3 | datetime", "happened[x]: [{occurrenceDateTime: RXA-3}]"),
            "Immunization has no choice 'happened[x]'; expected one of occurrence",
            id="choice",
        ),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("lotNumber: RXA-15", "occurrence[x]: [{lotNumber: RXA-15}]"),
            "lotNumber is no occurrence[x]",
            id="of another choice",
        ),
        pytest.param(
            "immunization", IMMUNIZATION.replace("patient: patient\n", ""), "no line 'patient'; say which", id="whose"
        ),
        pytest.param(
            "immunization",
            IMMUNIZATION.replace("patient: patient\n", "patient: encounter\n"),
            "Immunization.encounter refers to no patient; expected one of patient",
            id="holder",
        ),
        pytest.param(
            "appointment",
            APPOINTMENT.replace(", status: accepted", ""),
            "no 'status', which Appointment.participant requires; add status: ...",
            id="required part",
        ),
        pytest.param(
            "appointment",
            APPOINTMENT.replace("participant.actor", "participant.type"),
            "Appointment.participant.type refers to no patient",
            id="holding part",
        ),
        pytest.param(
            "appointment", APPOINTMENT.replace("Appointment", "Apptment"), "unknown resource 'Apptment'", id="type"
        ),
        pytest.param(
            "composition",
            KEEP.format(type="Composition", holder="subject", line="title: PV1-2"),
            "Composition has one identifier, not a list",
            id="one identifier",
        ),
        pytest.param(
            "linkage",
            KEEP.format(type="Linkage", holder="author", line="active: PV1-2"),
            "Linkage has no identifier, not a list",
            id="no identifier",
        ),
        pytest.param(
            "encounter-x",
            KEEP.format(type="Encounter", holder="subject", line="class: PV1-2 | coding(encounter-class)"),
            "'Encounter' is what encounter.yaml is about; write it there",
            id="second file",
        ),
    ],
)
def test_a_mistake_in_it(tmp_path: Path, name: str, text: str, told: str) -> None:
    """Each is told with its place in the author's own file, and what would do."""
    folder = site(tmp_path)
    (folder / f"resources/{name}.yaml").write_text(text, "utf-8")
    problems = _problems(folder)
    assert any(told in problem for problem in problems), problems
    assert all(problem.startswith(f"resources/{name}.yaml:") for problem in problems), problems


def test_the_choices_are_those_of_the_definitions() -> None:
    """What stands for one of several elements is found by their names, as fhir.resources has it."""
    known: dict[tuple[str, str], set[str]] = {}
    for type_, name, _, field in fields(FhirVersion.R4):
        stem = (field.json_schema_extra or {}).get("one_of_many")
        if stem and name in r4_elements()[type_]:
            known.setdefault((type_, stem), set()).add(name)
    types = {type_ for type_, _ in known} - {"EvidenceVariable_Characteristic"}  # R4B has others there
    found = {(type_, stem): set(names) for type_ in types for stem, names in choices(type_).items()}
    assert found == {
        (type_, stem): names for (type_, stem), names in known.items() if len(names) > 1 and type_ in types
    }

"""The shipped mapping: its cases, and that what it makes is valid FHIR R4."""

import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fhir.resources.R4B.patient import Patient

from engine.config.settings import shipped
from engine.errors import MappingError, MessageError
from engine.fhir.plan import Attest, Interaction, Keep, Link, Merge, Move, PatientRecord, Retire
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.hl7.message import parse
from engine.mapping.authoring.case import Case, CaseResult, cases_for, channel_of, read_cases, run_cases, sending
from engine.mapping.authoring.outcome import origin, outcome, patient, resource
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load
from engine.mapping.subject.subject import Disposition
from tests.conftest import CorpusFile

CASES = read_cases(sorted((shipped("mappings") / "tests").glob("*.yaml")))
RESULTS = load([shipped("mappings")], "oru")


@pytest.fixture(scope="module")
def results(source: MappingSource) -> dict[tuple[str, int], CaseResult]:
    """What became of each case, by its file and its number there."""
    made = [run_case for of in (source, RESULTS) for run_case in run_cases(cases_for(CASES, of), of)]
    return {(one.case.source.file, one.case.number): one for one in made}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{Path(case.source.file).stem}: {case.name}")
def test_case(case: Case, results: dict[tuple[str, int], CaseResult]) -> None:
    """What a shipped case expects comes out; all of it is valid R4, and valid STU3 as a destination gets it."""
    _case, found, told = results[case.source.file, case.number]
    assert told == ()
    if "patient" in found:
        Patient.model_validate(found["patient"])
    for interaction in found.get("interactions", ()):
        if "attest" in interaction or interaction.get("if_absent", "").startswith("create"):
            valid(interaction["resource"])
            valid(convert(interaction["resource"], Direction.TO_STU3), "STU3")


def valid(body: dict[str, Any], version: str = "R4B") -> None:
    """Hold a resource to the model of its type."""
    name = body["resourceType"]
    getattr(import_module(f"fhir.resources.{version}.{name.lower()}"), name).model_validate(body)


def test_every_event_has_a_case() -> None:
    """No row of the event table is without a case."""
    events = load([shipped("mappings")], "adt").documents.events.value["events"]
    tried = {case.raw.split(b"ADT^")[1][:3].decode() for case in CASES if b"ADT^" in case.raw}
    assert set(events) - tried == set()


def test_every_adt_event_has_a_rule(source: MappingSource) -> None:
    """A01 to A62 each have a row of their own, so that an operator reads what it is."""
    events = source.documents.events.value["events"]
    assert {f"A{number:02}" for number in range(1, 63)} - set(events) == set()


def test_tables_name_source_and_licence(source: MappingSource) -> None:
    """Each code table says where its codes come from and under which licence."""
    for name, document in source.documents.tables.items():
        assert document.value["source"], name
        assert document.value["licence"] in {"CC0-1.0", "Apache-2.0", "CC0-1.0 AND Apache-2.0"}, name


def test_loading_is_quick() -> None:
    """The shipped set is read and checked in a moment."""
    start = time.process_time()
    load([shipped("mappings")], "adt")
    assert time.process_time() - start < 5


def test_corpus(corpus: tuple[CorpusFile, ...], source: MappingSource) -> None:
    """Whatever others' messages hold: a subject always, a plan or an error of ours, valid R4 and STU3 in every plan."""
    everything = sending(source, [name for name, one in source.documents.resources.items() if "from" not in one.value])
    mapping = compile_mapping(everything, channel_of({"authorities": {"": "https://mrn.example"}}))
    invalid: list[str] = []
    planned = 0
    for file in corpus:
        try:
            message = parse(file.raw, undecodable="replace")
            subject = mapping.identify(message)
            plan = mapping.plan(message) if subject.action is Disposition.DELIVER else None
        except (MessageError, MappingError):
            continue
        for body in (body for interaction in (plan.interactions if plan else ()) for body in _bodies(interaction)):
            planned += 1
            try:
                valid(body)
                valid(convert(body, Direction.TO_STU3), "STU3")
            except ValueError as error:
                invalid.append(f"{file.name}: {error}")
    assert invalid == []
    assert planned > 100


def _bodies(one: Interaction) -> list[dict[str, Any]]:
    if isinstance(one, Keep):
        return [resource(one)] if one.create else []
    if isinstance(one, Attest):
        return [origin(one)]
    return [patient(record) for record in _records(one)]


def _records(one: Interaction) -> tuple[PatientRecord, ...]:
    if isinstance(one, Keep | Retire | Attest):
        return ()
    if isinstance(one, Link):
        return one.one, one.other
    if isinstance(one, Move):
        return (one.target,)
    return (one.survivor,) if isinstance(one, Merge) else (one.patient,)


def test_outcome_of_a_filtered_event(mapping: Mapping) -> None:
    """A filtered event has a rule and no interactions, even without a PID."""
    found = outcome(mapping, parse(b"MSH|^~\\&|HIS|RVB|||20250701093000||ADT^A20|1|P|2.5.1\rEVN||20250701"))
    assert found["action"] == "filter"
    assert found["rule"] == "bed-status"
    assert "interactions" not in found

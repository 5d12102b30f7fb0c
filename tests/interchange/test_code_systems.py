"""FHIR's own code systems have an address for each base: what is written by one is found and shown by the other."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.addresses import IN_R4, IN_STU3, system_in_r4, system_in_stu3
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.interchange.rest.resource.catalogue import EDITION, INDEXERS, KEPT
from engine.interchange.store.index import Index
from engine.interchange.store.store import Store
from tests.interchange.kit import Outside, patient, record_number, running
from tests.interchange.least import least
from tests.interchange.places import place

FORMER = "http://hl7.org/fhir/"
PRESENT = "http://terminology.hl7.org/CodeSystem/"
BASES = {FhirVersion.STU3: "/fhir", FhirVersion.R4: "/fhir/R4"}
# By hand from HL7's two lists: what STU3 calls it below its address, and R4 below its own.
BY_HAND = {
    "observation-category": "observation-category",
    "condition-category": "condition-category",
    "condition-clinical": "condition-clinical",
    "condition-ver-status": "condition-ver-status",
    "allergy-clinical-status": "allergyintolerance-clinical",
    "allergy-verification-status": "allergyintolerance-verification",
    "admit-source": "admit-source",
    "discharge-disposition": "discharge-disposition",
    "diagnosis-role": "diagnosis-role",
    "diet": "diet",
    "goal-category": "goal-category",
    "goal-priority": "goal-priority",
    "location-physical-type": "location-physical-type",
    "medication-request-category": "medicationrequest-category",
    "medication-statement-category": "medication-statement-category",
    "organization-type": "organization-type",
    "practitioner-role": "practitioner-role",
    "policyholder-relationship": "subscriber-relationship",
    "data-absent-reason": "data-absent-reason",
    "referencerange-meaning": "referencerange-meaning",
}
# What has the same address in both.
SAME = ("http://loinc.org", "http://hl7.org/fhir/administrative-gender", "http://hl7.org/fhir/sid/us-ssn", "urn:x", "")


@pytest.mark.parametrize("stu3", BY_HAND)
def test_an_address_of_fhir_itself_turns_both_ways(stu3: str) -> None:
    """Each base has the address that HL7's list of its release has."""
    assert system_in_r4(FORMER + stu3) == PRESENT + BY_HAND[stu3]
    assert system_in_stu3(PRESENT + BY_HAND[stu3]) == FORMER + stu3


def test_the_list_turns_each_address_to_one_other() -> None:
    """No address is two systems', none turns twice, and what did not move stays."""
    assert len(IN_R4) == len(IN_STU3) == 161
    assert not IN_R4.keys() & IN_STU3.keys()
    for stu3, r4 in IN_R4.items():
        assert (system_in_stu3(r4), system_in_r4(r4), system_in_stu3(stu3)) == (stu3, r4, stu3)
    for one in SAME:
        assert system_in_r4(one) == system_in_stu3(one) == one


def test_plain_codes_are_indexed_by_the_address_that_is_asked() -> None:
    """The system of a plain code in the index is R4's, as that of each criterion is."""
    assert {
        one.system for own in KEPT.values() for one in own.parameters if system_in_r4(one.system) != one.system
    } == (set())


def test_a_record_has_the_addresses_of_its_base() -> None:
    """Codings anywhere in a resource turn, also in what is contained; the way back is the same record."""
    category = [{"coding": [{"system": f"{PRESENT}observation-category", "code": "laboratory"}]}]
    absent = {"coding": [{"system": f"{PRESENT}data-absent-reason", "code": "unknown"}]}
    inner = {
        "resourceType": "Location",
        "id": "l",
        "physicalType": {"coding": [{"system": f"{PRESENT}x", "code": "x"}]},
    }
    inner["physicalType"]["coding"][0]["system"] = f"{PRESENT}location-physical-type"
    kept = {**least("Observation", "p1"), "category": category, "dataAbsentReason": absent, "contained": [inner]}
    shown = convert(kept, Direction.TO_STU3)
    assert shown["category"][0]["coding"][0]["system"] == f"{FORMER}observation-category"
    assert shown["dataAbsentReason"]["coding"][0]["system"] == f"{FORMER}data-absent-reason"
    assert shown["contained"][0]["physicalType"]["coding"][0]["system"] == f"{FORMER}location-physical-type"
    assert convert(shown, Direction.TO_R4) == kept


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A service."""
    with running(tmp_path_factory.mktemp("systems")) as one:
        yield one


def observation(version: FhirVersion, who: str, system: str) -> dict[str, Any]:
    """Return an observation of a category."""
    category = [{"coding": [{"system": system, "code": "laboratory"}]}]
    return least("Observation", who, version, category=category)


def found(service: Outside, version: FhirVersion, who: str, system: str) -> list[dict[str, Any]]:
    """Return the observations of a category that a base finds."""
    query = f"Observation?patient={who}&category={system}|laboratory"
    answer = service.ask("GET", f"{BASES[version]}/{query}")
    assert answer.status_code == 200, answer.text
    return [entry["resource"] for entry in answer.json().get("entry", [])]


@pytest.mark.parametrize("by", FhirVersion)
@pytest.mark.parametrize("written", [FORMER, PRESENT])
def test_a_category_is_found_by_either_address_on_both_bases(service: Outside, by: FhirVersion, written: str) -> None:
    """A US Core search by category finds what came by STU3 and the other way round; each shows its own address."""
    who = service.create()["id"]
    body = observation(by, who, f"{written}observation-category")
    made = service.ask("POST", f"{BASES[by]}/Observation", json=body)
    assert made.status_code == 201, made.text
    for base in FhirVersion:
        for asked in (FORMER, PRESENT):
            (one,) = found(service, base, who, f"{asked}observation-category")
            assert one["id"] == made.json()["id"]
            # What R4 itself was given stays as it was given.
            in_r4 = written if by is FhirVersion.R4 else PRESENT
            shown = FORMER if base is FhirVersion.STU3 else in_r4
            assert one["category"][0]["coding"][0]["system"] == f"{shown}observation-category"
        assert (
            service.ask(
                "GET", f"{BASES[base]}/Observation?patient={who}&category={PRESENT}observation-category|"
            ).json()["total"]
            == 1
        )


def test_a_conditional_create_sees_what_came_by_the_other_base(service: Outside) -> None:
    """`If-None-Exist` by R4's address matches what STU3 wrote under its own: no second record."""
    who = service.create()["id"]
    body = observation(FhirVersion.STU3, who, f"{FORMER}observation-category")
    assert service.ask("POST", "/fhir/Observation", json=body).status_code == 201
    again = service.ask(
        "POST",
        "/fhir/R4/Observation",
        json=observation(FhirVersion.R4, who, f"{PRESENT}observation-category"),
        headers={"If-None-Exist": f"patient={who}&category={PRESENT}observation-category|laboratory"},
    )
    assert again.status_code == 200, again.text


def former_rows(body: dict[str, Any]) -> Index:
    """Return the rows that an observation had before: with the system as its body has it."""
    made = INDEXERS["Observation"](body)
    system = body["category"][0]["coding"][0]["system"]
    tokens = {row._replace(system=system) if row.parameter == "Observation.category" else row for row in made.tokens}
    return replace(made, tokens=frozenset(tokens))


def test_what_was_kept_under_the_former_address_is_found(tmp_path: Path) -> None:
    """A database of an earlier version, on SQLite and PostgreSQL, is indexed again: both addresses find."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    older = Store(
        place(tmp_path), ["riverbend"], lambda: start, {**INDEXERS, "Observation": former_rows}, edition="earlier"
    )
    bodies = {
        name: observation(FhirVersion.R4, "p1", f"{one}observation-category")
        for name, one in (("old", FORMER), ("new", PRESENT))
    }

    def work(transaction: Any) -> None:
        transaction.create("Patient", "p1", patient(identifier=[record_number("1")]))
        for name, body in bodies.items():
            transaction.create("Observation", name, body)

    asyncio.run(older.write("riverbend", work))
    older.close()
    assert EDITION != "earlier"
    with running(tmp_path) as service:
        for version in FhirVersion:
            for one in (FORMER, PRESENT):
                ids = {each["id"] for each in found(service, version, "p1", f"{one}observation-category")}
                assert ids == {"old", "new"}

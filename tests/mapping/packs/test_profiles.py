"""Constraints of profiles, each by a resource that breaks it, and what `mappings test --profile` reports."""

from copy import deepcopy
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from engine.config.settings import shipped
from engine.errors import UsageError
from engine.fhir.profiles import ProfileSet, claimed, read_profiles, violations
from engine.mapping.files.document import PACKS, pack_names
from tests.mapping.conftest import Author

FOLDER = shipped("mappings") / PACKS
CORE = "http://hl7.org/fhir/us/core/StructureDefinition/"
RACE = {
    "url": f"{CORE}us-core-race",
    "extension": [
        {"url": "ombCategory", "valueCoding": {"system": "urn:oid:2.16.840.1.113883.6.238", "code": "2106-3"}},
        {"url": "text", "valueString": "White"},
    ],
}
PATIENT: dict[str, Any] = {
    "resourceType": "Patient",
    "meta": {"profile": [f"{CORE}us-core-patient|5.0.1"]},
    "identifier": [{"system": "urn:a", "value": "1"}],
    "name": [{"family": "Roe"}],
    "gender": "female",
    "extension": [RACE, {"url": f"{CORE}us-core-birthsex", "valueCode": "F"}],
}
CONDITION: dict[str, Any] = {
    "resourceType": "Condition",
    "category": [
        {
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/condition-category",
                    "code": "encounter-diagnosis",
                    "display": "Encounter Diagnosis",
                }
            ]
        }
    ],
    "code": {"text": "Fracture"},
    "subject": {"reference": "Patient/1"},
}


@pytest.fixture(scope="module")
def us_core() -> ProfileSet:
    """The constraints of the pack."""
    return read_profiles(FOLDER / "us-core")


def test_a_resource_that_has_what_the_profile_wants_holds(us_core: ProfileSet) -> None:
    """A claim of a version is one of the profile."""
    assert claimed(PATIENT) == [f"{CORE}us-core-patient"]
    assert violations(PATIENT, claimed(PATIENT)[0], us_core) == []
    assert violations(CONDITION, f"{CORE}us-core-condition-encounter-diagnosis", us_core) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("identifier",), [], "Patient.identifier: 0 found, the profile wants 1..*"),
        (("identifier", 0), {"value": "1"}, "Patient.identifier.system: 0 found, the profile wants 1..*"),
        (("name",), None, "Patient.name: 0 found, the profile wants 1..*"),
        (("gender",), None, "Patient.gender: 0 found, the profile wants 1..*"),
        (("gender",), "F", "Patient.gender: no code of the required value set (male, female, other, unknown)"),
        (("telecom",), [{"system": "phone"}], "Patient.telecom.value: 0 found, the profile wants 1..*"),
        (("extension",), [RACE, RACE], "Patient.extension:race: 2 found, the profile wants 0..1"),
        (
            ("extension", 0, "extension"),
            RACE["extension"][:1],
            "Patient.extension:race.extension:text: 0 found, the profile wants 1..1",
        ),
        (
            ("extension", 0, "extension", 0, "valueCoding", "code"),
            "2135-2",
            "Patient.extension:race.extension:ombCategory.value[x]: no code of the required value set",
        ),
        (("extension", 1, "valueCode"), "X", "Patient.extension:birthsex.value[x]: no code of the required value set"),
    ],
)
def test_a_constraint_that_does_not_hold_is_named_by_its_path(
    path: tuple[Any, ...], value: Any, expected: str, us_core: ProfileSet
) -> None:
    """Cardinality, required codes, slices of extensions and what these hold."""
    broken = deepcopy(PATIENT)
    inner: Any = broken
    for step in path[:-1]:
        inner = inner[step]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    found = violations(broken, f"{CORE}us-core-patient", us_core)
    assert any(one.startswith(expected) for one in found), found


def test_a_slice_by_a_pattern_is_counted(us_core: ProfileSet) -> None:
    """Another category is none of the slice, and the slice is missing."""
    broken = CONDITION | {"category": [{"text": "other"}]}
    found = violations(broken, f"{CORE}us-core-condition-encounter-diagnosis", us_core)
    assert found == ["Condition.category:us-core: 0 found, the profile wants 1..1"]


def test_an_absent_primitive_with_a_reason_is_there(us_core: ProfileSet) -> None:
    """`_gender` alone satisfies 1..1, as FHIR has it."""
    broken = {**PATIENT, "_gender": {"extension": [{"url": "x", "valueCode": "unknown"}]}}
    del broken["gender"]
    assert violations(broken, f"{CORE}us-core-patient", us_core) == []


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(one, marks=() if one == "us-core" else pytest.mark.matrix)
        for one in pack_names(shipped("mappings"))
    ],
)
def test_cases_hold_to_the_profiles_of_their_pack(pack: str) -> None:
    """Or the report says that nothing was checked; what it leaves out is listed in either case."""
    result = CliRunner().invoke(app, ["mappings", "test", "--profile", pack, "--json"])
    report = orjson.loads(result.stdout)["profile"]
    assert (result.exit_code, report["violations"]) == (0, [])
    assert report["not_checked"]
    has = (FOLDER / pack / "profiles.json").is_file()
    assert (report["claims"] > 0) == has
    assert any("every profile" in one for one in report["not_checked"]) != has


@pytest.mark.matrix
def test_a_site_that_breaks_the_profile_is_told_by_case_and_path(author: Author) -> None:
    """Exit 1, with the case's line and the element, and no value."""
    site = author(
        adt="mapping: adt\nextends: packs/us-core\n",
        resources__patient="resource: Patient\nextends: shipped/patient\nelements:\n  gender:\nnew:\n  gender:\n",
        tests__own="tests:\n  - {case: a, event: A28, message: 'PID|1||1^^^RVB^MR||ROE', expect: {rule: add-person}}\n",
    )
    result = CliRunner().invoke(app, ["mappings", "test", "--mappings", str(site), "--profile", "us-core"])
    assert result.exit_code == 1
    assert "own.yaml:2: a\n    Patient.gender: 0 found, the profile wants 1..* " in result.stdout
    assert "not checked: us-core-patient: invariant us-core-6 of Patient" in result.stdout


def test_an_unknown_pack_is_refused() -> None:
    """With the nearest name."""
    result = CliRunner().invoke(app, ["mappings", "test", "--profile", "us-cor"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "no pack 'us-cor' ships; did you mean 'us-core'?"

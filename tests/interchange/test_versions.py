from pathlib import Path
from typing import Any

import pytest
from fhir.resources.R4B import get_fhir_model_class as r4_model
from fhir.resources.STU3 import get_fhir_model_class as stu3_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, defects
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.fhir.versions.names import r4_name
from engine.interchange.kernel.exact import read_json, write_json
from engine.interchange.kernel.view import to_stored, to_version
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.resources import resources
from tests.tiers import trials

EXAMPLES = Path(__file__).parent / "examples"
MODELS = {FhirVersion.R4: r4_model, FhirVersion.STU3: stu3_model}
THERE = {FhirVersion.R4: Direction.TO_STU3, FhirVersion.STU3: Direction.TO_R4}
BACK = {FhirVersion.R4: Direction.TO_R4, FhirVersion.STU3: Direction.TO_STU3}


def examples(version: FhirVersion) -> list[Any]:
    """Return the examples of a version, each with its file's name: HL7's, and ours of orders."""
    files = sorted((EXAMPLES / version.lower()).glob("*.json"))
    return [pytest.param(version, file, id=f"{version} {file.stem}") for file in files]


def valid(resource: dict[str, Any], version: FhirVersion) -> None:
    """Hold a resource to HL7's schema of a version, and to fhir.resources."""
    assert defects(resource, version) == ()
    MODELS[version](resource["resourceType"]).model_validate(read_json(write_json(resource)))


@pytest.mark.parametrize(("version", "file"), [*examples(FhirVersion.R4), *examples(FhirVersion.STU3)])
def test_examples(version: FhirVersion, file: Path) -> None:
    """C-112, C-249: an example is valid in the other version, and comes back as it was, twice."""
    resource = read_json(file.read_bytes())
    assert defects(resource, version) == ()
    other = convert(resource, THERE[version])
    valid(other, THERE[version].target)
    home = convert(other, BACK[version])
    assert home == resource
    assert convert(home, THERE[version]) == other


def test_every_kept_type_has_examples() -> None:
    """The examples are of all types that the service keeps.

    Two have none: a Binary is its content, and a Subscription is the same in both versions.
    """
    files = [*EXAMPLES.glob("*/*.json")]
    assert {r4_name(read_json(file.read_bytes())["resourceType"]) for file in files} >= {*KEPT, "Patient"} - {
        "Binary",
        "Subscription",
    }


@pytest.mark.property
@pytest.mark.parametrize("version", FhirVersion)
@settings(
    max_examples=trials(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_no_element_is_lost(version: FhirVersion, data: st.DataObject) -> None:
    """C-112: whatever elements a resource has, it is valid in the other version, and comes back the same."""
    type_name = data.draw(st.sampled_from(sorted({"Patient", *KEPT})))
    name = type_name if version is FhirVersion.R4 else turned_name(type_name)
    resource = data.draw(resources(name, version))
    assert defects(resource, version) == ()
    other = convert(resource, THERE[version])
    assert defects(other, THERE[version].target) == ()
    assert convert(other, BACK[version]) == resource


BESIDE = {"extension": [{"url": "http://example.org/beside", "valueString": "b"}]}
PARKED = [
    pytest.param({"_profile": [BESIDE]}, id="alone"),
    pytest.param({"_profile": [BESIDE, BESIDE]}, id="twice"),
    pytest.param({"profile": [None, "http://example.org/p"], "_profile": [BESIDE, None]}, id="before a value"),
    pytest.param({"profile": ["http://example.org/p", None], "_profile": [None, BESIDE]}, id="behind a value"),
    pytest.param({"profile": ["http://example.org/p"], "_profile": [BESIDE]}, id="at a value"),
]


@pytest.mark.parametrize("profile", PARKED)
def test_lists_that_only_extensions_stand_in(profile: dict[str, Any]) -> None:
    """C-112: an extension that stands for an item of a list, or beside it, comes back in its place."""
    meta = {"resourceType": "Account", "extension": [{"url": "http://example.org/a", "valueMeta": profile}]}
    renamed = {name.replace("profile", "instantiatesUri"): value for name, value in profile.items()}
    plan = {"resourceType": "CarePlan", "status": "active", "intent": "plan", "subject": {"display": "x"}, **renamed}
    for resource, version in ((meta, FhirVersion.STU3), (plan, FhirVersion.R4)):
        assert defects(resource, version) == ()
        other = convert(resource, THERE[version])
        assert defects(other, THERE[version].target) == ()
        assert convert(other, BACK[version]) == resource


def test_an_extension_that_holds_nothing_stays() -> None:
    """What names a type and holds no value of it is no element of the other version, and is not lost."""
    held = {
        "url": "http://hl7.org/fhir/4.0/StructureDefinition/extension-CarePlan.instantiatesUri",
        "extension": [{"url": "http://hl7.org/fhir/StructureDefinition/_datatype", "valueString": "uri"}],
    }
    plan = {"resourceType": "CarePlan", "status": "active", "intent": "plan", "subject": {"display": "x"}}
    assert convert({**plan, "extension": [held]}, Direction.TO_R4) == {**plan, "extension": [held]}


NOT_GIVEN = {
    "resourceType": "Immunization",
    "status": "entered-in-error",
    "notGiven": True,
    "patient": {"display": "x"},
    "primarySource": True,
    "vaccineCode": {"text": "x"},
    "explanation": {**BESIDE, "reason": [{"text": "x"}]},
}
IN_ERROR = NOT_GIVEN | {"explanation": {"reason": [{"text": "x"}]}}
NOT_TAKEN = {
    "resourceType": "MedicationStatement",
    "_status": BESIDE,
    "taken": "n",
    "medicationCodeableConcept": {"text": "x"},
    "subject": {"display": "x"},
    "reasonNotTaken": [{"text": "x"}],
}


@pytest.mark.parametrize(
    "resource", [NOT_GIVEN, IN_ERROR, NOT_TAKEN], ids=["beside", "Immunization", "MedicationStatement"]
)
def test_reasons_whose_status_r4_does_not_have(resource: dict[str, Any]) -> None:
    """C-112: a reason of what was not done comes back though R4's status, of an entry in error, does not say so."""
    other = convert(resource, Direction.TO_R4)
    assert defects(resource, FhirVersion.STU3) == defects(other, FhirVersion.R4) == ()
    assert convert(other, Direction.TO_STU3) == resource


CANONICAL = {"url": "http://example.org/a", "valueCanonical": "http://example.org/c"}
PERSON = {"resourceType": "Patient", "gender": "female"}


@pytest.mark.parametrize(
    ("resource", "version"),
    [
        pytest.param(NOT_GIVEN | {"_notGiven": {"id": "n"}}, FhirVersion.STU3, id="id"),
        pytest.param(NOT_GIVEN | {"_notGiven": {"id": "n", **BESIDE}}, FhirVersion.STU3, id="id and extension"),
        pytest.param(
            PERSON | {"extension": [CANONICAL | {"_valueCanonical": {"id": "c"}}]},
            FhirVersion.R4,
            id="id of a canonical",
        ),
    ],
)
def test_ids_beside_values_that_the_other_version_has_not(resource: dict[str, Any], version: FhirVersion) -> None:
    """C-112: the id of a primitive, which JSON keeps beside it, comes back with the value and its extensions."""
    assert defects(resource, version) == ()
    other = convert(resource, THERE[version])
    assert defects(other, THERE[version].target) == ()
    assert convert(other, BACK[version]) == resource


def turned_name(type_name: str) -> str:
    """Return the name that a kept type has in STU3."""
    return str(convert({"resourceType": type_name}, Direction.TO_STU3)["resourceType"])


def test_r4_is_kept_as_it_is() -> None:
    """R4 bodies are neither read nor written on their way."""
    body = b'{ "resourceType" : "Patient" }'
    assert to_version(body, "Patient", FhirVersion.R4) is body
    resource = {"resourceType": "Patient"}
    assert to_stored(resource, FhirVersion.R4) is resource


def test_decimals_keep_their_digits() -> None:
    """A decimal has the digits in STU3 that it has in R4, within an extension too."""
    body = b'{"resourceType":"Observation","status":"final","code":{"text":"x"},"valueQuantity":{"value":1.50}'
    component = b',"component":[{"code":{"text":"y"},"valueQuantity":{"value":0.10}}],"hasMember":[]}'
    text = to_version(body + component.replace(b',"hasMember":[]', b""), "Observation", FhirVersion.STU3)
    assert b'"value":1.50}' in text
    assert b'"value":0.10}' in text
    aged = b'{"resourceType":"Procedure","status":"completed","subject":{"display":"x"},"performedAge":{"value":2.0}}'
    text = to_version(aged, "Procedure", FhirVersion.STU3)
    assert b'"value":2.0,' in text
    assert write_json(to_stored(read_json(text), FhirVersion.STU3)).count(b'"performedAge":{"value":2.0}') == 1

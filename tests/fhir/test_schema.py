"""Validation against HL7's schemas, and what those do not catch."""

from typing import Any

import pytest

from engine.fhir.extra_constraints import DefectKind, valid_date
from engine.fhir.schema import MOST, FhirVersion, defects, resource_types

GOOD: dict[str, Any] = {
    "resourceType": "Patient",
    "identifier": [{"system": "urn:x", "value": "1"}],
    "name": [{"family": "Quintero", "given": ["Marisol"]}],
    "gender": "female",
    "birthDate": "1984-02-29",
    "contained": [{"resourceType": "Organization", "id": "o"}],
}


@pytest.mark.parametrize("version", FhirVersion)
def test_a_good_patient_has_no_defects(version: FhirVersion) -> None:
    """A valid resource has none, in both versions."""
    assert defects(GOOD, version) == ()


@pytest.mark.parametrize("version", FhirVersion)
@pytest.mark.parametrize(
    ("elements", "path", "kind"),
    [
        ({"gender": "X"}, "Patient.gender", DefectKind.VALUE),
        ({"gender": 5}, "Patient.gender", DefectKind.STRUCTURE),
        ({"gender": ["female"]}, "Patient.gender", DefectKind.STRUCTURE),
        ({"active": "yes"}, "Patient.active", DefectKind.STRUCTURE),
        ({"birthDate": "1984-13-01"}, "Patient.birthDate", DefectKind.VALUE),
        ({"birthDate": "1985-02-29"}, "Patient.birthDate", DefectKind.VALUE),
        ({"name": "Quintero"}, "Patient.name", DefectKind.STRUCTURE),
        ({"name": ["Quintero"]}, "Patient.name[0]", DefectKind.STRUCTURE),
        ({"name": [{"family": 1}]}, "Patient.name[0].family", DefectKind.STRUCTURE),
        ({"shoeSize": 44}, "Patient.shoeSize", DefectKind.STRUCTURE),
        ({"telecom": []}, "Patient.telecom", DefectKind.STRUCTURE),
        ({"contact": [{}]}, "Patient.contact[0]", DefectKind.STRUCTURE),
        ({"link": [{"type": "refer"}]}, "Patient.link[0].other", DefectKind.REQUIRED),
        ({"contained": [{"id": "o"}]}, "Patient.contained[0].resourceType", DefectKind.REQUIRED),
        ({"deceasedBoolean": True, "deceasedDateTime": "2020"}, "Patient.deceased[x]", DefectKind.STRUCTURE),
        ({"deceasedDateTime": "2021-02-30T10:00:00Z"}, "Patient.deceasedDateTime", DefectKind.VALUE),
        ({"address": [{"period": {"start": "2021-04-31"}}]}, "Patient.address[0].period.start", DefectKind.VALUE),
        ({"birthDate": "born 1984"}, "Patient.birthDate", DefectKind.VALUE),
        ({"birthDate": "1984-00"}, "Patient.birthDate", DefectKind.VALUE),
        ({"meta": {"lastUpdated": "yesterday"}}, "Patient.meta.lastUpdated", DefectKind.VALUE),
        ({"id": "a/b"}, "Patient.id", DefectKind.VALUE),
        ({"name": [{"family": ""}]}, "Patient.name[0].family", DefectKind.VALUE),
        ({"identifier": [{"system": ""}]}, "Patient.identifier[0].system", DefectKind.VALUE),
        ({"identifier": [{"system": "a b"}]}, "Patient.identifier[0].system", DefectKind.VALUE),
        ({"photo": [{"data": "no base64!"}]}, "Patient.photo[0].data", DefectKind.VALUE),
        ({"photo": [{"data": ""}]}, "Patient.photo[0].data", DefectKind.VALUE),
        ({"photo": [{"size": -1}]}, "Patient.photo[0].size", DefectKind.VALUE),
        ({"photo": [{"creation": "2021-02-30T10:00:00Z"}]}, "Patient.photo[0].creation", DefectKind.VALUE),
        ({"telecom": [{"rank": 0}]}, "Patient.telecom[0].rank", DefectKind.VALUE),
        ({"telecom": [{"rank": 1.5}]}, "Patient.telecom[0].rank", DefectKind.VALUE),
        ({"telecom": [{"rank": "1"}]}, "Patient.telecom[0].rank", DefectKind.STRUCTURE),
        ({"multipleBirthInteger": 2**31}, "Patient.multipleBirthInteger", DefectKind.VALUE),
        ({"extension": [{"url": "urn:x", "valueDate": "x1984"}]}, "Patient.extension[0].valueDate", DefectKind.VALUE),
        ({"extension": [{"url": "urn:x", "valueUri": "a b"}]}, "Patient.extension[0].valueUri", DefectKind.VALUE),
        ({"extension": [{"url": "urn:x", "valueInstant": "2021-02-30T10:00:00Z"}]}, None, DefectKind.VALUE),
        (
            {"extension": [{"url": "urn:x", "valuePositiveInt": 0}]},
            "Patient.extension[0].valuePositiveInt",
            DefectKind.VALUE,
        ),
        (
            {"extension": [{"url": "urn:x", "valueTiming": {"event": ["2021-02-28", "2021-02-30"]}}]},
            "Patient.extension[0].valueTiming.event",
            DefectKind.VALUE,
        ),
        ({"photo": [{"data": "QUJDR"}]}, "Patient.photo[0].data", DefectKind.VALUE),
        ({"extension": [{"valueString": "x"}]}, "Patient.extension[0].url", DefectKind.REQUIRED),
        ({"text": {"div": "<div xmlns='http://www.w3.org/1999/xhtml'/>"}}, "Patient.text.status", DefectKind.REQUIRED),
        (
            {"extension": [{"url": "urn:x", "valueUsageContext": {"code": {"code": "x"}}}]},
            "Patient.extension[0].valueUsageContext.value[x]",
            DefectKind.REQUIRED,
        ),
        (
            {
                "extension": [
                    {"url": "urn:x", "valueAnnotation": {"text": "x", "authorString": "a", "authorReference": {}}}
                ]
            },
            "Patient.extension[0].valueAnnotation.author[x]",
            DefectKind.STRUCTURE,
        ),
        ({"contained": []}, "Patient.contained", DefectKind.STRUCTURE),
        ({"contained": [{"resourceType": "Nonsense"}]}, "Patient.contained[0].resourceType", DefectKind.STRUCTURE),
        ({"contained": [{"resourceType": 5, "id": ["o"]}]}, "Patient.contained[0].resourceType", DefectKind.STRUCTURE),
        ({"contained": [{"resourceType": ["Patient"]}]}, "Patient.contained[0].resourceType", DefectKind.STRUCTURE),
        ({"contained": [{"resourceType": "Organization", "x": 1}]}, "Patient.contained[0].x", DefectKind.STRUCTURE),
        ({"contained": [{"resourceType": "Location", "name": ""}]}, "Patient.contained[0].name", DefectKind.VALUE),
        ({"contained": [{"resourceType": "Observation"}]}, "Patient.contained[0].status", DefectKind.REQUIRED),
    ],
)
def test_defects(version: FhirVersion, elements: dict[str, Any], path: str | None, kind: DefectKind) -> None:
    """Each fault is found at its path with its kind, and its text holds no value."""
    found = defects({**GOOD, **elements}, version)
    assert (path or found[0].path, kind) in {(one.path, one.kind) for one in found}
    assert not any("Quintero" in one.path + one.text for one in found)


@pytest.mark.parametrize("version", FhirVersion)
@pytest.mark.parametrize(
    "elements",
    [
        {"identifier": [{"system": "urn:x", "value": "2023-13-45"}]},
        {"photo": [{"data": "QUJD\nREVG"}]},
        {"photo": [{"size": 0}]},
        {"multipleBirthInteger": 1},
        {"deceasedDateTime": "2024-02-29T10:11:12.123+01:00"},
        {"extension": [{"url": "urn:x", "valueString": "2023-13"}, {"url": "urn:x", "valueTime": "23:59:59"}]},
        {"extension": [{"url": "urn:x", "valueTiming": {"event": ["2021"], "repeat": {"count": 1}}}]},
        {"meta": {"profile": ["http://x.example/p"], "_profile": [{"id": "p"}]}},
    ],
)
def test_what_only_looks_wrong(version: FhirVersion, elements: dict[str, Any]) -> None:
    """Text that looks like an impossible date is none, and bounds take in their ends."""
    assert defects({**GOOD, **elements}, version) == ()


def test_versions_differ() -> None:
    """An animal is a Patient of STU3 only; an unknown type is a KeyError."""
    animal = {**GOOD, "animal": {"species": {"text": "dog"}}}
    assert defects(animal, FhirVersion.STU3) == ()
    assert defects(animal, FhirVersion.R4)
    assert "ServiceRequest" in resource_types(FhirVersion.R4) - resource_types(FhirVersion.STU3)
    with pytest.raises(KeyError):
        defects({"resourceType": "Nonsense"}, FhirVersion.R4)


@pytest.mark.parametrize(
    ("text", "good"), [("2024-02-29", True), ("2023-02-29", False), ("2023", True), ("2023-13", False)]
)
def test_calendar(text: str, good: bool) -> None:
    """Dates are held to the calendar, partial ones as far as they go."""
    assert valid_date(text) is good


@pytest.mark.parametrize(
    ("resource", "version", "missing"),
    [
        ({"resourceType": "Observation", "code": {"text": "x"}}, FhirVersion.R4, ["Observation.status"]),
        ({"resourceType": "Observation", "code": {"text": "x"}, "_status": {"id": "s"}}, FhirVersion.R4, []),
        (
            {"resourceType": "Patient", "link": [{"other": {"reference": "Patient/1"}}]},
            FhirVersion.STU3,
            ["Patient.link[0].type"],
        ),
        (
            {"resourceType": "MedicationRequest", "status": "active", "intent": "order", "subject": {"display": "x"}},
            FhirVersion.R4,
            ["MedicationRequest.medication[x]"],
        ),
    ],
    ids=["primitive", "an extension in its place", "nested primitive", "choice"],
)
def test_required_elements_that_the_schemas_do_not_ask_for(resource, version, missing) -> None:
    """Primitives and choices of min 1 are required as the StructureDefinitions say."""
    assert [defect.path for defect in defects(resource, version)] == missing


@pytest.mark.parametrize(
    ("telecom", "kind"),
    [
        ([{"shoeSize": 1}] * 20_000, DefectKind.STRUCTURE),
        ([{"system": "pigeon"}] * 20_000, DefectKind.VALUE),
        ([{}] * 20_000, DefectKind.STRUCTURE),
        ([*[{"system": "phone"}] * 20_000, {"system": "pigeon"}], DefectKind.VALUE),
        ([*[{"system": "phone"}] * 20_000, *[{"shoeSize": 1}] * 20_000], DefectKind.STRUCTURE),
    ],
    ids=["unknown", "wrong", "empty", "last", "last ones"],
)
def test_many_faults_are_told_by_their_first_ones(telecom: list[Any], kind: DefectKind) -> None:
    """However many faults a resource has, few are told, and one that stands late is found too."""
    found = defects({**GOOD, "telecom": telecom}, FhirVersion.R4)
    assert 0 < len(found) <= 3 * MOST
    assert {one.kind for one in found} == {kind}


def test_an_extension_does_in_the_place_of_a_primitive() -> None:
    """FHIR lets `_status` stand where a status is required; nothing at all is a fault, however late."""
    unknown = {
        "extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown"}]
    }
    linked = {"other": {"display": "a"}, "_type": unknown}
    many = [linked] * 5_000
    assert defects({**GOOD, "link": many}, FhirVersion.R4) == ()
    late = defects({**GOOD, "link": [*many, {"other": {"display": "a"}}]}, FhirVersion.R4)
    assert [(one.path, one.kind) for one in late] == [("Patient.link[5000].type", DefectKind.REQUIRED)]

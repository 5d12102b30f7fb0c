from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.kernel.exact import read_json, write_json
from engine.interchange.network.patient360.deduplicate import FACTS, in_error, key_of, when
from engine.interchange.network.patient360.standardise import standardised
from engine.interchange.rest.resource.catalogue import CHART
from tests.interchange.resources import resources
from tests.tiers import trials

LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
ICD = "http://hl7.org/fhir/sid/icd-10-cm"


def coded(system: str, code: str, *more: tuple[str, str], text: str = "") -> dict[str, Any]:
    """Return a concept of some codings."""
    codings = [{"system": one, "code": other} for one, other in ((system, code), *more)]
    return {"coding": codings, **({"text": text} if text else {})}


def result(**elements: Any) -> dict[str, Any]:
    """Return a measurement of glucose."""
    made = {
        "resourceType": "Observation",
        "status": "final",
        "code": coded(LOINC, "2345-7"),
        "effectiveDateTime": "2024-03-05T10:15:00-05:00",
        "valueQuantity": {"value": 98, "unit": "mg/dL", "system": "http://unitsofmeasure.org", "code": "mg/dL"},
    }
    return {name: value for name, value in {**made, **elements}.items() if value is not None}


def problem(**elements: Any) -> dict[str, Any]:
    """Return a problem."""
    made = {
        "resourceType": "Condition",
        "clinicalStatus": coded("http://terminology.hl7.org/CodeSystem/condition-clinical", "active"),
        "code": coded(SNOMED, "44054006"),
        "onsetDateTime": "2019-03",
    }
    return {name: value for name, value in {**made, **elements}.items() if value is not None}


def drug(**elements: Any) -> dict[str, Any]:
    """Return a prescription."""
    dose = {"doseAndRate": [{"doseQuantity": {"value": 1, "unit": "tablet"}}], "text": "One a day"}
    return {
        "resourceType": "MedicationRequest",
        "status": "active",
        "intent": "order",
        "medicationCodeableConcept": coded("http://www.nlm.nih.gov/research/umls/rxnorm", "197361"),
        "dosageInstruction": [dose],
        **elements,
    }


def visit(start: str, **elements: Any) -> dict[str, Any]:
    """Return a visit that began then."""
    made = {"resourceType": "Encounter", "status": "finished", "class": {"code": "AMB"}, "period": {"start": start}}
    return {**made, "type": [coded(SNOMED, "185349003")], **elements}


def mother(**elements: Any) -> dict[str, Any]:
    """Return what is known of a mother."""
    relationship = coded("http://terminology.hl7.org/CodeSystem/v3-RoleCode", "MTH")
    condition = [{"code": coded(SNOMED, "37796009")}]
    made = {"resourceType": "FamilyMemberHistory", "status": "completed", "relationship": relationship}
    return {**made, "condition": condition, **elements}


WARD = [{"location": {"display": "4 East"}}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            visit("2024-03-05T10:15:00Z"), visit("2024-03-05T10:15:00Z", location=WARD), id="where a visit was"
        ),
        pytest.param(mother(), mother(date="2024-03-01"), id="when a history was taken"),
        pytest.param(result(), result(effectiveDateTime="2024-03-05T15:15:30Z"), id="the minute, in another zone"),
        pytest.param(result(), result(valueQuantity={"value": 98.0, "unit": "MG/DL"}), id="number and unit"),
        pytest.param(result(), result(status="amended", note=[{"text": "seen"}]), id="status and details"),
        pytest.param(result(), result(code=coded("LN", "2345-7")), id="the system by another name"),
        pytest.param(result(), result(code=coded(LOINC, "2345-7", ("urn:local", "GLU"))), id="a local coding beside"),
        pytest.param(
            problem(code=coded(SNOMED, "44054006", (ICD, "E11.9"))),
            problem(code=coded(ICD, "e119", (SNOMED, "44054006"))),
            id="codings in another order",
        ),
        pytest.param(problem(), problem(clinicalStatus=coded("", "resolved"), abatementDateTime="2024"), id="resolved"),
        pytest.param(
            problem(code={"text": "Sprained  Ankle"}), problem(code={"text": "sprained ankle"}), id="the text alone"
        ),
        pytest.param(
            problem(onsetDateTime=None), problem(onsetDateTime=None, severity={"text": "mild"}), id="undated problems"
        ),
        pytest.param(
            drug(), drug(dosageInstruction=[{**drug()["dosageInstruction"][0], "text": "1 daily"}]), id="dose"
        ),
    ],
)
def test_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """C-356: what states the same has the same key, however it is said."""
    assert key_of(one) == key_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(visit("2024-03-05"), visit("2024-03-05", location=WARD), id="two visits of a day"),
        pytest.param(mother(), mother(condition=[{"code": coded(SNOMED, "44054006")}]), id="another history"),
        pytest.param(result(), result(valueQuantity={"value": 98, "unit": "mmol/L"}), id="another unit"),
        pytest.param(result(), result(valueQuantity={"value": 98.1, "unit": "mg/dL"}), id="another number"),
        pytest.param(
            result(), result(valueQuantity={"value": 98, "comparator": "<", "unit": "mg/dL"}), id="a comparator"
        ),
        pytest.param(result(), result(effectiveDateTime="2024-03-05T10:16:00-05:00"), id="another minute"),
        pytest.param(result(), result(effectiveDateTime="2024-03-05"), id="only the day is known"),
        pytest.param(result(), result(code=coded(LOINC, "2339-0")), id="another code"),
        pytest.param(result(), result(code=coded("urn:local", "2345-7")), id="another system"),
        pytest.param(result(), result(bodySite=coded(SNOMED, "368208006")), id="where on the body"),
        pytest.param(
            result(effectiveDateTime=None), result(effectiveDateTime=None, note=[{"text": "b"}]), id="undated events"
        ),
        pytest.param(
            result(valueQuantity=None, note=[{"text": "a"}]),
            result(valueQuantity=None, note=[{"text": "b"}]),
            id="nothing but a note",
        ),
        pytest.param(problem(), problem(onsetDateTime="2019"), id="the year alone"),
        pytest.param(problem(), problem(code=coded(ICD, "E11.9")), id="a system that the other lacks"),
        pytest.param(
            problem(),
            problem(verificationStatus=coded("http://terminology.hl7.org/CodeSystem/condition-ver-status", "refuted")),
            id="refuted",
        ),
        pytest.param(
            drug(), drug(dosageInstruction=[{"route": {"text": "oral"}, "text": "Two a day"}]), id="another dose"
        ),
        pytest.param(
            drug(dosageInstruction=[{"route": {"text": "oral"}, "text": "One a day"}]),
            drug(dosageInstruction=[{"route": {"text": "oral"}, "text": "Two a day"}]),
            id="another dose in words",
        ),
        pytest.param(
            {
                "resourceType": "Procedure",
                "code": coded(SNOMED, "1"),
                "performedDateTime": "2024",
                "status": "completed",
            },
            {
                "resourceType": "Procedure",
                "code": coded(SNOMED, "1"),
                "performedDateTime": "2024",
                "status": "not-done",
            },
            id="not done",
        ),
        pytest.param(
            {"resourceType": "Condition", "code": {}, "note": [{"text": "a"}]},
            {"resourceType": "Condition", "code": {}, "note": [{"text": "b"}]},
            id="no code",
        ),
    ],
)
def test_different(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Where it is not sure that two state the same, they have different keys."""
    assert key_of(one) != key_of(other)


def test_components_by_what_they_say() -> None:
    """A blood pressure is the same in another order and with ranges of reference, not with another number."""

    def pressure(systolic: int, *, turned: bool = False) -> dict[str, Any]:
        parts = [
            {"code": coded(LOINC, "8480-6"), "valueQuantity": {"value": systolic, "unit": "mmHg"}},
            {"code": coded(LOINC, "8462-4"), "valueQuantity": {"value": 80, "unit": "mm[Hg]"}},
        ]
        if turned:
            parts[0]["referenceRange"] = [{"text": "to 130"}]
        return result(valueQuantity=None, component=parts[:: -1 if turned else 1])

    assert key_of(pressure(120)) == key_of(pressure(120, turned=True))
    assert key_of(pressure(120)) != key_of(pressure(121))


def test_a_timing_of_nothing_but_a_code() -> None:
    """`BID` as the whole Timing is told from `TID`, and from none."""
    keys = {
        key_of(
            {
                "resourceType": "ServiceRequest",
                "status": "active",
                "intent": "order",
                "code": coded(SNOMED, "229065009"),
                "occurrenceTiming": {"code": timing},
            }
        )
        for timing in ({"text": "BID"}, {"text": "TID"}, {"id": "a"})
    }
    assert len(keys) == 3


def test_undated_statements_of_one_drug_are_one() -> None:
    """When each source wrote a statement or an allergy down is not when it was so."""
    for name, element in (("MedicationStatement", "dateAsserted"), ("AllergyIntolerance", "recordedDate")):
        concept = coded("http://www.nlm.nih.gov/research/umls/rxnorm", "197361")
        what = {"medicationCodeableConcept": concept} if name == "MedicationStatement" else {"code": concept}
        assert key_of({"resourceType": name, **what, element: "2019"}) == key_of(
            {"resourceType": name, **what, element: "2024"}
        )


def test_what_was_entered_in_error() -> None:
    """Each type says in its own element that it was entered in error."""
    assert in_error(result(status="entered-in-error"))
    assert in_error(problem(verificationStatus=coded("", "entered-in-error")))
    assert not in_error(result())
    assert not in_error(problem())


def test_times_to_the_minute() -> None:
    """A time is one minute of the world, a date what it says."""
    assert when("2024-03-05T23:59:59.9-05:00") == "2024-03-06T04:59Z"
    assert when("2024-03-05") == "2024-03-05"


def test_every_type_of_a_chart_has_its_key() -> None:
    """A type that is added to charts needs a decision when two of it are the same."""
    assert set(FACTS) == {one.name for one in CHART}


@pytest.mark.property
@settings(max_examples=trials(40))
@given(st.data(), st.sampled_from(sorted(FACTS)))
def test_a_key_survives_what_is_done_with_a_resource(data: st.DataObject, type_name: str) -> None:
    """Standardising, keeping and reading a resource, and the ids that it gets, leave its key as it is."""
    resource = data.draw(resources(type_name, FhirVersion.R4))
    made = standardised(resource)
    kept = read_json(write_json({**made, "id": "x", "meta": {"versionId": "2"}, "identifier": [{"value": "1"}]}))
    if type_name != "Coverage":  # whose number is what it is recognised by
        assert key_of(kept) == key_of(made)
    assert key_of(made) == key_of(resource)

"""The whole chart of one invented person, what it says once, and the Bundle that writes it into a service."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.synthetic.codes import (
    ACTIVITIES,
    ALLERGIES,
    CHRONIC,
    GOALS,
    LOINC,
    MEDICATIONS,
    NO_ALLERGY,
    PANELS,
    RELATIVES,
    RXNORM,
    SMOKING,
    SNOMED,
    WITHOUT_PRESCRIPTION,
)
from engine.interchange.clinical.synthetic.elements import concept, instant, loinc, quantity, snomed, term, to
from engine.interchange.clinical.synthetic.person import Draw, birth_of, make_directory, make_patient
from engine.interchange.clinical.synthetic.record import SyntheticRecord
from engine.interchange.clinical.synthetic.visit import visits


def background(record: SyntheticRecord) -> Iterator[JsonObject]:
    """Yield the facts; each refers to earlier ones only."""
    yield _coverage(record)
    yield _smoking(record)
    yield _birth_sex(record)
    yield from _allergies(record)
    yield from (_relative(record, *one) for one in record.draw.some(RELATIVES, 1 + record.draw.below(2)))
    yield from (_taken(record, drug) for drug in record.draw.some(WITHOUT_PRESCRIPTION, 1))
    yield from _plan(record)


def _coverage(record: SyntheticRecord) -> JsonObject:
    insurer = record.directory.payer
    return record.make(
        "Coverage",
        "beneficiary",
        status="active",
        type=term("v3-ActCode", "EHCPOL", "extended healthcare"),
        subscriberId=f"P{record.draw.below(10**7):07d}",
        relationship=term("subscriber-relationship", "self", "Self"),
        period={"start": f"{max(record.born, record.end - timedelta(days=1000)):%Y-%m-%d}"},
        payor=[to(insurer, insurer["name"])],
    )


def _habit(record: SyntheticRecord, code: JsonObject, value: JsonObject) -> JsonObject:
    return record.make(
        "Observation",
        status="final",
        category=[term("observation-category", "social-history", "Social History")],
        code=code,
        effectiveDateTime=instant(record.draw.moment(max(record.born, record.end - timedelta(days=300)), record.end)),
        valueCodeableConcept=value,
    )


def _smoking(record: SyntheticRecord) -> JsonObject:
    kinds = SMOKING if record.grown else SMOKING[:1]
    return _habit(record, loinc("72166-2", "Tobacco smoking status"), snomed(*record.draw.pick(kinds)))


def _birth_sex(record: SyntheticRecord) -> JsonObject:
    gender = record.patient.get("gender", "")
    sex = {"female": ("F", "Female"), "male": ("M", "Male")}.get(gender, ("UN", "Undifferentiated"))
    return _habit(record, loinc("76689-9", "Sex assigned at birth"), term("v3-AdministrativeGender", *sex))


def _allergies(record: SyntheticRecord) -> Iterator[JsonObject]:
    draw, status = record.draw, term("allergyintolerance-clinical", "active", "Active")
    known = {
        "clinicalStatus": status,
        "verificationStatus": term("allergyintolerance-verification", "confirmed", "Confirmed"),
    }
    found = draw.some(ALLERGIES, draw.pick((0, 1, 1, 2)))
    for system, code, text, category, sign, shown in found:
        onset = draw.moment(record.born, record.end)
        yield record.make(
            "AllergyIntolerance",
            "patient",
            **known,
            type="allergy",
            category=[category],
            criticality=draw.pick(("low", "high")),
            code=concept(system, code, text),
            onsetDateTime=f"{onset:%Y-%m-%d}",
            recordedDate=instant(draw.moment(onset, record.end)),
            recorder=record.doctor(),
            reaction=[{"manifestation": [snomed(sign, shown)], "severity": draw.pick(("mild", "moderate", "severe"))}],
        )
    if not found:
        yield record.make("AllergyIntolerance", "patient", **known, code=concept(*NO_ALLERGY))


def _relative(record: SyntheticRecord, code: str, text: str, sex: str) -> JsonObject:
    problem = record.draw.pick(CHRONIC)
    onset = quantity(record.draw.between(30, 70), "a")
    return record.make(
        "FamilyMemberHistory",
        "patient",
        status="completed",
        date=f"{record.end - timedelta(days=1):%Y-%m-%d}",
        relationship=term("v3-RoleCode", code, text),
        sex=concept("http://hl7.org/fhir/administrative-gender", sex, sex.capitalize()),
        condition=[{"code": snomed(problem.snomed, problem.text), "onsetAge": onset}],
    )


def _taken(record: SyntheticRecord, code: str) -> JsonObject:
    drug, start = MEDICATIONS[code], record.draw.moment(record.born, record.end)
    return record.make(
        "MedicationStatement",
        status="active",
        medicationCodeableConcept=concept(RXNORM, code, drug.text),
        effectivePeriod={"start": f"{start:%Y-%m-%d}"},
        dateAsserted=instant(record.draw.moment(start, record.end)),
        informationSource=to(record.patient),
        dosage=[{"text": "as needed, without prescription", "asNeededBoolean": True}],
    )


def _plan(record: SyntheticRecord) -> Iterator[JsonObject]:
    draw, start = record.draw, record.draw.moment(max(record.born, record.end - timedelta(days=90)), record.end)
    text, code, measure, unit, bound = draw.pick(GOALS)
    goal = record.make(
        "Goal",
        lifecycleStatus="active",
        achievementStatus=term("goal-achievement", "in-progress", "In Progress"),
        description={"text": text},
        startDate=f"{start:%Y-%m-%d}",
        target=[
            {
                "measure": loinc(code, measure),
                "detailQuantity": {**quantity(bound, unit), "comparator": "<"},
                "dueDate": f"{record.end + timedelta(days=180):%Y-%m-%d}",
            }
        ],
        expressedBy=to(record.patient),
    )
    panel = draw.pick(PANELS)
    order = record.make(
        "ServiceRequest",
        status="active",
        intent="order",
        category=[snomed("108252007", "Laboratory procedure")],
        code=concept(LOINC, panel.loinc, panel.text),
        occurrenceDateTime=f"{record.end + timedelta(days=30 + draw.below(90)):%Y-%m-%d}",
        authoredOn=instant(start),
        requester=record.doctor(),
    )
    activity, does = draw.pick(ACTIVITIES)
    plan = record.make(
        "CarePlan",
        text={"status": "generated", "div": f'<div xmlns="http://www.w3.org/1999/xhtml">{does}. Goal: {text}.</div>'},
        status="active",
        intent="plan",
        category=[
            concept("http://hl7.org/fhir/us/core/CodeSystem/careplan-category", "assess-plan", "Assess and plan")
        ],
        title="Care plan",
        period={"start": f"{start:%Y-%m-%d}"},
        goal=[to(goal)],
        activity=[{"detail": {"code": concept(SNOMED, activity, does), "status": "in-progress"}}],
    )
    yield from (goal, order, plan)


END: Final = datetime(2026, 3, 2, 6, tzinfo=UTC)
"""The latest moment in a chart, except in plans. It is fixed, so that the seed alone determines every byte."""

LONGEST: Final = timedelta(days=3650)
SHORTEST: Final = timedelta(days=30)
# Approximate number of facts of a visit.
FACTS_A_VISIT: Final = 17


def synthetic_chart(seed: str, *, facts: int = 60, patient: JsonObject | None = None) -> list[JsonObject]:
    """Return R4 resources: the patient, those who care for it, and as many facts as asked for, each valid.

    Everything that a chart may hold is there from 60 facts on. A resource refers only to ones before it, as `Type/id`;
    ids are UUIDs. `patient` takes the place of an invented one, with its id, or one it gets if it has none. The same
    arguments return the same bytes, in every version of Python. A chart spans ten years, of a younger patient its
    life; it ends with 2026-03-02, or 30 days after a birth that is later.
    """
    draw = Draw(seed)
    directory = make_directory(draw)
    invented = make_patient(draw, END.date())
    patient = invented if patient is None else {"id": invented["id"], **patient}
    born = birth_of(patient)
    end = max(END, born + SHORTEST)
    record = SyntheticRecord(draw, patient, directory, born, end)
    first = max(born, end - LONGEST)
    return [patient, *directory.resources, *islice(_facts(record, first, facts), facts)]


def transaction(chart: list[JsonObject]) -> JsonObject:
    """Return a chart as a transaction that creates all of it, by new ids: references lead to entries of the Bundle."""
    places = {f"{one['resourceType']}/{one['id']}": f"urn:uuid:{one['id']}" for one in chart}
    entries = [
        {
            "fullUrl": f"urn:uuid:{one['id']}",
            "resource": _moved({name: value for name, value in one.items() if name != "id"}, places),
            "request": {"method": "POST", "url": one["resourceType"]},
        }
        for one in chart
    ]
    return {"resourceType": "Bundle", "type": "transaction", "entry": entries}


def _facts(record: SyntheticRecord, first: datetime, facts: int) -> Iterator[JsonObject]:
    yield from background(record)
    yield from visits(record, first, max(2, facts // FACTS_A_VISIT))


def _moved(part: Json, places: dict[str, str]) -> Json:
    if isinstance(part, dict):
        return {
            name: places.get(value, value) if name == "reference" else _moved(value, places)
            for name, value in part.items()
        }
    return [_moved(item, places) for item in part] if isinstance(part, list) else part

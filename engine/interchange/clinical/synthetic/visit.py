"""A visit and what is noted at it: diagnoses, orders, results, prescriptions, procedures, vaccinations, notes."""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.synthetic.codes import (
    ACUTE,
    CHRONIC,
    CVX,
    DISCHARGE_NOTE,
    ENCOUNTERS,
    EXAMINATIONS,
    ICD_10_CM,
    ICD_10_PCS,
    MEDICATIONS,
    NOTES,
    PANELS,
    RXNORM,
    SNOMED,
    SURGERY,
    TERMINOLOGY,
    VACCINES,
    Disease,
)
from engine.interchange.clinical.synthetic.elements import coding, concept, instant, loinc, quantity, snomed, term, to
from engine.interchange.clinical.synthetic.measures import tests, vital_signs
from engine.interchange.clinical.synthetic.person import name_of
from engine.interchange.clinical.synthetic.record import SyntheticRecord

VISITS: Final = "https://visits.riverbend.example"
MOST_CHRONIC: Final = 5


@dataclass(frozen=True, slots=True)
class SyntheticVisit:
    """One visit: its Encounter, and from when to when it lasted."""

    encounter: JsonObject
    start: datetime
    end: datetime

    @property
    def stay(self) -> bool:
        """Whether the patient was admitted."""
        return bool(self.encounter["class"]["code"] == "IMP")


def visits(record: SyntheticRecord, first: datetime, number: int) -> Iterator[JsonObject]:
    """Yield the facts of `number` visits from `first` to the record's end, then endlessly at the end.

    In order of time, a whole visit first; each fact refers to earlier ones only.
    """
    step = (record.end - first) / (number + 1)
    for count in range(number):
        yield from _visit(record, first + step * count, step, whole=not count)
    while True:
        yield from _visit(record, record.end - step, step)


def _visit(
    record: SyntheticRecord, earliest: datetime, within: timedelta, *, whole: bool = False
) -> Iterator[JsonObject]:
    """Yield the facts of a visit in some time; of a whole one, at least one of every kind."""
    draw = record.draw
    code, text, type_code, type_text, hours = draw.pick(ENCOUNTERS)
    start = draw.moment(earliest, earliest + within / 2)
    end = min(start + timedelta(hours=draw.between(hours / 3, hours, 2)), earliest + within)
    chronic = len(record.problems) < MOST_CHRONIC and record.grown and draw.chance(0.4)
    problem = draw.pick([one for one in (CHRONIC if chronic else ACUTE) if one.drugs or not whole])
    of_class: JsonObject = {"class": coding(f"{TERMINOLOGY}v3-ActCode", code, text)}
    encounter = record.make(
        "Encounter",
        identifier=[{"system": VISITS, "value": f"V{draw.below(10**9):09d}"}],
        status="finished",
        **of_class,
        type=[snomed(type_code, type_text)],
        participant=[{"type": [term("v3-ParticipationType", "ATND", "attender")], "individual": record.doctor()}],
        period={"start": instant(start), "end": instant(end)},
        reasonCode=[snomed(problem.snomed, problem.text)],
        location=[{"location": to(record.directory.ward)}],
        serviceProvider=to(record.directory.hospital),
    )
    visit = SyntheticVisit(encounter, start, end)
    if visit.stay:
        encounter["hospitalization"] = {"dischargeDisposition": term("discharge-disposition", "home", "Home")}
    yield encounter
    yield from vital_signs(record, encounter, start)
    yield from _problem(record, visit, problem, chronic=chronic)
    yield from _report(record, visit)
    for kind, share in ((_procedure, 0.5), (_vaccination, 0.5), (_note, 0.8)):
        if whole or draw.chance(share):
            yield kind(record, visit)


def _problem(
    record: SyntheticRecord, visit: SyntheticVisit, problem: Disease, *, chronic: bool
) -> Iterator[JsonObject]:
    """Yield the diagnosis, unless it is known already, and what is prescribed for it."""
    draw = record.draw
    if problem.snomed not in record.problems:
        onset = max(record.born, visit.start - timedelta(days=draw.below(400 if chronic else 7)))
        condition = record.make(
            "Condition",
            clinicalStatus=term("condition-clinical", *(("active", "Active") if chronic else ("resolved", "Resolved"))),
            verificationStatus=term("condition-ver-status", "confirmed", "Confirmed"),
            category=[_category(chronic=chronic)],
            code=concept(SNOMED, problem.snomed, problem.text, coding(ICD_10_CM, problem.icd, problem.text)),
            encounter=to(visit.encounter),
            onsetDateTime=f"{onset:%Y-%m-%d}",
            recordedDate=instant(visit.start),
            recorder=record.doctor(),
        )
        if chronic:
            record.problems[problem.snomed] = condition
        else:
            condition["abatementDateTime"] = f"{min(visit.end + timedelta(days=14), record.end):%Y-%m-%d}"
        yield condition
    if problem.drugs:
        code = draw.pick(problem.drugs)
        yield _prescription(record, visit, code, chronic=chronic)


def _category(*, chronic: bool) -> JsonObject:
    kind = ("problem-list-item", "Problem List Item") if chronic else ("encounter-diagnosis", "Encounter Diagnosis")
    return term("condition-category", *kind)


def _prescription(record: SyntheticRecord, visit: SyntheticVisit, code: str, *, chronic: bool) -> JsonObject:
    drug, days = MEDICATIONS[code], 90 if chronic else 7
    unit = drug.unit.strip("{}")
    route = ("447694001", "Respiratory tract route") if drug.inhaled else ("26643006", "Oral route")
    dosage = {
        "text": f"{drug.dose} {unit} {drug.a_day} times a day",
        "timing": {"repeat": {"frequency": drug.a_day, "period": 1, "periodUnit": "d"}},
        "route": snomed(*route),
        "doseAndRate": [{"doseQuantity": quantity(drug.dose, drug.unit)}],
    }
    supply = {
        "numberOfRepeatsAllowed": 3 if chronic else 0,
        "quantity": quantity(drug.dose * drug.a_day * days, drug.unit),
        "expectedSupplyDuration": quantity(days, "d"),
    }
    return record.make(
        "MedicationRequest",
        status="active" if chronic else "completed",
        intent="order",
        medicationCodeableConcept=concept(RXNORM, code, drug.text),
        encounter=to(visit.encounter),
        authoredOn=instant(visit.start),
        requester=record.doctor(),
        dosageInstruction=[dosage],
        dispenseRequest=supply,
    )


def _report(record: SyntheticRecord, visit: SyntheticVisit) -> Iterator[JsonObject]:
    """Yield an order of the laboratory, its results, and the report of them."""
    panel = record.draw.pick(PANELS)
    order = record.make(
        "ServiceRequest",
        status="completed",
        intent="order",
        category=[snomed("108252007", "Laboratory procedure")],
        code=loinc(panel.loinc, panel.text),
        encounter=to(visit.encounter),
        authoredOn=instant(visit.start),
        requester=record.doctor(),
    )
    yield order
    results = tests(record, panel, order, visit.encounter, visit.start)
    yield from results
    yield record.make(
        "DiagnosticReport",
        basedOn=[to(order)],
        status="final",
        category=[term("v2-0074", "LAB", "Laboratory")],
        code=loinc(panel.loinc, panel.text),
        encounter=to(visit.encounter),
        effectiveDateTime=instant(visit.start),
        issued=instant(visit.end),
        performer=[to(record.directory.hospital, record.directory.hospital["name"])],
        result=[to(result, result["code"]["text"]) for result in results],
    )


def _procedure(record: SyntheticRecord, visit: SyntheticVisit) -> JsonObject:
    left = [one for one in SURGERY if one not in record.operated]
    operated = bool(left) and visit.stay and record.draw.chance(0.5)
    code, icd, text = done = record.draw.pick(left if operated else EXAMINATIONS)
    record.operated |= {done} & {*left}
    more = (coding(ICD_10_PCS, icd, text),) if icd else ()
    return record.make(
        "Procedure",
        status="completed",
        code=concept(SNOMED, code, text, *more),
        encounter=to(visit.encounter),
        performedPeriod={"start": instant(visit.start), "end": instant(visit.end)},
        performer=[{"actor": record.doctor()}],
    )


def _vaccination(record: SyntheticRecord, visit: SyntheticVisit) -> JsonObject:
    draw, age = record.draw, record.years(visit.start)
    code, text, *_ = draw.pick([one for one in VACCINES if one[2] <= age < one[3]])
    given = not draw.chance(0.05)
    elements = {
        "lotNumber": f"LOT{draw.below(10**5):05d}",
        "site": term("v3-ActSite", "LA", "left arm"),
        "route": term("v3-RouteOfAdministration", "IM", "Injection, intramuscular"),
        "doseQuantity": quantity(0.5, "mL"),
        "performer": [{"actor": record.doctor()}],
    }
    refused = {"statusReason": term("v3-ActReason", "PATOBJ", "patient objection")}
    return record.make(
        "Immunization",
        "patient",
        status="completed" if given else "not-done",
        vaccineCode=concept(CVX, code, text),
        encounter=to(visit.encounter),
        occurrenceDateTime=instant(visit.start),
        primarySource=True,
        **(elements if given else refused),
    )


def _note(record: SyntheticRecord, visit: SyntheticVisit) -> JsonObject:
    code, title = DISCHARGE_NOTE if visit.stay else record.draw.pick(NOTES)
    reason = visit.encounter["reasonCode"][0]["text"]
    text = f"{title}\n\n{name_of(record.patient)} was seen for: {reason}.\nVitals were taken. Follow-up as planned.\n"
    data = text.encode()
    attachment = {
        "contentType": "text/plain; charset=utf-8",
        "data": base64.b64encode(data).decode(),
        "size": len(data),
        "hash": base64.b64encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode(),
        "title": title,
        "creation": instant(visit.end),
    }
    category = concept(
        "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category", "clinical-note", "Clinical Note"
    )
    return record.make(
        "DocumentReference",
        masterIdentifier={"system": "urn:ietf:rfc:3986", "value": f"urn:uuid:{record.draw.id()}"},
        status="current",
        docStatus="final",
        type=loinc(code, title),
        category=[category],
        date=instant(visit.end),
        author=[record.doctor()],
        custodian=to(record.directory.hospital),
        content=[{"attachment": attachment}],
        context={"encounter": [to(visit.encounter)], "period": visit.encounter["period"]},
    )

"""Clinical records of a patient: problems, allergies, medications, immunizations, visits."""

from typing import Final

from engine.fhir.json import Json
from engine.interchange.clinical.medication import medication_of
from engine.interchange.web.chart.chart_reader import ChartReader
from engine.interchange.web.chart.coded import (
    CONCEPT,
    PROVIDER,
    called,
    coding_of,
    display_of,
    noted,
    provider,
    provider_at,
    status,
    value_of,
)
from engine.interchange.web.chart.field import (
    TEXT,
    YES_NO,
    ChartField,
    ObjectShape,
    Resource,
    element,
    listed,
    many,
    moment,
    one,
    several,
    text,
    when,
)


def _code(name: str) -> ChartField:
    """Return a field of a concept's code, without its system, which FHIR fixes."""
    return ChartField(
        name, TEXT, lambda resource, _: coding_of(resource.get(name)).get("code") or display_of(resource.get(name))
    )


def _ended(name: str, stem: str) -> ChartField:
    return ChartField(name, TEXT, lambda resource, _: when(resource, stem, "end"))


PROBLEM: Final = ObjectShape(
    "Problem",
    (
        one("problem", CONCEPT, "code"),
        several("categories", CONCEPT, "category"),
        _code("clinicalStatus"),
        _code("verificationStatus"),
        one("severity", CONCEPT, "severity"),
        moment("onset", "onset"),
        moment("abatement", "abatement"),
        moment("recorded", "recordedDate"),
        provider_at("recorder", "recorder", "asserter"),
        noted(),
    ),
)

REACTION: Final = ObjectShape(
    "Reaction",
    (
        several("manifestations", CONCEPT, "manifestation"),
        one("substance", CONCEPT, "substance"),
        text("severity"),
        text("description"),
    ),
)
ALLERGY: Final = ObjectShape(
    "Allergy",
    (
        one("allergy", CONCEPT, "code"),
        text("type"),
        ChartField("categories", many(TEXT), element("category")),
        text("criticality"),
        _code("clinicalStatus"),
        _code("verificationStatus"),
        several("reactions", REACTION, "reaction"),
        moment("onset", "onset"),
        moment("recorded", "recordedDate"),
        provider_at("recorder", "recorder", "asserter"),
        noted(),
    ),
)


def _medication(resource: Resource, reader: ChartReader) -> Json:
    """Return the concept of a medication, also of one that is contained."""
    return CONCEPT.of(medication_of(resource, reader.find), reader)


def _dosages(resource: Resource, _reader: ChartReader) -> Json:
    dosages = listed(resource.get("dosageInstruction")) or listed(resource.get("dosage"))
    return [one["text"] for one in dosages if one.get("text")]


MEDICATION: Final = ObjectShape(
    "Medication",
    (
        ChartField(
            "kind",
            {"type": "string", "enum": ["ordered", "stated"]},
            lambda resource, _: "ordered" if resource["resourceType"] == "MedicationRequest" else "stated",
            always=True,
        ),
        ChartField("medication", CONCEPT.link, _medication),
        status(),
        text("intent"),
        moment("date", "authoredOn", "effective", "dateAsserted"),
        ChartField("dosages", many(TEXT), _dosages),
        several("reasons", CONCEPT, "reasonCode"),
        provider_at("prescriber", "requester"),
        noted(),
    ),
)


def _dose(resource: Resource, _reader: ChartReader) -> Json:
    return (
        " ".join(value_of({"doseQuantity": resource["doseQuantity"]}, "dose")).strip()
        if "doseQuantity" in resource
        else ""
    )


def _given_by(resource: Resource, reader: ChartReader) -> Json:
    actors = [one.get("actor") for one in listed(resource.get("performer"))]
    return next(filter(None, (provider(one, reader, resource) for one in actors)), None)


IMMUNIZATION: Final = ObjectShape(
    "Immunization",
    (
        one("vaccine", CONCEPT, "vaccineCode"),
        status(),
        one("statusReason", CONCEPT, "statusReason"),
        moment("occurrence", "occurrence"),
        ChartField("primarySource", YES_NO, element("primarySource")),
        text("lotNumber"),
        ChartField(
            "manufacturer", TEXT, lambda resource, reader: called(resource.get("manufacturer"), reader, resource)
        ),
        ChartField("dose", TEXT, _dose),
        one("site", CONCEPT, "site"),
        one("route", CONCEPT, "route"),
        ChartField("performer", PROVIDER.link, _given_by),
        noted(),
    ),
)


def _takes_part(participant: Resource, reader: ChartReader) -> Json:
    return provider(participant.get("individual"), reader, participant)


def _places(resource: Resource, reader: ChartReader) -> Json:
    return [name for one in listed(resource.get("location")) if (name := called(one.get("location"), reader, resource))]


def _disposition(resource: Resource, reader: ChartReader) -> Json:
    concept = resource.get("hospitalization", {}).get("dischargeDisposition")
    return CONCEPT.of(concept, reader) if concept else None


PARTICIPANT: Final = ObjectShape(
    "Participant", (ChartField("provider", PROVIDER.link, _takes_part), several("roles", CONCEPT, "type"))
)
ENCOUNTER: Final = ObjectShape(
    "Encounter",
    (
        status(),
        one("class", CONCEPT, "class"),
        several("types", CONCEPT, "type"),
        moment("start", "period"),
        _ended("end", "period"),
        several("reasons", CONCEPT, "reasonCode"),
        several("participants", PARTICIPANT, "participant"),
        ChartField("locations", many(TEXT), _places),
        ChartField(
            "organization", TEXT, lambda resource, reader: called(resource.get("serviceProvider"), reader, resource)
        ),
        ChartField("dischargeDisposition", CONCEPT.link, _disposition),
    ),
)
SHAPES: Final = (REACTION, PARTICIPANT)

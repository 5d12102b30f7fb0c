"""Clinical records of a patient (problems, allergies, medications, immunizations, visits); documents, care team.

The service does not store CareTeam.
"""

from hashlib import sha256
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.medication import medication_of
from engine.interchange.store.references import local_target
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
    ChartReader,
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
from engine.interchange.web.chart.items import CHANNEL, Items, RowRange, all_keys
from engine.interchange.web.chart.origin import RecordOrigin, channel_of, joined

BINARY: Final = "Binary/"
SIZE: Final = {"type": "integer"}


def _address(attachment: Resource, reader: ChartReader) -> Json:
    """Return the address of the content, on this service or elsewhere; '' for inline content."""
    url = attachment.get("url", "")
    return f"{reader.base_url}/fhir/R4/{url}" if url.startswith(BINARY) else url


ATTACHMENT: Final = ObjectShape(
    "Attachment",
    (
        text("contentType"),
        text("title"),
        ChartField("size", SIZE, lambda attachment, _: attachment.get("size")),
        moment("created", "creation"),
        ChartField("url", TEXT, _address),
    ),
)


def _title(document: Resource, _reader: ChartReader) -> Json:
    titles = (part["attachment"].get("title") for part in listed(document.get("content")))
    return document.get("description") or next(filter(None, titles), None)


def _authors(document: Resource, reader: ChartReader) -> Json:
    return [name for part in listed(document.get("author")) if (name := called(part, reader, document))]


def _attachments(document: Resource, reader: ChartReader) -> Json:
    return [ATTACHMENT.of(part["attachment"], reader) for part in listed(document.get("content"))]


DOCUMENT: Final = ObjectShape(
    "Document",
    (
        ChartField("title", TEXT, _title),
        one("type", CONCEPT, "type"),
        several("categories", CONCEPT, "category"),
        status(),
        moment("date", "date"),
        ChartField("authors", many(TEXT), _authors),
        ChartField("custodian", TEXT, lambda document, reader: called(document.get("custodian"), reader, document)),
        ChartField("attachments", many(ATTACHMENT.link), _attachments),
    ),
)


GENERAL: Final = {"text": "General practitioner"}
# One participation; `seen` is the start of the visit.
MEMBER: Final = ObjectShape(
    "CareTeamMember",
    (
        text("name"),
        text("npi"),
        ChartField("roles", many(CONCEPT.link), lambda member, _: member.get("roles")),
        moment("lastSeen", "seen"),
    ),
)


def members(reader: ChartReader, part: RowRange) -> Items:
    """Return one range of the members, each once with all roles, and their number."""
    members_by_key: dict[str, JsonObject] = {}
    channels: dict[str, list[RecordOrigin]] = {}

    def add(reference: JsonObject, within: Resource, roles: list[JsonObject], seen: str, channel: RecordOrigin) -> None:
        who = provider(reference, reader, within)
        if not who.get("name"):
            return
        key = _key(reference, who["name"])
        member = members_by_key.setdefault(key, {**who, "roles": [], "seen": seen})
        member["roles"] += [role for role in roles if role and role not in member["roles"]]
        member["seen"] = member["seen"] or seen
        channels.setdefault(key, []).append(channel)

    transaction = reader.transaction
    patient = transaction.get("Patient", reader.patient)
    if patient is not None and not patient.deleted:
        own = patient.resource()
        for reference in listed(own.get("generalPractitioner")):
            add(reference, own, [CONCEPT.of(GENERAL, reader)], "", channel_of(reader, patient, own))
    for key in all_keys(transaction, reader.patient, ("Encounter",)):
        stored = transaction.by_key(key)
        visit = stored.resource()
        taking_part = [one for one in listed(visit.get("participant")) if "individual" in one]
        channel = channel_of(reader, stored, visit) if taking_part else RecordOrigin.INTERNAL
        for member in taking_part:
            roles = [CONCEPT.of(role, reader) for role in listed(member.get("type"))]
            add(member["individual"], visit, roles, visit.get("period", {}).get("start", ""), channel)
    shown = list(members_by_key.items())[part.offset : part.offset + part.limit]
    return len(members_by_key), [
        {"id": key, **MEMBER.of(one, reader), CHANNEL: joined(channels[key])} for key, one in shown
    ]


def _key(reference: JsonObject, name: str) -> str:
    """Return the id of a member: that of the referenced resource, else one derived from the name."""
    target = local_target(reference.get("reference", ""))
    return target.partition("/")[2] or sha256(name.encode()).hexdigest()[:24]


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
    return [dosage["text"] for dosage in dosages if dosage.get("text")]


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
    return next(filter(None, (provider(actor, reader, resource) for actor in actors)), None)


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
SHAPES: Final = (REACTION, PARTICIPANT, ATTACHMENT)

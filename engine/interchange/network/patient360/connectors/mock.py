"""The mock of a sandbox: three organizations that know the patient, with overlapping records.

The documents are generated from the patient's id, with the patient's name, birth date and sex; nothing is sent.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final
from uuid import NAMESPACE_URL, uuid5
from zoneinfo import ZoneInfo

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.interchange.clinical.ccda.document import DocumentChart, write_ccd
from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.clinical.synthetic.chart import END, synthetic_chart
from engine.interchange.kernel.exact import write_json
from engine.interchange.network.patient360.connectors.connector import CCDA, FHIR, RequestedPatient, RetrievedDocument

FACTS: Final = 60
# Each organization has some tenths of the facts; the parts overlap.
PARTS: Final = (
    ("Pine Ridge Hospital", CCDA, FhirVersion.R4, range(5)),
    ("Lakeshore Clinic", FHIR, FhirVersion.STU3, range(3, 8)),
    ("Northgate Laboratory", FHIR, FhirVersion.R4, range(6, 10)),
)
# The elements that identify a person.
OWN: Final = ("name", "gender", "birthDate", "address", "telecom")
SUPPORT: Final = frozenset({"Patient", "Practitioner", "PractitionerRole", "Organization", "Location"})


class Mock:
    """The connector of a sandbox."""

    name = "mock"
    organizations = len(PARTS)

    async def retrieve(self, subject: RequestedPatient) -> AsyncIterator[RetrievedDocument]:
        """Yield the document of each organization, and the first one again."""
        documents = await asyncio.to_thread(_documents, subject)
        for document in documents:
            yield document


def _documents(subject: RequestedPatient) -> list[RetrievedDocument]:
    person: JsonObject = {name: subject.patient[name] for name in OWN if name in subject.patient}
    patient: JsonObject = {"resourceType": "Patient", "id": _uuid(f"{subject.id}/patient"), **person}
    chart = synthetic_chart(subject.id, facts=FACTS, patient=patient)
    documents = [_document(subject, chart, *part) for part in PARTS]
    return [*documents, documents[0]]


def _document(
    subject: RequestedPatient, chart: list[JsonObject], organization: str, kind: str, version: FhirVersion, part: range
) -> RetrievedDocument:
    known = {f"{one['resourceType']}/{one['id']}": one for one in chart}
    facts = [one for one in chart if one["resourceType"] not in SUPPORT]
    chosen = [one for number, one in enumerate(facts) if number % 10 in part]
    taken = {f"Patient/{chart[0]['id']}": chart[0]}
    for one in chosen:
        _take(one, known, taken)
    number = _uuid(f"{subject.id}/{organization}")
    body = _ccd(taken, number, organization) if kind == CCDA else _bundle(taken, number, version)
    return RetrievedDocument(organization, f"urn:uuid:{number}", END.isoformat(), kind, body, version)


def _ccd(taken: dict[str, JsonObject], number: str, organization: str) -> bytes:
    patient, *facts = taken.values()
    custodian = Custodian(organization, f"https://{organization.lower().replace(' ', '-')}.example")
    return write_ccd(
        DocumentChart(patient, facts), document_id=number, at=END, zone=ZoneInfo("UTC"), custodian=custodian
    )


def _bundle(taken: dict[str, JsonObject], number: str, version: FhirVersion) -> bytes:
    places = {name: f"urn:uuid:{one['id']}" for name, one in taken.items()}
    entries = [{"fullUrl": places[name], "resource": _shown(one, places, version)} for name, one in taken.items()]
    bundle: JsonObject = {"resourceType": "Bundle", "id": number, "type": "collection", "entry": entries}
    return write_json({**bundle, "meta": {"lastUpdated": END.isoformat()}})


def _take(one: JsonObject, known: dict[str, JsonObject], taken: dict[str, JsonObject]) -> None:
    """Add a resource to `taken`, after all that it refers to."""
    name = f"{one['resourceType']}/{one['id']}"
    if name in taken:
        return
    for target in _references(one):
        if target in known and target != name:
            _take(known[target], known, taken)
    taken[name] = one


def _references(part: Json) -> list[str]:
    if isinstance(part, dict):
        own = [part["reference"]] if isinstance(part.get("reference"), str) else []
        return own + [target for value in part.values() for target in _references(value)]
    return [target for value in part for target in _references(value)] if isinstance(part, list) else []


def _shown(one: JsonObject, places: dict[str, str], version: FhirVersion) -> JsonObject:
    moved = _moved(one, places)
    shown: JsonObject = convert(moved, Direction.TO_STU3) if version is FhirVersion.STU3 else moved
    return shown


def _moved(part: JsonObject, places: dict[str, str]) -> JsonObject:
    if isinstance(part, dict):
        return {
            name: places.get(value, value) if name == "reference" else _moved(value, places)
            for name, value in part.items()
        }
    return [_moved(one, places) for one in part] if isinstance(part, list) else part


def _uuid(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"urn:adt-engine:mock:{name}"))

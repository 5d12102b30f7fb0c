"""The interface of connectors: the patient they are asked about, and the documents they return."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from engine.errors import place_of
from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.telemetry import logger

FHIR: Final = "application/fhir+json"
CCDA: Final = "text/xml"


@dataclass(frozen=True, slots=True)
class RequestedPatient:
    """The patient whom a source is asked about; `identifiers` are pairs of system and value.

    `patient` is the stored resource (R4), for a source that matches patients itself.
    """

    id: str
    tenant: str
    given: tuple[str, ...]
    family: str
    birth_date: str
    gender: str
    identifiers: tuple[tuple[str, str], ...]
    patient: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class RetrievedDocument:
    """One document of an organization: a C-CDA (`text/xml`), or a FHIR Bundle (`application/fhir+json`) of a version.

    `id` is the same each time for the same document; `at` is its instant, '' if the source gives none.
    """

    organization: str
    id: str
    at: str
    media_type: str
    body: bytes = field(repr=False)
    version: FhirVersion = FhirVersion.R4


class SourceError(Exception):
    """A source failed; the text names the source and the next step, without patient data."""


class DocumentSource(Protocol):
    """One source of documents."""

    @property
    def name(self) -> str:
        """The name for errors and counters."""

    @property
    def organizations(self) -> int:
        """The number of organizations that it asks."""

    def retrieve(self, subject: RequestedPatient) -> AsyncIterator[RetrievedDocument]:
        """Yield the documents of a patient, none for an unknown one; SourceError if the source fails."""


def subject_of(tenant: str, patient: JsonObject) -> RequestedPatient:
    """Return the request for a stored Patient; it has the first of the patient's names."""
    name: JsonObject = next(iter(patient.get("name", ())), {})
    numbers = ((one.get("system", ""), one.get("value", "")) for one in patient.get("identifier", ()))
    return RequestedPatient(
        id=patient["id"],
        tenant=tenant,
        given=tuple(name.get("given", ())),
        family=name.get("family", ""),
        birth_date=patient.get("birthDate", ""),
        gender=patient.get("gender", ""),
        identifiers=tuple((system, value) for system, value in numbers if value),
        patient=patient,
    )


def reason_of(source: DocumentSource, error: Exception) -> str:
    """Return why a source failed and what to do, without patient data; an unexpected error is logged."""
    if isinstance(error, SourceError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"{source.name} did not answer in time; ask again later."
    logger().error("source failed", code=source.name, error=type(error).__name__, file=place_of(error))
    return f"{source.name} failed within the service; its log says where."

"""Documents of invented sources for the tests, read by a reader of three lines, and a service without its doors."""

from collections.abc import AsyncIterator, Iterable
from copy import copy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import orjson

from engine.fhir.schema import FhirVersion
from engine.interchange.app.application import ServiceApp, create_app
from engine.interchange.clinical.facts import DocumentFacts, DocumentIdentity, DocumentSection
from engine.interchange.kernel.exact import read_json, write_json
from engine.interchange.network.patient360.connectors.connector import RequestedPatient, RetrievedDocument
from engine.interchange.network.patient360.deduplicate import FACTS, Key, in_error, key_of
from engine.interchange.network.patient360.importing import Importer, ImportOutcome
from engine.interchange.network.patient360.record import Words
from engine.interchange.network.patient360.retrieve import KIND
from engine.interchange.store.job import AsyncJob
from tests.interchange.kit import SYSTEM, configuration, patient, secret_file

Json = Any
PAPER = "application/x-paper"
MARISOL = DocumentIdentity(("Marisol", "Ines"), "Quintero", "1984-02-29", "female")
ADDRESS = [{"city": "Riverbend", "state": "OR", "postalCode": "97001"}]


def uuid(name: str) -> str:
    """Return the UUID of a name."""
    return str(uuid5(NAMESPACE_OID, name))


def paper(
    organization: str,
    *resources: Json,
    at: str = "2024-03-05T10:00:00Z",
    name: str = "1",
    identity: DocumentIdentity = MARISOL,
) -> RetrievedDocument:
    """Return a document of an organization; its resources get UUIDs by their place, where they have no id."""
    numbered = [{"id": uuid(f"{organization} {name} {place}"), **one} for place, one in enumerate(resources)]
    body = {
        "identity": asdict(identity),
        "document_id": f"urn:uuid:{uuid(f'{organization} {name}')}",
        "at": at,
        "author": organization,
        "resources": numbered,
    }
    return RetrievedDocument(organization, name, at, PAPER, write_json(body))


def read_paper(document: RetrievedDocument) -> DocumentFacts:
    """Return what a document says."""
    said = read_json(document.body)
    who = said["identity"]
    identity = DocumentIdentity(
        tuple(who["given"]),
        who["family"],
        who["birth_date"],
        who["gender"],
        tuple((one, two) for one, two in who["identifiers"]),
    )
    narrative = (DocumentSection("48765-2", "Allergies", "None known"),)
    return DocumentFacts(
        identity,
        said["document_id"],
        "Summary",
        {},
        said["at"],
        said["author"],
        tuple(said["resources"]),
        narrative,
    )


@dataclass
class Shelf:
    """A source that has some documents, or fails with an error after them."""

    name: str
    documents: list[RetrievedDocument] = field(default_factory=list)
    error: Exception | None = None
    organizations: int = 1
    asked: list[RequestedPatient] = field(default_factory=list)

    async def retrieve(self, subject: RequestedPatient) -> AsyncIterator[RetrievedDocument]:
        """Yield the documents."""
        self.asked.append(subject)
        for document in self.documents:
            yield document
        if self.error is not None:
            raise self.error


class Chart:
    """A service without its doors, with one patient: what is imported there, and what stands there then."""

    def __init__(self, folder: Path, **elements: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.app: ServiceApp = create_app(configuration(secret_file(folder)), folder / "chart.db")
        self.service = self.app.service
        self.id = self.service.new_id()
        self.patient = patient(address=ADDRESS, **elements)
        self.made = False

    async def job(self) -> AsyncJob:
        """Return a job for the patient, who is there then."""
        if not self.made:
            self.made = True
            await self.service.store.write("riverbend", lambda one: one.create("Patient", self.id, self.patient))
        return AsyncJob("job", "riverbend", KIND, self.id, FhirVersion.STU3, {}, "physician", "", self.service.clock())

    async def take(self, *documents: RetrievedDocument) -> list[ImportOutcome]:
        """Import some documents as one retrieval does."""
        importer = Importer(self.service, await self.job(), read_paper, Words(SYSTEM))
        return [await importer.take(document) for document in documents]

    def resources(self, type_name: str = "") -> list[Json]:
        """Return what the chart holds, of a type or all."""
        rows = self.service.store.reader().execute(
            "SELECT body FROM resource WHERE survivor IS NULL AND (type = ? OR ? = '') ORDER BY key",
            (type_name, type_name),
        )
        return [orjson.loads(body) for (body,) in rows]

    def facts(self) -> list[Json]:
        """Return what states facts: not the documents, and nothing that was entered in error."""
        types = FACTS.keys() - {"DocumentReference"}
        own = {"reference": f"Patient/{self.id}"}
        found = [one for one in self.resources() if one["resourceType"] in types and not in_error(one)]
        return [one for one in found if own in (one.get("subject"), one.get("patient"))]

    def another(self) -> "Chart":
        """Return another patient's empty chart in the same service."""
        made = copy(self)
        made.id, made.made = self.service.new_id(), False
        return made

    def keys(self) -> list[Key]:
        """Return the keys of the facts, in order."""
        return sorted(key_of(fact) for fact in self.facts())

    def standing_behind(self, reference: str) -> set[str]:
        """Return the organizations that stand behind a resource."""
        return {
            resource["agent"][0]["who"]["display"]
            for resource in self.resources("Provenance")
            if any(target["reference"].partition("/_history/")[0] == reference for target in resource["target"])
        }

    def close(self) -> None:
        """Close the service."""
        self.app.close()


def reference(resource: Json) -> str:
    """Return a resource as `Type/id`."""
    return f"{resource['resourceType']}/{resource['id']}"


def urn(document: RetrievedDocument, place: int) -> str:
    """Return how a document's facts name the one at a place."""
    return f"urn:uuid:{read_json(document.body)['resources'][place]['id']}"


def numbered(resources: Iterable[Json], system: str) -> list[Json]:
    """Return resources with a number of a source each, by their place."""
    return [{**one, "identifier": [{"system": system, "value": str(place)}]} for place, one in enumerate(resources)]

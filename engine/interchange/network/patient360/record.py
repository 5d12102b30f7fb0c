"""The record of an imported document: DocumentReference, Binary, and the Provenance of its facts.

A Provenance is about one document, or 50 facts of a large one: its entity is the DocumentReference, its agent the
document's organization, its targets are the resources that the document supports. A target with a version was written
as that version; one without was known already. Until the last batch is written, the last Provenance of the document
has the tag `importing`.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha1, sha256
from typing import Final, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import escape

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.facts import DocumentFacts, DocumentSection
from engine.interchange.network.patient360.connectors.connector import RetrievedDocument
from engine.interchange.store.references import local_target
from engine.interchange.store.search.date import NEVER, span

# Targets of one Provenance: a search for one of them may include it, and each batch writes it again.
MOST_TARGETS: Final = 50
URN: Final = re.compile(r"urn:(?:uuid|oid):\S+")
# The precision of `DocumentReference.date`.
INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
HISTORY: Final = "/_history/"
RECEIVE: Final = {
    "system": "http://terminology.hl7.org/CodeSystem/iso-21089-lifecycle",
    "code": "receive",
    "display": "Receive/Retain Record Lifecycle Event",
}
AUTHOR: Final = {
    "system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
    "code": "author",
    "display": "Author",
}
# The type of a document without one: STU3 requires a type.
RECORDS: Final = {"coding": [{"system": "http://loinc.org", "code": "11503-0", "display": "Medical records"}]}
# The most characters of narrative of one document, and the characters that XHTML cannot have.
MOST_NARRATIVE: Final = 1_000_000
NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Words(NamedTuple):
    """The service's own codes and extensions, below its identifier system."""

    system: str

    @property
    def external(self) -> JsonObject:
        """The tag of imported resources."""
        return {"system": f"{self.system}/fhir/CodeSystem/record-source", "code": "external"}

    @property
    def importing(self) -> JsonObject:
        """The tag of a Provenance whose document is not imported completely."""
        return {"system": f"{self.system}/fhir/CodeSystem/patient360", "code": "importing"}

    def extension(self, name: str) -> str:
        """Return the address of an extension."""
        return f"{self.system}/fhir/StructureDefinition/patient360-{name}"

    def source(self, organization: str) -> str:
        """Return the URI of an organization, for `meta.source`."""
        return f"{self.system}/source/{quote(organization, safe='')}"

    def number(self, document: RetrievedDocument, facts: DocumentFacts) -> dict[str, str]:
        """Return the identifier of a document: its own id if that is a URN, else one below the URI of its source."""
        if URN.fullmatch(facts.document_id):
            return {"system": "urn:ietf:rfc:3986", "value": facts.document_id}
        own = facts.document_id or document.id
        return {"system": f"{self.source(document.organization)}/document", "value": own}


@dataclass(frozen=True, slots=True)
class ProvenanceTarget:
    """A resource that a document supports: `Type/id`, the version that it wrote (0: none), and the statement's time.

    `stated_ms`: milliseconds, NEVER if unknown. `kept`: the resource was changed here, and was not overwritten.
    """

    reference: str
    version: int
    stated_ms: int
    stated_at: str = ""
    kept: bool = False


def stated(text: str) -> int:
    """Return the first millisecond of a moment, NEVER for ''."""
    covered = span(text)
    return covered[0] if covered else NEVER


def digest(body: bytes) -> str:
    """Return the SHA-256 of a document in hexadecimal digits."""
    return sha256(body).hexdigest()


def document_reference(
    words: Words, document: RetrievedDocument, facts: DocumentFacts, patient_id: str, binary_id: str, now: str
) -> JsonObject:
    """Return the DocumentReference of a document whose bytes are a Binary; `now` is its date if it has no instant."""
    own = document.organization
    reference: JsonObject = {
        "resourceType": "DocumentReference",
        "meta": {"source": words.source(own), "tag": [words.external]},
        "masterIdentifier": words.number(document, facts),
        "status": "current",
        "subject": {"reference": f"Patient/{patient_id}"},
        "author": [{"type": "Organization", "display": facts.author or own}],
        "custodian": {"type": "Organization", "display": own},
        "content": [{"attachment": _attachment(words, document, facts, binary_id)}],
    }
    at = facts.at or document.at
    reference |= {"type": facts.type or RECORDS, "date": at if INSTANT.fullmatch(at) else now}
    reference |= {"description": facts.title} if facts.title else {}
    return reference | ({"text": narrative(facts.narrative)} if facts.narrative else {})


def _attachment(words: Words, document: RetrievedDocument, facts: DocumentFacts, binary_id: str) -> JsonObject:
    # FHIR's own hash is SHA-1; the reliable one is in an extension.
    sha_1 = b64encode(sha1(document.body, usedforsecurity=False).digest()).decode()
    return {
        "extension": [{"url": words.extension("sha-256"), "valueString": digest(document.body)}],
        "contentType": document.media_type,
        "url": f"Binary/{binary_id}",
        "size": len(document.body),
        "hash": sha_1,
        **({"title": facts.title} if facts.title else {}),
        **({"creation": facts.at or document.at} if facts.at or document.at else {}),
    }


def hashes(resource: JsonObject, words: Words) -> set[str]:
    """Return the SHA-256 of the attachments of a DocumentReference, from their extensions."""
    attached = (content.get("attachment", {}) for content in resource.get("content", ()))
    extensions = (extension for one in attached for extension in one.get("extension", ()))
    return {one["valueString"] for one in extensions if one.get("url") == words.extension("sha-256")}


def narrative(sections: tuple[DocumentSection, ...]) -> JsonObject:
    """Return the texts of a document's sections as the narrative of its DocumentReference."""
    room = MOST_NARRATIVE
    parts: list[str] = []
    for section in sections:
        text = NO_XML.sub("", section.text)[:room]
        room -= len(text)
        parts.append(f"<h2>{escape(NO_XML.sub('', section.title))}</h2><p>{escape(text)}</p>")
        if room <= 0:
            break
    return {"status": "additional", "div": f'<div xmlns="http://www.w3.org/1999/xhtml">{"".join(parts)}</div>'}


def binary(document: RetrievedDocument, patient_id: str) -> JsonObject:
    """Return the Binary of a document's original bytes."""
    return {
        "resourceType": "Binary",
        "contentType": document.media_type,
        "securityContext": {"reference": f"Patient/{patient_id}"},
        "data": b64encode(document.body).decode(),
    }


@dataclass(frozen=True, slots=True)
class ProvenanceRecord:
    """The content of a Provenance of a document; `occurred` is the time of the statements, '' for unknown.

    `done`: it has no tag `importing`. `version` 0: it is not stored yet.
    """

    id: str
    version: int
    updated_ms: int
    organization: str
    document_id: str
    occurred: str
    targets: tuple[ProvenanceTarget, ...]
    done: bool

    def provenance(self, words: Words, recorded: str) -> JsonObject:
        """Return the Provenance resource."""
        return {
            "resourceType": "Provenance",
            "meta": {"source": words.source(self.organization), "tag": [words.external, *self._tags(words)]},
            "target": [_reference(words, target, self.occurred) for target in self.targets],
            **({"occurredDateTime": self.occurred} if self.occurred else {}),
            "recorded": recorded,
            "activity": {"coding": [RECEIVE]},
            "agent": [
                {
                    "type": {"coding": [AUTHOR]},
                    "who": {"type": "Organization", "display": self.organization},
                }
            ],
            "entity": [{"role": "source", "what": {"reference": f"DocumentReference/{self.document_id}"}}],
        }

    def _tags(self, words: Words) -> tuple[Json, ...]:
        return () if self.done else (words.importing,)


def _reference(words: Words, target: ProvenanceTarget, occurred: str) -> JsonObject:
    extensions = []
    if target.stated_at and stated(target.stated_at) != stated(occurred):
        extensions.append({"url": words.extension("stated-at"), "valueDateTime": target.stated_at})
    if target.kept:
        extensions.append({"url": words.extension("kept"), "valueCode": "changed-here"})
    version = f"{HISTORY}{target.version}" if target.version else ""
    return {**({"extension": extensions} if extensions else {}), "reference": f"{target.reference}{version}"}


@dataclass(frozen=True, slots=True)
class Ledger:
    """The records of one document, at least one."""

    records: tuple[ProvenanceRecord, ...]

    @property
    def organization(self) -> str:
        """The organization of the document."""
        return self.records[0].organization

    @property
    def occurred_ms(self) -> int:
        """The time of its newest version."""
        return max(stated(record.occurred) for record in self.records)

    @property
    def updated_ms(self) -> int:
        """The time of its import."""
        return max(record.updated_ms for record in self.records)

    @property
    def done(self) -> bool:
        """True once it is imported completely."""
        return all(record.done for record in self.records)

    def noted(
        self, targets: Iterable[ProvenanceTarget], occurred: str, new_id: Callable[[], str], *, done: bool
    ) -> "Ledger":
        """Return the ledger with further targets, which replace those of the same resource.

        The version that the document wrote is kept if it writes nothing more.
        """
        places = {one.reference: at for at, record in enumerate(self.records) for one in record.targets}
        held = [{one.reference: one for one in record.targets} for record in self.records]
        for target in targets:
            if target.reference not in places and len(held[-1]) >= MOST_TARGETS:
                held.append({})
            own = held[places.get(target.reference, -1)]
            before = own.get(target.reference, target)
            own[target.reference] = replace(target, version=target.version or before.version)
        first = self.records[0]
        records = list(self.records)
        records += [replace(first, id=new_id(), version=0, targets=()) for _ in held[len(records) :]]
        last = len(records) - 1
        return Ledger(
            tuple(
                one
                if tuple(own.values()) == one.targets and one.done == (done or at < last)
                else replace(one, targets=tuple(own.values()), occurred=occurred, done=done or at < last)
                for at, (one, own) in enumerate(zip(records, held, strict=True))
            )
        )


def read_record(words: Words, resource: JsonObject, updated_ms: int) -> ProvenanceRecord | None:
    """Read the Provenance of an import; None for any other Provenance."""
    tags = resource["meta"].get("tag", ())
    entities = [local_target(entity["what"].get("reference", "")) for entity in resource.get("entity", ())]
    if words.external not in tags or len(entities) != 1:
        return None
    occurred = resource.get("occurredDateTime", "")
    return ProvenanceRecord(
        id=resource["id"],
        version=int(resource["meta"]["versionId"]),
        updated_ms=updated_ms,
        organization=resource["agent"][0]["who"].get("display", ""),
        document_id=entities[0].partition("/")[2],
        occurred=occurred,
        targets=tuple(_target(words, one, occurred) for one in resource["target"] if "reference" in one),
        done=words.importing not in tags,
    )


def _target(words: Words, one: JsonObject, occurred: str) -> ProvenanceTarget:
    extensions = {extension["url"]: extension for extension in one.get("extension", ())}
    _, _, version = one["reference"].partition(HISTORY)
    stated_at = extensions.get(words.extension("stated-at"), {}).get("valueDateTime", "") or occurred
    return ProvenanceTarget(
        local_target(one["reference"]),
        int(version) if version.isdecimal() else 0,
        stated(stated_at),
        stated_at,
        words.extension("kept") in extensions,
    )

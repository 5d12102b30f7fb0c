"""What a document of another organization says: whose it is, and its facts as R4 resources."""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from engine.fhir.json import JsonObject

# The default limit of a document's bytes, and the limit of its facts.
MOST_BYTES: Final = 20_000_000
MOST_FACTS: Final = 50_000
# How facts refer to the patient elsewhere than in their own `subject`, `patient` or `beneficiary`.
PATIENT: Final = "urn:uuid:00000000-0000-0000-0000-000000000000"


class UnreadableReason(StrEnum):
    """Why a document cannot be read; these are shown to clients and counted."""

    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    BAD_ENCODING = "bad-encoding"
    ENTITY_DECLARED = "entity-declared"
    NOT_XML = "not-xml"
    NOT_JSON = "not-json"
    NOT_A_DOCUMENT = "not-a-document"
    NO_PATIENT = "no-patient"
    TWO_PATIENTS = "two-patients"


TEXTS: Final = {
    UnreadableReason.TOO_LARGE: "The document has more bytes, parts or facts than are read.",
    UnreadableReason.TOO_DEEP: "The document has more levels than are read.",
    UnreadableReason.BAD_ENCODING: "The document's bytes are not text in the encoding that it names.",
    UnreadableReason.ENTITY_DECLARED: "The document has a DOCTYPE: entities are not read.",
    UnreadableReason.NOT_XML: "The document is not well-formed XML.",
    UnreadableReason.NOT_JSON: "The document is not JSON, or has a key twice.",
    UnreadableReason.NOT_A_DOCUMENT: "The document is neither a ClinicalDocument nor a Bundle of resources.",
    UnreadableReason.NO_PATIENT: "The document does not say whose it is.",
    UnreadableReason.TWO_PATIENTS: "The document speaks of more than one patient.",
}


class UnreadableDocumentError(ValueError):
    """A document cannot be read; the text says why, and shows nothing of what the document has."""

    def __init__(self, reason: UnreadableReason) -> None:
        super().__init__(TEXTS[reason])
        self.reason = reason


def fact_id(seed: bytes, number: int) -> str:
    """Return the id of a fact: a UUID of its document, whose digest is the seed, and its place there."""
    return str(UUID(bytes=sha256(seed + str(number).encode()).digest()[:16], version=5))


@dataclass(frozen=True, slots=True, repr=False)
class DocumentIdentity:
    """Whose document it is, as the document says; '' and () for what it does not say.

    `birth_date`: YYYY, YYYY-MM or YYYY-MM-DD. `gender`: a code of FHIR (`male`, `female`, `other`, `unknown`).
    `identifiers`: pairs of system and value, as FHIR writes them; the system may be ''.
    """

    given: tuple[str, ...] = ()
    family: str = ""
    birth_date: str = ""
    gender: str = ""
    identifiers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class DocumentSection:
    """What people read in one section of a document: its LOINC code ('' for none), its title, and its plain text."""

    code: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class DocumentFacts:
    """What one document says of one patient.

    `document_id`: the same each time the document is read, `urn:uuid:…` or `urn:oid:…` where the document has one of
    its own; '' for none. `title`: '' for none. `type`: a CodeableConcept, {} for none. `at`: the instant that the
    document was made, '' where it does not say. `author`: the name of the organization it is from, '' for none.

    `resources`: valid R4 but for the element that names whose chart they are in (`subject`, `patient`, `beneficiary`),
    which is absent. Each has an `id`, a UUID, the same whenever the same document is read; a reference to another of
    them is `urn:uuid:{id}`, one to the patient PATIENT. Every such reference has its target here. Practitioners,
    organizations and locations that facts name are among them, before what names them. An `identifier` is one that
    the document gives, which stays the same in its later versions.

    Of `meta` they have `lastUpdated`, which says when they were stated, and `security`, where the document does.

    `narrative`: what people read, in the order of the document; empty for a Bundle. `unread`: how many entries of the
    document became no resource, as they say that there is nothing to say, or are of a kind that is not read.
    """

    identity: DocumentIdentity
    document_id: str
    title: str
    type: JsonObject
    at: str
    author: str
    resources: tuple[JsonObject, ...]
    narrative: tuple[DocumentSection, ...] = ()
    unread: int = 0

"""Reads a document into facts: a FHIR Bundle (R4 or STU3) with its references resolved, a C-CDA by its own reader."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion, defects, resource_types
from engine.fhir.versions.names import r4_name
from engine.interchange.clinical.ccda.reading.document import read_ccda
from engine.interchange.clinical.facts import (
    MOST_BYTES,
    MOST_FACTS,
    PATIENT,
    DocumentFacts,
    DocumentIdentity,
    UnreadableDocumentError,
    UnreadableReason,
    fact_id,
)
from engine.interchange.clinical.medication import REFERENCE, with_concept
from engine.interchange.kernel.exact import TooDeepError, read_strictly
from engine.interchange.kernel.view import to_stored, tolerated
from engine.interchange.network.patient360.connectors.connector import FHIR, RetrievedDocument
from engine.interchange.rest.resource.catalogue import CHART, KEPT

Resource = JsonObject

URI: Final = "urn:ietf:rfc:3986"
TYPED: Final = re.compile(r"(?:(.*)/)?([A-Z][A-Za-z]{1,60})/([A-Za-z0-9\-.]{1,64})")
# An absolute address.
ABSOLUTE: Final = re.compile(r"(https?://|urn:)\S+")
VERSION: Final = "/_history/"


class BundleEntry(NamedTuple):
    """A resource of a Bundle in the shape of R4, and its address there (`fullUrl`); '' for none."""

    address: str
    resource: Resource


def addresses(entry: BundleEntry) -> list[str]:
    """Return the addresses by which references may name an entry: its `fullUrl`, and `Type/id`."""
    name, own = entry.resource["resourceType"], entry.resource.get("id", "")
    return [address for address in (_plain(entry.address), f"{name}/{own}" if own else "") if address]


def leads(reference: Json, entry: BundleEntry) -> Iterator[str]:
    """Yield the addresses that a Reference in an entry may mean; the one on the entry's server comes first."""
    text = _plain(reference.get("reference", "")) if isinstance(reference, dict) else ""
    named = TYPED.fullmatch(text)
    if named is None or named[1] is not None:
        yield text
        return
    own = TYPED.fullmatch(_plain(entry.address))
    if own is not None and own[1] is not None:
        yield f"{own[1]}/{text}"
    yield f"{r4_name(named[2])}/{named[3]}"


def names_a(type_name: str, reference: Json) -> bool:
    """True if a Reference names a resource of this type."""
    named = TYPED.fullmatch(_plain(reference.get("reference", ""))) if isinstance(reference, dict) else None
    return named is not None and named[2] == type_name


def relinked(part: Any, entry: BundleEntry, names: Mapping[str, str]) -> Any:
    """Return a part of an entry's resource with every reference to a named address replaced by its name.

    A reference out of the Bundle becomes a logical reference with the source's address; one into the resource itself
    stays.
    """
    if isinstance(part, list):
        return [relinked(one, entry, names) for one in part]
    if not isinstance(part, dict):
        return part
    result = {name: relinked(value, entry, names) for name, value in part.items()}
    text = part.get("reference")
    if not isinstance(text, str) or text.startswith("#") or is_expression(part):
        return result
    name = next((names[one] for one in leads(part, entry) if one in names), "")
    if name:
        return {**result, "reference": name}
    del result["reference"]
    return {**_logical(text), **result}


def is_expression(part: JsonObject) -> bool:
    """True if a part with a `reference` is an Expression, which has a language, and no Reference."""
    return "language" in part


def _logical(text: str) -> JsonObject:
    """Return a logical Reference: the type of the target, and its address at the source as identifier."""
    named = TYPED.fullmatch(_plain(text))
    name = r4_name(named[2]) if named else ""
    kind = {"type": name} if name in resource_types(FhirVersion.R4) else {}
    return {**kind, "identifier": {**({"system": URI} if ABSOLUTE.fullmatch(text) else {}), "value": text}}


def _plain(address: str) -> str:
    return address.partition(VERSION)[0]


# The types of Bundle with the current state of resources.
STATES: Final = frozenset({"searchset", "collection", "document", "transaction"})
SHELL: Final = ("resourceType", "type", "timestamp", "identifier")
# The types that are read: first parties and places, as facts refer to them.
PARTIES: Final = ("Organization", "Location", "Practitioner", "PractitionerRole", "RelatedPerson")
READ: Final = (*PARTIES, *(one.name for one in CHART))
RANKS: Final = {name: min(rank, len(PARTIES)) for rank, name in enumerate(READ)}
# The types that give the patient and the author of the document.
HEADER: Final = frozenset({"Patient", "Composition"})
# Elements about the storage of a resource, and its text, which stays in the document.
NOT_FACT: Final = frozenset({"meta", "text", "implicitRules"})
# The elements of `meta` that belong to the fact.
OF_FACT: Final = ("lastUpdated", "security")


def read_document(document: RetrievedDocument) -> DocumentFacts:
    """Read a C-CDA or a Bundle; UnreadableDocumentError. Takes CPU time: call it off the event loop."""
    if document.media_type == FHIR:
        return read_bundle(document.body, document.version)
    return read_ccda(document.body)


def read_bundle(body: bytes, version: FhirVersion, most_bytes: int = MOST_BYTES) -> DocumentFacts:
    """Return the facts of a Bundle of the type searchset, collection, document or transaction.

    Its Patient is the identity. Resources that are invalid, of a type that is not stored, in no chart, or with content
    only at their server (an attachment `Binary/…`) count as unread. A reference to a Medication becomes its code; a
    reference out of the Bundle becomes a logical one. Takes CPU time (about 0.2 ms a fact): call it off the event
    loop. UnreadableDocumentError: no JSON, no such Bundle, too large, no patient, or two.
    """
    bundle = _bundle(body, version, most_bytes)
    sources = list(_sources(bundle))
    read = (_entry(address, source, version) for address, source in sources)
    entries = [one for one in read if one is not None]
    people = [entry for entry in entries if entry.resource["resourceType"] == "Patient"]
    names = {address: PATIENT for person in people for address in addresses(person)}
    seed = hashlib.sha256(body).digest()
    resources = _facts([entry for entry in entries if entry.resource["resourceType"] not in HEADER], names, seed)
    composition = next((one for one in entries if one.resource["resourceType"] == "Composition"), BundleEntry("", {}))
    own = bundle.get("identifier", {})
    return DocumentFacts(
        identity=_identity(people),
        document_id="|".join(filter(None, (own.get("system"), own.get("value")))),
        title=composition.resource.get("title", ""),
        type=composition.resource.get("type", {}),
        at=bundle.get("timestamp", ""),
        author=_custodian(composition, entries),
        resources=resources,
        unread=len(sources) - len(resources) - sum(one["resourceType"] in HEADER for _, one in sources),
    )


def _bundle(body: bytes, version: FhirVersion, most_bytes: int) -> Resource:
    """Parse a Bundle; UnreadableDocumentError for anything else, or for a type that is not read."""
    if len(body) > most_bytes:
        raise UnreadableDocumentError(UnreadableReason.TOO_LARGE)
    try:
        parsed = read_strictly(body)
    except TooDeepError:
        raise UnreadableDocumentError(UnreadableReason.TOO_DEEP) from None
    except (ValueError, RecursionError):
        raise UnreadableDocumentError(UnreadableReason.NOT_JSON) from None
    shell: JsonObject = {name: parsed[name] for name in SHELL if name in parsed} if isinstance(parsed, dict) else {}
    if shell.get("resourceType") != "Bundle" or defects(shell, version) or shell.get("type") not in STATES:
        raise UnreadableDocumentError(UnreadableReason.NOT_A_DOCUMENT)
    if not isinstance(parsed.get("entry", []), list):
        raise UnreadableDocumentError(UnreadableReason.NOT_A_DOCUMENT)
    if len(parsed.get("entry", [])) > MOST_FACTS:
        raise UnreadableDocumentError(UnreadableReason.TOO_LARGE)
    bundle: Resource = parsed
    return bundle


def _sources(bundle: Resource) -> Iterator[tuple[str, Resource]]:
    """Yield the address and the resource of each entry that has one, without the OperationOutcome of a search."""
    for entry in bundle.get("entry", ()):
        source = entry.get("resource") if isinstance(entry, dict) else None
        if isinstance(source, dict) and isinstance(source.get("resourceType"), str):
            address = entry.get("fullUrl")
            if source["resourceType"] != "OperationOutcome":
                yield (address if isinstance(address, str) else ""), source


def _entry(address: str, source: Resource, version: FhirVersion) -> BundleEntry | None:
    """Return a resource of the version as R4; None if it is invalid in one of them."""
    if source["resourceType"] not in resource_types(version):
        return None
    source = tolerated(source, version)
    if defects(source, version):
        return None
    resource = to_stored(source, version)
    if version is not FhirVersion.R4 and (
        resource["resourceType"] not in resource_types(FhirVersion.R4) or defects(resource, FhirVersion.R4)
    ):
        return None
    return BundleEntry(address, resource)


def _facts(entries: list[BundleEntry], names: dict[str, str], seed: bytes) -> tuple[Resource, ...]:
    """Return the facts of entries, one for each address, and add their addresses to `names`.

    UnreadableDocumentError for a resource in the chart of another patient.
    """
    ranked = sorted((entry for entry in entries if entry.resource["resourceType"] in RANKS), key=_rank)
    facts: list[tuple[BundleEntry, str]] = []
    for one in ranked:
        own = addresses(one)
        if _is_charted(one, names) and _is_reachable(one) and not (own and own[0] in names):
            number = fact_id(seed, len(facts))
            for address in own:
                names.setdefault(address, f"urn:uuid:{number}")
            facts.append((one, number))
    medicines = {
        address: entry.resource["code"]
        for entry in entries
        if entry.resource["resourceType"] == "Medication" and "code" in entry.resource
        for address in addresses(entry)
    }
    return tuple({**_fact(one, names, medicines), "id": number} for one, number in facts)


def _rank(entry: BundleEntry) -> int:
    return RANKS[entry.resource["resourceType"]]


def _is_charted(entry: BundleEntry, names: Mapping[str, str]) -> bool:
    """True if an entry is in the patient's chart, or of a type that is in no chart."""
    holder = KEPT[entry.resource["resourceType"]].patient
    reference = entry.resource.get(holder, {}) if holder else {}
    if not holder or any(names.get(address) == PATIENT for address in leads(reference, entry)):
        return True
    if names_a("Patient", reference):
        raise UnreadableDocumentError(UnreadableReason.TWO_PATIENTS)
    return False


def _is_reachable(entry: BundleEntry) -> bool:
    """True if the attachments of an entry have data or an absolute URL."""
    attached = (content.get("attachment", {}) for content in entry.resource.get("content", ()))
    return all(ABSOLUTE.fullmatch(one["url"]) for one in attached if "url" in one and "data" not in one)


def _fact(entry: BundleEntry, names: Mapping[str, str], medicines: Mapping[str, Json]) -> Resource:
    resource = _with_medicine(entry, medicines)
    holder = KEPT[resource["resourceType"]].patient
    rest = {name: part for name, part in resource.items() if name not in NOT_FACT and name.lstrip("_") != holder}
    meta = {name: resource["meta"][name] for name in OF_FACT if name in resource.get("meta", {})}
    fact: Resource = relinked({**rest, **({"meta": meta} if meta else {})}, entry, names)
    return fact


def _with_medicine(entry: BundleEntry, medicines: Mapping[str, Json]) -> Resource:
    """Return a resource with the code of its Medication, contained or in the Bundle."""
    reference = entry.resource.get(REFERENCE)
    if reference is None:
        return entry.resource
    contained = entry.resource.get("contained", [])
    own = {f"#{one.get('id')}": one for one in contained if one["resourceType"] == "Medication"}
    inner = own.get(reference.get("reference"), {})
    code = inner.get("code") or next((medicines[one] for one in leads(reference, entry) if one in medicines), None)
    if not code:
        return entry.resource
    left = [one for one in contained if one is not inner]
    rest = {name: part for name, part in entry.resource.items() if name != "contained"}
    return with_concept({**rest, **({"contained": left} if left else {})}, code)


def _identity(people: list[BundleEntry]) -> DocumentIdentity:
    """Return the identity of the Patients of a Bundle; UnreadableDocumentError for none, and for two persons."""
    identities = [_patient_identity(person.resource) for person in people]
    if not identities:
        raise UnreadableDocumentError(UnreadableReason.NO_PATIENT)
    if any(_person(identity) != _person(identities[0]) for identity in identities):
        raise UnreadableDocumentError(UnreadableReason.TWO_PATIENTS)
    numbers = dict.fromkeys(number for identity in identities for number in identity.identifiers)
    return DocumentIdentity(*_person(identities[0]), tuple(numbers))


def _person(one: DocumentIdentity) -> tuple[tuple[str, ...], str, str, str]:
    return one.given, one.family, one.birth_date, one.gender


def _patient_identity(patient: Resource) -> DocumentIdentity:
    names = patient.get("name", [])
    name: Resource = next((one for one in names if one.get("use") == "official"), next(iter(names), {}))
    numbers = ((one.get("system", ""), one.get("value", "")) for one in patient.get("identifier", ()))
    return DocumentIdentity(
        given=tuple(one for one in name.get("given", ()) if one),
        family=name.get("family", "") or name.get("text", ""),
        birth_date=patient.get("birthDate", ""),
        gender=patient.get("gender", ""),
        identifiers=tuple((system, value) for system, value in numbers if value),
    )


def _custodian(composition: BundleEntry, entries: list[BundleEntry]) -> str:
    """Return the name of the custodian: that of the Organization in the Bundle, else the display of the reference."""
    reference = composition.resource.get("custodian", {})
    wanted = set(leads(reference, composition))
    named = (entry for entry in entries if entry.resource["resourceType"] == "Organization")
    own = next((one.resource for one in named if wanted & set(addresses(one))), {})
    return str(own.get("name") or reference.get("display", ""))

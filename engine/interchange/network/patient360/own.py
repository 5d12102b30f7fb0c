"""The facts of a document as valid resources of this service, which refer to our patient and our directory."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.facts import PATIENT, DocumentFacts
from engine.interchange.clinical.medication import REFERENCE, with_concept
from engine.interchange.kernel.exact import write_json
from engine.interchange.network.patient360.deduplicate import FACTS
from engine.interchange.network.patient360.reading_bundle import is_expression
from engine.interchange.network.patient360.record import Words
from engine.interchange.network.patient360.standardise import standardised
from engine.interchange.rest.resource.catalogue import KEPT, SUPPORTING
from engine.interchange.store.transaction import Transaction

URN: Final = "urn:uuid:"
DIRECTORY: Final = frozenset(one.name for one in SUPPORTING)
NPI: Final = "http://hl7.org/fhir/sid/us-npi"
ADDRESS: Final = ("http:", "https:", "urn:")
MEDICATION: Final = "Medication"

# The references of a document, and what replaces them: `Type/id`, or '' for what is not stored.
Table = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A fact of a document: its address there, its resource with unresolved references to other facts, and its time."""

    urn: str
    resource: JsonObject
    stated_at: str


@dataclass(frozen=True, slots=True)
class Own:
    """A document's facts, its entries of the directory, and the number of invalid facts."""

    facts: tuple[Incoming, ...]
    directory: tuple[JsonObject, ...]
    invalid: int


def in_our_terms(
    transaction: Transaction, facts: DocumentFacts, organization: str, patient_id: str, words: Words, stated_at: str
) -> Own:
    """Return a document's facts as resources of this service; `stated_at` is for facts without a time."""
    table: dict[str, str] = {PATIENT: f"Patient/{patient_id}"}
    directory: dict[str, JsonObject] = {}
    incoming: list[Incoming] = []
    medications = {f"{URN}{one['id']}": one for one in facts.resources if one["resourceType"] == MEDICATION}
    invalid = 0
    for resource in facts.resources:
        name, urn = resource["resourceType"], f"{URN}{resource['id']}"
        if name in DIRECTORY:
            entry = _directory_entry(repointed(resource, table, _never), organization, words)
            if defects(entry, FhirVersion.R4):
                continue
            own_id = _known(transaction, name, entry) or entry["id"]
            table[urn] = f"{name}/{own_id}"
            if own_id == entry["id"]:
                directory[own_id] = entry
        elif name in FACTS:
            fact = _with_medication(resource, medications)
            fact = _fact(repointed(fact, table, _fact_of_the_document), organization, patient_id, words)
            if defects(fact, FhirVersion.R4):
                invalid += 1
            else:
                incoming.append(Incoming(urn, fact, resource.get("meta", {}).get("lastUpdated", "") or stated_at))
    return Own(tuple(incoming), tuple(directory.values()), invalid)


def repointed(part: JsonObject, table: Table, left: Callable[[str], bool]) -> JsonObject:
    """Return a resource, or a part of one, with its references replaced by a table, but for those of `left`.

    Any other reference is removed; its display or identifier stays, else the display is 'not imported'.
    """
    if isinstance(part, dict):
        result = {name: repointed(value, table, left) for name, value in part.items()}
        target = result.get("reference")
        if not isinstance(target, str) or target.startswith("#") or is_expression(part):
            return result
        own = table.get(target, "")
        if own or left(target):
            return {**result, "reference": own or target}
        rest = {name: value for name, value in result.items() if name != "reference"}
        return rest if rest.keys() & {"display", "identifier"} else {**rest, "display": "not imported"}
    return [repointed(one, table, left) for one in part] if isinstance(part, list) else part


def _never(_target: str) -> bool:
    return False


def _fact_of_the_document(target: str) -> bool:
    return target.startswith(URN)


def resolved(resource: JsonObject, table: Table) -> JsonObject:
    """Return a fact with its references to other facts of the document resolved."""
    fact: JsonObject = repointed(resource, table, lambda target: not target.startswith(URN))
    return fact


def references(part: Json) -> Iterable[str]:
    """Yield each literal reference in a part of a resource."""
    if isinstance(part, dict):
        if isinstance(part.get("reference"), str):
            yield part["reference"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for one in part:
            yield from references(one)


def _fact(resource: JsonObject, organization: str, patient_id: str, words: Words) -> JsonObject:
    """Return a fact in our patient's chart, without its id and version at the source."""
    fact = standardised(resource)
    meta = fact.get("meta", {})
    tags = [*meta.get("tag", ()), words.external]
    kept = {name: meta[name] for name in ("profile", "security") if name in meta}
    rest = {name: value for name, value in fact.items() if name not in {"id", "meta", "resourceType"}}
    if fact["resourceType"] == "DocumentReference":
        rest["content"] = [_content(content) for content in rest.get("content", ())]
    return {
        "resourceType": fact["resourceType"],
        "meta": {**kept, "source": words.source(organization), "tag": tags},
        KEPT[fact["resourceType"]].patient: {"reference": f"Patient/{patient_id}"},
        **rest,
    }


def _content(content: JsonObject) -> JsonObject:
    """Return the content without a relative URL, which would mean a resource of ours."""
    attachment = content.get("attachment", {})
    if attachment.get("url", ADDRESS[0]).startswith(ADDRESS):
        return content
    return {**content, "attachment": {name: value for name, value in attachment.items() if name != "url"}}


def _with_medication(resource: JsonObject, medications: Mapping[str, JsonObject]) -> JsonObject:
    """Return a fact with the concept of its Medication in place of the reference."""
    named = resource.get(REFERENCE, {})
    code = medications.get(named.get("reference", ""), {}).get("code") or (
        {"text": named["display"]} if named.get("display") else None
    )
    return resource if code is None or REFERENCE not in resource else with_concept(resource, code)


def _directory_entry(resource: JsonObject, organization: str, words: Words) -> JsonObject:
    """Return an entry of the directory; its id is a hash of its identifier, else of its organization and content.

    So all documents that name it share one entry.
    """
    entry = {name: value for name, value in standardised(resource).items() if name not in {"id", "meta", "text"}}
    number = min(_numbers(entry), key=lambda one: (one[0] != NPI, one), default=None)
    seed = number or (organization, write_json(entry).decode())
    own_id = sha256("\n".join((entry["resourceType"], *seed)).encode()).hexdigest()[:24]
    meta = {"source": words.source(organization), "tag": [words.external]}
    return {"resourceType": entry["resourceType"], "id": own_id, "meta": meta, **entry}


def _known(transaction: Transaction, type_name: str, resource: JsonObject) -> str:
    """Return the id of the one entry of our directory with an identifier of the resource; '' for none or several."""
    for system, value in _numbers(resource):
        holders = transaction.holders(f"{type_name}.identifier", system, value)
        if len(holders) == 1:
            return transaction.by_key(holders[0]).id
    return ""


def _numbers(resource: JsonObject) -> list[tuple[str, str]]:
    given = ((one.get("system", ""), one.get("value", "")) for one in resource.get("identifier", ()))
    return sorted((system, value) for system, value in given if system and value)

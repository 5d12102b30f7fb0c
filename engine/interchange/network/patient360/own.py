"""The facts of a document in our terms: standardised, valid, with our patient and our directory in their references."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.medication import REFERENCE, with_concept
from engine.interchange.clinical.patient360.facts import PATIENT, DocumentFacts
from engine.interchange.kernel.exact import write_json
from engine.interchange.network.patient360.deduplicate import FACTS
from engine.interchange.network.patient360.reading_references import is_expression
from engine.interchange.network.patient360.record import Words
from engine.interchange.network.patient360.standardise import standardised
from engine.interchange.rest.resource.catalogue import KEPT, SUPPORTING
from engine.interchange.store.transaction import Transaction

URN: Final = "urn:uuid:"
DIRECTORY: Final = frozenset(one.name for one in SUPPORTING)
NPI: Final = "http://hl7.org/fhir/sid/us-npi"
ADDRESS: Final = ("http:", "https:", "urn:")
MEDICATION: Final = "Medication"

# What references of a document become: `Type/id`, or '' for what is not kept.
Table = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Incoming:
    """One fact of a document: its address there, the resource but for references to other facts, when it was stated."""

    urn: str
    resource: JsonObject
    stated_at: str


@dataclass(frozen=True, slots=True)
class Own:
    """A document's facts, the entries of the directory that it names, and how many facts are invalid."""

    facts: tuple[Incoming, ...]
    directory: tuple[JsonObject, ...]
    invalid: int


def in_our_terms(
    transaction: Transaction, facts: DocumentFacts, organization: str, patient_id: str, words: Words, stated_at: str
) -> Own:
    """Return what a document says as resources of this service; `stated_at` is for facts that do not say when."""
    table: dict[str, str] = {PATIENT: f"Patient/{patient_id}"}
    directory: dict[str, JsonObject] = {}
    found: list[Incoming] = []
    medications = {f"{URN}{one['id']}": one for one in facts.resources if one["resourceType"] == MEDICATION}
    invalid = 0
    for one in facts.resources:
        name, urn = one["resourceType"], f"{URN}{one['id']}"
        if name in DIRECTORY:
            made = _directory_entry(repointed(one, table, _never), organization, words)
            if defects(made, FhirVersion.R4):
                continue
            own_id = _known(transaction, name, made) or made["id"]
            table[urn] = f"{name}/{own_id}"
            if own_id == made["id"]:
                directory[own_id] = made
        elif name in FACTS:
            made = _with_medication(one, medications)
            made = _fact(repointed(made, table, _fact_of_the_document), organization, patient_id, words)
            if defects(made, FhirVersion.R4):
                invalid += 1
            else:
                found.append(Incoming(urn, made, one.get("meta", {}).get("lastUpdated", "") or stated_at))
    return Own(tuple(found), tuple(directory.values()), invalid)


def repointed(part: JsonObject, table: Table, left: Callable[[str], bool]) -> JsonObject:
    """Return a resource, or a part of one, with its references as a table has them; those that `left` says stay.

    What else the table does not have is not kept here: the reference shows what it did, or says so.
    """
    if isinstance(part, dict):
        made = {name: repointed(value, table, left) for name, value in part.items()}
        target = made.get("reference")
        if not isinstance(target, str) or target.startswith("#") or is_expression(part):
            return made
        own = table.get(target, "")
        if own or left(target):
            return {**made, "reference": own or target}
        rest = {name: value for name, value in made.items() if name != "reference"}
        return rest if rest.keys() & {"display", "identifier"} else {**rest, "display": "not imported"}
    return [repointed(one, table, left) for one in part] if isinstance(part, list) else part


def _never(_target: str) -> bool:
    return False


def _fact_of_the_document(target: str) -> bool:
    return target.startswith(URN)


def resolved(resource: JsonObject, table: Table) -> JsonObject:
    """Return a fact whose references to other facts of its document name what stands for these."""
    made: JsonObject = repointed(resource, table, lambda target: not target.startswith(URN))
    return made


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
    """Return a fact without the id and version that it had elsewhere, in the chart of our patient."""
    made = standardised(resource)
    meta = made.get("meta", {})
    tags = [*meta.get("tag", ()), words.external]
    kept = {name: meta[name] for name in ("profile", "security") if name in meta}
    rest = {name: value for name, value in made.items() if name not in {"id", "meta", "resourceType"}}
    if made["resourceType"] == "DocumentReference":
        rest["content"] = [_content(one) for one in rest.get("content", ())]
    return {
        "resourceType": made["resourceType"],
        "meta": {**kept, "source": words.source(organization), "tag": tags},
        KEPT[made["resourceType"]].patient: {"reference": f"Patient/{patient_id}"},
        **rest,
    }


def _content(content: JsonObject) -> JsonObject:
    """Return an attachment without an address that would lead to something of ours."""
    attachment = content.get("attachment", {})
    if attachment.get("url", ADDRESS[0]).startswith(ADDRESS):
        return content
    return {**content, "attachment": {name: value for name, value in attachment.items() if name != "url"}}


def _with_medication(resource: JsonObject, medications: Mapping[str, JsonObject]) -> JsonObject:
    """Return a fact with the concept of the Medication that it refers to, which is no resource of ours."""
    named = resource.get(REFERENCE, {})
    code = medications.get(named.get("reference", ""), {}).get("code") or (
        {"text": named["display"]} if named.get("display") else None
    )
    return resource if code is None or REFERENCE not in resource else with_concept(resource, code)


def _directory_entry(resource: JsonObject, organization: str, words: Words) -> JsonObject:
    """Return an entry of the directory with an id that is made of its number, or of who says it and all it says.

    So it is one entry however many documents name it.
    """
    made = {name: value for name, value in standardised(resource).items() if name not in {"id", "meta", "text"}}
    number = min(_numbers(made), key=lambda one: (one[0] != NPI, one), default=None)
    said = number or (organization, write_json(made).decode())
    own_id = sha256("\n".join((made["resourceType"], *said)).encode()).hexdigest()[:24]
    meta = {"source": words.source(organization), "tag": [words.external]}
    return {"resourceType": made["resourceType"], "id": own_id, "meta": meta, **made}


def _known(transaction: Transaction, type_name: str, resource: JsonObject) -> str:
    """Return the id of the one entry of our directory that has a number of another; '' for none or several."""
    for system, value in _numbers(resource):
        holders = transaction.holders(f"{type_name}.identifier", system, value)
        if len(holders) == 1:
            return transaction.by_key(holders[0]).id
    return ""


def _numbers(resource: JsonObject) -> list[tuple[str, str]]:
    given = ((one.get("system", ""), one.get("value", "")) for one in resource.get("identifier", ()))
    return sorted((system, value) for system, value in given if system and value)

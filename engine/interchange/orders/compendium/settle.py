"""Brings what is kept of a laboratory to what its file says: a resource at a time, each within a transaction."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from engine.errors import UsageError
from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.extension import url
from engine.interchange.orders.compendium.files.authored import AuthoredLaboratory, LaboratoryAddress
from engine.interchange.orders.compendium.lookup import QUESTIONS, TESTS, carriers, system_of
from engine.interchange.orders.compendium.made import QUESTIONNAIRE, TEST, WantedResource, ids_for, tag
from engine.interchange.rest.resource.definition import rows_of
from engine.interchange.store.search.text import short
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod

NPI: Final = "http://hl7.org/fhir/sid/us-npi"
CLIA: Final = "urn:oid:2.16.840.1.113883.4.7"
ORDERING: Final = "organization-orderingEnabled"


def organization(laboratory: AuthoredLaboratory, kept: JsonObject | None, sis: str) -> JsonObject:
    """Return the Organization by the file; elements of the `kept` one that the file does not mention stay.

    Identifiers of other systems stay too, as do other extensions and other ways of contact.
    """
    said: JsonObject = {
        "extension": [{"url": url(sis, ORDERING), "valueBoolean": laboratory.ordering_enabled}],
        "identifier": _identifiers(laboratory),
        "name": laboratory.name,
        "alias": list(laboratory.alias),
        "telecom": [{"system": "phone", "value": laboratory.telephone}] if laboratory.telephone else [],
        "address": [one for one in (_address(laboratory.address),) if one],
    }
    before = kept or {"resourceType": "Organization", "active": True}
    for name, key in (("extension", "url"), ("identifier", "system"), ("telecom", "system")):
        own = {one[key] for one in said[name]}
        said[name] += [one for one in before.get(name, ()) if one.get(key) not in own]
    return {**before, **{name: value for name, value in said.items() if value}}


def _identifiers(laboratory: AuthoredLaboratory) -> list[Json]:
    known = {CLIA: laboratory.clia, NPI: laboratory.npi}
    numbers = [{"system": system, "value": value} for system, value in known.items() if value]
    return [*numbers, *({"system": one.system, "value": one.value} for one in laboratory.identifiers)]


def _address(address: LaboratoryAddress) -> JsonObject:
    parts: JsonObject = {
        "line": list(address.line),
        "city": address.city,
        "state": address.state,
        "postalCode": address.postal_code,
        "country": address.country,
    }
    return {name: value for name, value in parts.items() if value}


ORGANIZATION: Final = "Organization"
CODES: Final = {TEST: TESTS, QUESTIONNAIRE: QUESTIONS}
RETIRED: Final = "retired"
# What the service gives a resource, and no file.
GIVEN: Final = frozenset({"versionId", "lastUpdated"})
OF_FILE: Final = "SELECT key FROM token_index WHERE tenant=? AND parameter=? AND code=? AND system=? ORDER BY key"


class SettleOutcome(StrEnum):
    """What became of a resource."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    RETIRED = "retired"


class ResourceChange(NamedTuple):
    """A change to be made: of a stored resource, or of a new one where `stored` is None or deleted."""

    outcome: SettleOutcome
    type: str
    id: str
    stored: StoredVersion | None
    resource: JsonObject


class CompendiumFile(NamedTuple):
    """Whose file it is: the laboratory, and the service's identifier system."""

    laboratory: AuthoredLaboratory
    sis: str

    @property
    def tag(self) -> dict[str, str]:
        """What marks the resources that come from it."""
        return tag(self.sis, self.laboratory.id)


def move_for(transaction: Transaction, file: CompendiumFile, one: WantedResource) -> ResourceChange:
    """Return what brings a test or its questions to what the file says.

    Among several resources of its code it is the one that came from a file, else the oldest. UsageError: others have
    taken its ids.
    """
    found = list(carriers(transaction, CODES[one.type], file.laboratory.id, one.code))
    kept = next((stored for stored in found if file.tag in _tags(stored.resource())), found[0] if found else None)
    if kept is not None:
        return _change(kept, one.resource, SettleOutcome.UPDATED)
    for resource_id in ids_for(file.laboratory.id, one.code):
        stored = transaction.get(one.type, resource_id)
        if stored is None or stored.deleted:
            return ResourceChange(SettleOutcome.CREATED, one.type, resource_id, stored, one.resource)
    # A client chose both for other tests.
    raise UsageError(f"{one.type}/{resource_id} is another test's, and test {one.code} needs its id: delete it there")


def retirement(transaction: Transaction, key: int) -> ResourceChange:
    """Return what retires a test or its questions."""
    stored = transaction.by_key(key)
    return _change(stored, {**_own(stored), "status": RETIRED}, SettleOutcome.RETIRED)


def organization_move(transaction: Transaction, file: CompendiumFile) -> ResourceChange:
    """Return what brings the laboratory's Organization to what the file says."""
    laboratory = file.laboratory
    stored = transaction.get(ORGANIZATION, laboratory.id)
    if stored is None or stored.deleted:
        new = organization(laboratory, None, file.sis)
        return ResourceChange(SettleOutcome.CREATED, ORGANIZATION, laboratory.id, stored, new)
    return _change(stored, organization(laboratory, _own(stored), file.sis), SettleOutcome.UPDATED)


def left_over(transaction: Transaction, file: CompendiumFile, codes: Mapping[str, frozenset[str]]) -> Iterator[int]:
    """Yield the keys of what came from the laboratory's file and is not in it; `codes` are those in it, by type."""
    system = system_of(file.laboratory.id)
    mark = file.tag
    for type_name, known in codes.items():
        arguments = (transaction.tenant, rows_of(type_name, "_tag"), short(mark["code"]), short(mark["system"]))
        for (key,) in transaction.connection.execute(OF_FILE, arguments).fetchall():
            resource = transaction.by_key(key).resource()
            if resource.get("status") != RETIRED and not _codes(resource, system) & known:
                yield key


def make(transaction: Transaction, move: ResourceChange) -> None:
    """Make a change."""
    if move.outcome is SettleOutcome.UNCHANGED:
        return
    if move.stored is None:
        transaction.create(move.type, move.id, move.resource, VersionMethod.NEW)
    elif move.stored.deleted:
        transaction.bring_back(move.stored, move.resource)
    else:
        transaction.update(move.stored, move.resource)


def _change(stored: StoredVersion, resource: JsonObject, outcome: SettleOutcome) -> ResourceChange:
    same = _own(stored) == resource
    return ResourceChange(SettleOutcome.UNCHANGED if same else outcome, stored.type, stored.id, stored, resource)


def _own(stored: StoredVersion) -> JsonObject:
    """Return a stored resource without what the service gave it."""
    resource = stored.resource()
    meta = {name: value for name, value in resource.pop("meta", {}).items() if name not in GIVEN}
    del resource["id"]
    return {**resource, **({"meta": meta} if meta else {})}


def _tags(resource: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = resource.get("meta", {}).get("tag", [])
    return found


def _codes(resource: JsonObject, system: str) -> set[str]:
    code = resource.get("code", ())
    codings = code.get("coding", ()) if isinstance(code, dict) else code
    return {coding.get("code", "") for coding in codings if coding.get("system") == system}

"""The Organization of a laboratory: what the file says of it, laid over what is kept."""

from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.extension import url
from engine.interchange.orders.compendium.files.authored import AuthoredLaboratory, LaboratoryAddress

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

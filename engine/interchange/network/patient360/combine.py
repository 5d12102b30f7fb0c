"""Combines several statements of one fact: the newest leads, the others add the details that it lacks."""

from collections.abc import Iterable
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.network.patient360.deduplicate import ERROR, FACTS

# Details of a fact that are not part of its key: kept if the newest statement lacks them.
DETAILS: Final = (
    "bodySite",
    "category",
    "criticality",
    "doseQuantity",
    "expirationDate",
    "interpretation",
    "lotNumber",
    "manufacturer",
    "method",
    "note",
    "performer",
    "priority",
    "reaction",
    "reasonCode",
    "recorder",
    "referenceRange",
    "requester",
    "route",
    "serviceType",
    "severity",
    "site",
    "stage",
)
# Lists to which each statement adds what the others lack.
UNITED: Final = ("identifier", "hasMember", "result")
# The types whose 'entered in error' is a concept, with its system.
CONCEPTS: Final = {
    "AllergyIntolerance": "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification",
    "Condition": "http://terminology.hl7.org/CodeSystem/condition-ver-status",
}


def led(statement: JsonObject, before: JsonObject) -> JsonObject:
    """Return the new statement of a fact's only source, with the former identifiers too."""
    return {**statement, "meta": _meta(statement, before), **_united(statement, before, ("identifier",))}


def filled(lead: JsonObject, other: JsonObject) -> JsonObject:
    """Return the leading statement, with the details that only the other one has."""
    details: JsonObject = {name: other[name] for name in DETAILS if name in other and name not in lead}
    return {**lead, **details, "meta": _meta(lead, other), **_united(lead, other, UNITED), **_coded(lead, other)}


def withdrawn(resource: JsonObject) -> JsonObject:
    """Return a resource as entered in error."""
    name = resource["resourceType"]
    element = FACTS[name].error
    if name not in CONCEPTS:
        return {**resource, element: ERROR}
    # An allergy or problem that was entered in error has no clinical status (ait-2, con-5).
    rest = {key: value for key, value in resource.items() if key != "clinicalStatus"}
    return {**rest, element: {"coding": [{"system": CONCEPTS[name], "code": ERROR}]}}


def differs(one: JsonObject, other: JsonObject) -> bool:
    """True if two states of a resource differ in more than id, version and source."""
    return _stated(one) != _stated(other)


def _stated(resource: JsonObject) -> JsonObject:
    return {**resource, "meta": {**_meta(resource, resource), "source": ""}, "id": ""}


def _meta(lead: JsonObject, other: JsonObject) -> JsonObject:
    own = {name: value for name, value in lead.get("meta", {}).items() if name not in {"versionId", "lastUpdated"}}
    others = other.get("meta", {})
    joined = {name: _joined(own.get(name, []), others.get(name, [])) for name in ("profile", "security", "tag")}
    return own | {name: value for name, value in joined.items() if value}


def _united(lead: JsonObject, other: JsonObject, names: Iterable[str]) -> JsonObject:
    given = (name for name in names if isinstance(other.get(name), list))
    return {name: _joined(lead.get(name, []), other[name]) for name in given}


def _coded(lead: JsonObject, other: JsonObject) -> JsonObject:
    """Return the element of the principal coding with the codings of both, so that a search finds each."""
    name = FACTS[lead["resourceType"]].coding[0]
    one, two = lead.get(name), other.get(name)
    if not (isinstance(one, dict) and isinstance(two, dict) and "coding" in one and "coding" in two):
        return {}
    known = {(coding.get("system"), coding.get("code")) for coding in one["coding"]}
    more = [coding for coding in two["coding"] if (coding.get("system"), coding.get("code")) not in known]
    return {name: {**one, "coding": [*one["coding"], *more]}} if more else {}


def _joined(one: list[Json], other: list[Json]) -> list[Json]:
    return [*one, *(part for part in other if part not in one)]

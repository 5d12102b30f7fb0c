"""Who did, said or made something: authors, performers and their organizations as resources, named by references."""

from collections.abc import Iterable

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.datatypes import contact, human_name, identifiers, moment, text_of
from engine.interchange.clinical.ccda.reading.element import Element, every, first, said


def organization(chart: ReadChart, element: Element | None) -> JsonObject:
    """Keep an organization, and return the Reference to it; {} for one that has no name."""
    name = text_of(first(element, "name"))
    if element is None or not name:
        return {}
    made = chart.add("Organization", {"identifier": identifiers(element), "name": name, **contact(element)})
    return _reference(made, name)


def person(chart: ReadChart, role: Element | None) -> JsonObject:
    """Keep the person of a role (assignedEntity, assignedAuthor), else its organization; return the Reference to it.

    {} for a role that names neither.
    """
    if role is None:
        return {}
    name = human_name(first(role, "assignedPerson/name"))
    if not any(name.values()):
        return organization(chart, first(role, "representedOrganization"))
    made = chart.add(
        "Practitioner",
        {
            "identifier": identifiers(role),
            "name": [name],
            **contact(role),
            "qualification": [{"code": chart.concept(first(role, "code"))}],
        },
    )
    return _reference(made, _shown(name))


def performers(chart: ReadChart, entry: Element) -> list[JsonObject]:
    """Return References to all who performed a statement."""
    return distinct(person(chart, first(performer, "assignedEntity")) for performer in every(entry, "performer"))


def authors(chart: ReadChart, entry: Element) -> list[JsonObject]:
    """Return References to the authors that a statement names itself."""
    return distinct(person(chart, first(one, "assignedAuthor")) for one in every(entry, "author"))


def author(chart: ReadChart, entry: Element) -> JsonObject:
    """Return the Reference to the last author that a statement names itself; {} for none."""
    return next(reversed(authors(chart, entry)), {})


def authored(chart: ReadChart, entry: Element) -> str:
    """Return when a statement was recorded, by its first author; '' where it does not say."""
    times = (moment(said(one, "value", "time"), chart.offset) for one in every(entry, "author"))
    return next(filter(None, times), "")


def place(chart: ReadChart, role: Element | None) -> JsonObject:
    """Keep the place of a participantRole or healthCareFacility, and return the Reference to it; {} for none."""
    if role is None:
        return {}
    entity = first(role, "playingEntity")
    entity = first(role, "location") if entity is None else entity
    name = text_of(first(entity, "name"))
    if not name:
        return {}
    found = contact(role if every(role, "addr") or entity is None else entity)
    made = chart.add(
        "Location",
        {
            "identifier": identifiers(role),
            "name": name,
            "type": chart.concepts(role, "code"),
            "address": next(iter(found["address"]), {}),
            "telecom": found["telecom"],
        },
    )
    return _reference(made, name)


def distinct(found: Iterable[JsonObject]) -> list[JsonObject]:
    """Return References without empty ones, and none twice."""
    return list({(one["reference"], one["display"]): one for one in found if one}.values())


def _reference(made: str, name: str) -> JsonObject:
    return {"reference": made, "display": name}


def _shown(name: JsonObject) -> str:
    parts = [*name.get("prefix", ()), *name.get("given", ()), name.get("family", ""), *name.get("suffix", ())]
    return name.get("text") or " ".join(filter(None, parts))

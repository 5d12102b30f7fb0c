"""Codes, names and values of FHIR in the form of the Chart API."""

from collections.abc import Callable
from typing import Any, Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.ccda.people import shown_name
from engine.interchange.clinical.ccda.quantities import number, shown_quantity, shown_range
from engine.interchange.clinical.terms import LOINC, UCUM
from engine.interchange.orders.laboratory.message.datatypes import name_of, npi_of
from engine.interchange.web.chart.field import (
    TEXT,
    ChartField,
    ChartReader,
    ObjectShape,
    Resource,
    element,
    listed,
    text,
)


def coding_of(concept: Any) -> JsonObject:
    """Return the LOINC Coding of a concept, else its first Coding; a Coding is returned as it is."""
    held: JsonObject = concept if isinstance(concept, dict) else {}
    codings = held.get("coding", ()) if "coding" in held or "code" not in held else (held,)
    coded = [coding for coding in codings if coding.get("code")]
    return next((one for one in coded if one.get("system") == LOINC), coded[0] if coded else {})


def display_of(concept: Any) -> str:
    """Return the display of a concept's code, else its text; '' for none."""
    held: JsonObject = concept if isinstance(concept, dict) else {}
    shown = (coding.get("display", "") for coding in held.get("coding", ()))
    own = coding_of(held).get("display") or held.get("text") or next(filter(None, shown), "")
    return str(own or coding_of(held).get("code", ""))


def text_of(concept: Any) -> str:
    """Return the text of a concept where it is not its display: the words of the author; '' for none."""
    text = str(concept.get("text", "")) if isinstance(concept, dict) else ""
    return "" if text == display_of(concept) else text


CODED: Final = (
    ChartField("code", TEXT, lambda concept, _: coding_of(concept).get("code")),
    ChartField("codeSystem", TEXT, lambda concept, _: coding_of(concept).get("system")),
    ChartField("display", TEXT, lambda concept, _: display_of(concept)),
    ChartField("text", TEXT, lambda concept, _: text_of(concept)),
)
CONCEPT: Final = ObjectShape("Concept", CODED)
# Of an interpretation only the code is shown: it has one system.
INTERPRETATION: Final = ObjectShape("Interpretation", (CODED[0], CODED[2]))


def person_name(resource: JsonObject | None) -> str:
    """Return the name of a person, or of an organization; '' for none."""
    return shown_name(name_of(resource)) if resource else ""


def called(reference: JsonObject | None, reader: ChartReader, within: Resource) -> str:
    """Return the name of a Reference's target, of a PractitionerRole that of its practitioner; '' for none."""
    target = person_of(reference, reader, within)
    said = reference.get("display", "") if isinstance(reference, dict) else ""
    return person_name(target) or str(said)


def person_of(reference: JsonObject | None, reader: ChartReader, within: Resource) -> JsonObject | None:
    """Return the target of a Reference, of a PractitionerRole its practitioner; None if it may not be seen."""
    target = reader.find(reference, within)
    if target is not None and target["resourceType"] == "PractitionerRole":
        return reader.find(target.get("practitioner"), target)
    return target


def provider(reference: JsonObject | None, reader: ChartReader, within: Resource) -> JsonObject:
    """Return name and National Provider Identifier of a Reference's target; empty for none."""
    identifier = reference.get("identifier") if isinstance(reference, dict) else None
    npi = npi_of(person_of(reference, reader, within)) or npi_of({"identifier": listed(identifier)})
    fields = {"name": called(reference, reader, within), "npi": npi}
    return {name: value for name, value in fields.items() if value}


PROVIDER: Final = ObjectShape("Provider", (text("name"), text("npi")))


def provider_at(name: str, *paths: str) -> ChartField:
    """Return a field of the first provider that one of the elements refers to."""

    def read(resource: Resource, reader: ChartReader) -> Json:
        named = (part for path in paths for part in listed(resource.get(path)))
        return next(filter(None, (provider(part, reader, resource) for part in named)), None)

    return ChartField(name, PROVIDER.link, read)


def value_of(holder: Resource, stem: str = "value") -> tuple[str, str]:
    """Return a value as text, with all its digits, and its unit; '' for none."""
    kind: str
    value: Any
    kind, value = next(
        ((key.removeprefix(stem), one) for key, one in holder.items() if key.startswith(stem)), ("", None)
    )
    if kind == "Quantity":
        quantity = f"{value.get('comparator', '')}{number(value['value'])}" if "value" in value else ""
        return quantity, str(value.get("unit") or value.get("code") or "") if quantity else ""
    return (VALUES[kind](value) if kind in VALUES else ""), ""


def unit_code_of(holder: Resource) -> str:
    """Return the UCUM code of a quantity's unit; '' for none."""
    quantity = holder.get("valueQuantity", {})
    return str(quantity.get("code", "")) if quantity.get("system") == UCUM and "value" in quantity else ""


def _ratio(value: JsonObject) -> str:
    parts = [shown_quantity(value.get(end)) for end in ("numerator", "denominator")]
    return ":".join(parts) if all(parts) else ""


VALUES: Final[dict[str, Callable[[Any], str]]] = {
    "CodeableConcept": display_of,
    "String": str,
    "Integer": str,
    "Boolean": lambda value: "true" if value else "false",
    "Range": shown_range,
    "Ratio": _ratio,
    "DateTime": str,
    "Time": str,
    "Period": lambda value: "/".join((value.get("start", ""), value.get("end", ""))),
}


def noted() -> ChartField:
    """Return the field of a record's notes."""
    return ChartField(
        "note", TEXT, lambda resource, _: "\n".join(one.get("text", "") for one in listed(resource.get("note")))
    )


def status(name: str = "status") -> ChartField:
    """Return the field of a record's status."""
    return ChartField("status", TEXT, element(name))


SHAPES: Final = (CONCEPT, INTERPRETATION, PROVIDER)

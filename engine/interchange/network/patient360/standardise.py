"""A fact in the words of this service: canonical systems, codes and units, moments written one way; nothing is lost.

Of a CodeableConcept the normalised codings come first; an original that differs stays behind them, marked
`userSelected` where nothing else is: it is what the source chose. A Coding that stands alone gets the canonical address
of its system and keeps its code. Of a Quantity `unit` stays what people wrote, `code` becomes UCUM's. Texts stay.
"""

import re
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.patient360.terms import UCUM, canonical_code, canonical_system, ucum

# Elements whose codes go without saying which system they are of.
IMPLIED: Final = {
    ("Condition", "clinicalStatus"): "http://terminology.hl7.org/CodeSystem/condition-clinical",
    ("Condition", "verificationStatus"): "http://terminology.hl7.org/CodeSystem/condition-ver-status",
    ("AllergyIntolerance", "clinicalStatus"): "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
    ("AllergyIntolerance", "verificationStatus"): (
        "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification"
    ),
}
# A date and time as FHIR writes it, with its fraction of a second and its zone.
MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
ZERO: Final = frozenset({"+00:00", "-00:00"})
# What people wrote: it stays as it is, also where it looks like a moment.
TEXTS: Final = frozenset({"text", "div", "display", "title", "name", "description", "comment", "unit", "value"})
CODED: Final = "coding"


def standardised(resource: JsonObject) -> JsonObject:
    """Return a valid resource (R4) with its codings, quantities, identifiers and moments normalised."""
    made: JsonObject = {key: _value(key, value) for key, value in resource.items()}
    for (type_name, element), system in IMPLIED.items():
        if type_name == resource["resourceType"] and CODED in made.get(element, ()):
            made[element] = _implied(made[element], system)
    return made


def _value(key: str, value: Json) -> Json:
    if isinstance(value, dict):
        return _object(value)
    if isinstance(value, list):
        return [_value(key, one) for one in value]
    if isinstance(value, str) and len(value) > len("2024-02-29T10:11") and key not in TEXTS:
        return moment(value) if not key.endswith("String") else value
    return value


def _object(part: JsonObject) -> JsonObject:
    made: JsonObject = {key: codings(value) if key == CODED else _value(key, value) for key, value in part.items()}
    if isinstance(made.get("system"), str):
        made["system"] = canonical_system(made["system"])
    if "value" in made and not isinstance(made["value"], str):
        return quantity(made)
    return made


def moment(text: str) -> str:
    """Return a moment without a fraction that is nothing, and with Z for the zone of Greenwich; others as they are."""
    match = MOMENT.fullmatch(text)
    if match is None:
        return text
    fraction = (match[2] or "").rstrip("0")
    return f"{match[1]}{'.' if fraction else ''}{fraction}{'Z' if match[3] in ZERO else match[3]}"


def codings(given: list[JsonObject]) -> list[Json]:
    """Return the codings of a concept: normalised ones, each once, then the originals that they differ from."""
    made: list[Json] = []
    kept: list[Json] = []
    seen: set[tuple[str, str]] = set()
    originals = {(one.get("system", ""), one.get("code", "")) for one in given}
    chosen = any("userSelected" in one for one in given)
    for one in given:
        system = canonical_system(one.get("system", ""))
        code = canonical_code(system, one.get("code", ""))
        own, given_as = (system, code), (one.get("system", ""), one.get("code", ""))
        if own == given_as:
            if own in seen and code:
                continue
            made.append(one)
            seen.add(own)
        else:
            kept.append(one if chosen or kept else {**one, "userSelected": True})
            if own not in seen and own not in originals:
                made.append({**one, **({"system": system} if system else {}), **({"code": code} if code else {})})
                seen.add(own)
    return [*made, *kept]


def quantity(part: JsonObject) -> JsonObject:
    """Return a Quantity with the UCUM code of its unit, where that is known; what stood there stays as its `unit`."""
    if part.get("system", "") not in {"", UCUM}:
        return part
    written = part.get("code") or part.get("unit") or ""
    code = ucum(written)
    if not code or (part.get("system"), part.get("code")) == (UCUM, code):
        return part
    return {**part, "unit": part.get("unit") or written, "system": UCUM, "code": code}


def _implied(concept: JsonObject, system: str) -> JsonObject:
    given = concept.get(CODED, ())
    return {**concept, CODED: [one if one.get("system") else {**one, "system": system} for one in given]}

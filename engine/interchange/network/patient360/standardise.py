"""Normalises a fact: canonical systems, codes and units, one form of moments; nothing is lost.

In a CodeableConcept the normalised codings come first; an original that differs follows, marked `userSelected` unless
another coding is, as it is the source's choice. A Coding outside a concept gets the canonical system and keeps its
code. A Quantity keeps its `unit`, and its `code` becomes UCUM's. Texts are unchanged.
"""

import re
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.terms import UCUM, canonical_code, canonical_system, ucum

# The systems of elements whose codings may have none.
IMPLIED: Final = {
    ("Condition", "clinicalStatus"): "http://terminology.hl7.org/CodeSystem/condition-clinical",
    ("Condition", "verificationStatus"): "http://terminology.hl7.org/CodeSystem/condition-ver-status",
    ("AllergyIntolerance", "clinicalStatus"): "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
    ("AllergyIntolerance", "verificationStatus"): (
        "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification"
    ),
}
# A FHIR date and time, its fraction of a second and its zone.
MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
ZERO: Final = frozenset({"+00:00", "-00:00"})
# Texts: they are unchanged, also if they look like a moment.
TEXTS: Final = frozenset({"text", "div", "display", "title", "name", "description", "comment", "unit", "value"})
CODED: Final = "coding"


def standardised(resource: JsonObject) -> JsonObject:
    """Return a valid resource (R4) with its codings, quantities, identifiers and moments normalised."""
    result: JsonObject = {key: _value(key, value) for key, value in resource.items()}
    for (type_name, element), system in IMPLIED.items():
        if type_name == resource["resourceType"] and CODED in result.get(element, ()):
            result[element] = _implied(result[element], system)
    return result


def _value(key: str, value: Json) -> Json:
    if isinstance(value, dict):
        return _object(value)
    if isinstance(value, list):
        return [_value(key, one) for one in value]
    if isinstance(value, str) and len(value) > len("2024-02-29T10:11") and key not in TEXTS:
        return moment(value) if not key.endswith("String") else value
    return value


def _object(part: JsonObject) -> JsonObject:
    result: JsonObject = {key: codings(value) if key == CODED else _value(key, value) for key, value in part.items()}
    if isinstance(result.get("system"), str):
        result["system"] = canonical_system(result["system"])
    if "value" in result and not isinstance(result["value"], str):
        return quantity(result)
    return result


def moment(text: str) -> str:
    """Return a moment without trailing zeros of its fraction, and with Z for UTC; other texts unchanged."""
    match = MOMENT.fullmatch(text)
    if match is None:
        return text
    fraction = (match[2] or "").rstrip("0")
    return f"{match[1]}{'.' if fraction else ''}{fraction}{'Z' if match[3] in ZERO else match[3]}"


def codings(given: list[JsonObject]) -> list[Json]:
    """Return the codings of a concept: the normalised ones, each once, then the originals that differ."""
    normalised: list[Json] = []
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
            normalised.append(one)
            seen.add(own)
        else:
            kept.append(one if chosen or kept else {**one, "userSelected": True})
            if own not in seen and own not in originals:
                normalised.append({**one, **({"system": system} if system else {}), **({"code": code} if code else {})})
                seen.add(own)
    return [*normalised, *kept]


def quantity(part: JsonObject) -> JsonObject:
    """Return a Quantity with the UCUM code of its unit, if known; the original stays as `unit`."""
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

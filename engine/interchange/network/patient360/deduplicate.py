"""The key of a fact: two resources of one chart state the same fact by type, principal coding, clinical date and value.

A wrong 'same' loses a fact, a wrong 'different' shows one twice; in doubt, facts are different.

- Principal coding: the normalised coding of the first system of RANKED that the concept has (of several codes the
  smallest); without codings, the text without case. A fact with neither is only the same if all its content is.
- Clinical date: a time counts to the minute, in any zone; a date counts with its precision: `2024-03` is not
  `2024-03-05`. Else `2024-03-05` and `2024-03-07` would both equal `2024-03`, and the chart would depend on the order
  of the documents. The date of recording does not count where each source records anew (allergies, medication
  statements, family history).
- Undated: two undated problems, allergies or medications of one code are the same. Undated EVENTS, such as
  measurements, are only the same if all their content is.
- Value: the elements in FACTS, numbers by value and UCUM unit, with the body site; of a DiagnosticReport its
  conclusion. A negation (refuted, not done, not taken) is part of the value.
- A document is the same by its master identifier; without one, by its content.
- Statuses do not count: a problem that is resolved now is the same problem. An entry in error is no fact.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical import terms
from engine.interchange.clinical.terms import canonical_code, canonical_system
from engine.interchange.network.patient360.standardise import standardised
from engine.interchange.rest.resource.elements import values
from engine.interchange.store.search.date import span
from engine.interchange.store.search.text import fold
from engine.interchange.store.transaction import EPOCH

ERROR: Final = "entered-in-error"
# Elements about the storage of a statement, which are not part of it.
NOT_STATED: Final = frozenset(
    {"id", "meta", "identifier", "text", "contained", "extension", "implicitRules", "language"}
)


class Key(NamedTuple):
    """The identity of a fact within the chart of one patient."""

    type: str
    coding: str
    date: str
    value: str


@dataclass(frozen=True, slots=True)
class Fact:
    """The elements of a type's key: the first of `coding` and of `date` with a value, and all of `value`.

    `untimed` are part of the value if the date has no time: nobody begins two visits in one minute.
    `error` is the element with the code entered-in-error, `denied` are the elements and codes of a negation.
    """

    coding: tuple[str, ...]
    date: tuple[str, ...] = ()
    value: tuple[str, ...] = ()
    untimed: tuple[str, ...] = ()
    error: str = "status"
    denied: Mapping[str, frozenset[str]] = field(default_factory=dict)


def _not(element: str, *codes: str) -> dict[str, frozenset[str]]:
    return {element: frozenset(codes)}


FACTS: Final = {
    "AllergyIntolerance": Fact(
        ("code", "reaction.substance"),
        ("onset[x]",),
        error="verificationStatus",
        denied=_not("verificationStatus", "refuted"),
    ),
    "CarePlan": Fact(("category", "title"), ("period",), ("title", "description", "intent", "activity")),
    "Condition": Fact(
        ("code",),
        ("onset[x]", "recordedDate"),
        ("bodySite",),
        error="verificationStatus",
        denied=_not("verificationStatus", "refuted"),
    ),
    "Coverage": Fact(("type",), ("period",), ("subscriberId", "identifier", "class", "payor")),
    "DiagnosticReport": Fact(("code",), ("effective[x]", "issued"), ("conclusion", "conclusionCode", "presentedForm")),
    "DocumentReference": Fact(("type",), ("context.period", "date"), ("content",)),
    "Encounter": Fact(("type", "class"), ("period",), ("class",), untimed=("serviceProvider", "location.location")),
    "FamilyMemberHistory": Fact(("relationship",), (), ("name", "condition", "born[x]", "deceased[x]")),
    "Goal": Fact(("description",), ("start[x]",), ("target",), error="lifecycleStatus"),
    "Immunization": Fact(("vaccineCode",), ("occurrence[x]",), denied=_not("status", "not-done")),
    "MedicationRequest": Fact(
        ("medication[x]",),
        ("authoredOn",),
        ("intent", "dosageInstruction"),
        denied=_not("doNotPerform", "True"),
    ),
    "MedicationStatement": Fact(("medication[x]",), ("effective[x]",), ("dosage",), denied=_not("status", "not-taken")),
    "Observation": Fact(
        ("code",), ("effective[x]", "issued"), ("value[x]", "component", "dataAbsentReason", "bodySite")
    ),
    "Procedure": Fact(("code",), ("performed[x]",), ("bodySite",), denied=_not("status", "not-done")),
    "ServiceRequest": Fact(
        ("code",),
        ("occurrence[x]", "authoredOn"),
        ("intent", "bodySite"),
        denied=_not("doNotPerform", "True"),
    ),
}
# The elements of a Coding, or of a concept with a text alone; and of a Reference.
CODING: Final = frozenset({"id", "system", "version", "code", "display", "userSelected", "text"})
REFERENCE: Final = frozenset({"id", "reference", "type", "identifier", "display"})
RESULT: Final = ("value", "component", "dataAbsentReason", "hasMember")
# Types of events: undated ones cannot be compared.
EVENTS: Final = frozenset({"DiagnosticReport", "Encounter", "Immunization", "Observation", "Procedure"})
# The elements of a part of a resource that count.
PARTS: Final = {
    "activity": ("detail.code", "detail.description", "detail.scheduled[x]"),
    "class": ("code", "type", "value"),
    "component": ("code", "value[x]", "dataAbsentReason"),
    "condition": ("code", "onset[x]"),
    "content": ("attachment.hash", "attachment.url", "attachment.data"),
    "dosage": ("doseAndRate.dose[x]", "timing.repeat", "timing.code", "route", "asNeeded[x]"),
    "dosageInstruction": ("doseAndRate.dose[x]", "timing.repeat", "timing.code", "route", "asNeeded[x]"),
    "presentedForm": ("hash", "url", "data", "title"),
    "target": ("measure", "detail[x]", "due[x]"),
}
# The systems by rank: the coding of the first one is the principal coding of a concept.
RANKED: Final = (
    terms.RXNORM,
    terms.CVX,
    terms.LOINC,
    terms.SNOMED,
    terms.ICD_10_CM,
    terms.ICD_10,
    terms.ICD_10_PCS,
    terms.CPT,
    terms.UNII,
    terms.NDC,
)
RANKS: Final = {system: rank for rank, system in enumerate(RANKED)}


def key_of(resource: JsonObject) -> Key:
    """Return the key of a resource of a type of FACTS, also of one that was entered in error."""
    name = resource["resourceType"]
    fact = FACTS[name]
    number = resource.get("masterIdentifier", {})
    if number.get("value"):
        # A DocumentReference has the same master identifier at each source.
        return Key(name, "", "", meaning({"system": "", **number}))
    coding = next((meant for path in fact.coding if (meant := _meant(values(resource, path)))), "")
    date = next((when for path in fact.date if (when := _meant(values(resource, path)))), "")
    counted = fact.value if "T" in date else (*fact.value, *fact.untimed)
    value = "; ".join(f"{path}={meant}" for path in counted if (meant := _value(resource, path)))
    if not coding or (name in EVENTS and not date) or (name == "Observation" and _silent(resource)):
        value = f"{value}; {_digest(resource)}"
    return Key(name, coding, date, f"not {value}" if _denied(resource, fact) else value)


def in_error(resource: JsonObject) -> bool:
    """True if a resource was entered in error."""
    return ERROR in _codes(values(resource, FACTS[resource["resourceType"]].error))


def principal(concept: JsonObject) -> str:
    """Return the principal coding of a concept or Coding as `system|code`, else its text; '' for neither."""
    codings = concept.get("coding", [concept])
    meant = []
    for coding in codings:
        if coding.get("code"):
            system = canonical_system(coding.get("system", ""))
            meant.append((RANKS.get(system, len(RANKS)), system, canonical_code(system, coding["code"])))
    if meant:
        _, system, code = min(meant)
        return f"{system}|{code}"
    return _text(concept.get("text") or next((coding["display"] for coding in codings if coding.get("display")), ""))


def when(text: str) -> str:
    """Return a date unchanged, and a time as its minute in UTC."""
    covered = span(text) if "T" in text else None
    if covered is None:
        return text
    return (EPOCH + timedelta(minutes=covered[0] // 60_000)).strftime("%Y-%m-%dT%H:%MZ")


def _silent(resource: JsonObject) -> bool:
    """True if an observation has no result."""
    return not any(name.startswith(RESULT) for name in resource)


def _denied(resource: JsonObject, fact: Fact) -> bool:
    return any(not codes.isdisjoint(_codes(values(resource, path))) for path, codes in fact.denied.items())


def _codes(found: Iterable[Json]) -> set[str]:
    codes: set[str] = set()
    for one in found:
        codes |= {part.get("code", "") for part in one.get("coding", ())} if isinstance(one, dict) else {str(one)}
    return codes


def _value(resource: JsonObject, path: str) -> str:
    inner = PARTS.get(path)
    parts = values(resource, path)
    if inner is None:
        return _meant(parts)
    return _several(_part(part, inner) for part in parts if isinstance(part, dict))


def _part(part: JsonObject, inner: tuple[str, ...]) -> str:
    """Return the elements of a part that count, and its text if it lacks the first of them."""
    texts = [f"{path}={meant}" for path in inner if (meant := _meant(values(part, path)))]
    texts += [_text(part["text"])] if "text" in part and not values(part, inner[0]) else []
    return ", ".join(texts)


def _meant(found: Iterable[Json]) -> str:
    return _several(meaning(one) for one in found)


def _several(texts: Iterable[str]) -> str:
    return " & ".join(sorted({text for text in texts if text}))


def meaning(value: Json) -> str:
    """Return a text of a value's content, equal for equal content, '' for none."""
    if isinstance(value, dict):
        return _object(value)
    if isinstance(value, list):
        return _several(meaning(one) for one in value)
    if isinstance(value, str):
        return when(value) if span(value) else _text(value)
    return str(value) if isinstance(value, bool) else _number(value)


def _object(value: JsonObject) -> str:
    # A Timing may have a code alone, which is a concept of its own.
    if "coding" in value or (value.keys() <= CODING and isinstance(value.get("code", ""), str)):
        return principal(value)
    if value.keys() <= REFERENCE:
        # Ids differ between sources; the display identifies the target.
        return _text(value.get("display", ""))
    if "start" in value:
        return when(value["start"])
    if "end" in value:
        return f"until {when(value['end'])}"
    if "value" in value:
        return _quantity(value)
    return ", ".join(
        f"{name}={meant}" for name in sorted(value) if name not in NOT_STATED if (meant := meaning(value[name]))
    )


def _quantity(value: JsonObject) -> str:
    """Return number and unit of a Quantity, or system and value of an Identifier."""
    if isinstance(value["value"], str):
        return f"{canonical_system(value.get('system', ''))}|{value['value']}"
    return f"{value.get('comparator', '')}{meaning(value['value'])} {_unit(value)}"


def _unit(value: JsonObject) -> str:
    system, code, unit = (value.get(name, "") for name in ("system", "code", "unit"))
    if code and canonical_system(system) not in {"", terms.UCUM}:
        return f"{system}|{code}"
    return terms.ucum(code) or terms.ucum(unit) or code or _text(unit)


def _number(value: Json) -> str:
    try:
        return f"{Decimal(str(value)).normalize():f}"
    except InvalidOperation:
        return str(value)


def _text(text: str) -> str:
    return " ".join(fold(text).split())


def _digest(resource: JsonObject) -> str:
    """Return the hash of a resource's content."""
    stated = {name: value for name, value in standardised(resource).items() if name not in NOT_STATED}
    return sha256(json.dumps(_stated(stated), sort_keys=True).encode()).hexdigest()


def _stated(value: Json) -> Json:
    """Return a value without references and ids, which differ between sources."""
    if isinstance(value, dict):
        kept = {name: _stated(one) for name, one in value.items() if name not in {"reference", "id"}}
        return {name: one for name, one in kept.items() if one not in ({}, [])}
    if isinstance(value, list):
        return [one for part in value if (one := _stated(part)) not in ({}, [])]
    return value if isinstance(value, str | bool | None) else _number(value)

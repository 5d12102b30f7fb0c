"""Which section an observation belongs to (vital signs, social history, results), and what the entries share."""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import LOINC, add_code, has_code, system_by_oid
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, add_value, template
from engine.interchange.clinical.ccda.people import add_performer
from engine.interchange.clinical.ccda.quantities import add_observed, add_range, shown_range
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import cell
from engine.interchange.clinical.ccda.times import Span, add_when, span_of

RESULT: Final = template("4.2", "2015-08-01")
# Statuses of a result; `registered` and its like are under way.
STATUSES: Final[Mapping[str, str]] = {
    "registered": "active",
    "partial": "active",
    "preliminary": "active",
    "final": "completed",
    "amended": "completed",
    "corrected": "completed",
    "appended": "completed",
    "cancelled": "cancelled",
    "unknown": "held",
}
# Of these nothing was measured: vital signs have no status that says so, results have.
UNMADE: Final = frozenset({"registered", "cancelled"})
SMOKING: Final = "72166-2"
TOBACCO: Final = "11367-0"
BIRTH_SEX: Final = "76689-9"
SOCIAL: Final = (SMOKING, TOBACCO, BIRTH_SEX, "82810-3", "76690-7", "76691-5")
INTERPRETATION: Final = "2.16.840.1.113883.5.83"


def in_category(observation: JsonObject, code: str) -> bool:
    """Say whether an observation is of a category."""
    return any(has_code(category, code) for category in observation.get("category") or ())


def is_social(observation: JsonObject) -> bool:
    """Say whether an observation is of the social history."""
    return in_category(observation, "social-history") or has_code(observation.get("code"), *SOCIAL)


def is_vital(observation: JsonObject) -> bool:
    """Say whether an observation is a vital sign that is a quantity, by itself or in its components."""
    parts = (observation, *(observation.get("component") or ()))
    measured = any("valueQuantity" in part for part in parts)
    worded = any(key.startswith("value") and key != "valueQuantity" for part in parts for key in part)
    made = observation.get("status") not in UNMADE
    return made and in_category(observation, "vital-signs") and measured and not worded


def parts_of(observation: JsonObject) -> Sequence[JsonObject]:
    """Return an observation and its components, each with a code and a value; not one that only holds them."""
    components = observation.get("component") or ()
    own = any(key.startswith("value") for key in observation) or not components
    return (*([observation] if own else []), *components)


def when(observation: JsonObject) -> Span:
    """Return when an observation was made."""
    return span_of(observation, "effective")


def add_result(record: DocumentRecord, made: Element, observation: JsonObject, part: JsonObject, anchor: str) -> None:
    """Fill the observation of a result up to its notes; `part` holds its code and value: itself or a component."""
    add_templates(made, RESULT)
    record.add_ids(made, observation, part_name(observation, part))
    add_code(made, "code", part.get("code"), prefer=(LOINC,), anchor=cell(anchor))
    add_reference(made, anchor)
    add(made, "statusCode", code=STATUSES.get(observation.get("status", ""), "held"))
    add_when(made, "effectiveTime", when(observation), record.zone)
    add_observed(made, part, record.zone, cell(anchor, 2))
    add_interpretations(made, part)
    if observation.get("method"):
        add_code(made, "methodCode", observation["method"])
    if observation.get("bodySite"):
        add_code(made, "targetSiteCode", observation["bodySite"])
    for performer in observation.get("performer") or () if part is observation else ():
        add_performer(made, record, performer, observation)


def part_name(observation: JsonObject, part: JsonObject) -> str:
    """Return the name of a component's entry, by its place; '' for the observation's own entry."""
    if part is observation:
        return ""
    return f"component-{next(at for at, one in enumerate(observation['component']) if one is part)}"


def add_interpretations(made: Element, part: JsonObject) -> None:
    """Append how a value is judged: codes of the vocabulary only."""
    for concept in part.get("interpretation") or ():
        for coding in concept.get("coding") or ():
            if coding.get("code") and coding.get("system", "").endswith(("ObservationInterpretation", "0078")):
                interpretation = add(made, "interpretationCode", code=coding["code"], codeSystem=INTERPRETATION)
                interpretation.set("codeSystemName", system_by_oid(INTERPRETATION).name)
                if coding.get("display"):
                    interpretation.set("displayName", coding["display"])
                break


def add_reference_range(made: Element, bounds: JsonObject) -> None:
    """Append a reference range: its bounds, or its text; one that says neither is left out."""
    text = bounds.get("text") or ""
    if not (text or bounds.get("low") or bounds.get("high")):
        return
    found = add(add(made, "referenceRange"), "observationRange")
    if text:
        add(found, "text", text)
    if bounds.get("low") or bounds.get("high"):
        add_range(found, "value", bounds, data_type="IVL_PQ")
    else:
        add_value(found, "ST").text = text


def shown_bounds(part: JsonObject) -> str:
    """Return the reference ranges of a value as people read them."""
    return "; ".join(one.get("text") or shown_range(one) for one in part.get("referenceRange") or ())

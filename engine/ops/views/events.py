"""An event of a FHIR server as people read it: its JSON, line by line, and the patient in it."""

from typing import Final

import orjson

from engine.errors import EventError
from engine.fhir.event import FhirEvent, read_event
from engine.fhir.json import JsonObject

PATIENT: Final = "Patient"


def json_text(raw: bytes) -> str:
    """Return a JSON object with a line for each value; '' for what is none."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() if isinstance(value, dict) else ""


def patient_of(raw: bytes) -> JsonObject | None:
    """Return the Patient that an event is about or brought along; None where it is not one."""
    try:
        event = read_event(raw)
    except EventError:
        return None
    found = {id(one): one for one in _at_hand(event) if one.get("resourceType") == PATIENT}
    return next(iter(found.values())) if len(found) == 1 else None


def _at_hand(event: FhirEvent) -> list[JsonObject]:
    if event.resource is None or event.type_ == PATIENT:
        return [event.resource] if event.resource is not None else []
    return list(event.related.values())

"""The JSON Schemas of the files of an outgoing mapping, made of the engine's own tables."""

from typing import Final

from engine.config.schema import DRAFT, JsonSchema, patterned
from engine.hl7.events import TRIGGERS, VERSIONS
from engine.mapping.files.overlay import EXTENDS, REPLACES
from engine.mapping.files.reference import data_types, elements, resource_types, segments
from engine.mapping.outgoing.case import CASE_KEYS, DESTINATION_KEYS, EXPECT_KEYS, OLDEST
from engine.mapping.outgoing.change import ChangeKind
from engine.mapping.outgoing.compile import CHOICE_KEYS, TOP_KEYS
from engine.mapping.outgoing.functions import OUTGOING_FUNCTIONS
from engine.mapping.outgoing.template import ENTRY_KEYS, SEGMENT_KEYS, SUBJECTS, TYPE_KEYS

TEXT: Final[JsonSchema] = {"type": ["string", "number", "boolean"]}
TEXTS: Final[JsonSchema] = {"anyOf": [TEXT, {"type": "array", "items": TEXT}, {"type": "null"}]}
MAP: Final[JsonSchema] = {"type": "object"}
NULL: Final[JsonSchema] = {"type": "null"}
PATH: Final[JsonSchema] = {
    "type": "string",
    "description": "element, element[0], extension('URL'), where(condition), newest(path), first(), last(), skip(1), "
    "ofType(Type), resolve(), joined by dots",
}
CONDITION: Final[JsonSchema] = {
    "type": "string",
    "description": "PATH, not PATH, PATH = value, PATH in (a, b), PATH starts-with text, and, or",
}
SEGMENT: Final = "Expected a segment of HL7, such as PID, or a Z segment, such as ZPI."
FIELD: Final = "Expected a field of the segment, such as PID-5."
COMPONENT: Final = "Expected a component of the data type, such as CX.4 or CX.4.1."
# A segment, a field, or a part of one, as cases name it.
PLACE: Final = r"^[A-Z][A-Z0-9]{2}((\(\d{1,3}\))?-\d{1,3}.*)?$"


def outgoing_schemas() -> dict[str, JsonSchema]:
    """Return the schema of each kind of file: which change is which event, segment, data type and cases."""
    return {
        "out-mapping": _mapping(),
        "out-segment": _segment(),
        "out-datatype": _datatype(),
        "out-tests": _tests(),
    }


def _object(keys: frozenset[str], known: dict[str, JsonSchema], *required: str) -> JsonSchema:
    properties = {key: known.get(key, {}) for key in sorted(keys)}
    made: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, **({"required": list(required)} if required else {})}


def _document(title: str, keys: frozenset[str], known: dict[str, JsonSchema], *required: str) -> JsonSchema:
    whole = keys | {REPLACES} if EXTENDS in keys else keys
    return {"$schema": DRAFT, "title": title, **_object(whole, {EXTENDS: TEXT, REPLACES: TEXT, **known}, *required)}


def _mapping() -> JsonSchema:
    choice = _object(
        CHOICE_KEYS,
        {
            "when": CONDITION,
            "unless": CONDITION,
            "event": {"enum": sorted(TRIGGERS)},
            "segments": TEXTS,
            "nothing": {**TEXT, "description": "nothing is sent, for this reason"},
        },
    )
    events = _object(
        frozenset(kind.value for kind in ChangeKind),
        {kind.value: {"anyOf": [choice, {"type": "array", "items": choice}]} for kind in ChangeKind},
    )
    systems = {"type": "object", "additionalProperties": TEXT, "description": "types of numbers and their FHIR systems"}
    known = {"mapping": TEXT, "systems": systems, "events": events}
    return _document("Which change is which event", TOP_KEYS, known, "mapping")


def _expression() -> JsonSchema:
    lines = [f"{name}: {function.text}" for name, function in OUTGOING_FUNCTIONS.items()]
    text = "PATH | function | when PATH = value | else PATH ...\n\n" + "\n".join(lines)
    return {**TEXT, "description": text}


def _entry() -> JsonSchema:
    known = {"each": PATH, "as": {"enum": sorted(data_types())}, "when": CONDITION, "unless": CONDITION, "needs": TEXTS}
    made = _object(ENTRY_KEYS, known)
    return {**made, "patternProperties": {r"^[A-Z]{2,3}\.\d{1,2}(\.\d{1,2})?$": {"$ref": "#/definitions/expression"}}}


def _segment() -> JsonSchema:
    one: JsonSchema = {"anyOf": [{"$ref": "#/definitions/expression"}, {"$ref": "#/definitions/entry"}, NULL]}
    field = {"anyOf": [*one["anyOf"], {"type": "array", "items": one}]}
    fields = {"type": "object", "patternProperties": {r"^[A-Z][A-Z0-9]{2}-\d{1,3}$": field}, "errorMessage": FIELD}
    known: dict[str, JsonSchema] = {
        "segment": {
            "anyOf": [{"enum": sorted(segments())}, {"type": "string", **patterned("^Z[A-Z0-9]{2}$", SEGMENT)}]
        },
        "of": {"enum": sorted(SUBJECTS)},
        "each": PATH,
        "when": CONDITION,
        "unless": CONDITION,
        "needs": TEXTS,
        "fields": {**fields, "additionalProperties": False},
    }
    schema = _document("Field by field, where a segment comes from", SEGMENT_KEYS, known, "segment")
    return {**schema, "definitions": {"entry": _entry(), "expression": _expression()}}


def _datatype() -> JsonSchema:
    types = sorted(name for name in elements() if "_" not in name)
    components = {
        "type": "object",
        "patternProperties": {r"^[A-Z]{2,3}\.\d{1,2}(\.\d{1,2})?$": _expression()},
        "additionalProperties": False,
        "errorMessage": COMPONENT,
    }
    known: dict[str, JsonSchema] = {
        "datatype": {"enum": sorted(data_types())},
        "of": {"enum": types},
        "needs": TEXTS,
        "components": components,
    }
    return _document("What a FHIR type becomes in HL7", TYPE_KEYS, known, "datatype")


def _tests() -> JsonSchema:
    expect = _object(EXPECT_KEYS, dict.fromkeys(EXPECT_KEYS, TEXTS))
    resource: JsonSchema = {"type": "object", "properties": {"resourceType": {"enum": sorted(resource_types())}}}
    destination = _object(
        DESTINATION_KEYS,
        {**dict.fromkeys(DESTINATION_KEYS, TEXT), "version": {"enum": list(VERSIONS[OLDEST:])}, "authorities": MAP},
    )
    case = _object(
        CASE_KEYS,
        {
            "case": {**TEXT, "description": "the case in words"},
            "change": {"enum": [kind.value for kind in ChangeKind]},
            "at": TEXT,
            "patient": resource,
            "encounter": resource,
            "merged": resource,
            "resources": {"type": "object", "additionalProperties": resource},
            "destination": destination,
            "expect": {**expect, "patternProperties": {PLACE: TEXT}},
        },
        "change",
        "patient",
        "expect",
    )
    tests = frozenset({"tests"})
    return _document("Cases: a change, and its message", tests, {"tests": {"type": "array", "items": case}}, "tests")

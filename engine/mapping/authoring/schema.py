"""JSON Schemas of the authored files for editors, made of the engine's own tables of checks."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from engine.config.schema import DRAFT, EDITOR, JsonSchema, patterned
from engine.mapping.authoring.case import CASE_KEYS, CHANNEL_KEYS, EXPECT_KEYS, LISTED
from engine.mapping.files import alike
from engine.mapping.files.document import OUT, OUT_DATATYPES, OUT_SEGMENTS, PATIENT_KEYS
from engine.mapping.files.overlay import ADD, EXTENDS, FIELD, REPLACES
from engine.mapping.files.reference import ReferenceElement, data_types, elements, resource_types
from engine.mapping.files.table import UnmappedPolicy
from engine.mapping.language.check_table import BACK, ROW_KEYS
from engine.mapping.language.check_table import KEYS as TABLE_KEYS
from engine.mapping.language.expression import PART
from engine.mapping.language.function_context import Function
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.number_form import FORM_KEYS, NORMALISE
from engine.mapping.language.template import RESERVED, TYPE_KEYS
from engine.mapping.outgoing.schema import outgoing_schemas
from engine.mapping.resource import lists, referred, resources, status
from engine.mapping.resource import provenance as attest
from engine.mapping.resource.type_rules import is_listed
from engine.mapping.subject.events import (
    ELSEWHERE,
    HISTORIC_KEYS,
    IDENTITY_KEYS,
    PEOPLE_KEYS,
    RULE_KEYS,
    TOP_KEYS,
    EventAction,
    Verb,
)
from engine.mapping.subject.filters import DOES, FILTER_KEYS, FILTERS
from engine.mapping.subject.identity_fields import FIELD_KEYS, FROM

# The kinds of files by their folder below a mapping folder; the event table is directly in it.
FOLDERS: Final = {
    "resources": "resource",
    "datatypes": "datatype",
    "tables": "table",
    "tests": "tests",
    OUT: "out-mapping",
    OUT_SEGMENTS: "out-segment",
    OUT_DATATYPES: "out-datatype",
    f"{OUT}/tests": "out-tests",
}
EVENTS: Final = r"^([AZ]\d\d|[A-Z][A-Z0-9]{2}\^[A-Z][A-Z0-9]\d)$"
HEAD: Final = rf"(?:'[^']*'|{FIELD.pattern}|{PART.pattern}|[^A-Z' |][^ |]*)"
# In YAML a bare number or `yes` is not text to an editor; to the engine all scalars are texts.
TEXT: Final[JsonSchema] = {"type": ["string", "number", "boolean"]}
TEXTS: Final[JsonSchema] = {"anyOf": [TEXT, {"type": "array", "items": TEXT}, {"type": "null"}]}
PART_OF_TYPE: Final = "Expected a data type of FHIR, or a part of a resource, such as Patient_Contact."
EVENT: Final = "Expected a trigger event, such as A01 or ORU^R01."
EXPRESSION: Final = (
    "Expected PATH | function | when PATH = value | else PATH, such as PID-7 | date, with a function that there is: "
    "point at the key to see all of them."
)
CONDITION: Final[JsonSchema] = {
    "type": "string",
    "description": "PATH, not PATH, PATH = value, PATH in (a, b), PATH < 2008-01-01, PATH starts-with text, "
    "PATH matches 'pattern', and, or",
}
NULL: Final[JsonSchema] = {"type": "null"}
MOMENTS: Final = ("arrives", "leaves")
FURTHER: Final[JsonSchema] = {"type": "array", "items": {"$ref": f"#/definitions/{referred.IDENTIFIER}"}}
REPLACED: Final = "in place of `extends`: nothing of the file that ships under this name holds"
LIST: Final[JsonSchema] = {"enum": ["snapshot", "additive"]}


def editor_line(path: Path) -> str:
    """Return the line by which an editor finds the schema of a file, given its path below a mapping folder."""
    kind = kind_of_file(path)
    return f"{EDITOR}{'../' * (len(path.parts) - 1)}schema/{kind}.json"


def kind_of_file(path: Path) -> str:
    """Return the kind of a file by its path below a mapping folder; files of one mapping alone are below its name."""
    parent = path.parent
    return FOLDERS.get(parent.as_posix()) or FOLDERS.get(parent.name, "mapping")


def schemas() -> dict[str, JsonSchema]:
    """Return the schema of each kind of file: event table, resource, data type, table, cases, the outgoing ones."""
    return {
        "mapping": _mapping(),
        "resource": _resource(),
        "datatype": _datatype(),
        "table": _table(),
        "tests": _tests(),
        **outgoing_schemas(),
    }


def _document(title: str, keys: Collection[str], known: Mapping[str, Any], **more: Any) -> JsonSchema:
    if EXTENDS in keys:
        keys, known = {*keys, REPLACES}, {**known, REPLACES: {**TEXT, "description": REPLACED}}
    return {"$schema": DRAFT, "title": title, **_object(keys, known), **more}


def _object(keys: Iterable[str], known: Mapping[str, Any], *required: str) -> JsonSchema:
    """Return the schema of a map of certain keys; keys without a schema may hold anything."""
    made: JsonSchema = {"type": "object", "properties": {key: known.get(key, {}) for key in sorted(keys)}}
    return {**made, "additionalProperties": False, **({"required": list(required)} if required else {})}


def _named(patterns: JsonSchema, expected: str) -> JsonSchema:
    """Return the schema of a map whose keys have these patterns; an editor says what was expected of another one."""
    return {"type": "object", "patternProperties": patterns, "errorMessage": expected}


def _ref(name: str) -> JsonSchema:
    return {"$ref": f"#/definitions/{name}"}


def _any(*choices: JsonSchema) -> JsonSchema:
    return {"anyOf": list(choices)}


# The event table


def _mapping() -> JsonSchema:
    types = sorted(name.lower() for name in _resource_types())
    actions = [action.value for action in EventAction if action not in ELSEWHERE]
    # Some actions on the patient are acts by their words, too; an enum has each once.
    acts = {"enum": list(dict.fromkeys([*actions, *(f"{verb.value} {name}" for verb in Verb for name in types)]))}
    rule = _object(
        RULE_KEYS,
        {
            "rule": {**TEXT, "description": "the name that operators read"},
            "do": _any(acts, {"type": "array", "items": acts}),
            "if_absent": {"enum": ["create", "hold", "ignore"]},
            "reactivate": {"enum": ["yes", "no", True, False]},
            "clears": TEXTS,
            "each": {"enum": ["PID"]},
            "skip": {**TEXT, "description": "accepted and filtered by this rule"},
            "unhandled": {**TEXT, "description": "accepted and filtered, or refused where the channel says so"},
        },
    )
    named = _object(FIELD_KEYS, dict.fromkeys(FIELD_KEYS, TEXT), "field", "type")
    own = {FROM: _any(TEXT, {"type": "array", "items": _any(TEXT, named)}), "untyped": TEXT}
    form = _object(
        FORM_KEYS,
        {
            "remove": {**TEXT, "description": "characters that are left out, such as '-. '"},
            "case": {"enum": ["upper", "lower"]},
            "leading_zeros": {"enum": ["strip"]},
            "pad": {"type": ["integer", "string"], "description": "leading zeros up to this many characters"},
            "keep_original": {"enum": ["yes", "no", True, False]},
        },
    )
    forms = {"type": "object", "additionalProperties": form, "description": "the form of an authority's numbers"}
    identity = _object(IDENTITY_KEYS, {**own, NORMALISE: forms, "not_identity": TEXTS, "placeholders": TEXTS})
    people = _object(PEOPLE_KEYS, dict.fromkeys(PEOPLE_KEYS, TEXTS))
    said = "names of coding systems and what this feed means by them: {I10: icd-10-cm}"
    known = {
        **dict.fromkeys(("mapping", "extends", "others"), TEXT),
        "assume": {"type": "object", "additionalProperties": TEXT, "description": said},
        "resources": TEXTS,
        "identity": identity,
        "placeholder_people": people,
        FILTERS: {"type": "array", "items": _filter()},
        "historic": _object(HISTORIC_KEYS, dict.fromkeys(HISTORIC_KEYS, TEXT)),
        "events": {**_named({EVENTS: rule}, EVENT), "additionalProperties": False},
    }
    return _document("Which trigger event does what", TOP_KEYS, known, required=["mapping"])


# Resources and data types


def _filter() -> JsonSchema:
    known = {"rule": {**TEXT, "description": "the name that operators see"}, "when": CONDITION, "do": {"enum": [*DOES]}}
    return {**_object(FILTER_KEYS, known), "required": sorted(FILTER_KEYS)}


def _resource() -> JsonSchema:
    names = sorted(_resource_types())
    known: JsonSchema = {"resource": {"enum": names}, "extends": TEXT, "from": {"enum": sorted(data_types())}}
    text_or = {"missing": resources.MISSING_KEYS, "merge": resources.MERGE_KEYS}
    known |= {key: _any(TEXT, _object(keys, dict.fromkeys(keys, TEXT))) for key, keys in text_or.items()}
    known |= {"patient": TEXT, "late": TEXT, "part": TEXT, "identity": _identity(), "status": _status()}
    known |= {"within": {"enum": list(lists.WITHIN)}, "list": LIST, "needs": _ref("needs"), "when": CONDITION}
    found = {**TEXT, "description": "only found, never made: the note where it is not"}
    known |= {"grows": TEXTS, "stays": TEXTS, referred.FIND: found}
    known |= {referred.ALSO: FURTHER, "along": {"enum": ["yes", "no", True, False]}}
    known |= {attest.TARGET: TEXT, "key": _ref("each")}
    keys = PATIENT_KEYS | resources.FILE_KEYS | referred.FILE_KEYS | lists.FILE_KEYS | attest.FILE_KEYS | {ADD}
    of_type = [
        {"if": {"properties": {"resource": {"const": name}}}, "then": {"properties": _sections(name)}} for name in names
    ]
    return _document(
        "Element by element, where a resource comes from",
        keys,
        known,
        required=["resource"],
        allOf=of_type,
        definitions=_definitions(names),
    )


def _sections(name: str) -> JsonSchema:
    level = _object({"identity", "elements"}, {"identity": _identity(), "elements": _ref(name)})
    sections = dict.fromkeys(("elements", "merged", "new", ADD), _any(_ref(name), NULL))
    listed = {"key": _ref("each"), "with": _ref("each"), "action": _ref("expression"), "when": CONDITION}
    listed |= {"list": LIST, "same_key": {"enum": ["first", "each"]}, "elements": _ref(name)}
    listed |= {"visit": _ref("Encounter"), "within": {"enum": list(lists.WITHIN)}, "led_by": TEXTS, alike.LIKE: TEXT}
    kind = _object(
        referred.KIND_KEYS,
        {
            "from": {"enum": sorted(data_types())},
            "identity": _identity(),
            "elements": _ref(name),
            referred.ALSO: FURTHER,
        },
    )
    segment = _object(lists.SEGMENT_KEYS | {alike.LIKE}, listed)
    segments = {"type": "object", "additionalProperties": _any(segment, NULL)}
    kinds = {"type": "object", "additionalProperties": kind}
    levels = {"type": "array", "items": level}
    return {**sections, "levels": levels, referred.KINDS: kinds, "retired": _ref(name), lists.SEGMENTS: segments}


def _identity() -> JsonSchema:
    path = _any(_ref("expression"), {"type": "array", "items": _ref("expression")})
    part = _any(_ref("expression"), _object(resources.JOIN_KEYS, {resources.JOIN: path, "type": TEXT}, resources.JOIN))
    numbers, keys = _any(part, {"type": "array", "items": part}), resources.IDENTITY_KEYS | referred.IDENTITY_KEYS
    own = {"authority": _any(path, {"type": "array", "items": path}), referred.NUMBER: _ref(referred.IDENTIFIER)}
    own |= {"types": {"type": "object", "additionalProperties": TEXT}, **dict.fromkeys(resources.NUMBERS, numbers)}
    return _object(keys, {**dict.fromkeys(keys, path), **own})


def _status() -> JsonSchema:
    paths = {"when": CONDITION, "to": _ref("expression"), "new": _ref("expression"), "otherwise": TEXT}
    move = _object(status.MOVE_KEYS, {**dict.fromkeys(("only", "never", "reopens"), TEXTS), **paths})
    trail = _object(
        status.TRAIL_KEYS, dict.fromkeys(("list", "here", "prior"), TEXT) | dict.fromkeys(MOMENTS, CONDITION)
    )
    known = {"element": TEXT, "moves": {"type": "array", "items": move}, "ended": TEXTS, "forgets": TEXTS}
    known |= {"trail": trail}
    return _object(status.STATUS_KEYS, known)


def _datatype() -> JsonSchema:
    names = sorted(name for name in elements() if "_" not in name and name not in resource_types())
    of_type = [
        {
            "if": {"properties": {"to": {"const": name}}, "required": ["to"]},
            "then": {"properties": {"elements": _ref(name), "also": {"type": "array", "items": _ref(name)}}},
        }
        for name in names
    ]
    known = {
        "datatype": {"enum": sorted(data_types())},
        "extends": TEXT,
        "to": _any({"enum": names}, patterned("^[A-Z][A-Za-z]+_[A-Za-z0-9_]+$", PART_OF_TYPE)),
        "needs": {"type": "array", "items": TEXT},
        "value": _ref("expression"),
    }
    schema = _document("What an HL7 data type becomes", TYPE_KEYS, known, required=["datatype"])
    return {**schema, "allOf": of_type, "definitions": _definitions(names)}


def _definitions(names: Iterable[str]) -> JsonSchema:
    """Return the schemas of all types reached from the named ones, for single values and for lists."""
    first = _object({"first"}, {"first": {"type": "array", "items": _any(_ref("expression"), {"type": "object"})}})
    found: JsonSchema = {
        "expression": _expression(),
        "first": first,
        "needs": {"type": "array", "items": TEXT},
        **_forms(""),
    }
    found["each"] = _any(TEXT, {"type": "array", "items": TEXT})
    found["condition"] = CONDITION
    waiting = ["Element", *names]
    while waiting:
        name = waiting.pop()
        if name not in found and name in elements():
            found |= {name: _type(name), **_forms(name)}
            waiting += [one.type_ for one in elements()[name].values()]
    return dict(sorted(found.items()))


def _forms(name: str) -> JsonSchema:
    """Return the schemas of one value of a type (any primitive: empty), and of a list of it."""
    one = [_ref("expression"), _ref("first"), *([_ref(name)] if name else [])]
    return {
        _key("one", name): _any(*one, NULL),
        _key("many", name): _any(*one, {"type": "array", "items": _any(*one)}, NULL),
    }


def _key(form: str, name: str) -> str:
    return f"{form}-{name}" if name else form


def _type(name: str) -> JsonSchema:
    own = elements()[name]
    shapes = {key: _element(element) for key, element in own.items()}
    shapes |= {f"_{key}": _ref("one-Element") for key, element in own.items() if element.type_ not in elements()}
    keywords = {
        "each": _ref("each"),
        "as": TEXT,
        "when": _ref("condition"),
        "unless": _ref("condition"),
        "needs": _ref("needs"),
        "default": _ref(name),
        "fill": _ref(name),
        "slice": TEXT,
    }
    properties = {**shapes, **{key: keywords.get(key, {}) for key in RESERVED}}
    within = sorted(key for key, element in own.items() if element.type_ in elements())
    parts: JsonSchema = {f"^({'|'.join(within)})\\.[A-Za-z.]+$": {}} if within else {}
    choices = {r"^[a-zA-Z]+\[x\]$": {"type": ["array", "object", "null"]}}
    patterns = {"patternProperties": {**parts, **choices}, "additionalProperties": False}
    return {"type": "object", "properties": dict(sorted(properties.items())), **patterns}


def _element(element: ReferenceElement) -> JsonSchema:
    form = "many" if element.many else "one"
    return _ref(_key(form, element.type_ if element.type_ in elements() else ""))


def _expression() -> JsonSchema:
    stages = [rf"{name}{_arguments(function)}" for name, function in FUNCTIONS.items()]
    stage = "|".join([f"else {HEAD}", "when [^|]+", "unless [^|]+", *stages, "[A-Z]{2,3}", "[A-Z][a-z]+[A-Za-z]*"])
    lines = [f"{name}: {function.text}" for name, function in FUNCTIONS.items()]
    return {
        **TEXT,
        **patterned(rf"^ *{HEAD}(?: *\| *(?:{stage}))* *$", EXPRESSION),
        "description": "PATH | function | when PATH = value | else PATH ...\n\n" + "\n".join(lines),
    }


def _arguments(function: Function) -> str:
    least, most = function.tables
    if not most and not function.words:
        return ""
    words = r"\((?:'[^']*'|[^()'])+\)"
    return words if least or function.words else f"(?:{words})?"


# Tables and cases


def _table() -> JsonSchema:
    words = [word.value for word in UnmappedPolicy if word is not UnmappedPolicy.DEFAULT]
    row = _any(NULL, TEXT, _object(ROW_KEYS, dict.fromkeys(ROW_KEYS, TEXT)))
    known = {
        **dict.fromkeys(TABLE_KEYS, TEXT),
        BACK: {"type": "object", "additionalProperties": _any(NULL, TEXT), "description": "which HL7 code is written"},
        "unmapped": _any({"enum": words}, _object({"default"}, {"default": row}, "default")),
        "codes": {"type": "object", "additionalProperties": row},
        "keys": {"type": "array", "items": TEXT, "description": "of a table with several: [ward, site]"},
        "rows": {**TEXT, "description": "a CSV file beside this one, with the codes"},
    }
    return _document("From the codes of HL7 to those of FHIR", TABLE_KEYS, known, required=["table"])


def _tests() -> JsonSchema:
    types = "|".join(sorted(name.lower() for name in _resource_types()))
    kept = rf"^(source-)?({types})(-\d+)?(\.[A-Z][A-Za-z]+)?$"
    case = _object(
        CASE_KEYS,
        {
            "case": {**TEXT, "description": "the case in words"},
            "event": {**TEXT, **patterned(EVENTS, EVENT), "description": "of a message without an MSH of its own"},
            "message": {"type": "string", "description": "segments, one a line; MSH and EVN may be left out"},
            "file": {"type": "string", "description": "a file of one message in place of it, as seen from this one"},
            "channel": _any({"type": "string", "description": "a channel by name"}, _object(CHANNEL_KEYS, {})),
            "assume": {"type": "object", "additionalProperties": TEXT},
            "resources": TEXTS,
            "expect": {**_object(EXPECT_KEYS, {}), "patternProperties": {f"^{LISTED.pattern}$": {}, kept: {}}},
        },
        "expect",
    )
    known = {"tests": {"type": "array", "items": case}, "mapping": TEXT}
    return _document("Cases: a message, and what comes out", known, known, required=["tests"])


def _resource_types() -> set[str]:
    """Return the resource types that a file may have: those with a list of identifiers, and Provenance."""
    return {name for name in resource_types() if is_listed(name)} | {"Provenance"}

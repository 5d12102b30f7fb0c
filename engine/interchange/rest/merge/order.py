"""What a $merge request asks for: source, target and preview, read from its Parameters."""

from dataclasses import dataclass
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.store.references import relative

SIDES: Final = ("source", "target")
NAMES: Final = frozenset({"source-patient", "source-patient-identifier", "target-patient", "target-patient-identifier"})
PREVIEW: Final = "preview"
ANSWERS: Final[dict[Json, bool]] = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class MergeSide:
    """One of the two patients, named by its id or by an identifier; `parameter` is where it was named."""

    parameter: str
    id: str = ""
    system: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """Source, target, and whether nothing is to be written."""

    source: MergeSide
    target: MergeSide
    preview: bool


def parse_order(body: Json, base_url: str) -> MergeOrder:
    """Return the order in a Parameters resource; RefusedError for everything that the operation does not define."""
    if not isinstance(body, dict) or body.get("resourceType") != "Parameters":
        raise refuse(Category.STRUCTURE, "The body must be a Parameters resource.", location="Parameters")
    given = _by_name(body.get("parameter", []))
    missing = [
        Issue(
            f"Name the {side} by {side}-patient or {side}-patient-identifier.", f"Parameters.parameter:{side}-patient"
        )
        for side in SIDES
        if f"{side}-patient" not in given and f"{side}-patient-identifier" not in given
    ]
    if missing:
        raise RefusedError(Category.REQUIRED, tuple(missing))
    source, target = (_side(side, given, base_url) for side in SIDES)
    return MergeOrder(source, target, _preview(given.get(PREVIEW)))


def _by_name(parameters: Json) -> dict[str, JsonObject]:
    if not isinstance(parameters, list) or not all(isinstance(one, dict) for one in parameters):
        raise refuse(Category.STRUCTURE, "parameter must be a list of objects.", location="Parameters.parameter")
    given: dict[str, JsonObject] = {}
    for index, parameter in enumerate(parameters):
        name, path = parameter.get("name"), f"Parameters.parameter[{index}]"
        if not isinstance(name, str):
            raise refuse(Category.STRUCTURE, "A parameter has no name.", location=f"{path}.name")
        if name not in NAMES and name != PREVIEW:
            raise refuse(Category.UNSUPPORTED, "The operation has no parameter of this name.", location=f"{path}.name")
        if name in given:
            raise refuse(Category.BAD_VALUE, f"{name} is given more than once.", location=path)
        given[name] = parameter
    return given


def _side(side: str, given: dict[str, JsonObject], base_url: str) -> MergeSide:
    literal, logical = given.get(f"{side}-patient"), given.get(f"{side}-patient-identifier")
    if literal is not None and logical is not None:
        text = f"Name the {side} either by reference or by identifier."
        raise refuse(Category.BAD_VALUE, text, location=f"{side}-patient")
    if literal is not None:
        return _literal(f"{side}-patient", literal, base_url)
    return _logical(f"{side}-patient-identifier", logical or {})


def _literal(name: str, parameter: JsonObject, base_url: str) -> MergeSide:
    value = parameter.get("valueReference")
    reference = value.get("reference") if isinstance(value, dict) else None
    inner = relative(reference, base_url) if isinstance(reference, str) else None
    type_name, _, patient_id = (inner or "").partition("/")
    if type_name != "Patient" or not patient_id or "/" in patient_id:
        raise refuse(Category.BAD_VALUE, f"{name} must be a reference of the form Patient/<id>.", location=name)
    return MergeSide(name, id=patient_id)


def _logical(name: str, parameter: JsonObject) -> MergeSide:
    identifier = parameter.get("valueIdentifier")
    parts = [identifier.get(part) for part in ("system", "value")] if isinstance(identifier, dict) else [None, None]
    if not all(isinstance(part, str) and part for part in parts):
        raise refuse(Category.REQUIRED, f"{name} needs a valueIdentifier with system and value.", location=name)
    return MergeSide(name, system=str(parts[0]), value=str(parts[1]))


def _preview(parameter: JsonObject | None) -> bool:
    if parameter is None:
        return False
    value = parameter.get("valueBoolean", parameter.get("valueString"))
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value not in ANSWERS:
        raise refuse(Category.BAD_VALUE, "preview must be true or false.", location=PREVIEW)
    return ANSWERS[value]

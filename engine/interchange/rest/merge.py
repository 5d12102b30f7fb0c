"""Patient/$merge: one record takes the place of another; its parameters, its preview and its effect."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.patient.index import IDENTIFIER
from engine.interchange.store.references import redirected, relative, repoint
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.role import RoleRule, may_see

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
    return MergeOrder(source, target, _asks_preview(given.get(PREVIEW)))


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


def _asks_preview(parameter: JsonObject | None) -> bool:
    if parameter is None:
        return False
    value = parameter.get("valueBoolean", parameter.get("valueString"))
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value not in ANSWERS:
        raise refuse(Category.BAD_VALUE, "preview must be true or false.", location=PREVIEW)
    return ANSWERS[value]


@dataclass(frozen=True, slots=True)
class MergePair:
    """Source and target, both live and not the same."""

    source: StoredVersion
    target: StoredVersion


def find_pair(transaction: Transaction, order: MergeOrder) -> MergePair:
    """Return both records; RefusedError (422): unknown, ambiguous, deleted, merged away, inactive target, the same."""
    found = {side.parameter: _look_up(transaction, side) for side in (order.source, order.target)}
    unknown = [Issue(f"{name} names no patient.", name) for name, stored in found.items() if stored is None]
    if unknown:
        raise RefusedError(Category.UNRESOLVED, tuple(unknown))
    source, target = (stored for stored in found.values() if stored is not None)
    if source.key == target.key:
        text = "Source and target are the same patient."
        raise refuse(Category.RULE, text, location=order.target.parameter, detail="self-merge")
    for side, stored in ((order.source, source), (order.target, target)):
        if stored.deleted:
            text = f"Patient/{stored.id} was deleted."
            raise refuse(Category.RULE, text, location=side.parameter, detail="deleted")
        if stored.survivor is not None:
            text = f"Patient/{stored.id} was already merged into Patient/{stored.survivor}."
            raise refuse(Category.RULE, text, location=side.parameter, detail="already-merged")
    if target.resource().get("active") is False:
        text = f"Patient/{target.id} is inactive."
        raise refuse(Category.RULE, text, location=order.target.parameter, detail="inactive-target")
    return MergePair(source, target)


def _look_up(transaction: Transaction, side: MergeSide) -> StoredVersion | None:
    if side.id:
        return transaction.get("Patient", side.id)
    holders = transaction.holders(IDENTIFIER, side.system, side.value)
    if len(holders) > 1:
        raise refuse(Category.AMBIGUOUS, f"{side.parameter} names several patients.", location=side.parameter)
    return transaction.by_key(holders[0]) if holders else None


EXCLUDED: Final = frozenset({"resourceType", "id", "meta", "text", "contained"})
# Repeating elements, compared as sets, with the datatype of their items; '' for parts that are no datatype.
REPEATING: Final = {
    "identifier": "Identifier",
    "telecom": "ContactPoint",
    "address": "Address",
    "photo": "Attachment",
    "generalPractitioner": "Reference",
    "name": "HumanName",
    "communication": "",
    "contact": "",
    "link": "",
    "extension": "Extension",
    "modifierExtension": "Extension",
}
# Elements of the parts that are no datatype.
PARTS: Final = {
    "language": "CodeableConcept",
    "preferred": "Boolean",
    "relationship": "CodeableConcept",
    "name": "HumanName",
    "telecom": "ContactPoint",
    "address": "Address",
    "gender": "String",
    "organization": "Reference",
    "period": "Period",
    "other": "Reference",
    "type": "String",
    "extension": "Extension",
    "modifierExtension": "Extension",
}
EXTENSIONS: Final = frozenset({"extension", "modifierExtension"})
DATES: Final = frozenset({"birthDate"})
DATE_TIMES: Final = frozenset({"deceasedDateTime", "start", "end"})


def preview(source: JsonObject, target: JsonObject, own_system: str) -> list[JsonObject]:
    """Return one parameter for each attribute of the source that the target lacks or has otherwise.

    `own_system` is the system of the service's global id, which is never compared.
    """
    return list(_differences(source, target, own_system))


def _differences(source: JsonObject, target: JsonObject, own_system: str) -> Iterator[JsonObject]:
    for element, value in source.items():
        # The extensions of a simple element (`_birthDate`) are reported under the element's own name.
        name = element.removeprefix("_")
        if name in EXCLUDED:
            continue
        other, path = target.get(element), f"Patient.{name}"
        if element not in REPEATING:
            yield from _leaves(path, name, value, other)
            continue
        items, others = list(value), list(other or [])
        if element == "name":
            yield from _leaves(f"{path}[0]", "", items[0], others[0] if others else None)
        yield from (
            one
            for index, item in enumerate(items)
            if not (item in others or (element == "name" and index == 0) or _own(element, item, own_system))
            for one in _lost(f"{path}[{index}]", REPEATING[element], item)
        )


def _own(element: str, item: JsonObject, own_system: str) -> bool:
    return element == "identifier" and bool(item.get("system") == own_system)


def _lost(path: str, datatype: str, item: JsonObject) -> Iterator[JsonObject]:
    """Yield an item that the target does not have; nothing for an empty one."""
    made = _typed("sourceValue", datatype, item)
    if made.get("part") != []:
        yield {"name": path, "part": [made]}


def _leaves(path: str, name: str, source: Any, target: Any) -> Iterator[JsonObject]:
    """Compare leaf by leaf, extensions as sets; an index in the path is the source's, ids of elements are passed by."""
    if isinstance(source, dict):
        others = target if isinstance(target, dict) else {}
        for key, value in source.items():
            inner, other = key.removeprefix("_"), others.get(key)
            if inner in EXTENSIONS:
                for index, item in enumerate(value):
                    if item not in (other or []):
                        yield from _lost(f"{path}.{inner}[{index}]", "Extension", item)
            elif inner != "id":
                yield from _leaves(f"{path}.{inner}", inner, value, other)
    elif isinstance(source, list):
        others_list = target if isinstance(target, list) else []
        for index, value in enumerate(source):
            other = others_list[index] if index < len(others_list) else None
            yield from _leaves(f"{path}[{index}]", name, value, other)
    elif source is not None and source != target:
        parts = [] if target is None or isinstance(target, dict | list) else [_leaf("targetValue", name, target)]
        yield {"name": path, "part": [*parts, _leaf("sourceValue", name, source)]}


def _leaf(part: str, name: str, value: Json) -> JsonObject:
    if isinstance(value, bool):
        return {"name": part, "valueBoolean": value}
    if isinstance(value, int):
        return {"name": part, "valueInteger": value}
    if isinstance(value, str):
        kind = "Date" if name in DATES else "DateTime" if name in DATE_TIMES else "String"
        return {"name": part, f"value{kind}": value}
    return {"name": part, "valueDecimal": value}


def _typed(part: str, datatype: str, value: JsonObject) -> JsonObject:
    if datatype == "Extension":
        return _extension(part, value)
    if datatype:
        return {"name": part, f"value{datatype}": value}
    parts: list[JsonObject] = []
    for key, item in _members(value):
        if key in PARTS:
            parts.append(_typed(key, PARTS[key], item))
        elif key.startswith("_"):
            parts += [_extension(key.removeprefix("_"), extension) for extension in item.get("extension", [])]
    return {"name": part, "part": parts}


def _extension(part: str, extension: JsonObject) -> JsonObject:
    inner = [_extension(one["url"], one) for one in extension.get("extension", [])]
    if inner:
        return {"name": part, "part": inner}
    values = {key: value for key, value in extension.items() if key.startswith("value")}
    return {"name": part, **(values or {"valueUri": extension["url"]})}


def _members(value: JsonObject) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, list):
            yield from ((key, one) for one in item)
        else:
            yield key, item


def merge(transaction: Transaction, pair: MergePair) -> None:
    """Let the target take the place of the source.

    The target's content stays as it is but for a link. The source is kept as inactive, with a link to the target;
    no search finds it, and its identifiers find the target. What referred to the source refers to the target, in a
    new version; links of the two, and of records merged away before, record the history and stay.
    """
    source, target = f"Patient/{pair.source.id}", f"Patient/{pair.target.id}"
    followed: list[int] = []
    for referrer in transaction.referrers(source):
        if referrer.key not in {pair.source.key, pair.target.key}:
            transaction.rewrite(referrer, repoint(referrer.resource(), source, target))
            followed += [referrer.key] if transaction.followed(referrer.type) else []
    redirected(transaction, pair.source, pair.target)
    gone = pair.source.resource()
    gone = {**gone, "active": False, "link": _with(gone.get("link", []), target, "replaced-by")}
    # First, so that subscribers to the source's identifiers get the survivor's new version.
    transaction.retire(pair.source, gone, pair.target)
    survivor = pair.target.resource()
    links = survivor.get("link", [])
    survivor = {**repoint(survivor, source, target), "link": _with(links, source, "replaces")}
    transaction.update(pair.target, survivor)
    for key in followed:
        transaction.notify_rewritten(key)


def _with(links: list[JsonObject], other: str, kind: str) -> list[JsonObject]:
    link = {"other": {"reference": other}, "type": kind}
    return links if link in links else [*links, link]


async def merge_patients(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /Patient/$merge: 200 with the differences, or with `info: merged` once it is done."""
    order = parse_order(request.body, service.configuration.base_url)
    tenant = request.principal.tenant
    if order.preview:
        _demand_reading(service, request)
        return service.store.read(tenant, partial(_preview, service, request, order))

    def work(transaction: Transaction) -> None:
        merge(transaction, find_pair(transaction, order))

    await service.store.write(tenant, work)
    return _parameters([{"name": "info", "valueString": "merged"}])


def _demand_reading(service: Service, request: FhirRequest) -> None:
    """Refuse (403) to show what differs to a token that may not read patients."""
    if not may_see(service.configuration, request.principal, "Patient"):
        text = "The token has no scope for read access to Patient; a preview shows the contents of both records."
        challenge = (("www-authenticate", 'Bearer error="insufficient_scope"'),)
        raise RefusedError(Category.FORBIDDEN, (Issue(text, "http.Authorization"),), challenge)


def _preview(service: Service, request: FhirRequest, order: MergeOrder, transaction: Transaction) -> HttpAnswer:
    found = find_pair(transaction, order)
    pair = (found.source, found.target)
    source, target = (shown_value(stored.body, request) for stored in pair)
    differences = preview(source, target, service.configuration.service_identifier_system)
    return replace(_parameters(differences), patients=tuple(one.id for one in pair))


def shown_value(body: bytes, request: FhirRequest) -> JsonObject:
    """Return a kept Patient as a value in the version of the request."""
    value: JsonObject = read_resource(to_version(body, "Patient", request.version))
    return value


def _parameters(parameters: list[JsonObject]) -> HttpAnswer:
    resource: JsonObject = {"resourceType": "Parameters"}
    return HttpAnswer(200, write_json({**resource, "parameter": parameters} if parameters else resource))


INTERACTION = Interaction(
    "Patient",
    "merge",
    InteractionLevel.TYPE,
    "POST",
    RequiredAccess.WRITE,
    RoleRule.MERGE,
    merge_patients,
    operation="$merge",
)

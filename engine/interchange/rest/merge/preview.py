"""What a merge would lose: each attribute of the source that differs from the target, as a parameter."""

from collections.abc import Iterator
from typing import Any, Final

from engine.fhir.json import Json, JsonObject

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
            parts += [_extension(key.removeprefix("_"), one) for one in item.get("extension", [])]
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

"""What a merge would lose: each attribute of the source that differs from the target, as a parameter."""

from collections.abc import Iterator
from typing import Any, Final

Json = Any

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
}
DATES: Final = frozenset({"birthDate"})
DATE_TIMES: Final = frozenset({"deceasedDateTime", "start", "end"})


def preview(source: dict[str, Json], target: dict[str, Json], own_system: str) -> list[Json]:
    """Return one parameter for each attribute of the source that the target lacks or has otherwise.

    `own_system` is the system of the service's global id, which is never compared.
    """
    return list(_differences(source, target, own_system))


def _differences(source: dict[str, Json], target: dict[str, Json], own_system: str) -> Iterator[Json]:
    for element, value in source.items():
        if element in EXCLUDED or element.startswith("_"):
            continue
        other = target.get(element)
        path = f"Patient.{element}"
        if element not in REPEATING:
            yield from _leaves(path, element, value, other)
            continue
        items, others = list(value), list(other or [])
        if element == "name":
            yield from _leaves(f"{path}[0]", "", items[0], others[0] if others else None)
        for index, item in enumerate(items):
            if item in others or (element == "name" and index == 0) or _own(element, item, own_system):
                continue
            yield {"name": f"{path}[{index}]", "part": [_typed("sourceValue", REPEATING[element], item)]}


def _own(element: str, item: Json, own_system: str) -> bool:
    return element == "identifier" and bool(item.get("system") == own_system)


def _leaves(path: str, name: str, source: Json, target: Json) -> Iterator[Json]:
    """Compare leaf by leaf; an index in the path is the source's."""
    if isinstance(source, dict):
        others = target if isinstance(target, dict) else {}
        for key, value in source.items():
            yield from _leaves(f"{path}.{key}", key, value, others.get(key))
    elif isinstance(source, list):
        others_list = target if isinstance(target, list) else []
        for index, value in enumerate(source):
            other = others_list[index] if index < len(others_list) else None
            yield from _leaves(f"{path}[{index}]", name, value, other)
    elif source is not None and source != target:
        parts = [] if target is None or isinstance(target, dict | list) else [_leaf("targetValue", name, target)]
        yield {"name": path, "part": [*parts, _leaf("sourceValue", name, source)]}


def _leaf(part: str, name: str, value: Json) -> dict[str, Json]:
    if isinstance(value, bool):
        return {"name": part, "valueBoolean": value}
    if isinstance(value, int):
        return {"name": part, "valueInteger": value}
    if isinstance(value, str):
        kind = "Date" if name in DATES else "DateTime" if name in DATE_TIMES else "String"
        return {"name": part, f"value{kind}": value}
    return {"name": part, "valueDecimal": value}


def _typed(part: str, datatype: str, value: Json) -> dict[str, Json]:
    if datatype == "Extension":
        return _extension(part, value)
    if datatype:
        return {"name": part, f"value{datatype}": value}
    return {"name": part, "part": [_typed(key, PARTS[key], item) for key, item in _members(value) if key in PARTS]}


def _extension(part: str, extension: dict[str, Json]) -> dict[str, Json]:
    inner = [_extension(one["url"], one) for one in extension.get("extension", [])]
    if inner:
        return {"name": part, "part": inner}
    values = {key: value for key, value in extension.items() if key.startswith("value")}
    return {"name": part, **(values or {"valueUri": extension["url"]})}


def _members(value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    for key, item in value.items():
        if isinstance(item, list):
            yield from ((key, one) for one in item)
        else:
            yield key, item

"""Preserves what one version lacks and restores it: elements as extensions, whole contained resources as Basic."""

from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import ElementDefinition, FhirVersion, definitions, resource_types
from engine.fhir.versions.direction import address, stem

# HL7's names for a value within an extension, and for its real type.
VALUE: Final = "value"
REAL_TYPE: Final = "http://hl7.org/fhir/StructureDefinition/_datatype"
# The STU3 types that replace R4's value types which STU3 lacks.
CARRIERS: Final = {
    **dict.fromkeys(("canonical", "url", "uuid"), "uri"),
    **dict.fromkeys(("Age", "Count", "Distance", "Duration", "Money"), "Quantity"),
}
# Value types that HL7's schema of STU3 allows in an extension, and STU3 itself does not.
METADATA: Final = frozenset(
    {
        "ContactDetail",
        "Contributor",
        "DataRequirement",
        "Dosage",
        "ParameterDefinition",
        "RelatedArtifact",
        "TriggerDefinition",
        "UsageContext",
    }
)
NESTED: Final = "extension"
MODIFIER: Final = "modifierExtension"


class PreservedValue(NamedTuple):
    """One value of an element; `companion` is the `_name` object of a primitive."""

    name: str
    value: Any
    companion: JsonObject | None


def value_key(type_name: str) -> str:
    """Return the key of an extension's value of a type: `valueDateTime`."""
    return f"value{type_name[0].upper()}{type_name[1:]}"


def values(part: JsonObject, name: str, element: ElementDefinition) -> list[PreservedValue]:
    """Return the values of an element, one for each item of a list."""
    value, companion = part.get(name), part.get(f"_{name}")
    if not element.many:
        return [PreservedValue(name, value, companion)]
    items = value if isinstance(value, list) else []
    companions = companion if isinstance(companion, list) else []
    length = max(len(items), len(companions))
    items = items + [None] * (length - len(items))
    companions = companions + [None] * (length - len(companions))
    return [PreservedValue(name, *pair) for pair in zip(items, companions, strict=True)]


def put(part: JsonObject, value: PreservedValue, element: ElementDefinition) -> None:
    """Set an element of a part, or add to it where it is a list."""
    if not element.many:
        part.update(_pair(value.name, value.value, value.companion))
        return
    names = (value.name, f"_{value.name}")
    count = max(len(part.get(name, ())) for name in names)
    for name, one in zip(names, value[1:], strict=True):
        # A list of nulls only is left out: nulls pad a list that has a value.
        if name in part or one is not None:
            part[name] = [*part.get(name, [None] * count), one]


def to_extension(url: str, element: ElementDefinition, value: PreservedValue, version: FhirVersion) -> JsonObject:
    """Return one value of an element as an extension in the element's own version."""
    type_name = element.type
    if type_name == "Extension":
        return {"url": url, "extension": [value.value]}
    if CARRIERS.get(type_name) == "uri" and url.endswith(value.name):
        type_name = "uri"
    if fits(type_name, *FhirVersion) or (type_name in CARRIERS and fits(type_name, version)):
        return {"url": url, **held(type_name, value.value, value.companion)}
    if type_name in CARRIERS:
        return {"url": url, value_key("Quantity"): marked(value.value, type_name)}
    return {"url": url, **_nested(type_name, value.value, version, choice=not url.endswith(value.name))}


def from_extension(
    extension: JsonObject, names: dict[str, str], elements: dict[str, ElementDefinition], version: FhirVersion
) -> PreservedValue | None:
    """Return the value of one of the named elements that an extension holds; None where it holds none.

    The elements are of `version`; the values within the extension are still of the other.
    """
    parts = extension.get("extension", [])
    marks = [part.get("valueString") for part in parts if part.get("url") == REAL_TYPE]
    name = names.get(f"{NESTED}{marks[0] if marks else ''}")
    if name is None:
        found = held_value(extension)
        return (
            PreservedValue(names[found.name], found.value, found.companion) if found and found.name in names else None
        )
    if marks:
        extension = {**extension, "extension": [part for part in parts if part.get("url") != REAL_TYPE]}
    if elements[name].type == "Extension":
        items = extension.get("extension", [])
        return PreservedValue(name, items[0], None) if len(items) == 1 else None
    whole = _whole(extension, elements[name].type, version)
    return None if whole is None else PreservedValue(name, whole, None)


def preserved_names(elements: dict[str, ElementDefinition], name: str) -> dict[str, str]:
    """Return an element's name by the key of the extension value that holds it, for `from_extension`."""
    type_name = elements[name].type
    found = {value_key(type_name): name}
    if CARRIERS.get(type_name) == "uri" and stem(elements, name) == name:
        return {value_key("uri"): name, **found}
    if type_name in CARRIERS or fits(type_name, *FhirVersion):
        return found
    return {f"{NESTED}{type_name if stem(elements, name) != name else ''}": name}


def fits(type_name: str, *versions: FhirVersion) -> bool:
    """True if an extension's value may have a type in each of the versions."""
    known = all(value_key(type_name) in definitions(version)["Extension"] for version in versions)
    return known and type_name not in METADATA


def held(type_name: str, value: Json, companion: JsonObject | None, real: str | None = None) -> JsonObject:
    """Return the content of an extension for a value: the value alone, or nested parts if it has a real type."""
    if companion is None and real is None:
        return {value_key(type_name): value}
    key, name = value_key(type_name), (companion or {}).get("id")
    inner = _pair(key, value, {"id": name} if name is not None else None)
    parts = [{"url": VALUE, **inner}] if inner else []
    mark = {"url": REAL_TYPE, "valueString": real or type_name}
    return {"extension": [*parts, mark, *(companion or {}).get("extension", [])]}


def held_value(extension: JsonObject) -> PreservedValue | None:
    """Return the value of an extension made by `held` or `marked`, under its key as a value."""
    for key, value in extension.items():
        if key.startswith(VALUE):
            real = real_type(value)
            return PreservedValue(value_key(real), unmarked(value), None) if real else PreservedValue(key, value, None)
    parts = extension.get("extension", [])
    inner = [part for part in parts if part.get("url") == VALUE]
    marks = [part.get("valueString") for part in parts if part.get("url") == REAL_TYPE]
    rest = [part for part in parts if part.get("url") not in {VALUE, REAL_TYPE}]
    if len(marks) != 1 or not marks[0] or len(inner) > 1 or any(":" not in part.get("url", "") for part in rest):
        return None
    found = held_value(inner[0]) if inner else None
    # The value's companion holds its id too, and its extensions next to the mark.
    names = [one for key, one in inner[0].items() if key.startswith(f"_{VALUE}")] if inner else []
    companion = {**(names[0] if names else {}), **({"extension": rest} if rest else {})}
    if found is None and not companion:
        return None
    return PreservedValue(value_key(marks[0]), found.value if found else None, companion or None)


def marked(value: JsonObject, real: str) -> JsonObject:
    """Return a value with its real type written in it."""
    return {**value, "extension": [*value.get("extension", []), {"url": REAL_TYPE, "valueString": real}]}


def real_type(value: Json) -> str | None:
    """Return the type that is written in a value; None where none is."""
    extensions = value.get("extension") if isinstance(value, dict) else None
    if extensions and extensions[-1].get("url") == REAL_TYPE and extensions[-1].get("valueString") in CARRIERS:
        return str(extensions[-1]["valueString"])
    return None


def unmarked(value: JsonObject) -> JsonObject:
    """Return a value without the type that is written in it."""
    rest = {name: one for name, one in value.items() if name != "extension"}
    return {**rest, "extension": value["extension"][:-1]} if value["extension"][1:] else rest


def _pair(name: str, value: Json, companion: JsonObject | None) -> JsonObject:
    return {key: one for key, one in ((name, value), (f"_{name}", companion)) if one is not None}


def _nested(type_name: str, whole: JsonObject, version: FhirVersion, *, choice: bool) -> JsonObject:
    elements = definitions(version)[type_name]
    parts: list[JsonObject] = [{"url": REAL_TYPE, "valueString": type_name}] if choice else []
    for name, element in elements.items():
        if name in {"id", "extension", MODIFIER} or not (name in whole or f"_{name}" in whole):
            continue
        parts += [to_extension(stem(elements, name), element, value, version) for value in values(whole, name, element)]
    parts += whole.get("extension", [])
    if MODIFIER in whole:
        parts.append({"url": MODIFIER, "extension": whole[MODIFIER]})
    return {**({"id": whole["id"]} if "id" in whole else {}), **({"extension": parts} if parts else {})}


def _whole(extension: JsonObject, type_name: str, version: FhirVersion) -> JsonObject | None:
    elements = definitions(version)[type_name]
    named: dict[str, dict[str, str]] = {}
    for name in elements:
        named.setdefault(stem(elements, name), {}).update(preserved_names(elements, name))
    whole: JsonObject = {"id": extension["id"]} if "id" in extension else {}
    own: list[JsonObject] = []
    for part in extension.get("extension", []):
        url = part.get("url", "")
        if ":" in url:
            own.append(part)
        elif url == MODIFIER:
            whole[MODIFIER] = part.get("extension", [])
        else:
            value = from_extension(part, named.get(url, {}), elements, version)
            if value is None:
                return None
            put(whole, value, elements[value.name])
    return {**whole, "extension": own} if own else whole


Part = JsonObject

TYPES: Final = "http://hl7.org/fhir/resource-types"
# Elements of every resource stay in place.
SAME: Final[tuple[str, ...]] = ("id", "meta", "implicitRules", "language", "text")


def as_basic(resource: Part, version: FhirVersion) -> Part:
    """Return a resource as a Basic of the same version that holds its elements as one extension."""
    type_name = resource["resourceType"]
    same = {name: resource[name] for name in SAME if name in resource}
    rest = {name: value for name, value in resource.items() if name not in {"resourceType", *SAME}}
    extension = to_extension(
        address(version, type_name), _definition(type_name), PreservedValue(type_name, rest, None), version
    )
    code = {"coding": [{"system": TYPES, "code": type_name}]}
    return {"resourceType": "Basic", **same, "extension": [extension], "code": code}


def from_basic(basic: Part, version: FhirVersion) -> Part | None:
    """Return the resource that a Basic holds; None for an ordinary Basic."""
    codings = basic.get("code", {}).get("coding", [])
    type_name = codings[0].get("code") if len(codings) == 1 else None
    extensions = basic.get("extension", [])
    if type_name not in resource_types(version) or len(extensions) != 1:
        return None
    preserved = None
    if extensions[0].get("url") == address(version, type_name):
        preserved = from_extension(extensions[0], {NESTED: type_name}, {type_name: _definition(type_name)}, version)
    same = {name: basic[name] for name in SAME if name in basic}
    return {"resourceType": type_name, **same, **preserved.value} if preserved else None


def _definition(type_name: str) -> ElementDefinition:
    return ElementDefinition(type_name, many=False, required=False, codes=None)

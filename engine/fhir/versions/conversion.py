"""Converts a resource between STU3 and R4 along both definitions, without loss; reads R4 codes in STU3 bodies."""

from functools import cache
from typing import Any, Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion, defects, definitions, resource_types
from engine.fhir.versions.codes import CodeTurn, with_original, without
from engine.fhir.versions.direction import Direction, address, clear, fill
from engine.fhir.versions.plan import Plans, TypeConversion, paths, plans
from engine.fhir.versions.preserve_as_extension import (
    MODIFIER,
    as_basic,
    from_basic,
    from_extension,
    put,
    to_extension,
    values,
)


def set_aside(resource: Any) -> Any:
    """Return an STU3 resource with STU3 codes only; anything that is not shaped like a resource unchanged."""
    if not isinstance(resource, dict):
        return resource
    return _part(str(resource.get("resourceType")), resource)


def _part(type_name: str, part: Json) -> Json:
    if isinstance(part, list):
        return [_part(type_name, one) for one in part]
    if not isinstance(part, dict):
        return part
    types, codes = _types(type_name), _later(type_name)
    made = {name: _part(types[name], value) if name in types else value for name, value in part.items()}
    for name, (later, url) in codes.items():
        code, companion = made.get(name), made.get(f"_{name}")
        if isinstance(code, str) and code in later and (companion is None or isinstance(companion, dict)):
            del made[name]
            made[f"_{name}"] = with_original(companion, url, code)
    return made


@cache
def _types(type_name: str) -> dict[str, str]:
    """Return the types of the complex elements of an STU3 type."""
    elements = definitions(FhirVersion.STU3).get(type_name, {})
    return {name: one.type for name, one in elements.items() if one.type[0].isupper() and one.type != "ResourceList"}


@cache
def _later(type_name: str) -> dict[str, tuple[frozenset[str], str]]:
    """Return the R4-only codes of each code element of an STU3 type, and the extension that holds them."""
    after = definitions(FhirVersion.R4).get(type_name, {})
    found: dict[str, tuple[frozenset[str], str]] = {}
    for name, one in definitions(FhirVersion.STU3).get(type_name, {}).items():
        later = after[name].codes if name in after else None
        if later is not None and one.codes is not None and not one.many and later > one.codes:
            found[name] = later - one.codes, address(FhirVersion.R4, f"{paths(FhirVersion.R4)[type_name]}.{name}")
    return found


Part = JsonObject

LISTS: Final = ("extension", MODIFIER)


def convert(resource: Part, direction: Direction) -> Part:
    """Convert a resource to the target version; unchanged where a version does not have its type.

    An extension that holds an element of the target version becomes the element again, unless the resource would then
    be invalid: then it stays an extension.
    """
    conversions = plans(resource["resourceType"], direction)
    if conversions is None:
        return resource
    conversion = Conversion(conversions, direction, restoring=True)
    converted = conversion.resource(resource)
    if conversion.restored_extension and defects(converted, direction.target):
        return Conversion(conversions, direction, restoring=False).resource(resource)
    return converted


class Conversion:
    """The conversion of one resource; `restored_extension`: an extension became an element again."""

    __slots__ = ("_direction", "_plans", "_restoring", "restored_extension")

    def __init__(self, found: Plans, direction: Direction, *, restoring: bool) -> None:
        self._plans = found
        self._direction = direction
        self._restoring = restoring
        self.restored_extension = False

    def resource(self, resource: Part) -> Part:
        """Return the resource in the target version."""
        made = self._part(self._plans.root, resource)
        made["resourceType"] = self._plans.name
        if "contained" in made:
            made["contained"] = [contained(one, self._direction) for one in made["contained"]]
        return made

    def _part(self, plan: TypeConversion, part: Part) -> Part:
        home: Part = {}
        away: Part = {}
        if plan.changes or "extension" in part or MODIFIER in part:
            part = dict(part)
            clear(part, plan.clears)
            away = {name: part.pop(name) for name in plan.away if name in part}
            self._restore_extensions(plan, part, home)
            for side in plan.sides:
                if not (side.touched.isdisjoint(part) and side.touched.isdisjoint(home)):
                    away.update(side.turn(part, home))
            part.update({name: value for name, value in home.items() if name not in part})
        converted = self._elements(plan, part)
        if away:
            self._preserve(plan, away, converted)
        for name in LISTS:
            if name in converted:
                converted[name] = [self._part(self._plans.extension, one) for one in converted[name]]
        fill(converted, plan.fillings)
        return converted

    def _elements(self, plan: TypeConversion, part: Part) -> Part:
        """Return the elements that both versions have, each in the target's shape."""
        converted: Part = {}
        for name, value in part.items():
            inner = plan.parts.get(name)
            if inner is not None:
                converted[name] = (
                    [self._part(inner, one) for one in value] if isinstance(value, list) else self._part(inner, value)
                )
            elif name in plan.texts and isinstance(value, str):
                converted[name] = plan.texts[name](value, part)
            elif name in plan.codes:
                self._code(plan.codes[name], name, part, converted)
            elif name[0] == "_" and name[1:] in plan.codes:
                if name[1:] not in part:
                    self._code(plan.codes[name[1:]], name[1:], part, converted)
            else:
                converted[name] = self._companion(value) if name[0] == "_" else value
        return converted

    def _companion(self, companion: Json) -> Json:
        """Convert the companion of a primitive (`_name`)."""
        if isinstance(companion, list):
            return [self._companion(one) for one in companion]
        return self._part(self._plans.companion, companion) if isinstance(companion, dict) else companion

    def _restore_extensions(self, plan: TypeConversion, part: Part, home: Part) -> None:
        """Move elements of the target version from the extensions of a part to `home`."""
        for name in LISTS if self._restoring else ():
            if name not in part:
                continue
            staying = [one for one in part[name] if not self._restore_extension(plan, one, home)]
            if len(staying) != len(part[name]):
                self.restored_extension = True
                del part[name]
                part.update({name: staying} if staying else {})

    def _restore_extension(self, plan: TypeConversion, extension: Part, home: Part) -> bool:
        names = plan.homes.get(extension.get("url", ""))
        value = from_extension(extension, names, plan.elements, self._direction.target) if names else None
        if value is None:
            return False
        element = plan.elements[value.name]
        if not element.many and (value.name in home or f"_{value.name}" in home):
            return False
        put(home, value, element)
        return True

    def _preserve(self, plan: TypeConversion, away: Part, converted: Part) -> None:
        """Preserve the elements that the target does not have as extensions, each still of the source version."""
        for name in dict.fromkeys(key.removeprefix("_") for key in away):
            place = plan.places[name]
            for value in values(away, name, place.element):
                extension = to_extension(place.url, place.element, value, self._direction.source)
                converted[place.list_name] = [*converted.get(place.list_name, []), extension]

    def _code(self, turn: CodeTurn, name: str, part: Part, converted: Part) -> None:
        """Set the target's code; if it says less, or there is none, an extension preserves the original."""
        code, companion = part.get(name), part.get(f"_{name}")
        original = turn.original(companion) if self._restoring else None
        if original is not None and companion is not None:
            self.restored_extension = True
            companion = without(companion, turn.home)
        shown = original if original is not None and turn.shown_before(original) == code else turn.shown(code)
        if code is not None and turn.shown_before(shown) != code:
            companion = with_original(companion, turn.away, code)
        if shown is not None:
            converted[name] = shown
        if companion:
            converted[f"_{name}"] = self._companion(companion)


def contained(resource: Json, direction: Direction) -> Json:
    """Return a contained resource in the target version; an invalid one unchanged."""
    if not isinstance(resource, dict) or resource.get("resourceType") not in resource_types(direction.source):
        return resource
    if defects(resource, direction.source):
        return resource
    if plans(resource["resourceType"], direction) is None:
        resource = as_basic(resource, direction.source)
    converted = convert(resource, direction)
    unknown = from_basic(converted, direction.target) if converted["resourceType"] == "Basic" else None
    return converted if unknown is None or defects(unknown, direction.target) else unknown

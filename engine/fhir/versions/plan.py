"""The conversion of each element of a type, planned once for each resource type and direction."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import BINDINGS, ElementDefinition, FhirVersion, definitions, resource_types
from engine.fhir.versions import administration, clinical, datatypes, ordering, treatment
from engine.fhir.versions.addresses import TEXTS, Text
from engine.fhir.versions.codes import CODES, CodeMap, CodeTurn
from engine.fhir.versions.direction import MODIFIERS, Direction, address, fillings, stem
from engine.fhir.versions.lens import Lens, LensSide, first_of, first_of_stu3, only_if
from engine.fhir.versions.names import r4_name, stu3_name
from engine.fhir.versions.preserve_as_extension import CARRIERS, METADATA, MODIFIER, fits, preserved_names, value_key

LENSES: Final = {
    **datatypes.LENSES,
    **clinical.LENSES,
    **treatment.LENSES,
    **administration.LENSES,
    **ordering.LENSES,
}
LEAST: Final = {"positiveInt": 1, "unsignedInt": 0}
NUMBERS: Final = frozenset({"decimal", "integer", "positiveInt", "unsignedInt"})
# Not planned: extensions and contained resources are converted by their content.
APART: Final = frozenset({"extension", "contained", "id"})


@dataclass(frozen=True, slots=True)
class ExtensionTarget:
    """The extension that preserves an element of the source; a modifier element becomes a modifierExtension."""

    element: ElementDefinition
    url: str
    list_name: str


@dataclass(slots=True)
class TypeConversion:
    """The conversion of one type; elements that it does not name are the same in both versions."""

    homes: dict[str, dict[str, str]] = field(default_factory=dict)
    elements: dict[str, ElementDefinition] = field(default_factory=dict)
    sides: tuple[LensSide, ...] = ()
    away: tuple[str, ...] = ()
    clears: JsonObject = field(default_factory=dict)
    fillings: JsonObject = field(default_factory=dict)
    parts: dict[str, "TypeConversion"] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    codes: dict[str, CodeTurn] = field(default_factory=dict)
    places: dict[str, ExtensionTarget] = field(default_factory=dict)
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans that one resource type needs: its own, and that of extensions, which may occur anywhere."""

    name: str
    root: TypeConversion
    extension: TypeConversion
    companion: TypeConversion


def plans(type_name: str, direction: Direction) -> Plans | None:
    """Return the plans of a resource type, by its source name; None where one version lacks the type."""
    target = (stu3_name if direction is Direction.TO_STU3 else r4_name)(type_name)
    both = type_name in resource_types(direction.source) and target in resource_types(direction.target)
    return _plans(type_name, target, direction) if both else None


@cache
def _plans(type_name: str, target: str, direction: Direction) -> Plans:
    made: dict[tuple[str, str], TypeConversion] = {}
    root = _plan(type_name, target, direction, made)
    extension, companion = (
        _plan("Extension", "Extension", direction, made),
        _plan("Element", "Element", direction, made),
    )
    return Plans(target, root, extension, companion)


@cache
def paths(version: FhirVersion) -> dict[str, str]:
    """Return the path of each type that has elements: `Encounter.location` for `Encounter_Location`."""
    known = definitions(version)
    found = {name: name for name in known if "_" not in name}
    waiting = list(found)
    while waiting:
        name = waiting.pop(0)
        for element, what in known[name].items():
            if "_" in what.type and what.type not in found:
                found[what.type] = f"{found[name]}.{element}"
                waiting.append(what.type)
    return found


def _plan(
    source: str, target: str, direction: Direction, made: dict[tuple[str, str], TypeConversion]
) -> TypeConversion:
    """Return the plan of a type; a `source` of '' is a type that a lens makes."""
    if (source, target) in made:
        return made[source, target]
    plan = made[source, target] = TypeConversion()
    before, after = direction.source_elements(source), direction.target_elements(target)
    lenses = _lenses(source, target, before, after, direction)
    lensed = {name for lens in lenses for name in (lens.stu3 if direction is Direction.TO_STU3 else lens.r4)}
    given = {name for lens in lenses for name in (lens.r4 if direction is Direction.TO_STU3 else lens.stu3)}
    away = {name for name in before if name not in APART and _differs(before, after, name, lensed | given)}
    plan.elements = after
    plan.sides = tuple(LensSide(lens, direction) for lens in lenses)
    plan.clears = fillings(direction.source, source, target)
    plan.fillings = fillings(direction.target, target, source)
    plan.texts = {name: turn for (holder, name), turn in TEXTS[direction].items() if holder == target}
    path = paths(direction.source).get(source, "")
    if "extension" in after:
        preserved = (away | given) & before.keys()
        plan.away = tuple(one for name in sorted(away) for one in (name, f"_{name}"))
        plan.places = {name: _place(before, name, path, direction, after) for name in preserved}
    home = paths(direction.target).get(target, "")
    for name in after if "extension" in after else ():
        if name not in APART and (name in lensed or name not in before or name in away):
            url = address(direction.target, f"{home}.{stem(after, name)}")
            plan.homes.setdefault(url, {}).update(preserved_names(after, name))
    plan.changes = bool(plan.sides or plan.away or plan.clears)
    for name, element in after.items():
        if element.type == "code" and name in before and name not in lensed:
            codes = _codes_of(before, source, name, direction.source), _codes_of(after, target, name, direction.target)
            turn = _code(name, codes, (path, home), direction, many=before[name].many)
            plan.codes.update({name: turn} if turn else {})
        if not _primitive(element) and name not in APART and element.type not in {"Extension", "ResourceList"}:
            inner = _source_type(before, name, element, away, lensed)
            plan.parts[name] = _plan(inner, element.type, direction, made)
    return plan


def _lenses(
    source: str,
    target: str,
    before: dict[str, ElementDefinition],
    after: dict[str, ElementDefinition],
    direction: Direction,
) -> tuple[Lens, ...]:
    """Return the lenses of a type: those of the tables, and one for each element that is a list in one version only."""
    r4_type, stu3, r4 = source or target, before, after
    if direction is Direction.TO_R4:
        r4_type = target
    else:
        stu3, r4 = after, before
    written = LENSES.get(r4_name(r4_type), ()) if source else ()
    taken = {name for lens in written for name in (*lens.stu3, *lens.r4)}
    found: list[Lens] = list(written)
    for name, element in before.items():
        if name in taken or name not in after or not _alike(element, after[name]):
            continue
        if r4[name].many != stu3[name].many:
            found.append((first_of if r4[name].many else first_of_stu3)(name, name))
        elif _narrower(stu3[name], r4[name]):
            found.append(only_if(name, _takes(stu3[name], r4[name])))
    return tuple(found)


def _narrower(stu3: ElementDefinition, r4: ElementDefinition) -> bool:
    numbers = stu3.type != r4.type and {stu3.type, r4.type} & LEAST.keys()
    return bool(numbers) or (stu3.many and stu3.codes != r4.codes)


def _takes(stu3: ElementDefinition, r4: ElementDefinition) -> Callable[[Direction, Json], bool]:
    def takes(direction: Direction, value: Json) -> bool:
        target = r4 if direction is Direction.TO_R4 else stu3
        if isinstance(value, list):
            return target.codes is None or target.codes.issuperset(one for one in value if isinstance(one, str))
        return not isinstance(value, int) or value >= LEAST.get(target.type, value)

    return takes


def _differs(
    before: dict[str, ElementDefinition], after: dict[str, ElementDefinition], name: str, lensed: set[str]
) -> bool:
    if name in lensed:
        return False
    return name not in after or not _alike(before[name], after[name]) or _unfit(name, before[name])


def _alike(one: ElementDefinition, other: ElementDefinition) -> bool:
    """True if both elements have the same type, apart from being lists."""
    if _primitive(one) or _primitive(other):
        both = _primitive(one) and _primitive(other)
        return both and _kind(one) == _kind(other)
    return one.type == other.type or ("_" in one.type and "_" in other.type)


def _unfit(name: str, element: ElementDefinition) -> bool:
    return name == value_key(element.type) and element.type in METADATA


def _kind(element: ElementDefinition) -> str:
    return "number" if element.type in NUMBERS else "boolean" if element.type == "boolean" else "text"


def _primitive(element: ElementDefinition) -> bool:
    return element.type[0].islower()


def _source_type(
    before: dict[str, ElementDefinition], name: str, element: ElementDefinition, away: set[str], lensed: set[str]
) -> str:
    """Return the source type of an element's values; '' for those that already have the target's elements."""
    if name in before and name not in away:
        same = before[name].type.partition("_")[0] == element.type.partition("_")[0]
        if same or name not in lensed:
            return before[name].type
    return element.type if element.type in CARRIERS or fits(element.type, *FhirVersion) else ""


def _place(
    before: dict[str, ElementDefinition],
    name: str,
    path: str,
    direction: Direction,
    after: dict[str, ElementDefinition],
) -> ExtensionTarget:
    full = f"{path}.{stem(before, name)}"
    modifier = full in MODIFIERS and MODIFIER in after
    return ExtensionTarget(before[name], address(direction.source, full), MODIFIER if modifier else "extension")


Known = frozenset[str] | None


def _codes_of(elements: dict[str, ElementDefinition], type_name: str, name: str, version: FhirVersion) -> Known:
    """Return the codes that the schema or a binding allows for an element; None for any."""
    return elements[name].codes or BINDINGS[version][0].get(type_name, {}).get(name)


def _code(
    name: str, known: tuple[Known, Known], homes: tuple[str, str], direction: Direction, *, many: bool
) -> CodeTurn | None:
    """Return the conversion of a code; None where every code is the same in both versions."""
    before, after = known
    path, home = (f"{one}.{name}" for one in homes)
    codes = CODES.get(home if direction is Direction.TO_R4 else path, CodeMap())
    if many or (codes == CodeMap() and before == after):
        return None
    other = Direction.TO_STU3 if direction is Direction.TO_R4 else Direction.TO_R4
    return CodeTurn(
        codes.turns(direction),
        codes.turns(other),
        after,
        before,
        address(direction.source, path),
        address(direction.target, home),
    )

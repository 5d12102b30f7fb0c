"""Resources that a repetition names: an XCN its Practitioner, a PL its Locations; made once and referred to.

Their file says what of the repetition is the identity, and what else is known of the resource when it is first made.
A file with `levels` makes one resource for each level that is valued, and each is part of the next. `kinds` are other
ways to a resource of the same type, each a function of its own (`IN1-3 | Payor`).
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.fhir.plan import ElementChange, Identity, Keep, ResourceRecord
from engine.hl7.leaf import NULL
from engine.mapping.files.document import Document
from engine.mapping.files.reference import Element, data_types, elements, nearest
from engine.mapping.language.expression import RESOURCE
from engine.mapping.language.identifier import Authority, Identifiers
from engine.mapping.language.node import Apply, Step
from engine.mapping.language.reading import Cells, Reading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler

FROM: Final = "from"
IDENTITY_KEYS: Final = frozenset({"value", "authority", "type", "system", "display"})
KINDS: Final = "kinds"
FILE_KEYS: Final = frozenset({"resource", "extends", FROM, "identity", "elements", "levels", "part", KINDS})
KIND_KEYS: Final = frozenset({FROM, "identity", "elements"})


class Level(NamedTuple):
    """One resource of a repetition: its identity, how it is shown, and its elements."""

    values: tuple[Step, ...]
    authority: Step
    type_: Step
    system: str
    display: Step | None
    body: Step


def makers(compiler: Compiler, document: Document, identifiers: Identifiers) -> Iterator[tuple[str, Apply]]:
    """Yield what the file's resource is called as a function, and what that makes of cells; then its `kinds`."""
    scope, value = Scope(document), document.value
    yield str(value["resource"]), referred(compiler, scope, value, identifiers, FILE_KEYS)
    kinds = value.get(KINDS) or {}
    for kind, part in kinds.items() if isinstance(kinds, dict) else ():
        at = scope.at(KINDS, kind)
        if not RESOURCE.fullmatch(kind) or kind in elements():
            compiler.problem(at, f"found {kind!r}", "a kind is a word such as Payor, and no FHIR type")
        elif isinstance(part, dict):
            yield kind, referred(compiler, at, part, identifiers, KIND_KEYS)


def referred(
    compiler: Compiler, scope: Scope, value: dict[str, Any], identifiers: Identifiers, keys: frozenset[str]
) -> Apply:
    """Compile a file, or a kind in it, to what makes a Reference of cells, and the resources that it stands for."""
    name, source = str(scope.document.value["resource"]), str(value.get(FROM))
    if source not in data_types():
        compiler.problem(scope.at(FROM), f"unknown data type {source!r}", nearest(source, data_types()))
    scope = Scope(scope.document, scope.path, type_=source)
    for key in value:
        if key not in keys:
            compiler.problem(scope.at(key), f"unknown key {key!r}", nearest(key, keys))
    listed = value.get("levels")
    places = [(scope, value)] if listed is None else [(scope.at("levels", at), one) for at, one in enumerate(listed)]
    levels = tuple(_level(compiler, at, one, name) for at, one in places)
    part = str(value.get("part") or "")
    if part and part not in elements()[name]:
        compiler.problem(scope.at("part"), f"{name} has no element {part!r}", nearest(part, elements()[name]))

    def made(cells: Cells, reading: Reading) -> Any:
        below: dict[str, Any] | None = None
        above = ""
        for level in reversed(levels):
            found = _made(level, cells, reading, name, identifiers)
            if found is None:
                continue
            local, identity, changes, display = found
            if part and above:
                changes = (*changes, ElementChange(part, part, ({"reference": f"#{above}"},), many=False))
            identifier = {"system": identity.system, "value": identity.value}
            record = ResourceRecord(name, local, (identity,), (identifier,), changes)
            reading.made[local] = Keep(record, overwrite=False)
            above = local
            below = {"reference": f"#{above}", **({"display": display} if display else {})}
        if below is not None:
            return below
        shown = levels[0].display
        text = shown(cells, reading) if shown else None
        if isinstance(text, str):
            return {"display": text}
        if any(cells.first):
            reading.warn("not-whole")
        return NULL if NULL in cells.first else None

    return made


def _level(compiler: Compiler, scope: Scope, value: dict[str, Any], name: str) -> Level:
    identity = value.get("identity") or {}
    at = scope.at("identity")
    for key in identity:
        if key not in IDENTITY_KEYS:
            compiler.problem(at.at(key), f"unknown key {key!r}", nearest(key, IDENTITY_KEYS))
    given = identity.get("value") or []
    texts = given if isinstance(given, list) else [given]
    if not texts:
        compiler.problem(at, "no value", "say which component identifies it, such as XCN.1")
    text = Element("string", many=False)
    steps = tuple(compiler.expression(one, at.at("value"), text).step for one in texts)
    display = identity.get("display")
    return Level(
        steps,
        authority_step(compiler, identity.get("authority"), at.at("authority")),
        compiler.expression(identity["type"], at.at("type"), text).step if "type" in identity else _nothing,
        str(identity.get("system") or ""),
        compiler.expression(display, at.at("display"), text).step if display else None,
        compiler.object(value.get("elements") or {}, scope.at("elements"), name).step,
    )


def authority_step(compiler: Compiler, text: Any, scope: Scope) -> Step:
    """Compile a path to a component (HD) to a step that returns an Authority."""
    if text is None:
        return lambda _, __: Authority("", "", "")
    if isinstance(text, list):
        return _first_authority([authority_step(compiler, one, scope.at(number)) for number, one in enumerate(text)])
    parts = [compiler.expression(f"{text}.{part}", scope, Element("string", many=False)).step for part in (1, 2, 3)]

    def step(cells: Any, reading: Reading) -> Authority:
        namespace, universal, kind = [part(cells, reading) or "" for part in parts]
        return Authority(namespace, universal, kind)

    return step


def _first_authority(steps: list[Step]) -> Step:
    def step(cells: Any, reading: Reading) -> Authority:
        found = (one(cells, reading) for one in steps)
        return next((one for one in found if any(one)), Authority("", "", ""))

    return step


def _made(
    level: Level, cells: Cells, reading: Reading, name: str, identifiers: Identifiers
) -> tuple[str, Identity, tuple[ElementChange, ...], str] | None:
    """Return the local name of a level's resource, its identity, its elements and how it is shown; None without one."""
    values = [step(cells, reading) for step in level.values]
    last = values[-1]
    if not isinstance(last, str):
        return None
    if len(values) == 1 and identifiers.placeholder(last):
        reading.warn("placeholder-identifier")
        return None
    texts = [one for one in values if isinstance(one, str)]
    type_ = level.type_(cells, reading)
    kind = type_ if isinstance(type_, str) else name.lower()
    authority = level.authority(cells, reading)
    system = identifiers.resource_system(authority, kind, reading.facility, level.system)
    identity = Identity(system, "/".join(texts))
    body = level.body(cells, reading)
    changes = body_changes(body if isinstance(body, dict) else {}, name)
    shown = level.display(cells, reading) if level.display else " ".join(texts)
    return f"{name} {system}|{identity.value}", identity, changes, shown if isinstance(shown, str) else ""


def body_changes(body: dict[str, Any], name: str) -> tuple[ElementChange, ...]:
    """Return the elements of a resource that was made at once as changes, a list being one slice."""
    known = elements()[name]
    return tuple(
        [
            ElementChange(element, element, tuple(value) if many else (value,), many)
            for element, value in body.items()
            for many in (known[element].many,)
        ]
    )


def _nothing(_: Any, __: Reading) -> None:
    return None

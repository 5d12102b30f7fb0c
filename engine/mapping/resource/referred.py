"""Resources of a repetition: an XCN names its Practitioner, a PL its Locations; created once and referred to.

Their file defines the identity, and the elements of a new resource. A file with `levels` makes one resource for each
valued level, each part of the next. `kinds` define more resources of the same type, each a function of its own
(`IN1-3 | Payor`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.fhir.plan import ElementChange, Find, Identity, Keep, ResourceRecord
from engine.hl7.leaf import NULL
from engine.mapping.files.document import Document
from engine.mapping.files.reference import STANDARD, ReferenceElement, data_types, nearest, resource_types
from engine.mapping.language.expression import RESOURCE
from engine.mapping.language.identifier import Authority, Identifiers
from engine.mapping.language.node import Apply, Step
from engine.mapping.language.reading import Cells, MessageReading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.slice_writer import body_changes
from engine.mapping.resource.type_rules import check_holder

FROM: Final = "from"
ALSO: Final = "also"
NUMBER: Final = "number"
IDENTITY_KEYS: Final = frozenset({"value", "authority", "type", "system", "display", NUMBER})
KINDS: Final = "kinds"
FIND: Final = "find"
FILE_KEYS: Final = frozenset({
    "resource", "extends", FROM, "identity", "elements", "levels", "part", KINDS, FIND, "patient", ALSO,
})  # fmt: skip
KIND_KEYS: Final = frozenset({FROM, "identity", "elements", ALSO})
TEXT: Final = ReferenceElement("string", many=False)
IDENTIFIER: Final = "Identifier"
# The unknown data type.
ANY: Final = "-"


class ReferredResource(NamedTuple):
    """One resource of a repetition: its identity, its display, and its elements.

    `authorities`: the steps of namespace, universal id and type of each; the first that has any of them counts.
    `number`: the other parts of its identifier (type, check digit).
    """

    values: tuple[Step, ...]
    authorities: tuple[tuple[Step, ...], ...]
    type_: Step
    system: str
    display: Step | None
    body: Step
    number: Step


@dataclass(frozen=True, slots=True)
class Referred:
    """A file, or a kind in it: the resources of a type that a repetition names, each `part` of the next.

    `find`: they are only looked up; its value is the delivery's note if there is none. `holder`: the element with the
    patient whose they must be. `also`: further identifiers of the first of them, which are never searched by.
    """

    type_: str
    levels: tuple[ReferredResource, ...]
    part: str
    identifiers: Identifiers
    also: tuple[Step, ...] = ()
    find: str = ""
    holder: str = ""

    def reference(self, cells: Cells, reading: MessageReading) -> Any:
        """Return a Reference to the resource of cells, and note in the reading the resources that it needs."""
        below: dict[str, Any] | None = None
        above = ""
        for level in reversed(self.levels):
            found = self._resource(level, cells, reading)
            if found is None:
                continue
            record, display = found
            if self.part and above:
                change = ElementChange(self.part, self.part, ({"reference": f"#{above}"},), many=False)
                record = record._replace(changes=(*record.changes, change))
            above = record.local
            reading.referred[above] = (
                Find(record._replace(holder=self.holder), self.find) if self.find else Keep(record, overwrite=False)
            )
            below = {"reference": f"#{above}", **({"display": display} if display else {})}
        if below is not None:
            if self.also:
                self._number(above, cells, reading)
            return below
        shown = self.levels[0].display
        text = shown(cells, reading) if shown else None
        if isinstance(text, str):
            return {"display": text}
        if any(cells.first):
            reading.warn("not-whole")
        return NULL if NULL in cells.first else None

    def _number(self, local: str, cells: Cells, reading: MessageReading) -> None:
        """Add the further identifiers to a noted resource."""
        further = tuple([made for step in self.also if isinstance(made := step(cells, reading), dict)])
        if further:
            kept = reading.referred[local]
            record = kept.record._replace(identifiers=(*kept.record.identifiers, *further))
            reading.referred[local] = kept._replace(record=record)

    def _resource(
        self, level: ReferredResource, cells: Cells, reading: MessageReading
    ) -> tuple[ResourceRecord, str] | None:
        """Return the resource of a level, and its display; None if nothing identifies it."""
        values = [step(cells, reading) for step in level.values]
        last = values[-1]
        if not isinstance(last, str):
            return None
        if len(values) == 1 and self.identifiers.placeholder(last):
            reading.warn("placeholder-identifier")
            return None
        texts = [value for value in values if isinstance(value, str)]
        type_ = level.type_(cells, reading)
        kind = type_ if isinstance(type_, str) else self.type_.lower()
        parts = ([step(cells, reading) or "" for step in steps] for steps in level.authorities)
        authority = Authority(*next(filter(any, parts), ("", "", "")))
        system = self.identifiers.resource_system(authority, kind, reading.facility, level.system)
        identity = Identity(system, "/".join(texts))
        body, number = level.body(cells, reading), level.number(cells, reading)
        identifier = {"system": identity.system, "value": identity.value}
        shown = level.display(cells, reading) if level.display else " ".join(texts)
        record = ResourceRecord(
            self.type_,
            f"{self.type_} {system}|{identity.value}",
            (identity,),
            ({**number, **identifier} if isinstance(number, dict) else identifier,),
            body_changes(body if isinstance(body, dict) else {}, self.type_),
        )
        return record, shown if isinstance(shown, str) else ""


def makers(
    compiler: Compiler, document: Document, identifiers: Identifiers
) -> Iterator[tuple[str, dict[str, Any], Apply]]:
    """Yield the function name of the file's resource, its authored template, and the function; then the kinds."""
    scope, value = Scope(document), document.value
    kinds = value.get(KINDS) or {}
    own = {key: part for key, part in value.items() if key != KINDS}
    yield str(value["resource"]), own, referred(compiler, scope, value, identifiers, FILE_KEYS)
    for kind, part in kinds.items() if isinstance(kinds, dict) else ():
        at = scope.at(KINDS, kind)
        if not RESOURCE.fullmatch(kind) or kind in resource_types():
            compiler.problem(at, f"found {kind!r}", "name it by a word such as Payor that is no FHIR type")
        elif isinstance(part, dict):
            yield kind, part, referred(compiler, at, part, identifiers, KIND_KEYS)


def referred(
    compiler: Compiler, scope: Scope, value: dict[str, Any], identifiers: Identifiers, keys: frozenset[str]
) -> Apply:
    """Compile a file, or a kind in it, to the maker of a Reference from cells, and its resources."""
    name, source = str(scope.document.value["resource"]), str(value.get(FROM))
    if source not in data_types():
        compiler.problem(scope.at(FROM), f"unknown data type {source!r}", nearest(source, data_types(), STANDARD))
        source = ANY
    scope = Scope(scope.document, scope.path, type_=source)
    compiler.keys(value, keys, scope)
    listed = value.get("levels")
    places = [(scope, value)] if listed is None else [(scope.at("levels", at), one) for at, one in enumerate(listed)]
    find = str(value.get(FIND) or "")
    levels = tuple(_level(compiler, at, one, name, found=bool(find)) for at, one in places)
    part = str(value.get("part") or "")
    if part:
        compiler.has(name, part, scope.at("part"))

    holder = str(value.get("patient") or "")
    if find and value.get("elements"):
        compiler.problem(scope.at("elements"), f"elements beside {FIND}", "what is only found has none; leave them out")
    if find or holder:
        check_holder(compiler, scope, name, holder)
    also = tuple(
        compiler.object(one, scope.at(ALSO, at), IDENTIFIER).step for at, one in enumerate(value.get(ALSO) or ())
    )
    return Referred(name, levels, part, identifiers, also, find, holder).reference


def _level(compiler: Compiler, scope: Scope, value: dict[str, Any], name: str, *, found: bool) -> ReferredResource:
    identity = value.get("identity") or {}
    at = scope.at("identity")
    compiler.keys(identity, IDENTITY_KEYS, at)
    given = identity.get("value") or []
    texts = given if isinstance(given, list) else [given]
    if not texts:
        compiler.problem(at, "no value", "say which component identifies it, such as XCN.1")
    steps = tuple(compiler.expression(text, at.at("value"), TEXT).step for text in texts)
    display = identity.get("display")
    return ReferredResource(
        steps,
        _authorities(compiler, identity.get("authority"), at.at("authority")),
        compiler.expression(identity["type"], at.at("type"), TEXT).step if "type" in identity else _nothing,
        str(identity.get("system") or ""),
        compiler.expression(display, at.at("display"), TEXT).step if display else None,
        compiler.object(value.get("elements") or {}, scope.at("elements"), name, whole=not found).step,
        compiler.object(identity.get(NUMBER) or {}, at.at(NUMBER), IDENTIFIER).step,
    )


def _authorities(compiler: Compiler, authored: Any, scope: Scope) -> tuple[tuple[Step, ...], ...]:
    """Compile paths to components (HD): for each the steps of its namespace, universal id and type.

    Where these are siblings (EI), a list of the three paths replaces one path.
    """
    paths = list(enumerate(authored)) if isinstance(authored, list) else [] if authored is None else [(None, authored)]
    found = []
    for at, path in paths:
        where = scope if at is None else scope.at(at)
        parts = path if isinstance(path, list) else [f"{path}.{part}" for part in (1, 2, 3)]
        if len(parts) != len(Authority._fields):
            expected = "name namespace, universal id and type: [EI.2, EI.3, EI.4]"
            compiler.problem(where, f"found {len(parts)} paths", expected)
        found.append(tuple(compiler.expression(str(part), where, TEXT).step for part in parts))
    return tuple(found)


def _nothing(_: Any, __: MessageReading) -> None:
    return None

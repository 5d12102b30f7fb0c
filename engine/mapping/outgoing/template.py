"""The templates of outgoing files compiled to functions: rules, composites, fields, segments."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from engine.hl7.conformance.standard import WITHDRAWN
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import (
    GUIDE,
    STANDARD,
    data_types,
    elements,
    kind_of,
    listed,
    nearest,
    parts,
    segments,
    shown_type,
)
from engine.mapping.language.expression import ExpressionError
from engine.mapping.language.scope import Scope
from engine.mapping.outgoing.functions import TEXT, BackwardContext, Hl7Value
from engine.mapping.outgoing.path import CompiledPath, compile_path, parse_fhir_path
from engine.mapping.outgoing.reading import ChangeReading
from engine.mapping.outgoing.rule import MakeValues, OutgoingType, RuleCompiler, Test

COMPONENT: Final = re.compile(r"([A-Z]{2,3})\.(\d{1,2})(?:\.(\d{1,2}))?")
ENTRY_KEYS: Final = frozenset({"each", "as", "when", "unless", "needs"})
SEGMENT_KEYS: Final = frozenset({"segment", "extends", "of", "each", "when", "unless", "needs", "fields"})
TYPE_KEYS: Final = frozenset({"datatype", "extends", "of", "needs", "components"})
# What a segment is of, with the type that paths begin at, and the root.
SUBJECTS: Final = {"patient": "Patient", "merged": "Patient", "encounter": "Encounter"}
ROOTS: Final = {"patient": "Patient", "merged": "$merged", "encounter": "Encounter"}
CODED: Final = frozenset({"CE", "CWE", "CNE", "CF", "IS", "ID"})
# The type of a field that is not in the reference.
OPEN: Final = "-"
# The same, added to the repetitions of the field at hand.
AddRepetitions = Callable[[Any, ChangeReading, list[Hl7Value]], None]


class CompiledSegment(NamedTuple):
    """A compiled segment file: the items that it is made for, and the repetitions of each field of one of them."""

    name: str
    items: Callable[[ChangeReading], list[Any]]
    test: Test
    fields: tuple[tuple[int, AddRepetitions], ...]
    needs: frozenset[int]

    def made(self, reading: ChangeReading) -> list[dict[int, list[Hl7Value]]]:
        """Return the fields of each segment of a change, by number."""
        found: list[dict[int, list[Hl7Value]]] = []
        for item in self.items(reading):
            traced = len(reading.trace) if reading.trace is not None else 0
            reading.at_position(len(found) + 1)
            segment = self.name if not found else f"{self.name}({len(found) + 1})"
            fields: dict[int, list[Hl7Value]] = {}
            if self.test(item, reading):
                for number, fill in self.fields:
                    reading.place = f"{segment}-{number}"
                    values: list[Hl7Value] = []
                    fill(item, reading, values)
                    if values:
                        fields[number] = values
            if fields and (not self.needs or not self.needs.isdisjoint(fields)):
                found.append(fields)
            elif reading.trace is not None:
                del reading.trace[traced:]
        reading.place = ""
        return found


class OutgoingCompiler(RuleCompiler):
    """Compiles the templates of one outgoing mapping."""

    def __init__(self, context: BackwardContext, datatypes: Mapping[str, Document], problems: Problems) -> None:
        super().__init__(context, datatypes, problems)
        self._types: dict[str, OutgoingType | None] = {}

    # Composites

    def check_datatypes(self) -> None:
        """Compile every data type, so that those that no segment uses are checked, too."""
        for name, document in self._documents.items():
            try:
                self.datatype(name)
            except ExpressionError as error:
                self._problem(Scope(document), error.found, error.expected)

    def datatype(self, name: str) -> OutgoingType:
        """Return a compiled data type; ExpressionError if there is none, or it needs itself."""
        if name not in self._types:
            document = self._documents.get(name)
            if document is None:
                raise ExpressionError(f"unknown data type {name!r}", nearest(name, set(self._documents), GUIDE))
            self._types[name] = None
            self._types[name] = self._datatype(name, document)
        found = self._types[name]
        if found is None:
            raise ExpressionError(f"{name} refers to itself", "break the cycle")
        return found

    def _datatype(self, name: str, document: Document) -> OutgoingType:
        scope, value = Scope(document), document.value
        self._problems.keys(document, (), TYPE_KEYS, value)
        of = value.get("of")
        if not isinstance(of, str) or of not in elements():
            types = {one for one in elements() if "_" not in one}
            self._problem(scope.at("of"), f"found {kind_of(of)}", nearest(str(of), types, "a FHIR type"))
            return OutgoingType("", lambda _, __: None)
        scope = Scope(document, type_=of)
        components = value.get("components")
        if not isinstance(components, dict) or not components:
            self._problem(scope.at("components"), "no components", f"write them as {name}.1: value")
            return OutgoingType(of, lambda _, __: None)
        return OutgoingType(of, self._composite(name, components, value, scope.at("components")))

    def _composite(
        self, name: str, components: Mapping[str, Any], value: Mapping[str, Any], scope: Scope
    ) -> Callable[[Any, ChangeReading], Hl7Value]:
        rules: list[tuple[int, int, MakeValues]] = []
        for key, text in components.items():
            at = self._component(key, name, scope.at(key))
            rule = self.rule(text, scope.at(key)) if at is not None and text is not None else None
            if at is None or rule is None:
                continue
            if rule.many:
                expected = "say which, as given[0], or all as one, as given | joined(' ')"
                self._problem(scope.at(key), "several values for one component", expected)
            most = parts(name, at[0])
            if rule.gives != TEXT and (at[1] or not most) and rule.gives not in CODED:
                self._problem(scope.at(key), f"a {rule.gives} for {key}", "it has no parts: give a text")
            rules.append((*at, rule.make))
        needs = [self._component(one, name, scope) for one in listed(value.get("needs"))]
        needed = [one for one in needs if one is not None]

        def make(item: Any, reading: ChangeReading) -> Hl7Value:
            place = reading.place
            made: list[Hl7Value] = []
            traced = len(reading.trace) if reading.trace is not None else 0
            for number, part, values in rules:
                reading.place = f"{place}.{number}.{part}" if part else f"{place}.{number}"
                found = values(item, reading)
                if found:
                    _put(made, number, part, found[0])
            reading.place = place
            if made and (not needed or any(_at(made, *one) for one in needed)):
                return made
            if reading.trace is not None:
                del reading.trace[traced:]
            return None

        return make

    def _component(self, key: str, name: str, scope: Scope) -> tuple[int, int] | None:
        match = COMPONENT.fullmatch(key)
        if match is None or (match[1] != name and not {match[1], name} <= CODED):
            self._problem(scope, f"found {key!r}", f"expected a component such as {name}.1")
            return None
        number, part = int(match[2]), int(match[3] or 0)
        count = max(data_types().get(match[1], 0), 1)
        if not 0 < number <= count:
            self._problem(scope, f"unknown component {key}", f"name one of the {count} components of {match[1]}")
            return None
        if part > max(parts(match[1], number), 1):
            self._problem(scope, f"unknown subcomponent {key}", f"leave it out: {match[1]}.{number} has fewer parts")
            return None
        return number, part

    # Fields and segments

    def segment(self, document: Document) -> CompiledSegment | None:
        """Compile a segment file; None, and a problem, if it is of nothing."""
        value, scope = document.value, Scope(document)
        self._problems.keys(document, (), SEGMENT_KEYS, value)
        name, of = str(value["segment"]), value.get("of")
        fields = segments().get(name)
        if fields is None and name[0] != "Z":
            self._problem(scope.at("segment"), f"unknown segment {name!r}", nearest(name, segments(), STANDARD))
        if not isinstance(of, str) or of not in SUBJECTS:
            self._problem(scope.at("of"), f"found {kind_of(of)}", nearest(str(of), set(SUBJECTS)))
            return None
        authored = value.get("fields")
        if not isinstance(authored, dict) or not authored:
            self._problem(scope.at("fields"), "no fields", f"write them as {name}-7: birthDate | date")
            return None
        type_, items = SUBJECTS[of], _root(ROOTS[of])
        if "each" in value:
            type_, items = self._items(value["each"], Scope(document, ("each",), type_=type_), ROOTS[of])
        compiled: list[tuple[int, AddRepetitions]] = []
        numbers: dict[str, int] = {}
        for key, template in authored.items():
            at = self._field(name, key, Scope(document, ("fields", key)))
            if at is None or template is None:
                continue
            numbers[key] = at
            compiled.append((at, self._repetitions(name, at, template, Scope(document, ("fields", key), type_=type_))))
        needs = listed(value.get("needs"))
        for one in needs:
            if one not in numbers:
                self._problem(scope.at("needs"), f"found {one!r}", nearest(one, numbers))
        needed = frozenset(numbers[one] for one in needs if one in numbers)
        return CompiledSegment(name, items, self.test(value, scope, type_), tuple(sorted(compiled, key=_first)), needed)

    def _items(self, text: Any, scope: Scope, root: str) -> tuple[str, Callable[[ChangeReading], list[Any]]]:
        path = self._path(text, scope)
        if path is None:
            return scope.type_, _root(root)
        return path.type_, lambda reading: path.read(reading.start(root), reading)

    def _field(self, segment: str, key: str, scope: Scope) -> int | None:
        match = FIELD.fullmatch(key)
        if match is None or match[1] != segment or key != f"{segment}-{match[2]}":
            self._problem(scope, f"found {key!r}", f"expected a field such as {segment}-3")
            return None
        known = segments().get(segment)
        if known is not None and int(match[2]) not in known:
            self._problem(scope, f"unknown field {key}", f"{segment} has the fields 1 to {max(known)}")
            return None
        return int(match[2])

    def _repetitions(self, segment: str, number: int, template: Any, scope: Scope) -> AddRepetitions:
        known = segments().get(segment, {}).get(number)
        type_, repeats = (known.type_, known.repeats) if known else (OPEN, True)
        if type_ == WITHDRAWN:  # what it was is not in the reference
            type_ = OPEN
        entries = template if isinstance(template, list) else [template]
        adds = [
            self._entry(entry, scope.at(at) if isinstance(template, list) else scope, type_, repeats)
            for at, entry in enumerate(entries)
        ]

        def add(item: Any, reading: ChangeReading, out: list[Hl7Value]) -> None:
            for one in adds:
                one(item, reading, out)
                if out and not repeats:
                    return  # of the entries of a single field the first one that makes something

        return adds[0] if len(adds) == 1 else add

    def _entry(self, entry: Any, scope: Scope, type_: str, repeats: bool) -> AddRepetitions:
        if isinstance(entry, dict):
            return self._made_of(entry, scope, type_, repeats)
        rule = self.rule(entry, scope)
        if rule is None:
            return _nothing
        if rule.many and not repeats:
            self._problem(scope, "several values for a field that does not repeat", "say which: first(), or [0]")
        if rule.gives != TEXT and type_ not in {OPEN, rule.gives} and not {type_, rule.gives} <= CODED:
            self._problem(scope, f"a {rule.gives} for a field of type {type_}", f"expected {type_}")
        make = rule.make
        return lambda item, reading, out: out.extend(make(item, reading))

    def _made_of(self, entry: Mapping[str, Any], scope: Scope, type_: str, repeats: bool) -> AddRepetitions:
        own = {key: one for key, one in entry.items() if key not in ENTRY_KEYS}
        of, read = scope.type_, None
        if "each" in entry:
            path = self._path(entry["each"], scope.at("each"))
            if path is None:
                return _nothing
            of, read = path.type_, path.read
            if path.many and not repeats:
                self._problem(scope.at("each"), "several items for a field that does not repeat", "say which: first()")
        below = Scope(scope.document, scope.path, type_=of)
        test = self.test(entry, scope, of)
        makes: list[Callable[[Any, ChangeReading], Hl7Value]] = []
        if "as" in entry and (made := self._as(str(entry["as"]), of, type_, scope.at("as"))) is not None:
            makes.append(made.make)
        if own:
            makes.append(self._composite(type_, own, entry if "as" not in entry else {}, below))
        if not makes:
            self._problem(scope, "nothing to make of each item", "add as: TYPE, or the components that it makes")

        def add(item: Any, reading: ChangeReading, out: list[Hl7Value]) -> None:
            place = reading.place
            for one in read([item], reading) if read else [item]:
                if test(one, reading):
                    reading.place = f"{place}({len(out) + 1})" if out else place
                    value = makes[0](one, reading)
                    for more in makes[1:] if value is not None else ():
                        value = _laid(value, more(one, reading))
                    if value is not None:
                        out.append(value)
            reading.place = place

        return add

    def _path(self, text: Any, scope: Scope) -> CompiledPath | None:
        try:
            return compile_path(parse_fhir_path(str(text)), scope.type_, self._make_test)
        except ExpressionError as error:
            self._problem(scope, error.found, error.expected)
        return None

    def _as(self, name: str, of: str, type_: str, scope: Scope) -> OutgoingType | None:
        """Return the data type for items of a FHIR type and a field; None, and a problem, if it is for others."""
        try:
            made = self.datatype(name)
        except ExpressionError as error:
            self._problem(scope, error.found, error.expected)
            return None
        if made.of != of:
            self._problem(scope, f"{name} of {shown_type(of)}", f"give a {shown_type(made.of)}")
        elif type_ not in {OPEN, name}:
            self._problem(scope, f"a {name} for a field of type {type_}", f"expected {type_}")
        return made


def _first(one: tuple[int, AddRepetitions]) -> int:
    return one[0]


def _root(name: str) -> Callable[[ChangeReading], list[Any]]:
    """Return what gives the resource at a root, or nothing of it: constants are made without one, too."""
    return lambda reading: reading.start(name) or [None]


def _nothing(_: Any, __: ChangeReading, ___: list[Hl7Value]) -> None:
    return


def _put(made: list[Any], number: int, part: int, value: Hl7Value) -> None:
    """Set a component, or a part of one beside those that are there."""
    made += [None] * (number - len(made))
    if not part:
        there = made[number - 1]
        made[number - 1] = _laid(there, value) if isinstance(there, list) else value
        return
    there = made[number - 1]
    inner = there if isinstance(there, list) else [there]
    inner += [None] * (part - len(inner))
    inner[part - 1] = value
    made[number - 1] = inner


def _laid(below: Hl7Value, above: Hl7Value) -> Hl7Value:
    """Return a composite with the parts of another in place of its own."""
    if above is None:
        return below
    if not isinstance(below, list) or not isinstance(above, list):
        return above
    length = max(len(below), len(above))
    padded = ([*one, *[None] * (length - len(one))] for one in (below, above))
    return [upper if upper is not None else lower for lower, upper in zip(*padded, strict=True)]


def _at(made: list[Any], number: int, part: int) -> Any:
    value = made[number - 1] if number <= len(made) else None
    if part and isinstance(value, list):
        return value[part - 1] if part <= len(value) else None
    return value

"""Compiles the elements of a resource file to slices, one for each source field of an element."""

from functools import reduce
from typing import Any, Final

from engine.fhir.r4 import choices
from engine.mapping.files.document import Document
from engine.mapping.files.overlay import slice_of
from engine.mapping.files.reference import ReferenceElement, elements, nearest, page_of
from engine.mapping.language.node import Step
from engine.mapping.language.scope import Path, Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.slice_writer import (
    ChoiceWriter,
    IdentifierList,
    Many,
    PrimitiveWriter,
    Single,
    SliceWriter,
    Written,
)
from engine.mapping.resource.type_rules import CHOICE, filled

IDENTIFIER: Final = "identifier"
CANONICAL: Final = "canonical"


class Slices:
    """Compiles the elements of one resource file, or of the part at `at`."""

    def __init__(self, compiler: Compiler, document: Document, type_: str, at: Path = ()) -> None:
        self._compiler = compiler
        self._scope = Scope(document, at)
        self._value: dict[str, Any] = reduce(lambda value, key: value[str(key)], at, document.value)
        self._type = type_
        self._names: dict[str, Path] = {}

    def writers(self) -> tuple[SliceWriter, ...]:
        """Return the writers of all elements but the identifiers, in the order of the file."""
        authored = self._authored()
        writers: list[SliceWriter] = []
        self._chosen_once(authored)
        for name, value in authored.items():
            if name == IDENTIFIER or value is None or (name.startswith("_") and name[1:] in authored):
                continue
            path: Path = ("elements", name)
            if name.endswith(CHOICE):
                writers.append(SliceWriter(self._choice(value, path), self._compiler.dependence(value), always=True))
                continue
            element = self._element(name, path)
            if element is None:
                continue
            if element.many:
                writers.extend(self._many(name, value, path, element))
            else:
                writers.append(self._single(name, value, authored.get(f"_{name}"), path, element))
        return tuple(writers)

    def parts(self) -> frozenset[str]:
        """Return the compiled elements, and the slices of lists as `location(PV1-3)`."""
        return frozenset(self._authored()) | {f"{path[1]}({name})" for name, path in self._names.items()}

    def filled(self) -> set[str]:
        """Return the mapped elements, those of a choice individually."""
        return filled(self._value.get("elements"))

    def identifiers(self, section: str = "elements", written: Written = lambda item: (item,)) -> IdentifierList:
        """Return the maker of all identifiers of a section (`merged`: those of the merged side); `written` of each."""
        value = (self._value.get(section) or {}).get(IDENTIFIER) or []
        scope = self._scope.at(section, IDENTIFIER)
        compiled = self._compiler.many(value, scope, ReferenceElement("Identifier", many=True))
        return IdentifierList(compiled.step, self._compiler.dependence(value), written)

    def _authored(self) -> dict[str, Any]:
        value = self._value.get("elements")
        if isinstance(value, dict):
            return value
        self._compiler.problem(self._scope.at("elements"), "no elements", "map at least one element")
        return {}

    def _chosen_once(self, authored: dict[str, Any]) -> None:
        """Note a choice with more than one possible element: each would delete the other, or both would be written."""
        alone = {one for one, value in authored.items() if value is not None}
        for stem, names in choices(self._type).items():
            choice = f"{stem}{CHOICE}"
            written = sorted(names & alone)
            first = choice if choice in alone else written[0] if written else ""
            for name in written if first == choice else written[1:]:
                at = self._scope.at("elements", name)
                self._compiler.problem(at, f"{name} beside {first}", f"write it as a line of {choice}")

    def _element(self, name: str, path: Path) -> ReferenceElement | None:
        root, _, part = name.partition(".")
        known = elements()[self._type]
        element, listed = known.get(root), False
        if element is not None and part:
            known = elements().get(element.type_, {})
            listed = element.many
            element = None if listed else known.get(part)
        if element is None:
            found = f"{self._type} has no element {name!r}"
            expected = (
                f"{root} is a list; write {root}: {{{part}: ...}}"
                if listed
                else nearest(name, known, page_of(self._type))
            )
            self._compiler.problem(self._scope.at(*path), found, expected)
        return element

    def _single(self, name: str, value: Any, extensions: Any, path: Path, element: ReferenceElement) -> SliceWriter:
        compiled = self._compiler.value(value, self._scope.at(*path), element)
        if extensions is None:
            return SliceWriter(Single(name, compiled.step), self._compiler.dependence(value), compiled.always)
        companion = self._compiler.object(extensions, self._scope.at("elements", f"_{name}"), "Element")
        depends, always = self._compiler.dependence([value, extensions]), compiled.always or companion.always
        return SliceWriter(PrimitiveWriter(name, compiled.step, companion.step), depends, always)

    def _choice(self, value: Any, path: Path) -> ChoiceWriter:
        entries = _entries(value)
        stem = str(path[-1]).removesuffix(CHOICE)
        known = choices(self._type)
        if stem not in known:
            found, expected = f"{self._type} has no choice {stem + CHOICE!r}", nearest(stem, known, page_of(self._type))
            self._compiler.problem(self._scope.at(*path), found, expected)
            return ChoiceWriter(())
        steps: list[tuple[str, Step]] = []
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or len(entry) != 1:
                expected = "give one line such as deceasedBoolean: PID-30"
                self._compiler.problem(self._scope.at(*path, number), "no single element", expected)
                continue
            name, part = next(iter(entry.items()))
            if name not in known[stem]:
                expected = nearest(name, known[stem], page_of(self._type))
                self._compiler.problem(self._scope.at(*path, number, name), f"{name} is no {stem}{CHOICE}", expected)
                continue
            element = self._element(name, (*path, number, name))
            if element is not None:
                at: Path = (*path, number, name)
                steps.append((name, self._compiler.value(part, self._scope.at(*at), element).step))
        return ChoiceWriter(tuple(steps))

    def _many(self, name: str, value: Any, path: Path, element: ReferenceElement) -> list[SliceWriter]:
        listed = isinstance(value, list)
        writers: list[SliceWriter] = []
        for number, entry in enumerate(value if listed else [value]):
            at: Path = (*path, number) if listed else path
            compiled = self._compiler.items(entry, self._scope.at(*at), element)
            # The url of a profile is a part of its own: no field makes it, and each update says it again.
            own = str(entry) if element.type_ == CANONICAL else ""
            many = Many(name, own or self._slice(name, entry, at), compiled.step)
            writers.append(SliceWriter(many, self._compiler.dependence(entry), compiled.always))
        return writers

    def _slice(self, name: str, entry: Any, path: Path) -> str:
        slice_ = slice_of(name, entry)
        if not slice_:
            self._compiler.problem(self._scope.at(*path), "no source field", "name the part with 'slice'")
        elif slice_ in self._names:
            line = self._scope.document.place((*self._scope.path, *self._names[slice_]))[1]
            found = f"{slice_} defined twice (first in line {line})"
            self._compiler.problem(self._scope.at(*path), found, "join the two, or name one with 'slice'")
        self._names[slice_] = path
        return slice_


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

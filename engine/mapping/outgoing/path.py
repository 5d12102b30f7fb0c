"""FHIR paths of outgoing mappings: a closed subset of FHIRPath, checked against the elements of FHIR R4.

path = start { "." step }
start = element | function | Patient | Encounter | $this | $merged | $event | $kind | $at | $now | $position | $version
step = element [ "[" number "]" ] | function
function = extension('URL') | where(condition) | newest(path) | first() | last() | skip(number)
         | ofType(Type) | resolve()

A choice is named as FHIR's JSON names it (`deceasedDateTime`), or `deceased.ofType(dateTime)`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from engine.mapping.files.reference import ReferenceElement, elements, nearest, page_of, resource_types, shown_type
from engine.mapping.language.expression import MAX_TEXTS, ExpressionError, unquoted
from engine.mapping.outgoing.reading import ChangeReading

NAME: Final = re.compile(r"\$?[A-Za-z][A-Za-z0-9]*")
INDEX: Final = re.compile(r"\[(\d{1,3})\]")
RESOURCE: Final = "Resource"
TEXT: Final = "string"
# What a path may begin with beside an element: its type.
STARTS: Final = {
    "Patient": "Patient",
    "Encounter": "Encounter",
    "$merged": "Patient",
    "$event": TEXT,
    "$kind": TEXT,
    "$at": "instant",
    "$now": "instant",
    "$position": "positiveInt",
    "$version": TEXT,
    "$this": "",
}
FUNCTIONS: Final = frozenset({"extension", "where", "newest", "first", "last", "skip", "ofType", "resolve"})
PRIMITIVES: Final = frozenset({
    "string", "code", "id", "uri", "url", "canonical", "markdown", "boolean", "integer", "positiveInt", "unsignedInt",
    "decimal", "date", "dateTime", "instant", "time", "base64Binary", "oid", "uuid",
})  # fmt: skip

Values = list[Any]
Read = Callable[[Values, ChangeReading], Values]


@dataclass(frozen=True, slots=True)
class FhirPathStep:
    """One step as it is written: an element with its index, or a function with its argument (None: an element)."""

    name: str
    index: int | None = None
    argument: str | None = None

    def __str__(self) -> str:
        if self.argument is not None:
            return f"{self.name}({self.argument})"
        return self.name if self.index is None else f"{self.name}[{self.index}]"


class FhirPath(NamedTuple):
    """A parsed path."""

    steps: tuple[FhirPathStep, ...]

    def __str__(self) -> str:
        return ".".join(map(str, self.steps))


class CompiledPath(NamedTuple):
    """A checked path: the FHIR type of what it finds, whether that may be several values, and how they are read."""

    type_: str
    many: bool
    read: Read


@lru_cache(maxsize=MAX_TEXTS)
def parse_fhir_path(text: str) -> FhirPath:
    """Return a path; ExpressionError if it is none."""
    steps: list[FhirPathStep] = []
    at = 0
    while True:
        match = NAME.match(text, at)
        if match is None:
            raise ExpressionError(f"found {text!r}", "expected a path such as name[0].family, or 'quoted text'")
        at, name = match.end(), match[0]
        argument = index = None
        if text[at : at + 1] == "(":
            end = _closing(text, at)
            argument, at = text[at + 1 : end].strip(), end + 1
        if found := INDEX.match(text, at):
            index, at = int(found[1]), found.end()
        steps.append(FhirPathStep(name, index if argument is None else None, argument))
        if argument is not None and index is not None:
            steps += [FhirPathStep("skip", argument=str(index)), FhirPathStep("first", argument="")]
        if at == len(text):
            return FhirPath(tuple(steps))
        if text[at] != ".":
            raise ExpressionError(f"found {text[at:]!r} in {text!r}", "expected a dot, or the end of the path")
        at += 1


def _closing(text: str, at: int) -> int:
    depth, quoted = 0, False
    for position in range(at, len(text)):
        character = text[position]
        quoted ^= character == "'"
        depth += 0 if quoted else (character == "(") - (character == ")")
        if depth == 0 and not quoted:
            return position
    raise ExpressionError(f"found {text!r}", "expected a parenthesis at its end")


# Makes a test of one item of a type from the text of a condition.
MakeTest = Callable[[str, str], Callable[[Any, ChangeReading], bool]]


class _PathCompilation:
    """The compilation of one path, step by step; ExpressionError at the first fault."""

    def __init__(self, type_: str, make_test: MakeTest) -> None:
        self._type = type_
        self._make_test = make_test
        self._many = False
        # The choice whose type the next step says: `deceased` before ofType(dateTime).
        self._choice = ""
        # The primitive element before an extension: `gender`.
        self._primitive = ""
        self._reads: list[Read] = []

    def compiled(self, path: FhirPath) -> CompiledPath:
        steps = list(path.steps)
        if (start := steps[0]).name in STARTS and start.argument is None:
            self._start(start.name)
            steps.pop(0)
        elif start.name[0] == "$" or (start.name[0].isupper() and start.argument is None):
            raise ExpressionError(f"found {start.name!r}", nearest(start.name, set(STARTS)))
        for number, step in enumerate(steps):
            following = steps[number + 1] if number + 1 < len(steps) else None
            if step.argument is None:
                self._element(step, following)
            else:
                self._function(step)
        reads = tuple(self._reads)

        def read(items: Values, reading: ChangeReading) -> Values:
            for one in reads:
                items = one(items, reading)
            return items

        return CompiledPath(self._type, self._many, reads[0] if len(reads) == 1 else read)

    def _start(self, name: str) -> None:
        if name == "$this":
            self._reads.append(lambda items, _: items)
            return
        self._type = STARTS[name]
        self._reads.append(lambda _, reading: reading.start(name))

    def _element(self, step: FhirPathStep, following: FhirPathStep | None) -> None:
        known = elements().get(self._type)
        if not self._type:
            expected = "write Patient, Encounter or $merged before it"
            raise ExpressionError(f"found {step.name!r} with nothing before it", expected)
        if known is None:
            expected = "leave it out, or say which with ofType(Type)"
            raise ExpressionError(f"found {step.name!r} below a {shown_type(self._type)}", expected)
        name, element = step.name, known.get(step.name)
        if element is None and following is not None and following.name == "ofType":
            choice = following.argument or ""
            name = f"{step.name}{choice[:1].upper()}{choice[1:]}"
            element = known.get(name)
        if element is None:
            choices = {one for one in known if one.startswith(step.name) and one[len(step.name) :][:1].isupper()}
            hint = nearest(step.name, choices or known, page_of(self._type))
            raise ExpressionError(f"{shown_type(self._type)} has no element {step.name!r}", hint)
        extended = following is not None and following.name == "extension" and element.type_ in PRIMITIVES
        self._many = (self._many or element.many) and step.index is None
        self._type = "Element" if extended else element.type_
        self._targets = element
        self._reads.append(_child(f"_{name}" if extended else name, step.index))

    _targets: ReferenceElement | None = None

    def _function(self, step: FhirPathStep) -> None:
        name, argument = step.name, step.argument or ""
        if name not in FUNCTIONS:
            raise ExpressionError(f"unknown function {name!r} of a path", nearest(name, FUNCTIONS))
        if name == "extension":
            url = unquoted(argument)
            if not url or argument[:1] != "'":
                raise ExpressionError(f"found extension({argument})", "write extension('URL')")
            if "extension" not in elements().get(self._type, {}):
                raise ExpressionError(f"an extension of {shown_type(self._type)}", "name the element before it")
            self._reads.append(_extension(url))
            self._type, self._many = "Extension", True
        elif name == "where":
            self._reads.append(_where(self._make_test(argument, self._type)))
        elif name == "newest":
            self._reads.append(_newest(compile_path(parse_fhir_path(argument), self._type, self._make_test)))
        elif name in {"first", "last"}:
            self._reads.append(_first if name == "first" else _last)
            self._many = False
        elif name == "skip":
            if not argument.isdigit():
                raise ExpressionError(f"found skip({argument})", "expected a number, such as skip(1)")
            self._reads.append(_skip(int(argument)))
        elif name == "resolve":
            self._resolve()
        else:
            self._of_type(argument)

    def _resolve(self) -> None:
        if self._type != "Reference":
            raise ExpressionError(
                f"resolve() of {shown_type(self._type)}", "leave it out: a Reference alone is resolved"
            )
        targets = self._targets.targets if self._targets is not None else frozenset()
        self._reads.append(lambda items, reading: reading.resolved(items))
        self._type = next(iter(targets)) if len(targets) == 1 else RESOURCE

    def _of_type(self, type_: str) -> None:
        if self._type == type_:
            return
        if self._type != RESOURCE:
            raise ExpressionError(f"ofType({type_}) of {shown_type(self._type)}", "leave it out")
        if type_ not in resource_types():
            raise ExpressionError(f"unknown resource {type_!r}", nearest(type_, resource_types()))
        self._type = type_
        self._reads.append(lambda items, _: [one for one in items if one.get("resourceType") == type_])


def compile_path(path: FhirPath, type_: str, make_test: MakeTest) -> CompiledPath:
    """Return a checked path from an item of a type; ExpressionError for what FHIR R4 or the subset does not have."""
    return _PathCompilation(type_, make_test).compiled(path)


def _child(name: str, index: int | None) -> Read:
    def read(items: Values, _: ChangeReading) -> Values:
        found: Values = []
        for item in items:
            value = item.get(name) if isinstance(item, dict) else None
            if value is None:
                continue
            values = value if isinstance(value, list) else (value,)
            found += [one for one in values if one is not None]
        return found if index is None else found[index : index + 1]

    return read


def _extension(url: str) -> Read:
    def read(items: Values, _: ChangeReading) -> Values:
        return [one for item in items for one in _extensions(item) if one.get("url") == url]

    return read


def _extensions(item: Any) -> Iterable[Any]:
    found = item.get("extension") if isinstance(item, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else ()


def _where(test: Callable[[Any, ChangeReading], bool]) -> Read:
    return lambda items, reading: [one for one in items if test(one, reading)]


def _newest(path: CompiledPath) -> Read:
    """Return what orders items by a time, the newest first; those without one come last, in their order."""

    def key(item: Any, reading: ChangeReading) -> float:
        found = path.read([item], reading)
        try:
            moment = datetime.fromisoformat(str(found[0])) if found else None
        except ValueError:
            moment = None
        if moment is None:
            return float("inf")
        return -(moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    return lambda items, reading: sorted(items, key=lambda item: key(item, reading))


def _skip(count: int) -> Read:
    return lambda items, _: items[count:]


def _first(items: Values, _: ChangeReading) -> Values:
    return items[:1]


def _last(items: Values, _: ChangeReading) -> Values:
    return items[-1:]

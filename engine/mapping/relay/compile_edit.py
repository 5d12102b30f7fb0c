"""Compiles the edit of a relay: paths, values and conditions, each fault with its place in the channel's file."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from engine.config.relay import EditStep
from engine.errors import PathError
from engine.hl7.lines import KNOWN, is_own
from engine.hl7.path import Path
from engine.hl7.path import parse_path as parse_place
from engine.hl7.segment import HEADERS
from engine.mapping.files.reference import STANDARD, ReferenceElement, nearest, segments
from engine.mapping.language.check import path_fault
from engine.mapping.language.expression import (
    SEGMENT,
    Alternative,
    Constant,
    ExpressionError,
    Guard,
    RepetitionPath,
    SegmentPath,
    parse_expression,
    parse_path,
)
from engine.mapping.language.node import Test
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.relay.message_edit import HEADER, CompiledEditStep, CopiedPart, SetPart, Value
from engine.mapping.subject.filters import note_impossible

SET: Final = "set"
REMOVE: Final = "remove"
WHEN: Final = "when"
TEXT: Final = ReferenceElement("string", many=False)
REMOVABLE: Final = "expected a path such as PID-3 or PID-3[CX.5=MR].1, or a segment such as ZPI"
PLACES: Final = "expected a path such as PID-3, PID-3(2).1 or PID-3[CX.5=MR].1"
QUOTED: Final = "write a path such as PID-3.1, or put a text in quotes: \"'RIS'\""
# MSH-1 and MSH-2 are no parts as sent: elsewhere they would delimit.
DELIMITERS: Final = 2
# What looks like a path: a text that begins so has to be one, or be quoted.
_LIKE_A_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{2}-\d|[A-Za-z]{2,3}\.\d")
_ALL_QUOTED: Final = re.compile(r"'[^']+'")
# Fields of MSH that no step may change, and what is to be done.
_FIXED: Final = {
    1: ("MSH-1, the field separator of the message", "leave it out: delimiters stay as they came in"),
    2: ("MSH-2, the delimiters of the message", "leave it out: delimiters stay as they came in"),
    10: ("MSH-10, by which an answer is known", "leave it out: it stays, or with `control_id: own` is the engine's"),
}


class _Part(NamedTuple):
    """What a step changes, a path or a segment, with its text and its place in the file."""

    scope: Scope
    text: str
    part: Path | str


def compile_steps(compiler: Compiler, steps: Sequence[EditStep], scope: Scope) -> tuple[CompiledEditStep, ...]:
    """Compile the steps of an edit, in their order; faults are noted, and what they are in is left out.

    `scope`: the place of the list in the channel's file.
    """
    return tuple(_step(compiler, number, step, scope.at(number)) for number, step in enumerate(steps))


def _step(compiler: Compiler, number: int, step: EditStep, scope: Scope) -> CompiledEditStep:
    file, line = scope.document.place(scope.path)
    parts: list[_Part] = []
    sets: list[SetPart] = []
    for name, text in step.set.items():
        here = scope.at(SET, name)
        path = _path(compiler, name, here)
        if path is None:
            continue
        sets.append(SetPart(path, str(path), _values(compiler, text, path, here)))
        first = path.repetition is None and path.predicate is None
        parts.append(_Part(here, name, replace(path, repetition=1) if first else path))
    for at, text in enumerate(step.remove):
        here = scope.at(REMOVE, at)
        part = _segment(compiler, text, here) if SEGMENT.fullmatch(text) else _path(compiler, text, here, REMOVABLE)
        if part is not None:
            parts.append(_Part(here, text, part))
    _overlaps(compiler, parts)
    removed = [one.part for one in parts[len(sets) :]]
    empties = tuple(one for one in removed if isinstance(one, Path))
    names = tuple(one for one in removed if isinstance(one, str))
    return CompiledEditStep(number + 1, file, line, _condition(compiler, step, scope), tuple(sets), empties, names)


def _condition(compiler: Compiler, step: EditStep, scope: Scope) -> Test | None:
    if not step.when:
        return None
    here = scope.at(WHEN)
    condition = compiler.condition(step.when, here)
    if condition is None:
        return None
    note_impossible(compiler, condition, here)
    return compiler.check(Guard(condition, unless=False), here).test


def _segment(compiler: Compiler, name: str, scope: Scope) -> str | None:
    """Return the name of a segment that may be taken out; None, and a problem, for another one."""
    if name in HEADERS:
        compiler.problem(scope, f"{name}, without which there is no message", "remove single fields, such as MSH-8")
        return None
    if not is_own(name) and name not in KNOWN:
        compiler.problem(scope, f"unknown segment {name!r}", nearest(name, segments(), STANDARD))
        return None
    return name


def _path(compiler: Compiler, text: str, scope: Scope, expected: str = PLACES) -> Path | None:
    """Return a path that may be changed; None, and a problem, for another text."""
    head = parse_path(text)
    try:
        path = parse_place(text)
    except PathError:
        path = None
    if path is None or not isinstance(head, SegmentPath):
        upper = text.upper()
        compiler.problem(
            scope, f"found {text!r}", f"did you mean {upper!r}?" if upper != text and _is_path(upper) else expected
        )
        return None
    if path.segment == HEADER and path.field in _FIXED:
        compiler.problem(scope, *_FIXED[path.field])
        return None
    if fault := path_fault(head, Scope(scope.document, scope.path)):
        compiler.problem(scope, *fault)
        return None
    return path


def _is_path(text: str) -> bool:
    return isinstance(parse_path(text), SegmentPath)


def _values(compiler: Compiler, text: str, path: Path, scope: Scope) -> tuple[Value, ...]:
    """Return the values of a part, the first of which that there is is written; (), and a problem, for a bad text."""
    inner = Scope(scope.document, scope.path, path.segment)
    if text in {"", "''"}:
        compiler.problem(
            scope, "an empty text", f"write remove: [{path}] in place of it, or '\"\"' for the null of HL7"
        )
        return ()
    if literal := _literal(text):
        return (literal,)
    try:
        alternatives = parse_expression(text) if _is_expression(text) else ()
    except ExpressionError as error:
        compiler.problem(scope, error.found, error.expected)
        return ()
    if not alternatives or isinstance(alternatives[0].head, RepetitionPath):
        compiler.problem(scope, f"found {text!r}", QUOTED)
        return ()
    # As a whole first, for what is wrong between alternatives.
    whole = compiler.expression(text, inner, TEXT)
    _one_text(compiler, [one for one in alternatives if not _copies(one, path)], path, scope)
    if not any(_copies(one, path) for one in alternatives):
        return (whole.step,)
    return tuple(_value(compiler, one, path, inner) for one in alternatives)


def _literal(text: str) -> str:
    """Return the text that a value writes as it is, '' for another value."""
    if _ALL_QUOTED.fullmatch(text):
        return text[1:-1]
    return "" if _is_expression(text) or "|" in text else text


def _is_expression(text: str) -> bool:
    return text[0] == "'" or _LIKE_A_PATH.match(text) is not None


def _copies(one: Alternative, path: Path) -> bool:
    """True if an alternative copies a part as sent: a path without functions to a part of the same kind."""
    head = one.head
    if not isinstance(head, SegmentPath) or not all(isinstance(stage, Guard) for stage in one.stages):
        return False
    if head.segment in HEADERS and head.field <= DELIMITERS:
        return False
    return (bool(head.component), bool(head.subcomponent)) == (
        path.component is not None,
        path.subcomponent is not None,
    )


def _value(compiler: Compiler, one: Alternative, path: Path, scope: Scope) -> Value:
    if not _copies(one, path):
        return compiler.expression(str(one), scope, TEXT).step
    guards = [stage for stage in one.stages if isinstance(stage, Guard)]
    tests = tuple((compiler.check(guard, scope).test, guard.unless) for guard in guards)
    try:
        return CopiedPart(parse_place(str(one.head)), tests)
    except PathError:
        compiler.problem(scope, f"found {str(one.head)!r}", PLACES)
        return ""


def _one_text(compiler: Compiler, alternatives: Sequence[Alternative], path: Path, scope: Scope) -> None:
    """Note a text that is read of the message and would replace all components of a field."""
    field = segments().get(path.segment, {}).get(path.field)
    made = any(not isinstance(one.head, Constant) for one in alternatives)
    if made and path.component is None and field is not None and field.most > 1:
        found = f"one text for all of {path}, which has {field.most} components"
        compiler.problem(scope, found, f"name the component that it is for, such as {path}.1")


def _overlaps(compiler: Compiler, parts: Sequence[_Part]) -> None:
    """Note parts that a step changes twice: in which order would then matter."""
    for number, (here, text, part) in enumerate(parts):
        other = next((one.text for one in parts[:number] if _meet(one.part, part)), "")
        if other:
            found = f"{text}, which {other} of this step changes too" if other != text else f"{text} twice in one step"
            compiler.problem(here, found, "take one of them out, or write two steps: they are done in their order")


def _meet(one: Path | str, other: Path | str) -> bool:
    """True if two parts, or segments, may have something in common."""
    if isinstance(one, str) or isinstance(other, str):
        names = [part if isinstance(part, str) else part.segment for part in (one, other)]
        return names[0] == names[1]
    if (one.segment, one.field) != (other.segment, other.field):
        return False
    if one.predicate is not None and other.predicate is not None:
        if one.predicate != other.predicate and one.predicate.component == other.predicate.component:
            return False
    elif one.repetition is not None and other.repetition is not None and one.repetition != other.repetition:
        return False
    pairs = ((one.component, other.component), (one.subcomponent, other.subcomponent))
    return all(None in pair or pair[0] == pair[1] for pair in pairs)

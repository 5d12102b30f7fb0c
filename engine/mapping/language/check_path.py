"""Checks of paths: whether HL7 has the field, component and subcomponent, and whether they can be read here."""

import re
from difflib import get_close_matches
from typing import Final

from engine.mapping.files.reference import STANDARD, Hl7Field, data_types, nearest, parts, segments
from engine.mapping.language.expression import Alternative, Condition, Guard, Head, RepetitionPath, SegmentPath, Term
from engine.mapping.language.scope import Scope

Fault = tuple[str, str]
CODED: Final = frozenset({"CWE", "CE", "CNE", "IS", "ID", "CF"})
OPEN: Final = frozenset({"-", "varies"})
EVENT: Final = re.compile(r"A(?:0[1-9]|[1-5]\d|6[0-2])|[B-Z]\d\d")
EVENTS: Final = frozenset(f"A{number:02}" for number in range(1, 63))


def path_fault(head: SegmentPath | RepetitionPath, scope: Scope) -> Fault | None:
    """Return what is wrong with a path and what is expected; None for a good one."""
    return _part_fault(head, scope.type_) if isinstance(head, RepetitionPath) else _field_fault(head, scope)


def event_fault(term: Term) -> Fault | None:
    """Return the fault of an event test whose value is not an ADT event."""
    wrong = next((value for value in term.values if not EVENT.fullmatch(value)), None)
    return (f"unknown event {wrong!r}", event_hint(wrong)) if wrong is not None else None


def event_hint(word: str) -> str:
    """Return a hint of the nearest ADT trigger event; empty if none is near."""
    near = get_close_matches(word, sorted(EVENTS), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "expected a trigger event such as A01"


def never(one: Alternative) -> bool:
    """True if a condition requires that the alternative's own path is empty, so that it never has a value."""
    return any(isinstance(stage, Guard) and _forbids(stage.condition, one.head, stage.unless) for stage in one.stages)


def _forbids(condition: Condition, head: Head, unless: bool) -> bool:
    valued, empty = (Term(head, (), negated) for negated in (False, True))  # type: ignore[arg-type]  # a path that no term has equals none
    if unless:
        return any(group == (valued,) for group in condition)
    return all(empty in group for group in condition)


def _field_fault(head: SegmentPath, scope: Scope) -> Fault | None:
    if scope.type_ and head.segment == scope.segment:
        return f"a path into {head.segment} from within one of its repetitions", f"use {scope.type_}.1 or the like"
    if head.segment[0] == "Z":
        return None
    fields, name = segments().get(head.segment), f"{head.segment}-{head.field}"
    if fields is None:
        return f"unknown segment {head.segment!r}", nearest(head.segment, segments(), STANDARD)
    if head.field not in fields:
        return f"unknown field {name}", f"{head.segment} has the fields 1 to {max(fields)}"
    return _known_field_fault(head, fields[head.field], name)


def _known_field_fault(head: SegmentPath, field: Hl7Field, name: str) -> Fault | None:
    if field.type_ in OPEN:
        return None
    return _predicate_fault(head, field, name) or _component_fault(head, field, name)


def _predicate_fault(head: SegmentPath, field: Hl7Field, name: str) -> Fault | None:
    if not head.where:
        return None
    if head.type_ != field.type_ and not {head.type_, field.type_} <= CODED:
        return (
            f"a choice by {head.type_}.{head.where}",
            f"{name} is of type {field.type_}: choose by {field.type_}.1 or the like",
        )
    if head.where > max(field.most, 1):
        return (
            f"unknown component {head.type_}.{head.where}",
            f"{field.type_} has {field.most} components: name one of them",
        )
    return None


def _component_fault(head: SegmentPath, field: Hl7Field, name: str) -> Fault | None:
    if head.component > max(field.most, 1):
        has = (
            f"which has {field.most} components: name one of them"
            if field.most
            else "which has no components: leave it out"
        )
        return f"unknown component {head.component}", f"{name} is of type {field.type_}, {has}"
    return _small_fault(head.subcomponent, field.type_, head.component, f"{name}.{head.component}")


def _part_fault(head: RepetitionPath, type_at_hand: str) -> Fault | None:
    count = data_types().get(head.type_)
    if count is None and (head.type_ in segments() or (len(head.type_) == 3 and head.type_[0] == "Z")):
        parts_ = [str(number) for number in (head.component or 1, head.subcomponent) if number]
        return f"unknown data type {head.type_!r}", f"did you mean {head.type_}-{'.'.join(parts_)}?"
    if count is None:
        return f"unknown data type {head.type_!r}", nearest(head.type_, data_types(), STANDARD)
    if not type_at_hand:
        return f"{head.type_} has no repetition at hand", "use a field such as PID-3.1"
    if head.component > max(count, 1):
        return (
            f"unknown component {head.type_}.{head.component}",
            f"{head.type_} has {count} components: name one of them",
        )
    if type_at_hand not in {*OPEN, head.type_} and not {head.type_, type_at_hand} <= CODED:
        return f"a path into {head.type_}", f"here a {type_at_hand} is at hand: use {type_at_hand}.1 or the like"
    return _small_fault(head.subcomponent, head.type_, head.component, f"{head.type_}.{head.component}")


def _small_fault(number: int, type_: str, component: int, name: str) -> Fault | None:
    most = parts(type_, component)
    if number > max(most, 1):
        return (
            f"unknown subcomponent {number}",
            f"{name} has {most} subcomponents: name one of them"
            if most
            else f"{name} has no subcomponents: leave it out",
        )
    return None

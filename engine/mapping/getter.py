"""Paths and conditions compiled to closures over what is being read.

A step takes the scope at hand (a segment, the cells of a repetition, or nothing of its own) and the reading; it returns
None where the message says nothing, NULL where it deletes, else a value.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

from engine.hl7.leaf import NULL
from engine.hl7.message import Segment
from engine.mapping.expression import EVENT, Condition, Field, Part, Term
from engine.mapping.kit import Takes
from engine.mapping.reading import Cells, Reading

Step = Callable[[Any, Reading], Any]
Test = Callable[[Any, Reading], bool]


def field_step(path: Field, takes: Takes, segment_at_hand: str) -> Step:
    """Return a step for a path into a segment: the one at hand if it is of that name, else the patient's first."""
    find = _at_hand if segment_at_hand == path.segment else _first(path.segment)
    if takes is Takes.ALL:
        return _all(path, find)
    if takes is Takes.CELLS:
        return _cells(path, find)
    return _chosen_text(path, find) if path.where else _text(path, find)


def part_step(path: Part, takes: Takes) -> Step:
    """Return a step for a path into the cells at hand."""
    if takes is not Takes.TEXT:
        return _whole(path.component)
    if path.component == 0:
        return _part(1)
    if path.subcomponent > 1:
        component, subcomponent = path.component, path.subcomponent
        return lambda scope, _: scope.leaf(component, subcomponent)
    return _part(path.component)


def condition_test(condition: Condition, segment_at_hand: str) -> Test:
    """Return a test of a condition."""
    groups = [reduce(_both, [_term_test(term, segment_at_hand) for term in group]) for group in condition]
    return reduce(_either, groups)


def _both(one: Test, other: Test) -> Test:
    return lambda scope, reading: one(scope, reading) and other(scope, reading)


def _either(one: Test, other: Test) -> Test:
    return lambda scope, reading: one(scope, reading) or other(scope, reading)


def _term_test(term: Term, segment_at_hand: str) -> Test:
    values, negated, source = frozenset(term.values), term.negated, term.source
    if source == EVENT:
        return lambda _, reading: (reading.event in values) != negated
    if isinstance(source, Field):
        step = field_step(source, Takes.TEXT, segment_at_hand)
    elif isinstance(source, Part) and values and source.subcomponent <= 1:
        return _part_test(max(source.component, 1) - 1, values, negated)
    else:
        step = part_step(source, Takes.TEXT)  # type: ignore[arg-type]  # a part: all else is told above
    if not values:
        return lambda scope, reading: isinstance(step(scope, reading), str) != negated
    return lambda scope, reading: (step(scope, reading) in values) != negated


def _part_test(index: int, values: frozenset[str], negated: bool) -> Test:
    def test(scope: Any, _: Reading) -> bool:
        first = scope.first
        return ((first[index] or None if index < len(first) else None) in values) != negated

    return test


def _at_hand(scope: Any, _: Reading) -> Segment | None:
    segment: Segment = scope
    return segment


def _first(name: str) -> Callable[[Any, Reading], Segment | None]:
    return lambda _, reading: reading.first.get(name)


def _text(path: Field, find: Callable[[Any, Reading], Segment | None]) -> Step:
    number, component, subcomponent = path.field, path.component or 1, path.subcomponent or 1
    repetition, place = path.repetition or 1, f"{path.segment}-{path.field}"

    def step(scope: Any, reading: Reading) -> Any:
        segment = find(scope, reading)
        if segment is None or not segment.field(number):
            return None
        reading.place = place
        value = segment.leaf(number, component, subcomponent, repetition)
        return (value.strip() or None) if isinstance(value, str) else value

    return step


def _chosen_text(path: Field, find: Callable[[Any, Reading], Segment | None]) -> Step:
    component, subcomponent, cells = path.component or 1, path.subcomponent or 1, _cells(path, find)

    def step(scope: Any, reading: Reading) -> Any:
        chosen = cells(scope, reading)
        return chosen.leaf(component, subcomponent) if isinstance(chosen, Cells) else chosen

    return step


def _cells(path: Field, find: Callable[[Any, Reading], Segment | None]) -> Step:
    number, place, choose = path.field, f"{path.segment}-{path.field}", _chooser(path)
    component = path.component

    def step(scope: Any, reading: Reading) -> Any:
        segment = find(scope, reading)
        if segment is None or not segment.field(number):
            return None
        reading.place = place
        cells = choose(segment)
        if cells is None:
            return None
        if component:
            cells = cells.subcomponents(component)
            if not any(cells.first) and NULL not in cells.first:
                return None
        return NULL if _deleted(cells) else cells

    return step


def _chooser(path: Field) -> Callable[[Segment], Cells | None]:
    number, where, equals, index = path.field, path.where, path.equals, max(path.repetition, 1) - 1

    def equal(segment: Segment) -> Cells | None:
        pairs = zip(segment.repetitions(number), segment.cells(number), strict=True)
        return next((cells for one, cells in pairs if one.leaf(where) == equals), None)

    def at(segment: Segment) -> Cells | None:
        every = segment.cells(number)
        return every[index] if index < len(every) else None

    return equal if where else at


def _all(path: Field, find: Callable[[Any, Reading], Segment | None]) -> Step:
    number, place = path.field, f"{path.segment}-{path.field}"

    def step(scope: Any, reading: Reading) -> Any:
        segment = find(scope, reading)
        if segment is None or not segment.field(number):
            return None
        reading.place = place
        every = segment.cells(number)
        return NULL if all(_deleted(cells) for cells in every) else every

    return step


def _deleted(cells: Cells) -> bool:
    """Say whether something in the cells is deleted and nothing valued."""
    return NULL in cells.first and not any(cells.first)


def _part(component: int) -> Step:
    index = component - 1

    def step(scope: Any, _: Reading) -> Any:
        first = scope.first
        if index >= len(first):
            return None
        value = first[index]
        return None if value == "" else value

    return step


def _whole(component: int) -> Step:
    if not component:
        return lambda scope, _: scope

    def step(scope: Any, _: Reading) -> Any:
        cells = scope.subcomponents(component)
        if any(cells.first):
            return cells
        return NULL if NULL in cells.first else None

    return step
